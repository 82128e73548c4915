// The file of a backup: a ZIP archive with the database as a SQLite file, the files of the home, and last a list of what is in it.
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough, Readable, Transform } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import * as v from 'valibot'
import { codeOf, messageOf } from '../base/errors.ts'
import { filesBelow, placeNew } from '../files/paths.ts'
import type { TableSum } from '../store/copy.ts'
import { openPromise, type ZipFile as Archive } from 'yauzl'

const FORMAT = 1
const LIST = 'manifest.json'
const DATABASE = 'colloquy.db'
const FILES = 'files/'
const LIST_BYTES_MAX = 1 << 30

const tableSum = v.object({
  name: v.string(),
  columns: v.pipe(v.array(v.string()), v.readonly()),
  rows: v.number(),
  hash: v.string()
})
const stored = { bytes: v.number(), sha256: v.string() }
const manifest = v.object({
  format: v.literal(FORMAT, 'the backup was made by a newer program'),
  version: v.string(),
  made_at: v.string(),
  /** The kind of database that it was made of. */
  backend: v.string(),
  /** Where run events are; older backups do not say. In memory: they are in no backup. */
  run_events: v.optional(v.string()),
  with_secrets: v.boolean(),
  tables: v.pipe(v.array(tableSum), v.readonly()),
  database: v.object(stored),
  files: v.array(v.object({ path: v.string(), ...stored }))
})
export type Manifest = v.InferOutput<typeof manifest>
type Stored = Manifest['database']
/** What is known before the files are read. */
interface ManifestHead extends Pick<Manifest, 'version' | 'made_at' | 'backend' | 'run_events' | 'with_secrets'> {
  readonly tables: readonly TableSum[]
}

/** What a file is saved as: null is itself. */
export type Content = ((path: string) => Promise<string>) | null

interface SavedFiles {
  readonly root: string
  /** undefined: it is left out. `path`: relative to the root, with slashes. */
  readonly contentOf: (path: string) => Content | undefined
}

/** Hashes what passes. */
class Hashing extends Transform {
  readonly #hash = createHash('sha256')
  #bytes = 0

  override _transform(chunk: Buffer, _: BufferEncoding, done: (error: null, chunk: Buffer) => void): void {
    this.#bytes += chunk.length
    this.#hash.update(chunk)
    done(null, chunk)
  }

  get stored(): Stored {
    return { bytes: this.#bytes, sha256: this.#hash.copy().digest('hex') }
  }
}

/**
 * Writes the archive. A file that goes meanwhile is left out: of what is written and not in the list nothing is restored.
 * @throws Error when there is such a file already, or something cannot be read
 */
export async function writeBackup(
  file: string,
  head: ManifestHead,
  database: string,
  { root, contentOf }: SavedFiles
): Promise<Manifest> {
  const { ZipFile } = await import('yazl')
  const zip = new ZipFile()
  const out = new PassThrough()
  zip.on('error', (error: Error) => out.destroy(error))
  const saved = new Map<string, Hashing>()
  const add = (name: string, make: () => Promise<Readable | null>): void =>
    zip.addReadStreamLazy(name, { compress: true, forceZip64Format: true, mode: 0o100600 }, (given) => {
      make().then(
        (stream) => {
          if (stream === null) return given(null, Readable.from([]))
          const hashing = new Hashing()
          saved.set(name, hashing)
          stream.on('error', (error) => hashing.destroy(error))
          given(null, stream.pipe(hashing))
        },
        (error: Error) => given(error, Readable.from([]))
      )
    })
  add(DATABASE, async () => createReadStream(database))
  for (const path of await filesBelow(root)) {
    const content = contentOf(path)
    // The library takes no such name.
    if (content === undefined || path.includes('\\')) continue
    add(FILES + path, async () =>
      content ? Readable.from([Buffer.from(await content(join(root, path)))]) : streamOf(join(root, path))
    )
  }
  let made: Manifest | null = null
  zip.addReadStreamLazy(LIST, { compress: true, forceZip64Format: true, mode: 0o100600 }, (given) => {
    const files = [...saved].flatMap(([name, { stored: of }]) =>
      name.startsWith(FILES) ? [{ path: name.slice(FILES.length), ...of }] : []
    )
    made = { format: FORMAT, ...head, database: saved.get(DATABASE)!.stored, files }
    given(null, Readable.from([Buffer.from(JSON.stringify(made))]))
  })
  zip.end()
  zip.outputStream.pipe(out)
  await pipeline(out, createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true }))
  return made!
}

