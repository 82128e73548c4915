// The body of a request: read within the budget of its sender, as far as its route takes one, and then parsed and checked.
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { BYTE_WEIGHT, type Share, takePiece } from '../base/budget.ts'
import { fail, Failure, Invalid, warnUnexpected } from '../base/errors.ts'
import { JsonShape, wellFormedJson } from '../base/json.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import { isObject } from '../base/types.ts'
import { type Authenticate, type AuthenticateRequest, principalOf } from './entry.ts'
import { fieldsOf } from './request.ts'
import { BODY_BYTES, type Call, type Route } from './route.ts'
import { check, isList, issue } from './schema.ts'

/** Maximum nesting of a body. SQLite's JSON functions stop at 1000, our own recursion later. */
const DEPTH_MAX = 500
/** Maximum number of values in a body: each costs more memory and time than its bytes. */
export const VALUES_MAX = 50_000

/** An escape that a spelling of `__proto__` has: one of its letters. */
const PROTO_ESCAPED = /\\u00(?:5f|6f|7[024])/i

/** Memory of a value beside its bytes. */
const VALUE_BYTES = 256

/** What a body of this many bytes takes at most. */
export function weightOf(bytes: number): number {
  return bytes * BYTE_WEIGHT + Math.min(bytes, VALUES_MAX) * VALUE_BYTES
}

/** An 8 KiB body slower than this is held back on purpose. */
const PUBLIC_BODY_MS = 10_000
/** After a slower body the credential is checked again. */
const SLOW_BODY_MS = 1_000

interface BodyOptions {
  /** Timeout for bodies of anonymous senders, in ms. */
  readonly limits?: { readonly publicBodyMs?: number }
  readonly authenticate: Authenticate
  readonly authenticateRequest?: AuthenticateRequest | null
}

/**
 * The body of a call, after the schema of its route. Called after the guards: an unauthorised caller must not make us buffer a body.
 * @param given the body, if the operator's app has read it already
 * @param turn resolves when a long body may be parsed
 */
export async function bodyOf(
  { req, res, user, share }: Omit<Call, 'body'>,
  { body, bodyLimit, form, bodyOptional }: Route,
  given: Buffer | null,
  { limits, authenticate, authenticateRequest = null }: BodyOptions,
  turn: () => Promise<void>
): Promise<unknown> {
  if (given !== null && bodyLimit === 'streamed') throw new Error('http.app has read a body that is streamed')
  if (body === null || bodyLimit === 'streamed') return undefined
  if (given !== null && given.length > bodyLimit) throw fail('body_too_large', { limit: bodyLimit })
  if (given !== null && !share.take(given.length * BYTE_WEIGHT)) throw fail('bodies_in_flight', null, SOON)
  const begun = performance.now()
  const arrivesWithin = user === null ? (limits?.publicBodyMs ?? PUBLIC_BODY_MS) : null
  try {
    const bytes = given ?? (await readBody(req, { limit: bodyLimit, share, arrivesWithin }))
    // The session may have ended while the body arrived.
    if (user !== null && performance.now() - begun > SLOW_BODY_MS)
      await principalOf(req, authenticate, authenticateRequest)
    if (user !== null && given === null && bytes.length > BODY_BYTES) await turn()
    return check(body, parseBody(req, bytes, form, bodyOptional, isList(body), share), 'body')
  } catch (error) {
    // Unread bytes of the body would be taken for the next request.
    if (!req.complete) res.shouldKeepAlive = false
    throw error
  } finally {
    // At most 8 KiB, and gone as soon as they are read; a user's bodies are held until their requests are answered.
    if (user === null) share.release()
  }
}

// --------------------------------------------------------------------------------------------- reading

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
function readBody(req: IncomingMessage, { limit, share, arrivesWithin }: BodyBounds): Promise<Buffer> {
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
      if (size > limit) stop(new Failure('body_too_large', { limit }))
      else if (!takePiece(share, chunk.length)) stop(new Failure('bodies_in_flight', null, SOON))
      else if (size > UNTIMED_BYTES || chunks.length % PIECES_A_TURN === 0) readOn(req, bodyTurns, share.key)
    }
    const onEnd = () => stop()
    const onGone = () => stop(new Failure('body_cut'))
    const onLate = () => stop(new Failure('body_too_slow'))
    const late = arrivesWithin === null ? undefined : setTimeout(onLate, arrivesWithin)
    const stop = (failure?: Failure) => {
      clearTimeout(late)
      req.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone)
      req.pause()
      if (failure) reject(failure)
      else resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
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
function parseBody(
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
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  const text = bytes.toString('utf8', hasMark ? 3 : 0)
  const value = parseText(text)
  // A later copy by assignment would set the prototype, and lose the member.
  if ((text.includes('__proto__') || PROTO_ESCAPED.test(text)) && hasProto(value))
    throw notJson(0, '__proto__ is not allowed as a key')
  return value
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
