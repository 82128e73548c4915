// Quotas: what each user may use, on all processes together. A run that has begun is never cut; the next is a 429 with the time of the reset.
import t, { type Test } from 'tap'
import { quotaUse } from '../../lib/store/sql/quotas.ts'
import type { QuotaLimits } from '../../lib/base/accounts.ts'
import { type GroupQuota, Quotas } from '../../lib/thread/quotas.ts'
import { command } from '../fixtures/child.ts'
import { type Answer, at, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { startPair } from '../fixtures/pair.ts'
import { type Form, starts } from '../fixtures/starts.ts'

const AUTH = '/api/v1/auth'
const USERS = '/api/v1/admin/users'
const TOKENS = { prompt_tokens: 60, completion_tokens: 40, total_tokens: 100 }
const NONE: QuotaLimits = {
  ...{ runs_per_day: 0, tokens_per_day: 0, money_per_month: 0, bytes: 0, runs_at_once: 0, requests_per_second: 0 }
}

async function limited(t: Test, quotas: object) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const one = { name: 'big', model: 'x', base_url: model.baseUrl, api_key: 'k', price: { input: 10, output: 10 } }
  const quiet = { title: { enabled: false }, memory: { enabled: false } }
  const site = await openSite(t, { config: { models: [one], ...quiet, quotas } })
  const admin = new Person(site.url)
  await admin.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
  return { site, model, admin, ann: await signIn(site, 'ann') }
}

function ask(person: Person, script: Parameters<typeof scripted>[0] = { usage: [TOKENS] }): Promise<Answer> {
  const input = { messages: [{ role: 'user', content: scripted(script) }] }
  return person.post('/api/runs/wait', { input })
}

const quotaOf = async (person: Person, name: string) => at((await person.get(`${AUTH}/me`)).body, 'quotas', name)

t.test('the run after the last of the day is a 429 with the reset, in each protocol’s form', async (t) => {
  const { ann, site } = await limited(t, { runs_per_day: 2 })
  t.strictSame([(await ask(ann)).status, (await ask(ann)).status], [200, 200])
  const refused = await ask(ann)
  t.match(refused, { status: 429, body: { detail: /^You have started 2 runs today.*T00:00:00/ } })
  const reset = Number(refused.headers.get('x-ratelimit-reset'))
  t.equal(reset % 86_400, 0, 'midnight in UTC')
  t.ok(Math.abs(Number(refused.headers.get('retry-after')) - (reset - Date.now() / 1000)) < 30)
  const body = { model: 'big', messages: [{ role: 'user', content: 'hi' }] }
  const openai = await ann.post('/v1/chat/completions', body)
  t.match(openai, { status: 429, body: { error: { type: 'rate_limit_error', code: 'quota_runs' } } })
  t.ok(openai.headers.has('retry-after'))
  t.match(await quotaOf(ann, 'runs_per_day'), { used: 2, max: 2, resets_at: /T00:00:00/ })
  t.equal((await ask(await signIn(site, 'bob'))).status, 200, 'others have their own')
})

t.test('a refused request leaves no thread in any protocol, and is answered in its form with the reset', async (t) => {
  const site = await openSite(t, { config: { quotas: { runs_per_day: 1 } } })
  const ann = await signIn(site, 'ann')
  const refusals: Record<Form, object> = {
    contract: { detail: /T00:00:00/ },
    rpc: { id: 7, error: { message: /T00:00:00/ } },
    rest: { error: { status: 'RESOURCE_EXHAUSTED', message: /T00:00:00/ } },
    openai: { error: { code: 'quota_runs', message: /T00:00:00/ } }
  }
  t.equal((await ask(ann)).status, 200)
  for (const { path, body, form } of starts('hi')) {
    const answer = await ann.post(path, body)
    t.match(answer, { status: 429, body: refusals[form] }, path)
    t.ok(answer.headers.has('retry-after'), path)
  }
  t.equal(listIn((await ann.post('/api/threads/search', {})).body).length, 1)
})

