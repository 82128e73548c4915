// Receives one multipart request: counts bytes as they arrive, and keeps them in drafts until everything is complete and within
// the limits [needs N19].
import { setMaxListeners } from 'node:events'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { addAbortSignal, type Readable } from 'node:stream'
import { Busboy, type BusboyFileStream, type BusboyInstance } from '@fastify/busboy'
import { nameOf } from './name.ts'

/** Limits; 0: unlimited. */
export interface UploadLimits {
  readonly max_files: number
  /** Bytes. */
  readonly max_file_size: number
  /** Bytes of all files in a request. */
  readonly max_total_size: number
  /** Bytes of all uploads of a user. */
  readonly user_bytes: number
}

type UploadProblem =
  /** Not a multipart form, or no part named `files` with a file name. */
  | 'no_files_part'
  /** Only empty file names: the form was sent without choosing files. */
  | 'no_files'
  /** Not valid multipart, or it stops before its last delimiter. */
  | 'malformed'
  /** The client disconnected. */
  | 'cut'
  | 'too_many_files'
  | 'file_too_large'
  | 'total_too_large'
  /** Of all files of the user together. */
  | 'over_quota'

/** A refused request. Nothing of it is left on disk. */
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

/** A request body and its headers; an IncomingMessage fits. */
export type UploadSource = Readable & { readonly headers: IncomingHttpHeaders }

/** A received file that has no name on disk yet. */
export interface Draft {
  readonly path: string
  /** The name as sent. */
  readonly given: string
  /** The sanitised name. */
  readonly name: string
  size: number
}

const FIELD = 'files'
/** Other parts a form may have; they are ignored. */
const OTHER_PARTS_MAX = 100
/** Bytes allowed for part headers and other fields. */
const OVERHEAD_BYTES = 1024 * 1024
/** Pieces that cost more time than their bytes, and how many of them are read in one turn of the loop. */
const SMALL_BYTES = 1024
const PIECES_A_TURN = 512
// Other fields are ignored, so little of them is buffered.
const FIELD_BYTES = 1024
// O_EXCL and O_NOFOLLOW: a draft is always a new file.
const DRAFT_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/** Reads one request body into drafts, until the end or the first problem; then all its files are closed. */
export class UploadReceiver {
  readonly skipped: string[] = []
  readonly #source: UploadSource
  readonly #folder: string
  readonly #limits: UploadLimits
  readonly #drafts: Promise<Draft>[] = []
  readonly #stop = new AbortController()
  readonly #take: (bytes: number) => boolean
  /** Parts named `files` with a file name. */
  #named = 0
  /** Parts named `files` with an empty file name. */
  #unnamed = 0
  #totalBytes = 0

  /** @param take called with the number of bytes received; returns false when the user's quota is exceeded */
  constructor(source: UploadSource, folder: string, limits: UploadLimits, take: (bytes: number) => boolean) {
    this.#take = take
    this.#source = source
    this.#folder = folder
    this.#limits = limits
    // One listener per file, and there may be many.
    setMaxListeners(0, this.#stop.signal)
  }

  /** @throws UploadError; errors of the file system */
  async read(): Promise<Draft[]> {
    try {
      await this.#parse(openParser(this.#source.headers, this.#limits))
      const drafts = await Promise.all(this.#drafts)
      if (this.#named > 0) return drafts
      throw new UploadError(this.#unnamed > 0 ? 'no_files' : 'no_files_part')
    } catch (error) {
      this.#stop.abort()
      // The caller deletes the folder next; no file may be created in it after that.
      await Promise.allSettled(this.#drafts)
      throw error
    }
  }

  /** Resolves when the parser is done; rejects on the first problem. */
  async #parse(parser: BusboyInstance): Promise<void> {
    const source = this.#source
    const bytesMax = bodyBytesMax(this.#limits)
    if (Number(source.headers['content-length'] ?? 0) > bytesMax) throw this.#tooLarge()
    // The client has disconnected already, and there will be no event.
    if (source.destroyed) throw new UploadError('cut')
    let bytes = 0
    let pieces = 0
    let onData: (chunk: Buffer) => void = () => {}
    let onGone: () => void = () => {}
    try {
      await new Promise<void>((resolve, reject) => {
        const refuse = (error: unknown) => {
          // At once, because the parser still emits the rest of its chunk.
          this.#stop.abort()
          reject(error)
        }
        onData = (chunk) => {
          bytes += chunk.length
          if (bytes > bytesMax) refuse(this.#tooLarge())
          else if (chunk.length < SMALL_BYTES && ++pieces % PIECES_A_TURN === 0) {
            source.pause()
            setImmediate(() => source.resume())
          }
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

  /** Called for each file part before its content. Unwanted parts must be drained. */
  #open(field: string, stream: BusboyFileStream, given: string, refuse: (error: unknown) => void): void {
    // A truncated body emits an error on its last part, even if nobody reads it.
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
      // Appends to the file handle's position.
      for await (const chunk of this.#metered(draft, stream)) await file.writeFile(chunk)
    } finally {
      await file.close()
    }
    return draft
  }

  /** The content of a part, counted before it is written. */
  async *#metered(draft: Draft, stream: Readable): AsyncGenerator<Buffer> {
    const { max_file_size, max_total_size } = this.#limits
    // The parser emits bytes, never strings.
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
  // The parser accepts urlencoded forms too, which have no files.
  if (!/^multipart\/form-data\b/i.test(type)) throw new UploadError('no_files_part')
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': type },
      // Unmodified names: the parser would treat a backslash as a separator and accept a bad name.
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

/** Maximum bytes of all files together; 0: unlimited. */
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
