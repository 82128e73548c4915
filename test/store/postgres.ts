// The PostgreSQL store under all suites, on a real server.
import t from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { type Opened, storeContract } from '../contract/index.ts'
import { migratedDatabase } from '../fixtures/postgres.ts'

/** What a foreign session does that locks the table of threads. */
async function jam(url: string): Promise<() => Promise<void>> {
  const patient = new URL(url)
  patient.searchParams.set('idle_in_transaction_session_timeout', '0')
  const line = await PgConnection.open(patient.href)
  await line.rows('BEGIN')
  await line.rows('LOCK TABLE threads_meta IN EXCLUSIVE MODE')
  return async () => {
    await line.rows('ROLLBACK')
    await line.close()
  }
}

async function open(): Promise<Opened> {
  const database = await migratedDatabase()
  let store = await openPostgresStore(database.url)
  return {
    store,
    async reopen() {
      await store.close()
      store = await openPostgresStore(database.url)
      return store
    },
    jam: () => jam(database.url),
    beside: () => openPostgresStore(database.url),
    async close() {
      await store.close()
      await database.remove()
    }
  }
}

storeContract(t, 'postgres', open)
