// The index of words as rows of both databases. The user of a thread is one more word of its texts, so that an index of words reads no
// others' texts; the thread's row has the last word on who may see it.
import { createHash } from 'node:crypto'
import { Refused } from '../ports/ops.ts'
import type { Owner } from '../../base/scope.ts'
import type { QueuedThread, SearchReads, TextPlace, WordQuery } from '../ports/search.ts'
import { ask, askOne, ownedBy, type StepReads, type Steps, type StepWrites } from './steps.ts'

/** How a database keeps words and finds them. */
export interface WordDialect {
  /** The value of the column, of the n-th parameter: words with spaces between them. */
  column(n: number): string
  /** Condition on rows of `search_texts`, of the n-th parameter. */
  matches(n: number): string
  /** The query as that parameter: one of `anyOf` (if it is given), all words, and one with the prefix. */
  query(query: Pick<WordQuery, 'words' | 'prefix'>, anyOf: readonly string[] | null): string
}

/** Begins the word that names an owner: a character of private use is in no word of a text. */
const OWNER_MARK = '\ue000'

/** In characters: of two users with one word each still finds only what is its own, by the thread's row. */
const OWNER_LENGTH = 12

const wordOfOwner = (userId: string | null): string =>
  OWNER_MARK + (userId === null ? '' : createHash('sha256').update(userId).digest('hex').slice(0, OWNER_LENGTH))

/** Puts a thread into the queue: its texts have changed. Not one that is made for one run. */
export function* queueTexts(threadId: string): Steps<void> {
  const sql = `INSERT INTO search_queue (thread_id, version)
    SELECT thread_id, 1 FROM threads_meta WHERE thread_id = $1 AND is_temporary = 0
    ON CONFLICT (thread_id) DO UPDATE SET version = search_queue.version + 1`
  yield* ask(sql, threadId)
}

export function searchReads({ matches, query }: WordDialect): StepReads<SearchReads> {
  const wordsFor = (wanted: WordQuery, user: Owner) =>
    query(wanted, user === null ? null : [wordOfOwner(user), wordOfOwner(null)])
  const from = `FROM search_texts AS s JOIN threads_meta AS t ON t.thread_id = s.thread_id
    WHERE ${matches(2)} AND ${ownedBy(1)} AND t.is_temporary = 0`
  return {
    *find(wanted, user) {
      const words = wordsFor(wanted, user)
      const rows = yield* ask<TextPlace>(
        `SELECT s.thread_id, s.seq, s.run_id, s.at, t.display_name AS title ${from}
         ORDER BY s.at DESC, s.thread_id, s.seq LIMIT $3 OFFSET $4`,
        user,
        words,
        wanted.limit,
        wanted.offset
      )
      const isAll = wanted.offset === 0 && rows.length < wanted.limit
      if (isAll) return { places: rows, total: rows.length }
      const counted = yield* askOne<{ total: number }>(`SELECT count(*) AS total ${from}`, user, words)
      return { places: rows, total: Number(counted!.total) }
    },
    queued(which, limit) {
      const isList = 'length' in which
      const condition = isList ? 'q.thread_id = ANY($1)' : 'q.thread_id > $1'
      const sql = `SELECT q.thread_id, q.version, t.display_name AS title,
          COALESCE((SELECT max(seq) FROM search_texts AS s WHERE s.thread_id = q.thread_id), 0) AS seq
        FROM search_queue AS q JOIN threads_meta AS t ON t.thread_id = q.thread_id
        WHERE ${condition} ORDER BY q.thread_id LIMIT $2`
      return ask<QueuedThread>(sql, isList ? which : which.after, limit)
    },
    *waiting(user) {
      const sql = `SELECT count(*) AS waiting FROM search_queue AS q JOIN threads_meta AS t ON t.thread_id = q.thread_id
        WHERE ${ownedBy(1)}`
      return Number((yield* askOne<{ waiting: number }>(sql, user))!.waiting)
    }
  }
}

export function searchWrites({ column }: WordDialect): StepWrites<'search.put'> {
  const insert = `INSERT INTO search_texts (thread_id, seq, run_id, at, words) VALUES ($1, $2, $3, $4, ${column(5)})
    ON CONFLICT (thread_id, seq) DO UPDATE SET at = excluded.at`
  const clear = `DELETE FROM search_texts WHERE thread_id = $1 AND seq = 0 AND words <> ${column(2)}`
  return {
    *'search.put'({ thread_id, texts, done }) {
      const thread = yield* askOne<{ user_id: string | null }>(
        'SELECT user_id FROM threads_meta WHERE thread_id = $1',
        thread_id
      )
      if (!thread) throw new Refused(`thread ${thread_id} is gone`)
      const owner = wordOfOwner(thread.user_id)
      for (const { seq, run_id, at, words } of texts) {
        const value = [owner, ...words].join(' ')
        // A title changes; a message does not.
        if (seq === 0) yield* ask(clear, thread_id, value)
        yield* ask(insert, thread_id, seq, run_id, at, value)
      }
      if (done !== null) yield* ask('DELETE FROM search_queue WHERE thread_id = $1 AND version = $2', thread_id, done)
      return null
    }
  }
}
