// Messages of a conversation as items: what was said and thought, calls that the client runs with their results, and those of the server's
// own tools, which no client may take for its own.
import { objectsIn } from '../../base/json.ts'
import { isObject, type Json, type JsonObject, textOf } from '../../base/types.ts'
import { clientCallsOf } from '../client-tools.ts'
import { partsOfMessages } from '../parts.ts'
import { isQuestion, withAnswers } from '../questions.ts'
import { bare } from './ids.ts'
import { SERVER } from './translate.ts'

/** @param clientCalls ids of the calls that the client runs */
export function itemsOf(
  messages: readonly JsonObject[],
  clientCalls: ReadonlySet<string> = clientCallsOf(messages)
): JsonObject[] {
  const done = withAnswers(messages)
  const results = new Map(done.flatMap((one) => (one.type === 'tool' ? [[String(one.tool_call_id), one]] : [])))
  return messages.flatMap((message): JsonObject[] => {
    const { type, id, content, tool_calls } = message
    const name = String(id).replaceAll('-', '')
    if (type === 'tool') return resultItems(name, message, clientCalls)
    const parts = partsOf(content, type === 'ai')
    const role = type === 'human' ? 'user' : type === 'ai' ? 'assistant' : 'system'
    const said = { id: `msg_${name}`, type: 'message', role, status: 'completed', content: parts }
    const calls = objectsIn(tool_calls).map((call) =>
      clientCalls.has(String(call.id)) ? clientCall(call) : serverCall(call, results.get(String(call.id)))
    )
    return [...reasoningItems(name, message), ...(parts.length > 0 ? [said] : []), ...calls]
  })
}

/** Of the client's calls; what the agent has asked its user is a message of its own, and the rest is in the item of its call. */
function resultItems(name: string, message: JsonObject, clientCalls: ReadonlySet<string>): JsonObject[] {
  const { tool_call_id: call_id = null, content } = message
  const isOpen = isQuestion(message)
  if (clientCalls.has(String(call_id))) return isOpen ? [] : [clientOutput(name, call_id, content)]
  if (!isOpen) return []
  const asked = [{ type: 'output_text', text: textIn(content), annotations: [] }]
  return [{ id: `msg_${name}`, type: 'message', role: 'assistant', status: 'completed', content: asked }]
}

/** What the client's tool has answered, as it was sent. */
export function clientOutput(name: string, call_id: Json, content: Json | undefined): JsonObject {
  const output = Array.isArray(content) ? partsOf(content, false) : textIn(content)
  return { id: `fco_${name}`, type: 'function_call_output', call_id, output, status: 'completed' }
}

function reasoningItems(name: string, message: JsonObject): JsonObject[] {
  const deltas = partsOfMessages([message]).flatMap((part) =>
    part.type === 'delta' && part.kind === 'reasoning' ? [part.text] : []
  )
  const content = [{ type: 'reasoning_text', text: deltas.join('') }]
  return deltas.length > 0 ? [{ id: `rs_${name}`, type: 'reasoning', status: 'completed', summary: [], content }] : []
}

function clientCall({ id = null, name = null, args }: JsonObject): JsonObject {
  const call = { call_id: id, name, arguments: JSON.stringify(args ?? {}) }
  return { id: `fc_${bare(String(id))}`, type: 'function_call', ...call, status: 'completed' }
}

/** @param result the message that has it; undefined: it has none, and nobody will bring one */
function serverCall({ id, name = null, args }: JsonObject, result: JsonObject | undefined): JsonObject {
  const call = { server_label: SERVER, name, arguments: JSON.stringify(args ?? {}), approval_request_id: null }
  return { id: `mcp_${bare(String(id))}`, type: 'mcp_call', ...call, ...endOf(result) }
}

function endOf(result: JsonObject | undefined): JsonObject {
  if (!result) return { status: 'incomplete', output: null, error: null }
  if (isQuestion(result)) return { status: 'in_progress', output: null, error: null }
  const text = textIn(result.content)
  return result.status === 'error'
    ? { status: 'failed', output: null, error: text }
    : { status: 'completed', output: text, error: null }
}

function partsOf(content: Json | undefined, isAnswer: boolean): JsonObject[] {
  const blocks = Array.isArray(content) ? content : content === '' || content === undefined ? [] : [content]
  return blocks.flatMap((block): JsonObject[] => {
    const { type, text, image_url, file } = isObject(block) ? block : { type: 'text', text: block }
    if (type === 'text' && typeof text === 'string')
      return [isAnswer ? { type: 'output_text', text, annotations: [] } : { type: 'input_text', text }]
    if (type === 'image_url' && isObject(image_url))
      return [{ type: 'input_image', image_url: image_url.url ?? null, detail: image_url.detail ?? 'auto' }]
    if (type !== 'file' || !isObject(file)) return []
    const { filename = null, file_data } = file
    return [{ type: 'input_file', filename, ...(file_data !== undefined && { file_data }) }]
  })
}

/** Images and files have no place in a text. */
function textIn(content: Json | undefined): string {
  return typeof content === 'string' || Array.isArray(content) ? textOf(content) : JSON.stringify(content ?? '')
}
