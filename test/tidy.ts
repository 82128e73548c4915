// The house in order: who imports whom, read from the import lines. Facts only.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'

/** The sources lie beside the build this file was compiled into. */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/**
 * What a room may import beside itself. A single file at the top of lib/ is a room of its own, and langgraph/ is a house of five. The
 * ground floor, `base`, is everybody's and imports nothing.
 */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  base: [],
  bin: ['client', 'gateway', 'operator', 'config', 'index'],
  gateway: ['*'],
  compose: ['*'],
  operator: ['*'],
  index: ['*'],
  metrics: ['agent/observer', 'run', 'store/store'],
  config: [],
  jobs: ['store/store'],
  // What a message is. Browsers get chunk.ts with the client: it imports types alone.
  conversation: [],
  client: ['conversation/chunk'],
  console: ['client'],
  http: [],
  agent: ['conversation'],
  files: [],
  store: ['conversation', 'files/home'],
  thread: ['conversation', 'store/store', 'files', 'agent/states'],
  auth: ['store/store', 'store/scoped', 'files'],
  memory: ['store/store', 'store/scoped', 'files'],
  skills: ['store/store', 'files'],
  run: ['conversation', 'agent/check', 'agent/runtime', 'agent/states', 'thread', 'store/store'],
  'langgraph/graph': ['conversation', 'agent/chat', 'agent/model', 'agent/runtime'],
  'langgraph/project': [
    'conversation',
    'agent/agent-file',
    'agent/runtime',
    'agent/states',
    'langgraph/graph',
    // A project's app and auth rules stand in front of the routes.
    'http',
    'auth/asserted'
  ],
  'langgraph/server-agent': ['conversation', 'agent/http', 'agent/runtime', 'agent/states', 'langgraph/graph'],
  // The rooms of other protocols: each reads the log, and starts runs as routes does. The store's ports they know through services alone.
  protocols: [
    'conversation',
    'http',
    'routes',
    'run/log',
    'run/delivery',
    // Whether a run takes its thread with it, and with which messages it was asked.
    'run/run-kwargs',
    'thread',
    // What an agent takes of a client, by its name in the run's context.
    'agent/client-context',
    // What is told of a run later, and what its job keeps.
    'jobs/notices',
    'jobs/webhooks'
  ],
  'langgraph/protocol': [
    'conversation',
    'http/message-queue',
    'http/web-socket',
    'protocols/feed',
    'run/log',
    'run/delivery',
    // Which graph a run is of.
    'run/run-kwargs'
  ],
  // What routes may; routes never imports langgraph: composition joins the tables.
  'langgraph/api': [
    'langgraph/protocol',
    'protocols',
    'routes',
    'jobs',
    'conversation',
    'config',
    'http',
    'run',
    'thread',
    'auth',
    'memory',
    'store/store',
    'store/scoped',
    'agent/runtime',
    'agent/states'
  ],
  // As langgraph/api: one tenant's routes.
  deerflow: [
    'routes',
    'http',
    'thread',
    'files/changes',
    'files/paths',
    'files/yaml',
    'agent/states',
    'agent/summary',
    'langgraph/api/crons'
  ],
  routes: [
    'jobs',
    'conversation',
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
    'agent/states',
    'agent/mcp'
  ]
}

/** The same for the rooms inside run/. What lies at its top, every one may import; and that imports the log and the committer alone. */
const ROOMS_OF_RUN: Readonly<Record<string, readonly string[]>> = {
  '': ['log', 'commit'],
  log: [],
  delivery: ['log'],
  commit: [],
  cluster: ['log', 'lifecycle'],
  lifecycle: ['log', 'delivery', 'commit', 'cluster']
}

