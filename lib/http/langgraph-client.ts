// Who calls as LangGraph's own clients do: where they look for things, and what they expect by default, is theirs.
import type { IncomingMessage } from 'node:http'

/** A server of LangGraph's has its resources at the root; ours are the same ones, below /api. */
const AT_ROOT: ReadonlySet<string> = new Set(['threads', 'runs', 'assistants', 'store'])

/** True for the first segment of a path that is one of LangGraph's, without our prefix. */
export function isAtRoot(segment: string | undefined): boolean {
  return segment !== undefined && AT_ROOT.has(segment)
}

/** What a server of LangGraph's says of itself, which its clients look for below whatever address they are given. */
const OF_SERVER: ReadonlySet<string> = new Set(['ok', 'info', 'openapi.json'])

/** True for the segments of a path below our prefix that are ours at the root. */
export function isOfServer([prefix, name, ...more]: readonly string[]): boolean {
  return prefix === 'api' && name !== undefined && OF_SERVER.has(name) && more.length === 0
}

/**
 * A client of LangGraph's, as far as a request shows it: it calls at the root, bears its key in X-Api-Key, or says so. Cookies and
 * Authorization are the service's own clients', whose defaults hold below /api [spec].
 */
export function isLangGraphClient({ req }: { readonly req: IncomingMessage }): boolean {
  if (req.headers['x-api-key'] !== undefined) return true
  if (isAtRoot((req.url ?? '').split(/[/?#]/, 2)[1])) return true
  return /^langgraph/i.test(agentOf(req))
}

/** LangGraph's client for Python: its server lets a second run of a thread wait, where the one for JavaScript refuses it. */
export function isPythonClient({ req }: { readonly req: IncomingMessage }): boolean {
  return /^langgraph-sdk-py/i.test(agentOf(req))
}

function agentOf({ headers }: IncomingMessage): string {
  return headers['user-agent'] ?? ''
}
