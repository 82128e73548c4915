// What the service asks of a database, as interfaces with numbered guarantees. A guarantee is cited as [Store 3] where it is
// relied upon and proved by the suites in test/contract/, which any implementation can run.
//
//  1. Every read that takes a `user` is filtered by it: rows of others do not exist for it, rows without an owner are everybody's.
//     Omitted means the current user, and an error when there is none; null means no filter [Auth 7]. Methods without the
//     argument are for the engine, after the owner check of a route.
//  2. `apply` writes all its groups in one transaction. A group is applied whole or not at all; a group that is refused (a
//     constraint, a missing thread) fails alone and the others are kept.
//  3. `apply` rejects only when nothing was written. With StoreUnavailable the same groups may be handed over again; anything
//     else is about one of the groups, which must then be found.
//  4. Who reads after `apply` has answered sees what it wrote.
//  5. `seq` of events is given in the transaction that writes them, from a counter kept with the thread: unique, increasing,
//     dense while nothing is deleted, never given twice.
//  6. At most one run of a thread is `running`; admission (`run.create`) and its checks are one atomic step.
//  7. A terminal status is never overwritten.
//  8. Nothing is written for a thread that does not exist (any more): a late writer cannot bring a deleted thread back.
//  9. Texts come back as they were given, whatever their characters; JSON comes back as equal JSON.
// 10. A store with `peers`: every run in flight has one owner, a process; all runs in flight of a thread have the same one. A group
//     that names an owner is written only as long as that one has its lease, and nobody is given its runs before it has lost it.
import type {
  ApiToken,
  EventCategory,
  Feedback,
  FeedbackStats,
  Json,
  JsonObject,
  Run,
  RunEvent,
  RunStatus,
  RunTotals,
  Thread,
  ThreadStatus,
  Timestamp,
  User
} from '../types.ts'
import type { UserArg } from '../scope.ts'

// ------------------------------------------------------------------------------------------------ users

export type UserPatch = Partial<Pick<User, 'email' | 'password_hash' | 'needs_setup' | 'token_version' | 'system_role'>>

export interface UserReads {
  byId(id: string): Promise<User | null>
  /** `email` in lower case. */
  byEmail(email: string): Promise<User | null>
  /** The first administrator, or null: then the service waits for its set-up. */
  admin(): Promise<User | null>
  /**
   * The user of a session, in one look-up: 'denied' when the credential with this digest was logged out, null when there is no
   * such user.
   */
  ofSession(id: string, digest: string): Promise<User | 'denied' | null>
}

// ------------------------------------------------------------------------------------------- API tokens

export interface ApiTokenReads {
  /** The token with this digest and its user (null: the account is gone), in one look-up; null: there is no such token. */
  byDigest(digest: string): Promise<{ readonly token: ApiToken; readonly user: User | null } | null>
  /** Newest first. */
  list(user?: UserArg): Promise<ApiToken[]>
}

// ---------------------------------------------------------------------------------------------- threads

export interface ThreadQuery {
  /** Exact, typed equality on every key: true is not 1, null is not missing. */
  readonly metadata?: JsonObject
  readonly status?: ThreadStatus
  readonly ids?: readonly string[]
  readonly sortBy?: 'thread_id' | 'created_at' | 'updated_at' | 'status'
  readonly sortOrder?: 'asc' | 'desc'
  readonly limit: number
  readonly offset: number
}

export interface ThreadReads {
  get(threadId: string, user?: UserArg): Promise<Thread | null>
  /** Whose thread it is, whoever asks: undefined when there is no such row. For the owner check alone [Auth 6]. */
  ownerOf(threadId: string): Promise<string | null | undefined>
  /** Default order: updated_at, newest first. `total` counts all matches. */
  search(query: ThreadQuery, user?: UserArg): Promise<{ readonly threads: Thread[]; readonly total: number }>
}

// ------------------------------------------------------------------------------------------------- runs

