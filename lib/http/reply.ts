// An answer that is whole, on its way out: its head, its cookies, its text.
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Failure } from '../errors.ts'
import { wellFormedJson } from '../well-formed.ts'
import type { Cookie, Reply } from './call.ts'
import { hasBody } from './request.ts'

export const JSON_TYPE = 'application/json'
/** From here on bytes cost less in a write of their own than copied behind their head. */
export const COPIED_MAX = 16 * 1024

/** Sends what a handler answered. `cookies` are set besides its own; of two with one name the handler's counts. */
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

/** `{"detail": ...}` with the status of the failure, and where that is no text one beside it, for clients that show one. */
export function sendFailure(
  req: IncomingMessage,
  res: ServerResponse,
  failure: Failure,
  cookies: readonly Cookie[] = []
): void {
  const { detail, message } = failure
  const text = JSON.stringify(typeof detail === 'string' ? { detail } : { detail, message })
  send(req, res, failure.status, { ...failure.headers }, text, JSON_TYPE, cookies)
}

/** 500, for programmers' errors alone. Says nothing but the id under which the log has the rest. */
export function sendBroken(req: IncomingMessage, res: ServerResponse, requestId: string): void {
  send(req, res, 500, { 'X-Request-Id': requestId }, 'Internal Server Error', 'text/plain; charset=utf-8', [])
}

/** Sends headers and nothing else: the answer to a preflight. */
export function sendEmpty(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>
): void {
  send(req, res, status, { ...headers }, '', JSON_TYPE, [])
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
  // A long text as bytes: node:http would copy it once more, behind the head.
  const body = text.length > COPIED_MAX ? Buffer.from(text) : text
  if (status !== 204) headers['Content-Length'] = Buffer.byteLength(body)
  if (cookies.length > 0) headers['Set-Cookie'] = cookies.map(cookieText)
  const isUnread = hasLongRest(req)
  if (isUnread) res.shouldKeepAlive = false
  res.writeHead(status, headers)
  if (isUnread) return lingeringClose(req, res, body)
  boundReading(res)
  res.end(body)
}

/** For how long the client of an answer that is said may take none of it, in ms. */
const UNREAD_MS = 120_000

/**
 * An answer that nobody reads must not keep its socket, and its bytes, for ever. node:http closes a socket on which nothing moves
 * for this long, and sets its own time for the next request when the answer is out.
 */
export function boundReading(res: ServerResponse, unreadMs = UNREAD_MS): void {
  if (res.socket) res.socket.setTimeout(unreadMs)
  // It waits behind another answer on its connection.
  else res.once('socket', (socket: Socket) => socket.setTimeout(unreadMs))
}

/** A Set-Cookie line. Expires stands beside Max-Age=0 for clients that know no Max-Age. */
export function cookieText(cookie: Cookie): string {
  const parts = [`${cookie.name}=${cookie.value}`, 'Path=/']
  if (cookie.maxAge !== undefined) parts.push(`Max-Age=${cookie.maxAge}`)
  if (cookie.maxAge === 0) parts.push('Expires=Thu, 01 Jan 1970 00:00:00 GMT')
  if (cookie.httpOnly) parts.push('HttpOnly')
  if (cookie.secure) parts.push('Secure')
  parts.push(`SameSite=${cookie.sameSite}`)
  return parts.join('; ')
}

// ------------------------------------------------------------------------------------------ unread bodies

/** Up to this size node:http throws the rest of a body away by itself and the connection lives on. */
const REST_BYTES = 65_536
const LINGER_BYTES = 64 * 1024 * 1024
const LINGER_MS = 2_000

function hasLongRest(req: IncomingMessage): boolean {
  if (req.complete || !hasBody(req)) return false
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > REST_BYTES
}

/**
 * Answers a request whose body is still coming. Closing at once would reset the connection, and the client would see the reset
 * and not the answer; so the answer goes out whole, a bounded rest of the body is thrown away, and then the connection ends.
 */
function lingeringClose(req: IncomingMessage, res: ServerResponse, body: string | Buffer): void {
  if (body === '') res.flushHeaders()
  else res.write(body)
  let left = LINGER_BYTES
  const onData = (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) stop()
  }
  const stop = () => {
    clearTimeout(timer)
    req.off('data', onData).off('end', stop).off('close', stop)
    res.end()
  }
  const timer = setTimeout(stop, LINGER_MS)
  req.on('data', onData).on('end', stop).on('close', stop)
  req.resume()
}
