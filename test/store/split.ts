// Events beside the database: what holds when one of the two places fails, or the process dies, between the append and the commit.
import t, { type Test } from 'tap'
import { openMemoryEvents } from '../../lib/store/memory/event-store.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { openSplitStore, splitStore } from '../../lib/store/split/open.ts'
import { type EventStore, type Group, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
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
  aThread,
  someEvents,
  write,
  messageCount
} from '../contract/harness.ts'

/** Both places, and ways to break them. */
interface Halves {
  readonly events: EventStore
  /** The split store of the first process. */
  readonly store: Store
  /** Another one on the same places, as the next process makes it. */
  again(warn?: (fields: object, text: string) => void): Store
  /** What the next calls of the database come to; none: all goes well. */
  script: ('fine' | 'fails' | 'commits and fails')[]
  /** What `append` of the event store rejects with, once. */
  disk: Error | null
  /** How `truncate` of the event store was called: nextSeq, isDisputed. */
  readonly truncated: [number, boolean][]
}

function open(): Halves {
  const memory = openMemoryStore()
  const inner = openMemoryEvents()
  const halves: Halves = {
    events: {
      ...inner,
      async append(records) {
        const error = halves.disk
        halves.disk = null
        // A part of it has come through: [EventStore b].
        await inner.append(error ? records.slice(0, 1) : records)
        if (error) throw error
      },
      truncate(threadId, nextSeq, isDisputed) {
        halves.truncated.push([nextSeq, isDisputed])
        return inner.truncate(threadId, nextSeq, isDisputed)
      }
    },
    script: [],
    disk: null,
    truncated: [],
    get store() {
      return store
    },
    again: (warn) => splitStore(database, halves.events, warn)
  }
  const database: Store = {
    ...memory,
    async apply(groups: readonly Group[]) {
      const what = halves.script.shift() ?? 'fine'
      if (what === 'fails') throw new StoreUnavailable('TEST', 'before the commit')
      const outcomes = await memory.apply(groups)
      if (what === 'commits and fails') throw new StoreUnavailable('TEST', 'behind the commit')
      return outcomes
    }
  }
  const store = halves.again()
  return halves
}

async function furnished(halves: Halves): Promise<Run> {
  const { thread_id } = await addThread(halves.store)
  const run = await addRun(halves.store, thread_id)
  await addEvents(halves.store, run, someEvents(0, 2))
  return run
}

function append(run: Run, from: number, n: number) {
  const { thread_id, run_id } = run
  return { name: 'events.append', thread_id, run_id, user_id: 'ann', events: someEvents(from, n) } as const
}

async function seqsOf(store: Store, { thread_id, run_id }: Run): Promise<number[]> {
  return (await store.events.listEvents(thread_id, run_id, { limit: 99 }, null)).map(({ seq }) => seq)
}

/** All that lies in the event store, committed or not. */
async function lying({ events }: Halves, { thread_id: threadId }: Run): Promise<number[]> {
  const all = { threadId, owner: null, after: 0, before: Number.MAX_SAFE_INTEGER }
  return (await events.select(all, 99, 'first')).map(({ seq }) => seq)
}

async function isSeen(t: Test, store: Store, run: Run, count: number): Promise<void> {
  const { thread_id, run_id } = run
  t.equal((await store.events.listMessages(thread_id, { limit: 99 }, null)).length, count, 'listMessages')
  t.equal((await store.events.listMessages(thread_id, { limit: 99, after: 0 }, null)).length, count, 'forwards')
  t.equal((await store.events.listMessagesByRun(thread_id, run_id, { limit: 99 }, null)).length, count, 'of the run')
  t.equal((await store.events.listEvents(thread_id, run_id, { limit: 99 }, null)).length, count, 'listEvents')
  t.equal(await messageCount(store, thread_id, null), count, 'countMessages')
  const ids = Array.from({ length: 9 }, (_, k) => `message-${k}`)
  t.equal((await store.events.runsOfMessages(thread_id, ids, null)).size, count, 'runsOfMessages')
  t.equal(await store.events.lastK(thread_id, run_id), count - 1, 'lastK')
}

t.test(
  "records that were appended and not committed are nobody's, and go before the next append [Store 2]",
  async (t) => {
    const halves = open()
    const run = await furnished(halves)
    halves.script = ['fails']
    await t.rejects(halves.store.apply([{ ops: [append(run, 2, 2), aSettlement(run)] }]), StoreUnavailable)
    t.strictSame(await lying(halves, run), [1, 2, 3, 4])
    await isSeen(t, halves.store, run, 2)
    const other = await addRun(halves.store, run.thread_id)
    t.equal(await addEvents(halves.store, other, someEvents(0, 1)), 3, 'nobody saw their seqs: we wrote them ourselves')
    t.strictSame(await lying(halves, run), [1, 2, 3])
    t.strictSame(halves.truncated, [[3, false]])
  }
)

