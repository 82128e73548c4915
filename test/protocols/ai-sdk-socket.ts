// The AI SDK's chat over a WebSocket, by recorded frames: whose it is, what is sent and read again, and a stop.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { exactFetch } from '../../lib/client/ai-sdk.ts'
import { Clock } from '../fixtures/clock.ts'
import { openSite, signIn, until } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import { openProxy } from '../fixtures/proxy.ts'

interface Frame {
  readonly type: string
  readonly requestId: string
  readonly sequence?: number
  readonly chunk?: { readonly type: string; readonly delta?: string }
  readonly errorText?: string
  readonly run?: string
}

// What is silent for one and a half heartbeats is given up.
const site = await openSite(t, { config: { streams: { heartbeat_ms: 300 } } })
const owner = await signIn(site)
const { token } = await programOf(owner, ...PERMISSIONS)
const bearer = { Authorization: `Bearer ${token}` }

class Client {
  readonly frames: Frame[] = []
  readonly ws: WebSocket
  closed: number | null = null

  constructor(headers: Record<string, string> = {}) {
    this.ws = new WebSocket(`${site.url.replace('http', 'ws')}/api/ai/ws`, { headers })
    this.ws.on('message', (data) => this.frames.push(JSON.parse(String(data)) as Frame))
    this.ws.on('close', (code) => {
      this.closed = code
    })
    this.ws.on('error', () => {
      this.closed ??= 0
    })
  }

  async ask(frame: object): Promise<void> {
    await until(() => this.ws.readyState === WebSocket.OPEN || this.closed !== null, 'it is open')
    this.ws.send(JSON.stringify({ headers: {}, body: {}, ...frame }))
  }

  of(request: string): Frame[] {
    return this.frames.filter(({ requestId }) => requestId === request)
  }

  untilLast(request: string, ...types: string[]): Promise<void> {
    return until(() => types.includes(this.of(request).at(-1)?.type ?? ''), `${request}: ${types}`)
  }
}

const send = (requestId: string, id: string, words: string, more: object = {}) => ({
  type: 'send',
  requestId,
  id,
  trigger: 'submit-message',
  messages: [{ id: randomUUID(), role: 'user', parts: [{ type: 'text', text: words }] }],
  ...more
})
const chunksOf = (frames: readonly Frame[]) => frames.flatMap(({ chunk }) => (chunk ? [chunk] : []))

t.test(
  'its first message may have the credential; answers are numbered from 0, and read again by others',
  async (t) => {
    const client = new Client()
    const id = randomUUID()
    await client.ask(send('a', id, '/demo deltas=20 rate=0 reasoning', { headers: bearer }))
    await client.untilLast('a', 'end', 'error')
    const frames = client.of('a')
    t.strictSame([frames[0]?.type, frames.at(-1)?.type], ['start', 'end'], JSON.stringify(frames.at(-1)))
    const numbers = frames.flatMap(({ sequence }) => (sequence === undefined ? [] : [sequence]))
    t.strictSame(numbers, [...numbers.keys()])
    t.match(chunksOf(frames)[0], { type: 'start', messageId: String })
    const other = new Client({ cookie: owner.headers().cookie ?? '', origin: site.url })
    await other.ask({ type: 'resume', requestId: 'b', id })
    await other.untilLast('b', 'end')
    t.strictSame(chunksOf(other.of('b')), chunksOf(frames), 'also behind its end: the page may have half of it')
    await other.ask({ type: 'resume', requestId: 'c', id, lastSequence: 4 })
    await other.untilLast('c', 'end')
    t.equal(other.of('c')[1]?.sequence, 5)
    await other.ask({ type: 'resume', requestId: 'd', id: randomUUID() })
    await other.untilLast('d', 'no-active')
    for (const one of [client, other]) one.ws.close()
  }
)

