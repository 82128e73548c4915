// A thread's files for agents: list, read, search. Only real files below /mnt/user-data; links are not followed, and results are
// small enough for a model.
import { type FileHandle, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { IMAGE_BYTES, imageTypeOf } from '../base/image.ts'
import { kindOf, openToRead, PathError, type Paths, VIRTUAL_ROOT } from './paths.ts'

interface FileEntry {
  /** `/mnt/user-data/...`. */
  readonly path: string
  /** Bytes. */
  readonly size: number
}

interface Listing {
  /** By path. */
  readonly files: readonly FileEntry[]
  /** The listing is incomplete. */
  readonly isCut: boolean
}

interface Excerpt {
  readonly text: string
  /** The first line after the excerpt, from 1; null: it reaches the end. */
  readonly nextLine: number | null
}

interface Match {
  readonly path: string
  /** From 1. */
  readonly line: number
  readonly text: string
}

const FILES_MAX = 1000
const DEPTH_MAX = 16
const EXCERPT_BYTES = 64 * 1024
const MATCHES_MAX = 100
const LINE_CHARS = 300
/** Larger files are not read as text, and no search reads more than this in all. */
const TEXT_BYTES = 8 << 20
const SEARCH_BYTES = 64 << 20

export class Workspace {
  readonly #paths: Paths

  constructor(paths: Paths) {
    this.#paths = paths
  }

  /**
   * The files below a folder.
   * @throws PathError; a thread without any files has an empty listing
   */
  async list(threadId: string, userId: string, virtualPath = VIRTUAL_ROOT): Promise<Listing> {
    const files: FileEntry[] = []
    const isCut = await this.#walk(threadId, userId, virtualPath, async (path, real) => {
      const size = await sizeOf(real)
      if (size !== null) files.push({ path, size })
      return files.length < FILES_MAX
    })
    return { files, isCut }
  }

  /**
   * Lines of a text file.
   * @param fromLine from 1
   * @throws PathError; `not_a_file` also for what is no text
   */
  async read(threadId: string, userId: string, virtualPath: string, fromLine = 1): Promise<Excerpt> {
    const text = await readText(await this.#paths.locate(virtualPath, threadId, userId))
    if (text === null) throw new PathError('not_a_file', `"${virtualPath}" is no text file, or too large for one`)
    const lines = text.split('\n')
    const taken: string[] = []
    let bytes = 0
    let at = Math.max(0, fromLine - 1)
    for (; at < lines.length; at++) {
      const line = lines[at]!
      bytes += Buffer.byteLength(line) + 1
      // At least one line: a single endless line is cut, not skipped.
      if (bytes > EXCERPT_BYTES && taken.length > 0) break
      taken.push(line.length > EXCERPT_BYTES ? `${line.slice(0, EXCERPT_BYTES)}…` : line)
    }
    return { text: taken.join('\n'), nextLine: at < lines.length ? at + 1 : null }
  }

  /**
   * An image, whatever the name says.
   * @throws PathError; `not_a_file` also for what is no image that models take, or too large
   */
  async image(threadId: string, userId: string, virtualPath: string): Promise<Image> {
    const bytes = await readBytes(await this.#paths.locate(virtualPath, threadId, userId), IMAGE_BYTES)
    const mimeType = bytes && imageTypeOf(bytes)
    if (mimeType) return { mimeType, bytes }
    throw new PathError('not_a_file', `"${virtualPath}" is no PNG, JPEG, GIF or WebP image of at most 5 MB`)
  }

  /** False: it has no file at all. */
  hasFiles(threadId: string, userId: string): boolean {
    return this.#paths.hasFiles(threadId, userId)
  }

  /** @throws PathError */
  write(threadId: string, userId: string, path: string, content: string): Promise<string> {
    return this.#paths.write(threadId, userId, path, content)
  }

  /** @throws PathError unless it is a file */
  async check(threadId: string, userId: string, virtualPath: string): Promise<void> {
    const real = await this.#paths.locate(virtualPath, threadId, userId)
    if ((await kindOf(real)) !== 'file') throw new PathError('not_a_file', `"${virtualPath}" is not a file`)
  }

  /** Lines that contain a text, case aside. */
  async search(threadId: string, userId: string, query: string, virtualPath = VIRTUAL_ROOT): Promise<readonly Match[]> {
    const wanted = query.toLowerCase()
    const found: Match[] = []
    let left = SEARCH_BYTES
    await this.#walk(threadId, userId, virtualPath, async (path, real) => {
      const text = await readText(real)
      left -= text?.length ?? 0
      for (const [at, line] of (text ?? '').split('\n').entries()) {
        if (!line.toLowerCase().includes(wanted)) continue
        found.push({ path, line: at + 1, text: line.trim().slice(0, LINE_CHARS) })
        if (found.length === MATCHES_MAX) return false
      }
      return left > 0
    })
    return found
  }

  /** @returns whether `visit` stopped early */
  async #walk(
    threadId: string,
    userId: string,
    virtualPath: string,
    visit: (path: string, real: string) => Promise<boolean>
  ): Promise<boolean> {
    const root = await this.#paths.locate(virtualPath, threadId, userId).catch((error: unknown) => {
      if (error instanceof PathError && error.problem === 'missing' && trimmed(virtualPath) === VIRTUAL_ROOT)
        return null
      throw error
    })
    return root !== null && !(await walk(root, trimmed(virtualPath), DEPTH_MAX, visit))
  }
}

/** @returns false as soon as `visit` does */
async function walk(
  real: string,
  path: string,
  depth: number,
  visit: (path: string, real: string) => Promise<boolean>
): Promise<boolean> {
  const kind = await kindOf(real)
  if (kind === 'file') return visit(path, real)
  if (kind !== 'folder' || depth === 0) return true
  for (const name of (await readdir(real)).sort()) {
    if (!(await walk(join(real, name), `${path}/${name}`, depth - 1, visit))) return false
  }
  return true
}

async function sizeOf(real: string): Promise<number | null> {
  return withFile(real, async (file) => {
    const stats = await file.stat()
    return stats.isFile() ? stats.size : null
  })
}

/** null: not text, or too large. */
async function readText(real: string): Promise<string | null> {
  const bytes = await readBytes(real, TEXT_BYTES)
  return bytes === null || bytes.includes(0) ? null : bytes.toString('utf8')
}

/** null: not a file, or larger. */
async function readBytes(real: string, bytesMax: number): Promise<Buffer | null> {
  return withFile(real, async (file) => {
    const stats = await file.stat()
    return stats.isFile() && stats.size <= bytesMax ? file.readFile() : null
  })
}

async function withFile<T>(real: string, use: (file: FileHandle) => Promise<T | null>): Promise<T | null> {
  const file = await openToRead(real).catch(() => null)
  if (file === null) return null
  try {
    return await use(file)
  } finally {
    await file.close()
  }
}

function trimmed(virtualPath: string): string {
  const path = virtualPath.startsWith('/') ? virtualPath : `/${virtualPath}`
  // Not with a regular expression, which would be quadratic for many slashes.
  let end = path.length
  while (end > 0 && path[end - 1] === '/') end--
  return path.slice(0, end)
}

// ----------------------------------------------------------------------------------------------------------- pictures

interface Image {
  readonly mimeType: string
  readonly bytes: Buffer
}
