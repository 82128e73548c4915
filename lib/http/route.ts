// A route: one row of the API's table, with who may call it, what it takes and answers, what the reference says of it, and its handler; and
// a request as handlers see it. Routes use these and not node:http.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type * as v from 'valibot'
import type { Share } from '../base/budget.ts'
import { Failure, fail, Invalid, type Issue } from '../base/errors.ts'
import { badId, isId } from './schema.ts'
import type { Grant, Permission, Principal, User } from '../base/accounts.ts'
import type { JsonObject } from '../base/types.ts'
import type { Dialect, ErrorForm } from './dialect.ts'

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
  /** `X-Request-Id` of the request, or made; the response has it too. */
  readonly requestId: string
  /** The client uses https, to us or to a trusted proxy. */
  readonly secure: boolean
  /** The credential's grant; null on public routes. */
  readonly grant: Grant | null
  /** To whom what the request takes is counted: its user, or the link that it came by; null: its address. */
  readonly payer: string | null
  /** The session token as sent, valid or not; null: none. */
  readonly credential: string | null
  /** What the request holds of its sender's memory: its body, or of a socket what has arrived. Released with its response. */
  readonly share: Share
  /** What the caller's kind of client expects. */
  readonly dialect: Dialect
  /** How refusals are written: as its row says, or else its dialect; null: as the contract says. */
  readonly errors: ErrorForm | null
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

/** Our own answer to a request that the project's app is asked about. */
export interface Ours {
  /** @param body as the app has read it; null: it has not */
  answer(body: Buffer | null): Promise<Reply | typeof HANDLED>
  /** The response is a stream: it begins after the app's middlewares. */
  readonly isStream: boolean
}

/** An app of the operator's in front of the table. It is asked about the path as the router has read it. */
export interface ProjectApp {
  readonly needsUser: boolean
  /** Whether it has a route of its own there; middlewares do not count. */
  declares(method: string, segments: readonly string[]): boolean
  /** Where it is asked; empty: nothing of it matches. */
  pathsOf(method: string, segments: readonly string[]): readonly string[]
  answer(
    req: IncomingMessage,
    res: ServerResponse,
    segments: readonly string[],
    principal: Principal | null,
    ours: Ours
  ): Promise<Reply | typeof HANDLED>
}

/** The handler has taken over the response (a stream): the server writes nothing more. */
export const HANDLED: { readonly taken: true } = { taken: true }

