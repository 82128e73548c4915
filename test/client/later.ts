// Runs that start later, and who is told of their end: as LangGraph's clients ask for it, over restarts, and whatever receivers do.
import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { databaseSection } from '../fixtures/backends.ts'
import {
  asked,
  at,
  homeOf,
  listIn,
  openSite,
  type Options,
  type Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { command } from '../fixtures/child.ts'
import { probes, sdkOf } from '../fixtures/sdk.ts'
import { EVERYTHING, openProtocol } from '../fixtures/protocol.ts'

const says = asked('/demo deltas=1 rate=0')
const LOOPBACK = { allowed_networks: ['127.0.0.0/8'] }
const probe = probes(t)

probe('a run that is to wait is pending until then, and holds up nobody', async (t, { client }) => {
  const { thread_id } = await client.threads.create()
  const begun = Date.now()
  const run = await client.runs.create(thread_id, 'lead_agent', { ...says, afterSeconds: 1 })
  t.equal(run.status, 'pending')
  t.ok(Date.parse(run.created_at) >= begun + 1000, 'it is made in the future')
  const other = await client.runs.create(thread_id, 'lead_agent', { ...says, multitaskStrategy: 'enqueue' })
  await client.runs.join(thread_id, other.run_id)
  t.ok(await client.runs.join(thread_id, run.run_id))
  const [first, second] = [await client.runs.get(thread_id, run.run_id), await client.runs.get(thread_id, other.run_id)]
  t.same([first.status, second.status], ['success', 'success'])
  t.ok(Date.parse(first.updated_at) >= begun + 1000)
})

t.test('a run that waits is cancelled like any other', async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  const path = await person.run(threadId, '/demo deltas=1 rate=0', { after_seconds: 3600 })
  t.equal((await person.post(`${path}/cancel?wait=true`)).status, 204)
  t.equal(at((await person.get(path)).body, 'status'), 'interrupted')
  t.equal((await person.post(`/api/threads/${threadId}/runs`, { ...says, after_seconds: -1 })).status, 422)
  t.equal((await person.post(`/api/threads/${threadId}/runs`, { ...says, after_seconds: 1e9 })).status, 422)
})

t.test('a run that waits outlives its process, and starts when its time has come', async (t) => {
  const home = homeOf(t)
  const first = await openSite(t, { home })
  const person = await signIn(first)
  const begun = Date.now()
  const path = await person.run(await person.thread(), '/demo deltas=1 rate=0', { after_seconds: 2 })
  await first.stop()
  const second = await openSite(t, { home })
  person.url = second.url
  await until(async () => at((await person.get(path)).body, 'status') === 'success', 'the run is over')
  t.ok(Date.now() >= begun + 2000)
})

t.test('a run that waits is started by another process when its own is gone, and once', async (t) => {
  const both = { home: homeOf(t), config: { database: await databaseSection(t, 'postgres'), runs: { lease_ms: 2000 } } }
  // The home is of one of them: with PostgreSQL two may share it.
  const [first, second] = [await openSite(t, both), await openSite(t, both)]
  const person = await signIn(first)
  const thread = await person.thread()
  const path = await person.run(thread, '/demo deltas=1 rate=0', { after_seconds: 3 })
  person.url = second.url
  t.equal((await person.get(path)).status, 200, 'both know of it')
  await first.stop()
  await until(async () => at((await person.get(path)).body, 'status') === 'success', 'the other has started it')
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1)
  const { body } = await person.get(`/api/threads/${thread}/state`)
  t.equal(listIn(at(body, 'values', 'messages')).length, 2)
})

t.test('who watches a thread is not held up by a run that is to start later, and sees it when it does', async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  const stream = await person.open('GET', `/api/threads/${threadId}/stream?last_event_id=-1`)
  const idOf = (path: string) => path.split('/').at(-1)
  // Long enough for the other one to be asked for meanwhile.
  const later = await person.run(threadId, '/demo deltas=1 rate=0', { after_seconds: 3 })
  const soon = await person.run(threadId, '/demo deltas=1 rate=0', { multitask_strategy: 'enqueue' })
  const heads = () => stream.frames.filter(({ event }) => event === 'metadata')
  const shown = () => [...new Set(heads().map(({ data }) => at(JSON.parse(data), 'run_id')))]
  await until(() => shown().length === 2, 'both are shown')
  t.same(shown(), [idOf(soon), idOf(later)])
  await until(async () => at((await person.get(later)).body, 'status') === 'success', 'it is over')
  await person.run(threadId, '/demo deltas=1 rate=0')
  await until(() => shown().length === 3, 'what comes then is shown as well')
  stream.leave()
})

