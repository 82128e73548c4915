// Obligations of EventReads and the event ops: what is stored of an event, and whose it is.
import type { Test } from 'tap'
import type { Owner } from '../../lib/base/scope.ts'
import type { SeqPage } from '../../lib/store/store.ts'
import type { Json } from '../../lib/base/types.ts'
import { originsContract } from './event-origins.ts'
import { concurrentPagesContract, pagesContract } from './event-pages.ts'
import { seqContract } from './event-seqs.ts'
import {
  addEvents,
  addRun,
  addThread,
  anEvent,
  durableRules,
  eventsOf,
  HOSTILE_KEYS,
  HOSTILE_TEXTS,
  member,
  type Open,
  sharedRules,
  seqsOf,
  someEvents,
  time,
  TRACE,
  userArgument,
  messageCount
} from './harness.ts'

export function eventStoreContract(t: Test, open: Open): void {
  recordsContract(t, open)
  seqContract(t, open)
  originsContract(t, open)
  pagesContract(t, open)
  concurrentPagesContract(t, open)
  ownersContract(t, open)
  durabilityContract(t, open)
}

function recordsContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
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
    t.strictSame(await eventsOf(store, run), [{ ...fields, thread_id, run_id: run.run_id, user_id: 'ann', seq: 1 }])
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

  test('a mark that came with the metadata gives way to what is true', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const metadata = { content_is_dict: false, content_is_json: false, last: 1 }
    await addEvents(store, run, [anEvent(0, { content: {}, metadata }), anEvent(1, { content: [], metadata })])
    const [object, list] = await eventsOf(store, run)
    t.strictSame(object?.metadata, { content_is_dict: true, content_is_json: false, last: 1 })
    t.strictSame(list?.metadata, { content_is_dict: false, content_is_json: true, last: 1 })
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
    const events = await eventsOf(store, run)
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
      (await eventsOf(store, run)).map(({ content }) => content),
      contents
    )
    const isDict = contents.map((content) => content !== null && typeof content === 'object' && !Array.isArray(content))
    const marks = (await eventsOf(store, run)).map(({ metadata }) => metadata.content_is_dict === true)
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
    const events = await eventsOf(store, run)
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
    const events = await eventsOf(store, run)
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

function ownersContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('reads of events are of one user, or of everybody for null [Store 1]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [anEvent(0)])
    const { events } = store
    const reads: Record<string, (user: Owner) => Promise<number>> = {
      listMessages: async (user) => (await events.listMessages(thread_id, { limit: 9 }, user)).length,
      listMessagesByRun: async (user) =>
        (await events.listMessagesByRun(thread_id, run.run_id, { limit: 9 }, user)).length,
      listEvents: async (user) => (await events.listEvents(thread_id, run.run_id, { limit: 9 }, user)).length,
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
    t.equal(await messageCount(store, thread_id, 'eve'), 3)
    const events = await store.events.listEvents(thread_id, run.run_id, { limit: 2, after: 3 }, 'bob')
    t.strictSame(
      events.map(({ seq, user_id }) => [seq, user_id]),
      [
        [5, 'bob'],
        [6, null]
      ]
    )
  })
}

function durabilityContract(t: Test, open: Open): void {
  const durable = durableRules(t, open)
  durable('events and their counter survive a restart', async (t, store, reopen) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await addEvents(store, run, [
      anEvent(0, { content: { ...HOSTILE_TEXTS } }),
      anEvent(1, { content: '{"a":1}' }),
      anEvent(2, TRACE)
    ])
    const before = await eventsOf(store, run)
    const again = await reopen()
    t.strictSame(await eventsOf(again, run), before)
    await addEvents(again, run, someEvents(1, 2))
    t.strictSame(await eventsOf(again, run), before, 'what was stored before is not stored again')
    t.equal(await addEvents(again, run, someEvents(3, 1)), 4, 'and seq goes on')
  })
}
