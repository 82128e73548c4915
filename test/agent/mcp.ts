// Tool servers: what is refused before anything is started or asked, and how a broken one behaves.
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Egress } from '../../lib/agent/mcp/egress.ts'
import { McpTokens } from '../../lib/agent/mcp/oauth.ts'
import { problemOf } from '../../lib/agent/mcp/screen.ts'
import { type McpServerConfig, masked, unmasked } from '../../lib/agent/mcp/server-config.ts'
import { ToolServers } from '../../lib/agent/mcp/tool-servers.ts'
import { until } from '../fixtures/gateway.ts'
import { HOSTILE_SERVERS } from '../fixtures/hostile.ts'
import { A_SERVER, OAUTH } from '../fixtures/tool-server.ts'

const LAUNCHERS = ['npx', 'uvx']
const stdio = (more: Partial<McpServerConfig>) => problemOf({ ...A_SERVER, ...more }, LAUNCHERS)
const http = (more: Partial<McpServerConfig>) =>
  problemOf(
    { ...A_SERVER, type: 'http', command: null, args: [], url: 'https://tools.example.com/mcp', ...more },
    LAUNCHERS
  )

t.test('what administrators write every day is let through', (t) => {
  for (const args of [
    ['-y', '@scope/server'],
    ['some-server@1.2.3', '/data', '--read-only', '--root=/x'],
    ['pkg', '-v']
  ])
    t.equal(stdio({ args }), null, args.join(' '))
  t.equal(stdio({ command: 'uvx', args: ['mcp-server-time==1.0', '--local-timezone=Europe/Berlin'] }), null)
  t.equal(stdio({ env: { API_TOKEN: 'x', GITHUB_TOKEN: 'y', DEBUG: '1' } }), null)
  t.equal(http({ headers: { Authorization: 'Bearer x', 'X-Api-Key': 'y' } }), null)
  t.equal(http({ url: 'http://127.0.0.1:9/mcp' }), null)
  t.end()
})

t.test(
  `[needs N20] none of ${Object.keys(HOSTILE_SERVERS).length} ways to make it run or ask something else passes`,
  (t) => {
    for (const [what, server] of Object.entries(HOSTILE_SERVERS))
      t.type(problemOf({ ...A_SERVER, ...server }, LAUNCHERS), 'string', what)
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
const open = (t: Test) => {
  const servers = new ToolServers({
    egress: new Egress(['127.0.0.0/8']),
    connectTimeoutMs: 500,
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
    const servers = open(t)
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
