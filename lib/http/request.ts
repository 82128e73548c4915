// Reads the head of a request: target, query, cookies, lists in headers, its id. Lenient where a mistake is harmless.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Failure } from '../base/errors.ts'
import type { Call } from './route.ts'

// ----------------------------------------------------------------------------------------------------
// The target of a request. However its path is spelled (escaped letters, dot segments, a trailing slash, with /api, /api/langgraph or at
// the root), it is one path for the router, for the operator's own code and for logs.

interface Target {
  /** Still encoded, beginning with / (or `*` of an OPTIONS request). */
  readonly path: string
  /** What follows the question mark, or ''. */
  readonly search: string
}

/** LangGraph servers have their resources at the root; ours are the same, below /api. */
const AT_ROOT: ReadonlySet<string> = new Set(['threads', 'runs', 'assistants', 'store', 'ui'])

/** Server information, which LangGraph's clients request below any base URL. */
const OF_SERVER: ReadonlySet<string> = new Set(['ok', 'info', 'openapi.json'])

/** Path and query of the request line. The absolute form that proxies use is stripped: we route by path alone. */
export function targetOf({ url = '/' }: Pick<IncomingMessage, 'url'>): Target {
  const own = originForm(url)
  const mark = own.indexOf('?')
  return mark < 0 ? { path: own, search: '' } : { path: own.slice(0, mark), search: own.slice(mark + 1) }
}

function originForm(url: string): string {
  const scheme = url.startsWith('/') ? -1 : url.indexOf('://')
  if (scheme < 0) return url
  const slash = url.indexOf('/', scheme + 3)
  return slash < 0 ? '/' : url.slice(slash)
}

/** True for a path in the form of LangGraph's servers, without our prefix. */
export function isAtRoot(path: string): boolean {
  return AT_ROOT.has(decodedSegments(path)?.[0] ?? '')
}

/**
 * Segments of the path as the route table has it, or null when the encoding is broken. An encoded slash stays inside its segment.
 * /api/langgraph/... and LangGraph's paths at the root become /api/..., as front proxies of existing deployments rewrite them.
 */
export function segmentsOf(path: string): string[] | null {
  const segments = decodedSegments(path)
  if (segments === null) return null
  if (segments[0] === 'api' && segments[1] === 'langgraph') segments.splice(1, 1)
  if (AT_ROOT.has(segments[0] ?? '')) segments.unshift('api')
  if (segments[0] === 'api' && segments.length === 2 && OF_SERVER.has(segments[1]!)) segments.shift()
  return segments
}

/**
 * All spellings of a path, encoded in one way, that of LangGraph's servers first: code of the operator may name any of them. Empty: broken.
 */
export function spellingsOf(path: string): readonly string[] {
  return spellingsOfSegments(segmentsOf(path))
}

/** The same of a path that has been read, as `segmentsOf` returns it. */
export function spellingsOfSegments(segments: readonly string[] | null): readonly string[] {
  if (segments === null) return []
  const [prefix, ...below] = segments
  if (prefix === 'api' && AT_ROOT.has(below[0] ?? ''))
    return [below, segments, ['api', 'langgraph', ...below]].map(encoded)
  if (prefix === 'api') return [segments, ['api', 'langgraph', ...below]].map(encoded)
  if (segments.length === 1 && OF_SERVER.has(prefix!))
    return [segments, ['api', ...segments], ['api', 'langgraph', ...segments]].map(encoded)
  return [encoded(segments)]
}

/**
 * Without a trailing slash, and without dot segments as in any URL [WHATWG]. Escaped ones are refused: they stand where a name is meant,
 * and what is asked of `uploads/%2e%2e` must not be done to the thread.
 */
function decodedSegments(path: string): string[] | null {
  const end = path.length > 1 && path.endsWith('/') ? path.length - 1 : path.length
  const given = path.slice(1, end).split('/')
  if (given.length === 1 && given[0] === '') return []
  // No path needs a NUL, which would end file names for the system and not for us.
  if (path.includes('\0') || path.includes('%00')) return null
  const decoded = path.includes('%') ? given.map(decodedSegment) : given
  if (decoded.includes(null)) return null
  // None of them is null.
  return withoutDots(decoded as string[])
}

function decodedSegment(segment: string): string | null {
  try {
    const decoded = decodeURIComponent(segment)
    return segment !== decoded && /^\.\.?$/.test(decoded) ? null : decoded
  } catch {
    return null
  }
}

