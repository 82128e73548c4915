// The lanes: one for each thread with runs in this process. At most one actor of a thread is open, the others wait as pending in the
// order in which the store admitted them; a lane moves on when the end of the run before is stored.
import type { Run } from '../../types.ts'
import type { RunActor } from './actor.ts'

interface Lane {
  running: RunActor | null
  readonly waiting: RunActor[]
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>()
  #isHalted = false

  get size(): number {
    return this.#lanes.size
  }

  /** Puts it in the lane of its thread, and starts it when it is its turn. */
  add(actor: RunActor): void {
    const { thread_id, ordinal } = actor.run
    const lane = this.#lanes.get(thread_id) ?? { running: null, waiting: [] }
    this.#lanes.set(thread_id, lane)
    // Nearly always the last; one that another process has admitted may arrive late.
    const after = lane.waiting.findIndex(({ run }) => run.ordinal > ordinal)
    lane.waiting.splice(after < 0 ? lane.waiting.length : after, 0, actor)
    this.#advance(lane)
  }

  /** Its end is stored: the next one's turn. */
  remove(actor: RunActor): void {
    const { thread_id } = actor.run
    const lane = this.#lanes.get(thread_id)
    if (!lane) return
    if (lane.running === actor) lane.running = null
    const at = lane.waiting.indexOf(actor)
    if (at >= 0) lane.waiting.splice(at, 1)
    if (lane.running || lane.waiting.length) this.#advance(lane)
    else this.#lanes.delete(thread_id)
  }

  /** Those in front of a run in its thread. */
  before({ thread_id, ordinal }: Run): RunActor[] {
    const { running, waiting } = this.#lanes.get(thread_id) ?? { running: null, waiting: [] }
    return [...(running ? [running] : []), ...waiting].filter(({ run }) => run.ordinal < ordinal)
  }

  /** None of those that wait is started any more. */
  halt(): void {
    this.#isHalted = true
  }

  clear(): void {
    this.#lanes.clear()
  }

  #advance(lane: Lane): void {
    if (lane.running || this.#isHalted) return
    const next = lane.waiting.find((actor) => actor.phase === 'pending')
    if (!next) return
    lane.waiting.splice(lane.waiting.indexOf(next), 1)
    lane.running = next
    void next.start()
  }
}
