// Many writers on one thread: every seq from 1 on is given once, on every backend [Store 5, needs N14].
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { openJsonlEvents } from '../../lib/store/jsonl/events.ts'
import { openMemoryEvents } from '../../lib/store/memory/event-store.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { splitStore } from '../../lib/store/split/open.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import type { Store } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import { addRun, addThread } from '../contract/harness.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { EVENTS, type Writer, writeAll } from '../fixtures/writers.ts'

const WRITERS = 64
const PROGRAM = fileURLToPath(new URL('../fixtures/writers.js', import.meta.url))

/** What the writers of each process were told, in their order. */
type Told = readonly (readonly [k: number, seq: number])[][]

async function inThisProcess(store: Store, writers: readonly Writer[]): Promise<Told> {
  const committer = new Committer((groups) => store.apply(groups), { flushMs: 1 })
  const told = await Promise.all(writers.map((writer) => writeAll(committer, writer)))
  committer.stop()
  return told
}

async function inAnother(url: string, writers: readonly Writer[]): Promise<Told> {
  const child = spawn(process.execPath, [PROGRAM, url, JSON.stringify(writers)], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let out = ''
  child.stdout.on('data', (bytes) => {
    out += String(bytes)
  })
  await once(child, 'close')
  // What the fixture prints.
  return JSON.parse(out) as Told
}

/** `work`: who writes. */
async function race(t: Test, store: Store, work = inThisProcess): Promise<void> {
  const { thread_id } = await addThread(store)
  const runs: Run[] = []
  for (let n = 0; n < WRITERS; n++) runs.push(await addRun(store, thread_id))
  const answers = await work(
    store,
    runs.map((run, index) => ({ run, index }))
  )
  const told = answers.map((pairs) => new Map(pairs))

  const seen = new Uint8Array(WRITERS * EVENTS + 1)
  const wrong: string[] = []
  for (const [index, { run_id }] of runs.entries()) {
    const events = await store.events.listEvents(thread_id, run_id, { limit: EVENTS + 1 }, null)
    if (events.length !== EVENTS) wrong.push(`run ${index} has ${events.length} events`)
    for (const [k, { seq, content }] of events.entries()) {
      seen[seq]! += 1
      if (content !== `${index}`) wrong.push(`seq ${seq} is somebody else's`)
      if (k > 0 && seq <= events[k - 1]!.seq) wrong.push(`seq ${seq} is out of order`)
      const answer = told[index]!.get(k)
      if (answer !== undefined && answer !== seq) wrong.push(`event ${k} of run ${index} was told ${answer}, is ${seq}`)
    }
  }
  t.strictSame(wrong.slice(0, 5), [])
  t.ok(
    seen.subarray(1).every((times) => times === 1),
    'every seq once'
  )
  t.equal(await store.events.nextSeq(thread_id), WRITERS * EVENTS + 1)
  const page = await store.events.listMessages(thread_id, { limit: 3, after: 1000 }, null)
  t.strictSame(
    page.map(({ seq }) => seq),
    [1001, 1002, 1003]
  )
}

function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'colloquy-writers-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function openPostgres(t: Test): Promise<Store> {
  const { postgres_url } = await databaseSection(t, 'postgres')
  return openPostgresStore(postgres_url!)
}

const BACKENDS: Readonly<Record<string, (t: Test) => Promise<Store>>> = {
  memory: async () => openMemoryStore(),
  'memory with events beside it': async () => splitStore(openMemoryStore(), openMemoryEvents()),
  sqlite: (t) => openSqliteStore(join(folder(t), 'colloquy.db')),
  'sqlite and jsonl': async (t) => {
    const home = folder(t)
    const events = await openJsonlEvents({ home, warn: () => {} })
    return splitStore(await openSqliteStore(join(home, 'colloquy.db')), events)
  },
  postgres: openPostgres,
  'postgres and jsonl': async (t) => {
    const events = await openJsonlEvents({ home: folder(t), warn: () => {} })
    return splitStore(await openPostgres(t), events)
  }
}

for (const [name, open] of Object.entries(BACKENDS)) {
  t.test(`${WRITERS} writers x ${EVENTS} events on one thread of ${name}: seq is dense and unique`, async (t) => {
    const store = await open(t)
    await race(t, store)
    await store.close()
  })
}

t.test(
  `${WRITERS} writers x ${EVENTS} events on one thread of postgres, from two processes: seq is dense and unique`,
  async (t) => {
    const { postgres_url } = await databaseSection(t, 'postgres')
    const store = await openPostgresStore(postgres_url!)
    await race(t, store, async (_, writers) => {
      const half = writers.length / 2
      const both = [writers.slice(0, half), writers.slice(half)].map((some) => inAnother(postgres_url!, some))
      return (await Promise.all(both)).flat()
    })
    await store.close()
  }
)
