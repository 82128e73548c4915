// Secrets: a sentinel is planted wherever one may stand, servers send back all that they are sent, and nothing that is shown has one.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { typesOf } from '../../lib/config/keys.ts'
import { Options as OPTIONS } from '../../lib/config/options.ts'
import { command, startChild } from '../fixtures/child.ts'
import { type Answer, asked, at, configFile, homeOf, type Options, Person, textIn, until } from '../fixtures/gateway.ts'

const planted = new Map<string, string>()

/** A secret that is found by its text, wherever it comes out. */
function sentinel(place: string): string {
  const text = `zq7planted${planted.size}${place.replace(/\W/g, '')}zq7`
  planted.set(place, text)
  return text
}

/** Refuses everything, and says in its refusal all that it was sent. */
async function openEcho(t: Test): Promise<string> {
  const server = createServer((req, res) => {
    let body = ''
    req.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    req.on('end', () => {
      const message = JSON.stringify([req.url, req.headers, body])
      res.writeHead(401, { 'content-type': 'application/json', 'x-echo': encodeURIComponent(message) })
      res.end(JSON.stringify({ error: { message, code: message }, detail: message }))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  // A server that listens on a port has such an address.
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

function configOf(echo: string): Options {
  const models = [
    {
      name: 'm',
      model: 'm',
      api_key: sentinel('models.api_key'),
      base_url: `http://u:${sentinel('models.base_url password')}@${echo}/v1?key=${sentinel('models.base_url query')}`,
      request: {
        extra_headers: { Authorization: sentinel('models.request') },
        user_key: sentinel('models.request key')
      },
      max_retries: 0
    }
  ]
  const provider = { id: 'a', issuer: `http://${echo}`, client_id: 'c', client_secret: sentinel('oidc.client_secret') }
  return {
    auth: { jwt_secret: sentinel('auth.jwt_secret').padEnd(40, 'x'), oidc: { providers: [provider] } },
    models,
    database: { postgres_url: `postgres://u:${sentinel('database.postgres_url')}@127.0.0.1:9/none` },
    agent: { api_key: sentinel('agent.api_key'), headers: { 'x-own': sentinel('agent.headers') } },
    mail: { url: `smtp://u:${sentinel('mail.url')}@127.0.0.1:9` },
    webhooks: { secret: sentinel('webhooks.secret'), allowed_networks: ['127.0.0.1'], attempts: 1 },
    mcp: { allowed_networks: ['127.0.0.1'], secrets_key: sentinel('mcp.secrets_key').padEnd(40, 'x') },
    sharing: 'public',
    title: { enabled: false },
    log: { level: 'trace', access: true },
    tracing: { spans: true }
  }
}

/** Whatever of the planted is in a text, by its place. */
function foundIn(text: string): string[] {
  return [...planted].filter(([, secret]) => text.includes(secret)).map(([place]) => place)
}

/** Options that are a secret by their names, or an address with a password. */
const SECRETS = [...typesOf(OPTIONS).keys()].filter((path) => /(key|secret|password|token|headers|[._]url)$/.test(path))
/** Addresses that pages are told. */
const PUBLIC = ['server.public_url', 'agent.url']

function shown({ status, headers, text }: Answer): string {
  // A cookie is for whom it is set.
  return JSON.stringify([status, [...headers].filter(([name]) => name !== 'set-cookie'), text])
}

t.test('no secret is in answers, errors, logs, metrics, traces, doctor or config show', async (t) => {
  const home = homeOf(t)
  const config = configOf(await openEcho(t))
  const echo = new URL(textIn(config, 'models', 0, 'base_url')).host
  const spans = join(home, 'spans.jsonl')
  const SPANS = new URL('../fixtures/span-file.js', import.meta.url).href
  const child = await startChild(t, {
    home,
    config,
    env: { NODE_OPTIONS: `--import ${SPANS}`, SPANS_FILE: spans }
  })
  const admin = new Person(child.url)
  const unplanted = SECRETS.filter((path) => !planted.has(path) && !PUBLIC.includes(path))
  t.strictSame(unplanted, [], 'every option that is a secret is planted')
  const answers: Answer[] = []
  const keep = async (answer: Promise<Answer>) => {
    answers.push(await answer)
    return answer
  }
  const password = sentinel('password of the administrator')
  await keep(admin.post('/api/v1/auth/initialize', { email: 'root@example.com', password }))
  const wrong = { username: 'root@example.com', password: sentinel('wrong password') }
  await keep(new Person(child.url).post('/api/v1/auth/login/local', wrong))
  const next = sentinel('new password')
  await keep(
    admin.post('/api/v1/auth/change-password', { current_password: sentinel('wrong current'), new_password: next })
  )
  const headers = {
    authorization: `Bearer clq_${sentinel('wrong token')}`,
    'x-api-key': sentinel('x-api-key'),
    'x-own-secret': sentinel('a header'),
    cookie: `access_token=${sentinel('wrong session')}; other=${sentinel('other cookie')}`
  }
  await keep(admin.get(`/api/models?key=${sentinel('query')}`, { headers }))
  await keep(admin.get('/api/v1/auth/oauth/a', { redirect: 'manual' }))
  const back = `/api/v1/auth/callback/a?code=${sentinel('code')}&state=${sentinel('state')}`
  await keep(admin.get(back, { redirect: 'manual' }))
  await keep(admin.post('/api/v1/auth/backchannel/a', { logout_token: sentinel('logout token') }))
  // Shown once, to who has made them: from here on they are secrets like the others.
  const scopes = ['threads:read', 'threads:write']
  planted.set('a token', textIn((await admin.post('/api/v1/auth/tokens', { name: 'own', scopes })).body, 'token'))
  planted.set('an invitation', textIn((await admin.post('/api/v1/auth/invitations')).body, 'invitation'))
  for (const [name, value] of admin.cookies) planted.set(`cookie ${name}`, value)
  await keep(
    admin.get('/api/threads/search', { headers: { authorization: `Bearer ${planted.get('a token')}`, cookie: '' } })
  )

  const near = {
    type: 'http',
    enabled: true,
    url: `http://${echo}/mcp`,
    headers: { Authorization: sentinel('tool server header'), 'x-name': 'plain' },
    oauth: {
      enabled: true,
      token_url: `http://${echo}/token`,
      grant_type: 'client_credentials',
      client_id: 'c',
      client_secret: sentinel('tool server oauth')
    }
  }
  await keep(admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers: { near } } }))
  await until(async () => /"failed"/.test((await admin.get('/api/mcp/config')).text), 'the tool server has failed')
  await keep(admin.get('/api/mcp/config'))

  const webhook = `http://${echo}/hook?key=${sentinel('webhook query')}`
  const thread = await admin.thread()
  const run = await keep(admin.post(`/api/threads/${thread}/runs/wait`, asked('hello', { webhook })))
  t.match(run.text, /error/i, 'the model refuses, with all that it was sent')
  const link = textIn((await admin.post(`/api/threads/${thread}/links`, {})).body, 'link')
  planted.set('a link to a thread', link)
  t.equal(
    (await keep(new Person(child.url).get(`/api/threads/${thread}`, { headers: { 'x-share-link': link } }))).status,
    200
  )
  const made = await admin.post('/api/v1/admin/users', { email: 'ann@example.com' })
  planted.set('a link to set a password', textIn(made.body, 'password_link', 'token'))
  const ann = { token: planted.get('a link to set a password'), new_password: sentinel('password by a link') }
  t.equal((await keep(new Person(child.url).post('/api/v1/auth/reset-password', ann))).status, 200)
  const stream = await admin.stream(thread, 'hello again')
  await stream.ended
  for (const path of ['/api/v1/admin/config', '/api/v1/admin/doctor', '/api/v1/admin/jobs']) await keep(admin.get(path))
  for (const path of [`/api/threads/${thread}/runs`, `/api/threads/${thread}/state`, '/api/models', '/openapi.json'])
    await keep(admin.get(path))
  const runs = await admin.get(`/api/threads/${thread}/runs`)
  await keep(admin.get(`/api/threads/${thread}/runs/${textIn(runs.body, 0, 'run_id')}/events`))
  await until(() => child.log.includes('webhook'), 'the webhook was refused')

  configFile(home, { ...config, nonsense: 1, auth: { jwt_secret: sentinel('a short one').slice(0, 31) } })
  t.equal((await keep(admin.post('/api/v1/admin/reload'))).status, 422)
  configFile(home, {
    ...config,
    webhooks: { secret: `whsec_${sentinel('no base64')}%` },
    database: { postgres_url: sentinel('no URL') }
  })
  t.equal((await keep(admin.post('/api/v1/admin/reload'))).status, 422)
  const wrongly = await command(home, 'serve', '--check')
  configFile(home, config)
  await keep(admin.post('/api/v1/admin/reload'))
  await keep(admin.get('/api/v1/admin/jobs'))
  const audit = await keep(admin.get('/api/v1/admin/audit?limit=1000'))
  t.ok(at(audit.body, 'entries', 3), 'there is something in it')
  const metrics = await keep(admin.get('/metrics'))
  t.match(metrics.text, 'colloquy_')
  await keep(admin.get('/metrics/hour'))

  const said = [wrongly]
  for (const words of [
    ['config', 'show'],
    ['config', 'show', '--json'],
    ['doctor'],
    ['doctor', '--json'],
    ['audit'],
    ['jobs', 'list']
  ])
    said.push(await command(home, ...words))
  const places: Readonly<Record<string, string>> = {
    answers: answers.map(shown).join('\n'),
    stream: stream.bytes.toString(),
    log: child.log,
    traces: readFileSync(spans, 'utf8'),
    commands: said.map(({ out, errors }) => out + errors).join('\n')
  }
  t.match(places.log, 'a model call failed')
  t.match(places.traces, '"model"')
  for (const [place, text] of Object.entries(places)) t.strictSame(foundIn(text), [], place)
  t.comment(`${planted.size} sentinels, ${Object.values(places).join('').length} characters: 0 hits`)
})
