// Sends complete responses: head, cookies, body.
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { type Failure, warnUnexpected, codeOf } from '../base/errors.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import { wellFormedJson } from '../base/json.ts'
import type { ErrorForm } from './dialect.ts'
import type { Cookie, Reply } from './route.ts'
import { awaitsContinue, hasBody, readOn } from './body.ts'
import { basePathOf, basePaths, placeHeaders } from './base-path.ts'

export const JSON_TYPE = 'application/json'
export const NO_STORE = 'private, no-store'
/** From this size on, a separate write is cheaper than copying the body behind its head. */
export const COPIED_MAX = 16 * 1024

/** Sends a handler's reply. `cookies` are added; on a name clash the handler's wins. */
export function sendReply(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
  cookies: readonly Cookie[] = []
): void {
  const own = reply.cookies ?? []
  const others = cookies.filter((cookie) => !own.some((one) => one.name === cookie.name))
  const json = reply.jsonText ?? (reply.json === undefined ? '' : JSON.stringify(reply.json))
  const text = reply.text?.body ?? wellFormedJson(json)
  const type = reply.text?.type ?? JSON_TYPE
  send(req, res, reply.status ?? 200, { ...reply.headers }, text, type, [...own, ...others])
}

/**
 * `{"detail": ...}` with the failure's status; `message` is added if the detail is no text.
 * @param errors another form, of the row or of the client's dialect
 */
export function sendFailure(
  req: IncomingMessage,
  res: ServerResponse,
  failure: Failure,
  cookies: readonly Cookie[] = [],
  errors: ErrorForm | null = null
): void {
  const { detail, message, status, headers } = failure
  const json = typeof detail === 'string' ? { detail } : { detail, message }
  sendReply(req, res, errors?.(failure, req) ?? { status, headers, json }, cookies)
}

/** 500, for bugs only. Contains just the id of the log entry. */
export function sendBroken(req: IncomingMessage, res: ServerResponse, requestId: string): void {
  send(req, res, 500, { 'X-Request-Id': requestId }, 'Internal Server Error', 'text/plain; charset=utf-8', [])
}

function send(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  text: string,
  type: string,
  cookies: readonly Cookie[]
): void {
  if (res.headersSent || res.destroyed) return
  if (text !== '') headers['Content-Type'] = type
  completeHeaders(res, headers)
  // A long text as bytes: node:http would copy it once more.
  const body = text.length > COPIED_MAX ? Buffer.from(text) : text
  if (status !== 204) headers['Content-Length'] = Buffer.byteLength(body)
  if (cookies.length > 0) headers['Set-Cookie'] = cookies.map((cookie) => cookieText(cookie, basePathOf(req)))
  if (basePaths.has(req)) placeHeaders(req, headers)
  const isUnread = hasLongRest(req)
  const isAwaited = awaitsContinue(req)
  // A client that was not asked for its body may send it nevertheless, or not.
  if (isUnread || isAwaited) res.shouldKeepAlive = false
  res.writeHead(status, headers)
  if (isUnread && !isAwaited) return lingeringClose(req, res, body)
  boundReading(res)
  res.end(body)
}

/**
 * An answer is for whom it was given and not for a cache, unless it says otherwise; one with a validator may be asked for again. What it
 * varies by comes on top of what all do, which the response has already: of two values the head would have the later one.
 */
export function completeHeaders(res: ServerResponse, headers: OutgoingHttpHeaders): void {
  const given = new Set(Object.keys(headers).map((name) => name.toLowerCase()))
  const hasValidator = given.has('etag') || given.has('last-modified')
  if (!given.has('cache-control')) headers['Cache-Control'] = hasValidator ? 'private, no-cache' : NO_STORE
  if (!given.has('x-content-type-options')) headers['X-Content-Type-Options'] = 'nosniff'
  const [all, own] = [res.getHeader('Vary'), headers.Vary]
  if (all !== undefined && own !== undefined) headers.Vary = `${all}, ${own}`
}

/** Stall timeout for the client of a complete response, in ms. */
const UNREAD_MS = 120_000

/**
 * A response nobody reads must not keep its socket and bytes for ever. node:http closes a socket without progress for
 * this long, and sets its own timeout once the response is out.
 */
