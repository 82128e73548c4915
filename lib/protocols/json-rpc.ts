// JSON-RPC 2.0 as protocols over HTTP use it: a request read from a body, answers, and refusals in its form.
import type { IncomingMessage } from 'node:http'
import type { Failure } from '../base/errors.ts'
import type { ErrorForm } from '../http/dialect.ts'
import type { Call, Reply } from '../http/route.ts'
import { isObject, type Json, type JsonObject } from '../base/types.ts'

const PARSE_ERROR = -32700
export const INVALID_REQUEST = -32600
export const METHOD_NOT_FOUND = -32601
export const INVALID_PARAMS = -32602
export const INTERNAL_ERROR = -32603
/** A refusal of the server's own, as of a limit. */
export const REFUSED = -32000

export type RpcId = string | number
/** An id as text is repeated in everything that belongs to its request. */
const ID_LENGTH_MAX = 256

/** An error of the protocol, for the one who has asked. */
export class RpcError extends Error {
  readonly code: number
  readonly data: Json | undefined
  /** Of the answer that bears it. */
  readonly status: number

  constructor(code: number, message: string, { data, status = 200 }: { data?: Json; status?: number } = {}) {
    super(message)
    this.name = 'RpcError'
    this.code = code
    this.data = data
    this.status = status
  }
}

export interface RpcRequest {
  readonly method: string
  /** null: a notification. */
  readonly id: RpcId | null
  readonly params: JsonObject
}

/** Ids of requests that have been read: refusals of what a handler calls bear them too. */
const ids = new WeakMap<IncomingMessage, RpcId>()

/** @throws RpcError for what is no request */
export function requestIn({ req, body }: Pick<Call<JsonObject>, 'req' | 'body'>): RpcRequest {
  const { jsonrpc, method, id, params } = body
  if (isRpcId(id)) ids.set(req, id)
  const refuse = (what: string) => new RpcError(INVALID_REQUEST, `Invalid Request: ${what}`, { status: 400 })
  if (jsonrpc !== '2.0') throw refuse('jsonrpc must be "2.0"')
  if (typeof method !== 'string' || method.length > 128) throw refuse('method must be a short text')
  if (id !== undefined && !isRpcId(id)) throw refuse('id must be a number or a short text')
  if (params !== undefined && !isObject(params)) throw new RpcError(INVALID_PARAMS, 'params must be an object')
  return { method, id: id ?? null, params: params ?? {} }
}

export function isRpcId(id: Json | undefined): id is RpcId {
  return typeof id === 'string' ? id.length <= ID_LENGTH_MAX : typeof id === 'number' && Number.isFinite(id)
}

export function success(id: RpcId | null, result: object): Reply {
  return { json: { jsonrpc: '2.0', id, result } }
}

export function failure(id: RpcId | null, { code, message, data, status }: RpcError): Reply {
  return { status, json: errorJson(id, code, message, data) }
}

/** @param codeOf the protocol's own code for a refusal; null: the general one */
export function rpcErrors(codeOf: (refused: Failure) => number | null): ErrorForm {
  return (refused, req) => {
    const { code, message, status, headers, detail } = refused
    const isJson = code !== 'invalid' || !Array.isArray(detail) || detail.every(({ type }) => type !== 'json_invalid')
    const own = codeOf(refused) ?? (status === 422 || status === 413 ? INVALID_REQUEST : REFUSED)
    return {
      status: status === 422 ? 400 : status,
      headers: status === 401 ? { ...headers, 'WWW-Authenticate': 'Bearer' } : headers,
      json: errorJson(
        ids.get(req) ?? null,
        isJson ? own : PARSE_ERROR,
        isJson ? message : 'Parse error: the body is no JSON'
      )
    }
  }
}

function errorJson(id: RpcId | null, code: number, message: string, data?: Json): JsonObject {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data !== undefined && { data }) } }
}
