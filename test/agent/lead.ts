import t from 'tap'
import { chatModels, type ModelConfig } from '../../lib/agent/http/chat-model.ts'
import { createAgent } from '../../lib/agent/lead.ts'
import { type Agent, type ListedAgent, AgentError, type AgentInput } from '../../lib/agent/runtime.ts'
import type { Tool } from '../../lib/agent/tool.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { aHuman, inputOf as agentInput } from '../fixtures/agent-input.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import { RecordingSink } from '../fixtures/sink.ts'

let server: FakeModel
t.beforeEach(async () => {
  server = await startModel()
})
t.afterEach(() => server.stop())

const inputOf = (script: Script, more: Partial<AgentInput> = {}): AgentInput =>
  agentInput([aHuman(scripted(script))], more)

const echo: Tool = {
  name: 'echo',
  description: 'Says it again',
  parameters: { type: 'object' },
  run: async (args) => `echo: ${JSON.stringify(args)}`
}
const broken: Tool = {
  ...echo,
  name: 'broken',
  run: () => {
    throw new Error('no luck')
  }
}

const agentOf = (
  tools: readonly Tool[] = [echo, broken],
  more: { systemPrompt?: string; config?: Partial<ModelConfig> } = {}
): ListedAgent => {
  const main = {
    name: 'main',
    model: 'their-model',
    base_url: server.baseUrl,
    api_key: 'k',
    max_retries: 0,
    ...more.config
  }
  return createAgent({
    models: chatModels([main, { ...main, name: 'second', model: 'their-second' }]),
    tools,
    systemPrompt: more.systemPrompt
  })
}

/** Runs to the end and answers what was told, and the failure if there was one. */
async function run(agent: Agent, input: AgentInput): Promise<{ sink: RecordingSink; failure: unknown }> {
  const sink = new RecordingSink()
  const failure = await agent.start(input, sink, new AbortController().signal).then(
    () => null,
    (error: unknown) => error
  )
  return { sink, failure }
}

t.test('an answer is a request, its deltas, a response and a step', async (t) => {
  const { sink, failure } = await run(
    agentOf(),
    inputOf({ text: 'hello', usage: [{ prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 }] })
  )
  t.equal(failure, null)
  t.same(sink.kinds, ['llm_request', 'delta', 'llm_response', 'step'])
  const [request] = sink.all('llm_request')
  t.match(request, { caller: 'lead_agent', model: 'main', messages: [{ role: 'user' }] })
  const [response] = sink.all('llm_response')
  t.match(response, { caller: 'lead_agent', model: 'main', responseId: 'cmpl-0', finishReason: 'stop' })
  t.same(response?.usage, { input_tokens: 5, output_tokens: 6, total_tokens: 11 })
  t.ok((response?.latencyMs ?? -1) >= 0)
  t.match(response?.message, {
    type: 'ai',
    content: 'hello',
    tool_calls: [],
    invalid_tool_calls: [],
    usage_metadata: { input_tokens: 5, output_tokens: 6, total_tokens: 11 },
    response_metadata: { finish_reason: 'stop', model_name: 'main' }
  })
  t.match(sink.all('step'), [{ node: 'agent' }])
})

t.test('all deltas of a call carry the id of its message, and the next call has another', async (t) => {
  const { sink } = await run(agentOf(), inputOf({ calls: [[{ name: 'echo', args: '{}' }]], text: 'so' }))
  const ids = [...new Set(sink.all('delta').map(({ messageId }) => messageId))]
  t.same(
    ids,
    sink.all('llm_response').map(({ message }) => message.id)
  )
  t.equal(ids.length, 2)
})

t.test('a tool is called, its result goes back to the model, and the answer follows', async (t) => {
  const calls = [
    [
      { name: 'echo', args: '{"a":1}' },
      { name: 'echo', args: '{"a":2}' }
    ]
  ]
  const { sink, failure } = await run(agentOf(), inputOf({ calls, text: 'so', strict: true }))
  t.equal(failure, null)
  t.same(sink.kinds, [
    ...['llm_request', 'delta', 'llm_response', 'step'],
    ...['tool_start', 'tool_end', 'tool_start', 'tool_end', 'step'],
    ...['llm_request', 'delta', 'llm_response', 'step']
  ])
  t.same(
    sink.all('step').map(({ node }) => node),
    ['agent', 'tools', 'agent']
  )
  const [first] = sink.all('tool_end')
  t.match(first?.call, { id: 'call_0_0', name: 'echo', args: { a: 1 } })
  t.match(first?.message, {
    type: 'tool',
    tool_call_id: 'call_0_0',
    name: 'echo',
    content: 'echo: {"a":1}',
    status: 'success',
    artifact: null
  })
  t.equal(sink.all('llm_response')[0]?.finishReason, 'tool_calls')
  t.same((await server.request(1)).messages.slice(-2), [
    { role: 'tool', tool_call_id: 'call_0_0', content: 'echo: {"a":1}' },
    { role: 'tool', tool_call_id: 'call_0_1', content: 'echo: {"a":2}' }
  ])
})

