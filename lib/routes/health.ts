// Liveness and readiness.
import { type Reply, type Route, route } from '../http/route.ts'
import { COMMIT, VERSION } from '../base/version.ts'
import type { Services } from './services.ts'

export function healthRoutes({ unready }: Services): Route[] {
  const readyz = async (): Promise<Reply> => {
    const reason = await unready()
    if (reason === null) return { json: { status: 'ready' } }
    return { status: 503, json: { status: 'not ready', reason }, headers: { 'Retry-After': '5' } }
  }

  const open = { method: 'GET', access: 'public' } as const
  return [
    route({ ...open, path: '/health', handler: () => ({ json: { status: 'healthy', service: 'colloquy' } }) }),
    route({ ...open, path: '/readyz', handler: readyz }),
    // LangGraph's own tools ask for these, also below the prefix they are given.
    route({ ...open, path: '/ok', handler: () => ({ json: { ok: true } }) }),
    route({ ...open, path: '/info', handler: () => ({ json: INFO }) })
  ]
}

/** Flags that LangGraph's Studio reads. Runs are not traced to LangSmith. */
const INFO = {
  version: VERSION,
  commit: COMMIT,
  context: 'js',
  flags: { assistants: true, crons: true, langsmith: false, langsmith_tracing_replicas: false }
}