export function boundReading(res: ServerResponse, unreadMs = UNREAD_MS): void {
  if (res.socket) res.socket.setTimeout(unreadMs)
  // It is queued behind another response (pipelining).
  else res.once('socket', (socket: Socket) => socket.setTimeout(unreadMs))
}

/** A Set-Cookie line, for the whole server and nothing beside it. Expires accompanies Max-Age=0 for clients without Max-Age. */
export function cookieText(cookie: Cookie, basePath = ''): string {
  const parts = [`${cookie.name}=${cookie.value}`, `Path=${basePath || '/'}`]
  if (cookie.maxAge !== undefined) parts.push(`Max-Age=${cookie.maxAge}`)
  if (cookie.maxAge === 0) parts.push('Expires=Thu, 01 Jan 1970 00:00:00 GMT')
  if (cookie.httpOnly) parts.push('HttpOnly')
  if (cookie.secure) parts.push('Secure')
  parts.push(`SameSite=${cookie.sameSite}`)
  return parts.join('; ')
}

// ------------------------------------------------------------------------------------------ unread bodies

/** Up to this size node:http discards the rest of a body by itself and keeps the connection. */
const REST_BYTES = 65_536
const LINGER_BYTES = 64 * 1024 * 1024
const LINGER_MS = 2_000
/** Pieces of such bodies discarded per turn of the loop, over all connections: 200 at once would block it for many ms. */
const restTurns = new LoopTurns(2)

function hasLongRest(req: IncomingMessage): boolean {
  if (req.complete || !hasBody(req)) return false
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > REST_BYTES
}

/**
 * Answers a request whose body is still arriving. Closing at once would reset the connection before the client sees the
 * answer; so the answer is sent, a bounded rest of the body is discarded, and then the connection is closed.
 */
function lingeringClose(req: IncomingMessage, res: ServerResponse, body: string | Buffer): void {
  if (body === '') res.flushHeaders()
  else res.write(body)
  // The request has no socket any more when a reader of its body has given up.
  const address = res.socket?.remoteAddress ?? ''
  let left = LINGER_BYTES
  const onData = (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) return stop()
    readOn(req, restTurns, address)
  }
  const stop = () => {
    clearTimeout(timer)
    req.off('data', onData).off('end', stop).off('close', stop)
    res.end()
  }
  const timer = setTimeout(() => restTurns.next(address).then(stop).catch(warnUnexpected), LINGER_MS)
  req.on('data', onData).on('end', stop).on('close', stop)
  req.resume()
}

// -------------------------------------------------------------------------------------------------------------- lists

/** Characters encoded per turn of the event loop. */
const TURN_LENGTH = 128 * 1024
/** Characters of the whole list. */
const LENGTH_MAX = 4 * 1024 * 1024

interface JsonList {
  readonly jsonText: string
  /** Number of items in it, at least one. */
  readonly count: number
}

export async function jsonList<Item>(
  items: readonly Item[],
  encoded: (item: Item) => string = JSON.stringify,
  lengthMax = LENGTH_MAX
): Promise<JsonList> {
  const texts: string[] = []
  let [length, thisTurn] = [0, 0]
  for (const item of items) {
    if (thisTurn > TURN_LENGTH) {
      await turn()
      thisTurn = 0
    }
    const text = encoded(item)
    length += text.length
    thisTurn += text.length
    if (length > lengthMax && texts.length > 0) break
    texts.push(text)
  }
  return { jsonText: `[${texts.join(',')}]`, count: texts.length }
}

// ----------------------------------------------------------------------------------------------------
// Resetting connections, so that nobody takes a truncated response for complete, and recognising when a client does.

/** Resets a response: a FIN looks like success to HTTP/1.0 proxies, a reset does not. */
export function reset(res: ServerResponse): void {
  if (res.socket) breakOff(res.socket)
  else res.destroy()
}

export function breakOff(socket: Socket): void {
  // While its FIN is being sent, a socket cannot be reset: node would drop it without closing, and leak its descriptor.
  const isClosing = socket.writableEnded && socket.writableLength === 0
  if (isClosing) socket.destroy()
  else socket.resetAndDestroy()
}

const GONE: ReadonlySet<string | null> = new Set([
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  'ECONNRESET',
  'EPIPE'
])

/** Errors of a pipeline whose client has gone: nothing to handle. */
export function isGone(error: unknown): boolean {
  return GONE.has(codeOf(error))
}
