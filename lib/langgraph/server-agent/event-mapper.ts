// Maps the stream of a graph server to ours: message pieces at once, state changes as records after each step.
//
// A message joins the conversation only when it appears in the graph's state. What models say elsewhere (in tools, in nodes
// that do not store it) is shown where LangGraph would show it, counted, and dropped.
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { MessageLimits } from '../../conversation/chunk.ts'
import { INTERRUPTS, interruptsIn } from '../../conversation/interrupts.ts'
import { cutTo, type Interrupt, type Json, type JsonObject, type Message, isObject } from '../../base/types.ts'
import { objectOr, textOr, textsIn } from '../../base/json.ts'
import {
  AgentError,
  type AgentInput,
  type AgentRecord,
  type EarlierAttempts,
  type Sink,
  type StreamPart
} from '../../agent/runtime.ts'
import { DETAILS, type GraphState, type Part } from './graph.ts'
import { REF_CHANNEL, type GraphCheckpointRef, refJson } from './checkpoint-ref.ts'
import { readMessage, isSameMessage } from '../graph/message.ts'
import { Conversation } from '../graph/conversation.ts'
import { isHidden, type Listener, tooLarge } from '../graph/message-streams.ts'

/** Modes in which a subgraph's parts are frames. */
const FRAMED = ['messages', 'values', 'updates', 'custom', ...DETAILS] as const
type FramedMode = (typeof FRAMED)[number]
/** Maximum characters of an error's message and name. */
const ERROR_MAX = 2000
const KIND_MAX = 64
/** Channels of a state. A graph has as many as its code names. */
const CHANNELS_MAX = 4096

export class GraphEventMapper implements Listener {
  readonly #sink: Pick<Sink, 'emit' | 'record'>
  /** The creator reads subgraphs apart: what comes of one is passed on as it is. */
  readonly #withSubgraphs: boolean
  /** The creator reads updates: they are passed on node by node. */
  readonly #withUpdates: boolean
  /** What of the modes that say more the creator reads. */
  readonly #details: ReadonlySet<string>
  readonly #conversation: Conversation
  /** The messages are those of the graph's own state. */
  #isItsList = false
  #channels: Readonly<Record<string, Json>>
  readonly #interrupts = new Map<string, Interrupt>()
  /** Its updates have said so: where they are passed on, the question is. */
  #hasAsked = false
  /** Stopped at a breakpoint, without an interrupt value. */
  #isAtBreakpoint = false
  /** Nodes that have run since the last step. */
  #nodes = new Set<string>()
  #lastNode = 'graph'
  /** Next nodes, as far as the graph reports them. */
  #next: readonly string[] = []
  #ref: GraphCheckpointRef
  #savedRef: GraphCheckpointRef
  /** The server names each checkpoint before its values; otherwise it is known only when the run is over. */
  #namesCheckpoints = false
  /** A step that waits: the last one is recorded with its checkpoint, which only the final state names. */
  #isHeld = false
  #hasSpace = true

  /** @param threadId the graph's id for the thread */
  constructor(
    input: AgentInput,
    ref: GraphCheckpointRef,
    threadId: string,
    sink: Pick<Sink, 'emit' | 'record'>,
    limits?: MessageLimits
  ) {
    this.#sink = sink
    this.#withSubgraphs = input.request.stream_subgraphs === true
    const modes = textsIn(input.request.stream_mode)
    this.#withUpdates = modes.includes('updates')
    this.#details = new Set(DETAILS.filter((mode) => modes.includes(mode)))
    this.#conversation = new Conversation(this, limits)
    this.#conversation.messages = [...input.messages]
    this.#channels = input.channels
    this.#savedRef = ref
    this.#ref = { ...ref, threadId }
    for (const message of input.messages) this.#conversation.remember(message)
  }

  /**
   * Passes on one part, synchronously.
   * @returns whether there is space for more
   * @throws AgentError for a failure the graph reports
   */
  part({ mode, namespace, data }: Part): boolean {
    this.#hasSpace = true
    this.#recordHeld()
    const isFramed = isOneOf(mode, FRAMED) && this.#isShownApart(mode, namespace, data)
    if (isFramed) this.#frame(mode, namespace, data)
    if (mode === 'messages') this.#conversation.chunk(data, namespace, isFramed)
    else if (mode === 'custom' && !isFramed) this.emit({ type: 'custom', data })
    else if (mode === 'error') throw failureIn(data)
    else if (namespace.length === 0) this.#onOwn(mode, data)
    return this.#hasSpace
  }

