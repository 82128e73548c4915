// The client libraries of MCP and A2A, unmodified, on bad lines: cut at random bytes, over a kill, on another process, a day later. What
// they have shown is the state, each part once. `npm run test:long`.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import { startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { packagesOf } from '../fixtures/npm.ts'
import { startPair } from '../fixtures/pair.ts'
import { type CuttingProxy, openProxy } from '../fixtures/proxy.ts'
import { Random } from '../fixtures/random.ts'
import { IS_LONG, SEED } from '../fixtures/size.ts'

const SCOPES = ['threads:read', 'threads:write', 'runs:create', 'runs:read', 'runs:cancel']
const DAY_MS = 86_400_000
const TALK = '/demo rate=120 deltas=360 reasoning tool=current_time'
const OFF = { title: { enabled: false }, memory: { enabled: false }, streams: { heartbeat_ms: 200 } }
const TURNS = 5
const CUTS = 20
/** A client that is cut before the first event of a stream does not know where to come back. */
const HEAD_BYTES = 900
const random = new Random(SEED)
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'
const MODES = ['legacy', { pin: '2026-07-28' }] as const

const tokenOf = async (person: Person): Promise<string> =>
  textIn((await person.post('/api/v1/auth/tokens', { scopes: SCOPES })).body, 'token')

/** The answers of a thread, by id. */
async function answersOf(person: Person, thread: string): Promise<Map<string, string>> {
  const { body } = await person.get(`/api/threads/${thread}/state`)
  const all = listIn(body, 'values', 'messages').filter((one) => at(one, 'type') === 'ai' && at(one, 'content') !== '')
  return new Map(all.map((one) => [textIn(one, 'id'), textIn(one, 'content')]))
}

/** Cuts a stream that goes through the proxy again and again, each connection after another number of bytes. */
async function cutting(proxy: CuttingProxy, cuts: number): Promise<void> {
  // A connection that is used again has sent its first bytes already.
  proxy.reset()
  await new Promise((resolve) => setTimeout(resolve, 100))
  proxy.cutAfter(...Array.from({ length: cuts }, () => random.between(HEAD_BYTES, 5000)))
}

async function mcpClient(t: Test, url: string, token: string, mode: (typeof MODES)[number]) {
  const client = new Client({ name: 'long', version: '1' }, { versionNegotiation: { mode } })
  const reconnectionOptions = {
    initialReconnectionDelay: 5,
    maxReconnectionDelay: 200,
    reconnectionDelayGrowFactor: 1.5,
    maxRetries: 60
  }
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit, reconnectionOptions }))
  t.teardown(() => client.close())
  return client
}

for (const mode of MODES)
  t.test(`MCP's client: five turns, a hundred cuts (${JSON.stringify(mode)})`, { skip }, async (t) => {
    const child = await startChild(t, { config: OFF })
    const person = await signIn(child)
    const proxy = await openProxy(t, child.url)
    const client = await mcpClient(t, proxy.url, await tokenOf(person), mode)
    let thread: string | undefined
    for (let turn = 0; turn < TURNS; turn++) {
      const before = thread === undefined ? new Map<string, string>() : await answersOf(person, thread)
      let told = ''
      let calls = 0
      const onprogress = (one: { message?: string; _meta?: unknown }) => {
        told += one.message ?? ''
        if (at(one._meta, 'colloquy/piece', 'type') === 'tool_result') calls++
      }
      await cutting(proxy, CUTS)
      const arguments_ = { message: TALK, ...(thread !== undefined && { thread_id: thread }) }
      const result = await client.callTool(
        { name: 'lead_agent', arguments: arguments_ },
        { onprogress, timeout: 120_000 }
      )
      thread = textIn(result, 'structuredContent', 'thread_id')
      const after = await answersOf(person, thread)
      const own = [...after].filter(([id]) => !before.has(id)).map(([, text]) => text)
      t.equal(told, own.join(''), `turn ${turn}: each piece once`)
      t.equal(at(result, 'structuredContent', 'message'), own.at(-1))
      t.equal(calls, 1, 'the tool was called once')
    }
    t.ok(proxy.connections > (TURNS * CUTS) / 2, `${proxy.connections} connections`)
  })

// ------------------------------------------------------------------------------------------------------- A2A

