// API tokens over HTTP: made by a session, shown once, good for what their scopes say, with no cookie and no CSRF header.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { command, startChild } from '../fixtures/child.ts'
import { asked, at, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { table } from '../fixtures/openapi.ts'
import { Program, programOf } from '../fixtures/program.ts'

const AUTH = '/api/v1/auth'
const TOKENS = `${AUTH}/tokens`
const LONG = '/demo deltas=9999 rate=30'
const MEMORY = { database: { backend: 'memory' } }

const denied = (permission: string) => ({ status: 403, body: { detail: `Permission denied: ${permission}` } })

t.test('a token is shown once: when it is made', async (t) => {
  const person = await signIn(await openSite(t))
  const made = await person.post(TOKENS, { name: ' nightly ', scopes: ['runs:read', 'runs:read'], expires_in_days: 30 })
  t.match(made, {
    status: 201,
    body: { name: 'nightly', scopes: ['runs:read'], token: /^clq_[A-Za-z0-9_-]{43}$/, last_used_at: null }
  })
  const days = (Date.parse(textIn(made.body, 'expires_at')) - Date.parse(textIn(made.body, 'created_at'))) / 86_400_000
  t.equal(days, 30)
  const { token, ...rest } = made.body as Record<string, unknown>
  const listed = await person.get(TOKENS)
  t.strictSame(listed.body, { tokens: [rest] })
  t.notOk(listed.text.includes('digest'))
  t.equal(new Set([token, textIn((await person.post(TOKENS)).body, 'token')]).size, 2)
})

t.test('what cannot be a token is refused: 422', async (t) => {
  const person = await signIn(await openSite(t))
  for (const body of [
    { scopes: ['threads:everything'] },
    { scopes: 'threads:read' },
    { scopes: ['admin'] },
    { name: '' },
    { name: 'x'.repeat(101) },
    { expires_in_days: 0 },
    { expires_in_days: 1.5 }
  ]) {
    t.equal((await person.post(TOKENS, body)).status, 422, JSON.stringify(body))
  }
  t.strictSame((await person.get(TOKENS)).body, { tokens: [] })
})

t.test('a token works in either header, without cookie and CSRF header', async (t) => {
  const person = await signIn(await openSite(t))
  const { token } = await programOf(person, 'threads:write', 'threads:read')
  const bare = new Person(person.url)
  const worn: Record<string, string>[] = [
    { authorization: `Bearer ${token}` },
    { authorization: `bearer  ${token}` },
    { 'x-api-key': token }
  ]
  for (const headers of worn) {
    const made = await bare.post('/api/threads', {}, { headers })
    t.equal(made.status, 200)
    t.equal((await bare.get(`/api/threads/${textIn(made.body, 'thread_id')}`, { headers })).status, 200)
  }
  t.equal(bare.cookies.size, 0, 'no cookie is set')
  // What is no token of ours is somebody else's business: a proxy's, or a model key that a client sends everywhere.
  const foreign: Record<string, string>[] = [
    { authorization: 'Bearer eyJhbGciOi.x.y' },
    { 'x-api-key': 'sk-model' },
    { authorization: token }
  ]
  for (const headers of foreign) {
    t.match(await bare.get('/api/threads/x', { headers }), {
      status: 401,
      body: { detail: { code: 'not_authenticated' } }
    })
    // A key that is wrong is wrong; only what is no key at all is a matter of CSRF.
    const isKey = headers.authorization !== token
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      t.equal((await bare.ask(method, '/api/threads/x', { headers })).status, isKey ? 401 : 403, method)
  }
  const beside = { authorization: 'Basic abc', 'x-api-key': token }
  t.equal((await bare.post('/api/threads', {}, { headers: beside })).status, 200)
  t.equal((await person.get('/api/threads/x', { headers: { 'x-api-key': 'sk-model' } })).status, 404)
})

t.test(
  'a request with any cookie keeps the rule of sessions: the CSRF header is needed, the cookie counts',
  async (t) => {
    const site = await openSite(t)
    const person = await signIn(site, 'ada')
    const { token } = await programOf(await signIn(site, 'bob'), 'threads:write')
    const headers = { authorization: `Bearer ${token}` }
    t.match(await person.post('/api/threads', {}, { headers, csrf: false }), { status: 403, body: { detail: /CSRF/ } })
    const made = await person.post('/api/threads', {}, { headers })
    t.equal((await person.get(`/api/threads/${textIn(made.body, 'thread_id')}`)).status, 200, 'made by the session')
    const bare = new Person(site.url)
    const sent = (cookie: string, more: object = {}) =>
      bare.post('/api/threads', {}, { csrf: false, headers: { ...headers, cookie, ...more } })
    t.match(await sent('theme=dark'), { status: 403, body: { detail: /CSRF token missing/ } })
    t.match(await sent('csrf_token=mine', { 'x-csrf-token': 'mine' }), { status: 200 })
    t.match(await sent('access_token=junk; csrf_token=mine', { 'x-csrf-token': 'mine' }), {
      status: 401,
      body: { detail: { code: 'token_invalid' } }
    })
  }
)

/** Rows of the table that keep their answer open. */
const openRows = () =>
  // The contract's, and LangGraph's; the others' are in protocols/revocation.
  table.filter(({ isStream, path }) => isStream && !isOfOthers(path))

const isOfOthers = (path: string) => /^\/(v1|mcp|a2a|api\/(ai|agui|copilotkit))\b/.test(path)

t.test('a token that is revoked ends every answer that waits with 401, and resets every stream', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const program = await programOf(person, ...PERMISSIONS)
  const thread_id = await person.thread()
  const run_id = (await person.run(thread_id, '/demo deltas=100000 rate=20')).split('/').at(-1)!
  const given = { channels: ['lifecycle'], ...asked('/demo deltas=100000 rate=20', { multitask_strategy: 'enqueue' }) }
  // What is only spoken over a WebSocket.
  let refused = 0
  const asks = openRows().map(async ({ method, path }) => {
    const filled = path.replace('{thread_id}', thread_id).replace('{run_id}', run_id)
    const headers = { ...program.headers(), accept: 'application/json', 'content-type': 'application/json' }
    const body = method === 'POST' ? JSON.stringify(given) : null
    const response = await fetch(site.url + filled, { method, headers, body })
    const { status } = response
    if (status === 426) refused++
    const isStream = response.headers.get('content-type')?.includes('event-stream')
    return { name: `${method} ${path}`, status, isStream, text: await response.text().catch(() => 'reset') }
  })
  await until(() => site.sizes().streams === asks.length - refused, 'all of them')
  const [token] = listIn((await person.get('/api/v1/auth/tokens')).body, 'tokens')
  t.equal((await person.ask('DELETE', `/api/v1/auth/tokens/${textIn(token, 'token_id')}`)).status, 200)
  let waiting = 0
  for (const { name, status, isStream, text } of await Promise.all(asks)) {
    if (isStream) t.equal(text, 'reset', name)
    else if (status !== 426) {
      waiting++
      t.match([status, text], [401, /"code":"token_invalid"/], name)
    }
  }
  t.equal(waiting, 3, 'runs/wait of a thread and of none, and the JSON of a join')
})

