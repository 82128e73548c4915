// A2A's client over both of its bindings: cut, its caller subscribes to the task again, which comes as it stands.
import { randomUUID } from 'node:crypto'
import type { Packages } from '../../fixtures/npm.ts'
import { type Client, type ClientMaker, comingBack, type Place, type Shown, wordAt } from './client.ts'

interface Part {
  readonly content?: { readonly $case: string; readonly value: unknown }
}
interface Artifact {
  readonly artifactId: string
  readonly name: string
  readonly parts: readonly Part[]
}
interface Task {
  readonly id: string
  readonly contextId: string
  readonly status?: { readonly state: number }
  readonly artifacts: readonly Artifact[]
}
interface Event {
  readonly payload?: { readonly $case: string; readonly value: Record<string, unknown> }
}
/** What is used of the library's client. */
interface Api {
  sendMessageStream(request: object): AsyncIterable<Event>
  resubscribeTask(request: object): AsyncIterable<Event>
  getTask(request: object): Promise<Task>
}
interface Library {
  readonly ClientFactory: new (options: object) => { createFromUrl(url: string): Promise<Api> }
  readonly JsonRpcTransportFactory: new (options: object) => object
  readonly RestTransportFactory: new (options: object) => object
  readonly DefaultAgentCardResolver: new (options: object) => object
}
type Binding = 'JsonRpcTransportFactory' | 'RestTransportFactory'

const COMPLETED = 3
const INPUT_REQUIRED = 6

/** A task as one follows it: put together from its snapshots and what was added. */
class Followed {
  task = ''
  context = ''
  state = 0
  readonly #texts = new Map<string, string>()
  readonly #pieces = new Map<string, { readonly name: string; readonly pieces: unknown[] }>()

  take({ payload }: Event): void {
    const { $case = '', value = {} } = payload ?? {}
    // The library has checked what it decodes.
    if ($case === 'task') this.show(value as unknown as Task)
    if ($case === 'statusUpdate') this.state = Number(wordAt(value, 'status', 'state'))
    if ($case === 'artifactUpdate') this.#add(value.artifact as Artifact, value.append === true)
  }

  show({ id, contextId, status, artifacts }: Task): void {
    this.task = id
    this.context = contextId
    this.state = status?.state ?? 0
    this.#texts.clear()
    this.#pieces.clear()
    for (const one of artifacts) this.#add(one, false)
  }

  #add({ artifactId, name, parts }: Artifact, append: boolean): void {
    const before = this.#pieces.get(artifactId)
    const pieces = append && before ? before.pieces : []
    this.#pieces.set(artifactId, { name, pieces })
    let text = append ? (this.#texts.get(artifactId) ?? '') : ''
    for (const { content } of parts) {
      if (content?.$case === 'text') text += String(content.value)
      else pieces.push(content?.value)
    }
    if (name === 'answer') this.#texts.set(artifactId, text)
  }

  #of(wanted: string): string[] {
    const all = [...this.#pieces.values()].filter(({ name }) => name === wanted)
    return all.map(({ pieces }) => pieces.map((piece) => wordAt(piece, 'text')).join(''))
  }

  get shown(): Shown {
    return { texts: [...this.#texts.values()], reasonings: this.#of('reasoning'), results: this.#of('tool_result') }
  }

  get isOver(): boolean {
    return this.state >= COMPLETED && this.state < INPUT_REQUIRED
  }
}

class A2a implements Client {
  readonly #api: Api
  readonly #tasks: Followed[] = []

  constructor(api: Api) {
    this.#api = api
  }

  async turn(words: string): Promise<string> {
    const task = new Followed()
    const follow = async (events: AsyncIterable<Event>) => {
      for await (const event of events) task.take(event)
    }
    await follow(this.#api.sendMessageStream(asking(words, this.#tasks.at(-1)?.context ?? ''))).catch(() => {})
    if (task.task === '') throw new Error('the task did not say its id')
    this.#tasks.push(task)
    await comingBack(
      () => task.isOver,
      // One that has ended is not to be subscribed to.
      () => follow(this.#api.resubscribeTask({ tenant: '', id: task.task })).catch(() => this.#get(task))
    )
    return task.context
  }

  shown(): Shown {
    return shownOf(this.#tasks)
  }

  async later(): Promise<Shown> {
    const again: Followed[] = []
    for (const { task } of this.#tasks) {
      const one = new Followed()
      one.task = task
      await this.#get(one)
      again.push(one)
    }
    return shownOf(again)
  }

  async #get(task: Followed): Promise<void> {
    task.show(await this.#api.getTask({ tenant: '', id: task.task, historyLength: undefined }))
  }
}

function shownOf(tasks: readonly Followed[]): Shown {
  const all = tasks.map(({ shown }) => shown)
  return {
    texts: all.flatMap(({ texts }) => texts),
    reasonings: all.flatMap(({ reasonings }) => reasonings),
    results: all.flatMap(({ results }) => results)
  }
}

const asking = (words: string, contextId: string) => ({
  tenant: '',
  message: {
    messageId: randomUUID(),
    role: 1,
    parts: [{ content: { $case: 'text', value: words }, filename: '', mediaType: '' }],
    contextId,
    taskId: '',
    extensions: [],
    referenceTaskIds: []
  },
  configuration: undefined,
  metadata: undefined
})

const clientOf =
  (binding: Binding): ClientMaker =>
  async (packages: Packages, { url, token }: Place) => {
    const library = await packages.load<Library>('@a2a-js/sdk/dist/client/index.js')
    const fetchImpl: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${token}`)
      return fetch(input, { ...init, headers })
    }
    const { ClientFactory, DefaultAgentCardResolver } = library
    const transports = [new library[binding]({ fetchImpl })]
    const factory = new ClientFactory({ transports, cardResolver: new DefaultAgentCardResolver({ fetchImpl }) })
    return new A2a(await factory.createFromUrl(url))
  }

export const a2a = clientOf('JsonRpcTransportFactory')
export const a2aHttp = clientOf('RestTransportFactory')
