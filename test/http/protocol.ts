// Protocol v2: commands, and a thread's events over a WebSocket and as an event stream.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { Budget } from '../../lib/base/budget.ts'
import type { Agent } from '../../lib/agent/runtime.ts'
import type { TextSocket } from '../../lib/http/web-socket.ts'
import { ProtocolSocket, type SocketParts } from '../../lib/langgraph/protocol/socket.ts'
import type { ThreadJoiner } from '../../lib/run/delivery/thread-joiner.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { Clock } from '../fixtures/clock.ts'
import { at, listIn, openSite, type Person, signIn, textIn as textAt, until } from '../fixtures/gateway.ts'
import {
  EVERYTHING,
  eventsPath,
  type HeardEvent,
  openProtocol,
  type ProtocolClient,
  textIn
} from '../fixtures/protocol.ts'
import type { Stream } from '../fixtures/stream.ts'

const said = (content: string) => ({ messages: [{ type: 'human', content }] })
const seqs = (events: readonly HeardEvent[]) => events.map(({ seq }) => seq)
const isGrowing = (numbers: readonly number[]) => numbers.every((one, i) => i === 0 || one > numbers[i - 1]!)
const words = (deltas: number) => Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')} `).join('')

function events(person: Person, thread: string, body: JsonObject): Promise<Stream> {
  return person.open('POST', eventsPath(thread), { body, headers: { 'content-type': 'application/json' } })
}

const heard = (stream: Stream): HeardEvent[] => stream.frames.map(({ data }) => JSON.parse(data) as HeardEvent)

/** A socket without a network, and a joiner that has told nothing yet: both do what a test says. */
function handSocket({
  restart = () => {},
  command = async () => ({})
}: {
  restart?: (after: number) => unknown
  command?: SocketParts['command']
}) {
  const nothing = () => {}
  const heard = { text: (_: string) => {}, ping: (_: Buffer) => {}, drain: nothing }
  const hand = { written: [] as Buffer[], takesMore: true, isRead: true }
  const socket: TextSocket = {
    write: (bytes) => {
      hand.written.push(Buffer.from(bytes))
      return hand.takesMore
    },
    end: nothing,
    reset: nothing,
    close: nothing,
    onDrain: nothing,
    onClose: nothing,
    onText: (listener) => {
      heard.text = listener
    },
    onPing: (listener) => {
      heard.ping = listener
    },
    pause: () => {
      hand.isRead = false
    },
    resume: () => {
      hand.isRead = true
    },
    heardAt: () => 0
  }
  // What a socket asks of its joiner when nothing has been told yet.
  const joiner = { isAtBorder: true, isInRun: false, ordinal: 0, restart }
  const parts: Partial<SocketParts> = {
    threadId: 't',
    share: new Budget({ each: 0, all: 0 }).share('ann'),
    join: ({ onDrain }) => {
      heard.drain = onDrain!
      return joiner as unknown as ThreadJoiner
    },
    replayed: async () => 0,
    command,
    parse: JSON.parse
  }
  new ProtocolSocket(socket, parts as SocketParts)
  const drain = () => {
    hand.takesMore = true
    heard.drain()
  }
  return {
    hand,
    drain,
    read: (text: string) => heard.text(text),
    ping: (pong: string) => heard.ping(Buffer.from(pong))
  }
}

async function command(person: Person, thread: string, method: string, params: JsonObject): Promise<JsonObject> {
  const { status, body } = await person.post(`/api/threads/${thread}/commands`, { id: 7, method, params })
  if (status !== 200) throw new Error(`${method}: ${status} ${JSON.stringify(body)}`)
  return body as JsonObject
}

