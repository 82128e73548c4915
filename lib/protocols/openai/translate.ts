// A run as events of the Responses API: numbered densely from 0, the items of its output one after the other, and an end with the whole.
// Pure: events depend on earlier frames alone, so that every reader and every replay gets the same.
import { clientToolNames } from '../../agent/client-context.ts'
import { emptyText, type GrowingText } from '../../conversation/chunk.ts'
import { Kind } from '../../run/log/frame.ts'
import type { Json, JsonObject, Run } from '../../base/types.ts'
import type { Encoding, View, Translation } from '../feed.ts'
import { JsonText } from '../json-text.ts'
import { PART_FILTER } from '../parts.ts'
import { type Ended, type Piece, type PieceState, pieces } from '../pieces.ts'
import { formOf } from '../form.ts'
import { asks } from '../tasks.ts'
import { bare } from './ids.ts'
import { endOf, keptOf, responseOf } from './response.ts'

interface ResponseEvent {
  readonly type: string
  readonly seq: number
  readonly json: JsonText
}

/** The item that grows. */
interface Growing {
  readonly type: 'message' | 'reasoning'
  readonly id: string
  readonly message: string
  readonly index: number
  readonly text: GrowingText
}

/** A call of the server's own tool, until its result is there. */
interface Calling {
  readonly item: JsonObject
  readonly index: number
}

/** Immutable: readers at the same place share it. */
interface ResponseState {
  readonly told: PieceState
  readonly seq: number
  /** By their place in the output; null: not complete. */
  readonly items: readonly (JsonObject | null)[]
  readonly growing: Growing | null
  readonly calling: ReadonlyMap<string, Calling>
  /** Parts of messages so far: a message that goes on behind another item does so as another one. */
  readonly parts: ReadonlyMap<string, number>
  /** What the agent asks its user. */
  readonly question: string | null
  /** The client has to run a tool. */
  readonly hasClientCall: boolean
}

/** By which the server's own tools are told. */
export const SERVER = 'colloquy'
/** Terminal events have the whole: whoever comes later than the last event gets it. */
const TERMINAL = ['response.completed', 'response.failed', 'response.incomplete']

export const responses: Translation<ResponseState, ResponseEvent> = {
  initial: {
    told: pieces.initial,
    seq: 0,
    items: [],
    growing: null,
    calling: new Map(),
    parts: new Map(),
    question: null,
    hasClientCall: false
  },

  frame(run, state, frame, values) {
    const { state: told, events } = pieces.frame(run, state.told, frame, values)
    const writer = new Writer(run, { ...state, told })
    const said = frame.kind === Kind.values ? behindAnswers(events, keptOf(run).answers) : events
    // Another attempt says in other messages what was cut. Calls of whole ones may still get their results.
    const isCut = told.parts.dropped > state.told.parts.dropped
    if (isCut && !told.parts.open.has(state.growing?.message ?? '')) writer.closeGrowing('incomplete')
    for (const piece of said) writer.write(piece)
    return writer.done()
  },

  end(run, state, at) {
    const writer = new Writer(run, state)
    for (const piece of pieces.end(run, state.told, at)) writer.write(piece)
    return writer.done().events
  }
}

export function isTerminal({ type }: ResponseEvent): boolean {
  return TERMINAL.includes(type)
}

/** As server-sent events. */
const responseEvents: Encoding<ResponseEvent> = {
  bytes: (events) => Buffer.from(events.map(({ type, json }) => `event: ${type}\ndata: ${json}\n\n`).join(''))
}

/** As a reader is shown it that has the events up to a number; -1: none. The end is for everybody. */
export function viewAfter(after: number): View<ResponseState, ResponseEvent> {
  const takes = (event: ResponseEvent) => event.seq > after || isTerminal(event)
  const selection = { filter: PART_FILTER, withValues: false, takes, key: after < 0 ? '' : String(after) }
  return {
    translation: responses,
    encoding: responseEvents,
    selection: () => selection,
    isPast: (_, { state }) => state.seq <= after + 1,
    // Their numbers are others than when the frames were kept.
    isResumed: after >= 0
  }
}

