// Backups: everything that an installation has, in one file, made while it serves; restored into an empty home, on either database.
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { masked, secretsIn } from '../agent/mcp/secrets.ts'
import { CREDENTIALS_FILE } from '../auth/admin.ts'
import { type Actor, Audit, type AuditAction, userName } from '../auth/audit.ts'
import { SECRET_FILE } from '../auth/session.ts'
import { SETUP_FILE } from '../auth/setup-link.ts'
import { isObject, type JsonObject, timestamp } from '../base/types.ts'
import { VERSION } from '../base/version.ts'
import type { Config } from '../config/config.ts'
import { EXTENSIONS_FILE } from '../files/extensions.ts'
import { OF_PROCESS, lockPremises } from '../files/home.ts'
import { serversIn } from '../routes/mcp.ts'
import { checkRows, copyRows } from '../store/copy.ts'
import { type PartCopied, PartCopier } from '../store/copy-part.ts'
import {
  copiedTables,
  openCopySource,
  openCopyTarget,
  openPartTarget,
  openSqliteSource,
  openSqliteTarget
} from '../store/open.ts'
import { type Backup, type Content, type Manifest, openBackup, writeBackup } from './backup-file.ts'
import { beside, SILENT } from './operator.ts'

/** What a home may have that others are restored to: it is the operator's. */
const OPERATORS = /^(.*\.ya?ml|\.env.*|serve\.lock.*)$/
/** Files at the top of the home that are secrets as a whole, and those of the operator, which name some. */
const SECRET = new RegExp(`^(${[SECRET_FILE, SETUP_FILE].join('|')}|${CREDENTIALS_FILE}.*|.*\\.ya?ml|\\.env.*)$`)
/** Uploads that are not complete, and drafts. */
const INCOMPLETE = /^(users\/[^/]+\/)?incoming\/|\.[0-9a-f-]{36}\.part$/

/**
 * Writes a backup: the rows of one moment, and then the files, so that no row lacks its file. `withSecrets`: with the secret of sessions,
 * links and initial passwords, the operator's configuration, and what tool servers are given.
 * @throws Error when there is such a file, or the database cannot be copied
 */
export async function backUp(config: Config, target: string, withSecrets: boolean, by: Actor): Promise<Manifest> {
  const file = resolve(target)
  if (!existsSync(dirname(file))) throw new Error(`There is no folder ${dirname(file)}`)
  if (existsSync(file)) throw new Error(`There is a file ${file} already`)
  const [draft, rows] = [`${file}.part`, `${file}.db.part`]
  try {
    for (const left of [draft, ...databaseFiles(rows)]) await rm(left, { force: true })
    const source = await openCopySource(config.database)
    const copy = openSqliteTarget(rows)
    const tables = await copyRows(source, copy, copiedTables()).finally(async () => {
      await copy.close()
      await source.close()
    })
    const head = {
      version: VERSION,
      made_at: timestamp(),
      backend: String(config.database.backend),
      with_secrets: withSecrets,
      tables
    }
    const made = await writeBackup(draft, head, rows, {
      root: config.home,
      contentOf: contents(config, file, withSecrets)
    })
    await rename(draft, file)
    await recorded(config, 'backup', by, { with_secrets: withSecrets })
    return made
  } finally {
    for (const left of [draft, ...databaseFiles(rows)]) await rm(left, { force: true })
  }
}

function databaseFiles(path: string): string[] {
  return ['', '-wal', '-shm'].map((end) => path + end)
}

/** The file itself and its drafts may lie in the home. */
function contents(
  { home, database }: Config,
  file: string,
  withSecrets: boolean
): (path: string) => Content | undefined {
  const within = (path: string) => relative(home, path).split(sep).join('/')
  const [databaseFile, backup] = [within(database.sqlite_path), within(file)]
  return (path) => {
    const isOwn = OF_PROCESS.test(path) || path.startsWith(databaseFile) || path.startsWith(backup)
    if (isOwn || INCOMPLETE.test(path)) return undefined
    if (withSecrets) return null
    if (SECRET.test(path)) return undefined
    return path === EXTENSIONS_FILE ? withoutSecrets : null
  }
}

/** Tool servers that are given secrets are off until somebody enters them again. */
async function withoutSecrets(path: string): Promise<string> {
  const file: unknown = JSON.parse(await readFile(path, 'utf8'))
  if (!isObject(file)) return '{}'
  const { mcpServers, skills = {}, sealed } = file
  // Encrypted, by a key that is not in the home.
  if (sealed !== undefined) return JSON.stringify(file, null, 2)
  const servers = Object.entries(serversIn(isObject(mcpServers) ? mcpServers : {})).map(([name, server]) => {
    if (secretsIn(server).length === 0) return [name, server] as const
    const { oauth, ...shown } = masked(server)
    const bare = oauth && { ...oauth, client_secret: null, refresh_token: null, extra_token_params: {} }
    return [name, { ...shown, enabled: false, env: {}, headers: {}, oauth: bare }] as const
  })
  return JSON.stringify({ mcpServers: Object.fromEntries(servers), skills }, null, 2)
}

// --------------------------------------------------------------------------------------------------- restoring

/** Reads a whole backup: each byte is compared with its hash, and each table counted and hashed. @throws Error when one differs */
export async function checkBackup(file: string): Promise<Manifest> {
  const backup = await openBackup(resolve(file))
  const rows = `${resolve(file)}.db.part`
  try {
    await extractRows(backup, rows)
    await backup.extractFiles(null)
    return backup.manifest
  } finally {
    backup.close()
    for (const left of databaseFiles(rows)) await rm(left, { force: true })
  }
}

