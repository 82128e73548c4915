// The door of the page: first boot, sign-in, whose conversations are whose, and a session that ends.
import { EventEmitter, once } from 'node:events'
import type { Page, Route } from 'playwright-core'
import { account, browserTest, visit, visitSite } from '../fixtures/browser.ts'
import { openSite, PASSWORD, Person, until } from '../fixtures/gateway.ts'
import { linkIn, openMailServer } from '../fixtures/mail-server.ts'

browserTest('from the first boot to the first answer: an administrator, a question, an answer', async (t) => {
  const site = await openSite(t)
  const visitor = await visit(t, site.url)
  const { page } = visitor
  await visitor.open()
  await page.getByRole('heading', { name: 'Welcome to Colloquy' }).waitFor()
  t.match(await page.locator('#rules').innerText(), /8 characters/, 'the rules are said before they are broken')
  await page.getByLabel('E-mail').fill('ada@example.com')
  await page.getByLabel('Password').fill('password123')
  visitor.expect(/status of 422/)
  await page.getByRole('button', { name: 'Create the administrator' }).click()
  t.match(await page.getByRole('alert').innerText(), /too common/)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Create the administrator' }).click()
  await visitor.say('/demo deltas=12 rate=0')
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), 'w0000 w0001 w0002 w0003 w0004 w0005 w0006 w0007 w0008 w0009 w0010 w0011')
  await page.locator('.side').getByText('Overview').waitFor()
})

browserTest('a wrong password is said and lets nobody in; the right one does', async (t) => {
  const site = await openSite(t)
  await account(site.url, 'bob@example.com')
  // With an administrator there is a sign-in in place of the set-up.
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const visitor = await visit(t, site.url)
  const { page } = visitor
  visitor.expect(/status of 401/)
  await visitor.open()
  await page.getByLabel('E-mail').fill('bob@example.com')
  await page.getByLabel('Password').fill('not-the-password')
  await page.getByRole('button', { name: 'Sign in' }).click()
  t.equal(await page.getByRole('alert').innerText(), 'Incorrect email or password')
  await page.getByText('An administrator can send you a link').first().waitFor()
  await page.getByRole('button', { name: 'Show what is typed' }).click()
  t.equal(await page.getByLabel('Password').getAttribute('type'), 'text')
  await page.getByRole('button', { name: 'Hide what is typed' }).click()
  await page.route('**/login/local', (route) =>
    route.fulfill({
      status: 429,
      headers: { 'retry-after': '120' },
      json: { detail: 'Too many login attempts. Try again later.' }
    })
  )
  visitor.expect(/status of 429/)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').filter({ hasText: 'tried again in 2 min' }).waitFor()
  await page.unroute('**/login/local')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('.welcome').waitFor()
  t.equal(await page.locator('.side').getByText('Overview').count(), 0, 'the overview is for administrators')
})

browserTest('a second user sees nothing of the first, not even by the address', async (t) => {
  const site = await openSite(t)
  const [ada, eve] = [await account(site.url, 'ada@example.com'), await account(site.url, 'eve@example.com')]
  const first = await visit(t, site.url, { person: ada })
  await first.open()
  await first.say('/demo deltas=5 rate=0')
  await first.answered()
  const threadId = await first.threadId()
  await first.page.locator('.thread').first().waitFor()
  const second = await visit(t, site.url, { person: eve })
  second.expect(/status of 404/)
  await second.open(`#/t/${threadId}`)
  await second.page.getByText('This conversation does not exist, or it is not yours.').first().waitFor()
  t.equal(await second.page.locator('.thread').count(), 0)
})

browserTest('a session that is revoked leads to the sign-in, and from there back to the same thread', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  visitor.expect(/status of 401/)
  await visitor.open()
  await visitor.say('/demo deltas=5 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  await page.fill('#composer', 'a draft')
  await person.post('/api/v1/auth/change-password', { current_password: PASSWORD, new_password: 'another-horse-43' })
  // Nobody has to send anything first: the connection of the page is closed.
  await page.getByText('Your session has ended').first().waitFor()
  t.equal(await page.getByLabel('E-mail').inputValue(), 'ada@example.com', 'who was here is known')
  await page.getByLabel('Password').fill('another-horse-43')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await visitor.hasWords('w0004')
  t.equal(await visitor.threadId(), threadId)
  t.equal(await page.inputValue('#composer'), 'a draft')
})

