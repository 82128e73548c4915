// The nouns of the service, in the shape in which they are stored and sent. Field names are the wire's (snake_case), so that
// nothing is renamed between a row and a reply; what is not on the wire is removed where the reply is made (routes/).

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** ISO-8601 in UTC, e.g. `2026-04-12T10:11:12.123+00:00`. */
export type Timestamp = string

export type SystemRole = 'admin' | 'user'

export interface User {
  /** UUID text, at most 64 characters wherever it is stored or compared. */
  readonly id: string
  /** Lower case. */
  readonly email: string
  /** `2$` + bcrypt text; null for accounts without a password. */
  readonly password_hash: string | null
  readonly system_role: SystemRole
  readonly created_at: Timestamp
  readonly oauth_provider: string | null
  readonly oauth_id: string | null
  readonly needs_setup: boolean
  /** Raised by every change of password: tokens of an older version are refused. */
  readonly token_version: number
}

/** What an API token can be allowed, one by one; a session may do all of it [contract 1.8]. */
export const PERMISSIONS = [
  'threads:read',
  'threads:write',
  'threads:delete',
  'runs:create',
  'runs:read',
  'runs:cancel',
  'store:read',
  'store:write'
] as const
export type Permission = (typeof PERMISSIONS)[number]

/** What an invitation is good for, and nothing else is: one account. */
export const INVITATION = 'accounts:register'

/** How every API token begins: what does not is none of ours, and is left to whoever it is for. */
export const API_TOKEN_PREFIX = 'clq_'

/** A key for programs: acts as its user, within its scopes. */
export interface ApiToken {
  readonly token_id: string
  readonly user_id: string
  readonly name: string
  /** SHA-256 of the token as hex. The token itself is shown once, when it is made, and kept nowhere. */
  readonly digest: string
  readonly scopes: readonly (Permission | typeof INVITATION)[]
  readonly created_at: Timestamp
  /** null: it ends when it is revoked. */
  readonly expires_at: Timestamp | null
  /** To the minute; null: never used. */
  readonly last_used_at: Timestamp | null
}

/** By which credential somebody is here: small enough to be kept with an open answer, and asked again while it lasts. */
export interface Grant {
  readonly kind: 'session' | 'token' | 'asserted'
  readonly userId: string
  /** SHA-256 of the credential as hex. */
  readonly digest: string
  /** token_version of the user at sign-in. Of an API token 0: a change of password does not end it. */
  readonly version: number
  /** Unix time in seconds; null: it does not end by itself. */
  readonly expires: number | null
  /** null: all that its user may do. */
  readonly permissions: ReadonlySet<Permission> | null
  /** Of a user whom rules of the operator's own have let in: as those know them. */
  readonly asserted?: JsonObject
}

/** What a request presents to be let in: the token of a session, or an API token. */
export interface Credential {
  readonly kind: 'session' | 'token'
  readonly text: string
}

/** Who calls, and what lets them. */
export interface Principal {
  readonly user: User
  readonly grant: Grant
}

/** A question that waits for its user. */
export interface Interrupt {
  /** What the answer is tied to. */
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

/** What an assistant adds to its graph, and each version keeps. */
export interface AssistantContent {
  readonly graph_id: string
  readonly name: string
  readonly description: string | null
  readonly config: JsonObject
  readonly context: JsonObject
  readonly metadata: JsonObject
}

/** A graph with a configuration of its own. */
export interface Assistant extends AssistantContent {
  readonly assistant_id: string
  /** null: everybody's. */
  readonly user_id: string | null
  /** The one that is in force, from 1. */
  readonly version: number
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

export type RunStatus = 'pending' | 'running' | 'success' | 'error' | 'timeout' | 'interrupted'
export type MultitaskStrategy = 'reject' | 'interrupt' | 'rollback' | 'enqueue'

/** Tokens of one run, by who asked the model for them. */
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

export interface Run extends RunTotals {
  /** Short number under which the frames of the run are stored; never on the wire. */
  readonly key: number
  readonly run_id: string
  readonly thread_id: string
  readonly user_id: string | null
  readonly assistant_id: string | null
  readonly status: RunStatus
  /** Place of the run in its thread, from 1. */
  readonly ordinal: number
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

/** What is kept for a user over all threads, by LangGraph's clients and graphs: a value under a namespace and a key. */
export interface StoreItem {
  readonly namespace: readonly string[]
  readonly key: string
  readonly value: JsonObject
  readonly created_at: Timestamp
  readonly updated_at: Timestamp
}

/** A run that is to be started again and again. */
export interface Cron {
  readonly cron_id: string
  readonly user_id: string
  /** As the caller named it; null: the one that there is. */
  readonly assistant_id: string | null
  /** null: every run has a thread of its own. */
  readonly thread_id: string | null
  /** Five fields: minute, hour, day, month, day of the week. */
  readonly schedule: string
  /** Of the IANA; null: UTC. */
  readonly timezone: string | null
  /** The body of its runs. */
  readonly payload: JsonObject
  readonly metadata: JsonObject
  /** What becomes of a thread of its own when the run has ended. */
  readonly on_run_completed: 'delete' | 'keep'
  readonly enabled: boolean
  readonly end_time: Timestamp | null
  /** null: it never comes again. */
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
  /** The text as the model sent it: it is no JSON object, or was cut. */
  readonly args: string
  readonly id: string
  readonly error: string | null
  readonly type: 'invalid_tool_call'
}
export interface UsageMetadata {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly total_tokens: number
  /** Of the input tokens those that the provider had in its cache. */
  readonly input_token_details?: { readonly cache_read: number }
  /** Of the output tokens those that nobody was shown. */
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

/** Now, in the service's one time format. Asked for a dozen times a run, and many runs begin in one millisecond. */
export function timestamp(at = Date.now()): Timestamp {
  if (at !== told.at) told = { at, text: new Date(at).toISOString().replace('Z', '+00:00') }
  return told.text
}

/** True for an object that came out of JSON; lists are none. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A run that has not ended: it waits, or works. */
export function isInFlight({ status }: { readonly status: string }): boolean {
  return status === 'pending' || status === 'running'
}

/** At most `max` UTF-16 units. A pair of them is not cut in two: half of one is no text that a database takes. */
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
