// The file of one run: one JSON object per line, in the order of seq. Memory holds an index of its lines, not their contents.
import { constants, createWriteStream } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { EventCategory, Json } from '../../base/types.ts'
import { messageIdOf } from '../event-query.ts'
import type { EventRecord, Warn } from '../store.ts'

// ----------------------------------------------------------------------------------------------------
// A cache of open file handles: opening a file costs more than a write. Bounded, because handles per process are; the least recently used
// is closed first.

interface Entry {
  readonly handle: Promise<FileHandle>
  users: number
  /** No longer in the cache: its last user closes it. */
  isDropped: boolean
}

export class Descriptors {
  readonly #max: number
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()

  /** @param max Files open at a time, beside those in use. */
  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#entries.size
  }

  /**
   * Lends the open file at `path` to `work`. Without `create`, a missing file is an error: a late write must not bring
   * back a removed one [Store 8].
   */
  async use<T>(path: string, create: boolean, work: (handle: FileHandle) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(path) ?? { handle: openFile(path, create), users: 0, isDropped: false }
    this.#entries.delete(path)
    this.#entries.set(path, entry)
    entry.users++
    try {
      return await work(await entry.handle)
    } catch (error) {
      // Whatever it was, the next user opens the file again.
      if (this.#entries.get(path) === entry) this.#entries.delete(path)
      entry.isDropped = true
      throw error
    } finally {
      entry.users--
      if (entry.isDropped) await close(entry)
      await this.#shrink()
    }
  }

  /** Drops a file that is removed or replaced. Work in progress on it finishes first. */
  async drop(path: string): Promise<void> {
    const entry = this.#entries.get(path)
    if (!entry) return
    this.#entries.delete(path)
    entry.isDropped = true
    await close(entry)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#entries.keys()].map((path) => this.drop(path)))
  }

  async #shrink(): Promise<void> {
    for (const [path, { users }] of this.#entries) {
      if (this.#entries.size <= this.#max) return
      if (users === 0) await this.drop(path)
    }
  }
}

/** Closes a dropped file once nobody uses it. */
async function close({ handle, users }: Entry): Promise<void> {
  if (users > 0) return
  // A file that failed to open needs no closing.
  const opened = await handle.catch(() => null)
  await opened?.close()
}

async function openFile(path: string, create: boolean): Promise<FileHandle> {
  if (!create) return open(path, 'r+')
  await mkdir(dirname(path), { recursive: true })
  // Not 'a': appending ignores our positions, and the rest of a failed write has to be overwritten.
  return open(path, constants.O_RDWR | constants.O_CREAT, 0o644)
}

const NEWLINE = 0x0a
const READ_BYTES = 1024 * 1024
/** Gap between two wanted lines that is cheaper to read than to skip, in bytes. */
const GAP_BYTES = 16 * 1024

/** Position of one record, and the fields queries filter by. */
export interface Line {
  readonly file: RunFile
  readonly seq: number
  readonly at: number
  /** Without the newline. */
  readonly bytes: number
  readonly category: EventCategory
  readonly event_type: string
  readonly user_id: string | null
  readonly message_id: string | null
}

/** The file was rewritten since its index was made. */
export class Moved extends Error {}

export class RunFile {
  readonly path: string
  readonly threadId: string
  readonly runId: string
  /** Ascending by seq. */
  readonly lines: Line[] = []
  readonly #descriptors: Descriptors
  /** Offset of the next line: after the last complete one. */
  #size = 0
  #exists = false
  /** Bytes after that, of a line torn by a crash or being written; -1: the last line lacks its newline. */
  #torn = 0

  constructor(path: string, threadId: string, descriptors: Descriptors) {
    this.path = path
    this.threadId = threadId
    this.runId = basename(path, '.jsonl')
    this.#descriptors = descriptors
  }

