// The methods of the Model Context Protocol (MCP): the handshake, tools, and tasks.
import { VERSION } from '../../base/version.ts'
import { fail } from '../../base/errors.ts'
import type { HANDLED, Reply, UserCall } from '../../http/route.ts'
import type { Services } from '../../routes/services.ts'
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, type RpcId, isRpcId, success } from '../json-rpc.ts'
import { formOf } from '../form.ts'
import { begunBefore, requestKeyOf } from '../repeats.ts'
import { sentPlace } from '../stream.ts'
import { endedOf, openTask, type TaskView } from '../task-stream.ts'
import { type Asked, isTheirs, onlyOf, type Task, taskIdOf, Tasks, taskStatus } from '../tasks.ts'
import { McpEncoding, positionEvent, resultOf, taskView } from './encoding.ts'
import { canAsk, type EventAt, newSession, STATELESS_VERSION, type StreamOf, VERSIONS } from './ids.ts'
import { type Speaker, versionFor } from './session.ts'
import { AssistantTools } from './tools.ts'

/** A request with its id, from a speaker. */
interface Spoken {
  readonly call: UserCall
  readonly id: RpcId
  readonly params: JsonObject
  readonly speaker: Speaker
}

type Answered = Promise<Reply | typeof HANDLED>
type Method = (spoken: Spoken) => Answered

/** Without sessions a client that closes its stream may have been cut: so long, in ms, it may come back before its run is given up. */
const GRACE_MS = 30_000
/** How long a list of tools may be kept, in ms. */
const LIST_TTL_MS = 60_000
/** Tasks of a list. */
const TASKS_MAX = 50
/** Runs among which they are looked for. */
const RUNS_MAX = 1_000

const SERVER = { name: 'colloquy', version: VERSION }
const SERVER_META = { 'io.modelcontextprotocol/serverInfo': SERVER }
const TASK_CAPABILITY = { list: {}, cancel: {}, requests: { tools: { call: {} } } }
/** Member of a call's `_meta`: the run it follows, whoever has begun it and over which protocol. */
const FOLLOWED = 'colloquy/run'
/** Members of a run's metadata: the request that has started it, and that it was started as a task. */
const REQUEST = 'mcp_request'
const AS_TASK = 'mcp_task'

export class McpMethods {
  readonly #services: Services
  readonly #tasks: Tasks
  readonly #tools: AssistantTools
  readonly #handshake: Readonly<Record<string, Method>>
  readonly #stateless: Readonly<Record<string, Method>>

