// What becomes of the runs that a process has left behind, when the next one starts or another one takes them over: one that had
// started is ended, with the part of its answer that is stored; one that was waiting waits again.
import type { Delta } from '../agent/runtime.ts'
import type { Op, Store } from '../store/store.ts'
import { checkpointId } from '../thread/ids.ts'
import { INTERRUPTS, interruptsIn, openCallsIn } from '../thread/interrupts.ts'
import { State } from '../thread/state.ts'
import { type Json, type JsonObject, type Message, type Run, type RunEvent, timestamp, isObject } from '../types.ts'
import { errorJson, lastChunkJson, wholeJson } from './chunk.ts'
import type { Committer } from './committer.ts'
import { Kind } from './filter.ts'
import { FrameLog, framesOf, newEpoch, type RawFrame } from './frames.ts'
import { Journal, type JournalOptions } from './journal.ts'
import type { Registry } from './registry.ts'
import { cursorText, dataOf, type Extent } from './sse.ts'
import { madeWhole } from './whole.ts'

const KIND = 'ServerRestart'
const RESTARTED = 'Gateway restarted before this run reached a durable final state.'
const READ_BYTES = 1024 * 1024
/** Runs that are ended at the same time: what is ready together is written in one transaction. */
const AT_ONCE = 16

export interface RecoveryParts {
  readonly store: Store
  /** Writes ops that belong together: all or none. */
  readonly writer: Pick<Committer, 'writeAll'>
  readonly registry: Registry
  readonly journal: JournalOptions
  readonly log: { error(fields: object, text: string): void }
  /** In whose name the runs are ended, where there is more than one process [Store 10]. */
  readonly owner?: string
}

/**
 * Ends what had started, then queues what had not, oldest first: a run that waited reads the state that the one before it has
 * left. Resolves with the numbers of both. `unfinished`: the runs that this process has to take care of.
 */
export async function recover(
  unfinished: readonly Run[],
  parts: RecoveryParts
): Promise<{ ended: number; resumed: number }> {
  const { store, registry } = parts
  const started = unfinished.filter(({ status }) => status === 'running')
  const waiting = unfinished.filter(({ status }) => status === 'pending')
  for (let at = 0; at < started.length; at += AT_ONCE)
    await Promise.all(started.slice(at, at + AT_ONCE).map((run) => endSomehow(run, parts)))
  for (const run of waiting) registry.resume(run, await pastOf(store, run))
  // Behind what somebody waits for.
  for (const { key } of started) registry.archive(key)
  return { ended: started.length, resumed: waiting.length }
}

/**
 * One run whose records cannot be read, or not be written, keeps neither the others nor the server from starting; and it is not
 * left as running either, or its readers would wait for an end that never comes.
 */
async function endSomehow(run: Run, parts: RecoveryParts): Promise<void> {
  const { store, log } = parts
  try {
    await end(run, await pastOf(store, run), parts)
  } catch (error) {
    log.error({ err: error, run_id: run.run_id }, 'the answer of a run could not be recovered')
    await endBare(run, parts).catch((again: unknown) =>
      log.error({ err: again, run_id: run.run_id }, 'a run could not be ended')
    )
  }
}

async function pastOf(store: Store, run: Run): Promise<Extent> {
  const bounds = await store.frames.bounds(run.key)
  return bounds ? { epochs: bounds.epochs, head: bounds.last + 1 } : { epochs: [], head: 0 }
}

/**
 * One terminal status and one terminal frame, under an epoch of its own: a cursor from before the crash is told apart from it. All
 * of it is one group, so a crash in the middle of a recovery leaves the run as it was found.
 */
async function end(run: Run, past: Extent, { store, writer, journal: options, owner }: RecoveryParts): Promise<void> {
  const { thread_id, run_id, key } = run
  const events = await store.events.listEvents(thread_id, run_id, { limit: Number.MAX_SAFE_INTEGER }, null)
  const journal = Journal.resumed(options, events, await store.events.lastK(thread_id, run_id))
  const stored = await store.checkpoints.load(thread_id, null)
  const before = stored ? State.fromStored(stored) : State.empty
  const frames = new FrameLog(newEpoch(past.epochs), 0, past.head)
  const ops: Op[] = []

  let state = before.withMessages(await foldTail(store, run, past.head, journal, repliesIn(events)))
  // Also those that an earlier run has left open for its user, and this one was to close.
  journal.owe(openCallsIn(state.messages()))
  for (const message of journal.breakOff('error')) {
    frames.append(Kind.messages, 'messages', message.type === 'ai' ? lastChunkJson(message) : wholeJson(message))
    state = state.withMessages([message])
  }
  if (interruptsIn(state.channel(INTERRUPTS)).length) state = state.withChannels({ [INTERRUPTS]: [] })
  let finalId = stored?.checkpoint_id ?? null
  if (state.hasFresh) {
    const parent = finalId
    finalId = checkpointId()
    const step = typeof stored?.metadata.step === 'number' ? stored.metadata.step + 1 : 0
    const metadata: JsonObject = { source: 'loop', step, parents: {}, run_id }
    const head = {
      thread_id,
      checkpoint_id: finalId,
      parent_checkpoint_id: parent,
      run_id,
      created_at: timestamp(),
      metadata,
      next: []
    }
    ops.push({ name: 'checkpoint.put', ...state.toCheckpoint(head).checkpoint })
    frames.appendValues(finalId)
  }
  journal.fail(KIND, RESTARTED)
  frames.append(Kind.error, 'error', errorJson(KIND, RESTARTED))

  ops.push({ name: 'events.append', thread_id, run_id, user_id: run.user_id, events: journal.takeEvents() })
  for (const segment of frames.take()) ops.push({ name: 'frames.append', run_key: key, thread_id, segment })
  ops.push(settlement(run, journal, cursorText(frames.epoch, frames.head - 1), finalId))
  await writer.writeAll(ops, 'endless', owner)
}

