// Uploads of a thread: plain files its user put there.
import { randomUUID } from 'node:crypto'
import { lstat, mkdir, readdir, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { removeMarkdownCopy } from './markdown-copy.ts'
import type { Documents } from './documents.ts'
import { UploadReceiver, type UploadLimits, type UploadSource } from './upload-receiver.ts'
import { isName } from './name.ts'
import { kindOf, nullIfMissing, PathError, type Paths } from './paths.ts'
import { publish, type Received, type Upload } from './publication.ts'

export interface ListedUpload extends Upload {
  /** Unix seconds with fractions. */
  readonly modified: number
}

/** How long a request can take at most lies far below this; what is older was left behind by a crash. */
const STALE_MS = 60 * 60 * 1000

export class Uploads {
  readonly limits: UploadLimits
  readonly #paths: Paths
  readonly #documents: Documents | null
  /** Incoming bytes by user. */
  readonly #arriving = new Map<string, number>()

  /** @param documents reads the documents among the files; null: they get no text beside them */
  constructor(
    paths: Paths,
    { max_files, max_file_size, max_total_size, user_bytes }: UploadLimits,
    documents: Documents | null = null
  ) {
    this.#documents = documents
    this.limits = { max_files, max_file_size, max_total_size, user_bytes }
    this.#paths = paths
  }

  /**
   * Takes in a multipart form, its parts called `files`. A file of an earlier request is replaced; of two with one name in this
   * request the second is renamed. The source is left paused where reading has stopped.
   * @param check asked when all of it is here, before anything gets its name: what it throws is the answer
   * @throws UploadError
   * @throws PathError `bad_id`; `escapes` or `not_a_file` when the uploads folder is none
   */
  async receive(
    source: UploadSource,
    threadId: string,
    userId?: string,
    check: () => Promise<void> = async () => {}
  ): Promise<Received> {
    // Before anything is read: throws for ids that cannot be part of a path.
    this.#paths.uploads(threadId, userId)
    const incoming = this.#paths.incoming(userId)
    const folder = join(incoming, randomUUID())
    await removeStale(incoming)
    const quota = await this.#quota(userId)
    await mkdir(folder, { recursive: true })
    try {
      const receiver = new UploadReceiver(source, folder, this.limits, quota.take)
      const drafts = await receiver.read()
      // While they have no names nobody can change them.
      const texts = (await this.#documents?.texts(drafts, userId ?? threadId)) ?? []
      return await this.#paths.writing(threadId, userId, async () => {
        await check()
        return publish(drafts, texts, receiver.skipped, await this.#paths.makeUploads(threadId, userId))
      })
    } finally {
      quota.release()
      await rm(folder, { recursive: true, force: true })
    }
  }

  /** What a user may still send, while it comes: what lies there already and what others of his requests bring counts too. */
  async #quota(userId: string | undefined): Promise<{ take(bytes: number): boolean; release(): void }> {
    const { user_bytes: max } = this.limits
    if (max === 0 || userId === undefined) return { take: () => true, release: () => {} }
    const stored = await this.#paths.uploadedBytes(userId)
    let mine = 0
    const add = (bytes: number) => {
      mine += bytes
      const all = (this.#arriving.get(userId) ?? 0) + bytes
      if (all > 0) this.#arriving.set(userId, all)
      else this.#arriving.delete(userId)
      return all
    }
    return { take: (bytes) => stored + add(bytes) <= max, release: () => void add(-mine) }
  }

  /**
   * The plain files, by name. Links and folders are not shown.
   * @throws PathError `bad_id`
   */
  async list(threadId: string, userId?: string): Promise<ListedUpload[]> {
    const folder = await this.#existing(threadId, userId)
    if (folder === null) return []
    const found = await Promise.all((await readdir(folder)).map((name) => listed(folder, name)))
    return found.filter((upload) => upload !== null).sort((a, b) => (a.filename < b.filename ? -1 : 1))
  }

  /**
   * Removes a file, and the Markdown file beside a document that can be converted.
   * @returns Whether there was such a file.
   * @throws PathError `bad_id`; `escapes` for what is no name
   */
  async remove(threadId: string, userId: string | undefined, name: string): Promise<boolean> {
    if (!isName(name)) throw new PathError('escapes', 'This is not the name of a file')
    const folder = await this.#existing(threadId, userId)
    if (folder === null || !(await removeFile(join(folder, name)))) return false
    await removeMarkdownCopy(folder, name, true)
    return true
  }

  /** The folder, or null when there is none or it was replaced by a link. */
  async #existing(threadId: string, userId: string | undefined): Promise<string | null> {
    const folder = this.#paths.uploads(threadId, userId)
    return (await kindOf(folder)) === 'folder' ? folder : null
  }
}

/** Removes what requests of a process that was killed have left. */
async function removeStale(incoming: string): Promise<void> {
  const names = (await readdir(incoming).catch(nullIfMissing)) ?? []
  for (const name of names) {
    const path = join(incoming, name)
    const stats = await lstat(path).catch(nullIfMissing)
    if (stats !== null && Date.now() - stats.mtimeMs > STALE_MS) await rm(path, { recursive: true, force: true })
  }
}

async function listed(folder: string, name: string): Promise<ListedUpload | null> {
  // Null: removed since the folder was read.
  const stats = await lstat(join(folder, name)).catch(nullIfMissing)
  return stats?.isFile() ? { filename: name, size: stats.size, modified: stats.mtimeMs / 1000 } : null
}

async function removeFile(path: string): Promise<boolean> {
  if ((await kindOf(path)) !== 'file') return false
  return (await unlink(path).catch(nullIfMissing)) !== null
}
