// A model behind a chat-completions server, and everything that may be wrong with that server.
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import { ChatCompletion } from '../../lib/agent/http/chat-completion.ts'
import { ChatModel, type ModelConfig } from '../../lib/agent/http/chat-model.ts'
import { PeerFailures, type RetryPolicy } from '../../lib/agent/http/failures.ts'
import { addressBelow, IdleTimeout } from '../../lib/agent/http/post.ts'
import type { Completion, ModelRequest } from '../../lib/agent/model.ts'
import { AgentError, type Delta } from '../../lib/agent/runtime.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import { loopTurns, until } from '../fixtures/until.ts'

const KEY = 'sk-very-secret'
const QUICK: Partial<RetryPolicy> = { backoffMs: 1, backoffMaxMs: 4 }

interface Asked {
  readonly deltas: Delta[]
  readonly result: Promise<Completion>
  readonly abort: AbortController
}

let server: FakeModel
t.beforeEach(async () => {
  server = await startModel()
})
t.afterEach(() => server.stop())

const modelOf = (config: Partial<ModelConfig> = {}, retry: Partial<RetryPolicy> = QUICK) =>
  new ChatModel({ name: 'main', model: 'their-model', base_url: server.baseUrl, api_key: KEY, ...config }, { retry })

/** Asks for the script; the deltas come to be read while the answer is under way. */
function ask(script: Script, config: Partial<ModelConfig> = {}, more: Partial<ModelRequest> = {}): Asked {
  const deltas: Delta[] = []
  const abort = new AbortController()
  const request = {
    messages: [{ role: 'user', content: scripted(script) }],
    messageId: 'm1',
    signal: abort.signal,
    ...more
  }
  const result = modelOf(config).complete(request, (delta) => {
    deltas.push(delta)
    return true
  })
  // Tests await it when they please; until then a rejection is no accident.
  result.catch(() => {})
  return { deltas, result, abort }
}

/** The AgentError that `work` ends with. */
async function failureOf(work: Promise<unknown>): Promise<AgentError> {
  const error = await work.then(
    () => null,
    (failure: unknown) => failure
  )
  if (error instanceof AgentError) return error
  throw error ?? new Error('it did not fail')
}

t.test('an answer is told delta by delta and is whole at the end', async (t) => {
  const { deltas, result } = ask({
    text: 'hello world',
    size: 4,
    usage: [{ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }]
  })
  t.same(await result, {
    responseId: 'cmpl-0',
    text: 'hello world',
    reasoning: '',
    calls: [],
    finishReason: 'stop',
    usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
  })
  t.same(
    deltas.map(({ text, usage }) => text ?? usage),
    ['hell', 'o wo', 'rld', { input_tokens: 3, output_tokens: 4, total_tokens: 7 }]
  )
  for (const delta of deltas) t.match(delta, { type: 'delta', messageId: 'm1', model: 'main' })
})

t.test(
  'the request carries model, key, tools and what the configuration adds, and asks for a stream with usage',
  async (t) => {
    const tools = [{ name: 'look', description: 'Looks', parameters: { type: 'object' } }]
    await ask({}, { request: { temperature: 0.2, model: 'not this one' }, base_url: `${server.baseUrl}//` }, { tools })
      .result
    const { headers, body } = await server.request()
    t.equal(headers.authorization, `Bearer ${KEY}`)
    t.match(body, { model: 'their-model', stream: true, stream_options: { include_usage: true }, temperature: 0.2 })
    t.same(body.tools, [
      { type: 'function', function: { name: 'look', description: 'Looks', parameters: { type: 'object' } } }
    ])
    await ask({}, { api_key: '' }).result
    const bare = await server.request(1)
    t.equal(bare.headers.authorization, undefined)
    t.notOk('tools' in bare.body)
  }
)

