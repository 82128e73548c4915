// The function for each write, by the write's name, as SQLite's writer thread runs it.
import type Database from 'better-sqlite3'
import type { OpName } from '../store.ts'
import { needsNoHold } from '../sql/holds.ts'
import { SQL_WRITES } from '../sql/nouns.ts'
import { checkpointWrites, insertBodies } from './checkpoints.ts'
import { frameWrites } from './frames.ts'
import { type AnyWriter, TEXTS_OF_EVENT, type Writers } from './batch-codec.ts'
import { stepRunner, stepWriters } from './steps.ts'
import { Refused } from '../ports/ops.ts'
import { type JsonObject, UNPLACED } from '../../base/types.ts'
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
import { queueTexts, searchWrites } from '../sql/search.ts'
import { ask, askOne, ownedBy, parseObject, type Steps, type StepWrites } from '../sql/steps.ts'
import { COLUMNS, hasThread, hasThreads, needsThread, type ThreadRow, toThread } from '../sql/threads.ts'
import { putCheckpoint } from '../sql/checkpoints.ts'
import { additionsOf, addUsage } from '../sql/usage.ts'
import { metadataIndexWrites } from './search.ts'
import { removal } from './removal.ts'

// ------------------------------------------------------------------- Run events in SQLite: how they are appended

