// The live runs of this process: admits them, finds them, brings their readers to them, stops them all.
import { withoutUser } from '../../scope.ts'
import type { Admission, NewRun, Store } from '../../store/store.ts'
import { type Run, isInFlight } from '../../types.ts'
import { type ActorDeps, type ActorOptions, RunActor } from './actor.ts'
import type { Agent } from '../../agent/runtime.ts'
import { Census, type CensusLimits } from '../delivery/census.ts'
import type { Committer } from '../commit/committer.ts'
import { Compactor } from '../commit/compactor.ts'
import { Elsewhere } from '../cluster/elsewhere.ts'
import type { CancelAction } from './ending.ts'
import { type Filter, filterOf } from '../log/filter.ts'
import { Followers } from '../cluster/followers.ts'
import { Joiner, type LogView, type Reader } from '../delivery/joiner.ts'
import type { Joining } from '../delivery/joining.ts'
import { Lanes } from './lanes.ts'
import { type Extent, nextAfter } from '../delivery/sse.ts'
import { Patrol } from '../delivery/patrol.ts'
import { States } from '../log/states.ts'
import { Ticker } from '../delivery/ticker.ts'
import { FinishedView, finalSnapshot, headOf, lastEpochOf } from '../log/view.ts'
import { modesOf } from './wanted.ts'
import { within } from './within.ts'

export interface RegistryOptions extends ActorOptions {
  readonly heartbeatMs: number
  /** How long a joiner's socket may stay full before it is reset, in ms; 0: for ever. */
  readonly stallMs: number
  readonly streams: CensusLimits
  /** For how long frames of a busy run are gathered, at least, in ms. */
  readonly gatherMs?: number
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

/** Who waits for the end of a run on an open answer that is no stream of frames. */
interface Waiter {
  readonly reader: Reader
  reset(): void
}

/** Why no new run is taken at the moment. */
export type Refusal = 'stopping' | 'store_stuck'

export class Registry {
  readonly #deps: RegistryDeps
  readonly #actors = new Map<string, RunActor>()
  readonly #lanes = new Lanes()
  /** Runs whose admission is being written. Others see the row a moment before we are told that it is there. */
  readonly #arriving = new Map<string, Promise<Admission>>()
  /** Places of runs that are being started [design 5]. */
  readonly #reserved = new Set<{ readonly userId: string | null; readonly key: string | null }>()
  /** Readers of runs that have ended: no live actor leads to them, but they need heartbeats, revocation and the stall check as well. */
  readonly #replays = new Set<Joiner>()
  readonly #waiters = new Set<Waiter>()
  /** Where there is more than one process: who follows our runs elsewhere, and which of theirs are wanted here. */
  readonly followers: Followers | null
  readonly elsewhere: Elsewhere | null
  readonly #patrol: Patrol
  readonly #census: Census
  readonly #compactor: Compactor
  readonly #states: States
  readonly #ticker: Ticker
  readonly #heartbeat: NodeJS.Timeout
  #isStopping = false
  /** The grace of a stop is over: streams are being reset. */
  #isClosing = false

