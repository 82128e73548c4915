// Every write a store takes, and its result.
import { messageOf } from '../../base/errors.ts'
import type {
  ApiToken,
  AuditEntry,
  Hold,
  ProviderSession,
  Quota,
  Session,
  SystemRole,
  User
} from '../../base/accounts.ts'
import type { Assistant, Cron, Feedback, JsonObject, Thread, Timestamp } from '../../base/types.ts'
import type { Owner } from '../../base/scope.ts'
import type { AssistantCreation, AssistantPatch, CronPatch } from './assistants.ts'
import type {
  CheckpointWrite,
  GraphCheckpointWrite,
  GraphTaskWrites,
  GraphUpdate,
  RunBodies,
  StateUpdate
} from './checkpoints.ts'
import type { Alias } from './aliases.ts'
import type { NewEvent } from './events.ts'
import type { Admission, NewRun, Segment, Settlement } from './runs.ts'
import type { ItemLimits, ItemWrite, Namespace } from './items.ts'
import type { Due, Job, JobClaim, JobId, NewJob } from './jobs.ts'
import type { TextWords } from './search.ts'
import type { Retained } from './retention.ts'
import type { ThreadCreation } from './threads.ts'
import type { QuotaMeasure } from './usage.ts'
import type { UserPatch } from './users.ts'

