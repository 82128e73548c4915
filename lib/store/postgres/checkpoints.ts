// Checkpoints in PostgreSQL: which bodies a state consists of, and the bodies, each kept once a version.
import { PRESENT } from '../sql/removal.ts'
import {
  BodyMissing,
  channelsOf,
  type CheckpointRow,
  COLUMNS,
  findHead,
  type InsertBodies,
  pageWithBodies,
  putCheckpoint,
  type StateOps,
  stateWrites,
  toHead,
  type Wanted,
  wantedOf
} from '../sql/checkpoints.ts'
import type { CheckpointHead, CheckpointReads, CheckpointWrite, StoredCheckpoint } from '../store.ts'
import { type Batch, stepWriters, type Writers } from './batch.ts'
import { type Db, numbers, type ReadDb, runSteps } from './db.ts'

/**
 * Bodies of the ranges, and the thread's next body number in every row; no row at all when the checkpoint is gone: the
 * heads were read before, and the thread may have been removed and recreated in between.
 */
const BODIES = `
  SELECT b.no, b.json, (SELECT max(no) + 1 FROM checkpoint_bodies WHERE thread_id = $1) AS next
  FROM checkpoints AS c
    LEFT JOIN unnest($3::integer[], $4::integer[]) AS r (first, last) ON true
    LEFT JOIN checkpoint_bodies AS b ON b.thread_id = c.thread_id AND b.no BETWEEN r.first AND r.last
  WHERE c.thread_id = $1 AND c.checkpoint_id = $2`

interface BodyRow {
  readonly no: number | null
  readonly json: string
  readonly next: number | null
}

/** The heads, newest first, with the bodies asked for, in one query; only the first gets its messages, if asked for. */
async function filled(db: Db, heads: readonly CheckpointHead[], wanted: Wanted): Promise<StoredCheckpoint[]> {
  const [newest] = heads
  if (!newest) return []
  const ranges = wanted.messages ? newest.messages : []
  const channels = [...new Set(heads.flatMap((head) => channelsOf(head, wanted).map(([, no]) => no)))]
  const rows = await db.rows<BodyRow>(BODIES, [
    newest.thread_id,
    newest.checkpoint_id,
    numbers([...ranges.map(([first]) => first), ...channels]),
    numbers([...ranges.map(([, last]) => last), ...channels])
  ])
  const [any] = rows
  if (!any) return []
  const texts = new Map(rows.flatMap(({ no, json }) => (no === null ? [] : [[no, json]])))
  return pageWithBodies(heads, wanted, texts, any.next ?? 0)
}

/** Older than $3. A checkpoint that does not exist has no older ones. */
const OLDER = 'AND key < (SELECT key FROM checkpoints WHERE thread_id = $1 AND checkpoint_id = $3)'

/**
 * Heads and bodies never change, they only go: a pruning between the two statements is noticed by a body that is missing. Only
 * then they are read once more, in one snapshot, which costs two more commands.
 */
async function consistent<T>(db: ReadDb, read: (db: Db) => Promise<T>): Promise<T> {
  try {
    return await read(db)
  } catch (error) {
    if (!(error instanceof BodyMissing)) throw error
    return db.snapshot(read)
  }
}

export function checkpointReads(pool: ReadDb): CheckpointReads {
  return {
    load: (threadId, checkpointId, channels) =>
      consistent(pool, async (db) => {
        const head = await runSteps(db, findHead(threadId, checkpointId))
        return head && ((await filled(db, [head], wantedOf(channels)))[0] ?? null)
      }),
    history: (threadId, { limit, before, channels = [] }) =>
      consistent(pool, async (db) => {
        const sql = `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = $1 AND ${PRESENT} ${before === undefined ? '' : OLDER}
          ORDER BY key DESC LIMIT $2`
        const params = [threadId, limit, ...(before === undefined ? [] : [before])]
        const heads = (await db.rows<CheckpointRow>(sql, params)).map(toHead)
        return filled(db, heads, wantedOf(channels))
      })
  }
}

const INSERT_BODIES = `INSERT INTO checkpoint_bodies (thread_id, no, json)
  SELECT $1::text, no, json FROM unnest($2::integer[], $3::text[]) AS body (no, json)`

const insertBodies: InsertBodies = (threadId, bodies) => {
  if (bodies.length === 0) return []
  const params = [threadId, numbers(bodies.map(({ no }) => no)), bodies.map(({ json }) => json)]
  return [{ sql: INSERT_BODIES, params }]
}

/** Writes a checkpoint with its new bodies. Also used to create threads, which start with an empty one. */
export function checkpointPut(checkpoint: CheckpointWrite, batch: Batch): Promise<void> {
  return runSteps(batch, putCheckpoint(checkpoint, insertBodies))
}

export const checkpointWrites: Writers<'checkpoint.put' | StateOps> = {
  ...stepWriters(stateWrites(insertBodies)),
  'checkpoint.put': async ({ name: _, ...checkpoint }, batch) => {
    batch.needs(checkpoint.thread_id)
    await checkpointPut(checkpoint, batch)
    return null
  }
}