  /**
   * Reads an existing file and builds the index; changes nothing, because it may be being written. Damage is
   * reported with its place, and the lines around it are kept.
   */
  async scan(warn: Warn): Promise<void> {
    this.#exists = true
    await this.#descriptors.use(this.path, false, async (handle) => {
      for await (const { at, bytes, isWhole } of linesIn(handle)) {
        const line = this.#lineOf(at, bytes)
        if (line) this.lines.push(line)
        if (isWhole || line) this.#size = at + bytes.length + 1
        if (!isWhole) this.#torn = line ? -1 : bytes.length
        else if (!line && bytes.length > 0) warn({ file: this.path, offset: at, bytes: bytes.length }, DAMAGED)
      }
    })
  }

  /** Appends the records of a batch in one write. On failure the index is unchanged. */
  async append(records: readonly EventRecord[], warn: Warn): Promise<Line[]> {
    const texts = records.map(textOf)
    const bytes = Buffer.from(texts.join(''))
    await this.#descriptors.use(this.path, !this.#exists, async (handle) => {
      await this.#mendTail(handle, warn)
      await writeAll(handle, bytes, this.#size)
    })
    this.#exists = true
    const added = records.map((record, index) => {
      const length = Buffer.byteLength(texts[index]!)
      const line = toLine(this, record, this.#size, length - 1)
      this.#size += length
      return line
    })
    for (const line of added) this.lines.push(line)
    return added
  }

  async truncate(index: number, warn: Warn): Promise<void> {
    const first = this.lines[index]
    if (!first) return
    await this.#descriptors.use(this.path, false, async (handle) => {
      await this.#mendTail(handle, warn)
      await handle.truncate(first.at)
    })
    this.#size = first.at
    this.lines.length = index
  }

  /** Copies the lines from `index` on to a file of their own. */
  async copyTail(index: number, path: string): Promise<void> {
    const first = this.lines[index]
    if (!first) return
    await this.#descriptors.use(this.path, false, (handle) =>
      pipeline(handle.createReadStream({ start: first.at, autoClose: false }), createWriteStream(path))
    )
  }

  /**
   * Reads some of its lines, given in ascending order.
   * @throws Moved
   */
  async read(lines: readonly Line[]): Promise<EventRecord[]> {
    return this.#descriptors.use(this.path, false, async (handle) => {
      const records: EventRecord[] = []
      for (const stretch of stretchesOf(lines)) records.push(...(await readStretch(handle, stretch)))
      return records
    })
  }

  /** Null: not a record of this run, or out of order. */
  #lineOf(at: number, bytes: Buffer): Line | null {
    const record = recordIn(bytes)
    if (!record || record.thread_id !== this.threadId || record.run_id !== this.runId) return null
    if (record.seq <= (this.lines.at(-1)?.seq ?? 0)) return null
    return toLine(this, record, at, bytes.length)
  }

  /** Repairs what follows the last newline: a complete record gets one, anything else is removed. Only the writer does this. */
  async #mendTail(handle: FileHandle, warn: Warn): Promise<void> {
    const torn = this.#torn
    if (torn === 0) return
    if (torn > 0) {
      warn({ file: this.path, offset: this.#size, bytes: torn }, 'the torn end of an event log is cut off')
      await handle.truncate(this.#size)
    } else await writeAll(handle, Buffer.of(NEWLINE), this.#size - 1)
    this.#torn = 0
  }
}

const DAMAGED = 'a damaged line of an event log was skipped'

function textOf(record: EventRecord): string {
  const { thread_id, run_id, seq, k, event_type, category, content, metadata, user_id, created_at } = record
  const line = { thread_id, run_id, seq, k, event_type, category, content, metadata, user_id, created_at }
  return `${JSON.stringify(line)}\n`
}

function toLine(file: RunFile, record: EventRecord, at: number, bytes: number): Line {
  const { seq, category, event_type, user_id } = record
  return { file, seq, at, bytes, category, event_type, user_id, message_id: messageIdOf(record) }
}

// Fatal: invalid UTF-8 is damage, not a text with replacement characters.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The record that a line holds, or null when it holds none. */
function recordIn(bytes: Uint8Array): EventRecord | null {
  let parsed: Json
  try {
    parsed = JSON.parse(utf8.decode(bytes)) as Json
  } catch {
    return null
  }
  if (parsed === null || typeof parsed !== 'object' || Array.isArray(parsed)) return null
  const { seq, k, thread_id, run_id, event_type, category, content, metadata, user_id, created_at } = parsed
  const isRecord =
    [seq, k].every(Number.isSafeInteger) &&
    [thread_id, run_id, event_type, category, created_at].every((value) => typeof value === 'string') &&
    (user_id === null || typeof user_id === 'string') &&
    metadata !== null &&
    typeof metadata === 'object' &&
    content !== undefined
  // Every member was looked at in the lines above.
  return isRecord ? (parsed as unknown as EventRecord) : null
}

interface RawLine {
  readonly at: number
  readonly bytes: Buffer
  /** A newline follows. */
  readonly isWhole: boolean
}

/** The lines of a file, including an incomplete last one. */
async function* linesIn(handle: FileHandle): AsyncGenerator<RawLine> {
  let at = 0
  let position = 0
  let pending: Buffer[] = []
  for (;;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position)
    if (bytesRead === 0) break
    position += bytesRead
    let rest = buffer.subarray(0, bytesRead)
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const bytes = Buffer.concat([...pending, rest.subarray(0, end)])
      yield { at, bytes, isWhole: true }
      at += bytes.length + 1
      pending = []
      rest = rest.subarray(end + 1)
    }
    if (rest.length > 0) pending.push(rest)
  }
  if (pending.length > 0) yield { at, bytes: Buffer.concat(pending), isWhole: false }
}

/** Groups lines close enough to be read together. */
function stretchesOf(lines: readonly Line[]): Line[][] {
  const stretches: Line[][] = []
  for (const line of lines) {
    const stretch = stretches.at(-1)
    const last = stretch?.at(-1)
    const isNear = last && line.at - (last.at + last.bytes) <= GAP_BYTES
    const isSmall = stretch && line.at + line.bytes - stretch[0]!.at <= READ_BYTES
    if (isNear && isSmall) stretch.push(line)
    else stretches.push([line])
  }
  return stretches
}

async function readStretch(handle: FileHandle, lines: readonly Line[]): Promise<EventRecord[]> {
  const first = lines[0]!.at
  const last = lines.at(-1)!
  const bytes = Buffer.allocUnsafe(last.at + last.bytes - first)
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, first + done)
    if (bytesRead === 0) throw new Moved('the file ends before the line')
    done += bytesRead
  }
  return lines.map(({ at, bytes: length, seq }) => {
    const record = recordIn(bytes.subarray(at - first, at - first + length))
    if (record?.seq !== seq) throw new Moved('another line stands in its place')
    return record
  })
}

async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done)
    done += bytesWritten
  }
}
