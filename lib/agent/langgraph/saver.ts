// LangGraph's checkpointer over our tables: checkpoints are written with the other records of a run, in the same batches and
// under the same lease, and are deleted with the thread. One instance serves all graphs and runs, as LangGraph expects; the
// config of a call names its session.
import { randomBytes } from 'node:crypto'
import type {
  GraphPage,
  GraphTaskWrite,
  GraphTaskWrites,
  GraphValue,
  GraphWrite,
  StoredGraphCheckpoint
} from '../../graph-state.ts'
import { isObject, type JsonObject } from '../../types.ts'
import type { LangGraph, RunnableConfig, Serde } from './library.ts'

export interface GraphReads {
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
}

/** A session of reads and writes: a run, an update, or read-only. */
export interface SaverSession extends GraphReads {
  readonly runId: string | null
  keep(write: GraphWrite): Promise<void> | void
}

/** The config member that names the session; LangGraph hides members that start with `__`. */
export const SESSION = '__colloquy'

/** LangGraph's tuple of a checkpoint. */
export interface CheckpointTuple {
  readonly config: RunnableConfig
  readonly checkpoint: { readonly id: string; readonly channel_values: Record<string, unknown> }
  readonly metadata: JsonObject
  readonly parentConfig?: RunnableConfig
  readonly pendingWrites: readonly [string, string, unknown][]
}

interface Checkpoint {
  readonly id: string
  readonly channel_values: Record<string, unknown>
  readonly channel_versions: Record<string, string | number>
}

/** LangGraph's indexes for writes a task has only one of. */
const PLACES: Readonly<Record<string, number>> = {
  __error__: -1,
  __scheduled__: -2,
  __interrupt__: -3,
  __resume__: -4
}
/** Config members that are columns of a checkpoint. */
const COLUMNS = ['checkpoint_ns', 'checkpoint_id', 'checkpoint_map', 'run_id', 'thread_id']
const VERSION_DIGITS = 12
const PAGE = 100

export type Sessions = ReadonlyMap<string, SaverSession>

