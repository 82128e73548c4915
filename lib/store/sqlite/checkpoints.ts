// Checkpoints in SQLite: which bodies a state consists of, and the bodies, each kept once a version.
import type Database from 'better-sqlite3'
import {
  type CheckpointRow,
  COLUMN_NAMES,
  COLUMNS,
  type InsertBodies,
  pageWithBodies,
  putCheckpoint,
  type StateOps,
  stateWrites,
  toHead,
  type Wanted,
  wantedOf
} from '../sql/checkpoints.ts'
import { needsThread } from '../sql/threads.ts'
import { PRESENT } from '../sql/removal.ts'
import type { StepWrites } from '../sql/steps.ts'
import type { CheckpointHead, CheckpointReads, StoredCheckpoint } from '../store.ts'

/**
 * For a head: a JSON list of its columns, its key and the thread's next body number. For a body: its number, a space,
 * and its text. One column per row, because thousands of rows with two cost half as much again.
 */
type StateRow = string

interface StateParams {
  readonly thread: string
  /** A JSON list of names; null: all. */
  readonly channels: string | null
  /** 1: with the messages of the first head. */
  readonly messages: 0 | 1
}

/**
 * Heads and the bodies asked for, each once, in one statement, so that nothing can change in between. `heads` is the
 * end of a SELECT from checkpoints.
 */
function statesStatement<More extends object>(
  db: Database.Database,
  heads: string
): Database.Statement<StateParams & More, StateRow> {
  return db
    .prepare<StateParams & More, StateRow>(`
    WITH heads AS MATERIALIZED (SELECT key, ${COLUMNS} FROM checkpoints WHERE thread_id = @thread AND ${PRESENT} AND ${heads}),
      -- Read once, or their JSON would be parsed for every body that is compared with them.
      ranges AS MATERIALIZED (
        SELECT CAST(r.value ->> 0 AS INTEGER) AS first, CAST(r.value ->> 1 AS INTEGER) AS last
        FROM (SELECT messages_json FROM heads ORDER BY key DESC LIMIT 1), json_each(messages_json) AS r
        WHERE @messages),
      channels AS (
        SELECT DISTINCT c.value AS no FROM heads, json_each(channels_json) AS c
        WHERE @channels IS NULL OR c.key IN (SELECT value FROM json_each(@channels)))
    SELECT json_array(${COLUMNS}, key, (SELECT max(no) + 1 FROM checkpoint_bodies WHERE thread_id = @thread)) FROM heads
    UNION ALL
    SELECT b.no || ' ' || b.json FROM channels AS c CROSS JOIN checkpoint_bodies AS b ON b.thread_id = @thread AND b.no = c.no
    UNION ALL
    SELECT b.no || ' ' || b.json FROM ranges AS r
      CROSS JOIN checkpoint_bodies AS b ON b.thread_id = @thread AND b.no BETWEEN r.first AND r.last`)
    .pluck()
}

/** The same for one checkpoint, which every run starts with: its row is found three times, because materialising it costs more. */
function stateStatement<More extends object>(
  db: Database.Database,
  which: string
): Database.Statement<StateParams & More, StateRow> {
  const head = (columns: string) =>
    `(SELECT ${columns} FROM checkpoints WHERE thread_id = @thread AND ${PRESENT} AND ${which})`
  return db
    .prepare<StateParams & More, StateRow>(`
    SELECT json_array(${COLUMNS}, key, (SELECT max(no) + 1 FROM checkpoint_bodies WHERE thread_id = @thread))
    FROM ${head(`key, ${COLUMNS}`)}
    UNION ALL
    SELECT b.no || ' ' || b.json FROM ${head('channels_json')} AS h, json_each(h.channels_json) AS c
      CROSS JOIN checkpoint_bodies AS b ON b.thread_id = @thread AND b.no = c.value
    WHERE @channels IS NULL OR c.key IN (SELECT value FROM json_each(@channels))
    UNION ALL
    SELECT b.no || ' ' || b.json FROM ${head('messages_json')} AS h, json_each(h.messages_json) AS r
      CROSS JOIN checkpoint_bodies AS b ON b.thread_id = @thread
        AND b.no BETWEEN CAST(r.value ->> 0 AS INTEGER) AND CAST(r.value ->> 1 AS INTEGER)
    WHERE @messages`)
    .pluck()
}

/** Assembles checkpoints from these rows, newest first; the first has its messages, if asked for. */
function statesOf(rows: readonly StateRow[], wanted: Wanted): StoredCheckpoint[] {
  const heads: { readonly head: CheckpointHead; readonly key: number }[] = []
  const texts = new Map<number, string>()
  let nextBody = 0
  for (const row of rows) {
    if (row.startsWith('[')) {
      const one = headOf(row)
      heads.push(one)
      nextBody = one.nextBody
    } else {
      // Parses up to the space.
      texts.set(Number.parseInt(row, 10), row.slice(row.indexOf(' ') + 1))
    }
  }
  heads.sort((one, other) => other.key - one.key)
  const newestFirst = heads.map(({ head }) => head)
  return pageWithBodies(newestFirst, wanted, texts, nextBody)
}

function headOf(columns: string): { head: CheckpointHead; key: number; nextBody: number } {
  // The list made by `statesStatement`: COLUMNS in order, then the key and the next body number.
  const values = JSON.parse(columns) as (string | number | null)[]
  const nextBody = Number(values.pop() ?? 0)
  const key = Number(values.pop())
  const row = Object.fromEntries(COLUMN_NAMES.map((name, at) => [name, values[at]]))
  return { head: toHead(row as unknown as CheckpointRow), key, nextBody }
}

function stateParams(threadId: string, { messages, channels }: Wanted): StateParams {
  return { thread: threadId, channels: channels && JSON.stringify(channels), messages: messages ? 1 : 0 }
}

export function checkpointReads(db: Database.Database): CheckpointReads {
  const byId = stateStatement<{ id: string }>(db, 'checkpoint_id = @id')
  const last = stateStatement(db, 'TRUE ORDER BY key DESC LIMIT 1')
  const newest = statesStatement<{ limit: number }>(db, 'TRUE ORDER BY key DESC LIMIT @limit')
  const older = statesStatement<{ limit: number; before: string }>(
    db,
    `key < (SELECT key FROM checkpoints WHERE thread_id = @thread AND checkpoint_id = @before)
     ORDER BY key DESC LIMIT @limit`
  )
  return {
    async load(threadId, checkpointId, channels) {
      const wanted = wantedOf(channels)
      const params = stateParams(threadId, wanted)
      const rows = checkpointId === null ? last.all(params) : byId.all({ id: checkpointId, ...params })
      return statesOf(rows, wanted)[0] ?? null
    },
    async history(threadId, { limit, before, channels = [] }) {
      const wanted = wantedOf(channels)
      const params = { limit, ...stateParams(threadId, wanted) }
      return statesOf(before === undefined ? newest.all(params) : older.all({ before, ...params }), wanted)
    }
  }
}

const INSERT_BODY = 'INSERT INTO checkpoint_bodies (thread_id, no, json) VALUES ($1, $2, $3)'

export const insertBodies: InsertBodies = (threadId, bodies) =>
  bodies.map(({ no, json }) => ({ sql: INSERT_BODY, params: [threadId, no, json] }))

export const checkpointWrites: StepWrites<'checkpoint.put' | StateOps> = {
  ...stateWrites(insertBodies),
  *'checkpoint.put'({ name: _, ...checkpoint }) {
    yield* needsThread(checkpoint.thread_id)
    yield* putCheckpoint(checkpoint, insertBodies)
    return null
  }
}
