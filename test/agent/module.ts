// The runtime `module`: somebody's own agent behind the port, from a file.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { loadAgent } from '../../lib/agent/module.ts'
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

t.test('a file that is no agent is refused with its path', async (t) => {
  const path = fileOf('none.mjs', 'export const stop = 1')
  await t.rejects(loadAgent(path), {
    message: `${path} exports no function start(input, sink, signal), and no compiled graph`
  })
  await t.rejects(loadAgent(join(folder, 'missing.mjs')))
})
