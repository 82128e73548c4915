// Usage: what runs have taken, by day, user, agent and model: everybody's for administrators and auditors, and one's own.
import * as v from 'valibot'
import { acceptedTypes } from '../http/request.ts'
import { type Call, type Route, route, type UserCall } from '../http/route.ts'
import { objectOf, queryInteger } from '../http/schema.ts'
import { isBackwards, isDay, usageCsv, usageKeys, type UsageReport, usageReport } from '../thread/usage.ts'
import { arrayOf, int, number, optionalText, shaped, text } from './answers.ts'
import { refusedValue } from './input.ts'
import { paginationHeaders } from './page.ts'
import type { Services } from './services.ts'

const LIMIT = '1000'
const LIMIT_MAX = 10_000
const TEXT_MAX = 256

const day = v.pipe(v.string(), v.check(isDay, 'must be a day, as 2026-01-31'))
const name = v.pipe(v.string(), v.maxLength(TEXT_MAX))

const entries = {
  // Both are included; UTC.
  since: v.optional(day),
  until: v.optional(day),
  // What rows are told apart by: some of day, user, agent, model.
  group_by: v.optional(
    v.pipe(
      v.string(),
      v.check((list) => usageKeys(list) !== null, 'must be a list of day, user, agent and model, each once')
    )
  ),
  agent: v.optional(name),
  model: v.optional(name),
  format: v.optional(v.picklist(['json', 'csv'])),
  limit: v.optional(queryInteger({ min: 1, max: LIMIT_MAX }), LIMIT),
  offset: v.optional(queryInteger({ min: 0 }), '0')
}
const ownQuery = objectOf(entries)
const query = objectOf({ ...entries, user_id: v.optional(name) })
type Query = v.InferOutput<typeof query>

const sums = { runs: int, input_tokens: int, output_tokens: int, total_tokens: int, money: number }

const REPORT = shaped({
  since: text,
  until: text,
  currency: text,
  by: arrayOf(text),
  rows: arrayOf(shaped(sums, { day: text, user_id: optionalText, email: optionalText, agent: text, model: text })),
  total: shaped({ ...sums, rows: int })
})

const answers = {
  200: {
    schema: REPORT,
    also: { 'text/csv': text },
    headers: {
      'X-Pagination-Total': 'Number of rows',
      'X-Pagination-Next': 'Offset of the next page; missing on the last one'
    }
  }
}

export function usageRoutes({ store, config }: Pick<Services, 'store' | 'config'>): Route[] {
  const reply = async (call: Call<unknown, Omit<Query, 'user_id'>>, user: string | null) => {
    const { group_by, format = formatOf(call), ...asked } = call.query
    if (isBackwards(asked)) throw refusedValue(['query', 'until'], 'must not be before since')
    const by = group_by === undefined ? undefined : (usageKeys(group_by) ?? undefined)
    const list: typeof store.usage.list = (search, of) => store.usage.list(search, of)
    const report = await usageReport({ list }, { ...asked, by }, user, config.usage.currency)
    const headers = paginationHeaders(report.total.rows, asked.offset, report.rows.length)
    return format === 'json' ? { json: report, headers } : csvReply(report, headers)
  }
  const everybodys = (call: UserCall<unknown, Query>) => {
    const { user_id, ...asked } = call.query
    return reply({ ...call, query: asked }, user_id ?? null)
  }
  return [
    route({
      method: 'GET',
      path: '/api/v1/admin/usage',
      admin: true,
      permission: 'admin:read',
      query,
      summary: 'Runs, tokens and money by day, user, agent and model, as JSON or CSV; administrators and auditors',
      answers,
      rule: null,
      handler: everybodys
    }),
    route({
      method: 'GET',
      path: '/api/v1/auth/usage',
      permission: 'any',
      query: ownQuery,
      summary: 'Runs, tokens and money of the caller, by day, agent and model, as JSON or CSV',
      answers,
      rule: null,
      handler: (call) => reply(call, call.user.id)
    })
  ]
}

function formatOf({ req }: Call): 'json' | 'csv' {
  return acceptedTypes(req)[0] === 'text/csv' ? 'csv' : 'json'
}

function csvReply(report: UsageReport, headers: Readonly<Record<string, string>>) {
  const disposition = `attachment; filename="usage-${report.since}-${report.until}.csv"`
  return {
    text: { type: 'text/csv; charset=utf-8', body: usageCsv(report) },
    headers: { ...headers, 'Content-Disposition': disposition }
  }
}
