// Guards: checks before a handler. The order is the same for every route: CORS, CSRF [Auth 2], session [Auth 3],
// permission of an API token, owner [Auth 6].
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Failure, fail, Invalid } from '../base/errors.ts'
import { API_TOKEN_PREFIX, type Credential, type Permission, type Principal, type Grant } from '../base/types.ts'
import { isLoopback } from './address.ts'
import type { Call, Cookie, Route, ThreadAccess } from './route.ts'
import { cookieOf, firstOf, requestOf } from './request.ts'
import { badId, isId } from './schema.ts'

export const SESSION_COOKIE = 'access_token'
const CSRF_COOKIE = 'csrf_token'

/** Methods that change state and therefore need the CSRF header. */
const CHANGING: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

export function isChanging(method: string): boolean {
  return CHANGING.has(method)
}

// ------------------------------------------------------------------------------------------------- CORS

const EXPOSED =
  'Content-Location, Location, X-Pagination-Total, X-Pagination-Next, Retry-After, Content-Disposition, Content-Range, ETag, X-Heartbeat-Ms'
const PREFLIGHT_SECONDS = '600'

/** Foreign origins whose pages may call with the user's cookies. */
export class Origins {
  readonly #origins: ReadonlySet<string>

  /** @param warn told when `*` is listed: with credentials it would let every page act for the user, so it is dropped */
  constructor(origins: readonly string[], warn: (message: string) => void) {
    if (origins.includes('*')) warn('cors_origins: * is not possible together with cookies and is skipped')
    this.#origins = new Set(
      origins.filter((origin) => origin !== '*').map((origin) => origin.replace(/\/+$/, '').toLowerCase())
    )
  }

  has(origin: string): boolean {
    return this.#origins.has(origin.toLowerCase())
  }

  /** CORS headers for this response; null: none. */
  headersFor(req: IncomingMessage): Readonly<Record<string, string>> | null {
    if (this.#origins.size === 0) return null
    const origin = req.headers.origin
    if (origin === undefined || !this.has(origin)) return { Vary: 'Origin' }
    return {
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Allow-Credentials': 'true',
      'Access-Control-Expose-Headers': EXPOSED,
      Vary: 'Origin'
    }
  }

  /** Headers for a preflight of a listed origin; null when it is none. Preflights are answered before all other guards. */
  preflight(req: IncomingMessage): Readonly<Record<string, string>> | null {
    if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) return null
    if (req.headers.origin === undefined || !this.has(req.headers.origin)) return null
    const wanted = req.headers['access-control-request-headers'] ?? ''
    return {
      'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'Access-Control-Allow-Headers': /^[\w\-, ]{1,1000}$/.test(wanted)
        ? wanted
        : 'Content-Type, X-CSRF-Token, Last-Event-ID, Authorization, X-Api-Key',
      'Access-Control-Max-Age': PREFLIGHT_SECONDS
    }
  }
}

// ------------------------------------------------------------------------------------------------- CSRF

/**
 * Whether a changing request needs the CSRF token. Not with an API key (valid or not) and without cookies: a browser
 * added nothing to it, so no foreign page can have made it.
 */
export function needsCsrf(req: IncomingMessage): boolean {
  const { authorization, cookie } = req.headers
  const hasKey = req.headers['x-api-key'] !== undefined || /^bearer /i.test(authorization ?? '')
  return isChanging(req.method ?? 'GET') && (!hasKey || Boolean(cookie?.trim()))
}

/**
 * Double submit [Auth 2]: the header must repeat the cookie. A foreign page can make the browser send the cookie but cannot read it.
 * @throws Failure csrf_missing, csrf_mismatch
 */
export function checkCsrf(req: IncomingMessage): void {
  const cookie = cookieOf(req, CSRF_COOKIE)
  const header = req.headers['x-csrf-token']
  if (!cookie || typeof header !== 'string' || header === '') throw fail('csrf_missing')
  if (!isSame(cookie, header)) throw fail('csrf_mismatch')
}

/**
 * For exempt routes, where there is no token yet because the user is signing in: a foreign page must not sign a visitor
 * in to an account of its own. No Origin: not sent by a page.
 * @throws Failure cross_site
 */
export function checkOrigin(
  req: IncomingMessage,
  origins: Origins,
  publicUrl: string | null,
  isFromProxy: boolean
): void {
  const { origin } = req.headers
  if (origin === undefined || origins.has(origin)) return
  if (!isOwnOrigin(origin, req, publicUrl, isFromProxy)) throw fail('cross_site')
}

// X-Forwarded-Host is accepted from any peer: a foreign page cannot set it. Where no proxy reports the scheme, the page's own is used.
function isOwnOrigin(origin: string, req: IncomingMessage, publicUrl: string | null, isFromProxy: boolean): boolean {
  const page = urlOf(origin)
  if (page === null || !/^https?:$/.test(page.protocol)) return false
  // DNS rebinding: a foreign name that resolves to this machine makes Host and Origin match. Only a trusted proxy may use such a name.
  const isOurs = isFromProxy && publicUrl === null
  if (isLoopback(req.socket.localAddress ?? '') && !isOurs && !isLoopbackName(page.hostname))
    return publicUrl !== null && urlOf(publicUrl)?.origin === page.origin
  const protocol = firstOf(req.headers['x-forwarded-proto'])?.toLowerCase() ?? page.protocol.slice(0, -1)
  const forwarded = firstOf(req.headers['x-forwarded-host'])
  const port = firstOf(req.headers['x-forwarded-port'])
  const hosts = [req.headers.host, forwarded, forwarded && port && `${forwarded}:${port}`]
  const own = hosts.map((host) => (host ? urlOf(`${protocol}://${host}`) : null))
  if (publicUrl !== null) own.push(urlOf(publicUrl))
  return own.some((url) => url?.origin === page.origin)
}

