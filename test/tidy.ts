// The house in order: who imports whom, read from the import lines. Facts only.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/** The sources lie beside the build this file was compiled into. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** What a room may import beside itself. A single file at the top of lib/ is a room of its own. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  version: [],
  bin: ['version', 'gateway', 'operator', 'config', 'index', 'types'],
  gateway: ['*'],
  'compose-agent': ['*'],
  metrics: ['version', 'agent/observer', 'run', 'store/store'],
  operator: ['*'],
  index: ['*'],
  types: [],
  errors: [],
  scope: [],
  config: ['types'],
  reserved: ['types'],
  'well-formed': ['types'],
  wire: [],
  'growing-text': [],
  'sqlite-driver': [],
  client: [],
  console: ['client'],
  http: ['types', 'errors', 'scope', 'wire', 'well-formed'],
  agent: ['types', 'scope', 'growing-text', 'reserved', 'well-formed'],
  files: ['types', 'sqlite-driver'],
  store: ['types', 'scope', 'sqlite-driver'],
  thread: ['types', 'errors', 'scope', 'reserved', 'well-formed', 'store/store', 'files'],
  auth: ['types', 'errors', 'scope', 'store/store', 'store/scoped', 'files'],
  memory: ['types', 'scope', 'store/store', 'files'],
  skills: ['types', 'scope', 'store/store', 'files'],
  run: [
    'types',
    'errors',
    'scope',
    'reserved',
    'well-formed',
    'wire',
    'growing-text',
    'agent/check',
    'agent/runtime',
    'thread',
    'store/store'
  ],
  routes: [
    'types',
    'errors',
    'scope',
    'reserved',
    'wire',
    'config',
    'http',
    'run',
    'thread',
    'auth',
    'files',
    'memory',
    'skills',
    'store/store',
    'store/scoped',
    'agent/runtime',
    'agent/mcp'
  ]
}

/** Dialects of the store: only store/open.ts and the dialect itself may name one. */
const DIALECTS = ['store/memory', 'store/sqlite', 'store/postgres', 'store/jsonl']

interface Import {
  /** Both relative to the root, without ending: `lib/run/actor`. */
  readonly from: string
  readonly to: string
}

function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  const from = file.replace(/\.ts$/, '')
  return [...text.matchAll(/(?:from |import |import\()'(\.[^']+)\.ts'/g)].map((found) => ({
    from,
    to: normalize(join(dirname(file), found[1]!))
  }))
}

/** `lib/run/actor` -> `run`; `lib/types` -> `types`; `bin/colloquy` -> `bin`. */
function roomOf(path: string): string {
  const [top, ...rest] = path.split('/')
  return top === 'lib' ? rest[0]! : top!
}

function isAllowed({ from, to }: Import): boolean {
  const room = roomOf(from)
  if (room === roomOf(to)) return !crossesDialects(from, to)
  const path = relative('lib', to)
  if (DIALECTS.some((dialect) => path.startsWith(dialect))) return false
  return (ALLOWED[room] ?? []).some((allowed) => allowed === '*' || path === allowed || path.startsWith(`${allowed}/`))
}

function crossesDialects(from: string, to: string): boolean {
  const dialectOf = (path: string) => DIALECTS.find((dialect) => path.startsWith(`lib/${dialect}/`))
  const target = dialectOf(to)
  return target !== undefined && target !== dialectOf(from) && from !== 'lib/store/open'
}

const files = [...sources('lib'), ...sources('bin')]
const imports = files.flatMap(importsOf)

t.test('imports point one way: bin -> gateway -> routes -> run -> store, and never back', async (t) => {
  const wrong = imports.filter((one) => !isAllowed(one)).map(({ from, to }) => `${from} imports ${to}`)
  t.same(wrong, [])
})

t.test('there is no file in lib/ that nobody imports', async (t) => {
  const imported = new Set(imports.map(({ to }) => to))
  // The public door, and what is started by its path.
  const doors = [
    'lib/index',
    'lib/client/colloquy',
    'lib/console/main',
    'lib/store/sqlite/worker',
    'lib/store/sqlite/wal-worker',
    'lib/files/document/guard',
    'lib/files/document/reader'
  ]
  const dead = sources('lib')
    .map((file) => file.replace(/\.ts$/, ''))
    .filter((file) => !imported.has(file) && !doors.includes(file))
  t.same(dead, [])
})

t.test('every file says in its first line what it is', async (t) => {
  const silent = files.filter((file) => !/^(#!.*\n)?\/\/ \S/.test(readFileSync(join(ROOT, file), 'utf8')))
  t.same(silent, [])
})
