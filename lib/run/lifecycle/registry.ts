// The live runs of this process: admits them, finds them, brings their readers to them, stops them all.
import { isVisible, withoutUser } from '../../scope.ts'
import type { Admission, NewRun, Store } from '../../store/store.ts'
import { type Run, isInFlight } from '../../types.ts'
import { type ActorDeps, type ActorOptions, RunActor } from './actor.ts'
import type { Agent } from '../../agent/runtime.ts'
import type { Committer } from '../commit/committer.ts'
import { Compactor } from '../commit/compactor.ts'
import { PendingBudget } from '../commit/pending-budget.ts'
import { RemoteRuns } from '../cluster/remote-runs.ts'
import type { CancelAction } from '../run-end.ts'
import { filterOf } from '../log/filter.ts'
import { PeerSubscriptions } from '../cluster/peer-subscriptions.ts'
import { Joiner, type JoinerStanding, type JoinRequest } from '../delivery/joiner.ts'
import { type CloseReason, type Place, type StreamLimits, Streams } from '../delivery/streams.ts'
import { Ticker } from '../delivery/ticker.ts'
import { isFinal } from './run-phase.ts'
import { RunQueues } from './run-queues.ts'
import type { Journal } from '../log/journal.ts'
import { RunLog } from '../log/run-log.ts'
import { finalSnapshot, type Snapshot } from '../log/snapshot.ts'
import type { LogBounds, Position } from '../log/sse.ts'
import { StateCache } from '../log/state-cache.ts'
import { type OpenedRun, ThreadJoiner, type ThreadRequest } from '../delivery/thread-joiner.ts'
import { isCreator, modesOf } from '../run-kwargs.ts'
import { ThreadWatchers } from './thread-watchers.ts'
import { withTimeout } from './with-timeout.ts'

export interface RegistryOptions extends ActorOptions {
  readonly heartbeatMs: number
  /** How long a joiner's socket may stay full before it is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly streams: StreamLimits
  /** What of all runs may wait for the store, in bytes, before every agent pauses; 0: no limit. */
  readonly pendingTotalBytes?: number
  /** For how long frames of a busy run wait for others, at least, in ms. */
  readonly coalesceMs?: number
  /** Pending and running runs of one user; 0: no limit. */
  readonly activePerUser: number
}

export interface RegistryDeps {
  readonly store: Store
  readonly committer: Committer
  readonly agent: Agent
  readonly options: RegistryOptions
  readonly log: ActorDeps['log']
}

/** Streams are reset over this time at most when the process ends, in ms. */
const RESET_MS_MAX = 5000

export class Registry {
  readonly #deps: RegistryDeps
  readonly #actors = new Map<string, RunActor>()
  readonly #queues = new RunQueues((threadId) => this.#watchers.tell(threadId))
  /** Runs whose admission is being written. Others see the row a moment before we are told that it is there. */
  readonly #pendingAdmissions = new Map<string, Promise<Admission>>()
  /** Places of runs that are being started [design 5]. */
  readonly #reserved = new Set<{ readonly userId: string | null; readonly key: string | null }>()
  /** All that is open, of whichever run. */
  readonly streams: Streams
  /** Where there is more than one process: who follows our runs elsewhere, and which of theirs are wanted here. */
  readonly subscriptions: PeerSubscriptions | null
  readonly remoteRuns: RemoteRuns | null
  readonly #compactor: Compactor
  readonly #budget: PendingBudget
  readonly #states: StateCache
  readonly #ticker: Ticker
  readonly #watchers: ThreadWatchers
  /** Questions for the next run of a thread that were asked in this turn. */
  readonly #asking = new Map<string, Promise<Run | null>>()
  #isStopping = false
  /** There are runs of ours that are not taken over yet: the cluster's. */
  onLeftBehind: () => void = () => {}
  /** Readers of frames, of runs that have ended as well. */
  #joiners = 0

