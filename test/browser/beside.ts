// What a person does while an answer is under way, and after it was cut: queue, tell, go on, and come back.
import type { Page } from 'playwright-core'
import { aCall, ScriptedAgent, type Stage } from '../fixtures/agent.ts'
import { isAccessible } from '../fixtures/axe.ts'
import { account, browserTest, demoText, visit, type Visitor, visitSite } from '../fixtures/browser.ts'
import { at, listIn, openSite, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

browserTest(
  'Enter queues while an answer is under way: seen on another device, edited, removed, sent now',
  async (t) => {
    const { site, person, visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('/demo deltas=100000 rate=20')
    await visitor.hasWords('w0003')
    // Another device.
    const other = await visit(t, site.url, { person })
    await other.open(`#/t/${await visitor.threadId()}`)
    await visitor.say('/demo deltas=3 rate=0 size=7')
    await visitor.say('to be removed')
    const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
    await waiting.nth(1).waitFor()
    const elsewhere = other.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
    await elsewhere.nth(1).waitFor()
    await isAccessible(t, visitor, 'a queue')
    await waiting.nth(1).getByRole('button', { name: 'Remove' }).press('Enter')
    await elsewhere.nth(1).waitFor({ state: 'detached' })
    t.equal(await page.evaluate('document.activeElement.id'), 'composer', 'the focus does not go with its button')
    await waiting.first().getByRole('button', { name: 'Edit' }).click()
    await until(async () => (await page.inputValue('#composer')).startsWith('/demo deltas=3'), 'the text again')
    await visitor.say('/demo deltas=4 rate=0 size=7')
    await waiting.first().getByRole('button', { name: 'Send now' }).click()
    await visitor.hasWords('w00003')
    await visitor.answered()
    t.equal(await page.locator('.message.human').count(), 2)
    t.equal(await visitor.lastAnswer(), 'w00000 w00001 w00002 w00003')
  }
)

browserTest('what another client has queued comes into the composer whole, and is sent as it was', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  const threadId = await visitor.threadId()
  const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } }
  const file = { filename: 'notes.txt', size: 3, path: '/mnt/user-data/uploads/notes.txt' }
  const messages = [
    { role: 'system', content: 'Be short' },
    { role: 'user', content: [image, { type: 'text', text: 'What is this?' }] },
    { role: 'user', content: 'And whose?', additional_kwargs: { files: [null, file] } }
  ]
  await person.post(`/api/threads/${threadId}/runs`, { input: { messages }, multitask_strategy: 'enqueue' })
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await waiting.getByText('What is this? · Image · And whose? · notes.txt').waitFor()
  await waiting.getByRole('button', { name: 'Edit' }).click()
  await until(async () => (await page.inputValue('#composer')) === 'What is this?\n\nAnd whose?', 'all words')
  await page.locator('.composer .thumb').waitFor()
  await isAccessible(t, visitor, 'a draft with an image')
  // As a draft does, it outlives a reload.
  await page.reload()
  await page.locator('.composer .thumb').waitFor()
  await visitor.hasWords('w0003')
  await page.locator('#composer').press('Enter')
  await waiting.getByText('What is this? And whose? · notes.txt · Image').waitFor()
  await page.keyboard.press('Escape')
  await visitor.hasWords('You said')
  await visitor.answered()
  const asked = listIn((await person.get(`/api/threads/${threadId}/state`)).body, 'values', 'messages').at(-2)
  t.same(at(asked, 'content'), [{ type: 'text', text: 'What is this?\n\nAnd whose?' }, image])
  await page.locator('.message.human .picture').waitFor()
  const link = page.locator('.message.human').getByRole('link', { name: 'notes.txt' })
  t.equal(await link.getAttribute('href'), `/api/threads/${threadId}/artifacts${file.path}`)
})

