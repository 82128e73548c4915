// A model behind the chat-completions protocol: how a conversation is put to it, and how its streamed answer is read.
//
// From the socket's bytes to `onDelta` everything is synchronous: a chunk is decoded, parsed and told in the turn it came.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createParser, type EventSourceParser } from 'eventsource-parser'
import type { AiMessage, InvalidToolCall, JsonObject, Message, ToolCall, ToolMessage, UsageMetadata } from '../types.ts'
import { AgentError, type Delta, type ModelInfo } from './runtime.ts'

/** A model as the configuration names it. */
export interface ModelConfig {
  /** Ours, unique: what clients choose by. */
  readonly name: string
  /** The provider's. */
  readonly model: string
  /** Up to and without `/chat/completions`, e.g. `https://api.example.com/v1`. */
  readonly base_url: string
  /** Empty: no Authorization header (a model on the same machine). */
  readonly api_key: string
  /** Goes into the body of every request as it is, e.g. `{ temperature: 0.2 }`. */
  readonly request?: JsonObject
  /**
   * Milliseconds without a byte after which the model is given up; 0 is never. Without it a provider that has forgotten us
   * holds the run for ever. Node's fetch ends a silence of five minutes by itself, whatever is said here.
   */
  readonly idle_timeout_ms?: number
  /** How often a request that failed before its first byte is tried again. */
  readonly max_retries?: number
  readonly display_name?: string | null
  readonly description?: string | null
  readonly supports_thinking?: boolean
  readonly supports_reasoning_effort?: boolean
}

/** What a log must be able to do; pino's is one. */
export interface AgentLog {
  warn(fields: object, text: string): void
}

/** What a model needs to know of a tool. */
export interface ToolSpec {
  readonly name: string
  readonly description: string
  readonly parameters: JsonObject
}

export interface ModelRequest {
  /** In chat-completions form: see `toChat`. */
  readonly messages: readonly JsonObject[]
  readonly tools?: readonly ToolSpec[]
  readonly signal: AbortSignal
  /** Goes into every delta: the id that the message will have. */
  readonly messageId: string
  /** Awaited before more is read, after `onDelta` answered false. Without it nobody is waited for. */
  space?(): Promise<void>
}

/** A whole answer, as the provider gave it. */
export interface Completion {
  /** The provider's id, or one of ours. */
  readonly responseId: string
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly RawCall[]
  /** The provider's word; null: it said none. */
  readonly finishReason: string | null
  readonly usage: UsageMetadata | null
}
/** A tool call before anybody has looked at its arguments. */
export interface RawCall {
  readonly id: string
  readonly name: string
  readonly args: string
}

/** Hears every piece of an answer; false: there is no more space for now. */
export type OnDelta = (delta: Delta) => boolean

/** What an agent talks to. The demo model is another one. */
export interface Model {
  readonly info: ModelInfo
  /**
   * One answer to a conversation.
   * @throws AgentError (ModelUnavailable, ModelRefused, ModelInterrupted, ModelTimeout, ModelProtocolError), its text for a
   *   person; the signal's reason after an abort.
   */
  complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion>
}

/** How a ChatModel waits before it tries again; tests shorten it. */
export interface RetryPolicy {
  /** First pause, in milliseconds; every further one is twice as long. */
  readonly backoffMs: number
  /** The longest pause that backing off comes to. */
  readonly backoffMaxMs: number
  /** The longest `Retry-After` that is waited for: a person sits in front of the run. Longer: given up at once. */
  readonly retryAfterMaxMs: number
  /** 0 <= x < 1, so that those who failed together do not come back together. */
  random(): number
}

