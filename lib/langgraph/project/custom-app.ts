// The operator's own routes, from an app that maps a Request to a Response (like Hono). Its declared routes come
// before ours, and its middlewares run around ours; an app without a router gets the paths we do not know.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Failure } from '../../base/errors.ts'
import { actingFor, callerOf } from '../../base/loopback.ts'
import type { Principal } from '../../base/accounts.ts'
import { drained } from '../../base/waiting.ts'
import { HANDLED, type Ours, type ProjectApp, type Reply } from '../../http/route.ts'
import { basePaths, placeHeaders } from '../../http/base-path.ts'
import { boundReading, JSON_TYPE } from '../../http/reply.ts'
import { requestOf, segmentsOf, spellingsOfSegments, targetOf } from '../../http/request.ts'
import { askForBody, awaitsContinue, hasBody } from '../../http/body.ts'

export interface FetchApp {
  fetch(request: Request, env: object): Response | Promise<Response>
  /** Hono's: the path it routes by. */
  getPath?(request: Request): string
  /** Hono's router, which knows the declared routes. */
  readonly router?: { match(method: string, path: string): unknown }
  /** Hono's: the handler after all middlewares, when no route has answered. */
  notFound?(handler: (context: { readonly env: Env; readonly req: ReadRequest }) => Promise<Response>): unknown
}

/** A request inside the app, whose body may have been read. */
interface ReadRequest {
  arrayBuffer(): Promise<ArrayBuffer>
}

const OURS = Symbol('ours')

interface Env {
  readonly user: object | null
  readonly [OURS]?: Pick<Behind, 'respond'>
}

/** A request to the app. */
interface Asked {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly principal: Principal | null
  readonly ours: Ours
}

interface CustomAppOptions {
  /** Requires a sign-in. */
  readonly needsUser: boolean
  /** Bytes of a body. */
  readonly bodyLimit: number
  /** How long a client may read nothing of a response before its connection is closed, in ms; 0: for ever. */
  readonly stallMs: number
  /** The caller as the app sees it. */
  readonly userOf: (principal: Principal) => object
}

export class CustomApp implements ProjectApp {
  readonly needsUser: boolean
  readonly #app: FetchApp
  readonly #options: CustomAppOptions

  constructor(app: FetchApp, options: CustomAppOptions) {
    this.#app = app
    this.#options = options
    this.needsUser = options.needsUser
    // Replaces the app's own 404 handler, as LangGraph's server does.
    app.notFound?.(async ({ env, req }) => (await env[OURS]?.respond(req)) ?? new Response('404 Not Found', NOT_FOUND))
  }

  /** Whether the app declares a route for this method and path, in any spelling; handlers for all methods do not count. */
  has(method: string, path: string): boolean {
    return this.declares(method, segmentsOf(path))
  }

