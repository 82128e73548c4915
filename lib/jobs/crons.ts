// Crons: the turns of their schedules, five fields to the minute in a time zone, each of which starts one run.
import { Cron as Expression } from 'croner'
import { type Cron, type Timestamp, timestamp, type Run } from '../base/types.ts'
import type { Job, Op, Store, Writer } from '../store/store.ts'
import { type Done, finishOf } from './runner.ts'

/** The schedule is invalid or never matches. Its message is for the user who wrote it. */
export class ScheduleInvalid extends Error {}

/** Missed turns are counted up to this; more are reported as "many". */
const COUNTED_MAX = 100

/**
 * The first time after a moment; null: there is none.
 * @throws ScheduleInvalid
 */
function nextTime({ schedule, timezone }: Pick<Cron, 'schedule' | 'timezone'>, after: number): number | null {
  const zone = timezone || 'UTC'
  if (!isZone(zone)) throw new ScheduleInvalid(`there is no timezone ${zone}`)
  const moment = onceAt(schedule)
  if (moment !== null) return moment > after ? moment : null
  // Such as @daily, which has one word.
  if (!schedule.startsWith('@') && schedule.trim().split(/\s+/).length !== 5)
    throw new ScheduleInvalid('it has five fields: minute, hour, day of the month, month and day of the week')
  try {
    const expression = new Expression(schedule, { mode: '5-part', timezone: zone })
    return expression.nextRun(new Date(after))?.getTime() ?? null
  } catch (error) {
    // The library names the part of it that has noticed.
    throw new ScheduleInvalid(error instanceof Error ? error.message.replace(/^Cron\w+: /, '') : String(error))
  }
}

/** A schedule that is a moment comes once; null: it has fields. */
export function onceAt(schedule: string): number | null {
  const at = /^\d{4}-\d\d-\d\dT/.test(schedule) ? Date.parse(schedule) : Number.NaN
  return Number.isFinite(at) ? at : null
}

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

/**
 * The same for a cron: not after its end, and never while it is disabled.
 * @throws ScheduleInvalid
 */
export function nextRunDate(
  cron: Pick<Cron, 'schedule' | 'timezone' | 'end_time' | 'enabled'>,
  after: number
): Timestamp | null {
  const next = cron.enabled ? nextTime(cron, after) : null
  if (next === null || (cron.end_time !== null && next > Date.parse(cron.end_time))) return null
  return timestamp(next)
}

/** How many turns lie between `due` and `now`. */
function missedBetween(cron: Pick<Cron, 'schedule' | 'timezone'>, due: number, now: number): number {
  let missed = 0
  for (let next = nextTime(cron, due); next !== null && next <= now && missed < COUNTED_MAX; missed++)
    next = nextTime(cron, next)
  return missed
}

// ------------------------------------------------------------------------------------------------------- turns

/** Why the run of a turn was refused. */
export interface TurnRefused {
  readonly refused: string
  /** The thread of the cron is gone. */
  readonly isGone: boolean
}

interface TurnsDeps {
  readonly store: Pick<Store, 'crons'> & { readonly jobs: Pick<Store['jobs'], 'now'> }
  readonly writer: Writer
  /** Nobody knows the user of the cron any more. */
  readonly isGone: (cron: Cron) => Promise<boolean>
  /**
   * Starts the run of the turn that was due then, with `finish` in the group that creates it. When a process has ended in the middle of
   * it, it is called again for the same turn.
   * @throws temporary errors: the store's, or no runs are accepted at the moment
   */
  readonly start: (cron: Cron, due: Timestamp, finish: Op, owner: string) => Promise<Run | TurnRefused>
  readonly log: { info(fields: object, text: string): void; warn(fields: object, text: string): void }
}

/** Each turn starts one run, in the group that ends its claim. Turns missed while no process was up run once, with a log line. */
export function turnDeed({ store, writer, isGone, start, log }: TurnsDeps): (job: Job) => Promise<Done> {
  const remove = async (cron_id: string): Promise<Done> => {
    await writer.write({ name: 'cron.remove', cron_id, user: null })
    return 'ended'
  }

  const turn = async (job: Job, cron: Cron, due: Timestamp, now: number): Promise<Done> => {
    const next = nextRunDate(cron, now)
    const again = next === null ? null : ({ due: next, error: null, isUncounted: true } as const)
    // Set by a clock that was ahead.
    if (Date.parse(due) > now) return again
    const { cron_id } = cron
    const missed = job.attempts === 1 ? missedBetween(cron, Date.parse(due), now) : 0
    if (missed > 0) log.warn({ cron_id, due, missed }, 'a cron is late: it runs once for all the turns it missed')
    const run = await start(cron, due, finishOf(job, again), job.owner ?? '')
    if ('refused' in run) {
      log.warn({ cron_id, due, reason: run.refused }, 'a run of a cron was refused')
      if (run.isGone) return remove(cron_id)
      return again && { ...again, error: run.refused }
    }
    log.info({ cron_id, due, run_id: run.run_id, thread_id: run.thread_id }, 'a cron has started a run')
    return 'ended'
  }

  return async (job) => {
    const cron = await store.crons.get(job.key, null)
    if (!cron || job.due_at === null) return null
    if (await isGone(cron)) return remove(cron.cron_id)
    return turn(job, cron, job.due_at, Date.parse(await store.jobs.now()))
  }
}
