// What the handlers call: given once by the gateway.
import type { Agent } from '../agent/runtime.ts'
import type { Config } from '../config.ts'
import type { Artifacts } from '../files/artifacts.ts'
import type { Uploads } from '../files/uploads.ts'
import type { Registry } from '../run/registry.ts'
import type { Store, Writer } from '../store/store.ts'

export interface Services {
  readonly config: Config
  readonly store: Store
  readonly writer: Writer
  readonly registry: Registry
  readonly agent: Agent
  readonly uploads: Uploads
  readonly artifacts: Artifacts
  /** Removes the files of a thread; true if there were any. */
  removeFiles(threadId: string, userId: string | null): Promise<boolean>
  /** The key under which streams of a credential are found when it is revoked. */
  digest(credential: string): string
  /** null: ready; else the reason why not. */
  notReady(): string | null
}
