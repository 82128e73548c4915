// The cluster: this process among others on one database. Keeps the lease, takes over the runs of processes that are no more, and
// does what others ask: it takes runs that they have admitted behind ours, tells them what is stored, ends what they want ended.
//
// Every message may get lost. So each has a second way: runs of ours that we do not know of are found at every renewal, the rest is
// told again by who wants it (remote-runs.ts).
import { LeaseLost, type PeerIdentity, type PeerListener, type PeerMessage, type Peers } from '../../store/store.ts'
import { type Run, isInFlight } from '../../types.ts'
import { recover, type RecoveryParts } from '../lifecycle/recovery.ts'
import { withTimeout } from '../lifecycle/with-timeout.ts'

/** How long others wait for an agent of ours when they delete its thread, and how long our stop waits for a turn, in ms. */
const CLEAR_MS = 5000
/** Renewals within one lease: two may fail. */
const RENEWALS = 3

const EVENTS_APART =
  'Another process on this database keeps its run events elsewhere (run_events.backend): neither would see those of the other. ' +
  'Stop it, or set run_events.backend to db in both'
const SECRETS_APART =
  'another process on this database signs sessions with another secret: who has signed in there is nobody here; give both the same ' +
  'auth.jwt_secret (AUTH_JWT_SECRET)'

export interface ClusterDeps extends Omit<RecoveryParts, 'owner' | 'log'> {
  readonly peers: Peers
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  /** Something was revoked elsewhere. */
  readonly onRevoked: (revocation: { readonly digest: string } | { readonly userId: string }) => void
  /** A thread was removed elsewhere; `hadRuns`: runs of it were live here and may have left files. Their agents have let go. */
  readonly onRemoved: (threadId: string, userId: string | null, hadRuns: boolean) => Promise<void>
  /** Who this process is, for the others. */
  readonly identity: PeerIdentity
  /** This process has another id from now on. */
  readonly onNewId: (id: string) => void
}

export class Cluster implements PeerListener {
  readonly #deps: ClusterDeps
  #timer: NodeJS.Timeout | null = null
  /** A turn that is under way; whether something has happened meanwhile that wants another one behind it. */
  #turning: Promise<void> | null = null
  #again = false
  /** Runs are taken one after the other: those of a thread in their order. */
  #taking: Promise<void> = Promise.resolve()
  #isServing = false
  #isStopped = false

  constructor(deps: ClusterDeps) {
    this.#deps = deps
  }

  /** Joins the others. `before`: this process's id in a life that is over for certain. */
  async join(before: string | null): Promise<void> {
    const { peers, identity, onNewId } = this.#deps
    this.#compare(await peers.start(this, identity, before))
    onNewId(peers.id)
    this.#deps.registry.onLeftBehind = () => void this.#turn()
    this.#timer = setInterval(() => void this.#turn(), peers.leaseMs / RENEWALS).unref()
  }

  /** Takes care of what was left behind, from now on. */
  async serve(): Promise<void> {
    this.#isServing = true
    await this.#take(await this.#deps.peers.claim())
  }

