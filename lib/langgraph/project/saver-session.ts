// What LangGraph's checkpointer reads from and writes to: the session of a run, of an update, or of nobody.
import { compareWrites } from '../../conversation/checkpoint.ts'
import { type StateWrite, stateTooLong } from '../../agent/runtime.ts'
import {
  bodiesByName,
  type Body,
  bodyNames,
  type GraphPage,
  type GraphTaskWrite,
  type GraphTaskWrites,
  type GraphWrite,
  type StoredGraphCheckpoint
} from '../../conversation/state.ts'

export interface CheckpointReads {
  load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null>
  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]>
}

export interface GraphReads extends CheckpointReads {
  /** A number above those of all stored parts of a channel's lists. */
  nextPart(threadId: string, ns: string, channel: string): Promise<number>
}

/** A session of reads and writes: a run, an update, or read-only. */
export interface SaverSession extends CheckpointReads {
  readonly runId: string | null
  readonly numbers: PartNumbers
  keep(write: GraphWrite): Promise<void> | void
}

/** Numbers the parts of one session: what it has numbered may not be stored yet. */
export class PartNumbers {
  readonly #reads: GraphReads
  /** By namespace and channel. */
  readonly #next = new Map<string, number>()

  constructor(reads: GraphReads) {
    this.#reads = reads
  }

  /** The first of so many new numbers. */
  async take(threadId: string, ns: string, channel: string, count: number): Promise<number> {
    const key = `${ns}\n${channel}`
    const stored = this.#next.has(key) ? 0 : await this.#reads.nextPart(threadId, ns, channel)
    const from = this.#next.get(key) ?? stored
    this.#next.set(key, from + count)
    return from
  }
}

/** A run's session: caches the newest checkpoints, which may not be stored yet. It begins with no state that is too long. */
export class RunSession implements SaverSession {
  readonly runId: string
  readonly #reads: GraphReads
  readonly #write: (write: StateWrite) => Promise<void> | void
  readonly #flushed: () => Promise<void>
  readonly #most: number
  readonly numbers: PartNumbers
  /** The newest checkpoint per namespace. */
  readonly #newest = new Map<string, StoredGraphCheckpoint>()
  /** The checkpoint per namespace last loaded by id: LangGraph compares it with the newest to detect a fork. */
  readonly #addressed = new Map<string, StoredGraphCheckpoint>()
  /** The root checkpoint the run started from; null: there was none; undefined: not loaded yet. */
  opened: StoredGraphCheckpoint | null | undefined

  constructor(
    runId: string,
    reads: GraphReads,
    write: (write: StateWrite) => Promise<void> | void,
    flushed: () => Promise<void>,
    most = Number.POSITIVE_INFINITY
  ) {
    this.runId = runId
    this.#reads = reads
    this.#write = write
    this.#flushed = flushed
    this.#most = most
    this.numbers = new PartNumbers(reads)
  }

  /** The newest root checkpoint that was written or read; null: none. */
  get newest(): StoredGraphCheckpoint | null {
    return this.#newest.get('') ?? null
  }

  /** The newest root checkpoint written by this run; null: none. */
  get last(): string | null {
    const last = this.newest
    return last && last.run_id === this.runId ? last.checkpoint_id : null
  }

