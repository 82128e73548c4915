// A graph of a Python process behind the interface of LangGraph.js, so that runs and states need not know where it is. It was made for
// one call, like those of factories, and stays with the process it was made in.
import type { Json, JsonObject } from '../../base/types.ts'
import { objectOr, textOr } from '../../base/json.ts'
import type { FactoryRuntime } from './graph-set.ts'
import type { CompiledGraph, LangGraph, RunnableConfig, StateSnapshot } from './library.ts'
import type { PythonProcess } from './python-process.ts'
import { SESSION } from './saver.ts'

/** Chunks of a run per acknowledgement to its process. */
const HEARD = 64

/** LangGraph's commands, as they are sent. */
class Command {
  readonly fields: object
  constructor(fields: object) {
    this.fields = fields
  }
}

class Send {
  readonly node: string
  readonly args: unknown
  constructor(node: string, args: unknown) {
    this.node = node
    this.args = args
  }
}

/** What is different in a graph of another process. */
export function remoteLibrary(version: string): LangGraph {
  // Its own checkpointer and store are in the process.
  return { version, isRemote: true, schemas: null, Command, Send, BaseStore: Object, BaseCheckpointSaver: NoSaver }
}

class NoSaver {
  readonly serde = {
    dumpsTyped: (): never => this.#refuse(),
    loadsTyped: (): never => this.#refuse()
  }
  #refuse(): never {
    throw new Error('The values of a Python graph are read in its process')
  }
}

/** What the process has made for a call. */
interface MadeGraph {
  /** A graph's id, or the number of one that has to be released; null: one that is gone, of which states are read. */
  readonly graph: string | number | null
  readonly channels: readonly string[]
}

/** The stores of calls, by the keys that the process has of them. */
export type Stores = Map<string, { batch(operations: readonly object[]): Promise<unknown[]> }>

export class PythonGraph implements CompiledGraph {
  readonly channels: Record<string, unknown>
  readonly #process: PythonProcess
  readonly #graph: string | number | null
  readonly #streams: ChunkStreams
  readonly #stores: Stores

  private constructor(process: PythonProcess, { graph, channels }: MadeGraph, streams: ChunkStreams, stores: Stores) {
    this.#process = process
    this.#graph = graph
    this.channels = Object.fromEntries(channels.map((name) => [name, true]))
    this.#streams = streams
    this.#stores = stores
  }

  static async make(
    process: PythonProcess,
    id: string,
    config: JsonObject,
    { accessContext, executionRuntime }: FactoryRuntime,
    streams: ChunkStreams,
    stores: Stores
  ): Promise<PythonGraph> {
    const context = executionRuntime?.context ?? null
    const made = await process.make<MadeGraph>(id, config, accessContext, context, null)
    return new PythonGraph(process, made, streams, stores)
  }

  /** Reads what a graph has left that the project names no more. */
  static gone(process: PythonProcess, streams: ChunkStreams, stores: Stores): PythonGraph {
    return new PythonGraph(process, { graph: null, channels: [] }, streams, stores)
  }

