// The administrator's overview: metrics of the last hour, the last backup, models, people, invitations, tool servers, skills, and the own memory.
import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { useAnswer } from './answer.ts'
import { call, colloquy, textOf } from './api.ts'
import { BASE } from './base.ts'
import { type Sample, samples, total, watchFigures } from './figures.ts'
import { classes, html, Icon } from './html.ts'
import { Doctor } from './installation.ts'
import { People, useUsers } from './people.ts'
import { newId } from './records.ts'
import { isDark } from './theme.ts'
import { bytes, count, duration } from './time.ts'
import { notifyFailure } from './toast.ts'
import { Usage } from './usage.ts'

interface Figure {
  readonly name: string
  /** Its value at a sample, given the previous sample. */
  readonly read: (now: Sample, before: Sample) => number
  readonly show: (value: number) => string
}

/** Growth of a counter per second. A labelled counter does not exist before its first increment. */
const rate = (name: string) => (now: Sample, before: Sample) =>
  Math.max(0, (total(now, name) || 0) - (total(before, name) || 0)) / Math.max(1, now.at - before.at)
const gauge =
  (name: string, label = '') =>
  (now: Sample) =>
    total(now, name, label)
/** Mean of a histogram since the previous sample. */
const mean = (name: string) => (now: Sample, before: Sample) => {
  const times = total(now, `${name}_count`) - total(before, `${name}_count`)
  return times > 0 ? (total(now, `${name}_sum`) - total(before, `${name}_sum`)) / times : 0
}
const seconds = (value: number) => duration(value * 1000)
const perSecond = (value: number) => `${value < 10 ? value.toFixed(1) : count(Math.round(value))}/s`
const whole = (value: number) => count(Math.round(value))

const FIGURES: readonly Figure[] = [
  { name: 'Runs at work', read: gauge('colloquy_runs', 'running'), show: whole },
  { name: 'Runs that wait', read: gauge('colloquy_runs', 'pending'), show: whole },
  { name: 'Runs that ended', read: rate('colloquy_run_duration_seconds_count'), show: perSecond },
  { name: 'Open streams', read: gauge('colloquy_streams_open'), show: whole },
  { name: 'Frames delivered', read: rate('colloquy_frames_delivered_total'), show: perSecond },
  { name: 'Event-loop delay', read: mean('colloquy_event_loop_delay_seconds'), show: seconds },
  { name: 'Commit', read: mean('colloquy_commit_duration_seconds'), show: seconds },
  { name: 'Commit queue', read: gauge('colloquy_commit_queue'), show: whole },
  { name: 'Database', read: gauge('colloquy_store_bytes', 'database'), show: bytes },
  { name: 'Write-ahead log', read: gauge('colloquy_store_bytes', 'wal'), show: bytes },
  { name: 'Refused sign-ins', read: rate('colloquy_logins_refused_total'), show: perSecond },
  { name: 'Jobs to come', read: gauge('colloquy_jobs', 'waiting'), show: whole },
  { name: 'Jobs that failed', read: gauge('colloquy_jobs', 'dead'), show: whole },
  { name: 'Memory', read: gauge('process_resident_memory_bytes'), show: bytes }
]

const PLOT_HEIGHT = 64

/** Whether there is data: a store in memory has no files, for example. */
const isThere = ({ read }: Figure): boolean => {
  const [, values] = series(read)
  return values.length === 0 || values.at(-1) !== null
}

export function View() {
  useEffect(watchFigures, [])
  const people = useUsers()
  const names = new Map(people.answer?.users.map(({ id, email }) => [`user:${id}`, email]))
  return html`<main class="overview" tabindex="0">
    <h1>Overview</h1>
    <div class="charts">${FIGURES.filter(isThere).map((figure) => html`<${Chart} key=${figure.name} ...${figure} />`)}</div>
    <p class="hint">The last hour, from when an administrator first looked. Scrape /metrics to keep more.</p>
    <${Doctor} />
    <${Models} />
    <${Usage} />
    <${People} ...${people} />
    <${Invitations} />
    <${Feedback} names=${names} />
    <${Audit} names=${names} />
    <${ToolServers} />
    <${Skills} />
    <${Memory} />
  </main>`
}

