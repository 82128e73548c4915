// Obligations of EventReads and the event ops.
import fc from 'fast-check'
import type { Test } from 'tap'
import type { SeqPage, Store } from '../../lib/store/store.ts'
import type { Json, Run, RunEvent } from '../../lib/types.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  durableRules,
  HOSTILE_KEYS,
  HOSTILE_TEXTS,
  LONE_SURROGATES,
  member,
  type Open,
  refuses,
  rules,
  someEvents,
  time,
  userArgument,
  write
} from './harness.ts'

const TRACE = { event_type: 'llm_request', category: 'trace' } as const

function seqsOf(events: readonly RunEvent[]): number[] {
  return events.map(({ seq }) => seq)
}

async function allOf(store: Store, { thread_id, run_id }: Run): Promise<RunEvent[]> {
  return store.events.listEvents(thread_id, run_id, { limit: 10_000 }, null)
}

function remove(store: Store, threadId: string, runId: string | null, user: string | null = null): Promise<number> {
  return write(store, { name: 'events.remove', thread_id: threadId, run_id: runId, user })
}

export function eventStoreContract(t: Test, open: Open): void {
  recordsContract(t, open)
  seqContract(t, open)
  pagesContract(t, open)
  concurrentPagesContract(t, open)
  ownersContract(t, open)
  removalContract(t, open)
}

