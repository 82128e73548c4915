// Clients of the Responses API that do not come back by themselves: OpenAI's agents, and the AI SDK's provider. Cut, their caller asks for
// the response by its id; what they were told before is the beginning of it.
import type { Packages } from '../../fixtures/npm.ts'
import type { Client, ClientMaker, Place, Shown } from './client.ts'
import { type Event, type Response, shownOfItems, threadIn, wholeResponse } from './openai.ts'

interface Turn {
  readonly words: string
  readonly response: Response
}

/** How its library asks, and what a thread has of the turns before. */
interface Ways {
  ask(words: string, before: readonly Turn[], take: (event: Event) => void): Promise<void>
  shownOf(responses: readonly Response[]): Shown
}

class ById implements Client {
  readonly #place: Place
  readonly #ways: Ways
  readonly #turns: Turn[] = []

  constructor(place: Place, ways: Ways) {
    this.#place = place
    this.#ways = ways
  }

  async turn(words: string): Promise<string> {
    let id = ''
    const pieces = new Map<string, string>()
    const take = ({ type, response, item_id, delta }: Event) => {
      if (type === 'response.created') id = response.id
      if (type.endsWith('_text.delta')) pieces.set(item_id, (pieces.get(item_id) ?? '') + delta)
    }
    let why: unknown = null
    await this.#ways.ask(words, this.#turns, take).catch((error: unknown) => {
      why = error
    })
    if (id === '') throw new Error(`the response did not say its id: ${String(why)}`)
    const response = await wholeResponse(this.#place, id)
    checkBeginnings(pieces, response)
    this.#turns.push({ words, response })
    return threadIn(response.conversation.id)
  }

  shown(): Shown {
    return this.#ways.shownOf(this.#turns.map(({ response }) => response))
  }

  async later(): Promise<Shown> {
    const responses: Response[] = []
    for (const { response } of this.#turns) responses.push(await wholeResponse(this.#place, response.id))
    return this.#ways.shownOf(responses)
  }
}

/** What came in pieces is the beginning of what is there. */
function checkBeginnings(pieces: ReadonlyMap<string, string>, { output }: Response): void {
  for (const [id, told] of pieces) {
    const item = output.find((one) => one.id === id)
    const { texts, reasonings } = shownOfItems(item ? [item] : [])
    const whole = [...texts, ...reasonings].join('')
    if (!whole.startsWith(told)) throw new Error(`of ${id} was told ${told}, and there is ${whole}`)
  }
}

const itemsOf = (responses: readonly Response[]) => responses.flatMap(({ output }) => output)

// -------------------------------------------------------------------------------------------------- OpenAI's agents

interface Agents {
  readonly Agent: new (options: object) => object
  readonly OpenAIProvider: new (options: object) => object
  readonly Runner: new (
    options: object
  ) => {
    run(agent: object, input: string, options: object): Promise<AsyncIterable<RunEvent>>
  }
}
interface RunEvent {
  readonly type: string
  readonly data: { readonly type: string; readonly event: Event }
}

export const agents: ClientMaker = async (packages: Packages, place: Place) => {
  const { Agent, OpenAIProvider, Runner } = await packages.load<Agents>('@openai/agents/dist/index.mjs')
  const modelProvider = new OpenAIProvider({ baseURL: `${place.url}/v1`, apiKey: place.token, useResponses: true })
  const runner = new Runner({ modelProvider, tracingDisabled: true })
  const agent = new Agent({ name: 'Helper', model: 'lead_agent' })
  return new ById(place, {
    async ask(words, before, take) {
      const previous = before.at(-1)?.response.id
      const options = { stream: true, ...(previous !== undefined && { previousResponseId: previous }) }
      for await (const { type, data } of await runner.run(agent, words, options))
        if (type === 'raw_model_stream_event' && data.type === 'model') take(data.event)
    },
    shownOf: (responses) => shownOfItems(itemsOf(responses))
  })
}

// ------------------------------------------------------------------------------------------- the AI SDK's provider

interface Sdk {
  streamText(options: object): { readonly stream: AsyncIterable<{ readonly type: string; readonly rawValue: Event }> }
}
interface Provider {
  createOpenResponses(options: object): (model: string) => object
}

/** It sends the conversation again with each turn: words alone, so that reasoning and calls of earlier answers are not in the new thread. */
export const openResponses: ClientMaker = async (packages: Packages, place: Place) => {
  const { streamText } = await packages.load<Sdk>('ai/dist/index.js')
  const { createOpenResponses } = await packages.load<Provider>('@ai-sdk/open-responses/dist/index.js')
  const model = createOpenResponses({ name: 'colloquy', url: `${place.url}/v1/responses`, apiKey: place.token })
  return new ById(place, {
    async ask(words, before, take) {
      const messages = [...before.flatMap(messagesOf), { role: 'user', content: words }]
      const answer = streamText({ model: model('lead_agent'), messages, includeRawChunks: true, onError: () => {} })
      for await (const { type, rawValue } of answer.stream) if (type === 'raw') take(rawValue)
    },
    shownOf: (responses) => ({
      ...shownOfItems(itemsOf(responses.slice(-1))),
      texts: shownOfItems(itemsOf(responses)).texts
    })
  })
}

function messagesOf({ words, response: { output } }: Turn): object[] {
  const answers = shownOfItems(output).texts.map((text) => ({ role: 'assistant', content: text }))
  return [{ role: 'user', content: words }, ...answers]
}
