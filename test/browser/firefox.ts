// The page in Firefox: an answer is gone on with at its word, keys and files do what they do elsewhere, tables are fit to read.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { account, demoText, storedAnswer, threadSaying } from '../fixtures/browser.ts'
import { firefoxTest, visitInFirefox } from '../fixtures/firefox.ts'
import { at, listIn, openSite, textIn, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'
import { isReadable, WIDE_TABLE } from '../fixtures/wide-table.ts'

/** A page that goes while it is connected. */
const WHILE_LOADING = /was interrupted while the page was loading/

firefoxTest('reloaded in mid-stream, Firefox goes on where the text stands: each word once', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visitInFirefox(t, site.url, person)
  visitor.expect(WHILE_LOADING)
  await visitor.open()
  // It goes on for as long as reloads take.
  await visitor.say('/demo deltas=100000 rate=50')
  await visitor.hasWords('w0005')
  const threadId = await visitor.threadId()
  for (let i = 0; i < 4; i++) {
    const before = await visitor.lastAnswer()
    await visitor.page.reload()
    await until(async () => (await visitor.lastAnswer()) !== '', 'the words so far')
    const shown = await visitor.lastAnswer()
    t.ok(shown.length > before.length, 'what was there is there, and more')
    t.ok(demoText(100_000).startsWith(shown), 'and nothing twice')
    t.equal(await visitor.count('.message.human'), 1)
    t.equal(await visitor.count('[aria-label=Stop]'), 1, 'it goes on')
  }
  await visitor.page.keyboard.press('Escape')
  await visitor.answered()
  const text = await storedAnswer(person, threadId)
  t.comment(`${text.split(' ').length} words over four reloads`)
  t.ok(demoText(100_000).startsWith(text))
  t.equal(await visitor.lastAnswer(), text)
  t.equal(await visitor.count('.message'), 2)
})

firefoxTest('a cut is told in Firefox and heals; a second tab shows the same answer, and stops it', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const proxy = await openProxy(t, site.url)
  const visitor = await visitInFirefox(t, proxy.url, person)
  visitor.expect(WHILE_LOADING, /establish a connection|NetworkError|Cross-Origin Request Blocked/)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=50')
  await visitor.hasWords('w0010')
  const threadId = await visitor.threadId()
  proxy.down()
  await until(async () => /trying again in \d+ s|Trying again/.test((await visitor.texts('.lost')).join()), 'the loss')
  const { length } = await visitor.lastAnswer()
  proxy.up()
  await until(async () => (await visitor.count('.lost')) === 0, 'it is back')
  await until(async () => (await visitor.lastAnswer()).length > length, 'further words')
  const other = await visitor.tab()
  await other.open(`#/t/${threadId}`)
  await other.page.waitForSelector('[aria-label=Stop]')
  await other.hasWords('w0010')
  await other.page.keyboard.press('Escape')
  await other.answered()
  await visitor.page.bringToFront()
  await visitor.answered()
  const text = await storedAnswer(person, threadId)
  t.ok(text.length > length && demoText(100_000).startsWith(text), 'each word once')
  t.strictSame([await visitor.lastAnswer(), await other.lastAnswer()], [text, text])
})

firefoxTest(
  'keys in Firefox: Enter sends, Shift Enter is a new line, Escape stops, and an edit by keys alone',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const visitor = await visitInFirefox(t, site.url, person)
    const { keyboard } = visitor.page
    const focused = (what: string) =>
      until(
        async () => (await visitor.read('document.activeElement.ariaLabel ?? document.activeElement.id')) === what,
        `the focus on ${what}`
      )
    await visitor.open()
    await visitor.type('Two lines,\n/demo deltas=100000 rate=20')
    t.equal(await visitor.read('document.querySelector("#composer").value'), 'Two lines,\n/demo deltas=100000 rate=20')
    t.equal(await visitor.count('.message'), 0, 'nothing is sent yet')
    await keyboard.press('Enter')
    await visitor.hasWords('w0003')
    await keyboard.press('Escape')
    await visitor.answered()
    t.same(await visitor.texts('.cut > span'), ['Stopped.'])
    t.same(await visitor.texts('.message.human .bubble'), ['Two lines, /demo deltas=100000 rate=20'])
    const threadId = await visitor.threadId()
    t.equal(textIn((await person.get(`/api/threads/${threadId}/runs`)).body, 0, 'status'), 'interrupted')

    await visitor.page.focus('.message.human .edits')
    await keyboard.press('Enter')
    await focused('Edit your message')
    await keyboard.press('Escape')
    await focused('Edit')
    await keyboard.press('Enter')
    await focused('Edit your message')
    await visitor.chord('Control', 'a')
    await keyboard.type('/demo deltas=3 rate=0 size=7')
    await visitor.chord('Control', 'Enter')
    await visitor.hasWords('w00002')
    await visitor.answered()
    await focused('Message')
    t.same(await visitor.texts('.switch'), ['2 / 2'])
  }
)

firefoxTest('a file that is attached in Firefox goes with its message', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'colloquy-file-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'notes.txt')
  writeFileSync(file, 'for the agent')
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visitInFirefox(t, site.url, person)
  await visitor.open()
  // Its type is an element's; it is the page's picker of files.
  const picker = (await visitor.page.waitForSelector('input[type=file]')) as unknown as {
    uploadFile(...paths: string[]): Promise<void>
  }
  await picker.uploadFile(file)
  await until(async () => (await visitor.texts('.composer .files')).join().includes('notes.txt'), 'its chip')
  await until(async () => (await visitor.count('.composer progress')) === 0, 'it is there')
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
  t.match((await visitor.texts('.message.human .files')).join(), /notes\.txt/)
  const { body } = await person.get(`/api/threads/${await visitor.threadId()}/uploads/list`)
  t.same(
    listIn(body, 'files').map((one) => at(one, 'filename')),
    ['notes.txt']
  )
})

firefoxTest('a table in Firefox is readable and aligned, and is scrolled inside at 375 px', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await threadSaying(person, WIDE_TABLE)
  const visitor = await visitInFirefox(t, site.url, person)
  for (const width of [1280, 375]) {
    await visitor.page.setViewport({ width, height: 700 })
    await visitor.open(`#/t/${threadId}`)
    await visitor.hasWords('Above.')
    await isReadable(t, (script) => visitor.read(script), width === 375)
  }
})
