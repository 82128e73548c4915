// Cron schedules: five fields, to the minute, in a time zone.
import { Cron as Expression } from 'croner'
import { type Cron, type Timestamp, timestamp } from '../base/types.ts'

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
export function missedBetween(cron: Pick<Cron, 'schedule' | 'timezone'>, due: number, now: number): number {
  let missed = 0
  for (let next = nextTime(cron, due); next !== null && next <= now && missed < COUNTED_MAX; missed++)
    next = nextTime(cron, next)
  return missed
}
