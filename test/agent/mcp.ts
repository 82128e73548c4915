// Tool servers: what is refused before anything is started or asked, and how a broken one behaves.
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Egress } from '../../lib/agent/mcp/egress.ts'
import { IMAGE_BYTES } from '../../lib/base/image.ts'
import { McpTokens } from '../../lib/agent/mcp/connection.ts'
import { type McpServerConfig, problemOf } from '../../lib/agent/mcp/command-policy.ts'
import { masked, problemOfMasks, secretsIn, unmasked } from '../../lib/agent/mcp/secrets.ts'
import { StdioTransport } from '../../lib/agent/mcp/stdio.ts'
import { ToolServers } from '../../lib/agent/mcp/tool-servers.ts'
import type { Tool } from '../../lib/agent/tool.ts'
import { until } from '../fixtures/gateway.ts'
import { ToolServer } from '../fixtures/hanging-tool.ts'
import { HOSTILE_SERVERS } from '../fixtures/hostile.ts'
import { A_SERVER, OAUTH } from '../fixtures/tool-server.ts'
import { loopTurns } from '../fixtures/until.ts'

const POLICY = { launchers: ['npx', 'uvx'], variables: ['MEMORY_FILE_PATH'] }
const stdio = (more: Partial<McpServerConfig>) => problemOf({ ...A_SERVER, ...more }, POLICY)
const http = (more: Partial<McpServerConfig>) =>
  problemOf(
    { ...A_SERVER, type: 'http', command: null, args: [], url: 'https://tools.example.com/mcp', ...more },
    POLICY
  )

t.test('what administrators write every day is let through', (t) => {
  for (const args of [
    ['-y', '@scope/server'],
    ['some-server@1.2.3', '/data', '--read-only', '--root=/x'],
    ['pkg', '-v']
  ])
    t.equal(stdio({ args }), null, args.join(' '))
  t.equal(stdio({ command: 'uvx', args: ['mcp-server-time==1.0', '--local-timezone=Europe/Berlin'] }), null)
  const env = {
    ...{ API_TOKEN: 'x', GITHUB_PERSONAL_ACCESS_TOKEN: 'y', DEBUG: '1', OPENAI_API_KEY: 'z', SLACK_TEAM_ID: 't' },
    ...{ POSTGRES_URL: 'u', LOG_LEVEL: 'info', AWS_REGION: 'eu', apiKey_id: 'i', TZ: 'UTC', MEMORY_FILE_PATH: '/m' }
  }
  t.equal(stdio({ env }), null)
  t.equal(http({ headers: { Authorization: 'Bearer x', 'X-Api-Key': 'y' } }), null)
  t.equal(http({ url: 'http://127.0.0.1:9/mcp' }), null)
  t.end()
})

t.test(
  `[needs N20] none of ${Object.keys(HOSTILE_SERVERS).length} ways to make it run or ask something else passes`,
  (t) => {
    for (const [what, server] of Object.entries(HOSTILE_SERVERS))
      t.type(problemOf({ ...A_SERVER, ...server }, POLICY), 'string', what)
    t.end()
  }
)

// -------------------------------------------------------------------------------------------------- oauth

function tokenServer(answers: readonly object[]) {
  const forms: Record<string, string>[] = []
  const fetch = async (_url: string | URL, init?: RequestInit) => {
    forms.push(Object.fromEntries(new URLSearchParams(String(init?.body))))
    return Response.json(answers[Math.min(forms.length, answers.length) - 1])
  }
  return { forms, fetch }
}

t.test('a token is asked for once and used until shortly before its end', async (t) => {
  const { forms, fetch } = tokenServer([
    { access_token: 'a', expires_in: 100 },
    { access_token: 'b', token_type: 'DPoP' }
  ])
  const tokens = new McpTokens(OAUTH, fetch)
  t.same(await Promise.all([tokens.header(0), tokens.header(0)]), ['Bearer a', 'Bearer a'])
  t.equal(await tokens.header(39_000), 'Bearer a')
  t.equal(await tokens.header(41_000), 'DPoP b')
  t.equal(forms.length, 2)
  t.same(forms[0], {
    tenant: 't1',
    grant_type: 'client_credentials',
    client_id: 'me',
    client_secret: 'hush',
    scope: 'tools'
  })
  tokens.drop()
  await tokens.header(41_000)
  t.equal(forms.length, 3)
})

