// Obligations of JobReads and the ops of jobs: what is to be done at some time, by one process of many, whatever crashes.
import type { Test } from 'tap'
import {
  type Job,
  JOB_PAYLOAD_MAX,
  type NewJob,
  type OpOf,
  type Store,
  type ThreadQuery
} from '../../lib/store/store.ts'
import { JOB_KINDS, type JobKind } from '../../lib/base/types.ts'
import {
  addEndedRun,
  addRun,
  addThread,
  apply,
  aSettlement,
  durableRules,
  type Open,
  refuses,
  rules,
  skipped,
  time,
  write
} from './harness.ts'

const HOUR_MS = 3_600_000
const OWNER = 'one'
const QUERIES: readonly Partial<ThreadQuery>[] = [
  {},
  { metadata: { a: 1 } },
  { metadata: { b: 2 } },
  { ids: ['temporary'] },
  { status: 'idle' }
]

export const aJob = (key: string, set: Partial<NewJob> = {}): NewJob => ({
  kind: 'webhook',
  key,
  user_id: 'ann',
  thread_id: null,
  due: 0,
  payload: '{}',
  ...set
})

const put = (store: Store, job: NewJob) => write(store, { name: 'job.put', job })
const claim = (
  store: Store,
  { owner = OWNER, limit = 100, perUser = 100, kinds = JOB_KINDS as readonly JobKind[] } = {}
) => write(store, { name: 'job.claim', owner, limit, perUser, kinds })
const keysOf = (jobs: readonly Job[]) => jobs.map(({ key }) => key).toSorted()
const dueIn = (store: Store, { owner = OWNER, perUser = 100, kinds = JOB_KINDS as readonly JobKind[] } = {}) =>
  store.jobs.dueIn({ owner, perUser, kinds })

function finish({ kind, key, thread_id, owner }: Job, again: OpOf<'job.finish'>['again'] = null): OpOf<'job.finish'> {
  return { name: 'job.finish', kind, key, thread_id, owner: owner ?? '', again }
}

