// What may be stored of each user (threads, what their runs leave in them, crons, and webhooks that wait), and what quotas let each use. The
// one place where such limits are asked and shown: whatever else is counted of a user belongs here.
import { LRUCache } from 'lru-cache'
import { fail } from '../base/errors.ts'
import type { QuotaLimits, User } from '../base/accounts.ts'
import type { Cron, Thread } from '../base/types.ts'
import type { OpOf, QuotaMeasure, StoredOfUser, ThreadCreation, UsageReads, UserReads, Writer } from '../store/store.ts'
import { type QuotaBlocks, resetOf, type Taken } from './quota-blocks.ts'
import type { Quotas } from './quotas.ts'
import { dayOf } from './usage.ts'

/** 0 is no limit. */
export interface StoredLimits {
  readonly threads: number
  readonly bytes: number
  readonly crons: number
  readonly webhooks: number
}

interface Counted {
  readonly used: number
  readonly max: number | null
}

type LimitView = { readonly [Name in keyof StoredLimits]: Counted }

/** `resets_at`: when the day or month is over; absent: it does not. Of requests nothing is counted that could be shown. */
interface QuotaView {
  readonly runs_per_day: Counted & { readonly resets_at: string }
  readonly tokens_per_day: Counted & { readonly resets_at: string }
  readonly money_per_month: Counted & { readonly resets_at: string; readonly currency: string }
  readonly bytes: Counted
  readonly runs_at_once: Counted
  readonly requests_per_second: { readonly max: number | null }
}

/** A run that may begin. */
interface RunAllowance {
  /** Runs of its user that may be in flight, on every process; 0: no limit of his quota. */
  readonly atOnce: number
  /** Nothing came of it. */
  readonly putBack: () => void
}

const MICROS = 1_000_000
const NO_QUOTA: RunAllowance = { atOnce: 0, putBack: () => {} }

/** How long a count is taken for the present one, while it is far from the limit. */
const FRESH_MS = 1000
const FAR = 0.9
/** Users whose counts are kept. */
const KEPT_MAX = 1000
/** Webhooks go by themselves. */
const RETRY_AFTER = { 'Retry-After': '60' }
/** Of what only a deletion mends: sooner no client asks again by itself. */
const LATER = { 'Retry-After': '3600' }

interface LimitsDeps {
  readonly users: Pick<UserReads, 'stored'>
  readonly usage: Pick<UsageReads, 'quotaUse'>
  readonly quotas: Quotas
  readonly blocks: QuotaBlocks
  readonly currency: string
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
   * Whether one more run may begin. What runs in flight will store and take is not known: they are never cut for it, and the next is refused.
   * @throws Failure when it may not
   */
  async allowRun(userId: Thread['user_id'], hasWebhook: boolean): Promise<RunAllowance> {
    if (userId === null) return NO_QUOTA
    const quota = await this.#deps.quotas.find(userId)
    await this.#checkStored(userId, hasWebhook, quota.bytes)
    const { runs_per_day: runs, tokens_per_day: tokens, money_per_month: money, runs_at_once: atOnce } = quota
    await Promise.all([
      tokens > 0 && this.#take(userId, 'tokens', tokens, 0),
      money > 0 && this.#take(userId, 'money', Math.ceil(money * MICROS), 0)
    ])
    if (runs === 0) return atOnce === 0 ? NO_QUOTA : { ...NO_QUOTA, atOnce }
    const { putBack } = await this.#take(userId, 'runs', runs, 1)
    return { atOnce, putBack }
  }

  /** Whether one more address may be told of a run. @throws Failure when it may not */
  allowWebhook(userId: string): Promise<void> {
    return this.#checkStored(userId, true, 0)
  }

  /** @throws Failure when the quota is used up */
  async #take(userId: string, measure: QuotaMeasure, max: number, unit: 0 | 1): Promise<Taken> {
    const { blocks, currency } = this.#deps
    const taken = await blocks.take(userId, measure, max, unit)
    if (taken) return taken
    const now = this.#now()
    const at = resetOf(measure, now)
    const reset = new Date(at).toISOString()
    const headers = {
      'Retry-After': String(Math.max(1, Math.ceil((at - now) / 1000))),
      'X-RateLimit-Reset': String(at / 1000)
    }
    if (measure === 'runs') throw fail('quota_runs', { max, reset }, headers)
    if (measure === 'tokens') throw fail('quota_tokens', { max, reset }, headers)
    throw fail('quota_money', { max: max / MICROS, currency, reset }, headers)
  }

  /** @param quota of bytes; 0: none */
  async #checkStored(userId: string, hasWebhook: boolean, quota: number): Promise<void> {
    const { bytes, webhooks } = this.#deps.limits
    if (bytes === 0 && quota === 0 && (webhooks === 0 || !hasWebhook)) return
    const stored = await this.#stored(userId, !hasWebhook, Math.min(bytes || quota, quota || bytes))
    if (quota > 0 && stored.bytes >= quota) throw fail('quota_bytes', { max: quota }, LATER)
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

  /** Whether more than accounts with a quota of their own are limited. */
  get hasQuotas(): boolean {
    return this.#deps.quotas.limitsAll
  }

  /** Requests that somebody may send a second; 0: any. */
  requestsOf(user: User): number {
    return this.#deps.quotas.of(user).requests_per_second
  }

  async requestsOfId(userId: string): Promise<number> {
    return (await this.#deps.quotas.find(userId)).requests_per_second
  }

  /** What quotas let a user use, and what is used: by every process, of runs that have ended, and of runs also those in flight. */
  async quotaView(user: User): Promise<QuotaView> {
    const { usage, quotas, currency } = this.#deps
    const now = this.#now()
    const limits = quotas.of(user)
    const use = await usage.quotaUse(user.id, dayOf(now))
    const unused = this.#deps.blocks.left(user.id, 'runs')
    const one = (used: number, name: keyof QuotaLimits) => ({ used, max: limits[name] || null })
    const until = (measure: QuotaMeasure) => ({ resets_at: new Date(resetOf(measure, now)).toISOString() })
    return {
      runs_per_day: { ...one(Math.max(0, use.runs - unused), 'runs_per_day'), ...until('runs') },
      tokens_per_day: { ...one(use.tokens, 'tokens_per_day'), ...until('tokens') },
      money_per_month: { ...one(use.money_micros / MICROS, 'money_per_month'), ...until('money'), currency },
      bytes: one(use.bytes, 'bytes'),
      runs_at_once: one(use.runs_at_once, 'runs_at_once'),
      requests_per_second: { max: limits.requests_per_second || null }
    }
  }

  /** A refusal is never of a count from before: whoever has deleted something goes on at once. */
  async #stored(userId: string, maybeKnown: boolean, limit: number): Promise<StoredOfUser> {
    const known = this.#counts.get(userId)
    const isFar = known !== undefined && known.stored.bytes < limit * FAR
    if (maybeKnown && isFar && this.#now() - known.at < FRESH_MS) return known.stored
    const stored = await this.#deps.users.stored(userId)
    this.#counts.set(userId, { at: this.#now(), stored })
    return stored
  }
}
