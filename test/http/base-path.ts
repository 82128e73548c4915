// The base path: a gateway that a proxy shows below a path of its own answers there with places and cookies of that path, whether the proxy
// takes the path off or not.
import t, { type Test } from 'tap'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client } from '@langchain/langgraph-sdk'
import { WebSocket } from 'ws'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, at, openSite, type Options, PASSWORD, Person, signIn, textIn } from '../fixtures/gateway.ts'

/** A proxy on a port of its own: what is below `base` goes to `target`, as it is or without the base, and named or not. */
async function shownBelow(t: Test, base: string, target: string, how: { takesOff: boolean; names: boolean }) {
  const { port } = new URL(target)
  const proxy = createServer((req, res) => {
    const url = req.url ?? ''
    if (url !== base && !url.startsWith(`${base}/`)) return void res.writeHead(404).end()
    const path = how.takesOff ? url.slice(base.length) || '/' : url
    const headers = { ...req.headers, ...(how.names && { 'x-forwarded-prefix': base }) }
    const onward = request({ host: '127.0.0.1', port, method: req.method, path, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(res)
    })
    req.pipe(onward)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => proxy.closeAllConnections() ?? proxy.close(resolve)))
  // A server that listens on a port has such an address.
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}

const BASE = '/teams/chat'
const NAMED = { trusted_proxies: ['127.0.0.1'] }
const WORDS = '/demo deltas=5 rate=0'

const WAYS: Readonly<Record<string, { takesOff: boolean; names: boolean; server: Options }>> = {
  'public_url, path left in': { takesOff: false, names: false, server: { public_url: `http://chat.example${BASE}/` } },
  'public_url, path taken off': { takesOff: true, names: false, server: { public_url: `http://chat.example${BASE}` } },
  'X-Forwarded-Prefix, path left in': { takesOff: false, names: true, server: NAMED },
  'X-Forwarded-Prefix, path taken off': { takesOff: true, names: true, server: NAMED }
}

for (const [name, how] of Object.entries(WAYS))
  t.test(`${name}: page, cookies, places and the reference are below the path`, async (t) => {
    const site = await openSite(t, { config: { server: how.server } })
    const origin = await shownBelow(t, BASE, site.url, how)
    const person = new Person(origin + BASE)
    const email = 'ada@example.com'
    const registered = await person.post('/api/v1/auth/register', { email, password: PASSWORD })
    t.equal(registered.status, 201, registered.text)
    const cookies = registered.headers.getSetCookie()
    t.ok(cookies.length >= 2 && cookies.every((line) => line.includes(`; Path=${BASE};`)), cookies.join('\n'))
    t.equal((await person.get('/api/v1/auth/me')).status, 200)

    for (const path of ['', '/', '/docs']) {
      const html = (await person.get(path, { headers: { accept: 'text/html' } })).text
      const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url = '']) => url)
      t.ok(files.length > 3 && files.every((url) => url.startsWith(`${BASE}/`)), `${path}: ${files.join(' ')}`)
      for (const file of [files[0]!, files.find((one) => one.endsWith('.js'))!])
        t.equal((await fetch(origin + file)).status, 200, file)
    }
    const links = (await person.get('/', { headers: { accept: 'application/json' } })).body
    t.equal(at(links, 'openapi'), `${BASE}/openapi.json`)
    const reference = (await person.get('/openapi.json')).body
    t.strictSame(at(reference, 'servers'), [{ url: BASE }])
    t.type(at(reference, 'paths', '/api/threads'), 'object', 'paths are below the server')

    const thread = await person.thread()
    const run = await person.post(`/api/threads/${thread}/runs/wait`, asked(WORDS))
    const place = run.headers.get('content-location') ?? ''
    t.ok(place.startsWith(`${BASE}/api/threads/${thread}/runs/`), place)
    const stream = await person.stream(thread, WORDS)
    const frames = await stream.whole()
    const location = stream.headers.get('location') ?? ''
    t.ok(location.startsWith(`${BASE}/threads/${thread}/`), location)
    // From the origin, as HTTP has it, and behind the base URL, as LangGraph's clients do.
    for (const base of [origin, origin + BASE, `${origin}${BASE}/api`, `${origin}${BASE}/api/langgraph`]) {
      const answer = await fetch(base + location, { headers: { ...person.headers(), 'last-event-id': frames[0]!.id! } })
      t.equal((await answer.text()).match(/^event: values$/gm)?.length, 2, base)
    }
    const card = await person.get('/.well-known/agent-card.json')
    t.equal(card.status, 200)
    t.match(card.text, `${BASE}/a2a/`)
  })

