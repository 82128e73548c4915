// Liveness and readiness.
import { type Route, route } from '../http/route.ts'
import { VERSION } from '../version.ts'
import type { Services } from './services.ts'

export function healthRoutes({ unready }: Services): Route[] {
  return [
    route({
      method: 'GET',
      path: '/health',
      access: 'public',
      handler: () => ({ json: { status: 'healthy', service: 'colloquy' } })
    }),
    route({
      method: 'GET',
      path: '/readyz',
      access: 'public',
      handler: async () => {
        const reason = await unready()
        return reason === null
          ? { json: { status: 'ready' } }
          : { status: 503, json: { status: 'not ready', reason }, headers: { 'Retry-After': '5' } }
      }
    }),
    // What LangGraph's own tools ask a server for, also below the prefix that they are given.
    route({ method: 'GET', path: '/ok', access: 'public', handler: () => ({ json: { ok: true } }) }),
    route({ method: 'GET', path: '/info', access: 'public', handler: () => ({ json: INFO }) })
  ]
}

/** Studio shows what is true here; a run of ours is traced by nobody else. */
const INFO = {
  version: VERSION,
  context: 'js',
  flags: { assistants: true, crons: true, langsmith: false, langsmith_tracing_replicas: false }
}
