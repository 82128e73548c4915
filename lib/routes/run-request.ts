// Turns a client's request for a run into a run record.
import { createHash, randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { authUser } from '../auth/asserted.ts'
import { Failure, fail, Invalid } from '../base/errors.ts'
import { type Call, requirePermission } from '../http/route.ts'
import type { Dialect } from '../http/dialect.ts'
import {
  badId,
  describedAs,
  fewKeys,
  integer,
  isId,
  issue,
  jsonObject,
  listOf,
  metadata,
  objectOf
} from '../http/schema.ts'
import type { Caller } from '../base/loopback.ts'
import { configWithoutReserved, withoutReserved } from '../base/reserved.ts'
import { originKept } from '../base/tracing.ts'
import type { RunOrder, StatelessOrder } from '../run/lifecycle/runs.ts'
import { configuredParts, servedModes } from '../run/run-kwargs.ts'
import { type Assistants, NAME, type RunAssistant, withAssistant } from '../thread/assistants.ts'
import { type Json, type JsonObject, NO_TOTALS, type Run, timestamp, isObject } from '../base/types.ts'
import { CHANNELS_MAX, checkCount, placeIn, readInput, refusedValue } from './input.ts'
import type { Services } from './services.ts'

const assistantName = v.pipe(
  v.string(),
  v.maxLength(128),
  v.transform((name) => (name.trim() === '' ? null : name))
)

/** Maximum stream modes, breakpoints or feedback keys of a run. */
const MODES_MAX = 64

const modes = v.union([
  v.pipe(
    v.string(),
    v.transform((mode) => [mode])
  ),
  listOf(v.string(), MODES_MAX)
])

const isNothing = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)

/** Node names; `*` means all. */
const breakpoints = v.nullish(v.union([v.string(), listOf(v.string(), MODES_MAX)]))

/** The longest delay of a run: a year. */
const AFTER_SECONDS_MAX = 366 * 86_400
const URL_MAX = 2048

const NO_ADDRESS = 'must be a URL of http or https, or a path of http.app'

/** A URL, or a path of the operator's app; `orderFor` checks that the app has that route. */
const webAddress = v.pipe(
  v.string(),
  v.maxLength(URL_MAX),
  v.check(
    (text) => /^\/(?![/\\])/.test(text) || /^https?:$/.test(URL.parse(text)?.protocol ?? ''),
    `Value error, ${NO_ADDRESS}`
  )
)

const feedbackKey = v.pipe(v.string(), v.minLength(1), v.maxLength(128))

/** Unknown fields are ignored, so that clients of a later LangGraph keep working. */
export const runEntries = {
  assistant_id: v.nullish(assistantName),
  input: v.nullish(
    v.pipe(fewKeys(CHANNELS_MAX), describedAs({ examples: [{ messages: [{ role: 'user', content: 'Hello' }] }] }))
  ),
  command: v.nullish(jsonObject),
  continue_from: v.nullish(objectOf({ run_id: v.pipe(v.string(), v.maxLength(64)) })),
  interrupt_before: breakpoints,
  interrupt_after: breakpoints,
  metadata: v.nullish(metadata),
  config: v.nullish(jsonObject),
  context: v.nullish(jsonObject),
  checkpoint_id: v.nullish(v.pipe(v.string(), v.maxLength(256))),
  checkpoint: v.nullish(jsonObject),
  stream_mode: v.nullish(modes),
  stream_subgraphs: v.nullish(v.boolean()),
  on_disconnect: v.nullish(v.picklist(['cancel', 'continue'])),
  multitask_strategy: v.nullish(v.picklist(['reject', 'interrupt', 'rollback', 'enqueue'])),
  on_completion: v.nullish(v.picklist(['delete', 'keep', 'complete', 'continue'])),
  if_not_exists: v.nullish(v.picklist(['reject', 'create'])),
  follow_up_to_run_id: v.nullish(v.pipe(v.string(), v.maxLength(64))),
  durability: v.nullish(v.picklist(['sync', 'async', 'exit'])),
  recursion_limit: v.nullish(integer({ min: 1 })),
  after_seconds: v.nullish(v.pipe(v.number(), v.finite(), v.minValue(0), v.maxValue(AFTER_SECONDS_MAX))),
  webhook: v.nullish(webAddress),
  feedback_keys: v.nullish(v.union([feedbackKey, listOf(feedbackKey, MODES_MAX)]))
}
export const runBody = v.pipe(objectOf(runEntries), describedAs({ title: 'RunRequest' }))
export type RunBody = v.InferOutput<typeof runBody>

/** The one a call's run works for, with no more rights than the call had. */
export function callerIn({ policy }: Pick<Services, 'policy'>, { user, grant }: Call): Caller | null {
  if (user === null) return null
  const permissions = grant?.permissions ? [...grant.permissions] : null
  return { userId: user.id, authUser: policy ? authUser({ user, grant }) : null, permissions }
}

