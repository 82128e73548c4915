// Reads untrusted zip archives: the whole archive is checked before anything is written [needs N20].
import { type Entry, openPromise, type ZipFile } from 'yauzl'
import { kindOf, nullIfMissing } from './paths.ts'

export interface Member {
  /** `folder/file`: relative, plain names, unique even case-insensitively. */
  readonly path: string
  readonly content: Buffer
}

export interface ArchiveLimits {
  readonly members: number
  /** Of one member, unpacked. */
  readonly memberBytes: number
  /** Of all members together, unpacked. */
  readonly totalBytes: number
}

/** Why an archive is refused; the text is for its sender. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError'
}

/**
 * Unpacks an archive in memory: the caller writes nothing before everything was checked.
 * @throws ArchiveError for an invalid, damaged or too large archive, or a dangerous member
 */
export async function readArchive(path: string, limits: ArchiveLimits): Promise<Member[]> {
  const zip = await open(path)
  try {
    const entries = await entriesOf(zip, limits)
    const members: Member[] = []
    for (const entry of entries) members.push({ path: entry.fileName, content: await contentOf(zip, entry, limits) })
    return members
  } finally {
    zip.close()
  }
}

/** A member read as it is unpacked, without keeping it in memory. */
interface OpenMember {
  /** Size according to the archive; reading fails if it differs. */
  readonly size: number
  readonly crc32: number
  /** Its first bytes. */
  readonly head: Buffer
  /** @throws ArchiveError for what is damaged */
  read(): AsyncGenerator<Buffer>
  close(): void
}

/**
 * Opens one member of an archive, found by its exact path, or else below the archive's top folder.
 * @param headBytes size of `head`
 * @returns null: no such archive or member; otherwise it must be closed
 * @throws ArchiveError as `readArchive`
 */
export async function openMember(
  path: string,
  member: string,
  limits: ArchiveLimits,
  headBytes: number
): Promise<OpenMember | null> {
  const zip = await open(path).catch(nullIfMissing)
  if (zip === null) return null
  try {
    const entries = await entriesOf(zip, limits)
    const entry = entries.find(({ fileName }) => fileName === member) ?? inTopFolder(entries, member)
    const opened = entry ? await opening(zip, entry, headBytes) : null
    if (opened === null) zip.close()
    return opened
  } catch (error) {
    zip.close()
    throw error
  }
}

async function opening(zip: ZipFile, entry: Entry, headBytes: number): Promise<OpenMember> {
  let head = Buffer.alloc(0)
  for await (const chunk of unpacked(zip, entry)) {
    head = Buffer.concat([head, chunk])
    if (head.length >= headBytes) break
  }
  if (isArchive(head)) throw new ArchiveError(`The member "${entry.fileName}" is an archive itself`)
  return {
    size: entry.uncompressedSize,
    crc32: entry.crc32,
    head: head.subarray(0, headBytes),
    read: () => unpacked(zip, entry),
    close: () => zip.close()
  }
}

/** The content of a member in chunks. The library throws if its size differs from the one in the archive. */
async function* unpacked(zip: ZipFile, entry: Entry): AsyncGenerator<Buffer> {
  try {
    const stream = await zip.openReadStreamPromise(entry)
    yield* stream
  } catch (error) {
    throw archiveError(error)
  }
}

/**
 * Reads only the wanted members of an archive; only these count for the size limits.
 * @throws ArchiveError as `readArchive`
 */
export async function readMembers(
  path: string,
  isWanted: (name: string) => boolean,
  limits: ArchiveLimits
): Promise<Map<string, Buffer>> {
  const zip = await open(path)
  try {
    const members = new Map<string, Buffer>()
    for (const entry of await entriesOf(zip, limits, isWanted))
      members.set(entry.fileName, await contentOf(zip, entry, limits))
    return members
  } finally {
    zip.close()
  }
}

function inTopFolder(entries: readonly Entry[], member: string): Entry | undefined {
  return entries.find(({ fileName }) => fileName.slice(fileName.indexOf('/') + 1) === member)
}

async function open(path: string): Promise<ZipFile> {
  const kind = await kindOf(path)
  // Opening a FIFO would block until it has a writer.
  if (kind !== null && kind !== 'file') throw new ArchiveError('This is no zip archive')
  try {
    // strictFileNames: backslashes are refused, not converted. autoClose off: contents are read after all names.
    return await openPromise(path, { autoClose: false, lazyEntries: true, strictFileNames: true })
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw error
    throw new ArchiveError('This is no zip archive')
  }
}

/** Bytes that all names, comments and extra fields may have together: entries keep theirs as long as they are read. */
const TEXTS_BYTES = 1 << 20

