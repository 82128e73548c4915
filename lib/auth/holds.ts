// Lists, sets and lifts legal holds, which keep a user or a thread from being deleted. Each change is written to the audit too: who,
// whom and why.
import { randomUUID } from 'node:crypto'
import { fail } from '../base/errors.ts'
import type { Hold, HoldKind } from '../base/accounts.ts'
import { type JsonObject, timestamp } from '../base/types.ts'
import type { HoldSearch, Store, Writer } from '../store/store.ts'
import { type Actor, type Audit, userName } from './audit.ts'

/** Characters of a reason. */
export const REASON_MAX = 1000

interface HoldParts {
  readonly store: Pick<Store, 'holds'>
  readonly writer: Pick<Writer, 'write'>
  readonly audit: Audit
}

export class Holds {
  readonly #parts: HoldParts

  constructor(parts: HoldParts) {
    this.#parts = parts
  }

  /** Newest first. */
  list(search: HoldSearch): Promise<Hold[]> {
    return this.#parts.store.holds.list(search)
  }

  /** From now on nothing of it is deleted. @throws Failure account_not_found, thread_not_found */
  async add(kind: HoldKind, target: string, reason: string, by: Actor): Promise<Hold> {
    const { writer, audit } = this.#parts
    const hold = { hold_id: randomUUID(), kind, target, reason, created_by: by.actor, created_at: timestamp() }
    const isThere = await writer.write({ name: 'hold.put', hold })
    if (!isThere) throw fail(kind === 'user' ? 'account_not_found' : 'thread_not_found', { id: target })
    await audit.record('hold_added', by, targetName(hold), { hold_id: hold.hold_id, reason })
    return hold
  }

  /** Lifts one; others of the same thread or user stay. @throws Failure hold_not_found */
  async remove(id: string, reason: string | null, by: Actor): Promise<Hold> {
    const { writer, audit } = this.#parts
    const hold = await writer.write({ name: 'hold.remove', hold_id: id })
    if (hold === null) throw fail('hold_not_found', { id })
    await audit.record('hold_lifted', by, targetName(hold), { hold_id: id, reason })
    return hold
  }
}

/** A hold as the API and the command line show it. */
export function holdView({ kind, target, ...hold }: Hold): JsonObject {
  return { ...hold, thread_id: kind === 'thread' ? target : null, user_id: kind === 'user' ? target : null }
}

function targetName({ kind, target }: Hold): string {
  return kind === 'user' ? userName(target) : `thread:${target}`
}
