// Responses that stay open: an event stream, or JSON that takes long.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Failure } from '../base/errors.ts'
import type { StreamWriter } from '../base/stream-writer.ts'
import type { Call } from './route.ts'
import { basePaths, placeHeaders } from './base-path.ts'
import { boundReading, COPIED_MAX, isGone, JSON_TYPE, NO_STORE, reset, sendFailure } from './reply.ts'

// no-transform and X-Accel-Buffering: proxies that compress or buffer would hold frames back until the run is over.
const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no'
}

interface OpenOptions {
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Takes the response over as an event stream: its head goes out at once, before there is a first frame. The handler answers HANDLED.
 * A HEAD request gets the head; its stream is closed from the beginning.
 */
export function openStream(call: Call, options: OpenOptions = {}): StreamWriter {
  writeOpenHead(call, { ...STREAM_HEADERS, ...options.headers })
  return writerOf(call)
}

/**
 * Sends a file of which the length is not known, to be saved. When its making fails the response is reset, so that nobody takes a part of
 * it for all.
 */
export async function sendDownload(
  call: Call,
  source: Readable,
  { name, type }: { readonly name: string; readonly type: string }
): Promise<void> {
  const { req, res } = call
  const headers = {
    'Content-Type': type,
    'Content-Disposition': `attachment; filename="${name}"`,
    'Cache-Control': NO_STORE,
    'X-Content-Type-Options': 'nosniff'
  }
  if (source.errored) throw source.errored
  boundReading(res)
  res.writeHead(200, headers)
  if (req.method === 'HEAD') {
    source.destroy()
    res.end()
    return
  }
  await pipeline(source, res).catch((error: unknown) => {
    // Whoever leaves has made no error. The response is destroyed by either.
    if (!isGone(error)) throw error
  })
}

/** A slow JSON response: spaces keep proxies from giving up, and JSON ignores them. */
export interface DeferredJson {
  /** Sends one space, unless the client is not reading or the head is still held. */
  beat(): void
  end(jsonText: string): void
  /** Ends it with a failure: with its status while the head is held, and else with `jsonText`. */
  fail(failure: Failure, jsonText: string): void
  /** Resets it, so that no client takes a partial response for complete. */
  reset(): void
  /** Called once, whichever side closed it. */
  onClose(listener: () => void): void
}

/**
 * Takes over the response for JSON that is not known yet. Its head, a 200, is held for `heldMs`: some clients need its headers at once,
 * to others a failure can still be told by its status.
 */
export function deferredJson(call: Call, options: OpenOptions & { readonly heldMs?: number } = {}): DeferredJson {
  const { req, res } = call
  const heldUntil = performance.now() + (options.heldMs ?? 0)
  const headers = {
    'Content-Type': JSON_TYPE,
    'Cache-Control': `${NO_STORE}, no-transform`,
    'X-Content-Type-Options': 'nosniff',
    'X-Accel-Buffering': 'no'
  }
  const open = () => {
    if (!res.headersSent && !res.destroyed) writeOpenHead(call, { ...headers, ...options.headers })
  }
  if (!options.heldMs) open()
  const writer = plainWriter(res)
  const end = (jsonText: string) => {
    open()
    boundReading(res)
    writer.end(Buffer.from(jsonText))
  }
  return {
    beat() {
      if (performance.now() < heldUntil) return
      open()
      if (!res.writableNeedDrain) writer.write(BLANK)
    },
    end,
    fail(failure, jsonText) {
      if (res.headersSent) end(jsonText)
      else sendFailure(req, res, failure, [], call.errors)
    },
    reset: writer.reset,
    onClose: writer.onClose
  }
}

const BLANK = Buffer.from(' ')

function writeOpenHead(call: Call, headers: Readonly<Record<string, string>>): void {
  const { req, res } = call
  // HTTP/1.0 clients (nginx's default upstream) know no chunks: for them the end of the connection is the end of the stream.
  const isOld = req.httpVersionMajor === 1 && req.httpVersionMinor === 0
  if (isOld) res.shouldKeepAlive = false
  // Frames are small and urgent: Nagle's algorithm would hold them back until the last one is acknowledged.
  res.socket?.setNoDelay(true)
  gather(res.socket)
  const head = { Connection: res.shouldKeepAlive ? 'keep-alive' : 'close', ...headers }
  if (basePaths.has(req)) placeHeaders(req, head)
  res.writeHead(200, head)
  res.flushHeaders()
  if (call.method === 'HEAD') res.end()
}

/** Writes of one tick go out together: a head, and the first data for a new joiner. */
function gather(socket: Socket | null): void {
  if (socket === null) return
  socket.cork()
  process.nextTick(() => socket.uncork())
}

function writerOf(call: Call): StreamWriter {
  const { res } = call
  const { socket } = res
  // Pipelined requests have no socket yet, HTTP/1.0 clients take no chunks, HEAD requests no body.
  const isDirect = socket !== null && res.chunkedEncoding && !res.writableEnded
  return isDirect ? new DirectWriter(res, socket) : plainWriter(res)
}

function plainWriter(res: ServerResponse): StreamWriter {
  return {
    write: (bytes) => !res.writableEnded && !res.destroyed && res.write(bytes),
    end: (last) => {
      if (!res.writableEnded && !res.destroyed) res.end(last)
    },
    reset: () => reset(res),
    onDrain: (listener) => {
      res.on('drain', listener)
    },
    onClose: (listener) => onClose(res, listener)
  }
}

/**
 * Writes chunks to the socket directly: node:http would frame the same bytes again for every joiner, a third of the
 * cost of a write. Only the end goes through node:http, so that the connection can be reused.
 */
class DirectWriter implements StreamWriter {
  readonly #res: ServerResponse
  readonly #socket: Socket
  #drained: (() => void) | null = null

