// Deployments: what stands in front of the gateway, what it sends, and what must follow: flags of cookies, whether a sign-in is
// of the own site, and whose address counts [needs N17]. The requests are those that the named proxies make.
import { BARE } from '../fixtures/door.ts'
import t from 'tap'
import { route } from '../../lib/http/route.ts'
import { cookiesOf, openHouse, PASSWORD } from '../fixtures/house.ts'

interface Deployment {
  /** server.trusted_proxies */
  readonly trusted?: string[]
  /** server.public_url */
  readonly publicUrl?: string
  readonly corsOrigins?: string[]
  /** Where the gateway listens; default 127.0.0.1. */
  readonly host?: string
  /** The direct peer; default 127.0.0.1. */
  readonly from?: string
  /** As they arrive; PORT is the gateway's own. */
  readonly headers: Readonly<Record<string, string>>
  /** Of the page. */
  readonly origin: string
  readonly expected: {
    readonly secure: boolean
    /** The session outlives the browser. */
    readonly lasting: boolean
    readonly signIn: 'passes' | 'refused'
    /** Where cookies count; default: everywhere. */
    readonly path?: string
    readonly address: string
  }
}

const CLIENT = '203.0.113.7'
const behind = { trusted: ['127.0.0.0/8'] }
const overTls = { 'x-forwarded-proto': 'https', 'x-real-ip': CLIENT }
const secure = { secure: true, lasting: true, signIn: 'passes', address: CLIENT } as const
const plain = { secure: false, lasting: true, signIn: 'passes', address: '127.0.0.1' } as const