interface A2aPart {
  readonly content?: { readonly $case: string; readonly value: unknown }
}
interface A2aArtifact {
  readonly artifactId: string
  readonly name: string
  readonly parts: readonly A2aPart[]
}
interface A2aTask {
  readonly id: string
  readonly contextId: string
  readonly status?: { readonly state: number }
  readonly artifacts: readonly A2aArtifact[]
}
type A2aEvent = { readonly payload?: { readonly $case: string; readonly value: Record<string, unknown> } }
/** What this test uses of the library's client. */
interface A2aClient {
  sendMessageStream(request: object): AsyncIterable<A2aEvent>
  resubscribeTask(request: object): AsyncIterable<A2aEvent>
  getTask(request: object): Promise<A2aTask>
}
interface A2aLibrary {
  readonly ClientFactory: new (options: object) => { createFromUrl(url: string): Promise<A2aClient> }
  readonly JsonRpcTransportFactory: new (options: object) => object
  readonly RestTransportFactory: new (options: object) => object
  readonly DefaultAgentCardResolver: new (options: object) => object
}

const COMPLETED = 3
const INPUT_REQUIRED = 6
let said = 0
const request = (text: string, more: object = {}) => ({
  tenant: '',
  message: {
    messageId: `m${said++}`,
    role: 1,
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: '' }],
    contextId: '',
    taskId: '',
    extensions: [],
    referenceTaskIds: [],
    ...more
  },
  configuration: undefined,
  metadata: undefined
})

/** A task as one follows it: put together from its snapshots and what was added. */
class Followed {
  task = ''
  context = ''
  state = 0
  readonly texts = new Map<string, string>()

  take({ payload }: A2aEvent): void {
    const { $case = '', value = {} } = payload ?? {}
    if ($case === 'task') this.show(value as unknown as A2aTask)
    if ($case === 'statusUpdate') this.state = Number(at(value, 'status', 'state'))
    if ($case === 'artifactUpdate') this.#add(value.artifact as A2aArtifact, value.append === true)
  }

  show({ id, contextId, status, artifacts }: A2aTask): void {
    this.task = id
    this.context = contextId
    this.state = status?.state ?? 0
    this.texts.clear()
    for (const one of artifacts) this.#add(one, false)
  }

  #add({ artifactId, name, parts }: A2aArtifact, append: boolean): void {
    if (name !== 'answer') return
    const text = parts.map(({ content }) => (content?.$case === 'text' ? String(content.value) : '')).join('')
    this.texts.set(artifactId, (append ? (this.texts.get(artifactId) ?? '') : '') + text)
  }

  get isOver(): boolean {
    return this.state >= COMPLETED && this.state < INPUT_REQUIRED
  }
}

/** Follows a task to its end, whatever breaks. */
async function follow(
  client: A2aClient,
  first: AsyncIterable<A2aEvent> | null,
  shown = new Followed()
): Promise<Followed> {
  let events = first
  while (!shown.isOver) {
    try {
      for await (const event of events ?? client.resubscribeTask({ tenant: '', id: shown.task })) shown.take(event)
    } catch (error) {
      if (shown.task === '') throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
      // One that has ended is not to be subscribed to.
      if (/nothing to subscribe/.test(String(error)))
        await client.getTask({ tenant: '', id: shown.task, historyLength: undefined }).then(
          (task) => shown.show(task),
          () => {}
        )
    }
    events = null
  }
  return shown
}

async function a2aLibrary(t: Test): Promise<A2aLibrary | null> {
  const packages = await packagesOf('protocols/clients')
  if ('reason' in packages) {
    t.comment(packages.reason)
    return null
  }
  return packages.load<A2aLibrary>('@a2a-js/sdk/dist/client/index.js')
}

/** A client of the library at this address, whatever address the card says. */
async function a2aClient(library: A2aLibrary, url: string, token: string, binding: 'rpc' | 'rest'): Promise<A2aClient> {
  const fetchImpl: typeof fetch = (input, init) =>
    fetch(input, {
      ...init,
      headers: { ...(init?.headers as Record<string, string>), authorization: `Bearer ${token}` }
    })
  const { JsonRpcTransportFactory, RestTransportFactory, DefaultAgentCardResolver, ClientFactory } = library
  const transports = [
    binding === 'rpc' ? new JsonRpcTransportFactory({ fetchImpl }) : new RestTransportFactory({ fetchImpl })
  ]
  const cardResolver = new DefaultAgentCardResolver({ fetchImpl })
  return new ClientFactory({ transports, cardResolver }).createFromUrl(url)
}

