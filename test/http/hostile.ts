// What strangers send to do harm, sent to a real gateway: it answers with a refusal, and neither a file nor a process comes of it.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { OF_PROCESS } from '../../lib/files/home.ts'
import { BOUNDARY, FORM_TYPE, formOf, headOf, upload } from '../fixtures/form.ts'
import {
  asked,
  at,
  homeOf,
  listIn,
  openSite,
  Person,
  PASSWORD,
  type Site,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { HOSTILE_SERVERS, hostileArchives } from '../fixtures/hostile.ts'
import { A_SERVER } from '../fixtures/tool-server.ts'
import { zipOf } from '../fixtures/zip.ts'

/** A folder with launchers that tell that they were called, and what they told. */
function spies(t: Test): { called(): string } {
  const folder = homeOf(t)
  const told = join(folder, 'told')
  for (const name of ['npx', 'uvx']) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho "$0 $*" >> '${told}'\n`)
    chmodSync(join(folder, name), 0o755)
  }
  const before = process.env.PATH
  process.env.PATH = `${folder}${delimiter}${before}`
  t.teardown(() => {
    process.env.PATH = before
  })
  return { called: () => (existsSync(told) ? readFileSync(told, 'utf8') : '') }
}

async function administrator(t: Test, options: { home?: string; config?: object } = {}) {
  const { home, config } = options
  const site = await openSite(t, { ...(home && { home }), config: { ...config } })
  const admin = new Person(site.url)
  const { status } = await admin.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  t.equal(status, 201)
  return { site, admin }
}

/** Everything below the home but what the gateway itself keeps there. */
function filesOf({ home }: Site): string[] {
  // Not `recursive`, which on Node 24 goes through links, of which tests leave one to the home itself.
  const below = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name)
      return [path, ...(entry.isDirectory() ? below(path) : [])]
    })
  return below(home)
    .map((path) => path.slice(home.length + 1))
    .filter((path) => !path.startsWith('data') && !OF_PROCESS.test(path))
    .sort()
}

t.test(
  '[needs N20] a tool server that could run something else is refused: nothing is stored, nothing is started',
  async (t) => {
    const spy = spies(t)
    const { site, admin } = await administrator(t)
    const before = filesOf(site)
    for (const [what, server] of Object.entries(HOSTILE_SERVERS)) {
      const answer = await admin.ask('PUT', '/api/mcp/config', {
        body: { mcp_servers: { a: { ...A_SERVER, ...server } } }
      })
      t.equal(answer.status, 400, `${what}: ${answer.text.slice(0, 200)}`)
    }
    for (const name of ['../a', 'a/b', 'a\0', '', ' a', 'ä', 'a'.repeat(65)]) {
      const body = `{"mcp_servers":{${JSON.stringify(name)}:${JSON.stringify(A_SERVER)}}}`
      t.equal((await admin.ask('PUT', '/api/mcp/config', { body })).status, 422, `name ${JSON.stringify(name)}`)
    }
    t.match((await admin.get('/api/mcp/config')).body, { mcp_servers: {} })
    t.strictSame(filesOf(site), before)
    t.equal(spy.called(), '')
    await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers: { a: A_SERVER } } })
    await until(() => spy.called().includes('npx -y some-server'), 'a good one is started')
  }
)

t.test('[needs N20] what somebody has written into the file by hand is screened too, at every start', async (t) => {
  const spy = spies(t)
  const home = homeOf(t)
  const hostile = Object.values(HOSTILE_SERVERS).map((server, n) => [`bad-${n}`, { ...A_SERVER, ...server }] as const)
  const mcpServers = Object.fromEntries([...hostile, ['good', { ...A_SERVER, args: ['-y', 'good'] }]])
  writeFileSync(join(home, 'extensions_config.json'), JSON.stringify({ mcpServers, skills: {} }))
  const { site } = await administrator(t, { home })
  await until(() => spy.called() !== '', 'the good one is started')
  t.match(spy.called().trim().split('\n'), [/npx -y good$/])
  t.equal(site.logged.filter(([, , text]) => text === 'a tool server is not started').length, hostile.length)
})

t.test('[needs N20] an archive that could do harm is refused whole: nothing of it is unpacked', async (t) => {
  const { site, admin } = await administrator(t)
  const thread = await admin.thread()
  const limits = { members: 1000, memberBytes: 16 << 20, totalBytes: 64 << 20 }
  const skill = { name: 'SKILL.md', data: '---\nname: evil\ndescription: Does harm.\n---\n' }
  for (const [what, members] of Object.entries(hostileArchives(limits))) {
    // But for the one thing it is a skill.
    await upload(admin, thread, [['a.skill', zipOf([skill, ...members])]])
    const before = filesOf(site)
    const path = '/mnt/user-data/uploads/a.skill'
    const answer = await admin.post('/api/skills/install', { thread_id: thread, path })
    // Names of members are in the answer, and not in words of a test: some would end its line.
    t.match(answer, { status: 400, body: { detail: /^Invalid skill: / } }, what)
    t.strictSame(filesOf(site), before, what)
    // A good member may be looked at where its neighbours are bad inside only: they stay packed.
    const member = await admin.get(`/api/threads/${thread}/artifacts${path}/SKILL.md`)
    t.ok(member.status === 404 || (member.status === 200 && member.text === skill.data), `${what}: ${member.status}`)
  }
  t.match((await admin.get('/api/skills/custom')).body, { skills: [] })
})

// --------------------------------------------------------------------------------------------------- names

/** Names that no file may have. */
const REFUSED: readonly string[] = [
  '.',
  '..',
  'a/..',
  '../..',
  'a/.',
  'a/',
  '/',
  '//',
  '..\\evil',
  'a\\b',
  'C:\\evil',
  '\\\\host\\share\\evil',
  'a\0b',
  '\0',
  'a\tb',
  'a\x1b[2Jb',
  'a\x07',
  'a\x7fb',
  'a\u0080b',
  'a\u009bb',
  'x'.repeat(256),
  'x'.repeat(5000),
  'ü'.repeat(128),
  '🦜'.repeat(64),
  `${'x'.repeat(252)}.txt`
]
/** Names of which the last part is a good one: that is the name, and the way to it is not gone. */
const TAMED: Readonly<Record<string, string>> = {
  '../../../etc/passwd': 'passwd',
  '/etc/shadow': 'shadow',
  'a/b/c.txt': 'c.txt',
  './here.txt': 'here.txt',
  '..//up.txt': 'up.txt',
  '/mnt/user-data/outputs/out.txt': 'out.txt',
  'C:evil.txt': 'C:evil.txt',
  'file:///etc/hosts': 'hosts',
  '%2e%2e%2fencoded': '%2e%2e%2fencoded',
  '..%2f..%2fencoded': '..%2f..%2fencoded',
  '...': '...',
  '.htaccess': '.htaccess',
  CON: 'CON',
  '-rf': '-rf',
  '~': '~',
  '$(id)': '$(id)',
  'a;b': 'a;b',
  '\u202egnp.exe': 'gnp.exe',
  'photo_\u2066gpj.\u2069exe\u200f': 'photo_gpj.exe',
  'e\u0301.txt': 'é.txt',
  __proto__: '__proto__',
  constructor: 'constructor'
}

t.test(
  `[needs N19] ${REFUSED.length} names that no file may have are skipped, and no name leaves the folder`,
  async (t) => {
    const { site, admin } = await administrator(t)
    const thread = await admin.thread()
    const uploaded = () => filesOf(site).filter((path) => path.includes('user-data/uploads/'))
    for (const name of REFUSED) {
      const { status, body } = await upload(admin, thread, [[name, 'harm']])
      t.equal(status, 200)
      t.strictSame(listIn(body, 'files'), [], JSON.stringify(name).slice(0, 50))
      t.equal(listIn(body, 'skipped_files').length, 1)
      t.strictSame(uploaded(), [])
      // fetch itself makes another URL of those two.
      if (name === '.' || name === '..') continue
      const removed = await admin.ask('DELETE', `/api/threads/${thread}/uploads/${encodeURIComponent(name)}`)
      t.ok([400, 404].includes(removed.status), `deleting ${JSON.stringify(name).slice(0, 50)}: ${removed.status}`)
    }
    for (const [name, kept] of Object.entries(TAMED)) {
      const { body } = await upload(admin, thread, [[name, 'tame']])
      t.match(listIn(body, 'files'), [{ filename: kept }], name)
    }
    t.strictSame(
      uploaded()
        .map((path) => path.split('/uploads/')[1])
        .sort(),
      Object.values(TAMED).sort()
    )
    const outside = filesOf(site).filter((path) => Object.values(TAMED).some((name) => path.endsWith(`/${name}`)))
    t.strictSame(outside, uploaded())
  }
)

t.test('[needs N19] a form that lies about itself leaves nothing', async (t) => {
  const { site, admin } = await administrator(t)
  const thread = await admin.thread()
  const before = filesOf(site)
  const send = (body: string | Buffer, type = FORM_TYPE, id = thread) =>
    admin.ask('POST', `/api/threads/${id}/uploads`, { body, headers: { 'content-type': type } })
  const whole = formOf([['a.txt', 'harm']])
  const bodies = [
    whole.subarray(0, -8),
    whole.subarray(5),
    Buffer.from(headOf('a.txt')),
    Buffer.from(`--${BOUNDARY}\r\n\r\n`),
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="${'a'.repeat(200_000)}"\r\n\r\nx`
    ),
    Buffer.from(`--${BOUNDARY}\r\n${'X-A: b\r\n'.repeat(50_000)}\r\nx\r\n--${BOUNDARY}--\r\n`)
  ]
  for (const [n, body] of bodies.entries()) {
    const { status } = await send(body)
    t.ok(status >= 400 && status < 500, `body ${n}: ${status}`)
  }
  for (const id of ['..%2f..%2fevil', '%2e%2e', 'a%00b', 'a%0a', 'ä', 'a%20b', '..%5cevil']) {
    const { status } = await send(whole, FORM_TYPE, id)
    t.ok(status >= 400 && status < 500, `thread ${id}: ${status}`)
  }
  t.strictSame(
    filesOf(site).filter((path) => !path.endsWith('incoming') && !/users\/[^/]+$|users$/.test(path)),
    before
  )
})

