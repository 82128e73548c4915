// A compiled LangGraph.js graph in this process [agent.runtime module]. Known by what it can do: LangGraph is no dependency of ours, it
// comes with the graph's file.
//
// A graph with a checkpointer of its own keeps its own state. To one without we are that: it is given the whole conversation each time,
// and what it needs to take up an interrupted node again is kept beside our state.
import { randomUUID } from 'node:crypto'
import type { Interrupt, Json } from '../../types.ts'
import { objectOr, objectsIn, textOr } from '../json.ts'
import { AgentError, type AgentInput } from '../runtime.ts'
import type { Graph, GraphState, GraphThread, GraphInput, Part } from './graph.ts'
import type { GraphCheckpointRef } from './checkpoint-ref.ts'
import { pendingGraphCheckpoint, restorePending, type Saver } from './pending-checkpoint.ts'
import { passedOn } from './graph-input.ts'
import { interruptsIn, namesIn } from './event-mapper.ts'

/** As much of LangGraph's Pregel as is used. */
export interface CompiledGraph {
  stream(input: unknown, options: object): Promise<AsyncIterable<unknown>>
  getState(config: object): Promise<unknown>
  readonly checkpointer?: unknown
}

export function isCompiledGraph(value: unknown): value is CompiledGraph {
  if (typeof value !== 'object' || value === null) return false
  return (
    'stream' in value &&
    typeof value.stream === 'function' &&
    'getState' in value &&
    typeof value.getState === 'function'
  )
}

/** The name by which a graph takes a checkpointer for one call. */
const CHECKPOINTER = '__pregel_checkpointer'
const MODES = ['messages', 'updates', 'custom']

export class InProcessGraph implements Graph {
  readonly #graph: CompiledGraph
  readonly #newSaver: () => Saver | null

  /** @param newSaver a checkpointer for one run; null: there is none to be had, and the graph cannot ask questions */
  constructor(graph: CompiledGraph, newSaver: () => Saver | null) {
    this.#graph = graph
    this.#newSaver = newSaver
  }

