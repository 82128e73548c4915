// Where the files of a thread are stored below the data home, and safe resolution of untrusted paths.
//
//   <home>/users/<user_id>/threads/<thread_id>/user-data/{workspace,uploads,outputs}
//   <home>/users/<user_id>/incoming                      incomplete uploads
//   <home>/threads/<thread_id>/...                       without a user: the layout from before users had folders
//
// Agents and clients see `/mnt/user-data/...`; real paths are never shown, not even in errors.
import { randomUUID } from 'node:crypto'
import { constants, existsSync } from 'node:fs'
import {
  copyFile,
  cp,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  writeFile
} from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import { codeOf } from '../base/errors.ts'

/** The user-data folder as agents and clients see it. */
export const VIRTUAL_ROOT = '/mnt/user-data'

// In JavaScript `$` without the m flag does not match before a final newline.
const SAFE_ID = /^[A-Za-z0-9_-]+$/

/** Folders that an agent may write to; uploads belong to the user. */
const WRITABLE: ReadonlySet<string> = new Set(['outputs', 'workspace'])

export type PathProblem =
  /** A user or thread id that is unsafe in a path. */
  | 'bad_id'
  /** Not below `/mnt/user-data`. */
  | 'not_virtual'
  /** Would leave its folder: `..`, an absolute path, a symbolic link, or characters not allowed in names. */
  | 'escapes'
  | 'missing'
  /** The archive exists, but has no such member. */
  | 'no_member'
  /** A folder or another non-regular file is in the way. */
  | 'not_a_file'
  /** The file system failed. */
  | 'failed'

/** A refused path. The message only contains what the caller gave, never a real path. */
export class PathError extends Error {
  readonly problem: PathProblem
  constructor(problem: PathProblem, message: string) {
    super(message)
    this.name = 'PathError'
    this.problem = problem
  }
}

export class Paths {
  /** Absolute. */
  readonly home: string
  /** Writes in progress, by thread folder: a removal waits for them, or they would recreate the folder. */
  readonly #writing = new Map<string, Set<Promise<unknown>>>()

  constructor(home: string) {
    this.home = resolve(home)
  }

  /** @throws PathError `bad_id` */
  userDir(userId: string): string {
    return join(this.home, 'users', safeId('user', userId))
  }

  /**
   * The folder of a thread. Without a user: the legacy layout.
   * @throws PathError `bad_id`, as does everything below: ids are checked before any file is touched.
   */
  threadDir(threadId: string, userId?: string): string {
    const base = userId === undefined ? this.home : this.userDir(userId)
    return join(base, 'threads', safeId('thread', threadId))
  }

  /** The real folder behind `/mnt/user-data`. */
  userData(threadId: string, userId?: string): string {
    return join(this.threadDir(threadId, userId), 'user-data')
  }

  /**
   * False: a thread has no file at all; an id that is no folder's name never has one. Synchronous: most threads have none, and their runs
   * wait for no thread of the file system's pool.
   */
  hasFiles(threadId: string, userId?: string): boolean {
    const ids = userId === undefined ? [threadId] : [threadId, userId]
    return ids.every((id) => SAFE_ID.test(id)) && existsSync(this.userData(threadId, userId))
  }

  uploads(threadId: string, userId?: string): string {
    return join(this.userData(threadId, userId), 'uploads')
  }

  /**
   * Where uploads are stored until they are complete: on the same disk as the threads, so that publishing is one rename, and
   * outside of `user-data`, where agents cannot write.
   */
  incoming(userId?: string): string {
    return join(userId === undefined ? this.home : this.userDir(userId), 'incoming')
  }

  /**
   * Makes the uploads folder of a thread.
   * @returns Its real path.
   * @throws PathError `escapes` if it is a symbolic link, `not_a_file` if it is something else
   */
  async makeUploads(threadId: string, userId?: string): Promise<string> {
    return makeFolders(this.userData(threadId, userId), ['uploads'], `${VIRTUAL_ROOT}/uploads`)
  }

  /**
   * The real path of an existing file or folder, with all symbolic links resolved.
   * @param virtualPath `/mnt/user-data/...`; the leading slash may be missing, as in the path of a URL.
   * @throws PathError `not_virtual`, `escapes`, `missing` or `failed`
   */
  async locate(virtualPath: string, threadId: string, userId?: string): Promise<string> {
    const root = this.userData(threadId, userId)
    const path = join(root, ...segmentsBelow(VIRTUAL_ROOT, virtualPath))
    const [realRoot, real] = await Promise.all([realPathOf(root), realPathOf(path)]).catch((error: unknown) => {
      throw failed(virtualPath, 'read', error)
    })
    if (realRoot === null || real === null) throw missing(virtualPath)
    if (real !== realRoot && !real.startsWith(realRoot + sep)) throw escapes(virtualPath)
    return real
  }