/** Every write: name -> parameters and result. Plain data, so that it can be sent to a worker. */
export interface Ops {
  'user.create': { in: { user: User }; out: 'created' | 'email_taken' }
  /** Creates the first administrator; of any number of racing calls exactly one succeeds. */
  'user.initialize': { in: { user: User }; out: 'created' | 'initialized' | 'email_taken' }
  /**
   * null: the user no longer exists. With `ifVersion` only of one whose `token_version` is that, else `changed`: of two who change a
   * password at once, in two processes, the second must not take back what the first was for.
   */
  'user.update': {
    in: { id: string; set: UserPatch; ifVersion?: number }
    out: User | 'email_taken' | 'changed' | null
  }
  /**
   * Removes an account with its API tokens and sessions, and makes the job that removes what it has left. last_admin: nothing is removed, or whoever
   * comes first could set up the service anew; null: there is no such account.
   */
  'user.remove': { in: { id: string; job: NewJob }; out: 'removed' | 'last_admin' | null }
  /**
   * Removes what somebody has beside threads of their own, in every table: also runs, events and feedback in threads of everybody's,
   * whose state stays. Their own threads are removed before, one by one; the job that asks for this stays. Of the audit the lines
   * stay, without addresses. `agents`: names that are no user's; sums of usage lose all others.
   */
  'user.forget': { in: { user_id: string; agents: readonly string[] }; out: null }
  /**
   * Denies a logged-out credential by its digest until `expires`, when it expires anyway, and deletes some entries that
   * expired before `now`. Both in Unix seconds.
   */
  'session.deny': { in: { digest: string; expires: number; now: number }; out: null }
  /**
   * Adds a session to the list of its user's, or records a use of it; no-op when it has ended, or its user's token_version is not `version`
   * any more. Deletes some that expired before `now` (Unix seconds).
   */
  'session.use': { in: { session: Session; version: number; now: number }; out: null }
  /** Adds what belongs to a session of a provider, and deletes some that expired before `now` (Unix seconds). */
  'session.attach': { in: { session: ProviderSession; now: number }; out: null }
  /** Sessions of providers whose last check was before `before`, at most `limit`: they count as checked at `now`, so that one process asks. */
  'session.claimChecks': { in: { before: number; now: number; limit: number }; out: ProviderSession[] }
  /** What the provider has given last. No-op if the session has ended. */
  'session.setTokens': { in: { digest: string; tokens: string }; out: null }
  /**
   * Gives an account a role, or disables or enables it, and raises its token_version, which ends its sessions. Disabling removes its API
   * tokens and turns its crons off. last_admin: nothing is changed, or nobody could administer the service; null: there is no such account.
   */
  'user.setAccess': {
    in: { id: string; role?: SystemRole; disabled_at?: Timestamp | null }
    out: User | 'last_admin' | null
  }
  /** A quota of the account's own; null: what its groups and everybody have. null: there is no such account. */
  'user.setQuota': { in: { id: string; quota: Quota | null }; out: User | null }
  /**
   * Takes `want` of a quota at most: what is left of `max` when all is counted that was given away, or used by runs that have ended.
   * Answers how much was given. `period`: a day, or a month of money.
   */
  'quota.take': {
    in: { user_id: string; measure: QuotaMeasure; period: string; want: number; max: number }
    out: number
  }
  /** Gives back what was taken and not used. */
  'quota.give': { in: { user_id: string; measure: QuotaMeasure; period: string; count: number }; out: null }
  /** Keeps a thread or user. False: there is no such one. [Store 13] */
  'hold.put': { in: { hold: Hold }; out: boolean }
  /** Lifts a hold; null: there is none of this id. */
  'hold.remove': { in: { hold_id: string }; out: Hold | null }
  'audit.add': { in: { entry: Omit<AuditEntry, 'audit_id'> }; out: null }
  /** too_many: the user already has `max` tokens; of a link: `max` links to that thread. */
  'apiToken.create': { in: { token: ApiToken; max: number }; out: 'created' | 'too_many' }
  /** Returns the removed token, so that its streams can be closed; null: no such token of this user. */
  'apiToken.remove': { in: { token_id: string; user: Owner }; out: ApiToken | null }
  /** Records a use. No-op if the token is gone or a later use is recorded. */
  'apiToken.use': { in: { token_id: string; at: Timestamp }; out: null }
  /** Creates an assistant at version 1, or returns the existing one of this id. A user has `max` at most. */
  'assistant.create': { in: { assistant: Assistant; max: number }; out: AssistantCreation }
  /** Adds a version and makes it current; the newest `keep` versions stay. null: no such assistant of this user. */
  'assistant.update': {
    in: { assistant_id: string; set: AssistantPatch; keep: number; user: Owner; now: Timestamp }
    out: Assistant | null
  }
  /** Makes an older version current. null: no such assistant of this user, or no such version. */
  'assistant.setVersion': {
    in: { assistant_id: string; version: number; user: Owner; now: Timestamp }
    out: Assistant | null
  }
  'assistant.remove': { in: { assistant_id: string; user: Owner }; out: boolean }
  /** A no-op write, to find out whether the store takes writes (again). */
  'store.ping': { in: object; out: null }
  /**
   * Creates the row and an empty checkpoint, or returns the existing row; null: it belongs to somebody else; too_many: its user has
   * `max` threads already, not counting those with isTemporary. Of any number of racing calls no more are made.
   */
  'thread.create': {
    in: {
      thread: Thread
      checkpoint: CheckpointWrite
      /** In no search: it is made for one run. */
      isTemporary?: boolean
      /** The job that will remove it. */
      removal?: NewJob
      /** 0: no limit. */
      max?: number
    }
    out: ThreadCreation | 'too_many' | null
  }
  /** Merges top-level keys; null: no such thread for this owner. */
  'thread.patch': {
    in: { thread_id: string; metadata: JsonObject; user: Owner; now: Timestamp }
    out: Thread | null
  }
  /**
   * Removes the thread and everything that belongs to it, in every table; of its jobs the webhooks stay that are not dead. `ifIdle`:
   * refused while a run is in flight. `files`: the job that removes what is no row, made with the removal; it names no thread.
   */
  'thread.remove': { in: { thread_id: string; user: Owner; ifIdle?: boolean; files?: NewJob }; out: boolean }
  /**
   * Admits a run [Store 6]. `strategy` reject returns busy while another one is in flight; other strategies store it as
   * pending behind those, and `inFlight` names them. `autoFollowUp`: follow_up_to_run_id becomes the thread's newest
   * successful run that its user may see.
   * `isLater`: the run gets its place in the thread when it starts. `attempts` of the run is 1 when it starts at once, which is when no
   * other one is in flight and it is not later; else 0. `max`: so many runs of its user may be in flight, on every process; absent: any.
   */
  'run.create': { in: { run: NewRun; autoFollowUp: boolean; isLater?: boolean; max?: number }; out: Admission }
  /**
   * pending -> running, and the thread with it; or the next attempt at a running one. `isLater`: it gets its place in the thread now.
   * `attempt`: which one it is, from 1. False: it has ended, or is at this attempt already.
   */
  'run.start': {
    in: { run_id: string; thread_id: string; now: Timestamp; attempt: number; isLater?: boolean }
    out: boolean
  }
  /** Ends a run: status, totals, thread status and title together. False: it was terminal already [Store 7]. */
  'run.settle': { in: Settlement; out: boolean }
  /** Removes an ended run with its frames and feedback; its messages stay in the thread. False: no such ended run. */
  'run.remove': { in: { run_id: string; thread_id: string; user: Owner }; out: boolean }
  'frames.append': { in: { run_key: number; thread_id: string; segment: Segment }; out: null }
  /**
   * One step of compressing the frames of an ended run: about 64 KiB from n `from` on. Reads return the same as before.
   * `next` is where the next step starts; null: done.
   */
  'frames.compact': { in: { run_key: number; from: number }; out: { next: number | null } }
  /**
   * One step of the sweep: looks at `limit` segments after the position `after` (0: the oldest) and deletes those of
   * runs that ended before `before`. `next` is where the next step starts; null: that was the last.
   */
  'frames.sweep': {
    in: { before: Timestamp; after: number; limit: number }
    out: { removed: number; next: number | null }
  }
  /**
   * Takes at most `limit` of what is older than `before`, oldest first; answers how many. Threads get a job of kind `removal` with
   * `unused_since` in its payload, due now.
   */
  'retention.sweep': { in: { of: Retained; before: Timestamp; limit: number }; out: number }
  /** Returns the seq of the first event [Store 5]. */
  'events.append': {
    in: { thread_id: string; run_id: string; user_id: string | null; events: readonly NewEvent[] }
    out: number
  }
  /**
   * Moves the thread's seq counter from `from` to `to`: the commit of events stored elsewhere. Refused when it is not
   * at `from`, or the thread is gone.
   */
  'seq.move': { in: { thread_id: string; from: number; to: number }; out: null }
  'checkpoint.put': { in: CheckpointWrite; out: null }
  /**
   * Adds a checkpoint: a base (null: the newest) with some channels replaced. Not made while a run is in flight, nor, as a `conflict`, when
   * the newest one is not the `expected` any more.
   */
  'state.update': {
    in: {
      thread_id: string
      base: string | null
      /** Id of the newest checkpoint; absent: any. */
      expected?: string
      checkpoint_id: string
      now: Timestamp
      /** Replaces the messages: their JSON texts, in order. */
      messages: readonly string[] | null
      /** JSON text by channel. */
      channels: Readonly<Record<string, string>>
      as_node: string | null
      title: string | null
    }
    out: StateUpdate
  }
  /** Copies all checkpoints of a thread at one moment, in order, to another one just made [Store 11]. */
  'state.copy': { in: { from: string; thread_id: string }; out: null }
  /**
   * Removes all states of the thread but the newest of each graph, and those it is rebuilt from. False, and nothing changes: a run
   * of it is in flight.
   */
  'state.prune': { in: { thread_id: string }; out: boolean }
  /** Writes a graph's checkpoint with its new values. An existing one is overwritten. */
  'graph.put': { in: GraphCheckpointWrite; out: null }
  /**
   * Adds pending writes to a checkpoint. For the same task and index the first wins, below 0 the last; each run has its own, so
   * that a rollback brings back what they stood before.
   */
  'graph.write': { in: GraphTaskWrites; out: null }
  /**
   * Changes a state without a run, whole or not at all [Store 12]. `busy`: a run is in flight; `conflict`: the version is not
   * the expected one any more.
   */
  'graph.update': { in: GraphUpdate & { readonly now: Timestamp }; out: 'written' | 'busy' | 'conflict' }
  /** Takes back what a run that is rolled back has written: its checkpoints with their values, its pending writes anywhere, and its own bodies. */
  'graph.removeRun': { in: { thread_id: string; run_id: string }; out: null }
  /** Stores bodies of the run itself, which its frames name. They go with its frames, or when it is rolled back. A name that exists stays. */
  'run.bodies': { in: RunBodies; out: null }
  /** Writes the caller's only feedback on a run: a second one replaces rating, comment, message_id and created_at, not the id. */
  'feedback.upsert': { in: { feedback: Feedback }; out: Feedback }
  /**
   * Writes an item or its new value; too_many: its user would exceed a limit, and nothing is changed. `isEdit`: it is no agent that writes,
   * and another value is not lost of who is held [Store 13].
   */
  'item.put': {
    in: { item: ItemWrite; now: Timestamp; max: ItemLimits; isEdit?: boolean }
    out: 'written' | 'too_many'
  }
  /** False: it did not exist. */
  'item.remove': { in: { namespace: Namespace; key: string; user: Owner }; out: boolean }
  /** With the job of its next turn. */
  'cron.create': { in: { cron: Cron; max: number }; out: 'created' | 'too_many' }
  /** Sets the job of its next turn anew when its date is given. null: no such cron of this user. */
  'cron.update': { in: { cron_id: string; set: CronPatch; user: Owner; now: Timestamp }; out: Cron | null }
  'cron.remove': { in: { cron_id: string; user: Owner }; out: boolean }
  /** Names a thread or a run of it, unless the name is taken: answers whose it is. null: there is no such thread. */
  'alias.put': { in: { alias: Alias; now: Timestamp }; out: Alias | null }
  /**
   * Adds texts of a thread to the index of words; one that is there stays, but the title (seq 0) is replaced. `done`: that is all of the
   * queued version of this number, and the thread leaves the queue if there is no newer one. Refused when the thread is gone.
   */
  'search.put': { in: { thread_id: string; texts: readonly TextWords[]; done: number | null }; out: null }
  /** Makes a job, or sets it anew: whoever is at it is refused. Refused when its thread is gone. */
  'job.put': { in: { job: NewJob }; out: null }
  /** Changes an existing job; with a new due time whoever is at it is refused. */
  'job.change': { in: JobId & { due?: Due; payload?: string }; out: boolean }
  'job.remove': { in: JobId; out: boolean }
  /** Claims jobs that are due: nobody else gets them while this process has its lease. */
  'job.claim': { in: JobClaim & { limit: number }; out: Job[] }
  /**
   * Ends a claim; refused when it is not this owner's any more. `again` null: it is done; else when it is due again (null: it is dead,
   * and goes when its thread is gone), why, and whether its attempts are counted anew.
   */
  'job.finish': {
    in: JobId & {
      owner: string
      again: { readonly due: Due | null; readonly error: string | null; readonly isUncounted?: boolean } | null
    }
    out: null
  }
  'feedback.remove': { in: { thread_id: string; run_id: string; user: Owner }; out: boolean }
  'feedback.removeById': {
    in: { feedback_id: string; thread_id: string; run_id: string; user: Owner }
    out: boolean
  }
}

