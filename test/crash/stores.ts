// Killed at any moment of a write load, twenty times over: what the promises of lib/store/store.ts say is there afterwards.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import type { Store } from '../../lib/store/store.ts'
import type { RunEvent } from '../../lib/base/types.ts'
import { addRun, someEvents, write, messageCount } from '../contract/harness.ts'
import { databaseSection } from '../fixtures/backends.ts'
import { EVENTS, openBoth, type Place, SHARED, STEPS } from '../fixtures/store-load.ts'
import { sized } from '../fixtures/size.ts'
import { until } from '../fixtures/until.ts'

const KILLS = sized(7, 20)
/** Steps that a life tells of before the moment of its kill is drawn. */
const STEPS_MIN = 4
/** The kill comes within this time of the first write, in ms: a life is some conversations long. */
const LIFE_MS_MAX = { sqlite: 250, postgres: 600 } as const
const PROGRAM = fileURLToPath(new URL('../fixtures/store-load.js', import.meta.url))

/** What a life was answered before it was killed. */
interface Life {
  /** The last step of each conversation. */
  readonly steps: Map<string, number>
  readonly removed: Set<string>
  readonly runId: string
  readonly warnings: string[]
  /** The last step of its run on the shared thread. */
  shared: number
}

async function live({ home, backend, postgresUrl }: Place, number: number): Promise<Life> {
  const url = postgresUrl === null ? [] : [postgresUrl]
  const lifeMsMax = LIFE_MS_MAX[postgresUrl === null ? 'sqlite' : 'postgres']
  const child = spawn(process.execPath, [PROGRAM, home, backend, String(number), ...url], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let out = ''
  let isMarked = false
  child.stdout.on('data', (bytes) => {
    out += String(bytes)
    // However slow the machine is, a life has something to lose when it ends.
    if (isMarked || out.split('\nstep ').length <= STEPS_MIN) return
    isMarked = true
    setTimeout(() => child.kill('SIGKILL'), Math.random() * lifeMsMax)
  })
  const [, signal] = await once(child, 'close')
  if (signal !== 'SIGKILL') throw new Error(`the load ended by itself: ${out.slice(-500)}`)
  const life: Life = { steps: new Map(), removed: new Set(), runId: `shared-${number}`, warnings: [], shared: -1 }
  for (const line of out.split('\n').slice(0, -1)) {
    const [what, id = '', step] = line.split(' ')
    if (what === 'step') life.steps.set(id, Number(step))
    if (what === 'removed') life.removed.add(id)
    if (what === 'shared') life.shared = Number(step)
    if (what === 'warned') life.warnings.push(line.slice(7))
  }
  return life
}

/** What a life had sent before it was killed may be committed behind it. */
async function commitsAreOver(url: string): Promise<void> {
  const line = await PgConnection.open(url)
  const sql = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`
  await until(async () => (await line.rows(sql)).length === 0, 'the connections of the life that was killed are gone')
  await line.close()
}

function stepsIn(events: readonly RunEvent[]): number[] {
  return events.map(({ content }) => (content as { step: number }).step) // as the load wrote it
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index)
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** What is broken of the promises, each with its number. */
class Findings {
  readonly store: Store
  readonly home: string
  /** False: a kill takes seqs with it, those of lines that it came upon before their commit. */
  readonly isDense: boolean
  readonly wrong: string[] = []

  constructor(store: Store, home: string, isDense: boolean) {
    this.store = store
    this.home = home
    this.isDense = isDense
  }

  check(isRight: boolean, promise: number, what: string): void {
    if (!isRight) this.wrong.push(`[Store ${promise}] ${what}`)
  }

  /** A conversation that may be in any of its steps, or removed. */
  async conversation(threadId: string, answered: number, isRemoved: boolean): Promise<void> {
    const { store } = this
    const runId = threadId.replace('t-', 'r-')
    const thread = await store.threads.get(threadId, null)
    const events = await store.events.listEvents(threadId, runId, { limit: 999 }, null)
    const run = await store.runs.get(runId, null)
    if (!thread) {
      this.check(isRemoved || answered >= STEPS - 1 || answered < 0, 3, `${threadId} was answered to step ${answered}`)
      this.check(events.length === 0 && run === null, 8, `${threadId} is gone, and something of it is not`)
      this.check(!existsSync(join(this.home, 'threads', threadId)), 8, `${threadId} left a folder`)
      return
    }
    this.check(!isRemoved, 3, `${threadId} was removed and is there`)
    const step = Number(thread.metadata.step)
    this.check(step >= answered, 3, `${threadId} was answered to step ${answered} and is at ${step}`)
    const expected = upTo((step + 1) * EVENTS)
    this.check(
      isSame(
        stepsIn(events),
        expected.map((k) => Math.floor(k / EVENTS))
      ),
      2,
      `${threadId}: events of other steps than ${step}`
    )
    this.check(
      isSame(
        events.map(({ seq }) => seq),
        expected.map((k) => k + 1)
      ),
      5,
      `${threadId}: seqs are not dense`
    )
    this.check((await store.events.nextSeq(threadId)) === expected.length + 1, 5, `${threadId}: its counter`)
    const bounds = run && (await store.frames.bounds(run.key))
    this.check((bounds?.last ?? 0) === step, 2, `${threadId}: the last frame is ${bounds?.last}, the step ${step}`)
    const isOver = step === STEPS - 1
    this.check(
      run?.status === (isOver ? 'success' : 'running'),
      2,
      `${threadId}: its run is ${run?.status} at step ${step}`
    )
    const newest = await store.checkpoints.load(threadId, null)
    this.check(newest?.messageBodies.length === (isOver ? 1 : 0), 2, `${threadId}: its checkpoint`)
  }

  /** The thread of all lives: what each was answered is there, and no seq is missing or given twice. */
  async shared(lives: readonly Life[]): Promise<void> {
    const seqs: number[] = []
    for (const { runId, shared } of lives) {
      const events = await this.store.events.listEvents(SHARED, runId, { limit: 1e6 }, null)
      const steps = Math.floor(events.length / EVENTS)
      this.check(steps > shared, 3, `${runId} was answered to step ${shared} and has ${steps}`)
      const expected = upTo(steps * EVENTS).map((k) => Math.floor(k / EVENTS))
      this.check(isSame(stepsIn(events), expected), 2, `${runId}: a part of a step`)
      for (const { seq } of events) seqs.push(seq)
    }
    seqs.sort((left, right) => left - right)
    this.check(
      seqs.every((seq, index) => (this.isDense ? seq === index + 1 : seq > (seqs[index - 1] ?? 0))),
      5,
      'the seqs of the shared thread are not dense, or not unique'
    )
    this.check(
      (await this.store.events.nextSeq(SHARED)) === (seqs.at(-1) ?? 0) + 1,
      5,
      'the counter of the shared thread'
    )
  }
}

for (const [database, backend] of [
  ['sqlite', 'db'],
  ['sqlite', 'jsonl'],
  ['postgres', 'db'],
  ['postgres', 'jsonl']
] as const) {
  t.test(
    `${database} with events in ${backend}: killed ${KILLS} times, every promise holds`,
    { timeout: 170_000 },
    async (t) => {
      const home = mkdtempSync(join(tmpdir(), 'colloquy-crash-'))
      t.teardown(() => rmSync(home, { recursive: true, force: true }))
      const { postgres_url = null } = await databaseSection(t, database)
      const place = { home, backend, postgresUrl: postgres_url }
      const lives: Life[] = []
      const warned = new Map<string, number>()
      const warn = (_: object, text: string) => void warned.set(text, (warned.get(text) ?? 0) + 1)
      const wrong: string[] = []
      const settled = new Map<string, string>()
      for (let number = 0; number < KILLS; number++) {
        const life = await live(place, number)
        lives.push(life)
        for (const text of life.warnings) warn({}, text)
        if (postgres_url !== null) await commitsAreOver(postgres_url)
        const store = await openBoth(place, warn)
        const findings = new Findings(store, home, backend === 'db')
        // Also the one that had begun and was never answered.
        const ids = new Set([...life.steps.keys(), ...upTo(life.steps.size + 9).map((n) => `t-${number}-${n}`)])
        for (const id of ids) {
          if (!life.steps.has(id) && !(await store.threads.get(id, null))) continue
          await findings.conversation(id, life.steps.get(id) ?? -1, life.removed.has(id))
          const run = await store.runs.get(id.replace('t-', 'r-'), null)
          if (run?.status === 'success') settled.set(run.run_id, run.updated_at)
        }
        await findings.shared(lives)
        wrong.push(...findings.wrong.map((text) => `life ${number}: ${text}`))
        await store.close()
      }
      t.strictSame(wrong.slice(0, 10), [])

      const store = await openBoth(place, () => {})
      for (const [runId, updatedAt] of settled) {
        const run = await store.runs.get(runId, null)
        if (run?.status !== 'success' || run.updated_at !== updatedAt)
          wrong.push(`[Store 7] ${runId} is ${run?.status}`)
      }
      const done = lives.reduce((sum, { steps }) => sum + steps.size, 0)
      t.ok(done >= KILLS, `${done} conversations were under way`)
      t.comment(`${done} conversations, ${settled.size} ended, warnings: ${JSON.stringify([...warned])}`)

      // And life goes on: a removed thread made anew, and another run on the shared one.
      const removed = [...lives.at(-1)!.removed, 't-anew'][0]!
      const before = await store.events.nextSeq(SHARED)
      const run = await addRun(store, SHARED)
      const append = { name: 'events.append', thread_id: SHARED, run_id: run.run_id, user_id: 'ann' } as const
      const first = await write(store, { ...append, events: someEvents(0, 2) })
      // Lines that a kill came upon before their commit are set aside, and their seqs with them.
      t.ok(backend === 'jsonl' ? first >= before! : first === before, `${first} follows ${before}`)
      t.equal(await messageCount(store, removed, null), 0)
      await store.close()
      if (backend === 'jsonl') {
        const lines = readFileSync(join(home, 'threads', SHARED, 'runs', `${run.run_id}.jsonl`), 'utf8').split('\n')
        t.equal(lines.length, 3)
      }
      t.strictSame(wrong, [])
    }
  )
}
