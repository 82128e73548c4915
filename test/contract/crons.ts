// Obligations of CronReads, WebhookReads and their ops: what is to be done at some time, by one process of many.
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../lib/store/store.ts'
import type { Cron } from '../../lib/types.ts'
import {
  addEndedRun,
  addRun,
  addThread,
  durableRules,
  type Open,
  rules,
  skipped,
  time,
  userArgument,
  write
} from './harness.ts'

export function aCron(set: Partial<Cron> = {}): Cron {
  return {
    cron_id: randomUUID(),
    user_id: 'ann',
    assistant_id: 'lead_agent',
    thread_id: null,
    schedule: '*/5 * * * *',
    timezone: null,
    payload: { input: { messages: [{ role: 'user', content: 'hello' }] } },
    metadata: { topic: 'news' },
    on_run_completed: 'delete',
    enabled: true,
    end_time: null,
    next_run_date: time(60),
    created_at: time(0),
    updated_at: time(0),
    ...set
  }
}

const MAX = 100
const add = (store: Store, cron: Cron, max = MAX) => write(store, { name: 'cron.create', cron, max })
const claim = (store: Store, second: number, until = second + 60, limit = 10) =>
  write(store, { name: 'cron.claim', now: time(second), until: time(until), limit })

export function cronStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)

  test('a cron comes back field for field, to its user alone [Store 1]', async (t, store) => {
    const cron = aCron({
      thread_id: 't',
      timezone: 'Europe/Berlin',
      end_time: time(900),
      payload: { text: '\u0000 ü' }
    })
    t.equal(await add(store, cron), 'created')
    t.strictSame(await store.crons.get(cron.cron_id, 'ann'), cron)
    const whose = { mine: 'ann', other: 'ben' }
    await userArgument(t, 'crons.get', {
      ...whose,
      read: async (user) => ((await store.crons.get(cron.cron_id, user)) ? 1 : 0)
    })
    await userArgument(t, 'crons.list', { ...whose, read: async (user) => (await store.crons.list(user)).length })
    const later = aCron({ created_at: time(5) })
    await add(store, later)
    t.strictSame(
      (await store.crons.list('ann')).map(({ cron_id }) => cron_id),
      [later.cron_id, cron.cron_id],
      'newest first'
    )
  })

  test('a user has at most so many crons; those of others do not count', async (t, store) => {
    t.equal(await add(store, aCron(), 1), 'created')
    t.equal(await add(store, aCron(), 1), 'too_many')
    t.equal(await add(store, aCron({ user_id: 'ben' }), 1), 'created')
  })

  test('a cron is updated and removed by its user or by the system', async (t, store) => {
    const cron = aCron()
    const { cron_id } = cron
    await add(store, cron)
    const set = { schedule: '0 * * * *', enabled: false, next_run_date: null }
    t.equal(await write(store, { name: 'cron.update', cron_id, set, user: 'ben', now: time(1) }), null)
    const after = { ...cron, ...set, updated_at: time(1) }
    t.strictSame(await write(store, { name: 'cron.update', cron_id, set, user: 'ann', now: time(1) }), after)
    t.strictSame(await store.crons.get(cron_id, null), after)
    t.equal(await write(store, { name: 'cron.remove', cron_id, user: 'ben' }), false)
    t.equal(await write(store, { name: 'cron.remove', cron_id, user: 'ann' }), true)
    t.equal(await store.crons.get(cron_id, null), null)
  })

  test('a cron is claimed when it is due, by one who asks, until its claim is over', async (t, store) => {
    const cron = aCron({ next_run_date: time(60) })
    await add(store, cron)
    await add(store, aCron({ next_run_date: time(60), enabled: false }))
    await add(store, aCron({ next_run_date: null }))
    t.equal(await store.crons.areDue(time(59)), false)
    t.strictSame(await claim(store, 59), [])
    t.equal(await store.crons.areDue(time(60)), true)
    t.strictSame(await claim(store, 60, 120), [cron])
    t.equal(await store.crons.areDue(time(61)), false)
    t.strictSame(await claim(store, 119), [], 'somebody is at it')
    t.strictSame(await claim(store, 120), [cron], 'who was at it is dead')
  })

  test('a cron goes on from where it stood, once', async (t, store) => {
    const { cron_id } = aCron()
    const cron = aCron({ cron_id })
    await add(store, cron)
    await claim(store, 60)
    const advance = { name: 'cron.advance', cron_id, from: time(60), to: time(360) } as const
    t.equal(await write(store, advance), true)
    t.equal(await write(store, advance), false, 'it stands elsewhere by now')
    t.strictSame(await store.crons.get(cron_id, 'ann'), { ...cron, next_run_date: time(360) })
    t.strictSame((await claim(store, 360)).length, 1, 'the claim of before is over')
    t.equal(await write(store, { name: 'cron.advance', cron_id, from: time(360), to: null }), true)
    t.strictSame(await claim(store, 9999), [])
  })

  test('those that are due first are claimed first, as many as are asked for', async (t, store) => {
    const crons = [30, 10, 20].map((second) => aCron({ next_run_date: time(second) }))
    for (const cron of crons) await add(store, cron)
    const first = await claim(store, 60, 120, 2)
    t.strictSame(first.map(({ next_run_date }) => next_run_date).toSorted(), [time(10), time(20)])
    t.equal((await claim(store, 60)).length, 1)
  })

  test('a webhook is claimed when its run has ended, and again when it is to be tried again', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const { run_id } = run
    const url = 'https://example.com/hook'
    const claimed = (second: number, until = second + 60) =>
      write(store, { name: 'webhook.claim', now: time(second), until: time(until), limit: 10, full: [] })
    await write(store, { name: 'webhook.add', run_id, user_id: 'ann', url, now: time(1) })
    t.strictSame(await claimed(5), [], 'its run is in flight')
    t.equal(await store.webhooks.areDue(time(5)), false)
    const ended = await addEndedRun(store, (await addThread(store)).thread_id)
    await write(store, { name: 'webhook.add', run_id: ended.run_id, user_id: 'ann', url, now: time(1) })
    t.equal(await store.webhooks.areDue(time(5)), true)
    t.strictSame(await claimed(5, 65), [{ run_id: ended.run_id, user_id: 'ann', url, attempts: 1, payload: null }])
    t.strictSame(await claimed(64), [], 'somebody is at it')
    t.strictSame(await claimed(65), [{ run_id: ended.run_id, user_id: 'ann', url, attempts: 2, payload: null }])
    await write(store, { name: 'webhook.retry', run_id: ended.run_id, at: time(70) })
    t.strictSame(await claimed(69), [])
    t.strictSame(await claimed(70), [{ run_id: ended.run_id, user_id: 'ann', url, attempts: 3, payload: null }])
    await write(store, { name: 'webhook.remove', run_id: ended.run_id })
    t.strictSame(await claimed(9999), [])
  })

  test('of each user one webhook is claimed at a time, and none of who has a share already', async (t, store) => {
    const { thread_id } = await addThread(store)
    const owners = ['ann', 'ann', 'ann', 'bob', null]
    for (const [at, user_id] of owners.entries()) {
      const { run_id } = await addEndedRun(store, thread_id)
      await write(store, { name: 'webhook.add', run_id, user_id, url: 'https://example.com', now: time(at + 1) })
    }
    const claimed = async (full: (string | null)[], limit = 10) => {
      const claim = { name: 'webhook.claim', now: time(60), until: time(999), limit, full } as const
      return (await write(store, claim)).map(({ user_id }) => user_id)
    }
    t.same(await claimed(['ann', null], 1), ['bob'])
    t.same((await claimed([null])).toSorted(), ['ann'])
    t.same((await claimed([])).toSorted(), ['ann', null])
    t.same(await claimed(['ann']), [])
    t.same(await claimed([]), ['ann'])
    t.same(await claimed([]), [])
  })

  test('a webhook of a run that is gone, or never came, is nobody’s', async (t, store) => {
    const { thread_id } = await addThread(store)
    const { run_id } = await addEndedRun(store, thread_id)
    await write(store, { name: 'webhook.add', run_id, user_id: 'ann', url: 'https://example.com', now: time(1) })
    await write(store, {
      name: 'webhook.add',
      run_id: 'never',
      user_id: null,
      url: 'https://example.com',
      now: time(1)
    })
    await write(store, { name: 'thread.remove', thread_id, user: null })
    t.equal(await store.webhooks.areDue(time(9)), false)
    t.strictSame(
      await write(store, { name: 'webhook.claim', now: time(9999), until: time(10_000), limit: 9, full: [] }),
      []
    )
  })

  test('a webhook whose payload was made outlives its run', async (t, store) => {
    const { thread_id } = await addThread(store)
    const { run_id } = await addEndedRun(store, thread_id)
    const url = 'https://example.com/hook'
    await write(store, { name: 'webhook.add', run_id, user_id: 'ann', url, now: time(1) })
    await write(store, { name: 'webhook.prepare', run_id, payload: '{"ü":"\\u0000"}' })
    await write(store, { name: 'thread.remove', thread_id, user: null })
    t.strictSame(
      await write(store, { name: 'webhook.claim', now: time(9999), until: time(10_000), limit: 9, full: [] }),
      [{ run_id, user_id: 'ann', url, attempts: 1, payload: '{"ü":"\\u0000"}' }]
    )
  })

  t.test('of two processes one is given what is due [Store 10]', async (t) => {
    const opened = await open()
    t.teardown(() => opened.close())
    if (!opened.beside) return skipped(t, 'this store has one process')
    const other = await opened.beside()
    for (let n = 0; n < 20; n++) await add(opened.store, aCron())
    const both = await Promise.all([claim(opened.store, 60, 120, 20), claim(other, 60, 120, 20)])
    const ids = both.flat().map(({ cron_id }) => cron_id)
    t.equal(ids.length, 20)
    t.equal(new Set(ids).size, 20)
  })

  durable('crons survive a restart', async (t, store, reopen) => {
    const cron = aCron()
    await add(store, cron)
    t.strictSame(await (await reopen()).crons.list('ann'), [cron])
  })
}
