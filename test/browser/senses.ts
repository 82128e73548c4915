// For everybody: names for who does not see the page, keys for who has no mouse, narrow screens and wide ones, light and dark.
import { isAccessible } from '../fixtures/axe.ts'
import { ScriptedAgent } from '../fixtures/agent.ts'
import { account, browserTest, type Visitor, visit, visitSite } from '../fixtures/browser.ts'
import { listIn, openSite, Person, PASSWORD, until } from '../fixtures/gateway.ts'

for (const colorScheme of ['light', 'dark'] as const)
  browserTest(`no view has a serious or critical issue of accessibility (${colorScheme})`, async (t) => {
    const site = await openSite(t)
    const visitor = await visit(t, site.url, { context: { colorScheme, reducedMotion: 'reduce' } })
    const { page } = visitor
    await visitor.open()
    await page.getByRole('heading', { name: 'Welcome to Colloquy' }).waitFor()
    await isAccessible(t, visitor, 'first boot')
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
    await visitor.become(admin)
    await page.reload()
    await page.locator('.welcome').waitFor()
    await isAccessible(t, visitor, 'a new conversation')
    await visitor.say('Show me everything, and think first')
    await visitor.answered()
    await visitor.say('/demo rate=0 tool=ask_user args={"question":"Which?","options":["A"]}')
    await page.locator('.question').waitFor()
    for (const fold of await page.locator('.fold summary').all()) await fold.click()
    await isAccessible(t, visitor, 'a conversation with all there is')
    await page.getByRole('link', { name: 'Look inside this run' }).first().click()
    await page.locator('.panel.run .facts').waitFor()
    await isAccessible(t, visitor, 'the inside of a run')
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.locator('.overview .chart').first().waitFor()
    await isAccessible(t, visitor, 'the overview')
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.locator('dialog').waitFor()
    await isAccessible(t, visitor, 'the account')
  })

browserTest('keys: search, a new conversation, the one before and after, write, help', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  for (const size of [6, 7]) {
    await page.keyboard.press('Control+Shift+O')
    await page.locator('.welcome').waitFor()
    await visitor.say(`/demo deltas=2 rate=0 size=${size}`)
    await visitor.answered()
  }
  await until(async () => (await page.locator('.thread').count()) === 2, 'two conversations')
  await page.keyboard.press('Alt+ArrowDown')
  await visitor.hasWords('w0001')
  await page.keyboard.press('Alt+ArrowUp')
  await visitor.hasWords('w00001')
  const focused = (id: string) => until(async () => (await page.evaluate('document.activeElement.id')) === id, id)
  await focused('composer')
  await page.keyboard.press('Control+k')
  await focused('palette')
  await page.keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.locator('.welcome h1, .message').first().click()
  await page.keyboard.press('/')
  await focused('composer')
  await page.locator('.message').first().click()
  await page.evaluate('document.activeElement.blur()')
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keys' }).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
})

browserTest('what is spoken are sentences and not words', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await page.evaluate(`
    window.said = []
    new MutationObserver(() => said.push(document.querySelector('.spoken').textContent))
      .observe(document.querySelector('.spoken'), { childList: true, characterData: true, subtree: true })`)
  await visitor.say('hello')
  await visitor.answered()
  await until(async () => String(await page.evaluate('said.join(" ")')).includes('complete'), 'the end is said')
  const said = await page.evaluate('said')
  t.ok(listIn(said).length < 12, `${listIn(said).length} announcements of an answer of a hundred words`)
  const text = listIn(said).join(' ')
  t.match(text, /Hello/)
  t.equal(text.split('Hello').length, 2, 'each sentence once')
})

/** Until that has the focus: by its label, its id, or its words. */
const hasFocus = ({ page }: Visitor, what: string) =>
  until(async () => {
    const names =
      "(({ ariaLabel, id, textContent }) => [ariaLabel, id, textContent?.trim()].join('|'))(document.activeElement)"
    return String(await page.evaluate(names))
      .split('|')
      .includes(what)
  }, `the focus on ${what}`)

