// One message: text, reasoning and tool calls, and its actions.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { TranscriptMessage } from '../client/colloquy.ts'
import { sayGrowing } from './announce.ts'
import { textOf } from './api.ts'
import type { Conversation } from './conversation.ts'
import { artifactUrl, pictureOf } from './files.ts'
import { classes, focusComposer, html, Icon, Thumb } from './html.ts'
import type { Lane } from './lanes.ts'
import { Later } from './later.ts'
import { copyText } from './clipboard.ts'
import { cutOf, extrasOf, filesOf, isFailed, lookOf, partsOf, plainText, type Run } from './records.ts'
import { threadLink } from './router.ts'
import { Sources, sourcesOf } from './sources.ts'
import { bytes, clock, count, duration } from './time.ts'
import { notify } from './toast.ts'
import { Call, Picture, Result } from './tool-calls.ts'
import { memo } from './memo.ts'
import { t } from './words.ts'

interface MessageProps {
  readonly message: TranscriptMessage
  readonly conversation: Conversation
  /** Results of its calls, as far as they have arrived. */
  readonly results: readonly (TranscriptMessage | undefined)[]
  /** The last answer of its run. */
  readonly isLast: boolean
  readonly isRunning: boolean
  /** Index of the shown branch among those that start at this message, and all of them. */
  readonly branch: number
  readonly branches: readonly string[]
  /** Sub-agents that its calls have begun, as far as this page has seen them. */
  readonly lanes: readonly Lane[]
}

const failed = (error: unknown) =>
  notify(error instanceof Error && error.name === 'Error' ? error.message : textOf(error), true)

export const Message = memo((props: MessageProps) => {
  const { type } = props.message
  if (type === 'human') return html`<${Human} ...${props} />`
  if (type === 'ai') return html`<${Ai} ...${props} />`
  return html`<${Aside} ...${props} />`
})

function Human({ message, conversation, isRunning, branch, branches }: MessageProps) {
  const isEditing = useSignal(false)
  const box = useRef<HTMLElement>(null)
  const text = plainText(message.content)
  const files = filesOf(message)
  const close = () => {
    isEditing.value = false
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>('.edits')?.focus())
  }
  if (isEditing.value) return html`<${Edit} ...${{ message, conversation, text }} onClose=${close} />`
  const switchTo = async (at: number) => {
    const place = humans().indexOf(box.current!)
    await conversation.switchTo(branches[at]!).catch(failed)
    // The message of the other branch stands in the same place, with buttons of its own.
    requestAnimationFrame(() => {
      const buttons = [...(humans()[place]?.querySelectorAll<HTMLButtonElement>('.switch button') ?? [])]
      const wanted = at > branch ? buttons.toReversed() : buttons
      wanted.find(({ disabled }) => !disabled)?.focus()
    })
  }
  return html`<article class="message human" data-message=${message.id} aria-label="You" ref=${box}>
    ${
      files.length > 0 &&
      html`<ul class="files">
        ${files.map(
          (file) => html`<li key=${file.filename}>
            <a href=${artifactUrl(conversation.threadId, file.virtual_path)} target="_blank" rel="noopener"><${Thumb} picture=${pictureOf(conversation.threadId, file)} /> ${file.filename} <small>${bytes(file.size)}</small></a>
          </li>`
        )}
      </ul>`
    }
    ${partsOf(message.content).map((part, i) => 'image' in part && html`<${Picture} key=${i} url=${part.image} alt=${t('Image')} />`)}
    ${text && html`<${Asked} text=${text} />`}
    <div class="actions">
      ${
        branches.length > 1 &&
        html`<span class="switch" role="group" aria-label="Branches">
          <button class="quiet" aria-label="Previous branch" disabled=${branch === 0 || isRunning} onClick=${() => switchTo(branch - 1)}><${Icon} name="left" /></button>
          <span>${branch + 1} / ${branches.length}</span>
          <button class="quiet" aria-label="Next branch" disabled=${branch === branches.length - 1 || isRunning} onClick=${() => switchTo(branch + 1)}><${Icon} name="right" /></button>
        </span>`
      }
      ${!conversation.isReadOnly && html`<button class="quiet edits" title="Edit" aria-label="Edit" disabled=${isRunning} onClick=${() => (isEditing.value = true)}><${Icon} name="pen" /></button>`}
      <${Copy} text=${text} />
    </div>
  </article>`
}

