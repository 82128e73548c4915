// colloquy/client in Node: it goes on to the exact frame after cuts, restarts, refusals and silence, and starts no run twice.
import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect, createServer as createLine } from 'node:net'
import { brotliCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { demoWord } from '../../lib/agent/demo.ts'
import {
  ApiError,
  Colloquy,
  type ColloquyOptions,
  type Connection,
  type Frame,
  FrameParser,
  Transcript
} from '../../lib/client/colloquy.ts'
import { startChild } from '../fixtures/child.ts'
import { Clock } from '../fixtures/clock.ts'
import { freePort } from '../fixtures/free-port.ts'
import { asked, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { openProxy } from '../fixtures/proxy.ts'

const FAST = { backoffMs: 5, backoffMaxMs: 200 }
const MODES = ['messages-tuple']

/** A client with an API token of the person, over `url`. */
async function clientOf(person: Person, url = person.url, more: ColloquyOptions = {}): Promise<Colloquy> {
  const scopes = ['threads:read', 'threads:write', 'runs:create', 'runs:read', 'runs:cancel']
  const { body } = await person.post('/api/v1/auth/tokens', { scopes })
  return new Colloquy({ url, token: textIn(body, 'token'), ...more })
}

async function open(t: Test): Promise<{ person: Person; client: Colloquy; threadId: string }> {
  const person = await signIn(await openSite(t))
  return { person, client: await clientOf(person), threadId: await person.thread() }
}

async function all(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const list: Frame[] = []
  for await (const frame of frames) list.push(frame)
  return list
}

function demoText(deltas: number): string {
  return Array.from({ length: deltas }, (_, n) => demoWord(n)).join('')
}

/** What the frames come to: the text of the last message. */
function told(frames: readonly Frame[]): unknown {
  const transcript = new Transcript()
  for (const frame of frames) transcript.apply(frame)
  return transcript.messages.at(-1)?.content
}

t.test('start streams the run it starts, and says which it is', async (t) => {
  const { client, threadId } = await open(t)
  const run = client.start(threadId, asked('/demo deltas=20 rate=0', { stream_mode: MODES }))
  const frames = await all(run)
  const { thread_id, run_id } = await run.started
  t.equal(thread_id, threadId)
  t.equal(frames[0]?.data.run_id, run_id)
  t.equal(frames.at(-1)?.event, 'end')
  t.equal(told(frames), demoText(20))
})

t.test('text() yields the words of the answer, and a run on no thread gets one', async (t) => {
  const { client } = await open(t)
  const run = client.start(null, asked('/demo deltas=8 rate=0', { stream_mode: MODES }))
  let text = ''
  for await (const words of run.text()) text += words
  t.equal(text, demoText(8))
  t.match((await run.started).thread_id, /^[0-9a-f-]{36}$/)
})

t.test('a failed run fails text() with what the run says', async (t) => {
  const { client, threadId } = await open(t)
  const run = client.start(threadId, asked('/demo deltas=3 rate=0 error', { stream_mode: MODES }))
  await t.rejects(async () => {
    for await (const _ of run.text());
  }, /asked to fail/)
})

t.test('over fifty cuts each frame comes once and in order, and the text is exact', async (t) => {
  const { person, threadId } = await open(t)
  const proxy = await openProxy(t, person.url)
  const client = await clientOf(person, proxy.url)
  const cuts = Array.from({ length: 50 }, (_, i) => 700 + ((i * 37) % 400))
  const wanted = 1500
  proxy.cutAfter(...cuts)
  const run = client.start(threadId, asked(`/demo deltas=${wanted} rate=500`, { stream_mode: MODES }), FAST)
  const frames = await all(run)
  t.equal(proxy.cutsLeft, 0, 'every cut has happened')
  t.equal(told(frames), demoText(wanted))
  const ids = frames.map(({ id }) => id).filter((id) => id !== null)
  t.equal(new Set(ids).size, ids.length, 'no frame twice')
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 1, 'no run twice')
})

t.test('a start whose answer is lost is repeated by its key: one run, watched from its first frame', async (t) => {
  const { person, threadId } = await open(t)
  const proxy = await openProxy(t, person.url)
  const client = await clientOf(person, proxy.url)
  proxy.cutAfter(10)
  const frames = await all(client.start(threadId, asked('/demo deltas=5 rate=0', { stream_mode: MODES }), FAST))
  t.equal(told(frames), demoText(5))
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 1)
})

