// What does it cost each store to keep an event, how long until it is kept, and how fast is it read: beside the bare driver of its
// database, and beside a store of somebody else's.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pathToFileURL } from 'node:url'
import { Kind } from '../lib/run/log/frame.ts'
import { aLog } from '../test/fixtures/run-log.ts'
import { prepareDatabase } from '../lib/store/postgres/schema.ts'
import type { NewEvent, Store } from '../lib/store/store.ts'
import { timestamp } from '../lib/base/types.ts'
import { fileFloor, postgresFloor, type Sink, sqliteFloor } from './driver-floors.ts'
import { sqliteThreadFloor } from './driver-thread.ts'
import { frameOf } from './frame.ts'
import type { Options } from './options.ts'
import { type Measure, median, quantile, type Row, report, short } from './report.ts'
import { cpuOf } from './server-cpu.ts'
import { type EventBackend, makeRun, openStore } from './store.ts'
import type { Database } from '../test/fixtures/postgres.ts'
import type { TargetName } from './targets.ts'

const RESOLUTION_MS = 5
/** Characters of a message. */
const SIZE = 200
const PAGE = 50
const READ_BYTES = 256 * 1024

interface Candidate {
  readonly name: string
  /** As `openStore` takes it. */
  readonly given: string | null
  readonly events: EventBackend
  /** null: there is no driver below it. */
  readonly floor: (() => Promise<Sink>) | null
  /** The same driver in a thread of its own, which is where ours has it; null: ours has none. */
  readonly threadFloor: (() => Promise<Sink>) | null
  /** Of the database's server; null: it has none of its own. */
  readonly serverPid: number | null
  readonly target?: TargetName
}

interface Written {
  readonly cpu: number
  readonly serverCpu: number
  readonly rowsPerS: number
  readonly p50: number
  readonly p99: number
  readonly loopP99: number
}

function eventsFrom(k: number, count: number): NewEvent[] {
  const created_at = timestamp()
  return Array.from({ length: count }, (_, i) => ({
    event_type: 'ai_message',
    category: 'message',
    content: { type: 'ai', id: `message-${k + i}`, content: 'word '.repeat(SIZE / 5) },
    metadata: { caller: 'lead_agent' },
    created_at,
    k: k + i
  }))
}

/** Appends `rows` events, `batch` at a time, and measures until the last is durable. */
async function written(sink: Sink, begin: number, rows: number, batch: number, pid: number | null): Promise<Written> {
  // Made before: what it costs to make events is not asked here.
  const batches = Array.from({ length: rows / batch }, (_, i) => eventsFrom(begin + i * batch, batch))
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  const times: number[] = []
  delay.enable()
  const [cpu, serverCpu] = [process.cpuUsage(), pid === null ? 0 : cpuOf(pid)]
  const began = performance.now()
  for (const events of batches) {
    const at = performance.now()
    await sink.append(events, events[0]!.k + 1)
    times.push(performance.now() - at)
  }
  const wallMs = performance.now() - began
  const used = process.cpuUsage(cpu)
  delay.disable()
  return {
    cpu: (used.user + used.system) / rows,
    serverCpu: pid === null ? 0 : (cpuOf(pid) - serverCpu) / rows,
    rowsPerS: rows / (wallMs / 1000),
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    loopP99: Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS)
  }
}

/** A store as one that takes events: those of one run. */
async function sinkOf(store: Store): Promise<Sink> {
  const { threadId } = await makeRun(store)
  const append: Sink['append'] = async (events) => {
    const op = { name: 'events.append', thread_id: threadId, run_id: `${threadId}-run`, user_id: null, events } as const
    const [outcome] = await store.apply([{ ops: [op] }])
    if (!outcome?.ok) throw new Error(`the store refused an event: ${outcome?.message}`)
  }
  return { append, close: () => store.close() }
}

interface Reading {
  readonly newestMs: number
  readonly pageMs: number
  readonly replayMBs: number
}