  constructor(deps: RegistryDeps) {
    this.#deps = deps
    this.#states = new StateCache(deps.store)
    this.#ticker = new Ticker(deps.options.coalesceMs)
    this.#budget = new PendingBudget(deps.options.pendingTotalBytes ?? 0, deps.committer)
    this.streams = new Streams({
      ...deps.options,
      limits: deps.options.streams,
      onTrouble: (error) => deps.log.warn({ err: error }, 'it could not be asked whether a stream may stay open')
    })
    this.#compactor = new Compactor(deps.committer, (error) =>
      deps.log.warn({ err: error }, 'the frames of a run stay as they are')
    )
    const { peers } = deps.store
    this.#watchers = new ThreadWatchers(peers !== undefined)
    this.subscriptions = peers ? new PeerSubscriptions(peers) : null
    this.remoteRuns = peers
      ? new RemoteRuns({
          ...deps.options,
          peers,
          store: deps.store,
          cancelHere: (runId, action, reason) => this.#actors.get(runId)?.cancel(action, reason),
          onTrouble: (error) => deps.log.warn({ err: error }, 'it could not be asked how runs of other processes stand')
        })
      : null
  }

  /** Runs that have not ended. */
  get active(): number {
    return this.#actors.size
  }

  /** Readers of frames. */
  get joiners(): number {
    return this.#joiners
  }

  /** Runs that have not ended: how many wait, work, and have their end written. */
  phases(): Readonly<Record<'pending' | 'running' | 'settling', number>> {
    const counts = { pending: 0, running: 0, settling: 0 }
    for (const { phase } of this.#actors.values()) {
      if (phase === 'open') counts.running++
      else if (phase === 'pending') counts.pending++
      else if (!isFinal(phase)) counts.settling++
    }
    return counts
  }

  /** How much of everything is held. When runs and readers have gone all of it is nothing again. */
  sizes(): Readonly<Record<string, number>> {
    return {
      runs: this.#actors.size,
      queues: this.#queues.size,
      admissions: this.#pendingAdmissions.size,
      reserved: this.#reserved.size,
      streams: this.streams.size,
      places: this.streams.quota.total,
      readers: this.streams.quota.users,
      due: this.#ticker.size,
      uncompacted: this.#compactor.size,
      pendingBytes: this.#budget.bytes,
      watched: this.#watchers.size,
      subscriptions: this.subscriptions?.size ?? 0,
      remoteRuns: this.remoteRuns?.size ?? 0
    }
  }

  /**
   * Takes one of the places of a user's runs, until the answer is called: by then the run is counted, or was refused. Null: there
   * is none left. A run that repeats the key of one that is counted already makes no new one, and needs none.
   */
  reserveRun(userId: string | null, key: string | null = null): (() => void) | null {
    const { activePerUser } = this.#deps.options
    if (activePerUser === 0) return () => {}
    const live = [...this.#actors.values()].map(({ run }) => ({ userId: run.user_id, key: run.idempotency_key }))
    const own = [...live, ...this.#reserved].filter((one) => one.userId === userId)
    if (key !== null && own.some((one) => one.key === key)) return () => {}
    if (own.length >= activePerUser) return null
    const reservation = { userId, key }
    this.#reserved.add(reservation)
    return () => void this.#reserved.delete(reservation)
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  find(runId: string): RunActor | undefined {
    return this.#actors.get(runId)
  }

  /**
   * Admits a run and puts it in its thread's queue. Strategies interrupt and rollback cancel what is in flight, after the new run
   * is stored: if storing it fails, the old ones go on.
   */
  async create(run: NewRun, autoFollowUp: boolean): Promise<Admission> {
    const admitted = this.#admit(run, autoFollowUp)
    this.#pendingAdmissions.set(run.run_id, admitted)
    try {
      return await admitted
    } finally {
      this.#pendingAdmissions.delete(run.run_id)
    }
  }

  async #admit(run: NewRun, autoFollowUp: boolean): Promise<Admission> {
    const admission = await this.#deps.committer.write({ name: 'run.create', run, autoFollowUp }, 'limited')
    if (admission.outcome !== 'created') return admission
    const { peers } = this.#deps.store
    if (peers && admission.owner !== peers.id) {
      // Its thread is another process's, which has the runs before it: it takes this one as we would have.
      if (admission.owner !== undefined) peers.tell(admission.owner, { kind: 'arrived', runs: [run.run_id] })
      return admission
    }
    // Runs before it were left behind by another process: it waits until they are taken over, in their order.
    if (peers && admission.inFlight.some((id) => !this.knows(id))) {
      this.onLeftBehind()
      return admission
    }
    // The run outlives its request, and acts for the user of its record alone.
    withoutUser(() => this.#enqueue(admission.run))
    const { multitask_strategy: strategy } = run
    if (strategy === 'interrupt' || strategy === 'rollback') {
      for (const runId of admission.inFlight) this.#endBefore(runId, run.user_id, strategy)
    }
    return admission
  }

  /**
   * In a shared thread somebody else's run is not touched: the new one waits behind it. One that another process has admitted may
   * not have arrived yet.
   */
  #endBefore(runId: string, userId: string | null, strategy: CancelAction): void {
    const actor = this.#actors.get(runId)
    if (actor && isVisible(actor.run, userId)) actor.cancel(strategy)
    if (actor || !this.remoteRuns) return
    this.#endRemote(this.remoteRuns, runId, userId, strategy).catch((error: unknown) =>
      this.#deps.log.warn({ err: error, run_id: runId }, 'a run may go on that was to end')
    )
  }

  async #endRemote(
    remoteRuns: RemoteRuns,
    runId: string,
    userId: string | null,
    strategy: CancelAction
  ): Promise<void> {
    if (await this.#deps.store.runs.get(runId, userId)) await remoteRuns.cancel(runId, strategy, null)
  }

  /** Takes a run that was admitted by another process, this one's or an earlier one's; `past` is what is stored of its log. */
  resume(run: Run, past: LogBounds): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past)
    this.remoteRuns?.drop(run.run_id)
    const { multitask_strategy: strategy } = run
    if (strategy !== 'interrupt' && strategy !== 'rollback') return
    for (const actor of this.#queues.before(run)) if (isVisible(actor.run, run.user_id)) actor.cancel(strategy)
  }

  /** Takes up a run whose process is gone in its middle: its agent goes on from the state that it has stored itself. */
  goOn(run: Run, past: LogBounds, journal: Journal): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past, journal)
    this.remoteRuns?.drop(run.run_id)
  }

  /** Whether a run is live here, or just being admitted. */
  knows(runId: string): boolean {
    return this.#actors.has(runId) || this.#pendingAdmissions.has(runId)
  }

  /** The lease of this process was lost: all its runs are other processes', and nothing of them is done here any more. */
  abandon(): void {
    const actors = [...this.#actors.values()]
    this.#actors.clear()
    this.#queues.clear()
    this.subscriptions?.clear()
    for (const actor of actors) actor.abandon()
  }

  /** The run with this key was ended without an actor: its frames are made small like those of all others. */
  archive(runKey: number): void {
    this.#compactor.add(runKey)
  }

  #enqueue(run: Run, past?: LogBounds, journal?: Journal): void {
    const { store, committer, agent, options, log } = this.#deps
    const deps: ActorDeps = {
      store,
      states: this.#states,
      committer,
      budget: this.#budget,
      ticker: this.#ticker,
      agent,
      options,
      log,
      owner: store.peers?.id,
      keepsStates: agent.states !== undefined,
      onStored: (runId, isOver) => this.subscriptions?.stored(runId, isOver),
      isFollowed: (runId) => this.subscriptions?.has(runId) ?? false
    }
    const actor = new RunActor(run, deps, past, journal)
    this.#actors.set(run.run_id, actor)
    // Whoever has asked in this very turn was answered without it.
    this.#asking.clear()
    this.#watchers.tell(run.thread_id)
    void actor.closed.then(() => this.#closed(actor))
    this.#queues.add(actor)
  }

  #closed(actor: RunActor): void {
    const { run_id, key } = actor.run
    // It was abandoned: another process may have given it back to us meanwhile.
    if (this.#actors.get(run_id) !== actor) return
    this.#actors.delete(run_id)
    // First: the next run of the thread waits for nothing else.
    this.#queues.remove(actor)
    this.#compactor.add(key, actor.bytes)
    try {
      actor.release()
    } catch (error) {
      this.#deps.log.error({ err: error, run_id }, 'what a run has left could not be let go')
    }
  }

  /**
   * Attaches a reader to a run: live here, live in another process, or finished. `place`: held for it already.
   * @throws Failure `too_many_streams`
   */
  join(run: Run, request: JoinRequest, place?: Place): Promise<void> {
    if (place) return this.#join(run, request, place)
    return this.streams.hold(request.reader.userId, (held) => this.#join(run, request, held))
  }

  async #join({ run_id }: Run, request: JoinRequest, place: Place): Promise<void> {
    await this.admitted(run_id)
    const actor = this.#actors.get(run_id)
    const start = actor && request.isSnapshot ? await actor.snapshotFor(request.position) : request.position
    // It comes back, to the next process.
    if (this.streams.isClosing) return request.wire.reset()
    // Looked for after the await: it may have ended meanwhile.
    if (!actor || this.#actors.get(run_id) !== actor) return this.#joinStored(run_id, request, place)
    const isTheirs = request.isCreator || isCreator(actor.run, request.reader)
    if (isTheirs) actor.creatorCame()
    this.#attach(actor.log, request, start, place, (why) => {
      if (isTheirs && why === 'left') actor.creatorLeft()
    })
  }

  async #joinStored(runId: string, request: JoinRequest, place: Place): Promise<void> {
    const { store } = this.#deps
    const { wire, position, isSnapshot = false } = request
    // The row that the caller read may be older than the run's end.
    const run = await store.runs.get(runId, null)
    if (run && !isInFlight(run)) {
      const log = await RunLog.ended(run, store)
      const snapshot = isSnapshot && log.place(position) === 0 ? await finalSnapshot(log) : null
      return this.#attach(log, request, snapshot ?? position, place)
    }
    const opened = run && (await this.remoteRuns?.open(run, position, isSnapshot))
    // Its end is not known here: an `end` now would be made up.
    if (!opened) return wire.reset()
    const isTheirs = request.isCreator || isCreator(run, request.reader)
    if (isTheirs) this.remoteRuns?.creatorCame(runId)
    this.#attach(opened.log, request, opened.start, place, (why) =>
      this.remoteRuns?.left(runId, isTheirs && why === 'left')
    )
  }

  /** Who watches a run in this process. */
  joinersOf(runId: string): JoinerStanding[] {
    const joiners = [...this.streams.open].filter((one) => one instanceof Joiner && one.runId === runId) as Joiner[]
    return joiners.map(({ standing }) => standing)
  }

  #attach(
    log: RunLog,
    request: JoinRequest,
    start: Position | Snapshot,
    place: Place,
    onLeave?: (why: CloseReason) => void
  ): void {
    const filter = filterOf(request.modes ?? modesOf(log.run))
    const joiner = new Joiner(request, log, filter, start, {
      onLeave: (gone, why) => {
        this.#joiners--
        this.streams.remove(gone)
        onLeave?.(why)
      },
      onTrouble: (error) =>
        this.#deps.log.error({ err: error, run_id: log.run.run_id }, 'a reader of a run was reset: it could not go on')
    })
    this.#joiners++
    this.streams.add(joiner, place)
    joiner.pump()
  }

  /**
   * Attaches a reader to a thread: to all its runs behind the one with ordinal `request.after`, those to come included. `place`: held
   * for it already.
   */
  joinThread(threadId: string, request: ThreadRequest, place: Place): ThreadJoiner {
    const { store, log } = this.#deps
    const { userId } = request.reader
    const runs = {
      after: (ordinal: number) => this.#runAfter(threadId, ordinal, userId),
      open: (run: Run) => this.#openFor(run, store),
      watch: (listener: () => void) => this.#watchers.watch(threadId, listener)
    }
    const joiner = new ThreadJoiner(request, runs, {
      onLeave: (gone) => {
        this.#joiners--
        this.streams.remove(gone)
      },
      onTrouble: (error) =>
        log.error({ err: error, thread_id: threadId }, 'a reader of a thread was reset: it could not go on')
    })
    this.#joiners++
    this.streams.add(joiner, place)
    return joiner
  }

  /** Asked once for all readers that wait at the same place. */
  #runAfter(threadId: string, ordinal: number, userId: string | null): Promise<Run | null> {
    const key = JSON.stringify([threadId, ordinal, userId])
    const asking = this.#asking.get(key) ?? this.#deps.store.runs.after(threadId, ordinal, userId)
    this.#asking.set(key, asking)
    // As long as this turn: what comes later is to be seen by who asks later.
    setImmediate(() => this.#asking.delete(key))
    return asking
  }

  /** The log of a run for one more reader: live here, live in another process, or finished. */
  async #openFor({ run_id }: Run, store: Store): Promise<OpenedRun | null> {
    await this.admitted(run_id)
    const live = this.#actors.get(run_id)?.log
    if (live) return { log: live, left: () => {} }
    // The row that was found may be older than the run's end.
    const run = await store.runs.get(run_id, null)
    if (!run) return null
    if (!isInFlight(run)) return { log: await RunLog.ended(run, store), left: () => {} }
    const opened = await this.remoteRuns?.open(run, null, false)
    if (!opened) throw new Error(`run ${run_id} is in flight, and nowhere to be found`)
    return { log: opened.log, left: () => this.remoteRuns?.left(run_id, false) }
  }

  /** The log of a run, live or finished, for who looks something up in it. */
  async logOf(run: Run): Promise<RunLog> {
    const { store } = this.#deps
    const live = this.#actors.get(run.run_id)?.log
    if (live) return live
    const log = isInFlight(run) ? await RunLog.replica(run, store) : await RunLog.ended(run, store)
    return this.#actors.get(run.run_id)?.log ?? log
  }

  /** A run that is just being admitted can be found, or is refused, when this resolves. */
  async admitted(runId: string): Promise<void> {
    await this.#pendingAdmissions.get(runId)?.catch(() => {})
  }

  /** Cancels a run of this process. False: it has ended, or is just being written, or is another process's. */
  cancel(runId: string, action: CancelAction, reason: string | null = null): boolean {
    return this.#actors.get(runId)?.cancel(action, reason) ?? false
  }

  /** Tells the process of a run that is none of ours to cancel it, until it has ended. False: there is no such run in flight. */
  async cancelElsewhere(runId: string, action: CancelAction): Promise<boolean> {
    if (!this.remoteRuns || this.#actors.has(runId)) return false
    return this.remoteRuns.cancel(runId, action, null)
  }

  /** Resolves when the run's end is stored; at once when it is not live. */
  async ended(runId: string): Promise<void> {
    await this.admitted(runId)
    await this.#actors.get(runId)?.closed
  }

  /** The same, but not for ever: with false when the store does not take the end in time. */
  async settled(runId: string): Promise<boolean> {
    for (;;) {
      const actor = this.#actors.get(runId)
      if (actor || !this.remoteRuns) return (await actor?.settled()) ?? true
      const run = await this.#deps.store.runs.get(runId, null)
      if (!run || !isInFlight(run) || (await this.remoteRuns.ended(run))) return true
      // It has come here meanwhile, its process being gone.
      if (!this.#actors.has(runId)) return false
    }
  }

  /** Its creator waits for the end of the run, again. */
  creatorCame(runId: string): void {
    this.#actors.get(runId)?.creatorCame()
    this.remoteRuns?.creatorCame(runId)
  }

  /** A creating request that waited for the end of its run is gone. */
  creatorLeft(runId: string): void {
    const actor = this.#actors.get(runId)
    if (actor) actor.creatorLeft()
    else this.remoteRuns?.creatorLeft(runId)
  }

  /**
   * Cancels every run of a thread and waits, `timeoutMs` at most, until their last records are written and their agents have let
   * go: one that still works might leave a file.
   */
  async cancelThread(threadId: string, timeoutMs: number): Promise<void> {
    await Promise.all([this.cancelThreadHere(threadId, timeoutMs), this.#cancelThreadElsewhere(threadId, timeoutMs)])
  }

  async #cancelThreadElsewhere(threadId: string, timeoutMs: number): Promise<void> {
    if (!this.remoteRuns) return
    const runs = await this.#deps.store.runs.inFlight(threadId)
    const others = runs.map(({ run_id }) => run_id).filter((id) => !this.#actors.has(id))
    if (others.length) await this.remoteRuns.clear(threadId, others, timeoutMs)
  }

  /** The same for the runs of this process. Answers whether there were any. */
  async cancelThreadHere(threadId: string, timeoutMs: number): Promise<boolean> {
    const actors = [...this.#actors.values()].filter((actor) => actor.run.thread_id === threadId)
    for (const actor of actors) actor.cancel('interrupt', 'thread_deleted')
    if (actors.length) await withTimeout(Promise.all(actors.map((actor) => actor.finished)), timeoutMs)
    this.#states.forget(threadId)
    return actors.length > 0
  }

  /** Takes no new runs and starts none of those that wait. */
  drain(): void {
    this.#isStopping = true
    this.#queues.halt()
    for (const actor of this.#actors.values()) if (actor.phase === 'pending') actor.forgetCreator()
  }

  /**
   * Ends the life of this registry: runs may finish for `graceMs`, what still runs then ends as interrupted with what it has,
   * streams are reset one after the other. Pending runs stay pending: they start with the next process.
   * `graceOver` is called before the first reset: the moment to take no new connections, so that nobody comes back to us.
   * Answers what was cut: runs that were ended before they had, and streams that were reset.
   */
  async stop(graceMs: number, graceOver: () => void = () => {}): Promise<{ runs: number; streams: number }> {
    this.drain()
    const running = [...this.#actors.values()].filter((actor) => actor.phase !== 'pending')
    const allClosed = Promise.all(running.map((actor) => actor.closed))
    if (running.length) await withTimeout(allClosed, graceMs)
    graceOver()
    // Their readers are to come back to another process and not to be told an end that looks like one of the agent's.
    const streams = await this.streams.resetAll(RESET_MS_MAX)
    this.remoteRuns?.stop()
    const cut = running.filter((actor) => actor.cancel('interrupt', 'shutdown'))
    for (const actor of this.#actors.values()) actor.forgetCreator()
    await withTimeout(allClosed, this.#deps.options.settleTimeoutMs)
    this.streams.stop()
    this.#compactor.stop()
    this.#ticker.stop()
    this.#watchers.stop()
    return { runs: cut.length, streams }
  }
}
