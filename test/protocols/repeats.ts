// Idempotency-Key: in every protocol a request that is sent twice under one key begins one run, and the key of another request is refused
// in the protocol's own form.
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { Store } from '../../lib/store/store.ts'
import { type Answer, at, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

type Json = Record<string, unknown>

interface Way {
  readonly path: string
  body(words: string): Json
  readonly headers?: Readonly<Record<string, string>>
  /** How a key of another request is refused. */
  readonly refused: Json
}

const HELLO = '/demo rate=0 deltas=3'
const OTHER = '/demo rate=0 deltas=4'

let asked = 0
const rpc = (method: string, params: Json): Json => ({ jsonrpc: '2.0', id: ++asked, method, params })
const user = (content: string) => ({ role: 'user', content })
const a2a = (text: string) => ({ message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text }] } })
const agui = (text: string) => ({
  threadId: crypto.randomUUID(),
  runId: `run ${text}`,
  messages: [{ id: 'm1', ...user(text) }]
})
const OPENAI = { status: 409, body: { error: { code: 'idempotency_conflict', message: /Idempotency-Key/ } } }
const CONTRACT = { status: 409, body: { detail: /Idempotency-Key/ } }
const RPC = { error: { code: -32602, message: /Idempotency-Key/ } }

const WAYS: Readonly<Record<string, Way>> = {
  'responses, waited for': { path: '/v1/responses', body: (input) => ({ input }), refused: OPENAI },
  'responses, streamed': { path: '/v1/responses', body: (input) => ({ input, stream: true }), refused: OPENAI },
  'responses, in the background': {
    path: '/v1/responses',
    body: (input) => ({ input, background: true }),
    refused: OPENAI
  },
  'chat completions': {
    path: '/v1/chat/completions',
    body: (words) => ({ model: 'lead_agent', messages: [user(words)] }),
    refused: OPENAI
  },
  'AI SDK': {
    path: '/api/ai/chat',
    body: (text) => ({ id: 'a chat', messages: [{ id: text, role: 'user', parts: [{ type: 'text', text }] }] }),
    refused: CONTRACT
  },
  'AG-UI': { path: '/api/agui/lead_agent', body: (text) => ({ ...agui(text), threadId: 'mine' }), refused: CONTRACT },
  CopilotKit: {
    path: '/api/copilotkit/agent/lead_agent/run',
    body: (text) => ({ ...agui(text), threadId: 'mine' }),
    refused: CONTRACT
  },
  'A2A, JSON-RPC': {
    path: '/a2a/lead_agent',
    body: (text) => rpc('SendMessage', a2a(text)),
    refused: { status: 409, body: RPC }
  },
  'A2A, HTTP+JSON': {
    path: '/a2a/lead_agent/message:send',
    body: a2a,
    refused: { status: 409, body: { error: { code: 409, status: 'ABORTED', message: /Idempotency-Key/ } } }
  },
  MCP: {
    path: '/mcp',
    headers: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
    body: (message) => rpc('tools/call', { name: 'lead_agent', arguments: { message } }),
    refused: { status: 200, body: RPC }
  }
}

const config = { memory: { enabled: false }, title: { enabled: false } }
let store: Store
const behind = (opened: Store) => {
  store = opened
  return opened
}
const site = await openSite(t, { config, behind })

async function newcomer(): Promise<{ program: Person; runs(): Promise<string[]> }> {
  const person = await signIn(site)
  const id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const runs = async () => (await store.runs.begun(0, 100, id)).runs.map(({ run_id }) => run_id)
  return { program: await programOf(person, ...PERMISSIONS), runs }
}

const send = (program: Person, { path, body, headers = {} }: Way, words: string, key: string): Promise<Answer> =>
  program.post(path, body(words), { headers: { ...headers, 'Idempotency-Key': key } })

for (const [name, way] of Object.entries(WAYS)) {
  t.test(`${name}: the same key twice is one run, and with another body it is refused`, async (t) => {
    const { program, runs } = await newcomer()
    const answers = [await send(program, way, HELLO, 'k'), await send(program, way, HELLO, 'k')]
    for (const { status, text } of answers) t.equal(status, 200, text)
    const [own, ...more] = await runs()
    t.ok(own)
    t.strictSame(more, [])
    const other = await send(program, way, OTHER, 'k')
    t.match({ status: other.status, body: other.body }, way.refused)
    t.equal((await runs()).length, 1)
    const long = await send(program, way, HELLO, 'k'.repeat(256))
    t.match(long.text, /Idempotency-Key/)
    // AG-UI calls its runs itself: one that is known is joined, whatever its key.
    if (!/AG-UI|CopilotKit/.test(name)) {
      await send(program, way, HELLO, 'another')
      t.equal((await runs()).length, 2)
    }
    const stranger = await newcomer()
    t.equal((await send(stranger.program, way, HELLO, 'k')).status, 200, 'a key is its user’s')
    t.equal((await stranger.runs()).length, 1)
  })

  t.test(`${name}: two at once under one key are one run`, async (t) => {
    const { program, runs } = await newcomer()
    const all = await Promise.all([1, 2, 3].map(() => send(program, way, '/demo rate=200 deltas=20', 'k')))
    for (const { status, text } of all) t.equal(status, 200, text)
    t.equal((await runs()).length, 1)
  })
}

t.test('what is sent again later in a conversation finds its run, whatever was said since', async (t) => {
  const { program, runs } = await newcomer()
  const first = await program.post('/v1/responses', { input: HELLO })
  const previous_response_id = textIn(first.body, 'id')
  const headers = { 'Idempotency-Key': 'k' }
  const next = { input: OTHER, previous_response_id }
  const second = await program.post('/v1/responses', next, { headers })
  const third = { input: HELLO, previous_response_id: textIn(second.body, 'id') }
  await program.post('/v1/responses', third)
  const again = await program.post('/v1/responses', next, { headers })
  t.strictSame(at(again.body, 'output'), at(second.body, 'output'))
  t.equal(textIn(again.body, 'id'), textIn(second.body, 'id'))
  t.equal((await runs()).length, 3)
})
