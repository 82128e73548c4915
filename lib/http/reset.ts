// A reset: how an answer is broken off so that nobody takes it for whole, and how it looks when the other side does so.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

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
