// The client's address and scheme behind proxies. Only trusted proxies are believed; for everybody else the TCP connection counts [Auth 9].
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { Networks, plainAddress } from '../base/networks.ts'
import { firstOf } from './request.ts'

/** Longer texts are no addresses, and would only fill the tables keyed by address. */
const ADDRESS_CHARS_MAX = 64

/**
 * The proxies whose X-Real-IP, X-Forwarded-Proto and X-Forwarded-Prefix count. They must overwrite X-Real-IP: one that is passed on is
 * the client's own word. X-Forwarded-For counts only from the right, as far as `hops` of our own proxies have added to it: any client can begin one.
 */
export class Proxies {
  #trusted = new Networks()
  readonly #warn: (message: string) => void
  #hasWarned = false

  #hops = 0

  /**
   * @param entries IPs and CIDR ranges of version 4 and 6, host bits allowed
   * @param warn called for each entry that is neither (it is skipped), and once for a proxy that is not listed
   * @param hops proxies that add to X-Forwarded-For, which then counts instead of X-Real-IP; 0: it does not
   */
  constructor(entries: readonly string[], warn: (message: string) => void, hops = 0) {
    this.#warn = warn
    this.trust(entries, hops)
  }

  /** These, from now on, and no others. Parameters as of the constructor. */
  trust(entries: readonly string[], hops: number): void {
    this.#hops = hops
    this.#trusted = new Networks()
    for (const entry of entries.map((text) => text.trim()).filter(Boolean))
      if (!this.#trusted.add(entry))
        this.#warn(
          `trusted_proxies: ${entry.slice(0, ADDRESS_CHARS_MAX)} is neither an address nor a range and is skipped`
        )
  }

  /** Address of the sender; `unknown` when the connection is already gone. */
  addressOf(req: IncomingMessage): string {
    const peer = plainAddress(req.socket.remoteAddress ?? '')
    const real = this.#trusted.has(peer) ? this.#named(req) : ''
    return real || peer || 'unknown'
  }

  /**
   * Rate-limit key for a request that both a page and its front end's server make. Null: no limit, because a trusted proxy
   * that names no client is that server. On one machine both have the same address, and only browsers send Sec-Fetch-Site.
   */
  allowanceOf(req: IncomingMessage): string | null {
    const peer = plainAddress(req.socket.remoteAddress ?? '')
    const isTrusted = this.#trusted.has(peer)
    if (isTrusted && this.#named(req) === '') return null
    const isApart = (isTrusted || isLoopback(peer)) && req.headers['sec-fetch-site'] !== undefined
    return isApart ? `${this.addressOf(req)} browser` : this.addressOf(req)
  }

  /** True when the sender is a trusted proxy. */
  isTrusted(req: IncomingMessage): boolean {
    return this.isTrustedAddress(req.socket.remoteAddress ?? '')
  }

  isTrustedAddress(address: string): boolean {
    return this.#trusted.has(plainAddress(address))
  }

  /** True when the client uses https, to us or to a trusted proxy. Only matters for cookies. */
  isSecure(req: IncomingMessage): boolean {
    // node:http gives a TLSSocket when it is served over TLS.
    if ((req.socket as TLSSocket).encrypted === true) return true
    if (firstOf(req.headers['x-forwarded-proto'])?.toLowerCase() !== 'https') return false
    const peer = plainAddress(req.socket.remoteAddress ?? '')
    const isBelieved = this.#trusted.has(peer)
    // Nearly always a forgotten option: without it, cookies of an https site are not Secure and end with the browser session.
    if (!isBelieved && !this.#hasWarned)
      this.#warn(`trusted_proxies: ${peer} says that its client speaks https and is not listed`)
    this.#hasWarned ||= !isBelieved
    return isBelieved
  }

  /** The client that a trusted proxy names; '': none. */
  #named(req: IncomingMessage): string {
    return this.#hops > 0 ? forwardedFor(req, this.#hops) : realIp(req)
  }
}

/** `::ffff:127.0.0.1` is how a socket of both versions shows it. */
export function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}

function realIp(req: IncomingMessage): string {
  const header = req.headers['x-real-ip']
  return typeof header === 'string' ? plainAddress(header.trim().slice(0, ADDRESS_CHARS_MAX)) : ''
}

/** The address that the outermost of our proxies has seen; '': fewer have added to the list, or it is none. */
function forwardedFor({ headers }: IncomingMessage, hops: number): string {
  // node:http joins repeated lines.
  const list = String(headers['x-forwarded-for'] ?? '').split(',')
  const text = list.at(-hops)?.trim() ?? ''
  // Some proxies add the port.
  const address = plainAddress(/^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? text.replace(/^([\d.]+):\d+$/, '$1'))
  return list.length >= hops && isIP(address) !== 0 ? address : ''
}
