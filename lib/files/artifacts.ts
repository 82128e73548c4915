// Artifacts: opens files of a thread for reading, with the headers a browser may get [needs N18].
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname, extname, join, sep } from 'node:path'
import { codeOf } from '../base/errors.ts'
import { type ArchiveLimits, ArchiveError, openMember } from './archive.ts'
import { KeyedMutex } from '../base/keyed-mutex.ts'
import { changing } from './home.ts'
import { kindOf, nullIfMissing, openToRead, PathError, type Paths } from './paths.ts'

export interface Artifact {
  /** The last part of its path. */
  readonly name: string
  /** Bytes. */
  readonly size: number
  /** The media type, for the Content-Type header. */
  readonly type: string
  /** Inert in every browser, so that it may be displayed in our origin; everything else is downloaded. */
  readonly isInert: boolean
  /** Text, which needs no file name to be displayed. */
  readonly isText: boolean
  /** Cache lifetime in seconds. */
  readonly maxAge: number
  /** Entity tag, quoted; changes with every change of the file. */
  readonly tag: string
  /**
   * The bytes `start` to `end`, inclusive; none if `end` is less.
   * @throws Error when the file was truncated meanwhile: a partial body must not look complete
   */
  read(start: number, end: number): AsyncGenerator<Buffer>
  /** Must be called after reading. */
  close(): Promise<void>
}

const PLAIN = 'text/plain; charset=utf-8'
const BINARY = 'application/octet-stream'

// Types that browsers display without running anything; everything else that is not text is downloaded. An allow-list, because
// a deny-list would have to know every type that any browser runs.
const INERT: ReadonlyMap<string, string> = new Map([
  ['.txt', PLAIN],
  ['.log', PLAIN],
  ['.md', 'text/markdown; charset=utf-8'],
  ['.csv', 'text/csv; charset=utf-8'],
  ['.json', 'application/json'],
  ['.png', 'image/png'],
  ['.apng', 'image/apng'],
  ['.jpg', 'image/jpeg'],
  ['.jpeg', 'image/jpeg'],
  ['.gif', 'image/gif'],
  ['.webp', 'image/webp'],
  ['.avif', 'image/avif'],
  ['.bmp', 'image/bmp'],
  ['.ico', 'image/x-icon'],
  ['.pdf', 'application/pdf'],
  ['.mp3', 'audio/mpeg'],
  ['.m4a', 'audio/mp4'],
  ['.wav', 'audio/wav'],
  ['.flac', 'audio/flac'],
  ['.ogg', 'audio/ogg'],
  ['.opus', 'audio/ogg'],
  ['.mp4', 'video/mp4'],
  ['.webm', 'video/webm']
])

// Types that programs may want to know; browsers must not display them.
const ACTIVE: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.htm', 'text/html; charset=utf-8'],
  ['.xhtml', 'application/xhtml+xml'],
  ['.xht', 'application/xhtml+xml'],
  ['.svg', 'image/svg+xml'],
  ['.svgz', 'image/svg+xml'],
  ['.xml', 'application/xml'],
  ['.xsl', 'application/xml'],
  ['.xslt', 'application/xml']
])

const MEMBER_LIMITS: ArchiveLimits = { members: 1000, memberBytes: 16 << 20, totalBytes: 64 << 20 }
/** Members unpacked at the same time, per user and in total; further requests wait. */
const MEMBERS_OPEN = { each: 4, all: 64, waitingEach: 100 }
/** Finding a member needs unpacking, so browsers may cache it. */
const MEMBER_MAX_AGE = 300

/** Bytes read to tell text from binary when the extension is unknown [contract 6.2]. */
const SNIFFED_BYTES = 8192
const CHUNK_BYTES = 65_536

/** `x.skill/<member>`: the member of an archive [contract 6.2]. @returns null for other paths */
export function memberIn(virtualPath: string): { readonly archive: string; readonly member: string } | null {
  const found = /\.skill\//i.exec(virtualPath)
  if (found === null) return null
  const end = found.index + found[0].length
  return end === virtualPath.length ? null : { archive: virtualPath.slice(0, end - 1), member: virtualPath.slice(end) }
}

