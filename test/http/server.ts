// One request's life: the guards in their order, the handler, and everything that the network can do meanwhile.
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import t from 'tap'
import * as v from 'valibot'
import { fail } from '../../lib/errors.ts'
import { Proxies } from '../../lib/http/address.ts'
import { TAKEN } from '../../lib/http/call.ts'
import { Origins, requireUser } from '../../lib/http/guards.ts'
import { openStream } from '../../lib/http/reply.ts'
import { type Route, type RouteSpec, route } from '../../lib/http/route.ts'
import { currentUserId } from '../../lib/scope.ts'
import { openDoor } from '../fixtures/door.ts'

const spec = (more: Partial<RouteSpec<undefined, undefined>>): Route =>
  route({ method: 'GET', path: '/api/x', access: 'user', handler: () => ({ json: 'ok' }), ...more })
const health = spec({ path: '/health', access: 'public', handler: () => ({ json: { status: 'healthy' } }) })

t.test('[Auth 2] a state-changing request with neither CSRF nor session is 403, known path or not', async (t) => {
  const door = await openDoor(t, [spec({ method: 'POST' })])
  for (const path of ['/api/x', '/api/no-such-route', '/health']) {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await door.knock(method, path)
      t.strictSame(
        [answer.status, answer.body.detail],
        [403, 'CSRF token missing. Include X-CSRF-Token header.'],
        `${method} ${path}`
      )
    }
  }
})

t.test('[Auth 2] any equal pair of cookie and header passes, nothing else does', async (t) => {
  const door = await openDoor(t, [spec({ method: 'POST' })])
  const send = (cookie: string, header?: string) =>
    door.knock('POST', '/api/x', {
      headers: { cookie: `access_token=token-u${cookie}`, ...(header === undefined ? {} : { 'x-csrf-token': header }) }
    })
  t.equal((await send('; csrf_token=mine', 'mine')).status, 200)
  t.equal((await send('; csrf_token=a,b', 'a,b')).status, 200)
  t.match(await send('; csrf_token=mine', 'other'), { status: 403, body: { detail: 'CSRF token mismatch.' } })
  t.equal((await send('; csrf_token=mine', 'min')).status, 403)
  t.equal((await send('; csrf_token=mine')).status, 403)
  t.equal((await send('', 'mine')).status, 403)
  t.equal((await send('; csrf_token=', '')).status, 403)
})

t.test('[Auth 2] GET, HEAD and OPTIONS need no CSRF header', async (t) => {
  const door = await openDoor(t, [spec({})])
  for (const [method, status] of [
    ['GET', 200],
    ['HEAD', 200],
    ['OPTIONS', 405]
  ] as const) {
    t.equal(
      (await door.knock(method, '/api/x', { headers: { cookie: 'access_token=token-u' } })).status,
      status,
      method
    )
  }
})

t.test('[Auth 3] without a cookie every path below /api is 401, with a session the unknown ones are 404', async (t) => {
  const door = await openDoor(t, [spec({}), health])
  for (const path of ['/api/x', '/api/no-such-route', '/api', '/api/x/', '/api/langgraph/x']) {
    t.match(
      await door.knock('GET', path),
      { status: 401, body: { detail: { code: 'not_authenticated', message: 'Authentication required' } } },
      path
    )
  }
  t.match(await door.knock('GET', '/api/none', { as: 'u' }), { status: 404, body: { detail: 'Not Found' } })
  t.match(
    await door.knock('GET', '/none'),
    { status: 404, body: { detail: 'Not Found' } },
    "other paths are nobody's secret"
  )
  t.equal((await door.knock('GET', '/api/langgraph/x', { as: 'u' })).status, 200)
})

t.test('[Auth 3] a junk token is 401 token_invalid; public paths answer with it all the same', async (t) => {
  const door = await openDoor(t, [spec({}), health])
  for (const token of ['junk', '', ' ', '""']) {
    t.match(await door.knock('GET', '/api/x', { headers: { cookie: `access_token=${token}` } }), {
      status: 401,
      body: { detail: { code: 'token_invalid' } }
    })
    t.equal((await door.knock('GET', '/health/', { headers: { cookie: `access_token=${token}` } })).status, 200)
  }
})