t.test(
  'records beyond the counter that a process finds are set aside, and their seqs are not given again [Store 5]',
  async (t) => {
    const halves = open()
    const run = await furnished(halves)
    halves.script = ['fails']
    await t.rejects(halves.store.apply([{ ops: [append(run, 2, 2), aSettlement(run)] }]), StoreUnavailable)
    const next = halves.again()
    await isSeen(t, next, run, 2)
    t.equal((await next.runs.get(run.run_id, null))?.status, 'pending')
    const other = await addRun(next, run.thread_id)
    t.equal(await addEvents(next, other, someEvents(0, 1)), 5)
    t.strictSame(halves.truncated, [[3, true]])
    t.strictSame(await lying(halves, run), [1, 2, 5])
    t.equal(await addEvents(halves.again(), other, someEvents(1, 1)), 6, 'and the counter has moved')
    t.strictSame(halves.truncated, [[3, true]], 'once')
  }
)

t.test(
  'the same batch handed over again is written once, whether it was committed before or not [Store 3]',
  async (t) => {
    for (const what of ['fails', 'commits and fails'] as const) {
      const halves = open()
      const run = await furnished(halves)
      const groups = [{ ops: [append(run, 2, 2)] }, { ops: [append(run, 4, 1)] }]
      halves.script = [what]
      await t.rejects(halves.store.apply(groups), StoreUnavailable, what)
      await isSeen(t, halves.store, run, what === 'fails' ? 2 : 4)
      t.strictSame(await halves.store.apply(groups), [
        { ok: true, results: [3] },
        { ok: true, results: [5] }
      ])
      t.strictSame(await seqsOf(halves.store, run), [1, 2, 3, 4, 5], what)
    }
  }
)

t.test('an append that fails half-way leaves nothing, and may be made again', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  halves.disk = new StoreUnavailable('ENOSPC', 'no space')
  await t.rejects(addEvents(halves.store, run, someEvents(2, 2)), StoreUnavailable)
  await isSeen(t, halves.store, run, 2)
  t.equal(await addEvents(halves.store, run, someEvents(2, 2)), 3)
  t.strictSame(await lying(halves, run), [1, 2, 3, 4])
})

t.test('a group behind one that is refused gets the seqs of that one [Store 5]', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  const refused = { name: 'seq.move', thread_id: 'missing', from: 1, to: 1 } as const
  const outcomes = await halves.store.apply([
    { ops: [append(run, 2, 1)] },
    { ops: [append(run, 3, 2), refused] },
    { ops: [append(run, 3, 1)] },
    { ops: [append(run, 4, 1)] }
  ])
  t.match(outcomes, [{ ok: true, results: [3] }, { ok: false }, { ok: true, results: [4] }, { ok: true, results: [5] }])
  t.strictSame(await lying(halves, run), [1, 2, 3, 4, 5])
})

t.test(
  'what follows a commit is tried until it is done: nothing of it can be refused any more [Store 3]',
  async (t) => {
    const halves = open()
    const run = await furnished(halves)
    const refused = { name: 'seq.move', thread_id: 'missing', from: 1, to: 1 } as const
    const groups = [{ ops: [append(run, 2, 1), refused] }, { ops: [append(run, 2, 1)] }]
    halves.script = ['fine', 'fails', 'fails']
    t.match(await halves.store.apply(groups), [{ ok: false }, { ok: true, results: [3] }])
    t.strictSame(halves.script, [], 'it was tried again')
    t.strictSame(await lying(halves, run), [1, 2, 3])
  }
)

t.test('what an earlier thread of the same id left behind does not show under the new one', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  const { thread_id } = run
  const removing = halves.events.remove
  halves.events.remove = async () => {
    throw new StoreUnavailable('EIO', 'not now')
  }
  t.equal(
    await write(halves.store, { name: 'thread.remove', thread_id, user: null }),
    true,
    'the thread is gone all the same'
  )
  halves.events.remove = removing
  t.strictSame(await lying(halves, run), [1, 2])
  await isSeen(t, halves.store, run, 0)
  await addThread(halves.store, { thread_id })
  await isSeen(t, halves.store, run, 0)
  const fresh = await addRun(halves.store, thread_id)
  t.equal(await addEvents(halves.store, fresh, someEvents(0, 3)), 1)
  t.strictSame(await seqsOf(halves.again(), fresh), [1, 2, 3])
  t.strictSame(await seqsOf(halves.again(), run), [])
})

