// Obligations of the event ops: seqs, which are given once, and the counter that they come from.
import fc from 'fast-check'
import type { Test } from 'tap'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  eventsOf,
  type Open,
  refuses,
  sharedRules,
  seqsOf,
  someEvents,
  TRACE,
  write,
  messageCount
} from './harness.ts'

export function seqContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('seq is dense over the runs of a thread and independent of other threads [Store 5]', async (t, store) => {
    const one = await addThread(store)
    const two = await addThread(store)
    const a = await addRun(store, one.thread_id)
    const b = await addRun(store, one.thread_id)
    const c = await addRun(store, two.thread_id)
    t.equal(await addEvents(store, a, someEvents(0, 2)), 1)
    t.equal(await addEvents(store, c, someEvents(0, 1)), 1)
    t.equal(await addEvents(store, b, someEvents(0, 3, TRACE)), 3)
    t.equal(await addEvents(store, a, someEvents(2, 1)), 6, 'the answer is the seq of the first one')
    t.strictSame(seqsOf(await eventsOf(store, a)), [1, 2, 6])
    t.strictSame(seqsOf(await eventsOf(store, b)), [3, 4, 5])
    t.strictSame(seqsOf(await eventsOf(store, c)), [1])
  })

  test('seq goes on within a batch, and skips nothing for a group that is refused [Store 5]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const append = (from: number, threadId = thread_id) =>
      ({
        name: 'events.append',
        thread_id: threadId,
        run_id: run.run_id,
        user_id: 'ann',
        events: someEvents(from, 2)
      }) as const
    const outcomes = await store.apply([
      { ops: [append(0), append(2)] },
      { ops: [append(4), append(0, 'missing')] },
      { ops: [append(4)] }
    ])
    t.match(outcomes, [{ ok: true, results: [1, 3] }, { ok: false }, { ok: true, results: [5] }])
    t.strictSame(seqsOf(await eventsOf(store, run)), [1, 2, 3, 4, 5, 6])
  })

  test('the same records appended again are written once, also when only some are new', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const other = await addRun(store, thread_id)
    await addEvents(store, run, someEvents(0, 3))
    const before = await eventsOf(store, run)
    await addEvents(store, run, someEvents(0, 3))
    await addEvents(store, run, someEvents(1, 1, { content: 'another text under the same k' }))
    t.strictSame(await eventsOf(store, run), before)
    await addEvents(store, other, someEvents(0, 1))
    await addEvents(store, run, someEvents(1, 4))
    t.strictSame(seqsOf(await eventsOf(store, run)), [1, 2, 3, 5, 6], 'and take no seq')
    t.equal(await messageCount(store, thread_id, 'ann'), 6)
  })

  test('whatever is appended, in whatever batches and however often, seq is 1, 2, 3...', async (t, store) => {
    const batch = fc.record({ run: fc.nat(2), size: fc.integer({ min: 0, max: 4 }), again: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { maxLength: 12 }), async (batches) => {
        const { thread_id } = await addThread(store)
        const runs = [await addRun(store, thread_id), await addRun(store, thread_id), await addRun(store, thread_id)]
        const written = [0, 0, 0]
        let total = 0
        for (const { run, size, again } of batches) {
          const from = again ? Math.max(0, written[run]! - 2) : written[run]!
          const fresh = Math.max(0, from + size - written[run]!)
          const answer = await addEvents(store, runs[run]!, someEvents(from, size))
          if (from === written[run] && size) t.equal(answer, total + 1)
          written[run]! += fresh
          total += fresh
        }
        const events = await store.events.listMessages(thread_id, { limit: 1000, after: 0 }, 'ann')
        t.strictSame(
          seqsOf(events),
          Array.from({ length: total }, (_, at) => at + 1)
        )
        for (const [at, run] of runs.entries()) t.equal((await eventsOf(store, run)).length, written[at])
      }),
      { numRuns: 25 }
    )
  })

  test('the next seq of a thread and the last k of a run can be asked for', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const other = await addRun(store, thread_id)
    t.equal(await store.events.nextSeq(thread_id), 1)
    t.equal(await store.events.lastK(thread_id, run.run_id), -1)
    await addEvents(store, run, [anEvent(0), anEvent(7, TRACE)])
    await addEvents(store, other, [anEvent(3)])
    t.equal(await store.events.nextSeq(thread_id), 4)
    t.equal(await store.events.lastK(thread_id, run.run_id), 7)
    t.equal(await store.events.nextSeq('missing'), null, 'there is no such thread')
    t.equal(await store.events.lastK('missing', run.run_id), -1)
  })

  test('the counter moves only from where it stands, with the rest of its group, and not of a thread that is gone', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, someEvents(0, 2))
    const move = (from: number, to: number, threadId = thread_id) =>
      ({ name: 'seq.move', thread_id: threadId, from, to }) as const
    await refuses(t, store, move(1, 9), 'it does not stand at 1')
    await refuses(t, store, move(1, 9, 'missing'), 'no thread')
    const [refused] = await store.apply([{ ops: [move(3, 9), move(3, 12)] }])
    t.equal(refused?.ok, false)
    t.equal(await store.events.nextSeq(thread_id), 3, 'taken back with its group')
    t.equal(await write(store, move(3, 3)), null)
    t.equal(await write(store, move(3, 9)), null)
    t.equal(await addEvents(store, run, someEvents(2, 1)), 9)
  })

  test('an append of no events writes nothing', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [])
    t.equal(await addEvents(store, run, [anEvent(0)]), 1)
  })

  test('nothing is appended to a thread that does not exist [Store 8]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [anEvent(0)])
    await write(store, { name: 'thread.remove', thread_id, user: null })
    const late = { name: 'events.append', thread_id, run_id: run.run_id, user_id: 'ann', events: [anEvent(1)] } as const
    await refuses(t, store, late, 'refused')
    t.strictSame(await eventsOf(store, run), [])
    t.equal(await store.threads.ownerOf(thread_id), undefined)
  })
}
