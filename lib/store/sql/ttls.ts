// Times to live as rows of both databases.
import type { ThreadTtl, TtlReads } from '../store.ts'
import { ask, type StepReads, type Steps, type StepWrites } from './steps.ts'

const COLUMNS = 'thread_id, made_at, minutes, expires_at'

function* get(threadId: string): Steps<ThreadTtl | null> {
  const [row] = yield* ask<ThreadTtl>(`SELECT ${COLUMNS} FROM thread_ttls WHERE thread_id = $1`, threadId)
  return row ?? null
}

const DUE = `SELECT ${COLUMNS} FROM thread_ttls WHERE expires_at < $1 ORDER BY expires_at, thread_id LIMIT $2`

export const ttlReads: StepReads<TtlReads> = { get, due: (before, limit) => ask<ThreadTtl>(DUE, before, limit) }

export const ttlWrites: StepWrites<'ttl.set' | 'ttl.remove'> = {
  *'ttl.set'({ ttl }) {
    yield* ask('DELETE FROM thread_ttls WHERE thread_id = $1', ttl.thread_id)
    const { thread_id, made_at, minutes, expires_at } = ttl
    const insert = `INSERT INTO thread_ttls (${COLUMNS}) VALUES ($1, $2, $3, $4)`
    yield* ask(insert, thread_id, made_at, minutes, expires_at)
    return null
  },
  *'ttl.remove'({ thread_id }) {
    yield* ask('DELETE FROM thread_ttls WHERE thread_id = $1', thread_id)
    return null
  }
}
