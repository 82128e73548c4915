// What the service worker does with a push: who looks at the page is not told, others are, in the browser's language.
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { openSite, until } from '../fixtures/gateway.ts'

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