function eventWrites(db: Database.Database): Writers<'events.append' | 'seq.move'> {
  const counter = db.prepare<[string], number>('SELECT next_seq FROM threads_meta WHERE thread_id = ?').pluck()
  const advance = db.prepare('UPDATE threads_meta SET next_seq = ? WHERE thread_id = ?')
  const move = db.prepare('UPDATE threads_meta SET next_seq = @to WHERE thread_id = @thread_id AND next_seq = @from')
  const lastK = db
    .prepare<[string], number>('SELECT k FROM run_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1')
    .pluck()
  // Positional: named parameters cost a third more per row. The last ones are in the order of EventTexts.
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
        insert.run(thread_id, run_id, user_id, seq++, k, texts.slice(i * TEXTS_OF_EVENT, (i + 1) * TEXTS_OF_EVENT))
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

// --------------------------------------------------------------- Admitting, starting and settling runs in SQLite

const START_RUN = startRun()

function* nextOrdinal(threadId: string): Steps<number> {
  const counted = yield* askOne<{ ordinal: number }>(
    'UPDATE threads_meta SET next_ordinal = next_ordinal + 1 WHERE thread_id = $1 RETURNING next_ordinal - 1 AS ordinal',
    threadId
  )
  return counted!.ordinal
}

const runWrites: StepWrites<'run.create' | 'run.start' | 'run.settle'> = {
  *'run.create'({ run, autoFollowUp, isLater, max = 0 }) {
    const { thread_id, user_id } = run
    const earlier = yield* repeated(run)
    if (earlier) return earlier
    if (!(yield* hasThread(thread_id))) return { outcome: 'thread_missing' }
    if (yield* hasRuns(user_id, max)) return { outcome: 'too_many' }
    const inFlight = `SELECT run_id FROM runs WHERE thread_id = $1 AND ${IN_FLIGHT} ORDER BY +ordinal`
    const before = (yield* ask<{ run_id: string }>(inFlight, thread_id)).map(({ run_id }) => run_id)
    if (before.length && run.multitask_strategy === 'reject') return { outcome: 'busy' }
    const followUp = autoFollowUp
      ? ((yield* askOne<{ run_id: string }>(LATEST_SUCCESS, user_id, thread_id))?.run_id ?? null)
      : run.follow_up_to_run_id
    const ordinal = (yield* nextOrdinal(thread_id)) + (isLater ? UNPLACED : 0)
    const attempts = before.length === 0 && !isLater ? 1 : 0
    const admitted = { ...run, ordinal, attempts, follow_up_to_run_id: followUp }
    const { sql, params } = insertRun(admitted)
    const made = yield* askOne<{ key: number }>(`${sql} RETURNING key`, ...params)
    return { outcome: 'created', run: { ...admitted, key: made!.key }, inFlight: before }
  },

  *'run.start'({ run_id, thread_id, now, attempt, isLater }) {
    yield* needsThread(thread_id)
    if ((yield* ask(START_RUN, run_id, now, attempt)).length === 0) return false
    if (isLater) yield* ask('UPDATE runs SET ordinal = $2 WHERE run_id = $1', run_id, yield* nextOrdinal(thread_id))
    yield* ask("UPDATE threads_meta SET status = 'running', updated_at = $2 WHERE thread_id = $1", thread_id, now)
    return true
  },

  *'run.settle'(end) {
    yield* needsThread(end.thread_id)
    const settled = settledOf(end)
    if ((yield* ask(SETTLE_RUN, ...settled)).length === 0) return false
    yield* ask(SETTLE_THREAD, ...settled)
    yield* addUsage(additionsOf(end))
    for (const job of end.jobs ?? []) yield* putJob(job)
    yield* queueTexts(end.thread_id)
    return true
  }
}

// ------------------------------------------------------------- Creating, changing and removing threads in SQLite

function threadWrites(db: Database.Database): Writers<'thread.create' | 'thread.patch' | 'thread.remove'> {
  const any = db.prepare<[string], ThreadRow>(`SELECT ${COLUMNS} FROM threads_meta WHERE thread_id = ?`)
  const owned = db.prepare<object, ThreadRow & { key: number; is_temporary: number }>(
    `SELECT key, is_temporary, ${COLUMNS} FROM threads_meta WHERE thread_id = $2 AND ${ownedBy(1)}`
  )
  const insert = db.prepare(`INSERT INTO threads_meta (${COLUMNS}, is_temporary) VALUES (@thread_id, @user_id,
    @assistant_id, @display_name, @status, @metadata_json, @created_at, @updated_at, @is_temporary)`)
  const hasCheckpoint = db.prepare('SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1')
  const setMetadata = db.prepare('UPDATE threads_meta SET metadata_json = ?, updated_at = ? WHERE thread_id = ?')
  const removeThread = db.prepare('DELETE FROM threads_meta WHERE thread_id = ?')
  const removeJobs = db.prepare<object>(REMOVE_JOBS)
  const removeLinks = db.prepare<object>(REMOVE_LINKS)
  const run = stepRunner(db)
  const terms = metadataIndexWrites(db)
  const removed = removal(db)

  return {
    'thread.create': ({ thread, checkpoint, isTemporary = false, removal, max = 0 }) => {
      const found = any.get(thread.thread_id)
      if (found) {
        const visible = found.user_id === null || found.user_id === thread.user_id
        return visible ? { thread: toThread(found), created: false } : null
      }
      if (!isTemporary && run(hasThreads(thread.user_id, max))) return 'too_many'
      removed.finish(thread.thread_id)
      const { lastInsertRowid } = insert.run({
        ...thread,
        metadata_json: JSON.stringify(thread.metadata),
        is_temporary: Number(isTemporary)
      })
      // Without terms no search by metadata finds it.
      if (!isTemporary) terms.add(thread.user_id, Number(lastInsertRowid), thread.metadata)
      if (removal) run(putJob(removal))
      // A legacy thread has checkpoints already: an empty one on top would hide its conversation.
      if (!hasCheckpoint.get(thread.thread_id)) run(putCheckpoint(checkpoint, insertBodies))
      return { thread, created: true }
    },
    'thread.patch': ({ thread_id, metadata, user, now }) => {
      const row = owned.get({ 1: user, 2: thread_id })
      if (!row) return null
      const { key, is_temporary, ...thread } = row
      const before = parseObject(row.metadata_json)
      const replaced = Object.fromEntries(Object.entries(before).filter(([name]) => Object.hasOwn(metadata, name)))
      const merged: JsonObject = { ...before, ...metadata }
      if (!is_temporary) {
        terms.remove(row.user_id, key, replaced)
        terms.add(row.user_id, key, metadata)
      }
      setMetadata.run(JSON.stringify(merged), now, thread_id)
      return { ...toThread(thread), metadata: merged, updated_at: now }
    },
    'thread.remove': ({ thread_id, user, ifIdle = false, files }) => {
      const row = owned.get({ 1: user, 2: thread_id })
      if (!row) return false
      run(needsNoHold('thread', thread_id))
      if (ifIdle && run(hasRunInFlight(thread_id))) throw new Refused(`thread ${thread_id} has a run in flight`)
      removeJobs.run({ 1: thread_id })
      removeLinks.run({ 1: thread_id })
      terms.remove(row.user_id, row.key, parseObject(row.metadata_json))
      removeThread.run(thread_id)
      removed.begin(thread_id)
      if (files) run(putJob(files))
      return true
    }
  }
}

/** Prepares all statements once; each writes one op inside the caller's transaction. */
export function opWriters(db: Database.Database): Readonly<Record<string, AnyWriter>> {
  // The same value: SQLite still writes the page.
  const ping = db.prepare('UPDATE migrations SET applied_at = applied_at WHERE version = 1')
  const table: Writers<OpName> = {
    'store.ping': () => {
      ping.run()
      return null
    },
    ...stepWriters(db, { ...SQL_WRITES, ...runWrites, ...checkpointWrites, ...searchWrites }),
    ...threadWrites(db),
    ...eventWrites(db),
    ...frameWrites(db)
  }
  // The table has for each name a function of that op; the compiler cannot follow name and op through one lookup.
  return table as unknown as Record<string, AnyWriter>
}