/** A run as it is asked for: the store gives `key` and `ordinal`, and the follow-up when it is left to it. */
export type NewRun = Omit<Run, 'key' | 'ordinal'>

export type Admission =
  /** `owner`: the process that it belongs to, which may be another one [Store 10]. */
  | { readonly outcome: 'created'; readonly run: Run; readonly inFlight: readonly string[]; readonly owner?: string }
  /** The same key and body came before: this is the run it made. */
  | { readonly outcome: 'repeated'; readonly run: Run }
  /** The same key came with another body. */
  | { readonly outcome: 'key_reused' }
  | { readonly outcome: 'busy' }
  | { readonly outcome: 'thread_missing' }

export interface TokenUsage {
  readonly total_tokens: number
  readonly total_input_tokens: number
  readonly total_output_tokens: number
  readonly total_runs: number
  readonly by_model: Record<string, { readonly tokens: number; readonly runs: number }>
  readonly by_caller: { readonly lead_agent: number; readonly subagent: number; readonly middleware: number }
}

export interface RunReads {
  get(runId: string, user?: UserArg): Promise<Run | null>
  /** Newest first. */
  list(threadId: string, page: { limit: number; offset: number; status?: RunStatus }, user?: UserArg): Promise<Run[]>
  /** Pending and running runs of a thread, oldest first. */
  inFlight(threadId: string): Promise<Run[]>
  /** Every run that is not terminal, oldest first: what a start finds after a crash. */
  unfinished(): Promise<Run[]>
  /** Sums over the thread's finished runs, however they ended, in one aggregation. */
  tokens(threadId: string, user?: UserArg): Promise<TokenUsage>
}

// ----------------------------------------------------------------------------------------------- events

export interface NewEvent {
  readonly event_type: string
  readonly category: EventCategory
  readonly content: Json
  readonly metadata: JsonObject
  readonly created_at: Timestamp
  /** Position within the run, from 0: makes a repeated append of the same records harmless. */
  readonly k: number
}

/** Pages by seq. No cursor: the newest; before: the last ones below it; after: the first ones above it; both: the range, forward. */
export interface SeqPage {
  readonly limit: number
  readonly before?: number
  readonly after?: number
}

export interface EventReads {
  /** Records of category `message` of all runs of the thread; ascending, whatever the cursor. */
  listMessages(threadId: string, page: SeqPage, user?: UserArg): Promise<RunEvent[]>
  /** The same for one run. */
  listMessagesByRun(threadId: string, runId: string, page: SeqPage, user?: UserArg): Promise<RunEvent[]>
  /** All categories of one run, oldest first. */
  listEvents(
    threadId: string,
    runId: string,
    query: { types?: readonly string[]; after?: number; limit: number },
    user?: UserArg
  ): Promise<RunEvent[]>
  countMessages(threadId: string, user?: UserArg): Promise<number>
  /** The seq that the thread's next event gets; null: there is no such thread. For events that lie elsewhere, see EventStore. */
  nextSeq(threadId: string): Promise<number | null>
  /** The last k of a run's events, -1 when there are none: where a start goes on after a crash. */
  lastK(threadId: string, runId: string): Promise<number>
  /** By message id, for the given messages of a thread: who said what, for the history view. The newest record counts. */
  runsOfMessages(
    threadId: string,
    messageIds: readonly string[],
    user?: UserArg
  ): Promise<ReadonlyMap<string, MessageOrigin>>
}

/** Where a message comes from, as its event says. */
export interface MessageOrigin {
  readonly run_id: string
  readonly event_type: string
}

// ---------------------------------------------------------------------------------- events that lie elsewhere

/** An event as an EventStore keeps it: with its place in the thread (seq) and in the run (k). */
export interface EventRecord extends RunEvent {
  readonly k: number
}

/** Which records of one thread. All conditions hold together. */
export interface EventQuery {
  readonly threadId: string
  /** Seqs between, both excluded. */
  readonly after: number
  readonly before: number
  /** null: everybody's. A user: its own, and those whose user_id is null [Auth 7]. */
  readonly owner: string | null
  readonly runId?: string
  readonly category?: EventCategory
  readonly types?: readonly string[]
  /** Only records whose content is an object with one of these ids. */
  readonly messageIds?: readonly string[]
}

