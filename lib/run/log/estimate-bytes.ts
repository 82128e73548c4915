// About how many bytes a record takes while it waits for the store. Counted without encoding it once more: near enough for a limit on memory.
import type { Json } from '../../types.ts'

/** Bytes of a number, a truth value, and of what an object needs for each of its members. */
const SMALL = 8

/** About the bytes that a value takes: the units of its texts, and a little for everything else. */
export function estimateBytes(value: Json): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return SMALL
  let bytes = SMALL
  if (Array.isArray(value)) for (const item of value) bytes += estimateBytes(item)
  else for (const key of Object.keys(value)) bytes += SMALL + key.length + estimateBytes(value[key]!)
  return bytes
}
