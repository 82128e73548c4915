// The entry: what is decided from the head of a request, in this order: CORS, where a request that changes something comes from [Auth 2],
// whether the start is over, and who asks [Auth 3].
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { fail } from '../base/errors.ts'
import { API_TOKEN_PREFIX, type Credential, type Principal } from '../base/accounts.ts'
import { isObject } from '../base/types.ts'
import { isLoopbackName } from '../base/networks.ts'
import { isLoopback, type Proxies } from './address.ts'
import { Allowance } from './admission.ts'
import { cookieOf, firstOf, requestOf } from './request.ts'
import type { Cookie, Route } from './route.ts'
import type { Match } from './router.ts'
import { isUpgrade } from './web-socket.ts'

export const SESSION_COOKIE = 'access_token'
/** The header with the secret of a link: in an address it would stand in every log on the way. */
const LINK_HEADER = 'x-share-link'
const CSRF_COOKIE = 'csrf_token'

/** Methods that change state and therefore need the CSRF header. */
export const CHANGING: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/** How many requests somebody sends. */
export interface RequestCounting {
  /** Also those of accounts without a quota of their own. */
  readonly countsAll: boolean
  /** @throws Failure too_many_requests */
  count(principal: Principal): void | Promise<void>
}

export interface EntryOptions {
  readonly authenticate: Authenticate
  /** Authenticates callers without a credential of ours; null: they are anonymous. */
  readonly authenticateRequest?: AuthenticateRequest | null
  readonly origins: Origins
  readonly proxies: Proxies
  /** Public URL of this server, if known: its origin is our own. */
  readonly publicUrl?: string | null
  readonly log: { warn(fields: object, message: string): void }
  readonly requests?: RequestCounting
  /** At startup all but public information waits for this, and is refused if it names a reason; null: the start is over. */
  readonly notYet?: () => Promise<string | null> | null
}

/** Lifetime of a csrf_token set with a refusal: no session lasts longer. */
const CSRF_SECONDS = 30 * 86_400
const FOREIGN = 'a page of another origin was refused: if it is yours, set server.public_url or server.cors_origins'
/** So many of them are logged, once each. */
const FOREIGN_MAX = 20
const ORIGIN_LENGTH_MAX = 256

/** What is decided from the head of a request, before it is known whether a handler runs. */
export class Entry {
  readonly #options: EntryOptions
  /** Origins whose refusal was logged. */
  readonly #foreign = new Set<string>()
  /** By address: links are asked about by anybody. */
  readonly #byLinks = new Allowance({ atOnce: 240, refillMs: 250 })

  constructor(options: EntryOptions) {
    this.#options = options
  }

  /**
   * Who asks; null when no sign-in is required. `cookies` are set on any outcome; `isApps`: the operator's app answers.
   * @throws Failure
   */
  async pass(req: IncomingMessage, match: Match, cookies: Cookie[], isApps: boolean): Promise<Principal | null> {
    const { authenticate, authenticateRequest = null, proxies } = this.#options
    const route = match.kind === 'found' ? match.route : null
    if (CHANGING.has(req.method ?? 'GET')) {
      if (route?.csrf === 'exempt') {
        this.#checkOrigin(req)
        // A sign-in's handler sets one that lasts as long as the session. This one covers every other outcome.
        const secure = proxies.isSecure(req)
        cookies.push(csrfCookie(secure, mayLast(req, secure) ? CSRF_SECONDS : undefined))
      } else if (authenticateRequest !== null && credentialOf(req) === null) {
        // The operator's rules may rely on something browsers send by themselves, and there is no csrf_token to compare with.
        this.#checkOrigin(req)
      } else if (!isKeyless(req, route)) checkCsrf(req)
    }
    // A page of another site can open a WebSocket with its visitor's cookies.
    if (isUpgrade(req)) this.#checkOrigin(req)
    const isPublicRead = route?.access === 'public' && route.method === 'GET'
    const start = isPublicRead ? null : (this.#options.notYet?.() ?? null)
    const reason = start === null ? null : await start
    if (reason !== null) throw fail('not_ready', { reason }, { 'Retry-After': '1' })
    // Also for unknown paths: without a session nobody learns which paths exist [Auth 3].
    const isPublic = match.kind === 'method' ? match.isPublic : route?.access === 'public'
    if (isPublic && !isApps) return null
    const isByLink = LINK_HEADER in req.headers
    const wait = isByLink ? this.#byLinks.ask(proxies.addressOf(req)) : 0
    if (wait > 0) throw fail('too_many_by_links', null, { 'Retry-After': String(wait) })
    const principal = await principalOf(req, authenticate, authenticateRequest, proxies.addressOf(req))
    // What the operator's app answers is nobody's thread.
    if (principal.grant.link && (isApps || route === null)) throw fail('link_refused')
    // Hot path: where there are no quotas, only accounts that have one of their own are asked about.
    const { requests } = this.#options
    if (requests && !isByLink && (requests.countsAll || principal.user.quota || principal.grant.actor !== undefined))
      await requests.count(principal)
    return principal
  }

  /** @throws Failure cross_site, which the log explains: an operator behind a proxy meets it first. */
  #checkOrigin(req: IncomingMessage): void {
    const { origins, proxies, publicUrl = null } = this.#options
    try {
      checkOrigin(req, origins, publicUrl, proxies.isTrusted(req))
    } catch (error) {
      this.#logForeign(req)
      throw error
    }
  }

