// Graph checkpoints as rows of both databases: heads in the order written, values once per version, and pending writes.
import { Refused } from '../refused.ts'
import type {
  GraphCheckpointHead,
  GraphPage,
  GraphStateReads,
  GraphTaskWrite,
  GraphValue,
  StoredGraphCheckpoint
} from '../store.ts'
import { PRESENT } from './removal.ts'
import { hasRunInFlight } from './runs.ts'
import { ask, places, type StepReads, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'

const COLUMNS = 'thread_id, ns, checkpoint_id, parent_id, run_id, checkpoint, metadata, names_json'
/** Names per statement. */
const NAMES_AT_ONCE = 500

type Row = Omit<GraphCheckpointHead, 'names'> & { readonly names_json: string }
type WriteRow = GraphTaskWrite & Pick<GraphCheckpointHead, 'ns' | 'checkpoint_id'>
type ValueRow = GraphValue & Pick<GraphCheckpointHead, 'ns'>

function toHead({ names_json, ...row }: Row): GraphCheckpointHead {
  // Written by 'graph.put' alone.
  return { ...row, names: JSON.parse(names_json) as string[] }
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
  const names = new Set(heads.flatMap((head) => head.names))
  const values = yield* among<ValueRow>('ns, name, type, data', 'graph_values', 'name', threadId, [...names])
  const ids = heads.map(({ checkpoint_id }) => checkpoint_id)
  const columns = 'ns, checkpoint_id, task_id, task_path, idx, channel, type, data'
  const writes = yield* among<WriteRow>(columns, 'graph_writes', 'checkpoint_id', threadId, ids)
  const byName = new Map(values.map(({ ns, ...value }) => [`${ns}\n${value.name}`, value]))
  return heads.map((head) => ({
    ...head,
    values: head.names.flatMap((name) => byName.get(`${head.ns}\n${name}`) ?? []),
    writes: writes
      .filter(({ ns, checkpoint_id }) => ns === head.ns && checkpoint_id === head.checkpoint_id)
      .map(({ ns: _, checkpoint_id: __, ...write }) => write)
      .sort(inOrder)
  }))
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

/** The order in which LangGraph applies writes, whatever was written first. */
export function inOrder(one: GraphTaskWrite, other: GraphTaskWrite): number {
  if (one.task_path !== other.task_path) return one.task_path < other.task_path ? -1 : 1
  if (one.task_id !== other.task_id) return one.task_id < other.task_id ? -1 : 1
  return one.idx - other.idx
}

export const graphStateReads: StepReads<GraphStateReads> = { load, list }

type GraphOps = 'graph.put' | 'graph.write' | 'graph.removeRun' | 'thread.stand'

export const graphWrites: StepWrites<GraphOps> = {
  *'graph.put'({ values, names, ...head }) {
    const { thread_id, ns, checkpoint_id } = head
    yield* needsThread(thread_id)
    for (const { name, type, data } of values)
      yield* ask(
        `INSERT INTO graph_values (thread_id, ns, name, type, data) VALUES (${places(5)})
         ON CONFLICT (thread_id, ns, name) DO NOTHING`,
        ...[thread_id, ns, name, type, data]
      )
    yield* ask(
      `INSERT INTO graph_checkpoints (${COLUMNS}) VALUES (${places(8)})
       ON CONFLICT (thread_id, ns, checkpoint_id) DO UPDATE
         SET checkpoint = excluded.checkpoint, metadata = excluded.metadata, names_json = excluded.names_json`,
      ...[thread_id, ns, checkpoint_id, head.parent_id, head.run_id, head.checkpoint, head.metadata],
      JSON.stringify(names)
    )
    return null
  },

  *'graph.write'({ thread_id, ns, checkpoint_id, writes }) {
    yield* needsThread(thread_id)
    for (const { task_id, task_path, idx, channel, type, data } of writes)
      yield* ask(
        `INSERT INTO graph_writes (thread_id, ns, checkpoint_id, task_id, task_path, idx, channel, type, data) VALUES (${places(9)})
         ON CONFLICT (thread_id, ns, checkpoint_id, task_id, idx) DO UPDATE
           SET channel = excluded.channel, type = excluded.type, data = excluded.data WHERE graph_writes.idx < 0`,
        ...[thread_id, ns, checkpoint_id, task_id, task_path, idx, channel, type, data]
      )
    return null
  },

  *'graph.removeRun'({ thread_id, run_id }) {
    const ofRun = 'SELECT checkpoint_id FROM graph_checkpoints WHERE thread_id = $1 AND run_id = $2'
    yield* ask(`DELETE FROM graph_writes WHERE thread_id = $1 AND checkpoint_id IN (${ofRun})`, ...[thread_id, run_id])
    yield* ask('DELETE FROM graph_checkpoints WHERE thread_id = $1 AND run_id = $2', thread_id, run_id)
    return null
  },

  *'thread.stand'({ thread_id, status, title, now }) {
    yield* needsThread(thread_id)
    if (yield* hasRunInFlight(thread_id)) throw new Refused(`thread ${thread_id} has a run in flight`)
    const stand = `UPDATE threads_meta SET status = $2, display_name = coalesce($3, display_name), updated_at = $4
      WHERE thread_id = $1`
    yield* ask(stand, thread_id, status, title, now)
    return null
  }
}

/** Copies all graph checkpoints of thread $1 to $2. */
export const GRAPH_COPIES = [
  `INSERT INTO graph_values (thread_id, ns, name, type, data)
   SELECT $2, ns, name, type, data FROM graph_values WHERE thread_id = $1`,
  `INSERT INTO graph_writes (thread_id, ns, checkpoint_id, task_id, task_path, idx, channel, type, data)
   SELECT $2, ns, checkpoint_id, task_id, task_path, idx, channel, type, data FROM graph_writes WHERE thread_id = $1`,
  `INSERT INTO graph_checkpoints (${COLUMNS})
   SELECT $2, ${COLUMNS.replace('thread_id, ', '')} FROM graph_checkpoints WHERE thread_id = $1 ORDER BY key`
] as const