  release(): void {
    if (typeof this.#graph === 'number') this.#process.send('release', this.#graph)
  }

  async stream(input: unknown, options: object): Promise<AsyncIterable<unknown>> {
    // Of GraphRun's own making.
    const { configurable, context, signal, store, given, ...rest } = options as RunOptions
    const { session, place } = sessionIn(configurable)
    const key = session ?? ''
    // Its interface is BaseStore's, of which we made it.
    this.#stores.set(key, store as { batch(operations: readonly object[]): Promise<unknown[]> })
    const sent = { ...rest, context, given, configurable: { ...context, ...place } }
    const about = [this.#graph, session, key, inputOf(input), sent] as const
    return this.#streams.open(this.#process, about, signal, () => this.#stores.delete(key))
  }

  async getState(config: object, options: { readonly subgraphs?: boolean } = {}): Promise<StateSnapshot> {
    const { session, place } = sessionIn(objectOr((config as RunnableConfig).configurable as Json))
    const asked = { configurable: place }
    return snapshotOf(await this.#process.call('getState', this.#graph, session, asked, options.subgraphs === true))
  }

  async *getStateHistory(config: object, options: object = {}): AsyncIterable<StateSnapshot> {
    const { session, place } = sessionIn(objectOr((config as RunnableConfig).configurable as Json))
    const found = await this.#process.call<SentSnapshot[]>(
      'history',
      ...[this.#graph, session, { configurable: place }, options]
    )
    for (const one of found) yield snapshotOf(one)
  }

  async updateState(config: object, values: unknown, asNode?: string): Promise<RunnableConfig> {
    const { session, place } = sessionIn(objectOr((config as RunnableConfig).configurable as Json))
    const about = [this.#graph, session, { configurable: place }, inputOf(values), asNode ?? null] as const
    await this.#process.call('updateState', ...about)
    return {}
  }

  async bulkUpdateState(config: object, supersteps: object[]): Promise<RunnableConfig> {
    const { session, place } = sessionIn(objectOr((config as RunnableConfig).configurable as Json))
    const steps = (supersteps as readonly Superstep[]).map(({ updates }) =>
      updates.map(({ values, asNode }) => ({ values: inputOf(values), asNode: asNode ?? null }))
    )
    await this.#process.call('buildState', this.#graph, session, { configurable: place }, steps)
    return {}
  }

  async getGraphAsync({
    xray,
    ...config
  }: RunnableConfig & { readonly xray?: unknown }): Promise<{ toJSON(): unknown }> {
    const drawn = await this.#process.call('draw', this.#graph, config, xray ?? false)
    return { toJSON: () => drawn }
  }

  schemas(): Promise<JsonObject> {
    return this.#process.call('schemas', this.#graph)
  }

  async *getSubgraphsAsync(namespace?: string, recurse = false): AsyncIterable<[string, CompiledGraph]> {
    const found = await this.#process.call<Record<string, JsonObject>>(
      'subgraphs',
      ...[this.#graph, namespace ?? null, recurse]
    )
    // Only their schemas are asked for.
    for (const [path, schemas] of Object.entries(found))
      yield [path, Object.assign(Object.create(this) as PythonGraph, { schemas: () => Promise.resolve(schemas) })]
  }
}

interface RunOptions {
  readonly configurable: JsonObject
  readonly context: JsonObject
  /** The configuration that the caller has given. */
  readonly given: JsonObject
  readonly signal: AbortSignal
  readonly store: object
  readonly [name: string]: unknown
}

interface Superstep {
  readonly updates: readonly { readonly values: unknown; readonly asNode?: string | undefined }[]
}

function sessionIn({ [SESSION]: session, ...place }: JsonObject): { session: string | null; place: JsonObject } {
  return { session: textOr(session), place }
}

/** Values, or a command, told apart. */
function inputOf(given: unknown): object {
  return given instanceof Command ? { command: given.fields } : { values: given ?? null }
}

/** A snapshot with null for what LangGraph.js leaves undefined. */
type SentSnapshot = { readonly [Name in keyof StateSnapshot]: StateSnapshot[Name] | null }

function snapshotOf(sent: SentSnapshot): StateSnapshot {
  const known = Object.entries(sent).filter(([, value]) => value !== null)
  // Values, next, config and tasks are always there.
  return Object.fromEntries(known) as unknown as StateSnapshot
}

// ------------------------------------------------------------------------------------------------------------ streams

type Chunk = readonly [namespace: readonly string[], mode: string, data: unknown]

/** The runs of one process, by number. */
export class ChunkStreams {
  readonly #open = new Map<number, ChunkStream>()
  /** The same by session. */
  readonly #ofSession = new Map<string, ChunkStream>()
  #count = 0

  hear(number: number, chunk: Chunk): void {
    this.#open.get(number)?.push(chunk)
  }

  /** Resolves when the run of a session has taken what its process has sent so far: a state is stored behind what led to it. */
  async caughtUp(session: string | null): Promise<void> {
    await this.#ofSession.get(session ?? '')?.caughtUp()
  }

  /** @param onEnd called once, whether it ends by itself, fails, or is left */
  open(
    process: PythonProcess,
    about: readonly unknown[],
    signal: AbortSignal,
    onEnd: () => void
  ): AsyncIterable<unknown> {
    const number = ++this.#count
    const stream = new ChunkStream((count) => process.send('heard', number, count))
    const withSubgraphs = objectOr(about.at(-1) as Json).subgraphs === true
    const abort = () => stream.fail(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    const session = textOr(about[1] as Json) ?? ''
    this.#open.set(number, stream)
    this.#ofSession.set(session, stream)
    process.call('stream', number, ...about).then(
      () => stream.end(),
      (error: unknown) => stream.fail(error)
    )
    const leave = () => {
      // A node that cannot be stopped goes on: what it writes finds no session any more.
      process.send('cancel', number)
      signal.removeEventListener('abort', abort)
      this.#open.delete(number)
      this.#ofSession.delete(session)
      onEnd()
    }
    if (signal.aborted) abort()
    return stream.chunks(withSubgraphs, leave)
  }
}

class ChunkStream {
  readonly #acknowledge: (count: number) => void
  #chunks: Chunk[] = []
  #taken = 0
  #pushed = 0
  /** How many its reader has done with. */
  #passed = 0
  /** Who waits until it is at a chunk, in order. */
  #waiting: { readonly at: number; resolve(): void }[] = []
  #end: { readonly error: unknown } | null = null
  #wake: () => void = () => {}

  constructor(acknowledge: (count: number) => void) {
    this.#acknowledge = acknowledge
  }

  push(chunk: Chunk): void {
    this.#chunks.push(chunk)
    this.#pushed++
    this.#wake()
  }

  async caughtUp(): Promise<void> {
    const at = this.#pushed
    if (this.#passed < at) await new Promise<void>((resolve) => this.#waiting.push({ at, resolve }))
  }

  end(): void {
    this.#end ??= { error: null }
    this.#wake()
  }

  fail(error: unknown): void {
    this.#chunks = []
    this.#end ??= { error }
    this.#pass(Number.POSITIVE_INFINITY)
    this.#wake()
  }

  async *chunks(withSubgraphs: boolean, onLeft: () => void): AsyncIterable<unknown> {
    try {
      for (;;) {
        const chunks = this.#chunks
        this.#chunks = []
        for (const [namespace, mode, data] of chunks) {
          yield withSubgraphs ? [namespace, mode, data] : [mode, data]
          this.#pass(this.#passed + 1)
          if (++this.#taken === HEARD) this.#heard()
        }
        if (this.#taken > 0) this.#heard()
        if (this.#chunks.length > 0) continue
        if (this.#end?.error) throw this.#end.error
        if (this.#end) return
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    } finally {
      this.#pass(Number.POSITIVE_INFINITY)
      onLeft()
    }
  }

  #pass(passed: number): void {
    this.#passed = passed
    while (this.#waiting.length > 0 && this.#waiting[0]!.at <= passed) this.#waiting.shift()!.resolve()
  }

  #heard(): void {
    this.#acknowledge(this.#taken)
    this.#taken = 0
  }
}
