// What the process is doing, for whoever watches over it: for administrators, and on a port of its own for a scraper that has no
// account and has to be answered also when the database is not.
import * as v from 'valibot'
import { requireAdmin } from '../http/guards.ts'
import { type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { healthRoutes } from './health.ts'
import type { Services } from './services.ts'

const hourQuery = objectOf({ after: v.optional(queryInteger({ min: 0 }), '0') })

export function adminMetricsRoutes({ metrics, metricsHour }: Services): Route[] {
  return [
    route({
      method: 'GET',
      path: '/metrics',
      access: 'user',
      handler: async (call) => {
        requireAdmin(call)
        return { text: await metrics() }
      }
    }),
    route({
      method: 'GET',
      path: '/metrics/hour',
      access: 'user',
      query: hourQuery,
      handler: async (call) => {
        requireAdmin(call)
        const { at, values } = await metricsHour(call.query.after)
        return { json: { at, values } }
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
