// Obligations of FeedbackReads and the feedback ops, or of a store that has none.
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { Owner } from '../../lib/base/scope.ts'
import type { FeedbackReads, Store } from '../../lib/store/store.ts'
import type { Feedback, Run } from '../../lib/base/types.ts'
import {
  addRun,
  addThread,
  durableRules,
  HOSTILE_TEXTS,
  type Open,
  refuses,
  rules,
  sharedRules,
  time,
  userArgument,
  write
} from './harness.ts'

export function aFeedback(run: Pick<Run, 'run_id' | 'thread_id'>, set: Partial<Feedback> = {}): Feedback {
  return {
    feedback_id: randomUUID(),
    run_id: run.run_id,
    thread_id: run.thread_id,
    user_id: 'ann',
    message_id: null,
    rating: 1,
    comment: null,
    created_at: time(1),
    ...set
  }
}

function upsert(store: Store, feedback: Feedback): Promise<Feedback> {
  return write(store, { name: 'feedback.upsert', feedback })
}

/** Looks first whether the store has feedback at all, so the suite has begun when the answer resolves. */
export async function feedbackStoreContract(t: Test, open: Open): Promise<void> {
  const { store, close } = await open()
  const hasFeedback = store.feedback !== null
  await close()
  if (hasFeedback) keptFeedbackContract(t, open)
  else noFeedbackContract(t, open)
}

/** By contract the routes answer 503 where `feedback` is null [Errors]; a write that slipped through must leave nothing. */
function noFeedbackContract(t: Test, open: Open): void {
  rules(t, open)('a store without feedback refuses every write of it [Errors]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const about = { thread_id, run_id: run.run_id, user: null }
    await refuses(t, store, { name: 'feedback.upsert', feedback: aFeedback(run) }, 'upsert')
    await refuses(t, store, { name: 'feedback.remove', ...about }, 'remove')
    await refuses(t, store, { name: 'feedback.removeById', feedback_id: 'f', ...about }, 'removeById')
  })
}

