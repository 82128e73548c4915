// A line that a home makes once and keeps, as its secret and its id: for its owner alone, and the same for processes that start at once.
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { codeOf } from '../base/errors.ts'
import { placeNew } from './paths.ts'

/**
 * The line in this file; without one `make` makes it.
 * @throws Error when the file cannot be read or created
 */
export async function keptLine(file: string, make: () => string): Promise<string> {
  const known = await readLine(file)
  if (known) return known
  await mkdir(dirname(file), { recursive: true })
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  const made = make()
  await writeFile(draft, `${made}\n`, { mode: 0o600, flag: 'wx', flush: true })
  try {
    // A power loss can leave an empty file, which is no usable line.
    if (known === '') await rename(draft, file)
    else await placeNew(draft, file)
  } finally {
    await rm(draft, { force: true })
  }
  // Read back: another process may have been first.
  return (await readLine(file)) || made
}

/** '' when the file is empty, null when there is none. */
async function readLine(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  })
  // A restored backup may have a wider mode. Somebody else's file can only be read.
  if (text !== null) await chmod(file, 0o600).catch(() => {})
  return text?.trim() ?? null
}
