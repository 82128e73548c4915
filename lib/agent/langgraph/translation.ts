// What a graph tells, told on in our words: pieces of its messages at once, and what joins its state as facts, step by step.
//
// A message belongs to the conversation when it stands in the graph's own state, and not before: what models say aside (in tools, in
// nodes that keep it to themselves) is shown where a person would see it in LangGraph, counted, and forgotten.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type {
  AiMessage,
  Interrupt,
  Json,
  JsonObject,
  Message,
  ToolCall,
  ToolMessage,
  UsageMetadata
} from '../../types.ts'
import type { AnswerPiece } from '../model.ts'
import { isObject, objectOr, objectsIn, textOr } from '../json.ts'
import { AgentError, type AgentInput, type Caller, type Fact, type Sink } from '../runtime.ts'
import type { GraphState, Part } from './graph.ts'
import { MARK, type Mark, markJson } from './mark.ts'
import { isAi, isPiece, piecesIn, readMessage, sayTheSame, sumOf, usageIn } from './message.ts'

const INTERRUPT = '__interrupt__'
/** Stands for the model where nobody says which one it was. */
const NO_MODEL = 'langgraph'
const ERROR_MAX = 2000
const KIND_MAX = 64

/** A message while its pieces come. */
interface Stream {
  readonly id: string
  readonly model: string
  readonly node: string
  /** Part of a tool's work: it is counted, and not shown. */
  readonly isHidden: boolean
  /** Pieces have come. */
  hasBegun: boolean
  text: string
  usage: UsageMetadata | null
}

export class Translation {
  readonly #sink: Sink
  #messages: Message[]
  #channels: Readonly<Record<string, Json>>
  readonly #streams = new Map<string, Stream>()
  readonly #calls = new Map<string, ToolCall>()
  readonly #interrupts = new Map<string, Interrupt>()
  /** It stopped where it was told to stop, and has no question. */
  #isAtBreakpoint = false
  /** Nodes that have worked since the last step. */
  #nodes = new Set<string>()
  #lastNode = 'graph'
  /** Nodes that go on after this step, as far as the graph tells. */
  #next: readonly string[] = []
  #lastStepAt = performance.now()
  #mark: Mark
  #savedMark: Mark
  #hasSpace = true

  /** @param threadId the graph's name for the thread */
  constructor(input: AgentInput, mark: Mark, threadId: string, sink: Sink) {
    this.#sink = sink
    this.#messages = [...input.messages]
    this.#channels = input.channels
    this.#savedMark = mark
    // What was packed for this run has been unpacked.
    this.#mark = { ...mark, threadId, luggage: null }
    for (const message of input.messages) if (message.type === 'ai') this.#remember(message.tool_calls)
  }

  /**
   * Tells one part on, in the same call.
   * @returns whether there is space for more
   * @throws AgentError for a failure that the graph reports
   */
  hear({ mode, namespace, data }: Part): boolean {
    this.#hasSpace = true
    if (mode === 'messages') this.#hearPiece(data, namespace)
    else if (mode === 'custom') this.#hasSpace = this.#sink.emit({ type: 'custom', data })
    else if (mode === 'error') throw failureIn(data)
    else if (namespace.length === 0) this.#hearOwn(mode, data)
    return this.#hasSpace
  }

  /** The graph has said everything; `state`: where it stands now, `luggage`: what it wants back. */
  finish(state: GraphState | null, luggage: Json): void {
    if (state) {
      this.#hearValues(state.values)
      this.#at(state.checkpointId)
      this.#next = state.next
      for (const interrupt of state.interrupts) this.#interrupts.set(interrupt.id, interrupt)
    }
    this.#forgetStreams()
    this.#ask(state)
    this.#mark = { ...this.#mark, luggage }
    if (this.#nodes.size > 0 || this.#interrupts.size > 0 || !isDeepStrictEqual(this.#mark, this.#savedMark))
      this.#step()
  }

  // ------------------------------------------------------------------------------------------- what is said

  #hearPiece(data: Json, namespace: readonly string[]): void {
    if (!Array.isArray(data)) return
    const [message, metadata] = data
    if (!isAi(message)) return
    const id = textOr(message.id)
    if (id === null) return
    const stream = this.#streams.get(id)
    // Some say at the end of a node once more what it has said.
    if (stream ? !isPiece(message) : this.#messages.some((known) => known.id === id)) return
    this.#say(stream ?? this.#begin(id, message, objectOr(metadata), namespace), message)
  }

  #begin(id: string, message: JsonObject, metadata: JsonObject, namespace: readonly string[]): Stream {
    const model = modelIn(message) ?? textOr(metadata.ls_model_name) ?? NO_MODEL
    const node = textOr(metadata.langgraph_node) ?? this.#lastNode
    const isHidden = namespace.some((task) => /^(tools|task):/.test(task))
    const stream: Stream = { id, model, node, isHidden, hasBegun: false, text: '', usage: null }
    this.#streams.set(id, stream)
    // What it was asked is the graph's own affair.
    this.#record({ type: 'llm_request', caller: isHidden ? `subagent:${node}` : 'lead_agent', model, messages: [] })
    return stream
  }

