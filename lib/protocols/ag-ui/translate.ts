// A run as events of AG-UI, in both of its dialects: 1.0, and that of 0.0.59, which knows no cancelled outcome.
import { type Interrupt, type Json, type JsonObject, type Run, textOf } from '../../base/types.ts'
import { textOr } from '../../base/json.ts'
import { partsOf } from '../../conversation/content.ts'
import { userQuestions } from '../client-tools.ts'
import type { Translation } from '../feed.ts'
import { JsonText } from '../json-text.ts'
import { type Call, type End, endingParts, NO_PARTS, type Part, partsIn, type PartState, tokensOf } from '../parts.ts'
import { reviewsOf } from '../reviews.ts'
import { END_PART, type Place } from '../places.ts'
import { mediaParts } from './messages.ts'
import { begunWith } from '../threads.ts'

export interface AgUiEvent {
  readonly json: JsonText
  readonly at: Place
  /** It repeats what the client has sent itself: for who connects without having it. */
  readonly isInput: boolean
}

export type Dialect = '1.0' | '0.0'

interface State {
  readonly parts: PartState
  /** Messages whose text has begun: it goes on behind their reasoning. */
  readonly texts: ReadonlySet<string>
}

/** In a run's metadata: what its client calls it, and its thread. */
export const RUN_NAME = 'ag_ui_run_id'
export const THREAD_NAME = 'ag_ui_thread_id'
/** The same: calls whose results its client has brought, and so has. */
export const RESULTS = 'ag_ui_results'

const TRANSLATIONS: Readonly<Record<Dialect, Translation<State, AgUiEvent>>> = {
  '1.0': translationOf('1.0'),
  '0.0': translationOf('0.0')
}

export function translationIn(dialect: Dialect): Translation<State, AgUiEvent> {
  return TRANSLATIONS[dialect]
}

function translationOf(dialect: Dialect): Translation<State, AgUiEvent> {
  const translated = (run: Run, before: State, parts: readonly Part[]) => {
    const texts = new Set(before.texts)
    return { texts, events: parts.flatMap((part) => events(run, part, texts, dialect)) }
  }
  return {
    initial: { parts: NO_PARTS, texts: new Set() },
    frame(run, before, frame, values) {
      const { state, parts } = partsIn(run, before.parts, frame, values)
      const { epoch, n } = frame
      const at = { ordinal: run.ordinal, epoch, n, part: 0 }
      if (parts.length === 0) return { state: { ...before, parts: state }, events: [] }
      const { texts, events } = translated(run, before, parts)
      return { state: { parts: state, texts }, events: placed(events, at) }
    },
    end(run, state, { epoch, n }) {
      const { events } = translated(run, state, endingParts(run, state.parts))
      return placed(events, { ordinal: run.ordinal, epoch, n, part: END_PART })
    }
  }
}

function placed(events: readonly JsonObject[], at: Place): AgUiEvent[] {
  return events.map((event, i) => ({
    json: new JsonText(event),
    at: { ...at, part: at.part + i },
    isInput: inputs.has(event)
  }))
}

/** What the client calls a run and its thread. */
export function namesOf({ run_id, thread_id, metadata }: Run): { threadId: string; runId: string } {
  return { threadId: textOr(metadata[THREAD_NAME]) ?? thread_id, runId: textOr(metadata[RUN_NAME]) ?? run_id }
}

function events(run: Run, part: Part, texts: Set<string>, dialect: Dialect): JsonObject[] {
  switch (part.type) {
    case 'begin':
      return part.isFirst ? [{ type: 'RUN_STARTED', ...namesOf(run) }, ...inputEvents(run)] : []
    case 'open':
      return part.kind === 'text' ? textStart(part.message, texts) : reasoning(part.block, 'START')
    case 'delta':
      return part.kind === 'text'
        ? [{ type: 'TEXT_MESSAGE_CONTENT', messageId: part.message, delta: part.text }]
        : [{ type: 'REASONING_MESSAGE_CONTENT', messageId: part.block, delta: part.text }]
    case 'close':
      return part.kind === 'text' ? [] : reasoning(part.block, 'END')
    case 'done':
      return texts.delete(part.message) ? [{ type: 'TEXT_MESSAGE_END', messageId: part.message }] : []
    case 'call':
      return [{ type: 'TOOL_CALL_START', toolCallId: part.id, toolCallName: part.name, parentMessageId: part.message }]
    case 'args':
      return [{ type: 'TOOL_CALL_ARGS', toolCallId: part.id, delta: part.text }]
    case 'called':
      return [{ type: 'TOOL_CALL_END', toolCallId: part.id }]
    case 'result':
      return resultEvents(run, part, dialect)
    case 'data':
      return [{ type: 'CUSTOM', name: part.name, value: part.data }]
    case 'media':
      return [mediaEvent(part.message, part.content)]
    case 'end':
      return [ending(part.end, dialect)]
    case 'message':
    case 'asked':
      return []
  }
}