/** Whether a host name, as in a URL, is this machine without asking DNS. */
export function isLoopbackName(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
}

function urlOf(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null
}

/** Whether a cookie may outlive the browser session: over https, or to the same machine [contract 1.4]. */
export function mayLast(req: IncomingMessage, secure: boolean): boolean {
  const url = urlOf(`http://${req.headers.host ?? ''}`)
  return secure || isLoopbackName(url?.hostname ?? '')
}

/**
 * A new csrf_token, readable by the page, which has to repeat it.
 * @param maxAge that of the session: a signed-in user without this cookie cannot write
 */
export function csrfCookie(secure: boolean, maxAge?: number): Cookie {
  return {
    ...(maxAge !== undefined && { maxAge }),
    name: CSRF_COOKIE,
    value: randomBytes(64).toString('base64url'),
    httpOnly: false,
    sameSite: 'Strict',
    secure
  }
}

// Constant time: the duration must not tell how much of a guess was right.
function isSame(one: string, other: string): boolean {
  const a = Buffer.from(one)
  const b = Buffer.from(other)
  return a.length === b.length && timingSafeEqual(a, b)
}

// ---------------------------------------------------------------------------------------------- session

/** Looks up a credential, or throws a Failure (token_invalid, token_expired, user_not_found...). */
export type Authenticate = (credential: Credential) => Promise<Principal>

/**
 * The credential that counts. A session cookie wins over an API token, so that requests with the cookie strictly follow
 * the rules for sessions. Null: none.
 */
export function credentialOf(req: IncomingMessage): Credential | null {
  const session = cookieOf(req, SESSION_COOKIE)
  if (session !== undefined) return { kind: 'session', text: session }
  const text = apiTokenOf(req)
  return text === null ? null : { kind: 'token', text }
}

/**
 * The API token of a request, from `Authorization: Bearer` or else `X-Api-Key`. Both headers have other uses (a proxy
 * in front, a client that sends its model key everywhere), so values that do not look like our tokens are ignored.
 */
function apiTokenOf(req: IncomingMessage): string | null {
  const bearer = /^bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1]
  const key = req.headers['x-api-key']
  return [bearer, key].find((text) => typeof text === 'string' && text.startsWith(API_TOKEN_PREFIX))?.toString() ?? null
}

/** Authenticates a request without a credential of ours, given its head, by the operator's own rules, which may refuse it. */
export type AuthenticateRequest = (head: Request) => Promise<Principal>

/**
 * Authenticates the caller [Auth 3].
 * @param otherwise used when there is no credential of ours
 * @throws Failure not_authenticated without a credential; what `authenticate` throws for a bad one
 */
export async function principalOf(
  req: IncomingMessage,
  authenticate: Authenticate,
  otherwise: AuthenticateRequest | null
): Promise<Principal> {
  const credential = credentialOf(req)
  if (credential !== null) return authenticate(credential)
  if (otherwise === null) throw fail('not_authenticated')
  return otherwise(requestOf(req))
}

// ------------------------------------------------------------------------------------------- permission

/**
 * Lets sessions pass, and API tokens on routes they have permission for.
 * @throws Failure 403 permission_denied, token_not_accepted
 */
export function checkPermission({ permission }: Route, { permissions }: Grant): void {
  if (permissions === null || permission === 'any') return
  if (permission === null) throw fail('token_not_accepted')
  if (!permissions.has(permission)) throw fail('permission_denied', { permission })
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

// ------------------------------------------------------------------------------------------------ owner

/** Owner of a thread: undefined: no record, null: shared by all. */
export type ThreadOwner = (threadId: string) => Promise<string | null | undefined>

/** Ids become file names and table keys, so their form is checked first. */
const ID_NAMES = ['thread_id', 'run_id'] as const

/** @throws Invalid 422 for a malformed thread or run id */
export function checkIds(params: Readonly<Record<string, string>>): void {
  const bad = ID_NAMES.filter((name) => params[name] !== undefined && !isId(params[name]))
  if (bad.length === 0) return
  throw new Invalid(bad.map((name) => badId(['path', name])))
}

/**
 * Lets the thread's owner pass, and everybody if it is shared or (for reading) has no record [Auth 6].
 * @throws Failure 404 thread_not_found, the same for a foreign thread and for none
 */
export async function checkOwner(route: Route, id: string, userId: string, threadOwner: ThreadOwner): Promise<void> {
  if (route.thread === null) return
  const owner = await threadOwner(id)
  if (!mayAccess(route.thread, owner, userId)) throw fail('thread_not_found', { id })
}

/** [Auth 6]. @param owner undefined: there is no record; null: the thread is everybody's */
export function mayAccess(access: ThreadAccess, owner: string | null | undefined, userId: string): boolean {
  return owner === undefined ? access === 'read' : owner === null || owner === userId
}
