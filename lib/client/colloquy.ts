// The client: starts runs, watches them, and goes on to the exact frame after whatever broke in between. One file without a
// dependency, for browsers (served at /colloquy.js) and Node alike (colloquy/client). It knows the public API and nothing else.
//
//   const colloquy = new Colloquy({ url: 'https://chat.example.com', token: 'clq_...' })
//   const run = colloquy.start(threadId, { input: { messages: [{ role: 'user', content: 'Hello' }] } })
//   for await (const text of run.text()) process.stdout.write(text)

export interface ColloquyOptions {
  /** Where the gateway answers; absent: the page's own origin. */
  readonly url?: string
  /** An API token. Without one a page's cookies are sent, and the CSRF header that belongs to them. */
  readonly token?: string
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof fetch
}

/** Names a run. */
export interface RunRef {
  readonly thread_id: string
  readonly run_id: string
}

/** One event of a stream. `data` is parsed; `id` is its cursor, null for what is not part of the log (`end`, `gap`). */
export interface Frame {
  readonly event: string
  // Whatever JSON the event carries: its reader knows which.
  // biome-ignore lint/suspicious/noExplicitAny: a union over events would have to be narrowed by every reader
  readonly data: any
  readonly id: string | null
}

/** What the connection of a stream does: it opens, delivers, or waits until `retryAt` (ms, as Date.now) because of `error`. */
export interface Connection {
  readonly state: 'connecting' | 'open' | 'waiting' | 'closed'
  /** Tries in a row that have failed. */
  readonly failures: number
  readonly retryAt?: number
  readonly error?: unknown
}

export interface WatchOptions {
  /** Modes of the stream, e.g. `['messages-tuple', 'values']`. Absent: those the run was created with. */
  readonly modes?: readonly string[]
  /** Go on after this cursor. Absent: from the first frame. */
  readonly after?: string
  /** Begin with one `snapshot` frame of how the run stands, and go on live. */
  readonly snapshot?: boolean
  readonly signal?: AbortSignal
  readonly onConnection?: (connection: Connection) => void
  /** Milliseconds: the first wait (about), the longest wait, and silence after which a connection counts as dead. */
  readonly backoffMs?: number
  readonly backoffMaxMs?: number
  readonly silenceMs?: number
}

export interface StartOptions extends Omit<WatchOptions, 'after' | 'snapshot' | 'modes'> {
  /** Makes the start repeatable: the same key is the same run. Absent: one is made, so that a retry never starts a second run. */
  readonly key?: string
}

/** The gateway said no. `code` where it names one. */
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

  /** Starts a run on a thread (null: on a new one) and streams it. Its first frames come with the answer to the start itself. */
  start(threadId: string | null, body: object, options: StartOptions = {}): RunStream {
    const path = threadId === null ? '/api/runs/stream' : `/api/threads/${encodeURIComponent(threadId)}/runs/stream`
    const key = options.key ?? randomKey()
    const first = (signal: AbortSignal) =>
      this.send('POST', path, { body, signal, headers: { 'Idempotency-Key': key, Accept: 'text/event-stream' } })
    return new RunStream(this, null, options, first)
  }

  /** Watches a run: from its beginning, after a cursor, or from a snapshot on. */
  watch(run: RunRef, options: WatchOptions = {}): RunStream {
    return new RunStream(this, run, options, null)
  }

  /** Ends a run; `rollback` also takes back what it did to the thread. */
  async cancel(run: RunRef, action: 'interrupt' | 'rollback' = 'interrupt'): Promise<void> {
    await this.send('POST', `${pathOf(run)}/cancel?action=${action}`)
  }

  /** Any other call of the API: JSON in, JSON out. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.send(method, path, { body, ...(signal && { signal }) })
    const text = await response.text()
    return (text === '' ? null : JSON.parse(text)) as T
  }

  /** @throws ApiError for an answer that is none of 2xx; what fetch throws when there is no answer */
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
/** Heartbeats come every 5 s: whose line is silent for four of them has none. */
const SILENCE_MS = 20_000

/**
 * A run as it happens: iterate it for frames, or `text()` for the words of the answer. It ends with the run, and throws only what
 * trying again cannot mend. A start happens at once, iterated or not. Iterate it once, or close it.
 */
