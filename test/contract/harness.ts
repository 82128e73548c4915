// What every suite needs: a store to ask, a way to write one thing, and records whose every field is filled.
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Owner } from '../../lib/base/scope.ts'
import type {
  Admission,
  BodyRange,
  CheckpointWrite,
  Group,
  NewEvent,
  NewRun,
  Op,
  OpName,
  OpOf,
  Outcome,
  Result,
  Settlement,
  Store,
  ThreadQuery
} from '../../lib/store/store.ts'
import type { User } from '../../lib/base/accounts.ts'
import {
  type JsonObject,
  NO_TOTALS,
  type Run,
  type RunEvent,
  type Thread,
  type Timestamp,
  timestamp
} from '../../lib/base/types.ts'

/** A store of nobody else's, and empty. */
export interface Opened {
  readonly store: Store
  /** Closes it and opens it again on the same data. Absent: nothing is kept, and the tests of keeping are skipped. */
  reopen?(): Promise<Store>
  /**
   * Gets in the way of writing as a foreign lock or a full disk would, until the answer is called. Absent: nothing can get
   * in the way, and the test of [Store 3] is skipped.
   */
  jam?(): Promise<() => Promise<void>>
  /** Opens it once more on the same data, as another process would [Store 10]. Absent: the store has one process. */
  beside?(): Promise<Store>
  /** Closes what is open and removes the data. */
  close(): Promise<void>
}
export type Open = () => Promise<Opened>

export type Rule = (t: Test, store: Store) => Promise<void>
export type DurableRule = (t: Test, store: Store, reopen: () => Promise<Store>) => Promise<void>

/** Answers how to test a rule: its name, and its work on a fresh store that is closed afterwards, however the test ends. */
export function rules(t: Test, open: Open): (name: string, work: Rule) => void {
  return (name, work) => {
    t.test(name, async (t) => {
      const opened = await open()
      t.teardown(() => opened.close())
      await work(t, opened.store)
    })
  }
}

/**
 * The same on one store for all of them, opened for the first: each rule makes ids of its own, and holds whatever others have written.
 * Half of what a contract took was to open and close stores.
 */
export function sharedRules(t: Test, open: Open): (name: string, work: Rule) => void {
  let opened: Promise<Opened> | null = null
  t.teardown(async () => (await opened)?.close())
  return (name, work) => {
    t.test(name, async (t) => {
      opened ??= open()
      await work(t, (await opened).store)
    })
  }
}

/** The same as `rules` for what must be there after a restart: skipped, visibly, where nothing is kept. */
export function durableRules(t: Test, open: Open): (name: string, work: DurableRule) => void {
  return (name, work) => {
    t.test(name, async (t) => {
      const opened = await open()
      t.teardown(() => opened.close())
      const { reopen } = opened
      if (!reopen) return skipped(t, 'this store keeps nothing')
      await work(t, opened.store, () => reopen.call(opened))
    })
  }
}

/** Says in the report that a rule was not proved, and why. */
export function skipped(t: Test, why: string): void {
  t.pass(why, { skip: why })
}

/** Applies groups and answers what became of each. */
export async function apply(store: Store, ...groups: Group['ops'][]): Promise<Outcome[]> {
  return store.apply(groups.map((ops) => ({ ops })))
}

function asOp<K extends OpName>(op: OpOf<K>): Op {
  // OpOf<K> is one member of the union Op, which the compiler does not see for an open K.
  return op as unknown as Op
}

/**
 * Writes one op as a group of its own and answers its result.
 * @throws Error when the group is refused.
 */
export async function write<K extends OpName>(store: Store, op: OpOf<K>): Promise<Result<K>> {
  const [outcome] = await apply(store, [asOp(op)])
  if (!outcome?.ok) throw new Error(`${op.name} was refused: ${outcome?.message}`)
  // The results of a group are those of its ops, in their order.
  return outcome.results[0] as Result<K>
}

/** Ids of a search that sees everything, unless told otherwise. */
export async function idsOf(store: Store, query: Partial<ThreadQuery>, user: string | null = null): Promise<string[]> {
  const { threads } = await store.threads.search({ limit: 1000, offset: 0, ...query }, user)
  return threads.map(({ thread_id }) => thread_id)
}