function series(read: Figure['read']): [number[], (number | null)[]] {
  const list = samples.value
  const values = list.slice(1).map((now, i) => read(now, list[i]!))
  return [list.slice(1).map(({ at }) => at), values.map((value) => (Number.isNaN(value) ? null : value))]
}

function Chart({ name, read, show }: Figure) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const [times, values] = series(read)
  const last = values.at(-1)
  useEffect(() => {
    let isGone = false
    const element = box.current!
    void drawIn(element).then((made) => {
      if (isGone) return made.destroy()
      plot.current = made
      made.setData(series(read))
    })
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: PLOT_HEIGHT }))
    sizes.observe(element)
    return () => {
      isGone = true
      sizes.disconnect()
      plot.current?.destroy()
    }
  }, [])
  useEffect(() => {
    plot.current?.setData([times, values])
  }, [samples.value])
  useEffect(() => plot.current?.redraw(), [isDark.value])
  return html`<section class="chart">
    <header><h3>${name}</h3><b>${last == null ? '–' : show(last)}</b></header>
    <div class="plot" ref=${box} role="img" aria-label=${`${name} over the last hour, now ${last == null ? 'unknown' : show(last)}`}></div>
  </section>`
}

let styles: HTMLLinkElement | null = null

/** Loads the library and its styles on first use. */
async function loadPlot(): Promise<typeof uPlot> {
  if (!styles) {
    styles = document.createElement('link')
    styles.rel = 'stylesheet'
    styles.href = new URL('../vendor/uplot.css', import.meta.url).href
    document.head.append(styles)
  }
  return (await import('uplot')).default
}

async function drawIn(box: HTMLElement): Promise<uPlot> {
  const Plot = await loadPlot()
  // Read at each drawing: the theme may have changed.
  const line = () => computed(box, 'var(--accent)')
  const area = () => computed(box, 'color-mix(in srgb, var(--accent) 13%, transparent)')
  const options: uPlot.Options = {
    width: box.clientWidth,
    height: PLOT_HEIGHT,
    cursor: { show: false },
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => rangeUpTo(high) } },
    series: [{}, { stroke: line, width: 1.5, fill: area, points: { show: false } }]
  }
  return new Plot(options, [[], []], box)
}

/** A color as a canvas takes it, which knows no variables of styles; one that it does not know is black. */
function computed(box: HTMLElement, color: string): string {
  box.style.color = color
  return getComputedStyle(box).color
}

/** Leaves a margin below zero, so that a line at zero is visible. */
function rangeUpTo(high: number): [number, number] {
  const top = Math.max(high * 1.15, 0.001)
  return [-top * 0.03, top]
}

// ----------------------------------------------------------------------------------------------------- lists

interface Model {
  readonly name: string
  readonly model: string
  readonly display_name: string | null
  readonly description: string | null
}

function Models() {
  const { answer, problem } = useAnswer<{ models: Model[] }>('/api/models')
  return html`<h2>Models</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    <ul class="cards">${answer?.models.map((model) => html`<${ModelCard} key=${model.name} ...${model} />`)}</ul>`
}

/** Sends a small question on a temporary thread. */
async function testModel(name: string): Promise<string> {
  const thread_id = newId()
  const begun = performance.now()
  await call('POST', '/api/threads', { thread_id })
  try {
    const run = colloquy.start(thread_id, {
      input: { messages: [{ role: 'user', content: 'Answer with one word: ready' }] },
      context: { model_name: name },
      stream_mode: ['messages-tuple']
    })
    let first = 0
    for await (const _words of run.text()) first ||= performance.now()
    return `answers; the first word after ${duration((first || performance.now()) - begun)}`
  } finally {
    await call('DELETE', `/api/threads/${thread_id}`).catch(() => {})
  }
}

