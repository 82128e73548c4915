// LangGraph's checkpointer over our tables: checkpoints are written with the other records of a run, in the same batches and
// under the same lease, and are deleted with the thread. One instance serves all graphs and runs, as LangGraph expects; the
// config of a call names its session.
import { randomBytes } from 'node:crypto'
import { divided, rangesOf } from '../../conversation/list.ts'
import {
  bodiesByName,
  type Body,
  channelOf,
  type ChannelVersion,
  partName,
  partsOf,
  type StoredGraphCheckpoint,
  versionName,
  wholeBody
} from '../../conversation/state.ts'
import { hasMembers } from '../../base/json.ts'
import { isObject, type JsonObject } from '../../base/types.ts'
import type { SavedStates } from './gone-graph.ts'
import type { LangGraph, RunnableConfig, Serde } from './library.ts'
import { checkOwner } from './state-owner.ts'
import { type CheckpointReads, type GraphReads, PartNumbers, type SaverSession } from './saver-session.ts'

/** The config member that names the session; LangGraph hides members that start with `__`. */
export const SESSION = '__colloquy'

/** LangGraph's tuple of a checkpoint. */
interface CheckpointTuple {
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

type Sessions = ReadonlyMap<string, SaverSession>

/** @param reads for calls without a session, which may only read */
export function createSaver(
  library: Pick<LangGraph, 'BaseCheckpointSaver'>,
  sessions: Sessions,
  reads: GraphReads
): SavedStates {
  return new (class Saver extends library.BaseCheckpointSaver {
    async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
      const { threadId, ns, checkpointId } = checkpointPlace(config)
      const stored = await sessionOf(config)?.load(threadId, ns, checkpointId)
      return stored ? tupleOf(this.serde, stored, config) : undefined
    }

    async *list(config: RunnableConfig, options: ListOptions = {}): AsyncGenerator<CheckpointTuple> {
      const { threadId, checkpointId } = checkpointPlace(config)
      const session = sessionOf(config)
      if (!session) return
      const ns = config.configurable?.checkpoint_ns
      const before = options.before?.configurable?.checkpoint_id
      const asked = {
        threadId,
        ns: typeof ns === 'string' ? ns : null,
        checkpointId,
        limit: options.limit ?? Number.POSITIVE_INFINITY,
        before: typeof before === 'string' ? before : null,
        filter: options.filter ?? null
      }
      for await (const stored of checkpointsOf(session, asked)) yield tupleOf(this.serde, stored, config)
    }

    async put(
      config: RunnableConfig,
      checkpoint: Checkpoint,
      metadata: JsonObject,
      newVersions: Record<string, string | number>
    ): Promise<RunnableConfig> {
      const { threadId, ns, checkpointId } = checkpointPlace(config)
      const { channel_values, ...rest } = checkpoint
      // Only values written in this step; the first checkpoint stores all of them.
      const isNew = (name: string) => checkpointId === null || Object.hasOwn(newVersions, name)
      const versioned = Object.entries(checkpoint.channel_versions).filter(([name]) =>
        Object.hasOwn(channel_values, name)
      )
      const channels = versioned.map(
        async ([channel, version]): Promise<WrittenChannel> => [
          channel,
          String(version),
          isNew(channel) ? await dumped(this.serde, channel_values[channel]) : null
        ]
      )
      const written = {
        threadId,
        ns,
        checkpointId: checkpoint.id,
        parentId: checkpointId,
        checkpoint: JSON.stringify(rest),
        metadata: JSON.stringify({ ...ownIn(config), ...metadata }),
        channels: await Promise.all(channels)
      }
      const session = sessionOf(config)
      if (session) await keepCheckpoint(session, written)
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
      const saved = await Promise.all(
        writes.map(async ([channel, value], at) => ({
          task_id: taskId,
          task_path: taskPath,
          idx: PLACES[channel] ?? at,
          channel,
          ...(await dumped(this.serde, value))
        }))
      )
      const session = sessionOf(config)
      if (!session) return
      const place = { thread_id: threadId, ns, checkpoint_id: checkpointId, run_id: session.runId }
      await session.keep({ name: 'graph.write', ...place, writes: saved })
    }

    /** Checkpoints are deleted with their thread. */
    async deleteThread(): Promise<void> {}

    /** Versions are unique across branches of a thread. */
    getNextVersion(current: string | number | undefined): string {
      const last = typeof current === 'string' ? Number.parseInt(current, 10) : (current ?? 0)
      return `${String(last + 1).padStart(VERSION_DIGITS, '0')}.${randomBytes(6).toString('hex')}`
    }
  })()

  /**
   * null: its run is over. LangGraph goes on for a moment with a run that was cut, and awaits nothing of that: what it then asks for is not
   * found, and what it stores is kept nowhere. To reject would end the process, or the thread, with all other runs in it.
   */
  function sessionOf({ configurable }: RunnableConfig): SaverSession | null {
    const id = configurable?.[SESSION]
    return typeof id === 'string' ? (sessions.get(id) ?? null) : sessionFor(sessions, reads, null)
  }
}

/** @param id null: a session that only reads. @throws Error when it is over */
export function sessionFor(sessions: Sessions, reads: GraphReads, id: string | null): SaverSession {
  if (id === null) return { runId: null, keep: refuse, numbers: new PartNumbers(reads), ...methodsOf(reads) }
  const session = sessions.get(id)
  if (!session) throw new Error('The run of this graph has ended')
  return session
}