t.test('what is refused, or was there before, uses nothing of a quota', async (t) => {
  const { ann } = await limited(t, { runs_per_day: 2 })
  const thread = await ann.thread()
  const input = { messages: [{ role: 'user', content: scripted({ text: 'one' }) }] }
  for (let i = 0; i < 3; i++) {
    t.equal(
      (await ann.post(`/api/threads/${thread}/runs/wait`, { input }, { headers: { 'idempotency-key': 'k' } })).status,
      200
    )
    t.equal((await ann.post(`/api/threads/none/runs/wait`, { input })).status, 404)
  }
  t.match(await quotaOf(ann, 'runs_per_day'), { used: 1 })
  for (const status of [200, 429]) t.equal((await ask(ann)).status, status)
  const again = { headers: { 'idempotency-key': 'k' } }
  t.equal((await ann.post(`/api/threads/${thread}/runs/wait`, { input }, again)).status, 200, 'nor needs a place')
})

t.test('a repeated request gets its run, also the one that has used the last place', async (t) => {
  const { ann } = await limited(t, { runs_per_day: 1 })
  const input = { messages: [{ role: 'user', content: scripted({ text: 'one' }) }] }
  const again = (body: object = { input }) =>
    ann.post('/api/runs/wait', body, { headers: { 'idempotency-key': 'last' } })
  const [first, second] = [await again(), await again()]
  t.strictSame([first.status, second.status], [200, 200])
  t.strictSame(second.body, first.body)
  t.equal((await again({ input, metadata: { other: true } })).status, 409, 'another one under its key does not')
})

t.test(
  'tokens and money are counted when a run ends: one that goes on is not cut, and the next is refused',
  async (t) => {
    for (const quotas of [{ tokens_per_day: 150 }, { money_per_month: 0.0015 }]) {
      const { ann } = await limited(t, quotas)
      for (const status of [200, 200, 429]) t.equal((await ask(ann)).status, status)
      t.match(await quotaOf(ann, 'tokens_per_day'), { used: 200 })
      t.match(await quotaOf(ann, 'money_per_month'), { used: 0.002, currency: 'USD' })
    }
  }
)

t.test('bytes that are stored, and requests a second', async (t) => {
  const { ann } = await limited(t, { bytes: 10 })
  t.equal((await ask(ann)).status, 200)
  await until(async () => (await ask(ann)).status === 429, 'within a second')
  const refusal = await ask(ann)
  t.match(refusal, { status: 429, body: { detail: /10 bytes/ } })
  t.equal(refusal.headers.get('retry-after'), '3600', 'no client waits for what no time mends')
  const many = await limited(t, { requests_per_second: 3 })
  const answers = await Promise.all(Array.from({ length: 12 }, () => many.ann.get('/api/models')))
  const refused = answers.filter(({ status }) => status === 429)
  t.ok(refused.length >= 4, `${refused.length} of 12`)
  t.match(refused[0], { body: { detail: /^You may send 3 requests/ } })
  t.equal(refused[0]?.headers.get('retry-after'), '1')
  await until(async () => (await many.ann.get('/api/models')).status === 200, 'after a moment there is room')
})

t.test('an account has a quota of its own, by route and by command, and so has a service account', async (t) => {
  const { site, admin, ann } = await limited(t, { runs_per_day: 1 })
  const { body } = await ann.get(`${AUTH}/me`)
  const [id, email] = [textIn(body, 'id'), textIn(body, 'email')]
  const set = (who: string, quota: object | null) => admin.ask('PATCH', `${USERS}/${who}`, { body: { quota } })
  t.match(await set(id, { runs_per_day: 2 }), { status: 200, body: { quota: { runs_per_day: 2 } } })
  t.strictSame([(await ask(ann)).status, (await ask(ann)).status, (await ask(ann)).status], [200, 200, 429])
  t.match(await command(site.home, 'user', 'quota', email, '--runs-per-day', '0'), { code: 0, out: /runs_per_day\t0/ })
  await until(async () => (await ask(ann)).status === 200, 'no limit')
  t.match(await command(site.home, 'user', 'quota', email, '--default'), { out: /no quota of its own/ })
  t.match(await command(site.home, 'user', 'quota', email, '--runs-per-day', '1.5'), { code: 2 })
  for (const bad of [{ runs_per_day: -1 }, { tokens: 3 }, { bytes: 'x' }]) t.equal((await set(id, bad)).status, 422)
  const { body: lines } = await admin.get('/api/v1/admin/audit?action=quota')
  t.match(at(lines, 'entries', 2), { target: `user:${id}`, details: { runs_per_day: 2 }, actor: /^user:/ })
  const robot = textIn((await admin.post(USERS, { name: 'robot' })).body, 'id')
  await set(robot, { runs_per_day: 2, requests_per_second: 1000 })
  const scopes = ['threads:write', 'runs:create']
  const token = textIn((await admin.post(`${USERS}/${robot}/tokens`, { scopes })).body, 'token')
  const input = { messages: [{ role: 'user', content: 'model:{}' }] }
  const run = () =>
    new Person(site.url).post('/api/runs/wait', { input }, { headers: { authorization: `Bearer ${token}` } })
  t.strictSame([(await run()).status, (await run()).status, (await run()).status], [200, 200, 429])
})

