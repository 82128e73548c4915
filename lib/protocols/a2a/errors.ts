// Errors of Agent2Agent (A2A): one table, and their forms on both bindings, of refusals before a handler too.
import type { Failure } from '../../base/errors.ts'
import type { ErrorForm } from '../../http/dialect.ts'
import type { Reply } from '../../http/route.ts'
import type { JsonObject } from '../../base/types.ts'
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, rpcErrors } from '../json-rpc.ts'

/** By reason: the code of JSON-RPC. */
const CODES = {
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  PUSH_NOTIFICATION_NOT_SUPPORTED: -32003,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: -32007,
  VERSION_NOT_SUPPORTED: -32009
} as const
type Reason = keyof typeof CODES

/** The gRPC names of statuses, in which errors over HTTP are told. */
const NAMES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE'
}

export function a2aError(reason: Reason, message: string): RpcError {
  return new RpcError(CODES[reason], message, { data: [infoOf(reason)] })
}

function infoOf(reason: string): JsonObject {
  return { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-protocol.org' }
}

/** What a handler was refused, in the protocol's words; null: it is of the server's state. */
export function errorFor({ code, status, message }: Failure): RpcError | null {
  if (code === 'run_not_found') return a2aError('TASK_NOT_FOUND', message)
  if (code === 'run_not_cancellable') return a2aError('TASK_NOT_CANCELABLE', message)
  if (code === 'input_not_taken' || code === 'changed_meanwhile') return a2aError('UNSUPPORTED_OPERATION', message)
  if (code === 'idempotency_conflict') return new RpcError(INVALID_PARAMS, message, { status })
  if (status >= 500 || [401, 403, 429].includes(status)) return null
  return new RpcError(INVALID_PARAMS, message)
}

/** Refusals of the JSON-RPC binding. */
export const rpcForm: ErrorForm = rpcErrors((_refused) => null)

/** Refusals of the HTTP+JSON binding. */
export const restForm: ErrorForm = (refused) => {
  const status = refused.status === 422 ? 400 : refused.status
  return { status, headers: refused.headers, json: restJson(status, refused.message, []) }
}

/** The same of the cards, which lie elsewhere: the router tells doors apart by it. */
export const cardForm: ErrorForm = (refused, req) => restForm(refused, req)

/** An error of a handler on the HTTP+JSON binding. */
export function restFailure({ code, message, data, status }: RpcError): Reply {
  const at = status === 200 ? restStatus(code) : status
  return { status: at, json: restJson(at, message, Array.isArray(data) ? data : []) }
}

function restStatus(code: number): number {
  if (code === CODES.TASK_NOT_FOUND || code === METHOD_NOT_FOUND) return 404
  return code === INTERNAL_ERROR ? 500 : 400
}

function restJson(code: number, message: string, details: readonly unknown[]): object {
  const isPrecondition = details.length > 0 && code === 400
  const name = isPrecondition ? 'FAILED_PRECONDITION' : (NAMES[code] ?? (code >= 500 ? 'INTERNAL' : 'UNKNOWN'))
  return { error: { code, status: name, message, details } }
}
