// Tool servers are processes that we start: they end with us, however we end, and whatever they have started ends with them. Two
// gateways on one home have the same ones.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { isAlive } from '../fixtures/alive.ts'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, listIn, PASSWORD, Person, until } from '../fixtures/gateway.ts'
import { scripted } from '../fixtures/model.ts'
import { onOther, startPair } from '../fixtures/pair.ts'

const STUBBORN = fileURLToPath(new URL('../fixtures/stubborn-server.js', import.meta.url))
const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js')

async function open(t: Test) {
  const gateway = await startChild(t, { config: { mcp: { stdio_commands: ['node'], connect_timeout_ms: 30_000 } } })
  const admin = new Person(gateway.url)
  await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  const file = join(gateway.home, 'pids')
  const configure = async (mcp_servers: object) => {
    const { status, text } = await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers } })
    t.equal(status, 200, text)
  }
  await configure({
    stubborn: { type: 'stdio', command: 'node', args: [STUBBORN, file] },
    everything: { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] }
  })
  for (const name of ['stubborn', 'everything'])
    await until(async () => {
      const { body } = await admin.get('/api/mcp/config')
      return at(body, 'mcp_servers', name, 'status', 'state') === 'ready'
    }, `${name} is ready`)
  const processes = [...readFileSync(file, 'utf8').split(' ').map(Number), ...childrenOf(gateway)]
  t.ok(processes.length >= 4, `${processes.length} processes`)
  for (const pid of processes) t.ok(isAlive(pid), `${pid} lives`)
  return { gateway, configure, processes }
}

/** Where the system tells. */
function childrenOf({ process: { pid } }: Child): number[] {
  const list = `/proc/${pid}/task/${pid}/children`
  return existsSync(list) ? readFileSync(list, 'utf8').trim().split(' ').map(Number) : []
}

const allGone = (processes: readonly number[]) => () => !processes.some(isAlive)

t.test('[needs N38] a stop ends tool servers and what they have started, also those that will not', async (t) => {
  const { gateway, processes } = await open(t)
  t.match(await gateway.stop(), { code: 0 })
  await until(allGone(processes), 'all have ended')
})

t.test('[needs N38] a kill leaves no tool server behind, nor what it has started', async (t) => {
  const { gateway, processes } = await open(t)
  await gateway.kill()
  await until(allGone(processes), 'all have ended')
})

t.test('[needs N38] a server that is taken out of the configuration ends, and the gateway goes on', async (t) => {
  const { gateway, configure, processes } = await open(t)
  await configure({})
  await until(allGone(processes), 'all have ended')
  t.notOk(gateway.hasExited)
})

t.test('tool servers that one process is given are those of the other too, from its next run on', async (t) => {
  const { a, b, onB, model } = await startPair(t, {
    config: { mcp: { stdio_commands: ['node'], connect_timeout_ms: 30_000 } }
  })
  const admin = new Person(a.url)
  await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  const configure = async (mcp_servers: object) =>
    t.equal((await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers } })).status, 200)
  const isOffered = async () => {
    await onB.post('/api/runs/wait', { input: { messages: [{ role: 'user', content: scripted({ text: 'so' }) }] } })
    return listIn(model.requests.at(-1)?.body ?? {}, 'tools').some(
      (tool) => at(tool, 'function', 'name') === 'everything_echo'
    )
  }
  t.equal(await isOffered(), false)
  await configure({ everything: { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] } })
  await until(isOffered, 'the other process offers its tools')
  const { body } = await onOther(admin, b).get('/api/mcp/config')
  t.equal(at(body, 'mcp_servers', 'everything', 'status', 'state'), 'ready')
  await configure({})
  t.equal(await isOffered(), false)
})
