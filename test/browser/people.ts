// The administrator's overview: people, their quotas and legal holds, what cannot be undone, the installation, and its usage.
import { account, browserTest, visit } from '../fixtures/browser.ts'
import { command } from '../fixtures/child.ts'
import { homeOf, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'

browserTest('an administrator sets a quota, holds, and erases an account whose address he types', async (t) => {
  const home = homeOf(t)
  const site = await openSite(t, { home })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const email = 'ann@example.com'
  const ann = await account(site.url, email)
  const { body } = await ann.get('/api/v1/auth/me')
  const path = `/api/v1/admin/users/${textIn(body, 'id')}`
  const visitor = await visit(t, site.url, { person: admin })
  const { page } = visitor
  await visitor.open('#/overview')
  visitor.expect(/status of 409/)
  await page.getByText('No backup has been made yet').waitFor()
  await page.getByRole('button', { name: 'Look for problems' }).click()
  await page.locator('.cards li', { hasText: 'descriptors' }).waitFor()
  await page.getByRole('button', { name: 'Show what counts' }).click()
  await page.locator('.cards summary', { hasText: 'retention' }).click()
  await page.locator('.cards li', { hasText: 'audit_days' }).waitFor()
  await page.getByRole('button', { name: 'Read it again' }).click()
  await page.locator('.cards li', { hasText: 'nothing new was taken' }).waitFor()
  await page.getByRole('button', { name: 'Plan its change' }).click()
  await page.getByText('There is nothing to do').waitFor()
  page.once('dialog', (dialog) => void dialog.accept())
  await page.getByRole('button', { name: 'Rewrite the file without what was deleted' }).click()
  await page.getByText(/The database had .+, and has /).waitFor()
  for (const key of ['model', 'agent', 'user', 'day'])
    await page.getByRole('heading', { name: `By ${key}`, exact: true }).waitFor()
  t.notMatch(await page.locator('.overview').innerText(), `user:${textIn(body, 'id')}`, 'accounts are shown by name')
  for (const width of [320, 760, 1280]) {
    await page.setViewportSize({ width, height: 900 })
    t.strictSame(await page.evaluate<string[]>(STICKING_OUT), [], `inside its card at ${width} pixels`)
    t.strictSame(await page.evaluate<string[]>(CUT_OFF), [], `cards inside the page at ${width} pixels`)
  }

  await page.getByLabel(`Quota of ${email}`).click()
  await page.getByLabel('Runs a day').fill('7')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.match(await admin.get(path), { body: { quota: { runs_per_day: 7 } } })
  await page.getByLabel(`Quota of ${email}`).click()
  await until(async () => (await page.getByLabel('Runs a day').inputValue()) === '7', 'the quota is shown')
  await page.keyboard.press('Escape')

  await page.getByLabel(`Hold of ${email}`).click()
  await page.getByRole('dialog').getByLabel('Why').fill('Case 42')
  await page.getByRole('dialog').getByRole('button', { name: 'Hold', exact: true }).click()
  await page.getByText('under a legal hold').waitFor()
  await page.getByText('Case 42, since').waitFor()

  const erase = async () => {
    await page.getByLabel(`Erase of ${email}`).click()
    const button = page.getByRole('dialog').getByRole('button', { name: 'Erase', exact: true })
    await page.getByLabel('Type its address').fill('ann@example.co')
    t.equal(await button.isDisabled(), true, 'another address is not enough')
    await page.getByLabel('Type its address').fill(email)
    await button.click()
  }
  await erase()
  await page.getByRole('alert').getByText('legal hold').waitFor()
  t.equal((await admin.get(path)).status, 200)
  await page.keyboard.press('Escape')
  page.once('dialog', (question) => void question.accept())
  await page.getByLabel(`Lift the hold of ${email}`).click()
  await page.getByText('under a legal hold').waitFor({ state: 'detached' })
  await erase()
  await page.getByText('is being erased').first().waitFor()
  t.equal((await admin.get(path)).status, 404)

  t.equal((await command(home, 'backup', `${home}/all.zip`)).code, 0)
  await page.reload()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download a backup' }).click()
  t.match((await download).suggestedFilename(), /^colloquy-[\d-]+\.zip$/)
  await page.getByText(/The last backup is .* old/).waitFor()
})

/** The words of cards and charts that stand beyond the page: in the page. */
const CUT_OFF = `[...document.querySelectorAll('.cards > li, .chart')]
  .filter((card) => card.getBoundingClientRect().right > innerWidth)
  .map((card) => card.textContent)`

/** The words of what stands beyond the right edge of its card: in the page. */
const STICKING_OUT = `[...document.querySelectorAll('.cards > li')].flatMap((card) => {
  const edge = card.getBoundingClientRect().right
  const inside = [...card.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > edge)
  return inside.map((one) => one.textContent)
})`