  /** @throws Error when this process and another would not see each other's events. */
  #compare(others: readonly PeerIdentity[]): void {
    const { identity, log } = this.#deps
    if (others.some(({ events }) => events !== identity.events)) throw new Error(EVENTS_APART)
    if (others.some(({ secret }) => secret !== identity.secret)) log.error({ others: others.length }, SECRETS_APART)
  }

  /** Keeps the lease, and takes what is to be had. Never rejects. */
  #turn(): Promise<void> {
    this.#again = true
    this.#turning ??= this.#turns()
    return this.#turning
  }

  async #turns(): Promise<void> {
    while (this.#again && !this.#isStopped) {
      this.#again = false
      await this.#renewAndClaim()
    }
    // In the same moment as the last look at `#again`: what comes behind it begins a turn of its own.
    this.#turning = null
  }

  async #renewAndClaim(): Promise<void> {
    const { peers, registry, log } = this.#deps
    registry.subscriptions?.forgetLate()
    try {
      await peers.renew()
      if (this.#isServing && !registry.isStopping) await this.#take(await peers.claim())
    } catch (error) {
      if (!(error instanceof LeaseLost)) log.warn({ err: error }, 'the lease of this process could not be renewed')
    }
  }

  /** Takes those of these runs that are not known here. Never rejects. */
  #take(found: readonly Run[]): Promise<void> {
    this.#taking = this.#taking.then(() => this.#takeUnknown(found))
    return this.#taking
  }

  async #takeUnknown(found: readonly Run[]): Promise<void> {
    const { registry, peers, log } = this.#deps
    const owner = peers.id
    const runs: Run[] = []
    try {
      runs.push(...(await this.#stillInFlight(found)))
      if (runs.length === 0 || owner !== peers.id) return
      const done = await recover(runs, { ...this.#deps, owner, isOver: () => this.#isStopped || owner !== peers.id })
      if (done.ended > 0) log.warn(done, 'runs that a process has left behind were ended and resumed')
    } catch (error) {
      // They are found again at the next renewal.
      log.error({ err: error }, 'runs that a process has left behind could not be taken over')
    }
    registry.remoteRuns?.stored(
      runs.map(({ run_id }) => run_id),
      runs.map(({ run_id }) => run_id)
    )
  }

  /**
   * Those that are unknown here and did not end since they were found. One behind a run that is not taken over yet is left to a later
   * claim, which finds them in their order: begun now it would be a second run of its thread.
   */
  async #stillInFlight(found: readonly Run[]): Promise<Run[]> {
    const { store, registry } = this.#deps
    const runs: Run[] = []
    for (const { run_id } of found) {
      if (registry.knows(run_id)) continue
      const run = await store.runs.get(run_id, null)
      if (!run || !isInFlight(run)) continue
      const before = (await store.runs.inFlight(run.thread_id)).filter(({ ordinal }) => ordinal < run.ordinal)
      const isTaken = (id: string) => registry.knows(id) || runs.some((one) => one.run_id === id)
      if (!registry.knows(run_id) && before.every((one) => isTaken(one.run_id))) runs.push(run)
    }
    return runs
  }

  // ------------------------------------------------------------------------------------------- what others tell

  onMessage(message: PeerMessage, from: string): void {
    const { registry, onRevoked } = this.#deps
    switch (message.kind) {
      case 'arrived':
        return void this.#arrived(message.runs)
      case 'follow':
        return this.#followed(message.runs, from)
      case 'unfollow':
        for (const id of message.runs) registry.subscriptions?.unfollow(from, id)
        return
      case 'stored':
        return registry.remoteRuns?.stored(message.runs, message.over)
      case 'cancel':
        return void registry.cancel(message.run, message.action, message.reason)
      case 'creator':
        return message.isHere ? registry.creatorCame(message.run) : registry.creatorLeft(message.run)
      case 'clear':
        return void this.#clear(message.thread, from)
      case 'cleared':
        return registry.remoteRuns?.cleared(message.thread, from)
      case 'removed':
        return void this.#removed(message.thread, message.user)
      case 'revoked':
        return onRevoked(message)
      case 'left':
        return void this.#turn()
    }
  }

  async #arrived(runIds: readonly string[]): Promise<void> {
    // Found by the claim with which it begins to serve.
    if (!this.#isServing) return
    const { store, peers, log } = this.#deps
    try {
      const own = (await peers.runLocations(runIds)).filter(({ owner }) => owner === peers.id)
      const runs = await Promise.all(own.map(({ run_id }) => store.runs.get(run_id, null)))
      await this.#take(runs.filter((run) => run !== null))
      if (own.some(({ run_id }) => !this.#deps.registry.knows(run_id))) await this.#turn()
    } catch (error) {
      // The next renewal finds them.
      log.warn({ err: error }, 'runs that another process has admitted here could not be read')
    }
  }

  /** What was stored before they followed they may have missed. */
  #followed(runIds: readonly string[], from: string): void {
    const { registry, peers } = this.#deps
    for (const id of runIds) registry.subscriptions?.follow(from, id)
    peers.tell(from, { kind: 'stored', runs: runIds, over: runIds.filter((id) => !registry.knows(id)) })
  }

  async #clear(threadId: string, from: string): Promise<void> {
    const { registry, peers } = this.#deps
    await registry.cancelThreadHere(threadId, CLEAR_MS)
    peers.tell(from, { kind: 'cleared', thread: threadId })
  }

  async #removed(threadId: string, userId: string | null): Promise<void> {
    const { registry, log, onRemoved } = this.#deps
    try {
      const hadRuns = await registry.cancelThreadHere(threadId, CLEAR_MS)
      await onRemoved(threadId, userId, hadRuns)
    } catch (error) {
      log.warn({ err: error, thread_id: threadId }, 'files of a thread that was removed elsewhere may be left')
    }
  }

  onGap(): void {
    void this.#deps.registry.remoteRuns?.revalidate()
    void this.#turn()
  }

  onLeaseLost(): void {
    const { registry, peers, log, onNewId } = this.#deps
    log.error({ runs: registry.active }, 'this process has lost its lease: its runs are ended by another one')
    registry.abandon()
    onNewId(peers.id)
  }

  // ----------------------------------------------------------------------------------------------- what we tell

  revoked(revocation: { readonly digest: string } | { readonly userId: string }): void {
    this.#deps.peers.tell(null, { kind: 'revoked', ...revocation })
  }

  removed(threadId: string, userId: string | null): void {
    this.#deps.peers.tell(null, { kind: 'removed', thread: threadId, user: userId })
  }

  /** The lease is kept by what is still written, until the store is closed. Resolves when nothing is being taken over. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer) clearInterval(this.#timer)
    // A database that hangs keeps a renewal for as long as it likes.
    await withTimeout(Promise.all([this.#turning, this.#taking]), CLEAR_MS)
  }
}
