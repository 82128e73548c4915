// Who does not look at the page is told that an answer is there, or asks: by the page itself, and by the service worker of a push.
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { openSite, until } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'

browserTest(
  'a push shows a notification that names no words of the answer, unless the page is looked at',
  async (t) => {
    const site = await openSite(t)
    const visitor = await visit(t, site.url, {
      person: await account(site.url, 'ada@example.com'),
      context: { serviceWorkers: 'allow', permissions: ['notifications'], locale: 'de-DE' }
    })
    const { page, context } = visitor
    const devtools = await context.newCDPSession(page)
    let registrationId = ''
    devtools.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      registrationId = registrations.find(({ isDeleted }) => !isDeleted)?.registrationId ?? registrationId
    })
    await devtools.send('ServiceWorker.enable')
    await visitor.open()
    await page.evaluate('navigator.serviceWorker.ready.then(() => true)')
    await until(() => registrationId !== '', 'the worker')
    const push = (kind: string, thread_id: string) =>
      devtools.send('ServiceWorker.deliverPushMessage', {
        origin: site.url,
        registrationId,
        data: JSON.stringify({ kind, thread_id })
      })
    const shown = () =>
      page.evaluate<string>(`navigator.serviceWorker.ready
      .then((registration) => registration.getNotifications())
      .then((all) => all.map(({ body, tag, data }) => [body, tag, data].join('|')).join(', '))`)
    await push('done', 'seen')
    await page.goto('about:blank')
    await push('done', 'one')
    await push('asks', 'two')
    await visitor.open()
    // A browser without a screen takes them back when it finds that it shows none.
    let said: string[] = []
    await until(async () => {
      said = (await shown()).split(', ').toSorted()
      return said.length === 2
    }, 'two notifications')
    t.same(said, ['Der Agent fragt dich etwas.|two|two', 'Die Antwort ist da.|one|one'])
  }
)

browserTest('a hidden page tells itself that an answer is there or asks; who looks at it is not told', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'm', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'm' }]
  const site = await openSite(t, { config: { models } })
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visit(t, site.url, { person, context: { permissions: ['notifications'] } })
  const { page } = visitor
  // A browser without a screen hides no tab and lists no notification of a page: its own class still has to let each be shown.
  await page.addInitScript(`{
    globalThis.shown = []
    const Real = Notification
    globalThis.Notification = class extends Real {
      constructor(title, options) {
        super(title, options)
        this.onshow = () => shown.push([options.body, options.tag].join('|'))
        this.onerror = () => shown.push('refused')
      }
    }
    let isHidden = false
    Object.defineProperty(document, 'hidden', { get: () => isHidden })
    globalThis.hide = (now) => {
      isHidden = now
      document.dispatchEvent(new Event('visibilitychange'))
    }
  }`)
  await visitor.open()
  await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
  await page.getByLabel('Tell me when an answer is done').check()
  await page.goto(`${site.url}/#/`)
  const shown = () => page.evaluate<string[]>('shown.toSorted()')
  const begin = async (text: string) => {
    const threadId = await person.thread()
    await person.run(threadId, text)
    return threadId
  }
  const looks = () =>
    page.waitForResponse((response) => {
      const { limit } = (response.request().postDataJSON() ?? {}) as { limit?: number }
      return response.url().endsWith('/threads/search') && limit === 20
    })
  const seen = await begin(scripted({ text: 'Seen' }))
  await until(async () => (await person.get(`/api/threads/${seen}`)).text.includes('"idle"'), 'the end')
  const done = await begin(scripted({ text: 'Done', gate: 'g' }))
  const args = JSON.stringify({ question: 'Which?', options: ['a', 'b'] })
  const asks = await begin(scripted({ preamble: 'Wait', calls: [[{ name: 'ask_user', args }]], gate: 'g' }))
  const looked = looks()
  await page.evaluate('hide(true)')
  await looked
  model.release('g')
  await until(async () => (await shown()).length === 2, 'two notifications')
  t.same(await shown(), [`The agent asks you something.|${asks}`, `The answer is there.|${done}`])
})
