// A graph on a LangGraph server [agent.runtime langgraph]: its threads bear the user of ours [Auth 13], its runs are followed over cut
// connections, and are cancelled when ours are.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json, JsonObject } from '../../types.ts'
import { Broken } from '../body.ts'
import { FetchedBody } from './body.ts'
import { isObject, objectOr, objectsIn, textOr } from '../json.ts'
import { pauseMs, Setback } from '../retry.ts'
import type { AgentInput } from '../runtime.ts'
import { Feed } from './feed.ts'
import type { Graph, GraphState, GraphThread, Order, Part } from './graph.ts'
import type { Mark } from './mark.ts'
import { Pulse } from './pulse.ts'
import { isOfNetwork, Requests, type ServerOptions } from './requests.ts'
import { interruptsIn, namesIn } from './translation.ts'

/** Milliseconds for the server to hear of an abort: nobody waits for it any longer. */
const CANCEL_MS = 5000
/** Milliseconds for a run to be made. */
const CREATE_MS = 60_000
/** Milliseconds to delete a thread. */
const FORGET_MS = 60_000
const MODES = ['messages-tuple', 'values', 'updates', 'custom']
/** Servers take no other names for threads. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

type Hear = (part: Part) => boolean
type Space = () => Promise<void>

export class ServerGraph implements Graph {
  readonly #requests: Requests
  readonly #assistantId: string | null
  readonly #idleMs: number
  #isOfJs: boolean | null = null

  constructor(options: ServerOptions) {
    this.#requests = new Requests(options)
    this.#assistantId = options.assistantId
    this.#idleMs = options.idleTimeoutMs
  }

  async open(input: AgentInput, mark: Mark, signal: AbortSignal): Promise<GraphThread> {
    const { userId, assistantId } = input
    const owner: JsonObject = userId === null ? {} : { user_id: userId }
    const id = mark.threadId
      ? await this.#enter(mark.threadId, input, owner, signal)
      : await this.#enterNew(input, owner, signal)
    const creation: JsonObject = {
      assistant_id: this.#assistantId ?? assistantId,
      ...this.#parametersOf(input, await this.#isJs(signal)),
      metadata: { ...owner, gateway_run_id: input.runId },
      stream_mode: MODES,
      stream_subgraphs: true,
      // Cut connections are taken up again.
      stream_resumable: true,
      on_disconnect: 'continue',
      // Ours allows one run at a time: what still works there is left over from a process that died.
      multitask_strategy: 'interrupt'
    }
    return new ServerThread(this.#requests, id, creation, this.#idleMs, signal)
  }

  async forget(threadId: string): Promise<void> {
    const signal = AbortSignal.timeout(FORGET_MS)
    const body = { metadata: { gateway_thread_id: threadId }, limit: 1000 }
    const found = await this.#requests.ask('POST', '/threads/search', { body, signal })
    for (const { thread_id } of objectsIn(found))
      await this.#requests.ask('DELETE', `/threads/${encodeURIComponent(textOr(thread_id) ?? '')}`, { signal })
  }

  async #enterNew(input: AgentInput, owner: JsonObject, signal: AbortSignal): Promise<string> {
    const key = randomUUID()
    // The same name on both sides, where that is possible.
    const wanted = UUID.test(input.threadId) ? input.threadId : key
    const made = await this.#put(wanted, input, { ...owner, gateway_key: key }, signal)
    // It is there already: somebody's of whom we know nothing.
    return made === key ? wanted : this.#enter(randomUUID(), input, owner, signal)
  }

  async #enter(id: string, input: AgentInput, metadata: JsonObject, signal: AbortSignal): Promise<string> {
    await this.#put(id, input, metadata, signal)
    return id
  }

  /** Makes a thread, if it is not there. @returns the key of the one that is there */
  async #put(id: string, input: AgentInput, metadata: JsonObject, signal: AbortSignal): Promise<string | null> {
    const body = {
      thread_id: id,
      metadata: { ...metadata, gateway_thread_id: input.threadId },
      if_exists: 'do_nothing'
    }
    const thread = objectOr(await this.#requests.ask('POST', '/threads', { body, signal }))
    return textOr(objectOr(thread.metadata).gateway_key)
  }

  /** Python's servers make one of context and configurable, and refuse both together; the JavaScript one knows them apart. */
  #parametersOf({ context, modelName, userId, recursionLimit }: AgentInput, isJs: boolean): JsonObject {
    const passed = {
      ...context,
      ...(modelName !== null && { model_name: modelName }),
      ...(userId !== null && { user_id: userId })
    }
    return {
      config: { configurable: passed, recursion_limit: recursionLimit },
      ...(isJs && { context: passed })
    }
  }

  async #isJs(signal: AbortSignal): Promise<boolean> {
    this.#isOfJs ??= objectOr(await this.#requests.ask('GET', '/info', { signal })).context === 'js'
    return this.#isOfJs
  }
}