/** @param reads for calls without a session, which may only read */
export function createSaver(
  library: Pick<LangGraph, 'BaseCheckpointSaver'>,
  sessions: Sessions,
  reads: GraphReads
): object {
  return new (class Saver extends library.BaseCheckpointSaver {
    async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
      const { threadId, ns, checkpointId } = checkpointPlace(config)
      const stored = await sessionOf(config).load(threadId, ns, checkpointId)
      return stored ? tupleOf(this.serde, stored, config) : undefined
    }

    async *list(
      config: RunnableConfig,
      options: { limit?: number; before?: RunnableConfig; filter?: Record<string, unknown> } = {}
    ): AsyncGenerator<CheckpointTuple> {
      const { threadId, checkpointId } = checkpointPlace(config)
      const ns = config.configurable?.checkpoint_ns
      const session = sessionOf(config)
      let left = options.limit ?? Number.POSITIVE_INFINITY
      let before = options.before?.configurable?.checkpoint_id
      for (;;) {
        const limit = checkpointId === null && !options.filter ? Math.min(left, PAGE) : PAGE
        const page = { ns: typeof ns === 'string' ? ns : null, limit, ...(typeof before === 'string' && { before }) }
        const found = limit > 0 ? await session.list(threadId, page) : []
        for (const stored of found) {
          before = stored.checkpoint_id
          if (checkpointId !== null && stored.checkpoint_id !== checkpointId) continue
          const tuple = await tupleOf(this.serde, stored, config)
          if (!holds(tuple.metadata, options.filter)) continue
          yield tuple
          if (--left <= 0) return
        }
        if (found.length < limit || limit <= 0) return
      }
    }

    async put(
      config: RunnableConfig,
      checkpoint: Checkpoint,
      metadata: JsonObject,
      newVersions: Record<string, string | number>
    ): Promise<RunnableConfig> {
      const { threadId, ns, checkpointId } = checkpointPlace(config)
      const { channel_values, ...rest } = checkpoint
      const versioned = Object.entries(checkpoint.channel_versions).filter(([name]) =>
        Object.hasOwn(channel_values, name)
      )
      // Only values written in this step; the first checkpoint stores all of them.
      const isNew = ([name]: [string, unknown]) => checkpointId === null || Object.hasOwn(newVersions, name)
      const values = versioned.filter(isNew).map(async ([name, version]) => ({
        name: `${name} ${version}`,
        ...(await dumped(this.serde, channel_values[name]))
      }))
      const session = sessionOf(config)
      await session.keep({
        name: 'graph.put',
        thread_id: threadId,
        ns,
        checkpoint_id: checkpoint.id,
        parent_id: checkpointId,
        run_id: session.runId,
        checkpoint: JSON.stringify(rest),
        metadata: JSON.stringify({ ...ownIn(config), ...metadata }),
        names: versioned.map(([name, version]) => `${name} ${version}`),
        values: await Promise.all(values)
      })
      // Updates continue with this config, in the same session.
      const named = config.configurable?.[SESSION]
      return {
        configurable: {
          thread_id: threadId,
          checkpoint_ns: ns,
          checkpoint_id: checkpoint.id,
          ...(named !== undefined && { [SESSION]: named })
        }
      }
    }

    async putWrites(config: RunnableConfig, writes: [string, unknown][], taskId: string, taskPath = ''): Promise<void> {
      const { threadId, ns, checkpointId } = checkpointPlace(config)
      if (checkpointId === null) throw new Error('The configuration of task writes names no checkpoint_id')
      const saved = writes.map(async ([channel, value], at) => ({
        task_id: taskId,
        task_path: taskPath,
        idx: PLACES[channel] ?? at,
        channel,
        ...(await dumped(this.serde, value))
      }))
      const session = sessionOf(config)
      const place = { thread_id: threadId, ns, checkpoint_id: checkpointId, run_id: session.runId }
      await session.keep({ name: 'graph.write', ...place, writes: await Promise.all(saved) })
    }

    /** Checkpoints are deleted with their thread. */
    async deleteThread(): Promise<void> {}

    /** Versions are unique across branches of a thread. */
    getNextVersion(current: string | number | undefined): string {
      const last = typeof current === 'string' ? Number.parseInt(current, 10) : (current ?? 0)
      return `${String(last + 1).padStart(VERSION_DIGITS, '0')}.${randomBytes(6).toString('hex')}`
    }
  })()

  function sessionOf({ configurable }: RunnableConfig): SaverSession {
    const id = configurable?.[SESSION]
    if (typeof id !== 'string') return { runId: null, keep: refuse, ...methodsOf(reads) }
    const session = sessions.get(id)
    if (!session) throw new Error('The run of this graph has ended')
    return session
  }
}

function methodsOf(reads: GraphReads): GraphReads {
  return { load: (...of) => reads.load(...of), list: (...of) => reads.list(...of) }
}

function refuse(): never {
  throw new Error('Outside of a run, checkpoints can only be read')
}

function checkpointPlace({ configurable = {} }: RunnableConfig): {
  threadId: string
  ns: string
  checkpointId: string | null
} {
  const { thread_id, checkpoint_ns, checkpoint_id } = configurable
  if (typeof thread_id !== 'string') throw new Error('The configuration of a checkpoint names no thread_id')
  return {
    threadId: thread_id,
    ns: typeof checkpoint_ns === 'string' ? checkpoint_ns : '',
    checkpointId: typeof checkpoint_id === 'string' && checkpoint_id !== '' ? checkpoint_id : null
  }
}

/** A run's configuration, stored in its checkpoints' metadata, where clients look for it. */
function ownIn({ configurable = {}, metadata }: RunnableConfig): JsonObject {
  const given = Object.entries({ ...configurable, ...metadata })
  const kept = given.filter(
    ([key, value]) => !/^(__|langgraph_auth_)/.test(key) && !COLUMNS.includes(key) && isPlain(value)
  )
  // Only JSON is left.
  return Object.fromEntries(kept) as JsonObject
}

