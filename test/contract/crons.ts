// Obligations of CronReads and its ops.
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Store } from '../../lib/store/store.ts'
import type { Cron } from '../../lib/base/types.ts'
import { durableRules, type Open, rules, time, userArgument, write } from './harness.ts'

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

  test('a change of a cron sets what it is given, its thread too, and nothing else', async (t, store) => {
    const cron = aCron({ timezone: 'Europe/Berlin', end_time: time(900) })
    const { cron_id } = cron
    await add(store, cron)
    const changes: Partial<Cron>[] = [
      { schedule: '0 * * * *' },
      { timezone: null },
      { end_time: null },
      { enabled: false },
      { on_run_completed: 'keep' },
      { metadata: { topic: 'sea' } },
      { payload: { input: null } },
      { thread_id: 't', next_run_date: time(360) }
    ]
    let after: Cron = cron
    for (const [at, set] of changes.entries()) {
      after = { ...after, ...set, updated_at: time(at + 1) }
      t.strictSame(await write(store, { name: 'cron.update', cron_id, set, user: 'ann', now: time(at + 1) }), after)
      t.strictSame(await store.crons.get(cron_id, 'ann'), after)
    }
    t.match(await store.jobs.get('turn', cron_id), { thread_id: 't', due_at: time(360) })
  })

  test('the next turn of a cron is a job, and its time stands there alone', async (t, store) => {
    const cron = aCron({ thread_id: 't' })
    const { cron_id } = cron
    await add(store, cron)
    const turn = () => store.jobs.get('turn', cron_id)
    t.match(await turn(), { user_id: 'ann', thread_id: 't', due_at: time(60), attempts: 0, owner: null })
    const [claimed] = await write(store, { name: 'job.claim', owner: 'one', limit: 9, perUser: 9, kinds: ['turn'] })
    t.match(claimed, { key: cron_id })
    const change = (set: object) => write(store, { name: 'cron.update', cron_id, set, user: 'ann', now: time(1) })
    await change({ schedule: '0 * * * *', next_run_date: time(360) })
    t.match(await turn(), { due_at: time(360), owner: null }, 'who was at it is late')
    t.match(await store.crons.get(cron_id, 'ann'), { next_run_date: time(360) })
    await change({ metadata: {} })
    t.match(await turn(), { due_at: time(360) })
    await change({ enabled: false, next_run_date: null })
    t.equal(await turn(), null)
    await change({ enabled: true, next_run_date: time(60) })
    await write(store, { name: 'cron.remove', cron_id, user: 'ann' })
    t.equal(await turn(), null)
  })

  durable('crons survive a restart', async (t, store, reopen) => {
    const cron = aCron()
    await add(store, cron)
    t.strictSame(await (await reopen()).crons.list('ann'), [cron])
  })
}
