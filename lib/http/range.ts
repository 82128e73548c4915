// Range requests [RFC 9110, 14]: a single byte range, as players and resumed downloads use.
import type { IncomingMessage } from 'node:http'

export interface Range {
  readonly start: number
  /** Included. */
  readonly end: number
}

/**
 * The requested range of something of `size` bytes with ETag `tag`. null: send all of it, also for ranges we do not
 * support, as the RFC requires.
 */
export function wantedRange(
  req: IncomingMessage,
  { size, tag }: { readonly size: number; readonly tag: string }
): Range | 'outside' | null {
  const header = req.headers.range
  // Ranges only apply to GET. With If-Range of another version, the whole is sent.
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
