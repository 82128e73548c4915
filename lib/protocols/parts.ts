// What a run says, part by part, in no protocol's words: answers with their texts, reasoning and calls as they grow, results, questions, and
// the end. The one fold under all protocols (pieces.ts gathers what it says). Pure: parts depend on earlier frames alone.
import { finishCall, INTERRUPTED, isBrokenOff } from '../conversation/calls.ts'
import {
  addUsage,
  begun,
  type CallChunk,
  emptyText,
  fold,
  type GrowingMessage,
  type GrowingText,
  isChunk,
  isLastChunk,
  readChunk
} from '../conversation/chunk.ts'
import { partsOf, type Part as ContentPart } from '../conversation/content.ts'
import { readTuple } from '../conversation/wire.ts'
import { type Interrupt, isObject, type Json, type JsonObject, type Run, textOf } from '../base/types.ts'
import type { BlockKind, Call, Part } from './part.ts'
import { askedIn, askedInText, failureIn, INTERRUPT, isQuestion, withQuestions } from './questions.ts'
import { bit, dataOf, Kind, stopError } from '../run/log/frame.ts'
import type { RawFrame } from '../run/log/segment.ts'

export type { Call, End, Part } from './part.ts'

interface Block {
  readonly kind: BlockKind
  readonly id: string
}

interface Open {
  readonly id: string
  readonly block: Block | null
  readonly blocks: number
  readonly growing: GrowingMessage
  /** Of its block. Half a character waits for its other half. */
  readonly text: GrowingText
  /** A graph's: it may have no last chunk. */
  readonly isOfTask: boolean
  /** An earlier attempt's, and not gone on with yet. */
  readonly isCut: boolean
}

/** Immutable: readers at the same place share it. */
export interface PartState {
  readonly hasBegun: boolean
  readonly open: ReadonlyMap<string, Open>
  /** Messages that are whole: graphs repeat them. */
  readonly done: ReadonlySet<string>
  /** Calls of this run. */
  readonly calls: ReadonlyMap<string, Call>
  readonly answered: ReadonlySet<string>
  readonly questions: readonly Interrupt[]
  readonly failure: string | null
  readonly reason: string | null
  readonly usage: JsonObject | null
  /** Messages of earlier attempts that were not gone on with. */
  readonly dropped: number
}

interface Step {
  readonly state: PartState
  readonly parts: readonly Part[]
}

export const NO_PARTS: PartState = {
  hasBegun: false,
  open: new Map(),
  done: new Set(),
  calls: new Map(),
  answered: new Set(),
  questions: [],
  failure: null,
  reason: null,
  usage: null,
  dropped: 0
}

/** Modes with which runs are begun whose log these are read from. */
export const PART_MODES = ['values', 'messages-tuple', 'custom']

export const PART_FILTER = {
  mask:
    bit(Kind.metadata) |
    bit(Kind.values) |
    bit(Kind.state) |
    bit(Kind.messages) |
    bit(Kind.joined) |
    bit(Kind.custom) |
    bit(Kind.updates) |
    bit(Kind.error),
  accumulate: false
}

/** @param values JSON of a state in place of frames that are gone; null: none */
export function partsIn(run: Run, state: PartState, frame: RawFrame, values: string | null): Step {
  switch (frame.kind) {
    case Kind.metadata:
      return beginAttempt(run, state)
    case Kind.messages:
    case Kind.joined:
      return messageParts(state, frame)
    case Kind.values:
      return valuesParts(state, frame, values)
    case Kind.state:
    case Kind.updates:
      return { state: asked(state, askedInText(dataOf(frame.bytes))), parts: [] }
    case Kind.custom:
      return { state, parts: customPart(frame) }
    case Kind.error:
      return { state: { ...state, failure: failureIn(frame) }, parts: [] }
    default:
      return { state, parts: [] }
  }
}

/** @param run the row with which the log was closed */
export function endingParts(run: Run, state: PartState): readonly Part[] {
  const closed = closing(state, () => true, run.status === 'success' || run.stop_reason === 'asked_user')
  const { calls, answered, questions, failure, reason, usage } = closed.state
  const open = [...calls.values()].filter(({ id }) => !answered.has(id))
  const asked = run.stop_reason === 'asked_user' ? questions : []
  const told = failure ?? (run.status === 'error' || run.status === 'timeout' ? run.error : null)
  const failed = told ?? stopError(run)?.message ?? null
  return [...closed.parts, { type: 'end', end: { run, questions: asked, calls: open, failure: failed, reason, usage } }]
}

/** The parts of a conversation's messages, with no run about them. */
export function partsOfMessages(messages: readonly JsonObject[]): readonly Part[] {
  let state = NO_PARTS
  const parts: Part[] = []
  for (const message of messages) {
    const step = wholeParts(state, message)
    state = step.state
    parts.push(...step.parts)
  }
  return parts
}