function isPlain(value: unknown): boolean {
  return (
    value === null || ['string', 'number', 'boolean'].includes(typeof value) || isObject(value) || Array.isArray(value)
  )
}

function holds(metadata: JsonObject, filter: Record<string, unknown> = {}): boolean {
  return Object.entries(filter).every(([key, value]) => JSON.stringify(metadata[key]) === JSON.stringify(value))
}

/** The thread id comes from the row, because the thread may be a copy. The session is kept: LangGraph writes forks with this config. */
async function tupleOf(serde: Serde, stored: StoredGraphCheckpoint, asked: RunnableConfig): Promise<CheckpointTuple> {
  const { thread_id, ns, checkpoint_id, parent_id, run_id } = stored
  const [values, pendingWrites] = await Promise.all([
    Promise.all(stored.values.map(async (value) => [channelIn(value.name), await loaded(serde, value)] as const)),
    Promise.all(
      stored.writes.map(
        async (one): Promise<[string, string, unknown]> => [one.task_id, one.channel, await loaded(serde, one)]
      )
    )
  ])
  // Written by `put`.
  const checkpoint = JSON.parse(stored.checkpoint) as Checkpoint
  const metadata = JSON.parse(stored.metadata) as JsonObject
  const session = asked.configurable?.[SESSION]
  const named = session === undefined ? {} : { [SESSION]: session }
  const place = (id: string) => ({ configurable: { thread_id, checkpoint_ns: ns, checkpoint_id: id, ...named } })
  return {
    config: place(checkpoint_id),
    checkpoint: { ...checkpoint, channel_values: Object.fromEntries(values) },
    metadata: { ...metadata, thread_id, ...(run_id !== null && { run_id }) },
    ...(parent_id !== null && { parentConfig: place(parent_id) }),
    pendingWrites
  }
}

function channelIn(name: string): string {
  return name.slice(0, name.lastIndexOf(' '))
}

async function dumped(serde: Serde, value: unknown): Promise<{ type: string; data: string }> {
  const [type, bytes] = await serde.dumpsTyped(value)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return type === 'json'
    ? { type, data: buffer.toString('utf8') }
    : { type: `base64 ${type}`, data: buffer.toString('base64') }
}

async function loaded(
  serde: Serde,
  { type, data }: { readonly type: string; readonly data: string }
): Promise<unknown> {
  if (!type.startsWith('base64 ')) return serde.loadsTyped(type, Buffer.from(data))
  return serde.loadsTyped(type.slice('base64 '.length), Buffer.from(data, 'base64'))
}

/** A run's session: caches the newest checkpoints, which may not be stored yet. */
export class RunSession implements SaverSession {
  readonly runId: string
  readonly #reads: GraphReads
  readonly #write: (write: GraphWrite) => Promise<void> | void
  readonly #flushed: () => Promise<void>
  /** The newest checkpoint per namespace. */
  readonly #newest = new Map<string, StoredGraphCheckpoint>()
  /** The checkpoint per namespace last loaded by id: LangGraph compares it with the newest to detect a fork. */
  readonly #addressed = new Map<string, StoredGraphCheckpoint>()
  /** The root checkpoint the run started from; null: there was none; undefined: not loaded yet. */
  opened: StoredGraphCheckpoint | null | undefined

  constructor(
    runId: string,
    reads: GraphReads,
    write: (write: GraphWrite) => Promise<void> | void,
    flushed: () => Promise<void>
  ) {
    this.runId = runId
    this.#reads = reads
    this.#write = write
    this.#flushed = flushed
  }

  /** The newest root checkpoint written by this run; null: none. */
  get last(): string | null {
    const last = this.#newest.get('')
    return last && last.run_id === this.runId ? last.checkpoint_id : null
  }

