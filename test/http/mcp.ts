// Real tool servers behind the gateway: the official one that offers everything, over stdio and over HTTP.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { at, listIn, openSite, Person, PASSWORD, textIn, until } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'

const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js')

async function open(t: Test) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const site = await openSite(t, {
    config: {
      mcp: { stdio_commands: ['node', 'false'], connect_timeout_ms: 20_000 },
      title: { enabled: false },
      memory: { enabled: false },
      models: [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fake' }]
    }
  })
  const admin = new Person(site.url)
  const { status } = await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  t.equal(status, 201)
  return { site, admin, model }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}

async function overHttp(t: Test): Promise<{ url: string; child: ChildProcess }> {
  const port = await freePort()
  const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  await until(async () => (await once(child.stderr, 'data')).toString().includes('listening'), 'the server listens')
  child.stderr.resume()
  return { url: `http://127.0.0.1:${port}/mcp`, child }
}

const state = async (admin: Person, name: string) =>
  at((await admin.get('/api/mcp/config')).body, 'mcp_servers', name, 'status')

t.test('tools of a real server are listed, called, and their results are in stream, state and events', async (t) => {
  const { admin, model } = await open(t)
  const { url } = await overHttp(t)
  const put = await admin.ask('PUT', '/api/mcp/config', {
    body: {
      mcp_servers: {
        local: { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] },
        remote: { type: 'http', url }
      }
    }
  })
  t.equal(put.status, 200, put.text)
  for (const name of ['local', 'remote'])
    await until(async () => at(await state(admin, name), 'state') === 'ready', `${name} is ready`)
  for (const name of ['local', 'remote']) {
    const tool = `${name}_echo`
    const thread = textIn((await admin.post('/api/threads', {})).body, 'thread_id')
    const content = scripted({ calls: [[{ name: tool, args: '{"message":"over there"}' }]], text: 'so', strict: true })
    const stream = await admin.post(`/api/threads/${thread}/runs/stream`, {
      input: { messages: [{ role: 'user', content }] },
      stream_mode: ['messages-tuple']
    })
    t.match(stream.text, /over there/)
    const offered = JSON.stringify(model.requests.at(-1)?.body.tools)
    t.match(offered, new RegExp(tool))
    const { body } = await admin.get(`/api/threads/${thread}/state`)
    const result = listIn(body, 'values', 'messages').find((message) => at(message, 'type') === 'tool')
    t.match(result, { name: tool, status: 'success', content: /over there/ })
    const runs = await admin.get(`/api/threads/${thread}/runs`)
    const events = await admin.get(`/api/threads/${thread}/runs/${textIn(runs.body, 0, 'run_id')}/events`)
    t.match(events.text, /"tool_result"/)
  }
})

t.test('a change reaches the next run within two seconds and leaves a running one alone', async (t) => {
  const { admin, model } = await open(t)
  const servers = { local: { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] } }
  await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers: servers } })
  await until(async () => at(await state(admin, 'local'), 'state') === 'ready', 'ready')
  const thread = textIn((await admin.post('/api/threads', {})).body, 'thread_id')
  const calls = [[{ name: 'local_echo', args: '{"message":"still there"}' }]]
  const running = admin.post(`/api/threads/${thread}/runs/wait`, {
    input: { messages: [{ role: 'user', content: scripted({ calls, text: 'so', gate: 'go' }) }] }
  })
  await until(() => model.requests.length > 0, 'the run has begun')
  t.equal((await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers: {} } })).status, 200)
  model.release('go')
  t.match((await running).text, /still there/)
  const other = await admin.post(`/api/threads/${thread}/runs/wait`, {
    input: { messages: [{ role: 'user', content: scripted({ text: 'bye' }) }] }
  })
  t.equal(other.status, 200)
  t.notMatch(JSON.stringify(model.requests.at(-1)?.body.tools ?? []), /local_/)
})

t.test('five servers, three of them broken: the change answers at once and the good two are usable', async (t) => {
  const { admin } = await open(t)
  const hanging = createServer(() => {}).listen(0, '127.0.0.1')
  await once(hanging, 'listening')
  t.teardown(() => hanging.close())
  const address = hanging.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const good = { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] }
  const begun = performance.now()
  const put = await admin.ask('PUT', '/api/mcp/config', {
    body: {
      mcp_servers: {
        one: good,
        two: { ...good, env: { DEBUG: '1' } },
        hangs: { type: 'http', url: `http://127.0.0.1:${port}/mcp` },
        exits: { type: 'stdio', command: 'false' },
        garbage: { type: 'stdio', command: 'node', args: ['--version'] }
      }
    }
  })
  t.equal(put.status, 200, put.text)
  t.ok(performance.now() - begun < 5_000)
  for (const name of ['one', 'two'])
    await until(async () => at(await state(admin, name), 'state') === 'ready', `${name} is ready`)
  for (const name of ['exits', 'garbage'])
    await until(async () => at(await state(admin, name), 'last_error') !== null, `${name} says what is wrong`)
})

t.test('the file is for its owner alone, and nobody but an administrator sees or changes servers', async (t) => {
  const { admin, site } = await open(t)
  const person = new Person(site.url)
  await person.post('/api/v1/auth/register', { email: 'p@example.com', password: PASSWORD })
  t.equal((await person.get('/api/mcp/config')).status, 403)
  t.equal((await person.ask('PUT', '/api/mcp/config', { body: { mcp_servers: {} } })).status, 403)
  t.equal((await person.ask('PATCH', '/api/mcp/config', { body: { server_name: 'x', enabled: true } })).status, 403)
  const body = {
    mcp_servers: { one: { enabled: false, type: 'http', url: 'http://127.0.0.1:9/', headers: { A: 'hush' } } }
  }
  t.notMatch((await admin.ask('PUT', '/api/mcp/config', { body })).text, /hush/)
  t.match((await admin.ask('PATCH', '/api/mcp/config', { body: { server_name: 'one', enabled: true } })).body, {
    mcp_servers: { one: { enabled: true, headers: { A: '***' } } }
  })
  t.equal((await admin.ask('PATCH', '/api/mcp/config', { body: { server_name: 'none', enabled: true } })).status, 404)
  t.equal((await admin.post('/api/mcp/cache/reset', {})).status, 200)
  t.equal(statSync(join(site.home, 'extensions_config.json')).mode & 0o777, 0o600)
})