/** A strategy that ends other runs of the thread needs the permission to cancel. */
export function checkStrategy(call: Call, strategy: Json | undefined): void {
  if (strategy === 'interrupt' || strategy === 'rollback') requirePermission(call, 'runs:cancel')
}

export const KEY_MAX = 255

/**
 * The Idempotency-Key header: however often a request is sent, it creates one run [design 5]. null: it has none.
 * @throws Invalid when it is too long
 */
export function idempotencyKeyOf({ req }: Pick<Call, 'req'>): string | null {
  const key = req.headers['idempotency-key']
  if (typeof key !== 'string' || key === '') return null
  if (key.length > KEY_MAX)
    throw new Invalid([issue('string_too_long', ['header', 'Idempotency-Key'], { max_length: KEY_MAX })])
  return key
}

type Configuration = ReturnType<typeof withAssistant>

/** The name that context or configuration gives: of a model, or of the persona as whom the agent answers. */
function nameIn(configuration: Configuration, key: 'model_name' | 'agent_name'): string | null {
  const name = configuredParts(configuration).findLast((part) => Object.hasOwn(part, key))?.[key]
  return typeof name === 'string' && name !== '' ? name : null
}

/** Models that are named anywhere: a graph finds them all, whichever counts here. */
function modelsIn(configuration: Configuration): string[] {
  const named = configuredParts(configuration).map((part) => part.model_name)
  return named.filter((name): name is string => typeof name === 'string' && name !== '')
}

/** The thread that a stateless run continues, if the caller names one. */
export function threadIdIn({ config }: RunBody): string | null {
  const id = isObject(config?.configurable) ? config.configurable.thread_id : null
  return typeof id === 'string' || typeof id === 'number' ? String(id) : null
}

interface RunRequest {
  /** Null: a new one. */
  readonly threadId: string | null
  /** Whom it works for; null: nobody. */
  readonly caller: Caller | null
  readonly body: RunBody
  /** Value of the Idempotency-Key header. */
  readonly key: string | null
  /** Digest of the request with this key. Default: of its path and body. */
  readonly hash?: string | undefined
  /** Scope of the key: with the path, so that a key reused on another thread is another request. */
  readonly path: string
  readonly dialect: Dialect
  /** It gets a thread of its own, which is deleted with it. */
  readonly isTemporary?: boolean
  /** Request headers to pass on to graphs. */
  readonly headers?: JsonObject
}

/**
 * Builds the run.
 * @throws Failure for an unknown assistant or model, and invalid messages, before anything is stored
 */
export async function orderFor(
  services: Pick<Services, 'assistants' | 'agent' | 'models' | 'states' | 'config' | 'app' | 'access' | 'store'>,
  request: RunRequest
): Promise<RunOrder> {
  const { assistants, agent, states, config, app, access } = services
  const { body, caller } = request
  const userId = caller?.userId ?? null
  const { isOfGraphs } = states
  if (!isOfGraphs) refuseGraphWords(body, states.takesBreakpoints === true)
  await requireContinued(services, request)
  if (body.webhook?.startsWith('/') && !app?.has('POST', body.webhook.split('?', 1)[0]!))
    throw refusedValue(['body', 'webhook'], NO_ADDRESS)
  const persona = nameIn({ config: body.config ?? null, context: body.context ?? null }, 'agent_name')
  const assistant = await assistantOf(assistants, body.assistant_id ?? null, userId, persona)
  const added = keepsGoalInMetadata(services) ? await addedSettings(services, request) : {}
  const configuration = configurationOf(body, assistant, added)
  const user = await access.userFor(userId)
  if (!access.mayUse('agents', assistant.graphId, user)) throw fail('agent_not_allowed', { name: assistant.graphId })
  const models = agent.models?.() ?? []
  if (user !== null) for (const name of modelsIn(configuration)) access.checkModel(name, user)
  const modelName = access.modelFor(user, nameIn(configuration, 'model_name'), models)
  const isKnown = [...models, ...services.models()].some(({ name }) => name === modelName)
  // The demo model takes any name.
  if (modelName !== null && models.length && !isKnown) throw fail('model_unknown', { name: modelName })
  if (body.continue_from && models.find(({ name }) => name === (modelName ?? models[0]?.name))?.continuation === 'none')
    throw fail('not_continuable', { name: modelName ?? models[0]!.name })
  // A delayed run's created_at is its start time, as in LangGraph.
  const waitsMs = Math.round((body.after_seconds ?? 0) * 1000)
  const now = timestamp()
  const run: RunOrder['run'] = {
    run_id: randomUUID(),
    user_id: userId,
    assistant_id: assistant.name,
    status: 'pending',
    model_name: modelName,
    multitask_strategy: body.multitask_strategy ?? request.dialect.secondRun,
    metadata: { ...assistant.metadata, ...withoutReserved(body.metadata ?? {}) },
    kwargs: {
      ...kwargsOf(request, services),
      ...configuration,
      ...originKept(),
      graph_id: assistant.graphId,
      ...(caller?.authUser && { auth_user: caller.authUser }),
      ...(caller?.permissions && { permissions: [...caller.permissions] }),
      ...(request.isTemporary && { temporary: config.runs.temporary_grace_ms })
    },
    error: null,
    stop_reason: null,
    follow_up_to_run_id: body.follow_up_to_run_id ?? null,
    first_human_message: null,
    last_ai_message: null,
    last_cursor: null,
    final_checkpoint_id: null,
    idempotency_key: request.key,
    idempotency_hash: request.key === null ? null : (request.hash ?? digestOf(request)),
    ...NO_TOTALS,
    created_at: waitsMs > 0 ? timestamp(Date.now() + waitsMs) : now,
    updated_at: now
  }
  const { graphId: graph_id, assistantId } = assistant
  // A thread bears the name by which its assistant was asked for: who names a graph looks for threads by it.
  const assistant_id = body.assistant_id === graph_id ? graph_id : assistantId
  return {
    run,
    autoFollowUp: run.follow_up_to_run_id === null,
    graph: { graph_id, assistant_id, ...(assistant.persona !== undefined && { agent_name: assistant.persona }) },
    namesFirst: request.dialect.namesGraph === 'before',
    removesRolledBack: request.dialect.rolledBackRun === 'delete'
  }
}

