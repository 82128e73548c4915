// The guards before a handler is known to run: where a request that changes something comes from, whether the start is over, and who asks.
import type { IncomingMessage } from 'node:http'
import { fail } from '../base/errors.ts'
import type { Principal } from '../base/types.ts'
import type { Proxies } from './address.ts'
import type { Cookie } from './route.ts'
import {
  type Authenticate,
  type AuthenticateRequest,
  checkCsrf,
  checkOrigin,
  credentialOf,
  csrfCookie,
  isChanging,
  mayLast,
  needsCsrf,
  type Origins,
  principalOf
} from './guards.ts'
import type { Match } from './router.ts'
import { isUpgrade } from './web-socket.ts'

export interface EntryOptions {
  readonly authenticate: Authenticate
  /** Authenticates callers without a credential of ours; null: they are anonymous. */
  readonly authenticateRequest?: AuthenticateRequest | null
  readonly origins: Origins
  readonly proxies: Proxies
  /** Public URL of this server, if known: its origin is our own. */
  readonly publicUrl?: string | null
  readonly log: { warn(fields: object, message: string): void }
  /** At startup all but public information waits for this, and is refused if it names a reason; null: the start is over. */
  readonly notYet?: () => Promise<string | null> | null
}

/** Lifetime of a csrf_token set with a refusal: no session lasts longer. */
const CSRF_SECONDS = 30 * 86_400
const FOREIGN = 'a page of another origin was refused: if it is yours, set server.public_url or server.cors_origins'
/** So many of them are logged, once each. */
const FOREIGN_MAX = 20
const ORIGIN_LENGTH_MAX = 256

export class EntryGuard {
  readonly #options: EntryOptions
  /** Origins whose refusal was logged. */
  readonly #foreign = new Set<string>()

  constructor(options: EntryOptions) {
    this.#options = options
  }

  /**
   * Who asks; null when no sign-in is required. `cookies` are set on any outcome; `isApps`: the operator's app answers.
   * @throws Failure
   */
  async pass(req: IncomingMessage, match: Match, cookies: Cookie[], isApps: boolean): Promise<Principal | null> {
    const { authenticate, authenticateRequest = null, proxies } = this.#options
    if (isChanging(req.method ?? 'GET')) {
      if (isExempt(match)) {
        this.#checkOrigin(req)
        // A sign-in's handler sets one that lasts as long as the session. This one covers every other outcome.
        const secure = proxies.isSecure(req)
        cookies.push(csrfCookie(secure, mayLast(req, secure) ? CSRF_SECONDS : undefined))
      } else if (authenticateRequest !== null && credentialOf(req) === null) {
        // The operator's rules may rely on something browsers send by themselves, and there is no csrf_token to compare with.
        this.#checkOrigin(req)
      } else if (needsCsrf(req)) checkCsrf(req)
    }
    // A page of another site can open a WebSocket with its visitor's cookies.
    if (isUpgrade(req)) this.#checkOrigin(req)
    const start = isPublicRead(match) ? null : (this.#options.notYet?.() ?? null)
    const reason = start === null ? null : await start
    if (reason !== null) throw fail('not_ready', { reason }, { 'Retry-After': '1' })
    return needsSession(match) || isApps ? principalOf(req, authenticate, authenticateRequest) : null
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

function isPublicRead(match: Match): boolean {
  return match.kind === 'found' && match.route.access === 'public' && match.route.method === 'GET'
}

function isExempt(match: Match): boolean {
  return match.kind === 'found' && match.route.csrf === 'exempt'
}

/** Also for unknown paths: without a session nobody learns which paths exist [Auth 3]. */
function needsSession(match: Match): boolean {
  if (match.kind === 'found') return match.route.access === 'user'
  if (match.kind === 'method') return !match.isPublic
  return true
}
