// Webhooks in memory.
import { isInFlight, type Timestamp } from '../../types.ts'
import { Refused } from '../refused.ts'
import type { Webhook, WebhookReads } from '../store.ts'
import { byText, type Noun } from './rows.ts'
import type { RunRows } from './runs.ts'

type WebhookOps = 'webhook.add' | 'webhook.prepare' | 'webhook.claim' | 'webhook.retry' | 'webhook.remove'
type Kept = Webhook & { readonly next_at: Timestamp }

export function memoryWebhooks(runs: RunRows): Noun<WebhookReads, WebhookOps> {
  const byRun = new Map<string, Kept>()
  const due = (now: Timestamp): Kept[] =>
    [...byRun.values()]
      .filter(({ run_id, next_at, payload }) => {
        const run = runs.get(run_id)
        return next_at <= now && (payload !== null || (run !== undefined && !isInFlight(run)))
      })
      .sort((one, other) => byText(one.next_at, other.next_at))

  return {
    reads: {
      async areDue(now) {
        return due(now).length > 0
      }
    },
    writes: {
      'webhook.add': ({ run_id, url, now }, undo) => {
        if (byRun.has(run_id)) throw new Refused(`run ${run_id} has a webhook`)
        undo.set(byRun, run_id, { run_id, url, attempts: 0, payload: null, next_at: now })
        return null
      },
      'webhook.prepare': ({ run_id, payload }, undo) => {
        const found = byRun.get(run_id)
        if (found) undo.set(byRun, run_id, { ...found, payload })
        return null
      },
      'webhook.claim': ({ now, until, limit }, undo) =>
        due(now)
          .slice(0, limit)
          .map(({ run_id, url, attempts, payload }) => {
            const claimed = { run_id, url, attempts: attempts + 1, payload }
            undo.set(byRun, run_id, { ...claimed, next_at: until })
            return claimed
          }),
      'webhook.retry': ({ run_id, at }, undo) => {
        const found = byRun.get(run_id)
        if (found) undo.set(byRun, run_id, { ...found, next_at: at })
        return null
      },
      'webhook.remove': ({ run_id }, undo) => {
        undo.delete(byRun, run_id)
        return null
      }
    }
  }
}
