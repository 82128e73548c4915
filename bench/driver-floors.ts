// Floors of stores: the same rows into the same tables, by the bare driver of the database and by nothing else. They are encoded,
// because that has to be done by whoever writes them; nothing is checked, counted or given a place.
import { randomUUID } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { Sqlite } from '../lib/base/sqlite-driver.ts'
import postgres from 'postgres'
import { Format } from '../lib/store/packing.ts'
import type { NewEvent, Segment } from '../lib/store/store.ts'

/** Takes events, whose seqs begin with `from`, as one transaction. */
export interface Sink {
  append(events: readonly NewEvent[], from: number): Promise<void>
  close(): Promise<void>
}

/** Takes frames of as many runs as there are segments, as one transaction. */
export interface FrameSink {
  write(segments: readonly Segment[]): void
  close(): void
}

/** As long as the names of ours: a row lies in three indexes by them. */
const THREAD = `bench-${randomUUID()}`
const RUN = `${THREAD}-run`
const COLUMNS = 'thread_id, run_id, event_type, category, content, event_metadata, seq, k, message_id, created_at'

/** `path`: a database that has our schema already, and that nobody else has open. */
export function sqliteFloor(path: string): Sink {
  const db = opened(path)
  const insert = db.prepare(`INSERT INTO run_events (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const write = db.transaction((events: readonly NewEvent[], from: number) => {
    for (const [i, event] of events.entries()) insert.run(...valuesOf(event, from + i))
  })
  return {
    append: async (events, from) => write(events, from),
    close: async () => void db.close()
  }
}

/** The same for frames. */
export function frameFloor(path: string): FrameSink {
  const db = opened(path)
  const insert = db.prepare(
    'INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data) VALUES (?, ?, ?, ?, ?, ?, ?)'
  )
  const write = db.transaction((segments: readonly Segment[]) => {
    for (const [run, { first, last, epoch, index, data }] of segments.entries())
      insert.run(run, first, last, epoch, Format.plain, index, data)
  })
  return { write, close: () => void db.close() }
}

function opened(path: string): Database.Database {
  const db = new Sqlite(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = NORMAL')
  return db
}

/** `url`: the same of a database of PostgreSQL. One statement for all rows, which is the fastest way that the driver has. */
export function postgresFloor(url: string): Sink {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  return {
    async append(events, from) {
      const rows = events.map((event, i) => valuesOf(event, from + i))
      const column = (at: number) => rows.map((row) => row[at] as string)
      await sql`
        INSERT INTO run_events (thread_id, run_id, event_type, category, content, event_metadata, seq, k, message_id, created_at)
        SELECT * FROM unnest(${column(0)}::text[], ${column(1)}::text[], ${column(2)}::text[], ${column(3)}::text[],
          ${column(4)}::text[], ${column(5)}::text[], ${column(6)}::bigint[], ${column(7)}::integer[], ${column(8)}::text[],
          ${column(9)}::timestamptz[])`
    },
    close: () => sql.end()
  }
}

/** One line an event, at the end of a file that stays open. */
export function fileFloor(folder: string): Sink {
  const file = openSync(join(folder, 'floor.jsonl'), 'a')
  return {
    async append(events, from) {
      writeSync(file, events.map((event, i) => `${JSON.stringify({ ...event, seq: from + i })}\n`).join(''))
    },
    close: async () => closeSync(file)
  }
}

function valuesOf(
  { event_type, category, content, metadata, k, created_at }: NewEvent,
  seq: number
): (string | number)[] {
  const text = JSON.stringify(content)
  return [THREAD, RUN, event_type, category, text, JSON.stringify(metadata), seq, k, `message-${k}`, created_at]
}
