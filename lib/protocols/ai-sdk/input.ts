// What a chat of the AI SDK sends, as the body of a run: its last message, the answers to what was asked, or a question asked anew.
import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { objectsIn, textOr } from '../../base/json.ts'
import { Refused } from '../../base/errors.ts'
import { answerOf, type ClientResult, isClientCall } from '../../agent/client-context.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../../base/types.ts'
import { blockOf, FILENAMES } from '../../conversation/content.ts'
import { jsonObject, listOf, objectOf } from '../../http/schema.ts'
import { refusedValue } from '../../routes/input.ts'
import { runEntries } from '../../routes/run-request.ts'
import { askedFrom, type Entry } from '../../routes/turn.ts'
import { clientContext, clientToolIn, openResultsIn, TOOLS_MAX } from '../client-tools.ts'
import { PART_MODES } from '../parts.ts'
import { approvalId, answeredWith, decided, isReview, resumeOf } from '../reviews.ts'
import { NAME_MAX } from '../threads.ts'
import { MESSAGE_KEY } from './ids.ts'
import { contentIn } from './output.ts'

/** Messages of one request. */
const MESSAGES_MAX = 10_000
const name = v.pipe(v.string(), v.minLength(1), v.maxLength(NAME_MAX))

/** Members of a run's body that a chat may add to its own. Others are the page's business, and are ignored. */
const { assistant_id, config, context, metadata, multitask_strategy, durability, recursion_limit } = runEntries

export const chatBody = objectOf({
  id: name,
  messages: v.pipe(listOf(jsonObject, MESSAGES_MAX), v.minLength(1)),
  trigger: v.optional(v.picklist(['submit-message', 'regenerate-message']), 'submit-message'),
  messageId: v.nullish(name),
  resume: v.nullish(v.unknown()),
  // As assistant-ui's transport sends them: the page's own tools by their names, and what the page tells the agent.
  tools: v.nullish(jsonObject),
  system: v.nullish(v.string()),
  ...{ assistant_id, config, context, metadata, multitask_strategy, durability, recursion_limit }
})
export type ChatBody = v.InferOutput<typeof chatBody>

/** What the thread is like before the run. */
interface Situation {
  readonly questions: readonly Interrupt[]
  /** Graphs take an answer as LangGraph's command only. */
  readonly isOfGraphs: boolean
  /** The agent honours tools and instructions of its clients, which the run's context has. */
  readonly takesClientContext: boolean
  /** Whether the input of a graph has a member of this name. */
  takes(name: string): boolean
  /** Its states, newest first. Read when something is asked anew. */
  history(): Promise<readonly Entry[]>
}

interface RunOf {
  readonly body: JsonObject
  /** Sent again, it begins no second run. */
  readonly key: string | null
}

/** @throws Invalid that names the part which cannot be read; Refused 409 when there is nothing to answer */
export async function runBodyOf(chat: ChatBody, situation: Situation): Promise<RunOf> {
  const { body, key } = await bodyOf(chat, situation)
  const { input } = body
  return isObject(input) ? { body: { ...body, input: { ...passed(chat, situation), ...input } }, key } : { body, key }
}

async function bodyOf(chat: ChatBody, situation: Situation): Promise<RunOf> {
  const common = commonOf(chat, situation)
  const at = chat.messages.length - 1
  const last = chat.messages[at]!
  if (chat.trigger === 'regenerate-message')
    return { body: { ...common, ...(await askedAnew(chat, situation)) }, key: null }
  if (last.role === 'assistant') return { body: await answered(chat, common, last, situation), key: null }
  if (last.role !== 'user')
    throw refusedValue(['body', 'messages', at, 'role'], 'the last message is of the user or of the assistant')
  const message = humanOf(last, at)
  if (chat.messageId != null) return { body: { ...common, ...(await edited(message, situation)) }, key: null }
  const key = keyOf(chat, last)
  const { questions, isOfGraphs } = situation
  if (questions.length === 0 || !isOfGraphs) return { body: { ...common, input: { messages: [message] } }, key }
  const words = wordsOf(message)
  const resume = resumeOf(questions.map((question) => [question, answeredWith(question, words)] as const))
  return { body: { ...common, command: { resume } }, key }
}

