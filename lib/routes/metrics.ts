// What the process is doing, for whoever watches over it: for administrators, and on a port of its own for a scraper that has no
// account and has to be answered also when the database is not.
import { requireAdmin } from '../http/guards.ts'
import { type Route, route } from '../http/route.ts'
import { healthRoutes } from './health.ts'
import type { Services } from './services.ts'

export function adminMetricsRoutes({ metrics }: Services): Route[] {
  return [
    route({
      method: 'GET',
      path: '/metrics',
      access: 'user',
      handler: async (call) => {
        requireAdmin(call)
        return { text: await metrics() }
      }
    })
  ]
}

/** What is answered on the port for metrics: to everybody who reaches it. */
export function metricsRoutes(services: Services): Route[] {
  const all = route({
    method: 'GET',
    path: '/metrics',
    access: 'public',
    handler: async () => ({ text: await services.metrics() })
  })
  return [...healthRoutes(services), all]
}
