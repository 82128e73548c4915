// AG-UI's clients: HttpAgent as it comes, which connects to its thread again; with a fetch that goes on behind a cut; and CopilotKit's.
import { randomUUID } from 'node:crypto'
import type { Packages } from '../../fixtures/npm.ts'
import { type Client, type ClientMaker, comingBack, type Place, type Shown } from './client.ts'

interface Message {
  readonly id: string
  readonly role: string
  readonly content?: unknown
}
interface Event {
  readonly type: string
  readonly messageId?: string
  readonly delta?: string
}
interface Agent {
  messages: readonly Message[]
  threadId: string
  addMessage(message: object): void
  setMessages(messages: readonly Message[]): void
  subscribe(subscriber: object): void
  runAgent(parameters?: object): Promise<unknown>
  connectAgent(parameters?: object): Promise<unknown>
}
interface Library {
  readonly HttpAgent: new (options: object) => Agent
  runHttpRequest(fetching: () => Promise<Response>): unknown
  transformHttpEventStream(source: unknown): unknown
}
interface Kit {
  readonly CopilotKitCore: new (options: object) => Core
}
interface Core {
  readonly runtimeConnectionStatus: string
  connect(): void
  getAgent(name: string): Agent | undefined
  runAgent(params: { agent: Agent }): Promise<unknown>
  connectAgent(params: { agent: Agent }): Promise<unknown>
}

const ENDS = ['RUN_FINISHED', 'RUN_ERROR']

/** How its library runs an agent and connects to it again. */
interface Ways {
  run(): Promise<unknown>
  connect(): Promise<unknown>
  /** A client that has seen nothing yet. */
  fresh(): Promise<AgUi>
}

class AgUi implements Client {
  readonly #agent: Agent
  readonly #ways: Ways
  readonly #thread: string
  /** Of the events, not of the snapshot behind them: that would hide what came twice. */
  readonly #pieces = new Map<string, string>()
  #isOver = true

  constructor(agent: Agent, ways: Ways, thread: string = randomUUID()) {
    this.#agent = agent
    this.#ways = ways
    this.#thread = thread
    agent.threadId = thread
    agent.subscribe({
      onEvent: ({ event }: { readonly event: Event }) => {
        if (event.type === 'RUN_STARTED') this.#isOver = false
        if (ENDS.includes(event.type)) this.#isOver = true
        if (event.type === 'TEXT_MESSAGE_START') this.#pieces.set(event.messageId!, '')
        if (event.type === 'TEXT_MESSAGE_CONTENT')
          this.#pieces.set(event.messageId!, (this.#pieces.get(event.messageId!) ?? '') + event.delta)
      }
    })
  }

  async turn(words: string): Promise<string> {
    this.#isOver = false
    this.#agent.addMessage({ id: randomUUID(), role: 'user', content: words })
    await this.#ways.run().catch(() => {})
    await comingBack(
      () => this.#isOver,
      () => this.#ways.connect()
    )
    return this.#thread
  }