function withoutDots(segments: string[]): string[] {
  if (!segments.includes('.') && !segments.includes('..')) return segments
  const kept: string[] = []
  for (const segment of segments) {
    if (segment === '..') kept.pop()
    else if (segment !== '.') kept.push(segment)
  }
  return kept
}

function encoded(segments: readonly string[]): string {
  return `/${segments.map(encodedSegment).join('/')}`
}

/** Only what must be is escaped [RFC 3986 3.3]. */
function encodedSegment(segment: string): string {
  return encodeURIComponent(segment).replace(/%(?:40|3A|24|26|2B|2C|3B|3D)/g, decodeURIComponent)
}

// ------------------------------------------------------------ Values of a query that may be given more than once

export function searchParams({ req }: Call): URLSearchParams {
  const url = req.url ?? ''
  const at = url.indexOf('?')
  return new URLSearchParams(at < 0 ? '' : url.slice(at + 1))
}

/** A list in the query: repeated, comma-separated or a JSON list, depending on the client's version. */
export function listIn(call: Call, name: string): string[] | null {
  const given = searchParams(call).getAll(name).flatMap(readList)
  return given.length ? given : null
}

function readList(text: string): string[] {
  if (!text.startsWith('['))
    return text
      .split(',')
      .map((name) => name.trim())
      .filter(Boolean)
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) ? list.filter((name) => typeof name === 'string') : []
  } catch {
    return []
  }
}

/** Parses a query or a form; the last value of a repeated name wins. Never throws. */
export function fieldsOf(encoded: string): Record<string, string> {
  // No prototype: a field named __proto__ is just a field.
  const fields: Record<string, string> = Object.create(null)
  if (encoded === '') return fields
  for (const [name, value] of new URLSearchParams(encoded)) fields[name] = value
  return fields
}

/** A cookie's value, or undefined. The first of a repeated name wins; malformed pairs are ignored. */
export function cookieOf(req: IncomingMessage, name: string): string | undefined {
  const header = req.headers.cookie
  if (header === undefined) return undefined
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=')
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue
    const value = pair.slice(equals + 1).trim()
    return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
  }
  return undefined
}

/** The media types that Accept names, in lower case. A weight of 0 is a refusal [RFC 9110 12.4.2]. */
export function acceptedTypes({ headers: { accept = '' } }: Pick<IncomingMessage, 'headers'>): string[] {
  return accept
    .toLowerCase()
    .split(',')
    .map((range) => range.split(';').map((part) => part.trim()))
    .filter(([, ...parameters]) => !parameters.some((one) => /^q=0(\.0*)?$/.test(one)))
    .map(([name = '']) => name)
}

/** The first value of a header that proxies may have extended to a list. */
export function firstOf(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header[0] : header
  return text?.split(',', 1)[0]?.trim() || undefined
}

/**
 * The request as fetch has it, for the operator's own code. Its path is the one that was matched, however it was spelled: that code decides
 * by it.
 * @param spelling one of the path's; without it that of LangGraph's servers
 * @throws Failure bad_path; method_not_allowed for TRACE, which fetch does not allow
 */
export function requestOf(req: IncomingMessage, more: RequestInit = {}, spelling?: string): Request {
  const { method = 'GET', url = '/', headers } = req
  const { path, search } = targetOf(req)
  const own = spelling ?? spellingsOf(path)[0] ?? path
  const { host = 'localhost' } = headers
  // Behind a number sign the address would end, and the query would not be the one that our routes read.
  const address = URL.parse(`http://${host}${own}${search && `?${search.replaceAll('#', '%23')}`}`)
  // Neither credentials, which fetch refuses, nor another path.
  if (address === null || /[/?#@\\]/.test(host) || /^[^/?#]*:\/\/[^/?#]*@/.test(url)) throw new Failure('bad_path')
  if (method === 'TRACE') throw new Failure('method_not_allowed')
  const given = new Headers()
  for (const [name, value] of Object.entries(headers))
    for (const one of Array.isArray(value) ? value : [value ?? '']) given.append(name, one)
  return new Request(address, { ...more, method, headers: given })
}

/** The sender's, where it may stand in a log; else a new one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && /^[\w.:/+=-]{1,128}$/.test(given) ? given : randomUUID()
}

/** node:http drops all but the first, and a proxy may have decided by another [RFC 9112 3.2]. */
export function hostsIn({ rawHeaders }: IncomingMessage): number {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.length === 4 && rawHeaders[i]!.toLowerCase() === 'host') count++
  return count
}
