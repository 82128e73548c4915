// Answers: cookies, event streams and long waits, as the other end of the wire sees them.
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type Call, HANDLED, route } from '../../lib/http/route.ts'
import type { StreamWriter } from '../../lib/base/stream-writer.ts'
import { type DeferredJson, deferredJson, openStream } from '../../lib/http/streaming-response.ts'
import { breakOff, cookieText } from '../../lib/http/reply.ts'
import { BARE, openDoor } from '../fixtures/door.ts'
import { until } from '../fixtures/until.ts'

const LAST = Buffer.from('last\n\n')

t.test('[Auth 14] a cookie says no more than it must', async (t) => {
  const cookie = { name: 'a', value: 'b', httpOnly: true, sameSite: 'Lax', secure: false } as const
  t.equal(cookieText(cookie), 'a=b; Path=/; HttpOnly; SameSite=Lax')
  t.equal(
    cookieText({ ...cookie, secure: true, maxAge: 60 }),
    'a=b; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax'
  )
  t.match(cookieText({ ...cookie, value: '', maxAge: 0 }), /^a=; Path=\/; Max-Age=0; Expires=Thu, 01 Jan 1970/)
})

t.test('JSON goes out with its length in bytes; text that is made already goes out as it is', async (t) => {
  const door = await openDoor(t, [
    route({
      ...BARE,
      method: 'GET',
      path: '/json',
      access: 'public',
      handler: () => ({ status: 201, json: { a: 'é😀\ud800' }, headers: { 'X-A': 'b' } })
    }),
    route({ ...BARE, method: 'GET', path: '/text', access: 'public', handler: () => ({ jsonText: '{"a": 1.0}' }) }),
    route({ ...BARE, method: 'GET', path: '/null', access: 'public', handler: () => ({ json: null }) }),
    route({ ...BARE, method: 'GET', path: '/202', access: 'public', handler: () => ({ status: 202 }) }),
    route({ ...BARE, method: 'GET', path: '/204', access: 'public', handler: () => ({ status: 204 }) })
  ])
  t.match(await door.knock('GET', '/json'), {
    status: 201,
    text: '{"a":"é😀\ufffd"}',
    headers: { 'x-a': 'b', 'content-length': '17' }
  })
  t.equal((await door.knock('GET', '/text')).text, '{"a": 1.0}')
  t.equal((await door.knock('GET', '/null')).text, 'null')
  t.match(await door.knock('GET', '/202'), { status: 202, text: '', headers: { 'content-length': '0' } })
  const none = await door.knock('GET', '/204')
  t.strictSame([none.status, none.headers['content-length'], none.headers['content-type']], [204, undefined, undefined])
})

interface Opened<Kind> {
  readonly it: Kind
  readonly call: Call
}

/** A door with one route that opens an answer and hands it to the test. */
async function opening<Kind>(t: Test, open: (call: Call) => Kind) {
  const waiting: ((opened: Opened<Kind>) => void)[] = []
  const handler = (call: Call) => {
    waiting.shift()?.({ it: open(call), call })
    return HANDLED
  }
  const door = await openDoor(t, [route({ ...BARE, method: 'GET', path: '/open', access: 'public', handler })])
  const next = () => new Promise<Opened<Kind>>((resolve) => waiting.push(resolve))
  return { door, next }
}

async function request(port: number, agent = new Agent({ keepAlive: true })): Promise<IncomingMessage> {
  const req = get({ port, host: '127.0.0.1', path: '/open', agent })
  // A reset is told to the request as well as to the response, which the tests look at.
  req.on('error', () => {})
  const [response] = await once(req, 'response')
  return response
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of response) text += part
  return text
}

t.test('the head of a stream arrives before its first frame', async (t) => {
  const { door, next } = await opening(t, (call) =>
    openStream(call, { headers: { 'Content-Location': '/api/threads/T/runs/R' } })
  )
  const opened = next()
  const response = await request(door.port)
  t.match(response, {
    statusCode: 200,
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      connection: 'keep-alive',
      'content-location': '/api/threads/T/runs/R'
    }
  })
  const { it: wire } = await opened
  const text = textOf(response)
  t.equal(wire.write(Buffer.from('event: a\n\n')), true)
  wire.end(Buffer.from('event: b\n\n'))
  t.equal(await text, 'event: a\n\nevent: b\n\n')
})

t.test('a stream to an HTTP/1.0 client is not chunked and ends with the connection', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  for (const extra of ['', 'Connection: keep-alive\r\n']) {
    void next().then(({ it: wire }) => {
      wire.end(Buffer.from('data: 1\n\n'))
    })
    const text = await door.raw(`GET /open HTTP/1.0\r\n${extra}\r\n`)
    const [head = '', body] = text.split('\r\n\r\n')
    t.notMatch(head, /transfer-encoding/i)
    t.match(head, /^Connection: close$/im)
    t.equal(body, 'data: 1\n\n')
  }
})

t.test('HEAD of a stream is its head, and its wire is closed', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const closed = next().then(({ it: wire }) => {
    t.equal(wire.write(Buffer.from('x')), false)
    return new Promise<void>((resolve) => wire.onClose(resolve))
  })
  t.match(await door.knock('HEAD', '/open'), { status: 200, text: '', headers: { 'content-type': /event-stream/ } })
  await closed
})

t.test('a client that does not read makes write answer false, and drain tells when it reads again', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const opened = next()
  const response = await request(door.port)
  const { it: wire } = await opened
  const frame = Buffer.alloc(65_536, 0x61)
  let frames = 1
  while (wire.write(frame)) frames++
  const drained = new Promise<void>((resolve) => wire.onDrain(resolve))
  const text = textOf(response)
  await drained
  wire.end(frame)
  t.equal((await text).length, (frames + 1) * frame.length, 'nothing is lost')
})

