// The registry of live runs in this process: admits, finds and stops them.
import type { Limits } from '../../base/budget.ts'
import { isVisible, withoutUser } from '../../base/scope.ts'
import type { Admission, NewRun, Op, Store } from '../../store/store.ts'
import { isDelayed, isInFlight, type Run } from '../../base/types.ts'
import { type ActorDeps, type ActorOptions, type Earlier, RunActor } from './actor.ts'
import type { Agent } from '../../agent/runtime.ts'
import type { Committer } from '../commit/committer.ts'
import { Compactor } from '../commit/compactor.ts'
import { PendingBudget } from '../commit/pending-budget.ts'
import { RemoteRuns } from '../cluster/remote-runs.ts'
import { PeerSubscriptions } from '../cluster/peer-subscriptions.ts'
import { Streams } from '../delivery/streams.ts'
import { Ticker } from '../delivery/ticker.ts'
import { RunEnds } from './run-ends.ts'
import { LeftBehind, RunQueues, RunQuota } from './run-queues.ts'
import { isFinal } from './run-phase.ts'
import type { LogBounds } from '../log/frame.ts'
import type { LogStore } from '../log/stored-frames.ts'
import { startsAt } from '../run-kwargs.ts'
import type { RunStates } from '../run-state.ts'
import { untilRead } from './retry.ts'
import { newsKey, RunReaders, ThreadWatchers } from './run-readers.ts'
import { withTimeout } from '../../base/waiting.ts'
import { warnUnexpected } from '../../base/errors.ts'

export interface RegistryOptions extends ActorOptions {
  readonly heartbeatMs: number
  /** How long a joiner's socket may stay full before it is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly streams: Limits
  /** Unstored bytes of all runs above which every agent pauses; 0: no limit. */
  readonly pendingTotalBytes?: number
  /** Minimum time frames of a busy run are coalesced, in ms. */
  readonly coalesceMs?: number
  /** Pending and running runs of one user; 0: no limit. */
  readonly activePerUser: number
}

interface RegistryDeps {
  readonly store: Store
  readonly committer: Committer
  readonly agent: Agent
  /** Those of the agent's threads. */
  readonly states: RunStates
  readonly options: RegistryOptions
  readonly log: ActorDeps['log']
  /** Absent: see ActorDeps. */
  readonly changes?: ActorDeps['changes']
}

/** What is written in one group with a run: only while `owner` is this process. */
export interface AlsoWritten {
  readonly ops: readonly Op[]
  readonly owner: string
}

/** What runs, and those who read them, need of the store. */
type RunStore = Pick<Store, 'runs' | 'events'> & LogStore & { readonly states: RunStates }

/** Maximum time over which streams are reset at shutdown, in ms. */
const RESET_MS_MAX = 5000
/** The part of the grace after which agents stop runs that would be cut at its end. Those that go on elsewhere are stopped at once. */
const DRAIN_AFTER = 0.75

export class Registry {
  readonly #deps: RegistryDeps
  readonly #actors = new Map<string, RunActor>()
  readonly #queues = new RunQueues()
  /** Runs whose admission is being written. Others may see the row a moment before we know it was written. */
  readonly #pendingAdmissions = new Map<string, Promise<Admission>>()
  readonly #leftBehind = new LeftBehind()
  readonly quota: RunQuota
  /** All open streams, of any run. */
  readonly streams: Streams
  /** With several processes: which peers follow our runs, and which of their runs are read here. */
  readonly subscriptions: PeerSubscriptions | null
  readonly remoteRuns: RemoteRuns | null
  readonly readers: RunReaders
  readonly ends: RunEnds
  /** Who waits for the next run of a thread. */
  readonly watchers: ThreadWatchers
  readonly #compactor: Compactor
  readonly #budget: PendingBudget
  readonly #store: RunStore
  readonly #ticker: Ticker
  #isStopping = false
  /** Called when runs of ours are not taken over yet; set by the cluster. */
  onLeftBehind: () => void = () => {}
  /** Recovers a run whose agent was cut; null: it ends [runs.on_restart]. Set once, before the first run. */
  recoverRun: ((run: Run) => Promise<unknown>) | null = null

