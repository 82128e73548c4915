// Steps of the page's journey that no other suite looks at: a first message, models that fail, what is pasted, files, plans, settings.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Json } from '../../lib/base/types.ts'
import { ScriptedAgent, aCall, anAnswer, response, type Stage } from '../fixtures/agent.ts'
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, storedAnswer, threadSaying, visit, visitSite } from '../fixtures/browser.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, at, homeOf, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { type Script, scripted, startModel } from '../fixtures/model.ts'
import { openCompany } from '../fixtures/provider.ts'
import { isReadable, WIDE_TABLE } from '../fixtures/wide-table.ts'

/** The stage of the n-th run. */
async function stageOf(agent: ScriptedAgent, n: number): Promise<Stage> {
  await until(() => agent.started.length > n, 'the run')
  return agent.stage({ run_id: agent.started[n]! })
}

browserTest(
  'a first message: its title at once, thoughts folded with their seconds, a tool with what went in and out, tokens',
  async (t) => {
    const { visitor, page } = await visitSite(t)
    await visitor.open()
    await until(async () => (await page.evaluate('document.activeElement.id')) === 'composer', 'one can write at once')
    await visitor.say('Where do storks go? /demo reasoning deltas=5 rate=20 pause=600000')
    await page.locator('.message.human').waitFor()
    await page.locator('.thread .title', { hasText: 'Where do storks go?' }).waitFor()
    await page.locator('.waiting').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('.cut').getByText('Stopped.').waitFor()

    await visitor.say('/demo reasoning deltas=5 rate=20')
    const thoughts = page.locator('.fold.reasoning').last()
    await thoughts.getByText('Thinking…').waitFor()
    await visitor.hasWords('w0004')
    await until(
      async () => /Thoughts\s*\d+(\.\d)? (ms|s)/.test(await thoughts.locator('summary').innerText()),
      'seconds'
    )
    t.equal(await page.locator('.fold[open]').count(), 0, 'folded')
    await visitor.answered()
    t.match(
      await page.locator('.message.ai .tokens').last().innerText(),
      /demo · .* s · \d+ tokens|demo · .* ms · \d+ tokens/
    )

    await visitor.say('/demo rate=0 tool=write_file args={"path":"a.txt","content":"b"}')
    await visitor.hasWords('The tool answered')
    await visitor.answered()
    const call = page.locator('.fold.call')
    t.equal(await page.locator('.fold[open]').count(), 0, 'folded')
    await call.locator('summary').click()
    await call.getByRole('heading', { name: 'Arguments' }).waitFor()
    await call.locator('pre').getByText('"path": "a.txt"').waitFor()
    await call.getByRole('heading', { name: 'Result' }).waitFor()
    await until(async () => /\d (ms|s)/.test(await call.locator('.took').innerText()), 'how long it took')
  }
)

/** How a model fails, what its user is told, and what can be done then. */
const FAILURES: readonly (readonly [string, Script, RegExp, readonly string[]])[] = [
  ['no key', { status: 401 }, /refused the request with status 401/, ['Ask again']],
  [
    'too many requests',
    { status: 429, retryAfter: '90' },
    /status 429.*asks to wait 90 seconds.*It can be tried again in 1 min \d+ s\./s,
    ['Ask again']
  ],
  ['its own fault', { status: 500 }, /is not available: status 500/, ['Ask again']],
  [
    'too much context',
    { status: 400, body: '{"error":{"message":"maximum context length is 8192 tokens"}}' },
    /maximum context length/,
    ['Ask again']
  ],
  ['broken in mid-stream', { deltas: 30, cutAfter: 20, rate: 50 }, /broke off in the middle/, ['Continue', 'Ask again']]
]

