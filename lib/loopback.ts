// Calls from within: LangGraph's client without an address, in code of the project, calls this server as whoever its code works for.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { JsonObject, Permission, Principal } from './types.ts'

/** Whom code works for. */
export interface Caller {
  readonly userId: string
  /** As rules of the operator's own describe them; null: an account of ours. */
  readonly authUser: JsonObject | null
  /** null: all that a user may do by an API token. */
  readonly permissions: readonly Permission[] | null
}

/** Opens the server to one call. */
export interface Door {
  /** @returns its address, and a credential that holds until `close`; null: nobody calls */
  open(caller: Caller | null): Promise<{ readonly url: string; readonly token: string | null }>
  close(token: string): Promise<void>
}

/** Where LangGraph's client looks for a way to its own server. */
const FETCH = Symbol.for('langgraph_api:fetch')
const current = new AsyncLocalStorage<Caller | null>()

/** Runs `work`, and all that it starts, in the name of `caller`. */
export function actingFor<T>(caller: Caller | null, work: () => T): T {
  return current.run(caller, work)
}

export function callerOf({ user, grant }: Principal): Caller {
  return { userId: user.id, authUser: grant.asserted ?? null, permissions: grant.permissions && [...grant.permissions] }
}

/** One for the thread, as LangGraph has it: the last server is meant. */
export function registerLoopback(door: Door): void {
  const call = async (target: string | URL, init: RequestInit = {}): Promise<Response> => {
    const { pathname, search } = new URL(target, 'http://localhost')
    const { url, token } = await door.open(current.getStore() ?? null)
    const headers = new Headers(init.headers)
    // Whoever brings a credential of their own means it.
    if (token !== null && !headers.has('authorization')) headers.set('authorization', `Bearer ${token}`)
    try {
      return await fetch(url + pathname + search, { ...init, headers })
    } finally {
      if (token !== null) await door.close(token)
    }
  }
  Object.assign(globalThis, { [FETCH]: call })
}
