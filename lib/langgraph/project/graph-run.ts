// One run of an in-process graph: called as LangGraph's server calls it; its stream goes into the run's log verbatim. The
// graph keeps its own state; messages also become records, for events and counts.
import { doneIn, INTERRUPTS } from '../../conversation/interrupts.ts'
import { actingFor, callerOfRun } from '../../base/loopback.ts'
import { type Json, type JsonObject, isObject } from '../../base/types.ts'
import { objectOr, textOr, textsIn } from '../../base/json.ts'
import { AgentError, type AgentInput, type FrameMode, type Sink } from '../../agent/runtime.ts'
import { stampOf } from '../graph/config.ts'
import { idsIn, RunConversation } from './run-conversation.ts'
import type { GraphSet, LoadedGraph } from './graph-set.ts'
import type { CompiledGraph, LangGraph, StateSnapshot } from './library.ts'
import { shownOf } from './chunk-view.ts'
import { plain, plainText } from './plain.ts'
import type { GraphPorts } from './graph-ports.ts'
import { createGraphStore } from './graph-store.ts'
import { type GraphReads, RunSession } from './saver-session.ts'
import { type Extension, type GraphOptions, streamOf } from './transformers.ts'

/** Always logged, because later readers may want other modes than the creator. */
const MODES = ['values', 'messages', 'custom', 'tools']
/** Logged only if the creator asked for them. */
const EXTRAS = ['updates', 'tasks', 'checkpoints', 'debug']
/** Task id of writes by commands. */
const NO_TASK = '00000000-0000-0000-0000-000000000000'

export async function runGraph(
  set: GraphSet,
  { reads, items }: Pick<GraphPorts, 'reads' | 'items'>,
  input: AgentInput,
  sink: Sink,
  signal: AbortSignal
): Promise<void> {
  const graph = set.find(input.graphId)
  if (!graph) throw new AgentError('GraphNotFound', `There is no graph ${JSON.stringify(input.graphId)}`)
  const session = new RunSession(
    input.runId,
    reads,
    (write) => sink.keep(write),
    () => sink.flushed(),
    input.stateCharacters
  )
  const work = async (named: JsonObject) => {
    const conversation = new RunConversation(sink, () => session.opened ?? null, await attemptOf(input, reads))
    const store = createGraphStore(graph.library, items, input.userId)
    const run = new GraphRun(graph, input, sink, session, store, conversation)
    let made: CompiledGraph | undefined
    try {
      made = await set.make(graph, run.config, 'threads.create_run', run.context)
      await run.work(made, named, signal)
    } catch (error) {
      // Failing because of the abort is no failure.
      if (!signal.aborted) throw failureOf(error)
    } finally {
      made?.release?.()
    }
  }
  const { userId, request } = input
  await actingFor(callerOfRun(userId, request), () => set.inSession(session, work))
}

/** What an attempt after a crash needs to know; null: first attempt. */
async function attemptOf({ attempt, threadId, runId, recordedIds = new Set() }: AgentInput, reads: GraphReads) {
  if (attempt === 1) return null
  let stored = await reads.load(threadId, '', null)
  // The run started from the newest checkpoint that it did not write itself.
  while (stored && stored.run_id === runId)
    stored = stored.parent_id === null ? null : await reads.load(threadId, '', stored.parent_id)
  return { found: idsIn(stored), recorded: recordedIds }
}

class GraphRun {
  readonly #graph: LoadedGraph
  readonly #input: AgentInput
  readonly #sink: Sink
  readonly #session: RunSession
  readonly #store: object
  readonly #request: JsonObject
  readonly #conversation: RunConversation

  constructor(
    graph: LoadedGraph,
    input: AgentInput,
    sink: Sink,
    session: RunSession,
    store: object,
    conversation: RunConversation
  ) {
    this.#store = store
    this.#conversation = conversation
    this.#graph = graph
    this.#input = input
    this.#sink = sink
    this.#session = session
    this.#request = input.request
  }

