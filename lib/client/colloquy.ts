// The client: starts and watches runs, and resumes at the exact frame after a broken connection. Without dependencies; for browsers
// (one file, served at /colloquy.js) and Node (colloquy/client). It only uses the public API.
//
//   const colloquy = new Colloquy({ url: 'https://chat.example.com', token: 'clq_...' })
//   const run = colloquy.start(threadId, { input: { messages: [{ role: 'user', content: 'Hello' }] } })
//   for await (const text of run.text()) process.stdout.write(text)

import {
  begun,
  callTextsOf,
  contentOf,
  fold,
  type GrowingMessage,
  isChunk,
  isLastChunk,
  readChunk
} from '../conversation/chunk.ts'
import type { JsonObject } from '../base/types.ts'
import { beatMsOf, CONNECT_MS, grownMs, Silence, silenceMsOf, Watchdog } from './silence.ts'

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

/** One event of a stream. `data` is parsed; `id` is its cursor, null for events outside of the log (`end`, `gap`). */
export interface Frame {
  readonly event: string
  // Any JSON, depending on the event.
  // biome-ignore lint/suspicious/noExplicitAny: a union over events would have to be narrowed by every reader
  readonly data: any
  readonly id: string | null
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

/** An error response of the gateway. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string | null
  readonly detail: unknown
  readonly retryAfterMs: number | null

  constructor(status: number, detail: unknown, retryAfterMs: number | null) {
    super(textOfDetail(detail) ?? `The gateway answered ${status}`)
    this.name = 'ApiError'
    this.status = status
    this.detail = detail
    this.code = (isRecord(detail) && typeof detail.code === 'string' && detail.code) || null
    this.retryAfterMs = retryAfterMs
  }
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
    const watch = new Watchdog(this.#options.timeoutMs ?? TIMEOUT_MS, signal)
    try {
      const response = await this.send(method, path, { body, signal: watch.signal })
      const text = await textOf(response, watch)
      return (text === '' ? null : JSON.parse(text)) as T
    } finally {
      watch.stop()
    }
  }

  /** @throws ApiError for a status other than 2xx; errors of fetch */
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
/** An attempt without an answer for this long may hang, in ms. */
const HANGING_MS = 500
/**
 * After silence the connections that a browser keeps alive may be dead as well, and each attempt uses one up: so many attempts are
 * short, and follow each other without delay.
 */
const SHORT_ATTEMPTS = 5
const SHORT_MS = 1000

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
  /** Short attempts that are left; null: nothing was silent. */
  #shortLeft: number | null = null
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
    signal?.addEventListener('abort', () => this.close(), { once: true })
    if (first) this.#opening = this.#reach()
    this.#opening?.catch(() => {})
  }

  /** Stops watching. The run continues. */
  close(): void {
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
    this.#shortLeft = SHORT_ATTEMPTS
    this.#watchdog.giveUp(new Silence('The connection was silent'))
  }

  /**
   * The text of the answer, as it arrives.
   * @throws Error when the run fails, or when a crash has undone text already returned
   */
  async *text(): AsyncGenerator<string> {
    for await (const { event, data } of this) {
      if (event === 'snapshot' && this.#first)
        throw new Error('The server has lost the end of the answer after a crash')
      if (event === 'error') throw new Error(data?.message ?? 'The run failed')
      const content = event === 'messages' && data[0] && isChunk(data[0]) ? data[0].content : ''
      if (content) yield content
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
      this.#tell({ state: 'closed', failures: this.#failures })
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
    this.#tell({ state: 'connecting', failures: this.#failures })
    const { connectMs = CONNECT_MS, silenceMs } = this.#options
    const ms = this.#shortLeft ? Math.min(SHORT_MS, connectMs) : connectMs
    const watchdog = new Watchdog(ms, this.#abort.signal)
    this.#watchdog = watchdog
    this.#hangingMs = HANGING_MS
    try {
      const response = await this.#open(watchdog.signal)
      this.#hangingMs = beatMsOf(response) * 1.2
      watchdog.restart(silenceMs ?? silenceMsOf(response))
      this.#shortLeft = null
      this.#tell({ state: 'open', failures: this.#failures })
      return response
    } catch (error) {
      watchdog.stop()
      if (!this.#isClosed && !isTemporary(error)) this.#onRefused(error)
      if (!this.#isClosed && !isTemporary(error)) throw error
      await this.#wait(error)
      return null
    }
  }

  async #open(signal: AbortSignal): Promise<Response> {
    if (this.#first && !this.#run) {
      const response = await this.#first(signal)
      const [, thread_id, run_id] = /\/threads\/([^/]+)\/runs\/([^/]+)/.exec(locationIn(response)) ?? []
      if (!thread_id || !run_id) throw new Error('The answer names no run')
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
      if (!this.#isClosed) await this.#wait(error)
    } finally {
      watchdog?.stop()
      // Reading the end of the body lets the connection be reused.
      await (parser.hasEnded ? reader.read() : reader.cancel()).catch(() => {})
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
    const most = grownMs(this.#failures, backoffMs, backoffMaxMs)
    const ms = this.#isHasty(error) ? 0 : Math.max(asked, most / 2 + (Math.random() * most) / 2)
    this.#failures++
    this.#tell({ state: 'waiting', failures: this.#failures, retryAt: Date.now() + ms, error })
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

  /** Whether the next attempt is made without delay: of a series of short ones, which ends with one that is not short. */
  #isHasty(error: unknown): boolean {
    if (!(error instanceof Silence)) return false
    this.#shortLeft = this.#shortLeft === 0 ? null : (this.#shortLeft ?? SHORT_ATTEMPTS + 1) - 1
    return this.#shortLeft !== null
  }

  #tell(connection: Connection): void {
    this.#options.onConnection?.(connection)
  }
}

// ------------------------------------------------------------------------------------------------ transcript

export interface ToolCallPart {
  readonly id: string | null
  readonly name: string
  /** JSON text, possibly incomplete. */
  readonly args: string
}

/** A message for display: complete, or as far as it has arrived. */
export interface TranscriptMessage {
  readonly id: string
  readonly type: string
  // A text or a list of content blocks.
  readonly content: string | readonly unknown[]
  /** It is still in progress. */
  readonly isPartial: boolean
  readonly calls: readonly ToolCallPart[]
  readonly reasoning: string
  /** The original message, with all its fields. */
  readonly raw: Readonly<Record<string, unknown>>
}

/** Builds a thread's messages from frames. Unchanged messages stay the same objects. */
export class Transcript {
  #messages: TranscriptMessage[] = []
  #byId = new Map<string, number>()
  /** Messages in progress. */
  readonly #growing = new Map<string, GrowingMessage>()
  /** Other channels of the state: title, todos, artifacts... */
  values: Readonly<Record<string, unknown>> = {}

  get messages(): readonly TranscriptMessage[] {
    return this.#messages
  }

  /** Applies `values`, `snapshot` and `messages` frames; ignores others. True when something has changed. */
  apply({ event, data }: Frame): boolean {
    if (event === 'messages' && Array.isArray(data)) return this.#add(data[0])
    if (event === 'values') return this.replace(data)
    if (event !== 'snapshot') return false
    this.replace(data.values ?? {})
    for (const chunk of data.partial ?? []) this.#add(chunk)
    return true
  }

  /** Replaces the whole state. */
  replace(values: Readonly<Record<string, unknown>>): boolean {
    const { messages, ...rest } = values
    const list = Array.isArray(messages) ? messages : []
    const before = new Map(this.#messages.map((message) => [message.id, message]))
    this.#messages = list.map((raw) => settled(raw, before.get(raw.id)))
    this.#growing.clear()
    this.#byId = new Map(this.#messages.map(({ id }, at) => [id, at]))
    this.values = rest
    return true
  }

  #add(piece: JsonObject): boolean {
    const id = String(piece.id)
    const at = this.#byId.get(id)
    const before = at === undefined ? undefined : this.#messages[at]
    const isPart = isChunk(piece)
    if (before && isPart && !before.isPartial) return false
    const next = isPart ? this.#grow(id, piece) : settled(piece, before)
    if (!next.isPartial) this.#growing.delete(id)
    this.#byId.set(id, at ?? this.#messages.length)
    this.#messages = at === undefined ? [...this.#messages, next] : this.#messages.with(at, next)
    return true
  }

  #grow(id: string, piece: JsonObject): TranscriptMessage {
    const message = fold(this.#growing.get(id) ?? begun(id), readChunk(piece))
    this.#growing.set(id, message)
    return {
      id,
      type: 'ai',
      content: contentOf(message),
      isPartial: !isLastChunk(piece),
      calls: callTextsOf(message).map(({ id: callId, name, args }) => ({ id: callId, name: name ?? '', args })),
      reasoning: String(message.reasoning),
      raw: { ...message.fields, content: '' }
    }
  }
}

function settled(raw: Record<string, unknown>, before?: TranscriptMessage): TranscriptMessage {
  const calls = [...listOf(raw.tool_calls), ...listOf(raw.invalid_tool_calls)]
  const message: TranscriptMessage = {
    id: String(raw.id),
    type: String(raw.type),
    content: (raw.content ?? '') as TranscriptMessage['content'],
    isPartial: false,
    calls: calls.map(({ id, name, args }) => ({
      id: id == null ? null : String(id),
      name: String(name),
      args: typeof args === 'string' ? args : JSON.stringify(args, null, 2)
    })),
    reasoning: reasoningIn(raw),
    raw
  }
  return before && isSame(before, message) ? before : message
}

function isSame(a: TranscriptMessage, b: TranscriptMessage): boolean {
  return !a.isPartial && JSON.stringify(a.raw) === JSON.stringify(b.raw)
}

function reasoningIn({ additional_kwargs: more }: Record<string, unknown>): string {
  return isRecord(more) && typeof more.reasoning_content === 'string' ? more.reasoning_content : ''
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value : []
}

// ------------------------------------------------------------------------------------------- event streams

/** Parses an event stream. */
export class FrameParser {
  hasEnded = false
  readonly #decoder = new TextDecoder()
  #rest = ''
  #event = ''
  #id: string | null = null
  #data: string[] = []

  feed(bytes: Uint8Array): Frame[] {
    const text = this.#decoder.decode(bytes, { stream: true })
    this.#rest += text
    // A long line is only scanned when it is complete.
    if (!text.includes('\n')) return []
    const lines = this.#rest.split(/\r?\n/)
    this.#rest = lines.pop() ?? ''
    return lines.map((line) => this.#line(line)).filter((frame) => frame !== null)
  }

  #line(line: string): Frame | null {
    if (line === '') return this.#finish()
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') this.#event = value
    else if (name === 'data') this.#data.push(value)
    else if (name === 'id') this.#id = value
    return null
  }

  #finish(): Frame | null {
    const [event, data, id] = [this.#event || 'message', this.#data.join('\n'), this.#id]
    this.#event = ''
    this.#data = []
    this.#id = null
    if (data === '') return null
    this.hasEnded ||= event === 'end'
    return { event, data: JSON.parse(data), id }
  }
}

// --------------------------------------------------------------------------------------------------- helpers

function pathOf({ thread_id, run_id }: RunRef): string {
  return `/api/threads/${encodeURIComponent(thread_id)}/runs/${encodeURIComponent(run_id)}`
}

/** The text of a response; each piece of it is reported to `watchdog`. */
async function textOf({ body }: Response, watchdog: Watchdog): Promise<string> {
  const reader = body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true }
    text += decoder.decode(value, { stream: !done })
    if (done) return text
    watchdog.restart()
  }
}

function locationIn({ headers }: Response): string {
  return headers.get('content-location') ?? headers.get('location') ?? ''
}

function positionOf(cursor: string | null): { epoch: number; n: number } | null {
  const [, epoch, n] = /^(\d+)-(\d+)$/.exec(cursor ?? '') ?? []
  return n === undefined ? null : { epoch: Number(epoch), n: Number(n) }
}

/** Errors worth retrying: no response at all, or one that says so. */
function isTemporary(error: unknown): boolean {
  return error instanceof ApiError ? error.status >= 500 || error.status === 429 || error.status === 408 : true
}

async function refusalOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  let detail: unknown = text
  try {
    detail = JSON.parse(text).detail
  } catch {
    // Not JSON: sent by an intermediary.
  }
  return new ApiError(response.status, detail, Number.isFinite(seconds) ? seconds * 1000 : null)
}

/** The human-readable part of a refusal. */
function textOfDetail(detail: unknown): string | null {
  if (typeof detail === 'string') return detail.slice(0, 500) || null
  if (Array.isArray(detail)) return detail.map(({ msg }) => String(msg).replace(/^Value error, /, '')).join('; ')
  return isRecord(detail) && typeof detail.message === 'string' ? detail.message : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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
