// Range requests [RFC 9110, 14]: a single byte range, as players and resumed downloads use.
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { fail } from '../base/errors.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import { isHeld } from './asset.ts'
import { type Call, HANDLED } from './route.ts'
import { boundReading, isGone } from './reply.ts'

interface Range {
  readonly start: number
  /** Included. */
  readonly end: number
}

/**
 * The requested range of something of `size` bytes with ETag `tag`. null: send all of it, also for ranges we do not
 * support, as the RFC requires.
 */
function wantedRange(
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

interface RangedBody {
  /** In bytes. */
  readonly size: number
  /** Its ETag, quoted. */
  readonly tag: string
  readonly headers: Readonly<Record<string, string>>
  /** Headers sent with a refusal too. */
  readonly safety?: Readonly<Record<string, string>>
  /** The bytes `start` to `end`, inclusive. */
  read(start: number, end: number): AsyncIterable<Buffer>
}

/** Pieces of some 64 KB sent per turn of the loop: two hundred at once would block it for tens of ms. */
const pieceTurns = new LoopTurns(8)

/**
 * Sends the body, or the requested range of it; nothing of what the client has already.
 * @throws Failure range_outside
 * @throws Error when it cannot be read to its end: the server then resets the response, so that nobody takes it for complete
 */
export async function sendRanged(
  { req, res, user, address }: Call,
  body: RangedBody,
  stallMs: number
): Promise<typeof HANDLED> {
  boundReading(res, stallMs)
  const { size, tag, safety = {} } = body
  if (isHeld(req, tag)) {
    const cacheControl = body.headers['Cache-Control']
    res.writeHead(304, { ...safety, ...(cacheControl && { 'Cache-Control': cacheControl }), ETag: tag }).end()
    return HANDLED
  }
  const range = wantedRange(req, body)
  if (range === 'outside') throw fail('range_outside', null, { ...safety, 'Content-Range': `bytes */${size}` })
  const { start, end } = range ?? { start: 0, end: size - 1 }
  res.writeHead(range ? 206 : 200, {
    ...safety,
    ...body.headers,
    'Content-Length': end - start + 1,
    ...(range && { 'Content-Range': `bytes ${start}-${end}/${size}` }),
    'Accept-Ranges': 'bytes',
    ETag: tag
  })
  if (req.method === 'HEAD') res.end()
  else
    await pipeline(inTurns(body.read(start, end), user?.id ?? address), res).catch((error: unknown) => {
      if (!isGone(error)) throw error
    })
  return HANDLED
}

async function* inTurns(pieces: AsyncIterable<Buffer>, reader: string): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    await pieceTurns.enter(reader)
    yield piece
  }
}
