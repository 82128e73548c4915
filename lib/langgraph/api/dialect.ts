// The dialect of LangGraph's own clients, which use other paths and expect other defaults; and how they are recognised.
import type { IncomingMessage } from 'node:http'
import type { Failure } from '../../base/errors.ts'
import { CONTRACT, type Dialect, type ErrorForm } from '../../http/dialect.ts'
import { acceptedTypes, isAtRoot, targetOf } from '../../http/request.ts'
import { stopError } from '../../run/log/frame.ts'

export const LANGGRAPH: Dialect = {
  errors: null,
  existingThread: 'raise',
  threadOfRun: 'delete',
  secondRun: 'reject',
  // Theirs deletes it, and calls it missing at once.
  rolledBackRun: 'delete',
  endedRun: 'ignore',
  // They search threads by graph.
  namesGraph: 'before',
  // They know no `end`, and take its data for the last values.
  hasEndFrame: false,
  // They take the run's id from the head.
  heldMs: 0,
  threadSearch: { limit: 10, sortBy: 'created_at', withStates: true },
  showsTtl: true,
  isBareCheckpoint: true,
  threadMembers: ({ status, updated_at }) => ({
    status: status === 'running' ? 'busy' : status,
    state_updated_at: updated_at
  }),
  stopOf: stopError
}

/** The Python client's server queues a second run of a thread, where the one for JavaScript refuses it. */
const PYTHON: Dialect = { ...LANGGRAPH, secondRun: 'enqueue' }

const AT_ROOT: Dialect = { ...LANGGRAPH, errors: bareError }

/**
 * The dialect of a request. A client is one of LangGraph's if it calls at the root, has its key in X-Api-Key, or says so. Cookies and
 * Authorization are used by the service's own clients, whose defaults apply below /api [spec].
 */
export function dialectOf(req: IncomingMessage): Dialect {
  const agent = req.headers['user-agent'] ?? ''
  if (/^langgraph-sdk-py/i.test(agent)) return PYTHON
  if (isAtRoot(targetOf(req).path)) return AT_ROOT
  return req.headers['x-api-key'] !== undefined || /^langgraph/i.test(agent) ? LANGGRAPH : CONTRACT
}

/** Whether it is the Python client, for which a missing item of the store is a 404: that for JavaScript takes a null. */
export function isPython(dialect: Dialect): boolean {
  return dialect === PYTHON
}

/** Their client for JavaScript shows the body of a 404 as it is: its server sends a bare sentence. */
function bareError({ code, status, detail, headers }: Failure, req: IncomingMessage): ReturnType<ErrorForm> {
  if (status !== 404 || typeof detail !== 'string') return null
  if (acceptedTypes(req).some((type) => type.includes('json'))) return null
  const body = code === 'thread_not_found' ? detail.replace(/^Thread /, 'Thread with ID ') : detail
  return { status, headers, text: { type: 'text/plain; charset=utf-8', body } }
}
