// What this process may still give away of its users' quotas. It takes a block of each from the database, a sixteenth, and asks again when
// that is used up, or when nobody has used it for a second: so there is no query per run, and all processes share one count.
//
// How far a quota is exceeded: a run that has begun is never cut, so by what the runs in flight take; beside that by no more than a block a
// process of tokens and money, and by nothing in runs. A process that is killed takes the rest of its block along, until the day or month is over.
import { Poller } from '../base/poller.ts'
import type { Group, Outcome, QuotaMeasure, Writer } from '../store/store.ts'
import { dayOf } from './usage.ts'

/** The part of a quota that a block is. */
const PARTS = 16
const IDLE_MS = 1_000
/** A quota that is used up is asked about again after that long. */
const FULL_MS = 1_000
const EVERY_MS = 3_600_000

interface Block {
  readonly userId: string
  readonly measure: QuotaMeasure
  readonly period: string
  /** Below 0: runs have taken more than there was. */
  left: number
  usedAt: number
  waiting: number
  asking: Promise<void> | null
  full: { readonly max: number; readonly at: number } | null
}

interface BlocksDeps {
  readonly writer: Pick<Writer, 'write'>
  readonly onTrouble: (error: unknown) => void
  readonly now?: () => number
}

/** What was taken. */
export interface Taken {
  /** Nothing came of it. */
  putBack(): void
}

export class QuotaBlocks {
  /** As an observer of commits: what an ended run has taken is counted when it is stored, and so is in the sums. */
  readonly ops = new Set(['run.settle'] as const)
  readonly #deps: BlocksDeps
  readonly #now: () => number
  readonly #blocks = new Map<string, Block>()
  readonly #poller: Poller

  constructor(deps: BlocksDeps) {
    this.#deps = deps
    this.#now = deps.now ?? Date.now
    this.#poller = new Poller({ everyMs: EVERY_MS, work: () => this.#giveBackIdle(), onError: deps.onTrouble })
  }

  start(): void {
    this.#poller.start()
  }

  /** What is left is given back. */
  async stop(): Promise<void> {
    await this.#poller.stop()
    // What they are given belongs to nobody afterwards.
    await Promise.allSettled([...this.#blocks.values()].map(({ asking }) => asking))
    await this.#giveBack([...this.#blocks.values()])
  }

  /** Blocks that are held. */
  get size(): number {
    return this.#blocks.size
  }

  /** null: the quota `max` is used up. `unit`: what is used at once; 0: what the run takes is counted at its end. */
  async take(userId: string, measure: QuotaMeasure, max: number, unit: 0 | 1): Promise<Taken | null> {
    for (;;) {
      const block = this.#blockOf(userId, measure)
      if (block.left > 0) {
        block.left -= unit
        block.usedAt = this.#now()
        return { putBack: () => this.#putBack(block, unit) }
      }
      if (block.full && block.full.max >= max && this.#now() - block.full.at < FULL_MS) return null
      block.waiting++
      block.asking ??= this.#ask(block, max).finally(() => {
        block.asking = null
      })
      try {
        await block.asking
      } finally {
        block.waiting--
      }
    }
  }

  /** Into the block that it was taken of: another day has a quota of its own. */
  #putBack(block: Block, unit: 0 | 1): void {
    block.left += unit
    block.usedAt = this.#now()
    this.#poller.wakeIn(IDLE_MS)
  }

  /** What this process has of it beside what is used. */
  left(userId: string, measure: QuotaMeasure): number {
    return Math.max(0, this.#blocks.get(keyOf(userId, measure))?.left ?? 0)
  }

  written(groups: readonly Group[], outcomes: readonly Outcome[]): void {
    if (this.#blocks.size === 0) return
    for (const [at, { ops }] of groups.entries()) {
      const outcome = outcomes[at]
      if (!outcome?.ok) continue
      for (const [of, op] of ops.entries())
        if (op.name === 'run.settle' && outcome.results[of] === true && op.usage) this.#spend(op.usage)
    }
  }

  #spend({ user_id, models }: NonNullable<(Group['ops'][number] & { name: 'run.settle' })['usage']>): void {
    if (user_id === null) return
    const spent = (measure: QuotaMeasure, count: number): void => {
      const block = this.#blocks.get(keyOf(user_id, measure))
      if (block) block.left -= count
    }
    spent(
      'tokens',
      models.reduce((sum, { total_tokens }) => sum + total_tokens, 0)
    )
    spent(
      'money',
      models.reduce((sum, { money_micros }) => sum + money_micros, 0)
    )
  }

  #blockOf(userId: string, measure: QuotaMeasure): Block {
    const key = keyOf(userId, measure)
    const period = periodOf(measure, this.#now())
    const known = this.#blocks.get(key)
    if (known?.period === period) return known
    const block = { userId, measure, period, left: 0, usedAt: this.#now(), waiting: 0, asking: null, full: null }
    this.#blocks.set(key, block)
    this.#poller.wakeIn(IDLE_MS)
    return block
  }

  async #ask(block: Block, max: number): Promise<void> {
    const { userId, measure, period } = block
    const want = Math.max(1, Math.floor(max / PARTS), block.waiting)
    // What was taken beyond it is in the sums, which the store looks at.
    block.left = 0
    const granted = await this.#deps.writer.write({ name: 'quota.take', user_id: userId, measure, period, want, max })
    block.left += granted
    block.usedAt = this.#now()
    block.full = granted > 0 ? null : { max, at: this.#now() }
    this.#poller.wakeIn(IDLE_MS)
  }

  async #giveBackIdle(): Promise<number | undefined> {
    const now = this.#now()
    const idle = [...this.#blocks.values()].filter(
      ({ usedAt, waiting, asking }) => now - usedAt >= IDLE_MS && waiting === 0 && !asking
    )
    await this.#giveBack(idle)
    return this.#blocks.size > 0 ? IDLE_MS : undefined
  }

  async #giveBack(blocks: readonly Block[]): Promise<void> {
    // All are forgotten before the first is written: whoever takes meanwhile asks for a block of his own.
    for (const { userId, measure } of blocks) this.#blocks.delete(keyOf(userId, measure))
    const written = blocks.map(async ({ userId, measure, period, left }) => {
      if (left <= 0) return
      const back = { name: 'quota.give', user_id: userId, measure, period, count: left } as const
      await this.#deps.writer.write(back).catch(this.#deps.onTrouble)
    })
    await Promise.all(written)
  }
}

function keyOf(userId: string, measure: QuotaMeasure): string {
  return `${measure} ${userId}`
}

/** A day, or of money a month, in UTC. */
function periodOf(measure: QuotaMeasure, now: number): string {
  return dayOf(now).slice(0, measure === 'money' ? 7 : 10)
}

/** When the next day or month begins, in ms. */
export function resetOf(measure: QuotaMeasure, now: number): number {
  const date = new Date(now)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  return measure === 'money' ? Date.UTC(year, month + 1) : Date.UTC(year, month, day + 1)
}
