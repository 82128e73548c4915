// The kit catches: stores that are wrong in one thing fail the suite about it, and the one that they are made of fails none.
import t from 'tap'
import { SUITES } from '../contract/index.ts'
import { passes } from '../fixtures/mutant.ts'
import { MUTANTS } from '../fixtures/mutants.ts'

/** Wrong stores that there are: a guarantee of the ports may get one more, and none may lose its own. */
const FEWEST = 61
/** Of all together: many times what they take. */
const TIMEOUT_MS = 300_000

t.test('the store that is to be broken is right: every suite passes', { timeout: TIMEOUT_MS }, async (t) => {
  for (const suite of Object.keys(SUITES)) t.equal(await passes(suite), true, suite)
})

t.test(
  `${Object.keys(MUTANTS).length} stores that are wrong in one thing are caught`,
  { timeout: TIMEOUT_MS },
  async (t) => {
    for (const [name, [suite, mutation]] of Object.entries(MUTANTS)) t.equal(await passes(suite, mutation), false, name)
    t.ok(Object.keys(MUTANTS).length >= FEWEST, 'and none has gone')
  }
)