/**
 * Where run events lie when they do not lie in the database (`run_events.backend`): files, memory, or a module of yours.
 * lib/store/split/open.ts makes a Store of a database and one of these, and keeps [Store 1 to 9] for both together. For that it
 * needs of an event store:
 *
 *  a. The database has the last word: a record is there when its seq is below the thread's counter in the database, and every
 *     query is bounded by it. `append` comes before the commit, so a record at or above the counter was never committed.
 *  b. `append` takes records of any threads; those of one thread come with ascending seq, and never two with the same unless
 *     `cut` was between. When it rejects, what it left behind is below no query's bound, and the next `cut` removes it.
 *  c. `cut` is called before the first `append` of a thread in every process, after a crash for instance, and after every
 *     append that was not committed.
 *  d. What `append` and `remove` have answered survives the process, if the store is to outlive it at all.
 *  e. Writing calls come one at a time. Queries come at any time and in any number.
 *  f. Records come back as they were given: equal JSON, whatever the characters. Nobody changes what it gave or got.
 *
 * Every method may reject with StoreUnavailable for what passes: then it is called again. Any other error is about the
 * records: their run fails, the others go on.
 */
export interface EventStore {
  /** The first `limit` matching records, or the last ones; ascending by seq either way. */
  select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]>
  count(query: EventQuery): Promise<number>
  append(records: readonly EventRecord[]): Promise<void>
  /** Removes the thread's records with `seq >= nextSeq`, however they came to be there. None are there: nothing to do. */
  cut(threadId: string, nextSeq: number): Promise<void>
  /** Removes a run's records, or with null all of the thread's, that `owner` may see; answers how many. */
  remove(threadId: string, runId: string | null, owner: string | null): Promise<number>
  /**
   * Optional, as is `announced`: remembers, over a crash, which threads are about to be removed, in place of what it was told
   * before. Without it the records of a thread whose removal a crash has interrupted lie there, unseen, until its id comes again.
   */
  announce?(threadIds: readonly string[]): Promise<void>
  /** What was announced last. */
  announced?(): Promise<readonly string[]>
  close(): Promise<void>
}

/** What the gateway tells a store of somebody else's when it opens it. */
export interface ModuleOptions {
  /** The data home, absolute: what a store writes lies below it. */
  readonly home: string
  /** `options` beside `module` in the configuration, as they stand there. */
  readonly options: JsonObject
  /** Writes a line to the log. */
  warn(fields: object, text: string): void
}
/** What a module exports that `run_events.backend: { module }` names: `export const openEventStore: OpenEventStore = ...`. */
export type OpenEventStore = (options: ModuleOptions) => Promise<EventStore>
/** What a module exports that `database.backend: { module }` names: `export const openStore: OpenStore = ...`. */
export type OpenStore = (options: ModuleOptions) => Promise<Store>

// ----------------------------------------------------------------------------------------------- frames

/**
 * Frames of one run that were written together. `data` holds their encoded bytes one after the other, `index` five bytes a
 * frame: its kind, then the length of its bytes as a little-endian u32. So a filter, or a start in the middle, parses nothing.
 * Given to a store both may be parts of larger memory that others read as well: they are not to be changed, and to hand them to
 * another thread is to copy them.
 */
export interface Segment {
  readonly epoch: number
  readonly first: number
  readonly last: number
  readonly index: Uint8Array
  readonly data: Uint8Array
}

export interface FrameReads {
  /** Segments that hold n >= from, in order, until `maxBytes` of data are together (always at least one). Empty: nothing there. */
  read(runKey: number, from: number, maxBytes: number): Promise<Segment[]>
  /** What is stored of a run: first n of each epoch, in order, and the last n. Null: no frames (none written, or swept). */
  bounds(runKey: number): Promise<{
    readonly first: number
    readonly last: number
    readonly epochs: readonly { readonly epoch: number; readonly first: number }[]
  } | null>
}

