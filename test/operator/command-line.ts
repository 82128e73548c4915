// The command line: help and version of every command, what is refused before it does anything, and what a failed start says.
import { existsSync, mkdirSync, openSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { type Command, helpOf } from '../../bin/command.ts'
import { type Said, startChild } from '../fixtures/child.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { freePort } from '../fixtures/free-port.ts'
import { configFile, homeOf, until } from '../fixtures/gateway.ts'
import { within } from '../fixtures/until.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/colloquy.js', import.meta.url))
const BIN = new URL('../../bin/', import.meta.url)
/** Programs: to import them is to run them. */
const PROGRAMS = ['colloquy.js', 'build.js', 'build-page.js']
/** All commands that bin/ has. */
const COMMANDS = await commandsIn(readdirSync(BIN).filter((file) => file.endsWith('.js') && !PROGRAMS.includes(file)))
const NAMES = COMMANDS.map(({ name }) => name)
/** A start that hangs is ended: the assertion then shows a signal where an exit code was due. */
const HANGS_MS = 60_000

async function commandsIn(files: readonly string[]): Promise<Command[]> {
  const modules = await Promise.all(files.map((file) => import(new URL(file, BIN).href) as Promise<object>))
  const isCommand = (value: unknown): value is Command => typeof value === 'object' && value !== null && 'run' in value
  return modules.flatMap((module) => Object.values(module).filter(isCommand))
}

async function run(cwd: string, ...args: readonly string[]): Promise<Said> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    cwd,
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: HANGS_MS
  })
  let [out, errors] = ['', '']
  child.stdout.on('data', (bytes) => {
    out += String(bytes)
  })
  child.stderr.on('data', (bytes) => {
    errors += String(bytes)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, errors }
}

t.test('every command tells its help on stdout and ends with 0, and the version is that of the package', async (t) => {
  const home = homeOf(t)
  t.ok(NAMES.includes('serve') && NAMES.includes('demo'), NAMES.join())
  const asked = [...NAMES.map((name) => `${name} --help`), 'serve -h', 'help serve', 'help token create']
  const answers = await Promise.all(asked.map((words) => run(home, ...words.split(' '))))
  for (const [i, { code, out, errors }] of answers.entries()) {
    t.equal(code, 0, asked[i] ?? '')
    t.match(out, `colloquy ${asked[i]!.replace(/ -.*|^help /, '')} `)
    t.equal(errors, '')
  }
  for (const asked of ['--help', '-h', 'help']) {
    const { code, out } = await run(home, asked)
    t.equal(code, 0, asked)
    for (const name of NAMES) t.match(out, name)
  }
  t.match(await run(home, '--version'), { code: 0, out: /^\d+\.\d+\.\d+ \((\w+(-dirty)?)\)\n$/ })
  t.strictSame(readdirSync(home), [], 'nothing was made')
})

t.test('every command has --json and an example, and a noun the help of its commands', async (t) => {
  const home = homeOf(t)
  // The bench has a file for that, and is of a checkout.
  for (const command of COMMANDS.filter(({ name }) => name !== 'bench')) {
    t.match(helpOf(command), /^ +--json /m, command.name)
    t.match(helpOf(command), new RegExp(`(Example|As in): colloquy ${command.name}`), command.name)
  }
  const { code, out } = await run(home, 'token', '--help')
  t.equal(code, 0)
  t.match(out, 'token revoke')
  t.notMatch(out, 'user create')
  t.match(await run(home, 'user', 'frob'), {
    code: 2,
    errors: /^colloquy: There is no command user frob\n(?!.*token list)/
  })
})

t.test('the demo says at once where it is and who may sign in, and then how far its conversations are', async (t) => {
  const child = spawn(process.execPath, [PROGRAM, 'demo'], {
    cwd: homeOf(t),
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: HANGS_MS
  })
  let out = ''
  child.stdout.on('data', (bytes) => {
    out += String(bytes)
  })
  const closed = once(child, 'close')
  await within(t, 2000, 'the address is said', () => until(() => out.includes('Ctrl+C'), 'the address'))
  const [, url] = /listening on (\S+)\nSign in as demo@example.com with \S+\n/.exec(out) ?? []
  t.notMatch(out, /5 of 5/, 'the conversations are not waited for')
  t.equal((await fetch(`${url}/health`)).status, 200)
  await until(() => out.includes('5 of 5 are there.'), 'all conversations')
  t.match(out, /Sample conversations: 1 of 5 are written…\n/)
  child.kill('SIGTERM')
  t.same(await closed, [0, null])
})

