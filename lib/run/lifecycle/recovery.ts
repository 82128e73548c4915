// What becomes of the runs that a process has left behind, when the next one starts or another one takes them over: one that had
// started is ended, with the part of its answer that is stored, or goes on from the state that its agent has stored itself, where that
// is wanted; one that was waiting waits again.
import type { Store } from '../../store/store.ts'
import type { Run } from '../../types.ts'
import type { Committer } from '../commit/committer.ts'
import { boundsOf } from '../log/run-log.ts'
import type { LogBounds } from '../log/sse.ts'
import { bareEnd, journalOf, Recorder, type RecorderOptions } from '../recorder.ts'
import { RESTARTED } from '../run-end.ts'
import type { Registry } from './registry.ts'
import { untilRead } from './retry.ts'

/** Runs that are ended at the same time: what is ready together is written in one transaction. */
const AT_ONCE = 16
/** A run that takes its process with it each time ends as an error with the last of these. */
const ATTEMPTS_MAX = 3

export interface RecoveryParts {
  readonly store: Store
  /** Writes ops that belong together: all or none. */
  readonly writer: Pick<Committer, 'writeAll'>
  readonly registry: Registry
  readonly options: RecorderOptions
  /** The agent keeps the states of its threads itself. */
  readonly keepsStates?: boolean
  /** Runs of such an agent go on where they were cut [runs.on_restart resume]. */
  readonly goesOn?: boolean
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
  const ended = started.filter(({ run_id }) => !registry.knows(run_id))
  // Behind what somebody waits for.
  for (const { key } of ended) registry.archive(key)
  return { ended: ended.length, resumed: waiting.length + started.length - ended.length }
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
    await parts.writer
      .writeAll([bareEnd(run, RESTARTED)], 'endless', parts.owner)
      .catch((again: unknown) => log.error({ err: again, run_id: run.run_id }, 'a run could not be ended'))
  }
}

/**
 * One terminal status and one terminal frame, under an epoch of its own: a cursor from before the crash is told apart from it. All
 * of it is one group, so a crash in the middle of a recovery leaves the run as it was found.
 */
async function end(run: Run, past: LogBounds, parts: RecoveryParts): Promise<() => unknown> {
  if (parts.goesOn && past.epochs.length < ATTEMPTS_MAX) {
    const journal = await journalOf(run, parts.store, parts.options)
    return () => parts.registry.goOn(run, past, journal)
  }
  const recorder = await Recorder.resumed(run, past, parts.store, parts)
  recorder.close(RESTARTED, true)
  const { ops } = recorder.take()!
  return () => parts.writer.writeAll(ops, 'endless', parts.owner)
}
