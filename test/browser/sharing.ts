// Links to a conversation: made from its menu, opened by somebody without an account in mid-answer, taken back.
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { openSite, PASSWORD, Person, until } from '../fixtures/gateway.ts'

browserTest('whoever opens a link in mid-answer reads what its maker reads, and changes nothing', async (t) => {
  const site = await openSite(t, { config: { sharing: 'public', streams: { heartbeat_ms: 500 } } })
  const owner = await visit(t, site.url, { person: await account(site.url, 'ada@example.com') })
  await owner.open()
  await owner.say('/demo deltas=9999 rate=20')
  await owner.page.locator('.message.ai.live').waitFor()
  const { page } = owner
  await page.locator('.thread .more').first().click()
  await page.getByRole('menuitem', { name: 'Share' }).click()
  await page.getByRole('button', { name: 'Make a link' }).click()
  const link = await page.getByRole('textbox', { name: 'The link' }).inputValue()
  t.match(link, /#\/shared\/[\w-]+\/clq_[\w-]{43}$/)
  await isAccessible(t, owner, 'the dialog with a link')
  // As over plain HTTP, where a browser has no clipboard for pages.
  await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })
    addEventListener('copy', () => { globalThis.copied = document.activeElement.value })`)
  await page.locator('dialog .secret').getByRole('button', { name: 'Copy' }).click()
  await page.locator('dialog .toast').getByText('Copied').waitFor()
  t.equal(await page.evaluate('copied'), link)

  const guest = await visit(t, site.url, {
    context: { viewport: { width: 320, height: 640 }, reducedMotion: 'reduce' }
  })
  await guest.page.goto(link)
  await guest.page.locator('.message.ai.live').waitFor()
  const seen = await guest.lastAnswer()
  await until(async () => (await guest.lastAnswer()).length > seen.length, 'the answer goes on')
  t.ok((await guest.lastAnswer()).startsWith(seen), 'from the word where it was')
  for (const name of ['Stop', 'Send', 'Edit', 'Try again', 'Good answer'])
    t.equal(await guest.page.getByRole('button', { name, exact: true }).count(), 0, name)
  t.equal(await guest.page.locator('#composer').count(), 0)
  t.equal(await guest.page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'at 320 px')
  await isAccessible(t, guest, 'a conversation behind a link')

  guest.expect(/401|ERR_CONNECTION_RESET/)
  await page.getByRole('button', { name: /^Take back/ }).click()
  await page.getByRole('button', { name: /really$/ }).click()
  await page.locator('.dialog .tokens').waitFor({ state: 'detached' })
  await guest.page.reload()
  await guest.page.getByText('has expired, or was taken back').first().waitFor()
})

browserTest('where links are for users, the page asks for a sign-in and comes back', async (t) => {
  const site = await openSite(t, { config: { sharing: 'users' } })
  const owner = new Person(site.url)
  await owner.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
  await account(site.url, 'ben@example.com')
  const threadId = await owner.thread()
  const run = await owner.run(threadId, '/demo deltas=3 rate=0')
  await (await owner.join(run)).whole()
  const { body } = await owner.post(`/api/threads/${threadId}/links`, {})
  const guest = await visit(t, site.url)
  guest.expect(/401/)
  await guest.page.goto((body as { url: string }).url)
  await guest.page.getByLabel('E-mail').fill('ben@example.com')
  await guest.page.getByLabel('Password', { exact: true }).fill(PASSWORD)
  await guest.page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await guest.page.locator('.message.ai').waitFor()
  t.match(guest.page.url(), '#/shared/')
})
