// Tells the end of runs to whom their creators have named: at least once, however often processes die in between. A webhook is kept
// before its run is, and forgotten when somebody has taken it, or nobody would after many tries.
import { createHmac } from 'node:crypto'
import { withoutUser } from '../../scope.ts'
import type { Store, Webhook, Writer } from '../../store/store.ts'
import { isInFlight, type JsonObject, type Run, timestamp } from '../../types.ts'
import { webhookOf } from '../run-kwargs.ts'

/** Between two looks for those that nobody has waited for: of runs that another process had, or that are tried again, in ms. */
const LOOK_MS = 5_000
/** On their way at a time: each is one connection, and none of them longer than `timeout_ms`. */
const AT_ONCE = 32
/** Bytes of values in one; of more nothing but the run is told. */
const VALUES_BYTES_MAX = 8 << 20
const FACTOR = 4
const DAY_MS = 86_400_000

export interface WebhookOptions {
  /** null: they are not signed. */
  readonly secret: string | null
  readonly timeout_ms: number
  /** The pause behind the first try, in ms; behind each further one it is four times as long, a day at most. */
  readonly retry_ms: number
  readonly attempts: number
}

export interface WebhookDeps {
  readonly store: Pick<Store, 'webhooks' | 'runs'>
  readonly writer: Writer
  /** A run as clients see it. */
  readonly view: (run: Run) => JsonObject
  /** JSON of its final values; null: it has none. */
  readonly valuesOf: (run: Run) => Promise<string | null>
  /** fetch, within the networks that are open. */
  readonly post: (url: string, init: RequestInit) => Promise<Response>
  readonly options: WebhookOptions
  readonly log: { warn(fields: object, text: string): void }
}

export class Webhooks {
  readonly #deps: WebhookDeps
  readonly #underWay = new Set<Promise<void>>()
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

  /** What is under way is broken off, and tried again by the next process. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    if (this.#timer) clearTimeout(this.#timer)
    await Promise.allSettled([this.#looking, ...this.#underWay])
  }

  /** Before a run is created. */
  async expect({ run_id, created_at }: Pick<Run, 'run_id' | 'created_at'>, url: string): Promise<void> {
    await this.#deps.writer.write({ name: 'webhook.add', run_id, url, now: created_at })
  }

  /** The run was not created. */
  async forget(runId: string): Promise<void> {
    await this.#deps.writer.write({ name: 'webhook.remove', run_id: runId })
  }

  /** Before a run that has ended is removed with its thread: what is told of it outlives it. */
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
        this.#deps.log.warn({ err: error }, 'it could not be asked which webhooks are due')
      }
    }
  }

  async #claim(): Promise<void> {
    const { store, writer, options } = this.#deps
    const now = Date.now()
    const limit = AT_ONCE - this.#underWay.size
    if (limit <= 0 || !(await store.webhooks.areDue(timestamp(now)))) return
    const until = timestamp(now + options.timeout_ms + this.#pauseBehind(1))
    const claimed = await writer.write({ name: 'webhook.claim', now: timestamp(now), until, limit })
    for (const webhook of claimed) {
      const work = this.#deliver(webhook).finally(() => {
        this.#underWay.delete(work)
        // There may be more of them than had a place.
        this.wake()
      })
      this.#underWay.add(work)
    }
  }

  /** Never rejects. */
  async #deliver(webhook: Webhook): Promise<void> {
    const { writer, options, log } = this.#deps
    const { run_id, url, attempts } = webhook
    try {
      const reason = await this.#send(webhook)
      // The next process need not wait until the claim is over.
      if (this.#stopping.signal.aborted) return await this.#retryIn(run_id, 0)
      if (reason === null || attempts >= options.attempts) {
        if (reason !== null)
          log.warn({ run_id, url: shown(url), attempts, reason }, 'a webhook was not taken: it is given up')
        await writer.write({ name: 'webhook.remove', run_id })
        return
      }
      log.warn({ run_id, url: shown(url), attempts, reason }, 'a webhook was not taken: it is tried again')
      await this.#retryIn(run_id, this.#pauseBehind(attempts))
    } catch (error) {
      // Its claim ends by itself.
      log.warn({ err: error, run_id }, 'a webhook could not be sent: it is tried again')
    }
  }

  async #retryIn(runId: string, ms: number): Promise<void> {
    await this.#deps.writer.write({ name: 'webhook.retry', run_id: runId, at: timestamp(Date.now() + ms) })
    if (ms < LOOK_MS) setTimeout(() => this.wake(), ms + 1).unref()
  }

  #pauseBehind(attempts: number): number {
    return Math.min(this.#deps.options.retry_ms * FACTOR ** (attempts - 1), DAY_MS)
  }

  /** Null: it was taken; else why not. */
  async #send({ run_id, url, payload }: Webhook): Promise<string | null> {
    const { store, post, options } = this.#deps
    const run = payload === null ? await store.runs.get(run_id, null) : null
    // Its thread went meanwhile: there is nothing to tell.
    if (payload === null && (!run || isInFlight(run))) return null
    const body = payload ?? (await this.#payloadOf(run!))
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(options.timeout_ms)])
    try {
      const answer = await post(url, { method: 'POST', headers: this.#headers(run_id, body), body, signal })
      // What it says is nobody's business, and may be endless.
      await answer.body?.cancel().catch(() => {})
      return answer.ok ? null : `it answered ${answer.status}`
    } catch (error) {
      return signal.aborted ? 'it did not answer in time' : error instanceof Error ? error.message : String(error)
    }
  }

  /** As the Standard Webhooks have it: the same id however often it is told, and a signature over id, time and body. */
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

/** Without what may be a key in it. */
function shown(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}