t.test(
  'an answer that goes on after a question is resumed by the numbers of the run that its request has read',
  async (t) => {
    const client = new Client(bearer)
    const id = randomUUID()
    const question = '/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
    await client.ask(send('asking', id, question))
    await client.untilLast('asking', 'end')
    const shown = (await owner.get(`/api/ai/chat/${id}`)).body as { id: string; parts: Record<string, unknown>[] }[]
    const last = shown.at(-1)!
    const parts = last.parts.map((part) =>
      part.type === 'dynamic-tool' ? { ...part, state: 'output-available', output: 'Blue' } : part
    )
    const messages = [...shown.slice(0, -1), { ...last, parts }]
    await client.ask(send('answer', id, '', { body: {}, messages, messageId: last.id }))
    await client.untilLast('answer', 'end')
    const told = client.of('answer')
    const numbered = (frames: readonly Frame[]) =>
      frames.flatMap(({ sequence, chunk }) => (sequence === undefined ? [] : [{ sequence, chunk }]))
    t.ok(numbered(told).length > 2)
    const { run } = told[0]!
    await client.ask({ type: 'resume', requestId: 'tail', id, run, lastSequence: 1 })
    await client.untilLast('tail', 'end')
    t.strictSame(numbered(client.of('tail')), numbered(told).slice(2), 'exactly what follows')
    await client.ask({ type: 'resume', requestId: 'whole', id })
    await client.untilLast('whole', 'end')
    const whole = numbered(client.of('whole'))
    t.strictSame(
      whole.slice(-numbered(told).length).map(({ chunk }) => chunk),
      numbered(told).map(({ chunk }) => chunk)
    )
    t.ok(whole.length > numbered(told).length, 'the message from its start')
    const { run: first } = client.of('whole')[0]!
    await client.ask({ type: 'resume', requestId: 'rest', id, run: first, lastSequence: 3 })
    await client.untilLast('rest', 'end')
    t.strictSame(numbered(client.of('rest')), whole.slice(4))
    client.ws.close()
  }
)

t.test('several answers share a socket, and a stop ends one of them', async (t) => {
  const client = new Client(bearer)
  const [one, two] = [randomUUID(), randomUUID()]
  await client.ask(send('long', one, '/demo deltas=100000 rate=50'))
  await client.ask(send('short', two, '/demo deltas=30 rate=0'))
  await client.untilLast('short', 'end')
  await until(() => client.of('long').length > 5, 'the other has begun')
  await client.ask({ type: 'abort', requestId: 'long' })
  const last = async () => (await owner.get(`/api/ai/chat/${one}/stream`)).text
  t.match(await last(), /"type":"abort"/, 'its run was cancelled')
  await client.ask(send('again', one, '/demo deltas=1 rate=0'))
  await client.untilLast('again', 'end')
  client.ws.close()
})

t.test('nobody is let in without a credential, in time and in 8 KiB; pages of others are refused', async (t) => {
  const [wrong, long, none] = [new Client(), new Client(), new Client()]
  await wrong.ask(send('a', randomUUID(), 'hello', { headers: { Authorization: 'Bearer clq_nothing' } }))
  await long.ask(send('a', randomUUID(), 'x'.repeat(9000), { headers: bearer }))
  await none.ask(send('a', randomUUID(), 'hello'))
  await until(() => [wrong, long, none].every(({ closed }) => closed !== null), 'all are closed')
  t.strictSame([wrong.closed, long.closed, none.closed], [4401, 1009, 4401])
  t.strictSame(long.frames, [], 'what is refused begins nothing')
  const foreign = new Client({ cookie: owner.headers().cookie ?? '', origin: 'https://elsewhere.example' })
  await until(() => foreign.closed !== null, 'refused')
  t.equal(foreign.frames.length, 0)
  t.equal((await fetch(`${site.url}/api/ai/ws`)).status, 401)
  t.equal((await owner.get('/api/ai/ws')).status, 426)
})

t.test('what cannot be read is refused by the id of its request', async (t) => {
  const client = new Client(bearer)
  const bad: [object, RegExp][] = [
    [{ type: 'send', requestId: 'a', id: 'x', messages: [] }, /messages/],
    [{ type: 'shout', requestId: 'b', id: 'x' }, /type/],
    [{ type: 'resume', requestId: 'c' }, /id/],
    [{ type: 'resume', requestId: 'd', id: 'x', lastSequence: -1 }, /lastSequence/]
  ]
  for (const [frame, why] of bad) {
    await client.ask(frame)
    const { requestId } = frame as { requestId: string }
    await client.untilLast(requestId, 'error')
    t.match(client.of(requestId).at(-1)?.errorText, why)
  }
  const id = randomUUID()
  client.ws.send('garbage')
  await client.ask(send('late', id, '/demo deltas=1 rate=0'))
  await until(() => client.closed === 1008, 'it is closed')
  t.equal((await owner.get(`/api/ai/chat/${id}/stream`)).status, 204, 'what came behind it begins nothing')
})

