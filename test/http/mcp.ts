// Real tool servers behind the gateway: the official one that offers everything, over stdio and over HTTP.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from '../fixtures/free-port.ts'
import { asked, at, homeOf, listIn, openSite, Person, PASSWORD, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'

const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js')

async function open(t: Test, home?: string) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const begun = performance.now()
  const site = await openSite(t, {
    ...(home && { home }),
    config: {
      mcp: { stdio_commands: ['node', 'false', 'sleep', 'yes'], connect_timeout_ms: 20_000 },
      title: { enabled: false },
      memory: { enabled: false },
      models: [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fake' }]
    }
  })
  const startMs = performance.now() - begun
  const admin = new Person(site.url)
  const { status } = await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  t.equal(status, 201)
  return { site, admin, model, startMs }
}

/** The official server, listening. @returns its address but for the path */
async function listening(t: Test, transport: 'streamableHttp' | 'sse'): Promise<string> {
  const port = await freePort()
  const child = spawn(process.execPath, [EVERYTHING, transport], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let said = ''
  child.stderr.on('data', (bytes) => {
    said += bytes
  })
  await until(() => /running|listening/i.test(said), 'the server listens')
  return `http://127.0.0.1:${port}`
}

const state = async (admin: Person, name: string) =>
  at((await admin.get('/api/mcp/config')).body, 'mcp_servers', name, 'status')

const ready = (admin: Person, ...names: string[]) =>
  Promise.all(
    names.map((name) => until(async () => at(await state(admin, name), 'state') === 'ready', `${name} is ready`))
  )

/** Names of the tools that the model was offered last. */
const offered = (model: FakeModel) =>
  listIn(model.requests.at(-1)?.body ?? {}, 'tools').map((tool) => textIn(tool, 'function', 'name'))

const LOCAL = { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] }

/** A run in which the model calls a tool that repeats what it is told. */
const calling = (tool: string, more: object = {}) =>
  scripted({ calls: [[{ name: tool, args: '{"message":"over there"}' }]], text: 'so', strict: true, ...more })

t.test(
  '[needs N38] tools of a real server are called over stdio, HTTP and SSE; what they answer is in stream, state and events',
  async (t) => {
    const { admin, model } = await open(t)
    const [http, sse] = await Promise.all([listening(t, 'streamableHttp'), listening(t, 'sse')])
    const put = await admin.ask('PUT', '/api/mcp/config', {
      body: {
        mcp_servers: {
          local: LOCAL,
          remote: { type: 'http', url: `${http}/mcp` },
          older: { type: 'sse', url: `${sse}/sse` }
        }
      }
    })
    t.equal(put.status, 200, put.text)
    await ready(admin, 'local', 'remote', 'older')
    for (const name of ['local', 'remote', 'older']) {
      t.ok(listIn(await state(admin, name), 'tools').includes('echo'), `${name} lists its tools`)
      const tool = `${name}_echo`
      const thread = await admin.thread()
      const stream = await admin.post(`/api/threads/${thread}/runs/stream`, {
        ...asked(calling(tool)),
        stream_mode: ['messages-tuple']
      })
      t.ok(offered(model).includes(tool))
      const { body } = await admin.get(`/api/threads/${thread}/state`)
      const messages = listIn(body, 'values', 'messages')
      const call = messages.map((message) => at(message, 'tool_calls', 0, 'id')).find((id) => id !== undefined)
      const result = { type: 'tool', name: tool, status: 'success', tool_call_id: call, content: /over there/ }
      t.match(
        messages.find((message) => at(message, 'type') === 'tool'),
        result,
        'the state has the result'
      )
      const frames = stream.text.split('\n').filter((line) => line.startsWith('data: ') && line.includes('"tool"'))
      t.match(JSON.parse(frames[0]?.slice(6) ?? 'null'), [result], 'the stream has the result')
      const runs = await admin.get(`/api/threads/${thread}/runs`)
      const events = await admin.get(`/api/threads/${thread}/runs/${textIn(runs.body, 0, 'run_id')}/events`)
      t.match(
        listIn(events.body).find((event) => at(event, 'event_type') === 'tool_result'),
        { content: result, metadata: {} },
        'the events have the result'
      )
    }
  }
)

t.test('[needs N38] a change reaches the next run and leaves a running one alone', async (t) => {
  const { admin, model } = await open(t)
  const url = `${await listening(t, 'streamableHttp')}/mcp`
  const put = (mcp_servers: object) => admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers } })
  await put({ local: LOCAL })
  await ready(admin, 'local')
  const thread = await admin.thread()
  const running = admin.post(`/api/threads/${thread}/runs/wait`, asked(calling('local_echo', { gate: 'go' })))
  await until(() => model.requests.length > 0, 'the run has begun')
  // Another way to start it: the running run keeps the process that it began with.
  const begun = performance.now()
  t.equal((await put({ local: { ...LOCAL, env: { DEBUG: '1' } }, added: { type: 'http', url } })).status, 200)
  const other = await admin.thread()
  await until(async () => {
    await admin.post(`/api/threads/${other}/runs/wait`, asked(scripted({ text: 'new' })))
    const names = offered(model)
    return names.includes('added_echo') && names.includes('local_echo')
  }, 'a new run has the new servers')
  t.comment(`a change reached a new run after ${Math.round(performance.now() - begun)} ms`)
  t.equal((await put({})).status, 200)
  await admin.post(`/api/threads/${other}/runs/wait`, asked(scripted({ text: 'none' })))
  t.notOk(
    offered(model).some((name) => /^(local|added)_/.test(name)),
    'the next run has none any more'
  )
  model.release('go')
  t.match((await running).text, /over there/)
  t.ok(offered(model).includes('local_echo'), 'the running one was offered what it began with')
  t.notOk(offered(model).includes('added_echo'))
})

