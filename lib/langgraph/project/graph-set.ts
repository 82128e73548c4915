// The graphs of this process by id: compiled graphs, and factories that make one per call. All get our checkpointer.
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../base/types.ts'
import { objectOr } from '../../base/json.ts'
import { GoneGraph, type ReadableGraph, type SavedStates } from './gone-graph.ts'
import type { CompiledGraph, LangGraph } from './library.ts'
import { createSaver, SESSION, sessionFor } from './saver.ts'
import type { GraphReads, SaverSession } from './saver-session.ts'

/** Makes a graph for a call, from its configuration. */
export type GraphFactory = (config: JsonObject, runtime: FactoryRuntime) => unknown

export interface LoadedGraph {
  readonly id: string
  readonly description: string | null
  /** Default config of its runs. */
  readonly config: JsonObject
  readonly context: JsonObject
  /** Absolute. */
  readonly file: string
  readonly exportName: string
  readonly library: LangGraph
  readonly made: CompiledGraph | GraphFactory
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

/** The compiled graph of an export: a graph, a builder, or an agent with a `graph`. */
export function compiledIn(value: unknown): CompiledGraph | null {
  if (typeof value !== 'object' || value === null) return null
  if ('graph' in value && isCompiledGraph(value.graph)) return value.graph
  if (isCompiledGraph(value)) return value
  const compiled: unknown = 'compile' in value && typeof value.compile === 'function' ? value.compile() : null
  return isCompiledGraph(compiled) ? compiled : null
}

/** What LangGraph's servers tell factories of a call. */
export interface FactoryRuntime {
  readonly accessContext: Access
  /** null: no run. */
  readonly executionRuntime: { readonly context: JsonObject } | null
}

/** The purpose of a call, which LangGraph passes to factories. */
export type Access = 'threads.create_run' | 'threads.read' | 'threads.update' | 'assistants.read'

export class GraphSet {
  readonly #graphs: ReadonlyMap<string, LoadedGraph>
  readonly #savers = new Map<LangGraph, SavedStates>()
  readonly #sessions = new Map<string, SaverSession>()
  readonly #reads: GraphReads
  readonly #goneElsewhere: (() => ReadableGraph) | null

  /** @param goneElsewhere where these graphs are in another process: reads there what one of them has left */
  constructor(graphs: readonly LoadedGraph[], reads: GraphReads, goneElsewhere: (() => ReadableGraph) | null = null) {
    this.#graphs = byId(graphs)
    this.#reads = reads
    this.#goneElsewhere = goneElsewhere
  }

  /** In configured order. */
  get all(): readonly LoadedGraph[] {
    return [...this.#graphs.values()]
  }

  /** `id` null: the first one. undefined: no such graph. */
  find(id: string | null): LoadedGraph | undefined {
    return id === null ? this.all[0] : this.#graphs.get(id)
  }

  /** Reads the states of a graph that is not there any more; null: there is none beside it whose serializer could. */
  gone(): ReadableGraph | null {
    if (this.#goneElsewhere) return this.#goneElsewhere()
    const [first] = this.all
    return first ? new GoneGraph(this.#saverOf(first.library)) : null
  }

  /** @param context of the run, also one of the past that is read again @throws Error of a factory */
  async make(graph: LoadedGraph, config: JsonObject, access: Access, context: JsonObject): Promise<CompiledGraph> {
    const { made, library } = graph
    // As LangGraph's server for Python does, and that for JavaScript does not.
    const given = library.isRemote
      ? { ...config, configurable: { ...context, ...objectOr(config.configurable) } }
      : config
    const runtime = { accessContext: access, executionRuntime: access === 'threads.create_run' ? { context } : null }
    const compiled = typeof made === 'function' ? compiledIn(await made(given, runtime)) : made
    if (!compiled) throw new TypeError(`The factory of graph ${graph.id} did not return a graph`)
    // One in another process has its own there, which asks for the sessions of these.
    if (!library.isRemote) compiled.checkpointer = this.#saverOf(library)
    return compiled
  }

  /** @param id null: only reads. @throws Error when the session is over */
  session(id: string | null): SaverSession {
    return sessionFor(this.#sessions, this.#reads, id)
  }

  #saverOf(library: LangGraph): SavedStates {
    const saver = this.#savers.get(library) ?? createSaver(library, this.#sessions, this.#reads)
    this.#savers.set(library, saver)
    return saver
  }

  /** Runs `work` in a session: it passes the config member that names the session to its graph calls. */
  async inSession<T>(session: SaverSession, work: (named: JsonObject) => Promise<T>): Promise<T> {
    const id = randomUUID()
    this.#sessions.set(id, session)
    try {
      return await work({ [SESSION]: id })
    } finally {
      this.#sessions.delete(id)
    }
  }
}

function byId(graphs: readonly LoadedGraph[]): ReadonlyMap<string, LoadedGraph> {
  return new Map(graphs.map((graph) => [graph.id, graph]))
}