browserTest('what is queued without a network waits, also over a reload, and is queued once', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  visitor.expect(/ERR_FAILED/)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  const threadId = await visitor.threadId()
  const isStart = (url: URL) => url.pathname.endsWith('/runs')
  await page.route(isStart, (route) => (route.request().method() === 'POST' ? route.abort() : route.fallback()))
  await visitor.say('said in a tunnel')
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await waiting.filter({ hasText: 'not sent yet' }).getByText('said in a tunnel').waitFor()
  t.equal(await page.inputValue('#composer'), '')
  await page.reload()
  await waiting.filter({ hasText: 'not sent yet' }).getByText('said in a tunnel').waitFor()
  await page.unroute(isStart)
  await waiting.filter({ hasText: 'Send now' }).getByText('said in a tunnel').waitFor()
  await waiting.filter({ hasText: 'not sent yet' }).waitFor({ state: 'detached' })
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 2)

  // The list has it before its own request is answered.
  let answer = () => {}
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route(isStart, async (route) => {
    if (route.request().method() !== 'POST') return route.fallback()
    const response = await route.fetch()
    await held
    await route.fulfill({ response })
  })
  await visitor.say('said on a slow line')
  await waiting.getByRole('button', { name: 'Edit the waiting message' }).nth(1).waitFor()
  t.equal(await waiting.count(), 2, 'each stands there once')
  answer()
  await page.unrouteAll({ behavior: 'wait' })
  await waiting.last().getByRole('button', { name: 'Remove' }).click()
  await waiting.nth(1).waitFor({ state: 'detached' })
  await page.keyboard.press('Escape')
  await visitor.hasWords('You said')
  await visitor.answered()
})

browserTest(
  'what the agent at work is told waits without a network, and over a reload, and is said once',
  async (t) => {
    const { person, visitor, page } = await visitSite(t)
    visitor.expect(/ERR_FAILED|ERR_ABORTED/)
    await visitor.open()
    await visitor.say('/demo deltas=100000 rate=20')
    await visitor.hasWords('w0003')
    const threadId = await visitor.threadId()
    const runs = async () => listIn((await person.get(`/api/threads/${threadId}/runs`)).body)
    const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
    const tell = async (text: string) => {
      await page.fill('#composer', text)
      await page.locator('#composer').press('Control+Enter')
    }
    const isSaid = (url: URL) => /\/(runs|input)$/.test(url.pathname)
    await page.route(isSaid, (route) => (route.request().method() === 'POST' ? route.abort() : route.fallback()))
    await tell('told in a tunnel')
    await waiting.filter({ hasText: 'not sent yet' }).getByText('told in a tunnel').waitFor()
    t.equal(await page.inputValue('#composer'), '')
    t.equal(await page.locator('.toast').count(), 0)
    await page.unroute(isSaid)
    await waiting.filter({ hasText: 'Send now' }).getByText('told in a tunnel').waitFor()
    t.equal((await runs()).length, 2)

    // The agent is about to take it.
    await tell('told before a reload')
    await waiting.filter({ hasText: 'next step' }).getByText('told before a reload').waitFor()
    await page.reload()
    await waiting.getByRole('button', { name: 'Edit the waiting message' }).nth(1).waitFor()
    await waiting.getByText('told before a reload').waitFor()
    t.equal((await runs()).length, 3)
    for (let left = await waiting.count(); left > 0; left--) {
      await waiting.first().getByRole('button', { name: 'Remove' }).click()
      await waiting.nth(left - 1).waitFor({ state: 'detached' })
    }
    await page.keyboard.press('Escape')
    await visitor.answered()

    // The agent has taken it, and the answer to that is lost.
    let taken = 0
    await page.route(/\/input$/, async (route) => {
      taken = (await route.fetch()).status()
      await route.abort()
    })
    await visitor.say('/demo rate=0 pause=3000 tool=current_time')
    await page.getByRole('button', { name: 'Stop' }).waitFor()
    await tell('told and taken')
    await waiting.filter({ hasText: 'next step' }).waitFor()
    await until(() => taken > 0, 'the agent has taken it')
    t.equal(taken, 204)
    await visitor.answered()
    await waiting.first().waitFor({ state: 'detached' })
    await page.reload()
    await page.locator('.bubble').getByText('told and taken').waitFor()
    t.equal(await page.locator('.bubble').getByText('told and taken').count(), 1)
    t.equal((await runs()).length, 2)
  }
)

