// Checkpoints as rows of both databases: heads, the bodies they consist of, and what is written of them outside a run.
import type { Json, JsonObject } from '../../base/types.ts'
import type { BodyRange, CheckpointHead, CheckpointWrite, OpOf, StoredCheckpoint } from '../store.ts'
import { GRAPH_COPIES, pruneGraphs } from './graph-states.ts'
import { needsNoHold } from './holds.ts'
import { queueTexts } from './search.ts'
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
      const { thread_id, base, expected, now, title } = update
      yield* needsThread(thread_id)
      if (yield* hasRunInFlight(thread_id)) return { outcome: 'busy' }
      if (expected !== undefined && (yield* findHead(thread_id, null))?.checkpoint_id !== expected)
        return { outcome: 'conflict' }
      const parent = yield* findHead(thread_id, base)
      if (!parent) return { outcome: 'checkpoint_missing' }
      const next = 'SELECT max(no) + 1 AS no FROM checkpoint_bodies WHERE thread_id = $1'
      const body = yield* askOne<{ no: number | null }>(next, thread_id)
      const checkpoint = checkpointOfUpdate(parent, update, body?.no ?? 0)
      yield* putCheckpoint(checkpoint, insertBodies)
      const touch = `UPDATE threads_meta SET display_name = coalesce($2, display_name), updated_at = $3
        WHERE thread_id = $1`
      yield* ask(touch, thread_id, title, now)
      if (title !== null) yield* queueTexts(thread_id)
      const { bodies: _, ...head } = checkpoint
      return { outcome: 'written', checkpoint: head }
    },

    *'state.prune'({ thread_id }) {
      yield* needsThread(thread_id)
      yield* needsNoHold('thread', thread_id)
      if (yield* hasRunInFlight(thread_id)) return false
      yield* pruneStates(thread_id)
      yield* pruneGraphs(thread_id)
      return true
    }
  }
}

// ----------------------------------------------------------------------------------------------- state updates

type Update = OpOf<'state.update'>

/**
 * The checkpoint after `parent`; new bodies are numbered from `nextBody`.
 * @throws SyntaxError when a text is not JSON
 */
export function checkpointOfUpdate(parent: CheckpointHead, update: Update, nextBody: number): CheckpointWrite {
  const messages = (update.messages ?? []).map((json, at) => ({ no: nextBody + at, json }))
  const firstChannel = nextBody + messages.length
  const channels = Object.entries(update.channels).map(([name, json], at) => ({ name, no: firstChannel + at, json }))
  return {
    thread_id: update.thread_id,
    checkpoint_id: update.checkpoint_id,
    parent_checkpoint_id: parent.checkpoint_id,
    run_id: null,
    created_at: update.now,
    metadata: metadataOf(parent, update),
    next: [],
    messages: update.messages === null ? parent.messages : messages.length ? [[nextBody, firstChannel - 1]] : [],
    channels: { ...parent.channels, ...Object.fromEntries(channels.map(({ name, no }) => [name, no])) },
    bodies: [...messages, ...channels.map(({ no, json }) => ({ no, json }))]
  }
}

function metadataOf(parent: CheckpointHead, update: Update): JsonObject {
  const step = typeof parent.metadata.step === 'number' ? parent.metadata.step + 1 : 0
  const metadata: JsonObject = { source: 'update', step, parents: {}, updated_at: update.now }
  if (update.as_node !== null) metadata.writes = { [update.as_node]: valuesOf(update) }
  return metadata
}

/** The `writes` of the node the update is attributed to [contract 2.2]. */
function valuesOf({ messages, channels }: Update): JsonObject {
  // The op promises JSON; a text that is not refuses the group.
  const parse = (json: string) => JSON.parse(json) as Json
  const values = Object.fromEntries(Object.entries(channels).map(([name, json]) => [name, parse(json)]))
  return messages === null ? values : { messages: messages.map(parse), ...values }
}

// ------------------------------------------------------------------------------------------------------ bodies

/** Which bodies of a checkpoint to read. */
export interface Wanted {
  readonly messages: boolean
  /** Names; null: all. */
  readonly channels: readonly string[] | null
}

/** The bodies a list of channels asks for (messages is one of them); without a list, all. */
export function wantedOf(channels: readonly string[] | null = null): Wanted {
  return { messages: channels === null || channels.includes('messages'), channels }
}

/** Checkpoints with the bodies asked for. `texts`: their JSON by number. */
function withBodies(
  head: CheckpointHead,
  wanted: Wanted,
  texts: ReadonlyMap<number, string>,
  nextBody: number
): StoredCheckpoint {
  const channelBodies = channelsOf(head, wanted).map(([name, no]) => ({ name, no, json: textOf(texts, no) }))
  const messageBodies: { no: number; json: string }[] = []
  for (const [from, to] of wanted.messages ? head.messages : [])
    for (let no = from; no <= to; no++) messageBodies.push({ no, json: textOf(texts, no) })
  return { messageBodies, channelBodies, nextBody, ...head }
}

/** Heads of one thread, newest first; only the first gets its messages, if they are asked for. */
export function pageWithBodies(
  heads: readonly CheckpointHead[],
  wanted: Wanted,
  texts: ReadonlyMap<number, string>,
  nextBody: number
): StoredCheckpoint[] {
  return heads.map((head, at) => withBodies(head, at === 0 ? wanted : { ...wanted, messages: false }, texts, nextBody))
}

/** Names and body numbers of the channels asked for. */
export function channelsOf({ channels }: CheckpointHead, wanted: Wanted): [name: string, no: number][] {
  return Object.entries(channels).filter(([name]) => wanted.channels === null || wanted.channels.includes(name))
}

/** A head names a body that is not there: it was read before the head's thread was pruned, or the database has lost it. */
export class BodyMissing extends Error {}

function textOf(texts: ReadonlyMap<number, string>, no: number): string {
  const text = texts.get(no)
  if (text === undefined) throw new BodyMissing(`checkpoint body ${no} was never written`)
  return text
}
