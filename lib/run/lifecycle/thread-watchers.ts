// Readers that wait for the next run of a thread. Runs admitted here wake them at once. Other processes are told which threads are
// watched here, and announce the runs they admit there. Messages may get lost, so both are repeated after a while.
import { Poller } from '../../base/poller.ts'
import type { Peers } from '../../store/store.ts'
import { warnUnexpected } from '../../base/unexpected.ts'
import { PeerInterests } from '../cluster/peer-interests.ts'

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
