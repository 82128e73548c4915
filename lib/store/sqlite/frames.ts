// Frames in SQLite: what joiners saw, as the bytes they got.
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import type Database from 'better-sqlite3'
import type { FrameReads, Segment } from '../store.ts'
import { Refused, type Writers } from './rows.ts'

/** How a row holds its frames. */
const Format = {
  /** Index and bytes as they are. */
  plain: 1,
  /** Both together, compressed; `idx` is empty. */
  brotli: 2
} as const

interface FrameRow {
  id: number
  first_n: number
  last_n: number
  epoch: number
  format: number
  idx: Buffer
  data: Buffer
}

/** Bytes of a compressed row before compression: a reader in the middle of a run unpacks no more than this for its first frame. */
const BLOCK_BYTES = 64 * 1024
/** Five is where time is still milliseconds a block and size is nearly the best. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 18 } }
const LENGTH_BYTES = 4

function pack(index: Buffer, data: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32LE(index.length)
  return brotliCompressSync(Buffer.concat([length, index, data]), BROTLI)
}

function unpack(packed: Buffer): { index: Buffer; data: Buffer } {
  const bytes = brotliDecompressSync(packed)
  const end = LENGTH_BYTES + bytes.readUInt32LE(0)
  return { index: bytes.subarray(LENGTH_BYTES, end), data: bytes.subarray(end) }
}

function toSegment(row: FrameRow): Segment {
  const { index, data } = row.format === Format.brotli ? unpack(row.data) : { index: row.idx, data: row.data }
  return { epoch: row.epoch, first: row.first_n, last: row.last_n, index, data }
}

/** Frames are found by n, never by row: compaction swaps rows. */
const FROM_N =
  'SELECT id, first_n, last_n, epoch, format, idx, data FROM frames WHERE run_key = ? AND last_n >= ? ORDER BY last_n'

export function frameReads(db: Database.Database): FrameReads {
  const from = db.prepare<[number, number], FrameRow>(FROM_N)
  const ends = db.prepare<[number], { first: number | null; last: number | null }>(
    'SELECT min(first_n) AS first, max(last_n) AS last FROM frames WHERE run_key = ?'
  )
  const epochs = db.prepare<[number], { epoch: number; first: number }>(
    'SELECT epoch, min(first_n) AS first FROM frames WHERE run_key = ? GROUP BY epoch ORDER BY 2'
  )
  return {
    async read(runKey, n, maxBytes) {
      const segments: Segment[] = []
      let bytes = 0
      for (const row of from.iterate(runKey, n)) {
        const segment = toSegment(row)
        segments.push(segment)
        bytes += segment.data.length
        if (bytes >= maxBytes) break
      }
      return segments
    },
    async bounds(runKey) {
      const row = ends.get(runKey)
      if (!row || row.first === null || row.last === null) return null
      return { first: row.first, last: row.last, epochs: epochs.all(runKey) }
    }
  }
}

type FrameOps = 'frames.append' | 'frames.compact' | 'frames.sweep'

export function frameWrites(db: Database.Database): Writers<FrameOps> {
  const insert = db.prepare(
    'INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data) VALUES (?, ?, ?, ?, ?, ?, ?)'
  )
  // In the same statement it is seen that the run is there: this is done for every frame of every run.
  const append = db.prepare(
    `INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data)
     SELECT key, ?, ?, ?, ${Format.plain}, ?, ? FROM runs WHERE key = ? AND thread_id = ?`
  )
  // Segments are in the order of their commits, so the oldest come first and a step is a short range of the table.
  const oldest = db.prepare<{ after: number; before: string; limit: number }, { id: number; is_old: number }>(`
    SELECT f.id, r.key IS NULL OR (r.status NOT IN ('pending', 'running') AND r.updated_at < @before) AS is_old
    FROM frames AS f LEFT JOIN runs AS r ON r.key = f.run_key WHERE f.id > @after ORDER BY f.id LIMIT @limit`)
  const remove = db.prepare('DELETE FROM frames WHERE id = ?')
  const from = db.prepare<[number, number], FrameRow>(FROM_N)

  /** Neighbouring plain rows of one epoch, about a block of them. */
  const plainBlock = (runKey: number, n: number): FrameRow[] => {
    const rows: FrameRow[] = []
    let bytes = 0
    for (const row of from.iterate(runKey, n)) {
      const before = rows.at(-1)
      const isNext = !before || (row.epoch === before.epoch && row.first_n === before.last_n + 1)
      if (row.format !== Format.plain || !isNext || bytes >= BLOCK_BYTES) break
      rows.push(row)
      bytes += row.data.length
    }
    return rows
  }

  return {
    'frames.compact': ({ run_key, from: n }) => {
      const rows = plainBlock(run_key, n)
      const [first, last] = [rows[0], rows.at(-1)]
      if (!first || !last) return { next: null }
      const packed = pack(Buffer.concat(rows.map((row) => row.idx)), Buffer.concat(rows.map((row) => row.data)))
      for (const { id } of rows) remove.run(id)
      insert.run(run_key, first.first_n, last.last_n, first.epoch, Format.brotli, Buffer.alloc(0), packed)
      return { next: last.last_n + 1 }
    },
    'frames.sweep': ({ before, after, limit }) => {
      const rows = oldest.all({ before, after, limit })
      const old = rows.filter((row) => row.is_old)
      for (const { id } of old) remove.run(id)
      return { removed: old.length, next: rows.length === limit ? rows.at(-1)!.id : null }
    },
    'frames.append': ({ run_key, thread_id, segment }) => {
      const { epoch, first, last, index, data } = segment
      const { changes } = append.run(first, last, epoch, index, data, run_key, thread_id)
      if (changes === 0) throw new Refused(`run ${run_key} of thread ${thread_id} is gone`)
      return null
    }
  }
}
