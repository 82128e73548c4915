// Starting, cancelling and waiting for runs, for every protocol. Callers parse the request; whatever is refused here is
// refused before anything is written.
import { createHash, randomUUID } from 'node:crypto'
import type { StatePort } from '../../agent/states.ts'
import { Failure, fail } from '../../base/errors.ts'
import type { Admission, Alias, NewJob, NewRun, Op, Store, Writer } from '../../store/store.ts'
import { refuseHeld } from '../../thread/holds.ts'
import { newThread } from '../../thread/thread.ts'
import type { UserLimits } from '../../thread/user-limits.ts'
import { isInFlight, type JsonObject, type Run, type Thread, timestamp, UNPLACED, uuidOf } from '../../base/types.ts'
import { objectOr, textOr } from '../../base/json.ts'
import { type CancelAction, ROLLED_BACK } from '../run-end.ts'
import { graceOf, isEdit, webhookOf } from '../run-kwargs.ts'
import type { AlsoWritten, Registry } from './registry.ts'
import { withTimeout } from '../../base/waiting.ts'

/** How long a cancel waits for the owning process's answer whether it came in time, in ms. */
const CANCEL_WAIT_MS = 5000
const RETRY_AFTER = { 'Retry-After': '5' }

interface RunsDeps {
  readonly store: Pick<Store, 'runs' | 'threads' | 'holds'>
  readonly states: Pick<StatePort, 'has' | 'isOfGraphs'>
  readonly writer: Writer
  readonly registry: Registry
  readonly limits: Pick<UserLimits, 'createThread' | 'allowRun'>
  /** Keeps what is sent of a run that is about to be removed. */
  readonly keptWebhooks: (threadId: string, runId: string) => Promise<readonly Op[]>
  readonly writeAll: (ops: readonly Op[]) => Promise<readonly unknown[]>
  /** The job that removes a thread made for one run, should nothing come of it. */
  readonly removalOf: (thread: Thread) => NewJob
  /** null: ready; else why no run is accepted. */
  readonly notReady: () => string | null
}

/** A requested run, before its thread is known. */
export interface RunOrder {
  readonly run: Omit<NewRun, 'thread_id'>
  /** Follows up the thread's newest successful run. */
  readonly autoFollowUp: boolean
  /** Metadata for listing the thread, where it has none yet. */
  readonly graph: { readonly graph_id: string; readonly assistant_id: string; readonly agent_name?: string }
  /** A new thread has that metadata before the run's creator is answered. */
  readonly namesFirst: boolean
  /** Runs that it rolls back are deleted. */
  readonly removesRolledBack: boolean
}

/** The thread of a run created without one: the one it names, or a new one, which stays. */
export interface StatelessOrder extends RunOrder {
  readonly threadId: string | null
  readonly assistantId: string | null
  readonly metadata: JsonObject
  /** What a client of another protocol calls the new thread from then on. */
  readonly named?: Pick<Alias, 'protocol' | 'text'> | undefined
}

export class Runs {
  readonly #deps: RunsDeps

  constructor(deps: RunsDeps) {
    this.#deps = deps
  }

  /** @throws Failure when it is refused; nothing was written then */
  start(threadId: string, order: RunOrder, also?: AlsoWritten): Promise<Run> {
    return this.#admitted(order, (atOnce) => this.#create(threadId, order, atOnce, also))
  }

  startStateless(order: StatelessOrder, also?: AlsoWritten): Promise<Run> {
    return this.#admitted(order, (atOnce) => this.#createStateless(order, atOnce, also))
  }

  async #admitted({ run }: RunOrder, create: (atOnce: number) => Promise<Run>): Promise<Run> {
    const reason = this.#deps.notReady()
    if (reason !== null) throw fail('not_ready', { reason }, RETRY_AFTER)
    try {
      return await this.#allowed(run, create)
    } catch (error) {
      // A repeated request gets its run, which may have used the last place itself.
      const earlier = error instanceof Failure && (await this.#earlier(run))
      if (earlier) return earlier
      throw error
    }
  }

