// The response object: a run in the words of the Responses API.
import { isObject, type Json, type JsonObject, type Run } from '../../base/types.ts'
import { stopError } from '../../run/log/frame.ts'
import { asks } from '../tasks.ts'
import { conversationId, responseId } from './ids.ts'

/** What a run keeps of the request that began it. */
export interface Kept {
  /** The client's. */
  readonly metadata: JsonObject
  readonly model: string | null
  readonly previous: string | null
  readonly background: boolean
  /** Calls whose results are in its input. */
  readonly answers: readonly string[]
  /** Fields that the response tells again. */
  readonly echo: JsonObject
}

/** By which a run has it. */
export const KEPT = 'openai'

/** Of a run that another protocol has begun, what there is. */
export function keptOf({ kwargs, assistant_id }: Run): Kept {
  const kept = isObject(kwargs[KEPT]) ? kwargs[KEPT] : {}
  return {
    metadata: isObject(kept.metadata) ? kept.metadata : {},
    // Not the row's model_name, which its end may change: every replay says the same.
    model: typeof kept.model === 'string' ? kept.model : assistant_id,
    previous: typeof kept.previous === 'string' ? kept.previous : null,
    background: kept.background === true,
    answers: Array.isArray(kept.answers) ? kept.answers.map(String) : [],
    echo: isObject(kept.echo) ? kept.echo : {}
  }
}

/** How far a response is. */
interface Progress {
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'incomplete' | 'cancelled'
  readonly output: readonly Json[]
  readonly error?: string | null
  readonly usage?: JsonObject | null
}

/** How a run that is over has ended. */
export function endOf(run: Run, failure: string | null): Pick<Progress, 'status' | 'error'> {
  if (run.status === 'success' || asks(run)) return { status: 'completed' }
  if (run.stop_reason === CUT) return { status: 'incomplete' }
  const stop = stopError(run)
  if (run.status === 'interrupted' && stop === null) return { status: 'cancelled' }
  return { status: 'failed', error: failure ?? run.error ?? stop?.message ?? 'The run failed' }
}

/** The model has reached its limit of length. */
const CUT = 'model_length_capped'

export function responseOf(run: Run, { status, output, error = null, usage = null }: Progress): JsonObject {
  const { metadata, model, previous, background, echo } = keptOf(run)
  const isOver = status !== 'queued' && status !== 'in_progress'
  return {
    id: responseId(run),
    object: 'response',
    created_at: seconds(run.created_at),
    status,
    ...(isOver && { completed_at: status === 'completed' ? seconds(run.updated_at) : null }),
    background,
    error: error === null ? null : { code: 'server_error', message: error },
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    instructions: null,
    max_output_tokens: null,
    model: model ?? 'lead_agent',
    output: [...output],
    parallel_tool_calls: true,
    previous_response_id: previous,
    conversation: { id: conversationId(run.thread_id) },
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: true,
    temperature: null,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    usage: usage && usageOf(usage),
    user: null,
    ...echo,
    metadata
  }
}

export function seconds(time: string): number {
  return Math.floor(Date.parse(time) / 1000)
}

/** Tokens in its words. */
function usageOf(usage: JsonObject): JsonObject {
  const { input, output, total, cached, reasoning } = countsOf(usage)
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: total
  }
}

/** Tokens as messages count them. */
export function countsOf({ input_token_details: ofInput, output_token_details: ofOutput, ...usage }: JsonObject) {
  const input = countIn(usage.input_tokens)
  const output = countIn(usage.output_tokens)
  return {
    input,
    output,
    total: countIn(usage.total_tokens) || input + output,
    cached: isObject(ofInput) ? countIn(ofInput.cache_read) : 0,
    reasoning: isObject(ofOutput) ? countIn(ofOutput.reasoning) : 0
  }
}

function countIn(value: Json | undefined): number {
  return typeof value === 'number' ? value : 0
}
