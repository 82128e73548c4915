// Conversations and what can be done with them: find, name, delete, say otherwise, attach, rate, answer.
import { EventEmitter, once } from 'node:events'
import { anAnswer, request, response, ScriptedAgent } from '../fixtures/agent.ts'
import { account, browserTest, visit, words, visitSite } from '../fixtures/browser.ts'
import { at, listIn, openSite, type Options, type Person, textIn, until } from '../fixtures/gateway.ts'
import { templateFolder } from '../fixtures/graphs.ts'

/** Threads with titles, made a few at once. */
async function makeThreads(person: Person, count: number): Promise<void> {
  const make = async (n: number) => {
    const id = await person.thread()
    await person.post(`/api/threads/${id}/state`, { values: { title: `Conversation number ${n}` } })
  }
  const numbers = Array.from({ length: count }, (_, n) => n)
  while (numbers.length > 0) await Promise.all(numbers.splice(0, 20).map(make))
}

browserTest('of a thousand conversations one is found by its title, named anew, pinned and deleted', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  await makeThreads(person, 1000)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  const list = page.locator('.thread')
  await list.nth(39).waitFor()
  t.ok((await list.count()) < 200, 'a page of them is there, and not all')
  await list.nth(39).scrollIntoViewIfNeeded()
  await list.nth(60).waitFor()

  await page.locator('#search').fill('number 17')
  await until(async () => (await list.count()) === 20, 'all with 17 in their number')
  await page.locator('#search').fill('number 177')
  await until(async () => (await list.count()) === 1, 'number 177')
  await list.hover()
  await page.getByRole('button', { name: /^Actions for/ }).click()
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await page.getByLabel('Title').fill('The one')
  await page.getByRole('button', { name: 'Rename' }).click()
  await page.locator('.thread .title', { hasText: 'The one' }).waitFor()

  await page.getByRole('button', { name: 'Actions for The one' }).click()
  await page.getByRole('menuitem', { name: 'Pin' }).click()
  await page.locator('#search').fill('')
  await until(async () => (await list.first().innerText()).includes('The one'), 'it stands first')

  await list.first().hover()
  await page.getByRole('button', { name: 'Actions for The one' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await until(async () => !(await list.first().innerText()).includes('The one'), 'it is gone')
  // Until then it could be undone.
  const total = async () => (await person.post('/api/threads/search', { limit: 1 })).headers.get('x-pagination-total')
  await until(async () => (await total()) === '999', 'one less')
})

browserTest(
  'an edited question makes a branch: both answers stay, and the switch leads from one to the other',
  async (t) => {
    const { visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('/demo deltas=3 rate=0 size=6')
    await visitor.answered()
    await visitor.say('/demo deltas=3 rate=0 size=7')
    await visitor.hasWords('w00002')
    await visitor.answered()

    await page.locator('.message.human').last().hover()
    await page.getByRole('button', { name: 'Edit' }).last().click()
    await page.getByLabel('Edit your message').fill('/demo deltas=3 rate=0 size=8')
    await page.getByRole('button', { name: 'Send again' }).click()
    await visitor.hasWords('w000002')
    await visitor.answered()
    await page.getByText('2 / 2').first().waitFor()
    t.equal(await page.locator('.message').count(), 4, 'the other branch is not shown beside it')

    await page.getByRole('button', { name: 'Previous branch' }).click()
    await visitor.hasWords('w00002')
    await page.getByText('1 / 2').first().waitFor()
    t.equal(await visitor.lastAnswer(), 'w00000 w00001 w00002')
    await visitor.say('/demo deltas=2 rate=0 size=9')
    await visitor.hasWords('w0000001')
    await visitor.answered()
    await page.reload()
    await visitor.hasWords('w0000001')
    t.equal(await page.locator('.message').count(), 6, 'it went on from the branch that was chosen')

    await page.getByRole('button', { name: 'Try again' }).last().click()
    await page.locator('.switch').nth(1).waitFor()
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), 'w0000000 w0000001')
  }
)

/** As LangGraph's clients branch: a run from a checkpoint, with another question or none. Its input and its last answer. */
async function branched(
  person: Person,
  thread: string,
  isBase: (entry: unknown) => boolean,
  text?: string
): Promise<void> {
  const history = listIn((await person.post(`/api/threads/${thread}/history`, { limit: 100 })).body)
  const checkpoint = at(history.find(isBase), 'checkpoint')
  const input = text === undefined ? null : { messages: [{ role: 'user', content: text }] }
  const { status, text: told } = await person.post(`/api/threads/${thread}/runs/wait`, { input, checkpoint })
  if (status !== 200) throw new Error(`the run was answered ${status}: ${told}`)
}