browserTest('a model that fails is a sentence with what to do; a half answer is kept', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [
    { name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'm', max_retries: 0 }
  ]
  const { visitor, page } = await visitSite(t, { config: { models } })
  for (const [what, script, told, ways] of FAILURES) {
    await visitor.open('#/')
    await page.locator('.welcome').waitFor()
    await visitor.say(scripted(script))
    const failure = page.locator('.failure')
    await failure.waitFor()
    await until(async () => told.test(await failure.innerText()), `${what}: ${told}`)
    t.same(await failure.getByRole('button').allInnerTexts(), ways, what)
    if (ways.includes('Continue')) t.match(await visitor.lastAnswer(), /^d0 d1 .*d1\d/, 'its half is there')
    if (script.retryAfter === undefined) continue
    const left = async () => {
      const [, minutes, seconds] = /again in 1 min (\d+) s|again in (\d+) s/.exec(await failure.innerText()) ?? []
      return minutes === undefined ? Number(seconds) : 60 + Number(minutes)
    }
    const first = await left()
    await until(async () => (await left()) < first, 'it counts down')
    const second = await left()
    await until(async () => (await left()) < second, 'and goes on counting')
    t.ok((await left()) > 0, `${first} s, ${second} s, ${await left()} s`)
  }
})

browserTest('a failed answer is asked again, and a broken one goes on, both by a press', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [
    { name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'm', max_retries: 0 }
  ]
  const { person, visitor, page } = await visitSite(t, { config: { models } })
  const press = (name: string) => page.locator('.failure').getByRole('button', { name }).click()
  const ask = async (script: Script) => {
    await visitor.open('#/')
    await page.locator('.welcome').waitFor()
    await visitor.say(scripted(script))
    await page.locator('.failure').waitFor()
  }
  await ask({ status: 500, failures: 1, text: 'Storks go south.' })
  await press('Ask again')
  await visitor.hasWords('Storks go south.')
  await visitor.answered()
  t.equal(await page.locator('.failure').count(), 0)
  t.equal(await page.locator('.message.human').count(), 1, 'asked once, as it is shown')

  await ask({ deltas: 30, cutAfter: 20, failures: 1, rate: 50 })
  const half = await visitor.lastAnswer()
  t.match(half, /^d0 d1 .*d1\d/)
  model.aside = () => ({ text: 'and the rest of it.' })
  await press('Continue')
  await visitor.hasWords('and the rest of it.')
  await visitor.answered()
  const whole = await visitor.lastAnswer()
  t.ok(whole.startsWith(half), 'behind its half')
  t.equal(await page.locator('.message.ai').count(), 1, 'as one message')
  t.equal(await page.locator('.failure').count(), 0)
  t.equal(whole, await storedAnswer(person, await visitor.threadId()))
})

browserTest('what is long is pasted whole and folded when it is sent', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  const long = `${'a line of many\n'.repeat(4000)}/demo deltas=2 rate=0`
  // As it is pasted: a browser's keys take minutes for so many lines.
  await page.locator('#composer').waitFor()
  await page.evaluate(`((box, text) => {
    box.value = text
    box.dispatchEvent(new Event('input', { bubbles: true }))
  })(document.querySelector('#composer'), ${JSON.stringify(long)})`)
  await page.locator('#composer').press('Enter')
  await visitor.answered()
  const bubble = page.locator('.message.human .bubble')
  const height = async () =>
    Number(await page.evaluate("document.querySelector('.message.human .bubble').offsetHeight"))
  t.ok((await height()) < 1000, `${await height()} px`)
  t.match(await bubble.locator('summary').innerText(), /58\.\d KB/)
  t.match(await bubble.innerText(), /a line of many/)
  await bubble.locator('summary').press('Enter')
  t.ok((await height()) > 10_000, 'and opened it is whole')
  t.notMatch(await bubble.locator('summary').innerText(), /a line/, 'and says nothing twice')
  await page.reload()
  await bubble.waitFor()
  t.ok((await height()) < 1000)
  // Few characters may have many lines.
  await visitor.open()
  await page.locator('.welcome').waitFor()
  await visitor.say(`${'1\n'.repeat(1000)}/demo deltas=2 rate=0`)
  await visitor.answered()
  t.ok((await height()) < 1000, `${await height()} px`)
})

