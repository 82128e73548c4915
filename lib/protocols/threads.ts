// The threads of clients that name them by texts of their own, runs begun on them, and what such a thread waits for.
import { randomUUID } from 'node:crypto'
import { fail } from '../base/errors.ts'
import { objectsIn } from '../base/json.ts'
import { type Interrupt, isDelayed, isInFlight, isObject, type Json, type JsonObject, type Run } from '../base/types.ts'
import { type AskRules, type Authorization, mayAccess, type UserCall } from '../http/route.ts'
import { check } from '../http/schema.ts'
import { Authorizer } from '../routes/authorization.ts'
import { askedMessages } from '../run/run-kwargs.ts'
import { alreadyEnded, callerIn, checkStrategy, orderFor, runBody } from '../routes/run-request.ts'
import type { Services } from '../routes/services.ts'
import { newestRuns as newestRunsIn } from '../thread/newest-runs.ts'
import type { RequestKey } from './repeats.ts'

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
/** Of a client's name for a thread or a run. */
export const NAME_MAX = 512

type ThreadServices = Pick<Services, 'store'>

/** The id of the thread that a client calls so: itself, or what the name stands for. null: nothing of this user. */
export async function threadIdOf({ store }: ThreadServices, protocol: string, name: string): Promise<string | null> {
  if (UUID.test(name)) return name.toLowerCase()
  return (await store.aliases.get(protocol, name))?.thread_id ?? null
}

/** The thread, if the caller may see it. null: there is none, or it is somebody else's. */
export async function visibleThread(
  { store }: ThreadServices,
  call: UserCall,
  protocol: string,
  name: string
): Promise<string | null> {
  const threadId = await threadIdOf({ store }, protocol, name)
  if (threadId === null) return null
  const owner = await store.threads.ownerOf(threadId)
  return mayAccess('write', owner, call.user.id) ? threadId : null
}

interface Started {
  readonly protocol: string
  /** The client's name of the thread. */
  readonly name: string
  /** As a route of runs takes it. */
  readonly body: JsonObject
  /** However often it is sent, it begins one run. */
  readonly key?: string | null
  /** The request's own key, which goes before that. */
  readonly request?: RequestKey | null
}

/** Begins a run; its thread is made where there is none. @throws Failure thread_not_found for somebody else's */
export async function startRun(
  services: Services,
  call: UserCall,
  { protocol, name, body, key = null, request = null }: Started
): Promise<Run> {
  const { policy, runs, store } = services
  checkStrategy(call, body.multitask_strategy)
  const threadId = await threadIdOf(services, protocol, name)
  const owner = threadId === null ? undefined : await store.threads.ownerOf(threadId)
  if (threadId !== null && !mayAccess('read', owner, call.user.id)) throw fail('thread_not_found', { id: name })
  const given = check(runBody, body, 'body')
  const allowed = policy ? await new Authorizer(services, policy.askFor(call)).run(given, threadId) : given
  const order = await orderFor(services, {
    threadId,
    caller: callerIn(services, call),
    body: allowed,
    key: request?.key ?? key,
    hash: request?.hash,
    path: `${protocol} ${name}`,
    dialect: call.dialect,
    headers: services.configurableHeaders.of(call)
  })
  if (threadId !== null && owner !== undefined) return runs.start(threadId, order)
  const { assistant_id: assistantId = null, metadata } = allowed
  return runs.startStateless({
    ...order,
    threadId: threadId ?? randomUUID(),
    assistantId,
    metadata: metadata ?? {},
    ...(threadId === null && { named: { protocol, text: name } })
  })
}

/** Asks a project's rules about the thread that `nameOf` finds in a call. */
export function aboutThread(
  services: Services,
  protocol: string,
  nameOf: (call: UserCall) => string | null,
  action = 'read'
): Authorization {
  return async (call: UserCall, ask: AskRules) => {
    const name = nameOf(call)
    const threadId = name === null ? null : await threadIdOf(services, protocol, name)
    if (threadId !== null) await new Authorizer(services, ask).thread(action, threadId)
    return call
  }
}

