// Where requests of ours may go when somebody else chose the address: not into networks that only this machine can reach, unless
// they were allowed by name. Metadata services of clouds, which hand out keys to whoever asks, are such addresses.
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, isIPv4 } from 'node:net'

const PRIVATE: readonly [network: string, prefix: number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['::', 127],
  ['64:ff9b::', 96],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8]
]

const listOf = (networks: readonly (readonly [string, number])[]): BlockList => {
  const list = new BlockList()
  for (const [network, prefix] of networks) list.addSubnet(network, prefix, isIPv4(network) ? 'ipv4' : 'ipv6')
  return list
}
const CLOSED = listOf(PRIVATE)

/** Finds the addresses of a name; a test's or the system's. */
export type Resolve = (host: string) => Promise<readonly string[]>

export class Egress {
  readonly #open: BlockList
  readonly #resolve: Resolve

  /** @param allowed CIDR ranges that are open although they are private. @throws Error for what is no range */
  constructor(allowed: readonly string[], resolve: Resolve = systemAddresses) {
    this.#open = listOf(allowed.map(rangeOf))
    this.#resolve = resolve
  }

  /**
   * fetch, within the networks that are open and without following a redirect, which could lead out of them.
   * The name is resolved once more by the connection itself: who controls a name's records could change them in between.
   * @throws Error that says where the request wanted to go
   */
  fetch = async (input: string | URL, init?: RequestInit): Promise<Response> => {
    await this.check(new URL(input))
    return fetch(input, { ...init, redirect: 'error' })
  }

  /** @throws Error for an address that is not open */
  async check(url: URL): Promise<void> {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const addresses = isIP(host) === 0 ? await this.#resolve(host) : [host]
    const closed = addresses.find((address) => !this.#isOpen(address))
    if (closed !== undefined || addresses.length === 0)
      throw new Error(`${url.host} is in a private network that is not allowed (mcp.allowed_networks)`)
  }

  #isOpen(address: string): boolean {
    // An IPv4 address in IPv6 form leads where the IPv4 address leads.
    const plain = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address
    const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
    return this.#open.check(plain, family) || !CLOSED.check(plain, family)
  }
}

async function systemAddresses(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}

function rangeOf(text: string): readonly [string, number] {
  const [network = '', bits] = text.split('/')
  const family = isIP(network)
  const prefix = bits === undefined ? (family === 4 ? 32 : 128) : Number(bits)
  if (family === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > (family === 4 ? 32 : 128))
    throw new Error(`"${text}" is no network: write 10.0.0.0/8 or fd00::/8`)
  return [network, prefix]
}