  async load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null> {
    const newest = this.#newest.get(ns)
    if (newest && (checkpointId === null || checkpointId === newest.checkpoint_id)) return newest
    const addressed = this.#addressed.get(ns)
    if (addressed && checkpointId === addressed.checkpoint_id) return addressed
    // Rare: an older checkpoint, which may not be stored yet.
    if (this.#newest.size > 0) await this.#flushed()
    const stored = await this.#reads.load(threadId, ns, checkpointId)
    if (ns === '' && this.opened === undefined) {
      const characters = stored?.values.reduce((sum, { data }) => sum + data.length, 0) ?? 0
      if (characters > this.#most) throw stateTooLong(characters, this.#most)
      this.opened = stored
      if (stored) await this.#write({ name: 'graph.open', checkpoint: stored })
    }
    if (stored && checkpointId !== null) this.#addressed.set(ns, stored)
    else if (stored && !newest) this.#newest.set(ns, stored)
    return stored
  }

  async list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]> {
    await this.#flushed()
    return this.#reads.list(threadId, page)
  }

  keep(write: GraphWrite): Promise<void> | void {
    if (write.name === 'graph.put') this.#put(write)
    else this.#add(write)
    return this.#write(write)
  }

  #put({ name: _, ...checkpoint }: GraphWrite & { name: 'graph.put' }): void {
    const bases = [this.#addressed.get(checkpoint.ns), this.#newest.get(checkpoint.ns)]
    const known = [...bases.flatMap((base) => base?.values ?? []), ...checkpoint.values]
    const byName = bodiesByName(known)
    const values = checkpoint.names.flatMap(bodyNames).flatMap((name) => byName.get(name) ?? [])
    this.#newest.set(checkpoint.ns, { ...checkpoint, values, writes: [] })
  }

  #add({ ns, checkpoint_id, writes }: GraphTaskWrites): void {
    for (const held of [this.#newest, this.#addressed]) {
      const one = held.get(ns)
      if (one?.checkpoint_id === checkpoint_id) held.set(ns, withWrites(one, writes))
    }
  }
}

/** An update's session: it sees its own writes over what is stored; they are stored together at its end, or not at all. */
export class UpdateSession implements SaverSession {
  readonly runId = null
  readonly writes: GraphWrite[] = []
  readonly #reads: GraphReads
  /** Values it has seen, by namespace and name: its checkpoints name old ones too. */
  readonly #values = new Map<string, Body>()
  readonly numbers: PartNumbers

  constructor(reads: GraphReads) {
    this.#reads = reads
    this.numbers = new PartNumbers(reads)
  }

  async load(threadId: string, ns: string, checkpointId: string | null): Promise<StoredGraphCheckpoint | null> {
    const found = this.#own(ns, checkpointId) ?? (await this.#reads.load(threadId, ns, checkpointId))
    if (!found) return null
    this.#know(ns, found.values)
    return this.writes.reduce((whole, one) => {
      const isOfIt = one.name === 'graph.write' && one.ns === ns && one.checkpoint_id === found.checkpoint_id
      return isOfIt ? withWrites(whole, one.writes) : whole
    }, found)
  }

  list(threadId: string, page: GraphPage): Promise<StoredGraphCheckpoint[]> {
    return this.#reads.list(threadId, page)
  }

  keep(write: GraphWrite): void {
    this.writes.push(write)
    if (write.name === 'graph.put') this.#know(write.ns, write.values)
  }

  #know(ns: string, values: readonly Body[]): void {
    for (const value of values) this.#values.set(`${ns}\n${value.name}`, value)
  }

  #own(ns: string, checkpointId: string | null): StoredGraphCheckpoint | null {
    for (const one of this.writes.toReversed()) {
      if (one.name !== 'graph.put' || one.ns !== ns) continue
      if (checkpointId !== null && one.checkpoint_id !== checkpointId) continue
      const { name: _, ...checkpoint } = one
      const values = one.names.flatMap(bodyNames).flatMap((name) => this.#values.get(`${ns}\n${name}`) ?? [])
      return { ...checkpoint, values, writes: [] }
    }
    return null
  }
}

function withWrites(stored: StoredGraphCheckpoint, writes: readonly GraphTaskWrite[]): StoredGraphCheckpoint {
  const isIn = (list: readonly GraphTaskWrite[]) => (write: GraphTaskWrite) =>
    list.some(({ task_id, idx }) => task_id === write.task_id && idx === write.idx)
  const kept = stored.writes.filter((one) => one.idx >= 0 || !isIn(writes)(one))
  const added = writes.filter((one) => !isIn(kept)(one))
  return { ...stored, writes: [...kept, ...added].sort(compareWrites) }
}