  constructor(res: ServerResponse, socket: Socket) {
    this.#res = res
    this.#socket = socket
  }

  write(bytes: Uint8Array): boolean {
    return !this.#res.writableEnded && !this.#socket.destroyed && writeChunk(this.#socket, bytes)
  }

  end(last: Uint8Array): void {
    this.#letGo()
    if (this.#res.writableEnded || this.#socket.destroyed) return
    // In one packet with the final chunk: node:http uncorks when it ends.
    this.#socket.cork()
    // An empty chunk would end the response.
    if (last.length > 0) writeChunk(this.#socket, last)
    this.#res.end()
  }

  reset(): void {
    reset(this.#res)
  }

  onDrain(listener: () => void): void {
    this.#letGo()
    this.#drained = listener
    this.#socket.on('drain', listener)
  }

  onClose(listener: () => void): void {
    onClose(this.#res, listener)
  }

  /** The connection's next request has a reader of its own. */
  #letGo(): void {
    if (this.#drained) this.#socket.off('drain', this.#drained)
    this.#drained = null
  }
}

function onClose(res: ServerResponse, listener: () => void): void {
  // The event has already been emitted: report it anyway, or the caller would wait for ever.
  if (res.closed || res.destroyed) process.nextTick(listener)
  else res.once('close', listener)
}

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

/**
 * Chunked framing of the same bytes, shared by all streams: those are written one after the other, so remembering the
 * last few is enough. (A WeakMap would remember all, and burden the garbage collector.)
 */
const framed: { readonly bytes: Uint8Array; readonly chunk: Buffer }[] = []
const FRAMED_MAX = 8
let oldest = 0

function chunkOf(bytes: Uint8Array): Buffer {
  for (const known of framed) if (known.bytes === bytes) return known.chunk
  const chunk = newChunk(bytes)
  framed[oldest] = { bytes, chunk }
  oldest = (oldest + 1) % FRAMED_MAX
  return chunk
}

function newChunk(bytes: Uint8Array): Buffer {
  const head = `${bytes.length.toString(16)}\r\n`
  const chunk = Buffer.allocUnsafe(head.length + bytes.length + 2)
  chunk.write(head, 0, 'latin1')
  chunk.set(bytes, head.length)
  chunk.write('\r\n', head.length + bytes.length, 'latin1')
  return chunk
}
