// Frames in PostgreSQL: the bytes joiners were sent.
import { BLOCK_BYTES, blockOf, Format, type FrameRow, pack, toSegment } from '../packing.ts'
import { Refused } from '../ports/ops.ts'
import { UNHELD } from '../sql/holds.ts'
import { isRunPresent, runBodiesRemoval, SWEPT_RUNS } from '../sql/removal.ts'
import type { FrameReads } from '../store.ts'
import { type Db, numbers } from './db.ts'
import type { Writers } from './batch.ts'

const COLUMNS = 'id, first_n, last_n, epoch, format, idx, data'
/** Rows per query: few enough for the server to follow the index instead of sorting the whole run. */
const ROWS_MAX = 128

/**
 * Rows of run $1 with n >= $2, in order, up to $3 bytes in total. `bytes` tells the size without reading the data.
 * Frames are found by n, never by row: compaction replaces rows.
 */
const FROM_N = `
  SELECT ${COLUMNS} FROM (
    SELECT ${COLUMNS}, sum(bytes) OVER (ORDER BY last_n) - bytes AS before, row_number() OVER (ORDER BY last_n) AS place FROM (
      SELECT * FROM frames WHERE run_key = $1 AND last_n >= $2 AND ${isRunPresent('$1')} ORDER BY last_n LIMIT ${ROWS_MAX}
    ) AS next
  ) AS measured
  WHERE before < $3::bigint OR place = 1 ORDER BY last_n`

export function frameReads(db: Db): FrameReads {
  return {
    async read(runKey, from, maxBytes) {
      return (await db.rows<FrameRow>(FROM_N, [runKey, from, maxBytes])).map(toSegment)
    },
    async bounds(runKey) {
      const sql = `SELECT epoch, min(first_n) AS first, max(last_n) AS last FROM frames WHERE run_key = $1 AND ${isRunPresent('$1')}
        GROUP BY epoch ORDER BY 2`
      const rows = await db.rows<{ epoch: number; first: number; last: number }>(sql, [runKey])
      const [first] = rows
      if (!first) return null
      return {
        first: first.first,
        last: Math.max(...rows.map((row) => row.last)),
        epochs: rows.map((row) => ({ epoch: row.epoch, first: row.first }))
      }
    }
  }
}

export const frameWrites: Writers<'frames.append' | 'frames.compact' | 'frames.sweep'> = {
  'frames.append': async ({ run_key, thread_id, segment }, batch) => {
    if (!batch.threads.get(thread_id)?.runKeys.has(run_key))
      throw new Refused(`run ${run_key} of thread ${thread_id} is gone`)
    batch.frames.push({ run_key, segment })
    return null
  },

  'frames.compact': async ({ run_key, from }, batch) => {
    await batch.flush()
    // Serialises with a concurrent removal of the run: it waits for this, or this finds nothing.
    const [run] = await batch.rows('SELECT 1 FROM runs WHERE key = $1 FOR KEY SHARE', [run_key])
    if (!run) return { next: null }
    const { rows, isLast } = blockOf(await batch.rows<FrameRow>(FROM_N, [run_key, from, BLOCK_BYTES]))
    const [first, last] = [rows[0], rows.at(-1)]
    if (!first || !last) return { next: null }
    const bytes = rows.reduce((total, row) => total + row.data.length, 0)
    const packed = await pack(rows)
    const ids = numbers(rows.map(({ id }) => id))
    const removed = await batch.changes('DELETE FROM frames WHERE id = ANY($1::bigint[])', [ids])
    if (removed !== rows.length) throw new Refused(`frames of run ${run_key} are removed by somebody else`)
    await batch.changes(
      `INSERT INTO frames (run_key, first_n, last_n, epoch, format, bytes, idx, data) VALUES ($1, $2, $3, $4, $5, $6, '', $7)`,
      [run_key, first.first_n, last.last_n, first.epoch, Format.brotli, bytes, packed]
    )
    // A full block, or a full query, may be followed by more.
    const isAll = isLast && bytes < BLOCK_BYTES && rows.length < ROWS_MAX
    return { next: isAll ? null : last.last_n + 1 }
  },

  'frames.sweep': async ({ before, after, limit }, batch) => {
    // Runs another process is sweeping are skipped.
    const ended = await batch.rows<{ key: number }>(
      `SELECT key FROM runs WHERE NOT is_swept AND status NOT IN ('pending', 'running') AND updated_at < $1 AND ${UNHELD}
        ORDER BY updated_at LIMIT ${SWEPT_RUNS} FOR UPDATE SKIP LOCKED`,
      [before]
    )
    const some = 'DELETE FROM frames WHERE id IN (SELECT id FROM frames WHERE run_key = $1 LIMIT $2)'
    const swept: number[] = []
    let removed = 0
    for (const { key } of ended) {
      removed += await batch.changes(some, [key, limit - removed])
      if (removed === limit) break
      swept.push(key)
    }
    if (swept.length > 0) {
      await batch.changes(runBodiesRemoval('key = ANY($1::bigint[])'), [numbers(swept)])
      await batch.changes('UPDATE runs SET is_swept = true WHERE key = ANY($1::bigint[])', [numbers(swept)])
    }
    return { removed, next: removed === limit || ended.length === SWEPT_RUNS ? after + 1 : null }
  }
}
