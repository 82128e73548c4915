// A graph on a LangGraph server [agent.runtime langgraph]: its threads carry our user's id [Auth 13]; its runs survive broken
// connections and are cancelled with ours.
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../base/types.ts'
import { objectOr, objectsIn, textOr, textsIn } from '../../base/json.ts'
import type { AgentInput } from '../../agent/runtime.ts'
import type { KeptStates } from '../../agent/states.ts'
import type { GraphCheckpointRef } from './checkpoint-ref.ts'
import { passedOn } from '../graph/config.ts'
import { Requests, type ServerOptions } from './requests.ts'
import { ServerGraphs } from './server-graphs.ts'
import { ServerStates } from './server-states.ts'
import { DETAILS, UUID } from './graph.ts'
import { FROM_START, type StreamOffset } from './offset.ts'
import { isActive, ServerThread } from './server-thread.ts'

/** Milliseconds to delete a thread. */
const FORGET_MS = 60_000
const MODES = ['messages-tuple', 'values', 'updates', 'custom']
/** Page size for listing threads [Auth 12]. */
const PAGE = 500

export class ServerGraph {
  /** What its assistants say of its graphs. */
  readonly graphs: ServerGraphs
  readonly #requests: Requests
  readonly #assistantId: string | null
  readonly #idleMs: number
  readonly #eventCharacters: number | undefined
  #isOfJs: boolean | null = null

