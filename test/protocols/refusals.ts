// Every protocol against who means it ill: what is refused before its handler is refused in its own form, nothing of it is a 5xx, and of two
// who answer one question at once one is told that he was late.
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { type Answer, at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

type Json = Record<string, unknown>

const BYTES_MAX = 64 * 1024
const user = (content: string) => ({ role: 'user', content })
const rpc = (method: string, params: Json): Json => ({ jsonrpc: '2.0', id: 1, method, params })
const message = (text: string, more: Json = {}) => ({
  message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }
})
const MCP = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' }

const OPENAI = { error: { message: /./, type: /_error$/ } }
const RPC = { jsonrpc: '2.0', error: { code: Number, message: /./ } }
const CONTRACT = { detail: /./ }

interface Door {
  readonly path: string
  /** Begins a run. */
  body(words: string): Json
  readonly headers?: Readonly<Record<string, string>>
  readonly form: object
  /** Of a body that is JSON, and too deep or none of a request. */
  readonly odd?: object
}

const agui = (words: string) => ({
  threadId: crypto.randomUUID(),
  runId: crypto.randomUUID(),
  messages: [{ id: 'm', ...user(words) }]
})
const LIST = { detail: Array }
const DOORS: Readonly<Record<string, Door>> = {
  responses: { path: '/v1/responses', body: (input) => ({ input }), form: OPENAI },
  'chat completions': {
    path: '/v1/chat/completions',
    body: (words) => ({ model: 'lead_agent', messages: [user(words)] }),
    form: OPENAI
  },
  'AI SDK': {
    path: '/api/ai/chat',
    body: (text) => ({
      id: crypto.randomUUID(),
      messages: [{ id: crypto.randomUUID(), role: 'user', parts: [{ type: 'text', text }] }]
    }),
    form: CONTRACT,
    odd: LIST
  },
  'AG-UI': { path: '/api/agui/lead_agent', body: agui, form: CONTRACT, odd: LIST },
  CopilotKit: { path: '/api/copilotkit/agent/lead_agent/run', body: agui, form: CONTRACT, odd: LIST },
  'A2A, JSON-RPC': { path: '/a2a/lead_agent', body: (words) => rpc('SendMessage', message(words)), form: RPC },
  'A2A, HTTP+JSON': {
    path: '/a2a/lead_agent/message:send',
    body: message,
    form: { error: { code: Number, status: /^[A-Z_]+$/, message: /./ } }
  },
  MCP: {
    path: '/mcp',
    headers: MCP,
    body: (words) => rpc('tools/call', { name: 'lead_agent', arguments: { message: words } }),
    form: RPC
  }
}

const config = {
  memory: { enabled: false },
  title: { enabled: false },
  server: { body_bytes: BYTES_MAX },
  runs: { active_per_user: 1 }
}
let store: Store
const behind = (opened: Store) => {
  store = opened
  return opened
}
const site = await openSite(t, { config, behind })
const runsOf = async (person: Person) =>
  (await store.runs.begun(0, 100, textIn((await person.get('/api/v1/auth/me')).body, 'id'))).runs

async function post(person: { readonly headers: Record<string, string> }, { path, headers = {} }: Door, sent: string) {
  const all = { 'content-type': 'application/json', ...headers, ...person.headers }
  const response = await fetch(site.url + path, { method: 'POST', headers: all, body: sent })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') === true
  const body = isJson ? (JSON.parse(text) as unknown) : null
  return { status: response.status, headers: response.headers, text, body }
}
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

