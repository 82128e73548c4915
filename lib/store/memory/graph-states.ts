// What graphs keep of their threads, in memory.
import { Refused } from '../refused.ts'
import { type GraphOps, inOrder } from '../sql/graph-states.ts'
import type {
  GraphCheckpointHead,
  GraphStateReads,
  GraphTaskWrite,
  GraphValue,
  StoredGraphCheckpoint
} from '../store.ts'
import { copyOf, type Noun, type ThreadOwned } from './rows.ts'
import type { RunRows } from './runs.ts'
import type { ThreadRows } from './threads.ts'
import type { Undo } from './undo.ts'

/** Of one thread. */
interface GraphRows {
  /** In the order in which they were written [Store 11]. */
  readonly heads: readonly GraphCheckpointHead[]
  /** By namespace and name. */
  readonly values: ReadonlyMap<string, GraphValue>
  /** By namespace and checkpoint. */
  readonly writes: ReadonlyMap<string, readonly GraphTaskWrite[]>
}

const NONE: GraphRows = { heads: [], values: new Map(), writes: new Map() }
const keyOf = (ns: string, name: string) => `${ns}\n${name}`

function filled({ values, writes }: GraphRows, head: GraphCheckpointHead): StoredGraphCheckpoint {
  return copyOf({
    ...head,
    values: head.names.flatMap((name) => values.get(keyOf(head.ns, name)) ?? []),
    writes: [...(writes.get(keyOf(head.ns, head.checkpoint_id)) ?? [])].sort(inOrder)
  })
}

function reads(byThread: ReadonlyMap<string, GraphRows>): GraphStateReads {
  return {
    async load(threadId, ns, checkpointId) {
      const rows = byThread.get(threadId) ?? NONE
      const head = rows.heads.findLast(
        (one) => one.ns === ns && (checkpointId === null || one.checkpoint_id === checkpointId)
      )
      return head ? filled(rows, head) : null
    },
    async list(threadId, { ns, limit, before }) {
      const rows = byThread.get(threadId) ?? NONE
      const end =
        before === undefined
          ? rows.heads.length
          : Math.max(
              0,
              rows.heads.findLastIndex(({ checkpoint_id }) => checkpoint_id === before)
            )
      const found = rows.heads.slice(0, end).filter((one) => ns === null || one.ns === ns)
      return found
        .reverse()
        .slice(0, limit)
        .map((head) => filled(rows, head))
    }
  }
}

export interface MemoryGraphStates extends Noun<GraphStateReads, GraphOps>, ThreadOwned {
  copy(from: string, to: string, undo: Undo): void
}

export function memoryGraphStates(threads: ThreadRows, runs: RunRows): MemoryGraphStates {
  const byThread = new Map<string, GraphRows>()
  // What is there is never changed: a thread's rows are replaced, so that taking a change back is one step.
  const replace = (threadId: string, change: Partial<GraphRows>, undo: Undo) =>
    undo.set(byThread, threadId, { ...(byThread.get(threadId) ?? NONE), ...change })

  return {
    reads: reads(byThread),
    writes: {
      'graph.put': ({ name: _, values: fresh, ...head }, undo) => {
        const { thread_id, ns, checkpoint_id } = head
        threads.require(thread_id)
        const { heads, values } = byThread.get(thread_id) ?? NONE
        const isSame = (one: GraphCheckpointHead) => one.ns === ns && one.checkpoint_id === checkpoint_id
        const kept = heads.some(isSame) ? heads.map((one) => (isSame(one) ? head : one)) : [...heads, head]
        const added = fresh.map((value): [string, GraphValue] => [keyOf(ns, value.name), value])
        replace(thread_id, { heads: kept, values: new Map([...added, ...values]) }, undo)
        return null
      },
      'graph.write': ({ thread_id, ns, checkpoint_id, writes: given }, undo) => {
        threads.require(thread_id)
        const { writes } = byThread.get(thread_id) ?? NONE
        const key = keyOf(ns, checkpoint_id)
        const known = writes.get(key) ?? []
        const isIn = (list: readonly GraphTaskWrite[]) => (write: GraphTaskWrite) =>
          list.some((one) => one.task_id === write.task_id && one.idx === write.idx)
        const kept = known.filter((one) => one.idx >= 0 || !isIn(given)(one))
        const added = given.filter((one) => !isIn(kept)(one))
        replace(thread_id, { writes: new Map([...writes, [key, [...kept, ...added]]]) }, undo)
        return null
      },
      'graph.removeRun': ({ thread_id, run_id }, undo) => {
        const { heads } = byThread.get(thread_id) ?? NONE
        replace(thread_id, { heads: heads.filter((one) => one.run_id !== run_id) }, undo)
        return null
      },
      'thread.stand': ({ thread_id, status, title, now }, undo) => {
        const thread = threads.require(thread_id)
        if (runs.inFlight(thread_id).length) throw new Refused(`thread ${thread_id} has a run in flight`)
        threads.set({ ...thread, status, display_name: title ?? thread.display_name, updated_at: now }, undo)
        return null
      }
    },
    copy(from, to, undo) {
      const rows = byThread.get(from)
      if (rows) replace(to, { ...rows, heads: rows.heads.map((head) => ({ ...head, thread_id: to })) }, undo)
    },
    forget: (threadId, undo) => undo.delete(byThread, threadId)
  }
}
