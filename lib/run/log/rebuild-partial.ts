// Rebuilds what a run said since its last checkpoint from its stored log: for a process that continues a run, or
// reports its state, and did not see it happen.
import { isChunk, isLastChunk, readChunk } from '../../conversation/chunk.ts'
import type { Store } from '../../store/store.ts'
import type { JsonObject, Message, Run, RunEvent } from '../../base/types.ts'
import { objectOr, parseJson } from '../../base/json.ts'
import { readTurns } from '../../base/loop-turns.ts'
import { framesOf, type RawFrame } from './segment.ts'
import { Journal, type JournalOptions } from './journal.ts'
import { type Snapshot, snapshotOf } from './snapshot.ts'
import { dataOf, Kind } from './frame.ts'
import { isQuestion } from '../../conversation/values.ts'
import type { RunStates, RunTail } from '../run-state.ts'
import { madeWhole } from './oversized-reader.ts'
import { checkpointIn, namedIn, readValues } from './values-frame.ts'

/** Events that hold replies and their models: the others are traces. */
const RECALLED = ['ai_message', 'ai_tool_call', 'llm_request']
const READ_BYTES = 1024 * 1024
const VALUES_EVENT = 'event: values\n'
const MESSAGES_EVENT = 'event: messages\n'
const ASKING = `${VALUES_EVENT}data: {"__interrupt__":`

export interface TailStore extends Pick<Store, 'events'> {
  readonly frames: Pick<Store['frames'], 'bounds' | 'read'>
  readonly states: Pick<RunStates, 'followed' | 'shown' | 'bodies'>
}

/** The journal of a run whose process is gone, and the events it was read from. */
export async function readJournal(
  { thread_id, run_id }: Run,
  store: Pick<Store, 'events'>,
  options: JournalOptions
): Promise<{ readonly journal: Journal; readonly events: readonly RunEvent[] }> {
  const events = await store.events.listEvents(thread_id, run_id, { limit: Number.MAX_SAFE_INTEGER }, null)
  const lastK = await store.events.lastK(thread_id, run_id)
  return { journal: Journal.resumed(options, events, lastK), events }
}

/**
 * Merges the stored deltas below `head` that no checkpoint holds into `journal`. A reply with a stored event was
 * complete: it is taken from there, and its deltas are ignored.
 */
export async function rebuildPartial(
  store: Pick<TailStore, 'frames'>,
  run: Run,
  head: number,
  journal: Journal,
  events: readonly RunEvent[]
): Promise<Omit<RunTail, 'shown'> & { readonly shown: RawFrame | null; readonly offset: JsonObject | null }> {
  const replies = repliesIn(events)
  let checkpointId: string | null = null
  let shown: RawFrame | null = null
  let offset: RawFrame | null = null
  let tail: RawFrame[] = []
  for await (const frame of madeWhole(framesFrom(store, run, head))) {
    if (isShownState(frame)) shown = frame
    else if (frame.kind === Kind.offset) offset = frame
    else if (frame.kind === Kind.values && namedIn(frame.bytes) === null) {
      checkpointId = checkpointIn(frame.bytes)
      tail = []
    } else if (isOwnMessage(frame)) tail.push(frame)
  }
  const whole: Message[] = []
  const model = journal.modelName ?? run.model_name ?? 'unknown'
  for (const frame of tail) {
    const message = messageOf(frame)
    const id = String(message.id)
    const isLast = isLastChunk(message)
    const reply = isLast ? replies.get(id) : undefined
    if (reply) {
      journal.messages.complete(id)
      whole.push(reply)
    } else if (!isChunk(message))
      // Written by this service, as a message.
      whole.push(message as unknown as Message)
    else if (!isLast) journal.messages.fold(id, model, readChunk(message))
  }
  return { checkpointId, shown, whole, offset: offset && objectOr(parseJson(dataOf(offset.bytes))) }
}

/** Snapshot of a run of another process, from what is stored. null: nothing is, so there is no position. */
export async function storedSnapshot(store: TailStore, run: Run): Promise<Snapshot | null> {
  const { thread_id, run_id } = run
  // Read before the log: it must not be newer.
  const withTail = await store.states.followed(run)
  const bounds = await store.frames.bounds(run.key)
  const epoch = bounds?.epochs.at(-1)?.epoch
  if (!bounds || epoch === undefined) return null
  const all = { types: RECALLED, limit: Number.MAX_SAFE_INTEGER }
  const events = await store.events.listEvents(thread_id, run_id, all, null)
  const journal = Journal.resumed({ maxTraceContent: 0, trackTokens: false }, events)
  const { shown, offset: _, ...tail } = await rebuildPartial(store, run, bounds.last + 1, journal, events)
  const json = shown && (await shownText(shown, run, store))
  return snapshotOf(run, {
    values: await withTail({ ...tail, shown: json }),
    partial: journal.messages.chunks(),
    epoch,
    n: bounds.last
  })
}

/** The JSON of a state that was shown; null: it is gone. */
async function shownText(
  { kind, bytes }: RawFrame,
  run: Run,
  { states }: Pick<TailStore, 'states'>
): Promise<string | null> {
  if (kind === Kind.state) return dataOf(bytes)
  return (await readValues(bytes, run, states, {}))?.json ?? null
}

/** The assistant's replies among the events of a run, by id. */
function repliesIn(events: readonly RunEvent[]): Map<string, Message> {
  const found = events.filter(({ event_type }) => event_type === 'ai_message' || event_type === 'ai_tool_call')
  // Contents of these types are messages: the journal wrote them.
  return new Map(found.map(({ content }) => content as unknown as Message).map((message) => [message.id, message]))
}

/** Frames below `head`: a live run may have more by now, which its reader gets as what follows. */
async function* framesFrom(store: Pick<TailStore, 'frames'>, run: Run, head: number): AsyncGenerator<RawFrame> {
  let next = 0
  while (next < head) {
    // Other work has a turn between two reads, however long the log is.
    await readTurns.next()
    const segments = await store.frames.read(run.key, next, READ_BYTES)
    if (segments.length === 0) return
    for (const segment of segments) {
      for (const frame of framesOf(segment)) if (frame.n < head) yield frame
      next = segment.last + 1
    }
  }
}

/** Shows the state of a graph itself: not that of one below it, and not only a question. */
export function isShownState({ kind, bytes }: RawFrame): boolean {
  if (kind !== Kind.values && kind !== Kind.state) return false
  const named = kind === Kind.values ? namedIn(bytes) : null
  if (named) return named.event === 'values' && !isQuestion(named)
  const head = bytes.toString('latin1', 0, ASKING.length)
  return kind === Kind.state && head.startsWith(VALUES_EVENT) && head !== ASKING
}

/** What subgraphs say among themselves is not in the conversation. */
function isOwnMessage({ kind, bytes }: RawFrame): boolean {
  return kind === Kind.messages && bytes.toString('latin1', 0, MESSAGES_EVENT.length) === MESSAGES_EVENT
}

/** The first part of a messages frame: the chunk or message. */
function messageOf(frame: RawFrame): JsonObject {
  // Every messages frame is `[message, metadata]`, written by message.ts.
  return (JSON.parse(dataOf(frame.bytes)) as [JsonObject, JsonObject])[0]
}