t.test('a token that is none, was revoked or has ended is 401 with the one message', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const program = await programOf(person, 'threads:read')
  const get = (token: string) => new Program(site.url, token).get('/api/threads/x')
  const invalid = { status: 401, body: { detail: { code: 'token_invalid', message: 'Invalid token' } } }
  t.equal((await get(program.token)).status, 404)
  for (const junk of ['clq_', `${program.token.slice(0, -2)}xx`, `${program.token}x`, program.token.toUpperCase()])
    t.match(await get(junk), junk.startsWith('clq_') ? invalid : { status: 401 }, junk.slice(0, 8))
  const id = textIn((await person.get(TOKENS)).body, 'tokens', 0, 'token_id')
  const other = await signIn(site, 'other')
  t.equal((await other.ask('DELETE', `${TOKENS}/${id}`)).status, 404, "somebody else's does not exist")
  t.strictSame((await other.get(TOKENS)).body, { tokens: [] })
  t.equal((await get(program.token)).status, 404)
  t.match(await person.ask('DELETE', `${TOKENS}/${id}`), { status: 200, body: { success: true } })
  t.match(await get(program.token), invalid)
  t.equal((await person.ask('DELETE', `${TOKENS}/${id}`)).status, 404)
})

t.test('a token acts for its user and sees what is his alone', async (t) => {
  const site = await openSite(t)
  const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
  const thread = await bob.thread()
  const mine = await ada.thread()
  const program = await programOf(ada, ...PERMISSIONS)
  t.equal((await program.get(`/api/threads/${thread}`)).status, 404)
  t.equal((await program.ask('DELETE', `/api/threads/${thread}`)).status, 404)
  t.strictSame(
    listIn((await program.post('/api/threads/search')).body).map((one) => at(one, 'thread_id')),
    [mine]
  )
})

