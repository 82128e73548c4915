// Markdown on the page: an answer that grows looks as it does after a reload, whatever it says and however it arrives.
import fc from 'fast-check'
import type { Page } from 'playwright-core'
import t from 'tap'
import { ScriptedAgent, anAnswer, request, response } from '../fixtures/agent.ts'
import { demoWord } from '../../lib/agent/demo.ts'
import type { Json } from '../../lib/base/types.ts'
import { account, browserTest, threadSaying, type Visitor, visit, visitSite } from '../fixtures/browser.ts'
import { listIn, openSite, until } from '../fixtures/gateway.ts'
import { pageModule } from '../fixtures/page-module.ts'
import { IS_LONG } from '../fixtures/size.ts'

const { GrowingMarkdown, marked, rich } =
  await pageModule<typeof import('../../lib/console/growing-markdown.ts')>('growing-markdown')

const RUNS = IS_LONG ? 20_000 : 1000

const word = fc.constantFrom('one', 'two', 'Three', 'ΑΣ', 'ß', '漢字', 'مرحبا', '👍', '1.', 'a_b_c', '2*3')
const label = fc.constantFrom('a', 'B', 'a b', 'A\nB', '1', 'ΑΣ', '^1', '^note', 'x|y')
const inline: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: word },
  label.map((name) => `[${name}]`),
  fc.tuple(word, label).map(([text, name]) => `[${text}][${name}]`),
  word.map((text) => `**${text}**`),
  word.map((text) => `*${text}`),
  word.map((text) => `\`${text}\``),
  word.map((text) => `![${text}](http://images.example/1.png)`),
  fc.constantFrom(
    '\\(a_1 * b\\)',
    '$a^2$',
    '$5',
    '\\[x\\]',
    '$$y$$',
    '\\(',
    '\\*',
    '<b>',
    '</b>',
    '<br>',
    '<sub>',
    '</sub>',
    '<!-- c -->',
    'https://a.example',
    '  \n'
  )
)
const line = fc.array(inline, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(' '))
const lines = fc.array(line, { minLength: 1, maxLength: 3 }).map((all) => all.join('\n'))
const definition = fc.tuple(label, word).map(([name, text]) => `[${name}]: http://${encodeURIComponent(text)}.example`)
const note = fc.tuple(fc.constantFrom('1', 'note', 'N'), lines).map(([name, text]) => `[^${name}]: ${text}`)
const listOf = (bullet: string) =>
  fc
    .array(fc.tuple(lines, fc.constantFrom('\n', '\n\n')), { minLength: 1, maxLength: 4 })
    .map((items) => items.map(([text, gap]) => `${bullet} ${text.replaceAll('\n', '\n   ')}${gap}`).join(''))
/** Blocks as people write them. */
const block = fc.oneof(
  { weight: 4, arbitrary: lines },
  fc.tuple(fc.constantFrom('#', '##', '####'), line).map(([mark, text]) => `${mark} ${text.replaceAll('\n', ' ')}`),
  listOf('-'),
  listOf('1.'),
  lines.map((text) => text.replaceAll(/^/gm, '> ')),
  fc
    .tuple(fc.constantFrom('```', '~~~~', '```js'), lines)
    .map(([fence, code]) => `${fence}\n${code}\n\n# no\n${fence.replace('js', '')}`),
  fc
    .array(fc.tuple(line, line), { minLength: 1, maxLength: 3 })
    .map(
      (rows) =>
        `| a | b |\n|:-:|--:|\n${rows.map((cells) => `| ${cells.join(' | ').replaceAll('\n', ' ')} |`).join('\n')}`
    ),
  fc.constantFrom(
    '---',
    '    code',
    'title\n=====',
    '<div>\n# no\n</div>',
    '<pre>\n\n# no\n\n</pre>',
    '<!-- a\n\n# no\n-->',
    '\\[\na\n= b\n\\]'
  ),
  definition,
  note
)
const written = fc.array(block, { maxLength: 7 }).map((blocks) => blocks.join('\n\n'))
/** And as nobody does. */
const noise = fc.string({
  unit: fc.constantFrom(...'#*-_`[]()<>|\\ \n:=^$1a!"\'~&\t\r+.', '\n\n', '[a]: b', '```', '<!--', '    '),
  maxLength: 60
})
const fold = fc.constantFrom(
  '<details>',
  '<details open><summary>**a** [b]</summary>',
  '<summary>\na\n</summary>',
  '</details>',
  'end</details>',
  '- <details>'
)
const anyText = fc.oneof(
  written,
  noise,
  fc
    .array(fc.oneof(block, noise, fold), { maxLength: 7 })
    .chain((parts) =>
      fc
        .array(fc.constantFrom('', '\n', '\n\n', '\r\n', '\n  '), { minLength: parts.length, maxLength: parts.length })
        .map((gaps) => parts.map((part, i) => part + gaps[i]).join(''))
    )
)
/** A text, and where it is cut into deltas. */
const deltas = anyText.chain((text) =>
  fc.tuple(
    fc.constant(text),
    fc.uniqueArray(fc.nat(text.length), { maxLength: 12 }).map((at) => at.sort((a, b) => a - b))
  )
)

