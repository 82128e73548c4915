// MCP's clients: the newest, of the project's own packages, and the SDK of before, whose every release is 1.x. They come back by themselves
// behind the last event that they have read.
import { Client as Newest, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { Packages } from '../../fixtures/npm.ts'
import { type Client, type ClientMaker, comingBack, type Place, type Shown, wordAt } from './client.ts'

/** So long a gateway may be away. */
const RECONNECTION = {
  initialReconnectionDelay: 5,
  maxReconnectionDelay: 200,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 300
}
const TIMEOUT_MS = 180_000

/** What notifications of progress have said of one call. */
class Said {
  readonly #texts = new Map<string, string>()
  readonly #reasonings = new Map<string, string>()
  readonly #results: string[] = []

  take(note: object): void {
    const piece = (note as { _meta?: Record<string, unknown> })._meta?.['colloquy/piece']
    const type = wordAt(piece, 'type')
    const kind = type === 'text' ? this.#texts : this.#reasonings
    if (type === 'tool_result') this.#results.push(wordAt(piece, 'text'))
    if (type !== 'text' && type !== 'reasoning') return
    const id = wordAt(piece, 'message_id')
    kind.set(id, (kind.get(id) ?? '') + wordAt(piece, 'text'))
  }

  /** It is told from the beginning again. */
  clear(): void {
    this.#texts.clear()
    this.#reasonings.clear()
    this.#results.length = 0
  }

  get shown(): Shown {
    return { texts: [...this.#texts.values()], reasonings: [...this.#reasonings.values()], results: this.#results }
  }
}

/** A library's client, connected. */
interface Connected {
  /** Calls a tool. */
  call(params: object, said: Said): Promise<unknown>
  close(): Promise<void>
}

class Mcp implements Client {
  readonly #connect: () => Promise<Connected>
  readonly #library: Connected
  readonly #said: Said[] = []
  readonly #runs: string[] = []
  #thread: string | null = null

  constructor(connect: () => Promise<Connected>, library: Connected) {
    this.#connect = connect
    this.#library = library
  }

  async turn(words: string): Promise<string> {
    const given = { message: words, ...(this.#thread !== null && { thread_id: this.#thread }) }
    const said = new Said()
    this.#said.push(said)
    const result = await this.#library.call({ name: 'lead_agent', arguments: given }, said)
    this.#runs.push(wordAt(result, 'structuredContent', 'run_id'))
    this.#thread = wordAt(result, 'structuredContent', 'thread_id')
    return this.#thread
  }

  shown(): Shown {
    return shownOf(this.#said)
  }

  /** A client that has begun none of the runs follows one after the other. */
  async later(): Promise<Shown> {
    const library = await this.#connect()
    const all: Said[] = []
    for (const run of this.#runs) {
      const said = new Said()
      all.push(said)
      await library.call({ name: 'lead_agent', arguments: {}, _meta: { 'colloquy/run': run } }, said)
    }
    await library.close()
    return shownOf(all)
  }
}

function shownOf(all: readonly Said[]): Shown {
  const shown = all.map((said) => said.shown)
  return {
    texts: shown.flatMap(({ texts }) => texts),
    reasonings: shown.flatMap(({ reasonings }) => reasonings),
    results: shown.flatMap(({ results }) => results)
  }
}

const optionsOf = (said: Said) => ({ onprogress: (note: object) => said.take(note), timeout: TIMEOUT_MS })

const ME = { name: 'long', version: '1' }

function transportOptions({ token }: Place) {
  return { requestInit: { headers: { authorization: `Bearer ${token}` } }, reconnectionOptions: RECONNECTION }
}

const clientOf =
  (connect: (place: Place, packages: Packages) => Promise<Connected>): ClientMaker =>
  async (packages, place) =>
    new Mcp(() => connect(place, packages), await connect(place, packages))

// ------------------------------------------------------------------------------------------------------- the newest

const newest =
  (mode: 'legacy' | { readonly pin: string }) =>
  async (place: Place): Promise<Connected> => {
    const library = new Newest(ME, { versionNegotiation: { mode } })
    await library.connect(new StreamableHTTPClientTransport(new URL('/mcp', place.url), transportOptions(place)))
    return {
      call: (params, said) => library.callTool({ name: '', ...params }, optionsOf(said)),
      close: () => library.close()
    }
  }

export const mcp = clientOf(newest('legacy'))
export const mcpStateless = clientOf(newest({ pin: '2026-07-28' }))

// ---------------------------------------------------------------------------------------------------------- SDK 1.x

interface Message {
  readonly type: 'taskCreated' | 'taskStatus' | 'result' | 'error'
  readonly task?: { readonly taskId: string }
  readonly result?: unknown
  readonly error?: Error
}
interface Sdk {
  connect(transport: object): Promise<void>
  close(): Promise<void>
  callTool(params: object, schema: undefined, options: object): Promise<unknown>
  readonly experimental: {
    readonly tasks: {
      callToolStream(params: object, schema: undefined, options: object): AsyncIterable<Message>
      getTaskResult(id: string, schema: object, options: object): Promise<unknown>
    }
  }
}
const SDK = '@modelcontextprotocol/sdk/dist/esm'

async function connectedSdk(place: Place, packages: Packages): Promise<Sdk> {
  const { Client: Library } = await packages.load<{ Client: new (me: object) => Sdk }>(`${SDK}/client/index.js`)
  const { StreamableHTTPClientTransport: Transport } = await packages.load<{
    StreamableHTTPClientTransport: new (url: URL, options: object) => object
  }>(`${SDK}/client/streamableHttp.js`)
  const library = new Library(ME)
  await library.connect(new Transport(new URL('/mcp', place.url), transportOptions(place)))
  return library
}

export const mcpSdk = clientOf(async (place, packages) => {
  const library = await connectedSdk(place, packages)
  return {
    call: (params, said) => library.callTool(params, undefined, optionsOf(said)),
    close: () => library.close()
  }
})

/** A call as a task: asked for again and again how it stands, and then for its result. What breaks meanwhile is for its caller to ask again. */
export const mcpSdkTasks = clientOf(async (place, packages) => {
  const library = await connectedSdk(place, packages)
  const { tasks } = library.experimental
  const { CallToolResultSchema: schema } = await packages.load<{ CallToolResultSchema: object }>(`${SDK}/types.js`)
  return {
    call: async (params, said) => {
      if ('_meta' in params) return library.callTool(params, undefined, optionsOf(said))
      let task = ''
      let why: unknown = null
      for await (const message of tasks.callToolStream(params, undefined, { ...optionsOf(said), task: {} })) {
        task ||= message.task?.taskId ?? ''
        why = message.error
        if (message.type === 'result') return message.result
      }
      if (task === '') throw new Error(`it did not say its task: ${String(why)}`)
      let result: unknown = null
      await comingBack(
        () => result !== null,
        async () => {
          said.clear()
          result = await tasks.getTaskResult(task, schema, optionsOf(said))
        }
      )
      return result
    },
    close: () => library.close()
  }
})