t.test('to start a run is not to stop others: strategies and actions that cancel need runs:cancel', async (t) => {
  const site = await openSite(t, { config: { runs: { disconnect_grace_ms: 20 } } })
  const person = await signIn(site)
  const thread = await person.thread()
  const path = await person.run(thread, LONG)
  const starts = await programOf(person, 'runs:create', 'runs:read')
  const stops = await programOf(person, 'runs:create', 'runs:read', 'runs:cancel')
  const here = { config: { configurable: { thread_id: thread } } }
  for (const multitask_strategy of ['interrupt', 'rollback']) {
    const body = asked('x', { multitask_strategy })
    t.match(await starts.post(`/api/threads/${thread}/runs`, body), denied('runs:cancel'))
    t.match(await starts.post('/api/runs/wait', { ...body, ...here }), denied('runs:cancel'))
  }
  t.match(await starts.post(`${path}/stream?action=interrupt`), denied('runs:cancel'))
  t.match(await starts.post(`${path}/cancel`), denied('runs:cancel'))
  const reading = await programOf(person, 'runs:read')
  const joined = await reading.open('GET', `${path}/stream?cancel_on_disconnect=1`)
  await joined.untilFrames(2)
  joined.leave()
  const page = await person.open('GET', `${path}/stream?cancel_on_disconnect=1`)
  await page.untilFrames(2)
  page.leave()
  // Nothing is read that could be left.
  const head = await fetch(`${person.url}${path}/stream?cancel_on_disconnect=1`, {
    method: 'HEAD',
    headers: stops.headers()
  })
  t.equal(head.status, 200)
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.equal(at((await person.get(path)).body, 'status'), 'running', 'nor a page, which any other could have asked for it')
  const next = await stops.post(`/api/threads/${thread}/runs`, asked('x', { multitask_strategy: 'interrupt' }))
  t.equal(next.status, 200)
  await until(async () => at((await person.get(path)).body, 'status') === 'interrupted', 'the interrupt')
})

t.test('the last use is noted, and not with every request', async (t) => {
  const person = await signIn(await openSite(t))
  const program = await programOf(person, 'threads:read')
  const lastUse = async () => at((await person.get(TOKENS)).body, 'tokens', 0, 'last_used_at')
  t.equal(await lastUse(), null)
  await program.get('/api/threads/x')
  await until(async () => (await lastUse()) !== null, 'the note')
  const first = await lastUse()
  for (let i = 0; i < 5; i++) await program.get('/api/threads/x')
  t.equal(await lastUse(), first, 'to the minute')
})

t.test('an account has a hundred tokens at most', async (t) => {
  const person = await signIn(await openSite(t, { config: MEMORY }))
  for (let i = 0; i < 100; i++) t.equal((await person.post(TOKENS)).status, 201)
  t.match(await person.post(TOKENS), { status: 409, body: { detail: /at most 100 API tokens/ } })
  await person.ask('DELETE', `${TOKENS}/${textIn((await person.get(TOKENS)).body, 'tokens', 7, 'token_id')}`)
  t.equal((await person.post(TOKENS)).status, 201)
})

