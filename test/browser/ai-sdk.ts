// The AI SDK's hook for React in Chromium, in both versions and by each transport, unmodified: a reload in mid-answer, a second tab, a stop
// after a resume, an answer asked anew, an approval. What the page shows is what the chat has, each part once. `npm run test:long`.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { browserTest, visit } from '../fixtures/browser.ts'
import { at, listIn, type Options, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { templateFolder } from '../fixtures/graphs.ts'
import { packagesOf } from '../fixtures/npm.ts'
import { bundle, servePage } from '../fixtures/react-page.ts'
import { IS_LONG } from '../fixtures/size.ts'

/** The sources lie beside the build this file was compiled into. */
const PAGE = fileURLToPath(new URL('../../../test/protocols/clients/use-chat.jsx', import.meta.url))
const VERSIONS = { 6: ['ai-6', 'ai-sdk-react-3'], 7: ['ai', '@ai-sdk/react'] } as const
type Version = keyof typeof VERSIONS
const WAYS: readonly (readonly [Version, string])[] = [
  [6, 'http'],
  [6, 'exact'],
  [7, 'http'],
  [7, 'exact'],
  [7, 'socket']
]
const OFF = { memory: { enabled: false }, title: { enabled: false } }
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'

const words = (deltas: number) => Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')} `).join('')

interface Part {
  readonly type: string
  readonly text?: string
  readonly state?: string
  readonly approval?: { readonly id: string }
  readonly [name: string]: unknown
}
interface Message {
  readonly id: string
  readonly role: string
  readonly parts: readonly Part[]
}
interface Seen {
  readonly status: string
  readonly error: string
  readonly messages: readonly Message[]
}

/** What two sides of a chat agree on: whether a text is still growing is the page's affair. */
function shown(messages: readonly Message[]): unknown[] {
  return messages.map(({ id, role, parts }) => ({
    id,
    role,
    parts: parts.map(({ type, text, toolName, toolCallId, input, output, state }) =>
      text === undefined
        ? { type, toolName, toolCallId, input, output, ...(toolName !== undefined && { state }) }
        : { type, text }
    )
  }))
}

/** A tab with the hook in it. */
class ChatPage {
  readonly #page: Page
  readonly #url: string

  constructor(page: Page, url: string) {
    this.#page = page
    this.#url = url
  }

  async open(): Promise<this> {
    await this.#page.goto(this.#url)
    await this.#page.locator('main').waitFor({ state: 'attached' })
    return this
  }

  do(action: string, ...given: unknown[]): Promise<unknown> {
    return this.#page.evaluate(`${action}(${given.map((one) => JSON.stringify(one)).join(', ')})`)
  }

  async see(): Promise<Seen> {
    return JSON.parse((await this.#page.locator('main').getAttribute('data-state')) ?? '') as Seen
  }

  async sees(isSo: (seen: Seen) => boolean, what: string): Promise<Seen> {
    let last: Seen | null = null
    await until(async () => {
      last = await this.see()
      return isSo(last)
    }, what).catch((error: unknown) => {
      throw new Error(`${what}: ${JSON.stringify(last)}`, { cause: error })
    })
    return last!
  }

  /** It is being said, that much of it. */
  speaks(length = 60): Promise<Seen> {
    return this.sees(
      ({ status, messages }) => status === 'streaming' && lastText(messages).length > length,
      'an answer grows'
    )
  }
}

const lastText = (messages: readonly Message[]) => {
  const last = messages.at(-1)
  return last?.role === 'assistant' ? (last.parts.findLast(({ type }) => type === 'text')?.text ?? '') : ''
}

interface Stage {
  readonly person: Person
  readonly chat: string
  /** A new tab with the chat. */
  tab(): Promise<ChatPage>
  /** It is ready, and shows what the chat has. */
  agrees(page: ChatPage, what: string): Promise<readonly Message[]>
}

async function stageOf(t: Test, version: Version, transport: string, config: Options = {}): Promise<Stage | null> {
  const packages = await packagesOf('protocols/clients')
  if ('reason' in packages) {
    t.comment(packages.reason)
    return null
  }
  const [ai, hooks] = VERSIONS[version]
  const places = { ai, '@ai-sdk/react': hooks, react: 'react', 'react-dom': 'react-dom' }
  const alias = Object.fromEntries(
    Object.entries(places).map(([name, folder]) => [name, join(packages.folder, 'node_modules', folder)])
  )
  const script = await bundle(PAGE, alias)
  const site = await openSite(t, { config: { ...OFF, ...config } })
  const person = await signIn(site)
  const visitor = await visit(t, site.url, { person })
  const chat = crypto.randomUUID()
  const url = `${site.url}/use-chat?chat=${chat}&transport=${transport}${config.agent ? '&assistant=agent' : ''}`
  return {
    person,
    chat,
    async tab() {
      const one = await visitor.tab()
      // A chat that is not there yet has no messages; the second answer to a question is refused.
      one.expect(/404/, /409/)
      const { page } = one
      await servePage(page, 'use-chat', script)
      return new ChatPage(page, url).open()
    },
    async agrees(page, what) {
      const { messages, error } = await page.sees(
        ({ status }) => status === 'ready' || status === 'error',
        `${what}: the end`
      )
      t.equal(error, '', what)
      const { body } = await person.get(`/api/ai/chat/${chat}`)
      // Written by the route that is tested.
      t.strictSame(shown(messages), shown(body as Message[]), what)
      return messages
    }
  }
}

const TALK = 'reasoning tool=current_time'
/** Long enough for a reload in the middle of it, on a machine that is busy with others. */
const SLOW = 480

async function journey(t: Test, version: Version, transport: string): Promise<void> {
  const stage = await stageOf(t, version, transport)
  if (!stage) return
  const { person, chat, tab, agrees } = stage
  const page = await tab()
  await page.do('say', `/demo deltas=20 rate=0 ${TALK}`)
  await page.sees(({ messages }) => lastText(messages) === words(20), 'an answer')
  await agrees(page, 'an answer')

  await page.do('say', `/demo deltas=${SLOW} rate=40 ${TALK}`)
  await page.speaks()
  await page.open()
  await page.speaks(1)
  const other = await tab()
  for (const [one, what] of [
    [page, 'after a reload in mid-answer'],
    [other, 'a second tab, opened in mid-answer']
  ] as const) {
    await one.sees(({ messages }) => lastText(messages) === words(SLOW), what)
    t.equal((await agrees(one, what)).length, 4)
  }

  const runs = `/api/threads/${chat}/runs?limit=1`
  const isStopped = async () => at(listIn((await person.get(runs)).body)[0], 'status') === 'interrupted'
  await page.do('say', `/demo deltas=5000 rate=40 ${TALK}`)
  await page.speaks()
  await page.open()
  await page.speaks()
  // Over a WebSocket the hook says so itself.
  if (transport === 'socket') await page.do('leave')
  else t.equal(await page.do('stopRun'), 204)
  await until(isStopped, 'the run is stopped')
  if (transport !== 'socket') await agrees(page, 'stopped after a resume')
  await page.open()
  t.equal((await agrees(page, 'stopped, and loaded again')).length, 6)

  const before = (await page.see()).messages
  await page.do('again')
  await page.speaks()
  await page.open()
  await page.speaks()
  t.equal(await page.do('stopRun'), 204)
  const after = await agrees(page, 'the last answer anew')
  t.equal(after.length, 6)
  t.strictSame(shown(after.slice(0, 5)), shown(before.slice(0, 5)))
  t.not(after[5]!.id, before[5]!.id)

  await page.do('again', after[1]!.id)
  await page.sees(({ messages, status }) => status === 'ready' && messages.length === 2, 'the first answer anew')
  t.equal(lastText(await agrees(page, 'the first answer anew')), words(20))
  await page.open()
  await agrees(page, 'and loaded again')
}

const approvalIn = ({ messages }: Seen) => messages.at(-1)?.parts.find(({ state }) => state === 'approval-requested')

/** The answer of a graph to what was decided. */
async function approving(t: Test, version: Version, transport: string): Promise<void> {
  const agent = { runtime: 'graphs', config: templateFolder(t) }
  const stage = await stageOf(t, version, transport, { agent })
  if (!stage) return
  const { person, chat, tab, agrees } = stage
  const page = await tab()
  await page.do('say', 'ask_user review')
  const asked = approvalIn(await page.sees((seen) => approvalIn(seen) !== undefined, 'an approval is asked for'))!
  await agrees(page, 'while it is asked for')
  await page.open()
  await page.sees((seen) => approvalIn(seen)?.approval?.id === asked.approval!.id, 'also after a reload')
  const other = await tab()
  await other.sees((seen) => approvalIn(seen) !== undefined, 'and in a second tab')
  await page.do('decide', asked.approval!.id, true)
  await page.sees(({ messages, status }) => status === 'ready' && /approve/.test(lastText(messages)), 'it goes on')
  await other.do('decide', asked.approval!.id, false)
  const late = await other.sees(({ error }) => error !== '', 'the other tab is told')
  t.match(late.error, /answer|given/i)
  for (const one of [page, other]) {
    await one.open()
    // Ready, it is not shown again: by now its page may be at the answer's beginning, to which it has come back.
    t.match(lastText(await agrees(one, 'loaded again')), /approve/)
  }
  const { body } = await person.get(`/api/threads/${chat}/state`)
  t.match(textIn(listIn(body, 'values', 'messages').at(-1), 'content'), /"approve"/)
}

for (const [version, transport] of WAYS) {
  const name = `useChat of AI SDK ${version} (${transport})`
  browserTest(
    `${name}: a turn, a reload, a second tab, a stop, asked anew`,
    (t) => journey(t, version, transport),
    skip
  )
  browserTest(`${name}: an approval, of which two tabs decide`, (t) => approving(t, version, transport), skip)
}
