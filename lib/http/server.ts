// The HTTP server: the life of a request from node:http's event to the last byte of its response; starting and stopping.
import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { BYTE_WEIGHT, type Share } from '../base/budget.ts'
import { diskFailure, fail, Failure } from '../base/errors.ts'
import { urlAt } from '../base/networks.ts'
import { asRequest, asUser } from '../base/scope.ts'
import { traceIn } from '../base/tracing.ts'
import type { Principal } from '../base/accounts.ts'
import { bodyOf, noteExpectation, weightOf } from './body.ts'
import {
  type Call,
  checkIds,
  checkOwner,
  checkPermission,
  type Cookie,
  HANDLED,
  type ProjectApp,
  type Reply,
  type Route,
  type ThreadOwner
} from './route.ts'
import { Admission } from './admission.ts'
import { basePathIn, enterBasePath, forwardedPrefix } from './base-path.ts'
import { CONTRACT, type Dialect, type ErrorForm } from './dialect.ts'
import { CHANGING, Entry, type EntryOptions, SESSION_COOKIE, showsCredential } from './entry.ts'
import { openLate } from './late-credential.ts'
import { breakOff, reset, sendBroken, sendFailure, sendReply } from './reply.ts'
import { cookieOf, fieldsOf, hostsIn, requestIdOf, targetOf } from './request.ts'
import { type Match, missed, Router } from './router.ts'
import { check } from './schema.ts'
import { isSurplus, isUpgrade, noteUpgrade, UpgradableMessage } from './web-socket.ts'

/** Compatible with pino. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Of a response that was sent, for the access log. */
export interface Answered {
  readonly req: IncomingMessage
  readonly userId: string | null
}

export interface HttpOptions extends EntryOptions {
  readonly routes: readonly Route[]
  /** The operator's own routes. */
  readonly app?: ProjectApp | null
  /** Chooses what a request's kind of client expects; without it, all are the contract's. */
  readonly dialectOf?: (req: IncomingMessage) => Dialect
  readonly threadOwner: ThreadOwner
  readonly limits?: {
    /** Timeout for bodies of anonymous senders, in ms. */
    readonly publicBodyMs?: number
    /** Connections per address, except trusted proxies; 0: no limit. */
    readonly connectionsPerAddress?: number
  }
  readonly log: Log
  /** Maps temporary errors of lower layers to a Failure; null: not one of those. */
  readonly failureOf?: (error: unknown) => Failure | null
  /** A response, or the head of a stream, was sent: route path (`none`: no route), method, status, ms. Must not throw. */
  readonly onAnswered?: (route: string, method: string, status: number, ms: number, by: Answered) => void
}

/** Longer than the 60 s of common load balancers: the side that closes first must not be us, or a request meets the closing. */
const KEEP_ALIVE_MS = 75_000
/** A slower request head is an attack or a dead connection. Above the keep-alive timeout, which it would cut short. */
const HEADERS_MS = 80_000
/** A whole request, its body included: 100 MB at 3 Mbit/s take 270 s. */
const REQUEST_MS = 300_000
/** How long a client may take to close the connection after its WebSocket was refused. */
const CLOSING_MS = 2_000
/** Interval for closing idle connections during shutdown. */
const CLOSING_TICK_MS = 50

/** What is known of a request so far, for metrics, limits, logs and refusals: of its matched row, and not of its path. */
interface Seen {
  route: string
  /** As `Call.payer`. */
  user: string | null
  dialect: Dialect
  /** The row's own form of refusals. */
  errors: ErrorForm | null
}

type Found = Extract<Match, { kind: 'found' }>

/** An authenticated request. */
interface Asked {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly match: Match
  readonly principal: Principal | null
  /** Its body, if the operator's app has read it already. */
  readonly given: Buffer | null
}

type Received = Omit<Asked, 'match'> & Pick<Call, 'share' | 'dialect'>

export class HttpServer {
  readonly #options: HttpOptions
  readonly #router: Router
  readonly #server: Server
  readonly #entry: Entry
  readonly #admission: Admission
  /** Of `server.public_url`. */
  readonly #basePath: string
  #closed: Promise<void> | null = null

