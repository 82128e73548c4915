// Compressed segments: how a database keeps the frames of ended runs, which are rarely read.
import { brotliCompress, brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type { Segment } from './store.ts'

/** How a row holds its frames. */
export const Format = {
  /** Index and data, uncompressed. */
  plain: 1,
  /** Both compressed together; the index column is empty. */
  brotli: 2
} as const

export interface FrameRow {
  readonly id: number
  readonly first_n: number
  readonly last_n: number
  readonly epoch: number
  readonly format: number
  readonly idx: Buffer
  readonly data: Buffer
}

/** Uncompressed bytes per compressed row: a reader that starts in the middle unpacks no more than this for its first frame. */
export const BLOCK_BYTES = 64 * 1024
/** Level 5: still milliseconds per block, and nearly the best size. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 18 } }
const LENGTH_BYTES = 4

export function toSegment(row: FrameRow): Segment {
  const { index, data } = row.format === Format.brotli ? unpack(row.data) : { index: row.idx, data: row.data }
  return { epoch: row.epoch, first: row.first_n, last: row.last_n, index, data }
}

interface Block {
  readonly rows: readonly FrameRow[]
  /** No row follows the block. */
  readonly isLast: boolean
}

/** The leading rows that make one block: adjacent uncompressed rows of one epoch, about BLOCK_BYTES of them. */
export function blockOf(all: Iterable<FrameRow>): Block {
  const rows: FrameRow[] = []
  let bytes = 0
  for (const row of all) {
    const before = rows.at(-1)
    const isNext = !before || (row.epoch === before.epoch && row.first_n === before.last_n + 1)
    if (row.format !== Format.plain || !isNext || bytes >= BLOCK_BYTES) return { rows, isLast: false }
    rows.push(row)
    bytes += row.data.length
  }
  return { rows, isLast: true }
}

/** The `data` of the row that replaces the block. Synchronous: for a worker thread. */
export function packSync(block: readonly FrameRow[]): Buffer {
  return brotliCompressSync(together(block), BROTLI)
}

/** The same, off the calling thread. */
export function pack(block: readonly FrameRow[]): Promise<Buffer> {
  return new Promise((resolve, reject) =>
    brotliCompress(together(block), BROTLI, (error, packed) => (error ? reject(error) : resolve(packed)))
  )
}

function together(block: readonly FrameRow[]): Buffer {
  const index = Buffer.concat(block.map((row) => row.idx))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32LE(index.length)
  return Buffer.concat([length, index, ...block.map((row) => row.data)])
}

function unpack(packed: Buffer): { index: Buffer; data: Buffer } {
  const bytes = brotliDecompressSync(packed)
  const end = LENGTH_BYTES + bytes.readUInt32LE(0)
  return { index: bytes.subarray(LENGTH_BYTES, end), data: bytes.subarray(end) }
}