  /**
   * Writes a file below the outputs or workspace of a thread atomically: readers see the old content or the new one. Missing
   * folders are created. An existing file is replaced, not overwritten, so that hard links to it keep their content.
   * @param path `/mnt/user-data/{outputs,workspace}/...`; relative paths are below the outputs
   * @returns The virtual path of the file.
   * @throws PathError `escapes`, `not_a_file` or `failed`
   */
  write(threadId: string, userId: string | undefined, path: string, content: string): Promise<string> {
    return this.writing(threadId, userId, () => this.#write(threadId, userId, path, content))
  }

  async #write(threadId: string, userId: string | undefined, path: string, content: string): Promise<string> {
    const virtual = path.startsWith('/') ? path : `${VIRTUAL_ROOT}/outputs/${path}`
    if (!virtual.startsWith(`${VIRTUAL_ROOT}/`)) throw escapes(path)
    const segments = segmentsBelow(VIRTUAL_ROOT, virtual, path)
    if (!WRITABLE.has(segments[0] ?? '')) throw escapes(path)
    const name = segments.at(-1)
    if (name === undefined || segments.length < 2) throw new PathError('not_a_file', `"${path}" names no file`)
    try {
      const folder = await makeFolders(this.userData(threadId, userId), segments.slice(0, -1), path)
      await replaceFile(folder, name, content, path)
    } catch (error) {
      throw error instanceof PathError ? error : failed(path, 'written', error)
    }
    return [VIRTUAL_ROOT, ...segments].join('/')
  }

  /** Runs `work`, which writes below a thread's folder; removing the thread waits for it. */
  async writing<T>(threadId: string, userId: string | undefined, work: () => Promise<T>): Promise<T> {
    const folder = this.threadDir(threadId, userId)
    const all = this.#writing.get(folder) ?? new Set()
    const write = work()
    this.#writing.set(folder, all.add(write))
    try {
      return await write
    } finally {
      all.delete(write)
      if (all.size === 0) this.#writing.delete(folder)
    }
  }

  /** Total bytes of a user's uploads in all threads. */
  async uploadedBytes(userId: string): Promise<number> {
    const threads = (await readdir(join(this.userDir(userId), 'threads')).catch(nullIfMissing)) ?? []
    let bytes = 0
    for (const thread of threads.filter((id) => SAFE_ID.test(id))) {
      const folder = this.uploads(thread, userId)
      for (const name of (await readdir(folder).catch(() => null)) ?? [])
        bytes += (await lstat(join(folder, name)).catch(nullIfMissing))?.size ?? 0
    }
    return bytes
  }

  /**
   * Copies all files of a user in one thread to another one, symbolic links left out.
   * @returns whether there were any
   */
  async copyThread(fromId: string, toId: string, userId: string): Promise<boolean> {
    const from = this.userData(fromId, userId)
    if ((await kindOf(from)) !== 'folder') return false
    const filter = async (path: string): Promise<boolean> => !(await lstat(path)).isSymbolicLink()
    await this.writing(toId, userId, () => cp(from, this.userData(toId, userId), { recursive: true, filter }))
    return true
  }

