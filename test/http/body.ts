// A body on its way in over the wire: its form, its limit, and clients that stop in the middle.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import * as v from 'valibot'
import { Budget } from '../../lib/base/budget.ts'
import { parseJson } from '../../lib/http/body.ts'
import { route } from '../../lib/http/route.ts'
import { BARE, aRoute, openDoor } from '../fixtures/door.ts'
import { until } from '../fixtures/until.ts'

const echo = route({
  ...BARE,
  method: 'POST',
  path: '/echo',
  access: 'public',
  csrf: 'exempt',
  body: v.looseObject({}),
  handler: ({ body }) => ({ json: body })
})
const form = route({
  ...BARE,
  method: 'POST',
  path: '/form',
  access: 'public',
  csrf: 'exempt',
  form: true,
  body: v.object({ username: v.string(), password: v.string() }),
  handler: ({ body }) => ({ json: [body.username, body.password] })
})
const optional = route({
  ...BARE,
  method: 'POST',
  path: '/optional',
  access: 'public',
  csrf: 'exempt',
  bodyOptional: true,
  body: v.object({ a: v.optional(v.string(), 'none') }),
  handler: ({ body }) => ({ json: body.a })
})
const ignored = route({
  ...BARE,
  method: 'POST',
  path: '/ignored',
  access: 'public',
  csrf: 'exempt',
  handler: () => ({ status: 202 })
})
const small = route({
  ...BARE,
  method: 'POST',
  path: '/small',
  access: 'public',
  csrf: 'exempt',
  bodyLimit: 10,
  body: v.looseObject({}),
  handler: () => ({})
})
const routes = [echo, form, optional, ignored, small]

t.test('a body is JSON whatever its content type says', async (t) => {
  const door = await openDoor(t, routes)
  const types = [
    'text/plain',
    'multipart/form-data',
    'application/x-www-form-urlencoded',
    'application/json; charset=utf-16',
    'application/json; charset="',
    '/',
    'x'.repeat(2_000)
  ]
  for (const type of types) {
    const answer = await door.knock('POST', '/echo', { body: '{"a":1}', headers: { 'content-type': type } })
    t.strictSame([answer.status, answer.body], [200, { a: 1 }], type.slice(0, 40))
  }
})

t.test('a route with a form takes a form, and JSON too', async (t) => {
  const door = await openDoor(t, routes)
  const urlencoded = { 'content-type': 'Application/x-www-form-urlencoded; charset=utf-8' }
  t.strictSame((await door.knock('POST', '/form', { body: 'username=a%40b&password=c+d', headers: urlencoded })).body, [
    'a@b',
    'c d'
  ])
  t.strictSame((await door.knock('POST', '/form', { body: { username: 'a', password: 'b' } })).body, ['a', 'b'])
  for (const body of ['username', '&&&===', 'username[]=a&password[]=b', 'username=a']) {
    t.equal((await door.knock('POST', '/form', { body, headers: urlencoded })).status, 422, body)
  }
  t.equal((await door.knock('POST', '/form', { body: 'username=%zz&password=%', headers: urlencoded })).status, 200)
})

t.test('what is no object, and nothing at all, is 422', async (t) => {
  const door = await openDoor(t, routes)
  for (const body of ['[]', '"x"', '1', 'true', 'null']) {
    t.match(await door.knock('POST', '/echo', { body }), {
      status: 422,
      body: { detail: [{ type: 'model_attributes_type', loc: ['body'] }] }
    })
  }
  for (const how of [{}, { body: '' }]) {
    t.match(await door.knock('POST', '/echo', how), {
      status: 422,
      body: { detail: [{ type: 'missing', loc: ['body'] }] }
    })
  }
})

t.test('an optional body may be empty, null or left out', async (t) => {
  const door = await openDoor(t, routes)
  for (const how of [{}, { body: '' }, { body: 'null' }, { body: '{}' }]) {
    t.strictSame((await door.knock('POST', '/optional', how)).body, 'none')
  }
  t.equal((await door.knock('POST', '/optional', { body: '{' })).status, 422)
})

t.test('a body over the limit is 413, by its announced length and by what comes', async (t) => {
  const door = await openDoor(t, routes)
  const exact = await door.knock('POST', '/small', { body: '{"a":"bc"}' })
  t.equal(exact.status, 200, 'the limit itself is allowed')
  t.match(await door.knock('POST', '/small', { body: '{"a":"bcd"}' }), { status: 413, body: { detail: /10 bytes/ } })
  const chunked = 'POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{"a":"bcd"}\r\n0\r\n\r\n'
  t.match(await door.raw(chunked), /^HTTP\/1\.1 413 /)
})