// ------------------------------------------------------------------------------------------ checkpoints

/** Inclusive range of body numbers: [from, to]. */
export type BodyRange = readonly [number, number]

/**
 * One checkpoint as it is written: which bodies it consists of, and the bodies that are new. A body is the JSON text of one
 * message or one channel, kept once a version under a number of its thread; the list of messages is a list of ranges, so that
 * a turn that only appends costs the same at turn 10 and at turn 1,000.
 */
export interface CheckpointWrite {
  readonly thread_id: string
  readonly checkpoint_id: string
  readonly parent_checkpoint_id: string | null
  readonly run_id: string | null
  readonly created_at: Timestamp
  readonly metadata: JsonObject
  readonly next: readonly string[]
  readonly messages: readonly BodyRange[]
  readonly channels: Readonly<Record<string, number>>
  readonly bodies: readonly { readonly no: number; readonly json: string }[]
}

export type CheckpointHead = Omit<CheckpointWrite, 'bodies'>

/** A checkpoint with the bodies it consists of. `json` is the text that was given, to the letter. */
export interface StoredCheckpoint extends CheckpointHead {
  readonly messageBodies: readonly { readonly no: number; readonly json: string }[]
  readonly channelBodies: readonly { readonly name: string; readonly no: number; readonly json: string }[]
  /** The first body number of the thread that is not taken. */
  readonly nextBody: number
}

export interface HistoryPage {
  readonly limit: number
  readonly before?: string
  readonly channels?: readonly string[]
}

export interface CheckpointReads {
  /** `checkpointId` null: the newest. With `channels`, only those are read (messages is one of them). */
  load(threadId: string, checkpointId: string | null, channels?: readonly string[]): Promise<StoredCheckpoint | null>
  /**
   * Newest first; `before` gives the strictly older ones. Each has the bodies of `channels` (default: none), the first one its
   * messages too, if they are among them.
   */
  history(threadId: string, page: HistoryPage): Promise<StoredCheckpoint[]>
}

export type StateUpdate =
  | { readonly outcome: 'written'; readonly checkpoint: CheckpointHead }
  | { readonly outcome: 'busy' | 'checkpoint_missing' }

// --------------------------------------------------------------------------------------------- feedback

export interface FeedbackReads {
  /** The caller's own feedback on a run, oldest first. */
  list(threadId: string, runId: string, user?: UserArg): Promise<Feedback[]>
  /** Counts over all users of the run, in one aggregation. */
  stats(threadId: string, runId: string): Promise<FeedbackStats>
  /** The caller's own feedback by run, for the given runs of a thread, in one query. */
  byRuns(threadId: string, runIds: readonly string[], user?: UserArg): Promise<ReadonlyMap<string, Feedback>>
  /**
   * What `EventReads.runsOfMessages` says of these messages, and the caller's own feedback on their runs. One query where both lie
   * in one database; lib/store/beside.ts makes it of two.
   */
  besideMessages(threadId: string, messageIds: readonly string[], user?: UserArg): Promise<BesideMessages>
}

/** What is known beside messages. */
export interface BesideMessages {
  /** By message. */
  readonly origins: ReadonlyMap<string, MessageOrigin>
  /** By run. */
  readonly feedback: ReadonlyMap<string, Feedback>
}

// ------------------------------------------------------------------------------------------------ writes