t.test(
  'a server that is killed and started in mid-answer: the stream comes back and tells what has survived',
  async (t) => {
    const port = await freePort()
    const first = await startChild(t, { port })
    const person = await signIn(first)
    const threadId = await person.thread()
    const proxy = await openProxy(t, first.url)
    const client = await clientOf(person, proxy.url)
    const run = client.start(threadId, asked('/demo deltas=100000 rate=200', { stream_mode: MODES }), FAST)
    const transcript = new Transcript()
    const events: string[] = []
    let isKilled = false
    let restarted: Promise<unknown> = Promise.resolve()
    for await (const frame of run) {
      transcript.apply(frame)
      events.push(frame.event)
      if (events.length < 60 || isKilled) continue
      isKilled = true
      await first.kill()
      restarted = startChild(t, { home: first.home, port })
    }
    await restarted
    t.equal(events.at(-1), 'end')
    const { run_id } = await run.started
    t.equal(textIn((await person.get(`/api/threads/${threadId}/runs/${run_id}`)).body, 'status'), 'error')
    const state = (await person.get(`/api/threads/${threadId}/state`)).body
    const messages = listIn(state, 'values', 'messages')
    t.equal(transcript.messages.at(-1)?.content, textIn(messages.at(-1), 'content'), 'the text is that of the state')
  }
)

t.test('a watcher begins with a snapshot and goes on live, and a cursor goes on behind its frame', async (t) => {
  const { client, threadId } = await open(t)
  await all(client.start(threadId, asked('/demo deltas=5 rate=0', { stream_mode: MODES })))
  const run = client.start(threadId, asked('/demo deltas=60 rate=60', { stream_mode: MODES }))
  const seen: Frame[] = []
  for await (const frame of run) if (seen.push(frame) === 20) break
  const cursor = run.cursor
  const ref = await run.started
  const later = await all(client.watch(ref, { modes: MODES, snapshot: true }))
  t.equal(later[0]?.event, 'snapshot')
  t.equal(told(later), demoText(60))
  t.ok(later.length < 60, 'what is in the snapshot is not told again')
  const rest = await all(client.watch(ref, { modes: MODES, ...(cursor && { after: cursor }) }))
  t.equal(told([...seen, ...rest]), demoText(60))
})

t.test('breaking off the iteration stops watching and not the run; cancel stops the run', async (t) => {
  const { client, threadId, person } = await open(t)
  const run = client.start(threadId, asked('/demo deltas=100000 rate=100', { stream_mode: MODES }))
  for await (const { event } of run) if (event === 'messages') break
  const ref = await run.started
  const status = async () => textIn((await person.get(`/api/threads/${threadId}/runs/${ref.run_id}`)).body, 'status')
  // Frames are told before they are stored, and so the first one may be here before the row says that the run has begun.
  await until(async () => (await status()) === 'running', 'the run going on')
  await run.cancel()
  await until(async () => (await status()) === 'interrupted', 'the cancel')
})

t.test('a refusal that waiting does not mend is thrown, with its status, code and words', async (t) => {
  const { client } = await open(t)
  const run = client.start('no-such-thread', asked('hello'))
  await t.rejects(all(run), { name: 'ApiError', status: 404, message: 'Thread no-such-thread not found' })
  await t.rejects(run.started, ApiError)
  const nobody = new Colloquy({ url: (await openSite(t)).url })
  await t.rejects(nobody.call('GET', '/api/v1/auth/me'), { status: 401, code: 'not_authenticated' })
  await t.rejects(nobody.call('POST', '/api/v1/auth/register', { email: 'a@example.com', password: 'short' }), {
    status: 422,
    message: 'String should have at least 8 characters'
  })
})