browserTest('what is taken back while it is being sent is not queued', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  const threadId = await visitor.threadId()
  const runs = async () => listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  const isStart = (url: URL) => url.pathname.endsWith('/runs')
  for (const name of ['Remove the unsent message', 'Edit the unsent message']) {
    let go = () => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    await page.route(isStart, async (route) => {
      if (route.request().method() === 'POST') await gate
      return route.fallback()
    })
    await visitor.say('on its way')
    await waiting.getByRole('button', { name }).click()
    await waiting.waitFor({ state: 'detached' })
    const answered = page.waitForResponse((one) => one.request().method() === 'POST' && isStart(new URL(one.url())))
    go()
    await answered
    await until(async () => (await runs()) === 1, 'it is gone')
    await page.unrouteAll({ behavior: 'wait' })
  }
  t.equal(await page.inputValue('#composer'), 'on its way')
  await page.keyboard.press('Escape')
  await visitor.answered()
})

browserTest('a stopped answer is marked and goes on from its half, as one message', async (t) => {
  const { visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=60 rate=30')
  await visitor.hasWords('w0004')
  await page.keyboard.press('Escape')
  await visitor.answered()
  await page.locator('.cut').getByText('Stopped.').waitFor()
  await page.getByRole('button', { name: 'Continue' }).click()
  await visitor.hasWords('w0059')
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(60))
  t.equal(await page.locator('.message.ai').count(), 1)
  t.equal(await page.locator('.cut').count(), 0)
})

browserTest('who comes back to a growing answer finds where it was left, and how much came', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  visitor.expect(/ERR_ABORTED/)
  await visitor.open()
  await visitor.say('/demo deltas=300 rate=100')
  await visitor.hasWords('w0002')
  const threadId = await visitor.threadId()
  await page.goto('about:blank')
  await until(async () => (await person.get(`/api/threads/${threadId}/state`)).text.includes('w0299'), 'the end')
  await visitor.open(`#/t/${threadId}`)
  await page.locator('.left-off').waitFor()
  const left = await page.locator('.left-off').getAttribute('data-left')
  t.match(left, /^\d+ words came while you were away$/)
  t.equal(await visitor.lastAnswer(), demoText(300), 'the words are as they were')
})

browserTest('a device that is offline is said at once, whatever hangs', async (t) => {
  const { visitor, page, context } = await visitSite(t, { config: { streams: { heartbeat_ms: 60_000 } } })
  visitor.expect(/net::ERR_|WebSocket/)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  await context.setOffline(true)
  await page.locator('.lost').getByText('You are offline').waitFor()
  await context.setOffline(false)
  await page.locator('.lost').waitFor({ state: 'detached' })
  await page.keyboard.press('Escape')
  await visitor.answered()
})

browserTest('offline, and a server that is not ready, are told apart', async (t) => {
  const site = await openSite(t)
  const proxy = await openProxy(t, site.url)
  const visitor = await visit(t, proxy.url, { person: await account(site.url, 'ada@example.com') })
  visitor.expect(/net::ERR_|WebSocket|503/)
  const { page, context } = visitor
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  await context.setOffline(true)
  proxy.reset()
  await page.locator('.lost').getByText('You are offline').waitFor()
  await context.setOffline(false)
  await page.locator('.lost').waitFor({ state: 'detached' })
  await page.route('**/readyz', (route) => route.fulfill({ status: 503, body: '{}' }))
  proxy.down()
  await page.locator('.lost').getByText('not ready').waitFor()
  await page
    .locator('.lost')
    .getByText(/Last sign \d+ s ago/)
    .waitFor()
  proxy.up()
  await page.locator('.lost').waitFor({ state: 'detached' })
  await page.keyboard.press('Escape')
  await visitor.answered()
})