// --------------------------------------------------------------------------------------------------- paths

/** Ways out of a thread's folder. */
const WAYS_OUT: readonly string[] = [
  '../secret.txt',
  '../../../../secret.txt',
  '/secret.txt',
  '/etc/passwd',
  '/mnt/user-data/../../secret.txt',
  '/mnt/user-data/outputs/../../../secret.txt',
  '/mnt/user-data/outputs/..',
  '/mnt/user-data/..',
  '/mnt/user-data',
  '/mnt/user-data/',
  '/mnt/user-dataX/secret.txt',
  '/mnt/user-data.txt',
  '/mnt',
  '/',
  '//',
  '',
  '.',
  '..',
  'a/../../secret.txt',
  './../secret.txt',
  '..\\secret.txt',
  'a\\..\\..\\secret.txt',
  'C:\\secret.txt\\..',
  'a\0.txt',
  '/mnt/user-data/outputs/a\0.txt',
  '/MNT/USER-DATA/outputs/a.txt',
  '/proc/self/environ',
  '/dev/stdin',
  '/etc/../etc/passwd',
  '/mnt/user-data/uploads/mine.txt/../../../secret.txt',
  '/mnt//user-data/../secret.txt',
  '/mnt/user-data/link/secret.txt',
  '/mnt/user-data/outputs/link/secret.txt'
]

