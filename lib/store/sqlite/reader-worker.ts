// The worker thread for long reads.
import { parentPort, workerData } from 'node:worker_threads'
import type Database from 'better-sqlite3'
import { LRUCache } from 'lru-cache'
import { ThreadChannel } from '../../base/thread-channel.ts'
import { connect } from './connection.ts'
import { beginThread } from './worker-thread.ts'

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
  new ThreadChannel(port, {
    /** `params` by name; $1 is named 1. */
    rows: (sql: string, params: object) => prepared(sql).all(params),
    stop() {
      db.close()
      port.close()
    }
  })
}

beginThread(() => serve(workerData.readerOf))
