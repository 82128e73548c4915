// The conversation view: messages, progress of the run, and the composer.
import { signal, useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { TranscriptMessage } from '../client/colloquy.ts'
import { call } from './api.ts'
import { choice } from './choice.ts'
import { onMarkdownClick } from './answer-buttons.ts'
import { onCopy } from './clipboard.ts'
import { Composer } from './composer.ts'
import { Connecting } from './connecting.ts'
import type { Conversation } from './conversation.ts'
import { nameOf, versionsOf } from './files.ts'
import { classes, focusComposer, html, Icon } from './html.ts'
import { Later, useLater } from './later.ts'
import { markdown, Message } from './message.ts'
import { decisionsIn } from './decisions.ts'
import { type Chosen, plainText, stopOf } from './records.ts'
import { QueueList } from './queue.ts'
import { go, place } from './router.ts'
import { Group, useEnd, useWanted } from './scroll.ts'
import { me } from './session.ts'
import { count, duration } from './time.ts'
import { notifyFailure } from './toast.ts'
import { Uploads } from './uploads.ts'
import { t, serverWords } from './words.ts'

const GROUP = 20

interface Row {
  readonly message: TranscriptMessage
  readonly results: readonly (TranscriptMessage | undefined)[]
  readonly isLast: boolean
  /** The answer to a human message. */
  readonly answer: TranscriptMessage | undefined
}

const isAnswer = ({ type }: TranscriptMessage) => type === 'ai'

/** Messages as rows: results are shown with their calls, and the last answer of each run is marked. */
function rowsOf(messages: readonly TranscriptMessage[]): Row[] {
  const results = new Map<unknown, TranscriptMessage>()
  const called = new Set<unknown>()
  for (const message of messages) {
    if (message.type === 'tool') results.set(message.raw.tool_call_id, message)
    for (const { id } of message.calls) if (id) called.add(id)
  }
  const shown = messages.filter(({ type, raw }) => type !== 'tool' || !called.has(raw.tool_call_id))
  return shown.map((message, i) => ({
    message,
    results: message.calls.map(({ id }) => results.get(id)),
    isLast: message.type === 'ai' && shown[i + 1]?.type !== 'ai',
    answer: message.type === 'human' && shown[i + 1]?.type === 'ai' ? shown[i + 1] : undefined
  }))
}

interface ChatProps {
  readonly conversation: Conversation
  readonly onSent: () => void
}

export function Chat({ conversation, onSent }: ChatProps) {
  const uploads = useMemo(() => Uploads.of(conversation.threadId), [conversation])
  const scroller = useRef<HTMLDivElement>(null)
  const openFile = useSignal<string | null>(null)
  const isDropping = useSignal(false)
  const messages = conversation.messages.value
  const state = conversation.state.value
  const hasMarkdown = useLater(markdown, state !== 'new' || messages.length > 0) !== null
  const isComing = state === 'loading' || (!hasMarkdown && messages.some(isAnswer))
  const isRunning = conversation.active.value !== null
  const wantedId = place.value.view === 'thread' ? place.value.messageId : null
  const { isAway, toEnd } = useEnd(scroller, messages, wantedId)
  const rows = useMemo(() => rowsOf(messages), [messages])
  const decisions = decisionsIn(conversation, messages)
  useWanted(wantedId, state === 'ready' && hasMarkdown, toEnd)
  const send = (text: string) => conversation.outbox.send(text, [], choice.value).catch(notifyFailure)

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      // Elsewhere Escape has another meaning.
      const isMeant = !event.isComposing && !document.querySelector('dialog[open], #search:focus, .chat[inert]')
      if (event.key === 'Escape' && isMeant && !conversation.isReadOnly) void conversation.stop()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [conversation])

  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    isDropping.value = false
    if (!conversation.isReadOnly) uploads.add(event.dataTransfer?.files ?? [])
  }

  if (state === 'missing')
    return html`<main class="chat empty"><div class="welcome"><h1>There is nothing here</h1><p class="lead">This conversation does not exist, or it is not yours.</p><button class="primary" onClick=${() => go('#/')}>Start a new one</button></div></main>`

  const { isReadOnly } = conversation
  const isEmpty = !isReadOnly && messages.length === 0 && !isRunning && state !== 'loading' && state !== 'broken'
  const lastAi = messages.at(-1)
  const [newestRun] = conversation.runs.value
  const stopped = newestRun ? stopOf(newestRun) : null
  const waitsForWords = isRunning && !(lastAi?.type === 'ai' && lastAi.isPartial)
  return html`<main
      class=${classes('chat', isEmpty && 'empty', openFile.value && 'beside')}
      onDragOver=${(event: DragEvent) => {
        event.preventDefault()
        isDropping.value = true
      }}
      onDragLeave=${(event: DragEvent) => {
        if (!(event.currentTarget as Element).contains(event.relatedTarget as Node | null)) isDropping.value = false
      }}
      onDrop=${onDrop}
    >
      <div class="scroller" ref=${scroller} onClick=${onMarkdownClick} onCopy=${onCopy}>
        <div class="column">${!isEmpty && html`<h1 class="unseen">${conversation.shown.title.value ?? t('New conversation')}</h1>`}
          ${
            isEmpty &&
            html`<${Welcome} onAsk=${(text: string) => {
              onSent()
              void send(text)
            }} />`
          }
          ${isComing && html`<div class="skeleton" aria-label="Loading"><i></i><i></i><i></i></div>`}
          ${groupsOf(hasMarkdown ? rows : rows.filter(({ message }) => !isAnswer(message))).map(
            (group, g, all) =>
              html`<${Group} key=${g} size=${group.length} isDrawn=${g >= all.length - 2 || group.some(({ message }) => message.id === wantedId)} render=${() =>
                group.map(
                  (row) =>
                    html`<${MessageRow} key=${row.message.id} ...${{ row, conversation, isRunning, chosen: decisions.get(row.message.id) }} />`
                )} />`
          )}
          ${waitsForWords && html`<div class="waiting" role="status"><i></i><i></i><i></i><span>${conversation.progress.value ?? ''}</span></div>`}
          ${lastAi?.type === 'human' && !isRunning && stopped && html`<p class="cut"><span>${stopped}</span> <${AskAgain} conversation=${conversation} /></p>`}
          ${isRunning && html`<${Silence} conversation=${conversation} />`}
          ${conversation.failure.value && !isRunning && html`<${Failed} conversation=${conversation} />`}
          ${
            !isRunning &&
            !isReadOnly &&
            conversation.questions.value.map(
              (question) =>
                html`<${Later} key=${question.id} load=${questions} props=${{
                  question,
                  onAnswer: (answer: unknown, chosen: readonly Chosen[]) =>
                    conversation.outbox.answer(question, answer, chosen).then(focusComposer, (error) => {
                      notifyFailure(error)
                      throw error
                    })
                }} />`
            )
          }
          ${
            conversation.shown.artifacts.value.length > 0 &&
            html`<ul class="files made" aria-label="Files of this conversation">
              ${conversation.shown.artifacts.value.map(
                (path) =>
                  html`<li key=${path}><button class="plain" onClick=${() => (openFile.value = path)}><${Icon} name="file" /> ${nameOf(path)}</button></li>`
              )}
            </ul>`
          }
          ${
            !isRunning &&
            conversation.suggestions.value.length > 0 &&
            html`<div class="suggestions">
              ${conversation.suggestions.value.map((text) => html`<button class="plain" key=${text} onClick=${() => void send(text)}>${text}</button>`)}
            </div>`
          }
        </div>
      </div>
      ${isAway && html`<button class="to-end" aria-label="To the newest message" onClick=${toEnd}><${Icon} name="fold" /></button>`}
      <div class="dock">
        <${Connecting} conversation=${conversation} />
        ${(isRunning || conversation.questions.value.length > 0) && html`<${Later} load=${plan} props=${{ messages, values: conversation.shown.values }} />`}
        ${
          !isReadOnly &&
          html`<${QueueList} queue=${conversation.queue} outbox=${conversation.outbox} isLost=${conversation.connection.now.value.failures > 0} onInterrupt=${() => void conversation.stop()} />
            <${Composer} key=${conversation.threadId} ...${{ conversation, uploads, onSent }} />`
        }
        <p class="hint foot">
          ${conversation.active.value && !isReadOnly ? t('Goes on when you close this page. Enter queues, Ctrl Enter tells the agent at work.') : t('Answers can be wrong. Check what matters.')}
          ${conversation.tokens.value ? html`<span class="total">${count(conversation.tokens.value)} tokens</span>` : null}
        </p>
      </div>
      ${isDropping.value && html`<div class="drop">Drop files to attach them</div>`}
    </main>
    ${
      openFile.value &&
      html`<${Later} key=${openFile.value} load=${artifacts} props=${{
        threadId: conversation.threadId,
        path: openFile.value,
        versions: versionsOf(messages, openFile.value),
        onClose: () => (openFile.value = null)
      }} />`
    }`
}

