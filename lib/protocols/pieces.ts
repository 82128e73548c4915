// The parts of a run, gathered into pieces: whole calls, texts as they grow, results, and its end with its answer. The protocols whose unit
// is a task show these in their own words. Pure: pieces depend on earlier frames alone, so that every reader gets the same.
import { emptyText, type GrowingText } from '../conversation/chunk.ts'
import type { Json, JsonObject, Run } from '../base/types.ts'
import type { Translation } from './feed.ts'
import { JsonText } from './json-text.ts'
import { type End, endingParts, NO_PARTS, type Part, partsIn, type PartState } from './parts.ts'
import { END_PART, type FramePlace } from './places.ts'

/** How a run has ended. */
export interface Ended extends End {
  /** The text of its last answer, as far as it came; null: it has said nothing. */
  readonly answer: string | null
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
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly args: Json }
  | {
      readonly type: 'result'
      readonly id: string
      readonly name: string | null
      readonly text: string
      readonly isError: boolean
    }
  /** What stands in place of a result until the user has answered. */
  | { readonly type: 'asked'; readonly text: string }
  | { readonly type: 'end'; readonly ended: Ended }

/**
 * `count`: how many there are up to this one; it only grows, also over attempts. `json`: what it is, for clients that show more than a
 * line of text.
 */
export type Piece = Said & { readonly at: FramePlace; readonly count: number; readonly json: JsonText }

/** How far a message has come that is not whole. */
interface Growing {
  readonly text: GrowingText
  readonly hasReasoning: boolean
}

/** Immutable: readers at the same place share it. */
export interface PieceState {
  readonly parts: PartState
  readonly count: number
  readonly growing: ReadonlyMap<string, Growing>
  readonly answer: GrowingText | null
}

const INITIAL: PieceState = { parts: NO_PARTS, count: 0, growing: new Map(), answer: null }
const UNSAID: Growing = { text: emptyText, hasReasoning: false }

/** Pieces of an attempt: those of a next one, which may have lost some, count on from a multiple of it. */
const ATTEMPT = 1_000_000

/** A run as pieces. */
export const pieces: Translation<PieceState, Piece> = {
  initial: INITIAL,

  /** @param values JSON of a state, in place of frames that are gone */
  frame(run, before, frame, values) {
    const { state, parts } = partsIn(run, before.parts, frame, values)
    return placed({ ...before, parts: state }, parts, { epoch: frame.epoch, n: frame.n, part: 0 })
  },

  end(run, state, { epoch, n }) {
    return placed(state, endingParts(run, state.parts), { epoch, n, part: END_PART }).events
  }
}

function placed(before: PieceState, parts: readonly Part[], at: FramePlace) {
  let state = before
  const events: Piece[] = []
  for (const part of parts) {
    const { next, said } = gathered(state, part)
    state = next
    if (!said) continue
    state = { ...state, count: state.count + 1 }
    events.push({
      ...said,
      at: { ...at, part: at.part + events.length },
      count: state.count,
      json: new JsonText(shownOf(said))
    })
  }
  return { state, events }
}

interface Change {
  readonly next: PieceState
  readonly said?: Said
}

function gathered(state: PieceState, part: Part): Change {
  switch (part.type) {
    case 'begin':
      return part.isFirst ? { next: state, said: { type: 'begun', run: part.run } } : { next: again(state) }
    case 'message':
      return { next: { ...state, answer: emptyText } }
    case 'delta':
      return grown(state, part)
    case 'called':
      return part.error === null ? { next: state, said: callOf(part) } : { next: state }
    case 'result':
      return { next: state, said: resultOf(part) }
    case 'asked':
      return { next: state, said: part }
    case 'done':
      return { next: withoutGrowing(state, part.message) }
    case 'end':
      return {
        next: state,
        said: { type: 'end', ended: { ...part.end, answer: state.answer && String(state.answer) } }
      }
    default:
      return { next: state }
  }
}

/** Another attempt: what was sent of the one before may be more than was stored, and what is counted goes on behind that. */
function again(state: PieceState): PieceState {
  const count = (Math.floor(state.count / ATTEMPT) + 1) * ATTEMPT
  return { ...state, count }
}

function grown(state: PieceState, { kind, message, text }: Part & { readonly type: 'delta' }): Change {
  const before = state.growing.get(message) ?? UNSAID
  const isText = kind === 'text'
  const now = isText ? { ...before, text: before.text.with(text) } : { ...before, hasReasoning: true }
  const isFirst = isText ? before.text.isEmpty : !before.hasReasoning
  const next = { ...state, growing: new Map(state.growing).set(message, now), answer: now.text }
  return { next, said: { type: kind, message, text, isFirst } }
}

function withoutGrowing(state: PieceState, message: string): PieceState {
  if (!state.growing.has(message)) return state
  const growing = new Map(state.growing)
  growing.delete(message)
  return { ...state, growing }
}

function callOf({ id, name, args }: Part & { readonly type: 'called' }): Said {
  return { type: 'call', id, name, args }
}

function resultOf({ id, name, text, isError }: Part & { readonly type: 'result' }): Said {
  return { type: 'result', id, name, text, isError }
}

function shownOf(said: Said): JsonObject {
  switch (said.type) {
    case 'begun':
      return { type: 'begun', thread_id: said.run.thread_id, run_id: said.run.run_id }
    case 'text':
    case 'reasoning':
      return { type: said.type, message_id: said.message, text: said.text }
    case 'call':
      return { type: 'tool_call', id: said.id, name: said.name, args: said.args }
    case 'result':
      return { type: 'tool_result', id: said.id, name: said.name, text: said.text, is_error: said.isError }
    case 'asked':
      return { type: said.type, text: said.text }
    case 'end':
      return { type: 'end', run_id: said.ended.run.run_id, text: said.ended.answer }
  }
}
