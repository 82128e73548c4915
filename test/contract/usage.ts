// Obligations of UsageReads, and what the end of a run adds to it.
import type { Test } from 'tap'
import type { Admission, ModelUsage, OpOf, RunUsage, Store, UsageSearch } from '../../lib/store/store.ts'
import {
  addEndedRun,
  addRun,
  addThread,
  aRun,
  aSettlement,
  apply,
  aUser,
  type Open,
  rules,
  time,
  write
} from './harness.ts'

const TODAY = time(0).slice(0, 10)
const ALL = {
  since: '2000-01-01',
  until: '2099-12-31',
  by: ['day', 'user', 'agent', 'model'],
  limit: 99,
  offset: 0
} as const

const took = (model: string, tokens: number, money_micros = 0): ModelUsage => ({
  ...{ model, input_tokens: tokens, output_tokens: 1, total_tokens: tokens + 1, money_micros }
})
const by = (user_id: string | null, ...models: RunUsage['models']): { usage: RunUsage } => ({
  usage: { user_id, agent: 'lead', models }
})
const list = (store: Store, search: Partial<UsageSearch> = {}, user: string | null = null) =>
  store.usage.list({ ...ALL, ...search }, user)

export function usageContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('runs are added up by day, user, agent and model; a run counts once', async (t, store) => {
    await write(store, { name: 'user.create', user: aUser({ id: 'ann', email: 'ann@example.com' }) })
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    await addEndedRun(store, 't', by('ann', took('big', 10, 7), took('small', 1)))
    await addEndedRun(store, 't', by('ann', took('big', 5, 1)))
    await addEndedRun(store, 't', { ...by('ann', took('big', 2)), now: '2027-01-31T23:59:59.000000+00:00' })
    await addEndedRun(store, 't', by(null, took('', 0)))
    const of = { user_id: 'ann', email: 'ann@example.com', agent: 'lead' }
    const { rows, total } = await list(store)
    t.strictSame(rows, [
      {
        day: '2027-01-31',
        ...of,
        model: 'big',
        runs: 1,
        input_tokens: 2,
        output_tokens: 1,
        total_tokens: 3,
        money_micros: 0
      },
      { day: TODAY, agent: 'lead', email: null, user_id: null, ...sums(1, took('', 0)) },
      { day: TODAY, ...of, ...sums(2, took('big', 15, 8), 1) },
      { day: TODAY, ...of, ...sums(0, took('small', 1)) }
    ])
    t.match(total, { rows: 4, runs: 4, money_micros: 8 })
    t.match((await list(store, { by: ['user'] }, 'ann')).rows, [{ user_id: 'ann', runs: 3, input_tokens: 18 }])
    t.match((await list(store, { by: ['model'], until: TODAY })).rows, [
      { runs: 1 },
      { model: 'big' },
      { model: 'small' }
    ])
    t.match(await list(store, { model: 'small', limit: 1 }), {
      rows: [{ model: 'small' }],
      total: { rows: 1, runs: 0 }
    })
    t.match(await list(store, { limit: 1, offset: 3 }), { rows: [{ model: 'small' }], total: { rows: 4 } })
    t.strictSame((await list(store, { since: '2099-01-01' })).rows, [])
  })

  test('an end that is refused, or comes again, adds nothing; a group that is refused neither', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    const run = await addEndedRun(store, 't', by('ann', took('big', 10)))
    t.notOk(await write(store, aSettlement(run, by('ann', took('big', 10)))))
    const going = await addRun(store, 't')
    const end = aSettlement(going, by('ann', took('big', 10)))
    const [outcome] = await store.apply([
      { ops: [end, { name: 'events.append', thread_id: 'none', run_id: 'none', user_id: null, events: [] }] as never }
    ])
    t.notOk(outcome!.ok)
    t.equal((await list(store)).total.runs, 1)
  })

  test('the sums of somebody who is gone are nobody’s', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    await addEndedRun(store, 't', by('ann', took('big', 10)))
    await addEndedRun(store, 't', by('bob', took('big', 4)))
    await addEndedRun(store, 't', by(null, took('big', 1)))
    await write(store, { name: 'user.forget', user_id: 'ann', agents: [] })
    const rows = [
      { user_id: null, runs: 2, input_tokens: 11 },
      { user_id: 'bob', runs: 1, input_tokens: 4 }
    ]
    t.match((await list(store, { by: ['user'] })).rows, rows)
    const nobodys = { user_id: null, agent: '', runs: 1 }
    t.match((await list(store, { by: ['user', 'agent'] })).rows[0], nobodys, 'no agent is known')
  })

  test('of their agents only those are kept that the installation names', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    for (const agent of ['lead', 'zebra', 'graph'])
      await addEndedRun(store, 't', { usage: { user_id: 'ann', agent, models: [took('big', 10)] } })
    await addEndedRun(store, 't', by('bob', took('big', 4)))
    await write(store, { name: 'user.forget', user_id: 'ann', agents: ['lead', 'graph'] })
    t.match((await list(store, { by: ['user', 'agent'] })).rows, [
      { user_id: null, agent: '', runs: 1, input_tokens: 10 },
      { user_id: null, agent: 'graph', runs: 1 },
      { user_id: null, agent: 'lead', runs: 1 },
      { user_id: 'bob', agent: 'lead', runs: 1 }
    ])
  })

  test('of a quota no more is given than is left, when what was given and what was used is counted', async (t, store) => {
    const take = (want: number, max: number, period = TODAY) =>
      write(store, { name: 'quota.take', user_id: 'ann', measure: 'tokens', period, want, max })
    t.strictSame([await take(6, 10), await take(6, 10), await take(1, 10)], [6, 4, 0])
    await write(store, { name: 'quota.give', user_id: 'ann', measure: 'tokens', period: TODAY, count: 3 })
    t.strictSame([await take(6, 10), await take(2, 20), await take(9, 11)], [3, 2, 0])
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    await addEndedRun(store, 't', { ...by('ann', took('big', 14)), stored_bytes: 70 })
    t.strictSame([await take(9, 15), await take(9, 16)], [0, 1], 'runs have used 15 by now')
    t.equal(await take(9, 5, time(86_400).slice(0, 10)), 5, 'the next day begins anew')
    t.match(await store.usage.quotaUse('ann', TODAY), { runs: 1, tokens: 15, runs_at_once: 0, bytes: 70 })
  })

  test('with `max` a run is admitted while its user has fewer in flight', async (t, store) => {
    for (const thread_id of ['one', 'two', 'three']) await addThread(store, { thread_id, user_id: 'ann' })
    const create = async (thread: string, user_id: string) => {
      const run = aRun(thread, { user_id, multitask_strategy: 'enqueue' })
      return (await write(store, { name: 'run.create', run, autoFollowUp: false, max: 2 })).outcome
    }
    t.strictSame([await create('one', 'ann'), await create('two', 'ann')], ['created', 'created'])
    t.strictSame([await create('three', 'ann'), await create('two', 'ann')], ['too_many', 'too_many'])
    t.equal(await create('three', 'bob'), 'created')
    t.equal((await store.usage.quotaUse('ann', TODAY)).runs_at_once, 2)
  })

  test('no more runs than `max` are admitted of those that come in one transaction', async (t, store) => {
    const threads = ['one', 'two', 'three', 'four']
    for (const thread_id of threads) await addThread(store, { thread_id, user_id: 'ann' })
    const ops = threads.map((thread): OpOf<'run.create'> => {
      return { name: 'run.create', run: aRun(thread, { user_id: 'ann' }), autoFollowUp: false, max: 2 }
    })
    const outcomes = await apply(store, ...ops.map((op) => [op]))
    const made = outcomes.map((one) => one.ok && (one.results[0] as Admission).outcome)
    t.strictSame(made.sort(), ['created', 'created', 'too_many', 'too_many'])
    t.equal((await store.usage.quotaUse('ann', TODAY)).runs_at_once, 2)
  })

  test('an account has a quota of its own until it is taken away', async (t, store) => {
    await write(store, { name: 'user.create', user: aUser({ id: 'ann', email: 'ann@example.com' }) })
    const set = (quota: object | null, id = 'ann') => write(store, { name: 'user.setQuota', id, quota })
    t.match(await set({ runs_per_day: 3 }), { id: 'ann', quota: { runs_per_day: 3 } })
    t.strictSame((await store.users.byId('ann'))?.quota, { runs_per_day: 3 })
    t.match((await store.users.list({ limit: 9, offset: 0 })).users, [{ id: 'ann', quota: { runs_per_day: 3 } }])
    t.strictSame((await set(null))?.quota, undefined)
    t.equal(await set({ bytes: 1 }, 'nobody'), null)
  })

  test('ends of many runs in one transaction are all added', async (t, store) => {
    const ids = Array.from({ length: 8 }, (_, n) => `t${n}`)
    const ends = []
    for (const thread_id of ids) {
      await addThread(store, { thread_id, user_id: 'ann' })
      const run = await addRun(store, thread_id)
      ends.push({ ops: [aSettlement(run, by(Number(thread_id[1]) % 2 ? 'ann' : 'bob', took('big', 1)))] })
    }
    const none = { ops: [{ name: 'feedback.upsert', feedback: aFeedback } as never] }
    t.strictSame(
      (await store.apply([...ends, none])).map(({ ok }) => ok),
      [...ids.map(() => true), false]
    )
    t.match((await list(store, { by: ['user'] })).rows, [
      { user_id: 'ann', runs: 4, input_tokens: 4 },
      { user_id: 'bob', runs: 4 }
    ])
  })
}

const aFeedback = {
  feedback_id: 'f',
  run_id: 'none',
  thread_id: 'none',
  user_id: 'ann',
  message_id: null,
  rating: 1,
  comment: null,
  created_at: time(1)
}

function sums(runs: number, one: ModelUsage, more = 0) {
  const { output_tokens, total_tokens } = one
  return { ...one, runs, output_tokens: output_tokens + more, total_tokens: total_tokens + more }
}
