// Obligations of TtlReads and the ops of times to live.
import type { Test } from 'tap'
import type { ThreadTtl } from '../../lib/store/store.ts'
import { type Open, rules, time, write } from './harness.ts'

const aTtl = (thread_id: string, expires: number, minutes = 5): ThreadTtl => ({
  thread_id,
  made_at: time(0),
  minutes,
  expires_at: time(expires)
})

export function ttlStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)

  test('a thread has one time to live, the last that it was given', async (t, store) => {
    t.equal(await store.ttls.get('a'), null)
    await write(store, { name: 'ttl.set', ttl: aTtl('a', 5) })
    await write(store, { name: 'ttl.set', ttl: aTtl('a', 9, 0.5) })
    t.strictSame(await store.ttls.get('a'), aTtl('a', 9, 0.5))
    await write(store, { name: 'ttl.remove', thread_id: 'a' })
    t.equal(await store.ttls.get('a'), null)
    t.equal(await write(store, { name: 'ttl.remove', thread_id: 'a' }), null)
  })

  test('those that are over are found, the first that ended first', async (t, store) => {
    for (const [id, second] of [
      ['a', 3],
      ['b', 1],
      ['c', 2],
      ['d', 9]
    ] as const)
      await write(store, { name: 'ttl.set', ttl: aTtl(id, second) })
    const due = async (second: number, limit = 9) =>
      (await store.ttls.due(time(second), limit)).map(({ thread_id }) => thread_id)
    t.strictSame(await due(5), ['b', 'c', 'a'])
    t.strictSame(await due(5, 2), ['b', 'c'])
    t.strictSame(await due(1), [])
  })
}
