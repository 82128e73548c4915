// Which peers have readers of which of our runs, and notifying each of them of what was stored: one message per commit
// and peer, however many runs. A run nobody follows costs one map lookup.
import type { Peers } from '../../store/store.ts'

/** A subscription that is not renewed expires after this time, in ms. */
const FORGOTTEN_AFTER_MS = 20_000

interface News {
  readonly runs: Set<string>
  readonly over: Set<string>
}

export class PeerSubscriptions {
  readonly #peers: Peers
  readonly #byRun = new PeerInterests(FORGOTTEN_AFTER_MS)
  /** What each peer is sent at the end of this tick. */
  #news = new Map<string, News>()

  constructor(peers: Peers) {
    this.#peers = peers
  }

  get size(): number {
    return this.#byRun.size
  }

  follow(peer: string, runId: string): void {
    this.#byRun.add(runId, peer)
  }

  unfollow(peer: string, runId: string): void {
    this.#byRun.remove(runId, peer)
  }

  /** Drops expired subscriptions, also to runs we never had or do not have yet. */
  forgetLate(): void {
    this.#byRun.forgetLate()
  }

  /** Whether a peer has readers of this run. */
  has(runId: string): boolean {
    return this.#byRun.of(runId).length > 0
  }

  /** Records of a run were committed; `isOver`: its end was among them. */
  stored(runId: string, isOver: boolean): void {
    for (const peer of this.#byRun.of(runId)) this.#add(peer, runId, isOver)
    if (isOver) this.#byRun.forget(runId)
  }

  /** These runs belong to another process now. */
  clear(): void {
    this.#byRun.clear()
  }

  #add(peer: string, runId: string, isOver: boolean): void {
    if (this.#news.size === 0) setImmediate(() => this.#tell())
    const news = this.#news.get(peer) ?? { runs: new Set(), over: new Set() }
    this.#news.set(peer, news)
    news.runs.add(runId)
    if (isOver) news.over.add(runId)
  }

  #tell(): void {
    const all = this.#news
    this.#news = new Map()
    for (const [peer, { runs, over }] of all)
      this.#peers.tell(peer, { kind: 'stored', runs: [...runs], over: [...over] })
  }
}

// ----------------------------------------------------------------------------------------------------
// Which peers want to hear of what: of a run's records, or of a thread's next run. An interest that is not repeated in time expires.

export class PeerInterests {
  readonly #ms: number
  /** Subject -> peer -> expiry, by `performance.now()`. */
  readonly #bySubject = new Map<string, Map<string, number>>()

  /** @param ms until an interest expires */
  constructor(ms: number) {
    this.#ms = ms
  }

  /** Subjects. */
  get size(): number {
    return this.#bySubject.size
  }

  /** True: it is new, or had expired. */
  add(subject: string, peer: string): boolean {
    const now = performance.now()
    const peers = this.#bySubject.get(subject) ?? new Map<string, number>()
    const isNew = (peers.get(peer) ?? 0) <= now
    this.#bySubject.set(subject, peers.set(peer, now + this.#ms))
    return isNew
  }

  remove(subject: string, peer: string): void {
    const peers = this.#bySubject.get(subject)
    if (peers?.delete(peer) && peers.size === 0) this.#bySubject.delete(subject)
  }

  /** Everybody interested in it. */
  of(subject: string): readonly string[] {
    const peers = this.#bySubject.get(subject)
    if (!peers) return []
    const now = performance.now()
    return [...peers].flatMap(([peer, until]) => (until > now ? [peer] : []))
  }

  forget(subject: string): void {
    this.#bySubject.delete(subject)
  }

  /** Drops what has expired. */
  forgetLate(): void {
    const now = performance.now()
    for (const [subject, peers] of this.#bySubject)
      for (const [peer, until] of peers) if (until <= now) this.remove(subject, peer)
  }

  clear(): void {
    this.#bySubject.clear()
  }
}
