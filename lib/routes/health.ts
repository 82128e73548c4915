// Liveness, readiness and metrics: for administrators, and for scrapers on a separate port, which needs no account and works while the
// database is down.
import * as v from 'valibot'
import { type Answers, type Call, type Reply, type Route, route } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { COMMIT, VERSION } from '../base/version.ts'
import { arrayOf, mapOf, number, one, oneOf, shaped, text, yesNo } from './answers.ts'
import type { Services } from './services.ts'

export function healthRoutes({ unready }: Services): Route[] {
  const readyz = async (): Promise<Reply> => {
    const reason = await unready()
    if (reason === null) return { json: { status: 'ready' } }
    return { status: 503, json: { status: 'not ready', reason }, headers: { 'Retry-After': '5' } }
  }

  const open = { method: 'GET', access: 'public', rule: null } as const
  return [
    route({
      ...open,
      path: '/health',
      summary: 'Liveness: the process answers',
      answers: one(shaped({ status: oneOf('healthy'), service: text })),
      handler: () => ({ json: { status: 'healthy', service: 'colloquy' } })
    }),
    route({
      ...open,
      path: '/readyz',
      summary: 'Readiness: new runs can be started',
      answers: {
        200: { schema: shaped({ status: oneOf('ready') }) },
        503: {
          description: 'Not ready',
          schema: shaped({ status: oneOf('not ready'), reason: text }),
          headers: { 'Retry-After': 'Seconds' }
        }
      },
      handler: readyz
    }),
    // LangGraph's own tools ask for these, also below the prefix they are given.
    route({
      ...open,
      path: '/ok',
      summary: 'Health check of LangGraph’s tools',
      answers: one(shaped({ ok: yesNo })),
      handler: () => ({ json: { ok: true } })
    }),
    route({
      ...open,
      path: '/info',
      summary: 'Version and flags',
      answers: one(shaped({ version: text, commit: text, context: text, flags: mapOf(yesNo) })),
      handler: () => ({ json: INFO })
    })
  ]
}

/** Flags that LangGraph's Studio reads. Runs are not traced to LangSmith. */
const INFO = {
  version: VERSION,
  commit: COMMIT,
  context: 'js',
  flags: { assistants: true, crons: true, langsmith: false, langsmith_tracing_replicas: false }
}

// ------------------------------------------------------------------------------------------------------------ metrics

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
