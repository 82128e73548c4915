// What a client of AG-UI sends, as the body of a run: the user's words, answers to what was asked, and of its tools, state and context what
// the agent takes.
import * as v from 'valibot'
import { Refused } from '../../base/errors.ts'
import { answerOf, type ClientResult } from '../../agent/client-context.ts'
import { objectOr, objectsIn, textOr } from '../../base/json.ts'
import { type Interrupt, isObject, type Json, type JsonObject } from '../../base/types.ts'
import { blockOf } from '../../conversation/content.ts'
import { jsonObject, listOf, objectOf } from '../../http/schema.ts'
import { PART_MODES } from '../parts.ts'
import { refusedValue } from '../../routes/input.ts'
import { askedFrom, type Entry } from '../../routes/turn.ts'
import { clientContext, clientToolIn, openResultsIn, resultsIn, TOOLS_MAX } from '../client-tools.ts'
import { answeredWith, decided, isReview, resumeOf } from '../reviews.ts'
import { NAME_MAX } from '../threads.ts'
import { type Dialect, RESULTS, RUN_NAME, THREAD_NAME } from './translate.ts'

/** Of a message, in both dialects. */
const ROLES = ['user', 'assistant', 'tool', 'system', 'developer', 'activity', 'reasoning']
const MESSAGES_MAX = 10_000
const ITEMS_MAX = 1000
const name = v.pipe(v.string(), v.minLength(1), v.maxLength(NAME_MAX))
const items = v.optional(listOf(jsonObject, ITEMS_MAX), [])

export const runInput = objectOf({
  threadId: name,
  runId: name,
  protocolVersion: v.nullish(v.pipe(v.string(), v.regex(/^(0|1)(\.\d+)*$/))),
  messages: v.optional(listOf(jsonObject, MESSAGES_MAX), []),
  tools: v.optional(listOf(jsonObject, TOOLS_MAX), []),
  context: items,
  state: v.nullish(v.unknown()),
  resume: v.nullish(listOf(jsonObject, ITEMS_MAX)),
  // Of it, how a run is stored; the rest is its client's business.
  forwardedProps: v.nullish(v.unknown())
})
export type RunInput = v.InferOutput<typeof runInput>

export function dialectIn({ protocolVersion }: Pick<RunInput, 'protocolVersion'>): Dialect {
  return protocolVersion?.startsWith('1') ? '1.0' : '0.0'
}

interface Situation {
  readonly agent: string
  readonly questions: readonly Interrupt[]
  readonly isOfGraphs: boolean
  /** The agent honours tools and instructions of its clients, which the run's context has. */
  readonly takesClientContext: boolean
  /** The thread's messages, if it has something of these ids. */
  stored(ids: readonly string[]): readonly JsonObject[]
  /** Whether the input of a graph has a member of this name. */
  takes(name: string): boolean
  /** Its states, newest first. Read when something is asked again. */
  history(): Promise<readonly Entry[]>
}

