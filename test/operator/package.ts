// The package as others get it: packed, installed into an empty folder without development dependencies, started, talked to, and its
// kit run on a store.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { NO_BROWSER, visit } from '../fixtures/browser.ts'
import { homeOf } from '../fixtures/gateway.ts'
import { isOffline, lendCompiled, MODULES, pack, ROOT, run } from '../fixtures/package.ts'
import { until } from '../fixtures/until.ts'

/** The packed package. */
const TARBALL = pack(homeOf(t))

function install(t: Test): string | null {
  const folder = homeOf(t)
  writeFileSync(join(folder, 'package.json'), '{ "name": "somebody", "private": true, "type": "module" }')
  const installed = run(folder, 'npm', 'install', '--omit=dev', TARBALL)
  if (isOffline(installed)) return null
  if (!t.equal(installed.status, 0, installed.text)) return null
  lendCompiled(join(folder, 'node_modules'))
  return folder
}

/** A development dependency of ours that whoever runs the kit installs. */
function lend(folder: string, name: string): void {
  const to = join(folder, 'node_modules', name)
  if (existsSync(to)) return
  mkdirSync(join(to, '..'), { recursive: true })
  symlinkSync(join(MODULES, name), to)
}

t.test('the package, installed into an empty folder without development dependencies', async (t) => {
  const folder = install(t)
  if (folder === null) return void t.plan(0, 'nothing can be installed here: there is no way to the packages')
  const own = join(folder, 'node_modules', 'colloquy')

  t.test('holds no tests but the kit, and no bench', async (t) => {
    t.strictSame(readdirSync(join(own, 'dist')).sort(), ['bin', 'commit', 'lib', 'public', 'test'])
    t.strictSame(readdirSync(join(own, 'dist', 'test')), ['contract'])
    t.notOk(existsSync(join(folder, 'node_modules', 'typescript')))
    t.notOk(existsSync(join(folder, 'node_modules', 'tap')))
  })

  t.test('has what its documents link to', async (t) => {
    const documents = readdirSync(own, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.md') && !name.includes('node_modules')
    )
    t.ok(documents.length > 5)
    for (const file of documents) {
      const links = [...readFileSync(join(own, file), 'utf8').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
      const files = links.filter((link) => !/^(https?:|mailto:|#)/.test(link)).map((link) => link.replace(/#.*/, ''))
      const dead = files.filter((link) => !existsSync(join(own, dirname(file), link)))
      t.strictSame(dead, [], file)
    }
  })

  /** The URL that it prints. */
  const started = async (t: Test): Promise<string> => {
    const program = join(own, 'dist', 'bin', 'colloquy.js')
    const server = spawn(process.execPath, [program, 'serve', '--home', homeOf(t), '--port', '0'], {
      cwd: folder,
      env: { PATH: process.env.PATH },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    t.teardown(() => server.kill('SIGKILL'))
    let said = ''
    for (const pipe of [server.stdout, server.stderr]) pipe.on('data', (bytes) => (said += String(bytes)))
    await until(() => /listening on \S+\n/.test(said) || server.exitCode !== null, 'the start line', 60_000)
    const url = /Colloquy is listening on (\S+)\n/.exec(said)?.[1]
    if (!url) throw new Error(said)
    return url
  }

  t.test('starts, has its page, and answers in it', { skip: NO_BROWSER }, async (t) => {
    const visitor = await visit(t, await started(t))
    await visitor.open()
    const { page } = visitor
    await page.getByLabel('E-mail').fill('ada@example.com')
    await page.getByLabel('Password').fill('correct-horse-42')
    await page.getByRole('button', { name: 'Create the administrator' }).click()
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), 'w0000 w0001 w0002')
    t.same(visitor.problems, [])
  })

  t.test('signs somebody in and answers', async (t) => {
    const url = await started(t)

    const made = await fetch(`${url}/api/v1/auth/initialize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: 'ada@example.com', password: 'correct-horse-42' })
    })
    t.equal(made.status, 201)
    const cookies = made.headers.getSetCookie().map((line) => line.split(';')[0]!)
    const csrf = cookies.find((one) => one.startsWith('csrf_token='))!.slice('csrf_token='.length)
    const headers = { cookie: cookies.join('; '), 'x-csrf-token': csrf, 'content-type': 'application/json' }
    const post = (path: string, body: unknown) =>
      fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const { thread_id } = (await (await post('/api/threads', {})).json()) as { thread_id: string }
    const input = { messages: [{ role: 'user', content: 'Hello' }] }
    const answer = await (await post(`/api/threads/${thread_id}/runs/wait`, { input })).text()
    t.match(answer, /"type":"ai"/)
  })

  t.test('proves a store by its kit', async (t) => {
    for (const name of ['tap', 'fast-check']) lend(folder, name)
    const suite = `
      import t from 'tap'
      import { storeContract } from 'colloquy/testing'
      import { openStore } from './node_modules/colloquy/dist/lib/store/open.js'
      const options = { home: import.meta.dirname, database: { backend: 'memory' }, run_events: { backend: 'memory' } }
      storeContract(t, 'a store of somebody', async () => {
        const store = await openStore(options, () => {})
        return { store, close: () => store.close() }
      })
    `
    writeFileSync(join(folder, 'suite.mjs'), suite)
    const { status, text } = run(folder, process.execPath, 'suite.mjs')
    t.equal(status, 0, text.slice(-2000))
    // How many there were is said at the end, but not to another tap that started it.
    t.ok((text.match(/^ *ok \d+ - /gm)?.length ?? 0) > 500, 'the suites have run')
  })

  t.test('has types that pass without skipLibCheck', async (t) => {
    for (const name of ['@types/node', 'undici-types', 'tap', 'fast-check']) lend(folder, name)
    const code = `
      import { type Agent, defineAgent, loadConfig, startGateway } from 'colloquy'
      export const agent: Agent = defineAgent(async function* (input) { yield input.threadId })
      export const start = () => startGateway({ config: loadConfig(), log: console, agent })
    `
    writeFileSync(join(folder, 'code.ts'), code)
    const flags = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', 'node']
    const checked = run(folder, process.execPath, join(MODULES, 'typescript', 'bin', 'tsc'), ...flags, 'code.ts')
    t.equal(checked.status, 0, checked.text)
  })
})

/** Packages that the code in this folder and its types import by name. */
function packagesIn(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(js|d\.ts)$/.test(name))
  const names = files.flatMap((file) => {
    const text = readFileSync(join(folder, file), 'utf8')
    return [...text.matchAll(/(?:^import|\bfrom) ['"]((?:@[\w-]+\/)?[\w-]+)(?:\/[^'"]*)?['"];?$/gm)].map(
      ([, name]) => name!
    )
  })
  return [...new Set(names)]
}

t.test(
  'what the kit imports is declared: tap and fast-check as peers, which who does not run the kit need not have',
  async (t) => {
    const folder = homeOf(t)
    const unpacked = run(folder, 'tar', '-xzf', TARBALL)
    if (!t.equal(unpacked.status, 0, unpacked.text)) return
    const own = join(folder, 'package')
    const declared = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as Record<string, object | undefined>
    const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta } = declared
    const imported = packagesIn(join(own, 'dist', 'test', 'contract'))
    t.strictSame(imported.filter((name) => !(name in dependencies)).sort(), ['fast-check', 'tap'])
    t.strictSame(Object.keys(peerDependencies).sort(), [
      '@opentelemetry/api',
      'fast-check',
      'mermaid',
      'nodemailer',
      'openid-client',
      'tap',
      'web-push'
    ])
    const optional = { optional: true }
    t.strictSame(peerDependenciesMeta, {
      '@opentelemetry/api': optional,
      'fast-check': optional,
      mermaid: optional,
      nodemailer: optional,
      'openid-client': optional,
      tap: optional,
      'web-push': optional
    })
  }
)

t.test('a checkout installs without development dependencies: nothing is built then', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  // npm runs these at `npm ci --omit=dev`, where there is no compiler.
  for (const name of ['prepare', 'install', 'preinstall', 'postinstall']) t.notOk(scripts[name], name)
})