for (const [name, door] of Object.entries(DOORS))
  t.test(`${name}: 401, 403, 413, 429, no JSON and nonsense are refused in its own form`, async (t) => {
    const person = await signIn(site)
    const { token } = await programOf(person, ...PERMISSIONS)
    const { token: idle } = await programOf(person)
    const { form, odd = form } = door
    const body = JSON.stringify(door.body('/demo rate=0 deltas=3'))
    const refused = async (status: number, answer: Promise<object>, as: object, what: string) =>
      t.match(await answer, { status, body: as }, what)
    const wrong = await post(bearer('clq_nobody'), door, body)
    t.equal(wrong.status, 401)
    const unscoped = await post(bearer(idle), door, body)
    t.equal(unscoped.status, 403)
    const { cookie = '' } = person.headers()
    const forged = await post({ headers: { cookie } }, door, body)
    t.equal(forged.status, 403, 'a cookie without its header')
    if (form !== CONTRACT) for (const one of [wrong, unscoped, forged]) t.match(one.body, form)
    else for (const one of [wrong, unscoped, forged]) t.ok(at(one.body, 'detail'), one.text)
    const large = JSON.stringify(door.body('x'.repeat(BYTES_MAX)))
    await refused(413, post(bearer(token), door, large), form, 'too large')
    await refused(400, post(bearer(token), door, '{').then(asRefusal), odd, 'no JSON')
    for (const nonsense of ['[]', '7', '"text"', 'null', `{"a":${'['.repeat(5000)}${']'.repeat(5000)}}`])
      await refused(400, post(bearer(token), door, nonsense).then(asRefusal), odd, nonsense.slice(0, 10))
    t.strictSame(await runsOf(person), [], 'and nothing was begun')
    const busy = await person.run(await person.thread(), '/demo rate=20 deltas=100000')
    const limited = await post(bearer(token), door, body)
    t.equal(limited.status, 429, limited.text)
    t.match(limited.body, form)
    t.ok(limited.headers.has('retry-after'))
    t.equal((await runsOf(person)).length, 1)
    await person.post(`${busy}/cancel?wait=true`)
  })

/** 422 is what our own routes say; protocols say 400. */
function asRefusal({ status, ...rest }: Awaited<ReturnType<typeof post>>) {
  return { ...rest, status: status === 422 ? 400 : status }
}

t.test('members of every request, one by one in every wrong form, are refused and never a 5xx', async (t) => {
  const person = await signIn(site)
  const { token } = await programOf(person, ...PERMISSIONS)
  const wrong: unknown[] = [
    null,
    7,
    -1,
    '',
    'x'.repeat(3000),
    true,
    [],
    [null],
    {},
    { a: { b: [1] } },
    '\u0000',
    '../..'
  ]
  for (const [name, door] of Object.entries(DOORS)) {
    const whole = door.body(WORDS)
    for (const path of pathsIn(whole))
      for (const value of wrong) {
        // Any words are an answer, which takes its time.
        if (typeof value === 'string' && at(whole, ...path) === WORDS) continue
        const answer = await post(bearer(token), door, JSON.stringify(replaced(whole, path, value)))
        const what = `${name} ${path.join('.')} = ${JSON.stringify(value).slice(0, 20)}: ${answer.text.slice(0, 200)}`
        if (answer.status >= 500) t.fail(what)
        if (answer.status === 429) await until(async () => (await inFlight(person)) === 0, 'the last one is over')
      }
  }
  t.pass()
})

/** An answer in no time. */
const WORDS = '/demo rate=0 deltas=1'

const inFlight = async (person: Person) =>
  (await runsOf(person)).filter(({ status }) => status === 'pending' || status === 'running').length

function pathsIn(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => [[...path, key], ...pathsIn(one, [...path, key])])
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by
  if (Array.isArray(value)) return value.map((one, i) => (String(i) === key ? replaced(one, rest, by) : one))
  return { ...(value as Json), [key]: replaced((value as Json)[key], rest, by) }
}

// ------------------------------------------------------------------------------------------- one question, two answers

/** It takes its time, so that nobody's answer is over before the other one comes: that would be a message of its own. */
const QUESTION = '/demo deltas=20 rate=40 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
/** Reads what a client reads to answer, and gives how it does. */
type Answering = (person: Person, thread: string, run: string) => Promise<() => Promise<Answer>>