/** In place of frames that are gone stands a state, which has the answered calls too: those belong to the response before. */
function behindAnswers(said: readonly Piece[], answers: readonly string[]): readonly Piece[] {
  const last = said.findLastIndex((one) => one.type === 'result' && answers.includes(one.id))
  return said.slice(last + 1)
}

/** The next events of a state. */
class Writer {
  readonly #run: Run
  readonly #events: ResponseEvent[] = []
  #state: ResponseState

  constructor(run: Run, state: ResponseState) {
    this.#run = run
    this.#state = state
  }

  done(): { readonly state: ResponseState; readonly events: readonly ResponseEvent[] } {
    return { state: this.#state, events: this.#events }
  }

  write(piece: Piece): void {
    switch (piece.type) {
      case 'begun':
        return this.#begin()
      case 'text':
        return this.#grow('message', piece.message, piece.text)
      case 'reasoning':
        return this.#grow('reasoning', piece.message, piece.text)
      case 'call':
        return this.#call(piece.id, piece.name, piece.args)
      case 'result':
        return this.#result(piece)
      case 'asked':
        this.#state = { ...this.#state, question: piece.text }
        return
      case 'end':
        return this.#end(piece.ended)
    }
  }

  /** Nothing of an open item follows. */
  #closeAll(status: 'completed' | 'incomplete'): void {
    this.closeGrowing(status)
    for (const [id] of this.#state.calling) this.#closeCall(id, { status, output: null, error: null })
  }

  #end(ended: Ended): void {
    const { failure, usage } = ended
    const { status, error = null } = endOf(ended.run, failure)
    this.#closeAll(status === 'completed' ? 'completed' : 'incomplete')
    if (asks(ended.run) && !this.#state.hasClientCall) this.#ask(ended)
    const output = this.#state.items.filter((item) => item !== null)
    const response = responseOf(ended.run, { status, error, usage, output })
    // There is no event for a cancel: an incomplete one has the status.
    this.#emit(`response.${status === 'cancelled' ? 'incomplete' : status}`, { response })
  }

  #begin(): void {
    const response = responseOf(this.#run, { status: 'in_progress', output: [] })
    this.#emit('response.created', { response })
    this.#emit('response.in_progress', { response })
  }

  #ask({ questions }: Ended): void {
    const text = this.#state.question ?? formOf(questions).message
    this.#grow('message', `ask_${this.#run.run_id}`, text)
    this.closeGrowing('completed')
  }

