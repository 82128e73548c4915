// The configuration is read again by SIGHUP and by an administrator, on every process, while everything goes on.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import {
  configFile,
  homeOf,
  listIn,
  openSite,
  type Options,
  PASSWORD,
  Person,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { startPair } from '../fixtures/pair.ts'
import { newName } from '../fixtures/postgres.ts'

const RELOAD = '/api/v1/admin/reload'
const modelsOf = (...names: string[]) => names.map((name) => ({ name, model: name, base_url: 'http://127.0.0.1:9/v1' }))
const namesOn = async (person: Person) =>
  listIn((await person.get('/api/models')).body, 'models').map((one) => textIn(one, 'name'))

async function administrator(url: string): Promise<Person> {
  const admin = new Person(url)
  await admin.post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  return admin
}

t.test('SIGHUP takes what may change, names what it leaves, and takes nothing of a wrong file', async (t) => {
  const home = homeOf(t)
  const child = await startChild(t, { home, config: { models: modelsOf('old') } })
  const person = await signIn({ url: child.url })
  const reload = async (options: object, line: string) => {
    writeFileSync(join(home, 'colloquy.yaml'), JSON.stringify(options))
    const before = child.log.split(line).length
    child.process.kill('SIGHUP')
    await until(() => child.log.split(line).length > before, line)
  }
  await reload({ models: modelsOf('new', 'more'), streams: { heartbeat_ms: 700 } }, 'the configuration was read again')
  t.strictSame(await namesOn(person), ['new', 'more'])
  t.match(child.log, '"taken":["models"],"left":["streams.heartbeat_ms"]')
  await reload({ models: [{ name: 'broken' }] }, 'everything stays as it is')
  t.strictSame(await namesOn(person), ['new', 'more'])
  t.match(child.log, 'models[0].model is missing.')
})

t.test('an administrator reloads: limits count for whoever comes next, and the audit has it', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home, config: { uploads: { max_files: 3 } } })
  const admin = await administrator(site.url)
  const reload = (options: Options) => {
    configFile(home, options)
    return admin.post(RELOAD)
  }
  const threads = async () => (await admin.post('/api/threads')).status
  t.equal(await threads(), 200)
  const taken = await reload({
    threads: { per_user: 1 },
    uploads: { max_files: 7 },
    log: { level: 'warn', format: 'text' }
  })
  t.equal(taken.status, 200, taken.text)
  t.strictSame(listIn(taken.body, 'processes'), [
    {
      process: 'this',
      taken: ['log.level', 'threads.per_user', 'uploads.max_files'],
      left: ['log.format'],
      problems: []
    }
  ])
  t.equal(await threads(), 409)
  t.match((await admin.get('/api/v1/auth/limits')).text, '"max":1')
  const wrong = await reload({ threads: { per_user: 5 }, uploads: { max_files: 'many' }, nonsense: 1 })
  t.equal(wrong.status, 422)
  t.match(wrong.text, /nonsense is not an option.*uploads.max_files/s)
  t.equal(await threads(), 409, 'a wrong file changes nothing, not even what is right in it')
  t.strictSame(
    listIn((await reload({ threads: { per_user: 5 } })).body, 'processes', 0, 'taken').includes('threads.per_user'),
    true
  )
  t.equal(await threads(), 200)
  const extensions = { mcpServers: { near: { type: 'http', url: 'http://127.0.0.1:9/mcp', enabled: true } } }
  writeFileSync(join(home, 'extensions_config.json'), JSON.stringify(extensions))
  t.strictSame(listIn((await admin.post(RELOAD)).body, 'processes', 0, 'taken'), ['tool_servers'])
  t.match((await admin.get('/api/mcp/config')).text, /"near":.*"state":"(connecting|failed)"/, 'tool servers too')
  writeFileSync(join(home, 'extensions_config.json'), '{')
  t.match(await admin.post(RELOAD), { status: 422, body: { detail: /extensions_config\.json is not a JSON object/ } })
  t.equal((await admin.get('/api/v1/admin/audit?action=configuration')).text.split('"audit_id"').length, 4)
})

t.test('a quota that is reloaded counts from the next request, where there was none before', async (t) => {
  const home = homeOf(t)
  const admin = await administrator((await openSite(t, { home })).url)
  configFile(home, { quotas: { requests_per_second: 1 } })
  t.strictSame(listIn((await admin.post(RELOAD)).body, 'processes', 0, 'taken'), ['quotas.requests_per_second'])
  const answers = await Promise.all(Array.from({ length: 5 }, () => admin.get('/api/v1/auth/limits')))
  t.ok(answers.some(({ status }) => status === 429))
})

t.test('all processes take it, and each says what; the password of the database too', async (t) => {
  const { a, b, home, config, onA, database } = await startPair(t)
  const admin = await administrator(a.url)
  const other = new Person(b.url, admin.cookies)
  const reload = async (more: Options) => {
    configFile(home, { ...config, ...more })
    const answer = await admin.post(RELOAD)
    return { answer, replies: answer.status === 200 ? listIn(answer.body, 'processes') : [] }
  }
  const { replies } = await reload({ models: modelsOf('fresh') })
  t.equal(new Set(replies.map((one) => textIn(one, 'process'))).size, 2)
  for (const one of replies) t.strictSame(listIn(one, 'taken'), ['models'])
  t.strictSame([await namesOn(admin), await namesOn(other)], [['fresh'], ['fresh']])

  const role = newName()
  await database.rows(`CREATE ROLE "${role}" SUPERUSER LOGIN PASSWORD 'planted-word'`)
  t.teardown(() => database.rows(`DROP ROLE "${role}"`).catch(() => {}))
  const url = new URL(textIn(config, 'database', 'postgres_url'))
  url.username = role
  url.password = 'planted-word'
  const renewed = await reload({ database: { backend: 'postgres', postgres_url: url.href }, models: modelsOf('fresh') })
  t.equal(renewed.replies.length, 2, renewed.answer.text)
  for (const one of renewed.replies) t.strictSame(listIn(one, 'taken'), ['database.postgres_url'])
  await database.rows(
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> $1 AND pid <> pg_backend_pid() AND datname = current_database()',
    [role]
  )
  // /readyz may not have noticed yet that its connections are gone.
  await until(async () => (await onA.post('/api/threads')).status === 200, 'it writes again')
  const users = await database.rows<{ usename: string }>(
    "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'colloquy' AND pid <> pg_backend_pid()"
  )
  t.strictSame(users, [{ usename: role }])
  url.username = newName()
  const refused = await reload({ database: { backend: 'postgres', postgres_url: url.href } })
  t.equal(refused.answer.status, 422, refused.answer.text)
  t.notMatch(refused.answer.text + a.log + b.log, 'planted-word')
})