/** What the page says aloud from now on. */
async function listen({ page }: Visitor): Promise<() => Promise<string>> {
  await page.evaluate(`
    window.said = []
    new MutationObserver(() => said.push(document.querySelector('.spoken').textContent))
      .observe(document.querySelector('.spoken'), { childList: true, characterData: true, subtree: true })`)
  return async () => String(await page.evaluate('said.join(" ")'))
}

browserTest('what is spoken is what is read: no Markdown, no code, no address', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor } = await visitSite(t, { agent })
  await visitor.open()
  const said = await listen(visitor)
  await visitor.say('hello')
  await until(() => agent.started.length === 1, 'the run')
  const stage = await agent.stage({ run_id: agent.started[0]! })
  const parts = [
    '## A *title*\n\nSee [the ',
    '_manual_](https://elsewhere.example/a_b) now. And',
    ' then.\n\n```js\nlet secret = 1\n```\n\n',
    '| Name | Size |\n|---|---|\n| one | two |\n\nThe end.'
  ]
  for (const part of parts) {
    stage.say(part)
    await visitor.page.waitForTimeout(100)
  }
  stage.reply(parts.join(''))
  stage.finish()
  await visitor.answered()
  await until(async () => (await said()).includes('The end.'), 'the end is said')
  const text = await said()
  t.match(text, /A title See the manual now\. And then\. A block of code\. Name, Size\. one, two\. The end\./)
  t.notMatch(text, /[#*_`|]|elsewhere|secret/)
})

browserTest('a question of the agent is spoken and has the focus; answered, one can write on', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  const said = await listen(visitor)
  await visitor.say('/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}')
  await page.locator('.question').waitFor()
  await hasFocus(visitor, 'Green')
  await until(async () => /The agent asks you: Which colour\? Choose: Green, Blue\./.test(await said()), 'it is spoken')
  t.notMatch(await said(), /stopped/)
  t.equal(await page.locator('.cut').count(), 0, 'nor is it shown as stopped')
  await page.keyboard.press('Enter')
  await visitor.hasWords('Green')
  await hasFocus(visitor, 'composer')
  await visitor.answered()
})

browserTest('with keys alone: what is done with a message leaves the focus where one goes on', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=2 rate=0 size=6')
  await visitor.answered()
  await page.getByRole('button', { name: 'Edit' }).press('Enter')
  await hasFocus(visitor, 'Edit your message')
  await page.keyboard.press('Escape')
  await page.getByLabel('Edit your message').waitFor({ state: 'detached' })
  await hasFocus(visitor, 'Edit')
  await page.keyboard.press('Enter')
  await hasFocus(visitor, 'Edit your message')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('/demo deltas=2 rate=0 size=7')
  await page.keyboard.press('Control+Enter')
  await visitor.hasWords('w00001')
  await visitor.answered()
  await hasFocus(visitor, 'composer')
  await page.getByRole('button', { name: 'Previous branch' }).press('Enter')
  await visitor.hasWords('w0001')
  await hasFocus(visitor, 'Next branch')
  await page.keyboard.press('Enter')
  await visitor.hasWords('w00001')
  await hasFocus(visitor, 'Previous branch')
  await page.getByRole('button', { name: 'Try again' }).press('Enter')
  await page.getByText('3 / 3').first().waitFor()
  await hasFocus(visitor, 'composer')
  await visitor.answered()
})

