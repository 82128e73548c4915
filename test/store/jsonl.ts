// Events as JSON lines beside SQLite: the suites about events, and what the files go through that a database does not.
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { type FileHandle, open as openFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import t, { type Test } from 'tap'
import { type JsonlOptions, openJsonlEvents } from '../../lib/store/jsonl/events.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { splitStore } from '../../lib/store/split/open.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import {
  type EventQuery,
  type EventRecord,
  type EventStore,
  type Store,
  StoreUnavailable
} from '../../lib/store/store.ts'
import type { Json, Run } from '../../lib/base/types.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  apply,
  refuses,
  someEvents,
  write,
  messageCount
} from '../contract/harness.ts'
import { type Opened, SUITES } from '../contract/index.ts'
import { IS_LONG } from '../fixtures/size.ts'

async function open(): Promise<Opened> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-jsonl-'))
  const path = join(home, 'colloquy.db')
  const openBoth = async (): Promise<Store> =>
    splitStore(await openSqliteStore(path), await openJsonlEvents({ home, warn: () => {} }))
  let store = await openBoth()
  return {
    store,
    async reopen() {
      await store.close()
      store = await openBoth()
      return store
    },
    async jam() {
      const db = new Sqlite(path)
      db.exec('BEGIN IMMEDIATE')
      return async () => {
        db.exec('ROLLBACK')
        db.close()
      }
    },
    async close() {
      await store.close()
      rmSync(home, { recursive: true, force: true })
    }
  }
}

/** The suites that write or read events. The others ask the database itself, which splitStore() hands through: store/module.ts runs all. */
const WITH_EVENTS = ['apply', 'scope', 'threads', 'runs', 'events']

t.test('sqlite and jsonl', async (t) => {
  for (const [noun, suite] of Object.entries(SUITES))
    if (IS_LONG || WITH_EVENTS.includes(noun)) t.test(noun, async (t) => suite(t, open))
})

// ------------------------------------------------------------------------------------------- the files alone

interface Folder {
  readonly home: string
  readonly warn: JsonlOptions['warn']
  readonly warnings: { fields: Record<string, unknown>; text: string }[]
  events: EventStore
  /** The files as the next process finds them. */
  reopen(options?: Partial<JsonlOptions>): Promise<void>
  pathOf(runId: string, threadId?: string): string
}

async function folder(t: Test, options: Partial<JsonlOptions> = {}): Promise<Folder> {
  const home = mkdtempSync(join(tmpdir(), 'colloquy-jsonl-'))
  const warnings: Folder['warnings'] = []
  const warn = (fields: object, text: string) => void warnings.push({ fields: { ...fields }, text })
  const made: Folder = {
    home,
    warn,
    warnings,
    events: await openJsonlEvents({ home, warn, ...options }),
    async reopen(changed = {}) {
      await made.events.close()
      made.events = await openJsonlEvents({ home, warn, ...options, ...changed })
    },
    pathOf: (runId, threadId = 'thread') => join(home, 'threads', threadId, 'runs', `${runId}.jsonl`)
  }
  t.teardown(async () => {
    await made.events.close()
    rmSync(home, { recursive: true, force: true })
  })
  return made
}

function record(seq: number, set: Partial<EventRecord> = {}): EventRecord {
  const { event_type, category, content, metadata, created_at } = anEvent(seq)
  const of = { thread_id: 'thread', run_id: 'run', user_id: 'ann' }
  return { event_type, category, content, metadata, created_at, ...of, seq, k: seq - 1, ...set }
}

const ALL: EventQuery = { threadId: 'thread', owner: null, after: 0, before: Number.MAX_SAFE_INTEGER }

async function seqs({ events }: Folder, query: Partial<EventQuery> = {}): Promise<number[]> {
  return (await events.select({ ...ALL, ...query }, 999, 'first')).map(({ seq }) => seq)
}

/** Every line of a file parses, and the last one is ended. */
function isClean(path: string): boolean {
  const text = readFileSync(path, 'utf8')
  return text.endsWith('\n') && text.slice(0, -1).split('\n').every(isJson)
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line)
    return true
  } catch {
    return false
  }
}

