// The write-ahead log beside the database file: what is committed lies in it until a checkpoint moves it into the file.
//
// SQLite would do that within a commit, every thousand pages, and whoever waits for that commit would wait for two syncs of the disk
// as well. Here a thread with a connection of its own does it beside the commits; the writer does it only when the log has become
// long all the same (see WAL_PAGES_MAX of connection.ts).
import { Worker } from 'node:worker_threads'

/** Ops after which a checkpoint is made. */
const OPS_MAX = 2000
/** The same when they are fewer, in ms after the first: seldom, because it costs two syncs of the disk. */
const REST_MS = 2000
/** The thread holds a connection and nothing else. */
const HEAP_MB = 32

export class WriteAheadLog {
  readonly #path: string
  /** null: it was not needed yet, or has died. */
  #worker: Worker | null = null
  /** That were committed since the last checkpoint was asked for. */
  #ops = 0
  #rest: NodeJS.Timeout | null = null
  #stopped: Promise<void> | null = null

  constructor(path: string) {
    this.#path = path
  }

  /** So many ops were committed. */
  grew(ops: number): void {
    if (this.#stopped !== null) return
    this.#ops += ops
    if (this.#ops >= OPS_MAX) return this.checkpoint()
    // What is left in the log is no less safe than in the file: nobody has to live on for it.
    this.#rest ??= setTimeout(() => this.checkpoint(), REST_MS).unref()
  }

  checkpoint(): void {
    if (this.#rest) clearTimeout(this.#rest)
    this.#rest = null
    this.#ops = 0
    this.#worker ??= this.#start()
    this.#worker.postMessage('checkpoint')
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