  constructor(options: ServerOptions) {
    this.#requests = new Requests(options)
    this.graphs = new ServerGraphs(this.#requests, options.assistantId)
    this.#assistantId = options.assistantId
    this.#idleMs = options.idleTimeoutMs
    this.#eventCharacters = options.eventCharacters
  }

  /**
   * Enters the thread a reference names; without one, a new one.
   * @throws AgentError for the user; the signal's reason after an abort
   */
  async open(
    input: AgentInput,
    ref: GraphCheckpointRef,
    signal: AbortSignal,
    leave: AbortSignal
  ): Promise<ServerThread> {
    const { userId, assistantId } = input
    const owner: JsonObject = userId === null ? {} : { user_id: userId }
    const id = ref.threadId
      ? await this.#enter(ref.threadId, input, owner, signal)
      : await this.#enterNew(input, owner, signal)
    const isJs = await this.#isJs(signal)
    const creation: JsonObject = {
      assistant_id: this.#assistantId ?? assistantId,
      metadata: { ...owner, gateway_run_id: input.runId },
      stream_mode: [...MODES, ...DETAILS.filter((mode) => textsIn(input.request.stream_mode).includes(mode))],
      stream_subgraphs: true,
      // So that a broken stream can be resumed.
      stream_resumable: true,
      on_disconnect: 'continue',
      // We run one at a time; an active run there was left by a dead process.
      multitask_strategy: 'interrupt',
      ...breakpointsOf(input.request)
    }
    const parameters = (checkpointId: string | null) => parametersOf(input, isJs, checkpointId)
    return new ServerThread(this.#requests, { id, creation, parameters, ...this.#limits, signal, leave })
  }

  /** A thread of the server in which a run goes on. */
  reopen(id: string, signal: AbortSignal, leave: AbortSignal): ServerThread {
    return new ServerThread(this.#requests, { id, ...this.#limits, signal, leave })
  }

  /** The server's run for one of ours, from its start; null: it has none. @throws AgentError, the signal's reason */
  async runOf(threadId: string, runId: string, signal: AbortSignal): Promise<StreamOffset | null> {
    for await (const found of this.#runsOf(threadId, runId, signal))
      return { threadId: found.threadId, runId: found.runId, eventId: FROM_START }
    return null
  }

  get #limits(): { readonly idleMs: number; readonly eventCharacters: number | undefined } {
    return { idleMs: this.#idleMs, eventCharacters: this.#eventCharacters }
  }

  /** The states of its threads, over those that we keep. */
  statesOver(kept: KeptStates): ServerStates {
    return new ServerStates(kept, this.#requests)
  }

  /** Deletes what the server has of a thread. @throws Error if it cannot */
  async forget(threadId: string): Promise<void> {
    const signal = AbortSignal.timeout(FORGET_MS)
    for (const id of await this.#threadsOf(threadId, signal)) await this.#requests.ask('DELETE', pathOf(id), { signal })
  }

  /** Cancels what the server still does for one of our runs. @throws Error if it cannot */
  async abandon(threadId: string, runId: string): Promise<void> {
    const signal = AbortSignal.timeout(FORGET_MS)
    for await (const run of this.#runsOf(threadId, runId, signal)) {
      if (!isActive(run.status)) continue
      const path = `${pathOf(run.threadId)}/runs/${encodeURIComponent(run.runId)}`
      await this.#requests.ask('POST', `${path}/cancel?wait=0&action=interrupt`, { signal })
    }
  }

  /** The server's runs for one of ours. */
  async *#runsOf(
    threadId: string,
    runId: string,
    signal: AbortSignal
  ): AsyncGenerator<{ readonly threadId: string; readonly runId: string; readonly status: string }> {
    for (const id of await this.#threadsOf(threadId, signal)) {
      const runs = objectsIn(await this.#requests.ask('GET', `${pathOf(id)}/runs?limit=100`, { signal }))
      for (const { run_id, status, metadata } of runs)
        if (objectOr(metadata).gateway_run_id === runId)
          yield { threadId: id, runId: textOr(run_id) ?? '', status: textOr(status) ?? '' }
    }
  }

  /** The server's threads for one of ours. */
  async #threadsOf(threadId: string, signal: AbortSignal): Promise<string[]> {
    const body = { metadata: { gateway_thread_id: threadId }, limit: 1000 }
    const found = objectsIn(await this.#requests.ask('POST', '/threads/search', { body, signal }))
    return found.map(({ thread_id }) => textOr(thread_id) ?? '')
  }

  /** See Agent.adoptThreads. */
  async adoptThreads(
    ownerId: string,
    signal: AbortSignal,
    onFailed: (threadId: string, error: unknown) => void
  ): Promise<number> {
    let adopted = 0
    for (const id of await this.#orphans(signal)) {
      const body = { metadata: { user_id: ownerId } }
      const isDone = await this.#requests.ask('PATCH', `/threads/${encodeURIComponent(id)}`, { body, signal }).then(
        () => true,
        (error: unknown) => onFailed(id, error)
      )
      signal.throwIfAborted()
      if (isDone) adopted++
    }
    return adopted
  }

  /** Threads without a user that were not created for one of ours, whose ownerless threads are shared. */
  async #orphans(signal: AbortSignal): Promise<string[]> {
    const ids: string[] = []
    // Reads all pages first, because changes would reorder the pages.
    for (let offset = 0; ; offset += PAGE) {
      const body = { limit: PAGE, offset }
      const page = objectsIn(await this.#requests.ask('POST', '/threads/search', { body, signal }))
      for (const { thread_id, metadata } of page) {
        const { user_id, gateway_thread_id } = objectOr(metadata)
        if (!user_id && !gateway_thread_id && typeof thread_id === 'string') ids.push(thread_id)
      }
      if (page.length < PAGE) return ids
    }
  }

  async #enterNew(input: AgentInput, owner: JsonObject, signal: AbortSignal): Promise<string> {
    const key = randomUUID()
    // The same id on both sides if possible.
    const wanted = UUID.test(input.threadId) ? input.threadId : key
    const made = await this.#put(wanted, input, { ...owner, gateway_key: key }, signal)
    // The id is taken there, by an unknown owner.
    return made === key ? wanted : this.#enter(randomUUID(), input, owner, signal)
  }

  async #enter(id: string, input: AgentInput, metadata: JsonObject, signal: AbortSignal): Promise<string> {
    await this.#put(id, input, metadata, signal)
    return id
  }

  /** Creates a thread unless it exists. @returns the key in the metadata of the existing one */
  async #put(id: string, input: AgentInput, metadata: JsonObject, signal: AbortSignal): Promise<string | null> {
    const body = {
      thread_id: id,
      metadata: { ...metadata, gateway_thread_id: input.threadId },
      if_exists: 'do_nothing'
    }
    const thread = objectOr(await this.#requests.ask('POST', '/threads', { body, signal }))
    return textOr(objectOr(thread.metadata).gateway_key)
  }

  async #isJs(signal: AbortSignal): Promise<boolean> {
    this.#isOfJs ??= objectOr(await this.#requests.ask('GET', '/info', { signal })).context === 'js'
    return this.#isOfJs
  }
}

function pathOf(threadId: string): string {
  return `/threads/${encodeURIComponent(threadId)}`
}

/** Where the caller wants the graph to stop. */
function breakpointsOf({ interrupt_before, interrupt_after }: JsonObject): JsonObject {
  return {
    ...(interrupt_before !== undefined && interrupt_before !== null && { interrupt_before }),
    ...(interrupt_after !== undefined && interrupt_after !== null && { interrupt_after })
  }
}

/**
 * Python servers treat context and configurable as one and refuse both together. The JavaScript server keeps them apart, and
 * remembers a thread's configurable, so a run without a checkpoint must reset `checkpoint_id`.
 */
function parametersOf(input: AgentInput, isJs: boolean, checkpointId: string | null): JsonObject {
  const passed = passedOn(input)
  const configurable = isJs ? { ...passed, checkpoint_id: checkpointId } : passed
  return {
    config: { configurable, recursion_limit: input.recursionLimit },
    ...(isJs && { context: passed }),
    ...(checkpointId !== null && { checkpoint: { checkpoint_id: checkpointId } })
  }
}
