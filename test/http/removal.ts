// Removal: of a thread that was deleted nothing remains, in no table and no folder, and of others everything.
import { join } from 'node:path'
import t from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { OF_PROCESS } from '../../lib/files/home.ts'
import { homeOf, type Options, openSite, signIn, until } from '../fixtures/gateway.ts'
import { threadLife } from '../fixtures/life.ts'
import { digests, filesOf } from '../fixtures/remains.ts'

/** What graphs of LangGraph would have left: there is none here, and their tables know the thread all the same. */
function leaveStates(home: string, threadId: string): void {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'))
  const tables = db.prepare<[], string>("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'graph_%'")
  for (const table of tables.pluck().all()) {
    const all = db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table)
    const columns = all.filter((name) => name !== 'key')
    const values = columns.map((name) => (name === 'thread_id' ? threadId : '1'))
    db.prepare(`INSERT INTO "${table}" (${columns}) VALUES (${columns.map(() => '?')})`).run(...values)
  }
  db.close()
}

/** The tables that have a column for a thread, a run or its key, and how many rows of this thread each has. */
function rowsOf(home: string, threadId: string): Record<string, number> {
  const db = new Sqlite(join(home, 'data', 'colloquy.db'), { readonly: true })
  const counts: Record<string, number> = {}
  const tables = db.prepare<[], string>("SELECT name FROM sqlite_master WHERE type = 'table'").pluck().all()
  for (const table of tables) {
    const columns = db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table)
    const own = columns.includes('thread_id') ? 'thread_id = @id' : null
    const byKey = columns.includes('run_key') ? 'run_key IN (SELECT key FROM runs WHERE thread_id = @id)' : null
    const where = own ?? byKey
    if (where)
      counts[table] = db
        .prepare<{ id: string }, number>(`SELECT count(*) FROM "${table}" WHERE ${where}`)
        .pluck()
        .get({ id: threadId })!
  }
  db.close()
  return counts
}

/** What stays of its person: what was done, and what it has taken. */
const STAYS = ['audit', 'usage_sums']

/** Without SQLite's own tables: numbers of runs that are gone are not used again. */
function own(digests: Record<string, string>): Record<string, string> {
  const isOwn = (table: string) => !table.startsWith('sqlite_') && !STAYS.includes(table)
  return Object.fromEntries(Object.entries(digests).filter(([table]) => isOwn(table)))
}

/** Without what belongs to the process: the lock of changes is there from the first one on. */
const keptIn = (home: string) =>
  filesOf(home)
    .filter((path) => !OF_PROCESS.test(path))
    .sort()

const sharing = 'public'
const backends: Record<string, Options> = { db: { sharing }, jsonl: { sharing, run_events: { backend: 'jsonl' } } }

for (const [events, config] of Object.entries(backends)) {
  t.test(
    `a thread that is deleted leaves the store and the disk as they were before it (events in ${events})`,
    async (t) => {
      const home = homeOf(t)
      const site = await openSite(t, { home, config })
      const isCompacted = () => until(() => site.sizes().uncompacted === 0, 'frames are compacted')
      const person = await signIn(site)
      // One that stays, so that there is something to spoil, and folders that are everybody's are there.
      const other = await threadLife(person)
      leaveStates(home, other)
      await isCompacted()
      const [rows, files] = [own(digests(home)), keptIn(home)]

      const threadId = await threadLife(person)
      t.equal((await person.post(`/api/threads/${threadId}/links`, {})).status, 201)
      leaveStates(home, threadId)
      await isCompacted()
      const had = rowsOf(home, threadId)
      // Tombstones are of threads that are too long to be removed at once; names come from clients of other protocols, and the queue of the
      // index of words is empty again when that is filled.
      const others = ['removed_threads', 'aliases', 'search_queue']
      const empty = Object.keys(had).filter((table) => had[table] === 0 && !others.includes(table))
      t.same(empty, events === 'db' ? [] : ['run_events'], 'it had rows in every table that knows threads')
      t.not(keptIn(home).length, files.length, 'and files')

      t.equal((await person.ask('DELETE', `/api/threads/${threadId}`)).status, 200)
      t.same(own(digests(home)), rows)
      t.same(keptIn(home), files)
      t.equal((await person.get(`/api/threads/${threadId}`)).status, 404)
      t.equal((await person.get(`/api/threads/${other}`)).status, 200)
    }
  )
}