t.test('a body without end is not read for ever, and its sender sees why', async (t) => {
  const door = await openDoor(t, routes)
  const socket = await door.connect()
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(1_048_576, 0x61), Buffer.from('\r\n')])
  const most = 400
  let sent = 0
  let text = ''
  socket.on('error', () => {})
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  const push = () => {
    while (sent < most && socket.writable && socket.write(chunk)) sent++
    sent++
  }
  socket.on('drain', push)
  socket.write('POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n')
  push()
  await new Promise((resolve) => socket.on('close', resolve))
  t.match(text, /^HTTP\/1\.1 413 /)
  t.ok(sent < most, `${sent} MiB were taken`)
})

t.test('of refused bodies a little is discarded per turn of the loop, however many come at once', async (t) => {
  const mb = 1024 * 1024
  const accepted: Socket[] = []
  // As node:net documents it.
  const keep = (message: unknown) => void accepted.push((message as { readonly socket: Socket }).socket)
  subscribe('net.server.socket', keep)
  t.teardown(() => unsubscribe('net.server.socket', keep))
  const door = await openDoor(t, routes)
  const sockets = await Promise.all(Array.from({ length: 20 }, () => door.connect()))
  await until(() => accepted.length === sockets.length, 'all are accepted')
  const texts = new Map<Socket, string>()
  for (const socket of sockets) {
    socket.on('error', () => {})
    socket.on('data', (bytes) => texts.set(socket, `${texts.get(socket) ?? ''}${bytes.toString('latin1')}`))
    socket.write('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n')
    socket.write(Buffer.alloc(4 * mb))
  }
  let [most, later, before] = [0, 0, 0]
  while (before < 16 * mb && sockets.some((socket) => !socket.destroyed)) {
    await turn()
    const read = accepted.reduce((sum, socket) => sum + socket.bytesRead, 0)
    most = Math.max(most, read - before)
    if (before > 5 * mb) later = Math.max(later, read - before)
    before = read
  }
  // What comes with the heads is read before anything is refused.
  t.ok(most <= 4 * mb, `${(most / mb).toFixed(1)} MB in one turn`)
  t.ok(later <= mb / 2, `${(later / mb).toFixed(1)} MB in a later one`)
  await until(() => texts.size === sockets.length, 'all are answered')
  for (const text of texts.values()) t.match(text, /^HTTP\/1\.1 413 /)
  for (const socket of sockets) socket.destroy()
})

t.test('[18.A.1] bodies on their way have a budget for each sender and one for all, and give it back', (t) => {
  const budget = new Budget({ each: 10, all: 25 })
  const [ann, ben, cid] = ['ann', 'ben', 'cid'].map((name) => budget.share(name))
  t.ok(ann!.take(10))
  t.notOk(ann!.take(1), 'a sender has no more')
  t.notOk(budget.share('ann').take(1), 'over all its requests')
  t.ok(ben!.take(10))
  t.notOk(cid!.take(6), 'all of them have no more')
  t.ok(cid!.take(5))
  for (const share of [ann, ben, cid, cid]) share!.release()
  t.equal(budget.held, 0)
  t.end()
})

t.test('a large body of a route that reads none is thrown away and the answer arrives', async (t) => {
  const door = await openDoor(t, routes)
  t.equal((await door.knock('POST', '/ignored', { body: Buffer.alloc(5_000_000) })).status, 202)
})

t.test('a client that hangs up in the middle of its body does no harm', async (t) => {
  const door = await openDoor(t, routes)
  for (let i = 0; i < 20; i++) {
    const socket = await door.connect()
    socket.on('error', () => {})
    socket.write('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"a":')
    if (i % 2) socket.resetAndDestroy()
    else socket.destroy()
  }
  t.equal((await door.knock('POST', '/echo', { body: {} })).status, 200)
  t.strictSame(door.logged, [])
})

