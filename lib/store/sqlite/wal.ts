// The write-ahead log (WAL): commits are in it until a checkpoint moves them into the database file.
//
// By default SQLite does that inside a commit, every thousand pages, and that commit waits for two syncs of the disk. Here a worker thread
// with its own connection does it, and the writer only when the WAL has grown large anyway (see WAL_PAGES_MAX in connection.ts).
import { setTimeout as pause } from 'node:timers/promises'
import { StoreThread } from './worker-thread.ts'

/** Checkpoint after this many ops. */
const OPS_MAX = 2000
/** With fewer ops, checkpoint this long after the first, in ms: rarely, because it costs two syncs of the disk. */
const REST_MS = 2000
/** So long after a commit, in ms, the file is emptied: until then it has pages as they were before a deletion. */
const TRUNCATE_MS = 15 * 60_000
/** What empties it now is tried so often: others write and read all the time. */
const EMPTY_TRIES = 100
const EMPTY_AGAIN_MS = 100
/** Enough for a connection. */
const HEAP_MB = 32

export class WriteAheadLog {
  /** Until a thread that crashes is replaced the WAL grows, and nothing is lost. */
  readonly #thread: StoreThread
  /** Ops committed since the last checkpoint was requested. */
  #ops = 0
  #rest: NodeJS.Timeout | null = null
  #truncation: NodeJS.Timeout | null = null
  readonly #truncateMs: number
  #stopped: Promise<void> | null = null

  constructor(path: string, truncateMs = TRUNCATE_MS) {
    this.#thread = new StoreThread('wal-worker', { walOf: path }, HEAP_MB)
    this.#truncateMs = truncateMs
  }

  /** That many ops were committed. */
  grew(ops: number): void {
    if (this.#stopped !== null) return
    this.#ops += ops
    this.#truncation ??= setTimeout(() => this.#truncate(), this.#truncateMs).unref()
    if (this.#ops >= OPS_MAX) return this.checkpoint()
    // Data is as safe in the WAL as in the file: this must not keep the process alive.
    this.#rest ??= setTimeout(() => this.checkpoint(), REST_MS).unref()
  }

  /** Empties the file now. @throws Error when somebody reads an older state all the time, or the disk fails */
  async empty(): Promise<void> {
    for (let tries = 1; !(await this.#thread.channel.call<boolean>('empty')); tries++) {
      if (tries === EMPTY_TRIES) throw new Error('the write-ahead log is in use')
      await pause(EMPTY_AGAIN_MS)
    }
  }

  #truncate(): void {
    this.#truncation = null
    this.#thread.channel.send('truncate')
  }

  checkpoint(): void {
    if (this.#rest) clearTimeout(this.#rest)
    this.#rest = null
    this.#ops = 0
    this.#thread.channel.send('checkpoint')
  }

  /** Closes the files. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    if (this.#rest) clearTimeout(this.#rest)
    if (this.#truncation) clearTimeout(this.#truncation)
    await this.#thread.stop()
  }
}
