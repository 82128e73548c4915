// What a model or graph server may send of one answer: endless ones end with a sentence, and what no JSON can hold ends no run.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { AnswerLimits } from '../../lib/agent/http/chat-completion.ts'
import { ChatModel } from '../../lib/agent/http/chat-model.ts'
import { PeerFailures } from '../../lib/agent/http/failures.ts'
import { GraphEventMapper } from '../../lib/langgraph/server-agent/event-mapper.ts'
import { EventStreamParser } from '../../lib/langgraph/server-agent/server-thread.ts'
import { readRef } from '../../lib/langgraph/server-agent/checkpoint-ref.ts'
import { AgentError, type AgentInput, type Sink } from '../../lib/agent/runtime.ts'
import type { Json, JsonObject } from '../../lib/base/types.ts'
import { openSite, signIn } from '../fixtures/gateway.ts'
import { type ScriptedCall, scripted, startModel } from '../fixtures/model.ts'

const LIMITS: AnswerLimits = { eventCharacters: 1_000_000, characters: 1_000_000, calls: 16 }
/** What is on its way when a limit is reached: buffers of sockets. */
const ON_ITS_WAY = 16_000_000

interface Endless {
  readonly url: string
  /** Bytes it has sent. */
  readonly sent: () => number
}

/** A server whose answers never end: it writes `next(k)` for ever, as fast as it is read. */
async function endless(t: Test, next: (k: number) => string): Promise<Endless> {
  let sent = 0
  const write = (res: ServerResponse, k: number): void => {
    if (res.destroyed) return
    const text = next(k)
    sent += text.length
    const go = () => setImmediate(write, res, k + 1)
    if (res.write(text)) go()
    else res.once('drain', go)
  }
  const server = createServer((req, res) => {
    req.resume()
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    write(res, 0)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // It listens on a port: its address is an object.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, sent: () => sent }
}

const event = (delta: object): string => `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta }] })}\n\n`
const long = 'x'.repeat(10_000)
const call = (index: number, args: string) => ({
  tool_calls: [{ index, id: `c${index}`, function: { name: 'f', arguments: args } }]
})

const ANSWERS: readonly [what: string, next: (k: number) => string, kind: string, sentence: RegExp][] = [
  ['content', () => event({ content: long }), 'ModelTooLarge', /more than 1000000 characters in one message/],
  ['reasoning', () => event({ reasoning_content: long }), 'ModelTooLarge', /more than 1000000 characters/],
  ['arguments of one call', () => event(call(0, long)), 'ModelTooLarge', /more than 1000000 characters/],
  ['tool calls', (k) => event(call(k, '{}')), 'ModelTooLarge', /more than 16 tool calls in one message/],
  ['a line', (k) => (k === 0 ? `data: ${long}` : long), 'ModelProtocolError', /an event without an end/],
  ['lines of one event', () => 'data:x\n'.repeat(1000), 'ModelProtocolError', /an event without an end/],
  ['empty lines of one event', () => 'data:\r\n'.repeat(1000), 'ModelProtocolError', /an event without an end/]
]

for (const [what, next, kind, sentence] of ANSWERS)
  t.test(`a model that sends ${what} without an end is given up with a sentence`, async (t) => {
    const server = await endless(t, next)
    const config = { name: 'main', model: 'm', base_url: server.url, api_key: '', max_retries: 0 }
    const model = new ChatModel(config, { limits: LIMITS })
    const request = { messages: [], messageId: 'm', signal: new AbortController().signal }
    const error: unknown = await model.complete(request, () => true).catch((failure: unknown) => failure)
    t.ok(error instanceof AgentError)
    t.match(error, { kind, message: sentence })
    t.ok(server.sent() < LIMITS.characters + ON_ITS_WAY, `${server.sent()} bytes`)
  })

t.test('comments and events that say nothing have no limit: they take no memory', async (t) => {
  const failures = new PeerFailures({ kind: 'Agent', name: 'It', work: 'work', protocol: 'none', secrets: [] })
  let parts = 0
  const parser = new EventStreamParser(() => ++parts > 0, failures, 1000)
  for (let k = 0; k < 1000; k++) parser.feed(Buffer.from(': still here\n\n'))
  for (let k = 0; k < 1000; k++) parser.feed(Buffer.from('event: updates\ndata: {}\n\n'))
  t.equal(parts, 1000)
})

t.test('a run whose model says nothing without an end is over when its time is', async (t) => {
  const server = await endless(t, () => ': still here\n\n'.repeat(100))
  const models = [{ name: 'main', base_url: server.url, api_key: 'k', model: 'm' }]
  const site = await openSite(t, { config: { models, title: { enabled: false }, runs: { timeout_s: 1 } } })
  const person = await signIn(site)
  const input = { messages: [{ role: 'user', content: 'Go' }] }
  const answer = await person.post(`/api/threads/${await person.thread()}/runs/wait`, { input })
  t.match(answer.text, /RunTimeout|took longer/)
})

// ------------------------------------------------------------------------------------------------------- graphs

/** A graph whose messages go to a run that takes everything. */
function mapped(limits = { characters: 1_000_000, calls: 16 }): {
  readonly hear: (message: Json) => void
  readonly see: (values: JsonObject) => void
  readonly records: () => number
} {
  let records = 0
  // Only these are asked of it.
  const sink = { emit: () => true, record: () => ++records > 0, space: async () => {} } as unknown as Sink
  const input = { messages: [], channels: {}, threadId: 't', runId: 'r', request: {} } as unknown as AgentInput
  const mapper = new GraphEventMapper(input, readRef(undefined), 't', sink, limits)
  return {
    hear: (message) =>
      void mapper.part({ mode: 'messages', namespace: [], data: [message, { langgraph_node: 'n' }], id: null }),
    see: (values) => void mapper.part({ mode: 'values', namespace: [], data: values, id: null }),
    records: () => records
  }
}
const piece = (id: string, content: string, more: object = {}) => ({ type: 'AIMessageChunk', id, content, ...more })

t.test('a graph that grows one message without an end fails its run', async (t) => {
  const { hear } = mapped()
  t.throws(() => {
    for (;;) hear(piece('m', long))
  }, /more than 1000000 characters in one message/)
})

t.test('so does one whose message has tool calls without an end', async (t) => {
  const { hear } = mapped()
  t.throws(() => {
    for (let index = 0; ; index++)
      hear(piece('m', '', { tool_call_chunks: [{ index, id: `c${index}`, name: 'f', args: '' }] }))
  }, /more than 16 tool calls/)
})

t.test('and one that begins messages without an end in one step', async (t) => {
  const { hear, records } = mapped()
  t.throws(() => {
    for (let k = 0; ; k++) hear(piece(`m${k}`, 'x'))
  }, /more than 4096 messages in one step/)
  t.equal(records(), 4096)
})

t.test('and one whose states have ever more channels', async (t) => {
  const { see } = mapped()
  t.throws(() => {
    for (let k = 0; k < 10_000; k += 100)
      see(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`channel${k + n}`, 'x'])))
  }, /more than 4096 channels/)
})

