// Metrics: for administrators, and for scrapers on a separate port, which needs no account and works while the database is down.
import * as v from 'valibot'
import { type Answers, type Call, type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { arrayOf, mapOf, number, one, shaped, text } from './answers.ts'
import { healthRoutes } from './health.ts'
import type { Services } from './services.ts'

const hourQuery = objectOf({ after: v.optional(queryInteger({ min: 0 }), '0') })
type HourQuery = v.InferOutput<typeof hourQuery>
const exposition: Answers = { 200: { type: 'text/plain', schema: text } }

export function adminMetricsRoutes({ metrics, metricsHour }: Services): Route[] {
  const forAdmins = { method: 'GET', admin: true, rule: null } as const
  const hour = async ({ query }: Call<unknown, HourQuery>) => ({ json: await metricsHour(query.after) })
  return [
    route({
      ...forAdmins,
      path: '/metrics',
      summary: 'Metrics for Prometheus; administrators only',
      answers: exposition,
      handler: async () => ({ text: await metrics() })
    }),
    route({
      ...forAdmins,
      path: '/metrics/hour',
      query: hourQuery,
      summary: 'Metrics of the last hour as columns, recorded from the first request on; administrators only',
      answers: one(shaped({ at: arrayOf(number), values: mapOf(arrayOf({ type: ['number', 'null'] })) })),
      handler: hour
    })
  ]
}

/** Routes of the metrics port, open to everybody who can reach it. */
export function metricsRoutes(services: Services): Route[] {
  const summary = 'Metrics for Prometheus'
  const handler = async () => ({ text: await services.metrics() })
  const open = { method: 'GET', access: 'public', rule: null } as const
  return [...healthRoutes(services), route({ ...open, path: '/metrics', summary, answers: exposition, handler })]
}
