// Validates an agent's output, once, where it enters the run. Errors are one sentence that names the field.
import * as v from 'valibot'
import { DEPTH_MAX, isJson } from '../conversation/calls.ts'
import { cutTo } from '../base/types.ts'
import { AgentError, type AgentRecord, FRAME_MODES, type ModelInfo, type StreamPart } from './runtime.ts'

/** Characters of an invalid value shown to the author. */
const SHOWN_MAX = 40

/** @throws AgentError that names what is wrong with it */
export function checkPart(part: unknown): asserts part is StreamPart {
  // The hot path: nearly all deltas are valid, so a few comparisons avoid the library.
  if (!isSoundDelta(part) && !isSoundFrame(part)) check(Part, part, 'emitted')
}

/** @throws AgentError that names what is wrong with it */
export function checkRecord(record: unknown): asserts record is AgentRecord {
  check(AgentRecordSchema, record, 'recorded')
}

/**
 * The models an agent lists, with null for missing fields.
 * @throws AgentError
 */
export function checkedModels(models: unknown): ModelInfo[] {
  const parsed = v.safeParse(v.array(Model, 'must be a list of models'), models, { abortEarly: true })
  if (parsed.success) return parsed.output
  throw new AgentError('InvalidAgentOutput', `The agent's models() ${problemIn(parsed.issues[0], models)}`)
}

export function isSoundDelta(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false
  // Any member of any object may be read.
  const { type, messageId, model, text, reasoning, toolCall, usage, metadata } = part as Record<string, unknown>
  if (type !== 'delta' || typeof messageId !== 'string' || messageId === '' || typeof model !== 'string') return false
  if (!isTextOrNone(text) || !isTextOrNone(reasoning) || usage !== undefined) return false
  if (metadata !== undefined && !isSoundMetadata(metadata)) return false
  return toolCall === undefined || isSoundFragment(toolCall)
}

/** Metadata that was found right: a message's deltas share it. */
const SOUND = new WeakSet<object>()

function isSoundMetadata(metadata: unknown): boolean {
  if (!isRecord(metadata)) return false
  if (SOUND.has(metadata)) return true
  const isSound = isJson(metadata)
  if (isSound) SOUND.add(metadata)
  return isSound
}

function isSoundFrame(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false
  const { type, mode, event, json } = part as Record<string, unknown>
  return type === 'frame' && isMode(mode) && typeof event === 'string' && event !== '' && typeof json === 'string'
}

function isMode(mode: unknown): boolean {
  return FRAME_MODES.some((one) => one === mode)
}

function isSoundFragment(call: unknown): boolean {
  if (typeof call !== 'object' || call === null) return false
  const { index, id, name, args } = call as Record<string, unknown>
  return isCount(index) && isTextOrNone(id) && isTextOrNone(name) && typeof args === 'string'
}

