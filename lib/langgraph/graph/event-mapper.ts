// Maps the stream of a graph server to ours: message pieces at once, state changes as records after each step.
//
// A message joins the conversation only when it appears in the graph's state. What models say elsewhere (in tools, in nodes
// that do not store it) is shown where LangGraph would show it, counted, and dropped.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { MessageLimits } from '../../conversation/chunk.ts'
import {
  type Interrupt,
  type Json,
  type JsonObject,
  type Message,
  type ToolCall,
  type ToolMessage,
  isObject
} from '../../base/types.ts'
import { objectOr, objectsIn, textOr, textsIn } from '../../base/json.ts'
import { AgentError, type AgentInput, type AgentRecord, type StreamPart, type Sink } from '../../agent/runtime.ts'
import type { GraphState, Part } from './graph.ts'
import { REF_CHANNEL, type GraphCheckpointRef, refJson } from './checkpoint-ref.ts'
import { readMessage, sayTheSame } from './message.ts'
import { type Listener, MessageStreams } from './message-streams.ts'

const INTERRUPT = '__interrupt__'
/** Maximum characters of an error's message and name. */
const ERROR_MAX = 2000
const KIND_MAX = 64

export class GraphEventMapper implements Listener {
  readonly #sink: Sink
  readonly #streams: MessageStreams
  #messages: Message[]
  #channels: Readonly<Record<string, Json>>
  readonly #calls = new Map<string, ToolCall>()
  readonly #interrupts = new Map<string, Interrupt>()
  /** Stopped at a breakpoint, without an interrupt value. */
  #isAtBreakpoint = false
  /** Nodes that have run since the last step. */
  #nodes = new Set<string>()
  #lastNode = 'graph'
  /** Next nodes, as far as the graph reports them. */
  #next: readonly string[] = []
  #ref: GraphCheckpointRef
  #savedRef: GraphCheckpointRef
  #hasSpace = true

  /** @param threadId the graph's id for the thread */
  constructor(input: AgentInput, ref: GraphCheckpointRef, threadId: string, sink: Sink, limits?: MessageLimits) {
    this.#sink = sink
    this.#streams = new MessageStreams(this, (id) => this.#before(id), limits)
    this.#messages = [...input.messages]
    this.#channels = input.channels
    this.#savedRef = ref
    this.#ref = { ...ref, threadId }
    for (const message of input.messages) if (message.type === 'ai') this.#remember(message.tool_calls)
  }

  /**
   * Passes on one part, synchronously.
   * @returns whether there is space for more
   * @throws AgentError for a failure the graph reports
   */
  hear({ mode, namespace, data }: Part): boolean {
    this.#hasSpace = true
    if (mode === 'messages') this.#streams.hear(data, namespace, (id) => this.#messages.some((one) => one.id === id))
    else if (mode === 'custom') this.emit({ type: 'custom', data })
    else if (mode === 'error') throw failureIn(data)
    else if (namespace.length === 0) this.#hearOwn(mode, data)
    return this.#hasSpace
  }

