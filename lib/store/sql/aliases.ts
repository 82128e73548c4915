// Names of other protocols as rows of both databases.
import type { Alias, AliasReads } from '../store.ts'
import { PRESENT } from './removal.ts'
import { ask, type StepReads, type Steps, type StepWrites } from './steps.ts'

/** Names of one thread and its runs that are listed. */
const THREAD_MAX = 10_000
const COLUMNS = 'user_id, protocol, text, thread_id, run_id'
const NAMED = `protocol = $1 AND text = $2 AND ${PRESENT}`
const GET = `SELECT ${COLUMNS} FROM aliases WHERE user_id = $3 AND ${NAMED}`
const GET_ANY = `SELECT ${COLUMNS} FROM aliases WHERE ${NAMED} ORDER BY created LIMIT 1`
const OF_THREAD = `SELECT ${COLUMNS} FROM aliases WHERE thread_id = $2 AND (CAST($1 AS text) IS NULL OR user_id = $1) AND ${PRESENT}
  ORDER BY created, protocol, text COLLATE "C" LIMIT ${THREAD_MAX}`
/** Of nobody: '', as a key has no null. A name of a thread that is gone is free again. The thread must be there: what names nothing would never be deleted. */
const PUT = `INSERT INTO aliases (${COLUMNS}, created)
  SELECT coalesce($1, ''), $2, $3, thread_id, $5, $6 FROM threads_meta WHERE thread_id = $4 AND ${PRESENT}
  ON CONFLICT (user_id, protocol, text) DO UPDATE
    SET thread_id = excluded.thread_id, run_id = excluded.run_id, created = excluded.created
    WHERE aliases.thread_id IN (SELECT thread_id FROM removed_threads)
  RETURNING 1`

type AliasRow = Alias & { readonly user_id: string }

function* one(sql: string, ...params: string[]): Steps<Alias | null> {
  const [found] = yield* ask<AliasRow>(sql, ...params)
  return found ? toAlias(found) : null
}

function toAlias({ user_id, ...alias }: AliasRow): Alias {
  return { user_id: user_id || null, ...alias }
}

export const aliasReads: StepReads<AliasReads> = {
  get: (protocol, text, user) => (user === null ? one(GET_ANY, protocol, text) : one(GET, protocol, text, user)),
  *ofThread(threadId, user) {
    return (yield* ask<AliasRow>(OF_THREAD, user, threadId)).map(toAlias)
  }
}

export const aliasWrites: StepWrites<'alias.put'> = {
  *'alias.put'({ alias: { user_id, protocol, text, thread_id, run_id }, now }) {
    yield* ask(PUT, user_id, protocol, text, thread_id, run_id, now)
    return yield* one(GET, protocol, text, user_id ?? '')
  }
}