/** The newest runs of a thread of the caller, without delayed ones: these have said nothing yet. */
export function newestRuns({ store }: ThreadServices, threadId: string, limit = 1): Promise<readonly Run[]> {
  return newestRunsIn(limit, (page) => store.runs.list(threadId, page))
}

/** Graphs keep their messages as they are: the run of each is known by its events. */
export async function withRuns(
  { store }: ThreadServices,
  { user }: UserCall,
  threadId: string,
  messages: readonly JsonObject[]
): Promise<readonly JsonObject[]> {
  const unknown = messages.flatMap(({ type, id, run_id }) =>
    type === 'ai' && run_id === undefined && typeof id === 'string' ? [id] : []
  )
  if (unknown.length === 0) return messages
  const origins = await store.events.runsOfMessages(threadId, unknown, user.id)
  return messages.map((message) => {
    const origin = origins.get(String(message.id))
    return message.run_id === undefined && origin ? { ...message, run_id: origin.run_id } : message
  })
}

interface Asked {
  readonly id: string
  readonly content: Json
}

/** The user's messages that a run was begun with, as far as they have ids. */
export function begunWith(run: Run): Asked[] {
  return askedMessages(run).flatMap(({ id, type, role, content = '' }) =>
    typeof id === 'string' && (type === 'human' || role === 'user') ? [{ id, content }] : []
  )
}

/**
 * Runs of which a state has something, besides the newest and those at work: an answer that was asked anew, or a question that was put in
 * other words, is in no state behind it.
 * @param runs newest first
 * @param messages of the state, with their runs
 */
export function runsInState(runs: readonly Run[], messages: readonly JsonObject[]): Run[] {
  const known = new Set(messages.map(({ run_id }) => run_id))
  const unknown = new Set(messages.flatMap(({ id, run_id }) => (run_id === undefined ? [id] : [])))
  return runs.filter((run, at) => {
    const asked = begunWith(run)
    const isIn = at === 0 || isInFlight(run) || known.has(run.run_id) || asked.some(({ id }) => unknown.has(id))
    // Asked again, a question is that of the newer run.
    if (isIn) for (const { id } of asked) unknown.delete(id)
    return isIn
  })
}

/** Cancels the runs of a thread that are in flight, or those of them that are meant. What has come of them is kept. @returns how many */
export async function stopThread(
  { runs, store }: Pick<Services, 'runs' | 'store'>,
  threadId: string,
  // A delayed one is none that somebody sees and stops.
  isMeant: (run: Run) => boolean = (run) => !isDelayed(run)
): Promise<number> {
  const meant = (await store.runs.inFlight(threadId)).filter(isMeant)
  for (const run of meant) await runs.cancel(run, 'interrupt', true).catch(alreadyEnded)
  return meant.length
}

interface Standing {
  /** The questions that it waits with. */
  readonly questions: Interrupt[]
  /** Its messages; none where nothing of these ids is in it. */
  messagesWith(ids: readonly string[]): readonly JsonObject[]
}

/** How a thread stands, in one query. */
export async function standingOf({ states }: Pick<Services, 'states'>, threadId: string): Promise<Standing> {
  const { interrupts, json } = (await states.values(threadId, null)) ?? { interrupts: {}, json: '{}' }
  const questions = Object.values(interrupts)
    .flatMap((list) => objectsIn(list))
    .flatMap(({ id, value = null }) => (typeof id === 'string' ? [{ id, value }] : []))
  return { questions, messagesWith: (ids) => (ids.some((id) => mayHave(json, id)) ? messagesIn(json) : []) }
}

/** As no JSON writes otherwise: a long conversation is not parsed for what it does not have. */
const PLAIN = /^[\w.:-]+$/

function mayHave(json: string, id: string): boolean {
  return !PLAIN.test(id) || json.includes(`"${id}"`)
}

function messagesIn(json: string): readonly JsonObject[] {
  const values: unknown = JSON.parse(json)
  return isObject(values) ? objectsIn(values.messages) : []
}

/** The questions that a thread waits with. */
export async function openQuestions(services: Pick<Services, 'states'>, threadId: string): Promise<Interrupt[]> {
  return (await standingOf(services, threadId)).questions
}
