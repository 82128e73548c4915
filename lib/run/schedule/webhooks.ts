// Sends webhooks when runs end: at least once, whatever crashes. A webhook is stored before its run, and deleted when
// it was delivered or after many failed tries.
import { createHmac } from 'node:crypto'
import { withoutUser } from '../../scope.ts'
import type { Store, Webhook, Writer } from '../../store/store.ts'
import { isInFlight, type JsonObject, type Run, timestamp } from '../../types.ts'
import { webhookOf } from '../run-kwargs.ts'

/** Interval for polling webhooks nobody else sends: of runs of other processes, or due for a retry, in ms. */
const LOOK_MS = 5_000
/** Deliveries at a time: each is one connection, and takes at most `timeout_ms`. */
const AT_ONCE = 32
/** Deliveries at a time for one user, whose receivers may all hang. */
const SHARE = 8
/** Limit for the values in a webhook, in bytes; above it only the run is sent. */
const VALUES_BYTES_MAX = 8 << 20
const FACTOR = 4
const DAY_MS = 86_400_000

interface WebhookOptions {
  /** null: webhooks are not signed. */
  readonly secret: string | null
  readonly timeout_ms: number
  /** Delay after the first try, in ms; four times as long after each further one, a day at most. */
  readonly retry_ms: number
  readonly attempts: number
}

type PostInit = RequestInit & { readonly method: 'POST' }
/** On whose behalf a route of the project is called; without kwargs: the run's record is gone. */
type RunOwner = Pick<Run, 'user_id'> & Partial<Pick<Run, 'kwargs'>>

interface WebhookDeps {
  readonly store: Pick<Store, 'webhooks' | 'runs'>
  readonly writer: Writer
  /** A run as clients see it. */
  readonly view: (run: Run) => JsonObject
  /** JSON of its final values; null: it has none. */
  readonly valuesOf: (run: Run) => Promise<string | null>
  /** fetch, restricted to the allowed networks; of a path, the project's own route. */
  readonly post: (url: string, init: PostInit, run: RunOwner) => Promise<Response>
  readonly options: WebhookOptions
  readonly log: { warn(fields: object, text: string): void }
}

export class Webhooks {
  readonly #deps: WebhookDeps
  /** Deliveries in progress, with the user of each. */
  readonly #underWay = new Map<Promise<void>, string | null>()
  readonly #stopping = new AbortController()
  #timer: NodeJS.Timeout | null = null
  #looking: Promise<void> | null = null
  #again = false

  constructor(deps: WebhookDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#lookIn(LOOK_MS)
    this.wake()
  }

  /** Aborts deliveries in progress; the next process retries them. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    if (this.#timer) clearTimeout(this.#timer)
    await Promise.allSettled([this.#looking, ...this.#underWay.keys()])
  }

  /** Before a run is created. */
  async expect(run: Pick<Run, 'run_id' | 'user_id' | 'created_at'>, url: string): Promise<void> {
    const { run_id, user_id, created_at: now } = run
    await this.#deps.writer.write({ name: 'webhook.add', run_id, user_id, url, now })
  }

  /** The run was not created. */
  async forget(runId: string): Promise<void> {
    await this.#deps.writer.write({ name: 'webhook.remove', run_id: runId })
  }

  /** Called before an ended run is removed with its thread: its webhook outlives it. */
  async prepare({ run_id, kwargs }: Pick<Run, 'run_id' | 'kwargs'>): Promise<void> {
    if (webhookOf({ kwargs }) === null) return
    const ended = await this.#deps.store.runs.get(run_id, null)
    if (!ended || isInFlight(ended)) return
    await this.#deps.writer.write({ name: 'webhook.prepare', run_id, payload: await this.#payloadOf(ended) })
    this.wake()
  }