function ModelCard({ name, model, display_name, description }: Model) {
  const [state, setState] = useState<{ text: string; isGood: boolean } | null>(null)
  const test = () => {
    setState({ text: 'asking…', isGood: true })
    testModel(name).then(
      (text) => setState({ text, isGood: true }),
      (error) => setState({ text: error instanceof Error ? error.message : textOf(error), isGood: false })
    )
  }
  return html`<li>
    <div class="row"><b>${display_name ?? name}</b><button class="plain" onClick=${test}>Test</button></div>
    <small>${model === name ? description : `${model}. ${description ?? ''}`}</small>
    ${state && html`<span class=${classes('badge', state.isGood ? 'good' : 'bad')} role="status">${state.text}</span>`}
  </li>`
}

interface Feedback {
  readonly feedback_id: string
  readonly user_id: string | null
  readonly rating: 1 | -1
  readonly comment: string | null
  readonly created_at: string
}

/** What people think of answers, and not the answers: those are theirs. */
function Feedback({ names }: { readonly names: ReadonlyMap<string, string> }) {
  const { answer, problem } = useAnswer<{ feedback: Feedback[] }>('/api/v1/admin/feedback?limit=20')
  const nameOf = (user: string | null) => names.get(`user:${user}`) ?? user ?? 'nobody'
  return html`<h2>Feedback</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${answer?.feedback.length === 0 && html`<p class="hint">No answer has been rated yet.</p>`}
    <ul class="cards">
      ${answer?.feedback.map(
        ({ feedback_id, user_id, rating, comment, created_at }) => html`<li key=${feedback_id}>
          <div class="row"><b>${rating > 0 ? 'Good answer' : 'Bad answer'}</b><small>${new Date(created_at).toLocaleString()}</small></div>
          ${comment && html`<span dir="auto">${comment}</span>`}
          <small>${nameOf(user_id)}</small>
        </li>`
      )}
    </ul>`
}

interface AuditEntry {
  readonly audit_id: number
  readonly at: string
  readonly action: string
  readonly actor: string
  readonly target: string | null
  readonly address: string | null
}

/** `names`: of accounts, by what the audit calls them. */
function Audit({ names }: { readonly names: ReadonlyMap<string, string> }) {
  const { answer, problem } = useAnswer<{ entries: AuditEntry[] }>('/api/v1/admin/audit?limit=20')
  return html`<h2>Audit</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    <ul class="cards">
      ${answer?.entries.map(
        ({ audit_id, at, action, actor, target, address }) => html`<li key=${audit_id}>
          <div class="row"><b>${action.replaceAll('_', ' ')}</b><small>${new Date(at).toLocaleString()}</small></div>
          <small>${[names.get(actor) ?? actor, target && `→ ${names.get(target) ?? target}`, address].filter(Boolean).join(' ')}</small>
        </li>`
      )}
    </ul>`
}

interface Invitation {
  readonly invitation_id: string
  readonly name: string
  readonly expires_at: string
}

function Invitations() {
  const { answer, problem, reload } = useAnswer<{ invitations: Invitation[] }>('/api/v1/auth/invitations')
  const [made, setMade] = useState<string | null>(null)
  const invite = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    try {
      const name = String(new FormData(form).get('name'))
      const { invitation } = await call<{ invitation: string }>('POST', '/api/v1/auth/invitations', { name })
      setMade(`${location.origin}${BASE}/#/invitation/${invitation}`)
      form.reset()
      reload()
    } catch (error) {
      notifyFailure(error)
    }
  }
  const revoke = ({ invitation_id }: Invitation) =>
    call('DELETE', `/api/v1/auth/invitations/${invitation_id}`).then(reload, notifyFailure)
  return html`<h2>Invitations</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${
      made &&
      html`<div class="secret" role="status">
        <code>${made}</code>
        <p class="hint">Send this address to whom you invite: it is good for one account, and shown this once.</p>
      </div>`
    }
    <form class="row narrow" onSubmit=${invite}>
      <label>For whom<input name="name" maxlength="100" placeholder="a note for yourself" /></label>
      <button class="plain">Invite</button>
    </form>
    <ul class="cards">
      ${answer?.invitations.map(
        (one) => html`<li key=${one.invitation_id}>
          <div class="row"><b>${one.name || 'An invitation'}</b><button class="quiet" aria-label=${`Take back ${one.name || 'the invitation'}`} onClick=${() => revoke(one)}><${Icon} name="bin" /></button></div>
          <small>good until ${new Date(one.expires_at).toLocaleDateString()}</small>
        </li>`
      )}
    </ul>`
}