function keptFeedbackContract(t: Test, open: Open): void {
  const durable = durableRules(t, open)
  const shared = sharedRules(t, open)
  const test = (
    name: string,
    work: (t: Test, store: Store, feedback: FeedbackReads, run: Run) => Promise<void>
  ): void =>
    shared(name, async (t, store) => {
      const { thread_id } = await addThread(store)
      // Asked for before this suite was chosen.
      await work(t, store, store.feedback!, await addRun(store, thread_id))
    })

  test('feedback is read back field for field, and the answer is what is stored', async (t, store, feedback, run) => {
    const given = aFeedback(run, { message_id: 'message', rating: -1, comment: 'no' })
    t.strictSame(await upsert(store, given), given)
    t.strictSame(await feedback.list(run.thread_id, run.run_id, 'ann'), [given])
    t.strictSame(await feedback.list(run.thread_id, 'missing', 'ann'), [])
    t.strictSame(await feedback.list('missing', run.run_id, 'ann'), [])
  })

  test('a user has one feedback on a run: a second one replaces all but the id', async (t, store, feedback, run) => {
    const first = await upsert(store, aFeedback(run, { message_id: 'message', comment: 'yes' }))
    const second = aFeedback(run, { rating: -1, created_at: time(2) })
    const expected = { ...second, feedback_id: first.feedback_id }
    t.strictSame(await upsert(store, second), expected, 'what is left out becomes null')
    t.strictSame(await feedback.list(run.thread_id, run.run_id, 'ann'), [expected])
    t.strictSame(await feedback.stats(run.thread_id, run.run_id), { total: 1, positive: 0, negative: 1 })
  })

  test('a rating is +1 or -1: others are refused', async (t, store, feedback, run) => {
    for (const rating of [0, 5, 2, -2]) {
      // The type forbids it; a store is the last to see what came from outside.
      const given = aFeedback(run, { rating: rating as 1 })
      await refuses(t, store, { name: 'feedback.upsert', feedback: given }, `rating ${rating}`)
    }
    t.strictSame(await feedback.stats(run.thread_id, run.run_id), { total: 0, positive: 0, negative: 0 })
  })

  test('stats counts all users of the run, zeros when there are none', async (t, store, feedback, run) => {
    t.strictSame(await feedback.stats(run.thread_id, run.run_id), { total: 0, positive: 0, negative: 0 })
    const other = await addRun(store, run.thread_id)
    for (const [user_id, rating] of [
      ['ann', 1],
      ['bob', -1],
      ['eve', 1]
    ] as const)
      await upsert(store, aFeedback(run, { user_id, rating }))
    await upsert(store, aFeedback(other))
    t.strictSame(await feedback.stats(run.thread_id, run.run_id), { total: 3, positive: 2, negative: 1 })
    t.strictSame(await feedback.stats('missing', run.run_id), { total: 0, positive: 0, negative: 0 })
  })

  test('feedback of users does not clash, and each lists its own only', async (t, store, feedback, run) => {
    const anns = await upsert(store, aFeedback(run, { user_id: 'ann', created_at: time(2) }))
    const bobs = await upsert(store, aFeedback(run, { user_id: 'bob', rating: -1, created_at: time(1) }))
    t.strictSame(await feedback.list(run.thread_id, run.run_id, 'ann'), [anns])
    t.strictSame(await feedback.list(run.thread_id, run.run_id, 'bob'), [bobs])
    t.strictSame(await feedback.list(run.thread_id, run.run_id, null), [bobs, anns], 'oldest first')
  })

  test('feedback without a user replaces none [contract 8.2]', async (t, store, feedback, run) => {
    await upsert(store, aFeedback(run, { user_id: null }))
    await upsert(store, aFeedback(run, { user_id: null }))
    t.equal((await feedback.stats(run.thread_id, run.run_id)).total, 2)
  })

  test('byRuns gives the own feedback by run, for the runs that are asked for', async (t, store, feedback, run) => {
    const second = await addRun(store, run.thread_id)
    const third = await addRun(store, run.thread_id)
    const mine = await upsert(store, aFeedback(run))
    await upsert(store, aFeedback(run, { user_id: 'bob' }))
    await upsert(store, aFeedback(second, { user_id: 'bob' }))
    await upsert(store, aFeedback(third))
    const found = await feedback.byRuns(run.thread_id, [run.run_id, second.run_id, 'missing'], 'ann')
    t.strictSame([...found], [[run.run_id, mine]])
    t.equal((await feedback.byRuns(run.thread_id, [], 'ann')).size, 0)
    t.equal((await feedback.byRuns('missing', [run.run_id], 'ann')).size, 0)
  })

  durable('the newest feedback is everybody’s, of all threads, newest first', async (t, store, reopen) => {
    const given = []
    for (const [n, user_id] of ['ann', 'bob', null].entries()) {
      const run = await addRun(store, (await addThread(store)).thread_id)
      given.unshift(await upsert(store, aFeedback(run, { user_id, comment: 'why', created_at: time(n) })))
    }
    const { feedback } = await reopen()
    t.strictSame(await feedback?.newest(2), given.slice(0, 2))
    t.strictSame(await feedback?.newest(3), given)
  })

  test('reads of feedback are of one user, or of everybody for null [Store 1]', async (t, store, feedback, run) => {
    await upsert(store, aFeedback(run))
    const { thread_id, run_id } = run
    const users = { mine: 'ann', other: 'bob' }
    const list = async (user: Owner) => (await feedback.list(thread_id, run_id, user)).length
    await userArgument(t, 'feedback.list', { ...users, read: list })
    const byRuns = async (user: Owner) => (await feedback.byRuns(thread_id, [run_id], user)).size
    await userArgument(t, 'feedback.byRuns', { ...users, read: byRuns })
  })

  test('feedback is removed by its run: the own one, once', async (t, store, feedback, run) => {
    const { thread_id, run_id } = run
    await upsert(store, aFeedback(run))
    await upsert(store, aFeedback(run, { user_id: 'bob' }))
    const remove = (user: string | null) => write(store, { name: 'feedback.remove', thread_id, run_id, user })
    t.equal(await remove('eve'), false, 'false when there is none')
    t.equal(await remove('ann'), true)
    t.equal(await remove('ann'), false)
    t.equal((await feedback.list(thread_id, run_id, 'bob')).length, 1)
    t.equal(await remove(null), true, 'null: of anybody')
    t.equal((await feedback.stats(thread_id, run_id)).total, 0)
  })

  test('feedback is removed by its id: only the own, and only of that run and thread', async (t, store, feedback, run) => {
    const { thread_id, run_id } = run
    const { feedback_id } = await upsert(store, aFeedback(run))
    const remove = (set: { thread_id?: string; run_id?: string; feedback_id?: string; user?: string | null }) =>
      write(store, { name: 'feedback.removeById', feedback_id, thread_id, run_id, user: 'ann', ...set })
    t.equal(await remove({ user: 'bob' }), false)
    t.equal(await remove({ run_id: 'other' }), false)
    t.equal(await remove({ thread_id: 'other' }), false)
    t.equal(await remove({ feedback_id: 'other' }), false)
    t.equal((await feedback.list(thread_id, run_id, 'ann')).length, 1)
    t.equal(await remove({}), true)
    t.equal(await remove({}), false)
  })

  test('a comment comes back as it was given, whatever its characters [Store 9]', async (t, store, feedback, run) => {
    for (const [name, comment] of Object.entries(HOSTILE_TEXTS)) {
      await upsert(store, aFeedback(run, { comment }))
      const [found] = await feedback.list(run.thread_id, run.run_id, 'ann')
      t.ok(found?.comment === comment, name)
    }
  })

  test('nothing is written for a thread that does not exist [Store 8]', async (t, store, feedback, run) => {
    await upsert(store, aFeedback(run))
    await write(store, { name: 'thread.remove', thread_id: run.thread_id, user: null })
    await refuses(t, store, { name: 'feedback.upsert', feedback: aFeedback(run) }, 'refused')
    t.equal((await feedback.stats(run.thread_id, run.run_id)).total, 0)
  })

  durable('feedback survives a restart', async (t, store, reopen) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const given = await upsert(store, aFeedback(run, { comment: 'yes' }))
    const again = await reopen()
    t.strictSame(await again.feedback?.list(thread_id, run.run_id, 'ann'), [given])
  })
}
