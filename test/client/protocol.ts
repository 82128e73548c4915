// LangGraph's newest clients speak protocol v2: they are given nothing but a URL, and for WebSockets a way to send a cookie.
import { Client as Client112 } from '@langchain/langgraph-sdk'
import { Client as Client115 } from 'sdk-1.15'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { openSite, type Person, signIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { openProxy } from '../fixtures/proxy.ts'

const said = (content: string) => ({ messages: [{ type: 'human', content }] })
const words = (deltas: number) => Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')} `).join('')

const CLIENTS = { '1.12.4': Client112, '1.15.0': Client115 as unknown as typeof Client112 }
const TRANSPORTS = ['sse', 'websocket'] as const

function open(person: Person, Client: typeof Client112, transport: (typeof TRANSPORTS)[number], url = person.url) {
  const { cookie = '' } = person.headers()
  const isSocket = transport === 'websocket'
  const client = new Client({
    apiUrl: `${url}/api`,
    apiKey: null,
    ...(!isSocket && { defaultHeaders: person.headers() })
  })
  // As browsers send a cookie by themselves.
  const webSocketFactory = (address: string) =>
    new WebSocket(address, { headers: { cookie } }) as unknown as globalThis.WebSocket
  const stream = (threadId?: string, assistantId = 'lead_agent') =>
    client.threads.stream(threadId as string, {
      assistantId,
      transport,
      ...(isSocket && { webSocketFactory })
    })
  return { client, stream }
}

function inEach(name: string, test: (t: Test, how: ReturnType<typeof open>, person: Person) => Promise<void>): void {
  t.test(name, async (t) => {
    const person = await signIn(await openSite(t))
    for (const [version, Client] of Object.entries(CLIENTS))
      for (const transport of TRANSPORTS)
        await t.test(`${version} over ${transport}`, (t) => test(t, open(person, Client, transport), person))
  })
}

inEach('run.start: values to the end, messages as they come', async (t, { stream }) => {
  const thread = stream()
  const texts: string[] = []
  const reading = (async () => {
    for await (const message of thread.messages) texts.push(await message.text)
  })()
  await thread.run.start({ input: said('/demo deltas=50 rate=0') })
  const output = (await thread.output) as { messages: { content: unknown; id: string }[] }
  t.match(output.messages.at(-1)?.content, words(50))
  await until(() => texts.length === 1, 'the message')
  t.strictSame(texts, [words(50)])
  t.equal(thread.interrupted, false)
  await thread.close()
  await reading
})

inEach('a second reader of the thread gets all of it from the start', async (t, { stream }) => {
  const first = stream()
  await first.run.start({ input: said('/demo deltas=30 rate=0') })
  await first.output
  const second = stream(first.threadId)
  const seen: string[] = []
  const subscription = await second.subscribe({ channels: ['messages', 'lifecycle'] })
  for await (const event of subscription as AsyncIterable<{ method: string; params: { data: unknown } }>) {
    const { method, params } = event
    const { event: kind, delta } = params.data as { event: string; delta?: { text?: string } }
    seen.push(method === 'messages' ? (delta?.text ?? '') : kind)
    if (kind === 'completed') break
  }
  t.equal(seen.join(''), `running${words(30)}completed`)
  await Promise.all([first.close(), second.close()])
})

inEach('an interrupt is told, and answered by its id', async (t, { stream }) => {
  const thread = stream()
  await thread.run.start({ input: said('please ask me') })
  await until(() => thread.interrupted && thread.interrupts.length > 0, 'the interrupt')
  const { interruptId, namespace } = thread.interrupts[0]!
  await thread.input.respond({ namespace, interrupt_id: interruptId, response: 'Tea' } as never)
  await until(() => !thread.interrupted, 'it goes on')
  const state = (await thread.state.get({ namespace: [] } as never)) as { values: { messages: unknown[] } }
  t.ok(state.values.messages.length >= 2)
  await thread.close()
})

t.test('a WebSocket that is cut goes on by itself: nothing is missing, nothing twice', async (t) => {
  const person = await signIn(await openSite(t))
  for (const [version, Client] of Object.entries(CLIENTS)) {
    const proxy = await openProxy(t, person.url)
    const { stream } = open(person, Client, 'websocket', proxy.url)
    const thread = stream()
    const deltas: string[] = []
    await thread.run.start({ input: said('/demo deltas=120 rate=60') })
    const subscription = await thread.subscribe({ channels: ['messages'] })
    const reading = (async () => {
      for await (const { params } of subscription as AsyncIterable<{ params: { data: unknown } }>) {
        const { delta } = params.data as { delta?: { text?: string } }
        if (delta?.text) deltas.push(delta.text)
      }
    })()
    await until(() => deltas.length > 20, 'some of it')
    proxy.reset()
    await until(() => deltas.length >= 120, 'all of it')
    t.equal(deltas.join(''), words(120), version)
    await thread.close()
    await reading
  }
})

t.test(
  "what a graph's own stream transformers make is there as thread.extensions, live and for who comes later",
  async (t) => {
    for (const version of ['newest', '1.4'] as const) {
      const config = graphsFolder(t, version, { counted: 'hooks.mjs:counted' })
      const person = await signIn(await openSite(t, { config: { agent: { runtime: 'graphs', config } } }))
      for (const [name, Client] of Object.entries(CLIENTS)) {
        const { client, stream } = open(person, Client, 'sse')
        const thread = stream(undefined, 'counted')
        const { updates, total } = thread.extensions as Record<string, AsyncIterable<object> & PromiseLike<object>>
        const counts: object[] = []
        const reading = (async () => {
          for await (const update of updates!) counts.push(update)
        })()
        await thread.run.start({ input: said('go') })
        t.same(await total, { total: 2 }, `${version}, ${name}: the final value`)
        await reading
        t.same(counts, [{ count: 1 }, { count: 2 }])
        const later = stream(thread.threadId, 'counted')
        t.same(await later.extensions.total, { total: 2 }, 'it is part of the log')
        await Promise.all([thread.close(), later.close()])
        const classic: string[] = []
        for await (const { event } of client.runs.stream(thread.threadId, 'counted', {
          input: said('go'),
          streamMode: ['custom', 'values']
        }))
          classic.push(event)
        t.notOk(classic.includes('custom'), 'readers by mode get what the graph itself has sent')
      }
    }
  }
)
