// Streams of every protocol that is not ours end with the credential that reads them.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { listIn, openSite, signIn, textIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

const LONG = '/demo deltas=100000 rate=20'
const rpc = (method: string, params: JsonObject): JsonObject => ({ jsonrpc: '2.0', id: 1, method, params })

/** How each begins a run and reads it, and how it reads the run of somebody else's protocol; `null`: a GET. */
const READING: Readonly<
  Record<string, (thread: string, run: string) => readonly [path: string, body: JsonObject | null]>
> = {
  'OpenAI, a new response': () => ['/v1/responses', { model: 'lead_agent', input: LONG, stream: true }],
  'OpenAI, a response again': (_, run) => [`/v1/responses/resp_${run.replaceAll('-', '')}?stream=true`, null],
  'OpenAI, a completion': () => [
    '/v1/chat/completions',
    { model: 'lead_agent', messages: [{ role: 'user', content: LONG }], stream: true }
  ],
  'AI SDK, a message': () => [
    '/api/ai/chat',
    {
      id: randomUUID(),
      messages: [{ id: 'm1', role: 'user', parts: [{ type: 'text', text: LONG }] }],
      trigger: 'submit-message'
    }
  ],
  'AI SDK, a chat again': (thread) => [`/api/ai/chat/${thread}/stream`, null],
  'AG-UI, a run': () => [
    '/api/agui/lead_agent',
    {
      threadId: randomUUID(),
      runId: randomUUID(),
      messages: [{ id: 'm1', role: 'user', content: LONG }],
      tools: [],
      context: [],
      state: {},
      forwardedProps: {}
    }
  ],
  'AG-UI, a run again': (thread, run) => [`/api/agui/threads/${thread}/runs/${run}`, null],
  'A2A, a message': () => [
    '/a2a/lead_agent',
    rpc('SendStreamingMessage', { message: { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: LONG }] } })
  ],
  'A2A, a task again': (_, run) => ['/a2a/lead_agent', rpc('SubscribeToTask', { id: run })],
  'MCP, a call': () => ['/mcp', rpc('tools/call', { name: 'lead_agent', arguments: { message: LONG } })]
}

t.test('a token that is revoked resets every stream of every protocol', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const { token } = await programOf(person, ...PERMISSIONS)
  const thread = await person.thread()
  const run = (await person.run(thread, LONG)).split('/').at(-1)!
  const headers = {
    authorization: `Bearer ${token}`,
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'a2a-version': '1.0',
    'mcp-protocol-version': '2025-11-25'
  }
  const streams = Object.entries(READING).map(async ([name, requestOf]) => {
    const [path, body] = requestOf(thread, run)
    const answer = await fetch(site.url + path, {
      method: body ? 'POST' : 'GET',
      headers,
      ...(body && { body: JSON.stringify(body) })
    })
    const text = answer.text().catch(() => 'reset')
    const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
    return { name, status: answer.status, isStream, text }
  })
  const opened = await Promise.all(streams)
  for (const { name, status, isStream, text } of opened)
    if (!t.strictSame([status, isStream], [200, true], name)) t.comment((await text).slice(0, 300))
  await until(() => site.sizes().streams === opened.length, 'all are open')
  const [own] = listIn((await person.get('/api/v1/auth/tokens')).body, 'tokens')
  await person.ask('DELETE', `/api/v1/auth/tokens/${textIn(own, 'token_id')}`)
  for (const { name, text } of opened) t.equal(await text, 'reset', name)
  await until(() => site.sizes().streams === 0, 'none is left')
})

t.test('an answer that waits is refused in its form when its credential ends', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const { token } = await programOf(person, ...PERMISSIONS)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'a2a-version': '1.0' }
  const messages = [{ role: 'user', content: LONG }]
  const ofOpenai = { error: { type: 'authentication_error', code: 'invalid_api_key' } }
  const message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: LONG }] }
  const asked: readonly [path: string, body: JsonObject, refusal: object][] = [
    ['/v1/responses', { input: LONG }, ofOpenai],
    ['/v1/chat/completions', { messages }, ofOpenai],
    ['/a2a/lead_agent', rpc('SendMessage', { message }), { id: 1, error: { message: 'Invalid token' } }],
    ['/a2a/lead_agent/message:send', { message }, { error: { status: 'UNAUTHENTICATED' } }],
    ['/api/runs/wait', { input: { messages } }, { detail: { code: 'token_invalid' } }]
  ]
  const answers = asked.map(([path, body]) =>
    fetch(site.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  )
  await until(() => site.sizes().streams === asked.length, 'all are waiting')
  const [own] = listIn((await person.get('/api/v1/auth/tokens')).body, 'tokens')
  await person.ask('DELETE', `/api/v1/auth/tokens/${textIn(own, 'token_id')}`)
  for (const [i, answer] of (await Promise.all(answers)).entries())
    t.match({ status: answer.status, body: await answer.json() }, { status: 401, body: asked[i]![2] }, asked[i]![0])
})