  #isShownApart(mode: FramedMode, namespace: readonly string[], data: Json): boolean {
    if (isOneOf(mode, DETAILS)) return this.#isDetail(mode, namespace, data)
    if (!this.#withSubgraphs || namespace.length === 0) return false
    if (mode === 'messages') return !isOfOwnNode(namespace, data)
    return mode !== 'updates' || this.#withUpdates
  }

  #isDetail(mode: string, namespace: readonly string[], data: Json): boolean {
    const isShown = namespace.length === 0 || this.#withSubgraphs
    return isShown && this.#details.has(mode) && !(mode === 'checkpoints' && isEnvelope(data))
  }

  /** The graph is done; `state`: its final state. */
  finish(state: GraphState | null): void {
    if (state) {
      this.#onValues(state.values)
      this.#at(state.checkpointId)
      this.#next = state.next
      for (const interrupt of state.interrupts) this.#interrupts.set(interrupt.id, interrupt)
    }
    this.#conversation.step()
    this.#ask(state)
    if (this.#nodes.size > 0 || this.#interrupts.size > 0 || !isDeepStrictEqual(this.#ref, this.#savedRef)) this.#step()
  }

  /**
   * The parts so far were recorded by earlier attempts: those to come follow. Changes that were in no stored state yet, because their step
   * was open, are recorded again.
   */
  resumeAfter({ messages, channels }: Pick<EarlierAttempts, 'messages' | 'channels'>): void {
    const recorded = new Map(messages.map((message) => [message.id, message]))
    const newest = this.#conversation.messages
    const kept = new Set(newest.map(({ id }) => id))
    const removed = messages.filter(({ id }) => !kept.has(id)).map(({ id }) => ({ type: 'remove', id }) as const)
    const changed = newest.filter((message) => !isRecorded(message, recorded.get(message.id)))
    if (removed.length + changed.length > 0) this.record({ type: 'messages', messages: [...removed, ...changed] })
    const update = changesIn(this.#channels, channels)
    if (update) this.record({ type: 'update', channels: update })
  }

  #frame(mode: FramedMode, namespace: readonly string[], data: Json): void {
    this.emit({ type: 'frame', mode, event: [mode, ...namespace].join('|'), json: JSON.stringify(data) })
  }

  emit(piece: StreamPart): void {
    if (!this.#sink.emit(piece)) this.#hasSpace = false
  }

  record(fact: AgentRecord): void {
    if (!this.#sink.record(fact)) this.#hasSpace = false
  }

  // ------------------------------------------------------------------------------------------ events of the graph

  #onOwn(mode: string, data: Json): void {
    if (mode === 'metadata') this.#ref = { ...this.#ref, runId: textOr(objectOr(data).run_id) }
    else if (mode === 'checkpoints' && isEnvelope(data)) this.#onCheckpoint(objectOr(data))
    else if (mode === 'updates') this.#onUpdates(objectOr(data))
    else if (mode === 'values') this.#onState(objectOr(data))
  }

  #onCheckpoint({ id, next }: JsonObject): void {
    this.#namesCheckpoints = true
    this.#at(textOr(id))
    this.#next = textsIn(next)
  }

  /** Moves the reference to this checkpoint. */
  #at(checkpointId: string | null): void {
    if (checkpointId !== null) this.#ref = { ...this.#ref, checkpointId, runId: null }
  }

  #onUpdates(updates: JsonObject): void {
    if (this.#withUpdates) this.#frame('updates', [], updates)
    for (const [node, update] of Object.entries(updates)) {
      if (node === INTERRUPTS) {
        this.#hasAsked = true
        this.#onInterrupts(update)
      } else this.#nodes.add(node)
    }
  }

  #onInterrupts(given: Json): void {
    const found = interruptsIn(given)
    for (const interrupt of found) this.#interrupts.set(interrupt.id, interrupt)
    if (found.length === 0) this.#isAtBreakpoint = true
  }

  #onState({ [INTERRUPTS]: interrupts, ...values }: JsonObject): void {
    if (interrupts !== undefined) this.#onInterrupts(interrupts)
    if (interrupts !== undefined && Object.keys(values).length === 0) return
    this.#onValues(values)
    // The first state is the one we sent to the graph.
    if (this.#nodes.size === 0) return
    this.#conversation.step()
    if (this.#namesCheckpoints) this.#step()
    else this.#isHeld = true
  }

  #onValues({ messages, ...channels }: JsonObject): void {
    if (Array.isArray(messages)) this.#onMessages(messages)
    const update = changesIn(channels, this.#channels)
    if (!update) return
    this.#channels = { ...this.#channels, ...update }
    // Each is compared with every state that comes, and kept under its name.
    if (Object.keys(this.#channels).length > CHANNELS_MAX) throw tooLarge(`more than ${CHANNELS_MAX} channels`)
    this.record({ type: 'update', channels: update })
  }

  #onMessages(list: readonly Json[]): void {
    const known = this.#conversation.messages
    const read = list.flatMap((one, i) => readMessage(one, () => known[i]?.id ?? randomUUID()) ?? [])
    if (!known.every(({ id }, i) => read[i]?.id === id)) return this.#rewrite(read)
    this.#conversation.messages = read
    // Runtimes complete the messages that they are given: only of their own list every change is one.
    const isSame = this.#isItsList ? isDeepStrictEqual : isSameMessage
    this.#isItsList = true
    const changed = read.slice(0, known.length).filter((message, i) => !isSame(message, known[i]!))
    if (changed.length > 0) this.record({ type: 'messages', messages: changed })
    for (const message of read.slice(known.length)) this.#join(message)
  }

  /** Messages were removed or reordered. */
  #rewrite(read: Message[]): void {
    const known = new Set(this.#conversation.messages.map(({ id }) => id))
    this.record({ type: 'messages', messages: this.#conversation.messages.map(({ id }) => ({ type: 'remove', id })) })
    this.#conversation.messages = read
    for (const message of read) {
      if (known.has(message.id)) this.record({ type: 'messages', messages: [message] })
      else this.#join(message)
    }
  }

  #join(message: Message): void {
    if (!this.#conversation.join(message)) this.record({ type: 'messages', messages: [message] })
  }

  // --------------------------------------------------------------------------------------------------- steps

  #ask(state: GraphState | null): void {
    const isAsking = this.#interrupts.size > 0
    if (!isAsking && this.#isAtBreakpoint && state && state.next.length > 0) {
      const id = state.checkpointId ?? 'breakpoint'
      this.#interrupts.set(id, { id, value: { when: 'breakpoint', next: [...state.next] } })
    }
    const hasUpdates = this.#withUpdates && this.#hasAsked
    for (const interrupt of this.#interrupts.values()) this.record({ type: 'interrupt', interrupt, hasUpdates })
    const [waiting] = state?.next ?? []
    if (this.#interrupts.size === 0 || waiting === undefined) return
    this.#recordHeld()
    this.#nodes = new Set([waiting])
  }

  #recordHeld(): void {
    if (this.#isHeld) this.#step()
  }

  #step(): void {
    this.#isHeld = false
    if (this.#nodes.size > 0) this.#lastNode = [...this.#nodes].join(',')
    this.#nodes = new Set()
    if (!isDeepStrictEqual(this.#ref, this.#savedRef)) {
      this.#savedRef = this.#ref
      this.record({ type: 'update', channels: { [REF_CHANNEL]: refJson(this.#ref) } })
    }
    this.record({ type: 'step', node: this.#lastNode, next: this.#next, hasUpdates: this.#withUpdates })
  }
}

/** The channels of a state that were different; null: none. */
function changesIn(state: JsonObject, before: Readonly<Record<string, Json>>): JsonObject | null {
  const changed = Object.entries(state).filter(
    ([name, value]) => !name.startsWith('__') && !isDeepStrictEqual(value, before[name])
  )
  return changed.length === 0 ? null : Object.fromEntries(changed)
}

function isRecorded(message: Message, recorded: Message | undefined): boolean {
  return recorded !== undefined && isSameMessage(message, recorded)
}

/** Names the checkpoint of the values that follow, and has none itself. */
function isEnvelope(data: Json): boolean {
  return !isObject(data) || data.values === undefined
}

function isOneOf(mode: string, modes: readonly FramedMode[]): mode is FramedMode {
  return modes.some((one) => one === mode)
}

/** Servers in JavaScript name the task that wrote a message, those in Python its graph. */
function isOfOwnNode(namespace: readonly string[], data: Json): boolean {
  const [task = ''] = namespace
  const [, metadata] = Array.isArray(data) ? data : []
  return namespace.length === 1 && !isHidden(namespace) && objectOr(metadata).langgraph_checkpoint_ns === task
}

function failureIn(data: Json): AgentError {
  const { error, message } = isObject(data) ? data : { error: null, message: data }
  const kind =
    textOr(error)
      ?.replace(/[^\w.]/g, '')
      .slice(0, KIND_MAX) || 'GraphError'
  return new AgentError(kind, cutTo(textOr(message) || 'The graph has failed', ERROR_MAX))
}