export function jobStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)

  test('a job comes back field for field, and a second one of its kind and key takes its place', async (t, store) => {
    const { thread_id } = await addThread(store)
    const job = aJob('a', { thread_id, due: time(5), payload: '{"ü":"\\u0000"}' })
    t.equal(await store.jobs.get('webhook', 'a'), null)
    await put(store, job)
    const { due, ...same } = job
    t.strictSame(await store.jobs.get('webhook', 'a'), {
      ...same,
      due_at: due,
      attempts: 0,
      last_error: null,
      owner: null
    })
    await put(store, { ...job, kind: 'turn' })
    const [claimed] = await claim(store, { kinds: ['webhook'] })
    t.match(claimed, { attempts: 1, owner: OWNER })
    await put(store, { ...job, due: time(9), payload: '{}' })
    t.match(await store.jobs.get('webhook', 'a'), { due_at: time(9), payload: '{}', attempts: 0, owner: null })
    t.equal((await store.jobs.list({ limit: 9, offset: 0 })).length, 2)
    t.equal((await store.jobs.ofThread(thread_id)).length, 2)
    t.equal((await store.jobs.list({ limit: 9, offset: 1 })).length, 1)
  })

  test('a job whose payload is too long is refused, and one of a thread that is gone', async (t, store) => {
    await refuses(t, store, { name: 'job.put', job: aJob('a', { payload: 'x'.repeat(JOB_PAYLOAD_MAX + 1) }) }, 'length')
    await put(store, aJob('a', { payload: 'x'.repeat(JOB_PAYLOAD_MAX) }))
    await refuses(t, store, { name: 'job.put', job: aJob('b', { thread_id: 'gone' }) }, 'thread')
  })

  test('a job is claimed when it is due by the clock of the database, by one who asks', async (t, store) => {
    await put(store, aJob('soon', { due: HOUR_MS }))
    t.strictSame(await claim(store), [])
    const ms = await dueIn(store)
    t.ok(ms !== null && ms > HOUR_MS - 600_000 && ms <= HOUR_MS, String(ms))
    t.equal(await dueIn(store, { kinds: ['turn'] }), null, 'of other kinds there is none')
    await put(store, aJob('now'))
    t.equal(await dueIn(store), 0)
    t.strictSame(await claim(store, { kinds: ['turn'] }), [])
    t.match(await claim(store), [{ key: 'now', attempts: 1, owner: OWNER }])
    t.strictSame(await claim(store), [], 'somebody is at it')
    t.ok((await dueIn(store))! > 0)
    t.ok(Math.abs(Date.parse(await store.jobs.now()) - Date.now()) < HOUR_MS)
  })

  test('those that are due first are claimed first, as many as are asked for', async (t, store) => {
    for (const [key, second] of [
      ['c', 3],
      ['a', 1],
      ['b', 2]
    ] as const)
      await put(store, aJob(key, { due: time(second) }))
    t.strictSame(keysOf(await claim(store, { limit: 2 })), ['a', 'b'])
    t.strictSame(keysOf(await claim(store, { limit: 2 })), ['c'])
  })

  test('a user has at most so many in progress, whoever has more due; nobody is held up by that', async (t, store) => {
    for (let n = 0; n < 150; n++) await put(store, aJob(`ann-${n}`, { due: time(1) }))
    await put(store, aJob('bob', { user_id: 'bob', due: time(2) }))
    await put(store, aJob('nobody', { user_id: null, due: time(2) }))
    const first = await claim(store, { perUser: 2 })
    t.strictSame(first.map(({ user_id }) => String(user_id)).toSorted(), ['ann', 'ann', 'bob', 'null'])
    t.strictSame(await claim(store, { perUser: 2 }), [])
    t.equal(await dueIn(store, { perUser: 2 }), null, 'none that a claim would give')
    await apply(store, [finish(first.find(({ user_id }) => user_id === 'ann')!)])
    t.equal((await claim(store, { perUser: 2 })).length, 1)
  })

  test('a claim is ended by its owner, in one group with what it has done, and by nobody else', async (t, store) => {
    const { thread_id } = await addThread(store)
    await put(store, aJob('a'))
    const [job] = await claim(store)
    const removal = { name: 'thread.remove', thread_id, user: null } as const
    const [late] = await apply(store, [removal, finish({ ...job!, owner: 'two' })])
    t.match(late, { ok: false })
    t.ok(await store.threads.get(thread_id, null), 'nothing of its group is written')
    const again = { due: HOUR_MS, error: 'it answered 503' }
    t.match(await apply(store, [finish(job!, again)]), [{ ok: true }])
    t.match(await store.jobs.get('webhook', 'a'), { attempts: 1, last_error: 'it answered 503', owner: null })
    t.strictSame(await claim(store), [], 'it is due later')
    t.match(await apply(store, [finish(job!)]), [{ ok: false }], 'once')
    await put(store, aJob('a'))
    const [next] = await claim(store)
    await apply(store, [finish(next!)])
    t.equal(await store.jobs.get('webhook', 'a'), null)
  })

  test('who is at a job that is set anew meanwhile is late', async (t, store) => {
    await put(store, aJob('a'))
    const [job] = await claim(store)
    const change = { name: 'job.change', kind: 'webhook', key: 'a', thread_id: null } as const
    t.equal(await write(store, { ...change, payload: '{"b":1}' }), true)
    t.match(await store.jobs.get('webhook', 'a'), { payload: '{"b":1}', owner: OWNER }, 'a payload may change')
    t.equal(await write(store, { ...change, due: HOUR_MS }), true)
    t.match(await apply(store, [finish(job!)]), [{ ok: false }])
    t.strictSame(await claim(store), [])
    t.equal(await write(store, { ...change, key: 'b', due: 0 }), false, 'there is none')
    t.equal(await store.jobs.get('webhook', 'b'), null)
    t.equal(await write(store, { name: 'job.remove', kind: 'webhook', key: 'a', thread_id: null }), true)
    t.equal(await write(store, { name: 'job.remove', kind: 'webhook', key: 'a', thread_id: null }), false)
  })

  test('a dead job is claimed by nobody until it is due again, and is counted', async (t, store) => {
    await put(store, aJob('a'))
    await put(store, aJob('b', { due: HOUR_MS }))
    const [job] = await claim(store)
    await apply(store, [finish(job!, { due: null, error: 'no' })])
    t.strictSame(await claim(store), [])
    t.match(await store.jobs.list({ isDead: true, limit: 9, offset: 0 }), [
      { key: 'a', due_at: null, last_error: 'no' }
    ])
    t.strictSame(keysOf(await store.jobs.list({ limit: 1, offset: 1 })), ['a'], 'the dead ones last')
    t.strictSame(
      (await store.jobs.counts()).toSorted((one, other) => Number(one.is_dead) - Number(other.is_dead)),
      [
        { kind: 'webhook', is_dead: false, jobs: 1 },
        { kind: 'webhook', is_dead: true, jobs: 1 }
      ]
    )
    await write(store, { name: 'job.change', kind: 'webhook', key: 'a', thread_id: null, due: 0 })
    t.match(await claim(store), [{ key: 'a', attempts: 1 }], 'its attempts are counted anew')
  })

  test('attempts that are not counted begin anew', async (t, store) => {
    await put(store, aJob('a'))
    const [job] = await claim(store)
    await apply(store, [finish(job!, { due: 0, error: null, isUncounted: true })])
    t.match(await claim(store), [{ attempts: 1 }])
  })

  test('the end of a run makes its jobs, once, and with it', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const jobs = [aJob(run.run_id, { thread_id })]
    await write(store, aSettlement(run, { jobs }))
    t.match(await store.jobs.get('webhook', run.run_id), { thread_id })
    await write(store, { name: 'job.remove', kind: 'webhook', key: run.run_id, thread_id })
    t.equal(await write(store, aSettlement(run, { jobs })), false, 'it has ended already')
    t.equal(await store.jobs.get('webhook', run.run_id), null)
  })

  test('of the jobs of a removed thread only webhooks stay; its creation makes its removal', async (t, store) => {
    const removal = aJob('t', { kind: 'removal', thread_id: 't', due: HOUR_MS })
    await addThread(store, { thread_id: 't' })
    for (const kind of JOB_KINDS) await put(store, { ...removal, kind })
    await write(store, { name: 'thread.remove', thread_id: 't', user: null })
    t.strictSame(
      (await store.jobs.ofThread('t')).map(({ kind }) => kind),
      ['webhook']
    )
  })

  test('the job for what is no row is made by the removal of a thread, and by none that removes nothing', async (t, store) => {
    await addThread(store, { thread_id: 't' })
    const files = aJob('t', { kind: 'removal', due: HOUR_MS })
    await put(store, { ...files, thread_id: 't', payload: '{"minutes":5}' })
    t.equal(await write(store, { name: 'thread.remove', thread_id: 't', user: 'ben', files }), false)
    t.match(await store.jobs.get('removal', 't'), { thread_id: 't' })
    t.equal(await write(store, { name: 'thread.remove', thread_id: 't', user: 'ann', files }), true)
    t.match(await store.jobs.get('removal', 't'), { thread_id: null, payload: '{}' })
    t.equal(await write(store, { name: 'job.remove', kind: 'removal', key: 't', thread_id: null }), true)
  })

  test('a dead job goes with its thread, and one that dies when its thread is gone goes at once', async (t, store) => {
    await addThread(store, { thread_id: 't' })
    for (const key of ['dead', 'late']) await put(store, aJob(key, { thread_id: 't' }))
    const claimed = await claim(store)
    const [dead, late] = ['dead', 'late'].map((key) => claimed.find((job) => job.key === key)!)
    const end = { due: null, error: 'no' }
    await apply(store, [finish(dead!, end)])
    t.match(
      await store.jobs.get('webhook', 'dead'),
      { due_at: null },
      'while the thread is there an operator may retry it'
    )
    await write(store, { name: 'thread.remove', thread_id: 't', user: null })
    t.strictSame(keysOf(await store.jobs.ofThread('t')), ['late'])
    t.match(await apply(store, [finish(late!, end)]), [{ ok: true }])
    t.strictSame(await store.jobs.ofThread('t'), [])
  })

  test('a thread is removed by its job only while no run of it is in flight', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const removal = { name: 'thread.remove', thread_id, user: null, ifIdle: true } as const
    await refuses(t, store, removal, 'a run is in flight')
    await write(store, aSettlement(run))
    t.equal(await write(store, removal), true)
  })

  test('a thread that is made for one run is in no search, and its removal is a job of its creation', async (t, store) => {
    const { thread_id } = await addThread(store)
    const temporary = { ...(await store.threads.get(thread_id, null))!, thread_id: 'temporary', metadata: { a: 1 } }
    const checkpoint = {
      thread_id: 'temporary',
      checkpoint_id: 'c',
      parent_checkpoint_id: null,
      run_id: null,
      created_at: time(0),
      metadata: { source: 'input', step: -1, writes: null, parents: {} },
      next: [],
      messages: [],
      channels: {},
      bodies: []
    } as const
    const removal = aJob('temporary', { kind: 'removal', thread_id: 'temporary', due: HOUR_MS })
    await write(store, { name: 'thread.create', thread: temporary, checkpoint, isTemporary: true, removal })
    t.match(await store.jobs.get('removal', 'temporary'), { thread_id: 'temporary' })
    await write(store, { name: 'thread.patch', thread_id: 'temporary', metadata: { b: 2 }, user: null, now: time(1) })
    for (const user of ['ann', null])
      for (const query of QUERIES) {
        const found = await store.threads.search({ limit: 9, offset: 0, ...query }, user)
        t.notOk(
          found.threads.some((one) => one.thread_id === 'temporary'),
          JSON.stringify(query)
        )
        t.equal(found.total, found.threads.length)
      }
    t.match(await store.threads.get('temporary', 'ann'), { metadata: { a: 1, b: 2 } }, 'it is there')
    await addEndedRun(store, 'temporary')
  })

  t.test('of two processes one is given each job, and that of one that is gone is free [Store 10]', async (t) => {
    const opened = await open()
    t.teardown(() => opened.close())
    if (!opened.beside) return skipped(t, 'this store has one process')
    const { store } = opened
    const other = await opened.beside()
    for (let n = 0; n < 20; n++) await put(store, aJob(`job-${n}`))
    const owners = [store.peers!.id, other.peers!.id] as const
    const claimed: Job[] = []
    for (let n = 0; n < 20 && claimed.length < 20; n++) {
      const both = await Promise.all([
        claim(store, { owner: owners[0], limit: 3 }),
        claim(other, { owner: owners[1], limit: 3 })
      ])
      claimed.push(...both.flat())
    }
    t.equal(new Set(keysOf(claimed)).size, 20)
    t.equal(claimed.length, 20)
    const theirs = claimed.filter(({ owner }) => owner === owners[1]).length
    t.strictSame(await claim(store, { owner: owners[0] }), [], 'both are alive')
    await other.close()
    t.equal((await claim(store, { owner: owners[0] })).length, theirs)
  })

  durable('jobs survive a restart, also one that somebody was at', async (t, store, reopen) => {
    await put(store, aJob('a'))
    await claim(store)
    const again = await reopen()
    t.match(await claim(again, { owner: 'two' }), [{ key: 'a', attempts: 2, owner: 'two' }])
  })
}
