// Which requests ask for a WebSocket. Any other Upgrade is passed over, as HTTP allows, and the request answered: clients offer h2c with
// every request they make, bodies included.
import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** Requests with an Upgrade header. */
const offered = new WeakSet<IncomingMessage>()

/** Connections on which no more requests are wanted, and the requests that have come on them nevertheless. */
const full = new WeakSet<Socket>()
const surplus = new WeakSet<IncomingMessage>()

/** Of what else comes on the connection nothing is parsed but the head of one request, which is handed over as an upgrade. */
export function wantNoMore(socket: Socket): void {
  full.add(socket)
}

export function isSurplus(req: IncomingMessage): boolean {
  return surplus.has(req)
}

/** node:http asks a request whether it is an upgrade as soon as its head was read, and then parses nothing more of it. */
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
  /** By node:http, while it reads the head. */
  set(this: IncomingMessage, isOffered: boolean): void {
    if (isOffered) offered.add(this)
    else offered.delete(this)
  }
})

function isForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'
}
