// Messages in progress while a graph runs, until each joins the conversation or turns out not to belong to it.
import {
  begun,
  excessOf,
  fold,
  type GrowingMessage,
  isChunk,
  MESSAGE_LIMITS,
  type MessageLimits
} from '../../conversation/chunk.ts'
import { type AiMessage, isObject, type Json, type JsonObject, type Message } from '../../base/types.ts'
import { toChat, toTrace } from '../../agent/chat.ts'
import { objectOr, textOr } from '../../base/json.ts'
import type { AnswerPiece } from '../../agent/model.ts'
import { AgentError, type AgentRecord, type Caller, type ShownBesides, type StreamPart } from '../../agent/runtime.ts'
import { usageIn } from '../../conversation/message.ts'
import { isAi, metadataBeside, piecesIn, sumOf } from './message.ts'

/** Name for an unknown model. */
const NO_MODEL = 'langgraph'
/** Messages that one step may have in progress. */
const MESSAGES_MAX = 4096

interface Stream {
  readonly id: string
  readonly model: string
  readonly node: string
  /** Written inside a tool: counted, but not shown. */
  readonly isHidden: boolean
  /** Shown by frames of the graph. */
  readonly isFramed: boolean
  /** What the graph says of it: all with what is shown first, then what clients read. Undefined: nothing. */
  metadata: JsonObject | undefined
  /** At least one piece has arrived. */
  hasBegun: boolean
  message: GrowingMessage
}

export interface Listener {
  emit(piece: StreamPart): void
  record(fact: AgentRecord): void
}

/** The messages before the one with this id: what its model was called with. */
type MessagesBefore = (id: string) => readonly Message[]

export class MessageStreams {
  readonly #listener: Listener
  readonly #streams = new Map<string, Stream>()
  /** What the graph has said of whole messages that are no answers, in this step. */
  readonly #whole = new Map<string, ShownBesides>()
  #lastStepAt = performance.now()

  readonly #before: MessagesBefore
  readonly #limits: MessageLimits

  constructor(listener: Listener, before: MessagesBefore, limits = MESSAGE_LIMITS) {
    this.#listener = listener
    this.#before = before
    this.#limits = limits
  }

  /**
   * One piece of a message, or a whole one.
   * @param data `[message, metadata]`
   * @param isKnown whether a message of this id is in the conversation already
   * @param isFramed it is shown as it is, by a frame
   * @throws AgentError for a message, or a step, that is too large
   */
  chunk(data: Json, namespace: readonly string[], isKnown: (id: string) => boolean, isFramed: boolean): void {
    if (!Array.isArray(data)) return
    const [message, metadata] = data
    const id = isObject(message) ? textOr(message.id) : null
    if (id === null) return
    if (!isAi(message)) return this.#note(id, isFramed ? 'frames' : { metadata: metadataBeside(metadata, true) })
    const stream = this.#streams.get(id)
    // Some nodes emit their complete message again at the end.
    if (stream ? !isChunk(message) : isKnown(id)) return
    this.#grow(stream ?? this.#begin(id, message, objectOr(metadata), namespace, isFramed), message)
  }

  #note(id: string, shown: ShownBesides): void {
    if (this.#whole.size < MESSAGES_MAX) this.#whole.set(id, shown)
  }

  /** How a message that is no answer was shown. */
  shownOf(id: string): { readonly shown?: ShownBesides } {
    const shown = this.#whole.get(id)
    return shown === undefined ? {} : { shown }
  }

  /** A message has joined the conversation: shows what was not shown yet. */
  join(message: AiMessage): void {
    const fields = asJson(message)
    const stream = this.#streams.get(message.id) ?? this.#begin(message.id, fields, {}, [], false)
    if (!stream.isFramed && (stream.isHidden || !stream.hasBegun)) this.#show(stream, piecesIn(fields))
    this.#end('lead_agent', stream, message)
  }

