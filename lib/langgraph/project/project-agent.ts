// All graphs of a langgraph.json as one agent, whatever language each is in: a run, and a state, are those of the graph's own side.
import { AgentError, type ListedAgent } from '../../agent/runtime.ts'
import type { StateChanged, StatePort } from '../../agent/states.ts'
import { loadGraphs, namedGraphs, pythonProject } from './config-file.ts'
import { type GraphPorts, hasCheckpoint } from './graph-ports.ts'
import { GraphSet } from './graph-set.ts'
import { GraphWorkers } from './graph-workers.ts'
import { isOnlyTitle } from './graph-states.ts'
import { createGraphsAgent, type GraphsAgent } from './graphs-agent.ts'
import { PythonGraphs } from './python-graphs.ts'
import type { PythonOptions } from './python-process.ts'
import { ownerOf, withRefusals } from './state-owner.ts'

export interface ProjectOptions extends PythonOptions {
  /** JavaScript graphs run in threads of their own. A file's imports can only be loaded again in a new one. */
  readonly isIsolated: boolean
}

/** Of several graphs nobody can tell whose channels are meant. */
const NO_GRAPH: StateChanged = {
  outcome: 'invalid',
  message: 'the thread has no graph yet: it has that of its first run, or the graph_id of its metadata'
}

export class ProjectAgent {
  readonly #path: string
  readonly #ports: GraphPorts
  readonly #options: ProjectOptions
  /** By graph, in configured order. */
  #sides = new Map<string, GraphsAgent>()
  #workers: GraphWorkers | null = null
  #python: PythonGraphs | null = null
  #pythonSide: GraphsAgent | null = null

  private constructor(path: string, ports: GraphPorts, options: ProjectOptions) {
    this.#path = path
    this.#ports = ports
    this.#options = options
  }

  /** @throws AgentFileError for the first graph that cannot be loaded */
  static async load(path: string, ports: GraphPorts, options: ProjectOptions): Promise<ProjectAgent> {
    const project = new ProjectAgent(path, ports, options)
    await project.reload()
    return project
  }

  /** Loads all graphs again; active runs end with the old code. @returns their names @throws AgentFileError */
  async reload(): Promise<readonly string[]> {
    const named = namedGraphs(this.#path)
    const spec = pythonProject(this.#path)
    const javaScript = named.some(({ isPython }) => !isPython) ? await this.#javaScript() : null
    if (spec && this.#python) await this.#python.reload(spec)
    else if (spec) this.#python = await PythonGraphs.load(spec, this.#ports, this.#options)
    const python = this.#python?.agent ?? null
    this.#pythonSide = python
    this.#sides = new Map(
      named.flatMap(({ id, isPython }) => {
        const side = isPython ? python : javaScript
        return side ? [[id, side] as const] : []
      })
    )
    return [...this.#sides.keys()]
  }

  async #javaScript(): Promise<GraphsAgent> {
    if (!this.#options.isIsolated)
      return createGraphsAgent(new GraphSet(await loadGraphs(this.#path), this.#ports.reads), this.#ports)
    if (this.#workers) await this.#workers.reload()
    this.#workers ??= await GraphWorkers.load(this.#path, this.#ports)
    return this.#workers.agent
  }

  async close(): Promise<void> {
    await Promise.all([this.#workers?.close(), this.#python?.close()])
  }

  get agent(): ListedAgent {
    return {
      start: async (input, sink, signal) => {
        const id = input.graphId ?? [...this.#sides.keys()][0]!
        const side = this.#sides.get(id)
        if (!side) throw new AgentError('GraphNotFound', `There is no graph ${JSON.stringify(id)}`)
        await side.start({ ...input, graphId: id }, sink, signal)
      },
      models: () => [],
      // Runs of Python graphs stop after the superstep they are in.
      drain: () => this.#python?.drain(),
      states: withRefusals(this.#states())
    }
  }

  #states(): StatePort {
    const { reads, threads } = this.#ports
    const ofThread = async (threadId: string) => {
      if (new Set(this.#sides.values()).size === 1) return this.#sideOf(null).states
      const id = (await threads.graphOf(threadId)) ?? null
      const isGone = id !== null && !this.#sides.has(id)
      return (isGone ? await this.#sideThatWrote(threadId) : this.#sideOf(id)).states
    }
    const isAnyones = async (threadId: string) => this.#sides.size > 1 && (await threads.graphOf(threadId)) === null
    return {
      isOfGraphs: true,
      has: hasCheckpoint(reads),
      get: async (threadId, ...more) => (await ofThread(threadId)).get(threadId, ...more),
      values: async (threadId, ...more) => (await ofThread(threadId)).values(threadId, ...more),
      history: async (threadId, ...more) => (await ofThread(threadId)).history(threadId, ...more),
      update: async (threadId, change) => {
        const isNamed = change.graphId !== undefined || isOnlyTitle(change.values)
        if (!isNamed && (await isAnyones(threadId))) return NO_GRAPH
        return (await ofThread(threadId)).update(threadId, change)
      },
      build: async (threadId, graphId, steps) => {
        if (graphId === null && (await isAnyones(threadId))) return NO_GRAPH
        const id = graphId ?? (await threads.graphOf(threadId)) ?? null
        return this.#sideOf(id).states.build(threadId, graphId, steps)
      },
      copy: (from, to) => threads.copy(from, to),
      graphs: () =>
        [...this.#sides].flatMap(([id, { states }]) => states.graphs().find((graph) => graph.id === id) ?? []),
      schemas: async (id, ...more) => (await this.#sides.get(id)?.states.schemas(id, ...more)) ?? null,
      draw: async (id, ...more) => (await this.#sides.get(id)?.states.draw(id, ...more)) ?? null,
      subgraphs: async (id, ...more) => (await this.#sides.get(id)?.states.subgraphs(id, ...more)) ?? null
    }
  }

  /** Of a thread whose graph is gone: that of the language in which it was. */
  async #sideThatWrote(threadId: string): Promise<GraphsAgent> {
    const stored = await this.#ports.reads.load(threadId, '', null)
    const wasPython = stored !== null && ownerOf(stored) !== null
    const side = [...this.#sides.values()].find((one) => (one === this.#pythonSide) === wasPython)
    return side ?? this.#sideOf(null)
  }

  /** Of an unknown graph, or of none, the first. */
  #sideOf(graphId: string | null): GraphsAgent {
    // A langgraph.json without graphs is refused, so there is a first one.
    return (graphId === null ? undefined : this.#sides.get(graphId)) ?? [...this.#sides.values()][0]!
  }
}