const RETRY: RetryPolicy = { backoffMs: 500, backoffMaxMs: 8000, retryAfterMaxMs: 30_000, random: Math.random }
const IDLE_TIMEOUT_MS = 120_000
const MAX_RETRIES = 3
/** Characters of one event at most: an answer without line ends must not fill the memory. */
const EVENT_MAX = 32 * 1024 * 1024
/** Bytes of an error's body that are read, and characters of its text that are shown. */
const ERROR_BYTES = 64 * 1024
const ERROR_TEXT = 500
/** Milliseconds that a finished answer may take to end its response; then its connection is closed instead of kept. */
const DRAIN_MS = 1000

// ------------------------------------------------------------------------------------------------ asking

/** A failed try that may be repeated. */
interface Setback {
  readonly setback: AgentError
  /** As the provider asks, in milliseconds; null: it did not say. */
  readonly retryAfterMs: number | null
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

export class ChatModel implements Model {
  readonly info: ModelInfo
  readonly #config: ModelConfig
  readonly #url: string
  readonly #retry: RetryPolicy
  readonly #log: AgentLog | undefined

  constructor(config: ModelConfig, options: { readonly log?: AgentLog; readonly retry?: Partial<RetryPolicy> } = {}) {
    this.#config = config
    this.#url = `${config.base_url.replace(/\/+$/, '')}/chat/completions`
    this.#retry = { ...RETRY, ...options.retry }
    this.#log = options.log
    this.info = {
      name: config.name,
      model: config.model,
      display_name: config.display_name ?? null,
      description: config.description ?? null,
      supports_thinking: config.supports_thinking ?? false,
      supports_reasoning_effort: config.supports_reasoning_effort ?? false
    }
  }

  async complete(request: ModelRequest, onDelta: OnDelta): Promise<Completion> {
    const tries = this.#config.max_retries ?? MAX_RETRIES
    for (let failed = 0; ; failed++) {
      request.signal.throwIfAborted()
      const result = await this.#try(request, onDelta)
      if (!('setback' in result)) return result
      if (failed >= tries) throw result.setback
      const waitMs = this.#waitMs(failed, result)
      this.#log?.warn(
        { model: this.info.name, error: result.setback.message, waitMs },
        'model call failed and is tried again'
      )
      // An abort ends the wait early and is thrown at the top of the loop.
      await sleep(waitMs, undefined, { signal: request.signal }).catch(ignore)
    }
  }

  /** One request and its answer. Setbacks are answered, not thrown: only they may be repeated. */
  async #try(request: ModelRequest, onDelta: OnDelta): Promise<Completion | Setback> {
    const watch = new Watch(request.signal, this.#config.idle_timeout_ms ?? IDLE_TIMEOUT_MS)
    try {
      const response = await this.#send(request, watch)
      if (!(response instanceof Response)) return response
      watch.beat()
      if (!response.ok) return await this.#refusal(response, watch)
      return await this.#read(response, request, onDelta, watch)
    } catch (error) {
      // Also after garbage: a provider that is not read any more must not go on writing, and counting.
      watch.abandon()
      throw error
    } finally {
      watch.end()
    }
  }

