// Obligations of `run.create`: which run is admitted, and what an idempotency key answers.
import type { Test } from 'tap'
import type { MultitaskStrategy } from '../../lib/base/types.ts'
import {
  addEndedRun,
  addRun,
  addThread,
  apply,
  aRun,
  aSettlement,
  createRun,
  type Open,
  refuses,
  rules,
  sharedRules,
  startRun,
  TERMINAL,
  write
} from './harness.ts'

export function admissionContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const onEmpty = rules(t, open)
  const STRATEGIES: readonly MultitaskStrategy[] = ['reject', 'interrupt', 'rollback', 'enqueue']

  for (const multitask_strategy of STRATEGIES) {
    test(`${multitask_strategy}: a run is admitted while nothing is in flight`, async (t, store) => {
      const { thread_id } = await addThread(store)
      for (const status of TERMINAL) await addEndedRun(store, thread_id, { status })
      const busy = await addThread(store)
      await addRun(store, busy.thread_id)
      const answer = await createRun(store, aRun(thread_id, { multitask_strategy }))
      t.match(answer, { outcome: 'created', inFlight: [], run: { status: 'pending', ordinal: 5, multitask_strategy } })
      t.equal(answer.outcome === 'created' && answer.inFlight.length, 0, 'ended runs and other threads do not count')
    })
  }

  for (const status of ['pending', 'running'] as const) {
    test(`reject: busy while a run is ${status}, and nothing is stored`, async (t, store) => {
      const { thread_id } = await addThread(store)
      const first = await addRun(store, thread_id)
      if (status === 'running') await startRun(store, first)
      const refusedRun = aRun(thread_id, { multitask_strategy: 'reject' })
      t.strictSame(await createRun(store, refusedRun), { outcome: 'busy' })
      t.equal(await store.runs.get(refusedRun.run_id, null), null)
      await write(store, aSettlement(first))
      t.match(
        await createRun(store, refusedRun),
        { outcome: 'created', run: { ordinal: 2 } },
        'a refusal takes no ordinal'
      )
    })

    for (const multitask_strategy of STRATEGIES.slice(1)) {
      test(`${multitask_strategy}: behind a ${status} run it is stored pending, told what stood before`, async (t, store) => {
        const { thread_id } = await addThread(store)
        const first = await addRun(store, thread_id)
        if (status === 'running') await startRun(store, first)
        const before = await store.runs.get(first.run_id, null)
        const second = await addRun(store, thread_id)
        const answer = await createRun(store, aRun(thread_id, { multitask_strategy }))
        t.match(answer, { outcome: 'created', run: { status: 'pending', ordinal: 3 } })
        t.strictSame(answer.outcome === 'created' && answer.inFlight, [first.run_id, second.run_id], 'oldest first')
        t.strictSame(await store.runs.get(first.run_id, null), before, 'what stood before is not touched')
      })
    }
  }

  test('of two runs with strategy reject in one batch one is created [Store 6]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const op = () =>
      ({ name: 'run.create', run: aRun(thread_id, { multitask_strategy: 'reject' }), autoFollowUp: false }) as const
    const outcomes = await apply(store, [op()], [op()], [op()])
    const answers = outcomes.map((outcome) =>
      outcome.ok ? (outcome.results[0] as { outcome: string }).outcome : 'refused'
    )
    t.strictSame(answers, ['created', 'busy', 'busy'])
    t.equal((await store.runs.inFlight(thread_id)).length, 1)
  })

  test('a run on a thread that does not exist is answered thread_missing [Store 8]', async (t, store) => {
    const run = aRun('missing')
    t.strictSame(await createRun(store, run, true), { outcome: 'thread_missing' })
    t.equal(await store.runs.get(run.run_id, null), null)
  })

  test('a run id is given once: a second run with it is refused', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    const run = await addRun(store, thread_id)
    const again = aRun(other.thread_id, { run_id: run.run_id })
    await refuses(t, store, { name: 'run.create', run: again, autoFollowUp: false }, 'refused')
    t.strictSame(await store.runs.get(run.run_id, null), run)
    t.equal((await addRun(store, other.thread_id)).ordinal, 1, 'it took no ordinal')
  })

  test('the same idempotency key with the same hash answers the run it made, as it is now', async (t, store) => {
    const { thread_id } = await addThread(store)
    const key = { idempotency_key: 'key', idempotency_hash: 'hash' }
    const first = await addRun(store, thread_id, key)
    const again = aRun(thread_id, { ...key, multitask_strategy: 'reject' })
    t.strictSame(await createRun(store, again), { outcome: 'repeated', run: first }, 'also while it is in flight')
    t.strictSame(await store.runs.byKey('key', first.user_id), first)
    t.equal(await store.runs.byKey('another', first.user_id), null)
    await write(store, aSettlement(first))
    t.strictSame(await createRun(store, again), { outcome: 'repeated', run: await store.runs.get(first.run_id, null) })
    t.equal((await store.runs.list(thread_id, { limit: 10, offset: 0 }, null)).length, 1)
    t.equal((await addRun(store, thread_id)).ordinal, 2, 'a repetition takes no ordinal')
  })

  onEmpty('the same idempotency key with another hash is answered key_reused', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    await addRun(store, thread_id, { idempotency_key: 'key', idempotency_hash: 'hash' })
    const again = { idempotency_key: 'key', idempotency_hash: 'another' }
    t.strictSame(await createRun(store, aRun(thread_id, again)), { outcome: 'key_reused' })
    t.strictSame(
      await createRun(store, aRun(other.thread_id, again)),
      { outcome: 'key_reused' },
      'on any thread of the user'
    )
    t.equal((await store.runs.inFlight(thread_id)).length, 1)
  })

  onEmpty(
    'idempotency keys are those of their user: the same key of another one makes its own run',
    async (t, store) => {
      const { thread_id } = await addThread(store, { user_id: null })
      const key = { idempotency_key: 'key', idempotency_hash: 'hash' }
      const anns = await addRun(store, thread_id, { ...key, user_id: 'ann' })
      const bobs = await addRun(store, thread_id, { ...key, user_id: 'bob' })
      const nobodys = await addRun(store, thread_id, { ...key, user_id: null })
      for (const run of [anns, bobs, nobodys]) {
        t.strictSame(await createRun(store, aRun(thread_id, { ...key, user_id: run.user_id })), {
          outcome: 'repeated',
          run
        })
      }
    }
  )

  test('in a shared thread a run follows the newest success that its user may see, and never names another one', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const nobodys = await addRun(store, thread_id, { user_id: null })
    await write(store, aSettlement(nobodys, { status: 'success' }))
    const anns = await addRun(store, thread_id, { user_id: 'ann' })
    await write(store, aSettlement(anns, { status: 'success' }))
    for (const [user_id, followed] of [
      ['bob', nobodys],
      ['ann', anns]
    ] as const) {
      const run = aRun(thread_id, { user_id })
      await write(store, { name: 'run.create', run, autoFollowUp: true })
      t.equal((await store.runs.get(run.run_id, null))?.follow_up_to_run_id, followed.run_id)
    }
  })

  onEmpty(
    'refusals are not remembered under their key, and runs without a key are never the same',
    async (t, store) => {
      const { thread_id } = await addThread(store)
      const first = await addRun(store, thread_id)
      const run = aRun(thread_id, { multitask_strategy: 'reject', idempotency_key: 'key', idempotency_hash: 'hash' })
      t.strictSame(await createRun(store, run), { outcome: 'busy' })
      await write(store, aSettlement(first))
      t.match(await createRun(store, run), { outcome: 'created' })
      t.match(await createRun(store, aRun(thread_id)), { outcome: 'created' })
      t.match(await createRun(store, aRun(thread_id)), { outcome: 'created' })
    }
  )

  test('autoFollowUp takes the newest successful run of the thread and skips all others', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    await addEndedRun(store, other.thread_id)
    t.equal((await addRun(store, thread_id, {}, true)).follow_up_to_run_id, null, 'no success, no follow-up')
    await addEndedRun(store, thread_id)
    const newest = await addEndedRun(store, thread_id)
    for (const status of ['error', 'interrupted', 'timeout'] as const) await addEndedRun(store, thread_id, { status })
    const pending = await addRun(store, thread_id, {}, true)
    t.equal(pending.follow_up_to_run_id, newest.run_id)
    t.equal((await store.runs.get(pending.run_id, null))?.follow_up_to_run_id, newest.run_id)
  })

  test('without autoFollowUp the follow-up is the one that was given, or none', async (t, store) => {
    const { thread_id } = await addThread(store)
    await addEndedRun(store, thread_id)
    t.equal((await addRun(store, thread_id)).follow_up_to_run_id, null)
    t.equal((await addRun(store, thread_id, { follow_up_to_run_id: 'given' })).follow_up_to_run_id, 'given')
  })
}
