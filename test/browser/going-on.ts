// What makes the page worth it: whatever happens between the model and the reader, each word stands there once and in its place.
import { EventEmitter, once } from 'node:events'
import type { Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { ScriptedAgent } from '../fixtures/agent.ts'
import { account, browserTest, demoText, storedAnswer, visit, type Visitor, visitSite } from '../fixtures/browser.ts'
import { startChild } from '../fixtures/child.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, at, listIn, openSite, textIn, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'
import { IS_LONG } from '../fixtures/size.ts'
import { within } from '../fixtures/until.ts'

// Answers are watched while they are given, at the pace of a reader: three of these tests at a time.
t.jobs = 3

/** The words that are on the page are the first so many of the answer, each once. */
async function isPrefix(visitor: Visitor, text: string): Promise<boolean> {
  const shown = await visitor.page.locator('.message.ai .markdown').allInnerTexts()
  return text.startsWith((shown.at(-1) ?? '').replace(/\s+/g, ' ').trim())
}

browserTest('reloaded at ten moments of a run, the page goes on where the text stands: each word once', async (t) => {
  const { person, visitor } = await visitSite(t)
  // A reload cuts what is under way.
  visitor.expect(/ERR_ABORTED/)
  const deltas = 500
  await visitor.open()
  const ask = () => visitor.say(`/demo deltas=${deltas} rate=50`)
  await ask()
  const threadId = await visitor.threadId()
  const isRunning = async () => at((await person.get(`/api/threads/${threadId}`)).body, 'status') === 'running'
  for (let i = 0; i < 10; i++) {
    // Where pages load slowly the run is over before they have: the moments that are left are another's.
    if (!(await isRunning())) {
      await visitor.answered()
      await ask()
    }
    // By chance, and yet the same chance every time.
    await visitor.page.waitForTimeout((i * 7919) % 300)
    await visitor.page.reload()
    await visitor.page.locator('.message.human').last().waitFor()
    t.ok(await isPrefix(visitor, demoText(deltas)))
  }
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(deltas))
  t.equal(await visitor.lastAnswer(), await storedAnswer(person, threadId))
})

browserTest('reloaded before the first message is answered, or has even left, the page sends it once', async (t) => {
  const { visitor } = await visitSite(t)
  visitor.expect(/ERR_ABORTED|ERR_FAILED|404/)
  await visitor.open()
  // The thread is made, and what should follow never leaves.
  await visitor.page.route('**/runs/stream', (route) => route.abort())
  await visitor.say('/demo deltas=5 rate=0')
  await visitor.threadId()
  await visitor.page.unroute('**/runs/stream')
  await visitor.page.reload()
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(5))
  t.equal(await visitor.page.locator('.message.human').count(), 1)
})

browserTest(
  'two tabs show the same answer grow, whichever of them asked; a run of the API appears in both',
  async (t) => {
    const { site, person, visitor } = await visitSite(t)
    await visitor.open()
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    const threadId = await visitor.threadId()
    const other = await visitor.tab()
    await other.open(`#/t/${threadId}`)
    await other.hasWords('w0002')
    const device = await visit(t, site.url, { person })
    await device.open(`#/t/${threadId}`)
    await device.hasWords('w0002')
    // For as long as it takes until the other tab has seen it: that one ends it.
    await visitor.say('/demo deltas=100000 rate=50')
    await other.page.locator('[aria-label=Stop]').waitFor()
    await other.hasWords('w0010')
    await other.page.keyboard.press('Escape')
    await Promise.all([visitor.answered(), other.answered()])
    const text = await storedAnswer(person, threadId)
    t.ok(text.length > 50 && demoText(100_000).startsWith(text))
    t.strictSame([await visitor.lastAnswer(), await other.lastAnswer()], [text, text])
    await person.run(threadId, '/demo deltas=100 rate=50 size=7')
    await within(t, 1000, 'a run of the API is seen', () =>
      Promise.all([visitor, other, device].map((one) => one.hasWords('w00000')))
    )
    await Promise.all([visitor.hasWords('w00099'), other.hasWords('w00099')])
    t.equal(await other.page.locator('.message').count(), 6)
  }
)

