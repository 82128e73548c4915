// The index of words as rows of both databases: blocks of texts (word-blocks.ts), on shelves of one user each. A full shelf has a filter
// (word-filter.ts), so that a search unpacks only shelves that may have all it looks for, from the newest on, until its page is full. The
// thread's row has the last word on who may see it.
//
// Neither FTS5 nor a `tsvector`: their list of different words alone takes more than texts in Chinese, and both keep words that were deleted.
import { readTurns } from '../../base/loop-turns.ts'
import { Refused } from '../ports/ops.ts'
import type { Owner } from '../../base/scope.ts'
import type { QueuedThread, SearchReads, TextPlace, WordQuery } from '../ports/search.ts'
import {
  ask,
  askOne,
  ownedBy,
  places,
  readsBy,
  type RunSteps,
  type StepReads,
  type Steps,
  type StepWrites
} from './steps.ts'
import {
  type BlockText,
  inBlocks,
  matching,
  type PackedBlock,
  packed,
  sizeOf,
  takesIn,
  titleIn,
  toBlockText,
  unpacked
} from './word-blocks.ts'
import { placesFor, WordFilter } from './word-filter.ts'

/** How a database looks into a filter. */
export interface WordDialect {
  /** Condition: in the column all places of the n-th parameter, a list, are set. */
  isSet(column: string, n: number): string
}

/** Blocks on a shelf. */
const SHELF_BLOCKS = 64
/** Shelves whose blocks are read at once, at most: from one on twice as many each time, while they have few rows. */
const SHELVES_MAX = 16
const ROWS_MAX = 128
/** Packed bytes that are unpacked in one piece; beginning a block costs about as much as so many. */
const PIECE_BYTES = 16_384
const BLOCK_COST = 1024
/** Searches take turns of the loop as one. */
const SEARCHES = 'search'
/** Hits that are counted; of more it is known that there are more. */
const COUNTED = 200
/**
 * Blocks that a search reads, besides one for each hit that it is to give: words that many texts have, and none has all of. A shelf of which
 * it reads none counts as one.
 */
const BLOCKS_MAX = 2048
/** The last blocks of a thread, among which are all that take in what comes. */
const TAIL = 16
/** Blocks read at once to make a filter. */
const SLICE = 16
/** The user of threads that nobody owns. */
const NOBODY = ''

/** What a shelf is: it has a filter; it takes blocks; its filter is to be made. */
const State = { done: 0, open: 1, due: 2 } as const

/** Puts a thread into the queue: its texts have changed. Not one that is made for one run. */
export function* queueTexts(threadId: string): Steps<void> {
  const sql = `INSERT INTO search_queue (thread_id, version)
    SELECT thread_id, 1 FROM threads_meta WHERE thread_id = $1 AND is_temporary = 0
    ON CONFLICT (thread_id) DO UPDATE SET version = search_queue.version + 1`
  yield* ask(sql, threadId)
}

// ----------------------------------------------------------------------------------------------------- finding

interface ShelfRow {
  readonly id: number
  readonly at: string
  readonly blocks: number
  readonly state: number
  /** 1: it may have what is looked for. */
  readonly may: number
}

/** How often a search is made whose blocks were moved meanwhile, at most. */
const TRIES = 3

/**
 * Whether all that lay on these shelves still lies there: a block that was moved between two reads is seen twice, or not at all. One that only
 * comes is none of them, as long as there was one shelf for it.
 */
function areStill(before: readonly ShelfRow[], now: readonly Pick<ShelfRow, 'id' | 'blocks'>[]): boolean {
  const blocks = new Map(now.map((shelf) => [shelf.id, shelf.blocks]))
  return (
    now.length === before.length &&
    before.every((shelf) => (blocks.get(shelf.id) ?? 0) >= shelf.blocks) &&
    before.filter(({ state }) => state === State.open).length <= 1
  )
}

interface ShelvedRow {
  readonly thread_id: string
  readonly title: string | null
  readonly words: Uint8Array
}

/** Newest first, then by thread and seq. */
function inOrder(one: TextPlace, other: TextPlace): number {
  if (one.at !== other.at) return one.at < other.at ? 1 : -1
  if (one.thread_id !== other.thread_id) return one.thread_id < other.thread_id ? -1 : 1
  return one.seq - other.seq
}

