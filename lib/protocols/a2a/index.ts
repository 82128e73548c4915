// Agent2Agent (A2A) 1.0: public cards, and the same methods over JSON-RPC and over HTTP+JSON.
import { fail } from '../../base/errors.ts'
import { type Call, HANDLED, type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { searchParams } from '../../http/request.ts'
import { jsonObject } from '../../http/schema.ts'
import { anEvent, anObject, anything, arrayOf, oneOf, openly, text as string } from '../../routes/answers.ts'
import type { Services } from '../../routes/services.ts'
import type { JsonObject } from '../../base/types.ts'
import { throughDoor } from '../door.ts'
import { failure, INVALID_REQUEST, isRpcId, RpcError, type RpcId, requestIn, success } from '../json-rpc.ts'
import { cardOf, PROTOCOL_VERSION } from './card.ts'
import { a2aError, cardForm, restFailure, restForm, rpcForm } from './errors.ts'
import { A2aMethods } from './methods.ts'

const PART = 'a2a'
const ACTIONS: Readonly<Record<string, string>> = { cancel: 'CancelTask', subscribe: 'SubscribeToTask' }

export function a2aRoutes(services: Services): Route[] {
  const { assistants, config } = services
  const methods = new A2aMethods(services)

  // --------------------------------------------------------------------------------------------------- cards

  const card = async (call: Call<unknown, unknown>): Promise<Reply> => {
    const { agent } = call.params
    const [first] = await assistants.system(null)
    const shown = agent === undefined ? first : assistants.systemNamed(agent)
    if (!shown || !config.a2a.public_card) throw fail('not_found')
    return {
      json: cardOf(call as Call, shown, config.server.public_url),
      headers: { 'Cache-Control': 'public, max-age=300' }
    }
  }

  // ------------------------------------------------------------------------------------------------ JSON-RPC

  const rpc = async (call: UserCall<JsonObject>): Promise<Reply | typeof HANDLED> => {
    let id: RpcId | null = null
    try {
      checkVersion(call)
      const request = requestIn(call)
      id = request.id
      if (id === null) throw new RpcError(INVALID_REQUEST, 'Invalid Request: it has no id')
      const wrap = (result: JsonObject): JsonObject => ({ jsonrpc: '2.0', id, result })
      const { agent = '' } = call.params
      const answer = await methods.call(request.method, { call, agent, params: request.params, wrap })
      return answer === HANDLED ? HANDLED : success(id, answer)
    } catch (error) {
      // Behind the head of an answer that has waited there is no other answer: it is reset.
      if (!(error instanceof RpcError) || call.res.headersSent) throw error
      return failure(isRpcId(call.body.id) ? call.body.id : null, error)
    }
  }

  // ------------------------------------------------------------------------------------------------ HTTP+JSON

  const rest = async (call: UserCall, method: string, params: JsonObject): Promise<Reply | typeof HANDLED> => {
    try {
      checkVersion(call)
      const answer = await methods.call(method, {
        call,
        agent: call.params.agent ?? '',
        params,
        wrap: (event) => event
      })
      return answer === HANDLED ? HANDLED : { json: answer }
    } catch (error) {
      if (error instanceof RpcError && !call.res.headersSent) return restFailure(error)
      throw error
    }
  }

  const onTask = (call: UserCall): Promise<Reply | typeof HANDLED> => {
    const [, id = '', action = ''] = /^(.*):([a-z]+)$/.exec(call.params.task ?? '') ?? []
    const method = Object.hasOwn(ACTIONS, action) ? ACTIONS[action]! : ''
    return rest(call, method, { id })
  }

  const asked = (call: UserCall): JsonObject => {
    const { historyLength, pageSize, includeArtifacts, ...texts }: Record<string, string> = Object.fromEntries(
      searchParams(call)
    )
    return {
      ...texts,
      ...(historyLength !== undefined && { historyLength: Number(historyLength) }),
      ...(pageSize !== undefined && { pageSize: Number(pageSize) }),
      ...(includeArtifacts !== undefined && { includeArtifacts: includeArtifacts === 'true' })
    }
  }

  const agent = '/a2a/{agent}'
  const cards = (path: string, whose: string) =>
    route({
      method: 'GET',
      path,
      access: 'public',
      rule: null,
      summary: `The card of ${whose}, for Agent2Agent`,
      answers: { 200: { schema: openly({ name: string, version: string, skills: arrayOf(anObject) }) } },
      refusals: [401, 404],
      handler: card
    })
  const common = { permission: 'runs:read', rule: null } as const
  const sending = { ...common, method: 'POST', body: jsonObject, bodyLimit: config.server.body_bytes } as const
  const answered = openly({ jsonrpc: oneOf('2.0') }, { id: anything, result: anything, error: anObject })
  const either = { 200: { schema: answered, also: { 'text/event-stream': anEvent } } }
  /** A task, tasks, or a message: named by its member. */
  const one = {
    200: { schema: openly({}, { id: string, task: anObject, message: anObject, tasks: arrayOf(anObject) }) }
  }
  const aConfig = openly({ id: string, taskId: string, url: string })
  const configIn = ({ params }: UserCall): JsonObject => ({ taskId: params.task ?? '', id: params.config ?? '' })
  return [
    ...throughDoor({ errors: rpcForm, part: PART }, [
      route({
        ...sending,
        path: agent,
        isStream: true,
        summary: 'Agent2Agent 1.0 over JSON-RPC: messages to an assistant, and the tasks that they become',
        answers: either,
        refusals: [404, 429],
        handler: rpc
      })
    ]),
    ...throughDoor({ errors: cardForm, part: PART }, [
      cards('/.well-known/agent-card.json', 'the first assistant'),
      cards(`${agent}/.well-known/agent-card.json`, 'an assistant')
    ]),
    ...throughDoor({ errors: restForm, part: PART }, [
      route({
        ...sending,
        path: `${agent}/message:send`,
        isStream: true,
        summary: 'Agent2Agent: send a message, and wait for its task',
        answers: one,
        refusals: [404, 429],
        handler: (call) => rest(call, 'SendMessage', call.body)
      }),
      route({
        ...sending,
        path: `${agent}/message:stream`,
        isStream: true,
        summary: 'Agent2Agent: send a message, and stream its task',
        answers: { 200: { type: 'text/event-stream', schema: anEvent } },
        refusals: [404, 429],
        handler: (call) => rest(call, 'SendStreamingMessage', call.body)
      }),
      route({
        ...common,
        method: 'GET',
        path: `${agent}/tasks`,
        summary: 'Agent2Agent: the caller’s tasks, last changed first',
        answers: one,
        refusals: [404],
        reads: {
          query: {
            contextId: 'Of this context',
            status: 'In this state',
            statusTimestampAfter: 'In it since then, or later',
            pageToken: 'The page behind another'
          }
        },
        handler: (call) => rest(call, 'ListTasks', asked(call))
      }),
      route({
        ...common,
        method: 'GET',
        path: `${agent}/tasks/{task}`,
        summary: 'Agent2Agent: a task as it stands',
        answers: one,
        refusals: [404],
        handler: (call) => rest(call, 'GetTask', { ...asked(call), id: call.params.task ?? '' })
      }),
      route({
        ...common,
        method: 'GET',
        path: `${agent}/tasks/{task}/pushNotificationConfigs`,
        summary: 'Agent2Agent: where a task is told of',
        answers: one,
        refusals: [404],
        handler: (call) => rest(call, 'ListTaskPushNotificationConfigs', { taskId: call.params.task ?? '' })
      }),
      route({
        ...sending,
        permission: 'runs:create',
        path: `${agent}/tasks/{task}/pushNotificationConfigs`,
        summary: 'Agent2Agent: tell another address of a task, or replace one by its id',
        answers: { 201: { schema: aConfig } },
        refusals: [404, 429],
        handler: async (call) => {
          const given = { ...call.body, taskId: call.params.task ?? '' }
          return created(await rest(call, 'CreateTaskPushNotificationConfig', given))
        }
      }),
      route({
        ...common,
        method: 'GET',
        path: `${agent}/tasks/{task}/pushNotificationConfigs/{config}`,
        summary: 'Agent2Agent: an address that is told of a task',
        answers: { 200: { schema: aConfig } },
        refusals: [404],
        handler: (call) => rest(call, 'GetTaskPushNotificationConfig', configIn(call))
      }),
      route({
        ...common,
        permission: 'runs:create',
        method: 'DELETE',
        path: `${agent}/tasks/{task}/pushNotificationConfigs/{config}`,
        summary: 'Agent2Agent: tell an address no more',
        answers: { 204: null },
        refusals: [404],
        handler: async (call) => removed(await rest(call, 'DeleteTaskPushNotificationConfig', configIn(call)))
      }),
      route({
        ...common,
        method: 'POST',
        path: `${agent}/tasks/{task}`,
        isStream: true,
        summary: 'Agent2Agent: `{id}:cancel` cancels a task, `{id}:subscribe` streams it',
        answers: either,
        refusals: [404, 429],
        handler: onTask
      })
    ])
  ]
}

type Answered = Reply | typeof HANDLED

/** What has no status of its own yet was not refused. */
function created(answer: Answered): Answered {
  return 'taken' in answer || answer.status !== undefined ? answer : { ...answer, status: 201 }
}

function removed(answer: Answered): Answered {
  return 'taken' in answer || answer.status !== undefined ? answer : { status: 204 }
}

/** The methods of 1.0 have names that no earlier version has, so a client need not say it. @throws RpcError */
function checkVersion({ req }: Call): void {
  const named = req.headers['a2a-version']
  if (named === undefined || named === '' || named === PROTOCOL_VERSION) return
  throw a2aError(
    'VERSION_NOT_SUPPORTED',
    `Version ${String(named).slice(0, 32)} is not supported: ${PROTOCOL_VERSION} is`
  )
}
