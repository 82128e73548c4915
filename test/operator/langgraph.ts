// `colloquy serve --langgraph`: a stranger's langgraph.json, as LangGraph's own command line reads it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { at, homeOf, listIn, signIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'

/** This file is compiled to <build>/test/operator. */
const PROGRAM = fileURLToPath(new URL('../../bin/colloquy.js', import.meta.url))

interface Served {
  readonly url: string
  /** Log lines so far. */
  log(): string
  /** Of a process that has ended. */
  readonly code: number | null
}

async function serve(t: Test, folder: string, ...args: string[]): Promise<Served> {
  const home = homeOf(t)
  const words = ['serve', '--langgraph', '.', '--home', home, '--port', '0', ...args]
  const child = spawn(process.execPath, [PROGRAM, ...words], { cwd: folder, env: { PATH: process.env.PATH } })
  t.teardown(() => child.kill('SIGKILL'))
  let [out, log] = ['', '']
  child.stdout.on('data', (bytes) => {
    out += String(bytes)
  })
  child.stderr.on('data', (bytes) => {
    log += String(bytes)
  })
  const ended = once(child, 'close')
  // One that has ended says nothing more: nobody goes on waiting for its line.
  await until(() => out.includes('\n') || child.exitCode !== null, 'the start line', 60_000)
  if (child.exitCode !== null) await ended
  return { url: /listening on (\S+)/.exec(out)?.[1] ?? '', log: () => log, code: child.exitCode }
}

function change(folder: string, set: (config: Record<string, unknown>) => void): void {
  const file = join(folder, 'langgraph.json')
  const config = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
  set(config)
  writeFileSync(file, JSON.stringify(config))
}

async function stepsOf(url: string, graph: string): Promise<readonly unknown[]> {
  const person = await signIn({ url })
  const { body } = await person.post('/api/runs/wait', { assistant_id: graph, input: { steps: [] } })
  return listIn(body, 'steps')
}

t.test(
  'all graphs of a langgraph.json are served, each under its name, with the environment that it names',
  async (t) => {
    const folder = graphsFolder(t)
    writeFileSync(join(folder, '.env'), 'WORD="from the file"\n')
    writeFileSync(
      join(folder, 'env.mjs'),
      `import { factory } from './agent.mjs'
     export default () => factory({ configurable: { word: process.env.WORD } })`
    )
    change(folder, (config) => {
      config.env = '.env'
      config.node_version = '20'
      config.graphs = { ...(config.graphs as object), env: { path: './env.mjs', description: 'Says a word.' } }
    })
    const { url } = await serve(t, folder)
    t.strictSame(await stepsOf(url, 'env'), ['word from the file'])
    t.strictSame(await stepsOf(url, 'going'), ['here', 'there'])
    const person = await signIn({ url })
    const found = listIn((await person.post('/api/assistants/search', { limit: 100 })).body)
    t.ok(found.some((one) => at(one, 'graph_id') === 'agent' && at(one, 'metadata', 'created_by') === 'system'))
    const unknown = await person.post('/api/runs/wait', { assistant_id: 'nobody', input: {} })
    t.equal(unknown.status, 404)
  }
)

t.test('variables of a file are others when it is read again, and never those that were there', async (t) => {
  const folder = graphsFolder(t, 'newest', { env: 'env.mjs:default' })
  const write = (text: string) => writeFileSync(join(folder, '.env'), text)
  write('WORD=first\nPATH=of nobody\nMORE=said\n')
  writeFileSync(
    join(folder, 'env.mjs'),
    `import { factory } from './agent.mjs'
     const { PATH, WORD, MORE } = process.env
     export default () => factory({ configurable: { word: [PATH === 'of nobody', WORD, MORE].join() } })`
  )
  change(folder, (config) => {
    config.env = '.env'
  })
  const { url } = await serve(t, folder, '--watch')
  t.strictSame(await stepsOf(url, 'env'), ['word false,first,said'])
  write('WORD=second\nPATH=of nobody\n')
  let steps: readonly unknown[] = []
  const isSecond = async () => {
    steps = await stepsOf(url, 'env')
    return /second/.test(String(steps))
  }
  await until(isSecond, 'the graphs to be loaded with it')
  t.strictSame(steps, ['word false,second,'])
})