t.test('an assistant has instructions and tools of its own, and no more than there are', async (t) => {
  const asked = async (context: JsonObject) => {
    await run(agentOf([echo, broken], { systemPrompt: 'be brief' }), inputOf({}, { context }))
    return server.requests.at(-1)!
  }
  const own = await asked({ instructions: 'Answer in verse.', tools: ['echo', 'none'] })
  t.match(own.messages[0], { role: 'system', content: 'be brief\n\nAnswer in verse.' })
  t.equal((own.body.tools as unknown[]).length, 1)
  t.match(own.body.tools, [{ function: { name: 'echo' } }])
  t.notOk((await asked({ tools: [] })).body.tools, 'a list of none is none')
  const careless = await asked({ instructions: 7, tools: 'echo' })
  t.equal((careless.body.tools as unknown[]).length, 2, 'what is no list names none')
  t.match(careless.messages[0], { content: 'be brief' })
})

t.test('tools are offered to the model, and the system prompt comes first', async (t) => {
  const { sink } = await run(agentOf([echo], { systemPrompt: 'be brief' }), inputOf({}))
  const { body, messages } = await server.request()
  t.match(body.tools, [{ function: { name: 'echo' } }])
  t.match(messages[0], { role: 'system', content: 'be brief' })
  t.same(sink.all('llm_request')[0]?.messages, messages, 'and the request is told as it was sent')
})

t.test('a tool that fails, or that does not exist, is a result with status error, and the run goes on', async (t) => {
  const calls = [
    [
      { name: 'broken', args: '{}' },
      { name: 'none', args: '{}' }
    ]
  ]
  const { sink, failure } = await run(agentOf(), inputOf({ calls, text: 'recovered' }))
  t.equal(failure, null)
  t.match(
    sink.all('tool_end').map(({ message }) => message),
    [
      { status: 'error', content: 'no luck', tool_call_id: 'call_0_0' },
      { status: 'error', content: /There is no tool "none"/, tool_call_id: 'call_0_1' }
    ]
  )
  t.equal(sink.all('llm_response').at(-1)?.message.content, 'recovered')
})

t.test('what a tool changes is told as an update, and the next tool sees it [Events 1]', async (t) => {
  const seen: unknown[] = []
  const collect: Tool = {
    ...echo,
    name: 'collect',
    run: async (args, { channels, threadId, userId, runId }) => {
      seen.push(channels.artifacts)
      t.same([threadId, userId, runId], ['thread-1', 'user-1', 'run-1'])
      return { content: 'ok', channels: { artifacts: [args] } }
    }
  }
  const calls = [[{ name: 'collect', args: '{"n":1}' }], [{ name: 'collect', args: '{"n":2}' }]]
  const { sink } = await run(agentOf([collect]), inputOf({ calls }, { channels: { artifacts: [], title: 'T' } }))
  t.same(seen, [[], [{ n: 1 }]])
  t.same(
    sink.all('update').map(({ channels }) => channels),
    [{ artifacts: [{ n: 1 }] }, { artifacts: [{ n: 2 }] }]
  )
  t.same(
    sink.all('tool_end').map(({ message }) => message.content),
    ['ok', 'ok'],
    'the result is the message alone'
  )
})

t.test('the model that the run names answers; a name that nobody configured fails the run', async (t) => {
  await run(agentOf(), inputOf({}, { modelName: 'second' }))
  t.equal((await server.request()).body.model, 'their-second')
  const { sink, failure } = await run(agentOf(), inputOf({}, { modelName: 'third' }))
  t.match(failure, { kind: 'UnknownModel', message: /"third"/ })
  t.same(sink.told, [])
})

t.test('models are shown as they are configured, never with their key', async (t) => {
  const [first] = agentOf([], { config: { display_name: 'Main', supports_thinking: true } }).models()
  t.same(first, {
    name: 'main',
    model: 'their-model',
    display_name: 'Main',
    description: null,
    supports_thinking: true,
    supports_reasoning_effort: false,
    continuation: 'ask'
  })
})

t.test('a model that never comes to an end is stopped at the recursion limit, after its last tool', async (t) => {
  const calls = Array.from({ length: 5 }, () => [{ name: 'echo', args: '{}' }])
  const { sink, failure } = await run(agentOf(), inputOf({ calls }, { recursionLimit: 2 }))
  t.ok(failure instanceof AgentError)
  t.match(failure, { stopReason: 'loop_capped' })
  t.equal(server.requests.length, 2)
  t.same(sink.kinds.slice(-2), ['tool_end', 'step'])
})