browserTest('a plan is a strip: what is under way, how much is done, and all of it', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent })
  await visitor.open()
  await visitor.say('do it all')
  const stage = await stageOf(agent, 0)
  const todos = (...status: string[]) =>
    ['Read', 'Write', 'Sleep'].map((content, n) => ({ content, status: status[n] ?? 'pending' }))
  const plan = async (id: string, ...status: string[]) => {
    const call = aCall(id, 'write_todos', { todos: todos(...status) })
    stage.callPiece({ index: 0, id, name: call.name, args: JSON.stringify(call.args) }, `m-${id}`)
    stage.reply('', { id: `m-${id}`, tool_calls: [call] })
    stage.use(call, 'ok')
  }
  await plan('one', 'completed', 'in_progress')
  const strip = page.locator('.plan')
  await strip.locator('summary').getByText('1 of 3').waitFor()
  t.match(await strip.locator('summary').innerText(), /Write/)
  await strip.locator('summary').press('Enter')
  t.same(await strip.locator('li').allInnerTexts(), ['Read', 'Write', 'Sleep'])
  await plan('two', 'completed', 'completed', 'completed')
  await strip.getByText('All done').waitFor()
  // It stays while the agent waits for its user.
  stage.sink.record({ type: 'interrupt', interrupt: { id: 'q', value: { question: 'Good?', options: ['Yes'] } } })
  stage.sink.record({ type: 'step', node: 'agent' })
  stage.finish()
  await page.locator('.question').waitFor()
  await strip.getByText('All done').waitFor()
  await page.reload()
  await strip.getByText('All done').waitFor()
})

browserTest('a table is readable and aligned, and is scrolled inside where there is no room', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const threadId = await threadSaying(person, WIDE_TABLE)
  const visitor = await visit(t, site.url, { person })
  for (const width of [1280, 375]) {
    await visitor.page.setViewportSize({ width, height: 700 })
    await visitor.open(`#/t/${threadId}`)
    await visitor.hasWords('Above.')
    await isReadable(t, (script) => visitor.page.evaluate(script), width === 375)
  }
})

const RICH = [
  'See [the guide][g] and a claim[^n]. ',
  'A price of \\(a_1 \\\\ b\\) here.\n\n',
  '```js\nconst a = "\\\\n"\n```\n\n',
  '| a | b |\n|---|--:|\n| 1 | 2 |\n\n',
  '[g]: https://docs.example/guide\n[^n]: The proof.'
]

browserTest(
  'links, notes, formulas, code and pictures are the same live and after a reload, and copied as written',
  async (t) => {
    const agent = new ScriptedAgent()
    const site = await openSite(t, { agent })
    const visitor = await visit(t, site.url, {
      person: await account(site.url, 'ada@example.com'),
      context: { permissions: ['clipboard-read', 'clipboard-write'] }
    })
    const { page } = visitor
    await visitor.open()
    await visitor.say('Show me')
    const stage = await stageOf(agent, 0)
    for (const part of RICH) stage.say(part)
    const answer = page.locator('.message.ai .markdown').last()
    await answer.locator('math').waitFor()
    await answer.locator('.hljs-keyword').waitFor()
    const live = await answer.innerHTML()
    t.match(live, /href="https:\/\/docs\.example\/guide"/)
    stage.reply(RICH.join(''))
    stage.finish()
    await visitor.answered()
    await page.reload()
    await answer.locator('math').waitFor()
    await answer.locator('.hljs-keyword').waitFor()
    t.equal(await answer.innerHTML(), live)
    await page.locator('.message.ai .actions').getByRole('button', { name: 'Copy', exact: true }).click()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), RICH.join(''))
    await page.locator('.code').getByRole('button', { name: 'Copy' }).click()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), 'const a = "\\\\n"')

    // A picture as a model sends it, live; and the same as it is stored.
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const content: Json[] = [
      { type: 'text', text: 'A dot.' },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } }
    ]
    await visitor.say('And a picture')
    const second = await stageOf(agent, 1)
    const chunk = { type: 'AIMessageChunk', id: 'dot', content }
    second.sink.emit({ type: 'frame', mode: 'messages', event: 'messages', json: JSON.stringify([chunk, {}]) })
    const isSeen = async (when: string) => {
      await page.locator('.message.ai img.picture').waitFor()
      const width = "((image) => image.decode().then(() => image.naturalWidth))(document.querySelector('img.picture'))"
      t.equal(await page.evaluate(width), 1, when)
      await page.locator('.message.ai .markdown', { hasText: 'A dot.' }).waitFor()
    }
    await isSeen('live')
    t.equal(await page.locator('[aria-label=Stop]').count(), 1, 'while it is answered')
    second.sink.record(response({ ...anAnswer('', { id: 'dot' }), content }))
    second.sink.record({ type: 'step', node: 'agent' })
    second.finish()
    await visitor.answered()
    await isSeen('when it is answered')
    await page.reload()
    await isSeen('after a reload')
  }
)