/** Passes when the group of this one op is refused. */
export async function refuses<K extends OpName>(t: Test, store: Store, op: OpOf<K>, rule: string): Promise<void> {
  const [outcome] = await apply(store, [asOp(op)])
  t.match(outcome, { ok: false, message: String }, rule)
}

/** Proves the user argument of one read: `read` asks for something that only `mine` may see, and answers how much of it there was. */
export async function userArgument(
  t: Test,
  method: string,
  { mine, other, read }: { mine: string; other: string; read: (user: Owner) => Promise<number> }
): Promise<void> {
  t.equal(await read(mine), 1, `${method}: a user sees its own`)
  t.equal(await read(other), 0, `${method}: rows of others do not exist`)
  t.equal(await read(null), 1, `${method}: null means no filter`)
}

// --------------------------------------------------------------------------------------------------- records

/** The n-th second of the suites' time. */
export function time(second: number): Timestamp {
  return timestamp(Date.UTC(2026, 0, 1) + second * 1000)
}

/** The n-th checkpoint id: ids sort by time as texts. */
export function checkpointId(n: number): string {
  return `1f0-${String(n).padStart(6, '0')}`
}

export function aUser(set: Partial<User> = {}): User {
  const id = set.id ?? randomUUID()
  return {
    id,
    email: `${id}@example.com`,
    password_hash: '2$abc',
    system_role: 'user',
    created_at: time(0),
    oauth_provider: null,
    oauth_id: null,
    needs_setup: false,
    token_version: 0,
    disabled_at: null,
    ...set
  }
}

export function aThread(set: Partial<Thread> = {}): Thread {
  return {
    thread_id: randomUUID(),
    user_id: 'ann',
    assistant_id: 'lead_agent',
    display_name: null,
    status: 'idle',
    metadata: {},
    created_at: time(0),
    updated_at: time(0),
    ...set
  }
}

export function aCheckpoint(threadId: string, set: Partial<CheckpointWrite> = {}): CheckpointWrite {
  return {
    thread_id: threadId,
    checkpoint_id: checkpointId(0),
    parent_checkpoint_id: null,
    run_id: null,
    created_at: time(0),
    metadata: { source: 'input', step: -1, writes: null, parents: {} },
    next: [],
    messages: [],
    channels: {},
    bodies: [],
    ...set
  }
}

/** Creates a thread with its first, empty checkpoint. */
export async function addThread(
  store: Store,
  set: Partial<Thread> = {},
  more: Partial<OpOf<'thread.create'>> = {}
): Promise<Thread> {
  const thread = aThread(set)
  const checkpoint = aCheckpoint(thread.thread_id)
  const answer = await write(store, { ...more, name: 'thread.create', thread, checkpoint })
  if (!answer || answer === 'too_many' || !answer.created)
    throw new Error(`thread ${thread.thread_id} was there already`)
  return answer.thread
}

/** A run that waits behind what is in flight, so that a test may have as many as it likes. */
export function aRun(threadId: string, set: Partial<NewRun> = {}): NewRun {
  return {
    ...NO_TOTALS,
    run_id: randomUUID(),
    thread_id: threadId,
    user_id: 'ann',
    assistant_id: 'lead_agent',
    status: 'pending',
    model_name: null,
    multitask_strategy: 'enqueue',
    metadata: {},
    kwargs: {},
    error: null,
    stop_reason: null,
    follow_up_to_run_id: null,
    first_human_message: null,
    last_ai_message: null,
    last_cursor: null,
    final_checkpoint_id: null,
    idempotency_key: null,
    idempotency_hash: null,
    created_at: time(1),
    updated_at: time(1),
    ...set
  }
}

export const TERMINAL: readonly Settlement['status'][] = ['success', 'error', 'timeout', 'interrupted']

/** Asks for a run and answers what became of it. */
export function createRun(store: Store, run: NewRun, autoFollowUp = false): Promise<Admission> {
  return write(store, { name: 'run.create', run, autoFollowUp })
}

export function startRun(store: Store, { run_id, thread_id }: Run, now = time(5)): Promise<boolean> {
  return write(store, { name: 'run.start', run_id, attempt: 1, thread_id, now })
}

/** Creates a run and answers it. */
export async function addRun(
  store: Store,
  threadId: string,
  set: Partial<NewRun> = {},
  autoFollowUp = false
): Promise<Run> {
  const admission = await createRun(store, aRun(threadId, set), autoFollowUp)
  if (admission.outcome !== 'created') throw new Error(`the run was not created: ${admission.outcome}`)
  return admission.run
}

