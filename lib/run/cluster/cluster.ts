// This process among others on one database. It keeps its lease, takes over runs whose process is gone, and answers its
// peers: it queues runs they admitted behind ours, tells them what was stored, and ends runs they want ended.
//
// Any message may get lost, so each has a second way: every renewal finds runs of ours we have not heard of, and
// everything else is repeated by the peer that wants it (remote-runs.ts).
import { LeaseLost, type PeerIdentity, type PeerListener, type PeerMessage, type Peers } from '../../store/store.ts'
import { type Run, isInFlight } from '../../base/types.ts'
import { recover, type RecoveryParts } from '../lifecycle/recovery.ts'
import { withTimeout } from '../../base/waiting.ts'

/** How long peers wait for our agent when they delete its thread, and how long our stop waits for a takeover in progress, in ms. */
const CLEAR_MS = 5000
/** Renewals per lease: two may fail. */
const RENEWALS = 3

const EVENTS_APART =
  'Another process on this database stores its run events elsewhere (run_events.backend), so neither would see those of the other. ' +
  'Stop it, or set run_events.backend to db in both'
const HOMES_APART =
  'Another process on this database has another home, so neither would find the files of the other (uploads, artifacts, memories, ' +
  'skills): give both one home, set files.shared to false if it is meant, or, if that process was killed, start again after runs.lease_ms'
const SECRETS_APART =
  'another process on this database signs sessions with another secret, so its sessions are not valid here: give both the same ' +
  'auth.jwt_secret (AUTH_JWT_SECRET)'

/** What was revoked: one credential, by digest, or all of a user. */
type Revocation = { readonly digest: string } | { readonly userId: string }

type ConfigurationMessage = Extract<PeerMessage, { kind: 'reconfigure' | 'reconfigured' }>

interface ClusterDeps extends Omit<RecoveryParts, 'owner' | 'log'> {
  readonly peers: Peers
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void }
  /** Something was revoked elsewhere. */
  readonly onRevoked: (revocation: Revocation) => void
  /** A peer asks for the configuration to be read again, or answers such a question. */
  readonly onConfiguration: (message: ConfigurationMessage, from: string) => void
  /** A thread was removed by a peer. `hadRuns`: runs of it were live here and may have left files; their agents have stopped. */
  readonly onRemoved: (threadId: string, userId: string | null, hadRuns: boolean) => Promise<void>
  /** How this process introduces itself to its peers. */
  readonly identity: PeerIdentity
  /** All processes must have one home. */
  readonly sharesFiles: boolean
  readonly onNewId: (id: string) => void
}

/** `lost`: taken by another process, or not renewed for its whole time, so that another one may take it; `none`: nobody shares the database. */
export type LeaseState = 'held' | 'lost' | 'none'

export class Cluster implements PeerListener {
  readonly #deps: ClusterDeps
  /** When the last renewal that succeeded was begun, by `performance.now()`. */
  #renewedAt = Number.NEGATIVE_INFINITY
  #losses = 0
  #timer: NodeJS.Timeout | null = null
  /** The renewal in progress, and whether another one was asked for meanwhile. */
  #turning: Promise<void> | null = null
  #again = false
  /** Takeovers run one after the other, so that runs of a thread keep their order. */
  #taking: Promise<void> = Promise.resolve()
  #isServing = false
  #isStopped = false

  constructor(deps: ClusterDeps) {
    this.#deps = deps
  }

  /** Joins the cluster. `before`: our id before a restart, whose process is certainly gone. */
  async join(before: string | null): Promise<void> {
    const { peers, identity, onNewId } = this.#deps
    const begun = performance.now()
    this.#compare(await peers.start(this, identity, before))
    this.#renewedAt = begun
    onNewId(peers.id)
    this.#deps.registry.onLeftBehind = () => this.#turnSoon()
    this.#timer = setInterval(() => this.#turnSoon(), peers.leaseMs / RENEWALS).unref()
  }