t.test('of several groups the most counts, and the account’s own before them', async (t) => {
  const group = (name: string, more: Partial<QuotaLimits>, provider: string | null = null): GroupQuota => ({
    name,
    provider,
    ...more
  })
  const groups = [
    group('staff', { runs_per_day: 5 }),
    group('lab', { runs_per_day: 9, bytes: 0 }),
    group('x', { bytes: 1 }, 'other')
  ]
  const quotas = new Quotas({ ...NONE, runs_per_day: 1, bytes: 7, groups }, async () => null)
  const of = (more: object) => quotas.of({ id: 'ann', oauth_provider: 'company', ...more })
  t.match(of({}), { runs_per_day: 1, bytes: 7 })
  t.match(of({ groups: ['staff'] }), { runs_per_day: 5, bytes: 7 })
  t.match(of({ groups: ['staff', 'lab', 'x'] }), { runs_per_day: 9, bytes: 0 })
  t.match(of({ groups: ['lab'], quota: { runs_per_day: 0 } }), { runs_per_day: 0, bytes: 0 })
  t.match(await quotas.find('known only to the rules of a project'), { runs_per_day: 1, bytes: 7 })
})

t.test('two processes share what a user may use, also after one of them was stopped', async (t) => {
  const quotas = { runs_per_day: 40, runs_at_once: 2, tokens_per_day: 2000 }
  const { a, b, onA, onB, model } = await startPair(t, { config: { quotas } })
  const started = (person: Person, gate: string) =>
    person.post('/api/runs', { input: { messages: [{ role: 'user', content: scripted({ gate }) }] } })
  t.strictSame([(await started(onA, 'g')).status, (await started(onB, 'g')).status], [200, 200])
  t.match(await started(onA, 'g'), { status: 429, body: { detail: /2 runs in flight/ } })
  t.match(await started(onB, 'g'), { status: 429 })
  t.match(await quotaOf(onB, 'runs_at_once'), { used: 2, max: 2 })
  model.release('g')
  await until(async () => at(await quotaOf(onB, 'runs_at_once'), 'used') === 0, 'they end')
  const answers: number[] = []
  for (let n = 0; n < 50 && answers.at(-1) !== 429; n++) answers.push((await ask(n % 2 ? onA : onB)).status)
  const begun = answers.filter((status) => status === 200).length
  t.ok(begun >= 18 && begun <= 24, `${begun} runs of 100 tokens each: 2000, and at most a block a process more`)
  await until(async () => (await ask(onA)).status === 429 && (await ask(onB)).status === 429, 'then neither begins one')
  await b.stop()
  t.equal((await ask(onA)).status, 429)
  t.match(await quotaOf(onA, 'runs_per_day'), { max: 40 })
  await a.stop()
})

t.test('what an account has used is asked for in one statement, whoever looks at it', (t) => {
  const steps = quotaUse('ann', '2026-01-31')
  t.match(steps.next(), { done: false, value: { params: ['ann', '2026-01-31', '2026-01-01', '2026-01-31'] } })
  const row = { ended: 2, taken: 3, tokens: '15', money_micros: '7', runs_at_once: '1', bytes: '70' }
  const value = { runs: 3, tokens: 15, money_micros: 7, runs_at_once: 1, bytes: 70 }
  t.strictSame(steps.next([row]), { done: true, value })
  t.end()
})
