// The hand-over: what a run has for the committer, in the order in which it was made, and what that has taken and not answered yet.
//
// Until it is taken, everything stays where it was made: frames in their slabs, events in the journal, checkpoints with the steps.
import type { Group, Op, Settlement } from '../../store/store.ts'
import type { Run } from '../../types.ts'
import type { Journal } from '../log/journal.ts'
import type { RunLog } from '../log/run-log.ts'
import type { StateBuilder } from '../log/state-builder.ts'

/** What the committer has taken. */
export interface InFlightBatch {
  readonly ops: readonly Op[]
  /** n of its last frame; null: it has none. */
  readonly last: number | null
  /** Of its frames. */
  readonly bytes: number
  /** Of its events and checkpoints, about. */
  readonly recordBytes: number
  /** The run's end is in it. */
  readonly settles: boolean
}

/** Where the records of a run are made. */
export interface Sources {
  readonly frames: RunLog
  readonly journal: Journal
  readonly steps: StateBuilder
}

export class Handover {
  readonly #run: Run
  readonly #sources: Sources
  /** In whose name the run is written, where there is more than one process [Store 10]. */
  readonly #owner: string | undefined
  /** Writes that wait; events and frames are added when they are taken. */
  #ops: Op[] = []
  #settlement: Settlement | null = null
  #inFlight: InFlightBatch | null = null

  constructor(run: Run, sources: Sources, owner: string | undefined) {
    this.#run = run
    this.#sources = sources
    this.#owner = owner
  }

  /** What is not stored yet, in bytes; of events and checkpoints about. */
  get pendingBytes(): number {
    return this.#sources.frames.pendingBytes + this.#recordBytes() + (this.#inFlight?.recordBytes ?? 0)
  }

  /** No getter: one that is private costs a call into the engine, and this is asked for every delta. */
  #recordBytes(): number {
    const { journal, steps } = this.#sources
    return journal.pendingBytes + steps.pendingBytes
  }

  /** One more write, before the events and frames of its moment. */
  add(op: Op): void {
    this.#ops.push(op)
  }

  /** The run's end: behind everything else. */
  settle(settlement: Settlement): void {
    this.#settlement = settlement
  }

  /** All that there is, to be written together; null: there is nothing. */
  take(): Group | null {
    const { thread_id, run_id, user_id } = this.#run
    const { frames, journal, steps } = this.#sources
    const recordBytes = this.#recordBytes()
    const ops = [...this.#ops, ...steps.takeOps()]
    this.#ops = []
    const events = journal.takeEvents()
    if (events.length) ops.push({ name: 'events.append', thread_id, run_id, user_id, events })
    const segments = frames.take()
    ops.push(...this.#appends(segments))
    const settlement = this.#settlement
    this.#settlement = null
    if (settlement) ops.push({ name: 'run.settle', ...settlement })
    if (ops.length === 0) return null
    const bytes = segments.reduce((sum, segment) => sum + segment.data.length, 0)
    this.#inFlight = { ops, last: segments.at(-1)?.last ?? null, bytes, recordBytes, settles: settlement !== null }
    return { ops, ...(this.#owner !== undefined && { owner: this.#owner }) }
  }

  /** What was taken is answered for. Null: it could not even be taken. */
  acknowledge(): InFlightBatch | null {
    const flight = this.#inFlight
    this.#inFlight = null
    return flight
  }

  /** Nothing that waits is written any more, but for the frames. */
  drop(): void {
    this.#ops = []
    this.#settlement = null
    this.#sources.steps.takeOps()
    this.#sources.journal.takeEvents()
  }

  /** The frames that wait, to be written beside what the committer is told to write. */
  takeFrames(): Op[] {
    return this.#appends(this.#sources.frames.take())
  }

  #appends(segments: ReturnType<RunLog['take']>): Op[] {
    const { key, thread_id } = this.#run
    return segments.map((segment) => ({ name: 'frames.append', run_key: key, thread_id, segment }))
  }
}