const messagesIn = (entry: unknown) => listIn(at(entry, 'values'), 'messages')
const sizes = (n: number) => `/demo deltas=3 rate=0 size=${n}`

browserTest('branches that another client has made are seen, and the switch leads to each and back', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  const send = (content: string) =>
    person.post(`/api/threads/${thread}/runs/wait`, { input: { messages: [{ role: 'user', content }] } })
  await send(sizes(6))
  await send(sizes(7))
  // Another second question, and the first answer once more.
  await branched(person, thread, (entry) => messagesIn(entry).length === 2, sizes(8))
  await branched(person, thread, (entry) => messagesIn(entry).length === 1)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open(`#/t/${thread}`)
  const shown = page.locator('.switch')
  await until(async () => (await shown.allInnerTexts()).join() === '2 / 2', 'the answer that was given anew')
  t.equal(await page.locator('.message').count(), 2)
  await page.getByRole('button', { name: 'Previous branch' }).click()
  await visitor.hasWords('w000002')
  await until(async () => (await shown.allInnerTexts()).join() === '1 / 2,2 / 2', 'both places')
  await page.getByRole('button', { name: 'Previous branch' }).last().click()
  await visitor.hasWords('w00002')
  await page.getByRole('button', { name: 'Next branch' }).last().click()
  await visitor.hasWords('w000002')
  await visitor.say('/demo deltas=2 rate=0 size=9')
  await visitor.hasWords('w0000001')
  await visitor.answered()
  await page.getByRole('button', { name: 'Next branch' }).first().click()
  await until(async () => (await page.locator('.message').count()) === 2, 'the answer that was given anew')
  await page.getByRole('button', { name: 'Try again' }).click()
  await until(async () => (await shown.allInnerTexts()).join() === '3 / 3', 'the page branches off a foreign branch')
  await visitor.answered()
})

browserTest(
  'over a graph of LangGraph the page is the same: after a reload too one edits, looks inside, answers',
  async (t) => {
    const { visitor, page } = await visitSite(t, {
      config: { agent: { runtime: 'graphs', config: templateFolder(t) } }
    })
    await visitor.open()
    await visitor.say(sizes(6))
    await visitor.answered()
    await visitor.threadId()
    await page.reload()
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('2 / 2').first().waitFor()
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), 'w0000 w0001 w0002')
    await page.getByRole('button', { name: 'Previous branch' }).click()
    await page.getByText('1 / 2').first().waitFor()
    await visitor.say('ask_user')
    await page.getByText('Which colour?').first().waitFor()
    await page.reload()
    await page.getByRole('button', { name: 'Green' }).click()
    await visitor.hasWords('Green, says the template')
    await visitor.answered()
    await visitor.say('ask_user for a review')
    await page.getByText('May this tool be called?').first().waitFor()
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByLabel('Why not').fill('not today')
    await page.getByRole('button', { name: 'Reject' }).click()
    await visitor.hasWords('{"decisions":[{"type":"reject","message":"not today"}]}')
    await visitor.answered()
    await page.getByRole('link', { name: 'Look inside this run' }).first().click()
    await page.locator('.facts', { hasText: 'success' }).waitFor()
  }
)

browserTest(
  'files are dropped and picked, and stand beside the message; what the agent makes opens beside it',
  async (t) => {
    const { person, visitor, page } = await visitSite(t)
    await visitor.open()
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('a note') })
    await page.locator('.composer .files').getByText('notes.txt').waitFor()
    const drop = await page.evaluateHandle(
      "(() => { const data = new DataTransfer(); data.items.add(new File(['dropped'], 'dropped.md')); return data })()"
    )
    await page.dispatchEvent('main.chat', 'drop', { dataTransfer: drop })
    await until(async () => (await page.locator('.composer .files li').count()) === 2, 'two files')
    await until(async () => (await page.locator('.composer progress').count()) === 0, 'both are there')
    const script = "document.body.append('alive'); try { parent.document; document.body.append(' escaped') } catch {}"
    const html = `<p></p><script>${script}</script>`
    await visitor.say(`/demo rate=0 tool=write_file args=${JSON.stringify({ path: 'page.html', content: html })}`)
    await visitor.answered()
    const threadId = await visitor.threadId()
    const { body } = await person.get(`/api/threads/${threadId}/uploads/list`)
    t.same(
      listIn(body, 'files').map((file) => textIn(file, 'filename')),
      ['dropped.md', 'notes.txt']
    )
    t.equal(await page.locator('.message.human .files li').count(), 2)

    await page.getByRole('button', { name: 'page.html', exact: true }).click()
    const document = page.frameLocator('iframe.document').locator('body')
    await document.getByText('alive').waitFor()
    t.equal(words(await document.innerText()), 'alive', 'its script runs, and reaches nothing of the page')
    await page.getByRole('button', { name: 'Close the file' }).click()
  }
)

