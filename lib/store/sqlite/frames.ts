// Frames in SQLite: what joiners saw, as the bytes they got.
import type Database from 'better-sqlite3'
import type { FrameReads, Segment } from '../store.ts'
import { Refused, type Writers } from './rows.ts'

interface FrameRow {
  first_n: number
  last_n: number
  epoch: number
  idx: Buffer
  data: Buffer
}

function toSegment(row: FrameRow): Segment {
  return { epoch: row.epoch, first: row.first_n, last: row.last_n, index: row.idx, data: row.data }
}

export function frameReads(db: Database.Database): FrameReads {
  const from = db.prepare<[number, number], FrameRow>(
    'SELECT first_n, last_n, epoch, idx, data FROM frames WHERE run_key = ? AND last_n >= ? ORDER BY last_n'
  )
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
        segments.push(toSegment(row))
        bytes += row.data.length
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

type FrameOps = 'frames.append' | 'frames.sweep'

export function frameWrites(db: Database.Database): Writers<FrameOps> {
  const runExists = db.prepare('SELECT 1 FROM runs WHERE key = ? AND thread_id = ?')
  const insert = db.prepare('INSERT INTO frames (run_key, first_n, last_n, epoch, idx, data) VALUES (?, ?, ?, ?, ?, ?)')
  // Segments are in the order of their commits, so the oldest come first and a step is a short range of the table.
  const oldest = db.prepare<{ after: number; before: string; limit: number }, { id: number; is_old: number }>(`
    SELECT f.id, r.key IS NULL OR (r.status NOT IN ('pending', 'running') AND r.updated_at < @before) AS is_old
    FROM frames AS f LEFT JOIN runs AS r ON r.key = f.run_key WHERE f.id > @after ORDER BY f.id LIMIT @limit`)
  const remove = db.prepare('DELETE FROM frames WHERE id = ?')
  return {
    'frames.sweep': ({ before, after, limit }) => {
      const rows = oldest.all({ before, after, limit })
      const old = rows.filter((row) => row.is_old)
      for (const { id } of old) remove.run(id)
      return { removed: old.length, next: rows.length === limit ? rows.at(-1)!.id : null }
    },
    'frames.append': ({ run_key, thread_id, segment }) => {
      if (!runExists.get(run_key, thread_id)) throw new Refused(`run ${run_key} of thread ${thread_id} is gone`)
      insert.run(run_key, segment.first, segment.last, segment.epoch, segment.index, segment.data)
      return null
    }
  }
}
