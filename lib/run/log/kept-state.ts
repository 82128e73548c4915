// What a run knows of a state its agent keeps itself: the values shown last, and the agent's newest checkpoint.
import type { StateWrite } from '../../agent/runtime.ts'
import { displayName, type TitleOptions, titleOf } from '../../thread/title.ts'
import { isObject, type Json, type Message, type Run, UNPLACED } from '../../types.ts'

export class KeptState {
  hasBegun = false
  /** The agent's newest checkpoint. */
  checkpointId: string | null
  /** JSON of the values shown last; null: none yet. */
  json: string | null = null
  /** This run showed messages before any values: it is the first of its thread. */
  readonly #isFirst: boolean
  #pendingBytes = 0

  constructor(run: Run) {
    this.checkpointId = null
    this.#isFirst = run.ordinal % UNPLACED === 1
  }

  /** Estimated bytes of what is written but not taken yet. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  written(write: StateWrite): void {
    if (write.name === 'graph.put') {
      this.#pendingBytes += write.checkpoint.length + write.metadata.length
      for (const { data } of write.values) this.#pendingBytes += data.length
      if (write.ns === '') this.checkpointId = write.checkpoint_id
    } else for (const { data } of write.writes) this.#pendingBytes += data.length
  }

  taken(): void {
    this.#pendingBytes = 0
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
