// Public static files, kept in memory in compressed form; supports conditional requests.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { completeHeaders } from './reply.ts'

export interface Asset {
  readonly type: string
  /** ETag of the content, quoted. */
  readonly tag: string
  readonly plain: Buffer
  /** By encoding, best first. */
  readonly encoded: ReadonlyMap<string, Buffer>
  /** Its path contains a hash of its content: it can be cached for ever. */
  readonly isImmutable: boolean
  readonly headers: Readonly<Record<string, string>>
}

const YEAR_S = 31_536_000

export function sendAsset(req: IncomingMessage, res: ServerResponse, asset: Asset): void {
  const encoding = encodingFor(req, asset)
  const bytes = encoding === null ? asset.plain : asset.encoded.get(encoding)!
  const tag = encoding === null ? asset.tag : `${asset.tag.slice(0, -1)}-${encoding}"`
  const headers = {
    ...asset.headers,
    'Content-Type': asset.type,
    'Cache-Control': asset.isImmutable ? `public, max-age=${YEAR_S}, immutable` : 'no-cache',
    Vary: 'Accept-Encoding, Accept',
    ETag: tag
  }
  completeHeaders(res, headers)
  if (isHeld(req, tag)) {
    res.writeHead(304, headers).end()
    return
  }
  res.writeHead(200, {
    ...headers,
    ...(encoding !== null && { 'Content-Encoding': encoding }),
    'Content-Length': bytes.length
  })
  res.end(req.method === 'HEAD' ? undefined : bytes)
}

/** The best encoding the client accepts. `br;q=0` means no. */
function encodingFor(req: IncomingMessage, { encoded }: Asset): string | null {
  const accepted = String(req.headers['accept-encoding'] ?? '').toLowerCase()
  for (const name of encoded.keys())
    if (new RegExp(`(^|[\\s,])${name}(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))\\b`).test(accepted)) return name
  return null
}

/** The client has this version already and says so: it is answered 304. */
export function isHeld(req: IncomingMessage, tag: string): boolean {
  const held = req.headers['if-none-match']
  return held?.split(',').some((one) => ['*', tag].includes(one.trim().replace(/^W\//, ''))) ?? false
}
