// What runs our suites sees what is wrong with one: also one that ends too early, hangs or cannot be loaded.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { suitesOf } from '../fixtures/suites.ts'
import { withSources } from '../fixtures/traces.ts'

/** This file is compiled to <build>/test/operator. */
const RUNNER = fileURLToPath(new URL('../fixtures/run-suites.js', import.meta.url))
const PASSES = "import t from 'tap'\nt.test('holds', async (t) => t.ok(true))"

interface Ran {
  readonly code: number | null
  readonly said: string
  readonly results: string
}

function run(t: Test, suites: Readonly<Record<string, string>>, timeoutS = 60, more: NodeJS.ProcessEnv = {}): Ran {
  // Below the project: they find tap from there.
  const folder = t.testdir({ in: {} })
  for (const room of ['room', 'browser']) mkdirSync(join(folder, 'in', room), { recursive: true })
  for (const [name, text] of Object.entries(suites)) writeFileSync(join(folder, 'in', `${name}.js`), text)
  const results = join(folder, 'results')
  const args = [RUNNER, '--folder', join(folder, 'in'), '--results', results, `--timeout=${timeoutS}`, '--grace=1']
  const env = { ...process.env, COLLOQUY_AGAIN: '', ...more }
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  return { code: status, said: stdout + stderr, results }
}

t.test('suites that pass are green; what they skip is counted, and their output is kept', async (t) => {
  const skips = "import t from 'tap'\nt.test('one', async (t) => t.pass('no server', { skip: 'there is none' }))"
  const { code, said, results } = run(t, { 'room/one': PASSES, two: PASSES, three: skips })
  t.equal(code, 0, said)
  t.match(said, /3 suites, 0 failed/)
  t.match(said, /skipped 1: there is none/)
  t.match(readFileSync(join(results, 'room', 'one.tap'), 'utf8'), /ok 1 - holds/)
  t.strictSame(readdirSync(results).toSorted(), ['room', 'three.tap', 'two.tap'])
})

const WRONG: Readonly<Record<string, string>> = {
  'an assertion that fails': "import t from 'tap'\nt.test('breaks', async (t) => t.equal(1, 2))",
  'an exception': "import t from 'tap'\nt.test('breaks', async () => { throw new Error('thrown') })",
  'an exception outside of its tests': `${PASSES}\nsetTimeout(() => { throw new Error('thrown') }, 5)`,
  'a file that cannot be loaded': "import { none } from 'tap'\nnone()",
  'an end before all tests are over': `${PASSES}\nt.test('never', async () => process.exit(0))\nt.test('nor this', async () => {})`,
  'a teardown that fails': `${PASSES}\nt.teardown(async () => { await null; throw new Error('thrown') })`,
  'a process that is killed': `${PASSES}\nt.test('dies', async () => process.kill(process.pid, 'SIGKILL'))`,
  'no test at all': "import 'tap'"
}

for (const [what, text] of Object.entries(WRONG))
  t.test(`a suite with ${what} fails the run, and is named`, async (t) => {
    const { code, said } = run(t, { good: PASSES, bad: text })
    t.equal(code, 1, said)
    t.match(said, /FAILED bad: /)
    t.match(said, /2 suites, 1 failed/)
    t.match(said, /^failed: bad$/m)
  })

const ENDLESS: Readonly<Record<string, string>> = {
  'something left to do': `${PASSES}\nsetInterval(() => {}, 100)`,
  'a test that never ends': `${PASSES}\nt.test('never', async () => new Promise(() => setInterval(() => {}, 100)))`,
  'a loop that never ends': `${PASSES}\nt.test('never', async () => { for (;;); })`
}

for (const [what, text] of Object.entries(ENDLESS))
  t.test(`a suite with ${what} is ended, and fails the run`, async (t) => {
    const { code, said } = run(t, { bad: text }, 1)
    t.equal(code, 1, said)
    t.match(said, /1 suites, 1 failed/)
  })

t.test(
  'at the gate, who depends on a browser has a second try: told as unstable, and no other suite has one',
  async (t) => {
    const gate = { COLLOQUY_AGAIN: '1' }
    const onlyOnce = `import t from 'tap'\nimport { existsSync, writeFileSync } from 'node:fs'
    const mark = new URL('./mark', import.meta.url), isFirst = !existsSync(mark)\nwriteFileSync(mark, '')
    t.test('holds', async (t) => t.notOk(isFirst))`
    const unstable = run(t, { good: PASSES, 'browser/bad': onlyOnce }, 60, gate)
    t.equal(unstable.code, 0, unstable.said)
    t.match(unstable.said, /FAILED browser\/bad: .*unstable: browser\/bad failed.*2 suites, 0 failed/s)
    t.match(readFileSync(join(unstable.results, 'browser', 'bad.tap.first'), 'utf8'), /not ok 1/)

    const always = 'an assertion that fails'
    for (const [suites, environment] of [
      [{ 'browser/bad': onlyOnce }, {}],
      [{ 'room/bad': onlyOnce }, gate],
      [{ 'browser/bad': WRONG[always]! }, gate],
      [{ 'browser/bad': onlyOnce, 'room/bad': WRONG[always]! }, gate]
    ] as const) {
      const { code, said } = run(t, suites, 60, environment)
      t.equal(code, 1, said)
      t.match(said, /^failed: .*bad$/m)
    }
  }
)

t.test('what fails is told with its line in the sources, which suites themselves do not know', async (t) => {
  const trace = withSources(new Error('thrown').stack ?? '')
  const [, line] = /test\/operator\/suites\.ts:(\d+):\d+/.exec(trace) ?? []
  const source = readFileSync(fileURLToPath(new URL('../../../test/operator/suites.ts', import.meta.url)), 'utf8')
  t.match(source.split('\n')[Number(line) - 1], /new Error\('thrown'\)/, trace)
  t.equal(withSources('a/b.js:1:2 and dist/lib/none.js:3:4'), 'a/b.js:1:2 and dist/lib/none.js:3:4')
})

t.test('every suite is found, and of the fast ones none is of another folder', async (t) => {
  const names = suitesOf().map(({ name }) => name)
  t.ok(names.length > 200, `${names.length}`)
  for (const name of ['rules', 'hostile/walk', 'operator/suites']) t.ok(names.includes(name), name)
  const fast = suitesOf({ fast: true }).map(({ name }) => name)
  t.ok(fast.length > 80 && fast.every((name) => names.includes(name)))
  for (const name of ['http/deletion', 'store/copy']) t.notOk(fast.includes(name), `${name} starts others`)
  t.strictSame(
    fast.filter((name) => /^(browser|client|crash|hostile|operator)\//.test(name)),
    []
  )
})
