// Entry point of the worker thread for the graphs of one file [graphs.isolation worker]: services are calls to the main thread.
import { parentPort, workerData } from 'node:worker_threads'
import { type Door, registerLoopback } from '../../base/loopback.ts'
import type { AgentInput, AgentRecord, Sink, StateWrite, StreamPart } from '../../agent/runtime.ts'
import { loadGraphs } from './config-file.ts'
import type { GraphLog, GraphPorts } from './graph-ports.ts'
import { GraphSet } from './graph-set.ts'
import { createGraphsAgent } from './graphs-agent.ts'
import { plain } from './plain.ts'
import { registerSdkLogger } from './sdk-logger.ts'
import { called, type ThreadPort, WorkerChannel } from './worker-channel.ts'

/** Which graphs this worker loads. */
export interface GraphWorkerData {
  /** langgraph.json, or its folder. */
  readonly graphsPath: string
  /** Absolute. */
  readonly graphsFile: string
}

/** Maximum unacknowledged messages of a run. */
const UNHEARD_MAX = 256

/** Forwards a run's output to its sink in the main thread. */
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

  /** Its states say where it goes on. */
  reached(): void {}

  async flushed(): Promise<void> {
    await channel.call('flushed', this.#run)
  }

  heard(count: number): void {
    this.#unheard -= count
    if (this.#unheard >= UNHEARD_MAX) return
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** The run is over: releases everybody who waits for space. */
  end(): void {
    this.heard(this.#unheard)
  }

  #tell(what: string, told: unknown): boolean {
    channel.send('told', this.#run, what, told)
    return ++this.#unheard < UNHEARD_MAX
  }
}

const { graphsPath, graphsFile } = workerData as GraphWorkerData
const runs = new Map<number, { readonly sink: RemoteSink; readonly away: AbortController }>()
// Workers have a parentPort.
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
    // Graph authors may log anything.
    channel.send('log', level, plain(fields), text)
  const log: GraphLog = { info: say('info'), warn: say('warn'), error: say('error') }
  // Before loading: files may use it at top level.
  registerSdkLogger(log)
  const door: Door = remote('door', ['open', 'close'])
  registerLoopback(door)
  const graphs = await loadGraphs(graphsPath, graphsFile)
  const ports: GraphPorts = {
    reads: remote('reads', ['load', 'list', 'version', 'nextPart']),
    threads: remote('threads', ['graphOf', 'configOf', 'update', 'copy', 'isBusy']),
    items: remote('items', ['get', 'put', 'remove', 'search', 'namespaces']),
    door,
    log
  }
  return createGraphsAgent(new GraphSet(graphs, ports.reads), ports)
})()
// Callers await it and get the error.
agent.catch(() => {})

/** A port whose methods are calls to the main thread. */
function remote<T>(name: string, methods: readonly (keyof T & string)[]): T {
  const entries = methods.map((method) => [method, (...args: unknown[]) => channel.call(name, method, args)])
  // The caller lists all methods of the port.
  return Object.fromEntries(entries) as T
}
