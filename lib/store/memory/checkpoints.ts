// Checkpoints in memory: which bodies a state consists of, and the bodies, each kept once a version.
import { pageWithBodies, wantedOf, withBodies } from '../bodies.ts'
import { Refused } from '../refused.ts'
import { updated } from '../state-update.ts'
import type { CheckpointHead, CheckpointReads, CheckpointWrite, OpOf, StateUpdate } from '../store.ts'
import type { MemoryGraphStates } from './graph-states.ts'
import { type ThreadOwned, copyOf, type Noun } from './rows.ts'
import type { RunRows } from './runs.ts'
import type { ThreadRows } from './threads.ts'
import type { Undo } from './undo.ts'

/** Checkpoints of one thread. */
interface ThreadStates {
  /** In the order in which they were written [Store 11]. */
  readonly heads: CheckpointHead[]
  /** Where each stands among them, by id. */
  readonly places: Map<string, number>
  /** JSON texts by number. */
  readonly bodies: Map<number, string>
  nextBody: number
}

function find(states: ThreadStates | undefined, checkpointId: string | null): CheckpointHead | null {
  if (!states) return null
  if (checkpointId === null) return states.heads.at(-1) ?? null
  return states.heads[states.places.get(checkpointId) ?? -1] ?? null
}

function checkpointReads(byThread: ReadonlyMap<string, ThreadStates>): CheckpointReads {
  return {
    async load(threadId, checkpointId, channels) {
      const states = byThread.get(threadId)
      const head = find(states, checkpointId)
      return states && head ? withBodies(copyOf(head), wantedOf(channels), states.bodies, states.nextBody) : null
    },
    async history(threadId, { limit, before, channels = [] }) {
      const states = byThread.get(threadId)
      if (!states) return []
      const end = before === undefined ? states.heads.length : (states.places.get(before) ?? 0)
      const heads = states.heads.slice(Math.max(0, end - limit), end).reverse()
      return pageWithBodies(copyOf(heads), wantedOf(channels), states.bodies, states.nextBody)
    }
  }
}

export interface MemoryCheckpoints
  extends Noun<CheckpointReads, 'checkpoint.put' | 'state.update' | 'state.copy'>,
    ThreadOwned {
  /** Writes one checkpoint with its new bodies, for the creation of a thread. */
  put(checkpoint: CheckpointWrite, undo: Undo): void
}

export function memoryCheckpoints(
  threads: ThreadRows,
  runs: RunRows,
  graphStates: Pick<MemoryGraphStates, 'copy'>
): MemoryCheckpoints {
  const byThread = new Map<string, ThreadStates>()

  const statesOf = (threadId: string, undo: Undo): ThreadStates => {
    const found = byThread.get(threadId)
    if (found) return found
    const states: ThreadStates = { heads: [], places: new Map(), bodies: new Map(), nextBody: 0 }
    undo.set(byThread, threadId, states)
    return states
  }

  const putBody = (states: ThreadStates, no: number, json: string, undo: Undo): void => {
    if (states.bodies.has(no)) throw new Refused(`checkpoint body ${no} exists already`)
    undo.set(states.bodies, no, json)
    const before = states.nextBody
    states.nextBody = Math.max(before, no + 1)
    undo.add(() => {
      states.nextBody = before
    })
  }

  const put = ({ bodies, ...head }: CheckpointWrite, undo: Undo): void => {
    const states = statesOf(head.thread_id, undo)
    for (const { no, json } of bodies) putBody(states, no, json, undo)
    if (states.places.has(head.checkpoint_id)) throw new Refused(`checkpoint ${head.checkpoint_id} exists already`)
    const place = states.heads.length
    undo.set(states.places, head.checkpoint_id, place)
    undo.insert(states.heads, place, head)
  }

  const update = (op: OpOf<'state.update'>, undo: Undo): StateUpdate => {
    const thread = threads.require(op.thread_id)
    if (runs.inFlight(op.thread_id).length) return { outcome: 'busy' }
    const states = byThread.get(op.thread_id)
    const base = find(states, op.base)
    if (!states || !base) return { outcome: 'checkpoint_missing' }
    const checkpoint = updated(base, op, states.nextBody)
    put(checkpoint, undo)
    threads.set({ ...thread, display_name: op.title || thread.display_name, updated_at: op.now }, undo)
    const { bodies: _, ...head } = checkpoint
    return { outcome: 'written', checkpoint: head }
  }

  return {
    reads: checkpointReads(byThread),
    writes: {
      'checkpoint.put': ({ name: _, ...checkpoint }, undo) => {
        threads.require(checkpoint.thread_id)
        put(checkpoint, undo)
        return null
      },
      'state.update': update,
      'state.copy': ({ from, thread_id }, undo) => {
        threads.require(thread_id)
        const states = byThread.get(from)
        undo.delete(byThread, thread_id)
        graphStates.copy(from, thread_id, undo)
        if (!states) return null
        const heads = states.heads.map((head) => ({ ...head, thread_id }))
        undo.set(byThread, thread_id, {
          ...states,
          heads,
          places: new Map(states.places),
          bodies: new Map(states.bodies)
        })
        return null
      }
    },
    put,
    forget: (threadId, undo) => undo.delete(byThread, threadId)
  }
}
