// Scheduled tasks: a view of the caller's crons that were made here. A task's words and form are metadata of its cron; when it comes next,
// and that it comes once whatever crashes, is the cron's matter.
import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { Refused } from '../base/errors.ts'
import { type Cron, isInFlight, type JsonObject, type Run } from '../base/types.ts'
import { type Authorization, type Reply, type Route, route, type UserCall } from '../http/route.ts'
import { jsonObject, objectOf, queryInteger } from '../http/schema.ts'
import { orderOfCron, patchOf, withNextRun, withRights } from '../langgraph/api/crons.ts'
import { arrayOf, one, shaped, text, yesNo } from '../routes/answers.ts'
import { bodyOf, holds, stamped, withBody } from '../routes/authorization.ts'
import type { Services } from '../routes/services.ts'
import {
  metadataOf,
  runSchema,
  runView,
  type Task,
  type TaskRuns,
  taskIn,
  taskSchema,
  taskView,
  timesOf
} from './task.ts'

const ASSISTANT = 'lead_agent'
/** Of a thread that a task has made: its user may have gone on with it since. */
const OWN_RUN = { limit: 1, offset: 0, metadataKey: 'cron_id', kwargsBytes: 0 } as const
/** Runs of a task that are looked at. */
const RUNS_MAX = 200

const words = v.pipe(v.string(), v.minLength(1))
const spec = jsonObject
const mode = v.picklist(['fresh_thread_per_run', 'reuse_thread'])
const threadId = v.nullish(v.pipe(v.string(), v.maxLength(64)))
const zone = v.pipe(v.string(), v.maxLength(64))
const createBody = objectOf({
  title: v.pipe(words, v.maxLength(255)),
  prompt: v.pipe(words, v.maxLength(8000)),
  schedule_type: v.picklist(['once', 'cron']),
  schedule_spec: spec,
  timezone: zone,
  context_mode: v.nullish(mode, 'fresh_thread_per_run'),
  thread_id: threadId
})
const patchBody = objectOf({
  title: v.nullish(v.pipe(words, v.maxLength(255))),
  prompt: v.nullish(v.pipe(words, v.maxLength(8000))),
  schedule_spec: v.nullish(spec),
  timezone: v.nullish(zone),
  context_mode: v.nullish(mode),
  thread_id: threadId
})
const runsQuery = objectOf({
  limit: v.optional(queryInteger({ min: 1, max: 200 }), '50'),
  offset: v.optional(queryInteger({ min: 0 }), '0')
})

