// `npm run bench -- page --beside FOLDER`: the page in Chromium, and that of another checkout, which is built, in the same minutes: what it
// weighs, when it is there, how it draws an answer of 10,000 tokens, and when a conversation of 500 turns is open.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { optionalPeer } from '../lib/base/optional-peer.ts'
import type { Options } from './options.ts'
import { median, type Row, report, short } from './report.ts'
import { Server, VISITOR } from './rig.ts'

const PROGRAM = process.env.CHROMIUM ?? '/usr/bin/chromium'
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking']
const WAIT_MS = 120_000
/** A picture's largest part is known when nothing larger has come for so long, in ms. */
const PAINTED_MS = 500
/** Tokens a second: more than models tell, less than the demo can. */
const RATE = 500

/** Notes when the composer is there: what comes later was not waited for. */
const KEYS = `new MutationObserver(() => {
  if (document.getElementById('composer')) globalThis.keysFrom ??= performance.now()
}).observe(document, { childList: true, subtree: true })`

interface Sample {
  readonly weight: number
  readonly warm: number
  readonly frames: number
  readonly longest: number
  readonly opened: number
}

const FIGURES: Readonly<Record<keyof Sample, string>> = {
  weight: 'compressed, until the composer takes keys, KB',
  warm: 'largest contentful paint of a second visit, ms',
  frames: 'frames a second while 10,000 tokens come',
  longest: 'longest task meanwhile, ms',
  opened: '500 turns opened, ms'
}

/** A gateway with its page, and the conversation that is opened. */
interface Site {
  readonly name: string
  readonly server: Server
  readonly thread: string
  readonly samples: Sample[]
}

export async function page({ quick, repeats, beside }: Options): Promise<void> {
  const { chromium } = await optionalPeer(() => import('playwright-core'), 'this bench', 'playwright-core@1')
  const [tokens, turns] = quick ? [500, 50] : [10_000, 500]
  const browser = await chromium.launch({ executablePath: PROGRAM, args: ARGS })
  const sites: Site[] = []
  try {
    if (beside) sites.push(await openSite('beside', turns, beside))
    sites.push(await openSite('ours', turns))
    // In turn: a slow minute of the machine is then everybody's.
    for (let i = 0; i < repeats; i++)
      for (const site of sites) site.samples.push(await sampleOf(browser, site, turns, tokens))
  } finally {
    await browser.close()
    for (const { server } of sites) await server.stop()
  }
  const rows = Object.entries(FIGURES).map(([figure, text]): Row => {
    const of = sites.map(({ name, samples }) => [name, samples.map((one) => one[figure as keyof Sample])] as const)
    const [before, ours] = of.map(([, values]) => median(values).mid)
    const ratio = before && ours !== undefined ? short(ours / before) : ''
    return { figure: text, ...Object.fromEntries(of.map(([name, values]) => [name, median(values).text])), ratio }
  })
  report('How light and how quick is the page?', { repeats, tokens, turns, beside }, rows)
}

async function openSite(name: string, turns: number, folder?: string): Promise<Site> {
  const server = await Server.gateway({}, true, folder)
  const thread = await server.thread()
  const messages = Array.from({ length: 2 * turns }, (_, n) => ({
    type: n % 2 ? 'ai' : 'human',
    id: `m${n}`,
    content: n % 2 ? `Answer **${n}**\n\n- one\n- two\n\n\`\`\`js\nlet n = ${n}\n\`\`\`` : `Question ${n}`
  }))
  const answer = await server.post(`/api/threads/${thread}/state`, { values: { messages } })
  if (!answer.ok) throw new Error(`no conversation: ${answer.status} ${await answer.text()}`)
  return { name, server, thread, samples: [] }
}

async function sampleOf(browser: Browser, site: Site, turns: number, tokens: number): Promise<Sample> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  context.setDefaultTimeout(WAIT_MS)
  try {
    await signIn(context, site.server)
    const page = await context.newPage()
    await page.addInitScript(KEYS)
    await page.goto(site.server.url)
    await page.locator('#composer').fill('keys')
    const weight = await weightOf(page, site.server)
    const warm = await warmPaint(page, site.server)
    const opened = await opening(page, site, turns)
    return { weight, warm, opened, ...(await drawing(page, site.server, tokens)) }
  } finally {
    await context.close()
  }
}

async function signIn(context: BrowserContext, { url }: Server): Promise<void> {
  const form = { username: VISITOR.email, password: VISITOR.password }
  const answer = await context.request.post(`${url}/api/v1/auth/login/local`, { form })
  if (!answer.ok()) throw new Error(`not signed in: ${answer.status()}`)
}

async function weightOf(page: Page, { url }: Server): Promise<number> {
  const worker = await fetch(`${url}/sw.js`, { headers: { 'accept-encoding': 'br' } })
  const bytes = Number(
    await page.evaluate(`performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))
      .filter(({ name, startTime }) => !name.includes('/api/') && startTime < globalThis.keysFrom).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`)
  )
  // Older ones have none.
  return (bytes + (worker.ok ? Number(worker.headers.get('content-length')) : 0)) / 1024
}

async function warmPaint(page: Page, { url }: Server): Promise<number> {
  // The worker, where there is one, has everything by then.
  await sleep(PAINTED_MS)
  await page.goto('about:blank')
  await page.goto(url)
  await page.locator('#composer').waitFor()
  await sleep(PAINTED_MS)
  return Number(
    await page.evaluate(`new Promise((resolve) => new PerformanceObserver((list) =>
      resolve(list.getEntries().at(-1).startTime)).observe({ type: 'largest-contentful-paint', buffered: true }))`)
  )
}

async function opening(page: Page, { server, thread }: Site, turns: number): Promise<number> {
  await page.goto('about:blank')
  await page.goto(`${server.url}/#/t/${thread}`, { waitUntil: 'commit' })
  // Strict rules of the page let nobody wait by a text of script, so that it asks itself, frame by frame.
  return Number(
    await page.evaluate(`new Promise((resolve) => {
      const look = () => [...document.querySelectorAll('.message')].some(
        ({ innerText }) => innerText.includes('Answer ${2 * turns - 1}'))
        ? resolve(performance.now()) : requestAnimationFrame(look)
      look()
    })`)
  )
}

async function drawing(page: Page, { url }: Server, tokens: number): Promise<Pick<Sample, 'frames' | 'longest'>> {
  await page.goto('about:blank')
  await page.goto(url)
  await page.fill('#composer', `/demo deltas=${tokens} rate=${RATE}`)
  await page.evaluate(`{
    const seen = (globalThis.seen = { frames: 0, longest: 0, begun: performance.now() })
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) seen.longest = Math.max(seen.longest, duration)
    }).observe({ type: 'longtask' })
    const step = () => {
      seen.frames++
      requestAnimationFrame(step)
    }
    requestAnimationFrame(step)
  }`)
  await page.locator('#composer').press('Enter')
  await page.locator('[aria-label=Stop]').waitFor()
  await page.locator('[aria-label=Send]').waitFor()
  // Of our own page.
  const [frames, longest] = (await page.evaluate(
    '[1000 * seen.frames / (performance.now() - seen.begun), seen.longest]'
  )) as [number, number]
  return { frames, longest }
}
