// The page's journey and its features: each part of them has a test that looks for it, and that test is there.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FEATURES, IN_FIREFOX, PARTS } from './fixtures/journey-rows.ts'
import { TESTS, testsIn } from './fixtures/titles.ts'

const STEPS = 40
const rows: readonly string[] = [...Array.from({ length: STEPS }, (_, n) => String(n + 1)), ...FEATURES, ...IN_FIREFOX]

t.test('each step of the journey and each feature of the table has a test', async (t) => {
  const named = PARTS.map(({ row }) => row)
  t.same(
    rows.filter((row) => !named.includes(row)),
    []
  )
  t.same(
    named.filter((row) => !rows.includes(row)),
    [],
    'and no other'
  )
})

t.test('the test of each part of a step is there, and is meant by no other name of its suite', async (t) => {
  const wrong = PARTS.filter(({ suite, test }) => {
    const file = `${suite}.ts`
    if (!existsSync(join(TESTS, file))) return true
    return testsIn(file).filter(({ name }) => name.includes(test)).length !== 1
  })
  t.same(
    wrong.map(({ row, seen, suite, test }) => `${row}: ${seen}: ${suite}: ${test}`),
    []
  )
})
