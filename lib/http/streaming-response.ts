// An answer that stays open: an event stream, or the wait for something that takes long.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { StreamWriter } from '../stream-writer.ts'
import type { Call } from './call.ts'
import { boundReading, COPIED_MAX, JSON_TYPE } from './reply.ts'
import { reset } from './reset.ts'

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
 * Takes the response over as an event stream: its head goes out at once, before there is a first frame. The handler answers HANDLED.
 * A HEAD request gets the head; its stream is closed from the beginning.
 */
export function openStream(call: Call, options: OpenOptions = {}): StreamWriter {
  writeOpenHead(call, { ...STREAM_HEADERS, ...options.headers }, options.status ?? 200)
  return writerOf(call)
}

/** An answer that takes long: blanks keep proxies from giving up, and JSON does not mind them. */
export interface DeferredJson {
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
export function deferredJson(call: Call, options: OpenOptions = {}): DeferredJson {
  const headers = { 'Content-Type': JSON_TYPE, 'Cache-Control': 'no-cache, no-transform', 'X-Accel-Buffering': 'no' }
  writeOpenHead(call, { ...headers, ...options.headers }, options.status ?? 200)
  const writer = plainWriter(call.res)
  return {
    beat() {
      if (!call.res.writableNeedDrain) writer.write(BLANK)
    },
    end(jsonText) {
      boundReading(call.res)
      writer.end(Buffer.from(jsonText))
    },
    reset: writer.reset,
    onClose: writer.onClose
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
  res.writeHead(status, { Connection: res.shouldKeepAlive ? 'keep-alive' : 'close', ...headers })
  res.flushHeaders()
  if (call.method === 'HEAD') res.end()
}

/** What is written before something else has its turn goes out together: a head, and what there is to say to who joins. */
function gather(socket: Socket | null): void {
  if (socket === null) return
  socket.cork()
  process.nextTick(() => socket.uncork())
}

function writerOf(call: Call): StreamWriter {
  const { res } = call
  const { socket } = res
  // A pipelined request has no socket yet; an HTTP/1.0 client takes no chunks; a HEAD request takes no body.
  const isDirect = socket !== null && res.chunkedEncoding && !res.writableEnded
  return isDirect ? directWriter(res, socket) : plainWriter(res)
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
 * Writes chunks past node:http, which would frame the same bytes anew for every joiner: that is a third of the price of a write.
 * Only the end is node:http's again, so that the connection can be used for the next request.
 */
function directWriter(res: ServerResponse, socket: Socket): StreamWriter {
  let drained: (() => void) | null = null
  const letGo = () => {
    if (drained) socket.off('drain', drained)
    drained = null
  }
  res.once('close', letGo)
  return {
    write: (bytes) => !res.writableEnded && !socket.destroyed && writeChunk(socket, bytes),
    end: (last) => {
      // The next request on this connection has its own reader.
      letGo()
      if (res.writableEnded || socket.destroyed) return
      // With the chunk that tells the end of them all, in one packet: node:http uncorks when it ends.
      socket.cork()
      // A chunk of nothing would be the end already.
      if (last.length > 0) writeChunk(socket, last)
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
 * Bytes in the framing of a chunk, framed once for all streams that they go to: those come one after the other, so that the last few
 * are enough to remember. (A WeakMap would remember all, and make work for whoever collects garbage.)
 */
const framed: { readonly bytes: Uint8Array; readonly chunk: Buffer }[] = []
const FRAMED_MAX = 8
let oldest = 0

function chunkOf(bytes: Uint8Array): Buffer {
  const known = framed.find((one) => one.bytes === bytes)
  if (known) return known.chunk
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
