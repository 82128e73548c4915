// How texts are cut into words, and what of a text is shown to who has looked for them.
import { setImmediate as nextTurn } from 'node:timers/promises'
import * as fc from 'fast-check'
import t from 'tap'
import type { Op, Store } from '../../lib/store/store.ts'
import { SearchIndexer } from '../../lib/thread/search/indexer.ts'
import { queryOf, snippetOf, wordsOf } from '../../lib/thread/search/words.ts'
import { until } from '../fixtures/until.ts'

/** Whether a search finds a text, as a store does. */
function finds(query: string, text: string): boolean {
  const wanted = queryOf(query)
  const words = wordsOf(text)
  if (!wanted) return false
  const { prefix } = wanted
  return (
    wanted.words.every((word) => words.includes(word)) &&
    (prefix === null || words.some((word) => word.startsWith(prefix)))
  )
}

const marked = (query: string, text: string) =>
  snippetOf(text, queryOf(query)!)
    .map(({ text, hit }) => (hit ? `[${text}]` : text))
    .join('')

t.test('a word is found in any case and width, with and without marks, the last one by its beginning', async (t) => {
  for (const [query, text] of [
    ['uber', 'Über den Wolken'],
    ['ÜBER wol', 'uber den wolken'],
    ['cafe', 'CAFÉ'],
    ['ﬁne', 'fine'],
    ['１２３', '123'],
    ['天气', '今天天气很好'],
    ['天', '今天天气很好'],
    ['好', '今天天气很好'],
    ['天气很好', '今天天气很好'],
    ['がくせい', '私はがくせいです'],
    ['한국', '한국어를 배워요'],
    ['السلام', 'السَّلامُ عليكم'],
    ["don't", 'I don’t know'],
    ['x', 'a\ud835\udcb3b X'],
    ['🎉', 'done🎉'],
    ['🎉', 'hooray 🎉🎉'],
    ['👍', 'fine 👍🏽'],
    ['👩‍💻', 'she is 👩‍💻 there'],
    ['❤️', 'with ❤'],
    ['🇩🇪', 'from 🇩🇪 to 🇫🇷'],
    ['word files', 'Word™ files'],
    ['word™ files', 'Word™ files'],
    ['note this', 'ℹ️Note this']
  ] as const)
    t.ok(finds(query, text), `${query} in ${text}`)
  for (const [query, text] of [
    ['wol den', 'über den wolken'],
    ['气天', '今天天气很好'],
    ['か', 'がくせい'],
    ['!?', 'what!?'],
    ['🎉', 'done 👍'],
    ['🇫🇷', 'from 🇩🇪']
  ] as const)
    t.notOk(finds(query, text), `${query} not in ${text}`)
})

t.test('a snippet begins near the first hit, marks all of it, and is a part of the text', async (t) => {
  t.equal(marked('fox jum', 'The quick brown fox jumps.'), 'The quick brown [fox] [jumps].')
  t.equal(marked('天气', '今天天气很好'), '今天[天气]很好')
  const long = `${'word '.repeat(100)}needle ${'word '.repeat(100)}`
  t.match(marked('needle', long), /^….{40}\[needle\] (word )+.*…$/)
  t.equal(marked('nothing', 'short'), 'short')
})

t.test('a snippet has no marks of Markdown, unless what was found is in one', async (t) => {
  for (const [query, text, shown] of [
    ['title', '# The **title** of it\n\nA text.', 'The [title] of it A text.'],
    ['two', '- one\n- [x] `two` of them\n1. three', 'one [two] of them three'],
    ['fox', 'See [the *fox*](https://example.com/fox "A fox") and ![a den](den.png).', 'See the [fox] and a den.'],
    ['cell', '| head | other |\n| --- | ---: |\n| a cell | 2 |', 'head | other a [cell] | 2'],
    ['run', '```sh\nnpm run it\n```\n> and ~~not~~ __this__', 'npm [run] it and not this'],
    ['snake', 'snake_case_name is 2 * 3 * 4', '[snake]_case_name is 2 * 3 * 4'],
    ['例子', '**例子**很好', '[例子]很好'],
    ['example', 'Read [this](https://example.com).', 'Read [this](https://[example].com).'],
    ['🎉', 'done **🎉**', 'done [🎉]']
  ] as const)
    t.equal(marked(query, text), shown, query)
})

