// colloquy backup, restore and move: copies of an installation, made while it serves, and put back or into the other kind of database.
import {
  type Command,
  configOf,
  FLAG,
  INSTALLATION,
  INSTALLATION_HELP,
  JSON_HELP,
  JSON_OPTION,
  parse,
  print,
  UsageError
} from './command.ts'
import { loadConfig } from '../lib/config/config.ts'
import { variableText } from '../lib/config/environment.ts'

/** How much there is in one. */
function summaryOf({ tables, files, made_at, with_secrets, backend, version }: Saved) {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  return { made_at, version, backend, with_secrets, tables: tables.length, rows, files: files.length }
}
interface Saved {
  readonly tables: readonly { readonly rows: number }[]
  readonly files: readonly unknown[]
  readonly made_at: string
  readonly with_secrets: boolean
  readonly backend: string
  readonly version: string
}

export const backup: Command = {
  name: 'backup',
  usage: 'FILE [--with-secrets] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Writes a backup to a new file, also beside a running server: the rows of one moment, and then the files of the home. Example: colloquy backup /backup/colloquy-2026-01-31.zip',
  options: [
    ['FILE', 'a ZIP archive that only its owner may read'],
    [
      '--with-secrets',
      'also the secret of sessions, links and initial passwords, the configuration, and what tool servers are given'
    ],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, 'with-secrets': FLAG }, true)
    const file = only(positionals, 'FILE')
    const { backUp, OPERATOR } = await import('../lib/operator/backup.ts')
    const made = summaryOf(await backUp(configOf(values), file, values['with-secrets'], OPERATOR))
    print(values.json, `${file} has ${made.rows} rows and ${made.files} files`, { file, ...made })
  }
}

export const restore: Command = {
  name: 'restore',
  usage: 'FILE [--check | --user USER | --thread ID] [--json] [--config FILE] [--home FOLDER]',
  summary:
    'Restores a backup into an empty home and the database of the configuration, which may be of the other kind. Example: colloquy restore /backup/colloquy-2026-01-31.zip --home /var/lib/colloquy',
  options: [
    ['FILE', 'what colloquy backup has written'],
    [
      '--user USER',
      'only this account, by address or id, with its threads and files, beside a running server too: what is there stays'
    ],
    ['--thread ID', 'only this thread with its files, if it is not there'],
    ['--check', 'only reads it: each byte against its hash, and each table against its count'],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const own = { check: FLAG, user: { type: 'string' }, thread: { type: 'string' } } as const
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION, ...own }, true)
    const file = only(positionals, 'FILE')
    const { user, thread } = values
    if ([values.check, user !== undefined, thread !== undefined].filter(Boolean).length > 1)
      throw new UsageError('One of --check, --user and --thread')
    const part = user !== undefined ? { user } : thread !== undefined ? { thread } : null
    const { checkBackup, restore: put, restorePart, OPERATOR } = await import('../lib/operator/restore.ts')
    if (part) {
      const { threads, skipped, ...more } = await restorePart(configOf(values), file, part, OPERATOR)
      const text = `${threads.length} threads and ${more.files} files are back; ${skipped.length} threads were there`
      return print(values.json, text, { file, threads, skipped, ...more })
    }
    const config = values.check ? null : configOf(values)
    const found = summaryOf(await (config ? put(config, file, OPERATOR) : checkBackup(file)))
    const what = `${found.rows} rows and ${found.files} files of ${found.made_at}`
    print(values.json, config ? `${config.home} has ${what}` : `${file} is whole: ${what}`, { file, ...found })
  }
}

export const move: Command = {
  name: 'move',
  usage: 'TARGET [--json] [--config FILE] [--home FOLDER]',
  summary:
    "Copies all rows to a PostgreSQL database, or from one to a new SQLite file, and compares them; while no server runs. The source stays as it is. Example: colloquy move '$DATABASE_URL'",
  options: [
    [
      'TARGET',
      'postgres://user:password@host:port/name, the path of a new file, or $NAME: that environment variable, or what the file holds that NAME_FILE names'
    ],
    JSON_HELP,
    ...INSTALLATION_HELP
  ],
  async run(args) {
    const { values, positionals } = parse(args, { ...INSTALLATION, ...JSON_OPTION }, true)
    const { target, config } = moving(only(positionals, 'TARGET'), values)
    const { moveDatabase, OPERATOR } = await import('../lib/operator/move.ts')
    const { from, to, tables } = await moveDatabase(config, target, OPERATOR, ({ name, rows, hash }) =>
      print(values.json, `${name}\t${rows}`, { table: name, rows, hash })
    )
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    const next = `Set database.backend to ${to}, and its ${to === 'postgres' ? 'postgres_url' : 'sqlite_path'}, and start the server`
    print(values.json, `${rows} rows are in both, and the same. ${next}`, { from, to, tables: tables.length, rows })
  }
}

/**
 * Where the rows go, and the configuration that says where they are. A variable may name it: a URL has a password, which others see in the
 * list of processes.
 */
function moving(written: string, { config: file, home }: { config?: string; home?: string }) {
  const [, name] = /^\$(\w+)$/.exec(written) ?? []
  const config = configOf({ config: file, home })
  if (name === undefined) return { target: written, config }
  const target = variableText(process.env, name)
  if (!target) throw new UsageError(`There is no environment variable ${name}`)
  if (config.database.postgres_url !== target) return { target, config }
  // A server takes DATABASE_URL for its own database; what stands here is where the rows are to go.
  const { [name]: _, [`${name}_FILE`]: __, ...env } = process.env
  try {
    return { target, config: loadConfig({ file, home, env }) }
  } catch {
    // The file names it too.
    return { target, config }
  }
}

function only(positionals: readonly string[], name: string): string {
  const [first, ...more] = positionals
  if (first === undefined || more.length > 0) throw new UsageError(`One ${name} is needed`)
  return first
}
