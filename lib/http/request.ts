// Parses requests: target, query, cookies, body. Lenient where a mistake is harmless, with limits everywhere.
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { BYTE_WEIGHT, type Share } from '../base/budget.ts'
import { Failure, Invalid } from '../base/errors.ts'
import { JsonShape } from '../base/json-shape.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import { wellFormedJson } from '../base/well-formed.ts'
import { isObject } from '../base/types.ts'
import { issue } from './schema.ts'
import { spellingsOf, targetOf } from './target.ts'
import { warnUnexpected } from '../base/unexpected.ts'

/** Maximum nesting of a body. SQLite's JSON functions stop at 1000, our own recursion later. */
const DEPTH_MAX = 500
/** Maximum number of values in a body: each costs more memory and time than its bytes. */
export const VALUES_MAX = 50_000

/** Memory of a value beside its bytes, and of a piece of a body beside its own. */
const VALUE_BYTES = 256
const PIECE_BYTES = 256

/** What a body of this many bytes takes at most. */
export function weightOf(bytes: number): number {
  return bytes * BYTE_WEIGHT + Math.min(bytes, VALUES_MAX) * VALUE_BYTES
}

/** Counts a piece of a body or message that has arrived. False: over budget. */
export function takePiece(share: Share, bytes: number): boolean {
  return share.take(bytes * BYTE_WEIGHT + PIECE_BYTES)
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
    if (equals >= 0 && pair.slice(0, equals).trim() === name) return unquoted(pair.slice(equals + 1).trim())
  }
  return undefined
}

function unquoted(value: string): string {
  return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
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

/** Requests whose client waits to be asked for the body (Expect: 100-continue). */
const waiting = new WeakMap<IncomingMessage, ServerResponse>()

export function noteExpectation(req: IncomingMessage, res: ServerResponse): void {
  waiting.set(req, res)
}

/** Whether the client still waits to be asked for its body. */
export function awaitsContinue(req: IncomingMessage): boolean {
  return waiting.has(req)
}

/** Called before a body is read, and so after all guards: a client that may not send it keeps it [RFC 9110 10.1.1]. */
export function askForBody(req: IncomingMessage): void {
  waiting.get(req)?.writeContinue()
  waiting.delete(req)
}

/** True when the head announces a body. */
export function hasBody(req: IncomingMessage): boolean {
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0
}

const NOTHING = Buffer.alloc(0)
/** Bytes of a body read as fast as they come. The rest takes turns: sixty long bodies at once would block the loop for tens of ms. */
const UNTIMED_BYTES = 128 * 1024
/** Pieces read in one turn: in chunks of one byte a body of 64 KB is 64,000 events. */
const PIECES_A_TURN = 512
const bodyTurns = new LoopTurns(8)
const SOON = { 'Retry-After': '1' }

interface BodyBounds {
  /** In bytes. */
  readonly limit: number
  readonly share: Share
  /** Timeout from first to last byte, in ms; null: that of the whole request. */
  readonly arrivesWithin: number | null
}

/**
 * Reads the whole body. One whose head announces too much is refused before reading; otherwise as soon as the limit is
 * passed. The rest stays unread (see reply.ts).
 * @throws Failure body_too_large, bodies_in_flight, body_too_slow, or body_cut when the client disconnected
 */
export function readBody(req: IncomingMessage, { limit, share, arrivesWithin }: BodyBounds): Promise<Buffer> {
  if (!hasBody(req)) return Promise.resolve(NOTHING)
  if (Number(req.headers['content-length'] ?? 0) > limit)
    return Promise.reject(new Failure('body_too_large', { limit }))
  // The client left while an earlier guard waited for the store: its events have passed.
  if (req.destroyed && !req.readableEnded) return Promise.reject(new Failure('body_cut'))
  askForBody(req)
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const onData = (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > limit) stop(() => reject(new Failure('body_too_large', { limit })))
      else if (!takePiece(share, chunk.length)) stop(() => reject(new Failure('bodies_in_flight', null, SOON)))
      else if (size > UNTIMED_BYTES || chunks.length % PIECES_A_TURN === 0) readOn(req, bodyTurns, share.key)
    }
    const onEnd = () =>
      stop(() => resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)))
    const onGone = () => stop(() => reject(new Failure('body_cut')))
    const onLate = () => stop(() => reject(new Failure('body_too_slow')))
    const late = arrivesWithin === null ? undefined : setTimeout(onLate, arrivesWithin)
    const stop = (then: () => void) => {
      clearTimeout(late)
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
      req.pause()
      then()
    }
    req.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone)
  })
}

