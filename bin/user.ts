// colloquy user ...: accounts, their roles, passwords and sessions; also beside a running server, which looks at an account each time
// that it is used.
import { text as textOf } from 'node:stream/consumers'
import type { ParseArgsConfig } from 'node:util'
import type { Config } from '../lib/config/config.ts'
import type { Actor, People } from '../lib/operator/people.ts'
import { urlAt } from '../lib/base/networks.ts'
import { QUOTA_LIMITS, SYSTEM_ROLES, type SystemRole, type User } from '../lib/base/accounts.ts'
import {
  allOf,
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

/** How an account is shown: never with its hash. */
function shown({ quota = null, ...user }: ShownFields) {
  const { id, email, system_role, created_at, disabled_at, needs_setup, oauth_provider } = user
  return { id, email, system_role, created_at, disabled_at, needs_setup, oauth_provider, quota }
}
type ShownFields = Omit<User, 'password_hash' | 'token_version'>

async function withPeople<T>(config: Config, work: (people: People, by: Actor) => Promise<T>): Promise<T> {
  const { withPeople: run } = await import('../lib/operator/people.ts')
  return run(config, work)
}

interface OneUser<Taken extends NonNullable<ParseArgsConfig['options']>> {
  readonly name: string
  readonly summary: string
  readonly options?: Taken
  readonly help?: Command['options']
  readonly usage?: string
  /** Words after the account, by name. */
  readonly words?: readonly string[]
  /** What is done; answers what is printed, and its JSON. */
  readonly work: (
    people: People,
    user: User,
    given: {
      readonly values: Record<string, unknown>
      readonly words: readonly string[]
      readonly config: Config
      readonly by: Actor
    }
  ) => Promise<{ readonly text: string; readonly json: object }>
}

/** A command about one account, by its address or id. */
function onUser<Taken extends NonNullable<ParseArgsConfig['options']>>(spec: OneUser<Taken>): Command {
  const { name, summary, options, help = [], usage = '', words = [], work } = spec
  const placed = ['USER', ...words].join(' ')
  return {
    name: `user ${name}`,
    usage: `${placed} ${usage}[--json] [--config FILE] [--home FOLDER]`,
    summary,
    options: [['USER', 'e-mail address, id, or name of a service account'], ...help, JSON_HELP, ...INSTALLATION_HELP],
    async run(args) {
      const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...options }, true)
      const [who, ...rest] = positionals
      if (who === undefined || rest.length !== words.length) throw new UsageError(`${placed} is needed`)
      const given = values as { config?: string; home?: string; json?: boolean }
      const config = configOf(given)
      const { text, json } = await withPeople(config, async (people, by) =>
        work(people, await people.find(who), { values, words: rest, config, by })
      )
      print(given.json === true, text, json)
    }
  }
}

export const listUsers: Command = {
  name: 'user list',
  usage: '[TEXT] [--role ROLE] [--disabled] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Accounts, oldest first, a line each: id, address, role, since when disabled, last seen. Example: colloquy user list --role admin',
  options: [
    ['TEXT', 'part of an address'],
    ['--role ROLE', SYSTEM_ROLES.join(', ')],
    ['--disabled', 'only disabled ones'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const own = { role: { type: 'string' }, disabled: { type: 'boolean', default: false } } as const
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...own }, true)
    if (positionals.length > 1) throw new UsageError('One TEXT is enough')
    const search = {
      text: (positionals[0] ?? '').toLowerCase(),
      ...(values.role !== undefined && { role: roleOf(values.role) }),
      ...(values.disabled && { isDisabled: true })
    }
    await withPeople(configOf(values), async (people) => {
      for await (const user of allOf(async (page) => (await people.list({ ...search, ...page })).users)) {
        const { id, email, system_role, disabled_at, last_seen_at } = user
        const line = [id, email, system_role, disabled_at ? `disabled ${disabled_at}` : '-', last_seen_at ?? '-']
        print(values.json, line.join('\t'), { ...shown(user), last_seen_at })
      }
    })
  }
}

