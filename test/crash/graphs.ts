// Runs of graphs whose process is killed in the middle of a superstep: what was committed stays, and what goes on goes on from there.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Sqlite } from '../../lib/base/sqlite-driver.ts'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, listIn, type Options, Person, signIn, until } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { startPair } from '../fixtures/pair.ts'

interface Trip {
  readonly child: Child
  readonly config: Options
  readonly person: Person
  readonly thread: string
  readonly runPath: string
  /** Where each step leaves its number when it begins. */
  readonly file: string
  /** Steps that were stored before the cut, at least. */
  readonly stored: number
}

const COUNT = 12

/** A process with graphs, and somebody's thread in it. */
async function begin(t: Test, runs: Options) {
  const folder = graphsFolder(t)
  const config = { agent: { runtime: 'graphs', config: folder }, runs }
  const first = await startChild(t, { config })
  const person = await signIn(first)
  return { folder, config, first, person, thread: await person.thread() }
}

/** A run of twelve supersteps, cut with SIGKILL in one of them, and the next process on what is left. */
async function cut(t: Test, runs: Options, more: object = {}): Promise<Trip> {
  const { folder, config, first, person, thread } = await begin(t, runs)
  const file = join(folder, 'steps')
  const configurable = { count: COUNT, delay: 100, file, ...more }
  const body = {
    assistant_id: 'steps',
    input: { steps: [] },
    config: { configurable },
    stream_mode: ['values', 'custom']
  }
  const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, { body })
  const steps = async () => membersOf(at((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'steps'))
  await until(async () => (await steps()).length >= 4, 'the fourth step to be stored')
  const stored = (await steps()).length
  await first.kill()
  const child = await startChild(t, { config, home: first.home })
  const again = new Person(child.url, person.cookies)
  return { child, config, person: again, thread, runPath: stream.runPath, file, stored }
}

/** Of a state that has none yet. */
function membersOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function readSteps(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').trim().split(' ').filter(Boolean)
  } catch {
    return []
  }
}

const statusOf = async ({ person, runPath }: Trip) => at((await person.get(runPath)).body, 'status')
const stepsIn = async ({ person, thread }: Trip) =>
  listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'steps')
const whole = Array.from({ length: COUNT }, (_, n) => `step ${n}`)

t.test(
  'a run of a graph that a crash has cut ends as error, and its thread goes on from the last committed superstep',
  async (t) => {
    const trip = await cut(t, {})
    t.equal(await statusOf(trip), 'error')
    const kept = await stepsIn(trip)
    t.ok(kept.length >= trip.stored && kept.length < COUNT, `${kept.length} supersteps are kept`)
    t.strictSame(kept, whole.slice(0, kept.length))
    const config = { configurable: { count: COUNT, file: trip.file } }
    const { body } = await trip.person.post(`/api/threads/${trip.thread}/runs/wait`, {
      assistant_id: 'steps',
      input: null,
      config
    })
    t.strictSame(listIn(body, 'steps'), whole)
  }
)

t.test(
  'on_restart resume: a run that a crash has cut goes on by itself, under a new epoch, and ends in success',
  async (t) => {
    const trip = await cut(t, { on_restart: 'resume' })
    const frames = await (await trip.person.join(trip.runPath, null, ['values', 'custom'])).whole()
    t.equal(await statusOf(trip), 'success')
    t.strictSame(await stepsIn(trip), whole, 'the state is that of an uncut run')
    const attempts = frames
      .filter(({ event }) => event === 'metadata')
      .map(({ data }) => at(JSON.parse(data), 'attempt'))
    t.strictSame(attempts, [1, 2])
    const begun = readSteps(trip.file)
    for (let n = 0; n < trip.stored; n++)
      t.equal(begun.filter((step) => step === String(n)).length, 1, `step ${n}, which was stored, is done once`)
    t.strictSame(
      [...new Set(begun)],
      whole.map((_, n) => String(n))
    )
    const events = listIn((await trip.person.get(`${trip.runPath}/events?limit=500`)).body)
    t.match(
      events.filter((one) => at(one, 'event_type') === 'run_restart').map((one) => at(one, 'metadata')),
      [{ attempt: 2 }],
      'the attempt is seen in the run'
    )
    const ids = frames.flatMap(({ id }) => id ?? [])
    t.equal(new Set(ids).size, ids.length)
  }
)

t.test(
  'on_restart resume: another process goes on with the runs of one that has died, when it takes them over',
  async (t) => {
    const folder = graphsFolder(t)
    const config = { agent: { runtime: 'graphs', config: folder }, runs: { lease_ms: 2000, on_restart: 'resume' } }
    const { a, onA, onB } = await startPair(t, { config })
    const thread = await onA.thread()
    const file = join(folder, 'steps')
    const body = {
      assistant_id: 'steps',
      input: { steps: [] },
      config: { configurable: { count: COUNT, delay: 100, file } }
    }
    const stream = await onA.open('POST', `/api/threads/${thread}/runs/stream`, { body })
    const reader = await onB.join(stream.runPath, null, ['values'])
    await until(() => readSteps(file).length >= 5, 'the fifth step')
    await a.kill()
    // It is told to come back: from then on the run is this process's own.
    await reader.whole().catch(() => {})
    const seen = reader.frames.flatMap(({ id }) => id ?? [])
    const frames = await (await onB.join(stream.runPath, seen.at(-1) ?? null, ['values'])).whole()
    t.notOk(
      frames.some(({ id }) => id !== null && seen.includes(id)),
      'and sees nothing twice'
    )
    t.equal(frames.at(-1)?.event, 'end')
    t.strictSame(listIn(JSON.parse(frames.findLast(({ event }) => event === 'values')!.data), 'steps'), whole)
    t.equal(at((await onB.get(stream.runPath)).body, 'status'), 'success')
  }
)

