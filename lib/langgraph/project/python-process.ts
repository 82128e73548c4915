// The process that runs the Python graphs of one project: started, watched, and ended. Whatever it does to itself is the end of its own
// runs, and of nothing else.
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Duplex, Readable } from 'node:stream'
import { AgentFileError } from '../../agent/agent-file.ts'
import { RunCut } from '../../agent/runtime.ts'
import { Poller } from '../../base/poller.ts'
import { withTimeout } from '../../base/waiting.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { endGroup, processGroups } from '../../base/process-groups.ts'
import type { GraphLog } from './graph-ports.ts'
import { PipePort } from './pipe-port.ts'
import { ARGUMENTS, interpreterOf } from './python-interpreter.ts'
import { LOST } from './state-owner.ts'
import type { Handlers } from '../../base/thread-channel.ts'
import { WorkerChannel } from './worker-channel.ts'

/** Timeout for loading a project, in ms: large ones import for half a minute on a busy machine. */
const LOAD_MS = 180_000
/** Between two looks at the process, in ms. */
const WATCH_MS = 1_000
/** Beyond agent.python_blocked_ms, in ms: time for the process to write its stacks. */
const REPORT_MS = 2_000
/** New runs are refused from this part of agent.python_memory_mb on. */
const FULL = 0.9
/** Time for an idle process to end by itself, in ms. */
const EXIT_MS = 2_000

export interface PythonOptions {
  /** agent.python. */
  readonly python: string | null
  /** agent.python_blocked_ms; 0: for ever. */
  readonly blockedMs: number
  /** agent.python_memory_mb; 0: any. */
  readonly memoryMb: number
}

/** A Python graph as langgraph.json names it. */
interface PythonSpec {
  readonly id: string
  readonly description: string | null
  /** A file relative to the project's folder, or a module. */
  readonly place: string
  readonly name: string
}

/** Anything else that langgraph.json names. */
export type PythonPlace = Pick<PythonSpec, 'place' | 'name'>

export interface PythonProjectSpec {
  /** Absolute. */
  readonly folder: string
  /** Who its states belong to. */
  readonly name: string
  readonly dependencies: readonly string[]
  readonly graphs: readonly PythonSpec[]
  /** Of a process in front of the routes, which has no graphs. */
  readonly auth?: PythonPlace | null
  readonly app?: PythonPlace | null
}

/** What the process says of itself once it has loaded the project. */
export interface Opened {
  readonly langgraph: string
  readonly python: string
  readonly pid: number
  readonly loadMs: number
  /** Whether the project's rules say who calls. */
  readonly authenticates?: boolean
  readonly routes?: PythonRoutes
}

/** What the project's app declares. */
export interface PythonRoutes {
  /** It has a router; otherwise it is asked about all that is not ours. */
  readonly isRouter: boolean
  /** Its middlewares lie around ours. */
  readonly isAround: boolean
  readonly routes: readonly { readonly pattern: string; readonly methods: readonly string[] }[]
}

export class PythonProcess {
  readonly #child: ChildProcess
  readonly #channel: WorkerChannel
  readonly #options: PythonOptions
  readonly #log: GraphLog
  readonly #watch: Poller
  #usedMb = 0
  #answeredAt = performance.now()
  #isAsking = false
  /** Graphs that have been made. */
  readonly #made = new Set<string>()
  /** First calls of factories that go on. */
  #loading = 0
  #lost: Error | null = null

  private constructor(child: ChildProcess, handlers: Handlers, options: PythonOptions, log: GraphLog) {
    this.#child = child
    this.#options = options
    this.#log = log
    // Of the descriptors that it was started with, see `start`.
    const [, stdout, stderr, pipe] = child.stdio as unknown as [null, Readable, Readable, Duplex]
    for (const [stream, source] of Object.entries({ stdout, stderr }))
      createInterface({ input: source }).on('line', (line) => log.info({ stream, pid: child.pid }, line))
    this.#channel = new WorkerChannel(new PipePort(pipe), handlers)
    child.on('error', (error) => this.#end(new AgentFileError(`Python cannot be started: ${error.message}`)))
    processGroups.hold(child)
    child.on('exit', (code, signal) => this.#end(lostBy(signal === null ? `it has exited with ${code}` : `${signal}`)))
    // Its exit says why.
    pipe.on('error', () => endGroup(child, 'SIGKILL'))
    pipe.on('close', () => endGroup(child, 'SIGKILL'))
    this.#watch = new Poller({
      everyMs: WATCH_MS,
      work: () => this.#look(),
      onError: (error) => log.error({ err: error }, 'the process of Python graphs cannot be watched')
    })
  }