  /**
   * Removes all files of a thread, after pending writes (a cancelled tool may be in the middle of one). Idempotent.
   * @returns whether there was anything
   */
  async removeThread(threadId: string, userId?: string): Promise<boolean> {
    const folder = this.threadDir(threadId, userId)
    await Promise.allSettled(this.#writing.get(folder) ?? [])
    const existed = (await kindOf(folder)) !== null
    // rm removes a symbolic link itself and never what it points to.
    await rm(folder, { recursive: true, force: true })
    return existed
  }

  /**
   * Removes all files of a user, after pending writes.
   * @returns whether there were any
   */
  async removeUser(userId: string): Promise<boolean> {
    const folder = this.userDir(userId)
    const pending = [...this.#writing].filter(([path]) => path.startsWith(folder + sep))
    await Promise.allSettled(pending.flatMap(([, writes]) => [...writes]))
    const existed = (await kindOf(folder)) !== null
    await rm(folder, { recursive: true, force: true })
    return existed
  }

  /**
   * Removes the files of a shared thread, in which each user has a folder of their own.
   * @returns whether there were any
   */
  async removeSharedThread(threadId: string): Promise<boolean> {
    const users = ((await readdir(join(this.home, 'users')).catch(nullIfMissing)) ?? []).filter((id) =>
      SAFE_ID.test(id)
    )
    const legacy = this.userData(threadId)
    let existed = (await kindOf(legacy)) !== null
    await rm(legacy, { recursive: true, force: true })
    for (const user of users) existed = (await this.removeThread(threadId, user)) || existed
    return existed
  }
}

/** The id, if it is safe in a path [contract 7.3]. */
function safeId(what: 'user' | 'thread', id: string): string {
  if (!SAFE_ID.test(id)) throw new PathError('bad_id', `This ${what} id cannot be part of a path`)
  return id
}

/** The segments after `root`. Compared by whole segments: `/mnt/user-dataX` is not below `/mnt/user-data`. */
function segmentsBelow(root: string, virtualPath: string, given = virtualPath): string[] {
  const path = virtualPath.startsWith('/') ? virtualPath : `/${virtualPath}`
  if (path === root) return []
  if (!path.startsWith(`${root}/`)) throw new PathError('not_virtual', `"${given}" is not below ${root}`)
  return safeSegments(path.slice(root.length + 1), given)
}

/** The segments of a relative path. `..` is refused, not resolved, because a link on the way would change its meaning. */
function safeSegments(relative: string, given: string): string[] {
  // A backslash is a separator on some systems; a NUL ends a path for the operating system but not for us.
  if (relative.startsWith('/') || /[\\\0]/.test(relative)) throw escapes(given)
  const segments = relative.split('/').filter((segment) => segment !== '' && segment !== '.')
  if (segments.includes('..')) throw escapes(given)
  return segments
}

/**
 * Creates the folders of a path below `root`. Each must be a real folder: a symbolic link would redirect the write.
 */
async function makeFolders(root: string, segments: readonly string[], given: string): Promise<string> {
  await mkdir(root, { recursive: true })
  let folder = await realpath(root)
  for (const segment of segments) {
    folder = join(folder, segment)
    await mkdir(folder).catch(unlessExists)
    const kind = await kindOf(folder)
    if (kind === 'link') throw escapes(given)
    if (kind !== 'folder') throw new PathError('not_a_file', `"${given}" leads through something that is no folder`)
  }
  return folder
}

async function replaceFile(folder: string, name: string, content: string, given: string): Promise<void> {
  const path = join(folder, name)
  const kind = await kindOf(path)
  if (kind === 'link') throw escapes(given)
  if (kind !== null && kind !== 'file') throw new PathError('not_a_file', `"${given}" is not a file`)
  const draft = join(folder, `.${randomUUID()}.part`)
  try {
    // `wx` creates a new file or fails, even on a symbolic link.
    await writeFile(draft, content, { flag: 'wx', mode: 0o644 })
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw error
  }
}

/** Gives a draft its name, atomically and unless something has it, and takes it from where it was. False: something has it. */
export async function placeNew(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path).catch((error: unknown) => {
      if (codeOf(error) === 'EEXIST') throw error
      // Not every file system has hard links.
      return copyFile(draft, path, constants.COPYFILE_EXCL)
    })
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
  await rm(draft, { force: true })
  return true
}

/**
 * Opens a file for reading. O_NOFOLLOW: links were resolved before, so a link here is new. O_NONBLOCK: opening a FIFO would block
 * until it has a writer.
 */
export function openToRead(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
}

/** The type of what is at `path`, without following links; null: nothing. */
export async function kindOf(path: string): Promise<'file' | 'folder' | 'link' | 'other' | null> {
  const stats = await lstat(path).catch(nullIfMissing)
  if (stats === null) return null
  if (stats.isSymbolicLink()) return 'link'
  if (stats.isDirectory()) return 'folder'
  return stats.isFile() ? 'file' : 'other'
}

function realPathOf(path: string): Promise<string | null> {
  return realpath(path).catch(nullIfMissing)
}

/** Paths of regular files below a folder, and of no links, with slashes and in order. What goes meanwhile is left out. */
export async function filesBelow(folder: string): Promise<string[]> {
  const entries = (await readdir(folder, { withFileTypes: true }).catch(nullIfMissing)) ?? []
  const lists: string[][] = []
  for (const entry of entries) {
    if (entry.isFile()) lists.push([entry.name])
    else if (entry.isDirectory())
      lists.push((await filesBelow(join(folder, entry.name))).map((path) => `${entry.name}/${path}`))
  }
  return lists.flat().sort()
}

/** For `catch`: null if there is no such file, else rethrows. */
export function nullIfMissing(error: unknown): null {
  // ENAMETOOLONG: no file can have that name. ELOOP: the link leads to itself.
  if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP'].includes(codeOf(error) ?? '')) return null
  throw error
}

function unlessExists(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error
}

function escapes(given: string): PathError {
  return new PathError('escapes', `"${given}" leads out of its folder`)
}

function missing(given: string): PathError {
  return new PathError('missing', `"${given}" does not exist`)
}

/** With only the error code: the system's message contains the real path. */
function failed(given: string, what: string, error: unknown): PathError {
  const code = codeOf(error)
  return new PathError('failed', `"${given}" cannot be ${what}${code === null ? '' : ` (${code})`}`)
}
