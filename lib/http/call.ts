// A request as handlers see it, and their answers. Routes use these and not node:http.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Share } from '../base/budget.ts'
import { Failure } from '../base/errors.ts'
import type { Grant, User } from '../base/types.ts'

export interface Call<Body = unknown, Query = unknown> {
  readonly method: string
  /** Decoded, without query, without a trailing slash, without the /api/langgraph rewrite: `/api/threads/abc`. */
  readonly path: string
  /** Path parameters, percent-decoded and checked by the route. */
  readonly params: Readonly<Record<string, string>>
  /** The query after the route's schema. */
  readonly query: Query
  /** The body after the route's schema. */
  readonly body: Body
  /** The signed-in user; null on public routes. */
  readonly user: User | null
  /** Client address behind trusted proxies [Auth 9]. */
  readonly address: string
  /** The client uses https, to us or to a trusted proxy. */
  readonly secure: boolean
  /** The credential's grant; null on public routes. */
  readonly grant: Grant | null
  /** The session token as sent, valid or not; null: none. */
  readonly credential: string | null
  /** What the request holds of its sender's memory: its body, or of a socket what has arrived. Released with its response. */
  readonly share: Share
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

export interface Cookie {
  readonly name: string
  readonly value: string
  /** Seconds; 0 deletes the cookie, undefined makes a session cookie. */
  readonly maxAge?: number
  readonly httpOnly: boolean
  readonly sameSite: 'Lax' | 'Strict'
  readonly secure: boolean
}

export interface Reply {
  readonly status?: number
  readonly json?: unknown
  /** JSON text, sent as it is. */
  readonly jsonText?: string
  /** Any other text. */
  readonly text?: { readonly type: string; readonly body: string }
  readonly headers?: Readonly<Record<string, string>>
  readonly cookies?: readonly Cookie[]
}

/** The handler has taken over the response (a stream): the server writes nothing more. */
export const HANDLED: { readonly taken: true } = { taken: true }

export type Handler<Body = unknown, Query = unknown> = (
  call: Call<Body, Query>
) => Reply | typeof HANDLED | Promise<Reply | typeof HANDLED>

/** A call with a user, for handlers of routes that require a sign-in. */
export type UserCall<Body = unknown, Query = unknown> = Call<Body, Query> & { readonly user: User }

/**
 * The call's user. Safe even if the guards were left out [Auth 5].
 * @throws Failure 401 not_authenticated
 */
export function requireUser(call: Call): User {
  if (call.user === null) throw new Failure('guard_not_authenticated')
  return call.user
}

/** @throws Failure 401 not_authenticated; 403 permission_denied */
export function requireAdmin(call: Call): void {
  if (requireUser(call).system_role !== 'admin') throw new Failure('permission_denied', { permission: 'admin' })
}
