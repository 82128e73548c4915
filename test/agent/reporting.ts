// What an operator hears of model calls and tools: a line a failure, with all ids, and figures for whoever counts.
import t from 'tap'
import { createAgent } from '../../lib/agent/lead.ts'
import { completeOnce } from '../../lib/agent/model-call.ts'
import { Models } from '../../lib/agent/model.ts'
import { ChatModel } from '../../lib/agent/http/chat-model.ts'
import type { ModelCallStats } from '../../lib/agent/observer.ts'
import type { Tool } from '../../lib/agent/tool.ts'
import { aHuman, inputOf } from '../fixtures/agent-input.ts'
import { asked, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import { RecordingSink } from '../fixtures/sink.ts'

const IDS = { run_id: 'run-1', thread_id: 'thread-1', user_id: 'user-1' }

type Line = readonly [level: string, text: string, fields: object]

let server: FakeModel
t.beforeEach(async () => {
  server = await startModel()
})
t.afterEach(() => server.stop())

function listening() {
  const lines: Line[] = []
  const calls: ModelCallStats[] = []
  const line = (level: string) => (fields: object, text: string) => void lines.push([level, text, fields])
  return {
    calls,
    lines,
    of: (wanted: string) => lines.filter(([level]) => level === wanted),
    log: { debug: line('debug'), warn: line('warn'), error: line('error') },
    observer: { modelCall: (stats: ModelCallStats) => void calls.push(stats) }
  }
}

async function run(script: Script, tools: readonly Tool[] = [], abort = new AbortController()) {
  const heard = listening()
  const config = { name: 'main', model: 'theirs', base_url: server.baseUrl, api_key: 'sk-secret', max_retries: 2 }
  const model = new ChatModel(config, { log: heard.log, retry: { backoffMs: 1, backoffMaxMs: 2 } })
  const agent = createAgent({ models: new Models([model]), tools, ...heard })
  const sink = new RecordingSink()
  const work = agent.start(inputOf([aHuman(scripted(script))]), sink, abort.signal).catch((error: unknown) => error)
  return { ...heard, work, sink }
}

t.test('a model call that fails is one line with run, thread, user, model, status and attempt', async (t) => {
  const refused = await run({ status: 401, body: 'bad key sk-secret' })
  await refused.work
  t.match(refused.of('error'), [
    [
      'error',
      'a model call failed',
      { ...IDS, model: 'main', caller: 'lead_agent', status: 401, attempt: 1, error_type: 'ModelRefused' }
    ]
  ])
  t.equal(refused.of('warn').length, 0)
  t.notMatch(JSON.stringify(refused.lines), /sk-secret/)
  t.match(refused.calls, [{ model: 'main', caller: 'lead_agent', status: 'error', firstTokenMs: null, inputTokens: 0 }])
})

t.test(
  'an attempt that is made again is a warning with the same ids, and the failure after the last counts them',
  async (t) => {
    const { of, calls, work } = await run({ status: 503 })
    await work
    t.match(of('warn'), [
      ['warn', 'a model call failed and is tried again', { ...IDS, model: 'main', attempt: 1 }],
      ['warn', 'a model call failed and is tried again', { ...IDS, model: 'main', attempt: 2 }]
    ])
    t.match(of('error'), [['error', 'a model call failed', { ...IDS, status: 503, attempt: 3 }]])
    t.equal(calls.length, 1, 'and it is one call to whoever counts')
  }
)

t.test('a model that answers is a line for who debugs, and its figures are counted', async (t) => {
  const usage = [{ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }]
  const { lines, calls, work } = await run({ text: 'hello world', usage })
  await work
  t.match(lines, [['debug', 'a model has answered', { ...IDS, model: 'main', usage: { total_tokens: 7 } }]])
  const [call] = calls
  t.match(call, { model: 'main', caller: 'lead_agent', status: 'success', inputTokens: 3, outputTokens: 4 })
  t.ok(call!.firstTokenMs !== null && call!.firstTokenMs > 0 && call!.firstTokenMs <= call!.durationMs)
})

t.test('a tool that fails is one warning with its ids, one that answers a line for who debugs', async (t) => {
  const tool = (name: string, work: Tool['run']): Tool => ({
    name,
    description: name,
    parameters: { type: 'object' },
    run: work
  })
  const tools = [tool('good', async () => 'fine'), tool('bad', () => Promise.reject(new Error('no luck')))]
  const calls = [
    [
      { name: 'good', args: '{}' },
      { name: 'bad', args: '{}' },
      { name: 'absent', args: '{}' }
    ]
  ]
  const { of, work } = await run({ calls }, tools)
  await work
  t.match(of('warn'), [
    ['warn', 'a tool failed', { ...IDS, tool: 'bad', error: 'no luck' }],
    ['warn', 'a tool failed', { ...IDS, tool: 'absent', error: /There is no tool "absent"/ }]
  ])
  t.match(of('debug').find(([, text]) => text === 'a tool has answered')?.[2], { ...IDS, tool: 'good' })
})

t.test('a call that its run does not want any more is no failure', async (t) => {
  const abort = new AbortController()
  const { lines, calls, work } = await run({ gate: 'never' }, [], abort)
  await server.request()
  abort.abort()
  await work
  t.match(lines, [['debug', 'a model call was aborted', IDS]])
  t.match(calls, [{ status: 'aborted' }])
})

t.test('a call that belongs to no run is counted, and logged when it fails', async (t) => {
  const { log, observer, lines, calls } = listening()
  const model = new ChatModel({ name: 'main', model: 'm', base_url: server.baseUrl, api_key: '' }, { log })
  const ask = (script: Script) =>
    completeOnce(model, [{ role: 'user', content: scripted(script) }], new AbortController().signal, { log, observer })
  t.equal(await ask({ text: 'yes' }), 'yes')
  await t.rejects(ask({ status: 400, body: 'no' }))
  t.match(calls, [
    { caller: 'none', status: 'success' },
    { caller: 'none', status: 'error' }
  ])
  t.match(lines.at(-1), ['error', 'a model call failed', { model: 'main', status: 400 }])
})

t.test('the figures of model calls stand in /metrics', async (t) => {
  const person = new Person((await openSite(t)).url)
  await person.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  await person.post(`/api/threads/${thread}/runs/wait`, asked('/demo deltas=3 rate=0'))
  const { text } = await person.get('/metrics')
  t.match(text, /colloquy_model_call_duration_seconds_count\{model="demo",status="success"\} 1/)
  t.match(text, /colloquy_model_first_token_seconds_count\{model="demo"\} 1/)
})

t.test('tokens of an answer and a call that fails are counted in /metrics, by model', async (t) => {
  const models = [{ name: 'main', model: 'theirs', base_url: server.baseUrl, api_key: 'k', max_retries: 0 }]
  const apart = { title: { enabled: false }, memory: { enabled: false } }
  const person = new Person((await openSite(t, { config: { models, ...apart } })).url)
  await person.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  const thread = await person.thread()
  const ask = (script: Script) => person.post(`/api/threads/${thread}/runs/wait`, asked(scripted(script)))
  await ask({ text: 'hello', usage: [{ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }] })
  await ask({ status: 401, body: 'bad key' })
  const { text } = await person.get('/metrics')
  t.match(text, /^colloquy_model_tokens_total\{model="main",direction="input"\} 3$/m)
  t.match(text, /^colloquy_model_tokens_total\{model="main",direction="output"\} 4$/m)
  t.match(text, /^colloquy_model_call_duration_seconds_count\{model="main",status="success"\} 1$/m)
  t.match(text, /^colloquy_model_call_duration_seconds_count\{model="main",status="error"\} 1$/m)
  t.match(text, /^colloquy_model_first_token_seconds_count\{model="main"\} 1$/m, 'a failed call has no first token')
})

t.test('a run that fails is one line with run, thread, user and model, whatever it fails of', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const context = { model_name: 'demo' }
  await person.post(`/api/threads/${thread}/runs/wait`, { ...asked('/demo error deltas=1 rate=0'), context })
  const failures = () => site.logged.filter(([, , text]) => text === 'a run has failed')
  await until(() => failures().length > 0, 'it is said')
  const me = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  t.match(failures(), [
    [
      'warn',
      { run_id: String, thread_id: thread, user_id: me, model: 'demo', status: 'error', error_type: 'DemoFailure' }
    ]
  ])
  t.equal(failures().length, 1)
})