  constructor(deps: RegistryDeps) {
    this.#deps = deps
    this.quota = new RunQuota(
      () => deps.options.activePerUser,
      () => this.runs()
    )
    const { runs, events, frames } = deps.store
    this.#store = { runs, events, frames, states: deps.states }
    const warn = (text: string) => (error: unknown) => deps.log.warn({ err: error }, text)
    this.#ticker = new Ticker(deps.options.coalesceMs)
    this.#budget = new PendingBudget(deps.options.pendingTotalBytes ?? 0, deps.committer)
    this.streams = new Streams({
      ...deps.options,
      limits: deps.options.streams,
      onTrouble: warn('the credentials of open streams could not be checked; the next heartbeat tries again')
    })
    this.#compactor = new Compactor(deps.committer, warn('the frames of an ended run could not be compressed'))
    const { peers } = deps.store
    this.watchers = new ThreadWatchers(peers)
    this.subscriptions = peers ? new PeerSubscriptions(peers) : null
    this.remoteRuns = peers
      ? new RemoteRuns({
          peers,
          store: this.#store,
          cancelHere: (runId, action) => this.ends.cancel(runId, action),
          onTrouble: warn('runs of other processes could not be polled')
        })
      : null
    this.ends = new RunEnds({
      store: deps.store,
      states: deps.states,
      actors: this.#actors,
      leftBehind: this.#leftBehind,
      remoteRuns: this.remoteRuns,
      admitted: (runId) => this.admitted(runId),
      onTrouble: (error, run_id) =>
        deps.log.warn({ err: error, run_id }, 'a run could not be cancelled and may continue')
    })
    this.readers = new RunReaders({
      store: this.#store,
      log: deps.log,
      streams: this.streams,
      remoteRuns: this.remoteRuns,
      watchers: this.watchers,
      find: (runId) => this.#actors.get(runId),
      admitted: (runId) => this.admitted(runId)
    })
  }

  /** Runs that have not ended. */
  get active(): number {
    return this.#actors.size
  }