browserTest(
  'a network that is gone for a while is said, counts down and heals by itself; nothing is lost',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const proxy = await openProxy(t, site.url)
    const visitor = await visit(t, proxy.url, { person })
    visitor.expect(/net::ERR_|ERR_CONNECTION|ERR_EMPTY|ERR_ABORTED|WebSocket is closed before/)
    const deltas = 500
    await visitor.open()
    await visitor.say(`/demo deltas=${deltas} rate=50`)
    await visitor.hasWords('w0010')
    proxy.reset()
    await visitor.hasWords('w0060')
    await within(t, 1000, 'the loss is told', async () => {
      proxy.down()
      await visitor.page
        .locator('.lost')
        .getByText(/trying again in \d+ s|Trying again/)
        .waitFor()
    })
    await visitor.page.locator('.lost').getByRole('button', { name: 'Try now' }).waitFor()
    // Until some tries have failed: what it then takes to come back is longer than a blip.
    const before = proxy.connections
    await until(() => proxy.connections > before + 1, 'further tries')
    await within(t, 1000, 'it is back', async () => {
      proxy.up()
      await visitor.page.locator('.lost').waitFor({ state: 'detached' })
    })
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), demoText(deltas))
    t.equal(await visitor.page.locator('.lost').count(), 0)
  }
)

browserTest('eight tabs over plain HTTP, each with a long answer, all go on', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const first = await visit(t, site.url, { person })
  const tabs = [first]
  while (tabs.length < 8) tabs.push(await first.tab())
  // As long as the others need to begin, and longer: none ends before the last has its words.
  for (const tab of tabs) {
    await tab.open()
    await tab.say('/demo deltas=100000 rate=20')
    await tab.hasWords('w0005')
  }
  for (const tab of tabs) {
    const before = (await tab.lastAnswer()).length
    await until(async () => (await tab.lastAnswer()).length > before, 'further words')
  }
  const threads = await Promise.all(tabs.map((tab) => tab.threadId()))
  for (const id of threads)
    for (const run of listIn((await person.get(`/api/threads/${id}/runs`)).body))
      await person.post(`/api/threads/${id}/runs/${textIn(run, 'run_id')}/cancel`)
  for (const [i, tab] of tabs.entries()) {
    await tab.answered()
    t.equal(await tab.lastAnswer(), await storedAnswer(person, threads[i]!))
  }
})

const HEARTBEAT_MS = 500

/** The page over a network that can swallow everything. */
async function overProxy(t: Test) {
  const site = await openSite(t, { config: { streams: { heartbeat_ms: HEARTBEAT_MS } } })
  const person = await account(site.url, 'ada@example.com')
  const proxy = await openProxy(t, site.url)
  const visitor = await visit(t, proxy.url, { person })
  visitor.expect(/net::ERR_|ERR_CONNECTION|ERR_EMPTY|ERR_ABORTED|WebSocket is closed before/)
  await visitor.open()
  return { person, proxy, visitor }
}

browserTest('a network that swallows everything is said, and left by "Try now"; no word is lost', async (t) => {
  const { proxy, visitor } = await overProxy(t)
  await visitor.say('/demo deltas=400 rate=50')
  await visitor.hasWords('w0010')
  proxy.swallow()
  await within(t, 1.5 * HEARTBEAT_MS, 'the loss is told', () =>
    visitor.page.locator('.lost').getByText('The connection is lost. The answer goes on without it').waitFor()
  )
  proxy.up()
  await within(t, 10_000, 'it is back', async () => {
    await tryNow(visitor)
    await visitor.page.locator('.lost').waitFor({ state: 'detached' })
  })
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(400))
})