  get lease(): LeaseState {
    return performance.now() - this.#renewedAt < this.#deps.peers.leaseMs ? 'held' : 'lost'
  }

  /** Leases that another process has taken. */
  get losses(): number {
    return this.#losses
  }

  /** From now on orphaned runs are taken over. */
  async serve(): Promise<void> {
    this.#isServing = true
    await this.#take(await this.#deps.peers.claim())
  }

  /** @throws Error when this process and a peer would not see each other's events or files */
  #compare(others: readonly PeerIdentity[]): void {
    const { identity, sharesFiles, log } = this.#deps
    if (others.some(({ events }) => events !== identity.events)) throw new Error(EVENTS_APART)
    if (sharesFiles && others.some(({ home = identity.home }) => home !== identity.home)) throw new Error(HOMES_APART)
    if (others.some(({ secret }) => secret !== identity.secret)) log.error({ others: others.length }, SECRETS_APART)
  }

  /** Renews the lease and takes over orphaned runs. Never rejects. */
  #turn(): Promise<void> {
    this.#again = true
    this.#turning ??= this.#turns()
    return this.#turning
  }

  #turnSoon(): void {
    this.#turn().catch(this.#onFailed)
  }

  readonly #onFailed = (error: unknown): void =>
    this.#deps.log.warn({ err: error }, 'a message of another process could not be answered')

  async #turns(): Promise<void> {
    while (this.#again && !this.#isStopped) {
      this.#again = false
      await this.#renewAndClaim()
    }
    // Cleared in the same tick as the last check of `#again`: whoever asks later starts a new turn.
    this.#turning = null
  }

  async #renewAndClaim(): Promise<void> {
    const { peers, registry, log } = this.#deps
    registry.subscriptions?.forgetLate()
    registry.watchers.forgetLate()
    const begun = performance.now()
    try {
      await peers.renew()
      this.#renewedAt = begun
      if (this.#isServing && !registry.isStopping) await this.#take(await peers.claim())
    } catch (error) {
      if (!(error instanceof LeaseLost)) log.warn({ err: error }, 'the lease of this process could not be renewed')
    }
  }

  /** Takes over those of these runs that are not live here. Never rejects. */
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
      if (done.ended > 0) log.warn(done, 'orphaned runs of another process were ended or resumed')
    } catch (error) {
      // The next renewal finds them again.
      log.error(
        { err: error },
        'orphaned runs of another process could not be taken over; the next renewal tries again'
      )
    }
    const ids = runs.map(({ run_id }) => run_id)
    registry.releaseReaders(ids)
    registry.remoteRuns?.stored(ids, ids)
  }

  /**
   * Those that are not live here and have not ended since they were found. A run behind one that is not taken over yet
   * is left for a later claim, which sees them in order: started now, it would be a second active run of its thread.
   */
  async #stillInFlight(found: readonly Run[]): Promise<Run[]> {
    const { store, registry } = this.#deps
    const runs: Run[] = []
    for (const { run_id } of found) {
      if (registry.knows(run_id)) continue
      const run = await store.runs.get(run_id, null)
      if (!run || !isInFlight(run)) {
        registry.releaseReaders([run_id])
        continue
      }
      const before = (await store.runs.inFlight(run.thread_id)).filter(({ ordinal }) => ordinal < run.ordinal)
      const isTaken = (id: string) => registry.knows(id) || runs.some((one) => one.run_id === id)
      if (!registry.knows(run_id) && before.every((one) => isTaken(one.run_id))) runs.push(run)
    }
    return runs
  }

  // ------------------------------------------------------------------------------------------ messages of peers

  onMessage(message: PeerMessage, from: string): void {
    const { registry, onRevoked } = this.#deps
    switch (message.kind) {
      case 'arrived':
        return void this.#arrived(message.runs).catch(this.#onFailed)
      case 'follow':
        return this.#followed(message.runs, from)
      case 'unfollow':
        for (const id of message.runs) registry.subscriptions?.unfollow(from, id)
        return
      case 'stored':
        return registry.remoteRuns?.stored(message.runs, message.over)
      case 'watch':
        return registry.watchers.watched(from, message.threads)
      case 'admitted':
        return registry.watchers.notify(message.thread, message.of)
      case 'cancel':
        return void registry.ends.cancel(message.run, message.action)
      case 'creator':
        return message.isHere
          ? registry.ends.creatorCame(message.run)
          : registry.ends.creatorLeft(message.run, message.isAsked)
      case 'clear':
        return void this.#clear(message.thread, from).catch(this.#onFailed)
      case 'cleared':
        return registry.remoteRuns?.cleared(message.thread, from)
      case 'removed':
        return void this.#removed(message.thread, message.user).catch(this.#onFailed)
      case 'revoked':
        return onRevoked(message)
      case 'reconfigure':
      case 'reconfigured':
        return this.#deps.onConfiguration(message, from)
      case 'left':
        return this.#turnSoon()
    }
  }

  async #arrived(runIds: readonly string[]): Promise<void> {
    // Its first claim finds them.
    if (!this.#isServing) return
    const { store, peers, log } = this.#deps
    try {
      const own = (await peers.runLocations(runIds)).filter(({ owner }) => owner === peers.id)
      const runs = await Promise.all(own.map(({ run_id }) => store.runs.get(run_id, null)))
      await this.#take(runs.filter((run) => run !== null))
      if (own.some(({ run_id }) => !this.#deps.registry.knows(run_id))) await this.#turn()
    } catch (error) {
      // The next renewal finds them.
      log.warn({ err: error }, 'runs that a peer admitted here could not be read; the next renewal finds them')
    }
  }

  /** They may have missed what was stored before they subscribed. */
  #followed(runIds: readonly string[], from: string): void {
    const { registry, peers } = this.#deps
    for (const id of runIds) registry.subscriptions?.follow(from, id)
    peers.tell(from, { kind: 'stored', runs: runIds, over: runIds.filter((id) => !registry.knows(id)) })
  }

  async #clear(threadId: string, from: string): Promise<void> {
    const { registry, peers } = this.#deps
    await registry.ends.cancelThreadHere(threadId, CLEAR_MS)
    peers.tell(from, { kind: 'cleared', thread: threadId })
  }

  async #removed(threadId: string, userId: string | null): Promise<void> {
    const { registry, log, onRemoved } = this.#deps
    try {
      const hadRuns = await registry.ends.cancelThreadHere(threadId, CLEAR_MS)
      await onRemoved(threadId, userId, hadRuns)
    } catch (error) {
      log.warn(
        { err: error, thread_id: threadId },
        'the files of a thread that was removed by another process could not be deleted'
      )
    }
  }

  onGap(): void {
    this.#deps.registry.remoteRuns?.revalidate().catch(this.#onFailed)
    this.#deps.registry.watchers.notifyAll()
    this.#turnSoon()
  }

  onLeaseLost(): void {
    const { registry, peers, log, onNewId } = this.#deps
    this.#renewedAt = Number.NEGATIVE_INFINITY
    this.#losses++
    log.error({ runs: registry.active }, 'this process lost its lease: another process ends its runs')
    registry.abandon()
    onNewId(peers.id)
  }

  // ----------------------------------------------------------------------------------------- messages to peers

  revoked(revocation: Revocation): void {
    this.#deps.peers.tell(null, { kind: 'revoked', ...revocation })
  }

  removed(threadId: string, userId: string | null): void {
    this.#deps.peers.tell(null, { kind: 'removed', thread: threadId, user: userId })
  }

  /** Batches still being written keep the lease until the store is closed. Resolves when no takeover is in progress. */
  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer) clearInterval(this.#timer)
    // A renewal on a hung database may never return.
    await withTimeout(Promise.all([this.#turning, this.#taking]), CLEAR_MS)
  }
}
