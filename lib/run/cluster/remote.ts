// A run of another process as its readers here see it: what is stored of its log, as it is stored.
//
// It is read once for all readers, whenever the owner says that there is more (or a look at the database does), and kept in memory as
// an actor keeps its frames: readers at one place share the bytes, those behind read the store by themselves. A reader that has seen
// more on the owner's side than is stored waits until that is stored as well, or turns out never to be.
import { type Run, isInFlight } from '../../types.ts'
import type { Wire } from '../../wire.ts'
import { type Filter, Kind } from '../log/filter.ts'
import { FrameLog, framesOf, type RawFrame, type Slice } from '../log/frames.ts'
import { Joiner, type Leaving, type LogView, type Reader } from '../delivery/joiner.ts'
import { Reads } from '../log/reads.ts'
import { SLICE_BYTES, Slices } from '../log/slices.ts'
import type { Snapshot } from '../delivery/snapshot.ts'
import { type Extent, nextAfter, nextStored, type Position } from '../delivery/sse.ts'
import type { Segment, Store } from '../../store/store.ts'
import { gapBytes, readStored, valuesStored } from '../log/view.ts'

export interface RemoteDeps {
  readonly store: Pick<Store, 'runs' | 'frames' | 'checkpoints'>
  /** Stored frames that stay in memory, in bytes. */
  readonly windowBytes: number
  readonly onJoinerLeft: (joiner: Joiner) => void
  /** The last reader has gone, or nobody waits any more. */
  readonly onIdle: () => void
  readonly onTrouble: (error: unknown) => void
}

export class RemoteRun implements LogView {
  readonly #deps: RemoteDeps
  #run: Run
  #log: FrameLog
  #epochs: Extent['epochs']
  readonly #slices = new Slices()
  readonly #reads = new Reads()
  readonly #joiners = new Set<Joiner>()
  /** Readers of which it is not known yet where they stand. */
  readonly #unplaced = new Map<Joiner, Position | Snapshot>()
  /** States of the values frames in memory, in the order of the log. */
  readonly #values = new Map<string, { readonly n: number; readonly json: string }>()
  #isClosed = false
  #isGone = false
  /** A read of the store is under way; what was asked for meanwhile. */
  #reading: Promise<void> | null = null
  #wanted: { isOver: boolean } | null = null
  #waitingForEnd: ((isStored: boolean) => void)[] = []
  /** Who runs it, as far as is known, and whether that one was told that we follow. */
  owner: string | null = null

  private constructor(run: Run, extent: Extent, deps: RemoteDeps) {
    this.#run = run
    this.#deps = deps
    this.#epochs = extent.epochs
    this.#log = new FrameLog(extent.epochs.at(-1)?.epoch ?? 0, deps.windowBytes, extent.head)
  }

  /** With what is stored of it now. */
  static async open(run: Run, deps: RemoteDeps): Promise<RemoteRun> {
    const bounds = await deps.store.frames.bounds(run.key)
    return new RemoteRun(run, { epochs: bounds?.epochs ?? [], head: bounds ? bounds.last + 1 : 0 }, deps)
  }

  get run(): Run {
    return this.#run
  }
  get joiners(): ReadonlySet<Joiner> {
    return this.#joiners
  }
  /** Somebody reads it, or waits for its end. */
  get isWanted(): boolean {
    return this.#joiners.size > 0 || this.#waitingForEnd.length > 0
  }

  // ------------------------------------------------------------------------------------------------- readers

  /** Attaches a reader after a position, or one that begins with a snapshot. */
  join(wire: Wire, filter: Filter, start: Position | Snapshot, reader: Reader, onLeave: (why: Leaving) => void): void {
    const left = (joiner: Joiner, why: Leaving) => {
      this.#joiners.delete(joiner)
      this.#unplaced.delete(joiner)
      this.#deps.onJoinerLeft(joiner)
      onLeave(why)
      if (!this.isWanted) this.#deps.onIdle()
    }
    const joiner = new Joiner(wire, this, filter, null, reader, left)
    this.#joiners.add(joiner)
    this.#unplaced.set(joiner, start)
    this.#deliver()
  }

