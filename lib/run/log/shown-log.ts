// What an agent shows itself, in the log of its run. A frame of a state names the bodies it consists of, and what no body has yet becomes
// one of the run's own.
import { isQuestion, ValuesNamer } from '../../conversation/values.ts'
import type { StoredGraphCheckpoint } from '../../conversation/state.ts'
import type { Frame } from '../../agent/runtime.ts'
import { wellFormedJson } from '../../base/json.ts'
import type { Run } from '../../base/types.ts'
import { shortTuple } from '../../conversation/wire.ts'
import type { Op } from '../../store/store.ts'
import { Kind } from './frame.ts'
import type { RunLog } from './run-log.ts'

/** Numbers of an attempt's bodies begin at its multiple of this. */
const BODIES_OF_ATTEMPT = 2 ** 24

export class ShownLog {
  readonly #run: Run
  readonly #log: RunLog
  readonly #put: (op: Op) => void
  /** null: nothing was shown yet. */
  #namer: ValuesNamer | null = null

  constructor(run: Run, log: RunLog, put: (op: Op) => void) {
    this.#run = run
    this.#log = log
    this.#put = put
  }

  /** The agent starts from this checkpoint. One of its own, of an earlier attempt, goes when the run is taken back. */
  open(checkpoint: StoredGraphCheckpoint): void {
    if (checkpoint.run_id !== this.#run.run_id) this.#names.open(checkpoint)
  }

  /** Appends a frame. `state` is told of one that shows it. */
  frame({ mode, event, json }: Frame, state: { shown(json: string): void }): void {
    const text = wellFormedJson(json)
    if (mode === 'messages' || mode === 'joined') this.#log.append(Kind[mode], event, text, shortTuple(text))
    else if (mode !== 'values') this.#log.append(Kind[mode], event, text)
    else if (this.#values(event, text)) state.shown(text)
  }

  /** True: it is the state of the agent itself, and more than a question. */
  #values(event: string, json: string): boolean {
    const { values, added, json: text } = this.#names.name(event, json)
    const { thread_id, key } = this.#run
    let bytes = 0
    for (const { data } of added) bytes += data.length
    if (added.length > 0) this.#put({ name: 'run.bodies', thread_id, run_key: key, bodies: added })
    this.#log.unstored.bytes += bytes
    this.#log.appendNamed(values, { event, json: text }, bytes)
    return event === 'values' && !isQuestion(values)
  }

  /** Drops the bodies from memory. */
  release(): void {
    this.#namer = null
  }

  get #names(): ValuesNamer {
    this.#namer ??= new ValuesNamer((this.#log.attempts - 1) * BODIES_OF_ATTEMPT)
    return this.#namer
  }
}