  /** Those themselves. */
  *runs(): Iterable<Run> {
    for (const { run } of this.#actors.values()) yield run
  }

  /** Live runs by phase. */
  phases(): Readonly<Record<'pending' | 'running' | 'settling', number>> {
    const counts = { pending: 0, running: 0, settling: 0 }
    for (const { phase } of this.#actors.values()) {
      if (phase === 'open') counts.running++
      else if (phase === 'pending') counts.pending++
      else if (!isFinal(phase)) counts.settling++
    }
    return counts
  }

  /** Sizes of everything held. All zero once runs and readers are gone. */
  sizes(): Readonly<Record<string, number>> {
    return {
      runs: this.#actors.size,
      queues: this.#queues.size,
      admissions: this.#pendingAdmissions.size,
      leftBehind: this.#leftBehind.size,
      reserved: this.quota.size,
      streams: this.streams.size,
      places: this.streams.quota.held,
      readers: this.streams.quota.keys,
      due: this.#ticker.size,
      uncompacted: this.#compactor.size,
      pendingBytes: this.#budget.bytes,
      watched: this.watchers.size,
      subscriptions: this.subscriptions?.size ?? 0,
      remoteRuns: this.remoteRuns?.size ?? 0
    }
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  find(runId: string): RunActor | undefined {
    return this.#actors.get(runId)
  }

  /**
   * Admits a run and queues it in its thread. Strategies interrupt and rollback cancel what is in flight, after the new
   * run is stored: if storing fails, the old runs continue. `also`: written in the group that creates it. `max`: so many of
   * its user's may be in flight on every process; 0: any.
   */
  async create(run: NewRun, autoFollowUp: boolean, also?: AlsoWritten, max = 0): Promise<Admission> {
    const admitted = this.#admit(run, autoFollowUp, max, also)
    this.#pendingAdmissions.set(run.run_id, admitted)
    try {
      return await admitted
    } finally {
      this.#pendingAdmissions.delete(run.run_id)
    }
  }

  async #admit(run: NewRun, autoFollowUp: boolean, max: number, also?: AlsoWritten): Promise<Admission> {
    const isLater = startsAt(run) > Date.now()
    // Read before the write: what ends in the same commit leaves its queue.
    const ahead = this.#queues.of(run.thread_id)
    const ops = [{ name: 'run.create', run, autoFollowUp, isLater, max } as const, ...(also?.ops ?? [])]
    const [result] = await this.#deps.committer.writeAll(ops, 'limited', also?.owner)
    // The result of the first op.
    const admission = result as Admission
    if (admission.outcome !== 'created') return admission
    this.#runAdmitted(run)
    const { peers } = this.#deps.store
    if (peers && admission.owner !== peers.id) {
      // Another process owns the thread's earlier runs, so it takes this one too.
      if (admission.owner !== undefined) peers.tell(admission.owner, { kind: 'arrived', runs: [run.run_id] })
      return admission
    }
    // One that has ended in the same commit was in flight when this one was admitted.
    const hasEnded = (id: string) => ahead.some((actor) => actor.run.run_id === id && actor.phase === 'closed')
    const isForeign = (id: string) => this.#leftBehind.has(id) || (!this.knows(id) && !hasEnded(id))
    // Earlier runs were orphaned, or a peer has just admitted them: this one waits until they are taken over, in order.
    if (peers && admission.inFlight.some(isForeign)) {
      // Nothing is taken over during a shutdown.
      if (!this.#isStopping) this.#leftBehind.add(run.run_id)
      this.onLeftBehind()
      return admission
    }
    // The run outlives its request, and acts only for the user of its record.
    withoutUser(() => this.#enqueue(admission.run))
    const { multitask_strategy: strategy } = run
    if (strategy === 'interrupt' || strategy === 'rollback')
      this.ends.endEarlier(admission.inFlight, run.user_id, strategy)
    return admission
  }

  /**
   * Queues a run of a peer or of this process's predecessor. `past`: what is stored of its log; `earlier`: of its events and states,
   * if it had started and continues from there.
   */
  resume(run: Run, past: LogBounds, earlier?: Earlier): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past, earlier)
    this.#leftBehind.release(run.run_id)
    this.remoteRuns?.drop(run.run_id)
    const { multitask_strategy: strategy } = run
    if (strategy !== 'interrupt' && strategy !== 'rollback') return
    for (const actor of this.#queues.before(run)) {
      // A delayed run has its place behind all others: those admitted after it are not what it was to end.
      if (actor.run.key < run.key && isVisible(actor.run, run.user_id)) actor.cancel(strategy)
    }
  }

  /** Runs that were left behind have ended, or are queued elsewhere or nowhere: their readers find that in the store. */
  releaseReaders(runIds: readonly string[]): void {
    for (const runId of runIds) this.#leftBehind.release(runId)
  }

  /** Whether a run is live here, or being admitted. */
  knows(runId: string): boolean {
    return this.#actors.has(runId) || this.#pendingAdmissions.has(runId)
  }

  /** The lease was lost: all runs belong to other processes, and nothing more is done for them here. */
  abandon(): void {
    const actors = [...this.#actors.values()]
    this.#actors.clear()
    this.#queues.clear()
    this.#leftBehind.releaseAll()
    this.subscriptions?.clear()
    for (const actor of actors) actor.abandon()
  }

  /** A run was ended without an actor: its frames are compressed like all others. */
  archive(runKey: number): void {
    this.#compactor.add(runKey)
  }

  #enqueue(run: Run, past?: LogBounds, earlier?: Earlier): void {
    // A delayed run gets its place with the commit under way when it starts, or with the next one.
    let placing = isDelayed(run) ? 2 : 0
    const deps: ActorDeps = {
      ...this.#deps,
      store: this.#store,
      budget: this.#budget,
      ticker: this.#ticker,
      owner: this.#deps.store.peers?.id,
      onStored:
        this.subscriptions === null && placing === 0
          ? undefined
          : (isOver) => {
              this.subscriptions?.stored(run.run_id, isOver)
              if (placing === 0 || actor.phase === 'pending') return
              placing--
              this.#runAdmitted(run)
            },
      ...(this.recoverRun && { onLeft: (left: RunActor) => void this.#left(left).catch(warnUnexpected) }),
      isFollowed: (runId) => this.subscriptions?.has(runId) ?? false
    }
    const actor = new RunActor(run, deps, past, earlier)
    this.#actors.set(run.run_id, actor)
    this.readers.forgetLookups()
    this.watchers.notify(run.thread_id)
    this.watchers.notify(newsKey(run.user_id), run.thread_id)
    actor.closed.then(() => this.#closed(actor)).catch(warnUnexpected)
    this.#queues.add(actor)
  }

  /** A run was left: it goes on here, before those behind it, unless the process stops. */
  async #left(actor: RunActor): Promise<void> {
    if (this.#isStopping) return
    const { run_id } = actor.run
    this.#leftBehind.add(run_id)
    this.#actors.delete(run_id)
    actor.abandon()
    try {
      const run = await untilRead(
        () => this.#store.runs.get(run_id, null),
        () => this.#isStopping
      )
      if (run && isInFlight(run) && !this.#isStopping) await this.recoverRun?.(run)
    } finally {
      this.#queues.remove(actor)
      this.#leftBehind.release(run_id)
    }
  }

  /** Wakes those who wait for the next run of the thread. */
  #runAdmitted({ thread_id, user_id }: Pick<Run, 'thread_id' | 'user_id'>): void {
    this.readers.forgetLookups()
    this.watchers.admitted(thread_id)
    this.threadChanged(user_id, thread_id)
  }

  /** A thread of the user was changed: whoever watches all of them is told. */
  threadChanged(userId: string | null, threadId: string): void {
    this.watchers.admitted(newsKey(userId), threadId)
  }

  #closed(actor: RunActor): void {
    const { run_id, key } = actor.run
    this.threadChanged(actor.run.user_id, actor.run.thread_id)
    // It was abandoned; another process may have handed it back meanwhile.
    if (this.#actors.get(run_id) !== actor) return
    this.#actors.delete(run_id)
    // First, because the next run of the thread waits only for this.
    this.#queues.remove(actor)
    this.#compactor.add(key, actor.log.wholeBytes)
    try {
      actor.release()
    } catch (error) {
      this.#deps.log.error({ err: error, run_id }, 'an ended run could not be released from memory')
    }
  }

  /** Resolves when a run being admitted can be found, or was refused. */
  async admitted(runId: string): Promise<void> {
    await this.#pendingAdmissions.get(runId)?.catch(() => {})
    await this.#leftBehind.queued(runId)
  }

  /** Admits no new runs and starts no queued ones. */
  drain(): void {
    this.#isStopping = true
    this.#queues.halt()
    this.#leftBehind.releaseAll()
    for (const actor of this.#actors.values()) if (actor.phase === 'pending') actor.forgetCreator()
  }

  /**
   * Shuts down: runs may finish for `graceMs`, then the rest end as interrupted with what they have, or are left for the next process
   * where they can go on; streams are reset one after the other. Queued runs stay pending for the next process. `graceOver` is called before the first reset: the moment to stop accepting
   * connections, so that nobody reconnects to us. Returns how many runs and streams were cut.
   */
  async stop(graceMs: number, graceOver: () => void = () => {}): Promise<{ runs: number; streams: number }> {
    this.drain()
    const running = [...this.#actors.values()].filter((actor) => actor.phase !== 'pending')
    const allAtRest = Promise.all(running.map((actor) => actor.atRest))
    const draining = setTimeout(() => this.#deps.agent.drain?.(), this.recoverRun ? 0 : graceMs * DRAIN_AFTER)
    if (running.length) await withTimeout(allAtRest, graceMs)
    clearTimeout(draining)
    graceOver()
    // Their readers should reconnect to another process, not see an end that looks like the agent's.
    const streams = await this.streams.resetAll(RESET_MS_MAX)
    this.remoteRuns?.stop()
    const cut = running.filter((actor) => (this.recoverRun ? actor.leave() : actor.cancel('interrupt', 'shutdown')))
    for (const actor of this.#actors.values()) actor.forgetCreator()
    await withTimeout(allAtRest, this.#deps.options.settleTimeoutMs)
    for (const actor of running) if (actor.phase === 'leaving') actor.abandon()
    this.streams.stop()
    this.#compactor.stop()
    this.#ticker.stop()
    this.watchers.stop()
    return { runs: cut.length, streams }
  }
}
