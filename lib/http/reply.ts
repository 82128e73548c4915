// An answer on its way out: JSON, failures, cookies, and the two kinds that stay open (an event stream, a long wait).
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Failure } from '../errors.ts'
import type { Wire } from '../wire.ts'
import type { Call, Cookie, Reply } from './call.ts'
import { hasBody } from './request.ts'

const JSON_TYPE = 'application/json'

// ---------------------------------------------------------------------------------------------- replies

/** Sends what a handler answered. `cookies` are set besides its own; of two with one name the handler's counts. */
export function sendReply(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
  cookies: readonly Cookie[] = []
): void {
  const own = reply.cookies ?? []
  const others = cookies.filter((cookie) => !own.some((one) => one.name === cookie.name))
  const text = reply.text?.body ?? reply.jsonText ?? (reply.json === undefined ? '' : JSON.stringify(reply.json))
  const type = reply.text?.type ?? JSON_TYPE
  send(req, res, reply.status ?? 200, { ...reply.headers }, text, type, [...own, ...others])
}

/** `{"detail": ...}` with the status of the failure. */
export function sendFailure(
  req: IncomingMessage,
  res: ServerResponse,
  failure: Failure,
  cookies: readonly Cookie[] = []
): void {
  const text = JSON.stringify({ detail: failure.detail })
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
  if (isUnread) return sayAndLinger(req, res, body)
  boundReading(res)
  res.end(body)
}

/** For how long the client of an answer that is said may take none of it, in ms. */
const UNREAD_MS = 120_000

/**
 * An answer that nobody reads must not keep its socket, and its bytes, for ever. node:http closes a socket on which nothing moves
 * for this long, and sets its own time for the next request when the answer is out.
 */
