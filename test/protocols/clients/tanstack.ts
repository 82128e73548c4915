// TanStack AI's client against AG-UI's route: it comes back by itself, with the same POST and how far it has come, and loads a thread later.
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Packages } from '../../fixtures/npm.ts'
import { type Client, type ClientMaker, comingBack, type Place, type Shown, textOfResult } from './client.ts'

interface Part {
  readonly type: string
  readonly content?: unknown
}
interface Message {
  readonly role: string
  readonly parts: readonly Part[]
}
interface Chat {
  sendMessage(words: string): Promise<unknown>
  getMessages(): readonly Message[]
  /** As a page does when it is shown. */
  attach(): void
}
interface Library {
  readonly ChatClient: new (options: object) => Chat
  fetchServerSentEvents(url: string, options: object): object
}

/** Attempts at coming back in which nothing new has come: a gateway may be starting. */
const RECONNECT = { maxAttempts: 300, delayMs: 50 }

/** What a page is given to load its thread, in ms. */
const LOAD_MS = 1000

class TanStack implements Client {
  readonly #library: Library
  readonly #place: Place
  readonly #thread = randomUUID()
  readonly #chat: Chat

  constructor(library: Library, place: Place) {
    this.#library = library
    this.#place = place
    this.#chat = this.#open({})
  }

  #open(more: object): Chat {
    const { url, token } = this.#place
    const { ChatClient, fetchServerSentEvents } = this.#library
    const connection = fetchServerSentEvents(`${url}/api/agui/lead_agent`, {
      headers: { authorization: `Bearer ${token}` },
      reconnect: RECONNECT
    })
    // Stored before it is shown: a crash takes nothing of it back.
    return new ChatClient({ connection, threadId: this.#thread, forwardedProps: { durability: 'sync' }, ...more })
  }

  async turn(words: string): Promise<string> {
    // How a run has failed is in what it shows.
    await this.#chat.sendMessage(words)
    return this.#thread
  }

  shown(): Shown {
    return shownOf(this.#chat)
  }

  async later(): Promise<Shown> {
    // A page that could not load its thread is empty, until it is loaded again.
    let chat = this.#chat
    const isLoaded = () => chat !== this.#chat && chat.getMessages().length > 0
    await comingBack(isLoaded, async () => {
      chat = this.#open({ persistence: true })
      chat.attach()
      await pause(LOAD_MS)
    })
    return shownOf(chat)
  }
}

function shownOf(chat: Chat): Shown {
  const parts = chat.getMessages().flatMap(({ role, parts }) => (role === 'assistant' ? parts : []))
  const of = (type: string) =>
    parts.flatMap((part) => (part.type === type && part.content ? [textOfResult(part.content)] : []))
  return { texts: of('text'), reasonings: of('thinking'), results: of('tool-result') }
}

export const tanStack: ClientMaker = async (packages: Packages, place) =>
  new TanStack(await packages.load<Library>('@tanstack/ai-client/dist/esm/index.js'), place)
