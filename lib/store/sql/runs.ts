// A run as a row.
import type { Run } from '../../types.ts'
import type { TokenUsage } from '../store.ts'
import { parseObject } from './json.ts'

export type RunRow = Omit<Run, 'metadata' | 'kwargs'> & { readonly metadata_json: string; readonly kwargs_json: string }

/** What an insert gives, in this order; `key` is the database's. */
export const GIVEN = `run_id, thread_id, user_id, assistant_id, status, ordinal, model_name, multitask_strategy, metadata_json, kwargs_json,
  error, stop_reason, follow_up_to_run_id, first_human_message, last_ai_message, total_input_tokens, total_output_tokens, total_tokens,
  llm_call_count, lead_agent_tokens, subagent_tokens, middleware_tokens, message_count, last_cursor, final_checkpoint_id,
  idempotency_key, idempotency_hash, created_at, updated_at`
export const COLUMNS = `key, ${GIVEN}`

export const IN_FLIGHT = "status IN ('pending', 'running')"

export function toRun({ metadata_json, kwargs_json, ...row }: RunRow): Run {
  return { ...row, metadata: parseObject(metadata_json), kwargs: parseObject(kwargs_json) }
}

/** Sums over the runs that one model has answered. */
export interface UsageRow {
  readonly model: string
  readonly runs: number
  readonly input: number
  readonly output: number
  readonly total: number
  readonly lead_agent: number
  readonly subagent: number
  readonly middleware: number
}

export function toUsage(rows: readonly UsageRow[]): TokenUsage {
  const sum = (pick: (row: UsageRow) => number) => rows.reduce((total, row) => total + pick(row), 0)
  return {
    total_tokens: sum((row) => row.total),
    total_input_tokens: sum((row) => row.input),
    total_output_tokens: sum((row) => row.output),
    total_runs: sum((row) => row.runs),
    by_model: Object.fromEntries(rows.map((row) => [row.model, { tokens: row.total, runs: row.runs }])),
    by_caller: {
      lead_agent: sum((row) => row.lead_agent),
      subagent: sum((row) => row.subagent),
      middleware: sum((row) => row.middleware)
    }
  }
}