  /** @throws Failure when its idempotency key is another request's */
  async #earlier({ user_id, idempotency_key, idempotency_hash }: RunOrder['run']): Promise<Run | null> {
    if (idempotency_key === null) return null
    const earlier = await this.#deps.store.runs.byKey(idempotency_key, user_id)
    if (earlier && earlier.idempotency_hash !== idempotency_hash) throw fail('idempotency_conflict')
    return earlier
  }

  /** Reserves a place in the user's quota before the first await, or concurrent requests would all pass the check. */
  async #allowed(run: RunOrder['run'], create: (atOnce: number) => Promise<Run>): Promise<Run> {
    const { registry, limits } = this.#deps
    const release = registry.quota.reserve(run.user_id, run.idempotency_key)
    if (!release) throw fail('too_many_runs', null, RETRY_AFTER)
    try {
      const { atOnce, putBack } = await limits.allowRun(run.user_id, webhookOf(run) !== null)
      return await ofAllowance(run.run_id, create(atOnce), putBack)
    } finally {
      release()
    }
  }

  async #create(
    threadId: string,
    { run, autoFollowUp, graph, namesFirst, removesRolledBack }: RunOrder,
    atOnce: number,
    also?: AlsoWritten
  ): Promise<Run> {
    const { registry, states, store } = this.#deps
    // It would undo what is in flight; or, where it fails, what a graph has written.
    const mayUndo = run.multitask_strategy === 'rollback' || (isEdit(run) && states.isOfGraphs)
    if (mayUndo) await refuseHeld(store, 'thread', threadId)
    const base = run.kwargs.checkpoint_id
    const { checkpoint_ns: namespace } = objectOr(run.kwargs.checkpoint)
    if (typeof base === 'string' && !(await states.has(threadId, base, textOr(namespace) ?? '')))
      throw fail('checkpoint_not_found', { id: base })
    const admission = await registry.create({ ...run, thread_id: threadId }, autoFollowUp, also, atOnce)
    if (admission.outcome === 'created' && removesRolledBack && run.multitask_strategy === 'rollback')
      for (const id of admission.inFlight) void this.#removeRolledBack(threadId, id).catch(() => {})
    if (admission.outcome === 'created' && admission.run.ordinal % UNPLACED === 1) {
      // The run exists now and must not be refused any more.
      const named = this.#nameGraph(admission.run, graph).catch(() => {})
      if (namesFirst) await named
    }
    return runIn(admission, threadId, atOnce)
  }

  /** The first run of a thread records its graph, by which threads are searched. Existing metadata stays. */
  async #nameGraph({ thread_id }: Run, graph: RunOrder['graph']): Promise<void> {
    const thread = await this.#deps.store.threads.get(thread_id, null)
    const unsaid = Object.entries(graph).filter(([key]) => !Object.hasOwn(thread?.metadata ?? {}, key))
    if (!thread || unsaid.length === 0) return
    const metadata = Object.fromEntries(unsaid)
    await this.#deps.writer.write({ name: 'thread.patch', thread_id, metadata, user: null, now: thread.updated_at })
  }

  async #createStateless(order: StatelessOrder, atOnce: number, also?: AlsoWritten): Promise<Run> {
    const { limits } = this.#deps
    const { user_id, idempotency_key: key } = order.run
    // Before the thread is made: a refused request must not leave one behind.
    const earlier = await this.#earlier(order.run)
    if (earlier) return earlier
    const threadId = order.threadId ?? (key === null ? randomUUID() : threadIdFor(user_id ?? '', key))
    const { assistantId: assistant_id, metadata } = order
    const thread = newThread({ thread_id: threadId, user_id, assistant_id, metadata }, timestamp())
    const isTemporary = graceOf(order.run) !== null
    const removal = isTemporary ? { removal: this.#deps.removalOf(thread.thread) } : {}
    const made = await limits.createThread({ ...thread, isTemporary, ...removal })
    if (!made) throw fail('thread_not_found', { id: threadId })
    let run: Run | null = null
    try {
      run = await this.#create(await this.#named(threadId, order), order, atOnce, also)
      return run
    } finally {
      // Neither a refused request nor the later of two of one name leaves a thread behind.
      if (made.created && run?.thread_id !== threadId) await this.#removeEmpty(threadId).catch(() => {})
    }
  }

  /** The thread that bears the client's name: of two requests that name one at once, that of the first. */
  async #named(thread_id: string, { named, run: { user_id } }: StatelessOrder): Promise<string> {
    if (!named) return thread_id
    const alias = { ...named, user_id, thread_id, run_id: null }
    const first = await this.#deps.writer.write({ name: 'alias.put', alias, now: timestamp() })
    return first?.thread_id ?? thread_id
  }

  /** Unless another request has found it meanwhile. */
  async #removeEmpty(thread_id: string): Promise<void> {
    const { store, writer } = this.#deps
    const [run] = await store.runs.list(thread_id, { limit: 1, offset: 0 }, null)
    if (!run) await writer.write({ name: 'thread.remove', thread_id, user: null, ifIdle: true })
  }

  /**
   * Cancels a run.
   * @throws Failure when it has ended, unless a cancel has ended it; or is to be undone, and held.
   */
  async cancel(run: Run, how: CancelAction, untilEnded: boolean): Promise<void> {
    const { registry, store } = this.#deps
    const { run_id: id } = run
    if (how === 'rollback') await refuseHeld(store, 'thread', run.thread_id)
    await registry.admitted(id)
    const isDone = registry.ends.cancel(id, how)
    // Resent to its process until the run has ended.
    const isTold = !isDone && (await registry.ends.cancelElsewhere(id, how))
    if (isTold && !untilEnded && !(await withTimeout(registry.ends.settled(id), CANCEL_WAIT_MS))) return
    if ((!isDone || untilEnded) && !(await registry.ends.settled(id)))
      throw fail('store_unavailable', { reason: 'the end of the run is not stored yet' }, RETRY_AFTER)
    if (isDone) return
    const { status, error } = (await store.runs.get(id, null)) ?? run
    const isRolledBack = isTold && how === 'rollback' && error === ROLLED_BACK
    if (status !== 'interrupted' && !isRolledBack) throw fail('run_not_cancellable', { id, status })
  }

  /** Removes a run; one in flight is cancelled first. False: it was removed meanwhile. */
  async remove(run: Run): Promise<boolean> {
    const { registry, store } = this.#deps
    const { run_id, thread_id } = run
    await refuseHeld(store, 'thread', thread_id)
    await registry.admitted(run_id)
    const isTold =
      registry.ends.cancel(run_id, 'interrupt') || (await registry.ends.cancelElsewhere(run_id, 'interrupt'))
    if (isTold && !(await registry.ends.settled(run_id)))
      throw fail('store_unavailable', { reason: 'the end of the run is not stored yet' }, RETRY_AFTER)
    return this.#removeRow(run_id, thread_id)
  }

  async #removeRow(run_id: string, thread_id: string): Promise<boolean> {
    const { keptWebhooks, writeAll } = this.#deps
    const ops = [
      ...(await keptWebhooks(thread_id, run_id)),
      { name: 'run.remove', run_id, thread_id, user: null } as const
    ]
    // The result of the last op.
    return (await writeAll(ops)).at(-1) as boolean
  }

  /** LangGraph's clients expect a rolled back run to be gone. */
  async #removeRolledBack(thread_id: string, run_id: string): Promise<void> {
    if (await this.#deps.registry.ends.settled(run_id)) await this.#removeRow(run_id, thread_id)
  }

  /**
   * The run when it has ended. Null: the client should ask again, because the end could not be stored in time, or a shutdown
   * cut the run short; or `signal` has aborted. A run that had ended before is returned as it is.
   */
  async waitFor(run: Run, signal?: AbortSignal): Promise<Run | null> {
    if (!isInFlight(run)) return run
    const { registry, store } = this.#deps
    if (!(await registry.ends.settled(run.run_id, signal))) return null
    const ended = (await store.runs.get(run.run_id, null)) ?? run
    return ended.stop_reason === 'shutdown' ? null : ended
  }
}

/** A run that was there already, or is refused, uses nothing. */
async function ofAllowance(runId: string, created: Promise<Run>, putBack: () => void): Promise<Run> {
  let run: Run | null = null
  try {
    run = await created
    return run
  } finally {
    if (run?.run_id !== runId) putBack()
  }
}

function runIn(admission: Admission, threadId: string, atOnce: number): Run {
  switch (admission.outcome) {
    case 'created':
    case 'repeated':
      return admission.run
    case 'too_many':
      throw fail('quota_at_once', { max: atOnce }, RETRY_AFTER)
    case 'busy':
      throw fail('thread_busy', { id: threadId })
    case 'key_reused':
      throw fail('idempotency_conflict')
    case 'thread_missing':
      throw fail('thread_not_found', { id: threadId })
  }
}

/**
 * The id of the new thread of a run that names none. It follows from the idempotency key, so that a repeated request finds the
 * thread of the first one and leaves no empty thread of its own.
 */
export function threadIdFor(userId: string, key: string): string {
  return uuidOf(createHash('sha256').update(userId).update('\n').update(key).digest(), 8)
}
