// The memory store keeps every obligation of lib/store/store.ts but durability, and its frames are bounded.
import t from 'tap'
import { openMemoryEvents } from '../../lib/store/memory/event-store.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { Store } from '../../lib/store/store.ts'
import type { Run } from '../../lib/types.ts'
import {
  applyContract,
  eventsOverMemory,
  eventStoreContract,
  feedbackStoreContract,
  storeContract,
  threadStoreContract
} from '../contract/index.ts'
import { splitStore } from '../../lib/store/split/open.ts'
import {
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  apply,
  aSettlement,
  refuses,
  time,
  write,
  messageCount,
  someEvents
} from '../contract/harness.ts'

storeContract(t, 'memory', async () => {
  const store = openMemoryStore()
  return { store, close: () => store.close() }
})

t.test('memory, with feedback', async (t) => {
  const open = async () => {
    const store = openMemoryStore({ feedback: true })
    return { store, close: () => store.close() }
  }
  t.test('apply', async (t) => applyContract(t, open))
  t.test('feedback', async (t) => feedbackStoreContract(t, open))
})

t.test('memory, with events beside it', async (t) => {
  const open = eventsOverMemory(async () => ({ events: openMemoryEvents() }))
  t.test('apply', async (t) => applyContract(t, open))
  t.test('threads', async (t) => threadStoreContract(t, open))
  t.test('events', async (t) => eventStoreContract(t, open))
})

t.test('the memory store has no feedback unless it is asked for [Errors]', async (t) => {
  const store = openMemoryStore()
  t.equal(store.feedback, null)
  const run = await addEndedRun(store, (await addThread(store)).thread_id)
  const feedback = {
    feedback_id: 'f',
    run_id: run.run_id,
    thread_id: run.thread_id,
    user_id: 'ann',
    message_id: null,
    rating: 1,
    comment: null,
    created_at: time(0)
  } as const
  await refuses(t, store, { name: 'feedback.upsert', feedback }, 'a write that slipped through is refused')
})

t.test('what a caller does with a read it has unbound is a read all the same', async (t) => {
  const { threads, users } = openMemoryStore()
  const { get } = threads
  t.equal(await get('missing', null), null)
  t.equal(await users.admin(), null)
})

const append = (run: Run, first: number, bytes: number) => {
  const segment = { epoch: 1, first, last: first, index: new Uint8Array(5), data: new Uint8Array(bytes) }
  return { name: 'frames.append', run_key: run.key, thread_id: run.thread_id, segment } as const
}

async function addFrames(store: Store, run: Run, bytes: number): Promise<void> {
  await write(store, append(run, 0, bytes))
}

t.test('frames of ended runs are dropped when the bytes kept are too many: the first that ended first', async (t) => {
  const store = openMemoryStore({ frameBytesMax: 1000 })
  const { thread_id } = await addThread(store)
  const runs: Run[] = []
  for (let n = 0; n < 4; n++) runs.push(await addRun(store, thread_id))
  const [a, b, c, d] = runs as [Run, Run, Run, Run] // four were made above
  const kept = async () =>
    (await Promise.all(runs.map((run) => store.frames.bounds(run.key)))).map((bounds) => bounds !== null)

  await addFrames(store, a, 400)
  await addFrames(store, b, 400)
  await write(store, aSettlement(b))
  await write(store, aSettlement(a))
  t.strictSame(await kept(), [true, true, false, false], 'what fits is kept')
  await addFrames(store, c, 400)
  t.strictSame(await kept(), [true, false, true, false], 'b ended first')
  await addFrames(store, d, 900)
  t.strictSame(await kept(), [false, false, true, true], 'what is in flight stays, however much it is')
  await write(store, aSettlement(d))
  t.strictSame(await kept(), [false, false, true, false], 'and goes when it has ended')
  t.strictSame(await store.frames.read(d.key, 0, 1), [], 'a joiner finds nothing there, which it is told as a gap')
})

