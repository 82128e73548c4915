// An answer fit to read: diagrams, code, formulas, footnotes, sources, files and their versions, in Chromium.
import { join } from 'node:path'
import type { Json } from '../../lib/base/types.ts'
import { aCall, aResult, ScriptedAgent } from '../fixtures/agent.ts'
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, threadSaying, visit, words, visitSite } from '../fixtures/browser.ts'
import { startChild } from '../fixtures/child.ts'
import { openSite, until } from '../fixtures/gateway.ts'
import { packagesOf } from '../fixtures/npm.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

browserTest(
  'code is coloured, wrapped, saved and copied; its libraries come with the first that needs them',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const plain = await threadSaying(person, 'Words only.')
    const code = '```python\nclass A:\n    name = "b"  # c\n```'
    const threadId = await threadSaying(person, code)
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open(`#/t/${plain}`)
    await visitor.hasWords('Words only.')
    const loaded = () =>
      page.evaluate(
        "performance.getEntriesByType('resource').filter(({ name }) => /vendor.(highlight|katex)/.test(name)).length"
      )
    t.equal(await loaded(), 0)
    await visitor.open(`#/t/${threadId}`)
    await page.locator('.hljs-keyword').getByText('class').waitFor()
    t.equal(await loaded(), 2, 'the library and one language')
    t.equal(await page.locator('.code code').textContent(), 'class A:\n    name = "b"  # c')
    await page.getByRole('button', { name: 'Wrap' }).click()
    t.equal(await page.evaluate("getComputedStyle(document.querySelector('.code pre')).whiteSpace"), 'pre-wrap')
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save' }).click()
    ])
    t.equal(download.suggestedFilename(), 'code.py')
    await isAccessible(t, visitor, 'sources')
  }
)

browserTest(
  'what an answer folds is opened by its reader, stays open while it grows, and is not spoken before',
  async (t) => {
    const agent = new ScriptedAgent()
    const { visitor, page } = await visitSite(t, { agent })
    await visitor.open()
    await page.evaluate(`
    window.said = []
    new MutationObserver(() => said.push(document.querySelector('.spoken').textContent))
      .observe(document.querySelector('.spoken'), { childList: true, characterData: true, subtree: true })`)
    await visitor.say('hello')
    await until(() => agent.started.length === 1, 'the run')
    const stage = await agent.stage({ run_id: agent.started[0]! })
    stage.say('Guess.\n\n<details>\n<summary><b>The *answer*</b></summary>\n\n- forty')
    const fold = page.locator('.message.ai details')
    await fold.getByText('The answer').waitFor()
    t.notOk(await fold.getByText('forty').isVisible())
    await fold.getByText('The answer').click()
    await fold.getByText('forty').waitFor()
    stage.say('-two\n\n```js\nlet n = 42\n```\n')
    await fold.locator('.code').waitFor()
    t.ok(await fold.getByText('forty-two').isVisible(), 'it stays open')
    await isAccessible(t, visitor, 'a fold')
    stage.say('</details>\n\n<details><summary onclick="x()">More</summary>A secret.</details>\n\nThe end.')
    stage.finish()
    await visitor.answered()
    t.ok(await page.locator('.message.ai .markdown > .block').getByText('The end.').isVisible())
    t.equal(await page.locator('.message.ai [onclick]').count(), 0)
    await until(async () => String(await page.evaluate('said.join(" ")')).includes('The end.'), 'the end is said')
    const said = String(await page.evaluate('said.join(" ")'))
    t.match(said, /The answer.*More/s)
    t.notMatch(said, /secret/)
    await page.reload()
    await fold.first().getByText('The answer').waitFor()
    t.notOk(await fold.getByText('forty-two').isVisible())
  }
)

