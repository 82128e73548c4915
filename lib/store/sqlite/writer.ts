// The writer thread as the main thread sees it: sends it groups and waits for outcomes. A crashed worker is replaced
// when the next batch comes, or at once when it is unknown whether its last batch was committed.
import { randomUUID } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { type Group, type Outcome, StoreUnavailable } from '../store.ts'
import { type Answers, encodeBatch, decodeOutcomes } from './batch-codec.ts'
import type { WriterData, WriterMessage } from './worker.ts'
import { scriptOf, stopped } from './worker-thread.ts'
import { warnUnexpected, messageOf } from '../../base/errors.ts'

const STACK_MB = 16
const SPARE_BYTES_MAX = 4 * 1024 * 1024
/** Retry delay for starting a thread that can tell what the crashed one committed, in ms. */
const ASK_AGAIN_MS = 200

const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/

interface Waiting {
  readonly id: number
  readonly groups: readonly Group[]
  /** Outcomes if the commit succeeds; null: not committing yet. */
  answers: Answers | null
  resolve(outcomes: Outcome[]): void
  reject(error: Error): void
}

export class WriterThread {
  readonly #path: string
  readonly #file: URL
  readonly #writerId = randomUUID()
  /** null: it crashed, or was stopped. */
  #worker: Worker | null = null
  #starting: Promise<number> | null = null
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 1
  /** A block the worker has returned. */
  #spare: ArrayBuffer | null = null
  #trouble: StoreUnavailable | null = null
  #stopped: Promise<void> | null = null

  private constructor(path: string, file: URL) {
    this.#path = path
    this.#file = file
  }

  /**
   * `file`: the thread's script.
   * @throws Error when the database cannot be opened for writing
   */
  static async start(path: string, file: URL = scriptOf('worker')): Promise<WriterThread> {
    const thread = new WriterThread(path, file)
    await thread.#start()
    return thread
  }

  /** Why it is currently unknown whether the batch in flight was written; null: all is well. */
  get trouble(): StoreUnavailable | null {
    return this.#trouble
  }

  /**
   * Writes groups as one transaction; returns one outcome per group.
   * @throws StoreUnavailable when nothing was written, also (code WRITER_GONE) when the worker crashed over it
   * @throws Error of another class when a group cannot be sent to the worker, or cannot be written at all
   */
  async apply(groups: readonly Group[]): Promise<Outcome[]> {
    if (this.#stopped) throw gone('the store is closed')
    if (!this.#worker) await this.#restart()
    const worker = this.#worker
    if (!worker) throw gone('the writer thread has ended')
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      const batch = encodeBatch(groups, this.#spare)
      this.#spare = null
      // Throws for data that cannot be cloned: then nobody would answer. The block is transferred, not copied.
      worker.postMessage({ id, batch }, batch.block ? [batch.block] : [])
      this.#waiting.set(id, { id, groups, answers: null, resolve, reject })
    })
  }

  /** Finishes queued batches, then ends the thread. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#end()
    return this.#stopped
  }

  async #end(): Promise<void> {
    await this.#starting?.catch(() => {})
    await stopped(this.#worker, (worker) => worker.postMessage('stop'))
  }

  /** One start at a time, however many wait for it. Returns the last batch that was committed. */
  async #restart(): Promise<number> {
    this.#starting ??= this.#start().finally(() => {
      this.#starting = null
    })
    return this.#starting.catch((error: unknown) => {
      throw gone(messageOf(error))
    })
  }

  async #start(): Promise<number> {
    const workerData: WriterData = { path: this.#path, writerId: this.#writerId }
    // The worker needs as much stack as the main thread: nested JSON is recursive on both sides.
    const worker = new Worker(this.#file, { workerData, resourceLimits: { stackSizeMb: STACK_MB } })
    const committed = await new Promise<number>((resolve, reject) => {
      worker.once('message', (message: WriterMessage) => resolve(message.kind === 'ready' ? message.committed : 0))
      worker.once('error', reject)
      worker.once('exit', () => reject(new Error('the writer thread has ended before it was ready')))
    })
    worker.on('message', (message: WriterMessage) => this.#heard(message))
    worker.on('error', (error) => this.#died(worker, error))
    worker.on('exit', () => this.#died(worker, new Error('the writer thread has ended')))
    worker.on('messageerror', (error) => this.#giveUp(error))
    this.#worker = worker
    return committed
  }

  #heard(message: WriterMessage): void {
    if (message.kind === 'ready') return
    const waiting = this.#waiting.get(message.id)
    if (message.kind === 'committing') {
      if (waiting) waiting.answers = message.answers
      return
    }
    const { block, code, message: text, passes } = message
    // Huge blocks are not kept.
    if (block && block.byteLength <= SPARE_BYTES_MAX) this.#spare = block
    if (!waiting) return
    this.#waiting.delete(message.id)
    if (message.kind === 'committed') return waiting.resolve(decodeOutcomes(waiting.answers!, waiting.groups))
    waiting.reject(code === null ? new Error(text) : new StoreUnavailable(code, text, passes))
    // Its connection caches the damaged page even after the file was repaired.
    if (code !== null && DAMAGED.test(code)) this.#giveUp(new Error(text))
  }

  #giveUp(error: Error): void {
    const worker = this.#worker
    if (!worker) return
    this.#died(worker, error)
    worker.terminate().catch(warnUnexpected)
  }

  /** No more answers will come. Batches that had not reached their commit were not written. */
  #died(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return
    this.#worker = null
    const all = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const waiting of all) {
      if (waiting.answers === null) waiting.reject(gone(error.message))
      else this.#settleDoubt(waiting, waiting.answers, error).catch(waiting.reject)
    }
  }

  /** The thread crashed during the commit of this batch: the next one looks for its number in the database. */
  async #settleDoubt({ id, groups, resolve, reject }: Waiting, answers: Answers, error: Error): Promise<void> {
    this.#trouble = gone(error.message)
    for (let committed: number | null = null; committed === null; ) {
      committed = await this.#restart().catch(() => null)
      if (committed === id) resolve(decodeOutcomes(answers, groups))
      else if (committed !== null || this.#stopped) reject(gone(error.message))
      if (committed !== null || this.#stopped) break
      await new Promise((again) => setTimeout(again, ASK_AGAIN_MS))
    }
    this.#trouble = null
  }
}

function gone(message: string): StoreUnavailable {
  return new StoreUnavailable('WRITER_GONE', message)
}