t.test('bodies of pipelined requests do not run into each other', async (t) => {
  const door = await openDoor(t, routes)
  const bodies = Array.from({ length: 20 }, (_, i) => JSON.stringify({ n: i, pad: 'x'.repeat(i * 400) }))
  const requests = bodies.map(
    (body) => `POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
  const text = await door.raw(`${requests.join('')}GET /last HTTP/1.1\r\nHost: x\r\n\r\n`, '"detail"')
  const echoed = [...text.matchAll(/\{"n":(\d+),"pad":"(x*)"\}/g)].map((match) => [Number(match[1]), match[2]?.length])
  t.strictSame(
    echoed,
    bodies.map((_, i) => [i, i * 400])
  )
})

t.test(
  'a route that says nothing takes 8 KiB from anybody, 64 KiB from who is signed in, and none is without a limit',
  async (t) => {
    const signedIn = route({
      ...BARE,
      method: 'POST',
      path: '/api/echo',
      access: 'user',
      body: v.looseObject({}),
      handler: () => ({})
    })
    t.strictSame([echo.bodyLimit, signedIn.bodyLimit], [8192, 65_536])
    t.throws(() => aRoute({ access: 'public', bodyLimit: 8193 }), /a public route may not take more/)
    t.throws(() => aRoute({ access: 'public', bodyLimit: 'streamed' }), /a public route may not take more/)
    const door = await openDoor(t, [...routes, signedIn])
    const text = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
    for (const [path, limit, as] of [
      ['/echo', 8192, undefined],
      ['/api/echo', 65_536, 'u']
    ] as const) {
      t.equal((await door.knock('POST', path, { body: text(limit), ...(as && { as }) })).status, 200)
      t.match(await door.knock('POST', path, { body: text(limit + 1), ...(as && { as }) }), {
        status: 413,
        body: { detail: `The request body is larger than ${limit} bytes` }
      })
    }
  }
)

t.test('who is not signed in is refused before a byte of the body is read', async (t) => {
  const door = await openDoor(t, [aRoute({ method: 'POST', path: '/api/echo', bodyLimit: 1 << 20 })])
  // No body follows: whoever waited for it would wait for ever.
  const head =
    'POST /api/echo HTTP/1.1\r\nHost: x\r\nCookie: csrf_token=c\r\nX-CSRF-Token: c\r\nContent-Length: 1000000\r\n\r\n'
  t.match(await door.raw(head, 'not_authenticated'), /^HTTP\/1\.1 401 /)
})

t.test('a length that is too large is refused before a byte of the body has come', async (t) => {
  const door = await openDoor(t, routes)
  t.match(
    await door.raw('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n', 'larger'),
    /^HTTP\/1\.1 413 /
  )
})

t.test('a body of somebody unknown that does not arrive in time is 408, and its connection ends', async (t) => {
  const door = await openDoor(t, routes, { limits: { publicBodyMs: 50 } })
  for (const head of ['Content-Length: 100', 'Transfer-Encoding: chunked'])
    t.match(await door.raw(`POST /echo HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`), /^HTTP\/1\.1 408 /, head)
})

t.test('half-sent bodies of one address have a budget: the next is 429, another address is served', async (t) => {
  const door = await openDoor(t, routes)
  const half = `POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n{"a":"${'x'.repeat(7000)}`
  const held = await Promise.all(Array.from({ length: 9 }, () => door.connect()))
  for (const socket of held) {
    socket.on('error', () => {})
    socket.write(half)
  }
  await until(async () => (await door.knock('POST', '/echo', { body: { a: 'x'.repeat(5000) } })).status === 429, 'full')
  const refused = await door.knock('POST', '/echo', { body: { a: 'x'.repeat(5000) } })
  t.match(refused, { status: 429, headers: { 'retry-after': '1' } })
  t.equal((await door.knock('POST', '/echo', { body: { a: 'x'.repeat(5000) }, from: '127.0.0.9' })).status, 200)
  for (const socket of held) socket.destroy()
  await until(async () => (await door.knock('POST', '/echo', { body: { a: 'x'.repeat(5000) } })).status === 200, 'free')
})

t.test('a body has at most 50,000 values and 500 levels, which is known before any of it is made', async (t) => {
  t.doesNotThrow(() => parseJson(Buffer.from(`[${'1,'.repeat(49_997)}1]`)))
  for (const text of [`[${'1,'.repeat(50_000)}1]`, `{"a":[${'{},'.repeat(60_000)}{}]}`, '['.repeat(501)])
    t.throws(() => parseJson(Buffer.from(text)), { code: 'invalid' })
  t.doesNotThrow(() => parseJson(Buffer.from(JSON.stringify(`${','.repeat(200_000)}${'['.repeat(1000)}`))))
})
