// Every failure clients can see, in one table: code -> status -> public text. Other code throws codes; nobody matches
// message texts. An error not in this table is a bug: logged, and answered with a bare 500.

/** Status, public text with `{names}` to fill in, and for authentication failures the code clients see. */
type Entry = readonly [status: number, text: string, publicCode?: string]

const TABLE = {
  // Authentication: {"detail": {"code", "message"}}. Several of ours may share one public code, never the other way round.
  not_authenticated: [401, 'Authentication required', 'not_authenticated'],
  guard_not_authenticated: [401, 'Not authenticated', 'not_authenticated'],
  // One text for all failures of a token, so that a forger learns nothing from it [Auth 3].
  token_invalid: [401, 'Invalid token', 'token_invalid'],
  token_expired: [401, 'Invalid token', 'token_expired'],
  token_revoked: [401, 'Invalid token', 'token_invalid'],
  user_not_found: [401, 'User not found', 'user_not_found'],
  invalid_credentials: [401, 'Incorrect email or password', 'invalid_credentials'],
  current_password_wrong: [400, 'Current password is incorrect', 'invalid_credentials'],
  password_not_used: [400, 'OAuth users cannot change password', 'invalid_credentials'],
  email_already_exists: [400, 'Email already registered', 'email_already_exists'],
  email_in_use: [400, 'Email already in use', 'email_already_exists'],
  system_already_initialized: [409, 'System already initialized', 'system_already_initialized'],
  invitation_invalid: [403, 'Registration needs an invitation that is good', 'registration_disabled'],
  registration_disabled: [403, 'Registration is disabled', 'registration_disabled'],
  setup_link_needed: [
    403,
    'The first administrator is made by the link in setup_link.txt of the data home',
    'setup_link_needed'
  ],
  account_disabled: [403, 'This account is disabled', 'account_disabled'],
  password_link_invalid: [403, 'This link was used already, or is not good any more', 'password_link_invalid'],

  // Guards: {"detail": "text"}, as everything below.
  csrf_missing: [403, 'CSRF token missing. Include X-CSRF-Token header.'],
  csrf_mismatch: [403, 'CSRF token mismatch.'],
  cross_site: [403, 'Cross-site auth request denied.'],
  permission_denied: [403, 'Permission denied: {permission}'],
  refused: [403, 'Forbidden'],
  token_not_accepted: [403, 'API tokens are not accepted here'],
  link_refused: [403, 'A link to a conversation does not open this'],
  links_full: [409, 'A conversation has at most {max} links. Revoke one and try again.'],
  link_not_found: [404, 'Link {id} not found'],
  sharing_off: [403, 'Sharing conversations is turned off here'],
  too_many_by_links: [429, 'Too many requests by links from this address. Try again later.'],
  api_token_not_found: [404, 'API token {id} not found'],
  api_tokens_full: [409, 'An account has at most {max} API tokens. Revoke one and try again.'],
  too_many_logins: [429, 'Too many login attempts. Try again later.'],
  too_many_registrations: [429, 'Too many registrations from this address. Try again later.'],
  account_not_found: [404, 'User {id} not found'],
  session_not_found: [404, 'Session {id} not found'],
  configuration_invalid: [422, 'The configuration is wrong, and everything stays as it is: {problems}'],
  held: [409, 'This is under a legal hold: it is not deleted until an administrator lifts the hold'],
  hold_not_found: [404, 'Hold {id} not found'],
  last_admin: [409, 'This is the last administrator who may sign in: make another one first'],
  service_account_only: [409, 'Only service accounts have tokens that administrators make'],
  service_account_password: [409, 'A service account has no password, only tokens'],
  service_account_fixed: [409, 'A service account stays one, and nobody else becomes one'],
  acting_refused: [403, 'This credential cannot act for that user'],
  invitation_not_found: [404, 'Invitation {id} not found'],
  setup_status_cooldown: [429, 'Setup status check is rate limited'],
  oauth_unsupported: [400, 'Unsupported OAuth provider: {provider}'],
  oauth_not_implemented: [501, 'OAuth login not yet implemented'],
  password_mail_off: [403, 'This service sends no mail: ask an administrator for a link', 'password_mail_off'],
  too_many_password_mails: [429, 'Too many mails for this address, or from here. Try again later.'],
  local_sign_in_off: [403, 'Accounts of this service sign in with a provider', 'local_sign_in_off'],
  sso_not_allowed: [403, 'This account of the provider may not sign in here', 'sso_not_allowed'],
  sso_account_exists: [409, 'There is an account with this address already', 'sso_account_exists'],
  sso_unreachable: [503, 'The sign-in provider cannot be reached: {reason}'],
  sso_next_refused: [400, 'next must be a path here, or an address of an origin in server.cors_origins'],
  too_many_sign_ins: [429, 'Too many sign-ins from this address. Try again later.'],
  logout_token_invalid: [400, 'The logout token is not valid'],
  model_not_allowed: [403, 'The model {name} is for other groups'],
  agent_not_allowed: [403, 'The agent {name} is for other groups'],

  // The request itself.
  bad_path: [400, 'The path is not valid percent-encoded UTF-8'],
  host_repeated: [400, 'A request has one Host header'],
  not_found: [404, 'Not Found'],
  method_not_allowed: [405, 'Method Not Allowed'],
  upgrade_required: [426, 'This address speaks WebSocket. POST to it for an event stream.'],
  body_too_large: [413, 'The request body is larger than {limit} bytes'],
  body_too_slow: [408, 'The request body did not arrive in time'],
  bodies_in_flight: [429, 'Too many request bodies are on their way. Try again.'],
  internal: [500, 'Internal Server Error'],
  body_cut: [400, 'The request body ended before its length'],
  invalid: [422, 'Invalid request'],

  // Threads and their state.
  thread_not_found: [404, 'Thread {id} not found'],
  thread_exists: [409, 'Thread already exists'],
  state_conflict: [409, 'The state of thread {id} was changed by others at the same time. Try again.'],
  state_of_other_project: [409, '{reason}'],
  thread_in_flight: [409, 'Thread {id} has work in flight. Try again after the work finishes.'],
  checkpoint_not_found: [404, 'Checkpoint {id} not found'],
  checkpoint_elsewhere: [400, 'The checkpoint belongs to thread {id}'],

  // Assistants.
  assistant_not_found: [404, 'Assistant not found'],
  assistant_unknown: [
    404,
    'No assistant found for "{id}". Make sure the assistant ID is for a valid assistant or a valid graph ID.'
  ],
  assistant_exists: [409, 'Assistant already exists'],
  assistant_version_missing: [404, 'Assistant {id} has no version {version}'],
  assistant_is_system: [409, 'Assistant {id} is the own one of its graph, and is not changed: create another one'],
  assistants_full: [409, 'A user has at most {max} assistants. Delete one and try again.'],
  graph_not_found: [404, 'Graph "{id}" not found'],

  // Runs.
  run_not_found: [404, 'Run {id} not found'],
  run_not_in_thread: [404, 'Run {id} not found in thread {thread_id}'],
  input_not_taken: [409, 'Run {id} takes no input: its agent does not, or it is over'],
  not_continuable: [409, 'Model {name} cannot continue an answer'],
  run_not_cancellable: [409, 'Run {id} is not cancellable (status: {status})'],
  frame_not_found: [404, 'Frame {n} of run {id} was not cut, or is gone'],
  range_outside: [416, 'The range lies outside of what there is'],
  thread_busy: [409, 'Thread {id} already has an active run'],
  idempotency_conflict: [409, 'This Idempotency-Key was used before with another request'],
  state_invalid: [400, 'The state cannot be changed so: {reason}'],
  message_invalid: [400, 'Invalid message at {where}[{index}]: {reason}'],
  model_unknown: [400, "Model '{name}' is not in the configured model allowlist"],
  model_not_found: [404, "Model '{name}' not found"],
  too_many_streams: [429, 'Too many open streams. Close one and try again.'],
  too_many_questions: [429, 'A model is being asked for you already. Wait for its answer.'],
  // The last day or month of a quota is over at {reset}.
  quota_runs: [429, 'You have started {max} runs today, which is your quota. Try again from {reset} on.'],
  quota_tokens: [429, 'You have used {max} tokens or more today, which is your quota. Try again from {reset} on.'],
  quota_money: [
    429,
    'You have spent {max} {currency} or more this month, which is your quota. Try again from {reset} on.'
  ],
  quota_bytes: [429, 'Your conversations have {max} bytes or more, which is your quota. Delete some and try again.'],
  quota_at_once: [429, 'You have {max} runs in flight, which is your quota. Wait for one to end and try again.'],
  too_many_requests: [429, 'You may send {max} requests a second. Try again in a second.'],
  too_many_runs: [429, 'Too many active runs. Wait for one to end and try again.'],
  not_ready: [503, 'Not ready: {reason}'],
  graphs_unavailable: [503, 'The graphs cannot be asked at the moment: {reason}'],
  store_unavailable: [503, 'The database does not take writes at the moment: {reason}. Try again.'],
  store_unreachable: [503, 'The database does not answer at the moment: {reason}. Try again.'],
  disk_unavailable: [503, 'Files cannot be written at the moment: {reason}. Try again.'],
  changed_meanwhile: [409, 'It was changed or deleted meanwhile. Look again.'],

  // Feedback.
  feedback_missing: [404, 'No feedback found for this run'],
  feedback_not_found: [404, 'Feedback {id} not found'],
  feedback_unavailable: [503, 'Feedback not available'],
  operation_busy: [409, 'Somebody is at it already ({name}): one at a time. Try again when it is done.'],
  operation_refused: [409, 'It is not possible here: {reason}'],
  job_not_found: [404, 'There is no {kind} {key}'],
  push_unavailable: [501, 'Web Push needs the package web-push: npm install web-push'],
  push_endpoint_invalid: [422, 'A push service has an https:// address, or is on this machine'],
  push_subscription_not_found: [404, 'Subscription {id} not found'],
  search_unavailable: [501, 'Messages cannot be searched here'],
  rating_invalid: [400, 'rating must be +1 or -1'],

  // Files of a thread [contract 6.1, 6.2].
  no_files: [400, 'No files provided'],
  upload_malformed: [400, 'The multipart body is malformed or cut off'],
  too_many_files: [413, 'Too many files: at most {limit} in one request'],
  file_too_large: [413, 'File too large: at most {limit} bytes'],
  files_too_large: [413, 'Files too large: at most {limit} bytes in one request'],
  files_over_quota: [413, 'Your files would have more than {limit} bytes. Delete some and try again.'],
  file_not_found: [404, 'File not found: {name}'],
  file_path_invalid: [400, 'Invalid path'],
  artifact_path_invalid: [400, 'Path must start with /mnt/user-data'],
  artifact_outside: [403, 'Access denied: path traversal detected'],
  artifact_not_found: [404, 'Artifact not found: {path}'],
  artifact_no_file: [400, 'Path is not a file: {path}'],
  too_many_members: [429, 'Too many members of archives are being read. Try again.'],
  archive_not_found: [404, 'Skill file not found: {path}'],
  member_not_found: [404, "File '{member}' not found in skill archive"],

  // Memory.
  memory_fact_not_found: [404, "Memory fact '{id}' not found."],
  memory_fact_blank: [400, 'content must not be blank'],

  // Items of the long-term store.
  namespace_missing: [400, 'Namespace is required'],
  namespace_reserved: [422, 'The namespace {namespace} is kept for the service'],
  namespace_invalid: [422, 'Namespace labels cannot be empty or contain periods. Received: {namespace}'],
  address_too_long: [422, 'The {what} has more than {max} characters'],
  item_too_large: [413, 'The value has more than {limit} bytes as JSON'],
  item_not_found: [404, 'Item not found'],
  scan_too_long: [400, 'More than {max} would have to be looked through: narrow the namespace or the filter'],
  items_full: [409, 'Your items are too many, or too large together. Delete some and try again.'],

  // Crons and webhooks.
  cron_not_found: [404, 'Cron {id} not found'],
  threads_full: [
    409,
    'You have {max} threads, which is as many as you may (threads.per_user). Delete some and try again.'
  ],
  storage_full: [
    409,
    'Your conversations have {max} bytes or more, which is as much as you may store (threads.user_bytes). Delete some and try again.'
  ],
  webhooks_full: [
    429,
    'You have {max} webhooks that are not sent yet, which is as many as you may (webhooks.per_user). Try again later.'
  ],
  crons_full: [409, 'You have {max} crons, which is as many as you may. Delete one and try again.'],
  schedule_invalid: [422, 'The schedule is not acceptable: {reason}'],

  // Tool servers.
  tool_server_invalid: [400, "Tool server '{name}': {reason}"],
  tool_server_not_found: [404, "Tool server '{name}' not found"],

  // Skills.
  skill_not_found: [404, "Skill '{name}' not found"],
  skill_file_not_found: [404, 'Skill file not found: {path}'],
  skill_exists: [409, 'A skill of this name is installed already'],
  skill_invalid: [400, 'Invalid skill: {reason}']
} as const satisfies Record<string, Entry>

