// The services handlers use, assembled by the gateway.
import type { Readable } from 'node:stream'
import type { ToolServers } from '../agent/mcp/tool-servers.ts'
import type { Agent, ModelInfo } from '../agent/runtime.ts'
import type { StatePort } from '../agent/states.ts'
import type { ApiTokens, Invitations } from '../auth/api-tokens.ts'
import type { Actor, Audit } from '../auth/audit.ts'
import type { GroupAccess } from '../auth/group-access.ts'
import type { Holds } from '../auth/holds.ts'
import type { People } from '../auth/people.ts'
import type { Sessions, Tokens } from '../auth/session.ts'
import type { SetupLink } from '../auth/setup-link.ts'
import type { SingleSignOn } from '../auth/single-sign-on.ts'
import type { ThreadLinks } from '../auth/thread-links.ts'
import type { Config } from '../config/config.ts'
import type { Artifacts } from '../files/artifacts.ts'
import type { Extensions } from '../files/extensions.ts'
import type { Paths } from '../files/paths.ts'
import type { Uploads } from '../files/uploads.ts'
import type { AskRules, Call } from '../http/route.ts'
import type { Log } from '../http/server.ts'
import type { Removals } from '../jobs/removals.ts'
import type { WebPush } from '../jobs/web-push.ts'
import type { Webhooks } from '../jobs/webhooks.ts'
import type { Items } from '../memory/items.ts'
import type { Memories } from '../memory/memories.ts'
import type { Registry } from '../run/lifecycle/registry.ts'
import type { Runs } from '../run/lifecycle/runs.ts'
import type { Skills } from '../skills/skills.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import type { Op, UserReads, Writer } from '../store/store.ts'
import type { Assistants } from '../thread/assistants.ts'
import type { Personas } from '../thread/personas.ts'
import type { UserLimits } from '../thread/user-limits.ts'
import type { Grant, User } from '../base/accounts.ts'
import type { JsonObject } from '../base/types.ts'

/** The project's auth rules. */
export interface AccessRules {
  askFor(caller: Pick<Call, 'user' | 'grant'>): AskRules
}

/** What a model is asked beside runs. */
export interface Question {
  readonly messages: readonly JsonObject[]
  /** The model that the user names. */
  readonly named?: string | null
  /** The operator's choice where the user names none; null: the first that the user may use. */
  readonly chosen: string | null
}

export interface Services {
  readonly config: Config
  readonly store: ScopedStore
  readonly writer: ScopedWriter
  /** One group: all of it is written, or nothing. `owner`: only while this process is that [Store 10]. */
  writeAll(ops: readonly Op[], owner?: string): Promise<readonly unknown[]>
  readonly registry: Registry
  readonly runs: Runs
  readonly limits: UserLimits
  readonly webhooks: Pick<Webhooks, 'kept'>
  readonly removals: Pick<Removals, 'hold'>
  readonly states: StatePort
  readonly assistants: Assistants
  readonly personas: Personas
  readonly agent: Agent
  /** The configured ones, whatever agent runs; without any, the agent's own. */
  models(): readonly ModelInfo[]
  /** The operator's own rules, asked before a user's action. */
  readonly policy?: AccessRules | null
  readonly uploads: Uploads
  readonly artifacts: Artifacts
  readonly paths: Paths
  readonly memories: Memories
  readonly items: Items
  readonly skills: Skills
  readonly extensions: Extensions
  readonly toolServers: ToolServers
  /** The operator's own HTTP app; null: none. */
  readonly app?: { has(method: string, path: string): boolean } | null
  /** Request headers that graphs find in their configuration. */
  readonly configurableHeaders: { of(call: Pick<Call, 'req'>): JsonObject }
  /** UI components of the operator's project; null: none. */
  readonly ui?: (() => Promise<ReadonlyMap<string, ReadonlyMap<string, string>>>) | null
  readonly audit: Audit
  /** Which models and agents are for some groups alone. */
  readonly access: GroupAccess
  readonly log: Log
  /**
   * One model call beside runs, when it is this user's turn. Rejects if it fails or the model's name is unknown.
   * @throws Failure model_not_allowed, too_many_questions
   */
  ask(user: User, question: Question, signal: AbortSignal): Promise<string>
  /** Removes a thread's files; without an owner, those of all users. True if there were any. */
  removeFiles(threadId: string, owner: string | null): Promise<boolean>
  /** Whether a grant is still valid; checked again while a response stays open. */
  isValid(grant: Grant): Promise<boolean>
  /** Why the server is not ready; null: ready. Probes the database if nothing was written recently. */
  unready(): Promise<string | null>
  /** Reads the configuration again, on every process. @throws Failure configuration_invalid */
  reload(by: Actor): Promise<readonly object[]>
  /** Metrics in Prometheus' text format. */
  metrics(): Promise<{ readonly type: string; readonly body: string }>
  /** Samples of the last hour after a Unix time, as columns. */
  metricsHour(after: number): Promise<{
    readonly at: readonly number[]
    readonly values: Readonly<Record<string, readonly (number | null)[]>>
  }>
}

/** Those of accounts and of what signs in to them. */
export interface AuthServices {
  readonly config: Config
  readonly users: UserReads
  readonly writer: Writer
  readonly sessions: Sessions
  readonly tokens: Tokens
  readonly apiTokens: ApiTokens
  readonly invitations: Invitations
  readonly threadLinks: ThreadLinks
  readonly webPush: WebPush
  readonly limits: Pick<UserLimits, 'view' | 'quotaView'>
  /** All that is kept of somebody, as a ZIP archive. */
  readonly exportOf: (user: User) => Promise<Readable>
  readonly people: People
  readonly holds: Holds
  readonly audit: Audit
  /** null: there are no providers of sign-ins. */
  readonly sso?: SingleSignOn | null
  /** Needed for making the first administrator; null: whoever comes first is it [Auth 11]. */
  readonly setupLink?: SetupLink | null
  readonly log: { warn(fields: object, text: string): void }
  /** Called with the code of every refused sign-in. */
  readonly onLoginRefused?: (code: string) => void
  /** The key a request counts against in the cooldown of setup-status; null: none. */
  allowanceOf(call: Call): string | null
}
