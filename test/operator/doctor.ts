// colloquy doctor and config show: what they find, and that neither says a secret.
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { createServer, get } from 'node:http'
import { once } from 'node:events'
import { databaseSection } from '../fixtures/backends.ts'
import { command } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
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
    t.match(findings, { engine: { is: 'good', text: /^SQLite 3/ }, backup: { is: 'warn', text: /has made none/ } })
    await site.stop()
    t.equal((await command(site.home, 'backup', join(site.home, '..', `${basename(site.home)}.zip`))).code, 0)
    writeFileSync(join(site.home, 'colloquy.yaml'), JSON.stringify({ models: SECRETS.models }))
    const servers = {
      lost: { command: 'no-such-program' },
      gone: { url: `http://127.0.0.1:${await freePort()}/${SENTINEL}` },
      off: { enabled: false }
    }
    writeFileSync(join(site.home, 'extensions_config.json'), JSON.stringify({ mcpServers: servers }))
    const broken = await command(site.home, 'doctor', '--json')
    t.equal(broken.code, 1)
    const found = findingsIn(broken.out)
    t.match(found, { models: { is: 'bad', text: /^m cannot be reached/ }, backup: { is: 'good' } })
    t.match(found, {
      tools: { is: 'bad', text: 'lost: its command is not on the PATH; gone cannot be reached (ECONNREFUSED)' }
    })
  }
)

t.test('behind a proxy it says what of a request arrives, and what is missing on either side', async (t) => {
  const home = homeOf(t)
  const [port, front] = [await freePort(), await freePort()]
  const sent: Record<string, string> = {}
  const proxy = createServer((request, response) => {
    const onwards = { host: '127.0.0.1', port, path: request.url, headers: { ...request.headers, ...sent } }
    get(onwards, (answer) => answer.pipe(response)).on('error', () => response.destroy())
  }).listen(front, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => proxy.close())
  const found = async (server: object) => {
    writeFileSync(join(home, 'colloquy.yaml'), JSON.stringify({ server: { port, ...server } }))
    return findingsIn((await command(home, 'doctor', '--json')).out).proxy
  }
  const public_url = `http://127.0.0.1:${front}`
  t.match(await found({}), undefined)
  t.match(await found({ public_url: `http://127.0.0.1:${port}` }), { is: 'good', text: /none stands/ })
  sent['x-forwarded-proto'] = 'https'
  const lacking = await found({ public_url })
  t.match(lacking, {
    is: 'warn',
    text: /from 127\.0\.0\.1, which is not in server\.trusted_proxies; it has no X-Real-IP; .*says https/
  })
  Object.assign(sent, { 'x-forwarded-proto': 'http', 'x-real-ip': '10.0.0.1' })
  t.match(await found({ public_url, trusted_proxies: ['127.0.0.1'] }), { is: 'good', text: /arrive/ })
  t.match(await found({ public_url: 'http://127.0.0.1:9' }), { is: 'warn', text: /does not arrive here/ })
})

t.test('of PostgreSQL it says the version, and when this is not the home of the processes that run', async (t) => {
  const database = await databaseSection(t, 'postgres')
  const [home, elsewhere] = [homeOf(t), homeOf(t)]
  for (const folder of [home, elsewhere]) writeFileSync(join(folder, 'colloquy.yaml'), JSON.stringify({ database }))
  await openSite(t, { home, config: { database } })
  const found = async (folder: string) => findingsIn((await command(folder, 'doctor', '--json')).out)
  const engine = { is: 'good', text: /^PostgreSQL \d+/ }
  t.match(await found(home), { engine, homes: { is: 'good', text: /that of all processes/ } })
  t.match(await found(elsewhere), { engine, homes: { is: 'bad', text: /is not the home of the processes/ } })
})

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
