// Tool servers: what is refused before anything is started or asked, and how a broken one behaves.
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Egress } from '../../lib/agent/mcp/egress.ts'
import { McpTokens } from '../../lib/agent/mcp/oauth.ts'
import { problemOf } from '../../lib/agent/mcp/screen.ts'
import { type McpOAuth, type McpServerConfig, masked, unmasked } from '../../lib/agent/mcp/server-config.ts'
import { ToolServers } from '../../lib/agent/mcp/tool-servers.ts'
import { until } from '../fixtures/gateway.ts'

const base: McpServerConfig = {
  enabled: true,
  type: 'stdio',
  command: 'npx',
  args: ['-y', 'some-server'],
  env: {},
  url: null,
  headers: {},
  oauth: null,
  description: ''
}
const LAUNCHERS = ['npx', 'uvx']
const stdio = (more: Partial<McpServerConfig>) => problemOf({ ...base, ...more }, LAUNCHERS)
const http = (more: Partial<McpServerConfig>) =>
  problemOf(
    { ...base, type: 'http', command: null, args: [], url: 'https://tools.example.com/mcp', ...more },
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

t.test('[needs N20] no command, flag, package or variable makes a launcher run something else', (t) => {
  const commands = [
    'bash',
    'sh',
    '/usr/bin/npx',
    './npx',
    '../npx',
    'npx ',
    'NPX',
    'node',
    'python',
    'npx;id',
    '',
    null
  ]
  for (const command of commands) t.ok(stdio({ command }), `command ${command}`)
  const argLists = [
    ['-c', 'id'],
    ['--call', 'id'],
    ['--call=id'],
    ['-y', '-c', 'id', 'pkg'],
    ['pkg', '-e', 'code'],
    ['pkg', '--eval=code'],
    ['pkg', '-p', 'code'],
    ['pkg', '-r', './evil.js'],
    ['pkg', '--require=./evil.js'],
    ['pkg', '--import', './evil.mjs'],
    ['pkg', '--loader=x'],
    ['pkg', '--experimental-loader=x'],
    ['pkg', '--node-options=--require=x'],
    ['--node-options', 'x', 'pkg'],
    ['--script-shell=/tmp/evil', 'pkg'],
    ['--shell', '/tmp/evil', 'pkg'],
    ['pkg', '--inspect=0.0.0.0:1'],
    ['pkg', '--env-file=/tmp/x'],
    ['--package', 'evil', 'pkg'],
    ['--registry=http://evil', 'pkg'],
    ['--userconfig=/tmp/x', 'pkg'],
    ['--prefix', '/tmp', 'pkg'],
    ['--index-url', 'http://evil', 'pkg'],
    ['--from', 'git+https://evil/x', 'pkg'],
    ['--with', 'evil', 'pkg'],
    ['./local'],
    ['../local'],
    ['/abs/local'],
    ['~/local'],
    ['file:../x'],
    ['git+https://evil/x.git'],
    ['https://evil/x.tgz'],
    ['user/repo'],
    ['github:user/repo'],
    ['pkg@https://evil/x.tgz'],
    ['pkg@file:../x'],
    ['pkg@npm:evil'],
    ['x.tgz; id'],
    ['$(id)'],
    ['`id`'],
    ['pkg\nid'],
    ['pkg', 'a\0b'],
    ['-y'],
    []
  ]
  for (const args of argLists) t.ok(stdio({ args }), JSON.stringify(args))
  const names = [
    'NODE_OPTIONS',
    'node_options',
    'NODE_PATH',
    'NODE_EXTRA_CA_CERTS',
    'NODE_TLS_REJECT_UNAUTHORIZED',
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'LD_AUDIT',
    'DYLD_INSERT_LIBRARIES',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    'PYTHONHOME',
    'PERL5LIB',
    'PERL5OPT',
    'RUBYOPT',
    'RUBYLIB',
    'BASH_ENV',
    'ENV',
    'IFS',
    'PS4',
    'PROMPT_COMMAND',
    'PATH',
    'SHELL',
    'npm_config_registry',
    'NPM_CONFIG_SCRIPT_SHELL',
    'UV_INDEX_URL',
    'PIP_INDEX_URL',
    'GIT_SSH_COMMAND',
    'SSH_AUTH_SOCK',
    'JAVA_TOOL_OPTIONS',
    'CLASSPATH',
    'EDITOR',
    'HTTPS_PROXY',
    'A=B',
    'A B',
    '1A',
    ''
  ]
  for (const name of names) t.ok(stdio({ env: { [name]: 'x' } }), `variable ${name}`)
  t.ok(stdio({ env: { A: 'x\0y' } }))
  t.end()
})

t.test('an address is http or https without a user in it, a header is a header', (t) => {
  for (const url of [
    'ftp://x/',
    'file:///etc/passwd',
    'javascript:1',
    'x',
    '',
    null,
    'http://user:pw@host/',
    'gopher://x'
  ])
    t.ok(http({ url }), `url ${url}`)
  for (const name of ['a b', 'a:b', '', 'a\r\nb']) t.ok(http({ headers: { [name]: 'x' } }), `header ${name}`)
  t.ok(http({ headers: { a: 'x\r\nEvil: 1' } }))
  t.end()
})

// ------------------------------------------------------------------------------------------------- egress

t.test(
  '[needs N20] a request never reaches a private network or a metadata service that was not allowed',
  async (t) => {
    const names: Record<string, string[]> = { 'evil.example': ['93.184.216.34', '10.0.0.1'], 'none.example': [] }
    const egress = new Egress([], async (host) => names[host] ?? ['93.184.216.34'])
    const closed = [
      '127.0.0.1',
      '127.1.2.3',
      '10.0.0.1',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '169.254.169.254',
      '100.64.0.1',
      '100.100.100.200',
      '0.0.0.0',
      '224.0.0.1',
      '255.255.255.255',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '127.1',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::ffff:169.254.169.254]',
      '[64:ff9b::7f00:1]',
      '[fd00:ec2::254]',
      '[fe80::1]',
      'evil.example',
      'none.example'
    ]
    for (const host of closed) await t.rejects(egress.check(new URL(`http://${host}/`)), { message: /private/ }, host)
    for (const host of ['93.184.216.34', '[2606:4700::1111]', 'good.example', '172.32.0.1', '100.128.0.1'])
      await t.resolves(egress.check(new URL(`https://${host}/`)), host)
    const open = new Egress(['127.0.0.0/8', '::1'])
    await t.resolves(open.check(new URL('http://127.0.0.1:9/')))
    await t.resolves(open.check(new URL('http://[::1]/')))
    await t.rejects(open.check(new URL('http://169.254.169.254/latest')))
    for (const range of ['x', '10.0.0.0/33', '10.0.0.0/x', 'fd00::/129']) t.throws(() => new Egress([range]), range)
  }
)

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

