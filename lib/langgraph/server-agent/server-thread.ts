// A thread on a LangGraph server during one of our runs: creates the run there, follows it across broken connections, and
// cancels it with ours.
import type { IncomingMessage } from 'node:http'
import { RUN_GOES_ON } from '../../agent/runtime.ts'
import { cutTo, type Json, type JsonObject, isObject } from '../../base/types.ts'
import { ConnectionLost, IdleTimeout, isOk, ResponseBody } from '../../agent/http/post.ts'
import { type PeerFailures, RetryableError } from '../../agent/http/failures.ts'
import { objectOr, objectsIn, textOr, textsIn, parseJson } from '../../base/json.ts'
import { interruptsIn } from '../../conversation/interrupts.ts'
import type { GraphInput, GraphState, Part } from './graph.ts'
import { RetryWindow, type Requests } from './requests.ts'
import { EventStream } from '../../agent/http/event-stream.ts'

/** Timeout for cancelling on the server, in ms. */
const CANCEL_MS = 5000
/** Timeout for creating a run, in ms. */
const CREATE_MS = 60_000
/** Servers that send heartbeats do so every 5 s: three missed mean that the connection is dead, in ms. */
const SILENCE_MS = 15_000
/** Timeout for the response head of a resumed stream, in ms. */
const HEAD_MS = 15_000

type Space = () => Promise<void>

/** Who is told what a run says. */
interface Reader {
  /** Every part, in the tick it came. @returns whether there is space for more: otherwise `space` is awaited before more is read */
  readonly onPart: (part: Part) => boolean
  readonly space: Space
  /** The run was created. */
  readonly onRun?: (runId: string) => void
}

/** The connection is open and nothing arrives. */
class FellSilent extends ConnectionLost {}

/** One run of a server's graph. */
interface ServerCall {
  readonly id: string
  /** Body members of every run that is created. */
  readonly creation?: JsonObject
  /** Body members that depend on the checkpoint to start from. */
  readonly parameters?: (checkpointId: string | null) => JsonObject
  readonly idleMs: number
  /** Silence in ms after which a server that sends heartbeats is taken for gone; default SILENCE_MS. */
  readonly silenceMs?: number
  readonly eventCharacters: number | undefined
  readonly signal: AbortSignal
  /** Ends the following of a run that goes on without us. */
  readonly leave?: AbortSignal
}

export class ServerThread {
  /** The server's id of the thread. */
  readonly id: string
  readonly #requests: Requests
  readonly #call: ServerCall
  readonly #path: string
  readonly #signal: AbortSignal
  /** Of what follows a run. */
  readonly #following: AbortSignal

  constructor(requests: Requests, call: ServerCall) {
    this.id = call.id
    this.#requests = requests
    this.#call = call
    this.#path = `/threads/${call.id}`
    this.#signal = call.signal
    this.#following = call.leave ? AbortSignal.any([call.signal, call.leave]) : call.signal
  }

  /** The state at a checkpoint; `null`: the newest. @returns null: there is none */
  async state(checkpointId: string | null): Promise<GraphState | null> {
    const at = checkpointId === null ? '' : `/${encodeURIComponent(checkpointId)}`
    return stateIn(await this.#requests.ask('GET', `${this.#path}/state${at}`, { signal: this.#signal }))
  }

  /**
   * Runs the graph once. Resolves when the graph is done. When the signal aborts, the run is cancelled before this rejects.
   * @throws AgentError, what `onPart` throws, the signal's reason
   */
  async work(input: GraphInput, reader: Reader): Promise<void> {
    const response = await this.#create(input)
    const runId = /\/runs\/([^/?]+)/.exec(response.headers['content-location'] ?? '')?.[1]
    if (runId === undefined) throw this.#requests.failures.garbage('a run without its address')
    reader.onRun?.(runId)
    if (!(await this.#followToEnd(runId, response, reader)))
      throw this.#requests.failures.interrupted('knows nothing of the run any more')
  }

  /** The same for a run that another process has created, from its first event. @returns false: the server does not know it */
  rejoin(runId: string, reader: Reader): Promise<boolean> {
    return this.#followToEnd(runId, null, reader)
  }

  /** Stops a run that nobody follows. Errors are ignored. */
  cancel(runId: string): Promise<void> {
    return this.#cancel(this.#runPath(runId))
  }

  #runPath(runId: string): string {
    return `${this.#path}/runs/${encodeURIComponent(runId)}`
  }

  /** @returns false: the server does not know it */
  async #followToEnd(runId: string, response: IncomingMessage | null, { onPart, space }: Reader): Promise<boolean> {
    const run = this.#runPath(runId)
    const course = { isOver: false, isWaiting: false }
    try {
      this.#following.throwIfAborted()
      const status = await this.#follow(
        run,
        response,
        new EventStreamParser(
          (part) => onPart(noted(part, course)),
          this.#requests.failures,
          this.#call.eventCharacters
        ),
        space
      )
      course.isOver = true
      if (status === null) return false
      // Some servers call a run that waits for its user `interrupted`; otherwise somebody stopped it there.
      if (status !== 'success' && !(status === 'interrupted' && course.isWaiting))
        throw this.#requests.failures.interrupted(`has ended the run with status ${cutTo(status, 32)}`)
      return true
    } finally {
      // Also if the server seems gone: its run must not continue unseen. Only a cancelled run waits for this.
      const stopped = course.isOver || this.#isLeft ? Promise.resolve() : this.#cancel(run)
      if (this.#signal.aborted) await stopped
    }
  }

  /** The run goes on without us: another attempt follows it. */
  get #isLeft(): boolean {
    return this.#call.leave?.aborted === true || this.#signal.reason === RUN_GOES_ON
  }

