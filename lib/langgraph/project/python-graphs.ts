// The Python graphs of a project behind the agent port. Their process is started with the gateway, anew when its files change, and when
// it is gone, with the next run.
import { AgentError, type AgentInput, RunCut, type Sink } from '../../agent/runtime.ts'
import type { GraphInfo, StatePort } from '../../agent/states.ts'
import { type Caller, callerOfRun } from '../../base/loopback.ts'
import { defaultsOf } from './graph-files.ts'
import { type GraphLog, type GraphPorts, hasCheckpoint } from './graph-ports.ts'
import { runGraph } from './graph-run.ts'
import { GraphSet, type LoadedGraph } from './graph-set.ts'
import { GraphStates } from './graph-states.ts'
import type { GraphsAgent } from './graphs-agent.ts'
import { Renewed, Uses } from './renewed.ts'
import { doorHandlers } from './python-door.ts'
import { ChunkStreams, PythonGraph, remoteLibrary, type Stores } from './python-graph.ts'
import { type Opened, type PythonOptions, PythonProcess, type PythonProjectSpec } from './python-process.ts'
import { type CheckpointList, channelsOf, checkpointsOf, keepCheckpoint, type WrittenCheckpoint } from './saver.ts'
import { checkOwner, owned } from './state-owner.ts'
import type { GraphTaskWrite, StoredGraphCheckpoint } from '../../conversation/state.ts'

/** Tested versions of Python, and of LangGraph for it. */
const PYTHONS = ['3.11', '3.12', '3.13']
const LANGGRAPH = '1.'
/** How LangGraph says that a graph has stopped between two supersteps, as it was asked to. */
const DRAINED = 'GraphDrained'
/** Lines of a run's own output that are kept among its events. */
const LINES_MAX = 1_000
/** And of those in the log: a flood is no log. */
const LOGGED_MAX = 10_000

/** One process with its graphs; replaced when it is gone. */
class RunningProject {
  readonly #spec: PythonProjectSpec
  readonly #ports: GraphPorts
  readonly #streams = new ChunkStreams()
  readonly #stores: Stores = new Map()
  /** Runs by id: where their output belongs, and who they work for. */
  readonly #sinks = new Map<string, { readonly sink: Sink; readonly caller: Caller | null; lines: number }>()
  #set: GraphSet
  #process!: PythonProcess
  #states: GraphStates
  readonly #uses = new Uses(() => this.close())
  #isDraining = false

  private constructor(spec: PythonProjectSpec, ports: GraphPorts) {
    this.#spec = spec
    this.#ports = ports
    this.#set = new GraphSet([], ports.reads)
    this.#states = new GraphStates(this.#set, ports.reads, ports.threads)
  }

