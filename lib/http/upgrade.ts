// Recognises WebSocket upgrades. Any other Upgrade is ignored, as HTTP allows: clients offer h2c with every request, bodies included.
import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

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