export const createUser: Command = {
  name: 'user create',
  usage: 'EMAIL [--role ROLE] [--password-stdin] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Makes an account, and prints a link by which its person sets a password, once within a day. Example: colloquy user create ann@example.com --role auditor',
  options: [
    ['EMAIL', 'its address; with --role service its name'],
    ['--role ROLE', 'user (default), auditor, admin, or service: an account of no person, for programs'],
    ['--password-stdin', 'reads its password from stdin, and prints no link'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const own = { role: { type: 'string', default: 'user' }, 'password-stdin': { type: 'boolean' } } as const
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...own }, true)
    const [email, ...more] = positionals
    if (email === undefined || more.length > 0) throw new UsageError('One EMAIL is needed')
    const password = values['password-stdin'] ? await passwordFromStdin() : null
    const config = configOf(values)
    const { newAccount } = await import('../lib/operator/people.ts')
    const account = newAccount(email, roleOf(values.role), password)
    await withPeople(config, async (people, by) => {
      const user = await people.create(account, by)
      const needsLink = password === null && account.role !== 'service'
      const link = needsLink ? await linkOf(people, user, config, by) : null
      print(values.json, link?.text ?? user.id, { ...shown(user), ...(link && { password_link: link.json }) })
    })
  }
}

export const inviteUser: Command = {
  name: 'user invite',
  usage: '[--name TEXT] [--expires-in-days NUMBER] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Makes an invitation, good for one account, and prints it, once. Example: colloquy user invite --name "Ann of sales"',
  options: [
    ['--name TEXT', 'a note on whom it is for'],
    ['--expires-in-days NUMBER', 'default 7'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const own = { name: { type: 'string', default: '' }, 'expires-in-days': { type: 'string', default: '7' } } as const
    const { values } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...own })
    const days = Number(values['expires-in-days'])
    if (!Number.isInteger(days) || days < 1 || days > 365)
      throw new UsageError('--expires-in-days must be a whole number from 1 to 365')
    const config = configOf(values)
    const { invite } = await import('../lib/operator/people.ts')
    const { text, expires_at } = await invite(config, values.name, days)
    const url = addressOf(config, `invitation/${text}`)
    print(values.json, url ?? text, { invitation: text, url, expires_at })
  }
}

export const disableUser = onUser({
  name: 'disable',
  summary:
    'Nobody may sign in to it any more: sessions and tokens end at once, its streams within a heartbeat, its runs within six, and its crons are off. Example: colloquy user disable ann@example.com',
  work: async (people, { id }, { by }) => {
    const user = await people.setDisabled(id, true, by)
    return { text: `${user.email} is disabled`, json: shown(user) }
  }
})

export const enableUser = onUser({
  name: 'enable',
  summary: 'Its person may sign in again; tokens and crons stay gone. Example: colloquy user enable ann@example.com',
  work: async (people, { id }, { by }) => {
    const user = await people.setDisabled(id, false, by)
    return { text: `${user.email} is enabled`, json: shown(user) }
  }
})

export const deleteUser = onUser({
  name: 'delete',
  summary:
    'Removes an account: threads, files, memory, items, assistants, crons and tokens go with it. The server does that at once, or when it starts. Example: colloquy user delete ann@example.com',
  work: async (people, { id }, { by }) => {
    const { email } = await people.remove(id, by)
    const text = `${email} is gone. What it has left is removed by the server, at once or when it starts: colloquy jobs list shows departure ${id} until then`
    return { text, json: { id, email } }
  }
})

export const eraseUser = onUser({
  name: 'erase',
  summary:
    'Removes an account until no byte of it is left, and waits for that: about a minute beside a running server. SQLite’s file is written anew, while which writers wait; the audit keeps the id. Example: colloquy user erase ann@example.com',
  work: async (_people, user, { config, by }) => {
    const { eraseAccount } = await import('../lib/operator/erase.ts')
    const { copies } = await eraseAccount(config, user, by)
    const { id, email } = user
    const left = copies.length > 0 ? `; copies from before are yours to delete: ${copies.join(', ')}` : ''
    return { text: `Nothing of ${email} is left but ${id} in the audit${left}`, json: { id, email, copies } }
  }
})

export const exportUser = onUser({
  name: 'export',
  words: ['FILE'],
  summary:
    'Writes everything that is kept of an account to a new ZIP archive: conversations as JSON and Markdown, and files. Example: colloquy user export ann@example.com ann.zip',
  work: async (_people, user, { words: [file = ''], config, by }) => {
    const { exportAccount } = await import('../lib/operator/people.ts')
    await exportAccount(config, user, file, by)
    return { text: `${file} has all of ${user.email}`, json: { ...shown(user), file } }
  }
})

export const setRole = onUser({
  name: 'role',
  words: ['ROLE'],
  summary: 'Gives an account a role: user, auditor or admin. Example: colloquy user role ann@example.com auditor',
  work: async (people, { id }, { words: [role = ''], by }) => {
    const user = await people.setRole(id, roleOf(role), by)
    return { text: `${user.email} is ${user.system_role}`, json: shown(user) }
  }
})

const LIMIT_OPTIONS = Object.fromEntries(
  QUOTA_LIMITS.map((name) => [name.replaceAll('_', '-'), { type: 'string' } as const])
)

