// The data home: our own folder, created when missing.
import { randomUUID } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { keptLine } from './kept-line.ts'

const PRIVATE = 0o700
/** Present in every home a server has used. */
const LOCK_FILE = 'serve.lock'
const ID_FILE = '.home_id'

/**
 * Creates the home, private to its owner whatever the umask: it contains conversations, password hashes and keys. An existing
 * folder with other content keeps its mode, because it may be shared (`/tmp`).
 * @throws Error with one sentence, if it cannot be created or written
 */
export function prepareHome(home: string): void {
  try {
    makeFolder(home, PRIVATE)
    if (existsSync(join(home, LOCK_FILE)) || readdirSync(home).length === 0) chmodSync(home, PRIVATE)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    throw new Error(`The home ${home} cannot be used (${code}): choose a writable folder with --home`)
  }
}

/**
 * Creates a folder and those above it. One by one: where the system says that there is nothing above, as below /proc, Node's own
 * `recursive` tries for ever.
 */
export function makeFolder(path: string, mode = 0o777): void {
  if (existsSync(path) && statSync(path).isDirectory()) return
  if (!existsSync(dirname(path))) makeFolder(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process was faster.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST' && statSync(path).isDirectory()))
      throw error
  }
}

/** The id of the home, by which processes on one database see whether they share it. A copy of a home has the same one. */
export function homeId(home: string): Promise<string> {
  return keptLine(join(home, ID_FILE), randomUUID)
}