/** Characters or lines of a question from which on it is folded, and characters of its beginning that is shown then. */
const LONG = /^.{5000}|^(?:[^\n]*\n){60}/s
const BEGINNING = 400

function Asked({ text }: { readonly text: string }) {
  if (!LONG.test(text)) return html`<div class="bubble" dir="auto">${text}</div>`
  return html`<details class="bubble" dir="auto">
    <summary><span>${text.slice(0, BEGINNING).split('\n', 10).join('\n')}…</span> <small>${bytes(new Blob([text]).size)}</small></summary>
    ${text}
  </details>`
}

const humans = () => [...document.querySelectorAll<HTMLElement>('.message.human')]

interface EditProps {
  readonly message: TranscriptMessage
  readonly conversation: Conversation
  readonly text: string
  readonly onClose: () => void
}

function Edit({ message, conversation, text, onClose }: EditProps) {
  const isSending = useSignal(false)
  const kept = useSignal(extrasOf(message))
  const area = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    area.current?.focus()
    area.current?.setSelectionRange(text.length, text.length)
  }, [])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const next = String(new FormData(event.currentTarget as HTMLFormElement).get('text')).trim()
    if (!next && kept.value.length === 0) return onClose()
    if (isSending.value) return
    isSending.value = true
    // What could not be sent stays to be sent again.
    conversation.outbox.edit(message, next, kept.value).then(focusComposer, (error: unknown) => {
      isSending.value = false
      failed(error)
    })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) area.current?.form?.requestSubmit()
    if (event.key !== 'Escape') return
    // Escape would also stop an answer.
    event.stopPropagation()
    onClose()
  }
  return html`<form class="message human edit" onSubmit=${submit} onKeyDown=${onKeyDown}>
    ${
      kept.value.length > 0 &&
      html`<ul class="files">
        ${kept.value.map((extra) => {
          const { name, picture } = lookOf(extra)
          return html`<li key=${extra}>
            <span><${Thumb} picture=${picture} /> ${name}</span>
            <button type="button" class="quiet" aria-label=${t('Remove {}', name)} onClick=${() => (kept.value = kept.value.filter((one) => one !== extra))}><${Icon} name="close" /></button>
          </li>`
        })}
      </ul>`
    }
    <textarea ref=${area} name="text" dir="auto" aria-label="Edit your message" rows="4">${text}</textarea>
    <div class="row end">
      <button type="button" class="plain" onClick=${onClose}>Cancel</button>
      <button class="primary" disabled=${isSending.value}>Send again</button>
    </div>
    <p class="hint">What was answered before stays, as another branch.</p>
  </form>`
}

