// The log of a finished run as its joiners see it: nothing in memory, everything in the store.
import type { Segment, Store } from '../../store/store.ts'
import { streamedJson } from '../../thread/state.ts'
import { type Run, timestamp } from '../../types.ts'
import type { Slice } from './frames.ts'
import type { LogView } from '../delivery/joiner.ts'
import { type Snapshot, snapshotOf } from '../delivery/snapshot.ts'
import { tally } from '../commit/tally.ts'

/** Stored frames that a joiner reads in one go, in bytes: what a socket takes without keeping much. */
export const READ_BYTES = 256 * 1024

export type LogStore = Pick<Store, 'frames' | 'checkpoints'>

export function readStored(store: LogStore, run: Run, from: number): Promise<readonly Segment[]> {
  return store.frames.read(run.key, from, READ_BYTES)
}

/** `checkpointId` null: the newest of the thread. */
export async function valuesStored(store: LogStore, run: Run, checkpointId: string | null): Promise<string | null> {
  const stored = await store.checkpoints.load(run.thread_id, checkpointId)
  return stored && streamedJson(stored)
}

/**
 * What a joiner gets whose frames are no longer kept: a `gap` frame that says so [contract 3.9], and the state with which this
 * run ended, if that is known.
 */
export async function gapBytes(store: LogStore, run: Run, from: number): Promise<Buffer> {
  tally.gaps++
  const gap = {
    code: 'stream_replay_gap',
    run_id: run.run_id,
    requested_event_id: from === 0 ? null : String(from - 1),
    earliest_available_event_id: null,
    latest_available_event_id: run.last_cursor,
    recovery: 'reload_durable_state',
    at: timestamp()
  }
  const text = `event: gap\ndata: ${JSON.stringify(gap)}\n\n`
  const values = run.final_checkpoint_id && (await valuesStored(store, run, run.final_checkpoint_id))
  return Buffer.from(values ? `${text}event: values\ndata: ${values}\n\n` : text)
}

export class FinishedView implements LogView {
  readonly #store: LogStore
  readonly #run: Run
  readonly head: number
  readonly isClosed = true

  /** `head`: the n after the last frame of the run. */
  constructor(store: LogStore, run: Run, head: number) {
    this.#store = store
    this.#run = run
    this.head = head
  }

  get first(): number {
    return this.head
  }
  slice(): Slice {
    throw new Error('a finished run has no frames in memory')
  }
  frames(): never[] {
    return []
  }
  valuesInMemory(): null {
    return null
  }
  readStored(from: number): Promise<readonly Segment[]> {
    return readStored(this.#store, this.#run, from)
  }
  valuesStored(checkpointId: string): Promise<string | null> {
    return valuesStored(this.#store, this.#run, checkpointId)
  }
  gapBytes(from: number): Promise<Buffer> {
    return gapBytes(this.#store, this.#run, from)
  }
}

/** How a finished run stands: with the state that it has left. Null: it has no frames, and no position to stand at. */
export async function finalSnapshot(store: LogStore, run: Run): Promise<Snapshot | null> {
  if (run.last_cursor === null) return null
  const id = run.final_checkpoint_id
  const values = id === null ? null : await valuesStored(store, run, id)
  const [epoch, n] = run.last_cursor.split('-').map(Number)
  // A cursor is two numbers: this process or one before it wrote it.
  return snapshotOf(run, { values, partial: [], epoch: epoch!, n: n! })
}

/** The n after the last frame of a finished run, as its row says. */
export function headOf(run: Run): number {
  if (run.last_cursor === null) return 0
  return Number(run.last_cursor.slice(run.last_cursor.indexOf('-') + 1)) + 1
}

/** When all frames are swept, the row still tells under which epoch the last one went out: who has that one has everything. */
export function lastEpochOf(run: Run): { epoch: number; first: number }[] {
  return run.last_cursor === null
    ? []
    : [{ epoch: Number(run.last_cursor.slice(0, run.last_cursor.indexOf('-'))), first: 0 }]
}
