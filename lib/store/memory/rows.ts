// Plain data in memory: copies at the border, its size, and where an item of an ordered list stands.

/**
 * A copy of plain data. Everything that enters or leaves goes through it: a caller that changes what it gave or got would otherwise
 * change what is stored. By hand: structuredClone takes longer, and of a view it would copy the whole slab that it is a view of.
 */
export function copyOf<T>(value: T): T {
  if (!isComposite(value)) return value
  if (Array.isArray(value)) return value.map(copyOf) as T // same elements, same type
  if (value instanceof Uint8Array) return new Uint8Array(value) as T // a Buffer becomes what the interface promises
  // A spread makes members and does not assign them, so that a key named __proto__ stays a key; what is assigned below is there.
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

/** What plain data takes in memory, in bytes, about: texts by their characters, everything else by the piece. */
export function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length
  if (value === null || typeof value !== 'object') return 8
  if (value instanceof Uint8Array) return 64 + value.length
  let bytes = 32
  for (const member of Object.values(value)) bytes += 16 + sizeOf(member)
  return bytes
}

/** Index of the first item of an ascending list that is not below: where a page begins, or an item belongs. */
export function firstNotBelow<T>(list: readonly T[], isBelow: (item: T) => boolean): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBelow(list[middle]!)) low = middle + 1
    else high = middle
  }
  return low
}
