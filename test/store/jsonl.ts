// Events as JSON lines beside SQLite, under all suites and on real files.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { openJsonlEvents } from '../../lib/store/jsonl/events.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { splitStore } from '../../lib/store/split.ts'
import type { Store } from '../../lib/store/store.ts'
import { type Opened, storeContract } from '../contract/index.ts'

async function open(): Promise<Opened> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-jsonl-'))
  const path = join(home, 'colloquy.db')
  const openBoth = async (): Promise<Store> =>
    splitStore(await openSqliteStore(path), await openJsonlEvents({ home, warn: () => {} }))
  let store = await openBoth()
  return {
    store,
    async reopen() {
      await store.close()
      store = await openBoth()
      return store
    },
    async jam() {
      const db = new Database(path)
      db.exec('BEGIN IMMEDIATE')
      return async () => {
        db.exec('ROLLBACK')
        db.close()
      }
    },
    async close() {
      await store.close()
      rmSync(home, { recursive: true, force: true })
    }
  }
}

storeContract(t, 'sqlite and jsonl', open)
