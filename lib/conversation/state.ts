// A thread's state as its graph's checkpointer writes it: heads, the versions of their channels, and the bodies that a version consists
// of. A body is what the graph's serializer gives, opaque to us; a long list is several, which its next versions share.

/** Stored once, however many checkpoints name it. */
export interface Body {
  /** Unique in the thread and the namespace: channel and version, or what `partName` makes. */
  readonly name: string
  /** LangGraph's name for the encoding of `data`. */
  readonly type: string
  readonly data: string
}

/** Inclusive range of numbers: [from, to]. */
export type PartRange = readonly [number, number]

/** Numbers as inclusive ranges, in order. */
export function inRanges(numbers: readonly number[]): PartRange[] {
  const found: [number, number][] = []
  for (const no of numbers) {
    const last = found.at(-1)
    if (last && no === last[1] + 1) last[1] = no
    else found.push([no, no])
  }
  return found
}

/** A list in parts: their texts joined by commas are the JSON of its elements. */
export interface ListVersion {
  /** Channel and version. */
  readonly name: string
  /** Numbers of the parts among those of the channel in this namespace, in the list's order. */
  readonly parts: readonly PartRange[]
}

/** One version of one channel: the name of its only body, or a list. */
export type ChannelVersion = string | ListVersion

/** A pending write of a task, not part of a checkpoint yet. */
export interface GraphTaskWrite {
  readonly task_id: string
  /** Position of the task in its superstep. */
  readonly task_path: string
  /** Index among the task's writes; below 0 for kinds of which a task has only one. */
  readonly idx: number
  readonly channel: string
  readonly type: string
  readonly data: string
}

/** Pending writes for one checkpoint. */
export interface GraphTaskWrites {
  readonly thread_id: string
  readonly ns: string
  readonly checkpoint_id: string
  /** The run they belong to, which may not be the checkpoint's: they go when it is rolled back. null: a state update. */
  readonly run_id: string | null
  readonly writes: readonly GraphTaskWrite[]
}

export interface GraphCheckpointHead {
  readonly thread_id: string
  /** Namespace of a subgraph; empty: the graph itself. */
  readonly ns: string
  readonly checkpoint_id: string
  readonly parent_id: string | null
  /** The run that made it; null: a state update. */
  readonly run_id: string | null
  /** JSON, without the values of its channels. */
  readonly checkpoint: string
  /** JSON. */
  readonly metadata: string
  /** Versions of all channels that have a value, including unchanged ones. */
  readonly names: readonly ChannelVersion[]
}

export interface GraphCheckpointWrite extends GraphCheckpointHead {
  /** The new bodies. */
  readonly values: readonly Body[]
}

/** What a checkpointer writes, in its order. */
export type GraphWrite =
  | ({ readonly name: 'graph.put' } & GraphCheckpointWrite)
  | ({ readonly name: 'graph.write' } & GraphTaskWrites)

/** A change of a graph's state outside of a run, with how its thread stands afterwards. */
export interface GraphUpdate {
  readonly thread_id: string
  /** The version the change was made of, see `GraphStateReads.version`; absent: it is a fork, whatever is newest. */
  readonly expected?: string | null
  readonly writes: readonly GraphWrite[]
  readonly status: 'idle' | 'interrupted'
  /** The thread's new name; null: unchanged. */
  readonly title: string | null
}

export interface StoredGraphCheckpoint extends GraphCheckpointHead {
  /** The bodies of all versions. */
  readonly values: readonly Body[]
  readonly writes: readonly GraphTaskWrite[]
}

export interface GraphPage {
  /** null: all namespaces. */
  readonly ns: string | null
  readonly limit: number
  /** Only those written before this one; none if it does not exist. */
  readonly before?: string
}

/** Where the bodies of a run itself are, which no checkpoint has: no graph has a namespace that begins so. They go with its frames. */
export const RUN_NAMESPACE = ':'

export function runNamespace(runKey: number): string {
  return `${RUN_NAMESPACE}${runKey}`
}

/** Bodies of a run itself, to be stored. */
export interface RunBodies {
  readonly thread_id: string
  readonly run_key: number
  readonly bodies: readonly Body[]
}

/** Digits of a part's number: names sort as numbers do. */
const DIGITS = 10

export function partName(channel: string, no: number): string {
  return `${channel}#${String(no).padStart(DIGITS, '0')}`
}

/** The number in the name of a part. */
export function partNumber(name: string): number {
  return Number(name.slice(-DIGITS))
}

export function versionName(version: ChannelVersion): string {
  return typeof version === 'string' ? version : version.name
}

export function channelOf(version: ChannelVersion): string {
  const name = versionName(version)
  return name.slice(0, name.lastIndexOf(' '))
}

/** Names of the bodies of a version, in order. */
export function bodyNames(version: ChannelVersion): string[] {
  if (typeof version === 'string') return [version]
  const channel = channelOf(version)
  const names: string[] = []
  for (const [from, to] of version.parts) for (let no = from; no <= to; no++) names.push(partName(channel, no))
  return names
}

/**
 * One body for a version: its only one, or its list as one text. null: the store does not have it.
 * @throws Error when only a part of a list is there
 */
export function wholeBody(version: ChannelVersion, bodies: ReadonlyMap<string, Body>): Body | null {
  if (typeof version === 'string') return bodies.get(version) ?? null
  const parts = bodyNames(version).map((name) => {
    const part = bodies.get(name)
    if (!part) throw new Error(`A part of the list ${version.name} is missing`)
    return part.data
  })
  return { name: version.name, type: 'json', data: `[${parts.join(',')}]` }
}

export function bodiesByName(bodies: readonly Body[]): Map<string, Body> {
  return new Map(bodies.map((body) => [body.name, body]))
}

/** What is known of a part: its number and its text. */
export interface ListPart {
  readonly no: number
  readonly data: string
}

/** The parts of a version; none: it is no list. */
export function partsOf(version: ChannelVersion | undefined, bodies: ReadonlyMap<string, Body>): ListPart[] {
  if (version === undefined || typeof version === 'string') return []
  return bodyNames(version).flatMap((name) => {
    const body = bodies.get(name)
    return body ? [{ no: partNumber(name), data: body.data }] : []
  })
}
