// Starts the runs of crons. Every process checks once a minute; one of them claims a due cron, and its run has the cron and its minute as
// idempotency key: whatever crashes, there is one run per minute. Turns missed while no process was up run once, with a log line.
import { Failure } from '../../errors.ts'
import { withoutUser } from '../../scope.ts'
import type { Store, Writer } from '../../store/store.ts'
import { type Cron, type Run, type Timestamp, timestamp } from '../../types.ts'
import type { RunOrder, Runs } from '../lifecycle/runs.ts'
import { missedBetween, nextRunDate } from './cron-time.ts'

const MINUTE_MS = 60_000
/** Offset after the full minute: clocks differ a little, and not everybody needs to ask at once. */
const SPREAD_MS = 500
/** A claim expires after this time: its process is taken for dead. */
const CLAIM_MS = 50_000
const AT_ONCE = 20

interface CronRunnerDeps {
  readonly crons: Pick<Store['crons'], 'areDue'>
  readonly writer: Writer
  readonly runs: Pick<Runs, 'start' | 'startStateless' | 'waitFor'>
  /** Starts the run of a cron, under an idempotency key of its own. */
  readonly orderOf: (cron: Cron, key: string) => Promise<RunOrder>
  /** Removes a thread that was made for one run. */
  readonly removeThread: (run: Run, userId: string) => Promise<unknown>
  readonly log: { info(fields: object, text: string): void; warn(fields: object, text: string): void }
}

export class CronRunner {
  readonly #deps: CronRunnerDeps
  #timer: NodeJS.Timeout | null = null
  #isStopped = false
  #looking: Promise<void> = Promise.resolve()

  constructor(deps: CronRunnerDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#lookIn(0)
  }

  /** Resolves when no start is in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer) clearTimeout(this.#timer)
    await this.#looking
  }

  #lookIn(ms: number): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#looking = withoutUser(() => this.look())
        .catch((error: unknown) =>
          this.#deps.log.warn({ err: error }, 'due crons could not be looked up; the next minute tries again')
        )
        .finally(() => this.#lookIn(MINUTE_MS - (Date.now() % MINUTE_MS) + Math.random() * SPREAD_MS))
    }, ms)
    this.#timer.unref()
  }

  /** Starts what is due. Public for tests, which have a clock of their own. */
  async look(now = Date.now()): Promise<void> {
    const { crons, writer } = this.#deps
    while (!this.#isStopped && (await crons.areDue(timestamp(now)))) {
      const claim = { now: timestamp(now), until: timestamp(now + CLAIM_MS), limit: AT_ONCE }
      const claimed = await writer.write({ name: 'cron.claim', ...claim })
      // Another process was faster.
      if (claimed.length === 0) return
      await Promise.all(claimed.map((cron) => this.#turn(cron, now)))
    }
  }

  /** One turn of a cron. Never rejects: the others are not affected. */
  async #turn(cron: Cron, now: number): Promise<void> {
    const { writer, log } = this.#deps
    const { cron_id, next_run_date: due } = cron
    if (due === null) return
    try {
      const missed = missedBetween(cron, Date.parse(due), now)
      if (missed > 0) log.warn({ cron_id, due, missed }, 'a cron is late: it runs once for all the turns it missed')
      const isOver = await this.#runOnce(cron, due)
      if (isOver) return
      await writer.write({ name: 'cron.advance', cron_id, from: due, to: nextRunDate(cron, now) })
    } catch (error) {
      // The claim expires and the turn is tried again, by any process.
      log.warn({ err: error, cron_id, due }, 'a cron could not be run: it will be tried again')
    }
  }

  /**
   * True: the cron is gone.
   * @throws temporary errors: the store's, or no runs are accepted at the moment
   */
  async #runOnce(cron: Cron, due: Timestamp): Promise<boolean> {
    const { writer, log } = this.#deps
    const { cron_id, thread_id } = cron
    try {
      const run = await this.#start(cron, `cron:${cron_id}:${due}`)
      log.info({ cron_id, due, run_id: run.run_id, thread_id: run.thread_id }, 'a cron has started a run')
    } catch (error) {
      if (!(error instanceof Failure) || error.status >= 500) throw error
      log.warn({ cron_id, due, reason: error.message }, 'a run of a cron was refused')
      if (error.code !== 'thread_not_found' || thread_id === null) return false
      await writer.write({ name: 'cron.remove', cron_id, user: null })
      return true
    }
    return false
  }

  async #start(cron: Cron, key: string): Promise<Run> {
    const { runs, orderOf, removeThread, log } = this.#deps
    const order = await orderOf(cron, key)
    if (cron.thread_id !== null) return runs.start(cron.thread_id, order)
    const { assistant_id: assistantId, metadata } = cron
    const run = await runs.startStateless({
      ...order,
      threadId: null,
      assistantId,
      metadata: { ...metadata, cron_id: cron.cron_id }
    })
    if (cron.on_run_completed === 'delete')
      void runs
        .waitFor(run)
        .then((ended) => ended && removeThread(ended, cron.user_id))
        .catch((error: unknown) =>
          log.warn({ err: error, thread_id: run.thread_id }, 'the thread of a cron run may not have been deleted')
        )
    return run
  }
}