type Code = keyof typeof TABLE

type Names<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never
type NamesOf<C extends Code> = Names<(typeof TABLE)[C][1]>
/** Parameters of a code's text: `{ id }` for `thread_not_found`, none for most. */
type Params<C extends Code> = Readonly<Record<NamesOf<C>, string | number>>
/** The arguments after the code: parameters only where its text has names, then headers. */
type FailArgs<C extends Code> = [NamesOf<C>] extends [never]
  ? [params?: null, headers?: HeaderMap]
  : [params: Params<C>, headers?: HeaderMap]
/** Headers of the answer, e.g. `{ 'Retry-After': '5' }`. */
type HeaderMap = Readonly<Record<string, string>>

/** One entry of a 422. */
export interface Issue {
  readonly type: string
  /** `body`, `query` or `path`, then the path to the value. */
  readonly loc: readonly (string | number)[]
  readonly msg: string
  /** The rejected value; left out where it could be a secret or is not small. */
  readonly input?: unknown
  readonly ctx?: Readonly<Record<string, string | number>>
}

type Detail = string | { readonly code: string; readonly message: string } | readonly Issue[]

/** A refusal for the client. Thrown anywhere below a request; the server turns it into `{"detail": ...}`. */
export class Failure extends Error {
  readonly code: Code
  readonly status: number
  readonly detail: Detail
  readonly headers: HeaderMap

