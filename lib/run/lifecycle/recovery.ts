// What becomes of the runs that a process has left behind, when the next one starts or another one takes them over: one that had
// started is ended, with the part of its answer that is stored; one that was waiting waits again.
import type { Op, Store } from '../../store/store.ts'
import { checkpointId } from '../../thread/ids.ts'
import { INTERRUPTS, interruptsIn, openCallsIn } from '../../thread/interrupts.ts'
import { State } from '../../thread/state.ts'
import { type JsonObject, type Run, timestamp } from '../../types.ts'
import { errorJson, lastChunkJson, wholeJson } from '../log/message.ts'
import type { Committer } from '../commit/committer.ts'
import { Kind } from '../log/filter.ts'
import { Journal, type JournalOptions } from '../log/journal.ts'
import type { Registry } from './registry.ts'
import { rebuildPartial } from '../log/rebuild-partial.ts'
import { boundsOf, RunLog } from '../log/run-log.ts'
import type { LogBounds } from '../log/sse.ts'
import { untilRead } from './retry.ts'

const KIND = 'ServerRestart'
const RESTARTED = 'Gateway restarted before this run reached a durable final state.'
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
  /** This process ends, or the runs are not its own any more: what was not taken care of is left to the next one. */
  readonly isOver?: () => boolean
}

/**
 * Ends what had started, then queues what had not, oldest first: a run that waited reads the state that the one before it has
 * left. Resolves with the numbers of both. `unfinished`: the runs that this process has to take care of.
 */
export async function recover(
  unfinished: readonly Run[],
  parts: RecoveryParts
): Promise<{ ended: number; resumed: number }> {
  const { registry } = parts
  const started = unfinished.filter(({ status }) => status === 'running')
  const waiting = unfinished.filter(({ status }) => status === 'pending')
  for (let at = 0; at < started.length; at += AT_ONCE)
    await Promise.all(started.slice(at, at + AT_ONCE).map((run) => recoverOrFail(run, parts, end)))
  const resume = async (run: Run, past: LogBounds) => () => registry.resume(run, past)
  for (const run of waiting) await recoverOrFail(run, parts, resume)
  // Behind what somebody waits for.
  for (const { key } of started) registry.archive(key)
  return { ended: started.length, resumed: waiting.length }
}

/**
 * A store that is unavailable is waited for: the answer of a run is not given up for a read that failed. A run whose records are
 * damaged keeps neither the others nor the server from starting; and it is not left in flight either, or its readers would wait
 * for an end that never comes.
 */
async function recoverOrFail(
  run: Run,
  parts: RecoveryParts,
  read: (run: Run, past: LogBounds, parts: RecoveryParts) => Promise<() => unknown>
): Promise<void> {
  const { store, log, isOver = () => false } = parts
  if (isOver()) return
  try {
    // Reads alone are repeated: a write that is refused may have been written.
    const act = await untilRead(async () => read(run, await boundsOf(store, run), parts), isOver)
    // The lease may have been lost over the reads: the run is somebody else's then, and must not be begun here as well.
    if (!isOver()) await act()
  } catch (error) {
    if (isOver()) return
    log.error({ err: error, run_id: run.run_id }, 'the answer of a run could not be recovered')
    await endBare(run, parts).catch((again: unknown) =>
      log.error({ err: again, run_id: run.run_id }, 'a run could not be ended')
    )
  }
}

/**
 * One terminal status and one terminal frame, under an epoch of its own: a cursor from before the crash is told apart from it. All
 * of it is one group, so a crash in the middle of a recovery leaves the run as it was found.
 */
async function end(
  run: Run,
  past: LogBounds,
  { store, writer, journal: options, owner }: RecoveryParts
): Promise<() => Promise<unknown>> {
  const { thread_id, run_id, key } = run
  const events = await store.events.listEvents(thread_id, run_id, { limit: Number.MAX_SAFE_INTEGER }, null)
  const journal = Journal.resumed(options, events, await store.events.lastK(thread_id, run_id))
  const stored = await store.checkpoints.load(thread_id, null)
  const before = stored ? State.fromStored(stored) : State.empty
  const frames = RunLog.begin(run, store, { windowBytes: 0, eventBytes: 0 }, past)
  const ops: Op[] = []

  let state = before.withMessages((await rebuildPartial(store, run, past.head, journal, events)).whole)
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
    finalId = checkpointId(parent)
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
    frames.appendValues(finalId, state, 0)
  }
  journal.fail(KIND, RESTARTED)
  frames.append(Kind.error, 'error', errorJson(KIND, RESTARTED))

  ops.push({ name: 'events.append', thread_id, run_id, user_id: run.user_id, events: journal.takeEvents() })
  for (const segment of frames.take()) ops.push({ name: 'frames.append', run_key: key, thread_id, segment })
  ops.push(settlement(run, journal, frames.lastCursor, finalId))
  return () => writer.writeAll(ops, 'endless', owner)
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
    // Of one that only waited, another run may be running.
    thread_status: run.status === 'pending' ? null : 'error',
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