browserTest('a table of data and a text are shown as they look and as they are written, and are copied', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const visitor = await visit(t, site.url, {
    person,
    context: { permissions: ['clipboard-read', 'clipboard-write'] }
  })
  const { page } = visitor
  await visitor.open()
  const write = async (path: string, content: string) => {
    await visitor.say(`/demo rate=0 tool=write_file args=${JSON.stringify({ path, content })}`)
    await page.getByRole('button', { name: path, exact: true }).waitFor()
    await visitor.answered()
    await page.getByRole('button', { name: path, exact: true }).click()
  }
  const csv = 'name,size\n"a, b",1\nc,2\n'
  await write('sizes.csv', csv)
  const panel = page.locator('.panel.artifact')
  await panel.locator('td').first().waitFor()
  t.same(await panel.locator('td').allInnerTexts(), ['a, b', '1', 'c', '2'])
  await panel.getByRole('button', { name: 'Copy the file' }).click()
  await page.locator('.toast').getByText('Copied').waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), csv)
  await panel.getByRole('button', { name: 'Close the file' }).click()
  await write('notes.md', '# Notes\n\n- one\n')
  await panel.getByRole('heading', { name: 'Notes', exact: true }).waitFor()
  await panel.getByRole('button', { name: 'Source' }).click()
  await panel.locator('code').getByText('# Notes').waitFor()
})

browserTest(
  'own settings: what is remembered is forgotten, a token needs a scope, everything kept is downloaded',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const { status } = await person.post('/api/memory/facts', { content: 'Likes storks', category: 'preference' })
    t.equal(status, 200)
    const visitor = await visit(t, site.url, { person })
    const { page } = visitor
    await visitor.open()
    await page.getByRole('button', { name: 'ada@example.com', exact: true }).click()
    await page.getByText('Likes storks').waitFor()
    const facts = async () => listIn((await person.get('/api/memory')).body, 'facts').map((fact) => at(fact, 'content'))
    const forget = page.getByRole('button', { name: 'Forget: Likes storks' })
    await forget.click()
    await page.getByText('Nothing yet.').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('Likes storks').waitFor()
    await forget.click()
    await forget.waitFor({ state: 'detached' })
    t.same(await facts(), ['Likes storks'], 'until it can be undone no more')
    await until(async () => (await facts()).length === 0, 'it is forgotten')
    await page.getByText('Nothing yet.').waitFor()

    await page.getByRole('button', { name: 'Create token' }).click()
    await page.getByText('Choose what the token may do').waitFor()
    t.same(listIn((await person.get('/api/v1/auth/tokens')).body, 'tokens'), [])

    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Everything that is kept of you' }).click()
    ])
    t.match(download.suggestedFilename(), /\.zip$/)

    await page.getByRole('group', { name: 'Theme' }).getByRole('button', { name: 'Dark' }).click()
    t.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark')
  }
)

browserTest(
  'after five wrong passwords the door says when it may be tried again, and the way of the forgotten one',
  async (t) => {
    const site = await openSite(t)
    await account(site.url, 'bob@example.com')
    await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
    const visitor = await visit(t, site.url)
    const { page } = visitor
    visitor.expect(/status of (401|429)/)
    await visitor.open()
    await page.getByLabel('E-mail').fill('bob@example.com')
    await page.getByLabel('Password').fill('not-the-password')
    for (let n = 0; n < 6; n++) {
      const answer = page.waitForResponse('**/login/local')
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
      await answer
    }
    await page
      .getByRole('alert')
      .filter({ hasText: /tried again in \d+ min/ })
      .waitFor()
    await page.getByText('An administrator can send you a link').waitFor()
  }
)

