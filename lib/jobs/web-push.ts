// Web Push: tells a user's browsers that an answer is done or asks, without a word of it, while no page of theirs is looked at. By the
// optional peer web-push, which encrypts (RFC 8291) and signs (RFC 8292).
import { createHash } from 'node:crypto'
import { fail, Failure } from '../base/errors.ts'
import type { Grant } from '../base/accounts.ts'
import { OWN_NAMESPACE } from '../base/reserved.ts'
import { isObject, type JsonObject, type StoreItem, timestamp } from '../base/types.ts'
import { withDeadline } from '../base/waiting.ts'
import type { Group, Job, NewJob, Op, OpName, Outcome, Settlement, Store } from '../store/store.ts'
import type { Done } from './runner.ts'

export const VAPID_FILE = '.vapid_keys'
/** Browsers of one user. The oldest makes room. */
const PER_USER_MAX = 20
const ROW_LIMITS = { items: 0, bytes: 0 }
/** How long a push service keeps what it cannot deliver, in s. */
const TTL_S = 86_400

/** What is used of web-push. */
interface Library {
  generateVAPIDKeys(): { readonly publicKey: string; readonly privateKey: string }
  generateRequestDetails(
    subscription: PushAddress,
    payload: string,
    options: object
  ): { readonly headers: Readonly<Record<string, string | number>>; readonly body: Buffer; readonly endpoint: string }
}

/** A browser's address at its push service, and the keys that encrypt for it. */
export interface PushAddress {
  readonly endpoint: string
  readonly keys: { readonly p256dh: string; readonly auth: string }
}

/** The line of the home with the keys that sign: all subscriptions are bound to them. */
export interface KeptKeys {
  /** Without them nobody has ever subscribed. */
  areMade(): boolean
  /** Makes them when they are first needed. */
  line(make: () => string): Promise<string>
}

interface WebPushDeps {
  readonly store: { readonly items: Pick<Store['items'], 'search'> }
  readonly write: (ops: readonly Op[]) => Promise<unknown>
  readonly keys: KeptKeys
  /** Who answers for these messages, as RFC 8292 asks: an address or a mailbox. */
  readonly subject: string
  /** fetch, restricted to the webhooks' networks. */
  readonly post: (url: string, init: RequestInit) => Promise<Response>
  readonly isValid: (grant: Grant) => Promise<boolean>
  /** A visible page of the user is connected, to whichever process. */
  readonly isWatched: (userId: string) => boolean
  readonly timeoutMs: number
  /** The browsers of a user could not be looked up: they are not told. */
  readonly onTrouble: (error: unknown) => void
  readonly load?: () => Promise<unknown>
}

type SavedGrant = Pick<Grant, 'kind' | 'userId' | 'digest' | 'version' | 'expires'>
type Loaded = { readonly library: Library; readonly publicKey: string; readonly privateKey: string }

/** Tells of ends of runs. */
const SETTLES: ReadonlySet<OpName> = new Set(['run.settle'])

export class WebPush {
  readonly ops = SETTLES
  readonly #deps: WebPushDeps
  #loaded: Promise<Loaded | null> | null = null

  constructor(deps: WebPushDeps) {
    this.#deps = deps
  }

  // --------------------------------------------------------------------------------------------- subscriptions

  /** @throws Failure when the package is missing */
  async publicKey(): Promise<string> {
    const loaded = await this.#load()
    if (!loaded) throw fail('push_unavailable')
    return loaded.publicKey
  }

  /** @throws Failure for an address that nothing may be sent to */
  async subscribe(address: PushAddress, grant: Grant): Promise<JsonObject> {
    await this.publicKey()
    checkEndpoint(address.endpoint)
    const { kind, userId, digest, version, expires } = grant
    const known = await this.#rowsOf(userId)
    const id = idOf(address.endpoint)
    const others = known.filter(({ key }) => key !== id)
    const now = timestamp()
    const value = { address: { ...address }, grant: { kind, userId, digest, version, expires }, created_at: now }
    const item = { user_id: userId, namespace: OWN_NAMESPACE, key: id, value, expires_at: null }
    const tooOld = others.slice(PER_USER_MAX - 1).map(({ key }) => this.#removal(key, userId))
    await this.#deps.write([...tooOld, { name: 'item.put', item, now, max: ROW_LIMITS }])
    return viewOf(id, value)
  }

  /** Those whose sign-in is still good: others are removed. */
  async list(userId: string): Promise<JsonObject[]> {
    const rows = await this.#validRowsOf(userId)
    return rows.map(({ key, value }) => viewOf(key, value))
  }

  async unsubscribe(id: string, userId: string): Promise<boolean> {
    const rows = await this.#rowsOf(userId)
    if (!rows.some(({ key }) => key === id)) return false
    await this.#deps.write([this.#removal(id, userId)])
    return true
  }

  async #rowsOf(userId: string): Promise<StoreItem[]> {
    const query = { prefix: OWN_NAMESPACE, limit: PER_USER_MAX * 2, offset: 0 }
    const rows = await this.#deps.store.items.search(query, userId)
    return rows.filter(({ value }) => URL.canParse(addressIn(value).endpoint) && grantIn(value).userId === userId)
  }