  async #send(request: ModelRequest, watch: Watch): Promise<Response | Setback> {
    try {
      return await fetch(this.#url, {
        method: 'POST',
        headers: this.#headers(),
        body: this.#body(request),
        signal: watch.signal
      })
    } catch (error) {
      request.signal.throwIfAborted()
      if (watch.isSilent) throw this.#silent()
      return { setback: this.#unreachable(error), retryAfterMs: null }
    }
  }

  async #read(
    response: Response,
    request: ModelRequest,
    onDelta: OnDelta,
    watch: Watch
  ): Promise<Completion | Setback> {
    if (response.body === null || !mayBeEvents(response)) throw await this.#notAStream(response, watch)
    const reader: Reader = response.body.getReader()
    const answer = new Answer(this.info.name, request.messageId, onDelta)
    let begun = false
    while (!answer.isOver) {
      const chunk = await this.#next(reader, watch)
      if (chunk instanceof Broken) {
        if (answer.isWhole) break
        if (watch.isSilent) throw this.#silent()
        if (!begun) return { setback: this.#unreachable(chunk.cause), retryAfterMs: null }
        throw this.#interrupted(`broke off in the middle of its answer${codeOf(chunk.cause)}`)
      }
      if (chunk === null) break
      begun = true
      watch.beat()
      this.#feed(answer, chunk)
      // The ONLY await between bytes and deltas: the log has no space, so the provider is made to wait by not being read.
      if (!answer.hasSpace) await watch.pausedWhile(() => request.space?.() ?? Promise.resolve())
      answer.hasSpace = true
    }
    if (answer.isOver) drain(reader)
    else if (!answer.isWhole) throw this.#cutShort(answer)
    return answer.completion()
  }

  /** The next bytes; null at the end. @throws The reason of the run's abort. */
  async #next(reader: Reader, watch: Watch): Promise<Uint8Array | Broken | null> {
    try {
      const { value } = await reader.read()
      return value ?? null
    } catch (error) {
      watch.throwIfAborted()
      return new Broken(error)
    }
  }

  #feed(answer: Answer, bytes: Uint8Array): void {
    try {
      answer.feed(bytes)
    } catch (error) {
      if (error instanceof Garbage)
        throw this.#fail('ModelProtocolError', `sent something that is no chat completion: ${error.message}`)
      if (error instanceof Reported)
        throw this.#interrupted(`reported a failure in the middle of its answer: ${this.#safe(error.message)}`)
      throw error
    }
  }

  // ---------------------------------------------------------------------------------------------- request

  #headers(): Record<string, string> {
    const headers: Record<string, string> = { 'content-type': 'application/json', accept: 'text/event-stream' }
    if (this.#config.api_key !== '') headers.authorization = `Bearer ${this.#config.api_key}`
    return headers
  }

  #body(request: ModelRequest): string {
    const tools = request.tools ?? []
    const body = {
      stream_options: { include_usage: true },
      ...this.#config.request,
      ...(tools.length > 0 && { tools: tools.map(chatTool) }),
      model: this.#config.model,
      messages: request.messages,
      stream: true
    }
    const json = JSON.stringify(body)
    // Half a surrogate pair comes out of JSON.stringify as an escape, and real servers refuse the whole request for it.
    return json.includes('\\ud') ? JSON.stringify(body, wellFormed) : json
  }

  #waitMs(failed: number, { retryAfterMs, setback }: Setback): number {
    const { backoffMs, backoffMaxMs, retryAfterMaxMs, random } = this.#retry
    if (retryAfterMs !== null && retryAfterMs > retryAfterMaxMs) throw setback
    const backoff = Math.min(backoffMs * 2 ** failed, backoffMaxMs)
    return Math.max(backoff / 2 + (random() * backoff) / 2, retryAfterMs ?? 0)
  }

  // ------------------------------------------------------------------------------------------------ errors

  /** A status that says no: for now, or for good. */
  async #refusal(response: Response, watch: Watch): Promise<Setback> {
    const { status } = response
    const said = await this.#errorText(response, watch)
    const repeatable = status === 408 || status === 429 || status >= 500
    if (!repeatable) throw this.#fail('ModelRefused', `refused the request with status ${status}${said}`)
    const retryAfterMs = readRetryAfter(response.headers.get('retry-after'))
    const pause = !retryAfterMs ? '' : `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} seconds`
    const setback = this.#fail('ModelUnavailable', `is not available: status ${status}${said}${pause}`)
    return { setback, retryAfterMs }
  }

  async #notAStream(response: Response, watch: Watch): Promise<AgentError> {
    const said = await this.#errorText(response, watch)
    return this.#fail('ModelProtocolError', `answered with something other than an event stream${said}`)
  }

  /** What the body of an answer says about its failure, as the end of a sentence. */
  async #errorText(response: Response, watch: Watch): Promise<string> {
    if (response.body === null) return ''
    const reader: Reader = response.body.getReader()
    const decoder = new TextDecoder()
    let text = ''
    for (let bytes = 0; bytes < ERROR_BYTES; ) {
      const chunk = await this.#next(reader, watch)
      if (chunk === null || chunk instanceof Broken) break
      bytes += chunk.byteLength
      text += decoder.decode(chunk, { stream: true })
      watch.beat()
    }
    void reader.cancel().catch(ignore)
    const said = this.#safe(explanationIn(text))
    return said === '' ? '' : `: ${said}`
  }

  #unreachable(error: unknown): AgentError {
    return this.#fail('ModelUnavailable', `cannot be reached${codeOf(error)}`)
  }

  #silent(): AgentError {
    const seconds = (this.#config.idle_timeout_ms ?? IDLE_TIMEOUT_MS) / 1000
    return this.#fail('ModelTimeout', `sent nothing for ${seconds} seconds and was given up`)
  }

  #cutShort(answer: Answer): AgentError {
    if (answer.events === 0)
      return this.#fail('ModelProtocolError', 'answered with something other than an event stream')
    return this.#interrupted('ended its answer before it was complete')
  }

  #interrupted(what: string): AgentError {
    return this.#fail('ModelInterrupted', what)
  }

  #fail(kind: string, what: string): AgentError {
    return new AgentError(kind, `The model "${this.info.name}" ${what}`)
  }

  /** Text of the provider as it may be shown: short, and without the key, which some repeat when they refuse it. */
  #safe(text: string): string {
    const { api_key } = this.#config
    return cut((api_key === '' ? text : text.replaceAll(api_key, '***')).trim(), ERROR_TEXT)
  }
}

