// Metrics: for administrators, and on a port of their own for a scraper without an account, which also works while the database is down.
import * as v from 'valibot'
import { type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { healthRoutes } from './health.ts'
import type { Services } from './services.ts'

const hourQuery = objectOf({ after: v.optional(queryInteger({ min: 0 }), '0') })

export function adminMetricsRoutes({ metrics, metricsHour }: Services): Route[] {
  return [
    route({ method: 'GET', path: '/metrics', admin: true, handler: async () => ({ text: await metrics() }) }),
    route({
      method: 'GET',
      path: '/metrics/hour',
      admin: true,
      query: hourQuery,
      handler: async ({ query }) => ({ json: await metricsHour(query.after) })
    })
  ]
}

/** Routes of the metrics port: open to everybody who can reach it. */
export function metricsRoutes(services: Services): Route[] {
  const all = route({
    method: 'GET',
    path: '/metrics',
    access: 'public',
    handler: async () => ({ text: await services.metrics() })
  })
  return [...healthRoutes(services), all]
}
