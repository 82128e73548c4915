// `npm run bench -- search`: how much disk do the words of messages take beside their text, how long does it take to put them there, and
// how long to find them? Words are drawn by Zipf's law, in English letters and in Chinese characters, so that a packer finds less in them
// than in real sentences.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import { timestamp } from '../lib/base/types.ts'
import { openPostgresStore } from '../lib/store/postgres/open.ts'
import { PgConnection } from '../lib/store/postgres/pg-connection.ts'
import { openSqliteStore } from '../lib/store/sqlite/open.ts'
import type { Op, Store } from '../lib/store/store.ts'
import { queryOf, wordsOf } from '../lib/thread/search/words.ts'
import { newThread } from '../lib/thread/thread.ts'
import type { Options } from './options.ts'
import { median, quantile, type Row, report, short } from './report.ts'

/** Messages of a thread, of which a run has two. */
const MESSAGES = 20
/** Times that PostgreSQL is vacuumed on the way: its own vacuum comes each time a fifth of the rows is dead. */
const VACUUMS = 10
const START = Date.parse('2026-01-01T00:00:00Z')

// -------------------------------------------------------------------------------------------------------- texts

/** The same numbers each time, below 1. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return state / 0x80000000
  }
}

const LETTERS = 'eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyyppbbvk'
/** By its rank a word is as frequent as in a language: the hundredth a hundredth of the first. */
const ranked = (random: () => number, count: number) => Math.floor(count ** random()) - 1

function words(count: number, make: (random: () => number, rank: number) => string): string[] {
  const random = numbers(count)
  return Array.from({ length: count }, (_, rank) => make(random, rank))
}
const english = (): string[] =>
  words(30_000, (random, rank) =>
    Array.from(
      { length: 2 + Math.floor(Math.log10(rank + 1) + random() * 4) },
      () => LETTERS[Math.floor(random() * 100)]
    ).join('')
  )
const chinese = (): string[] =>
  words(20_000, (random) =>
    Array.from({ length: random() < 0.25 ? 1 : 2 }, () =>
      String.fromCodePoint(0x4e00 + 7 * ranked(random, 2500) + 7)
    ).join('')
  )

/** A maker of messages of so many characters. */
function texts(vocabulary: readonly string[], between: string, length: number): () => string {
  const random = numbers(length)
  return () => {
    let text = ''
    while (text.length < length) text += vocabulary[ranked(random, vocabulary.length)]! + between
    return text.slice(0, length)
  }
}

export const KINDS: Readonly<Record<string, () => () => string>> = {
  'English, 600 characters': () => texts(english(), ' ', 600),
  'English, 80 characters': () => texts(english(), ' ', 80),
  'Chinese, 600 characters': () => texts(chinese(), '', 600),
  'Chinese, 80 characters': () => texts(chinese(), '', 80)
}

// ------------------------------------------------------------------------------------------------------- stores

/** A store, and how many bytes its index of words has. */
export interface Indexed {
  readonly store: Store
  bytes(): Promise<number>
  vacuum(): Promise<void>
  close(): Promise<void>
}