/** The files of the archive, with safe names. Folders are left out. */
async function entriesOf(
  zip: ZipFile,
  limits: ArchiveLimits,
  isWanted: (name: string) => boolean = () => true
): Promise<Entry[]> {
  const files: Entry[] = []
  let entries = 0
  let texts = 0
  let total = 0
  try {
    for await (const entry of zip.eachEntry()) {
      // Folders count too, because a million of them is as much work.
      if (++entries > limits.members) throw new ArchiveError(`The archive has more than ${limits.members} members`)
      texts += entry.fileNameLength + entry.extraFieldLength + entry.fileCommentLength
      if (texts > TEXTS_BYTES) throw new ArchiveError('The archive has more names and comments than can be read')
      if (!isWanted(entry.fileName)) continue
      checkKind(entry)
      checkName(entry.fileName)
      if (entry.fileName.endsWith('/')) continue
      total += entry.uncompressedSize
      if (entry.uncompressedSize > limits.memberBytes || total > limits.totalBytes)
        throw new ArchiveError('The archive is too large when unpacked')
      files.push(entry)
    }
  } catch (error) {
    throw archiveError(error)
  }
  checkClashes(files)
  return files
}

const UNIX = 3
const TYPE_BITS = 0o170000
const REGULAR = 0o100000
const FOLDER = 0o040000

/** Only regular files and folders: links and devices would be followed by whoever opens them later. */
function checkKind(entry: Entry): void {
  if (entry.generalPurposeBitFlag & 1) throw new ArchiveError('The archive is encrypted')
  const madeOnUnix = entry.versionMadeBy >> 8 === UNIX
  const type = (entry.externalFileAttributes >>> 16) & TYPE_BITS
  if (madeOnUnix && type !== 0 && type !== REGULAR && type !== FOLDER)
    throw new ArchiveError(`"${entry.fileName}" is a link or a device`)
}

const NAME_BYTES = 255
const DEPTH = 16
// What makes a name look like another one, and characters with a meaning in names on some systems.
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\\:*?"<>|]/u
const ARCHIVES = /\.(zip|skill|jar|war|tar|tgz|gz|bz2|xz|zst|7z|rar)$/i

function checkName(name: string): void {
  const bad = (why: string) => new ArchiveError(`The member "${name.slice(0, 100)}" ${why}`)
  if (name.startsWith('/') || UNSAFE.test(name)) throw bad('has a name that is not allowed')
  const parts = name.replace(/\/$/, '').split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..')) throw bad('would leave its folder')
  if (parts.length > DEPTH || parts.some((part) => Buffer.byteLength(part) > NAME_BYTES))
    throw bad('has a path that is too long')
  // Windows drops these silently, so that two names become one.
  if (parts.some((part) => /[. ]$/.test(part))) throw bad('ends with a dot or a space')
  if (ARCHIVES.test(name)) throw bad('is an archive itself')
}

/** Refuses names that differ only in case or Unicode form, and files where another member needs a folder. */
function checkClashes(files: readonly Entry[]): void {
  const taken = new Set<string>()
  const folders = new Set<string>()
  for (const { fileName } of files) {
    const folded = fileName.normalize('NFC').toLowerCase()
    if (taken.has(folded)) throw new ArchiveError(`"${fileName}" is in the archive twice`)
    taken.add(folded)
    for (let at = folded.indexOf('/'); at >= 0; at = folded.indexOf('/', at + 1)) folders.add(folded.slice(0, at))
  }
  const clash = [...taken].find((name) => folders.has(name))
  if (clash) throw new ArchiveError(`"${clash}" is a file and a folder`)
}

/** Counts while unpacking, because the sizes in an archive are only claims. */
async function contentOf(zip: ZipFile, entry: Entry, limits: ArchiveLimits): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of unpacked(zip, entry)) {
    bytes += chunk.length
    if (bytes > limits.memberBytes) throw new ArchiveError('The archive is too large when unpacked')
    chunks.push(chunk)
  }
  const content = Buffer.concat(chunks)
  if (isArchive(content)) throw new ArchiveError(`The member "${entry.fileName}" is an archive itself`)
  return content
}

/** Detected by its first bytes: a nested bomb may have any name. */
function isArchive(content: Buffer): boolean {
  const head = content.subarray(0, 4).toString('latin1')
  return head === 'PK\x03\x04' || head.startsWith('\x1f\x8b') || head === '7z\xbc\xaf' || head === 'Rar!'
}

// Errors of the library are the sender's fault; errors of the disk are ours.
function archiveError(error: unknown): unknown {
  if (error instanceof ArchiveError) return error
  const isDisk = error instanceof Error && 'syscall' in error
  return isDisk ? error : new ArchiveError('The archive is damaged, or has a name that is not allowed')
}
