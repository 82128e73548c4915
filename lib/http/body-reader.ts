// Reads and checks the bodies of requests, within the budgets of their senders.
import { fail } from '../errors.ts'
import type { LoopTurns } from '../loop-turns.ts'
import { BodyBudget } from './body-budget.ts'
import type { Call } from './call.ts'
import { type Authenticate, type AuthenticateRequest, principalOf } from './guards.ts'
import { parseBody, readBody } from './request.ts'
import { BODY_BYTES, type Route } from './route.ts'
import { check, isList } from './schema.ts'

/** For anonymous senders, by address: a sign-in is 100 bytes, so this allows some hundred at a time. */
const PUBLIC_BODIES = { each: 64 * 1024, all: 4 * 1024 * 1024 }
/** For signed-in users. */
const BODIES = { each: 16 * 1024 * 1024, all: 96 * 1024 * 1024 }
/** An 8 KiB body slower than this is held back on purpose. */
const PUBLIC_BODY_MS = 10_000
/** After a slower body the credential is checked again. */
const SLOW_BODY_MS = 1_000

interface BodyReaderOptions {
  /** Timeout for bodies of anonymous senders, in ms. */
  readonly limits?: { readonly publicBodyMs?: number }
  readonly authenticate: Authenticate
  readonly authenticateRequest?: AuthenticateRequest | null
}

export class BodyReader {
  readonly #options: BodyReaderOptions
  readonly #turns: LoopTurns
  readonly #publicBodies = new BodyBudget(PUBLIC_BODIES)
  readonly #bodies = new BodyBudget(BODIES)

  /** @param turns for parsing long bodies */
  constructor(options: BodyReaderOptions, turns: LoopTurns) {
    this.#options = options
    this.#turns = turns
  }

  /**
   * Called after the guards: an unauthorised caller must not make us buffer a body.
   * @param given the body, if the operator's app has read it already
   */
  async read(call: Omit<Call, 'body'>, route: Route, given: Buffer | null): Promise<unknown> {
    const { body, bodyLimit, form, bodyOptional } = route
    if (given !== null && bodyLimit === 'streamed') throw new Error('http.app has read a body that is streamed')
    if (body === null || bodyLimit === 'streamed') return undefined
    const { req, res, user } = call
    if (given !== null) {
      if (given.length > bodyLimit) throw fail('body_too_large', { limit: bodyLimit })
      return check(body, parseBody(req, given, form, bodyOptional, isList(body)), 'body')
    }
    const begun = performance.now()
    const share = user === null ? this.#publicBodies.share(call.address) : this.#bodies.share(user.id)
    const arrivesWithin = user === null ? (this.#options.limits?.publicBodyMs ?? PUBLIC_BODY_MS) : null
    try {
      const bytes = await readBody(req, { limit: bodyLimit, share, arrivesWithin })
      // The session may have ended while the body arrived.
      if (user !== null && performance.now() - begun > SLOW_BODY_MS) {
        const { authenticate, authenticateRequest = null } = this.#options
        await principalOf(req, authenticate, authenticateRequest)
      }
      if (user !== null && bytes.length > BODY_BYTES) await this.#turns.enter(user.id)
      return check(body, parseBody(req, bytes, form, bodyOptional, isList(body)), 'body')
    } catch (error) {
      // Unread bytes of the body would be taken for the next request.
      if (!req.complete) res.shouldKeepAlive = false
      throw error
    } finally {
      share.release()
    }
  }
}