function boundReading(res: ServerResponse): void {
  res.socket?.setTimeout(UNREAD_MS)
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
function sayAndLinger(req: IncomingMessage, res: ServerResponse, body: string | Buffer): void {
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

// ------------------------------------------------------------------------------------------ open answers

// no-transform and X-Accel-Buffering: proxies that compress or buffer would hold frames back until the run is over.
const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no'
}

export interface OpenOptions {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Takes the response over as an event stream: its head goes out at once, before there is a first frame. The handler answers TAKEN.
 * A HEAD request gets the head; its wire is closed from the beginning.
 */
export function openStream(call: Call, options: OpenOptions = {}): Wire {
  writeOpenHead(call, { ...STREAM_HEADERS, ...options.headers }, options.status ?? 200)
  return wireOf(call)
}

/** An answer that takes long: blanks keep proxies from giving up, and JSON does not mind them. */
export interface LongReply {
  /** Sends one blank, unless the client does not read. */
  beat(): void
  /** Sends the JSON text, which ends the answer. */
  end(jsonText: string): void
  /** Broken off by us, so that no client takes what it has for an answer. */
  reset(): void
  /** Once, whoever closed it. */
  onClose(listener: () => void): void
}

/** Takes the response over for one JSON text that is not known yet. The status cannot be changed any more: fail before. */
export function longReply(call: Call, options: OpenOptions = {}): LongReply {
  const headers = { 'Content-Type': JSON_TYPE, 'Cache-Control': 'no-cache, no-transform', 'X-Accel-Buffering': 'no' }
  writeOpenHead(call, { ...headers, ...options.headers }, options.status ?? 200)
  const wire = plainWire(call.res)
  return {
    beat() {
      if (!call.res.writableNeedDrain) wire.write(BLANK)
    },
    end(jsonText) {
      boundReading(call.res)
      wire.write(Buffer.from(jsonText))
      wire.end()
    },
    reset: wire.reset,
    onClose: wire.onClose
  }
}

const BLANK = Buffer.from(' ')

function writeOpenHead(call: Call, headers: Readonly<Record<string, string>>, status: number): void {
  const { req, res } = call
  // An HTTP/1.0 client (nginx's default towards us) knows no chunks: for it the end of the connection is the end of the stream.
  const isOld = req.httpVersionMajor === 1 && req.httpVersionMinor === 0
  if (isOld) res.shouldKeepAlive = false
  // Frames are small and each is worth its packet: Nagle's algorithm would hold them back for the last one's acknowledgement.
  res.socket?.setNoDelay(true)
  gather(res.socket)
  res.writeHead(status, { ...headers, Connection: res.shouldKeepAlive ? 'keep-alive' : 'close' })
  res.flushHeaders()
  if (call.method === 'HEAD') res.end()
}

/** What is written in this turn of the loop goes out together: a head, and what there is to say to who joins. */
function gather(socket: Socket | null): void {
  if (socket === null) return
  socket.cork()
  setImmediate(() => socket.uncork())
}

function wireOf(call: Call): Wire {
  const { res } = call
  const { socket } = res
  // A pipelined request has no socket yet; an HTTP/1.0 client takes no chunks; a HEAD request takes no body.
  const isDirect = socket !== null && res.chunkedEncoding && !res.writableEnded
  return isDirect ? directWire(res, socket) : plainWire(res)
}

function plainWire(res: ServerResponse): Wire {
  return {
    write: (bytes) => !res.writableEnded && !res.destroyed && res.write(bytes),
    end: () => {
      res.end()
    },
    reset: () => reset(res),
    onDrain: (listener) => {
      res.on('drain', listener)
    },
    onClose: (listener) => onClose(res, listener)
  }
}

/**
 * Writes chunks past node:http, which would frame the same bytes anew for every joiner: that is a third of the price of a write.
 * Only the end is node:http's again, so that the connection can be used for the next request.
 */
function directWire(res: ServerResponse, socket: Socket): Wire {
  let drained: (() => void) | null = null
  const letGo = () => {
    if (drained) socket.off('drain', drained)
    drained = null
  }
  res.once('close', letGo)
  return {
    write: (bytes) => !res.writableEnded && !socket.destroyed && writeChunk(socket, bytes),
    end: () => {
      // The next request on this connection has its own reader.
      letGo()
      res.end()
    },
    reset: () => reset(res),
    onDrain: (listener) => {
      letGo()
      drained = listener
      socket.on('drain', listener)
    },
    onClose: (listener) => onClose(res, listener)
  }
}

function onClose(res: ServerResponse, listener: () => void): void {
  // Too late for the event: it is told all the same, or somebody would wait for it for ever.
  if (res.closed || res.destroyed) process.nextTick(listener)
  else res.once('close', listener)
}

/** From here on it costs less to write the framing by itself than to copy the bytes into it. */
const COPIED_MAX = 16 * 1024
const CHUNK_END = Buffer.from('\r\n')

function writeChunk(socket: Socket, bytes: Uint8Array): boolean {
  if (bytes.length <= COPIED_MAX) return socket.write(chunkOf(bytes))
  socket.cork()
  socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1')
  socket.write(bytes)
  const hasSpace = socket.write(CHUNK_END)
  socket.uncork()
  return hasSpace
}

/** Bytes in the framing of a chunk, framed once for all wires that they go to. */
const chunks = new WeakMap<Uint8Array, Buffer>()

function chunkOf(bytes: Uint8Array): Buffer {
  const known = chunks.get(bytes)
  if (known) return known
  const head = `${bytes.length.toString(16)}\r\n`
  const chunk = Buffer.allocUnsafe(head.length + bytes.length + 2)
  chunk.write(head, 0, 'latin1')
  chunk.set(bytes, head.length)
  chunk.write('\r\n', head.length + bytes.length, 'latin1')
  chunks.set(bytes, chunk)
  return chunk
}

/** Breaks a response off so that nobody takes it for complete: a FIN looks like success to HTTP/1.0 proxies, a reset does not. */
export function reset(res: ServerResponse): void {
  if (res.socket) breakOff(res.socket)
  else res.destroy()
}

/** Resets a connection, whatever state it is in. */
export function breakOff(socket: Socket): void {
  // While its FIN is on the way (all is written, its client has half-closed) a socket cannot be reset: node would let go of it and
  // never close it, and its descriptor would be lost.
  const isClosing = socket.writableEnded && socket.writableLength === 0
  if (isClosing) socket.destroy()
  else socket.resetAndDestroy()
}

const GONE: ReadonlySet<unknown> = new Set([
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  'ECONNRESET',
  'EPIPE'
])

/** What a pipeline into a response says when the other side has gone: nothing that anybody here could do better. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && GONE.has(error.code)
}