  #say(stream: Stream, message: JsonObject): void {
    stream.hasBegun = true
    const usage = usageIn(message)
    if (usage) stream.usage = sumOf(stream.usage, usage)
    const pieces = piecesIn(message)
    for (const { text } of pieces) stream.text += text ?? ''
    if (stream.isHidden) return
    this.#show(stream, pieces)
    if (stream.usage) this.#show(stream, [{ usage: stream.usage }])
  }

  #show({ id: messageId, model }: Stream, pieces: readonly AnswerPiece[]): void {
    for (const piece of pieces)
      if (!this.#sink.emit({ type: 'delta', messageId, model, ...piece })) this.#hasSpace = false
  }

  // -------------------------------------------------------------------------------------- what the graph itself tells

  #hearOwn(mode: string, data: Json): void {
    if (mode === 'metadata') this.#mark = { ...this.#mark, runId: textOr(objectOr(data).run_id) }
    else if (mode === 'checkpoints') this.#hearCheckpoint(objectOr(data))
    else if (mode === 'updates') this.#hearUpdates(objectOr(data))
    else if (mode === 'values') this.#hearState(objectOr(data))
  }

  #hearCheckpoint({ id, next }: JsonObject): void {
    this.#at(textOr(id))
    this.#next = namesIn(next)
  }

  /** It stands at this checkpoint: the mark needs nothing else to find it again. */
  #at(checkpointId: string | null): void {
    if (checkpointId !== null) this.#mark = { ...this.#mark, checkpointId, runId: null }
  }

  #hearUpdates(updates: JsonObject): void {
    for (const [node, update] of Object.entries(updates)) {
      if (node === INTERRUPT) this.#hearInterrupts(update)
      else this.#nodes.add(node)
    }
  }

  #hearInterrupts(given: Json): void {
    const found = interruptsIn(given)
    for (const interrupt of found) this.#interrupts.set(interrupt.id, interrupt)
    if (found.length === 0) this.#isAtBreakpoint = true
  }

  #hearState({ [INTERRUPT]: interrupts, ...values }: JsonObject): void {
    if (interrupts !== undefined) this.#hearInterrupts(interrupts)
    if (interrupts !== undefined && Object.keys(values).length === 0) return
    this.#hearValues(values)
    // The first one is the state as we have given it to the graph.
    if (this.#nodes.size === 0) return
    this.#forgetStreams()
    this.#step()
  }

  #hearValues({ messages, ...channels }: JsonObject): void {
    if (Array.isArray(messages)) this.#hearMessages(messages)
    const changed = Object.entries(channels).filter(
      ([name, value]) => !name.startsWith('__') && !isDeepStrictEqual(value, this.#channels[name])
    )
    if (changed.length === 0) return
    const update = Object.fromEntries(changed)
    this.#channels = { ...this.#channels, ...update }
    this.#record({ type: 'update', channels: update })
  }

  #hearMessages(given: readonly Json[]): void {
    const known = this.#messages
    const theirs = given.flatMap((one, i) => readMessage(one, () => known[i]?.id ?? randomUUID()) ?? [])
    if (!known.every(({ id }, i) => theirs[i]?.id === id)) return this.#rewrite(theirs)
    this.#messages = theirs
    const changed = theirs.slice(0, known.length).filter((message, i) => !sayTheSame(message, known[i]!))
    if (changed.length > 0) this.#record({ type: 'messages', messages: changed })
    for (const message of theirs.slice(known.length)) this.#join(message)
  }

  /** Messages were taken out, or stand in another order now. */
  #rewrite(theirs: Message[]): void {
    const known = new Set(this.#messages.map(({ id }) => id))
    this.#record({ type: 'messages', messages: this.#messages.map(({ id }) => ({ type: 'remove', id })) })
    this.#messages = theirs
    for (const message of theirs) {
      if (known.has(message.id)) this.#record({ type: 'messages', messages: [message] })
      else this.#join(message)
    }
  }

  /** A message is new in the conversation. */
  #join(message: Message): void {
    if (message.type === 'ai') this.#answered(message)
    else if (message.type === 'tool') this.#used(message)
    else this.#record({ type: 'messages', messages: [message] })
  }

  #answered(message: AiMessage): void {
    const fields = asJson(message)
    const stream = this.#streams.get(message.id) ?? this.#begin(message.id, fields, {}, [])
    if (stream.isHidden || !stream.hasBegun) this.#show(stream, piecesIn(fields))
    this.#responded('lead_agent', stream, message)
    this.#remember(message.tool_calls)
    // What was called is done next.
    for (const call of message.tool_calls) this.#record({ type: 'tool_start', call })
  }

  #used(message: ToolMessage): void {
    const { tool_call_id: id, name } = message
    const call = this.#calls.get(id) ?? { name: name ?? '', args: {}, id, type: 'tool_call' }
    this.#record({ type: 'tool_end', call, message: { ...message, name: name ?? call.name } })
  }

  #remember(calls: readonly ToolCall[]): void {
    for (const call of calls) this.#calls.set(call.id, call)
  }

  /** What was said in a step that is over, and did not join the state, will not: it was said aside. */
  #forgetStreams(): void {
    for (const stream of [...this.#streams.values()]) {
      const { id, text, model, node, usage } = stream
      const message: AiMessage = {
        type: 'ai',
        id,
        content: text,
        additional_kwargs: {},
        response_metadata: { model_name: model },
        name: null,
        tool_calls: [],
        invalid_tool_calls: [],
        usage_metadata: usage
      }
      this.#responded(`subagent:${node}`, stream, message)
    }
  }

  #responded(caller: Caller, stream: Stream, message: AiMessage): void {
    this.#streams.delete(stream.id)
    const model = modelIn(asJson(message)) ?? stream.model
    const finish = textOr(message.response_metadata.finish_reason ?? message.response_metadata.stop_reason)
    this.#record({
      type: 'llm_response',
      caller,
      model,
      responseId: textOr(message.response_metadata.id) ?? message.id,
      message,
      finishReason: message.tool_calls.length > 0 ? 'tool_calls' : (finish ?? 'stop'),
      usage: message.usage_metadata ?? stream.usage,
      latencyMs: performance.now() - this.#lastStepAt
    })
  }

  // --------------------------------------------------------------------------------------------------- steps

  #ask(state: GraphState | null): void {
    const isAsking = this.#interrupts.size > 0
    if (!isAsking && this.#isAtBreakpoint && state && state.next.length > 0) {
      const id = state.checkpointId ?? 'breakpoint'
      this.#interrupts.set(id, { id, value: { when: 'breakpoint', next: [...state.next] } })
    }
    for (const interrupt of this.#interrupts.values()) this.#record({ type: 'interrupt', interrupt })
    const [waiting] = state?.next ?? []
    if (this.#interrupts.size > 0 && waiting !== undefined) this.#nodes = new Set([waiting])
  }

  #step(): void {
    if (this.#nodes.size > 0) this.#lastNode = [...this.#nodes].join(',')
    this.#nodes = new Set()
    this.#lastStepAt = performance.now()
    if (!isDeepStrictEqual(this.#mark, this.#savedMark)) {
      this.#savedMark = this.#mark
      this.#record({ type: 'update', channels: { [MARK]: markJson(this.#mark) } })
    }
    this.#record({ type: 'step', node: this.#lastNode, next: this.#next })
  }

  #record(fact: Fact): void {
    if (!this.#sink.record(fact)) this.#hasSpace = false
  }
}

/** Messages are JSON by construction; their interfaces have no index signature, which is all that keeps them from saying so. */
function asJson(message: AiMessage): JsonObject {
  return message as unknown as JsonObject
}

function modelIn({ response_metadata }: JsonObject): string | null {
  const { model_name, model } = objectOr(response_metadata)
  return textOr(model_name) ?? textOr(model)
}

/** Nodes, in a list of them. */
export function namesIn(given: Json | undefined): string[] {
  return Array.isArray(given) ? given.filter((name) => typeof name === 'string') : []
}

/** The questions in a list of them, by whichever name a version gives their ids. */
export function interruptsIn(given: Json | undefined): Interrupt[] {
  return objectsIn(given).flatMap(({ id, interrupt_id, value }) => {
    const name = textOr(id) ?? textOr(interrupt_id)
    return name === null ? [] : [{ id: name, value: value ?? null }]
  })
}

function failureIn(data: Json): AgentError {
  const { error, message } = isObject(data) ? data : { error: null, message: data }
  const kind =
    textOr(error)
      ?.replace(/[^\w.]/g, '')
      .slice(0, KIND_MAX) || 'GraphError'
  return new AgentError(kind, (textOr(message) || 'The graph has failed').slice(0, ERROR_MAX))
}
