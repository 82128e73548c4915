// bin/deploy/: that what it hands out is taken by the programs it is for, and says nothing that the configuration does not know.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { loadConfig, unusedOptions } from '../../lib/config/config.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const DEPLOY = join(ROOT, 'bin/deploy')
const textOf = (name: string) => readFileSync(join(DEPLOY, name), 'utf8')

interface Service {
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
  readonly read_only?: boolean
}

/** Why a check cannot be made here; false: it can. */
function missing(program: string): string | false {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0 ? false : `${program} is not installed`
}

/** The configuration of a container with these variables, and with secrets in files. */
function configOf(
  t: Test,
  variables: Readonly<Record<string, string>>,
  secrets: Readonly<Record<string, string>> = {}
) {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-deploy-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(secrets)) writeFileSync(join(folder, name), `${text}\n`)
  const env = Object.entries(variables).map(([name, value]) => [
    name,
    value.replace('/run/secrets', folder).replace(/\$\{SITE:-(\w+)\}/, '$1')
  ])
  return loadConfig({ env: Object.fromEntries(env), cwd: folder })
}

t.test('the unit is one that systemd takes', { skip: missing('systemd-analyze') }, async (t) => {
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', join(DEPLOY, 'colloquy.service')])
  t.equal(status, 0, String(stderr))
})

t.test('the rules of alerts are ones that Prometheus takes', { skip: missing('promtool') }, async () => {
  execFileSync('promtool', ['check', 'rules', join(DEPLOY, 'alerts.yaml')])
})

t.test('the Caddyfile is one that Caddy takes', { skip: missing('caddy') }, async () => {
  execFileSync('caddy', ['validate', '--adapter', 'caddyfile', '--config', join(DEPLOY, 'Caddyfile')], {
    stdio: 'ignore'
  })
})

t.test('two gateways share a database, a home and a secret, and every variable they are given counts', async (t) => {
  const { services, secrets } = parse(textOf('compose.yaml'), { merge: true }) as {
    services: Record<string, Service>
    secrets: Record<string, unknown>
  }
  for (const name of ['gateway-1', 'gateway-2']) {
    const { environment = {}, secrets: given = [], read_only } = services[name]!
    t.equal(read_only, true)
    for (const secret of given) t.ok(secret in secrets, secret)
    const config = configOf(t, environment, {
      database_url: 'postgres://colloquy:pw@postgres:5432/colloquy',
      jwt_secret: 's'.repeat(48),
      openai_api_key: 'k'
    })
    t.match(config, {
      database: { backend: 'postgres', postgres_url: /^postgres:/ },
      auth: { jwt_secret: /^s+$/, registration: 'invite' },
      models: [{ api_key: 'k' }],
      server: { public_url: 'https://localhost', drain_ms: 3000 }
    })
    t.strictSame(unusedOptions(config), [])
  }
})

t.test('the image runs as nobody special, and every variable that it sets counts', async (t) => {
  const image = textOf('Dockerfile')
  const last = image.slice(image.lastIndexOf('\nFROM '))
  t.match(last, /^USER colloquy$/m)
  t.match(last, /^HEALTHCHECK /m)
  t.notMatch(last, /npm |apt|gcc|python/, 'nothing is compiled or installed in the end')
  const [, line = ''] = /^ENV (.+)$/m.exec(last) ?? []
  const variables = Object.fromEntries(line.split(' ').map((pair) => pair.split('=', 2)))
  const config = configOf(t, variables)
  t.match(config, { home: '/var/lib/colloquy', server: { host: '0.0.0.0', port: 8001 } })
  t.strictSame(unusedOptions(config), [])
})

/** Those of the kit for stores of one's own, which no server needs. */
const KIT = ['fast-check', 'tap']

t.test('the image has every optional package that a server uses, in a version that is taken', async (t) => {
  const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    peerDependencies: Record<string, string>
  }
  const image = textOf('Dockerfile')
  for (const [name, range] of Object.entries(peerDependencies)) {
    if (KIT.includes(name)) continue
    const [, major] = new RegExp(`\\s${name}@(\\d+)`).exec(image) ?? []
    t.ok(Number(major) >= Number(/^>=(\d+)/.exec(range)?.[1]), `${name} ${range}: ${major}`)
  }
})

t.test('secrets that lie beside the files are in no image, package or commit', async (t) => {
  const { secrets } = parse(textOf('compose.yaml')) as { secrets: Record<string, { file: string }> }
  const files = Object.values(secrets).map(({ file }) => join('bin/deploy', file))
  const folder = t.testdir({})
  for (const path of ['package.json', '.gitignore', '.dockerignore', 'bin/deploy'])
    cpSync(join(ROOT, path), join(folder, path), { recursive: true })
  for (const file of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), 'a secret')
  }
  const inFolder = { cwd: folder, encoding: 'utf8' } as const
  const [packed] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], inFolder)) as {
    files: { path: string }[]
  }[]
  const names = packed!.files.map(({ path }) => path)
  t.ok(names.includes('bin/deploy/compose.yaml'))
  const ignored = readFileSync(join(folder, '.dockerignore'), 'utf8').split('\n')
  execFileSync('git', ['init', '--quiet'], inFolder)
  for (const file of files) {
    t.notOk(names.includes(file), `${file} is not packed`)
    t.ok(ignored.includes(dirname(file)), `${file} is sent to no builder`)
    t.equal(spawnSync('git', ['check-ignore', file], inFolder).status, 0, `${file} is not committed`)
  }
})