  constructor(services: Services) {
    this.#services = services
    this.#tasks = new Tasks(services)
    this.#tools = new AssistantTools(services)
    const tools: Record<string, Method> = {
      'tools/list': (spoken) => this.#listTools(spoken),
      'tools/call': (spoken) => this.#callTool(spoken),
      'tasks/get': (spoken) => this.#getTask(spoken),
      'tasks/cancel': (spoken) => this.#cancelTask(spoken)
    }
    this.#handshake = {
      ...tools,
      initialize: async (spoken) => initialize(spoken),
      ping: async ({ id }) => success(id, {}),
      'tasks/result': (spoken) => this.#taskResult(spoken),
      'tasks/list': (spoken) => this.#listTasks(spoken)
    }
    this.#stateless = {
      ...tools,
      'server/discover': async ({ id }) => success(id, discovered()),
      'tasks/update': (spoken) => this.#updateTask(spoken)
    }
  }

  /** @throws RpcError, or Failure for what is refused before the protocol */
  async call(method: string, spoken: Spoken): Answered {
    const { isStateless } = spoken.speaker
    const methods = isStateless ? this.#stateless : this.#handshake
    const known = Object.hasOwn(methods, method) ? methods[method] : undefined
    // The revision without sessions wants it as a status too.
    if (!known) throw new RpcError(METHOD_NOT_FOUND, 'Method not found', { status: isStateless ? 404 : 200 })
    return known(spoken).catch((error: unknown) => {
      if (isTheirs(error)) throw new RpcError(INVALID_PARAMS, error.message)
      throw error
    })
  }

  /** A client gives up a request of its session. */
  async cancelled(call: UserCall, { session }: Speaker, { requestId }: JsonObject): Promise<void> {
    if (session === null || !isRpcId(requestId)) return
    const key = requestKey(session, requestId)
    const meant = (await this.#services.store.runs.unfinished()).find(({ metadata }) => metadata[REQUEST] === key)
    if (!meant) return
    await this.#tasks.stop(call, await this.#tasks.get(call, meant.run_id))
  }

  /** A client's answer to what its user was asked. @throws Failure changed_meanwhile when somebody else was faster */
  async answered(call: UserCall, run: string, response: Json | undefined): Promise<void> {
    await this.#answer(call, run, response)
  }

  /** Goes on with a stream behind an event. @throws Failure run_not_found */
  resume(call: UserCall, { stream, run: id, after }: EventAt): Promise<typeof HANDLED> {
    return this.#holding(call, async () => {
      const task = await this.#tasks.get(call, stream.task)
      const run = id === task.first.run_id ? task.first : await this.#services.store.runs.get(id)
      if (run?.thread_id !== task.first.thread_id) throw fail('run_not_found', { id })
      const known = await sentPlace(this.#services, run, after, true)
      return { ...this.#view(stream, task, run), after: known, first: positionEvent(id, known, stream) }
    })
  }

  // --------------------------------------------------------------------------------------------------- tools

  async #listTools({ call, id, params, speaker: { isStateless } }: Spoken): Answered {
    const page = await this.#tools.page(call.user.id, params.cursor, !isStateless)
    return success(
      id,
      isStateless ? { ...page, resultType: 'complete', ttlMs: LIST_TTL_MS, cacheScope: 'private' } : page
    )
  }

  async #callTool(spoken: Spoken): Answered {
    const { call, id, params, speaker } = spoken
    const { task: asTask } = params
    const followed = isObject(params._meta) ? params._meta[FOLLOWED] : undefined
    if (followed !== undefined) return this.#follow(spoken, followed)
    if (asTask !== undefined && !speaker.isStateless) return this.#startTask(spoken)
    try {
      return await this.#holding(call, async () => {
        const begun = await this.#begin(spoken, {})
        const stream = streamOf(spoken, begun.task.first.run_id, false)
        return { ...this.#view(stream, begun.task, begun.run), first: positionEvent(begun.run.run_id, null, stream) }
      })
    } catch (error) {
      // What an assistant refuses is for the model that has called it; a key that was used is its client's matter.
      if (!isTheirs(error) || error.code === 'idempotency_conflict') throw error
      const resultType = speaker.isStateless ? { resultType: 'complete' } : {}
      return success(id, { content: [{ type: 'text', text: error.message }], isError: true, ...resultType })
    }
  }

  /** Starts a run, or goes on with the one whose question is answered. */
  async #begin(spoken: Spoken, metadata: JsonObject): Promise<{ readonly task: Task; readonly run: Run }> {
    const { call, id, params, speaker } = spoken
    const { name, arguments: given, requestState: state, inputResponses: responses } = params
    const request = requestKeyOf(call, { name, given, state, responses })
    const earlier = await begunBefore(this.#services, call, request)
    if (earlier) return { task: await this.#tasks.get(call, taskIdOf(earlier)), run: earlier }
    const graceMs = speaker.isStateless ? GRACE_MS : null
    const { requestState, inputResponses } = params
    if (typeof requestState === 'string' && speaker.isStateless) {
      const response = isObject(inputResponses) ? inputResponses.answer : undefined
      if (response === undefined) throw new RpcError(INVALID_PARAMS, 'params.inputResponses.answer is missing')
      return this.#answer(call, requestState, response, { graceMs, request })
    }
    const { assistant, threadId, message, values } = await this.#tools.call(call.user.id, params)
    const asking = threadId === null || message === null ? null : await this.#tasks.asking(call, threadId)
    if (asking) {
      const resume = formOf(await this.#tasks.questions(asking.last)).ofText(message!)
      return { task: asking, run: await this.#tasks.answer(call, asking, resume, { graceMs, request }) }
    }
    const input = { ...values, ...(message !== null && { messages: [{ role: 'user', content: message }] }) }
    const key: JsonObject = speaker.session === null ? {} : { [REQUEST]: requestKey(speaker.session, id) }
    // Progress cannot be taken back: only what is stored is told.
    const body = { input, metadata: { ...key, ...metadata }, durability: 'sync' }
    const asked: Asked = { assistant, threadId, body, graceMs, request }
    const run = await this.#tasks.start(call, asked)
    return { task: onlyOf(run), run }
  }

  /** @param response of a client to an elicitation; undefined: it could not ask */
  async #answer(call: UserCall, runId: string, response: Json | undefined, more: Partial<Asked> = {}) {
    const task = await this.#tasks.of(call, runId)
    const form = formOf(await this.#tasks.questions(task.last))
    const { action, content } = isObject(response) ? response : {}
    const resume = action === 'accept' && isObject(content) ? form.read(content) : form.declined
    return { task, run: await this.#tasks.answer(call, task, resume, more) }
  }

  #view(stream: StreamOf, { first, answered }: Task, run: Run): TaskView {
    const { encode, isLast } = new McpEncoding(stream, first.ordinal, answered)
    // Who follows what is there already leaves nothing behind by leaving.
    return { run, after: null, encode, isLast, isCreator: stream.isStateless && !stream.isOfTask }
  }

  #holding(call: UserCall, view: () => Promise<TaskView>): Promise<typeof HANDLED> {
    const { registry } = this.#services
    return registry.streams.hold(call.user.id, async (place) => openTask(this.#services, call, await view(), place))
  }

  // --------------------------------------------------------------------------------------------------- tasks

  async #startTask(spoken: Spoken): Answered {
    const { id, params } = spoken
    const { ttl } = isObject(params.task) ? params.task : {}
    if (!isObject(params.task) || !(ttl === undefined || ttl === null || typeof ttl === 'number'))
      throw new RpcError(INVALID_PARAMS, 'params.task must be an object whose ttl is a number')
    const { task, run } = await this.#begin(spoken, { [AS_TASK]: true })
    return success(id, { task: taskView(task.first.run_id, task.first, run) })
  }

  async #getTask(spoken: Spoken): Answered {
    const { id, speaker } = spoken
    const task = await this.#task(spoken)
    return success(id, speaker.isStateless ? await this.#detailed(spoken, task) : viewOf(task))
  }

  /** Without sessions its result, or what it needs, stands in it. */
  async #detailed(spoken: Spoken, task: Task): Promise<object> {
    const view = viewOf(task)
    const { ttl: ttlMs, pollInterval: pollIntervalMs, ...rest } = view
    const shown = { resultType: 'complete', ...view, ...rest, ttlMs, ...(pollIntervalMs && { pollIntervalMs }) }
    if (view.status === 'working') return shown
    const ended = await endedOf(this.#services, task.last)
    const given = resultOf(ended, streamOf(spoken, view.taskId, true))
    return 'inputRequests' in given ? { ...shown, inputRequests: given.inputRequests } : { ...shown, result: given }
  }

  /** A call that begins nothing: the only stream that 2026-07-28 has for a run of another client, since it has no `tasks/result`. */
  async #follow(spoken: Spoken, run: Json): Answered {
    if (typeof run !== 'string') throw new RpcError(INVALID_PARAMS, `params._meta.${FOLLOWED} must be a text`)
    return this.#taskResult(spoken, run)
  }

  async #taskResult(spoken: Spoken, taskId: Json | undefined = spoken.params.taskId): Answered {
    const task = await this.#task(spoken, taskId)
    return this.#holding(spoken.call, async () => {
      const stream = streamOf(spoken, task.first.run_id, true)
      return { ...this.#view(stream, task, task.last), first: positionEvent(task.last.run_id, null, stream) }
    })
  }

  async #cancelTask(spoken: Spoken): Answered {
    const task = await this.#task(spoken)
    const status = taskStatus(task.last)
    if (status !== 'working') throw new RpcError(INVALID_PARAMS, `Cannot cancel task: its status is ${status}`)
    return success(spoken.id, {
      ...(spoken.speaker.isStateless && { resultType: 'complete' }),
      ...viewOf(await this.#tasks.cancel(spoken.call, task))
    })
  }

  async #updateTask(spoken: Spoken): Answered {
    const { call, id, params } = spoken
    const task = await this.#task(spoken)
    const { answer } = isObject(params.inputResponses) ? params.inputResponses : {}
    if (answer === undefined) throw new RpcError(INVALID_PARAMS, 'params.inputResponses.answer is missing')
    await this.#answer(call, task.last.run_id, answer)
    return success(id, { resultType: 'complete' })
  }

  async #listTasks({ call, id, params }: Spoken): Answered {
    if (params.cursor !== undefined) throw new RpcError(INVALID_PARAMS, 'params.cursor is none of ours')
    const { runs } = await this.#services.store.runs.begun(0, RUNS_MAX)
    const own = runs.filter(({ metadata }) => metadata[AS_TASK] === true).reverse()
    const tasks = await this.#tasks.list(call, own.slice(0, TASKS_MAX))
    return success(id, { tasks: tasks.map(viewOf) })
  }

  async #task({ call, params }: Spoken, taskId: Json | undefined = params.taskId): Promise<Task> {
    if (typeof taskId !== 'string') throw new RpcError(INVALID_PARAMS, 'params.taskId must be a text')
    return this.#tasks.get(call, taskId)
  }
}

