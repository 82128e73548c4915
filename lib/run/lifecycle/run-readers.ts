// The readers of runs and threads on this process: attaches each to its log, wherever the run is.
import type { Peers, Store } from '../../store/store.ts'
import { isInFlight, type Run } from '../../base/types.ts'
import type { RemoteRuns } from '../cluster/remote-runs.ts'
import { Joiner, type JoinerStanding, type JoinRequest } from '../delivery/joiner.ts'
import type { CloseReason, OpenStream, Place, ReaderHooks, Streams } from '../delivery/streams.ts'
import { type StreamRequest, ThreadJoiner, type ThreadRequest, ThreadsJoiner } from '../delivery/thread-joiner.ts'
import type { OpenedRun, ThreadRuns } from '../delivery/thread-reader.ts'
import { RunLog } from '../log/run-log.ts'
import { finalSnapshot, type Snapshot } from '../log/snapshot.ts'
import type { Position } from '../log/frame.ts'
import type { LogStore } from '../log/stored-frames.ts'
import { filterFor } from '../run-kwargs.ts'
import type { RunActor } from './actor.ts'
import { Poller } from '../../base/poller.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { PeerInterests } from '../cluster/peer-subscriptions.ts'

// ----------------------------------------------------------------------------------------------------

/** The logs of ended runs, as long as somebody reads them: who comes meanwhile shares what was read of the store, and translated, for others. */
class EndedLogs {
  readonly #store: LogStore
  /** By run. Weak: nothing is kept for a run that nobody reads any more. */
  readonly #logs = new Map<string, WeakRef<RunLog>>()
  readonly #collected = new FinalizationRegistry<string>((runId) => {
    if (!this.#logs.get(runId)?.deref()) this.#logs.delete(runId)
  })

  constructor(store: LogStore) {
    this.#store = store
  }

  /** @param run its row as it is now */
  async of(run: Run): Promise<RunLog> {
    const known = this.#known(run)
    if (known) return known
    const log = await RunLog.ended(run, this.#store)
    // Somebody else may have been first.
    const others = this.#known(run)
    if (others) return others
    this.#logs.set(run.run_id, new WeakRef(log))
    this.#collected.register(log, run.run_id)
    return log
  }

  #known({ run_id, updated_at, last_cursor }: Run): RunLog | undefined {
    const log = this.#logs.get(run_id)?.deref()
    return log?.run.updated_at === updated_at && log.run.last_cursor === last_cursor ? log : undefined
  }
}

// ----------------------------------------------------------------------------------------------------
// Readers that wait for the next run of a thread. Runs admitted here wake them at once. Other processes are told which threads are
// watched here, and announce the runs they admit there. Messages may get lost, so both are repeated after a while.

/** How often watched threads are announced again and checked for runs of other processes, in ms. */
const REPEAT_MS = 5000
/** A process that has not repeated its announcement for this long is forgotten, in ms. */
const FORGOTTEN_AFTER_MS = 4 * REPEAT_MS
/** Threads in one message. */
const THREADS_MAX = 50

/** Under which name changes of a user's threads are watched. */
export function newsKey(userId: string | null): string {
  return `user:${userId ?? ''}`
}

/** @param of the thread that has changed, where several are watched by one name */
type Listener = (of?: string) => void

export class ThreadWatchers {
  readonly #byThread = new Map<string, Set<Listener>>()
  /** Other processes that watch a thread. */
  readonly #peersByThread = new PeerInterests(FORGOTTEN_AFTER_MS)
  readonly #peers: Pick<Peers, 'tell'> | undefined
  readonly #poller = new Poller({ everyMs: REPEAT_MS, work: async () => this.#again(), onError: warnUnexpected })

  /** @param peers other processes that admit runs as well */
  constructor(peers?: Pick<Peers, 'tell'>) {
    this.#peers = peers
  }

  /** Watched threads, here and on other processes. */
  get size(): number {
    return this.#byThread.size + this.#peersByThread.size
  }

  watch(threadId: string, listener: Listener): () => void {
    const known = this.#byThread.get(threadId)
    const listeners = known ?? new Set()
    listeners.add(listener)
    this.#byThread.set(threadId, listeners)
    if (!known) this.#announce([threadId])
    if (this.#peers && this.#byThread.size === 1) this.#poller.start()
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#byThread.delete(threadId)
      if (this.#byThread.size === 0) this.stop()
    }
  }

  #announce(threads: readonly string[]): void {
    for (let at = 0; at < threads.length; at += THREADS_MAX)
      this.#peers?.tell(null, { kind: 'watch', threads: threads.slice(at, at + THREADS_MAX) })
  }