const artifacts = () => import('./artifacts.ts')
const questions = () => import('./question.ts')
const decisionsView = () => import('./review.ts')
const plan = () => import('./plan.ts')

/** Seconds without a word from which on a run's silence is shown. */
const SILENCE_S = 8

/** How long nothing has come of a run, and what it waits for. */
function Silence({ conversation }: { readonly conversation: Conversation }) {
  const messages = conversation.messages.value
  const progress = conversation.progress.value
  const lanes = conversation.lanes.list.value
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    setSeconds(0)
    const timer = setInterval(() => setSeconds((count) => count + 1), 1000)
    return () => clearInterval(timer)
  }, [messages, progress, lanes])
  if (seconds < SILENCE_S) return null
  const tool = rowsOf(messages).at(-1)
  const open = tool?.message.calls.find((_, i) => !tool.results[i])
  return html`<p class="hint">Waiting for ${open ? open.name : t('the agent')}: nothing for ${seconds} s.</p>`
}

/** An answer without a word or a call. */
const isEmpty = ({ type, content, calls }: TranscriptMessage): boolean =>
  type === 'ai' && plainText(content) === '' && calls.length === 0

/** Sends once more what the newest run was asked; nothing where that is not shown. */
function AskAgain({ conversation }: { readonly conversation: Conversation }) {
  const runId = conversation.runs.value[0]?.run_id
  if (conversation.isReadOnly || !runId || !conversation.shown.asked(runId)) return null
  const again = () => {
    focusComposer()
    conversation.outbox.retry(runId).catch(notifyFailure)
  }
  return html`<button class="link" onClick=${again}>Ask again</button>`
}

