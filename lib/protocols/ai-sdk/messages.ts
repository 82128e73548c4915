// A thread's state as the AI SDK's UI messages, with the ids that its streams have.
import { objectsIn, textOr } from '../../base/json.ts'
import type { Interrupt, Json, JsonObject, Run } from '../../base/types.ts'
import { fileOf, partsOf } from '../../conversation/content.ts'
import { isQuestion, withAnswers } from '../questions.ts'
import { approvalId, reviewsOf } from '../reviews.ts'
import { outputOf } from './output.ts'

interface UiMessage {
  readonly id: string
  readonly role: 'user' | 'assistant' | 'system'
  readonly parts: JsonObject[]
  readonly metadata?: JsonObject
}

interface Conversation {
  readonly threadId: string
  /** With the run that each is of, as `run_id`. */
  readonly messages: readonly JsonObject[]
  readonly questions: readonly Interrupt[]
  /** The run that is under way, or has asked: what nobody knows the run of is of this one. */
  readonly newest: string | null
  /** The message that a run's answer is in. */
  messageOf(runId: string): string
}

export function uiMessages(conversation: Conversation): UiMessage[] {
  const { questions, newest } = conversation
  const messages = withAnswers(conversation.messages)
  const shown: UiMessage[] = []
  const tools = new Map<string, JsonObject>()
  const asked = messages.findLastIndex(({ type }) => type === 'human')
  for (const [at, message] of messages.entries()) {
    const { type } = message
    if (type === 'human' || type === 'system') shown.push(uiMessage(message))
    else if (type === 'tool') addResult(tools, message)
    else if (type === 'ai') {
      const last = answerOf(shown, conversation, message, textOr(message.run_id) ?? (at > asked ? newest : null))
      last.parts.push({ type: 'step-start' }, ...answerParts(message))
      for (const call of objectsIn(message.tool_calls)) last.parts.push(toolPart(tools, call))
      for (const call of objectsIn(message.invalid_tool_calls)) last.parts.push(invalidPart(call))
    }
  }
  for (const question of questions) {
    const parts = ask(tools, question)
    if (parts.length > 0) answerOf(shown, conversation, { id: question.id }, newest).parts.push(...parts)
  }
  return shown
}

function uiMessage(message: JsonObject): UiMessage {
  const { id, type } = message
  return { id: String(id), role: type === 'human' ? 'user' : 'system', parts: answerParts(message) }
}

/** Consecutive answers of a run, or of runs that went on in one message, are one. */
function answerOf(
  shown: UiMessage[],
  { threadId: thread_id, messageOf }: Conversation,
  message: JsonObject,
  runId: string | null
): UiMessage {
  const last = shown.at(-1)
  const id = runId === null ? (last?.role === 'assistant' ? last.id : String(message.id)) : messageOf(runId)
  if (last?.role === 'assistant' && last.id === id) return last
  const made: UiMessage = { id, role: 'assistant', parts: [], metadata: { thread_id, run_id: runId } }
  shown.push(made)
  return made
}

function answerParts(message: JsonObject): JsonObject[] {
  return partsOf(message).flatMap((part): JsonObject[] => {
    if (part.type !== 'media') return [{ type: part.type, text: part.text, state: 'done' }]
    const file = fileOf(part.content)
    if (!file) return []
    const { filename, ...about } = file
    return [{ type: 'file', ...about, ...(filename !== null && { filename }) }]
  })
}

function toolPart(tools: Map<string, JsonObject>, { id, name, args }: JsonObject): JsonObject {
  const about = { toolName: String(name), toolCallId: String(id), input: args ?? {}, providerExecuted: true }
  const part: JsonObject = { type: 'dynamic-tool', state: 'input-available', ...about }
  tools.set(String(id), part)
  return part
}

/** Nobody runs it. */
function invalidPart({ error, ...call }: JsonObject): JsonObject {
  return { ...toolPart(new Map(), call), state: 'output-error', errorText: wordsOf(error) }
}

function addResult(tools: ReadonlyMap<string, JsonObject>, message: JsonObject): void {
  const { tool_call_id, content = '', status } = message
  const part = tools.get(String(tool_call_id))
  if (!part || isQuestion(message)) return
  const isError = status === 'error'
  Object.assign(
    part,
    isError
      ? { state: 'output-error', errorText: wordsOf(content) }
      : { state: 'output-available', output: outputOf(message) }
  )
}

function wordsOf(content: Json | undefined): string {
  return typeof content === 'string' ? content : JSON.stringify(content ?? '')
}

/** @returns what is asked about no call that is shown, in the form in which a stream shows it */
function ask(tools: ReadonlyMap<string, JsonObject>, question: Interrupt): JsonObject[] {
  const own = tools.get(question.id)
  if (own) own.providerExecuted = false
  if (own) return []
  const open = [...tools.values()].filter(({ state }) => state === 'input-available')
  const calls = open.map(({ toolCallId, toolName, input }) => ({
    id: String(toolCallId),
    name: String(toolName),
    args: input ?? {}
  }))
  const reviews = reviewsOf(question, calls)
  if (reviews.length === 0) return [{ type: 'data-interrupt', id: question.id, data: { ...question } }]
  return reviews.flatMap(({ call, name, args }, at) => {
    const id = approvalId(question, at)
    const known = call && tools.get(call.id)
    const part = known ?? toolPart(new Map(), { id, name, args })
    Object.assign(part, { state: 'approval-requested', approval: { id } })
    return known ? [] : [part]
  })
}

/** By run, where a run's answer goes on in the message of another. */
export function messageIds(runs: readonly Pick<Run, 'run_id' | 'metadata'>[], key: string): (runId: string) => string {
  const known = new Map(runs.map(({ run_id, metadata }) => [run_id, textOr(metadata[key])]))
  return (runId) => known.get(runId) ?? runId
}