browserTest(
  'who is invited makes an account by the address that an administrator sends, and nobody makes two',
  async (t) => {
    const site = await openSite(t, { config: { auth: { registration: 'invite' } } })
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
    const host = await visit(t, site.url, { person: admin })
    await host.open('#/overview')
    await host.page.getByLabel('For whom').fill('Bob')
    await host.page.getByRole('button', { name: 'Invite', exact: true }).click()
    const address = await host.page.locator('.secret code').innerText()
    await host.page.getByText('Bob').first().waitFor()
    for (const email of ['bob@example.com', 'eve@example.com']) {
      const guest = await visit(t, site.url)
      // The second is refused, and asks how it stands within a minute of the first.
      guest.expect(/status of (403|429)/)
      await guest.page.goto(address)
      await guest.page.getByLabel('E-mail').fill(email)
      await guest.page.getByLabel('Password').fill('another-horse-43')
      t.match(await guest.page.getByLabel('Invitation').inputValue(), /^clq_/)
      await guest.page.getByRole('button', { name: 'Create account' }).click()
      if (email.startsWith('bob')) await guest.page.locator('.welcome').waitFor()
      else await guest.page.getByRole('alert').getByText('Registration needs an invitation').waitFor()
    }
  }
)

/** A look with the session that is being exchanged. The page looks again. */
const LOOK_REFUSED = /status of 401/

browserTest('sessions elsewhere are ended from here, and this one goes on', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const elsewhere = new Person(site.url)
  await elsewhere.post('/api/v1/auth/login/local', { email: 'ada@example.com', password: PASSWORD })
  const visitor = await visit(t, site.url, { person })
  visitor.expect(LOOK_REFUSED)
  await visitor.open()
  await visitor.page.getByRole('button', { name: 'ada@example.com' }).click()
  await visitor.page.getByRole('button', { name: 'Sign out everywhere else' }).click()
  const sure = visitor.page.getByRole('button', { name: 'Sign out everywhere else, really' })
  await sure.waitFor()
  t.equal((await elsewhere.get('/api/v1/auth/me')).status, 200, 'it is asked first')
  await sure.click()
  await visitor.page.getByText('All other sessions have ended.').first().waitFor()
  t.equal((await elsewhere.get('/api/v1/auth/me')).status, 401)
  await visitor.page.getByRole('button', { name: 'Close' }).click()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
})

browserTest('a token is shown once and works within its scopes; a changed password keeps this session', async (t) => {
  const { site, visitor, page } = await visitSite(t)
  visitor.expect(LOOK_REFUSED)
  await visitor.open()
  await page.getByRole('button', { name: 'ada@example.com' }).click()
  await page.getByLabel('Name').fill('script')
  await page.getByText('read conversations, files and settings').click()
  await page.getByRole('button', { name: 'Create token' }).click()
  const token = await page.locator('.secret code').innerText()
  const ask = (path: string) => fetch(site.url + path, { headers: { authorization: `Bearer ${token}` } })
  t.equal((await ask('/api/threads/none/state')).status, 404, 'it is taken')
  t.equal((await ask('/api/threads/none/runs')).status, 403, 'and no further than its scopes')
  await page.getByLabel('Current').fill(PASSWORD)
  await page.getByLabel('New', { exact: true }).fill('another-horse-43')
  await page.getByRole('button', { name: 'Change', exact: true }).click()
  await page.getByText('The password is changed').first().waitFor()
  await page.getByRole('button', { name: 'Revoke script' }).click()
  await page.getByRole('button', { name: 'Revoke script, really' }).click()
  await until(async () => (await ask('/api/threads/none/state')).status === 401, 'the revocation')
  // As a page that comes back: the session is the new one, and all of its connections are.
  await page.reload()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
})

browserTest('a tab whose session has ended goes on when another tab has signed the same user in', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const visitor = await visit(t, site.url, { person })
  visitor.expect(/status of (40[14]|429)/)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const other = await visitor.tab()
  other.expect(/status of (40[14]|429)/)
  await other.open()
  await other.page.locator('.welcome').waitFor()
  await person.post('/api/v1/auth/change-password', { current_password: PASSWORD, new_password: 'another-horse-43' })
  for (const { page } of [visitor, other]) await page.getByText('Your session has ended').first().waitFor()
  await other.page.getByLabel('E-mail').fill('ada@example.com')
  await other.page.getByLabel('Password').fill('another-horse-43')
  await other.page.getByRole('button', { name: 'Sign in' }).click()
  await other.page.locator('.welcome').waitFor()
  await visitor.hasWords('w0002')
  await visitor.say('/demo deltas=3 rate=0 size=7')
  await visitor.hasWords('w00002')
})

