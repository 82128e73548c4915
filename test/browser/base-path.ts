// The page below a path of its server: it signs in, streams over its WebSocket, shows files and works without the server, all below there.
import { browserTest, visit } from '../fixtures/browser.ts'
import { openSite, PASSWORD, Person } from '../fixtures/gateway.ts'

const BASE = '/teams/chat'

browserTest(
  'below a path the page signs in, streams, keeps itself for later, and leaves nothing beside it',
  async (t) => {
    const site = await openSite(t, { config: { server: { public_url: `http://127.0.0.1${BASE}` } } })
    await new Person(site.url + BASE).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
    const visitor = await visit(t, `${site.url}${BASE}`, { context: { serviceWorkers: 'allow' } })
    const { page, context } = visitor
    const strays: string[] = []
    page.on('request', (request) => {
      if (!new URL(request.url()).pathname.startsWith(BASE)) strays.push(request.url())
    })
    visitor.expect(/status of 401/)
    const socket = page.waitForEvent('websocket')
    await visitor.open()
    await page.getByLabel('E-mail').fill('root@example.com')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    t.match((await socket).url(), `${BASE}/api/stream`)
    for (const { name, path } of await context.cookies()) t.equal(path, BASE, name)
    const scope = await page.evaluate('navigator.serviceWorker.ready.then(({ scope }) => scope)')
    t.equal(scope, `${site.url}${BASE}/`)
    const kept = await page.evaluate<string[]>('caches.keys()')
    t.match(kept, [new RegExp(`^${BASE}/console/`)])
    t.equal(kept.length, 1)
    // Until then it could be undone.
    const deletion = page.waitForResponse((response) => response.request().method() === 'DELETE')
    await page.getByRole('button', { name: /^Actions for/ }).press('Enter')
    await page.getByRole('menuitem', { name: 'Delete' }).press('Enter')
    await page.getByRole('button', { name: 'Delete', exact: true }).press('Enter')
    t.equal((await deletion).status(), 200, 'it goes there too')
    await page.goto(`${site.url}${BASE}/docs`)
    await page
      .getByRole('heading', { name: /Colloquy/ })
      .first()
      .waitFor()
    t.strictSame(strays, [])
  }
)
