// The inside of a run as the page shows it is what the API says of it; the overview is for administrators and reads /metrics.
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { at, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'

browserTest(
  'the inspector shows every event and every frame of a run, also while it works, and two runs side by side',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
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
    await page.getByText(`${events.length} events`).waitFor()
    t.same(
      await page.locator('.events .name').allInnerTexts(),
      events.map((event) => at(event, 'event_type'))
    )

    await page.getByRole('tab', { name: 'Frames' }).click()
    await page.getByLabel('Mode').selectOption('messages-tuple')
    await until(async () => (await page.locator('.badge.live').count()) === 0, 'the end of the run')
    const frames = await (await person.join(path, null, ['messages-tuple'])).whole()
    t.equal(await page.locator('.frames .name').count(), frames.length)

    await page.getByRole('tab', { name: 'Compare' }).click()
    await page.getByLabel('The other run').selectOption({ index: 1 })
    await page.locator('.compare').getByText('Tokens out').waitFor()
  }
)

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
    await page.getByRole('button', { name: 'Test' }).first().click()
    await page.getByText(/answers; the first word after/).waitFor()
    await until(
      async () => listIn((await admin.post('/api/threads/search', {})).body).length === 0,
      'the conversation of the test is gone'
    )
  }
)
