// Checkpoints as rows of both databases, and what is written of them outside a run.
import { updated } from '../state-update.ts'
import type { BodyRange, CheckpointHead, CheckpointWrite } from '../store.ts'
import { GRAPH_COPIES, pruneGraphs } from './graph-states.ts'
import { ask, askOne, parseObject, places, type Statement, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'
import { PRESENT } from './removal.ts'
import { hasRunInFlight } from './runs.ts'

export type CheckpointRow = Omit<CheckpointHead, 'metadata' | 'next' | 'messages' | 'channels'> &
  Readonly<Record<'metadata_json' | 'next_json' | 'messages_json' | 'channels_json', string>>

export const COLUMN_NAMES = [
  'thread_id',
  'checkpoint_id',
  'parent_checkpoint_id',
  'run_id',
  'metadata_json',
  'next_json',
  'messages_json',
  'channels_json',
  'created_at'
] as const satisfies readonly (keyof CheckpointRow)[]
export const COLUMNS = COLUMN_NAMES.join(', ')

/** Copies all states of thread $1 to $2. Heads before bodies: what a head names is written with it, or was before. */
const COPIES = [
  `INSERT INTO checkpoints (${COLUMNS})
   SELECT $2, ${COLUMN_NAMES.slice(1).join(', ')} FROM checkpoints WHERE thread_id = $1 ORDER BY key`,
  `INSERT INTO checkpoint_bodies (thread_id, no, json) SELECT $2, no, json FROM checkpoint_bodies WHERE thread_id = $1`,
  ...GRAPH_COPIES
] as const

export function toHead({
  metadata_json,
  next_json,
  messages_json,
  channels_json,
  ...row
}: CheckpointRow): CheckpointHead {
  return {
    metadata: parseObject(metadata_json),
    // Only written by `checkpointPut`.
    next: JSON.parse(next_json) as string[],
    messages: JSON.parse(messages_json) as BodyRange[],
    channels: JSON.parse(channels_json) as Record<string, number>,
    ...row
  }
}

/** One checkpoint: by its id, or the newest of the thread. */
export function* findHead(threadId: string, checkpointId: string | null): Steps<CheckpointHead | null> {
  const which = checkpointId === null ? 'ORDER BY key DESC LIMIT 1' : 'AND checkpoint_id = $2'
  const sql = `SELECT ${COLUMNS} FROM checkpoints WHERE thread_id = $1 AND ${PRESENT} ${which}`
  const row = yield* askOne<CheckpointRow>(sql, threadId, ...(checkpointId === null ? [] : [checkpointId]))
  return row ? toHead(row) : null
}

/** Statements that insert bodies: each database has its own way to insert many. */
export type InsertBodies = (threadId: string, bodies: CheckpointWrite['bodies']) => readonly Statement[]

/** Writes a checkpoint with its new bodies. Also used to create threads, which start with an empty one. */
export function* putCheckpoint(checkpoint: CheckpointWrite, insertBodies: InsertBodies): Steps<void> {
  const { thread_id, checkpoint_id, parent_checkpoint_id, run_id, created_at, bodies } = checkpoint
  const { metadata, next, messages, channels } = checkpoint
  const jsons = [metadata, next, messages, channels].map((part) => JSON.stringify(part))
  const params = [thread_id, checkpoint_id, parent_checkpoint_id, run_id, ...jsons, created_at]
  const head = { sql: `INSERT INTO checkpoints (${COLUMNS}) VALUES (${places(9)})`, params }
  yield { together: [...insertBodies(thread_id, bodies), head] }
}

type Newest = Pick<CheckpointRow, 'messages_json' | 'channels_json'> & { readonly key: number }

/** The newest state stays, with the bodies it consists of. */
function* pruneStates(threadId: string): Steps<void> {
  const sql = `SELECT key, messages_json, channels_json FROM checkpoints WHERE thread_id = $1 ORDER BY key DESC LIMIT 1`
  const newest = yield* askOne<Newest>(sql, threadId)
  if (!newest) return
  yield* ask('DELETE FROM checkpoints WHERE thread_id = $1 AND key < $2', threadId, newest.key)
  // Only written by `putCheckpoint`.
  const messages = JSON.parse(newest.messages_json) as BodyRange[]
  const channels = Object.values(JSON.parse(newest.channels_json) as Record<string, number>)
  const kept = [...messages, ...channels.map((no): BodyRange => [no, no])].sort(([one], [other]) => one - other)
  let from = 0
  for (const [first, last] of kept) {
    const between = 'DELETE FROM checkpoint_bodies WHERE thread_id = $1 AND no >= $2 AND no < $3'
    if (first > from) yield* ask(between, threadId, from, first)
    from = Math.max(from, last + 1)
  }
}

export type StateOps = 'state.update' | 'state.copy' | 'state.prune'

export function stateWrites(insertBodies: InsertBodies): StepWrites<StateOps> {
  return {
    *'state.copy'({ from, thread_id }) {
      yield* needsThread(thread_id)
      // The empty one of a new thread.
      yield* ask('DELETE FROM checkpoints WHERE thread_id = $1', thread_id)
      for (const sql of COPIES) yield* ask(sql, from, thread_id)
      return null
    },

    *'state.update'(update) {
      const { thread_id, base, now, title } = update
      yield* needsThread(thread_id)
      if (yield* hasRunInFlight(thread_id)) return { outcome: 'busy' }
      const parent = yield* findHead(thread_id, base)
      if (!parent) return { outcome: 'checkpoint_missing' }
      const next = 'SELECT max(no) + 1 AS no FROM checkpoint_bodies WHERE thread_id = $1'
      const body = yield* askOne<{ no: number | null }>(next, thread_id)
      const checkpoint = updated(parent, update, body?.no ?? 0)
      yield* putCheckpoint(checkpoint, insertBodies)
      const touch = `UPDATE threads_meta SET display_name = coalesce($2, display_name), updated_at = $3
        WHERE thread_id = $1`
      yield* ask(touch, thread_id, title, now)
      const { bodies: _, ...head } = checkpoint
      return { outcome: 'written', checkpoint: head }
    },

    *'state.prune'({ thread_id }) {
      yield* needsThread(thread_id)
      if (yield* hasRunInFlight(thread_id)) return false
      yield* pruneStates(thread_id)
      yield* pruneGraphs(thread_id)
      return true
    }
  }
}
