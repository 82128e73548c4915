// The app of a Python project, as custom-app.ts asks apps: requests go over a pipe to its process, and bodies come and go in parts.
import { type Caller, callerHere } from '../../base/loopback.ts'
import { type FetchApp, PLACE } from './custom-app.ts'
import type { PythonRoutes } from './python-process.ts'

/** What an app needs of its process. */
interface AppProcess {
  readonly routes: PythonRoutes
  /** Runs until the app has answered. */
  request(number: number, head: object, user: object | null): Promise<unknown>
  leave(number: number): void
}

type NotFound = Parameters<NonNullable<FetchApp['notFound']>>[0]
type Env = { readonly user: object | null }
/** Statuses whose responses have no body. */
const EMPTY: ReadonlySet<number> = new Set([204, 205, 304])

/** The head of a request, as it is sent. */
export function headOf(request: Request) {
  const { host, pathname, search } = new URL(request.url)
  return { method: request.method, host, path: pathname, query: search.slice(1), headers: [...request.headers] }
}

export class PythonApp implements FetchApp {
  readonly router?: { match(method: string, path: string): unknown }
  readonly #get: () => Promise<AppProcess>
  readonly #requests = new Map<number, AppRequest>()
  #ours: NotFound | null = null
  #routes: readonly KnownRoute[] = []
  #isAround = false
  #count = 0

  constructor(routes: PythonRoutes, get: () => Promise<AppProcess>) {
    this.#get = get
    this.use(routes)
    if (routes.isRouter) this.router = { match: (method, path) => [this.#matching(method, path)] }
  }

  /** Of another process, whose files may be others. */
  use({ routes, isAround }: PythonRoutes): void {
    this.#isAround = isAround
    this.#routes = routes.flatMap(({ pattern, methods }) => {
      const path = new RegExp(pattern)
      return methods.map((method) => ({ method, path }))
    })
  }

  notFound(handler: NotFound): void {
    this.#ours = handler
  }

  /** What its process asks for. */
  readonly handlers = {
    body: (number: number) => this.#requests.get(number)?.body() ?? null,
    head: (number: number, status: number, headers: [string, string][]) =>
      this.#requests.get(number)?.head(status, headers),
    part: (number: number, data: string, more: boolean) => this.#requests.get(number)?.part(data, more),
    ours: (number: number, body: string | null) => this.#requests.get(number)?.ours(body)
  }

  /** Who a request to the app is from; null: nobody. */
  callerOf(number: number): Caller | null {
    return this.#requests.get(number)?.caller ?? null
  }

  async fetch(request: Request, env: object): Promise<Response> {
    const process = await this.#get()
    const number = ++this.#count
    // `env` is of CustomApp's making.
    const asked = new AppRequest(request, env as Env, this.#ours)
    this.#requests.set(number, asked)
    const leave = () => process.leave(number)
    request.signal.addEventListener('abort', leave, { once: true })
    const { pathname } = new URL(request.url)
    const isDeclared = !this.router || this.#declared(request.method, pathname).length > 0
    process
      .request(number, { ...headOf(request), isDeclared }, (env as Env).user)
      .then(
        () => asked.end(new Error('the app of http.app has not answered')),
        (error: unknown) => asked.end(error)
      )
      .finally(() => {
        this.#requests.delete(number)
        request.signal.removeEventListener('abort', leave)
      })
    return asked.response
  }

  /** In Hono's form: of each match its handler with its route, and parameters. Middlewares are for all methods. */
  #matching(method: string, path: string): unknown[] {
    const around = this.#isAround ? [[[AROUND, AROUND], {}]] : []
    return [...around, ...this.#declared(method, path).map((route) => [[route, route], {}])]
  }

  #declared(method: string, path: string): readonly KnownRoute[] {
    const asked = method === 'HEAD' ? 'GET' : method
    const known = decoded(path)
    return this.#routes.filter((route) => route.method === asked && route.path.test(known))
  }
}

interface KnownRoute {
  readonly method: string
  readonly path: RegExp
}

/** Stands for the middlewares of an app. */
const AROUND = { method: 'ALL' }

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/** One request to the app. */
class AppRequest {
  readonly response: Promise<Response>
  readonly caller = callerHere()
  readonly #request: Request
  readonly #env: Env
  readonly #notFound: NotFound | null
  #settle!: { resolve(response: Response): void; reject(error: unknown): void }
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #head: { readonly status: number; readonly headers: Headers } | null = null
  #writer: WritableStreamDefaultWriter<Uint8Array> | null = null
  /** Bytes of our own answer, that middlewares have seen; null: it is the app's. */
  #shown: Buffer | null = null
  #parts: Buffer[] = []

  constructor(request: Request, env: Env, notFound: NotFound | null) {
    this.#request = request
    this.#env = env
    this.#notFound = notFound
    this.response = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Whoever asked may be gone.
    this.response.catch(() => {})
  }

  /** The next part of its body; null: its end. */
  async body(): Promise<string | null> {
    this.#reader ??= this.#request.body?.getReader() ?? null
    const { done = true, value } = (await this.#reader?.read()) ?? {}
    return done ? null : Buffer.from(value!).toString('base64')
  }

  head(status: number, given: readonly [string, string][]): void {
    const headers = new Headers()
    for (const [name, value] of given) headers.append(name, value)
    this.#head = { status, headers }
  }

  /** Resolves when its reader has room for more. */
  async part(data: string, more: boolean): Promise<void> {
    const bytes = Buffer.from(data, 'base64')
    if (this.#shown !== null) return this.#partOfOurs(bytes, more)
    const { status, headers } = this.#begun()
    if (!this.#writer) {
      if (!more && (bytes.length === 0 || EMPTY.has(status)))
        return this.#settle.resolve(new Response(null, { status, headers }))
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
      this.#writer = writable.getWriter()
      // What it throws when its reader is gone is thrown by `write` as well.
      this.#writer.closed.catch(() => {})
      this.#settle.resolve(new Response(readable, { status, headers }))
    }
    if (bytes.length > 0) await this.#writer.write(bytes)
    if (!more) this.#writer.close().catch(() => {})
  }

  /** Our own answer, as its middlewares see it. */
  async ours(body: string | null) {
    const read = Buffer.from(body ?? '', 'base64')
    const arrayBuffer = async () => read.buffer.slice(read.byteOffset, read.byteOffset + read.byteLength) as ArrayBuffer
    const response = await this.#notFound!({ env: this.#env, req: { arrayBuffer } })
    this.#shown = Buffer.from(await response.clone().arrayBuffer())
    const headers = [...response.headers].filter(([name]) => name !== PLACE)
    return { status: response.status, headers, body: this.#shown.toString('utf8') }
  }

  /** The call is over: what has not been answered has failed. */
  end(error: unknown): void {
    this.#settle.reject(error)
    this.#writer?.abort(error).catch(() => {})
    this.#reader?.cancel().catch(() => {})
  }

  /** Unchanged by middlewares it is ours, with the head that they have given it. */
  #partOfOurs(bytes: Buffer, more: boolean): void {
    this.#parts.push(bytes)
    if (more) return
    const { status, headers } = this.#begun()
    const body = Buffer.concat(this.#parts)
    const isSame = body.equals(this.#shown!)
    if (isSame) headers.set(PLACE, 'ours')
    this.#settle.resolve(new Response(isSame || EMPTY.has(status) ? null : body, { status, headers }))
  }

  #begun() {
    if (!this.#head) throw new Error('the app has sent a body without a head')
    return this.#head
  }
}