browserTest('an answer that is stopped before its first word is asked again by a press', async (t) => {
  const agent = new ScriptedAgent()
  const { visitor, page } = await visitSite(t, { agent })
  await visitor.open()
  const again = page.locator('.cut').getByRole('button', { name: 'Ask again' })
  const stopped = async (n: number) => {
    await until(() => agent.started.length === n, 'the run')
    await page.locator('.waiting').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('.cut').getByText('Stopped.').waitFor()
    await again.waitFor()
  }
  await visitor.say('Where do storks go?')
  await stopped(1)
  await isAccessible(t, visitor, 'an answer that was stopped before its first word')
  await again.press('Enter')
  await stopped(2)
  await visitor.threadId()
  await page.reload()
  await again.click()
  await until(() => agent.started.length === 3, 'the run')
  const stage = await agent.stage({ run_id: agent.started[2]! })
  stage.reply('South.')
  stage.finish()
  await visitor.hasWords('South.')
  await visitor.answered()
  t.equal(await page.locator('.message.human').count(), 1, 'asked once, as it is shown')
  t.equal(await page.locator('.cut').count(), 0)
})

for (const [what, begin] of Object.entries<(stage: Stage) => unknown>({
  'its thoughts': (stage) => stage.think('Storks?'),
  'a call': (stage) => stage.callPiece({ index: 0, id: 'c1', name: 'look', args: '{"at":' })
}))
  browserTest(`an answer that is stopped in ${what} says so and goes on, live as after a reload`, async (t) => {
    const agent = new ScriptedAgent()
    const { visitor, page } = await visitSite(t, { agent })
    await visitor.open()
    await visitor.say('Where do storks go?')
    await until(() => agent.started.length === 1, 'the run')
    begin(await agent.stage({ run_id: agent.started[0]! }))
    await page.locator('.message.ai').waitFor()
    await page.keyboard.press('Escape')
    const goOn = page.locator('.cut').getByRole('button', { name: 'Continue' })
    await goOn.waitFor()
    await page.reload()
    await goOn.waitFor()
    t.equal(await page.locator('.cut').getByText('Stopped.').count(), 1)
    t.equal(await page.locator('.call').getByText('waits').count(), 0, 'nothing comes of its call')
  })

const ENDS: Readonly<Record<string, (visitor: Visitor, stage: Stage) => unknown>> = {
  stopped: ({ page }) => page.keyboard.press('Escape'),
  broken: (_, stage) => stage.fail(new Error('The model is gone'))
}
for (const [how, end] of Object.entries(ENDS))
  browserTest(`an answer that is ${how} behind a tool goes on from what the tool has answered`, async (t) => {
    const agent = new ScriptedAgent()
    const { visitor, page } = await visitSite(t, { agent })
    await visitor.open()
    await visitor.say('Where do storks go?')
    await until(() => agent.started.length === 1, 'the run')
    const stage = await agent.stage({ run_id: agent.started[0]! })
    const call = aCall('c1')
    stage.callPiece({ index: 0, id: 'c1', name: call.name, args: '{}' }, 'm1')
    stage.reply('', { id: 'm1', tool_calls: [call] })
    stage.use(call, 'southwards')
    await page.locator('.call.done').waitFor()
    await end(visitor, stage)
    const goOn = page.locator('.cut, .failure').getByRole('button', { name: 'Continue' })
    await goOn.waitFor()
    await page.reload()
    await goOn.click()
    await until(() => agent.started.length === 2, 'the run')
    const next = await agent.stage({ run_id: agent.started[1]! })
    t.equal(next.input.continues, agent.started[0])
    next.reply('South.', { id: 'm2' })
    next.finish()
    await visitor.hasWords('South.')
    await visitor.answered()
    t.equal(await page.locator('.message.human').count(), 1)
    t.equal(await page.locator('.call.done').count(), 1)
    t.equal(await page.locator('.cut, .failure').count(), 0)
  })