t.test('a project in TypeScript is served without what its tsconfig.json extends, as in production', async (t) => {
  const folder = graphsFolder(t, 'newest', { mine: 'going' })
  writeFileSync(join(folder, 'tsconfig.json'), '{"extends":"@tsconfig/not-installed"}')
  writeFileSync(
    join(folder, 'mine.ts'),
    "import { factory } from './agent.mjs'\nconst word: string = 'typed'\nexport default () => factory({ configurable: { word } })"
  )
  change(folder, (config) => {
    config.graphs = { mine: './mine.ts' }
  })
  const { url, log } = await serve(t, folder)
  t.ok(url, log())
  t.strictSame(await stepsOf(url, 'mine'), ['word typed'])
})

t.test('a graph that cannot be served is one sentence with file and line, and exit 1', async (t) => {
  const cases: readonly (readonly [text: string, said: RegExp])[] = [
    ['export const graph = {}\nthrow new Error("no key")', /graph\.mjs:2 cannot be loaded: no key/],
    ['export const graph = (', /graph\.mjs:\d+ cannot be loaded: SyntaxError/],
    ['export const graph = 12', /What \S+graph\.mjs exports for graph agent is not a graph/],
    ['export const other = {}', /graph\.mjs exports no graph, which graph agent names/]
  ]
  for (const [text, said] of cases) {
    const folder = homeOf(t)
    writeFileSync(join(folder, 'graph.mjs'), text)
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs: { agent: './graph.mjs:graph' } }))
    const { code, log } = await serve(t, folder)
    t.equal(code, 1)
    t.match(
      log()
        .split('\n')
        .filter((line) => line.startsWith('colloquy: ')),
      [said]
    )
  }
})

t.test('a langgraph.json that says nothing usable is one sentence, and exit 1', async (t) => {
  const cases: readonly (readonly [text: string | null, said: RegExp])[] = [
    [null, /There is no \S+langgraph\.json/],
    ['[', /langgraph\.json is not a JSON object/],
    ['{}', /names no graphs/],
    ['{"graphs":{"a":7}}', /does not say where graph a is/],
    ['{"graphs":{"a":"./none.mjs:graph"}}', /There is no file \S+none\.mjs for graph a/],
    ['{"graphs":{"a":"./x.mjs:graph"},"node_version":"99"}', /asks for Node 99, but this is v\d+/]
  ]
  for (const [text, said] of cases) {
    const folder = homeOf(t)
    mkdirSync(folder, { recursive: true })
    if (text !== null) writeFileSync(join(folder, 'langgraph.json'), text)
    const { code, log } = await serve(t, folder)
    t.equal(code, 1)
    t.match(log(), said)
  }
})

t.test(
  '--watch: a graph that has changed is served anew; one that cannot be loaded leaves the last good one at work',
  async (t) => {
    const folder = graphsFolder(t)
    const write = (text: string) => writeFileSync(join(folder, 'mine.mjs'), text)
    const saying = (word: string) =>
      `import { factory } from './agent.mjs'\nexport const mine = () => factory({ configurable: { word: '${word}' } })`
    write(saying('one'))
    change(folder, (config) => {
      config.graphs = { mine: './mine.mjs:mine' }
    })
    const { url, log } = await serve(t, folder, '--watch')
    t.strictSame(await stepsOf(url, 'mine'), ['word one'])
    write(saying('two'))
    await until(async () => (await stepsOf(url, 'mine'))[0] === 'word two', 'the new graph')
    write('export const mine = (')
    await until(() => log().includes('the previous ones stay in use'), 'the log to say so')
    t.match(log(), /mine\.mjs:\d+ cannot be loaded/)
    t.strictSame(await stepsOf(url, 'mine'), ['word two'])
  }
)

t.test(
  '--watch: a file that a graph imports is loaded anew as well, and a run at work ends with what it has',
  async (t) => {
    const folder = graphsFolder(t)
    const word = (text: string) => writeFileSync(join(folder, 'word.mjs'), `export const word = '${text}'`)
    word('one')
    writeFileSync(
      join(folder, 'mine.mjs'),
      `import { factory } from './agent.mjs'
     import { word } from './word.mjs'
     export const mine = () => factory({ configurable: { word } })`
    )
    change(folder, (config) => {
      config.graphs = { mine: './mine.mjs:mine', steps: './agent.mjs:steps' }
    })
    const { url, log } = await serve(t, folder, '--watch')
    t.strictSame(await stepsOf(url, 'mine'), ['word one'])
    const person = await signIn({ url })
    const config = { configurable: { count: 20, delay: 100 } }
    const under = person.post('/api/runs/wait', { assistant_id: 'steps', input: { steps: [] }, config })
    word('two')
    await until(async () => (await stepsOf(url, 'mine'))[0] === 'word two', 'the new graph')
    t.match(log(), /the graphs were reloaded/)
    t.equal(listIn((await under).body, 'steps').length, 20)
  }
)
