// What the service needs from a database, as interfaces with numbered guarantees. A guarantee is cited as [Store 3] where code relies
// on it, and proved by the suites in test/contract/, which any implementation can run. The interfaces are in ports/, one noun per file,
// and exported from here.
//
//  1. Every read that takes a `user` is filtered by it: rows of others do not exist for it, rows without an owner are everybody's.
//     null means no filter. The argument is always given: leaving it out, which means the current user [Auth 7], is resolved in
//     front of the store (scoped.ts). Methods without it are for the engine, after the owner check of a route.
//  2. `apply` writes all its groups in one transaction, as if one after the other, in their order. A group is applied whole or not
//     at all; a group that is refused (a constraint, a missing thread) fails alone and the others are kept.
//  3. `apply` rejects only when nothing was written. With StoreUnavailable the same groups may be handed over again; anything
//     else is about one of the groups, which must then be found.
//  4. A read after `apply` has resolved sees what it wrote.
//  5. `seq` of events is assigned in the transaction that writes them, from a counter kept with the thread: unique, increasing,
//     never reused, and dense where events and counter are in one place. Events outside the database may have a gap after a
//     crash: what was not committed is set aside, with its seqs.
//  6. At most one run of a thread is `running`; admission (`run.create`) and its checks are one atomic step.
//  7. A terminal status is never overwritten.
//  8. Nothing is written for a thread that does not exist (any more): a late writer cannot bring a deleted thread back.
//  9. Any well-formed text comes back byte for byte; JSON comes back as equal JSON. A text that is not well-formed, with half a
//     surrogate pair, never reaches a store.
// 10. A store with `peers`: every run in flight has one owner, a process; all runs in flight of a thread have the same one. A group
//     that names an owner is written only while that process has its lease, and nobody gets its runs before the lease is lost.
// 11. Checkpoints of a thread are in the order they were written, and the last one is the newest: a store counts them, and compares
//     neither ids nor times, which come from clocks that differ and may be set back.
// 12. The state of a graph that is changed without a run (`graph.update`) changes whole, and only from the version the change was made
//     of: otherwise it answers `conflict`, while a run is in flight `busy`, and nothing is written. Heads are read and copied as of one
//     moment with everything they name.
// 13. While a hold keeps a thread or user, ops that would delete something of it are refused (thread.remove, run.remove, state.prune,
//     feedback.remove and removeById, user.remove and user.forget, item.remove, cron.remove, assistant.remove), as are those that would
//     replace its words (feedback.upsert, cron.update, item.put with `isEdit`), and the refusal has `isHeld`; what is swept or counted as old (frames.sweep, retention.sweep, items that have expired, old versions of assistants) is
//     without it. Of a hold and a deletion at the same time one comes first.
import type { ApiTokenReads, UserReads } from './ports/users.ts'
import type { AssistantReads, CronReads } from './ports/assistants.ts'
import type { AliasReads } from './ports/aliases.ts'
import type { AuditReads } from './ports/audit.ts'
import type { CheckpointReads, GraphStateReads } from './ports/checkpoints.ts'
import type { EventReads, EventStore } from './ports/events.ts'
import type { FeedbackReads, FrameReads, RunReads } from './ports/runs.ts'
import type { HoldReads } from './ports/holds.ts'
import type { ItemReads } from './ports/items.ts'
import type { JobReads } from './ports/jobs.ts'
import type { Group, Outcome } from './ports/ops.ts'
import type { Peers } from './ports/peers.ts'
import type { SearchReads } from './ports/search.ts'
import type { RetentionReads } from './ports/retention.ts'
import type { ThreadReads } from './ports/threads.ts'
import type { UsageReads } from './ports/usage.ts'
import type { JsonObject } from '../base/types.ts'

export type * from './ports/users.ts'
export type * from './ports/assistants.ts'
export type * from './ports/aliases.ts'
export type * from './ports/audit.ts'
export type * from './ports/checkpoints.ts'
export type * from './ports/events.ts'
export type * from './ports/runs.ts'
export type * from './ports/holds.ts'
export type * from './ports/items.ts'
export type * from './ports/jobs.ts'
export type * from './ports/ops.ts'
export type * from './ports/peers.ts'
export type * from './ports/search.ts'
export type * from './ports/retention.ts'
export type * from './ports/threads.ts'
export type * from './ports/usage.ts'
export { RETAINED } from './ports/retention.ts'
export { ALIAS_TEXT_MAX } from './ports/aliases.ts'
export { JOB_PAYLOAD_MAX } from './ports/jobs.ts'
export { USAGE_KEYS } from './ports/usage.ts'
export { OWNED_OPS } from './ports/ops.ts'
export { refusal } from './ports/ops.ts'

