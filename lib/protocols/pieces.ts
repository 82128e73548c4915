// What a run says, in pieces that belong to no protocol: texts, reasoning, calls, results, and its end with what it asks. The protocols
// whose unit is a task show these in their own words. Pure: pieces depend on earlier frames alone, so that every reader gets the same.
import { finishCall } from '../conversation/calls.ts'
import {
  addUsage,
  begun,
  callTextsOf,
  type Chunk,
  emptyText,
  fold,
  type GrowingMessage,
  type GrowingText,
  isChunk,
  isLastChunk,
  readChunk
} from '../conversation/chunk.ts'
import type { Filter } from '../run/log/filter.ts'
import { askedIn, askedInText, failureIn, withQuestions } from './questions.ts'
import { bit, dataOf, Kind } from '../run/log/frame.ts'
import type { RawFrame } from '../run/log/segment.ts'
import { type Interrupt, isObject, type Json, type JsonObject, type Run, textOf } from '../base/types.ts'
import type { Translation } from './feed.ts'

/** Where a piece stands in its run's log. */
export interface Place {
  readonly epoch: number
  readonly n: number
  readonly part: number
}

/** How a run has ended. */
export interface Ended {
  readonly run: Run
  /** The text of its last answer, as far as it came; null: it has said nothing. */
  readonly answer: string | null
  /** What it asks its user. */
  readonly questions: readonly Interrupt[]
  readonly failure: string | null
  /** The tokens of its messages, as LangChain counts them; null: nobody has counted. */
  readonly usage: JsonObject | null
}

type Said =
  | { readonly type: 'begun'; readonly run: Run }
  | {
      readonly type: 'text' | 'reasoning'
      readonly message: string
      readonly text: string
      /** Nothing of it was said before. */
      readonly isFirst: boolean
    }
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly args: JsonObject }
  | {
      readonly type: 'result'
      readonly id: string
      readonly name: string | null
      readonly text: string
      readonly isError: boolean
    }
  | { readonly type: 'end'; readonly ended: Ended }

/**
 * `count`: how many there are up to this one; it only grows, also over attempts. `json`: what it is, for clients that show more than a
 * line of text.
 */
export type Piece = Said & { readonly at: Place; readonly count: number; readonly json: string }

interface Open {
  readonly id: string
  readonly text: GrowingText
  readonly reasoning: GrowingText
  /** Its calls, and nothing else of it. */
  readonly calls: GrowingMessage
}

/** Immutable: readers at the same place share it. */
export interface PieceState {
  readonly hasBegun: boolean
  readonly count: number
  readonly open: ReadonlyMap<string, Open>
  /** Messages that are complete: a graph repeats them. */
  readonly done: readonly string[]
  readonly answer: { readonly id: string; readonly text: GrowingText } | null
  readonly questions: readonly Interrupt[]
  readonly failure: string | null
  readonly usage: JsonObject | null
}

const INITIAL: PieceState = {
  hasBegun: false,
  count: 0,
  open: new Map(),
  done: [],
  answer: null,
  questions: [],
  failure: null,
  usage: null
}

const DONE_MAX = 256
/** Pieces of an attempt: those of a next one, which may have lost some, count on from a multiple of it. */
const ATTEMPT = 1_000_000
/** The part of the run's end, behind all others of its frame. */
const END_PART = 2 ** 20

/** Kinds of frames that say something. */
export const PIECES: Filter = {
  mask: bit(Kind.metadata) | bit(Kind.error) | bit(Kind.messages) | bit(Kind.updates),
  accumulate: false
}

/** A run as pieces. */
export const pieces: Translation<PieceState, Piece> = {
  initial: INITIAL,

  /** @param values JSON of a state, in place of frames that are gone */
  frame(run, state, frame, values) {
    const { epoch, n } = frame
    const { next, said } = piecesIn(run, state, frame, values)
    const events = said.map(
      (one, part): Piece => ({ ...one, at: { epoch, n, part }, count: next.count + part + 1, json: jsonOf(one) })
    )
    return { state: events.length === 0 ? next : { ...next, count: next.count + events.length }, events }
  },

  end(run, state, at) {
    const end = { type: 'end', ended: endedAt(run, state) } as const
    return [{ ...end, at: { epoch: at.epoch, n: at.n, part: END_PART }, count: state.count + 1, json: jsonOf(end) }]
  }
}