browserTest('a network that swallows for long and is good again is found by itself within 10 s', async (t) => {
  const { proxy, visitor } = await overProxy(t)
  await visitor.say('/demo deltas=100000 rate=50')
  await visitor.hasWords('w0010')
  proxy.swallow()
  const begun = performance.now()
  const lost = visitor.page.locator('.lost')
  await lost.waitFor()
  // Behind the first attempts it is as it is for hours: an attempt that is swallowed, a pause, and again.
  let pause = 0
  const isPause = async () => {
    pause = Number(/trying again in (\d+) s/.exec((await lost.allInnerTexts()).join())?.[1] ?? 0)
    return pause > 0 && performance.now() - begun > 15_000
  }
  await until(isPause, 'a pause behind the short attempts')
  t.ok(pause <= 3, `a pause of ${pause} s`)
  await within(t, 10_000, 'it is back, and nobody has pressed anything', async () => {
    proxy.up()
    await lost.waitFor({ state: 'detached' })
  })
  await visitor.page.keyboard.press('Escape')
  await visitor.answered()
  t.ok(await isPrefix(visitor, demoText(100_000)))
})

browserTest(
  'a message that is swallowed is said to be unsent, and goes out once when the network is good',
  async (t) => {
    const { proxy, visitor } = await overProxy(t)
    await visitor.say('/demo deltas=3 rate=0')
    await visitor.answered()
    proxy.swallow()
    await visitor.say('/demo deltas=20 rate=50')
    await visitor.page.locator('.lost').getByText('Your message is not sent yet').waitFor()
    proxy.up()
    await visitor.page.evaluate("dispatchEvent(new Event('online'))")
    await visitor.hasWords('w0019')
    await visitor.answered()
    t.equal(await visitor.page.locator('.message.human').count(), 2)
  }
)

browserTest('a file on a network that swallows waits, and is there once the network is good', async (t) => {
  const { proxy, visitor } = await overProxy(t)
  const { page } = visitor
  await page.locator('.welcome').waitFor()
  await page.clock.install()
  proxy.swallow()
  const file = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('for the agent') }
  await page.locator('input[type=file]').setInputFiles(file)
  await page.fill('#composer', '/demo deltas=3 rate=0')
  await page.locator('.composer progress').waitFor()
  // It is whole as soon as the device has it to send.
  await page.clock.fastForward(60_000)
  await page.locator('.composer').getByText('waits for the server').waitFor()
  t.ok(await page.locator('[aria-label=Send]').isEnabled())
  proxy.up()
  proxy.reset()
  await page.clock.fastForward(60_000)
  await page.locator('.composer .files').getByText('waits for the server').waitFor({ state: 'detached' })
  await page.locator('.composer progress').waitFor({ state: 'detached' })
  t.equal(await page.locator('.composer .files').getByText('notes.txt').count(), 1)
})

browserTest('Stop on a network that swallows says that it will be sent, and is', async (t) => {
  const { person, proxy, visitor } = await overProxy(t)
  await visitor.say('/demo deltas=100000 rate=50')
  await visitor.hasWords('w0010')
  const threadId = await visitor.threadId()
  proxy.swallow()
  await visitor.page.locator('[aria-label=Stop]').click()
  await visitor.page.locator('.lost').getByText('Stop is sent as soon as it is back').waitFor()
  t.equal(at((await person.get(`/api/threads/${threadId}`)).body, 'status'), 'running')
  proxy.up()
  await tryNow(visitor)
  await visitor.answered()
  const [run] = listIn((await person.get(`/api/threads/${threadId}/runs`)).body)
  t.equal(at(run, 'status'), 'interrupted')
})

/** Asks for an attempt at once, unless the page has gone on by itself between our look and the click. */
async function tryNow({ page }: Visitor): Promise<void> {
  await page
    .getByText('Try now')
    .click({ timeout: 5000 })
    .catch(async (error: unknown) => {
      if ((await page.getByText('Try now').count()) > 0) throw error
    })
}

