// Usage as people and programs are shown it: rows of sums, as JSON or CSV.
import { USAGE_KEYS, type UsageKey, type UsageReads, type UsageRow, type UsageSums } from '../store/store.ts'

const DAY_MS = 86_400_000
/** Days shown where nobody says since when. */
const DAYS = 30

/** What is asked for; what is left out has a default. */
export interface UsageQuery {
  readonly since?: string | undefined
  readonly until?: string | undefined
  readonly by?: readonly UsageKey[] | undefined
  readonly agent?: string | undefined
  readonly model?: string | undefined
  readonly limit: number
  readonly offset: number
}

/** Both are days of the calendar, whose order is that of their texts. */
export function isBackwards({ since, until }: Pick<UsageQuery, 'since' | 'until'>): boolean {
  return since !== undefined && until !== undefined && since > until
}

type Shown<Sums extends UsageSums> = Omit<Sums, 'money_micros'> & { readonly money: number }

export interface UsageReport {
  readonly since: string
  readonly until: string
  readonly currency: string
  readonly by: readonly UsageKey[]
  readonly rows: readonly Shown<UsageRow>[]
  readonly total: Shown<UsageSums> & { readonly rows: number }
}

/** @param user whose; null: everybody's */
export async function usageReport(
  usage: Pick<UsageReads, 'list'>,
  query: UsageQuery,
  user: string | null,
  currency: string,
  now = Date.now()
): Promise<UsageReport> {
  const until = query.until ?? dayOf(now)
  const since = query.since ?? dayOf(Date.parse(until) - (DAYS - 1) * DAY_MS)
  const { by = USAGE_KEYS, agent, model, limit, offset } = query
  const filters = { ...(agent !== undefined && { agent }), ...(model !== undefined && { model }) }
  const { rows, total } = await usage.list({ since, until, by, ...filters, limit, offset }, user)
  return { since, until, currency, by, rows: rows.map(shown), total: shown(total) }
}

export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** Whether a text is a day of the calendar, as 2026-01-31. */
export function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && dayOf(Date.parse(text)) === text
}

/** `day,user`: keys, each once. null: one of them is none. */
export function usageKeys(text: string): UsageKey[] | null {
  const names = text.split(',').map((name) => name.trim())
  const keys = names.flatMap((name) => USAGE_KEYS.filter((key) => key === name))
  return keys.length === names.length && new Set(keys).size === keys.length ? keys : null
}

function shown<Sums extends UsageSums>({ money_micros, ...sums }: Sums): Shown<Sums> {
  return { ...sums, money: money_micros / 1_000_000 }
}

const COLUMNS_OF: Readonly<Record<UsageKey, readonly (keyof UsageRow)[]>> = {
  day: ['day'],
  user: ['user_id', 'email'],
  agent: ['agent'],
  model: ['model']
}

/** The rows as CSV [RFC 4180], with a line of names. */
export function usageCsv({ by, rows, currency }: UsageReport): string {
  const columns = by.flatMap((key) => COLUMNS_OF[key])
  const names = [...columns, 'runs', 'input_tokens', 'output_tokens', 'total_tokens', 'money', 'currency']
  const lines = rows.map((row) => {
    const fields: Readonly<Record<string, unknown>> = { ...row, currency }
    return names.map((name) => csvField(fields[name])).join(',')
  })
  return [names.join(','), ...lines].map((line) => `${line}\r\n`).join('')
}

/** Spreadsheets take a text that begins like a formula for one: an apostrophe keeps it a text. */
function csvField(value: unknown): string {
  if (typeof value === 'number') return String(value)
  const text = value === null || value === undefined ? '' : String(value)
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