/** Answers to starts of runs, which wait until they are let go. */
async function heldStarts(page: Page): Promise<() => void> {
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  await page.route('**/runs/stream', async (route) => {
    await gate
    return route.fallback()
  })
  return go
}

browserTest('what is told in the moment in which a run begins is given to its agent, and not queued', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  const go = await heldStarts(page)
  await visitor.say('/demo rate=0 pause=3000 tool=current_time')
  await page.getByRole('button', { name: 'Stop' }).waitFor()
  await page.fill('#composer', 'told at once')
  await page.locator('#composer').press('Control+Enter')
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await waiting.getByText('told at once').waitFor()
  const taken = page.waitForResponse(/\/input$/)
  go()
  t.equal((await taken).status(), 204)
  await visitor.answered()
  await waiting.waitFor({ state: 'detached' })
  t.equal(await page.locator('.bubble').getByText('told at once').count(), 1)
  t.equal(listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body).length, 1)
})

browserTest('what is written in the moment in which an answer goes on waits behind it', async (t) => {
  const { person, visitor, page } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=30')
  await visitor.hasWords('w0004')
  await page.keyboard.press('Escape')
  await visitor.answered()
  const go = await heldStarts(page)
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('button', { name: 'Stop' }).waitFor()
  await visitor.say('/demo deltas=2 rate=0 size=7')
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await waiting.filter({ hasText: 'not sent yet' }).waitFor()
  go()
  await waiting.getByRole('button', { name: 'Send now' }).waitFor()
  const runs = listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body)
  t.same(
    runs.map((run) => at(run, 'status')),
    ['pending', 'running', 'interrupted']
  )
  await waiting.getByRole('button', { name: 'Send now' }).click()
  await visitor.hasWords('w00001')
  await visitor.answered()
})

browserTest('Enter before the page knows of a run that goes on queues behind it', async (t) => {
  const { visitor, page } = await visitSite(t)
  visitor.expect(/ERR_ABORTED/)
  await visitor.open()
  await visitor.say('/demo deltas=100000 rate=20')
  await visitor.hasWords('w0003')
  await visitor.threadId()
  // Reloaded, and not loaded yet.
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  await page.route('**/history', (route) => gate.then(() => route.fallback()))
  await page.reload()
  await visitor.say('written at once')
  go()
  const waiting = page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await waiting.filter({ hasText: 'Send now' }).getByText('written at once').waitFor()
  t.equal(await page.inputValue('#composer'), '')
  await page.unrouteAll({ behavior: 'wait' })
  await waiting.getByRole('button', { name: 'Remove' }).click()
  await page.keyboard.press('Escape')
  await visitor.answered()
})

browserTest('a message is queued where another device was quicker', async (t) => {
  const { site, person, visitor } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=2 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  const device = await visit(t, site.url, { person })
  device.expect(/status of 409/)
  await device.open(`#/t/${threadId}`)
  await device.answered()
  await device.page.route(
    '**/runs/stream',
    async (route) => {
      await person.run(threadId, '/demo deltas=100000 rate=20 size=7')
      await route.fallback()
    },
    { times: 1 }
  )
  await device.say('written a moment later')
  const behind = device.page.getByRole('list', { name: 'Waiting messages' }).getByRole('listitem')
  await behind.filter({ hasText: 'Send now' }).getByText('written a moment later').waitFor()
  await device.hasWords('w00003')
  t.equal(await device.page.locator('.toast').count(), 0)
  await device.page.keyboard.press('Escape')
  await device.hasWords('You said')
  await device.answered()
})
