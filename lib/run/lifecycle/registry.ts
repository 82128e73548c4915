// The registry of live runs in this process: admits, finds and stops them, and attaches readers.
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
import { isCreator, isUnplaced, modesOf, startsAt } from '../run-kwargs.ts'
import { ThreadWatchers } from './thread-watchers.ts'
import { withTimeout } from './with-timeout.ts'

export interface RegistryOptions extends ActorOptions {
  readonly heartbeatMs: number
  /** How long a joiner's socket may stay full before it is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly streams: StreamLimits
  /** Unstored bytes of all runs above which every agent pauses; 0: no limit. */
  readonly pendingTotalBytes?: number
  /** Minimum time frames of a busy run are coalesced, in ms. */
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

/** Maximum time over which streams are reset at shutdown, in ms. */
const RESET_MS_MAX = 5000

export class Registry {
  readonly #deps: RegistryDeps
  readonly #actors = new Map<string, RunActor>()
  readonly #queues = new RunQueues()
  /** Runs whose admission is being written. Others may see the row a moment before we know it was written. */
  readonly #pendingAdmissions = new Map<string, Promise<Admission>>()
  /** Quota places of runs being started [design 5]. */
  readonly #reserved = new Set<{ readonly userId: string | null; readonly key: string | null }>()
  /** All open streams, of any run. */
  readonly streams: Streams
  /** With several processes: who follows our runs, and which of theirs are wanted here. */
  readonly subscriptions: PeerSubscriptions | null
  readonly remoteRuns: RemoteRuns | null
  /** Who waits for the next run of a thread. */
  readonly watchers: ThreadWatchers
  readonly #compactor: Compactor
  readonly #budget: PendingBudget
  readonly #states: StateCache
  readonly #ticker: Ticker
  /** Lookups of a thread's next run made in this tick. */
  readonly #asking = new Map<string, Promise<Run | null>>()
  #isStopping = false
  /** Called when runs of ours are not taken over yet; set by the cluster. */
  onLeftBehind: () => void = () => {}
  /** Readers of frames, including those of ended runs. */
  #joiners = 0

  constructor(deps: RegistryDeps) {
    this.#deps = deps
    this.#states = new StateCache(deps.store)
    this.#ticker = new Ticker(deps.options.coalesceMs)
    this.#budget = new PendingBudget(deps.options.pendingTotalBytes ?? 0, deps.committer)
    this.streams = new Streams({
      ...deps.options,
      limits: deps.options.streams,
      onTrouble: (error) =>
        deps.log.warn(
          { err: error },
          'the credentials of open streams could not be checked; the next heartbeat tries again'
        )
    })
    this.#compactor = new Compactor(deps.committer, (error) =>
      deps.log.warn({ err: error }, 'the frames of an ended run could not be compressed')
    )
    const { peers } = deps.store
    this.watchers = new ThreadWatchers(peers)
    this.subscriptions = peers ? new PeerSubscriptions(peers) : null
    this.remoteRuns = peers
      ? new RemoteRuns({
          ...deps.options,
          peers,
          store: deps.store,
          cancelHere: (runId, action, reason) => this.#actors.get(runId)?.cancel(action, reason),
          onTrouble: (error) => deps.log.warn({ err: error }, 'runs of other processes could not be polled')
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
      reserved: this.#reserved.size,
      streams: this.streams.size,
      places: this.streams.quota.total,
      readers: this.streams.quota.users,
      due: this.#ticker.size,
      uncompacted: this.#compactor.size,
      pendingBytes: this.#budget.bytes,
      watched: this.watchers.size,
      subscriptions: this.subscriptions?.size ?? 0,
      remoteRuns: this.remoteRuns?.size ?? 0
    }
  }

