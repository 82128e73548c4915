// Graph checkpoints as rows of both databases: heads in the order written, values once per version, and pending writes.
import { compareWrites } from '../../conversation/checkpoint.ts'
import {
  bodyNames,
  channelOf,
  type ChannelVersion,
  partName,
  partNumber,
  type PartRange,
  RUN_NAMESPACE,
  runNamespace
} from '../../conversation/state.ts'
import type {
  Body,
  GraphCheckpointHead,
  GraphCheckpointWrite,
  GraphPage,
  GraphStateReads,
  GraphTaskWrite,
  GraphTaskWrites,
  GraphWrite,
  StoredGraphCheckpoint
} from '../store.ts'
import { queueTexts } from './search.ts'
import { ask, askOne, parseObject, places, type StepReads, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'
import { PRESENT, runBodiesRemoval } from './removal.ts'
import { hasRunInFlight } from './runs.ts'

const COLUMNS = 'thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata, names_json'
/** Names per statement. */
const NAMES_AT_ONCE = 500

type Row = Omit<GraphCheckpointHead, 'names'> & { readonly names_json: string }
type WriteRow = GraphTaskWrite & Pick<GraphCheckpointHead, 'ns' | 'checkpoint_id'> & { readonly key: number }
type BodyRow = Body & Pick<GraphCheckpointHead, 'ns'>

function toHead({ names_json, ...row }: Row): GraphCheckpointHead {
  return { ...row, names: versionsIn(names_json) }
}

function versionsIn(names_json: string): ChannelVersion[] {
  // Written by `putCheckpoint` alone.
  return JSON.parse(names_json) as ChannelVersion[]
}

function* load(threadId: string, ns: string, checkpointId: string | null): Steps<StoredGraphCheckpoint | null> {
  const which = checkpointId === null ? 'ORDER BY key DESC LIMIT 1' : 'AND checkpoint_id = $3'
  const sql = `SELECT ${COLUMNS} FROM graph_checkpoints WHERE thread_id = $1 AND ns = $2 AND ${PRESENT} ${which}`
  const rows = yield* ask<Row>(sql, threadId, ns, ...(checkpointId === null ? [] : [checkpointId]))
  return (yield* filled(threadId, rows.map(toHead)))[0] ?? null
}

function* list(threadId: string, { ns, limit, before }: GraphPage): Steps<StoredGraphCheckpoint[]> {
  const params: (string | number)[] = [threadId, limit]
  const bind = (value: string) => `$${params.push(value)}`
  const inNamespace = ns === null ? '' : `AND ns = ${bind(ns)}`
  const older =
    before === undefined
      ? ''
      : `AND key < (SELECT max(key) FROM graph_checkpoints WHERE thread_id = $1 AND checkpoint_id = ${bind(before)})`
  const sql = `SELECT ${COLUMNS} FROM graph_checkpoints WHERE thread_id = $1 AND ${PRESENT} ${inNamespace} ${older}
    ORDER BY key DESC LIMIT $2`
  return yield* filled(threadId, (yield* ask<Row>(sql, ...params)).map(toHead))
}

/** The heads with their values and writes; shared values are read once. */
function* filled(threadId: string, heads: readonly GraphCheckpointHead[]): Steps<StoredGraphCheckpoint[]> {
  const values = yield* bodiesOf(threadId, heads)
  const ids = heads.map(({ checkpoint_id }) => checkpoint_id)
  const columns = 'key, ns, checkpoint_id, task_id, task_path, idx, channel, type, data'
  const writes = yield* among<WriteRow>(columns, 'graph_writes', 'checkpoint_id', threadId, ids)
  const byName = new Map(values.map(({ ns, ...value }) => [`${ns}\n${value.name}`, value]))
  return heads.map((head) => ({
    ...head,
    values: head.names.flatMap(bodyNames).flatMap((name) => byName.get(`${head.ns}\n${name}`) ?? []),
    writes: inForce(writes.filter(({ ns, checkpoint_id }) => ns === head.ns && checkpoint_id === head.checkpoint_id))
  }))
}

/** The bodies that heads name, each once; more of a namespace than its own head names, where heads of others have the same names. */
function* bodiesOf(threadId: string, heads: readonly Pick<GraphCheckpointHead, 'ns' | 'names'>[]): Steps<BodyRow[]> {
  const named = heads.flatMap(({ names }) => names).filter((version) => typeof version === 'string')
  const found = yield* among<BodyRow>('ns, name, type, data', 'graph_values', 'name', threadId, [...new Set(named)])
  const sql = `SELECT ns, name, type, data FROM graph_values
    WHERE thread_id = $1 AND ns = $2 AND name BETWEEN $3 AND $4`
  for (const { ns, channel, ranges } of listsOf(heads))
    for (const [from, to] of ranges)
      for (const row of yield* ask<BodyRow>(sql, threadId, ns, partName(channel, from), partName(channel, to)))
        found.push(row)
  return found
}

function* bodies(threadId: string, ns: string, versions: readonly ChannelVersion[]): Steps<Body[]> {
  if ((yield* ask('SELECT 1 FROM removed_threads WHERE thread_id = $1', threadId)).length > 0) return []
  const found = yield* bodiesOf(threadId, [{ ns, names: versions }])
  return found.flatMap(({ ns: of, ...body }) => (of === ns ? [body] : []))
}

interface List {
  readonly ns: string
  readonly channel: string
  /** In order, each number once. */
  readonly ranges: readonly PartRange[]
}

/** All parts that heads name. */
function listsOf(heads: readonly Pick<GraphCheckpointHead, 'ns' | 'names'>[]): List[] {
  const lists = new Map<string, { ns: string; channel: string; ranges: PartRange[] }>()
  for (const { ns, names } of heads)
    for (const version of names) {
      if (typeof version === 'string') continue
      const channel = channelOf(version)
      const list = lists.get(`${ns}\n${channel}`) ?? { ns, channel, ranges: [] }
      lists.set(`${ns}\n${channel}`, list)
      list.ranges.push(...version.parts)
    }
  return [...lists.values()].map((list) => ({ ...list, ranges: joined(list.ranges) }))
}

/** Ranges in order, those that touch as one. */
function joined(ranges: readonly PartRange[]): PartRange[] {
  const all: [number, number][] = []
  for (const [from, to] of ranges.toSorted(([one], [other]) => one - other)) {
    const last = all.at(-1)
    if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to)
    else all.push([from, to])
  }
  return all
}

