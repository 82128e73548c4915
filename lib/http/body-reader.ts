// Reads and checks the bodies of requests, within the budgets of their senders.
import { BYTE_WEIGHT, Budget, ofHeap, type Share } from '../base/budget.ts'
import { fail } from '../base/errors.ts'
import type { LoopTurns } from '../base/loop-turns.ts'
import { BODY_BYTES, type Call, type Route } from './route.ts'
import { type Authenticate, type AuthenticateRequest, principalOf } from './guards.ts'
import { parseBody, readBody, weightOf } from './request.ts'
import { check, isList } from './schema.ts'

/** For anonymous senders, by address: a sign-in is 100 bytes, so this allows some hundred at a time. */
const PUBLIC_BODIES = { each: 64 * 1024 * BYTE_WEIGHT, all: 4 * 1024 * 1024 * BYTE_WEIGHT }
/** For signed-in users, and the part of the heap that it may be at most. */
const BODIES = { each: 16 * 1024 * 1024 * BYTE_WEIGHT, all: 96 * 1024 * 1024 * BYTE_WEIGHT }
const PARTS = { each: 14, all: 7 }
/** An 8 KiB body slower than this is held back on purpose. */
const PUBLIC_BODY_MS = 10_000
/** After a slower body the credential is checked again. */
const SLOW_BODY_MS = 1_000

interface BodyReaderOptions {
  /** Timeout for bodies of anonymous senders, in ms. */
  readonly limits?: { readonly publicBodyMs?: number }
  readonly routes: readonly Route[]
  readonly authenticate: Authenticate
  readonly authenticateRequest?: AuthenticateRequest | null
}

export class BodyReader {
  readonly #options: BodyReaderOptions
  readonly #turns: LoopTurns
  readonly #publicBodies: Budget
  readonly #bodies: Budget

  /** @param turns for parsing long bodies */
  constructor(options: BodyReaderOptions, turns: LoopTurns) {
    this.#options = options
    this.#turns = turns
    // One body of the largest kind always fits, or it could never be sent.
    const largest = weightOf(Math.max(0, ...options.routes.map(({ bodyLimit }) => Number(bodyLimit) || 0)))
    const each = Math.max(largest, ofHeap(BODIES.each, PARTS.each))
    this.#bodies = new Budget({ each, all: Math.max(each, ofHeap(BODIES.all, PARTS.all)) })
    this.#publicBodies = new Budget({ ...PUBLIC_BODIES, all: ofHeap(PUBLIC_BODIES.all, PARTS.each) })
  }

  /** What a request holds: a user's, or an address's. */
  share(userId: string | null, address: string): Share {
    return userId === null ? this.#publicBodies.share(address) : this.#bodies.share(userId)
  }

  /**
   * Called after the guards: an unauthorised caller must not make us buffer a body.
   * @param given the body, if the operator's app has read it already
   */
  async read(call: Omit<Call, 'body'>, route: Route, given: Buffer | null): Promise<unknown> {
    const { body, bodyLimit, form, bodyOptional } = route
    if (given !== null && bodyLimit === 'streamed') throw new Error('http.app has read a body that is streamed')
    if (body === null || bodyLimit === 'streamed') return undefined
    const { req, res, user, share } = call
    if (given !== null) {
      if (given.length > bodyLimit) throw fail('body_too_large', { limit: bodyLimit })
      if (!share.take(given.length * BYTE_WEIGHT)) throw fail('bodies_in_flight', null, { 'Retry-After': '1' })
      return check(body, parseBody(req, given, form, bodyOptional, isList(body), share), 'body')
    }
    const begun = performance.now()
    const arrivesWithin = user === null ? (this.#options.limits?.publicBodyMs ?? PUBLIC_BODY_MS) : null
    try {
      const bytes = await readBody(req, { limit: bodyLimit, share, arrivesWithin })
      // The session may have ended while the body arrived.
      if (user !== null && performance.now() - begun > SLOW_BODY_MS) {
        const { authenticate, authenticateRequest = null } = this.#options
        await principalOf(req, authenticate, authenticateRequest)
      }
      if (user !== null && bytes.length > BODY_BYTES) await this.#turns.enter(user.id)
      return check(body, parseBody(req, bytes, form, bodyOptional, isList(body), share), 'body')
    } catch (error) {
      // Unread bytes of the body would be taken for the next request.
      if (!req.complete) res.shouldKeepAlive = false
      throw error
    } finally {
      // At most 8 KiB, and gone as soon as they are read; a user's bodies are held until their requests are answered.
      if (user === null) share.release()
    }
  }
}