  async open(input: AgentInput, ref: GraphCheckpointRef, signal: AbortSignal): Promise<GraphThread> {
    const { threadId } = input
    if (this.#own) {
      const id = ref.threadId ?? (await this.#newName(threadId))
      return new GraphCall(this.#graph, { id, input, lent: null, hasOwn: true, signal })
    }
    const lent = this.#newSaver()
    if (lent) await restorePending(lent, threadId, ref.pendingGraphCheckpoint)
    return new GraphCall(this.#graph, { id: threadId, input, lent, hasOwn: false, signal })
  }

  async forget(threadId: string): Promise<void> {
    await this.#own?.deleteThread?.(threadId)
  }

  /** The same name on both sides, unless there is something of that name of which we know nothing. */
  async #newName(threadId: string): Promise<string> {
    const known = stateIn(plain(await this.#graph.getState({ configurable: { thread_id: threadId } })))
    return known ? `${threadId}.${randomUUID()}` : threadId
  }

  get #own(): Saver | null {
    const { checkpointer } = this.#graph
    // Whatever a graph takes for a checkpointer is one.
    return typeof checkpointer === 'object' && checkpointer !== null ? (checkpointer as Saver) : null
  }
}

/** One run of a graph. */
interface Call {
  readonly id: string
  readonly input: AgentInput
  /** The checkpointer for a graph that has none; null: it has one, or there is none to be had. */
  readonly lent: Saver | null
  readonly hasOwn: boolean
  readonly signal: AbortSignal
}

class GraphCall implements GraphThread {
  readonly id: string
  readonly #graph: CompiledGraph
  readonly #call: Call

  constructor(graph: CompiledGraph, call: Call) {
    this.id = call.id
    this.#graph = graph
    this.#call = call
  }

  async state(checkpointId: string | null): Promise<GraphState | null> {
    const { hasOwn, lent } = this.#call
    if (!hasOwn && !lent) return null
    const configurable = { ...this.#place(), ...(checkpointId !== null && { checkpoint_id: checkpointId }) }
    const state = stateIn(plain(await this.#graph.getState({ configurable })))
    // What is lent is gone after the run.
    return state && lent ? { ...state, checkpointId: null } : state
  }

  async work(
    { input, resume, checkpointId }: GraphInput,
    hear: (part: Part) => boolean,
    space: () => Promise<void>
  ): Promise<void> {
    const { lent, hasOwn, signal } = this.#call
    const { userId, recursionLimit } = this.#call.input
    const passed = passedOn(this.#call.input)
    const options = {
      // A checkpoint tells the state and where it is kept; without a keeper there are values alone.
      streamMode: [...MODES, hasOwn ? 'checkpoints' : 'values'],
      subgraphs: true,
      configurable: { ...passed, ...this.#place(), ...(checkpointId !== null && { checkpoint_id: checkpointId }) },
      context: passed,
      metadata: { user_id: userId },
      recursionLimit,
      // What is lent is read once, when all is over.
      ...(lent && { durability: 'exit' }),
      signal
    }
    try {
      for await (const told of await this.#graph.stream(resume ? commandOf(resume.value) : input, options)) {
        signal.throwIfAborted()
        const hasSpace = partsIn(told).map(hear)
        if (hasSpace.includes(false)) await space()
      }
    } catch (error) {
      signal.throwIfAborted()
      throw failureOf(error)
    }
  }

  async pending(): Promise<Json> {
    const { lent } = this.#call
    if (!lent) return null
    const state = await this.state(null)
    return state && (state.interrupts.length > 0 || state.next.length > 0)
      ? pendingGraphCheckpoint(lent, this.id)
      : null
  }

  #place(): object {
    return { thread_id: this.id, ...(this.#call.lent && { [CHECKPOINTER]: this.#call.lent }) }
  }
}

/** What LangGraph's class of this name comes to. */
function commandOf(resume: Json): object {
  return { lg_name: 'Command', resume }
}

/** `[namespace, mode, data]` as parts. */
function partsIn(told: unknown): Part[] {
  if (!Array.isArray(told)) return []
  const [names, mode, data]: unknown[] = told
  const namespace = Array.isArray(names) ? names.map(String) : []
  if (mode !== 'checkpoints') return [{ mode: String(mode), namespace, data: plain(data) }]
  const { config, values, metadata, next = [] } = objectOr(plain(data))
  // What was there before the input was written is no news.
  if (namespace.length > 0 || objectOr(metadata).source !== 'loop') return []
  const id = objectOr(objectOr(config).configurable).checkpoint_id ?? null
  return [
    { mode: 'checkpoints', namespace, data: { id, next } },
    { mode: 'values', namespace, data: values ?? {} }
  ]
}

function stateIn(snapshot: Json): GraphState | null {
  const { config, values, next, tasks, createdAt } = objectOr(snapshot)
  const checkpointId = textOr(objectOr(objectOr(config).configurable).checkpoint_id)
  // For a checkpoint that is not there it has the name and nothing else.
  if (checkpointId === null || textOr(createdAt) === null) return null
  const interrupts: Interrupt[] = objectsIn(tasks).flatMap((task) => interruptsIn(task.interrupts))
  return {
    checkpointId,
    runId: null,
    values: objectOr(values),
    next: namesIn(next),
    interrupts
  }
}

/** What LangGraph has in memory as the JSON that its server would send: messages are objects of classes. */
function plain(value: unknown): Json {
  const text = JSON.stringify(value, messagesAsFields)
  return text === undefined ? null : (JSON.parse(text) as Json)
}

function messagesAsFields(this: unknown, key: string, value: unknown): unknown {
  // JSON.stringify has asked toJSON already: what was there before that is asked here.
  const given = (this as Record<string, unknown>)[key]
  if (typeof given === 'object' && given !== null && 'toDict' in given && typeof given.toDict === 'function') {
    const { type, data } = given.toDict() as { type: string; data: object }
    return { ...data, type }
  }
  return typeof value === 'bigint' ? String(value) : value
}

function failureOf(error: unknown): unknown {
  if (error instanceof AgentError || !(error instanceof Error)) return error
  return new AgentError(error.name || 'GraphError', error.message)
}