const DEPLOYMENTS: Readonly<Record<string, Deployment>> = {
  'plain http on the own machine': {
    headers: { host: '127.0.0.1:PORT' },
    origin: 'http://127.0.0.1:PORT',
    expected: plain
  },
  'plain http under a name that points to this machine': {
    headers: { host: 'chat.lan:8001' },
    origin: 'http://chat.lan:8001',
    expected: { ...plain, lasting: false, signIn: 'refused' }
  },
  'the same name in public_url': {
    publicUrl: 'http://chat.lan:8001',
    headers: { host: 'chat.lan:8001' },
    origin: 'http://chat.lan:8001',
    expected: { ...plain, lasting: false }
  },
  'plain http, a page of another port of the same host': {
    headers: { host: 'chat.lan:8001' },
    origin: 'http://chat.lan:3000',
    expected: { ...plain, lasting: false, signIn: 'refused' }
  },
  'a page of another port that is listed': {
    corsOrigins: ['http://chat.lan:3000'],
    headers: { host: 'chat.lan:8001' },
    origin: 'http://chat.lan:3000',
    expected: { ...plain, lasting: false }
  },
  'TLS in front, nginx with $host': {
    ...behind,
    headers: { host: 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com',
    expected: secure
  },
  'TLS in front on a port, nginx with $http_host': {
    ...behind,
    headers: { host: 'chat.example.com:8443', ...overTls },
    origin: 'https://chat.example.com:8443',
    expected: secure
  },
  'TLS in front on a port, nginx with $host, which loses the port': {
    ...behind,
    headers: { host: 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com:8443',
    expected: { ...secure, signIn: 'refused' }
  },
  'the same with public_url': {
    ...behind,
    publicUrl: 'https://chat.example.com:8443',
    headers: { host: 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com:8443',
    expected: secure
  },
  'a proxy that keeps its own Host and forwards the name': {
    ...behind,
    headers: { host: '127.0.0.1:PORT', 'x-forwarded-host': 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com',
    expected: secure
  },
  'a proxy that forwards name and port apart': {
    ...behind,
    headers: { host: 'gateway', 'x-forwarded-host': 'chat.example.com', 'x-forwarded-port': '8443', ...overTls },
    origin: 'https://chat.example.com:8443',
    expected: secure
  },
  'a proxy that rewrites Host and says nothing': {
    ...behind,
    publicUrl: 'https://chat.example.com',
    headers: { host: 'gateway:8001', ...overTls },
    origin: 'https://chat.example.com',
    expected: secure
  },
  'two proxies: the first of a list is the outer one': {
    ...behind,
    headers: {
      host: 'inner:80',
      'x-forwarded-host': 'chat.example.com, inner',
      'x-forwarded-proto': 'https, http',
      'x-forwarded-for': `${CLIENT}, 10.0.0.2`,
      'x-real-ip': CLIENT
    },
    origin: 'https://chat.example.com',
    expected: secure
  },
  'below a path of a site': {
    ...behind,
    headers: { host: 'example.com', 'x-forwarded-prefix': '/chat', ...overTls },
    origin: 'https://example.com',
    expected: { ...secure, path: '/chat' }
  },
  'a proxy that sends X-Forwarded-For alone': {
    ...behind,
    headers: { host: 'chat.example.com', 'x-forwarded-proto': 'https', 'x-forwarded-for': CLIENT },
    origin: 'https://chat.example.com',
    expected: { ...secure, address: '127.0.0.1' }
  },
  'TLS in front of which nobody was told': {
    headers: { host: 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com',
    expected: { secure: false, lasting: false, signIn: 'refused', address: '127.0.0.1' }
  },
  'headers of a peer that is not the proxy': {
    trusted: ['127.0.0.1'],
    from: '127.0.0.9',
    headers: { host: 'chat.example.com', ...overTls },
    origin: 'https://chat.example.com',
    expected: { secure: false, lasting: false, signIn: 'refused', address: '127.0.0.9' }
  },
  'IPv6 without a proxy': {
    host: '::1',
    headers: { host: '[::1]:PORT' },
    origin: 'http://[::1]:PORT',
    expected: { ...plain, address: '::1' }
  },
  'an IPv6 client behind an IPv6 proxy': {
    host: '::1',
    trusted: ['::1/128'],
    headers: { host: 'chat.example.com', 'x-forwarded-proto': 'https', 'x-real-ip': '2001:db8::7' },
    origin: 'https://chat.example.com',
    expected: { ...secure, address: '2001:db8::7' }
  }
}

const where = route({
  ...BARE,
  method: 'GET',
  path: '/where',
  access: 'public',
  handler: ({ address }) => ({ json: { address } })
})

let accounts = 0
const account = () => ({ email: `d${accounts++}@example.com`, password: PASSWORD })

for (const [name, { headers, origin, from, expected, ...options }] of Object.entries(DEPLOYMENTS)) {
  t.test(`[Auth 9] [Auth 14] ${name}`, async (t) => {
    const { door } = await openHouse(t, { ...options, routes: [where] })
    const withPort = (text: string) => text.replace('PORT', String(door.port))
    const sent = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, withPort(text)]))
    const ask = (method: string, path: string, more: Record<string, string>, body?: object) =>
      door.knock(method, path, { headers: { ...sent, ...more }, body, ...(from !== undefined && { from }) })
    const register = (more: Record<string, string>) => ask('POST', '/api/v1/auth/register', more, account())

    t.strictSame((await ask('GET', '/where', {})).body, { address: expected.address })

    const answer = await register({ origin: withPort(origin) })
    t.equal(answer.status, expected.signIn === 'passes' ? 201 : 403, `a sign-in ${expected.signIn}`)
    // Programs send no Origin, and pass wherever they come from.
    const direct = await register({})
    t.equal(direct.status, 201)
    const cookies = cookiesOf(direct)
    for (const cookie of ['access_token', 'csrf_token'])
      t.equal(/; Secure/.test(cookies.get(cookie) ?? ''), expected.secure, `${cookie}: Secure`)
    t.equal(/; Max-Age=/.test(cookies.get('access_token') ?? ''), expected.lasting, 'a session that lasts')
    const { path = '/' } = expected
    t.match(cookies.get('access_token'), new RegExp(`; Path=${path}; .*HttpOnly; .*SameSite=Lax`))
    t.match(cookies.get('csrf_token'), new RegExp(`; Path=${path}; .*SameSite=Strict`))
    for (const foreign of ['https://evil.example', 'null', `${withPort(origin)}.evil.example`])
      t.equal((await register({ origin: foreign })).status, 403, `a page of ${foreign}`)

    const jar = [...cookies.values()].map((line) => line.split(';')[0]).join('; ')
    const csrf = /^csrf_token=([^;]+)/.exec(cookies.get('csrf_token') ?? '')?.[1] ?? ''
    const change = (pair: string) =>
      ask('POST', '/api/v1/auth/change-password', { cookie: jar, 'x-csrf-token': pair, origin: withPort(origin) }, {})
    t.equal((await change(csrf)).status, 422, 'the pair of cookie and header passes')
    t.equal((await change('guess')).status, 403)
  })
}
