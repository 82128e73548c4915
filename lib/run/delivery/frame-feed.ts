// One run as a reader of the whole thread sees it: the frames of its modes, each with the run's place in the thread
// before its own position, and a last one that says the run is done.
import type { Run } from '../../base/types.ts'
import type { Filter } from '../log/filter.ts'
import type { RunLog } from '../log/run-log.ts'
import { cursorText, frameText, type Position, readPosition, stopError, bit, Kind } from '../log/frame.ts'
import type { Loaded } from '../log/stored-frames.ts'
import { filterFor } from '../run-kwargs.ts'
import { Accumulator } from './accumulator.ts'
import type { Fed, RunFeed } from './thread-reader.ts'

/** Only the starts and ends of runs. */
const LIFECYCLE: Filter = { mask: bit(Kind.metadata) | bit(Kind.error), accumulate: false }

/** A reader's position in a thread: in which run, and where in it. */
export interface ThreadPosition {
  readonly ordinal: number
  readonly position: Position
}

/** Parses the `Last-Event-ID` of a thread stream. null: not one of ours. */
export function readThreadPosition(text: string): ThreadPosition | null {
  const [, ordinal, cursor] = /^(\d{1,9}):(\d{1,16}-\d{1,15})$/.exec(text.trim()) ?? []
  return ordinal === undefined ? null : { ordinal: Number(ordinal), position: readPosition(cursor) }
}

/** How a reader of several runs sees one. */
interface FeedOptions {
  /** null: the modes the run was created with; `lifecycle`: only its start and its end. */
  readonly modes: readonly string[] | 'lifecycle' | null
  /** Stands before the position of each frame. */
  readonly prefix: string
}

/** Readers at the same position share these bytes, by what stands before it. */
const marked = new WeakMap<Buffer, { readonly prefix: string; readonly bytes: Buffer }>()

export class FrameFeed implements RunFeed {
  readonly filter: Filter
  readonly #run: Run
  readonly #log: RunLog
  readonly #start: Position
  readonly #prefix: string
  #next: number | null = null
  #accumulator: Accumulator | null = null
  #hasEnded = false

  /** @param start the reader's position in the run */
  constructor(run: Run, log: RunLog, start: Position, { modes, prefix }: FeedOptions) {
    this.filter = modes === 'lifecycle' ? LIFECYCLE : filterFor(run, modes)
    this.#prefix = prefix
    this.#run = run
    this.#log = log
    this.#start = start
  }

  get at(): number | null {
    return this.#next
  }

  next(loaded: Loaded | null): Fed {
    if (this.#hasEnded) return 'end'
    if (this.#next === null && !this.#begin()) return 'tail'
    const next = this.#log.next(this.#next!, this.filter, loaded, this.#accumulator)
    if (next === 'end') return this.#end()
    if (typeof next === 'string') return next
    this.#next = next.next
    return { bytes: this.#marked(next.bytes), count: next.count }
  }

  load(): Promise<Loaded> {
    return this.#log.load(this.#next ?? 0, this.filter, this.#accumulator)
  }

  /** False: its start is not known yet. */
  #begin(): boolean {
    const from = this.#hasAll() ? this.#log.head : this.#log.place(this.#start)
    if (from === null) return false
    this.#accumulator = this.filter.accumulate ? new Accumulator(from) : null
    this.#next = this.#accumulator ? 0 : from
    return true
  }

  /** The reader has already seen the frame that says the run is done. */
  #hasAll(): boolean {
    const { isClosed, epoch, head } = this.#log
    return isClosed && this.#start?.epoch === epoch && this.#start.n === head
  }

  #marked(bytes: Buffer): Buffer {
    const known = marked.get(bytes)
    if (known?.prefix === this.#prefix) return known.bytes
    // JSON contains no raw line ends, so this line is always a frame's position. Compared byte by byte.
    const text = bytes.toString('latin1').replaceAll('\nid: ', `\nid: ${this.#prefix}`)
    const made = Buffer.from(text, 'latin1')
    marked.set(bytes, { prefix: this.#prefix, bytes: made })
    return made
  }

  #end(): Fed {
    this.#hasEnded = true
    const { head, epoch, run } = this.#log
    if (this.#hasAll()) return 'end'
    const { run_id, thread_id } = this.#run
    const id = this.#prefix + cursorText(epoch, head)
    const error = stopError(run)
    const done = frameText('metadata', JSON.stringify({ status: 'run_done', run_id, thread_id }), id)
    const bytes = Buffer.from((error ? frameText('error', JSON.stringify(error), id) : '') + done)
    return { bytes, count: error ? 2 : 1 }
  }
}