  /** A step is over: messages that have not joined by now never will. */
  step(): void {
    for (const stream of [...this.#streams.values()]) this.#end(`subagent:${stream.node}`, stream, messageOf(stream))
    this.#whole.clear()
    this.#lastStepAt = performance.now()
  }

  #begin(
    id: string,
    message: JsonObject,
    metadata: JsonObject,
    namespace: readonly string[],
    isFramed: boolean
  ): Stream {
    if (this.#streams.size === MESSAGES_MAX) throw tooLarge(`more than ${MESSAGES_MAX} messages in one step`)
    const model = modelIn(message) ?? textOr(metadata.ls_model_name) ?? NO_MODEL
    const node = textOr(metadata.langgraph_node) ?? 'graph'
    const shown = Object.keys(metadata).length > 0 ? metadataBeside(metadata, true) : undefined
    const stream: Stream = {
      ...{ id, model, node, isFramed, metadata: shown },
      ...{ isHidden: isHidden(namespace), hasBegun: false, message: begun(id) }
    }
    this.#streams.set(id, stream)
    const caller: Caller = stream.isHidden ? `subagent:${node}` : 'lead_agent'
    // The best guess: a graph may send its models more than the conversation, and calls inside tools are unknown.
    const messages = stream.isHidden ? [] : toTrace(toChat(this.#before(id)))
    this.#listener.record({ type: 'llm_request', caller, model, messages, messageId: id })
    return stream
  }

  #grow(stream: Stream, message: JsonObject): void {
    const pieces = piecesIn(message)
    const usage = usageIn(message)
    const parts = usage ? [...pieces, { usage: sumOf(stream.message.usage, usage) }] : pieces
    for (const { toolCall, ...part } of parts)
      stream.message = fold(stream.message, toolCall ? { calls: [toolCall] } : part)
    const excess = excessOf(stream.message, this.#limits)
    if (excess !== null) throw tooLarge(excess)
    if (!stream.isHidden && !stream.isFramed) this.#show(stream, parts)
  }

  #show(stream: Stream, pieces: readonly AnswerPiece[]): void {
    const { id: messageId, model } = stream
    for (const piece of pieces) {
      const { metadata } = stream
      this.#listener.emit({ type: 'delta', messageId, model, ...piece, ...(metadata && { metadata }) })
      if (metadata && !stream.hasBegun) stream.metadata = metadataBeside(metadata, false)
      stream.hasBegun = true
    }
  }

  #end(caller: Caller, stream: Stream, message: AiMessage): void {
    this.#streams.delete(stream.id)
    const { id, finish_reason, stop_reason } = message.response_metadata
    const isCalling = message.tool_calls.length > 0
    this.#listener.record({
      type: 'llm_response',
      caller,
      model: modelIn(asJson(message)) ?? stream.model,
      responseId: textOr(id) ?? message.id,
      message,
      finishReason: isCalling ? 'tool_calls' : (textOr(finish_reason ?? stop_reason) ?? 'stop'),
      usage: message.usage_metadata ?? stream.message.usage,
      latencyMs: performance.now() - this.#lastStepAt,
      ...shownBy(stream)
    })
  }
}

/** Written inside a tool. */
export function isHidden(namespace: readonly string[]): boolean {
  return namespace.some((task) => /^(tools|task):/.test(task))
}

function shownBy({ isFramed, metadata }: Stream): { readonly shown?: ShownBesides } {
  if (isFramed) return { shown: 'frames' }
  return metadata ? { shown: { metadata } } : {}
}

/** The message as far as it is known, for the trace. */
function messageOf({ id, message, model }: Stream): AiMessage {
  return {
    type: 'ai',
    id,
    content: String(message.text),
    additional_kwargs: {},
    response_metadata: { model_name: model },
    name: null,
    tool_calls: [],
    invalid_tool_calls: [],
    usage_metadata: message.usage
  }
}

/** What a graph has outgrown. */
export function tooLarge(what: string): AgentError {
  return new AgentError('AgentTooLarge', `The graph sent ${what}`)
}

/** Messages are JSON by construction, but their interfaces lack an index signature. */
function asJson(message: AiMessage): JsonObject {
  return message as unknown as JsonObject
}

function modelIn({ response_metadata }: JsonObject): string | null {
  const { model_name, model } = objectOr(response_metadata)
  return textOr(model_name) ?? textOr(model)
}