browserTest('the operator sees what was used, what was done, and what has failed, and tries it again', async (t) => {
  const webhooks = { attempts: 1, allowed_networks: ['127.0.0.0/8'] }
  const site = await openSite(t, { config: { webhooks, retention: { audit_days: 30 } } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  const thread = await admin.thread()
  // Nobody listens there.
  const webhook = `http://127.0.0.1:${await freePort()}/hook`
  await admin.post(`/api/threads/${thread}/runs/wait`, { ...asked('/demo deltas=3 rate=0'), webhook })
  const ann = await account(site.url, 'ann@example.com')
  const answered = await ann.post(`/api/threads/${await ann.thread()}/runs`, asked('/demo deltas=3 rate=0'))
  const rated = `/api/threads/${textIn(answered.body, 'thread_id')}/runs/${textIn(answered.body, 'run_id')}/feedback`
  await ann.ask('PUT', rated, { body: { rating: -1, comment: 'Too short' } })
  const visitor = await visit(t, site.url, { person: admin })
  const { page } = visitor
  await visitor.open('#/overview')
  const thumb = page.locator('.cards li', { hasText: 'Too short' })
  // Names of accounts are asked for behind the list.
  await thumb.filter({ hasText: /Bad answer.*ann@example\.com/ }).waitFor()
  await page.getByRole('button', { name: 'Count what is too old' }).click()
  await page.locator('.cards li', { hasText: 'threads' }).getByText('kept for ever').waitFor()
  await page.locator('.cards li', { hasText: /^audit0 from before/ }).waitFor()
  await page.getByRole('heading', { name: 'Usage' }).waitFor()
  await page
    .locator('.cards li', { hasText: 'root@example.com' })
    .filter({ hasText: /\d+ runs?, \d+ tokens/ })
    .first()
    .waitFor()
  await page.getByRole('link', { name: 'As CSV' }).waitFor()
  const jobs = async () => listIn((await admin.get('/api/v1/admin/jobs?dead=true')).body, 'jobs').length
  await until(async () => (await jobs()) === 1, 'a job that has failed')
  await page.reload()
  await page.getByRole('heading', { name: 'Jobs that failed' }).first().waitFor()
  const job = page.locator('.cards li', { hasText: 'webhook' })
  const tried = page.waitForResponse((response) => response.url().endsWith('/retry'))
  await job.getByRole('button', { name: 'Try again' }).click()
  t.equal((await tried).status(), 200)
  await until(async () => (await jobs()) === 1, 'it has failed again')
  await page.reload()
  await job.getByRole('button', { name: 'Drop' }).click()
  await until(async () => (await jobs()) === 0, 'it is dropped')
  await page.reload()
  await page.getByRole('heading', { name: 'Audit' }).waitFor()
  await page.locator('.cards li', { hasText: 'job dropped' }).first().waitFor()
})

browserTest('text in Chinese is found by a word of it, and the list says how many there are', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  for (const words of ['今天天气很好', 'مرحبا بالعالم'])
    await person.post(`/api/threads/${thread}/runs/wait`, asked(`${words} /demo deltas=2 rate=0`))
  await until(
    async () => at((await person.get(`/api/v1/search?q=${encodeURIComponent('بالعالم')}`)).body, 'total') !== 0,
    'the index'
  )
  for (let n = 0; n < 230; n += 23)
    await Promise.all(
      Array.from({ length: 23 }, async (_, i) =>
        person.post(`/api/threads/${await person.thread()}/state`, { values: { title: `Number ${n + i}` } })
      )
    )
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  await visitor.open()
  await page.locator('#search').fill('天气')
  await page.getByRole('region', { name: 'Messages found' }).getByText('天气').first().waitFor()
  await page.locator('#search').fill('بالعالم')
  await page.getByRole('region', { name: 'Messages found' }).getByText('بالعالم').first().waitFor()
  await page.locator('#search').fill('number')
  await page.locator('.threads').getByText('200 of 230 found').waitFor()
})

browserTest('a model is chosen by what it is for, and how much it thinks; a thumb is given a word', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const base = { provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'm' }
  const models = [
    { ...base, name: 'quick', description: 'For short questions' },
    { ...base, name: 'deep', description: 'For hard questions', supports_reasoning_effort: true }
  ]
  const { person, visitor, page } = await visitSite(t, { config: { models } })
  await visitor.open()
  await page.getByLabel('Model', { exact: true }).waitFor()
  t.equal(await page.getByLabel('Thinking').count(), 0, 'the first one does not think')
  await page.getByLabel('Model', { exact: true }).selectOption('deep')
  await page.getByTitle('For hard questions').first().waitFor({ state: 'attached' })
  await page.getByLabel('Thinking').selectOption({ label: 'Thinks most' })
  await page.reload()
  await page.getByLabel('Thinking').waitFor()
  await visitor.say(scripted({ text: 'Hello' }))
  await visitor.hasWords('Hello')
  await visitor.answered()
  t.equal((await model.request()).body.reasoning_effort, 'high')

  await page.getByRole('button', { name: 'Good answer' }).click()
  await page.getByLabel('A word about it').fill('To the point')
  await page.locator('.why').getByRole('button', { name: 'Send' }).click()
  await page.locator('.toast').getByText('Thank you.').waitFor()
  const [run] = listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body)
  const path = `/api/threads/${await visitor.threadId()}/runs/${String(at(run, 'run_id'))}/feedback`
  t.match((await person.get(path)).body, [{ rating: 1, comment: 'To the point' }])
})