t.test('a refresh token that the server renews is used from then on', async (t) => {
  const { forms, fetch } = tokenServer([{ access_token: 'a', expires_in: 0, refresh_token: 'r2' }])
  const tokens = new McpTokens({ ...OAUTH, grant_type: 'refresh_token', refresh_token: 'r1' }, fetch)
  await tokens.header()
  await tokens.header()
  t.same(
    forms.map(({ refresh_token }) => refresh_token),
    ['r1', 'r2']
  )
})

t.test('a token server that fails is told without any secret, and asked again the next time', async (t) => {
  let calls = 0
  const tokens = new McpTokens(OAUTH, async () => {
    calls++
    return calls === 1 ? new Response('hush', { status: 500 }) : Response.json({})
  })
  await t.rejects(tokens.header(), { message: 'The token server answered 500' })
  await t.rejects(tokens.header(), { message: /sent no "access_token"/ })
})

// -------------------------------------------------------------------------------------------------- masks

t.test('secrets are masked on the way out, and a mask on the way in is what was there', (t) => {
  const stored = {
    ...A_SERVER,
    env: { A: 'secret' },
    headers: { B: 'secret' },
    oauth: { ...OAUTH, refresh_token: 'secret' }
  }
  const shown = masked(stored)
  t.notMatch(JSON.stringify(shown), /:"secret"|hush|t1/)
  t.same(unmasked(shown, stored), stored)
  t.same(unmasked({ ...shown, env: { A: 'new', C: '***' } }, stored).env, { A: 'new' }, 'a mask of nothing is nothing')
  t.same(unmasked(shown, undefined).headers, {})
  t.end()
})

t.test('secrets in arguments and in queries of addresses are masked, and come back as they were', async (t) => {
  const args = [
    ...['-y', 'mcp-remote', 'https://x.example/mcp?api_key=hush1&team=blue', '--api-key', 'hush2', '--token=hush3'],
    ...[
      '--header',
      'Authorization: Bearer hush4',
      '--header=X-Api-Key: hush5',
      'API_SECRET=hush6',
      'Bearer hush7',
      '--root=/x'
    ]
  ]
  const url = 'https://tools.example.com/mcp?key=hush8&key=hush9&team=blue'
  const oauth = { ...OAUTH, token_url: 'https://t.example/token?code=hush0' }
  const stored: McpServerConfig = { ...A_SERVER, args, url, oauth }
  const shown = masked(stored)
  t.notMatch(JSON.stringify(shown), /hush/)
  t.same(shown.args.slice(-1), ['--root=/x'], 'what is no secret is shown')
  t.same(unmasked(shown, stored), stored)
  t.equal(problemOfMasks(shown, stored), null)
  const added = { ...shown, args: [...shown.args.slice(0, 2), '--debug', ...shown.args.slice(2)] }
  t.same(unmasked(added, stored).args, [...args.slice(0, 2), '--debug', ...args.slice(2)], 'also behind a new one')
  for (const secret of ['hush2', 'hush3', 'hush8', 'hush0']) t.ok(secretsIn(stored).includes(secret), secret)
})