const OUTPUTS = '/mnt/user-data/outputs'

/** Why a file is not saved: not below the outputs, not the one that was read, too large, or no text. */
export type Unsaved = 'outside' | 'changed' | 'too_large' | 'not_text'

interface Edit {
  readonly threadId: string
  readonly userId: string
  readonly path: string
  readonly content: string
  readonly expected: string
  readonly maxBytes: number
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

export class Artifacts {
  readonly #paths: Paths
  readonly #members = new KeyedMutex(MEMBERS_OPEN)

  constructor(paths: Paths) {
    this.#paths = paths
  }

  /**
   * @param virtualPath `/mnt/user-data/...`; the leading slash may be missing. Below a `.skill` archive: one of its members.
   * @throws PathError `not_virtual`, `escapes`, `missing`, `no_member` or `not_a_file`
   */
  async open(threadId: string, userId: string | undefined, virtualPath: string): Promise<Artifact> {
    const inside = memberIn(virtualPath)
    if (inside !== null) {
      const path = await this.#paths.locate(inside.archive, threadId, userId)
      // A folder may have such a name too.
      if ((await kindOf(path)) !== 'folder') return this.#openArchived(path, inside.member, virtualPath, userId ?? '')
    }
    const path = await this.#paths.locate(virtualPath, threadId, userId)
    const file = await openFile(path, virtualPath)
    try {
      return await describe(file, basename(virtualPath), virtualPath)
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /**
   * Replaces a text file below the outputs, if it is still the one whose digest is `expected`.
   * @param edit `expected`: SHA-256 in hexadecimal digits; `maxBytes` of the file as it is
   * @throws PathError as `open`
   */
  async save(
    threadId: string,
    userId: string,
    virtualPath: string,
    edit: Pick<Edit, 'content' | 'expected' | 'maxBytes'>
  ): Promise<{ readonly path: string; readonly sha256: string; readonly size: number } | Unsaved> {
    const path = `/${virtualPath.replace(/^\/+/, '')}`
    if (memberIn(path) !== null || /\.skill$/i.test(path)) return 'not_text'
    const locate = (virtual: string): Promise<string> => this.#paths.locate(virtual, threadId, userId)
    const real = await locate(path).catch((error) => outsideOrMissing(error, path))
    const outputs = await locate(OUTPUTS).catch(() => null)
    if (real === null || outputs === null || !real.startsWith(outputs + sep)) return 'outside'
    // A link: it would be replaced by a file, and what it leads to would stay.
    if (join(await locate(dirname(path)), basename(path)) !== real) return 'not_text'
    // Of two who save what both have read, the second is told.
    return changing(this.#paths.home, () => this.#replace(real, { threadId, userId, path, ...edit }))
  }

  async #replace(real: string, { threadId, userId, path, ...edit }: Edit): ReturnType<Artifacts['save']> {
    const file = await openFile(real, path)
    try {
      const stats = await file.stat()
      if (!stats.isFile()) throw notAFile(path)
      if (stats.size > edit.maxBytes) return 'too_large'
      const bytes = await file.readFile()
      if (!isUtf8(bytes) || !isText(bytes) || edit.content.includes('\0')) return 'not_text'
      if (sha256(bytes) !== edit.expected) return 'changed'
    } finally {
      await file.close()
    }
    const written = await this.#paths.write(threadId, userId, path, edit.content)
    const bytes = Buffer.from(edit.content)
    return { path: written, sha256: sha256(bytes), size: bytes.length }
  }

  /** @throws MutexBusy */
  async #openArchived(path: string, member: string, given: string, owner: string): Promise<Artifact> {
    const leave = await this.#members.enter(owner)
    try {
      const opened = await openArchived(path, member, given)
      return { ...opened, close: () => opened.close().finally(leave) }
    } catch (error) {
      leave()
      throw error
    }
  }
}

/** Where nothing is edited it does not matter whether there is a file: null. @throws the error for any other */
function outsideOrMissing(error: unknown, path: string): null {
  const isMissing = error instanceof PathError && error.problem === 'missing'
  if (isMissing && !path.startsWith(`${OUTPUTS}/`)) return null
  throw error
}

async function openArchived(path: string, member: string, given: string): Promise<Artifact> {
  const opened = await openMember(path, member, MEMBER_LIMITS, SNIFFED_BYTES).catch((error: unknown) => {
    if (error instanceof ArchiveError) return null
    throw error
  })
  if (opened === null) throw new PathError('no_member', `"${given}" is not in the archive`)
  const kind = kindByName(member) ?? (isText(opened.head) ? TEXT : SAVED)
  return {
    name: basename(member),
    size: opened.size,
    ...kind,
    isText: kind.type.startsWith('text/'),
    maxAge: MEMBER_MAX_AGE,
    tag: `"${opened.size.toString(36)}-${opened.crc32.toString(36)}"`,
    read: (start, end) => part(opened.read(), start, end),
    close: async () => opened.close()
  }
}

/** The bytes from `start` to `end`, both included; compressed members must be read from the beginning. */
async function* part(chunks: AsyncGenerator<Buffer>, start: number, end: number): AsyncGenerator<Buffer> {
  let at = 0
  for await (const chunk of chunks) {
    const piece = chunk.subarray(Math.max(0, start - at), Math.max(0, end + 1 - at))
    at += chunk.length
    if (piece.length > 0) yield piece
    if (at > end) return
  }
}

async function openFile(path: string, given: string): Promise<FileHandle> {
  const file = await openToRead(path).catch((error: unknown) => {
    // ENXIO: a socket.
    if (codeOf(error) === 'ENXIO') throw notAFile(given)
    return nullIfMissing(error)
  })
  if (file === null) throw new PathError('missing', `"${given}" does not exist`)
  return file
}

async function describe(file: FileHandle, name: string, given: string): Promise<Artifact> {
  const stats = await file.stat({ bigint: true })
  if (!stats.isFile()) throw notAFile(given)
  const kind = kindByName(name) ?? ((await looksLikeText(file)) ? TEXT : SAVED)
  return {
    name,
    size: Number(stats.size),
    ...kind,
    isText: kind.type.startsWith('text/'),
    // The file may be replaced at any time.
    maxAge: 0,
    tag: `"${stats.ino.toString(36)}-${stats.size.toString(36)}-${stats.mtimeNs.toString(36)}"`,
    read: (start, end) => read(file, start, end),
    close: () => file.close()
  }
}

/** Sent as plain text, which is always inert: HTML without an extension is displayed as source. */
const TEXT = { type: PLAIN, isInert: true }
const SAVED = { type: BINARY, isInert: false }

function kindByName(name: string): { type: string; isInert: boolean } | null {
  const extension = extname(name).toLowerCase()
  const inert = INERT.get(extension)
  if (inert !== undefined) return { type: inert, isInert: true }
  const active = ACTIVE.get(extension)
  return active === undefined ? null : { type: active, isInert: false }
}

async function looksLikeText(file: FileHandle): Promise<boolean> {
  const buffer = Buffer.allocUnsafe(SNIFFED_BYTES)
  const { bytesRead } = await file.read(buffer, 0, SNIFFED_BYTES, 0)
  return isText(buffer.subarray(0, bytesRead))
}

function isText(head: Uint8Array): boolean {
  return !head.includes(0)
}

async function* read(file: FileHandle, start: number, end: number): AsyncGenerator<Buffer> {
  for (let at = start; at <= end; ) {
    const length = Math.min(CHUNK_BYTES, end - at + 1)
    // A new buffer each time, because the socket may still hold the previous one.
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, at)
    if (bytesRead === 0) throw new Error('an artifact became shorter while it was sent')
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function notAFile(given: string): PathError {
  return new PathError('not_a_file', `"${given}" is not a file`)
}
