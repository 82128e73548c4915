// Sends the ends of runs: at least once, whatever crashes. The job is made by the end of its run, and has what is known of it then.
import { createHmac } from 'node:crypto'
import { fromOrigin } from '../base/tracing.ts'
import type { Job, Op, Store } from '../store/store.ts'
import { isInFlight, type JsonObject, type Run, timestamp } from '../base/types.ts'
import { withDeadline } from '../base/waiting.ts'
import type { Done } from './runner.ts'

/** Limit for the values in a webhook, in bytes; above it only the run is sent. */
const VALUES_BYTES_MAX = 8 << 20
/** The same of one whose run is about to be removed, and which stays in its job. */
const KEPT_BYTES_MAX = 32 << 10

interface WebhookOptions {
  /** null: webhooks are not signed. */
  readonly secret: string | null
  readonly timeout_ms: number
}

type PostInit = RequestInit & { readonly method: 'POST' }
/** On whose behalf a route of the project is called; without kwargs: the run's record is gone. */
type RunOwner = Pick<Run, 'user_id'> & Partial<Pick<Run, 'kwargs'>>

interface WebhookDeps {
  readonly store: { readonly runs: Pick<Store['runs'], 'get'>; readonly jobs: Pick<Store['jobs'], 'ofThread'> }
  /** A run as clients see it. */
  readonly view: (run: Run) => JsonObject
  /** JSON of its final values; null: it has none. */
  readonly valuesOf: (run: Run) => Promise<string | null>
  /** What is sent of a run in the form of the protocol that has started it; null: ours, `none`: nothing. */
  readonly told?: (run: Run) => Promise<Notice | 'none' | null>
  /** fetch, restricted to the allowed networks; of a path, the project's own route. */
  readonly post: (url: string, init: PostInit, run: RunOwner) => Promise<Response>
  readonly options: WebhookOptions
}

export interface Notice {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** One attempt at telling an address of a run. */
interface Delivery extends Notice {
  readonly url: string
  /** The same on every try. */
  readonly id: string
  /** null: it is gone. */
  readonly run: Run | null
  /** Whose it was. */
  readonly userId: string | null
}

/** What a job has of its webhook. */
interface Payload {
  readonly url: string
  /** The text to send, and its headers, if the run was to be removed. */
  readonly body?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** The run as it ended, in short. */
  readonly run?: JsonObject
}

export class Webhooks {
  readonly #deps: WebhookDeps

  constructor(deps: WebhookDeps) {
    this.#deps = deps
  }

  /** Of runs that are about to be removed: what is sent of them stays in their jobs. */
  async kept(threadId: string, runId?: string): Promise<Op[]> {
    const jobs = await this.#deps.store.jobs.ofThread(threadId)
    const own = jobs.filter(({ kind, key }) => kind === 'webhook' && (runId === undefined || key === runId))
    return Promise.all(own.map((job) => this.#kept(job)))
  }

  async #kept({ kind, key, thread_id, payload }: Job): Promise<Op> {
    const known = payloadIn(payload)
    const run = await this.#deps.store.runs.get(key, null)
    const notice = await this.#noticeOf(run, known, KEPT_BYTES_MAX).catch(() => ({ body: this.#bare(known) }))
    if (notice === 'none') return { name: 'job.remove', kind, key, thread_id }
    return { name: 'job.change', kind, key, thread_id, payload: JSON.stringify({ url: known.url, ...notice }) }
  }

  /** @throws Error when it was not delivered, with the reason */
  readonly deed = async ({ key, user_id, payload }: Job, stopping: AbortSignal): Promise<Done> => {
    const { store } = this.#deps
    const known = payloadIn(payload)
    const run = await store.runs.get(key, null)
    const notice = await this.#noticeOf(run, known, VALUES_BYTES_MAX)
    if (notice !== 'none') await this.send({ id: key, url: known.url, ...notice, run, userId: user_id }, stopping)
    return null
  }

  /** What is sent of a run, or was kept of it. */
  async #noticeOf(run: Run | null, known: Payload, valuesMax: number): Promise<Notice | 'none'> {
    const told = run && !isInFlight(run) ? await this.#deps.told?.(run) : null
    if (told) return told
    return { body: known.body ?? (await this.#bodyOf(run, known, valuesMax)), headers: known.headers ?? {} }
  }

  /** Posts once, signed. @throws Error when it was not delivered, with the reason */
  send(delivery: Delivery, stopping: AbortSignal): Promise<void> {
    return withDeadline(stopping, this.#deps.options.timeout_ms, (signal) => this.#post(delivery, signal))
  }

  async #post({ id, url, body, headers: own, run, userId }: Delivery, signal: AbortSignal): Promise<void> {
    const { post } = this.#deps
    const init = { method: 'POST', headers: { ...this.#headers(id, body), ...own }, body, signal } as const
    try {
      const answer = await (run ? fromOrigin(run, () => post(url, init, run)) : post(url, init, { user_id: userId }))
      // The response body is ignored: it may be endless.
      await answer.body?.cancel().catch(() => {})
      if (!answer.ok) throw new Error(`it answered ${answer.status}`)
    } catch (error) {
      throw signal.aborted ? new Error('it did not answer in time') : error
    }
  }

  async #bodyOf(run: Run | null, known: Payload, valuesMax: number): Promise<string> {
    if (!run || isInFlight(run)) return this.#bare(known)
    const values = (await this.#deps.valuesOf(run)) ?? '{}'
    const isWhole = Buffer.byteLength(values) <= valuesMax
    const view = this.#deps.view(run)
    // The input is the client's own, and may be long.
    const shown = valuesMax < VALUES_BYTES_MAX ? { ...view, kwargs: {} } : view
    const about = {
      ...shown,
      run_started_at: run.created_at,
      run_ended_at: run.updated_at,
      webhook_sent_at: timestamp(),
      ...(run.error !== null && { error: run.error.slice(0, KEPT_BYTES_MAX / 4) }),
      ...(!isWhole && { values_truncated: true })
    }
    // The values are JSON already, and may be large.
    return `${JSON.stringify(about).slice(0, -1)},"values":${isWhole ? values : '{}'}}`
  }

  /** The run is gone: its end is sent without values. */
  #bare({ run }: Payload): string {
    return JSON.stringify({ ...run, webhook_sent_at: timestamp(), values_truncated: true, values: {} })
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
}

function payloadIn(payload: string): Payload {
  // Written by the end of its run, or by `kept`.
  return JSON.parse(payload) as Payload
}

function keyOf(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret)
}
