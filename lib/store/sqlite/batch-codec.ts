// Encodes batches for the writer thread, and outcomes for the way back. Nearly all writes are frames, a few hundred
// small segments per batch, and copying each as an object with two buffers costs more than storing it: they travel as
// one block of bytes, numbers included. Events travel as the texts of their rows, everything else as it is.
import type { Group, NewEvent, OpName, OpOf, Outcome, Result } from '../store.ts'
import { messageIdOf } from '../event-query.ts'
import { stored, storedAsJson } from '../sql/events.ts'

// ----------------------------------------------------------------------------------------------------
// Event texts: an `events.append` on its way to the writer thread. JSON is encoded on this side, because structured cloning of nested
// objects costs more than their text.

interface EventTexts {
  readonly name: 'events.append'
  readonly thread_id: string
  readonly run_id: string
  readonly user_id: string | null
  /** Position within the run, by event. */
  readonly ks: readonly number[]
  /** TEXTS_OF_EVENT of each event, one after the other: type, category, content, metadata, message id or null, time. */
  readonly texts: readonly (string | null)[]
}

export const TEXTS_OF_EVENT = 6

/** @throws Error when an event is not JSON */
function eventTexts({ name, thread_id, run_id, user_id, events }: OpOf<'events.append'>): EventTexts {
  const ks: number[] = []
  const texts: (string | null)[] = []
  for (const event of events) {
    const { content, metadata } = storedAsUtf8(event)
    ks.push(event.k)
    texts.push(event.event_type, event.category, content, metadata, messageIdOf(event), event.created_at)
  }
  return { name, thread_id, run_id, user_id, ks, texts }
}

/** A lone surrogate has no UTF-8 form, so such a text is stored as JSON and marked. */
function storedAsUtf8(event: NewEvent): { content: string; metadata: string } {
  const { content, metadata } = event
  if (typeof content !== 'string' || content.isWellFormed()) return stored(event)
  return storedAsJson(content, metadata, 'content_is_json')
}

// ---------------------------------------------------------------------------- Types for the writes of this store

/** An op in the form the writer thread takes. */
type WriterOpOf<K extends OpName> = K extends 'events.append' ? EventTexts : OpOf<K>
type WriterOp = WriterOpOf<OpName>

export interface WriterGroup {
  readonly ops: readonly WriterOp[]
}

/** The writing functions of one noun, by op. */
export type Writers<K extends OpName> = { [P in K]: (op: WriterOpOf<P>) => Result<P> }
export type AnyWriter = (op: WriterOp) => unknown

type Append = OpOf<'frames.append'>

export interface EncodedBatch {
  /** Number of ops of each group. */
  readonly counts: readonly number[]
  /** The ops of all groups, in order; null stands for the next segment of the block. */
  readonly ops: readonly (WriterOp | null)[]
  /** By segment. */
  readonly threads: readonly string[]
  /**
   * NUMBERS of each segment, as doubles: run key, epoch, first, last, length of its index, length of its data. Then index and data
   * of one segment after the other. null: there are no segments.
   */
  readonly block: ArrayBuffer | null
}

const NUMBERS = 6
const BLOCK_BYTES_MIN = 64 * 1024

/**
 * Does not change its input: a batch that fails is handed over again. `spare`: a block that came back, reused if large
 * enough, because fresh memory costs more than the copying.
 * @throws Error when an event is not JSON, e.g. is circular
 */
export function encodeBatch(groups: readonly Group[], spare: ArrayBuffer | null = null): EncodedBatch {
  const counts: number[] = []
  const ops: (WriterOp | null)[] = []
  const appends: Append[] = []
  const threads: string[] = []
  for (const group of groups) {
    counts.push(group.ops.length)
    for (const op of group.ops) {
      if (op.name === 'frames.append') {
        appends.push(op)
        threads.push(op.thread_id)
        ops.push(null)
      } else ops.push(op.name === 'events.append' ? eventTexts(op) : op)
    }
  }
  return { counts, ops, threads, block: blockOf(appends, spare) }
}

function blockOf(appends: readonly Append[], spare: ArrayBuffer | null): ArrayBuffer | null {
  if (appends.length === 0) return null
  let at = appends.length * NUMBERS * Float64Array.BYTES_PER_ELEMENT
  let bytes = at
  for (const { segment } of appends) bytes += segment.index.length + segment.data.length
  const block = spare && spare.byteLength >= bytes ? spare : new ArrayBuffer(sizeFor(bytes))
  const numbers = new Float64Array(block, 0, appends.length * NUMBERS)
  const texts = new Uint8Array(block)
  let n = 0
  for (const { run_key, segment } of appends) {
    const { epoch, first, last, index, data } = segment
    numbers[n++] = run_key
    numbers[n++] = epoch
    numbers[n++] = first
    numbers[n++] = last
    numbers[n++] = index.length
    numbers[n++] = data.length
    texts.set(index, at)
    texts.set(data, at + index.length)
    at += index.length + data.length
  }
  return block
}

/** Batch sizes vary: blocks grow by doubling. */
function sizeFor(bytes: number): number {
  return Math.max(BLOCK_BYTES_MIN, 2 ** Math.ceil(Math.log2(bytes)))
}

export function decodeBatch({ counts, ops, threads, block }: EncodedBatch): WriterGroup[] {
  const appends = block ? appendsOf(block, threads) : []
  let taken = 0
  let from = 0
  return counts.map((count) => {
    const group: WriterOp[] = []
    // There are as many ops as counted, and as many nulls as segments.
    for (const to = from + count; from < to; from++) group.push(ops[from] ?? appends[taken++]!)
    return { ops: group }
  })
}

function appendsOf(block: ArrayBuffer, threads: readonly string[]): Append[] {
  const numbers = new Float64Array(block, 0, threads.length * NUMBERS)
  const bytes = Buffer.from(block)
  let at = numbers.byteLength
  return threads.map((thread_id, i): Append => {
    // Six numbers per segment.
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
}

/** The way back: null stands for a successful group without results, as nearly all are. */
export type Answers = readonly (Outcome | null)[]

export function encodeOutcomes(outcomes: readonly Outcome[]): Answers {
  return outcomes.map((outcome) => (outcome.ok && outcome.results.every((result) => result === null) ? null : outcome))
}

export function decodeOutcomes(answers: Answers, groups: readonly Group[]): Outcome[] {
  const outcomes: Outcome[] = []
  for (const [i, answer] of answers.entries())
    outcomes.push(answer ?? { ok: true, results: new Array<null>(groups[i]!.ops.length).fill(null) })
  return outcomes
}

/**
 * The group in writer form, without the transfer.
 * @throws Error when an event is not JSON
 */
export function writerGroup({ ops }: Group): WriterGroup {
  return { ops: ops.map((op) => (op.name === 'events.append' ? eventTexts(op) : op)) }
}
