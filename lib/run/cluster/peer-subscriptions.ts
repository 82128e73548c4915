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
  /** Run -> peer -> expiry, by `performance.now()`. */
  readonly #byRun = new Map<string, Map<string, number>>()
  /** What each peer is sent at the end of this tick. */
  #news = new Map<string, News>()

  constructor(peers: Peers) {
    this.#peers = peers
  }

  get size(): number {
    return this.#byRun.size
  }

  follow(peer: string, runId: string): void {
    const peers = this.#byRun.get(runId) ?? new Map<string, number>()
    this.#byRun.set(runId, peers)
    peers.set(peer, performance.now() + FORGOTTEN_AFTER_MS)
  }

  unfollow(peer: string, runId: string): void {
    const peers = this.#byRun.get(runId)
    if (peers?.delete(peer) && peers.size === 0) this.#byRun.delete(runId)
  }

  /** Drops expired subscriptions, also to runs we never had or do not have yet. */
  forgetLate(): void {
    const now = performance.now()
    for (const [runId, peers] of this.#byRun)
      for (const [peer, until] of peers) if (until <= now) this.unfollow(peer, runId)
  }

  /** Whether a peer has readers of this run. */
  has(runId: string): boolean {
    const now = performance.now()
    return [...(this.#byRun.get(runId)?.values() ?? [])].some((until) => until > now)
  }

  /** Records of a run were committed; `isOver`: its end was among them. */
  stored(runId: string, isOver: boolean): void {
    const peers = this.#byRun.get(runId)
    if (!peers) return
    const now = performance.now()
    for (const [peer, until] of peers) {
      if (until > now) this.#add(peer, runId, isOver)
      else this.unfollow(peer, runId)
    }
    if (isOver) this.#byRun.delete(runId)
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
