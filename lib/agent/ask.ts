// One question to a model, from its request to its answer: of a run (journalled, counted), or of nobody's run (a suggestion, the
// memory), which leaves nothing behind.
import { randomUUID } from 'node:crypto'
import type { AiMessage, JsonObject } from '../types.ts'
import { finishReason, toMessage, toTrace } from './chat.ts'
import type { Completion, Model, OnDelta, ToolSpec } from './model.ts'
import { AgentError, type Caller, type Fact } from './runtime.ts'

export interface Question {
  readonly model: Model
  readonly caller: Caller
  /** In chat-completions form. */
  readonly messages: readonly JsonObject[]
  readonly tools?: readonly ToolSpec[]
  readonly signal: AbortSignal
  readonly onDelta?: OnDelta
  space?(): Promise<void>
}

/**
 * Asks within a run.
 * @param record keeps a fact, waiting where the log has no space
 * @throws AgentError of the model, after it was kept; the signal's reason after an abort
 */
export async function askInRun(question: Question, record: (fact: Fact) => Promise<void>): Promise<AiMessage> {
  const { model, caller, messages } = question
  const about = { caller, model: model.info.name }
  await record({ type: 'llm_request', ...about, messages: toTrace(messages) })
  const id = randomUUID()
  const begun = performance.now()
  const completion = await completed(question, id, record)
  const latencyMs = performance.now() - begun
  const message = toMessage(completion, id, about.model)
  const { responseId, usage } = completion
  const reason = finishReason(completion, message.tool_calls.length > 0)
  await record({ type: 'llm_response', ...about, responseId, message, finishReason: reason, usage, latencyMs })
  return message
}

async function completed(
  question: Question,
  messageId: string,
  record: (fact: Fact) => Promise<void>
): Promise<Completion> {
  const { model, caller, messages, tools, signal, onDelta = hearNothing, space } = question
  try {
    return await model.complete(
      { messages, messageId, signal, ...(tools && { tools }), ...(space && { space }) },
      onDelta
    )
  } catch (error) {
    if (error instanceof AgentError) await record({ type: 'llm_error', caller, error: error.message })
    throw error
  }
}

/** Asks for a text that belongs to no run. @throws what the model throws */
export async function askAside(model: Model, messages: readonly JsonObject[], signal: AbortSignal): Promise<string> {
  const { text } = await model.complete({ messages, messageId: randomUUID(), signal }, hearNothing)
  return text
}

function hearNothing(): boolean {
  return true
}
