// Calls from within: LangGraph's client without a URL, in the project's own code, calls this server on behalf of the user it runs for.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Permission, Principal } from './accounts.ts'
import { isObject, type JsonObject } from './types.ts'

/** The user code runs for. */
export interface Caller {
  readonly userId: string
  /** As the operator's own rules describe the user; null: an account of ours. */
  readonly authUser: JsonObject | null
  /** null: everything an API token can allow. */
  readonly permissions: readonly Permission[] | null
}

/**
 * The one a run works for. A run whose record is gone may do nothing beyond what needs no permission. null: it works for nobody.
 * @param kwargs of the run; undefined: its record is gone
 */
export function callerOfRun(userId: string | null, kwargs: JsonObject | undefined): Caller | null {
  if (userId === null) return null
  const { auth_user = null, permissions = null } = kwargs ?? { permissions: [] }
  return {
    userId,
    authUser: isObject(auth_user) ? auth_user : null,
    // Written by `orderFor`.
    permissions: permissions as Permission[] | null
  }
}

/** Issues credentials for single calls. */
export interface Door {
  /** @returns the server's URL, and a credential valid until `close`; null: an anonymous call */
  open(caller: Caller | null): Promise<{ readonly url: string; readonly token: string | null }>
  close(token: string): Promise<void>
}

/** Where LangGraph's client looks for a way to its own server. */
const FETCH = Symbol.for('langgraph_api:fetch')
const current = new AsyncLocalStorage<Caller | null>()

/** Runs `work`, and everything it starts, on behalf of `caller`. */
export function actingFor<T>(caller: Caller | null, work: () => T): T {
  return current.run(caller, work)
}

/** Who the code that asks works for; null: nobody. */
export function callerHere(): Caller | null {
  return current.getStore() ?? null
}

export function callerOf({ user, grant }: Principal): Caller {
  return { userId: user.id, authUser: grant.asserted ?? null, permissions: grant.permissions && [...grant.permissions] }
}

/** One per JavaScript thread, as in LangGraph: the last server wins. */
export function registerLoopback(door: Door): void {
  const call = async (target: string | URL, init: RequestInit = {}): Promise<Response> => {
    const { pathname, search } = new URL(target, 'http://localhost')
    const { url, token } = await door.open(callerHere())
    const headers = new Headers(init.headers)
    // An explicit credential is kept.
    if (token !== null && !headers.has('authorization')) headers.set('authorization', `Bearer ${token}`)
    try {
      return await fetch(url + pathname + search, { ...init, headers })
    } finally {
      if (token !== null) await door.close(token)
    }
  }
  Object.assign(globalThis, { [FETCH]: call })
}