/** `run`: off the event loop, where the database is in this process. */
export function wordReads(run: RunSteps, { isSet }: WordDialect): SearchReads {
  // A condition that is none for null would be looked up in no index.
  const ofUser = (user: Owner) => (user === null ? 'CAST($1 AS text) IS NULL' : `s.user_id IN ($1, '${NOBODY}')`)
  // All at once: whoever asks for some looks into the filters of all that are left, to know which are the newest.
  const shelvesOf = (user: Owner) => `SELECT s.id, s.at, s.blocks, s.state,
      CASE WHEN s.filter IS NULL OR ${isSet('s.filter', 2)} THEN 1 ELSE 0 END AS may
    FROM search_shelves AS s WHERE ${ofUser(user)} ORDER BY s.at DESC, s.id DESC`
  const standing = (user: Owner) => `SELECT s.id, s.blocks FROM search_shelves AS s WHERE ${ofUser(user)}`
  const shelved = `SELECT t.thread_id, t.display_name AS title, b.words FROM search_blocks AS b
    JOIN threads_meta AS t ON t.thread_id = b.thread_id AND t.is_temporary = 0 AND ${ownedBy(1)}
    WHERE b.shelf = ANY($3) AND ${isSet('b.filter', 2)}`
  const findOn = async (shelves: readonly ShelfRow[], bits: readonly string[], query: WordQuery, user: Owner) => {
    const { words, prefix, limit, offset } = query
    const [end, found] = [offset + limit, [] as TextPlace[]]
    let [at, count, read] = [0, 1, 0]
    while (at < shelves.length) {
      const ids = shelves.slice(at, at + count).map(({ id }) => String(id))
      const rows = await run(ask<ShelvedRow>(shelved, user, bits, ids))
      for await (const places of placesIn(rows, { words, prefix })) found.push(...places)
      found.sort(inOrder)
      at += ids.length
      read += Math.max(ids.length, rows.length)
      // What is on the shelves that follow is not newer than the next of them.
      const next = shelves[at]
      const isFull = next && found.length >= Math.max(end, COUNTED) && found[end - 1]!.at > next.at
      if (isFull || (next && read >= BLOCKS_MAX + end)) return { found, more: true }
      count = rows.length > ROWS_MAX ? Math.ceil(count / 2) : Math.min(count + count, SHELVES_MAX)
    }
    return { found, more: false }
  }
  return {
    ...readsBy(run, QUEUE_READS),
    async find(query, user) {
      const bits = placesFor(query.words, query.prefix).map(String)
      const [from, to] = [query.offset, query.offset + query.limit]
      const seen: TextPlace[] = []
      for (let tries = 1; ; tries++) {
        const shelves = await run(ask<ShelfRow>(shelvesOf(user), user, bits))
        const some = shelves.filter(({ may }) => may === 1)
        const { found, more } = await findOn(some, bits, query, user)
        const isWhole =
          some.length === 0 || areStill(shelves, await run(ask<Pick<ShelfRow, 'id' | 'blocks'>>(standing(user), user)))
        if (isWhole) return { places: found.slice(from, to), total: found.length, more }
        seen.push(...found)
        if (tries < TRIES) continue
        // Somebody writes all the time: what was seen is there, and there may be more.
        seen.sort(inOrder)
        const once = seen.filter((place, at) => at === 0 || inOrder(place, seen[at - 1]!) !== 0)
        return { places: once.slice(from, to), total: once.length, more: true }
      }
    }
  }
}