  constructor(code: Code, params: Readonly<Record<string, string | number>> | null = null, headers: HeaderMap = {}) {
    const [status, text, publicCode]: Entry = TABLE[code]
    const message = fill(text, params)
    super(message)
    this.name = 'Failure'
    this.code = code
    this.status = status
    this.detail = publicCode === undefined ? message : { code: publicCode, message }
    this.headers = headers
  }
}

/** 422: the request was understood and is not acceptable; `issues` says where and why. */
export class Invalid extends Failure {
  override readonly detail: readonly Issue[]

  constructor(issues: readonly Issue[]) {
    super('invalid')
    this.name = 'Invalid'
    this.detail = issues
    this.message = issues.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
  }
}

/** A refusal by the operator's own rules, in their words. */
export class Refused extends Failure {
  override readonly status: number
  override readonly detail: string

  constructor(status: number, text: string, headers: HeaderMap = {}) {
    super('refused', null, headers)
    this.name = 'Refused'
    this.status = status
    this.detail = text
    this.message = text
  }
}

/**
 * Throws the failure of a code. Write `throw fail('thread_not_found', { id })`: the `throw` only tells readers and the compiler that the
 * function ends here.
 * @param args values for the names in the text (most have none), then headers
 * @throws Failure always
 */
export function fail<C extends Code>(code: C, ...args: FailArgs<C>): never {
  const [params, headers] = args
  throw new Failure(code, params ?? null, headers)
}

