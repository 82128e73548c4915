// Run events in PostgreSQL: how they are appended, and who said what.
import { Refused } from '../refused.ts'
import { toRow } from '../sql/events.ts'
import { visibleTo } from '../sql/steps.ts'
import type { EventReads } from '../store.ts'
import type { Db } from './db.ts'
import type { Writers } from './rows.ts'
import { texts } from './text.ts'

/** Origins of the messages $3 of the thread $2, as far as $1 may see them. The index holds prefixes of ids. */
const ORIGINS = `SELECT message_id, run_id, event_type, seq FROM run_events
  WHERE thread_id = $2 AND left(message_id, 64) = ANY(ARRAY(SELECT left(id, 64) FROM unnest($3::text[]) AS id))
    AND message_id = ANY($3::text[]) AND ${visibleTo(1)} ORDER BY seq`

export function originReads(db: Db): EventReads['runsOfMessages'] {
  return async (threadId, messageIds, owner) => {
    const rows = await db.rows<{ message_id: string; run_id: string; event_type: string }>(ORIGINS, [
      owner,
      threadId,
      texts(messageIds)
    ])
    return new Map(rows.map(({ message_id, run_id, event_type }) => [message_id, { run_id, event_type }]))
  }
}

export const eventWrites: Writers<'events.append' | 'seq.move'> = {
  'events.append': async ({ thread_id, run_id, user_id, events }, batch) => {
    const thread = batch.needs(thread_id)
    const first = thread.nextSeq
    const seen = thread.lastK.get(run_id) ?? -1
    for (const event of events) {
      if (event.k <= seen) continue
      batch.events.push(toRow(event, { thread_id, run_id, user_id, seq: thread.nextSeq++ }))
      thread.lastK.set(run_id, event.k)
    }
    const [given] = events
    if (!given || given.k > seen) return first
    // Written before: by this batch, which must be flushed to be found, or by an earlier one.
    await batch.flush()
    const sql = 'SELECT seq FROM run_events WHERE run_id = $1 AND k >= $2 ORDER BY seq LIMIT 1'
    const [row] = await batch.rows<{ seq: number }>(sql, [run_id, given.k])
    return row?.seq ?? first
  },

  'seq.move': async ({ thread_id, from, to }, batch) => {
    const thread = batch.needs(thread_id)
    if (thread.nextSeq !== from) throw new Refused(`the next seq of thread ${thread_id} is not ${from}`)
    thread.nextSeq = to
    return null
  }
}