  #logForeign({ headers: { origin = '', host } }: IncomingMessage): void {
    if (this.#foreign.has(origin) || this.#foreign.size >= FOREIGN_MAX || origin.length > ORIGIN_LENGTH_MAX) return
    this.#foreign.add(origin)
    this.#options.log.warn({ origin, host }, FOREIGN)
  }
}

// ------------------------------------------------------------------------------------------------- CORS

const EXPOSED =
  'Content-Location, Location, X-Pagination-Total, X-Pagination-Next, Retry-After, Content-Disposition, Content-Range, ETag, X-Heartbeat-Ms, X-RateLimit-Reset, X-Request-Id'
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
 * A client of another protocol that has forgotten its key: it learns that from a 401, as its protocol says, and knows nothing of the
 * pair. Without cookies there is nothing that a foreign page could use.
 */
function isKeyless(req: IncomingMessage, route: Route | null): boolean {
  return route !== null && route.errors !== 'contract' && req.headers.cookie === undefined
}

/**
 * Double submit [Auth 2]: the header must repeat the cookie. A foreign page can make the browser send the cookie but cannot read it. Not
 * asked of a request with an API key (valid or not) and without cookies: a browser added nothing to it, so no foreign page can have made it.
 * @throws Failure csrf_missing, csrf_mismatch
 */
function checkCsrf(req: IncomingMessage): void {
  const { authorization, cookie } = req.headers
  const hasKey = req.headers['x-api-key'] !== undefined || /^bearer /i.test(authorization ?? '')
  if (hasKey && !cookie?.trim()) return
  const given = Buffer.from(cookieOf(req, CSRF_COOKIE) ?? '')
  const repeated = Buffer.from(req.headers['x-csrf-token']?.toString() ?? '')
  if (given.length === 0 || repeated.length === 0) throw fail('csrf_missing')
  // Constant time: the duration must not tell how much of a guess was right.
  if (given.length !== repeated.length || !timingSafeEqual(given, repeated)) throw fail('csrf_mismatch')
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

// ------------------------------------------------------------------------------------------ credentials

/** Looks up a credential, or throws a Failure (token_invalid, token_expired, user_not_found...). */
export type Authenticate = (credential: Credential) => Promise<Principal>

const ACTING_HEADER = 'x-on-behalf-of'

/**
 * The credential that counts. A link wins: it opens less than any other. A session cookie wins over an API token, so that requests with
 * the cookie strictly follow the rules for sessions. Null: none.
 * @throws Failure acting_refused for a link or a session that names another user: only tokens act for others
 */
function credentialOf(req: IncomingMessage, address = ''): Credential | null {
  const session = cookieOf(req, SESSION_COOKIE)
  const link = req.headers[LINK_HEADER]
  const named = req.headers[ACTING_HEADER]
  // Whoever names somebody else would take the answer for theirs.
  if (named !== undefined && (typeof link === 'string' || session !== undefined)) throw fail('acting_refused')
  if (typeof link === 'string') return { kind: 'link', text: link, viewer: session ?? null, address }
  if (session !== undefined) return { kind: 'session', text: session }
  const text = apiTokenOf(req)
  if (text === null) return null
  return { kind: 'token', text, ...(typeof named === 'string' && { onBehalfOf: named.trim(), address }) }
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

/** Whether a request says who asks, whoever will believe it. */
export function showsCredential(req: IncomingMessage): boolean {
  const { authorization, cookie } = req.headers
  return authorization !== undefined || req.headers['x-api-key'] !== undefined || Boolean(cookie?.trim())
}

const CREDENTIALS = ['authorization', 'x-api-key']

/** Takes into the head what a first message has as `headers`, of credentials alone. */
export function takeCredential(req: IncomingMessage, message: unknown): void {
  const headers = isObject(message) && isObject(message.headers) ? message.headers : {}
  for (const [name, value] of Object.entries(headers))
    if (CREDENTIALS.includes(name.toLowerCase()) && typeof value === 'string') req.headers[name.toLowerCase()] = value
}

/** Authenticates a request without a credential of ours, given its head, by the operator's own rules, which may refuse it. */
export type AuthenticateRequest = (head: Request) => Promise<Principal>

/**
 * Authenticates the caller [Auth 3].
 * @param address of the client, behind proxies
 * @param otherwise used when there is no credential of ours
 * @throws Failure not_authenticated without a credential; what `authenticate` throws for a bad one
 */
export async function principalOf(
  req: IncomingMessage,
  authenticate: Authenticate,
  otherwise: AuthenticateRequest | null,
  address = ''
): Promise<Principal> {
  const credential = credentialOf(req, address)
  if (credential !== null) return authenticate(credential)
  if (otherwise === null) throw fail('not_authenticated')
  return otherwise(requestOf(req))
}