t.test('the query of an address stays behind the path that is put to it', async (t) => {
  const paths: string[] = []
  const gateway = createServer((req, res) => {
    paths.push(req.url ?? '')
    res.end('data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n')
  })
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve))
  t.teardown(() => gateway.close())
  const base = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/deployments/d`
  for (const base_url of [`${base}?api-version=2026-01`, `${base}/?key=a%2Fb`, base])
    t.equal((await ask({}, { base_url }).result).text, 'hi')
  t.same(paths, [
    '/deployments/d/chat/completions?api-version=2026-01',
    '/deployments/d/chat/completions?key=a%2Fb',
    '/deployments/d/chat/completions'
  ])
  t.equal(addressBelow('http://h/g?v=1', '/runs?limit=2'), 'http://h/g/runs?limit=2&v=1')
})

t.test('any text comes through as it is, also when the network cuts its characters in two', async (t) => {
  const pieces = ['a\0b', '\u2028\u2029', '\r\n\n\r', '😀 ä 漢字', '\ufeff', 'data: x\n\n', '\\u0000']
  const raw = [...pieces.map((piece) => JSON.stringify(piece)), '"x\\ud800y"']
  const { deltas, result } = ask({ raw, writeBytes: 3 })
  t.equal((await result).text, `${pieces.join('')}x\ufffdy`)
  t.same(
    deltas.map(({ text }) => text),
    [...pieces, 'x\ud800y']
  )
})

t.test('a byte order mark before the first event is none of it', async (t) => {
  const events = [
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'so' }, finish_reason: 'stop' }] })}`,
    'data: [DONE]'
  ]
  const answer = Buffer.from(`\ufeff${events.map((event) => `${event}\n\n`).join('')}`)
  for (const size of [1, 2, 1000]) {
    const pieces: unknown[] = []
    const failures = new PeerFailures({ kind: 'Model', name: 'any', work: '', protocol: '', secrets: [] })
    const onDelta = ({ text }: Delta) => pieces.push(text) > 0
    const told = new ChatCompletion({ messageId: 'm', model: 'any', onDelta }, failures)
    for (let at = 0; at < answer.length; at += size) told.feed(answer.subarray(at, at + size))
    t.match(told.completion(), { text: 'so', finishReason: 'stop' }, `in pieces of ${size}`)
    t.same(pieces, ['so'])
  }
})

t.test('a content of blocks is read as texts and thoughts, and what else is in it is left out', async (t) => {
  const said: string[] = []
  const failures = new PeerFailures({ kind: 'Model', name: 'any', work: '', protocol: '', secrets: [] })
  const onDelta = ({ text, reasoning }: Delta) => said.push(text ?? `(${reasoning})`) > 0
  const told = new ChatCompletion({ messageId: 'm', model: 'any', onDelta }, failures)
  const thinking = (texts: string[]) => ({ type: 'thinking', thinking: texts.map((text) => ({ type: 'text', text })) })
  const text = (of: string) => ({ type: 'text', text: of })
  const contents = [
    [thinking(['Hm', '.'])],
    [text('It '), text('is')],
    [{ type: 'reference', reference_ids: [1] }],
    ' so.'
  ]
  for (const content of contents)
    told.feed(Buffer.from(`data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`))
  t.match(told.completion(), { text: 'It is so.', reasoning: 'Hm.' })
  t.same(said, ['(Hm.)', 'It is', ' so.'])
})

t.test('half a surrogate pair is not put to the model, which would refuse the whole conversation', async (t) => {
  await modelOf().complete(
    { messages: [{ role: 'user', content: 'a\ud800b 😀' }], messageId: 'm', signal: new AbortController().signal },
    () => true
  )
  t.equal((await server.request()).messages[0]?.content, 'a\ufffdb 😀')
})

t.test('reasoning is told as reasoning, whichever name the provider has for it', async (t) => {
  for (const reasoningField of ['reasoning_content', 'reasoning'] as const) {
    const { deltas, result } = ask({ reasoning: 'hm', text: 'so', reasoningField })
    t.match(await result, { reasoning: 'hm', text: 'so' })
    t.same(
      deltas.map(({ reasoning, text }) => reasoning ?? text),
      ['hm', 'so']
    )
  }
})

t.test('tool calls grow from fragments, several at once', async (t) => {
  const calls = [
    [
      { name: 'one', args: '{"a":"long enough"}' },
      { name: 'two', args: '{}' }
    ]
  ]
  const { deltas, result } = ask({ calls })
  const { calls: got, finishReason } = await result
  t.same(got, [
    { id: 'call_0_0', name: 'one', args: '{"a":"long enough"}' },
    { id: 'call_0_1', name: 'two', args: '{}' }
  ])
  t.equal(finishReason, 'tool_calls')
  const first = deltas.filter(({ toolCall }) => toolCall?.index === 0).map(({ toolCall }) => toolCall)
  t.match(first[0], { index: 0, id: 'call_0_0', name: 'one', args: '' })
  t.equal(first.map((piece) => piece?.args).join(''), '{"a":"long enough"}')
  t.ok(first.slice(1).every((piece) => piece?.id === undefined && piece?.name === undefined))
})