/** How a run ended. */
export interface Settlement extends RunTotals {
  readonly run_id: string
  readonly thread_id: string
  readonly status: Exclude<RunStatus, 'pending' | 'running'>
  /** null leaves the thread's status as it is: the run never started, another one may be running. */
  readonly thread_status: ThreadStatus | null
  /** Non-empty: becomes the thread's display_name. */
  readonly title: string | null
  readonly error: string | null
  readonly stop_reason: string | null
  readonly model_name: string | null
  readonly last_cursor: string | null
  readonly final_checkpoint_id: string | null
  /** null does not overwrite. */
  readonly first_human_message: string | null
  readonly last_ai_message: string | null
  readonly now: Timestamp
}

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
  'apiToken.remove': { in: { token_id: string; user?: UserArg }; out: ApiToken | null }
  /** Notes a use. Nothing happens when the token is gone, or a later use is noted. */
  'apiToken.use': { in: { token_id: string; at: Timestamp }; out: null }
  /** Writes something that means nothing, for who wants to know whether the store takes writes (again). */
  'store.touch': { in: object; out: null }
  /** Creates the row and its first, empty checkpoint, or answers the row that is there; null: it belongs to somebody else. */
  'thread.create': {
    in: { thread: Thread; checkpoint: CheckpointWrite }
    out: { thread: Thread; created: boolean } | null
  }
  /** Merges top-level keys; null: no such thread for this owner. */
  'thread.patch': {
    in: { thread_id: string; metadata: JsonObject; user?: UserArg; now: Timestamp }
    out: Thread | null
  }
  /** Removes the thread and everything that belongs to it, in every table. */
  'thread.remove': { in: { thread_id: string; user?: UserArg }; out: boolean }
  /**
   * Admits a run [Store 6]. `strategy` reject answers busy while one is in flight; the others are stored pending behind it, and
   * `inFlight` names what stood before. `autoFollowUp`: the newest successful run of the thread becomes follow_up_to_run_id.
   */
  'run.create': { in: { run: NewRun; autoFollowUp: boolean }; out: Admission }
  /** pending -> running, and the thread with it. False: it is not pending any more. */
  'run.start': { in: { run_id: string; thread_id: string; now: Timestamp }; out: boolean }
  /** Ends a run: status, totals, thread status and title together. False: it was terminal already [Store 7]. */
  'run.settle': { in: Settlement; out: boolean }
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
  /** Answers how many were removed; 0 when there are none. Without run_id: of the whole thread, and its counter starts again. */
  'events.remove': { in: { thread_id: string; run_id: string | null; user?: UserArg }; out: number }
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
  /** Writes the caller's one feedback on a run: a second one replaces rating, comment, message_id and created_at, not the id. */
  'feedback.upsert': { in: { feedback: Feedback }; out: Feedback }
  'feedback.remove': { in: { thread_id: string; run_id: string; user?: UserArg }; out: boolean }
  'feedback.removeById': {
    in: { feedback_id: string; thread_id: string; run_id: string; user?: UserArg }
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

/** The ops whose rows are filtered by their user: the writer resolves the argument before it crosses anywhere [Auth 7]. */
export const OWNED_OPS: ReadonlySet<OpName> = new Set<OpName>([
  'apiToken.remove',
  'thread.patch',
  'thread.remove',
  'events.remove',
  'feedback.remove',
  'feedback.removeById'
])

/** Takes one write and answers its result, once it is committed. What routes and rules write through; the committer is one. */
export interface Writer {
  write<K extends OpName>(op: OpOf<K>): Promise<Result<K>>
}

// ---------------------------------------------------------------------------------------------- the store

/**
 * What `apply` rejects with when nothing was written and the same groups may be handed over again: a lock, a full disk [Store 3].
 * Its message is shown to whoever asks whether we are ready: no paths, no statements.
 */
export class StoreUnavailable extends Error {
  readonly code: string
  /** It goes by itself, as a lock does that somebody holds; false: a full disk, a lost server, somebody has to act. */
  readonly passes: boolean
  constructor(code: string, message: string, passes = false) {
    super(message)
    this.name = 'StoreUnavailable'
    this.code = code
    this.passes = passes
  }
}

/** What a store takes on disk, in bytes. */
export interface StoreSize {
  readonly database: number
  /** What is written but not moved into the database yet; 0 where there is no such thing. */
  readonly wal: number
}

// ------------------------------------------------------------------------------------ more than one process

/** What one process tells another: ids and never contents. Any of it may get lost; who relies on it asks the database as well. */
export type PeerMessage =
  /** These runs are yours: they were admitted here, behind others of their thread that you have. */
  | { readonly kind: 'arrived'; readonly runs: readonly string[] }
  /** Tell me when something of these runs of yours is stored. */
  | { readonly kind: 'follow' | 'unfollow'; readonly runs: readonly string[] }
  /** Something of `runs` was stored; those in `over` have ended with it. */
  | { readonly kind: 'stored'; readonly runs: readonly string[]; readonly over: readonly string[] }
  | {
      readonly kind: 'cancel'
      readonly run: string
      readonly action: 'interrupt' | 'rollback'
      readonly reason: string | null
    }
  /** End your runs of this thread, and say when their agents have let go. */
  | { readonly kind: 'clear' | 'cleared'; readonly thread: string }
  /** The thread is gone, with all that it had; `user` is whose it was. */
  | { readonly kind: 'removed'; readonly thread: string; readonly user: string | null }
  | { readonly kind: 'revoked'; readonly digest: string }
  | { readonly kind: 'revoked'; readonly userId: string }
  /** I end: what I leave is to be had. */
  | { readonly kind: 'left' }

export interface PeerListener {
  told(message: PeerMessage, from: string): void
  /** What was told in the last moments may not have arrived. */
  missed(): void
  /** This process has lost its lease: its runs are somebody else's. Called before anything is refused for it. */
  lost(): void
}

/** Where a run stands, as other processes can know it. */
export interface Standing {
  readonly run_id: string
  readonly status: RunStatus
  /** null: nobody, or one that is no more. */
  readonly owner: string | null
  /** n of its last stored frame; null: there is none. */
  readonly last: number | null
}

/** The processes that have one database open at the same time [Store 10]. */
export interface Peers {
  /** This process, as the owner of its runs. A new one after the lease was lost. */
  readonly id: string
  /** How long a process that does not renew its lease keeps it, in ms. */
  readonly leaseMs: number
  /** Makes this process known and begins to listen. `before`: one that is known to be dead, whose lease ends now. */
  start(listener: PeerListener, before?: string | null): Promise<void>
  /** Prolongs the lease; a loss is told to the listener. To be called every third of `leaseMs`. */
  renew(): Promise<void>
  /** Takes the runs of processes that have lost their lease. Answers every run in flight of this process, oldest first. */
  claim(): Promise<Run[]>
  /** Those of these runs that there are. */
  look(runIds: readonly string[]): Promise<Standing[]>
  /** Tells one process, or with null all others. Nobody learns whether it has arrived. */
  tell(to: string | null, message: PeerMessage): void
}

/** This process has lost its lease: what was handed over in the name of its runs is never written. All else may come again. */
export class LeaseLost extends StoreUnavailable {
  constructor() {
    super('LEASE_LOST', 'this process has lost its lease to another one', true)
  }
}

export interface Store {
  readonly users: UserReads
  readonly apiTokens: ApiTokenReads
  readonly threads: ThreadReads
  readonly runs: RunReads
  readonly events: EventReads
  readonly frames: FrameReads
  readonly checkpoints: CheckpointReads
  /** null: there is no SQL database, and the feedback routes answer 503 [Errors]. */
  readonly feedback: FeedbackReads | null
  /** Absent: the store has one process. */
  readonly peers?: Peers
  /** One transaction for all groups; answers one outcome a group, in their order [Store 2, 3]. Called by the committer alone. */
  apply(groups: readonly Group[]): Promise<Outcome[]>
  /**
   * Why `apply` has not answered yet, where the store knows: a commit whose connection broke is asked about until the server is
   * back, because nobody may be told before. null, or left out: it is at work, or has nothing to do.
   */
  readonly trouble?: StoreUnavailable | null
  /** For whoever watches over the disk; a store that cannot tell leaves it out. */
  size?(): Promise<StoreSize>
  close(): Promise<void>
}