t.test('a gateway that says when to come back is asked again no earlier, and the wait is told', async (t) => {
  let asked = 0
  const server = createServer((_req, res) => {
    if (asked++ === 0) return res.writeHead(503, { 'Retry-After': '1' }).end('{"detail":"busy"}')
    return res.end('event: end\ndata: null\n\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const connections: Connection[] = []
  const onConnection = (connection: Connection) => void connections.push(connection)
  const watched = new Colloquy({ url }).watch({ thread_id: 't', run_id: 'r' }, { onConnection, backoffMs: 1 })
  const begun = Date.now()
  await all(watched)
  t.ok(Date.now() - begun >= 990)
  t.same(
    connections.map(({ state }) => state),
    ['connecting', 'waiting', 'connecting', 'open', 'closed']
  )
  t.ok((connections[1]?.retryAt ?? 0) - begun >= 990)
})

/** A server that is not a gateway, or not a good one. */
async function pretender(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('a wait until tomorrow, and an answer that names no run, are told and not tried again', async (t) => {
  let asked = 0
  const answers: RequestListener[] = [
    // Of a quota of money: until the month is over.
    (_req, res) => res.writeHead(429, { 'Retry-After': '2300000' }).end('{"detail":{"code":"quota_money"}}'),
    (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<p>Welcome to the hotel</p>')
  ]
  const url = await pretender(t, (req, res) => answers[asked++]?.(req, res))
  const client = new Colloquy({ url })
  const poor = client.start('t', {}, FAST)
  await t.rejects(all(poor), { status: 429, code: 'quota_money', retryAfterMs: 2_300_000_000 })
  const lost = client.start('t', {}, FAST)
  await t.rejects(lost.started, { name: 'ApiError', message: /names no run/ })
  t.equal(asked, 2)
})

t.test('behind the end of a run nobody waits for that of the connection', async (t) => {
  const url = await pretender(t, (_req, res) => void res.write('event: end\ndata: null\n\n'))
  const frames = await all(new Colloquy({ url }).watch({ thread_id: 't', run_id: 'r' }))
  t.same(
    frames.map(({ event }) => event),
    ['end']
  )
})

t.test('text() yields words, whatever form the content has', async (t) => {
  const blocks = [
    { type: 'text', text: 'Good ' },
    { type: 'thinking', thinking: '…' },
    { type: 'text', text: 'day' }
  ]
  const chunk = JSON.stringify([{ type: 'AIMessageChunk', id: 'm', content: blocks }, {}])
  const url = await pretender(
    t,
    (_req, res) => void res.end(`event: messages\ndata: ${chunk}\n\nevent: end\ndata: null\n\n`)
  )
  const texts: string[] = []
  for await (const text of new Colloquy({ url }).watch({ thread_id: 't', run_id: 'r' }).text()) texts.push(text)
  t.same(texts, ['Good day'])
})

t.test('text() gives no answer with a hole in it, however its stream was opened', async (t) => {
  const frame = (event: string, data: unknown, id = '') =>
    `event: ${event}\n${id && `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
  const word = (content: string, id: string) =>
    frame('messages', [{ type: 'AIMessageChunk', id: 'm', content }, {}], id)
  const snapshot = frame('snapshot', { values: { messages: [] } }, '2-0')
  const end = frame('end', null)
  const holes = {
    'a crash has taken words back': [word('lost', '1-1'), word('other', '2-1'), snapshot + word('words', '2-1') + end],
    'its frames are not kept any more': [frame('gap', { code: 'stream_replay_gap' }) + end]
  }
  for (const [why, answers] of Object.entries(holes)) {
    const left = [...answers]
    const url = await pretender(t, (_req, res) => void res.end(left.shift()))
    const read = async (more: object) => {
      for await (const _ of new Colloquy({ url }).watch({ thread_id: 't', run_id: 'r' }, { ...FAST, ...more }).text());
    }
    await t.rejects(read({}), /lost some of the answer/, why)
  }
  const url = await pretender(t, (_req, res) => void res.end(snapshot + word('rest', '2-1') + end))
  const texts: string[] = []
  const asked = { ...FAST, snapshot: true }
  for await (const text of new Colloquy({ url }).watch({ thread_id: 't', run_id: 'r' }, asked).text()) texts.push(text)
  t.same(texts, ['rest'], 'a snapshot that was asked for is where it begins')
})

t.test('a date of an intermediary is kept as seconds are', async (t) => {
  const url = await pretender(t, (_req, res) => {
    res.writeHead(503, { 'Retry-After': new Date(Date.now() + 100_000_000).toUTCString() }).end()
  })
  await t.rejects(new Colloquy({ url }).start('t', {}, FAST).started, { name: 'ApiError', status: 503 })
})

t.test('a stream that is over does not hold on to the signal of its caller', async (t) => {
  const url = await pretender(t, (_req, res) => void res.end('event: end\ndata: null\n\n'))
  const { signal } = new AbortController()
  const client = new Colloquy({ url })
  for (let i = 0; i < 3; i++) await all(client.watch({ thread_id: 't', run_id: 'r' }, { signal }))
  t.equal(getEventListeners(signal, 'abort').length, 0)
})

t.test('a connection without any sign of life counts as dead, and is opened anew', async (t) => {
  const { person, threadId } = await open(t)
  const site = new URL(person.url)
  let isStill = true
  // The first connection delivers its head and then nothing more, without being closed.
  const line = createLine((socket) => {
    const upstream = connect(Number(site.port), site.hostname)
    const first = isStill
    isStill = false
    socket.pipe(upstream)
    upstream.on('data', (bytes) => {
      const end = bytes.indexOf('\r\n\r\n') + 4
      if (!first) socket.write(bytes)
      else if (end > 3) socket.write(bytes.subarray(0, end))
    })
    for (const one of [socket, upstream]) one.on('error', () => {})
    socket.on('close', () => upstream.destroy())
    upstream.on('close', () => socket.destroy())
  })
  await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve))
  t.teardown(() => line.close())
  const path = await person.run(threadId, '/demo deltas=30 rate=0')
  const client = await clientOf(person, `http://127.0.0.1:${(line.address() as AddressInfo).port}`)
  const ref = { thread_id: threadId, run_id: path.split('/').at(-1)! }
  // The token was asked for over the person's own line, so the first connection is the stream's.
  const frames = await all(client.watch(ref, { modes: MODES, silenceMs: 300, ...FAST }))
  t.equal(told(frames), demoText(30))
})

/** A client whose gateway beats five times a second, over a network that can be cut. */
async function overProxy(t: Test) {
  const person = await signIn(await openSite(t, { config: { streams: { heartbeat_ms: 200 } } }))
  const proxy = await openProxy(t, person.url)
  const client = await clientOf(person, proxy.url, { timeoutMs: 300 })
  return { person, proxy, threadId: await person.thread(), client }
}

t.test('a network that swallows everything is left within two heartbeats, and no word is lost', async (t) => {
  const { proxy, client, threadId } = await overProxy(t)
  const states: Connection[] = []
  const onConnection = (connection: Connection) => void states.push(connection)
  const run = client.start(threadId, asked('/demo deltas=100 rate=50', { stream_mode: MODES }), {
    backoffMs: 5,
    backoffMaxMs: 50,
    connectMs: 300,
    onConnection
  })
  const frames: Frame[] = []
  const read = (async () => {
    for await (const frame of run) frames.push(frame)
  })()
  await until(() => frames.length > 10, 'the first words')
  proxy.swallow()
  await until(() => states.filter(({ state }) => state === 'waiting').length > 2, 'attempts that are given up')
  t.match(String(states.find(({ state }) => state === 'waiting')?.error), /silent/)
  proxy.up()
  await read
  t.equal(told(frames), demoText(100))
  const ids = frames.map(({ id }) => id).filter((id) => id !== null)
  t.equal(new Set(ids).size, ids.length, 'no frame twice')
})

t.test('a start that is swallowed is repeated, and starts one run', async (t) => {
  const { person, proxy, client, threadId } = await overProxy(t)
  proxy.swallow()
  const run = client.start(threadId, asked('/demo deltas=5 rate=0', { stream_mode: MODES }), {
    connectMs: 100,
    ...FAST
  })
  const before = proxy.connections
  await until(() => proxy.connections > before + 1, 'another attempt')
  proxy.up()
  t.equal(told(await all(run)), demoText(5))
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 1)
})

/** What a timer takes that shall take nothing, in ms. */
const NO_PAUSE = 1

t.test('whenever a network that swallows is good again, an attempt begins within 10 s', async (t) => {
  const clock = Clock.stopFor(t)
  const begun: number[] = []
  const swallow: typeof fetch = (_, init) => {
    begun.push(performance.now())
    return new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal!.reason)))
  }
  const run = new Colloquy({ fetch: swallow }).watch({ thread_id: 't', run_id: 'r' })
  const reading = all(run)
  await clock.pass(110_000)
  run.close()
  await reading
  // One that begins when all is good is answered; one before it hangs until its limit.
  const gaps = begun.slice(1).map((at, n) => at - begun[n]!)
  t.equal(gaps[0], 10_000 + NO_PAUSE, 'the first one may be slow: nothing was silent yet')
  t.same(gaps.slice(1, 6), Array(5).fill(1000 + NO_PAUSE), 'connections that are kept alive are used up')
  const rest = gaps.slice(6)
  t.ok(rest.length >= 10 && rest.every((ms) => ms > 6000 && ms <= 9000), rest.map(Math.round).join(', '))
})

