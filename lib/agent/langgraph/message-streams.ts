// Messages in progress while a graph runs, until each joins the conversation or turns out not to belong to it.
import type { AiMessage, Json, JsonObject, Message, UsageMetadata } from '../../types.ts'
import { toChat, toTrace } from '../chat.ts'
import { objectOr, textOr } from '../json.ts'
import type { AnswerPiece } from '../model.ts'
import type { Caller, AgentRecord, StreamPart } from '../runtime.ts'
import { isAi, isPiece, piecesIn, sumOf, usageIn } from './message.ts'

/** Name for an unknown model. */
const NO_MODEL = 'langgraph'

interface Stream {
  readonly id: string
  readonly model: string
  readonly node: string
  /** Written inside a tool: counted, but not shown. */
  readonly isHidden: boolean
  /** At least one piece has arrived. */
  hasBegun: boolean
  text: string
  usage: UsageMetadata | null
}

export interface Listener {
  emit(piece: StreamPart): void
  record(fact: AgentRecord): void
}

/** The messages before the one with this id, which its model was called with. */
export type Conversation = (beforeId: string) => readonly Message[]

export class MessageStreams {
  readonly #listener: Listener
  readonly #streams = new Map<string, Stream>()
  #lastStepAt = performance.now()

  readonly #conversation: Conversation

  constructor(listener: Listener, conversation: Conversation) {
    this.#listener = listener
    this.#conversation = conversation
  }

  /**
   * One piece of a message, or a whole one.
   * @param data `[message, metadata]`
   * @param isKnown whether a message of this id is in the conversation already
   */
  hear(data: Json, namespace: readonly string[], isKnown: (id: string) => boolean): void {
    if (!Array.isArray(data)) return
    const [message, metadata] = data
    const id = isAi(message) ? textOr(message.id) : null
    if (!isAi(message) || id === null) return
    const stream = this.#streams.get(id)
    // Some nodes emit their complete message again at the end.
    if (stream ? !isPiece(message) : isKnown(id)) return
    this.#say(stream ?? this.#begin(id, message, objectOr(metadata), namespace), message)
  }

  /** A message has joined the conversation: shows what was not shown yet. */
  join(message: AiMessage): void {
    const fields = asJson(message)
    const stream = this.#streams.get(message.id) ?? this.#begin(message.id, fields, {}, [])
    if (stream.isHidden || !stream.hasBegun) this.#show(stream, piecesIn(fields))
    this.#end('lead_agent', stream, message)
  }

  /** A step is over: messages that have not joined by now never will. */
  step(): void {
    for (const stream of [...this.#streams.values()]) this.#end(`subagent:${stream.node}`, stream, messageOf(stream))
    this.#lastStepAt = performance.now()
  }

  #begin(id: string, message: JsonObject, metadata: JsonObject, namespace: readonly string[]): Stream {
    const model = modelIn(message) ?? textOr(metadata.ls_model_name) ?? NO_MODEL
    const node = textOr(metadata.langgraph_node) ?? 'graph'
    const isHidden = namespace.some((task) => /^(tools|task):/.test(task))
    const stream: Stream = { id, model, node, isHidden, hasBegun: false, text: '', usage: null }
    this.#streams.set(id, stream)
    const caller: Caller = isHidden ? `subagent:${node}` : 'lead_agent'
    // The best guess: a graph may send its models more than the conversation, and calls inside tools are unknown.
    const messages = isHidden ? [] : toTrace(toChat(this.#conversation(id)))
    this.#listener.record({ type: 'llm_request', caller, model, messages, messageId: id })
    return stream
  }

  #say(stream: Stream, message: JsonObject): void {
    stream.hasBegun = true
    const pieces = piecesIn(message)
    for (const { text } of pieces) stream.text += text ?? ''
    if (!stream.isHidden) this.#show(stream, pieces)
    const usage = usageIn(message)
    if (!usage) return
    stream.usage = sumOf(stream.usage, usage)
    if (!stream.isHidden) this.#show(stream, [{ usage: stream.usage }])
  }

  #show({ id: messageId, model }: Stream, pieces: readonly AnswerPiece[]): void {
    for (const piece of pieces) this.#listener.emit({ type: 'delta', messageId, model, ...piece })
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
      usage: message.usage_metadata ?? stream.usage,
      latencyMs: performance.now() - this.#lastStepAt
    })
  }
}

/** The message as far as it is known, for the trace. */
function messageOf({ id, text, model, usage }: Stream): AiMessage {
  return {
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
}

/** Messages are JSON by construction, but their interfaces lack an index signature. */
function asJson(message: AiMessage): JsonObject {
  return message as unknown as JsonObject
}

function modelIn({ response_metadata }: JsonObject): string | null {
  const { model_name, model } = objectOr(response_metadata)
  return textOr(model_name) ?? textOr(model)
}
