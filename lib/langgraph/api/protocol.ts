// LangGraph's protocol v2 on a thread: commands, and events as an event stream or over a WebSocket.
import * as v from 'valibot'
import { Failure, fail } from '../../base/errors.ts'
import {
  type Call,
  HANDLED,
  type Reply,
  requirePermission,
  type Route,
  route,
  type UserCall
} from '../../http/route.ts'
import { parseJson } from '../../http/body.ts'
import { check, integer, jsonObject, objectOf } from '../../http/schema.ts'
import { acceptWebSocket, type TextSocket } from '../../http/web-socket.ts'
import { sseEncoding } from '../protocol/encoding.ts'
import { epochIn, frameAt, seqIn, seqOf } from '../protocol/event.ts'
import { EventFeed } from '../protocol/feed.ts'
import { replayedEvents } from '../protocol/replay.ts'
import {
  type Answer,
  type Command,
  type ErrorCode,
  errorAnswer,
  ProtocolSocket,
  successAnswer
} from '../protocol/socket.ts'
import { type Since, type SubscriptionParams, subscriptionFields } from '../protocol/subscription.ts'
import { treeOf } from '../protocol/tree.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'
import { HEARTBEAT } from '../../run/log/frame.ts'
import { asUser } from '../../base/scope.ts'
import { isDelayed, isInFlight, isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { throughDoor } from '../../protocols/door.ts'
import { newestRuns } from '../../protocols/threads.ts'
import { LANGGRAPH } from './dialect.ts'
import { anObject, int, one, oneOf, shaped, text as string } from '../../routes/answers.ts'
import { Authorizer } from '../../routes/authorization.ts'
import { openEvents, positionText, readerOf } from '../../routes/join-request.ts'
import { runOf } from '../../routes/run-view.ts'
import { callerIn, checkStrategy, orderFor, runBody } from '../../routes/run-request.ts'
import type { Services } from '../../routes/services.ts'

const commandBody = objectOf({
  id: integer({ min: 0 }),
  method: v.pipe(v.string(), v.maxLength(64)),
  params: v.nullish(jsonObject)
})
const eventsBody = objectOf(subscriptionFields)

/** Stream modes that the protocol's channels need. */
const MODES = ['values', 'updates', 'messages-tuple', 'custom', 'tasks', 'tools']
const STRATEGIES = ['reject', 'interrupt', 'rollback', 'enqueue']

export function protocolRoutes(services: Services): Route[] {
  const { config, store, registry, runs, states, policy, log } = services

  // ------------------------------------------------------------------------------------------------ commands

  const meta = (call: Call, run: Run | null): JsonObject => ({
    thread_id: call.params.thread_id!,
    applied_through_seq: run && !isDelayed(run) ? seqOf(run.ordinal, 0, 0) - 1 : 0
  })

  /** @param namespace of a subgraph, as checkpoints have it; '': the graph itself */
  const stateOf = async (threadId: string, namespace = ''): Promise<JsonObject> =>
    JSON.parse((await states.get(threadId, { checkpointId: null, namespace }, true)) ?? '{}') as JsonObject

  const pendingInterrupts = async (threadId: string): Promise<string[]> => {
    const { tasks } = await stateOf(threadId)
    return Array.isArray(tasks) ? tasks.filter(isObject).flatMap(({ interrupts }) => idsIn(interrupts ?? null)) : []
  }

  /** What the thread waits for, and the run that has asked it; null: for nothing, or its answer is on the way. */
  const questionOf = async (threadId: string): Promise<Question | null> => {
    const [asking = null] = await newestRuns(services, threadId)
    if (asking && isInFlight(asking)) return null
    const ids = await pendingInterrupts(threadId)
    return ids.length > 0 ? { ids, asking } : null
  }

  /** @param key however often a run is begun with it, there is one */
  const start = async (call: UserCall, asked: JsonObject, key: string | null = null): Promise<Run> => {
    requirePermission(call, 'runs:create')
    checkStrategy(call, asked.multitask_strategy)
    const threadId = call.params.thread_id!
    const ours = { stream_mode: MODES, on_disconnect: 'continue', stream_subgraphs: true }
    const given = check(runBody, { ...asked, ...ours }, 'body')
    const body = policy ? await new Authorizer(services, policy.askFor(call)).run(given, threadId) : given
    const request = { threadId, caller: callerIn(services, call), body, key, path: call.path }
    const headers = services.configurableHeaders.of(call)
    const order = await orderFor(services, { ...request, dialect: LANGGRAPH, headers })
    if (await store.threads.get(threadId)) return runs.start(threadId, order)
    // Clients choose the thread id, and the first run creates the thread.
    const [assistantId, metadata] = [String(asked.assistant_id), body.metadata ?? {}]
    return runs.startStateless({ ...order, threadId, assistantId, metadata })
  }

  const strategyIn = ({ multitask_strategy, multitaskStrategy }: JsonObject): string => {
    const given = [multitask_strategy, multitaskStrategy].find((one) => STRATEGIES.includes(String(one)))
    return given === undefined ? 'enqueue' : String(given)
  }

  const common = ({ config: given, metadata }: JsonObject): JsonObject => ({
    ...(isObject(given) && { config: given }),
    ...(isObject(metadata) && { metadata })
  })

  /** Of several answers at once one is given. null: another one was. */
  const answer = (call: UserCall, { asking }: Question, asked: JsonObject): Promise<Run | null> =>
    start(call, asked, asking && `answer ${asking.run_id}`).catch((error: unknown) => {
      if (error instanceof Failure && error.code === 'idempotency_conflict') return null
      throw error
    })

  /** While an interrupt is open, the input is the answer to it. */
  const runStart = async (call: UserCall, { id, params }: Command): Promise<Answer> => {
    const { assistant_id, input = null } = params
    if (typeof assistant_id !== 'string' || assistant_id === '')
      return errorAnswer(id, 'invalid_argument', 'run.start requires an assistant_id.')
    const asked: JsonObject = { assistant_id, ...common(params), multitask_strategy: strategyIn(params) }
    const question = input === null ? null : await questionOf(call.params.thread_id!)
    const answered = question && (await answer(call, question, { ...asked, command: { resume: input } }))
    const run = answered ?? (await start(call, { ...asked, input }))
    return successAnswer(id, { run_id: run.run_id }, meta(call, run))
  }

  const inputRespond = async (call: UserCall, { id, params }: Command): Promise<Answer> => {
    const threadId = call.params.thread_id!
    const responses = responsesIn(params)
    if (!responses) return errorAnswer(id, 'invalid_argument', 'input.respond requires an interrupt_id.')
    const [last] = await newestRuns(services, threadId)
    if (!last) return errorAnswer(id, 'no_such_run', 'No interrupted run is bound to this thread.')
    const none = errorAnswer(id, 'invalid_argument', 'input.respond can only be used while the run is interrupted.')
    const question = await questionOf(threadId)
    if (!question) return none
    const { ids: pending } = question
    const unknown = Object.keys(responses).find((name) => !pending.includes(name))
    if (unknown !== undefined)
      return errorAnswer(id, 'no_such_interrupt', `There is no open interrupt ${unknown.slice(0, 100)}.`)
    const { update, goto } = params
    // A single open interrupt needs no id.
    const resume = pending.length === 1 ? Object.values(responses)[0]! : responses
    const command = { resume, ...(update !== undefined && { update }), ...(goto !== undefined && { goto }) }
    const assistant_id = last.assistant_id ?? 'lead_agent'
    const asked = { assistant_id, command, ...common(params), multitask_strategy: 'enqueue' }
    const run = await answer(call, question, asked)
    return run ? successAnswer(id, {}, meta(call, run)) : none
  }

  const stateGet = async (call: UserCall, { id, params }: Command): Promise<Answer> => {
    requirePermission(call, 'threads:read')
    const { keys, namespace = [] } = params
    if (!isTexts(namespace)) return errorAnswer(id, 'invalid_argument', 'A namespace is a list of texts.')
    const { values: given, checkpoint: at } = await stateOf(call.params.thread_id!, namespace.join('|'))
    if (namespace.length > 0 && !isObject(at))
      return errorAnswer(id, 'no_such_namespace', 'There is no state of this namespace.')
    const all = isObject(given) ? given : {}
    const values = Array.isArray(keys)
      ? Object.fromEntries(Object.entries(all).filter(([key]) => keys.includes(key)))
      : all
    const checkpoint = isObject(at) && { checkpoint: { id: at.checkpoint_id ?? null, ns: at.checkpoint_ns ?? '' } }
    return successAnswer(id, { values, ...checkpoint }, meta(call, await newest(call)))
  }

  const newest = async (call: UserCall): Promise<Run | null> => {
    const [run] = await newestRuns(services, call.params.thread_id!)
    return run ?? null
  }

  const getTree = async (call: UserCall, { id, params }: Command): Promise<Answer> => {
    const { run_id } = params
    const asked = typeof run_id === 'string' && { params: { ...call.params, run_id } }
    const run = asked ? await runOf(services, asked) : await newest(call)
    if (!run) return errorAnswer(id, 'no_such_run', 'No active run is bound to this thread.')
    const tree = await treeOf(run, await registry.readers.logOf(run))
    return successAnswer(id, { tree }, meta(call, run))
  }

  const methods: Readonly<Record<string, (call: UserCall, command: Command) => Promise<Answer>>> = {
    'run.start': runStart,
    'input.respond': inputRespond,
    'state.get': stateGet,
    'agent.getTree': getTree
  }

  const execute = async (call: UserCall, command: Command): Promise<Answer> => {
    const { id, method } = command
    const known = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (known) return known(call, command)
    if (NOT_SUPPORTED.includes(method)) return errorAnswer(id, 'not_supported', `${method} is not supported here.`)
    return errorAnswer(id, 'unknown_command', `Unknown protocol command: ${method.slice(0, 100)}`)
  }

  /** Temporary failures keep their HTTP status, with Retry-After; all others are answers of the protocol. */
  const command = async (call: UserCall<v.InferOutput<typeof commandBody>>): Promise<Reply> => {
    const { id, method, params } = call.body
    try {
      return { json: await execute(call, { id, method, params: params ?? {} }) }
    } catch (error) {
      if (!(error instanceof Failure) || error.status === 429 || error.status >= 500) throw error
      return { json: errorAnswer(id, codeOf(error), error.message) }
    }
  }

  /** On a WebSocket every failure is an answer, and access is checked again for each command. */
  const commandOnSocket = async (call: UserCall, asked: Command, line: TextSocket): Promise<Answer> => {
    const id = call.params.thread_id!
    try {
      if (!(await readerOf(services, call).isValid?.())) {
        line.reset('revoked')
        throw fail('not_authenticated')
      }
      // The owner of the thread may have changed since the socket was opened.
      const owner = await store.threads.ownerOf(id)
      if (owner !== undefined && owner !== null && owner !== call.user.id) throw fail('thread_not_found', { id })
      return await asUser(call.user.id, async () => {
        if (policy) await new Authorizer(services, policy.askFor(call)).thread('read', id)
        return execute(call, asked)
      })
    } catch (error) {
      if (error instanceof Failure) return errorAnswer(asked.id, codeOf(error), error.message)
      log.error({ err: error, thread_id: id }, 'a protocol command failed')
      return errorAnswer(asked.id, 'unknown_error', 'Internal Server Error')
    }
  }

  // -------------------------------------------------------------------------------------------------- events

  const sinceOf = (call: Call, { since }: SubscriptionParams): Since | null => {
    const text = positionText(call) ?? ''
    const seq = seqIn(text)
    if (seq !== null) return { seq, epoch: epochIn(text) }
    return since?.seq ? since : null
  }

  const events = (call: UserCall<SubscriptionParams>): Promise<typeof HANDLED> =>
    registry.streams.hold(call.user.id, async (place) => {
      const since = sinceOf(call, call.body)
      const subscriptions = new Subscriptions()
      subscriptions.add('', call.body, -1, since)
      const joiner = registry.readers.joinThread(
        call.params.thread_id!,
        {
          writer: openEvents(services, call),
          reader: readerOf(services, call),
          heartbeat: HEARTBEAT,
          after: since ? frameAt(since.seq).ordinal - 1 : 0,
          feed: (run, runLog) => {
            subscriptions.onLog(run, runLog)
            return new EventFeed(run, runLog, sseEncoding, (seq) => subscriptions.selectionAfter(seq))
          }
        },
        place
      )
      joiner.pump()
      return HANDLED
    })

  const socket = (call: UserCall): Promise<typeof HANDLED> =>
    registry.streams.hold(call.user.id, async (place) => {
      const threadId = call.params.thread_id!
      const line = acceptWebSocket(call, { maxBytes: config.server.body_bytes })
      new ProtocolSocket(line, {
        threadId,
        reader: readerOf(services, call),
        share: call.share,
        join: (request) => registry.readers.joinThread(threadId, request, place),
        replayed: (params) => replayedEvents(registry.readers.runsOf(threadId, call.user.id), params),
        command: (asked) => commandOnSocket(call, asked, line),
        parse: (text) => parseJson(Buffer.from(text))
      })
      return HANDLED
    })

  const thread = '/api/threads/{thread_id}'
  const path = `${thread}/stream/events`
  const bodyLimit = config.server.body_bytes
  // It starts runs, and shows them.
  const on = { permission: 'runs:read', thread: 'read', rule: 'threads:read' } as const
  const result = { id: int, result: anObject, error: string, message: string }
  return throughDoor({ errors: 'contract', part: 'runs' }, [
    route({
      ...on,
      method: 'POST',
      path: `${thread}/commands`,
      body: commandBody,
      bodyLimit,
      summary: 'A command of LangGraph’s protocol v2; errors of the protocol have status 200',
      answers: one(shaped({ type: oneOf('success', 'error') }, result)),
      handler: command
    }),
    route({
      ...on,
      method: 'POST',
      path,
      isStream: true,
      body: eventsBody,
      summary: 'All events of a thread in LangGraph’s protocol v2, past ones first',
      answers: { 200: { type: 'text/event-stream', schema: string } },
      reads: { headers: { 'Last-Event-ID': 'Resume after this event' } },
      handler: events
    }),
    route({
      ...on,
      method: 'GET',
      path,
      isStream: true,
      summary: 'The same over a WebSocket, with commands and subscriptions',
      answers: { 101: null },
      refusals: [426, 429],
      handler: socket
    })
  ])
}

interface Question {
  readonly ids: readonly string[]
  /** null: the thread is a copy, and the run is another's. */
  readonly asking: Run | null
}

const NOT_SUPPORTED = ['state.listCheckpoints', 'state.fork', 'input.inject', 'subscription.reconnect']

function isTexts(value: Json): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string')
}

function idsIn(interrupts: Json): string[] {
  const list = Array.isArray(interrupts) ? interrupts.filter(isObject) : []
  return list.flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
}

/** Responses by interrupt id; null: invalid. */
function responsesIn({ responses, interrupt_id, response = null }: JsonObject): Record<string, Json> | null {
  if (!Array.isArray(responses)) return typeof interrupt_id === 'string' ? { [interrupt_id]: response } : null
  const entries = responses.map((one) =>
    isObject(one) && typeof one.interrupt_id === 'string' ? ([one.interrupt_id, one.response ?? null] as const) : null
  )
  const isWhole = entries.length > 0 && entries.every((one) => one !== null)
  return isWhole ? Object.fromEntries(entries.filter((one) => one !== null)) : null
}

function codeOf({ status, code }: Failure): ErrorCode {
  if (status === 401 || status === 403) return 'permission_denied'
  if (code === 'run_not_found' || code === 'thread_not_found') return 'no_such_run'
  return status < 500 && status !== 429 ? 'invalid_argument' : 'unknown_error'
}
