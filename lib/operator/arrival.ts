// What a request is when it has passed the operator's proxies: `doctor` asks the public URL, and is itself whom they pass it on to.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { codeOf } from '../base/errors.ts'
import { Networks, plainAddress } from '../base/networks.ts'
import type { Config } from '../config/config.ts'

const TIMEOUT_MS = 5_000

interface Arrival {
  /** Whose connection it came by. */
  readonly peer: string
  readonly headers: IncomingHttpHeaders
}

/**
 * Asks the public URL once, while it listens at the place of the gateway. null: the request went elsewhere; `taken`: somebody listens there.
 */
export async function arrivalOf(
  publicUrl: string,
  { host, port }: { readonly host: string; readonly port: number }
): Promise<Arrival | null | 'taken'> {
  const mark = randomUUID()
  let arrived: Arrival | null = null
  const server = createServer((request: IncomingMessage, response) => {
    if (request.url?.endsWith(mark))
      arrived = { peer: plainAddress(request.socket.remoteAddress ?? ''), headers: request.headers }
    response.end()
  })
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (error) {
    if (codeOf(error) === 'EADDRINUSE') return 'taken'
    throw error
  }
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const url = `${publicUrl.replace(/\/$/, '')}/health?doctor=${mark}`
    const response = await fetch(url, { signal, redirect: 'manual' }).catch(() => null)
    await response?.body?.cancel()
    return arrived as Arrival | null
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** What is missing in the configuration or the proxy's, a sentence each. */
export function problemsOf({ peer, headers }: Arrival, { server }: Pick<Config, 'server'>): string[] {
  const { public_url, trusted_proxies, trusted_hops } = server
  const trusted = new Networks()
  for (const entry of trusted_proxies) trusted.add(entry)
  const scheme = new URL(public_url ?? 'http://localhost').protocol.slice(0, -1)
  const proto = String(headers['x-forwarded-proto'] ?? 'http')
  const hops = String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .filter((entry) => entry.trim() !== '').length
  const found = [
    !trusted.has(peer) && `it comes from ${peer}, which is not in server.trusted_proxies`,
    trusted_hops === 0 && headers['x-real-ip'] === undefined && 'it has no X-Real-IP',
    hops < trusted_hops && `X-Forwarded-For has ${hops} addresses, and server.trusted_hops is ${trusted_hops}`,
    proto !== scheme && `X-Forwarded-Proto says ${proto}, and server.public_url ${scheme}`
  ]
  return found.filter((problem) => problem !== false)
}

/** Whether nothing stands in between. */
export function isDirect({ headers }: Arrival): boolean {
  return !Object.keys(headers).some((name) => name === 'x-real-ip' || name.startsWith('x-forwarded-') || name === 'via')
}
