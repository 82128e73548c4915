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

export function frameWrites(db: Database.Database): Writers<'frames.append'> {
  const runExists = db.prepare('SELECT 1 FROM runs WHERE key = ? AND thread_id = ?')
  const insert = db.prepare('INSERT INTO frames (run_key, first_n, last_n, epoch, idx, data) VALUES (?, ?, ?, ?, ?, ?)')
  return {
    'frames.append': ({ run_key, thread_id, segment }) => {
      if (!runExists.get(run_key, thread_id)) throw new Refused(`run ${run_key} of thread ${thread_id} is gone`)
      insert.run(run_key, segment.first, segment.last, segment.epoch, segment.index, segment.data)
      return null
    }
  }
}
