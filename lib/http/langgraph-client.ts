// Recognises LangGraph's own clients, which use other paths and expect other defaults.
import type { IncomingMessage } from 'node:http'
import type { Failure } from '../errors.ts'

/** LangGraph servers have their resources at the root; ours are the same, below /api. */
const AT_ROOT: ReadonlySet<string> = new Set(['threads', 'runs', 'assistants', 'store', 'ui'])

/** True if a path's first segment is one of LangGraph's, without our prefix. */
export function isAtRoot(segment: string | undefined): boolean {
  return segment !== undefined && AT_ROOT.has(segment)
}

/** Server information, which LangGraph's clients request below any base URL. */
const OF_SERVER: ReadonlySet<string> = new Set(['ok', 'info', 'openapi.json'])

/** True for paths below our prefix that we serve at the root. */
export function isOfServer([prefix, name, ...more]: readonly string[]): boolean {
  return prefix === 'api' && name !== undefined && OF_SERVER.has(name) && more.length === 0
}

/**
 * Whether the client is one of LangGraph's: it calls at the root, has its key in X-Api-Key, or says so. Cookies and
 * Authorization are used by the service's own clients, whose defaults apply below /api [spec].
 */
export function isLangGraphClient({ req }: { readonly req: IncomingMessage }): boolean {
  if (req.headers['x-api-key'] !== undefined) return true
  if (isAtRoot(firstSegment(req))) return true
  return /^langgraph/i.test(agentOf(req))
}

/** LangGraph's Python client: its server queues a second run of a thread, where the one for JavaScript refuses it. */
export function isPythonClient({ req }: { readonly req: IncomingMessage }): boolean {
  return /^langgraph-sdk-py/i.test(agentOf(req))
}

/**
 * The bare sentence that a 404 is to LangGraph's client for JavaScript, which shows the body as it is; its server sends no more.
 * null: the client is another, or the failure.
 */
export function bareText(req: IncomingMessage, { code, status, detail }: Failure): string | null {
  if (status !== 404 || typeof detail !== 'string' || !isAtRoot(firstSegment(req))) return null
  if (/json/i.test(req.headers.accept ?? '') || isPythonClient({ req })) return null
  return code === 'thread_not_found' ? detail.replace(/^Thread /, 'Thread with ID ') : detail
}

function firstSegment({ url = '' }: IncomingMessage): string | undefined {
  return url.split(/[/?#]/, 2)[1]
}

function agentOf({ headers }: IncomingMessage): string {
  return headers['user-agent'] ?? ''
}
