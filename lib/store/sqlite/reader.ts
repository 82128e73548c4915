// Reads that may take long (a page far behind, a search over many rows) run in a worker thread, because SQLite is
// synchronous and would hold up everybody's streams. Started on first use.
import { StatementClock } from '../slow-statements.ts'
import { StoreThread } from './worker-thread.ts'

/** Enough for a connection and one answer. */
const HEAP_MB = 256

export interface Reader {
  rows<Row>(sql: string, params: object): Promise<Row[]>
}

export class ReaderThread implements Reader {
  readonly #thread: StoreThread
  readonly #clock = new StatementClock()
  #isStopped = false

  constructor(path: string) {
    this.#thread = new StoreThread('reader-worker', { readerOf: path }, HEAP_MB)
  }

  // Rows are shaped by the SQL in the call, which the compiler cannot read.
  async rows<Row>(sql: string, params: object): Promise<Row[]> {
    if (this.#isStopped) throw new Error('the store is closed')
    const sent = performance.now()
    try {
      return await this.#thread.channel.call<Row[]>('rows', sql, params)
    } finally {
      this.#clock.note(sql, sent)
    }
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#thread.stop()
  }
}