export interface Store {
  readonly users: UserReads
  readonly apiTokens: ApiTokenReads
  readonly assistants: AssistantReads
  readonly threads: ThreadReads
  readonly runs: RunReads
  readonly events: EventReads
  readonly frames: FrameReads
  readonly checkpoints: CheckpointReads
  readonly graphStates: GraphStateReads
  readonly items: ItemReads
  readonly crons: CronReads
  readonly jobs: JobReads
  readonly audit: AuditReads
  readonly holds: HoldReads
  readonly aliases: AliasReads
  readonly retention: RetentionReads
  readonly usage: UsageReads
  /** null: there is no SQL database, and the feedback routes answer 503 [Errors]. */
  readonly feedback: FeedbackReads | null
  /** Absent: nothing is found by its words. Then `search.put` never comes. */
  readonly search?: SearchReads
  /** Absent: the store has one process. */
  readonly peers?: Peers
  /** Writes all groups in one transaction; returns one outcome per group, in order [Store 2, 3]. Only the committer calls it. */
  apply(groups: readonly Group[]): Promise<Outcome[]>
  /**
   * Why `apply` has not returned yet, if the store knows: after a connection broke during COMMIT it keeps asking the
   * server, because nothing may be acknowledged before. null or absent: it is working, or idle.
   */
  readonly trouble?: StoreUnavailable | null
  /** Connections to the database, by what they are for; absent: there are none. */
  connections?(): Readonly<Record<string, PoolFigures>>
  /**
   * Resolves when what was removed is deleted, and in no log that the store keeps beside its rows. Absent: it always is.
   * @throws Error when that does not come about in minutes
   */
  purge?(): Promise<void>
  /**
   * Tries this URL of the same database (another password) and returns how to use it for all connections from now on. Absent: it has none.
   * Rejects when the database refuses it.
   */
  withUrl?(url: string): Promise<() => void>
  /** For metrics; absent if the store cannot tell. */
  size?(): Promise<StoreSize>
  close(): Promise<void>
}

/**
 * `apply` rejects with this when nothing was written and the same groups may be retried: a lock, a full disk [Store 3].
 * The message is shown by the readiness check: no paths, no statements.
 */
export class StoreUnavailable extends Error {
  readonly code: string
  /** True: it passes by itself, like a lock. False: an operator has to act, as with a full disk or a lost server. */
  readonly passes: boolean
  constructor(code: string, message: string, passes = false) {
    super(message)
    this.name = 'StoreUnavailable'
    this.code = code
    this.passes = passes
  }
}

export interface PoolFigures {
  readonly used: number
  readonly idle: number
  /** Requests that wait for a connection. */
  readonly waiting: number
}

/** Disk usage in bytes. */
interface StoreSize {
  readonly database: number
  /** Bytes of the write-ahead log; 0 where there is none. */
  readonly wal: number
}

/** This process has lost its lease: writes for its runs are never made. Other writes may be retried. */
export class LeaseLost extends StoreUnavailable {
  constructor() {
    super('LEASE_LOST', 'this process has lost its lease to another one', true)
  }
}

// ------------------------------------------------- A custom store: what its module is given, and what it exports

export type Warn = (fields: object, text: string) => void

/** Passed to a custom store when it is opened. */
export interface ModuleOptions {
  /** The data home, absolute: a store writes below it. */
  readonly home: string
  /** `options` next to `module` in the configuration, unchanged. */
  readonly options: JsonObject
  readonly warn: Warn
}
/** Export of a module named by `run_events.backend: { module }`: `export const openEventStore: OpenEventStore = ...`. */
export type OpenEventStore = (options: ModuleOptions) => Promise<EventStore>
/** Export of a module named by `database.backend: { module }`: `export const openStore: OpenStore = ...`. */
export type OpenStore = (options: ModuleOptions) => Promise<Store>
