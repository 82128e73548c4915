// Asks for open streams whether the credential that opened them still stands, so that none outlives its right.
//
// Whoever revokes a credential in this process says so at once. The walk at every heartbeat finds what was revoked elsewhere: from
// the command line, by another process, by the clock. It costs one look-up a credential, however many streams there are of it.

/** Whose stream it is, so that it can be found when its credential is revoked. */
export interface Reader {
  readonly userId: string | null
  /** Digest of the session token or API token the stream was opened with. */
  readonly credential: string | null
  /** Asks whether that credential still stands. Absent: nothing can end it. */
  readonly isValid?: () => Promise<boolean>
}

/** Look-ups at a time; others have a turn in between. */
const AT_ONCE = 64

export interface RevalidatorDeps {
  /** Of everything that is open. */
  readers(): Iterable<Reader>
  reset(isMeant: (reader: Reader) => boolean): void
  /** The look-up failed. The streams stay: the next walk asks again. */
  onTrouble(error: unknown): void
}

export class CredentialRevalidator {
  readonly #deps: RevalidatorDeps
  /** One of each credential that somebody has just come with. */
  readonly #come = new Map<string, Reader>()
  #isWalking = false
  #isStopped = false

  constructor(deps: RevalidatorDeps) {
    this.#deps = deps
  }

  /** Asks for all. A walk that meets another under way is left out. Never rejects. */
  async walk(): Promise<void> {
    if (this.#isWalking) return
    this.#isWalking = true
    await this.revalidate(() => true)
    this.#isWalking = false
  }

  /** Asks for those that are meant, once a credential, and resets what has lost its right. Never rejects. */
  async revalidate(isMeant: (reader: Reader) => boolean): Promise<void> {
    const byCredential = new Map<string, Reader>()
    for (const reader of this.#deps.readers()) {
      if (reader.credential !== null && isMeant(reader)) byCredential.set(reader.credential, reader)
    }
    const all = [...byCredential.values()]
    for (let from = 0; from < all.length && !this.#isStopped; from += AT_ONCE) {
      if (from > 0) await new Promise((resolve) => setImmediate(resolve))
      await this.ask(all.slice(from, from + AT_ONCE))
    }
  }

  /**
   * Asks for one that has just come, when the turn is over: what it came for goes first, and of a crowd that came with one
   * credential one is asked for. Never rejects.
   */
  soon(reader: Reader): void {
    if (reader.credential === null) return
    if (this.#come.size === 0) setImmediate(() => void this.#askWhoCame())
    this.#come.set(reader.credential, reader)
  }

  #askWhoCame(): Promise<void> {
    const readers = [...this.#come.values()]
    this.#come.clear()
    return this.ask(readers)
  }

  /** Asks for these, and resets every stream of a credential that has lost its right. Never rejects. */
  async ask(readers: readonly Reader[]): Promise<void> {
    const lost = new Set<string | null>()
    const ask = async ({ credential, isValid }: Reader): Promise<void> => {
      if (isValid && !(await isValid())) lost.add(credential)
    }
    await Promise.all(readers.map((reader) => ask(reader).catch((error: unknown) => this.#deps.onTrouble(error))))
    if (lost.size > 0) this.#deps.reset(({ credential }) => lost.has(credential))
  }

  stop(): void {
    this.#isStopped = true
  }
}