t.test(
  'cut at every byte of the last three records: earlier ones intact, the next append clean [needs N34]',
  async (t) => {
    const contents: Json[] = [
      'plain',
      { type: 'ai', id: 'm', content: 'ä€😀' },
      'in the middle\nof a line',
      ['😀'],
      { last: '€' }
    ]
    const at = await folder(t)
    await at.events.append(contents.map((content, index) => record(index + 1, { content })))
    await at.events.close()
    const whole = readFileSync(at.pathOf('run'))
    copyFileSync(at.pathOf('run'), join(at.home, 'whole'))
    const ends: number[] = []
    for (let end = whole.indexOf(10); end >= 0; end = whole.indexOf(10, end + 1)) ends.push(end + 1)
    t.equal(ends.length, 5)
    const wrong: string[] = []
    for (let length = ends[1]!; length <= whole.length; length++) {
      copyFileSync(join(at.home, 'whole'), at.pathOf('run'))
      truncateSync(at.pathOf('run'), length)
      at.warnings.length = 0
      await at.reopen()
      // The record whose newline alone is missing is all there.
      const intact = ends.filter((end) => end <= length + 1).length
      const isTorn = !ends.includes(length) && !ends.includes(length + 1)
      await at.events.truncate('thread', 6, false)
      const found = await at.events.select(ALL, 99, 'first')
      await at.events.append([record(6)])
      await at.reopen()
      const after = await seqs(at)
      const isRight =
        JSON.stringify(found.map(({ content }) => content)) === JSON.stringify(contents.slice(0, intact)) &&
        JSON.stringify(after) === JSON.stringify([...found.map(({ seq }) => seq), 6]) &&
        isClean(at.pathOf('run')) &&
        at.warnings.length === (isTorn ? 1 : 0) &&
        (!isTorn ||
          (at.warnings[0]!.fields.offset === ends[intact - 1] && at.warnings[0]!.fields.file === at.pathOf('run')))
      if (!isRight) wrong.push(`cut at ${length} of ${whole.length}`)
    }
    t.strictSame(wrong, [])
  }
)

t.test('damage elsewhere is told with file and offset, and the rest stays readable', async (t) => {
  const at = await folder(t)
  await at.events.append([1, 2, 3, 4].map((seq) => record(seq)))
  await at.events.append([5, 6].map((seq) => record(seq, { run_id: 'other', k: seq - 5 })))
  const bytes = readFileSync(at.pathOf('run'))
  const second = bytes.indexOf(10) + 1
  bytes[second + 5] = 0xff
  writeFileSync(at.pathOf('run'), bytes)
  const foreign = `${JSON.stringify(record(9, { run_id: 'another' }))}\n${JSON.stringify(record(2))}\n[]\n\n{"seq":10}\n`
  appendFileSync(at.pathOf('run'), foreign)
  await at.reopen()
  t.strictSame(await seqs(at), [1, 3, 4, 5, 6])
  const told = at.warnings.map(({ fields, text }) => [fields.file, fields.offset, /damaged/.test(text)])
  t.strictSame(told[0], [at.pathOf('run'), second, true])
  t.equal(told.length, 5, 'the damaged line, and four that are no records of this run')
  await at.events.append([record(7, { k: 6 })])
  await at.reopen()
  t.strictSame(await seqs(at), [1, 3, 4, 5, 6, 7], 'and the next append is read as well')
})

t.test('zeros at the end, as a power failure leaves them, are a torn end', async (t) => {
  const at = await folder(t)
  await at.events.append([record(1)])
  appendFileSync(at.pathOf('run'), Buffer.alloc(4096))
  await at.reopen()
  t.strictSame(await seqs(at), [1])
  await at.events.append([record(2)])
  t.ok(isClean(at.pathOf('run')))
})

t.test('cut removes what was not committed from the files of all runs of the thread, and of no other', async (t) => {
  const at = await folder(t)
  await at.events.append([
    record(1),
    record(2, { run_id: 'b' }),
    record(3),
    record(4, { run_id: 'c' }),
    record(5, { run_id: 'b' }),
    record(4, { thread_id: 'other' })
  ])
  await at.reopen()
  await at.events.truncate('thread', 4, false)
  t.strictSame(await seqs(at), [1, 2, 3])
  t.strictSame(await seqs(at, { category: 'message' }), [1, 2, 3])
  t.notOk(existsSync(at.pathOf('c')), 'a file without records goes')
  t.strictSame(await seqs(at, { threadId: 'other' }), [4])
  t.match(at.warnings, [{ fields: { thread_id: 'thread', lines: 2, next_seq: 4 } }])
  await at.events.append([record(4, { run_id: 'b' })])
  await at.reopen()
  t.strictSame(await seqs(at), [1, 2, 3, 4])
  t.ok(isClean(at.pathOf('b')))
})