/** Milliseconds for which the network is gone; the longest goes with the long form. */
for (const ms of IS_LONG ? [1000, 5000, 40_000] : [1000, 5000])
  browserTest(`a network that is gone for ${ms / 1000} s costs no word and repeats none`, async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const proxy = await openProxy(t, site.url)
    const visitor = await visit(t, proxy.url, { person })
    visitor.expect(/net::ERR_|ERR_CONNECTION|ERR_EMPTY|ERR_ABORTED|WebSocket is closed before/)
    // The run goes on for longer than the network is gone.
    const deltas = Math.round((ms / 1000) * 50) + 400
    await visitor.open()
    await visitor.say(`/demo deltas=${deltas} rate=50`)
    await visitor.hasWords('w0010')
    const told = new Set<string>()
    proxy.down()
    const end = performance.now() + ms
    while (performance.now() < end) {
      for (const text of await visitor.page.locator('.lost').allInnerTexts()) told.add(text)
      await visitor.page.waitForTimeout(50)
    }
    proxy.up()
    await visitor.answered()
    t.equal(await visitor.lastAnswer(), demoText(deltas))
    t.equal(await storedAnswer(person, await visitor.threadId()), demoText(deltas))
    const counts = [...told].filter((text) => /trying again in \d+ s/.test(text))
    t.comment(`it was said ${counts.length} times when it is tried again`)
    // A cut that heals at the second try is no news.
    if (ms >= 40_000) t.ok(counts.length >= 3, 'it is said, and counts down')
    t.equal(await visitor.page.locator('.lost').count(), 0)
  })

browserTest(
  'a server that is killed in mid-answer and started again: what has survived stands there, and the failure is said',
  async (t) => {
    const port = await freePort()
    const first = await startChild(t, { port })
    const person = await account(first.url, 'ada@example.com')
    const visitor = await visit(t, first.url, { person })
    visitor.expect(/net::ERR_|status of 503/)
    await visitor.open()
    await visitor.say('/demo deltas=100000 rate=50')
    await visitor.hasWords('w0030')
    const threadId = await visitor.threadId()
    await first.kill()
    await startChild(t, { home: first.home, port })
    await visitor.page.getByText('The run failed.').first().waitFor()
    t.equal(await visitor.lastAnswer(), await storedAnswer(person, threadId))
    t.equal(
      await visitor.page.locator('.failure [role=alert]').innerText(),
      'The run failed. The server went down in the middle of it. What had come by then is here.',
      'in words for people'
    )
    const half = await visitor.lastAnswer()
    await visitor.page.locator('.failure').getByRole('button', { name: 'Continue' }).click()
    await until(async () => (await visitor.lastAnswer()).length > half.length, 'further words of the same answer')
    t.ok((await visitor.lastAnswer()).startsWith(half))
    t.equal(await visitor.page.locator('.message.ai').count(), 1)
    await visitor.page.keyboard.press('Escape')
    await visitor.answered()
    await visitor.say('/demo deltas=4 rate=0')
    await visitor.hasWords('w0003')
  }
)

/** Both ways to stop an answer. */
const STOPS: Readonly<Record<string, (visitor: Visitor) => Promise<void>>> = {
  'the button': ({ page }) => page.getByRole('button', { name: 'Stop', exact: true }).click(),
  Escape: ({ page }) => page.keyboard.press('Escape')
}
for (const [by, stop] of Object.entries(STOPS))
  browserTest(`stop ends the run and keeps what was said, by ${by}: it is marked, and goes on`, async (t) => {
    const { person, visitor, page } = await visitSite(t)
    await visitor.open()
    await visitor.say('/demo deltas=100000 rate=50')
    await visitor.hasWords('w0005')
    const before = await visitor.lastAnswer()
    await within(t, 300, 'stopped', async () => {
      await stop(visitor)
      await page.locator('[aria-label=Send]').waitFor()
    })
    await visitor.answered()
    const threadId = await visitor.threadId()
    const runs = (await person.get(`/api/threads/${threadId}/runs`)).body
    t.equal(textIn(runs, 0, 'status'), 'interrupted')
    const half = await visitor.lastAnswer()
    t.ok(half.startsWith(before), 'the text is kept')
    t.equal(half, await storedAnswer(person, threadId))
    await page.locator('.cut').getByText('Stopped.').waitFor()
    await page.locator('.cut').getByRole('button', { name: 'Continue' }).click()
    await until(async () => (await visitor.lastAnswer()).length > half.length, 'further words of the same answer')
    t.ok((await visitor.lastAnswer()).startsWith(half))
    t.equal(await page.locator('.message.ai').count(), 1)
    await stop(visitor)
    await visitor.answered()
  })

