// The methods of Agent2Agent (A2A), the same for both bindings: messages to an agent, and the tasks that they become.
import { fail, Failure } from '../../base/errors.ts'
import { type HANDLED, requirePermission, type UserCall } from '../../http/route.ts'
import { readInput } from '../../routes/input.ts'
import { giveInput } from '../../routes/run-input.ts'
import { waitForEnd } from '../../routes/wait.ts'
import { isId } from '../../http/schema.ts'
import type { Services } from '../../routes/services.ts'
import { type HumanMessage, isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { INVALID_PARAMS, METHOD_NOT_FOUND, RpcError } from '../json-rpc.ts'
import { PART_FILTER } from '../parts.ts'
import { type Piece, pieces } from '../pieces.ts'
import { formOf } from '../form.ts'
import { eventsOfRun } from '../stream.ts'
import { openTask } from '../task-stream.ts'
import { begunBefore, type RequestKey, requestKeyOf } from '../repeats.ts'
import { asks, onlyOf, type Task, taskIdOf, Tasks, taskStatus } from '../tasks.ts'
import { CONTEXT, contextOf, eventOf, stateOf, TASK_STATES, taskView } from './encoding.ts'
import { a2aError, errorFor } from './errors.ts'
import { type GivenMessage, messageIn } from './input.ts'
import { pushConfigIn, pushIn, pushOf } from './push.ts'
import { PushConfigs } from './push-configs.ts'

/** Whose names contexts are, among those of other protocols. */
const CONTEXTS = 'a2a'

/** A method called over one of the bindings. */
interface Asked {
  readonly call: UserCall
  /** The agent in the path. */
  readonly agent: string
  readonly params: JsonObject
  /** An event of a stream as the binding has it, as JSON. */
  readonly wrap: (event: JsonObject) => JsonObject
}

type Answer = JsonObject | typeof HANDLED
type Method = (asked: Asked) => Promise<Answer>

const PAGE = 50
const PAGE_MAX = 100
/** Runs among which tasks are looked for. */
const RUNS_MAX = 1_000
const NO_CONFIG = 'The task has no such push notification configuration'

export class A2aMethods {
  readonly #services: Services
  readonly #tasks: Tasks
  readonly #configs: PushConfigs
  readonly #methods: Readonly<Record<string, Method>>

  constructor(services: Services) {
    this.#services = services
    this.#tasks = new Tasks(services)
    this.#configs = new PushConfigs(services)
    this.#methods = {
      SendMessage: (asked) => this.#send(asked),
      SendStreamingMessage: (asked) => this.#stream(asked),
      GetTask: (asked) => this.#get(asked),
      ListTasks: (asked) => this.#list(asked),
      CancelTask: (asked) => this.#cancel(asked),
      SubscribeToTask: (asked) => this.#subscribe(asked),
      CreateTaskPushNotificationConfig: (asked) => this.#setPushConfig(asked),
      GetTaskPushNotificationConfig: (asked) => this.#pushConfig(asked),
      ListTaskPushNotificationConfigs: (asked) => this.#pushConfigs(asked),
      DeleteTaskPushNotificationConfig: (asked) => this.#deletePushConfig(asked),
      GetExtendedAgentCard: async () => {
        throw a2aError('EXTENDED_AGENT_CARD_NOT_CONFIGURED', 'The public card is all there is')
      }
    }
  }

  /** @throws RpcError; Failure for what is of the server's state */
  async call(method: string, asked: Asked): Promise<Answer> {
    const known = Object.hasOwn(this.#methods, method) ? this.#methods[method] : undefined
    if (!known) throw new RpcError(METHOD_NOT_FOUND, 'Method not found')
    await this.#checkAgent(asked)
    return known(asked).catch((error: unknown) => {
      throw (error instanceof Failure && errorFor(error)) || error
    })
  }

  /** @throws Failure assistant_unknown, also for somebody else's */
  async #checkAgent({ agent, call }: Asked): Promise<void> {
    if (!(await this.#services.assistants.get(agent, call.user.id))) throw fail('assistant_unknown', { id: agent })
  }

  // ------------------------------------------------------------------------------------------------ messages

  async #send(asked: Asked): Promise<Answer> {
    const { call, params, wrap } = asked
    const configuration = configurationIn(params)
    return this.#services.registry.streams.hold(call.user.id, async (place) => {
      const { first, last } = await this.#deliver(asked)
      const answer = async () => ({
        task: await this.#view(await this.#tasks.get(call, first.run_id), params, configuration)
      })
      if (configuration.returnImmediately === true) return answer()
      const answerOf = async () => JSON.stringify(wrap(await answer()))
      const revoked = JSON.stringify(call.errors?.(new Failure('token_revoked'), call.req)?.json)
      return waitForEnd(this.#services, call, place, { run: last, isTheirs: false, revoked, answerOf })
    })
  }

  async #stream(asked: Asked): Promise<Answer> {
    configurationIn(asked.params)
    return this.#services.registry.streams.hold(asked.call.user.id, async (place) =>
      this.#open(asked, await this.#deliver(asked), place)
    )
  }

  /** What a message becomes: a new task, the answer to what one asks, or a word to one at work. */
  async #deliver(asked: Asked): Promise<Task> {
    const { call, params } = asked
    const message = messageIn(params)
    const request = requestKeyOf(call, params)
    const earlier = await begunBefore(this.#services, call, request)
    if (earlier) return this.#tasks.get(call, taskIdOf(earlier))
    if (message.taskId === null) return this.#start(asked, message, request)
    const task = await this.#tasks.get(call, message.taskId)
    const { contextId } = message
    if (contextId !== null && contextId !== contextOf(task.first) && contextId !== task.first.thread_id)
      throw new RpcError(INVALID_PARAMS, 'message.contextId is not that of the task')
    if (asks(task.last)) return this.#answer(asked, task, message, request)
    if (taskStatus(task.last) !== 'working')
      throw a2aError('UNSUPPORTED_OPERATION', `The task has ended: ${stateOf(task.last)}`)
    await this.#steer(call, task.last, message)
    return task
  }

  async #start({ call, agent, params }: Asked, message: GivenMessage, request: RequestKey | null): Promise<Task> {
    requirePermission(call, 'runs:create')
    const { contextId, messageId, content } = message
    const threadId = contextId === null ? null : await threadOf(this.#services.store, contextId)
    const asking = threadId === null ? null : await this.#tasks.asking(call, threadId)
    if (asking) return this.#answer({ call }, asking, message, request)
    const named: JsonObject = contextId !== null && contextId !== threadId ? { [CONTEXT]: contextId } : {}
    const push = pushIn(configurationIn(params).taskPushNotificationConfig)
    const body = {
      input: { messages: [{ role: 'user', content }] },
      metadata: { a2a_message: messageId, ...named },
      ...push?.body
    }
    const name = contextId !== null && threadId === null ? { named: { protocol: CONTEXTS, text: contextId } } : {}
    const kwargs = push?.kwargs ?? {}
    const run = await this.#tasks.start(call, { assistant: agent, threadId, body, kwargs, request, ...name })
    return onlyOf(run)
  }

  async #answer(
    { call }: Pick<Asked, 'call'>,
    task: Task,
    { text, data }: GivenMessage,
    request: RequestKey | null
  ): Promise<Task> {
    const given = isObject(data) && data.resume !== undefined ? data.resume : data
    const resume: Json = given ?? formOf(await this.#tasks.questions(task.last)).ofText(text)
    const context = task.first.metadata[CONTEXT]
    const metadata: JsonObject = context === undefined ? {} : { [CONTEXT]: context }
    const push = pushOf(task.first)
    const more = { body: { metadata, ...push?.body }, kwargs: push?.kwargs ?? {}, request }
    const last = await this.#tasks.answer(call, task, resume, more)
    return { ...task, last, answered: new Set([...task.answered, task.last.run_id]), runs: [...task.runs, last] }
  }

  async #steer(call: UserCall, run: Run, { content }: GivenMessage): Promise<void> {
    requirePermission(call, 'runs:create')
    const left = new AbortController()
    call.res.once('close', () => left.abort())
    const said = readInput([{ role: 'user', content }], 'message.parts').filter(
      (one): one is HumanMessage => one.type === 'human'
    )
    await giveInput(this.#services, run, said, left.signal)
  }

  // --------------------------------------------------------------------------------------------------- tasks

  async #get({ call, params }: Asked): Promise<Answer> {
    return this.#view(await this.#taskIn(call, params), params)
  }

  async #cancel({ call, params }: Asked): Promise<Answer> {
    const task = await this.#taskIn(call, params)
    if (taskStatus(task.last) !== 'working')
      throw a2aError('TASK_NOT_CANCELABLE', `Task cannot be canceled: ${stateOf(task.last)}`)
    return this.#view(await this.#tasks.cancel(call, task), {})
  }

  async #subscribe(asked: Asked): Promise<Answer> {
    const task = await this.#taskIn(asked.call, asked.params)
    if (taskStatus(task.last) !== 'working')
      throw a2aError('UNSUPPORTED_OPERATION', `There is nothing to subscribe to: ${stateOf(task.last)}`)
    return this.#services.registry.streams.hold(asked.call.user.id, (place) => this.#open(asked, task, place))
  }

  async #pushConfig({ call, params }: Asked): Promise<Answer> {
    const all = await this.#configs.list(await this.#taskOfConfig(call, params))
    const config = all.find(({ id }) => id === params.id)
    if (!config) throw a2aError('TASK_NOT_FOUND', NO_CONFIG)
    return config
  }

  /** Of a task that has ended meanwhile too: its end is sent at once. */
  async #setPushConfig({ call, params }: Asked): Promise<Answer> {
    requirePermission(call, 'runs:create')
    const task = await this.#taskOfConfig(call, params)
    return this.#configs.put(call, task, pushConfigIn(params, 'params'))
  }

  async #deletePushConfig({ call, params }: Asked): Promise<Answer> {
    requirePermission(call, 'runs:create')
    const task = await this.#taskOfConfig(call, params)
    if (typeof params.id !== 'string' || !(await this.#configs.remove(task, params.id)))
      throw a2aError('TASK_NOT_FOUND', NO_CONFIG)
    return {}
  }

  #taskOfConfig(call: UserCall, { taskId }: JsonObject): Promise<Task> {
    return this.#taskIn(call, { id: taskId ?? null }, 'taskId')
  }

  async #pushConfigs({ call, params }: Asked): Promise<Answer> {
    const configs = await this.#configs.list(await this.#taskOfConfig(call, params))
    return { configs, nextPageToken: '' }
  }

  async #list({ call, params }: Asked): Promise<Answer> {
    const { contextId, historyLength, includeArtifacts } = params
    const { size, from } = pageIn(params)
    const isMeant = wantedIn(params)
    const length = lengthIn(historyLength)
    const runs = await this.#runsOf(typeof contextId === 'string' && contextId !== '' ? contextId : null)
    const all = (await this.#tasks.list(call, runs)).filter(({ last }) => isMeant(last)).sort(lastChangedFirst)
    const shown = all.slice(from, from + size)
    const tasks: JsonObject[] = []
    for (const task of shown)
      tasks.push(
        includeArtifacts === true
          ? await this.#view(task, { historyLength: historyLength ?? null })
          : taskView(task, task.runs, { historyLength: length, pieces: null })
      )
    const nextPageToken = from + size < all.length ? String(from + size) : ''
    return { tasks, nextPageToken, pageSize: size, totalSize: all.length }
  }

  /** Newest first. */
  async #runsOf(context: string | null): Promise<readonly Run[]> {
    const { store } = this.#services
    const { runs } = store
    if (context === null) return (await runs.begun(0, RUNS_MAX)).runs.toReversed()
    const threadId = await threadOf(store, context)
    return threadId === null ? [] : runs.list(threadId, { limit: RUNS_MAX, offset: 0 })
  }

  async #taskIn(call: UserCall, { id }: JsonObject, field = 'id'): Promise<Task> {
    if (typeof id !== 'string') throw new RpcError(INVALID_PARAMS, `${field} must be a text`)
    return this.#tasks.get(call, id)
  }

  async #view(task: Task, { historyLength }: JsonObject, configuration: JsonObject = {}): Promise<JsonObject> {
    const length = lengthIn(configuration.historyLength ?? historyLength)
    return taskView(task, task.runs, { historyLength: length, pieces: await this.#piecesOf(task) })
  }

  async #piecesOf({ runs }: Task): Promise<Piece[]> {
    const all: Piece[] = []
    for (const run of runs) all.push(...(await eventsOfRun(this.#services, run, pieces, { filter: PART_FILTER })))
    return all
  }

  /** The task as it stands, and what follows: both at one position of its log. */
  async #open({ call, wrap }: Asked, task: Task, place: Parameters<typeof openTask>[3]): Promise<typeof HANDLED> {
    const { first, last, runs } = task
    const before = await this.#piecesOf({ ...task, runs: runs.slice(0, -1) })
    const own = await eventsOfRun(this.#services, last, pieces, { filter: PART_FILTER })
    // One that has ended meanwhile is told so behind its end too: its end is the last piece.
    const shown = own.filter(({ type }) => type !== 'end')
    // The row may be older than the log.
    const isAtWork = last.status === 'pending' && shown.length > 0
    const now: Task = isAtWork ? { ...task, last: { ...last, status: 'running' } } : task
    const snapshot = taskView(now, runs, { pieces: [...before, ...shown] })
    const text = (event: JsonObject) => `data: ${JSON.stringify(wrap(event))}\n\n`
    const encode = (run: Run, piece: Piece): string => {
      const event = eventOf(first.run_id, run, piece)
      return event === null ? '' : text(event)
    }
    const opening = Buffer.from(text({ task: snapshot }))
    const view = { run: last, after: shown.at(-1)?.at ?? null, first: opening, encode, isLast: () => true }
    return openTask(this.#services, call, view, place)
  }
}

/** @throws RpcError for what is none */
function configurationIn({ configuration }: JsonObject): JsonObject {
  if (configuration === undefined || configuration === null) return {}
  if (!isObject(configuration)) throw new RpcError(INVALID_PARAMS, 'configuration must be an object')
  return configuration
}

/** @throws RpcError naming the field */
function pageIn({ pageSize, pageToken }: JsonObject): { readonly size: number; readonly from: number } {
  const isDefault = pageSize === undefined || pageSize === null || pageSize === '' || pageSize === 0
  const size = isDefault ? PAGE : Number(pageSize)
  if (!Number.isSafeInteger(size) || size < 1 || size > PAGE_MAX)
    throw new RpcError(INVALID_PARAMS, `pageSize must be a number from 1 to ${PAGE_MAX}`)
  const from = pageToken === undefined || pageToken === null || pageToken === '' ? 0 : Number(pageToken)
  if (!Number.isSafeInteger(from) || from < 0) throw new RpcError(INVALID_PARAMS, 'pageToken is none of ours')
  return { size, from }
}

/** Which tasks a list has, by the run that each has come to. @throws RpcError naming the field */
function wantedIn({ status, statusTimestampAfter }: JsonObject): (last: Run) => boolean {
  const isAny = [undefined, null, '', 0, 'TASK_STATE_UNSPECIFIED'].some((one) => one === status)
  if (!isAny && !TASK_STATES.includes(String(status)))
    throw new RpcError(INVALID_PARAMS, `status must be one of ${TASK_STATES.join(', ')}`)
  const isAlways = [undefined, null, ''].some((one) => one === statusTimestampAfter)
  const since = isAlways ? 0 : Date.parse(String(statusTimestampAfter))
  if (!Number.isFinite(since)) throw new RpcError(INVALID_PARAMS, 'statusTimestampAfter must be an ISO-8601 time')
  return (last) => (isAny || stateOf(last) === status) && Date.parse(last.updated_at) >= since
}

function lastChangedFirst(one: Task, other: Task): number {
  const ms = ({ last }: Task) => Date.parse(last.updated_at)
  return ms(other) - ms(one) || other.first.key - one.first.key
}

function lengthIn(given: Json | undefined): number | undefined {
  if (given === undefined || given === null || given === '') return undefined
  const length = Number(given)
  if (!Number.isSafeInteger(length) || length < 0) throw new RpcError(INVALID_PARAMS, 'historyLength must be a number')
  return length
}

/** The caller's thread of a context, which is its id or a text of the client's own; null: there is none, also where it is somebody else's id. */
async function threadOf({ threads, aliases }: Services['store'], context: string): Promise<string | null> {
  if (isId(context) && (await threads.get(context))) return context
  return (await aliases.get(CONTEXTS, context))?.thread_id ?? null
}
