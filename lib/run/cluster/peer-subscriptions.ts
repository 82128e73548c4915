// Which peers have readers of which of our runs, and notifying each of them of what was stored: one message per commit
// and peer, however many runs. A run nobody follows costs one map lookup.
import type { Peers } from '../../store/store.ts'
import { PeerInterests } from './peer-interests.ts'

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