browserTest('a file that is taken back before it is sent is gone; one that is refused says why', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  visitor.expect(/status of 4\d\d/)
  await visitor.open()
  const pick = (name: string) =>
    page
      .locator('input[type=file]')
      .setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from('not for the agent') })
  await visitor.say('/demo deltas=1 rate=0 size=7')
  await visitor.answered()
  const refusal = { status: 413, json: { detail: { code: 'too_large', message: 'That is too much' } } }
  await page.route('**/uploads', (route) => route.fulfill(refusal), { times: 1 })
  await pick('large.txt')
  await page.locator('.toast').getByText('large.txt: That is too much').waitFor()
  await pick('secret.txt')
  await page.locator('.composer .files li').waitFor()
  await until(async () => (await page.locator('.composer progress').count()) === 0, 'it is there')
  const gone = page.waitForResponse((response) => response.request().method() === 'DELETE')
  await page.getByRole('button', { name: 'Remove secret.txt' }).click()
  t.equal((await gone).status(), 200)
  const { body } = await person.get(`/api/threads/${await visitor.threadId()}/uploads/list`)
  t.same(listIn(body, 'files'), [])
})

browserTest('a file that is attached twice is there until it is taken back twice', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=1 rate=0 size=7')
  await visitor.answered()
  const threadId = await visitor.threadId()
  const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('for the agent') }
  const chips = page.getByRole('button', { name: 'Remove notes.txt' })
  for (const count of [1, 2]) {
    await page.locator('input[type=file]').setInputFiles(file)
    await until(async () => (await chips.count()) === count, 'it is attached')
    await until(async () => (await page.locator('.composer progress').count()) === 0, 'it is there')
  }
  const stored = async () => listIn((await person.get(`/api/threads/${threadId}/uploads/list`)).body, 'files').length
  let removals = 0
  page.on('request', (request) => {
    if (request.method() === 'DELETE') removals++
  })
  await chips.first().click()
  await until(async () => (await chips.count()) === 1, 'one is taken back')
  t.equal(removals, 0)
  t.equal(await stored(), 1)
  await chips.first().click()
  await until(async () => (await stored()) === 0, 'it is gone')
})

browserTest(
  'a file attached to a draft stays with it: in another conversation and back, and over a reload',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const other = await person.thread()
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open()
    const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('for the agent') }
    await page.locator('input[type=file]').setInputFiles(file)
    const chip = page.getByRole('button', { name: 'Remove notes.txt' })
    await chip.waitFor()
    await until(async () => (await page.locator('.composer progress').count()) === 0, 'it is there')
    await visitor.open(`#/t/${other}`)
    await until(async () => (await chip.count()) === 0, 'it belongs to the other draft')
    await visitor.open('#/')
    await chip.waitFor()
    await page.reload()
    await chip.waitFor()
    await visitor.say('/demo deltas=2 rate=0')
    await visitor.answered()
    t.equal(await chip.count(), 0)
    const { body } = await person.get(`/api/threads/${await visitor.threadId()}/uploads/list`)
    t.same(
      listIn(body, 'files').map((one) => at(one, 'filename')),
      ['notes.txt']
    )
    await page.locator('.message.human .files').getByText('notes.txt').waitFor()
    await page.getByRole('link', { name: 'New conversation' }).first().click()
    await page.locator('.welcome').waitFor()
    t.equal(await chip.count(), 0, 'the next draft has none')
  }
)