function viewOf({ first, last }: Task): ReturnType<typeof taskView> {
  return taskView(first.run_id, first, last)
}

function requestKey(session: string, id: RpcId): string {
  return `${session}/${JSON.stringify(id)}`
}

function streamOf({ id, params, speaker }: Spoken, task: string, isOfTask: boolean): StreamOf {
  const { progressToken } = isObject(params._meta) ? params._meta : {}
  const { isStateless, canAsk: asks } = speaker
  return { id, token: isRpcId(progressToken) ? progressToken : null, isStateless, canAsk: asks, task, isOfTask }
}

function initialize({ id, params }: Spoken): Reply {
  const protocolVersion = versionFor(params)
  const { capabilities } = params
  const session = newSession(canAsk(isObject(capabilities) ? capabilities : {}))
  const result = { protocolVersion, capabilities: { tools: {}, tasks: TASK_CAPABILITY }, serverInfo: SERVER }
  return { ...success(id, result), headers: { 'Mcp-Session-Id': session } }
}

function discovered(): object {
  return {
    resultType: 'complete',
    supportedVersions: [STATELESS_VERSION, ...VERSIONS.filter((one) => one !== STATELESS_VERSION)],
    capabilities: { tools: {} },
    ttlMs: LIST_TTL_MS,
    cacheScope: 'private',
    _meta: SERVER_META
  }
}
