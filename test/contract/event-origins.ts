// Obligations of EventReads: who said what.
import fc from 'fast-check'
import type { Test } from 'tap'
import type { MessageOrigin, Store } from '../../lib/store/store.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  HOSTILE_KEYS,
  HOSTILE_TEXTS,
  type Open,
  sharedRules,
  TRACE,
  write
} from './harness.ts'

const said = (id: string, event_type: string) => ({ event_type, content: { type: 'ai', id, content: '' } })

export function originsContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('runsOfMessages tells which run said what, for the messages that are asked for', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    const one = await addRun(store, thread_id)
    const two = await addRun(store, thread_id)
    const elsewhere = await addRun(store, other.thread_id)
    await addEvents(store, one, [anEvent(0, said('a', 'human_message')), anEvent(1, said('b', 'ai_message'))])
    await addEvents(store, one, [
      anEvent(2, { ...TRACE, content: { id: 'trace' } }),
      anEvent(3, { content: 'no object' })
    ])
    await addEvents(store, two, [anEvent(0, said('c', 'tool_result'))])
    await addEvents(store, elsewhere, [anEvent(0, said('d', 'ai_message'))])
    const found = await store.events.runsOfMessages(thread_id, ['a', 'c', 'd', 'trace', 'missing'], 'ann')
    t.strictSame([...found].toSorted(), [
      ['a', { run_id: one.run_id, event_type: 'human_message' }],
      ['c', { run_id: two.run_id, event_type: 'tool_result' }]
    ])
    t.equal((await store.events.runsOfMessages(thread_id, [], 'ann')).size, 0)
  })

  test('a message that several runs have recorded belongs to the newest record that the user sees', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const runs = [await addRun(store, thread_id), await addRun(store, thread_id), await addRun(store, thread_id)]
    for (const [n, owner] of ['ann', null, 'bob'].entries())
      await addEvents(store, runs[n]!, [anEvent(0, said('moved', n === 1 ? 'human_message' : 'ai_message'))], owner)
    const origin = async (user: string | null) =>
      (await store.events.runsOfMessages(thread_id, ['moved'], user)).get('moved')
    t.strictSame(await origin('ann'), { run_id: runs[1]!.run_id, event_type: 'human_message' })
    t.strictSame(await origin(null), { run_id: runs[2]!.run_id, event_type: 'ai_message' })
  })

  test('runsOfMessages says the same of a message whether few, most or all of its thread are asked for', async (t, store) => {
    const { threadId, ids, origins } = await addTalk(store)
    const missing = Array.from({ length: 10 }, (_, n) => `missing-${n}`)
    const asked = fc.shuffledSubarray([...ids, ...ids.slice(0, 5), ...missing])
    const check = async (some: readonly string[]) => {
      const found = await store.events.runsOfMessages(threadId, some, 'ann')
      const expected = [...new Set(some)].flatMap((id) => {
        const origin = origins.get(id)
        return origin ? [[id, origin]] : []
      })
      t.strictSame([...found].toSorted(), expected.toSorted())
    }
    await check(ids)
    for (const id of ids) await check([id])
    await check(missing)
    await fc.assert(fc.asyncProperty(asked, check), { numRuns: 50 })
  })
}

/** A thread of two runs and of a stranger's, whose messages have ids of all sorts; some were said again, later, by the other run. */
async function addTalk(
  store: Store
): Promise<{ threadId: string; ids: string[]; origins: Map<string, MessageOrigin> }> {
  const { thread_id } = await addThread(store)
  const runs = [await addRun(store, thread_id), await addRun(store, thread_id), await addRun(store, thread_id)]
  const texts = Object.values(HOSTILE_TEXTS).filter((text) => text.length < 1000)
  const ids = [...new Set([...HOSTILE_KEYS, ...texts, 'a\u001eb', 'a","b'])].filter((id) => id !== '')
  const origins = new Map<string, MessageOrigin>()
  for (const [k, id] of [...ids, ...ids.slice(10, 20).toReversed()].entries()) {
    const { run_id } = runs[(k * 5 + (k >> 3)) % 3]!
    const user_id = run_id === runs[2]!.run_id ? 'bob' : 'ann'
    const event_type = k % 2 ? 'ai_message' : 'human_message'
    await write(store, {
      name: 'events.append',
      thread_id,
      run_id,
      user_id,
      events: [anEvent(k, said(id, event_type))]
    })
    if (user_id === 'ann') origins.set(id, { run_id, event_type })
  }
  return { threadId: thread_id, ids, origins }
}