/** Timers that come again or are kept, and are no Poller's, and why. The page has its own: it is another program. */
const TIMERS: Readonly<Record<string, string>> = {
  'lib/base/poller.ts': 'it is the one',
  'lib/agent/http/post.ts': 'a response’s silence, put off by every byte',
  'lib/langgraph/project/graphs-agent.ts': 'it measures how late it comes itself',
  'lib/client/silence.ts': 'of browsers, which have no Poller: a connection’s silence',
  'lib/files/document/guard.ts': 'a process of its own, whose end ends it',
  'lib/http/server.ts': 'while the server closes: node:http does not say when a connection is idle',
  'lib/memory/queue.ts': 'a conversation’s pause, put off by every turn',
  'lib/metrics/metrics.ts': 'it measures how late it comes itself',
  'lib/run/cluster/cluster.ts': 'a lease is renewed on time, whatever the turn before waits for',
  'lib/run/cluster/remote-runs.ts': 'a question to other processes, repeated while its asker waits',
  'lib/run/commit/committer.ts': 'the window of a batch, and a look at one that is in flight for long',
  'lib/run/commit/compactor.ts': 'the quiet after the last run, put off by every end',
  'lib/run/commit/outage.ts': 'the wait for a store that is down, whose length doubles',
  'lib/run/delivery/streams.ts': 'a heartbeat that readers count on: on time',
  'lib/run/delivery/ticker.ts': 'the window of one delivery',
  'lib/run/lifecycle/actor.ts': 'the time one run may take, and the wait for its end to be stored: once each',
  'lib/run/lifecycle/disconnect-timer.ts': 'the grace of a run’s client, put off when it comes back',
  'lib/run/lifecycle/run-queues.ts': 'the time of one thread’s delayed run',
  'lib/store/postgres/peers.ts': 'a lost connection is opened again, after a wait whose length doubles',
  'lib/store/postgres/pool.ts': 'idle connections are closed; the pool is made before anything is started',
  'lib/store/sqlite/wal-worker.ts': 'the log is emptied when its last reader has gone',
  'lib/store/sqlite/wal.ts': 'the quiet after a commit, once'
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

/** `lib/run/actor` -> `run`; `lib/base/types` -> `types`; `bin/colloquy` -> `bin`. */
function roomOf(path: string): string {
  const [top, room, inner] = path.split('/')
  if (top !== 'lib') return top!
  return room === 'langgraph' ? `langgraph/${inner}` : room!
}

function isAllowed({ from, to }: Import): boolean {
  const room = roomOf(from)
  if (room === roomOf(to)) return !crossesDialects(from, to)
  const path = relative('lib', to)
  if (DIALECTS.some((dialect) => path.startsWith(dialect))) return false
  if (roomOf(to) === 'base') return true
  return (ALLOWED[room] ?? []).some((allowed) => allowed === '*' || path === allowed || path.startsWith(`${allowed}/`))
}

function crossesDialects(from: string, to: string): boolean {
  const dialectOf = (path: string) => DIALECTS.find((dialect) => path.startsWith(`lib/${dialect}/`))
  const target = dialectOf(to)
  // A database in memory is one of SQLite's.
  if (target === 'store/sqlite' && dialectOf(from) === 'store/memory') return false
  return target !== undefined && target !== dialectOf(from) && from !== 'lib/store/open'
}

const files = [...sources('lib'), ...sources('bin')]
const imports = files.flatMap(importsOf)

t.test('imports point one way: bin -> gateway -> routes -> run -> store, and never back', async (t) => {
  const wrong = imports.filter((one) => !isAllowed(one)).map(({ from, to }) => `${from} imports ${to}`)
  t.same(wrong, [])
})

t.test(
  'inside run/ too: delivery and lifecycle read the log, which knows nobody; commit knows the store alone',
  async (t) => {
    const roomInRun = (path: string) =>
      /^lib\/run\/(?:([^/]+)\/)?/.exec(path)?.slice(1)[0] ?? (path.startsWith('lib/run/') ? '' : undefined)
    const wrong = imports.filter(({ from, to }) => {
      const [room, other] = [roomInRun(from), roomInRun(to)]
      return room !== undefined && other && room !== other && !ROOMS_OF_RUN[room]?.includes(other)
    })
    t.same(
      wrong.map(({ from, to }) => `${from} imports ${to}`),
      []
    )
  }
)

/** Files that import each other around a circle, as far as one leads to all others and back: Tarjan's components. */
function circlesAmong(all: readonly Import[]): string[] {
  const next = new Map<string, string[]>()
  for (const { from, to } of all) next.set(from, [...(next.get(from) ?? []), to])
  const number = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const found: string[] = []
  const visit = (file: string): void => {
    number.set(file, number.size)
    lowest.set(file, number.get(file)!)
    open.push(file)
    for (const other of next.get(file) ?? []) {
      if (!number.has(other)) visit(other)
      if (open.includes(other)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(other)!))
    }
    if (lowest.get(file) !== number.get(file)) return
    const circle = open.splice(open.indexOf(file))
    if (circle.length > 1) found.push(circle.sort().join(' '))
  }
  for (const file of next.keys()) if (!number.has(file)) visit(file)
  return found
}