t.test(
  `[needs N18] of ${WAYS_OUT.length} ways out of the folder of a thread none is taken: not by tools, not by artifacts, not by skills`,
  async (t) => {
    const { site, admin } = await administrator(t)
    const thread = await admin.thread()
    const { body } = await upload(admin, thread, [['mine.txt', 'mine']])
    t.equal(listIn(body, 'files').length, 1)
    writeFileSync(join(site.home, 'secret.txt'), 'SECRET')
    const state = async () => (await admin.get(`/api/threads/${thread}/state`)).body
    const call = async (tool: string, args: object) => {
      await admin.post(
        `/api/threads/${thread}/runs/wait`,
        asked(`/demo rate=0 tool=${tool} args=${JSON.stringify(args)}`)
      )
      return listIn(await state(), 'values', 'messages').findLast((message) => at(message, 'type') === 'tool')
    }
    t.match(await call('write_file', { path: 'good.txt', content: 'good' }), { status: 'success' })
    const outputs = filesOf(site).find((path) => path.endsWith('/outputs')) ?? ''
    symlinkSync(site.home, join(site.home, outputs, 'link'))
    const before = filesOf(site)
    for (const path of WAYS_OUT) {
      t.match(
        await call('write_file', { path, content: 'evil' }),
        { status: 'error' },
        `write_file ${JSON.stringify(path)}`
      )
      // The root itself may be listed, and is no file.
      for (const [tool, args] of [
        ['read_file', { path }],
        ['present_files', { filepaths: [path] }]
      ] as const) {
        const answer = await call(tool, args)
        t.match(answer, { status: 'error' }, `${tool} ${JSON.stringify(path)}`)
        t.notMatch(textIn(answer, 'content'), new RegExp(`SECRET|root:|${site.home}`))
      }
      const searched = await call('search_files', { query: 'secret', path })
      t.notMatch(textIn(searched, 'content'), /SECRET|root:/)
      for (const encode of [encodeURI, encodeURIComponent]) {
        const given = encode(path).replaceAll('%5C', '\\')
        // fetch itself makes the thread's own URL of it.
        if (given === '..') continue
        const { status, text } = await admin.get(`/api/threads/${thread}/artifacts/${given}`)
        t.ok(status >= 400 && status < 500, `artifact ${given}: ${status}`)
        t.notMatch(text, new RegExp(`SECRET|root:|${site.home}`))
      }
      const installed = await admin.post('/api/skills/install', { thread_id: thread, path })
      t.ok(installed.status >= 400 && installed.status < 500, `skill ${JSON.stringify(path)}: ${installed.status}`)
    }
    t.strictSame(filesOf(site), before)
    t.strictSame(at(await state(), 'values', 'artifacts'), ['/mnt/user-data/outputs/good.txt'])
  }
)