function beginAttempt(run: Run, state: PartState): Step {
  const isFirst = !state.hasBegun
  const open = new Map([...state.open].map(([id, message]) => [id, { ...message, isCut: true }]))
  const next = { ...state, open, hasBegun: true, failure: null, questions: [] }
  return { state: next, parts: [{ type: 'begin', run, isFirst }] }
}

function customPart({ bytes }: RawFrame): Part[] {
  const data = JSON.parse(dataOf(bytes)) as Json
  const name = isObject(data) && typeof data.name === 'string' ? data.name : null
  const payload = isObject(data) && name !== null && data.payload !== undefined ? data.payload : data
  return [{ type: 'data', name: name ?? 'custom', data: payload }]
}

// ------------------------------------------------------------------------------------------------- questions

function asked(state: PartState, given: Json): PartState {
  const questions = withQuestions(state.questions, given)
  return questions === state.questions ? state : { ...state, questions }
}

/** A step is over, and with it what its tasks were saying. Where frames are gone, the state says what was said since the last question. */
function valuesParts(before: PartState, { bytes }: RawFrame, values: string | null): Step {
  const { state, parts } = closing(before, ({ isOfTask, isCut }) => isOfTask && !isCut, true)
  let next = bytes.length === 0 ? state : asked(state, askedIn(bytes))
  if (values === null) return { state: next, parts }
  const given: unknown = JSON.parse(values)
  const messages = isObject(given) && Array.isArray(given.messages) ? given.messages.filter(isObject) : []
  if (isObject(given) && given[INTERRUPT] !== undefined) next = asked(next, given[INTERRUPT])
  if (bytes.length > 0) return { state: next, parts }
  const said = [...parts]
  for (const message of messages.slice(messages.findLastIndex(({ type }) => type === 'human') + 1)) {
    const step = wholeParts(next, message)
    next = step.state
    said.push(...step.parts)
  }
  return { state: next, parts: said }
}

// -------------------------------------------------------------------------------------------------- messages

const BEFORE_NAME = 'event: '.length

function messageParts(state: PartState, { bytes }: RawFrame): Step {
  // What subgraphs say among themselves is not in the conversation.
  if (bytes.toString('utf8', BEFORE_NAME, bytes.indexOf(0x0a)).includes('|')) return { state, parts: [] }
  const tuple = readTuple(dataOf(bytes))
  if (!tuple) return { state, parts: [] }
  const [piece, metadata] = tuple
  const task = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns
  if (typeof task === 'string' && task.includes('|')) return { state, parts: [] }
  return isChunk(piece) ? chunkParts(state, piece, typeof task === 'string' && task !== '') : wholeParts(state, piece)
}

function chunkParts(state: PartState, piece: JsonObject, isOfTask: boolean): Step {
  const id = String(piece.id)
  if (state.done.has(id)) return { state, parts: [] }
  const known = state.open.get(id)
  const { state: before, parts } = known ? { state, parts: [] } : beginMessage(state, id)
  let message = known ? { ...known, isCut: false } : begin(id, isOfTask)
  for (const part of partsOf(piece)) message = grow(message, part, parts)
  const { calls = [], fields = {} } = readChunk(piece)
  for (const call of calls) message = growCall(message, call, parts)
  message = { ...message, growing: fold(message.growing, { fields }) }
  if (!isLastChunk(piece)) return { state: { ...before, open: new Map(before.open).set(id, message) }, parts }
  return finished(before, message, parts)
}

/** What is cut comes again as other messages, of which this is the first. */
function beginMessage(before: PartState, message: string): { state: PartState; parts: Part[] } {
  const { state, parts } = closing(before, ({ isCut }) => isCut, false)
  return { state, parts: [...parts, { type: 'message', message }] }
}

function begin(id: string, isOfTask: boolean): Open {
  return { id, block: null, blocks: 0, growing: begun(id), text: emptyText, isOfTask, isCut: false }
}

function grow(message: Open, part: ContentPart, parts: Part[]): Open {
  if (part.type === 'media') {
    const closed = closeBlock(message, parts)
    parts.push({ type: 'media', message: message.id, content: part.content })
    return closed
  }
  const { type: kind } = part
  const isSame = message.block?.kind === kind
  const at = isSame ? message : openBlock(closeBlock(message, parts), kind, parts)
  const text = at.text.with(part.text)
  if (text.added !== '') parts.push({ type: 'delta', kind, message: at.id, block: at.block!.id, text: text.added })
  return { ...at, text }
}

function openBlock(message: Open, kind: BlockKind, parts: Part[]): Open {
  const block = { kind, id: `${message.id}:${message.blocks}` }
  parts.push({ type: 'open', kind, message: message.id, block: block.id })
  return { ...message, block, blocks: message.blocks + 1 }
}

function closeBlock(message: Open, parts: Part[]): Open {
  const { block, id, text } = message
  if (!block) return message
  const ended = text.ended()
  if (ended !== text) parts.push({ type: 'delta', kind: block.kind, message: id, block: block.id, text: ended.added })
  parts.push({ type: 'close', kind: block.kind, message: id, block: block.id })
  return { ...message, block: null, text: emptyText }
}

