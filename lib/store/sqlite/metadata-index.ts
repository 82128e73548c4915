// The metadata index in SQLite: which threads of an owner have an entry. Whatever writes metadata updates it.
import type Database from 'better-sqlite3'
import type { JsonObject } from '../../base/types.ts'
import { parseObject } from '../sql/json.ts'
import { metadataDigests } from '../sql/metadata-index.ts'

/** Owner of an index row: a user, or nobody. */
export type IndexOwner = string | 0

/** Bytes kept of a digest: enough to rule out collisions; there is one per entry and thread. */
const TERM_BYTES = 16

/** Terms of metadata, as the table stores them. */
export function indexEntries(metadata: JsonObject): string[] {
  return metadataDigests(metadata).map((digest) => digest.toString('base64url', 0, TERM_BYTES))
}

/** `terms_of(json)`, for the migration that fills the table: the terms of metadata as a JSON list. */
export function addIndexFunction(db: Database.Database): void {
  db.function('terms_of', { deterministic: true }, (json) => JSON.stringify(indexEntries(parseObject(String(json)))))
}

interface MetadataIndexWrites {
  add(owner: string | null, key: number, metadata: JsonObject): void
  remove(owner: string | null, key: number, metadata: JsonObject): void
}

export function metadataIndexWrites(db: Database.Database): MetadataIndexWrites {
  const insert = db.prepare<[IndexOwner, string, number]>('INSERT INTO thread_terms VALUES (?, ?, ?)')
  const remove = db.prepare<[IndexOwner, string, number]>(
    'DELETE FROM thread_terms WHERE owner = ? AND term = ? AND thread_key = ?'
  )
  const each = (statement: typeof insert) => (owner: string | null, key: number, metadata: JsonObject) => {
    for (const term of indexEntries(metadata)) statement.run(owner ?? 0, term, key)
  }
  return { add: each(insert), remove: each(remove) }
}
