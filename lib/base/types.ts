// The service's nouns, as stored and sent. Field names are the wire's (snake_case), so that nothing is renamed between
// row and reply; fields not on the wire are removed where the reply is made (routes/).

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** ISO-8601 in UTC, e.g. `2026-04-12T10:11:12.123+00:00`. */
export type Timestamp = string

/** auditor: a user who may also read /api/v1/admin; service: an account of no person, which has only API tokens. */
export const SYSTEM_ROLES = ['admin', 'auditor', 'user', 'service'] as const
export type SystemRole = (typeof SYSTEM_ROLES)[number]

/** What a user may use; 0 is no limit. Money in whole units, bytes of what runs have stored. */
export const QUOTA_LIMITS = [
  'runs_per_day',
  'tokens_per_day',
  'money_per_month',
  'bytes',
  'runs_at_once',
  'requests_per_second'
] as const
export type QuotaLimits = Readonly<Record<(typeof QUOTA_LIMITS)[number], number>>
export type Quota = Partial<QuotaLimits>

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
  /** Raised by every password change: tokens with an older version are refused. */
  readonly token_version: number
  /** Since when nobody may sign in to it; null: it is not disabled. */
  readonly disabled_at: Timestamp | null
  /** Groups that its provider has named at the last sign-in; absent: none. */
  readonly groups?: readonly string[]
  /** A quota of its own; absent: what its groups and everybody have. */
  readonly quota?: Quota | null
}

/** What belongs to a session that was opened at a provider. */
export interface ProviderSession {
  /** Of the session. */
  readonly digest: string
  readonly user_id: string
  readonly provider: string
  readonly subject: string
  /** The session there, if the provider names it. */
  readonly sid: string | null
  /** What the provider has given, encrypted. */
  readonly tokens: string
  /** Unix time in seconds when the provider was asked last whether it stands; null: it cannot be asked. */
  readonly checked: number | null
  /** Unix time in seconds. */
  readonly expires: number
}

/** A sign-in that has not ended, as its user sees it. */
export interface Session {
  /** SHA-256 of its token in hex. */
  readonly digest: string
  readonly user_id: string
  readonly created_at: Timestamp
  /** To some minutes. */
  readonly last_used_at: Timestamp
  /** Unix time in seconds. */
  readonly expires: number
  /** What the browser calls itself; null: unknown. */
  readonly device: string | null
  readonly address: string | null
}

/** A legal hold: nothing of a thread or user is deleted until all of its holds are lifted. */
export interface Hold {
  readonly hold_id: string
  readonly kind: HoldKind
  /** Id of the thread or user. */
  readonly target: string
  readonly reason: string
  /** As `actor` of the audit. */
  readonly created_by: string
  readonly created_at: Timestamp
}

export type HoldKind = 'thread' | 'user'

/** A line of the audit: who did what to whom, from where. No e-mail address and no name stands in it. */
export interface AuditEntry {
  readonly audit_id: number
  readonly at: Timestamp
  /** `sign_in`, `role`... */
  readonly action: string
  /** `user:<id>`, `operator` (the command line), `system` or `nobody`. */
  readonly actor: string
  /** `user:<id>`, `token:<id>`...; null: nothing in particular. */
  readonly target: string | null
  readonly address: string | null
  readonly request_id: string | null
  readonly details: JsonObject
}

/** What a user may do with what is his own. */
export const USER_PERMISSIONS = [
  'threads:read',
  'threads:write',
  'threads:delete',
  'runs:create',
  'runs:read',
  'runs:cancel',
  'store:read',
  'store:write'
] as const
/** Scopes an API token can have; a session has all [contract 1.8]. Those of administration count only where its user may do that. */
export const PERMISSIONS = [...USER_PERMISSIONS, 'admin:read', 'admin:users', 'act:users'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** The scope of an invitation: creating one account. */
export const INVITATION = 'accounts:register'
/** The scope of a password link: setting its user's password, once. */
export const PASSWORD_LINK = 'accounts:password'

/** The scope of a link to a thread: reading it. */
export const THREAD_LINK = 'thread:read'
/** The scope of such a link that opens the files of the thread as well. */
export const THREAD_FILES = 'thread:files'

/** Prefix of API tokens: anything else is not ours, and is ignored. */
export const API_TOKEN_PREFIX = 'clq_'

/** A key for programs: acts as its user, within its scopes. */
export interface ApiToken {
  readonly token_id: string
  readonly user_id: string
  readonly name: string
  /** SHA-256 of the token in hex. The token itself is shown once and not stored. */
  readonly digest: string
  readonly scopes: readonly (
    | Permission
    | typeof INVITATION
    | typeof PASSWORD_LINK
    | typeof THREAD_LINK
    | typeof THREAD_FILES
  )[]
  readonly created_at: Timestamp
  /** null: until revoked. */
  readonly expires_at: Timestamp | null
  /** To the minute; null: never used. */
  readonly last_used_at: Timestamp | null
  /** The only thread that a link opens; absent: it is no link. */
  readonly thread_id?: string
}

/** What a link opens, and through whose eyes. */
export interface OpenedLink {
  readonly threadId: string
  readonly hasFiles: boolean
  /** Of the signed-in user who has opened it; null: it needs none. */
  readonly viewer: Grant | null
}

/** What authenticated a caller. Kept with open responses, and checked again while they last. */
export interface Grant {
  readonly kind: 'session' | 'token' | 'asserted' | 'link'
  readonly userId: string
  /** SHA-256 of the credential as hex. */
  readonly digest: string
  /** token_version of the user at sign-in; 0 for API tokens, which a password change does not end. */
  readonly version: number
  /** Unix time in seconds; null: never. */
  readonly expires: number | null
  /** null: everything its user may do. */
  readonly permissions: ReadonlySet<Permission> | null
  /** Set for users authenticated by the operator's own rules: as those describe them. */
  readonly asserted?: JsonObject
  /** Whether those rules would authenticate the same request as the same user again. */
  readonly isAssertedStill?: () => Promise<boolean>
  /** The account whose token acts for this user; absent: the user's own. */
  readonly actor?: string
  /** The one thread that is open by a link, whose maker is the user; absent: everything of its user's. */
  readonly link?: OpenedLink
}

/** The credential of a request: a session token, an API token, or the secret of a link. */
export interface Credential {
  readonly kind: 'session' | 'token' | 'link'
  readonly text: string
  /** The session token that has come with a link; null: none. */
  readonly viewer?: string | null
  /** Where the client is, for the audit of links and of those that act for others. */
  readonly address?: string
  /** Id or e-mail address of the user that a token is to act for. */
  readonly onBehalfOf?: string
}

export interface Principal {
  readonly user: User
  readonly grant: Grant
}

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