/** Ends one request when its run is aborted, or when nothing has come for too long. */
class Watch {
  readonly #run: AbortSignal
  readonly #request = new AbortController()
  readonly #idleMs: number
  readonly #abort = () => this.#request.abort(this.#run.reason)
  #timer: NodeJS.Timeout | undefined
  /** The request was ended because nothing came. */
  isSilent = false

  constructor(run: AbortSignal, idleMs: number) {
    this.#run = run
    this.#idleMs = idleMs
    run.addEventListener('abort', this.#abort, { once: true })
    this.#arm()
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  /** Something came. */
  beat(): void {
    this.#timer?.refresh()
  }

  /** Silence that we cause ourselves by not reading is not the provider's. */
  async pausedWhile(work: () => Promise<void>): Promise<void> {
    clearTimeout(this.#timer)
    await work()
    this.#run.throwIfAborted()
    this.#arm()
  }

  throwIfAborted(): void {
    this.#run.throwIfAborted()
  }

  /** Closes the connection of a request whose rest nobody wants. */
  abandon(): void {
    this.#request.abort()
  }

  /** Lets go of the timer and of the run's signal. A response that is read to its end goes on. */
  end(): void {
    clearTimeout(this.#timer)
    this.#run.removeEventListener('abort', this.#abort)
  }

  #arm(): void {
    if (this.#idleMs <= 0) return
    this.#timer = setTimeout(() => {
      this.isSilent = true
      this.#request.abort()
    }, this.#idleMs)
  }
}

/** The connection failed. A value, so that a failure of ours is never taken for one of the network. */
class Broken {
  readonly cause: unknown
  constructor(cause: unknown) {
    this.cause = cause
  }
}

/** Reads a finished answer's response to its end, so that its connection can be used again. Nobody waits for it. */
function drain(reader: Reader): void {
  const timer = setTimeout(() => void reader.cancel().catch(ignore), DRAIN_MS)
  timer.unref()
  const next = (): Promise<void> => reader.read().then(({ done }) => (done ? undefined : next()))
  void next()
    .catch(ignore)
    .finally(() => clearTimeout(timer))
}

function chatTool(tool: ToolSpec): JsonObject {
  return { type: 'function', function: { name: tool.name, description: tool.description, parameters: tool.parameters } }
}

function wellFormed(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\ufffd') : value
}

/** Some servers give no type, or a wrong one like text/plain; these two are certain. */
function mayBeEvents(response: Response): boolean {
  return !/^(application\/json|text\/html)\b/i.test(response.headers.get('content-type') ?? '')
}

/** Milliseconds, of a number of seconds or a date. */
function readRetryAfter(header: string | null): number | null {
  if (header === null) return null
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}

/** The sentence for people in the body of an error: providers put it into one of a few places, or send plain text. */
function explanationIn(body: string): string {
  const parsed = parseJson(body)
  if (!isRecord(parsed)) return body.trimStart().startsWith('<') ? '' : body
  return explanation(parsed.error ?? parsed.message ?? parsed.detail)
}

function explanation(error: unknown): string {
  if (typeof error === 'string') return error
  if (!isRecord(error)) return ''
  return typeof error.message === 'string' ? error.message : JSON.stringify(error)
}

/** The system's code of a failed connection, e.g. ECONNREFUSED; its message would name addresses of ours. */
function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  const code = isRecord(cause) ? cause.code : undefined
  return typeof code === 'string' ? ` (${code})` : ''
}

/** At most `max` characters, never half a surrogate pair. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text
  return `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}...`
}

function ignore(): void {}

// ----------------------------------------------------------------------------------------------- reading

/** Something that is no chat completion. */
class Garbage extends Error {}
/** A failure that the provider reports inside its stream. */
class Reported extends Error {}

/** A tool call while its fragments come. */
interface GrowingCall {
  /** The provider's number for it; undefined: it gives none. */
  readonly index: unknown
  /** The provider's id; null: it gave none, ours is used. */
  readonly givenId: string | null
  readonly id: string
  name: string
  args: string
}

/** One answer while it comes: folds what the provider sends, and tells it on in the same call. */
class Answer {
  /** False after a listener had no space; set again by who waited for it. */
  hasSpace = true
  /** Events seen. */
  events = 0
  /** `[DONE]` came: nothing follows. */
  isOver = false

  readonly #model: string
  readonly #messageId: string
  readonly #onDelta: OnDelta
  readonly #decoder = new TextDecoder()
  readonly #parser: EventSourceParser
  readonly #calls: GrowingCall[] = []
  #text = ''
  #reasoning = ''
  #responseId = ''
  #finishReason: string | null = null
  #usage: { input: number; output: number; total: number } | null = null

  constructor(model: string, messageId: string, onDelta: OnDelta) {
    this.#model = model
    this.#messageId = messageId
    this.#onDelta = onDelta
    this.#parser = createParser({
      maxBufferSize: EVENT_MAX,
      onEvent: (event) => this.#hear(event.data),
      onError: (error) => {
        // Fields that we do not know are skipped, as the event-stream format has it.
        if (error.type === 'max-buffer-size-exceeded') throw new Garbage('an event without an end')
      }
    })
  }