/** Reads the next piece of a body, some 64 KB, when the sender has a turn. */
export function readOn(req: IncomingMessage, turns: LoopTurns, sender: string): void {
  req.pause()
  turns
    .next(sender)
    .then(() => req.resume())
    .catch(warnUnexpected)
}

/**
 * Parses a body: as a form where the route takes forms, otherwise as JSON, whatever its content type says. Foreign pages are kept out by
 * the CSRF header, not by the content type.
 * @param form the route takes application/x-www-form-urlencoded
 * @param optional an empty body, or null, counts as `{}`
 * @param takesList the route's body is a list
 * @param share counts its values
 * @throws Invalid; Failure bodies_in_flight
 */
export function parseBody(
  req: IncomingMessage,
  bytes: Buffer,
  form: boolean,
  optional: boolean,
  takesList = false,
  share: Share | null = null
): unknown {
  if (bytes.length === 0) {
    if (optional) return {}
    throw new Invalid([issue('missing', ['body'])])
  }
  if (form && isForm(req)) return fieldsOf(bytes.toString('utf8'))
  const value = parseJson(bytes, share)
  if (value === null && optional) return {}
  // valibot would let an array pass for an object.
  if (!isObject(value) && !(takesList && Array.isArray(value)))
    throw new Invalid([issue('model_attributes_type', ['body'])])
  return value
}

function isForm(req: IncomingMessage): boolean {
  return (req.headers['content-type'] ?? '').toLowerCase().startsWith('application/x-www-form-urlencoded')
}

/**
 * JSON text -> value.
 * @param share counts its values
 * @throws Invalid type json_invalid: no JSON, no UTF-8, nested too deep for what comes after us, or with a key `__proto__`; Failure
 * bodies_in_flight
 */
export function parseJson(bytes: Buffer, share: Share | null = null): unknown {
  if (!isUtf8(bytes)) throw notJson(0, 'not valid UTF-8')
  if (bytes.length > 2 * DEPTH_MAX) {
    const values = checkShape(bytes)
    if (share && !share.take(values * VALUE_BYTES)) throw new Failure('bodies_in_flight', null, SOON)
  }
  const text = bytes.toString('utf8', hasMark(bytes) ? 3 : 0)
  const value = parseText(text)
  // A later copy by assignment would set the prototype, and lose the member.
  if ((text.includes('__proto__') || /\\u005f/i.test(text)) && hasProto(value))
    throw notJson(0, '__proto__ is not allowed as a key')
  return value
}

function hasMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(wellFormedJson(text))
  } catch (error) {
    // V8's message quotes the text, which may contain a password: only the position is passed on.
    const position = error instanceof SyntaxError ? /at position (\d+)/.exec(error.message)?.[1] : undefined
    throw notJson(Number(position ?? 0), 'not valid JSON')
  }
}

function notJson(position: number, error: string): Invalid {
  return new Invalid([issue('json_invalid', ['body', position], { error })])
}

/**
 * Counts nesting and values before parsing.
 * @returns the number of values
 * @throws Invalid
 */
function checkShape(bytes: Buffer): number {
  const shape = new JsonShape()
  shape.feed(bytes)
  if (shape.levels > DEPTH_MAX) throw notJson(0, 'nested too deeply')
  if (shape.values > VALUES_MAX) throw notJson(0, `more than ${VALUES_MAX} values`)
  return shape.values
}

function hasProto(value: unknown): boolean {
  const waiting: unknown[] = [value]
  while (waiting.length > 0) {
    const one = waiting.pop()
    if (typeof one !== 'object' || one === null) continue
    if (Object.hasOwn(one, '__proto__')) return true
    // A loop instead of push(...), whose number of arguments is limited.
    for (const inner of Object.values(one)) if (typeof inner === 'object') waiting.push(inner)
  }
  return false
}