t.test('a line is one JSON object with the fields of a record, its characters as they are', async (t) => {
  const at = await folder(t)
  const given = record(1, { content: { text: 'äöü 😀 \u2028 \u0000' }, metadata: { content_is_dict: true } })
  await at.events.append([given])
  const text = readFileSync(at.pathOf('run'), 'utf8')
  t.strictSame(JSON.parse(text), given)
  t.match(text, /äöü 😀/)
})

/** Counts the writes that `work` makes on any file. */
async function writesOf(home: string, work: () => Promise<void>): Promise<number> {
  const probe = await openFile(join(home, 'probe'), 'w')
  // The class of file handles is not exported; every handle has it.
  const handles = Object.getPrototypeOf(probe) as { write: FileHandle['write'] }
  await probe.close()
  const { write } = handles
  let writes = 0
  handles.write = function (this: FileHandle, ...args: Parameters<typeof write>) {
    writes++
    return write.apply(this, args)
  } as typeof write
  try {
    await work()
  } finally {
    handles.write = write
  }
  return writes
}

t.test('a batch is one write a file, however many records', async (t) => {
  const at = await folder(t)
  const batch = Array.from({ length: 300 }, (_, index) => record(index + 1, { run_id: index % 3 ? 'a' : 'b' }))
  t.equal(await writesOf(at.home, () => at.events.append(batch)), 2)
})

t.test('few files are open at a time, and few lines indexed, whatever the number of runs', async (t) => {
  const at = await folder(t, { openFilesMax: 3, linesMax: 20 })
  const openFiles = () => readdirSync('/proc/self/fd').length
  const before = openFiles()
  for (let n = 0; n < 40; n++) {
    const of = { thread_id: `t${n % 8}`, run_id: `r${n}` }
    await at.events.append([record(n * 2 + 1, of), record(n * 2 + 2, of)])
  }
  t.ok(openFiles() <= before + 3, `${openFiles() - before} files open`)
  for (let n = 0; n < 8; n++) {
    const expected = Array.from({ length: 5 }, (_, at) => [(n + at * 8) * 2 + 1, (n + at * 8) * 2 + 2]).flat()
    t.strictSame(await seqs(at, { threadId: `t${n}` }), expected)
  }
  const many = await Promise.all(
    Array.from({ length: 40 }, (_, n) => seqs(at, { threadId: `t${n % 8}`, runId: `r${n}` }))
  )
  t.ok(many.every(({ length }) => length === 2))
  t.ok(openFiles() <= before + 3)
})

t.test('what fails for all files may be handed over again; what is said of it names no path', async (t) => {
  const at = await folder(t)
  const threads = join(at.home, 'threads')
  rmSync(threads, { recursive: true })
  writeFileSync(threads, 'a file in the place of the folder')
  const database = openMemoryStore()
  const store = splitStore(database, at.events)
  const { thread_id } = await addThread(store, { thread_id: 'thread' })
  const run = await addRun(store, thread_id, { run_id: 'run' })
  const error: unknown = await addEvents(store, run, someEvents(0, 2)).catch((error: unknown) => error)
  t.ok(error instanceof StoreUnavailable, String(error))
  t.notMatch(String(error), at.home)
  t.equal(await database.events.nextSeq(thread_id), 1, 'nothing was written')
  rmSync(threads)
  mkdirSync(threads)
  t.equal(await addEvents(store, run, someEvents(0, 2)), 1)
  t.strictSame(await seqs(at), [1, 2])
})

