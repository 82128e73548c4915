// Checks that the credential of every open stream is still valid, so that no stream outlives it.
//
// A revocation in this process is announced at once. The walk at every heartbeat finds what was revoked elsewhere: on
// the command line, by another process, by expiry. It costs one lookup per credential, however many streams share it.

/** Who holds a credential: found by either when it is revoked. */
interface Holder {
  readonly userId: string | null
  /** Digest of the session token or API token that opened the stream. */
  readonly credential: string | null
}

export interface Reader extends Holder {
  /** To whom the stream is counted; absent: its user. */
  readonly payer?: string | null
  /** Of a link that only users may open: who has opened it. Its end is the reader's too. */
  readonly viewer?: Holder | undefined
  /** Checks that credential. Absent: nothing can end it. */
  readonly isValid?: () => Promise<boolean>
}

/** One credential may act for several users, and a link be open to many: what ends one of them says nothing of the others. */
function keyOf({ credential, userId, viewer }: Reader): string {
  return JSON.stringify([credential, userId, viewer?.credential])
}

/** Whether a reader, or the viewer of its link, is meant. */
export function isHeldBy({ viewer, ...reader }: Reader, isMeant: (holder: Holder) => boolean): boolean {
  return isMeant(reader) || (viewer !== undefined && isMeant(viewer))
}

/** Lookups per batch; other work has a turn in between. */
const AT_ONCE = 64

interface RevalidatorDeps {
  readers(): Iterable<Reader>
  reset(isMeant: (reader: Reader) => boolean): void
  /** The lookup failed. The streams stay: the next walk asks again. */
  onTrouble(error: unknown): void
}

export class CredentialRevalidator {
  readonly #deps: RevalidatorDeps
  /** One stream of each credential that has just been added. */
  readonly #come = new Map<string, Reader>()
  #isWalking = false
  #isStopped = false

  constructor(deps: RevalidatorDeps) {
    this.#deps = deps
  }

  /** Checks all streams. Skipped while another walk is running. Never rejects. */
  async walk(): Promise<void> {
    if (this.#isWalking) return
    this.#isWalking = true
    await this.revalidate(() => true)
    this.#isWalking = false
  }

  /** Checks the matching streams, once per credential, and resets those whose credential is no longer valid. Never rejects. */
  async revalidate(isMeant: (reader: Reader) => boolean): Promise<void> {
    const byCredential = new Map<string, Reader>()
    for (const reader of this.#deps.readers()) {
      if (reader.credential !== null && isMeant(reader)) byCredential.set(keyOf(reader), reader)
    }
    const all = [...byCredential.values()]
    for (let from = 0; from < all.length && !this.#isStopped; from += AT_ONCE) {
      if (from > 0) await new Promise((resolve) => setImmediate(resolve))
      await this.ask(all.slice(from, from + AT_ONCE))
    }
  }

  /**
   * Checks a new stream at the end of the tick: its first frames go first, and of a burst with one credential only one
   * is checked. Never rejects.
   */
  soon(reader: Reader): void {
    if (reader.credential === null) return
    if (this.#come.size === 0) setImmediate(() => this.#askWhoCame().catch(this.#deps.onTrouble))
    this.#come.set(keyOf(reader), reader)
  }

  #askWhoCame(): Promise<void> {
    const readers = [...this.#come.values()]
    this.#come.clear()
    return this.ask(readers)
  }

  /** Checks these, and resets every stream whose credential is no longer valid. Never rejects. */
  async ask(readers: readonly Reader[]): Promise<void> {
    const lost = new Set<string>()
    const ask = async (reader: Reader): Promise<void> => {
      if (reader.isValid && !(await reader.isValid())) lost.add(keyOf(reader))
    }
    await Promise.all(readers.map((reader) => ask(reader).catch((error: unknown) => this.#deps.onTrouble(error))))
    if (lost.size > 0) this.#deps.reset((reader) => lost.has(keyOf(reader)))
  }

  stop(): void {
    this.#isStopped = true
  }
}