t.test('a thread is one sequence: subscribed before it is there, over its runs, each with one end', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = randomUUID()
  const client = await openProtocol(person, thread)
  await client.subscribe()
  for (const n of [1, 2, 3]) {
    await client.start(said(`/demo deltas=${20 * n} rate=0`))
    await client.untilEnds(n)
  }
  const { events: all } = client
  t.ok(isGrowing(seqs(all)))
  t.equal(new Set(all.map(({ event_id }) => event_id)).size, all.length)
  t.equal(textIn(all), words(20) + words(40) + words(60))
  const roots = all.filter(({ method }) => method === 'lifecycle').map(({ params }) => params.data.event)
  t.strictSame(roots, ['running', 'completed', 'running', 'completed', 'running', 'completed'])

  await t.test('who comes later sees the same, to the letter, by either transport', async (t) => {
    const late = await openProtocol(person, thread)
    await late.subscribe()
    await late.untilEnds(3)
    t.strictSame(late.events, all)
    const stream = await events(person, thread, { channels: EVERYTHING })
    await stream.untilFrames(all.length)
    t.strictSame(heard(stream), all)
    t.strictSame(
      stream.frames.map(({ id, event }) => [id, event]),
      all.map(({ event_id, method }) => [event_id, method])
    )
    stream.leave()
    late.close()
  })

  await t.test('from any position on: by its number, or by its id', async (t) => {
    for (const from of [0, 1, 30, all.length - 2]) {
      const { seq, event_id } = all[from]!
      const rest = all.slice(from + 1)
      const bySeq = await events(person, thread, { channels: EVERYTHING, since: seq })
      const byId = await person.open('POST', eventsPath(thread), {
        body: { channels: EVERYTHING },
        headers: { 'content-type': 'application/json', 'last-event-id': event_id }
      })
      for (const stream of [bySeq, byId]) {
        await stream.untilFrames(rest.length)
        t.strictSame(heard(stream), rest)
        stream.leave()
      }
    }
  })

  await t.test('checkpoints stand right before their values, and lead to each other', async (t) => {
    const of = all.flatMap((event, i) => (event.method === 'checkpoints' ? [[event, all[i + 1]!] as const] : []))
    t.ok(of.length >= 6)
    t.ok(of.every(([, next]) => next.method === 'values'))
    const points = of.map(([{ params }]) => params.data)
    t.strictSame(
      points.slice(1).map(({ parent_id }) => parent_id),
      points.slice(0, -1).map(({ id }) => id)
    )
    const { body } = await person.get(`/api/threads/${thread}/state`)
    t.equal(at(body, 'checkpoint', 'checkpoint_id'), points.at(-1)!.id)
    t.strictSame(of.at(-1)![1].params.data.messages, at(body, 'values', 'messages'))
  })
  client.close()
})

t.test('an awaited subscription is answered before there is a run, and before what it brings', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, { input: said('/demo deltas=5 rate=0') })
  const client = await openProtocol(person, thread)
  await client.subscribe(['lifecycle'])
  await client.untilEnds(1)
  t.strictSame(client.order.slice(0, 2), ['answer', 'event'])
  client.close()
})

t.test('a filter takes channels, namespaces and what is not deeper below them', async (t) => {
  const agent: Agent = {
    async start(_input, sink) {
      sink.emit({ type: 'custom', data: { name: 'progress', payload: { percent: 5 } } })
      sink.emit({ type: 'custom', data: 'bare' })
    }
  }
  const person = await signIn(await openSite(t, { agent }))
  const thread = randomUUID()
  await command(person, thread, 'run.start', { assistant_id: 'lead_agent', input: said('x') })
  const ended = await events(person, thread, { channels: ['lifecycle'] })
  await ended.untilFrames(2)
  ended.leave()
  /** So many of what a filter takes of all that was said. */
  const got = async (count: number, body: JsonObject): Promise<string[]> => {
    const stream = await events(person, thread, body)
    await stream.untilFrames(count)
    stream.leave()
    return heard(stream).map(({ method, params }) => `${method} ${JSON.stringify(params.data)}`)
  }
  const named = 'custom {"name":"progress","payload":{"percent":5}}'
  t.strictSame(await got(2, { channels: ['custom'] }), [named, 'custom {"payload":"bare"}'])
  const progress = await got(3, { channels: ['custom:progress', 'lifecycle'] })
  t.strictSame([progress.length, progress[1]], [3, named])
  t.equal((await got(4, { channels: ['custom', 'lifecycle'], namespaces: [[]], depth: 0 })).length, 4)
  t.equal((await got(2, { channels: ['lifecycle'], namespaces: [['worker'], []] })).length, 2)
})

