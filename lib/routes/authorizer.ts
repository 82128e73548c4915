// The operator's auth handlers, for one caller: for each action they allow, refuse, or return a filter on records.
import type { AccessPolicy } from '../auth/policy.ts'
import { fail } from '../base/errors.ts'
import type { Call, Reply, UserCall } from '../http/route.ts'
import { Containment } from '../thread/contains.ts'
import { isObject, type Json, type JsonObject, type Run } from '../base/types.ts'
import type { RunBody } from './run-request.ts'
import type { Services } from './services.ts'

export type AskServices = Pick<Services, 'store' | 'assistants' | 'items'>
/** Asks the handlers about a call. Returns the call as they changed it, or the reply. */
export type Authorization = (call: UserCall, ask: Authorizer) => Promise<UserCall | { readonly reply: Reply }>

export class Authorizer {
  readonly #policy: AccessPolicy
  readonly #services: AskServices
  readonly #call: Call<unknown, unknown>

  constructor(policy: AccessPolicy, services: AskServices, call: Call<unknown, unknown>) {
    this.#policy = policy
    this.#services = services
    this.#call = call
  }

  get items(): Services['items'] {
    return this.#services.items
  }

  /** @returns metadata that records must contain; null: no filter */
  async ask(resource: string, action: string, value: JsonObject): Promise<JsonObject | null> {
    const { user, grant } = this.#call
    return user === null ? null : this.#policy.authorize(resource, action, value, { user, grant })
  }

  /** For an existing thread. @throws Failure thread_not_found if the handlers hide it */
  async thread(action: string, threadId: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { thread_id: threadId, ...more }
    const wanted = await this.ask('threads', action, value)
    if (!(await this.isMine(threadId, wanted))) throw fail('thread_not_found', { id: threadId })
    return value
  }

  /** Whether the handlers let the caller delete a thread; false: they hide it. @throws Failure what they refuse with */
  async mayRemove(thread_id: string): Promise<boolean> {
    return this.isMine(thread_id, await this.ask('threads', 'delete', { thread_id }))
  }

  /** Whether no assistant of this id is there that a filter hides. */
  async isFree(id: string, wanted: JsonObject | null): Promise<boolean> {
    const found = wanted && (await this.#services.assistants.get(id, this.#call.user!.id))
    return !found || !wanted || holds(found.metadata, wanted)
  }

  /** Also true for a thread without a record, which has nothing to hide. */
  async isMine(threadId: string, wanted: JsonObject | null): Promise<boolean> {
    if (wanted === null) return true
    const thread = await this.#services.store.threads.get(threadId)
    return thread === null || holds(thread.metadata, wanted)
  }

  async assistant(action: string, id: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { assistant_id: id, ...more }
    const wanted = await this.ask('assistants', action, value)
    const found = wanted && (await this.#services.assistants.get(id, this.#call.user!.id))
    if (wanted && !(found && holds(found.metadata, wanted))) throw fail('assistant_not_found')
    return value
  }

  async cron(action: string, id: string, more: JsonObject = {}): Promise<JsonObject> {
    const value: JsonObject = { cron_id: id, ...more }
    const wanted = await this.ask('crons', action, value)
    const found = wanted && (await this.#services.store.crons.get(id))
    if (wanted && !(found && holds(found.metadata, wanted))) throw fail('cron_not_found', { id })
    return value
  }

  /** The runs to cancel whose threads match the filter. */
  async runs({ thread_id, run_ids }: JsonObject, status: Json, wanted: JsonObject): Promise<string[]> {
    const { runs } = this.#services.store
    const named = Array.isArray(run_ids) ? run_ids.map((id) => runs.get(String(id))) : null
    const isMeant = (run: Run) =>
      (typeof thread_id !== 'string' || run.thread_id === thread_id) && (status === 'all' || run.status === status)
    const found = named ? await Promise.all(named) : (await runs.unfinished()).filter(isMeant)
    const kept: string[] = []
    for (const run of found)
      if (run && (await this.isMine(run.thread_id, wanted))) kept.push(run.run_id)
      else if (named) throw fail('run_not_found', { id: run?.run_id ?? '' })
    return kept
  }

  /** The body of a new run, as the handlers changed it. */
  async run(body: RunBody, threadId: string | null): Promise<RunBody> {
    const { assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds, ...kwargs } = body
    const value: JsonObject = {
      thread_id: threadId,
      assistant_id: assistant_id ?? null,
      run_id: null,
      status: 'pending',
      metadata: { ...metadata },
      multitask_strategy: multitask_strategy ?? 'reject',
      if_not_exists: if_not_exists ?? 'reject',
      after_seconds: after_seconds ?? 0,
      // A body is JSON.
      kwargs: structuredClone(kwargs) as JsonObject
    }
    const wanted = await this.ask('threads', 'create_run', value)
    if (threadId !== null && !(await this.isMine(threadId, wanted))) throw fail('thread_not_found', { id: threadId })
    const changed = isObject(value.kwargs) ? value.kwargs : {}
    return { ...body, ...changed, metadata: stamped(value.metadata, wanted) }
  }
}

/** Whether metadata matches a filter. */
export function holds(metadata: JsonObject, wanted: JsonObject): boolean {
  return new Containment().holds(metadata, wanted)
}

/** The metadata of a new record, which the filter will find whatever the caller says; a list holds what the filter wants besides. */
export function stamped(metadata: Json | undefined, wanted: JsonObject | null): JsonObject {
  const made: JsonObject = isObject(metadata) ? { ...metadata } : {}
  for (const [key, one] of Object.entries(wanted ?? {})) {
    const given = made[key]
    made[key] =
      Array.isArray(one) && Array.isArray(given) ? [...given, ...one.filter((item) => !given.includes(item))] : one
  }
  return made
}

export const bodyOf = ({ body }: UserCall): JsonObject => (isObject(body) ? body : {})
export const withBody = (call: UserCall, more: object): UserCall => ({ ...call, body: { ...bodyOf(call), ...more } })
/** Members of a body, copied for the handlers. */
export const shown = (body: JsonObject, ...names: string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, structuredClone(body[name] ?? null)]))

export function objectIn(call: UserCall, member: string): JsonObject {
  const value = bodyOf(call)[member]
  return isObject(value) ? value : {}
}
