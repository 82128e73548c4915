// Run events as JSON lines: one file a run, below the data home, which people can read, copy and grep.
//
//   <home>/threads/<thread_id>/runs/<run_id>.jsonl
//
// One process writes: the one that holds the lock of the home. A line counts only when its seq is below the thread's counter in the
// database (lib/store/split/open.ts has the whole rule). So lines are appended before the database commits, and `truncate` removes
// those that were not committed. Seqs ascend within a thread, so these are always the last lines of each file. Lines that this process
// did not write are moved to `<run_id>.<time>.disputed`: nothing that parses is thrown away.
//
// Files are written but not synced: as with SQLite's synchronous NORMAL, a crash of the process loses nothing that was answered, and a
// power failure may lose the last moments.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../base/errors.ts'
import { grouped } from '../event-query.ts'
import { type EventQuery, type EventRecord, type EventStore, StoreUnavailable, type Warn } from '../store.ts'
import { allDone, ThreadFiles } from './thread-files.ts'
import { Descriptors, Moved } from './run-file.ts'

export interface JsonlOptions {
  /** The data home, absolute. */
  readonly home: string
  readonly warn: Warn
  /** Files kept open. Default 256: a quarter of what a process may usually have. */
  readonly openFilesMax?: number
  /** Lines indexed in memory, about 150 bytes each; above it the least recently used thread is read again. */
  readonly linesMax?: number
}

/** Threads written at a time: each is a job of the thread pool, which others need too. */
const WRITES_MAX = 16
const OPEN_FILES_MAX = 256
const LINES_MAX = 200_000
const DISPUTED =
  'events the database does not know were set aside: it is older than they are, or a crash came before their commit'
// Over the whole text: in JavaScript `$` without the m flag does not let a final newline through.
const SAFE_ID = /^[A-Za-z0-9_-]+$/

/** @throws Error when the folder cannot be made. */
export async function openJsonlEvents(options: JsonlOptions): Promise<EventStore> {
  const root = join(options.home, 'threads')
  await mkdir(root, { recursive: true })
  return new JsonlEvents(root, options)
}

class JsonlEvents implements EventStore {
  readonly #root: string
  /** Names the threads whose files are about to go. */
  readonly #removing: string
  readonly #warn: Warn
  readonly #descriptors: Descriptors
  readonly #threads: ThreadIndexCache

  constructor(root: string, { warn, openFilesMax = OPEN_FILES_MAX, linesMax = LINES_MAX }: JsonlOptions) {
    this.#root = root
    this.#removing = join(root, '.removing')
    this.#warn = warn
    this.#descriptors = new Descriptors(openFilesMax)
    this.#threads = new ThreadIndexCache((threadId) => this.#scan(threadId), linesMax)
  }

  async select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]> {
    return this.#guarded(async () => {
      try {
        return await this.#select(query, limit, which)
      } catch (error) {
        // The file was rewritten or removed between reading the index and reading the file.
        if (!(error instanceof Moved) && !isMissing(error)) throw error
        this.#threads.renew(query.threadId)
        return this.#select(query, limit, which)
      }
    })
  }

  async append(records: readonly EventRecord[]): Promise<void> {
    for (const { run_id } of records) checkId('run', run_id)
    const byThread = [...grouped(records, ({ thread_id }) => thread_id)]
    await this.#guarded(async () => {
      for (let from = 0; from < byThread.length; from += WRITES_MAX) {
        const some = byThread.slice(from, from + WRITES_MAX)
        await allDone(
          some.map(([threadId, mine]) => this.#threads.write(threadId, (files) => files.append(mine, this.#warn)))
        )
      }
    })
  }

  async truncate(threadId: string, nextSeq: number, isDisputed: boolean): Promise<void> {
    const aside = isDisputed ? `${Date.now()}.disputed` : null
    const lines = await this.#guarded(() =>
      this.#threads.write(threadId, (files) => files.truncate(nextSeq, aside, this.#warn))
    )
    if (lines === 0) return
    const fields = { thread_id: threadId, lines, next_seq: nextSeq, ...(aside && { aside: `*.${aside}` }) }
    this.#warn(fields, isDisputed ? DISPUTED : 'uncommitted events were removed')
  }

  async remove(threadId: string): Promise<void> {
    await this.#guarded(() => this.#threads.write(threadId, (files) => files.remove()))
    // An operator may put them back, and its files are others then.
    this.#threads.renew(threadId)
  }

  async setTombstones(threadIds: readonly string[]): Promise<void> {
    await this.#guarded(async () => {
      if (threadIds.length === 0) return rm(this.#removing, { force: true })
      await writeFile(`${this.#removing}.part`, JSON.stringify(threadIds))
      await rename(`${this.#removing}.part`, this.#removing)
    })
  }

  /** A list damaged by a power failure is logged and ignored: the files it named stay, and nobody sees them. */
  async tombstones(): Promise<readonly string[]> {
    try {
      const ids: unknown = JSON.parse(await readFile(this.#removing, 'utf8'))
      if (Array.isArray(ids)) return ids.filter((id) => typeof id === 'string')
    } catch (error) {
      if (isMissing(error)) return []
    }
    this.#warn({ file: this.#removing }, 'the list of threads to remove cannot be read and is ignored')
    return []
  }

  async close(): Promise<void> {
    this.#threads.clear()
    await this.#descriptors.close()
  }

  async #select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]> {
    const lines = await this.#threads.read(query.threadId, (files) => files.select(query, limit, which))
    const byFile = [...grouped(lines, ({ file }) => file)]
    const records = (await Promise.all(byFile.map(([file, mine]) => file.read(mine)))).flat()
    return byFile.length > 1 ? records.sort((left, right) => left.seq - right.seq) : records
  }

  async #scan(threadId: string): Promise<ThreadFiles> {
    checkId('thread', threadId)
    const files = new ThreadFiles(join(this.#root, threadId, 'runs'), threadId, this.#descriptors)
    await files.scan(this.#warn)
    return files
  }

  /**
   * Runs work on files. An error that concerns all files is temporary, or for an operator to fix: the call is retried. An error with
   * one thread's files, while the folder is writable, only fails that thread's run.
   */
  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!isOfSystem(error)) throw error
      if (OF_ALL.has(error.code)) throw unavailable(error)
      await this.#probe()
      this.#warn({ err: error }, 'the event files of a thread cannot be used')
      throw new Error(`the event files of its thread cannot be used: ${textOf(error)}`)
    }
  }

  /** @throws StoreUnavailable when the folder of all threads cannot be written. */
  async #probe(): Promise<void> {
    const path = join(this.#root, '.probe')
    try {
      await writeFile(path, '')
      await rm(path, { force: true })
    } catch (error) {
      if (isOfSystem(error)) throw unavailable(error)
      throw error
    }
  }
}

