// The client: starts and watches runs, and resumes at the exact frame after a broken connection. Without dependencies; for browsers
// (one file, served at /colloquy.js) and Node (colloquy/client). It only uses the public API.
//
//   const colloquy = new Colloquy({ url: 'https://chat.example.com', token: 'clq_...' })
//   const run = colloquy.start(threadId, { input: { messages: [{ role: 'user', content: 'Hello' }] } })
//   for await (const text of run.text()) process.stdout.write(text)

import { isChunk, textIn } from '../conversation/chunk.ts'
import { ApiError, isFinal, refusalOf } from './api-error.ts'
import { type Frame, FrameParser, positionOf } from './frames.ts'
import {
  AttemptsAfterSilence,
  beatMsOf,
  CONNECT_MS,
  END_MS,
  grownMs,
  HANGING_MS,
  Silence,
  silenceMsOf,
  Watchdog
} from './silence.ts'
import { type ToolCallPart, Transcript, type TranscriptMessage } from './transcript.ts'

export { ApiError, FrameParser, isFinal, Transcript }
export type { Frame, ToolCallPart, TranscriptMessage }

export interface ColloquyOptions {
  /** URL of the gateway; absent: the page's own origin. */
  readonly url?: string
  /** An API token. Without one, the page's cookies are sent, with the CSRF header they need. */
  readonly token?: string
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof fetch
  /** Silence after which a `call` is given up, in ms. */
  readonly timeoutMs?: number
}

/** Identifies a run. */
export interface RunRef {
  readonly thread_id: string
  readonly run_id: string
}

/** State of a stream's connection: opening, delivering, or waiting until `retryAt` (ms, as Date.now) because of `error`. */
export interface Connection {
  readonly state: 'connecting' | 'open' | 'waiting' | 'closed'
  /** Consecutive failed attempts. */
  readonly failures: number
  readonly retryAt?: number
  readonly error?: unknown
}

export interface WatchOptions {
  /** Modes of the stream, e.g. `['messages-tuple', 'values']`. Absent: those the run was created with. */
  readonly modes?: readonly string[]
  /** Resume after this cursor. Absent: from the first frame. */
  readonly after?: string
  /** Start with one `snapshot` frame of the run's current state, and continue live. */
  readonly snapshot?: boolean
  readonly signal?: AbortSignal
  readonly onConnection?: (connection: Connection) => void
  /** In ms: the first delay (about), the longest delay, and the limit for an attempt to be answered. */
  readonly backoffMs?: number
  readonly backoffMaxMs?: number
  readonly connectMs?: number
  /** Silence after which a connection counts as dead, in ms. Absent: one and a half of the gateway's heartbeats. */
  readonly silenceMs?: number
}

export interface StartOptions extends Omit<WatchOptions, 'after' | 'snapshot' | 'modes'> {
  /** Makes the start idempotent: the same key is the same run. Absent: one is generated, so that a retry never starts a second run. */
  readonly key?: string
}

export class Colloquy {
  readonly #options: ColloquyOptions
  readonly #base: string

  constructor(options: ColloquyOptions = {}) {
    this.#options = options
    this.#base = (options.url ?? '').replace(/\/+$/, '')
  }

  /** Starts a run on a thread (null: a new one) and streams it. The first frames come with the response to the start. */
  start(threadId: string | null, body: object, options: StartOptions = {}): RunStream {
    const path = threadId === null ? '/api/runs/stream' : `/api/threads/${encodeURIComponent(threadId)}/runs/stream`
    const key = options.key ?? randomKey()
    const first = (signal: AbortSignal) =>
      this.send('POST', path, { body, signal, headers: { 'Idempotency-Key': key, Accept: 'text/event-stream' } })
    return new RunStream(this, null, options, first)
  }

  /** Watches a run: from its first frame, after a cursor, or from a snapshot. */
  watch(run: RunRef, options: WatchOptions = {}): RunStream {
    return new RunStream(this, run, options, null)
  }

  /** Cancels a run; `rollback` also undoes its changes to the thread. */
  async cancel(run: RunRef, action: 'interrupt' | 'rollback' = 'interrupt'): Promise<void> {
    await this.call('POST', `${pathOf(run)}/cancel?action=${action}`)
  }

  /** Any other API call: JSON in, JSON out. Given up when nothing arrives for `timeoutMs`. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const { text } = await this.request(method, path, { body, signal })
    return (text === '' ? null : JSON.parse(text)) as T
  }

  /** The same for an answer that is no JSON, or whose headers are wanted. */
  async request(method: string, path: string, sending: Sending = {}): Promise<{ text: string; headers: Headers }> {
    const watch = new Watchdog(this.#options.timeoutMs ?? TIMEOUT_MS, sending.signal)
    try {
      const response = await this.send(method, path, { ...sending, signal: watch.signal })
      return { text: await watch.textOf(response), headers: response.headers }
    } finally {
      watch.stop()
    }
  }

  /** Without a limit of time: on a dead connection it never ends. @throws ApiError for a status other than 2xx; errors of fetch */
  async send(method: string, path: string, { body, headers, signal }: Sending = {}): Promise<Response> {
    const { token, headers: own, fetch: send = fetch } = this.#options
    const csrf = token || method === 'GET' ? null : csrfToken()
    const isRaw = typeof body === 'string' || body instanceof FormData || body instanceof URLSearchParams
    const response = await send(this.#base + path, {
      method,
      headers: {
        ...(token && { Authorization: `Bearer ${token}` }),
        ...(csrf && { 'X-CSRF-Token': csrf }),
        ...(body !== undefined && !isRaw && { 'Content-Type': 'application/json' }),
        ...own,
        ...headers
      },
      ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
      ...(signal && { signal })
    })
    if (!response.ok) throw await refusalOf(response)
    return response
  }
}

