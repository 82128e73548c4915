// Restricts outgoing requests to user-supplied URLs: no private networks unless allowed, which includes cloud metadata services.
import { lookup } from 'node:dns/promises'
import { setMaxListeners } from 'node:events'
import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, isIPv4, type LookupFunction } from 'node:net'
import { pipeline, Readable, Transform } from 'node:stream'
import { JsonShape } from '../../base/json.ts'
import { Networks } from '../../base/networks.ts'
import { traceHeaders } from '../../base/tracing.ts'
import { headOf } from '../http/post.ts'
import { checkValues, LINE_FEED, LinePace, MESSAGE_BYTES, partOfTurn } from './message-bounds.ts'

/** Ranges that are not public, or are answered by the host of a virtual machine. */
const CLOSED_4 = listOf([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4'
])

/** Everything outside of 2000::/3, the public range, and its parts that embed IPv4 addresses or are reserved. */
const CLOSED_6 = listOf(['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

/** DNS lookup; replaceable for tests. */
type Resolve = (host: string) => Promise<readonly string[]>

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
/** Statuses without a body. */
const EMPTY: ReadonlySet<number> = new Set([204, 205, 304])
/** What a line of an unfinished event takes besides its bytes. */
const LINE_BYTES = 64

const CARRIAGE_RETURN = 0x0d

export class Egress {
  readonly #open: Networks
  readonly #resolve: Resolve
  readonly #option: string
  readonly #http: HttpAgent
  readonly #https: HttpsAgent

  /** @param allowed private CIDR ranges that are allowed. @throws Error for an invalid range */
  constructor(allowed: readonly string[], resolve: Resolve = systemAddresses, option = 'mcp.allowed_networks') {
    this.#option = option
    this.#open = listOf(allowed)
    this.#resolve = resolve
    // Our own agents, whose connections were all checked when they were opened.
    const options = { keepAlive: true, lookup: this.#lookup }
    this.#http = new HttpAgent(options)
    this.#https = new HttpsAgent(options)
  }

  /**
   * fetch, restricted to allowed networks and without redirects, which could leave them. Connects to the checked addresses,
   * because a second lookup could return others (DNS rebinding).
   * @param init its body must be a string or bytes
   * @throws Error that names the target; errors of the connection
   */
  fetch = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input)
    const host = hostOf(url)
    // There is no lookup for a literal address.
    if (isIP(host) !== 0) this.#checkAll(host, [host])
    const answer = await this.#send(url, init)
    try {
      return responseOf(url, answer)
    } catch (error) {
      // Nobody reads it, and its connection would stay open.
      answer.destroy()
      throw error
    }
  }

  /** @throws Error for an address that is not allowed */
  async check(url: URL): Promise<void> {
    await this.#addressesOf(hostOf(url))
  }

  #send(url: URL, { method = 'GET', headers, body, signal }: RequestInit): Promise<IncomingMessage> {
    const isBytes = body instanceof Uint8Array
    if (body !== undefined && body !== null && typeof body !== 'string' && !isBytes)
      throw new Error('The body must be a string or bytes')
    // All calls of a tool server share one: many at once are no leak, of which Node would warn.
    if (signal) setMaxListeners(0, signal)
    const [request, agent] = url.protocol === 'https:' ? [httpsRequest, this.#https] : [httpRequest, this.#http]
    const asked = request(url, {
      method,
      agent,
      headers: {
        ...Object.fromEntries(new Headers(headers)),
        ...traceHeaders(),
        ...((typeof body === 'string' || isBytes) && { 'content-length': Buffer.byteLength(body) })
      },
      ...(signal && { signal })
    })
    asked.end(body ?? undefined)
    return headOf(asked)
  }

  /** The DNS lookup of new connections. */
  #lookup: LookupFunction = (host, { all }, done) => {
    this.#addressesOf(host).then(
      (addresses) => {
        const found = addresses.map((address) => ({ address, family: isIP(address) }))
        if (all) done(null, found)
        else done(null, found[0]!.address, found[0]!.family)
      },
      (error) => done(error, '', 0)
    )
  }

  /** At least one. @throws Error unless all are allowed */
  async #addressesOf(host: string): Promise<readonly string[]> {
    const addresses = isIP(host) === 0 ? await this.#resolve(host) : [host]
    this.#checkAll(host, addresses)
    return addresses
  }

  #checkAll(host: string, addresses: readonly string[]): void {
    if (addresses.length === 0 || !addresses.every((address) => this.#isOpen(address)))
      throw new Error(`${host} is in a private network that is not allowed (${this.#option})`)
  }

  #isOpen(address: string): boolean {
    return this.#open.has(address) || !(isIPv4(address) ? CLOSED_4 : CLOSED_6).has(address)
  }
}