/** Of the writes of all runs at one checkpoint, those that count: of a task's result the first, of what it has only one the last. */
function inForce(rows: readonly WriteRow[]): GraphTaskWrite[] {
  const byPlace = new Map<string, GraphTaskWrite>()
  for (const { key: _, ns: __, checkpoint_id: ___, ...write } of rows.toSorted((one, other) => one.key - other.key)) {
    const place = `${write.idx} ${write.task_id}`
    if (write.idx < 0 || !byPlace.has(place)) byPlace.set(place, write)
  }
  return [...byPlace.values()].sort(compareWrites)
}

/** Rows of a thread whose column has one of these values. */
function* among<Found>(
  columns: string,
  table: string,
  column: string,
  threadId: string,
  wanted: readonly string[]
): Steps<Found[]> {
  const found: Found[] = []
  for (let at = 0; at < wanted.length; at += NAMES_AT_ONCE) {
    const some = wanted.slice(at, at + NAMES_AT_ONCE)
    const list = places(some.length + 1).replace('$1, ', '')
    const sql = `SELECT ${columns} FROM ${table} WHERE thread_id = $1 AND ${column} IN (${list})`
    found.push(...(yield* ask<Found>(sql, threadId, ...some)))
  }
  return found
}

/** By namespace, because an index has each namespace's newest at its end. */
const NEWEST_KEYS = 'SELECT max(key) AS newest FROM graph_checkpoints WHERE thread_id = $1 GROUP BY ns'

function* version(threadId: string): Steps<string | null> {
  const newest = `SELECT max(newest) FROM (${NEWEST_KEYS}) AS of_each`
  const sql = `SELECT key, checkpoint_id FROM graph_checkpoints WHERE key = (${newest}) AND ${PRESENT}`
  const row = yield* askOne<{ key: number; checkpoint_id: string }>(sql, threadId)
  // A database may give the key of a checkpoint that was taken back again; never its id.
  return row ? `${row.key} ${row.checkpoint_id}` : null
}

function* nextPart(threadId: string, ns: string, channel: string): Steps<number> {
  const first = partName(channel, 0)
  // Digits sort before a colon; what is longer is something else with such a name.
  const sql = `SELECT max(name) AS name FROM graph_values
    WHERE thread_id = $1 AND ns = $2 AND name >= $3 AND name < $4 AND length(name) = length($3)`
  const row = yield* askOne<{ name: string | null }>(sql, threadId, ns, first, `${channel}#:`)
  return row?.name ? partNumber(row.name) + 1 : 0
}

export const graphStateReads: StepReads<GraphStateReads> = { load, list, bodies, version, nextPart }

function* putBodies(threadId: string, ns: string, given: readonly Body[]): Steps<void> {
  for (const { name, type, data } of given)
    yield* ask(
      `INSERT INTO graph_values (thread_id, ns, name, type, data) VALUES (${places(5)})
       ON CONFLICT (thread_id, ns, name) DO NOTHING`,
      ...[threadId, ns, name, type, data]
    )
}

