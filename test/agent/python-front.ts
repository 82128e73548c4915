// A Python project's own rules and routes: its Auth object and its ASGI app, in a process of their own.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { at, listIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { PYTHON_MISSING, pythonFiles, pythonFolder, pythonSite, SMALL } from '../fixtures/python-graphs.ts'

const options = { skip: PYTHON_MISSING, timeout: 240_000 }
const AUTH = { path: './auth.py:auth' }
const FOO = { assistant_id: 'agent', input: { messages: [{ role: 'user', content: 'foo' }] } }
const JSON_TYPE = { 'content-type': 'application/json' }

const siteWith = (t: Test, settings: object, config = {}) =>
  pythonSite(t, pythonFiles(graphsFolder(t, 'newest', { agent: 'graph' }, settings)), config)

t.test('rules and routes in Python serve who the rules know, beside graphs of another language', options, async (t) => {
  const { site, person, folder } = await siteWith(t, { auth: AUTH, http: { app: './app.py:app' } })
  const john = { authorization: 'Bearer john:me', ...JSON_TYPE }
  const post = (path: string, body: object, headers = john) =>
    fetch(site.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const made = await (await post('/threads', {})).json()
  t.match(made, { metadata: { owner: 'john' } }, 'what a rule changes is changed')
  t.match(await (await post(`/threads/${at(made, 'thread_id')}/runs/wait`, FOO)).json(), { messages: Array })
  const nobody = await post('/threads', {}, { ...john, authorization: 'Bearer nobody:me' })
  t.match([nobody.status, nobody.headers.get('www-authenticate')], [401, 'Bearer'])
  t.strictSame(await nobody.json(), { detail: 'Could not validate credentials' })
  t.equal((await post('/assistants', { graph_id: 'agent' })).status, 403)
  t.equal((await person.get(`/threads/${at(made, 'thread_id')}`)).status, 404, 'a filter hides')
  const me = await (await fetch(`${site.url}/custom/me`, { headers: john })).json()
  t.match(me, { user: { identity: 'john', team: 'blue', permissions: ['me'] }, state: 'at the start' })
  t.ok(existsSync(join(folder, 'began')))
  await site.stop()
  t.ok(existsSync(join(folder, 'ended')), 'its end is waited for')
})

t.test('a graph that blocks its process holds up nobody’s sign-in', options, async (t) => {
  const { site } = await pythonSite(t, pythonFolder(t, SMALL, { auth: AUTH }))
  const john = { authorization: 'Bearer john:me', ...JSON_TYPE }
  const post = (path: string, body: object) =>
    fetch(site.url + path, { method: 'POST', headers: john, body: JSON.stringify(body) })
  const input = { messages: [{ role: 'user', content: 'block' }] }
  let isOver = false
  const over = () => {
    isOver = true
  }
  // The head comes at once.
  post('/runs/wait', { assistant_id: 'agent', input })
    .then((answer) => answer.text())
    .then(over, over)
  await until(() => site.logged.some(([, , text]) => text === 'asked for block'), 'it blocks')
  for (let n = 0; n < 3; n++) t.equal((await post('/threads', {})).status, 200)
  t.notOk(isOver, 'it still does')
})

t.test('routes in Python go before ours and their middlewares around ours, and bodies stream', options, async (t) => {
  const { site, person } = await siteWith(t, { http: { app: './app.py:app' } }, { server: { body_bytes: 400_000 } })
  t.equal((await fetch(`${site.url}/custom/me`)).status, 401)
  t.equal((await person.get('/health')).text, 'their own')
  const thread = await person.thread()
  t.strictSame((await person.get(`/threads/${thread}/mine`)).body, { mine: thread })
  t.equal((await person.get(`/threads/${thread}/state`)).status, 200)
  t.equal((await person.post('/custom/echo', 'hello')).text, 'HELLO')
  const large = 'x'.repeat(300_000)
  t.equal((await person.post('/custom/mirror', large)).text, large, 'both ways')
  t.equal((await person.post('/custom/echo', large + large)).status, 413)
  t.equal((await person.get('/custom/stream')).text, 'Count: 0\nCount: 1\nCount: 2\n')
  t.equal((await person.get('/custom/cookies')).headers.getSetCookie().length, 2)
  t.match(await person.get('/custom/refused'), { status: 418, body: { detail: 'a teapot' } })
  t.equal((await person.get('/custom/broken')).status, 500)

  const info = await person.get('/info')
  t.strictSame([info.headers.get('x-middleware'), info.headers.get('x-seen')], ['here', '200'])
  t.strictSame((await person.get('/info?halt')).body, { status: 'halted' })
  t.equal((await person.get('/info?change')).text, JSON.stringify(info.body).toUpperCase())
  const read = await person.post('/threads?read', { metadata: { a: 'é' } })
  t.match(read, { status: 200, body: { metadata: { a: 'é' } } }, 'a body that one has read is ours as well')
  t.equal((await person.get('/threads/none')).headers.get('x-seen'), '404')
  t.equal((await person.get('/nowhere')).status, 404)
  for (const query of ['', '?read']) {
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream${query}`, { body: FOO })
    t.equal(stream.headers.get('x-middleware'), 'here')
    t.equal((await stream.whole()).at(-1)?.event, 'end')
  }
  await person.post(`/threads/${thread}/runs/wait`, { ...FOO, webhook: '/custom/webhook' })
  await until(async () => at((await person.get('/custom/webhook')).body, 'status') === 'success', 'the webhook')
})

t.test('a process of rules and routes that ends has one after it', options, async (t) => {
  const { person } = await siteWith(t, { http: { app: './app.py:app' } })
  t.equal((await person.get('/custom/exit')).status, 500)
  t.equal((await person.get('/health')).text, 'their own')
  const { body } = await person.post('/runs/wait', FOO)
  t.ok(listIn(body, 'messages').length > 0)
})

t.test('an app without a router has what we do not, and what cannot be used is one sentence', options, async (t) => {
  const { site, person } = await siteWith(t, { http: { app: './app.py:bare', enable_custom_route_auth: false } })
  t.equal(await (await fetch(`${site.url}/anything`)).text(), 'plain')
  t.strictSame((await person.post('/threads/search', {})).body, [], 'and not ours')
  const cases: readonly (readonly [settings: object, said: RegExp])[] = [
    [{ http: { app: './app.py:broken_start' } }, /app of http\.app does not start: .*no database/s],
    [{ http: { app: './app.py:nothing' } }, /\.\/app\.py has no nothing, which http\.app names/],
    [{ http: { app: './app.py' } }, /write "\.\/app\.py:name"/],
    [{ auth: { path: './app.py:app' } }, /is not an Auth object of langgraph_sdk/],
    [{ auth: { path: './nowhere.py:auth' } }, /There is no file .*nowhere\.py/]
  ]
  for (const [settings, message] of cases) await t.rejects(siteWith(t, settings), { message })
})
