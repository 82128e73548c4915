// Run events in PostgreSQL: the durable log of a thread.
import type { RunEvent } from '../../types.ts'
import { Refused } from '../refused.ts'
import { COLUMNS, type EventRow, toEvent, toRow } from '../sql/events.ts'
import type { EventReads, SeqPage } from '../store.ts'
import { type Db, visible } from './db.ts'
import type { Writers } from './rows.ts'
import { texts } from './text.ts'

export function eventReads(db: Db): EventReads {
  const page = (scope: string, direction: 'ASC' | 'DESC') =>
    `SELECT ${COLUMNS} FROM run_events
     WHERE ${scope} AND category = 'message' AND seq > $3 AND seq < $4 AND ${visible(1)} ORDER BY seq ${direction} LIMIT $5`
  /** Without after_seq the last rows count, so they are read backwards; the answer is ascending either way [contract 4.4]. */
  const list = async (
    scope: string,
    { limit, before, after }: SeqPage,
    owner: string | null,
    threadId: string,
    runId: string[]
  ): Promise<RunEvent[]> => {
    const backwards = after === undefined
    const range = [after ?? 0, before ?? Number.MAX_SAFE_INTEGER, limit]
    const sql = page(scope, backwards ? 'DESC' : 'ASC')
    const rows = await db.rows<EventRow>(sql, [owner, threadId, ...range, ...runId])
    if (backwards) rows.reverse()
    return rows.map(toEvent)
  }

  return {
    async listMessages(threadId, seqPage, user) {
      return list('thread_id = $2', seqPage, user, threadId, [])
    },
    async listMessagesByRun(threadId, runId, seqPage, owner) {
      return list('thread_id = $2 AND run_id = $6', seqPage, owner, threadId, [runId])
    },
    async listEvents(threadId, runId, { types, after, limit }, owner) {
      const sql = `SELECT ${COLUMNS} FROM run_events
        WHERE run_id = $3 AND thread_id = $2 AND seq > $4 AND ($5::text[] IS NULL OR event_type = ANY($5)) AND ${visible(1)}
        ORDER BY seq LIMIT $6`
      const rows = await db.rows<EventRow>(sql, [
        owner,
        threadId,
        runId,
        after ?? 0,
        types ? texts(types) : null,
        limit
      ])
      return rows.map(toEvent)
    },
    async nextSeq(threadId) {
      const sql = 'SELECT next_seq FROM threads_meta WHERE thread_id = $1'
      return (await db.rows<{ next_seq: number }>(sql, [threadId]))[0]?.next_seq ?? null
    },
    async lastK(threadId, runId) {
      const sql = 'SELECT k FROM run_events WHERE run_id = $2 AND thread_id = $1 ORDER BY seq DESC LIMIT 1'
      return (await db.rows<{ k: number }>(sql, [threadId, runId]))[0]?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, owner) {
      const sql = `${ORIGINS} ORDER BY seq`
      const rows = await db.rows<{ message_id: string; run_id: string; event_type: string }>(sql, [
        owner,
        threadId,
        texts(messageIds)
      ])
      return new Map(rows.map(({ message_id, run_id, event_type }) => [message_id, { run_id, event_type }]))
    }
  }
}

/** Who said the messages $3 of the thread $2, as far as $1 may see it. The index holds the beginnings of ids. */
export const ORIGINS = `SELECT message_id, run_id, event_type, seq FROM run_events
  WHERE thread_id = $2 AND left(message_id, 64) = ANY(ARRAY(SELECT left(id, 64) FROM unnest($3::text[]) AS id))
    AND message_id = ANY($3::text[]) AND ${visible(1)}`

type EventOps = 'events.append' | 'seq.move'

export const eventWrites: Writers<EventOps> = {
  'events.append': async ({ thread_id, run_id, user_id, events }, batch) => {
    const thread = batch.needs(thread_id)
    const first = thread.nextSeq
    const seen = thread.lastK.get(run_id) ?? -1
    for (const event of events) {
      if (event.k <= seen) continue
      batch.addEvent(toRow(event, { thread_id, run_id, user_id, seq: thread.nextSeq++ }))
      thread.lastK.set(run_id, event.k)
    }
    const [given] = events
    if (!given || given.k > seen) return first
    // It was written before: by this batch, which must be there to be found, or by one before it.
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