function* putCheckpoint(given: GraphCheckpointWrite): Steps<void> {
  const { thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata, names, values } = given
  yield* putBodies(thread_id, ns, values)
  yield* ask(
    `INSERT INTO graph_checkpoints (${COLUMNS}) VALUES (${places(8)})
     ON CONFLICT (thread_id, ns, checkpoint_id) DO UPDATE
       SET checkpoint = excluded.checkpoint, metadata = excluded.metadata, names_json = excluded.names_json`,
    ...[thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata, JSON.stringify(names)]
  )
}

const WRITE_COLUMNS = 'ns, checkpoint_id, task_id, idx, run_id, task_path, channel, type, data'

function* putTaskWrites({ thread_id, ns, checkpoint_id, run_id, writes }: GraphTaskWrites): Steps<void> {
  for (const { task_id, task_path, idx, channel, type, data } of writes) {
    const place = [thread_id, ns, checkpoint_id, task_id, idx, run_id ?? '']
    // Written anew, behind those of other runs: of this kind the last one counts.
    if (idx < 0)
      yield* ask(
        `DELETE FROM graph_writes WHERE thread_id = $1 AND ns = $2 AND checkpoint_id = $3 AND task_id = $4 AND idx = $5
           AND run_id = $6`,
        ...place
      )
    yield* ask(
      `INSERT INTO graph_writes (thread_id, ${WRITE_COLUMNS}) VALUES (${places(10)})
       ON CONFLICT (thread_id, ns, checkpoint_id, task_id, idx, run_id) DO NOTHING`,
      ...[...place, task_path, channel, type, data]
    )
  }
}

interface NamedRow {
  readonly ns: string
  readonly names_json: string
}

function toNamed({ ns, names_json }: NamedRow): Pick<GraphCheckpointHead, 'ns' | 'names'> {
  return { ns, names: versionsIn(names_json) }
}

/** Bodies of a namespace go with the last head that names them. `heads`: those that are left. */
function* removeUnnamed(threadId: string, ns: string, heads: readonly NamedRow[]): Steps<void> {
  const left = heads.map(toNamed)
  const single = new Set(left.flatMap(({ names }) => names).filter((version) => typeof version === 'string'))
  const parts = new Set<string>()
  for (const { channel, ranges } of listsOf(left))
    for (const name of bodyNames({ name: `${channel} `, parts: ranges })) parts.add(name)
  const stored = yield* ask<{ name: string }>(
    'SELECT name FROM graph_values WHERE thread_id = $1 AND ns = $2',
    threadId,
    ns
  )
  const unnamed = stored.map(({ name }) => name).filter((name) => !single.has(name) && !parts.has(name))
  const removal = 'DELETE FROM graph_values WHERE thread_id = $1 AND ns = $2 AND name = ANY($3)'
  if (unnamed.length > 0) yield* ask(removal, threadId, ns, unnamed)
}

function* removeRun(threadId: string, runId: string): Steps<void> {
  const made = 'SELECT checkpoint_id FROM graph_checkpoints WHERE thread_id = $1 AND run_id = $2'
  yield* ask(
    `DELETE FROM graph_writes WHERE thread_id = $1 AND (run_id = $2 OR checkpoint_id IN (${made}))`,
    ...[threadId, runId]
  )
  const removal = 'DELETE FROM graph_checkpoints WHERE thread_id = $1 AND run_id = $2 RETURNING ns'
  const removed = yield* ask<{ ns: string }>(removal, threadId, runId)
  const left = 'SELECT ns, names_json FROM graph_checkpoints WHERE thread_id = $1 AND ns = $2'
  for (const ns of new Set(removed.map((one) => one.ns)))
    yield* removeUnnamed(threadId, ns, yield* ask<NamedRow>(left, threadId, ns))
}

/** Another fork of the thread has numbered its parts so meanwhile. */
function* hasPartOf(threadId: string, writes: readonly GraphWrite[]): Steps<boolean> {
  for (const write of writes) {
    if (write.name !== 'graph.put') continue
    const parts = new Set(write.names.flatMap((version) => (typeof version === 'string' ? [] : bodyNames(version))))
    const added = write.values.map(({ name }) => name).filter((name) => parts.has(name))
    const sql = 'SELECT 1 FROM graph_values WHERE thread_id = $1 AND ns = $2 AND name = ANY($3) LIMIT 1'
    if (added.length > 0 && (yield* askOne(sql, threadId, write.ns, added)) !== undefined) return true
  }
  return false
}

type GraphOps = 'graph.put' | 'graph.write' | 'graph.update' | 'graph.removeRun' | 'run.bodies'

