// The documents: that the first one is short, that no link leads nowhere, and that its code runs as it stands.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { homeOf, openSite, signIn } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Every Markdown file of the repository. */
async function documents(): Promise<string[]> {
  const { stdout } = await promisify(execFile)(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'],
    {
      cwd: ROOT
    }
  )
  return stdout.split('\n').filter((file) => file !== '' && existsSync(join(ROOT, file)))
}

/** Targets of links and pictures that are files of ours. */
function targetsIn(text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  return links.filter((target) => !/^(https?:|mailto:|#)/.test(target)).map((target) => target.replace(/#.*/, ''))
}

t.test('the README is for a stranger: at most 200 lines', async (t) => {
  t.ok(readFileSync(join(ROOT, 'README.md'), 'utf8').split('\n').length <= 201)
})

t.test('no link of a document leads nowhere', async (t) => {
  for (const file of await documents()) {
    const text = readFileSync(join(ROOT, file), 'utf8')
    const dead = targetsIn(text).filter((target) => !existsSync(join(ROOT, dirname(file), target)))
    t.strictSame(dead, [], file)
  }
})

t.test('the TypeScript of the README, with the official SDK, prints the answer', async (t) => {
  const code = /<!-- typescript -->\s*```ts\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, 'README.md'), 'utf8'))?.[1]
  if (code === undefined) throw new Error('the README has no block after <!-- typescript -->')
  const person = await signIn(await openSite(t, {}))
  const { token } = await programOf(person, 'threads:write', 'runs:create', 'runs:read')
  const folder = homeOf(t)
  // Beside the packages, and without types: it is JavaScript as it stands.
  const sdk = relative(folder, join(ROOT, 'node_modules/@langchain/langgraph-sdk/dist/index.js'))
  writeFileSync(
    join(folder, 'chat.mjs'),
    code.replace('@langchain/langgraph-sdk', sdk.startsWith('.') ? sdk : `./${sdk}`)
  )
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'chat.mjs')], {
    env: { PATH: process.env.PATH, COLLOQUY: person.url, COLLOQUY_TOKEN: token }
  })
  t.match(stdout, /\w+ \w+/)
})

t.test('wherever a document sets a proxy or a front end up, it says `trusted_proxies`', async (t) => {
  const found: string[] = []
  for (const file of await documents()) {
    const sections = readFileSync(join(ROOT, file), 'utf8').split(/^(?=#{2,3} )/m)
    for (const section of sections.filter((text) => /^#+ Behind /.test(text))) {
      const title = section.split('\n')[0]!
      found.push(title)
      t.match(section, 'trusted_proxies', `${file}: ${title}`)
    }
  }
  for (const front of ['nginx', 'Caddy', 'the server of a web front end'])
    t.ok(found.includes(`### Behind ${front}`), front)
})

t.test('what the operator can switch against the specification stands in the list of what differs', async (t) => {
  const [, list = ''] = readFileSync(join(ROOT, 'lib/routes/README.md'), 'utf8').split('## What differs, on purpose\n')
  for (const option of ['server.trusted_hops']) t.match(list, `\`${option}\``, option)
})
