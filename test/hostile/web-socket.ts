// WebSockets of who means no good: bounded in number, size and patience, and closed with a code that says why.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { eventsPath, openProtocol, type ProtocolClient } from '../fixtures/protocol.ts'
import { besieged, dial } from '../fixtures/siege.ts'

const said = (content: string) => ({ messages: [{ type: 'human', content }] })
const LONG = '/demo deltas=100000 rate=5'

async function closing(client: ProtocolClient): Promise<number> {
  await until(() => client.closed !== null, 'the socket is closed')
  return client.closed!.code
}

/** A WebSocket that a test speaks byte by byte. */
async function rawSocket(person: Person, thread: string) {
  const { hostname, port } = new URL(person.url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const { cookie } = person.headers()
  const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='
  const head = `GET ${eventsPath(thread)} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nCookie: ${cookie}\r\n${key}`
  socket.write(`${head}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  if (!answer.toString('latin1').startsWith('HTTP/1.1 101')) throw new Error(answer.toString())
  socket.on('error', () => {})
  return socket
}

/** Whatever has closed it. */
const closed = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))

/** A masked text frame, as clients send them. */
function frame(text: string): Buffer {
  const bytes = Buffer.from(text)
  const head = Buffer.alloc(8)
  head.writeUInt8(0x81, 0)
  head.writeUInt8(0x80 | 126, 1)
  head.writeUInt16BE(bytes.length, 2)
  return Buffer.concat([head, bytes])
}

t.test('a message of 16 MB, one that is no WebSocket frame, and what is no command close the socket', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const large = await openProtocol(person, randomUUID())
  large.ws.send('x'.repeat(16 * 1024 * 1024))
  t.equal(await closing(large), 1009)

  const garbage = await openProtocol(person, randomUUID())
  for (let n = 0; n < 50; n++) garbage.ws.send(n % 2 ? '{"id":"x"}' : 'garbage')
  t.equal(await closing(garbage), 1008)
  t.ok(garbage.errors.length > 0 && garbage.errors.length <= 20)
  t.match(garbage.errors[0], { type: 'error', id: null, error: 'invalid_argument' })

  const deep = await openProtocol(person, randomUUID())
  deep.ws.send('['.repeat(100_000) + ']'.repeat(100_000))
  await until(() => deep.errors.length === 1, 'an answer')
  deep.ws.send(Buffer.from([0xff, 0xfe, 0x00]))
  await until(() => deep.errors.length === 2, 'another one')
  deep.close()

  const broken = await rawSocket(person, randomUUID())
  broken.resume()
  broken.write(Buffer.from('this is no frame of any kind'))
  await closed(broken)
  await until(() => site.sizes().places === 0, 'every place is free again')
  t.equal((await person.get('/health')).status, 200)
})

t.test('a thousand subscriptions are a hundred, and a flood of commands is ended', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const client = await openProtocol(person, randomUUID())
  const answers = await Promise.all(
    Array.from({ length: 500 }, () => client.command('subscription.subscribe', { channels: ['lifecycle'] }))
  )
  t.equal(answers.filter(({ type }) => type === 'success').length, 100)
  t.equal(answers.filter(({ error }) => error === 'invalid_argument').length, 400)
  await client.start(said('/demo deltas=1 rate=0'))
  await client.untilEnds(1)
  t.equal(client.events.length, 2, 'an event is told once, however many want it')
  client.close()
  const flood = await rawSocket(person, randomUUID())
  const gone = closed(flood)
  flood.resume()
  const many = frame(JSON.stringify({ id: 1, method: 'state.get', params: {} }))
  const writing = setInterval(() => flood.write(Buffer.concat(Array.from({ length: 2000 }, () => many))), 1)
  await gone
  clearInterval(writing)
  await until(() => site.sizes().places === 0, 'every place is free again')
})

t.test('who reads nothing is let go, and holds nothing up', async (t) => {
  const site = await openSite(t, { config: { streams: { stall_ms: 300, heartbeat_ms: 50 } } })
  const person = await signIn(site)
  const thread = randomUUID()
  const silent = await rawSocket(person, thread)
  silent.pause()
  const subscribe = {
    id: 1,
    method: 'subscription.subscribe',
    params: { channels: ['messages', 'values', 'lifecycle'] }
  }
  silent.write(frame(JSON.stringify(subscribe)))
  const reader = await openProtocol(person, thread)
  await reader.subscribe(['lifecycle'])
  await reader.start(said('/demo deltas=5000 size=2000 rate=0'))
  await reader.untilEnds(1)
  await until(() => site.sizes().places === 1, 'its place is free again')
  t.equal(reader.closed, null, 'who answers pings stays')
  silent.destroy()
  reader.close()
})

t.test('who answers no ping is let go, however little there is to send', async (t) => {
  const site = await openSite(t, { config: { streams: { stall_ms: 300, heartbeat_ms: 50 } } })
  const person = await signIn(site)
  const deaf = await rawSocket(person, randomUUID())
  deaf.resume()
  const reader = await openProtocol(person, randomUUID())
  await until(() => site.sizes().places === 1, 'its place is free again')
  t.equal(reader.closed, null, 'who answers them stays')
  deaf.destroy()
  reader.close()
})

t.test('who answers pings without reading is let go when nothing more goes into its socket', async (t) => {
  const site = await openSite(t, { config: { streams: { stall_ms: 1000, heartbeat_ms: 50 } } })
  const person = await signIn(site)
  const thread = randomUUID()
  const reader = await openProtocol(person, thread)
  await reader.subscribe(['lifecycle'])
  await reader.start(said('/demo deltas=500 size=2000 rate=0'))
  await reader.untilEnds(1)
  const silent = await rawSocket(person, thread)
  silent.pause()
  // Each subscription replays the run, until the buffers on the way are full.
  const params = { channels: ['messages'] }
  const subscribe = frame(JSON.stringify({ id: 1, method: 'subscription.subscribe', params }))
  const pong = Buffer.from([0x8a, 0x80, 0, 0, 0, 0])
  const writing = setInterval(() => silent.write(Buffer.concat([pong, subscribe])), 30)
  await until(() => site.sizes().places === 1, 'its place is free again')
  clearInterval(writing)
  t.equal(reader.closed, null)
  silent.destroy()
  reader.close()
})

t.test('sockets count as streams do, and end with the right that they were opened with', async (t) => {
  const site = await openSite(t, { config: { streams: { per_user: 3, heartbeat_ms: 50 } } })
  const person = await signIn(site)
  const open = await Promise.all(Array.from({ length: 3 }, () => openProtocol(person, randomUUID())))
  await t.rejects(openProtocol(person, randomUUID()), /429/)
  open[0]!.close()
  await until(() => site.sizes().places === 2, 'a place is free')
  const again = await openProtocol(person, randomUUID())
  await person.post('/api/v1/auth/logout')
  for (const client of [open[1]!, open[2]!, again]) t.equal(await closing(client), 4401)
  await t.rejects(openProtocol(person, randomUUID()), /401/)
})

t.test('a token may on a socket what its scopes say; a page of another site may nothing', async (t) => {
  const person = await signIn(await openSite(t))
  const made = await person.post('/api/v1/auth/tokens', { name: 'x', scopes: ['runs:read'] })
  const { WebSocket } = await import('ws')
  const url = person.url.replace('http', 'ws') + eventsPath(randomUUID())
  const status = async (headers: Record<string, string>) => {
    const ws = new WebSocket(url, { headers })
    return new Promise<string>((resolve) => {
      ws.once('open', () => {
        resolve('open')
        ws.terminate()
      })
      ws.once('error', ({ message }) => resolve(message))
    })
  }
  const authorization = `Bearer ${textIn(made.body, 'token')}`
  t.equal(await status({ authorization }), 'open')
  t.match(await status({}), '401')
  const { cookie = '' } = person.headers()
  t.match(await status({ cookie, origin: 'https://evil.example' }), '403')
  t.equal(await status({ cookie, origin: person.url }), 'open')
  const { ProtocolClient } = await import('../fixtures/protocol.ts')
  const client = new ProtocolClient(new WebSocket(url, { headers: { authorization } }))
  await once(client.ws, 'open')
  t.match(await client.command('run.start', { assistant_id: 'lead_agent', input: said('x') }), {
    error: 'permission_denied'
  })
  client.close()
})

t.test('a stop closes sockets with 1012, also those in the middle of a run', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const idle = await openProtocol(person, randomUUID())
  const busy = await openProtocol(person, randomUUID())
  await busy.subscribe()
  await busy.start(said(LONG))
  await until(() => busy.events.length > 3, 'it runs')
  await site.stop()
  t.equal(await closing(idle), 1012)
  t.equal(await closing(busy), 1012)
})

t.test('a WebSocket that was refused leaves no connection open, whatever its client goes on to say', async (t) => {
  const child = await besieged(t)
  const request = 'GET /none HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
  const sockets = await Promise.all(Array.from({ length: 8 }, () => dial(child)))
  const ports = sockets.map(({ localPort }) => localPort)
  for (const [at, socket] of sockets.entries()) {
    const answered = once(socket, 'data')
    socket.write(request)
    await answered
    socket.write('what nobody reads')
    // Half of them say nothing more, and do not end either.
    if (at % 2 === 0) socket.end()
  }
  await until(async () => !(await child.sockets()).some((port) => ports.includes(port)), 'they are gone')
  for (const socket of sockets) socket.destroy()
})

/** The head of a masked text frame that is not the last of its message, and its length. */
function beginning(length: number): Buffer {
  const head = Buffer.alloc(14)
  head.writeUInt8(0x01, 0)
  head.writeUInt8(0x80 | 127, 1)
  head.writeBigUInt64BE(BigInt(length), 2)
  return head
}

const MB = 1024 * 1024

t.test('subscriptions have a length, are refused above it, and are gone with their socket', async (t) => {
  const child = await besieged(t, {}, { env: { NODE_OPTIONS: '--max-old-space-size=256' } })
  const person = await signIn(child)
  const thread = await person.thread()
  const namespaces = (n: number) =>
    Array.from({ length: 64 }, (_, i) => Array.from({ length: 16 }, (_, j) => `${n} ${i} ${j}`.padEnd(256, 'x')))
  const before = await child.held()
  const answers = []
  for (let round = 0; round < 3; round++) {
    const client = await openProtocol(person, thread)
    const made = Array.from({ length: 100 }, (_, n) =>
      client.command('subscription.subscribe', { channels: ['messages'], namespaces: namespaces(n) })
    )
    answers.push(...(await Promise.all(made)))
    const small = { channels: ['messages'], namespaces: [['tools:1']] }
    t.match(await client.command('subscription.subscribe', small), { type: 'success' }, 'what is small is taken')
    const held = (await child.held()) - before
    t.ok(held < 16 * MB, `${(held / MB).toFixed(1)} MB are held`)
    client.close()
  }
  t.match(answers[0], { type: 'error', error: 'invalid_argument', message: /at most 65536 characters/ })
  t.ok(answers.every(({ type }) => type === 'error'))
  const long = { channels: ['messages'], namespaces: namespaces(0).slice(0, 12) }
  for (let n = 0; n < 1_100; n++) {
    const reading = new AbortController()
    const body = JSON.stringify({ ...long, namespaces: [[`${n}`], ...long.namespaces] })
    const headers = { ...person.headers(), 'content-type': 'application/json' }
    const response = await fetch(child.url + eventsPath(thread), {
      method: 'POST',
      body,
      headers,
      signal: reading.signal
    })
    t.equal(response.status, 200)
    reading.abort()
  }
  await until(async () => (await child.held()) - before < 8 * MB, 'nothing of them is left')
})

t.test('unfinished messages of all sockets of a user count with his bodies', async (t) => {
  const child = await besieged(t, {}, { env: { NODE_OPTIONS: '--max-old-space-size=256' } })
  const [person, other] = [await signIn(child), await signIn(child)]
  const before = await child.held()
  const half = Buffer.concat([beginning(2 * MB - 1), Buffer.alloc(MB, 'x')])
  const sockets = await Promise.all(Array.from({ length: 100 }, () => rawSocket(person, randomUUID())))
  const texts = sockets.map((socket) => {
    const heard: Buffer[] = []
    socket.on('data', (bytes: Buffer) => heard.push(bytes))
    return heard
  })
  for (const socket of sockets) socket.write(half)
  const refused = () => texts.filter((heard) => Buffer.concat(heard).includes('too many messages and bodies')).length
  await until(() => refused() >= 90, 'most of them are closed, and told why')
  const held = (await child.held()) - before
  t.ok(held < 38 * MB, `${(held / MB).toFixed(1)} MB are held`)
  const body = { values: { title: 'x'.repeat(60_000) } }
  const mine = await person.post(`/api/threads/${await person.thread()}/state`, body)
  t.equal((await other.post(`/api/threads/${await other.thread()}/state`, body)).status, 200, 'others have their own')
  t.ok([200, 429].includes(mine.status))
  for (const socket of sockets) socket.destroy()
  await until(async () => (await child.held()) - before < 16 * MB, 'nothing of them is left')
  t.equal((await person.post(`/api/threads/${await person.thread()}/state`, body)).status, 200)
})