/** A call is shown once its id and its name are known; its arguments as they come. */
function growCall(message: Open, chunk: CallChunk, parts: Part[]): Open {
  const { calls: before } = message.growing
  const growing = fold(message.growing, { calls: [chunk] })
  const grown = { ...closeBlock(message, parts), growing }
  const at = growing.calls.findIndex((one, i) => one !== before[i])
  const call = growing.calls[at]
  if (call?.id == null || call.name === null) return grown
  const { id, name, args } = call
  const was = before[at]
  const isShown = was?.id != null && was.name !== null
  if (!isShown) parts.push({ type: 'call', message: message.id, id, name })
  const text = isShown ? args.added : String(args)
  if (text !== '') parts.push({ type: 'args', id: was?.id ?? id, text })
  return grown
}

/** Nothing of the message follows. */
function finished(state: PartState, given: Open, parts: Part[], isWhole = true): Step {
  const { id, growing } = closeBlock(given, parts)
  const { usage_metadata: usage, response_metadata: metadata } = growing.fields
  const reason = isObject(metadata) && typeof metadata.finish_reason === 'string' ? metadata.finish_reason : null
  const calls = new Map(state.calls)
  for (const { id: call, name, args } of growing.calls) {
    if (call === null || name === null) continue
    const it = finishCall({ id: call, name, args: String(args) }, isWhole && !isBrokenOff(growing.fields))
    const error = it.type === 'tool_call' ? null : it.error
    parts.push({ type: 'called', message: id, id: call, name, args: it.args, error })
    if (error === null) calls.set(call, { id: call, name, args: it.args, message: id })
  }
  const spent = isObject(usage) ? usage : null
  parts.push({ type: 'done', message: id, usage: spent, reason })
  return {
    state: { ...withDone(state, id), calls, reason, usage: spent ? addUsage(state.usage ?? {}, spent) : state.usage },
    parts
  }
}

function withDone(state: PartState, id: string): PartState {
  const open = new Map(state.open)
  open.delete(id)
  return { ...state, open, done: new Set(state.done).add(id) }
}

/** @param isWhole false: they are broken off */
function closing(
  state: PartState,
  isAffected: (message: Open) => boolean,
  isWhole: boolean
): { state: PartState; parts: Part[] } {
  const parts: Part[] = []
  let next = state
  for (const message of state.open.values()) {
    if (!isAffected(message)) continue
    if (message.isCut) next = dropped(next, message, parts)
    else next = finished(next, message, parts, isWhole).state
  }
  return { state: next, parts }
}

/** Its calls are none, whole or not. */
function dropped(state: PartState, message: Open, parts: Part[]): PartState {
  const own: Part[] = []
  const next = finished(state, message, own, false).state
  parts.push(...own.map((part) => (part.type === 'called' ? { ...part, error: part.error ?? INTERRUPTED } : part)))
  return { ...next, calls: state.calls, dropped: state.dropped + 1 }
}

/** A message that came at once, or that a graph repeats. */
function wholeParts(state: PartState, given: JsonObject): Step {
  const { type } = given
  const id = String(given.id)
  if (state.done.has(id) || state.open.has(id)) return { state, parts: [] }
  if (type === 'tool') return resultParts(state, given, id)
  if (type !== 'ai') return { state, parts: [] }
  const { state: before, parts } = beginMessage(state, id)
  let message = begin(id, false)
  for (const part of partsOf(given)) message = grow(message, part, parts)
  for (const [index, call] of callsIn(given).entries()) message = growCall(message, { index, ...call }, parts)
  const { fields = {} } = readChunk(given)
  return finished(before, { ...message, growing: fold(message.growing, { fields }) }, parts)
}

function callsIn({ tool_calls, invalid_tool_calls }: JsonObject): { id: string; name: string; args: string }[] {
  const lists = [tool_calls, invalid_tool_calls].flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []))
  return lists.map(({ id, name, args }) => ({
    id: String(id),
    name: String(name),
    args: typeof args === 'string' ? args : JSON.stringify(args ?? {})
  }))
}

function resultParts(state: PartState, given: JsonObject, message: string): Step {
  const { content = '', name, status, artifact = null } = given
  const id = String(given.tool_call_id)
  // Written by this service: a text, or a list of blocks.
  const text = textOf(content as string | Json[])
  const isOfRun = state.calls.has(id)
  const done = withDone(state, message)
  if (isQuestion(given)) return { state: done, parts: [{ type: 'asked', text }] }
  const next = { ...done, answered: new Set(done.answered).add(id) }
  const about = { id, name: typeof name === 'string' ? name : null, content, text, isError: status === 'error' }
  return { state: next, parts: [{ type: 'result', message, ...about, artifact, isOfRun }] }
}

/** Tokens, as clients of JavaScript name them. */
export function tokensOf(usage: JsonObject | null): JsonObject {
  const { input_tokens = 0, output_tokens = 0, total_tokens = 0 } = usage ?? {}
  return { inputTokens: input_tokens, outputTokens: output_tokens, totalTokens: total_tokens }
}