t.test('a stream that breaks behind a silence is come back to by short attempts, whatever has broken it', async (t) => {
  const clock = Clock.stopFor(t)
  const begun: number[] = []
  let breakIt = (_error: Error) => {}
  const open: typeof fetch = (_, init) => {
    begun.push(performance.now())
    if (begun.length > 1)
      return new Promise((_, reject) => init?.signal?.addEventListener('abort', () => reject(init.signal!.reason)))
    const body = new ReadableStream({
      start: (controller) => {
        breakIt = (error) => controller.error(error)
      }
    })
    return Promise.resolve(new Response(body))
  }
  const run = new Colloquy({ fetch: open }).watch({ thread_id: 't', run_id: 'r' }, { silenceMs: 60_000 })
  const reading = all(run)
  await clock.pass(7000)
  breakIt(new TypeError('network error'))
  await clock.pass(20_000)
  run.close()
  await reading
  const gaps = begun.slice(1).map((at, n) => at - begun[n]!)
  t.ok(gaps.length > 6, String(gaps.length))
  t.same(gaps.slice(1, 6), Array(5).fill(1000 + NO_PAUSE), 'a second each, and no 10 s')
})

/** Without `retryNow` nobody would come back before the test is over. */
const PATIENT = { connectMs: 600_000, silenceMs: 600_000, backoffMs: 600_000, backoffMaxMs: 600_000 }