  constructor(options: HttpOptions) {
    this.#options = options
    this.#router = new Router(options.routes)
    this.#entry = new Entry(options)
    this.#basePath = basePathIn(options.publicUrl ?? null)
    this.#admission = new Admission(options, weightOfLargest(options.routes))
    this.#server = createServer({
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      noDelay: true,
      IncomingMessage: UpgradableMessage
    })
    this.#server.on('request', (req, res) => this.#begin(req, res))
    // Without a listener node:http would ask for every body at once.
    this.#server.on('checkContinue', (req, res) => {
      noteExpectation(req, res)
      this.#begin(req, res)
    })
    this.#server.on('clientError', (error, socket) => this.#admission.refuse(error, socket))
    this.#server.on('connection', (socket) => this.#admission.keep(socket))
    this.#server.on('upgrade', (req, socket, head) => this.#upgrade(req, socket, head))
  }

  /** From now on. @param each of an address; 0: no limit */
  limitConnections(each: number): void {
    this.#admission.limitConnections(each)
  }

  /** @param port 0 takes a free one */
  listen(port: number, host: string): Promise<{ readonly url: string; readonly port: number }> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject)
        const address = this.#server.address()
        // A server on a port has an address object; texts are for pipes.
        const bound = typeof address === 'object' && address !== null ? address.port : port
        resolve({ url: urlAt(host, bound), port: bound })
      })
    })
  }

  /**
   * Accepts no new connections, closes idle ones, waits for requests in progress, and resets the rest after `graceMs`.
   * May be called again; all calls wait for the same end.
   */
  close(graceMs: number): Promise<void> {
    this.#closed ??= this.#end(graceMs)
    return this.#closed
  }

  async #end(graceMs: number): Promise<void> {
    const allGone = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    // Browsers open speculative connections: nothing was requested on them.
    for (const socket of this.#admission.all) if (socket.bytesRead === 0) socket.destroy()
    // node:http does not report when a connection becomes idle.
    const ticker = setInterval(() => this.#server.closeIdleConnections(), CLOSING_TICK_MS)
    const grace = setTimeout(() => {
      for (const socket of this.#admission.all) breakOff(socket)
    }, graceMs)
    await allGone
    clearInterval(ticker)
    clearTimeout(grace)
  }

  // ------------------------------------------------------------------------------------ one request's life

  #begin(req: IncomingMessage, res: ServerResponse): void {
    const requestId = requestIdOf(req)
    res.setHeader('X-Request-Id', requestId)
    if (this.#basePath !== '' || req.headers['x-forwarded-prefix'] !== undefined) this.#enterBasePath(req)
    const trace = req.headers.traceparent === undefined ? null : traceIn(req.headers)
    asRequest(requestId, trace, () => this.#serve(req, res)).catch((error: unknown) => {
      this.#options.log.error({ err: error }, 'a request failed outside its handler')
      reset(res)
    })
  }

  #enterBasePath(req: IncomingMessage): void {
    const isBelieved = this.#options.proxies.isTrusted(req)
    const base = (isBelieved ? forwardedPrefix(req.headers['x-forwarded-prefix']) : null) ?? this.#basePath
    if (base !== '') enterBasePath(req, base)
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    // A write to a client that has gone is an error event on the response; without a listener it would end the process.
    res.on('error', ignore)
    if (!(await this.#admission.follow(req, res))) return
    if (this.#closed !== null) res.shouldKeepAlive = false
    const cookies: Cookie[] = []
    const began = performance.now()
    const seen: Seen = { route: 'none', user: null, dialect: this.#options.dialectOf?.(req) ?? CONTRACT, errors: null }
    try {
      const reply = await this.#answer(req, res, cookies, seen)
      if (!('taken' in reply)) {
        sendReply(req, res, reply, cookies)
        if (seen.user !== null) this.#admission.unread(seen.user, res)
      }
    } catch (error) {
      this.#refuse(req, res, error, cookies, seen)
    }
    const by = { req, userId: seen.user }
    this.#options.onAnswered?.(seen.route, req.method ?? 'GET', res.statusCode, performance.now() - began, by)
  }

  /** An upgrade request is handled like any other until its handler accepts it: refusals are ordinary HTTP responses. */
  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    // node:http no longer listens, and an error event without a listener would end the process.
    socket.on('error', ignore)
    // The last response in progress closes the connection; until then only its end is watched for.
    if (isSurplus(req)) return void socket.resume().once('end', () => socket.destroy())
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    try {
      res.assignSocket(req.socket)
    } catch {
      // Another response has it: the request was pipelined behind one that is not answered yet.
      return void socket.destroy()
    }
    res.once('finish', () => endRead(socket))
    noteUpgrade(req, { socket, head })
    this.#begin(req, res)
  }

  /** Guards in the spec's order, then the handler. `cookies` are set on any outcome. */
  async #answer(
    req: IncomingMessage,
    res: ServerResponse,
    cookies: Cookie[],
    seen: Seen
  ): Promise<Reply | typeof HANDLED> {
    const { app = null } = this.#options
    const method = req.method ?? 'GET'
    if (hostsIn(req) > 1) throw fail('host_repeated')
    if (this.#answerCors(req, res)) return HANDLED
    const match = this.#router.match(method, targetOf(req).path)
    const { segments } = match
    if (match.kind === 'found') seen.route = match.route.path
    seen.errors = this.#router.errorsOf(match)
    if (match.kind === 'found' && isUpgrade(req) && !showsCredential(req)) {
      const { lateBytes } = match.route
      if (lateBytes !== null)
        return openLate({ req, res }, lateBytes, this.#options.log, async () => {
          const principal = await this.#entry.pass(req, match, [], false)
          await this.#handle({ req, res, match, principal, given: null }, seen)
        })
    }
    if (app === null) {
      const principal = await this.#entry.pass(req, match, cookies, false)
      return this.#handle({ req, res, match, principal, given: null }, seen)
    }
    const isApps = segments !== null && (match.kind !== 'found' || app.declares(method, segments))
    const isStream = match.kind === 'found' && match.route.isStream
    const ours = (principal: Principal | null, body: Buffer | null) =>
      this.#handle({ req, res, match, principal, given: body }, seen)
    // The operator's app authenticates its own callers, and learns nothing about our users.
    if (isApps && !app.needsUser) {
      const answer = async (body: Buffer | null) => ours(await this.#entry.pass(req, match, cookies, false), body)
      return app.answer(req, res, segments, null, { isStream, answer })
    }
    const principal = await this.#entry.pass(req, match, cookies, isApps)
    if (segments === null || !(isApps || app.pathsOf(method, segments).length > 0)) return ours(principal, null)
    return app.answer(req, res, segments, principal, { isStream, answer: (body) => ours(principal, body) })
  }

  async #handle({ match, ...asked }: Asked, seen: Seen): Promise<Reply | typeof HANDLED> {
    if (match.kind !== 'found') throw missed(match)
    const { req, res, principal } = asked
    if (principal?.grant.link) res.setHeader('X-Robots-Tag', 'noindex, nofollow')
    if (principal !== null) checkPermission(match.route, principal)
    const share = this.#admission.share(payerOf(principal), this.#options.proxies.addressOf(req))
    try {
      const reply = await this.#work(await this.#callOf({ ...asked, share, dialect: seen.dialect }, match), match, seen)
      if ('taken' in reply && !res.closed) keepUntilClosed(share, res)
      else share.release()
      return reply
    } catch (error) {
      share.release()
      throw error
    }
  }

  async #work(call: Call, match: Found, seen: Seen): Promise<Reply | typeof HANDLED> {
    const { handler } = match.route
    const { req, res, user, address } = call
    seen.user = call.payer
    if (user !== null || CHANGING.has(call.method)) await this.#admission.turn(call.payer, address)
    if (user === null) return handler(call)
    // The client left while the request waited for its turn.
    if (res.destroyed && req.method === 'GET') return HANDLED
    try {
      const reply = await asUser(user.id, () => handler(call))
      if (!('status' in reply && reply.status === 404) || !(await this.#isNowhere(match))) return reply
    } catch (error) {
      if (!(error instanceof Failure && error.status === 404 && (await this.#isNowhere(match)))) throw error
    }
    throw fail('thread_not_found', { id: match.params.thread_id ?? '' })
  }

  /** A 404 below a missing thread has the same text as below somebody else's, so that it does not reveal which threads exist [Auth 6]. */
  async #isNowhere({ route, params }: Found): Promise<boolean> {
    return route.thread !== null && (await this.#options.threadOwner(params.thread_id ?? '')) === undefined
  }

  async #callOf({ req, res, principal, given, share, dialect }: Received, match: Found): Promise<Call> {
    const { route, params, path } = match
    const user = principal?.user ?? null
    checkIds(params)
    if (principal !== null) await checkOwner(route, params.thread_id ?? '', principal.grant, this.#options.threadOwner)
    const fields = fieldsOf(targetOf(req).search)
    const call = {
      method: req.method ?? 'GET',
      path,
      params,
      query: route.query === null ? fields : check(route.query, fields, 'query'),
      user,
      grant: principal?.grant ?? null,
      payer: payerOf(principal),
      address: this.#options.proxies.addressOf(req),
      requestId: String(res.getHeader('X-Request-Id')),
      secure: this.#options.proxies.isSecure(req),
      credential: cookieOf(req, SESSION_COOKIE) ?? null,
      share,
      dialect,
      errors: this.#router.errorsOf(match) ?? dialect.errors,
      req,
      res
    }
    const turn = () => this.#admission.turn(call.payer, call.address)
    return { ...call, body: await bodyOf(call, route, given, this.#options, turn) }
  }

  /** True when the request was a preflight, now answered. Otherwise CORS headers are set on the response. */
  #answerCors(req: IncomingMessage, res: ServerResponse): boolean {
    const headers = this.#options.origins.headersFor(req)
    if (headers === null) return false
    for (const name in headers) res.setHeader(name, headers[name] ?? '')
    const preflight = this.#options.origins.preflight(req)
    if (preflight === null) return false
    sendReply(req, res, { status: 204, headers: preflight })
    return true
  }

  #refuse(req: IncomingMessage, res: ServerResponse, error: unknown, cookies: readonly Cookie[], seen: Seen): void {
    const { route, dialect } = seen
    const errors = seen.errors ?? dialect.errors
    if (error instanceof Failure && !res.headersSent) return sendFailure(req, res, error, cookies, errors)
    const requestId = String(res.getHeader('X-Request-Id'))
    const { path } = targetOf(req)
    // Without the query: it may carry a credential.
    this.#options.log.error({ err: error, request_id: requestId, method: req.method, route, path }, 'a request failed')
    if (res.headersSent) return reset(res)
    const failure = diskFailure(error) ?? this.#options.failureOf?.(error) ?? null
    if (failure) sendFailure(req, res, failure, cookies, errors)
    else if (seen.errors)
      sendFailure(req, res, new Failure('internal', null, { 'X-Request-Id': requestId }), cookies, seen.errors)
    else sendBroken(req, res, requestId)
  }
}

/** Who reads by a link takes nothing of what its maker may. */
function payerOf(principal: Principal | null): string | null {
  if (principal === null) return null
  const { user, grant } = principal
  return grant.link ? `link:${grant.digest}` : user.id
}

function ignore(): void {}

function weightOfLargest(routes: readonly Route[]): number {
  return weightOf(Math.max(0, ...routes.map(({ bodyLimit }) => Number(bodyLimit) || 0)))
}

/** A stream keeps the body of its request, and nothing of what was made of it meanwhile. */
function keepUntilClosed(share: Share, res: ServerResponse): void {
  share.give(share.held - Math.floor(share.held / BYTE_WEIGHT))
  res.once('close', () => share.release())
}

/** Closes a connection nobody reads any more: with unread bytes the client's FIN would never be seen, and the socket would stay open. */
function endRead(socket: Duplex): void {
  const late = setTimeout(() => socket.destroy(), CLOSING_MS)
  socket.once('close', () => clearTimeout(late))
  socket.end()
  socket.resume()
}