t.test('a model that fails is an llm_error and fails the run with the same words', async (t) => {
  const { sink, failure } = await run(agentOf(), inputOf({ status: 400 }))
  t.match(failure, { kind: 'ModelRefused', message: /status 400 as told/ })
  t.same(sink.kinds, ['llm_request', 'llm_error'])
  t.equal(sink.all('llm_error')[0]?.error, failure instanceof Error ? failure.message : '')
})

t.test('half an answer is told delta by delta, and never as a response', async (t) => {
  const { sink, failure } = await run(agentOf(), inputOf({ deltas: 9, endAfter: 4 }))
  t.match(failure, { kind: 'ModelInterrupted' })
  t.equal(sink.text, 'd0 d1 d2 ')
  t.same(sink.kinds, ['llm_request', 'delta', 'llm_error'])
})

t.test(
  'a call that cannot be read is kept as an invalid one: alone it fails the run, with others it is passed over',
  async (t) => {
    const bad = { name: 'echo', args: '{"a":' }
    const alone = await run(agentOf(), inputOf({ calls: [[bad]], finish: 'length' }))
    t.match(alone.failure, { kind: 'InvalidToolCall', stopReason: 'model_length_capped' })
    t.match(alone.sink.all('llm_response')[0]?.message, {
      tool_calls: [],
      invalid_tool_calls: [{ args: '{"a":', type: 'invalid_tool_call' }]
    })
    const both = await run(
      agentOf(),
      inputOf({ calls: [[bad, { name: 'echo', args: '{}' }]], text: 'so', strict: true })
    )
    t.equal(both.failure, null)
    t.equal(both.sink.all('tool_end').length, 1)
    t.equal(both.sink.all('llm_response').at(-1)?.message.content, 'so')
  }
)

t.test('a conversation with an interrupted call in it goes on at a strict server', async (t) => {
  const interrupted: JsonObject = { name: 'echo', args: {}, id: 'lost', type: 'tool_call' }
  const before = {
    ...aHuman(''),
    type: 'ai' as const,
    id: 'a1',
    tool_calls: [{ ...interrupted, name: 'echo', args: {}, id: 'lost', type: 'tool_call' as const }],
    invalid_tool_calls: [],
    usage_metadata: null
  }
  const messages = [aHuman('first'), before, aHuman(scripted({ text: 'fine', strict: true }))]
  const { failure, sink } = await run(agentOf(), inputOf({}, { messages }))
  t.equal(failure, null)
  t.equal(sink.text, 'fine')
})

t.test('after an abort nothing is told, the model call is gone, and the run ends quietly', async (t) => {
  const sink = new RecordingSink()
  const abort = new AbortController()
  const work = agentOf().start(inputOf({ deltas: 9, hangAfter: 4 }), sink, abort.signal)
  await sink.until(({ text }) => text.includes('d2'))
  const told = sink.told.length
  abort.abort()
  await work
  t.equal(await (await server.request()).ended, 'aborted')
  t.equal(sink.told.length, told)
})

t.test('a tool that does not listen to the abort does not hold it up', async (t) => {
  const sink = new RecordingSink()
  const abort = new AbortController()
  const deaf: Tool = { ...echo, run: () => new Promise(() => {}) }
  const work = agentOf([deaf]).start(inputOf({ calls: [[{ name: 'echo', args: '{}' }]] }), sink, abort.signal)
  await sink.until(({ kinds }) => kinds.includes('tool_start'))
  abort.abort()
  await work
  t.equal(sink.kinds.at(-1), 'tool_start')
})

t.test('a run that is aborted before it starts asks nobody', async (t) => {
  const sink = new RecordingSink()
  await agentOf().start(inputOf({}), sink, AbortSignal.abort())
  t.same(sink.told, [])
  t.equal(server.requests.length, 0)
})

t.test('a log without space makes the run wait, and nothing is lost', async (t) => {
  const sink = new RecordingSink()
  sink.full = true
  const work = agentOf().start(inputOf({ deltas: 300, pad: 10_000 }), sink, new AbortController().signal)
  await sink.until(({ waits }) => waits === 1)
  t.same(sink.kinds, ['llm_request'], 'the model is not even asked')
  sink.full = false
  sink.makeSpace()
  await sink.until(({ kinds }) => kinds.includes('delta'))
  sink.full = true
  await sink.until(({ waits }) => waits === 2)
  sink.makeSpace()
  await work
  t.equal(sink.all('llm_response')[0]?.message.content, sink.text)
  t.equal(sink.text.length, 300 * 10_000)
})
