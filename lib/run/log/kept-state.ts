// What a run knows of a state that its agent keeps itself: the values that were shown last, and where the agent's checkpoints stand.
import type { StateWrite } from '../../agent/runtime.ts'
import { displayName, type TitleOptions, titleOf } from '../../thread/title.ts'
import { isObject, type Json, type Message, type Run } from '../../types.ts'

export class KeptState {
  hasBegun = false
  /** The newest of the agent's own. */
  checkpointId: string | null
  /** JSON of the values that were shown last; null: none were. */
  json: string | null = null
  /** Messages were shown by this run before anything else was: it is the first of its thread. */
  readonly #isFirst: boolean
  #pendingBytes = 0

  constructor(run: Run) {
    this.checkpointId = null
    this.#isFirst = run.ordinal === 1
  }

  /** About the bytes of what was written and not taken yet. */
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

  /** What the thread is called from now on: as the state says, or as its first run lets it be called; null: as before. */
  title(options: TitleOptions): string | null {
    // Made of a state just now.
    const values = this.json === null ? null : (JSON.parse(this.json) as Json)
    if (!isObject(values)) return null
    const own = displayName(values.title)
    if (own !== null || !options.enabled || !this.#isFirst || !Array.isArray(values.messages)) return own
    const said = values.messages.filter((one) => isObject(one) && typeof one.type === 'string' && 'content' in one)
    // A title is made of types and contents alone.
    return titleOf(said as unknown as Message[], options)
  }
}
