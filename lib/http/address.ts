// The client's address and scheme behind proxies. Only trusted proxies are believed; for everybody else the TCP connection counts [Auth 9].
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { firstOf } from './request.ts'

/** Longer texts are no addresses, and would only fill the tables keyed by address. */
const ADDRESS_CHARS_MAX = 64

/** The proxies whose X-Real-IP and X-Forwarded-Proto count. X-Forwarded-For never does: any client can begin one. */
export class Proxies {
  readonly #trusted = new BlockList()
  readonly #any: boolean
  readonly #warn: (message: string) => void
  #hasWarned = false

  /**
   * @param entries IPs and CIDR ranges of version 4 and 6, host bits allowed
   * @param warn called for each entry that is neither (it is skipped), and once for a proxy that is not listed
   */
  constructor(entries: readonly string[], warn: (message: string) => void) {
    const understood = entries.map((entry) => entry.trim()).filter((entry) => entry !== '' && this.#add(entry, warn))
    this.#any = understood.length > 0
    this.#warn = warn
  }

  /** Address of the sender; `unknown` when the connection is already gone. */
  addressOf(req: IncomingMessage): string {
    const peer = plain(req.socket.remoteAddress ?? '')
    const real = this.#trusts(peer) ? realIp(req) : ''
    return real || peer || 'unknown'
  }

  /**
   * Rate-limit key for a request that both a page and its front end's server make. Null: no limit, because a trusted proxy
   * that names no client is that server. On one machine both have the same address, and only browsers send Sec-Fetch-Site.
   */
  allowanceOf(req: IncomingMessage): string | null {
    const peer = plain(req.socket.remoteAddress ?? '')
    const isTrusted = this.#trusts(peer)
    if (isTrusted && realIp(req) === '') return null
    const isApart = (isTrusted || isLoopback(peer)) && req.headers['sec-fetch-site'] !== undefined
    return isApart ? `${this.addressOf(req)} browser` : this.addressOf(req)
  }

  /** True when the sender is a trusted proxy. */
  isTrusted(req: IncomingMessage): boolean {
    return this.isTrustedAddress(req.socket.remoteAddress ?? '')
  }

  isTrustedAddress(address: string): boolean {
    return this.#trusts(plain(address))
  }

  /** True when the client uses https, to us or to a trusted proxy. Only matters for cookies. */
  isSecure(req: IncomingMessage): boolean {
    // node:http gives a TLSSocket when it is served over TLS.
    if ((req.socket as TLSSocket).encrypted === true) return true
    if (firstOf(req.headers['x-forwarded-proto'])?.toLowerCase() !== 'https') return false
    const peer = plain(req.socket.remoteAddress ?? '')
    const isBelieved = this.#trusts(peer)
    // Nearly always a forgotten option: without it, cookies of an https site are not Secure and end with the browser session.
    if (!isBelieved && !this.#hasWarned)
      this.#warn(`trusted_proxies: ${peer} says that its client speaks https and is not listed`)
    this.#hasWarned ||= !isBelieved
    return isBelieved
  }

  #trusts(peer: string): boolean {
    const version = this.#any ? isIP(peer) : 0
    return version !== 0 && this.#trusted.check(peer, version === 6 ? 'ipv6' : 'ipv4')
  }

  #add(entry: string, warn: (message: string) => void): boolean {
    const range = rangeOf(entry)
    if (range === null) {
      warn(`trusted_proxies: ${entry.slice(0, ADDRESS_CHARS_MAX)} is neither an address nor a range and is skipped`)
      return false
    }
    this.#trusted.addSubnet(range.address, range.bits, range.family)
    return true
  }
}

/** `::ffff:127.0.0.1` is how a socket of both versions shows it. */
export function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}

function realIp(req: IncomingMessage): string {
  const header = req.headers['x-real-ip']
  return typeof header === 'string' ? plain(header.trim().slice(0, ADDRESS_CHARS_MAX)) : ''
}

interface Range {
  readonly address: string
  readonly bits: number
  readonly family: 'ipv4' | 'ipv6'
}

function rangeOf(entry: string): Range | null {
  const [text = '', bitsText, more] = entry.split('/')
  const version = isIP(text)
  if (version === 0 || more !== undefined) return null
  const bitsMax = version === 6 ? 128 : 32
  const bits = bitsText === undefined ? bitsMax : prefixOf(bitsText, bitsMax)
  if (bits === null) return null
  const mapped = version === 6 && plain(text) !== text.split('%')[0]
  // A range of mapped addresses is the IPv4 range inside it, unless it is wider than all of IPv4.
  if (mapped && bits >= 96) return { address: plain(text), bits: bits - 96, family: 'ipv4' }
  return { address: text.split('%')[0] ?? text, bits, family: version === 6 ? 'ipv6' : 'ipv4' }
}

function prefixOf(text: string, max: number): number | null {
  const bits = /^[0-9]{1,3}$/.test(text) ? Number(text) : max + 1
  return bits <= max ? bits : null
}

/** An address in its plain form: `::ffff:10.0.0.1`, as a dual-stack socket shows it, is 10.0.0.1; `%eth0` is cut off. */
function plain(address: string): string {
  const bare = address.includes('%') ? address.slice(0, address.indexOf('%')) : address
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}
