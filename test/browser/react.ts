// LangGraph's hooks for React, in Chromium, against the built-in agent and against a project laid out as LangGraph's templates are: a turn,
// a reload in the middle, a second tab, a stop, another branch, a question and its answer.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { browserTest, visit, type Visitor } from '../fixtures/browser.ts'
import { at, listIn, openSite, signIn, type Site, until } from '../fixtures/gateway.ts'
import { templateFolder } from '../fixtures/graphs.ts'
import { type Hook, HookPage, serve } from '../fixtures/react-page.ts'

// Answers are watched while they are given: three of these tests at a time.
t.jobs = 3

const words = (deltas: number) => Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')}`).join(' ')
const answers = async (page: Page) =>
  (await page.locator('p[data-type="ai"]').allTextContents()).map((text) => text.trim())
const threadOf = (page: Page) => page.locator('main').getAttribute('data-thread')
const isLoading = async (page: Page) => (await page.locator('main').getAttribute('data-loading')) === 'true'
const say = (page: Page, text: string) => page.evaluate(`say(${JSON.stringify(text)})`)

async function open(visitor: Visitor, page: Page, transport: string, thread = ''): Promise<void> {
  await page.goto(`${visitor.url}/react?transport=${transport}${thread && `&thread=${thread}`}`)
  await page.locator('main').waitFor({ state: 'attached' })
}

async function journey(t: Test, transport: 'sse' | 'websocket'): Promise<void> {
  const site = await openSite(t)
  const person = await signIn(site)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  // A thread that is not there yet has no state: the hook asks, and takes the answer for what it is.
  visitor.expect(/404/)
  await serve(page)
  await open(visitor, page, transport)

  await say(page, '/demo deltas=20 rate=0')
  await until(async () => (await answers(page)).join() === words(20), 'an answer')
  await until(async () => !(await isLoading(page)), 'the end')
  const thread = (await threadOf(page)) ?? ''
  t.ok(thread, 'the thread has its id')

  await say(page, '/demo deltas=120 rate=40')
  await until(async () => ((await answers(page))[1] ?? '').length > 60, 'it is being said')
  await open(visitor, page, transport, thread)
  const tab = await visitor.context.newPage()
  await serve(tab)
  await open(visitor, tab, transport, thread)
  for (const [name, one] of [
    ['the reloaded page', page],
    ['the second tab', tab]
  ] as const) {
    await until(
      async () => (await answers(one)).length === 2 && (await answers(one))[1] === words(120),
      `${name}: all of it`
    )
    t.strictSame(await answers(one), [words(20), words(120)], name)
    await until(async () => !(await isLoading(one)), `${name}: the end`)
  }

  // In a thread of its own: of one that it has joined this version of the hook may take an earlier run's end for the new one's.
  await open(visitor, tab, transport)
  await say(tab, '/demo deltas=2000 rate=30')
  await until(async () => ((await answers(tab))[0] ?? '').length > 20, 'another answer begins')
  const other = (await threadOf(tab)) ?? ''
  await tab.evaluate('stopRun()')
  await until(async () => !(await isLoading(tab)), 'it is stopped')
  const runs = `/api/threads/${other}/runs`
  await until(async () => (await person.get(runs)).text.includes('"interrupted"'), 'the run has ended')
  await open(visitor, page, transport, other)
  await until(async () => (await answers(page)).length === 1, 'what was said stays')
  t.ok(words(2000).startsWith((await answers(page))[0]!.slice(0, 20)))
}

browserTest('useStream over server-sent events: a turn, a reload, a second tab, a stop', (t) => journey(t, 'sse'))
browserTest('useStream over WebSockets: the same', (t) => journey(t, 'websocket'))

const AGENTS: Readonly<Record<string, (t: Test) => Promise<Site>>> = {
  agent: (t) => openSite(t, { config: { agent: { runtime: 'graphs', config: templateFolder(t) } } }),
  lead_agent: (t) => openSite(t)
}

const asking = (deltas: number, rate = 0) => `/demo deltas=${deltas} rate=${rate}`
const QUESTION = '/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'

async function wholeJourney(t: Test, hook: Hook, assistant: string, transport = 'sse'): Promise<void> {
  const site = await AGENTS[assistant]!(t)
  const person = await signIn(site)
  const visitor = await visit(t, site.url, { person })
  const { page } = visitor
  visitor.expect(/404/)
  await serve(page, hook)
  const hooked = new HookPage(page, `${visitor.url}/react?assistant=${assistant}&transport=${transport}`)
  await hooked.open()
  const first = [asking(5), words(5)]
  await hooked.do('say', asking(5))
  await hooked.settles(first, 'an answer')

  await hooked.do('say', asking(120, 40))
  await until(async () => ((await hooked.said())[3] ?? '').length > 60, 'it is being said')
  await hooked.reload()
  const second = [...first, asking(120, 40), words(120)]
  await hooked.settles(second, 'after a reload in the middle: all of it, once')

  await hooked.do('edit', 2, asking(7))
  const edited = [...first, asking(7), words(7)]
  await hooked.settles(edited, 'another question in the place of the second')
  await hooked.reload()
  await hooked.settles(edited, 'the branch is still there after a reload')
  if (hook === 'classic') {
    await until(async () => (await hooked.branches())[2] === '2/2', 'two branches')
    await hooked.do('turnTo', 2, 0)
    await hooked.settles(second, 'the first branch')
    await hooked.do('turnTo', 2, 1)
    await hooked.settles(edited, 'the second one')
  }
  await hooked.do('again', 3)
  // The newest hook takes in what earlier branches said as long as the page is open, LangGraph's own server behind it or ours.
  const runs = `/api/threads/${await hooked.attribute('thread')}/runs`
  const ended = async () =>
    listIn((await person.get(runs)).body).filter((run) => at(run, 'status') === 'success').length
  await until(async () => (await ended()) === 4, 'the same question is answered anew')
  await hooked.reload()
  await hooked.settles(edited, 'which is what stands there')

  await hooked.do('say', QUESTION)
  await until(async () => ((await hooked.attribute('question')) ?? '').includes('Which colour?'), 'a question')
  await hooked.reload()
  await until(async () => ((await hooked.attribute('question')) ?? '').includes('Which colour?'), 'still a question')
  await hooked.do('answer', 'Green')
  // The question names Green too: only the server knows that the answer has arrived.
  await until(async () => (await ended()) === 5, 'the answer is taken')
  await until(async () => (await hooked.attribute('loading')) === 'false', 'the end')
  await hooked.reload()
  await until(async () => /Green/.test((await hooked.said()).at(-1) ?? ''), 'it stands at the end')
  t.equal(await hooked.attribute('question'), '')
  t.equal(await hooked.attribute('error'), '')
}

for (const [assistant, whose] of [
  ['agent', "a project of LangGraph's template"],
  ['lead_agent', 'the built-in agent']
] as const) {
  browserTest(`the SDK's own useStream and ${whose}: reload, edit, branches, a question`, (t) =>
    wholeJourney(t, 'classic', assistant)
  )
  for (const transport of ['sse', 'websocket'])
    browserTest(`the newest useStream over ${transport} and ${whose}: reload, edit, a question`, (t) =>
      wholeJourney(t, 'page', assistant, transport)
    )
}