  get config(): JsonObject {
    return { ...objectOr(this.#request.config), metadata: this.#metadata(), configurable: this.#configurable() }
  }

  /** The caller's; LangGraph's server for Python takes the configuration where there is none. */
  get context(): JsonObject {
    const { context, config } = this.#request
    const own = objectOr(context)
    return this.#isJson && Object.keys(own).length === 0 ? objectOr(objectOr(config).configurable) : own
  }

  async work(graph: CompiledGraph, named: JsonObject, signal: AbortSignal): Promise<void> {
    const configurable = { ...this.#configurable(), ...named }
    const place = { thread_id: this.#input.threadId, ...named }
    const input = await this.#inputFor(place)
    const base = input === RESUMED ? {} : this.#base()
    const options = this.#options({ ...configurable, ...base }, signal)
    const given = input === RESUMED ? null : input
    const { library } = this.#graph
    if (given === ENDED) {
      await graph.updateState({ configurable: { ...place, ...base } }, null, END)
      return this.#shown(await graph.getState({ configurable: place }))
    }
    if (this.#modes.includes('events') && graph.streamEvents) await this.#readEvents(graph, given, options, signal)
    else await this.#readAll(await streamOf(graph, library, given, options, (one) => this.#extension(one)), signal)
    signal.throwIfAborted()
    const state = await graph.getState({ configurable: place })
    this.#end(state)
  }

  get #isJson(): boolean {
    return this.#graph.library.isRemote === true
  }

  get #modes(): string[] {
    return textsIn(this.#request.stream_mode)
  }

  get #withSubgraphs(): boolean {
    return this.#request.stream_subgraphs === true
  }

  /** @returns RESUMED: an earlier attempt has written checkpoints, and this one continues from the last */
  async #inputFor(place: JsonObject): Promise<unknown> {
    const { command, input } = this.#request
    if (this.#input.attempt > 1 && (await this.#hasBegun(place))) return RESUMED
    if (isObject(command) && isEnd(command)) return ENDED
    if (isObject(command) && Object.keys(command).length > 0) return commandOf(this.#graph.library, command)
    return input ?? null
  }

  async #hasBegun(place: JsonObject): Promise<boolean> {
    const stored = await this.#session.load(textOr(place.thread_id) ?? '', '', null)
    if (!stored) return false
    const isAnswered = stored.writes.some(({ task_id, channel }) => task_id === NO_TASK && channel === '__resume__')
    return stored.run_id === this.#input.runId || isAnswered
  }

  /** The checkpoint to start from; empty: the newest. */
  #base(): JsonObject {
    const { checkpoint_id, checkpoint } = this.#request
    const { checkpoint_ns, checkpoint_map } = objectOr(checkpoint)
    return {
      ...(textOr(checkpoint_id) !== null && { checkpoint_id }),
      ...(textOr(checkpoint_ns) && { checkpoint_ns }),
      ...(isObject(checkpoint_map) && { checkpoint_map })
    } as JsonObject
  }

  #configurable(): JsonObject {
    const { threadId, runId, assistantId } = this.#input
    return {
      ...objectOr(objectOr(this.#request.config).configurable),
      ...stampOf(this.#input),
      ...authOf(this.#request.auth_user),
      thread_id: threadId,
      run_id: runId,
      graph_id: this.#graph.id,
      assistant_id: assistantId
    }
  }

  #metadata(): JsonObject {
    const { config, metadata } = this.#request
    const { userId, threadId, runId, assistantId, attempt } = this.#input
    return {
      ...objectOr(objectOr(config).metadata),
      ...objectOr(metadata),
      ...(userId !== null && { user_id: userId }),
      thread_id: threadId,
      run_id: runId,
      graph_id: this.#graph.id,
      assistant_id: assistantId,
      run_attempt: attempt,
      langgraph_version: this.#graph.library.version
    }
  }

  #options(configurable: JsonObject, signal: AbortSignal): GraphOptions {
    const { config, interrupt_before, interrupt_after, durability, context } = this.#request
    const { tags, recursion_limit } = objectOr(config)
    const { runId, recursionLimit } = this.#input
    const { isRemote = false } = this.#graph.library
    // `events` of one in another process are part of its stream.
    const extras = isRemote ? [...EXTRAS, 'events'] : EXTRAS
    const modes = new Set([...MODES, ...extras.filter((mode) => this.#modes.includes(mode))])
    // An undefined member would override the graph's own default.
    return {
      streamMode: [...modes],
      subgraphs: this.#withSubgraphs,
      // With v2 it announces the checkpoint before its values.
      ...(this.#withSubgraphs && !isRemote && { version: 'v2' }),
      ...(isRemote && { given: objectOr(objectOr(config).configurable) }),
      configurable,
      context: objectOr(context),
      metadata: this.#metadata(),
      runId,
      store: this.#store,
      signal,
      durability: durability === 'sync' || durability === 'exit' ? durability : 'async',
      ...(Array.isArray(tags) && { tags }),
      // The default of LangGraph for Python is no limit.
      ...((typeof recursion_limit === 'number' || isRemote) && { recursionLimit }),
      ...(interrupt_before !== undefined && interrupt_before !== null && { interruptBefore: interrupt_before }),
      ...(interrupt_after !== undefined && interrupt_after !== null && { interruptAfter: interrupt_after })
    }
  }

  // --------------------------------------------------------------------------------------------------- its stream

  /** What transformers make is for readers of protocol v2. */
  #extension({ name, payload, namespace }: Extension): boolean {
    return this.#frame('extension', ['custom', ...namespace].join('|'), plainText({ name, payload }))
  }

  async #readAll(stream: AsyncIterable<unknown>, signal: AbortSignal): Promise<void> {
    for await (const chunk of stream) {
      signal.throwIfAborted()
      if (!this.#emitChunk(chunk)) await this.#sink.space()
    }
  }

  /** Reads the stream out of LangChain's events, for readers of mode `events`. */
  async #readEvents(graph: CompiledGraph, input: unknown, options: object, signal: AbortSignal): Promise<void> {
    for await (const event of graph.streamEvents!(input, { version: 'v2', ...options })) {
      signal.throwIfAborted()
      const { event: name, run_id, data, tags } = event as Record<string, unknown>
      if (Array.isArray(tags) && tags.includes('langsmith:hidden')) continue
      const isOwn = name === 'on_chain_stream' && (this.#withSubgraphs || run_id === this.#input.runId)
      const chunk = isOwn ? objectOr(data as Json).chunk : undefined
      const hasSpace = isOwn ? this.#emitChunk(chunk) : this.#frame('events', 'events', plainText(event))
      if (!hasSpace) await this.#sink.space()
    }
  }

  /** `[namespace, mode, data]`, or `[mode, data]` without subgraphs. */
  #emitChunk(chunk: unknown): boolean {
    if (!Array.isArray(chunk)) return true
    const [namespace, mode, data]: unknown[] = this.#withSubgraphs ? chunk : [[], ...chunk]
    const names = Array.isArray(namespace) ? namespace.map(String) : []
    if (typeof mode !== 'string') return true
    const event = names.length > 0 ? `${mode}|${names.join('|')}` : mode
    if (mode === 'messages') return this.#message(event, names, data)
    // Of a graph in another process, which has them in its stream. Both sides are of the same build.
    if (mode === 'extension') return this.#extension(data as Extension)
    if (mode === 'checkpoints' && isEnvelope(data)) return this.#frame('envelope', event, plainText(data))
    if (mode === 'values' && names.length === 0) return this.#values(data)
    return this.#frame(mode, event, this.#isJson ? JSON.stringify(data) : plainText(shownOf(mode, data)))
  }

  #frame(mode: string, event: string, json: string): boolean {
    // No other modes were requested.
    return this.#sink.emit({ type: 'frame', mode: mode as FrameMode, event, json })
  }

  #message(event: string, namespace: readonly string[], data: unknown): boolean {
    if (!Array.isArray(data)) return true
    const [message, metadata]: unknown[] = data
    // JSON already, where it comes from another process.
    const shown = this.#isJson ? (message as Json) : plain(message)
    const hasSpace = this.#frame(
      'messages',
      event,
      JSON.stringify([shown, this.#conversation.metadataOf(shown, metadata, this.#isJson)])
    )
    this.#conversation.chunk(shown, objectOr(metadata as Json), namespace)
    return hasSpace
  }

  #values(data: unknown): boolean {
    const json = this.#isJson ? JSON.stringify(data) : plainText(data)
    const hasSpace = this.#frame('values', 'values', json)
    // Serialised above, or parsed just before.
    const values = (this.#isJson ? data : JSON.parse(json)) as Json
    if (isObject(values) && !(INTERRUPTS in values)) this.#conversation.values(values)
    return hasSpace
  }

  /** Nothing was run: emits only the state. */
  #shown(state: StateSnapshot): void {
    this.#values(state.values)
    this.#end(state)
  }

  #end(state: StateSnapshot): void {
    this.#conversation.end(objectOr(plain(state.values)))
    const { newest } = this.#session
    const done = newest ? doneIn(newest) : new Set()
    const waiting = state.tasks.filter(({ id }) => !done.has(id))
    const questions = waiting.flatMap(({ interrupts = [] }) => plain(interrupts) as Json[]).filter(isObject)
    for (const { id, value } of questions)
      this.#sink.record({ type: 'interrupt', interrupt: { id: textOr(id) || 'interrupt', value: value ?? null } })
    if (questions.length === 0 && state.next.length > 0) {
      const value = { when: 'breakpoint', next: [...state.next] }
      this.#sink.record({ type: 'interrupt', interrupt: { id: this.#session.last ?? 'breakpoint', value } })
    }
  }
}

/** The user from the operator's auth handlers, under LangGraph's names. */
function authOf(user: Json | undefined): JsonObject {
  if (!isObject(user)) return {}
  return {
    langgraph_auth_user: user,
    langgraph_auth_user_id: user.identity ?? null,
    langgraph_auth_permissions: user.permissions ?? []
  }
}

const RESUMED = Symbol('resumed')
const END = '__end__'
const ENDED = Symbol('ended')

/** `goto: __end__` drops open interrupts. LangGraph's own Command does not support it. */
function isEnd({ goto, update, resume }: JsonObject): boolean {
  const isOnlyEnd = goto === END || (Array.isArray(goto) && goto.length === 1 && goto[0] === END)
  return isOnlyEnd && (update ?? null) === null && resume === undefined
}

/** An instance of LangGraph's Command; `{ node, input }` becomes a Send. */
export function commandOf({ Command, Send }: LangGraph, { goto, update, resume }: JsonObject): object {
  const targets = goto === undefined || goto === null ? [] : Array.isArray(goto) ? goto : [goto]
  const sent = targets.map((one) => (isObject(one) ? new Send(textOr(one.node) ?? '', one.input) : one))
  return new Command({
    ...(sent.length > 0 && { goto: sent }),
    ...(update !== undefined && update !== null && { update }),
    ...(resume !== undefined && { resume })
  })
}

function failureOf(error: unknown): unknown {
  if (error instanceof AgentError) return error
  if (error instanceof Error) return new AgentError(error.name || 'Error', error.message)
  return new AgentError('Error', textOfThrown(error))
}

/** Whatever a graph throws. */
function textOfThrown(thrown: unknown): string {
  try {
    return JSON.stringify(thrown) ?? String(thrown)
  } catch {
    // A circle, or a bigint, has no JSON.
    return String(thrown)
  }
}

/** An envelope only names the checkpoint of the values that follow. */
function isEnvelope(data: unknown): boolean {
  return typeof data === 'object' && data !== null && !('values' in data)
}