browserTest('formulas are drawn by the browser, prices are none, and a mistake stays as it was written', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const text = 'Of \\(a_1\\) and $b^2$, at $5 or $6, with \\(\\oops{\\).\n\n$$\\frac{1}{2}$$'
  const visitor = await visit(t, site.url, { person })
  await visitor.open(`#/t/${await threadSaying(person, text)}`)
  await visitor.page.locator('math mfrac').waitFor()
  t.equal(await visitor.page.locator('.message.ai math').count(), 3)
  t.match(await visitor.page.locator('.message.ai').innerText(), /at \$5 or \$6, with \\\(\\oops\{\\\)/)
})

browserTest('a footnote is reached from its mark by keys, and sources stand below as cards', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const text = 'A claim[^n], and [citation:Weather](https://weather.example/today).\n\n[^n]: The proof.'
  const annotations: Json[] = [
    { type: 'url_citation', url_citation: { url: 'https://docs.example/a', title: 'The guide' } },
    { type: 'citation', url: 'https://news.example/b', cited_text: 'It rained.' },
    { type: 'citation', url: 'javascript:alert(1)', title: 'Not this' }
  ]
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open(`#/t/${await threadSaying(person, [{ type: 'text', text, annotations }])}`)
  await page.getByRole('button', { name: 'Footnote n' }).press('Enter')
  t.equal(await page.evaluate('document.activeElement.textContent'), 'n The proof.')
  t.equal(await page.locator('a.cite').innerText(), 'Weather')
  const sources = page.getByRole('list', { name: 'Sources' })
  const shown = (await sources.locator('a').allInnerTexts()).map(words)
  t.same(shown, ['1 The guide docs.example', '2 news.example news.example'])
  await sources.locator('a').last().focus()
  await sources.getByText('It rained.').waitFor()
  await isAccessible(t, visitor, 'sources')
})

browserTest('pictures of the thread are shown, others are links that name their host', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await person.thread()
  const png = Buffer.from(PNG, 'base64')
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open(`#/t/${threadId}`)
  await page.locator('input[type=file]').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: png })
  await page.locator('.composer .thumb').waitFor()
  const widthOf = (selector: string) =>
    page.evaluate(`((image) => image.decode().then(() => image.naturalWidth))(document.querySelector('${selector}'))`)
  t.equal(await widthOf('.composer .thumb'), 1, 'before it is sent')
  await visitor.say('![mine](/mnt/user-data/uploads/dot.png)')
  await visitor.answered()
  await page.locator('.message.human .thumb').waitFor()
  t.equal(await widthOf('.message.human .thumb'), 1, 'and after')
  const messages = [
    { type: 'ai', id: 'a2', content: '![mine](/mnt/user-data/uploads/dot.png) ![theirs](https://images.example/1.png)' }
  ]
  await person.post(`/api/threads/${threadId}/state`, { values: { messages } })
  await page.reload()
  await page.locator('.message.ai img.picture').waitFor()
  t.equal(await widthOf('.message.ai img.picture'), 1)
  t.equal(
    await page.getByRole('link', { name: 'theirs images.example' }).getAttribute('href'),
    'https://images.example/1.png'
  )
  // As other protocols' clients send them.
  const image_url = { url: `data:image/png;base64,${PNG}` }
  const content = [
    { type: 'text', text: 'Look' },
    { type: 'image_url', image_url }
  ]
  const looked = await person.thread()
  await person.post(`/api/threads/${looked}/state`, { values: { messages: [{ type: 'human', content }] } })
  await visitor.open(`#/t/${looked}`)
  await page.locator('.message.human').getByRole('img', { name: 'Image', exact: true }).waitFor()
  t.equal(await widthOf('.message.human .picture'), 1, 'of a message that was asked with it')
})