// ------------------------------------------------------------------------------------------------ beyond JSON

t.test('arguments that no JSON can hold are kept as the model wrote them, and end no run by themselves', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'm' }]
  const site = await openSite(t, { config: { models, title: { enabled: false } } })
  const person = await signIn(site)
  const ask = async (calls: readonly ScriptedCall[]) => {
    const path = `/api/threads/${await person.thread()}`
    const content = scripted({ calls: [calls], text: 'done' })
    await person.post(`${path}/runs/wait`, { input: { messages: [{ role: 'user', content }] } })
    return { runs: (await person.get(`${path}/runs`)).body, state: (await person.get(`${path}/state`)).body }
  }
  for (const args of ['{"n":1e400}', '{"half":"\\ud83d"}', `{"deep":${'['.repeat(600)}${']'.repeat(600)}}`]) {
    const call = { name: 'clock', args }
    const both = await ask([{ name: 'clock', args: '{}' }, call])
    t.match(both.runs, [{ status: 'success' }], args.slice(0, 20))
    const answer = { type: 'ai', tool_calls: [{ name: 'clock' }], invalid_tool_calls: [{ ...call, error: String }] }
    t.match(both.state, { values: { messages: [{ type: 'human' }, answer, { type: 'tool' }, { content: 'done' }] } })
    // An answer with nothing else is a failure that names the call.
    const alone = await ask([call])
    t.match(alone.runs, [{ status: 'error', error: /invalid call of "clock"/ }])
    t.match(alone.state, { values: { messages: [{ type: 'human' }, { tool_calls: [], invalid_tool_calls: [call] }] } })
  }
})
