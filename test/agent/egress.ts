// Where requests may go whose address somebody else chose: however it is written, never into a network that was not opened.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { send } from '../../lib/agent/http/post.ts'
import { Egress } from '../../lib/agent/mcp/egress.ts'
import { McpTokens } from '../../lib/agent/mcp/connection.ts'
import { ToolServers } from '../../lib/agent/mcp/tool-servers.ts'
import { withTimeout } from '../../lib/base/waiting.ts'
import { freePort } from '../fixtures/free-port.ts'
import { until } from '../fixtures/gateway.ts'
import { A_SERVER, OAUTH } from '../fixtures/tool-server.ts'

const late = () => new Error('late')
const NOT_LATE = { message: /without an answer|with the status/ }

/** What the names of this test lead to. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'good.example': ['93.184.216.34'],
  'loopback.example': ['127.0.0.1'],
  'metadata.example': ['169.254.169.254'],
  'mixed.example': ['93.184.216.34', '10.0.0.1'],
  'mixed6.example': ['2606:4700::1111', 'fd00::1'],
  'mapped.example': ['::ffff:10.0.0.1'],
  'nat64.example': ['64:ff9b::a00:1'],
  'nowhere.example': []
}
const resolve = async (host: string) => NAMES[host] ?? []

const CLOSED: Readonly<Record<string, readonly string[]>> = {
  'this machine': ['127.0.0.1', '127.1.2.3', '127.255.255.254', '0.0.0.0', '0.1.2.3', '[::1]', '[::]'],
  'written otherwise': [
    '2130706433',
    '0x7f000001',
    '0x7F.1',
    '0177.0.0.1',
    '017700000001',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
    '%31%32%37.0.0.1',
    '①②⑦.⓪.⓪.①',
    '127。0。0。1',
    '[0:0:0:0:0:0:0:1]',
    '[0000::0001]'
  ],
  'private networks': [
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '192.168.255.255',
    '3232235521',
    '100.64.0.1',
    '100.127.255.255',
    '[fc00::1]',
    '[fdff::1]',
    '[fec0::1]'
  ],
  'metadata services': [
    '169.254.169.254',
    '169.254.170.2',
    '169.254.0.1',
    '2852039166',
    '0xA9FEA9FE',
    '0251.0376.0251.0376',
    '100.100.100.200',
    '192.0.0.192',
    '168.63.129.16',
    '[fd00:ec2::254]',
    '[fe80::a9fe:a9fe]',
    '[febf::1]'
  ],
  'one address inside another': [
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:169.254.169.254]',
    '[::ffff:a9fe:a9fe]',
    '[::127.0.0.1]',
    '[::ffff:0:127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::169.254.169.254]',
    '[64:ff9b:1::1]',
    '[2002:7f00:1::]',
    '[2002:a9fe:a9fe::1]',
    '[2001::1]'
  ],
  'what leads to many, or to nobody': [
    '192.0.0.1',
    '192.0.2.1',
    '192.88.99.1',
    '198.18.0.1',
    '198.19.255.255',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '239.255.255.255',
    '240.0.0.1',
    '255.255.255.255',
    '[ff02::1]',
    '[100::1]',
    '[2001:db8::1]',
    '[3fff::1]',
    '[5f00::1]'
  ],
  names: Object.keys(NAMES).filter((name) => name !== 'good.example')
}
const ALL = Object.values(CLOSED).flat()

interface Place {
  readonly url: string
  readonly port: number
  /** Requests that have come. */
  readonly seen: readonly string[]
}

