// The steps of a schema: numbered files of SQL.
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  readonly version: number
  readonly sql: string
}

/** The steps in a folder, in order: `000001.sql` is 1. The folder's URL ends in a slash. */
export function migrationsIn(folder: URL): Migration[] {
  return readdirSync(folder)
    .filter((name) => /^\d{6}\.sql$/.test(name))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), sql: readFileSync(new URL(name, folder), 'utf8') }))
}