t.test("LangGraph's client runs below the path", async (t) => {
  const site = await openSite(t, { config: { server: NAMED } })
  const origin = await shownBelow(t, BASE, site.url, { takesOff: true, names: true })
  const person = await signIn({ url: origin + BASE })
  const token = textIn(
    (
      await person.post('/api/v1/auth/tokens', {
        name: 'sdk',
        scopes: PERMISSIONS
      })
    ).body,
    'token'
  )
  const client = new Client({ apiUrl: origin + BASE, apiKey: token })
  const { thread_id } = await client.threads.create()
  let runId = ''
  const events: string[] = []
  const options = {
    ...asked(WORDS),
    streamMode: 'messages-tuple' as const,
    onRunCreated: (run: { run_id: string }) => {
      runId = run.run_id
    }
  }
  for await (const { event } of client.runs.stream(thread_id, 'agent', options)) events.push(event)
  t.ok(events.includes('messages'), events.join())
  t.equal((await client.runs.get(thread_id, runId)).status, 'success')
})

t.test('a sign-in at a provider comes back below the path, whether the page has named it or not', async (t) => {
  const oidc = { providers: [{ id: 'gone', issuer: `http://127.0.0.1:${await freePort()}`, client_id: 'c' }] }
  const public_url = `https://chat.example${BASE}`
  const site = await openSite(t, { config: { server: { public_url }, auth: { oidc } } })
  const places = {
    '/': '/?',
    [`${BASE}/`]: '/?',

    '/work': '/login?',
    [`${BASE}/work`]: '/login?'
  }
  for (const [next, place] of Object.entries(places)) {
    const path = `/api/v1/auth/oauth/gone?next=${encodeURIComponent(next)}`
    const { status, headers } = await new Person(site.url).get(path, { redirect: 'manual' })
    t.strictSame([status, headers.get('location')], [302, `${public_url}${place}error=sso_failed`], next)
  }
})

t.test('a WebSocket below the path opens', async (t) => {
  const site = await openSite(t, { config: { server: { public_url: `http://chat.example${BASE}` } } })
  const person = await signIn({ url: site.url + BASE })
  const socket = new WebSocket(`${site.url.replace('http', 'ws')}${BASE}/api/stream`, { headers: person.headers() })
  t.teardown(() => socket.terminate())
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
})

t.test('what is no path, or comes from who is not trusted, changes nothing', async (t) => {
  const trusting = await openSite(t, { config: { server: NAMED } })
  const other = await openSite(t)
  const linkOf = async (url: string, prefix: string) => {
    const headers = { accept: 'application/json', 'x-forwarded-prefix': prefix }
    return at(await (await fetch(url, { headers })).json(), 'openapi')
  }
  t.equal(await linkOf(other.url, BASE), '/openapi.json', 'from anybody')
  for (const prefix of ['//evil.example', '/a"b', '/a/../b', 'chat', '/', '/a;b', `/${'a'.repeat(300)}`, '/a b'])
    t.equal(await linkOf(trusting.url, prefix), '/openapi.json', prefix)
  t.equal(await linkOf(trusting.url, '/a/'), '/a/openapi.json')
  t.equal(await linkOf(trusting.url, '/a, /b'), '/a/b/openapi.json', 'two proxies in a row')
})

t.test('links in messages lead below the path', async (t) => {
  const site = await openSite(t, { config: { server: { public_url: `https://chat.example${BASE}/` } } })
  const admin = new Person(site.url + BASE)
  await admin.post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const made = await admin.post('/api/v1/admin/users', { email: 'new@example.com' })
  t.equal(made.status, 201, made.text)
  const link = await admin.post(`/api/v1/admin/users/${textIn(made.body, 'id')}/password-link`)
  for (const { text } of [link, made]) t.match(text, `https://chat.example${BASE}/#/password/`)
})
