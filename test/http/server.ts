// One request's life: the guards in their order, the handler, its failures.
import t from 'tap'
import * as v from 'valibot'
import { type Failure, fail } from '../../lib/base/errors.ts'
import { Proxies } from '../../lib/http/address.ts'
import { requireUser, route } from '../../lib/http/route.ts'
import { throughDoor } from '../../lib/protocols/door.ts'
import { CustomApp } from '../../lib/langgraph/project/custom-app.ts'
import { openStream } from '../../lib/http/streaming-response.ts'
import { currentUserId } from '../../lib/base/scope.ts'
import { BARE, aRoute, health, openDoor, sessionOf, userNamed } from '../fixtures/door.ts'

t.test('[Auth 2] a state-changing request with neither CSRF nor session is 403, known path or not', async (t) => {
  const door = await openDoor(t, [aRoute({ method: 'POST' })])
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
  const door = await openDoor(t, [aRoute({ method: 'POST' })])
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
  const door = await openDoor(t, [aRoute({})])
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

t.test(
  '[Auth 3] without a cookie every path that is not public is 401, with a session the unknown ones are 404',
  async (t) => {
    const door = await openDoor(t, [aRoute({}), health])
    for (const path of ['/api/x', '/api/no-such-route', '/api', '/api/x/', '/api/langgraph/x']) {
      t.match(
        await door.knock('GET', path),
        { status: 401, body: { detail: { code: 'not_authenticated', message: 'Authentication required' } } },
        path
      )
    }
    t.match(await door.knock('GET', '/api/none', { as: 'u' }), { status: 404, body: { detail: 'Not Found' } })
    for (const path of ['/none', '/favicon.ico', '/%', '/health/more'])
      t.equal((await door.knock('GET', path)).status, 401, path)
    t.match(await door.knock('GET', '/none', { as: 'u' }), { status: 404, body: { detail: 'Not Found' } })
    t.equal((await door.knock('GET', '/api/langgraph/x', { as: 'u' })).status, 200)
  }
)

t.test('[Auth 3] a junk token is 401 token_invalid; public paths answer with it all the same', async (t) => {
  const door = await openDoor(t, [aRoute({}), health])
  for (const token of ['junk', '', ' ', '""']) {
    t.match(await door.knock('GET', '/api/x', { headers: { cookie: `access_token=${token}` } }), {
      status: 401,
      body: { detail: { code: 'token_invalid' } }
    })
    t.equal((await door.knock('GET', '/health/', { headers: { cookie: `access_token=${token}` } })).status, 200)
  }
})

t.test('[Auth 4] the handler runs as its user, also after an await, and nobody runs as the user before', async (t) => {
  const who = aRoute({
    handler: async ({ user }) => {
      await new Promise((resolve) => setImmediate(resolve))
      return { json: [user?.id, currentUserId()] }
    }
  })
  const nobody = aRoute({ path: '/who', access: 'public', handler: ({ user }) => ({ json: [user, currentUserId()] }) })
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
  const careless = aRoute({ path: '/careless', access: 'public', handler: (call) => ({ json: requireUser(call).id }) })
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
      aRoute({ path: `/api/threads/{thread_id}/${thread}`, thread })
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
    aRoute({ path: '/api/threads/{thread_id}', thread: 'write' }),
    aRoute({ path: '/api/runs/{run_id}' })
  ])
  for (const id of ['a%0a', 'a.b', '%20', 'a%2fb', 'x'.repeat(65), 'ü']) {
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
    aRoute({}),
    aRoute({ method: 'POST' }),
    aRoute({ method: 'POST', path: '/login', access: 'public', csrf: 'exempt' })
  ])
  const wrong = await door.knock('DELETE', '/api/x', { as: 'u' })
  t.match(wrong, { status: 405, body: { detail: 'Method Not Allowed' }, headers: { allow: 'GET, HEAD, POST' } })
  t.equal((await door.knock('GET', '/login')).status, 405)
  for (const method of ['PROPFIND', 'PURGE', 'LINK', 'M-SEARCH', 'REPORT', 'TRACE'])
    t.equal((await door.knock(method, '/api/x', { as: 'u' })).status, 405, method)
})

