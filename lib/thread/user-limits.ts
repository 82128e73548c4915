// What may be stored of each user: threads, what their runs leave in them, crons, and webhooks that wait. The one place where such
// limits are asked and shown: whatever else is counted of a user belongs here.
import { LRUCache } from 'lru-cache'
import { fail } from '../base/errors.ts'
import type { Cron, Thread } from '../base/types.ts'
import type { OpOf, StoredOfUser, ThreadCreation, UserReads, Writer } from '../store/store.ts'

/** 0 is no limit. */
export interface StoredLimits {
  readonly threads: number
  readonly bytes: number
  readonly crons: number
  readonly webhooks: number
}

export type LimitView = {
  readonly [Name in keyof StoredLimits]: { readonly used: number; readonly max: number | null }
}

/** How long a count is taken for the present one, while it is far from the limit. */
const FRESH_MS = 1000
const FAR = 0.9
/** Users whose counts are kept. */
const KEPT_MAX = 1000
/** Webhooks go by themselves. */
const RETRY_AFTER = { 'Retry-After': '60' }

interface LimitsDeps {
  readonly users: Pick<UserReads, 'stored'>
  readonly writer: Pick<Writer, 'write'>
  readonly limits: StoredLimits
  readonly now?: () => number
}

export class UserLimits {
  readonly #deps: LimitsDeps
  readonly #now: () => number
  readonly #counts = new LRUCache<string, { readonly at: number; readonly stored: StoredOfUser }>({ max: KEPT_MAX })

  constructor(deps: LimitsDeps) {
    this.#deps = deps
    this.#now = deps.now ?? Date.now
  }

  /** @throws Failure when its user has as many as may be: the store counts, so that two requests cannot both be the last one */
  async createThread(asked: Omit<OpOf<'thread.create'>, 'name' | 'max'>): Promise<ThreadCreation | null> {
    const { writer, limits } = this.#deps
    const made = await writer.write({ ...asked, name: 'thread.create', max: limits.threads })
    if (made === 'too_many') throw fail('threads_full', { max: limits.threads })
    return made
  }

  /** @throws Failure when its user has as many as may be */
  async createCron(cron: Cron): Promise<void> {
    const { writer, limits } = this.#deps
    const max = limits.crons || Number.MAX_SAFE_INTEGER
    if ((await writer.write({ name: 'cron.create', cron, max })) === 'too_many') throw fail('crons_full', { max })
  }

  /**
   * Whether one more run may begin. What runs in flight will store is not known: they are never cut for it, and the next is refused.
   * @throws Failure when it may not
   */
  async checkRun(userId: Thread['user_id'], hasWebhook: boolean): Promise<void> {
    const { bytes, webhooks } = this.#deps.limits
    if (userId === null || (bytes === 0 && (webhooks === 0 || !hasWebhook))) return
    const stored = await this.#stored(userId, !hasWebhook)
    if (bytes > 0 && stored.bytes >= bytes) throw fail('storage_full', { max: bytes })
    if (hasWebhook && webhooks > 0 && stored.webhooks >= webhooks)
      throw fail('webhooks_full', { max: webhooks }, RETRY_AFTER)
  }

  async view(userId: string): Promise<LimitView> {
    const stored = await this.#deps.users.stored(userId)
    const { limits } = this.#deps
    const one = (name: keyof StoredLimits) => ({ used: stored[name], max: limits[name] || null })
    return { threads: one('threads'), bytes: one('bytes'), crons: one('crons'), webhooks: one('webhooks') }
  }

  /** A refusal is never of a count from before: whoever has deleted something goes on at once. */
  async #stored(userId: string, maybeKnown: boolean): Promise<StoredOfUser> {
    const known = this.#counts.get(userId)
    const isFar = known !== undefined && known.stored.bytes < this.#deps.limits.bytes * FAR
    if (maybeKnown && isFar && this.#now() - known.at < FRESH_MS) return known.stored
    const stored = await this.#deps.users.stored(userId)
    this.#counts.set(userId, { at: this.#now(), stored })
    return stored
  }
}
