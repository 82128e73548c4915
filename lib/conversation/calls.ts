// The tool calls of a message: what they are once it has ended or was broken off, and while it grows. A call whose arguments are no JSON
// object is kept as the model wrote it.
import type { AiMessage, InvalidToolCall, JsonObject, RunStatus, ToolCall } from '../base/types.ts'
import { type CallText, callTextsOf, contentOf, type GrowingMessage } from './chunk.ts'

/** In place of a call's result that nobody brings, and of arguments that were broken off. */
export const INTERRUPTED = 'Interrupted'
/** Deeper than any meaningful JSON, but far below what overflows the stack when encoding. */
export const DEPTH_MAX = 500

/** Whether a value is JSON: no Infinity, no circle, no class. Undefined members are none. On the live path, so it allocates nothing. */
export function isJson(value: unknown, depth = DEPTH_MAX): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || depth === 0) return false
  if (Array.isArray(value)) {
    for (const one of value) if (!isJson(one, depth - 1)) return false
    return true
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype) return false
  for (const key in value) {
    // Any object can be asked for any member.
    const one = (value as Record<string, unknown>)[key]
    if (one !== undefined && !isJson(one, depth - 1)) return false
  }
  return true
}

/** How JSON writes half a character. */
const LONE_HALF = /(?<!\\)(?:\\\\)*\\ud[89a-f]/

/** The arguments as an object; null: incomplete, not an object, or more than JSON can hold, such as 1e400 or half a character. */
export function parseArgs(text: string): JsonObject | null {
  const value = parseObject(text)
  if (!isJson(value)) return null
  return text.includes('\\u') && LONE_HALF.test(JSON.stringify(value)) ? null : value
}

function parseObject(text: string): JsonObject | null {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    // JSON.parse returns JSON; only objects have to be distinguished.
    return typeof value === 'object' && !Array.isArray(value) ? (value as JsonObject | null) : null
  } catch {
    return null
  }
}

/**
 * A call when its message has ended. What is no call is kept as the model wrote it.
 * @param isWhole the message was not broken off: no arguments are none, and not a fragment
 */
export function finishCall({ id, name, args }: CallText, isWhole: boolean): ToolCall | InvalidToolCall {
  const invalid = (error: string): InvalidToolCall => ({
    name: name ?? '',
    args,
    id: id ?? '',
    error: isWhole ? error : INTERRUPTED,
    type: 'invalid_tool_call'
  })
  if (!isWhole && (args.trim() === '' || !id)) return invalid('')
  if (!name) return invalid('The call does not name a tool')
  const object = parseArgs(args)
  if (!object) return invalid('The arguments are not a JSON object')
  return { name, args: object, id: id ?? '', type: 'tool_call' }
}

interface Calls {
  readonly tool_calls: ToolCall[]
  readonly invalid_tool_calls: InvalidToolCall[]
}

/** The calls of a message that has ended. */
export function finishCalls(calls: readonly CallText[], isWhole: boolean): Calls {
  const finished = calls.map((call) => finishCall(call, isWhole))
  return {
    tool_calls: finished.filter((call) => call.type === 'tool_call'),
    invalid_tool_calls: finished.filter((call) => call.type === 'invalid_tool_call')
  }
}

/** Calls in progress, with their arguments as far as they came. */
export function growingCalls(message: GrowingMessage): ToolCall[] {
  return callTextsOf(message).flatMap(({ id, name, args }): ToolCall[] => {
    const partial = parsePartialArgs(args)
    return partial && name ? [{ name, args: partial, id: id ?? '', type: 'tool_call' }] : []
  })
}

/** Incomplete JSON as far as it came, like LangChain's chunks. */
function parsePartialArgs(text: string): JsonObject | null {
  const { head, closing, string } = closeJson(text)
  return parseArgs(text) ?? parseArgs(head + closing) ?? parseArgs(head.slice(0, danglingAt(head, string)) + closing)
}

/** Also half a character whose other half has not come. */
const UNFINISHED_ESCAPE = /(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3}|ud[89ab][\da-f]{2})?$/i

/** The last string that begins in a text. */
interface LastString {
  readonly from: number
  /** Behind its quote. */
  readonly to: number
}

/** Incomplete JSON, with an open string ended, and the brackets that close it. `string`: null: it has none. */
function closeJson(text: string): {
  readonly head: string
  readonly closing: string
  readonly string: LastString | null
} {
  const open: string[] = []
  let isString = false
  let from = -1
  let to = -1
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isString && char === '\\') at++
    else if (char === '"') {
      isString = !isString
      if (isString) from = at
      else to = at + 1
    } else if (!isString && char === '{') open.push('}')
    else if (!isString && char === '[') open.push(']')
    else if (!isString && (char === '}' || char === ']')) open.pop()
  }
  const head = isString ? `${text.replace(UNFINISHED_ESCAPE, '$1')}"` : text
  const string = from < 0 ? null : { from, to: isString ? head.length : to }
  return { head, closing: open.reverse().join(''), string }
}

/**
 * Where incomplete JSON dangles at its end: from a comma, a key, or a value that may continue. From the end backwards, and by no pattern:
 * each would be tried from every place of a text that may be long.
 */
function danglingAt(head: string, string: LastString | null): number {
  let at = head.trimEnd().length
  while (at > 0 && /[-+.\w]/.test(head[at - 1]!)) at--
  const before = head.slice(0, at).trimEnd()
  const keyEnd = before.endsWith(':') ? before.slice(0, -1).trimEnd().length : before.length
  if (string?.to === keyEnd) at = string.from
  const rest = head.slice(0, at).trimEnd()
  return rest.endsWith(',') ? rest.length - 1 : at
}

/** Ends of a run, by which an answer that it breaks off says why it ended. */
const BREAKING: readonly unknown[] = ['interrupted', 'error', 'timeout'] satisfies RunStatus[]

/** Whether a message of these fields was broken off. */
export function isBrokenOff({ response_metadata: metadata }: JsonObject): boolean {
  return typeof metadata === 'object' && metadata !== null && 'finish_reason' in metadata
    ? BREAKING.includes(metadata.finish_reason)
    : false
}

/**
 * The message as far as it came, valid for every model server: complete calls are calls, fragments are invalid calls. Null when
 * it has no content.
 */
export function brokenOff(message: GrowingMessage, model: string, finishReason: string): AiMessage | null {
  const { id, text, reasoning, calls, usage } = message
  if (text.isEmpty && reasoning.isEmpty && calls.length === 0) return null
  return {
    content: contentOf(message),
    additional_kwargs: reasoning.isEmpty ? {} : { reasoning_content: String(reasoning) },
    response_metadata: { finish_reason: finishReason, model_name: model },
    type: 'ai',
    name: null,
    id,
    ...finishCalls(callTextsOf(message), false),
    usage_metadata: usage
  }
}