t.test('a second subscription on a socket is told all it wants, the first nothing twice', async (t) => {
  const person = await signIn(await openSite(t))
  const client = await openProtocol(person, randomUUID())
  await client.subscribe(['lifecycle'])
  await client.start(said('/demo deltas=30 rate=0'))
  await client.untilEnds(1)
  const name = await client.subscribe(['messages'])
  await until(() => textIn(client.events) === words(30), 'the messages are replayed')
  t.equal(client.events.filter(({ method }) => method === 'lifecycle').length, 2)
  await client.start(said('/demo deltas=10 rate=0'))
  await client.untilEnds(2)
  t.equal(new Set(client.events.map(({ event_id }) => event_id)).size, client.events.length)
  t.match(await client.command('subscription.unsubscribe', { subscription_id: name }), { type: 'success', result: {} })
  const before = client.events.length
  await client.start(said('/demo deltas=10 rate=0'))
  await client.untilEnds(3)
  t.equal(client.events.length, before + 2)
  const again = await client.command('subscription.unsubscribe', { subscription_id: name })
  t.match(again, { type: 'error', error: 'no_such_subscription' })
  client.close()
})

t.test('a subscription is answered with how many events it is sent of what was there', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  for (const deltas of [5, 30])
    await person.post(`/api/threads/${thread}/runs/wait`, { input: said(`/demo deltas=${deltas} rate=0`) })
  const live = await person.stream(thread, '/demo deltas=40 rate=0 pause=20:600000', {
    stream_mode: ['messages-tuple']
  })
  await live.untilFrames(21)
  const replayed = async (client: ProtocolClient, channels: readonly string[], more: JsonObject = {}) => {
    const { result } = await client.command('subscription.subscribe', { channels: [...channels], ...more })
    return at(result, 'replayed_events')
  }
  const alone = async (channels: readonly string[], more: JsonObject = {}) => {
    const client = await openProtocol(person, thread)
    const count = await replayed(client, channels, more)
    await until(() => client.events.length >= Number(count), 'they are sent')
    // What it was told of is all there is: the run goes on in ten minutes.
    t.match(await client.command('state.get'), { type: 'success' })
    t.equal(client.events.length, count, channels.join())
    client.close()
    return client.events
  }
  const all = await alone(EVERYTHING)
  t.ok(all.length > 60)
  t.equal((await alone(['lifecycle'])).length, 5)
  const middle = all[Math.floor(all.length / 2)]!
  t.strictSame(await alone(EVERYTHING, { since: middle.event_id }), all.slice(all.indexOf(middle) + 1))
  // One who has been told of the lifecycle already is told of its events again, and of no others.
  const client = await openProtocol(person, thread)
  t.equal(await replayed(client, ['messages']), all.filter(({ method }) => method === 'messages').length)
  t.equal(await replayed(client, ['lifecycle']), 5)
  client.close()
  const other = await person.thread()
  t.equal(await replayed(await openProtocol(person, other), EVERYTHING), 0)
  await person.post(`/api/threads/${other}/runs/wait`, { input: said('/demo deltas=10001 rate=0') })
  t.equal(await replayed(await openProtocol(person, other), ['lifecycle']), undefined, 'too many to be counted')
  await person.post(`${live.runPath}/cancel`)
})

