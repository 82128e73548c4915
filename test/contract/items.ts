// Obligations of ItemReads and the ops of items.
import type { Test } from 'tap'
import type { ItemLimits, ItemWrite, Store } from '../../lib/store/store.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { durableRules, type Open, rules, time, userArgument, write } from './harness.ts'

const NO_LIMIT: ItemLimits = { items: 0, bytes: 0 }

export function anItem(set: Partial<ItemWrite> = {}): ItemWrite {
  return { user_id: 'ann', namespace: ['memories', 'work'], key: 'k', value: { a: 1 }, expires_at: null, ...set }
}

/** Puts an item at a second of the suites' time. */
function put(store: Store, set: Partial<ItemWrite>, second = 0, max = NO_LIMIT) {
  return write(store, { name: 'item.put', item: anItem(set), now: time(second), max })
}

/** Keys that a search of ann's finds, in its order. */
async function keysOf(
  store: Store,
  prefix: string[],
  set: { filter?: JsonObject; limit?: number; offset?: number } = {}
) {
  const found = await store.items.search({ prefix, limit: 1000, offset: 0, ...set }, 'ann')
  return found.map(({ key }) => key)
}

export function itemStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)

  test('an item comes back as it was put, and a second put replaces its value alone', async (t, store) => {
    const item = anItem({ value: { text: 'über \u0000 \u001a', list: [1, null, { deep: true }], __proto__: 1 } })
    t.equal(await put(store, item, 1), 'written')
    const { namespace, key, value } = item
    const found = { namespace, key, value, created_at: time(1), updated_at: time(1) }
    t.strictSame(await store.items.get(namespace, key, 'ann'), found)
    t.equal(await put(store, { value: { b: 2 } }, 2), 'written')
    t.strictSame(await store.items.get(namespace, key, 'ann'), { ...found, value: { b: 2 }, updated_at: time(2) })
    t.equal(await store.items.get(namespace, 'other', 'ann'), null)
    t.equal(await store.items.get(['memories'], key, 'ann'), null)
  })

  test("items are their user's alone [Store 1]", async (t, store) => {
    await put(store, {})
    const { namespace, key } = anItem()
    const whose = { mine: 'ann', other: 'ben' }
    await userArgument(t, 'items.get', {
      ...whose,
      read: async (user) => ((await store.items.get(namespace, key, user)) ? 1 : 0)
    })
    await userArgument(t, 'items.search', {
      ...whose,
      read: async (user) => (await store.items.search({ prefix: [], limit: 9, offset: 0 }, user)).length
    })
    await userArgument(t, 'items.namespaces', {
      ...whose,
      read: async (user) => (await store.items.namespaces({ limit: 9, offset: 0 }, user)).length
    })
    await put(store, { user_id: 'ben', value: { b: 2 } })
    t.strictSame((await store.items.get(namespace, key, 'ann'))?.value, { a: 1 }, 'the same address of another user')
    t.strictSame((await store.items.get(namespace, key, 'ben'))?.value, { b: 2 })
  })

  test('a removed item is gone, and removed once', async (t, store) => {
    const { namespace, key } = anItem()
    await put(store, {})
    t.equal(await write(store, { name: 'item.remove', namespace, key, user: 'ann' }), true)
    t.equal(await store.items.get(namespace, key, 'ann'), null)
    t.equal(await write(store, { name: 'item.remove', namespace, key, user: 'ann' }), false)
    t.equal(await put(store, {}, 5), 'written')
    t.equal((await store.items.get(namespace, key, 'ann'))?.created_at, time(5), 'one that is put again is new')
  })

  test('a search finds what lies in a namespace and below it, what was written last first', async (t, store) => {
    await put(store, { namespace: ['a'], key: '1' }, 1)
    await put(store, { namespace: ['a', 'b'], key: '2' }, 2)
    await put(store, { namespace: ['a', 'b', 'c'], key: '3' }, 3)
    await put(store, { namespace: ['ab'], key: '4' }, 4)
    await put(store, { namespace: ['a/b'], key: '5' }, 5)
    await put(store, { namespace: ['a%', 'b'], key: '6' }, 6)
    t.strictSame(await keysOf(store, []), ['6', '5', '4', '3', '2', '1'])
    t.strictSame(await keysOf(store, ['a']), ['3', '2', '1'])
    t.strictSame(await keysOf(store, ['a', 'b']), ['3', '2'])
    t.strictSame(await keysOf(store, ['a%']), ['6'])
    t.strictSame(await keysOf(store, ['b']), [])
    await put(store, { namespace: ['a'], key: '1' }, 7)
    t.strictSame(await keysOf(store, ['a'], { limit: 2 }), ['1', '3'])
    t.strictSame(await keysOf(store, ['a'], { limit: 2, offset: 2 }), ['2'])
    t.strictSame(await keysOf(store, ['a'], { limit: 2, offset: 9 }), [])
  })

  test('a search goes through as many and as long items as there are', async (t, store) => {
    const text = 'x'.repeat(20_000)
    const puts = Array.from({ length: 130 }, (_, n) =>
      put(store, { key: String(n).padStart(3, '0'), value: n % 3 === 0 ? { n, text } : { n } }, 1)
    )
    await Promise.all(puts)
    const all = Array.from({ length: 130 }, (_, n) => String(129 - n).padStart(3, '0'))
    t.strictSame(await keysOf(store, []), all)
    t.strictSame(await keysOf(store, [], { limit: 110, offset: 15 }), all.slice(15, 125))
    t.strictSame(
      await keysOf(store, [], { filter: { text }, limit: 20, offset: 20 }),
      all.filter((key) => Number(key) % 3 === 0).slice(20, 40)
    )
    t.strictSame(await keysOf(store, [], { filter: { n: 0 } }), ['000'])
  })

  test('a filter asks for equal members, or compares them', async (t, store) => {
    await put(store, { key: 'one', value: { n: 1, kind: 'x', tags: ['a'], deep: { b: 1, a: 2 } } }, 1)
    await put(store, { key: 'two', value: { n: 2, kind: 'y', tags: [], deep: null } }, 2)
    await put(store, { key: 'text', value: { n: '2' } }, 3)
    const by = (filter: JsonObject) => keysOf(store, [], { filter })
    t.strictSame(await by({ kind: 'x' }), ['one'])
    t.strictSame(await by({ n: 2 }), ['two'], 'a text is no number')
    t.strictSame(await by({ n: 1, kind: 'y' }), [], 'all of them')
    t.strictSame(await by({ deep: { a: 2, b: 1 } }), ['one'])
    t.strictSame(await by({ deep: null }), ['two'], 'missing is not null')
    t.strictSame(await by({ tags: ['a'] }), ['one'])
    t.strictSame(await by({ n: { $gt: 1 } }), ['two'])
    t.strictSame(await by({ n: { $gte: 1, $lt: 2 } }), ['one'])
    t.strictSame(await by({ n: { $lte: '2' } }), ['text'])
    t.strictSame(await by({ n: { $ne: 2 } }), ['text', 'one'])
    t.strictSame(await by({ n: { $in: [1, '2'] } }), ['text', 'one'])
    t.strictSame(await by({ kind: { $nin: ['x'] } }), ['text', 'two'])
    t.strictSame(await by({ deep: { $eq: null } }), ['two'])
    t.strictSame(await by({ toString: null }), [], 'what every object has is no member')
  })

  test('a filter finds the same behind any number of others, page by page', async (t, store) => {
    for (let n = 0; n < 230; n++) await put(store, { key: `k${n}`, value: { n, isOdd: n % 2 === 1 } }, n >> 2)
    const all = await keysOf(store, [], { filter: { isOdd: true } })
    t.equal(all.length, 115)
    t.equal(new Set(all).size, 115)
    const pages = [0, 50, 100].map((offset) => keysOf(store, [], { filter: { isOdd: true }, limit: 50, offset }))
    t.strictSame((await Promise.all(pages)).flat(), all)
  })

  test('namespaces are named once, by prefix, suffix and depth', async (t, store) => {
    const list = [['u', '1', 'facts'], ['u', '2', 'facts'], ['u', '2', 'plans'], ['docs'], ['users']]
    for (const namespace of list) await put(store, { namespace })
    await put(store, { namespace: ['docs'], key: 'other' })
    await put(store, { namespace: ['foreign'], user_id: 'ben' })
    const page = { limit: 100, offset: 0 }
    const named = (query: object) => store.items.namespaces({ ...page, ...query }, 'ann')
    t.strictSame(await named({}), [['docs'], ...list.slice(0, 3), ['users']])
    t.strictSame(await named({ prefix: ['u'] }), list.slice(0, 3))
    t.strictSame(await named({ prefix: ['u', '*', 'facts'] }), list.slice(0, 2))
    t.strictSame(await named({ suffix: ['facts'] }), list.slice(0, 2))
    t.strictSame(await named({ suffix: ['2', '*'] }), list.slice(1, 3))
    t.strictSame(await named({ maxDepth: 1 }), [['docs'], ['u'], ['users']])
    t.strictSame(await named({ maxDepth: 2, prefix: ['u'] }), [
      ['u', '1'],
      ['u', '2']
    ])
    t.strictSame(await named({ offset: 1, limit: 2 }), list.slice(0, 2))
  })

  test('an item that has expired is not there, does not count, and one that is put again is new', async (t, store) => {
    const past = time(9)
    const max = { items: 2, bytes: 0 }
    await put(store, { key: 'gone', expires_at: past }, 1, max)
    await put(store, { key: 'here', expires_at: '2999-01-01T00:00:00.000+00:00' }, 1, max)
    t.strictSame(await keysOf(store, []), ['here'])
    t.equal(await store.items.get(anItem().namespace, 'gone', 'ann'), null)
    t.equal((await store.items.namespaces({ limit: 9, offset: 0 }, 'ann')).length, 1)
    t.equal(await put(store, { key: 'more' }, 10, max), 'written')
    t.equal(await put(store, { key: 'gone', expires_at: null }, 11, max), 'too_many')
    await write(store, { name: 'item.remove', namespace: anItem().namespace, key: 'more', user: 'ann' })
    t.equal(await put(store, { key: 'gone', expires_at: null }, 12, max), 'written')
    t.equal((await store.items.get(anItem().namespace, 'gone', 'ann'))?.created_at, time(12))
  })

  test('a user has at most so many items and bytes of them; those of others do not count', async (t, store) => {
    const max = { items: 2, bytes: 0 }
    t.equal(await put(store, { key: '1' }, 1, max), 'written')
    t.equal(await put(store, { key: '2' }, 2, max), 'written')
    t.equal(await put(store, { key: '3' }, 3, max), 'too_many')
    t.equal(await put(store, { key: '1', value: { b: 2 } }, 4, max), 'written', 'one that is there has its place')
    t.equal(await put(store, { key: '3', user_id: 'ben' }, 5, max), 'written')
    const bytes = { items: 0, bytes: 30 }
    const text = (length: number) => ({ t: 'x'.repeat(length) })
    const { namespace } = anItem()
    await write(store, { name: 'item.remove', namespace, key: '1', user: 'ann' })
    await write(store, { name: 'item.remove', namespace, key: '2', user: 'ann' })
    t.equal(await put(store, { key: 'a', value: text(10) }, 6, bytes), 'written', '18 bytes')
    t.equal(await put(store, { key: 'b', value: text(10) }, 7, bytes), 'too_many')
    t.equal(await put(store, { key: 'a', value: text(30) }, 8, bytes), 'too_many')
    t.strictSame(
      (await store.items.get(namespace, 'a', 'ann'))?.value,
      text(10),
      'what was refused has changed nothing'
    )
    t.equal(await put(store, { key: 'a', value: text(4) }, 9, bytes), 'written')
    t.equal(await put(store, { key: 'b', value: text(10) }, 10, bytes), 'written')
    t.equal(await put(store, { key: 'c', value: text(0) }, 11, bytes), 'too_many', 'what was counted stays counted')
  })

  durable('items survive a restart', async (t, store, reopen) => {
    await put(store, {})
    t.strictSame((await (await reopen()).items.get(anItem().namespace, 'k', 'ann'))?.value, { a: 1 })
  })
}