t.test('calls that a provider numbers all alike, or not at all, are told apart by id', async (t) => {
  for (const index of [0, null]) {
    const calls = [
      [
        { name: 'one', args: '{"a":1}', id: 'x', index },
        { name: 'two', args: '{"b":2}', id: 'y', index }
      ]
    ]
    const { calls: got } = await ask({ calls, size: 100 }).result
    // Numbered alike, a fragment without an id continues the newest call.
    t.same(got, [
      { id: 'x', name: 'one', args: '{"a":1}' },
      { id: 'y', name: 'two', args: '{"b":2}' }
    ])
  }
})

t.test('a call without an id gets one, the same in its delta and in the end', async (t) => {
  const { deltas, result } = ask({ calls: [[{ name: 'one', args: '{}', id: null }]] })
  const { calls } = await result
  t.match(calls[0]?.id, /^call_/)
  t.equal(deltas[0]?.toolCall?.id, calls[0]?.id)
})

t.test('cached and hidden tokens are told apart, as part of the counts they belong to', async (t) => {
  const usage: JsonObject[] = [
    { prompt_tokens: 100, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 60 } },
    { prompt_tokens: 100, completion_tokens: 30, completion_tokens_details: { reasoning_tokens: 12 } }
  ]
  t.same((await ask({ usage }).result).usage, {
    input_tokens: 100,
    output_tokens: 30,
    total_tokens: 130,
    input_token_details: { cache_read: 60 },
    output_token_details: { reasoning: 12 }
  })
})

