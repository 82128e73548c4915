// Which revision of the Model Context Protocol (MCP) a request speaks, and what its client can do: of 2025-11-25 and before by the
// handshake's session, of 2026-07-28 by each request itself.
import type { IncomingHttpHeaders } from 'node:http'
import { isObject, type JsonObject } from '../../base/types.ts'
import { INVALID_PARAMS, RpcError, type RpcRequest } from '../json-rpc.ts'
import { canAsk, HANDSHAKE_VERSIONS, sessionIn, STATELESS_VERSION, VERSIONS } from './ids.ts'

export interface Speaker {
  readonly isStateless: boolean
  readonly canAsk: boolean
  /** null: it has none. */
  readonly session: string | null
}

const PREFIX = 'io.modelcontextprotocol/'
const HEADER_MISMATCH = -32020
const UNSUPPORTED_VERSION = -32022
const SESSION_NOT_FOUND = -32001

/** Which member a header repeats, so that proxies can read it. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId'
}

/** @throws RpcError for another revision, or headers and a body that disagree */
export function speakerOf(headers: IncomingHttpHeaders, request: RpcRequest): Speaker {
  const { _meta } = request.params
  const meta = isObject(_meta) ? _meta : {}
  const claimed = meta[`${PREFIX}protocolVersion`]
  const named = headers['mcp-protocol-version']
  if (claimed !== undefined) return stateless(headers, request, meta)
  const isNotice = request.id === null
  if (named === STATELESS_VERSION && !isNotice)
    throw refuse(INVALID_PARAMS, `params._meta lacks ${PREFIX}protocolVersion`)
  if (typeof named === 'string' && !VERSIONS.includes(named)) throw unsupported(named)
  // A client that comes anew may still send the session that it has lost.
  if (request.method === 'initialize') return { isStateless: false, canAsk: false, session: null }
  const id = headers['mcp-session-id']
  if (typeof id !== 'string') return { isStateless: named === STATELESS_VERSION, canAsk: false, session: null }
  const session = sessionIn(id)
  if (!session) throw new RpcError(SESSION_NOT_FOUND, 'Session not found', { status: 404 })
  return { isStateless: false, canAsk: session.canAsk, session: session.id }
}

function stateless(headers: IncomingHttpHeaders, { method, params, id }: RpcRequest, meta: JsonObject): Speaker {
  const version = meta[`${PREFIX}protocolVersion`]
  if (typeof version !== 'string') throw refuse(INVALID_PARAMS, `params._meta.${PREFIX}protocolVersion must be a text`)
  const capabilities = meta[`${PREFIX}clientCapabilities`]
  const mustEqual = (header: string, wanted: string) => {
    const given = headers[header]
    if (typeof given !== 'string') throw refuse(HEADER_MISMATCH, `The header ${header} is missing`)
    if (decoded(given) !== wanted) throw refuse(HEADER_MISMATCH, `The header ${header} and the body disagree`)
  }
  if (headers['mcp-protocol-version'] !== undefined || id !== null) mustEqual('mcp-protocol-version', version)
  if (version !== STATELESS_VERSION) throw unsupported(version)
  if (!isObject(capabilities))
    throw refuse(INVALID_PARAMS, `params._meta.${PREFIX}clientCapabilities must be an object`)
  if (id !== null) {
    mustEqual('mcp-method', method)
    const name = params[NAMED_BY[method] ?? '']
    if (typeof name === 'string') mustEqual('mcp-name', name)
  }
  return { isStateless: true, canAsk: canAsk(capabilities), session: null }
}

function unsupported(requested: string): RpcError {
  const data = { supported: VERSIONS, requested: requested.slice(0, 64) }
  return new RpcError(UNSUPPORTED_VERSION, 'Unsupported protocol version', { data, status: 400 })
}

/** The version of a handshake: the one asked for, or else the newest with one. */
export function versionFor({ protocolVersion }: JsonObject): string {
  if (typeof protocolVersion !== 'string') throw new RpcError(INVALID_PARAMS, 'params.protocolVersion must be a text')
  return HANDSHAKE_VERSIONS.includes(protocolVersion) ? protocolVersion : HANDSHAKE_VERSIONS[0]!
}

/** What is no plain ASCII comes in base64. */
function decoded(text: string): string {
  const [, encoded] = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(text) ?? []
  return encoded === undefined ? text : Buffer.from(encoded, 'base64').toString()
}

function refuse(code: number, message: string): RpcError {
  return new RpcError(code, message, { status: 400 })
}
