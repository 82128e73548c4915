// Is the process alive, and may it be sent new runs.
import { type Route, route } from '../http/route.ts'
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
    // What LangGraph's own tools ask a server for.
    route({ method: 'GET', path: '/ok', access: 'public', handler: () => ({ json: { ok: true } }) }),
    route({
      method: 'GET',
      path: '/info',
      access: 'public',
      handler: () => ({ json: { version: '0.1.0', flags: { assistants: false, crons: false } } })
    })
  ]
}
