// The writing half of the database as the main thread sees it: hands groups to the worker and waits for its answer. A worker that
// has died is replaced when the next batch comes.
import { Worker } from 'node:worker_threads'
import { type Group, type Outcome, StoreUnavailable } from '../store.ts'
import { packed, unpackedOutcomes } from './parcel.ts'
import type { WriterAnswer } from './worker.ts'

const STACK_MB = 16
const SPARE_BYTES_MAX = 4 * 1024 * 1024

interface Waiting {
  readonly groups: readonly Group[]
  resolve(outcomes: Outcome[]): void
  reject(error: Error): void
}

export class WriterThread {
  readonly #path: string
  /** null: it has died, or was stopped. */
  #worker: Worker | null = null
  #starting: Promise<Worker> | null = null
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 1
  /** The block of the parcel before, which the worker has given back. */
  #spare: ArrayBuffer | null = null
  #stopped: Promise<void> | null = null

  private constructor(path: string) {
    this.#path = path
  }

  /** @throws Error when the database cannot be opened for writing */
  static async start(path: string): Promise<WriterThread> {
    const thread = new WriterThread(path)
    await thread.#start()
    return thread
  }

  /**
   * Writes groups as one transaction; answers one outcome a group.
   * @throws StoreUnavailable when nothing was written; also with code WRITER_GONE, when the worker has died over it
   * @throws Error of another class when a group cannot cross to the worker, or cannot be written at all
   */
  async apply(groups: readonly Group[]): Promise<Outcome[]> {
    if (this.#stopped) throw gone('the store is closed')
    const worker = this.#worker ?? (await this.#restart())
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      const parcel = packed(groups, this.#spare)
      this.#spare = null
      // Throws for what cannot be copied: then nobody will answer. The block was made for the journey and need not be copied.
      worker.postMessage({ id, parcel }, parcel.block ? [parcel.block] : [])
      this.#waiting.set(id, { groups, resolve, reject })
    })
  }

  /** Lets what was handed over be written, then ends the thread. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    await this.#starting?.catch(() => {})
    const worker = this.#worker
    if (!worker) return
    await new Promise<void>((resolve) => {
      worker.once('exit', () => resolve())
      worker.postMessage('stop')
    })
  }

  /** One at a time, however many wait for it. */
  async #restart(): Promise<Worker> {
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null
    })
    return this.#starting.catch((error: unknown) => {
      throw gone(error instanceof Error ? error.message : String(error))
    })
  }

  async #start(): Promise<Worker> {
    // The same folder holds worker.ts in the sources and worker.js in the build.
    const file = new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js', import.meta.url)
    // What the main thread could serialise the worker can read: nested JSON takes stack on both sides.
    const worker = new Worker(file, { workerData: { path: this.#path }, resourceLimits: { stackSizeMb: STACK_MB } })
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve())
      worker.once('error', reject)
      worker.once('exit', () => reject(new Error('the writer thread has ended before it was ready')))
    })
    worker.on('message', (answer: WriterAnswer) => this.#answered(answer))
    worker.on('error', (error) => this.#died(worker, error))
    worker.on('exit', () => this.#died(worker, new Error('the writer thread has ended')))
    worker.on('messageerror', (error) => {
      void worker.terminate()
      this.#died(worker, error)
    })
    this.#worker = worker
    return worker
  }

  #answered(answer: WriterAnswer): void {
    const { block } = answer
    // One of megabytes is not kept for batches that will be small again.
    if (block && block.byteLength <= SPARE_BYTES_MAX) this.#spare = block
    const waiting = this.#waiting.get(answer.id)
    if (!waiting) return
    this.#waiting.delete(answer.id)
    if ('answers' in answer) return waiting.resolve(unpackedOutcomes(answer.answers, waiting.groups))
    const { code, message, passes } = answer
    waiting.reject(code === null ? new Error(message) : new StoreUnavailable(code, message, passes))
  }

  /**
   * Nobody answers any more. What was under way is taken for not written: the worker dies while it reads or works, not between a
   * commit and its few bytes of an answer. Were it so once, the repeated records would be refused as such and not kept twice.
   */
  #died(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return
    this.#worker = null
    for (const waiting of this.#waiting.values()) waiting.reject(gone(error.message))
    this.#waiting.clear()
  }
}

function gone(message: string): StoreUnavailable {
  return new StoreUnavailable('WRITER_GONE', message)
}
