// Recognises LangGraph's own clients, which use other paths and expect other defaults.
import type { IncomingMessage } from 'node:http'
import type { Failure } from '../base/errors.ts'
import { acceptedTypes, isAtRoot, targetOf } from './request.ts'

/**
 * Whether the client is one of LangGraph's: it calls at the root, has its key in X-Api-Key, or says so. Cookies and
 * Authorization are used by the service's own clients, whose defaults apply below /api [spec].
 */
export function isLangGraphClient({ req }: { readonly req: IncomingMessage }): boolean {
  if (req.headers['x-api-key'] !== undefined) return true
  if (isAtRoot(targetOf(req).path)) return true
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
  if (status !== 404 || typeof detail !== 'string' || !isAtRoot(targetOf(req).path)) return null
  if (acceptedTypes(req).some((type) => type.includes('json')) || isPythonClient({ req })) return null
  return code === 'thread_not_found' ? detail.replace(/^Thread /, 'Thread with ID ') : detail
}

function agentOf({ headers }: IncomingMessage): string {
  return headers['user-agent'] ?? ''
}
