// The data home: our own folder, created when missing.
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const PRIVATE = 0o700
/** Present in every home a server has used. */
const LOCK_FILE = 'serve.lock'

/**
 * Creates the home, private to its owner whatever the umask: it contains conversations, password hashes and keys. An existing
 * folder with other content keeps its mode, because it may be shared (`/tmp`).
 * @throws Error with one sentence, if it cannot be created or written
 */
export function prepareHome(home: string): void {
  try {
    mkdirSync(home, { recursive: true, mode: PRIVATE })
    if (existsSync(join(home, LOCK_FILE)) || readdirSync(home).length === 0) chmodSync(home, PRIVATE)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    throw new Error(`The home ${home} cannot be used (${code}): choose a writable folder with --home`)
  }
}