browserTest('what was asked with images keeps them, edited or asked again, until they are removed', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }
  const threadId = await person.thread()
  const content = [image, { type: 'text', text: '/demo deltas=1 rate=0' }]
  const body = { assistant_id: 'agent', input: { messages: [{ type: 'human', content }] } }
  await person.post(`/api/threads/${threadId}/runs/wait`, body)
  await visitor.open(`#/t/${threadId}`)
  await visitor.answered()
  const asked = async (): Promise<Json> => {
    const { values } = (await person.get(`/api/threads/${threadId}/state`)).body as {
      values: { messages: { content: Json }[] }
    }
    return values.messages[0]!.content
  }
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByText('2 / 2').first().waitFor()
  await visitor.answered()
  t.same(await asked(), content, 'asked again')

  const edit = async (text: string) => {
    await page.getByLabel('Edit your message').fill(text)
    await page.getByRole('button', { name: 'Send again' }).click()
  }
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.locator('.edit img.thumb').waitFor()
  await edit('')
  await page.getByText('3 / 3').first().waitFor()
  await visitor.answered()
  t.same(await asked(), [image], 'the image alone')
  t.equal(await page.locator('.message.human .bubble').count(), 0, 'no empty bubble')

  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByRole('button', { name: 'Remove Image' }).click()
  await edit('/demo deltas=1 rate=0')
  await page.getByText('4 / 4').first().waitFor()
  await visitor.answered()
  t.same(await asked(), '/demo deltas=1 rate=0')
})

browserTest(
  'a file is seen as it looks and as it is written, in each of its versions; a drawing runs no script',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const path = '/mnt/user-data/uploads/sun.svg'
    const drawing = (color: string) =>
      `<svg xmlns="http://www.w3.org/2000/svg"><circle r="9" fill="${color}"/><script>parent.document.title = 'taken'</script></svg>`
    const calls: Json[] = ['red', 'gold'].flatMap((color, n): Json[] => [
      {
        type: 'ai',
        id: `c${n}`,
        content: '',
        tool_calls: [{ id: `t${n}`, name: 'write_file', args: { path, content: drawing(color) } }]
      },
      { type: 'tool', id: `r${n}`, tool_call_id: `t${n}`, content: 'ok' }
    ])
    const threadId = await threadSaying(person, 'Drawn.', calls)
    const visitor = await visit(t, site.url, { person })
    // The drawing's script is run, and refused.
    visitor.expect(/SecurityError/)
    const { page } = visitor
    await visitor.open(`#/t/${threadId}`)
    const buffer = Buffer.from(drawing('gold'))
    await page.locator('input[type=file]').setInputFiles({ name: 'sun.svg', mimeType: 'image/svg+xml', buffer })
    await page.locator('.composer .files progress').waitFor({ state: 'detached' })
    await person.post(`/api/threads/${threadId}/state`, { values: { artifacts: [path] } })
    await page.reload()
    await page.getByRole('button', { name: 'sun.svg', exact: true }).press('Enter')
    const frame = page.frameLocator('iframe.document')
    await frame.locator('circle').waitFor({ state: 'attached' })
    t.equal(await frame.locator('circle').getAttribute('fill'), 'gold')
    t.not(await page.title(), 'taken')
    await page.getByRole('button', { name: 'Source' }).click()
    await page.locator('.panel code').getByText('gold').first().waitFor()
    await page.getByText('Version 2 of 2').first().waitFor()
    await page.getByRole('button', { name: 'Older version' }).click()
    await page.locator('.panel code').getByText('red').first().waitFor()
    await isAccessible(t, visitor, 'a file')
  }
)

const DIAGRAM =
  'Above.\n\n```mermaid\nflowchart LR\n  storks --> Africa\n```\n\n```mermaid\nflowchart LR\n  storks --> [[[\n```'

browserTest('a diagram stays as it was written where its library is not installed', async (t) => {
  const { person, visitor } = await visitSite(t)
  await visitor.open(`#/t/${await threadSaying(person, DIAGRAM)}`)
  await visitor.loaded('/console/diagrams.js')
  await visitor.page.locator('.message.ai code').getByText('storks --> Africa').waitFor()
  t.equal(await visitor.page.locator('iframe').count(), 0)
})