const whole = (text: string) => new GrowingMarkdown().blocks(text)

/** The property itself, with libraries or without. */
function growsAlike(): void {
  fc.assert(
    fc.property(deltas, ([text, cuts]) => {
      const growing = new GrowingMarkdown()
      for (const cut of [...cuts, text.length]) {
        const grown = text.slice(0, cut)
        if (String(growing.blocks(grown)) !== String(whole(grown)))
          throw new Error(`it differs at ${JSON.stringify(grown)}`)
      }
    }),
    { numRuns: RUNS }
  )
}

t.test('a text that grew has the HTML of the same text read at once, after every delta', async (t) => {
  t.doesNotThrow(growsAlike)
})

t.test('the same of code and formulas that libraries have drawn', async (t) => {
  const { code, formula } = rich
  rich.code = (text, lang, isOpen) => (lang === 'js' ? `<b>${text.length} ${isOpen}</b>` : null)
  rich.formula = (tex, isBlock) => (tex.includes('a') ? `<math>${tex.length} ${isBlock}</math>` : null)
  try {
    t.doesNotThrow(growsAlike)
  } finally {
    Object.assign(rich, { code, formula })
  }
})

/** Cut or not, the library reads the same. */
function readsAlike(): void {
  fc.assert(
    fc.property(written, (text) => {
      const [ours, theirs] = [whole(text).join(''), String(marked.parse(text))]
      if (ours !== theirs) throw new Error(`${JSON.stringify(text)}\n${ours}\n${theirs}`)
    }),
    { numRuns: RUNS }
  )
}

t.test('what is parsed in pieces is what the library makes of the whole', async (t) => {
  t.doesNotThrow(readsAlike)
})

t.test('what is far behind is not parsed again with every delta', async (t) => {
  const part = `${'word '.repeat(40)}[a]\n\n- one\n- two\n\n\`\`\`js\ncode\n\`\`\`\n# Title\n`
  const text = part.repeat(400)
  const timed = (act: () => void): number => {
    const begin = performance.now()
    act()
    return performance.now() - begin
  }
  const once = timed(() => whole(text))
  const growing = new GrowingMarkdown()
  growing.blocks(text)
  const deltas = timed(() => {
    for (let n = 0; n < 100; n++) growing.blocks(`${text}x${'y '.repeat(n)}`)
  })
  t.comment(`read once ${Math.round(once)} ms, a hundred deltas ${Math.round(deltas)} ms`)
  t.ok(deltas < 30 * once)
})