/** Errors that say nothing about one file: a full disk, no more open files, a file system that is read-only. */
const OF_ALL = new Set('ENOSPC EDQUOT EMFILE ENFILE ENOMEM EAGAIN EROFS ESTALE ENODEV ENOTCONN'.split(' '))

interface SystemError extends Error {
  readonly code: string
}

function isOfSystem(error: unknown): error is SystemError {
  return error instanceof Error && 'syscall' in error && 'code' in error
}

/** The public part of "ENOSPC: no space left on device, write '/home/...'": without the path. */
function textOf(error: SystemError): string {
  return error.message.split(', ')[0]!
}

function unavailable(error: SystemError): StoreUnavailable {
  return new StoreUnavailable(error.code, `the event files cannot be used: ${textOf(error)}`)
}

function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

/** @throws Error for an id that must not become part of a path [contract 4.7]. */
function checkId(what: 'thread' | 'run', id: string): void {
  if (!SAFE_ID.test(id)) throw new Error(`The ${what} id ${JSON.stringify(id)} cannot be the name of a file`)
}

// ------------------------------------------------------------------------------------------------------------ indexes

interface Entry {
  readonly files: Promise<ThreadFiles>
  /** Its line count when last counted; 1 for an empty thread. */
  lines: number
  /** Being written: it must not be re-read meanwhile. */
  writers: number
}

class ThreadIndexCache {
  readonly #scan: (threadId: string) => Promise<ThreadFiles>
  readonly #linesMax: number
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>()
  #lines = 0

  constructor(scan: (threadId: string) => Promise<ThreadFiles>, linesMax: number) {
    this.#scan = scan
    this.#linesMax = linesMax
  }

  get lines(): number {
    return this.#lines
  }

  async read<T>(threadId: string, work: (files: ThreadFiles) => Promise<T> | T): Promise<T> {
    return work(await this.#take(threadId).files)
  }

  /** Changes a thread's files. After a failure the next reader re-reads them. */
  async write<T>(threadId: string, work: (files: ThreadFiles) => Promise<T>): Promise<T> {
    const entry = this.#take(threadId)
    entry.writers++
    try {
      const files = await entry.files
      const answer = await work(files)
      this.#count(entry, files)
      return answer
    } catch (error) {
      this.#putAway(threadId, entry)
      throw error
    } finally {
      entry.writers--
      this.#shrink()
    }
  }

  /** Drops the index, unless the files are being written. */
  renew(threadId: string): void {
    const entry = this.#entries.get(threadId)
    if (entry?.writers === 0) this.#putAway(threadId, entry)
  }

  clear(): void {
    this.#entries.clear()
    this.#lines = 0
  }

  #take(threadId: string): Entry {
    const entry = this.#entries.get(threadId) ?? this.#open(threadId)
    this.#entries.delete(threadId)
    this.#entries.set(threadId, entry)
    return entry
  }

  #open(threadId: string): Entry {
    const entry: Entry = { files: this.#scan(threadId), lines: 1, writers: 0 }
    this.#entries.set(threadId, entry)
    this.#lines += entry.lines
    entry.files.then(
      (files) => {
        this.#count(entry, files)
        this.#shrink()
      },
      () => this.#putAway(threadId, entry)
    )
    return entry
  }

  #count(entry: Entry, files: ThreadFiles): void {
    const lines = Math.max(1, files.length)
    this.#lines += lines - entry.lines
    entry.lines = lines
  }

  #shrink(): void {
    for (const [threadId, entry] of this.#entries) {
      if (this.#lines <= this.#linesMax || this.#entries.size === 1) return
      if (entry.writers === 0) this.#putAway(threadId, entry)
    }
  }

  #putAway(threadId: string, entry: Entry): void {
    if (this.#entries.get(threadId) !== entry) return
    this.#entries.delete(threadId)
    this.#lines -= entry.lines
  }
}
