// The Model Context Protocol (MCP) over Streamable HTTP: every assistant is a tool. A stream's events bear ids, and it is resumed
// exactly, here or on another process, in both revisions.
import { type Failure, fail } from '../../base/errors.ts'
import { type HANDLED, type Reply, type Route, route, type UserCall } from '../../http/route.ts'
import { jsonObject } from '../../http/schema.ts'
import { anEvent, anObject, anything, oneOf, openly } from '../../routes/answers.ts'
import type { Services } from '../../routes/services.ts'
import { isObject, type JsonObject } from '../../base/types.ts'
import { throughDoor } from '../door.ts'
import { failure, INVALID_PARAMS, isRpcId, REFUSED, RpcError, requestIn, rpcErrors } from '../json-rpc.ts'
import { eventIn, questionIn } from './ids.ts'
import { McpMethods } from './methods.ts'
import { speakerOf } from './session.ts'

/** One function: the router tells doors apart by it. */
const errors = rpcErrors((_refused: Failure) => null)
const TAKEN: Reply = { status: 202 }

export function mcpRoutes(services: Services): Route[] {
  const methods = new McpMethods(services)

  const asked = async (call: UserCall<JsonObject>): Promise<Reply | typeof HANDLED> => {
    const request = requestIn(call)
    const { method, id, params } = request
    const speaker = speakerOf(call.req.headers, request)
    if (id !== null) return methods.call(method, { call, id, params, speaker })
    if (method === 'notifications/cancelled') await methods.cancelled(call, speaker, params)
    return TAKEN
  }

  /** An answer to what a client was asked. It may have been none that it could show. */
  const answered = async (call: UserCall, { id, result }: JsonObject): Promise<Reply> => {
    const run = questionIn(id)
    if (run === null) throw new RpcError(INVALID_PARAMS, 'This answers no question of ours', { status: 400 })
    await methods.answered(call, run, result)
    return TAKEN
  }

  const post = async (call: UserCall<JsonObject>): Promise<Reply | typeof HANDLED> => {
    const { method, id, result, error } = call.body
    try {
      const isAnswer = method === undefined && (isObject(result) || isObject(error))
      return isAnswer ? await answered(call, call.body) : await asked(call)
    } catch (refused) {
      if (refused instanceof RpcError) return failure(isRpcId(id) ? id : null, refused)
      throw refused
    }
  }

  /** A stream that nobody has begun has nothing to say: clients take a 405 for that. */
  const resume = async (call: UserCall): Promise<Reply | typeof HANDLED> => {
    const given = call.req.headers['last-event-id']
    if (typeof given !== 'string') throw fail('method_not_allowed', null, { Allow: 'POST' })
    const event = eventIn(given)
    if (!event) return failure(null, new RpcError(REFUSED, 'Last-Event-ID is none of ours', { status: 400 }))
    return methods.resume(call, event)
  }

  const refused = openly({ jsonrpc: oneOf('2.0'), error: anObject }, { id: anything })
  const rpcAnswer = openly({ jsonrpc: oneOf('2.0') }, { id: anything, result: anything, error: anObject })
  const stream = { 200: { type: 'text/event-stream', schema: anEvent, also: { 'application/json': rpcAnswer } } }
  return throughDoor({ errors, part: 'mcp-protocol' }, [
    route({
      method: 'POST',
      path: '/mcp',
      permission: 'runs:read',
      // Rules are asked about what a method does.
      rule: null,
      isStream: true,
      body: jsonObject,
      bodyLimit: services.config.server.body_bytes,
      summary: 'The Model Context Protocol: assistants as tools, with progress, questions and tasks',
      answers: { ...stream, 202: null },
      refusals: [404, 429],
      handler: post
    }),
    route({
      method: 'GET',
      path: '/mcp',
      permission: 'runs:read',
      rule: null,
      isStream: true,
      summary: 'Resume a stream of the Model Context Protocol',
      answers: {
        200: { type: 'text/event-stream', schema: anEvent },
        405: { description: 'Without a position', schema: refused }
      },
      reads: { headers: { 'Last-Event-ID': 'Resume after this event; without it nothing is streamed' } },
      refusals: [400, 404, 429],
      handler: resume
    })
  ])
}