t.test('subscriptions of one moment begin together: no event before both are answered, each once', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, { input: said('/demo deltas=5 rate=0') })
  const client = await openProtocol(person, thread)
  const names = await Promise.all([client.subscribe(['lifecycle', 'input']), client.subscribe(), client.subscribe()])
  await client.untilEnds(1)
  t.strictSame(client.order.slice(0, 4), ['answer', 'answer', 'answer', 'event'])
  t.ok(isGrowing(seqs(client.events)), 'in their order')
  t.equal(textIn(client.events), words(5))
  // One that is given up in the moment in which it was made brings nothing.
  for (const subscription_id of names) await client.command('subscription.unsubscribe', { subscription_id })
  const before = client.events.length
  const given = client.command('subscription.subscribe', { channels: ['lifecycle'] })
  const { result } = await given
  await client.command('subscription.unsubscribe', { subscription_id: at(result, 'subscription_id') as string })
  await client.start(said('/demo deltas=5 rate=0'))
  await client.subscribe(['checkpoints'])
  await until(() => client.events.length > before, 'checkpoints')
  t.notOk(client.events.slice(before).some(({ method }) => method === 'lifecycle'))
  client.close()
})

t.test(
  'subscriptions of one moment begin together, however many reads bring them; a later one by itself',
  async (t) => {
    const clock = Clock.stopFor(t)
    const begun: number[] = []
    const { read } = handSocket({ restart: (after) => begun.push(after) })
    const subscribe = (id: number, channels = ['values']) =>
      read(JSON.stringify({ id, method: 'subscription.subscribe', params: { channels } }))
    subscribe(1)
    await clock.pass(9)
    subscribe(2)
    await clock.pass(9)
    t.strictSame(begun, [], 'none begins before the moment is over')
    subscribe(3)
    await clock.pass(100)
    t.strictSame(begun, [0], 'all three begin at once')
    subscribe(4)
    await clock.pass(100)
    t.strictSame(begun, [0, 0])
    subscribe(5, ['lifecycle', 'input'])
    await clock.pass(100)
    t.strictSame(begun, [0, 0], 'who watches a thread will want to know what is in it')
    subscribe(6)
    await clock.pass(30)
    t.strictSame(begun, [0, 0, 0])
    await clock.pass(200)
    subscribe(7, ['lifecycle'])
    await clock.pass(200)
    t.strictSame(begun, [0, 0, 0, 0], 'or not')
    t.equal(clock.pending, 0)
  }
)

t.test('what arrived while the loop was held up begins with what came before', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, { input: said('/demo deltas=5 rate=0') })
  const client = await openProtocol(person, thread)
  await client.subscribe(['lifecycle'])
  const second = client.subscribe(['values'])
  for (const until = performance.now() + 500; performance.now() < until; );
  await second
  await client.untilEnds(1)
  t.ok(
    client.events.some(({ method }) => method === 'values'),
    'before its end'
  )
  client.close()
})

t.test('who does not read the answers to commands is answered no more of them, and then is not read', async (t) => {
  const obeyed: number[] = []
  const { hand, drain, read, ping } = handSocket({
    command: async ({ id }) => {
      obeyed.push(id)
      return { id }
    }
  })
  const ask = (id: number) => read(JSON.stringify({ id, method: 'state.get', params: {} }))
  ask(1)
  await until(() => hand.written.length === 1, 'the first answer')
  t.ok(hand.isRead)
  hand.takesMore = false
  for (const id of [2, 3, 4]) ask(id)
  await until(() => hand.written.length === 2, 'the answer that fills it')
  for (let n = 0; n < 1000; n++) ping(`pong ${n}`)
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(obeyed, [1, 2], 'the others wait')
  t.notOk(hand.isRead)
  t.equal(hand.written.length, 2)
  drain()
  await until(() => hand.written.length === 5, 'they are answered')
  t.equal(String(hand.written[2]), 'pong 999', 'of pings the last, before what waited')
  t.strictSame(obeyed, [1, 2, 3, 4])
  await until(() => hand.isRead, 'it is read again')
})