browserTest('what grew on the page is what a reload draws: element by element', async (t) => {
  const site = await openSite(t)
  const { page } = await visit(t, site.url)
  await page.goto(site.url)
  const samples = fc
    .sample(deltas, IS_LONG ? 1000 : 100)
    .map(([text, cuts]) => [...cuts.map((at) => text.slice(0, at)), text])
  const differing = await page.evaluate(`(async (samples) => {
    const main = document.querySelector('script[type=module]').src
    const { Markdown } = await import(new URL('markdown.js', main))
    const { h, render } = await import(new URL('../vendor/preact.js', main))
    const draw = (box, text) => render(h(Markdown, { text }), box)
    return samples.filter((texts) => {
      const grown = document.createElement('div')
      return texts.some((text) => {
        const whole = document.createElement('div')
        draw(grown, text)
        draw(whole, text)
        return grown.innerHTML !== whole.innerHTML
      })
    })
  })(${JSON.stringify(samples)})`)
  t.same(differing, [])
})

browserTest('words that come leave what stands there alone: what a reader has selected stays selected', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=400 rate=100')
  await visitor.hasWords(demoWord(50).trim())
  const selected = await page.evaluate(`(() => {
    const text = document.querySelector('.message.ai p').firstChild
    getSelection().setBaseAndExtent(text, 0, text, 11)
    return String(getSelection())
  })()`)
  await visitor.hasWords(demoWord(300).trim())
  t.equal(await page.evaluate('String(getSelection())'), selected)
  await visitor.answered()
  t.equal(await page.evaluate('String(getSelection())'), selected, 'nor when it has ended')
})

/** The last answer as it stands, without what a finished one has beside it. */
const lastAnswer = async ({ page }: Visitor) =>
  String(
    await page.evaluate(`(() => {
      const copy = [...document.querySelectorAll('.message.ai')].at(-1).cloneNode(true)
      copy.querySelector('.actions')?.remove()
      return copy.innerHTML
    })()`)
  )

/** What is copied when all of an element is selected. */
const copied = async (page: Page, selector: string) =>
  String(
    await page.evaluate(`(() => {
      const box = [...document.querySelectorAll('${selector}')].at(-1)
      getSelection().selectAllChildren(box)
      const data = new DataTransfer()
      box.dispatchEvent(new ClipboardEvent('copy', { clipboardData: data, bubbles: true, cancelable: true }))
      getSelection().removeAllRanges()
      return data.getData('text/plain')
    })()`)
  )

const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

browserTest('links and footnotes that are defined below, formulas and images: live as after a reload', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent })
  await visitor.open()
  await visitor.say('a report')
  const threadId = await visitor.threadId()
  await until(() => agent.started.length === 1, 'the run')
  const stage = await agent.stage({ run_id: agent.started[0]! })
  const text = [
    'See [the manual][m], and the note[^1], where \\(a_1 * b_2 * c\\) is.',
    '# In between',
    'Something else.',
    '[m]: https://manual.example "The manual"',
    '[^1]: It says so.'
  ].join('\n\n')
  for (const piece of text.match(/.{1,9}/gs) ?? []) stage.say(piece)
  const answer = page.locator('.message.ai').last()
  await answer.getByRole('link', { name: 'the manual' }).waitFor()
  t.equal(await answer.getByRole('link', { name: 'the manual' }).getAttribute('href'), 'https://manual.example')
  await answer.locator('sup.note-mark').waitFor()
  await answer.locator('math').waitFor()
  t.match(await copied(page, '.message.ai'), /\\\(a_1 \* b_2 \* c\\\)/, 'a formula is copied as it was written')
  const grown = await lastAnswer(visitor)
  const blocks: Json[] = [
    { type: 'text', text },
    { type: 'image_url', image_url: { url: PIXEL } },
    { type: 'image_url', image_url: { url: 'https://elsewhere.example/1.png' } }
  ]
  stage.sink.record(request())
  stage.sink.record(response({ ...anAnswer(''), content: blocks }))
  stage.sink.record({ type: 'step', node: 'agent' })
  stage.finish()
  await answer.getByRole('img', { name: 'Image in the answer' }).waitFor()
  await answer.getByRole('link', { name: /elsewhere.example/ }).waitFor()
  await visitor.answered()
  const live = await lastAnswer(visitor)
  t.ok(live.startsWith(grown), 'the words stay as they were')
  await visitor.open(`#/t/${threadId}`)
  await page.reload()
  await visitor.answered()
  t.equal(await lastAnswer(visitor), live)
})