browserTest(
  'a silence is shown in seconds, and what is waited for; words stand in the direction of their script',
  async (t) => {
    const { visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('مرحبا\n/demo pause=600000')
    await page
      .getByText(/Waiting for the agent: nothing for \d+ s\./)
      .first()
      .waitFor()
    const direction = (of: string) => page.evaluate(`getComputedStyle(document.querySelector('${of}')).direction`)
    t.equal(await direction('.bubble'), 'rtl')
    await page.keyboard.press('Escape')
    await page.locator('.cut').getByText('Stopped.').waitFor()
    t.equal(await page.getByText(/nothing for/).count(), 0)
  }
)

browserTest('from the list the composer is three stops away, and arrows lead through the list', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await Promise.all(Array.from({ length: 30 }, () => person.thread()))
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  await page.locator('.thread').nth(29).waitFor()
  const links = page.locator('.thread > a')
  await links.first().focus()
  await page.keyboard.press('ArrowDown')
  t.equal(await page.evaluate('document.activeElement === document.querySelectorAll(".thread > a")[1]'), true)
  await page.keyboard.press('End')
  t.equal(await page.evaluate('document.activeElement === [...document.querySelectorAll(".thread > a")].at(-1)'), true)
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await hasFocus(visitor, 'Skip to the message')
  t.equal(await page.evaluate('document.querySelector(".side .skip").offsetHeight > 10'), true)
  await page.keyboard.press('Enter')
  await hasFocus(visitor, 'composer')
  await page.locator('.shell > .skip').focus()
  await page.keyboard.press('Enter')
  await hasFocus(visitor, 'composer')
})

for (const width of [375, 320])
  browserTest(`at ${width} px the drawer has the focus while it is open, and Escape closes it`, async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const visitor = await visit(t, site.url, { person, context: { viewport: { width, height: 700 } } })
    const { page } = visitor
    await visitor.open()
    await visitor.say('/demo deltas=100000 rate=20')
    await page.locator('[aria-label=Stop]').waitFor()
    await page.getByRole('button', { name: 'Conversations', exact: true }).press('Enter')
    await hasFocus(visitor, 'New conversation')
    t.equal(await page.evaluate("document.querySelector('main').inert && document.querySelector('.top').inert"), true)
    for (let n = 0; n < 12; n++) {
      await page.keyboard.press('Tab')
      t.equal(
        await page.evaluate("!document.activeElement.closest('main, .top')"),
        true,
        'the page behind is out of reach'
      )
    }
    await page.keyboard.press('Escape')
    await until(() => page.locator('.side').isHidden(), 'the drawer is closed')
    await hasFocus(visitor, 'Conversations')
    t.equal(await page.evaluate("document.querySelector('main').inert"), false)
    t.equal(await page.locator('[aria-label=Stop]').count(), 1, 'the answer goes on')
    await page.keyboard.press('Escape')
    await visitor.answered()
  })

browserTest(
  'with keys alone: a menu opens, is walked through and closes, and the focus returns to where it was',
  async (t) => {
    const { visitor, page } = await visitSite(t)
    await visitor.open()
    // It goes on for as long as the test does: an Escape that means the menu does not stop it.
    await visitor.say('/demo deltas=100000 rate=20')
    await page.locator('[aria-label=Stop]').waitFor()
    const more = page.getByRole('button', { name: /^Actions for/ })
    await more.waitFor()
    const focused = (what: string) =>
      until(
        async () =>
          String(
            await page.evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent')
          ).includes(what),
        `the focus on ${what}`
      )
    await more.focus()
    await page.keyboard.press('Enter')
    await focused('Pin')
    await page.keyboard.press('ArrowDown')
    await focused('Rename')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowUp')
    await focused('Delete')
    await page.keyboard.press('Escape')
    await page.locator('.menu').waitFor({ state: 'detached' })
    await focused('Actions for')
    await page.keyboard.press('Enter')
    await focused('Pin')
    await page.keyboard.press('Tab')
    await page.locator('.menu').waitFor({ state: 'detached' })
    await more.focus()
    await page.keyboard.press('Enter')
    await focused('Pin')
    await page.keyboard.press('End')
    await focused('Delete')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Delete this conversation?' })
    await dialog.waitFor()
    await dialog.getByRole('button', { name: 'Keep it' }).press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await focused('Actions for')
    t.equal(await page.locator('[aria-label=Stop]').count(), 1, 'the answer goes on')
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).press('Enter')
    await page.getByRole('button', { name: 'Close' }).press('Enter')
    await focused('ada@example.com')
    await page.keyboard.press('Escape')
    await visitor.answered()
  }
)