t.test('a reader of the output that goes away ends a command without a word, and no server', async (t) => {
  const home = homeOf(t)
  const unread = (...args: string[]) => {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      cwd: home,
      env: { PATH: process.env.PATH },
      timeout: HANGS_MS
    })
    child.stdout.destroy()
    return child
  }
  for (const words of [['--help'], ['user', '--help'], ['config', 'show'], ['serve', '--check']]) {
    const child = unread(...words)
    let said = ''
    child.stderr.on('data', (bytes) => {
      said += String(bytes)
    })
    const [code] = await once(child, 'close')
    t.strictSame([code, said.includes('EPIPE')], [words[0] === 'serve' ? 0 : 1, false], words.join(' '))
  }
  const full = spawnSync(process.execPath, [PROGRAM, 'config', 'show'], {
    cwd: home,
    env: { PATH: process.env.PATH },
    stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    encoding: 'utf8'
  })
  t.match(full, { status: 1, stderr: /^colloquy: ENOSPC: [^\n]+\n$/ }, 'and a full disk by a sentence')
  const port = await freePort()
  const server = unread('serve', '--port', String(port))
  const closed = once(server, 'close')
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false
    )
  await until(isUp, 'it serves')
  server.stderr.destroy()
  t.ok(await isUp())
  server.kill('SIGTERM')
  t.same(await closed, [0, null])
})

/** Of the right form, and of no use. */
const TOKENS = [
  ['--scope', 'runs'],
  ['--expires-in-days', 'a week']
].map((words) => ['token', 'create', '--email', 'a@example.com', ...words])

t.test('bad usage is one sentence and the help, and ends with 2', async (t) => {
  const home = homeOf(t)
  const misspelt = NAMES.map((name) => [...name.split(' '), '--prot', '1'])
  const all = [[], ['sirve'], ['token', 'revoke'], ['token', 'list'], ...TOKENS, ...misspelt]
  for (const [i, { code, errors }] of (await Promise.all(all.map((words) => run(home, ...words)))).entries()) {
    const words = all[i]!.join(' ')
    t.equal(code, 2, words)
    t.match(errors, /^colloquy: [^\n]+\ncolloquy /, words)
    if (words.includes('--prot')) t.match(errors, /^colloquy: Unknown option '--prot'\n/, words)
  }
  t.strictSame(readdirSync(home), [], 'nothing was made')
})

