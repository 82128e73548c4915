// Behind `colloquy migrate`: says what a newer version would change in the database, changes it beside servers that go on, and removes
// what only older versions need.
import type { Config } from '../config/config.ts'
import { contractSchema, openDatabase, planSchema } from '../store/open.ts'
import {
  isSlow,
  type Migrated,
  type MigrationProgress,
  type OnProgress,
  type SchemaPlan
} from '../store/sql/migrations.ts'

/** What is to be done. @throws Error when there is no SQL database, or it is too new for this program */
export function planMigration(config: Config): Promise<SchemaPlan> {
  return planSchema(config)
}

/**
 * Brings the database to the schema of this version; null: it has it.
 * @throws Error when a server that could not go on is using it, or a step fails: what was done stays, and the next time goes on there
 */
export async function applyMigration(config: Config, onProgress: OnProgress): Promise<Migrated | null> {
  await planSchema(config)
  let done: Migrated | null = null
  const onMigrated = (what: Migrated): void => {
    done = what
  }
  await (await openDatabase(config, () => {}, { onProgress, onMigrated })).close()
  return done
}

/**
 * Removes what only older versions need; returns the steps.
 * @throws Error when one of them is using the database, or it is not of this version
 */
export function contractMigration(config: Config, onProgress: OnProgress): Promise<number[]> {
  return contractSchema(config, onProgress)
}

/** One line for people. */
export function progressText({ version, phase, rows, of, bytes, elapsed_ms }: MigrationProgress): string {
  const seconds = `${(elapsed_ms / 1000).toFixed(1)} s`
  if (phase === 'copy') return `${seconds}: copying the database as it is, ${bytes} bytes`
  const share = rows === undefined || !of ? '' : `, ${rows} of ${of} rows (${Math.floor((100 * rows) / of)} %)`
  if (phase === 'lock') return `${seconds}: step ${version} waits for a lock that somebody else holds${share}`
  if (phase === 'other')
    return `${seconds}: another process is changing the schema${rows === undefined ? '' : ` (step ${version}, ${rows} rows)`}`
  return `${seconds}: step ${version}, ${phase}${share}`
}

/** For commands that do something else: only when somebody would wonder. */
export function reportIfSlow(progress: MigrationProgress): void {
  if (isSlow(progress)) process.stderr.write(`${progressText(progress)}\n`)
}
