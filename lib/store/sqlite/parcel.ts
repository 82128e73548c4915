// A parcel: groups as they cross to the thread that writes. Nearly all that is written are frames, a few hundred small segments a
// batch, and copying each as an object with two buffers costs more than storing it: they travel as one block of bytes, with their
// numbers in one list. Everything else crosses as it is.
import type { Group, Op, OpOf, Outcome } from '../store.ts'

type Append = OpOf<'frames.append'>

export interface Parcel {
  /** How many ops each group has. */
  readonly counts: Uint32Array
  /** Those of all groups, in order; null stands for the next segment of the block. */
  readonly ops: readonly (Op | null)[]
  /** By segment: run key, epoch, first, last, length of its index, length of its data. */
  readonly numbers: Float64Array
  readonly threads: readonly string[]
  /** Index and data of one segment after the other. */
  readonly block: Uint8Array<ArrayBuffer>
}

const NUMBERS = 6

/** What was given stays as it is: a batch that is not taken is handed over again. */
export function packed(groups: readonly Group[]): Parcel {
  const all = groups.flatMap(({ ops }) => ops)
  const appends = all.filter((op) => op.name === 'frames.append')
  const bytes = appends.reduce((sum, { segment }) => sum + segment.index.length + segment.data.length, 0)
  const numbers = new Float64Array(appends.length * NUMBERS)
  const block = new Uint8Array(bytes)
  let at = 0
  let n = 0
  for (const { run_key, segment } of appends) {
    const { epoch, first, last, index, data } = segment
    for (const number of [run_key, epoch, first, last, index.length, data.length]) numbers[n++] = number
    block.set(index, at)
    block.set(data, at + index.length)
    at += index.length + data.length
  }
  return {
    counts: Uint32Array.from(groups, ({ ops }) => ops.length),
    ops: all.map((op) => (op.name === 'frames.append' ? null : op)),
    numbers,
    threads: appends.map(({ thread_id }) => thread_id),
    block
  }
}

export function unpacked({ counts, ops, numbers, threads, block }: Parcel): Group[] {
  const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength)
  let at = 0
  const appends = threads.map((thread_id, i): Append => {
    // There are six for each thread.
    const number = (k: number) => numbers[i * NUMBERS + k]!
    const middle = at + number(4)
    const end = middle + number(5)
    const segment = {
      epoch: number(1),
      first: number(2),
      last: number(3),
      index: bytes.subarray(at, middle),
      data: bytes.subarray(middle, end)
    }
    at = end
    return { name: 'frames.append', run_key: number(0), thread_id, segment }
  })
  let taken = 0
  // As many nulls as segments.
  const all = ops.map((op) => op ?? appends[taken++]!)
  let from = 0
  return Array.from(counts, (count) => {
    const start = from
    from += count
    return { ops: all.slice(start, from) }
  })
}

/** The way back: null stands for a group that was written and has nothing to say, as nearly all are. */
export type Answers = readonly (Outcome | null)[]

export function packedOutcomes(outcomes: readonly Outcome[]): Answers {
  return outcomes.map((outcome) => (outcome.ok && outcome.results.every((result) => result === null) ? null : outcome))
}

export function unpackedOutcomes(answers: Answers, groups: readonly Group[]): Outcome[] {
  return answers.map((answer, i) => answer ?? { ok: true, results: groups[i]!.ops.map(() => null) })
}
