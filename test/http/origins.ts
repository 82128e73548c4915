// Pages of other sites: which may sign somebody in, and which may read an answer.
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { fail } from '../../lib/base/errors.ts'
import { sendAsset } from '../../lib/http/asset.ts'
import { HANDLED } from '../../lib/http/route.ts'
import { Proxies } from '../../lib/http/address.ts'
import { checkOrigin, Origins } from '../../lib/http/entry.ts'
import { aRoute, health, openDoor } from '../fixtures/door.ts'

const login = aRoute({
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
    t.match(cookie, /^csrf_token=[A-Za-z0-9_-]{86}; Path=\/; Max-Age=2592000; Secure; SameSite=Strict$/)
    tokens.push(cookie)
  }
  t.not(tokens[0], tokens[1])
})

t.test('a csrf_token of the handler stands', async (t) => {
  const gone = { name: 'csrf_token', value: '', maxAge: 0, httpOnly: false, sameSite: 'Strict', secure: false } as const
  const door = await openDoor(t, [
    aRoute({ method: 'POST', access: 'public', csrf: 'exempt', handler: () => ({ cookies: [gone] }) })
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
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'file://' },
    { origin: 'https://127.0.0.1' },
    { origin: 'http://a.example', 'x-forwarded-host': 'a.example', 'x-forwarded-proto': 'https' },
    { origin: 'http://a.example', host: 'a.example' },
    { origin: 'https://app.example.evil.example' }
  ]
  for (const headers of foreign) {
    const answer = await door.knock('POST', PATH, { headers })
    t.strictSame([answer.status, answer.body.detail], [403, 'Cross-site auth request denied.'], headers.origin ?? '')
    t.equal(answer.headers['set-cookie'], undefined)
  }
  await door.knock('POST', PATH, { headers: { origin: 'https://evil.example' } })
  const lines = door.logged.filter(([, , text]) => /server\.public_url/.test(text)).map(([, fields]) => fields)
  t.match(lines[0], { origin: 'https://evil.example', host: new URL(door.url).host })
  const origins = new Set(foreign.map(({ origin }) => origin))
  t.equal(lines.length, origins.size, 'each origin is a line of the log, once')
  for (let i = 0; i < 40; i++) await door.knock('POST', PATH, { headers: { origin: `https://${i}.example` } })
  t.equal(door.logged.filter(([, , text]) => /server\.public_url/.test(text)).length, 20, 'and no more than a few')
})

t.test('[Auth 2] an odd spelling of an exempt path is exempt for nothing else', async (t) => {
  const door = await openDoor(t, [login, aRoute({ method: 'POST' })])
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
  const door = await openDoor(t, [health, aRoute({})], { origins })
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

t.test('CORS: what an answer varies by itself comes on top of the origin', async (t) => {
  const origins = new Origins(['https://app.example'], () => {})
  const asset = { type: 'text/javascript', tag: '"a"', plain: Buffer.from('1'), encoded: new Map(), isImmutable: true }
  const door = await openDoor(
    t,
    [
      aRoute({ path: '/a', access: 'public', handler: () => ({ json: {}, headers: { Vary: 'Accept' } }) }),
      aRoute({
        path: '/a.js',
        access: 'public',
        handler: ({ req, res }) => {
          sendAsset(req, res, { ...asset, headers: {} })
          return HANDLED
        }
      })
    ],
    { origins }
  )
  const varyOf = async (path: string, headers = {}) => (await door.knock('GET', path, { headers })).headers.vary
  for (const headers of [{}, { origin: 'https://app.example' }, { origin: 'https://evil.example' }]) {
    t.equal(await varyOf('/a', headers), 'Origin, Accept', 'or a cache would give a page the answer for another one')
    t.equal(await varyOf('/a.js', headers), 'Origin, Accept-Encoding, Accept')
    t.equal(await varyOf('/a.js', { ...headers, 'if-none-match': '"a"' }), 'Origin, Accept-Encoding, Accept')
  }
})

t.test('CORS: a preflight is answered before CSRF and session', async (t) => {
  const door = await openDoor(t, [aRoute({ method: 'POST' })], {
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

/** Whether the page at `origin` may sign in with a request that arrives at `localAddress` with these headers. */
function passes(
  origin: string,
  headers: Record<string, string>,
  { localAddress = '192.0.2.1', publicUrl = null as string | null, isFromProxy = false } = {}
): boolean {
  // What the check looks at.
  const req = { headers: { origin, ...headers }, socket: { localAddress } } as unknown as IncomingMessage
  try {
    checkOrigin(req, new Origins([], () => {}), publicUrl, isFromProxy)
    return true
  } catch {
    return false
  }
}

t.test('on a network the host that is asked for is ours, also as a proxy tells it', async (t) => {
  const forwarded = { 'x-forwarded-host': 'a.example' }
  t.ok(passes('http://chat.lan:8001', { host: 'chat.lan:8001' }))
  t.notOk(passes('http://chat.lan:3000', { host: 'chat.lan:8001' }))
  t.ok(passes('https://a.example', { ...forwarded, 'x-forwarded-proto': 'https' }))
  t.ok(passes('https://a.example', { host: 'a.example:443' }), 'the default port is the same port')
  t.ok(passes('http://a.example:2026', { ...forwarded, 'x-forwarded-port': '2026' }))
  t.notOk(passes('http://a.example', { ...forwarded, 'x-forwarded-proto': 'https' }))
})

t.test(
  '[18.B.1] on this machine only its own names are ours, whatever Host and Origin say to each other',
  async (t) => {
    for (const localAddress of ['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1']) {
      const here = { localAddress }
      for (const host of ['localhost:8001', '127.0.0.1:8001', '127.1.2.3:8001', '[::1]:8001'])
        t.ok(passes(`http://${host}`, { host }, here), `${host} at ${localAddress}`)
      for (const host of [
        'evil.example:8001',
        'localhost.evil.example:8001',
        '127.0.0.1.evil.example:8001',
        '0.0.0.0:8001'
      ])
        for (const headers of [{ host }, { host: 'localhost:8001', 'x-forwarded-host': host }] as Record<
          string,
          string
        >[])
          t.notOk(passes(`http://${host}`, headers, here), `${host} at ${localAddress}`)
      const known = { ...here, publicUrl: 'http://chat.lan:8001' }
      t.ok(passes('http://chat.lan:8001', { host: 'chat.lan:8001' }, known))
      t.notOk(passes('http://evil.lan:8001', { host: 'evil.lan:8001' }, known))
      // A proxy that we were told to trust passes on who asked; with public_url there is one name, and no other.
      t.ok(passes('http://chat.lan', { host: 'chat.lan' }, { ...here, isFromProxy: true }))
      t.notOk(passes('http://evil.lan', { host: 'evil.lan' }, { ...known, isFromProxy: true }))
    }
  }
)
