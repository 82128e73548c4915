// Tool servers are processes that we start: they end with us, however we end, and whatever they have started ends with them.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { isAlive } from '../fixtures/alive.ts'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, PASSWORD, Person, until } from '../fixtures/gateway.ts'

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
