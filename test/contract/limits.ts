// Obligations of what is counted of a user: nobody gets more than so many, of any number of calls at once.
import type { Test } from 'tap'
import type { NewJob, OpOf, Store } from '../../lib/store/store.ts'
import { aCron } from './crons.ts'
import {
  aCheckpoint,
  addEndedRun,
  addRun,
  addThread,
  aSettlement,
  aThread,
  type Open,
  rules,
  skipped,
  write
} from './harness.ts'
import { aJob } from './jobs.ts'

const NOTHING = { threads: 0, bytes: 0, crons: 0, webhooks: 0 }

function creation(user_id: string | null, max: number, more: Partial<OpOf<'thread.create'>> = {}) {
  const thread = aThread({ user_id })
  return { name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id), max, ...more } as const
}

/** How many of them were made. */
async function made(stores: readonly Store[], ops: readonly OpOf<'thread.create'>[]): Promise<number> {
  const groups = ops.map((op) => ({ ops: [op] }))
  const outcomes = (
    await Promise.all(stores.map((store, at) => store.apply(groups.filter((_, n) => n % stores.length === at))))
  ).flat()
  return outcomes.filter((outcome) => outcome.ok && outcome.results[0] !== 'too_many').length
}

export function limitContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('a user has at most so many threads; what was refused is not there, and who has deleted one gets another', async (t, store) => {
    t.equal(
      await made(
        [store],
        Array.from({ length: 5 }, () => creation('ann', 3))
      ),
      3
    )
    const ids = await store.threads.idsOf('ann', 10)
    t.equal(ids.length, 3)
    const refused = creation('ann', 3)
    t.equal(await write(store, refused), 'too_many')
    t.equal(await store.threads.get(refused.thread.thread_id, null), null)
    t.equal(await store.checkpoints.load(refused.thread.thread_id, null), null)
    t.equal(
      await made([store], [creation('ben', 3), creation(null, 3), creation('ann', 0)]),
      3,
      'others, nobody, no limit'
    )
    for (const thread_id of ids.slice(1)) await write(store, { name: 'thread.remove', thread_id, user: 'ann' })
    t.equal(await made([store], [creation('ann', 3)]), 1)
  })

  test('threads made for one run do not count, and one that is there is found at the limit too', async (t, store) => {
    const own = creation('ann', 1)
    t.equal(await made([store], [own]), 1)
    t.equal(await made([store], [creation('ann', 1, { isTemporary: true }), creation('ann', 1)]), 1)
    t.match(await write(store, own), { created: false, thread: { thread_id: own.thread.thread_id } })
    t.match(await store.users.stored('ann'), { threads: 1 })
  })

  test('what runs have stored is counted by thread, once, and goes with it', async (t, store) => {
    t.strictSame(await store.users.stored('ann'), NOTHING)
    const { thread_id } = await addThread(store, { user_id: 'ann' })
    await addThread(store, { user_id: 'ben' })
    await addEndedRun(store, thread_id, { stored_bytes: 2 ** 33 })
    await addEndedRun(store, thread_id)
    const run = await addRun(store, thread_id)
    t.equal(await write(store, aSettlement(run, { stored_bytes: 7 })), true)
    t.equal(await write(store, aSettlement(run, { stored_bytes: 9 })), false, 'it has ended')
    t.strictSame(await store.users.stored('ann'), { ...NOTHING, threads: 1, bytes: 2 ** 33 + 7 })
    await write(store, { name: 'thread.remove', thread_id, user: 'ann' })
    t.strictSame(await store.users.stored('ann'), NOTHING)
  })

  test('crons count, and webhooks that wait or have failed for good', async (t, store) => {
    await write(store, { name: 'cron.create', cron: aCron(), max: 9 })
    const { thread_id } = await addThread(store, { user_id: 'ann' })
    const job = (key: string, set: Partial<NewJob> = {}) =>
      write(store, { name: 'job.put', job: aJob(key, { thread_id, ...set }) })
    for (const key of ['1', '2']) await job(key, { kind: 'webhook' })
    await job('3', { kind: 'removal' })
    await job('4', { kind: 'webhook', user_id: 'ben' })
    t.strictSame(await store.users.stored('ann'), { ...NOTHING, threads: 1, crons: 1, webhooks: 2 })
    await write(store, { name: 'job.remove', kind: 'webhook', key: '1', thread_id })
    t.strictSame(await store.users.stored('ann'), { ...NOTHING, threads: 1, crons: 1, webhooks: 1 })
  })

  t.test('two processes do not both give the last place away', async (t) => {
    const opened = await open()
    t.teardown(() => opened.close())
    if (!opened.beside) return skipped(t, 'this store has one process')
    const other = await opened.beside()
    t.teardown(() => other.close())
    const stores = [opened.store, other]
    for (let round = 0; round < 5; round++) {
      const users = ['ann', 'ben', 'cy'].map((name) => `${name} ${round}`)
      // Each process has the users in an order of its own: whoever locks them as they come waits for the other for ever.
      const ops = Array.from({ length: 24 }, (_, n) => creation(users[(n % 2 === 0 ? n / 2 : 23 - n) % 3]!, 4))
      t.equal(await made(stores, ops), 12)
      const crons = await Promise.all(
        stores.map((store) =>
          store.apply(
            Array.from({ length: 6 }, () => ({
              ops: [{ name: 'cron.create', cron: aCron({ user_id: users[0]! }), max: 4 }]
            }))
          )
        )
      )
      t.equal(crons.flat().filter((outcome) => outcome.ok && outcome.results[0] === 'created').length, 4)
    }
  })
}