/** No event of a message has anything but words. */
function mediaEvent(messageId: string, content: JsonObject): JsonObject {
  return { type: 'CUSTOM', name: 'media', value: { messageId, content } }
}

/** In the older dialect a result is a text, and what it has beside is told as that of a message is. */
function resultEvents({ metadata }: Run, part: Part & { readonly type: 'result' }, dialect: Dialect): JsonObject[] {
  const { message, id, text, isError } = part
  const said = partsOf({ content: part.content })
  const media = said.flatMap((one) => (one.type === 'media' ? [one.content] : []))
  const isText = media.length === 0 || dialect === '0.0'
  const content = isText
    ? text
    : said.flatMap((one) => (one.type === 'media' ? mediaParts(one.content) : [textPart(one)]))
  const events: JsonObject[] = [
    { type: 'TOOL_CALL_RESULT', messageId: message, toolCallId: id, content, role: 'tool', ...(isError && FAILED) },
    ...(isText ? media.map((one) => mediaEvent(message, one)) : [])
  ]
  const brought = metadata[RESULTS]
  if (Array.isArray(brought) && brought.includes(id)) for (const event of events) inputs.add(event)
  return events
}

/** The event has no member for it; TanStack's clients look for this. */
const FAILED: JsonObject = { metadata: { tanstack: { state: 'output-error' } } }

function textPart({ text }: { readonly text: string }): JsonObject {
  return { type: 'text', text }
}

/** Events that only repeat a run's input. */
const inputs = new WeakSet<JsonObject>()

function inputEvents(run: Run): JsonObject[] {
  return begunWith(run).flatMap(({ id, content }) => {
    // As messages are stored: a text, or a list of blocks.
    const delta = textOf(content as string | Json[])
    const media = partsOf({ content }).flatMap((part) => (part.type === 'media' ? [mediaEvent(id, part.content)] : []))
    const said: JsonObject[] = [
      { type: 'TEXT_MESSAGE_START', messageId: id, role: 'user' },
      ...(delta === '' ? [] : [{ type: 'TEXT_MESSAGE_CONTENT', messageId: id, delta }]),
      { type: 'TEXT_MESSAGE_END', messageId: id },
      ...media
    ]
    for (const event of said) inputs.add(event)
    return said
  })
}

function textStart(messageId: string, texts: Set<string>): JsonObject[] {
  if (texts.has(messageId)) return []
  texts.add(messageId)
  return [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }]
}

function reasoning(messageId: string, which: 'START' | 'END'): JsonObject[] {
  const around = { type: `REASONING_${which}`, messageId }
  const inner = { type: `REASONING_MESSAGE_${which}`, messageId, ...(which === 'START' && { role: 'reasoning' }) }
  return which === 'START' ? [around, inner] : [inner, around]
}

// ------------------------------------------------------------------------------------------------ the end

function ending(end: End, dialect: Dialect): JsonObject {
  const { run, questions, calls, failure } = end
  if (failure !== null) return { type: 'RUN_ERROR', message: failure, code: run.stop_reason ?? run.status }
  const isCancelled = run.status === 'interrupted' && run.stop_reason !== 'asked_user'
  const finished = { type: 'RUN_FINISHED', ...namesOf(run), ...(dialect === '1.0' && { usage: [tokensOf(end.usage)] }) }
  const asked = userQuestions(questions)
  if (asked.length > 0) {
    const interrupts = asked.flatMap((question) => interruptOf(question, calls))
    return { ...finished, outcome: { type: 'interrupt', interrupts } }
  }
  if (!isCancelled) return { ...finished, outcome: { type: 'success' } }
  return dialect === '1.0' ? { ...finished, outcome: { type: 'cancelled' } } : finished
}

/** A question as AG-UI asks it. */
export function interruptOf(question: Interrupt, calls: readonly Call[]): JsonObject[] {
  const { id, value } = question
  const own = calls.find((call) => call.id === id)
  const [review] = reviewsOf(question, calls)
  const reason = review ? 'confirmation' : own ? 'tool_call' : 'input_required'
  const call = own ?? review?.call ?? null
  const message = messageIn(value)
  return [
    { id, reason, ...(message !== null && { message }), ...(call && { toolCallId: call.id }), metadata: { value } }
  ]
}

function messageIn(value: Json): string | null {
  if (typeof value === 'string') return value
  const given = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
  return textOr(given.question) ?? textOr(given.message) ?? textOr(given.description)
}