  /** The same of a path that the router has read. */
  declares(method: string, segments: readonly string[] | null): boolean {
    return spellingsOfSegments(segments).some((one) => declares(method, this.#matching(method, one)))
  }

  /**
   * The spellings of a path under which the app is asked, the outermost first, so that all of its handlers that match any of them run,
   * middlewares included. One is enough unless the app declares some for one spelling and others for another; then one that may answer
   * comes last. Empty: nothing of the app matches.
   */
  pathsOf(method: string, segments: readonly string[] | null): readonly string[] {
    const found = spellingsOfSegments(segments)
      .map((one) => ({ one, handlers: new Set(this.#matching(method, one)) }))
      .filter(({ handlers }) => handlers.size > 0)
    const all = new Set(found.flatMap(({ handlers }) => [...handlers]))
    const whole = found.find(({ handlers }) => handlers.size === all.size)
    if (whole) return [whole.one]
    const isLast = ({ handlers }: (typeof found)[number]) => Number(declares(method, [...handlers]))
    return found.sort((a, b) => isLast(a) - isLast(b)).map(({ one }) => one)
  }

  /** Hono returns [[handler, route], parameters] for all matches, including middlewares. These are the routes. */
  #matching(method: string, path: string): unknown[] {
    if (!this.#app.router) return []
    const own = path.includes('%') ? this.#app.getPath?.(new Request(`http://localhost${path}`)) : path
    const [matches] = listOf(this.#app.router.match(methodOf(method), own ?? path))
    return listOf(matches).map((one) => listOf(listOf(one)[0])[1])
  }

  /**
   * A call by the service itself, on behalf of a user.
   * @throws Error when the app declares no such route
   */
  async call(url: string, init: RequestInit & { readonly method: string }, principal: Principal): Promise<Response> {
    const { path, search } = targetOf({ url })
    if (!this.has(init.method, path)) throw new Error('http.app has no such route')
    const caller = this.needsUser ? principal : null
    const user = caller && this.#options.userOf(caller)
    const at = async ([own, ...others]: readonly string[]): Promise<Response> => {
      const further = others.length > 0 && { [OURS]: { respond: () => at(others) } }
      return this.#app.fetch(new Request(`http://localhost${own}?${search}`, init), { user, ...further })
    }
    const work = () => at(this.pathsOf(init.method, segmentsOf(path)))
    return caller ? actingFor(callerOf(caller), work) : work()
  }

  /**
   * @param principal the caller; null: not authenticated
   * @param segments the path as the router has read it
   * @param ours called after its middlewares, unless one of them or a route of its own answers
   */
  async answer(
    req: IncomingMessage,
    res: ServerResponse,
    segments: readonly string[],
    principal: Principal | null,
    ours: Ours
  ): Promise<Reply | typeof HANDLED> {
    const found = this.pathsOf(req.method ?? 'GET', segments)
    const paths = found.length > 0 ? found : spellingsOfSegments(segments).slice(0, 1)
    return this.#answerAt(paths, { req, res, principal, ours }, null)
  }

  /** The app's handlers for the first spelling lie around those for the others, and these around ours. */
  async #answerAt(
    [path, ...others]: readonly string[],
    asked: Asked,
    given: Buffer | null
  ): Promise<Reply | typeof HANDLED> {
    const { req, res, principal } = asked
    const ours =
      others.length === 0
        ? asked.ours
        : { ...asked.ours, answer: (read: Buffer | null) => this.#answerAt(others, asked, read) }
    const away = new AbortController()
    res.once('close', () => away.abort())
    const user = principal && this.#options.userOf(principal)
    const body = new BoundBody(req, this.#options.bodyLimit, given)
    const behind = new Behind(ours, body)
    try {
      const request = () => appRequestOf(req, body, { signal: away.signal }, path)
      const work = async () => this.#app.fetch(request(), { user, [OURS]: behind })
      const response = await (principal ? actingFor(callerOf(principal), work) : work())
      // An oversized body is our error, whatever the app makes of it.
      if (body.isTooLarge) throw body.failure
      if (behind.isIn(response)) return await behind.end(res, response)
      await send(req, res, response, this.#options.stallMs)
      // The same of one that outgrew its bound while the answer went out: half of it must not look like all.
      if (body.isTooLarge) throw body.failure
      res.end()
    } catch (error) {
      if (!req.complete) res.shouldKeepAlive = false
      if (away.signal.aborted) return HANDLED
      throw body.isTooLarge ? body.failure : error
    }
    return HANDLED
  }
}

const NOT_FOUND = { status: 404 }
/** Header that marks a response whose body we write. */
export const PLACE = 'x-colloquy-place'
/** Headers that belong to the body. */
const OF_BODY: ReadonlySet<string> = new Set([PLACE, 'content-type', 'content-length', 'transfer-encoding'])

/** A request of ours inside the app's middlewares: they see a response, and their changes to its status and headers apply. */
class Behind {
  readonly #ours: Ours
  readonly #body: BoundBody
  #read: Buffer | null
  #reply: Reply | typeof HANDLED | null = null
  #shown: Response['body'] = null
  #error: unknown = null

  constructor(ours: Ours, body: BoundBody) {
    this.#ours = ours
    this.#body = body
    this.#read = body.given
  }

  async respond(asked: ReadRequest): Promise<Response> {
    if (this.#body.isBegun) this.#read = Buffer.from(await asked.arrayBuffer())
    if (this.#ours.isStream) return headOf(200)
    try {
      this.#reply = await this.#ours.answer(this.#read)
    } catch (error) {
      this.#error = error
      return headOf(error instanceof Failure ? error.status : 500)
    }
    if ('taken' in this.#reply) return headOf(200)
    const response = responseOf(this.#reply)
    this.#shown = response.body
    return response
  }

  /** Whether this is our response, maybe with another head. */
  isIn(response: Response): boolean {
    return response.headers.has(PLACE) || (this.#shown !== null && response.body === this.#shown)
  }

  async end(res: ServerResponse, response: Response): Promise<Reply | typeof HANDLED> {
    const headers = Object.fromEntries([...response.headers].filter(([name]) => !OF_BODY.has(name)))
    if (this.#reply !== null && !('taken' in this.#reply)) {
      await response.body?.cancel()
      return { ...this.#reply, status: response.status, headers }
    }
    if (!res.headersSent) for (const name in headers) res.setHeader(name, headers[name]!)
    if (this.#error !== null) throw this.#error
    return this.#reply ?? this.#ours.answer(this.#read)
  }
}

function headOf(status: number): Response {
  return new Response(null, { status, headers: { [PLACE]: 'ours' } })
}

function responseOf({ status = 200, json, jsonText, text, headers = {} }: Reply): Response {
  const body = text?.body ?? jsonText ?? (json === undefined ? null : JSON.stringify(json))
  const type = { 'content-type': text?.type ?? JSON_TYPE }
  // A response without a body is recognised by this header.
  return body === null
    ? new Response(null, { status, headers: { ...headers, [PLACE]: 'ours' } })
    : new Response(body, { status, headers: { ...type, ...headers } })
}

/** The body as a stream, up to the limit. */
class BoundBody {
  isTooLarge = false
  isBegun = false
  readonly failure: Failure
  readonly #req: IncomingMessage
  readonly #limit: number
  /** The body, if it was read already. */
  readonly given: Buffer | null

  constructor(req: IncomingMessage, limit: number, given: Buffer | null) {
    this.#req = req
    this.#limit = limit
    this.given = given
    this.failure = new Failure('body_too_large', { limit })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    this.isBegun = true
    if (this.given !== null) return yield this.given
    let left = this.#limit
    askForBody(this.#req)
    for await (const chunk of this.#req as AsyncIterable<Buffer>) {
      left -= chunk.length
      this.isTooLarge ||= left < 0
      if (this.isTooLarge) throw this.failure
      yield chunk
    }
  }
}

function appRequestOf(req: IncomingMessage, body: BoundBody, init: RequestInit, path: string | undefined): Request {
  if (!hasBody(req) || req.method === 'GET' || req.method === 'HEAD') return requestOf(req, init, path)
  // fetch requires this for streaming bodies; its type lacks it.
  return requestOf(req, { ...init, body: ReadableStream.from(body), duplex: 'half' } as RequestInit, path)
}

/** Its caller ends it. */
async function send(req: IncomingMessage, res: ServerResponse, response: Response, stallMs: number): Promise<void> {
  const headers = Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie'))
  if (basePaths.has(req)) placeHeaders(req, headers)
  const cookies = response.headers.getSetCookie()
  if (awaitsContinue(req)) res.shouldKeepAlive = false
  res.writeHead(response.status, { ...headers, ...(cookies.length > 0 && { 'set-cookie': cookies }) })
  if (response.body === null || req.method === 'HEAD') {
    await response.body?.cancel()
    return
  }
  for await (const chunk of response.body) {
    if (res.destroyed) break
    if (res.write(chunk)) continue
    boundReading(res, stallMs)
    await drained(res)
    // The app may be silent as long as it likes: only a client that does not read is cut off.
    res.socket?.setTimeout(0)
  }
}

/** Whether one of these routes of Hono's is for this method. */
function declares(method: string, routes: readonly unknown[]): boolean {
  const wanted = methodOf(method)
  return routes.some((one) => typeof one === 'object' && one !== null && 'method' in one && one.method === wanted)
}

function methodOf(method: string): string {
  return method === 'HEAD' ? 'GET' : method
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}
