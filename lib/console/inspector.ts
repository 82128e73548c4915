// The run inspector: timeline, frames as clients get them, events, and comparison with another run.
import { signal, useSignal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { Frame } from '../client/colloquy.ts'
import { beside, call, textOf } from './api.ts'
import { BASE } from './base.ts'
import type { Conversation } from './conversation.ts'
import { classes, html, Icon } from './html.ts'
import { copyText } from './clipboard.ts'
import { isInFlight, plainText, type Run } from './records.ts'
import { Replay } from './replay.ts'
import { go, threadLink } from './router.ts'
import { currencyName, eventsOf, noteOf, type RunEvent, stepsOf } from './steps.ts'
import { count, duration } from './time.ts'
import { notify, notifyFailure } from './toast.ts'

/** Maximum frames kept; all are counted. */
const FRAMES_KEPT = 400
const MODES = ['messages-tuple', 'values', 'updates', 'custom', 'tasks', 'checkpoints', 'debug']

type Tab = 'timeline' | 'replay' | 'frames' | 'events' | 'compare'
const TABS: readonly (readonly [Tab, string])[] = [
  ['timeline', 'Timeline'],
  ['replay', 'Replay'],
  ['frames', 'Frames'],
  ['events', 'Events'],
  ['compare', 'Compare']
]
const tab = signal<Tab>('timeline')

interface ViewProps {
  readonly conversation: Conversation
  readonly runId: string
  readonly otherId: string | null
}

/** What Escape closes or leaves first. */
const NEARER = 'dialog[open], [role=menu], #search:focus, .edit :focus, .chat[inert]'

export function View({ conversation, runId, otherId }: ViewProps) {
  const run = useRun(conversation, runId)
  const close = () => go(threadLink(conversation.threadId))
  useEffect(() => {
    if (otherId) tab.value = 'compare'
  }, [otherId])
  useEffect(() => {
    // Before the page, where Escape stops the answer.
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || event.isComposing || document.querySelector(NEARER)) return
      event.stopImmediatePropagation()
      close()
    }
    addEventListener('keydown', onKey, true)
    return () => removeEventListener('keydown', onKey, true)
  }, [conversation])
  return html`<aside class="panel run" aria-label="The inside of a run">
    <header>
      <h2><${Icon} name="pulse" /> Run ${runId.slice(0, 8)}</h2>
      <button class="plain" onClick=${() => copyCurl(conversation.threadId, runId)}><${Icon} name="copy" /> curl</button>
      <button class="quiet" aria-label="Close the run" onClick=${close}><${Icon} name="close" /></button>
    </header>
    <div class="tabs" role="tablist">
      ${TABS.map(
        ([id, name]) =>
          html`<button key=${id} role="tab" aria-selected=${tab.value === id} onClick=${() => (tab.value = id)}>${name}</button>`
      )}
    </div>
    <div class="panel-body" tabindex="0" role="tabpanel" aria-label=${tab.value}>
      ${typeof run === 'string' ? html`<p class="problem" role="alert">${run}</p>` : run === null ? html`<p class="hint">Loading…</p>` : html`<${Body} key=${runId} ...${{ conversation, run, otherId }} />`}
    </div>
  </aside>`
}

/** How often a run that goes on is read again, in ms. */
const AGAIN_MS = 2000

/** The run, read again while it goes on; a string is an error. */
function useRun({ threadId, active }: Conversation, runId: string): Run | string | null {
  const [run, setRun] = useState<Run | string | null>(null)
  const isOver = run !== null && typeof run !== 'string' && !isInFlight(run)
  useEffect(() => {
    const read = () =>
      call<Run>('GET', `/api/threads/${threadId}/runs/${runId}`).then(setRun, (error) => setRun(textOf(error)))
    void read()
    const timer = isOver ? 0 : setInterval(read, AGAIN_MS)
    return () => clearInterval(timer)
  }, [runId, active.value, isOver])
  return run
}

