// From the configuration to a store: the only place that names a dialect.
import { openMemoryStore } from './memory/open.ts'
import { openSqliteStore } from './sqlite/open.ts'
import type { Store } from './store.ts'

export interface StoreOptions {
  readonly backend: 'memory' | 'sqlite' | 'postgres'
  /** Absolute. */
  readonly sqlite_path: string
}

/** @throws Error when the database cannot be opened, or is newer than this program. */
export async function openStore({ backend, sqlite_path }: StoreOptions): Promise<Store> {
  switch (backend) {
    case 'sqlite':
      return openSqliteStore(sqlite_path)
    case 'memory':
      return openMemoryStore()
    case 'postgres':
      throw new Error('database.backend postgres is not available in this version')
  }
}