t.test('a redirect is not followed: it could lead anywhere', async (t) => {
  const { url } = await serve(t, (_req, res) => res.writeHead(302, { Location: 'http://169.254.169.254/' }).end())
  await t.rejects(new Egress(['127.0.0.0/8']).fetch(url))
})

// -------------------------------------------------------------------------------------------------- oauth

const oauth: McpOAuth = {
  enabled: true,
  token_url: 'http://token',
  grant_type: 'client_credentials',
  client_id: 'me',
  client_secret: 'hush',
  refresh_token: null,
  scope: 'tools',
  audience: null,
  token_field: 'access_token',
  token_type_field: 'token_type',
  expires_in_field: 'expires_in',
  default_token_type: 'Bearer',
  refresh_skew_seconds: 60,
  extra_token_params: { tenant: 't1' }
}

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
  const tokens = new McpTokens(oauth, fetch)
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
  const tokens = new McpTokens({ ...oauth, grant_type: 'refresh_token', refresh_token: 'r1' }, fetch)
  await tokens.header()
  await tokens.header()
  t.same(
    forms.map(({ refresh_token }) => refresh_token),
    ['r1', 'r2']
  )
})

t.test('a token server that fails is told without any secret, and asked again the next time', async (t) => {
  let calls = 0
  const tokens = new McpTokens(oauth, async () => {
    calls++
    return calls === 1 ? new Response('hush', { status: 500 }) : Response.json({})
  })
  await t.rejects(tokens.header(), { message: 'The token server answered 500' })
  await t.rejects(tokens.header(), { message: /sent no "access_token"/ })
})

// -------------------------------------------------------------------------------------------------- masks

t.test('secrets are masked on the way out, and a mask on the way in is what was there', (t) => {
  const stored = {
    ...base,
    env: { A: 'secret' },
    headers: { B: 'secret' },
    oauth: { ...oauth, refresh_token: 'secret' }
  }
  const shown = masked(stored)
  t.notMatch(JSON.stringify(shown), /:"secret"|hush|t1/)
  t.same(unmasked(shown, stored), stored)
  t.same(unmasked({ ...shown, env: { A: 'new', C: '***' } }, stored).env, { A: 'new' }, 'a mask of nothing is nothing')
  t.same(unmasked(shown, undefined).headers, {})
  t.end()
})

// ------------------------------------------------------------------------------------------------ servers

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
    const http = { ...base, type: 'http' as const }
    servers.configure({
      hangs: { ...http, url: hangs },
      garbage: { ...http, url: garbage },
      closed: { ...http, url: 'http://127.0.0.1:9/' },
      forbidden: { ...http, url: 'http://10.0.0.1/' },
      exits: { ...base, command: 'false', args: [] },
      missing: { ...base, command: 'no-such-command-anywhere', args: [] },
      off: { ...base, enabled: false }
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