t.test('[Auth 4] the handler runs as its user, also after an await, and nobody runs as the user before', async (t) => {
  const who = spec({
    handler: async ({ user }) => {
      await new Promise((resolve) => setImmediate(resolve))
      return { json: [user?.id, currentUserId()] }
    }
  })
  const nobody = spec({ path: '/who', access: 'public', handler: ({ user }) => ({ json: [user, currentUserId()] }) })
  const door = await openDoor(t, [who, nobody])
  const answers = await Promise.all(['a', 'b', 'c'].map((as) => door.knock('GET', '/api/x', { as })))
  t.strictSame(
    answers.map((answer) => answer.body),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c']
    ]
  )
  t.strictSame((await door.knock('GET', '/who', { as: 'a' })).body, [null, null])
})

t.test('[Auth 5] requireUser holds by itself where a route forgot to ask for a session', async (t) => {
  const careless = spec({ path: '/careless', access: 'public', handler: (call) => ({ json: requireUser(call).id }) })
  const door = await openDoor(t, [careless])
  t.match(await door.knock('GET', '/careless', { as: 'u' }), {
    status: 401,
    body: { detail: { code: 'not_authenticated' } }
  })
})

t.test(
  '[Auth 6] the owner matrix: read allows a missing record, write needs it, a foreign thread is 404',
  async (t) => {
    const routes = (['read', 'write'] as const).map((thread) =>
      spec({ path: `/api/threads/{thread_id}/${thread}`, thread })
    )
    const door = await openDoor(t, routes, { owners: { mine: 'u', shared: null, foreign: 'other' } })
    const statuses = async (kind: string) =>
      Promise.all(
        ['missing', 'shared', 'mine', 'foreign'].map(
          async (id) => (await door.knock('GET', `/api/threads/${id}/${kind}`, { as: 'u' })).status
        )
      )
    t.strictSame(await statuses('read'), [200, 200, 200, 404])
    t.strictSame(await statuses('write'), [404, 200, 200, 404])
    const [foreign, missing] = await Promise.all(
      ['foreign', 'missing'].map((id) => door.knock('GET', `/api/threads/${id}/write`, { as: 'u' }))
    )
    t.strictSame(
      [foreign?.text, missing?.text],
      ['{"detail":"Thread foreign not found"}', '{"detail":"Thread missing not found"}']
    )
  }
)

t.test('a thread or run id that can be none is 422, before anybody looks for it', async (t) => {
  const door = await openDoor(t, [
    spec({ path: '/api/threads/{thread_id}', thread: 'write' }),
    spec({ path: '/api/runs/{run_id}' })
  ])
  for (const id of ['a%0a', 'a.b', '%20', 'a%2fb', 'x'.repeat(65), '..', 'ü']) {
    t.match(
      await door.knock('GET', `/api/threads/${encodeURI(decodeURIComponent(id)).replaceAll('a/b', 'a%2fb')}`, {
        as: 'u'
      }),
      {
        status: 422,
        body: { detail: [{ type: 'string_pattern_mismatch', loc: ['path', 'thread_id'] }] }
      },
      id
    )
  }
  t.match(await door.knock('GET', '/api/runs/a.b', { as: 'u' }), {
    status: 422,
    body: { detail: [{ loc: ['path', 'run_id'] }] }
  })
})

t.test('a wrong method is 405 with Allow; on a public path without a session too', async (t) => {
  const door = await openDoor(t, [
    spec({}),
    spec({ method: 'POST' }),
    spec({ method: 'POST', path: '/login', access: 'public', csrf: 'exempt' })
  ])
  const wrong = await door.knock('DELETE', '/api/x', { as: 'u' })
  t.match(wrong, { status: 405, body: { detail: 'Method Not Allowed' }, headers: { allow: 'GET, HEAD, POST' } })
  t.equal((await door.knock('GET', '/login')).status, 405)
  for (const method of ['PROPFIND', 'PURGE', 'LINK', 'M-SEARCH', 'REPORT', 'TRACE'])
    t.equal((await door.knock(method, '/api/x', { as: 'u' })).status, 405, method)
})

