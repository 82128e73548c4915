// The base path: where a proxy shows this server below a path of its own (`/chat`). Requests are routed without it, whether the proxy has
// taken it off or not; whatever names a place of ours to a client has it: Location, cookies, the page, the reference.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { Call } from './route.ts'

/** Of requests that have one: `/chat`. */
export const basePaths = new WeakMap<IncomingMessage, string>()

/** Not below `/api`, where our own routes are. */
const PREFIX = /^(?!\/api(\/|$))(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/
const PREFIX_MAX = 256
/** Headers that name a place on this server. */
const PLACES = ['Location', 'Content-Location']
/** What clients have at the end of their base URL when they put a Location behind it; and what Locations name. */
const BELOW = /^\/api(\/langgraph)?(?=\/)/
const LOCATED = '/threads/'

/** The path of `server.public_url`; '' at the root. */
export function basePathIn(publicUrl: string | null): string {
  return publicUrl === null ? '' : new URL(publicUrl).pathname.replace(/\/+$/, '')
}

/** What X-Forwarded-Prefix says; several proxies in a row have added theirs, the outermost first. Null: no path that could be one. */
export function forwardedPrefix(header: string | string[] | undefined): string | null {
  const parts = String(header ?? '').split(',')
  const prefix = parts.map((one) => one.trim().replace(/\/+$/, '')).join('')
  return prefix.length <= PREFIX_MAX && PREFIX.test(prefix) ? prefix : null
}

/** Notes the base path of a request, and takes it off its URL where the proxy has left it in. */
export function enterBasePath(req: IncomingMessage, base: string): void {
  basePaths.set(req, base)
  let url = without(req.url ?? '/', base)
  const below = BELOW.exec(url)?.[0] ?? ''
  // LangGraph's clients put a Location behind their base URL, where it has the base path a second time.
  if (url.startsWith(`${below}${base}${LOCATED}`)) url = without(url.slice(below.length), base)
  req.url = url
}

function without(url: string, base: string): string {
  const rest = url.startsWith(base) ? url.slice(base.length) : null
  if (rest === null || (rest !== '' && !/^[/?]/.test(rest))) return url
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** The base path of a request, '' at the root. */
export function basePathOf(req: IncomingMessage): string {
  return basePaths.get(req) ?? ''
}

/** Puts the base path of a request in front of the places that headers name. */
export function placeHeaders(req: IncomingMessage, headers: OutgoingHttpHeaders): void {
  const base = basePathOf(req)
  for (const name of PLACES) {
    const place = headers[name] ?? headers[name.toLowerCase()]
    if (typeof place !== 'string' || !/^\/(?!\/)/.test(place) || `${place}/`.startsWith(`${base}/`)) continue
    delete headers[name.toLowerCase()]
    headers[name] = base + place
  }
}

/** The address under which the client of a call knows this server, without a slash at its end; without `publicUrl` as its request says. */
export function baseUrlOf({ req, secure }: Pick<Call, 'req' | 'secure'>, publicUrl: string | null): string {
  const origin =
    publicUrl === null ? `${secure ? 'https' : 'http'}://${req.headers.host ?? 'localhost'}` : new URL(publicUrl).origin
  return origin + basePathOf(req)
}