/** @throws Invalid that names what cannot be read; Refused 409 when there is nothing to answer */
export async function runBodyOf(given: RunInput, situation: Situation): Promise<JsonObject> {
  const { agent, questions, isOfGraphs, takesClientContext } = situation
  const messages = newMessages(given.messages)
  const brought = [...outputsOf(messages).keys()]
  const metadata = {
    [RUN_NAME]: given.runId,
    [THREAD_NAME]: given.threadId,
    ...(brought.length > 0 && { [RESULTS]: brought })
  }
  const { forwardedProps = null } = given
  const { durability = null } =
    forwardedProps !== null && typeof forwardedProps === 'object' ? (forwardedProps as JsonObject) : {}
  const common = {
    assistant_id: agent,
    metadata,
    stream_mode: PART_MODES,
    on_disconnect: 'continue',
    ...(takesClientContext && { context: contextOf(given) }),
    ...(durability !== null && { durability })
  }
  if (given.resume?.length) return { ...common, command: { resume: resumed(given.resume, questions) } }
  const results = resultsOf(messages, questions)
  const humans = messages.flatMap((message) => (message.role === 'user' ? [humanOf(message)] : []))
  const stored = situation.stored([...humans.flatMap(({ id = null }) => textOr(id) ?? []), ...brought])
  if (isAskedAgain(humans, stored)) {
    const history = await situation.history()
    const at = (history[0]?.messages ?? []).findIndex(({ id }) => id === humans[0]!.id)
    const { input, ...from } = askedFrom(history, at, humans)
    return { ...common, ...from, input: { ...passed(given, situation), ...(input as JsonObject) } }
  }
  const isAnswer = results.size > 0 && (humans.length === 0 || isOfGraphs)
  if (isAnswer) {
    const answered = questions.filter(({ id }) => results.has(id))
    const answers = answered.map((one) => [one, answerOf(results.get(one.id)!)] as const)
    return { ...common, command: { resume: resumeOf(answers, questions) } }
  }
  if (humans.length > 0 && questions.length > 0 && isOfGraphs) {
    const words = textOr(humans.at(-1)!.content) ?? ''
    return {
      ...common,
      command: { resume: resumeOf(questions.map((one) => [one, answeredWith(one, words)] as const)) }
    }
  }
  const left = isOfGraphs ? openResultsIn(stored, outputsOf(messages)) : []
  const said = [...resultsIn(stored, results), ...left, ...newOf(humans, stored)]
  return { ...common, input: { ...passed(given, situation), ...(said.length > 0 && { messages: said }) } }
}

/**
 * An answer is to be given anew, or to other words: the question is known, and something stands behind it. A question that is new is asked
 * behind all that the thread has, also where its client sends less of it: no client of the protocol says that it has cut something away,
 * and one that has not seen what others wrote sends the same.
 */
function isAskedAgain(humans: readonly JsonObject[], stored: readonly JsonObject[]): boolean {
  const isSent = (message: JsonObject) => humans.some(({ id }) => id === message.id)
  const at = stored.findIndex(isSent)
  return at >= 0 && humans.every(isKnownIn(stored)) && !stored.slice(at).every(isSent)
}

/** What is known stays as it is beside something new; alone, it has got no answer yet. */
function newOf(humans: JsonObject[], stored: readonly JsonObject[]): JsonObject[] {
  const isKnown = isKnownIn(stored)
  return humans.every(isKnown) ? humans : humans.filter((one) => !isKnown(one))
}

function isKnownIn(stored: readonly JsonObject[]): (message: JsonObject) => boolean {
  const ids = new Set(stored.map(({ id }) => id))
  return ({ id }) => id !== undefined && ids.has(id)
}

/** What tools have answered to open questions, by their ids. */
function resultsOf(messages: readonly JsonObject[], questions: readonly Interrupt[]): Map<string, ClientResult> {
  return new Map([...outputsOf(messages)].filter(([call]) => questions.some(({ id }) => id === call)))
}

function outputsOf(messages: readonly JsonObject[]): Map<string, ClientResult> {
  const results = messages.filter(isResult)
  return new Map(results.map((message) => [String(message.toolCallId), resultOf(message)] as const))
}

/** Why it has failed stands beside what has come of it, which TanStack sends as `null` where it is nothing. */
function resultOf(message: JsonObject): ClientResult {
  const content = contentOf(message)
  const error = textOr(message.error)
  if (error === null) return { content, status: 'success' }
  if (typeof content !== 'string') return { content: [...content, { type: 'text', text: error }], status: 'error' }
  const isNothing = ['', 'null', error].includes(content)
  return { content: isNothing ? error : `${content}\n${error}`, status: 'error' }
}

function contentOf({ content = '', metadata }: JsonObject): string | JsonObject[] {
  // TanStack sends parts as their JSON, and has them beside it as they are.
  const { toolResult } = objectOr(objectOr(metadata).tanstack)
  const parts = [content, objectOr(toolResult).content].find(Array.isArray)
  if (parts) return objectsIn(parts).map(contentBlock)
  return typeof content === 'string' ? content : JSON.stringify(content)
}