/** What exchanges the page's session for another, how it is pressed in the account, and what says that it is done. */
const EXCHANGES: Readonly<Record<string, { path: string; press(page: Page): Promise<void>; done: string }>> = {
  'a changed password': {
    path: '**/change-password',
    press: async (page) => {
      await page.getByLabel('Current').fill(PASSWORD)
      await page.getByLabel('New', { exact: true }).fill('another-horse-43')
      await page.getByRole('button', { name: 'Change', exact: true }).click()
    },
    done: 'The password is changed'
  },
  'the end of all other sessions': {
    path: '**/sessions/end',
    press: async (page) => {
      await page.getByRole('button', { name: 'Sign out everywhere else' }).click()
      await page.getByRole('button', { name: 'Sign out everywhere else, really' }).click()
    },
    done: 'All other sessions have ended.'
  }
}

/** The server's answer, of which the browser knows nothing yet: `route.fetch` would give it the new cookies at once. */
async function answerOf(route: Route): Promise<{ status: number; headers: Record<string, string>; body: string }> {
  const request = route.request()
  const { 'content-length': _, ...headers } = await request.allHeaders()
  const response = await fetch(request.url(), { method: request.method(), headers, body: request.postData() })
  const cookies = response.headers.getSetCookie().join('\n')
  const type = response.headers.get('content-type') ?? ''
  return {
    status: response.status,
    headers: { 'content-type': type, 'set-cookie': cookies },
    body: await response.text()
  }
}

/** A page without a WebSocket looks every ten seconds. */
const SEVERAL_LOOKS_MS = 90_000

for (const [what, { path, press, done }] of Object.entries(EXCHANGES))
  browserTest(`a refusal of the old session, before or after ${what} is answered, signs nobody out`, async (t) => {
    const { visitor, page } = await visitSite(t)
    visitor.expect(/status of 401/)
    // Where there is no WebSocket, the page polls.
    await page.routeWebSocket('**/api/stream*', (socket) => socket.close())
    await visitor.open()
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    const refusal = { status: 401, json: { detail: { code: 'token_invalid', message: 'Invalid token' } } }
    const gate = new EventEmitter()
    const [early, changed] = [once(gate, 'early'), once(gate, 'changed')]
    // Two looks for conversations: one is refused while the session is being exchanged, and one when it has been.
    await page.route('**/threads/search', (route) => changed.then(() => route.fulfill(refusal)), { times: 1 })
    const late = page.waitForRequest('**/threads/search', { timeout: SEVERAL_LOOKS_MS })
    await page.route(path, async (route) => {
      const answer = await answerOf(route)
      // Not before: then the session of the page would have ended indeed.
      const refuse = (look: Route) => look.fulfill(refusal).then(() => gate.emit('early'))
      await page.route('**/runs?limit=1', refuse, { times: 1 })
      await early
      await route.fulfill(answer)
      gate.emit('changed')
    })
    await late
    await page.getByRole('button', { name: 'ada@example.com' }).click()
    const isRefused = page.waitForResponse(
      (response) => response.url().endsWith('/threads/search') && response.status() === 401,
      { timeout: SEVERAL_LOOKS_MS }
    )
    await press(page)
    await page.getByText(done).first().waitFor({ timeout: SEVERAL_LOOKS_MS })
    await isRefused
    await page.getByRole('button', { name: 'Close' }).click()
    await visitor.say('/demo deltas=3 rate=0 size=7')
    await visitor.hasWords('w00002')
    t.equal(await page.getByText('Your session has ended').count(), 0)
  })

browserTest('who may not see the overview is told so', async (t) => {
  const { visitor } = await visitSite(t)
  await visitor.open('#/overview')
  await visitor.page.getByRole('heading', { name: 'This page is for administrators' }).waitFor()
  t.equal(await visitor.page.locator('.overview').count(), 0)
  await visitor.page.getByRole('button', { name: 'Back to your conversations' }).click()
  await visitor.page.locator('.welcome').waitFor()
})

browserTest('an address that is none leads to a new conversation', async (t) => {
  const { visitor } = await visitSite(t)
  await visitor.open('#/t/%E0%A4%A')
  await visitor.page.locator('.welcome').waitFor()
  await visitor.page.evaluate("location.hash = '#/t/%'")
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
})