t.test('HEAD is GET without a body, with its length', async (t) => {
  const door = await openDoor(t, [health])
  const answer = await door.knock('HEAD', '/health')
  t.match(answer, { status: 200, text: '', headers: { 'content-length': '20', 'content-type': 'application/json' } })
})

t.test('the call carries what the schemas made, the address and the credential', async (t) => {
  const take = route({
    method: 'POST',
    path: '/api/things/{name}',
    access: 'user',
    body: v.object({ n: v.optional(v.number(), 1) }),
    query: v.object({ q: v.optional(v.string(), 'none') }),
    handler: ({ body, query, params, address, secure, credential, path, method }) => ({
      json: [body.n, query.q, params.name, address, secure, credential, path, method]
    })
  })
  const door = await openDoor(t, [take], { proxies: new Proxies(['127.0.0.1'], () => {}) })
  const answer = await door.knock('POST', '/api/langgraph/things/a%20b/?q=%C3%BC', {
    as: 'u',
    body: {},
    headers: { 'x-real-ip': '203.0.113.9', 'x-forwarded-proto': 'https' }
  })
  t.strictSame(answer.body, [1, 'ü', 'a b', '203.0.113.9', true, 'token-u', '/api/things/a b', 'POST'])
})

// ---------------------------------------------------------------------------------- sign-in and origins

const login = spec({
  method: 'POST',
  path: '/api/v1/auth/login/local',
  access: 'public',
  csrf: 'exempt',
  handler: ({ address }) => (address === '203.0.113.1' ? fail('too_many_logins') : { json: {} })
})
const PATH = '/api/v1/auth/login/local'

t.test('an exempt route sets a new csrf_token whatever it answers', async (t) => {
  const door = await openDoor(t, [login], { proxies: new Proxies(['127.0.0.1'], () => {}) })
  const tokens: string[] = []
  for (const [ip, status] of [
    ['203.0.113.1', 429],
    ['203.0.113.2', 200]
  ] as const) {
    const answer = await door.knock('POST', PATH, { headers: { 'x-real-ip': ip, 'x-forwarded-proto': 'https' } })
    t.equal(answer.status, status)
    const [cookie = ''] = answer.headers['set-cookie'] ?? []
    t.match(cookie, /^csrf_token=[A-Za-z0-9_-]{86}; Path=\/; Secure; SameSite=Strict$/)
    tokens.push(cookie)
  }
  t.not(tokens[0], tokens[1])
})

t.test('a csrf_token of the handler stands', async (t) => {
  const gone = { name: 'csrf_token', value: '', maxAge: 0, httpOnly: false, sameSite: 'Strict', secure: false } as const
  const door = await openDoor(t, [
    spec({ method: 'POST', access: 'public', csrf: 'exempt', handler: () => ({ cookies: [gone] }) })
  ])
  const cookies = (await door.knock('POST', '/api/x')).headers['set-cookie'] ?? []
  t.equal(cookies.length, 1)
  t.match(cookies[0], /^csrf_token=; Path=\/; Max-Age=0; Expires=/)
})

t.test('a sign-in from another site is refused; the own site and no Origin pass', async (t) => {
  const door = await openDoor(t, [login], {
    origins: new Origins(['https://app.example', '*'], () => {}),
    publicUrl: 'https://chat.example/base'
  })
  const status = async (headers: Record<string, string>) => (await door.knock('POST', PATH, { headers })).status
  t.equal(await status({}), 200)
  t.equal(await status({ origin: door.url }), 200)
  t.equal(await status({ origin: 'https://app.example' }), 200)
  t.equal(await status({ origin: 'https://chat.example' }), 200)
  t.equal(
    await status({ origin: 'https://a.example', 'x-forwarded-host': 'a.example', 'x-forwarded-proto': 'https' }),
    200
  )
  t.equal(
    await status({ origin: 'https://a.example', host: 'a.example:443' }),
    200,
    'the default port is the same port'
  )
  t.equal(
    await status({ origin: 'http://a.example:2026', 'x-forwarded-host': 'a.example', 'x-forwarded-port': '2026' }),
    200
  )
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'file://' },
    { origin: 'https://127.0.0.1' },
    { origin: 'http://a.example', 'x-forwarded-host': 'a.example', 'x-forwarded-proto': 'https' },
    { origin: 'https://app.example.evil.example' }
  ]
  for (const headers of foreign) {
    const answer = await door.knock('POST', PATH, { headers })
    t.strictSame([answer.status, answer.body.detail], [403, 'Cross-site auth request denied.'], headers.origin ?? '')
    t.equal(answer.headers['set-cookie'], undefined)
  }
})