export function scheduledTaskRoutes(services: Services): Route[] {
  const { store, writer, runs, limits } = services

  const cronOf = async (id: string): Promise<Cron> => {
    const cron = await store.crons.get(id)
    if (!cron || taskIn(cron) === null) throw new Refused(404, `Scheduled task ${id} not found`)
    return cron
  }

  /** Newest first. */
  const runsOf = async ({ cron_id, thread_id }: Cron): Promise<Run[]> => {
    const isOfTask = (run: Run) => run.metadata.cron_id === cron_id
    const page = { limit: RUNS_MAX, offset: 0, metadataKey: 'cron_id', kwargsBytes: 0 }
    if (thread_id !== null) return (await store.runs.list(thread_id, page)).filter(isOfTask)
    const query = { metadata: { cron_id }, limit: RUNS_MAX, offset: 0 }
    const { threads } = await store.threads.search(query)
    const found = await Promise.all(threads.map((thread) => store.runs.list(thread.thread_id, OWN_RUN)))
    return found
      .flat()
      .filter(isOfTask)
      .toSorted((a, b) => b.key - a.key)
  }

  /** The newest run of a task, and how many there are: in two queries, however many. */
  const summaryOf = async (cron: Cron): Promise<TaskRuns> => {
    if (cron.thread_id !== null) {
      const found = await runsOf(cron)
      return { last: found[0] ?? null, count: found.length }
    }
    const query = { metadata: { cron_id: cron.cron_id }, sortBy: 'created_at', limit: 1, offset: 0 } as const
    const { threads, total } = await store.threads.search(query)
    const [last] = threads[0] ? await store.runs.list(threads[0].thread_id, OWN_RUN) : []
    return { last: last ?? null, count: total }
  }

  const view = async (cron: Cron): Promise<JsonObject> => taskView(cron, await summaryOf(cron))

  const all = async (isMeant: (cron: Cron) => boolean): Promise<Reply> => {
    const crons = (await store.crons.list()).filter((cron) => taskIn(cron) !== null && isMeant(cron))
    const newestFirst = crons.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))
    return { json: await Promise.all(newestFirst.map(view)) }
  }

  /** @throws Refused 404 for a thread that is not the caller's */
  const requireThread = async (contextMode: string, id: string | null): Promise<string | null> => {
    if (contextMode !== 'reuse_thread') return null
    if (id === null) throw new Refused(422, 'A task that reuses a thread names it')
    if (!(await store.threads.get(id))) throw new Refused(404, `Thread ${id} not found`)
    return id
  }

  const create = async (call: UserCall<v.InferOutput<typeof createBody> & Asked>): Promise<Reply> => {
    const { body, user } = call
    const { title, prompt, schedule_type, schedule_spec, timezone } = body
    const context_mode = body.context_mode ?? 'fresh_thread_per_run'
    const thread_id = await requireThread(context_mode, body.thread_id ?? null)
    const now = await store.jobs.now()
    const task: Task = { title, prompt, schedule_type, schedule_spec, context_mode }
    const cron = withNextRun(Date.parse(now), {
      cron_id: randomUUID(),
      user_id: user.id,
      assistant_id: ASSISTANT,
      thread_id,
      ...timesOf(task, timezone, Date.parse(now)),
      timezone,
      payload: withRights(services, payloadOf(prompt), call),
      metadata: { ...metadataOf(task), ...body.wanted },
      on_run_completed: 'keep',
      enabled: true,
      next_run_date: null,
      created_at: now,
      updated_at: now
    })
    await limits.createCron(cron)
    return { json: await view(cron) }
  }

  const changed = async (cron: Cron, patch: Parameters<typeof patchOf>[2]): Promise<Reply> => {
    const now = await store.jobs.now()
    const set = patchOf(Date.parse(now), cron, patch)
    const written = await writer.write({ name: 'cron.update', cron_id: cron.cron_id, set, now })
    if (!written) throw new Refused(404, `Scheduled task ${cron.cron_id} not found`)
    return { json: await view(written) }
  }

  /** @throws Refused 409 while a run of it is in flight */
  const idle = async (id: string): Promise<Cron> => {
    const cron = await cronOf(id)
    const { last } = await summaryOf(cron)
    if (last && isInFlight(last)) throw new Refused(409, 'The task is running')
    return cron
  }

  const patch = async (call: UserCall<v.InferOutput<typeof patchBody>>): Promise<Reply> => {
    const { params, body } = call
    const cron = await idle(params.task_id!)
    const before = taskIn(cron)!
    const task: Task = {
      ...before,
      title: body.title ?? before.title,
      prompt: body.prompt ?? before.prompt,
      schedule_spec: body.schedule_spec ?? before.schedule_spec,
      context_mode: body.context_mode ?? before.context_mode
    }
    const thread_id = await requireThread(task.context_mode, body.thread_id ?? cron.thread_id)
    const timezone = body.timezone ?? cron.timezone ?? 'UTC'
    const isMoved = body.schedule_spec || body.timezone
    const times = isMoved ? timesOf(task, timezone, Date.parse(await store.jobs.now())) : {}
    const payload = withRights(services, payloadOf(task.prompt), call)
    const metadata = { ...cron.metadata, ...metadataOf(task) }
    return changed(cron, { ...times, timezone, thread_id, payload, metadata })
  }

  /** Starts its run now, whatever its schedule. */
  const trigger = async ({ params }: UserCall): Promise<Reply> => {
    const cron = await idle(params.task_id!)
    const { cron_id, thread_id } = cron
    if (thread_id !== null && (await store.runs.inFlight(thread_id)).length > 0)
      throw new Refused(409, 'The thread of the task is busy')
    const metadata = { ...cron.metadata, cron_id, trigger: 'manual' }
    const order = await orderOfCron(services, { ...cron, metadata })
    if (thread_id !== null) await runs.start(thread_id, order)
    else await runs.startStateless({ ...order, threadId: null, assistantId: ASSISTANT, metadata })
    return { json: { id: cron_id, triggered: true } }
  }

  const remove = async ({ params }: UserCall): Promise<Reply> => {
    const { cron_id } = await cronOf(params.task_id!)
    await writer.write({ name: 'cron.remove', cron_id })
    return { json: { id: cron_id, deleted: true } }
  }

  const runList = async ({ params, query }: UserCall<unknown, v.InferOutput<typeof runsQuery>>): Promise<Reply> => {
    const cron = await cronOf(params.task_id!)
    const page = (await runsOf(cron)).slice(query.offset, query.offset + query.limit)
    return { json: page.map((run) => runView(cron.cron_id, run)) }
  }

  const path = '/api/scheduled-tasks'
  const answers = one(taskSchema)
  const reading = { method: 'GET', permission: 'runs:read', rule: onTask(services, 'read') } as const
  const changing = { permission: 'runs:create', rule: onTask(services, 'update'), answers } as const
  const below = { ...changing, method: 'POST', refusals: [409] } as const
  return [
    route({
      ...reading,
      path,
      rule: searchingTasks,
      summary: 'Scheduled tasks of the caller',
      answers: one(arrayOf(taskSchema)),
      handler: ({ body }) => all(({ metadata }) => holds(metadata, (body as Asked | undefined)?.wanted ?? {}))
    }),
    route({
      ...reading,
      path: `${path}/{task_id}`,
      summary: 'A scheduled task',
      answers,
      handler: async ({ params }) => ({ json: await view(await cronOf(params.task_id!)) })
    }),
    route({
      ...reading,
      path: `${path}/{task_id}/runs`,
      summary: 'Runs of a scheduled task, newest first',
      answers: one(arrayOf(runSchema)),
      query: runsQuery,
      handler: runList
    }),
    route({
      ...reading,
      path: '/api/threads/{thread_id}/scheduled-tasks',
      thread: 'read',
      rule: 'threads:read',
      summary: 'Scheduled tasks that reuse this thread',
      answers: one(arrayOf(taskSchema)),
      handler: ({ params }) => all((cron) => cron.thread_id === params.thread_id)
    }),
    route({
      ...changing,
      method: 'POST',
      path,
      rule: creatingTask,
      summary: 'Schedule a task, once or again and again',
      refusals: [404, 409],
      body: createBody,
      handler: create
    }),
    route({
      ...changing,
      method: 'PATCH',
      path: `${path}/{task_id}`,
      summary: 'Change a task; missing fields stay as they are',
      refusals: [409],
      body: patchBody,
      handler: patch
    }),
    route({
      ...below,
      path: `${path}/{task_id}/pause`,
      summary: 'Pause a task',
      handler: async ({ params }) => changed(await idle(params.task_id!), { enabled: false })
    }),
    route({
      ...below,
      path: `${path}/{task_id}/resume`,
      summary: 'Resume a task',
      handler: async ({ params }) => changed(await idle(params.task_id!), { enabled: true })
    }),
    route({
      ...below,
      path: `${path}/{task_id}/trigger`,
      summary: 'Run a task now',
      answers: one(shaped({ id: text, triggered: yesNo })),
      handler: trigger
    }),
    route({
      ...changing,
      rule: onTask(services, 'delete'),
      method: 'DELETE',
      refusals: [409],
      path: `${path}/{task_id}`,
      summary: 'Delete a task; its runs stay',
      answers: one(shaped({ id: text, deleted: yesNo })),
      handler: remove
    })
  ]
}

