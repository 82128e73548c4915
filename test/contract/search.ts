// Obligations of SearchReads and search.put: the same texts are found, in the same order, by every store.
import * as fc from 'fast-check'
import type { Test } from 'tap'
import type { Store, TextWords } from '../../lib/store/store.ts'
import { addEndedRun, addThread, type Open, refuses, rules, skipped, time, write } from './harness.ts'

type Text = Pick<TextWords, 'seq' | 'words'> & Partial<TextWords>

function put(store: Store, thread_id: string, texts: readonly Text[], done: number | null = null) {
  const rows = texts.map((text) => ({ at: time(text.seq), ...text }))
  return write(store, { name: 'search.put', thread_id, texts: rows, done })
}

/** What a store is to find, by the rule: all words, one that begins so, the newest first. */
function expected(
  texts: readonly (TextWords & { thread_id: string })[],
  words: readonly string[],
  prefix: string | null
) {
  const has = (text: TextWords) =>
    words.every((word) => text.words.includes(word)) &&
    (prefix === null || text.words.some((word) => word.startsWith(prefix)))
  const order = (text: TextWords & { thread_id: string }) => [text.thread_id, String(text.seq).padStart(9, '0')].join()
  return texts
    .filter(has)
    .sort((one, other) => other.at.localeCompare(one.at) || (order(one) < order(other) ? -1 : 1))
    .map(({ thread_id, seq }) => `${thread_id} ${seq}`)
}

