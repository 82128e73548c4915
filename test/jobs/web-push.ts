// Web Push: a user's browsers are told by a push service that an answer is done or asks, and nobody else reads it.
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { VAPID_FILE } from '../../lib/jobs/web-push.ts'
import { at, homeOf, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

const PATH = '/api/v1/auth/push'
const ALLOWED = { webhooks: { allowed_networks: ['127.0.0.0/8'] } }

interface Received {
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** A push service on this machine; `statuses`: what it answers, the last one from then on. */
async function pushService(t: Test, statuses: number[] = [201]) {
  const received: Received[] = []
  const server = createServer(async (req, res) => {
    const parts: Buffer[] = []
    for await (const part of req) parts.push(part as Buffer)
    received.push({ url: req.url ?? '', headers: req.headers, body: Buffer.concat(parts) })
    res.writeHead(statuses.length > 1 ? statuses.shift()! : statuses[0]!).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))
  return { received, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/** A browser: its keys, and what it reads of a push by them (RFC 8291, RFC 8188). */
function browser(endpoint: string) {
  const keys = createECDH('prime256v1')
  const own = keys.generateKeys()
  const auth = randomBytes(16)
  const derive = (secret: Buffer, salt: Buffer, info: Buffer, length: number) =>
    Buffer.from(hkdfSync('sha256', secret, salt, info, length))
  const read = (body: Buffer): unknown => {
    const salt = body.subarray(0, 16)
    const sender = body.subarray(21, 21 + body[20]!)
    const about = Buffer.concat([Buffer.from('WebPush: info\0'), own, sender])
    const secret = derive(keys.computeSecret(sender), auth, about, 32)
    const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16)
    const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12)
    const sealed = body.subarray(21 + body[20]!)
    const decipher = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(sealed.subarray(-16))
    const padded = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
    // The last record ends with a 2 and zeros.
    return JSON.parse(padded.subarray(0, padded.lastIndexOf(2)).toString())
  }
  const keysOf = { p256dh: own.toString('base64url'), auth: auth.toString('base64url') }
  return { subscription: { endpoint, keys: keysOf, expirationTime: null }, read }
}

/** The claims of a VAPID header, if the key that it names has signed them (RFC 8292). */
function claimsIn(header: string | undefined, publicKey: string): unknown {
  const [, token = '', key = ''] = /^vapid t=([^,]+), ?k=(.+)$/.exec(header ?? '') ?? []
  if (key !== publicKey) throw new Error(`it is signed by ${key}`)
  const [head = '', claims = '', signature = ''] = token.split('.')
  const point = Buffer.from(key, 'base64url')
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((one) => one.toString('base64url'))
  const jwk = { kty: 'EC', crv: 'P-256', x: x!, y: y! }
  const signer = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' } as const
  if (!verify('sha256', Buffer.from(`${head}.${claims}`), signer, Buffer.from(signature, 'base64url')))
    throw new Error('it is not signed by that key')
  return JSON.parse(Buffer.from(claims, 'base64url').toString())
}

async function answer(person: Person, content: string): Promise<string> {
  const thread = await person.thread()
  const body = { input: { messages: [{ role: 'user', content }] } }
  await person.post(`/api/threads/${thread}/runs/wait`, body)
  return thread
}

/** Jobs that wait, as the database of a site has them. */
async function jobsLeft(home: string): Promise<number> {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'), { readonly: true })
  const [row] = db.prepare<[], { n: number }>('SELECT count(*) AS n FROM jobs').all()
  db.close()
  return row!.n
}

const idsOf = async (person: Person) =>
  listIn((await person.get(PATH)).body, 'subscriptions').map((one) => textIn(one, 'id'))

t.test(
  'a push says which conversation is done or asks, encrypted for its browser, signed, and no word more',
  async (t) => {
    const service = await pushService(t)
    const home = homeOf(t)
    const site = await openSite(t, { home, config: ALLOWED })
    const person = await signIn(site)
    const { subscription, read } = browser(`${service.origin}/send/abc`)
    const key = textIn((await person.get(PATH)).body, 'public_key')
    t.equal(Buffer.from(key, 'base64url').length, 65)
    const made = await person.post(`${PATH}/subscriptions`, subscription)
    t.equal(made.status, 201)
    t.equal(textIn(made.body, 'host'), new URL(service.origin).host)
    t.equal((await person.post(`${PATH}/subscriptions`, subscription)).status, 201, 'the same again is the same')
    t.same(await idsOf(person), [textIn(made.body, 'id')])

    const secret = 'a secret of mine'
    const done = await answer(person, `/demo deltas=3 rate=0 ${secret}`)
    await until(() => service.received.length === 1, 'a push')
    const asked = await answer(person, 'ask me something')
    await until(() => service.received.length === 2, 'another push')
    t.same(
      service.received.map(({ body }) => read(body)),
      [
        { kind: 'done', thread_id: done },
        { kind: 'asks', thread_id: asked }
      ]
    )
    const [{ headers, body, url }] = service.received as [Received]
    t.equal(url, '/send/abc')
    t.equal(headers['content-encoding'], 'aes128gcm')
    t.ok(Number(headers.ttl) > 0)
    const claims = claimsIn(headers.authorization, key)
    t.equal(textIn(claims, 'aud'), service.origin)
    t.match(textIn(claims, 'sub'), /^(mailto|https):/)
    t.ok(Number(at(claims, 'exp')) * 1000 > Date.now())
    t.notOk(body.toString('latin1').includes(secret))
    const file = join(home, VAPID_FILE)
    t.equal(statSync(file).mode & 0o777, 0o600)
    t.ok(readFileSync(file, 'utf8').startsWith(key))

    await site.stop()
    const again = await openSite(t, { home, config: ALLOWED })
    const back = await signIn(again)
    t.equal(
      textIn((await back.get(PATH)).body, 'public_key'),
      key,
      'its keys are kept: browsers have subscribed to them'
    )
  }
)

t.test('a key that may write items makes no browser of its own, and takes none away', async (t) => {
  const service = await pushService(t)
  const site = await openSite(t, { config: ALLOWED })
  const person = await signIn(site)
  await person.post(`${PATH}/subscriptions`, browser(`${service.origin}/mine`).subscription)
  const [id = ''] = await idsOf(person)
  const userId = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const program = await programOf(person, 'store:write')
  const address = browser(`${service.origin}/theirs`).subscription
  for (const kind of ['asserted', 'session']) {
    const grant = { kind, userId, digest: 'none', version: 0, expires: null }
    const item = { namespace: ['colloquy', 'push'], key: kind, value: { address, grant } }
    const answer = await program.ask('PUT', '/api/store/items', { body: item })
    t.match(answer, { status: 422, body: { detail: 'The namespace colloquy.push is kept for the service' } })
  }
  const removal = { namespace: ['colloquy', 'push'], key: id }
  t.equal((await program.ask('DELETE', '/api/store/items', { body: removal })).status, 422)
  t.same(await idsOf(person), [id])
  for (const namespace of [['colloquy'], ['push'], ['colloquy', 'push-notes']])
    t.equal((await program.ask('PUT', '/api/store/items', { body: { namespace, key: 'k', value: {} } })).status, 204)
})

t.test('nothing is pushed while a page of the user is connected, and again when it is gone', async (t) => {
  const service = await pushService(t)
  const site = await openSite(t, { config: ALLOWED })
  const person = await signIn(site)
  await person.post(`${PATH}/subscriptions`, browser(`${service.origin}/a`).subscription)
  const leave = new AbortController()
  const page = await fetch(`${site.url}/api/stream?threads=*`, { headers: person.headers(), signal: leave.signal })
  t.equal(page.status, 200)
  await answer(person, '/demo deltas=1 rate=0')
  leave.abort()
  await until(async () => {
    await answer(person, '/demo deltas=1 rate=0')
    return service.received.length > 0
  }, 'a push after it has left')
})

t.test('a service that has trouble is asked again; one that knows the browser no more is forgotten', async (t) => {
  const service = await pushService(t, [503, 410])
  const site = await openSite(t, { config: ALLOWED })
  const person = await signIn(site)
  await person.post(`${PATH}/subscriptions`, browser(`${service.origin}/a`).subscription)
  await answer(person, '/demo deltas=1 rate=0')
  await until(() => service.received.length === 2, 'a second try')
  await until(async () => (await idsOf(person)).length === 0, 'it is removed')
})

t.test('a browser that a legal hold keeps keeps no other from being told', async (t) => {
  const [gone, there] = [await pushService(t, [410]), await pushService(t)]
  const site = await openSite(t, { config: ALLOWED })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const person = await signIn(site)
  for (const { origin } of [gone, there])
    await person.post(`${PATH}/subscriptions`, browser(`${origin}/a`).subscription)
  const user_id = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  t.equal((await admin.post('/api/v1/admin/holds', { user_id, reason: 'a case' })).status, 201)
  await answer(person, '/demo deltas=1 rate=0')
  await until(() => there.received.length === 1, 'it is told')
  await until(async () => (await jobsLeft(site.home)) === 0, 'the job is done')
  t.equal(there.received.length, 1, 'and told once')
  t.equal((await idsOf(person)).length, 2)
})

t.test('subscriptions end with the session, by their id and with the account, and are nobody else’s', async (t) => {
  const service = await pushService(t)
  const site = await openSite(t, { config: ALLOWED })
  const person = await signIn(site)
  const other = await signIn(site, 'other')
  await person.post(`${PATH}/subscriptions`, browser(`${service.origin}/a`).subscription)
  const [id] = await idsOf(person)
  t.same(await idsOf(other), [])
  t.equal((await other.ask('DELETE', `${PATH}/subscriptions/${id}`)).status, 404)
  t.same(await idsOf(person), [id])
  t.equal((await person.ask('DELETE', `${PATH}/subscriptions/${id}`)).status, 200)
  t.equal((await person.ask('DELETE', `${PATH}/subscriptions/${id}`)).status, 404)

  await person.post(`${PATH}/subscriptions`, browser(`${service.origin}/b`).subscription)
  const token = textIn(
    (await person.post('/api/v1/auth/tokens', { scopes: ['threads:write', 'runs:create', 'runs:read'] })).body,
    'token'
  )
  await person.post('/api/v1/auth/logout', {})
  const program = new Person(site.url)
  const headers = { authorization: `Bearer ${token}` }
  const run = { assistant_id: 'lead_agent', input: { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] } }
  t.equal((await program.ask('POST', '/api/runs/wait', { headers, body: run })).status, 200)
  await until(async () => (await jobsLeft(site.home)) === 0, 'its job is done')
  t.equal(service.received.length, 0, 'who has signed out is told of nothing')
})

t.test('an address that is none, of plain HTTP elsewhere or of a closed network gets nothing', async (t) => {
  const service = await pushService(t)
  const site = await openSite(t)
  const person = await signIn(site)
  const { subscription } = browser(`${service.origin}/a`)
  for (const endpoint of ['x', 'http://push.example.com/a', 'ftp://127.0.0.1/', 'https://me:it@push.example.com/'])
    t.equal((await person.post(`${PATH}/subscriptions`, { ...subscription, endpoint })).status, 422, endpoint)
  const keys = { ...subscription.keys, auth: 'AAAA' }
  t.equal((await person.post(`${PATH}/subscriptions`, { ...subscription, keys })).status, 422)
  // The webhooks' rules, by which this machine is closed.
  t.equal((await person.post(`${PATH}/subscriptions`, subscription)).status, 201)
  await answer(person, '/demo deltas=1 rate=0')
  const trouble = () => site.logged.some(([, fields]) => at(fields, 'kind') === 'web_push')
  await until(trouble, 'a line about it')
  t.equal(service.received.length, 0)
})

t.test('the package is named in one sentence where it is missing', async (t) => {
  const { WebPush } = await import('../../lib/jobs/web-push.ts')
  const unused = () => Promise.reject(new Error('unused'))
  const push = new WebPush({
    store: { items: { search: unused } },
    write: unused,
    keys: { areMade: () => true, line: unused },
    subject: 'mailto:a@example.com',
    post: unused,
    isValid: unused,
    isWatched: () => false,
    timeoutMs: 1,
    onTrouble: () => {},
    load: () => Promise.reject(new Error('Cannot find package'))
  })
  await t.rejects(push.publicKey(), {
    code: 'push_unavailable',
    message: /needs the package web-push: npm install web-push/
  })
})

t.test('a home that takes no keys once may take them the next time', async (t) => {
  const home = homeOf(t)
  const person = await signIn(await openSite(t, { home }))
  mkdirSync(join(home, VAPID_FILE))
  t.equal((await person.get(PATH)).status, 500)
  rmdirSync(join(home, VAPID_FILE))
  t.equal((await person.get(PATH)).status, 200)
})

t.test('keys are made when somebody asks for them, and not by the end of a run', async (t) => {
  const home = homeOf(t)
  const person = await signIn(await openSite(t, { home }))
  await answer(person, '/demo deltas=1 rate=0')
  t.notOk(existsSync(join(home, VAPID_FILE)))
  t.equal((await person.get(PATH)).status, 200)
  t.ok(existsSync(join(home, VAPID_FILE)))
})
