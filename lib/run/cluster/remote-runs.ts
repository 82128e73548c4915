// Runs of other processes that somebody here reads, waits for, or wants to cancel.
//
// Their owners announce what is stored; because a message may get lost, all of them are also polled together once a
// second. A pending cancel is resent with every poll until the run has ended, to whoever owns it by then.
import { Poller } from '../../base/poller.ts'
import type { PeerMessage, Peers, RunLocation } from '../../store/store.ts'
import { type Run, isInFlight } from '../../base/types.ts'
import type { CancelAction } from '../run-end.ts'
import { storedSnapshot, type TailStore } from '../log/rebuild-partial.ts'
import type { RunLog } from '../log/run-log.ts'
import type { Snapshot } from '../log/snapshot.ts'
import type { Position } from '../log/frame.ts'
import { withTimeout } from '../../base/waiting.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { type ReplicaDeps, RunReplica } from './run-replica.ts'

/** Interval of polls, in ms. */
const POLL_MS = 1000
/** Polls after which a subscription is renewed: the owner may have missed it, or be about to expire it. */
const FOLLOW_AGAIN = 5

interface RemoteRunsDeps {
  readonly store: ReplicaDeps['store'] & TailStore
  readonly peers: Peers
  /** The same for a run that turns out to be ours. */
  readonly cancelHere: (runId: string, action: CancelAction) => void
  readonly onTrouble: (error: unknown) => void
}

interface ThreadDrain {
  readonly threadId: string
  /** Acknowledgements owners still owe us. */
  readonly peers: Set<string>
  resolve(): void
}

export class RemoteRuns {
  readonly #deps: RemoteRunsDeps
  readonly #runs = new Map<string, RunReplica>()
  /** Replicas being opened: readers that come meanwhile share them. */
  readonly #opening = new Map<string, Promise<RunReplica>>()
  readonly #snapshots = new Map<string, Promise<Snapshot | null>>()
  readonly #pendingCancels = new Map<string, CancelAction>()
  readonly #threadDrains = new Set<ThreadDrain>()
  /** Messages about creators go to owners in order. */
  #telling: Promise<void> = Promise.resolve()
  #revalidations = 0
  readonly #poller: Poller
  #isPolling = false
  #isRevalidating = false
  #isStopped = false

  constructor(deps: RemoteRunsDeps) {
    this.#deps = deps
    this.#poller = new Poller({ everyMs: POLL_MS, work: () => this.revalidate(), onError: deps.onTrouble })
  }

  get size(): number {
    return this.#runs.size + this.#pendingCancels.size + this.#threadDrains.size
  }

  // ------------------------------------------------------------------------------------- reading and waiting

  /** The log of a run in flight, and where a reader begins in it. Null: the reader is gone. */
  async open(
    run: Run,
    position: Position,
    isSnapshot: boolean
  ): Promise<{ readonly log: RunLog; readonly start: Position | Snapshot } | null> {
    const snapshot = isSnapshot ? await this.#snapshotFor(run, position) : null
    const remote = await this.#of(run)
    const { log } = remote
    // Frames it has seen may be lost for good: one more poll tells.
    if (snapshot === null && log.place(position) === null) this.#refresh(remote, false)
    return this.#isStopped ? null : { log, start: snapshot ?? position }
  }

  /** A reader has left. `isCreator`: it was the creating request, and its client closed it. `isAsked`: see `endsRun` of a join. */
  left(runId: string, isCreator: boolean, isAsked = false): void {
    if (isCreator) this.creatorLeft(runId, isAsked)
    this.#idle(runId)
  }

