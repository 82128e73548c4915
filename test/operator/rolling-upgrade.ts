// An upgrade without a pause: the program and its next version, as processes, side by side on one PostgreSQL database under load, through
// every part of a change of the schema. Nothing that is asked is lost or held up for long, and no reader has a gap. What an older process
// does at each stage is right: it serves, it starts again, and when its form is gone it refuses in a sentence.
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { beginCommand, type Child, command, commandOf, startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, type Options, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { GATE, INDEX, type NextVersion, nextVersion } from '../fixtures/next-version.ts'
import { POSTGRES_STEPS } from '../fixtures/old-schema.ts'
import { onOther } from '../fixtures/pair.ts'
import { sized } from '../fixtures/size.ts'
import { Load } from '../fixtures/upgrade-load.ts'

const THREADS = sized(6000, 1_000_000)
const QUIET_ROUNDS = sized(2, 8)
const BESIDE_MS = sized(1500, 60_000)
const LOOPS = sized(2, 6)
/** Of the threads that are filled, those that somebody uses meanwhile. */
const USED = 200
/** Here the backfill is held, and killed: behind half of the rows. */
const HELD = THREADS / 2
const OURS = POSTGRES_STEPS.at(-1)!.version
/** The oldest schema whose programs may write: that of the last step that breaks them. */
const OLDEST_WRITER = Math.max(...POSTGRES_STEPS.map(({ minWriter }) => minWriter))
const LEASE_MS = 3000
/**
 * How long a change may hold up one request, in ms: the second that it waits for the lock of a table while all others wait behind it, and
 * a batch of rows, which may take twice its quarter of a second before the next is made smaller.
 */
const HOLDS_MS = 1000 + 2 * 250
/** And as often as this the slowest request before it: the machine has the work of the change beside that of the load. */
const SLOWER = 10

interface Plan {
  readonly schema: number
  readonly steps: readonly { readonly rows: number | null }[]
  readonly processes: readonly object[]
}

interface Progress {
  readonly phase: string
  readonly rows?: number
}

interface Scene {
  readonly t: Test
  readonly next: NextVersion
  readonly home: string
  readonly config: Options
  readonly line: PgConnection
  readonly url: string
  readonly old: Child
  readonly onOld: Person
  readonly load: Load
  /** No request takes longer while the schema is changed. */
  readonly boundMs: number
}

t.test('old and new go on side by side while a schema is expanded, filled and contracted', async (t) => {
  const scene = await open(t)
  await sayWhatIsToBeDone(scene)
  await killInTheMiddle(scene)
  await goOn(scene)
  const newer = await startChild(t, { home: scene.home, config: scene.config, program: scene.next.program })
  const onNew = onOther(scene.onOld, newer)
  const forgotten = await sideBySide(scene, onNew)
  await contract(scene, onNew, forgotten)
  await checkAll(scene, newer, onNew)
})

/** The older version under load, beside many threads, some of which are somebody's who uses them. */
async function open(t: Test): Promise<Scene> {
  const next = nextVersion(t, nameOf(HELD))
  const database = await databaseSection(t, 'postgres')
  const url = database.postgres_url!
  const line = await lineTo(t, url)
  await line.rows('SET statement_timeout = 0')
  const home = homeOf(t)
  const config = {
    database,
    memory: { enabled: false },
    title: { enabled: false },
    runs: { lease_ms: LEASE_MS }
  }
  const old = await startChild(t, { home, config })
  const onOld = await signIn(old)
  await line.rows(
    `INSERT INTO threads_meta (thread_id, user_id, display_name, created_at, updated_at)
     SELECT 't' || lpad(n::text, 8, '0'), CASE WHEN n % $2::integer = 1 THEN $3 END, 'name ' || n, now(), now()
     FROM generate_series(1, $1::integer) AS n`,
    [THREADS, THREADS / USED, textIn((await onOld.get('/api/v1/auth/me')).body, 'id')]
  )
  // Their state can be changed.
  await line.rows(`INSERT INTO checkpoints (thread_id, checkpoint_id, metadata_json, messages_json, channels_json, created_at)
    SELECT thread_id, 'c', '{}', '[]', '{}', now() FROM threads_meta WHERE user_id IS NOT NULL`)
  await line.rows('ANALYZE threads_meta')
  const used = Array.from({ length: USED }, (_, n) => nameOf((n * THREADS) / USED + 1))
  const load = new Load([onOld], used, LOOPS)
  t.teardown(() => load.stop())
  await load.more(1)
  load.slowest()
  await load.more(QUIET_ROUNDS)
  const quiet = load.slowest()
  const boundMs = HOLDS_MS + SLOWER * quiet.ms
  t.comment(`${quiet.ms.toFixed()} ms without a change (${quiet.what}): with one ${boundMs.toFixed()} ms at most`)
  return { t, next, home, config, line, url, old, onOld, load, boundMs }
}

async function sayWhatIsToBeDone({ t, next, home }: Scene): Promise<void> {
  const before = await planOf(next.program, home)
  t.match(before, {
    schema: OURS,
    program: next.schema,
    min_writer: OLDEST_WRITER,
    steps: [
      { version: next.schema, phase: 'expand', stop: false },
      { version: next.schema, phase: 'indexes', stop: false },
      { version: next.schema, phase: 'backfill', stop: false },
      { version: next.schema, phase: 'contract', stop: true }
    ],
    processes: [{ schema: OURS, count: 1 }]
  })
  t.ok((before.steps[2]?.rows ?? 0) >= THREADS * 0.9, 'with about how many rows')
}

/** The change is killed with some of the rows filled. */
async function killInTheMiddle(scene: Scene): Promise<void> {
  const { t, next, home, line, url } = scene
  const holder = await lineTo(t, url)
  await holder.rows('SELECT pg_advisory_lock($1)::text', [GATE])
  const first = beginCommand(next.program, home, 'migrate', '--apply')
  const closed = once(first, 'close')
  let said = ''
  first.stderr.on('data', (bytes) => {
    said += String(bytes)
  })
  await until(async () => (await filled(line)) >= HELD / 3, 'some of the rows', 600_000, 50)
  await until(() => /waits for a lock that somebody else holds, \d+ of \d+ rows/.test(said), 'it says why it stands')
  first.kill('SIGKILL')
  await closed
  await holder.rows('SELECT pg_advisory_unlock($1)', [GATE])
  const reached = await filled(line)
  t.ok(reached > 0 && reached < THREADS, `${reached} of ${THREADS} rows were filled`)
  checkLoad(scene, 'the tables were changed, and the change was killed')
  // The older version opens it meanwhile, and waits for nothing.
  const asked = await command(home, 'user', 'list', '--json')
  t.match(asked, { code: 0, out: /person-/ }, asked.errors)
}

/** The next one goes on where that was, a batch at a time, and says how far it is. */
async function goOn(scene: Scene): Promise<void> {
  const { t, next, home, line } = scene
  const reached = await filled(line)
  // As if it had been killed in the middle of that too.
  await line.rows(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '${INDEX}'::regclass`)
  const second = await commandOf(next.program, home, 'migrate', '--apply', '--json')
  t.equal(second.code, 0, second.errors)
  const progress = second.errors
    .split('\n')
    .flatMap((text) => (text.startsWith('{') ? [JSON.parse(text) as Progress] : []))
  const rows = progress.flatMap(({ phase, rows }) => (phase === 'backfill' && rows !== undefined ? [rows] : []))
  t.ok((rows[0] ?? 0) >= reached, `it has gone on at ${rows[0]}`)
  t.strictSame(
    rows,
    rows.toSorted((a, b) => a - b),
    'and says how far it is'
  )
  t.ok((rows.at(-1) ?? 0) >= THREADS, 'until it is done')
  t.notOk(
    progress.some(({ phase }) => phase === 'expand'),
    'what was done is not done again'
  )
  t.match(await planOf(next.program, home), { schema: next.schema, steps: [{ phase: 'contract' }] })
  t.strictSame(await line.rows(`SELECT 1 FROM pg_index WHERE NOT indisvalid AND indexrelid = '${INDEX}'::regclass`), [])
  t.strictSame(await line.rows('SELECT 1 FROM threads_meta WHERE shown_name IS DISTINCT FROM display_name LIMIT 1'), [])
  checkLoad(scene, `${THREADS - reached} rows were filled`)
}

/**
 * Two old processes and a new one, each asked as it comes. The one that was there first is replaced while it is asked.
 * @returns the other old one, which the load has left
 */
async function sideBySide(scene: Scene, onNew: Person): Promise<Child> {
  const { t, next, home, config, old, onOld, load } = scene
  // As who goes back would.
  const again = await startChild(t, { home, config })
  const onAgain = onOther(onOld, again)
  await load.move([onOld, onAgain, onNew])
  const begun = load.rounds
  await new Promise((resolve) => setTimeout(resolve, BESIDE_MS))
  await load.more(2)
  t.comment(`${load.rounds - begun} rounds of old and new side by side, ${load.returns} returns of readers`)
  const refused = await commandOf(next.program, home, 'migrate', '--contract')
  const words = `what 2 processes of an older version \\(schema ${OURS}\\) still need`
  t.match(refused, { code: 1, errors: new RegExp(words) })
  await load.more(1)
  checkLoad(scene, 'old and new were asked in turn')

  t.match(await old.stop(), { code: 0 })
  const sentAgain = load.again
  await load.move([onAgain, onNew])
  t.strictSame(load.problems, [], `who asked the one that has stopped was answered by another (${sentAgain} times)`)
  await load.move([onNew])
  load.again = 0
  load.slowest()
  return again
}

/** The old form goes, which one old process has slept through. */
async function contract(scene: Scene, onNew: Person, forgotten: Child): Promise<void> {
  const { t, next, home, line, load } = scene
  const onForgotten = onOther(onNew, forgotten)
  const threadId = nameOf(1)
  forgotten.process.kill('SIGSTOP')
  const leases = 'SELECT 1 FROM writers WHERE lease_until > clock_timestamp()'
  await until(async () => (await line.rows(leases)).length === 1, 'the end of its lease')
  t.match(await commandOf(next.program, home, 'migrate', '--contract', '--json'), {
    code: 0,
    out: `{"contracted":[${next.schema}]}\n`
  })
  await load.more(2)
  checkLoad(scene, 'the old form was removed')
  forgotten.process.kill('SIGCONT')
  const isTold = async () => /a newer program/.test((await onForgotten.get('/readyz')).text)
  await until(isTold, 'a sentence of who comes back')
  const refused = [
    await onForgotten.post('/api/threads'),
    await onForgotten.post(`/api/threads/${threadId}/state`, { values: { title: 'late' } }),
    await onForgotten.post('/api/threads/search', { ids: [threadId] })
  ]
  for (const { status, headers, text } of refused) {
    t.ok(status === 503 && headers.has('retry-after'), text)
    t.match(text, /newer/, 'which says why')
  }
  const columns = `SELECT 1 FROM threads_meta WHERE thread_id = '${threadId}' AND shown_name = 'late'`
  t.strictSame(await line.rows(columns), [], 'it has written nothing')
  await load.more(1)
  await load.stop()
  checkLoad(scene, 'an old process has come back')
  t.match(await forgotten.stop(), { code: 0 }, 'and it can be stopped')

  const late = /schema version \d+, this program knows versions up to \d+: start a newer one/
  t.match(await command(home, 'user', 'list'), { code: 1, errors: late })
  await t.rejects(startChild(t, { home, config: scene.config }), { message: late }, 'nor does it serve')
}

/** Nothing was lost, sent twice, or held up for long since this was asked before. */
function checkLoad({ t, load, boundMs }: Scene, stage: string): void {
  const { ms, what } = load.slowest()
  t.strictSame(load.problems, [], `no request is lost and no reader has a gap: ${stage}`)
  t.equal(load.again, 0, 'and each was answered when it was sent')
  t.ok(ms <= boundMs, `within ${ms.toFixed()} ms of ${boundMs.toFixed()} (${what})`)
  t.comment(`${stage}: ${ms.toFixed()} ms at most (${what}); ${load.requests} requests so far`)
}

async function planOf(program: string, home: string): Promise<Plan> {
  const { code, out, errors } = await commandOf(program, home, 'migrate', '--plan', '--json')
  if (code !== 0) throw new Error(errors)
  return JSON.parse(out) as Plan
}

async function lineTo(t: Test, url: string): Promise<PgConnection> {
  const line = await PgConnection.open(url)
  t.teardown(() => line.close())
  return line
}

/** A thread of before. */
function nameOf(n: number): string {
  return `t${String(n).padStart(8, '0')}`
}

/** Rows that the backfill has behind it, as its step says. */
async function filled(line: PgConnection): Promise<number> {
  const sql = `SELECT backfill FROM migrations WHERE version > ${OURS} AND backfill IS NOT NULL`
  const [row] = await line.rows<{ backfill: string }>(sql)
  return row ? Number(at(JSON.parse(row.backfill), 'rows')) : 0
}

/** Nothing that was written before or during the change is gone for who comes after it. */
async function checkAll({ t, line, load, old }: Scene, newer: Child, person: Person): Promise<void> {
  const { body } = await person.post('/api/threads/search', { limit: 100 })
  const mine = listIn(body).filter((thread) => !textIn(thread, 'thread_id').startsWith('t0'))
  t.ok(mine.length > 0)
  t.notOk(
    mine.some((thread) => !/^\d+-\d+$/.test(textIn(thread, 'values', 'title'))),
    'each has the name that it was given'
  )
  const rows = await line.rows<{ id: string; name: string }>(
    `SELECT thread_id AS id, shown_name AS name FROM threads_meta WHERE thread_id LIKE 't0%' AND shown_name NOT LIKE 'name %'`
  )
  t.strictSame(new Map(rows.map(({ id, name }) => [id, name])), load.titles, `${rows.length} of before as well`)
  const [counted] = await line.rows<{ count: number }>(
    `SELECT count(*)::integer AS count FROM threads_meta WHERE thread_id LIKE 't0%' AND shown_name IS NOT NULL AND name_length IS NOT NULL`
  )
  t.equal(counted?.count, THREADS, 'every row was filled')
  for (const { log } of [old, newer]) t.notMatch(log, /"level":(50|60)|"level":"(error|fatal)"/)
}
