// Events as rows of both databases.
import { isObject, type Json, type JsonObject, type RunEvent } from '../../base/types.ts'
import { messageIdOf } from '../event-query.ts'
import type { EventReads, NewEvent, SeqPage } from '../store.ts'
import { ask, askOne, type Param, parseJson, parseObject, type RunSteps, visibleTo } from './steps.ts'

interface EventRow extends Omit<RunEvent, 'content' | 'metadata'> {
  readonly content: string
  readonly event_metadata: string
}

const COLUMNS = 'thread_id, run_id, user_id, event_type, category, content, event_metadata, seq, created_at'

function toEvent(row: EventRow): RunEvent {
  const metadata = parseObject(row.event_metadata)
  // Field by field: spreading is slower, and pages have many rows.
  return {
    thread_id: row.thread_id,
    run_id: row.run_id,
    user_id: row.user_id,
    event_type: row.event_type,
    category: row.category,
    content: contentOf(row.content, metadata),
    metadata,
    seq: row.seq,
    created_at: row.created_at
  }
}

/** The reads each database does in its own way. */
export interface EventDialect {
  /** Runs statements that may scan many events. */
  readonly beside: RunSteps
  readonly runsOfMessages: EventReads['runsOfMessages']
}

const IN_THREAD = 'run_events INDEXED BY ix_events_thread_messages WHERE thread_id = $2'
const IN_RUN = 'run_events INDEXED BY ix_events_run_messages WHERE run_id = $6 AND thread_id = $2'

export function eventReads(run: RunSteps, { beside, runsOfMessages }: EventDialect): EventReads {
  const messages = async (
    source: string,
    { limit, before = Number.MAX_SAFE_INTEGER, after }: SeqPage,
    ...[user, threadId, ...runId]: Param[]
  ) => {
    // Without after_seq the newest rows are wanted, so they are read backwards; the answer is ascending either way [contract 4.4].
    const backwards = after === undefined
    const sql = `SELECT ${COLUMNS} FROM ${source} AND category = 'message' AND seq > $3 AND seq < $4 AND ${visibleTo(1)}
      ORDER BY seq ${backwards ? 'DESC' : 'ASC'} LIMIT $5`
    const rows = await run(ask<EventRow>(sql, user!, threadId!, after ?? 0, before, limit, ...runId))
    if (backwards) rows.reverse()
    return rows.map(toEvent)
  }
  return {
    listMessages: (threadId, page, user) => messages(IN_THREAD, page, user, threadId),
    listMessagesByRun: (threadId, runId, page, user) => messages(IN_RUN, page, user, threadId, runId),
    async listEvents(threadId, runId, { types, after = 0, limit }, user) {
      const sql = `SELECT ${COLUMNS} FROM run_events INDEXED BY ix_events_run
        WHERE run_id = $3 AND thread_id = $2 AND seq > $4 AND ${visibleTo(1)} ${types ? 'AND event_type = ANY($6)' : ''}
        ORDER BY seq LIMIT $5`
      const params = [user, threadId, runId, after, limit]
      // A rare type may need a long scan.
      const rows = types ? beside(ask<EventRow>(sql, ...params, types)) : run(ask<EventRow>(sql, ...params))
      return (await rows).map(toEvent)
    },
    async nextSeq(threadId) {
      const sql = 'SELECT next_seq FROM threads_meta WHERE thread_id = $1'
      return (await run(askOne<{ next_seq: number }>(sql, threadId)))?.next_seq ?? null
    },
    async lastK(threadId, runId) {
      const sql = `SELECT k FROM run_events INDEXED BY ix_events_run WHERE run_id = $2 AND thread_id = $1
        ORDER BY seq DESC LIMIT 1`
      return (await run(askOne<{ k: number }>(sql, threadId, runId)))?.k ?? -1
    },
    runsOfMessages
  }
}

/** Objects and lists are stored as JSON text and marked; a string stays a string, even if it looks like JSON [contract 4.1]. */
function contentOf(text: string, metadata: JsonObject): Json {
  if (metadata.content_is_dict !== true && metadata.content_is_json !== true) return text
  try {
    return parseJson(text)
  } catch {
    // A truncated trace no longer parses: what is left of its text is returned.
    return text
  }
}

/** Marks a content as JSON text: of an object, or of anything else. */
type ContentMark = 'content_is_dict' | 'content_is_json'

/** Content and metadata of an event as texts; the metadata carries the mark. */
export function stored({ content, metadata }: NewEvent): { content: string; metadata: string } {
  if (typeof content === 'string') return { content, metadata: JSON.stringify(metadata) }
  return storedAsJson(content, metadata, isObject(content) ? 'content_is_dict' : 'content_is_json')
}

export function storedAsJson(
  content: Json,
  metadata: JsonObject,
  mark: ContentMark
): { content: string; metadata: string } {
  return { content: JSON.stringify(content), metadata: marked(metadata, mark) }
}

/** The mark is spliced into the text: done for every event, and copying the object costs more. */
function marked(metadata: JsonObject, mark: ContentMark): string {
  if (mark in metadata) return JSON.stringify({ ...metadata, [mark]: true })
  const members = JSON.stringify(metadata).slice(1, -1)
  return members === '' ? `{"${mark}":true}` : `{${members},"${mark}":true}`
}

export interface NewEventRow extends EventRow {
  readonly k: number
  readonly message_id: string | null
}

export function toRow(event: NewEvent, place: Pick<EventRow, 'thread_id' | 'run_id' | 'user_id' | 'seq'>): NewEventRow {
  // Field by field: this is done for every event, and a spread costs more.
  const { thread_id, run_id, user_id, seq } = place
  const { content, metadata } = stored(event)
  return {
    thread_id,
    run_id,
    user_id,
    seq,
    event_type: event.event_type,
    category: event.category,
    content,
    event_metadata: metadata,
    k: event.k,
    message_id: messageIdOf(event),
    created_at: event.created_at
  }
}
