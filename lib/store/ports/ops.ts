// The writes: every one that a store takes, and what it answers.
import type { ApiToken, Cron, Assistant, Feedback, JsonObject, Thread, Timestamp, User } from '../../types.ts'
import type { Owner } from '../../scope.ts'
import type { AssistantCreation, AssistantPatch } from './assistants.ts'
import type { CheckpointWrite, StateUpdate } from './checkpoints.ts'
import type { GraphCheckpointWrite, GraphTaskWrite } from './graph-states.ts'
import type { Claim, CronPatch } from './crons.ts'
import type { NewEvent } from './events.ts'
import type { Segment } from './frames.ts'
import type { ItemLimits, ItemWrite, Namespace } from './items.ts'
import type { Admission, NewRun, Settlement } from './runs.ts'
import type { ThreadTtl } from './ttls.ts'
import type { UserPatch } from './users.ts'
import type { Webhook } from './webhooks.ts'

/** Every write of the process: name -> what it takes and what it answers. Plain data, so that it can cross to a worker. */
export interface Ops {
  'user.create': { in: { user: User }; out: 'created' | 'email_taken' }
  /** Creates the first administrator; exactly one of any number of racing calls. */
  'user.initialize': { in: { user: User }; out: 'created' | 'initialized' | 'email_taken' }
  /** null: the user has vanished meanwhile. */
  'user.update': { in: { id: string; set: UserPatch }; out: User | 'email_taken' | null }
  /**
   * Remembers a logged-out credential by its digest until `expires`, when it ends by itself, and forgets some of those for which
   * that was before `now`. Both unix time in seconds.
   */
  'session.deny': { in: { digest: string; expires: number; now: number }; out: null }
  /** Answers too_many when the user has `max` tokens already. */
  'apiToken.create': { in: { token: ApiToken; max: number }; out: 'created' | 'too_many' }
  /** Answers what was removed, so that its streams can be ended; null: no such token of this user. */
  'apiToken.remove': { in: { token_id: string; user: Owner }; out: ApiToken | null }
  /** Notes a use. Nothing happens when the token is gone, or a later use is noted. */
  'apiToken.use': { in: { token_id: string; at: Timestamp }; out: null }
  /** Version 1 of an assistant, or the one of this id that is there. Its user has `max` at most. */
  'assistant.create': { in: { assistant: Assistant; max: number }; out: AssistantCreation }
  /** A new version, the one in force from now on; of the versions the newest `keep` stay. null: no such assistant of this user. */
  'assistant.update': {
    in: { assistant_id: string; set: AssistantPatch; keep: number; user: Owner; now: Timestamp }
    out: Assistant | null
  }
  /** Puts a version in force again. null: no such assistant of this user, or no such version of it. */
  'assistant.setVersion': {
    in: { assistant_id: string; version: number; user: Owner; now: Timestamp }
    out: Assistant | null
  }
  'assistant.remove': { in: { assistant_id: string; user: Owner }; out: boolean }
  /** Writes something that means nothing, for who wants to know whether the store takes writes (again). */
  'store.ping': { in: object; out: null }
  /** Creates the row and its first, empty checkpoint, or answers the row that is there; null: it belongs to somebody else. */
  'thread.create': {
    in: { thread: Thread; checkpoint: CheckpointWrite }
    out: { thread: Thread; created: boolean } | null
  }
  /** Merges top-level keys; null: no such thread for this owner. */
  'thread.patch': {
    in: { thread_id: string; metadata: JsonObject; user: Owner; now: Timestamp }
    out: Thread | null
  }
  /** Gives a thread a time to live, in place of the one that it has. */
  'ttl.set': { in: { ttl: ThreadTtl }; out: null }
  'ttl.remove': { in: { thread_id: string }; out: null }
  /** Removes the thread and everything that belongs to it, in every table. */
  'thread.remove': { in: { thread_id: string; user: Owner }; out: boolean }
  /**
   * Admits a run [Store 6]. `strategy` reject answers busy while one is in flight; the others are stored pending behind it, and
   * `inFlight` names what stood before. `autoFollowUp`: the newest successful run of the thread that its user may see becomes
   * follow_up_to_run_id.
   */
  'run.create': { in: { run: NewRun; autoFollowUp: boolean }; out: Admission }
  /** pending -> running, and the thread with it. False: it is not pending any more. */
  'run.start': { in: { run_id: string; thread_id: string; now: Timestamp }; out: boolean }
  /** Ends a run: status, totals, thread status and title together. False: it was terminal already [Store 7]. */
  'run.settle': { in: Settlement; out: boolean }
  /**
   * Removes a run that has ended, with its frames and the feedback on it; what was said in it stays the thread's. False: there is no
   * such run that has ended.
   */
  'run.remove': { in: { run_id: string; thread_id: string; user: Owner }; out: boolean }
  'frames.append': { in: { run_key: number; thread_id: string; segment: Segment }; out: null }
  /**
   * One small step of making the frames of an ended run small: those from n `from` on, about 64 KiB of them. What is read stays
   * the same. `next` is the n where the next step goes on; null: all is done.
   */
  'frames.compact': { in: { run_key: number; from: number }; out: { next: number | null } }
  /**
   * One small step of the sweep: looks at `limit` segments after the position `after` (0: the oldest) and removes those of runs
   * that ended before `before`. `next` is where the next step goes on; null: that was the last.
   */
  'frames.sweep': {
    in: { before: Timestamp; after: number; limit: number }
    out: { removed: number; next: number | null }
  }
  /** Answers the seq of the first one [Store 5]. */
  'events.append': {
    in: { thread_id: string; run_id: string; user_id: string | null; events: readonly NewEvent[] }
    out: number
  }
  /**
   * Moves the thread's counter of events from where it stands to `to`: the commit of records that lie elsewhere. Refused when it
   * does not stand at `from`, or the thread is gone.
   */
  'seq.move': { in: { thread_id: string; from: number; to: number }; out: null }
  'checkpoint.put': { in: CheckpointWrite; out: null }
  /** Makes a new checkpoint of a base (null: the newest) with some channels replaced; refused while a run is in flight. */
  'state.update': {
    in: {
      thread_id: string
      base: string | null
      checkpoint_id: string
      now: Timestamp
      /** Replaces the messages channel when given: their JSON texts, in order. */
      messages: readonly string[] | null
      /** JSON text by channel. */
      channels: Readonly<Record<string, string>>
      as_node: string | null
      title: string | null
    }
    out: StateUpdate
  }
  /** All checkpoints of one thread, in their order, once more as those of another, that was just made [Store 11]. */
  'state.copy': { in: { from: string; thread_id: string }; out: null }
  /** A graph's checkpoint, with the values that are new. One that is there is written anew. */
  'graph.put': { in: GraphCheckpointWrite; out: null }
  /** What tasks have written behind a checkpoint. Of the same task and place the first counts, below 0 the last. */
  'graph.write': {
    in: { thread_id: string; ns: string; checkpoint_id: string; writes: readonly GraphTaskWrite[] }
    out: null
  }
  /** All checkpoints that a run has made: it was rolled back. */
  'graph.removeRun': { in: { thread_id: string; run_id: string }; out: null }
  /** The thread of a state that was written without a run: how it stands, and its name. Refused while a run of it is in flight. */
  'thread.stand': {
    in: { thread_id: string; status: 'idle' | 'interrupted'; title: string | null; now: Timestamp }
    out: null
  }
  /** Writes the caller's one feedback on a run: a second one replaces rating, comment, message_id and created_at, not the id. */
  'feedback.upsert': { in: { feedback: Feedback }; out: Feedback }
  /** Writes an item, or its new value; too_many: its user would have more than `max`, and nothing is changed. */
  'item.put': { in: { item: ItemWrite; now: Timestamp; max: ItemLimits }; out: 'written' | 'too_many' }
  /** False: there was none. */
  'item.remove': { in: { namespace: Namespace; key: string; user: Owner }; out: boolean }
  'cron.create': { in: { cron: Cron; max: number }; out: 'created' | 'too_many' }
  /** null: no such cron of this user. Who has claimed it has it no more. */
  'cron.update': { in: { cron_id: string; set: CronPatch; user: Owner; now: Timestamp }; out: Cron | null }
  'cron.remove': { in: { cron_id: string; user: Owner }; out: boolean }
  /** Those that are enabled and due, which are nobody else's until the claim is over. */
  'cron.claim': { in: Claim; out: Cron[] }
  /** It goes on, if it still stands at `from`; null: never again. */
  'cron.advance': { in: { cron_id: string; from: Timestamp; to: Timestamp | null }; out: boolean }
  /** Written before its run, so that none is forgotten. One whose run does not come is nobody's. */
  'webhook.add': { in: { run_id: string; url: string; now: Timestamp }; out: null }
  /** What is to be sent, when the run does not stay. */
  'webhook.prepare': { in: { run_id: string; payload: string }; out: null }
  /** Those whose run has ended and whose time has come, which are nobody else's until the claim is over. */
  'webhook.claim': { in: Claim; out: Webhook[] }
  'webhook.retry': { in: { run_id: string; at: Timestamp }; out: null }
  'webhook.remove': { in: { run_id: string }; out: null }
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

/** Writes that belong together: all of them or none [Store 2]. */
export interface Group {
  readonly ops: readonly Op[]
  /** Of a run: in whose name it is written. Refused when that is not this process any more [Store 10]. */
  readonly owner?: string
}
export type Outcome =
  | { readonly ok: true; readonly results: readonly unknown[] }
  | { readonly ok: false; readonly message: string }

/** The ops whose rows are filtered by their user, which who asked for them has resolved [Auth 7]. */
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

/** Takes one write and answers its result, once it is committed. What routes and rules write through; the committer is one. */
export interface Writer {
  write<K extends OpName>(op: OpOf<K>): Promise<Result<K>>
}
