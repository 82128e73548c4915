// What a kind of client expects of routes that others use too: one object, chosen where a request comes in. And how refusals are written.
import type { IncomingMessage } from 'node:http'
import type { Failure } from '../base/errors.ts'
import type { Run, Thread } from '../base/types.ts'

/** How a refusal is written, guards' and limits' included; null: as the contract says. */
export type ErrorForm = (failure: Failure, req: IncomingMessage) => Refusal | null

/** A reply that refuses. */
interface Refusal {
  readonly status: number
  readonly json?: unknown
  readonly text?: { readonly type: string; readonly body: string }
  readonly headers: Readonly<Record<string, string>>
}

export interface Dialect {
  /** How refusals are written, where the row has no form of its own; null: as the contract says. */
  readonly errors: ErrorForm | null
  /** Creating a thread whose id exists, unless the request says otherwise: 409, or that thread. */
  readonly existingThread: 'raise' | 'do_nothing'
  /** The thread of a run that names none, unless the request says otherwise. */
  readonly threadOfRun: 'delete' | 'keep'
  /** A second run of a thread, unless the request says otherwise. */
  readonly secondRun: 'reject' | 'enqueue'
  /** A run that was rolled back. */
  readonly rolledBackRun: 'delete' | 'keep'
  /** Cancelling a run that has ended. */
  readonly endedRun: 'ignore' | 'refuse'
  /** A new thread is found by the graph of its first run: before the answer, or soon after. */
  readonly namesGraph: 'before' | 'after'
  /** The last frame of a stream, `end`: some clients would take it for an answer. */
  readonly hasEndFrame: boolean
  /** How long the head of an answer that waits is held, in ms: so long a credential that ends is a 401. */
  readonly heldMs: number
  readonly threadSearch: {
    readonly limit: number
    readonly sortBy: 'created_at' | 'updated_at'
    readonly withStates: boolean
  }
  /** A thread is always shown with how long it is kept. */
  readonly showsTtl: boolean
  /** A graph's checkpoint has no members but those that name it. */
  readonly isBareCheckpoint: boolean
  /** Members of a thread that are shown differently, or besides. */
  threadMembers(thread: Thread): { readonly status?: string; readonly state_updated_at?: string }
  /** Why a run counts as failed though its agent has not: a stop of the server. null: it does not. */
  stopOf(run: Run): { readonly error: string; readonly message: string } | null
}

/** Proxies want a first byte within a minute. */
const HEAD_HELD_MS = 15_000

/** That of the contract. */
export const CONTRACT: Dialect = {
  errors: null,
  existingThread: 'do_nothing',
  threadOfRun: 'keep',
  secondRun: 'reject',
  rolledBackRun: 'keep',
  endedRun: 'refuse',
  namesGraph: 'after',
  hasEndFrame: true,
  heldMs: HEAD_HELD_MS,
  threadSearch: { limit: 100, sortBy: 'updated_at', withStates: false },
  showsTtl: false,
  isBareCheckpoint: false,
  threadMembers: () => ({}),
  stopOf: () => null
}