/** Pieces of a later attempt are behind everything of an earlier one. */
export function isBehind(at: Place, after: Place): boolean {
  if (at.epoch !== after.epoch) return at.epoch > after.epoch
  return at.n > after.n || (at.n === after.n && at.part > after.part)
}

function jsonOf(said: Said): string {
  switch (said.type) {
    case 'begun':
      return JSON.stringify({ type: 'begun', thread_id: said.run.thread_id, run_id: said.run.run_id })
    case 'text':
    case 'reasoning':
      return JSON.stringify({ type: said.type, message_id: said.message, text: said.text })
    case 'call':
      return JSON.stringify({ type: 'tool_call', id: said.id, name: said.name, args: said.args })
    case 'result':
      return JSON.stringify({
        type: 'tool_result',
        id: said.id,
        name: said.name,
        text: said.text,
        is_error: said.isError
      })
    case 'end':
      return JSON.stringify({ type: 'end', run_id: said.ended.run.run_id, text: said.ended.answer })
  }
}

/** What there is of a run in a state of it. */
function endedAt(run: Run, { answer, questions, failure, usage }: PieceState): Ended {
  const asked = run.stop_reason === 'asked_user' ? questions : []
  return { run, answer: answer && String(answer.text.ended()), questions: asked, failure: failure ?? run.error, usage }
}

interface Change {
  readonly next: PieceState
  readonly said: readonly Said[]
}

function piecesIn(run: Run, state: PieceState, frame: RawFrame, values: string | null): Change {
  switch (frame.kind) {
    case Kind.metadata:
      return state.hasBegun ? again(state) : { next: { ...state, hasBegun: true }, said: [{ type: 'begun', run }] }
    case Kind.messages:
      return messageSaid(state, frame)
    case Kind.values:
      return stateSaid(asked(state, askedIn(frame.bytes)), values)
    case Kind.updates:
    case Kind.state:
      return { next: asked(state, askedInText(dataOf(frame.bytes))), said: [] }
    case Kind.error:
      return { next: { ...state, failure: failureIn(frame) }, said: [] }
    default:
      return { next: state, said: [] }
  }
}

/** Another attempt: what was cut comes again as other messages. */
function again(state: PieceState): Change {
  const count = (Math.floor(state.count / ATTEMPT) + 1) * ATTEMPT
  return { next: { ...state, count, open: new Map(), answer: null, failure: null }, said: [] }
}

// ------------------------------------------------------------------------------------------------- questions

function asked(state: PieceState, given: Json): PieceState {
  const questions = withQuestions(state.questions, given)
  return questions === state.questions ? state : { ...state, questions }
}

// -------------------------------------------------------------------------------------------------- messages

const BEFORE_NAME = 'event: '.length

function messageSaid(state: PieceState, { bytes }: RawFrame): Change {
  const nothing = { next: state, said: [] }
  // A subgraph's own messages are not in the conversation.
  if (bytes.toString('utf8', BEFORE_NAME, bytes.indexOf(0x0a)).includes('|')) return nothing
  // Written by this service: a message or a chunk, and its metadata.
  const [piece, metadata] = JSON.parse(dataOf(bytes)) as [JsonObject, JsonObject]
  const task = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns
  if (typeof task === 'string' && task.includes('|')) return nothing
  return isChunk(piece) ? chunkSaid(state, piece) : wholeSaid(state, piece)
}

