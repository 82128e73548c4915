// The caller's crons: runs started on a schedule, all in one thread or each in its own.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { fail } from '../../base/errors.ts'
import { type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { isWithin, listOf, metadata, objectOf } from '../../http/schema.ts'
import { type Caller, callerOfRun } from '../../base/loopback.ts'
import type { RunOrder } from '../../run/lifecycle/runs.ts'
import { onceAt, nextRunDate, ScheduleInvalid } from '../../jobs/crons.ts'
import { Containment } from '../../thread/contains.ts'
import type { CronPatch } from '../../store/store.ts'
import { type Cron, isObject, type JsonObject, timestamp, type Timestamp } from '../../base/types.ts'
import { arrayOf, int, nothing, one, paged, ref, selectable } from '../../routes/answers.ts'
import { Authorizer, counting, searching } from '../../routes/authorization.ts'
import { costly, tooLong } from '../../routes/input.ts'
import { orderEntry, pageEntries, pageReply, sorted } from '../../routes/page.ts'
import { callerIn, checkStrategy, orderFor, type RunBody, runEntries } from '../../routes/run-request.ts'
import type { Services } from '../../routes/services.ts'
import { creatingCron, onCron } from './authorization.ts'
import { LANGGRAPH } from './dialect.ts'

const SCHEDULE_MAX = 200
const ZONE_MAX = 64
const FIELDS_MAX = 32
/** Size of a cron: a search reads all crons of the user. */
const CRON_BYTES = 16 * 1024

const moment = v.pipe(
  v.string(),
  v.maxLength(64),
  v.check((text) => Number.isFinite(Date.parse(text)), 'Value error, must be an ISO-8601 time'),
  v.transform((text): Timestamp => timestamp(Date.parse(text)))
)
const schedule = v.pipe(
  v.string(),
  v.trim(),
  v.maxLength(SCHEDULE_MAX),
  // What a task that runs once has, which is made elsewhere.
  v.check((text) => onceAt(text) === null, 'Value error, must have the five fields of a cron')
)
const cronEntries = {
  ...runEntries,
  timezone: v.nullish(v.pipe(v.string(), v.maxLength(ZONE_MAX))),
  end_time: v.nullish(moment),
  enabled: v.nullish(v.boolean()),
  on_run_completed: v.nullish(v.picklist(['delete', 'keep']))
}
const createBody = objectOf({ ...cronEntries, schedule })
const updateBody = objectOf({ ...cronEntries, schedule: v.nullish(schedule) })
const filter = {
  assistant_id: v.nullish(v.pipe(v.string(), v.maxLength(128))),
  thread_id: v.nullish(v.pipe(v.string(), v.maxLength(64))),
  metadata: v.nullish(metadata),
  enabled: v.nullish(v.boolean())
}
const countBody = objectOf(filter)
const searchBody = objectOf({
  ...filter,
  ...pageEntries,
  sort_by: v.nullish(
    v.picklist(['cron_id', 'assistant_id', 'thread_id', 'created_at', 'updated_at', 'next_run_date', 'end_time']),
    'created_at'
  ),
  sort_order: orderEntry,
  select: v.nullish(listOf(v.pipe(v.string(), v.maxLength(64)), FIELDS_MAX))
})
type Fields = v.InferOutput<typeof updateBody>

export function cronRoutes(services: Pick<Services, 'store' | 'writer' | 'limits' | 'assistants' | 'policy'>): Route[] {
  const { store, writer, limits, assistants } = services

  const create = async (call: UserCall<v.InferOutput<typeof createBody>>): Promise<Reply> => {
    const { user, body, params } = call
    checkStrategy(call, body.multitask_strategy)
    const assistant = await assistants.resolve(body.assistant_id ?? null, user.id)
    if (!assistant) throw fail('assistant_unknown', { id: body.assistant_id ?? '' })
    // Clocks of processes differ: a turn is due by that of the database.
    const now = await store.jobs.now()
    const cron = withNextRun(Date.parse(now), {
      cron_id: randomUUID(),
      user_id: user.id,
      assistant_id: body.assistant_id ?? null,
      thread_id: params.thread_id ?? null,
      schedule: body.schedule,
      timezone: body.timezone ?? null,
      payload: withRights(services, payloadOf(body), call),
      metadata: body.metadata ?? {},
      on_run_completed: body.on_run_completed ?? 'delete',
      enabled: body.enabled ?? true,
      end_time: body.end_time ?? null,
      next_run_date: null,
      created_at: now,
      updated_at: now
    })
    await limits.createCron(cron)
    return { json: view(cron) }
  }

  const update = async (call: UserCall<Fields>): Promise<Reply> => {
    const { body, params } = call
    const cron_id = params.cron_id!
    checkStrategy(call, body.multitask_strategy)
    const before = await store.crons.get(cron_id)
    if (!before) throw fail('cron_not_found', { id: cron_id })
    const given = Object.fromEntries(
      Object.entries({ ...body, end_time: body.end_time }).filter(([, value]) => value !== undefined)
    ) as Fields // the same members, those that were given
    const { schedule, timezone, enabled, on_run_completed, end_time, metadata: more } = given
    const payload = withRights(services, { ...before.payload, ...payloadOf(given) }, call)
    if (!isWithin({ ...payload, metadata: more ?? before.metadata }, CRON_BYTES)) throw tooLong(['body'], CRON_BYTES)
    const now = await store.jobs.now()
    const set = patchOf(Date.parse(now), before, {
      ...(schedule && { schedule }),
      ...(timezone !== undefined && { timezone }),
      ...(typeof enabled === 'boolean' && { enabled }),
      ...(end_time !== undefined && { end_time }),
      ...(on_run_completed && { on_run_completed }),
      ...(more && { metadata: more }),
      payload
    })
    const after = await writer.write({ name: 'cron.update', cron_id, set, now })
    if (!after) throw fail('cron_not_found', { id: cron_id })
    return { json: view(after) }
  }

  const remove = async ({ params }: UserCall): Promise<Reply> => {
    const cron_id = params.cron_id!
    if (!(await writer.write({ name: 'cron.remove', cron_id }))) throw fail('cron_not_found', { id: cron_id })
    return { status: 204 }
  }

  /** What crons may call it by whose assistant it is: that of a graph has a name and an id. */
  const namesOf = async (assistantId: string, user: string): Promise<readonly (string | null)[]> => {
    const assistant = await assistants.get(assistantId, user)
    return assistant?.user_id === null ? [assistant.assistant_id, assistant.graph_id] : [assistantId]
  }

  const found = async ({ body, user }: UserCall<v.InferOutput<typeof countBody>>): Promise<Cron[]> => {
    const { assistant_id, thread_id, enabled, metadata: wanted } = body
    const names = assistant_id ? await namesOf(assistant_id, user.id) : null
    const isFound = (cron: Cron) =>
      (names === null || names.includes(cron.assistant_id)) &&
      (!thread_id || cron.thread_id === thread_id) &&
      (typeof enabled !== 'boolean' || cron.enabled === enabled)
    return new Containment().among((await store.crons.list()).filter(isFound), wanted ?? {}).catch(costly)
  }

  const search = async (call: UserCall<v.InferOutput<typeof searchBody>>): Promise<Reply> => {
    const { sort_by, sort_order } = call.body
    return pageReply(sorted(await found(call), sort_by, 'cron_id', sort_order).map(view), call.body)
  }

  const count = async (call: UserCall<v.InferOutput<typeof countBody>>): Promise<Reply> => ({
    json: (await found(call)).length
  })

  const path = '/api/runs/crons'
  const starting = { permission: 'runs:create', bodyLimit: CRON_BYTES } as const
  const record = one(ref('Cron'))
  const creating = { ...starting, method: 'POST', body: createBody, answers: record, handler: create } as const
  const finding = { permission: 'runs:read', method: 'POST', bodyOptional: true } as const
  return [
    route({
      ...creating,
      path,
      rule: creatingCron,
      summary: 'Create a cron whose runs each get a thread of their own',
      refusals: [404, 409]
    }),
    route({
      ...creating,
      path: '/api/threads/{thread_id}/runs/crons',
      thread: 'write',
      rule: async (call, ask) => {
        await new Authorizer(services, ask).thread('read', call.params.thread_id!)
        return creatingCron(call, ask)
      },
      summary: 'Create a cron for a thread',
      refusals: [409]
    }),
    route({
      ...finding,
      path: `${path}/search`,
      body: searchBody,
      rule: searching('crons'),
      summary: 'Search the caller’s crons, newest first',
      answers: paged(arrayOf(selectable('Cron'))),
      handler: search
    }),
    route({
      ...finding,
      path: `${path}/count`,
      body: countBody,
      rule: counting('crons'),
      summary: 'Count the caller’s crons',
      answers: one(int),
      handler: count
    }),
    route({
      ...starting,
      method: 'PATCH',
      path: `${path}/{cron_id}`,
      body: updateBody,
      refusals: [409],
      rule: onCron(services, 'update'),
      summary: 'Update a cron; missing fields stay as they are',
      answers: record,
      handler: update
    }),
    route({
      ...starting,
      method: 'DELETE',
      refusals: [409],
      path: `${path}/{cron_id}`,
      rule: onCron(services, 'delete'),
      summary: 'Delete a cron; its runs stay',
      answers: nothing,
      handler: remove
    })
  ]
}

/** A cron as sent to clients: as whom its runs are started is not, as with runs. */
function view({ payload: { caller: _, ...payload }, ...cron }: Cron): Cron {
  return { ...cron, payload }
}

/** The request body of its runs, without the fields that the cron has itself. */
function payloadOf(fields: Fields): JsonObject {
  const known = Object.entries(fields).filter(
    ([name, value]) => Object.hasOwn(runEntries, name) && name !== 'metadata' && value !== undefined
  )
  // A body of JSON, with defaults filled in.
  return Object.fromEntries(known) as JsonObject
}

/** A cron's payload with the rights of its caller: its runs may do no more than who made it, or changed it last. */
export function withRights(
  services: Pick<Services, 'policy'>,
  { caller: _, ...payload }: JsonObject,
  call: UserCall<unknown, unknown>
): JsonObject {
  const { authUser: auth_user, permissions } = callerIn(services, call)!
  if (auth_user === null && permissions === null) return payload
  return { ...payload, caller: { auth_user, permissions: permissions && [...permissions] } }
}

/** What the job of the next turn has. */
const OF_TURN = ['thread_id', 'schedule', 'timezone', 'enabled', 'end_time']

/**
 * What a change writes: what it is given, and the next turn where that depends on it, so that of two changes at once both stay.
 * @throws Failure schedule_invalid
 */
export function patchOf(now: number, before: Cron, set: CronPatch): CronPatch {
  const { next_run_date } = withNextRun(now, { ...before, ...set })
  return OF_TURN.some((name) => Object.hasOwn(set, name)) ? { ...set, next_run_date } : set
}

/** The one its runs work for. */
export function callerOfCron({ user_id, payload: { caller } }: Cron): Caller {
  // Never null: a cron has a user.
  return callerOfRun(user_id, isObject(caller) ? caller : {})!
}

/** The run of a cron that is due. */
export function orderOfCron(services: Services, cron: Cron): Promise<RunOrder> {
  const { cron_id, thread_id: threadId, payload, metadata } = cron
  // Validated when it was stored.
  const { caller: _, ...fields } = payload
  const body: RunBody = { ...fields, metadata: { ...metadata, cron_id } }
  return orderFor(services, {
    threadId,
    caller: callerOfCron(cron),
    body,
    key: null,
    isTemporary: threadId === null && cron.on_run_completed === 'delete',
    path: `/crons/${cron_id}`,
    dialect: LANGGRAPH
  })
}

/**
 * Computes its next run date.
 * @throws Failure for a schedule that is invalid or never matches, and an end that is past
 */
export function withNextRun(now: number, cron: Cron): Cron {
  try {
    if (cron.end_time !== null && Date.parse(cron.end_time) <= now) throw new ScheduleInvalid('its end_time is past')
    const next_run_date = nextRunDate(cron, now)
    if (next_run_date === null && cron.enabled) throw new ScheduleInvalid('it never matches before its end')
    return { ...cron, next_run_date }
  } catch (error) {
    if (error instanceof ScheduleInvalid) throw fail('schedule_invalid', { reason: error.message })
    throw error
  }
}
