// Crons in memory.
import { isVisible, type Owner } from '../../scope.ts'
import type { Cron, Timestamp } from '../../types.ts'
import type { CronReads } from '../store.ts'
import { byText, copyOf, type Noun } from './rows.ts'

type CronOps = 'cron.create' | 'cron.update' | 'cron.remove' | 'cron.claim' | 'cron.advance'

export function memoryCrons(): Noun<CronReads, CronOps> {
  const byId = new Map<string, Cron>()
  const claims = new Map<string, Timestamp>()
  const owned = (id: string, owner: Owner): Cron | null => {
    const found = byId.get(id)
    return found && isVisible(found, owner) ? found : null
  }
  const due = (now: Timestamp): Cron[] =>
    [...byId.values()]
      .filter(({ enabled, next_run_date }) => enabled && next_run_date !== null && next_run_date <= now)
      .filter(({ cron_id }) => (claims.get(cron_id) ?? '') <= now)
      .sort((one, other) => byText(one.next_run_date!, other.next_run_date!))

  return {
    reads: {
      async get(cronId, owner) {
        return copyOf(owned(cronId, owner))
      },
      async list(owner) {
        return [...byId.values()]
          .filter((one) => isVisible(one, owner))
          .sort((one, other) => byText(other.created_at, one.created_at) || byText(other.cron_id, one.cron_id))
          .map(copyOf)
      },
      async areDue(now) {
        return due(now).length > 0
      }
    },
    writes: {
      'cron.create': ({ cron, max }, undo) => {
        if ([...byId.values()].filter(({ user_id }) => user_id === cron.user_id).length >= max) return 'too_many'
        undo.set(byId, cron.cron_id, cron)
        return 'created'
      },
      'cron.update': ({ cron_id, set, user, now }, undo) => {
        const before = owned(cron_id, user)
        if (!before) return null
        const after = { ...before, ...set, updated_at: now }
        undo.set(byId, cron_id, after)
        undo.delete(claims, cron_id)
        return after
      },
      'cron.remove': ({ cron_id, user }, undo) => {
        if (!owned(cron_id, user)) return false
        undo.delete(byId, cron_id)
        undo.delete(claims, cron_id)
        return true
      },
      'cron.claim': ({ now, until, limit }, undo) => {
        const found = due(now).slice(0, limit)
        for (const { cron_id } of found) undo.set(claims, cron_id, until)
        return found
      },
      'cron.advance': ({ cron_id, from, to }, undo) => {
        const cron = byId.get(cron_id)
        if (cron?.next_run_date !== from) return false
        undo.set(byId, cron_id, { ...cron, next_run_date: to })
        undo.delete(claims, cron_id)
        return true
      }
    }
  }
}
