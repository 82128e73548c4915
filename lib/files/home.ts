// The data home: our own folder, created when missing.
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

const PRIVATE = 0o700
/** Present in every home a server has used. */
const LOCK_FILE = 'serve.lock'

/**
 * Makes the home, for its owner alone whatever the umask: conversations, password hashes and keys lie in it. A folder that was
 * there and holds something else keeps its mode, since it may be everybody's (`/tmp`).
 * @throws Error one sentence, when it cannot be made or written
 */
export function prepareHome(home: string): void {
  try {
    mkdirSync(home, { recursive: true, mode: PRIVATE })
    if (existsSync(join(home, LOCK_FILE)) || readdirSync(home).length === 0) chmodSync(home, PRIVATE)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    throw new Error(`The home ${home} cannot be used (${code}): name a folder that can be written with --home`)
  }
}
