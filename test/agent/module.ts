// The runtime `module`: somebody's own agent behind the port, from a file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { loadAgent } from '../../lib/compose/agent-module.ts'
import { asked, at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'

const SHOUTING = fileURLToPath(new URL('../fixtures/shouting-agent.js', import.meta.url))

const folder = mkdtempSync(join(tmpdir(), 'colloquy-module-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
function fileOf(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

t.test('an agent of somebody’s own streams, is kept, and is asked again in the next run', async (t) => {
  const person = await signIn(await openSite(t, { config: { agent: { runtime: 'module', path: SHOUTING } } }))
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const stream = await person.post(`/api/threads/${thread}/runs/stream`, {
    ...asked('hello there'),
    stream_mode: ['messages-tuple', 'values']
  })
  t.match(stream.text, /HELLO /)
  t.match(stream.text, /event: end/)
  await person.post(`/api/threads/${thread}/runs/wait`, asked('once more'))
  const { body } = await person.get(`/api/threads/${thread}/state`)
  t.same(
    listIn(body, 'values', 'messages').map((message) => at(message, 'content')),
    ['hello there', 'HELLO THERE ', 'once more', 'ONCE MORE ']
  )
  t.match((await person.get('/api/models')).body, { models: [{ name: 'module' }] })
})

t.test('start may be on the default export, and models are its own affair', async (t) => {
  const path = fileOf(
    'default.mjs',
    'export default { said: [], start() { this.said.push(1) }, models() { return [{ name: "own" }] } }'
  )
  const agent = await loadAgent(path)
  t.match(agent.models(), [{ name: 'own' }])
})

t.test('a file may export a generator function and nothing else: what it yields is the answer', async (t) => {
  const path = fileOf('short.mjs', 'export default async function* (input) { yield "hi "; yield input.threadId }')
  const person = await signIn(await openSite(t, { config: { agent: { runtime: 'module', path } } }))
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const { body } = await person.post(`/api/threads/${thread}/runs/wait`, asked('hello'))
  t.match(at(body, 'messages', 1), { type: 'ai', content: `hi ${thread}` })
})

t.test(
  'a file that is no agent is refused in one sentence with its path, and the line where there is one',
  async (t) => {
    const refused = async (name: string, text: string, sentence: string | RegExp) =>
      t.rejects(loadAgent(fileOf(name, text)), { name: 'AgentFileError', message: sentence })
    await refused('none.mjs', 'export const stop = 1', /none.mjs exports no function start/)
    await refused(
      'syntax.mjs',
      'const a = 1\n\nlet b = c d\n',
      /syntax.mjs:3 cannot be loaded: SyntaxError: Unexpected/
    )
    await refused(
      'throws.mjs',
      '\nthrow new TypeError("no key\\nset one")',
      /throws.mjs:2 cannot be loaded: TypeError: no key$/
    )
    await refused('null.mjs', 'throw null', /null.mjs cannot be loaded: it throws null/)
    await refused('lost.mjs', 'import "./nowhere.mjs"', /lost.mjs cannot be loaded: Cannot find module .*nowhere.mjs/)
    await refused(
      'models.mjs',
      'export const start = () => {}, models = () => 5',
      /models\(\) must be a list of models/
    )
    await t.rejects(loadAgent(join(folder, 'missing.mjs')), {
      message: `There is no agent file ${join(folder, 'missing.mjs')}`
    })
  }
)

t.test('a file that waits for ever at its top does not hold the start for ever', async (t) => {
  const path = fileOf('waits.mjs', 'await new Promise(() => {})')
  await t.rejects(loadAgent(path, null, 50), { message: /waits.mjs was not loaded within 0.05 seconds/ })
})

t.test('TypeScript runs on every Node: types, enums, and `./x.js` for the x.ts that stands there', async (t) => {
  fileOf('part.ts', 'export enum Kind { One = 1 }')
  const path = fileOf(
    'typed.ts',
    "import { Kind } from './part.js'\nexport const start: unknown = async () => Kind.One"
  )
  t.type((await loadAgent(path)).start, 'function')
})

t.test('a TypeScript file that is wrong is named with its line', async (t) => {
  const path = fileOf('wrong.ts', 'const a: number = 1\n\nthrow new Error(String(a))')
  await t.rejects(loadAgent(path), { message: /wrong.ts:3 cannot be loaded: 1/ })
})