function Failed({ conversation }: { readonly conversation: Conversation }) {
  const runId = conversation.runs.value[0]?.run_id
  const last = conversation.messages.value.at(-1)
  const hasHalf = last && last.type !== 'human' && conversation.shown.runOf(last) === runId && !isEmpty(last)
  const goOn = () => {
    focusComposer()
    conversation.outbox.continueFrom(runId!).catch(notifyFailure)
  }
  return html`<div class="failure">
    <span role="alert"><b>The run failed.</b> ${serverWords(conversation.failure.value ?? '')}</span>
    <${Wait} failure=${conversation.failure.value!} since=${conversation.runs.value[0]?.updated_at} />
    ${!conversation.isReadOnly && runId && hasHalf && html`<button class="link" onClick=${goOn}>Continue</button>`}
    <${AskAgain} conversation=${conversation} />
  </div>`
}

/** Counts down what the model's server has asked to wait. */
function Wait({ failure, since }: { readonly failure: string; readonly since: string | undefined }) {
  const asked = Number(/asks to wait (\d+) seconds/.exec(failure)?.[1] ?? 0) * 1000
  const leftMs = () => asked + Date.parse(since ?? '') - Date.now()
  const [left, setLeft] = useState(leftMs)
  useEffect(() => {
    const timer = setInterval(() => setLeft(leftMs()), 1000)
    return () => clearInterval(timer)
  }, [asked, since])
  return left > 0
    ? html`<small>${t('It can be tried again in {}.', duration(Math.ceil(left / 1000) * 1000))}</small>`
    : null
}

function groupsOf(rows: readonly Row[]): Row[][] {
  const groups: Row[][] = []
  for (let i = 0; i < rows.length; i += GROUP) groups.push(rows.slice(i, i + GROUP))
  return groups
}

interface RowProps {
  readonly row: Row
  readonly conversation: Conversation
  readonly isRunning: boolean
  readonly chosen: readonly Chosen[] | undefined
}

function MessageRow({ row, conversation, isRunning, chosen }: RowProps) {
  const { message, results, isLast, answer } = row
  const runId = message.type === 'human' ? conversation.shown.runOf(message) : null
  const branches = runId === null ? [] : conversation.branches.of(runId).map(({ run_id }) => run_id)
  // Another client may have had the same question answered anew.
  const branch = [answer && conversation.shown.runOf(answer), runId]
    .map((id) => branches.indexOf(id ?? ''))
    .find((at) => at >= 0)
  const lanes = conversation.lanes.list.value.filter(({ callerId }) => callerId === message.id)
  return html`<${Message} ...${{ message, conversation, results, isLast, isRunning, branches, lanes, branch: branch ?? -1 }} />
    ${chosen && html`<${Later} load=${decisionsView} props=${{ chosen }} />`}`
}

/** First questions that the installation offers. */
const starters = signal<readonly string[] | null>(null)

function Welcome({ onAsk }: { readonly onAsk: (text: string) => void }) {
  const name = me.value?.email.split('@')[0]
  useEffect(() => {
    if (starters.value) return
    call<{ starters: string[] }>('GET', '/api/suggestions/config').then(
      (config) => (starters.value = config.starters),
      () => {}
    )
  }, [])
  return html`<div class="welcome">
    <h1>Hello${name ? `, ${name}` : ''}</h1>
    <p class="lead">What would you like to talk about?</p>
    <div class="starters">${(starters.value ?? []).map((text) => html`<button class="plain" key=${text} onClick=${() => onAsk(text)}>${text}</button>`)}</div>
  </div>`
}