t.test('runs of a thread are told in the order in which they have started, to whoever and whenever', async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  const live = await openProtocol(person, threadId)
  await live.subscribe()
  await person.run(threadId, '/demo deltas=3 rate=0', { after_seconds: 3 })
  // It begins with what is to come, and not with the run that has no place yet.
  const stream = await person.open('GET', `/api/threads/${threadId}/stream`)
  await person.run(threadId, '/demo deltas=5 rate=0', { multitask_strategy: 'enqueue' })
  await live.untilEnds(1)
  const [half] = live.events.slice(-1)
  await live.untilEnds(2)
  const seqs = live.events.map(({ seq }) => seq)
  t.strictSame(
    seqs.toSorted((a, b) => a - b),
    seqs
  )
  for (const since of [0, half!.seq]) {
    const late = await openProtocol(person, threadId)
    await late.subscribe(EVERYTHING, { since })
    await late.untilEnds(since === 0 ? 2 : 1)
    t.strictSame(
      late.events,
      live.events.filter(({ seq }) => seq > since)
    )
    late.close()
  }
  await until(() => stream.frames.filter(({ data }) => data.includes('run_done')).length === 2, 'both are told')
  stream.leave()
  live.close()
})

// --------------------------------------------------------------------------------------------------- webhooks

interface Received {
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A receiver that notes what it is sent; `answer` does something else than to take it. */
async function receiver(t: Test, answer: (res: ServerResponse, count: number) => void = (res) => void res.end('ok')) {
  const received: Received[] = []
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      received.push({ headers: req.headers, body: Buffer.concat(chunks).toString() })
      answer(res, received.length)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?key=hidden` }
}

/** A site whose runs are told to a receiver. */
async function told(t: Test, webhooks: Options, answer?: (res: ServerResponse, count: number) => void) {
  const hook = await receiver(t, answer)
  const site = await openSite(t, { config: { webhooks: { ...LOOPBACK, retry_ms: 20, ...webhooks } } })
  const person = await signIn(site)
  const run = async (words = '/demo deltas=1 rate=0') => person.run(await person.thread(), words, { webhook: hook.url })
  return { ...hook, site, person, run }
}

const saidOf = ({ logged }: { readonly logged: readonly [string, object, string][] }, text: string) =>
  logged.filter(([, , line]) => line.includes(text))

t.test('the end of a run is told with its values, signed with the secret', async (t) => {
  const { received, run, person } = await told(t, { secret: 'whsec_c2VjcmV0' })
  const path = await run()
  await until(() => received.length === 1, 'it is told')
  const { headers, body } = received[0]!
  const payload: unknown = JSON.parse(body)
  const runId = path.split('/').at(-1)
  t.match(payload, { run_id: runId, status: 'success', run_ended_at: String, webhook_sent_at: String })
  t.match(listIn(at(payload, 'values', 'messages')), [{ type: 'human' }, { type: 'ai' }])
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
  const signature = createHmac('sha256', 'secret').update(signed).digest('base64')
  t.equal(headers['webhook-signature'], `v1,${signature}`)
  t.equal(headers['webhook-id'], runId)
  t.equal(headers['content-type'], 'application/json')
  t.equal(headers.cookie, undefined)
  await run('/demo deltas=1 rate=0 error')
  await until(() => received.length === 2, 'a failure is told as well')
  t.match(JSON.parse(received[1]!.body), { status: 'error', error: String })
  t.notOk(JSON.stringify((await person.get(path)).body).includes('hidden'), 'the address is nobody’s business')
})

t.test('the end of a run whose thread goes with it is told with its values', async (t) => {
  const hook = await receiver(t, (res, count) => void res.writeHead(count < 2 ? 503 : 200).end())
  const site = await openSite(t, { config: { webhooks: { ...LOOPBACK, retry_ms: 20 } } })
  const client = await sdkOf(await signIn(site), '1.12.4')
  await client.runs.wait(null, 'lead_agent', { ...says, webhook: hook.url })
  await until(() => hook.received.length === 2, 'it is told, the second time when the thread is gone')
  const payload: unknown = JSON.parse(hook.received[1]!.body)
  t.match(listIn(at(payload, 'values', 'messages')), [{ type: 'human' }, { type: 'ai' }])
  t.same(await client.threads.search(), [])
})

t.test('a receiver that fails is told again, with the same id, until it takes it', async (t) => {
  const { received, run, site } = await told(t, {}, (res, count) => void res.writeHead(count < 3 ? 503 : 200).end())
  await run()
  await until(() => received.length === 3, 'it is told three times')
  t.equal(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 1)
  t.equal(received[0]!.headers['webhook-signature'], undefined, 'without a secret there is no signature')
  const said = saidOf(site, 'it will be tried again')
  t.match(
    said.map(([, fields]) => fields),
    [{ attempts: 1, reason: 'it answered 503' }, { attempts: 2 }]
  )
  t.notOk(JSON.stringify(said).includes('hidden'), 'no key in the log')
})

t.test('a receiver that hangs, redirects or lies inward is given up after so many tries', async (t) => {
  const inward = 'http://169.254.169.254/latest/meta-data'
  const wrongs: [string, (res: ServerResponse) => void, RegExp, Options][] = [
    ['hangs', () => {}, /did not answer in time/, { timeout_ms: 1000 }],
    ['answers without an end', (res) => void res.writeHead(500).write('x'), /answered 500/, {}],
    ['redirects inward', (res) => void res.writeHead(307, { location: inward }).end(), /redirects, which is not/, {}],
    ['lies inward', (res) => void res.end(), /private network that is not allowed \(webhooks/, { allowed_networks: [] }]
  ]
  for (const [name, answer, reason, options] of wrongs)
    await t.test(name, async (t) => {
      const { run, site, received } = await told(t, { attempts: 2, ...options }, answer)
      await run()
      await until(() => saidOf(site, 'giving up').length === 1, 'it is given up')
      t.match(at(saidOf(site, 'giving up')[0]![1], 'reason'), reason)
      t.equal(received.length, name === 'lies inward' ? 0 : 2)
    })
})

t.test('a user whose receivers all hang holds up nobody else’s', async (t) => {
  const hanging = await receiver(t, () => {})
  const hook = await receiver(t)
  // Nobody is given up while this runs: whoever waits for a place would wait until its end.
  const site = await openSite(t, { config: { webhooks: { ...LOOPBACK, timeout_ms: 600_000 } } })
  const [ada, bob] = [await signIn(site, 'ada'), await signIn(site, 'bob')]
  const run = async (person: Person, webhook: string) =>
    person.run(await person.thread(), '/demo deltas=1 rate=0', { webhook })
  const many = 40
  for (let n = 0; n < many; n++) await run(ada, hanging.url)
  await until(() => hanging.received.length >= 8, 'she has her share')
  await run(bob, hook.url)
  await until(() => hook.received.length === 1, 'he is told')
  t.equal(hanging.received.length, 8, 'and no more than that')
})

t.test('an end that nobody could be told outlives the process', async (t) => {
  let isThere = false
  const hook = await receiver(t, (res) => void res.writeHead(isThere ? 200 : 500).end())
  const home = homeOf(t)
  const config = { webhooks: { ...LOOPBACK, retry_ms: 500 } }
  const first = await openSite(t, { home, config })
  const person = await signIn(first)
  await person.run(await person.thread(), '/demo deltas=1 rate=0', { webhook: hook.url })
  await until(() => hook.received.length === 1, 'it was tried')
  await first.stop()
  isThere = true
  const second = await openSite(t, { home, config })
  await until(() => hook.received.length >= 2, 'the next process tries again')
  t.match(JSON.parse(hook.received.at(-1)!.body), { status: 'success' })
  await second.stop()
})

t.test('a run that is refused leaves no webhook, and an address that is none is refused', async (t) => {
  const { received, person, url, site } = await told(t, {})
  const threadId = await person.thread()
  const body = { ...says, webhook: url }
  const slow = await person.run(threadId, '/demo deltas=1000 rate=1')
  t.equal((await person.post(`/api/threads/${threadId}/runs`, body)).status, 409)
  await person.post(`${slow}/cancel?wait=true`)
  const path = (await person.post(`/api/threads/${threadId}/runs`, body)).headers.get('content-location')
  await until(() => received.length > 0, 'the one that was taken is told')
  t.equal(textIn(JSON.parse(received[0]!.body), 'run_id'), path?.split('/').at(-1))
  t.equal(received.length, 1)
  for (const webhook of ['ftp://x/y', '/relative', 'javascript:1', `https://${'x'.repeat(3000)}`, 7])
    t.equal((await person.post(`/api/threads/${threadId}/runs`, { ...says, webhook })).status, 422)
  await site.stop()
})

