// Plain data in memory: copying and measuring.

/**
 * Copies plain data. Everything that enters or leaves is copied, so that a caller changing its object does not change
 * the store. By hand: structuredClone is slower, and would copy the whole slab behind a view.
 */
export function copyOf<T>(value: T): T {
  if (!isComposite(value)) return value
  if (Array.isArray(value)) return value.map(copyOf) as T // same elements, same type
  if (value instanceof Uint8Array) return new Uint8Array(value) as T // a Buffer becomes what the interface promises
  // A spread defines members rather than assigning them, so a key named __proto__ stays a key.
  const copy = { ...value } as Record<string, unknown> // plain data
  for (const key in copy) {
    const member = copy[key]
    if (isComposite(member)) copy[key] = copyOf(member)
  }
  return copy as T // same members, same type
}

function isComposite(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Estimated memory of plain data, in bytes: strings by length, everything else a fixed cost per value. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length
  if (value === null || typeof value !== 'object') return 8
  if (value instanceof Uint8Array) return 64 + value.length
  let bytes = 32
  for (const member of Object.values(value)) bytes += 16 + sizeOf(member)
  return bytes
}
