// The worker thread for long reads.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { LRUCache } from 'lru-cache'
import { connect } from './connection.ts'

export interface ReadQuestion {
  readonly id: number
  readonly sql: string
  /** By name; $1 is named 1. */
  readonly params: object
}

export type ReadAnswer = { readonly id: number } & (
  | { readonly rows: readonly unknown[] }
  | { readonly message: string }
)

/** Prepared statements to keep: a few per kind of search. */
const KEPT_MAX = 100

function serve(path: string): void {
  const port = parentPort!
  const db = connect(path)
  db.pragma('query_only = ON')
  const kept = new LRUCache<string, Database.Statement<object, unknown>>({ max: KEPT_MAX })
  const prepared = (sql: string) => {
    const statement = kept.get(sql) ?? db.prepare<object, unknown>(sql)
    kept.set(sql, statement)
    return statement
  }
  const answer = ({ id, sql, params }: ReadQuestion): ReadAnswer => {
    try {
      return { id, rows: prepared(sql).all(params) }
    } catch (error) {
      return { id, message: error instanceof Error ? error.message : String(error) }
    }
  }
  port.on('message', (message: ReadQuestion | 'stop') => {
    if (message !== 'stop') return port.postMessage(answer(message))
    db.close()
    port.close()
  })
}

// Also imported for its types: then there is nothing to serve.
if (parentPort && typeof workerData?.readerOf === 'string') serve(workerData.readerOf)
