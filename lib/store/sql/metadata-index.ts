// Metadata for searching: one term per top-level entry.
import { createHash } from 'node:crypto'
import type { Json, JsonObject } from '../../base/types.ts'

/**
 * A digest of each entry: of key and typed value, with object keys sorted. Entries come from outside, of any length and
 * with any characters; digests are neither.
 */
export function metadataDigests(metadata: JsonObject): Buffer[] {
  return Object.entries(metadata).map((entry) =>
    createHash('sha256')
      .update(JSON.stringify(entry.map(inOrder)))
      .digest()
  )
}

function inOrder(value: Json): Json {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(inOrder)
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(entries.map(([key, member]) => [key, inOrder(member)]))
}