t.test(
  'a mask that comes back with another address, command or package is refused, and sends nothing there',
  async (t) => {
    const http: McpServerConfig = { ...A_SERVER, type: 'http', command: null, args: [], url: 'https://a.example/mcp' }
    const stored = {
      ...http,
      env: { TOKEN: 'hush' },
      headers: { Authorization: 'hush' },
      oauth: { ...OAUTH, token_url: 'https://t.example/token' }
    }
    const shown = masked(stored)
    const evil = 'https://evil.example/mcp'
    t.match(problemOfMasks({ ...shown, url: evil }, stored), /its url is another one/)
    t.match(
      problemOfMasks({ ...shown, headers: {}, url: evil }, stored),
      /its url is another one/,
      'a token goes there too'
    )
    const token_url = 'https://evil.example/token'
    t.match(problemOfMasks({ ...shown, oauth: { ...shown.oauth!, token_url } }, stored), /its token_url is another one/)
    t.equal(problemOfMasks({ ...stored, url: evil }, stored), null, 'who writes the secrets knows them')
    t.equal(problemOfMasks({ ...shown, description: 'new' }, stored), null)
    const program = { ...A_SERVER, args: ['-y', 'good', '--token=hush'], env: { API_TOKEN: 'hush' } }
    const bare = masked(program)
    t.match(problemOfMasks({ ...bare, args: ['-y', 'evil', '--token=***'] }, program), /command or package is another/)
    t.match(problemOfMasks({ ...bare, command: 'uvx' }, program), /command or package is another/)
    t.match(problemOfMasks({ ...bare, args: ['-y', 'good', '--key=***'] }, program), /stands for nothing/)
    t.equal(problemOfMasks({ ...bare, args: [...bare.args, '--verbose'] }, program), null)
  }
)

// ------------------------------------------------------------------------------------------------ servers

