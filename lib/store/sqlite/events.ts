// Run events in SQLite: how they are appended.
import type Database from 'better-sqlite3'
import { Refused } from '../refused.ts'
import { TEXTS_OF_EVENT } from './event-texts.ts'
import type { Writers } from './rows.ts'

export function eventWrites(db: Database.Database): Writers<'events.append' | 'seq.move'> {
  const counter = db.prepare<[string], number>('SELECT next_seq FROM threads_meta WHERE thread_id = ?').pluck()
  const advance = db.prepare('UPDATE threads_meta SET next_seq = ? WHERE thread_id = ?')
  const move = db.prepare('UPDATE threads_meta SET next_seq = @to WHERE thread_id = @thread_id AND next_seq = @from')
  const lastK = db
    .prepare<[string], number>('SELECT k FROM run_events WHERE run_id = ? ORDER BY seq DESC LIMIT 1')
    .pluck()
  // Positional: named parameters cost a third more per row. The last ones are in the order of EventTexts.
  const insert = db.prepare(`
    INSERT INTO run_events (thread_id, run_id, user_id, seq, k, event_type, category, content, event_metadata, message_id, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const seqOf = db.prepare<[string, number], { seq: number }>('SELECT seq FROM run_events WHERE run_id = ? AND k = ?')

  return {
    'events.append': ({ thread_id, run_id, user_id, ks, texts }) => {
      const nextSeq = counter.get(thread_id)
      if (nextSeq === undefined) throw new Refused(`thread ${thread_id} is gone`)
      const seen = lastK.get(run_id) ?? -1
      let seq = nextSeq
      for (const [i, k] of ks.entries()) {
        if (k <= seen) continue
        insert.run(thread_id, run_id, user_id, seq++, k, texts.slice(i * TEXTS_OF_EVENT, (i + 1) * TEXTS_OF_EVENT))
      }
      if (seq !== nextSeq) advance.run(seq, thread_id)
      const first = ks[0]
      return first !== undefined && first <= seen ? seqOf.get(run_id, first)!.seq : nextSeq
    },
    'seq.move': ({ thread_id, from, to }) => {
      if (move.run({ thread_id, from, to }).changes === 0)
        throw new Refused(`the next seq of thread ${thread_id} is not ${from}, or it is gone`)
      return null
    }
  }
}