browserTest('a failed run says why, also after a reload', async (t) => {
  const { visitor } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0 error')
  const failure = visitor.page.locator('.failure')
  await failure.getByText('asked to fail').waitFor()
  await visitor.threadId()
  await visitor.page.reload()
  await failure.getByText('asked to fail').waitFor()
})

/** Answers to that request of the page, or to all such, that wait until they are let go. */
async function held(
  { page }: Visitor,
  path: string,
  times = 1
): Promise<{ arrived: Promise<unknown>; release: () => void }> {
  const gate = new EventEmitter()
  const [arrived, released] = [once(gate, 'arrived'), once(gate, 'released')]
  await page.route(
    path,
    async (route) => {
      const response = await route.fetch()
      gate.emit('arrived')
      await released
      // The page may have given it up meanwhile.
      await route.fulfill({ response }).catch(() => {})
    },
    { times }
  )
  return { arrived, release: () => gate.emit('released') }
}

browserTest('a run that ends while its conversation is loaded is there with its answer', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent })
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  const run = (await person.post(`/api/threads/${thread}/runs`, asked('what time is it?'))).body
  const stage = await agent.stage({ run_id: textIn(run, 'run_id') })
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  const hasState = page.waitForResponse('**/history', { timeout: 2000 }).catch(() => {})
  await page.route(
    '**/runs?limit=100',
    async (route) => {
      await hasState
      stage.reply('It is noon.')
      stage.finish()
      await until(async () => at((await person.get(`/api/threads/${thread}`)).body, 'status') === 'idle', 'the end')
      await route.continue()
    },
    { times: 1 }
  )
  await visitor.open(`#/t/${thread}`)
  await visitor.hasWords('It is noon.')
  await visitor.answered()
})

browserTest('a look at what is stored that is older than the message just sent does not hide it', async (t) => {
  const { person, visitor } = await visitSite(t)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  const threadId = await visitor.threadId()
  const look = await held(visitor, '**/history')
  // Noticed by a look, whose answer then comes late.
  await person.run(threadId, '/demo deltas=3 rate=0 size=7')
  await look.arrived
  const text = '/demo deltas=100000 rate=50'
  await visitor.say(text)
  await visitor.hasWords('w0003')
  const shown = visitor.page.waitForResponse('**/history')
  look.release()
  await shown
  const { length } = await visitor.lastAnswer()
  await until(async () => (await visitor.lastAnswer()).length > length + 30, 'further words')
  t.equal((await visitor.page.locator('.message.human').allInnerTexts()).at(-1)?.trim(), text)
  t.ok(await isPrefix(visitor, demoText(100_000)))
  await visitor.page.keyboard.press('Escape')
  await visitor.answered()
  t.equal(await visitor.page.locator('.message').count(), 6, 'with what the other client had asked')
})

browserTest('a message that is sent before its conversation is there follows what was said', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const [before] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
  const visitor = await visit(t, site.url, { person })
  const load = await held(visitor, '**/history')
  await visitor.open(`#/t/${thread}`)
  await load.arrived
  await visitor.say('/demo deltas=3 rate=0 size=7')
  // Pressed again meanwhile, it is sent once all the same; and nothing can be written that would go with it.
  await visitor.page.locator('#composer').press('Enter')
  await visitor.page.keyboard.type(' and more')
  t.equal(await visitor.page.inputValue('#composer'), '/demo deltas=3 rate=0 size=7')
  t.ok(await visitor.page.locator('[aria-label=Send]').isDisabled())
  load.release()
  await visitor.hasWords('w00002')
  await visitor.answered()
  t.equal(await visitor.page.locator('.message').count(), 4)
  t.equal(await visitor.page.inputValue('#composer'), '')
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 2)
  const [newest] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
  t.equal(textIn(newest, 'metadata', 'parent_run'), textIn(before, 'run_id'))
})

