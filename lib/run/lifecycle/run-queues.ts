// The queues of runs: one for each thread with runs in this process. At most one actor of a thread is open, the others wait as pending in the
// order in which the store admitted them; a queue moves on when the end of the run before is stored.
import type { Run } from '../../types.ts'
import { startsAt } from '../run-kwargs.ts'
import type { RunActor } from './actor.ts'

interface RunQueue {
  running: RunActor | null
  readonly waiting: RunActor[]
  /** Until the first of those that are to start later. */
  timer: NodeJS.Timeout | null
}

/** A timer runs for so long at most; then it is set again. */
const TIMER_MS_MAX = 2 ** 31 - 1

export class RunQueues {
  readonly #queues = new Map<string, RunQueue>()
  readonly #onDue: (threadId: string) => void
  #isHalted = false

  /** @param onDue told of a thread whose run was to start later, when it is its time */
  constructor(onDue: (threadId: string) => void = () => {}) {
    this.#onDue = onDue
  }

  get size(): number {
    return this.#queues.size
  }

  /** Puts it in the queue of its thread, and starts it when it is its turn. */
  add(actor: RunActor): void {
    const { thread_id, ordinal } = actor.run
    const queue = this.#queues.get(thread_id) ?? { running: null, waiting: [], timer: null }
    this.#queues.set(thread_id, queue)
    // Nearly always the last; one that another process has admitted may arrive late.
    const after = queue.waiting.findIndex(({ run }) => run.ordinal > ordinal)
    queue.waiting.splice(after < 0 ? queue.waiting.length : after, 0, actor)
    this.#advance(queue)
  }

  /** Its end is stored: the next one's turn. */
  remove(actor: RunActor): void {
    const { thread_id } = actor.run
    const queue = this.#queues.get(thread_id)
    if (!queue) return
    if (queue.running === actor) queue.running = null
    const at = queue.waiting.indexOf(actor)
    if (at >= 0) queue.waiting.splice(at, 1)
    if (queue.running || queue.waiting.length) this.#advance(queue)
    else {
      disarm(queue)
      this.#queues.delete(thread_id)
    }
  }

  /** Those in front of a run in its thread. */
  before({ thread_id, ordinal }: Run): RunActor[] {
    const { running, waiting } = this.#queues.get(thread_id) ?? { running: null, waiting: [] }
    return [...(running ? [running] : []), ...waiting].filter(({ run }) => run.ordinal < ordinal)
  }

  /** None of those that wait is started any more. */
  halt(): void {
    this.#isHalted = true
    for (const queue of this.#queues.values()) disarm(queue)
  }

  clear(): void {
    for (const queue of this.#queues.values()) disarm(queue)
    this.#queues.clear()
  }

  #advance(queue: RunQueue): void {
    if (queue.running || this.#isHalted) return
    disarm(queue)
    const now = Date.now()
    const pending = queue.waiting.filter((actor) => actor.phase === 'pending')
    // Nobody waits behind one that is to start later.
    const next = pending.find(({ run }) => startsAt(run) <= now)
    if (!next) return this.#wakeAt(queue, Math.min(...pending.map(({ run }) => startsAt(run))) - now)
    queue.waiting.splice(queue.waiting.indexOf(next), 1)
    queue.running = next
    void next.start()
  }

  #wakeAt(queue: RunQueue, ms: number): void {
    if (!Number.isFinite(ms)) return
    const due = () => {
      this.#advance(queue)
      const run = queue.running?.run
      if (run) this.#onDue(run.thread_id)
    }
    queue.timer = setTimeout(due, Math.min(ms, TIMER_MS_MAX)).unref()
  }
}

function disarm(queue: RunQueue): void {
  if (queue.timer) clearTimeout(queue.timer)
  queue.timer = null
}