  /** Nothing more is needed: what may follow a finish reason is usage. */
  get isWhole(): boolean {
    return this.isOver || this.#finishReason !== null
  }

  /** Tells all that is in these bytes. Characters cut in two by the network are held until their rest comes. */
  feed(bytes: Uint8Array): void {
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
  }

  completion(): Completion {
    const usage = this.#usage
    return {
      responseId: this.#responseId === '' ? randomUUID() : this.#responseId,
      text: this.#text,
      reasoning: this.#reasoning,
      calls: this.#calls.map(({ id, name, args }) => ({ id, name, args })),
      finishReason: this.#finishReason,
      usage: usage && {
        input_tokens: usage.input,
        output_tokens: usage.output,
        total_tokens: usage.total || usage.input + usage.output
      }
    }
  }

  #hear(data: string): void {
    this.events++
    const text = data.trim()
    // Some proxies keep connections alive by empty events.
    if (this.isOver || text === '') return
    if (text === '[DONE]') {
      this.isOver = true
      return
    }
    const chunk = parseJson(data)
    if (!isRecord(chunk)) throw new Garbage('an event that is no JSON object')
    if (chunk.error !== undefined && chunk.error !== null) throw new Reported(explanation(chunk.error))
    if (this.#responseId === '' && typeof chunk.id === 'string') this.#responseId = chunk.id
    if (isRecord(chunk.usage)) this.#addUsage(chunk.usage)
    this.#hearChoices(chunk.choices)
  }