export const setQuota = onUser({
  name: 'quota',
  usage: '[--LIMIT NUMBER]... [--default] ',
  options: { ...LIMIT_OPTIONS, default: { type: 'boolean' } },
  help: [
    ...QUOTA_LIMITS.map(
      (name) => [`--${name.replaceAll('_', '-')} NUMBER`, '0: no limit; default: what it has'] as const
    ),
    ['--default', 'takes its own quota away: it has what its groups and everybody have']
  ],
  summary:
    'Gives an account a quota of its own, also a service account, and prints it; without options only prints it. Example: colloquy user quota ann@example.com --runs-per-day 50',
  work: async (people, user, { values, by }) => {
    const given = QUOTA_LIMITS.flatMap((name) => {
      const text = values[name.replaceAll('_', '-')]
      return text === undefined ? [] : [[name, limitOf(name, String(text))] as const]
    })
    if (values.default && given.length > 0) throw new UsageError('--default stands alone')
    const wanted = values.default ? null : { ...user.quota, ...Object.fromEntries(given) }
    const isChange = values.default === true || given.length > 0
    const { id, email, quota = null } = isChange ? await people.setQuota(user.id, wanted, by) : user
    const lines = Object.entries(quota ?? {}).map(([name, value]) => `${name}\t${value}`)
    return { text: lines.join('\n') || `${email} has no quota of its own`, json: { id, email, quota } }
  }
})

function limitOf(name: string, text: string): number {
  const value = Number(text)
  const isWhole = name === 'money_per_month' || Number.isSafeInteger(value)
  if (!/^\d+(\.\d+)?$/.test(text) || !isWhole)
    throw new UsageError(
      `--${name.replaceAll('_', '-')} must be a ${name === 'money_per_month' ? '' : 'whole '}number from 0`
    )
  return value
}

export const setPassword = onUser({
  name: 'password',
  usage: '[--link | --stdin] ',
  options: { link: { type: 'boolean' }, stdin: { type: 'boolean' } },
  help: [
    ['--link', 'prints a link by which its person sets one, once within a day; the old one stays until then'],
    ['--stdin', 'reads the new one from stdin']
  ],
  summary:
    'Gives an account a new password and prints it; ends its sessions and tokens. Example: colloquy user password ann@example.com --link',
  work: async (people, user, { values, config, by }) => {
    if (values.link) return linkOf(people, user, config, by)
    const given = values.stdin ? await passwordFromStdin() : null
    if (given !== null) (await import('../lib/operator/people.ts')).checkPassword(given)
    const password = await people.setPassword(user.id, given, by)
    return given === null
      ? { text: password, json: { id: user.id, password } }
      : { text: `${user.email} has the new password`, json: { id: user.id } }
  }
})

export const userSessions = onUser({
  name: 'sessions',
  usage: '[--end] ',
  options: { end: { type: 'boolean' } },
  help: [['--end', 'ends all of them']],
  summary:
    'Sessions of an account, newest first, a line each: id, since, last used, address, device. Example: colloquy user sessions ann@example.com',
  work: async (people, { id, email }, { values, by }) => {
    if (values.end) {
      await people.endSessions(id, by)
      return { text: `The sessions of ${email} have ended`, json: { sessions: [] } }
    }
    const { sessionIdOf } = await import('../lib/operator/people.ts')
    const sessions = (await people.sessions(id)).map((session) => ({ session_id: sessionIdOf(session), ...session }))
    const lines = sessions.map(({ session_id, created_at, last_used_at, address, device }) =>
      [session_id, created_at, last_used_at, address ?? '-', device ?? '-'].join('\t')
    )
    return { text: lines.join('\n'), json: { sessions: sessions.map(({ digest: _, ...one }) => one) } }
  }
})

async function linkOf(people: People, { id }: User, config: Config, by: Actor) {
  const { token, text } = await people.passwordLink(id, by)
  const url = addressOf(config, `password/${text}`)
  return { text: url, json: { token: text, url, expires_at: token.expires_at } }
}

/** Where the page takes it; the server may know better where it is reached. */
function addressOf({ server }: Config, rest: string): string {
  const base = server.public_url ?? urlAt(server.host, server.port)
  return `${base.replace(/\/+$/, '')}/#/${rest}`
}

function roleOf(text: string): SystemRole {
  const role = SYSTEM_ROLES.find((one) => one === text)
  if (role === undefined) throw new UsageError(`"${text}" is no role. There are: ${SYSTEM_ROLES.join(', ')}`)
  return role
}

async function passwordFromStdin(): Promise<string> {
  return (await textOf(process.stdin)).replace(/\r?\n$/, '')
}