t.test('the end of a run that is rolled back or deleted with its thread is sent as well', async (t) => {
  const { received, person, url, site } = await told(t, {})
  const client = await sdkOf(person, '1.12.4')
  const long = asked('/demo deltas=100000 rate=20')
  const { thread_id } = await client.threads.create()
  const first = await client.runs.create(thread_id, 'lead_agent', { ...long, webhook: url })
  await client.runs.create(thread_id, 'lead_agent', { ...long, webhook: url, multitaskStrategy: 'rollback' })
  await until(() => received.length === 1, 'the one that was rolled back is told')
  t.match(JSON.parse(received[0]!.body), { run_id: first.run_id, thread_id, status: 'error' })
  await client.threads.delete(thread_id)
  await until(() => received.length === 2, 'and the one that went with its thread')
  t.match(JSON.parse(received[1]!.body), { thread_id, status: 'interrupted', values: Object })
  await site.stop()
})

t.test('a webhook that cannot be sent is dead after its attempts, and is sent when somebody retries it', async (t) => {
  let isThere = false
  const hook = await receiver(t, (res) => void res.writeHead(isThere ? 200 : 500).end())
  const site = await openSite(t, { config: { webhooks: { ...LOOPBACK, retry_ms: 20, attempts: 2 } } })
  const admin = await signIn(site)
  const path = await admin.run(await admin.thread(), '/demo deltas=1 rate=0', { webhook: hook.url })
  const key = path.split('/').at(-1)!
  const listed = async () => (await command(site.home, 'jobs', 'list', '--dead')).out
  await until(async () => (await listed()).includes(key), 'it is dead')
  t.match(await listed(), new RegExp(`^webhook\t${key}\tdead\t2\t.*it answered 500`))
  t.notOk((await listed()).includes('hidden'))
  isThere = true
  t.match(await command(site.home, 'jobs', 'retry', 'webhook', key), { code: 0, out: /is due now/ })
  await until(() => hook.received.length === 3, 'it is sent')
  await until(async () => (await listed()) === '', 'and forgotten')
  t.match(await command(site.home, 'jobs', 'drop', 'webhook', key), { code: 1, errors: /There is no webhook/ })
})

