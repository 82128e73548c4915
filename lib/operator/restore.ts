// Restoring: a backup put back into an empty home, on either database, or one part of it beside a running server.
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { type Actor, userName } from '../auth/audit.ts'
import { findAccount } from '../auth/email.ts'
import type { Config } from '../config/config.ts'
import { lockPremises } from '../files/home.ts'
import { checkRows, copyRows } from '../store/copy.ts'
import { type PartCopied, PartCopier } from '../store/copy-part.ts'
import { copiedTables, openCopyTarget, openPartTarget, openSqliteSource, openSqliteTarget } from '../store/open.ts'
import { databaseFiles } from './backup.ts'
import { type Backup, type Manifest, openBackup } from './backup-file.ts'
import { recorded } from './operator.ts'

/** What a home may have that others are restored to: it is the operator's. */
const OPERATORS = /^(.*\.ya?ml|\.env.*|serve\.lock.*)$/

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
    refuseOtherEvents(config, backup.manifest)
    await refuseUsed(config)
    // Also of a server on the same database: nobody else writes here.
    const unlock = lockPremises({ home, canShare: false, databaseFile: isPostgres ? null : sqlite_path })
    const rows = isPostgres ? join(home, 'restored.db.part') : `${sqlite_path}.part`
    const made: string[] = []
    try {
      await extractRows(backup, rows)
      // A configuration that is there is the one that counts.
      const isWanted = (path: string) => !OPERATORS.test(path) || !existsSync(join(home, path))
      await backup.extractFiles(home, isWanted, (path) => made.push(path))
      if (isPostgres) await copyFile(config, rows)
      else await rename(rows, sqlite_path)
    } catch (error) {
      const lock = isPostgres ? [] : ['', '-journal'].map((end) => `${sqlite_path}.lock${end}`)
      const own = [...databaseFiles(rows), ...lock]
      const within = own.map((path) => relative(home, path)).filter((path) => !path.startsWith('..'))
      await removeMade(home, [...made, ...within], backup.manifest)
      throw error
    } finally {
      for (const left of databaseFiles(rows)) await rm(left, { force: true })
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
 * @throws Error when the backup has nothing of this name, or is of another version, or (all else is back) a thread is still being removed
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
    refuseOtherEvents(config, backup.manifest)
    await extractRows(backup, rows)
    await openSqliteTarget(rows).close()
    const source = openSqliteSource(rows)
    const target = await openPartTarget(config.database)
    let files = 0
    // Before their rows: of a restore that was cut what has no rows comes back the next time.
    const copier = new PartCopier({
      ...{ source, target, tables: copiedTables() },
      onThread: async (threadId, owner) => {
        files += await backup.extractFiles(config.home, isFileOf(config.home, owner, threadId))
      }
    })
    const work = async () =>
      'user' in part ? copier.user((await findAccount(copier, part.user)) ?? part.user) : copier.thread(part.thread)
    const { owner, ...copied } = await work().finally(async () => {
      await target.close()
      await source.close()
    })
    if ('user' in part) files += await backup.extractFiles(config.home, isFileOf(config.home, owner, null))
    const name = 'user' in part ? userName(String(owner)) : `thread:${part.thread}`
    await recorded(config, 'restore', by, { made_at: backup.manifest.made_at, threads: copied.threads.length }, name)
    if (copied.beingRemoved.length > 0)
      throw new Error(
        `All is back but what a server is still removing: restore it again when that is done (${copied.beingRemoved.join(', ')})`
      )
    return { ...copied, files }
  } finally {
    backup.close()
    for (const left of databaseFiles(rows)) await rm(left, { force: true })
  }
}

/** Whether it is not there, and of this thread, or (null) of its owner and of none. */
function isFileOf(home: string, owner: string | null, threadId: string | null) {
  return (path: string): boolean => {
    if (existsSync(join(home, path))) return false
    const [, user, ofUser] = /^(?:users\/([^/]+)\/)?threads\/([^/]+)\//.exec(path) ?? []
    if (ofUser !== undefined) return ofUser === threadId && (user === undefined || user === owner)
    return threadId === null && path.startsWith(`users/${owner}/`)
  }
}

/** Events that are in files or rows are read where the configuration says, and nowhere else. */
function refuseOtherEvents({ run_events }: Config, { run_events: saved = 'memory' }: Manifest): void {
  if (saved !== 'memory' && saved !== run_events.backend)
    throw new Error(`The backup has its run events in ${saved}: set run_events.backend to ${saved}`)
}

async function refuseUsed({ home, database }: Config): Promise<void> {
  const names = await readdir(home).catch((): string[] => [])
  const used = names.find((name) => !OPERATORS.test(name))
  if (used !== undefined)
    throw new Error(`The home ${home} is not empty: there is ${used}. Choose another one with --home`)
  if (database.backend === 'sqlite' && existsSync(database.sqlite_path))
    throw new Error(`There is a database ${database.sqlite_path} already`)
}

/** What was restored in part goes, and nothing else: a server that shares the home may have come meanwhile. */
async function removeMade(home: string, made: readonly string[], { files }: Manifest): Promise<void> {
  for (const path of made) await rm(join(home, path), { force: true })
  // Folders that are empty by now, also of a file that was not made.
  for (const path of [...made, ...files.map((one) => one.path)])
    for (let folder = dirname(path); folder !== '.'; folder = dirname(folder))
      await rmdir(join(home, folder)).catch(() => {})
}

async function extractRows(backup: Backup, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  // Of one that was killed.
  for (const left of databaseFiles(to)) await rm(left, { force: true })
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

export { OPERATOR } from '../auth/audit.ts'