  /**
   * Reserves a place in a user's quota of runs until the returned function is called: by then the run counts, or was
   * refused. Null: no place left. A repeated idempotency key makes no new run and needs no place.
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
   * Admits a run and queues it in its thread. Strategies interrupt and rollback cancel what is in flight, after the new
   * run is stored: if storing fails, the old runs continue.
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
    const isLater = startsAt(run) > Date.now()
    const admission = await this.#deps.committer.write({ name: 'run.create', run, autoFollowUp, isLater }, 'limited')
    if (admission.outcome !== 'created') return admission
    this.#tellOfRun(run.thread_id)
    const { peers } = this.#deps.store
    if (peers && admission.owner !== peers.id) {
      // Another process owns the thread's earlier runs, so it takes this one too.
      if (admission.owner !== undefined) peers.tell(admission.owner, { kind: 'arrived', runs: [run.run_id] })
      return admission
    }
    // Earlier runs of the thread were orphaned: this one waits until they are taken over, in order.
    if (peers && admission.inFlight.some((id) => !this.knows(id))) {
      this.onLeftBehind()
      return admission
    }
    // The run outlives its request, and acts only for the user of its record.
    withoutUser(() => this.#enqueue(admission.run))
    const { multitask_strategy: strategy } = run
    if (strategy === 'interrupt' || strategy === 'rollback') {
      for (const runId of admission.inFlight) this.#endBefore(runId, run.user_id, strategy)
    }
    return admission
  }

  /**
   * In a shared thread, another user's run is not touched: the new one waits behind it. A run admitted by another
   * process may not have arrived yet.
   */
  #endBefore(runId: string, userId: string | null, strategy: CancelAction): void {
    const actor = this.#actors.get(runId)
    if (actor && isVisible(actor.run, userId)) actor.cancel(strategy)
    if (actor || !this.remoteRuns) return
    this.#endRemote(this.remoteRuns, runId, userId, strategy).catch((error: unknown) =>
      this.#deps.log.warn({ err: error, run_id: runId }, 'a run could not be cancelled and may continue')
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

  /** Queues a run admitted by another process, this one's peer or predecessor; `past`: what is stored of its log. */
  resume(run: Run, past: LogBounds): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past)
    this.remoteRuns?.drop(run.run_id)
    const { multitask_strategy: strategy } = run
    if (strategy !== 'interrupt' && strategy !== 'rollback') return
    for (const actor of this.#queues.before(run)) if (isVisible(actor.run, run.user_id)) actor.cancel(strategy)
  }

