// Checkpoints in PostgreSQL: which bodies a state consists of, and the bodies, each kept once a version.
import { channelsOf, pageWithBodies, type Wanted, wantedOf } from '../bodies.ts'
import { PRESENT } from '../sql/removal.ts'
import { places } from '../sql/steps.ts'
import { type CheckpointRow, COLUMNS, COPIES, FORGET, toHead } from '../sql/checkpoints.ts'
import { updated } from '../state-update.ts'
import type { CheckpointHead, CheckpointReads, CheckpointWrite, StateUpdate, StoredCheckpoint } from '../store.ts'
import type { Batch } from './batch.ts'
import type { Db } from './db.ts'
import type { Writers } from './rows.ts'
import { numbers, texts } from './text.ts'

/** One checkpoint: by its id, or the newest of the thread. */
async function find(db: Db, threadId: string, checkpointId: string | null): Promise<CheckpointHead | null> {
  const byId = `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = $1 AND checkpoint_id = $2 AND ${PRESENT}`
  const newest = `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = $1 AND ${PRESENT} ORDER BY key DESC LIMIT 1`
  const [row] =
    checkpointId === null
      ? await db.rows<CheckpointRow>(newest, [threadId])
      : await db.rows<CheckpointRow>(byId, [threadId, checkpointId])
  return row ? toHead(row) : null
}

async function nextBody(db: Db, threadId: string): Promise<number> {
  const sql = 'SELECT max(no) + 1 AS no FROM checkpoint_bodies WHERE thread_id = $1'
  return (await db.rows<{ no: number | null }>(sql, [threadId]))[0]?.no ?? 0
}

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

export function checkpointReads(db: Db): CheckpointReads {
  return {
    async load(threadId, checkpointId, channels) {
      const head = await find(db, threadId, checkpointId)
      return head && ((await filled(db, [head], wantedOf(channels)))[0] ?? null)
    },
    async history(threadId, { limit, before, channels = [] }) {
      const sql = `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = $1 AND ${PRESENT} ${before === undefined ? '' : OLDER}
        ORDER BY key DESC LIMIT $2`
      const params = [threadId, limit, ...(before === undefined ? [] : [before])]
      const heads = (await db.rows<CheckpointRow>(sql, params)).map(toHead)
      return filled(db, heads, wantedOf(channels))
    }
  }
}

/** Writes a checkpoint with its new bodies. Also used to create threads, which start with an empty one. */
export async function checkpointPut(checkpoint: CheckpointWrite, batch: Batch): Promise<void> {
  const { thread_id, bodies } = checkpoint
  const insertBodies = `INSERT INTO checkpoint_bodies (thread_id, no, json)
    SELECT $1::text, no, json FROM unnest($2::integer[], $3::text[]) AS body (no, json)`
  const written = bodies.length
    ? batch.changes(insertBodies, [
        thread_id,
        numbers(bodies.map(({ no }) => no)),
        texts(bodies.map(({ json }) => json))
      ])
    : null
  const put = batch.changes(`INSERT INTO checkpoints (${COLUMNS}) VALUES (${places(9)})`, [
    thread_id,
    checkpoint.checkpoint_id,
    checkpoint.parent_checkpoint_id,
    checkpoint.run_id,
    JSON.stringify(checkpoint.metadata),
    JSON.stringify(checkpoint.next),
    JSON.stringify(checkpoint.messages),
    JSON.stringify(checkpoint.channels),
    checkpoint.created_at
  ])
  await Promise.all([written, put])
}

type CheckpointOps = 'checkpoint.put' | 'state.update' | 'state.copy'

export const checkpointWrites: Writers<CheckpointOps> = {
  'checkpoint.put': async ({ name: _, ...checkpoint }, batch) => {
    batch.needs(checkpoint.thread_id)
    await checkpointPut(checkpoint, batch)
    return null
  },

  'state.copy': async ({ from, thread_id }, batch) => {
    batch.needs(thread_id)
    await batch.changes(FORGET, [thread_id])
    for (const sql of COPIES) await batch.changes(sql, [from, thread_id])
    return null
  },

  'state.update': async (update, batch): Promise<StateUpdate> => {
    const { thread_id, base, now, title } = update
    batch.needs(thread_id)
    const inFlight = "SELECT 1 FROM runs WHERE thread_id = $1 AND status IN ('pending', 'running') LIMIT 1"
    const [busy, parent, no] = await Promise.all([
      batch.rows(inFlight, [thread_id]),
      find(batch, thread_id, base),
      nextBody(batch, thread_id)
    ])
    if (busy.length) return { outcome: 'busy' }
    if (!parent) return { outcome: 'checkpoint_missing' }
    const checkpoint = updated(parent, update, no)
    await checkpointPut(checkpoint, batch)
    await batch.changes(
      'UPDATE threads_meta SET display_name = coalesce($2, display_name), updated_at = $3 WHERE thread_id = $1',
      [thread_id, title, now]
    )
    const { bodies: _, ...head } = checkpoint
    return { outcome: 'written', checkpoint: head }
  }
}