class ServerThread implements GraphThread {
  readonly id: string
  readonly #requests: Requests
  readonly #path: string
  readonly #creation: JsonObject
  readonly #idleMs: number
  readonly #signal: AbortSignal

  constructor(requests: Requests, id: string, creation: JsonObject, idleMs: number, signal: AbortSignal) {
    this.#requests = requests
    this.id = id
    this.#path = `/threads/${id}`
    this.#creation = creation
    this.#idleMs = idleMs
    this.#signal = signal
  }

  async state(checkpointId: string | null): Promise<GraphState | null> {
    const at = checkpointId === null ? '' : `/${encodeURIComponent(checkpointId)}`
    return stateIn(await this.#requests.ask('GET', `${this.#path}/state${at}`, { signal: this.#signal }))
  }

  async work(order: Order, hear: Hear, space: Space): Promise<void> {
    const response = await this.#create(order)
    const runId = /\/runs\/([^/?]+)/.exec(response.headers.get('content-location') ?? '')?.[1]
    if (runId === undefined) throw this.#requests.failures.garbage('a run without its address')
    const run = `${this.#path}/runs/${runId}`
    const course = { isOver: false, isWaiting: false }
    try {
      this.#signal.throwIfAborted()
      const status = await this.#follow(
        run,
        response,
        new Feed((part) => hear(noted(part, course)), this.#requests.failures),
        space
      )
      course.isOver = true
      // A run that waits for its user is an interrupted one to some servers; otherwise somebody has stopped it there.
      if (status !== 'success' && !(status === 'interrupted' && course.isWaiting))
        throw this.#requests.failures.ended(status)
    } finally {
      // Also of a server that seems to be gone: its run must not go on unseen. Only who was cancelled waits for it.
      const stopped = course.isOver ? Promise.resolve() : this.#cancel(run)
      if (this.#signal.aborted) await stopped
    }
  }

  async pack(): Promise<Json> {
    return null
  }

  /**
   * Makes the run. An abort does not break this off at once: a run that was made must be known, to be cancelled.
   * @throws AgentError; the signal's reason
   */
  async #create({ input, resume, checkpointId }: Order): Promise<Response> {
    const body: JsonObject = {
      ...this.#creation,
      input,
      ...(resume && { command: { resume: resume.value } }),
      ...(checkpointId !== null && { checkpoint: { checkpoint_id: checkpointId } })
    }
    const patience = new AbortController()
    const soon = () => void setTimeout(() => patience.abort(), CANCEL_MS).unref()
    this.#signal.addEventListener('abort', soon, { once: true })
    const late = setTimeout(() => patience.abort(), CREATE_MS)
    // The head of the answer is what is waited for; the body takes as long as the run.
    try {
      const response = await this.#requests.send('POST', `${this.#path}/runs/stream`, { body, signal: patience.signal })
      if (response.ok) return response
      throw this.#requests.refusal(response, await response.text()).error
    } catch (error) {
      this.#signal.throwIfAborted()
      if (patience.signal.aborted) throw this.#requests.failures.silent()
      throw isOfNetwork(error) ? this.#requests.failures.unreachable(error) : error
    } finally {
      clearTimeout(late)
      this.#signal.removeEventListener('abort', soon)
    }
  }

  /**
   * Hears all of a run: a stream that ends before the run does is taken up again where it ended.
   * @returns the status with which the run has ended
   */
  async #follow(run: string, first: Response, feed: Feed, space: Space): Promise<string> {
    const { failures, retry } = this.#requests
    let response: Response | null = first
    let broken: Broken | null = null
    for (let [failed, heard] = [0, 0]; ; ) {
      if (response) broken = await this.#listen(run, response, feed, space)
      if (feed.count > heard) [failed, heard] = [0, feed.count]
      const status = await this.#status(run)
      if (typeof status === 'string' && !broken && !isActive(status)) return status
      const setback = status instanceof Setback ? status : new Setback(failures.brokeOff(broken?.cause))
      // A stream without ids cannot be taken up again.
      const waitMs = broken && feed.lastId === null ? null : pauseMs(retry, failed++, setback)
      if (waitMs === null) throw setback.error
      await sleep(waitMs, undefined, { signal: this.#signal })
      response = typeof status === 'string' ? await this.#rejoin(run, feed) : null
    }
  }

  /** @returns what broke it off; null: it ended. @throws what is thrown on hearing, the signal's reason, AgentError of a dead server */
  async #listen(run: string, response: Response, feed: Feed, space: Space): Promise<Broken | null> {
    this.#signal.throwIfAborted()
    const pulse = new Pulse(this.#signal, {
      silenceMs: this.#idleMs,
      isThere: () =>
        this.#status(run).then(
          (status) => typeof status === 'string',
          () => false
        ),
      stop: () => body.close()
    })
    const body = new FetchedBody(response, pulse)
    feed.begin()
    try {
      for (;;) {
        const chunk = await body.next()
        pulse.throwIfAborted()
        if (pulse.isDead) throw this.#requests.failures.silent()
        if (chunk === null || chunk instanceof Broken) return chunk
        // The ONLY await between bytes and deltas: the log has no space, so the server is made to wait by not being read.
        if (!feed.feed(chunk)) await space()
      }
    } finally {
      pulse.end()
      body.close()
    }
  }

  /** The rest of a run's stream; null: not now. */
  async #rejoin(run: string, { lastId }: Feed): Promise<Response | null> {
    if (lastId === null) return null
    const headers = { 'last-event-id': lastId }
    try {
      const response = await this.#requests.send('GET', `${run}/stream`, { headers, signal: this.#signal })
      if (response.ok) return response
      this.#requests.refusal(response, await response.text())
    } catch (error) {
      this.#signal.throwIfAborted()
      if (!isOfNetwork(error)) throw error
    }
    return null
  }

  /** @throws AgentError when the server has lost the run */
  async #status(run: string): Promise<string | Setback> {
    const answer = await this.#requests.askOnce('GET', run, { signal: this.#signal })
    if (answer instanceof Setback) return answer
    const status = textOr(objectOr(answer).status)
    if (status === null) throw this.#requests.failures.lost()
    return status
  }

  /** Nobody is told when it fails: whoever wanted it has what it wanted. */
  async #cancel(run: string): Promise<void> {
    const signal = AbortSignal.timeout(CANCEL_MS)
    await this.#requests.ask('POST', `${run}/cancel?wait=0&action=interrupt`, { signal }).catch(() => {})
  }
}

/** Remembers of a part what the end of the run is judged by. */
function noted(part: Part, course: { isOver: boolean; isWaiting: boolean }): Part {
  if (part.mode === 'error') course.isOver = true
  if (isObject(part.data) && part.data.__interrupt__ !== undefined) course.isWaiting = true
  return part
}

function isActive(status: string): boolean {
  return status === 'pending' || status === 'running'
}

/** Null: nothing was ever written. */
function stateIn(given: Json): GraphState | null {
  const { checkpoint, values, next, tasks, metadata } = objectOr(given)
  const checkpointId = textOr(objectOr(checkpoint).checkpoint_id)
  if (checkpointId === null) return null
  return {
    checkpointId,
    runId: textOr(objectOr(metadata).run_id),
    values: objectOr(values),
    next: namesIn(next),
    interrupts: objectsIn(tasks).flatMap((task) => interruptsIn(task.interrupts))
  }
}