export class RunStream implements AsyncIterable<Frame> {
  /** Resolves when it is known which run it is; rejects when the start is refused. */
  readonly started: Promise<RunRef>
  /** Cursor of the newest frame: `watch(run, { after: stream.cursor })` goes on behind it. */
  cursor: string | null
  readonly #client: Colloquy
  readonly #options: WatchOptions
  readonly #abort = new AbortController()
  #run: RunRef | null
  readonly #first: Open | null
  /** The answer to a start, which does not wait for its reader. */
  #opening: Promise<Response | null> | null = null
  #isSnapshot: boolean
  #failures = 0
  #wake: (() => void) | null = null
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
    // Whoever does not ask which run it is must not be told by an unhandled rejection.
    this.started.catch(() => {})
    if (run) this.#onStarted(run)
    const { signal } = options
    if (signal?.aborted) this.close()
    signal?.addEventListener('abort', () => this.close(), { once: true })
    if (first) this.#opening = this.#reach()
    this.#opening?.catch(() => {})
  }

  /** Stops watching. The run goes on. */
  close(): void {
    this.#abort.abort()
    this.#onRefused(new Error('The stream was closed before its run was known'))
    this.#wake?.()
  }

  /** Stops the run. */
  async cancel(action: 'interrupt' | 'rollback' = 'interrupt'): Promise<void> {
    await this.#client.cancel(await this.started, action)
  }

  /** Ends a wait before the next try: the network is back. */
  retryNow(): void {
    this.#wake?.()
  }

  /**
   * The words of the answer, as they come.
   * @throws Error when the run fails, and when a crash has taken back words that were told
   */
  async *text(): AsyncGenerator<string> {
    for await (const { event, data } of this) {
      if (event === 'snapshot' && this.#first) throw new Error('The server has lost the end of what was told')
      if (event === 'error') throw new Error(data?.message ?? 'The run failed')
      const content = event === 'messages' && data[0]?.type === 'AIMessageChunk' ? data[0].content : ''
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

  /** Tries until there is an answer; null: it was closed meanwhile. */
  async #reach(): Promise<Response | null> {
    let response: Response | null = null
    while (!response && !this.#isClosed) response = await this.#connect()
    return response
  }

  /** One try. null: it failed, and the wait before the next one is over. */
  async #connect(): Promise<Response | null> {
    this.#tell({ state: 'connecting', failures: this.#failures })
    try {
      const response = await this.#open()
      this.#tell({ state: 'open', failures: this.#failures })
      return response
    } catch (error) {
      if (!this.#isClosed && !isTemporary(error)) this.#onRefused(error)
      if (!this.#isClosed && !isTemporary(error)) throw error
      await this.#wait(error)
      return null
    }
  }

  async #open(): Promise<Response> {
    const { signal } = this.#abort
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
    // A position goes before a snapshot: who has seen something goes on behind it.
    if (this.cursor !== null) query.set('last_event_id', this.cursor)
    else if (this.#isSnapshot) query.set('mode', 'snapshot')
    const headers = { Accept: 'text/event-stream' }
    return this.#client.send('GET', `${pathOf(await this.started)}/stream?${query}`, { headers, signal })
  }

  /** The frames of one connection; ends where it ends or breaks. */
  async *#framesOf(response: Response): AsyncGenerator<Frame> {
    const reader = response.body?.getReader()
    if (!reader) return
    const parser = new FrameParser()
    let isDead = false
    try {
      while (!this.#isClosed) {
        const { done, value } = await this.#inTime(reader)
        if (done) break
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
      // Behind the end comes nothing but the end of the body: taken, the connection can be used again.
      await (parser.hasEnded ? reader.read() : reader.cancel()).catch(() => {})
    }
    // A stream that ends without `end` was ended by somebody in between.
    if (!isDead && !parser.hasEnded && !this.#isClosed) await this.#wait(new Error('The stream ended early'))
  }

  /**
   * A frame of a later attempt whose place was taken by one that has been seen: a crash has taken that back. What follows would
   * continue words that are no longer there, so the stream begins anew with how the run stands.
   */
  #takesBack({ id }: Frame): boolean {
    const [now, seen] = [positionOf(id), positionOf(this.cursor)]
    if (!now || !seen || now.epoch === seen.epoch || now.n > seen.n) return false
    this.cursor = null
    this.#isSnapshot = true
    return true
  }

  #inTime(reader: ReadableStreamDefaultReader<Uint8Array>): ReturnType<typeof reader.read> {
    const { silenceMs = SILENCE_MS } = this.#options
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Error('The stream is closed'))
      const timer = setTimeout(() => reject(new Error('The connection is silent')), silenceMs)
      const { signal } = this.#abort
      signal.addEventListener('abort', stop, { once: true })
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', stop)
      }
      reader.read().then(resolve, reject).finally(done)
    })
  }

  /** Longer after every failure, and never in step with others that were cut in the same moment. */
  #wait(error: unknown): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    const { backoffMs = BACKOFF_MS, backoffMaxMs = BACKOFF_MAX_MS } = this.#options
    const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
    const most = Math.min(backoffMaxMs, backoffMs * 2 ** this.#failures)
    const ms = Math.max(asked, most / 2 + (Math.random() * most) / 2)
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

  #tell(connection: Connection): void {
    this.#options.onConnection?.(connection)
  }
}

// ------------------------------------------------------------------------------------------------ transcript

export interface ToolCallPart {
  readonly id: string | null
  readonly name: string
  /** JSON text as far as it has come. */
  readonly args: string
}

/** A message as clients show it: whole, or as far as it has come. */
export interface TranscriptMessage {
  readonly id: string
  readonly type: string
  // A text or a list of content blocks, as models know them.
  readonly content: string | readonly unknown[]
  /** Its words are still coming. */
  readonly isPartial: boolean
  readonly calls: readonly ToolCallPart[]
  readonly reasoning: string
  /** The message as it came: its other fields are read from here. */
  readonly raw: Readonly<Record<string, unknown>>
}

