// The writing half of the database as the main thread sees it: hands groups to the worker and waits for its answer.
import { Worker } from 'node:worker_threads'
import { type Group, type Outcome, StoreUnavailable } from '../store.ts'
import type { WriterAnswer } from './worker.ts'

const STACK_MB = 16

interface Waiting {
  resolve(outcomes: Outcome[]): void
  reject(error: Error): void
}

export class WriterThread {
  readonly #worker: Worker
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 1
  #stopped: Promise<void> | null = null

  private constructor(worker: Worker) {
    this.#worker = worker
    worker.on('message', (answer: WriterAnswer) => this.#answered(answer))
    worker.on('error', (error) => this.#died(error))
    worker.on('exit', () => this.#died(new Error('the writer thread has ended')))
  }

  static async start(path: string): Promise<WriterThread> {
    // The same folder holds worker.ts in the sources and worker.js in the build.
    const file = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url)
    // What the main thread could serialise the worker can read: nested JSON takes stack on both sides.
    const worker = new Worker(file, { workerData: { path }, resourceLimits: { stackSizeMb: STACK_MB } })
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve())
      worker.once('error', reject)
    })
    return new WriterThread(worker)
  }

  apply(groups: readonly Group[]): Promise<Outcome[]> {
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#worker.postMessage({ id, groups })
    })
  }

  /** Lets what was handed over be written, then ends the thread. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= new Promise((resolve) => {
      this.#worker.once('exit', () => resolve())
      this.#worker.postMessage('stop')
    })
    return this.#stopped
  }

  #answered(answer: WriterAnswer): void {
    const waiting = this.#waiting.get(answer.id)
    if (!waiting) return
    this.#waiting.delete(answer.id)
    if ('outcomes' in answer) waiting.resolve(answer.outcomes)
    else
      waiting.reject(
        answer.code === null ? new Error(answer.message) : new StoreUnavailable(answer.code, answer.message)
      )
  }

  #died(error: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(new StoreUnavailable('WRITER_GONE', error.message))
    this.#waiting.clear()
  }
}
