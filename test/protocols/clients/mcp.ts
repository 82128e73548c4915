// MCP's client, of the project's own packages: it comes back by itself behind the last event that it has read.
import { Client as Library, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { type Client, type ClientMaker, type Place, type Shown, wordAt } from './client.ts'

type Mode = 'legacy' | { readonly pin: string }

/** So long a gateway may be away. */
const RECONNECTION = {
  initialReconnectionDelay: 5,
  maxReconnectionDelay: 200,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 300
}
const TIMEOUT_MS = 180_000

/** What notifications of progress have said. */
class Said {
  readonly #texts = new Map<string, string>()
  readonly #reasonings = new Map<string, string>()
  readonly #results: string[] = []

  take(note: { readonly _meta?: unknown }): void {
    const piece = (note._meta as Record<string, unknown> | undefined)?.['colloquy/piece']
    const type = wordAt(piece, 'type')
    const kind = type === 'text' ? this.#texts : this.#reasonings
    if (type === 'tool_result') this.#results.push(wordAt(piece, 'text'))
    if (type !== 'text' && type !== 'reasoning') return
    const id = wordAt(piece, 'message_id')
    kind.set(id, (kind.get(id) ?? '') + wordAt(piece, 'text'))
  }

  get shown(): Shown {
    return { texts: [...this.#texts.values()], reasonings: [...this.#reasonings.values()], results: this.#results }
  }
}

class Mcp implements Client {
  readonly #place: Place
  readonly #mode: Mode
  readonly #library: Library
  readonly #said = new Said()
  readonly #runs: string[] = []
  #thread: string | null = null

  constructor(place: Place, mode: Mode, library: Library) {
    this.#place = place
    this.#mode = mode
    this.#library = library
  }

  async turn(words: string): Promise<string> {
    const given = { message: words, ...(this.#thread !== null && { thread_id: this.#thread }) }
    const result = await call(this.#library, { arguments: given }, this.#said)
    this.#runs.push(wordAt(result, 'structuredContent', 'run_id'))
    this.#thread = wordAt(result, 'structuredContent', 'thread_id')
    return this.#thread
  }

  shown(): Shown {
    return this.#said.shown
  }

  /** A client that has begun none of the runs follows one after the other. */
  async later(): Promise<Shown> {
    const library = await connected(this.#place, this.#mode)
    const said = new Said()
    for (const run of this.#runs) await call(library, { arguments: {}, _meta: { 'colloquy/run': run } }, said)
    await library.close()
    return said.shown
  }
}

function call(library: Library, params: object, said: Said): Promise<unknown> {
  const onprogress = (note: object) => said.take(note)
  return library.callTool({ name: 'lead_agent', ...params }, { onprogress, timeout: TIMEOUT_MS })
}

async function connected({ url, token }: Place, mode: Mode): Promise<Library> {
  const library = new Library({ name: 'long', version: '1' }, { versionNegotiation: { mode } })
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  const options = { requestInit, reconnectionOptions: RECONNECTION }
  await library.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), options))
  return library
}

const clientOf =
  (mode: Mode): ClientMaker =>
  async (_packages, place) =>
    new Mcp(place, mode, await connected(place, mode))

export const mcp = clientOf('legacy')
export const mcpStateless = clientOf({ pin: '2026-07-28' })
