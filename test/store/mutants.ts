// The kit catches: stores that are wrong in one thing fail the suite about it, and the one that they are made of fails none.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { MUTANTS } from '../fixtures/mutants.ts'

const SUBJECT = fileURLToPath(new URL('../fixtures/mutant.js', import.meta.url))
/** Wrong stores that there are: a guarantee of the ports may get one more, and none may lose its own. */
const FEWEST = 61
/** Children at a time. */
const AT_ONCE = 2

/** True: the suite found nothing wrong with this one. */
function passes(mutant: string, suite: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, TAP_BAIL: '1', TAP_TIMEOUT: '120' }
    const child = spawn(process.execPath, [SUBJECT, mutant, suite], { env, stdio: 'ignore' })
    child.on('error', reject)
    child.on('exit', (code) => resolve(code === 0))
  })
}

t.test('the store that is to be broken is right: every suite passes', { timeout: 170_000 }, async (t) => {
  t.equal(await passes('', ''), true)
})

t.test(
  `${Object.keys(MUTANTS).length} stores that are wrong in one thing are caught`,
  { timeout: 170_000 },
  async (t) => {
    const waiting = Object.entries(MUTANTS)
    const missed: string[] = []
    const work = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const [name, [suite]] = next
        if (await passes(name, suite)) missed.push(name)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, work))
    t.strictSame(missed, [])
    t.ok(Object.keys(MUTANTS).length >= FEWEST, 'and none has gone')
  }
)