  #hearChoices(choices: unknown): void {
    // The chunk that carries usage, and the first one of some providers, have no choice.
    if (choices === undefined || choices === null) return
    if (!Array.isArray(choices)) throw new Garbage('choices that are no list')
    const choice: unknown = choices[0]
    if (!isRecord(choice)) return
    if (isRecord(choice.delta)) this.#hearDelta(choice.delta)
    if (typeof choice.finish_reason === 'string' && choice.finish_reason !== '')
      this.#finishReason = choice.finish_reason
  }

  #hearDelta(delta: Record<string, unknown>): void {
    const reasoning = delta.reasoning_content ?? delta.reasoning
    if (typeof reasoning === 'string' && reasoning !== '') {
      this.#reasoning += reasoning
      this.#tell({ type: 'delta', messageId: this.#messageId, model: this.#model, reasoning })
    }
    // A refusal comes in place of content, and is as much meant for the user.
    const text = delta.content ?? delta.refusal
    if (typeof text === 'string' && text !== '') {
      this.#text += text
      this.#tell({ type: 'delta', messageId: this.#messageId, model: this.#model, text })
    }
    if (!Array.isArray(delta.tool_calls)) return
    for (const fragment of delta.tool_calls) if (isRecord(fragment)) this.#hearCall(fragment)
  }

  #hearCall(fragment: Record<string, unknown>): void {
    const part = isRecord(fragment.function) ? fragment.function : {}
    const givenId = typeof fragment.id === 'string' && fragment.id !== '' ? fragment.id : null
    const name = typeof part.name === 'string' ? part.name : ''
    const args = argumentsText(part.arguments)
    const known = this.#callFor(fragment.index, givenId)
    if (known) {
      known.args += args
      // Some providers repeat the name in every fragment.
      const isNews = known.name === '' && name !== ''
      if (isNews) known.name = name
      if (isNews || args !== '') this.#tellCall(known, isNews ? { name, args } : { args })
      return
    }
    const call = { index: fragment.index, givenId, id: givenId ?? `call_${randomUUID()}`, name, args }
    this.#calls.push(call)
    this.#tellCall(call, { id: call.id, name, args })
  }

  /** The call that a fragment continues; undefined: it begins one. */
  #callFor(index: unknown, givenId: string | null): GrowingCall | undefined {
    // Providers number their calls, but some number all of them 0 and tell them apart by id, and some give no number.
    const same =
      index === undefined || index === null ? this.#calls : this.#calls.filter((call) => call.index === index)
    if (givenId === null) return same.at(-1)
    return same.find((call) => call.givenId === givenId)
  }

  #tellCall(call: GrowingCall, piece: { id?: string; name?: string; args: string }): void {
    const toolCall = { index: this.#calls.indexOf(call), ...piece }
    this.#tell({ type: 'delta', messageId: this.#messageId, model: this.#model, toolCall })
  }

  #tell(delta: Delta): void {
    if (!this.#onDelta(delta)) this.hasSpace = false
  }

  /** Providers repeat their counts while these grow, in one chunk or in all: the largest is the truth, never the sum. */
  #addUsage(usage: Record<string, unknown>): void {
    this.#usage = {
      input: Math.max(this.#usage?.input ?? 0, count(usage.prompt_tokens)),
      output: Math.max(this.#usage?.output ?? 0, count(usage.completion_tokens)),
      total: Math.max(this.#usage?.total ?? 0, count(usage.total_tokens))
    }
  }
}