for (const width of [320, 1280])
  browserTest(`a table is read by its words and columns at ${width} pixels, and scrolls by itself`, async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const threadId = await person.thread()
    const head = '| Left | Right | Middle | Description | Responsibility |\n|:--|--:|:-:|---|---|\n'
    const row = '| configuration | 1234567 | middle | a sentence of several longer words | administration |\n'
    const messages = [
      { type: 'human', id: 'q', content: 'a table' },
      { type: 'ai', id: 'a', content: head + row.repeat(3) }
    ]
    await person.post(`/api/threads/${threadId}/state`, { values: { messages } })
    const visitor = await visit(t, site.url, { person, context: { viewport: { width, height: 700 } } })
    const { page } = visitor
    await visitor.open(`#/t/${threadId}`)
    await page.locator('.message.ai table').waitFor()
    const broken = await page.evaluate(`[...document.querySelectorAll('.message.ai td')].filter((cell) => {
      const range = document.createRange()
      const text = cell.firstChild
      return [...text.data.matchAll(/\\S+/g)].some(({ 0: word, index }) => {
        range.setStart(text, index)
        range.setEnd(text, index + word.length)
        return range.getClientRects().length > 1
      })
    }).map((cell) => cell.textContent)`)
    t.same(broken, [], 'no word is broken')
    const aligned = await page.evaluate(
      "[...document.querySelectorAll('.message.ai tr:last-child td')].map((cell) => getComputedStyle(cell).textAlign)"
    )
    t.match(listIn(aligned).map(String), [/left|start/, /right/, /center/, /left|start/, /left|start/])
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    const scrolls =
      "(() => { const box = document.querySelector('.message.ai .table'); return box.scrollWidth > box.clientWidth })()"
    t.equal(await page.evaluate(scrolls), width < 400, 'it scrolls where it is too wide')
  })

browserTest('a word without an end is broken in a table, and lists stand where their script begins', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  const row = `| a | b | ${'endless'.repeat(40)} | a sentence of several longer words |`
  const text = `| A | B | C | D |\n|---|---|---|---|\n${row}\n\n- قائمة\n- ثانية\n\n> اقتباس`
  await visitor.open(`#/t/${await threadSaying(person, text)}`)
  await page.locator('.message.ai table').waitFor()
  const { width } = (await page.locator('.message.ai td').nth(2).boundingBox())!
  t.ok(width < 640, 'the word is broken')
  const sides = `[...document.querySelectorAll('.message.ai :is(ul, blockquote)')].map((box) => {
    const { paddingLeft, paddingRight, borderLeftWidth } = getComputedStyle(box)
    return [paddingLeft === '0px', paddingRight !== '0px', borderLeftWidth === '0px']
  })`
  t.same(await page.evaluate(sides), [
    [true, true, true],
    [true, true, true]
  ])
})

t.test('tags that only set text are read, and all others shown as they are written', async (t) => {
  const text = 'H<sub>2</sub>O, 10<SUP>3</sup>,<br>a <kbd>key</kbd><br/><b>b</b> <sub onclick="x">c'
  const shown =
    'H<sub>2</sub>O, 10<SUP>3</sup>,<br>a <kbd>key</kbd><br/>&#60;b&#62;b&#60;/b&#62; &#60;sub onclick=&#34;x&#34;&#62;c'
  t.same(whole(text), [`<p>${shown}</p>\n`])
})

