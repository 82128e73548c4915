// A parcel: groups as they cross to the thread that writes. Nearly all that is written are frames, a few hundred small segments a
// batch, and copying each as an object with two buffers costs more than storing it: they travel as one block of bytes, with their
// numbers in one list. Everything else crosses as it is.
import type { Group, Op, OpOf, Outcome } from '../store.ts'

type Append = OpOf<'frames.append'>

export interface Parcel {
  /** By group: its ops, in order; a number stands for that segment of the block. */
  readonly groups: readonly (readonly (Op | number)[])[]
  /** By segment: run key, epoch, first, last, length of its index, length of its data. */
  readonly numbers: Float64Array
  readonly threads: readonly string[]
  /** Index and data of one segment after the other. */
  readonly block: Uint8Array<ArrayBuffer>
}

const NUMBERS = 6

/** What was given stays as it is: a batch that is not taken is handed over again. */
export function packed(groups: readonly Group[]): Parcel {
  const appends: Append[] = []
  const lists = groups.map(({ ops }) =>
    ops.map((op): Op | number => (op.name === 'frames.append' ? appends.push(op) - 1 : op))
  )
  const bytes = appends.reduce((sum, { segment }) => sum + segment.index.length + segment.data.length, 0)
  const numbers = new Float64Array(appends.length * NUMBERS)
  const block = new Uint8Array(bytes)
  let at = 0
  for (const [i, { run_key, segment }] of appends.entries()) {
    const { epoch, first, last, index, data } = segment
    numbers.set([run_key, epoch, first, last, index.length, data.length], i * NUMBERS)
    block.set(index, at)
    block.set(data, at + index.length)
    at += index.length + data.length
  }
  return { groups: lists, numbers, threads: appends.map(({ thread_id }) => thread_id), block }
}

export function unpacked({ groups, numbers, threads, block }: Parcel): Group[] {
  const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength)
  let at = 0
  const appends = threads.map((thread_id, i): Append => {
    const [run_key, epoch, first, last, indexLength, dataLength] = numbers.subarray(i * NUMBERS, (i + 1) * NUMBERS)
    // There are six for each thread.
    const index = bytes.subarray(at, at + indexLength!)
    const data = bytes.subarray(at + indexLength!, at + indexLength! + dataLength!)
    at += indexLength! + dataLength!
    const segment = { epoch: epoch!, first: first!, last: last!, index, data }
    return { name: 'frames.append', run_key: run_key!, thread_id, segment }
  })
  return groups.map((ops) => ({ ops: ops.map((op) => (typeof op === 'number' ? appends[op]! : op)) }))
}

/** The way back: null stands for a group that was written and has nothing to say, as nearly all are. */
export type Answers = readonly (Outcome | null)[]

export function packedOutcomes(outcomes: readonly Outcome[]): Answers {
  return outcomes.map((outcome) => (outcome.ok && outcome.results.every((result) => result === null) ? null : outcome))
}

export function unpackedOutcomes(answers: Answers, groups: readonly Group[]): Outcome[] {
  return answers.map((answer, i) => answer ?? { ok: true, results: groups[i]!.ops.map(() => null) })
}
