// Reads that may take long (a page far behind, a search over many rows) run in a worker thread, because SQLite is
// synchronous and would hold up everybody's streams. Started on first use.
import { Worker } from 'node:worker_threads'
import type { ReadAnswer, ReadQuestion } from './reader-worker.ts'
import { scriptOf, stopped } from './worker-thread.ts'

/** Enough for a connection and one answer. */
const HEAP_MB = 256

interface Waiting {
  resolve(rows: unknown[]): void
  reject(error: Error): void
}

export interface Reader {
  rows<Row>(sql: string, params: object): Promise<Row[]>
}

export class ReaderThread implements Reader {
  readonly #path: string
  #worker: Worker | null = null
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 1
  #isStopped = false

  constructor(path: string) {
    this.#path = path
  }

  rows<Row>(sql: string, params: object): Promise<Row[]> {
    if (this.#isStopped) return Promise.reject(new Error('the store is closed'))
    this.#worker ??= this.#start()
    const id = this.#nextId++
    this.#worker.postMessage({ id, sql, params } satisfies ReadQuestion)
    // Rows are shaped by the SQL in the call, which the compiler cannot read.
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve: resolve as Waiting['resolve'], reject }))
  }

  #start(): Worker {
    const workerData = { readerOf: this.#path }
    const resourceLimits = { maxOldGenerationSizeMb: HEAP_MB }
    const worker = new Worker(scriptOf('reader-worker'), { workerData, resourceLimits })
    // It must not keep the process alive; the request that waits has a socket that does.
    worker.unref()
    worker.on('message', (answer: ReadAnswer) => this.#answered(answer))
    worker.on('error', (error) => this.#died(worker, error))
    worker.on('exit', () => this.#died(worker, new Error('the reader thread has ended')))
    return worker
  }

  #answered(answer: ReadAnswer): void {
    const waiting = this.#waiting.get(answer.id)
    this.#waiting.delete(answer.id)
    if ('rows' in answer) waiting?.resolve([...answer.rows])
    else waiting?.reject(new Error(answer.message))
  }

  /** The next read starts a new one. */
  #died(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return
    this.#worker = null
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await stopped(this.#worker)
  }
}