browserTest('the skills that the agent has are chosen, each by what it is for, and stay chosen', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const path = homeOf(t)
  for (const name of ['charts', 'letters', 'sums']) {
    mkdirSync(join(path, name))
    writeFileSync(join(path, name, 'SKILL.md'), `---\nname: ${name}\ndescription: For ${name} alone\n---\nDo it well.`)
  }
  const models = [{ name: 'm', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'm' }]
  const { visitor, page } = await visitSite(t, { config: { models, skills: { path } } })
  await visitor.open()
  const ask = async (n: number) => {
    await visitor.say(scripted({ text: `Answer ${n}` }))
    await visitor.hasWords(`Answer ${n}`)
    await visitor.answered()
    const { messages } = model.requests.find(({ body }) => JSON.stringify(body).includes(`Answer ${n}`))!
    return [...JSON.stringify(messages).matchAll(/- (\w+): For/g)].map(([, name]) => name)
  }
  const skills = page.getByRole('button', { name: 'Skills' })
  await skills.waitFor()
  t.same(await ask(1), ['charts', 'letters', 'sums'], 'without a choice all of them')
  await skills.press('Enter')
  await isAccessible(t, visitor, 'skills')
  await page.getByText('For letters alone').waitFor()
  await page.getByLabel('letters').press('Space')
  await page.getByLabel('sums').press('Space')
  await page.keyboard.press('Escape')
  await until(
    async () => /Skills 2/.test(await page.evaluate<string>('document.activeElement.textContent')),
    'the focus'
  )
  t.same(await ask(2), ['letters', 'sums'])
  await page.reload()
  await page.getByRole('button', { name: 'Skills 2' }).press('Enter')
  // Not by a key again: the dialog may take the focus between its two halves.
  await page.getByLabel('sums').uncheck()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Skills 1' }).waitFor()
  t.same(await ask(3), ['letters'])
})

browserTest('who belongs to the company signs in there, and is back where the door was', async (t) => {
  const { site, people, signIn } = await openCompany(t)
  await new Person(site.url).post('/api/v1/auth/initialize', { email: 'root@example.com', password: PASSWORD })
  people.set('ann', { email: 'ann@example.com', email_verified: true })
  await signIn('ann')
  const visitor = await visit(t, site.url)
  visitor.expect(/a request to http:..127\.0\.0\.1/, /status of 401/)
  await visitor.open()
  await visitor.page.getByRole('link', { name: 'Continue with The company' }).click()
  await visitor.page.getByRole('button', { name: 'ann@example.com', exact: true }).waitFor()
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
})
