// The write-ahead log beside the database file: what is committed lies in it until it is carried over into the file.
//
// SQLite would do that within a commit, every thousand pages, and whoever waits for that commit would wait for two syncs of the disk
// as well. Here a thread with a connection of its own does it beside the commits; the writer does it only when the log has become
// long all the same (see WAL_PAGES_MAX of connection.ts).
import { Worker } from 'node:worker_threads'

/** From a commit to the carrying over of what has come together since, in ms. */
const REST_MS = 250
/** The thread holds a connection and nothing else. */
const HEAP_MB = 32

export class WriteAheadLog {
  readonly #path: string
  /** null: it was not needed yet, or has died. */
  #worker: Worker | null = null
  #rest: NodeJS.Timeout | null = null
  #stopped: Promise<void> | null = null

  constructor(path: string) {
    this.#path = path
  }

  /** Something was committed. */
  grew(): void {
    if (this.#rest !== null || this.#stopped !== null) return
    this.#rest = setTimeout(() => {
      this.#rest = null
      this.#carry()
    }, REST_MS)
    // What is left in the log is no less safe than in the file.
    this.#rest.unref()
  }

  #carry(): void {
    this.#worker ??= this.#start()
    this.#worker.postMessage('carry')
  }

  /** A thread that dies is replaced the next time: meanwhile the log is longer, and nothing is lost. */
  #start(): Worker {
    // The same folder holds wal-worker.ts in the sources and wal-worker.js in the build.
    const file = new URL(import.meta.url.endsWith('.ts') ? './wal-worker.ts' : './wal-worker.js', import.meta.url)
    const worker = new Worker(file, {
      workerData: { walOf: this.#path },
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB }
    })
    worker.unref()
    worker.on('error', () => this.#gone(worker))
    worker.on('exit', () => this.#gone(worker))
    return worker
  }

  #gone(worker: Worker): void {
    if (this.#worker === worker) this.#worker = null
  }

  /** Lets go of the files. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    if (this.#rest) clearTimeout(this.#rest)
    const worker = this.#worker
    if (!worker) return
    // It is waited for now.
    worker.ref()
    await new Promise<void>((resolve) => {
      worker.once('exit', () => resolve())
      worker.postMessage('stop')
    })
  }
}