browserTest('who signs in where another was signed in finds nothing of the other, in no tab', async (t) => {
  const site = await openSite(t)
  const ada = await account(site.url, 'ada@example.com')
  await account(site.url, 'eve@example.com')
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  // More than a page of them, so that the list has an end that is not loaded anew.
  await Promise.all(Array.from({ length: 45 }, () => ada.thread()))
  const visitor = await visit(t, site.url, { person: ada })
  const { page } = visitor
  visitor.expect(/status of (40[14]|429)/)
  await visitor.open()
  await page.locator('.thread').nth(39).waitFor()
  await page.locator('.thread').nth(39).scrollIntoViewIfNeeded()
  await page.locator('.thread').nth(44).waitFor()
  await page.fill('#composer', 'a secret of Ada')
  const other = await visitor.tab()
  other.expect(/status of (40[14]|429)/)
  await other.open()
  await other.page.locator('.thread').first().waitFor()
  await ada.post('/api/v1/auth/change-password', { current_password: PASSWORD, new_password: 'another-horse-43' })
  await page.getByText('Your session has ended').first().waitFor()
  await page.getByLabel('E-mail').fill('eve@example.com')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  for (const tab of [page, other.page]) {
    await tab.getByRole('button', { name: 'eve@example.com' }).waitFor()
    await tab.getByText('Your conversations will be listed here.').waitFor()
    t.equal(await tab.locator('.thread').count(), 0)
    t.equal(await tab.inputValue('#composer'), '')
  }
})

browserTest(
  'an account shows where it is signed in, ends another session, and ends itself by its password',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const other = new Person(site.url)
    await other.post('/api/v1/auth/login/local', { email: 'ada@example.com', password: PASSWORD })
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open()
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByText('this one').first().waitFor()
    const end = page.getByRole('button', { name: /^End the session of/ })
    await end.first().press('Enter')
    await page.getByRole('button', { name: /, really$/ }).press('Enter')
    await until(async () => (await other.get('/api/v1/auth/me')).status === 401, 'the other session has ended')
    visitor.expect(/status of 40[01]/)
    await page.getByRole('button', { name: 'Delete this account' }).press('Enter')
    await page.getByLabel('Your password').fill('not-the-password')
    await page.getByRole('button', { name: 'Delete everything' }).press('Enter')
    t.match(await page.locator('dialog').getByRole('alert').innerText(), /password/i)
    await page.getByLabel('Your password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Delete everything' }).press('Enter')
    await page.getByLabel('E-mail').waitFor()
  }
)

browserTest(
  'a forgotten password: the door sends a link where there is mail, and says nothing of who has an account',
  async (t) => {
    const mail = await openMailServer(t)
    const site = await openSite(t, { config: { mail: { url: mail.url } } })
    await account(site.url, 'bob@example.com')
    await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
    const visitor = await visit(t, site.url)
    const { page } = visitor
    await visitor.open()
    await page.getByRole('button', { name: 'Forgot your password?' }).click()
    t.equal(mail.asked, 0, 'of nobody nothing is asked')
    await page.getByLabel('E-mail').fill('bob@example.com')
    await page.getByRole('button', { name: 'Forgot your password?' }).click()
    await page.getByText('a mail with a link is on its way').waitFor()
    await until(() => mail.mails.length === 1, 'the mail')
    const guest = await visit(t, site.url)
    // Another browser of the same address asks within the minute.
    guest.expect(/status of 429/)
    await guest.open(`#/password/${linkIn(mail.mails[0]!)}`)
    await guest.page.getByLabel('E-mail').fill('bob@example.com')
    await guest.page.getByLabel('Password').fill('another-password-7')
    await guest.page.getByRole('button', { name: 'Set the password' }).click()
    await guest.page.locator('.welcome').waitFor()
  }
)

browserTest('who is signed out by another tab is told so, and comes back to the same thread and draft', async (t) => {
  const { site, visitor, page } = await visitSite(t)
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  visitor.expect(/status of (40[134]|429)/)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  await page.fill('#composer', 'a draft')
  const other = await visitor.tab()
  other.expect(/status of (40[134]|429)/)
  await other.open()
  await other.page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
  await other.page.getByRole('button', { name: 'Sign out', exact: true }).click()
  await page.getByText('Your session has ended').first().waitFor()
  t.equal(await page.getByLabel('E-mail').inputValue(), 'ada@example.com')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await visitor.hasWords('w0002')
  t.equal(await visitor.threadId(), threadId)
  t.equal(await page.inputValue('#composer'), 'a draft')
})