  /** Another process watches these threads. It may have missed runs admitted before it said so. */
  watched(peer: string, threads: readonly string[]): void {
    for (const threadId of threads)
      if (this.#peersByThread.add(threadId, peer)) this.#peers?.tell(peer, { kind: 'admitted', thread: threadId })
  }

  /** A run of the thread was admitted here; or one of the threads of a user, `of`, has changed. */
  admitted(threadId: string, of?: string): void {
    this.notify(threadId, of)
    for (const peer of this.#peersByThread.of(threadId))
      this.#peers?.tell(peer, { kind: 'admitted', thread: threadId, ...(of !== undefined && { of }) })
  }

  /** Somebody watches it, here or on another process. */
  isWatched(threadId: string): boolean {
    return this.#byThread.has(threadId) || this.#peersByThread.of(threadId).length > 0
  }

  /** There may be another run in the thread. */
  notify(threadId: string, of?: string): void {
    for (const listener of this.#byThread.get(threadId) ?? []) listener(of)
  }

  /** Recent messages may have been lost. */
  notifyAll(): void {
    for (const threadId of [...this.#byThread.keys()]) this.notify(threadId)
  }

  /** Forgets processes that no longer watch, or are gone. */
  forgetLate(): void {
    this.#peersByThread.forgetLate()
  }

  #again(): void {
    this.#announce([...this.#byThread.keys()])
    this.notifyAll()
  }

  stop(): void {
    this.#poller.stop().catch(warnUnexpected)
  }
}

interface RunReadersDeps {
  readonly store: Pick<Store, 'runs'> & LogStore
  readonly streams: Streams
  /** Runs of other processes; null: there is only this one. */
  readonly remoteRuns: RemoteRuns | null
  readonly watchers: ThreadWatchers
  /** A run that is live here. */
  readonly find: (runId: string) => RunActor | undefined
  /** Resolves when a run being admitted can be found, or was refused. */
  readonly admitted: (runId: string) => Promise<void>
  readonly log: { error(fields: object, text: string): void }
}

export class RunReaders {
  readonly #deps: RunReadersDeps
  readonly #ended: EndedLogs
  #size = 0
  /** Lookups of a thread's next run made in this tick. */
  readonly #asking = new Map<string, Promise<Run | null>>()
  readonly #joinerHooks: ReaderHooks<Joiner> = {
    onLeave: (joiner) => this.#left(joiner),
    onTrouble: (error, { runId }) =>
      this.#deps.log.error({ err: error, run_id: runId }, 'a reader of a run failed and was reset')
  }

  readonly #threadHooks: ReaderHooks = {
    onLeave: (joiner) => this.#left(joiner),
    onTrouble: (error) => this.#deps.log.error({ err: error }, 'a reader of threads failed and was reset')
  }

  constructor(deps: RunReadersDeps) {
    this.#deps = deps
    this.#ended = new EndedLogs(deps.store)
  }

  /** Readers of frames, including those of ended runs. */
  get size(): number {
    return this.#size
  }

  /** A run was admitted: lookups of this tick were answered without it. */
  forgetLookups(): void {
    this.#asking.clear()
  }

  /**
   * Attaches a reader to a run, wherever the run is: here, on another process, or finished. `place`: its reserved place.
   * @throws Failure `too_many_streams`
   */
  join(run: Run, request: JoinRequest, place?: Place): Promise<void> {
    if (place) return this.#join(run, request, place)
    const { payer, userId } = request.reader
    return this.#deps.streams.hold(payer ?? userId, (held) => this.#join(run, request, held))
  }

  async #join({ run_id }: Run, request: JoinRequest, place: Place): Promise<void> {
    const { admitted, find, streams } = this.#deps
    await admitted(run_id)
    const actor = find(run_id)
    const start = actor && request.isSnapshot ? await actor.snapshotFor(request.position) : request.position
    // Its client reconnects to the next process.
    if (streams.isClosing) return request.wire.reset()
    // Looked up after the await: it may have ended meanwhile.
    if (!actor || find(run_id) !== actor) return this.#joinStored(run_id, request, place)
    this.#attach(actor.log, request, start, place, creatorWatch(actor, request))
  }

  async #joinStored(runId: string, request: JoinRequest, place: Place): Promise<void> {
    const { store, remoteRuns } = this.#deps
    const { wire, position, isSnapshot = false } = request
    // The caller's row may be older than the run's end.
    const run = await store.runs.get(runId, null)
    if (run && !isInFlight(run)) {
      const log = await this.#ended.of(run)
      const snapshot = isSnapshot && log.place(position) === 0 ? await finalSnapshot(log) : null
      return this.#attach(log, request, snapshot ?? position, place)
    }
    const opened = run && (await remoteRuns?.open(run, position, isSnapshot))
    // Its end is not known here: sending `end` would be a guess.
    if (!opened) return wire.reset()
    const { endsRun = false } = request
    const isTheirs = request.isCreator || endsRun
    if (isTheirs) remoteRuns?.creatorCame(runId, endsRun)
    this.#attach(opened.log, request, opened.start, place, (why) =>
      remoteRuns?.left(runId, isTheirs && why === 'left', endsRun)
    )
  }

  /** Readers of a run in this process. */
  joinersOf(runId: string): JoinerStanding[] {
    return [...this.#deps.streams.open].flatMap((one) => {
      if (one instanceof Joiner) return one.runId === runId ? one.standing : []
      return (one instanceof ThreadsJoiner && one.standingIn(runId)) || []
    })
  }

  #attach(
    log: RunLog,
    request: JoinRequest,
    start: Position | Snapshot,
    place: Place,
    onLeft: ((why: CloseReason) => void) | null = null
  ): void {
    const filter = filterFor(log.run, request.modes ?? null)
    const joiner = new Joiner(request, log, filter, start, this.#joinerHooks, onLeft)
    this.#add(joiner, place)
    joiner.pump()
  }

  #add(joiner: OpenStream, place: Place): void {
    this.#size++
    this.#deps.streams.add(joiner, place)
  }

  #left(joiner: OpenStream): void {
    this.#size--
    this.#deps.streams.remove(joiner)
  }

  /** Attaches a reader to a thread: to all its runs after ordinal `request.after`, including future ones. `place`: its reserved place. */
  joinThread(threadId: string, request: ThreadRequest, place: Place): ThreadJoiner {
    const joiner = new ThreadJoiner(request, this.runsOf(threadId, request.reader.userId), this.#threadHooks)
    this.#add(joiner, place)
    return joiner
  }

  /** Attaches a reader to a run alone, behind others of its thread if there are some `before` it: its stream ends with it. `onLeave`: it is gone, and why. */
  joinRun(
    run: Run,
    request: Omit<ThreadRequest, 'after'>,
    place: Place,
    onLeave: (why: CloseReason) => void,
    before: readonly Run[] = []
  ): ThreadJoiner {
    const [first = run] = before
    const hooks = this.#threadHooks
    const joiner = new ThreadJoiner({ ...request, after: first.ordinal - 1 }, this.runOnly(run, before), {
      ...hooks,
      onLeave: (gone, why) => {
        onLeave(why)
        hooks.onLeave(gone, why)
      }
    })
    this.#add(joiner, place)
    return joiner
  }

  /** Attaches a reader to threads that are `add`ed to it, with `runsOf` each. `onLeave`: it is gone. */
  joinThreads(request: StreamRequest, place: Place, onLeave: () => void): ThreadsJoiner {
    const hooks = this.#threadHooks
    const joiner = new ThreadsJoiner(request, {
      ...hooks,
      onLeave: (gone, why) => {
        onLeave()
        hooks.onLeave(gone, why)
      }
    })
    this.#add(joiner, place)
    return joiner
  }

  /** The runs of a thread, as its readers find and open them. */
  runsOf(threadId: string, userId: string | null): ThreadRuns {
    return {
      after: (ordinal) => this.#runAfter(threadId, ordinal, userId),
      open: (run) => this.#openFor(run),
      watch: (listener) => this.#deps.watchers.watch(threadId, listener)
    }
  }

  /** A run as a sequence of its own, behind those `before` it. */
  runOnly(run: Run, before: readonly Run[] = []): ThreadRuns {
    return {
      after: async (ordinal) => [...before, run].find((one) => one.ordinal > ordinal) ?? 'end',
      open: (one) => this.#openFor(one),
      watch: () => () => {}
    }
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
  async #openFor({ run_id }: Run): Promise<OpenedRun | null> {
    const { store, admitted, find, remoteRuns } = this.#deps
    await admitted(run_id)
    const live = find(run_id)?.log
    if (live) return { log: live, left: () => {} }
    // The row found may be older than the run's end.
    const run = await store.runs.get(run_id, null)
    if (!run) return null
    if (!isInFlight(run)) return { log: await this.#ended.of(run), left: () => {} }
    const opened = await remoteRuns?.open(run, null, false)
    if (!opened) throw new Error(`run ${run_id} is in flight, and nowhere to be found`)
    return { log: opened.log, left: () => remoteRuns?.left(run_id, false) }
  }

  /** The log of a run, live or finished, for lookups. */
  async logOf(run: Run): Promise<RunLog> {
    const { store, find } = this.#deps
    const live = find(run.run_id)?.log
    if (live) return live
    const log = isInFlight(run) ? await RunLog.replica(run, store) : await this.#ended.of(run)
    return find(run.run_id)?.log ?? log
  }
}

/** Counts a reader whose disconnect may cancel its run; null: it is none. Its request is not kept, as idle readers are many. */
function creatorWatch(actor: RunActor, request: JoinRequest): ((why: CloseReason) => void) | null {
  const { endsRun } = request
  if (!request.isCreator && !endsRun) return null
  actor.creatorCame()
  return (why) => {
    if (why === 'left') actor.creatorLeft(endsRun)
  }
}
