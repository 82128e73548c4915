// Marks: places in runs from which a translation goes on, so that who comes back to a place far in a run is not translated what he has.
// A mark is a pointer, for states are immutable. A run that nobody reads by a protocol has none.
import { ofHeap } from '../base/budget.ts'

/** A place of a run, and the state of a translation there. */
export interface Mark<State> {
  /** Of the frame that comes next. */
  readonly n: number
  /** Of the frame before it. */
  readonly epoch: number
  /** Of all frames before it: what its state keeps in memory is less. */
  readonly bytes: number
  readonly state: State
}

/** Frames from one mark of a run to the next, at least. */
const APART = 256
/** Marks of a run: of more, every second one goes, and the next ones stand twice as far apart. */
const MARKS_MAX = 64
/** Of all runs and translations together. */
const KEPT_BYTES = ofHeap(32 * 1024 * 1024, 16)

interface Marked {
  readonly runId: string
  /** Those of its translation. */
  readonly among: Map<string, Marked>
  marks: Mark<unknown>[]
  apart: number
}

/** The one that was read longest ago first. */
const kept = new Set<Marked>()
let keptBytes = 0

const bytesOf = ({ marks }: Marked): number => marks.at(-1)?.bytes ?? 0

/** Of one translation, by run. They outlive the log of a run that ends: who comes back then reads another. */
export class Marks<State> {
  readonly #byRun = new Map<string, Marked>()

  /** The last mark of a run that a reader is past: what comes before it he has. null: there is none. */
  find(runId: string, isPast: (mark: Mark<State>) => boolean): Mark<State> | null {
    const marked = this.#byRun.get(runId)
    if (!marked) return null
    kept.delete(marked)
    kept.add(marked)
    // Only this translation's are kept here.
    return (marked.marks as Mark<State>[]).findLast(isPast) ?? null
  }

  /** A reader has come to a place of a run. */
  reached(runId: string, mark: Mark<State>): void {
    const known = this.#byRun.get(runId)
    const { marks, apart } = known ?? { marks: [], apart: APART }
    if (mark.n < (marks.at(-1)?.n ?? 0) + apart) return
    const marked = known ?? this.#begin(runId)
    keptBytes += mark.bytes - bytesOf(marked)
    marked.marks.push(mark)
    if (marked.marks.length > MARKS_MAX) thin(marked)
    makeRoom()
  }

  #begin(runId: string): Marked {
    const marked = { runId, among: this.#byRun, marks: [], apart: APART }
    this.#byRun.set(runId, marked)
    kept.add(marked)
    return marked
  }
}

function thin(marked: Marked): void {
  marked.marks = marked.marks.filter((_, at) => at % 2 === 0)
  marked.apart *= 2
}

function makeRoom(): void {
  for (const marked of kept) {
    if (keptBytes <= KEPT_BYTES) return
    kept.delete(marked)
    marked.among.delete(marked.runId)
    keptBytes -= bytesOf(marked)
  }
}
