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