  constructor(deps: RegistryDeps) {
    this.#deps = deps
    this.#states = new States(deps.store)
    this.#ticker = new Ticker(deps.options.gatherMs)
    this.#census = new Census(deps.options.streams)
    this.#compactor = new Compactor(deps.committer, (error) =>
      deps.log.warn({ err: error }, 'the frames of a run stay as they are')
    )
    this.#patrol = new Patrol({
      readers: () => this.#readers(),
      reset: (isMeant) => this.resetStreams(isMeant),
      onTrouble: (error) => deps.log.warn({ err: error }, 'it could not be asked whether a stream may stay open')
    })
    const { peers } = deps.store
    this.followers = peers ? new Followers(peers) : null
    this.elsewhere = peers
      ? new Elsewhere({
          ...deps.options,
          peers,
          store: deps.store,
          onJoinerLeft: (joiner) => this.#left(joiner),
          cancelHere: (runId, action, reason) => this.#actors.get(runId)?.cancel(action, reason),
          onTrouble: (error) => deps.log.warn({ err: error }, 'it could not be asked how runs of other processes stand')
        })
      : null
    this.#heartbeat = setInterval(() => this.#beat(), deps.options.heartbeatMs)
    this.#heartbeat.unref()
  }

  /** Runs that have not ended. */
  get active(): number {
    return this.#actors.size
  }

  get streams(): number {
    return this.#census.total
  }

  /** Readers of frames, of runs that have ended as well. */
  get joiners(): number {
    return this.#joiners().length
  }

  /** Runs that have not ended: how many wait, work, and have their end written. */
  phases(): Readonly<Record<'pending' | 'running' | 'settling', number>> {
    const counts = { pending: 0, running: 0, settling: 0 }
    for (const { phase } of this.#actors.values()) {
      if (phase === 'open') counts.running++
      else if (phase !== 'closed') counts[phase]++
    }
    return counts
  }

  /** How much of everything is held. When runs and readers have gone all of it is nothing again. */
  sizes(): Readonly<Record<string, number>> {
    return {
      runs: this.#actors.size,
      lanes: this.#lanes.size,
      arriving: this.#arriving.size,
      reserved: this.#reserved.size,
      replays: this.#replays.size,
      streams: this.#census.total,
      readers: this.#census.users,
      due: this.#ticker.size,
      uncompacted: this.#compactor.size,
      followed: this.followers?.size ?? 0,
      elsewhere: this.elsewhere?.size ?? 0
    }
  }

  /** Whether one more stream of this user is welcome. */
  hasSpaceForStream(userId: string): boolean {
    return this.#census.hasSpace(userId)
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

  /** null: new runs are welcome. */
  get refusal(): Refusal | null {
    if (this.#isStopping) return 'stopping'
    return this.#deps.committer.stuck === null ? null : 'store_stuck'
  }

  find(runId: string): RunActor | undefined {
    return this.#actors.get(runId)
  }

  /**
   * Admits a run and puts it in its thread's lane. Strategies interrupt and rollback cancel what is in flight, after the new run
   * is stored: if storing it fails, the old ones go on.
   */
  async create(run: NewRun, autoFollowUp: boolean): Promise<Admission> {
    const admitted = this.#admit(run, autoFollowUp)
    this.#arriving.set(run.run_id, admitted)
    try {
      return await admitted
    } finally {
      this.#arriving.delete(run.run_id)
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
    // The run outlives its request, and acts for the user of its record alone.
    withoutUser(() => this.#enqueue(admission.run))
    const { multitask_strategy: strategy } = run
    if (strategy === 'interrupt' || strategy === 'rollback') {
      for (const runId of admission.inFlight) this.#endBefore(runId, strategy)
    }
    return admission
  }

  /** One that another process has admitted may not have arrived yet. */
  #endBefore(runId: string, strategy: CancelAction): void {
    if (this.cancel(runId, strategy) || !this.elsewhere || this.#actors.has(runId)) return
    this.elsewhere
      .cancel(runId, strategy, null)
      .catch((error: unknown) => this.#deps.log.warn({ err: error, run_id: runId }, 'a run may go on that was to end'))
  }

  /** Takes a run that was admitted by another process, this one's or an earlier one's; `past` is what is stored of its log. */
  resume(run: Run, past: Extent): void {
    if (this.knows(run.run_id)) return
    this.#enqueue(run, past)
    this.elsewhere?.drop(run.run_id)
    const { multitask_strategy: strategy } = run
    if (strategy !== 'interrupt' && strategy !== 'rollback') return
    for (const actor of this.#lanes.before(run)) actor.cancel(strategy)
  }

  /** Whether a run is live here, or just being admitted. */
  knows(runId: string): boolean {
    return this.#actors.has(runId) || this.#arriving.has(runId)
  }

  /** The lease of this process was lost: all its runs are other processes', and nothing of them is done here any more. */
  abandon(): void {
    const actors = [...this.#actors.values()]
    this.#actors.clear()
    this.#lanes.clear()
    this.followers?.clear()
    for (const actor of actors) actor.abandon()
  }

  /** The run with this key was ended without an actor: its frames are made small like those of all others. */
  archive(runKey: number): void {
    this.#compactor.add(runKey)
  }

  #enqueue(run: Run, past?: Extent): void {
    const { store, committer, agent, options, log } = this.#deps
    const deps: ActorDeps = {
      store,
      states: this.#states,
      committer,
      ticker: this.#ticker,
      agent,
      options,
      log,
      owner: store.peers?.id,
      onJoinerLeft: (joiner) => this.#left(joiner),
      onStored: (runId, isOver) => this.followers?.stored(runId, isOver),
      isFollowed: (runId) => this.followers?.has(runId) ?? false
    }
    const actor = new RunActor(run, deps, past)
    this.#actors.set(run.run_id, actor)
    void actor.closed.then(() => this.#closed(actor))
    this.#lanes.add(actor)
  }

  #closed(actor: RunActor): void {
    const { run_id, key } = actor.run
    // It was abandoned: another process may have given it back to us meanwhile.
    if (this.#actors.get(run_id) !== actor) return
    this.#actors.delete(run_id)
    for (const joiner of actor.joiners) this.#replays.add(joiner)
    const { bytes } = actor
    actor.release()
    this.#compactor.add(key, bytes)
    this.#lanes.remove(actor)
  }

  /** Attaches a reader to a run: live here, live in another process, or finished. */
  async join(run: Run, joining: Joining): Promise<void> {
    const { wire, reader } = joining
    const before = joining.isSnapshot ? await this.#actors.get(run.run_id)?.valuesBefore() : undefined
    const filter = filterOf(joining.modes ?? modesOf(run))
    await this.arrived(run.run_id)
    // It comes back, to the next process.
    if (this.#isClosing) return wire.reset()
    this.#census.opened(reader.userId)
    // Looked for after the await: the run may have ended meanwhile.
    const actor = this.#actors.get(run.run_id)
    if (actor) actor.join(joining, filter, before)
    else {
      try {
        await this.#replay(run.run_id, joining, filter)
      } catch (error) {
        this.#census.left(reader.userId)
        throw error
      }
    }
    // It may have been revoked since its request was let in: asked again now that a revocation would find the stream.
    this.#patrol.soon(reader)
  }

  /**
   * Keeps an open answer that is no stream of frames with the streams of its credential: it is reset when they are. Answers how
   * to take it out, when it has closed.
   */
  attend(reader: Reader, reset: () => void): () => void {
    const waiter: Waiter = { reader, reset }
    this.#waiters.add(waiter)
    this.#patrol.soon(reader)
    return () => void this.#waiters.delete(waiter)
  }

  /** The log of a run, live or finished, for who looks something up in it. */
  async viewOf(run: Run): Promise<LogView> {
    const { store } = this.#deps
    const bounds = isInFlight(run) && !this.#actors.has(run.run_id) ? await store.frames.bounds(run.key) : null
    return this.#actors.get(run.run_id)?.log ?? new FinishedView(store, run, bounds ? bounds.last + 1 : headOf(run))
  }

  async #replay(runId: string, joining: Joining, filter: Filter): Promise<void> {
    const { wire, reader } = joining
    const { store } = this.#deps
    // The row that the caller read may be older than the run's end.
    const run = await store.runs.get(runId, null)
    const bounds = run && (await store.frames.bounds(run.key))
    if (!run) {
      this.#census.left(reader.userId)
      wire.reset()
      return
    }
    if (isInFlight(run)) {
      if (await this.elsewhere?.join(run, joining, filter)) return
      // Its end is not known here: an `end` now would be made up.
      this.#census.left(reader.userId)
      wire.reset()
      return
    }
    const head = Math.max(headOf(run), bounds ? bounds.last + 1 : 0)
    const next = nextAfter(joining.position, { epochs: bounds?.epochs ?? lastEpochOf(run), head })
    const snapshot = joining.isSnapshot && next === 0 ? await finalSnapshot(store, run) : null
    const view = new FinishedView(store, run, head)
    const joiner = new Joiner(wire, view, filter, snapshot ?? next, reader, (gone) => this.#left(gone))
    this.#replays.add(joiner)
    joiner.pump()
  }

  #left(joiner: Joiner): void {
    this.#replays.delete(joiner)
    this.#census.left(joiner.reader.userId)
  }

  /** A run that is just being admitted can be found, or is refused, when this resolves. */
  async arrived(runId: string): Promise<void> {
    await this.#arriving.get(runId)?.catch(() => {})
  }

  /** Cancels a run of this process. False: it has ended, or is just being written, or is another process's. */
  cancel(runId: string, action: CancelAction, reason: string | null = null): boolean {
    return this.#actors.get(runId)?.cancel(action, reason) ?? false
  }

  /** Tells the process of a run that is none of ours to cancel it, until it has ended. False: there is no such run in flight. */
  async cancelElsewhere(runId: string, action: CancelAction): Promise<boolean> {
    if (!this.elsewhere || this.#actors.has(runId)) return false
    return this.elsewhere.cancel(runId, action, null)
  }

  /** Resolves when the run's end is stored; at once when it is not live. */
  async ended(runId: string): Promise<void> {
    await this.arrived(runId)
    await this.#actors.get(runId)?.closed
  }

  /** The same, but not for ever: with false when the store does not take the end in time. */
  async settled(runId: string): Promise<boolean> {
    for (;;) {
      const actor = this.#actors.get(runId)
      if (actor || !this.elsewhere) return (await actor?.settled()) ?? true
      const run = await this.#deps.store.runs.get(runId, null)
      if (!run || !isInFlight(run) || (await this.elsewhere.ended(run))) return true
      // It has come here meanwhile, its process being gone.
      if (!this.#actors.has(runId)) return false
    }
  }

  /** A creating request that waited for the end of its run is gone. */
  creatorLeft(runId: string): void {
    const actor = this.#actors.get(runId)
    if (actor) actor.creatorLeft()
    else this.elsewhere?.creatorLeft(runId)
  }

  /**
   * Cancels every run of a thread and waits, `timeoutMs` at most, until their last records are written and their agents have let
   * go: one that still works might leave a file.
   */
  async cancelThread(threadId: string, timeoutMs: number): Promise<void> {
    await Promise.all([this.cancelThreadHere(threadId, timeoutMs), this.#cancelThreadElsewhere(threadId, timeoutMs)])
  }

  async #cancelThreadElsewhere(threadId: string, timeoutMs: number): Promise<void> {
    if (!this.elsewhere) return
    const runs = await this.#deps.store.runs.inFlight(threadId)
    const others = runs.map(({ run_id }) => run_id).filter((id) => !this.#actors.has(id))
    if (others.length) await this.elsewhere.clear(threadId, others, timeoutMs)
  }

  /** The same for the runs of this process. Answers whether there were any. */
  async cancelThreadHere(threadId: string, timeoutMs: number): Promise<boolean> {
    const actors = [...this.#actors.values()].filter((actor) => actor.run.thread_id === threadId)
    for (const actor of actors) actor.cancel('interrupt', 'thread_deleted')
    if (actors.length) await within(Promise.all(actors.map((actor) => actor.gone)), timeoutMs)
    this.#states.forget(threadId)
    return actors.length > 0
  }

  /** Resets the streams that are meant. */
  resetStreams(isMeant: (reader: Reader) => boolean): void {
    for (const joiner of this.#joiners()) if (isMeant(joiner.reader)) joiner.reset()
    for (const waiter of [...this.#waiters]) if (isMeant(waiter.reader)) waiter.reset()
  }

  /** Something was revoked: of the streams that are meant, those end whose credential does not stand any more. */
  lookAgain(isMeant: (reader: Reader) => boolean): Promise<void> {
    return this.#patrol.look(isMeant)
  }

  /** Every reader of frames, as they are now: who is reset leaves the sets that are looked through here. */
  #joiners(): Joiner[] {
    const live = [...this.#actors.values()].flatMap((actor) => [...actor.joiners])
    return [...new Set([...live, ...this.#replays, ...(this.elsewhere?.joiners() ?? [])])]
  }

  *#readers(): Generator<Reader> {
    for (const joiner of this.#joiners()) yield joiner.reader
    for (const waiter of this.#waiters) yield waiter.reader
  }

  #beat(): void {
    const { stallMs } = this.#deps.options
    for (const joiner of this.#joiners()) joiner.beat(stallMs)
    void this.#patrol.walk()
  }

  /** Takes no new runs and starts none of those that wait. */
  refuseNew(): void {
    this.#isStopping = true
    this.#lanes.halt()
    for (const actor of this.#actors.values()) if (actor.phase === 'pending') actor.forgetCreator()
  }

  /**
   * Ends the life of this registry: runs may finish for `graceMs`, what still runs then ends as interrupted with what it has,
   * streams are reset within `jitterMs`. Pending runs stay pending: they start with the next process.
   * `graceOver` is called before the first reset: the moment to take no new connections, so that nobody comes back to us.
   */
  async stop(graceMs: number, jitterMs: number, graceOver: () => void = () => {}): Promise<void> {
    this.refuseNew()
    const running = [...this.#actors.values()].filter((actor) => actor.phase !== 'pending')
    const allClosed = Promise.all(running.map((actor) => actor.closed))
    if (running.length) await within(allClosed, graceMs)
    this.#isClosing = true
    graceOver()
    // Their readers are to come back to another process and not to be told an end that looks like one of the agent's.
    await this.#resetAll(jitterMs)
    this.elsewhere?.stop()
    for (const actor of running) actor.cancel('interrupt', 'shutdown')
    for (const actor of this.#actors.values()) actor.forgetCreator()
    await within(allClosed, this.#deps.options.settleTimeoutMs)
    clearInterval(this.#heartbeat)
    this.#patrol.stop()
    this.#compactor.stop()
    this.#ticker.stop()
  }

  /** Not all in one moment: they all come back. Who was told the end is left to read it, as long as the server lets its socket be. */
  async #resetAll(jitterMs: number): Promise<void> {
    const open = this.#joiners().filter(({ isEnding }) => !isEnding)
    const steps = Math.min(open.length, 20)
    for (let step = 1; step <= steps; step++) {
      const due = open.splice(0, Math.ceil(open.length / (steps - step + 1)))
      for (const joiner of due) if (!joiner.isEnding) joiner.reset()
      if (step < steps) await new Promise((resolve) => setTimeout(resolve, jitterMs / steps))
    }
  }
}
