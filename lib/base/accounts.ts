// Accounts, and what acts for them: sessions, tokens, links and what these may do, as stored and sent.
import type { JsonObject, Timestamp } from './types.ts'

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
