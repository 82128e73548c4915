// Deletes a thread's earlier states, and those of its graphs. The newest one stays, with everything it refers to.
import type { BodyRange } from '../store.ts'
import type { CheckpointRow } from './checkpoints.ts'
import { hasRunInFlight } from './runs.ts'
import { ask, type Steps, type StepWrites } from './steps.ts'
import { needsThread } from './threads.ts'

type Newest = Pick<CheckpointRow, 'messages_json' | 'channels_json'> & { readonly key: number }

function* pruneStates(threadId: string): Steps<void> {
  const sql = `SELECT key, messages_json, channels_json FROM checkpoints WHERE thread_id = $1 ORDER BY key DESC LIMIT 1`
  const [newest] = yield* ask<Newest>(sql, threadId)
  if (!newest) return
  yield* ask('DELETE FROM checkpoints WHERE thread_id = $1 AND key < $2', threadId, newest.key)
  // These columns are only ever written by `checkpointPut` of a database.
  const messages = JSON.parse(newest.messages_json) as BodyRange[]
  const channels = Object.values(JSON.parse(newest.channels_json) as Record<string, number>)
  const kept = [...messages, ...channels.map((no): BodyRange => [no, no])].sort(([one], [other]) => one - other)
  let from = 0
  for (const [first, last] of kept) {
    const between = 'DELETE FROM checkpoint_bodies WHERE thread_id = $1 AND no >= $2 AND no < $3'
    if (first > from) yield* ask(between, threadId, from, first)
    from = Math.max(from, last + 1)
  }
}

/** The newest of each namespace stays: a subgraph that waits continues from its own. */
function* pruneGraphs(threadId: string): Steps<void> {
  const newest = 'SELECT max(key) FROM graph_checkpoints WHERE thread_id = $1 GROUP BY ns'
  yield* ask(`DELETE FROM graph_checkpoints WHERE thread_id = $1 AND key NOT IN (${newest})`, threadId)
  const heads = 'SELECT checkpoint_id FROM graph_checkpoints WHERE thread_id = $1'
  yield* ask(`DELETE FROM graph_writes WHERE thread_id = $1 AND checkpoint_id NOT IN (${heads})`, threadId)
  const sql = 'SELECT ns, names_json FROM graph_checkpoints WHERE thread_id = $1'
  for (const { ns, names_json } of yield* ask<{ ns: string; names_json: string }>(sql, threadId)) {
    const unnamed = 'DELETE FROM graph_values WHERE thread_id = $1 AND ns = $2 AND NOT (name = ANY($3))'
    // Written by 'graph.put' alone.
    yield* ask(unnamed, threadId, ns, JSON.parse(names_json) as string[])
  }
}

export const statePrune: StepWrites<'state.prune'> = {
  *'state.prune'({ thread_id }) {
    yield* needsThread(thread_id)
    if (yield* hasRunInFlight(thread_id)) return false
    yield* pruneStates(thread_id)
    yield* pruneGraphs(thread_id)
    return true
  }
}