t.test('imports make no circle, of types neither', async (t) => {
  const a = { from: 'a', to: 'b' }
  t.same(circlesAmong([a, { from: 'b', to: 'c' }, { from: 'c', to: 'a' }, { from: 'd', to: 'a' }]), ['a b c'])
  t.same(circlesAmong([a, { from: 'a', to: 'c' }, { from: 'b', to: 'c' }]), [])
  t.same(circlesAmong(imports), [])
})

/** Folders that import each other, and why they do. */
const KNOWN_FOLDER_CIRCLES: Readonly<Record<string, string>> = {
  'lib/run lib/run/log': 'types alone: how a run ended, and what rebuilds its state',
  'lib/run/cluster lib/run/lifecycle': 'runs of another process are read like ours, and taken over'
}

t.test(
  'folders make no circle either: a folder and the one around it import each other in one direction',
  async (t) => {
    // Composition and the public door at the top of lib/ import everybody, and so does what opens a store.
    const between = imports
      .filter(({ from }) => from.startsWith('lib/') && dirname(from) !== 'lib' && from !== 'lib/store/open')
      .map(({ from, to }) => ({ from: dirname(from), to: dirname(to) }))
      .filter(({ from, to }) => from !== to)
    t.same(circlesAmong(between), Object.keys(KNOWN_FOLDER_CIRCLES))
  }
)