  async #validRowsOf(userId: string): Promise<StoreItem[]> {
    const rows = await this.#rowsOf(userId)
    const areValid = await Promise.all(rows.map(({ value }) => this.#deps.isValid(grantIn(value))))
    const gone = rows.filter((_, at) => !areValid[at])
    await this.#forget(gone, userId)
    return rows.filter((_, at) => areValid[at])
  }

  /** Of a user under a legal hold they stay: they are told nothing, and keep nobody else from being told. */
  async #forget(gone: readonly Pick<StoreItem, 'key'>[], userId: string): Promise<void> {
    if (gone.length === 0) return
    try {
      await this.#deps.write(gone.map(({ key }) => this.#removal(key, userId)))
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'held')) throw error
    }
  }

  #removal(key: string, user: string): Op {
    return { name: 'item.remove', namespace: OWN_NAMESPACE, key, user }
  }

  // -------------------------------------------------------------------------------------------------- sending

  /** A commit: users of ended runs who have browsers to tell get a job. */
  written(groups: readonly Group[], outcomes: readonly Outcome[]): void {
    for (const [at, { ops }] of groups.entries())
      if (outcomes[at]?.ok)
        for (const op of ops) if (op.name === 'run.settle') this.#ended(op).catch(this.#deps.onTrouble)
  }

  async #ended(end: Settlement): Promise<void> {
    const { run_id, thread_id } = end
    const userId = end.usage?.user_id ?? null
    const kind = end.thread_status === 'interrupted' ? 'asks' : end.status === 'success' ? 'done' : null
    if (kind === null || userId === null || !this.#deps.keys.areMade() || !(await this.#load())) return
    if ((await this.#rowsOf(userId)).length === 0) return
    const payload = JSON.stringify({ kind, thread_id })
    const job: NewJob = { kind: 'web_push', key: run_id, user_id: userId, thread_id, due: 0, payload }
    await this.#deps.write([{ name: 'job.put', job }])
  }

  /** @throws Error when a push service did not take it, and may later */
  readonly deed = async (job: Job, stopping: AbortSignal): Promise<Done> => {
    const { key, user_id, payload } = job
    const loaded = await this.#load()
    if (!loaded || user_id === null || this.#deps.isWatched(user_id)) return null
    const rows = await this.#validRowsOf(user_id)
    const outcomes = await Promise.allSettled(
      rows.map((row) => this.#send(loaded, row, payload, key, user_id, stopping))
    )
    const failed = outcomes.find((one) => one.status === 'rejected')
    if (failed) throw failed.reason
    return null
  }

  async #send(
    { library, publicKey, privateKey }: Loaded,
    { key, value }: StoreItem,
    payload: string,
    runId: string,
    userId: string,
    stopping: AbortSignal
  ): Promise<void> {
    const vapidDetails = { subject: this.#deps.subject, publicKey, privateKey }
    // What is sent again replaces what was not delivered yet.
    const options = { vapidDetails, TTL: TTL_S, topic: topicOf(runId), urgency: 'normal', contentEncoding: 'aes128gcm' }
    const { headers, body, endpoint } = library.generateRequestDetails(addressIn(value), payload, options)
    const named = Object.entries(headers).map(([name, text]) => [name, String(text)] as const)
    const init = {
      method: 'POST',
      headers: Object.fromEntries(named.filter(([name]) => name.toLowerCase() !== 'content-length')),
      body: new Uint8Array(body)
    }
    const answer = await withDeadline(stopping, this.#deps.timeoutMs, async (signal) => {
      const head = await this.#deps.post(endpoint, { ...init, signal })
      await head.body?.cancel().catch(() => {})
      return head
    })
    if (answer.status === 404 || answer.status === 410) await this.#forget([{ key }], userId)
    else if (!answer.ok) throw new Error(`the push service answered ${answer.status}`)
  }

  /** null: the package is not installed. */
  #load(): Promise<Loaded | null> {
    this.#loaded ??= this.#open().catch((error: unknown) => {
      // The home may take its keys the next time.
      this.#loaded = null
      throw error
    })
    return this.#loaded
  }

  async #open(): Promise<Loaded | null> {
    const module = await (this.#deps.load ?? loadWebPush)().catch(() => null)
    if (module === null) return null
    // Its types are in a package of others: what is used of it is above.
    const library = ((module as { default?: unknown }).default ?? module) as Library
    const make = () => {
      const made = library.generateVAPIDKeys()
      return `${made.publicKey} ${made.privateKey}`
    }
    const [publicKey = '', privateKey = ''] = (await this.#deps.keys.line(make)).split(' ')
    return { library, publicKey, privateKey }
  }
}

const PACKAGE = 'web-push'
const loadWebPush = (): Promise<unknown> => import(PACKAGE)

/** HTTPS; plain HTTP to this machine alone. */
function checkEndpoint(endpoint: string): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : null
  const isLocal = url?.protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname)
  if (url?.username !== '' || (url.protocol !== 'https:' && !isLocal)) throw fail('push_endpoint_invalid')
}

function idOf(endpoint: string): string {
  return createHash('sha256').update(endpoint).digest('hex').slice(0, 32)
}

/** At most 32 characters of base64url. */
function topicOf(runId: string): string {
  return createHash('sha256').update(runId).digest('base64url').slice(0, 32)
}

function viewOf(id: string, value: JsonObject): JsonObject {
  return { id, host: new URL(addressIn(value).endpoint).host, created_at: value.created_at ?? null }
}

/** As `subscribe` has written it; items of clients may stand in its namespace too. */
function addressIn({ address }: JsonObject): PushAddress {
  const { endpoint, keys } = isObject(address) ? address : ({} as JsonObject)
  const { p256dh, auth } = isObject(keys) ? keys : ({} as JsonObject)
  return { endpoint: String(endpoint), keys: { p256dh: String(p256dh), auth: String(auth) } }
}

function grantIn({ grant }: JsonObject): Grant {
  const { kind, userId, digest, version, expires } = (isObject(grant) ? grant : {}) as unknown as SavedGrant
  return { kind, userId, digest, version, expires, permissions: null }
}
