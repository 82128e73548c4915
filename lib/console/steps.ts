// The steps of a run, from its events: model calls and tools, with their time, tokens and money.
import { call } from './api.ts'
import { duration, count } from './time.ts'
import { t } from './words.ts'

export interface RunEvent {
  readonly seq: number
  readonly event_type: string
  readonly category: string
  readonly content: unknown
  readonly metadata: Readonly<Record<string, unknown>>
  readonly created_at: string
}

export interface Step {
  readonly name: string
  readonly kind: 'model' | 'tool' | 'middleware' | 'agent'
  readonly from: number
  /** null: it goes on. */
  readonly to: number | null
  readonly tokens: number
  /** Millionths. */
  readonly money: number
  readonly isBad: boolean
  /** Of a tool: its call; of a model: the calls in its answer. */
  readonly callIds: readonly string[]
}

const EVENTS_PAGE = 2000

/** The events of a run behind `after`; `types`: of these alone. */
export async function eventsOf(path: string, after?: number, types?: string): Promise<RunEvent[]> {
  const all: RunEvent[] = []
  for (;;) {
    const last = all.at(-1)?.seq ?? after
    const query = `limit=${EVENTS_PAGE}${last ? `&after_seq=${last}` : ''}${types ? `&event_types=${types}` : ''}`
    const page = await call<RunEvent[]>('GET', `${path}/events?${query}`)
    all.push(...page)
    if (page.length < EVENTS_PAGE) return all
  }
}

/** Model calls, tools and middleware, by when they began. */
export function stepsOf(events: readonly RunEvent[]): Step[] {
  const open = new Map<string, Step>()
  const steps: Step[] = []
  for (const event of events) {
    const { event_type: type, metadata } = event
    const at = Date.parse(event.created_at)
    const key = /^llm/.test(type) ? `model ${metadata.llm_call_index}` : `tool ${metadata.tool_call_id}`
    const begun = open.get(key)
    if (type === 'llm_request') open.set(key, modelStep(event, at))
    if (type === 'tool_start') open.set(key, toolStep(event, at))
    if (type === 'llm_response' || type === 'llm_error') {
      const from = begun?.from ?? at - Number(metadata.latency_ms ?? 0)
      steps.push({ ...modelStep(event, from), to: at, isBad: type === 'llm_error' })
      open.delete(key)
    }
    if (type === 'tool_end' || type === 'tool_error') {
      const isBad = metadata.status === 'error' || type === 'tool_error'
      steps.push({ ...toolStep(event, begun?.from ?? at), to: at, isBad })
      open.delete(key)
    }
    if (type.startsWith('middleware:')) steps.push({ ...NOTHING, name: type, kind: 'middleware', from: at, to: at })
  }
  return [...steps, ...open.values()].toSorted((a, b) => a.from - b.from)
}

const NOTHING = { tokens: 0, money: 0, isBad: false, callIds: [], to: null } as const

function modelStep({ metadata, content }: RunEvent, from: number): Step {
  const usage = metadata.usage as { total_tokens?: number } | null | undefined
  const caller = String(metadata.caller ?? 'lead_agent')
  const [kind, name] = caller.startsWith('middleware')
    ? (['middleware', caller] as const)
    : caller.startsWith('subagent:')
      ? (['agent', caller.slice('subagent:'.length)] as const)
      : (['model', `Model call ${metadata.llm_call_index}`] as const)
  const money = Number(metadata.money_micros ?? 0)
  return { ...NOTHING, name, kind, from, tokens: usage?.total_tokens ?? 0, money, callIds: callsIn(content) }
}

function toolStep({ metadata }: RunEvent, from: number): Step {
  const { tool_name = 'tool', tool_call_id } = metadata
  return { ...NOTHING, name: String(tool_name), kind: 'tool', from, callIds: [String(tool_call_id)] }
}

/** Ids of the calls in an answer, as chat completions have it. */
function callsIn(content: unknown): string[] {
  const { choices } = (content ?? {}) as { choices?: { message?: { tool_calls?: { id?: unknown }[] } }[] }
  return (choices?.[0]?.message?.tool_calls ?? []).map(({ id }) => String(id))
}

// ------------------------------------------------------------------------------------------------- in words

let currency: Promise<string> | null = null

/** The currency of this installation's prices. */
export function currencyName(): Promise<string> {
  currency ??= call<{ currency: string }>('GET', '/api/v1/auth/usage?limit=1').then(
    (report) => report.currency,
    () => ''
  )
  return currency
}

/** What a step took; `unit`: the currency. */
export function noteOf({ from, to, tokens, money }: Step, unit: string): string {
  const price = money > 0 ? `${(money / 1e6).toFixed(money < 1e6 ? 4 : 2)} ${unit}` : ''
  const time = to === null ? t('working…') : duration(to - from)
  return [time, tokens ? t('{} tokens', count(tokens)) : '', price].filter(Boolean).join(', ')
}

/** Of the run that was looked into last. */
let known: { readonly path: string; readonly steps: Promise<Step[]> } | null = null
const STEP_TYPES = 'llm_request,llm_response,llm_error,tool_start,tool_end,tool_error'

/** A tool call's own time, and what the model call took that asked for it; '': the run has no such step any more. */
export async function callNote(path: string, callId: string): Promise<string> {
  const steps = await (known?.path === path ? known.steps : stepsIn(path))
  const tool = steps.find(({ kind, callIds }) => kind === 'tool' && callIds.includes(callId))
  const asker = steps.find(({ kind, callIds }) => kind !== 'tool' && callIds.includes(callId))
  if (!tool) return ''
  return noteOf(
    { ...tool, tokens: asker?.tokens ?? 0, money: asker?.money ?? 0 },
    asker?.money ? await currencyName() : ''
  )
}

function stepsIn(path: string): Promise<Step[]> {
  const steps = eventsOf(path, undefined, STEP_TYPES).then(stepsOf)
  const own = { path, steps }
  known = own
  // One that goes on has more later, and what failed is tried again.
  const forget = () => {
    if (known === own) known = null
  }
  steps.then((all) => all.some(({ to }) => to === null) && forget(), forget)
  return steps
}