t.test('a fold is opened and closed where its tags stand, and what is about them says so', async (t) => {
  const { nested } = await pageModule<typeof import('../../lib/console/folds.ts')>('folds')
  const read = (text: string) => {
    const blocks = whole(text)
    return { parts: nested(blocks), blocks: blocks.map((block) => block.trim()) }
  }
  const first = read(
    '<details>\n<summary><b>Why</b> [a]</summary>\n\n- one\n</details>\n\nEnd\n\n[a]: http://a.example'
  )
  t.same(first.parts, [{ at: 0, isOpen: false, summary: 1, inside: [1, 2] }, 4])
  t.match(first.blocks[1], /<p>Why <a href="http:\/\/a.example">a<\/a><\/p>/)
  t.equal(first.blocks[2], '<ul>\n<li>one</li>\n</ul>')
  const inLine = read('<details open><summary>A</summary>Text **b**</details>\nEnd')
  t.same(inLine.parts, [{ at: 0, isOpen: true, summary: 1, inside: [1, 2] }, 4])
  t.equal(inLine.blocks[2], '<p>Text <strong>b</strong></p>')
  t.same(read('<details>\n<details>\nb').parts, [
    { at: 0, isOpen: false, summary: null, inside: [{ at: 1, isOpen: false, summary: null, inside: [2] }] }
  ])
  const about = read(
    'The <details> tag.\n\n<details> is a tag.\n\n`</details>`\n\n```html\n<details>\n</details>\n```\n\n</details>'
  )
  t.same(about.parts, [0, 1, 2, 3], 'an end of nothing is nothing')
  t.match(
    about.blocks.join(),
    /The &#60;details&#62; tag.*&#60;details&#62; is a tag.*<code>&lt;\/details&gt;.*&#60;details&#62;\n/s
  )
  // Deeper than anybody reads, and than a browser draws.
  t.notMatch(JSON.stringify(read('<details>\n'.repeat(10_000)).parts), /(\{.*){22}/)
})

t.test('a line that opens more quotes and lists than the library can read is shown as it is written', async (t) => {
  const shown = (text: string) => new GrowingMarkdown().blocks(text).join('\n')
  for (const mark of ['> ', '>', '- ', '1. ', '> * ']) {
    const line = `${mark.repeat(4_000)}**deep**`
    const plain = line.replaceAll('>', '&#62;')
    const blocks = shown(`# **a**\n\n${line}\n\n# **b**\n`).split('\n').filter(Boolean)
    t.same(blocks, ['<h1><strong>a</strong></h1>', `<p>${plain}</p>`, '<h1><strong>b</strong></h1>'], mark)
  }
  for (const rule of ['-'.repeat(4_000), '*'.repeat(4_000)]) t.match(shown(`a\n\n${rule}\n\nb`), /<hr>/)
  t.match(shown(`${'> '.repeat(100)}**a**`), /<strong>a/)
})

browserTest(
  'a picture that an answer names is asked for among the files of its thread, and nowhere else',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const threadId = await person.thread()
    const named = [
      'sandbox:/../../../../v1/auth/me',
      '../../../../../../../models',
      '/./mnt/user-data/outputs/a/../b.png'
    ]
    const code = 'Write <img data-file="a.png"> yourself.'
    const content = [...named.map((path) => `![shown](${path})`), `\`${code}\``].join('\n\n')
    const messages = [
      { type: 'human', id: 'q', content: 'pictures' },
      { type: 'ai', id: 'a', content }
    ]
    await person.post(`/api/threads/${threadId}/state`, { values: { messages } })
    const visitor = await visit(t, site.url, { person })
    visitor.expect(/status of 40[04].*\/artifacts\//)
    await visitor.open(`#/t/${threadId}`)
    await visitor.page.locator('.message.ai img.picture').nth(2).waitFor({ state: 'attached' })
    const files = `${site.url}/api/threads/${threadId}/artifacts/`
    const shown = await visitor.page.evaluate(
      "[...document.querySelectorAll('.message.ai img.picture')].map(({ src }) => src)"
    )
    t.strictSame(shown, [`${files}v1/auth/me`, `${files}models`, `${files}mnt/user-data/outputs/b.png`])
    t.equal(
      await visitor.page.locator('.message.ai code').textContent(),
      code,
      'and what is said of one is as it was said'
    )
  }
)