for (const binding of ['rpc', 'rest'] as const)
  t.test(`A2A's client: five turns, a hundred cuts (${binding})`, { skip }, async (t) => {
    const library = await a2aLibrary(t)
    if (!library) return
    const child = await startChild(t, { config: OFF })
    const person = await signIn(child)
    const proxy = await openProxy(t, child.url)
    const client = await a2aClient(library, proxy.url, await tokenOf(person), binding)
    let context = ''
    for (let turn = 0; turn < TURNS; turn++) {
      const before = context === '' ? new Map<string, string>() : await answersOf(person, context)
      await cutting(proxy, CUTS)
      const shown = await follow(client, client.sendMessageStream(request(TALK, { contextId: context })))
      context = shown.context
      const own = [...(await answersOf(person, context))].filter(([id]) => !before.has(id))
      t.strictSame([...shown.texts], own, `turn ${turn}`)
      t.equal(shown.state, COMPLETED)
    }
  })

const mcpCall = (message: string): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'lead_agent', arguments: { message }, _meta: { progressToken: 1 } }
})

t.test('over a kill, and a day later by the clock: what clients show is the state', { skip }, async (t) => {
  const library = await a2aLibrary(t)
  if (!library) return
  const home = homeOf(t)
  const first = await startChild(t, { home, config: OFF })
  const person = await signIn(first)
  const token = await tokenOf(person)
  const client = await a2aClient(library, first.url, token, 'rpc')
  const shown = new Followed()
  const events = client.sendMessageStream(request('/demo rate=50 deltas=5000'))[Symbol.asyncIterator]()
  while (shown.texts.size === 0) shown.take((await events.next()).value as A2aEvent)
  const rest = (async () => {
    for (;;) {
      const { value, done } = await events.next()
      if (done) return
      shown.take(value)
    }
  })().catch(() => {})
  const mcp = await person.open('POST', '/mcp', { body: mcpCall('/demo rate=0 deltas=300') })
  await mcp.whole()
  const long = await person.open('POST', '/mcp', { body: mcpCall('/demo rate=80 deltas=5000') })
  await long.untilFrames(20)
  await first.kill()
  await long.ended
  await rest
  const later = await startChild(t, { home, config: OFF, port: first.port, aheadMs: DAY_MS })
  const again = new Person(later.url, person.cookies)
  const task = await (await a2aClient(library, later.url, token, 'rpc')).getTask({
    tenant: '',
    id: shown.task,
    historyLength: undefined
  })
  shown.show(task)
  t.strictSame([...shown.texts], [...(await answersOf(again, shown.context))], 'what the kill has left')
  t.ok(shown.isOver)
  const resumed = await again.open('GET', '/mcp', {
    headers: { 'last-event-id': mcp.frames[0]!.id!, authorization: `Bearer ${token}` }
  })
  await resumed.whole()
  const texts = (frames: typeof mcp.frames) =>
    frames.map(({ data }) => (data === '' ? '' : (at(JSON.parse(data), 'params', 'message') ?? ''))).join('')
  t.equal(texts(resumed.frames), texts(mcp.frames))
  t.strictSame(resumed.frames.at(-1), mcp.frames.at(-1))
  const cut = await again.open('GET', '/mcp', { headers: { 'last-event-id': long.lastId! } })
  await cut.whole()
  const result: unknown = at(JSON.parse(cut.frames.at(-1)!.data), 'result')
  t.match(result, { isError: true, structuredContent: { status: 'failed' } })
  const left = await answersOf(again, textIn(result, 'structuredContent', 'thread_id'))
  t.equal(texts(long.frames) + texts(cut.frames), [...left.values()].join(''), 'told is what is stored')
})

t.test('on the other process: a stream goes on there behind any event, and a task is followed', { skip }, async (t) => {
  const { a, b, onA, onB } = await startPair(t, { config: { models: [] } })
  t.ok(a && b)
  const whole = await onA.open('POST', '/mcp', { body: mcpCall(TALK) })
  await whole.untilFrames(10)
  const other = await onB.open('GET', '/mcp', { headers: { 'last-event-id': whole.frames[7]!.id! } })
  await Promise.all([whole.whole(), other.whole()])
  t.strictSame(other.frames.slice(1), whole.frames.slice(8))
  await until(() => whole.isOver, 'it ends')
})