browserTest('a message whose conversation is left before it is there stays a draft', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const visitor = await visit(t, site.url, { person })
  const load = await held(visitor, '**/history')
  await visitor.open(`#/t/${thread}`)
  await load.arrived
  await visitor.say('what was that?')
  await visitor.open('#/')
  await visitor.page.locator('.welcome').waitFor()
  load.release()
  await visitor.loaded('/history')
  await visitor.open(`#/t/${thread}`)
  await visitor.hasWords('w0002')
  t.equal(await visitor.page.inputValue('#composer'), 'what was that?')
  t.equal(await visitor.page.locator('.toast').count(), 0, 'nothing has failed')
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1)
})

browserTest('over a link on which each load outlasts a look, a conversation heals and shows what is new', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const visitor = await visit(t, site.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.page.route('**/history', (route) => route.abort())
  await visitor.open(`#/t/${thread}`)
  await visitor.page.getByText('The server cannot be reached.').first().waitFor()
  await visitor.page.unroute('**/history')
  await visitor.page.route('**/history', async (route) => {
    const response = await route.fetch()
    await new Promise((resolve) => setTimeout(resolve, 4000))
    // The page may be closed by now.
    await route.fulfill({ response }).catch(() => {})
  })
  await visitor.hasWords('w0002')
  await person.run(thread, '/demo deltas=3 rate=0 size=7')
  await visitor.hasWords('w00002')
})

browserTest('a look whose answer comes while the conversation is loaded does not load it anew', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const visitor = await visit(t, site.url, { person })
  await visitor.open(`#/t/${thread}`)
  await visitor.hasWords('w0002')
  const other = await visitor.tab()
  await other.open()
  const looks = await held(visitor, '**/runs?limit=1', 9)
  await person.run(thread, '/demo deltas=3 rate=0 size=7')
  await looks.arrived
  let loads = 0
  visitor.page.on('request', (request) => {
    if (request.url().endsWith('/history')) loads++
  })
  const load = await held(visitor, '**/history')
  // As a tab says it in which that run was started.
  const news = JSON.stringify({ threadId: thread, what: 'ended' })
  await other.page.evaluate(`new BroadcastChannel('colloquy-runs').postMessage(${news})`)
  await load.arrived
  looks.release()
  await visitor.loaded('/runs?limit=1')
  load.release()
  await visitor.hasWords('w00002')
  t.equal(loads, 1)
})

browserTest('a message to a conversation that could not be loaded loads it again, and is sent', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const visitor = await visit(t, site.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.page.route('**/history', (route) => route.abort())
  await visitor.open(`#/t/${thread}`)
  await visitor.page.getByText('The server cannot be reached.').first().waitFor()
  await visitor.page.fill('#composer', '/demo deltas=3 rate=0 size=7')
  // Between two looks, which load it again too.
  await visitor.page.waitForEvent('requestfailed', { predicate: (request) => request.url().endsWith('/history') })
  await visitor.page.unroute('**/history')
  await visitor.page.locator('#composer').press('Enter')
  await visitor.hasWords('w00002')
  t.equal(await visitor.page.locator('.toast').count(), 0)
})

browserTest(
  'a message to a conversation that cannot be loaded waits, and follows what was said once it can',
  async (t) => {
    const site = await openSite(t)
    const person = await account(site.url, 'ada@example.com')
    const thread = await person.thread()
    await person.run(thread, '/demo deltas=3 rate=0')
    const [before] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    const visitor = await visit(t, site.url, { person })
    visitor.expect(/net::ERR_/)
    await visitor.page.route(/\/(history|runs\?limit=.*)$/, (route) => route.abort())
    await visitor.open(`#/t/${thread}`)
    await visitor.page.getByText('The server cannot be reached.').first().waitFor()
    const text = '/demo deltas=3 rate=0 size=7'
    await visitor.say(text)
    await visitor.page.getByRole('list', { name: 'Waiting messages' }).getByText(text).waitFor()
    t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1)
    await visitor.page.unrouteAll()
    await visitor.hasWords('w00002')
    await visitor.answered()
    t.equal(await visitor.page.locator('.message').count(), 4)
    const [newest] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    t.equal(textIn(newest, 'metadata', 'parent_run'), textIn(before, 'run_id'))
  }
)

