// The memory store keeps every obligation of lib/store/store.ts but durability, and its frames are bounded.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { FrameBound, openMemoryStore } from '../../lib/store/memory/open.ts'
import { heapAfterGc } from '../fixtures/heap.ts'
import { openMemoryEvents } from '../../lib/store/memory/event-store.ts'
import type { NewRun, OpName, OpOf, Store } from '../../lib/store/store.ts'
import { connect } from '../../lib/store/sqlite/connection.ts'
import { migrate } from '../../lib/store/sqlite/schema.ts'
import type { Run } from '../../lib/base/types.ts'
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
  aCheckpoint,
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  apply,
  aRun,
  aSettlement,
  refuses,
  time,
  write,
  messageCount,
  someEvents
} from '../contract/harness.ts'

function createOp(run: NewRun): OpOf<'run.create'> {
  return { name: 'run.create', run, autoFollowUp: false }
}

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

t.test('what a memory database refuses to store counts as nothing, and what is gone leaves nothing', async (t) => {
  const forgotten: string[] = []
  const store = openMemoryStore({ bytesMax: 60_000, onForget: (threadId) => forgotten.push(threadId) })
  const other = await addThread(store)
  const mine = await addThread(store)
  const long = { kwargs: { long: 'x'.repeat(20_000) } }
  const run = await addRun(store, mine.thread_id, { idempotency_key: 'k', idempotency_hash: 'h' })
  const checkpoint = aCheckpoint(mine.thread_id)
  const refusals: readonly [string, OpOf<OpName>, unknown][] = [
    ['a busy thread', createOp(aRun(mine.thread_id, { ...long, multitask_strategy: 'reject' })), 'busy'],
    ['no thread', createOp(aRun('none', long)), 'thread_missing'],
    [
      'a repeated key',
      createOp(aRun(mine.thread_id, { ...long, idempotency_key: 'k', idempotency_hash: 'h' })),
      'repeated'
    ],
    [
      'a key with another body',
      createOp(aRun(mine.thread_id, { ...long, idempotency_key: 'k', idempotency_hash: 'other' })),
      'key_reused'
    ],
    [
      'a thread that is there',
      { name: 'thread.create', thread: { ...mine, metadata: { long: long.kwargs.long } }, checkpoint },
      undefined
    ],
    [
      'an update while a run is in flight',
      {
        name: 'state.update',
        thread_id: mine.thread_id,
        base: null,
        checkpoint_id: 'c',
        now: time(1),
        messages: null,
        channels: { long: JSON.stringify(long.kwargs.long) },
        as_node: null,
        title: null
      },
      'busy'
    ]
  ]
  for (const [what, op, outcome] of refusals) {
    for (let n = 0; n < 5; n++) {
      const result: unknown = await write(store, op)
      if (outcome !== undefined) t.match(result, { outcome }, what)
    }
    t.strictSame(forgotten, [], what)
  }
  t.equal(await store.threads.ownerOf(other.thread_id), 'ann', 'nobody has lost a thread')
  await write(store, aSettlement(run))
  t.equal(await write(store, aSettlement(run)), false, 'it has ended already')
  await addEvents(store, run, [anEvent(0, { content: 'x'.repeat(25_000) })])
  const copy = await addThread(store)
  await write(store, { name: 'state.copy', from: mine.thread_id, thread_id: copy.thread_id })
  const last = await addThread(store)
  await write(store, { name: 'state.copy', from: mine.thread_id, thread_id: last.thread_id })
  t.ok(forgotten.includes(other.thread_id), 'a copy takes what its original takes')
})

t.test('an ended run of a thread that is gone keeps no bytes', async (t) => {
  const db = connect(':memory:')
  migrate(db)
  const bound = new FrameBound(db, 1)
  const round = (size: number) => {
    const thread_id = randomUUID()
    for (let n = 0; n < size; n++) bound.written(aSettlement({ run_id: randomUUID(), thread_id }))
    bound.written({ name: 'thread.remove', thread_id, user: null })
  }
  round(1_000)
  const before = await heapAfterGc()
  for (let n = 0; n < 20; n++) round(1_000)
  const each = ((await heapAfterGc()) - before) / 20_000
  // An id alone is 36; what a collection leaves behind is some 20.
  t.ok(each < 40, `${each.toFixed(0)} bytes a run`)
  db.close()
})

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
