// Calls of an agent's tools with their results, which are texts as they stand or images.
import { useSignal } from '@preact/signals'
import type { ToolCallPart, TranscriptMessage } from '../client/colloquy.ts'
import { classes, html, Icon } from './html.ts'
import { argsOf, isInline, partsOf, plainText, pretty, short } from './records.ts'
import { t } from './words.ts'

/** Loading an image from elsewhere would reveal the reader to its server, so it is only a link. */
export function Picture({ url, alt = t('Image in the answer') }: { readonly url: string; readonly alt?: string }) {
  if (isInline(url)) return html`<img class="picture" src=${url} alt=${alt} />`
  const there = URL.canParse(url) ? new URL(url) : null
  if (!there || !/^https?:/.test(there.protocol)) return html`<p class="hint">An image that cannot be shown.</p>`
  return html`<p><a href=${url} target="_blank" rel="noopener noreferrer"><${Icon} name="open" /> Image: ${url} <small>${there.host}</small></a></p>`
}

/** Characters of a text from which on it is data, in a block that is neither text nor image. */
const DATA_MIN = 200

const withoutData = (_: string, value: unknown): unknown =>
  typeof value === 'string' && value.length > DATA_MIN ? `${value.slice(0, DATA_MIN)}…` : value

/** What a tool has answered: each text as it is, and images. */
export function Result({ content }: Pick<TranscriptMessage, 'content'>) {
  if (typeof content === 'string') return html`<pre tabindex="0">${content}</pre>`
  return content.map((block, i) => {
    const [part] = partsOf([block])
    if (part && 'image' in part) return html`<${Picture} key=${i} url=${part.image} alt=${t('Image')} />`
    return html`<pre key=${i} tabindex="0">${part ? part.text : JSON.stringify(block, withoutData, 2)}</pre>`
  })
}

interface CallProps {
  readonly call: ToolCallPart
  readonly result: TranscriptMessage | undefined
  readonly isRunning: boolean
  /** The thread waits for an answer, and shows what is asked. */
  readonly isAsked: boolean
  /** Its run was stopped: nothing comes of it any more. */
  readonly isStopped: boolean
  /** Its run in the API; null: its steps are not this reader's to see. */
  readonly runPath: string | null
}

/** What a step took, once its fold is open. */
function useNote(path: string | null, callId: string | null): { note: string; onToggle: (event: Event) => void } {
  const note = useSignal('')
  const onToggle = (event: Event) => {
    if (!(event.currentTarget as HTMLDetailsElement).open || path === null || callId === null) return
    void import('./steps.ts')
      .then(({ callNote }) => callNote(path, callId))
      .then((text) => (note.value = text))
      .catch(() => {})
  }
  return { note: note.value, onToggle }
}

export function Call({ call, result, isRunning, isAsked, isStopped, runPath }: CallProps) {
  const { note, onToggle } = useNote(result ? runPath : null, call.id)
  if (call.name === 'ask_user' && result && result.raw.status !== 'error')
    return html`<${Answered} ...${{ call, result, isAsked }} />`
  const hasFailed = result?.raw.status === 'error'
  const mark = result ? (hasFailed ? 'failed' : 'done') : isRunning ? 'running' : 'open'
  return html`<details class=${classes('fold call', mark)} onToggle=${onToggle}>
    <summary>
      <${Icon} name="tool" />
      <span class=${mark === 'running' ? 'shimmer' : ''}>${call.name}</span>
      <small>${mark === 'failed' ? t('failed') : mark === 'done' ? short(call.args) : mark === 'running' ? t('working…') : isStopped ? t('Stopped.') : t('waits')}</small>
    </summary>
    <div class="inside">
      <h4>Arguments</h4>
      <pre tabindex="0">${pretty(call.args)}</pre>
      ${result && html`<h4>${hasFailed ? t('Error') : t('Result')}</h4><${Result} content=${result.content} />`}
      ${note && html`<p class="hint took">${note}</p>`}
    </div>
  </details>`
}

type AnsweredProps = Pick<CallProps, 'call' | 'isAsked'> & { readonly result: TranscriptMessage }

/** A question of the agent, and what its user has chosen. */
function Answered({ call, result, isAsked }: AnsweredProps) {
  const { question } = argsOf(call.args)
  const words = plainText(result.content)
  // While it is open, the question stands there as its result.
  const isOpen = words.startsWith(String(question))
  if (isOpen && isAsked) return null
  return html`<div class="answered"><span dir="auto">${String(question ?? call.name)}</span>${!isOpen && html`<b dir="auto">${words}</b>`}</div>`
}
