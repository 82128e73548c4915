// The documents: that the first one is short, that no link leads nowhere, and that its code runs as it stands.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { loadConfig } from '../../lib/config/config.ts'
import { freePort } from '../fixtures/free-port.ts'
import { homeOf, openSite, signIn } from '../fixtures/gateway.ts'
import { blockOf, SHELL_BLOCKS } from '../fixtures/manual.ts'
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

t.test('the README says of each package what it is for', async (t) => {
  const declared = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<
    string,
    Record<string, string>
  >
  const kinds = ['dependencies', 'optionalDependencies', 'peerDependencies', 'devDependencies']
  // A second version of a package has a name of its own.
  const packages = kinds.flatMap((kind) =>
    Object.entries(declared[kind] ?? {}).map(([name, version]) => /^npm:(.+)@/.exec(version)?.[1] ?? name)
  )
  const table = readFileSync(join(ROOT, 'README.md'), 'utf8').split('## Dependencies')[1] ?? ''
  const untold = packages.filter((name) => !table.includes(`\`${name}\``) && !name.startsWith('@types/'))
  t.strictSame(untold, [])
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

/** Blocks of shell of the operator's document whose lines another suite runs, by its name, and why not here. */
const RUN_BY: Readonly<Record<string, string>> = {
  erase: 'operator/erase', // waits a minute for a server
  hold: 'http/holds',
  backup: 'operator/restore',
  migrate: 'operator/rolling-upgrade',
  move: 'operator/restore',
  prune: 'operator/day', // wants something that is old
  copies: 'operator/backups',
  dump: 'operator/backups',
  unit: 'operator/deploy',
  image: 'operator/deploy'
}
t.test('every block of shell of the operator has a suite that runs it', async (t) => {
  for (const [name, block] of SHELL_BLOCKS) {
    const suite = RUN_BY[name] ?? 'operator/documents'
    t.ok(name !== '' && existsSync(join(ROOT, `test/${suite}.ts`)), `${name}: ${block}`)
    const commands = RUN_BY[name] === undefined ? [] : [...block.matchAll(/^colloquy (\w+)/gm)].map(([, word]) => word!)
    const text = readFileSync(join(ROOT, `test/${suite}.ts`), 'utf8')
    for (const word of commands) t.match(text, new RegExp(`'(colloquy )?${word}\\b`), `${suite} runs ${word}`)
  }
})

t.test('every block of YAML is a configuration that can be used', async (t) => {
  // Groups are of the provider that the same document signs people in at.
  const providers = {
    COLLOQUY_AUTH__OIDC__PROVIDERS: JSON.stringify([{ id: 'company', issuer: 'https://a', client_id: 'c' }])
  }
  for (const file of await documents())
    for (const [, yaml = ''] of readFileSync(join(ROOT, file), 'utf8').matchAll(/^```yaml\n([\s\S]*?)^```/gm)) {
      const cwd = homeOf(t)
      writeFileSync(join(cwd, 'colloquy.yaml'), yaml)
      const variables = [...yaml.matchAll(/\$(\w+)/g)].map(([, name]) => [name, 'x'] as const)
      const env = { ...Object.fromEntries(variables), ...(yaml.includes('provider: company') && providers) }
      t.doesNotThrow(() => loadConfig({ env, cwd }), `${file}: ${yaml}`)
    }
})

t.test('the first hour, people, usage and capacity run as they stand, one after the other', async (t) => {
  const folder = homeOf(t)
  const bin = homeOf(t)
  const program = join(ROOT, 'dist/bin/colloquy.js')
  writeFileSync(join(bin, 'colloquy'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`, { mode: 0o700 })
  const port = String(await freePort())
  const blocks = ['first hour', 'people', 'usage', 'capacity'].map(blockOf)
  const script = blocks.join('\n').replaceAll(':8001', `:${port}`)
  const env = { PATH: [bin, process.env.PATH].join(delimiter), COLLOQUY_HOME: join(folder, 'home'), GATEWAY_PORT: port }
  const { stdout } = await promisify(execFile)('bash', ['-emuc', script], { cwd: folder, env })
  for (const said of [
    /can be used/,
    /#\/password\/clq_/,
    /#\/invitation\/clq_/,
    /^clq_/m,
    /^day,user_id,|^user_id,/m,
    /^\{"check":"disk"/m
  ])
    t.match(stdout, said)
  t.match(readFileSync(join(folder, 'colloquy.out'), 'utf8'), `:${port}`)
  t.ok(existsSync(join(folder, 'ann.zip')))
})

t.test('what the operator can switch against the specification stands in the list of what differs', async (t) => {
  const [, list = ''] = readFileSync(join(ROOT, 'lib/routes/README.md'), 'utf8').split('## What differs, on purpose\n')
  for (const option of ['server.trusted_hops']) t.match(list, `\`${option}\``, option)
})