  /** Continues a run whose process is gone: its agent starts from the state it has stored. */
  goOn(run: Run, past: LogBounds, journal: Journal): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past, journal)
    this.remoteRuns?.drop(run.run_id)
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
    this.subscriptions?.clear()
    for (const actor of actors) actor.abandon()
  }

  /** A run was ended without an actor: its frames are compressed like all others. */
  archive(runKey: number): void {
    this.#compactor.add(runKey)
  }

  #enqueue(run: Run, past?: LogBounds, journal?: Journal): void {
    const { store, committer, agent, options, log } = this.#deps
    // A delayed run gets its place with the commit under way when it starts, or with the next one.
    let placing = isUnplaced(run) ? 2 : 0
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
      onStored: (runId, isOver) => {
        this.subscriptions?.stored(runId, isOver)
        if (placing === 0 || actor.phase === 'pending') return
        placing--
        this.#tellOfRun(run.thread_id)
      },
      isFollowed: (runId) => this.subscriptions?.has(runId) ?? false
    }
    const actor = new RunActor(run, deps, past, journal)
    this.#actors.set(run.run_id, actor)
    // Lookups of this tick were answered without this run.
    this.#asking.clear()
    this.watchers.tell(run.thread_id)
    void actor.closed.then(() => this.#closed(actor))
    this.#queues.add(actor)
  }

  /** Wakes those who wait for the next run of the thread. */
  #tellOfRun(threadId: string): void {
    // Whoever asked in this turn was answered without it.
    this.#asking.clear()
    this.watchers.admitted(threadId)
  }

  #closed(actor: RunActor): void {
    const { run_id, key } = actor.run
    // It was abandoned; another process may have handed it back meanwhile.
    if (this.#actors.get(run_id) !== actor) return
    this.#actors.delete(run_id)
    // First, because the next run of the thread waits only for this.
    this.#queues.remove(actor)
    this.#compactor.add(key, actor.bytes)
    try {
      actor.release()
    } catch (error) {
      this.#deps.log.error({ err: error, run_id }, 'an ended run could not be released from memory')
    }
  }

  /**
   * Attaches a reader to a run, wherever the run is: here, on another process, or finished. `place`: its reserved place.
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
    // Its client reconnects to the next process.
    if (this.streams.isClosing) return request.wire.reset()
    // Looked up after the await: it may have ended meanwhile.
    if (!actor || this.#actors.get(run_id) !== actor) return this.#joinStored(run_id, request, place)
    const isTheirs = request.isCreator || request.endsRun || isCreator(actor.run, request.reader)
    if (isTheirs) actor.creatorCame()
    this.#attach(actor.log, request, start, place, (why) => {
      if (isTheirs && why === 'left') actor.creatorLeft(request.endsRun)
    })
  }

  async #joinStored(runId: string, request: JoinRequest, place: Place): Promise<void> {
    const { store } = this.#deps
    const { wire, position, isSnapshot = false } = request
    // The caller's row may be older than the run's end.
    const run = await store.runs.get(runId, null)
    if (run && !isInFlight(run)) {
      const log = await RunLog.ended(run, store)
      const snapshot = isSnapshot && log.place(position) === 0 ? await finalSnapshot(log) : null
      return this.#attach(log, request, snapshot ?? position, place)
    }
    const opened = run && (await this.remoteRuns?.open(run, position, isSnapshot))
    // Its end is not known here: sending `end` would be a guess.
    if (!opened) return wire.reset()
    const { endsRun = false } = request
    const isTheirs = request.isCreator || endsRun || isCreator(run, request.reader)
    if (isTheirs) this.remoteRuns?.creatorCame(runId, endsRun)
    this.#attach(opened.log, request, opened.start, place, (why) =>
      this.remoteRuns?.left(runId, isTheirs && why === 'left', endsRun)
    )
  }

  /** Readers of a run in this process. */
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
        this.#deps.log.error({ err: error, run_id: log.run.run_id }, 'a reader of a run failed and was reset')
    })
    this.#joiners++
    this.streams.add(joiner, place)
    joiner.pump()
  }

  /** Attaches a reader to a thread: to all its runs after ordinal `request.after`, including future ones. `place`: its reserved place. */
  joinThread(threadId: string, request: ThreadRequest, place: Place): ThreadJoiner {
    const { store, log } = this.#deps
    const { userId } = request.reader
    const runs = {
      after: (ordinal: number) => this.#runAfter(threadId, ordinal, userId),
      open: (run: Run) => this.#openFor(run, store),
      watch: (listener: () => void) => this.watchers.watch(threadId, listener)
    }
    const joiner = new ThreadJoiner(request, runs, {
      onLeave: (gone) => {
        this.#joiners--
        this.streams.remove(gone)
      },
      onTrouble: (error) => log.error({ err: error, thread_id: threadId }, 'a reader of a thread failed and was reset')
    })
    this.#joiners++
    this.streams.add(joiner, place)
    return joiner
  }

  /** One query for all readers that wait at the same position. */
  #runAfter(threadId: string, ordinal: number, userId: string | null): Promise<Run | null> {
    const key = JSON.stringify([threadId, ordinal, userId])
    const asking = this.#asking.get(key) ?? this.#deps.store.runs.after(threadId, ordinal, userId)
    this.#asking.set(key, asking)
    // Valid for this tick: later readers must see later runs.
    setImmediate(() => this.#asking.delete(key))
    return asking
  }

  /** The log of a run for another reader, wherever the run is: here, on another process, or finished. */
  async #openFor({ run_id }: Run, store: Store): Promise<OpenedRun | null> {
    await this.admitted(run_id)
    const live = this.#actors.get(run_id)?.log
    if (live) return { log: live, left: () => {} }
    // The row found may be older than the run's end.
    const run = await store.runs.get(run_id, null)
    if (!run) return null
    if (!isInFlight(run)) return { log: await RunLog.ended(run, store), left: () => {} }
    const opened = await this.remoteRuns?.open(run, null, false)
    if (!opened) throw new Error(`run ${run_id} is in flight, and nowhere to be found`)
    return { log: opened.log, left: () => this.remoteRuns?.left(run_id, false) }
  }

  /** The log of a run, live or finished, for lookups. */
  async logOf(run: Run): Promise<RunLog> {
    const { store } = this.#deps
    const live = this.#actors.get(run.run_id)?.log
    if (live) return live
    const log = isInFlight(run) ? await RunLog.replica(run, store) : await RunLog.ended(run, store)
    return this.#actors.get(run.run_id)?.log ?? log
  }

  /** Resolves when a run being admitted can be found, or was refused. */
  async admitted(runId: string): Promise<void> {
    await this.#pendingAdmissions.get(runId)?.catch(() => {})
  }

  /** Cancels a run of this process. False: it has ended, its end is being written, or another process owns it. */
  cancel(runId: string, action: CancelAction, reason: string | null = null): boolean {
    return this.#actors.get(runId)?.cancel(action, reason) ?? false
  }

  /** Asks the owning process to cancel a run, until it has ended. False: no such run in flight. */
  async cancelElsewhere(runId: string, action: CancelAction): Promise<boolean> {
    if (!this.remoteRuns || this.#actors.has(runId)) return false
    return this.remoteRuns.cancel(runId, action, null)
  }

  /** Resolves when the run's end is stored; immediately if it is not live. */
  async ended(runId: string): Promise<void> {
    await this.admitted(runId)
    await this.#actors.get(runId)?.closed
  }

  /** The same with a timeout: resolves with false if the store does not take the end in time. */
  async settled(runId: string): Promise<boolean> {
    for (;;) {
      const actor = this.#actors.get(runId)
      if (actor || !this.remoteRuns) return (await actor?.settled()) ?? true
      const run = await this.#deps.store.runs.get(runId, null)
      if (!run || !isInFlight(run) || (await this.remoteRuns.ended(run))) return true
      // It was taken over by this process meanwhile.
      if (!this.#actors.has(runId)) return false
    }
  }

  /** The creator waits for the end of the run again. */
  creatorCame(runId: string): void {
    this.#actors.get(runId)?.creatorCame()
    this.remoteRuns?.creatorCame(runId)
  }

  /** A creating request that waited for the end has gone. */
  creatorLeft(runId: string, isAsked = false): void {
    const actor = this.#actors.get(runId)
    if (actor) actor.creatorLeft(isAsked)
    else this.remoteRuns?.creatorLeft(runId, isAsked)
  }

  /**
   * Cancels every run of a thread and waits, `timeoutMs` at most, until their last records are written and their agents
   * have stopped: one still working might leave a file.
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

  /** The same for this process's runs. Returns whether there were any. */
  async cancelThreadHere(threadId: string, timeoutMs: number): Promise<boolean> {
    const actors = [...this.#actors.values()].filter((actor) => actor.run.thread_id === threadId)
    for (const actor of actors) actor.cancel('interrupt', 'thread_deleted')
    if (actors.length) await withTimeout(Promise.all(actors.map((actor) => actor.finished)), timeoutMs)
    this.#states.forget(threadId)
    return actors.length > 0
  }

  /** Admits no new runs and starts no queued ones. */
  drain(): void {
    this.#isStopping = true
    this.#queues.halt()
    for (const actor of this.#actors.values()) if (actor.phase === 'pending') actor.forgetCreator()
  }

  /**
   * Shuts down: runs may finish for `graceMs`, then the rest end as interrupted with what they have, and streams are reset one after the
   * other. Queued runs stay pending for the next process. `graceOver` is called before the first reset: the moment to stop accepting
   * connections, so that nobody reconnects to us. Returns how many runs and streams were cut.
   */
  async stop(graceMs: number, graceOver: () => void = () => {}): Promise<{ runs: number; streams: number }> {
    this.drain()
    const running = [...this.#actors.values()].filter((actor) => actor.phase !== 'pending')
    const allClosed = Promise.all(running.map((actor) => actor.closed))
    if (running.length) await withTimeout(allClosed, graceMs)
    graceOver()
    // Their readers should reconnect to another process, not be told an end that looks like the agent's.
    const streams = await this.streams.resetAll(RESET_MS_MAX)
    this.remoteRuns?.stop()
    const cut = running.filter((actor) => actor.cancel('interrupt', 'shutdown'))
    for (const actor of this.#actors.values()) actor.forgetCreator()
    await withTimeout(allClosed, this.#deps.options.settleTimeoutMs)
    this.streams.stop()
    this.#compactor.stop()
    this.#ticker.stop()
    this.watchers.stop()
    return { runs: cut.length, streams }
  }
}
