// The services handlers use, assembled by the gateway.
import type { ToolServers } from '../agent/mcp/tool-servers.ts'
import type { Agent } from '../agent/runtime.ts'
import type { StatePort } from '../agent/states.ts'
import type { AccessPolicy } from '../auth/policy.ts'
import type { Config } from '../config.ts'
import type { Artifacts } from '../files/artifacts.ts'
import type { Extensions } from '../files/extensions.ts'
import type { Paths } from '../files/paths.ts'
import type { Uploads } from '../files/uploads.ts'
import type { CustomApp } from '../http/custom-app.ts'
import type { Log } from '../http/server.ts'
import type { Items } from '../memory/items.ts'
import type { Memories } from '../memory/memories.ts'
import type { Registry } from '../run/lifecycle/registry.ts'
import type { Runs } from '../run/lifecycle/runs.ts'
import type { Webhooks } from '../run/schedule/webhooks.ts'
import type { Skills } from '../skills/skills.ts'
import type { ScopedStore, ScopedWriter } from '../store/scoped.ts'
import type { Assistants } from '../thread/assistants.ts'
import type { JsonObject, Grant } from '../types.ts'
import type { ConfigurableHeaders } from './configurable-headers.ts'

export interface Services {
  readonly config: Config
  readonly store: ScopedStore
  readonly writer: ScopedWriter
  readonly registry: Registry
  readonly runs: Runs
  readonly webhooks: Pick<Webhooks, 'prepare'>
  /** Of whichever agent there is. */
  readonly states: StatePort
  readonly assistants: Assistants
  readonly agent: Agent
  /** The operator's own rules, asked before a user's action. */
  readonly policy?: AccessPolicy | null
  readonly uploads: Uploads
  readonly artifacts: Artifacts
  readonly paths: Paths
  readonly memories: Memories
  readonly items: Items
  readonly skills: Skills
  readonly extensions: Extensions
  readonly toolServers: ToolServers
  /** The operator's own program beside ours; null: there is none. */
  readonly app?: Pick<CustomApp, 'has'> | null
  readonly configurableHeaders: ConfigurableHeaders
  /** Components of the operator's project for pages; null: it has none. */
  readonly ui?: (() => Promise<ReadonlyMap<string, ReadonlyMap<string, string>>>) | null
  readonly log: Log
  /** One completion outside any run. Rejects when the model fails, or none has that name; null is the first. */
  completeOnce(messages: readonly JsonObject[], modelName: string | null, signal: AbortSignal): Promise<string>
  /** Removes the files of a thread; for one without an owner those of every user; true if there were any. */
  removeFiles(threadId: string, owner: string | null): Promise<boolean>
  /** Whether a call's grant is still valid: checked as long as its response stays open. */
  isValid(grant: Grant): Promise<boolean>
  /** null: ready; else why not. Probes the database when nothing was written lately. */
  unready(): Promise<string | null>
  /** Metrics in Prometheus' text format. */
  metrics(): Promise<{ readonly type: string; readonly body: string }>
  /** Samples of the last hour after a Unix time, as columns. */
  metricsHour(after: number): Promise<{
    readonly at: readonly number[]
    readonly values: Readonly<Record<string, readonly (number | null)[]>>
  }>
}