  /** Starts it and loads the project's graphs. @throws AgentFileError */
  static async start(
    { folder, dependencies, graphs, auth = null, app = null }: PythonProjectSpec,
    handlers: Handlers,
    options: PythonOptions,
    log: GraphLog
  ): Promise<{ readonly process: PythonProcess; readonly opened: Opened }> {
    const python = await interpreterOf(folder, options.python)
    const child = spawn(python, ARGUMENTS, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe', 'pipe'], detached: true })
    const started = new PythonProcess(child, handlers, options, log)
    try {
      const about = { folder, dependencies, graphs, auth, app, blockedMs: options.blockedMs }
      const late = () =>
        new AgentFileError(`The Python files of ${folder} were not loaded in ${LOAD_MS / 1000} seconds`)
      const opened = await withTimeout(started.call<Opened>('open', about), LOAD_MS, late)
      started.#answeredAt = performance.now()
      started.#watch.start()
      return { process: started, opened }
    } catch (error) {
      started.end('its graphs cannot be loaded')
      if (error instanceof AgentFileError) throw error
      throw new AgentFileError(`The Python graphs of ${folder} cannot be loaded: ${String(error)}`)
    }
  }

  get isGone(): boolean {
    return this.#lost !== null
  }

  /** Why it takes no new runs; null: it does. */
  get full(): string | null {
    const { memoryMb } = this.#options
    if (memoryMb === 0 || this.#usedMb < memoryMb * FULL) return null
    return `it uses ${Math.round(this.#usedMb)} MB of ${memoryMb} (agent.python_memory_mb)`
  }

  call<T>(name: string, ...args: readonly unknown[]): Promise<T> {
    return this.#channel.call<T>(name, ...args)
  }

  /** A call of a graph's factory. The first may import half of its project: it has as long as that has at the start. */
  async make<T>(graph: string, ...args: readonly unknown[]): Promise<T> {
    if (this.#made.has(graph)) return this.call<T>('make', graph, ...args)
    this.#loading++
    try {
      const made = await this.call<T>('make', graph, ...args)
      this.#made.add(graph)
      return made
    } finally {
      this.#loading--
      this.#answeredAt = performance.now()
    }
  }

  send(name: string, ...args: readonly unknown[]): void {
    this.#channel.send(name, ...args)
  }

  /** Ends it now: its runs fail. */
  end(reason: string): void {
    endGroup(this.#child, 'SIGKILL')
    this.#end(lostBy(reason))
  }

  /** Ends it when it has nothing left to do. */
  async close(): Promise<void> {
    if (this.isGone || this.#child.exitCode !== null) return
    const exited = new Promise<void>((resolve) => this.#child.once('exit', () => resolve()))
    this.send('exit')
    this.#end(lostBy('the gateway ends'))
    await withTimeout(exited, EXIT_MS)
    endGroup(this.#child, 'SIGKILL')
  }

  // ------------------------------------------------------------------------------------------------------- the watchdog

  async #look(): Promise<void> {
    if (this.isGone) return
    this.#usedMb = memoryOf(this.#child.pid)
    const { memoryMb, blockedMs } = this.#options
    if (memoryMb > 0 && this.#usedMb > memoryMb)
      return this.#kill(`it uses more than ${memoryMb} MB (agent.python_memory_mb)`)
    if (!this.#isAsking) {
      this.#isAsking = true
      const answered = () => {
        this.#isAsking = false
        this.#answeredAt = performance.now()
      }
      this.#channel.call('ping').then(answered, () => {})
    }
    const allowedMs = this.#loading > 0 ? Math.max(blockedMs, LOAD_MS) : blockedMs
    if (blockedMs > 0 && performance.now() - this.#answeredAt > allowedMs + REPORT_MS)
      this.#kill(`it has blocked its event loop for ${allowedMs} ms (agent.python_blocked_ms)`)
  }

  #kill(reason: string): void {
    this.#log.error({ pid: this.#child.pid, reason }, 'the process of Python graphs is ended')
    this.end(reason)
  }

  #end(error: Error): void {
    if (this.#lost) return
    this.#lost = error
    this.#watch.stop().catch(warnUnexpected)
    this.#channel.close(error)
  }
}

function lostBy(reason: string): RunCut {
  return new RunCut('loss', LOST, `The process of the Python graphs is gone: ${reason}`)
}

/** Resident memory in MB; 0: unknown. */
function memoryOf(pid: number | undefined): number {
  try {
    const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kilobytes) / 1024
  } catch {
    return 0
  }
}