/** What the frames of a thread come to: its messages in order. Those that a frame does not touch stay the same objects. */
export class Transcript {
  #messages: TranscriptMessage[] = []
  #byId = new Map<string, number>()
  /** Other channels of the state: title, todos, artifacts... */
  values: Readonly<Record<string, unknown>> = {}

  get messages(): readonly TranscriptMessage[] {
    return this.#messages
  }

  /** Takes `values`, `snapshot` and `messages` frames; others are passed over. True when something has changed. */
  apply({ event, data }: Frame): boolean {
    if (event === 'messages' && Array.isArray(data)) return this.#add(data[0])
    if (event === 'values') return this.replace(data)
    if (event !== 'snapshot') return false
    this.replace(data.values ?? {})
    for (const chunk of data.partial ?? []) this.#add(chunk)
    return true
  }

  /** The whole state anew. */
  replace(values: Readonly<Record<string, unknown>>): boolean {
    const { messages, ...rest } = values
    const list = Array.isArray(messages) ? messages : []
    const before = new Map(this.#messages.map((message) => [message.id, message]))
    this.#messages = list.map((raw) => settled(raw, before.get(raw.id)))
    this.#byId = new Map(this.#messages.map(({ id }, at) => [id, at]))
    this.values = rest
    return true
  }

  #add(chunk: Record<string, unknown>): boolean {
    const id = String(chunk.id)
    const at = this.#byId.get(id)
    const before = at === undefined ? undefined : this.#messages[at]
    const isChunk = chunk.type === 'AIMessageChunk'
    if (before && isChunk && !before.isPartial) return false
    const next = isChunk ? grown(before, chunk, id) : settled(chunk, before)
    this.#byId.set(id, at ?? this.#messages.length)
    this.#messages = at === undefined ? [...this.#messages, next] : this.#messages.with(at, next)
    return true
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

function grown(before: TranscriptMessage | undefined, chunk: Record<string, unknown>, id: string): TranscriptMessage {
  const calls = [...(before?.calls ?? [])]
  for (const piece of listOf(chunk.tool_call_chunks)) {
    const at = Number(piece.index ?? calls.length)
    const was = calls[at]
    calls[at] = {
      id: was?.id ?? (piece.id == null ? null : String(piece.id)),
      name: (was?.name ?? '') + (piece.name ?? ''),
      args: (was?.args ?? '') + (piece.args ?? '')
    }
  }
  return {
    id,
    type: 'ai',
    content: joined(before?.content ?? '', chunk.content),
    isPartial: chunk.chunk_position !== 'last',
    calls,
    reasoning: (before?.reasoning ?? '') + reasoningIn(chunk),
    raw: { ...before?.raw, ...chunk, content: '' }
  }
}

function joined(before: string | readonly unknown[], more: unknown): string | readonly unknown[] {
  if (typeof before === 'string' && typeof more === 'string') return before + more
  const asList = (part: unknown) => (Array.isArray(part) ? part : part ? [{ type: 'text', text: part }] : [])
  return [...asList(before), ...asList(more)]
}

function reasoningIn({ additional_kwargs: more }: Record<string, unknown>): string {
  return isRecord(more) && typeof more.reasoning_content === 'string' ? more.reasoning_content : ''
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value : []
}

// ------------------------------------------------------------------------------------------- event streams

/** Bytes of an event stream -> its events. */
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
    // A long line is looked through once, when its end has come.
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

function locationIn({ headers }: Response): string {
  return headers.get('content-location') ?? headers.get('location') ?? ''
}

function positionOf(cursor: string | null): { epoch: number; n: number } | null {
  const [, epoch, n] = /^(\d+)-(\d+)$/.exec(cursor ?? '') ?? []
  return n === undefined ? null : { epoch: Number(epoch), n: Number(n) }
}

/** What trying again may mend: no answer at all, or one that says so. */
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
    // Said by something in between: its text is all there is.
  }
  return new ApiError(response.status, detail, Number.isFinite(seconds) ? seconds * 1000 : null)
}

/** What a person may read of a refusal. */
function textOfDetail(detail: unknown): string | null {
  if (typeof detail === 'string') return detail.slice(0, 500) || null
  if (Array.isArray(detail)) return detail.map(({ msg }) => String(msg).replace(/^Value error, /, '')).join('; ')
  return isRecord(detail) && typeof detail.message === 'string' ? detail.message : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The page's own csrf_token, for who calls fetch by himself; nothing outside a browser. */
export function csrfToken(): string | null {
  const { document } = globalThis as { document?: { cookie: string } }
  const [, value] = /(?:^|; )csrf_token=([^;]*)/.exec(document?.cookie ?? '') ?? []
  return value ?? null
}

/** Not randomUUID, which browsers have on secure origins alone. */
function randomKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
