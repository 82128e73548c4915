// The part of a representation that a request wants [RFC 9110, 14]: one range of bytes, as players and resumed downloads ask for.
import type { IncomingMessage } from 'node:http'

export interface Range {
  readonly start: number
  /** Included. */
  readonly end: number
}

/**
 * The range of a request for something of `size` bytes whose ETag is `tag`. null: all of it is wanted, or nothing that we could read
 * as one range; the rule is to send all of it then.
 */
export function wantedRange(
  req: IncomingMessage,
  { size, tag }: { readonly size: number; readonly tag: string }
): Range | 'outside' | null {
  const header = req.headers.range
  // Ranges are for GET alone. With If-Range the client has a part of this, and wants no part of another.
  if (!header || req.method !== 'GET' || (req.headers['if-range'] ?? tag) !== tag) return null
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/i.exec(header.replaceAll(' ', '')) ?? []
  if (from === '') return to === '' ? null : lastBytes(Number(to), size)
  const start = Number(from)
  const end = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (to !== '' && Number(to) < start) return null
  return start < size ? { start, end } : 'outside'
}

function lastBytes(count: number, size: number): Range | 'outside' {
  return count === 0 || size === 0 ? 'outside' : { start: Math.max(0, size - count), end: size - 1 }
}
