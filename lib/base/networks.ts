// Networks as options write them, addresses and CIDR ranges of both versions, and which addresses are in them.
import { BlockList, isIP } from 'node:net'

/** The arguments of BlockList.addSubnet. */
interface Network {
  readonly address: string
  readonly bits: number
  readonly family: 'ipv4' | 'ipv6'
}

/** Host bits are allowed; an address alone is the network of that one. null: it is neither. */
export function networkOf(entry: string): Network | null {
  const [text = '', bitsText, more] = entry.split('/')
  const version = isIP(text)
  if (version === 0 || more !== undefined) return null
  const bitsMax = version === 6 ? 128 : 32
  const bits = bitsText === undefined ? bitsMax : prefixOf(bitsText, bitsMax)
  if (bits === null) return null
  const address = plainAddress(text)
  const isMapped = version === 6 && isIP(address) === 4
  // A range of mapped addresses is the IPv4 range inside it, unless it is wider than all of IPv4.
  if (isMapped && bits >= 96) return { address, bits: bits - 96, family: 'ipv4' }
  return { address: isMapped ? (text.split('%')[0] ?? text) : address, bits, family: version === 6 ? 'ipv6' : 'ipv4' }
}

/** Where a server is asked that listens there; an address of version 6 stands in brackets. */
export function urlAt(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Whether a host, as an option or a URL writes it, is this machine without asking DNS. */
export function isLoopbackName(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}

/** Addresses and ranges. */
export class Networks {
  readonly #list = new BlockList()
  #size = 0

  /** False: this is neither an address nor a range. */
  add(entry: string): boolean {
    const network = networkOf(entry)
    if (network === null) return false
    this.#list.addSubnet(network.address, network.bits, network.family)
    this.#size++
    return true
  }

  /** Whether an address is in one of them, of version 4 also in its IPv6 form. */
  has(address: string): boolean {
    const version = this.#size === 0 ? 0 : isIP(address)
    return version !== 0 && this.#list.check(address, version === 6 ? 'ipv6' : 'ipv4')
  }
}

function prefixOf(text: string, max: number): number | null {
  const bits = /^[0-9]{1,3}$/.test(text) ? Number(text) : max + 1
  return bits <= max ? bits : null
}

/** `::ffff:10.0.0.1`, as a dual-stack socket shows it, is 10.0.0.1; `%eth0` is cut off. */
export function plainAddress(address: string): string {
  const bare = address.includes('%') ? address.slice(0, address.indexOf('%')) : address
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}
