// How a run ends: decided once, before it is written down.
import { AgentError } from '../agent/runtime.ts'
import type { RunStatus, ThreadStatus } from '../types.ts'

export type CancelAction = 'interrupt' | 'rollback'

export interface RunEnd {
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** For joiners and the run's row; the frame is left out when null. */
  readonly failure: { readonly kind: string; readonly message: string } | null
  readonly error: string | null
  readonly stopReason: string | null
  /** The state goes back to what it was before the run. */
  readonly rollback: boolean
}

/** The error of a run that was rolled back. */
export const ROLLED_BACK = 'Rolled back by user'

export const SUCCESS: RunEnd = { status: 'success', failure: null, error: null, stopReason: null, rollback: false }

/** The run waits for its user: nothing was broken off, and its open calls stay open for the answer. */
export const ASKING: RunEnd = { ...SUCCESS, status: 'interrupted', stopReason: 'asked_user' }

/** The store has refused the records of the run, for what they are. */
export const REFUSED: RunEnd = failedWith(
  'error',
  'StorageRefused',
  'The records of this run could not be stored',
  'storage_refused'
)

/** Its process has gone before it had ended. */
export const RESTARTED: RunEnd = failedWith(
  'error',
  'ServerRestart',
  'Gateway restarted before this run reached a durable final state.',
  'server_restart'
)

/** What was thrown ends the run: an agent's words are for its user, those of a programmer's error are not. */
export function failed(error: unknown): RunEnd {
  if (error instanceof AgentError) return failedWith('error', error.kind, error.message, error.stopReason)
  return failedWith('error', 'InternalError', 'The agent failed unexpectedly', null)
}

export function timedOut(timeoutMs: number): RunEnd {
  return failedWith('timeout', 'RunTimeout', `The run took longer than ${timeoutMs / 1000} s`, 'timeout')
}

/** `stopReason` tells who did it when it was not a user. */
export function cancelled(action: CancelAction, stopReason: string | null): RunEnd {
  if (action === 'rollback') return { ...SUCCESS, status: 'error', error: ROLLED_BACK, stopReason, rollback: true }
  return { ...SUCCESS, status: 'interrupted', stopReason }
}

/** [States]: idle after a run that ended without failure, error after one that failed. A user's cancel is no failure. */
export function threadStatusAfter(end: RunEnd): ThreadStatus {
  if (end === ASKING) return 'interrupted'
  const { status } = end
  return status === 'success' || status === 'interrupted' ? 'idle' : 'error'
}

function failedWith(status: RunEnd['status'], kind: string, message: string, stopReason: string | null): RunEnd {
  return { status, failure: { kind, message }, error: message, stopReason, rollback: false }
}
