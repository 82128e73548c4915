#!/usr/bin/env node
// The command line: serve, reset-admin, token, bench.
import { parseArgs } from 'node:util'
import { pino } from 'pino'
import { type Config, ConfigError, loadConfig } from '../lib/config.ts'
import { startGateway } from '../lib/gateway.ts'
import { createApiToken, listApiTokens, resetAdministrator, revokeApiToken, type TokenWish } from '../lib/operator.ts'
import { PERMISSIONS, type Permission } from '../lib/types.ts'

const USAGE = `colloquy serve [--config FILE] [--home FOLDER] [--host HOST] [--port NUMBER]
colloquy reset-admin [--email ADDRESS] [--config FILE] [--home FOLDER]
colloquy token create --email ADDRESS [--scope SCOPE]... [--name TEXT] [--expires-in-days NUMBER] [--config FILE] [--home FOLDER]
colloquy token list --email ADDRESS [--config FILE] [--home FOLDER]
colloquy token revoke TOKEN_ID [--config FILE] [--home FOLDER]
colloquy bench [NAME]... [--quick] [--repeats NUMBER] [--joiners NUMBER] [--store MODULE] [--out FILE]`

const DAY_MS = 86_400_000

/** A second signal ends the process at once: the first has had its chance. */
function onSignals(stop: () => Promise<void>): void {
  let isStopping = false
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (isStopping) process.exit(1)
      isStopping = true
      stop().then(
        () => process.exit(0),
        () => process.exit(1)
      )
    })
  }
}

async function serve(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: 'string' },
      home: { type: 'string' },
      host: { type: 'string' },
      port: { type: 'string' }
    }
  })
  const config = loadConfig({ file: values.config, home: values.home, host: values.host, port: values.port })
  const log = pino({ level: config.log_level }, pino.destination({ dest: 2, sync: true }))
  const gateway = await startGateway({ config, log })
  onSignals(() => gateway.stop())
  process.stdout.write(`Colloquy is listening on ${gateway.url}\n`)
}

/** Beside a running server as well: SQLite lets two processes write, one after the other. */
async function reset(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { config: { type: 'string' }, home: { type: 'string' }, email: { type: 'string' } }
  })
  const config = loadConfig({ file: values.config, home: values.home })
  const { email, file } = await resetAdministrator(config, values.email ?? null)
  process.stdout.write(`${email}: the new password is in ${file}\n`)
}

const TOKEN_OPTIONS = {
  config: { type: 'string' },
  home: { type: 'string' },
  email: { type: 'string' },
  name: { type: 'string', default: 'command line' },
  scope: { type: 'string', multiple: true },
  'expires-in-days': { type: 'string' }
} as const

/** Beside a running server as well, which asks the database about a token each time that it comes. */
async function token([action, ...args]: string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: TOKEN_OPTIONS })
  const [id, ...more] = positionals
  const { email, name } = values
  if (more.length > 0 || (action === 'revoke') !== (id !== undefined)) return misused()
  if (id !== undefined) return revokeToken(configOf(values), id)
  if (email === undefined) return misused()
  if (action === 'list') return listTokens(configOf(values), email)
  if (action !== 'create') return misused()
  const scopes = (values.scope ?? []).flatMap(scopesIn)
  return createToken(configOf(values), email, { name, scopes, lifetimeMs: lifetimeOf(values['expires-in-days']) })
}

async function createToken(config: Config, email: string, wanted: TokenWish): Promise<void> {
  const { text } = await createApiToken(config, email, wanted)
  // Alone on stdout, so that a script can take it.
  process.stdout.write(`${text}\n`)
  const isUseless = wanted.scopes.length === 0
  process.stderr.write(
    isUseless ? 'It has no scopes and may do nothing: name them with --scope.\n' : 'Keep it: it is not shown again.\n'
  )
}

async function listTokens(config: Config, email: string): Promise<void> {
  for (const one of await listApiTokens(config, email)) {
    const ends = one.expires_at === null ? 'does not expire' : `expires ${one.expires_at}`
    const used = one.last_used_at === null ? 'never used' : `used ${one.last_used_at}`
    const scopes = one.scopes.join(',') || 'no scopes'
    process.stdout.write(`${[one.token_id, one.name, scopes, ends, used].join('\t')}\n`)
  }
}

async function revokeToken(config: Config, id: string): Promise<void> {
  await revokeApiToken(config, id)
  process.stdout.write(`${id} is revoked\n`)
}

function configOf({ config, home }: { config?: string; home?: string }): Config {
  return loadConfig({ file: config, home })
}

/** `threads:read`, or several with commas between them. */
function scopesIn(text: string): Permission[] {
  return text.split(',').map((name) => {
    const scope = PERMISSIONS.find((one) => one === name.trim())
    if (scope === undefined) throw new Error(`"${name}" is no scope. There are: ${PERMISSIONS.join(', ')}`)
    return scope
  })
}

function lifetimeOf(days: string | undefined): number | null {
  if (days === undefined) return null
  if (!/^[1-9]\d{0,3}$/.test(days)) throw new Error('--expires-in-days must be a whole number from 1 to 9999')
  return Number(days) * DAY_MS
}

/** Loaded when it is asked for: serving needs none of it. */
async function bench(args: string[]): Promise<void> {
  const { main: run } = await import('../bench/index.ts')
  await run(args)
  process.exit(0)
}

function misused(): void {
  process.stderr.write(`${USAGE}\n`)
  process.exitCode = 2
}

async function main([command, ...args]: string[]): Promise<void> {
  if (command === 'serve') return serve(args)
  if (command === 'reset-admin') return reset(args)
  if (command === 'token') return token(args)
  if (command === 'bench') return bench(args)
  misused()
  if (command === 'help' || command === '--help') process.exitCode = 0
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const text = error instanceof ConfigError || error instanceof Error ? error.message : String(error)
  process.stderr.write(`colloquy: ${text}\n`)
  process.exitCode = 1
})
