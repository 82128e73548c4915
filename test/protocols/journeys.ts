// Clients of other protocols that show a conversation, unmodified: five turns with reasoning and tools, cut at random bytes, on another
// process, over a kill, and a day later. What each shows is the state, each part once. `npm run test:long`.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { startChild } from '../fixtures/child.ts'
import { at, listIn, type Person, until } from '../fixtures/gateway.ts'
import { nodeFor, packagesOf } from '../fixtures/npm.ts'
import { onOther, type Pair, startPair } from '../fixtures/pair.ts'
import { programOf } from '../fixtures/program.ts'
import { type CuttingProxy, openProxy } from '../fixtures/proxy.ts'
import { Random } from '../fixtures/random.ts'
import { IS_LONG, SEED } from '../fixtures/size.ts'
import type { Shown } from './clients/client.ts'
import type { Answered, Order } from './clients/program.ts'
import { pythonOfOpenai } from './clients/python.ts'

const PYTHON = 'openai in Python'
const NAMES = [
  'openai, responses',
  PYTHON,
  '@openai/agents',
  '@ai-sdk/open-responses',
  'AI SDK 6, over HTTP',
  'AI SDK 6, exact',
  'AI SDK 7, over HTTP',
  'AI SDK 7, exact',
  'AI SDK 7, over a WebSocket',
  'AG-UI, connecting',
  'AG-UI, exact',
  'CopilotKit',
  'TanStack AI',
  'MCP 2025-11-25',
  'MCP 2026-07-28',
  'MCP’s SDK 1.x',
  'MCP’s SDK 1.x, tasks',
  'A2A, JSON-RPC',
  'A2A, HTTP+JSON'
]
/** They send a conversation anew with each turn, words alone. */
const ONE_THREAD_A_TURN = ['@ai-sdk/open-responses']
const KILLED = 'over a kill'
const KILLED_TURN = 4
const DAY_MS = 86_400_000
const NODE = 22
/** In each of three turns. */
const CUTS = 34
const TALK = '/demo rate=120 deltas=360 reasoning tool=current_time'
/** Cut before it knows what it asked for, a client does not know what to come back to. */
const HEAD_BYTES = 6000
/** MCP's client forgets where it was when a stream is cut before its first id. */
const MCP_HEAD_BYTES = 900
const PROGRAM = fileURLToPath(new URL('./clients/program.js', import.meta.url))
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'

/** A client in its own process. */
class Driven {
  readonly #process: ReturnType<typeof fork>

