// The function for each write, by the write's name, as a batch of PostgreSQL runs it.
import { type EventReads, type Op, type OpName, StoreUnavailable, type ThreadReads } from '../store.ts'
import { needsNoHold } from '../sql/holds.ts'
import { SQL_WRITES } from '../sql/nouns.ts'
import { type AnyWriter, type Batch, stepWriters, type Writers } from './batch.ts'
import { checkpointPut, checkpointWrites } from './checkpoints.ts'
import { frameWrites } from './frames.ts'
import { boundParams, type Db, runSteps, texts } from './db.ts'
import { Refused } from '../ports/ops.ts'
import { toRow } from '../sql/events.ts'
import { queueTexts, searchWrites, type WordDialect } from '../sql/search.ts'
import { additionsOf } from '../sql/usage.ts'
import { parseObject, places, visibleTo } from '../sql/steps.ts'
import { type JsonObject, type Run, UNPLACED } from '../../base/types.ts'
import {
  hasRunInFlight,
  hasRuns,
  IN_FLIGHT,
  insertRun,
  LATEST_SUCCESS,
  repeated,
  SETTLE_RUN,
  SETTLE_THREAD,
  settledOf,
  startRun
} from '../sql/runs.ts'
import { putJob, REMOVE_JOBS } from '../sql/jobs.ts'
import { REMOVE_LINKS } from '../sql/users.ts'
import { countStatement, metadataDigests, pageStatement, type SearchDialect } from '../sql/thread-search.ts'
import { COLUMNS, GET_THREAD, hasThreads, type ThreadRow, toThread } from '../sql/threads.ts'
import { beginRemoval, finishRemoval } from './removal.ts'

// -------------------------------------------- Run events in PostgreSQL: how they are appended, and who said what

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