browserTest('an answer that was cut off says by what, live as after a reload', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent })
  await visitor.open()
  const stageOf = async (n: number) => {
    await until(() => agent.started.length > n, 'the run')
    return agent.stage({ run_id: agent.started[n]! })
  }
  await visitor.say('a long story')
  const stage = await stageOf(0)
  const message = anAnswer('Once upon a')
  stage.sink.record(request())
  stage.sink.record(response({ ...message, response_metadata: { finish_reason: 'length' } }))
  stage.sink.record({ type: 'step', node: 'agent' })
  stage.finish()
  const cuts = page.locator('.cut > span')
  await until(async () => (await cuts.allInnerTexts()).join().includes('the limit of its length'), 'the length')
  await visitor.answered()
  await page.locator('.cut').getByRole('button', { name: 'Continue' }).waitFor()
  await page.reload()
  await page.locator('.cut').getByText('the limit of its length').waitFor()
  await page.locator('.cut').getByRole('button', { name: 'Continue' }).waitFor()
  await visitor.say('go on')
  const second = await stageOf(1)
  second.say('time, there', 'second')
  await visitor.hasWords('time, there')
  await page.keyboard.press('Escape')
  await until(
    async () =>
      (await cuts.allInnerTexts()).join() === 'The answer is cut off: it reached the limit of its length.,Stopped.',
    'both'
  )
  await visitor.say('and before a word')
  await stageOf(2)
  await page.keyboard.press('Escape')
  await until(async () => (await cuts.allInnerTexts()).at(-1) === 'Stopped.' && (await cuts.count()) === 3, 'the third')
  const live = await cuts.allInnerTexts()
  await page.reload()
  await until(async () => (await cuts.count()) === 3, 'after a reload')
  t.same(await cuts.allInnerTexts(), live)
})

browserTest('where copying is not allowed the page says so', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
  await page.evaluate(`
    Object.defineProperty(navigator, 'clipboard', { value: { writeText: () => Promise.reject(new Error('no')) } })
    document.execCommand = () => false`)
  await page.locator('.message.ai').getByRole('button', { name: 'Copy' }).click()
  await page.locator('.toast.bad').getByText('The browser did not allow copying').waitFor()
  t.equal(await page.getByRole('button', { name: 'Copied' }).count(), 0)
})

browserTest('first questions are those of the installation: of the demo only where the demo answers', async (t) => {
  const shown = async (config: Options) => {
    const { visitor } = await visitSite(t, { config })
    await visitor.open()
    await visitor.loaded('/api/suggestions/config')
    await visitor.page.locator('.welcome').waitFor()
    await visitor.page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))')
    return visitor.page.locator('.starters button').allInnerTexts()
  }
  const models = [{ name: 'main', provider: 'openai', base_url: 'http://127.0.0.1:9', api_key: 'k', model: 'm' }]
  t.match(await shown({}), ['Show me everything', 'Think, then write a report'])
  t.same(await shown({ models }), [])
  const starters = ['Plan my week', 'What changed?']
  t.same(await shown({ models, console: { starters } }), starters)
})

browserTest('an edit that could not be sent stays to be sent again; pressed twice, it is sent once', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  visitor.expect(/net::ERR_/)
  await visitor.open()
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
  await page.route('**/history', (route) => route.abort(), { times: 1 })
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('Edit your message').fill('/demo deltas=3 rate=0 size=7')
  await page.getByRole('button', { name: 'Send again' }).click()
  await page.locator('.toast.bad').waitFor()
  const gate = new EventEmitter()
  const pressed = once(gate, 'pressed')
  await page.route('**/history', (route) => pressed.then(() => route.continue()), { times: 1 })
  await page.getByRole('button', { name: 'Send again' }).dblclick()
  gate.emit('pressed')
  await visitor.hasWords('w00002')
  await visitor.answered()
  await page.getByText('2 / 2').first().waitFor()
  t.equal(await page.getByLabel('Edit your message').count(), 0)
  t.equal(await page.locator('.toast', { hasText: 'no longer shown' }).count(), 0, 'the second press is no mistake')
  const { body } = await person.get(`/api/threads/${await visitor.threadId()}/runs`)
  t.equal(listIn(body).length, 2)
})

browserTest('an edit of a message that is gone meanwhile is not sent', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say(sizes(6))
  await visitor.answered()
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByText('2 / 2').first().waitFor()
  await visitor.answered()
  const threadId = await visitor.threadId()
  const other = await visitor.tab()
  await other.open(`#/t/${threadId}`)
  await other.page.getByText('2 / 2').first().waitFor()
  await page.getByRole('button', { name: 'Edit' }).click()
  await page.getByLabel('Edit your message').fill(sizes(7))
  const gate = new EventEmitter()
  const [arrived, released] = [once(gate, 'arrived'), once(gate, 'released')]
  await page.route(
    '**/history',
    async (route) => {
      gate.emit('arrived')
      await released
      await route.continue()
    },
    { times: 1 }
  )
  await page.getByRole('button', { name: 'Send again' }).click()
  await arrived
  await other.page.getByRole('button', { name: 'Previous branch' }).click()
  await page.getByText('1 / 2').first().waitFor()
  gate.emit('released')
  await page.locator('.toast').getByText('This message is no longer shown').waitFor()
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 2)
  t.equal(await visitor.page.locator('.message').count(), 2, 'what is shown stays')
})