browserTest('a first message without a network stands there, says that it waits, and is sent once', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const proxy = await openProxy(t, site.url)
  const visitor = await visit(t, proxy.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.open()
  await visitor.page.locator('.welcome').waitFor()
  proxy.down()
  await visitor.say('/demo deltas=4 rate=0')
  await visitor.page.locator('.lost').getByText('Your message is not sent yet').waitFor()
  t.equal(await visitor.page.locator('.message.human').count(), 1)
  proxy.up()
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(4))
  t.equal(await visitor.page.inputValue('#composer'), '')
  t.equal(listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body).length, 1)
})

browserTest('a first message of whose start the answer is lost is not sent twice', async (t) => {
  const { person, visitor } = await visitSite(t)
  visitor.expect(/net::ERR_/)
  await visitor.open()
  const start = async (route: Route) => {
    await route.fetch()
    await route.abort()
  }
  await visitor.page.route('**/runs/stream', start, { times: 1 })
  await visitor.say('/demo deltas=4 rate=0')
  await visitor.answered()
  t.equal(await visitor.lastAnswer(), demoText(4))
  t.equal(await visitor.page.locator('.message').count(), 2)
  t.equal(listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body).length, 1)
})

browserTest('a first message that is refused stands where it was written, and can be sent again', async (t) => {
  const { visitor, page } = await visitSite(t)
  visitor.expect(/status of 413/)
  await visitor.open()
  const refusal = { status: 413, json: { detail: { code: 'too_long', message: 'That is too much' } } }
  await page.route('**/runs/stream', (route) => route.fulfill(refusal), { times: 1 })
  await visitor.say('/demo deltas=3 rate=0')
  await page.locator('.toast').getByText('That is too much').waitFor()
  await until(async () => (await page.inputValue('#composer')) !== '', 'the words are back')
  t.equal(await page.locator('.message').count(), 0)
  await page.locator('#composer').press('Enter')
  await visitor.answered()
  t.equal(await page.locator('.message').count(), 2)
})

browserTest('a message that could not be sent is taken back by stop, and stands where it was written', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const proxy = await openProxy(t, site.url)
  const visitor = await visit(t, proxy.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  proxy.down()
  await visitor.say('what was that?')
  await visitor.page.locator('.lost').waitFor()
  await visitor.page.keyboard.press('Escape')
  await until(async () => (await visitor.page.inputValue('#composer')) === 'what was that?', 'the words are back')
  t.equal(await visitor.page.locator('.message.human').count(), 1)
  proxy.up()
  await visitor.page.reload()
  await visitor.answered()
  t.equal(await visitor.page.locator('.message.human').count(), 1, 'nor is it sent later')
  t.equal(listIn((await person.get(`/api/threads/${await visitor.threadId()}/runs`)).body).length, 1)
})

browserTest('a conversation that cannot be loaded does not look like a new one', async (t) => {
  const site = await openSite(t)
  const person = await account(site.url, 'ada@example.com')
  const thread = await person.thread()
  await person.run(thread, '/demo deltas=3 rate=0')
  const visitor = await visit(t, site.url, { person })
  visitor.expect(/net::ERR_/)
  await visitor.page.route('**/history', (route) => route.abort())
  await visitor.open(`#/t/${thread}`)
  await visitor.page.getByText('The server cannot be reached.').first().waitFor()
  t.equal(await visitor.page.locator('.welcome').count(), 0)
  await visitor.page.unroute('**/history')
  // A look may be quicker than the press.
  await visitor.page
    .getByRole('button', { name: 'Try now' })
    .click({ timeout: 2000 })
    .catch(() => {})
  await visitor.hasWords('w0002')
})

browserTest('a conversation that is deleted elsewhere goes from here', async (t) => {
  const { person, visitor } = await visitSite(t)
  visitor.expect(/status of 404/)
  await visitor.open()
  await visitor.say('/demo deltas=3 rate=0')
  await visitor.answered()
  await person.ask('DELETE', `/api/threads/${await visitor.threadId()}`)
  await visitor.page.getByText('This conversation does not exist').first().waitFor()
})
