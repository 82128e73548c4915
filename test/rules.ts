// The rules of the spec and their proofs: each numbered one has a test that names it, on every store where a store has a part.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { MUTANTS } from './fixtures/mutants.ts'
import { PROOFS, STORE_PROOFS } from './fixtures/proofs.ts'
import { type Named, TESTS, testsIn } from './fixtures/titles.ts'

/** How many numbered rules there are: of Authentication, Users and Events in the spec, of stores in lib/store/store.ts. */
const RULES = { Auth: 15, User: 4, Events: 10, Store: 12 } as const

const named = readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .flatMap(testsIn)

/** `[Auth 7]` and `[User 1, 2]` name rules. */
function names(name: string, chapter: string, rule: number): boolean {
  const tags = [...name.matchAll(new RegExp(`\\[${chapter} ([\\d, ]+)\\]`, 'g'))]
  return tags.some(([, numbers = '']) => numbers.split(/[, ]+/).includes(String(rule)))
}

function unproved(chapter: keyof typeof RULES, tests: readonly Named[]): string[] {
  const rules = Array.from({ length: RULES[chapter] }, (_, i) => i + 1)
  const missing = rules.filter((rule) => !tests.some(({ name }) => names(name, chapter, rule)))
  return missing.map((rule) => `[${chapter} ${rule}]`)
}

t.test('every numbered rule of the spec, and every guarantee of a store, has a test that names it', async (t) => {
  t.strictSame(
    (['Auth', 'User', 'Events', 'Store'] as const).flatMap((chapter) => unproved(chapter, named)),
    []
  )
})

t.test('every rule of authentication is proved on every store of ours', async (t) => {
  t.strictSame(
    unproved(
      'Auth',
      named.filter(({ onEach }) => onEach)
    ),
    []
  )
})

t.test(
  'every numbered rule has a proof: a test that was seen to fail when the rule is broken (npm run test:mutants)',
  async (t) => {
    const proved = new Set([...PROOFS, ...STORE_PROOFS].map(({ rule }) => rule))
    const rules = Object.entries(RULES).flatMap(([chapter, count]) =>
      Array.from({ length: count }, (_, n) => `${chapter} ${n + 1}`)
    )
    t.strictSame(
      rules.filter((rule) => !proved.has(rule)),
      []
    )
  }
)

/** Classes of defects have no number: a suite of each walks all of its kind. */
const CLASSES: readonly string[] = ['Bytes', 'Decisions', 'Grown']
const isClass = (chapter: string) => CLASSES.includes(chapter)

t.test(
  'the test of a proof is there, names its rule, and what is broken for it stands in the source once',
  async (t) => {
    const LIB = join(TESTS, '../lib')
    const wrong = PROOFS.flatMap(({ rule, suite, test, file, from }) => {
      const [chapter = '', number] = rule.split(' ')
      const found = testsIn(`${suite}.ts`).find(({ name }) => test.startsWith(name) || name.startsWith(test))
      const isNamed = found !== undefined && (isClass(chapter) || names(found.name, chapter, Number(number)))
      const isOnce = readFileSync(join(LIB, `${file}.ts`), 'utf8').split(from).length === 2
      return isNamed && isOnce ? [] : [`${chapter} ${number}: ${suite}: ${test}: ${file}: ${from}`]
    })
    t.strictSame(wrong, [])
    t.strictSame(
      STORE_PROOFS.filter(({ mutant }) => !MUTANTS[mutant]),
      []
    )
  }
)