browserTest('a question of the agent is a form; its answer goes on with the run', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}')
  await page.getByText('Which colour?', { exact: true }).first().waitFor()
  await visitor.threadId()
  await page.reload()
  await page.getByRole('button', { name: 'Green' }).waitFor()
  t.equal(await page.locator('main').getByText('Which colour?', { exact: true }).count(), 1, 'it is asked once')
  await page.getByRole('button', { name: 'Green' }).click()
  await visitor.hasWords('Green')
  await visitor.answered()
  t.equal(await page.locator('.question').count(), 0)
  const chosen = async () => (await page.locator('.answered').allInnerTexts()).map(words)
  const isChosen = /^Which colour\? ?Green$/
  t.match(await chosen(), [isChosen], 'what was chosen stays')
  await page.reload()
  await visitor.answered()
  t.match(await chosen(), [isChosen], 'after a reload too')
  t.equal((await chosen()).length, 1, 'once')
})

browserTest('a thumb is kept, and taken back', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  const [run] = listIn((await person.get(`/api/threads/${threadId}/runs`)).body)
  const given = async () => (await person.get(`/api/threads/${threadId}/runs/${textIn(run, 'run_id')}/feedback`)).body
  await page.getByRole('button', { name: 'Good answer' }).click()
  await until(async () => at(await given(), 0, 'rating') === 1, 'the thumb')
  await page.reload()
  await page.locator('[aria-label="Good answer"][aria-pressed=true]').click()
  await until(async () => listIn(await given()).length === 0, 'it is taken back')
})

browserTest('a title that is being typed stays when the list is loaded anew', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/state`, { values: { title: 'Before' } })
  await visitor.open()
  await page.getByRole('button', { name: 'Actions for Before' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: 'Rename' }).click()
  await page.getByLabel('Title').fill('After')
  // A selection that ends beside the dialog does not close it.
  await page.getByLabel('Title').hover()
  await page.mouse.down()
  await page.mouse.move(5, 5)
  await page.mouse.up()
  await person.post(`/api/threads/${await person.thread()}/state`, { values: { title: 'Another' } })
  // By itself, every few seconds.
  await page.locator('.thread .title', { hasText: 'Another' }).waitFor()
  t.equal(await page.getByLabel('Title').inputValue(), 'After')
  await page.getByRole('button', { name: 'Rename' }).click()
  await page.locator('.thread .title', { hasText: 'After' }).waitFor()
})

browserTest('a conversation that is open is called as it is named anew, in every tab', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
  const other = await visitor.tab()
  await other.open(`#/t/${await visitor.threadId()}`)
  await other.answered()
  await page.getByRole('button', { name: /^Actions for/ }).press('Enter')
  await page.getByRole('menuitem', { name: 'Rename' }).press('Enter')
  await page.getByLabel('Title').fill('After')
  await page.getByLabel('Title').press('Enter')
  for (const tab of [visitor, other])
    await until(async () => (await tab.page.title()).startsWith('After'), 'the new title')
})

browserTest('a browser that keeps nothing more sends as ever', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await page.locator('.welcome').waitFor()
  await page.evaluate(`(() => {
    for (let size = 5_000_000; size >= 1; size = Math.floor(size / 2))
      for (let n = 0; n < 3; n++) try { sessionStorage.setItem(\`\${size} \${n}\`, 'x'.repeat(size)) } catch {}
  })()`)
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), 'w0000 w0001 w0002')
})

browserTest('an assistant is chosen for the next message', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const { body } = await person.post('/api/assistants', {
    graph_id: 'lead_agent',
    name: 'Poet',
    description: 'Writes in verse'
  })
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  const poet = String((body as { assistant_id: string }).assistant_id)
  await page.getByLabel('Assistant').selectOption({ label: 'Poet' })
  await page.getByTitle('Writes in verse').first().waitFor({ state: 'attached' })
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const threadId = page.url().split('/t/')[1]!
  const [run] = listIn((await person.get(`/api/threads/${threadId}/runs`)).body)
  t.match(run, { assistant_id: poet })
})
