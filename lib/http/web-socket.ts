// A WebSocket connection. Outgoing frames are encoded once for any number of sockets and written directly; incoming
// ones are read by `ws`, which also does the closing handshake.
import { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Socket } from 'node:net'
import { type Share, takePiece } from '../base/budget.ts'
import { Failure } from '../base/errors.ts'
import type { ResetReason, StreamWriter } from '../base/stream-writer.ts'
import { ArrivingMessage } from './arriving-message.ts'
import type { Call } from './route.ts'

// ----------------------------------------------------------------------------------------------------
// Recognises WebSocket upgrades. Any other Upgrade is ignored, as HTTP allows: clients offer h2c with every request, bodies included.

/** Requests with an Upgrade header. */
const offered = new WeakSet<IncomingMessage>()

/** Connections that accept no more requests, and requests that came on them anyway. */
const full = new WeakSet<Socket>()
const surplus = new WeakSet<IncomingMessage>()

/** Only one more request head is parsed on this connection, and it arrives as an upgrade. */
export function wantNoMore(socket: Socket): void {
  full.add(socket)
}

export function isSurplus(req: IncomingMessage): boolean {
  return surplus.has(req)
}

/** node:http checks whether a request is an upgrade after its head, and then stops parsing. */
export class UpgradableMessage extends IncomingMessage {
  constructor(socket: Socket) {
    super(socket)
    if (full.has(socket)) surplus.add(this)
  }
}

Object.defineProperty(UpgradableMessage.prototype, 'upgrade', {
  get(this: IncomingMessage): boolean {
    return surplus.has(this) || (offered.has(this) && (this.method === 'CONNECT' || isForWebSocket(this)))
  },
  /** Called by node:http while it reads the head. */
  set(this: IncomingMessage, isOffered: boolean): void {
    if (isOffered) offered.add(this)
    else offered.delete(this)
  }
})

function isForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'
}

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
/** Close code: what came is not what this socket is for. */
export const POLICY = 1008
/** Timeout for the closing handshake, in ms. */
const CLOSING_MS = 1000
/** Why a message was not read to its end. */
const SLOW = [1008, 'a message did not arrive in time'] as const
const IN_FLIGHT = [1013, 'too many messages and bodies are on their way; try again'] as const
/** Parts of a message: each costs more memory than its bytes. */
const PARTS_MAX = 4096
/** A message has the time of a body: a connection that keeps one unfinished for longer does so on purpose. */
const ARRIVES_WITHIN_MS = 300_000

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
interface Upgrade {
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
    maxPayload: maxBytes,
    maxFragments: PARTS_MAX
  }
  const server = known ?? new WebSocketServer(options)
  accepting.set(maxBytes, server)
  return server
}

interface MessageBounds {
  readonly maxBytes: number
  /** From its first byte to its last, in ms. */
  readonly arrivesWithin?: number
}

/**
 * Takes over a call's connection as a WebSocket. The handler returns HANDLED. Messages above `maxBytes` close it; what has arrived of
 * one that is not whole counts in the call's share, which is released when the socket is closed.
 * @throws Failure 426 upgrade_required when the request is not an upgrade
 */
export function acceptWebSocket(
  call: Call,
  { maxBytes, arrivesWithin = ARRIVES_WITHIN_MS }: MessageBounds
): TextSocket {
  const known = early.get(call.req)
  early.delete(call.req)
  const { ws, socket, messages, arriving } = known ?? {
    ...handshake(call, maxBytes),
    messages: [],
    arriving: new ArrivingMessage()
  }
  if (ws === null) return refused(socket)
  if (ws.readyState === ws.CLOSED) call.share.release()
  else ws.once('close', () => call.share.release())
  countUnfinished(ws, socket, call.share, arrivesWithin, arriving)
  return textSocket(ws, socket, messages)
}

interface Accepted {
  /** null: the handshake was invalid, and has been answered. */
  readonly ws: WebSocket | null
  readonly socket: Duplex
}

function handshake({ req, res }: Pick<Call, 'req' | 'res'>, maxBytes: number): Accepted {
  const upgrade = upgrades.get(req)
  if (!upgrade) throw new Failure('upgrade_required', null, { Upgrade: 'websocket' })
  upgrades.delete(req)
  const { socket, head } = upgrade
  res.detachSocket(req.socket)
  res.statusCode = 101
  let accepted: WebSocket | null = null
  serverFor(maxBytes).handleUpgrade(req, socket, head, (ws) => {
    accepted = ws
  })
  return { ws: accepted, socket }
}

// ----------------------------------------------------------------------------------------------------
// Sockets that are accepted before it is known whose they are: a browser can set no header of an upgrade.

