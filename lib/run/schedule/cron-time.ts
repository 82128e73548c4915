// When a cron comes: five fields, to the minute, in a time zone.
import { Cron as Expression } from 'croner'
import { type Cron, type Timestamp, timestamp } from '../../types.ts'

/** What somebody wrote as a schedule is none, or never comes. Its message is for them. */
export class ScheduleInvalid extends Error {}

/** Turns that are counted: how many were missed is said, and more than these are "many". */
const COUNTED_MAX = 100

/**
 * The first time behind a moment; null: there is none any more.
 * @throws ScheduleInvalid
 */
export function nextTime({ schedule, timezone }: Pick<Cron, 'schedule' | 'timezone'>, after: number): number | null {
  try {
    const expression = new Expression(schedule, { mode: '5-part', timezone: timezone ?? 'UTC' })
    return expression.nextRun(new Date(after))?.getTime() ?? null
  } catch (error) {
    throw new ScheduleInvalid(error instanceof Error ? error.message : String(error))
  }
}

/** The same as a cron has it: not behind its end, and never when it is off. @throws ScheduleInvalid */
export function nextRunDate(
  cron: Pick<Cron, 'schedule' | 'timezone' | 'end_time' | 'enabled'>,
  after: number
): Timestamp | null {
  const next = cron.enabled ? nextTime(cron, after) : null
  if (next === null || (cron.end_time !== null && next > Date.parse(cron.end_time))) return null
  return timestamp(next)
}

/** How often it should have come behind `due` until `now`. */
export function missedBetween(cron: Pick<Cron, 'schedule' | 'timezone'>, due: number, now: number): number {
  let missed = 0
  for (let next = nextTime(cron, due); next !== null && next <= now && missed < COUNTED_MAX; missed++)
    next = nextTime(cron, next)
  return missed
}