t.test("what fetch makes no request of is 405 or 400 where the operator's own code would be given it", async (t) => {
  const rules = { authenticateRequest: async () => sessionOf(userNamed('u')) }
  const options = { needsUser: false, bodyLimit: 1000, stallMs: 1000, userOf: () => ({}) }
  const app = new CustomApp({ fetch: () => new Response('theirs') }, options)
  for (const more of [rules, { app }, { ...rules, app }]) {
    const door = await openDoor(t, [aRoute({})], more)
    t.equal((await door.knock('TRACE', '/api/x')).status, 405)
    t.equal((await door.knock('TRACE', '/elsewhere')).status, 405)
    for (const [target, host] of [
      ['/elsewhere', 'name:word@x'],
      ['/elsewhere', 'a b'],
      ['http://name:word@x/elsewhere', 'x']
    ])
      t.match(await door.raw(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`), /^HTTP\/1.1 400 /)
    t.strictSame(
      door.logged.filter(([level]) => level === 'error'),
      []
    )
  }
})

t.test('HEAD is GET without a body, with its length', async (t) => {
  const door = await openDoor(t, [health])
  const answer = await door.knock('HEAD', '/health')
  t.match(answer, { status: 200, text: '', headers: { 'content-length': '20', 'content-type': 'application/json' } })
})

t.test('the call carries what the schemas made, the address and the credential', async (t) => {
  const take = route({
    ...BARE,
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

// --------------------------------------------------------------------------------------------- failures

t.test(
  'a row with an error form of its own is refused in it by everything: guards, limits, schemas, bugs',
  async (t) => {
    const errors = ({ status, message, headers }: Failure) => ({
      status,
      headers,
      json: { error: { message, type: `made_up_${status}` } }
    })
    const work = route({
      ...BARE,
      method: 'POST',
      path: '/v1/things/{name}',
      bodyLimit: 100,
      permission: 'runs:create',
      body: v.object({ n: v.number() }),
      handler: ({ body }) => {
        if (body.n === 429) throw fail('too_many_runs', null, { 'Retry-After': '3' })
        throw new Error('a bug')
      }
    })
    const list = aRoute({ method: 'GET', path: '/v1/things' })
    let notYet: string | null = null
    const rows = throughDoor({ errors, part: 'made_up' }, [work, list])
    t.ok(rows.every(({ part }) => part === 'made_up'))
    const door = await openDoor(t, [...rows, aRoute({ path: '/v2/a' })], { notYet: async () => notYet })
    const ask = (path: string, more: object = {}) => door.knock('POST', path, { as: 'u', body: { n: 1 }, ...more })
    const made = (status: number) => ({ status, body: { error: { type: `made_up_${status}` } } })
    t.match(await ask('/v1/things/a', { as: undefined, headers: { 'x-api-key': 'x' } }), made(401))
    t.match(await ask('/v1/things/a', { as: undefined }), made(401), 'who has no key learns that')
    t.match(await ask('/v1/things/a', { as: undefined, headers: { cookie: 'a=b' } }), made(403), 'without a csrf_token')
    t.match(await ask('/v1/things/a', { body: { n: 'x'.repeat(200) } }), made(413))
    t.match(await ask('/v1/things/a', { body: { n: 'x' } }), made(422))
    t.match(await ask('/v1/things/a', { body: '{' }), made(422))
    t.match(await ask('/v1/things/a', { body: { n: 429 } }), { ...made(429), headers: { 'retry-after': '3' } })
    const broken = await ask('/v1/things/a')
    t.match(broken, { ...made(500), headers: { 'x-request-id': /-/ } })
    t.notMatch(broken.text, /a bug/)
    t.match(await door.knock('DELETE', '/v1/things/a', { as: 'u' }), { ...made(405), headers: { allow: 'POST' } })
    t.match(await ask('/v1/things/a/b'), made(404))
    t.match(await ask('/v2/b'), { status: 404, body: { detail: 'Not Found' } })
    notYet = 'not yet'
    t.match(await ask('/v1/things/a'), { ...made(503), headers: { 'retry-after': '1' } })
    t.match(await door.knock('GET', '/v2/a', { as: 'u' }), { status: 503, body: { detail: /not yet/ } })
  }
)

t.test('a failure is its status, text and headers', async (t) => {
  const door = await openDoor(t, [
    aRoute({
      path: '/a',
      access: 'public',
      handler: () => fail('setup_status_cooldown', null, { 'Retry-After': '17' })
    }),
    aRoute({
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
    aRoute({
      path: '/a',
      access: 'public',
      handler: () => {
        throw new Error('secret detail')
      }
    }),
    aRoute({ path: '/b', access: 'public', handler: () => Promise.reject(new TypeError('secret detail')) }),
    aRoute({ path: '/c', access: 'public', handler: () => ({ json: 1n }) }),
    aRoute({ path: '/d', access: 'public', handler: () => ({ headers: { 'X-Bad': 'a\nb' } }) })
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
      aRoute({
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
    t.equal((await door.knock('GET', '/none', { as: 'u' })).status, 404)
  }
)