t.test('tools begin and finish, calls are blocks of their message', async (t) => {
  const person = await signIn(await openSite(t))
  const client = await openProtocol(person, randomUUID())
  await client.subscribe()
  await client.start(said('/demo deltas=3 rate=0 tool=current_time args={}'))
  await client.untilEnds(1)
  const tools = client.events.filter(({ method }) => method === 'tools').map(({ params }) => params.data)
  t.match(tools, [
    { event: 'tool-started', tool_name: 'current_time', input: {} },
    { event: 'tool-finished', tool_call_id: String(tools[0]?.tool_call_id), output: { type: 'tool' } }
  ])
  const blocks = client.events
    .filter(({ method }) => method === 'messages')
    .flatMap(({ params }) => (params.data.event === 'content-block-finish' ? [params.data.content] : []))
  t.match(blocks, [
    { type: 'tool_call', name: 'current_time', args: {} },
    { type: 'text', text: words(3) }
  ])
  client.close()
})

t.test('commands: what is asked wrongly is an answer that says so, with status 200', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = randomUUID()
  const cases: [string, JsonObject, string][] = [
    ['run.start', { input: said('x') }, 'invalid_argument'],
    ['run.start', { assistant_id: 'lead_agent', input: { messages: [7] } }, 'invalid_argument'],
    ['input.respond', {}, 'invalid_argument'],
    ['input.respond', { interrupt_id: 'x', response: 1 }, 'no_such_run'],
    ['agent.getTree', {}, 'no_such_run'],
    ['agent.getTree', { run_id: randomUUID() }, 'no_such_run'],
    ['state.fork', {}, 'not_supported'],
    ['no.such', {}, 'unknown_command'],
    ['toString', {}, 'unknown_command']
  ]
  const client = await openProtocol(person, thread)
  for (const [method, params, error] of cases) {
    const expected = { type: 'error', error }
    t.match(await command(person, thread, method, params), { ...expected, id: 7 }, method)
    t.match(await client.command(method, params), expected, method)
  }
  t.equal((await person.get(`/api/threads/${thread}`)).status, 404, 'nothing was made')
  t.equal((await person.post(`/api/threads/${thread}/commands`, { method: 'x' })).status, 422)
  t.match(await client.command('subscription.subscribe', { channels: ['nonsense'] }), { error: 'invalid_argument' })
  t.match(await client.command('subscription.subscribe', { channels: [] }), { error: 'invalid_argument' })
  client.close()
})

t.test('state, tree, and what a second person may: nothing', async (t) => {
  const site = await openSite(t)
  const [ann, ben] = [await signIn(site, 'ann'), await signIn(site, 'ben')]
  const thread = randomUUID()
  const started = await command(ann, thread, 'run.start', {
    assistant_id: 'lead_agent',
    input: said('/demo deltas=2 rate=0')
  })
  const runId = textAt(started, 'result', 'run_id')
  await until(async () => (await ann.get(`/api/threads/${thread}`)).text.includes('"idle"'), 'the run has ended')
  const state = await command(ann, thread, 'state.get', { namespace: [], keys: ['messages'] })
  t.equal(listIn(at(state, 'result', 'values'), 'messages').length, 2)
  t.strictSame(Object.keys(at(state, 'result', 'values') as JsonObject), ['messages'])
  t.match(await command(ann, thread, 'agent.getTree', {}), { result: { tree: { namespace: [], status: 'completed' } } })
  t.equal((await ann.get(`/api/threads/${thread}/runs/${runId}`)).status, 200)
  t.equal((await ben.post(`/api/threads/${thread}/commands`, { id: 1, method: 'state.get' })).status, 404)
  t.equal((await ben.post(eventsPath(thread), { channels: ['values'] })).status, 404)
  await t.rejects(openProtocol(ben, thread), /404/)
  const early = randomUUID()
  const waits = await openProtocol(ben, early)
  await waits.subscribe()
  await command(ann, early, 'run.start', { assistant_id: 'lead_agent', input: said('secret') })
  t.match(await waits.command('run.start', { assistant_id: 'lead_agent', input: said('mine') }), { type: 'error' })
  t.match(await waits.command('state.get'), { type: 'error' }, 'the thread that was nobody’s is hers now')
  await until(async () => (await ann.get(`/api/threads/${early}`)).text.includes('"idle"'), 'her run has ended')
  t.strictSame(waits.events, [])
  waits.close()
})

