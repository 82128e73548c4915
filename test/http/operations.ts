// What the command line does with an installation, over HTTP beside its own requests: who may, one at a time, without secrets.
import { writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../fixtures/child.ts'
import { homeOf, listIn, openSite, type Options, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'

const ADMIN = '/api/v1/admin'
const SECRET = 'planted-secret-of-the-tools-0123456789'

async function administered(t: Test, config: Options = {}) {
  const site = await openSite(t, { config: { mcp: { secrets_key: SECRET }, ...config } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const audited = async (action: string) => listIn((await admin.get(`${ADMIN}/audit?action=${action}`)).body, 'entries')
  return { site, admin, audited }
}

t.test('doctor, config and migration say what their commands say, without a secret', async (t) => {
  const { site, admin } = await administered(t)
  const doctor = await admin.get(`${ADMIN}/doctor`)
  t.match(doctor, { status: 200, body: { is: /good|warn/, findings: [{ check: 'node', is: 'good' }] } })
  t.notOk(doctor.text.includes('"port"'), 'the port is its own')
  const config = await admin.get(`${ADMIN}/config`)
  t.match(config, { status: 200, body: { options: { home: site.home, mcp: { secrets_key: '***' } }, warnings: [] } })
  t.notOk(config.text.includes(SECRET))
  const file = join(site.home, 'colloquy.yaml')
  const { out } = await command(site.home, 'config', 'show', '--json', '--config', file)
  const shown = JSON.parse(out) as { options: { runs: object } }
  t.match(config.body, { file, options: { runs: shown.options.runs } })
  const { out: plan } = await command(site.home, 'migrate', '--plan', '--json')
  const { bytes: _, ...planned } = JSON.parse(plan) as { bytes: number }
  t.match((await admin.get(`${ADMIN}/migration`)).body, planned)
})

t.test('a database is pruned beside its server, and what is too old is counted', async (t) => {
  const { site, admin, audited } = await administered(t, { retention: { audit_days: 1 } })
  t.match(await admin.get(`${ADMIN}/prune`), { body: { audit: { count: 0, before: String }, runs: { before: null } } })
  const two = await Promise.all([admin.post(`${ADMIN}/prune`), admin.post(`${ADMIN}/prune`)])
  t.ok(two.some(({ text }) => text.includes('one at a time')))
  // Beside a writer the log may be in use, which is refused.
  await until(async () => {
    const { status, body } = await admin.post(`${ADMIN}/prune`)
    if (status === 200) t.match(body, { bytes_before: Number, bytes_after: Number })
    return status === 200
  }, 'the file is rewritten')
  t.match(await audited('pruned'), [{ actor: /^user:/, address: '127.0.0.1' }])
  await until(async () => (await command(site.home, 'prune', '--now', '--json')).code === 0, 'the command does it too')
  t.match(await audited('pruned'), [{ actor: 'operator' }, { actor: /^user:/ }])
})

t.test(
  'a backup comes as a download while runs go on, is whole, has no secrets, and leaves nothing behind',
  async (t) => {
    const { site, admin, audited } = await administered(t)
    const ann = await signIn(site, 'ann')
    const stream = await ann.stream(await ann.thread(), '/demo deltas=200 rate=200')
    t.match(await admin.post(`${ADMIN}/backup`, { with_secrets: true }), { status: 422 }, 'secrets stay here')
    const headers = { cookie: [...admin.cookies].map((pair) => pair.join('=')).join('; ') }
    const asked = { method: 'POST', headers: { ...headers, 'x-csrf-token': admin.cookies.get('csrf_token') ?? '' } }
    const answers = await Promise.all([
      fetch(`${site.url}${ADMIN}/backup`, asked),
      fetch(`${site.url}${ADMIN}/backup`, asked)
    ])
    t.strictSame(answers.map(({ status }) => status).sort(), [200, 409], 'one at a time')
    const [made] = answers.filter(({ ok }) => ok)
    t.match(made?.headers.get('content-disposition'), /^attachment; filename="colloquy-[\d-]+\.zip"$/)
    const file = join(homeOf(t), 'backup.zip')
    writeFileSync(file, Buffer.from(await made!.arrayBuffer()))
    t.match(await command(site.home, 'restore', file, '--check', '--json'), { code: 0, out: /"with_secrets":false/ })
    t.strictSame(await readdir(join(site.home, 'incoming')), [])
    t.match(await audited('backup'), [{ actor: /^user:/, details: { with_secrets: false } }])
    t.equal(await stream.ended, 'whole')
    for (let n = 0; n < 3; n++)
      t.equal((await admin.post(`${ADMIN}/backup`)).status, 200, 'who has one whole may have the next at once')
  }
)

t.test('whoever leaves ends the making of a backup, and the next one is made', async (t) => {
  const { site, admin } = await administered(t)
  const gone = new AbortController()
  const headers = { cookie: [...admin.cookies].map((pair) => pair.join('=')).join('; ') }
  const asked = { method: 'POST', headers: { ...headers, 'x-csrf-token': admin.cookies.get('csrf_token') ?? '' } }
  const cut = fetch(`${site.url}${ADMIN}/backup`, { ...asked, signal: gone.signal }).catch(() => null)
  setTimeout(() => gone.abort(), 50)
  await cut
  let answer = await fetch(`${site.url}${ADMIN}/backup`, asked)
  for (let tries = 0; answer.status === 409 && tries < 100; tries++)
    answer = await fetch(`${site.url}${ADMIN}/backup`, asked)
  t.equal(answer.status, 200)
  await answer.arrayBuffer()
  t.strictSame(await readdir(join(site.home, 'incoming')), [])
})

t.test('a job is tried again or dropped over HTTP as by the command, and the audit says by whom', async (t) => {
  const { site, admin, audited } = await administered(t, { webhooks: { allowed_networks: ['127.0.0.1'], attempts: 1 } })
  const run = await admin.post(`/api/threads/${await admin.thread()}/runs/wait`, {
    input: { messages: [{ role: 'user', content: '/demo deltas=1 rate=0' }] },
    webhook: 'http://127.0.0.1:9/dead'
  })
  t.equal(run.status, 200)
  const dead = async () => listIn((await admin.get(`${ADMIN}/jobs?dead=true`)).body, 'jobs')
  let jobs = await dead()
  for (let tries = 0; jobs.length === 0 && tries < 200; tries++) jobs = await dead()
  const key = textIn(jobs[0], 'key')
  const job = `${ADMIN}/jobs/webhook/${key}`
  t.match(await admin.post(`${job}/retry`), { status: 200, body: { success: true } })
  t.match(await audited('job_retried'), [{ actor: /^user:/, target: 'job:webhook' }])
  t.match(await admin.ask('DELETE', job), { status: 200 })
  t.match(await admin.ask('DELETE', job), { status: 404, body: { detail: `There is no webhook ${key}` } })
  t.equal((await admin.post(`${ADMIN}/jobs/nonsense/x/retry`)).status, 404)
  t.match(await command(site.home, 'jobs', 'drop', 'webhook', key), { code: 1 })
  t.match(await audited('job_dropped'), [{ actor: /^user:/ }])
})