t.test('retryNow gives up an attempt that hangs, and tries again at once', async (t) => {
  const { person, proxy, client, threadId } = await overProxy(t)
  proxy.swallow()
  const run = client.start(threadId, asked('/demo deltas=5 rate=0', { stream_mode: MODES }), PATIENT)
  const begun = performance.now()
  await until(() => proxy.connections > 0 && performance.now() - begun > 600, 'an attempt that hangs')
  proxy.up()
  run.retryNow()
  t.equal(told(await all(run)), demoText(5))
  t.equal(listIn((await person.get(`/api/threads/${threadId}/runs`)).body).length, 1)
})

t.test('retryNow gives up a stream that is silent for longer than a heartbeat', async (t) => {
  const { proxy, client, threadId } = await overProxy(t)
  // A connection that is kept alive may be swallowed as well: an attempt over it is given up by its own limit.
  const options = { ...FAST, connectMs: 500, silenceMs: 600_000 }
  const run = client.start(threadId, asked('/demo deltas=200 rate=100', { stream_mode: MODES }), options)
  const frames: Frame[] = []
  for await (const frame of run) {
    if (frames.push(frame) !== 20) continue
    proxy.swallow()
    const begun = performance.now()
    await until(() => performance.now() - begun > 500, 'silence')
    proxy.up()
    run.retryNow()
  }
  t.equal(told(frames), demoText(200))
})

t.test('a call whose answer stops arriving is given up', async (t) => {
  const { proxy, client, threadId } = await overProxy(t)
  proxy.swallow()
  await t.rejects(client.call('GET', `/api/threads/${threadId}`), /silent/)
  proxy.up()
  t.match(await client.call('GET', `/api/threads/${threadId}`), { thread_id: threadId })
})

t.test('events are read whatever pieces they come in', async (t) => {
  const text = ': heartbeat\nevent: messages\r\ndata: {"a":\ndata: "ü"}\nid: 1-2\n\nevent: end\ndata: null\n\n'
  const bytes = Buffer.from(text)
  for (const size of [1, 2, 7, bytes.length]) {
    const parser = new FrameParser()
    const frames: Frame[] = []
    for (let i = 0; i < bytes.length; i += size) frames.push(...parser.feed(bytes.subarray(i, i + size)))
    t.same(frames, [
      { event: 'messages', data: { a: 'ü' }, id: '1-2' },
      { event: 'end', data: null, id: null }
    ])
    t.ok(parser.hasEnded)
  }
})

t.test('a transcript keeps the objects of messages that a frame does not touch', async (t) => {
  const transcript = new Transcript()
  const human = { type: 'human', id: 'h', content: 'hi' }
  const chunk = (content: string, more = {}) => ({
    event: 'messages',
    id: null,
    data: [{ type: 'AIMessageChunk', id: 'a', content, ...more }, {}]
  })
  transcript.apply({ event: 'values', id: null, data: { messages: [human], title: 'T' } })
  const [before] = transcript.messages
  transcript.apply(chunk('', { additional_kwargs: { reasoning_content: 'hm' } }))
  transcript.apply(chunk('wo'))
  transcript.apply(chunk('rd', { tool_call_chunks: [{ index: 0, id: 'c', name: 'look', args: '{"x"' }] }))
  transcript.apply(
    chunk('', { tool_call_chunks: [{ index: 0, name: null, id: null, args: ':1}' }], chunk_position: 'last' })
  )
  t.equal(transcript.messages[0], before)
  t.match(transcript.messages[1], {
    content: 'word',
    reasoning: 'hm',
    isPartial: false,
    calls: [{ id: 'c', name: 'look', args: '{"x":1}' }]
  })
  t.equal(transcript.values.title, 'T')
})

t.test('the client that browsers get imports nothing, and is at most 7 KB compressed', async (t) => {
  const text = readFileSync(new URL('../../public/colloquy.js', import.meta.url), 'utf8')
  t.notMatch(text, /^\s*import /m)
  const size = brotliCompressSync(text).length
  t.ok(size <= 7 * 1024, `${size} bytes`)
})
