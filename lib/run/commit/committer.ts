// The one committer of the process: writes what all run actors and requests hand over, as one transaction at a time.
//
// A request's write is urgent: its batch starts as soon as a turn of the loop brings no more of them, a few milliseconds later at
// most, or when the batch under way is done. Frames and traces wait for the window, which opens with the first that is due and is
// stretched when commits take long, so that the writer is busy a quarter of the time at most. A batch that the store does not take
// stays in front and is tried again until it does. When that takes too long the store is stuck: requests are refused, what runs have
// to say waits on.
import { Failure } from '../../errors.ts'
import { withoutUser } from '../../scope.ts'
import type { Group, Op, OpName, OpOf, Outcome, Result, Writer } from '../../store/store.ts'
import { StoreUnavailable } from '../../store/store.ts'

/** Who buffers records of its own and hands them over when the committer is ready for them: a run actor. */
export interface Source {
  /** The committer's: it waits for the window. Set by every append, and a set of hundreds is dearer. */
  isWaiting: boolean
  /** About the bytes of what `take` would answer. */
  readonly pendingBytes: number
  /** Everything buffered so far; null: nothing after all. */
  take(): Group | null
  /** What became of the group taken last; refused also when taking it has failed. */
  committed(outcome: Outcome): void
}

/** Who is told of every transaction, and has no say in it. */
export interface CommitObserver {
  written(groups: readonly Group[], outcomes: readonly Outcome[], ms: number): void
  /** Nothing was written. */
  failed(error: unknown): void
}

export interface CommitterOptions {
  readonly observers?: readonly CommitObserver[]
  /** The window for frames, in ms. */
  readonly flushMs: number
  /** To what it may be stretched, in ms. */
  readonly flushMsMax?: number
  /** How long a store that is slow or locked is waited for before it counts as stuck, in ms. Default 30,000. */
  readonly stuckAfterMs?: number
  /** The same for one that fails: nobody but its administrator can help. In ms, default 1,000. */
  readonly downAfterMs?: number
  /** How old what runs have said may become before agents wait for the store, in ms; 0: as old as it likes. Default 2,000. */
  readonly unstoredMs?: number
  /** What the store knows of a batch that it has not answered yet. */
  readonly troubleOf?: () => StoreUnavailable | null
  readonly onTrouble?: (error: unknown, attempts: number) => void
  /** The batch in front was written after all, after that many attempts in vain. */
  readonly onRecovered?: (attempts: number) => void
  /** A source has thrown, which none may: its records are refused. */
  readonly onBroken?: (error: unknown) => void
}

/** Whether a write waits for a stuck store as long as it takes, or is refused then: who asked for it tries again. */
export type WaitForStore = 'endless' | 'limited'

/** Groups in one transaction at most: a longer one would keep requests waiting behind frames. */
const GROUPS_MAX = 512
/** Of them for requests, while runs wait as well: a flood of requests must not keep the ends of runs waiting. */
const CALLS_MAX = GROUPS_MAX / 2
/**
 * Bytes of what runs have to say in one transaction, about, and one run's more: when the store does not keep up all of them have
 * much, and one transaction of it would keep requests waiting, and the log of the database from being used again.
 */
const BATCH_BYTES = 8 * 1024 * 1024
/** A window is at least this many times as long as the last commit took. */
const WINDOW_TO_COMMIT = 3
const RETRY_MS_FIRST = 50
const RETRY_MS_MAX = 1000
const RETRY_AFTER_S = 5
/** For how long a burst of requests is waited for that come at once, in ms. */
const BURST_MS = 2
/**
 * Requests that hear their outcome in one turn of the loop. What each does then, such as to begin a run, is done before the next ones
 * hear theirs; told all at once, the first of a burst would have its first frame with the last.
 */
const ACKS_A_TURN = 8
/** How often it is looked whether a batch under way has become one that does not come back. */
const WATCH_MS = 250

const nothing = (): void => {}
const DEFAULTS = {
  observers: [],
  flushMsMax: 200,
  stuckAfterMs: 30_000,
  downAfterMs: 1000,
  unstoredMs: 2000,
  troubleOf: () => null,
  onTrouble: nothing,
  onRecovered: nothing,
  onBroken: nothing
}

interface Entry {
  readonly group: Group
  /** A request waits for it. */
  readonly isCall?: boolean
  done(outcome: Outcome): void
  /** Nobody will write it. Absent: it stays until it is written. */
  rejectPending?(failure: Failure): void
}

/** What is tried when all that was in front was withdrawn: else nobody would notice that the store takes writes again. */
const PING: Entry = { group: { ops: [{ name: 'store.ping' }] }, done: nothing }

