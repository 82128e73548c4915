// Connections: odd ones, silent ones, and how a server ends them.
import { once } from 'node:events'
import { Agent, get } from 'node:http'
import t, { type Test } from 'tap'
import * as v from 'valibot'
import { fail } from '../../lib/base/errors.ts'
import { Proxies } from '../../lib/http/address.ts'
import { HANDLED, route } from '../../lib/http/route.ts'
import { Origins } from '../../lib/http/entry.ts'
import { sendRanged } from '../../lib/http/range.ts'
import { deferredJson, openStream } from '../../lib/http/streaming-response.ts'
import { acceptWebSocket, textFrames } from '../../lib/http/web-socket.ts'
import { BARE, aRoute, health, openDoor } from '../fixtures/door.ts'
import { loopTurns, until } from '../fixtures/until.ts'

/** Counts what happens in each turn of the loop. */
function countTurns(t: Test): { note(): void; most(): number } {
  let [now, most] = [0, 0]
  const turn = () => {
    now = 0
    next = setImmediate(turn)
  }
  let next = setImmediate(turn)
  t.teardown(() => clearImmediate(next))
  return {
    note: () => {
      most = Math.max(most, ++now)
    },
    most: () => most
  }
}

t.test('heads that cannot be read are 4xx or a closed connection', async (t) => {
  const door = await openDoor(t, [health])
  const get = 'GET /health HTTP/1.1\r\nHost: x\r\n'
  const post = 'POST /health HTTP/1.1\r\nHost: x\r\n'
  const cases: Record<string, [string, RegExp]> = {
    'a header of 100 KB': [`${get}X-Big: ${'a'.repeat(102_400)}\r\n\r\n`, /^(HTTP\/1\.1 431 |$)/],
    '3,000 headers': [`${get}${'X-A: vvvvvvvvvvvvvvvvvvvv\r\n'.repeat(3_000)}\r\n`, /^(HTTP\/1\.1 431 |$)/],
    'a long target': [`GET /${'a'.repeat(102_400)} HTTP/1.1\r\nHost: x\r\n\r\n`, /^(HTTP\/1\.1 431 |$)/],
    'no colon': [`${get}this is no header\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'control characters': [`${get}X-Y: a\u0001\u0000b\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'two lengths': [`${post}Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}abc`, /^HTTP\/1\.1 400 /],
    'length and chunked': [
      `${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      /^HTTP\/1\.1 400 /
    ],
    'a negative length': [`${post}Content-Length: -1\r\n\r\n`, /^HTTP\/1\.1 400 /],
    'a bare CR': [`${post}X: a\rContent-Length: 2\r\n\r\n{}`, /^HTTP\/1\.1 400 /],
    'no host': ['GET /health HTTP/1.1\r\n\r\n', /^HTTP\/1\.1 400 /],
    'an unknown method': ['FOO /health HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
    TLS: ['\u0016\u0003\u0001\u0002\r\n\r\n', /^HTTP\/1\.1 400 /],
    'another version': ['GET /health HTTP/9.9\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
    CONNECT: ['CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n', /^$/]
  }
  for (const [what, [bytes, expected]] of Object.entries(cases)) t.match(await door.raw(bytes), expected, what)
  t.equal((await door.knock('GET', '/health')).status, 200)
})

t.test('a bad chunk in a body that is being read is 400', async (t) => {
  const door = await openDoor(t, [
    route({
      ...BARE,
      method: 'POST',
      path: '/b',
      access: 'public',
      csrf: 'exempt',
      body: v.object({}),
      handler: () => ({})
    })
  ])
  t.match(
    await door.raw('POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n'),
    /^HTTP\/1\.1 400 /
  )
})

t.test('an upgrade that is not spoken is passed over, an odd expectation is refused', async (t) => {
  const echo = route({
    ...BARE,
    method: 'POST',
    path: '/echo',
    access: 'public',
    csrf: 'exempt',
    body: v.looseObject({}),
    handler: ({ body }) => ({ json: body })
  })
  const door = await openDoor(t, [health, aRoute({}), echo])
  const upgrade = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c, nonsense\r\n\r\n'
  t.match(await door.raw(`GET /health HTTP/1.1\r\n${upgrade}`, 'healthy'), /^HTTP\/1\.1 200 /)
  t.match(await door.raw(`GET /api/x HTTP/1.1\r\n${upgrade}`, 'not_authenticated'), /^HTTP\/1\.1 401 /)
  const body = 'Content-Length: 9\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n{"a": 1 }'
  t.match(await door.raw(`POST /echo HTTP/1.1\r\nHost: x\r\n${body}`, '"a"'), /^HTTP\/1\.1 200 [\s\S]*\{"a":1\}/)
  t.match(
    await door.raw(
      'POST /api/x HTTP/1.1\r\nHost: x\r\nExpect: the-unexpected\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
    ),
    /^HTTP\/1\.1 417 /
  )
})

t.test('a request for a WebSocket is guarded and answered like any other, until its route accepts it', async (t) => {
  const socket = aRoute({
    path: '/ws',
    handler: (call) => {
      acceptWebSocket(call, { maxBytes: 1000 })
      return HANDLED
    }
  })
  const door = await openDoor(t, [health, socket, aRoute({})])
  const ask = (path: string, headers = '', end?: string) =>
    door.raw(
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${headers}\r\n`,
      end
    )
  const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  const ann = 'Cookie: access_token=token-ann\r\n'
  t.match(await ask('/ws', key), /^HTTP\/1\.1 401 [\s\S]*not_authenticated/)
  t.match(await ask('/nothing', key), /^HTTP\/1\.1 401 /)
  t.match(await ask('/health', key), /^HTTP\/1\.1 200 [\s\S]*healthy/)
  t.match(await ask('/ws', `${ann}${key}Origin: http://evil.example\r\n`), /^HTTP\/1\.1 403 /)
  t.match(await ask('/ws', ann), /^HTTP\/1\.1 400 /, 'without a key')
  t.match(await ask('/ws', `${ann}${key}`, '\r\n\r\n'), /^HTTP\/1\.1 101 /)
  t.match(
    await door.raw(`GET /ws HTTP/1.1\r\nHost: x\r\n${ann}Connection: close\r\n\r\n`),
    /^HTTP\/1\.1 426 [\s\S]*Upgrade: websocket/
  )
})

t.test(
  'a request for a WebSocket behind one that is not answered yet ends its connection, and nothing else',
  async (t) => {
    const wait = aRoute({
      path: '/wait',
      access: 'public',
      handler: (call) => {
        deferredJson(call)
        return HANDLED
      }
    })
    const door = await openDoor(t, [health, wait])
    const socket = await door.connect()
    socket.on('error', () => {})
    const closed = once(socket, 'close')
    socket.write(
      'GET /wait HTTP/1.1\r\nHost: x\r\n\r\nGET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
    )
    await closed
    t.equal((await door.knock('GET', '/health')).status, 200)
  }
)

t.test('pipelined requests are answered in their order', async (t) => {
  const door = await openDoor(t, [
    aRoute({
      path: '/n/{n}',
      access: 'public',
      handler: async ({ params }) => {
        if (Number(params.n) % 2) await new Promise((resolve) => setImmediate(resolve))
        return { json: `n${params.n}.` }
      }
    })
  ])
  const requests = Array.from({ length: 8 }, (_, i) => `GET /n/${i} HTTP/1.1\r\nHost: x\r\n\r\n`).join('')
  const text = await door.raw(requests, '"n7."')
  t.strictSame(
    [...text.matchAll(/"n(\d+)\."/g)].map((match) => Number(match[1])),
    Array.from({ length: 8 }, (_, i) => i)
  )
})

t.test('connections that say nothing, stop in the head or stop in the body hold nobody up', async (t) => {
  const door = await openDoor(t, [health])
  const sockets = await Promise.all(Array.from({ length: 60 }, () => door.connect()))
  sockets.forEach((socket, i) => {
    socket.on('error', () => {})
    if (i % 3 === 1) socket.write('POST /health HTTP/1.1\r\nHost: x\r\nX-Slow: ')
    if (i % 3 === 2) socket.write('POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"a":')
  })
  t.equal((await door.knock('GET', '/health')).status, 200)
  for (const socket of sockets) socket.destroy()
})

t.test('a head that is too large is 431 on a connection that was used before, too', async (t) => {
  const door = await openDoor(t, [health])
  const socket = await door.connect()
  let text = ''
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  socket.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => text.includes('healthy'), 'the first answer')
  text = ''
  const closed = once(socket, 'close')
  socket.write(`GET /health HTTP/1.1\r\nHost: x\r\nX-Big: ${'a'.repeat(20_000)}\r\n\r\n`)
  await closed
  t.match(text, /^HTTP\/1\.1 431 /)
})

t.test(
  'of a pipeline deeper than any client makes one the first requests are answered, and the connection ends',
  async (t) => {
    let served = 0
    const counted = aRoute({
      path: '/counted',
      access: 'public',
      handler: () => {
        served++
        return { json: served }
      }
    })
    const door = await openDoor(t, [counted])
    const socket = await door.connect()
    let text = ''
    socket.on('data', (bytes) => {
      text += String(bytes)
    })
    const closed = once(socket, 'close')
    socket.on('error', () => {})
    socket.write('GET /counted HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1_000))
    await closed
    t.equal(served, 32)
    t.strictSame(
      [...text.matchAll(/^(\d+)(?=HTTP|$)/gm)].map(([, n]) => Number(n)),
      Array.from({ length: 32 }, (_, n) => n + 1)
    )
  }
)

t.test('of files that are read a few pieces are sent per turn of the loop, to however many readers', async (t) => {
  const loop = countTurns(t)
  const piece = Buffer.alloc(65_536)
  const count = 8
  const file = aRoute({
    path: '/file',
    access: 'public',
    handler: (call) => {
      const read = async function* () {
        yield piece
        for (let n = 1; n < count; n++) {
          // Whoever asks for this one has sent the one before.
          loop.note()
          yield piece
        }
      }
      return sendRanged(call, { size: count * piece.length, tag: '"a"', headers: {}, read }, 60_000)
    }
  })
  const door = await openDoor(t, [file])
  const sockets = await Promise.all(Array.from({ length: 60 }, () => door.connect()))
  // One is accepted per turn.
  await loopTurns(2 * sockets.length)
  const ends = sockets.map((socket) => once(socket, 'end'))
  let bytes = 0
  for (const socket of sockets) {
    socket.on('data', (chunk) => {
      bytes += chunk.length
    })
    socket.write('GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  }
  await Promise.all(ends)
  t.ok(bytes > sockets.length * count * piece.length, 'all of it comes')
  t.ok(loop.most() <= 16, `${loop.most()} in one turn`)
})

t.test(
  'all connections together have a number of pipelined requests; with more each has one behind its first',
  async (t) => {
    let open = 0
    const wait = aRoute({
      path: '/wait',
      access: 'public',
      handler: (call) => {
        open++
        deferredJson(call).onClose(() => open--)
        return HANDLED
      }
    })
    const door = await openDoor(t, [wait, health])
    const sockets = await Promise.all(Array.from({ length: 40 }, () => door.connect()))
    for (const socket of sockets) {
      socket.on('error', () => {})
      socket.write('GET /wait HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(32))
    }
    await until(() => open >= 512 + 40, 'so many are served')
    await loopTurns(400)
    t.ok(open <= 512 + 2 * 40, `${open} are under way`)
    t.equal((await door.knock('GET', '/health')).status, 200)
    for (const socket of sockets) socket.resetAndDestroy()
    await until(() => open === 0, 'all of them are gone')
    const text = await door.raw('GET /health HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(40))
    t.equal(text.match(/healthy/g)?.length, 32, 'and their room is there again')
  }
)

t.test('of pipelined requests a few are begun per turn of the loop, of however many connections', async (t) => {
  const loop = countTurns(t)
  const numbered = aRoute({
    path: '/n/{n}',
    access: 'public',
    handler: ({ params }) => {
      if (params.n !== '0') loop.note()
      return { json: `n${params.n}.` }
    }
  })
  const door = await openDoor(t, [numbered])
  const requests = Array.from({ length: 10 }, (_, n) => `GET /n/${n} HTTP/1.1\r\nHost: x\r\n\r\n`).join('')
  const sockets = await Promise.all(Array.from({ length: 50 }, () => door.connect()))
  const texts = sockets.map(() => '')
  sockets.forEach((socket, i) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      texts[i] += bytes.toString('latin1')
    })
    socket.write(requests)
  })
  await until(() => texts.every((text) => text.includes('"n9."')), 'all are answered')
  t.ok(loop.most() <= 10, `${loop.most()} in one turn`)
  for (const socket of sockets) socket.destroy()
})

t.test(
  '[16.2.4] an answer that waits behind another one hears that its client has gone, and lets go of everything',
  async (t) => {
    let open = 0
    const wires = ['/stream', '/wait'].map((path) =>
      aRoute({
        path,
        access: 'public',
        handler: (call) => {
          open++
          const answer = path === '/wait' ? deferredJson(call) : openStream(call)
          answer.onClose(() => open--)
          return HANDLED
        }
      })
    )
    const door = await openDoor(t, wires)
    for (const path of ['/stream', '/wait']) {
      const socket = await door.connect()
      socket.on('error', () => {})
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(8))
      await until(() => open === 8, 'all of them wait')
      socket.resetAndDestroy()
      await until(() => open === 0, `${path} leaves nothing`)
    }
  }
)

// -------------------------------------------------------------------------------------------- the end

t.test('close ends idle and silent connections at once and takes no new ones', async (t) => {
  const door = await openDoor(t, [health])
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const [response] = await once(get({ port: door.port, host: '127.0.0.1', path: '/health', agent }), 'response')
  response.resume()
  await once(response, 'end')
  const silent = await door.connect()
  const gone = once(silent, 'close')
  await door.server.close(600_000)
  await gone
  await t.rejects(door.knock('GET', '/health'), { code: 'ECONNREFUSED' })
})

t.test('close waits for a request under way and says on it that the connection ends', async (t) => {
  let release = () => {}
  let started = () => {}
  const isStarted = new Promise<void>((resolve) => {
    started = resolve
  })
  const slow = aRoute({
    path: '/slow',
    access: 'public',
    handler: async () => {
      started()
      await new Promise<void>((resolve) => {
        release = resolve
      })
      return { json: 'done' }
    }
  })
  const door = await openDoor(t, [slow])
  const answer = door.knock('GET', '/slow')
  await isStarted
  const closed = door.server.close(600_000)
  t.equal(door.server.close(0), closed, 'closing twice is closing once')
  release()
  t.equal((await answer).body, 'done')
  await closed
})

t.test('what does not end within the grace is reset', async (t) => {
  const endless = aRoute({
    path: '/endless',
    access: 'public',
    handler: (call) => {
      openStream(call)
      return HANDLED
    }
  })
  const door = await openDoor(t, [endless])
  const broken = new Promise<Error>((resolve) => {
    const req = get({ port: door.port, host: '127.0.0.1', path: '/endless', agent: false }, (response) => {
      response.on('error', resolve).resume()
      void door.server.close(10)
    })
    // The request hears of the reset as well.
    req.on('error', () => {})
  })
  t.match(await broken, { code: 'ECONNRESET' })
  await door.server.close(10)
})

t.test('a port that is taken is refused to who asks for it', async (t) => {
  const door = await openDoor(t, [health])
  const other = await openDoor(t, [health])
  await other.server.close(0)
  const { HttpServer } = await import('../../lib/http/server.ts')
  const third = new HttpServer({
    routes: [],
    authenticate: async () => fail('token_invalid'),
    threadOwner: async () => undefined,
    origins: new Origins([], () => {}),
    proxies: new Proxies([], () => {}),
    log: { info() {}, warn() {}, error() {} }
  })
  await t.rejects(third.listen(door.port, '127.0.0.1'), { code: 'EADDRINUSE' })
})

t.test('a message that does not arrive in time closes its WebSocket; between messages there is time', async (t) => {
  const socket = aRoute({
    path: '/ws',
    handler: (call) => {
      const line = acceptWebSocket(call, { maxBytes: 1000, arrivesWithin: 60 })
      line.onText((text) => line.write(textFrames([text])))
      line.onPing((pong) => line.write(pong))
      return HANDLED
    }
  })
  const door = await openDoor(t, [socket])
  const open = async () => {
    const ws = await door.connect()
    const heard: Buffer[] = []
    ws.on('data', (bytes: Buffer) => heard.push(bytes)).on('error', () => {})
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
    const head = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nCookie: access_token=token-ann\r\n'
    ws.write(`GET /ws HTTP/1.1\r\n${head}${key}\r\n`)
    const text = () => Buffer.concat(heard).toString('latin1')
    await until(() => text().includes('\r\n\r\n'), 'it is open')
    return { ws, text }
  }
  const frame = (first: number, text: string) => {
    const head = Buffer.from([first, 0x80 | text.length, 0, 0, 0, 0])
    return Buffer.concat([head, Buffer.from(text)])
  }
  const slow = await open()
  // Pings are no part of the message, and gain it no time.
  slow.ws.write(Buffer.concat([frame(0x01, 'half'), frame(0x89, 'ping')]))
  await until(() => slow.text().includes('did not arrive in time'), 'the slow one is closed')
  const steady = await open()
  for (let n = 0; n < 5; n++) {
    // Its end and the beginning of the next come together, byte by byte.
    for (const byte of Buffer.concat([frame(0x01, 'a'), frame(0x89, ''), frame(0x80, `b${n}`)]))
      steady.ws.write(Buffer.of(byte))
    await until(() => steady.text().includes(`ab${n}`), 'it is answered')
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
  t.notOk(steady.text().includes('in time'))
  slow.ws.destroy()
  steady.ws.destroy()
})
