// Obligations of EventReads: pages by seq.
import fc from 'fast-check'
import type { Test } from 'tap'
import type { SeqPage, Store } from '../../lib/store/store.ts'
import type { Run, RunEvent } from '../../lib/base/types.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  eventsOf,
  type Open,
  sharedRules,
  seqsOf,
  someEvents,
  TRACE,
  messageCount
} from './harness.ts'

/** What the cursor rules of contract 4.4 choose of an ascending list. */
function expectedPage(events: readonly RunEvent[], { limit, before, after }: SeqPage): RunEvent[] {
  const within = events.filter(({ seq }) => seq > (after ?? 0) && seq < (before ?? Number.POSITIVE_INFINITY))
  return after === undefined ? within.slice(Math.max(0, within.length - limit)) : within.slice(0, limit)
}

/** Three runs whose messages and traces are interleaved: 60 events, a third of them messages. */
async function addInterleaved(store: Store): Promise<{ threadId: string; runs: Run[]; messages: RunEvent[] }> {
  const { thread_id } = await addThread(store)
  const runs = [await addRun(store, thread_id), await addRun(store, thread_id), await addRun(store, thread_id)]
  for (let n = 0; n < 60; n++) {
    const run = runs[(n * 7 + (n >> 2)) % 3]!
    await addEvents(store, run, [anEvent(n, n % 3 === 1 ? { event_type: 'ai_message' } : TRACE)])
  }
  const events = (await Promise.all(runs.map((run) => eventsOf(store, run)))).flat()
  const messages = events.filter(({ category }) => category === 'message').sort((left, right) => left.seq - right.seq)
  return { threadId: thread_id, runs, messages }
}

export function pagesContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('no cursor: the newest; before: the last below; after: the first above; always ascending', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, someEvents(0, 10))
    const list = async (page: SeqPage) => seqsOf(await store.events.listMessages(thread_id, page, 'ann'))
    t.strictSame(await list({ limit: 3 }), [8, 9, 10])
    t.strictSame(await list({ limit: 3, before: 8 }), [5, 6, 7])
    t.strictSame(await list({ limit: 3, after: 2 }), [3, 4, 5])
    t.strictSame(await list({ limit: 3, after: 2, before: 9 }), [3, 4, 5], 'both: the range, forward')
    t.strictSame(await list({ limit: 100, after: 2, before: 5 }), [3, 4])
    t.strictSame(await list({ limit: 3, before: 1 }), [])
    t.strictSame(await list({ limit: 3, after: 10 }), [])
    t.strictSame(await list({ limit: 3, after: 5, before: 6 }), [])
    t.strictSame(await list({ limit: 3, after: 8, before: 2 }), [])
    t.strictSame(await store.events.listMessages('missing', { limit: 3 }, 'ann'), [])
  })

  test('only records of category message count as messages, for the limit too', async (t, store) => {
    const { threadId, runs, messages } = await addInterleaved(store)
    t.equal(messages.length, 20)
    t.strictSame(await store.events.listMessages(threadId, { limit: 20 }, 'ann'), messages)
    t.equal(await messageCount(store, threadId, 'ann'), 20)
    t.equal(await messageCount(store, 'missing', 'ann'), 0)
    const ofRun = messages.filter(({ run_id }) => run_id === runs[0]?.run_id)
    t.strictSame(await store.events.listMessagesByRun(threadId, runs[0]!.run_id, { limit: 100 }, 'ann'), ofRun)
    t.strictSame(await store.events.listMessagesByRun(threadId, 'missing', { limit: 100 }, 'ann'), [])
    t.strictSame(await store.events.listMessagesByRun('missing', runs[0]!.run_id, { limit: 100 }, 'ann'), [])
  })

  test('every page is what the cursor rules say, of a thread and of a run [contract 4.4] [Events 5]', async (t, store) => {
    const { threadId, runs, messages } = await addInterleaved(store)
    const seq = fc.integer({ min: 1, max: 62 })
    const page = fc.record(
      { limit: fc.integer({ min: 1, max: 25 }), before: seq, after: seq },
      { requiredKeys: ['limit'] }
    )
    await fc.assert(
      fc.asyncProperty(page, fc.option(fc.nat(2)), async (page, at) => {
        const runId = at === null ? null : runs[at]!.run_id
        const found =
          runId === null
            ? await store.events.listMessages(threadId, page, 'ann')
            : await store.events.listMessagesByRun(threadId, runId, page, 'ann')
        t.strictSame(
          found,
          expectedPage(
            messages.filter(({ run_id }) => runId === null || run_id === runId),
            page
          )
        )
      }),
      { numRuns: 150 }
    )
  })

  test('walking by pages gives each message once, backwards and forwards', async (t, store) => {
    const { threadId, messages } = await addInterleaved(store)
    for (const limit of [1, 3, 7, 19, 20, 21]) {
      const back: RunEvent[] = []
      for (let page = await store.events.listMessages(threadId, { limit }, 'ann'); page.length; ) {
        back.unshift(...page)
        page = await store.events.listMessages(threadId, { limit, before: page[0]!.seq }, 'ann')
      }
      t.strictSame(back, messages, `backwards by ${limit}`)
      const forth: RunEvent[] = []
      for (let page = await store.events.listMessages(threadId, { limit, after: 0 }, 'ann'); page.length; ) {
        forth.push(...page)
        page = await store.events.listMessages(threadId, { limit, after: page.at(-1)!.seq }, 'ann')
      }
      t.strictSame(forth, messages, `forwards by ${limit}`)
    }
  })
}

export function concurrentPagesContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('walking by pages while records are appended gives each one once, in either direction', async (t, store) => {
    const turn = fc.record({ pages: fc.nat(2), appended: fc.nat(3) })
    const property = fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.array(turn), async (limit, turns) => {
      const { thread_id } = await addThread(store, { user_id: 'ann' })
      const run = await addRun(store, thread_id)
      let k = 0
      const append = async (count: number) => {
        const events = Array.from({ length: count }, () => anEvent(k++, { category: 'message' }))
        if (count) await addEvents(store, run, events)
      }
      const page = (at: object) => store.events.listMessages(thread_id, { limit, ...at }, 'ann')
      await append(4)
      const there = await page({ limit: 100 })
      const [back, forth]: [RunEvent[], RunEvent[]] = [[], []]
      const walkBack = async () => {
        const before = back[0]?.seq
        const found = before === undefined ? await page({ before: there.at(-1)!.seq + 1 }) : await page({ before })
        back.unshift(...found)
        return found.length > 0
      }
      const walkForth = async () => {
        const found = await page({ after: forth.at(-1)?.seq ?? 0 })
        forth.push(...found)
        return found.length > 0
      }
      for (const { pages, appended } of turns) {
        for (let i = 0; i < pages; i++) await Promise.all([walkBack(), walkForth()])
        await Promise.all([append(appended), walkForth()])
      }
      while (await walkBack());
      while (await walkForth());
      t.strictSame(back, there, 'backwards all that was there')
      t.strictSame(forth, await page({ limit: 1000 }), 'forwards all that is there')
    })
    await fc.assert(property, { numRuns: 40 })
  })
}