async function serve(t: Test, answer: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // It listens on a port of its own.
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const quiet = { warn: () => {} }
const open = (t: Test, connectTimeoutMs = 500) => {
  const servers = new ToolServers({
    egress: new Egress(['127.0.0.0/8']),
    connectTimeoutMs,
    callTimeoutMs: 500,
    log: quiet
  })
  t.teardown(() => servers.close())
  return servers
}

t.test(
  'a server that hangs, exits, speaks garbage or is not there keeps nobody waiting and says what is wrong',
  async (t) => {
    const { url: hangs } = await serve(t, () => {})
    const { url: garbage } = await serve(t, (_req, res) => res.end('<html>'))
    const servers = open(t)
    const http = { ...A_SERVER, type: 'http' as const }
    servers.configure({
      hangs: { ...http, url: hangs },
      garbage: { ...http, url: garbage },
      closed: { ...http, url: 'http://127.0.0.1:9/' },
      forbidden: { ...http, url: 'http://10.0.0.1/' },
      exits: { ...A_SERVER, command: 'false', args: [] },
      missing: { ...A_SERVER, command: 'no-such-command-anywhere', args: [] },
      off: { ...A_SERVER, enabled: false }
    })
    const box = await servers.open()
    t.same(box.tools, [])
    box.close()
    const bad = ['hangs', 'garbage', 'closed', 'forbidden', 'exits', 'missing']
    await until(() => bad.every((name) => servers.status(name).last_error !== null), 'all have failed')
    t.match(servers.status('forbidden').last_error, /private network/)
    t.match(servers.status('hangs').last_error, /within 500 ms|timed out/i)
    t.equal(servers.status('off').state, 'off')
    t.equal(servers.status('none').state, 'off')
  }
)

t.test(
  'what a server says before it ends is told, without the secrets that it was given; an endless message ends it',
  async (t) => {
    // They end by themselves, on a busy machine not at once.
    const servers = open(t, 60_000)
    const shell = (script: string) => ({
      ...A_SERVER,
      command: 'sh',
      args: ['-c', script],
      env: { TOKEN: 'hush-hush' }
    })
    servers.configure({
      exits: shell('echo "no such account: $TOKEN" >&2; exit 3'),
      endless: shell('exec cat /dev/zero')
    })
    for (const name of ['exits', 'endless'])
      await until(() => servers.status(name).last_error !== null, `${name} says what is wrong`)
    t.equal(servers.status('exits').last_error, 'The tool server ended with code 3: no such account: ***')
    t.match(servers.status('endless').last_error, /^A message of more than/)
  }
)

function aContext() {
  const signal = AbortSignal.timeout(20_000)
  return { signal, userId: null, threadId: 't', runId: 'r', channels: {} }
}

async function toolsAt(t: Test, url: string): Promise<readonly Tool[]> {
  const servers = open(t, 10_000)
  servers.configure({ s: { ...A_SERVER, type: 'http', url } })
  await until(() => servers.status('s').state === 'ready', 'it is connected')
  const box = await servers.open()
  t.teardown(() => box.close())
  return box.tools
}

t.test('images of a result are for models, as their bytes say; its text names whatever is binary', async (t) => {
  const bytes = Buffer.from('GIF89a\x01\0\x01\0', 'latin1')
  const gif = bytes.toString('base64')
  const shown = { mimeType: 'image/gif', bytes }
  const text = (text: string) => ({ type: 'text', text })
  const image = (data: string, mimeType = 'image/png') => ({ type: 'image', data, mimeType })
  const blob = (blob: string) => ({ type: 'resource', resource: { uri: 'file:///a', mimeType: 'image/gif', blob } })
  const named = ({ length }: string) => `[image image/png, ${length} base64 characters]`
  const large = Buffer.alloc(IMAGE_BYTES + 1, bytes).toString('base64')
  const lines = gif.replace(/.{4}/g, '$&\r\n')
  const rows: readonly [string, readonly object[], string, readonly object[]][] = [
    ['its type is that of its bytes', [text('a'), image(gif)], `a\n${named(gif)}`, [shown]],
    ['with line ends', [image(lines)], named(lines), [shown]],
    ['in a resource', [blob(gif), image(gif)], `[resource file:///a]\n${named(gif)}`, [shown, shown]],
    ['of a type that models do not take', [image('PHN2Zz4=')], named('PHN2Zz4='), []],
    ['too large', [image(large)], named(large), []],
    ['no image', [blob('aGk='), text('b')], '[resource file:///a]\nb', []]
  ]
  const server = await ToolServer.start(t, [{ name: 'draw', inputSchema: { type: 'object' } }])
  const [draw] = await toolsAt(t, server.url)
  for (const [what, content, expected, pictures] of rows) {
    server.release({ content })
    t.same(await draw!.run({}, aContext()), { content: expected, pictures }, what)
  }
})

t.test("a result is not held against its server's schema, whose patterns may take minutes", async (t) => {
  const tool = (name: string, a: object) => ({
    name,
    inputSchema: { type: 'object' },
    outputSchema: { type: 'object', properties: { a } }
  })
  // Some two seconds for this text, and twice as many for every letter more.
  const tools = [tool('slow', { type: 'string', pattern: '^(a+)+$' }), tool('broken', { $ref: '#/definitions/none' })]
  const server = await ToolServer.start(t, tools)
  server.release({ content: [], structuredContent: { a: `${'a'.repeat(27)}!` } })
  const { url } = server
  for (const one of await toolsAt(t, url)) {
    const begun = process.cpuUsage()
    t.match(await one.run({}, aContext()), { content: /^\{"a":"aaa/ }, one.name)
    t.ok(process.cpuUsage(begun).user < 400_000, `${one.name} costs no time of the process`)
  }
})

t.test('a renewed refresh token is used after a new connection, and after all were made anew', async (t) => {
  const forms: URLSearchParams[] = []
  const { url: token_url } = await serve(t, (req, res) => {
    let form = ''
    req.on('data', (bytes) => {
      form += bytes
    })
    req.on('end', () => {
      const given = new URLSearchParams(form)
      // Each is accepted once.
      const isGood = given.get('refresh_token') === `r${forms.length + 1}`
      forms.push(given)
      res.writeHead(isGood ? 200 : 400, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ access_token: 'a', expires_in: 0, refresh_token: `r${forms.length + 1}` }))
    })
  })
  const { url } = await ToolServer.start(t)
  const servers = open(t, 10_000)
  const oauth = { ...OAUTH, token_url, grant_type: 'refresh_token' as const, refresh_token: 'r1' }
  const configs = { s: { ...A_SERVER, type: 'http' as const, url, oauth } }
  for (const time of ['first', 'second']) {
    servers.configure(configs)
    await until(() => servers.status('s').state !== 'connecting', `${time}: it has an answer`)
    t.equal(servers.status('s').last_error, null, time)
    servers.configure({})
  }
})

t.test('calls to a server that does not read wait together, and are over when it ends', async (t) => {
  const deaf = { command: process.execPath, args: ['-e', 'setTimeout(() => {}, 1e6)'], env: {}, secrets: [] }
  const transport = new StdioTransport(deaf)
  await transport.start()
  let isOver = false
  const method = 'x'.repeat(1 << 20)
  const calls = Array.from({ length: 12 }, (_, id) => transport.send({ jsonrpc: '2.0', id, method }))
  const all = Promise.all(calls).then(() => {
    isOver = true
  })
  // Each with listeners of its own would be more than ten of them: a warning, which ends a suite.
  await loopTurns(20)
  t.notOk(isOver)
  await transport.close()
  await all
})

t.test('an answer over HTTP is bounded as one over stdio is: whole, and an event of a stream', async (t) => {
  const piece = 'x'.repeat(1 << 20)
  let sent = 0
  const endless =
    (type: string, status = 200): RequestListener =>
    (_req, res) => {
      res.writeHead(status, { 'content-type': type })
      const more = () => {
        while (sent++ < 1_000 && res.write(piece)) {}
        if (sent < 1_000) res.once('drain', more)
      }
      more()
    }
  const egress = new Egress(['127.0.0.0/8'])
  for (const [type, status] of [
    ['application/json', 200],
    ['text/event-stream', 200],
    ['text/event-stream', 500]
  ] as const) {
    sent = 0
    const { url } = await serve(t, endless(type, status))
    await t.rejects((await egress.fetch(url)).text(), { message: /An answer of more than 16777216 bytes/ })
    t.ok(sent < 200, `${sent} MB of a thousand were sent`)
  }
  const { url: lively } = await serve(t, (_req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let n = 0; n < 20; n++) res.write(`data: ${piece}\r\n\r\n`)
    res.end()
  })
  t.equal(
    (await (await egress.fetch(lively)).text()).length,
    20 * (piece.length + 10),
    'a stream is as long as it likes'
  )
})

t.test(
  'a server has a number of tools and a length of definitions; what is more is left out, with a warning',
  async (t) => {
    const tool = (n: number, description = 'x'.repeat(300)) => ({
      name: `tool_${n}`,
      description,
      inputSchema: { type: 'object' }
    })
    const tools = (count: number, description?: string) => Array.from({ length: count }, (_, n) => tool(n, description))
    const [many, long, fine] = await Promise.all([
      ToolServer.start(t, tools(20_000)),
      ToolServer.start(t, tools(40, 'x'.repeat(10_000))),
      ToolServer.start(t, tools(40))
    ])
    const warned: [unknown, string][] = []
    const servers = new ToolServers({
      egress: new Egress(['127.0.0.0/8']),
      connectTimeoutMs: 60_000,
      callTimeoutMs: 500,
      log: { warn: ({ server }: { server?: unknown }, text) => warned.push([server, text]) }
    })
    t.teardown(() => servers.close())
    const at = ({ url }: ToolServer) => ({ ...A_SERVER, type: 'http' as const, url })
    servers.configure({ many: at(many), long: at(long), fine: at(fine) })
    for (const name of ['many', 'long', 'fine'])
      await until(() => servers.status(name).state === 'ready', `${name} is connected`)
    const box = await servers.open()
    const of = (name: string) => box.tools.filter((one) => one.name.startsWith(`${name}_`)).length
    t.strictSame([of('many'), of('long'), of('fine')], [256, 26, 40])
    t.ok(JSON.stringify(box.tools).length < 600_000, 'every request to a model carries them')
    t.match(
      servers.status('many').last_error,
      /offers 20000 tools; the last 19744 are left out: a server has at most 256/
    )
    t.match(servers.status('long').last_error, /offers 40 tools; the last 14 are left out/)
    t.equal(servers.status('fine').last_error, null)
    t.strictSame(warned.sort(), [
      ['long', 'a tool server offers too many tools'],
      ['many', 'a tool server offers too many tools']
    ])
    box.close()
  }
)
