// The inside of a run as the page shows it is what the API says of it; the overview is for administrators and reads /metrics.
import { createRequire } from 'node:module'
import { isAccessible } from '../fixtures/axe.ts'
import { browserTest, visit, visitSite } from '../fixtures/browser.ts'
import { at, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'

const EVERYTHING = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-everything/dist/index.js')

browserTest(
  'the inspector shows every event and every frame of a run, also while it works, and two runs side by side',
  async (t) => {
    const { person, visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('What time is it?')
    await visitor.answered()
    await visitor.say('/demo deltas=5 rate=0')
    await visitor.hasWords('w0004')
    await visitor.answered()
    const threadId = await visitor.threadId()
    const runs = listIn((await person.get(`/api/threads/${threadId}/runs`)).body).map((run) => textIn(run, 'run_id'))
    const path = `/api/threads/${threadId}/runs/${runs[1]}`
    await visitor.open(`#/t/${threadId}/r/${runs[1]}`)
    await page.locator('.timeline .name', { hasText: 'current_time' }).waitFor()

    const events = listIn((await person.get(`${path}/events`)).body)
    await page.getByRole('tab', { name: 'Events' }).click()
    await page.getByText(`${events.length} events`).first().waitFor()
    t.same(
      await page.locator('.events .name').allInnerTexts(),
      events.map((event) => at(event, 'event_type'))
    )

    await page.getByRole('tab', { name: 'Frames' }).click()
    await page.getByLabel('Mode').selectOption('messages-tuple')
    await until(async () => (await page.locator('.badge.live').count()) === 0, 'the end of the run')
    const frames = await (await person.join(path, null, ['messages-tuple'])).whole()
    // No frame is live yet where the page has only begun to ask for them.
    await until(async () => (await page.locator('.frames .name').count()) === frames.length, 'all frames')

    await page.getByRole('tab', { name: 'Compare' }).click()
    await page.locator('.compare').getByText('Tokens out').waitFor()
    await page.getByLabel('The other run').selectOption(runs[0]!)
    await page.locator('.compare thead', { hasText: runs[0]!.slice(0, 8) }).waitFor()
  }
)

browserTest(
  'a run is played again at its own pace, frame by frame, and by its events when its frames are gone',
  async (t) => {
    const { person, visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('/demo deltas=60 rate=20')
    await visitor.hasWords('w0059')
    await visitor.answered()
    const threadId = await visitor.threadId()
    const runId = textIn((await person.get(`/api/threads/${threadId}/runs`)).body, 0, 'run_id')
    await visitor.open(`#/t/${threadId}/r/${runId}`)
    await page.getByRole('tab', { name: 'Replay' }).click()
    const slider = page.getByLabel('Position in the run')
    const lasts = Number(await slider.getAttribute('max'))
    t.ok(lasts > 1500, `${lasts} ms of three seconds`)
    const shown = async () => (await page.locator('.replayed').innerText()).split(/\s+/).filter(Boolean).length
    await slider.fill(String(lasts / 2))
    await until(async () => (await shown()) > 5, 'the middle')
    const half = await shown()
    t.ok(half < 55, `${half} words by the half of its time`)
    await page.getByRole('button', { name: 'One frame on' }).click()
    await until(async () => (await shown()) === half + 1, 'the next frame')
    await page.getByRole('button', { name: 'One frame back' }).click()
    await until(async () => (await shown()) === half, 'and back')
    await slider.press('Home')
    await page.getByLabel('Speed').selectOption('20')
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    await until(async () => (await shown()) === 60, 'the end')
    t.match(await slider.getAttribute('aria-valuetext'), /^\d.* of \d.*, frame (\d+) of \1$/)
    await isAccessible(t, visitor, 'a run that is played again')

    // A day later.
    const gap = 'event: gap\ndata: {"code":"stream_replay_gap"}\n\nevent: end\ndata: null\n\n'
    await page.route(/\/stream/, (route) => route.fulfill({ contentType: 'text/event-stream', body: gap }))
    await page.getByRole('tab', { name: 'Timeline' }).click()
    await page.getByRole('tab', { name: 'Replay' }).click()
    await page.getByText('Its frames are no longer kept').waitFor()
    await slider.press('End')
    await until(async () => (await shown()) === 60, 'the whole answer')
  }
)

browserTest('a run that works shows who watches it, and when its first word came', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=800 rate=50')
  await visitor.hasWords('w0003')
  const threadId = await visitor.threadId()
  const run_id = textIn((await person.get(`/api/threads/${threadId}/runs`)).body, 0, 'run_id')
  const other = await person.join(`/api/threads/${threadId}/runs/${run_id}`, null, ['updates'])
  await other.untilFrames(1)
  await visitor.open(`#/t/${threadId}/r/${run_id}`)
  await page.locator('.joiners li', { hasText: 'updates' }).waitFor()
  t.match(await page.locator('.joiners').innerText(), /messages-tuple/)
  other.leave()
  await until(async () => (await page.locator('.joiners li', { hasText: 'updates' }).count()) === 0, 'it has left')
  await page.keyboard.press('Escape')
  await page.locator('.panel.run').waitFor({ state: 'detached' })
  t.equal(await page.locator('[aria-label=Stop]').count(), 1, 'Escape closes it, and the answer goes on')
  await visitor.open(`#/t/${threadId}/r/${run_id}`)
  await visitor.answered()
  await page.locator('.facts', { hasText: 'First token' }).waitFor()
})

browserTest('the overview shows a tool server with its state, what went wrong and what it offers', async (t) => {
  const site = await openSite(t, { config: { mcp: { stdio_commands: ['node', 'false'] } } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
  const works = { type: 'stdio', command: 'node', args: [EVERYTHING, 'stdio'] }
  const mcp_servers = { works, gone: { type: 'stdio', command: 'false' } }
  t.equal((await admin.ask('PUT', '/api/mcp/config', { body: { mcp_servers } })).status, 200)
  const states = async () => JSON.stringify((await admin.get('/api/mcp/config')).body)
  await until(
    async () => /"state":"ready"/.test(await states()) && /"state":"failed"/.test(await states()),
    'their states'
  )
  const visitor = await visit(t, site.url, { person: admin })
  await visitor.open('#/overview')
  const card = (name: string) => visitor.page.locator('.cards li', { hasText: name })
  await card('works').getByText('ready').waitFor()
  await card('works')
    .getByText(/\d+ tools/)
    .waitFor()
  await card('gone').getByText('failed').waitFor()
  t.match(await card('gone').locator('.problem').innerText(), /\w/)
})

browserTest(
  'the overview shows what the server does; a model answers its test and leaves no conversation behind',
  async (t) => {
    const site = await openSite(t)
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
    const visitor = await visit(t, site.url, { person: admin })
    const { page } = visitor
    await visitor.open('#/overview')
    const memory = page.locator('.chart', { hasText: 'Memory' }).locator('b')
    await until(async () => /MB|GB/.test(await memory.innerText()), 'a figure')
    // A canvas that does not know a color paints black.
    const painted = () => page.evaluate<{ black: number; others: number; lines: string[] }>(PAINTED)
    await until(async () => (await painted()).others > 0, 'a drawn chart')
    t.equal((await painted()).black, 0, 'charts have the colors of the theme')
    const isDrawnIn = (color: string, when: string) =>
      until(async () => (await painted()).lines.join(' ') === color, `charts are ${when}`)
    await isDrawnIn(LIGHT, 'light')
    // No new figures come, which would draw charts anyway.
    await page.route('**/metrics/hour?*', () => {})
    await page.emulateMedia({ colorScheme: 'dark' })
    await isDrawnIn(DARK, 'dark with the system')
    await page.keyboard.press('Control+k')
    await page.locator('#palette').fill('theme light')
    await page.getByRole('option', { name: 'Theme: light' }).waitFor()
    await page.keyboard.press('Enter')
    await isDrawnIn(LIGHT, 'light by choice')
    await page.unroute('**/metrics/hour?*')
    await page.getByRole('button', { name: 'Test' }).first().click()
    await page
      .getByText(/answers; the first word after/)
      .first()
      .waitFor()
    await until(
      async () => listIn((await admin.post('/api/threads/search', {})).body).length === 0,
      'the conversation of the test is gone'
    )
    // Charts that are taken away while their places change are no error.
    await visitor.open('#/')
    await page.locator('.welcome').waitFor()
  }
)

/** The accent of either theme, as all charts have it. */
const [LIGHT, DARK] = ['79,70,201', '165,160,255']
/** How many pixels of charts are black, and how many have another color; the colors of those that let nothing through, of lines: in the page. */
const PAINTED = `[...document.querySelectorAll('.chart canvas')].reduce((found, canvas) => {
  const copy = Object.assign(document.createElement('canvas'), { width: canvas.width || 1, height: canvas.height || 1 })
  const context = copy.getContext('2d', { willReadFrequently: true })
  context.drawImage(canvas, 0, 0)
  const { data } = context.getImageData(0, 0, copy.width, copy.height)
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 0) found[data[at] + data[at + 1] + data[at + 2] === 0 ? 'black' : 'others']++
    const color = data.slice(at, at + 3).join()
    if (data[at + 3] === 255 && !found.lines.includes(color)) found.lines.push(color)
  }
  return found
}, { black: 0, others: 0, lines: [] })`
