// The uploads of a thread: plain files that its user put beside the conversation. They are taken in as a stream, counted while
// they come, and appear under their names only when all of the request is whole and within the limits [needs N19].
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, rm, unlink, writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { extname, join } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { companionName, companionText, removeCompanion } from './companion.ts'
import type { Documents } from './documents.ts'
import { kindOf, nullIfMissing, PathError, type Paths } from './paths.ts'

/** Of one request. 0 is no limit. */
export interface UploadLimits {
  readonly max_files: number
  /** Bytes. */
  readonly max_file_size: number
  /** Bytes of all files together. */
  readonly max_total_size: number
}

export type UploadProblem =
  /** The body is no multipart form, or has no part that is called `files` and has a file name. */
  | 'no_files_part'
  /** A form in which nothing was chosen: its parts have empty file names. */
  | 'no_files'
  /** Not readable as what its head says it is; also one that stops before its last delimiter. */
  | 'malformed'
  /** The client went away in the middle. */
  | 'cut'
  | 'too_many_files'
  | 'file_too_large'
  | 'total_too_large'

/** A request whose files are not taken. Nothing of it is left on the disk. */
export class UploadError extends Error {
  readonly problem: UploadProblem
  /** The limit that was passed, for the last three. */
  readonly limit: number

  constructor(problem: UploadProblem, limit = 0) {
    super(`upload refused: ${problem}`)
    this.name = 'UploadError'
    this.problem = problem
    this.limit = limit
  }
}

/** A request's body and the head that says how to read it: an IncomingMessage fits. */
export type UploadSource = Readable & { readonly headers: IncomingHttpHeaders }

export interface Upload {
  readonly filename: string
  /** Bytes. */
  readonly size: number
}

export interface ReceivedFile extends Upload {
  readonly original: string | null
  /** The file beside it that has its text. */
  readonly markdown?: string
}

export interface Received {
  /** In the order of the request; `original` is the name that was sent, where the file has got another one. */
  readonly files: readonly ReceivedFile[]
  /** Names as they were sent: those that no file may have, and those that belong to a link or a folder. */
  readonly skipped: readonly string[]
}

export interface ListedUpload extends Upload {
  /** Unix seconds with fractions. */
  readonly modified: number
}

/** How long a request can take at most lies far below this; what is older was left behind by a crash. */
const STALE_MS = 60 * 60 * 1000
/** What the longest name may take, in UTF-8: the limit of all common file systems. */
const NAME_BYTES_MAX = 255

export class Uploads {
  readonly limits: UploadLimits
  readonly #paths: Paths
  readonly #documents: Documents | null

  /** @param documents reads the documents among the files; null: they get no text beside them */
  constructor(
    paths: Paths,
    { max_files, max_file_size, max_total_size }: UploadLimits,
    documents: Documents | null = null
  ) {
    this.#documents = documents
    this.limits = { max_files, max_file_size, max_total_size }
    this.#paths = paths
  }