t.test('usage that is repeated counts once, by its largest values', async (t) => {
  const usage: JsonObject[] = [
    { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
    { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    { prompt_tokens: 0, completion_tokens: 5 }
  ]
  t.same((await ask({ usage }).result).usage, { input_tokens: 10, output_tokens: 5, total_tokens: 15 })
  t.same((await ask({ usage: [{ prompt_tokens: 2, completion_tokens: 3 }] }).result).usage, {
    input_tokens: 2,
    output_tokens: 3,
    total_tokens: 5
  })
  t.equal((await ask({}).result).usage, null)
})

t.test('a chunk of bytes is told whole, in the turn it came', async (t) => {
  const event = (text: string) => `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`
  const bytes = `${['a', 'b', 'c'].map(event).join('')}data: [DONE]\n\n`
  let told = 0
  let toldInTurn = 0
  const request = {
    messages: [{ role: 'user', content: scripted({ garbage: bytes }) }],
    messageId: 'm',
    signal: new AbortController().signal
  }
  await modelOf().complete(request, () => {
    if (++told === 1) queueMicrotask(() => (toldInTurn = told))
    return true
  })
  t.equal(toldInTurn, 3)
})

t.test(
  'a listener without space is waited for: nothing is read until there is some, and nothing is lost',
  async (t) => {
    let told = ''
    let hasSpace = false
    let open = () => {}
    const waiting = new Promise<void>((begun) => {
      open = begun
    })
    let makeSpace = () => {}
    const space = () =>
      new Promise<void>((resolve) => {
        makeSpace = resolve
        open()
      })
    const script = { deltas: 200, pad: 65_536 }
    const messages = [{ role: 'user', content: scripted(script) }]
    const idle_timeout_ms = 2000
    const result = modelOf({ idle_timeout_ms }).complete(
      { messages, messageId: 'm', signal: new AbortController().signal, space },
      ({ text }) => {
        told += text ?? ''
        return hasSpace
      }
    )
    await waiting
    const before = told.length
    // Longer than the model may be silent: it is us who are silent.
    await new Promise((resolve) => setTimeout(resolve, 1.5 * idle_timeout_ms))
    t.equal(told.length, before)
    hasSpace = true
    makeSpace()
    t.equal((await result).text.length, 200 * 65_536)
    t.equal(told.length, 200 * 65_536)
  }
)

t.test('what fails before its first byte is tried again', async (t) => {
  const failing: Script[] = [
    { status: 429, retryAfter: '0' },
    { status: 503 },
    { status: 500 },
    { reset: 'before' },
    { reset: 'head' }
  ]
  for (const script of failing) {
    const { deltas, result } = ask({ ...script, failures: 2, text: 'at last', size: 10 })
    t.equal((await result).text, 'at last')
    t.equal(deltas.length, 1)
  }
  t.equal(server.requests.length, failing.length * 3)
})

t.test('it is not tried for ever, and the provider is quoted', async (t) => {
  const error = await failureOf(ask({ status: 503 }, { max_retries: 2 }).result)
  t.equal(error.kind, 'ModelUnavailable')
  t.equal(error.message, 'The model "main" is not available: status 503: status 503 as told')
  t.equal(server.requests.length, 3)
})

t.test('a provider that asks to wait is waited for, but not for longer than a person would', async (t) => {
  const begun = performance.now()
  await ask({ status: 429, failures: 1, retryAfter: '1' }).result
  t.ok(performance.now() - begun >= 950, 'one second, whatever backing off would be')
  const error = await failureOf(ask({ status: 429, retryAfter: '3600' }).result)
  t.match(error, { kind: 'ModelUnavailable', message: /asks to wait 3600 seconds/ })
  t.equal(server.requests.length, 3)
})

t.test('a provider that is not there is told as such, without addresses of ours', async (t) => {
  const error = await failureOf(ask({}, { base_url: 'http://127.0.0.1:1/v1' }).result)
  t.match(error, { kind: 'ModelUnavailable', message: /"main" cannot be reached/ })
  t.notMatch(error.message, /127\.0\.0\.1/)
})

t.test(
  'a request that is refused is refused for good, in the words of the provider, short and without the key',
  async (t) => {
    const body = JSON.stringify({ error: { message: `bad key ${KEY} ${'x'.repeat(5000)}` } })
    const error = await failureOf(ask({ status: 401, body }).result)
    t.match(error, { kind: 'ModelRefused', message: /"main" refused the request with status 401: bad key \*\*\* xxx/ })
    t.notMatch(error.message, KEY)
    t.ok(error.message.length < 700)
    t.match(await failureOf(ask({ status: 400, body: 'plain words' }).result), { message: /plain words$/ })
    t.match(await failureOf(ask({ status: 404, body: '<html>no' }).result), { message: /status 404$/ })
    t.equal(server.requests.length, 3)
  }
)

t.test('an answer that breaks off is a failure, is not asked for again, and is not taken for whole', async (t) => {
  const cut = ask({ deltas: 20, cutAfter: 5, rate: 200 })
  t.match(await failureOf(cut.result), { kind: 'ModelInterrupted', message: /in the middle of its answer/ })
  t.ok(cut.deltas.length > 0)
  const ended = ask({ deltas: 20, endAfter: 5 })
  t.match(await failureOf(ended.result), { kind: 'ModelInterrupted', message: /before it was complete/ })
  t.equal(ended.deltas.map(({ text }) => text).join(''), 'd0 d1 d2 d3 ')
  t.equal(server.requests.length, 2)
})

t.test('an answer is whole with a finish reason or with [DONE]: either may be missing, not both', async (t) => {
  t.match(await ask({ text: 'a', done: false }).result, { text: 'a', finishReason: 'stop' })
  t.match(await ask({ text: 'b', finish: null }).result, { text: 'b', finishReason: null })
  t.match(await failureOf(ask({ text: 'c', finish: null, done: false }).result), { kind: 'ModelInterrupted' })
})

t.test('what is no chat completion is a failure that says so, and ends the request', async (t) => {
  const garbage = [
    'data: {not json\n\n',
    'data: [1,2]\n\n',
    'data: {"choices":"nope"}\n\n',
    'no events at all',
    '<html></html>'
  ]
  for (const one of garbage) {
    const error = await failureOf(ask({ garbage: one }).result)
    t.equal(error.kind, 'ModelProtocolError', one)
  }
  const json = ask({ contentType: 'application/json', garbage: '{"error":{"message":"use another route"}}' })
  t.match(await failureOf(json.result), { kind: 'ModelProtocolError', message: /use another route/ })
})

t.test('a failure that is reported inside the stream is quoted', async (t) => {
  const { deltas, result } = ask({
    deltas: 3,
    garbageAfter: 3,
    garbage: `data: {"error":{"message":"overloaded ${KEY}"}}\n\n`
  })
  t.match(await failureOf(result), { kind: 'ModelInterrupted', message: /overloaded \*\*\*/ })
  t.equal(deltas.length, 2)
})

t.test('a model that falls silent is given up, before its first byte and after', async (t) => {
  for (const hangAfter of [0, 3]) {
    // Long enough for the request to arrive on a busy machine.
    const { result } = ask({ deltas: 5, hangAfter }, { idle_timeout_ms: 500 })
    t.match(await failureOf(result), { kind: 'ModelTimeout', message: /sent nothing for 0.5 seconds/ })
  }
  t.equal(await (await server.request(1)).ended, 'aborted')
  t.equal(server.requests.length, 2)
})

t.test('a slow model that is not silent is listened to', async (t) => {
  const { result } = ask({ deltas: 60, rate: 25 }, { idle_timeout_ms: 1500 })
  t.match((await result).text, /d59 $/)
})

t.test('a loop that was held up is no silence: what arrived meanwhile is heard first', async (t) => {
  const timeout = new IdleTimeout(new AbortController().signal, 50)
  // As bytes are read after timers, whatever is late.
  setImmediate(() => timeout.beat())
  for (const end = performance.now() + 200; performance.now() < end; );
  await loopTurns()
  t.notOk(timeout.isSilent)
  await until(() => timeout.isSilent, 'and then it is')
})

t.test('an abort ends the request at the provider at once, whatever it waits for', async (t) => {
  const waits: Script[] = [{ gate: 'never' }, { deltas: 5, hangAfter: 3 }]
  for (const [n, script] of waits.entries()) {
    const { result, abort } = ask(script)
    const call = await server.request(n)
    abort.abort(new Error('enough'))
    await t.rejects(result, { message: 'enough' })
    t.equal(await call.ended, 'aborted')
  }
})

t.test('an abort ends the wait before the next try, and nothing is sent after it', async (t) => {
  const abort = new AbortController()
  const slow = modelOf({}, { backoffMs: 60_000, backoffMaxMs: 60_000 })
  const messages = [{ role: 'user', content: scripted({ status: 503 }) }]
  const result = slow.complete({ messages, messageId: 'm', signal: abort.signal }, () => true)
  result.catch(() => {})
  await (await server.request()).ended
  abort.abort(new Error('enough'))
  await t.rejects(result, { message: 'enough' })
  await t.rejects(
    slow.complete({ messages, messageId: 'm', signal: abort.signal }, () => true),
    { message: 'enough' }
  )
  t.equal(server.requests.length, 1)
})

t.test('a listener that fails fails the call with its own error, and ends the request', async (t) => {
  const request = {
    messages: [{ role: 'user', content: scripted({ deltas: 5, hangAfter: 3 }) }],
    messageId: 'm',
    signal: new AbortController().signal
  }
  const result = modelOf().complete(request, () => {
    throw new TypeError('ours')
  })
  await t.rejects(result, { name: 'TypeError', message: 'ours' })
  t.equal(await (await server.request()).ended, 'aborted')
})

t.test('a kept connection that the server was just closing is no failure, and costs no pause', async (t) => {
  const requests = new Map<Socket, number>()
  const keeper = createServer((req, res) => {
    const count = (requests.get(req.socket) ?? 0) + 1
    requests.set(req.socket, count)
    // It closes at the very moment at which a second request comes.
    if (count > 1) return void req.socket.destroy()
    req.resume().on('end', () => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.end('data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    })
  })
  await new Promise<void>((resolve) => keeper.listen(0, '127.0.0.1', resolve))
  t.teardown(() => keeper.close())
  // It listens on a port: its address is an object.
  const base_url = `http://127.0.0.1:${(keeper.address() as AddressInfo).port}`
  const noPause = { backoffMs: 60_000, backoffMaxMs: 60_000 }
  const request = { messages: [], messageId: 'm', signal: new AbortController().signal }
  for (let i = 0; i < 2; i++) {
    t.equal((await modelOf({ base_url }, noPause).complete(request, () => true)).text, 'hi')
    // Until the connection is back among those that are kept.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  t.same([...requests.values()], [2, 1])
})

t.test('the fixture refuses what real servers refuse', async (t) => {
  await t.rejects(
    ask(
      { strict: true },
      {},
      {
        messages: [
          { role: 'assistant', tool_calls: [{ id: 'c' }] },
          { role: 'user', content: scripted({ strict: true }) }
        ]
      }
    ).result
  )
})
