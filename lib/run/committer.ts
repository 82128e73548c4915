// The one committer of the process: writes what all run actors and requests hand over, as one transaction at a time.
//
// A request's write is urgent: its batch starts in this turn of the loop, or when the batch under way is done. Frames and traces
// wait for the window, which opens with the first that is due and is stretched when commits take long, so that the writer is busy
// a quarter of the time at most. A batch that the store does not take stays in front and is tried again until it does.
import { ownerOf, type UserArg, withoutUser } from '../scope.ts'
import type { Group, Op, OpName, OpOf, Outcome, Result, Writer } from '../store/store.ts'
import { OWNED_OPS, StoreUnavailable } from '../store/store.ts'

/** Who buffers records of its own and hands them over when the committer is ready for them: a run actor. */
export interface Source {
  /** Everything buffered so far; null: nothing after all. */
  take(): Group | null
  /** What became of the group taken last. */
  committed(outcome: Outcome): void
}

export interface CommitterOptions {
  /** The window for frames, in ms. */
  readonly flushMs: number
  /** To what it may be stretched, in ms. */
  readonly flushMsMax?: number
  readonly onTrouble?: (error: unknown, attempts: number) => void
}

/** Groups in one transaction at most: a longer one would keep requests waiting behind frames. */
const GROUPS_MAX = 512
/** A window is at least this many times as long as the last commit took. */
const WINDOW_TO_COMMIT = 3
const RETRY_MS_FIRST = 50
const RETRY_MS_MAX = 1000

interface Entry {
  readonly group: Group
  done(outcome: Outcome): void
}

/** A group that the store refused: a constraint, a thread that is gone. */
export class WriteRefused extends Error {}

export class Committer implements Writer {
  readonly #apply: (groups: readonly Group[]) => Promise<Outcome[]>
  readonly #options: Required<Omit<CommitterOptions, 'onTrouble'>>
  readonly #onTrouble: (error: unknown, attempts: number) => void
  readonly #calls: Entry[] = []
  readonly #urgent = new Set<Source>()
  readonly #due = new Set<Source>()
  /** The batch that the store has not taken yet; nothing overtakes it. */
  #held: Entry[] | null = null
  #inFlight = false
  #attempts = 0
  #busySince: number | null = null
  #windowMs: number
  #window: NodeJS.Timeout | null = null
  #soon: NodeJS.Immediate | null = null
  #retry: NodeJS.Timeout | null = null
  #idle: (() => void)[] = []

  constructor(apply: (groups: readonly Group[]) => Promise<Outcome[]>, options: CommitterOptions) {
    this.#apply = apply
    this.#options = { flushMs: options.flushMs, flushMsMax: options.flushMsMax ?? 200 }
    this.#onTrouble = options.onTrouble ?? (() => {})
    this.#windowMs = options.flushMs
  }

  /** Writes one op and answers its result after the commit. Rejects with WriteRefused when the store refuses it. */
  async write<K extends OpName>(op: OpOf<K>): Promise<Result<K>> {
    // OpOf<K> is a member of Op for every K; the compiler does not see it while K is open, hence the detour.
    const [result] = await this.writeAll([resolveUser(op as unknown as Op)])
    // The store answers one result an op, of that op's type.
    return result as Result<K>
  }

  /** Writes ops that belong together: all or none. */
  writeAll(ops: readonly Op[]): Promise<readonly unknown[]> {
    return new Promise((resolve, reject) => {
      const done = (outcome: Outcome) =>
        outcome.ok ? resolve(outcome.results) : reject(new WriteRefused(outcome.message))
      this.#calls.push({ group: { ops }, done })
      this.#flushSoon()
    })
  }

  /** `source` has something to write. Urgent: somebody waits for it. */
  due(source: Source, urgent: boolean): void {
    if (urgent) {
      this.#urgent.add(source)
      this.#flushSoon()
      return
    }
    this.#due.add(source)
    this.#window ??= setTimeout(() => this.#windowOver(), this.#windowMs)
  }

  /** For how long the batch in front has been waiting for the store, in ms; 0: there is none. */
  get waitingMs(): number {
    return this.#busySince === null ? 0 : Date.now() - this.#busySince
  }

  /** Writes and sources that wait for their turn. */
  get size(): number {
    return this.#calls.length + this.#urgent.size + this.#due.size + (this.#held?.length ?? 0)
  }

