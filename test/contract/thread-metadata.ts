// Obligations of ThreadReads.search where threads are looked for by their metadata.
import fc from 'fast-check'
import type { Test } from 'tap'
import type { Store, ThreadQuery } from '../../lib/store/store.ts'
import type { Json, JsonObject, Thread } from '../../lib/base/types.ts'
import {
  aCheckpoint,
  addThread,
  apply,
  durableRules,
  HOSTILE_KEYS,
  HOSTILE_TEXTS,
  idsOf,
  member,
  type Open,
  rules,
  time,
  write
} from './harness.ts'

function patch(store: Store, thread_id: string, metadata: JsonObject, at = 1) {
  return write(store, { name: 'thread.patch', thread_id, metadata, user: null, now: time(at) })
}

export function threadMetadataContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)
  test('a search by metadata compares type and value: true is not 1, null is not missing', async (t, store) => {
    const values: readonly Json[] = [
      true,
      false,
      null,
      1,
      0,
      -1.5,
      9007199254740991,
      '1',
      '',
      'true',
      'null',
      'text',
      '0'
    ]
    const idOf = (at: number) => `thread-${String(at).padStart(2, '0')}`
    for (const [at, value] of values.entries())
      await addThread(store, { thread_id: idOf(at), metadata: { key: value, same: 'x' } })
    await addThread(store, { thread_id: 'without', metadata: { same: 'x' } })
    for (const [at, value] of values.entries()) {
      t.strictSame(await idsOf(store, { metadata: { key: value } }), [idOf(at)], JSON.stringify(value))
    }
    t.strictSame(await idsOf(store, { metadata: { key: 2 } }), [])
    t.equal((await idsOf(store, { metadata: { same: 'x' } })).length, values.length + 1)
    t.strictSame(await idsOf(store, { metadata: { same: 'x', key: 'text' } }), [idOf(11)], 'every key must match')
    t.equal((await idsOf(store, { metadata: {} })).length, values.length + 1, 'no key is no condition')
  })

  test('a search by metadata takes any key to the letter', async (t, store) => {
    const idOf = (at: number) => `thread-${String(at).padStart(2, '0')}`
    await addThread(store, { thread_id: 'nested', metadata: { a: { b: 'x' }, $: { a: 'y' }, list: ['x'] } })
    for (const [at, key] of HOSTILE_KEYS.entries())
      await addThread(store, { thread_id: idOf(at), metadata: member(key, 'x') })
    for (const [at, key] of HOSTILE_KEYS.entries()) {
      t.strictSame(await idsOf(store, { metadata: member(key, 'x') }), [idOf(at)], `key ${JSON.stringify(key)}`)
      t.strictSame(await idsOf(store, { metadata: member(key, null) }), [], `key ${JSON.stringify(key)} is not null`)
    }
    t.strictSame(await idsOf(store, { metadata: { toString: 'x' } }), [], 'what objects inherit is no metadata')
  })

  test('a search by metadata takes any text to the letter', async (t, store) => {
    const texts = Object.entries(HOSTILE_TEXTS)
    for (const [name, text] of texts)
      await addThread(store, { thread_id: name.replace(/\W/g, '-'), metadata: { key: text } })
    for (const [name, text] of texts)
      t.strictSame(await idsOf(store, { metadata: { key: text } }), [name.replace(/\W/g, '-')], name)
  })

  test('a search by metadata takes numbers by their value, however they were written', async (t, store) => {
    const numbers: readonly [id: string, written: string][] = [
      ['one', '1.0'],
      ['tenth', '1e-1'],
      ['sum', '0.30000000000000004'],
      ['large', '1E400'],
      ['exact', '9007199254740993'],
      ['small', '5e-324']
    ]
    for (const [thread_id, written] of numbers) {
      const metadata = JSON.parse(`{"n":${written}}`) as JsonObject
      if (metadata.n !== Number.POSITIVE_INFINITY) await addThread(store, { thread_id, metadata })
    }
    t.strictSame(await idsOf(store, { metadata: { n: 1 } }), ['one'])
    t.strictSame(await idsOf(store, { metadata: { n: 0.1 } }), ['tenth'])
    t.strictSame(await idsOf(store, { metadata: { n: 0.3 } }), [])
    t.strictSame(await idsOf(store, { metadata: { n: 0.1 + 0.2 } }), ['sum'])
    t.strictSame(await idsOf(store, { metadata: { n: 9007199254740992 } }), ['exact'])
    t.strictSame(await idsOf(store, { metadata: { n: Number.MIN_VALUE } }), ['small'])
  })

  test('a search by metadata takes objects whole, whatever the order of their keys, and lists in their order', async (t, store) => {
    const value = { a: [1, { b: null, c: 'x' }], d: { e: true } }
    await addThread(store, { thread_id: 'nested', metadata: { value, empty: {} } })
    await addThread(store, { thread_id: 'list', metadata: { value: [1, 2], empty: [] } })
    t.strictSame(await idsOf(store, { metadata: { value } }), ['nested'])
    t.strictSame(await idsOf(store, { metadata: { value: { d: { e: true }, a: [1, { c: 'x', b: null }] } } }), [
      'nested'
    ])
    t.strictSame(await idsOf(store, { metadata: { value: [1, 2] } }), ['list'])
    t.strictSame(await idsOf(store, { metadata: { empty: {} } }), ['nested'])
    t.strictSame(await idsOf(store, { metadata: { empty: [] } }), ['list'])
    const others: readonly Json[] = [
      [2, 1],
      [1],
      { d: { e: true } },
      { ...value, more: 1 },
      { ...value, d: { e: 1 } },
      JSON.stringify(value)
    ]
    for (const other of others)
      t.strictSame(await idsOf(store, { metadata: { value: other } }), [], JSON.stringify(other))
  })

  test('a search by metadata tells long keys and values apart by their last character', async (t, store) => {
    const long = 'x'.repeat(1_000_000)
    await addThread(store, { thread_id: 'value', metadata: { key: `${long}a`, deep: [[`${long}a`]] } })
    await addThread(store, { thread_id: 'key', metadata: member(`${long}a`, 1) })
    t.strictSame(await idsOf(store, { metadata: { key: `${long}a` } }), ['value'])
    t.strictSame(await idsOf(store, { metadata: { key: `${long}b` } }), [])
    t.strictSame(await idsOf(store, { metadata: { key: long } }), [])
    t.strictSame(await idsOf(store, { metadata: { deep: [[`${long}a`]] } }), ['value'])
    t.strictSame(await idsOf(store, { metadata: { deep: [[`${long}b`]] } }), [])
    t.strictSame(await idsOf(store, { metadata: member(`${long}a`, 1) }), ['key'])
    t.strictSame(await idsOf(store, { metadata: member(`${long}b`, 1) }), [])
  })

  test('a key and a value that are run together are not taken for another key and value', async (t, store) => {
    await addThread(store, { thread_id: 'ab', metadata: { a: 'b","c' } })
    await addThread(store, { thread_id: 'abc', metadata: { 'a","b': 'c' } })
    t.strictSame(await idsOf(store, { metadata: { a: 'b","c' } }), ['ab'])
    t.strictSame(await idsOf(store, { metadata: { 'a","b': 'c' } }), ['abc'])
  })

  test('of many entries each finds its thread, and all together do', async (t, store) => {
    const many = (shift: number) =>
      Object.fromEntries(Array.from({ length: 500 }, (_, n): [string, Json] => [`key-${n}`, n + shift]))
    await addThread(store, { thread_id: 'first', metadata: many(0), updated_at: time(1) })
    await addThread(store, { thread_id: 'second', metadata: { ...many(0), 'key-499': 'other' }, updated_at: time(2) })
    t.strictSame(await idsOf(store, { metadata: { 'key-7': 7 } }), ['second', 'first'])
    t.strictSame(await idsOf(store, { metadata: many(0) }), ['first'])
    await patch(store, 'first', many(1), 3)
    t.strictSame(await idsOf(store, { metadata: { 'key-7': 7 } }), ['second'])
    t.strictSame(await idsOf(store, { metadata: many(0) }), [])
    t.strictSame(await idsOf(store, { metadata: many(1) }), ['first'])
  })

  test('a patch is searched by at once: the old value finds nothing, the new one and what was kept do', async (t, store) => {
    const { thread_id } = await addThread(store, { metadata: { kept: { deep: 1 }, changed: 'old', gone: 1 } })
    const found = (metadata: JsonObject) => idsOf(store, { metadata }, 'ann')
    t.strictSame(await found({ changed: 'old' }), [thread_id])
    await patch(store, thread_id, { changed: 'new', gone: null, added: [1] })
    t.strictSame(await found({ changed: 'old' }), [])
    t.strictSame(await found({ gone: 1 }), [])
    const now: readonly JsonObject[] = [{ changed: 'new' }, { gone: null }, { added: [1] }, { kept: { deep: 1 } }]
    for (const one of now) t.strictSame(await found(one), [thread_id], JSON.stringify(one))
    await patch(store, thread_id, { changed: 'new', added: [1] })
    await patch(store, thread_id, {})
    t.strictSame(await found({ changed: 'new', gone: null, added: [1], kept: { deep: 1 } }), [thread_id])
    await patch(store, thread_id, { changed: 'old' })
    t.strictSame(await found({ changed: 'old' }), [thread_id], 'a value may come back')
    t.strictSame(await found({ changed: 'new' }), [])
  })

  test('a patch and a creation that are taken back change nothing of the search [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store, { metadata: { key: 'old' } })
    const made = { thread: { ...(await addThread(store, { metadata: { key: 'made' } })), thread_id: 'made' } }
    const outcomes = await apply(store, [
      { name: 'thread.patch', thread_id, metadata: { key: 'new' }, user: null, now: time(1) },
      { name: 'thread.create', ...made, checkpoint: aCheckpoint('made') },
      { name: 'checkpoint.put', ...aCheckpoint('missing') }
    ])
    t.match(outcomes, [{ ok: false }])
    t.strictSame(await idsOf(store, { metadata: { key: 'old' } }), [thread_id])
    t.strictSame(await idsOf(store, { metadata: { key: 'new' } }), [])
    t.equal((await idsOf(store, { metadata: { key: 'made' } })).length, 1)
  })

  test('a removed thread is found by nothing, and one that is made again under its id by what it has now', async (t, store) => {
    const { thread_id } = await addThread(store, { metadata: { key: 'first', same: 1 } })
    await patch(store, thread_id, { key: 'patched' })
    await write(store, { name: 'thread.remove', thread_id, user: 'ann' })
    for (const key of ['first', 'patched']) t.strictSame(await idsOf(store, { metadata: { key } }, 'ann'), [])
    t.equal((await store.threads.search({ metadata: { same: 1 }, limit: 1, offset: 0 }, 'ann')).total, 0)
    await addThread(store, { thread_id, user_id: 'bob', metadata: { key: 'second' } })
    t.strictSame(await idsOf(store, { metadata: { key: 'second' } }, 'bob'), [thread_id])
    t.strictSame(await idsOf(store, { metadata: { key: 'second' } }, 'ann'), [])
    t.strictSame(await idsOf(store, { metadata: { same: 1 } }, 'bob'), [])
  })

  test('a search by metadata gives exactly the page that reading all threads would give', async (t, store) => {
    const all = await manyThreads(store)
    const metadata = fc.constantFrom<JsonObject>(
      { key: 'common' },
      { other: 'old' },
      { third: 'old' },
      { key: 'rare' },
      { key: 'common', other: 'old' },
      { key: 'common', third: 'common' },
      { key: 'rare', third: 'rare', other: 'old' },
      { key: 'nowhere', other: 'old' }
    )
    const mostly = <T>(usual: T, other: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, other)
    const query: fc.Arbitrary<ThreadQuery> = fc
      .record({
        metadata,
        status: mostly(undefined, fc.constantFrom('idle', 'error')),
        ids: mostly(undefined, fc.subarray(all.map(({ thread_id }) => thread_id))),
        sortBy: mostly(undefined, fc.constantFrom('thread_id', 'created_at', 'updated_at', 'status')),
        sortOrder: mostly(undefined, fc.constantFrom('asc', 'desc')),
        limit: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constant(200)),
        offset: mostly(0, fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constant(100)))
      })
      // Properties that are undefined are absent.
      .map((given) => JSON.parse(JSON.stringify(given)) as ThreadQuery)
    const user = mostly('ann', fc.constantFrom('bob', 'nobody', null))
    const check = async (query: ThreadQuery, user: string | null) => {
      const { threads, total } = await store.threads.search(query, user)
      const expected = matching(all, query, user)
      t.equal(total, expected.length)
      t.strictSame(threads, expected.slice(query.offset, query.offset + query.limit), JSON.stringify({ query, user }))
    }
    for (let limit = 1; limit <= 30; limit++)
      for (const key of ['common', 'rare']) await check({ metadata: { key }, limit, offset: limit % 3 }, 'ann')
    await fc.assert(fc.asyncProperty(query, user, check), { numRuns: 200 })
  })

  durable('threads are found by their metadata after a restart', async (t, store, reopen) => {
    const { thread_id } = await addThread(store, { metadata: { key: 'old' } })
    await patch(store, thread_id, { key: { new: 1 } })
    const again = await reopen()
    t.strictSame(await idsOf(again, { metadata: { key: { new: 1 } } }, 'ann'), [thread_id])
    t.strictSame(await idsOf(again, { metadata: { key: 'old' } }, 'ann'), [])
  })
}

