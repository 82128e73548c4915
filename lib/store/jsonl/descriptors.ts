// A cache of open file handles: opening a file costs more than a write. Bounded, because handles per process are; the
// least recently used is closed first.
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'

interface Entry {
  readonly handle: Promise<FileHandle>
  users: number
  /** No longer in the cache: its last user closes it. */
  isDropped: boolean
}

export class Descriptors {
  readonly #max: number
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()

  /** @param max Files open at a time, beside those in use. */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#entries.size
  }

  /**
   * Lends the open file at `path` to `work`. Without `create`, a missing file is an error: a late write must not bring
   * back a removed one [Store 8].
   */
  async use<T>(path: string, create: boolean, work: (handle: FileHandle) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(path) ?? { handle: openFile(path, create), users: 0, isDropped: false }
    this.#entries.delete(path)
    this.#entries.set(path, entry)
    entry.users++
    try {
      return await work(await entry.handle)
    } catch (error) {
      // Whatever it was, the next user opens the file again.
      if (this.#entries.get(path) === entry) this.#entries.delete(path)
      entry.isDropped = true
      throw error
    } finally {
      entry.users--
      if (entry.isDropped) await close(entry)
      await this.#shrink()
    }
  }

  /** Drops a file that is removed or replaced. Work in progress on it finishes first. */
  async drop(path: string): Promise<void> {
    const entry = this.#entries.get(path)
    if (!entry) return
    this.#entries.delete(path)
    entry.isDropped = true
    await close(entry)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#entries.keys()].map((path) => this.drop(path)))
  }

  async #shrink(): Promise<void> {
    for (const [path, { users }] of this.#entries) {
      if (this.#entries.size <= this.#max) return
      if (users === 0) await this.drop(path)
    }
  }
}

/** Closes a dropped file once nobody uses it. */
async function close({ handle, users }: Entry): Promise<void> {
  if (users > 0) return
  // A file that failed to open needs no closing.
  const opened = await handle.catch(() => null)
  await opened?.close()
}

async function openFile(path: string, create: boolean): Promise<FileHandle> {
  if (!create) return open(path, 'r+')
  await mkdir(dirname(path), { recursive: true })
  // Not 'a': appending ignores our positions, and the rest of a failed write has to be overwritten.
  return open(path, constants.O_RDWR | constants.O_CREAT, 0o644)
}