t.test('[Auth 2] an odd spelling of an exempt path is exempt for nothing else', async (t) => {
  const door = await openDoor(t, [login, spec({ method: 'POST' })])
  for (const path of [
    `/api/x?x=${PATH}`,
    `/api/x#${PATH}`,
    `${PATH}/../../../x`,
    `${PATH}/..%2f..%2fx`,
    `/${PATH}/../x`,
    '/api/x;/api/v1/auth/login/local',
    `http://h${PATH}/../x`
  ]) {
    const text = await door.raw(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nCookie: access_token=token-u\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}`
    )
    t.match(text, /^HTTP\/1\.1 40[034] /, path)
  }
})

t.test('CORS: a listed origin gets credentials and exposed headers, others nothing', async (t) => {
  const warnings: string[] = []
  const origins = new Origins(['https://app.example/', '*'], (message) => warnings.push(message))
  const door = await openDoor(t, [health, spec({})], { origins })
  const listed = await door.knock('GET', '/health', { headers: { origin: 'https://app.example' } })
  t.match(listed.headers, {
    'access-control-allow-origin': 'https://app.example',
    'access-control-allow-credentials': 'true',
    vary: 'Origin'
  })
  for (const name of ['Content-Location', 'Location', 'X-Pagination-Total', 'X-Pagination-Next']) {
    t.ok(listed.headers['access-control-expose-headers']?.split(', ').includes(name), name)
  }
  const refused = await door.knock('GET', '/api/x', { headers: { origin: 'https://app.example' } })
  t.match(
    refused,
    { status: 401, headers: { 'access-control-allow-origin': 'https://app.example' } },
    'a page may read why it was refused'
  )
  const evil = await door.knock('GET', '/health', { headers: { origin: 'https://evil.example' } })
  t.equal(evil.headers['access-control-allow-origin'], undefined)
  t.equal(warnings.length, 1)
})

t.test('CORS: a preflight is answered before CSRF and session', async (t) => {
  const door = await openDoor(t, [spec({ method: 'POST' })], {
    origins: new Origins(['https://app.example'], () => {})
  })
  const ask = (origin: string) =>
    door.knock('OPTIONS', '/api/x', {
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type,x-csrf-token,last-event-id'
      }
    })
  const answer = await ask('https://app.example')
  t.equal(answer.status, 204)
  t.match(answer.headers, {
    'access-control-allow-origin': 'https://app.example',
    'access-control-allow-methods': /POST/,
    'access-control-allow-headers': 'content-type,x-csrf-token,last-event-id'
  })
  t.equal((await ask('https://evil.example')).status, 401)
})

// --------------------------------------------------------------------------------------------- failures

t.test('a failure is its status, text and headers', async (t) => {
  const door = await openDoor(t, [
    spec({ path: '/a', access: 'public', handler: () => fail('setup_status_cooldown', null, { 'Retry-After': '17' }) }),
    spec({
      path: '/b',
      access: 'public',
      handler: async () => fail('run_not_cancellable', { id: '{status}', status: 'success' })
    })
  ])
  t.match(await door.knock('GET', '/a'), {
    status: 429,
    headers: { 'retry-after': '17' },
    body: { detail: 'Setup status check is rate limited' }
  })
  t.match(await door.knock('GET', '/b'), {
    status: 409,
    body: { detail: 'Run {status} is not cancellable (status: success)' }
  })
  t.strictSame(door.logged, [])
})

t.test("a programmer's error is a bare 500 with the id under which the log has it", async (t) => {
  const broken = [
    spec({
      path: '/a',
      access: 'public',
      handler: () => {
        throw new Error('secret detail')
      }
    }),
    spec({ path: '/b', access: 'public', handler: () => Promise.reject(new TypeError('secret detail')) }),
    spec({ path: '/c', access: 'public', handler: () => ({ json: 1n }) }),
    spec({ path: '/d', access: 'public', handler: () => ({ headers: { 'X-Bad': 'a\nb' } }) })
  ]
  const door = await openDoor(t, broken)
  for (const path of ['/a', '/b', '/c', '/d']) {
    const answer = await door.knock('GET', `${path}?token=hidden`)
    t.strictSame([answer.status, answer.text], [500, 'Internal Server Error'], path)
    const [level, fields] = door.logged.at(-1) ?? []
    t.equal(level, 'error')
    t.match(fields, { request_id: answer.headers['x-request-id'], method: 'GET', path })
  }
})

t.test(
  'an error after the head was sent resets the connection, so that nobody takes the answer for whole',
  async (t) => {
    const door = await openDoor(t, [
      spec({
        path: '/s',
        access: 'public',
        handler: (call) => {
          openStream(call).write(Buffer.from('data: 1\n\n'))
          throw new Error('too late')
        }
      })
    ])
    await t.rejects(door.knock('GET', '/s'))
    t.equal(door.logged.length, 1)
    t.equal((await door.knock('GET', '/none')).status, 404)
  }
)

// -------------------------------------------------------------------------------------- odd connections

t.test('heads that cannot be read are 4xx or a closed connection', async (t) => {
  const door = await openDoor(t, [health])
  const get = 'GET /health HTTP/1.1\r\nHost: x\r\n'
  const post = 'POST /health HTTP/1.1\r\nHost: x\r\n'
  const cases: Record<string, [string, RegExp]> = {
    'a header of 100 KB': [`${get}X-Big: ${'a'.repeat(102_400)}\r\n\r\n`, /^(HTTP\/1\.1 431 |$)/],
    '3,000 headers': [`${get}${'X-A: vvvvvvvvvvvvvvvvvvvv\r\n'.repeat(3_000)}\r\n`, /^(HTTP\/1\.1 431 |$)/],
    'a long target': [`GET /${'a'.repeat(102_400)} HTTP/1.1\r\nHost: x\r\n\r\n`, /^(HTTP\/1\.1 431 |$)/],
    'no colon': [`${get}this is no header\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'control characters': [`${get}X-Y: a\u0001\u0000b\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'two lengths': [`${post}Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc`, /^HTTP\/1\.1 400 /],
    'length and chunked': [
      `${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1\.1 400 /
    ],
    'a negative length': [`${post}Content-Length: -1\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'a bare CR': [`${post}X: a\rContent-Length: 2\r\n\r\n{}`, /^HTTP\/1\.1 400 /],
    'no host': ['GET /health HTTP/1.1\r\n\r\n', /^HTTP\/1\.1 400 /],
    'an unknown method': ['FOO /health HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
    TLS: ['\u0016\u0003\u0001\u0002\r\n\r\n', /^HTTP\/1\.1 400 /],
    'another version': ['GET /health HTTP/9.9\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
    CONNECT: ['CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n', /^$/]
  }
  for (const [what, [bytes, expected]] of Object.entries(cases)) t.match(await door.raw(bytes), expected, what)
  t.equal((await door.knock('GET', '/health')).status, 200)
})

t.test('a bad chunk in a body that is being read is 400', async (t) => {
  const door = await openDoor(t, [
    route({ method: 'POST', path: '/b', access: 'public', csrf: 'exempt', body: v.object({}), handler: () => ({}) })
  ])
  t.match(
    await door.raw('POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'),
    /^HTTP\/1\.1 400 /
  )
})

t.test('an upgrade that is not spoken is passed over, an odd expectation is refused', async (t) => {
  const door = await openDoor(t, [health, spec({})])
  const upgrade = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c, nonsense\r\n\r\n'
  t.match(await door.raw(`GET /health HTTP/1.1\r\n${upgrade}`, 'healthy'), /^HTTP\/1\.1 200 /)
  t.match(await door.raw(`GET /api/x HTTP/1.1\r\n${upgrade}`, 'not_authenticated'), /^HTTP\/1\.1 401 /)
  t.match(
    await door.raw(
      'POST /api/x HTTP/1.1\r\nHost: x\r\nExpect: the-unexpected\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
    ),
    /^HTTP\/1\.1 417 /
  )
})

t.test('an upgrade goes to its handler where there is one', async (t) => {
  const door = await openDoor(t, [health], {
    upgrade: (_req, socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  })
  t.match(
    await door.raw('GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    /^HTTP\/1\.1 400 /
  )
})

t.test('pipelined requests are answered in their order', async (t) => {
  const door = await openDoor(t, [
    spec({
      path: '/n/{n}',
      access: 'public',
      handler: async ({ params }) => {
        if (Number(params.n) % 2) await new Promise((resolve) => setImmediate(resolve))
        return { json: `n${params.n}.` }
      }
    })
  ])
  const requests = Array.from({ length: 30 }, (_, i) => `GET /n/${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('')
  const text = await door.raw(requests, '"n29."')
  t.strictSame(
    [...text.matchAll(/"n(\d+)\."/g)].map((match) => Number(match[1])),
    Array.from({ length: 30 }, (_, i) => i)
  )
})

t.test('connections that say nothing, stop in the head or stop in the body hold nobody up', async (t) => {
  const door = await openDoor(t, [health])
  const sockets = await Promise.all(Array.from({ length: 60 }, () => door.connect()))
  sockets.forEach((socket, i) => {
    socket.on('error', () => {})
    if (i % 3 === 1) socket.write('POST /health HTTP/1.1\r\nHost: x\r\nX-Slow: ')
    if (i % 3 === 2) socket.write('POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"a":')
  })
  t.equal((await door.knock('GET', '/health')).status, 200)
  for (const socket of sockets) socket.destroy()
})

// -------------------------------------------------------------------------------------------- the end

t.test('close ends idle and silent connections at once and takes no new ones', async (t) => {
  const door = await openDoor(t, [health])
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const [response] = await once(get({ port: door.port, host: '127.0.0.1', path: '/health', agent }), 'response')
  response.resume()
  await once(response, 'end')
  const silent = await door.connect()
  const gone = once(silent, 'close')
  await door.server.close(600_000)
  await gone
  await t.rejects(door.knock('GET', '/health'), { code: 'ECONNREFUSED' })
})

t.test('close waits for a request under way and says on it that the connection ends', async (t) => {
  let release = () => {}
  let started = () => {}
  const isStarted = new Promise<void>((resolve) => {
    started = resolve
  })
  const slow = spec({
    path: '/slow',
    access: 'public',
    handler: async () => {
      started()
      await new Promise<void>((resolve) => {
        release = resolve
      })
      return { json: 'done' }
    }
  })
  const door = await openDoor(t, [slow])
  const answer = door.knock('GET', '/slow')
  await isStarted
  const closed = door.server.close(600_000)
  t.equal(door.server.close(0), closed, 'closing twice is closing once')
  release()
  t.equal((await answer).body, 'done')
  await closed
})

t.test('what does not end within the grace is reset', async (t) => {
  const endless = spec({
    path: '/endless',
    access: 'public',
    handler: (call) => {
      openStream(call)
      return TAKEN
    }
  })
  const door = await openDoor(t, [endless])
  const broken = new Promise<Error>((resolve) => {
    const req = get({ port: door.port, host: '127.0.0.1', path: '/endless', agent: false }, (response) => {
      response.on('error', resolve).resume()
      void door.server.close(10)
    })
    // The request hears of the reset as well.
    req.on('error', () => {})
  })
  t.match(await broken, { code: 'ECONNRESET' })
  await door.server.close(10)
})

t.test('a port that is taken is refused to who asks for it', async (t) => {
  const door = await openDoor(t, [health])
  const other = await openDoor(t, [health])
  await other.server.close(0)
  const { createHttpServer } = await import('../../lib/http/server.ts')
  const third = createHttpServer({
    routes: [],
    authenticate: async () => fail('token_invalid'),
    threadOwner: async () => undefined,
    origins: new Origins([], () => {}),
    proxies: new Proxies([], () => {}),
    log: { info() {}, warn() {}, error() {} }
  })
  await t.rejects(third.listen(door.port, '127.0.0.1'), { code: 'EADDRINUSE' })
})