  /** The graph is done; `state`: its final state. */
  finish(state: GraphState | null): void {
    if (state) {
      this.#hearValues(state.values)
      this.#at(state.checkpointId)
      this.#next = state.next
      for (const interrupt of state.interrupts) this.#interrupts.set(interrupt.id, interrupt)
    }
    this.#streams.step()
    this.#ask(state)
    if (this.#nodes.size > 0 || this.#interrupts.size > 0 || !isDeepStrictEqual(this.#ref, this.#savedRef)) this.#step()
  }

  emit(piece: StreamPart): void {
    if (!this.#sink.emit(piece)) this.#hasSpace = false
  }

  record(fact: AgentRecord): void {
    if (!this.#sink.record(fact)) this.#hasSpace = false
  }

  // ------------------------------------------------------------------------------------------ events of the graph

  #hearOwn(mode: string, data: Json): void {
    if (mode === 'metadata') this.#ref = { ...this.#ref, runId: textOr(objectOr(data).run_id) }
    else if (mode === 'checkpoints') this.#hearCheckpoint(objectOr(data))
    else if (mode === 'updates') this.#hearUpdates(objectOr(data))
    else if (mode === 'values') this.#hearState(objectOr(data))
  }

  #hearCheckpoint({ id, next }: JsonObject): void {
    this.#at(textOr(id))
    this.#next = textsIn(next)
  }

  /** Moves the reference to this checkpoint. */
  #at(checkpointId: string | null): void {
    if (checkpointId !== null) this.#ref = { ...this.#ref, checkpointId, runId: null }
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
    // The first state is the one we sent to the graph.
    if (this.#nodes.size === 0) return
    this.#streams.step()
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
    this.record({ type: 'update', channels: update })
  }

  #hearMessages(given: readonly Json[]): void {
    const known = this.#messages
    const theirs = given.flatMap((one, i) => readMessage(one, () => known[i]?.id ?? randomUUID()) ?? [])
    if (!known.every(({ id }, i) => theirs[i]?.id === id)) return this.#rewrite(theirs)
    this.#messages = theirs
    const changed = theirs.slice(0, known.length).filter((message, i) => !sayTheSame(message, known[i]!))
    if (changed.length > 0) this.record({ type: 'messages', messages: changed })
    for (const message of theirs.slice(known.length)) this.#join(message)
  }

  /** Messages were removed or reordered. */
  #rewrite(theirs: Message[]): void {
    const known = new Set(this.#messages.map(({ id }) => id))
    this.record({ type: 'messages', messages: this.#messages.map(({ id }) => ({ type: 'remove', id })) })
    this.#messages = theirs
    for (const message of theirs) {
      if (known.has(message.id)) this.record({ type: 'messages', messages: [message] })
      else this.#join(message)
    }
  }

  /** A message is new in the conversation. */
  #join(message: Message): void {
    if (message.type === 'ai') {
      this.#streams.join(message)
      this.#call(message.tool_calls)
    } else if (message.type === 'tool') this.#used(message)
    else this.record({ type: 'messages', messages: [message] })
  }

  #used(message: ToolMessage): void {
    const { tool_call_id: id, name } = message
    const call = this.#calls.get(id) ?? { name: name ?? '', args: {}, id, type: 'tool_call' }
    this.record({ type: 'tool_end', call, message: { ...message, name: name ?? call.name } })
  }

  /** Records the start of these tool calls. */
  #call(calls: readonly ToolCall[]): void {
    this.#remember(calls)
    for (const call of calls) this.record({ type: 'tool_start', call })
  }

  #remember(calls: readonly ToolCall[]): void {
    for (const call of calls) this.#calls.set(call.id, call)
  }

  #before(id: string): readonly Message[] {
    const at = this.#messages.findIndex((message) => message.id === id)
    return at < 0 ? this.#messages : this.#messages.slice(0, at)
  }

  // --------------------------------------------------------------------------------------------------- steps

  #ask(state: GraphState | null): void {
    const isAsking = this.#interrupts.size > 0
    if (!isAsking && this.#isAtBreakpoint && state && state.next.length > 0) {
      const id = state.checkpointId ?? 'breakpoint'
      this.#interrupts.set(id, { id, value: { when: 'breakpoint', next: [...state.next] } })
    }
    for (const interrupt of this.#interrupts.values()) this.record({ type: 'interrupt', interrupt })
    const [waiting] = state?.next ?? []
    if (this.#interrupts.size > 0 && waiting !== undefined) this.#nodes = new Set([waiting])
  }

  #step(): void {
    if (this.#nodes.size > 0) this.#lastNode = [...this.#nodes].join(',')
    this.#nodes = new Set()
    if (!isDeepStrictEqual(this.#ref, this.#savedRef)) {
      this.#savedRef = this.#ref
      this.record({ type: 'update', channels: { [REF_CHANNEL]: refJson(this.#ref) } })
    }
    this.record({ type: 'step', node: this.#lastNode, next: this.#next })
  }
}

/** Interrupts in a list; versions differ in the name of the id. */
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