// The project's auth rules are asked about a task as about the cron that it is.

/** Metadata that the rules want of what is found or made. */
interface Asked {
  readonly wanted?: JsonObject
}

/** About the task in the path. */
function onTask({ store }: Pick<Services, 'store'>, action: string): Authorization {
  return async (call, ask) => {
    const id = call.params.task_id!
    const wanted = await ask('crons', action, { cron_id: id })
    const cron = wanted && (await store.crons.get(id))
    if (wanted && !(cron && holds(cron.metadata, wanted))) throw new Refused(404, `Scheduled task ${id} not found`)
    return call
  }
}

const searchingTasks: Authorization = async (call, ask) => {
  const wanted = await ask('crons', 'search', {})
  return wanted === null ? call : withBody(call, { wanted })
}

const creatingTask: Authorization = async (call, ask) => {
  const value: JsonObject = { ...structuredClone(bodyOf(call)), assistant_id: ASSISTANT, metadata: {} }
  const wanted = await ask('crons', 'create', value)
  return withBody(call, { wanted: stamped(value.metadata, wanted) })
}

/** DeerFlow's own agent does not run without one: what its page sends where nothing is chosen. */
const CONTEXT = { is_plan_mode: false, subagent_enabled: false }

function payloadOf(prompt: string): JsonObject {
  return { input: { messages: [{ type: 'human', content: prompt }] }, context: CONTEXT }
}