export interface Sending {
  /** Sent as JSON; a text or form as it is. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

type Open = (signal: AbortSignal) => Promise<Response>

const BACKOFF_MS = 500
const BACKOFF_MAX_MS = 30_000
const TIMEOUT_MS = 30_000
/**
 * A live run: iterate it for frames, or `text()` for the text of the answer. It ends with the run, and only throws errors that
 * retrying cannot fix. A start is sent at once, iterated or not. Iterate it once, or close it.
 */
export class RunStream implements AsyncIterable<Frame> {
  /** Resolves when the run's id is known; rejects when the start is refused. */
  readonly started: Promise<RunRef>
  /** Cursor of the newest frame: `watch(run, { after: stream.cursor })` resumes after it. */
  cursor: string | null
  readonly #client: Colloquy
  readonly #options: WatchOptions
  readonly #abort = new AbortController()
  #run: RunRef | null
  readonly #first: Open | null
  /** The response to a start, which is requested before iteration. */
  #opening: Promise<Response | null> | null = null
  #isSnapshot: boolean
  #failures = 0
  #wake: (() => void) | null = null
  /** Of the attempt or connection under way. */
  #watchdog: Watchdog | null = null
  /** Silence after which it may hang, in ms. */
  #hangingMs = HANGING_MS
  readonly #afterSilence = new AttemptsAfterSilence()
  readonly #onAbort = () => this.close()
  #onStarted: (run: RunRef) => void = () => {}
  #onRefused: (error: unknown) => void = () => {}