  async load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null> {
    const newest = this.#newest.get(ns)
    if (newest && (checkpointId === null || checkpointId === newest.checkpoint_id)) return newest
    const addressed = this.#addressed.get(ns)
    if (addressed && checkpointId === addressed.checkpoint_id) return addressed
    // Rare: an older checkpoint, which may not be stored yet.
    if (this.#newest.size > 0) await this.#flushed()
    const stored = await this.#reads.load(threadId, ns, checkpointId)
    if (ns === '' && this.opened === undefined) this.opened = stored
    if (stored && checkpointId !== null) this.#addressed.set(ns, stored)
    else if (stored && !newest) this.#newest.set(ns, stored)
    return stored
  }

  async list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]> {
    await this.#flushed()
    return this.#reads.list(threadId, page)
  }

  keep(write: GraphWrite): Promise<void> | void {
    if (write.name === 'graph.put') this.#put(write)
    else this.#add(write)
    return this.#write(write)
  }

  #put({ name: _, ...checkpoint }: GraphWrite & { name: 'graph.put' }): void {
    const bases = [this.#addressed.get(checkpoint.ns), this.#newest.get(checkpoint.ns)]
    const known = [...bases.flatMap((base) => base?.values ?? []), ...checkpoint.values]
    const byName = new Map(known.map((value) => [value.name, value]))
    const values = checkpoint.names.flatMap((name) => byName.get(name) ?? [])
    this.#newest.set(checkpoint.ns, { ...checkpoint, values, writes: [] })
  }

  #add({ ns, checkpoint_id, writes }: GraphTaskWrites): void {
    for (const held of [this.#newest, this.#addressed]) {
      const one = held.get(ns)
      if (one?.checkpoint_id === checkpoint_id) held.set(ns, withWrites(one, writes))
    }
  }
}

/** An update's session: it sees its own writes over what is stored; they are stored together at its end, or not at all. */
export class UpdateSession implements SaverSession {
  readonly runId = null
  readonly writes: GraphWrite[] = []
  readonly #reads: GraphReads
  /** Values it has seen, by namespace and name: its checkpoints name old ones too. */
  readonly #values = new Map<string, GraphValue>()

  constructor(reads: GraphReads) {
    this.#reads = reads
  }

  async load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null> {
    const found = this.#own(ns, checkpointId) ?? (await this.#reads.load(threadId, ns, checkpointId))
    if (!found) return null
    this.#know(ns, found.values)
    return this.writes.reduce((whole, one) => {
      const isOfIt = one.name === 'graph.write' && one.ns === ns && one.checkpoint_id === found.checkpoint_id
      return isOfIt ? withWrites(whole, one.writes) : whole
    }, found)
  }

  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]> {
    return this.#reads.list(threadId, page)
  }

  keep(write: GraphWrite): void {
    this.writes.push(write)
    if (write.name === 'graph.put') this.#know(write.ns, write.values)
  }

  #know(ns: string, values: readonly GraphValue[]): void {
    for (const value of values) this.#values.set(`${ns}\n${value.name}`, value)
  }

  #own(ns: string, checkpointId: string | null): StoredGraphCheckpoint | null {
    for (const one of this.writes.toReversed()) {
      if (one.name !== 'graph.put' || one.ns !== ns) continue
      if (checkpointId !== null && one.checkpoint_id !== checkpointId) continue
      const { name: _, ...checkpoint } = one
      const values = one.names.flatMap((name) => this.#values.get(`${ns}\n${name}`) ?? [])
      return { ...checkpoint, values, writes: [] }
    }
    return null
  }
}

function withWrites(stored: StoredGraphCheckpoint, writes: readonly GraphTaskWrite[]): StoredGraphCheckpoint {
  const isIn = (list: readonly GraphTaskWrite[]) => (write: GraphTaskWrite) =>
    list.some(({ task_id, idx }) => task_id === write.task_id && idx === write.idx)
  const kept = stored.writes.filter((one) => one.idx >= 0 || !isIn(writes)(one))
  const added = writes.filter((one) => !isIn(kept)(one))
  return { ...stored, writes: [...kept, ...added].sort(inOrder) }
}

function inOrder(one: GraphTaskWrite, other: GraphTaskWrite): number {
  const [left, right] = [one, other].map(({ task_path, task_id }) => `${task_path}\n${task_id}`)
  return left === right ? one.idx - other.idx : left! < right! ? -1 : 1
}
