// A scheduled task: what stands in its cron, when it is due, and how clients are shown it and its runs.
import * as v from 'valibot'
import { Refused } from '../base/errors.ts'
import { jsonObject } from '../http/schema.ts'
import { type Cron, isInFlight, type JsonObject, type Run, timestamp } from '../base/types.ts'
import { anObject, int, oneOf, optionalText, orNull, shaped, text, time } from '../routes/answers.ts'

/** Metadata key of a cron that is a task. */
const TASK = 'scheduled_task'
/** A task that is due sooner may be over before it is stored, in ms. */
const SOONEST_MS = 60_000

export const taskSchema = shaped({
  id: text,
  user_id: text,
  thread_id: optionalText,
  context_mode: text,
  assistant_id: optionalText,
  title: text,
  prompt: text,
  schedule_type: oneOf('once', 'cron'),
  schedule_spec: anObject,
  timezone: optionalText,
  status: oneOf('enabled', 'paused', 'running', 'completed', 'failed'),
  overlap_policy: oneOf('skip'),
  next_run_at: orNull(time),
  last_run_at: orNull(time),
  last_run_id: optionalText,
  last_thread_id: optionalText,
  last_error: optionalText,
  run_count: int,
  created_at: time,
  updated_at: time
})
export const runSchema = shaped({
  id: text,
  task_id: text,
  thread_id: text,
  run_id: text,
  scheduled_for: time,
  trigger: oneOf('scheduled', 'manual'),
  status: oneOf('queued', 'running', 'success', 'failed', 'interrupted'),
  error: optionalText,
  started_at: time,
  finished_at: orNull(time),
  created_at: time
})

/** What a task is beside its cron. */
export interface Task {
  readonly title: string
  readonly prompt: string
  readonly schedule_type: 'once' | 'cron'
  readonly schedule_spec: JsonObject
  readonly context_mode: string
}

const taskOfCron = v.object({
  title: v.string(),
  prompt: v.string(),
  schedule_type: v.picklist(['once', 'cron']),
  schedule_spec: jsonObject,
  context_mode: v.string()
})

/** null: a cron that is no task. Metadata is its user's to write: it may say anything. */
export function taskIn({ metadata }: Cron): Task | null {
  const found = v.safeParse(taskOfCron, metadata[TASK])
  return found.success ? found.output : null
}

export function metadataOf(task: Task): JsonObject {
  return { [TASK]: { ...task } }
}

/**
 * The schedule of a task. One that runs once has a moment for it, not fields: these come again every year, and in the hour that a zone
 * repeats twice.
 * @throws Refused 422
 */
export function timesOf(
  { schedule_type, schedule_spec }: Task,
  zone: string,
  now: number
): Pick<Cron, 'schedule' | 'end_time'> {
  const { cron, run_at } = schedule_spec
  if (schedule_type === 'cron') {
    if (typeof cron !== 'string')
      throw new Refused(422, 'A schedule of type cron has five fields in schedule_spec.cron')
    return { schedule: cron, end_time: null }
  }
  const at = typeof run_at === 'string' ? momentIn(run_at, zone) : Number.NaN
  if (!Number.isFinite(at)) throw new Refused(422, 'A schedule of type once has an ISO time in schedule_spec.run_at')
  if (at < now + SOONEST_MS) throw new Refused(422, 'The time of the task is past, or less than a minute away')
  // To the second, and not with its minute, which may begin sooner than asked, and than is allowed.
  return { schedule: timestamp(at), end_time: timestamp(at + 59_000) }
}

/** A time without an offset is one of the zone. */
function momentIn(text: string, zone: string): number {
  if (/(?:Z|[+-]\d\d:?\d\d)$/i.test(text)) return Date.parse(text)
  const asUtc = Date.parse(`${text}Z`)
  if (!Number.isFinite(asUtc)) return Number.NaN
  // On a day that changes the clock the offset there is another than the one that is meant.
  return asUtc - offsetAt(zone, asUtc - offsetAt(zone, asUtc))
}

/** How far a zone is ahead, in ms. */
function offsetAt(zone: string, at: number): number {
  const { year, month, day, hour, minute } = partsIn(zone, at)
  return Date.UTC(year, month - 1, day, hour, minute) - Math.floor(at / 60_000) * 60_000
}

/** @throws Refused 422 for an unknown zone */
function partsIn(zone: string, at: number): Record<'year' | 'month' | 'day' | 'hour' | 'minute', number> {
  try {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric'
    })
    const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type as string, Number(value)]))
    const of = (name: string) => parts.get(name) ?? 0
    return { year: of('year'), month: of('month'), day: of('day'), hour: of('hour'), minute: of('minute') }
  } catch (error) {
    if (error instanceof RangeError) throw new Refused(422, `There is no time zone ${zone}`)
    throw error
  }
}

export interface TaskRuns {
  /** The newest; null: none yet. */
  readonly last: Run | null
  readonly count: number
}

export function taskView(cron: Cron, { last, count }: TaskRuns): JsonObject {
  const { title, prompt, schedule_type, schedule_spec, context_mode } = taskIn(cron)!
  const isOver = cron.next_run_date === null && cron.enabled
  const ended = last?.status === 'error' ? 'failed' : 'completed'
  const status = last && isInFlight(last) ? 'running' : isOver ? ended : cron.enabled ? 'enabled' : 'paused'
  return {
    id: cron.cron_id,
    user_id: cron.user_id,
    thread_id: cron.thread_id,
    context_mode,
    assistant_id: cron.assistant_id,
    title,
    prompt,
    schedule_type,
    schedule_spec,
    timezone: cron.timezone,
    status,
    overlap_policy: 'skip',
    next_run_at: cron.next_run_date,
    last_run_at: last?.created_at ?? null,
    last_run_id: last?.run_id ?? null,
    last_thread_id: last?.thread_id ?? null,
    last_error: last?.error ?? null,
    run_count: count,
    created_at: cron.created_at,
    updated_at: cron.updated_at
  }
}

const STATUSES: Readonly<Record<Run['status'], string>> = {
  pending: 'queued',
  running: 'running',
  success: 'success',
  error: 'failed',
  timeout: 'failed',
  interrupted: 'interrupted'
}

export function runView(task_id: string, run: Run): JsonObject {
  const isEnded = !isInFlight(run)
  return {
    id: run.run_id,
    task_id,
    thread_id: run.thread_id,
    run_id: run.run_id,
    scheduled_for: run.created_at,
    trigger: run.metadata.trigger === 'manual' ? 'manual' : 'scheduled',
    status: STATUSES[run.status],
    error: run.error,
    started_at: run.created_at,
    finished_at: isEnded ? run.updated_at : null,
    created_at: run.created_at
  }
}
