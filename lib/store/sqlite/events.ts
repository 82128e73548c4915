// Run events in SQLite: the durable log of a thread.
import type Database from 'better-sqlite3'
import { Refused } from '../refused.ts'
import { COLUMNS, type EventRow, toEvent } from '../sql/events.ts'
import type { EventReads, SeqPage } from '../store.ts'
import { TEXTS_OF_EVENT } from './event-texts.ts'
import { ORIGINS, originsIn, originsParams, type OriginsParams } from './origins.ts'
import type { Reader } from './reader.ts'
import { VISIBLE, type Writers } from './rows.ts'

interface PageParams {
  thread: string
  run: string | null
  before: number
  after: number
  limit: number
  owner: string | null
}

/** `reader`: for what may look at many events. */
export function eventReads(db: Database.Database, reader: Reader): EventReads {
  const page = (direction: 'ASC' | 'DESC', index: string, scope: string) =>
    db.prepare<PageParams, EventRow>(
      `SELECT ${COLUMNS} FROM run_events INDEXED BY ${index} WHERE ${scope} AND category = 'message' AND seq > @after AND seq < @before AND ${VISIBLE}
       ORDER BY seq ${direction} LIMIT @limit`
    )
  const IN_THREAD = ['ix_events_thread_messages', 'thread_id = @thread'] as const
  const IN_RUN = ['ix_events_run_messages', 'run_id = @run AND thread_id = @thread'] as const
  const statements = {
    thread: { ASC: page('ASC', ...IN_THREAD), DESC: page('DESC', ...IN_THREAD) },
    run: { ASC: page('ASC', ...IN_RUN), DESC: page('DESC', ...IN_RUN) }
  }
  const eventsSql = (types: string) => `SELECT ${COLUMNS} FROM run_events INDEXED BY ix_events_run
     WHERE run_id = @run AND thread_id = @thread AND seq > @after AND ${VISIBLE} ${types} ORDER BY seq LIMIT @limit`
  const events = db.prepare<object, EventRow>(eventsSql(''))
  const eventsOfTypes = eventsSql('AND event_type IN (SELECT value FROM json_each(@types))')
  const lastK = db.prepare<{ thread: string; run: string }, { k: number }>(
    'SELECT k FROM run_events INDEXED BY ix_events_run WHERE run_id = @run AND thread_id = @thread ORDER BY seq DESC LIMIT 1'
  )
  const nextSeq = db.prepare<[string], { next_seq: number }>('SELECT next_seq FROM threads_meta WHERE thread_id = ?')
  const origins = db.prepare<OriginsParams, string>(`SELECT ${ORIGINS}`).pluck()

  /** Without after_seq the last rows count, so they are read backwards; the answer is ascending either way [contract 4.4]. */
  const list = (
    scope: 'thread' | 'run',
    threadId: string,
    runId: string | null,
    { limit, before, after }: SeqPage,
    owner: string | null
  ) => {
    const backwards = after === undefined
    const rows = statements[scope][backwards ? 'DESC' : 'ASC'].all({
      thread: threadId,
      run: runId,
      before: before ?? Number.MAX_SAFE_INTEGER,
      after: after ?? 0,
      limit,
      owner
    })
    if (backwards) rows.reverse()
    return rows.map(toEvent)
  }

  return {
    async listMessages(threadId, seqPage, user) {
      return list('thread', threadId, null, seqPage, user)
    },
    async listMessagesByRun(threadId, runId, seqPage, user) {
      return list('run', threadId, runId, seqPage, user)
    },
    async listEvents(threadId, runId, { types, after, limit }, owner) {
      const params = { thread: threadId, run: runId, after: after ?? 0, limit, owner }
      // Some types may be rare among very many events.
      const rows = types
        ? await reader.rows<EventRow>(eventsOfTypes, { types: JSON.stringify(types), ...params })
        : events.all(params)
      return rows.map(toEvent)
    },
    async nextSeq(threadId) {
      return nextSeq.get(threadId)?.next_seq ?? null
    },
    async lastK(threadId, runId) {
      return lastK.get({ thread: threadId, run: runId })?.k ?? -1
    },
    async runsOfMessages(threadId, messageIds, owner) {
      return originsIn(origins.get(originsParams(threadId, messageIds, owner))!, messageIds)
    }
  }
}

type EventOps = 'events.append' | 'seq.move'

export function eventWrites(db: Database.Database): Writers<EventOps> {
  const counter = db.prepare<[string], number>('SELECT next_seq FROM threads_meta WHERE thread_id = ?').pluck()
  const advance = db.prepare('UPDATE threads_meta SET next_seq = ? WHERE thread_id = ?')
  const move = db.prepare('UPDATE threads_meta SET next_seq = @to WHERE thread_id = @thread_id AND next_seq = @from')
  const lastK = db
    .prepare<[string], number>('SELECT k FROM run_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1')
    .pluck()
  // By place: bound by name, a row costs a third more. What comes last stands in the order of EventTexts.
  const insert = db.prepare(`
    INSERT INTO run_events (thread_id, run_id, user_id, seq, k, event_type, category, content, event_metadata, message_id, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const seqOf = db.prepare<[string, number], { seq: number }>('SELECT seq FROM run_events WHERE run_id = ? AND k = ?')

  return {
    'events.append': ({ thread_id, run_id, user_id, ks, texts }) => {
      const nextSeq = counter.get(thread_id)
      if (nextSeq === undefined) throw new Refused(`thread ${thread_id} is gone`)
      const seen = lastK.get(run_id) ?? -1
      let seq = nextSeq
      for (const [i, k] of ks.entries()) {
        if (k <= seen) continue
        const at = i * TEXTS_OF_EVENT
        insert.run(
          thread_id,
          run_id,
          user_id,
          seq++,
          k,
          texts[at],
          texts[at + 1],
          texts[at + 2],
          texts[at + 3],
          texts[at + 4],
          texts[at + 5]
        )
      }
      if (seq !== nextSeq) advance.run(seq, thread_id)
      const first = ks[0]
      return first !== undefined && first <= seen ? seqOf.get(run_id, first)!.seq : nextSeq
    },
    'seq.move': ({ thread_id, from, to }) => {
      if (move.run({ thread_id, from, to }).changes === 0)
        throw new Refused(`the next seq of thread ${thread_id} is not ${from}, or it is gone`)
      return null
    }
  }
}
