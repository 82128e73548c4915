// Frames in SQLite: the bytes joiners were sent.
import type Database from 'better-sqlite3'
import { Sqlite } from '../../base/sqlite-driver.ts'
import { blockOf, Format, type FrameRow, packSync, toSegment } from '../packing.ts'
import { Refused } from '../ports/ops.ts'
import { UNHELD } from '../sql/holds.ts'
import { isRunPresent, runBodiesRemoval, SWEPT_RUNS } from '../sql/removal.ts'
import type { FrameReads, Segment } from '../store.ts'
import type { Writers } from './batch-codec.ts'

/** Frames are found by n, never by row: compaction replaces rows. */
const FROM_N = (and: string) =>
  `SELECT id, first_n, last_n, epoch, format, idx, data FROM frames WHERE run_key = ? AND last_n >= ? AND ${and} ORDER BY last_n`

export function frameReads(db: Database.Database): FrameReads {
  const from = db.prepare<[number, number, number], FrameRow>(FROM_N(isRunPresent('?')))
  const extents = db.prepare<[number, number], { epoch: number; first: number; last: number }>(
    `SELECT epoch, min(first_n) AS first, max(last_n) AS last FROM frames WHERE run_key = ? AND ${isRunPresent('?')}
     GROUP BY epoch ORDER BY 2`
  )
  return {
    async read(runKey, n, maxBytes) {
      const segments: Segment[] = []
      let bytes = 0
      for (const row of from.iterate(runKey, n, runKey)) {
        const segment = toSegment(row)
        segments.push(segment)
        bytes += segment.data.length
        if (bytes >= maxBytes) break
      }
      return segments
    },
    async bounds(runKey) {
      const epochs = extents.all(runKey, runKey)
      const [oldest, newest] = [epochs[0], epochs.at(-1)]
      if (!oldest || !newest) return null
      return { first: oldest.first, last: newest.last, epochs: epochs.map(({ epoch, first }) => ({ epoch, first })) }
    }
  }
}

export function frameWrites(db: Database.Database): Writers<'frames.append' | 'frames.compact' | 'frames.sweep'> {
  const insert = db.prepare(
    'INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data) VALUES (?, ?, ?, ?, ?, ?, ?)'
  )
  // The same statement checks that the run exists: this runs for every frame of every run. (INSERT ... SELECT costs a quarter more.)
  const append = db.prepare(`
    INSERT INTO frames (run_key, first_n, last_n, epoch, format, idx, data)
    VALUES ((SELECT key FROM runs WHERE key = ? AND thread_id = ?), ?, ?, ?, ${Format.plain}, ?, ?)`)
  const ended = db
    .prepare<[string], number>(`SELECT key FROM runs INDEXED BY ix_runs_to_sweep
      WHERE is_swept = 0 AND status NOT IN ('pending', 'running') AND updated_at < ?
      AND ${UNHELD} ORDER BY updated_at LIMIT ${SWEPT_RUNS}`)
    .pluck()
  const removeSome = db.prepare('DELETE FROM frames WHERE id IN (SELECT id FROM frames WHERE run_key = ? LIMIT ?)')
  const removeBodies = db.prepare(runBodiesRemoval('key = ?'))
  const setSwept = db.prepare('UPDATE runs SET is_swept = 1 WHERE key = ?')
  const remove = db.prepare('DELETE FROM frames WHERE id = ?')
  const from = db.prepare<[number, number], FrameRow>(FROM_N('TRUE'))

  return {
    'frames.compact': ({ run_key, from: n }) => {
      const { rows, isLast } = blockOf(from.iterate(run_key, n))
      const [first, last] = [rows[0], rows.at(-1)]
      if (!first || !last) return { next: null }
      for (const { id } of rows) remove.run(id)
      insert.run(run_key, first.first_n, last.last_n, first.epoch, Format.brotli, Buffer.alloc(0), packSync(rows))
      return { next: isLast ? null : last.last_n + 1 }
    },
    'frames.sweep': ({ before, after, limit }) => {
      const keys = ended.all(before)
      let removed = 0
      for (const key of keys) {
        removed += removeSome.run(key, limit - removed).changes
        if (removed === limit) return { removed, next: after + 1 }
        removeBodies.run(key)
        setSwept.run(key)
      }
      return { removed, next: keys.length === SWEPT_RUNS ? after + 1 : null }
    },
    'frames.append': ({ run_key, thread_id, segment }) => {
      const { epoch, first, last, index, data } = segment
      try {
        append.run(run_key, thread_id, first, last, epoch, index, data)
      } catch (error) {
        if (isMissing(error)) throw new Refused(`run ${run_key} of thread ${thread_id} is gone`)
        throw error
      }
      return null
    }
  }
}

/** The lookup of the key gave NULL. */
function isMissing(error: unknown): boolean {
  return error instanceof Sqlite.SqliteError && error.code === 'SQLITE_CONSTRAINT_NOTNULL'
}