t.test('colloquy token makes, lists and revokes beside the running server, which is bound by it at once', async (t) => {
  const child = await startChild(t, { config: { streams: { heartbeat_ms: 200 } } })
  const person = await signIn(child)
  const email = textIn((await person.get(`${AUTH}/me`)).body, 'email')
  const made = await command(
    child.home,
    ...['token', 'create', '--email', email.toUpperCase(), '--scope', 'threads:write,threads:read'],
    ...['--scope', 'runs:create', '--name', 'nightly', '--expires-in-days', '7']
  )
  t.equal(made.code, 0, made.errors)
  t.match(made.out, /^clq_[A-Za-z0-9_-]{43}\n$/, 'alone on stdout')
  const program = new Program(child.url, made.out.trim())
  const stream = await program.stream(await program.thread(), LONG)
  await stream.untilFrames(2)
  t.match(await program.ask('DELETE', stream.runPath.replace(/\/runs.*/, '')), denied('threads:delete'))
  const others = await person.join(stream.runPath)
  await others.untilFrames(2)

  const listed = await command(child.home, 'token', 'list', '--email', email)
  const [line = '', ...more] = listed.out.trimEnd().split('\n')
  const [id = '', name, scopes, ends] = line.split('\t')
  t.strictSame([more, name, scopes], [[], 'nightly', 'threads:write,threads:read,runs:create'])
  t.match(ends, /^expires 20/)
  t.match(listAnswer(await person.get(TOKENS)), [{ token_id: id, name: 'nightly' }], 'over HTTP it is the same')

  t.equal((await command(child.home, 'token', 'revoke', id)).code, 0)
  t.equal((await program.get('/api/threads/x')).status, 401)
  // Behind a heartbeat that has not been read yet, libuv tells its reader of a reset as of an end in the middle.
  t.match(await stream.ended, /reset|cut/, 'its stream ends within a heartbeat')
  t.notOk(others.isOver, 'that of the session goes on')
  others.leave()

  for (const [code, ...args] of [
    [1, 'token', 'revoke', id],
    [1, 'token', 'create', '--email', 'nobody@example.com'],
    [2, 'token', 'create', '--email', email, '--scope', 'threads:all']
  ] as const) {
    const said = await command(child.home, ...args)
    t.strictSame([said.code, said.out], [code, ''], args.join(' '))
  }
  t.equal((await command(child.home, 'token', 'list')).code, 2)
  t.equal((await command(child.home, 'token', 'revoke')).code, 2)
  t.match((await command(child.home, 'token', 'create', '--email', email)).errors, /no scopes/)

  const files = readdirSync(child.home, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  for (const one of files)
    t.notOk(readFileSync(join(one.parentPath, one.name)).includes(program.token), `${one.name} does not hold the token`)
  t.notOk(child.log.includes(program.token))
})

t.test('with the memory backend colloquy token says that it cannot, and ends with 1', async (t) => {
  const child = await startChild(t, { config: MEMORY })
  const said = await command(child.home, 'token', 'create', '--email', 'a@example.com')
  t.match(said, { code: 1, out: '', errors: /memory/ })
})

t.test('a token outlives a change of password; a session does not make it stronger', async (t) => {
  const person = await signIn(await openSite(t))
  const program = await programOf(person, 'threads:read')
  const change = { current_password: PASSWORD, new_password: 'another-horse-43' }
  t.equal((await person.post(`${AUTH}/change-password`, change)).status, 200)
  t.equal((await program.get('/api/threads/x')).status, 404)
  t.equal((await program.get(`${AUTH}/me`)).status, 200)
})

t.test('[18.B.3] a change of password says how many tokens stand, and ends them when it is told to', async (t) => {
  const person = await signIn(await openSite(t))
  const [one, other] = [await programOf(person, 'threads:read'), await programOf(person)]
  const change = (from: string, to: string, more: object = {}) =>
    person.post(`${AUTH}/change-password`, { current_password: from, new_password: to, ...more })
  t.match(await change(PASSWORD, 'another-horse-43'), { status: 200, body: { tokens_revoked: 0, tokens_standing: 2 } })
  t.equal((await one.get(`${AUTH}/me`)).status, 200)
  const ended = await change('another-horse-43', 'third-horse-44', { revoke_tokens: true })
  t.match(ended, { status: 200, body: { tokens_revoked: 2, tokens_standing: 0 } })
  for (const program of [one, other]) t.equal((await program.get(`${AUTH}/me`)).status, 401)
})

t.test(
  '[17.1.12] a token without any scope may look at itself and at what is there, and at nothing else',
  async (t) => {
    const program = await programOf(await signIn(await openSite(t)))
    for (const path of [`${AUTH}/me`, '/api/models', '/api/models/demo', '/api/features'])
      t.equal((await program.get(path)).status, 200, path)
    t.equal((await program.get('/api/memory')).status, 403)
  }
)

function listAnswer({ body }: { readonly body: unknown }): readonly unknown[] {
  return listIn(body, 'tokens')
}