/** With what has come of each: messages, and where the next one stands. */
interface Early extends Accepted {
  readonly ws: WebSocket
  readonly messages: string[]
  readonly arriving: ArrivingMessage
}

const early = new WeakMap<IncomingMessage, Early>()

/** What may arrive of a first message, and for how long it is waited for, in ms. */
const FIRST_BYTES = 8 * 1024
const FIRST_MS = 10_000

/** Accepts an upgrade for the sake of its first message. null: none came, and the socket is closed. */
export function firstMessage(call: Pick<Call, 'req' | 'res'>, maxBytes: number): Promise<string | null> {
  const { ws, socket } = handshake(call, maxBytes)
  if (ws === null) return Promise.resolve(null)
  const messages: string[] = []
  const arriving = new ArrivingMessage()
  // A `close` event follows.
  ws.on('error', () => {})
  return new Promise((resolve) => {
    let bytes = 0
    let isOver = false
    const give = (text: string | null) => {
      isOver = true
      clearTimeout(late)
      socket.off('data', count)
      ws.off('close', gone)
      resolve(text)
    }
    const gone = () => give(null)
    const refuse = (code: number, reason: string) => {
      give(null)
      ws.resume()
      closeSoon(ws, code, reason)
    }
    // Behind the listener that reads messages: what has ended with these bytes is over already.
    const count = (data: Buffer) => {
      arriving.take(data)
      bytes += data.length
      if (!isOver && bytes > FIRST_BYTES) refuse(TOO_BIG, 'the first message is too long')
    }
    const late = setTimeout(() => refuse(POLICY, 'no message has come'), FIRST_MS).unref()
    ws.once('close', gone)
    ws.on('message', (data) => {
      const text = String(data)
      if (isOver) return void messages.push(text)
      if (text.length > FIRST_BYTES) return refuse(TOO_BIG, 'the first message is too long')
      messages.push(text)
      ws.pause()
      early.set(call.req, { ws, socket, messages, arriving })
      give(text)
    })
    socket.on('data', count)
  })
}

/** Closes a socket whose first message shows nobody who may open it. False: its handler has it already. */
export function refuseEarly(req: IncomingMessage, code: number, reason: string): boolean {
  const known = early.get(req)
  early.delete(req)
  known?.ws.resume()
  if (known) closeSoon(known.ws, code, reason)
  return known !== undefined
}

const TOO_BIG = 1009
/** Bytes of a reason [RFC 6455 5.5]. */
const REASON_MAX = 120

function closeSoon(ws: WebSocket, code: number, reason: string): void {
  if (ws.readyState === ws.OPEN) ws.close(code, reason.replace(/[^\x20-\x7e]/g, '').slice(0, REASON_MAX))
  setTimeout(() => ws.terminate(), CLOSING_MS).unref()
}

/** Counts what has arrived of a message, and closes the socket when that is too much, or takes too long. */
function countUnfinished(
  ws: WebSocket,
  socket: Duplex,
  share: Share,
  arrivesWithin: number,
  arriving: ArrivingMessage
): void {
  let held = 0
  let late: NodeJS.Timeout | undefined
  const close = ([code, reason]: typeof SLOW | typeof IN_FLIGHT) => {
    // No more of it is read.
    socket.off('data', onData)
    ws.pause()
    closeSoon(ws, code, reason)
  }
  const begin = () => {
    late ??= setTimeout(() => close(SLOW), arrivesWithin).unref()
  }
  const end = () => {
    clearTimeout(late)
    late = undefined
    share.give(held)
    held = 0
  }
  const onData = (bytes: Buffer) => {
    const unfinished = arriving.take(bytes)
    if (arriving.hasEnded || unfinished === 0) end()
    if (unfinished === 0) return
    begin()
    const before = share.held
    if (!takePiece(share, unfinished)) return close(IN_FLIGHT)
    held += share.held - before
  }
  const stop = () => {
    socket.off('data', onData)
    end()
  }
  socket.on('data', onData)
  // What follows an error is thrown away as it comes.
  ws.once('error', stop)
  ws.once('close', stop)
}

/** @param messages what has come already */
function textSocket(ws: WebSocket, socket: Duplex, messages: string[]): TextSocket {
  let heardAt = performance.now()
  const heard = () => {
    heardAt = performance.now()
  }
  ws.on('pong', heard)
  // A `close` event follows.
  ws.on('error', () => {})
  const write = (bytes: Uint8Array) => ws.readyState === ws.OPEN && !socket.destroyed && socket.write(bytes)
  const close = (code: number, reason: string) => closeSoon(ws, code, reason)
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
      ws.removeAllListeners('message')
      ws.on('message', (data) => {
        heard()
        listener(String(data))
      })
      for (const text of messages.splice(0)) listener(text)
      ws.resume()
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
