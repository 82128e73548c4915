// What a run knows of a state its agent keeps itself: the values shown last, and the agent's newest checkpoint.
import type { StateWrite } from '../../agent/runtime.ts'
import { displayName, type TitleOptions, titleOf } from '../../thread/title.ts'
import type { Unstored } from './run-log.ts'
import { isObject, type Json, type Message, type Run, UNPLACED } from '../../types.ts'

export class KeptState {
  hasBegun = false
  /** The agent's newest checkpoint. */
  checkpointId: string | null
  /** JSON of the values shown last; null: none yet. */
  json: string | null = null
  /** This run showed messages before any values: it is the first of its thread. */
  readonly #isFirst: boolean
  readonly #unstored: Unstored

  constructor(run: Run, unstored: Unstored) {
    this.#unstored = unstored
    this.checkpointId = null
    this.#isFirst = run.ordinal % UNPLACED === 1
  }

  written(write: StateWrite): void {
    if (write.name === 'graph.put') {
      this.#unstored.bytes += write.checkpoint.length + write.metadata.length
      for (const { data } of write.values) this.#unstored.bytes += data.length
      if (write.ns === '') this.checkpointId = write.checkpoint_id
    } else for (const { data } of write.writes) this.#unstored.bytes += data.length
  }

  shown(json: string): void {
    if (!json.startsWith('{"__interrupt__":')) this.json = json
  }

  /** The thread's new title: from the state, or from its first message; null: unchanged. */
  title(options: TitleOptions): string | null {
    // Built from a state just above.
    const values = this.json === null ? null : (JSON.parse(this.json) as Json)
    if (!isObject(values)) return null
    const own = displayName(values.title)
    if (own !== null || !options.enabled || !this.#isFirst || !Array.isArray(values.messages)) return own
    const said = values.messages.filter((one) => isObject(one) && typeof one.type === 'string' && 'content' in one)
    // A title needs only types and contents.
    return titleOf(said as unknown as Message[], options)
  }
}