t.test('a question is asked once, and answered by its name', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = randomUUID()
  const client = await openProtocol(person, thread)
  await client.subscribe(['input', 'lifecycle'])
  await client.start(said('please ask me'))
  await client.untilEnds(1)
  const [question, ...more] = client.events.filter(({ method }) => method === 'input.requested')
  t.strictSame(more, [])
  t.equal(client.ends[0]?.params.data.event, 'interrupted')
  const interrupt_id = String(question?.params.data.interrupt_id)
  const unknown = await client.command('input.respond', { namespace: [], interrupt_id: 'other', response: 'Tea' })
  t.match(unknown, { error: 'no_such_interrupt' })
  const answer = await client.command('input.respond', { namespace: [], interrupt_id, response: 'Tea' })
  t.match(answer, { type: 'success', result: {} })
  await client.untilEnds(2)
  t.equal(client.ends[1]?.params.data.event, 'completed')
  t.match(await client.command('input.respond', { namespace: [], interrupt_id, response: 'Tea' }), {
    error: 'invalid_argument'
  })
  client.close()
})

t.test('of two tabs that answer a question at once, one is told that it was answered, and no run fails', async (t) => {
  const person = await signIn(await openSite(t))
  const ask = async () => {
    const thread = randomUUID()
    await command(person, thread, 'run.start', { assistant_id: 'lead_agent', input: said('please ask me') })
    const path = `/api/threads/${thread}`
    await until(async () => (await person.get(path)).text.includes('"interrupted"'), 'it asks')
    const interrupt_id = String(at((await person.get(`${path}/state`)).body, 'tasks', 0, 'interrupts', 0, 'id'))
    const statuses = async () => listIn((await person.get(`${path}/runs`)).body).map((run) => at(run, 'status'))
    const untilIdle = () => until(async () => (await person.get(path)).text.includes('"idle"'), 'it has gone on')
    return { thread, interrupt_id, statuses, untilIdle }
  }
  for (let i = 0; i < 5; i++) {
    const { thread, interrupt_id, statuses, untilIdle } = await ask()
    const respond = (response: string) => command(person, thread, 'input.respond', { interrupt_id, response })
    const answers = await Promise.all([respond('Tea'), respond('Coffee')])
    t.strictSame(answers.map(({ type }) => type).toSorted(), ['error', 'success'])
    await untilIdle()
    t.strictSame(await statuses(), ['success', 'interrupted'])
  }
  const { thread, statuses } = await ask()
  const tell = (words: string) =>
    command(person, thread, 'run.start', { assistant_id: 'lead_agent', input: said(words) })
  t.match(await Promise.all([tell('Tea'), tell('Coffee')]), [{ type: 'success' }, { type: 'success' }])
  const wanted = ['success', 'success', 'interrupted']
  // Between the two the thread is idle, too.
  await until(async () => (await statuses()).join() === wanted.join(), 'the second one is a message of its own')
})

