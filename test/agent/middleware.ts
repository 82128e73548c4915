// The middlewares of the lead agent: what they tell the model, what they keep, and that they never cost anybody an answer.
import t from 'tap'
import { createAgent } from '../../lib/agent/lead.ts'
import { memoryMiddleware, type MemoryPort } from '../../lib/agent/middleware/memory.ts'
import type { Middleware } from '../../lib/agent/middleware.ts'
import { summarizeMiddleware } from '../../lib/agent/middleware/summarize.ts'
import { titleMiddleware } from '../../lib/agent/middleware/title.ts'
import { uploadsMiddleware } from '../../lib/agent/middleware/uploads.ts'
import { type Completion, type Model, type ModelRequest, Models } from '../../lib/agent/model.ts'
import { AgentError, type AgentInput } from '../../lib/agent/runtime.ts'
import type { AiMessage, HumanMessage, JsonObject, Message } from '../../lib/base/types.ts'
import { aHuman, inputOf } from '../fixtures/agent-input.ts'
import { RecordingSink } from '../fixtures/sink.ts'

/** A model that answers what the test says. */
class Answering implements Model {
  readonly info
  readonly requests: ModelRequest[] = []
  readonly #answer: (request: ModelRequest) => string | Promise<string>
  constructor(name: string, answer: (request: ModelRequest) => string | Promise<string>) {
    this.info = {
      name,
      model: name,
      display_name: null,
      description: null,
      supports_thinking: false,
      supports_reasoning_effort: false
    }
    this.#answer = answer
  }
  async complete(request: ModelRequest): Promise<Completion> {
    this.requests.push(request)
    const text = await this.#answer(request)
    const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 }
    return { responseId: 'r', text, reasoning: '', calls: [], finishReason: 'stop', usage }
  }
}

const human = (id: string, content: string): HumanMessage => aHuman(content, id)
const ai = (id: string, content: string): AiMessage => ({
  ...human(id, content),
  type: 'ai',
  tool_calls: [],
  invalid_tool_calls: [],
  usage_metadata: null
})
async function run(models: readonly Model[], middlewares: readonly Middleware[], input: AgentInput) {
  const sink = new RecordingSink()
  await createAgent({ models: new Models(models), tools: [], middlewares }).start(
    input,
    sink,
    new AbortController().signal
  )
  return sink
}

const said = (request: ModelRequest | undefined): string => JSON.stringify(request?.messages ?? [])
const titles = titleMiddleware({ max_words: 4, max_chars: 20, model_name: 'namer' })
const log = { warn: () => {} }

t.test(
  '[Events 3] a title is asked for after the first exchange, counted as middleware, and makes no message',
  async (t) => {
    const namer = new Answering('namer', () => '"A Title of far too many words."\nmore')
    const sink = await run([new Answering('main', () => 'hi'), namer], [titles], inputOf([human('h', 'hello')]))
    t.match(
      sink.all('llm_response').map(({ caller, model }) => [caller, model]),
      [
        ['lead_agent', 'main'],
        ['middleware:title', 'namer']
      ]
    )
    t.same(sink.all('update'), [{ type: 'update', channels: { title: 'A Title of far' } }])
    t.match(sink.all('middleware'), [{ tag: 'title', content: { changes: { title: 'A Title of far' } } }])
    t.same(
      sink.all('step').map(({ node }) => node),
      ['agent', 'title'],
      'it is in a checkpoint of its own'
    )
    t.equal(sink.all('delta').length, 0, 'nobody watches it being made')
  }
)

t.test('a thread that has a title, or a history, keeps what it has', async (t) => {
  const namer = new Answering('namer', () => 'no')
  const main = new Answering('main', () => 'hi')
  await run([main, namer], [titles], inputOf([human('h', 'x')], { channels: { title: 'Mine' } }))
  await run([main, namer], [titles], inputOf([human('h', 'x'), ai('a', 'y'), human('h2', 'z')]))
  t.equal(namer.requests.length, 0)
})

t.test('a middleware whose model fails or is not configured costs the run nothing', async (t) => {
  const failing = new Answering('namer', () => {
    throw new AgentError('ModelUnavailable', 'down')
  })
  const main = new Answering('main', () => 'hi')
  const sink = await run([main, failing], [titles], inputOf([human('h', 'x')]))
  t.match(sink.all('llm_error'), [{ caller: 'middleware:title', error: 'down' }])
  const other = await run([main], [titles], inputOf([human('h', 'x')]))
  t.match(other.all('llm_error'), [{ error: 'There is no model "namer"' }])
  t.same(other.all('update'), [])
})

t.test('a programmer’s error in a middleware fails its run loudly', async (t) => {
  const broken: Middleware = { tag: 'broken', beforeModel: () => Promise.reject(new TypeError('oops')) }
  await t.rejects(run([new Answering('main', () => 'hi')], [broken], inputOf([human('h', 'x')])), { message: 'oops' })
})

// ------------------------------------------------------------------------------------------------ summary

const talk = (turns: number): Message[] =>
  Array.from({ length: turns }, (_, n) => [human(`h${n}`, `question ${n}`), ai(`a${n}`, `answer ${n}`)]).flat()
const summaries = summarizeMiddleware({
  keep_messages: 4,
  trigger_messages: 10,
  trigger_tokens: 0,
  model_name: 'short'
})