  /** For a reader that has seen nothing; null for one that resumes. Readers that come while a snapshot is made share it. */
  async #snapshotFor(run: Run, position: Position): Promise<Snapshot | null> {
    const { run_id } = run
    try {
      if ((await this.#of(run)).log.place(position) !== 0) return null
      const making = this.#snapshots.get(run_id) ?? storedSnapshot(this.#deps.store, run)
      this.#snapshots.set(run_id, making)
      return await making
    } catch (error) {
      this.#idle(run_id)
      throw error
    } finally {
      this.#snapshots.delete(run_id)
    }
  }

  /** Resolves with true when a run in flight has ended; with false when this process will not learn of it; null: `signal` has aborted. */
  async ended(run: Run, signal?: AbortSignal): Promise<boolean | null> {
    return (await this.#of(run)).ended(signal)
  }

  /** The owner runs the grace period, from the last departure on any process. */
  creatorLeft(runId: string, isAsked = false): void {
    this.#tellOfCreator(runId, false, isAsked)
  }

  /** The creator is back: the grace period restarts at its next departure. */
  creatorCame(runId: string, isAsked = false): void {
    this.#tellOfCreator(runId, true, isAsked)
  }

  #tellOfCreator(runId: string, isHere: boolean, isAsked: boolean): void {
    if (!isAsked && this.#runs.get(runId)?.run.kwargs.on_disconnect !== 'cancel') return
    this.#telling = this.#telling.then(() => this.#tellOwner(runId, { kind: 'creator', run: runId, isHere, isAsked }))
  }

  async #of(run: Run): Promise<RunReplica> {
    const known = this.#runs.get(run.run_id)
    if (known) return known
    const opening = this.#opening.get(run.run_id) ?? this.#open(run)
    this.#opening.set(run.run_id, opening)
    try {
      return await opening
    } finally {
      this.#opening.delete(run.run_id)
    }
  }

  async #open(run: Run): Promise<RunReplica> {
    const { run_id } = run
    const remote: RunReplica = await RunReplica.open(run, { ...this.#deps, onIdle: () => this.#idle(run_id) })
    this.#runs.set(run_id, remote)
    this.#wake()
    // In this order: the poll finds what was stored before the owner knew of us.
    this.#revalidate([run_id]).catch(this.#deps.onTrouble)
    return remote
  }

  #idle(runId: string): void {
    const remote = this.#runs.get(runId)
    if (!remote || remote.isWanted) return
    this.#runs.delete(runId)
    if (remote.owner !== null && !remote.log.isClosed)
      this.#deps.peers.tell(remote.owner, { kind: 'unfollow', runs: [runId] })
    this.#sleep()
  }

  /** An owner announces that records of these runs were stored. */
  stored(runs: readonly string[], over: readonly string[]): void {
    for (const id of runs) this.#refresh(this.#runs.get(id), over.includes(id))
  }

  #refresh(remote: RunReplica | undefined, isOver: boolean): void {
    remote?.refresh(isOver).catch(this.#deps.onTrouble)
  }

  /** The run is ours now: its readers reconnect and find it here. */
  drop(runId: string): void {
    this.#runs.get(runId)?.drop()
  }

  // ----------------------------------------------------------------------------------------------- ending them

  /** Cancels a run in flight, resending until it ends. False: it has ended already. */
  async cancel(runId: string, action: CancelAction): Promise<boolean> {
    const [location] = await this.#deps.peers.runLocations([runId])
    if (!location || !isInFlight(location)) return false
    this.#pendingCancels.set(runId, action)
    this.#resend(location)
    this.#wake()
    return true
  }

  /** Cancels the runs of a thread and waits, `timeoutMs` at most, until their agents have stopped. `runs`: those in flight. */
  async clear(threadId: string, runs: readonly string[], timeoutMs: number): Promise<void> {
    const locations = await this.#deps.peers.runLocations(runs)
    const owners = locations.flatMap(({ owner }) => (owner === null || owner === this.#deps.peers.id ? [] : [owner]))
    if (owners.length === 0) return
    const tell = () => {
      for (const owner of owners) this.#deps.peers.tell(owner, { kind: 'clear', thread: threadId })
    }
    const again = setInterval(tell, POLL_MS)
    const drain: ThreadDrain = { threadId, peers: new Set(owners), resolve: () => {} }
    const cleared = new Promise<void>((resolve) => {
      drain.resolve = resolve
    })
    this.#threadDrains.add(drain)
    tell()
    await withTimeout(cleared, timeoutMs)
    this.#threadDrains.delete(drain)
    clearInterval(again)
  }

  cleared(threadId: string, peer: string): void {
    for (const { threadId: id, peers, resolve } of this.#threadDrains) {
      if (id === threadId && peers.delete(peer) && peers.size === 0) resolve()
    }
  }

  // ------------------------------------------------------------------------------------------- one poll for all

  #wake(): void {
    if (this.#isStopped || this.#isPolling) return
    this.#isPolling = true
    this.#poller.start()
  }

  #sleep(): void {
    if (this.#runs.size > 0 || this.#pendingCancels.size > 0) return
    this.#isPolling = false
    this.#poller.stop().catch(warnUnexpected)
  }

  /** Polls all of them. Never rejects. */
  async revalidate(): Promise<void> {
    // Polls do not overlap.
    if (this.#isRevalidating) return
    this.#isRevalidating = true
    this.#revalidations++
    const ids = new Set([...this.#runs.keys(), ...this.#pendingCancels.keys()])
    await this.#revalidate([...ids])
    this.#isRevalidating = false
    this.#sleep()
  }

  async #revalidate(runIds: readonly string[]): Promise<void> {
    try {
      const locations = new Map((await this.#deps.peers.runLocations(runIds)).map((one) => [one.run_id, one]))
      const owners = new Map<string, string[]>()
      for (const id of runIds) {
        const location = locations.get(id)
        this.#learn(id, location, owners)
        if (!location || !isInFlight(location)) this.#pendingCancels.delete(id)
        else this.#resend(location)
      }
      for (const [owner, runs] of owners) this.#deps.peers.tell(owner, { kind: 'follow', runs })
    } catch (error) {
      this.#deps.onTrouble(error)
    }
  }

  /** `owners`: whose subscriptions are to be renewed. */
  #learn(runId: string, location: RunLocation | undefined, owners: Map<string, string[]>): void {
    const remote = this.#runs.get(runId)
    if (!remote) return
    if (!location || !isInFlight(location)) return this.#refresh(remote, true)
    const { owner, last, status } = location
    const isNew = owner !== remote.owner || this.#revalidations % FOLLOW_AGAIN === 0
    remote.owner = owner
    if (owner !== null && isNew) owners.set(owner, [...(owners.get(owner) ?? []), runId])
    if ((last ?? -1) >= remote.log.head || status !== remote.run.status)
      this.#refresh(remote, status !== remote.run.status)
  }

  #resend({ run_id, owner }: RunLocation): void {
    const action = this.#pendingCancels.get(run_id)
    if (!action || owner === null) return
    const { peers, cancelHere } = this.#deps
    if (owner === peers.id) cancelHere(run_id, action)
    else peers.tell(owner, { kind: 'cancel', run: run_id, action })
  }

  async #tellOwner(runId: string, message: PeerMessage): Promise<void> {
    const [location] = await this.#deps.peers.runLocations([runId]).catch(() => [])
    if (location && isInFlight(location) && location.owner !== null) this.#deps.peers.tell(location.owner, message)
  }

  /** Releases everyone who waits. */
  stop(): void {
    this.#isStopped = true
    this.#poller.stop().catch(warnUnexpected)
    this.#pendingCancels.clear()
    for (const remote of [...this.#runs.values()]) remote.drop()
    for (const { resolve } of this.#threadDrains) resolve()
  }
}