export async function sqlite(): Promise<Indexed> {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-search-'))
  const path = join(folder, 'colloquy.db')
  const store = await openSqliteStore(path)
  return {
    store,
    async bytes() {
      const db = new Sqlite(path, { readonly: true })
      const sql = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%search%'"
      const bytes = db.prepare<[], number>(sql).pluck().get() ?? 0
      db.close()
      return bytes
    },
    async vacuum() {},
    async close() {
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

export async function postgres(url: string): Promise<Indexed> {
  const store = await openPostgresStore(url)
  const line = await PgConnection.open(url)
  return {
    store,
    async bytes() {
      const sql = `SELECT sum(pg_total_relation_size(oid))::float8 AS bytes FROM pg_class WHERE relkind = 'r' AND relname LIKE 'search%'
        AND relnamespace = current_schema()::regnamespace`
      const [row] = await line.rows<{ bytes: number }>(sql)
      return row!.bytes
    },
    async vacuum() {
      await line.rows('VACUUM')
    },
    async close() {
      await line.close()
      await store.close()
    }
  }
}

async function write(store: Store, ops: readonly Op[]): Promise<void> {
  const [outcome] = await store.apply([{ ops }])
  if (!outcome?.ok) throw new Error(`refused: ${JSON.stringify(outcome)}`)
}

export interface Filled {
  /** Bytes of the index for one of text. */
  readonly ratio: number
  readonly messages: number
  /** Of cutting and writing, a message. */
  readonly us: number
}

/** Fills a new store with about so many bytes of text, a run at a time as they end. */
export async function fill({ store, bytes, vacuum }: Indexed, text: () => string, size: number): Promise<Filled> {
  // Of the first thread on: the first pages of all tables and indexes are there then.
  let [first, before] = [0, 0]
  let [written, messages, spent] = [0, 0, 0]
  for (let thread = 0; written < size; thread++) {
    const thread_id = `00000000-0000-4000-8000-${String(thread).padStart(12, '0')}`
    const given = { thread_id, user_id: 'somebody', assistant_id: null, metadata: {} }
    await write(store, [{ name: 'thread.create', ...newThread(given, timestamp(START)) }])
    const vacuumed = Math.floor((VACUUMS * written) / size)
    for (let seq = 1; seq <= MESSAGES; seq += 2) {
      const pair = [text(), text()]
      const began = performance.now()
      const rows = pair.map((one, at) => ({
        seq: seq + at,
        at: timestamp(START + 60_000 * messages++),
        words: wordsOf(one)
      }))
      await write(store, [{ name: 'search.put', thread_id, texts: rows, done: null }])
      spent += performance.now() - began
      for (const one of pair) written += Buffer.byteLength(one)
    }
    if (thread === 0) [first, before] = [written, await bytes()]
    else if (Math.floor((VACUUMS * written) / size) > vacuumed) await vacuum()
  }
  return { ratio: ((await bytes()) - before) / (written - first), messages, us: (1000 * spent) / messages }
}

// ------------------------------------------------------------------------------------------------------ finding

/** Times a search is asked. */
const ASKED = 40

/** How long a search takes for words that are in nearly all messages, in some, and in none, in ms: the median and the 99th of a hundred. */
async function asked({ store }: Indexed, text: () => string, words: number): Promise<string> {
  const times: number[] = []
  for (let n = 0; n < ASKED; n++) {
    const query = queryOf(
      text()
        .split(' ')
        .slice(0, words)
        .join(' ')
        .slice(0, 12 * words)
    )!
    const began = performance.now()
    await store.search!.find({ ...query, limit: 20, offset: 0 }, 'somebody')
    times.push(performance.now() - began)
  }
  return `${short(median(times).mid)}, ${short(quantile(times, 0.99))}`
}

export async function search({ quick, repeats, store }: Options): Promise<void> {
  const size = quick ? 300_000 : 3_000_000
  const rows: Row[] = []
  for (const [kind, maker] of Object.entries(KINDS))
    for (const database of ['SQLite', 'PostgreSQL']) {
      const filled: Filled[] = []
      const times: string[][] = []
      for (let repeat = 0; repeat < (quick ? 1 : repeats); repeat++) {
        const text = maker()
        const index = await (database === 'SQLite' ? sqlite() : inPostgres(store))
        filled.push(await fill(index, text, size))
        times.push([await asked(index, text, 1), await asked(index, text, 2)])
        await index.close()
      }
      rows.push({
        texts: kind,
        database,
        'bytes, a byte of text': median(filled.map(({ ratio }) => ratio)).text,
        'us a message': median(filled.map(({ us }) => us)).text,
        'a word, ms p50, p99': times.at(-1)![0]!,
        'two words': times.at(-1)![1]!
      })
    }
  report('What do the words of messages take, and how fast are they found?', { repeats, size, MESSAGES }, rows)
}

/** In a database of its own. `given`: an empty one. */
async function inPostgres(given: string | null): Promise<Indexed> {
  if (given !== null) return postgres(given)
  const { createDatabase } = await import('../test/fixtures/postgres.ts')
  const { url, remove } = await createDatabase()
  const index = await postgres(url)
  return {
    ...index,
    async close() {
      await index.close()
      await remove()
    }
  }
}
