// Finding one's way: the palette, groups by day, the archive, an undone deletion, light and dark.
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, visit, type Visitor, visitSite } from '../fixtures/browser.ts'
import { asked, at, listIn, openSite, type Person, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'

async function titled(person: Person, ...titles: string[]): Promise<void> {
  for (const title of titles) {
    const threadId = await person.thread()
    const messages = [{ type: 'human', id: 'q', content: title }]
    await person.post(`/api/threads/${threadId}/state`, { values: { title, messages } })
  }
}

browserTest('the palette finds conversations and commands by keys alone', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await titled(person, 'About tea', 'About coffee', 'Taxes')
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  await page.locator('.when').getByText('Today').waitFor()
  await page.keyboard.press('Control+k')
  await page.locator('#palette').fill('coffee')
  await until(async () => (await page.getByRole('option').count()) === 1, 'the one')
  await isAccessible(t, visitor, 'the palette')
  await page.keyboard.press('Enter')
  await page.locator('.message.human').getByText('About coffee').waitFor()
  await page.keyboard.press('Control+k')
  await page.locator('#palette').fill('theme dark')
  await page.getByRole('option', { name: 'Theme: dark' }).waitFor()
  await page.keyboard.press('Enter')
  const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
  await until(async () => (await background()) === 'rgb(20, 20, 25)', 'the dark')
  await isAccessible(t, visitor, 'the dark by choice')
  await page.reload()
  await page.locator('.message.human').waitFor()
  t.equal(await background(), 'rgb(20, 20, 25)', 'a reload keeps it')
})

browserTest('conversations stand below their day, week and month', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await titled(person, ...Array.from({ length: 5 }, (_, n) => `Number ${n}`))
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  // As if each were older than the one above it.
  const days = [0, 1, 5, 20, 400]
  await page.route('**/api/threads/search', async (route) => {
    const response = await route.fetch()
    const list = listIn(await response.json()).map((thread, n) => ({
      ...(thread as object),
      updated_at: new Date(Date.now() - (days[n] ?? 0) * 86_400_000).toISOString()
    }))
    await route.fulfill({ response, json: list })
  })
  await visitor.open()
  await page.locator('.thread').nth(4).waitFor()
  const groups = await page.locator('.threads .when').allInnerTexts()
  t.match(groups, ['Today', 'Yesterday', 'Previous 7 days', 'Previous 30 days', /^\w+ \d{4}$/])
  t.equal(groups.length, 5)
})

browserTest('a word of a message is found in the list and the palette, and opens at its message', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await person.thread()
  const asks = ['Where do Züge go? /demo deltas=5 rate=0', ...[1, 2, 3].map((n) => `/demo deltas=400 rate=0 ${n}`)]
  for (const words of asks) await person.post(`/api/threads/${threadId}/runs/wait`, asked(words))
  await until(async () => {
    const { body } = await person.get('/api/v1/search?q=zuge')
    return (body as { total: number }).total > 0
  }, 'it is in the index')
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  await page.locator('#search').fill('zug')
  const hit = page.getByRole('region', { name: 'Messages found' }).getByRole('link')
  await hit.locator('mark').getByText('Züge').waitFor()
  await page.locator('.threads').getByText('No title has these words.').waitFor()
  await isAccessible(t, visitor, 'messages found in the list')
  await hit.first().press('Enter')
  const message = page.locator('.message.wanted').getByText('Where do Züge go?')
  await message.waitFor()
  await until(() => message.isVisible(), 'it is there')
  const inSight =
    "(() => { const { top } = document.querySelector('.wanted').getBoundingClientRect(); return top > 0 && top < innerHeight })()"
  await until(async () => (await page.evaluate(inSight)) === true, 'and in sight')
  await page.keyboard.press('Control+k')
  await page.locator('#palette').fill('züge')
  await page
    .getByRole('option')
    .filter({ has: page.locator('mark') })
    .first()
    .waitFor()
  await isAccessible(t, visitor, 'messages found in the palette')
})

/** What the list says of messages found, page by page, when the server has not counted all. */
const COUNTS: Readonly<Record<string, readonly string[]>> = {
  en: ['In messages: 20 of at least 30', 'In messages: at least 40', 'In messages: at least 45'],
  de: ['In Nachrichten: 20 von mindestens 30', 'In Nachrichten: mindestens 40', 'In Nachrichten: mindestens 45'],
  zh: ['消息中： 20 / 至少 30', '消息中： 至少 40', '消息中： 至少 45']
}

browserTest('what was not yet in the index of words is found while the words stand there', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  let asked = 0
  await page.route('**/api/v1/search?*', async (route) => {
    if (++asked > 1) return route.continue()
    await route.fulfill({ json: { hits: [], total: 0, more: false, waiting: 1 } })
  })
  await visitor.open()
  await visitor.say('What would a lighthouse say of the sea around it?')
  await visitor.answered()
  await page.keyboard.press('Control+k')
  await page.locator('#palette').fill('brings along')
  await page.locator('.palette mark').first().waitFor()
  t.ok(asked > 1)
})

