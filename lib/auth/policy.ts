// The operator's own auth rules: code that authenticates callers without a session or token, and authorizes what users
// do. It comes after our own guards: what those refuse never reaches it.
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { fail, Refused } from '../errors.ts'
import {
  type Grant,
  isObject,
  type Json,
  type JsonObject,
  PERMISSIONS,
  type Principal,
  timestamp,
  type User
} from '../types.ts'

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

/** A user as rules and graphs see one. */
export interface AuthUser extends JsonObject {
  identity: string
  display_name: string
  is_authenticated: boolean
  permissions: string[]
}

/** The request as rules see it. */
export interface RequestHead {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: IncomingHttpHeaders
}

/** Timeout for rules that never answer, in ms. */
const RULES_MS = 30_000
const IDENTITY_MAX = 1024

export class AccessPolicy {
  readonly #rules: AccessRules
  readonly #waitMs: number

  constructor(rules: AccessRules, waitMs = RULES_MS) {
    this.#rules = rules
    this.#waitMs = waitMs
  }

  get authenticates(): boolean {
    return this.#rules.authenticates
  }

  /**
   * Authenticates a caller without a session or token.
   * @throws Failure 401, or what the rules refuse with
   */
  readonly authenticate = async (head: RequestHead): Promise<Principal> => {
    const told = await this.#asked(() => this.#rules.authenticate(requestOf(head)))
    const asserted = authUserOf(told)
    if (asserted === null) throw fail('not_authenticated')
    return assertedPrincipal(asserted)
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

  /** An exception with a status is a refusal; anything else is a bug in the rules. */
  async #asked(ask: () => unknown): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error('the rules of auth.path do not answer')), this.#waitMs)
    })
    try {
      return await Promise.race([Promise.resolve().then(ask), late])
    } catch (error) {
      throw refusalOf(error) ?? error
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Whom rules describe so. */
export function assertedPrincipal(asserted: AuthUser): Principal {
  const user = userOf(asserted)
  return {
    user,
    grant: {
      kind: 'asserted',
      userId: user.id,
      digest: createHash('sha256').update(`asserted ${user.id}`).digest('hex'),
      version: 0,
      expires: null,
      permissions: new Set(PERMISSIONS),
      asserted
    }
  }
}

/** The caller as rules and graphs see one. */
export function authUser({ user, grant }: { readonly user: User; readonly grant: Grant | null }): AuthUser {
  if (grant?.asserted) return grant.asserted as AuthUser // made by authenticate above
  return {
    identity: user.id,
    display_name: user.email,
    email: user.email,
    role: user.system_role,
    is_authenticated: true,
    permissions: [...(grant?.permissions ?? PERMISSIONS)]
  }
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

/** No account and no other way to sign in: the id is derived from the identity. */
function userOf({ identity, email }: AuthUser): User {
  const digest = createHash('sha256').update(`langgraph.json ${identity}`).digest()
  digest[6] = (digest[6]! & 0x0f) | 0x80
  digest[8] = (digest[8]! & 0x3f) | 0x80
  return {
    id: digest.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    email: typeof email === 'string' ? email : identity,
    password_hash: null,
    system_role: 'user',
    created_at: timestamp(0),
    oauth_provider: 'langgraph.json',
    oauth_id: identity,
    needs_setup: false,
    token_version: 0
  }
}

/** `{ owner: 'x' }`, `{ owner: { $eq: 'x' } }` and `{ groups: { $contains: 'x' } }` as what metadata must hold. */
function wantedOf(filter: object): JsonObject {
  return Object.fromEntries(Object.entries(filter).map(([key, condition]): [string, Json] => [key, heldBy(condition)]))
}

function heldBy(condition: unknown): Json {
  if (typeof condition === 'string' || typeof condition === 'number' || typeof condition === 'boolean') return condition
  const [[operator, wanted] = [], ...more] = Object.entries(condition ?? {})
  if (more.length === 0 && operator === '$eq') return wanted as Json
  if (more.length === 0 && operator === '$contains') return Array.isArray(wanted) ? wanted : [wanted as Json]
  // Ignoring an unknown operator would let through what it should keep out.
  throw new TypeError(`auth.path: a filter knows $eq and $contains, and not ${JSON.stringify(condition)}`)
}

function requestOf({ method, url = '/', headers }: RequestHead): Request {
  const given = new Headers()
  for (const [name, value] of Object.entries(headers))
    for (const one of Array.isArray(value) ? value : [value ?? '']) given.append(name, one)
  const origin = `http://${headers.host ?? 'localhost'}`
  const address = URL.canParse(url, origin) ? new URL(url, origin) : new URL('http://localhost')
  return new Request(address, { method: method ?? 'GET', headers: given })
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
    // Whatever it is, Headers take it or say that it is none.
    return Object.fromEntries(new Headers(given as Record<string, string>))
  } catch {
    return {}
  }
}
