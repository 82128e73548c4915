// Open files, kept open between their uses: opening one costs more than a write. Bounded, because a process has only so many; the
// one that was not used for longest is closed first.
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname } from 'node:path'

interface Entry {
  readonly handle: Promise<FileHandle>
  users: number
  /** No longer in the table: closed by its last user. */
  isDropped: boolean
}

export class Descriptors {
  readonly #max: number
  /** In the order of their last use. */
  readonly #entries = new Map<string, Entry>()

  /** @param max Files open at a time, beside those in use. */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#entries.size
  }

  /**
   * Lends the open file at `path` to `work`. Without `create` a file that is not there (any more) is an error: a late write must
   * not bring a removed one back [Store 8].
   */
  async use<T>(path: string, create: boolean, work: (handle: FileHandle) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(path) ?? { handle: openFile(path, create), users: 0, isDropped: false }
    this.#entries.delete(path)
    this.#entries.set(path, entry)
    entry.users++
    try {
      return await work(await entry.handle)
    } catch (error) {
      // Whatever it was, the next user opens it anew.
      if (this.#entries.get(path) === entry) this.#entries.delete(path)
      entry.isDropped = true
      throw error
    } finally {
      entry.users--
      if (entry.isDropped) await close(entry)
      await this.#shrink()
    }
  }

  /** Forgets a file that is removed or replaced. Who is using it finishes first. */
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

/** Closes a dropped file when nobody uses it any more. */
async function close({ handle, users }: Entry): Promise<void> {
  if (users > 0) return
  // One that could not be opened needs no closing.
  const opened = await handle.catch(() => null)
  await opened?.close()
}

async function openFile(path: string, create: boolean): Promise<FileHandle> {
  if (!create) return open(path, 'r+')
  await mkdir(dirname(path), { recursive: true })
  // Not 'a': its writes go to the end of the file, wherever we say, and what a failed write left must be written over.
  return open(path, constants.O_RDWR | constants.O_CREAT, 0o644)
}