async function serve(t: Test, answer: RequestListener, host = '127.0.0.1', wanted = 0): Promise<Place> {
  const seen: string[] = []
  const server = createServer((req, res) => {
    seen.push(`${req.method} ${req.headers.host}${req.url}`)
    answer(req, res)
  }).listen(wanted, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // It listens on a port of its own.
  const { port } = server.address() as AddressInfo
  return { url: `http://${host}:${port}`, port, seen }
}

t.test(`[needs N20] none of ${ALL.length} addresses is asked for anything: nothing is sent there`, async (t) => {
  t.ok(ALL.length >= 60)
  const trap = await serve(t, (_req, res) => res.end('caught'))
  const egress = new Egress([], resolve)
  for (const [what, hosts] of Object.entries(CLOSED)) {
    for (const host of hosts) {
      // Those of this machine would reach the trap.
      const url = `http://${host}:${trap.port}/latest/meta-data/`
      await t.rejects(egress.fetch(url), { message: /private network/ }, `${what}: ${host}`)
      await t.rejects(egress.check(new URL(url)), { message: /private network/ })
    }
  }
  await t.rejects(new Egress([]).fetch(`http://localhost:${trap.port}/`), { message: /private network/ })
  t.strictSame(trap.seen, [])
})

t.test('public addresses are open, and private ones that were named', async (t) => {
  const egress = new Egress([], resolve)
  for (const host of [
    '93.184.216.34',
    '[2606:4700::1111]',
    'good.example',
    '172.32.0.1',
    '100.128.0.1',
    '9.255.255.255'
  ])
    await t.resolves(egress.check(new URL(`https://${host}/`)), host)
  const open = new Egress(['127.0.0.0/8', '::1', 'fd00:1::/32'])
  for (const host of ['127.0.0.1:9', '[::1]', '[::ffff:127.0.0.1]', '[fd00:1::5]'])
    await t.resolves(open.check(new URL(`http://${host}/`)), host)
  for (const host of ['169.254.169.254', '10.0.0.1', '[fd00:2::5]'])
    await t.rejects(open.check(new URL(`http://${host}/`)), host)
  for (const range of ['x', '10.0.0.0/33', '10.0.0.0/x', 'fd00::/129']) t.throws(() => new Egress([range]), range)
})

t.test('[needs N20] a name is looked up once, and the connection is made to what was checked', async (t) => {
  // One port, two addresses: only the address decides who is reached.
  const port = await freePort()
  const good = await serve(t, (_req, res) => res.end('good'), '127.0.0.2', port)
  await serve(t, (_req, res) => res.end('caught'), '127.0.0.1', port)
  let lookups = 0
  const rebinding = async () => (lookups++ === 0 ? ['127.0.0.2'] : ['127.0.0.1'])
  const egress = new Egress(['127.0.0.2/32'], rebinding)
  const url = `http://rebinding.example:${good.port}/`
  t.equal(await (await egress.fetch(url)).text(), 'good')
  t.equal(lookups, 1)
  t.strictSame(good.seen, [`GET rebinding.example:${good.port}/`])
  // A connection that is open may be used again; a new one is checked again.
  const answers = await Promise.allSettled(Array.from({ length: 5 }, async () => (await egress.fetch(url)).text()))
  const said = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : String(answer.reason)))
  t.ok(lookups > 1)
  t.notOk(said.includes('caught'))
  t.ok(said.some((text) => text.includes('private network')))
})

t.test('many calls at once share the signal of their server', async (t) => {
  const waiting: (() => void)[] = []
  const { port } = await serve(t, (_req, res) => void waiting.push(() => res.end('good')))
  const egress = new Egress(['127.0.0.0/8'])
  const { signal } = new AbortController()
  // Of the eleventh listener Node would warn, which ends a suite.
  const calls = Array.from({ length: 12 }, () => egress.fetch(`http://127.0.0.1:${port}/`, { signal }))
  await until(() => waiting.length === calls.length, 'all are asked')
  for (const answer of waiting) answer()
  for (const call of calls) t.equal(await (await call).text(), 'good')
})

t.test('[needs N20] a redirect is not followed, whatever its kind', async (t) => {
  const trap = await serve(t, (_req, res) => res.end('caught'))
  for (const status of [301, 302, 303, 307, 308]) {
    const { url } = await serve(t, (_req, res) => res.writeHead(status, { Location: trap.url }).end())
    await t.rejects(new Egress(['127.0.0.0/8']).fetch(url), { message: /redirects/ }, `${status}`)
  }
  t.strictSame(trap.seen, [])
})

