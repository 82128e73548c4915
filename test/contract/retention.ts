// Obligations of RetentionReads and `retention.sweep`.
import type { Test } from 'tap'
import type { AuditEntry } from '../../lib/base/accounts.ts'
import { RETAINED, type Retained, type Store } from '../../lib/store/store.ts'
import {
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  eventsOf,
  type Open,
  rules,
  startRun,
  time,
  write
} from './harness.ts'

const sweep = (store: Store, of: Retained, second: number, limit = 100) =>
  write(store, { name: 'retention.sweep', of, before: time(second), limit })

const aLine = (n: number): Omit<AuditEntry, 'audit_id'> => {
  const [actor, target, address] = ['user:ann', null, null]
  return { at: time(n), action: 'sign_in', actor, target, address, request_id: null, details: { n } }
}

export function retentionContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('nothing that is young enough is taken, nor counted', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann', updated_at: time(10) })
    await addEndedRun(store, 't')
    await write(store, { name: 'audit.add', entry: aLine(0) })
    for (const of of RETAINED)
      t.strictSame([await store.retention.count(of, time(0)), await sweep(store, of, 0)], [0, 0])
    t.equal((await store.runs.list('t', { limit: 9, offset: 0 }, null)).length, 1)
  })

  test('of the audit the oldest lines go first, as many as are asked for', async (t, store) => {
    for (const n of [1, 2, 3, 4]) await write(store, { name: 'audit.add', entry: aLine(n) })
    t.equal(await store.retention.count('audit', time(4)), 3)
    t.equal(await sweep(store, 'audit', 4, 2), 2)
    const left = async () => (await store.audit.list({ limit: 9 })).map(({ details }) => details.n)
    t.strictSame(await left(), [4, 3])
    t.equal(await sweep(store, 'audit', 4, 2), 1)
    t.strictSame(await left(), [4])
  })

  test('an ended run goes, and its messages stay; one in flight stays', async (t, store) => {
    await addThread(store, { thread_id: 't', user_id: 'ann' })
    const old = await addEndedRun(store, 't')
    await addEvents(store, old, [anEvent(90)])
    const going = await addRun(store, 't')
    await startRun(store, going)
    const later = '2030-01-01T00:00:00.000000+00:00'
    t.equal(await store.retention.count('runs', later), 1)
    t.equal(await write(store, { name: 'retention.sweep', of: 'runs', before: later, limit: 9 }), 1)
    t.strictSame(
      (await store.runs.list('t', { limit: 9, offset: 0 }, null)).map(({ run_id }) => run_id),
      [going.run_id]
    )
    t.ok((await eventsOf(store, old)).some(({ category }) => category === 'message'))
  })

  test('a thread that nothing has changed gets a removal that is due, once', async (t, store) => {
    await addThread(store, { thread_id: 'old', user_id: 'ann', updated_at: time(1) })
    await addThread(store, { thread_id: 'used', user_id: 'ann', updated_at: time(9) })
    t.equal(await store.retention.count('threads', time(5)), 1)
    t.equal(await sweep(store, 'threads', 5), 1)
    const job = await store.jobs.get('removal', 'old')
    t.match(job, { user_id: 'ann', thread_id: 'old', owner: null })
    t.match(JSON.parse(job!.payload), { unused_since: time(5) })
    t.equal(await store.jobs.get('removal', 'used'), null)
    t.strictSame([await store.retention.count('threads', time(5)), await sweep(store, 'threads', 5)], [0, 0])
    await addThread(store, { thread_id: 'lives', user_id: 'ann', updated_at: time(1) })
    const own = { kind: 'removal', key: 'lives', user_id: 'ann', thread_id: 'lives', due: time(900) } as const
    await write(store, { name: 'job.put', job: { ...own, payload: '{"minutes":60}' } })
    t.equal(await sweep(store, 'threads', 5), 0, 'one with a time to live goes by that')
    t.match(await store.jobs.get('removal', 'lives'), { due_at: time(900) })
  })
}
