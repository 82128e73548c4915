// Runs on a LangGraph server whose gateway is killed or stopped in the middle: they go on there, and the next gateway follows them from
// where the last one was. Against the real server.
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, listIn, type Options, Person, textIn, until } from '../fixtures/gateway.ts'
import { READERS } from '../fixtures/crossing.ts'
import { dataOf, Talk, textsIn } from '../fixtures/graph-journey.ts'
import { type GraphServer, graphFolder, planned, startGraphServer } from '../fixtures/langgraph.ts'
import { startPair } from '../fixtures/pair.ts'
import type { Frame, Stream } from '../fixtures/stream.ts'

// Most of it is waiting for words.
t.jobs = 3

const folder = await graphFolder(t)
const skip = folder === null && 'LangGraph cannot be installed here'
const shared = folder === null ? null : await startGraphServer(t, folder)

const MODES = ['messages-tuple', 'values', 'updates', 'custom']
const WORDS = Array.from({ length: 60 }, (_, n) => `w${n}`)
const WHOLE = `${WORDS.join(' ')} `

interface Cut {
  readonly child: Child
  /** Our person, at any process. */
  readonly at: (child: Child) => Talk
  readonly stream: Stream
  /** What its reader had when it was cut. */
  readonly had: readonly Frame[]
  readonly next: () => Promise<Child>
}

/** A run of sixty words in two seconds, whose gateway is cut behind the tenth. */
async function cut(t: Test, server: GraphServer, more: Cuts = {}): Promise<Cut> {
  const {
    agent: own = {},
    plan = { text: WORDS.join(' '), rate: 30 },
    seen = '"w10 "',
    durability = 'sync',
    end = 'kill'
  } = more
  const agent = { runtime: 'langgraph', url: server.url, assistant_id: 'agent', reconnect_ms: 3000, ...own }
  const config = { agent, title: { enabled: false }, server: { shutdown_grace_ms: 5000 } }
  const child = await startChild(t, { config })
  const talk = await Talk.begin(child)
  const stream = await talk.person.stream(talk.thread, planned(plan), { stream_mode: MODES, durability })
  await stream.until(({ frames }) => frames.some(({ data }) => data.includes(seen)))
  await child[end]()
  await stream.ended
  return {
    child,
    at: ({ url }) => new Talk(new Person(url, talk.person.cookies), talk.thread),
    stream,
    had: [...stream.frames],
    next: () => startChild(t, { config, home: child.home })
  }
}

interface Cuts {
  readonly agent?: Options
  readonly plan?: object
  readonly seen?: string
  readonly durability?: 'sync' | 'async'
  readonly end?: 'kill' | 'stop'
}

const textOf = (frames: readonly Frame[]) => [...textsIn(frames).values()].join('')
const attemptsIn = (frames: readonly Frame[]) => dataOf(frames, 'metadata').map((one) => at(one, 'attempt'))
const typesOf = (events: readonly unknown[], wanted: RegExp) =>
  events.map((one) => String(at(one, 'event_type'))).filter((type) => wanted.test(type))

for (const end of ['kill', 'stop'] as const)
  t.test(
    `${end === 'kill' ? 'kill -9' : 'a stop'} of the gateway: the run goes on at its server, and is followed to its end`,
    { skip },
    async (t) => {
      const { at: talkAt, stream, had, next } = await cut(t, shared!, { end })
      const child = await next()
      const talk = talkAt(child)
      const rest = await (await talk.person.join(stream.runPath, had.at(-1)!.id, MODES)).whole()
      t.equal(textOf([...had, ...rest]), WHOLE, 'a reader that comes back has every word once')
      const all = await (await talk.person.join(stream.runPath, null, MODES)).whole()
      t.equal(textOf(all), WHOLE, 'and so has whoever reads it all')
      t.equal(textsIn(all).size, 1, 'as one message')
      t.strictSame(attemptsIn(all), [1, 2])
      const [, thread = '', run = ''] = /threads\/([^/]+)\/runs\/([^/]+)/.exec(stream.runPath) ?? []
      for (const [name, read] of Object.entries(READERS)) {
        const { text, status } = await (await read(talk.person, { thread, run }))()
        t.strictSame([text, status], [WHOLE, 'completed'], name)
      }
      const chat = (await talk.person.get(`/api/ai/chat/${thread}/stream`)).text
      t.equal(chat.split('"text-start"').length, 2, 'one text')
      t.match((await talk.runs())[0], { status: 'success', error: null })
      t.equal((await talk.runs()).length, 1)
      t.match(await talk.said(), [
        ['human', String],
        ['ai', WHOLE]
      ])
      t.strictSame(at(await talk.state(), 'values', 'notes'), ['after 1'], 'the graph has worked once')
      const there = listIn(await shared!.ask(`/threads/${talk.thread}/runs`))
      t.match(there, [{ status: 'success' }])
      t.equal(there.length, 1, 'in one run there')
      const events = await talk.events(stream.runPath)
      t.strictSame(typesOf(events, /^(human_message|run_|ai_message|llm_)/), [
        'human_message',
        'run_start',
        'llm_request',
        'run_restart',
        'llm_response',
        'ai_message',
        'run_end'
      ])
      t.strictSame(
        dataOf(all, 'updates').flatMap((one) => Object.keys(one as object)),
        ['agent'],
        'no step twice'
      )
      const uncut = await Talk.begin(child)
      await uncut.wait({ text: 'short' })
      t.equal((await talk.history()).length, (await uncut.history()).length, 'nor a checkpoint')
      await talk.wait({ text: 'next' })
      t.match((await talk.said()).at(-1), ['ai', 'next '], 'and the thread goes on')
    }
  )

