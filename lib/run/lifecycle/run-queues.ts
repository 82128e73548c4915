// Run queues: one per thread with runs in this process. At most one run of a thread is open; the others are pending in
// the order the store admitted them, and the queue moves on when the end of the one before is stored.
import type { Run } from '../../base/types.ts'
import { startsAt } from '../run-kwargs.ts'
import type { RunActor } from './actor.ts'
import { warnUnexpected } from '../../base/errors.ts'
import { withTimeout } from '../../base/waiting.ts'

interface RunQueue {
  running: RunActor | null
  readonly waiting: RunActor[]
  /** Timer for the first delayed run. */
  timer: NodeJS.Timeout | null
}

/** Maximum of a timer; longer delays set it again. */
const TIMER_MS_MAX = 2 ** 31 - 1

export class RunQueues {
  readonly #queues = new Map<string, RunQueue>()
  #isHalted = false

  get size(): number {
    return this.#queues.size
  }

  /** Queues a run in its thread, and starts it when it is its turn. */
  add(actor: RunActor): void {
    const { thread_id, ordinal } = actor.run
    const queue = this.#queues.get(thread_id) ?? { running: null, waiting: [], timer: null }
    this.#queues.set(thread_id, queue)
    // Nearly always the last; a run admitted by another process may arrive late.
    const after = queue.waiting.findIndex(({ run }) => run.ordinal > ordinal)
    queue.waiting.splice(after < 0 ? queue.waiting.length : after, 0, actor)
    this.#advance(queue)
  }

  /** Its end is stored: the next run starts. */
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

  /** The runs of a thread, the running one first. */
  of(threadId: string): RunActor[] {
    const { running, waiting } = this.#queues.get(threadId) ?? { running: null, waiting: [] }
    return running ? [running, ...waiting] : [...waiting]
  }

  /** Runs queued ahead of a run. */
  before({ thread_id, ordinal }: Run): RunActor[] {
    return this.of(thread_id).filter(({ run }) => run.ordinal < ordinal)
  }

  /** Starts no more queued runs. */
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
    // Delayed runs hold up nobody.
    const next = pending.find(({ run }) => startsAt(run) <= now)
    if (!next) return this.#wakeAt(queue, Math.min(...pending.map(({ run }) => startsAt(run))) - now)
    queue.waiting.splice(queue.waiting.indexOf(next), 1)
    queue.running = next
    next.start().catch(warnUnexpected)
  }

  #wakeAt(queue: RunQueue, ms: number): void {
    if (!Number.isFinite(ms)) return
    queue.timer = setTimeout(() => this.#advance(queue), Math.min(ms, TIMER_MS_MAX)).unref()
  }
}

function disarm(queue: RunQueue): void {
  if (queue.timer) clearTimeout(queue.timer)
  queue.timer = null
}

// ----------------------------------------------------------------------------------------------------
// Runs admitted here behind runs that are not taken over yet. They are queued with those, in order; until then their readers wait here
// instead of following them as runs of another process, which would end with a reset.

/** A takeover is a few queries. Readers that wait longer, in ms, read from the store. */
const TAKEOVER_MS = 10_000

export class LeftBehind {
  readonly #runs = new Map<string, { readonly isQueued: Promise<unknown>; release(): void }>()

  get size(): number {
    return this.#runs.size
  }

  add(runId: string): void {
    let release = (): void => {}
    const isReleased = new Promise<void>((resolve) => {
      release = resolve
    })
    const isQueued = withTimeout(isReleased, TAKEOVER_MS).then(() => this.#runs.delete(runId))
    this.#runs.set(runId, { isQueued, release })
  }

  /** Resolves when the run is queued, or is not waited for any longer. */
  async queued(runId: string): Promise<void> {
    await this.#runs.get(runId)?.isQueued
  }

  has(runId: string): boolean {
    return this.#runs.has(runId)
  }

  /** It is queued, or never will be. */
  release(runId: string): void {
    this.#runs.get(runId)?.release()
  }

  /** This process takes nothing over any more. */
  releaseAll(): void {
    for (const { release } of this.#runs.values()) release()
  }
}

// ----------------------------------------------------------------------------------------------------
// How many runs of a user may be in flight here: those that are live, and those being started [design 5].

interface Reservation {
  readonly userId: string | null
  readonly key: string | null
}

export class RunQuota {
  readonly #perUser: () => number
  readonly #live: () => Iterable<Run>
  readonly #reserved = new Set<Reservation>()

  /** @param perUser 0: no limit */
  constructor(perUser: () => number, live: () => Iterable<Run>) {
    this.#perUser = perUser
    this.#live = live
  }

  get size(): number {
    return this.#reserved.size
  }

  /**
   * Reserves a place until the returned function is called: by then the run counts, or was refused. Null: no place
   * left. A repeated idempotency key makes no new run and needs no place.
   */
  reserve(userId: string | null, key: string | null = null): (() => void) | null {
    const perUser = this.#perUser()
    if (perUser === 0) return () => {}
    const live = [...this.#live()].map((run): Reservation => ({ userId: run.user_id, key: run.idempotency_key }))
    const own = [...live, ...this.#reserved].filter((one) => one.userId === userId)
    if (key !== null && own.some((one) => one.key === key)) return () => {}
    if (own.length >= perUser) return null
    const reservation = { userId, key }
    this.#reserved.add(reservation)
    return () => void this.#reserved.delete(reservation)
  }
}