t.test('frames of a group that is refused, or of a thread that was removed, take no space', async (t) => {
  const store = openMemoryStore({ frameBytesMax: 1000 })
  const ended = await addRun(store, (await addThread(store)).thread_id)
  await addFrames(store, ended, 900)
  await write(store, aSettlement(ended))
  const { thread_id } = await addThread(store)
  const run = await addRun(store, thread_id)
  const remove = { name: 'thread.remove', thread_id, user: null } as const
  const refused = { name: 'seq.move', thread_id, from: 99, to: 100 } as const
  await apply(store, [append(run, 0, 900), refused])
  t.not(await store.frames.bounds(ended.key), null, 'refused')
  await write(store, append(run, 0, 50))
  await apply(store, [remove, refused])
  await write(store, remove)
  t.not(await store.frames.bounds(ended.key), null, 'removed')
  const last = await addRun(store, (await addThread(store)).thread_id)
  await addFrames(store, last, 85)
  t.not(await store.frames.bounds(ended.key), null, 'the count is exact: 905 + 90 bytes fit')
  await write(store, append(last, 1, 1))
  t.equal(await store.frames.bounds(ended.key), null, 'and one more segment does not')
})

t.test(
  'a full memory database forgets the idle thread that was not written for longest, with all that is its',
  async (t) => {
    const forgotten: string[] = []
    const store = openMemoryStore({ bytesMax: 40_000, onForget: (threadId) => forgotten.push(threadId) })
    const runs: Run[] = []
    const say = (run: Run, k: number) => addEvents(store, run, [anEvent(k, { content: 'x'.repeat(8_000) })])
    for (let n = 0; n < 3; n++) {
      const run = await addRun(store, (await addThread(store)).thread_id)
      await say(run, 0)
      runs.push(run)
    }
    const [a, b, c] = runs as [Run, Run, Run] // three were made above
    await write(store, aSettlement(b))
    await write(store, aSettlement(c))
    t.strictSame(forgotten, [], 'what fits is kept')
    await say(c, 1)
    t.strictSame(forgotten, [b.thread_id], 'a is older, and in flight')
    t.equal(await store.threads.ownerOf(b.thread_id), undefined)
    t.equal(await store.runs.get(b.run_id, null), null)
    t.strictSame(await store.events.listEvents(b.thread_id, b.run_id, { limit: 9 }, null), [])
    t.equal(await messageCount(store, a.thread_id, null), 1)
    t.equal(await messageCount(store, c.thread_id, null), 2)
    await write(store, aSettlement(a))
    await addThread(store, { thread_id: b.thread_id })
    t.equal(await messageCount(store, b.thread_id, null), 0, 'the same id made anew is empty')
  }
)

t.test('events in memory beside a database have a bound of their own', async (t) => {
  const forgotten: string[] = []
  const events = openMemoryEvents({ bytesMax: 20_000, onForget: (threadId) => forgotten.push(threadId) })
  const store = splitStore(openMemoryStore(), events)
  const runs = []
  for (let n = 0; n < 3; n++) runs.push(await addRun(store, (await addThread(store)).thread_id))
  for (const run of runs) await addEvents(store, run, [anEvent(0, { content: 'x'.repeat(8_000) })])
  t.strictSame(forgotten, [runs[0]!.thread_id])
  t.strictSame(await Promise.all(runs.map(({ thread_id }) => messageCount(store, thread_id, null))), [0, 1, 1])
  t.equal(await addEvents(store, runs[0]!, [anEvent(1)]), 2, 'and no seq is given twice')
})

t.test('messages are found by their ids without a look through all of them for each record', async (t) => {
  const events = openMemoryEvents()
  const of = { thread_id: 't', run_id: 'r', user_id: null }
  await events.append(someEvents(1, 3000).map((event) => ({ ...event, ...of, seq: event.k })))
  const messageIds = Array.from({ length: 3000 }, (_, n) => `message-${n + 1}`)
  let looks = 0
  messageIds.includes = () => {
    looks++
    return true
  }
  const query = { threadId: 't', owner: null, after: 0, before: 1e9, messageIds }
  t.equal((await events.select(query, 1e9, 'last')).length, 3000)
  t.equal(looks, 0)
})
