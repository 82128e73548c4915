// What one user may store: above a limit a request is refused with its name, nothing that is there goes, and deleting makes room.
import t from 'tap'
import type { JsonObject } from '../../lib/base/types.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'

t.jobs = 3

const limitsOf = async (person: Person) => (await person.get('/api/v1/auth/limits')).body
const run = (person: Person, threadId: string, more: JsonObject = {}) =>
  person.post(`/api/threads/${threadId}/runs/wait`, asked('/demo deltas=3 rate=0', more))

onEachBackend(
  t,
  'a user has so many threads, by whatever way one is made; stateless runs go on',
  async (t, backend) => {
    const database = await databaseSection(t, backend)
    const site = await openSite(t, { config: { database, threads: { per_user: 3 } } })
    const person = await signIn(site)
    const first = await person.thread()
    const answers = await Promise.all(Array.from({ length: 6 }, () => person.post('/api/threads')))
    t.strictSame(answers.map(({ status }) => status).sort(), [200, 200, 409, 409, 409, 409])
    const detail = /You have 3 threads.*threads\.per_user/
    const chosen = 'chosen-by-its-client'
    for (const refused of [
      await person.post('/api/threads', { thread_id: chosen }),
      await person.post(`/api/threads/${first}/copy`),
      await person.post(`/api/threads/${chosen}/commands`, {
        id: 1,
        method: 'run.start',
        params: { assistant_id: 'lead_agent', input: { messages: [{ role: 'user', content: 'hello' }] } }
      })
    ])
      t.match(JSON.stringify(refused.body), detail)
    t.equal((await person.get(`/api/threads/${chosen}`)).status, 404)
    t.equal((await person.post('/api/threads', { thread_id: first })).status, 200, 'one that is there')
    const stateless = asked('/demo deltas=1 rate=0', { on_completion: 'delete' })
    t.equal((await person.post('/api/runs/wait', stateless)).status, 200)
    t.equal((await run(person, first)).status, 200)
    t.match(await limitsOf(person), { threads: { used: 3, max: 3 }, crons: { used: 0, max: 100 } })
    t.equal((await (await signIn(site, 'ben')).post('/api/threads')).status, 200, 'others have their own')
    await person.ask('DELETE', `/api/threads/${first}`)
    t.equal((await person.post('/api/threads')).status, 200)
  }
)

onEachBackend(t, 'whoever has stored too much starts no run until something is deleted', async (t, backend) => {
  const database = await databaseSection(t, backend)
  const site = await openSite(t, { config: { database, threads: { user_bytes: 20_000 } } })
  const person = await signIn(site)
  const [small, large] = [await person.thread(), await person.thread()]
  t.equal((await run(person, small)).status, 200)
  const { bytes } = (await limitsOf(person)) as { bytes: { used: number } }
  t.ok(bytes.used > 100 && bytes.used < 20_000, `${bytes.used} bytes`)
  const long = `/demo deltas=1 rate=0 ${'x'.repeat(30_000)}`
  t.equal((await run(person, large, { input: { messages: [{ role: 'user', content: long }] } })).status, 200)
  let refused = await run(person, large)
  // What was counted a moment ago is taken for the present count, for a second.
  for (const began = Date.now(); refused.status === 200 && Date.now() - began < 30_000; )
    refused = await run(person, large)
  t.match(refused, { status: 409, body: { detail: /20000 bytes or more.*threads\.user_bytes/ } })
  t.equal((await person.post('/api/runs/wait', asked('/demo deltas=1 rate=0'))).status, 409)
  const { body } = await person.get(`/api/threads/${large}/messages`)
  t.ok(Array.isArray(body) && body.length >= 2, 'what is there stays')
  await person.ask('DELETE', `/api/threads/${large}`)
  t.equal((await run(person, small)).status, 200)
})

onEachBackend(t, 'webhooks that wait are limited, runs without one are not', async (t, backend) => {
  const database = await databaseSection(t, backend)
  const webhooks = { per_user: 2, allowed_networks: ['127.0.0.0/8'], retry_ms: 3_600_000 }
  const site = await openSite(t, { config: { database, webhooks } })
  const person = await signIn(site)
  const threadId = await person.thread()
  // Nobody listens there.
  const webhook = { webhook: 'http://127.0.0.1:9/' }
  for (const _ of [1, 2]) t.equal((await run(person, threadId, webhook)).status, 200)
  const refused = await run(person, threadId, webhook)
  t.match(refused, { status: 429, body: { detail: /2 webhooks.*webhooks\.per_user/ } })
  t.ok(refused.headers.get('retry-after'))
  t.equal((await run(person, threadId)).status, 200)
  t.match(await limitsOf(person), { webhooks: { used: 2, max: 2 }, bytes: { max: 10 * 2 ** 30 } })
  t.type(textIn((await person.get('/api/v1/auth/me')).body, 'id'), 'string')
})

onEachBackend(
  t,
  'a state has a length above which no run begins and nothing is added, and goes on when it is shorter again',
  async (t, backend) => {
    const database = await databaseSection(t, backend)
    const site = await openSite(t, { config: { database, threads: { state_characters: 65_536 } } })
    const person = await signIn(site)
    const thread = await person.thread()
    const content = `/demo deltas=3 rate=0\n${'x'.repeat(40_000)}`
    const say = async () => {
      const { body } = await person.post(`/api/threads/${thread}/runs`, asked(content))
      await person.get(`/api/threads/${thread}/runs/${textIn(body, 'run_id')}/join`)
      return (await person.get(`/api/threads/${thread}/runs/${textIn(body, 'run_id')}`)).body
    }
    t.match(await say(), { status: 'success' })
    t.match(await say(), { status: 'success' }, 'it may grow while it is not too long')
    const error = /^The thread's state has 8\d{4} characters, more than 65536: /
    t.match(await say(), { status: 'error', error })
    const { text } = await person.get(`/api/threads/${thread}/messages?limit=9`)
    t.equal(text.split('x'.repeat(40_000)).length, 4, 'what was asked is kept')

    const path = `/api/threads/${thread}/state`
    const change = (values: JsonObject) => person.post(path, { values })
    const long = 'y'.repeat(60_000)
    t.equal((await change({ a: long })).status, 200, 'its length is seen')
    const refused = await change({ b: long })
    t.equal(refused.status, 400)
    t.match(refused.text, /the state has more than 65536 characters already/)
    t.equal((await change({ a: long.slice(1) })).status, 200, 'it may become shorter')
    t.equal((await change({ a: '', messages: [{ type: 'human', content: 'hi' }] })).status, 200)
    t.match(await say(), { status: 'success' })
  }
)