  /** Resolves when everything handed over so far is written. */
  drained(): Promise<void> {
    for (const source of this.#due) this.#urgent.add(source)
    this.#due.clear()
    if (this.#isIdle()) return Promise.resolve()
    this.#flushSoon()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  #isIdle(): boolean {
    return !this.#inFlight && !this.#held && !this.#calls.length && !this.#urgent.size && !this.#due.size
  }

  #windowOver(): void {
    this.#window = null
    for (const source of this.#due) this.#urgent.add(source)
    this.#due.clear()
    this.#flush()
  }

  #flushSoon(): void {
    if (this.#inFlight || this.#held) return
    // Not as the user of the request that woke it: what is written, and told afterwards, is everybody's.
    this.#soon ??= withoutUser(() =>
      setImmediate(() => {
        this.#soon = null
        this.#flush()
      })
    )
  }

  #flush(): void {
    if (this.#inFlight || this.#held) return
    const batch = this.#take()
    if (batch.length) void this.#commit(batch)
    else this.#settleIdle()
  }

  #take(): Entry[] {
    const batch = this.#calls.splice(0, GROUPS_MAX)
    for (const source of this.#urgent) {
      if (batch.length >= GROUPS_MAX) break
      this.#urgent.delete(source)
      this.#due.delete(source)
      const group = source.take()
      if (group) batch.push({ group, done: (outcome) => source.committed(outcome) })
    }
    return batch
  }

  async #commit(batch: Entry[]): Promise<void> {
    this.#inFlight = true
    this.#busySince ??= Date.now()
    const started = performance.now()
    let outcomes: Outcome[]
    try {
      outcomes = await this.#applyAll(batch.map((entry) => entry.group))
    } catch (error) {
      this.#putBack(batch, error)
      return
    }
    this.#inFlight = false
    this.#attempts = 0
    this.#busySince = null
    this.#stretchWindow(performance.now() - started)
    for (const [index, entry] of batch.entries()) entry.done(outcomes[index]!)
    if (this.#calls.length || this.#urgent.size) this.#flushSoon()
    else this.#settleIdle()
  }

  /**
   * A failure that is not of the moment is about one group, e.g. one that cannot cross to the writer. They are tried one by one,
   * so that it fails alone and does not block all others for ever.
   */
  async #applyAll(groups: readonly Group[]): Promise<Outcome[]> {
    try {
      return await this.#apply(groups)
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      this.#onTrouble(error, 1)
      const outcomes: Outcome[] = []
      for (const group of groups) outcomes.push(await this.#applyAlone(group))
      return outcomes
    }
  }

  /** One group by itself, until the store has taken or refused it: what was applied before it must not be handed over again. */
  async #applyAlone(group: Group): Promise<Outcome> {
    for (;;) {
      try {
        return (await this.#apply([group]))[0]!
      } catch (error) {
        if (!(error instanceof StoreUnavailable))
          return { ok: false, message: error instanceof Error ? error.message : String(error) }
        this.#onTrouble(error, 1)
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS_MAX))
      }
    }
  }

  /** Nothing was written: the batch stays in front. */
  #putBack(batch: Entry[], error: unknown): void {
    this.#inFlight = false
    this.#held = batch
    this.#attempts++
    this.#onTrouble(error, this.#attempts)
    const wait = Math.min(RETRY_MS_FIRST * 2 ** (this.#attempts - 1), RETRY_MS_MAX)
    this.#retry = setTimeout(() => {
      this.#retry = null
      this.#held = null
      void this.#commit(batch)
    }, wait)
  }

  #stretchWindow(commitMs: number): void {
    const { flushMs, flushMsMax } = this.#options
    this.#windowMs = Math.min(flushMsMax, Math.max(flushMs, commitMs * WINDOW_TO_COMMIT))
  }

  #settleIdle(): void {
    if (!this.#isIdle()) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Gives up what is held: for the end of the process, when the store takes nothing any more. */
  stop(): void {
    if (this.#retry) clearTimeout(this.#retry)
    if (this.#window) clearTimeout(this.#window)
    if (this.#soon) clearImmediate(this.#soon)
  }
}

/** The user argument is resolved where the request's user is known: the writer thread has none [Auth 7]. */
function resolveUser(op: Op): Op {
  if (!OWNED_OPS.has(op.name)) return op
  // All of OWNED_OPS have the member `user`, which others use for something else.
  const { user } = op as { readonly user?: UserArg }
  return { ...op, user: ownerOf(user, op.name) } as Op
}
