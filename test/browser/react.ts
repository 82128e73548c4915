// LangGraph's newest hook for React, in Chromium, against the built-in agent: a turn, a reload in the middle, a second tab, a stop.
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { browserTest, visit, type Visitor } from '../fixtures/browser.ts'
import { openSite, signIn, until } from '../fixtures/gateway.ts'

/** The sources lie beside the build this file was compiled into. */
const PAGE = fileURLToPath(new URL('../../../test/fixtures/react/page.jsx', import.meta.url))
const HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/react.js"></script>'

let bundled: Promise<string> | null = null

function bundle(): Promise<string> {
  bundled ??= build({
    entryPoints: [PAGE],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"', 'process.env': '{}' },
    logLevel: 'silent'
  }).then(({ outputFiles }) => outputFiles[0]!.text)
  return bundled
}

/** Serves the page from the site's own address, as a proxy in front of both would. */
async function serve(page: Page): Promise<void> {
  const script = await bundle()
  await page.route('**/react', (route) => route.fulfill({ contentType: 'text/html', body: HTML }))
  await page.route('**/react?*', (route) => route.fulfill({ contentType: 'text/html', body: HTML }))
  await page.route('**/react.js', (route) => route.fulfill({ contentType: 'text/javascript', body: script }))
}

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