browserTest('of messages that were not all counted the list says so, and goes on while there are more', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const totals = [30, 40, 45]
  for (const [locale, counts] of Object.entries(COUNTS)) {
    const visitor = await visit(t, site.url, { person, context: { locale } })
    const { page } = visitor
    await page.route('**/api/v1/search?*', (route) => {
      const offset = Number(new URL(route.request().url()).searchParams.get('offset'))
      const hits = Array.from({ length: Math.min(20, 45 - offset) }, (_, i) => ({
        thread_id: `t${offset + i}`,
        title: 'Trains',
        message_id: 'm',
        type: 'human',
        created_at: '2026-01-01T00:00:00.000+00:00',
        snippet: [{ text: 'zug', hit: true }]
      }))
      return route.fulfill({ json: { hits, total: totals[offset / 20], more: true, waiting: 0 } })
    })
    await visitor.open()
    await page.locator('#search').fill('zug')
    const found = page.locator('section', { has: page.locator('.found') })
    const button = found.locator('button')
    for (const [i, words] of counts.entries()) {
      if (i > 0) await button.press('Enter')
      await found.getByText(words, { exact: true }).waitFor()
    }
    t.equal(await found.locator('.found').count(), 45)
    t.equal(await button.count(), 0, 'a page that is not full is the last one')
  }
})

/** Answers searches in messages with so many hits of one kind, of as many as are said. */
async function answerSearches({ page }: Visitor, hitAt: (place: number) => object | null, rest: object): Promise<void> {
  await page.route('**/api/v1/search?*', (route) => {
    const offset = Number(new URL(route.request().url()).searchParams.get('offset'))
    const hits = Array.from({ length: 20 }, (_, i) => hitAt(offset + i)).filter((hit) => hit !== null)
    return route.fulfill({ json: { hits, waiting: 0, ...rest } })
  })
}

browserTest(
  'what a search has not looked at is said; a page of titles that are listed leads to the next',
  async (t) => {
    const { person, visitor, page } = await visitSite(t)
    await answerSearches(visitor, () => null, { total: 0, more: true })
    await visitor.open()
    await page.locator('#search').fill('zug')
    await page.locator('.threads').getByText('not all older ones were read').waitFor()
    await page.keyboard.press('Control+k')
    await page.locator('#palette').fill('zug')
    await page.getByRole('dialog').getByText('not all older ones were read').waitFor()
    await isAccessible(t, visitor, 'a search that has not looked at all')
    await page.keyboard.press('Escape')

    await page.unroute('**/api/v1/search?*')
    await titled(person, 'Zug')
    const [listed] = listIn((await person.post('/api/threads/search', {})).body)
    const common = { thread_id: at(listed, 'thread_id'), title: 'Zug', created_at: '2026-01-01T00:00:00.000+00:00' }
    const title = { ...common, message_id: null, type: 'title', snippet: [{ text: 'Zug', hit: true }] }
    const message = { ...common, message_id: 'm', type: 'human', snippet: [{ text: 'ein Zug', hit: true }] }
    await answerSearches(visitor, (place) => (place < 20 ? title : place === 20 ? message : null), {
      total: 21,
      more: false
    })
    await page.reload()
    await page.locator('#search').fill('zug')
    const found = page.getByRole('region', { name: 'Messages found' })
    await found.getByRole('button', { name: 'More' }).press('Enter')
    await found.getByText('ein Zug').waitFor()
    t.equal(await found.getByRole('link').count(), 1)
  }
)

browserTest('a conversation is archived, found again and taken back; a deletion is undone', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await titled(person, 'About tea', 'About coffee')
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  const list = page.locator('.thread')
  const isListed = (title: string, count: number) =>
    until(async () => (await list.filter({ hasText: title }).count()) === count, `${count} of ${title}`)
  const act = async (title: string, what: string) => {
    await page.getByRole('button', { name: `Actions for ${title}` }).press('Enter')
    await page.getByRole('menuitem', { name: what }).press('Enter')
  }
  await act('About tea', 'Archive')
  await isListed('About tea', 0)
  await page.locator('#search').fill('tea')
  await isListed('About tea', 1)
  await act('About tea', 'Take out of the archive')
  await page.locator('#search').fill('')
  await isListed('About tea', 1)
  await page.route('**/api/threads/*', (route) =>
    route.fulfill({ status: 403, json: { detail: 'Permission denied: threads:write' } })
  )
  visitor.expect(/status of 403/)
  await act('About tea', 'Archive')
  await page.locator('.toast').filter({ hasText: 'You have no right to do this' }).waitFor()
  await page.unroute('**/api/threads/*')
  await act('About coffee', 'Delete')
  await page.getByRole('button', { name: 'Delete', exact: true }).press('Enter')
  await isListed('About coffee', 0)
  await page.locator('.toast').filter({ hasText: 'deleted' }).getByRole('button', { name: 'Undo' }).press('Enter')
  await isListed('About coffee', 1)
  await page.reload()
  await isListed('About coffee', 1)
})

browserTest(
  'the page opens without a server, says so, and goes on when it is back; nothing of a conversation is kept',
  async (t) => {
    const site = await openSite(t)
    const proxy = await openProxy(t, site.url)
    const person = await account(site.url, 'ada@example.com')
    const visitor = await visit(t, proxy.url, { person, context: { serviceWorkers: 'allow' } })
    visitor.expect(/net::ERR_|WebSocket|Failed to load resource/)
    const { page } = visitor
    await visitor.open()
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    await page.fill('#composer', 'a draft')
    await page.evaluate('navigator.serviceWorker.ready.then(() => {})')
    proxy.down()
    await page.reload()
    await page.getByText('The server does not answer').first().waitFor()
    t.equal(await page.inputValue('#composer'), 'a draft')
    const kept = await page.evaluate(
      "caches.keys().then((names) => caches.open(names[0])).then((cache) => cache.keys()).then((all) => all.map(({ url }) => new URL(url).pathname).filter((path) => path.startsWith('/api')))"
    )
    t.same(kept, [])
    proxy.up()
    await visitor.hasWords('w0002')
    await until(async () => (await page.inputValue('#composer')) === 'a draft', 'the draft is there')
  }
)