  /** A run has ended here. */
  wake(): void {
    if (this.#stopping.signal.aborted) return
    this.#again = true
    this.#looking ??= withoutUser(() => this.#look()).finally(() => {
      this.#looking = null
    })
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => {
      this.wake()
      this.#lookIn(LOOK_MS)
    }, ms)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    while (this.#again && !this.#stopping.signal.aborted) {
      this.#again = false
      try {
        await this.#claim()
      } catch (error) {
        this.#deps.log.warn({ err: error }, 'due webhooks could not be looked up; the next poll tries again')
      }
    }
  }

  async #claim(): Promise<void> {
    const { store, writer, options } = this.#deps
    const now = Date.now()
    const limit = AT_ONCE - this.#underWay.size
    if (limit <= 0 || !(await store.webhooks.areDue(timestamp(now)))) return
    const until = timestamp(now + options.timeout_ms + this.#pauseBehind(1))
    const claimed = await writer.write({ name: 'webhook.claim', now: timestamp(now), until, limit, full: this.#full() })
    // At most one per user was claimed: there may be more.
    if (claimed.length > 0) this.#again = true
    for (const webhook of claimed) {
      const work = this.#deliver(webhook).finally(() => {
        this.#underWay.delete(work)
        this.wake()
      })
      this.#underWay.set(work, webhook.user_id)
    }
  }

  /** Users with as many deliveries in progress as one may have. */
  #full(): (string | null)[] {
    const counts = new Map<string | null, number>()
    for (const user of this.#underWay.values()) counts.set(user, (counts.get(user) ?? 0) + 1)
    return [...counts].filter(([, count]) => count >= SHARE).map(([user]) => user)
  }

  /** Never rejects. */
  async #deliver(webhook: Webhook): Promise<void> {
    const { writer, options, log } = this.#deps
    const { run_id, url, attempts } = webhook
    try {
      const reason = await this.#send(webhook)
      // The next process need not wait for the claim to expire.
      if (this.#stopping.signal.aborted) return await this.#retryIn(run_id, 0)
      if (reason === null || attempts >= options.attempts) {
        if (reason !== null)
          log.warn({ run_id, url: shown(url), attempts, reason }, 'a webhook was not delivered: giving up')
        await writer.write({ name: 'webhook.remove', run_id })
        return
      }
      log.warn({ run_id, url: shown(url), attempts, reason }, 'a webhook was not delivered: it will be tried again')
      await this.#retryIn(run_id, this.#pauseBehind(attempts))
    } catch (error) {
      // Its claim expires.
      log.warn({ err: error, run_id }, 'a webhook could not be sent: it will be tried again')
    }
  }

  async #retryIn(runId: string, ms: number): Promise<void> {
    await this.#deps.writer.write({ name: 'webhook.retry', run_id: runId, at: timestamp(Date.now() + ms) })
    if (ms < LOOK_MS) setTimeout(() => this.wake(), ms + 1).unref()
  }

  #pauseBehind(attempts: number): number {
    return Math.min(this.#deps.options.retry_ms * FACTOR ** (attempts - 1), DAY_MS)
  }

  /** Null: delivered; else why not. */
  async #send({ run_id, user_id, url, payload }: Webhook): Promise<string | null> {
    const { store, post, options } = this.#deps
    const run = payload === null ? await store.runs.get(run_id, null) : null
    // Its thread was deleted meanwhile: there is nothing to send.
    if (payload === null && (!run || isInFlight(run))) return null
    const body = payload ?? (await this.#payloadOf(run!))
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(options.timeout_ms)])
    try {
      const init = { method: 'POST', headers: this.#headers(run_id, body), body, signal } as const
      const answer = await post(url, init, run ?? { user_id })
      // The response body is ignored: it may be endless.
      await answer.body?.cancel().catch(() => {})
      return answer.ok ? null : `it answered ${answer.status}`
    } catch (error) {
      return signal.aborted ? 'it did not answer in time' : error instanceof Error ? error.message : String(error)
    }
  }

  /** As in Standard Webhooks: the same id on every try, and a signature over id, time and body. */
  #headers(id: string, body: string): Record<string, string> {
    const time = String(Math.floor(Date.now() / 1000))
    const { secret } = this.#deps.options
    const signed = secret === null ? null : createHmac('sha256', keyOf(secret)).update(`${id}.${time}.${body}`)
    return {
      'content-type': 'application/json',
      'user-agent': 'colloquy',
      'webhook-id': id,
      'webhook-timestamp': time,
      ...(signed && { 'webhook-signature': `v1,${signed.digest('base64')}` })
    }
  }

  async #payloadOf(run: Run): Promise<string> {
    const values = (await this.#deps.valuesOf(run)) ?? '{}'
    const isTold = Buffer.byteLength(values) <= VALUES_BYTES_MAX
    const about = {
      ...this.#deps.view(run),
      run_started_at: run.created_at,
      run_ended_at: run.updated_at,
      webhook_sent_at: timestamp(),
      ...(run.error !== null && { error: run.error }),
      ...(!isTold && { values_truncated: true })
    }
    // The values are JSON already, and may be large.
    return `${JSON.stringify(about).slice(0, -1)},"values":${isTold ? values : '{}'}}`
  }
}

function keyOf(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret)
}

/** Without the parts that may contain a secret. */
function shown(url: string): string {
  const { origin, pathname } = new URL(url, 'http://localhost')
  return url.startsWith('/') ? pathname : origin + pathname
}