/** @throws Error for a redirect, and for a status that fetch does not have */
function responseOf(url: URL, answer: IncomingMessage): Response {
  const status = answer.statusCode ?? 0
  if (REDIRECTS.has(status)) throw new Error(`${url.host} redirects, which is not followed`)
  if (status < 200 || status > 599) throw new Error(`${url.host} answers with the status ${status}`)
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(answer.headersDistinct))
    for (const value of values) headers.append(name, value)
  if (!EMPTY.has(status)) return new Response(bodyOf(answer), { status, headers })
  answer.resume()
  return new Response(null, { status, headers })
}

/** The body as a web stream; cancelling it closes the connection. */
function bodyOf(answer: IncomingMessage): ReadableStream<Uint8Array> {
  const bounded = new BoundedMessages(isEventStream(answer))
  // Errors of both are reported by the stream that is read.
  pipeline(answer, bounded, () => {})
  // The same class has two types: Node's and the DOM's.
  return Readable.toWeb(bounded) as ReadableStream<Uint8Array>
}

/** Aborts a response that is too large to buffer: as a whole, or one event of an event stream, whose lines come at a pace. */
class BoundedMessages extends Transform {
  readonly #isOfEvents: boolean
  readonly #pace = new LinePace()
  #shape = new JsonShape()
  #bytes = 0
  #isLineBegun = false

  constructor(isOfEvents: boolean) {
    super()
    this.#isOfEvents = isOfEvents
  }

  override _transform(chunk: Buffer, _encoding: string, done: (error: Error | null) => void): void {
    const passed = this.#isOfEvents ? this.#passLines(chunk) : this.#pass(chunk)
    passed.then(
      () => done(null),
      (error) => done(error instanceof Error ? error : new Error(String(error)))
    )
  }

  async #pass(chunk: Buffer): Promise<void> {
    this.#count(chunk)
    this.push(chunk)
  }

  async #passLines(chunk: Buffer): Promise<void> {
    for (let rest = chunk; rest.length > 0; ) {
      const { part, lines } = partOfTurn(rest)
      this.#countEvents(part)
      this.push(part)
      rest = rest.subarray(part.length)
      if (lines > 0) await this.#pace.took(lines)
    }
  }

  #count(bytes: Buffer): void {
    this.#shape.feed(bytes)
    this.#bytes += bytes.length
    if (this.#bytes > MESSAGE_BYTES) throw new Error(`An answer of more than ${MESSAGE_BYTES} bytes`)
    checkValues(this.#shape)
  }

  /** An empty line ends an event. */
  #countEvents(chunk: Buffer): void {
    let from = 0
    for (const [at, byte] of chunk.entries()) {
      if (byte === LINE_FEED) this.#bytes += LINE_BYTES
      if (byte === LINE_FEED && !this.#isLineBegun) {
        this.#count(chunk.subarray(from, at))
        this.#bytes = 0
        this.#shape = new JsonShape()
        from = at + 1
      }
      if (byte === LINE_FEED) this.#isLineBegun = false
      else if (byte !== CARRIAGE_RETURN) this.#isLineBegun = true
    }
    this.#count(chunk.subarray(from))
  }
}

/** Only with status 200: error bodies are read whole, whatever their type. */
function isEventStream({ statusCode, headers }: IncomingMessage): boolean {
  return statusCode === 200 && /^text\/event-stream\b/i.test(headers['content-type'] ?? '')
}

/** Without the brackets of IPv6; URL has normalised numeric forms already. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '')
}

async function systemAddresses(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address)
}

/** @throws Error for what is no network */
function listOf(entries: readonly string[]): Networks {
  const networks = new Networks()
  for (const entry of entries)
    if (!networks.add(entry)) throw new Error(`"${entry}" is not a network: write 10.0.0.0/8 or fd00::/8`)
  return networks
}
