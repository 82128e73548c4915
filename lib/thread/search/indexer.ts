// Puts what threads show into the index of words: after each run, and all that is older once. The queue is in the store, so that what a
// process leaves is done by the next.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Poller } from '../../base/poller.ts'
import { isObject, type RunEvent, textOf, timestamp } from '../../base/types.ts'
import type { Group, Op, OpName, Outcome, QueuedThread, Store, TextWords } from '../../store/store.ts'
import { wordsOf } from './words.ts'

/** Time from the end of a run to its texts, in ms: several that end together are written together. */
const SOON_MS = 150
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
  /** Threads that this process has changed. */
  readonly #changed = new Set<string>()
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
            this.#changed.add(op.thread_id)
    if (this.#changed.size > 0) this.#poller.wakeIn(SOON_MS)
  }

  /** What has just changed first, then some that wait. Answers in how many ms to go on. */
  async #step(): Promise<number | null> {
    const { search } = this.#options.store
    if (!search) return null
    const mine = [...this.#changed].slice(0, THREADS)
    // Before they are read: what changes from now on is to be read again.
    for (const id of mine) this.#changed.delete(id)
    const found = mine.length > 0 ? await search.queued(mine, THREADS) : await this.#waiting()
    for (const thread of found) {
      if (this.#isStopped) return null
      await this.#index(thread)
    }
    return found.length > 0 || mine.length > 0 ? STEP_MS : null
  }

  async #waiting(): Promise<QueuedThread[]> {
    const { search } = this.#options.store
    const found = await search!.queued({ after: this.#after }, THREADS)
    // One that could not be written is met again in the next round.
    this.#after = found.at(-1)?.thread_id ?? ''
    return found
  }

  async #index({ thread_id, title, seq, version }: QueuedThread): Promise<void> {
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
      const isLast = page.length < PAGE
      // Refused: the thread is gone, and its place in the queue with it.
      await this.#options.write([{ name: 'search.put', thread_id, texts, done: isLast ? version : null }])
      if (isLast) return
      texts = []
      after = page.at(-1)!.seq
    }
  }
}

/** Text that somebody reads on the page; empty: none. */
export function textShown({ event_type, content }: Pick<RunEvent, 'event_type' | 'content'>): string {
  if (!SHOWN.has(event_type)) return ''
  const body = isObject(content) ? content.content : content
  return typeof body === 'string' || Array.isArray(body) ? textOf(body) : ''
}
