// colloquy token create, list, revoke: API tokens of an account, also beside a running server, which asks the database about a token
// each time that it comes.
import { type ApiToken, PERMISSIONS, type Permission } from '../lib/base/accounts.ts'
import {
  type Command,
  configOf,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  JSON_OPTION,
  parse,
  print,
  UsageError
} from './command.ts'

const DAY_MS = 86_400_000
const OF_ACCOUNT = { ...INSTALLATION, ...JSON_OPTION, email: { type: 'string' } } as const
const EMAIL_HELP = ['--email ADDRESS', 'whose token'] as const

export const createToken: Command = {
  name: 'token create',
  usage:
    '--email ADDRESS [--scope SCOPE]... [--name TEXT] [--expires-in-days NUMBER] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Makes an API token and prints it, once. Example: colloquy token create --email ann@example.com --scope runs:create,runs:read',
  options: [
    EMAIL_HELP,
    ['--scope SCOPE', `what it may do, again for more, or with commas: ${PERMISSIONS.join(' ')}`],
    ['--name TEXT', 'how it is listed; default "command line"'],
    ['--expires-in-days NUMBER', 'default: it does not expire'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values } = parse(args, {
      ...OF_ACCOUNT,
      name: { type: 'string', default: 'command line' },
      scope: { type: 'string', multiple: true },
      'expires-in-days': { type: 'string' }
    })
    const scopes = (values.scope ?? []).flatMap(scopesIn)
    const lifetimeMs = lifetimeOf(values['expires-in-days'])
    const wanted = { name: values.name, scopes, lifetimeMs }
    const { createApiToken } = await import('../lib/operator/operator.ts')
    const { token, text } = await createApiToken(configOf(values), required(values.email), wanted)
    // Alone on stdout, so that a script can take it.
    print(values.json, text, { ...viewOf(token), token: text })
    process.stderr.write(
      scopes.length === 0
        ? 'It has no scopes and may do nothing: name them with --scope.\n'
        : 'Keep it: it is not shown again.\n'
    )
  }
}

export const listTokens: Command = {
  name: 'token list',
  usage: '--email ADDRESS [--json] [--config FILE] [--home FOLDER]',
  summary:
    'The API tokens of an account, newest first, a line each: id, name, scopes, end, last use. Example: colloquy token list --email ann@example.com',
  options: [EMAIL_HELP, JSON_HELP, ...INSTALLATION_HELP],
  async run(args) {
    const { values } = parse(args, OF_ACCOUNT)
    const { listApiTokens } = await import('../lib/operator/operator.ts')
    for (const one of await listApiTokens(configOf(values), required(values.email))) {
      const ends = one.expires_at === null ? 'does not expire' : `expires ${one.expires_at}`
      const used = one.last_used_at === null ? 'never used' : `used ${one.last_used_at}`
      const scopes = one.scopes.join(',') || 'no scopes'
      print(values.json, [one.token_id, one.name, scopes, ends, used].join('\t'), viewOf(one))
    }
  }
}

export const revokeToken: Command = {
  name: 'token revoke',
  usage: 'TOKEN_ID [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Ends an API token, and within a heartbeat its streams. Example: colloquy token revoke 6f1c0f3e-0000-4000-8000-000000000000',
  options: [['TOKEN_ID', 'as colloquy token list has it'], JSON_HELP, ...INSTALLATION_HELP],
  async run(args) {
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION }, true)
    const [id, ...more] = positionals
    if (id === undefined || more.length > 0) throw new UsageError('One TOKEN_ID is needed')
    const { revokeApiToken } = await import('../lib/operator/operator.ts')
    await revokeApiToken(configOf(values), id)
    print(values.json, `${id} is revoked`, { token_id: id, revoked: true })
  }
}

/** Never with its digest. */
function viewOf({ token_id, name, scopes, created_at, expires_at, last_used_at }: ApiToken) {
  return { token_id, name, scopes, created_at, expires_at, last_used_at }
}

function required(email: string | undefined): string {
  if (email === undefined) throw new UsageError('--email is missing')
  return email
}

/** `threads:read`, or several with commas between them. */
function scopesIn(text: string): Permission[] {
  return text.split(',').map((name) => {
    const scope = PERMISSIONS.find((one) => one === name.trim())
    if (scope === undefined) throw new UsageError(`"${name}" is no scope. There are: ${PERMISSIONS.join(', ')}`)
    return scope
  })
}

function lifetimeOf(days: string | undefined): number | null {
  if (days === undefined) return null
  if (!/^[1-9]\d{0,3}$/.test(days)) throw new UsageError('--expires-in-days must be a whole number from 1 to 9999')
  return Number(days) * DAY_MS
}
