// What a start says of the installation, and what of it belongs to one process: the home, and the file of the database.
import { ofHeap } from '../base/budget.ts'
import { COMMIT, VERSION } from '../base/version.ts'
import { type Config, unusedOptions } from '../config/config.ts'
import { lockPremises } from '../files/home.ts'
import type { Log } from '../http/server.ts'

/** What V8 allows with --max-old-space-size=64: with less, a body of the largest kind can abort the process. */
const LEAST_HEAP_MB = 112

/** Logs what is installed here and how, and what of it is not as it should be. */
export function reportInstallation(config: Config, log: Log): void {
  log.info(installationOf(config), 'starting')
  for (const sentence of unusedOptions(config)) log.warn({}, sentence)
  const heapMb = Math.floor(ofHeap(Number.POSITIVE_INFINITY, 1) / 2 ** 20)
  if (heapMb < LEAST_HEAP_MB)
    log.warn(
      { heap_mb: heapMb },
      `this process may use ${heapMb} MB of heap, and needs ${LEAST_HEAP_MB}: raise --max-old-space-size`
    )
}

/** Describes an installation for the log; no URL that may contain a password. */
function installationOf({ file, home, database, run_events, agent, models }: Config): object {
  const nameOf = (backend: string | { readonly module: string }) =>
    typeof backend === 'string' ? backend : backend.module
  return {
    version: VERSION,
    commit: COMMIT,
    node: process.versions.node,
    configuration: file,
    home,
    database: nameOf(database.backend),
    run_events: nameOf(run_events.backend),
    agent: agent.runtime,
    models: models.map(({ name }) => name)
  }
}

/**
 * Locks the home, and the database file unless the store was opened by others. Returns how to unlock them; null: others may be there too.
 * @throws Error when another process has them
 */
export function lockInstallation(config: Config, opensStore: boolean): ReturnType<typeof lockPremises> {
  const { home, database } = config
  return lockPremises({
    home,
    canShare: canShareHome(config),
    databaseFile: database.backend === 'sqlite' && opensStore ? database.sqlite_path : null
  })
}

/** Processes on one database may share a home, unless files in it have a single writer. */
function canShareHome({ database, run_events }: Config): boolean {
  return database.backend === 'postgres' && run_events.backend === 'db'
}