  #startOf(start: Position | Snapshot): number | Snapshot | null {
    return start !== null && 'bytes' in start ? start : this.placeOf(start)
  }

  /** n of the first frame for who has come so far; null: that is not known yet. */
  placeOf(position: Position): number | null {
    const extent = { epochs: this.#epochs, head: this.head }
    return this.#isClosed ? nextAfter(position, extent) : nextStored(position, extent, this.#run.status === 'pending')
  }

  /** Resolves with true when the run has ended and all of it is known here; with false when that will not be told here. */
  ended(): Promise<boolean> {
    if (this.#isClosed || this.#isGone) return Promise.resolve(this.#isClosed)
    return new Promise((resolve) => this.#waitingForEnd.push(resolve))
  }

  /** Who follows it here is sent away: it comes back and finds out. */
  drop(): void {
    this.#isGone = true
    for (const joiner of [...this.#joiners]) joiner.reset()
    this.#tellEnd(false)
  }

  #tellEnd(isStored: boolean): void {
    for (const resolve of this.#waitingForEnd.splice(0)) resolve(isStored)
    if (!this.isWanted) this.#deps.onIdle()
  }

  // ------------------------------------------------------------------------------------- what the owner has stored

  /** There is more in the store; `isOver`: the run has ended, or its row has to be looked at. */
  async refresh(isOver: boolean): Promise<void> {
    if (this.#isClosed || this.#isGone) return
    this.#wanted = { isOver: isOver || this.#wanted?.isOver === true }
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null
    })
    await this.#reading
  }

  async #readAll(): Promise<void> {
    try {
      while (this.#wanted && !this.#isGone) {
        const { isOver } = this.#wanted
        this.#wanted = null
        // The row before the frames: what belongs to its status is stored with it.
        const run =
          isOver || this.#run.status === 'pending' ? await this.#deps.store.runs.get(this.#run.run_id, null) : this.#run
        if (!run) return this.#removed()
        this.#run = run
        await this.#readFrames()
        if (isInFlight(run)) this.#deliver()
        else this.#close()
      }
    } catch (error) {
      // Asked again by the next look.
      this.#deps.onTrouble(error)
    }
  }

  async #readFrames(): Promise<void> {
    for (;;) {
      const segments = await readStored(this.#deps.store, this.#run, this.head)
      if (segments.length === 0) return
      for (const segment of segments) await this.#take(segment)
      this.#deliver()
    }
  }

  async #take(segment: Segment): Promise<void> {
    const states = await this.#statesOf(segment)
    if (segment.epoch !== this.#log.epoch) this.#beginEpoch(segment)
    if (states && segment.first === this.head) {
      for (const [id, state] of states) this.#values.set(id, state)
      this.#log.appendStored(segment)
      this.#forgetValues()
    } else {
      // A hole, or a state that is gone: whoever reads that is told by the store.
      this.#log = new FrameLog(segment.epoch, this.#deps.windowBytes, segment.last + 1)
      this.#values.clear()
    }
  }

  /** Another process has taken the run over, or has begun it. */
  #beginEpoch({ epoch, first }: Segment): void {
    this.#epochs = [...this.#epochs.filter((one) => one.epoch !== epoch), { epoch, first }]
    this.#log = new FrameLog(epoch, this.#deps.windowBytes, this.head)
    this.#values.clear()
  }

  /** Of the values frames in it; null: one is not to be had. */
  async #statesOf(segment: Segment): Promise<Map<string, { n: number; json: string }> | null> {
    const states = new Map<string, { n: number; json: string }>()
    for (const { kind, n, bytes } of framesOf(segment)) {
      if (kind !== Kind.values) continue
      const id = bytes.toString('latin1')
      const json = await valuesStored(this.#deps.store, this.#run, id)
      if (json === null) return null
      states.set(id, { n, json })
    }
    return states
  }

  #forgetValues(): void {
    for (const [id, { n }] of this.#values) {
      if (n >= this.first) return
      this.#values.delete(id)
    }
  }

  #close(): void {
    this.#isClosed = true
    this.#deliver()
    // Who is still behind reads the store.
    this.#log = new FrameLog(this.#log.epoch, 0, this.head)
    this.#values.clear()
    this.#slices.clear()
    this.#tellEnd(true)
  }

  /** Its thread was deleted: there is nothing to come back to, and no end to wait for. */
  #removed(): void {
    this.#isGone = true
    for (const joiner of [...this.#joiners]) joiner.reset()
    this.#tellEnd(true)
  }

  #deliver(): void {
    for (const [joiner, start] of this.#unplaced) {
      const place = this.#startOf(start)
      if (place === null) continue
      this.#unplaced.delete(joiner)
      joiner.begin(place)
    }
    for (const joiner of this.#joiners) joiner.pump()
  }

  // ---------------------------------------------------------------------------------------------- as a log

  get head(): number {
    return this.#log.head
  }
  get first(): number {
    return this.#log.first
  }
  get isClosed(): boolean {
    return this.#isClosed
  }

  slice(from: number, filter: Filter): Slice {
    const { head } = this
    return this.#slices.get(from, head, filter, () =>
      this.#log.slice(from, filter, (id) => this.valuesInMemory(id), SLICE_BYTES, head)
    )
  }
  frames(from: number): Iterable<RawFrame> {
    return this.#log.frames(from)
  }
  valuesInMemory(id: string): string | null {
    return this.#values.get(id)?.json ?? null
  }
  readStored(from: number): Promise<readonly Segment[]> {
    return this.#reads.get(from, () => readStored(this.#deps.store, this.#run, from))
  }
  valuesStored(id: string): Promise<string | null> {
    return valuesStored(this.#deps.store, this.#run, id)
  }
  gapBytes(from: number): Promise<Buffer> {
    return gapBytes(this.#deps.store, this.#run, from)
  }
}