export function searchContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const page = { limit: 100, offset: 0 }

  test('texts that have all words are found, newest first, and those of others are not', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const [ann, bob, nobodys] = [
      await addThread(store, { display_name: 'Plans' }),
      await addThread(store, { user_id: 'bob' }),
      await addThread(store, { user_id: null })
    ]
    await put(store, ann.thread_id, [
      { seq: 1, words: ['red', 'fox'] },
      { seq: 2, words: ['red', 'foxglove'] },
      { seq: 3, words: ['天气', '气'] }
    ])
    await put(store, bob.thread_id, [{ seq: 4, words: ['red', 'fox'] }])
    await put(store, nobodys.thread_id, [{ seq: 5, words: ['red', 'fox'] }])
    const seqs = async (words: string[], prefix: string | null, user: string | null = 'ann') =>
      (await search.find({ words, prefix, ...page }, user)).places.map(({ seq }) => seq)
    t.strictSame(await seqs(['red'], null), [5, 2, 1])
    t.strictSame(await seqs(['red'], 'fox'), [5, 2, 1], 'the last word by its beginning')
    t.strictSame(await seqs(['red', 'fox'], null), [5, 1])
    t.strictSame(await seqs([], '天'), [3])
    t.strictSame(await seqs(['red'], 'fox', null), [5, 4, 2, 1], 'null sees all')
    t.strictSame(await seqs([], 'fo', 'carl'), [5], 'who has none sees what is everybody’s')
    const { places, total } = await search.find({ words: ['red'], prefix: null, limit: 1, offset: 2 }, 'ann')
    t.strictSame(places, [{ thread_id: ann.thread_id, seq: 1, at: time(1), title: 'Plans' }])
    t.equal(total, 3, 'of a page the whole is known')
  })

  test('a text is added once, a title is replaced, and all of it goes with the thread', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const { thread_id } = await addThread(store)
    const found = async (word: string) => (await search.find({ words: [word], prefix: null, ...page }, 'ann')).total
    await put(store, thread_id, [
      { seq: 0, words: ['old'] },
      { seq: 1, words: ['first'] }
    ])
    await put(store, thread_id, [
      { seq: 0, words: ['new'] },
      { seq: 1, words: ['second'] }
    ])
    t.strictSame(await Promise.all(['old', 'new', 'first', 'second'].map(found)), [0, 1, 1, 0])
    await write(store, { name: 'thread.remove', thread_id, user: null })
    t.strictSame(await Promise.all(['new', 'first'].map(found)), [0, 0])
    await addThread(store, { thread_id })
    t.equal(await found('first'), 0, 'nor does a new thread of the same id have it')
    await write(store, { name: 'thread.remove', thread_id, user: null })
    const texts = [{ seq: 1, at: time(1), words: ['late'] }]
    await refuses(t, store, { name: 'search.put', thread_id, texts, done: null }, 'nothing is added to what is gone')
  })

  test('a thread is queued by each run that ends, until its last version is indexed', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const { thread_id } = await addThread(store, { display_name: 'Plans' })
    const temporary = await addThread(store, {}, { isTemporary: true })
    await addEndedRun(store, thread_id)
    await addEndedRun(store, temporary.thread_id)
    const [queued, ...others] = await search.queued({ after: '' }, 9)
    t.match(queued, { thread_id, title: 'Plans', seq: 0 })
    t.strictSame(others, [], 'what is made for one run is in no search')
    await addEndedRun(store, thread_id)
    await put(store, thread_id, [{ seq: 3, words: ['x'] }], queued!.version)
    const [again] = await search.queued([thread_id, 'other'], 9)
    t.match(again, { thread_id, seq: 3 }, 'one that has changed meanwhile stays')
    t.strictSame([await search.waiting('ann'), await search.waiting('bob'), await search.waiting(null)], [1, 0, 1])
    await put(store, thread_id, [], again!.version)
    t.strictSame(await search.queued({ after: '' }, 9), [])
  })

  test('for any texts and any words the rule is the same', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const word = fc.constantFrom(
      'a',
      'ab',
      'abc',
      'b',
      'ba',
      'über',
      '天气',
      '天',
      'and',
      'or',
      'not',
      'near',
      '1',
      '𝒳',
      'é',
      'ß'
    )
    const textWords = fc.uniqueArray(word, { minLength: 1, maxLength: 6 })
    const threads = [await addThread(store), await addThread(store)]
    const texts: (TextWords & { thread_id: string })[] = []
    fc.sample(textWords, { numRuns: 60, seed: 7 }).forEach((words, n) => {
      const { thread_id } = threads[n % 2]!
      texts.push({ thread_id, seq: n + 1, at: time(n % 9), words })
    })
    for (const { thread_id } of threads)
      await put(
        store,
        thread_id,
        texts.filter((text) => text.thread_id === thread_id)
      )
    const query = fc.record({ words: fc.array(word, { maxLength: 2 }), prefix: fc.option(word) })
    for (const { words, prefix } of fc.sample(query, { numRuns: 60, seed: 8 })) {
      if (words.length === 0 && prefix === null) continue
      const { places, total } = await search.find({ words, prefix, ...page }, 'ann')
      const wanted = expected(texts, words, prefix)
      t.strictSame(
        places.map(({ thread_id, seq }) => `${thread_id} ${seq}`),
        wanted,
        `${words.join(' ')} ${prefix}`
      )
      t.equal(total, wanted.length)
    }
  })

  test('texts that come one by one, new titles and deletions leave what is there to be found, and nothing else', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const random = fc.sample(fc.nat(), { numRuns: 4000, seed: 9 })
    let at = 0
    const upTo = (n: number) => random[at++ % random.length]! % n
    const wordsOf = () => [...new Set(Array.from({ length: 1 + upTo(30) }, () => `w${upTo(40) ** 2}`))]
    const ids: string[] = []
    for (let n = 0; n < 40; n++) ids.push((await addThread(store)).thread_id)
    let texts: (TextWords & { thread_id: string })[] = []
    for (let seq = 1; seq <= 400; seq++) {
      const thread_id = ids[upTo(ids.length)]!
      const isTitle = upTo(5) === 0
      const text = { thread_id, seq: isTitle ? 0 : seq, at: time(upTo(2000)), words: wordsOf() }
      const isSame = (other: (typeof texts)[number]) => other.thread_id === thread_id && other.seq === text.seq
      texts = [...texts.filter((other) => !isSame(other)), text]
      await put(store, thread_id, [text])
      if (upTo(40) !== 0 || ids.length === 1) continue
      const [gone] = ids.splice(upTo(ids.length), 1)
      await write(store, { name: 'thread.remove', thread_id: gone!, user: null })
      texts = texts.filter((other) => other.thread_id !== gone)
    }
    for (let n = 0; n < 40; n++) {
      const word = `w${n ** 2}`
      const wanted = expected(texts, [word], null)
      const found = await search.find({ words: [word], prefix: null, limit: 1000, offset: 0 }, 'ann')
      t.strictSame(
        found.places.map(({ thread_id, seq }) => `${thread_id} ${seq}`),
        wanted,
        word
      )
      t.strictSame([found.total, found.more], [wanted.length, false], 'all were asked for: all are counted')
    }
  })

  test('deletions leave the words of the threads that lay beside them, however many', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const ids: string[] = []
    const add = async () => {
      const { thread_id } = await addThread(store)
      await put(store, thread_id, [{ seq: 1, words: ['all', `only${ids.length}x`] }])
      ids.push(thread_id)
    }
    for (let n = 0; n < 150; n++) await add()
    const isGone = (n: number) => n < 140 && n % 5 !== 0
    for (const [n, thread_id] of ids.entries())
      if (isGone(n)) await write(store, { name: 'thread.remove', thread_id, user: null })
    // What is left of them is put together meanwhile.
    for (let n = 0; n < 30; n++) await add()
    const left = ids.filter((_, n) => !isGone(n))
    const { places, total, more } = await search.find({ words: ['all'], prefix: null, limit: 500, offset: 0 }, 'ann')
    t.strictSame([places.map(({ thread_id }) => thread_id).sort(), total, more], [left.sort(), left.length, false])
    for (const [n, thread_id] of ids.entries()) {
      const found = await search.find({ words: [`only${n}x`], prefix: null, ...page }, 'ann')
      t.strictSame(
        found.places.map((place) => place.thread_id),
        isGone(n) ? [] : [thread_id]
      )
    }
  })

  test('what lies there is found once by every search, also while its blocks are moved by others', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    const ids: string[] = []
    for (let n = 0; n < 200; n++) {
      const { thread_id } = await addThread(store)
      await put(store, thread_id, [{ seq: 1, words: ['all', `only${n}x`] }])
      ids.push(thread_id)
    }
    let isOver = false
    // Each further text of a thread takes those before it to another shelf.
    const writing = (async () => {
      for (let n = 0; !isOver; n++) {
        await put(store, ids[(n * 7) % ids.length]!, [{ seq: n + 2, words: ['more'] }])
        // A store that never leaves this thread would let nobody else run.
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    const wanted = ids.map((id) => `${id} 1`).sort()
    let counted = 0
    for (let n = 0; n < 60; n++) {
      const { places, more } = await search.find({ words: ['all'], prefix: null, limit: 500, offset: 0 }, 'ann')
      const found = places.map(({ thread_id, seq }) => `${thread_id} ${seq}`).sort()
      t.equal(new Set(found).size, found.length, 'nothing twice')
      if (more) continue
      counted++
      t.strictSame(found, wanted, 'or it says that there may be more')
    }
    isOver = true
    await writing
    t.comment(`${counted} of 60 searches have found all`)
    const { places, more } = await search.find({ words: ['all'], prefix: null, limit: 500, offset: 0 }, 'ann')
    t.strictSame([places.map(({ thread_id }) => `${thread_id} 1`).sort(), more], [wanted, false])
  })

  test('of a word that is everywhere the newest are found, a page at a time, and that there may be more', async (t, store) => {
    const { search } = store
    if (!search) return skipped(t, 'this store has no search')
    // The oldest come last: what was added last is not what is newest.
    for (let n = 0; n < 60; n++) {
      const { thread_id } = await addThread(store)
      const texts = Array.from({ length: 20 }, (_, seq) => ({
        seq: seq + 1,
        at: time(2000 - n * 20 - seq),
        words: ['all', `only${n}x${seq}`, ...Array.from({ length: 60 }, (_, no) => `w${n}x${seq}x${no}`)]
      }))
      await put(store, thread_id, texts)
    }
    const ask = (words: string[], offset: number) => search.find({ words, prefix: 'al', limit: 20, offset }, 'ann')
    const at = (n: number) => Array.from({ length: 20 }, (_, place) => time(2000 - n - place))
    for (const offset of [0, 20, 300, 1180])
      t.strictSame(
        (await ask(['all'], offset)).places.map((place) => place.at),
        at(offset),
        `after ${offset}`
      )
    const { total, more } = await ask(['all'], 0)
    t.ok(more ? total >= 20 : total === 1200, `${total}, ${more}`)
    t.match(
      await ask(['all', 'only59x3'], 0),
      { total: 1, more: false, places: [{ seq: 4 }] },
      'a rare one is found behind all of them'
    )
    t.match(await ask(['all', 'nowhere'], 0), { total: 0, more: false, places: [] })
  })
}
