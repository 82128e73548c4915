// Bulk inserts: frames and events of many runs in one statement each, which are nearly all writes.
import type { NewEventRow } from '../sql/events.ts'
import type { Segment } from '../store.ts'
import type { Db } from './db.ts'
import { byteStrings, numbers, texts } from './text.ts'

/** A segment to write. */
export interface RunSegment {
  readonly run_key: number
  readonly segment: Segment
}

/** Segments of any runs in one statement. */
export function insertFrames(db: Db, list: readonly RunSegment[]): Promise<number> {
  const sql = `INSERT INTO frames (run_key, first_n, last_n, epoch, bytes, idx, data)
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::integer[], $6::bytea[], $7::bytea[])`
  return db.changes(sql, [
    numbers(list.map((one) => one.run_key)),
    numbers(list.map((one) => one.segment.first)),
    numbers(list.map((one) => one.segment.last)),
    numbers(list.map((one) => one.segment.epoch)),
    numbers(list.map((one) => one.segment.data.length)),
    byteStrings(list.map((one) => one.segment.index)),
    byteStrings(list.map((one) => one.segment.data))
  ])
}

/** The seq that the next event of a thread gets. */
export interface Counter {
  readonly thread_id: string
  readonly next_seq: number
}

const MOVE_COUNTERS = (ids: number, seqs: number) => `UPDATE threads_meta AS t SET next_seq = counter.next_seq
  FROM unnest($${ids}::text[], $${seqs}::bigint[]) AS counter (thread_id, next_seq) WHERE t.thread_id = counter.thread_id`

/** Writes the counters of these threads, which are locked. */
export function moveCounters(db: Db, counters: readonly Counter[]): Promise<number> {
  return db.changes(MOVE_COUNTERS(1, 2), counterParams(counters))
}

/**
 * Inserts events of any threads and advances their counters in one statement, because every statement costs an answer
 * that wakes both sides.
 */
export function insertEvents(db: Db, rows: readonly NewEventRow[], counters: readonly Counter[]): Promise<number> {
  const sql = `WITH moved AS (${MOVE_COUNTERS(12, 13)})
    INSERT INTO run_events (thread_id, run_id, user_id, event_type, category, content, event_metadata, message_id,
      created_at, seq, k)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
      $9::timestamptz[], $10::bigint[], $11::integer[])`
  return db.changes(sql, [
    texts(rows.map((row) => row.thread_id)),
    texts(rows.map((row) => row.run_id)),
    texts(rows.map((row) => row.user_id)),
    texts(rows.map((row) => row.event_type)),
    texts(rows.map((row) => row.category)),
    texts(rows.map((row) => row.content)),
    texts(rows.map((row) => row.event_metadata)),
    texts(rows.map((row) => row.message_id)),
    texts(rows.map((row) => row.created_at)),
    numbers(rows.map((row) => row.seq)),
    numbers(rows.map((row) => row.k)),
    ...counterParams(counters)
  ])
}

function counterParams(counters: readonly Counter[]): [ids: string, seqs: string] {
  return [texts(counters.map(({ thread_id }) => thread_id)), numbers(counters.map(({ next_seq }) => next_seq))]
}