/** A group that the store refused: a constraint, a thread that is gone. */
export class WriteRefused extends Error {}

export class Committer implements Writer {
  readonly #apply: (groups: readonly Group[]) => Promise<Outcome[]>
  readonly #options: Required<CommitterOptions>
  #calls: Entry[] = []
  readonly #urgent = new Set<Source>()
  /** Those that wait for the window, and some that were written meanwhile and do not any more. */
  #scheduled: Source[] = []
  /** The batch that the store has not taken yet; nothing overtakes it. */
  #blockedBatch: Entry[] | null = null
  #inFlight = false
  #attempts = 0
  /** Why the batch in front was not taken. */
  #trouble: StoreUnavailable | null = null
  #busySince: number | null = null
  /** When the oldest source that waits has said so, and of those that the batch under way was taken from; by `performance.now()`. */
  #scheduledSince: number | null = null
  #takenSince: number | null = null
  #takenAt = 0
  #isLate = false
  #windowMs: number
  #window: NodeJS.Timeout | null = null
  #soon: NodeJS.Immediate | null = null
  /** When the urgent batch that comes next was first asked for, and how many waited for it a turn ago. */
  #soonSince = 0
  #waited = 0
  #retry: NodeJS.Timeout | null = null
  #waitingForEmpty: (() => void)[] = []
  /** Requests that are written, and have not heard it yet. */
  readonly #pendingAcks: (() => void)[] = []

  constructor(apply: (groups: readonly Group[]) => Promise<Outcome[]>, options: CommitterOptions) {
    this.#apply = apply
    this.#options = { ...DEFAULTS, ...options }
    this.#windowMs = options.flushMs
  }

  /**
   * Writes one op and answers its result after the commit.
   * @throws WriteRefused when the store refuses it
   * @throws Failure `store_unavailable` with a limited wait, when the store is stuck: then it is not written
   */
  async write<K extends OpName>(op: OpOf<K>, waitForStore: WaitForStore = 'endless'): Promise<Result<K>> {
    // OpOf<K> is a member of Op for every K; the compiler does not see it while K is open, hence the detour.
    const [result] = await this.writeAll([op as unknown as Op], waitForStore)
    // The store answers one result an op, of that op's type.
    return result as Result<K>
  }

  /** Writes ops that belong together: all or none. `owner`: they are a run's, and in whose name [Store 10]. */
  writeAll(ops: readonly Op[], waitForStore: WaitForStore = 'endless', owner?: string): Promise<readonly unknown[]> {
    const { stuck } = this
    if (stuck !== null && waitForStore === 'limited') return Promise.reject(unavailable(stuck))
    return new Promise((resolve, reject) => {
      const done = (outcome: Outcome) =>
        outcome.ok ? resolve(outcome.results) : reject(new WriteRefused(outcome.message))
      const group: Group = { ops, ...(owner !== undefined && { owner }) }
      this.#calls.push({ group, isCall: true, done, ...(waitForStore === 'limited' && { rejectPending: reject }) })
      this.#flushSoon()
    })
  }

  /** `source` has something to write. Urgent: somebody waits for it. */
  schedule(source: Source, urgent: boolean): void {
    if (urgent) {
      this.#scheduledSince ??= performance.now()
      this.#urgent.add(source)
      this.#flushSoon()
      return
    }
    if (source.isWaiting) return
    source.isWaiting = true
    this.#scheduledSince ??= performance.now()
    this.#scheduled.push(source)
    this.#window ??= setTimeout(() => this.#windowOver(), this.#windowMs)
  }

  /** For how long the batch in front has been waiting for the store, in ms; 0: there is none. */
  get waitingMs(): number {
    return this.#busySince === null ? 0 : performance.now() - this.#busySince
  }

  /** How old the oldest is that a run has said and the store has not taken: what a kill would take back, in ms; 0: there is none. */
  get unstoredMs(): number {
    const since = Math.min(
      this.#takenSince ?? Number.POSITIVE_INFINITY,
      this.#scheduledSince ?? Number.POSITIVE_INFINITY
    )
    return Number.isFinite(since) ? performance.now() - since : 0
  }

  /** It is older than it may be: agents wait. Looked at while a batch is under way, so that nobody asks the clock for every delta. */
  get isLate(): boolean {
    return this.#isLate
  }

