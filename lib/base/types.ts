// The service's nouns, as stored and sent. Field names are the wire's (snake_case), so that nothing is renamed between
// row and reply; fields not on the wire are removed where the reply is made (routes/).

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** ISO-8601 in UTC, e.g. `2026-04-12T10:11:12.123+00:00`. */
export type Timestamp = string

/** An open question to the user. */
export interface Interrupt {
  /** Id the answer refers to. */
  readonly id: string
  /** The question, in whatever form the agent asks it. */
  readonly value: Json
}

export type ThreadStatus = 'idle' | 'running' | 'interrupted' | 'error'

export interface Thread {
  readonly thread_id: string
  /** null: shared, visible to everyone [Auth 6]. */
  readonly user_id: string | null
  readonly assistant_id: string | null
  readonly display_name: string | null
  readonly status: ThreadStatus
  readonly metadata: JsonObject
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

/** An assistant's settings, kept per version. */
export interface AssistantContent {
  readonly graph_id: string
  readonly name: string
  readonly description: string | null
  readonly config: JsonObject
  readonly context: JsonObject
  readonly metadata: JsonObject
}

/** A graph with its own config. */
export interface Assistant extends AssistantContent {
  readonly assistant_id: string
  /** null: everybody's. */
  readonly user_id: string | null
  /** The current version, from 1. */
  readonly version: number
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

export type RunStatus = 'pending' | 'running' | 'success' | 'error' | 'timeout' | 'interrupted'
export type MultitaskStrategy = 'reject' | 'interrupt' | 'rollback' | 'enqueue'

/** Tokens of one run, by caller of the model. */
export interface RunTotals {
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly total_tokens: number
  readonly llm_call_count: number
  readonly lead_agent_tokens: number
  readonly subagent_tokens: number
  readonly middleware_tokens: number
  /** Final assistant replies of the lead agent. */
  readonly message_count: number
}

export const NO_TOTALS: RunTotals = {
  total_input_tokens: 0,
  total_output_tokens: 0,
  total_tokens: 0,
  llm_call_count: 0,
  lead_agent_tokens: 0,
  subagent_tokens: 0,
  middleware_tokens: 0,
  message_count: 0
}

/**
 * Ordinals from here on belong to delayed runs that have not started. They have no place in their thread yet and sort behind all that
 * have one; each gets its own when it starts, so the order of a thread's runs is the order in which readers can see them.
 */
export const UNPLACED = 2 ** 30

export interface Run extends RunTotals {
  /** Numeric key of the run's frames; never on the wire. */
  readonly key: number
  readonly run_id: string
  readonly thread_id: string
  readonly user_id: string | null
  readonly assistant_id: string | null
  readonly status: RunStatus
  /** Position of the run in its thread, from 1; from UNPLACED on it has none yet. */
  readonly ordinal: number
  /** How often a process has begun it; never on the wire. A run that ends its process each time must not be begun for ever. */
  readonly attempts: number
  readonly model_name: string | null
  readonly multitask_strategy: MultitaskStrategy
  readonly metadata: JsonObject
  readonly kwargs: JsonObject
  readonly error: string | null
  readonly stop_reason: string | null
  readonly follow_up_to_run_id: string | null
  readonly first_human_message: string | null
  readonly last_ai_message: string | null
  /** Cursor of the last frame, `<epoch>-<n>`; set at the end. */
  readonly last_cursor: string | null
  readonly final_checkpoint_id: string | null
  readonly idempotency_key: string | null
  readonly idempotency_hash: string | null
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

export type EventCategory = 'message' | 'trace' | 'lifecycle' | 'middleware'

/** A durable record of a run. `(thread_id, seq)` is its public identifier. */
export interface RunEvent {
  readonly thread_id: string
  readonly run_id: string
  /** From 1, strictly increasing within the thread. */
  readonly seq: number
  readonly event_type: string
  readonly category: EventCategory
  readonly content: Json
  readonly metadata: JsonObject
  readonly created_at: Timestamp
  readonly user_id: string | null
}

export interface Feedback {
  readonly feedback_id: string
  readonly run_id: string
  readonly thread_id: string
  readonly user_id: string | null
  readonly message_id: string | null
  readonly rating: 1 | -1
  readonly comment: string | null
  readonly created_at: Timestamp
}

/** An item of the long-term store: a value LangGraph's clients and graphs keep for a user across threads, under a namespace and a key. */
export interface StoreItem {
  readonly namespace: readonly string[]
  readonly key: string
  readonly value: JsonObject
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

/**
 * webhook: the end of a run is sent; push: ends of a task are sent where its client has asked later; web_push: browsers of a user are told; turn: a cron starts a run; removal: a thread is deleted; departure: all that somebody has left whose
 * account was removed; mail: a link to a new password is sent.
 */
export const JOB_KINDS = ['webhook', 'push', 'web_push', 'turn', 'removal', 'departure', 'mail'] as const
export type JobKind = (typeof JOB_KINDS)[number]

/** A cron: a recurring run. */
export interface Cron {
  readonly cron_id: string
  readonly user_id: string
  /** As the caller named it; null: the default. */
  readonly assistant_id: string | null
  /** null: every run gets a new thread. */
  readonly thread_id: string | null
  /** Five fields: minute, hour, day, month, day of the week. */
  readonly schedule: string
  /** IANA name; null: UTC. */
  readonly timezone: string | null
  /** The body of its runs. */
  readonly payload: JsonObject
  readonly metadata: JsonObject
  /** What happens to that thread when the run has ended. */
  readonly on_run_completed: 'delete' | 'keep'
  readonly enabled: boolean
  readonly end_time: Timestamp | null
  /** null: none. */
  readonly next_run_date: Timestamp | null
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

export interface FeedbackStats {
  readonly total: number
  readonly positive: number
  readonly negative: number
}

export interface ToolCall {
  readonly name: string
  readonly args: JsonObject
  readonly id: string
  readonly type: 'tool_call'
}
export interface InvalidToolCall {
  readonly name: string
  /** The model's text: truncated, or not a JSON object. */
  readonly args: string
  readonly id: string
  readonly error: string | null
  readonly type: 'invalid_tool_call'
}
export interface UsageMetadata {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  /** Input tokens served from the provider's cache. */
  readonly input_token_details?: { readonly cache_read: number }
  /** Output tokens spent on hidden reasoning. */
  readonly output_token_details?: { readonly reasoning: number }
}

interface MessageFields {
  readonly id: string
  readonly content: string | Json[]
  readonly additional_kwargs: JsonObject
  readonly response_metadata: JsonObject
  readonly name: string | null
}
export interface HumanMessage extends MessageFields {
  readonly type: 'human'
}
export interface SystemMessage extends MessageFields {
  readonly type: 'system'
}
export interface AiMessage extends MessageFields {
  readonly type: 'ai'
  readonly tool_calls: ToolCall[]
  readonly invalid_tool_calls: InvalidToolCall[]
  readonly usage_metadata: UsageMetadata | null
}
export interface ToolMessage extends MessageFields {
  readonly type: 'tool'
  readonly tool_call_id: string
  readonly artifact: Json
  readonly status: 'success' | 'error'
}
/** The serialized form of the agent runtime's base message: the same in checkpoints, events and frames. */
export type Message = HumanMessage | SystemMessage | AiMessage | ToolMessage

let told = { at: Number.NaN, text: '' }

/** The current time in the service's only format. Cached, because it is needed a dozen times per run. */
export function timestamp(at = Date.now()): Timestamp {
  if (at !== told.at) told = { at, text: new Date(at).toISOString().replace('Z', '+00:00') }
  return told.text
}

/** The first 16 bytes of a digest as a UUID; version 8 is for rules of our own. */
export function uuidOf(digest: Uint8Array, version: 5 | 8): string {
  digest[6] = (digest[6]! & 0x0f) | (version << 4)
  digest[8] = (digest[8]! & 0x3f) | 0x80
  const hex = Array.from(digest.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** True for a JSON object; not for arrays. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a run was delayed and has not begun: it has no place in its thread yet. */
export function isDelayed({ ordinal }: Pick<Run, 'ordinal'>): boolean {
  return ordinal >= UNPLACED
}

export function isInFlight({ status }: { readonly status: string }): boolean {
  return status === 'pending' || status === 'running'
}

/** At most `max` UTF-16 units, never splitting a surrogate pair, which no database would take. */
export function cutTo(text: string, max: number): string {
  if (text.length <= max) return text
  const isPair = /^[\uD800-\uDBFF][\uDC00-\uDFFF]/.test(text.slice(max - 1, max + 1))
  return text.slice(0, isPair ? max - 1 : max)
}

/** Text of a message whose content is a text or a list of blocks. */
export function textOf(content: string | Json[]): string {
  if (typeof content === 'string') return content
  return content.map(blockText).join('')
}

function blockText(block: Json): string {
  if (typeof block === 'string') return block
  if (block === null || typeof block !== 'object' || Array.isArray(block)) return ''
  return typeof block.text === 'string' ? block.text : ''
}
