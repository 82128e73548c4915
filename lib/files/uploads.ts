// Uploads of a thread: plain files its user put there.
import { randomUUID } from 'node:crypto'
import { lstat, mkdir, readdir, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { publish, type Received, removeMarkdownCopy, type Terms, type Upload } from './publication.ts'
import type { Documents } from './documents.ts'
import { UploadReceiver, type UploadLimits, type UploadSource } from './upload-receiver.ts'
import { isName } from './name.ts'
import { kindOf, nullIfMissing, PathError, type Paths } from './paths.ts'

interface ListedUpload extends Upload {
  /** Unix seconds with fractions. */
  readonly modified: number
}

/** Bytes of one user's requests, while there are some. */
interface Arrivals {
  requests: number
  /** Not published yet. */
  arriving: number
  /** Of requests that have ended meanwhile: who has counted the user's files before that has not seen them. */
  published: number
}

interface Quota {
  /** False: so many bytes more are too many. */
  take(bytes: number): boolean
  release(isPublished: boolean): void
}

/** No request takes this long: older drafts were left by a crash. */
const STALE_MS = 60 * 60 * 1000

export class Uploads {
  readonly #limits: UploadLimits
  readonly #paths: Paths
  readonly #documents: Documents | null
  /** By user. */
  readonly #arrivals = new Map<string, Arrivals>()

  /** @param documents extracts text of documents; null: they get no Markdown copies */
  constructor(paths: Paths, limits: UploadLimits, documents: Documents | null = null) {
    this.#documents = documents
    this.#limits = limits
    this.#paths = paths
  }

  /** They may change while it runs. */
  get limits(): UploadLimits {
    const { max_files, max_file_size, max_total_size, user_bytes } = this.#limits
    return { max_files, max_file_size, max_total_size, user_bytes }
  }

  /**
   * Receives the `files` parts of a multipart form. A file of an earlier request is replaced, if it may be; of two with the same name in
   * this request the second is renamed. The source is left paused where reading stopped.
   * @param check called when everything has arrived, before publishing; may throw to refuse
   * @throws UploadError; PathError `bad_id`, or `escapes` or `not_a_file` for an invalid uploads folder
   */
  async receive(
    source: UploadSource,
    threadId: string,
    userId?: string,
    check: () => Promise<Terms> = async () => ({ replaces: true })
  ): Promise<Received> {
    // Throws for unsafe ids before anything is read.
    this.#paths.uploads(threadId, userId)
    const incoming = this.#paths.incoming(userId)
    const folder = join(incoming, randomUUID())
    await removeStale(incoming)
    const quota = await this.#quota(userId)
    let isPublished = false
    try {
      await mkdir(folder, { recursive: true })
      const receiver = new UploadReceiver(source, folder, this.limits, quota.take)
      const drafts = await receiver.read()
      // Before publishing, because nobody can change them yet.
      const texts = (await this.#documents?.texts(drafts, userId ?? threadId)) ?? []
      return await this.#paths.writing(threadId, userId, async () => {
        const terms = await check()
        // Some of it may be, when that fails.
        isPublished = true
        return publish(drafts, texts, receiver.skipped, await this.#paths.makeUploads(threadId, userId), terms)
      })
    } finally {
      quota.release(isPublished)
      await rm(folder, { recursive: true, force: true })
    }
  }

  /** Whether a user may have the files of a thread once more. */
  async mayCopy(threadId: string, userId: string): Promise<boolean> {
    const { user_bytes: max } = this.limits
    if (max === 0) return true
    const sizes = (await this.list(threadId, userId)).map(({ size }) => size)
    const copied = sizes.reduce((sum, size) => sum + size, 0)
    return copied === 0 || (await this.#paths.uploadedBytes(userId)) + copied <= max
  }

  /** The user's remaining quota, which stored files and concurrent uploads reduce. */
  async #quota(userId: string | undefined): Promise<Quota> {
    const { user_bytes: max } = this.limits
    if (max === 0 || userId === undefined) return { take: () => true, release: () => {} }
    const of = this.#arrivals.get(userId) ?? { requests: 0, arriving: 0, published: 0 }
    this.#arrivals.set(userId, of)
    of.requests++
    const before = of.published
    let mine = 0
    const release = (isPublished: boolean) => {
      of.arriving -= mine
      if (isPublished) of.published += mine
      if (--of.requests === 0) this.#arrivals.delete(userId)
    }
    try {
      const stored = await this.#paths.uploadedBytes(userId)
      const take = (bytes: number) => {
        mine += bytes
        of.arriving += bytes
        // What was published while files were counted may count twice: too little is let in then, never too much.
        return stored + of.published - before + of.arriving <= max
      }
      return { take, release }
    } catch (error) {
      release(false)
      throw error
    }
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
   * Removes a file, and the Markdown copy of a document.
   * @returns whether there was such a file
   * @throws PathError `bad_id`; `escapes` for an invalid name
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

/** Removes drafts that a killed process has left. */
export async function removeStale(incoming: string): Promise<void> {
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
