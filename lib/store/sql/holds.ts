// Legal holds as rows of both databases, and what they keep: ops that would delete something refuse, sweeps pass over it.
import type { Hold } from '../../base/accounts.ts'
import { Held } from '../ports/ops.ts'
import type { HeldScope, HoldReads, HoldSearch } from '../store.ts'
import { ask, askOne, lock, type Param, places, type StepReads, type Steps, type StepWrites } from './steps.ts'

const COLUMNS = 'hold_id, kind, target, reason, created_by, created_at'

const HELD_USERS = "SELECT target FROM holds WHERE kind = 'user'"
const HELD_THREADS = `SELECT target FROM holds WHERE kind = 'thread'
  UNION ALL SELECT thread_id FROM threads_meta WHERE user_id IN (${HELD_USERS})`

/** Condition on rows with a thread_id and a user_id: no hold keeps them. */
export const UNHELD = `thread_id NOT IN (${HELD_THREADS}) AND coalesce(user_id, '') NOT IN (${HELD_USERS})`

/** Condition on lines of the audit: they are not about somebody who is held. */
export const UNHELD_AUDIT = `NOT EXISTS (SELECT 1 FROM holds AS h WHERE h.kind = 'user'
  AND ('user:' || h.target = audit.actor OR 'user:' || h.target = audit.target))`

/** Condition: the user $1 is not held. */
export const UNHELD_USER = "NOT EXISTS (SELECT 1 FROM holds WHERE kind = 'user' AND target = $1)"

const HOLDS: Readonly<Record<HeldScope, string>> = {
  thread: `SELECT 1 FROM holds WHERE kind = 'thread' AND target = $1
    UNION ALL SELECT 1 FROM holds WHERE kind = 'user' AND target IN (
      SELECT user_id FROM threads_meta WHERE thread_id = $1 UNION ALL SELECT user_id FROM runs WHERE thread_id = $1)
    LIMIT 1`,
  user: "SELECT 1 FROM holds WHERE kind = 'user' AND target = $1 LIMIT 1",
  account: `SELECT 1 FROM holds WHERE kind = 'user' AND target = $1
    UNION ALL SELECT 1 FROM holds WHERE kind = 'thread' AND target IN (
      SELECT thread_id FROM threads_meta WHERE user_id = $1 UNION ALL SELECT thread_id FROM runs WHERE user_id = $1)
    LIMIT 1`
}

function* isHeld(of: HeldScope, id: string): Steps<boolean> {
  return (yield* ask(HOLDS[of], id)).length > 0
}

/** @throws Held while something that would go is held; `id` null: there is nobody to ask about */
export function* needsNoHold(of: HeldScope, id: string | null): Steps<void> {
  if (id !== null && (yield* isHeld(of, id))) throw new Held(`${of} ${id} is held`)
}

function* list({ target, limit, offset }: HoldSearch): Steps<Hold[]> {
  const params: Param[] = target === undefined ? [] : [target]
  const filter = target === undefined ? '' : 'WHERE target = $1'
  const at = params.length
  return yield* ask<Hold>(
    `SELECT ${COLUMNS} FROM holds ${filter} ORDER BY created_at DESC, hold_id LIMIT $${at + 1} OFFSET $${at + 2}`,
    ...params,
    limit,
    offset
  )
}

export const holdReads: StepReads<HoldReads> = { list, isHeld }

export const holdWrites: StepWrites<'hold.put' | 'hold.remove'> = {
  *'hold.put'({ hold }) {
    const { hold_id, kind, target, reason, created_by, created_at } = hold
    // Threads are locked already. A deletion at the same time comes before this, or is refused by it.
    if (kind === 'user') yield* lock('SELECT 1 FROM users WHERE id = $1 FOR UPDATE', target)
    const there = kind === 'user' ? 'FROM users WHERE id = $1' : 'FROM threads_meta WHERE thread_id = $1'
    if ((yield* ask(`SELECT 1 ${there}`, target)).length === 0) return false
    const values = [hold_id, kind, target, reason, created_by, created_at]
    yield* ask(`INSERT INTO holds (${COLUMNS}) VALUES (${places(6)})`, ...values)
    return true
  },

  *'hold.remove'({ hold_id }) {
    const sql = `DELETE FROM holds WHERE hold_id = $1 RETURNING ${COLUMNS}`
    return (yield* askOne<Hold>(sql, hold_id)) ?? null
  }
}