t.test('a webhook that cannot be written is given up after its attempts, and listed with the reason', async (t) => {
  const hook = await receiver(t)
  let isDamaged = true
  const site = await openSite(t, {
    config: { webhooks: { ...LOOPBACK, retry_ms: 20, attempts: 3 }, title: { enabled: false } },
    behind: (store) => ({
      ...store,
      checkpoints: {
        ...store.checkpoints,
        async load(...which) {
          if (isDamaged && which[1] !== null) throw new Error('checkpoint body 7 was never written')
          return store.checkpoints.load(...which)
        }
      }
    })
  })
  const admin = await signIn(site)
  const path = await admin.run(await admin.thread(), '/demo deltas=1 rate=0', { webhook: hook.url })
  const key = path.split('/').at(-1)!
  await until(() => saidOf(site, 'giving up').length === 1, 'it is given up')
  t.match(saidOf(site, 'giving up')[0]![1], { kind: 'webhook', key, attempts: 3, reason: /body 7/ })
  const { out } = await command(site.home, 'jobs', 'list', '--dead')
  t.match(out, new RegExp(`^webhook\t${key}\tdead\t3\t.*body 7 was never written\n$`))
  t.equal(hook.received.length, 0)
  isDamaged = false
  await command(site.home, 'jobs', 'retry', 'webhook', key)
  await until(() => hook.received.length === 1, 'it is sent when it can be')
  t.match(JSON.parse(hook.received[0]!.body), { run_id: key, status: 'success' })
})