t.test(
  '[needs N38] of five servers three are broken: the gateway starts as if they were not there, and the others are of use',
  async (t) => {
    const hanging = createServer(() => {}).listen(0, '127.0.0.1')
    await once(hanging, 'listening')
    t.teardown(() => hanging.close())
    // It listens on a port of its own.
    const { port } = hanging.address() as AddressInfo
    const home = homeOf(t)
    const mcpServers = {
      one: LOCAL,
      two: { ...LOCAL, env: { DEBUG: '1' } },
      hangs: { type: 'http', url: `http://127.0.0.1:${port}/mcp` },
      exits: { type: 'stdio', command: 'false' },
      garbage: { type: 'stdio', command: 'yes' },
      silent: { type: 'stdio', command: 'sleep', args: ['1000'] }
    }
    writeFileSync(join(home, 'extensions_config.json'), JSON.stringify({ mcpServers, skills: {} }))
    const { admin, model, startMs } = await open(t, home)
    t.comment(`the gateway started in ${Math.round(startMs)} ms`)
    t.ok(startMs < 10_000)
    const thread = await admin.thread()
    t.equal((await admin.post(`/api/threads/${thread}/runs/wait`, asked(scripted({ text: 'hello' })))).status, 200)
    await ready(admin, 'one', 'two')
    for (const name of ['one', 'two']) {
      const { text } = await admin.post(`/api/threads/${thread}/runs/wait`, asked(calling(`${name}_echo`)))
      t.match(text, /over there/, name)
    }
    t.notOk(offered(model).some((name) => /^(hangs|exits|garbage|silent)_/.test(name)))
    for (const [name, error] of [
      ['exits', /ended with code 1/],
      ['garbage', /MCP/]
    ] as const) {
      await until(async () => at(await state(admin, name), 'last_error') !== null, `${name} says what is wrong`)
      t.match(await state(admin, name), { state: /failed|connecting/, last_error: error })
    }
    for (const name of ['hangs', 'silent']) t.match(await state(admin, name), { state: 'connecting' })
  }
)

t.test('the file is for its owner alone, and nobody but an administrator changes servers', async (t) => {
  const { admin, site } = await open(t)
  const person = new Person(site.url)
  await person.post('/api/v1/auth/register', { email: 'p@example.com', password: PASSWORD })
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
