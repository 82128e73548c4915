// Backups: everything that an installation has, in one file, made while it serves.
import { existsSync } from 'node:fs'
import { readFile, rename, rm } from 'node:fs/promises'
import { dirname, relative, resolve, sep } from 'node:path'
import { masked, secretsIn } from '../agent/mcp/secrets.ts'
import { CREDENTIALS_FILE } from '../auth/admin.ts'
import type { Actor } from '../auth/audit.ts'
import { SECRET_FILE } from '../auth/session.ts'
import { VAPID_FILE } from '../jobs/web-push.ts'
import { SETUP_FILE } from '../auth/setup-link.ts'
import { isObject, timestamp } from '../base/types.ts'
import { VERSION } from '../base/version.ts'
import type { Config } from '../config/config.ts'
import { EXTENSIONS_FILE } from '../files/extensions.ts'
import { OF_PROCESS } from '../files/home.ts'
import { serversIn } from '../routes/mcp.ts'
import { copyRows } from '../store/copy.ts'
import { copiedTables, openCopySource, openSqliteTarget } from '../store/open.ts'
import { type Content, type Manifest, writeBackup } from './backup-file.ts'
import { recorded } from './operator.ts'

/** Files at the top of the home that are secrets as a whole, and those of the operator, which name some. */
const SECRET = new RegExp(
  `^(${[SECRET_FILE, SETUP_FILE, VAPID_FILE].join('|')}|${CREDENTIALS_FILE}.*|.*\\.ya?ml|\\.env.*)$`
)
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
  const { backend: run_events } = config.run_events
  if (typeof run_events === 'object') throw new Error('run_events.backend is a module: only that can copy its events')
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
      run_events,
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

/** A SQLite file with what lies beside it. */
export function databaseFiles(path: string): string[] {
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
    const isOwn = OF_PROCESS.test(path) || isBeside(path, databaseFile) || isBeside(path, backup)
    if (isOwn || INCOMPLETE.test(path)) return undefined
    if (withSecrets) return null
    if (SECRET.test(path)) return undefined
    return path === EXTENSIONS_FILE ? withoutSecrets : null
  }
}

/** A file, and what stands beside it under its name and an ending. */
function isBeside(path: string, file: string): boolean {
  return path.startsWith(file) && /^([.-]|$)/.test(path.slice(file.length))
}

/** Tool servers that are given secrets are off until somebody enters them again. */
async function withoutSecrets(path: string): Promise<string> {
  const file: unknown = JSON.parse(await readFile(path, 'utf8'))
  if (!isObject(file)) return '{}'
  const { mcpServers, skills = {}, sealed } = file
  const servers = Object.entries(serversIn(isObject(mcpServers) ? mcpServers : {})).map(([name, server]) => {
    if (secretsIn(server).length === 0) return [name, server] as const
    const { oauth, ...shown } = masked(server)
    const bare = oauth && { ...oauth, client_secret: null, refresh_token: null, extra_token_params: {} }
    return [name, { ...shown, enabled: false, env: {}, headers: {}, oauth: bare }] as const
  })
  // What is sealed is encrypted by a key that is not in the home.
  return JSON.stringify({ mcpServers: Object.fromEntries(servers), skills, sealed }, null, 2)
}

export { OPERATOR } from '../auth/audit.ts'