  /**
   * Takes in a multipart form, its parts called `files`. A file of an earlier request is replaced; of two with one name in this
   * request the second is renamed. The source is left paused where reading has stopped.
   * @throws UploadError
   * @throws PathError `bad_id`; `escapes` or `not_a_file` when the uploads folder is none
   */
  async receive(source: UploadSource, threadId: string, userId?: string): Promise<Received> {
    // Before anything is read: throws for ids that cannot be part of a path.
    this.#paths.uploads(threadId, userId)
    const incoming = this.#paths.incoming(userId)
    const folder = join(incoming, randomUUID())
    await removeStale(incoming)
    await mkdir(folder, { recursive: true })
    try {
      const intake = new Intake(source, folder, this.limits)
      const drafts = await intake.read()
      // Before they have names: nobody can change a document while it is read.
      const texts = (await this.#documents?.texts(drafts, userId ?? threadId)) ?? []
      return await this.#paths.writing(threadId, userId, async () =>
        publish(drafts, texts, intake.skipped, await this.#paths.makeUploads(threadId, userId))
      )
    } finally {
      await rm(folder, { recursive: true, force: true })
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
   * Removes a file, and the Markdown file beside a document that can be converted.
   * @returns Whether there was such a file.
   * @throws PathError `bad_id`; `escapes` for what is no name
   */
  async remove(threadId: string, userId: string | undefined, name: string): Promise<boolean> {
    if (!isName(name)) throw new PathError('escapes', 'This is not the name of a file')
    const folder = await this.#existing(threadId, userId)
    if (folder === null || !(await removeFile(join(folder, name)))) return false
    await removeCompanion(folder, name, true)
    return true
  }

  /** The folder, or null when there is none or it was replaced by a link. */
  async #existing(threadId: string, userId: string | undefined): Promise<string | null> {
    const folder = this.#paths.uploads(threadId, userId)
    return (await kindOf(folder)) === 'folder' ? folder : null
  }
}

// ----------------------------------------------------------------------------------------------- taking in

/** A file that was taken in and has no name on the disk yet. */
interface Draft {
  readonly path: string
  /** As it was sent. */
  readonly given: string
  /** As it may be used. */
  readonly name: string
  size: number
}

const FIELD = 'files'
/** Parts besides the files that a form may have; they are passed over. */
const OTHER_PARTS_MAX = 100
/** Bytes of a body that are not files: heads of parts, other fields. */
const OVERHEAD_BYTES = 1024 * 1024
// Nobody reads the other fields, so little of them is held.
const FIELD_BYTES = 1024
// O_EXCL and O_NOFOLLOW: a draft is always a new file of ours.
const DRAFT_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** One request's body on its way to drafts. It reads until the end or the first problem; then all of its files are closed. */
class Intake {
  readonly skipped: string[] = []
  readonly #source: UploadSource
  readonly #folder: string
  readonly #limits: UploadLimits
  readonly #drafts: Promise<Draft>[] = []
  readonly #stop = new AbortController()
  /** Parts called `files` that have a name. */
  #named = 0
  /** Parts called `files` of which the name is empty. */
  #unnamed = 0
  #totalBytes = 0

  constructor(source: UploadSource, folder: string, limits: UploadLimits) {
    this.#source = source
    this.#folder = folder
    this.#limits = limits
    // One a file, and a chunk of the body may hold many: they are no leak.
    setMaxListeners(0, this.#stop.signal)
  }

  /** @throws UploadError, or what the disk says */
  async read(): Promise<Draft[]> {
    try {
      await this.#parse(openParser(this.#source.headers, this.#limits))
      const drafts = await Promise.all(this.#drafts)
      if (this.#named > 0) return drafts
      throw new UploadError(this.#unnamed > 0 ? 'no_files' : 'no_files_part')
    } catch (error) {
      this.#stop.abort()
      // The caller removes the folder next: no file may be created in it after that.
      await Promise.allSettled(this.#drafts)
      throw error
    }
  }

  /** Resolves when the parser has given out everything, and rejects at the first problem, wherever it turns up. */
  async #parse(parser: BusboyInstance): Promise<void> {
    const source = this.#source
    const bytesMax = bodyBytesMax(this.#limits)
    if (Number(source.headers['content-length'] ?? 0) > bytesMax) throw this.#tooLarge()
    // The client went away while we did something else: no event will ever tell.
    if (source.destroyed) throw new UploadError('cut')
    let bytes = 0
    let onData: (chunk: Buffer) => void = ignore
    let onGone: () => void = ignore
    try {
      await new Promise<void>((resolve, reject) => {
        const refuse = (error: unknown) => {
          // Now and not when the promise is heard: the parser has still to give out the rest of its chunk.
          this.#stop.abort()
          reject(error)
        }
        onData = (chunk) => {
          bytes += chunk.length
          if (bytes > bytesMax) refuse(this.#tooLarge())
        }
        onGone = () => {
          if (!source.readableEnded) refuse(new UploadError('cut'))
        }
        parser.on('file', (field, stream, given) => this.#take(field, stream, given, refuse))
        parser.on('partsLimit', () => refuse(new UploadError('too_many_files', this.#limits.max_files)))
        parser.on('error', () => refuse(new UploadError('malformed')))
        parser.on('finish', resolve)
        source.on('data', onData).on('close', onGone).on('error', onGone)
        // pipe and not pipeline: that would destroy the source, and with it the connection that our answer needs.
        source.pipe(parser)
      })
    } finally {
      source.unpipe(parser)
      source.off('data', onData).off('close', onGone).off('error', onGone)
      source.pause()
    }
  }

  /** Called for one part with a file name, before its content comes. What is not wanted has to be read all the same. */
  #take(field: string, stream: BusboyFileStream, given: string, refuse: (error: unknown) => void): void {
    // A body that is cut off is an error event on the part it ends in, also on one that nobody reads.
    stream.on('error', ignore)
    if (field !== FIELD || this.#stop.signal.aborted) return void stream.resume()
    if (given === '') {
      this.#unnamed++
      return void stream.resume()
    }
    const { max_files } = this.#limits
    if (isOver(++this.#named, max_files)) return refuse(new UploadError('too_many_files', max_files))
    const name = nameOf(given)
    if (name === null) {
      this.skipped.push(given)
      return void stream.resume()
    }
    addAbortSignal(this.#stop.signal, stream)
    const draft = this.#write({ path: join(this.#folder, String(this.#named)), given, name, size: 0 }, stream)
    draft.catch(refuse)
    this.#drafts.push(draft)
  }

  async #write(draft: Draft, stream: Readable): Promise<Draft> {
    const file = await open(draft.path, DRAFT_FLAGS, 0o644)
    try {
      // Goes on where the one before has ended.
      for await (const chunk of this.#metered(draft, stream)) await file.writeFile(chunk)
    } finally {
      await file.close()
    }
    return draft
  }

  /** The content of a part, counted before it is written. */
  async *#metered(draft: Draft, stream: Readable): AsyncGenerator<Buffer> {
    const { max_file_size, max_total_size } = this.#limits
    // The parser gives out bytes, never texts.
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      draft.size += chunk.length
      this.#totalBytes += chunk.length
      if (isOver(draft.size, max_file_size)) throw new UploadError('file_too_large', max_file_size)
      if (isOver(this.#totalBytes, max_total_size)) throw this.#tooLarge()
      yield chunk
    }
  }

  #tooLarge(): UploadError {
    return new UploadError('total_too_large', filesBytesMax(this.#limits))
  }
}

function openParser(headers: IncomingHttpHeaders, { max_files }: UploadLimits): BusboyInstance {
  const type = headers['content-type'] ?? ''
  // The parser takes urlencoded forms too; there are no files in them.
  if (!/^multipart\/form-data\b/i.test(type)) throw new UploadError('no_files_part')
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': type },
      // Whole names: the parser would take a backslash for a separator and make a good name of a bad one.
      preservePath: true,
      isPartAFile: (_field, _type, name) => name !== undefined,
      limits: {
        fieldSize: FIELD_BYTES,
        parts: max_files === 0 ? Number.POSITIVE_INFINITY : max_files + OTHER_PARTS_MAX
      }
    })
  } catch {
    // No boundary.
    throw new UploadError('malformed')
  }
}

/** What all files together may have, in bytes; 0 is no limit. */
function filesBytesMax({ max_files, max_file_size, max_total_size }: UploadLimits): number {
  return max_total_size || max_files * max_file_size
}

function bodyBytesMax(limits: UploadLimits): number {
  const bytes = filesBytesMax(limits)
  return bytes === 0 ? Number.POSITIVE_INFINITY : bytes + OVERHEAD_BYTES
}

function isOver(value: number, limit: number): boolean {
  return limit !== 0 && value > limit
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

// ---------------------------------------------------------------------------------------------- publishing

/** Gives drafts their names, each by one rename: readers see the old file or the new one. */
async function publish(
  drafts: readonly Draft[],
  texts: readonly (string | null)[],
  bad: readonly string[],
  folder: string
): Promise<Received> {
  const files: ReceivedFile[] = []
  const documents: { file: number; draft: string; text: string }[] = []
  const skipped = [...bad]
  const taken = new Set<string>()
  for (const [at, { path, given, name: wanted, size }] of drafts.entries()) {
    const name = taken.has(wanted) ? await freeName(wanted, taken, folder) : wanted
    const target = join(folder, name)
    if (!(await isReplaceable(target))) {
      skipped.push(given)
      continue
    }
    await rename(path, target)
    taken.add(name)
    // It has the text of what stood here before.
    await removeCompanion(folder, name, false)
    const text = texts[at] ?? null
    if (text !== null) documents.push({ file: files.length, draft: `${path}.md`, text })
    files.push({ filename: name, size, original: name === given ? null : given })
  }
  // When all uploads have their names: what the user has sent goes before what we make of it.
  for (const { file, draft, text } of documents) {
    const { filename } = files[file]!
    const markdown = await companionName(folder, filename, taken)
    if (markdown === null) continue
    await writeFile(draft, companionText(filename, text), { flag: 'wx', mode: 0o644 })
    await rename(draft, join(folder, markdown))
    files[file] = { ...files[file]!, markdown }
  }
  return { files, skipped }
}

/**
 * True for nothing and for a plain file with one name. A link was not made by an upload: whoever made it wants our bytes
 * somewhere else, or wants to read them under another name.
 */
async function isReplaceable(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(nullIfMissing)
  return stats === null || (stats.isFile() && stats.nlink === 1)
}

/** `notes_1.txt` for `notes.txt`, or the next number that neither this request nor an earlier one has used. */
async function freeName(wanted: string, taken: ReadonlySet<string>, folder: string): Promise<string> {
  const extension = extname(wanted)
  const stem = wanted.slice(0, wanted.length - extension.length)
  for (let i = 1; ; i++) {
    const tail = `_${i}${extension}`
    const name = `${cutToBytes(stem, NAME_BYTES_MAX - Buffer.byteLength(tail))}${tail}`
    if (!taken.has(name) && (await kindOf(join(folder, name))) === null) return name
  }
}

/** The beginning of a text that fits, not ending inside a character. */
function cutToBytes(text: string, bytesMax: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(0, bytesMax)))
  return text.slice(0, read)
}

// --------------------------------------------------------------------------------------------------- names

/**
 * The name under which a file may be kept, or null. Clients send paths (`a/b.txt`), of which the last part counts. In one
 * normal form, because two spellings of `é` look the same and are one file on some systems and two on others.
 */
function nameOf(given: string): string | null {
  const name = given.slice(given.lastIndexOf('/') + 1).normalize('NFC')
  // Control characters: no name needs them, and they forge lines of logs and listings.
  return isName(name) && !/\p{Cc}/u.test(name) && Buffer.byteLength(name) <= NAME_BYTES_MAX ? name : null
}

/** True for a text that names something in its folder and nothing elsewhere. */
function isName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !/[/\\\0]/.test(text)
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

function ignore(): void {}
