// The operator's own routes, from a program that maps a Request to a Response (like Hono). Its declared routes come
// before ours; it is also asked for paths we do not know.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Failure } from '../errors.ts'
import type { Principal } from '../types.ts'
import { HANDLED } from './call.ts'
import { boundReading } from './reply.ts'
import { hasBody } from './request.ts'

export interface FetchApp {
  fetch(request: Request, env: object): Response | Promise<Response>
  /** Hono's router, which knows the declared routes. */
  readonly router?: { match(method: string, path: string): unknown }
}

export interface CustomAppOptions {
  /** Requires a sign-in. */
  readonly needsUser: boolean
  /** Bytes of a body. */
  readonly bodyLimit: number
  /** The caller as the program sees it. */
  readonly userOf: (principal: Principal) => object
}

export class CustomApp {
  readonly needsUser: boolean
  readonly #app: FetchApp
  readonly #options: CustomAppOptions

  constructor(app: FetchApp, options: CustomAppOptions) {
    this.#app = app
    this.#options = options
    this.needsUser = options.needsUser
  }

  /** Whether it has declared a route for this method and path; handlers for every method do not count. */
  has(method: string, path: string): boolean {
    const wanted = method === 'HEAD' ? 'GET' : method
    // Hono returns [[handler, route], parameters] for all matches, including middlewares.
    const [fitting] = listOf(this.#app.router?.match(wanted, path))
    return listOf(fitting).some((one) => {
      const [declared] = listOf(one)
      const [, route] = listOf(declared)
      return typeof route === 'object' && route !== null && 'method' in route && route.method === wanted
    })
  }

  /** @param principal the caller; null: not authenticated */
  async answer(req: IncomingMessage, res: ServerResponse, principal: Principal | null): Promise<typeof HANDLED> {
    const away = new AbortController()
    res.once('close', () => away.abort())
    const user = principal && this.#options.userOf(principal)
    const body = new BoundBody(req, this.#options.bodyLimit)
    try {
      const response = await this.#app.fetch(requestOf(req, body, away.signal), { user })
      // An oversized body is our error, whatever the program makes of it.
      if (body.isTooLarge) throw body.failure
      await send(req, res, response)
    } catch (error) {
      if (!req.complete) res.shouldKeepAlive = false
      if (away.signal.aborted) return HANDLED
      throw body.isTooLarge ? body.failure : error
    }
    return HANDLED
  }
}

/** The body as a stream, up to the limit. */
class BoundBody {
  isTooLarge = false
  readonly failure: Failure
  readonly #req: IncomingMessage
  readonly #limit: number

  constructor(req: IncomingMessage, limit: number) {
    this.#req = req
    this.#limit = limit
    this.failure = new Failure('body_too_large', { limit })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let left = this.#limit
    for await (const chunk of this.#req as AsyncIterable<Buffer>) {
      left -= chunk.length
      this.isTooLarge ||= left < 0
      if (this.isTooLarge) throw this.failure
      yield chunk
    }
  }
}

function requestOf(req: IncomingMessage, body: BoundBody, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers))
    for (const one of Array.isArray(value) ? value : [value ?? '']) headers.append(name, one)
  const origin = `http://${req.headers.host ?? 'localhost'}`
  const url = req.url ?? '/'
  if (!URL.canParse(url, origin)) throw new Failure('bad_path')
  const options = { method: req.method ?? 'GET', headers, signal }
  if (!hasBody(req) || options.method === 'GET' || options.method === 'HEAD')
    return new Request(new URL(url, origin), options)
  // fetch requires this for streaming bodies; its type lacks it.
  const streamed = { ...options, body: ReadableStream.from(body), duplex: 'half' } as RequestInit
  return new Request(new URL(url, origin), streamed)
}

async function send(req: IncomingMessage, res: ServerResponse, response: Response): Promise<void> {
  const headers = Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie'))
  const cookies = response.headers.getSetCookie()
  res.writeHead(response.status, { ...headers, ...(cookies.length > 0 && { 'set-cookie': cookies }) })
  if (response.body === null || req.method === 'HEAD') {
    await response.body?.cancel()
    res.end()
    return
  }
  for await (const chunk of response.body) {
    if (res.destroyed) break
    if (res.write(chunk)) continue
    boundReading(res)
    await new Promise((resolve) => res.once('drain', resolve).once('close', resolve))
    // Its program may say nothing for as long as it likes: only who does not read is bounded.
    res.socket?.setTimeout(0)
  }
  res.end()
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}