function recordsContract(t: Test, open: Open): void {
  const test = rules(t, open)
  test('an event is read back field for field, with its own created_at', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const event = anEvent(0, {
      ...TRACE,
      content: 'text',
      metadata: { caller: 'lead_agent', n: [1, null] },
      created_at: time(-99)
    })
    t.equal(await addEvents(store, run, [event]), 1)
    const { k: _, ...fields } = event
    t.strictSame(await allOf(store, run), [{ ...fields, thread_id, run_id: run.run_id, user_id: 'ann', seq: 1 }])
  })

  test('an object comes back as one, marked content_is_dict beside its metadata [contract 4.1]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const content = { type: 'ai', id: 'm', content: [{ type: 'text', text: '{}' }], n: 1.5, none: null, yes: true }
    await addEvents(store, run, [anEvent(0, { content, metadata: { finish_reason: 'stop' } })])
    const [event] = await store.events.listMessages(thread_id, { limit: 1 }, 'ann')
    t.strictSame(event?.content, content)
    t.strictSame(event?.metadata, { finish_reason: 'stop', content_is_dict: true })
  })

  test('a text stays a text, also one that looks like JSON, and is not marked [contract 4.1]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const texts = ['{"a":1}', '[1]', '{not json', '[', 'null', 'true', '1', '"quoted"', '', ' {} ']
    await addEvents(
      store,
      run,
      texts.map((content, k) => anEvent(k, { content }))
    )
    const events = await allOf(store, run)
    t.strictSame(
      events.map(({ content }) => content),
      texts
    )
    t.strictSame(
      events.map(({ metadata }) => metadata),
      texts.map(() => ({}))
    )
  })

  test('any other JSON comes back as equal JSON [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const contents: Json[] = [[], [1, 'a', null, { b: [] }], {}, 0, -1.5, 9007199254740991, 1e300, true, false, null]
    await addEvents(
      store,
      run,
      contents.map((content, k) => anEvent(k, { content }))
    )
    t.strictSame(
      (await allOf(store, run)).map(({ content }) => content),
      contents
    )
    const isDict = contents.map((content) => content !== null && typeof content === 'object' && !Array.isArray(content))
    const marks = (await allOf(store, run)).map(({ metadata }) => metadata.content_is_dict === true)
    t.strictSame(marks, isDict, 'content_is_dict says object, and nothing else')
  })

  test('texts come back as they were given, whatever their characters [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const texts = Object.entries(HOSTILE_TEXTS)
    for (const [k, [, text]] of texts.entries()) {
      await addEvents(store, run, [
        anEvent(2 * k, { content: text }),
        anEvent(2 * k + 1, { content: { text }, metadata: { text } })
      ])
    }
    const events = await allOf(store, run)
    for (const [k, [name, text]] of texts.entries()) {
      t.equal(events[2 * k]?.content === text, true, `${name}, as content`)
      t.strictSame(events[2 * k + 1]?.content, { text }, `${name}, in content`)
      t.strictSame(events[2 * k + 1]?.metadata, { text, content_is_dict: true }, `${name}, in metadata`)
    }
  })

  test('keys of objects come back as they were given, whatever they are [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const objects = HOSTILE_KEYS.map((key) => member(key, { deep: member(key, [1]) }))
    await addEvents(
      store,
      run,
      objects.map((content, k) => anEvent(k, { content, metadata: content }))
    )
    const events = await allOf(store, run)
    for (const [k, object] of objects.entries()) {
      t.equal(
        JSON.stringify(events[k]?.content),
        JSON.stringify(object),
        `key ${JSON.stringify(HOSTILE_KEYS[k])}, in content`
      )
      t.equal(
        JSON.stringify({ ...events[k]?.metadata, content_is_dict: true }),
        JSON.stringify({ ...object, content_is_dict: true })
      )
    }
  })

  test('halves of characters come back the same inside JSON [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [anEvent(0, { content: LONE_SURROGATES, metadata: LONE_SURROGATES })])
    const [event] = await allOf(store, run)
    t.strictSame(event?.content, LONE_SURROGATES)
    t.strictSame(event?.metadata, { ...LONE_SURROGATES, content_is_dict: true })
  })

  test('halves of characters come back the same in a content that is a text [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const texts = Object.values(LONE_SURROGATES)
    await addEvents(
      store,
      run,
      texts.map((content, k) => anEvent(k, { content }))
    )
    t.strictSame(
      (await allOf(store, run)).map(({ content }) => content),
      texts
    )
  })

  test('runsOfMessages tells which run said what, for the messages that are asked for', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    const one = await addRun(store, thread_id)
    const two = await addRun(store, thread_id)
    const elsewhere = await addRun(store, other.thread_id)
    const said = (id: string, event_type: string) => ({ event_type, content: { type: 'ai', id, content: '' } })
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

  test('listEvents gives all categories of one run, oldest first, by types and after a seq', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const other = await addRun(store, thread_id)
    const types = ['run_start', 'llm_request', 'ai_message', 'llm_request', 'run_end']
    const categories = ['lifecycle', 'trace', 'message', 'middleware', 'lifecycle'] as const
    await addEvents(store, other, [anEvent(0)])
    await addEvents(
      store,
      run,
      types.map((event_type, k) => anEvent(k, { event_type, category: categories[k]! }))
    )
    const list = async (query: { types?: string[]; after?: number; limit: number }) =>
      seqsOf(await store.events.listEvents(thread_id, run.run_id, query, 'ann'))
    t.strictSame(await list({ limit: 100 }), [2, 3, 4, 5, 6])
    t.strictSame(await list({ limit: 2 }), [2, 3])
    t.strictSame(await list({ limit: 100, after: 3 }), [4, 5, 6])
    t.strictSame(await list({ limit: 100, types: ['llm_request', 'run_end', 'unknown'] }), [3, 5, 6])
    t.strictSame(await list({ limit: 1, types: ['llm_request'], after: 3 }), [5])
    t.strictSame(await list({ limit: 100, types: [] }), [], 'no types are none, not all')
    t.strictSame(await store.events.listEvents(thread_id, 'missing', { limit: 9 }, 'ann'), [])
    t.strictSame(
      await store.events.listEvents('missing', run.run_id, { limit: 9 }, 'ann'),
      [],
      'a run is one of its thread'
    )
  })
}