t.test('a thread whose folder cannot be used fails alone; its path is in the log and nowhere else', async (t) => {
  const at = await folder(t)
  mkdirSync(join(at.home, 'threads', 'thread'), { recursive: true })
  writeFileSync(join(at.home, 'threads', 'thread', 'runs'), 'a file in the place of the folder')
  const store = splitStore(openMemoryStore(), at.events)
  const bad = await addRun(store, (await addThread(store, { thread_id: 'thread' })).thread_id)
  const good = await addRun(store, (await addThread(store)).thread_id)
  const error: unknown = await addEvents(store, bad, someEvents(0, 1)).catch((error: unknown) => error)
  t.notOk(error instanceof StoreUnavailable, 'nobody waits for it')
  t.match(String(error), /ENOTDIR/)
  t.notMatch(String(error), at.home)
  t.match(JSON.stringify(at.warnings.map(({ fields }) => String(fields.err))), at.home)
  t.equal(await addEvents(store, good, someEvents(0, 2)), 1)
  t.equal(await addEvents(store, good, someEvents(2, 1)), 3)
  t.strictSame(readdirSync(join(at.home, 'threads')).toSorted(), ['thread', good.thread_id].toSorted())
})

t.test('an id that cannot be the name of a file is refused, with its group alone [contract 4.7]', async (t) => {
  const at = await folder(t)
  const store = splitStore(openMemoryStore(), at.events)
  const good = await addRun(store, (await addThread(store)).thread_id)
  for (const id of ['../../escape', 'a/b', '', '.', 'a b', 'a\n', 'ä']) {
    const { thread_id } = await addThread(store, { thread_id: id })
    const run = await addRun(store, good.thread_id, { run_id: id })
    const append = { name: 'events.append', user_id: 'ann', events: [anEvent(0)] } as const
    // As the committer does it: together first, then one by one.
    await t.rejects(store.apply([{ ops: [{ ...append, thread_id, run_id: 'run' }] }]), /cannot be the name of a file/)
    await t.rejects(
      store.apply([{ ops: [{ ...append, thread_id: run.thread_id, run_id: run.run_id }] }]),
      /cannot be the name of a file/
    )
  }
  t.equal(await addEvents(store, good, someEvents(0, 1)), 1)
  t.strictSame(readdirSync(join(at.home, 'threads')), [good.thread_id])
})

// ------------------------------------------------------------------------------------------------ removals

async function furnished(t: Test): Promise<{ at: Folder; store: Store; run: Run; threadFolder: string }> {
  const at = await folder(t)
  const store = splitStore(openMemoryStore(), at.events)
  const run = await addRun(store, (await addThread(store)).thread_id)
  await addEvents(store, run, someEvents(0, 3))
  return { at, store, run, threadFolder: join(at.home, 'threads', run.thread_id) }
}

t.test('a removed thread leaves no file, and a late write makes none [Store 8]', async (t) => {
  const { store, run, threadFolder } = await furnished(t)
  t.ok(existsSync(threadFolder))
  const late = {
    name: 'events.append',
    thread_id: run.thread_id,
    run_id: run.run_id,
    user_id: 'ann',
    events: [anEvent(3)]
  } as const
  const remove = { name: 'thread.remove', thread_id: run.thread_id, user: null } as const
  const [before, removed, behind] = await apply(store, [late], [remove], [{ ...late, events: [anEvent(4)] }])
  t.match([before, removed, behind], [{ ok: true }, { ok: true, results: [true] }, { ok: false }])
  t.notOk(existsSync(threadFolder))
  await refuses(t, store, late, 'later still')
  t.notOk(existsSync(threadFolder))
  await addThread(store, { thread_id: run.thread_id })
  t.equal(await messageCount(store, run.thread_id, null), 0, 'the same id made anew is empty')
  t.equal(await addEvents(store, await addRun(store, run.thread_id), someEvents(0, 1)), 1)
})

t.test('what else lies in the folder of a thread stays when its events go', async (t) => {
  const { store, run, threadFolder } = await furnished(t)
  mkdirSync(join(threadFolder, 'user-data'))
  await write(store, { name: 'thread.remove', thread_id: run.thread_id, user: null })
  t.strictSame(readdirSync(threadFolder), ['user-data'])
})

t.test('threads about to be removed are remembered over a crash, and only while they are', async (t) => {
  const at = await folder(t)
  t.strictSame(await at.events.tombstones?.(), [])
  await at.events.setTombstones?.(['a', 'b'])
  await at.reopen()
  t.strictSame(await at.events.tombstones?.(), ['a', 'b'])
  await at.events.setTombstones?.([])
  t.strictSame(await at.events.tombstones?.(), [])
  t.strictSame(readdirSync(join(at.home, 'threads')), [])
})

