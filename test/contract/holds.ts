// Obligations of HoldReads, and of all that deletes something: a legal hold keeps it [Store 13].
import type { Test } from 'tap'
import type { Hold, HoldKind } from '../../lib/base/accounts.ts'
import type { Run } from '../../lib/base/types.ts'
import { type CronPatch, type Op, RETAINED, type Store } from '../../lib/store/store.ts'
import { anAssistant } from './assistants.ts'
import { aCron } from './crons.ts'
import { aFeedback } from './feedback.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  aSettlement,
  aUser,
  apply,
  type Open,
  rules,
  time,
  write
} from './harness.ts'
import { anItem } from './items.ts'

const LATER = '2030-01-01T00:00:00.000000+00:00'

const aHold = (kind: HoldKind, target: string, hold_id = `${kind} ${target}`, n = 1): Hold => ({
  hold_id,
  kind,
  target,
  reason: 'Case 42',
  created_by: 'user:boss',
  created_at: time(n)
})
const hold = (store: Store, kind: HoldKind, target: string) =>
  write(store, { name: 'hold.put', hold: aHold(kind, target) })
const lift = (store: Store, kind: HoldKind, target: string) =>
  write(store, { name: 'hold.remove', hold_id: `${kind} ${target}` })

/** A run of this user that has ended. */
async function addRunOf(store: Store, threadId: string, user_id: string): Promise<Run> {
  const run = await addRun(store, threadId, { user_id })
  await write(store, aSettlement(run))
  return run
}

/** Two users, each with a thread and an old run that has traces. */
async function furnished(store: Store) {
  const runs: Record<string, string> = {}
  for (const id of ['ann', 'bob']) {
    await write(store, { name: 'user.create', user: aUser({ id, email: `${id}@example.com` }) })
    await addThread(store, { thread_id: `of-${id}`, user_id: id })
    const run = await addRunOf(store, `of-${id}`, id)
    await addEvents(store, run, [anEvent(0, { category: 'trace', event_type: 'llm_request' })])
    runs[id] = run.run_id
    await write(store, {
      name: 'audit.add',
      entry: {
        at: time(0),
        action: 'sign_in',
        actor: `user:${id}`,
        target: null,
        address: null,
        request_id: null,
        details: {}
      }
    })
  }
  return runs
}

/** Every op that deletes something of ann or of her thread, by what must be held for it to be refused. */
function deletions(run_id: string): Readonly<Record<HoldKind, readonly Op[]>> {
  const [thread_id, user] = ['of-ann', 'ann']
  const job = { kind: 'departure', key: user, user_id: user, thread_id: null, due: 0, payload: '{}' } as const
  const account: readonly Op[] = [
    { name: 'user.remove', id: user, job },
    { name: 'user.forget', user_id: user, agents: [] }
  ]
  const thread: readonly Op[] = [
    { name: 'feedback.remove', thread_id, run_id, user },
    { name: 'feedback.removeById', feedback_id: 'f', thread_id, run_id, user },
    { name: 'run.remove', run_id, thread_id, user },
    { name: 'state.prune', thread_id },
    { name: 'thread.remove', thread_id, user },
    { name: 'thread.remove', thread_id, user: null, ifIdle: true }
  ]
  const own: readonly Op[] = [
    { name: 'item.remove', namespace: ['n'], key: 'k', user },
    { name: 'cron.remove', cron_id: 'c', user },
    { name: 'assistant.remove', assistant_id: 'a', user }
  ]
  return { thread: [...thread, ...account], user: [...thread, ...own, ...account] }
}