/** Arguments are a text that grows; some servers send the finished object instead. */
function argumentsText(given: unknown): string {
  if (typeof given === 'string') return given
  return isRecord(given) ? JSON.stringify(given) : ''
}

function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.floor(value) : 0
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// ------------------------------------------------------------------------------- messages, there and back

/** Stands in for a result that never came: a call without one is refused by real servers, in every later run of the thread. */
const INTERRUPTED = 'Interrupted'

/**
 * A conversation in chat-completions form [contract 4.2], with nothing in it that real servers refuse: every call is followed
 * by its result, results of no call and assistant messages without any content are left out, invalid calls are not sent.
 */
export function toChat(messages: readonly Message[]): JsonObject[] {
  const chat: JsonObject[] = []
  for (const [at, message] of messages.entries()) {
    if (message.type === 'human') chat.push({ role: 'user', content: message.content })
    if (message.type === 'system') chat.push({ role: 'system', content: message.content })
    if (message.type === 'ai') chat.push(...assistantToChat(message, resultsAfter(messages, at)))
  }
  return chat
}

function assistantToChat(message: AiMessage, results: ReadonlyMap<string, ToolMessage>): JsonObject[] {
  const content = message.content.length === 0 ? null : message.content
  if (message.tool_calls.length === 0) return content === null ? [] : [{ role: 'assistant', content }]
  const calls = message.tool_calls.map(callToChat)
  const answers = message.tool_calls.map(({ id }) => ({
    role: 'tool',
    tool_call_id: id,
    content: results.get(id)?.content ?? INTERRUPTED
  }))
  return [{ role: 'assistant', content, tool_calls: calls }, ...answers]
}

function callToChat(call: ToolCall): JsonObject {
  return { id: call.id, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.args) } }
}

/** The results between an assistant message and the next one, by call; a result that comes later belongs to another call. */
function resultsAfter(messages: readonly Message[], at: number): Map<string, ToolMessage> {
  const results = new Map<string, ToolMessage>()
  for (let i = at + 1; i < messages.length; i++) {
    const message = messages[i]!
    if (message.type === 'ai') break
    if (message.type === 'tool' && !results.has(message.tool_call_id)) results.set(message.tool_call_id, message)
  }
  return results
}

/** The message that a completion is. Calls whose arguments are no JSON object, or that have no name, are invalid ones. */
export function toMessage(completion: Completion, id: string, modelName: string): AiMessage {
  const tool_calls: ToolCall[] = []
  const invalid_tool_calls: InvalidToolCall[] = []
  for (const call of completion.calls) {
    const args = call.args.trim() === '' ? {} : parseJson(call.args)
    if (call.name === '') invalid_tool_calls.push(invalidCall(call, 'The call names no tool'))
    else if (!isJsonObject(args)) invalid_tool_calls.push(invalidCall(call, 'The arguments are no JSON object'))
    else tool_calls.push({ name: call.name, args, id: call.id, type: 'tool_call' })
  }
  return {
    type: 'ai',
    id,
    content: completion.text,
    additional_kwargs: completion.reasoning === '' ? {} : { reasoning_content: completion.reasoning },
    response_metadata: { finish_reason: finishReason(completion, tool_calls.length > 0), model_name: modelName },
    name: null,
    tool_calls,
    invalid_tool_calls,
    usage_metadata: completion.usage
  }
}

/** `tool_calls` exactly when there are any [contract 4.2]; else the provider's word, else `stop`. */
export function finishReason(completion: Completion, hasCalls: boolean): string {
  if (hasCalls) return 'tool_calls'
  const said = completion.finishReason
  return said === null || said === 'tool_calls' ? 'stop' : said
}

function invalidCall(call: RawCall, error: string): InvalidToolCall {
  return { name: call.name, args: call.args, id: call.id, error, type: 'invalid_tool_call' }
}

/** What JSON.parse made and is a record holds nothing but JSON. */
function isJsonObject(value: unknown): value is JsonObject {
  return isRecord(value)
}
