// The files of one thread, and which of their lines a query is about.
import { readdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { codeOf } from '../../base/errors.ts'
import { firstFrom, grouped, selectEvents } from '../event-query.ts'
import type { EventQuery, EventRecord, Warn } from '../store.ts'
import { type Descriptors, type Line, RunFile } from './run-file.ts'

const SUFFIX = '.jsonl'
const RUN_FILE = /^[A-Za-z0-9_-]+\.jsonl$/

export class ThreadFiles {
  readonly #folder: string
  readonly #threadId: string
  readonly #descriptors: Descriptors
  readonly #runs = new Map<string, RunFile>()
  /** Lines of category message of all runs; ascending by seq. */
  #messages: Line[] = []

  /** @param folder Where the thread's run files lie, `<home>/threads/<thread_id>/runs`; it may not be there yet. */
  constructor(folder: string, threadId: string, descriptors: Descriptors) {
    this.#folder = folder
    this.#threadId = threadId
    this.#descriptors = descriptors
  }

  get length(): number {
    let total = 0
    for (const { lines } of this.#runs.values()) total += lines.length
    return total
  }

  async scan(warn: Warn): Promise<void> {
    for (const name of (await namesIn(this.#folder)).filter((name) => RUN_FILE.test(name)).sort()) {
      const file = this.#fileAt(name)
      await file.scan(warn)
      this.#runs.set(file.runId, file)
    }
    this.#indexMessages()
  }

  async append(records: readonly EventRecord[], warn: Warn): Promise<void> {
    const byRun = grouped(records, ({ run_id }) => run_id)
    const added = await allDone([...byRun].map(([runId, mine]) => this.#run(runId).append(mine, warn)))
    const messages = added.flat().filter(({ category }) => category === 'message')
    // Runs of one batch may take turns; what is there already is older than all of them.
    this.#messages.push(...(byRun.size > 1 ? messages.sort(bySeq) : messages))
  }

  /** Removes lines with `seq >= nextSeq`, or with `aside` moves them to a file whose name ends so; answers how many. */
  async truncate(nextSeq: number, aside: string | null, warn: Warn): Promise<number> {
    let lines = 0
    for (const file of this.#runs.values()) {
      const index = firstFrom(file.lines, nextSeq)
      if (index === file.lines.length) continue
      lines += file.lines.length - index
      if (aside !== null) await file.copyTail(index, `${file.path.slice(0, -SUFFIX.length)}.${aside}`)
      await file.truncate(index, warn)
      if (index === 0) await this.#removeFile(file)
    }
    if (lines > 0) this.#messages.length = firstFrom(this.#messages, nextSeq)
    return lines
  }

  /** Removes every file of the thread, also those that are damaged, and the folder. */
  async remove(): Promise<void> {
    for (const { path } of this.#runs.values()) await this.#descriptors.drop(path)
    this.#runs.clear()
    this.#messages = []
    await rm(this.#folder, { recursive: true, force: true })
    // The thread's folder goes too, unless something else lies in it.
    await rmdir(dirname(this.#folder)).catch(() => {})
  }

  /** The first `limit` lines that match, or the last ones; ascending by seq. */
  select(query: EventQuery, limit: number, which: 'first' | 'last'): Line[] {
    return selectEvents(this.#candidates(query), query, limit, which, ({ message_id }) => message_id)
  }

  #candidates({ runId, category }: EventQuery): readonly Line[] {
    if (runId !== undefined) return this.#runs.get(runId)?.lines ?? []
    if (category === 'message') return this.#messages
    return [...this.#runs.values()].flatMap(({ lines }) => lines).sort(bySeq)
  }

  #run(runId: string): RunFile {
    const found = this.#runs.get(runId)
    if (found) return found
    const file = this.#fileAt(runId + SUFFIX)
    this.#runs.set(runId, file)
    return file
  }

  #fileAt(name: string): RunFile {
    return new RunFile(join(this.#folder, name), this.#threadId, this.#descriptors)
  }

  #indexMessages(): void {
    const all = [...this.#runs.values()].flatMap(({ lines }) => lines)
    this.#messages = all.filter(({ category }) => category === 'message').sort(bySeq)
  }

  async #removeFile(file: RunFile): Promise<void> {
    await rm(file.path, { force: true })
    await this.#descriptors.drop(file.path)
    this.#runs.delete(file.runId)
  }
}

function bySeq(left: Line, right: Line): number {
  return left.seq - right.seq
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  })
}

/** Waits for all of them, also when one fails: nobody may change a file while another write of the batch is under way. */
export async function allDone<T>(works: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