/** The order for the run that a request asks for. `at`: its index in a batch. */
export function orderOf(services: Services, call: Call<RunBody>, at?: number): Promise<RunOrder> {
  checkStrategy(call, call.body.multitask_strategy)
  const key = idempotencyKeyOf(call)
  const threadId = call.params.thread_id ?? threadIdIn(call.body)
  return orderFor(services, {
    threadId,
    caller: callerIn(services, call),
    body: call.body,
    key: key === null || at === undefined ? key : `${at} ${key}`,
    path: call.path,
    dialect: call.dialect,
    headers: services.configurableHeaders.of(call),
    isTemporary: threadId === null && isForOnce(call)
  })
}

/** The same for a run on the thread named, or on a new one. */
export function statelessOrder({ body }: Call<RunBody>, order: RunOrder, threadId: string | null): StatelessOrder {
  const { assistant_id, metadata } = body
  return { ...order, threadId, assistantId: assistant_id ?? null, metadata: metadata ?? {} }
}

/** Starts a run on the thread named in its configuration, or on a new one. */
export async function startStateless(services: Services, call: Call<RunBody>, at?: number): Promise<Run> {
  const threadId = threadIdIn(call.body)
  if (threadId !== null && !isId(threadId)) throw new Invalid([badId(['body', 'config', 'configurable', 'thread_id'])])
  return services.runs.startStateless(statelessOrder(call, await orderOf(services, call, at), threadId))
}

/** Ignores the error for a run that has ended by itself. */
export function alreadyEnded(error: unknown): void {
  if (!(error instanceof Failure && error.code === 'run_not_cancellable')) throw error
}

/** Whether its thread is made for it alone. */
function isForOnce({ body: { on_completion: wanted }, dialect }: Call<RunBody>): boolean {
  return wanted ? wanted === 'delete' || wanted === 'complete' : dialect.threadOfRun === 'delete'
}

/** @throws Failure for an unknown name */
async function assistantOf(
  assistants: Assistants,
  name: string | null,
  user: string | null,
  persona: string | null
): Promise<RunAssistant> {
  const known = await assistants.resolve(name, user, persona)
  if (known) return known
  if (assistants.takesAnyName && !NAME.test(name ?? ''))
    throw refusedValue(['body', 'assistant_id'], 'the name of an assistant has only letters, digits, - and _')
  throw fail('assistant_unknown', { id: name ?? '' })
}

/** The caller's config, overriding the assistant's, and what is added for graphs. */
function configurationOf({ config, context }: RunBody, assistant: RunAssistant, added: JsonObject): Configuration {
  const configurable = isObject(config?.configurable) ? config.configurable : {}
  const given = Object.keys(added).length > 0 ? { ...config, configurable: { ...configurable, ...added } } : config
  return withAssistant(assistant, {
    config: given ? configWithoutReserved(given) : null,
    context: context ? withoutReserved(context) : null
  })
}

/** The goal of a conversation, as its thread's metadata or its state has it; null: none. */
export function goalIn(given: unknown): JsonObject | null {
  return isObject(given) && isObject(given.goal) ? given.goal : null
}