function isResult({ role }: JsonObject): boolean {
  return role === 'tool'
}

/** Tools of the client, and what it says of itself: as items of `context`, and as messages of the system. */
function contextOf({ tools, context, messages }: RunInput): JsonObject {
  const system = messages.filter(({ role }) => role === 'system' || role === 'developer')
  const words = [
    ...system.map(({ content }) => textOr(content) ?? ''),
    ...context.map(
      ({ description, value }) => `${textOr(description) ?? ''}:\n${textOr(value) ?? JSON.stringify(value)}`
    )
  ].filter((text) => text !== '')
  const own = tools.map((tool, at) => clientToolIn(tool, ['body', 'tools', at]))
  return clientContext(own, words.join('\n\n'))
}

/** Those behind the agent's last answer: what stands before is in the thread. */
function newMessages(messages: readonly JsonObject[]): readonly JsonObject[] {
  const unknown = messages.findIndex(({ role }) => typeof role !== 'string' || !ROLES.includes(role))
  if (unknown >= 0)
    throw refusedValue(['body', 'messages', unknown, 'role'], `a message has a role: ${ROLES.join(', ')}`)
  return messages.slice(messages.findLastIndex(({ role }) => role === 'assistant') + 1)
}

function humanOf({ id, content }: JsonObject): JsonObject {
  const blocks = Array.isArray(content) ? objectsIn(content).map(contentBlock) : (content ?? '')
  return { type: 'human', ...(typeof id === 'string' && { id }), content: blocks }
}

function contentBlock(part: JsonObject): JsonObject {
  const { type, text, content, source, url, data, mimeType } = part
  // TanStack's have their words in `content`.
  if (type === 'text') return { type: 'text', text: text ?? content ?? '' }
  const from = isObject(source)
    ? source
    : { value: url ?? data ?? null, mimeType: mimeType ?? null, type: url === undefined ? 'data' : 'url' }
  const mime = textOr(from.mimeType) ?? (type === 'image' ? 'image/png' : 'application/octet-stream')
  const address = from.type === 'url' ? textOr(from.value) : `data:${mime};base64,${textOr(from.value) ?? ''}`
  return blockOf({ url: address ?? '', mediaType: type === 'image' ? 'image/*' : mime, filename: null })
}

/** Whether the client has anything that the input of a graph may have a place for. */
export function offersInput({ tools, context, state }: RunInput): boolean {
  return tools.length + context.length > 0 || (isObject(state) && Object.keys(state).length > 0)
}

/** The client's own, as far as the agent's input has a place for it. */
function passed({ tools, context, state }: RunInput, { takes }: Situation): JsonObject {
  // Of a body, which is JSON.
  const own = isObject(state) ? Object.entries(state).filter(([key]) => key !== 'messages' && takes(key)) : []
  return {
    ...Object.fromEntries(own),
    ...(tools.length > 0 && takes('tools') && { tools: tools as Json }),
    ...(context.length > 0 && takes('context') && { context: context as Json })
  }
}

function resumed(entries: readonly JsonObject[], questions: readonly Interrupt[]): Json {
  if (questions.length === 0) throw new Refused(409, 'Nothing waits for an answer: it was given already')
  const answers = entries.map(({ interruptId, status, payload = null }, at) => {
    const question = questions.find(({ id }) => id === interruptId)
    if (!question) throw refusedValue(['body', 'resume', at, 'interruptId'], 'no open question has this id')
    return [
      question,
      status === 'cancelled' ? answeredWith(question, 'The user does not want to answer.') : answerTo(question, payload)
    ] as const
  })
  return resumeOf(answers, questions)
}

/** A yes or a no to a review; anything else is passed on as it is. */
function answerTo(question: Interrupt, payload: Json): Json {
  if (!isReview(question) || !isObject(payload)) return payload
  const { approved, reason } = payload
  if (typeof approved !== 'boolean') return payload
  const asked = isObject(question.value) ? objectsIn(question.value.action_requests) : []
  return decided(asked.map(() => ({ approved, reason: textOr(reason) })))
}