function methodsOf(reads: CheckpointReads): CheckpointReads {
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

/** The thread id comes from the row, because the thread may be a copy. The session is kept: LangGraph writes forks with this config. */
async function tupleOf(serde: Serde, stored: StoredGraphCheckpoint, asked: RunnableConfig): Promise<CheckpointTuple> {
  const { thread_id, ns, checkpoint_id, parent_id, run_id } = stored
  checkOwner(stored, null)
  const found = channelsOf(stored)
  const [values, pendingWrites] = await Promise.all([
    Promise.all(found.map(async ({ channel, body }) => [channel, await loaded(serde, body)] as const)),
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

interface ListOptions {
  readonly limit?: number
  readonly before?: RunnableConfig
  readonly filter?: Record<string, unknown>
}

/** Which checkpoints of a thread are listed, newest first. */
export interface CheckpointList {
  readonly threadId: string
  /** null: all namespaces. */
  readonly ns: string | null
  /** The only one wanted; null: all. */
  readonly checkpointId: string | null
  readonly limit: number
  /** Only those before this one; null: all. */
  readonly before: string | null
  /** Required metadata; null: any. */
  readonly filter: Readonly<Record<string, unknown>> | null
}

export async function* checkpointsOf(
  session: SaverSession,
  { threadId, ns, checkpointId, limit: most, before: first, filter }: CheckpointList
): AsyncGenerator<StoredGraphCheckpoint> {
  let left = most
  let before = first
  for (;;) {
    const limit = checkpointId === null && !filter ? Math.min(left, PAGE) : PAGE
    const found = limit > 0 ? await session.list(threadId, { ns, limit, ...(before !== null && { before }) }) : []
    for (const stored of found) {
      before = stored.checkpoint_id
      if (checkpointId !== null && stored.checkpoint_id !== checkpointId) continue
      if (filter && !hasMembers(metadataOf(stored), filter)) continue
      yield stored
      if (--left <= 0) return
    }
    if (found.length < limit || limit <= 0) return
  }
}

/** With what is in columns of its own. */
function metadataOf({ metadata, thread_id, run_id }: StoredGraphCheckpoint): JsonObject {
  // Written by `put`.
  return { ...(JSON.parse(metadata) as JsonObject), thread_id, ...(run_id !== null && { run_id }) }
}

/** One channel of a checkpoint: its name, its version, and what the serializer makes of its value; null: as it was. */
type WrittenChannel = readonly [
  channel: string,
  version: string,
  body: { readonly type: string; readonly data: string } | null
]

/** A checkpoint as a checkpointer is given it, in whatever language. */
export interface WrittenCheckpoint {
  readonly threadId: string
  readonly ns: string
  readonly checkpointId: string
  readonly parentId: string | null
  /** JSON, without the values of its channels. */
  readonly checkpoint: string
  /** JSON. */
  readonly metadata: string
  readonly channels: readonly WrittenChannel[]
}

/** Keeps it in the session: of lists, only the parts that are new. */
export async function keepCheckpoint(session: SaverSession, written: WrittenCheckpoint): Promise<void> {
  const { threadId, ns, checkpointId, parentId, checkpoint, metadata, channels } = written
  const base = parentId === null ? null : await session.load(threadId, ns, parentId)
  const before = new VersionsBefore(base)
  const versions = channels.map(async ([channel, version, value]): Promise<NewVersion> => {
    const name = `${channel} ${version}`
    if (value === null) return { version: before.named(name), bodies: [] }
    const body = { name, ...value }
    const list = divided(body, before.partsOf(channel))
    if (list === null) return { version: name, bodies: [body] }
    const from = await session.numbers.take(threadId, ns, channel, list.added.length)
    const bodies = list.added.map((data, at) => ({ name: partName(channel, from + at), type: 'json', data }))
    return { version: { name, parts: rangesOf(list, from) }, bodies }
  })
  const all = await Promise.all(versions)
  await session.keep({
    name: 'graph.put',
    thread_id: threadId,
    ns,
    checkpoint_id: checkpointId,
    parent_id: parentId,
    run_id: session.runId,
    checkpoint,
    metadata,
    names: all.map(({ version }) => version),
    values: all.flatMap(({ bodies }) => bodies)
  })
}

/** The values of a stored checkpoint, whole. */
export function channelsOf(stored: StoredGraphCheckpoint): { readonly channel: string; readonly body: Body }[] {
  const bodies = bodiesByName(stored.values)
  return stored.names.flatMap((version) => {
    const body = wholeBody(version, bodies)
    return body ? [{ channel: channelOf(version), body }] : []
  })
}

interface NewVersion {
  readonly version: ChannelVersion
  readonly bodies: readonly Body[]
}

/** The versions that a new checkpoint follows. */
class VersionsBefore {
  readonly #byName: ReadonlyMap<string, ChannelVersion>
  readonly #byChannel: ReadonlyMap<string, ChannelVersion>
  readonly #bodies: ReadonlyMap<string, Body>

  constructor(base: StoredGraphCheckpoint | null) {
    const versions = base?.names ?? []
    this.#byName = new Map(versions.map((version) => [versionName(version), version]))
    this.#byChannel = new Map(versions.map((version) => [channelOf(version), version]))
    this.#bodies = bodiesByName(base?.values ?? [])
  }

  /** A version that the new checkpoint has too. */
  named(name: string): ChannelVersion {
    return this.#byName.get(name) ?? name
  }

  partsOf(channel: string): ReturnType<typeof partsOf> {
    return partsOf(this.#byChannel.get(channel), this.#bodies)
  }
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
