// Lanes of sub-agents as they are shown: while a run goes on, and read again later.
import { useEffect, useState } from 'preact/hooks'
import { Transcript, type TranscriptMessage } from '../client/colloquy.ts'
import { textOf } from './api.ts'
import { classes, html, Icon } from './html.ts'
import { type Lane, Lanes } from './lanes.ts'
import { Markdown } from './markdown.ts'
import { framesOf } from './recording.ts'
import { partsOf, type Run } from './records.ts'
import { eventsOf, type RunEvent } from './steps.ts'
import { Picture, Result } from './tool-calls.ts'
import { t } from './words.ts'

const isBelow = (path: string, outer: string): boolean => path.startsWith(`${outer}|`)

/** Lanes that are in no other one of the list, each with those inside of it. */
export function LaneList({ lanes, isRunning }: { readonly lanes: readonly Lane[]; readonly isRunning: boolean }) {
  const outer = lanes.filter(({ path }) => !lanes.some((other) => isBelow(path, other.path)))
  if (outer.length === 0) return null
  return html`<ul class="lanes" aria-label="Sub-agents">
    ${outer.map((lane) => html`<${OneLane} key=${lane.path} lane=${lane} inner=${lanes.filter(({ path }) => isBelow(path, lane.path))} isRunning=${isRunning} />`)}
  </ul>`
}

interface LaneProps {
  readonly lane: Lane
  readonly inner: readonly Lane[]
  readonly isRunning: boolean
}

function OneLane({ lane, inner, isRunning }: LaneProps) {
  const last = lane.messages.at(-1)
  const isAtWork = isRunning && last?.isPartial === true
  return html`<li>
    <details class="fold" open=${isRunning}>
      <summary><${Icon} name="user" /> <span class=${classes(isAtWork && 'shimmer')} dir="auto">${lane.name}</span></summary>
      <div class="inside">
        <${Said} messages=${lane.messages} />
        <${LaneList} lanes=${inner} isRunning=${isRunning} />
      </div>
    </details>
  </li>`
}

/** What agents say and call, and what comes of it, without anything to do. */
export function Said({ messages }: { readonly messages: readonly TranscriptMessage[] }) {
  return messages
    .filter(({ type }) => type !== 'human')
    .map(
      ({ id, type, content, calls, reasoning, raw }) => html`<div key=${id} class="said">
        ${reasoning && html`<details><summary>Thoughts</summary><p dir="auto">${reasoning}</p></details>`}
        ${type === 'tool' ? html`<h4 dir="auto">${String(raw.name ?? t('Result'))}</h4><${Result} content=${content} />` : partsOf(content).map((part, i) => ('text' in part ? html`<${Markdown} key=${i} text=${part.text} />` : html`<${Picture} key=${i} url=${part.image} />`))}
        ${calls.map((call, i) => html`<p key=${call.id ?? i} class="called"><${Icon} name="tool" /> <code>${call.name} ${call.args.slice(0, 400)}</code></p>`)}
      </div>`
    )
}

/** The lanes of a run that has ended: from its frames while they are kept, later from its events. */
async function lanesOf(run: Run, signal: AbortSignal): Promise<readonly Lane[]> {
  const transcript = new Transcript()
  const lanes = new Lanes()
  for (const frame of await framesOf(run, signal)) if (!lanes.apply(frame, transcript.messages)) transcript.apply(frame)
  if (lanes.list.length > 0) return lanes.list
  return ofEvents(await eventsOf(`/api/threads/${run.thread_id}/runs/${run.run_id}`, undefined, 'llm_response'))
}

/** One lane for each sub-agent that has called a model. */
function ofEvents(events: readonly RunEvent[]): Lane[] {
  const lanes = new Map<string, TranscriptMessage[]>()
  for (const { seq, content, metadata } of events) {
    const name = /^subagent:(.+)/s.exec(String(metadata.caller))?.[1]
    const { choices } = (content ?? {}) as { choices?: { message?: { content?: unknown } }[] }
    const text = choices?.[0]?.message?.content
    if (name === undefined || typeof text !== 'string' || text === '') continue
    const raw = {}
    const message = { id: String(seq), type: 'ai', content: text, isPartial: false, calls: [], reasoning: '', raw }
    lanes.set(name, [...(lanes.get(name) ?? []), message])
  }
  return [...lanes].map(([name, messages]) => ({ path: name, name, callerId: null, messages }))
}

/** What the sub-agents of a run have said, read when it is opened. */
export function View({ run }: { readonly run: Run }) {
  const [lanes, setLanes] = useState<readonly Lane[] | string | null>(null)
  useEffect(() => {
    const abort = new AbortController()
    lanesOf(run, abort.signal).then(setLanes, (error) => !abort.signal.aborted && setLanes(textOf(error)))
    return () => abort.abort()
  }, [run.run_id])
  if (lanes === null) return html`<p class="hint">Loading…</p>`
  if (typeof lanes === 'string') return html`<p class="problem" role="alert">${lanes}</p>`
  if (lanes.length === 0) return html`<p class="hint">What they said is no longer kept.</p>`
  return html`<${LaneList} lanes=${lanes} isRunning=${false} />`
}