/**
 * Restores a backup into an empty home, and into the database of the configuration, which has no rows yet.
 * @throws Error when there is something, or the backup is not what was saved; then nothing is left in the home
 */
export async function restore(config: Config, file: string, by: Actor): Promise<Manifest> {
  const { home } = config
  const { backend, sqlite_path } = config.database
  const isPostgres = backend === 'postgres'
  const backup = await openBackup(resolve(file))
  try {
    await refuseUsed(config)
    const unlock = lockPremises({ home, canShare: isPostgres, databaseFile: isPostgres ? null : sqlite_path })
    try {
      const rows = isPostgres ? join(home, 'restored.db.part') : `${sqlite_path}.part`
      await extractRows(backup, rows)
      // A configuration that is there is the one that counts.
      await backup.extractFiles(home, (path) => !OPERATORS.test(path) || !existsSync(join(home, path)))
      if (isPostgres) await copyFile(config, rows)
      else await rename(rows, sqlite_path)
      for (const left of databaseFiles(rows)) await rm(left, { force: true })
    } catch (error) {
      await emptied(config)
      throw error
    } finally {
      unlock?.()
    }
    await recorded(config, 'restore', by, { made_at: backup.manifest.made_at })
    return backup.manifest
  } finally {
    backup.close()
  }
}

/** One thread, or one user by id or e-mail address. */
export type Part = { readonly thread: string } | { readonly user: string }

/**
 * Puts one thread back, or one user with all threads, also beside a running server. What is there stays: threads of the same id are skipped.
 * Credentials other than the password do not come back, and crons are off.
 * @throws Error when the backup has nothing of this name, or it is of another version
 */
export async function restorePart(
  config: Config,
  file: string,
  part: Part,
  by: Actor
): Promise<PartCopied & { files: number }> {
  const backup = await openBackup(resolve(file))
  const rows = `${resolve(file)}.db.part`
  try {
    await extractRows(backup, rows)
    await openSqliteTarget(rows).close()
    const source = openSqliteSource(rows)
    const target = await openPartTarget(config.database)
    const copier = new PartCopier({ source, target, tables: copiedTables() })
    const work = 'user' in part ? copier.user(part.user) : copier.thread(part.thread)
    const { owner, ...copied } = await work.finally(async () => {
      await target.close()
      await source.close()
    })
    const files = await backup.extractFiles(config.home, filesOfPart(config.home, owner, copied, 'user' in part))
    const name = 'user' in part ? userName(String(owner)) : `thread:${part.thread}`
    await recorded(config, 'restore', by, { made_at: backup.manifest.made_at, threads: copied.threads.length }, name)
    return { ...copied, files }
  } finally {
    backup.close()
    for (const left of databaseFiles(rows)) await rm(left, { force: true })
  }
}

/** Of threads that have come back, and of a user what is not there. */
function filesOfPart(home: string, owner: string | null, { threads, skipped }: PartCopied, isUser: boolean) {
  const restored = new Set(threads)
  const there = new Set(skipped)
  return (path: string): boolean => {
    if (existsSync(join(home, path))) return false
    const [, user, ofUser] = /^(?:users\/([^/]+)\/)?threads\/([^/]+)\//.exec(path) ?? []
    if (ofUser !== undefined)
      return restored.has(ofUser) && !there.has(ofUser) && (user === undefined || user === owner)
    return isUser && path.startsWith(`users/${owner}/`)
  }
}

async function refuseUsed({ home, database }: Config): Promise<void> {
  const names = await readdir(home).catch((): string[] => [])
  const used = names.find((name) => !OPERATORS.test(name))
  if (used !== undefined)
    throw new Error(`The home ${home} is not empty: there is ${used}. Choose another one with --home`)
  if (database.backend === 'sqlite' && existsSync(database.sqlite_path))
    throw new Error(`There is a database ${database.sqlite_path} already`)
}

/** What was restored in part goes; it was empty before. */
async function emptied({ home, database }: Config): Promise<void> {
  for (const name of await readdir(home)) if (!OPERATORS.test(name)) await rm(join(home, name), { recursive: true })
  for (const left of databaseFiles(`${database.sqlite_path}.part`)) await rm(left, { force: true })
}

async function extractRows(backup: Backup, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await backup.extractDatabase(to)
  const source = openSqliteSource(to, { mayBeOlder: true })
  await checkRows(source, backup.manifest.tables).finally(() => source.close())
  for (const left of databaseFiles(to).slice(1)) await rm(left, { force: true })
}

/** Into PostgreSQL. A backup of an older version is brought to this one's schema first. */
async function copyFile({ database }: Config, file: string): Promise<void> {
  await openSqliteTarget(file).close()
  const source = openSqliteSource(file)
  try {
    const tables = copiedTables()
    const target = await openCopyTarget(database, tables)
    await copyRows(source, target, tables).finally(() => target.close())
  } finally {
    await source.close()
  }
}

export async function recorded(
  config: Config,
  action: AuditAction,
  by: Actor,
  details: JsonObject,
  target: string | null = null
): Promise<void> {
  await beside(config, (_, writer) => new Audit({ writer, log: SILENT }).record(action, by, target, details))
}

export { OPERATOR } from '../auth/audit.ts'