  shown(): Shown {
    const { messages } = this.#agent
    const shown = shownOf(messages)
    const pieces = messages.flatMap(({ id, role }) => (role === 'assistant' ? [this.#pieces.get(id) ?? ''] : []))
    const told = pieces.filter((text) => text !== '')
    // What came in pieces is what is shown.
    return { ...shown, texts: told.join() === shown.texts.join() ? shown.texts : [`pieces: ${told.join('|')}`] }
  }

  async later(): Promise<Shown> {
    const other = await this.#ways.fresh()
    other.#agent.threadId = this.#thread
    await other.#ways.connect()
    return shownOf(other.#agent.messages)
  }
}

function shownOf(messages: readonly Message[]): Shown {
  const textsOf = (wanted: string) =>
    messages.flatMap(({ role, content }) => (role === wanted && content ? [String(content)] : []))
  return { texts: textsOf('assistant'), reasonings: textsOf('reasoning'), results: textsOf('tool') }
}

const bearer = ({ token }: Place) => ({ authorization: `Bearer ${token}` })

/** The thread comes from its start: onto nothing. */
function anew(agent: Agent): Promise<unknown> {
  agent.setMessages([])
  return agent.connectAgent()
}

/** HttpAgent leaves to others how it connects. */
function connecting({ HttpAgent, runHttpRequest, transformHttpEventStream }: Library): Library['HttpAgent'] {
  return class extends (HttpAgent as unknown as new (options: object) => Agent & Connected) {
    connect(input: object): unknown {
      const asking = () => fetch(`${this.url}/connect`, this.requestInit(input))
      return transformHttpEventStream(runHttpRequest(asking))
    }
  }
}
interface Connected {
  readonly url: string
  requestInit(input: object): RequestInit
}

const httpClient = (fetchOf?: (place: Place) => typeof fetch): ClientMaker => {
  const make = async (packages: Packages, place: Place): Promise<AgUi> => {
    const library = await packages.load<Library>('@ag-ui/client/dist/index.mjs')
    const options = { url: `${place.url}/api/agui/lead_agent`, headers: bearer(place) }
    const agent = new (connecting(library))({ ...options, ...(fetchOf && { fetch: fetchOf(place) }) })
    // Stored before it is shown: a crash takes nothing of it back.
    const exact = fetchOf && { forwardedProps: { durability: 'sync' } }
    const ways = { run: () => agent.runAgent(exact), connect: () => anew(agent), fresh: () => make(packages, place) }
    return new AgUi(agent, ways)
  }
  return make
}

/** Passes whole events on, and goes on behind the last one after a cut, as lib/protocols/README.md has it. */
function exactEvents({ url }: Place): typeof fetch {
  return async (input, init = {}) => {
    const first = await fetch(input, init)
    const again = first.headers.get('content-location')
    if (!first.ok || !first.body || again === null) return first
    const headers = new Headers(init.headers)
    async function* events(): AsyncGenerator<Uint8Array> {
      let body: ReadableStream<Uint8Array> | null = first.body
      for (let failures = 0; failures < 300; failures++) {
        const decoder = new TextDecoder()
        let rest = ''
        try {
          for await (const bytes of body ?? []) {
            rest += decoder.decode(bytes, { stream: true })
            const end = rest.lastIndexOf('\n\n') + 2
            if (end < 2) continue
            const whole = rest.slice(0, end)
            rest = rest.slice(end)
            headers.set(
              'last-event-id',
              [...whole.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? headers.get('last-event-id')!
            )
            yield new TextEncoder().encode(whole)
            if (/"type":"RUN_(FINISHED|ERROR)"/.test(whole)) return
          }
        } catch {
          // It was cut.
        }
        await new Promise((resolve) => setTimeout(resolve, 50))
        const answer: Response | null = await fetch(new URL(again!, url), { headers }).catch(() => null)
        body = answer?.ok ? answer.body : null
      }
      throw new TypeError('network error: the run was cut')
    }
    return new Response(ReadableStream.from(events()), { status: first.status, headers: first.headers })
  }
}

export const agent = httpClient()
export const exactAgent = httpClient(exactEvents)

export const copilotKit: ClientMaker = (packages, place) => kit(packages, place)

async function kit(packages: Packages, place: Place): Promise<AgUi> {
  // It is made for pages, and does nothing where there is none.
  Object.assign(globalThis, { window: globalThis })
  const { CopilotKitCore } = await packages.load<Kit>('@copilotkit/core/dist/index.mjs')
  const core = new CopilotKitCore({ runtimeUrl: `${place.url}/api/copilotkit`, headers: bearer(place) })
  core.connect()
  let found: Agent | undefined
  await comingBack(
    () => found !== undefined,
    async () => {
      if (core.runtimeConnectionStatus === 'connected') found = core.getAgent('lead_agent')
    }
  )
  const one = found!
  const ways = {
    run: () => core.runAgent({ agent: one }),
    connect: () => {
      one.setMessages([])
      return core.connectAgent({ agent: one })
    },
    fresh: () => kit(packages, place)
  }
  return new AgUi(one, ways)
}