const ANSWERS: Readonly<Record<string, Answering>> = {
  'AI SDK': async (person, thread) => {
    const all = (await person.get(`/api/ai/chat/${thread}`)).body as Json[]
    const last = all.at(-1)!
    const parts = (last.parts as Json[]).map((part) =>
      String(part.type).startsWith('dynamic-tool') ? { ...part, state: 'output-available', output: 'Blue' } : part
    )
    const body = { id: thread, messageId: last.id, messages: [...all.slice(0, -1), { ...last, parts }] }
    return () => person.post('/api/ai/chat', body)
  },
  'AG-UI': async (person, thread) => {
    const page = (await person.get(`/api/agui/lead_agent?threadId=${thread}`)).body
    const resume = listIn(page, 'interrupts', 'pending').map((one) => ({
      interruptId: at(one, 'id'),
      status: 'resolved',
      payload: 'Blue'
    }))
    const body = { threadId: thread, runId: crypto.randomUUID(), messages: [], resume }
    return () => person.post('/api/agui/lead_agent', body)
  },
  A2A: async (person, _thread, run) => () =>
    person.post('/a2a/lead_agent', rpc('SendMessage', message('Blue', { taskId: run }))),
  MCP: async (person, thread) => {
    const params = { name: 'lead_agent', arguments: { message: 'Blue', thread_id: thread } }
    return () => person.post('/mcp', rpc('tools/call', params), { headers: MCP })
  }
}

let tabStore: Store
const tabs = await openSite(t, {
  config: { memory: { enabled: false }, title: { enabled: false } },
  behind: (opened) => {
    tabStore = opened
    return opened
  }
})

for (const [name, answer] of Object.entries(ANSWERS))
  t.test(`${name}: of two tabs that answer one question at once one wins, and the other is told`, async (t) => {
    const person = await programOf(await signIn(tabs), ...PERMISSIONS)
    const thread = await person.thread()
    const row = await person.run(thread, QUESTION)
    await until(async () => at((await person.get(row)).body, 'status') === 'interrupted', 'it asks')
    const run = row.split('/').at(-1)!
    const ready = await Promise.all([answer(person, thread, run), answer(person, thread, run)])
    const answers = await Promise.all(ready.map((send) => send()))
    await until(async () => (await inFlightOf(thread)) === 0, 'all is over')
    await oneWins(t, thread, answers, await wordsBeside(person, thread))
  })

t.test('OpenAI: of two tabs that send the output of one call at once one wins, and the other is told', async (t) => {
  const person = await programOf(await signIn(tabs), ...PERMISSIONS)
  const tools = [{ type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} } }]
  const asking = (await person.post('/v1/responses', { input: '/demo rate=20 deltas=10 tool=get_weather', tools })).body
  const call = listIn(asking, 'output').find((item) => at(item, 'type') === 'function_call')
  const output = { type: 'function_call_output', call_id: textIn(call, 'call_id'), output: 'sunny' }
  const answer = () =>
    person.post('/v1/responses', { input: [output], tools, previous_response_id: textIn(asking, 'id') })
  const answers = await Promise.all([answer(), answer()])
  const conversation = textIn(asking, 'conversation', 'id')
  await oneWins(t, conversation.replace(/^conv_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'), answers)
})

/** Messages to the agent at work: what an A2A client sends to a task that goes on already, as on a slow machine. */
async function wordsBeside(person: Person, thread: string): Promise<number> {
  const messages = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages')
  return messages.filter((one) => at(one, 'type') === 'human' && at(one, 'content') === 'Blue').length
}

async function oneWins(t: Test, thread: string, answers: readonly Answer[], beside = 0): Promise<void> {
  const resumed = (await tabStore.runs.list(thread, { limit: 10, offset: 0 }, null)).filter(
    ({ kwargs }) => at(kwargs, 'command', 'resume') !== undefined && at(kwargs, 'command') !== null
  )
  t.equal(resumed.length, 1, answers.map(({ text }) => text.slice(0, 300)).join('\n'))
  const late = answers.filter(({ status, text }) => status >= 400 || /"error"(?!:null)|"isError":true/.test(text))
  t.equal(late.length + beside, 1, 'and one is told')
}

const inFlightOf = async (thread: string) => (await tabStore.runs.inFlight(thread)).length