t.test('a run that ends while no gateway is there is found whole', { skip }, async (t) => {
  const { at: talkAt, stream, next } = await cut(t, shared!, { durability: 'async' })
  const thread = talkAt({ url: '' } as Child).thread
  const statusThere = async () => at(listIn(await shared!.ask(`/threads/${thread}/runs`))[0], 'status')
  await until(async () => (await statusThere()) === 'success', 'it ends there')
  const talk = talkAt(await next())
  const all = await (await talk.person.join(stream.runPath, null, MODES)).whole()
  t.equal(textOf(all), WHOLE)
  t.match((await talk.runs())[0], { status: 'success' })
})

t.test('a run is followed over two kills, with its tools, and its question is asked once', { skip }, async (t) => {
  const plan = { call: ['ask', { question: 'w10 ?' }], rate: 4 }
  const { at: talkAt, stream, next } = await cut(t, shared!, { plan, seen: '"args":"{' })
  const second = await next()
  await second.kill()
  const talk = talkAt(await next())
  await (await talk.person.join(stream.runPath, null, MODES)).whole()
  const state = await talk.state()
  t.match(at(state, 'tasks', 0, 'interrupts'), [{ value: { question: 'w10 ?' } }])
  t.equal(listIn(state, 'tasks', 0, 'interrupts').length, 1)
  t.match((await talk.runs())[0], { status: 'interrupted', stop_reason: 'asked_user' })
  await talk.answer('blue')
  t.match((await talk.said()).slice(-2), [
    ['tool', 'blue'],
    ['ai', 'the tool said blue ']
  ])
})

t.test('a run that a user cancels after the restart is cancelled there too', { skip }, async (t) => {
  const { at: talkAt, stream, next } = await cut(t, shared!, { plan: { text: 'one two', hang: 1 }, seen: '"one "' })
  const talk = talkAt(await next())
  await until(
    async () => (await talk.events(stream.runPath)).some((one) => at(one, 'event_type') === 'run_restart'),
    'it goes on'
  )
  await talk.person.post(`${stream.runPath}/cancel?wait=true`)
  t.match((await talk.runs())[0], { status: 'interrupted' })
  t.match((await talk.said()).at(-1), ['ai', 'one '])
  const statusThere = async () => at(listIn(await shared!.ask(`/threads/${talk.thread}/runs`))[0], 'status')
  await until(async () => (await statusThere()) === 'interrupted', 'the run there ends')
})

t.test('another process follows the run of one that has died, when it takes it over', { skip }, async (t) => {
  const agent = { runtime: 'langgraph', url: shared!.url, assistant_id: 'agent' }
  const { a, onA, onB } = await startPair(t, { config: { agent } })
  const thread = await onA.thread()
  const plan = planned({ text: WORDS.join(' '), rate: 10 })
  const stream = await onA.stream(thread, plan, { stream_mode: MODES, durability: 'sync' })
  await stream.until(({ frames }) => frames.some(({ data }) => data.includes('"w10 "')))
  await a.kill()
  await stream.ended
  // Whoever reads it at the other process meanwhile is reset when that takes it over.
  const status = async () => at((await onB.get(stream.runPath)).body, 'status')
  await until(async () => (await status()) !== 'running', 'its end', 30_000)
  const rest = await (await onB.join(stream.runPath, stream.frames.at(-1)!.id, MODES)).whole()
  t.equal(textOf([...stream.frames, ...rest]), WHOLE)
  t.match((await onB.get(stream.runPath)).body, { status: 'success' })
  t.match(await shared!.ask(`/threads/${thread}/runs`), [{ status: 'success' }])
})

t.test('a server that has forgotten the run: it ends as cut, with what was said', { skip }, async (t) => {
  const own = await startGraphServer(t, folder!)
  const { at: talkAt, stream, next } = await cut(t, own)
  await own.kill()
  await own.again()
  const talk = talkAt(await next())
  const frames = await (await talk.person.join(stream.runPath, null, MODES)).whole()
  t.match(dataOf(frames, 'error'), [{ error: 'ServerRestart' }])
  t.equal(frames.at(-1)?.event, 'end')
  t.match((await talk.runs())[0], { status: 'error', stop_reason: 'server_restart' })
  t.match(textIn((await talk.said()).at(-1), 1), /^w0 w1 /)
  t.match(WHOLE, textIn((await talk.said()).at(-1), 1))
})

t.test('rejoin false: the run is cancelled there, and ends here', { skip }, async (t) => {
  const { at: talkAt, next } = await cut(t, shared!, { agent: { rejoin: false } })
  const talk = talkAt(await next())
  t.match((await talk.runs())[0], { status: 'error', stop_reason: 'server_restart' })
  const statusThere = async () => at(listIn(await shared!.ask(`/threads/${talk.thread}/runs`))[0], 'status')
  await until(async () => (await statusThere()) !== 'running', 'the run there ends')
})