function Body({ conversation, run, otherId }: { conversation: Conversation; run: Run; otherId: string | null }) {
  const events = useEvents(run)
  const { value } = tab
  if (value === 'replay') return html`<${Replay} run=${run} events=${events} />`
  if (value === 'frames') return html`<${Frames} run=${run} />`
  if (value === 'compare') return html`<${Compare} ...${{ conversation, run, events, otherId }} />`
  if (value === 'events') return html`<${Events} events=${events} />`
  return html`<${Facts} run=${run} events=${events} /><${Timeline} events=${events} />`
}

/** Its events, with those that come while it goes on. */
function useEvents(run: Run): readonly RunEvent[] {
  const [events, setEvents] = useState<readonly RunEvent[]>([])
  useEffect(() => {
    let isGone = false
    let all: readonly RunEvent[] = []
    let loading: Promise<void> | null = null
    const load = async () => {
      const more = await eventsOf(`/api/threads/${run.thread_id}/runs/${run.run_id}`, all.at(-1)?.seq)
      if (isGone || (more.length === 0 && all.length > 0)) return
      all = [...all, ...more]
      setEvents(all)
    }
    const again = () => {
      loading ??= load()
        .catch(() => {})
        .finally(() => (loading = null))
    }
    load().catch(notifyFailure)
    const timer = isInFlight(run) ? setInterval(again, AGAIN_MS) : 0
    return () => {
      isGone = true
      clearInterval(timer)
    }
  }, [run.run_id, run.status])
  return events
}

function factsOf(run: Run, events: readonly RunEvent[]): [string, string][] {
  const ms = Date.parse(run.updated_at) - Date.parse(run.created_at)
  const first = events.find(({ event_type }) => event_type === 'llm_response')?.metadata.first_token_ms
  const tools = events.filter(({ event_type }) => event_type === 'tool_start').length
  return [
    ['Status', run.stop_reason ? `${run.status} (${run.stop_reason})` : run.status],
    ['Duration', run.status === 'running' ? 'running' : duration(ms)],
    ...(typeof first === 'number' ? ([['First token', duration(first)]] as [string, string][]) : []),
    ['Model calls', count(run.llm_call_count)],
    ['Tools', count(tools)],
    ['Tokens in', count(run.total_input_tokens)],
    ['Tokens out', count(run.total_output_tokens)],
    ['By the agent', count(run.lead_agent_tokens)],
    ['By middleware', count(run.middleware_tokens)],
    ['Events', count(events.length)]
  ]
}

function Facts({ run, events }: { run: Run; events: readonly RunEvent[] }) {
  return html`<dl class="facts">
      ${factsOf(run, events).map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}
    </dl>
    <${Joiners} run=${run} />
    ${run.error && html`<div class="failure">${run.error}</div>`}`
}

interface Joiner {
  readonly since: string
  readonly modes: readonly string[]
  readonly next: number | null
  readonly is_full: boolean
}

const JOINERS_MS = 2000

/** The run's readers, polled while it goes on. */
function Joiners({ run }: { run: Run }) {
  const [joiners, setJoiners] = useState<readonly Joiner[]>([])
  const isOver = run.status !== 'running' && run.status !== 'pending'
  useEffect(() => {
    const path = `/api/threads/${run.thread_id}/runs/${run.run_id}/joiners`
    const read = () =>
      void call<{ joiners: Joiner[] }>('GET', path).then(
        (told) => setJoiners(told.joiners),
        () => {}
      )
    read()
    if (isOver) return
    const timer = setInterval(read, JOINERS_MS)
    return () => clearInterval(timer)
  }, [run.run_id, isOver])
  if (joiners.length === 0) return null
  return html`<h3>${joiners.length === 1 ? 'One reader' : `${count(joiners.length)} readers`}</h3>
    <ul class="joiners">
      ${joiners.map(
        ({ since, modes, next, is_full }, i) =>
          html`<li key=${i}>${modes.join(', ')}, since ${new Date(since).toLocaleTimeString()}, ${next === null ? 'about to begin' : `at frame ${count(next)}`}${is_full && ', its line is full'}</li>`
      )}
    </ul>`
}