/** Pages of a thread of `rows` events, and a log of as many frames once more from its beginning. */
async function read(store: Store, rows: number): Promise<Reading> {
  const { threadId, key } = await makeRun(store)
  const run_id = `${threadId}-run`
  for (let k = 0; k < rows; k += 1000) {
    const log = aLog({ epoch: 1, head: k })
    for (let i = 0; i < 1000; i++) log.append(Kind.messages, 'messages', frameOf(60).split('\n')[1]!.slice(6))
    const frames = log
      .take()
      .map((segment) => ({ name: 'frames.append', run_key: key, thread_id: threadId, segment }) as const)
    const events = {
      name: 'events.append',
      thread_id: threadId,
      run_id,
      user_id: null,
      events: eventsFrom(k, 1000)
    } as const
    await store.apply([{ ops: [events, ...frames] }])
  }
  const newest = await timed(200, () => store.events.listMessages(threadId, { limit: PAGE }, null))
  const page = await timed(200, (i) =>
    store.events.listMessages(threadId, { limit: PAGE, after: (i * 37) % (rows - PAGE) }, null)
  )
  let bytes = 0
  const began = performance.now()
  for (let from = 0; from < rows; ) {
    const segments = await store.frames.read(key, from, READ_BYTES)
    if (segments.length === 0) throw new Error('frames are missing')
    for (const { data } of segments) bytes += data.length
    from = segments.at(-1)!.last + 1
  }
  return { newestMs: newest, pageMs: page, replayMBs: bytes / 1e6 / ((performance.now() - began) / 1000) }
}

/** The median of so many calls, in ms. */
async function timed(count: number, call: (i: number) => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const began = performance.now()
    await call(i)
    times.push(performance.now() - began)
  }
  return quantile(times, 0.5)
}

/** A database of PostgreSQL with our schema; null: there is no server to be had. */
interface Postgres {
  newUrl(): Promise<string>
  /** Removes the databases that were made: the server may be somebody's. */
  remove(): Promise<void>
  readonly pid: number | null
}

async function postgresOf(): Promise<Postgres | null> {
  // The server is a dependency of the project's tests; an installed copy may not have it.
  const fixture = await import('../test/fixtures/postgres.ts').catch(() => null)
  const server = await fixture?.postgresServer().catch(() => null)
  if (!fixture || !server) return null
  const made: Database[] = []
  const newUrl = async () => {
    const database = await fixture.createDatabase()
    made.push(database)
    await prepareDatabase(database.url)
    return database.url
  }
  const remove = async () => {
    for (const database of made) await database.remove()
  }
  return { newUrl, remove, pid: process.platform === 'linux' ? (server.own?.pid ?? null) : null }
}

async function candidates(folder: string, theirs: string | null, postgres: Postgres | null): Promise<Candidate[]> {
  const withSchema = async (name: string) => {
    const path = join(folder, name)
    await (await openStore(null, path)).close()
    return join(path, 'bench.db')
  }
  const floor = async () => sqliteFloor(await withSchema('floor'))
  const threadFloor = async () => sqliteThreadFloor(await withSchema('floor in a thread'))
  const file = async () => fileFloor(folder)
  const own = { events: 'db', floor: null, threadFloor: null, serverPid: null } as const
  const all: Candidate[] = [
    { ...own, name: 'sqlite', given: null, floor, threadFloor, target: 'store-sqlite' },
    { ...own, name: 'sqlite, events as JSON lines', given: null, events: 'jsonl', floor: file },
    { ...own, name: 'memory', given: 'memory' }
  ]
  if (postgres) {
    const floor = async () => postgresFloor(await postgres.newUrl())
    const given = await postgres.newUrl()
    all.splice(1, 0, { ...own, name: 'postgres', given, floor, serverPid: postgres.pid, target: 'store-postgres' })
  }
  if (theirs !== null) all.push({ ...own, name: theirs, ...(await candidateOf(theirs)) })
  return all
}

/** A module is a database, or a place for events beside SQLite: whichever it exports. */
async function candidateOf(theirs: string): Promise<Pick<Candidate, 'given' | 'events'>> {
  if (/^postgres/.test(theirs)) return { given: theirs, events: 'db' }
  const file: object = await import(pathToFileURL(theirs).href)
  return 'openStore' in file
    ? { given: theirs, events: 'db' }
    : { given: null, events: { module: theirs, options: {} } }
}

