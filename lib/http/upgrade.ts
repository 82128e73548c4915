// Which requests ask for a WebSocket. Any other Upgrade is passed over, as HTTP allows, and the request answered: clients offer h2c with
// every request they make, bodies included.
import { IncomingMessage } from 'node:http'

/** Requests with an Upgrade header. */
const offered = new WeakSet<IncomingMessage>()

/** node:http asks a request whether it is an upgrade as soon as its head was read, and then parses nothing more of it. */
export class UpgradableMessage extends IncomingMessage {}

Object.defineProperty(UpgradableMessage.prototype, 'upgrade', {
  get(this: IncomingMessage): boolean {
    return offered.has(this) && (this.method === 'CONNECT' || isForWebSocket(this))
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
