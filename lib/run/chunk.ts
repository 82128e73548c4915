// A delta as the data of a messages frame: the shape LangGraph clients read, with the least they need around the text.
import type { Delta } from '../agent/runtime.ts'
import type { AiMessage, Message } from '../types.ts'

/** Clients read the node and nothing else of it; repeating more would cost more than the text [needs N11]. */
const METADATA = '{"langgraph_node":"agent"}'
const TOOLS_METADATA = '{"langgraph_node":"tools"}'

/** `[chunk, metadata]` as JSON, for one delta. Concatenated by hand: this is done for every delta of every run. */
export function deltaJson(delta: Delta): string {
  const tail = `"type":"AIMessageChunk","id":${JSON.stringify(delta.messageId)}`
  if (delta.toolCall) {
    const { index, id, name, args } = delta.toolCall
    const chunk = JSON.stringify({ name: name ?? null, args, id: id ?? null, index, type: 'tool_call_chunk' })
    return `[{"content":"","tool_call_chunks":[${chunk}],${tail}},${METADATA}]`
  }
  if (delta.reasoning) {
    return `[{"content":"","additional_kwargs":{"reasoning_content":${JSON.stringify(delta.reasoning)}},${tail}},${METADATA}]`
  }
  return `[{"content":${JSON.stringify(delta.text ?? '')},${tail}},${METADATA}]`
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

/** A whole message that did not come in deltas, e.g. a tool's result. */
export function wholeJson(message: Message): string {
  return `[${JSON.stringify(message)},${message.type === 'tool' ? TOOLS_METADATA : METADATA}]`
}