const DISK_REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  EFBIG: 'the disk is full',
  EROFS: 'the disk is read-only',
  EIO: 'the disk does not work'
}

/** Maps temporary file system errors to a Failure; null: something else. */
export function diskFailure(error: unknown): Failure | null {
  const reason = DISK_REASONS[codeOf(error) ?? '']
  return reason === undefined ? null : new Failure('disk_unavailable', { reason }, { 'Retry-After': '30' })
}

// A single pass: inserted values are not expanded again, so an id may contain braces.
function fill(text: string, params: Readonly<Record<string, string | number>> | null): string {
  if (params === null) return text
  return text.replace(/\{(\w+)\}/g, (whole, name: string) =>
    Object.hasOwn(params, name) ? String(params[name]) : whole
  )
}

// -------------------------------------------------------------------------- whatever is thrown, ours or not

/** What it says, for whoever operates this; our clients are given a Failure. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // A refused connection to a name with two addresses has only a code.
  return error.message || (codeOf(error) ?? error.name)
}

/** The code of the system or a library, as `ENOENT`; null: it has none. */
export function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
}

// ----------------------------------------------------------------------------------------------------
// The last handler of work that nobody awaits and that is written so as not to fail: an unhandled rejection would end the process, with
// everybody's runs in it. What can be expected to fail has a handler of its own, with a log and what follows.

/** Reports a failure nobody expected as a warning of the process, which `serve` logs and an embedder listens for. */
export function warnUnexpected(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : new Error(String(error)))
}
