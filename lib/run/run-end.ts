// How a run ends: decided once, before it is written.
import { AgentError } from '../agent/runtime.ts'
import { cutTo, type RunStatus, type ThreadStatus } from '../base/types.ts'

export type CancelAction = 'interrupt' | 'rollback'

export interface RunEnd {
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** The error for joiners and the run's row; null: no error frame. */
  readonly failure: { readonly kind: string; readonly message: string } | null
  readonly error: string | null
  readonly stopReason: string | null
  /** The state is rolled back to before the run. */
  readonly rollback: boolean
}

/** Of what an error says, in UTF-16 units: somebody may have put a whole document into it. */
const MESSAGE_MAX = 8_000

export const ROLLED_BACK = 'Rolled back by user'

export const SUCCESS: RunEnd = { status: 'success', failure: null, error: null, stopReason: null, rollback: false }

/** The run waits for its user: its open calls stay open for the answer. */
export const ASKING: RunEnd = { ...SUCCESS, status: 'interrupted', stopReason: 'asked_user' }

/** The store has refused the run's records for good. */
export const REFUSED: RunEnd = failedWith(
  'error',
  'StorageRefused',
  'The records of this run could not be stored',
  'storage_refused'
)

/** Its process went away before it ended. */
export const RESTARTED: RunEnd = failedWith(
  'error',
  'ServerRestart',
  'Gateway restarted before this run reached a durable final state.',
  'server_restart'
)

/** The same as often as it was begun. */
export function exhausted(attempts: number): RunEnd {
  const text = `The run was begun ${attempts} times, and each time its process ended before it did.`
  return failedWith('error', 'ServerRestart', text, 'server_restart')
}

/** Ends the run with an exception: an agent's message is shown to the user, a programmer's error is not. */
export function failed(error: unknown): RunEnd {
  if (error instanceof AgentError) return failedWith('error', error.kind, error.message, error.stopReason)
  return failedWith('error', 'InternalError', 'The agent failed unexpectedly', null)
}

export function timedOut(timeoutMs: number): RunEnd {
  return failedWith('timeout', 'RunTimeout', `The run took longer than ${timeoutMs / 1000} s`, 'timeout')
}

/** `stopReason`: what cancelled it, when it was not a user. */
export function cancelled(action: CancelAction, stopReason: string | null): RunEnd {
  if (action === 'rollback') return { ...SUCCESS, status: 'error', error: ROLLED_BACK, stopReason, rollback: true }
  return { ...SUCCESS, status: 'interrupted', stopReason }
}

/** Thread status [States]: idle unless the run failed. A user's cancel is no failure. */
export function threadStatusAfter(end: RunEnd): ThreadStatus {
  if (end === ASKING) return 'interrupted'
  const { status } = end
  return status === 'success' || status === 'interrupted' ? 'idle' : 'error'
}

function failedWith(status: RunEnd['status'], kind: string, text: string, stopReason: string | null): RunEnd {
  const message = cutTo(text, MESSAGE_MAX)
  return { status, failure: { kind, message }, error: message, stopReason, rollback: false }
}