/** A message that is sent twice begins one run. Its id is one of its chat: another chat may have the same. */
function keyOf({ id }: ChatBody, message: JsonObject): string | null {
  if (typeof message.id !== 'string') return null
  return createHash('sha256')
    .update(JSON.stringify([id, message.id]))
    .digest('base64url')
}

function commonOf(chat: ChatBody, { takesClientContext }: Situation): JsonObject {
  const own = takesClientContext ? clientContext(toolsIn(chat), chat.system ?? '') : {}
  const context = Object.keys(own).length > 0 ? { ...chat.context, ...own } : chat.context
  const given = { assistant_id: chat.assistant_id, config: chat.config, context, metadata: chat.metadata }
  const more = {
    multitask_strategy: chat.multitask_strategy,
    durability: chat.durability,
    recursion_limit: chat.recursion_limit
  }
  const said = Object.entries({ ...given, ...more }).filter(([, value]) => value !== undefined && value !== null)
  // Of a body, which is JSON.
  const named = Object.fromEntries(said) as JsonObject
  return { multitask_strategy: 'interrupt', ...named, stream_mode: PART_MODES, on_disconnect: 'continue' }
}

/** The page's own. @throws Invalid that names the tool */
function toolsIn({ tools }: ChatBody): JsonObject[] {
  const all = Object.entries(tools ?? {})
  if (all.length > TOOLS_MAX) throw refusedValue(['body', 'tools'], `at most ${TOOLS_MAX}`)
  return all.map(([name, tool]) => {
    const loc = ['body', 'tools', name.slice(0, 100)]
    if (!isObject(tool)) throw refusedValue(loc, 'must be an object')
    return clientToolIn({ ...tool, name }, loc)
  })
}

/** Whether the client has anything that the input of a graph may have a place for. */
export function offersInput({ tools, system }: Pick<ChatBody, 'tools' | 'system'>): boolean {
  return Object.keys(tools ?? {}).length > 0 || (system ?? '') !== ''
}

/** The client's own, as far as the agent's input has a place for it. */
function passed(chat: ChatBody, { takes }: Situation): JsonObject {
  if (!offersInput(chat)) return {}
  const tools = takes('tools') ? toolsIn(chat) : []
  return { ...(tools.length > 0 && { tools }), ...(chat.system && takes('system') && { system: chat.system }) }
}

// ------------------------------------------------------------------------------------------------ asked anew

/** The question before the answer that is not wanted, from the state before it. */
async function askedAnew({ messages }: ChatBody, { history }: Situation): Promise<JsonObject> {
  const asked = textOr(messages.findLast(({ role }) => role === 'user')?.id)
  const states = await history()
  const known = states[0]?.messages ?? []
  const at = known.findLastIndex(({ id, type }) => type === 'human' && (asked === null || id === asked))
  const human = known[at] ?? known.findLast(({ type }) => type === 'human')
  if (!human) throw new Refused(409, 'There is no question to answer anew')
  const { id = null, content = '', additional_kwargs = {} } = human
  return askedFrom(states, known.indexOf(human), [{ type: 'human', id, content, additional_kwargs }])
}

/** The question in other words, from the state before it. */
async function edited(message: JsonObject, { history }: Situation): Promise<JsonObject> {
  const states = await history()
  const at = (states[0]?.messages ?? []).findIndex(({ id }) => id === message.id)
  return at < 0 ? { input: { messages: [message] } } : askedFrom(states, at, [message])
}

// --------------------------------------------------------------------------------------------------- answers

/** The assistant's message with what was decided and what tools of the client have said: the run goes on in that message. */
async function answered(
  { resume, messages }: ChatBody,
  common: JsonObject,
  last: JsonObject,
  { questions, isOfGraphs, history }: Situation
): Promise<JsonObject> {
  const metadata = { ...(isObject(common.metadata) && common.metadata), [MESSAGE_KEY]: String(last.id) }
  // Two tabs may answer; the second one is told.
  const going = { ...common, multitask_strategy: 'reject', metadata }
  if (questions.length === 0) {
    const [newest] = isOfGraphs ? await history() : []
    const results = openResultsIn(newest?.messages ?? [], outputsIn(last))
    if (results.length > 0) return { ...going, input: { messages: results } }
    throw new Refused(409, 'Nothing waits for an answer: it was given already')
  }
  // Of a body, which is JSON.
  if (resume !== undefined && resume !== null) return { ...going, command: { resume: resume as Json } }
  const parts = objectsIn(last.parts)
  const answers = questions.map((question) => [question, answerIn(parts, question, messages.length - 1)] as const)
  return { ...going, command: { resume: resumeOf(answers) } }
}

