// The one committer of the process: writes what all run actors and requests hand over, one transaction at a time.
//
// A request's write is urgent: its batch starts as soon as a tick brings no more of them, a few milliseconds later at most, or when the
// batch in flight is done. Frames and traces wait for a window, which opens with the first record and stretches when commits take long, so
// that the writer is busy a quarter of the time at most; the first record behind it takes the others along, or after as long again a timer.
// A batch the store does not take stays in front and is retried until it does. When that takes too long the store is stuck: requests are refused, and runs wait.
import { Failure } from '../../base/errors.ts'
import { withoutUser } from '../../base/scope.ts'
import { inSpan, spans } from '../../base/tracing.ts'
import {
  type Group,
  type Op,
  type OpName,
  type OpOf,
  type Outcome,
  type Result,
  type Writer,
  refusal,
  StoreUnavailable
} from '../../store/store.ts'
import { type Entry, oneByOne, Outage, PING, refuse, unavailable, WriteRefused } from './outage.ts'
import { type CommitterOptions, DEFAULTS, type Source } from './ports.ts'

/** Whether a write waits for a stuck store as long as it takes, or is refused so that its client retries. */
type WaitForStore = 'endless' | 'limited'

/** Groups per transaction: a longer one would keep requests waiting behind frames. */
const GROUPS_MAX = 512
/** How many of those may be requests while runs wait: a flood of requests must not hold up the ends of runs. */
const CALLS_MAX = GROUPS_MAX / 2
/**
 * Soft cap on run data per transaction; one run may exceed it. When the store falls behind, all runs have much to
 * write, and one huge transaction would keep requests waiting and SQLite's WAL from being reset.
 */
const BATCH_BYTES = 8 * 1024 * 1024
/** A window lasts at least this many times as long as the last commit took. */
const WINDOW_TO_COMMIT = 3
const WINDOW_MS_MAX = 200
/** So many windows after the first record its batch starts even if no other record comes: until then the process may sleep. */
const WINDOWS_MAX = 2
const NEVER = Number.POSITIVE_INFINITY
/** How long a burst of requests is collected, in ms. */
const BURST_MS = 2
/**
 * Requests answered per tick. What each does next, such as starting a run, happens before the next ones are answered;
 * answered all at once, the first of a burst would get its first frame with the last.
 */
const ACKS_A_TURN = 8
/** How often a batch in flight is checked for having become stuck. */
const WATCH_MS = 250

export class Committer implements Writer {
  readonly #apply: (groups: readonly Group[]) => Promise<Outcome[]>
  readonly #options: Required<CommitterOptions>
  readonly #outage: Outage
  #calls: Entry[] = []
  readonly #urgent = new Set<Source>()
  /** Sources waiting for the window, and some that were written meanwhile and no longer do. */
  #scheduled: Source[] = []
  #inFlight = false
  /** When the oldest waiting source signalled, and the same for the batch in flight; by `performance.now()`. */
  #scheduledSince: number | null = null
  #takenSince: number | null = null
  #takenAt = 0
  /** The store is late: agents wait. A field, updated while a batch is in flight: it is asked for with every delta. */
  isLate = false
  /** When the store last took a batch, by `performance.now()`. */
  wroteAt = Number.NEGATIVE_INFINITY
  #windowMs: number
  /** When the window has lasted long enough, by `performance.now()`; infinite: none is open. */
  #windowEnd = NEVER
  /** Ends it if nothing else wakes the process by then. */
  #window: NodeJS.Timeout | null = null
  #watch: NodeJS.Timeout | null = null
  #soon: NodeJS.Immediate | null = null
  /** When the next urgent batch was first asked for, and how many writes it had one tick ago. */
  #soonSince = 0
  #waited = 0
  #isStopped = false
  #waitingForEmpty: (() => void)[] = []
  /** Requests that are written but not answered yet. */
  readonly #pendingAcks: (() => void)[] = []

  constructor(apply: (groups: readonly Group[]) => Promise<Outcome[]>, options: CommitterOptions) {
    this.#apply = apply
    this.#options = { ...DEFAULTS, ...options }
    this.#windowMs = options.flushMs
    this.#outage = new Outage(this.#options)
  }

  /**
   * Writes one op and answers its result after the commit.
   * @throws WriteRefused when the store refuses it
   * @throws Failure `held` when it would delete what a legal hold keeps
   * @throws Failure `store_unavailable` with a limited wait, when the store is stuck: then it is not written
   */
  async write<K extends OpName>(op: OpOf<K>, waitForStore: WaitForStore = 'endless'): Promise<Result<K>> {
    // OpOf<K> is a member of Op for every K; the compiler does not see it while K is open, hence the detour.
    const [result] = await this.writeAll([op as unknown as Op], waitForStore)
    // The store answers one result an op, of that op's type.
    return result as Result<K>
  }