t.test('a removal that a crash has interrupted is finished by the next start', async (t) => {
  const halves = open()
  const [gone, kept] = [await furnished(halves), await furnished(halves)]
  let announced: readonly string[] = []
  halves.events.setTombstones = async (threadIds) => {
    announced = threadIds
  }
  halves.events.tombstones = async () => announced
  const remove = ({ thread_id }: Run) => ({ name: 'thread.remove', thread_id, user: null }) as const
  // The process dies behind the commit of one removal, and before that of another.
  halves.script = ['commits and fails']
  await t.rejects(apply(halves.store, [remove(gone)]), StoreUnavailable)
  t.strictSame(announced, [gone.thread_id])
  announced = [gone.thread_id, kept.thread_id]
  await openSplitStore(halves.store, halves.events, () => {})
  t.strictSame([await lying(halves, gone), await lying(halves, kept)], [[], [1, 2]])
  t.strictSame(announced, [])
  await apply(halves.store, [remove(kept)])
  t.strictSame([await lying(halves, kept), announced], [[], []], 'and without a crash nothing stays announced')
  const lost = await furnished(halves)
  halves.script = ['commits and fails']
  await t.rejects(apply(halves.store, [remove(lost)]), StoreUnavailable)
  t.match(await apply(halves.store, [remove(lost)]), [{ ok: true, results: [false] }], 'it was removed the first time')
  t.strictSame([await lying(halves, lost), announced], [[], []], 'an answer that got lost is looked up')
})

t.test('a late append for a removed thread writes nothing anywhere [Store 8]', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  const remove = { name: 'thread.remove', thread_id: run.thread_id, user: null } as const
  const [removed, late] = await apply(halves.store, [remove], [append(run, 2, 1)])
  t.match([removed, late], [{ ok: true, results: [true] }, { ok: false }])
  t.match(await apply(halves.store, [append(run, 2, 1)]), [{ ok: false }])
  t.strictSame(await lying(halves, run), [])
})

t.test('events of a thread in the group that removes it are refused with the group', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  const { thread_id } = run
  const removal = { name: 'thread.remove', thread_id, user: null } as const
  t.match(await apply(halves.store, [removal, append(run, 2, 1)]), [{ ok: false }])
  await isSeen(t, halves.store, run, 2)
})

t.test('batches handed over at the same time are written one after the other', async (t) => {
  const halves = open()
  const run = await furnished(halves)
  const firsts = await Promise.all([2, 3, 4, 5].map((k) => addEvents(halves.store, run, [anEvent(k)])))
  t.strictSame(firsts, [3, 4, 5, 6])
  t.strictSame(await lying(halves, run), [1, 2, 3, 4, 5, 6])
})

t.test('a thread takes events of any number of runs: 1,001 and 2,002 are no limits', async (t) => {
  const { store } = open()
  const { thread_id } = await addThread(store)
  const wrong: number[] = []
  for (let n = 1; n <= 2005; n++) {
    const run = await addEndedRun(store, thread_id)
    const [outcome] = await apply(store, [append(run, 0, 1)])
    if (!outcome?.ok || outcome.results[0] !== n) wrong.push(n)
  }
  t.strictSame(wrong, [])
})

t.test('groups are written in the order of their batch, whatever waits for another round [Store 2]', async (t) => {
  const halves = open()
  const { store } = halves
  const run = await furnished(halves)
  const { thread_id } = run
  const remove = { name: 'thread.remove', thread_id, user: null } as const
  const create = { name: 'thread.create', thread: aThread({ thread_id }), checkpoint: aCheckpoint(thread_id) } as const
  const again = { name: 'run.create', run: aRun(thread_id), autoFollowUp: false } as const
  const outcomes = await apply(
    store,
    [append(run, 2, 1)],
    [remove],
    [create],
    [again],
    [{ ...append(run, 0, 2), run_id: again.run.run_id }],
    [remove],
    [append(run, 3, 1)]
  )
  t.match(outcomes, [
    { ok: true, results: [3] },
    { ok: true, results: [true] },
    { ok: true, results: [{ created: true }] },
    { ok: true, results: [{ outcome: 'created', run: { ordinal: 1 } }] },
    { ok: true, results: [1] },
    { ok: true, results: [true] },
    { ok: false }
  ])
})

t.test(
  'a round behind one that is committed is divided when it is rejected, and refuses one group alone',
  async (t) => {
    const halves = open()
    const run = await furnished(halves)
    const other = await furnished(halves)
    const groups = [[append(run, 2, 1)], [append(run, 3, 1)], [append(other, 2, 1)]]
    const inner = halves.events.append
    halves.events.append = (records) => {
      if (records.some(({ k, run_id }) => k === 3 && run_id === run.run_id))
        return Promise.reject(new Error('not this one'))
      return inner(records)
    }
    t.match(await apply(halves.store, ...groups), [
      { ok: true, results: [3] },
      { ok: false, message: 'not this one' },
      { ok: true, results: [3] }
    ])
  }
)

t.test('a removal that resists holds up nobody else, and is told once', async (t) => {
  const halves = open()
  const [bad, good] = [await furnished(halves), await furnished(halves)]
  const { remove } = halves.events
  halves.events.remove = (threadId) =>
    threadId === bad.thread_id ? Promise.reject(new Error('a bad folder')) : remove(threadId)
  const warnings: string[] = []
  const store = halves.again((_, text) => void warnings.push(text))
  for (const { thread_id } of [bad, good]) await write(store, { name: 'thread.remove', thread_id, user: null })
  await addThread(store)
  t.strictSame([await lying(halves, bad), await lying(halves, good)], [[1, 2], []])
  t.strictSame(warnings, ['the events of a removed thread are still there'])
})