  #checkAge(): void {
    const { unstoredMs } = this.#options
    this.#isLate = unstoredMs > 0 && this.unstoredMs > unstoredMs
  }

  /** Writes and sources that wait for their turn. */
  get size(): number {
    return (
      this.#calls.length +
      this.#urgent.size +
      this.#scheduled.filter(isWaiting).length +
      (this.#blockedBatch?.length ?? 0)
    )
  }

  /** Why the store has taken nothing for too long; null: it takes what comes, or is only slow. */
  get stuck(): string | null {
    const { stuckAfterMs, downAfterMs, troubleOf } = this.#options
    const trouble = this.#trouble ?? troubleOf()
    const isDown = trouble !== null && !trouble.passes
    if (this.waitingMs <= (isDown ? Math.min(downAfterMs, stuckAfterMs) : stuckAfterMs)) return null
    return trouble?.message ?? 'it does not answer'
  }

  /** Resolves when nothing waits to be written any more: for the end of the process, when nobody hands over more. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#waitingForEmpty.push(resolve)
      this.#flushSoon()
    })
  }

  /** Who waits for an empty queue waits for no window. */
  #checkEmpty(): void {
    if (this.#waitingForEmpty.length === 0) return
    this.#promoteDue()
    if (this.size > 0) return this.#flushSoon()
    for (const resolve of this.#waitingForEmpty.splice(0)) resolve()
  }

  #windowOver(): void {
    this.#window = null
    this.#promoteDue()
    this.#flush()
  }

  #promoteDue(): void {
    for (const source of this.#scheduled) if (source.isWaiting) this.#urgent.add(source)
    this.#scheduled = []
  }

  #flushSoon(): void {
    if (this.#inFlight || this.#blockedBatch) return
    // Not as the user of the request that woke it: what is written, and told afterwards, is everybody's.
    if (this.#soon) return
    this.#soonSince = performance.now()
    this.#waited = 0
    this.#soon = withoutUser(() => setImmediate(() => this.#turnOver()))
  }

  /** As long as each turn brings more, they are waited for: a burst is one transaction, not one each. */
  #turnOver(): void {
    const waiting = this.#calls.length + this.#urgent.size
    if (waiting > this.#waited && performance.now() - this.#soonSince < BURST_MS) {
      this.#waited = waiting
      this.#soon = setImmediate(() => this.#turnOver())
      return
    }
    this.#soon = null
    this.#flush()
  }

  #flush(): void {
    if (this.#inFlight || this.#blockedBatch) return
    const batch = this.#take()
    if (batch.length) void this.#commit(batch)
    else this.#checkEmpty()
  }

  /** The next batch: calls in their order, then sources, neither of which can keep the other out. */
  #take(): Entry[] {
    const batch = this.#calls.splice(0, Math.max(CALLS_MAX, GROUPS_MAX - this.#urgent.size))
    let bytes = 0
    for (const source of this.#urgent) {
      if (batch.length >= GROUPS_MAX || bytes >= BATCH_BYTES) break
      bytes += source.pendingBytes
      this.#urgent.delete(source)
      source.isWaiting = false
      const group = this.#takeFrom(source)
      if (group) batch.push({ group, done: (outcome) => source.committed(outcome) })
    }
    if (batch.length) this.#takenSince = this.#scheduledSince
    // What is left came behind the batch before this one, or it would have been in that.
    this.#scheduledSince = this.#urgent.size + this.#scheduled.length === 0 ? null : this.#takenAt
    this.#takenAt = performance.now()
    return batch
  }

  #takeFrom(source: Source): Group | null {
    try {
      return source.take()
    } catch (error) {
      this.#options.onBroken(error)
      this.#ack((outcome) => source.committed(outcome), refusal(error))
      return null
    }
  }

  async #commit(batch: Entry[]): Promise<void> {
    this.#inFlight = true
    this.#busySince ??= performance.now()
    const started = performance.now()
    const watch = setInterval(() => {
      this.#checkAge()
      this.#refuseWaiting()
    }, WATCH_MS)
    try {
      const outcomes = await this.#write(batch.map(({ group }) => group))
      this.#takenSince = null
      this.#isLate = false
      this.#acknowledge(batch, outcomes)
    } catch (error) {
      if (error instanceof StoreUnavailable) return this.#putBack(batch, error)
      this.#options.onTrouble(error, 1)
      if (!(await this.#commitOneByOne(batch))) return
    } finally {
      clearInterval(watch)
    }
    this.#stretchWindow(performance.now() - started)
    this.#written()
  }

  async #write(groups: readonly Group[]): Promise<readonly Outcome[]> {
    const began = performance.now()
    try {
      const outcomes = await this.#apply(groups)
      this.#tellObservers((one) => one.written(groups, outcomes, performance.now() - began))
      return outcomes
    } catch (error) {
      this.#tellObservers((one) => one.failed(error))
      throw error
    }
  }

  /** What is written is written, whatever an observer makes of it. */
  #tellObservers(tell: (one: CommitObserver) => void): void {
    try {
      this.#options.observers.forEach(tell)
    } catch (error) {
      this.#options.onBroken(error)
    }
  }

  /**
   * A failure that is not of the moment is about one group, e.g. one that cannot cross to the writer. Alone it is found, and fails
   * without blocking all others for ever. False: the store has become unavailable meanwhile, and the rest is put back.
   */
  async #commitOneByOne(batch: readonly Entry[]): Promise<boolean> {
    for (const [index, entry] of batch.entries()) {
      try {
        const [outcome] = await this.#write([entry.group])
        this.#ack(entry.done, outcome!)
      } catch (error) {
        if (error instanceof StoreUnavailable) {
          this.#putBack(batch.slice(index), error)
          return false
        }
        this.#ack(entry.done, refusal(error))
      }
    }
    return true
  }

  /** Runs hear their outcome at once, requests a few a turn and in their order. */
  #acknowledge(batch: readonly Entry[], outcomes: readonly Outcome[]): void {
    const isTelling = this.#pendingAcks.length > 0
    for (const [index, { isCall, done }] of batch.entries()) {
      const tell = () => this.#ack(done, outcomes[index]!)
      if (isCall) this.#pendingAcks.push(tell)
      else tell()
    }
    if (!isTelling) this.#ackSome()
  }

  #ackSome(): void {
    for (const tell of this.#pendingAcks.splice(0, ACKS_A_TURN)) tell()
    if (this.#pendingAcks.length) setImmediate(() => this.#ackSome())
  }

  /** Who cannot hear its outcome must not keep the others from hearing theirs. */
  #ack(done: Entry['done'], outcome: Outcome): void {
    try {
      done(outcome)
    } catch (error) {
      this.#options.onBroken(error)
    }
  }

  #written(): void {
    const attempts = this.#attempts
    this.#inFlight = false
    this.#takenSince = null
    this.#isLate = false
    this.#attempts = 0
    this.#trouble = null
    this.#busySince = null
    if (attempts) this.#options.onRecovered(attempts)
    this.#checkEmpty()
    if (this.#calls.length || this.#urgent.size) this.#flushSoon()
  }

  /** Nothing was written: the batch stays in front. */
  #putBack(batch: Entry[], error: StoreUnavailable): void {
    this.#inFlight = false
    this.#attempts++
    this.#trouble = error
    this.#checkAge()
    this.#options.onTrouble(error, this.#attempts)
    const { stuck } = this
    this.#blockedBatch = stuck === null ? batch : this.#rejectPending(batch, unavailable(stuck))
    const wait = Math.min(RETRY_MS_FIRST * 2 ** (this.#attempts - 1), RETRY_MS_MAX)
    this.#retry = setTimeout(() => {
      this.#retry = null
      const held = this.#blockedBatch!
      this.#blockedBatch = null
      void this.#commit(held)
    }, wait)
  }

  /** Requests behind a batch that does not come back try again; those in it may have been written already, and wait. */
  #refuseWaiting(): void {
    const { stuck } = this
    if (stuck !== null) this.#rejectPending([], unavailable(stuck))
  }

  /** Refuses the requests that wait; answers what is left of the batch in front. */
  #rejectPending(batch: readonly Entry[], failure: Failure): Entry[] {
    for (const entry of [...batch, ...this.#calls]) entry.rejectPending?.(failure)
    this.#calls = this.#calls.filter(({ rejectPending: withdraw }) => !withdraw)
    const kept = batch.filter(({ rejectPending: withdraw }) => !withdraw)
    return kept.length ? kept : [PING]
  }

  #stretchWindow(commitMs: number): void {
    const { flushMs, flushMsMax } = this.#options
    this.#windowMs = Math.min(flushMsMax, Math.max(flushMs, commitMs * WINDOW_TO_COMMIT))
  }

  /** Gives up what is held: for the end of the process, when the store takes nothing any more. */
  stop(): void {
    if (this.#retry) clearTimeout(this.#retry)
    if (this.#window) clearTimeout(this.#window)
    if (this.#soon) clearImmediate(this.#soon)
  }
}

function isWaiting(source: Source): boolean {
  return source.isWaiting
}

function refusal(error: unknown): Outcome {
  return { ok: false, message: error instanceof Error ? error.message : String(error) }
}

function unavailable(reason: string): Failure {
  return new Failure('store_unavailable', { reason }, { 'Retry-After': String(RETRY_AFTER_S) })
}
