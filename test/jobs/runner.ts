// The runner of jobs: who is asked to do them, how often, and what becomes of one that fails.
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { unlessAborted, withDeadline } from '../../lib/base/waiting.ts'
import { type Done, JobRunner, type JobType } from '../../lib/jobs/runner.ts'
import type { Due, Group, Job, Op, Outcome, Store } from '../../lib/store/store.ts'
import { aJob } from '../contract/jobs.ts'
import { write } from '../contract/harness.ts'
import { openBackend } from '../fixtures/backends.ts'
import { until } from '../fixtures/gateway.ts'

const TYPE = { attempts: 3, retryMs: 1000, retryMsMax: 3_000 } as const

interface House {
  readonly store: Store
  readonly runner: JobRunner
  readonly logged: string[]
  /** As a commit of this process. */
  write(...ops: Op[]): Promise<void>
}

async function houseOf(t: Test, deed: JobType['deed'], type: Partial<JobType> = {}): Promise<House> {
  const store = await openBackend(t, 'memory')
  const logged: string[] = []
  const observed: (groups: readonly Group[], outcomes: readonly Outcome[]) => void = (groups, outcomes) =>
    runner.written(groups, outcomes)
  const apply = async (ops: readonly Op[]) => {
    const [outcome] = await store.apply([{ ops }])
    observed([{ ops }], [outcome!])
    return outcome!.ok ? outcome!.results : null
  }
  const runner = new JobRunner({
    reads: store.jobs,
    owner: () => 'one',
    write: (ops) => apply(ops),
    types: { webhook: { ...TYPE, ...type, deed } },
    log: { warn: (_, text) => void logged.push(text) }
  })
  t.teardown(() => runner.stop())
  return { store, runner, logged, write: async (...ops) => void (await apply(ops)) }
}

const put = (key: string, due: Due = 0): Op => ({ name: 'job.put', job: aJob(key, { due, user_id: key }) })
const get = (store: Store, key: string) => store.jobs.get('webhook', key)
/** In how many ms it is due. */
const inMs = async (store: Store, { due_at }: Job) => Date.parse(due_at!) - Date.parse(await store.jobs.now())

t.test('as many deeds as may be done at once share the signal of the stop', async (t) => {
  const { signal } = new AbortController()
  const over = setImmediate(0)
  // Of the eleventh listener Node would warn, which ends a suite.
  const many = <T>(one: () => Promise<T>) => Promise.all(Array.from({ length: 32 }, one))
  t.equal((await many(() => withDeadline(signal, 60_000, () => over))).length, 32)
  t.equal((await many(() => unlessAborted(over, signal))).length, 32)
})

t.test('a job that is written is done at once, and not when the table is looked at next', async (t) => {
  const done: string[] = []
  const { runner, write, store } = await houseOf(t, async ({ key }) => {
    done.push(key)
    return null
  })
  runner.start()
  // The first look has found nothing.
  await new Promise((resolve) => setTimeout(resolve, 100))
  await write(put('a'))
  await until(() => done.length === 1, 'it is done', 2000)
  await until(async () => (await get(store, 'a')) === null, 'and gone', 2000)
})

t.test('one that fails is tried again later and later, up to a cap, and is dead after its attempts', async (t) => {
  const { runner, store, logged, write } = await houseOf(t, async () => Promise.reject(new Error('no')), {
    attempts: 4
  })
  await write(put('a'))
  const delays: number[] = []
  for (let attempt = 1; attempt < 4; attempt++) {
    await runner.look()
    await until(
      async () => (await get(store, 'a'))!.owner === null && (await get(store, 'a'))!.last_error === 'no',
      'over'
    )
    const job = (await get(store, 'a'))!
    t.equal(job.attempts, attempt)
    delays.push(await inMs(store, job))
    // As if the time had passed.
    await makeDue(store, job)
  }
  const isAbout = (ms: number, wanted: number) => ms > wanted - 900 && ms <= wanted
  t.ok(isAbout(delays[0]!, 1000) && isAbout(delays[1]!, 3000) && isAbout(delays[2]!, 3000), delays.join())
  await runner.look()
  await until(async () => (await get(store, 'a'))!.due_at === null, 'it is dead')
  t.strictSame(
    logged.map((text) => text.includes('giving up')),
    [false, false, false, true]
  )
})

/** Due now, with the attempts that it has had. */
async function makeDue(store: Store, { key, attempts }: Job): Promise<void> {
  await write(store, { name: 'job.change', kind: 'webhook', key, thread_id: null, due: 0 })
  for (let n = 0; n < attempts; n++) {
    const [job] = await write(store, { name: 'job.claim', owner: 'x', perUser: 9, kinds: ['webhook'], limit: 1 })
    const again = { due: 0, error: 'no' }
    await write(store, { name: 'job.finish', kind: 'webhook', key, thread_id: null, owner: job!.owner!, again })
  }
}

t.test('one that has ended its process as often as it may is not begun again', async (t) => {
  let begun = 0
  const { runner, store, write } = await houseOf(t, async () => {
    begun++
    return null
  })
  await write(put('a'))
  await makeDue(store, { ...(await get(store, 'a'))!, attempts: TYPE.attempts })
  await runner.look()
  await until(async () => (await get(store, 'a'))!.due_at === null, 'it is dead')
  t.equal(begun, 0)
})

t.test('a process that stops gives back what it is at, due at once and with no error of its own', async (t) => {
  const { runner, store, logged, write } = await houseOf(
    t,
    (_, signal) =>
      new Promise<Done>((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))
  )
  await write(put('a'))
  await runner.look()
  t.match(await get(store, 'a'), { owner: 'one' })
  await runner.stop()
  const job = (await get(store, 'a'))!
  t.match(job, { owner: null, last_error: null, attempts: 1 })
  t.ok((await inMs(store, job)) <= 0)
  t.strictSame(logged, [])
  await runner.look()
  t.match(await get(store, 'a'), { owner: null }, 'and takes nothing more')
})

t.test(
  'a deed that has ended its claim itself is not ended again, nor is one that was set anew meanwhile',
  async (t) => {
    const house: House = await houseOf(t, async ({ key }) => {
      await write(house.store, { name: 'job.put', job: aJob(key, { due: 3_600_000, user_id: 'later' }) })
      return key === 'ended' ? 'ended' : null
    })
    const { runner, store } = house
    await house.write(put('ended'), put('late'))
    await runner.look()
    await until(async () => (await get(store, 'late'))?.user_id === 'later', 'both are set anew')
    await runner.stop()
    for (const key of ['ended', 'late']) t.match(await get(store, key), { user_id: 'later', owner: null }, key)
  }
)

t.test('so many are in progress at once, and the next begins when one is over', async (t) => {
  const over: (() => void)[] = []
  const { runner, write } = await houseOf(t, () => new Promise<Done>((resolve) => over.push(() => resolve(null))))
  await write(...Array.from({ length: 40 }, (_, n) => put(`job-${n}`)))
  runner.start()
  await until(() => over.length === 32, 'as many as there are places')
  t.ok((await runner.look()) > 0)
  t.equal(over.length, 32)
  over[0]!()
  await until(() => over.length === 33, 'the next one')
  for (let at = 1; at < 40; at++) {
    await until(() => over.length > at, 'it has begun')
    over[at]!()
  }
})