  /** Writes ops atomically. `owner`: the process that owns their run [Store 10]. */
  writeAll(ops: readonly Op[], waitForStore: WaitForStore = 'endless', owner?: string): Promise<readonly unknown[]> {
    const { stuck } = this
    if (stuck !== null && waitForStore === 'limited') return Promise.reject(unavailable(stuck))
    return new Promise((resolve, reject) => {
      const done = (outcome: Outcome) =>
        outcome.ok
          ? resolve(outcome.results)
          : reject(outcome.isHeld ? new Failure('held') : new WriteRefused(outcome.message))
      const group: Group = { ops, ...(owner !== undefined && { owner }) }
      this.#calls.push({ group, isCall: true, done, ...(waitForStore === 'limited' && { rejectPending: reject }) })
      this.#flushSoon()
    })
  }

  /** `source` has something to write. Urgent: a request or the end of a run waits for it. */
  schedule(source: Source, urgent: boolean): void {
    if (urgent) {
      this.#scheduledSince ??= performance.now()
      this.#urgent.add(source)
      this.#flushSoon()
      return
    }
    const now = performance.now()
    if (!source.isWaiting) {
      source.isWaiting = true
      this.#scheduledSince ??= now
      this.#scheduled.push(source)
      if (this.#windowEnd === NEVER) this.#openWindow(now)
    }
    if (now < this.#windowEnd) return
    // In the turn of a delta: a timer would wake the process once more for the same records.
    this.#promoteDue()
    this.#flushSoon()
  }

  #openWindow(now: number): void {
    this.#windowEnd = now + this.#windowMs
    if (this.#window) this.#window.refresh()
    else this.#window = setTimeout(this.#windowOver, this.#options.flushMs * WINDOWS_MAX)
  }

  /** How long the batch in front has been waiting for the store, in ms; 0: there is none. */
  get waitingMs(): number {
    return this.#outage.waitingMs
  }

  /** Age of the oldest record the store has not taken, in ms: what a kill would lose. 0: there is none. */
  get unstoredMs(): number {
    const since = Math.min(this.#takenSince ?? NEVER, this.#scheduledSince ?? NEVER)
    return since === NEVER ? 0 : performance.now() - since
  }

  #checkAge(): void {
    const { unstoredMs } = this.#options
    this.isLate = unstoredMs > 0 && this.unstoredMs > unstoredMs
  }

  get size(): number {
    const waiting = this.#urgent.size + this.#scheduled.filter((source) => source.isWaiting).length
    return this.#calls.length + waiting + (this.#outage.batch?.length ?? 0)
  }

  /** Why the store has taken nothing for too long; null: it is fine, or just slow. */
  get stuck(): string | null {
    return this.#outage.stuck
  }

  /** Resolves when the queue is empty: for shutdown, when nobody hands over more. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#waitingForEmpty.push(resolve)
      this.#flushSoon()
    })
  }

  /** Waiting for an empty queue waits for no window. */
  #checkEmpty(): void {
    if (this.#waitingForEmpty.length === 0) return
    this.#promoteDue()
    if (this.size > 0) return this.#flushSoon()
    // Sources that were written before their window was over.
    this.#scheduledSince = null
    for (const resolve of this.#waitingForEmpty.splice(0)) resolve()
  }

  readonly #windowOver = (): void => {
    // It has stretched meanwhile, or another one has opened.
    const leftMs = this.#windowEnd - performance.now()
    this.#window = null
    if (this.#windowEnd === NEVER) return
    if (leftMs >= 1) {
      this.#window = setTimeout(this.#windowOver, leftMs)
      return
    }
    this.#promoteDue()
    this.#flush()
  }

  #promoteDue(): void {
    this.#windowEnd = NEVER
    for (const source of this.#scheduled) if (source.isWaiting) this.#urgent.add(source)
    this.#scheduled = []
  }

  #flushSoon(): void {
    if (this.#inFlight || this.#outage.batch) return
    // Outside the current user's scope: the batch is not any one user's.
    if (this.#soon) return
    this.#soonSince = performance.now()
    this.#waited = 0
    this.#soon = withoutUser(() => setImmediate(() => this.#turnOver()))
  }

  /** Waits as long as each tick brings more: a burst is one transaction, not many. */
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
    if (this.#inFlight || this.#outage.batch) return
    const batch = this.#take()
    if (batch.length) this.#commit(batch).catch(this.#options.onBroken)
    else this.#checkEmpty()
  }

  /** The next batch: calls in order, then sources, so that neither can starve the other. */
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
    // What is left arrived after the previous batch, or it would have been in it.
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
    this.#outage.since ??= performance.now()
    const started = performance.now()
    if (this.#watch) this.#watch.refresh().ref()
    else this.#watch = setTimeout(this.#onWatch, WATCH_MS)
    try {
      const outcomes = await this.#write(batch.map(({ group }) => group))
      this.#takenSince = null
      this.isLate = false
      this.#acknowledge(batch, outcomes)
    } catch (error) {
      if (error instanceof StoreUnavailable) return this.#putBack(batch, error)
      this.#options.onTrouble(error, 1)
      const write = async ({ group }: Entry) => (await this.#write([group]))[0]!
      const left = await oneByOne(batch, write, ({ done }, outcome) => this.#ack(done, outcome))
      if (left) return this.#putBack(left.batch, left.error)
    } finally {
      // Only a batch in flight keeps the process alive.
      this.#watch?.unref()
    }
    this.#written(performance.now() - started)
  }

  /** One timer for all batches: the last of them leaves it behind. */
  readonly #onWatch = (): void => {
    this.#watch = null
    if (!this.#inFlight) return
    this.#checkAge()
    this.#refuseWaiting()
    this.#watch = setTimeout(this.#onWatch, WATCH_MS)
  }

  async #write(groups: readonly Group[]): Promise<readonly Outcome[]> {
    const began = performance.now()
    try {
      const outcomes = await (spans.begin
        ? inSpan('commit', { groups: groups.length }, () => this.#apply(groups))
        : this.#apply(groups))
      this.wroteAt = performance.now()
      this.#notifyWritten(groups, outcomes, this.wroteAt - began)
      return outcomes
    } catch (error) {
      for (const one of this.#options.observers) one.failed?.(error)
      throw error
    }
  }

  /** A throwing observer does not undo a commit. */
  #notifyWritten(groups: readonly Group[], outcomes: readonly Outcome[], ms: number): void {
    try {
      for (const one of this.#options.observers)
        if (!one.ops || hasOpOf(groups, one.ops)) one.written?.(groups, outcomes, ms)
    } catch (error) {
      this.#options.onBroken(error)
    }
  }

  /** Runs are answered at once, requests a few per tick and in order. */
  #acknowledge(batch: readonly Entry[], outcomes: readonly Outcome[]): void {
    const isAnswering = this.#pendingAcks.length > 0
    for (const [index, { isCall, done }] of batch.entries()) {
      if (isCall) this.#pendingAcks.push(() => this.#ack(done, outcomes[index]!))
      else this.#ack(done, outcomes[index]!)
    }
    if (!isAnswering && this.#pendingAcks.length > 0) this.#ackSome()
  }

  #ackSome(): void {
    for (const tell of this.#pendingAcks.splice(0, ACKS_A_TURN)) tell()
    if (this.#pendingAcks.length) setImmediate(() => this.#ackSome())
  }

  /** A source that throws must not keep the others from being answered. */
  #ack(done: Entry['done'], outcome: Outcome): void {
    try {
      done(outcome)
    } catch (error) {
      this.#options.onBroken(error)
    }
  }

  #written(ms: number): void {
    this.#windowMs = Math.min(WINDOW_MS_MAX, Math.max(this.#options.flushMs, ms * WINDOW_TO_COMMIT))
    this.#inFlight = false
    this.#takenSince = null
    this.isLate = false
    this.#outage.since = null
    if (this.#outage.attempts > 0) this.#outage.end()
    if (this.#waitingForEmpty.length > 0) this.#checkEmpty()
    if (this.#calls.length || this.#urgent.size) this.#flushSoon()
  }

  /** Nothing was written: the batch stays in front. */
  #putBack(batch: Entry[], error: StoreUnavailable): void {
    this.#inFlight = false
    this.#outage.begin(error)
    this.#checkAge()
    this.#options.onTrouble(error, this.#outage.attempts)
    // The store is closed by now, and would never take it.
    if (this.#isStopped) return void this.#rejectPending(batch, unavailable(error.message))
    const { stuck } = this
    this.#outage.hold(stuck === null ? batch : this.#rejectPending(batch, unavailable(stuck)), (held) =>
      this.#commit(held).catch(this.#options.onBroken)
    )
  }

  /** Requests behind a stuck batch are refused and retried by their clients; those in it may have been written already, and wait. */
  #refuseWaiting(): void {
    const { stuck } = this
    if (stuck !== null) this.#rejectPending([], unavailable(stuck))
  }

  /** Refuses queued requests; returns what is left of the batch in front. */
  #rejectPending(batch: readonly Entry[], failure: Failure): Entry[] {
    const kept = refuse(batch, failure)
    this.#calls = refuse(this.#calls, failure)
    return kept.length ? kept : [PING]
  }

  /** Drops everything queued: for shutdown, when the store takes nothing any more. */
  stop(): void {
    this.#isStopped = true
    this.#outage.stop()
    if (this.#window) clearTimeout(this.#window)
    if (this.#watch) clearTimeout(this.#watch)
    if (this.#soon) clearImmediate(this.#soon)
  }
}

function hasOpOf(groups: readonly Group[], names: ReadonlySet<OpName>): boolean {
  for (const { ops } of groups) for (const { name } of ops) if (names.has(name)) return true
  return false
}
