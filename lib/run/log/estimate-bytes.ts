// Estimates how many bytes a record takes while it waits for the store, without encoding it again: good enough for a memory limit.
import type { Json } from '../../types.ts'

/** Bytes of a number or a boolean, and the overhead of each member of an object. */
const SMALL = 8

/** Estimated bytes of a value: the units of its texts, and a little for everything else. */
export function estimateBytes(value: Json): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return SMALL
  let bytes = SMALL
  if (Array.isArray(value)) for (const item of value) bytes += estimateBytes(item)
  else for (const key of Object.keys(value)) bytes += SMALL + key.length + estimateBytes(value[key]!)
  return bytes
}
