// Who is asking: a signed-in user, or the system (migration, command line, a run writing its own log).
import { AsyncLocalStorage } from 'node:async_hooks'

/** The id under which files are kept when no user is known. */
export const DEFAULT_USER_ID = 'default'

/**
 * The user argument of a storage method [Auth 7]: omitted (undefined) means the current user, an error if there is none;
 * a text is that user; null bypasses filtering (migration, command line, the run's own engine).
 */
export type UserArg = string | null | undefined

/** A user argument after it was resolved: a user's id, or null for no filter. */
export type Owner = string | null

/** Of which trace something is a part, as headers say it [W3C Trace Context]. */
export interface Trace {
  readonly traceparent: string
  readonly tracestate?: string
}

interface Scope {
  readonly userId: string | null
  readonly requestId: string | null
  readonly trace: Trace | null
}

const current = new AsyncLocalStorage<Scope | undefined>()

/** Runs `work` as part of a request: lines of the log have its id, and what it asks of others belongs to its trace. */
export function asRequest<T>(requestId: string | null, trace: Trace | null, work: () => T): T {
  return current.run({ userId: null, requestId, trace }, work)
}

/** Runs `work` as part of this trace. */
export function asTraced<T>(trace: Trace | null, work: () => T): T {
  return current.run({ userId: null, requestId: null, ...current.getStore(), trace }, work)
}

/** The trace in whose course this runs; null: none. */
export function currentTrace(): Trace | null {
  return current.getStore()?.trace ?? null
}

/** The id of the request in whose course this runs; null: none. */
export function currentRequestId(): string | null {
  return current.getStore()?.requestId ?? null
}

/** Runs `work` with `userId` as the current user; the user before it is current again afterwards [Auth 4]. */
export function asUser<T>(userId: string, work: () => T): T {
  const scope = current.getStore()
  return current.run({ userId, requestId: scope?.requestId ?? null, trace: scope?.trace ?? null }, work)
}

/**
 * Runs `work`, and everything it starts, without a current user: for work that outlives its request. Such work is given
 * its user explicitly; forgetting that fails loudly instead of acting for whoever triggered it [Auth 7].
 */
export function withoutUser<T>(work: () => T): T {
  // Not `exit`, which disables and re-enables the whole storage.
  return current.run(undefined, work)
}

/** The current user's id, or null: for optional stamps [Auth 7] and for paths. */
export function currentUserId(): string | null {
  return current.getStore()?.userId ?? null
}

/**
 * Resolves the three cases of a user argument [Auth 7].
 * @throws Error when it is omitted and nobody is signed in: a bug, loud on purpose
 */
export function ownerOf(arg: UserArg, method: string): Owner {
  if (arg !== undefined) return arg
  const userId = currentUserId()
  if (userId === null) throw new Error(`${method} was called without user_id and no user is signed in`)
  return userId
}

/** The owner filter of [Auth 7]: own rows and rows without an owner, or everything for null [Store 1]. */
export function isVisible({ user_id }: { readonly user_id: string | null }, owner: Owner): boolean {
  return owner === null || user_id === null || user_id === owner
}
