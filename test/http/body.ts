// A body on its way in over the wire: its form, its limit, and clients that stop in the middle.
import t from 'tap'
import * as v from 'valibot'
import { route } from '../../lib/http/route.ts'
import { openDoor } from '../fixtures/door.ts'

const echo = route({
  method: 'POST',
  path: '/echo',
  access: 'public',
  csrf: 'exempt',
  body: v.looseObject({}),
  handler: ({ body }) => ({ json: body })
})
const form = route({
  method: 'POST',
  path: '/form',
  access: 'public',
  csrf: 'exempt',
  form: true,
  body: v.object({ username: v.string(), password: v.string() }),
  handler: ({ body }) => ({ json: [body.username, body.password] })
})
const optional = route({
  method: 'POST',
  path: '/optional',
  access: 'public',
  csrf: 'exempt',
  bodyOptional: true,
  body: v.object({ a: v.optional(v.string(), 'none') }),
  handler: ({ body }) => ({ json: body.a })
})
const ignored = route({
  method: 'POST',
  path: '/ignored',
  access: 'public',
  csrf: 'exempt',
  handler: () => ({ status: 202 })
})
const small = route({
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
  const door = await openDoor(t, routes, { limits: { bodyBytes: 1_048_576 } })
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
  const bodies = Array.from({ length: 20 }, (_, i) => JSON.stringify({ n: i, pad: 'x'.repeat(i * 5_000) }))
  const requests = bodies.map(
    (body) => `POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
  const text = await door.raw(`${requests.join('')}GET /last HTTP/1.1\r\nHost: x\r\n\r\n`, 'Not Found')
  const echoed = [...text.matchAll(/\{"n":(\d+),"pad":"(x*)"\}/g)].map((match) => [Number(match[1]), match[2]?.length])
  t.strictSame(
    echoed,
    bodies.map((_, i) => [i, i * 5_000])
  )
})