/** null: it has gone. */
async function streamOf(path: string): Promise<Readable | null> {
  const handle = await open(path).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  })
  return handle?.createReadStream() ?? null
}

// ----------------------------------------------------------------------------------------------------- reading

export interface Backup {
  readonly manifest: Manifest
  /** @throws Error when it is not what was saved */
  extractDatabase(to: string): Promise<void>
  /**
   * Files below the folder, each whole or not at all; null: they are only read. `onMade` is told of each that is there.
   * @throws Error when one is not what was saved
   */
  extractFiles(
    root: string | null,
    isWanted?: (path: string) => boolean,
    onMade?: (path: string) => void
  ): Promise<number>
  close(): void
}

/** @throws Error when it is no backup, or one of a newer program */
export async function openBackup(file: string): Promise<Backup> {
  const zip = await openPromise(file, { autoClose: false, lazyEntries: true }).catch((error: unknown) => {
    throw new Error(
      codeOf(error) === 'ENOENT' ? `There is no file ${file}` : `${file} is no backup: ${messageOf(error)}`
    )
  })
  try {
    const entries = await entriesOf(zip)
    const list = entries.get(LIST)
    if (!list || list.uncompressedSize > LIST_BYTES_MAX) throw new Error(`${file} is no backup, or not whole`)
    const text = await textOf(await zip.openReadStreamPromise(list))
    const parsed = v.safeParse(manifest, JSON.parse(text))
    if (!parsed.success) throw new Error(`${file} cannot be restored: ${parsed.issues[0].message}`)
    const extract = async (name: string, to: string | null, of: Stored): Promise<void> => {
      const entry = entries.get(name)
      const hashing = new Hashing()
      if (entry) await pipeline(await zip.openReadStreamPromise(entry), hashing, sinkOf(to))
      if (!entry || hashing.stored.sha256 !== of.sha256)
        throw new Error(`${name} is not what was saved: ${file} is damaged`)
    }
    return {
      manifest: parsed.output,
      extractDatabase: (to) => extract(DATABASE, to, parsed.output.database),
      async extractFiles(root, isWanted = () => true, onMade = () => {}) {
        const wanted = parsed.output.files.filter(({ path }) => isWanted(path))
        for (const { path, ...of } of wanted) {
          if (root === null) await extract(FILES + path, null, of)
          else await place(join(root, ...partsOf(path)), (draft) => extract(FILES + path, draft, of))
          onMade(path)
        }
        return wanted.length
      },
      close: () => zip.close()
    }
  } catch (error) {
    zip.close()
    throw error
  }
}

/** What is cut leaves no part of a file, which would be taken for all of it. @throws Error when there is a file already */
async function place(path: string, write: (draft: string) => Promise<void>): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const draft = join(dirname(path), `.${randomUUID()}.part`)
  try {
    await write(draft)
    if (!(await placeNew(draft, path))) throw new Error(`There is a file ${path} already`)
  } finally {
    await rm(draft, { force: true })
  }
}

async function entriesOf(zip: Archive) {
  const entries = new Map<string, Parameters<Archive['openReadStreamPromise']>[0]>()
  for await (const entry of zip.eachEntry()) entries.set(entry.fileName, entry)
  return entries
}

/** @throws Error for a path that leaves its folder: the file may come from anywhere */
function partsOf(path: string): string[] {
  const parts = path.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..' || part.includes('\0')))
    throw new Error(`The backup names a file that would leave its folder: ${path}`)
  return parts
}

function sinkOf(to: string | null): NodeJS.WritableStream {
  if (to !== null) return createWriteStream(to, { flags: 'wx', mode: 0o600 })
  return new PassThrough().resume()
}