/**
 * Threads enough that a store may choose how it finds them: of two users and of nobody, with a value that many of them have, one
 * that only the oldest have, and one that hardly any has; some that were changed, and some that are gone.
 */
async function manyThreads(store: Store): Promise<Thread[]> {
  const all: Thread[] = []
  for (let n = 0; n < 240; n++) {
    const thread = await addThread(store, {
      thread_id: `thread-${String((n * 7) % 240).padStart(3, '0')}`,
      user_id: ['ann', 'ann', 'ann', 'bob', null][n % 5]!,
      status: n % 3 ? 'idle' : 'error',
      metadata: {
        key: n % 60 === 5 ? 'rare' : n % 2 ? 'common' : { n },
        other: n < 100 ? 'old' : n,
        ...(n % 4 === 0 && { third: n % 8 ? 'common' : 'rare' })
      },
      created_at: time(n % 11),
      updated_at: time(Math.floor(n / 2))
    })
    if (n % 13 === 0) await write(store, { name: 'thread.remove', thread_id: thread.thread_id, user: null })
    else if (n % 9 === 0) all.push((await patch(store, thread.thread_id, { key: 'common', third: 'old' }, n % 200))!)
    else all.push(thread)
  }
  return all
}

/** The threads that a search must find, in their order. Values are texts. */
function matching(all: readonly Thread[], query: ThreadQuery, user: string | null): Thread[] {
  const { status, ids, metadata = {}, sortBy = 'updated_at', sortOrder = 'desc' } = query
  const direction = sortOrder === 'asc' ? 1 : -1
  const byText = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)
  return all
    .filter(({ user_id }) => user === null || user_id === null || user_id === user)
    .filter((thread) => (!status || thread.status === status) && (!ids || ids.includes(thread.thread_id)))
    .filter((thread) => Object.entries(metadata).every(([key, value]) => thread.metadata[key] === value))
    .sort((one, other) => direction * byText(one[sortBy], other[sortBy]) || -byText(one.thread_id, other.thread_id))
}