t.test('a snippet of a long text is made of what stands around the first hit, whatever the rest is', (t) => {
  const lines = 'Some **words** here.\n'.repeat(2_000)
  t.match(marked('needle', `${lines}- a \`needle\` **here**\n${lines}`), / Some words here\. a \[needle\] here Some /)
  t.match(marked('needle', `needle ${lines}`), /^\[needle\] Some words here\. (Some .*)?…$/)
  t.match(marked('needle', `${lines}needle`), /^….* \[needle\]$/)
  // Each of these takes the patterns that take marks out minutes, of a text of such a length.
  for (const mark of [' ', '\t', '[', '![', '[a](', '*a ', '_a ', '\u0060', '\u0060a ', '  |a'])
    t.match(marked('needle', `needle ${mark.repeat(300_000)}x`), /\[needle\]/, JSON.stringify(mark))
  t.end()
})

t.test('any word of any text is found, and its snippet is made of the text', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), async (text) => {
      const parts = text.split(/[^\p{L}\p{N}\p{M}]+/u).filter(Boolean)
      for (const part of parts) if (queryOf(part) && !finds(part, text)) return false
      const query = queryOf(text)
      if (!query) return true
      const snippet = snippetOf(text, query)
      const shown = snippet
        .map((one) => one.text)
        .join('')
        .replace(/^…|…$/g, '')
      // Marks of Markdown are left out: what stays comes in this order.
      let at = 0
      for (const char of shown.replace(/\s/g, '')) {
        at = text.indexOf(char, at) + 1
        if (at === 0) return false
      }
      return snippet.some(({ hit }) => hit)
    }),
    { numRuns: 300 }
  )
})

t.test(
  'what changes while others are indexed is indexed once more, later, and what changes together is written together',
  async (t) => {
    const [BY_ID, BY_WALK] = [1, 2]
    /** In the store's queue. */
    const queued = new Set<string>()
    const rows = (ids: readonly string[], version: number) =>
      ids.filter((id) => queued.has(id)).map((thread_id) => ({ thread_id, title: null, seq: 0, version }))
    const store = {
      search: {
        queued: async (which: readonly string[] | { readonly after: string }, limit: number) =>
          'after' in which ? rows([...queued], BY_WALK).slice(0, limit) : rows(which, BY_ID)
      },
      events: { listMessages: async () => [] }
      // No more of a store is asked.
    } as unknown as Pick<Store, 'search' | 'events'>
    const put: { readonly thread_id: string; readonly done: number | null }[] = []
    let [inFlight, most] = [0, 0]
    let changedAt = 0
    const write = async (ops: readonly Op[]) => {
      most = Math.max(most, ++inFlight)
      await nextTurn()
      inFlight--
      for (const op of ops) if (op.name === 'search.put') put.push(op)
      for (const op of ops) if (op.name === 'search.put') queued.delete(op.thread_id)
      if (put.length === 1) {
        change(['t0'])
        changedAt = performance.now()
      }
      return []
    }
    const indexer = new SearchIndexer({ store, write, log: { warn: (fields, text) => t.fail(text, fields) } })
    const change = (ids: readonly string[]) => {
      for (const id of ids) queued.add(id)
      // Its thread is all that the indexer reads of the op.
      const ops = ids.map((thread_id) => ({ name: 'run.settle', thread_id }) as unknown as Op)
      indexer.written([{ ops }], [{ ok: true, results: [] }])
    }
    indexer.start()
    t.teardown(() => indexer.stop())
    const ids = Array.from({ length: 12 }, (_, n) => `t${n}`)
    for (let times = 0; times < 5; times++) change(ids)
    await until(() => put.filter(({ thread_id }) => thread_id === 't0').length === 2, 't0 is indexed once more')
    t.same(
      put
        .slice(0, -1)
        .map(({ thread_id }) => thread_id)
        .sort(),
      [...ids].sort(),
      'each once'
    )
    t.same(
      put.map(({ done }) => done),
      put.map(() => BY_ID),
      'none by the walk over what others have left'
    )
    t.equal(most, ids.length)
    t.ok(performance.now() - changedAt > 200, 'it waits for others that change')
  }
)