t.test('streams and answers follow each other on one connection, however their bytes are framed', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const one = 'GET /open HTTP/1.1\r\nHost: x\r\n\r\n'
  // The second request is here before the first is answered: it has no socket of its own until then.
  const wires = Promise.all([next(), next()])
  const raw = door.raw(`${one}${one.replace('Host', 'Connection: close\r\nHost')}`)
  const [{ it: first }, { it: second }] = await wires
  second.write(Buffer.from('data: second\n\n'))
  first.write(Buffer.from('data: first\n\n'))
  first.end(LAST)
  second.end(LAST)
  const answers = (await raw).split('HTTP/1.1 200 OK').slice(1)
  t.match(answers[0], /\r\n\r\nd\r\ndata: first\n\n\r\n6\r\nlast\n\n\r\n0\r\n\r\n$/)
  t.match(answers[1], /\r\n\r\ne\r\ndata: second\n\n\r\n6\r\nlast\n\n\r\n0\r\n\r\n$/)
})

t.test('a connection that has carried streams is left as it was found: nobody listens to it any more', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const seen = new Set<unknown>()
  const listeners: number[] = []
  for (let n = 0; n < 20; n++) {
    const opened = next()
    const response = await request(door.port, agent)
    const { call, it: wire } = await opened
    seen.add(call.res.socket)
    wire.onDrain(() => {})
    wire.write(Buffer.from(`data: ${n}\n\n`))
    listeners.push(call.res.socket?.listenerCount('drain') ?? 0)
    wire.end(LAST)
    t.equal(await textOf(response), `data: ${n}\n\nlast\n\n`)
  }
  t.equal(seen.size, 1, 'it was one connection')
  t.equal(new Set(listeners).size, 1, 'listeners do not add up')
})

t.test('a reset looks like a failure to the client and not like an end', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const opened = next()
  const response = await request(door.port)
  const { it: wire } = await opened
  let closings = 0
  const closed = new Promise<void>((resolve) =>
    wire.onClose(() => {
      closings++
      resolve()
    })
  )
  const failed = t.rejects(textOf(response), { code: 'ECONNRESET' })
  wire.reset()
  await Promise.all([closed, failed])
  t.equal(wire.write(Buffer.from('x')), false, 'writing to a closed wire is no error')
  wire.end(LAST)
  wire.reset()
  await new Promise<void>((resolve) => wire.onClose(resolve))
  t.equal(closings, 1)
})

t.test('onClose hears a client that leaves, and an end of our own', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const first = next()
  const response = await request(door.port)
  const { it: left } = await first
  const gone = new Promise<void>((resolve) => left.onClose(resolve))
  response.destroy()
  await gone
  const second = next()
  const rest = request(door.port).then(textOf)
  const { it: ended } = await second
  const closed = new Promise<void>((resolve) => ended.onClose(resolve))
  ended.end(LAST)
  await Promise.all([closed, rest])
  t.strictSame(door.logged, [])
})

t.test('bytes that several wires share stay as they are', async (t) => {
  const { door, next } = await opening(t, (call) => openStream(call))
  const opened: StreamWriter[] = []
  const texts: Promise<string>[] = []
  for (let i = 0; i < 5; i++) {
    const one = next()
    texts.push(textOf(await request(door.port)))
    opened.push((await one).it)
  }
  const shared = Buffer.from('data: same\n\n')
  for (const wire of opened) wire.write(shared)
  for (const wire of opened) wire.end(LAST)
  t.strictSame(await Promise.all(texts), Array(5).fill('data: same\n\nlast\n\n'))
  t.equal(shared.toString(), 'data: same\n\n')
})

t.test('a long wait is one JSON text with blanks before it', async (t) => {
  const { door, next } = await opening(t, (call) => deferredJson(call, { headers: { 'Content-Location': '/r' } }))
  const opened: Promise<Opened<DeferredJson>> = next()
  const response = await request(door.port)
  t.match(response.headers, { 'content-type': 'application/json', 'content-location': '/r' })
  const { it: reply } = await opened
  reply.beat()
  reply.beat()
  reply.end('{"a":"é"}')
  const text = await textOf(response)
  t.equal(text, '  {"a":"é"}')
  t.strictSame(JSON.parse(text), { a: 'é' })
  reply.beat()
  reply.end('late')
})

t.test('a long wait that is broken off is no answer', async (t) => {
  const { door, next } = await opening(t, (call) => deferredJson(call))
  const opened = next()
  const response = await request(door.port)
  const { it: reply } = await opened
  const closed = new Promise<void>((resolve) => reply.onClose(resolve))
  const failed = t.rejects(textOf(response), { code: 'ECONNRESET' })
  reply.reset()
  await Promise.all([closed, failed])
})

t.test('a connection that is just being closed can be broken off, and nothing of it stays open', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  // The address of a server that listens on a port.
  const { port } = server.address() as AddressInfo
  const pauses = {
    'in the same turn': (go: () => void) => go(),
    'while its FIN is on the way': (go: () => void) => process.nextTick(go),
    'in the next turn': (go: () => void) => void setImmediate(go)
  }
  for (const [when, pause] of Object.entries(pauses)) {
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    client.resume().on('error', () => {})
    // 'connection' comes with the socket.
    const [socket] = (await once(server, 'connection')) as [Socket]
    let isClosed = false
    socket
      .on('error', () => {})
      .on('close', () => {
        isClosed = true
      })
    socket.end()
    pause(() => breakOff(socket))
    await until(() => isClosed, `closed when broken off ${when}`)
    client.destroy()
  }
  const isOpen = () => process.getActiveResourcesInfo().includes('TCPSocketWrap')
  await until(() => !isOpen(), 'no socket stays open')
})