t.test(
  'above its bound a conversation is summarised: the model hears the summary and the newest messages',
  async (t) => {
    const main = new Answering('main', () => 'so')
    const short = new Answering('short', () => 'They talked.')
    const sink = await run([main, short], [summaries], inputOf([...talk(8), human('last', 'and now?')]))
    const [asked] = main.requests
    t.match(said(asked), /They talked\./)
    t.notMatch(said(asked), /question 5/)
    t.match(said(asked), /question 7/)
    t.equal((asked?.messages[1] as JsonObject).role, 'user', 'what stays begins with the user')
    t.match(sink.all('update')[0]?.channels, { summary_text: 'They talked.', summary_until: 'a5' })
    const replacedIds = inputOf(talk(6)).messages.map(({ id }) => id)
    t.match(sink.all('summarization'), [{ text: 'They talked.', replacedIds }])
  }
)

t.test('the next run goes on from the summary without a new one, and builds the next on it', async (t) => {
  const main = new Answering('main', () => 'so')
  const short = new Answering('short', () => 'More.')
  const channels = { summary_text: 'They talked.', summary_until: 'a5' }
  await run([main, short], [summaries], inputOf([...talk(8), human('last', 'and now?')], { channels }))
  t.equal(short.requests.length, 0)
  t.match(said(main.requests[0]), /They talked\./)
  await run([main, short], [summaries], inputOf([...talk(14), human('last', 'and now?')], { channels }))
  t.equal(short.requests.length, 1)
  t.match(said(short.requests[0]), /They talked\./)
  t.notMatch(said(short.requests[0]), /question 5/)
})

t.test('a summary whose end is not in the conversation covers nothing', async (t) => {
  const main = new Answering('main', () => 'so')
  const channels = { summary_text: 'Of another branch.', summary_until: 'gone' }
  await run([main], [summaries], inputOf([...talk(2), human('last', 'x')], { channels }))
  t.notMatch(said(main.requests[0]), /another branch/)
  t.match(said(main.requests[0]), /question 0/)
})

t.test('a failing summary leaves the conversation whole', async (t) => {
  const main = new Answering('main', () => 'so')
  const short = new Answering('short', () => {
    throw new AgentError('ModelRefused', 'no')
  })
  await run([main, short], [summaries], inputOf([...talk(8), human('last', 'x')]))
  t.match(said(main.requests[0]), /question 0/)
})

// ------------------------------------------------------------------------------------------------- memory

const port = (more: Partial<MemoryPort> = {}): MemoryPort & { learned: unknown[] } => {
  const learned: unknown[] = []
  return { prompt: async () => 'Likes otters.', learn: (of) => learned.push(of), learned, ...more }
}

t.test('the memory is told before the conversation, once a run, and the conversation is learned from', async (t) => {
  const main = new Answering('main', () => 'so')
  const memory = port()
  const sink = await run([main], [memoryMiddleware(memory, log)], inputOf([human('h', 'x')]))
  t.match(main.requests[0]?.messages[0], { role: 'system', content: 'Likes otters.' })
  t.match(sink.all('middleware'), [{ tag: 'memory', content: { action: 'inject' } }])
  t.match(memory.learned, [
    { userId: 'user-1', agentName: null, threadId: 'thread-1', messages: [{ type: 'human' }, { type: 'ai' }] }
  ])
})

t.test('of a shared thread the memory learns only what its own user says', async (t) => {
  const main = new Answering('main', () => 'noted')
  const memory = port()
  const answered = ai('a1', 'hi Bob')
  const conversation = [human('h1', 'I am Bob and like tea'), answered, human('h2', 'I am Eve and like gin')]
  await run([main], [memoryMiddleware(memory, log)], inputOf(conversation, { inputIds: ['h2'] }))
  t.match(memory.learned, [{ messages: [{ id: 'h2' }, { type: 'ai', content: 'noted' }] }])
  t.notMatch(JSON.stringify(memory.learned), /Bob/)
  const failed = [human('h1', 'I am Bob'), human('h2', 'I am Eve')]
  await run([main], [memoryMiddleware(memory, log)], inputOf(failed, { inputIds: ['h2'] }))
  t.notMatch(JSON.stringify(memory.learned), /Bob/, 'also when nobody has answered him')
})

t.test('a run of nobody has no memory, and one that cannot be read is done without', async (t) => {
  const main = new Answering('main', () => 'so')
  const memory = port()
  await run([main], [memoryMiddleware(memory, log)], inputOf([human('h', 'x')], { userId: null }))
  t.same(memory.learned, [])
  const unreadable = port({ prompt: () => Promise.reject(new Error('disk')) })
  await run([main], [memoryMiddleware(unreadable, log)], inputOf([human('h', 'x')]))
  t.equal(main.requests.length, 2)
  for (const request of main.requests) t.notMatch(said(request), /otters/)
})

// ------------------------------------------------------------------------------------------------ uploads

t.test('the model is told which files were uploaded, of this user and thread alone', async (t) => {
  const main = new Answering('main', () => 'so')
  const asked: string[][] = []
  const files = {
    hasFiles: () => true,
    list: async (...args: string[]) => {
      asked.push(args)
      return { files: Array.from({ length: 52 }, (_, n) => ({ path: `/mnt/user-data/uploads/${n}.txt`, size: n })) }
    }
  }
  await run([main], [uploadsMiddleware(files, 'default')], inputOf([human('h', 'x')]))
  t.same(asked, [['thread-1', 'user-1', '/mnt/user-data/uploads']])
  t.match(said(main.requests[0]), /uploads\/49\.txt \(49 bytes\).*and 2 more/)
  const none = { hasFiles: () => true, list: () => Promise.reject(new Error('there is no folder')) }
  await run([main], [uploadsMiddleware(none, 'default')], inputOf([human('h', 'x')], { userId: null }))
  t.equal(main.requests[1]?.messages.length, 1)
  asked.length = 0
  await run([main], [uploadsMiddleware({ ...files, hasFiles: () => false }, 'default')], inputOf([human('h', 'x')]))
  t.same(asked, [], 'a thread without any file waits for no listing')
})
