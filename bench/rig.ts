// Server, model and readers of one measurement, each a process of its own, and what the bench asks of them.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Script } from './agent.ts'
import type { FloorOptions } from './floors.ts'
import type { ModelOrder } from './model.ts'
import type { Asked, ReadAnswer, ReadOrder } from './readers.ts'
import type { Command, Started, Usage } from './server.ts'

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** The one account of a server under the bench. */
export const VISITOR = { email: 'bench@example.com', password: 'correct-horse-42' } as const

/** All readers of a bench are one user at one address, whose runs are all there are. */
const UNLIMITED = {
  server: { connections_per_address: 0 },
  streams: { per_user: 0, total: 0 },
  runs: { active_per_user: 0 }
} as const

/** A configuration with those limits off, section by section. */
function unlimited(config: Config): Config {
  const sections = Object.entries(UNLIMITED).map(([name, limits]) => [name, { ...limits, ...config[name] }])
  return { ...config, ...Object.fromEntries(sections) }
}

let profiles: string | null = null

/** From now on every server leaves a CPU profile in this folder. */
export function profileTo(folder: string): void {
  profiles = folder
}

/** Sections of colloquy.yaml. */
export type Config = Readonly<Record<string, object>>

export class Server {
  readonly url: string
  readonly database: string
  readonly #child: ChildProcess
  #headers: Record<string, string> = {}

  private constructor(child: ChildProcess, { url, database }: Started) {
    this.#child = child
    this.url = url
    this.database = database
  }

  static async #start(order: Command, folder?: string): Promise<Server> {
    const execArgv = profiles === null ? [] : ['--cpu-prof', `--cpu-prof-dir=${profiles}`]
    const program = folder === undefined ? file('./server.js') : join(folder, 'dist', 'bench', 'server.js')
    const child = fork(program, { execArgv })
    child.send(order)
    const gone = new AbortController()
    child.once('exit', () => gone.abort(new Error('the server under the bench has ended')))
    // The first message of a server says where it is.
    const [started] = (await once(child, 'message', { signal: gone.signal })) as [Started]
    return new Server(child, started)
  }

  /**
   * The gateway, with one account signed in.
   * @param asksModel its own agent, and the model of the configuration
   * @param folder of another checkout, which is built: its gateway
   */
  static async gateway(config: Config = {}, asksModel = false, folder?: string): Promise<Server> {
    const server = await Server.#start({ type: 'gateway', config: unlimited(config), asksModel }, folder)
    await server.#signIn()
    return server
  }

  static floor(options: FloorOptions): Promise<Server> {
    return Server.#start({ type: 'floor', ...options })
  }

  async #signIn(): Promise<void> {
    const body = JSON.stringify(VISITOR)
    const answer = await fetch(`${this.url}/api/v1/auth/initialize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body
    })
    const cookies = answer.headers.getSetCookie().map((line) => line.split(';')[0]!)
    const csrf = cookies.find((cookie) => cookie.startsWith('csrf_token='))?.slice('csrf_token='.length) ?? ''
    this.#headers = { cookie: cookies.join('; '), 'x-csrf-token': csrf }
  }

  /** Of its process: the parent of those that it starts. */
  get pid(): number {
    // It has answered.
    return this.#child.pid!
  }

  get headers(): Record<string, string> {
    return this.#headers
  }

  async post(path: string, body: object): Promise<Response> {
    return fetch(this.url + path, {
      method: 'POST',
      headers: { ...this.#headers, 'content-type': 'application/json' },
      body: JSON.stringify(body)
    })
  }

  async get(path: string): Promise<Response> {
    return fetch(this.url + path, { headers: this.#headers })
  }

  async thread(): Promise<string> {
    // The answer of our own server.
    return ((await (await this.post('/api/threads', {})).json()) as { thread_id: string }).thread_id
  }

  /** Starts a run of the script in the background and answers the path of its stream. */
  async run(script: Script, { thread, isSync = false }: { thread?: string; isSync?: boolean } = {}): Promise<string> {
    const id = thread ?? (await this.thread())
    const body = { ...asking(script), ...(isSync && { durability: 'sync' }) }
    const answer = await this.post(`/api/threads/${id}/runs`, body)
    if (!answer.ok) throw new Error(`no run: ${answer.status} ${await answer.text()}`)
    return `${answer.headers.get('content-location')}/stream?stream_mode=messages-tuple`
  }

  /** So many runs of it, each in a thread of its own. */
  async runs(script: Script, count: number): Promise<string[]> {
    const paths: string[] = []
    for (let i = 0; i < count; i++) paths.push(await this.run(script))
    return paths
  }

  /** The word to begin. Watched: `usage` tells the delay of the loop, which takes a timer of 200 a second. */
  go(isWatched = false): void {
    this.#child.send({ type: 'go', isWatched } satisfies Command)
  }

  async usage(): Promise<Usage> {
    const answer = once(this.#child, 'message')
    this.#child.send({ type: 'usage' } satisfies Command)
    // A server that runs sends nothing else.
    return ((await answer) as [Usage])[0]
  }

  async stop(): Promise<void> {
    this.#child.send({ type: 'stop' } satisfies Command)
    await once(this.#child, 'exit')
  }
}

/** The body that creates a run of the script. */
export function asking(script: Script): object {
  return { stream_mode: ['messages-tuple'], input: { messages: [{ role: 'user', content: JSON.stringify(script) }] } }
}

/** A model server. */
export class Model {
  readonly url: string
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(): Promise<Model> {
    const child = fork(file('./model.js'))
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    return new Model(child, url)
  }

  /** Until so many requests wait for the next word. */
  async asked(count: number): Promise<void> {
    for (let asked = 0; asked < count; ) {
      const answer = once(this.#child, 'message')
      this.#child.send('count' satisfies ModelOrder)
      asked = ((await answer) as [{ asked: number }])[0].asked
    }
  }

  go(): void {
    this.#child.send('go' satisfies ModelOrder)
  }

  stop(): void {
    this.#child.kill()
  }
}

type Done = ReadAnswer & { type: 'done' }
/** Where readers go, and as whom. */
type Place = Pick<Server, 'url' | 'headers'>

export class Readers {
  readonly #child = fork(file('./readers.js'))

  /** So many readers of one path. */
  open(server: Place, path: string, count: number, options: Reading = {}): Promise<{ done: Promise<Done> }> {
    return this.openAll(
      server,
      Array.from({ length: count }, () => path),
      options
    )
  }

  /** Opens a reader a path; resolves when the head of every answer is there. `done`: when the last one has everything. */
  openAll(server: Place, paths: readonly string[], options: Reading = {}): Promise<{ done: Promise<Done> }> {
    return this.ask(
      server,
      paths.map((path) => ({ path })),
      options
    )
  }

  async ask(server: Place, asked: readonly Asked[], options: Reading = {}): Promise<{ done: Promise<Done> }> {
    const opened = this.#answer('open')
    const done = this.#answer('done') as Promise<Done>
    this.#child.send({ url: server.url, headers: server.headers, asked, ...options } satisfies ReadOrder)
    await opened
    return { done }
  }

  #answer(type: ReadAnswer['type']): Promise<ReadAnswer> {
    return new Promise((resolve) => {
      const listener = (answer: ReadAnswer) => {
        if (answer.type !== type) return
        this.#child.off('message', listener)
        resolve(answer)
      }
      this.#child.on('message', listener)
    })
  }

  stop(): void {
    this.#child.kill()
  }
}

type Reading = Pick<ReadOrder, 'until' | 'mark' | 'gaps' | 'ages'>