/** What tools of the client have said, by the ids of their calls. */
function outputsIn({ parts }: JsonObject): Map<string, ClientResult> {
  const answers = objectsIn(parts).flatMap((part) => {
    const result = resultOf(part)
    return result ? [[String(part.toolCallId), result] as const] : []
  })
  return new Map(answers)
}

/** null: the part has none. */
function resultOf({ state, output = null, errorText }: JsonObject): ClientResult | null {
  if (state === 'output-error') return { content: textOr(errorText) ?? '', status: 'error' }
  if (state !== 'output-available') return null
  const content = contentIn(output)
  return { content, status: 'success', isJson: typeof content === 'string' && typeof output !== 'string' }
}

function answerIn(parts: readonly JsonObject[], question: Interrupt, at: number): Json {
  if (isReview(question)) return decided(decisionsIn(parts, question, at))
  const part = parts.find(({ toolCallId }) => toolCallId === question.id)
  const result = part && isClientCall(question.value) ? resultOf(part) : null
  if (result) return answerOf(result)
  if (part?.state === 'output-error') return textOr(part.errorText) ?? ''
  if (part?.state !== 'output-available')
    throw refusedValue(['body', 'messages', at, 'parts'], `the question ${question.id} is not answered`)
  return part.output ?? null
}

function decisionsIn(
  parts: readonly JsonObject[],
  question: Interrupt,
  at: number
): { approved: boolean; reason: string | null }[] {
  const asked = isObject(question.value) ? objectsIn(question.value.action_requests) : []
  return asked.map((_, i) => {
    const id = approvalId(question, i)
    const { approval } = parts.find((part) => isObject(part.approval) && part.approval.id === id) ?? {}
    if (!isObject(approval) || typeof approval.approved !== 'boolean')
      throw refusedValue(['body', 'messages', at, 'parts'], `the approval ${id} is not decided`)
    return { approved: approval.approved, reason: textOr(approval.reason) }
  })
}

// -------------------------------------------------------------------------------------------- the user's words

function humanOf({ id, parts, content }: JsonObject, at: number): JsonObject {
  const blocks = Array.isArray(parts)
    ? objectsIn(parts).flatMap((part, i) => contentBlocks(part, ['messages', at, 'parts', i]))
    : typeof content === 'string'
      ? [{ type: 'text', text: content }]
      : []
  if (blocks.length === 0) throw refusedValue(['body', 'messages', at, 'parts'], 'the message says nothing')
  const isText = blocks.every(({ type }) => type === 'text')
  const words = blocks.map(({ text = '' }) => text).join('')
  const said = { type: 'human', ...(typeof id === 'string' && { id }), content: isText ? words : blocks }
  const names = imageNames(objectsIn(parts))
  return names.some((name) => name !== null) ? { ...said, additional_kwargs: { [FILENAMES]: names } } : said
}

/** By the block that each part becomes. */
function imageNames(parts: readonly JsonObject[]): Json[] {
  const blocks = parts.filter(({ type }) => type === 'text' || type === 'file')
  return blocks.map(({ mediaType, filename }) => (/^image\//.test(String(mediaType)) ? textOr(filename) : null))
}

function contentBlocks(
  { type, text, url, mediaType, filename }: JsonObject,
  loc: readonly (string | number)[]
): JsonObject[] {
  if (type === 'text' && typeof text === 'string') return [{ type: 'text', text }]
  // What the page keeps for itself.
  if (type === 'step-start' || String(type).startsWith('data-')) return []
  if (type !== 'file')
    throw refusedValue(['body', ...loc, 'type'], `a part of type ${JSON.stringify(type ?? null)} is not taken`)
  if (typeof url !== 'string')
    throw refusedValue(['body', ...loc, 'url'], 'a file has its address or its data as a URL')
  return [blockOf({ url, mediaType: textOr(mediaType) ?? '', filename: textOr(filename) })]
}

function wordsOf({ content }: JsonObject): string {
  if (typeof content === 'string') return content
  return objectsIn(content)
    .map(({ text }) => textOr(text) ?? '')
    .join('')
}