t.test('a folder or anything else that is no file is no archive', async (t) => {
  const { site, admin } = await administrator(t)
  const thread = await admin.thread()
  await upload(admin, thread, [['a.txt', 'x']])
  const folder = filesOf(site).find((path) => path.endsWith('/uploads')) ?? ''
  mkdirSync(join(site.home, folder, 'folder.skill'))
  for (const path of ['/mnt/user-data/uploads/folder.skill', '/mnt/user-data/uploads', '/mnt/user-data/uploads/a.txt'])
    t.match(await admin.post('/api/skills/install', { thread_id: thread, path }), { status: 400 }, path)
})

/** What the server sends to a request of these lines, until it closes or `isEnough`. */
function knock({ url }: Site, lines: readonly string[], isEnough = (_: string) => false): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.on('data', (part) => {
      text += part
      if (isEnough(text)) socket.destroy()
    })
    socket.on('close', () => resolve(text))
    socket.on('error', () => {})
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  })
}

t.test('a request with two Host headers is none, whatever it asks for', async (t) => {
  const site = await openSite(t, { config: {} })
  for (const [path, hosts] of [
    ['/health', ['a', 'b']],
    ['/health', ['a', 'a']],
    ['/api/threads', ['127.0.0.1', 'elsewhere.example']]
  ] as const) {
    const lines = [`GET ${path} HTTP/1.1`, ...hosts.map((host) => `Host: ${host}`), 'Connection: close']
    t.match(await knock(site, lines), /^HTTP\/1\.1 400 /)
  }
  t.match(await knock(site, ['GET /health HTTP/1.1', 'Host: a', 'Connection: close']), /^HTTP\/1\.1 200 /)
})

t.test('a body is asked for when its sender may send it, and not before [RFC 9110 10.1.1]', async (t) => {
  const site = await openSite(t, { config: {} })
  const person = await signIn(site)
  const thread = await person.thread()
  const { cookie = '', 'x-csrf-token': csrf = '' } = person.headers()
  const lines = (method: string, path: string, ...more: string[]) => [
    `${method} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    'Expect: 100-continue',
    'Content-Type: multipart/form-data; boundary=b',
    ...more
  ]
  const mine = [`Cookie: ${cookie}`, `X-CSRF-Token: ${csrf}`]
  const foreign = '/api/threads/00000000-0000-4000-8000-000000000000'
  for (const [asked, status] of [
    [lines('POST', '/api/threads', 'Content-Length: 2'), 403],
    [lines('POST', '/api/threads', 'Content-Length: 2', 'Authorization: Bearer clq_none'), 401],
    [lines('POST', '/nowhere', 'Content-Length: 2', ...mine), 404],
    [lines('POST', '/api/threads', 'Content-Length: 90000000', ...mine), 413],
    [lines('PATCH', foreign, 'Content-Length: 2', ...mine), 404]
  ] as const) {
    const text = await knock(site, asked)
    t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), asked[0]!)
    t.match(text, /\r\nConnection: close\r\n/i, 'what comes next on it could be the body')
  }
  for (const path of ['/api/threads', `/api/threads/${thread}/uploads`]) {
    const text = await knock(site, lines('POST', path, 'Content-Length: 2', ...mine), (text) => text.length > 0)
    t.match(text, /^HTTP\/1\.1 100 Continue/, path)
  }
})
