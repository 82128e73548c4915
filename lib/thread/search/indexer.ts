// Puts what threads show into the index of words: after each run, and all that is older once. The queue is in the store, so that what a
// process leaves is done by the next.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Poller } from '../../base/poller.ts'
import { isObject, type RunEvent, textOf, timestamp } from '../../base/types.ts'
import type { Group, Op, OpName, Outcome, QueuedThread, Store, TextWords } from '../../store/store.ts'
import { wordsOf } from './words.ts'

/** Time from the end of a run to its texts, in ms: several that end meanwhile are written together, and those of one thread once. */
const SOON_MS = 250
/** Time between looks for what other processes have left, in ms. */
const LOOK_MS = 10_000
/** Time between two steps over old threads, in ms: others come first. */
const STEP_MS = 25
/** Threads per step. */
const THREADS = 16
/** Messages that are read at once. */
const PAGE = 50

/** Messages that a thread shows as they are: what was asked, and what was answered. */
const SHOWN: ReadonlySet<string> = new Set(['human_message', 'ai_message'])
/** Ops that change what a thread shows. */
const CHANGING: ReadonlySet<OpName> = new Set(['run.settle', 'state.update', 'graph.update'])

interface IndexerOptions {
  readonly store: Pick<Store, 'search' | 'events'>
  /** Writes as one group. null: refused. */
  readonly write: (ops: readonly Op[]) => Promise<readonly unknown[] | null>
  readonly log: { warn(fields: object, text: string): void }
}

export class SearchIndexer {
  /** The commits that concern it. */
  readonly ops = CHANGING
  readonly #options: IndexerOptions
  readonly #poller: Poller
  /** Threads that this process has changed, and when the first of them. */
  readonly #changed = new Set<string>()
  #changedAt = 0
  /** Those of them whose time has come. */
  #due: string[] = []
  /** Where the walk over old threads is. */
  #after = ''
  #isStopped = false

  constructor(options: IndexerOptions) {
    this.#options = options
    this.#poller = new Poller({
      everyMs: LOOK_MS,
      work: () => this.#step(),
      onError: (error) => options.log.warn({ err: error }, 'the index of words could not be written; it is tried again')
    })
  }

  start(): void {
    if (this.#options.store.search) this.#poller.start(SOON_MS)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#poller.stop()
  }

  written(groups: readonly Group[], outcomes: readonly Outcome[]): void {
    for (const [at, { ops }] of groups.entries())
      if (outcomes[at]?.ok)
        for (const op of ops)
          if (op.name === 'run.settle' || op.name === 'state.update' || op.name === 'graph.update')
            this.#note(op.thread_id)
    if (this.#changed.size > 0) this.#poller.wakeIn(SOON_MS)
  }

  #note(threadId: string): void {
    if (this.#changed.size === 0) this.#changedAt = performance.now()
    this.#changed.add(threadId)
  }

  /** What has just changed first, then some that wait. Answers in how many ms to go on. */
  async #step(): Promise<number | null> {
    const { search } = this.#options.store
    if (!search) return null
    const mine = this.#nextDue()
    const found = mine.length > 0 ? await search.queued(mine, THREADS) : await this.#waiting()
    await this.#indexAll(found)
    if (found.length > 0 || mine.length > 0) return STEP_MS
    return this.#changed.size > 0 ? SOON_MS : null
  }

  async #indexAll(threads: readonly QueuedThread[]): Promise<void> {
    const last: Op[] = []
    try {
      for (const thread of threads) {
        const op = await this.#index(thread)
        if (op === null) return
        last.push(op)
      }
    } finally {
      // Together: a commit costs more than the texts of a thread. Refused: the thread is gone, and its place in the queue with it.
      await Promise.all(last.map((op) => this.#options.write([op])))
    }
  }

  #nextDue(): string[] {
    if (this.#due.length === 0 && performance.now() - this.#changedAt >= SOON_MS) {
      this.#due = [...this.#changed]
      // Before they are read: what changes from now on is to be read again.
      this.#changed.clear()
    }
    return this.#due.splice(0, THREADS)
  }

  async #waiting(): Promise<QueuedThread[]> {
    const { search } = this.#options.store
    const found = await search!.queued({ after: this.#after }, THREADS)
    // One that could not be written is met again in the next round.
    this.#after = found.at(-1)?.thread_id ?? ''
    return found.filter(({ thread_id }) => !this.#changed.has(thread_id))
  }

  /** Writes all texts of a thread but the last ones. Returns the op that writes those; null: it is stopped. */
  async #index({ thread_id, title, seq, version }: QueuedThread): Promise<Op | null> {
    const { events } = this.#options.store
    let texts: TextWords[] = title === null ? [] : [{ seq: 0, at: timestamp(), words: wordsOf(title) }]
    for (let after = seq; !this.#isStopped; ) {
      const page = await events.listMessages(thread_id, { limit: PAGE, after }, null)
      for (const event of page) {
        const text = textShown(event)
        if (text === '') continue
        texts.push({ seq: event.seq, at: event.created_at, words: wordsOf(text) })
        await nextTurn()
      }
      if (page.length < PAGE) return { name: 'search.put', thread_id, texts, done: version }
      await this.#options.write([{ name: 'search.put', thread_id, texts, done: null }])
      texts = []
      after = page.at(-1)!.seq
    }
    return null
  }
}

/** Text that somebody reads on the page; empty: none. */
export function textShown({ event_type, content }: Pick<RunEvent, 'event_type' | 'content'>): string {
  if (!SHOWN.has(event_type)) return ''
  const body = isObject(content) ? content.content : content
  return typeof body === 'string' || Array.isArray(body) ? textOf(body) : ''
}