browserTest(
  'diagrams are drawn in the sandbox by the library that is installed; a mistake is said there',
  async (t) => {
    const packages = await packagesOf('browser/diagrams')
    if ('reason' in packages) return void t.comment(packages.reason)
    // As it is found beside the gateway, without a change of the installation that other suites run in.
    const child = await startChild(t, { env: { NODE_PATH: join(packages.folder, 'node_modules') } })
    const person = await account(child.url, 'ada@example.com')
    const visitor = await visit(t, child.url, { person })
    const { page } = visitor
    await visitor.open(`#/t/${await threadSaying(person, DIAGRAM)}`)
    const drawn = page.frameLocator('iframe.diagram >> nth=0')
    await drawn.locator('svg').getByText('Africa').waitFor()
    await page
      .frameLocator('iframe.diagram >> nth=1')
      .getByText(/Parse error/)
      .first()
      .waitFor()
    t.equal(await page.locator('iframe.diagram').first().getAttribute('sandbox'), 'allow-scripts')
    await page.emulateMedia({ colorScheme: 'dark' })
    await drawn.locator('meta[name=color-scheme][content=dark]').waitFor({ state: 'attached' })
    await drawn.getByText('storks').first().waitFor()
    t.equal(await drawn.locator('body').evaluate('self.origin'), 'null', 'it reaches nothing of the page')
    await page.locator('figure.drawn summary').first().press('Enter')
    await page.locator('figure.drawn code').first().getByText('storks --> Africa').waitFor()
    await isAccessible(t, visitor, 'a diagram')
  }
)

browserTest('what a tool answers is shown text by text, with its images, live as after a reload', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent })
  await visitor.open()
  await visitor.say('Look there')
  await until(() => agent.started.length === 1, 'the run')
  const stage = await agent.stage({ run_id: agent.started[0]! })
  const call = aCall('c1')
  const data = 'QUJD'.repeat(1000)
  const content: Json[] = [
    { type: 'text', text: 'first' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
    { type: 'text', text: 'second' },
    { type: 'image', mimeType: 'image/png', data: PNG },
    { type: 'image', mime_type: 'image/png', base64: PNG },
    { type: 'file', file: { filename: 'plan.pdf', file_data: `data:application/pdf;base64,${data}` } },
    { type: 'image_url', image_url: { url: 'https://images.example/1.png' } },
    { type: 'image_url', image_url: { url: 'https://' } }
  ]
  stage.callPiece({ index: 0, id: 'c1', name: call.name, args: '{}' }, 'm1')
  stage.reply('', { id: 'm1', tool_calls: [call] })
  stage.sink.record({ type: 'tool_start', call })
  stage.sink.record({ type: 'tool_end', call, message: { ...aResult(call, ''), content } })
  stage.sink.record({ type: 'step', node: 'tools' })
  const isSeen = async (when: string) => {
    const fold = page.locator('.call.done')
    await fold.locator('summary').click()
    await fold.locator('img.picture').nth(2).waitFor()
    const widths = `Promise.all([...document.querySelectorAll('.call img.picture')].map((image) =>
      image.decode().then(() => image.naturalWidth)))`
    t.same(await page.evaluate(widths), [1, 1, 1], when)
    const texts = await fold.locator('pre').allInnerTexts()
    t.same(texts.slice(1, 3), ['first', 'second'], when)
    t.match(texts[3], 'plan.pdf', when)
    t.notOk(texts.join().includes(data), `no wall of data, ${when}`)
    await fold.getByRole('link', { name: 'images.example' }).waitFor()
    await fold.getByText('An image that cannot be shown.').waitFor()
  }
  await isSeen('live')
  await isAccessible(t, visitor, 'a result with images')
  stage.reply('Seen.')
  stage.finish()
  await visitor.answered()
  await page.reload()
  await visitor.answered()
  await isSeen('after a reload')
})