function chunkSaid(state: PieceState, given: JsonObject): Change {
  const id = String(given.id)
  if (state.done.includes(id)) return { next: state, said: [] }
  const chunk = readChunk(given)
  const before = state.open.get(id) ?? { id, text: emptyText, reasoning: emptyText, calls: begun(id) }
  const said: Said[] = []
  const reasoning = grown(before, 'reasoning', reasoningIn(chunk), said)
  const text = grown(before, 'text', textIn(chunk), said)
  const calls = chunk.calls ? fold(before.calls, { calls: chunk.calls }) : before.calls
  const message = { id, text, reasoning, calls }
  const usage = counted(state, given)
  const answer = { id, text }
  if (!isLastChunk(given))
    return { next: { ...state, usage, answer, open: new Map(state.open).set(id, message) }, said }
  const next = completed({ ...state, usage, answer: { id, text: lastOf(message, said) } }, id)
  return { next, said: [...said, ...callsSaid(message)] }
}

/** With the tokens that a message or chunk adds. */
function counted({ usage }: PieceState, { usage_metadata: more }: JsonObject): JsonObject | null {
  return isObject(more) ? addUsage(usage ?? {}, more) : usage
}

function grown(message: Open, type: 'text' | 'reasoning', added: string, said: Said[]): GrowingText {
  if (added === '') return message[type]
  const text = message[type].with(added)
  if (text.added !== '') said.push({ type, message: message.id, text: text.added, isFirst: message[type].isEmpty })
  return text
}

/** Half a character that waited for its other half ends. */
function lastOf({ id, text }: Open, said: Said[]): GrowingText {
  const ended = text.ended()
  if (ended !== text) said.push({ type: 'text', message: id, text: ended.added, isFirst: false })
  return ended
}

function textIn({ text, blocks }: Chunk): string {
  return text ?? (blocks ? textOf([...blocks]) : '')
}

function reasoningIn({ reasoning, blocks = [] }: Chunk): string {
  const thought = blocks.map((block) => {
    const given = isObject(block) ? (block.reasoning ?? block.thinking) : null
    return typeof given === 'string' ? given : ''
  })
  return (reasoning ?? '') + thought.join('')
}

function callsSaid({ calls }: Open): Said[] {
  return callTextsOf(calls).flatMap((text): Said[] => {
    const call = finishCall(text, true)
    return call.type === 'tool_call' ? [{ type: 'call', id: call.id, name: call.name, args: call.args }] : []
  })
}

function completed(state: PieceState, id: string): PieceState {
  const open = new Map(state.open)
  open.delete(id)
  return { ...state, open, done: [...state.done, id].slice(-DONE_MAX) }
}

/** A message that came at once, or that a graph repeats. */
function wholeSaid(state: PieceState, given: JsonObject): Change {
  const { type, content = '', name, status } = given
  const id = String(given.id)
  if (state.done.includes(id) || state.open.has(id)) return { next: state, said: [] }
  // Written by this service: a text, or a list of blocks.
  const text = textOf(content as string | Json[])
  if (type === 'tool') {
    const tool = {
      type: 'result',
      id: String(given.tool_call_id),
      name: typeof name === 'string' ? name : null
    } as const
    return { next: completed(state, id), said: [{ ...tool, text, isError: status === 'error' }] }
  }
  if (type !== 'ai') return { next: state, said: [] }
  const said: Said[] = []
  const thought = reasoningIn(readChunk(given))
  if (thought !== '') said.push({ type: 'reasoning', message: id, text: thought, isFirst: true })
  if (text !== '') said.push({ type: 'text', message: id, text, isFirst: true })
  const calls = Array.isArray(given.tool_calls) ? given.tool_calls.filter(isObject) : []
  for (const call of calls)
    said.push({
      type: 'call',
      id: String(call.id),
      name: String(call.name),
      args: isObject(call.args) ? call.args : {}
    })
  const usage = counted(state, given)
  return { next: completed({ ...state, usage, answer: { id, text: emptyText.with(text) } }, id), said }
}

/** The frames are gone: the state says what was said since the user's last message. */
function stateSaid(state: PieceState, values: string | null): Change {
  const given: unknown = values === null ? null : JSON.parse(values)
  const messages = isObject(given) && Array.isArray(given.messages) ? given.messages.filter(isObject) : []
  const said: Said[] = []
  let next = state
  for (const message of messages.slice(messages.findLastIndex(({ type }) => type === 'human') + 1)) {
    const change = wholeSaid(next, message)
    next = change.next
    said.push(...change.said)
  }
  return { next, said }
}
