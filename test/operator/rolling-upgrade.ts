// An upgrade without a pause: the program and its next version, as processes, side by side on one PostgreSQL database under load, through
// every part of a change of the schema. Nothing that is asked is lost, and no reader has a gap.
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { beginCommand, type Child, command, commandOf, startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { GATE, INDEX, nextVersion } from '../fixtures/next-version.ts'
import { POSTGRES_STEPS } from '../fixtures/old-schema.ts'
import { onOther } from '../fixtures/pair.ts'
import { sized } from '../fixtures/size.ts'
import { differenceOf } from '../fixtures/torture.ts'

const THREADS = sized(6000, 1_000_000)
const BESIDE_MS = sized(2500, 60_000)
const LOOPS = sized(3, 6)
/** Here the backfill is held, and killed: behind half of the rows. */
const HELD = THREADS / 2
const OURS = POSTGRES_STEPS.at(-1)!.version

/** People who write, read along elsewhere, rename and search, whichever processes there are. */
class Load {
  readonly problems: string[] = []
  rounds = 0
  #people: readonly Person[]
  #isOver = false
  readonly #loops: Promise<void>[]

  constructor(people: readonly Person[]) {
    this.#people = people
    this.#loops = Array.from({ length: LOOPS }, (_, no) => this.#loop(no))
  }

  /** From now on these processes are asked; resolves when nobody is at another one. */
  async move(people: readonly Person[]): Promise<void> {
    this.#people = people
    await this.more(2)
  }

  /** Resolves when each has done so many rounds more. */
  async more(rounds: number): Promise<void> {
    const enough = this.rounds + LOOPS * rounds
    await until(() => this.rounds >= enough || this.problems.length > 0, 'rounds of the load', 120_000)
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
  }

  async #loop(no: number): Promise<void> {
    for (let round = no; !this.#isOver; round++) {
      const people = this.#people
      const [one, other] = [people[round % people.length]!, people[(round + 1) % people.length]!]
      await converse(one, other, `${no}-${round}`).catch((error: unknown) => this.problems.push(String(error)))
      this.rounds++
    }
  }
}

async function converse(one: Person, other: Person, name: string): Promise<void> {
  const threadId = await one.thread()
  const stream = await one.stream(threadId, '/demo deltas=24 rate=60', { stream_mode: ['values', 'messages-tuple'] })
  await stream.untilFrames(8)
  const seen = stream.frames.slice()
  const reader = await other.join(stream.runPath, stream.lastId)
  await stream.whole()
  const all = [...seen, ...(await reader.whole())]
  const whole = await (await other.join(stream.runPath)).whole()
  const wrong = differenceOf(stream.frames, whole) ?? differenceOf(all, whole)
  if (wrong) throw new Error(`a reader of ${stream.runPath}: ${wrong}`)
  const path = `/api/threads/${threadId}`
  const changed = await one.post(`${path}/state`, { values: { title: name } })
  if (changed.status !== 200) throw new Error(`a title was refused: ${changed.status} ${changed.text}`)
  const found = await other.post('/api/threads/search', { ids: [threadId] })
  if (textIn(found.body, 0, 'values', 'title') !== name)
    throw new Error(`${other.url} does not know ${name}: ${found.text}`)
  const history = await other.post(`${path}/history`, { limit: 1 })
  if (listIn(history.body).length !== 1) throw new Error(`no history of ${threadId}: ${history.text}`)
}

interface Plan {
  readonly schema: number
  readonly steps: readonly { readonly rows: number | null }[]
  readonly processes: readonly object[]
}

async function planOf(program: string, home: string): Promise<Plan> {
  const { code, out, errors } = await commandOf(program, home, 'migrate', '--plan', '--json')
  if (code !== 0) throw new Error(errors)
  return JSON.parse(out) as Plan
}