function rowsOf(batch: number, quick: boolean): number {
  if (batch === 1) return quick ? 200 : 2000
  return quick ? Math.max(batch, 1000) : 20_000
}

async function appends(candidate: Candidate, folder: string, { quick, repeats }: Options): Promise<[Row[], Measure[]]> {
  const { name, given, events, serverPid, target } = candidate
  const sink = await sinkOf(await openStore(given, join(folder, `ours ${name.replaceAll('/', ' ')}`), events))
  const floor = await candidate.floor?.()
  const inThread = await candidate.threadFloor?.()
  const rows: Row[] = []
  const measures: Measure[] = []
  let next = 0
  try {
    for (const batch of [1, 10, 100, 1000]) {
      const count = rowsOf(batch, quick)
      const [mine, bare, threaded]: [Written[], Written[], Written[]] = [[], [], []]
      for (let i = 0; i < repeats; i++, next += count) {
        mine.push(await written(sink, next, count, batch, serverPid))
        if (floor) bare.push(await written(floor, next, count, batch, serverPid))
        if (inThread) threaded.push(await written(inThread, next, count, batch, serverPid))
      }
      const whole = (all: readonly Written[]) => all.map(({ cpu, serverCpu }) => cpu + serverCpu)
      const ratio = (ours: readonly Written[], floors: readonly Written[]) =>
        short(median(whole(ours)).mid / median(whole(floors)).mid)
      const mid = (all: readonly Written[], what: keyof Written) => short(median(all.map((one) => one[what])).mid)
      rows.push({
        store: name,
        batch,
        'rows/s': Math.round(mid(mine, 'rowsPerS')),
        'us/row': mid(mine, 'cpu'),
        '+ server': serverPid === null ? '' : mid(mine, 'serverCpu'),
        'floor us/row': floor ? mid(bare, 'cpu') : '',
        '+ its server': floor && serverPid !== null ? mid(bare, 'serverCpu') : '',
        ratio: floor ? ratio(mine, bare) : '',
        'floor in a thread us/row': inThread ? mid(threaded, 'cpu') : '',
        'ratio to that': inThread ? ratio(mine, threaded) : '',
        'kept after p50 ms': mid(mine, 'p50'),
        'p99 ms': mid(mine, 'p99'),
        'floor p50 ms': floor ? mid(bare, 'p50') : '',
        'loop delay p99 ms': mid(mine, 'loopP99')
      })
      if (batch === 100 && target) measures.push({ target, ours: whole(mine), floor: whole(bare) })
    }
  } finally {
    await sink.close()
    await floor?.close()
    await inThread?.close()
  }
  return [rows, measures]
}

async function readings({ name, given, events }: Candidate, folder: string, { quick, repeats }: Options): Promise<Row> {
  const count = quick ? 2000 : 10_000
  const store = await openStore(given, join(folder, `reads ${name.replaceAll('/', ' ')}`), events)
  try {
    const all: Reading[] = []
    for (let i = 0; i < repeats; i++) all.push(await read(store, count))
    const mid = (what: keyof Reading) => short(median(all.map((one) => one[what])).mid)
    return {
      store: name,
      events: count,
      [`newest ${PAGE} ms`]: mid('newestMs'),
      [`${PAGE} somewhere ms`]: mid('pageMs'),
      'replay MB/s': mid('replayMBs')
    }
  } finally {
    await store.close()
  }
}

export async function stores(options: Options): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-bench-'))
  const theirs = options.store === null || /^postgres/.test(options.store) ? options.store : resolve(options.store)
  const postgres = await postgresOf()
  try {
    const all = await candidates(folder, theirs, postgres)
    const [rows, measures]: [Row[], Measure[]] = [[], []]
    for (const candidate of all) {
      const [some, measured] = await appends(candidate, folder, options)
      rows.push(...some)
      measures.push(...measured)
    }
    report('What does it cost a store to keep an event?', { repeats: options.repeats, size: SIZE }, rows, measures)
    const reads: Row[] = []
    for (const candidate of all) reads.push(await readings(candidate, folder, options))
    report('How fast does a store give back what it keeps?', { repeats: options.repeats }, reads)
  } finally {
    await postgres?.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}
