// Graphs in worker threads [graphs.isolation worker]: each graph file has one thread for runs, so that a blocking graph blocks
// nobody else and a crash fails only its own runs, and one for reading and updating states meanwhile.
import { Worker } from 'node:worker_threads'
import { withTimeout } from '../../base/waiting.ts'
import { AgentFileError, LOAD_MS } from '../../agent/agent-file.ts'
import {
  AgentError,
  type AgentInput,
  type AgentRecord,
  RunCut,
  type Sink,
  type StateWrite,
  type StreamPart
} from '../../agent/runtime.ts'
import type { GraphInfo, StatePort } from '../../agent/states.ts'
import { graphSpecs } from './config-file.ts'
import type { GraphsAgent } from './graphs-agent.ts'
import { type GraphLog, type GraphPorts, hasCheckpoint } from './graph-ports.ts'
import type { GraphWorkerData } from './graph-worker.ts'
import { called, type ThreadPort, WorkerChannel } from './worker-channel.ts'
import { warnUnexpected } from '../../base/errors.ts'

/** Messages of a run per acknowledgement to its worker. */
const HEARD = 64
/** Timeout for a worker to answer a ping, and then for a run to stop, in ms. */
const STOP_MS = 5_000
/** Longer than LOAD_MS: a file that blocks its thread cannot report its own timeout. */
const START_MS = LOAD_MS + 10_000

interface Hearing {
  readonly sink: Sink
  fail(error: unknown): void
  unheard: number
  isFull: boolean
}

/** One thread with the graphs of one file. */
class GraphThread {
  readonly file: string
  readonly #worker: Worker
  readonly #channel: WorkerChannel
  readonly #hearings = new Map<number, Hearing>()
  #runs = 0
  #isRetired = false
  /** A ping under way: whether the worker is unresponsive. */
  #deafness: Promise<boolean> | null = null
  #hasEnded = false
  #isUseless = false

  constructor(path: string, file: string, ports: GraphPorts) {
    this.file = file
    const name = import.meta.url.endsWith('.ts') ? './graph-worker.ts' : './graph-worker.js'
    const data: GraphWorkerData = { graphsPath: path, graphsFile: file }
    this.#worker = new Worker(new URL(name, import.meta.url), { workerData: data })
    this.#worker.unref()
    const { reads, threads, items, door, log } = ports
    this.#channel = new WorkerChannel(this.#worker as ThreadPort, {
      reads: (method: string, args: unknown[]) => called(reads, method, args),
      threads: (method: string, args: unknown[]) => called(threads, method, args),
      items: (method: string, args: unknown[]) => called(items, method, args),
      door: (method: string, args: unknown[]) => called(door, method, args),
      log: (level: keyof GraphLog, fields: object, text: string) => log[level](fields, text),
      told: (run: number, what: 'emit' | 'record' | 'keep', told: never) => this.#hear(run, what, told),
      flushed: (run: number) => this.#hearings.get(run)?.sink.flushed()
    })
    this.#worker.on('error', (error) => this.#end(error))
    this.#worker.on('exit', () => this.#end(new Error('it has ended')))
  }

  /** It has ended, or has loaded nothing and never will: the next call takes a new one. */
  get isGone(): boolean {
    return this.#hasEnded || this.#isUseless
  }

  /** The graphs it has loaded. @throws AgentFileError */
  async graphs(): Promise<GraphInfo[]> {
    return withTimeout(
      this.#channel.call<GraphInfo[]>('graphs'),
      START_MS,
      () => new AgentFileError(`${this.file} was not loaded within ${START_MS / 1000} seconds: it blocks its thread`)
    )
  }

  /** Loads the graphs of one that has ended, which were loaded before: what keeps them from it now may pass. */
  loadAgain(): void {
    this.graphs().catch(() => {
      this.#isUseless = true
      this.retire()
    })
  }

  /** Resolves when it is known whether the worker still responds. */
  async answers(): Promise<void> {
    await this.#deafness
  }

  async start(input: AgentInput, sink: Sink, signal: AbortSignal): Promise<void> {
    const run = ++this.#runs
    let fail = (_error: unknown): void => {}
    const failed = new Promise<never>((_resolve, reject) => {
      fail = reject
    })
    failed.catch(() => {})
    this.#hearings.set(run, { sink, fail, unheard: 0, isFull: false })
    const work = this.#channel.call<void>('start', run, input)
    work.catch(() => {})
    const stop = () => this.#channel.send('abort', run)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await Promise.race([work, failed, this.#stopped(work, signal)])
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      stop()
      signal.removeEventListener('abort', stop)
      this.#hearings.delete(run)
      this.#leaveIfIdle()
    }
  }

  state<T>(method: string, args: readonly unknown[]): Promise<T> {
    return this.#channel.call<T>('states', method, args).finally(() => this.#leaveIfIdle())
  }

  /** Replaced by a new worker: it closes when it has nothing left to do. */
  retire(): void {
    this.#isRetired = true
    this.#leaveIfIdle()
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #leaveIfIdle(): void {
    if (this.#isRetired && this.#hearings.size === 0 && this.#channel.size === 0) this.close().catch(warnUnexpected)
  }

  /** After an abort: a responsive worker gets a few seconds to end the run, an unresponsive one is terminated. */
  async #stopped(work: Promise<void>, signal: AbortSignal): Promise<void> {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    this.#deafness ??= this.#listen()
    if (!(await this.#deafness)) await withTimeout(work, STOP_MS)
  }

  async #listen(): Promise<boolean> {
    const pong = this.#channel.call('ping').then(
      () => true,
      () => true
    )
    const isDeaf = !(await withTimeout(pong, STOP_MS))
    if (isDeaf) await this.close()
    this.#deafness = null
    return isDeaf
  }

  #hear(run: number, what: 'emit' | 'record' | 'keep', told: StreamPart & AgentRecord & StateWrite): void {
    const hearing = this.#hearings.get(run)
    if (!hearing) return
    hearing.unheard++
    try {
      // `keep` returns nothing.
      const hasSpace = hearing.sink[what](told) ?? true
      if (hearing.isFull) return
      if (hasSpace) {
        if (hearing.unheard >= HEARD) this.#acknowledge(run, hearing)
        return
      }
    } catch (error) {
      return hearing.fail(error)
    }
    hearing.isFull = true
    hearing.sink
      .space()
      .then(() => {
        hearing.isFull = false
        this.#acknowledge(run, hearing)
      })
      .catch((error: unknown) => hearing.fail(error))
  }

  #acknowledge(run: number, hearing: Hearing): void {
    this.#channel.send('heard', run, hearing.unheard)
    hearing.unheard = 0
  }

  #end(error: Error): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const text = `The thread of ${this.file} is gone: ${error.message}`
    this.#channel.close(new RunCut('loss', 'GraphThreadLost', text))
  }
}