/** A graph has channels of its own, here and behind a LangGraph server: goals stand in the threads' metadata. */
export function keepsGoalInMetadata({ states, config }: Pick<Services, 'states' | 'config'>): boolean {
  return states.isOfGraphs || config.agent.runtime === 'langgraph'
}

/** What is added to the configuration of a graph: headers if it is one of ours, and the goal of its thread. */
async function addedSettings(
  { states, store }: Pick<Services, 'states' | 'store'>,
  { threadId, headers }: RunRequest
): Promise<JsonObject> {
  // Whoever may start a run in a thread may know its goal; a cron starts its own in nobody's name.
  const goal = threadId === null ? null : goalIn((await store.threads.get(threadId, null))?.metadata)
  return { ...(states.isOfGraphs && headers), ...(goal && { goal }) }
}

/** A run goes on with an answer of its own thread, and a new thread has none. @throws Failure run_not_in_thread, run_not_found */
async function requireContinued({ store }: Pick<Services, 'store'>, { body, threadId }: RunRequest): Promise<void> {
  const id = body.continue_from?.run_id
  if (id === undefined || (await store.runs.get(id))?.thread_id === threadId) return
  throw threadId === null ? fail('run_not_found', { id }) : fail('run_not_in_thread', { id, thread_id: threadId })
}

/**
 * Refuses LangGraph options that only graphs support: ignoring them would let a run continue where its caller expects it to stop.
 */
function refuseGraphWords(body: RunBody, takesBreakpoints: boolean): void {
  const { command, continue_from, input } = body
  const refuse = (where: readonly string[], text: string): never => {
    throw refusedValue(['body', ...where], text)
  }
  if (!isNothing(command?.goto)) refuse(['command'], 'command.goto is only supported by graphs')
  if (!isNothing(command?.update)) refuse(['command'], 'command.update is only supported by graphs: use input')
  for (const where of takesBreakpoints ? [] : (['interrupt_before', 'interrupt_after'] as const))
    if (!isNothing(body[where])) refuse([where], 'breakpoints are only supported by graphs')
  if (continue_from && (!isNothing(input?.messages) || !isNothing(command)))
    refuse(['continue_from'], 'an answer is continued without further input')
  // The answer must come directly after the question.
  if (!isNothing(command?.resume) && !isNothing(input?.messages))
    refuse([], 'command.resume and input.messages cannot be combined')
}

/** Graphs parse their input themselves. For other agents messages are normalised here and get ids. */
function inputOf({ input }: RunBody, isOfGraphs: boolean): JsonObject | null {
  if (!input || input.messages === undefined) return input ?? null
  checkCount(input.messages, 'input.messages')
  // Messages are JSON by construction.
  return isOfGraphs ? input : { ...input, messages: readInput(input.messages, 'input.messages') as unknown as Json }
}

/** Everything needed to start the run, also after a restart. */
function kwargsOf(
  { body, threadId }: RunRequest,
  { states, agent, config: { runs } }: Pick<Services, 'states' | 'agent' | 'config'>
): JsonObject {
  const { isOfGraphs, takesBreakpoints = isOfGraphs } = states
  // What goes on behind a crash goes on behind what was stored: readers have seen nothing more.
  const resumes = agent.canResume === true && runs.on_restart === 'resume'
  // In `configurable` LangGraph itself, within a process, finds it: whoever moves to a server leaves it there.
  const { configurable } = body.config ?? {}
  const named = body.checkpoint ?? (isObject(configurable) && configurable.checkpoint_id ? configurable : null)
  const { checkpointId, namespace } = placeIn(named, threadId)
  return {
    input: inputOf(body, isOfGraphs),
    ...(isOfGraphs && { checkpoint: named && { ...body.checkpoint, checkpoint_ns: namespace } }),
    ...(takesBreakpoints && {
      interrupt_before: body.interrupt_before ?? null,
      interrupt_after: body.interrupt_after ?? null,
      stream_subgraphs: body.stream_subgraphs ?? false
    }),
    command: body.command ?? null,
    ...(body.continue_from && { continue_from: body.continue_from }),
    checkpoint_id: body.checkpoint_id || checkpointId,
    // Only graphs have events.
    stream_mode: [...servedModes(body.stream_mode ?? ['values'], isOfGraphs)],
    on_disconnect: body.on_disconnect ?? runs.on_disconnect,
    durability: body.durability ?? (resumes ? 'sync' : 'async'),
    ...(body.after_seconds && { after_seconds: body.after_seconds }),
    ...(body.webhook && { webhook: body.webhook }),
    ...(body.feedback_keys && { feedback_keys: [body.feedback_keys].flat() })
  }
}

/** By which a request that is sent again is known: `body` has all that must be the same. */
export function digestOf({ path, body }: { readonly path: string; readonly body: unknown }): string {
  return createHash('sha256').update(path).update('\n').update(JSON.stringify(body)).digest('hex')
}