function isTextOrNone(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

// ------------------------------------------------------------------------------------------------- the schemas

const text = v.string('must be a text')
const name = v.pipe(text, v.minLength(1, 'must not be empty'))
const count = v.custom<number>(isCount, 'must be a whole number from 0')
const texts = v.array(text, 'must be a list of texts')

/** Undefined members are ignored, as JSON.stringify does. */
const mustBeJson = v.rawCheck<unknown>(({ dataset, addIssue }) => {
  const problem = dataset.typed && !isJson(dataset.value) ? notJson(dataset.value, DEPTH_MAX) : null
  if (problem !== null) addIssue({ message: `must be JSON, and ${problem}` })
})
const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const json = v.pipe(v.unknown(), mustBeJson)
const jsonObject = v.pipe(v.unknown(), v.check(isRecord, 'must be an object'), mustBeJson)
const jsonList = v.pipe(v.unknown(), v.check(Array.isArray, 'must be a list'), mustBeJson)

const usage = v.object(
  {
    input_tokens: count,
    output_tokens: count,
    total_tokens: count,
    input_token_details: v.optional(v.object({ cache_read: count }, 'must be an object')),
    output_token_details: v.optional(v.object({ reasoning: count }, 'must be an object'))
  },
  'must be an object'
)
const toolCall = v.object({
  name: text,
  args: jsonObject,
  id: text,
  type: v.literal('tool_call', 'must be "tool_call"')
})
const invalidToolCall = v.object({ name: text, args: text, id: text, error: v.nullable(text) })

const isContent = (value: unknown) => typeof value === 'string' || Array.isArray(value)
const messageFields = {
  id: name,
  content: v.pipe(v.unknown(), v.check(isContent, 'must be a text or a list of blocks'), mustBeJson),
  additional_kwargs: jsonObject,
  response_metadata: jsonObject,
  name: v.nullable(text)
}
const ai = v.object(
  {
    type: v.literal('ai', 'must be "ai"'),
    ...messageFields,
    tool_calls: v.array(toolCall, 'must be a list'),
    invalid_tool_calls: v.array(invalidToolCall, 'must be a list'),
    usage_metadata: v.nullable(usage)
  },
  'must be a message'
)
const tool = v.object(
  {
    type: v.literal('tool', 'must be "tool"'),
    ...messageFields,
    tool_call_id: text,
    artifact: json,
    status: v.picklist(['success', 'error'], 'must be "success" or "error"')
  },
  'must be a message'
)
const anyMessage = v.variant(
  'type',
  [
    ai,
    tool,
    v.object({ type: v.picklist(['human', 'system']), ...messageFields }),
    v.object({ type: v.literal('remove'), id: name })
  ],
  'must be a message: human, ai, system, tool, or remove with an id'
)
const caller = v.custom(
  (value) => typeof value === 'string' && /^(lead_agent|(subagent|middleware):.+)$/s.test(value),
  'must be lead_agent, subagent:<name> or middleware:<tag>'
)

const hasUpdates = v.optional(v.boolean('must be true or false'))
const shown = v.optional(
  v.union([v.literal('frames'), v.object({ metadata: jsonObject })], 'must be "frames" or an object with metadata')
)

const Part = v.variant(
  'type',
  [
    v.object({
      type: v.literal('delta'),
      messageId: name,
      model: text,
      text: v.optional(text),
      reasoning: v.optional(text),
      toolCall: v.optional(
        v.object({ index: count, id: v.optional(text), name: v.optional(text), args: text }, 'must be an object')
      ),
      metadata: v.optional(jsonObject),
      usage: v.optional(usage)
    }),
    v.object({ type: v.literal('custom'), name: v.optional(text), data: json }),
    v.object({ type: v.literal('frame'), mode: v.picklist(FRAME_MODES), event: name, json: text })
  ],
  'must be an object whose type is delta or custom'
)

const AgentRecordSchema = v.variant(
  'type',
  [
    v.object({
      type: v.literal('llm_request'),
      caller,
      model: text,
      messages: jsonList,
      messageId: v.optional(name)
    }),
    v.object({
      type: v.literal('llm_response'),
      caller,
      model: text,
      responseId: text,
      message: ai,
      finishReason: text,
      usage: v.nullable(usage),
      latencyMs: v.pipe(v.number('must be a number'), v.finite('must be finite')),
      firstTokenMs: v.optional(v.pipe(v.number('must be a number'), v.finite('must be finite'))),
      shown
    }),
    v.object({ type: v.literal('llm_error'), caller, error: text, messageId: v.optional(name) }),
    v.object({ type: v.literal('tool_start'), call: toolCall }),
    v.object({ type: v.literal('tool_end'), call: toolCall, message: tool, shown }),
    v.object({ type: v.literal('messages'), messages: v.array(anyMessage, 'must be a list of messages') }),
    v.object({ type: v.literal('input'), messages: v.array(anyMessage, 'must be a list of messages') }),
    v.object({ type: v.literal('update'), channels: jsonObject }),
    v.object({ type: v.literal('step'), node: name, next: v.optional(texts), hasUpdates }),
    v.object({
      type: v.literal('interrupt'),
      interrupt: v.object({ id: name, value: json }, 'must be an object'),
      asked: v.optional(tool),
      hasUpdates
    }),
    v.object({ type: v.literal('heard'), message: v.nullable(anyMessage) }),
    v.object({ type: v.literal('summarization'), text, replacedIds: texts }),
    v.object({ type: v.literal('middleware'), tag: name, content: jsonObject, metadata: jsonObject })
  ],
  'must be an object whose type names a record: llm_request, llm_response, tool_start, tool_end, messages, update, step...'
)

const Model = v.object({
  name,
  model: v.optional(text, 'module'),
  display_name: v.nullish(text, null),
  description: v.nullish(text, null),
  supports_thinking: v.optional(v.boolean(), false),
  supports_reasoning_effort: v.optional(v.boolean(), false),
  continuation: v.optional(v.picklist(['prefix', 'ask', 'none']))
})

// ------------------------------------------------------------------------------------------------ the sentences

function check(schema: v.GenericSchema, given: unknown, verb: string): void {
  const parsed = v.safeParse(schema, given, { abortEarly: true })
  if (parsed.success) return
  const isNamed = isRecord(given) && 'type' in (given as object)
  const what = isNamed ? ` a ${described((given as { type: unknown }).type)}` : ''
  throw new AgentError(
    'InvalidAgentOutput',
    `The agent ${verb}${what || ' something'} that ${problemIn(parsed.issues[0], given)}`
  )
}

function problemIn(issue: v.BaseIssue<unknown>, given: unknown): string {
  const path = v.getDotPath(issue) ?? ''
  // The sentence already names the type, and the message what it must be.
  if (path === '' || path === 'type') return `${issue.message}, and is ${described(path === '' ? given : issue.input)}`
  if (issue.input === undefined) return `is not right: \`${path}\` is missing`
  // The message already names what JSON cannot hold.
  const said = issue.message.startsWith('must be JSON') ? '' : `, and is ${described(issue.input)}`
  return `is not right: \`${path}\` ${issue.message}${said}`
}

/** A value for a sentence. */
export function described(value: unknown): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return JSON.stringify(cutTo(value, SHOWN_MAX))
  if (Array.isArray(value)) return 'a list'
  if (typeof value !== 'object') return value === undefined ? 'undefined' : `a ${typeof value}`
  const maker: unknown = value.constructor
  return typeof maker !== 'function' || maker === Object ? 'an object' : `a ${maker.name}`
}

/** Why a value is not JSON, as the rest of a sentence; null: it is JSON. */
function notJson(value: unknown, depth: number, path = 'it'): string | null {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return null
  if (typeof value === 'number') return Number.isFinite(value) ? null : `${path} is ${value}`
  if (typeof value !== 'object') return `${path} is ${described(value)}`
  if (depth === 0) return `${cutTo(path, SHOWN_MAX)}... is nested too deep, or in a circle`
  if (Array.isArray(value)) return firstProblem(value.entries(), (at) => `${path}[${at}]`, depth)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype) return `${path} is ${described(value)}`
  const members = Object.entries(value).filter(([, one]) => one !== undefined)
  return firstProblem(members, (key) => `${path}.${key}`, depth)
}

function firstProblem<Key>(
  members: Iterable<readonly [Key, unknown]>,
  pathOf: (key: Key) => string,
  depth: number
): string | null {
  for (const [key, one] of members) {
    // Paths are only built for invalid leaves.
    if (one === null || typeof one === 'string' || typeof one === 'boolean') continue
    const problem = notJson(one, depth - 1, pathOf(key))
    if (problem !== null) return problem
  }
  return null
}