t.test('a list of removed threads that a power failure has emptied is told, and stops no start', async (t) => {
  for (const text of ['', '\u0000\u0000', '{"a":1}', '[1, "a"']) {
    const at = await folder(t)
    writeFileSync(join(at.home, 'threads', '.removing'), text)
    t.strictSame(await at.events.tombstones?.(), [])
    t.match(at.warnings, [{ fields: { file: join(at.home, 'threads', '.removing') }, text: /cannot be read/ }])
    t.equal(at.warnings.length, 1)
  }
})

// ------------------------------------------------------------------------------------- two places that disagree

t.test(
  'an older database beside newer files loses no line of them, and gives none of their seqs again [Store 5]',
  async (t) => {
    const at = await folder(t)
    const path = join(at.home, 'colloquy.db')
    const openBoth = async () =>
      splitStore(await openSqliteStore(path), await openJsonlEvents({ home: at.home, warn: at.warn }))
    let store = await openBoth()
    const { thread_id } = await addThread(store, { thread_id: 'thread' })
    const first = await addRun(store, thread_id, { run_id: 'first' })
    await addEvents(store, first, someEvents(0, 4))
    await store.close()
    copyFileSync(path, `${path}.old`)
    store = await openBoth()
    await addEvents(store, first, someEvents(4, 3))
    const second = await addRun(store, thread_id, { run_id: 'second' })
    await addEvents(store, second, someEvents(0, 5))
    await store.close()
    const lines = (file: string) => readFileSync(file, 'utf8').split('\n').slice(0, -1)
    const before = [...lines(at.pathOf('first')), ...lines(at.pathOf('second'))]
    copyFileSync(`${path}.old`, path)
    for (const rest of ['-wal', '-shm']) rmSync(path + rest, { force: true })
    store = await openBoth()
    t.equal(await addEvents(store, await addRun(store, thread_id, { run_id: 'third' }), someEvents(0, 1)), 13)
    t.strictSame(
      (await store.events.listMessages(thread_id, { limit: 99 }, null)).map(({ seq }) => seq),
      [1, 2, 3, 4, 13]
    )
    await store.close()
    const runs = join(at.home, 'threads', thread_id, 'runs')
    const names = readdirSync(runs).toSorted()
    t.strictSame(
      names.map((name) => name.replace(/\d{13}/, 'TIME')),
      ['first.TIME.disputed', 'first.jsonl', 'second.TIME.disputed', 'third.jsonl']
    )
    const after = names.filter((name) => !name.startsWith('third')).flatMap((name) => lines(join(runs, name)))
    t.strictSame(after.toSorted(), before.toSorted())
    t.match(at.warnings, [{ fields: { thread_id, lines: 8, next_seq: 5 }, text: /set aside/ }])
  }
)

t.test('a reader that reads a file while somebody writes it changes nothing in it', async (t) => {
  const at = await folder(t)
  await at.events.append([record(1)])
  const half = `${JSON.stringify(record(2))}`
  for (const torn of [half.slice(0, 40), half]) {
    const before = readFileSync(at.pathOf('run'))
    // As a reader finds it that comes in the middle of a write.
    appendFileSync(at.pathOf('run'), torn)
    await at.reopen()
    t.strictSame(await seqs(at), torn === half ? [1, 2] : [1])
    t.equal(readFileSync(at.pathOf('run'), 'utf8'), `${before}${torn}`)
    truncateSync(at.pathOf('run'), before.length)
  }
})

t.test('a reader beside a writer, in a home whose threads are put away all the time, loses no line', async (t) => {
  const at = await folder(t, { linesMax: 1 })
  const content = 'x'.repeat(300_000)
  let isWriting = true
  const reading = (async () => {
    for (let n = 0; isWriting; n++) await seqs(at, { threadId: n % 2 ? 'thread' : 'other' })
  })()
  for (let seq = 1; seq <= 60; seq++) {
    await at.events.append([record(seq, { content })])
    await at.events.append([record(seq, { thread_id: 'other' })])
  }
  isWriting = false
  await reading
  await at.reopen()
  t.strictSame(
    await seqs(at),
    Array.from({ length: 60 }, (_, index) => index + 1)
  )
  t.strictSame(at.warnings, [])
})