  constructor(t: Test, execPath: string) {
    this.#process = fork(PROGRAM, { execPath, execArgv: [], env: { PATH: process.env.PATH } })
    t.teardown(() => this.#process.kill('SIGKILL'))
  }

  async ask(order: Order): Promise<Answered> {
    this.#process.send(order)
    const ended = once(this.#process, 'exit').then(() => {
      throw new Error('the client’s process has ended')
    })
    const [answered] = (await Promise.race([once(this.#process, 'message'), ended])) as [Answered]
    if (answered.error !== undefined) throw new Error(answered.error)
    return answered
  }
}

/** What the state of a thread has. */
async function stateOf(person: Person, thread: string): Promise<Shown> {
  const { body } = await person.get(`/api/threads/${thread}/state`)
  const all = listIn(body, 'values', 'messages')
  const textsOf = (type: string, ...path: string[]) =>
    all.flatMap((one) => {
      const text = at(one, 'type') === type ? at(one, ...path) : ''
      return typeof text === 'string' && text !== '' ? [text] : []
    })
  return {
    texts: textsOf('ai', 'content'),
    reasonings: textsOf('ai', 'additional_kwargs', 'reasoning_content'),
    results: textsOf('tool', 'content')
  }
}

const cutsOf = (random: Random, least: number): number[] => [
  random.between(HEAD_BYTES, 2 * HEAD_BYTES),
  ...Array.from({ length: CUTS - 1 }, () => random.between(least, least + 2500))
]

/** The thread of a client, by its id or by its name. */
async function threadOf(person: Person, named: string): Promise<string> {
  const { status } = await person.get(`/api/threads/${named}`)
  if (status === 200) return named
  const [newest] = listIn((await person.post('/api/threads/search', { limit: 1 })).body)
  return String(at(newest, 'thread_id'))
}

/** A turn in which something befalls the gateway when its answer has begun. */
async function troubled(client: Driven, { onA }: Pair, trouble: () => Promise<unknown>): Promise<Answered> {
  const ended = client.ask({ turn: TALK })
  await until(async () => {
    const { body } = await onA.post('/api/threads/search', { status: 'busy', limit: 1 })
    return listIn(body).length === 1
  }, 'it is at work')
  await new Promise((resolve) => setTimeout(resolve, 1000))
  await trouble()
  return ended
}

for (const name of NAMES)
  t.test(`${name}: five turns are the state, whatever breaks`, { skip }, async (t) => {
    const packages = await packagesOf('protocols/clients')
    if ('reason' in packages) return t.comment(packages.reason)
    const node = nodeFor(packages)
    if (node === process.execPath && Number(process.versions.node.split('.')[0]) < NODE)
      return t.comment(`the libraries want Node ${NODE}`)
    const python = name === PYTHON ? await pythonOfOpenai() : null
    if (python && 'reason' in python) return t.comment(python.reason)
    const random = new Random(SEED)
    t.comment(`seed ${SEED}`)
    const pair = await startPair(t, { config: { models: [] } })
    const { a, b, home, config, onA, onB } = pair
    const proxy: CuttingProxy = await openProxy(t, a.url)
    const { token } = await programOf(onA, ...PERMISSIONS)
    const client = new Driven(t, node)
    await client.ask({ open: name, folder: packages.folder, url: proxy.url, token })
    let turns = 0
    const same = async (t: Test, person: Person, { thread = '', shown }: Answered, what: string) => {
      const id = await threadOf(person, thread)
      const state = await stateOf(person, id)
      turns++
      // Each turn has all three; the one that was killed may have come to none.
      for (const kind of ['texts', 'reasonings', 'results'] as const) {
        const lost = what === KILLED ? 1 : 0
        const whole = turns < KILLED_TURN ? turns : turns - 1
        const wanted = ONE_THREAD_A_TURN.includes(name) && kind !== 'texts' ? 1 - lost : whole
        t.ok(state[kind].length >= wanted, `${state[kind].length} ${kind} of ${turns} turns`)
      }
      t.strictSame(shown, state, what)
      return id
    }

    const cut = async (person: Person, what: string) => {
      // A connection that is used again has sent its first bytes already; a client learns of its end a little later.
      proxy.reset()
      await new Promise((resolve) => setTimeout(resolve, 100))
      proxy.cutAfter(...cutsOf(random, name.startsWith('MCP') ? MCP_HEAD_BYTES : 1))
      return same(t, person, await client.ask({ turn: TALK }), what)
    }
    await cut(onA, 'cut at random bytes')
    const moved = await troubled(client, pair, async () => proxy.turnTo(b.url))
    await same(t, onB, moved, 'on the other process in the middle')
    await cut(onB, 'cut there')
    const killed = await troubled(client, pair, async () => {
      await b.kill()
      proxy.turnTo(a.url)
    })
    await same(t, onA, killed, KILLED)
    const thread = await cut(onA, 'cut after the kill')
    const cuts = 3 * CUTS - proxy.cutsLeft
    t.ok(cuts >= 100, `${cuts} cuts, ${proxy.connections} connections`)

    await a.stop()
    const next = await startChild(t, { home, config, aheadMs: DAY_MS })
    proxy.turnTo(next.url)
    const late = await client.ask({ later: true })
    t.strictSame(late.shown, await stateOf(onOther(onA, next), thread), 'a day later')
  })