function seqContract(t: Test, open: Open): void {
  const test = rules(t, open)
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
    t.strictSame(seqsOf(await allOf(store, a)), [1, 2, 6])
    t.strictSame(seqsOf(await allOf(store, b)), [3, 4, 5])
    t.strictSame(seqsOf(await allOf(store, c)), [1])
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
    t.strictSame(seqsOf(await allOf(store, run)), [1, 2, 3, 4, 5, 6])
  })

  test('the same records appended again are written once, also when only some are new', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const other = await addRun(store, thread_id)
    await addEvents(store, run, someEvents(0, 3))
    const before = await allOf(store, run)
    await addEvents(store, run, someEvents(0, 3))
    await addEvents(store, run, someEvents(1, 1, { content: 'another text under the same k' }))
    t.strictSame(await allOf(store, run), before)
    await addEvents(store, other, someEvents(0, 1))
    await addEvents(store, run, someEvents(1, 4))
    t.strictSame(seqsOf(await allOf(store, run)), [1, 2, 3, 5, 6], 'and take no seq')
    t.equal(await store.events.countMessages(thread_id, 'ann'), 6)
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
        for (const [at, run] of runs.entries()) t.equal((await allOf(store, run)).length, written[at])
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
    t.strictSame(await allOf(store, run), [])
    t.equal(await store.threads.ownerOf(thread_id), undefined)
  })
}

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
  const events = (await Promise.all(runs.map((run) => allOf(store, run)))).flat()
  const messages = events.filter(({ category }) => category === 'message').sort((left, right) => left.seq - right.seq)
  return { threadId: thread_id, runs, messages }
}

function pagesContract(t: Test, open: Open): void {
  const test = rules(t, open)
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
    t.equal(await store.events.countMessages(threadId, 'ann'), 20)
    t.equal(await store.events.countMessages('missing', 'ann'), 0)
    const ofRun = messages.filter(({ run_id }) => run_id === runs[0]?.run_id)
    t.strictSame(await store.events.listMessagesByRun(threadId, runs[0]!.run_id, { limit: 100 }, 'ann'), ofRun)
    t.strictSame(await store.events.listMessagesByRun(threadId, 'missing', { limit: 100 }, 'ann'), [])
    t.strictSame(await store.events.listMessagesByRun('missing', runs[0]!.run_id, { limit: 100 }, 'ann'), [])
  })

  test('every page is what the cursor rules say, of a thread and of a run [contract 4.4]', async (t, store) => {
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

function concurrentPagesContract(t: Test, open: Open): void {
  const test = rules(t, open)
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

function ownersContract(t: Test, open: Open): void {
  const test = rules(t, open)
  test('reads of events take the three cases of the user argument [Store 1] [Auth 7]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [anEvent(0)])
    const { events } = store
    const reads: Record<string, (user?: string | null) => Promise<number>> = {
      listMessages: async (user) => (await events.listMessages(thread_id, { limit: 9 }, user)).length,
      listMessagesByRun: async (user) =>
        (await events.listMessagesByRun(thread_id, run.run_id, { limit: 9 }, user)).length,
      listEvents: async (user) => (await events.listEvents(thread_id, run.run_id, { limit: 9 }, user)).length,
      countMessages: (user) => events.countMessages(thread_id, user),
      runsOfMessages: async (user) => (await events.runsOfMessages(thread_id, ['message-0'], user)).size
    }
    for (const [name, read] of Object.entries(reads))
      await userArgument(t, `events.${name}`, { mine: 'ann', other: 'bob', read })
  })

  test('in a shared thread everybody sees its own events and those of nobody, page by page', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const run = await addRun(store, thread_id, { user_id: null })
    const owners = ['ann', 'bob', null]
    for (let n = 0; n < 9; n++) await addEvents(store, run, [anEvent(n)], owners[n % 3]!)
    const list = async (page: SeqPage, user: string | null) =>
      seqsOf(await store.events.listMessages(thread_id, page, user))
    t.strictSame(await list({ limit: 9 }, 'ann'), [1, 3, 4, 6, 7, 9])
    t.strictSame(await list({ limit: 9 }, 'bob'), [2, 3, 5, 6, 8, 9])
    t.strictSame(await list({ limit: 9 }, 'eve'), [3, 6, 9])
    t.strictSame(await list({ limit: 9 }, null), [1, 2, 3, 4, 5, 6, 7, 8, 9])
    t.strictSame(await list({ limit: 2 }, 'ann'), [7, 9], 'rows that are not seen do not count')
    t.strictSame(await list({ limit: 2, after: 4 }, 'ann'), [6, 7])
    t.strictSame(await list({ limit: 2, before: 4 }, 'eve'), [3])
    t.equal(await store.events.countMessages(thread_id, 'eve'), 3)
    const events = await store.events.listEvents(thread_id, run.run_id, { limit: 2, after: 3 }, 'bob')
    t.strictSame(
      events.map(({ seq, user_id }) => [seq, user_id]),
      [
        [5, 'bob'],
        [6, null]
      ]
    )
  })

  test('events of others cannot be removed', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, someEvents(0, 2))
    t.equal(await remove(store, thread_id, run.run_id, 'bob'), 0)
    t.equal(await remove(store, thread_id, null, 'bob'), 0)
    t.strictSame(seqsOf(await allOf(store, run)), [1, 2])
    t.equal(await addEvents(store, run, someEvents(2, 1)), 3, 'and the counter goes on')
  })
}

function removalContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)
  test('removing the events of a run answers how many, and leaves those of the others', async (t, store) => {
    const { thread_id } = await addThread(store)
    const one = await addRun(store, thread_id)
    const two = await addRun(store, thread_id)
    await addEvents(store, one, someEvents(0, 2))
    await addEvents(store, two, someEvents(0, 1))
    await addEvents(store, one, someEvents(2, 1, TRACE))
    t.equal(await remove(store, thread_id, one.run_id, 'ann'), 3)
    t.strictSame(await allOf(store, one), [])
    t.strictSame(seqsOf(await store.events.listMessages(thread_id, { limit: 9 }, 'ann')), [3])
    t.equal((await store.events.runsOfMessages(thread_id, ['message-0'], 'ann')).get('message-0')?.run_id, two.run_id)
    t.equal(await remove(store, thread_id, one.run_id, 'ann'), 0, '0 when there are none')
    t.equal(await remove(store, 'missing', null, 'ann'), 0)
  })

  test('seq is never given twice, also when the newest events are removed [Store 5]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const one = await addRun(store, thread_id)
    const two = await addRun(store, thread_id)
    await addEvents(store, one, someEvents(0, 2))
    await addEvents(store, two, someEvents(0, 3))
    await remove(store, thread_id, two.run_id, 'ann')
    t.equal(await addEvents(store, one, someEvents(2, 1)), 6)
    await remove(store, thread_id, one.run_id, 'ann')
    t.equal(await addEvents(store, await addRun(store, thread_id), someEvents(0, 1)), 7)
  })

  test('removing the events of the whole thread starts its counter again [contract 4.7]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const one = await addRun(store, thread_id)
    const two = await addRun(store, thread_id)
    await addEvents(store, one, someEvents(0, 2))
    await addEvents(store, two, someEvents(0, 1, TRACE))
    t.equal(await remove(store, thread_id, null), 3)
    t.equal(await store.events.countMessages(thread_id, null), 0)
    t.equal(await addEvents(store, await addRun(store, thread_id), someEvents(0, 1)), 1)
  })

  test("removing a shared thread's events removes what one sees; the counter goes on for the rest", async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const run = await addRun(store, thread_id, { user_id: null })
    for (const [k, owner] of ['ann', null, 'bob'].entries()) await addEvents(store, run, [anEvent(k)], owner)
    t.equal(await remove(store, thread_id, null, 'ann'), 2)
    t.strictSame(seqsOf(await allOf(store, run)), [3])
    t.equal(await addEvents(store, run, [anEvent(3)], 'ann'), 4)
  })

  durable('events and their counter survive a restart, also after a removal', async (t, store, reopen) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const gone = await addRun(store, thread_id)
    await addEvents(store, run, [
      anEvent(0, { content: LONE_SURROGATES }),
      anEvent(1, { content: '{"a":1}' }),
      anEvent(2, TRACE)
    ])
    await addEvents(store, gone, someEvents(0, 2))
    await remove(store, thread_id, gone.run_id)
    const before = await allOf(store, run)
    const again = await reopen()
    t.strictSame(await allOf(again, run), before)
    await addEvents(again, run, someEvents(1, 2))
    t.strictSame(await allOf(again, run), before, 'what was stored before is not stored again')
    t.equal(await addEvents(again, run, someEvents(3, 1)), 6, 'and seq goes on behind what was removed')
  })
}
