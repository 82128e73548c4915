// The operator's own auth rules: code that authenticates callers without a session or token, and authorizes what users
// do. It comes after our own guards: what those refuse never reaches it.
import { createHash } from 'node:crypto'
import { type AuthUser, assertedPrincipal, authUser } from '../../auth/asserted.ts'
import { Failure, fail, Refused } from '../../base/errors.ts'
import type { Grant, Principal, User } from '../../base/accounts.ts'
import { isObject, type Json, type JsonObject } from '../../base/types.ts'
import { withTimeout } from '../../base/waiting.ts'

/** As LangGraph's Auth object has them. */
export interface AccessRules {
  readonly authenticates: boolean
  authenticate(request: Request): unknown
  authorize(question: {
    readonly event: string
    readonly resource: string
    readonly action: string
    readonly value: object
    readonly permissions: readonly string[]
    readonly user: object
  }): unknown
}

/** Timeout for rules that never answer, in ms. */
const RULES_MS = 30_000
const IDENTITY_MAX = 1024

export class AccessPolicy {
  readonly #rules: AccessRules

  constructor(rules: AccessRules) {
    this.#rules = rules
  }

  get authenticates(): boolean {
    return this.#rules.authenticates
  }

  /**
   * Authenticates a caller without a session or token.
   * @throws Failure 401, or what the rules refuse with
   */
  readonly authenticate = async (head: Request): Promise<Principal> => {
    const told = await this.#asked(() => this.#rules.authenticate(head))
    const asserted = authUserOf(told)
    if (asserted === null) throw fail('not_authenticated')
    const { user, grant } = assertedPrincipal(asserted)
    const isAssertedStill = () => this.#isStill(head, user.id)
    return { user, grant: { ...grant, digest: digestOfHead(head, user.id), isAssertedStill } }
  }

  /** Rejects when the rules fail: that is no answer. */
  async #isStill(head: Request, userId: string): Promise<boolean> {
    try {
      return (await this.authenticate(head)).user.id === userId
    } catch (error) {
      if (error instanceof Failure && error.status < 500) return false
      throw error
    }
  }

  /**
   * Authorizes an action.
   * @param value the requested action; rules may change it
   * @returns required metadata of the records found; null: none.
   * @throws Failure 403, or what the rules say
   */
  async authorize(
    resource: string,
    action: string,
    value: JsonObject,
    caller: { readonly user: User; readonly grant: Grant | null }
  ): Promise<JsonObject | null> {
    const user = authUser(caller)
    const event = `${resource}:${action}`
    const question = { event, resource, action, value, permissions: user.permissions, user }
    const told = await this.#asked(() => this.#rules.authorize(question))
    if (told === undefined || told === null || told === true) return null
    if (told === false) throw new Refused(403, 'Forbidden')
    if (typeof told !== 'object') throw new TypeError(`A rule for ${event} answered ${typeof told}, which is no filter`)
    return wantedOf(told)
  }

  /** The same for one caller. Nobody is asked about a call without a user. */
  askFor({ user, grant }: { readonly user: User | null; readonly grant: Grant | null }) {
    return async (resource: string, action: string, value: JsonObject): Promise<JsonObject | null> =>
      user && this.authorize(resource, action, value, { user, grant })
  }

  /** An exception with a status is a refusal; anything else is a bug in the rules. */
  async #asked(ask: () => unknown): Promise<unknown> {
    const late = () => new Error('the rules of auth.path do not answer')
    try {
      return await withTimeout(Promise.resolve().then(ask), RULES_MS, late)
    } catch (error) {
      throw refusalOf(error) ?? error
    }
  }
}

/** Headers that say nothing about the caller, and differ from request to request. */
const OF_REQUEST =
  /^(accept|content-|sec-|x-forwarded-|if-|cache-|connection|upgrade|last-event-id|idempotency-key|traceparent)/

/** Which headers are the credential only the rules know. */
function digestOfHead({ headers }: Request, userId: string): string {
  const hash = createHash('sha256').update(`asserted ${userId}`)
  for (const [name, value] of headers) if (!OF_REQUEST.test(name)) hash.update(`\n${name}: ${value}`)
  return hash.digest('hex')
}

/** A text is an identity. null: nobody. @throws TypeError for what is neither */
function authUserOf(told: unknown): AuthUser | null {
  if (told === undefined || told === null) return null
  const given = typeof told === 'string' ? { identity: told } : (JSON.parse(JSON.stringify(told)) as Json)
  if (!isObject(given) || typeof given.identity !== 'string' || given.identity === '')
    throw new TypeError('auth.path: authenticate is to answer a text, or an object with an identity')
  const { identity, display_name, is_authenticated, permissions } = given
  if (identity.length > IDENTITY_MAX) throw fail('not_authenticated')
  return {
    ...given,
    identity,
    display_name: typeof display_name === 'string' ? display_name : identity,
    is_authenticated: is_authenticated !== false,
    permissions: Array.isArray(permissions) ? permissions.filter((one) => typeof one === 'string') : []
  }
}

/** Turns `{ owner: 'x' }`, `{ owner: { $eq: 'x' } }` and `{ groups: { $contains: 'x' } }` into required metadata. */
function wantedOf(filter: object): JsonObject {
  return Object.fromEntries(Object.entries(filter).map(([key, condition]): [string, Json] => [key, heldBy(condition)]))
}

function heldBy(condition: unknown): Json {
  if (typeof condition === 'string' || typeof condition === 'number' || typeof condition === 'boolean') return condition
  const [[operator, wanted] = [], ...more] = Object.entries(condition ?? {})
  if (more.length === 0 && operator === '$eq') return wanted as Json
  if (more.length === 0 && operator === '$contains') return Array.isArray(wanted) ? wanted : [wanted as Json]
  // Ignoring an unknown operator would let too much through.
  throw new TypeError(`auth.path: a filter knows $eq and $contains, and not ${JSON.stringify(condition)}`)
}

/** LangGraph's HTTPException, by its members: it comes out of the project's own copy of the SDK. */
function refusalOf(error: unknown): Refused | null {
  if (!(error instanceof Error) || !('status' in error) || typeof error.status !== 'number') return null
  if (error.status < 400 || error.status > 499) return null
  const headers = 'headers' in error && error.headers ? Object.entries(headersIn(error.headers)) : []
  return new Refused(error.status, error.message || 'Forbidden', Object.fromEntries(headers))
}

function headersIn(given: unknown): Record<string, string> {
  try {
    // Headers throws for anything it cannot take.
    return Object.fromEntries(new Headers(given as Record<string, string>))
  } catch {
    return {}
  }
}