t.test(
  '[needs N20] neither a token server nor the address that a server announces leads into a closed network',
  async (t) => {
    const trap = await serve(t, (_req, res) => res.end('caught'))
    const egress = new Egress(['127.0.0.2/32'])
    const tokens = new McpTokens({ ...OAUTH, token_url: trap.url }, egress.fetch)
    await t.rejects(tokens.header(), { message: /private network/ })
    const announcing = await serve(
      t,
      (req, res) => {
        if (req.method !== 'GET') return res.writeHead(405).end()
        res.writeHead(200, { 'content-type': 'text/event-stream' })
        return res.write(`event: endpoint\ndata: ${trap.url}/messages\n\n`)
      },
      '127.0.0.2'
    )
    const servers = new ToolServers({ egress, connectTimeoutMs: 3_000, callTimeoutMs: 500, log: { warn: () => {} } })
    t.teardown(() => servers.close())
    servers.configure({
      announcing: { ...A_SERVER, type: 'sse', url: `${announcing.url}/sse` },
      token: { ...A_SERVER, type: 'http', url: `${announcing.url}/mcp`, oauth: { ...OAUTH, token_url: trap.url } }
    })
    await until(() => ['announcing', 'token'].every((name) => servers.status(name).last_error !== null), 'both failed')
    t.ok(announcing.seen.length > 0)
    t.strictSame(trap.seen, [])
  }
)

t.test(
  'a server that switches protocols, or answers with no status of HTTP, has failed, and its connection ends',
  async (t) => {
    const answers = {
      switching: 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
      halfway: 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
      odd: 'HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nhi'
    }
    for (const [name, answer] of Object.entries(answers)) {
      const sockets = new Set<Socket>()
      const server = createTcpServer((socket) => {
        sockets.add(socket)
        socket.once('close', () => sockets.delete(socket)).on('error', () => {})
        socket.once('data', () => socket.write(answer))
      })
      t.teardown(() => server.close())
      await once(server.listen(0, '127.0.0.1'), 'listening')
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
      const signal = AbortSignal.timeout(10_000)
      const { fetch } = new Egress(['127.0.0.0/8'])
      await t.rejects(withTimeout(fetch(url, { method: 'POST', body: '{}', signal }), 5_000, late), NOT_LATE, name)
      await until(() => sockets.size === 0, `${name}: the connection has ended`)
      // Models and LangGraph servers are asked in the same way.
      if (name === 'switching')
        await t.rejects(
          withTimeout(send({ method: 'POST', url, headers: {}, body: '{}', signal }), 5_000, late),
          NOT_LATE
        )
    }
  }
)

t.test('what fetch does for its callers, this does too: bodies, headers, streams, empty answers, aborts', async (t) => {
  const { url } = await serve(t, (req, res) => {
    if (req.url === '/empty') return res.writeHead(204).end()
    if (req.url === '/stream') return void res.writeHead(200, { 'x-a': ['1', '2'] }).write('first')
    let said = ''
    req.on('data', (bytes) => {
      said += bytes
    })
    return req.on('end', () => res.writeHead(201).end(`${req.method} ${req.headers['x-b']} ${said}`))
  })
  const { fetch } = new Egress(['127.0.0.0/8'])
  const posted = await fetch(`${url}/`, { method: 'POST', body: 'ü', headers: { 'X-B': 'b' } })
  t.strictSame([posted.status, posted.ok, await posted.text()], [201, true, 'POST b ü'])
  t.equal((await fetch(`${url}/empty`)).body, null)
  const stop = new AbortController()
  const stream = await fetch(`${url}/stream`, { signal: stop.signal })
  t.equal(stream.headers.get('x-a'), '1, 2')
  const reader = stream.body!.getReader()
  t.equal(Buffer.from((await reader.read()).value ?? []).toString(), 'first')
  stop.abort()
  await t.rejects(reader.read())
  await t.rejects(fetch(`${url}/stream`, { signal: AbortSignal.abort() }))
  await t.rejects(fetch('http://127.0.0.1:9/'), { code: 'ECONNREFUSED' })
})
