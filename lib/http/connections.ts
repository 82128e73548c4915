// The open connections: how many an address may have, and how many responses one of them may wait for.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Budget } from '../base/budget.ts'
import { arrivals } from '../base/loop-turns.ts'
import type { Proxies } from './address.ts'
import { wantNoMore } from './web-socket.ts'

/** Pending responses per connection: one read may hold thousands of pipelined requests. */
const PIPELINED_MAX = 32
/** Of all connections, behind their first ones: each costs some KB, and the time to parse it. */
const PIPELINED_ALL = 512

const BAD_HEADS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout'
}

interface ConnectionsOptions {
  /** Connections per address, except trusted proxies; 0: no limit. */
  readonly limits?: { readonly connectionsPerAddress?: number }
  readonly proxies: Proxies
  readonly log: { warn(fields: object, message: string): void }
}

export class Connections {
  readonly #options: ConnectionsOptions
  /** With their pending responses, of which only one has the socket. */
  readonly #sockets = new Map<Socket, Set<ServerResponse>>()
  readonly #byAddress: Budget
  /** Pending responses behind others of their connections. */
  #pipelined = 0
  #hasWarned = false

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#byAddress = new Budget({ each: options.limits?.connectionsPerAddress ?? 0, all: 0 })
  }

  get all(): Iterable<Socket> {
    return this.#sockets.keys()
  }

  keep(socket: Socket): void {
    arrivals.came()
    if (!this.#admit(socket)) return void socket.resetAndDestroy()
    const answers = new Set<ServerResponse>()
    this.#sockets.set(socket, answers)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      // A pipelined response has no socket yet, and node:http does not report when it never gets one.
      for (const res of answers) if (res.socket === null && !res.closed) res.destroy().emit('close')
    })
  }

  /** False: its address is at its limit. */
  #admit(socket: Socket): boolean {
    const { limits, proxies, log } = this.#options
    const most = limits?.connectionsPerAddress ?? 0
    const address = socket.remoteAddress ?? ''
    if (most === 0 || proxies.isTrustedAddress(address)) return true
    const share = this.#byAddress.share(address)
    if (!share.take(1)) {
      if (!this.#hasWarned)
        log.warn(
          { address, most },
          'an address has reached its connection limit: raise server.connections_per_address, or list it in server.trusted_proxies if it is a proxy'
        )
      this.#hasWarned = true
      return false
    }
    socket.once('close', () => share.release())
    return true
  }

  /**
   * Number of pending responses on the connection, including this one; 0: nobody would get it, or too many requests
   * were pipelined. The last one allowed closes the connection, and so does any pipelined one where all connections have too many.
   */
  follow(req: IncomingMessage, res: ServerResponse): number {
    const answers = this.#sockets.get(req.socket)
    if (!answers || answers.size >= PIPELINED_MAX) {
      res.destroy()
      return 0
    }
    answers.add(res)
    const isFirst = answers.size === 1
    if (!isFirst) this.#pipelined++
    res.once('close', () => {
      answers.delete(res)
      if (!isFirst) this.#pipelined--
    })
    if (answers.size === PIPELINED_MAX || (!isFirst && this.#pipelined >= PIPELINED_ALL)) {
      res.shouldKeepAlive = false
      wantNoMore(req.socket)
    }
    return answers.size
  }

  /** A request node:http could not parse. Answered unless another response is in progress; the connection is closed either way. */
  refuseHead(error: NodeJS.ErrnoException, socket: Duplex): void {
    // node:http hands over the connection itself.
    const answers = [...(this.#sockets.get(socket as Socket) ?? [])]
    // A response has begun, or its request was complete: what could not be parsed is another request.
    const isAnswering = answers.some((res) => res.headersSent || res.req.complete)
    if (!socket.writable || error.code === 'ECONNRESET' || isAnswering) return void socket.destroy(error)
    const status = BAD_HEADS[error.code ?? ''] ?? '400 Bad Request'
    const text = JSON.stringify({ detail: status.slice(4) })
    const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nCache-Control: private, no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n`
    socket.end(head + text, () => socket.destroy())
  }
}