t.test("a snapshot of another process's graph has its values as they were shown last, each channel once", async (t) => {
  const folder = graphsFolder(t)
  const { onA, onB } = await startPair(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  const thread = await onA.thread()
  const body = {
    assistant_id: 'talk',
    input: { messages: [{ type: 'human', content: 'hello' }] },
    config: { configurable: { delay: 1000, file: join(folder, 'steps') } },
    stream_mode: ['values']
  }
  const stream = await onA.open('POST', `/api/threads/${thread}/runs/stream`, { body })
  const live = await onB.join(stream.runPath, null, ['values'])
  await until(() => live.frames.filter(({ event }) => event === 'values').length >= 2, 'the first turn')
  const seen = live.frames.findLast(({ event }) => event === 'values')!.data
  const reader = await onB.open('GET', `${stream.runPath}/stream?mode=snapshot&stream_mode=values`)
  await reader.untilFrames(1)
  const { data } = reader.frames[0]!
  t.equal(reader.frames[0]!.event, 'snapshot')
  t.ok(data.includes(`"values":${seen},"partial":`), data)
  await onB.post(`${stream.runPath}/cancel`)
  await Promise.all([reader.whole(), live.whole(), stream.whole()])
})

t.test(
  'on_restart resume: a run that takes its process with it each time ends as an error with the third attempt',
  async (t) => {
    const { config, first, person, thread } = await begin(t, { on_restart: 'resume' })
    const body = { assistant_id: 'steps', input: { steps: [] }, config: { configurable: { count: COUNT, die: 3 } } }
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, { body })
    await first.exited
    // The second and the third attempt end their process as well, some time after it has begun to listen.
    for (const _ of [2, 3]) await (await startChild(t, { config, home: first.home })).exited
    const last = await startChild(t, { config, home: first.home })
    const after = new Person(last.url, person.cookies)
    t.match((await after.get(stream.runPath)).body, { status: 'error', stop_reason: 'server_restart' })
    t.strictSame(
      listIn((await after.get(`/api/threads/${thread}/state`)).body, 'values', 'steps'),
      whole.slice(0, 3),
      'what was committed stays'
    )
  }
)

t.test(
  'on_restart resume: each message of a run is among its events once, also when its superstep was stored and they were not',
  async (t) => {
    const { folder, config, first, person, thread } = await begin(t, { on_restart: 'resume' })
    const file = join(folder, 'turns')
    await person.post(`/api/threads/${thread}/runs/wait`, {
      assistant_id: 'texts',
      input: { messages: [{ type: 'human', id: 'earlier', content: 'before' }] }
    })
    const body = {
      assistant_id: 'talk',
      input: {
        messages: [
          { type: 'remove', id: '__remove_all__' },
          { type: 'human', id: 'h', content: 'go' }
        ]
      },
      config: { configurable: { delay: 100, file } }
    }
    const stream = await person.open('POST', `/api/threads/${thread}/runs/stream`, { body })
    const stateOf = async () => (await person.get(`/api/threads/${thread}/state`)).body
    const stored = async () => membersOf(at(await stateOf(), 'values', 'messages'))
    await until(async () => (await stored()).length >= 5, 'the fourth turn to be stored')
    const kept = (await stored()).length - 1
    await first.kill()
    forgetEvents(first.home, stream.runPath.split('/').at(-1)!)
    const child = await startChild(t, { config, home: first.home })
    const again = new Person(child.url, person.cookies)
    await (await again.join(stream.runPath, null, ['values'])).whole()
    const events = listIn((await again.get(`${stream.runPath}/events?limit=500`)).body)
    const messages = events.filter((one) => at(one, 'category') === 'message')
    const wanted = ['h', ...Array.from({ length: 9 }, (_, n) => `m${n}`)]
    t.strictSame(
      messages.map((one) => at(one, 'content', 'id')),
      wanted
    )
    const state = (await again.get(`/api/threads/${thread}/state`)).body
    t.strictSame(
      listIn(state, 'values', 'messages').map((one) => at(one, 'id')),
      wanted,
      'the state is that of an uncut run'
    )
    const turns = readSteps(file)
    for (let n = 0; n < kept; n++)
      t.equal(turns.filter((turn) => turn === String(n)).length, 1, `turn ${n} is done once`)
    t.strictSame(
      [...new Set(turns)],
      Array.from({ length: 9 }, (_, n) => String(n))
    )
  }
)

/** As a crash between two transactions leaves it: of what the run has said, all but the beginning. */
function forgetEvents(home: string, runId: string): void {
  const database = new Sqlite(join(home, 'data', 'colloquy.db'))
  const { changes } = database.prepare('DELETE FROM run_events WHERE run_id = ? AND k > 2').run(runId)
  database.close()
  if (changes < 3) throw new Error(`only ${changes} events were there to be forgotten`)
}