export const graphWrites: StepWrites<GraphOps> = {
  *'graph.put'(checkpoint) {
    yield* needsThread(checkpoint.thread_id)
    yield* putCheckpoint(checkpoint)
    return null
  },

  *'graph.write'(writes) {
    yield* needsThread(writes.thread_id)
    yield* putTaskWrites(writes)
    return null
  },

  *'graph.update'({ thread_id, expected, writes, status, title, now }) {
    yield* needsThread(thread_id)
    if (yield* hasRunInFlight(thread_id)) return 'busy'
    if (expected !== undefined && expected !== (yield* version(thread_id))) return 'conflict'
    if (yield* hasPartOf(thread_id, writes)) return 'conflict'
    for (const write of writes) yield* write.name === 'graph.put' ? putCheckpoint(write) : putTaskWrites(write)
    const stand = `UPDATE threads_meta SET status = $2, display_name = coalesce($3, display_name), updated_at = $4
      WHERE thread_id = $1`
    yield* ask(stand, thread_id, status, title, now)
    if (title !== null) yield* queueTexts(thread_id)
    return 'written'
  },

  *'run.bodies'({ thread_id, run_key, bodies }) {
    yield* needsThread(thread_id)
    yield* putBodies(thread_id, runNamespace(run_key), bodies)
    return null
  },

  *'graph.removeRun'({ thread_id, run_id }) {
    yield* removeRun(thread_id, run_id)
    yield* ask(runBodiesRemoval('run_id = $1'), run_id)
    return null
  }
}

type PrunedRow = NamedRow & Pick<Row, 'checkpoint_id' | 'parent_id' | 'metadata'>

/**
 * Channels that a checkpoint has no value of: they are rebuilt from what tasks have written since an earlier one that has.
 * LangGraph counts for each of its DeltaChannels what was written since.
 */
function rebuiltIn({ metadata, names_json }: PrunedRow): Set<string> {
  const { counters_since_delta_snapshot: counters } = parseObject(metadata)
  const channels = typeof counters === 'object' && counters !== null ? Object.keys(counters) : []
  return new Set(channels.filter((channel) => !hasValueOf(channel, names_json)))
}

function hasValueOf(channel: string, names_json: string): boolean {
  return versionsIn(names_json).some((version) => channelOf(version) === channel)
}

/** A checkpoint, and those before it that it is rebuilt from. */
function* withSources(threadId: string, newest: PrunedRow): Steps<PrunedRow[]> {
  const kept = [newest]
  const rebuilt = rebuiltIn(newest)
  const sql = `SELECT ns, checkpoint_id, parent_id, metadata, names_json FROM graph_checkpoints
    WHERE thread_id = $1 AND ns = $2 AND checkpoint_id = $3`
  for (let last = newest; rebuilt.size > 0 && last.parent_id !== null; ) {
    const parent = yield* askOne<PrunedRow>(sql, threadId, last.ns, last.parent_id)
    if (!parent) break
    kept.push(parent)
    for (const channel of rebuilt) if (hasValueOf(channel, parent.names_json)) rebuilt.delete(channel)
    last = parent
  }
  return kept
}

/** The newest of each namespace stays, because a subgraph that waits continues from its own, with what it is rebuilt from. */
export function* pruneGraphs(threadId: string): Steps<void> {
  const sql = `SELECT ns, checkpoint_id, parent_id, metadata, names_json FROM graph_checkpoints
    WHERE thread_id = $1 AND key IN (${NEWEST_KEYS})`
  for (const newest of yield* ask<PrunedRow>(sql, threadId)) {
    const { ns } = newest
    const kept = yield* withSources(threadId, newest)
    const ids = kept.map(({ checkpoint_id }) => checkpoint_id)
    for (const table of ['graph_checkpoints', 'graph_writes'])
      yield* ask(
        `DELETE FROM ${table} WHERE thread_id = $1 AND ns = $2 AND NOT (checkpoint_id = ANY($3))`,
        ...[threadId, ns, ids]
      )
    yield* removeUnnamed(threadId, ns, kept)
  }
}

/** Copies all graph checkpoints of thread $1 to $2. Heads first, see COPIES. */
export const GRAPH_COPIES = [
  `INSERT INTO graph_checkpoints (${COLUMNS})
   SELECT $2, ${COLUMNS.replace('thread_id, ', '')} FROM graph_checkpoints WHERE thread_id = $1 ORDER BY key`,
  `INSERT INTO graph_values (thread_id, ns, name, type, data)
   SELECT $2, ns, name, type, data FROM graph_values WHERE thread_id = $1 AND substr(ns, 1, 1) <> '${RUN_NAMESPACE}'`,
  `INSERT INTO graph_writes (thread_id, ${WRITE_COLUMNS})
   SELECT $2, ${WRITE_COLUMNS} FROM graph_writes WHERE thread_id = $1 ORDER BY key`
] as const
