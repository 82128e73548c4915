// Threads whose time to live is over.
import t from 'tap'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { Store, Writer } from '../../lib/store/store.ts'
import { ThreadExpiry } from '../../lib/thread/expiry.ts'
import { addRun, addThread, aSettlement, time, write } from '../contract/harness.ts'

function setUp(store: Store) {
  const writer: Writer = { write: (op) => write(store, op) }
  const remove = (thread_id: string) => write(store, { name: 'thread.remove', thread_id, user: null })
  const expiry = new ThreadExpiry({ store, writer, remove, onTrouble: () => {} })
  return (second: number) => expiry.sweep(Date.parse(time(second)))
}

const live = (store: Store, thread_id: string, expires: number) =>
  write(store, {
    name: 'ttl.set',
    ttl: { thread_id, made_at: time(0), minutes: 1, expires_at: time(expires) }
  })

t.test('a thread goes when its time is over, and not before', async (t) => {
  const store = openMemoryStore()
  const sweep = setUp(store)
  const { thread_id } = await addThread(store)
  const other = await addThread(store)
  await live(store, thread_id, 10)
  t.equal(await sweep(9), 0)
  t.equal(await sweep(11), 1)
  t.equal(await store.threads.get(thread_id, null), null)
  t.equal(await store.ttls.get(thread_id), null)
  t.ok(await store.threads.get(other.thread_id, null))
})

t.test('one that is at work waits until it has done', async (t) => {
  const store = openMemoryStore()
  const sweep = setUp(store)
  const { thread_id } = await addThread(store)
  const run = await addRun(store, thread_id)
  await live(store, thread_id, 10)
  t.equal(await sweep(11), 0)
  await write(store, aSettlement(run))
  t.equal(await sweep(12), 1)
})

t.test('a thread that was made anew under its id has none of the old time', async (t) => {
  const store = openMemoryStore()
  const sweep = setUp(store)
  const { thread_id } = await addThread(store)
  await live(store, thread_id, 10)
  await write(store, { name: 'thread.remove', thread_id, user: null })
  await addThread(store, { thread_id, created_at: time(5) })
  t.equal(await sweep(11), 0)
  t.ok(await store.threads.get(thread_id, null))
  t.equal(await store.ttls.get(thread_id), null)
})