const QUEUE_READS: StepReads<Omit<SearchReads, 'find'>> = {
  queued(which, limit) {
    const isList = 'length' in which
    const condition = isList ? 'q.thread_id = ANY($1)' : 'q.thread_id > $1'
    const sql = `SELECT q.thread_id, q.version, t.display_name AS title,
        COALESCE((SELECT max(last) FROM search_blocks AS b WHERE b.thread_id = q.thread_id), 0) AS seq
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

/** Where in blocks all words of a query are in one text, block by block: unpacking takes turns with everything else. */
async function* placesIn(
  rows: readonly ShelvedRow[],
  query: Parameters<typeof matching>[1]
): AsyncGenerator<TextPlace[]> {
  let left = 0
  for (const { thread_id, title, words } of rows) {
    if (left <= 0) {
      await readTurns.enter(SEARCHES)
      left = PIECE_BYTES
    }
    left -= BLOCK_COST + words.length
    yield matching(words, query).map(({ seq, at }) => ({ thread_id, seq, at, title }))
  }
}

// ----------------------------------------------------------------------------------------------------- writing

interface BlockRow {
  readonly id: number
  readonly last: number
  readonly size: number
  readonly words: Uint8Array
  readonly shelf: number
  /** Of its shelf. */
  readonly state: number
}

const BLOCKS = `SELECT b.id, b.last, b.size, b.words, b.shelf, s.state FROM search_blocks AS b JOIN search_shelves AS s ON s.id = b.shelf
  WHERE b.thread_id = $1`

export const searchWrites: StepWrites<'search.put'> = {
  *'search.put'({ thread_id, texts, done }) {
    const thread = yield* askOne<{ user_id: string | null }>(
      'SELECT user_id FROM threads_meta WHERE thread_id = $1',
      thread_id
    )
    if (!thread) throw new Refused(`thread ${thread_id} is gone`)
    yield* putTexts(thread_id, thread.user_id ?? NOBODY, texts.map(toBlockText))
    if (done !== null) yield* ask('DELETE FROM search_queue WHERE thread_id = $1 AND version = $2', thread_id, done)
    yield* finishShelf()
    return null
  }
}

function* putTexts(threadId: string, owner: string, texts: readonly BlockText[]): Steps<void> {
  const tail = yield* ask<BlockRow>(`${BLOCKS} ORDER BY b.last DESC LIMIT ${TAIL}`, threadId)
  const last = tail[0]?.last ?? 0
  const title = texts.find(({ seq }) => seq === 0)
  const titled = title && (yield* askOne<BlockRow>(`${BLOCKS} AND b.has_title = 1`, threadId))
  const fresh = texts.filter(({ seq }) => seq > last)
  if (title && !titled) fresh.unshift(title)
  const renamed = title && titled ? withTitle(titled, title) : null
  if (titled && renamed) yield* replace(threadId, owner, [titled], [renamed])
  if (fresh.length === 0) return
  const others = renamed ? tail.filter(({ id }) => id !== titled!.id) : tail
  const taken = takenIn(fresh, others)
  const all = [...taken.flatMap(({ words }) => unpacked(words)), ...fresh]
  yield* replace(threadId, owner, taken, inBlocks(all))
}

/** The texts of a block with another title; null: it has this one. */
function withTitle({ words }: BlockRow, title: BlockText): BlockText[] | null {
  if (titleIn(words).join(' ') === title.words.join(' ')) return null
  return [title, ...unpacked(words).filter(({ seq }) => seq > 0)]
}

/** Which of the last blocks are packed anew with the texts that follow, oldest first. */
function takenIn(fresh: readonly BlockText[], tail: readonly BlockRow[]): BlockRow[] {
  const taken: BlockRow[] = []
  let size = sizeOf(fresh)
  for (const block of tail) {
    if (!takesIn(size, block.size)) break
    taken.unshift(block)
    size += block.size
  }
  return taken
}

/** Writes blocks in place of others: the first in the row of one that stands on a shelf without a filter, if there is one. */
function* replace(
  threadId: string,
  owner: string,
  gone: readonly BlockRow[],
  made: readonly (readonly BlockText[])[]
): Steps<void> {
  const kept = gone.find(({ state }) => state === State.open)
  for (const { id } of gone) if (id !== kept?.id) yield* ask('DELETE FROM search_blocks WHERE id = $1', id)
  for (const [at, texts] of made.entries()) {
    const block = packed(texts)
    if (at > 0 || !kept || !(yield* rewrite(kept, block))) yield* shelve(threadId, owner, block)
  }
}

/** False, and the block is gone: another process has filled its shelf meanwhile. */
function* rewrite({ id, shelf }: BlockRow, { last, at, hasTitle, size, words, filter }: PackedBlock): Steps<boolean> {
  const reach = `UPDATE search_shelves SET at = CASE WHEN at < $2 THEN $2 ELSE at END WHERE id = $1 AND state = ${State.open} RETURNING id`
  const isOpen = (yield* ask(reach, shelf, at)).length > 0
  const sql = 'UPDATE search_blocks SET last = $2, has_title = $3, size = $4, words = $5, filter = $6 WHERE id = $1'
  if (isOpen) yield* ask(sql, id, last, Number(hasTitle), size, words, filter)
  else yield* ask('DELETE FROM search_blocks WHERE id = $1', id)
  return isOpen
}

/** Puts a block on the user's open shelf. */
function* shelve(threadId: string, owner: string, block: PackedBlock): Steps<void> {
  const { last, at, hasTitle, size, words, filter } = block
  const shelf = (yield* openShelf(owner)) ?? (yield* newShelf(owner, at))
  yield* ask(
    `INSERT INTO search_blocks (thread_id, last, has_title, size, shelf, words, filter) VALUES (${places(7)})`,
    threadId,
    last,
    Number(hasTitle),
    size,
    shelf,
    words,
    filter
  )
  yield* ask(
    `UPDATE search_shelves SET blocks = blocks + 1, at = CASE WHEN at < $2 THEN $2 ELSE at END,
      state = CASE WHEN blocks + 1 >= ${SHELF_BLOCKS} THEN ${State.due} ELSE state END WHERE id = $1`,
    shelf,
    at
  )
}

/** One that two processes have opened at once is filled first. */
function* openShelf(owner: string): Steps<number | undefined> {
  const sql = `SELECT id FROM search_shelves WHERE user_id = $1 AND state = ${State.open} ORDER BY blocks DESC LIMIT 1 FOR UPDATE`
  return (yield* askOne<{ id: number }>(sql, owner))?.id
}

function* newShelf(owner: string, at: string): Steps<number> {
  const sql = `INSERT INTO search_shelves (user_id, blocks, state, at) VALUES ($1, 0, ${State.open}, $2) RETURNING id`
  return (yield* askOne<{ id: number }>(sql, owner, at))!.id
}

interface Shelf {
  readonly id: number
  readonly user_id: string
  readonly blocks: number
}

/** Makes the filter of one shelf that waits for it, or puts the few blocks that are left of it on another. */
function* finishShelf(): Steps<void> {
  const due = yield* askOne<Shelf>(
    `SELECT id, user_id, blocks FROM search_shelves WHERE state = ${State.due} LIMIT 1 FOR UPDATE SKIP LOCKED`
  )
  if (!due) return
  const isSparse = 2 * due.blocks <= SHELF_BLOCKS
  const roomy = isSparse ? yield* roomyShelf(due) : undefined
  if (roomy === undefined) yield* makeFilter(due.id)
  else yield* moveBlocks(due, roomy)
}

function* roomyShelf({ id, user_id, blocks }: Shelf): Steps<number | undefined> {
  const sql = `SELECT id FROM search_shelves WHERE user_id = $1 AND id <> $2 AND state <> ${State.open} AND blocks + $3 <= ${SHELF_BLOCKS}
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`
  return (yield* askOne<{ id: number }>(sql, user_id, id, blocks))?.id
}

function* moveBlocks({ id }: Shelf, roomy: number): Steps<void> {
  yield* ask('UPDATE search_blocks SET shelf = $2 WHERE shelf = $1', id, roomy)
  yield* ask(
    `UPDATE search_shelves SET blocks = (SELECT count(*) FROM search_blocks WHERE shelf = $2), filter = NULL, state = ${State.due},
      at = (SELECT max(at) FROM search_shelves WHERE id IN ($1, $2)) WHERE id = $2`,
    id,
    roomy
  )
  yield* ask('DELETE FROM search_shelves WHERE id = $1', id)
}

function* makeFilter(shelf: number): Steps<void> {
  const filter = new WordFilter()
  for (let after = 0; ; ) {
    const blocks = yield* ask<Pick<BlockRow, 'id' | 'words'>>(
      `SELECT id, words FROM search_blocks WHERE shelf = $1 AND id > $2 ORDER BY id LIMIT ${SLICE}`,
      shelf,
      after
    )
    for (const { words } of blocks) for (const text of unpacked(words)) filter.add(text.words)
    if (blocks.length < SLICE) break
    after = blocks.at(-1)!.id
  }
  yield* ask(`UPDATE search_shelves SET filter = $2, state = ${State.done} WHERE id = $1`, shelf, filter.bytes(8))
}