t.test('old and new go on side by side while a schema is expanded, filled and contracted', async (t) => {
  const next = nextVersion(t, `t${String(HELD).padStart(8, '0')}`)
  const database = await databaseSection(t, 'postgres')
  const line = await lineTo(t, database.postgres_url!)
  await line.rows('SET statement_timeout = 0')
  await line.rows(
    `INSERT INTO threads_meta (thread_id, display_name, created_at, updated_at)
     SELECT 't' || lpad(n::text, 8, '0'), 'name ' || n, now(), now() FROM generate_series(1, $1::integer) AS n`,
    [THREADS]
  )
  const home = homeOf(t)
  const config = { database, memory: { enabled: false }, title: { enabled: false }, runs: { lease_ms: 3000 } }
  const old = await startChild(t, { home, config })
  const onOld = await signIn(old)
  const load = new Load([onOld])
  t.teardown(() => load.stop())

  // What is to be done is said before it is done.
  const before = await planOf(next.program, home)
  t.match(before, {
    schema: OURS,
    program: next.schema,
    min_writer: OURS,
    steps: [
      { version: next.schema, phase: 'expand', stop: false },
      { version: next.schema, phase: 'indexes', stop: false },
      { version: next.schema, phase: 'backfill', stop: false },
      { version: next.schema, phase: 'contract', stop: true }
    ],
    processes: [{ schema: OURS, count: 1 }]
  })
  t.ok((before.steps[2]?.rows ?? 0) >= THREADS * 0.9, 'with about how many rows')

  // It is killed with some of the rows filled.
  const holder = await lineTo(t, database.postgres_url!)
  await holder.rows('SELECT pg_advisory_lock($1)::text', [GATE])
  const first = beginCommand(next.program, home, 'migrate', '--apply')
  const closed = once(first, 'close')
  await until(async () => (await filled(line)) >= HELD / 3, 'some of the rows', 600_000, 50)
  first.kill('SIGKILL')
  await closed
  await holder.rows('SELECT pg_advisory_unlock($1)', [GATE])
  const reached = await filled(line)
  t.ok(reached > 0 && reached < THREADS, `${reached} of ${THREADS} rows were filled`)
  t.strictSame(load.problems, [])

  // The older version opens it meanwhile, and waits for nothing.
  const asked = await command(home, 'user', 'list', '--json')
  t.match(asked, { code: 0, out: /person-/ }, asked.errors)
  // As if it had been killed in the middle of that too.
  await line.rows(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = '${INDEX}'::regclass`)
  const second = await commandOf(next.program, home, 'migrate', '--apply', '--json')
  t.equal(second.code, 0, second.errors)
  const progress = second.errors
    .split('\n')
    .flatMap((text) => (text.startsWith('{') ? [JSON.parse(text) as Progress] : []))
  const backfill = progress.filter(({ phase }) => phase === 'backfill')
  t.ok((backfill[0]?.rows ?? 0) >= reached, `it has gone on at ${backfill[0]?.rows}`)
  t.ok((backfill.at(-1)?.rows ?? 0) >= THREADS, 'and says how far it is until it is done')
  t.notOk(
    progress.some(({ phase }) => phase === 'expand'),
    'what was done is not done again'
  )
  t.match(await planOf(next.program, home), { schema: next.schema, steps: [{ phase: 'contract' }] })
  t.strictSame(await line.rows(`SELECT 1 FROM pg_index WHERE NOT indisvalid AND indexrelid = '${INDEX}'::regclass`), [])
  t.strictSame(await line.rows('SELECT 1 FROM threads_meta WHERE shown_name IS DISTINCT FROM display_name LIMIT 1'), [])

  // Side by side.
  const newer = await startChild(t, { home, config, program: next.program })
  const onNew = onOther(onOld, newer)
  await load.move([onOld, onNew])
  const begun = load.rounds
  await new Promise((resolve) => setTimeout(resolve, BESIDE_MS))
  await load.more(2)
  t.strictSame(load.problems, [])
  t.comment(`${load.rounds - begun} rounds of old and new side by side`)
  const refused = await commandOf(next.program, home, 'migrate', '--contract')
  t.match(refused, {
    code: 1,
    errors: new RegExp(`what 1 process of an older version \\(schema ${OURS}\\) still needs`)
  })
  await load.more(1)
  t.strictSame(load.problems, [], 'who was to be taken its tables goes on')

  // Then the old one leaves, and its form after it.
  await load.move([onNew])
  await old.stop()
  t.match(await commandOf(next.program, home, 'migrate', '--contract', '--json'), {
    code: 0,
    out: `{"contracted":[${next.schema}]}\n`
  })
  await load.more(2)
  await load.stop()
  t.strictSame(load.problems, [])
  t.match(await command(home, 'user', 'list'), {
    code: 1,
    errors: /schema version \d+, this program knows versions up to/
  })
  await checkAll(t, newer, onNew)
})

interface Progress {
  readonly phase: string
  readonly rows?: number
}

async function lineTo(t: Test, url: string): Promise<PgConnection> {
  const line = await PgConnection.open(url)
  t.teardown(() => line.close())
  return line
}

/** Rows that the backfill has behind it, as its step says. */
async function filled(line: PgConnection): Promise<number> {
  const sql = `SELECT backfill FROM migrations WHERE version > ${OURS} AND backfill IS NOT NULL`
  const [row] = await line.rows<{ backfill: string }>(sql)
  return row ? Number(at(JSON.parse(row.backfill), 'rows')) : 0
}

/** Nothing that was written before the change is gone for who comes after it. */
async function checkAll(t: Test, { log }: Child, person: Person): Promise<void> {
  const { body } = await person.post('/api/threads/search', { limit: 100 })
  const mine = listIn(body).filter((thread) => !textIn(thread, 'thread_id').startsWith('t0'))
  t.ok(mine.length > 0)
  for (const thread of mine) t.match(thread, { values: { title: /^\d+-\d+$/ } })
  t.notMatch(log, /"level":(50|60)|"level":"(error|fatal)"/)
}