interface ToolServer {
  readonly enabled: boolean
  readonly type: string
  readonly command: string | null
  readonly url: string | null
  readonly description: string
  readonly status: { readonly state: string; readonly last_error: string | null; readonly tools: readonly string[] }
}

function ToolServers() {
  const { answer, problem } = useAnswer<{ mcp_servers: Record<string, ToolServer> }>('/api/mcp/config')
  const servers = Object.entries(answer?.mcp_servers ?? {})
  return html`<h2>Tool servers</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${answer && servers.length === 0 && html`<p class="hint">None. They are set by PUT /api/mcp/config.</p>`}
    <ul class="cards">
      ${servers.map(
        ([name, { enabled, type, command, url, description, status }]) => html`<li key=${name}>
          <div class="row"><b>${name}</b><span class=${classes('badge', status.state === 'ready' && 'good', status.state === 'failed' && 'bad')}>${enabled ? status.state : 'off'}</span></div>
          <small>${type}: ${description || url || command}</small>
          ${status.last_error && html`<small class="problem">${status.last_error}</small>`}
          ${status.tools.length > 0 && html`<details><summary>${count(status.tools.length)} tools</summary><small>${status.tools.join(', ')}</small></details>`}
        </li>`
      )}
    </ul>`
}

interface Skill {
  readonly name: string
  readonly description: string
  readonly category: string
  readonly enabled: boolean
}

function Skills() {
  const { answer, problem, reload } = useAnswer<{ skills: Skill[] }>('/api/skills')
  const toggle = ({ name, enabled }: Skill) =>
    call('PUT', `/api/skills/${encodeURIComponent(name)}`, { enabled: !enabled }).then(reload, notifyFailure)
  return html`<h2>Skills</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${answer?.skills.length === 0 && html`<p class="hint">None are installed.</p>`}
    <ul class="cards">
      ${answer?.skills.map(
        (skill) => html`<li key=${skill.name}>
          <div class="row"><b>${skill.name}</b><label class="check"><input type="checkbox" checked=${skill.enabled} onChange=${() => toggle(skill)} /> on</label></div>
          <small>${skill.description}</small>
        </li>`
      )}
    </ul>`
}

interface MemoryFact {
  readonly id: string
  readonly content: string
  readonly category: string
}

function Memory() {
  const { answer, problem, reload } = useAnswer<{ facts: MemoryFact[] }>('/api/memory')
  const forget = ({ id }: MemoryFact) =>
    call('DELETE', `/api/memory/facts/${encodeURIComponent(id)}`).then(reload, notifyFailure)
  return html`<h2>What is remembered of you</h2>
    ${problem && html`<p class="problem">${problem}</p>`}
    ${answer?.facts.length === 0 && html`<p class="hint">Nothing yet.</p>`}
    <ul class="cards">
      ${answer?.facts.map(
        (fact) => html`<li key=${fact.id}>
          <div class="row"><span>${fact.content}</span><button class="quiet" aria-label="Forget this" onClick=${() => forget(fact)}><${Icon} name="bin" /></button></div>
          <small>${fact.category}</small>
        </li>`
      )}
    </ul>`
}
