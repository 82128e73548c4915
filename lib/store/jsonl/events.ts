// Run events as JSON lines: one file a run, below the data home, which people can read, copy and grep.
//
//   <home>/threads/<thread_id>/runs/<run_id>.jsonl
//
// One process writes, which holds the lock of the home. Which lines count is not said by the files: a line is there when its seq
// is below the thread's counter in the database; lib/store/split/open.ts tells the whole rule, and how seq stays dense and unique.
// Here it means: lines are appended before the database commits, and `cut` removes from the end of the files of a thread what it
// did not commit. As all lines of a thread have ascending seqs, that is always a tail of each file.
//
// Files are written and not synced: like SQLite with synchronous NORMAL, a crash of the process loses nothing that was answered,
// a power failure may take back the last moments.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isVisible } from '../../scope.ts'
import { type EventQuery, type EventRecord, type EventStore, StoreUnavailable } from '../store.ts'
import { Descriptors } from './descriptors.ts'
import { type Line, Moved, type Warn } from './run-file.ts'
import { Shelf } from './shelf.ts'
import { allDone, grouped, ThreadFiles } from './thread-files.ts'

export interface JsonlOptions {
  /** The data home, absolute. */
  readonly home: string
  readonly warn: Warn
  /** Files kept open. Default 256: a quarter of what a process may usually have. */
  readonly openFilesMax?: number
  /** Lines whose places are kept in memory, about 150 bytes each; beyond it the thread that was not used for longest is read again. */
  readonly linesMax?: number
}

/** Threads written at a time: each is a job of the thread pool, which others need too. */
const WRITES_MAX = 16
const OPEN_FILES_MAX = 256
const LINES_MAX = 200_000
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
  readonly #threads: Shelf

  constructor(root: string, { warn, openFilesMax = OPEN_FILES_MAX, linesMax = LINES_MAX }: JsonlOptions) {
    this.#root = root
    this.#removing = join(root, '.removing')
    this.#warn = warn
    this.#descriptors = new Descriptors(openFilesMax)
    this.#threads = new Shelf((threadId) => this.#scan(threadId), linesMax)
  }

  async select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]> {
    return unavailable(async () => {
      try {
        return await this.#select(query, limit, which)
      } catch (error) {
        // The file was written anew, or removed, between the look into the index and the look into the file.
        if (!(error instanceof Moved) && !isMissing(error)) throw error
        this.#threads.renew(query.threadId)
        return this.#select(query, limit, which)
      }
    })
  }

  async count(query: EventQuery): Promise<number> {
    return unavailable(() =>
      this.#threads.read(query.threadId, (files) => {
        let total = 0
        for (const _ of files.matching(query, 'first')) total++
        return total
      })
    )
  }

  async append(records: readonly EventRecord[]): Promise<void> {
    for (const { run_id } of records) checkId('run', run_id)
    const byThread = [...grouped(records, ({ thread_id }) => thread_id)]
    await unavailable(async () => {
      for (let from = 0; from < byThread.length; from += WRITES_MAX) {
        const some = byThread.slice(from, from + WRITES_MAX)
        await allDone(some.map(([threadId, mine]) => this.#threads.write(threadId, (files) => files.append(mine))))
      }
    })
  }

  async cut(threadId: string, nextSeq: number): Promise<void> {
    const lines = await unavailable(() => this.#threads.write(threadId, (files) => files.cut(nextSeq)))
    if (lines > 0)
      this.#warn({ thread_id: threadId, lines, next_seq: nextSeq }, 'events that were not committed are cut off')
  }

  async remove(threadId: string, runId: string | null, owner: string | null): Promise<number> {
    const isMeant = (line: Line) => isVisible(line, owner)
    return unavailable(() =>
      this.#threads.write(threadId, async (files) => {
        const count = await files.remove(runId, isMeant)
        if (runId === null && owner === null) await files.removeAll()
        return count
      })
    )
  }

  async announce(threadIds: readonly string[]): Promise<void> {
    await unavailable(async () => {
      if (threadIds.length === 0) return rm(this.#removing, { force: true })
      await writeFile(`${this.#removing}.part`, JSON.stringify(threadIds))
      await rename(`${this.#removing}.part`, this.#removing)
    })
  }

  async announced(): Promise<readonly string[]> {
    const text = await readFile(this.#removing, 'utf8').catch((error: unknown) => {
      if (isMissing(error)) return '[]'
      throw error
    })
    const ids: unknown = JSON.parse(text)
    if (!Array.isArray(ids)) throw new Error(`${this.#removing} is damaged: remove it to go on`)
    return ids.filter((id) => typeof id === 'string')
  }

  async close(): Promise<void> {
    this.#threads.clear()
    await this.#descriptors.close()
  }

  async #select(query: EventQuery, limit: number, which: 'first' | 'last'): Promise<EventRecord[]> {
    const lines = await this.#threads.read(query.threadId, (files) => {
      const found: Line[] = []
      for (const line of files.matching(query, which)) {
        if (found.length >= limit) break
        found.push(line)
      }
      return which === 'last' ? found.reverse() : found
    })
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
}

/** Failures of the disk pass, or are mended by somebody: the call is made again. */
async function unavailable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Error && 'syscall' in error && 'code' in error)
      throw new StoreUnavailable(String(error.code), error.message)
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** @throws Error for an id that must not become part of a path [contract 4.7]. */
function checkId(what: 'thread' | 'run', id: string): void {
  if (!SAFE_ID.test(id)) throw new Error(`The ${what} id ${JSON.stringify(id)} cannot be the name of a file`)
}