  constructor(client: Colloquy, run: RunRef | null, options: WatchOptions, first: Open | null) {
    this.#client = client
    this.#run = run
    this.#options = options
    this.#first = first
    this.#isSnapshot = options.snapshot ?? false
    this.cursor = options.after ?? null
    this.started = new Promise((resolve, reject) => {
      this.#onStarted = resolve
      this.#onRefused = reject
    })
    // Callers that do not use this promise must not get an unhandled rejection.
    this.started.catch(() => {})
    if (run) this.#onStarted(run)
    const { signal } = options
    if (signal?.aborted) this.close()
    else signal?.addEventListener('abort', this.#onAbort)
    if (first) this.#opening = this.#reach()
    this.#opening?.catch(() => {})
  }

  /** Stops watching. The run continues. */
  close(): void {
    // One signal may be that of many streams.
    this.#options.signal?.removeEventListener('abort', this.#onAbort)
    this.#abort.abort()
    this.#onRefused(new Error('The stream was closed before its run was known'))
    this.#wake?.()
  }

  /** Cancels the run. */
  async cancel(action: 'interrupt' | 'rollback' = 'interrupt'): Promise<void> {
    await this.#client.cancel(await this.started, action)
  }

  /** Retries now: the network is back. What seems to hang is given up. */
  retryNow(): void {
    if (this.#wake) return this.#wake()
    if (!this.#watchdog || this.#watchdog.silentMs < this.#hangingMs) return
    this.#afterSilence.begin()
    this.#watchdog.giveUp(new Silence('The connection is silent'))
  }

  /**
   * The text of the answer, as it arrives.
   * @throws Error when the run fails, when a crash has undone text already returned, or text is not kept any more
   */
  async *text(): AsyncGenerator<string> {
    let isOpening = this.#options.snapshot
    for await (const { event, data } of this) {
      if (event === 'gap' || (event === 'snapshot' && !isOpening))
        throw new Error('The server has lost some of the answer')
      isOpening = false
      if (event === 'error') throw new Error(data?.message ?? 'The run failed')
      const text = event === 'messages' && data[0] && isChunk(data[0]) ? textIn(data[0]) : ''
      if (text) yield text
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame> {
    try {
      while (!this.#isClosed) {
        const response = await (this.#opening ?? this.#reach())
        this.#opening = null
        if (!response) return
        for await (const frame of this.#framesOf(response)) {
          yield frame
          if (frame.event === 'end') return
        }
      }
    } finally {
      this.close()
      this.#options.onConnection?.({ state: 'closed', failures: this.#failures })
    }
  }

  get #isClosed(): boolean {
    return this.#abort.signal.aborted
  }

  /** Retries until there is a response; null: the stream was closed. */
  async #reach(): Promise<Response | null> {
    let response: Response | null = null
    while (!response && !this.#isClosed) response = await this.#connect()
    return response
  }

  /** One attempt; null: it failed, and the delay is over. */
  async #connect(): Promise<Response | null> {
    this.#options.onConnection?.({ state: 'connecting', failures: this.#failures })
    const { connectMs = CONNECT_MS, silenceMs } = this.#options
    const watchdog = new Watchdog(this.#afterSilence.limitMs(connectMs), this.#abort.signal)
    this.#watchdog = watchdog
    this.#hangingMs = HANGING_MS
    try {
      const response = await this.#open(watchdog.signal)
      this.#hangingMs = beatMsOf(response) * 1.2
      watchdog.restart(silenceMs ?? silenceMsOf(response))
      this.#afterSilence.end()
      this.#options.onConnection?.({ state: 'open', failures: this.#failures })
      return response
    } catch (error) {
      watchdog.stop()
      if (!this.#isClosed && isFinal(error)) this.#onRefused(error)
      if (!this.#isClosed && isFinal(error)) throw error
      await this.#wait(error)
      return null
    }
  }

  async #open(signal: AbortSignal): Promise<Response> {
    if (this.#first && !this.#run) {
      const response = await this.#first(signal)
      const { headers } = response
      const place = headers.get('content-location') ?? headers.get('location') ?? ''
      const [, thread_id, run_id] = /\/threads\/([^/]+)\/runs\/([^/]+)/.exec(place) ?? []
      if (!thread_id || !run_id) {
        await response.body?.cancel()
        // Asked again, whatever is in between would answer the same.
        throw new ApiError(response.status, 'The answer names no run: its Content-Location is missing', null)
      }
      this.#run = { thread_id, run_id }
      this.#onStarted(this.#run)
      return response
    }
    const query = new URLSearchParams()
    for (const mode of this.#options.modes ?? []) query.append('stream_mode', mode)
    // A cursor takes precedence over a snapshot.
    if (this.cursor !== null) query.set('last_event_id', this.cursor)
    else if (this.#isSnapshot) query.set('mode', 'snapshot')
    const headers = { Accept: 'text/event-stream' }
    return this.#client.send('GET', `${pathOf(await this.started)}/stream?${query}`, { headers, signal })
  }

  /** The frames of one connection, until it ends or breaks. */
  async *#framesOf(response: Response): AsyncGenerator<Frame> {
    const reader = response.body?.getReader()
    if (!reader) return
    const parser = new FrameParser()
    const watchdog = this.#watchdog
    let isDead = false
    try {
      while (!this.#isClosed) {
        const { done, value } = await reader.read()
        if (done) break
        watchdog?.restart()
        for (const frame of parser.feed(value)) {
          if (this.#takesBack(frame)) return
          if (frame.id !== null) this.cursor = frame.id
          this.#failures = 0
          yield frame
        }
      }
    } catch (error) {
      isDead = true
      if (watchdog && watchdog.silentMs >= this.#hangingMs) this.#afterSilence.begin()
      if (!this.#isClosed) await this.#wait(error)
    } finally {
      // Reading the end of the body lets the connection be reused; one that does not come is not waited for.
      if (parser.hasEnded) watchdog?.restart(END_MS)
      await (parser.hasEnded ? reader.read() : reader.cancel()).catch(() => {})
      watchdog?.stop()
    }
    // A stream without `end` was cut by an intermediary.
    if (!isDead && !parser.hasEnded && !this.#isClosed) await this.#wait(new Error('The stream ended early'))
  }

  /**
   * Whether a frame of a later attempt has a position already seen: a crash has undone what was seen there, and later frames
   * would continue text that no longer exists. So the stream restarts with a snapshot.
   */
  #takesBack({ id }: Frame): boolean {
    const [now, seen] = [positionOf(id), positionOf(this.cursor)]
    if (!now || !seen || now.epoch === seen.epoch || now.n > seen.n) return false
    this.cursor = null
    this.#isSnapshot = true
    return true
  }

  /** Exponential backoff with jitter, so that clients cut at the same moment do not return together. */
  #wait(error: unknown): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    const { backoffMs = BACKOFF_MS, backoffMaxMs = BACKOFF_MAX_MS } = this.#options
    const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
    const most = grownMs(this.#failures, backoffMs, this.#afterSilence.pauseMs(error, backoffMaxMs))
    const ms = this.#afterSilence.isHasty(error) ? 0 : Math.max(asked, most / 2 + (Math.random() * most) / 2)
    this.#failures++
    this.#options.onConnection?.({ state: 'waiting', failures: this.#failures, retryAt: Date.now() + ms, error })
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer)
        this.#wake = null
        resolve()
      }
      const timer = setTimeout(go, ms)
      this.#wake = go
    })
  }
}

// --------------------------------------------------------------------------------------------------- helpers

function pathOf({ thread_id, run_id }: RunRef): string {
  return `/api/threads/${encodeURIComponent(thread_id)}/runs/${encodeURIComponent(run_id)}`
}

/** The page's csrf_token, for direct calls of fetch; null outside of browsers. */
export function csrfToken(): string | null {
  const { document } = globalThis as { document?: { cookie: string } }
  const [, value] = /(?:^|; )csrf_token=([^;]*)/.exec(document?.cookie ?? '') ?? []
  return value ?? null
}

/** randomUUID only exists on secure origins. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
