// OpenAI's client: a stream that is cut goes on behind the number of its last event, by hand. https://github.com/openai/openai-node
import { type Client, type ClientMaker, comingBack, type Place, type Shown } from './client.ts'

interface Item {
  readonly id: string
  readonly type: string
  readonly content?: readonly { readonly text: string }[]
  readonly output?: string | null
}
export interface Response {
  readonly id: string
  readonly status: string
  readonly output: readonly Item[]
  readonly conversation: { readonly id: string }
}
export interface Event {
  readonly type: string
  readonly sequence_number: number
  readonly item_id: string
  readonly delta: string
  readonly item: Item
  readonly response: Response
}
interface Api {
  readonly responses: {
    create(body: object): Promise<AsyncIterable<Event>>
    retrieve(id: string, query: object): Promise<AsyncIterable<Event>>
    stream(params: object): { finalResponse(): Promise<Response> }
  }
}
interface Library {
  readonly default: new (options: object) => Api
}

const UNDER_WAY = ['queued', 'in_progress']
const ENDS = ['response.completed', 'response.failed', 'response.incomplete']

class Responses implements Client {
  readonly #api: Api
  readonly #ids: string[] = []
  readonly #texts = new Map<string, string>()
  readonly #reasonings = new Map<string, string>()
  readonly #results: string[] = []
  #thread = ''

  constructor(api: Api) {
    this.#api = api
  }

  async turn(words: string): Promise<string> {
    const previous = this.#ids.at(-1)
    const body = {
      model: 'lead_agent',
      input: words,
      stream: true,
      ...(previous && { previous_response_id: previous })
    }
    let last = -1
    let end: Response | null = null
    const follow = async (events: AsyncIterable<Event>) => {
      for await (const event of events) {
        if (event.sequence_number !== last + 1) throw new Error(`${event.sequence_number} behind ${last}`)
        last = event.sequence_number
        if (event.type === 'response.created') this.#ids.push(event.response.id)
        if (ENDS.includes(event.type)) end = event.response
        this.#take(event)
      }
    }
    await follow(await this.#api.responses.create(body)).catch(() => {})
    const id = this.#ids.at(-1)
    if (id === previous || id === undefined) throw new Error('the response did not say its id')
    await comingBack(
      () => end !== null,
      async () => follow(await this.#api.responses.retrieve(id, { stream: true, starting_after: last }))
    )
    this.#thread = end!.conversation.id
    return threadIn(this.#thread)
  }

  #take({ type, item_id, delta, item }: Event): void {
    const kind = type === 'response.output_text.delta' ? this.#texts : this.#reasonings
    if (type === 'response.output_text.delta' || type === 'response.reasoning_text.delta')
      kind.set(item_id, (kind.get(item_id) ?? '') + delta)
    if (type === 'response.output_item.done' && item.type === 'mcp_call' && item.output != null)
      this.#results.push(item.output)
  }

  shown(): Shown {
    return { texts: [...this.#texts.values()], reasonings: [...this.#reasonings.values()], results: this.#results }
  }

  /** By the library's own helper, which reads the whole stream again. */
  async later(): Promise<Shown> {
    const items: Item[] = []
    for (const id of this.#ids)
      items.push(...(await this.#api.responses.stream({ response_id: id }).finalResponse()).output)
    return shownOfItems(items)
  }
}

/** What responses show by their items. */
export function shownOfItems(items: readonly Item[]): Shown {
  const textsOf = (wanted: string) =>
    items.flatMap(({ type, content }) => (type === wanted ? [(content ?? []).map(({ text }) => text).join('')] : []))
  return {
    texts: textsOf('message'),
    reasonings: textsOf('reasoning'),
    results: items.flatMap(({ type, output }) => (type === 'mcp_call' && output != null ? [output] : []))
  }
}

/** The thread that a conversation is. */
export function threadIn(conversation: string): string {
  return conversation.replace(/^conv_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** By its id, when it is over: what is left to a client that does not come back by itself. */
export async function wholeResponse({ url, token }: Place, id: string): Promise<Response> {
  let whole: Response | null = null
  await comingBack(
    () => whole !== null && !UNDER_WAY.includes(whole.status),
    async () => {
      const answer = await fetch(`${url}/v1/responses/${id}`, { headers: { authorization: `Bearer ${token}` } })
      if (!answer.ok) throw new Error(`${id}: ${answer.status}`)
      whole = (await answer.json()) as Response
    }
  )
  return whole!
}

export const responses: ClientMaker = async (packages, { url, token }) => {
  const { default: OpenAI } = await packages.load<Library>('openai/index.mjs')
  return new Responses(new OpenAI({ baseURL: `${url}/v1`, apiKey: token }))
}
