// LangGraph's newest hooks for React in Chromium, by either transport: all that they show of a thread, graph by graph. Against another
// server that serves graphs/hooks.mjs: `HOOKS_URL=http://127.0.0.1:2024 node dist/test/browser/hooks.js`.
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { browserTest, visit } from '../fixtures/browser.ts'
import { openSite, signIn, until } from '../fixtures/gateway.ts'
import { graphsFolder, HOOKED } from '../fixtures/graphs.ts'
import { serve } from '../fixtures/react-page.ts'

const OTHER = process.env.HOOKS_URL
const WORKERS = 5

interface Card {
  readonly namespace: readonly string[]
  readonly texts: readonly string[]
  readonly calls: readonly string[]
}

/** What the page shows. */
interface Seen {
  /** How often the hook was made anew. */
  readonly times: number
  readonly isLoading: boolean
  readonly isThreadLoading: boolean
  readonly error: string
  readonly threadId: string | null
  readonly interrupts: readonly { readonly id: string; readonly value: Readonly<Record<string, unknown>> }[]
  readonly asked: readonly { readonly interruptId: string; readonly namespace: readonly string[] }[]
  readonly subagents: readonly {
    readonly name: string
    readonly status: string
    readonly namespace: readonly string[]
  }[]
  readonly subgraphs: readonly string[]
  readonly calls: readonly string[]
  readonly told: number
  readonly status?: unknown
  readonly values: Readonly<Record<string, unknown>>
  readonly queue: readonly string[]
  readonly subscriptions: number
  readonly messages: readonly {
    readonly type: string
    readonly text: string
    readonly parent: string
    readonly status: string
  }[]
  readonly cards: readonly Card[]
}

class Hooks {
  readonly #page: Page
  /** Requests so far, by the last part of their path. */
  readonly asked: string[] = []

  constructor(page: Page) {
    this.#page = page
    page.on('request', (request) => this.asked.push(new URL(request.url()).pathname))
    page.on('websocket', (socket) => this.asked.push(new URL(socket.url()).pathname))
  }

  do(action: string, ...given: unknown[]): Promise<unknown> {
    return this.#page.evaluate(`${action}(${given.map((one) => JSON.stringify(one)).join(', ')})`)
  }

  say(text: string, more: object = {}): Promise<unknown> {
    return this.do('submit', { messages: [{ type: 'human', content: text }] }, more)
  }