  #emit(type: string, fields: JsonObject): void {
    const { seq } = this.#state
    this.#events.push({ type, seq, json: new JsonText({ type, sequence_number: seq, ...fields }) })
    this.#state = { ...this.#state, seq: seq + 1 }
  }

  // -------------------------------------------------------------------------------------------- texts

  #grow(type: Growing['type'], message: string, text: string): void {
    const { growing: before } = this.#state
    const growing =
      before && before.type === type && before.message === message ? before : this.#openGrowing(type, message)
    const at = { item_id: growing.id, output_index: growing.index, content_index: 0 }
    this.#emit(...deltaOf(type, at, text))
    this.#state = { ...this.#state, growing: { ...growing, text: growing.text.with(text) } }
  }

  #openGrowing(type: Growing['type'], message: string): Growing {
    this.closeGrowing('completed')
    const id = this.#idOf(type === 'message' ? 'msg' : 'rs', message)
    const item: JsonObject = type === 'message' ? { role: 'assistant', content: [] } : { summary: [], content: [] }
    const index = this.#open({ id, type, status: 'in_progress', ...item })
    const at = { item_id: id, output_index: index, content_index: 0 }
    this.#emit('response.content_part.added', { ...at, part: partOf(type, '') })
    return { type, id, message, index, text: emptyText }
  }

  #idOf(prefix: string, message: string): string {
    const { parts } = this.#state
    const whole = `${prefix}_${bare(message)}`
    const part = (parts.get(whole) ?? 0) + 1
    this.#state = { ...this.#state, parts: new Map(parts).set(whole, part) }
    return part === 1 ? whole : `${whole}_${part}`
  }

  closeGrowing(status: 'completed' | 'incomplete'): void {
    const { growing } = this.#state
    if (!growing) return
    const { type, id, index } = growing
    const text = String(growing.text)
    const at = { item_id: id, output_index: index, content_index: 0 }
    this.#emit(...doneOf(type, at, text))
    this.#emit('response.content_part.done', { ...at, part: partOf(type, text) })
    this.#state = { ...this.#state, growing: null }
    const content = [partOf(type, text)]
    const item: JsonObject = type === 'message' ? { role: 'assistant', content } : { summary: [], content }
    this.#close(index, { id, type, status, ...item })
  }

  // -------------------------------------------------------------------------------------------- calls

  #call(id: string, name: string, args: Json): void {
    this.closeGrowing('completed')
    const text = JSON.stringify(args)
    if (clientToolNames(this.#run.kwargs).includes(name)) return this.#clientCall(id, name, text)
    const item = { id: this.#idOf('mcp', id), type: 'mcp_call', server_label: SERVER, name, approval_request_id: null }
    const open = { ...item, status: 'in_progress', arguments: '', output: null, error: null }
    const index = this.#open(open)
    const at = { item_id: item.id, output_index: index }
    this.#emit('response.mcp_call.in_progress', at)
    this.#emit('response.mcp_call_arguments.delta', { ...at, delta: text })
    this.#emit('response.mcp_call_arguments.done', { ...at, arguments: text })
    const calling = new Map(this.#state.calling).set(id, { item: { ...item, arguments: text }, index })
    this.#state = { ...this.#state, calling }
  }

  /** The client runs it. */
  #clientCall(callId: string, name: string, text: string): void {
    const item = { id: this.#idOf('fc', callId), type: 'function_call', call_id: callId, name }
    const index = this.#open({ ...item, status: 'in_progress', arguments: '' })
    const at = { item_id: item.id, output_index: index }
    this.#emit('response.function_call_arguments.delta', { ...at, delta: text })
    this.#emit('response.function_call_arguments.done', { ...at, name, arguments: text })
    this.#close(index, { ...item, status: 'completed', arguments: text })
    this.#state = { ...this.#state, hasClientCall: true }
  }

  #result({ id, text, isError }: Piece & { readonly type: 'result' }): void {
    if (isError) this.#closeCall(id, { status: 'failed', output: null, error: text })
    else this.#closeCall(id, { status: 'completed', output: text, error: null })
  }

  #closeCall(id: string, end: { readonly status: string; readonly output: Json; readonly error: Json }): void {
    const call = this.#state.calling.get(id)
    // One of an earlier response, or of the client.
    if (!call) return
    const { item, index } = call
    const calling = new Map(this.#state.calling)
    calling.delete(id)
    this.#state = { ...this.#state, calling }
    const event = end.status === 'completed' ? 'completed' : 'failed'
    this.#emit(`response.mcp_call.${event}`, { item_id: item.id!, output_index: index })
    this.#close(index, { ...item, ...end })
  }

  // -------------------------------------------------------------------------------------------- items

  #open(item: JsonObject): number {
    const index = this.#state.items.length
    this.#state = { ...this.#state, items: [...this.#state.items, null] }
    this.#emit('response.output_item.added', { output_index: index, item })
    return index
  }

  #close(index: number, item: JsonObject): void {
    this.#state = { ...this.#state, items: this.#state.items.with(index, item) }
    this.#emit('response.output_item.done', { output_index: index, item })
  }
}

function partOf(type: Growing['type'], text: string): JsonObject {
  return type === 'message'
    ? { type: 'output_text', text, annotations: [], logprobs: [] }
    : { type: 'reasoning_text', text }
}

function deltaOf(type: Growing['type'], at: JsonObject, delta: string): [string, JsonObject] {
  return type === 'message'
    ? ['response.output_text.delta', { ...at, delta, logprobs: [] }]
    : ['response.reasoning_text.delta', { ...at, delta }]
}

function doneOf(type: Growing['type'], at: JsonObject, text: string): [string, JsonObject] {
  return type === 'message'
    ? ['response.output_text.done', { ...at, text, logprobs: [] }]
    : ['response.reasoning_text.done', { ...at, text }]
}
