// A delta as the data of a messages frame: the shape LangGraph clients read, with the least they need around the text.
import type { Delta } from '../../agent/runtime.ts'
import type { AiMessage, Json, JsonObject, Message } from '../../types.ts'
import { cutText, type Marker, type Shorten, withShortTexts } from './oversized.ts'

/** Clients read the node and nothing else of it; repeating more would cost more than the text [needs N11]. */
const METADATA = '{"langgraph_node":"agent"}'
const TOOLS_METADATA = '{"langgraph_node":"tools"}'

/**
 * `[chunk, metadata]` as JSON, for the deltas of one run. Concatenated by hand, and what stands behind the text is made once a
 * message: this is done for every delta of every run.
 */
export class DeltaTexts {
  #messageId: string | null = null
  #end = ''

  json(delta: Delta): string {
    const { messageId } = delta
    if (messageId !== this.#messageId) {
      this.#messageId = messageId
      this.#end = endJson(messageId, METADATA)
    }
    return saidJson(delta) + this.#end
  }
}

/** The beginning. A delta may hold more than one of text, reasoning and a fragment of a call: nothing of it is left out. */
function saidJson({ text, reasoning, toolCall }: Delta): string {
  const said = `[{"content":${JSON.stringify(text ?? '')}`
  if (!reasoning && !toolCall) return said
  const thought = reasoning ? `,"additional_kwargs":{"reasoning_content":${JSON.stringify(reasoning)}}` : ''
  const called = toolCall ? `,"tool_call_chunks":[${callChunkJson(toolCall)}]` : ''
  return said + thought + called
}

function endJson(messageId: string, metadata: string): string {
  return `,"type":"AIMessageChunk","id":${JSON.stringify(messageId)}},${metadata}]`
}

function callChunkJson({ index, id, name, args }: NonNullable<Delta['toolCall']>): string {
  return JSON.stringify({ name: name ?? null, args, id: id ?? null, index, type: 'tool_call_chunk' })
}

/** The same delta for the wire when it is too large for it: its texts are cut, and the metadata says so. */
export function shortDelta(delta: Delta): Shorten {
  return (max, marker) => {
    // A character of the text may take six in JSON; three texts at most, and the names beside them.
    const each = Math.floor(max / 4)
    const { text, reasoning, toolCall } = delta
    const short: Delta = {
      ...delta,
      ...(text !== undefined && { text: cutText(text, each) }),
      ...(reasoning !== undefined && { reasoning: cutText(reasoning, each) }),
      ...(toolCall && { toolCall: { ...toolCall, args: cutText(toolCall.args, each) } })
    }
    return saidJson(short) + endJson(delta.messageId, markedMetadata('agent', marker))
  }
}

/** The chunk that says that a message is complete: no text, but how it ended and what it cost. */
export function lastChunkJson(message: AiMessage): string {
  const chunk = {
    content: '',
    response_metadata: message.response_metadata,
    usage_metadata: message.usage_metadata ?? undefined,
    chunk_position: 'last',
    type: 'AIMessageChunk',
    id: message.id
  }
  return `[${JSON.stringify(chunk)},${METADATA}]`
}

/** The data of an error frame: what has failed, and what may be said of it. */
export function errorJson(kind: string, message: string): string {
  return JSON.stringify({ error: kind, name: kind, message })
}

/** A whole message that did not come in deltas, e.g. a tool's result; `json` is the message. */
export function wholeJson(message: Message, json = JSON.stringify(message)): string {
  return `[${json},${message.type === 'tool' ? TOOLS_METADATA : METADATA}]`
}

/** The same message for the wire when it is too large for it. */
export function shortWhole(message: Message): Shorten {
  return (max, marker) => {
    // Messages are JSON by construction.
    const fields = message as unknown as JsonObject
    const short = withShortTexts(fields, max) ?? bareMessage(message, max)
    return `[${JSON.stringify(short)},${markedMetadata(message.type === 'tool' ? 'tools' : 'agent', marker)}]`
  }
}

/** What makes it large is not its texts: it keeps what tells which message it is, and the beginning of what it says. */
function bareMessage(message: Message, max: number): JsonObject {
  const said = typeof message.content === 'string' ? message.content : JSON.stringify(message.content)
  const bare: JsonObject = {
    content: cutText(said, Math.floor(max / 2)),
    additional_kwargs: {},
    response_metadata: {},
    type: message.type,
    name: message.name && cutText(message.name, 256),
    id: message.id
  }
  if (message.type === 'tool')
    Object.assign(bare, { tool_call_id: message.tool_call_id, artifact: null, status: message.status })
  return bare
}

function markedMetadata(node: string, marker: Marker): string {
  return JSON.stringify({ langgraph_node: node, ...marker } satisfies Record<string, Json>)
}