  /** At one moment. */
  see(): Promise<Seen> {
    return this.#page.evaluate(`(() => {
      const all = (tag) => [...document.querySelectorAll(tag)].map((one) => JSON.parse(one.dataset.state))
      return { ...all('main')[0], messages: all('p'), cards: all('section') }
    })()`)
  }

  async sees(isSo: (seen: Seen) => boolean, what: string): Promise<Seen> {
    let last: Seen | null = null
    await until(async () => {
      last = await this.see()
      return isSo(last)
    }, what).catch((cause: unknown) => {
      throw new Error(`${what}: ${JSON.stringify(last)}`, { cause })
    })
    return last!
  }

  /** Until nothing is at work, and it is so. */
  settles(isSo: (seen: Seen) => boolean, what: string): Promise<Seen> {
    return this.sees((seen) => !seen.isLoading && !seen.isThreadLoading && isSo(seen), what)
  }

  /** The hook is made anew, with the thread that it had. */
  async remount(): Promise<void> {
    const { times } = await this.see()
    await this.do('remount')
    await this.sees((seen) => seen.times > times, 'the hook anew')
  }

  count(part: string): number {
    return this.asked.filter((path) => path.endsWith(part)).length
  }
}

const texts = ({ messages }: Seen) => messages.map(({ text }) => text)
const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)
const saysAll = (words: readonly string[]) => (seen: Seen) => isSame(texts(seen), words)

/** By the name of their graph. */
const CASES: Readonly<Record<string, readonly [rule: string, test: (t: Test, hooks: Hooks) => Promise<void>]>> = {
  telling: [
    'what a writer says is told with its name and without, in every run; messages know the checkpoint before them',
    async (t, hooks) => {
      await hooks.say('go')
      // It comes on lines of its own, which may be behind that of the messages.
      const isTold = (seen: Seen, count: number) => seen.told >= count && seen.status !== undefined
      const first = await hooks.settles((seen) => saysAll(['go', 'told'])(seen) && isTold(seen, 3), 'an answer')
      t.match(first, { told: 3, status: { label: 'answering' } })
      t.ok(first.threadId)
      await hooks.settles(({ messages }) => messages[0]?.parent !== '', 'the checkpoint before it')
      await hooks.say('again')
      const all = ['go', 'told', 'again', 'told']
      const second = await hooks.settles((seen) => saysAll(all)(seen) && isTold(seen, 6), 'the next one')
      t.equal(second.told, 6)
      t.equal((second.values.messages as unknown[]).length, 4)
    }
  ],
  removing: [
    'a message that was taken back is shown no more',
    async (_, hooks) => {
      await hooks.say('go')
      await hooks.settles(saysAll(['go', 'stays', 'stays too']), 'what stays')
      await hooks.remount()
      await hooks.settles(saysAll(['go', 'stays', 'stays too']), 'the same anew')
    }
  ],
  reviewing: [
    'questions of one moment are answered together, or one after the other: none is forgotten',
    async (t, hooks) => {
      await hooks.do('submit', { prompts: ['A', 'B'] })
      const { interrupts } = await hooks.settles((seen) => seen.interrupts.length === 2, 'two questions')
      const answers = interrupts.map(({ id, value }) => [id, `${String(value.action)} it is`])
      await hooks.do('respondAll', Object.fromEntries(answers))
      const { values } = await hooks.settles((seen) => seen.values.completed === true, 'both are answered')
      t.match(values, { decisions: { A: 'A it is', B: 'B it is' } })
      await hooks.do('submit', { prompts: ['C', 'D'] })
      const asked = await hooks.settles((seen) => seen.interrupts.length === 2, 'two more')
      await hooks.do('respond', 'first', { interruptId: asked.interrupts[0]!.id })
      const rest = await hooks.settles((seen) => seen.interrupts.length === 1, 'one waits')
      await hooks.do('respond', 'second', { interruptId: rest.interrupts[0]!.id })
      const done = await hooks.settles((seen) => seen.interrupts.length === 0 && seen.values.completed === true, 'all')
      t.match(done.values, { decisions: { C: 'first', D: 'second' } })
    }
  ],
  below: [
    'graphs inside of the graph are found, as a node or called by one; nodes are none',
    async (t, hooks) => {
      await hooks.say('go')
      await hooks.settles((seen) => seen.messages.length === 4, 'all has been said')
      const { subgraphs } = await hooks.settles((seen) => seen.subgraphs.length === 2, 'two graphs')
      t.strictSame([...subgraphs].sort(), ['child:1', 'research:1'])
      await hooks.do('openCards')
      await hooks.sees(
        ({ cards }) => cards.length === 2 && cards.every((card) => card.texts.includes('said below')),
        'cards'
      )
    }
  ],
  spreading: [
    'many graphs at once are each shown, also by a hook that comes later, which asks for the history once',
    async (t, hooks) => {
      await hooks.say('go')
      await hooks.settles((seen) => isSame(seen.subgraphs, [`worker:${WORKERS}`]), 'all workers')
      const before = hooks.count('/history')
      await hooks.remount()
      await hooks.settles((seen) => isSame(seen.subgraphs, [`worker:${WORKERS}`]), 'all workers again')
      t.ok(hooks.count('/history') - before <= 3, 'not once a worker')
      await hooks.do('openCards')
      await hooks.sees(
        ({ cards }) => cards.length === WORKERS && cards.every((card) => card.texts.includes('said below')),
        'what each has said'
      )
    }
  ],
  delegating: [
    'helpers are found by their calls, with what each says and how it ends; a thread that is over is not listened to',
    async (t, hooks) => {
      await hooks.say('go')
      const areDone = ({ subagents }: Seen) =>
        subagents.length === WORKERS && subagents.every(({ status }) => status === 'complete')
      const seen = await hooks.settles(
        (seen) => areDone(seen) && texts(seen).at(-1) === 'all have worked',
        'all helpers'
      )
      t.equal(new Set(seen.subagents.map(({ namespace }) => namespace.join())).size, WORKERS)
      t.ok(seen.calls.length === WORKERS && seen.calls.every((name) => name === 'task'))
      t.equal(seen.subscriptions, 2, 'what the page itself asks for')
      await hooks.remount()
      const listening = hooks.count('/stream/events')
      await hooks.settles(areDone, 'all helpers anew')
      await hooks.do('openCards')
      await hooks.sees(
        ({ cards }) => cards.length === WORKERS && cards.every((card) => card.texts.at(-1)?.startsWith('done: topic')),
        'what each has said'
      )
      t.comment(`opened for cards: ${hooks.count('/stream/events') - listening}`)
    }
  ],
  askingBelow: [
    'a question below is told where it stands, is there for a hook that comes later, and stays answered',
    async (t, hooks) => {
      await hooks.say('go')
      const { asked } = await hooks.settles((seen) => seen.interrupts.length === 1, 'a question')
      t.ok((asked[0]?.namespace.length ?? 0) > 0, 'of the graph below')
      await hooks.remount()
      await hooks.settles((seen) => seen.interrupts.length === 1 && seen.asked.length === 1, 'the question anew')
      await hooks.do('respond', 'yes')
      const isAnswered = saysAll(['go', 'it was "yes"'])
      await hooks.settles((seen) => seen.interrupts.length === 0 && isAnswered(seen), 'it goes on')
      await hooks.remount()
      await hooks.settles((seen) => seen.interrupts.length === 0 && isAnswered(seen), 'nothing is asked any more')
      await hooks.say('once more')
      const second = await hooks.settles((seen) => seen.interrupts.length > 0, 'the next question')
      t.equal(second.interrupts.length, 1, 'and not the one before')
      t.not(second.interrupts[0]?.id, asked[0]?.interruptId)
    }
  ],
  slow: [
    'what is submitted meanwhile waits in a queue, is taken back or done in its order',
    async (t, hooks) => {
      const config = { configurable: { delay: 300 } }
      // Until the others wait, and one of them does no more.
      await hooks.say('one', { config: { configurable: { delay: 3000 } } })
      await hooks.sees((seen) => seen.isLoading && seen.messages[0]?.status === 'pending', 'it is shown at once')
      for (const text of ['two', 'three', 'four']) await hooks.say(text, { multitaskStrategy: 'enqueue', config })
      await hooks.sees((seen) => isSame(seen.queue, ['two', 'three', 'four']), 'three wait')
      await hooks.do('cancelFirst')
      await hooks.sees((seen) => isSame(seen.queue, ['three', 'four']), 'two wait')
      const all = await hooks.settles(saysAll(['one', 'done', 'three', 'done', 'four', 'done']), 'in their order')
      t.strictSame([all.queue, all.messages[0]?.status], [[], 'sent'])
      await hooks.say('stopped', { config: { configurable: { delay: 60_000 } } })
      // Who stops before its run has a name stops nothing.
      await hooks.sees((seen) => seen.isLoading && seen.messages[6]?.status === 'sent', 'another')
      await hooks.do('stop')
      await hooks.settles(() => true, 'it is stopped')
    }
  ],
  showing: [
    'an answer puts a message into the state besides: it is there once',
    async (t, hooks) => {
      await hooks.say('go')
      await hooks.settles((seen) => seen.interrupts[0]?.value.card === 'delete?', 'a card')
      const update = { messages: [{ type: 'ai', id: 'card', content: 'the card' }] }
      await hooks.do('respond', true, { update })
      // The hook may show the answer a render before the question is gone.
      const isDone = (seen: Seen) => texts(seen).includes('executed') && seen.interrupts.length === 0
      const seen = await hooks.settles(isDone, 'it is done')
      t.strictSame([...texts(seen)].sort(), ['executed', 'go', 'the card'])
    }
  ],
  failing: [
    'a graph that fails is an error, and what was said to it stays',
    async (t, hooks) => {
      await hooks.say('go')
      const seen = await hooks.settles((seen) => seen.error !== '', 'an error')
      t.match(seen.error, /on purpose/)
      t.match(seen.messages, [{ text: 'go' }])
    }
  ]
}

async function place(t: Test): Promise<Parameters<typeof visit>> {
  if (OTHER) return [t, OTHER]
  const folder = graphsFolder(t, 'newest', HOOKED)
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  return [t, site.url, { person: await signIn(site) }]
}

for (const transport of ['sse', 'websocket'])
  browserTest(`over ${transport}`, async (t) => {
    const visitor = await visit(...(await place(t)))
    visitor.expect(/404/)
    for (const [assistant, [rule, test]] of Object.entries(CASES))
      await t.test(rule, async (t) => {
        const page = await visitor.context.newPage()
        await serve(page, 'hooks')
        const api = OTHER ? `&api=${encodeURIComponent(OTHER)}` : ''
        await page.goto(`${visitor.url}/react?assistant=${assistant}&transport=${transport}${api}`)
        await page.locator('main').waitFor({ state: 'attached' })
        await test(t, new Hooks(page))
        await page.close()
      })
  })
