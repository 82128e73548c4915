// The thread in which the graphs of one file work [graphs.isolation worker]: all that they need of the service lies on the other side.
import { parentPort, workerData } from 'node:worker_threads'
import { type Door, registerLoopback } from '../../loopback.ts'
import type { AgentInput, AgentRecord, Sink, StateWrite, StreamPart } from '../runtime.ts'
import { loadGraphs } from './config-file.ts'
import type { GraphLog, GraphPorts } from './graph-ports.ts'
import { GraphSet } from './graph-set.ts'
import { createGraphsAgent } from './graphs-agent.ts'
import { plain } from './plain.ts'
import { registerSdkLogger } from './sdk-logger.ts'
import { type ThreadPort, WorkerChannel } from './worker-channel.ts'

/** Which graphs are this thread's. */
export interface GraphWorkerData {
  /** langgraph.json, or its folder. */
  readonly graphsPath: string
  /** Absolute. */
  readonly graphsFile: string
}

/** What may be told before the other side has heard it: then it is waited for. */
const UNHEARD_MAX = 256

/** The sink of a run, whose other end is in the main thread. */
class RemoteSink implements Sink {
  readonly #run: number
  #unheard = 0
  #waiting: (() => void)[] = []

  constructor(run: number) {
    this.#run = run
  }

  emit(part: StreamPart): boolean {
    return this.#tell('emit', part)
  }

  record(record: AgentRecord): boolean {
    return this.#tell('record', record)
  }

  keep(write: StateWrite): void {
    this.#tell('keep', write)
  }

  space(): Promise<void> {
    if (this.#unheard < UNHEARD_MAX) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  async flushed(): Promise<void> {
    await channel.call('flushed', this.#run)
  }

  heard(count: number): void {
    this.#unheard -= count
    if (this.#unheard >= UNHEARD_MAX) return
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** It is over: nobody waits for space any more. */
  end(): void {
    this.heard(this.#unheard)
  }

  #tell(what: string, told: unknown): boolean {
    channel.tell('told', this.#run, what, told)
    return ++this.#unheard < UNHEARD_MAX
  }
}

const { graphsPath, graphsFile } = workerData as GraphWorkerData
const runs = new Map<number, { readonly sink: RemoteSink; readonly away: AbortController }>()
// This file is run as a worker, which has one.
const channel: WorkerChannel = new WorkerChannel(parentPort as ThreadPort, {
  start: async (run: number, input: AgentInput) => {
    const [sink, away] = [new RemoteSink(run), new AbortController()]
    runs.set(run, { sink, away })
    try {
      await (await agent).start(input, sink, away.signal)
    } finally {
      runs.delete(run)
    }
  },
  abort: (run: number) => {
    runs.get(run)?.away.abort()
    runs.get(run)?.sink.end()
  },
  heard: (run: number, count: number) => runs.get(run)?.sink.heard(count),
  states: async (method: string, args: readonly unknown[]) => called((await agent).states, method, args),
  ping: () => {},
  graphs: async () => (await agent).states?.graphs()
})

const agent = (async () => {
  const say = (level: keyof GraphLog) => (fields: object, text: string) =>
    // What a graph's author logs may be anything.
    channel.tell('log', level, plain(fields), text)
  const log: GraphLog = { info: say('info'), warn: say('warn'), error: say('error') }
  // Files may ask for it while they are loaded.
  registerSdkLogger(log)
  const door: Door = remote('door', ['open', 'close'])
  registerLoopback(door)
  const graphs = await loadGraphs(graphsPath, graphsFile)
  const ports: GraphPorts = {
    reads: remote('reads', ['load', 'list']),
    threads: remote('threads', ['graphOf', 'configOf', 'write', 'copy', 'isBusy']),
    items: remote('items', ['get', 'put', 'remove', 'search', 'namespaces']),
    door,
    log
  }
  return createGraphsAgent(new GraphSet(graphs, ports.reads), ports)
})()
// Who asks for it hears of it.
agent.catch(() => {})

/** A port of the service, method by method. */
function remote<T>(name: string, methods: readonly (keyof T & string)[]): T {
  const entries = methods.map((method) => [method, (...args: unknown[]) => channel.call(name, method, args)])
  // All methods of the port are named.
  return Object.fromEntries(entries) as T
}

function called(target: unknown, method: string, args: readonly unknown[]): unknown {
  // The other side names methods of the port's type alone.
  return (target as Record<string, (...given: readonly unknown[]) => unknown>)[method]!(...args)
}
