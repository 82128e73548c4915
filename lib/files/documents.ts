// Extracts text from untrusted documents. Each is read in a process of its own with limits on time and memory, so that
// a malicious document cannot harm ours.
import { type ChildProcess, spawn } from 'node:child_process'
import { setMaxListeners } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { messageOf } from '../base/errors.ts'
import { KeyedMutex } from '../base/keyed-mutex.ts'

export type DocumentKind = 'pdf' | 'docx' | 'pptx' | 'xlsx'

const READABLE: ReadonlyMap<string, DocumentKind> = new Map([
  ['.pdf', 'pdf'],
  ['.docx', 'docx'],
  ['.pptx', 'pptx'],
  ['.xlsx', 'xlsx']
])
/** No reader for these, but a Markdown copy is deleted with them. */
const OLD: ReadonlySet<string> = new Set(['.doc', '.ppt', '.xls'])

/** @returns null: not a document, or an old format */
function documentKind(name: string): DocumentKind | null {
  return READABLE.get(extname(name).toLowerCase()) ?? null
}

/** Whether a file with this name may have a Markdown copy. */
export function isDocument(name: string): boolean {
  return documentKind(name) !== null || OLD.has(extname(name).toLowerCase())
}

export interface DocumentLimits {
  /** Timeout in ms for all documents of a request, including queueing. */
  readonly timeoutMs: number
  /** Memory of one reader process, in bytes. */
  readonly memoryBytes: number
  /** Maximum bytes of a document. */
  readonly sizeMax: number
  /** Concurrent readers, at most one per user. */
  readonly readers: number
}

const DOCUMENT_LIMITS: DocumentLimits = {
  timeoutMs: 30_000,
  memoryBytes: 512 << 20,
  sizeMax: 100 << 20,
  readers: 2
}

interface DocumentFile {
  /** Nobody may write to it meanwhile. */
  readonly path: string
  /** The extension decides its kind. */
  readonly name: string
  /** Bytes. */
  readonly size: number
}

interface DocumentsOptions {
  /** Called for every document without a text, with the reason. */
  readonly onFailed: (file: DocumentFile, reason: string) => void
  readonly limits?: Partial<DocumentLimits>
}

const ENDING = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const GUARD = fileURLToPath(new URL(`./document/guard.${ENDING}`, import.meta.url))
/** Maximum bytes of a text; readers keep fewer characters than that. */
const TEXT_BYTES = 16 << 20
const REASON_CHARS = 300

export class Documents {
  readonly #limits: DocumentLimits
  readonly #onFailed: DocumentsOptions['onFailed']
  /** One reading per owner, so that nobody occupies all readers. */
  readonly #readings: KeyedMutex
  readonly #children = new Set<ChildProcess>()
  #isClosed = false

  constructor({ onFailed, limits }: DocumentsOptions) {
    this.#limits = { ...DOCUMENT_LIMITS, ...limits }
    this.#onFailed = onFailed
    this.#readings = new KeyedMutex({ all: this.#limits.readers, each: 1 })
  }

  /**
   * The text of each file as Markdown, in order; null if it is not a document or could not be read.
   * @param owner of the files
   */
  texts(files: readonly DocumentFile[], owner: string): Promise<(string | null)[]> {
    const late = AbortSignal.timeout(this.#limits.timeoutMs)
    setMaxListeners(0, late)
    return Promise.all(files.map((file) => this.#text(file, owner, late)))
  }

  /** Stops all readers; pending texts are null. */
  stop(): void {
    this.#isClosed = true
    for (const child of this.#children) child.kill('SIGKILL')
  }

  async #text(file: DocumentFile, owner: string, late: AbortSignal): Promise<string | null> {
    const kind = documentKind(file.name)
    if (kind === null) return null
    try {
      if (file.size > this.#limits.sizeMax) throw new Error(`it has more than ${this.#limits.sizeMax} bytes`)
      const text = await this.#readings.run(owner, () => this.#read(file.path, kind, late), late)
      if (text === '') throw new Error('it contains no text')
      return text
    } catch (error) {
      const reason = late.aborted ? 'it took too long' : messageOf(error)
      this.#onFailed(file, reason)
      return null
    }
  }

  /** @throws Error with the reason why there is no text */
  #read(path: string, kind: DocumentKind, late: AbortSignal): Promise<string> {
    if (this.#isClosed) throw new Error('the server is shutting down')
    // Without our environment, which may contain keys.
    const child = spawn(process.execPath, [GUARD, path, kind, String(this.#limits.memoryBytes)], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: {}
    })
    this.#children.add(child)
    const stop = () => void child.kill('SIGKILL')
    late.addEventListener('abort', stop, { once: true })
    return said(child).finally(() => {
      late.removeEventListener('abort', stop)
      this.#children.delete(child)
    })
  }
}

/** The output of a reader that succeeded. @throws Error with its output if it failed */
function said(child: ChildProcess): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  child.stdin?.on('error', () => {})
  child.stdout?.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > TEXT_BYTES) child.kill('SIGKILL')
    else chunks.push(chunk)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      const text = Buffer.concat(chunks).toString('utf8')
      if (code === 0) resolve(text)
      else reject(new Error(text.slice(0, REASON_CHARS) || 'its reader crashed'))
    })
  })
}
