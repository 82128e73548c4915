// Receives one multipart request: bytes are counted as they come, and stay in drafts until everything is there and
// within the limits [needs N19].
import { setMaxListeners } from 'node:events'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { nameOf } from './name.ts'

/** Of one request. 0 is no limit. */
export interface UploadLimits {
  readonly max_files: number
  /** Bytes. */
  readonly max_file_size: number
  /** Bytes of all files together. */
  readonly max_total_size: number
  /** Bytes of all that a user has uploaded. */
  readonly user_bytes: number
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
  /** Of all files of the user together. */
  | 'over_quota'

/** A request whose files are not taken. Nothing of it is left on the disk. */
export class UploadError extends Error {
  readonly problem: UploadProblem
  /** The limit that was passed, for the last four. */
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

/** A file that was taken in and has no name on the disk yet. */
export interface Draft {
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
// Other fields are not used, so little of them is buffered.
const FIELD_BYTES = 1024
// O_EXCL and O_NOFOLLOW: a draft is always a new file of ours.
const DRAFT_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** One request's body on its way to drafts. It reads until the end or the first problem; then all of its files are closed. */
export class UploadReceiver {
  readonly skipped: string[] = []
  readonly #source: UploadSource
  readonly #folder: string
  readonly #limits: UploadLimits
  readonly #drafts: Promise<Draft>[] = []
  readonly #stop = new AbortController()
  readonly #take: (bytes: number) => boolean
  /** Parts called `files` that have a name. */
  #named = 0
  /** Parts called `files` of which the name is empty. */
  #unnamed = 0
  #totalBytes = 0

  /** @param take called with the number of bytes that came; returns false when there is no space for them */
  constructor(source: UploadSource, folder: string, limits: UploadLimits, take: (bytes: number) => boolean) {
    this.#take = take
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
    let onData: (chunk: Buffer) => void = () => {}
    let onGone: () => void = () => {}
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
        parser.on('file', (field, stream, given) => this.#open(field, stream, given, refuse))
        parser.on('partsLimit', () => refuse(new UploadError('too_many_files', this.#limits.max_files)))
        parser.on('error', () => refuse(new UploadError('malformed')))
        parser.on('finish', resolve)
        source.on('data', onData).on('close', onGone).on('error', onGone)
        // pipe instead of pipeline, which would destroy the source and with it the connection for our response.
        source.pipe(parser)
      })
    } finally {
      source.unpipe(parser)
      source.off('data', onData).off('close', onGone).off('error', onGone)
      source.pause()
    }
  }

  /** Called for one part with a file name, before its content comes. What is not wanted has to be read all the same. */
  #open(field: string, stream: BusboyFileStream, given: string, refuse: (error: unknown) => void): void {
    // A body that is cut off is an error event on the part it ends in, also on one that nobody reads.
    stream.on('error', () => {})
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
      if (!this.#take(chunk.length)) throw new UploadError('over_quota', this.#limits.user_bytes)
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