export type OpName = keyof Ops
export type Op = { [K in OpName]: { readonly name: K } & Readonly<Ops[K]['in']> }[OpName]
export type OpOf<K extends OpName> = { readonly name: K } & Readonly<Ops[K]['in']>
export type Result<K extends OpName> = Ops[K]['out']

/** Writes applied atomically [Store 2]. */
export interface Group {
  readonly ops: readonly Op[]
  /** The process that owns the run. Refused when that is no longer this process [Store 10]. */
  readonly owner?: string
}
export type Outcome =
  | { readonly ok: true; readonly results: readonly unknown[] }
  /** `isHeld`: a legal hold keeps what would have been deleted [Store 13]. */
  | { readonly ok: false; readonly message: string; readonly isHeld?: true }

/** Ops that only touch rows of their user, which the caller has resolved [Auth 7]. */
export const OWNED_OPS: ReadonlySet<OpName> = new Set<OwnedOp>([
  'apiToken.remove',
  'assistant.update',
  'assistant.setVersion',
  'assistant.remove',
  'thread.patch',
  'thread.remove',
  'run.remove',
  'feedback.remove',
  'feedback.removeById',
  'item.remove',
  'cron.update',
  'cron.remove'
])
export type OwnedOp = { [K in OpName]: Ops[K]['in'] extends { readonly user: Owner } ? K : never }[OpName]

/** Takes one write; resolves with its result once committed. Routes write through this; the committer implements it. */
export interface Writer {
  write<K extends OpName>(op: OpOf<K>): Promise<Result<K>>
}

// ----------------------------------------------------------------------------------------------------
// A refused group: it is not written, its run or request gets the message, and the rest of its batch is kept [Store 2].

export class Refused extends Error {}

/** What would be deleted is kept by a legal hold [Store 13]. */
export class Held extends Refused {}

export function refusal(error: unknown): Outcome & { ok: false } {
  const message = messageOf(error)
  return { ok: false, message, ...(error instanceof Held && { isHeld: true }) }
}