t.test('a start that fails ends with 1 and one sentence that names the file, the key or the address', async (t) => {
  const home = homeOf(t)
  const write = (name: string, text: string) => {
    writeFileSync(join(home, name), text)
    return join(home, name)
  }
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  t.teardown(() => other.close())
  const { port } = other.address() as { port: number }
  mkdirSync(join(home, 'broken', 'data'), { recursive: true })
  write('broken/data/colloquy.db', 'this has never been a database, whatever its name says')
  write('bad.mjs', 'this is no JavaScript')
  write('empty.mjs', 'export const nothing = 1')
  const cases: readonly [string, readonly string[], RegExp][] = [
    ['a file that is no database', ['--home', join(home, 'broken')], /broken\/data\/colloquy\.db/],
    ['a home that cannot be written', ['--home', '/proc'], /\/proc/],
    [
      'a port that is taken',
      ['--home', join(home, 'a'), '--port', String(port)],
      new RegExp(`127\\.0\\.0\\.1:${port} \\(server\\.host, server\\.port\\).*another process`)
    ],
    [
      'a port of the metrics that is taken',
      ['--home', join(home, 'f'), '--config', write('f.yaml', `metrics: { port: ${port} }`)],
      new RegExp(`127\\.0\\.0\\.1:${port} \\(metrics\\.host, metrics\\.port\\).*another process`)
    ],
    [
      "a host that is not this machine's",
      ['--home', join(home, 'g'), '--host', '203.0.113.7'],
      /203\.0\.113\.7:0 \(server\.host, server\.port\)/
    ],
    ['a configuration that is not there', ['--config', join(home, 'none.yaml')], /none\.yaml/],
    [
      'an agent that is no JavaScript',
      ['--home', join(home, 'b'), '--config', write('b.yaml', 'agent: { runtime: module, path: ./bad.mjs }')],
      /bad\.mjs/
    ],
    [
      'an agent file without an agent',
      ['--home', join(home, 'c'), '--config', write('c.yaml', 'agent: { runtime: module, path: ./empty.mjs }')],
      /empty\.mjs/
    ],
    [
      'a store that is not there',
      ['--home', join(home, 'd'), '--config', write('d.yaml', 'database: { backend: { module: ./no-store.mjs } }')],
      /no-store\.mjs/
    ],
    [
      'an origin with a path',
      ['--home', join(home, 'e'), '--config', write('e.yaml', 'server: { cors_origins: ["https://a.example/app"] }')],
      /server\.cors_origins/
    ]
  ]
  for (const [what, args, named] of cases) {
    const { code, out, errors } = await run(home, 'serve', '--port', '0', ...args)
    t.equal(code, 1, what)
    t.equal(out, '', what)
    const sentences = errors.split('\n').filter((line) => line.startsWith('colloquy: '))
    t.equal(sentences.length, 1, `${what}: ${errors}`)
    t.match(sentences[0], named, what)
  }
})

t.test(
  'a wrong folder does not become a new home: not of a server whose configuration was named, nor of a command',
  async (t) => {
    const [home, elsewhere] = [homeOf(t), homeOf(t)]
    const file = join(home, 'colloquy.yaml')
    writeFileSync(file, 'server: { port: 0 }\n')
    t.match(await run(elsewhere, 'serve', '--config', file), { code: 1, errors: /home is \.colloquy/ })
    t.match(await run(elsewhere, 'token', 'list', '--email', 'a@example.com'), { code: 1, errors: /no database/ })
    t.match(await run(elsewhere, 'reset-admin'), { code: 1, errors: /no database/ })
    t.notOk(existsSync(join(elsewhere, '.colloquy')))
  }
)

t.test("the home and all in it are their owner's alone, whatever the umask", async (t) => {
  const umask = process.umask(0)
  t.teardown(() => process.umask(umask))
  const home = join(homeOf(t), 'new')
  mkdirSync(home, { mode: 0o777 })
  const child = await startChild(t, { home })
  await child.stop()
  const names = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => name !== 'colloquy.yaml')
  t.ok(names.length > 2)
  const open = ['.', ...names].filter((name) => (statSync(join(home, name)).mode & 0o077) !== 0)
  // The configuration was there, so the folder was not empty: it is what the server made that counts.
  t.strictSame(
    open.filter((name) => name !== '.'),
    []
  )
})

t.test('a link names where the server is asked, also where it listens on an address of version 6', async (t) => {
  const home = homeOf(t)
  mkdirSync(join(home, 'data'))
  await (await openSqliteStore(join(home, 'data/colloquy.db'))).close()
  for (const [host, shown] of [
    ['::1', 'http://[::1]:8001/#/password/'],
    ['127.0.0.1', 'http://127.0.0.1:8001/#/password/']
  ] as const) {
    const file = configFile(home, { server: { host } })
    const { code, out, errors } = await run(
      home,
      'user',
      'create',
      `${host.length}@example.com`,
      '--home',
      home,
      '--config',
      file
    )
    t.equal(code, 0, errors)
    t.ok(out.startsWith(shown), out)
  }
})

t.test('a home where none can be made is refused at once', async (t) => {
  for (const home of ['/proc/x', '/proc/x/y', '/dev/null/x']) {
    const { code, errors } = await run(homeOf(t), 'serve', '--port', '0', '--home', home)
    t.equal(code, 1, home)
    t.match(errors, `The home ${home} cannot be used`)
  }
})
