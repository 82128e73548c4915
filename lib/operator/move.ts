// Copies all rows into another database, of either kind, while no server uses it, and compares them. The files of the home stay where
// they are.
import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Actor } from '../auth/audit.ts'
import type { Config } from '../config/config.ts'
import { lockPremises } from '../files/home.ts'
import { copyRows, type TableSum } from '../store/copy.ts'
import { copiedTables, type DatabaseOptions, isInUse, openCopySource, openCopyTarget } from '../store/open.ts'
import { recorded } from './operator.ts'

interface Moved {
  readonly from: string
  readonly to: 'sqlite' | 'postgres'
  readonly tables: readonly TableSum[]
}

/**
 * Copies the rows to a PostgreSQL database (a URL) or a new SQLite file (a path), and compares them. One that was cut goes on when it is
 * asked for again. The source is left as it is; no server may use it meanwhile.
 * @throws Error when a server uses one of them, when the target has rows of its own, and when rows have not arrived as they were
 */
export async function moveDatabase(
  config: Config,
  target: string,
  by: Actor,
  onTable: (sum: TableSum) => void
): Promise<Moved> {
  const { home, database } = config
  const isToPostgres = /^postgres(ql)?:/.test(target)
  const to = { ...database, ...(isToPostgres ? postgresOf(target) : sqliteOf(`${resolve(target)}.part`)) }
  if (!isToPostgres && existsSync(resolve(target))) throw new Error(`There is a file ${resolve(target)} already`)
  if (isToPostgres && database.backend === 'postgres' && database.postgres_url === target)
    throw new Error('The configuration names that as its database already: move the rows before you change it')
  const isFile = database.backend === 'sqlite'
  if (isFile && !existsSync(database.sqlite_path)) throw new Error(`There is no database ${database.sqlite_path}`)
  await refuseServed(config)
  const unlock = isFile ? lockPremises({ home, canShare: false, databaseFile: database.sqlite_path }) : null
  let tables: readonly TableSum[]
  try {
    tables = await copied(database, to, onTable)
    await refuseServed(config)
  } finally {
    unlock?.()
  }
  if (!isToPostgres) {
    for (const end of ['-wal', '-shm']) await rm(to.sqlite_path + end, { force: true })
    await rename(to.sqlite_path, resolve(target))
  }
  const moved = { ...to, sqlite_path: resolve(isToPostgres ? to.sqlite_path : target) }
  await recorded({ ...config, database: moved }, 'move', by, { from: String(database.backend) })
  return { from: String(database.backend), to: isToPostgres ? 'postgres' : 'sqlite', tables }
}

async function copied(from: DatabaseOptions, to: DatabaseOptions, onTable: (sum: TableSum) => void) {
  const source = await openCopySource(from)
  try {
    const all = copiedTables()
    const target = await openCopyTarget(to, all)
    return await copyRows(source, target, all, onTable).finally(() => target.close())
  } finally {
    await source.close()
  }
}

/** What it wrote after the copy would be lost. */
async function refuseServed(config: Config): Promise<void> {
  if (await isInUse(config)) throw new Error('A server is using the database: stop it first')
}

function postgresOf(postgres_url: string) {
  return { backend: 'postgres', postgres_url } as const
}

function sqliteOf(sqlite_path: string) {
  return { backend: 'sqlite', sqlite_path } as const
}

export { OPERATOR } from '../auth/audit.ts'
