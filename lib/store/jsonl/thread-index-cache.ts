// Indexes of thread files in memory: read on first use, and evicted when there are too many lines, least recently used first.
import type { ThreadFiles } from './thread-files.ts'

interface Entry {
  readonly files: Promise<ThreadFiles>
  /** Its line count when last counted; 1 for an empty thread. */
  lines: number
  /** Being written: it must not be re-read meanwhile. */
  writers: number
}

export class ThreadIndexCache {
  readonly #scan: (threadId: string) => Promise<ThreadFiles>
  readonly #linesMax: number
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()
  #lines = 0

  constructor(scan: (threadId: string) => Promise<ThreadFiles>, linesMax: number) {
    this.#scan = scan
    this.#linesMax = linesMax
  }

  get lines(): number {
    return this.#lines
  }

  async read<T>(threadId: string, work: (files: ThreadFiles) => Promise<T> | T): Promise<T> {
    return work(await this.#take(threadId).files)
  }

  /** Changes a thread's files. After a failure the next reader re-reads them. */
  async write<T>(threadId: string, work: (files: ThreadFiles) => Promise<T>): Promise<T> {
    const entry = this.#take(threadId)
    entry.writers++
    try {
      const files = await entry.files
      const answer = await work(files)
      this.#count(entry, files)
      return answer
    } catch (error) {
      this.#putAway(threadId, entry)
      throw error
    } finally {
      entry.writers--
      this.#shrink()
    }
  }

  /** Drops the index, unless the files are being written. */
  renew(threadId: string): void {
    const entry = this.#entries.get(threadId)
    if (entry?.writers === 0) this.#putAway(threadId, entry)
  }

  clear(): void {
    this.#entries.clear()
    this.#lines = 0
  }

  #take(threadId: string): Entry {
    const entry = this.#entries.get(threadId) ?? this.#open(threadId)
    this.#entries.delete(threadId)
    this.#entries.set(threadId, entry)
    return entry
  }

  #open(threadId: string): Entry {
    const entry: Entry = { files: this.#scan(threadId), lines: 1, writers: 0 }
    this.#entries.set(threadId, entry)
    this.#lines += entry.lines
    entry.files.then(
      (files) => {
        this.#count(entry, files)
        this.#shrink()
      },
      () => this.#putAway(threadId, entry)
    )
    return entry
  }

  #count(entry: Entry, files: ThreadFiles): void {
    const lines = Math.max(1, files.length)
    this.#lines += lines - entry.lines
    entry.lines = lines
  }

  #shrink(): void {
    for (const [threadId, entry] of this.#entries) {
      if (this.#lines <= this.#linesMax || this.#entries.size === 1) return
      if (entry.writers === 0) this.#putAway(threadId, entry)
    }
  }

  #putAway(threadId: string, entry: Entry): void {
    if (this.#entries.get(threadId) !== entry) return
    this.#entries.delete(threadId)
    this.#lines -= entry.lines
  }
}