/** The end and nothing else: the log stops where it can be read no more. */
async function endBare(run: Run, { writer, journal, owner }: RecoveryParts): Promise<void> {
  const ops = [settlement(run, new Journal(journal), run.last_cursor, run.final_checkpoint_id)]
  await writer.writeAll(ops, 'endless', owner)
}

function settlement(run: Run, journal: Journal, lastCursor: string | null, finalCheckpointId: string | null): Op {
  return {
    ...journal.totals,
    name: 'run.settle',
    run_id: run.run_id,
    thread_id: run.thread_id,
    status: 'error',
    thread_status: 'error',
    title: null,
    error: RESTARTED,
    stop_reason: 'server_restart',
    model_name: journal.modelName,
    last_cursor: lastCursor,
    final_checkpoint_id: finalCheckpointId,
    first_human_message: journal.firstHumanMessage,
    last_ai_message: journal.lastAiMessage,
    now: timestamp()
  }
}

/**
 * Folds the stored deltas that no checkpoint holds yet; answers the whole messages among them. A reply whose event is stored was
 * complete: it is taken from there, and its deltas count no more.
 */
async function foldTail(
  store: Store,
  run: Run,
  head: number,
  journal: Journal,
  replies: ReadonlyMap<string, Message>
): Promise<Message[]> {
  let tail: RawFrame[] = []
  for await (const frame of madeWhole(framesFrom(store, run, head))) {
    if (frame.kind === Kind.values) tail = []
    else if (frame.kind === Kind.messages) tail.push(frame)
  }
  let deltas: Delta[] = []
  const whole: Message[] = []
  for (const frame of tail) {
    const message = messageOf(frame)
    const reply = message.chunk_position === 'last' ? replies.get(String(message.id)) : undefined
    if (reply) {
      deltas = deltas.filter((delta) => delta.messageId !== reply.id)
      whole.push(reply)
    } else if (message.type === 'AIMessageChunk')
      deltas.push(...deltasOf(message, journal.modelName ?? run.model_name ?? 'unknown'))
    // It was written by this service, as a message.
    else whole.push(message as unknown as Message)
  }
  for (const delta of deltas) journal.fold(delta)
  return whole
}

/** The assistant's replies among the events of a run, by id. */
function repliesIn(events: readonly RunEvent[]): Map<string, Message> {
  const found = events.filter(({ event_type }) => event_type === 'ai_message' || event_type === 'ai_tool_call')
  // Contents of these types are messages: the journal wrote them.
  return new Map(found.map(({ content }) => content as unknown as Message).map((message) => [message.id, message]))
}

async function* framesFrom(store: Store, run: Run, head: number): AsyncGenerator<RawFrame> {
  let next = 0
  while (next < head) {
    const segments = await store.frames.read(run.key, next, READ_BYTES)
    if (segments.length === 0) return
    for (const segment of segments) {
      yield* framesOf(segment)
      next = segment.last + 1
    }
  }
}

/** The first part of a messages frame: the chunk or message. */
function messageOf(frame: RawFrame): JsonObject {
  // Every messages frame is `[message, metadata]`, written by chunk.ts.
  return (JSON.parse(dataOf(frame.bytes)) as [JsonObject, JsonObject])[0]
}

/** What deltaJson of chunk.ts made, as the delta it was made of. */
function deltasOf(chunk: JsonObject, model: string): Delta[] {
  const base = { type: 'delta', messageId: String(chunk.id), model } as const
  if (chunk.chunk_position === 'last') return []
  const text = typeof chunk.content === 'string' ? chunk.content : ''
  const reasoning = isObject(chunk.additional_kwargs) ? chunk.additional_kwargs.reasoning_content : undefined
  const [call, ...more] = Array.isArray(chunk.tool_call_chunks) ? chunk.tool_call_chunks : []
  const delta: Delta = {
    ...base,
    ...(text !== '' && { text }),
    ...(typeof reasoning === 'string' && { reasoning }),
    ...(call !== undefined && { toolCall: toolCallOf(call) })
  }
  return [delta, ...more.map((one) => ({ ...base, toolCall: toolCallOf(one) }))]
}

function toolCallOf(call: Json): NonNullable<Delta['toolCall']> {
  // As deltaJson wrote it.
  const { index, id, name, args } = call as { index: number; id: string | null; name: string | null; args: string }
  return { index, args, ...(id !== null && { id }), ...(name !== null && { name }) }
}
