// One call to a model, with its metrics, span and line in the log; within a run it is also recorded there. Suggestions and memory call
// outside of runs.
import { randomUUID } from 'node:crypto'
import { inSpan } from '../base/tracing.ts'
import type { AiMessage, JsonObject } from '../base/types.ts'
import { finishReason, toMessage, toTrace } from './chat.ts'
import { type CallIds, type Completion, type Model, type ModelRequest, type OnDelta, PeerError } from './model.ts'
import type { ModelCallStats, Reporting } from './observer.ts'
import { AgentError, type AgentRecord, type Caller } from './runtime.ts'

interface ModelCall extends Omit<ModelRequest, 'messageId' | 'onFirst'> {
  /** Of a message that grows; else it gets a new one. */
  readonly messageId?: string
  readonly model: Model
  readonly caller: Caller
  readonly about: CallIds
  readonly onDelta?: OnDelta
}

/**
 * Calls within a run.
 * @param record keeps a record, waiting where the log has no space
 * @throws AgentError of the model, after it was recorded; the signal's reason after an abort
 */
export async function callModel(
  call: ModelCall,
  record: (record: AgentRecord) => Promise<void>,
  reporting: Reporting
): Promise<AiMessage> {
  const { model, caller, messages, tools, format = null, settings, signal, onDelta = hearNothing, about, space } = call
  const names = { caller, model: model.info.name }
  const id = call.messageId ?? randomUUID()
  await record({ type: 'llm_request', ...names, messages: toTrace(messages), messageId: id })
  const begun = performance.now()
  let firstTokenMs: number | null = null
  const onFirst = () => {
    firstTokenMs = performance.now() - begun
  }
  const optional = {
    ...(tools && { tools }),
    ...(format && { format }),
    ...(settings && { settings }),
    ...(space && { space })
  }
  const request = { messages, onFirst, messageId: id, signal, about, ...optional }
  const completion = await completed(model, request, onDelta, { caller, ...reporting }).catch(
    async (error: unknown) => {
      if (error instanceof AgentError) await record({ type: 'llm_error', caller, error: error.message, messageId: id })
      throw error
    }
  )
  const latencyMs = performance.now() - begun
  const message = toMessage(completion, id, names.model)
  const { responseId, usage } = completion
  const reason = finishReason(completion, message.tool_calls.length > 0)
  await record({
    type: 'llm_response',
    ...names,
    responseId,
    message,
    finishReason: reason,
    usage,
    latencyMs,
    ...(firstTokenMs !== null && { firstTokenMs })
  })
  return message
}

/**
 * Asks for a text outside of any run.
 * @throws what the model throws
 */
export async function completeOnce(
  model: Model,
  messages: readonly JsonObject[],
  signal: AbortSignal,
  reporting: Reporting = {}
): Promise<string> {
  const request = { messages, messageId: randomUUID(), signal }
  const { text } = await completed(model, request, hearNothing, { caller: 'none', ...reporting })
  return text
}

/** Calls the model, reports metrics, and logs the outcome. */
async function completed(
  model: Model,
  request: ModelRequest,
  onDelta: OnDelta,
  { caller, log, observer }: Reporting & Pick<ModelCallStats, 'caller'>
): Promise<Completion> {
  const names = { model: model.info.name, caller }
  const begun = performance.now()
  let firstTokenMs: number | null = null
  const onFirst = () => {
    firstTokenMs = performance.now() - begun
    request.onFirst?.()
  }
  const report = (status: ModelCallStats['status'], usage: Completion['usage'] = null): number => {
    const durationMs = performance.now() - begun
    const [inputTokens, outputTokens] = [usage?.input_tokens ?? 0, usage?.output_tokens ?? 0]
    observer?.modelCall({ ...names, status, durationMs, firstTokenMs, inputTokens, outputTokens })
    return Math.round(durationMs)
  }
  try {
    const completion = await inSpan('model', { 'gen_ai.request.model': names.model, 'colloquy.caller': caller }, () =>
      model.complete({ ...request, onFirst }, onDelta)
    )
    const ms = report('success', completion.usage)
    const { finishReason: finish_reason, usage } = completion
    log?.debug?.(
      { ...request.about, ...names, ms, first_token_ms: rounded(firstTokenMs), finish_reason, usage },
      'a model has answered'
    )
    return completion
  } catch (error) {
    const status = statusOf(error, request.signal)
    const ms = report(status)
    const fields = { ...request.about, ...names, ms, ...detailsOf(error) }
    if (status === 'aborted') log?.debug?.(fields, 'a model call was aborted')
    else log?.error(fields, 'a model call failed')
    throw error
  }
}

function statusOf(error: unknown, { aborted, reason }: AbortSignal): ModelCallStats['status'] {
  if (!aborted) return error instanceof PeerError && error.kind === 'ModelTimeout' ? 'timeout' : 'error'
  return reason instanceof DOMException && reason.name === 'TimeoutError' ? 'timeout' : 'aborted'
}

function detailsOf(error: unknown): object {
  if (!(error instanceof AgentError)) return { err: error }
  const about = { error_type: error.kind, error: error.message }
  return error instanceof PeerError ? { ...about, status: error.status, attempt: error.attempts } : about
}

function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms)
}

function hearNothing(): boolean {
  return true
}
