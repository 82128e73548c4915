// The AI SDK's chat, in both versions, as its hooks for React have it: over HTTP as it comes, with `exactFetch`, and over a WebSocket (7).
import { randomUUID } from 'node:crypto'
import { exactFetch } from '../../../lib/client/ai-sdk.ts'
import type { Packages } from '../../fixtures/npm.ts'
import { type Client, type ClientMaker, comingBack, type Place, type Shown, textOfResult } from './client.ts'

interface Part {
  readonly type: string
  readonly text?: string
  readonly output?: unknown
}
interface Message {
  readonly role: string
  readonly metadata?: { readonly thread_id?: string }
  readonly parts: readonly Part[]
}
interface Chat {
  readonly messages: readonly Message[]
  readonly status: string
  readonly error?: Error
  sendMessage(message: object): Promise<void>
  resumeStream(): Promise<void>
}
interface Library {
  readonly DefaultChatTransport: new (options: object) => object
  readonly WebSocketChatTransport: new (options: object) => object
}
interface Hooks {
  readonly Chat: new (options: object) => Chat
}

class AiChat implements Client {
  readonly #chat: Chat
  readonly #place: Place

  constructor({ Chat }: Hooks, transport: object, place: Place) {
    this.#place = place
    this.#chat = new Chat({ id: randomUUID(), transport, onError: () => {} })
  }

  async turn(words: string): Promise<string> {
    await this.#chat.sendMessage({ text: words })
    await comingBack(
      () => !this.#isCut && this.#threadOf() !== undefined,
      () => this.#chat.resumeStream()
    )
    return this.#threadOf()!
  }

  /** It has failed of something else than what the answer says itself: of the network, or of a gateway that is not there. */
  get #isCut(): boolean {
    const { status, error } = this.#chat
    return status === 'error' && (error instanceof TypeError || /network|socket|^\{/i.test(error?.message ?? ''))
  }

  #threadOf(): string | undefined {
    const last = this.#chat.messages.at(-1)
    return last?.role === 'assistant' ? last.metadata?.thread_id : undefined
  }

  shown(): Shown {
    return shownOf(this.#chat.messages)
  }

  async later(): Promise<Shown> {
    const { url, token } = this.#place
    const headers = { authorization: `Bearer ${token}` }
    const answer = await fetch(`${url}/api/ai/chat/${this.#threadOf()}`, { headers })
    return shownOf((await answer.json()) as Message[])
  }
}

function shownOf(messages: readonly Message[]): Shown {
  const parts = messages.flatMap(({ role, parts }) => (role === 'assistant' ? parts : []))
  const textsOf = (wanted: string) => parts.flatMap(({ type, text }) => (type === wanted && text ? [text] : []))
  const results = parts.flatMap(({ type, output }) =>
    /^(tool-|dynamic-tool)/.test(type) && output != null ? [textOfResult(output)] : []
  )
  return { texts: textsOf('text'), reasonings: textsOf('reasoning'), results }
}

/** Where each version is installed. */
const VERSIONS = {
  6: { sdk: 'ai-6/dist/index.mjs', hooks: 'ai-sdk-react-3/dist/index.mjs' },
  7: { sdk: 'ai/dist/index.js', hooks: '@ai-sdk/react/dist/index.js' }
} as const

const made = (
  transportOf: (library: Library, place: Place) => object,
  version: keyof typeof VERSIONS = 7
): ClientMaker => {
  const { sdk, hooks } = VERSIONS[version]
  return async (packages: Packages, place: Place) => {
    const library = await packages.load<Library>(sdk)
    return new AiChat(await packages.load<Hooks>(hooks), transportOf(library, place), place)
  }
}
const over = ({ url, token }: Place) => ({ api: `${url}/api/ai/chat`, headers: { authorization: `Bearer ${token}` } })

const asItComes = ({ DefaultChatTransport }: Library, place: Place) => new DefaultChatTransport(over(place))
const exact = ({ DefaultChatTransport }: Library, place: Place) =>
  new DefaultChatTransport({ ...over(place), fetch: exactFetch({ waitMs: 5, attempts: 60 }) })

export const chat = made(asItComes)
export const chat6 = made(asItComes, 6)
export const exactChat = made(exact)
export const exactChat6 = made(exact, 6)
export const socketChat = made(({ WebSocketChatTransport }, { url, token }) => {
  const headers = { Authorization: `Bearer ${token}` }
  // What came before is in the thread; all of it would be too long for the first message of a socket, which has the credential.
  const prepareSendMessagesRequest = ({ messages }: Pick<Chat, 'messages'>) => ({ messages: messages.slice(-1) })
  return new WebSocketChatTransport({
    url: `${url.replace('http', 'ws')}/api/ai/ws`,
    headers,
    prepareSendMessagesRequest
  })
})
