// Resetting connections, so that nobody takes a truncated response for complete, and recognising when a client does.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

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

const GONE: ReadonlySet<unknown> = new Set([
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  'ECONNRESET',
  'EPIPE'
])

/** Errors of a pipeline whose client has gone: nothing to handle. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && GONE.has(error.code)
}