function Ai({ message, conversation, results, isLast, isRunning, lanes }: MessageProps) {
  const text = plainText(message.content)
  const { id, raw, reasoning, calls, isPartial } = message
  const sources = sourcesOf(message)
  const box = useRef<HTMLElement>(null)
  useEffect(() => sayGrowing(id, box.current!, !isPartial))
  const runId = conversation.shown.runOf(message)
  // No actions while a question is open.
  const waits =
    conversation.questions.value.length > 0 &&
    conversation.messages.value.findLast(({ type }) => type === 'ai')?.id === message.id
  const isThinking = isPartial && reasoning !== '' && text === '' && calls.length === 0
  const thought = useThought(isThinking)
  const mark = conversation.away.mark.value
  const left = mark?.id === id ? mark : null
  const run = isLast ? conversation.runs.value.find(({ run_id }) => run_id === runId) : undefined
  // Behind it there may be what its tools have answered.
  const isNewest = conversation.messages.value.findLast(({ type }) => type !== 'tool') === message
  const isOwn = runId !== null && !conversation.isReadOnly
  const runPath = isOwn ? `/api/threads/${conversation.threadId}/runs/${runId}` : null
  const hasLanes = conversation.lanes.list.value.some(({ callerId }) => isOfRun(conversation, callerId, runId))
  const goOn = (id: string) => {
    focusComposer()
    return conversation.outbox.continueFrom(id).catch(failed)
  }
  const cut = isPartial || isRunning || waits ? null : cutOf(message, run)
  const isStopped = cut !== null || (!isRunning && run !== undefined && isFailed(run))
  return html`<article class=${classes('message ai', isPartial && 'live')} data-message=${message.id} aria-label="Answer" aria-busy=${isPartial} ref=${box}>
    ${
      reasoning &&
      html`<details class="fold reasoning">
        <summary><${Icon} name="bulb" /> ${isThinking ? html`<span class="shimmer">Thinking…</span>` : t('Thoughts')} <small>${thought}</small></summary>
        <div class="inside"><${Later} load=${markdown} props=${{ text: reasoning }} /></div>
      </details>`
    }
    ${partsOf(message.content).map((part, i) => ('text' in part ? html`<${Later} key=${i} load=${markdown} props=${{ text: part.text, threadId: conversation.threadId, left: i === 0 ? left : null }} />` : html`<${Picture} key=${i} url=${part.image} />`))}
    ${sources.length > 0 && html`<${Sources} sources=${sources} />`}
    ${calls.map((call, i) => html`<${Call} key=${call.id ?? i} ...${{ call, result: results[i], isRunning, isAsked: waits, isStopped, runPath }} />`)}
    ${lanes.length > 0 && html`<${Later} load=${laneList} props=${{ lanes, isRunning }} />`}
    ${isLast && !isRunning && isOwn && run && run.subagent_tokens > 0 && !hasLanes && html`<${SubAgents} key=${run.run_id} run=${run} />`}
    ${
      cut &&
      html`<p class="cut">
        <span>${cut}</span>
        ${isNewest && runId && !conversation.isReadOnly && html` <button class="link" onClick=${() => void goOn(runId)}>Continue</button>`}
      </p>`
    }
    ${
      isLast && !isPartial && !isRunning && runId !== null && !waits
        ? html`<${Actions} ...${{ conversation, message, runId, text, usage: raw.usage_metadata }} />`
        : null
    }
  </article>`
}

/** How long it was thought, in words; '': nobody has seen it here. */
function useThought(isThinking: boolean): string {
  const begun = useRef(0)
  const took = useSignal('')
  useEffect(() => {
    if (isThinking) begun.current = Date.now()
    else if (begun.current > 0) took.value = duration(Date.now() - begun.current)
  }, [isThinking])
  return took.value
}

function isOfRun(conversation: Conversation, messageId: string | null, runId: string | null): boolean {
  const message = conversation.messages.value.find(({ id }) => id === messageId)
  return message !== undefined && conversation.shown.runOf(message) === runId
}

/** Loaded with the first answer: a page on which nothing is said yet takes keys without a third of its weight. */
export const markdown = () => import('./markdown.ts')
const laneList = () => import('./lane-list.ts').then(({ LaneList }) => ({ View: LaneList }))
const laneView = () => import('./lane-list.ts')

/** What sub-agents have said, which the conversation does not have. */
function SubAgents({ run }: { readonly run: Run }) {
  const isOpen = useSignal(false)
  const onToggle = (event: Event) => (isOpen.value = (event.currentTarget as HTMLDetailsElement).open)
  return html`<details class="fold" onToggle=${onToggle}>
    <summary><${Icon} name="user" /> Sub-agents <small>${count(run.subagent_tokens)} tokens</small></summary>
    <div class="inside">${isOpen.value && html`<${Later} load=${laneView} props=${{ run }} />`}</div>
  </details>`
}