export function aSettlement(run: Pick<Run, 'run_id' | 'thread_id'>, set: Partial<Settlement> = {}): OpOf<'run.settle'> {
  return {
    ...NO_TOTALS,
    name: 'run.settle',
    run_id: run.run_id,
    thread_id: run.thread_id,
    status: 'success',
    thread_status: 'idle',
    title: null,
    error: null,
    stop_reason: null,
    model_name: null,
    last_cursor: null,
    final_checkpoint_id: null,
    first_human_message: null,
    last_ai_message: null,
    now: time(9),
    ...set
  }
}

/** Creates a run that has ended. */
export async function addEndedRun(store: Store, threadId: string, set: Partial<Settlement> = {}): Promise<Run> {
  const run = await addRun(store, threadId)
  await write(store, aSettlement(run, set))
  return run
}

export function anEvent(k: number, set: Partial<NewEvent> = {}): NewEvent {
  return {
    event_type: 'ai_message',
    category: 'message',
    content: { type: 'ai', id: `message-${k}`, content: `text ${k}` },
    metadata: {},
    created_at: time(k),
    k,
    ...set
  }
}

/** What makes a trace of an event: it is no message. */
export const TRACE = { event_type: 'llm_request', category: 'trace' } as const

/** Appends events of `ann` and answers the seq of the first. */
export async function addEvents(
  store: Store,
  run: Run,
  events: readonly NewEvent[],
  userId = run.user_id
): Promise<number> {
  return write(store, { name: 'events.append', thread_id: run.thread_id, run_id: run.run_id, user_id: userId, events })
}

/** All events of a run, as they are stored. */
export async function eventsOf(store: Store, { thread_id, run_id }: Run): Promise<RunEvent[]> {
  return store.events.listEvents(thread_id, run_id, { limit: 10_000 }, null)
}

/** How many messages of a thread a user sees. */
export async function messageCount(store: Store, threadId: string, user: Owner): Promise<number> {
  return (await store.events.listMessages(threadId, { limit: 100_000 }, user)).length
}

export function seqsOf(events: readonly RunEvent[]): number[] {
  return events.map(({ seq }) => seq)
}

/** `n` events with the positions from..from + n - 1. */
export function someEvents(from: number, n: number, set: Partial<NewEvent> = {}): NewEvent[] {
  return Array.from({ length: n }, (_, at) => anEvent(from + at, set))
}

/** A range of body numbers with their texts. */
export function someBodies([from, to]: BodyRange, textOf: (no: number) => string): { no: number; json: string }[] {
  return Array.from({ length: to - from + 1 }, (_, at) => ({ no: from + at, json: textOf(from + at) }))
}

// ---------------------------------------------------------------------------------------------------- texts

/** Texts that come through every layer or show which layer they do not survive [Store 9]. */
export const HOSTILE_TEXTS: Readonly<Record<string, string>> = {
  'nothing at all': '',
  'U+0000': 'a\u0000b\u0000',
  'U+2028 and U+2029': 'line\u2028paragraph\u2029end',
  'control characters': '\u0001\u0008\u001b[31m\u007f\u0085\r\n\t',
  'a byte order mark': '\ufeffstart',
  'characters beyond the first plane': '😀 𝒳 👩‍👩‍👧',
  'combining characters, not normalised': 'e\u0301 \u00e9',
  'right-to-left marks': '\u202eevil\u202c',
  SQL: `'; DROP TABLE runs; -- " \\ % _ ? $1 @a :b`,
  JSON: '{"a":[1,"\\u0000"]}',
  'one megabyte': 'ä€😀x'.repeat(100_000)
}

/** Keys that a path, an object or a query could take for something else. */
export const HOSTILE_KEYS = [
  'a.b',
  '$',
  '$.a',
  'a[0]',
  '"',
  'a"b',
  "' OR 1=1 --",
  '\\',
  '%',
  '?',
  '',
  ' ',
  'ключ',
  '😀',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'length',
  '0'
]

/** An object with one member, defined and not assigned: a key named __proto__ stays a key. */
export function member(key: string, value: JsonObject[string]): JsonObject {
  return Object.fromEntries([[key, value]])
}
