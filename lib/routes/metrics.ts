// Metrics: for administrators, and for scrapers on a separate port, which needs no account and works while the database is down.
import * as v from 'valibot'
import type { Call } from '../http/call.ts'
import { type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { healthRoutes } from './health.ts'
import type { Services } from './services.ts'

const hourQuery = objectOf({ after: v.optional(queryInteger({ min: 0 }), '0') })
type HourQuery = v.InferOutput<typeof hourQuery>

export function adminMetricsRoutes({ metrics, metricsHour }: Services): Route[] {
  const forAdmins = { method: 'GET', admin: true } as const
  const hour = async ({ query }: Call<unknown, HourQuery>) => ({ json: await metricsHour(query.after) })
  return [
    route({ ...forAdmins, path: '/metrics', handler: async () => ({ text: await metrics() }) }),
    route({ ...forAdmins, path: '/metrics/hour', query: hourQuery, handler: hour })
  ]
}

/** Routes of the metrics port, open to everybody who can reach it. */
export function metricsRoutes(services: Services): Route[] {
  const text = async () => ({ text: await services.metrics() })
  return [...healthRoutes(services), route({ method: 'GET', path: '/metrics', access: 'public', handler: text })]
}
