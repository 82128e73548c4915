// Two processes on one PostgreSQL: a run goes on whichever of them is asked about it, and whichever of them dies [needs N13].
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { asked, at, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { scripted } from '../fixtures/model.ts'
import { frameTexts, idsOf, startPair, statusOf } from '../fixtures/pair.ts'
import { type Stream, textOf } from '../fixtures/stream.ts'

// Most of it is waiting: for leases, graces and answers at their pace.
t.jobs = 2

const MODES = { stream_mode: ['messages-tuple'] }
const LEASE_MS = 2000
/** Figures are measured on a quiet machine, and asserted with ten times as much. */
const RULE_OF_TEN = 10

t.test('a run of A is read, waited for and cancelled on B', { timeout: 170_000 }, async (t) => {
  const pair = await startPair(t, { leaseMs: LEASE_MS })
  const { onA, onB } = pair

  await t.test('its first frame is on B at once, and what follows follows', async (t) => {
    const figures: number[] = []
    for (let n = 0; n < 5; n++) {
      const thread = await onA.thread()
      const creator = await onA.stream(thread, scripted({ deltas: 40, rate: 100 }), MODES)
      const started = performance.now()
      const reader = await onB.join(creator.runPath, null, ['messages-tuple'])
      await reader.untilFrames(1)
      figures.push(performance.now() - started)
      await reader.whole()
      await creator.whole()
      t.same(frameTexts(reader), frameTexts(creator))
    }
    t.comment(`first frame on B, ms: ${figures.map((ms) => ms.toFixed(0)).join(' ')}`)
    t.ok(Math.min(...figures) < 300 * RULE_OF_TEN)
  })

  await t.test('a cancel on B ends it within a second', async (t) => {
    const figures: number[] = []
    for (let n = 0; n < 3; n++) {
      const thread = await onA.thread()
      const creator = await onA.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
      await creator.untilFrames(5)
      const started = performance.now()
      t.equal((await onB.post(`${creator.runPath}/cancel?wait=true`)).status, 204)
      figures.push(performance.now() - started)
      t.equal(await statusOf(pair, creator.runPath), 'interrupted')
      await creator.whole()
      t.equal((await onB.post(`${creator.runPath}/cancel`)).status, 202, 'a second cancel is as good')
    }
    t.comment(`cancel from B, ms: ${figures.map((ms) => ms.toFixed(0)).join(' ')}`)
    t.ok(Math.min(...figures) < 1000 * RULE_OF_TEN)
    const rolled = await onA.stream(await onA.thread(), scripted({ deltas: 4000, rate: 50 }), MODES)
    await rolled.untilFrames(5)
    t.equal((await onB.post(`${rolled.runPath}/cancel?action=rollback`)).status, 202)
    t.equal(await statusOf(pair, rolled.runPath), 'error')
    const over = await onA.stream(await onA.thread(), scripted({ text: 'over' }), MODES)
    await over.whole()
    t.equal((await onB.post(`${over.runPath}/cancel`)).status, 409)
  })

  await t.test('who waits on B gets the values that it has led to', async (t) => {
    const path = await onA.run(await onA.thread(), scripted({ deltas: 30, rate: 50 }))
    const { body } = await onB.get(`${path}/join`, { headers: { accept: 'application/json' } })
    t.match(textIn(listIn(body, 'messages').at(-1), 'content'), /^d0 d1 .*d29/)
  })

  await t.test('a hundred readers spread over both, joining at any moment, see the same bytes', async (t) => {
    const creator = await onA.stream(await onA.thread(), scripted({ deltas: 300, rate: 100 }), MODES)
    const readers: Stream[] = []
    for (let n = 0; n < 100; n++) {
      readers.push(await (n % 2 ? onA : onB).join(creator.runPath, null, ['messages-tuple']))
      if (n % 10 === 9) await pause(50)
    }
    await creator.whole()
    await Promise.all(readers.map((reader) => reader.whole()))
    const bytes = new Set(readers.map((reader) => reader.bytes.toString().replaceAll(': heartbeat\n', '')))
    t.equal(bytes.size, 1)
    t.equal([...bytes][0], creator.bytes.toString().replaceAll(': heartbeat\n', ''))
    for (const modes of [['messages'], ['values'], ['values', 'messages-tuple']]) {
      const both = await Promise.all([onA.join(creator.runPath, null, modes), onB.join(creator.runPath, null, modes)])
      t.same(await both[0].whole(), await both[1].whole())
    }
  })

  await t.test('a snapshot on B says how the run stands, and only what follows comes after', async (t) => {
    const { runPath } = await onA.stream(await onA.thread(), scripted({ deltas: 10_000, rate: 100 }), MODES)
    const whole = await onB.join(runPath, null, ['messages-tuple'])
    await whole.untilFrames(50)
    const reader = await onB.open('GET', `${runPath}/stream?mode=snapshot&stream_mode=messages-tuple`)
    await reader.untilFrames(50)
    await onB.post(`${runPath}/cancel`)
    const [first, ...rest] = await reader.whole()
    t.equal(first!.event, 'snapshot')
    const partial = textIn(JSON.parse(first!.data), 'partial', 0, 'content')
    await whole.whole()
    t.equal(partial + textOf(rest), textOf(whole.frames))
    t.match(partial, /^d0 d1 d2 /)
    const ids = idsOf(whole.frames)
    t.same(idsOf(rest), ids.slice(ids.indexOf(first!.id!) + 1))
  })

  await t.test('with A held up, a reader that has seen more there waits on B and gets no frame twice', async (t) => {
    const thread = await onA.thread()
    const creator = await onA.stream(thread, scripted({ deltas: 200, rate: 50 }), MODES)
    await creator.untilFrames(10)
    await pair.database.rows('BEGIN')
    await pair.database.rows('SELECT 1 FROM threads_meta WHERE thread_id = $1 FOR UPDATE', [thread])
    const before = creator.frames.length
    await creator.untilFrames(before + 20)
    const seen = creator.lastId!
    const late = await onB.join(creator.runPath, seen, ['messages-tuple'])
    await until(() => late.beats.length > 1, 'signs of life')
    t.equal(late.frames.length, 0, 'it waits')
    await pair.database.rows('ROLLBACK')
    await creator.whole()
    await late.whole()
    const all = idsOf(creator.frames)
    t.same(idsOf(late.frames), all.slice(all.indexOf(seen) + 1))
  })

  await t.test('strategies hold whichever process is asked', async (t) => {
    const slow = scripted({ deltas: 4000, rate: 50 })
    const quick = scripted({ text: 'quick' })
    const thread = await onA.thread()
    const first = await onA.stream(thread, slow, MODES)
    await first.untilFrames(3)
    const refused = await onB.post(`/api/threads/${thread}/runs`, asked(quick, { multitask_strategy: 'reject' }))
    t.equal(refused.status, 409)
    const second = await onB.stream(thread, quick, { ...MODES, multitask_strategy: 'enqueue' })
    const third = await onA.run(thread, slow, { multitask_strategy: 'enqueue' })
    await pause(200)
    t.equal(await statusOf(pair, second.runPath), 'pending')
    await onB.post(`${first.runPath}/cancel`)
    await second.whole()
    t.equal(textOf(second.frames), 'quick')
    await until(async () => (await statusOf(pair, third)) === 'running', 'the third has its turn')
    const fourth = await onB.stream(thread, slow, { ...MODES, multitask_strategy: 'interrupt' })
    await fourth.untilFrames(3)
    t.equal(await statusOf(pair, third), 'interrupted')
    const fifth = await onB.stream(thread, quick, { ...MODES, multitask_strategy: 'rollback' })
    await fifth.whole()
    t.equal(await statusOf(pair, fourth.runPath), 'error')
    t.equal(await statusOf(pair, fifth.runPath), 'success')
    const runs = listIn((await onB.get(`/api/threads/${thread}/runs`)).body).map((run) => at(run, 'status'))
    t.same(runs, ['success', 'error', 'interrupted', 'success', 'interrupted'])
  })

  await t.test('runs queued on either while the one before them ends are streamed to their ends', async (t) => {
    const quick = scripted({ deltas: 2 })
    const queued = { ...MODES, multitask_strategy: 'enqueue' }
    const talk = async () => {
      const thread = await onA.thread()
      const streams: Stream[] = []
      for (let n = 0; n < 6; n++)
        streams.push(...(await Promise.all([onA, onB].map((person) => person.stream(thread, quick, queued)))))
      return Promise.all(streams.map(({ ended }) => ended))
    }
    const endings = (await Promise.all(Array.from({ length: 4 }, talk))).flat()
    t.same(
      endings,
      endings.map(() => 'whole')
    )
  })

  await t.test('one Idempotency-Key on both at once is one run', async (t) => {
    const thread = await onA.thread()
    const body = asked(scripted({ text: 'once' }), { multitask_strategy: 'enqueue' })
    for (let n = 0; n < 5; n++) {
      const headers = { 'idempotency-key': `key-${n}` }
      const both = await Promise.all(
        [onA, onB, onA, onB].map((person) => person.post(`/api/threads/${thread}/runs/wait`, body, { headers }))
      )
      t.same(
        both.map(({ status }) => status),
        [200, 200, 200, 200]
      )
      t.equal(new Set(both.map((answer) => answer.headers.get('content-location'))).size, 1)
    }
    t.equal(listIn((await onB.get(`/api/threads/${thread}/runs`)).body).length, 5)
  })
})

t.test(
  'what one tells the other may get lost: it is told again, and nothing else is',
  { timeout: 170_000 },
  async (t) => {
    const pair = await startPair(t, { leaseMs: LEASE_MS })
    const { onA, onB } = pair
    /** Ends the lines on which the processes listen, again and again, until it is called. */
    const deafen = (): (() => Promise<void>) => {
      let isOver = false
      const sql = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')`
      const work = (async () => {
        while (!isOver) {
          await pair.database.rows(sql)
          await pause(300 + Math.random() * 200)
        }
      })()
      return () => {
        isOver = true
        return work
      }
    }
    const hear = deafen()
    const thread = await onA.thread()
    const creator = await onA.stream(thread, scripted({ deltas: 200, rate: 50 }), MODES)
    const reader = await onB.join(creator.runPath, null, ['messages-tuple'])
    const queued = await onB.stream(thread, scripted({ deltas: 4000, rate: 50 }), {
      ...MODES,
      multitask_strategy: 'enqueue'
    })
    await creator.whole()
    await reader.whole()
    t.same(frameTexts(reader), frameTexts(creator))
    await queued.untilFrames(10)
    const started = performance.now()
    t.equal((await onB.post(`${queued.runPath}/cancel?wait=true`)).status, 204)
    t.comment(`a cancel, with lines that break twice a second, takes ${(performance.now() - started).toFixed(0)} ms`)
    t.equal(await queued.ended, 'whole')
    await hear()
  }
)

t.test('a creator that leaves B ends its run on A, if it asked for that', { timeout: 170_000 }, async (t) => {
  const pair = await startPair(t, {
    leaseMs: LEASE_MS,
    config: { runs: { lease_ms: LEASE_MS, disconnect_grace_ms: 300 } }
  })
  const { onA, onB } = pair
  const slow = scripted({ deltas: 4000, rate: 50 })
  const options = { ...MODES, on_disconnect: 'cancel', multitask_strategy: 'enqueue' }
  const thread = await onA.thread()
  const first = await onA.stream(thread, slow, options)
  const second = await onB.stream(thread, slow, options)
  const third = await onB.stream(thread, slow, options)
  const watching = await onB.join(first.runPath, null, ['messages-tuple'])
  await watching.untilFrames(3)
  first.leave()
  await pause(1000)
  t.equal(await statusOf(pair, first.runPath), 'running', 'somebody watches it on the other process')
  await onB.post(`${first.runPath}/cancel`)
  await second.untilFrames(3)
  second.leave()
  await until(async () => (await statusOf(pair, second.runPath)) === 'interrupted', 'its end')
  const here = await onA.join(third.runPath, null, ['messages-tuple'])
  await here.untilFrames(3)
  third.leave()
  await pause(1000)
  t.equal(await statusOf(pair, third.runPath), 'running', 'somebody watches it where it is')
  await onB.post(`${third.runPath}/cancel`)
})

t.test(
  'who created a run and comes back by joining it, on whichever process, keeps it, and has no right any more to end it',
  { timeout: 170_000 },
  async (t) => {
    const graceMs = 1000
    const pair = await startPair(t, {
      leaseMs: LEASE_MS,
      config: { runs: { lease_ms: LEASE_MS, disconnect_grace_ms: graceMs } }
    })
    const { onA, onB } = pair
    for (const [created, other] of [
      [onA, onB],
      [onB, onA]
    ] as const) {
      const words = scripted({ deltas: 40_000, rate: 50 })
      const creator = await created.stream(await onA.thread(), words, { ...MODES, on_disconnect: 'cancel' })
      await creator.untilFrames(3)
      creator.leave()
      const joined = await other.join(creator.runPath, creator.lastId, ['messages-tuple'])
      await pause(graceMs * 2)
      joined.leave()
      await pause(graceMs * 2)
      t.equal(await statusOf(pair, creator.runPath), 'running', 'the right passes to nobody')
      await created.post(`${creator.runPath}/cancel`)
    }
  }
)

t.test(
  'a creating request that is sent again on the other process renews the grace, and ends the run when it leaves for good',
  { timeout: 170_000 },
  async (t) => {
    const graceMs = 3000
    const pair = await startPair(t, {
      leaseMs: LEASE_MS,
      config: { runs: { lease_ms: LEASE_MS, disconnect_grace_ms: graceMs } }
    })
    const { onA, onB } = pair
    const words = scripted({ deltas: 40_000, rate: 50 })
    const [path, body] = [
      `/api/threads/${await onA.thread()}/runs/stream`,
      asked(words, { ...MODES, on_disconnect: 'cancel' })
    ]
    const create = (person: Person) => person.open('POST', path, { body, headers: { 'idempotency-key': 'once' } })
    let creator = await create(onA)
    await creator.untilFrames(3)
    const left = performance.now()
    for (let n = 0; performance.now() - left < graceMs * 2; n++) {
      creator.leave()
      creator = await create(n % 2 ? onA : onB)
      await creator.untilFrames(20)
    }
    t.equal(await statusOf(pair, creator.runPath), 'running', 'the grace counts from the last departure')
    const gone = performance.now()
    creator.leave()
    await until(async () => (await statusOf(pair, creator.runPath)) === 'interrupted', 'its end')
    t.ok(performance.now() - gone >= graceMs, 'after the whole grace')
  }
)

t.test('a creator that waits on B for its run on A, and goes, ends it too', { timeout: 170_000 }, async (t) => {
  const config = { runs: { lease_ms: LEASE_MS, disconnect_grace_ms: 300 } }
  const pair = await startPair(t, { leaseMs: LEASE_MS, config })
  const { onA, onB } = pair
  const thread = await onA.thread()
  const first = await onA.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
  const options = { on_disconnect: 'cancel', multitask_strategy: 'enqueue' }
  const waiting = await onB.open('POST', `/api/threads/${thread}/runs/wait`, {
    body: asked(scripted({ deltas: 4000, rate: 50 }), options),
    // Theirs get their head at once.
    headers: { 'user-agent': 'langgraph-sdk-js' }
  })
  await onA.post(`${first.runPath}/cancel`)
  await until(async () => (await statusOf(pair, waiting.runPath)) === 'running', 'its turn')
  waiting.leave()
  await until(async () => (await statusOf(pair, waiting.runPath)) === 'interrupted', 'its end')
})

t.test(
  "in a shared thread nobody's strategy on one process ends the run of somebody else on the other",
  { timeout: 170_000 },
  async (t) => {
    const pair = await startPair(t, { leaseMs: LEASE_MS })
    const { onA: ann, onB, database } = pair
    const bob = await signIn(pair.b)
    const thread = await ann.thread()
    await database.rows('UPDATE threads_meta SET user_id = NULL WHERE thread_id = $1', [thread])
    await ann.post(`/api/threads/${thread}/runs/wait`, asked(scripted({ text: 'a success of hers' })))
    let own: unknown = null
    for (const multitask_strategy of ['interrupt', 'rollback']) {
      const anns = await ann.stream(thread, scripted({ deltas: 4000, rate: 50 }), MODES)
      await anns.untilFrames(3)
      t.equal((await bob.post(`${anns.runPath}/cancel`)).status, 404)
      const bobs = await bob.stream(thread, scripted({ text: 'my turn' }), { ...MODES, multitask_strategy })
      const seen = anns.frames.length
      await anns.untilFrames(seen + 30)
      t.equal(await statusOf(pair, anns.runPath), 'running', 'not theirs, not touched')
      t.equal(at((await bob.get(bobs.runPath)).body, 'status'), 'pending', 'it waits')
      t.equal((await onB.post(`${anns.runPath}/cancel?wait=true`)).status, 204, 'who owns it can')
      await bobs.whole()
      const row = (await bob.get(bobs.runPath)).body
      t.strictSame([at(row, 'status'), at(row, 'follow_up_to_run_id')], ['success', own], 'it follows nobody else')
      own = at(row, 'run_id')
    }
  }
)

t.test('a thread that is deleted on B while it runs on A leaves nothing', { timeout: 170_000 }, async (t) => {
  const pair = await startPair(t, { leaseMs: LEASE_MS })
  const { onA, onB } = pair
  const args = JSON.stringify({ path: '/mnt/user-data/outputs/late.txt', content: 'late' })
  for (let n = 0; n < 5; n++) {
    const thread = await onA.thread()
    const calls = Array.from({ length: 200 }, () => [{ name: 'write_file', args }])
    const creator = await onA.stream(thread, scripted({ calls }), MODES)
    await until(
      async () => (await filesOf(pair.home, thread)).some((path) => path.endsWith('late.txt')),
      'it writes files'
    )
    const answer = await onB.ask('DELETE', `/api/threads/${thread}`)
    t.equal(answer.status, 200)
    await creator.ended
    await pause(200)
    t.same(await filesOf(pair.home, thread), [])
    for (const table of ['threads_meta', 'runs', 'run_events', 'checkpoints', 'checkpoint_bodies'])
      t.same(await pair.database.rows(`SELECT 1 FROM ${table} WHERE thread_id = $1`, [thread]), [], table)
    t.same(await pair.database.rows('SELECT 1 FROM frames WHERE run_key NOT IN (SELECT key FROM runs)'), [])
    t.equal((await onA.get(`/api/threads/${thread}`)).status, 404)
    await onB.post('/api/threads', { thread_id: thread })
    t.same((await onA.get(`/api/threads/${thread}/messages`)).body, [], 'the same id made anew is empty')
  }
})

t.test('a sign-out on A ends the streams of B at once', { timeout: 170_000 }, async (t) => {
  // So that it cannot be the patrol.
  const pair = await startPair(t, { config: { streams: { heartbeat_ms: 60_000 } } })
  const { onA, onB } = pair
  const creator = await onA.stream(await onA.thread(), scripted({ deltas: 4000, rate: 20 }), MODES)
  const reader = await onB.join(creator.runPath, null, ['messages-tuple'])
  await reader.untilFrames(2)
  const started = performance.now()
  t.equal((await onA.post('/api/v1/auth/logout')).status, 200)
  // Behind a frame that has not been read yet, libuv tells its reader of a reset as of an end in the middle.
  t.match(await reader.ended, /reset|cut/)
  t.match(await creator.ended, /reset|cut/)
  t.comment(`revoked elsewhere after ${(performance.now() - started).toFixed(0)} ms`)
})

/** Files of a thread, whoever's. */
async function filesOf(home: string, thread: string): Promise<string[]> {
  const users = join(home, 'users')
  if (!existsSync(users)) return []
  return readdirSync(users, { recursive: true, encoding: 'utf8' }).filter((path) => path.includes(thread))
}
