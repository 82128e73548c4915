// Recovery of runs whose process is gone, at the next start or by another process. A started run is ended with the stored part of its
// answer or, where configured, continues from the state its agent has stored; a queued run is queued again.
import type { Op, Store } from '../../store/store.ts'
import { type Run, timestamp } from '../../base/types.ts'
import type { Committer } from '../commit/committer.ts'
import { boundsOf, type LogBounds } from '../log/frame.ts'
import { bareEnd } from '../closing.ts'
import { readJournal } from '../log/rebuild-partial.ts'
import { Recorder, type RecorderOptions } from '../recorder.ts'
import { exhausted, RESTARTED } from '../run-end.ts'
import type { RunStates } from '../run-state.ts'
import type { Registry } from './registry.ts'
import { untilRead } from './retry.ts'
import { ATTEMPTS_MAX } from './run-phase.ts'

/** Runs ended at the same time: what is ready together shares a transaction. */
const AT_ONCE = 16

export interface RecoveryParts {
  readonly store: Store
  /** Writes ops atomically. */
  readonly writer: Pick<Committer, 'writeAll'>
  readonly registry: Registry
  readonly options: RecorderOptions
  readonly states: RunStates
  /** Runs whose agent can do so continue where they were interrupted [runs.on_restart resume]. */
  readonly goesOn?: boolean
  /** See Agent.abandon. */
  readonly abandon?: ((threadId: string, runId: string) => Promise<void>) | undefined
  readonly log: { error(fields: object, text: string): void }
  /** The process that ends the runs, where there is more than one [Store 10]. */
  readonly owner?: string
  /** This process is stopping, or has lost the runs: the rest is left to the next one. */
  readonly isOver?: () => boolean
}

/**
 * Ends started runs, then queues the others, oldest first: a queued run reads the state the one before it has left.
 * Resolves with both counts. `unfinished`: the runs to recover.
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
  for (const run of waiting) await recoverOrFail(run, parts, resume)
  const ended = unfinished.filter(({ run_id }) => !registry.knows(run_id))
  // Last, because nobody waits for it.
  for (const { key } of ended) registry.archive(key)
  return { ended: ended.length, resumed: unfinished.length - ended.length }
}

/**
 * Waits for an unavailable store: an answer is not given up for one failed read. A run with damaged records must not
 * stop the others or the start; and it must not stay in flight either, or its readers would wait for ever.
 */
async function recoverOrFail(
  run: Run,
  parts: RecoveryParts,
  read: (run: Run, past: LogBounds, parts: RecoveryParts) => Promise<() => unknown>
): Promise<void> {
  const { store, log, isOver = () => false } = parts
  if (isOver()) return
  try {
    // Only reads are repeated: a refused write may have happened.
    const act = await untilRead(async () => read(run, await boundsOf(store, run), parts), isOver)
    // The lease may have been lost during the reads: then the run must not be started here as well.
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
 * One terminal status and one terminal frame, under a new epoch, so that cursors from before the crash are recognised.
 * All in one group: a crash during recovery leaves the run as it was.
 */
async function end(run: Run, past: LogBounds, parts: RecoveryParts): Promise<() => unknown> {
  if (parts.goesOn && run.attempts < ATTEMPTS_MAX) {
    const { registry, store, states } = parts
    const { journal, events } = await readJournal(run, store, parts.options)
    const before = await states.beforeNext(run, store, past.head, { journal, events })
    return () => registry.resume(run, past, { journal, before })
  }
  return ended(run, past, parts)
}

/** A queued run waits for its turn again, unless it has ended its process each time before its first record was stored. */
async function resume(run: Run, past: LogBounds, parts: RecoveryParts): Promise<() => unknown> {
  return run.attempts < ATTEMPTS_MAX ? () => parts.registry.resume(run, past) : ended(run, past, parts)
}

async function ended(run: Run, past: LogBounds, parts: RecoveryParts): Promise<() => unknown> {
  const recorder = await Recorder.resumed(run, past, parts.store, parts)
  recorder.close(run.attempts < ATTEMPTS_MAX ? RESTARTED : exhausted(run.attempts), true)
  const { ops } = recorder.take()!
  return async () => {
    await parts.writer.writeAll([...countedOf(run), ...ops], 'endless', parts.owner)
    // Nobody waits for it: the server may be gone as well.
    parts
      .abandon?.(run.thread_id, run.run_id)
      .catch((error: unknown) => parts.log.error({ err: error, run_id: run.run_id }, 'a run may go on at its server'))
  }
}

/** Its end has frames of its own, as an attempt has: without being counted they would stand for one of which nothing was stored. */
function countedOf({ run_id, thread_id, attempts }: Run): Op[] {
  return attempts === 0 ? [] : [{ name: 'run.start', run_id, thread_id, now: timestamp(), attempt: attempts + 1 }]
}