t.test('with exactFetch an answer goes on when nothing arrives any more', async (t) => {
  const proxy = await openProxy(t, site.url)
  const ask = exactFetch({ waitMs: 5 })
  const id = randomUUID()
  const body = JSON.stringify({ ...send('', id, '/demo deltas=150 rate=200'), headers: undefined })
  const headers = { ...bearer, 'content-type': 'application/json' }
  const response = await ask(`${proxy.url}/api/ai/chat`, { method: 'POST', headers, body })
  proxy.swallow()
  const text = response.text()
  setTimeout(() => proxy.up(), 50)
  t.match(await text, /w0149/)
  t.equal((await text).split('w0100').length, 2, 'each chunk once')
})

t.test('with exactFetch an answer goes on behind every cut, each chunk once', async (t) => {
  const proxy = await openProxy(t, site.url)
  const sent: string[] = []
  const recording: typeof fetch = (input, init) => {
    sent.push(String(init?.body))
    return fetch(input, init)
  }
  const ask = exactFetch({ waitMs: 5, fetch: recording })
  const id = randomUUID()
  const body = JSON.stringify({ ...send('', id, '/demo deltas=300 rate=400 reasoning'), headers: undefined })
  proxy.cutAfter(900, 1700, 600, 5000, 2345, 7777)
  const headers = { ...bearer, 'content-type': 'application/json' }
  const response = await ask(`${proxy.url}/api/ai/chat?tab=1`, { method: 'POST', headers, body })
  const text = await response.text()
  t.equal(proxy.cutsLeft, 0, 'it was cut as often as it was to be')
  const whole = (await owner.get(`/api/ai/chat/${id}/stream`)).text
  const events = (all: string) => all.split('\n').filter((line) => /^(id|data):/.test(line))
  t.strictSame(events(text), events(whole))
  t.match(JSON.parse(sent[0]!), { durability: 'sync', id }, 'a crash would take nothing of it back')
})

t.test(
  'exactFetch comes back when the server has asked for it, and not after what waiting does not mend',
  async (t) => {
    const clock = Clock.stopFor(t)
    const asked: number[] = []
    const answersOf = (...answers: readonly Response[]) => {
      const left = [...answers]
      asked.length = 0
      return exactFetch({
        waitMs: 5,
        fetch: async () => {
          asked.push(performance.now())
          return left.shift()!
        }
      })
    }
    const message = { method: 'POST', body: JSON.stringify({ id: 'chat' }) }
    const cut = () => new Response('id: 1\ndata: {"type":"start"}\n\n')
    const away = (status: number, seconds: string) => new Response('', { status, headers: { 'retry-after': seconds } })
    const rest = new Response('id: 2\ndata: [DONE]\n\n')
    const reading = (
      await answersOf(cut(), away(503, '60'), away(408, '1'), away(429, '2'), rest)('/chat', message)
    ).text()
    await clock.pass(70_000)
    t.match(await reading, /start[\s\S]*DONE/)
    const waited = asked.slice(1).map((at, n) => Math.floor((at - asked[n]!) / 1000))
    t.strictSame(waited, [0, 60, 1, 2])
    const gone = (await answersOf(cut(), away(404, ''))('/chat', message)).text()
    gone.catch(() => {})
    await clock.pass(100)
    await t.rejects(gone, /404/)
    const leaving = new AbortController()
    const left = (await answersOf(cut(), away(503, '60'))('/chat', { ...message, signal: leaving.signal })).text()
    left.catch(() => {})
    await clock.pass(100)
    leaving.abort()
    await t.rejects(left, { name: 'AbortError' })
  }
)

t.test('a first message is waited for ten seconds', async (t) => {
  const clock = Clock.stopFor(t)
  const { ws } = new Client()
  await once(ws, 'open')
  await clock.pass(9_900)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(ws.readyState, WebSocket.OPEN)
  const closed = once(ws, 'close')
  await clock.pass(200)
  const [code, reason] = (await closed) as [number, Buffer]
  t.strictSame([code, String(reason)], [1008, 'no message has come'])
})