  /**
   * Creates the run. An abort does not interrupt this at once: the run's id is needed to cancel it.
   * @throws AgentError; the signal's reason
   */
  async #create({ input, resume, checkpointId }: GraphInput): Promise<IncomingMessage> {
    const body: JsonObject = {
      ...this.#call.creation,
      ...this.#call.parameters?.(checkpointId),
      input,
      ...(resume && { command: { resume: resume.value } })
    }
    const gone = new AbortController()
    const soon = () => void setTimeout(() => gone.abort(), CANCEL_MS).unref()
    this.#signal.addEventListener('abort', soon, { once: true })
    try {
      const options = { body, signal: gone.signal, waitSignal: this.#signal }
      const response = await this.#requests.open('POST', `${this.#path}/runs/stream`, options, CREATE_MS)
      if (isOk(response)) return response
      throw (await this.#requests.refusal(response, gone.signal)).error
    } catch (error) {
      this.#signal.throwIfAborted()
      throw error
    } finally {
      this.#signal.removeEventListener('abort', soon)
    }
  }

  /**
   * Reads a run's stream: one that ends before the run does is resumed.
   * @param first null: the stream is asked for
   * @returns the run's final status; null: the server does not know it
   */
  async #follow(
    run: string,
    first: IncomingMessage | null,
    parser: EventStreamParser,
    space: Space
  ): Promise<string | null> {
    const { failures } = this.#requests
    const retries = new RetryWindow(this.#requests)
    let response: IncomingMessage | null = first
    let lost: ConnectionLost | null = first ? null : new ConnectionLost(null)
    let isAsked = first !== null
    for (let seen = 0; ; ) {
      if (response) lost = await this.#listen(run, response, parser, space)
      const isNews = parser.count > seen
      seen = parser.count
      const status = await this.#status(run)
      if (status === null) return null
      // A graph may work in silence for as long as it likes, at a server that says that it does.
      const isAtWork = response && lost instanceof FellSilent && typeof status === 'string' && isActive(status)
      if (isNews || isAtWork) retries.renew()
      // Some servers leave the stream of a run that has ended open: one that has nothing more to say is as good as ended.
      const isComplete = !lost || (lost instanceof FellSilent && !(isNews && parser.isResumable))
      if (isComplete && typeof status === 'string' && !isActive(status)) return status
      const failure = status instanceof RetryableError ? status : new RetryableError(failures.brokeOff(lost?.cause))
      // A stream without ids cannot be resumed.
      if (lost && !parser.isResumable) throw failure.error
      if (isAsked || status instanceof RetryableError) await retries.wait(failure, this.#following)
      isAsked = true
      response = typeof status === 'string' ? await this.#rejoin(run, parser) : null
    }
  }

  /** @returns the cause if the connection broke; null: the stream ended. @throws what `onPart` throws, the signal's reason */
  async #listen(
    run: string,
    response: IncomingMessage,
    parser: EventStreamParser,
    space: Space
  ): Promise<ConnectionLost | null> {
    // Without heartbeats a graph is silent while it works. Where its stream can be resumed it is, for the connection may be dead; otherwise
    // the server is asked whether the run still goes on.
    const isAlive = async () => {
      if (parser.isResumable) return false
      const status = await this.#status(run).catch(() => null)
      return typeof status === 'string' && isActive(status)
    }
    const timeout = new IdleTimeout(this.#following, this.#call.idleMs, isAlive)
    const body = new ResponseBody(response, timeout)
    parser.begin(() => timeout.expectHeartbeats(this.#call.silenceMs ?? SILENCE_MS))
    try {
      // While the log is full we stop reading, which makes the server wait.
      const lost = await body.each((chunk) => (parser.feed(chunk) ? 'more' : timeout.pausedWhile(space)))
      return timeout.isSilent ? new FellSilent(lost?.cause) : lost
    } finally {
      timeout.end()
      body.close()
    }
  }

  /** Resumes a run's stream; null: failed for now. @throws AgentError if the server is gone or refuses for good */
  async #rejoin(run: string, { resumeAfter }: EventStreamParser): Promise<IncomingMessage | null> {
    if (resumeAfter === null) return null
    const options = { headers: { 'last-event-id': resumeAfter }, signal: this.#following }
    const response = await this.#requests.open('GET', `${run}/stream`, options, HEAD_MS)
    if (isOk(response)) return response
    await this.#requests.refusal(response, this.#following)
    return null
  }

  /** null: the server does not know the run. */
  async #status(run: string): Promise<string | RetryableError | null> {
    const answer = await this.#requests.askOnce('GET', run, { signal: this.#following })
    return answer instanceof RetryableError ? answer : textOr(objectOr(answer).status)
  }

  /** Errors are ignored: our run ends anyway. */
  async #cancel(run: string): Promise<void> {
    const signal = AbortSignal.timeout(CANCEL_MS)
    await this.#requests.ask('POST', `${run}/cancel?wait=0&action=interrupt`, { signal }).catch(() => {})
  }
}

/** Notes what decides how the run has ended. */
function noted(part: Part, course: { isOver: boolean; isWaiting: boolean }): Part {
  if (part.mode === 'error') course.isOver = true
  if (isObject(part.data) && part.data.__interrupt__ !== undefined) course.isWaiting = true
  return part
}

export function isActive(status: string): boolean {
  return status === 'pending' || status === 'running'
}

/** null: nothing was written yet. */
export function stateIn(given: Json): GraphState | null {
  const { checkpoint, values, next, tasks, metadata, created_at } = objectOr(given)
  const checkpointId = textOr(objectOr(checkpoint).checkpoint_id)
  // For an unknown checkpoint some servers return its id and nothing else.
  if (checkpointId === null || textOr(created_at) === null) return null
  return {
    checkpointId,
    runId: textOr(objectOr(metadata).run_id),
    values: objectOr(values),
    next: textsIn(next),
    // One that was answered beside another that waits keeps its question, and has a result.
    interrupts: objectsIn(tasks)
      .filter(({ result }) => Object.keys(objectOr(result)).length === 0)
      .flatMap((task) => interruptsIn(task.interrupts))
  }
}

// --------------------------------------------------------------------------------------------------------- its events

/** LangGraph's modes whose events have another name. */
const MODES: Readonly<Record<string, string>> = { 'messages-tuple': 'messages' }

export class EventStreamParser {
  /** Events so far. */
  count = 0
  /** Id of the last event; null: none had one. */
  #lastId: string | null = null
  readonly #onPart: (part: Part) => boolean
  readonly #failures: PeerFailures
  readonly #eventCharacters: number | undefined
  #stream: EventStream
  #hasSpace = true

  /** @param onPart receives every part; returns false when there is no more space for now */
  constructor(onPart: (part: Part) => boolean, failures: PeerFailures, eventCharacters?: number) {
    this.#onPart = onPart
    this.#failures = failures
    this.#eventCharacters = eventCharacters
    this.#stream = this.#newStream()
  }

  /** Id to resume after, `-1`: from the start; null: events without ids cannot be resumed. */
  get resumeAfter(): string | null {
    return this.count === 0 ? '-1' : this.#lastId
  }

  get isResumable(): boolean {
    return this.resumeAfter !== null
  }

  /** Resets the parser for a resumed stream. */
  begin(onComment: () => void): void {
    this.#stream = this.#newStream(onComment)
  }

  /** @returns whether there is space for more. @throws what `onPart` throws; AgentError for an invalid event */
  feed(bytes: Buffer): boolean {
    this.#hasSpace = true
    this.#stream.feed(bytes)
    return this.#hasSpace
  }

  #newStream(onComment?: () => void): EventStream {
    const onEvent = ({
      id,
      event = '',
      data
    }: {
      id?: string | undefined
      event?: string | undefined
      data: string
    }) => {
      this.#onEvent(event, data, id || null)
      // After passing it on: a part that failed is requested again.
      if (id) this.#lastId = id
    }
    return new EventStream(onEvent, this.#failures, this.#eventCharacters, onComment)
  }

  #onEvent(event: string, text: string, id: string | null): void {
    this.count++
    if (event === '' || event === 'end') return
    const data = text === '' ? null : parseJson(text)
    if (data === undefined) throw this.#failures.garbage(`a frame "${event.slice(0, 32)}" that is no JSON`)
    const [name = '', ...namespace] = event.split('|')
    if (!this.#onPart({ mode: MODES[name] ?? name, namespace, data, id })) this.#hasSpace = false
  }
}
