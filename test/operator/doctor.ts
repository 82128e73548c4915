// colloquy doctor and config show: what they find, and that neither says a secret.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { command } from '../fixtures/child.ts'
import { homeOf, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'

const SENTINEL = 'sentinel-7f3a9c'

interface Finding {
  readonly check: string
  readonly is: string
  readonly text: string
}

const findingsIn = (out: string) =>
  Object.fromEntries(
    out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Finding)
      .map((finding) => [finding.check, finding])
  )

/** A configuration with a secret wherever one may stand. */
const SECRETS = {
  auth: {
    jwt_secret: SENTINEL.repeat(4),
    oidc: {
      providers: [{ id: 'a', issuer: 'http://127.0.0.1:9', client_id: 'c', client_secret: SENTINEL }]
    }
  },
  models: [
    {
      name: 'm',
      model: 'm',
      api_key: SENTINEL,
      base_url: `http://u:${SENTINEL}@127.0.0.1:9/v1?key=${SENTINEL}`,
      request: { extra_headers: { Authorization: SENTINEL } }
    }
  ],
  agent: { api_key: SENTINEL, headers: { 'x-secret': SENTINEL } },
  webhooks: { secret: SENTINEL }
}

t.test(
  'a sound installation has nothing bad, also beside its server, and what is not is told with its remedy',
  async (t) => {
    const site = await openSite(t, {})
    const { code, out } = await command(site.home, 'doctor', '--json')
    const findings = findingsIn(out)
    t.match(findings, {
      database: { is: 'warn', text: /no administrator yet/ },
      models: { is: 'warn' },
      node: { is: 'good' }
    })
    t.match(findings, { port: { text: /a server runs/ }, jobs: { is: 'good' }, schema: { is: 'good', text: /^\d+$/ } })
    const bad = Object.values(findings).filter(({ is }) => is === 'bad')
    t.strictSame([code, bad], [0, []])
    await site.stop()
    writeFileSync(join(site.home, 'colloquy.yaml'), JSON.stringify({ models: SECRETS.models }))
    const broken = await command(site.home, 'doctor', '--json')
    t.equal(broken.code, 1)
    t.match(findingsIn(broken.out), { models: { is: 'bad', text: /^m cannot be reached/ } })
  }
)

t.test('no secret is in what is shown, logged, answered or measured', async (t) => {
  const home = homeOf(t)
  writeFileSync(join(home, 'colloquy.yaml'), JSON.stringify(SECRETS))
  for (const words of [['config', 'show'], ['config', 'show', '--json'], ['doctor'], ['serve', '--check']]) {
    const { out, errors: err } = await command(home, ...words)
    t.notMatch(out + err, SENTINEL, words.join(' '))
  }
  const site = await openSite(t, {
    config: { ...SECRETS, log: { access: true }, models: [{ ...SECRETS.models[0], max_retries: 0 }] }
  })
  const person = await signIn(site, 'ann')
  const password = `${SENTINEL}-password`
  const bearer = { headers: { authorization: `Bearer ${SENTINEL}`, 'x-api-key': SENTINEL, 'x-secret': SENTINEL } }
  const answers = [
    await person.post('/api/v1/auth/login/local', { username: 'ann@example.com', password }),
    await person.get(`/api/models?key=${SENTINEL}`, bearer),
    await person.get('/api/v1/auth/oauth/a', { redirect: 'manual' }),
    await person.get(`/api/v1/auth/callback/a?code=${SENTINEL}&state=${SENTINEL}`, { redirect: 'manual' }),
    await person.post('/api/v1/auth/backchannel/a', { logout_token: SENTINEL })
  ]
  const token = textIn((await person.post('/api/v1/auth/tokens', { scopes: ['threads:read'] })).body, 'token')
  await person.get('/api/models', { headers: { authorization: `Bearer ${token}`, cookie: '' } })
  const run = await (await person.stream(await person.thread(), 'hello')).ended
  t.ok(run !== undefined)
  const admin = await signIn(site, 'boss')
  const { status, text: metrics } = await admin.get('/metrics')
  t.equal(status, 403)
  t.ok(listIn((await person.get('/api/models')).body, 'models').length > 0)
  const cookies = [...person.cookies.values()]
  const shown = JSON.stringify([answers.map(({ text }) => text), metrics, site.logged], (_, value) =>
    value instanceof Error ? `${value.stack} ${String(value.cause)}` : value
  )
  for (const secret of [SENTINEL, token, ...cookies]) t.notOk(shown.includes(secret), secret.slice(0, 12))
  t.ok(site.logged.some(([, fields, text]) => text === 'answered' && JSON.stringify(fields).includes('/api/models')))
})
