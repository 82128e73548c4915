// What runs have taken in the last month, for administrators: by model, agent, user and day.
import { call, textOf } from './api.ts'
import { BASE } from './base.ts'
import { html } from './html.ts'
import { count } from './time.ts'
import { useEffect, useState } from 'preact/hooks'

const PATH = '/api/v1/admin/usage'
const SHOWN = 20
const GROUPS = ['model', 'agent', 'user', 'day'] as const

interface Row {
  readonly user_id?: string | null
  readonly email?: string | null
  readonly model?: string
  readonly agent?: string
  readonly day?: string
  readonly runs: number
  readonly total_tokens: number
  readonly money: number
}

interface Report {
  readonly currency: string
  readonly since: string
  readonly by: readonly string[]
  readonly rows: readonly Row[]
  readonly total: Row
}

export function Usage() {
  const [reports, setReports] = useState<Report[]>([])
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    const of = (key: string) => call<Report>('GET', `${PATH}?group_by=${key}&limit=10000`)
    Promise.all(GROUPS.map(of)).then(setReports, (error) => setProblem(textOf(error)))
  }, [])
  const [first] = reports
  return html`<h2>Usage</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${first && html`<p class="hint">Since ${first.since}: ${taken(first.total, first.currency)}. <a href=${`${BASE}${PATH}?format=csv&limit=10000`} download>As CSV</a></p>`}
    ${reports.map(
      ({ by, rows, currency }) => html`<h3>By ${by.join(' and ')}</h3>
        <ul class="cards">${topOf(rows, by).map(
          (row) => html`<li key=${nameOf(row)}><b>${nameOf(row)}</b><small>${taken(row, currency)}</small></li>`
        )}</ul>`
    )}`
}

/** Those that have taken the most; of days the newest. */
function topOf(rows: readonly Row[], by: readonly string[]): Row[] {
  const ranked = by.includes('day')
    ? rows.toSorted((one, other) => nameOf(other).localeCompare(nameOf(one)))
    : rows.toSorted((one, other) => other.money - one.money || other.total_tokens - one.total_tokens)
  return ranked.slice(0, SHOWN)
}

function nameOf({ model, agent, day, email, user_id }: Row): string {
  if (model !== undefined) return model || 'No model'
  if (agent !== undefined) return agent || 'No agent'
  if (day !== undefined) return day
  return email ?? user_id ?? 'Deleted accounts'
}

function taken({ runs, total_tokens, money }: Row, currency: string): string {
  const price = money > 0 ? `, ${money.toFixed(money < 1 ? 4 : 2)} ${currency}` : ''
  return `${count(runs)} ${runs === 1 ? 'run' : 'runs'}, ${count(total_tokens)} tokens${price}`
}