/** Ideas that exist once: how a second one is recognised, the file that has it, and files that have another, and why. */
const ONCE: readonly {
  readonly idea: string
  readonly sign: RegExp
  readonly home: string
  readonly others: Readonly<Record<string, string>>
  /** What would be found, and what would not. */
  readonly like: readonly string[]
  readonly unlike: readonly string[]
}[] = [
  {
    idea: 'a delay that grows with each failure',
    sign: /[\w.)\]]\s\*\s[\w.]+\s\*\*\s|Math\.min\(2 \* |=\s*Math\.min\(\w+ \* 2/,
    home: 'lib/base/waiting.ts',
    others: {
      'lib/client/silence.ts': 'of browsers, which import nothing of ours'
    },
    like: ['Math.min(FIRST * 2 ** (failed - 1), MOST)', 'again(Math.min(2 * afterMs, MAX))'],
    unlike: ['2 ** 31 - 1', 'backoffMs(failed, AGAIN)']
  },
  {
    idea: 'a time limit of a promise',
    sign: /Promise\.race\(/,
    home: 'lib/base/waiting.ts',
    others: {
      'lib/console/live.ts': 'of browsers, which import nothing of ours',
      'lib/console/worker.ts': 'of browsers, which import nothing of ours',
      'lib/langgraph/project/graph-workers.ts': 'a run that fails while its worker is at it, without a limit'
    },
    like: ['await Promise.race([work, late])'],
    unlike: ['await withTimeout(work, 5)']
  },
  {
    idea: 'a request of the page without a limit of time, which keeps one of its six connections where the network is dead',
    sign: /\.send\(\s*(?:'[A-Z]+'|method\b)/,
    home: 'lib/client/colloquy.ts',
    others: {
      'lib/console/api.ts': 'sends what the client gives it',
      'lib/console/installation.ts': 'a backup takes as long as it is large',
      'lib/console/queue.ts': 'a message for an agent at work is answered when the agent has taken it',
      'lib/console/shared.ts': 'a picture takes as long as it is large',
      'lib/console/shown-messages.ts': 'a model may take long to write suggestions',
      'lib/console/unsent.ts': 'has limits of its own, given as a signal'
    },
    like: ["await colloquy.send('POST', path)", "colloquy\n      .send('GET', path)"],
    unlike: ["await colloquy.request('POST', path)", "socket.send('text')"]
  },
  {
    idea: 'networks and which addresses are in them',
    sign: /\bBlockList\b|\.addSubnet\(/,
    home: 'lib/base/networks.ts',
    others: {},
    like: ['new BlockList()', "list.addSubnet('::', 3, 'ipv6')"],
    unlike: ['new Networks()']
  },
  {
    idea: 'untrusted JSON, narrowed to what is expected',
    sign: /function (?:objectOr|textOr|textsIn|objectsIn|countOf|numberOr)\(\w+: (?:unknown|Json)/,
    home: 'lib/base/json.ts',
    others: { 'lib/conversation/chunk.ts': 'goes to browsers with the client, and imports types alone' },
    like: ['function textOr(value: Json | undefined): string | null {'],
    unlike: ['async function countOf(feed: RunFeed): Promise<number> {']
  },
  {
    idea: 'a map whose oldest entries are evicted',
    sign: /\.keys\(\)\.next\(\)|const \[oldest\] = [\w.#]+\.keys|for \(const \[?oldest|\.size >= \w+\) [\w.#]+\.clear\(\)|\.size > \w+\) [\w.#]+\.delete\(/,
    home: 'lru-cache',
    others: {
      'lib/metrics/metrics.ts':
        'no cache: the runs that are begun, and lru-cache would allocate room for all that may be'
    },
    like: [
      'if (known.size >= MAX) known.clear()',
      'kept.delete(kept.keys().next().value!)',
      'for (const oldest of this.#kept.keys()) {',
      'const [oldest] = this.#kept.keys()'
    ],
    unlike: ['if (this.#closing.size > 0) return', 'new LRUCache({ max: 5 })']
  },
  {
    idea: 'calls between threads',
    sign: /(?:worker|port|reader)!?\.(?:on|once)\('message'/i,
    home: 'lib/base/thread-channel.ts',
    others: {
      'lib/files/document/guard.ts': 'a process of its own: its one answer is the end of its thread',
      'lib/langgraph/project/graph-schemas.ts': 'a thread that has one question and ends with its answer',
      'lib/store/sqlite/worker.ts':
        'a batch has two answers, of which one comes before the commit, and lends its memory',
      'lib/store/sqlite/writer.ts': 'the other side of it'
    },
    like: ["worker.on('message', (answer: Answer) => this.#answered(answer))"],
    unlike: ['new ThreadChannel(port, { stop })']
  },
  {
    idea: 'a queue whose keys take turns',
    sign: /new Map<string, \(\(\) => void\)\[\]>/,
    home: 'lib/base/keyed-mutex.ts',
    others: {},
    like: ['readonly #waiting = new Map<string, (() => void)[]>()'],
    unlike: ['new FairQueue<() => void>()']
  }
]

for (const { idea, sign, home, others, like, unlike } of ONCE)
  t.test(`once: ${idea}`, async (t) => {
    for (const text of like) t.match(text, sign)
    for (const text of unlike) t.notMatch(text, sign)
    const code = (file: string) =>
      readFileSync(join(ROOT, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*/gm, '')
    const having = sources('lib').filter((file) => file !== home && sign.test(code(file)))
    t.same(having.sort(), Object.keys(others).sort())
  })

/** Names by which messages are folded of their chunks, and where a log or a store is read. */
const FOLDS = /\b(fold|begun|readChunk|finishCall|callTextsOf)\b[^;]*?from '[^']*conversation\//
const READS = /from '[^']*(store\/|run\/log\/(run-log|segment|slabs|stored-frames)|run\/lifecycle\/)/

t.test('one fold under all protocols: a room of one folds no messages, and reads no log and no store', async (t) => {
  t.match("import { emptyText, fold } from '../../conversation/chunk.ts'", FOLDS)
  t.match("import type { RawFrame } from '../../run/log/segment.ts'", READS)
  const shared = sources('lib/protocols').filter((file) => dirname(file) === 'lib/protocols')
  const rooms = sources('lib/protocols').filter((file) => !shared.includes(file))
  const importLines = (file: string) =>
    readFileSync(join(ROOT, file), 'utf8').match(/^import [\s\S]*? from .*$/gm) ?? []
  const having = (files: string[], sign: RegExp) =>
    files.filter((file) => importLines(file).some((line) => sign.test(line)))
  t.same(having(rooms, FOLDS), [])
  t.same(having(rooms, READS), [])
  t.same(having(shared, FOLDS), ['lib/protocols/parts.ts'])
})

t.test('there is no file in lib/ that nobody imports', async (t) => {
  const imported = new Set(imports.map(({ to }) => to))
  // The public door, and what is started by its path.
  const doors = [
    'lib/index',
    'lib/client/ai-sdk',
    'lib/client/colloquy',
    'lib/console/main',
    'lib/console/worker',
    'lib/console/docs',
    'lib/store/sqlite/worker',
    'lib/store/sqlite/reader-worker',
    'lib/store/sqlite/wal-worker',
    'lib/files/document/guard',
    'lib/files/document/reader'
  ]
  const dead = sources('lib')
    .map((file) => file.replace(/\.ts$/, ''))
    .filter((file) => !imported.has(file) && !doors.includes(file))
  t.same(dead, [])
})

/** What a file exports, by its declarations. */
function exportedIn(file: string): string[] {
  return sourceOf(file).statements.flatMap((one) => {
    const isOut = ts.canHaveModifiers(one) && one.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    if (!isOut) return []
    if (ts.isVariableStatement(one)) return one.declarationList.declarations.map(({ name }) => name.getText())
    const { name } = one as ts.DeclarationStatement
    return name ? [name.getText()] : []
  })
}

/** What a file takes from others of ours: file and name, `*` for all of them. */
function takenBy(file: string): (readonly [from: string, name: string])[] {
  const taken: (readonly [string, string])[] = []
  const source = sourceOf(file)
  // Only then is there one below the first level.
  const isDeep = source.text.includes("import('")
  const visit = (node: ts.Node): void => {
    const [path, names] = takenAt(node)
    if (path?.startsWith('.')) taken.push(...names.map((name) => [normalize(join(dirname(file), path)), name] as const))
    if (isDeep) ts.forEachChild(node, visit)
  }
  ts.forEachChild(source, visit)
  return taken
}

function takenAt(node: ts.Node): [path: string | undefined, names: readonly string[]] {
  const textOf = (one: ts.Node | undefined) => (one && ts.isStringLiteralLike(one) ? one.text : undefined)
  const named = ({ elements }: ts.NamedImports | ts.NamedExports) =>
    [...elements].map(({ propertyName, name }) => (propertyName ?? name).text)
  if (ts.isImportDeclaration(node)) {
    const those = node.importClause?.namedBindings
    return [textOf(node.moduleSpecifier), those && ts.isNamedImports(those) ? named(those) : those ? ['*'] : []]
  }
  if (ts.isExportDeclaration(node)) {
    const those = node.exportClause
    return [textOf(node.moduleSpecifier), those && ts.isNamedExports(those) ? named(those) : ['*']]
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
    return [textOf(node.argument.literal), [node.qualifier?.getText() ?? '*']]
  const isImport = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
  return isImport ? [textOf(node.arguments[0]), ['*']] : [undefined, []]
}

function sourceOf(file: string): ts.SourceFile {
  return ts.createSourceFile(file, readFileSync(join(ROOT, file), 'utf8'), ts.ScriptTarget.Latest, true)
}

t.test('what a file of lib/ exports, another one takes', async (t) => {
  const taken = new Map<string, Set<string>>()
  for (const [from, name] of [...files, ...sources('test'), ...sources('bench')].flatMap(takenBy))
    taken.set(from, (taken.get(from) ?? new Set()).add(name))
  const unused = sources('lib')
    // The public doors.
    .filter((file) => !/^lib\/(client\/|index\.ts$)/.test(file) && !taken.get(file)?.has('*'))
    .flatMap((file) => exportedIn(file).flatMap((name) => (taken.get(file)?.has(name) ? [] : [`${file}: ${name}`])))
  t.same(unused, [])
})

/** Whether a timer of this source may come again: an interval, or a timeout that is kept in a member or leads to a further one. */
function comesAgain(text: string): boolean {
  const program = ts.createSourceFile('it.ts', text, ts.ScriptTarget.Latest, true)
  const calls = new Map<string, string[]>()
  /** Functions that set a timeout, and what it calls. */
  const timeouts: { readonly within: string; readonly called: readonly string[] }[] = []
  let isSo = false
  const visit = (node: ts.Node, within: readonly string[], isKept: boolean): void => {
    const name = nameOf(node)
    if (name !== null) calls.set(name, namesIn(node))
    const around = name === null ? within : [...within, name]
    // That of a socket is its own.
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      const called = node.expression.text
      if (called === 'setInterval' || (called === 'setTimeout' && isKept)) isSo = true
      if (called === 'setTimeout')
        timeouts.push(...around.map((one) => ({ within: one, called: namesIn(node.arguments[0]) })))
    }
    const keeps =
      ts.isBinaryExpression(node) && /^(this\.#?|[\w!]+\.)\w+$/.test(node.left.getText()) && isAssignment(node)
    ts.forEachChild(node, (child) => visit(child, around, keeps ? child === node.right : isKept && !isFunction(child)))
  }
  visit(program, [], false)
  return isSo || timeouts.some(({ within, called }) => leadTo(called, calls).has(within))
}

/** These functions, and all that they call. */
function leadTo(names: readonly string[], calls: ReadonlyMap<string, readonly string[]>): Set<string> {
  const found = new Set<string>()
  for (const waiting = [...names]; waiting.length > 0; ) {
    const name = waiting.pop()!
    if (!found.has(name)) waiting.push(...(calls.get(name) ?? []))
    found.add(name)
  }
  return found
}

function isAssignment({ operatorToken: { kind } }: ts.BinaryExpression): boolean {
  return kind === ts.SyntaxKind.EqualsToken || kind === ts.SyntaxKind.QuestionQuestionEqualsToken
}

function isFunction(node: ts.Node): boolean {
  return ts.isFunctionLike(node)
}

function nameOf(node: ts.Node): string | null {
  if (ts.isVariableDeclaration(node) && node.initializer && isFunction(node.initializer)) return node.name.getText()
  return ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) ? (node.name?.getText() ?? null) : null
}

function calledName({ expression }: ts.CallExpression): string {
  return ts.isPropertyAccessExpression(expression) ? expression.name.getText() : expression.getText()
}

/** Functions that are called below a node, or that it is. */
function namesIn(node: ts.Node | undefined): string[] {
  if (!node) return []
  const found = ts.isIdentifier(node) ? [node.getText()] : []
  const visit = (one: ts.Node): void => {
    if (ts.isCallExpression(one)) found.push(calledName(one))
    ts.forEachChild(one, visit)
  }
  visit(node)
  return found
}

t.test('what is done again and again is done by a Poller: no other timer comes again', async (t) => {
  for (const source of [
    'setInterval(work, 5)',
    'class A { #a() { this.#timer = setTimeout(() => this.b(), 5) } }',
    'class A { #a() { this.#timer ??= setTimeout(b, 5).unref() } }',
    'class A { #a() { setTimeout(() => this.#a(), 5) } }',
    'const a = () => { setTimeout(a, 5) }',
    'class A { #a() { const again = () => void b().then(c, () => this.#a()); setTimeout(again, 5).unref() } }',
    'function a() { queue.timer = setTimeout(b, 5) }'
  ])
    t.ok(comesAgain(source), source)
  for (const source of [
    'const timer = setTimeout(b, 5)',
    'await new Promise((resolve) => setTimeout(resolve, 5))',
    'socket.setTimeout(5)',
    'class A { #a() { this.answer = new Promise((resolve) => { setTimeout(resolve, 5) }) } }'
  ])
    t.notOk(comesAgain(source), source)
  const again = files.filter(
    (file) => !/^lib\/(console|jobs)\//.test(file) && comesAgain(readFileSync(join(ROOT, file), 'utf8'))
  )
  t.same(again.toSorted(), Object.keys(TIMERS).toSorted())
})

/** Files that derive signals, whose parents end with what they are for; those that live on are withDeadline's. */
const DERIVING = ['agent/lead.ts', 'langgraph/server-agent/requests.ts', 'langgraph/server-agent/server-thread.ts']

t.test('a signal is derived of a run or of a call, and never of the process', async (t) => {
  const deriving = files.filter((file) => readFileSync(join(ROOT, file), 'utf8').includes('AbortSignal.any('))
  t.same(
    deriving.toSorted(),
    DERIVING.map((file) => `lib/${file}`)
  )
})

t.test('every file says in its first line what it is', async (t) => {
  const silent = files.filter((file) => !/^(#!.*\n)?\/\/ \S/.test(readFileSync(join(ROOT, file), 'utf8')))
  t.same(silent, [])
})

/** A file of more lines has a second noun, or says something that is said elsewhere. */
const LINES_MAX = 399

t.test('no file of lib/ has 400 lines', async (t) => {
  const long = sources('lib').flatMap((file) => {
    const lines = readFileSync(join(ROOT, file), 'utf8').split('\n').length - 1
    return lines > LINES_MAX ? [`${file}: ${lines}`] : []
  })
  t.same(long, [])
})

t.test('every file that lib/README.md names is there', async (t) => {
  const text = readFileSync(join(ROOT, 'lib/README.md'), 'utf8')
  const names = [...text.matchAll(/`([\w./-]+\.ts)`/g)].map(([, name]) => name!)
  t.ok(names.length > 20)
  const all = [...files, ...sources('test'), ...sources('bench')]
  const missing = names.filter((name) => !all.some((file) => `/${file}`.endsWith(`/${name}`)))
  t.same(missing, [])
})