type Handler<Body = unknown, Query = unknown> = (
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

/** Below it auditors may read, and service accounts do what their token's scope says. */
const ADMINISTRATION = '/api/v1/admin/'

/** Of a route that is for administrators only. @throws Failure 403 permission_denied */
function checkAdmin({ path, method }: Route, { system_role: role }: User, grant: Grant | null): void {
  if (role === 'admin') return
  const isAdministration = path.startsWith(ADMINISTRATION)
  if (role === 'auditor' && isAdministration && method === 'GET') return
  // Its token has the route's permission, or the guards would have refused it.
  if (role === 'service' && isAdministration && grant?.kind === 'token') return
  throw new Failure('permission_denied', { permission: 'admin' })
}

// ----------------------------------------------------------------------------------------------------
// A route: one row of the API's table. Who may call it, what it takes and answers, what the reference says of it, and its handler.

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Public, or requires a sign-in. */
type Access = 'public' | 'user'

/**
 * The owner check of a route with {thread_id} [Auth 6]: `read` lets a thread without a record pass, `write` needs the record.
 * A thread of somebody else is 404 for both.
 */
type ThreadAccess = 'read' | 'write'

/** What a route answers with one status, for the reference. */
export interface Answer {
  readonly description?: string
  readonly schema?: JsonObject
  /** Media type; default JSON. */
  readonly type?: string
  /** An event stream; with a schema too when the caller's Accept header decides. */
  readonly events?: true
  /** Other representations of the same, by media type. */
  readonly also?: Readonly<Record<string, JsonObject>>
  /** Headers of this answer, with their descriptions. */
  readonly headers?: Readonly<Record<string, string>>
}

/** By status; null: without a body. */
export type Answers = Readonly<Record<number, Answer | null>>

/** Description of a query parameter; with its schema unless it is a text. */
type QueryMember = string | { readonly description: string; readonly schema: JsonObject }

/** What a handler reads of its request beside path, query schema and body, with descriptions. */
export interface ReadParameters {
  readonly query?: Readonly<Record<string, QueryMember>>
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Asks the project's auth rules whether the caller may do this. They may change `value`.
 * @returns metadata that the records must have; null: no condition
 * @throws Failure when they refuse
 */
export type AskRules = (resource: string, action: string, value: JsonObject) => Promise<JsonObject | null>

/** Asks the rules about a call before its handler. Returns the call as they changed it, or the reply. */
export type Authorization = (call: UserCall, ask: AskRules) => Promise<UserCall | { readonly reply: Reply }>

/** What the rules are asked: about the thread in the path (or that of the run in the path), or as a function does. */
type Rule = 'threads:read' | 'threads:update' | 'threads:delete' | Authorization

export interface Route {
  readonly method: Method
  /** `/api/threads/{thread_id}/runs`. A name takes one segment, decoded; `thread_id` and `run_id` are checked as ids. */
  readonly path: string
  readonly access: Access
  /** `exempt`: needs no X-CSRF-Token; the Origin is checked instead, and the response sets a new csrf_token. */
  readonly csrf: 'required' | 'exempt'
  /** For administrators only. */
  readonly admin: boolean
  readonly thread: ThreadAccess | null
  /** Permission an API token needs; `any`: none. null: sessions only, which is the default, so that a new route is closed. */
  readonly permission: Permission | 'any' | null
  /** Open by a link to the thread, with `files` by one that opens its files too; null: by none, so that a new route is closed. */
  readonly link: 'thread' | 'files' | null
  /** Without it the body is discarded, or left to the handler if `streamed`. */
  readonly body: v.GenericSchema | null
  readonly query: v.GenericSchema | null
  /** An empty body counts as `{}`. */
  readonly bodyOptional: boolean
  /** In bytes; `streamed`: the handler reads the body itself, within limits of its own. */
  readonly bodyLimit: number | 'streamed'
  /** Takes application/x-www-form-urlencoded besides JSON. */
  readonly form: boolean
  /** The last `{name}` takes the rest of the path, slashes included. */
  readonly tail: boolean
  /** The handler streams the response. */
  readonly isStream: boolean
  /** A WebSocket whose first message may have the credential that its upgrade lacks: bytes of a message; null: none such. */
  readonly lateBytes: number | null
  /** What an operator can turn off together: `threads`, `runs`, `store`... */
  readonly part: string
  /** For the reference: what it does, in one line. */
  readonly summary: string
  readonly answers: Answers
  /** Statuses besides those that follow from its guards and schemas. */
  readonly refusals: readonly number[]
  readonly reads: ReadParameters
  /** What the project's auth rules are asked before the handler; null: nothing. */
  readonly rule: Rule | null
  /** `contract`: `{"detail": ...}`, or what the client's dialect makes of it. */
  readonly errors: 'contract' | ErrorForm
  readonly handler: Handler
}

/** Default body limits in bytes: for public routes, and for signed-in users. */
const PUBLIC_BODY_BYTES = 8 * 1024
export const BODY_BYTES = 64 * 1024

type Output<Schema> = Schema extends v.GenericSchema ? v.InferOutput<Schema> : unknown

/** A route definition: everything with an obvious default may be omitted. */
export interface RouteSpec<Body, Query, Who extends Access = Access>
  extends Partial<
    Pick<
      Route,
      | 'csrf'
      | 'thread'
      | 'permission'
      | 'link'
      | 'bodyOptional'
      | 'form'
      | 'tail'
      | 'isStream'
      | 'lateBytes'
      | 'part'
      | 'refusals'
      | 'reads'
      | 'errors'
    >
  > {
  readonly method: Method
  readonly path: string
  readonly summary: string
  readonly answers: Answers
  readonly rule: Rule | null
  /** Default: user, so that a new route is closed. */
  readonly access?: Who
  readonly body?: Body
  readonly query?: Query
  /** For administrators only. */
  readonly admin?: true
  readonly bodyLimit?: Route['bodyLimit']
  readonly handler: (
    call: Who extends 'user' ? UserCall<Output<Body>, Output<Query>> : Call<Output<Body>, Output<Query>>
  ) => Reply | typeof HANDLED | Promise<Reply | typeof HANDLED>
}

/**
 * Completes a route; the handler's call is typed by the schemas.
 * @throws Error for a route that contradicts itself: at start, not at the first request.
 */
export function route<
  const Body extends v.GenericSchema | undefined = undefined,
  const Query extends v.GenericSchema | undefined = undefined,
  const Who extends Access = 'user'
>(spec: RouteSpec<Body, Query, Who>): Route {
  const { method, path } = spec
  const access: Access = spec.access ?? 'user'
  const complain = (what: string): never => {
    throw new Error(`route ${method} ${path}: ${what}`)
  }
  if (!path.startsWith('/')) complain('a path starts with /')
  if (spec.thread && !path.includes('{thread_id}')) complain('an owner check needs {thread_id} in the path')
  if (spec.thread && access === 'public') complain('an owner check needs a user')
  if (spec.permission && access === 'public') complain('a permission needs a user')
  if (spec.link && (method !== 'GET' || !spec.thread)) complain('a link reads one thread')
  if (access === 'public' && spec.bodyLimit !== undefined && !(Number(spec.bodyLimit) <= PUBLIC_BODY_BYTES))
    complain(`a public route may not take more than ${PUBLIC_BODY_BYTES} bytes`)
  if (spec.bodyLimit === 'streamed' && spec.body) complain('a body that is streamed has no schema')
  if (spec.rule && access === 'public') complain('a rule is asked about a user')
  if (spec.rule === null && access === 'user' && /\{(thread|run)_id\}/.test(path)) complain('a thread has a rule')
  if (spec.tail && !/\{\w+\}$/.test(path)) complain('a tail needs a {name} at the end of the path')
  const built: Route = {
    method,
    path,
    access,
    csrf: spec.csrf ?? 'required',
    admin: spec.admin ?? false,
    thread: spec.thread ?? null,
    permission: spec.permission ?? null,
    link: spec.link ?? null,
    body: spec.body ?? null,
    query: spec.query ?? null,
    bodyOptional: spec.bodyOptional ?? false,
    bodyLimit: spec.bodyLimit ?? (access === 'public' ? PUBLIC_BODY_BYTES : BODY_BYTES),
    form: spec.form ?? false,
    tail: spec.tail ?? false,
    isStream: spec.isStream ?? false,
    lateBytes: spec.lateBytes ?? null,
    part: spec.part ?? partOf(path),
    summary: spec.summary,
    answers: spec.answers,
    refusals: spec.refusals ?? [],
    reads: spec.reads ?? {},
    rule: spec.rule,
    errors: spec.errors ?? 'contract',
    // The server passes the handler what the route's own schemas returned, which is its type.
    handler: spec.handler as Handler
  }
  return access === 'user' ? { ...built, handler: withUser(built) } : built
}

/** By its place below /api; runs below a thread count as runs. */
function partOf(path: string): string {
  const [first, second, ...more] = path.split('/').slice(1)
  if (first !== 'api') return first!
  return second === 'threads' && more.includes('runs') ? 'runs' : second!
}

/** Even if the guards fail to run, such a handler needs a user [Auth 5]. */
function withUser(of: Route): Handler {
  return (call) => {
    const user = requireUser(call)
    if (of.admin) checkAdmin(of, user, call.grant)
    return of.handler(call)
  }
}

// ------------------------------------------------------------------------------------- who may call it

/**
 * Lets sessions pass, API tokens on routes they have permission for, and links on those that they open; to what is for administrators, them
 * alone. Before anything of the request is read: who may not learns nothing of what a route takes.
 * @throws Failure 403 permission_denied, token_not_accepted, link_refused
 */
export function checkPermission(of: Route, { user, grant }: Principal): void {
  const { permission, link } = of
  const { permissions, link: opened } = grant
  if (opened && (link === null || (link === 'files' && !opened.hasFiles))) throw fail('link_refused')
  if (permissions !== null && permission !== 'any') {
    if (permission === null) throw fail('token_not_accepted')
    if (!permissions.has(permission)) throw fail('permission_denied', { permission })
  }
  if (of.admin) checkAdmin(of, user, grant)
}

/**
 * For handlers that may do more than their route's permission says: an API token needs this permission as well.
 * @throws Failure 401 not_authenticated; 403 permission_denied
 */
export function requirePermission(call: Call, permission: Permission): void {
  if (call.grant === null) throw new Failure('guard_not_authenticated')
  const { permissions } = call.grant
  if (permissions !== null && !permissions.has(permission)) throw fail('permission_denied', { permission })
}

/** Owner of a thread: undefined: no record, null: shared by all. */
export type ThreadOwner = (threadId: string) => Promise<string | null | undefined>

/** Ids become file names and table keys, so their form is checked first. */
const ID_NAMES = ['thread_id', 'run_id'] as const

/** @throws Invalid 422 for a malformed thread or run id */
export function checkIds(params: Readonly<Record<string, string>>): void {
  const bad: Issue[] = []
  for (const name of ID_NAMES) if (params[name] !== undefined && !isId(params[name])) bad.push(badId(['path', name]))
  if (bad.length > 0) throw new Invalid(bad)
}

/**
 * Lets the thread's owner pass, and everybody if it is shared or (for reading) has no record [Auth 6]. A link opens its own thread alone.
 * @throws Failure 404 thread_not_found, the same for a foreign thread and for none
 */
export async function checkOwner(
  route: Route,
  id: string,
  { userId, link }: Pick<Grant, 'userId' | 'link'>,
  threadOwner: ThreadOwner
): Promise<void> {
  if (route.thread === null) return
  const owner = await threadOwner(id)
  if (!mayAccess(route.thread, owner, userId)) throw fail('thread_not_found', { id })
  if (link && (link.threadId !== id || owner === undefined)) throw fail('thread_not_found', { id })
}

/** [Auth 6]. @param owner undefined: there is no record; null: the thread is everybody's */
export function mayAccess(access: ThreadAccess, owner: string | null | undefined, userId: string): boolean {
  return owner === undefined ? access === 'read' : owner === null || owner === userId
}
