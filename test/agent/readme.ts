// The JavaScript of lib/agent/README.md, run as it stands.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { DemoModel } from '../../lib/agent/demo.ts'
import type { Gateway } from '../../lib/index.ts'
import { asked, at, openSite, signIn, textIn } from '../fixtures/gateway.ts'

const TEXT = readFileSync(new URL('../../../lib/agent/README.md', import.meta.url), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'colloquy-readme-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

function blockOf(name: string): string {
  const from = TEXT.indexOf(`<!-- ${name} -->`)
  const code = /```js\n([\s\S]*?)```/.exec(TEXT.slice(from))?.[1]
  if (from < 0 || code === undefined) throw new Error(`there is no block after <!-- ${name} -->`)
  return code
}

function fileOf(name: string, code: string): string {
  const path = join(folder, name)
  writeFileSync(path, code)
  return path
}

async function answerOf(t: Test, name: string, words: string): Promise<unknown> {
  const path = fileOf(`${name}.mjs`, blockOf(name))
  const person = await signIn(await openSite(t, { config: { agent: { runtime: 'module', path } } }))
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  return at((await person.post(`/api/threads/${thread}/runs/wait`, asked(words))).body, 'messages', 1)
}

t.test('the short way answers, and thinks before', async (t) => {
  t.match(await answerOf(t, 'short', 'hello there'), {
    content: 'HELLO THERE ',
    additional_kwargs: { reasoning_content: 'They want it louder.' }
  })
})

t.test('the whole port answers', async (t) => {
  t.match(await answerOf(t, 'port', 'hello'), { content: 'You have said 1 things.' })
})

t.test('a program of one’s own starts a gateway with its agent', async (t) => {
  const index = new URL('../../lib/index.js', import.meta.url).href
  const config = fileOf(
    'colloquy.yaml',
    `home: ${join(folder, 'home')}\nserver: { port: 0 }\ndatabase: { backend: memory }\n`
  )
  const code = blockOf('embed').replace("'colloquy'", `'${index}'`).replace("'colloquy.yaml'", `'${config}'`)
  const path = fileOf(
    'embed.mjs',
    `${code.replace('log: console', 'log: { info() {}, warn() {}, error() {} }')}\nexport { gateway }\n`
  )
  const { gateway } = (await import(pathToFileURL(path).href)) as { gateway: Gateway }
  t.teardown(() => gateway.stop())
  t.match((await (await signIn(gateway)).get('/api/models')).body, { models: [{ name: 'hello' }] })
})

t.test('every word of the table of the demo shows what it says', { timeout: 60_000 }, async (t) => {
  const table = TEXT.slice(TEXT.indexOf('| Say |'), TEXT.indexOf('`/demo` in a line of its own'))
  const words = [...table.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map(([, word]) => word!)
  )
  t.ok(words.length > 10)
  const model = new DemoModel()
  const told = async (said: string): Promise<string> => {
    const abort = new AbortController()
    let kinds = ''
    const messages = [{ role: 'user', content: said }]
    // Which way it goes is seen by its first delta.
    const asked = model.complete(
      { messages, messageId: 'm', signal: abort.signal },
      ({ text, reasoning, toolCall }) => {
        kinds = text ?? reasoning ?? toolCall?.name ?? ''
        abort.abort()
        return true
      }
    )
    await asked.catch(() => {})
    return kinds
  }
  const ordinary = await told('nothing in particular')
  for (const word of words) t.not(await told(`Please, ${word}!`), ordinary, word)
})