interface ActionsProps {
  readonly conversation: Conversation
  readonly message: TranscriptMessage
  readonly runId: string
  readonly text: string
  readonly usage: unknown
}

function Actions({ conversation, message, runId, text, usage }: ActionsProps) {
  const given = (message.raw.feedback as { rating?: number } | null | undefined)?.rating ?? null
  const asksWhy = useSignal(false)
  const explain = (event: SubmitEvent) => {
    event.preventDefault()
    const comment = String(new FormData(event.currentTarget as HTMLFormElement).get('why')).trim()
    asksWhy.value = false
    if (comment && given)
      conversation.shown.rate(runId, message.id, given as 1 | -1, comment).then(() => notify('Thank you.'), failed)
  }
  const rate = (rating: 1 | -1) => {
    asksWhy.value = given !== rating
    void send(rating)
  }
  const send = (rating: 1 | -1) =>
    conversation.shown.rate(runId, message.id, given === rating ? null : rating).catch(failed)
  const retry = () => {
    focusComposer()
    conversation.outbox.retry(runId).catch(failed)
  }
  const tokens = (usage as { total_tokens?: number } | null)?.total_tokens
  const run = conversation.runs.value.find(({ run_id }) => run_id === runId)
  const model = (message.raw.response_metadata as { model_name?: unknown } | null)?.model_name
  const facts = [
    typeof model === 'string' ? model : '',
    run ? clock(run.updated_at) : '',
    run ? duration(Date.parse(run.updated_at) - Date.parse(run.created_at)) : '',
    tokens ? t('{} tokens', count(tokens)) : ''
  ]
  return html`<div class="actions">
    <${Copy} text=${text} />
    ${
      !conversation.isReadOnly &&
      html`<button class=${classes('quiet', given === 1 && 'on')} title="Good answer" aria-label="Good answer" aria-pressed=${given === 1} onClick=${() => rate(1)}><${Icon} name="up" /></button>
    <button class=${classes('quiet', given === -1 && 'on')} title="Bad answer" aria-label="Bad answer" aria-pressed=${given === -1} onClick=${() => rate(-1)}><${Icon} name="down" /></button>
    <button class="quiet" title="Try again" aria-label="Try again" onClick=${retry}><${Icon} name="retry" /></button>
    <a class="quiet button" title="Look inside this run" aria-label="Look inside this run" href=${threadLink(conversation.threadId, runId)}><${Icon} name="pulse" /></a>`
    }
    <small class="tokens">${facts.filter(Boolean).join(' · ')}</small>
  </div>
  ${
    asksWhy.value &&
    given !== null &&
    html`<form class="why row" onSubmit=${explain}>
      <input name="why" aria-label="A word about it" placeholder=${given === 1 ? t('What was good? (optional)') : t('What was wrong? (optional)')} maxlength="1000" autocomplete="off" />
      <button class="plain">Send</button>
    </form>`
  }`
}

function Copy({ text }: { readonly text: string }) {
  const isDone = useSignal(false)
  const copy = () =>
    copyText(text).then((isCopied) => {
      if (!isCopied) return
      isDone.value = true
      setTimeout(() => (isDone.value = false), 1500)
    })
  return html`<button class="quiet" title="Copy" aria-label=${isDone.value ? t('Copied') : t('Copy')} onClick=${copy}><${Icon} name=${isDone.value ? 'check' : 'copy'} /></button>`
}

/** A system message, or a tool result whose call is missing. */
function Aside({ message }: MessageProps) {
  return html`<details class="fold aside">
    <summary><${Icon} name="file" /> ${message.type === 'tool' ? String(message.raw.name ?? 'tool') : message.type}</summary>
    <div class="inside"><${Result} content=${message.content} /></div>
  </details>`
}
