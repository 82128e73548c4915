// Atomic file writes: readers see the old content or the new one, also after a crash.
import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Makes the folders on the way. @param mode of the new file, e.g. 0o600: for its owner alone */
export async function atomicWrite(path: string, content: string, mode: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const draft = `${path}.${randomUUID()}.part`
  try {
    // `wx` creates a new file or fails, even on a symbolic link.
    await writeFile(draft, content, { flag: 'wx', mode })
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}