export function holdContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('holds are listed, newest first, and lifted one by one', async (t, store) => {
    await furnished(store)
    const [first, second] = [aHold('user', 'ann', 'first', 1), aHold('user', 'ann', 'second', 2)]
    for (const hold of [first, second]) t.equal(await write(store, { name: 'hold.put', hold }), true)
    t.strictSame(await store.holds.list({ limit: 9, offset: 0 }), [second, first])
    t.strictSame(await store.holds.list({ limit: 1, offset: 1 }), [first])
    t.strictSame(await store.holds.list({ target: 'bob', limit: 9, offset: 0 }), [])
    t.strictSame(await write(store, { name: 'hold.remove', hold_id: 'first' }), first)
    t.equal(await write(store, { name: 'hold.remove', hold_id: 'first' }), null)
    t.equal(await store.holds.isHeld('user', 'ann'), true, 'another one is left')
    t.strictSame(await store.holds.list({ target: 'ann', limit: 9, offset: 0 }), [second])
    await write(store, { name: 'hold.remove', hold_id: 'second' })
    t.equal(await store.holds.isHeld('user', 'ann'), false)
  })

  test('what is not there is not held', async (t, store) => {
    await furnished(store)
    t.equal(await hold(store, 'user', 'nobody'), false)
    t.equal(await hold(store, 'thread', 'ann'), false)
    await write(store, { name: 'thread.remove', thread_id: 'of-ann', user: null })
    t.equal(await hold(store, 'thread', 'of-ann'), false)
    t.strictSame(await store.holds.list({ limit: 9, offset: 0 }), [])
  })

  test('a hold of a user holds his threads, and one of a thread nothing else', async (t, store) => {
    await furnished(store)
    const held = async () => {
      const [of, ids] = [['thread', 'user', 'account'] as const, ['of-ann', 'ann', 'ann']]
      return Promise.all(of.map((scope, i) => store.holds.isHeld(scope, ids[i]!)))
    }
    t.strictSame(await held(), [false, false, false])
    await hold(store, 'thread', 'of-ann')
    t.strictSame(await held(), [true, false, true], 'the account would take the thread along')
    await lift(store, 'thread', 'of-ann')
    await hold(store, 'user', 'ann')
    t.strictSame(await held(), [true, true, true])
    t.strictSame(
      [await store.holds.isHeld('thread', 'of-bob'), await store.holds.isHeld('account', 'bob')],
      [false, false]
    )
  })

  test('a thread of everybody is held with a user who has a run in it', async (t, store) => {
    await furnished(store)
    await addThread(store, { thread_id: 'shared', user_id: null })
    await addRunOf(store, 'shared', 'ann')
    await hold(store, 'user', 'ann')
    t.equal(await store.holds.isHeld('thread', 'shared'), true)
    const [outcome] = await apply(store, [{ name: 'thread.remove', thread_id: 'shared', user: null }])
    t.match(outcome, { ok: false, isHeld: true })
  })

  for (const kind of ['thread', 'user'] as const)
    test(`while a ${kind} is held every op that deletes something of it is refused, and writes nothing [Store 13]`, async (t, store) => {
      const { ann } = await furnished(store)
      const assistant = anAssistant({ assistant_id: 'a', user_id: 'ann' })
      await write(store, { name: 'assistant.create', assistant, max: 9 })
      await hold(store, kind, kind === 'user' ? 'ann' : 'of-ann')
      const hasFeedback = store.feedback !== null
      const ops = deletions(ann!)[kind].filter(({ name }) => hasFeedback || !name.startsWith('feedback.'))
      for (const op of ops) {
        const [outcome, other] = await apply(store, [op], [{ name: 'store.ping' }])
        t.match(outcome, { ok: false, isHeld: true }, op.name)
        t.match(other, { ok: true }, 'other groups are written [Store 2]')
      }
      t.ok(await store.threads.get('of-ann', 'ann'))
      t.ok(await store.runs.get(ann!, 'ann'))
      t.ok(await store.users.byId('ann'))
      t.ok(await store.assistants.get('a', 'ann'))
      t.equal(
        await write(store, { name: 'thread.remove', thread_id: 'of-bob', user: 'bob' }),
        true,
        'others are not held'
      )
      await lift(store, kind, kind === 'user' ? 'ann' : 'of-ann')
      for (const op of ops) t.match(await apply(store, [op]), [{ ok: true }], `${op.name} afterwards`)
    })

  test('what is held is not replaced by other words, but by the same and by agents [Store 13]', async (t, store) => {
    const { ann } = await furnished(store)
    const cron = aCron({ cron_id: 'c', user_id: 'ann' })
    const feedback = aFeedback({ run_id: ann!, thread_id: 'of-ann' })
    const put = (said: string, isEdit: boolean): Op => {
      const item = anItem({ user_id: 'ann', value: { said } })
      return { name: 'item.put', item, now: time(1), max: { items: 9, bytes: 9999 }, isEdit }
    }
    const setOf = (set: CronPatch): Op => ({ name: 'cron.update', cron_id: 'c', set, user: 'ann', now: time(2) })
    const rated = (comment: string): Op => ({ name: 'feedback.upsert', feedback: { ...feedback, comment } })
    const ratings = store.feedback === null ? [] : [rated('fine')]
    for (const op of [{ name: 'cron.create', cron, max: 9 } as const, put('x', true), ...ratings])
      await write(store, op)
    await hold(store, 'user', 'ann')
    const replacing = [
      put('y', true),
      setOf({ payload: { input: 'y' } }),
      setOf({ metadata: { about: 'y' } }),
      ...(store.feedback === null ? [] : [rated('bad')])
    ]
    for (const op of replacing) t.match(await apply(store, [op]), [{ ok: false, isHeld: true }], op.name)
    const { payload, metadata } = cron
    const others = [
      put('x', true),
      setOf({ enabled: false, payload: { ...payload, caller: { permissions: [] } }, metadata })
    ]
    for (const op of [...others, ...ratings, put('y', false)])
      t.match(await apply(store, [op]), [{ ok: true }], op.name)
    await lift(store, 'user', 'ann')
    for (const op of replacing) t.match(await apply(store, [op]), [{ ok: true }], `${op.name} afterwards`)
  })

  for (const kind of ['thread', 'user'] as const)
    test(`nothing of a held ${kind} is old enough to go, nor counted as such [Store 13]`, async (t, store) => {
      const { ann, bob } = await furnished(store)
      // Events may be elsewhere.
      const all = await store.retention.count('events', LATER)
      await hold(store, kind, kind === 'user' ? 'ann' : 'of-ann')
      const isOf = { events: all / 2, runs: 1, threads: 1, audit: kind === 'user' ? 1 : 2 }
      for (const of of RETAINED) {
        t.equal(await store.retention.count(of, LATER), isOf[of], of)
        const sweep = { name: 'retention.sweep', of, before: LATER, limit: 9 } as const
        t.equal(await write(store, sweep), isOf[of], of)
      }
      t.ok(await store.runs.get(ann!, 'ann'))
      t.equal(await store.runs.get(bob!, 'bob'), null)
      t.equal((await store.events.listEvents('of-ann', ann!, { limit: 9 }, null)).length > 0, true)
      t.equal(await store.jobs.get('removal', 'of-ann'), null)
      t.ok(await store.jobs.get('removal', 'of-bob'))
      await lift(store, kind, kind === 'user' ? 'ann' : 'of-ann')
      t.equal(await write(store, { name: 'retention.sweep', of: 'runs', before: LATER, limit: 9 }), 1)
    })

  test('frames of a held run are not swept [Store 13]', async (t, store) => {
    const keys: number[] = []
    for (const id of ['ann', 'bob']) {
      await addThread(store, { thread_id: `of-${id}`, user_id: id })
      const { key } = await addRunOf(store, `of-${id}`, id)
      const segment = { epoch: 1, first: 0, last: 0, index: Buffer.alloc(0), data: Buffer.from('x') }
      await write(store, { name: 'frames.append', run_key: key, thread_id: `of-${id}`, segment })
      keys.push(key)
    }
    await hold(store, 'thread', 'of-ann')
    const sweep = () => write(store, { name: 'frames.sweep', before: LATER, after: 0, limit: 99 })
    t.equal((await sweep()).removed, 1)
    await lift(store, 'thread', 'of-ann')
    t.equal((await sweep()).removed, 1)
  })

  test('of a hold and a deletion at the same time one comes first [Store 13]', async (t, store) => {
    const ids = Array.from({ length: 20 }, (_, i) => `t${i}`)
    for (const thread_id of ids) await addThread(store, { thread_id, user_id: 'ann' })
    await Promise.all(
      ids.map(async (thread_id) => {
        const put: Op = { name: 'hold.put', hold: aHold('thread', thread_id) }
        const [held, removed] = await Promise.all([
          apply(store, [put]),
          apply(store, [{ name: 'thread.remove', thread_id, user: null }])
        ])
        const isHeld = held[0]?.ok === true && held[0].results[0] === true
        t.equal(isHeld, (await store.threads.get(thread_id, null)) !== null, 'it is held, or gone')
        t.equal(removed[0]?.ok, !isHeld)
      })
    )
  })
}
