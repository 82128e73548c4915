// Starts the runs of crons. Every process looks, once a minute; one of them is given a cron that is due, and a run bears the cron and
// its minute as a key: whatever dies in between, there is one run a minute. What was missed while nobody looked runs once, and is said.
import { Failure } from '../../errors.ts'
import { withoutUser } from '../../scope.ts'
import type { Store, Writer } from '../../store/store.ts'
import { type Cron, type Run, type Timestamp, timestamp } from '../../types.ts'
import type { RunOrder, Runs } from '../lifecycle/runs.ts'
import { missedBetween, nextRunDate } from './cron-time.ts'

const MINUTE_MS = 60_000
/** Behind the full minute: clocks of processes are not quite the same, nor do all need to ask at once. */
const SPREAD_MS = 500
/** A process that has claimed a cron and has not said what became of it is taken for dead after so long. */
const CLAIM_MS = 50_000
const AT_ONCE = 20

export interface CronRunnerDeps {
  readonly crons: Pick<Store['crons'], 'areDue'>
  readonly writer: Writer
  readonly runs: Pick<Runs, 'start' | 'startStateless' | 'waitFor'>
  /** The run of a cron, by a key that is its own. */
  readonly orderOf: (cron: Cron, key: string) => Promise<RunOrder>
  /** A thread that was made for one run goes. */
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

  /** Resolves when nothing is being started any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer) clearTimeout(this.#timer)
    await this.#looking
  }

  #lookIn(ms: number): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#looking = withoutUser(() => this.look())
        .catch((error: unknown) => this.#deps.log.warn({ err: error }, 'it could not be asked which crons are due'))
        .finally(() => this.#lookIn(MINUTE_MS - (Date.now() % MINUTE_MS) + Math.random() * SPREAD_MS))
    }, ms)
    this.#timer.unref()
  }

  /** Starts what is due. Public for who has a clock of its own. */
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

  /** One turn of a cron. Never rejects: what went wrong with one is no matter of the others. */
  async #turn(cron: Cron, now: number): Promise<void> {
    const { writer, log } = this.#deps
    const { cron_id, next_run_date: due } = cron
    if (due === null) return
    try {
      const missed = missedBetween(cron, Date.parse(due), now)
      if (missed > 0) log.warn({ cron_id, due, missed }, 'a cron is late: it runs once for all turns that it missed')
      const isOver = await this.#runOnce(cron, due)
      if (isOver) return
      await writer.write({ name: 'cron.advance', cron_id, from: due, to: nextRunDate(cron, now) })
    } catch (error) {
      // The claim ends by itself: it is tried again, by whoever looks then.
      log.warn({ err: error, cron_id, due }, 'a cron could not be run: it is tried again')
    }
  }

  /** True: the cron is gone. @throws what may pass: the store, or that no runs are taken at the moment */
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
        .catch((error: unknown) => log.warn({ err: error, thread_id: run.thread_id }, 'a thread of a cron may be left'))
    return run
  }
}
