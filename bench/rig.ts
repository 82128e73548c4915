// Server and readers of one measurement, each a process of its own, and what the bench asks of them.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Script } from './agent.ts'
import type { ReadAnswer, ReadOrder } from './readers.ts'
import type { Kind, Order, Usage } from './server.ts'

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** The one account of a server under the bench. */
export const VISITOR = { email: 'bench@example.com', password: 'correct-horse-42' } as const

/** A frame as the gateway makes it of a delta of so many characters: floors send the same bytes. */
export function frameOf(size: number): string {
  const data = `[{"content":"${'x'.repeat(size)}","type":"AIMessageChunk","id":"${'0'.repeat(36)}"},{"langgraph_node":"agent"}]`
  return `event: messages\ndata: ${data}\nid: 1790000000000-1000\n\n`
}

export class Server {
  readonly url: string
  readonly #child: ChildProcess
  #headers: Record<string, string> = {}

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  static async start(kind: Kind, script: Script, config: object = {}): Promise<Server> {
    const child = fork(file('./server.js'))
    child.send({ type: 'start', kind, script, frame: frameOf(script.size), config } satisfies Order)
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    const server = new Server(child, url)
    if (kind === 'gateway') await server.#signIn()
    return server
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
  async run(script: Script, thread?: string): Promise<string> {
    const id = thread ?? (await this.thread())
    const answer = await this.post(`/api/threads/${id}/runs`, {
      input: { messages: [{ role: 'user', content: JSON.stringify(script) }] }
    })
    return `${answer.headers.get('content-location')}/stream?stream_mode=messages-tuple`
  }

  go(): void {
    this.#child.send({ type: 'go' } satisfies Order)
  }

  async usage(): Promise<Usage> {
    const answer = once(this.#child, 'message')
    this.#child.send({ type: 'usage' } satisfies Order)
    return ((await answer) as [Usage])[0]
  }

  async stop(): Promise<void> {
    this.#child.send({ type: 'stop' } satisfies Order)
    await once(this.#child, 'exit')
  }
}

type Done = ReadAnswer & { type: 'done' }

export class Readers {
  readonly #child = fork(file('./readers.js'))

  /** Opens them; resolves when the head of every answer is there. `done` resolves when the last one has everything. */
  async open(server: Server, path: string, count: number): Promise<{ done: Promise<Done> }> {
    return this.openAll(
      server,
      Array.from({ length: count }, () => path)
    )
  }

  /** The same, one reader a path. `gaps`: the time from frame to frame is wanted. */
  async openAll(server: Server, paths: readonly string[], gaps = false): Promise<{ done: Promise<Done> }> {
    const opened = this.#answer('open')
    const done = this.#answer('done') as Promise<Done>
    this.#child.send({ url: server.url, headers: server.headers, paths, gaps } satisfies ReadOrder)
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