// -------------------------------------------------------------------------------------------------- timeline

function Timeline({ events }: { events: readonly RunEvent[] }) {
  const [unit, setUnit] = useState('')
  const steps = stepsOf(events)
  const hasMoney = steps.some(({ money }) => money > 0)
  useEffect(() => {
    if (hasMoney) void currencyName().then(setUnit)
  }, [hasMoney])
  if (steps.length === 0) return html`<p class="hint">No model call and no tool has begun yet.</p>`
  const now = Math.max(...steps.map(({ from, to }) => to ?? from), steps.some(({ to }) => to === null) ? Date.now() : 0)
  const begin = Math.min(...steps.map(({ from }) => from))
  const whole = Math.max(1, now - begin)
  return html`<ol class="timeline">
    ${steps.map((step, i) => {
      const { name, kind, from, to, isBad } = step
      return html`<li key=${i}>
        <span class="name" title=${name}>${name}</span>
        <span class="lane"><svg aria-hidden="true"><rect class=${classes(kind, isBad && 'bad')} x=${`${((from - begin) / whole) * 100}%`} width=${`${Math.max(0.6, (((to ?? now) - from) / whole) * 100)}%`} height="100%" rx="4" /></svg></span>
        <small>${noteOf(step, unit)}</small>
      </li>`
    })}
  </ol>`
}

// ---------------------------------------------------------------------------------------------------- frames

interface Seen {
  readonly frames: readonly Frame[]
  readonly total: number
  readonly epochs: readonly string[]
  readonly isLive: boolean
}

function Frames({ run }: { run: Run }) {
  const [only, setOnly] = useState('')
  const seen = useSignal<Seen>({ frames: [], total: 0, epochs: [], isLive: true })
  useEffect(() => {
    let kept: Frame[] = []
    let total = 0
    let isDue = false
    let isDone = false
    const epochs = new Set<string>()
    const names = only === '' ? MODES : [only]
    const stream = beside.watch(run, { modes: names })
    const show = (isLive: boolean) => {
      seen.value = { frames: kept, total, epochs: [...epochs], isLive }
    }
    const follow = async () => {
      for await (const frame of stream) {
        total++
        const epoch = frame.id?.split('-')[0]
        if (epoch) epochs.add(epoch)
        kept.push(frame)
        if (kept.length > FRAMES_KEPT * 2) kept = kept.slice(-FRAMES_KEPT)
        if (isDue) continue
        isDue = true
        requestAnimationFrame(() => {
          isDue = false
          show(!isDone)
        })
      }
      isDone = true
      show(false)
    }
    follow().catch(notifyFailure)
    return () => stream.close()
  }, [run.run_id, only])
  const { frames, total, epochs, isLive } = seen.value
  const shown = frames.slice(-FRAMES_KEPT)
  let epoch: string | undefined
  return html`<div class="tools">
      <label class="check">Mode <select aria-label="Mode" value=${only} onChange=${(event: Event) => setOnly((event.currentTarget as HTMLSelectElement).value)}>
        <option value="">all</option>
        ${MODES.map((mode) => html`<option key=${mode} value=${mode}>${mode}</option>`)}
      </select></label>
      <span>${count(total)} frames${total > shown.length ? `, the last ${shown.length} shown` : ''}</span>
      ${isLive && html`<span class="badge live">live</span>`}
      ${epochs.length > 1 && html`<span class="badge bad">${epochs.length} attempts</span>`}
    </div>
    <ol class="frames">
      ${shown.map(({ event, data, id }, i) => {
        const now = id?.split('-')[0]
        const isNew = epoch !== undefined && now !== undefined && now !== epoch
        epoch = now ?? epoch
        const text = JSON.stringify(data)
        return html`${isNew && html`<li key=${`epoch ${now}`} class="epoch">A new attempt: the process before it had ended</li>`}
          <li key=${id ?? `${event} ${i}`}><span class="id">${id?.split('-')[1] ?? '–'}</span><span class="name">${event}</span><details><summary class="data">${text.slice(0, 300)}</summary><pre tabindex="0">${JSON.stringify(data, null, 2).slice(0, 20_000)}</pre></details></li>`
      })}
    </ol>`
}