const eventWrites: Writers<'events.append' | 'seq.move'> = {
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

// ----------------------------------------------------------------------------------------------------
// Admitting, starting and settling runs in PostgreSQL: what takes SQLite several statements is one here, to save round trips.

const NEXT_ORDINAL = 'SELECT next_ordinal FROM threads_meta WHERE thread_id = $4'
const START = `WITH started AS (
    ${startRun(`, ordinal = CASE WHEN $5::boolean THEN (${NEXT_ORDINAL}) ELSE ordinal END`)}
  )
  UPDATE threads_meta SET status = 'running', updated_at = $2, next_ordinal = next_ordinal + $5::boolean::int
  WHERE thread_id = $4 AND EXISTS (SELECT 1 FROM started)`

/**
 * Inserts the run and advances its thread's ordinal in one statement; on a conflict, or when the user has `max` in flight, neither
 * happens. Counted there too: those of a batch are sent before the first is answered. Returns the key, or null.
 */
async function insert(run: Omit<Run, 'key'>, owner: string, batch: Batch, max: number): Promise<number | null> {
  const insertion = insertRun(run, { owner }, max)
  const sql = `WITH made AS (${insertion.sql} ON CONFLICT DO NOTHING RETURNING key), counted AS (
      UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = $2 AND EXISTS (SELECT 1 FROM made)
    )
    SELECT key FROM made`
  const [made] = await batch.rows<{ key: number }>(sql, boundParams(insertion.params))
  return made?.key ?? null
}

const runWrites: Writers<'run.create' | 'run.start' | 'run.settle'> = {
  'run.create': async ({ run, autoFollowUp, isLater, max = 0 }, batch) => {
    const { thread_id } = run
    const [earlier, [thread], before, [success], isFull] = await Promise.all([
      runSteps(batch, repeated(run)),
      batch.rows<{ next_ordinal: number }>('SELECT next_ordinal FROM threads_meta WHERE thread_id = $1', [thread_id]),
      batch.rows<{ run_id: string; owner: string | null }>(
        `SELECT run_id, writer_id AS owner FROM runs LEFT JOIN writers ON writer_id = owner
          WHERE thread_id = $1 AND ${IN_FLIGHT} ORDER BY ordinal`,
        [thread_id]
      ),
      batch.rows<{ run_id: string }>(LATEST_SUCCESS, [run.user_id, thread_id]),
      runSteps(batch, hasRuns(run.user_id, max))
    ])
    if (earlier) return earlier
    // One that another process made after this batch had looked is not held, and its next ordinal may be taken meanwhile.
    if (!thread || !batch.threads.has(thread_id)) return { outcome: 'thread_missing' }
    if (isFull) return { outcome: 'too_many' }
    if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const follow_up_to_run_id = autoFollowUp ? (success?.run_id ?? null) : run.follow_up_to_run_id
    const ordinal = thread.next_ordinal + (isLater ? UNPLACED : 0)
    const attempts = before.length === 0 && !isLater ? 1 : 0
    const admitted = { ...run, ordinal, attempts, follow_up_to_run_id }
    // All runs in flight of a thread belong to one process, which alone can keep their order [Store 10].
    const owner = before.find((run) => run.owner !== null)?.owner ?? batch.writerId
    const key = await insert(admitted, owner, batch, max)
    if (key !== null)
      return {
        outcome: 'created',
        run: { ...admitted, key },
        inFlight: before.map(({ run_id }) => run_id),
        owner
      }
    // Lost a race: against the same key on another thread, or the same id.
    const faster = await runSteps(batch, repeated(run))
    if (faster) return faster
    if (await runSteps(batch, hasRuns(run.user_id, max))) return { outcome: 'too_many' }
    throw new Refused(`run ${run.run_id} exists already`)
  },

  'run.start': async ({ run_id, thread_id, now, attempt, isLater = false }, batch) => {
    batch.needs(thread_id)
    return (await batch.changes(START, [run_id, now, attempt, thread_id, isLater])) > 0
  },

  'run.settle': async (end, batch) => {
    batch.needs(end.thread_id)
    const sql = `WITH ended AS (${SETTLE_RUN}) ${SETTLE_THREAD} AND EXISTS (SELECT 1 FROM ended)`
    if ((await batch.changes(sql, settledOf(end))) === 0) return false
    batch.usage.push(...additionsOf(end))
    for (const job of end.jobs ?? []) await runSteps(batch, putJob(job))
    await runSteps(batch, queueTexts(end.thread_id))
    return true
  }
}

// ---------------------------------------------- Searching, creating, changing and removing threads in PostgreSQL

/** Metadata terms, as the column stores them. */
export function termTexts(metadata: JsonObject): string {
  return texts(metadataDigests(metadata).map((digest) => digest.toString('base64')))
}

const DIALECT: SearchDialect = {
  isIn: (column, list) => `${column} = ANY(${list}::text[])`,
  hasTerms: (terms) => `metadata_terms @> ${terms}::text[]`
}

export function threadSearch(db: Db): ThreadReads['search'] {
  return async (query, owner) => {
    const { ids, metadata = {} } = query
    const lists = {
      ids: ids ? texts(ids) : null,
      terms: Object.keys(metadata).length > 0 ? termTexts(metadata) : null
    }
    const page = pageStatement(query, owner, lists, DIALECT)
    const count = countStatement(query, owner, lists, DIALECT)
    const [rows, [counted]] = await Promise.all([
      db.rows<ThreadRow>(page.sql, page.params, 'anew'),
      db.rows<{ total: number }>(count.sql, count.params, 'anew')
    ])
    return { threads: rows.map(toThread), total: counted?.total ?? 0 }
  }
}

const INSERT = `INSERT INTO threads_meta (${COLUMNS}, metadata_terms, is_temporary)
  VALUES (${places(8)}, $9::text[], $10) ON CONFLICT DO NOTHING`
/** Counted in the statement that inserts: those of a batch are sent before the first is answered. */
const INSERT_BELOW = `INSERT INTO threads_meta (${COLUMNS}, metadata_terms, is_temporary)
  SELECT $1::varchar, $2::varchar, $3::varchar, $4::varchar, $5::varchar, $6::text, $7::timestamptz, $8::timestamptz, $9::text[], $10::integer
  WHERE (SELECT count(*) FROM (
    SELECT 1 FROM threads_meta WHERE user_id = $2::varchar AND is_temporary = 0 LIMIT $11::integer) AS counted) < $11::integer
  ON CONFLICT DO NOTHING`

const threadWrites: Writers<'thread.create' | 'thread.patch' | 'thread.remove'> = {
  'thread.create': async ({ thread, checkpoint, isTemporary = false, removal, max = 0 }, batch) => {
    const { thread_id, user_id, assistant_id, display_name, status, metadata, created_at, updated_at } = thread
    const json = JSON.stringify(metadata)
    const row = [thread_id, user_id, assistant_id, display_name, status, json, created_at, updated_at]
    const isLimited = max > 0 && user_id !== null && !isTemporary
    const values = [...row, termTexts(metadata), Number(isTemporary)]
    const made = await batch.changes(isLimited ? INSERT_BELOW : INSERT, isLimited ? [...values, max] : values)
    if (made === 0) {
      const [found] = await batch.rows<ThreadRow>(`SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = $1`, [
        thread_id
      ])
      if (!found && isLimited && (await runSteps(batch, hasThreads(user_id, max)))) return 'too_many'
      if (!found) throw new StoreUnavailable('GONE_MEANWHILE', `thread ${thread_id} was removed while it was created`)
      // Another process created it after this batch had looked.
      if (!batch.threads.has(thread_id)) await batch.load([thread_id])
      if (found.user_id !== null && found.user_id !== user_id) return null
      return { thread: toThread(found), created: false }
    }
    batch.keep(thread_id, 1)
    await finishRemoval(batch, thread_id)
    if (removal) await runSteps(batch, putJob(removal))
    // A legacy thread already has checkpoints: an empty one on top would hide its conversation.
    const before = await batch.rows('SELECT 1 FROM checkpoints WHERE thread_id = $1 LIMIT 1', [thread_id])
    if (before.length === 0) await checkpointPut(checkpoint, batch)
    return { thread, created: true }
  },

  'thread.patch': async ({ thread_id, metadata, user, now }, batch) => {
    const [row] = await batch.rows<ThreadRow>(GET_THREAD, [user, thread_id])
    if (!row) return null
    const merged: JsonObject = { ...parseObject(row.metadata_json), ...metadata }
    await batch.changes(
      'UPDATE threads_meta SET metadata_json = $2, metadata_terms = $3::text[], updated_at = $4 WHERE thread_id = $1',
      [thread_id, JSON.stringify(merged), termTexts(merged), now]
    )
    return { ...toThread(row), metadata: merged, updated_at: now }
  },

  'thread.remove': async ({ thread_id, user, ifIdle = false, files }, batch) => {
    if ((await batch.rows(GET_THREAD, [user, thread_id])).length === 0) return false
    await runSteps(batch, needsNoHold('thread', thread_id))
    if (ifIdle && (await runSteps(batch, hasRunInFlight(thread_id))))
      throw new Refused(`thread ${thread_id} has a run in flight`)
    await batch.flush()
    // Locked first: another process may be compacting frames of one of them.
    await batch.rows('SELECT 1 FROM runs WHERE thread_id = $1 ORDER BY key FOR UPDATE', [thread_id])
    await Promise.all([
      batch.changes('DELETE FROM threads_meta WHERE thread_id = $1', [thread_id]),
      batch.changes(REMOVE_JOBS, [thread_id]),
      batch.changes(REMOVE_LINKS, [thread_id]),
      beginRemoval(batch, thread_id)
    ])
    if (files) await runSteps(batch, putJob(files))
    batch.threads.delete(thread_id)
    return true
  }
}

/** Looks at bits of a bytea. */
export const WORDS: WordDialect = {
  isSet: (column, n) => `NOT EXISTS (SELECT 1 FROM unnest(CAST($${n} AS bigint[])) AS h
    WHERE get_bit(${column}, CAST(h % (8 * octet_length(${column})) AS integer)) = 0)`
}

const WRITES: Writers<OpName> = {
  // Nothing to do: every batch writes its number anyway, see writer.ts.
  'store.ping': async () => null,
  ...stepWriters(SQL_WRITES),
  ...stepWriters(searchWrites),
  ...threadWrites,
  ...runWrites,
  ...eventWrites,
  ...frameWrites,
  ...checkpointWrites
}

/** Writes one op; its result holds once the batch is committed. */
export function write(op: Op, batch: Batch): Promise<unknown> {
  // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
  const writer = WRITES[op.name] as AnyWriter
  return writer(op, batch)
}
