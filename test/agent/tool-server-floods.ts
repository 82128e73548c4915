// Tool servers that never stop: what they send for a call ends with it, they ask no more than they take answers for, and what they send
// faster than anybody reads waits at their side.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Egress } from '../../lib/agent/mcp/egress.ts'
import { LINE_FEED } from '../../lib/agent/mcp/message-bounds.ts'
import { StdioTransport } from '../../lib/agent/mcp/stdio.ts'
import { ToolServers } from '../../lib/agent/mcp/tool-servers.ts'
import { resultOf } from '../fixtures/hanging-tool.ts'
import { at, until } from '../fixtures/gateway.ts'
import { write } from '../fixtures/inbound.ts'
import { A_SERVER } from '../fixtures/tool-server.ts'

const LONG_MS = 60_000
const TOOL = { name: 'flood', inputSchema: { type: 'object' } }

interface Flood {
  readonly url: string
  /** Calls that are being answered. */
  readonly open: Set<ServerResponse>
}

/** A server that answers a call with the events that it is given the call's id for, and nothing that is no request of ours at all. */
async function flood(t: Test, eventsOf: (id: unknown) => Iterable<string>): Promise<Flood> {
  const open = new Set<ServerResponse>()
  const server = createServer(async (req, res) => {
    if (req.method !== 'POST') return void res.writeHead(405).end()
    const asked: unknown = JSON.parse((await req.toArray()).join(''))
    const [id, method] = [at(asked, 'id'), at(asked, 'method')]
    // Answers to its questions wait for ever.
    if (method === undefined) return
    if (id === undefined) return void res.writeHead(202).end()
    if (method !== 'tools/call')
      return void res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, result: resultOf(asked, [TOOL]) }))
    open.add(res)
    res.once('close', () => open.delete(res))
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    await write(res, eventsOf(id))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // It listens on a port of its own.
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, open }
}

/** The tool of that server, and what is said of the server. */
async function toolOf(t: Test, url: string, callTimeoutMs = LONG_MS) {
  const egress = new Egress(['127.0.0.0/8'])
  const log = { warn: () => {} }
  const servers = new ToolServers({ egress, connectTimeoutMs: LONG_MS, callTimeoutMs, log })
  t.teardown(() => servers.close())
  servers.configure({ s: { ...A_SERVER, type: 'http', url } })
  await until(() => servers.status('s').state === 'ready', 'it is connected')
  const box = await servers.open()
  t.teardown(() => box.close())
  const call = (signal = AbortSignal.timeout(LONG_MS)) =>
    box.tools[0]!.run({}, { signal, userId: null, threadId: 't', runId: 'r', channels: {} })
  return { call, saidOf: () => servers.status('s').last_error }
}

const event = (message: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`
const NOTICE = event({ method: 'notifications/message', params: { level: 'info', data: 'x' } })

function* forever(make: (n: number) => string): Generator<string> {
  for (let n = 0; ; n++) yield make(n)
}

function* answered(id: unknown): Generator<string> {
  yield event({ id, result: { content: [{ type: 'text', text: 'done' }] } })
  yield* forever(() => NOTICE)
}

t.test('what comes for a call ends with the call: late, unwanted, or answered', async (t) => {
  await t.test('late', async (t) => {
    const { url, open } = await flood(t, () => forever(() => NOTICE))
    const { call } = await toolOf(t, url, 500)
    await t.rejects(call(), /timed out/)
    await until(() => open.size === 0, 'its connection is let go')
  })
  await t.test('late, with ids to come back to', async (t) => {
    const { url, open } = await flood(t, () => forever((n) => `id: ${n}\n${NOTICE}`))
    const { call } = await toolOf(t, url, 500)
    await t.rejects(call(), /timed out/)
    await until(() => open.size === 0, 'its connection is let go')
  })
  await t.test('unwanted, and silent', async (t) => {
    const { url, open } = await flood(t, () => [': \n\n'])
    const { call } = await toolOf(t, url)
    const unwanted = new AbortController()
    const called = call(unwanted.signal)
    await until(() => open.size === 1, 'it is called')
    unwanted.abort()
    await t.rejects(called)
    await until(() => open.size === 0, 'its connection is let go')
  })
  await t.test('answered', async (t) => {
    const { url, open } = await flood(t, answered)
    const { call } = await toolOf(t, url)
    t.match(await call(), { content: 'done' })
    await until(() => open.size === 0, 'its connection is let go')
  })
})

t.test('a server that asks without end, and takes no answers, is closed with a sentence', async (t) => {
  const question = (n: number) => event({ id: n, method: 'sampling/createMessage', params: {} })
  const { url } = await flood(t, () => forever(question))
  const { call, saidOf } = await toolOf(t, url)
  await t.rejects(call())
  await until(() => saidOf() === 'It asks more than 64 things at once', 'it is told')
})

/** How many messages came in the fullest turn of the loop, of so many. */
async function mostInATurn(count: number, hear: (heard: () => void) => unknown): Promise<number> {
  let [all, turn, most] = [0, 0, 0]
  await hear(() => {
    if (turn++ === 0)
      setImmediate(() => {
        most = Math.max(most, turn)
        turn = 0
      })
    all++
  })
  await until(() => all >= count, 'they have come')
  return most
}

t.test('of many small messages a turn of the loop takes a few', async (t) => {
  const script = `const line = ${JSON.stringify(`{"jsonrpc":"2.0","method":"notifications/x"}\n`)}
    process.stdout.write(line.repeat(3000)); setTimeout(() => {}, 1e6)`
  const transport = new StdioTransport({ command: process.execPath, args: ['-e', script], env: {}, secrets: [] })
  t.teardown(() => transport.close())
  const overStdio = await mostInATurn(3_000, (heard) => {
    transport.onmessage = heard
    return transport.start()
  })
  t.ok(overStdio <= 64, `over stdio: ${overStdio}`)

  const { url } = await flood(t, () => forever(() => NOTICE.repeat(1_000)))
  const asked = { method: 'POST', body: JSON.stringify({ id: 1, method: 'tools/call' }) }
  const reader = (await new Egress(['127.0.0.0/8']).fetch(url, asked)).body!.getReader()
  const pieces: number[] = []
  for (let pieceCount = 0; pieceCount < 100; pieceCount++) {
    const { value } = await reader.read()
    pieces.push(Buffer.from(value ?? []).filter((byte) => byte === LINE_FEED).length)
  }
  const overHttp = Math.max(...pieces)
  t.ok(overHttp > 1 && overHttp <= 64, `over HTTP: ${overHttp} lines`)
  await reader.cancel()
})