export class GraphWorkers {
  readonly #path: string
  readonly #ports: GraphPorts
  /** Workers for runs, by file. */
  #threads = new Map<string, GraphThread>()
  /** Workers for states, by file, started on first use. */
  #readers = new Map<string, GraphThread>()
  /** Graphs with their files, in configured order. */
  #graphs: readonly (GraphInfo & { readonly file: string })[] = []

  private constructor(path: string, ports: GraphPorts) {
    this.#path = path
    this.#ports = ports
  }

  /** @throws AgentFileError for the first graph that cannot be loaded */
  static async load(path: string, ports: GraphPorts): Promise<GraphWorkers> {
    const workers = new GraphWorkers(path, ports)
    await workers.reload()
    return workers
  }

  /** Loads all graphs and their imports again; active runs continue with the old code. @returns their names */
  async reload(): Promise<string[]> {
    const specs = graphSpecs(this.#path)
    const threads = new Map<string, GraphThread>()
    try {
      const infos = new Map<string, GraphInfo>()
      for (const { file } of specs) {
        if (threads.has(file)) continue
        const thread = new GraphThread(this.#path, file, this.#ports)
        threads.set(file, thread)
        for (const info of await thread.graphs()) infos.set(info.id, info)
      }
      const before = [...this.#threads.values(), ...this.#readers.values()]
      this.#threads = threads
      this.#readers = new Map()
      this.#graphs = specs.map(({ id, file }) => ({ ...infos.get(id)!, file }))
      for (const thread of before) thread.retire()
    } catch (error) {
      for (const thread of threads.values()) thread.close().catch(warnUnexpected)
      throw error
    }
    return this.#graphs.map(({ id }) => id)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#threads.values(), ...this.#readers.values()].map((thread) => thread.close()))
  }

  get agent(): GraphsAgent {
    return {
      start: async (input, sink, signal) => {
        const graph = this.#graphs.find(({ id }) => input.graphId === null || id === input.graphId)
        if (!graph) throw new AgentError('GraphNotFound', `There is no graph ${JSON.stringify(input.graphId)}`)
        // A worker blocked by an aborted run may be about to be terminated.
        await this.#threadOf(graph.id, this.#threads).answers()
        await this.#threadOf(graph.id, this.#threads).start({ ...input, graphId: graph.id }, sink, signal)
      },
      models: () => [],
      states: this.#states()
    }
  }

  #states(): StatePort {
    const { reads, threads } = this.#ports
    const ofThread = async <T>(method: string, threadId: string, ...more: readonly unknown[]): Promise<T> => {
      const thread = this.#threadOf((await threads.graphOf(threadId)) ?? null, this.#readers)
      return thread.state<T>(method, [threadId, ...more])
    }
    const ofGraph = async <T>(method: string, graphId: string, ...more: readonly unknown[]): Promise<T | null> => {
      if (!this.#graphs.some(({ id }) => id === graphId)) return null
      return this.#threadOf(graphId, this.#readers).state<T>(method, [graphId, ...more])
    }
    return {
      isOfGraphs: true,
      has: hasCheckpoint(reads),
      get: (...args) => ofThread('get', ...args),
      values: (...args) => ofThread('values', ...args),
      history: (...args) => ofThread('history', ...args),
      update: (...args) => ofThread('update', ...args),
      build: async (threadId, graphId, steps) => {
        const id = graphId ?? (await threads.graphOf(threadId)) ?? null
        return this.#threadOf(id, this.#readers).state('build', [threadId, id ?? this.#graphs[0]!.id, steps])
      },
      copy: (from, to) => threads.copy(from, to),
      graphs: () => this.#graphs.map(({ file: _, ...info }) => info),
      schemas: (...args) => ofGraph('schemas', ...args),
      draw: (...args) => ofGraph('draw', ...args),
      subgraphs: (...args) => ofGraph('subgraphs', ...args)
    }
  }

  /** The worker of a graph, or of the first graph; started if it is missing or gone. */
  #threadOf(graphId: string | null, among: Map<string, GraphThread>): GraphThread {
    // A langgraph.json without graphs is refused, so there is a first one.
    const { file } = this.#graphs.find(({ id }) => id === graphId) ?? this.#graphs[0]!
    const thread = among.get(file)
    if (thread && !thread.isGone) return thread
    const again = new GraphThread(this.#path, file, this.#ports)
    again.loadAgain()
    among.set(file, again)
    return again
  }
}
