// The index of words: what it takes on disk beside the texts, what its filters say, and what becomes of the index of an older version.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { fill, type Indexed, KINDS, postgres, sqlite } from '../../bench/search.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { wordReads } from '../../lib/store/sql/search.ts'
import { runLater } from '../../lib/store/sql/steps.ts'
import { matching, packed, toBlockText, unpacked } from '../../lib/store/sql/word-blocks.ts'
import { hasPlaces, placesFor, WordFilter } from '../../lib/store/sql/word-filter.ts'
import type { Store } from '../../lib/store/store.ts'
import { BACKENDS } from '../fixtures/backends.ts'
import { oldPostgres, oldSqlite } from '../fixtures/old-schema.ts'
import { createDatabase, migratedDatabase } from '../fixtures/postgres.ts'
import { SEED, sized } from '../fixtures/size.ts'

/** Bytes on disk for one of text, at most. */
const RATIO = 1.5

const INDEXES: Readonly<Record<string, () => Promise<Indexed>>> = {
  sqlite,
  async postgres() {
    const database = await migratedDatabase()
    const index = await postgres(database.url)
    return { ...index, close: () => index.close().then(() => database.remove()) }
  }
}

for (const backend of BACKENDS.filter((one) => one !== 'memory'))
  for (const [kind, maker] of Object.entries(KINDS))
    t.test(`words take at most ${RATIO} times their text: ${kind} (${backend})`, async (t) => {
      const index = await INDEXES[backend]!()
      t.teardown(() => index.close())
      const { ratio } = await fill(index, maker(), sized(500_000, 3_000_000))
      t.ok(ratio <= RATIO, ratio.toFixed(2))
    })

const word = fc.oneof(
  fc.constantFrom('a', 'is', 'so', 'ox', '天气', '气很', '很好', '好', '🎉🎉', '🎉', '한국', 'über', 'word'),
  fc.string({ unit: fc.constantFrom('a', 'b', 'é', '天', '𝒳', '7'), minLength: 1, maxLength: 9 })
)
const texts = fc.array(
  fc.record({
    seq: fc.nat(1e9),
    at: fc.integer({ min: 0, max: 4e12 }).map((ms) => new Date(ms).toISOString().replace('Z', '+00:00')),
    words: fc.uniqueArray(word, { maxLength: 20 })
  }),
  { minLength: 1, maxLength: 6 }
)

t.test('a block has what was packed, and a filter says no of no word and no beginning that is there', async () => {
  await fc.assert(
    fc.asyncProperty(texts, word, async (all, other) => {
      const block = packed(all.map(toBlockText)).words
      if (JSON.stringify(unpacked(block)) !== JSON.stringify(all.map(toBlockText))) return false
      const found = matching(block, { words: [], prefix: null })
      if (found.some(({ at, seq }, nth) => at !== all[nth]!.at || seq !== all[nth]!.seq)) return false
      const filter = new WordFilter()
      for (const { words } of all) filter.add(words)
      const bits = filter.bytes(8)
      const may = (words: string[], prefix: string | null) => hasPlaces(bits, placesFor(words, prefix))
      const has = (words: string[], prefix: string | null) => matching(block, { words, prefix }).length > 0
      const beginnings = [...all.flatMap(({ words }) => words), other].map((one) => [...one].slice(0, 2).join(''))
      return (
        all.every(({ words }) => may([...words], null)) &&
        beginnings.every((beginning) => !has([], beginning) || may([], beginning))
      )
    }),
    { numRuns: 300, seed: SEED }
  )
})

t.test('unpacking what may have the words leaves the loop to others between a few blocks', async (t) => {
  const long = Array.from({ length: 1000 }, (_, n) => `word${n}`)
  const { words } = packed([{ seq: 1, ms: Date.parse('2026-01-01'), words: long }])
  const rows = Array.from({ length: 300 }, (_, n) => ({ thread_id: `t${n}`, title: null, words }))
  // A database that answers at once, in the same turn.
  const shelves = [{ id: 1, at: '2026-01-01T00:00:00.000+00:00', blocks: 300, state: 0, may: 1 }]
  const answers = [shelves, rows, shelves]
  const reads = wordReads((steps) => runLater(steps, async () => answers.shift()!), { isSet: () => 'true' })
  let turns = 0
  const count = () => {
    turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  t.teardown(() => clearImmediate(next))
  const { total } = await reads.find({ words: ['word7'], prefix: null, limit: 9, offset: 0 }, 'ann')
  t.equal(total, 300)
  t.ok(turns >= 5, `${turns} turns`)
})

// --------------------------------------------------------------------------------- the index of an older version

/** After the migration all is put there anew, by the job; until then the thread waits, and is not found. */
async function isQueued(t: Test, store: Store): Promise<void> {
  t.equal(await store.search!.waiting(null), 1)
  const wanted = { words: ['heffalump'], prefix: null, limit: 9, offset: 0 }
  t.equal((await store.search!.find(wanted, null)).total, 0)
  const [queued] = await store.search!.queued({ after: '' }, 9)
  t.match(queued, { thread_id: 't', seq: 0 })
  const texts = [{ seq: 1, at: '2026-01-01T00:00:00.000+00:00', words: ['heffalump'] }]
  await store.apply([{ ops: [{ name: 'search.put', thread_id: 't', texts, done: queued!.version }] }])
  t.equal((await store.search!.find(wanted, null)).total, 1)
  t.equal(await store.search!.waiting(null), 0)
}

const THREAD = `INSERT INTO threads_meta (thread_id, user_id, metadata_json, created_at, updated_at)
  VALUES ('t', 'u', '{}', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')`

t.test(
  'the index of an older version is gone from the file, and all its threads wait for the new one (sqlite)',
  async (t) => {
    const path = join(t.testdir(), 'old.db')
    const old = oldSqlite(path, 30)
    old.exec(THREAD)
    const text = old.prepare("INSERT INTO search_texts (thread_id, seq, at, words) VALUES ('t', ?, '', ?)")
    for (let seq = 1; seq < 300; seq++) text.run(seq, `heffalump word${seq} ${'more '.repeat(50)}`)
    old.exec('DELETE FROM search_queue')
    old.close()
    t.match(readFileSync(path, 'latin1'), /heffalump/)
    const store = await openSqliteStore(path)
    t.teardown(() => store.close())
    t.notMatch(readFileSync(path, 'latin1'), /heffalump|word299/)
    await isQueued(t, store)
  }
)

if (BACKENDS.includes('postgres'))
  t.test('the index of an older version is gone, and all its threads wait for the new one (postgres)', async (t) => {
    const database = await createDatabase()
    t.teardown(() => database.remove())
    const line = await PgConnection.open(database.url)
    await oldPostgres(line, 28)
    await line.rows(THREAD)
    await line.rows(
      "INSERT INTO search_texts (thread_id, seq, at, words) VALUES ('t', 1, now(), array_to_tsvector('{heffalump}'))"
    )
    await line.rows('DELETE FROM search_queue')
    const store = await openPostgresStore(database.url)
    t.teardown(() => store.close())
    t.strictSame(await line.rows("SELECT to_regclass('search_texts')::text AS old"), [{ old: null }])
    await line.close()
    await isQueued(t, store)
  })