  static async start(spec: PythonProjectSpec, ports: GraphPorts, options: PythonOptions): Promise<RunningProject> {
    const project = new RunningProject(spec, ports)
    const { process, opened } = await PythonProcess.start(spec, project.#handlers(), options, ports.log)
    project.#process = process
    project.#use(opened)
    return project
  }

  get isGone(): boolean {
    return this.#process.isGone
  }

  get states(): GraphStates {
    return this.#states
  }

  async start(input: AgentInput, sink: Sink, signal: AbortSignal): Promise<void> {
    const { full } = this.#process
    if (full !== null)
      throw new AgentError('GraphProcessFull', `The process of the Python graphs takes no runs: ${full}`)
    const caller = callerOfRun(input.userId, input.request)
    this.#sinks.set(input.runId, { sink, caller, lines: 0 })
    try {
      await this.during(() => runGraph(this.#set, this.#ports, input, sink, signal))
    } catch (error) {
      throw this.#isDraining && error instanceof AgentError && error.kind === DRAINED
        ? new RunCut('drain', DRAINED, 'The run was stopped after a superstep')
        : error
    } finally {
      this.#sinks.delete(input.runId)
    }
  }

  during<T>(work: () => Promise<T>): Promise<T> {
    return this.#uses.during(work)
  }

  retire(): void {
    this.#uses.retire()
  }

  drain(): void {
    this.#isDraining = true
    this.#process.send('drain')
  }

  close(): Promise<void> {
    return this.#process.close()
  }

  #use(opened: Opened): void {
    const { folder, graphs, name } = this.#spec
    const { log, reads, threads } = this.#ports
    const { python, langgraph, loadMs: load_ms, pid } = opened
    log.info({ project: name, python, langgraph, load_ms, pid }, 'the Python graphs are loaded')
    if (!PYTHONS.includes(python.split('.').slice(0, 2).join('.')))
      log.warn({ python, tested: PYTHONS }, 'this version of Python is not one that is tested with graphs')
    if (!langgraph.startsWith(LANGGRAPH))
      log.warn({ langgraph, tested: `${LANGGRAPH}x` }, 'this version of LangGraph for Python is not one that is tested')
    const library = remoteLibrary(langgraph)
    this.#set = new GraphSet(
      graphs.map(
        ({ id, description, place, name: exportName }): LoadedGraph => ({
          ...{ id, description, exportName, library, file: `${folder}/${place}` },
          ...defaultsOf(id),
          made: (config, runtime) => PythonGraph.make(this.#process, id, config, runtime, this.#streams, this.#stores)
        })
      ),
      reads,
      () => PythonGraph.gone(this.#process, this.#streams, this.#stores)
    )
    this.#states = new GraphStates(this.#set, reads, threads)
  }

  // ---------------------------------------------------------------------------------------- what the process may ask for

  #handlers() {
    return {
      load: async (session: string | null, threadId: string, ns: string, checkpointId: string | null) => {
        const stored = await this.#set.session(session).load(threadId, ns, checkpointId)
        return stored && this.#sent(stored)
      },
      list: async (
        session: string | null,
        threadId: string,
        ns: string | null,
        id: string | null,
        about: ListAbout
      ) => {
        const asked: CheckpointList = { threadId, ns, checkpointId: id || null, ...about }
        const found: object[] = []
        let before: string | null = null
        for await (const stored of checkpointsOf(this.#set.session(session), asked)) {
          found.push(this.#sent(stored))
          before = stored.checkpoint_id
        }
        return { found, before: found.length < about.limit ? null : before }
      },
      put: async (session: string | null, written: WrittenCheckpoint) => {
        await this.#streams.caughtUp(session)
        const checkpoint = owned(written.checkpoint, this.#spec.name)
        return keepCheckpoint(this.#set.session(session), { ...written, checkpoint })
      },
      write: async (session: string | null, { threadId, ns, checkpointId, writes }: SentWrites) => {
        if (checkpointId === null) throw new Error('The configuration of task writes names no checkpoint_id')
        await this.#streams.caughtUp(session)
        const to = this.#set.session(session)
        const place = { thread_id: threadId, ns, checkpoint_id: checkpointId, run_id: to.runId }
        await to.keep({ name: 'graph.write', ...place, writes })
      },
      items: async (key: string | null, operations: readonly object[]) => {
        const store = this.#stores.get(key ?? '')
        if (!store) throw new Error('Items can be used within a run alone')
        return store.batch(operations)
      },
      chunk: (run: number, namespace: readonly string[], mode: string, data: unknown) =>
        this.#streams.hear(run, [namespace, mode, data]),
      ...doorHandlers(this.#ports.door, (run) => this.#sinks.get(String(run))?.caller ?? null),
      log: (level: keyof GraphLog, run: string | null, fields: object, text: string) =>
        this.#print(level, run, fields, text)
    }
  }

  /** Bytes of another project are never sent. */
  #sent(stored: StoredGraphCheckpoint): object {
    checkOwner(stored, this.#spec.name)
    const { thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata, writes } = stored
    return {
      ...{ thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata },
      channels: channelsOf(stored).map(({ channel, body }) => [channel, body.type, body.data]),
      writes: writes.map((one) => [one.task_id, one.channel, one.type, one.data])
    }
  }

  /** Into the log, and among the events of its run. */
  #print(level: keyof GraphLog, run_id: string | null, fields: object, text: string): void {
    const run = run_id === null ? undefined : this.#sinks.get(run_id)
    if (run && ++run.lines > LOGGED_MAX) {
      if (run.lines === LOGGED_MAX + 1)
        this.#ports.log.warn({ run_id, lines: LOGGED_MAX }, 'a run has written more lines: the rest is not logged')
      return
    }
    this.#ports.log[level]({ ...fields, ...(run_id !== null && { run_id }) }, text)
    if (!run || run.lines > LINES_MAX) return
    run.sink.record({ type: 'middleware', tag: 'log', content: { level, text }, metadata: {} })
  }
}

type ListAbout = Pick<CheckpointList, 'limit' | 'before' | 'filter'>

interface SentWrites {
  readonly threadId: string
  readonly ns: string
  readonly checkpointId: string | null
  readonly writes: readonly GraphTaskWrite[]
}

export class PythonGraphs {
  readonly #ports: GraphPorts
  readonly #options: PythonOptions
  #spec: PythonProjectSpec
  readonly #current: Renewed<RunningProject>
  /** Also those that were replaced, until their last run has ended. */
  readonly #projects = new Set<RunningProject>()
  #isDraining = false

  private constructor(spec: PythonProjectSpec, ports: GraphPorts, options: PythonOptions) {
    this.#ports = ports
    this.#options = options
    this.#spec = spec
    this.#current = new Renewed(() => this.#start(this.#spec))
  }

  /** @throws AgentFileError for the first graph that cannot be loaded */
  static async load(spec: PythonProjectSpec, ports: GraphPorts, options: PythonOptions): Promise<PythonGraphs> {
    const graphs = new PythonGraphs(spec, ports, options)
    await graphs.#current.first()
    return graphs
  }

  /** In a new process; active runs end in the old one. @throws AgentFileError, and the old one stays */
  async reload(spec: PythonProjectSpec): Promise<void> {
    await this.#current.replace(() => this.#start(spec))
    this.#spec = spec
  }

  async #start(spec: PythonProjectSpec): Promise<RunningProject> {
    const project = await RunningProject.start(spec, this.#ports, this.#options)
    for (const one of this.#projects) if (one.isGone) this.#projects.delete(one)
    this.#projects.add(project)
    if (this.#isDraining) project.drain()
    return project
  }

  /** Runs stop after the superstep they are in. */
  drain(): void {
    this.#isDraining = true
    for (const project of this.#projects) project.drain()
  }

  async close(): Promise<void> {
    await this.#current.newest
    await Promise.all([...this.#projects].map((project) => project.close()))
  }

  get infos(): readonly GraphInfo[] {
    return this.#spec.graphs.map(({ id, description }) => ({ id, description, ...defaultsOf(id) }))
  }

  get agent(): GraphsAgent {
    return {
      start: async (input, sink, signal) => (await this.#current.get()).start(input, sink, signal),
      models: () => [],
      states: this.#states()
    }
  }

  #states(): StatePort {
    const ask = async <T>(work: (states: GraphStates) => Promise<T>): Promise<T> => {
      const project = await this.#current.get()
      return project.during(() => work(project.states))
    }
    const { reads, threads } = this.#ports
    return {
      isOfGraphs: true,
      has: hasCheckpoint(reads),
      get: (...args) => ask((states) => states.get(...args)),
      values: (...args) => ask((states) => states.values(...args)),
      history: (...args) => ask((states) => states.history(...args)),
      update: (...args) => ask((states) => states.update(...args)),
      build: (...args) => ask((states) => states.build(...args)),
      copy: (from, to) => threads.copy(from, to),
      graphs: () => this.infos,
      schemas: (...args) => ask((states) => states.schemas(...args)),
      draw: (...args) => ask((states) => states.draw(...args)),
      subgraphs: (...args) => ask((states) => states.subgraphs(...args))
    }
  }
}