function Events({ events }: { events: readonly RunEvent[] }) {
  return html`<div class="tools"><span>${count(events.length)} events</span></div>
    <ol class="frames events">
      ${events.map(
        ({ seq, event_type, content, metadata, created_at }) => html`<li key=${seq}>
          <span class="id">${seq}</span><span class="name">${event_type}</span>
          <details><summary class="data">${created_at.slice(11, 23)} ${(typeof content === 'string' ? content : JSON.stringify(content)).slice(0, 300)}</summary><pre tabindex="0">${JSON.stringify({ metadata, content }, null, 2).slice(0, 20_000)}</pre></details>
        </li>`
      )}
    </ol>`
}

// --------------------------------------------------------------------------------------------------- compare

interface CompareProps {
  readonly conversation: Conversation
  readonly run: Run
  readonly events: readonly RunEvent[]
  readonly otherId: string | null
}

function Compare({ conversation, run, events, otherId }: CompareProps) {
  const { runs } = conversation
  const others = runs.value.filter(({ run_id }) => run_id !== run.run_id)
  const before = others.find(({ created_at }) => created_at < run.created_at)
  const other = others.find(({ run_id }) => run_id === otherId) ?? before ?? others[0]
  const choose = (event: Event) => {
    const { value } = event.currentTarget as HTMLSelectElement
    go(`${threadLink(conversation.threadId, run.run_id)}/${value}`)
  }
  if (!other) return html`<p class="hint">This is the only run of its conversation.</p>`
  return html`<div class="tools"><label class="check">Beside <select aria-label="The other run" value=${other.run_id} onChange=${choose}>
      ${others.map((one) => html`<option key=${one.run_id} value=${one.run_id}>${nameOf(conversation, one)}</option>`)}
    </select></label></div>
    <${SideBySide} key=${other.run_id} run=${run} events=${events} other=${other} />`
}

function nameOf(conversation: Conversation, { run_id, status, created_at }: Run): string {
  const asked = conversation.shown.asked(run_id)
  const words = asked ? plainText(asked.content).slice(0, 40) : ''
  return [run_id.slice(0, 8), words, status, new Date(created_at).toLocaleTimeString()].filter(Boolean).join(', ')
}

function SideBySide({ run, events, other }: { run: Run; events: readonly RunEvent[]; other: Run }) {
  const otherEvents = useEvents(other)
  const facts = new Map(factsOf(other, otherEvents))
  return html`<table class="compare">
      <thead><tr><th>What</th><th>${run.run_id.slice(0, 8)}</th><th>${other.run_id.slice(0, 8)}</th></tr></thead>
      <tbody>${factsOf(run, events).map(([name, text]) => html`<tr key=${name}><th scope="row">${name}</th><td>${text}</td><td>${facts.get(name) ?? '–'}</td></tr>`)}</tbody>
    </table>
    <h3>${run.run_id.slice(0, 8)}</h3><${Timeline} events=${events} />
    <h3>${other.run_id.slice(0, 8)}</h3><${Timeline} events=${otherEvents} />`
}

function copyCurl(threadId: string, runId: string): void {
  const url = `${location.origin}${BASE}/api/threads/${threadId}/runs/${runId}/stream`
  const text = `curl -N -H 'Accept: text/event-stream' -H "Authorization: Bearer $COLLOQUY_TOKEN" '${url}'`
  void copyText(text).then((isCopied) => {
    if (isCopied) notify('Copied. Put an API token with runs:read into COLLOQUY_TOKEN.')
  })
}