t.test('a run that fails, or is cancelled, has one end that says so', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = randomUUID()
  const client = await openProtocol(person, thread)
  await client.subscribe(['lifecycle'])
  await client.start(said('/demo deltas=2 rate=0 error'))
  await client.untilEnds(1)
  t.match(client.ends[0]?.params.data, { event: 'failed', error: /demo model/i })
  const run = await client.start(said('/demo deltas=10000 rate=20'))
  await until(() => client.events.length === 3, 'it runs')
  t.equal((await person.post(`/api/threads/${thread}/runs/${run}/cancel`)).status, 202)
  await client.untilEnds(2)
  t.equal(client.ends[1]?.params.data.event, 'interrupted')
  const waiting = [
    await client.start(said('/demo deltas=10000 rate=20')),
    await client.start(said('/demo deltas=1 rate=0'))
  ]
  t.equal((await person.post(`/api/threads/${thread}/runs/${waiting[1]}/cancel`)).status, 202)
  t.equal((await person.post(`/api/threads/${thread}/runs/${waiting[0]}/cancel`)).status, 202)
  await client.untilEnds(4)
  t.equal(client.ends.length, 4)
  t.ok(isGrowing(seqs(client.events)))
  client.close()
})

t.test("threads.joinStream: the thread's runs in their modes, each with its end, from any position on", async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, { input: said('/demo deltas=1 rate=0') })
  const live = await person.open('GET', `/api/threads/${thread}/stream`)
  const all = await person.open('GET', `/api/threads/${thread}/stream?last_event_id=-1`)
  const modes = [['values'], ['messages-tuple', 'custom'], ['messages']]
  for (const stream_mode of modes)
    await person.post(`/api/threads/${thread}/runs/wait`, { input: said('/demo deltas=3 rate=0'), stream_mode })
  const done = (stream: Stream) => stream.frames.filter(({ data }) => data.includes('run_done')).length
  await until(() => done(live) === 3 && done(all) === 4, 'all runs are told')
  const shown = ({ frames }: Stream) => frames.map(({ id, event, data }) => `${event} ${id} ${data}`)
  t.strictSame(shown(all).slice(-live.frames.length), shown(live))
  t.strictSame(
    [...new Set(live.frames.map(({ event }) => event))].filter((name) => name !== 'messages/partial').sort(),
    ['messages', 'messages/complete', 'messages/metadata', 'metadata', 'values']
  )
  for (const [n, { id }] of live.frames.entries()) {
    if (id === null) continue
    const again = await person.open('GET', `/api/threads/${thread}/stream`, { headers: { 'last-event-id': id } })
    const rest = shown(live).slice(n + 1)
    const isSame = () =>
      shown(again)
        .filter((text) => !text.startsWith('messages/'))
        .join('\n')
    await until(
      () => isSame() === rest.filter((text) => !text.startsWith('messages/')).join('\n'),
      `what follows ${id}`
    )
    again.leave()
  }
  const lifecycle = await person.open('GET', `/api/threads/${thread}/stream?stream_mode=lifecycle&last_event_id=-1`)
  await lifecycle.untilFrames(8)
  t.ok(lifecycle.frames.every(({ event }) => event === 'metadata'))
  for (const stream of [live, all, lifecycle]) stream.leave()
})

t.test('`end` is said to who knows it; a stream that is over closes cleanly either way', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const path = await person.run(thread, '/demo deltas=3 rate=0')
  const token = textAt(
    (await person.post('/api/v1/auth/tokens', { name: 'x', scopes: ['runs:read', 'runs:create'] })).body,
    'token'
  )
  const join = async (prefix: string, headers: Record<string, string>): Promise<boolean> => {
    const stream = await person.open('GET', `${path.replace('/api', prefix)}/stream`, { headers })
    const frames = await stream.whole()
    return frames.some(({ event }) => event === 'end')
  }
  t.ok(await join('/api', {}))
  t.ok(await join('/api/langgraph', {}))
  t.ok(await join('/api', { authorization: `Bearer ${token}`, cookie: '' }))
  t.notOk(await join('', {}), 'at the root, as a server of LangGraph has it')
  t.notOk(await join('/api', { 'user-agent': 'langgraph-sdk-py/0.4' }))
  t.notOk(await join('/api', { 'x-api-key': token, cookie: '' }))
})
