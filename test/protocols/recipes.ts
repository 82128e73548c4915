// The recipes of lib/protocols/README.md, as they stand there, with the clients they are for: what each prints is the answer that the thread
// has. `npm run test:long`; that each is one that can be run, always.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { nodeFor, packagesOf } from '../fixtures/npm.ts'
import { programOf } from '../fixtures/program.ts'
import { IS_LONG } from '../fixtures/size.ts'

const README = new URL('../../../lib/protocols/README.md', import.meta.url)
/** The address in the recipes. */
const ADDRESS = 'https://chat.example.com'
const CLIENTS = [
  'openai',
  '@openai/agents',
  '@ai-sdk/open-responses',
  '@ai-sdk/react',
  '@ag-ui/client',
  '@copilotkit/core',
  '@modelcontextprotocol/client',
  '@a2a-js/sdk/client'
]
const OURS = new URL('../../lib/client/ai-sdk.js', import.meta.url).href
const LIMIT_MS = 60_000
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'

interface Recipe {
  readonly client: string
  readonly code: string
}

const recipes: readonly Recipe[] = [...readFileSync(README, 'utf8').matchAll(/^```js\n(.*?)^```$/gms)].map(
  ([, code = '']) => ({
    client: /^import .* from '([^']+)'/.exec(code)?.[1] ?? '',
    code
  })
)

t.test('each client has a recipe, which is whole and says where and as whom', async (t) => {
  t.strictSame(
    recipes.map(({ client }) => client),
    CLIENTS
  )
  for (const { client, code } of recipes) {
    t.match(code, ADDRESS, client)
    t.match(code, /\btoken\b/, client)
    t.match(code, /console\.log/, client)
  }
})

/** What a recipe prints, in the Node that its client wants. */
async function printed(node: string, folder: string, code: string): Promise<string> {
  const child = spawn(node, ['--input-type=module', '-'], { cwd: folder, env: { PATH: process.env.PATH } })
  const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  // What pages have; and a client that keeps something open is no reason to wait.
  child.stdin.end(`globalThis.window ??= globalThis\n${code}\nprocess.exit(0)\n`)
  await once(child, 'close')
  clearTimeout(timer)
  return output
}

for (const { client, code } of recipes)
  t.test(`the recipe for ${client} prints the answer`, { skip }, async (t) => {
    const packages = await packagesOf('protocols/clients')
    if ('reason' in packages) return t.comment(packages.reason)
    const site = await openSite(t, { config: { memory: { enabled: false }, title: { enabled: false } } })
    const person = await signIn(site)
    const { token } = await programOf(person, ...PERMISSIONS)
    const own = code.replaceAll(ADDRESS, site.url).replaceAll("'colloquy/client/ai-sdk'", JSON.stringify(OURS))
    const imports = /^(?:import .*\n)*/.exec(own)![0]
    const output = await printed(
      nodeFor(packages),
      packages.folder,
      `${imports}const token = ${JSON.stringify(token)}\n${own.slice(imports.length)}`
    )
    const [thread] = listIn((await person.post('/api/threads/search', { limit: 1 })).body)
    const { body } = await person.get(`/api/threads/${textIn(thread, 'thread_id')}/state`)
    const answer = textIn(
      listIn(body, 'values', 'messages').findLast((one) => at(one, 'type') === 'ai'),
      'content'
    )
    t.ok(answer.length > 10)
    // Some print it piece by piece.
    const words = answer.trim().split(/\s+/)
    for (const word of words.map((one) => JSON.stringify(one).slice(1, -1)))
      if (!output.includes(word) && !output.includes(word.replaceAll('\\', '')))
        return t.fail(`${word} is not in ${output}`)
    t.pass()
  })
