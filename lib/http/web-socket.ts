// A WebSocket connection. Outgoing frames are encoded once for any number of sockets and written directly; incoming
// ones are read by `ws`, which also does the closing handshake.
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { Failure } from '../errors.ts'
import type { ResetReason, StreamWriter } from '../stream-writer.ts'
import type { Call } from './call.ts'

/** Text messages in both directions. Frames may be written in pieces: only the writer knows when other frames may come between. */
export interface TextSocket extends StreamWriter {
  onText(listener: (text: string) => void): void
  /** A ping; `pong` is the frame to answer with. */
  onPing(listener: (pong: Buffer) => void): void
  /** Nothing is read until `resume`. */
  pause(): void
  resume(): void
  close(code: number, reason: string): void
  /** When the client last responded, by `performance.now()`. */
  heardAt(): number
}

export const PING = Buffer.from([0x89, 0])

/** Close codes for resets: clients reconnect, unless their credential was revoked [langgraph 4.4]. */
const CLOSED: Readonly<Record<ResetReason, readonly [number, string]>> = {
  revoked: [4401, 'signed out'],
  stopping: [1012, 'the server restarts'],
  stalled: [1008, 'nothing is read'],
  broken: [1011, 'the stream cannot go on']
}
/** Timeout for the closing handshake, in ms. */
const CLOSING_MS = 1000

const PONG = 0x8a
const TEXT = 0x81
const SHORT_MAX = 125
const U16_MAX = 0xffff

/** Encodes each text as a frame, all in one buffer. */
export function textFrames(texts: readonly string[]): Buffer {
  const sizes = texts.map((text) => Buffer.byteLength(text))
  const frames = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + size + headLength(size), 0))
  let at = 0
  for (const [i, text] of texts.entries()) {
    at = writeHead(frames, at, sizes[i]!)
    at += frames.write(text, at, 'utf8')
  }
  return frames
}

function headLength(size: number): number {
  return size <= SHORT_MAX ? 2 : size <= U16_MAX ? 4 : 10
}

function writeHead(bytes: Buffer, at: number, size: number): number {
  bytes.writeUInt8(TEXT, at)
  if (size <= SHORT_MAX) return bytes.writeUInt8(size, at + 1)
  bytes.writeUInt8(size <= U16_MAX ? 126 : 127, at + 1)
  return size <= U16_MAX ? bytes.writeUInt16BE(size, at + 2) : bytes.writeBigUInt64BE(BigInt(size), at + 2)
}

/** What node:http passes with an upgrade request. */
export interface Upgrade {
  readonly socket: Duplex
  readonly head: Buffer
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>()

/** Called for an upgrade request, before it is handled. */
export function noteUpgrade(req: IncomingMessage, upgrade: Upgrade): void {
  upgrades.set(req, upgrade)
}

/** Whether a request is a pending upgrade. */
export function isUpgrade(req: IncomingMessage): boolean {
  return upgrades.has(req)
}

const accepting = new Map<number, WebSocketServer>()

/** Only for the handshake. Without compression, which would be repeated for every socket; pongs wait for a frame border. */
function serverFor(maxBytes: number): WebSocketServer {
  const known = accepting.get(maxBytes)
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    autoPong: false,
    maxPayload: maxBytes
  }
  const server = known ?? new WebSocketServer(options)
  accepting.set(maxBytes, server)
  return server
}

/**
 * Takes over a call's connection as a WebSocket. The handler returns HANDLED. Messages above `maxBytes` close it.
 * @throws Failure 426 upgrade_required when the request is not an upgrade
 */
export function acceptWebSocket(call: Call, maxBytes: number): TextSocket {
  const { req, res } = call
  const upgrade = upgrades.get(req)
  if (!upgrade) throw new Failure('upgrade_required', null, { Upgrade: 'websocket' })
  upgrades.delete(req)
  const { socket, head } = upgrade
  res.detachSocket(req.socket)
  res.statusCode = 101
  let accepted: TextSocket | null = null
  serverFor(maxBytes).handleUpgrade(req, socket, head, (ws) => {
    accepted = textSocket(ws, socket)
  })
  return accepted ?? refused(socket)
}

function textSocket(ws: WebSocket, socket: Duplex): TextSocket {
  let heardAt = performance.now()
  const heard = () => {
    heardAt = performance.now()
  }
  ws.on('pong', heard)
  // A `close` event follows.
  ws.on('error', () => {})
  const write = (bytes: Uint8Array) => ws.readyState === ws.OPEN && !socket.destroyed && socket.write(bytes)
  const close = (code: number, reason: string) => {
    if (ws.readyState === ws.OPEN) ws.close(code, reason)
    setTimeout(() => ws.terminate(), CLOSING_MS).unref()
  }
  return {
    write,
    end: () => close(1000, ''),
    reset: (why = 'broken') => close(...CLOSED[why]),
    close,
    onDrain: (listener) => {
      socket.on('drain', listener)
    },
    onClose: (listener) => {
      if (ws.readyState === ws.CLOSED) process.nextTick(listener)
      else ws.once('close', listener)
    },
    onText: (listener) => {
      ws.on('message', (data) => {
        heard()
        listener(String(data))
      })
    },
    onPing: (listener) => {
      ws.on('ping', (data) => {
        heard()
        listener(Buffer.concat([Buffer.from([PONG, data.length]), data]))
      })
    },
    pause: () => ws.pause(),
    resume: () => ws.resume(),
    heardAt: () => heardAt
  }
}

/** The handshake was invalid and has been answered; the socket is closed already. */
function refused(socket: Duplex): TextSocket {
  const nothing = () => {}
  const closed = (listener: () => void) => void socket.once('close', listener)
  const none = () => false
  return {
    write: none,
    end: nothing,
    reset: nothing,
    close: nothing,
    onDrain: nothing,
    onClose: closed,
    onText: nothing,
    onPing: nothing,
    pause: nothing,
    resume: nothing,
    heardAt: () => performance.now()
  }
}
