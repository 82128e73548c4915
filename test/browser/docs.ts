// The page of the API: found, read, tried and copied, with nothing from anywhere else.
import { isAccessible } from '../fixtures/axe.ts'
import { browserTest, visit, visitSite } from '../fixtures/browser.ts'
import { openSite, until } from '../fixtures/gateway.ts'

for (const colorScheme of ['light', 'dark'] as const)
  browserTest(`the page of the API has no serious or critical issue of accessibility (${colorScheme})`, async (t) => {
    const site = await openSite(t)
    const visitor = await visit(t, site.url, { context: { colorScheme, reducedMotion: 'reduce' } })
    const { page } = visitor
    await page.goto(`${site.url}/docs`)
    await page.getByRole('heading', { name: 'Colloquy' }).waitFor()
    t.equal(await page.locator('.first').count(), 0, 'nothing is left of what stood there before the modules came')
    await isAccessible(t, visitor, 'the start')
    await page.goto(`${site.url}/docs#/post_threads_thread_id_runs_stream`)
    await page.getByRole('heading', { name: 'Try it' }).waitFor()
    for (const fold of await page.locator('details:not([open]) > summary').all())
      if (await fold.isVisible()) await fold.click()
    await isAccessible(t, visitor, 'an operation with everything unfolded')
    await page.goto(`${site.url}/docs#/events`)
    await page.getByRole('heading', { name: 'messages/partial' }).waitFor()
    await isAccessible(t, visitor, 'the events')
    await page.setViewportSize({ width: 380, height: 700 })
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'))
    t.ok(width <= 380, `${width} px wide on a narrow screen`)
  })

browserTest('an operation is found, tried with the session, and written out as calls', async (t) => {
  const { site, page } = await visitSite(t)
  await page.goto(`${site.url}/docs`)
  await page.getByLabel('Search').fill('stream join')
  await page.getByRole('navigation').getByText('/api/threads/{thread_id}/runs/{run_id}/stream').first().waitFor()
  t.equal(await page.getByRole('navigation').getByText('/api/memory').count(), 0)
  await page.getByLabel('Search').fill('create a thread')
  await page.getByRole('navigation').getByRole('link', { name: 'POST /api/threads', exact: true }).click()
  await page.getByRole('heading', { name: 'POST /api/threads' }).waitFor()
  const answer = page.getByLabel('The answer')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('status').getByText('200 OK').waitFor()
  const { thread_id } = JSON.parse(await answer.innerText()) as { thread_id: string }
  t.match(thread_id, /^[0-9a-f-]{36}$/)

  await page.goto(`${site.url}/docs#/post_threads_thread_id_runs_stream`)
  await page.locator('#path-thread_id').fill(thread_id)
  const words = '/demo deltas=3 rate=0'
  await page
    .getByLabel('Body', { exact: true })
    .fill(JSON.stringify({ input: { messages: [{ role: 'user', content: words }] }, stream_mode: ['messages-tuple'] }))
  const curl = await page.locator('.call code').first().innerText()
  t.match(curl, `curl -N -X POST '${site.url}/api/threads/${thread_id}/runs/stream'`)
  t.match(curl, /Authorization: Bearer/)
  await page.getByRole('button', { name: 'TypeScript' }).click()
  t.match(await page.locator('.call code').first().innerText(), `colloquy.start("${thread_id}"`)
  await page.getByRole('button', { name: 'Send' }).click()
  await until(async () => (await answer.innerText()).includes('event: end'), 'the end of the stream')
  t.match(await answer.innerText(), /w0000/)

  await page.goto(`${site.url}/docs#/get_threads_thread_id_runs`)
  await page.locator('#path-thread_id').fill(thread_id)
  await page.locator('#query-status').selectOption('success')
  await page.getByRole('button', { name: 'Send' }).click()
  await until(async () => (await answer.count()) > 0 && (await answer.innerText()).includes('"run_id"'), 'the runs')
})

browserTest('every operation of the table has its place on the page', async (t) => {
  const site = await openSite(t)
  const visitor = await visit(t, site.url)
  await visitor.page.goto(`${site.url}/docs`)
  await visitor.page.locator('.entry').first().waitFor()
  const api = (await (await fetch(`${site.url}/openapi.json`)).json()) as { paths: Record<string, object> }
  const count = Object.values(api.paths).flatMap((methods) => Object.keys(methods)).length
  t.equal(await visitor.page.locator('.index .entry').count(), count)
})
