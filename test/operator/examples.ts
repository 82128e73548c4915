// The examples of test/examples do what their first lines say: each is run as somebody would run it who has copied it.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { databaseSection } from '../fixtures/backends.ts'
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, at, homeOf, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { CADDY, programOf } from '../fixtures/reverse-proxy.ts'

const EXAMPLES = fileURLToPath(new URL('../../../test/examples/', import.meta.url))
const COLLOQUY = fileURLToPath(new URL('../../bin/colloquy.js', import.meta.url))

/** Serves what it is given, by its path. */
async function serve(t: Test, files: Readonly<Record<string, readonly [type: string, text: string]>>): Promise<string> {
  const server = createServer((req, res) => {
    const [type, text] = files[req.url ?? ''] ?? []
    if (type === undefined) res.writeHead(404).end()
    else res.writeHead(200, { 'Content-Type': type }).end(text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('it has no port')
  return `http://127.0.0.1:${address.port}`
}

browserTest('a chat page of sixty lines says a word, and after a reload in mid-answer goes on', async (t) => {
  const page = readFileSync(join(EXAMPLES, 'chat.html'), 'utf8')
  t.ok(page.trim().split('\n').length <= 60)
  const files: Record<string, readonly [string, string]> = { '/chat.html': ['text/html', page] }
  const origin = await serve(t, files)
  const site = await openSite(t, { config: { server: { cors_origins: [origin] } } })
  files['/colloquy.js'] = ['text/javascript', await (await fetch(`${site.url}/colloquy.js`)).text()]
  const person = await account(site.url, 'ada@example.com')
  const scopes = ['threads:write', 'threads:read', 'runs:create', 'runs:read']
  const token = textIn((await person.post('/api/v1/auth/tokens', { scopes })).body, 'token')
  const visitor = await visit(t, origin)
  // The gateway is another origin here, and a page that is reloaded cuts its stream.
  visitor.expect(new RegExp(`a request to ${site.url}/`), /favicon/)
  await visitor.page.goto(`${origin}/chat.html#gateway=${site.url}&token=${token}`)
  const say = async (text: string) => {
    await visitor.page.getByLabel('Message').fill(text)
    await visitor.page.getByRole('button', { name: 'Send' }).click()
  }
  const answer = () => visitor.page.locator('li.ai').last().innerText()
  await say('/demo deltas=200 rate=100')
  await until(async () => (await visitor.page.locator('li.ai').count()) > 0, 'the answer begins')
  const before = await answer()
  await visitor.page.reload()
  await until(async () => (await visitor.page.locator('li.ai').count()) > 0, 'the answer goes on')
  const [thread] = listIn((await person.post('/api/threads/search', {})).body)
  const path = `/api/threads/${textIn(thread, 'thread_id')}`
  await until(async () => at((await person.get(path)).body, 'status') === 'idle', 'it is over')
  const said = textIn(listIn(at((await person.get(`${path}/state`)).body, 'values', 'messages')).at(-1), 'content')
  t.ok(said.startsWith(before.trim().slice(0, 20)))
  await until(async () => (await answer()).trim() === said.trim(), 'all of it is shown')
  await say('hello')
  await until(async () => (await visitor.page.locator('li').count()) === 4, 'a second turn of the same thread')
  t.equal(listIn((await person.post('/api/threads/search', {})).body).length, 1)
})

t.test('an agent of your own answers word by word', async (t) => {
  const config = { agent: { runtime: 'module', path: join(EXAMPLES, 'agent.mjs') } }
  const person = await signIn(await openSite(t, { config }))
  const { body } = await person.post(`/api/threads/${await person.thread()}/runs/wait`, asked('good morning'))
  t.equal(at(listIn(body, 'messages').at(-1), 'content'), 'You said 12 characters GOOD MORNING')
})

t.test('a LangGraph project asks, and goes on with the answer', async (t) => {
  const config = { agent: { runtime: 'graphs', config: join(EXAMPLES, 'langgraph') } }
  const person = await signIn(await openSite(t, { config }))
  const wait = `/api/threads/${await person.thread()}/runs/wait`
  const first = await person.post(wait, { assistant_id: 'agent', ...asked('see you at noon.') })
  const question = { question: 'Send it?', text: 'Dear all, see you at noon.' }
  t.match(first.body, { __interrupt__: [{ value: question }] })
  const { body } = await person.post(wait, { assistant_id: 'agent', command: { resume: true } })
  t.equal(at(listIn(body, 'messages').at(-1), 'content'), 'Sent.')
})

t.test(
  'two processes behind Caddy are one service, also when one of them is gone',
  { skip: programOf(CADDY) ? false : 'there is no Caddy' },
  async (t) => {
    const { postgres_url } = await databaseSection(t, 'postgres')
    const folder = join(EXAMPLES, 'two-processes')
    const [port, first, second] = [await freePort(), await freePort(), await freePort()].map(String)
    const env = {
      ...{ PATH: process.env.PATH, HOME: homeOf(t), PORT: port, FIRST: first, SECOND: second },
      ...{ DATABASE_URL: postgres_url, COLLOQUY_HOME: homeOf(t), JWT_SECRET: randomBytes(48).toString('base64') },
      COLLOQUY: `${process.execPath} ${COLLOQUY}`
    }
    const begin = (program: string, ...args: readonly string[]): number => {
      const { pid } = spawn(program, args, { cwd: folder, env, stdio: 'ignore', detached: true })
      if (pid === undefined) throw new Error(`${program} did not start`)
      // Whatever it has started goes with it.
      t.teardown(() => process.kill(-pid, 'SIGKILL'))
      return pid
    }
    const both = begin('./start.sh')
    begin(programOf(CADDY)!, 'run', '--config', 'Caddyfile')
    const isReady = (at: string) =>
      fetch(`http://127.0.0.1:${at}/readyz`).then(
        ({ ok }) => ok,
        () => false
      )
    for (const one of [first, second, port]) await until(() => isReady(one!), `port ${one} answers`, 120_000)
    const admin = new Person(`http://127.0.0.1:${port}`)
    await admin.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
    const wait = `/api/threads/${await admin.thread()}/runs/wait`
    let turns = 0
    // As clients do: what a proxy could not pass on is asked again, and its key says that it is the same.
    const say = async (key: string) => {
      let answer = await admin.post(wait, asked('hi'), { headers: { 'Idempotency-Key': key } })
      while (answer.status >= 500) answer = await admin.post(wait, asked('hi'), { headers: { 'Idempotency-Key': key } })
      return answer
    }
    const converse = async () => {
      for (let i = 0; i < 4; i++) t.equal(listIn((await say(`turn ${++turns}`)).body, 'messages').length, 2 * turns)
    }
    await converse()
    const [one] = readFileSync(`/proc/${both}/task/${both}/children`, 'utf8').split(' ')
    process.kill(Number(one), 'SIGKILL')
    await until(async () => !(await isReady(first!)), 'one is gone')
    await converse()
  }
)
