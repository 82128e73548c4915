// The files of one thread, and which of their lines a query is about.
import { readdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isVisible } from '../../scope.ts'
import type { EventQuery, EventRecord } from '../store.ts'
import type { Descriptors } from './descriptors.ts'
import { type Line, RunFile, type Warn } from './run-file.ts'

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

  /** How many lines its index holds. */
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
      const index = firstAtOrAbove(file.lines, nextSeq)
      if (index === file.lines.length) continue
      lines += file.lines.length - index
      if (aside !== null) await file.copyTail(index, `${file.path.slice(0, -SUFFIX.length)}.${aside}`)
      await file.truncate(index, warn)
      if (index === 0) await this.#removeFile(file)
    }
    if (lines > 0) this.#messages.length = firstAtOrAbove(this.#messages, nextSeq)
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

  /** Lines that a query is about; ascending by seq. */
  *matching(query: EventQuery, which: 'first' | 'last'): Iterable<Line> {
    const lines = this.#candidates(query)
    const from = firstAtOrAbove(lines, query.after + 1)
    const to = firstAtOrAbove(lines, query.before)
    const matches = matcherOf(query)
    for (let step = 0; step < to - from; step++) {
      const line = lines[which === 'first' ? from + step : to - 1 - step]!
      if (matches(line)) yield line
    }
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

/** Index of the first line with `seq >= bound`. */
function firstAtOrAbove(lines: readonly Line[], bound: number): number {
  let low = 0
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (lines[middle]!.seq < bound) low = middle + 1
    else high = middle
  }
  return low
}

function matcherOf({ owner, category, types, messageIds }: EventQuery): (line: Line) => boolean {
  const wantedTypes = types && new Set(types)
  const wantedIds = messageIds && new Set(messageIds)
  return (line) =>
    isVisible(line, owner) &&
    (category === undefined || line.category === category) &&
    (!wantedTypes || wantedTypes.has(line.event_type)) &&
    (!wantedIds || (line.message_id !== null && wantedIds.has(line.message_id)))
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
}

/** Items by key, keys and items in the order in which they come. */
export function grouped<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group) group.push(item)
    else groups.set(key, [item])
  }
  return groups
}

/** Waits for all of them, also when one fails: nobody may change a file while another write of the batch is under way. */
export async function allDone<T>(works: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