/** The words of what stands beyond an edge of a dialog: in the page. */
const CUT_OFF = `[...document.querySelectorAll('dialog[open] *')]
  .filter((one) => {
    const [{ left, right, width }, outer] = [one, one.closest('dialog')].map((each) => each.getBoundingClientRect())
    return width > 0 && (left < outer.left || right > outer.right)
  })
  .map((one) => one.textContent)`

for (const [width, height] of [
  [320, 700],
  [380, 700],
  [3840, 2160]
] as const)
  browserTest(`at ${width} by ${height} nothing sticks out at the side`, async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const visitor = await visit(t, site.url, { person, context: { viewport: { width, height } } })
    const { page } = visitor
    await visitor.open()
    await visitor.say('Show me a table and code')
    await visitor.answered()
    // Who walks by headings begins with the conversation's title.
    await page.getByRole('heading', { level: 1, name: 'Show me a table and code' }).waitFor()
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    t.equal(
      await page.evaluate(
        "document.querySelector('.scroller').scrollWidth <= document.querySelector('.scroller').clientWidth"
      ),
      true
    )
    // What failed is said in lines, beside what can be done or above it.
    await visitor.say('fail')
    const failure = page.locator('.failure')
    await failure.waitFor()
    const widths = await Promise.all([failure, failure.locator('span')].map(async (box) => (await box.boundingBox())!))
    t.ok(widths[1]!.width > widths[0]!.width / 2, 'a failure has room for its words')
    const fits = async (what: string) => {
      const box = page.locator('dialog[open]')
      await box.waitFor()
      t.same(await page.evaluate<string[]>(CUT_OFF), [], what)
      await page.keyboard.press('Escape')
      await box.waitFor({ state: 'detached' })
    }
    await page.evaluate('document.activeElement.blur()')
    await page.keyboard.press('?')
    await fits('the keys')
    const open = () => page.getByRole('button', { name: 'Conversations', exact: true }).click()
    if (width <= 760) await open()
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByRole('button', { name: 'Create token' }).waitFor()
    await fits('the account')
    if (width > 760) return
    if (await page.locator('.side').isHidden()) await open()
    await page.locator('.thread a').first().click()
    await until(() => page.locator('.side').isHidden(), 'the side goes when something was chosen')
  })

browserTest('on a phone what is found, and what an answer took, has a line of its own', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const context = { viewport: { width: 360, height: 780 } }
  const box = async ({ page }: Visitor, what: string) => (await page.locator(what).last().boundingBox())!
  const stranger = await visit(t, site.url, { context })
  await stranger.open()
  const [field, show] = [await box(stranger, '[name=password]'), await box(stranger, '.card > .link')]
  t.equal(show.x, field.x)
  t.ok(show.width < field.width, 'it is as wide as its words')
  const visitor = await visit(t, site.url, { person, context })
  const { page } = visitor
  await visitor.open()
  await visitor.say('What would a lighthouse say of the sea around it?')
  await visitor.answered()
  const [facts, button] = [await box(visitor, '.ai .tokens'), await box(visitor, '.ai .actions > button')]
  t.ok(facts.y >= button.y + button.height, 'below the buttons')
  t.ok(facts.height < button.height, 'one line')
  await page.getByRole('button', { name: 'Good answer' }).click()
  await page.locator('.why input').fill('short')
  await page.locator('.why input').press('Enter')
  const [notice, composer] = [await box(visitor, '.toast'), await box(visitor, '.composer')]
  t.ok(notice.y + notice.height < composer.y, 'a notice lies on no button of the composer')
  await page.keyboard.press('Control+k')
  await page.locator('#palette').fill('brings along')
  await page.locator('.palette mark').first().waitFor()
  const [name, snippet] = [
    await box(visitor, '.palette li > span:not(.snippet)'),
    await box(visitor, '.palette .snippet')
  ]
  t.ok(snippet.y >= name.y + name.height, 'below the title')
  const list = await box(visitor, '.palette ul')
  t.ok(snippet.width > 0.7 * list.width)
})
