// The HTTP layer fed with what no client sends: lines, heads, lengths, chunks, pipelines, half-closes, all of it made by chance from
// a seed that is printed. Nothing of it is a failure of ours, nothing ends the process, and no connection stays behind.
import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { signIn } from '../fixtures/gateway.ts'
import { besieged, dial, WHOLE } from '../fixtures/siege.ts'
import { SEED } from '../fixtures/size.ts'
import { until } from '../fixtures/until.ts'
import type { Child } from '../fixtures/child.ts'

const CASES = WHOLE ? 100_000 : 1_000
/** Cases under way at one time. */
const AT_ONCE = WHOLE ? 100 : 25
/** A conversation that has not ended by then is ended: it may be a stream that would go on. */
const SILENCE_MS = 300

const junk = fc.string({ unit: 'binary', maxLength: 20 })
const oneOf = (...texts: string[]) => fc.constantFrom(...texts)
const method = fc.oneof(
  { weight: 30, arbitrary: oneOf('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS') },
  { weight: 1, arbitrary: oneOf('CONNECT', 'TRACE', 'get', 'FOO', '', 'PRI', 'M-SEARCH') },
  { weight: 1, arbitrary: junk }
)
const target = fc.oneof(
  {
    weight: 20,
    arbitrary: oneOf(
      '/health',
      '/api/v1/auth/login/local',
      '/api/v1/auth/register',
      '/api/threads',
      '/api/threads/search',
      '/api/threads/x/uploads',
      '/api/threads/x/runs/stream',
      '/api/models?limit=%zz',
      '/none',
      '*',
      'http://h/health'
    )
  },
  { weight: 1, arbitrary: oneOf('', '//', '/%', '/%00', '/a b', 'h:1', '/..', `/${'a'.repeat(20_000)}`) },
  { weight: 1, arbitrary: junk }
)
const version = fc.oneof(
  { weight: 30, arbitrary: oneOf('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0') },
  { weight: 1, arbitrary: oneOf('HTTP/0.9', 'HTTP/2.0', 'HTTP/1.', 'http/1.1', '') }
)
const header = fc.oneof(
  {
    weight: 30,
    arbitrary: oneOf(
      'Connection: close',
      'Connection: keep-alive',
      'Connection: Upgrade\r\nUpgrade: websocket',
      'Expect: 100-continue',
      'Expect: something',
      'Content-Type: application/json',
      'Content-Type: multipart/form-data; boundary=b',
      'Origin: http://evil.example',
      'Authorization: Bearer clq_wrong',
      'X-Api-Key: x',
      'Range: bytes=5-1',
      'Last-Event-ID: 1-1',
      'Idempotency-Key: k',
      'Cookie: access_token=a.b.c; csrf_token=c\r\nX-CSRF-Token: c',
      'SIGNED-IN'
    )
  },
  { weight: 1, arbitrary: oneOf('no colon', ': no name', 'A:\u0000', `X: ${'a'.repeat(17_000)}`, ' folded', 'A : b') },
  { weight: 1, arbitrary: junk.map((text) => `X-Junk: ${text}`) }
)
const content = fc.oneof(oneOf('', '{}', '{"a":1}', '[', 'username=a&password=b', '--b\r\n\r\nx\r\n--b--\r\n'), junk)
/** A body with the head that announces it, rightly or wrongly. */
const framed = fc.oneof(
  { weight: 6, arbitrary: fc.constant(['', '']) },
  { weight: 6, arbitrary: content.map((text) => [`Content-Length: ${Buffer.byteLength(text, 'latin1')}`, text]) },
  fc
    .tuple(oneOf('0', '1', '5', '99', '9000', '-1', '1e3', '0x5', '99999999999999999999', ''), content)
    .map(([length, text]) => [`Content-Length: ${length}`, text]),
  fc
    .array(fc.tuple(oneOf('', '0', '1', '2', 'a', 'A;x=y', 'zz', '-1', 'ffffffffffffffff', '00000'), content), {
      maxLength: 4
    })
    .map((chunks) => [
      'Transfer-Encoding: chunked',
      `${chunks.map(([size, text]) => `${size || Buffer.byteLength(text, 'latin1').toString(16)}\r\n${text}\r\n`).join('')}0\r\n\r\n`
    ]),
  fc
    .tuple(oneOf('gzip', 'chunked, chunked', 'identity', 'chunked\r\nContent-Length: 3'), content)
    .map(([coding, text]) => [`Transfer-Encoding: ${coding}`, text])
)
const lineEnd = fc.oneof({ weight: 20, arbitrary: fc.constant('\r\n') }, oneOf('\n', '\r', '\r\r\n'))
const hosts = fc.oneof(
  { weight: 20, arbitrary: fc.constant(['Host: x']) },
  fc.constantFrom([], ['Host: x', 'Host: y'], ['Host:'])
)
const request = fc
  .tuple(method, target, version, fc.array(header, { maxLength: 5 }), framed, lineEnd, hosts)
  .map(([verb, path, protocol, headers, [announced, body], end, host]) => {
    const lines = [`${verb} ${path} ${protocol}`, ...host, ...headers, ...(announced ? [announced] : []), '']
    return `${lines.join(end)}${end}${body}`
  })
const conversation = fc.record({
  bytes: fc.oneof(
    { weight: 20, arbitrary: fc.array(request, { minLength: 1, maxLength: 5 }).map((list) => list.join('')) },
    { weight: 1, arbitrary: fc.array(junk, { maxLength: 5 }).map((list) => list.join('\r\n')) }
  ),
  /** Of a thousand: how much of it is sent. */
  cut: fc.oneof({ weight: 3, arbitrary: fc.constant(1000) }, fc.integer({ min: 0, max: 1000 })),
  pieces: fc.integer({ min: 1, max: 4 }),
  ending: oneOf('half-close', 'half-close', 'destroy', 'reset')
})

t.test(`${CASES} conversations that no client has: no 5xx, no crash, no socket left`, async (t) => {
  const child = await besieged(t, { database: { backend: 'memory' }, log_level: 'silent' })
  const person = await signIn(child)
  const cookie = Object.entries(person.headers())
    .map(([name, value]) => `${name}: ${value}`)
    .join('\r\n')
  const statuses = new Map<string, number>()
  const failures: string[] = []
  const cases = fc.sample(conversation, { numRuns: CASES, seed: SEED })
  for (let at = 0; at < cases.length; at += AT_ONCE) {
    await Promise.all(
      cases.slice(at, at + AT_ONCE).map(async (one) => {
        const answer = await converse(child, { ...one, bytes: one.bytes.replaceAll('SIGNED-IN', cookie) })
        for (const [, status = ''] of answer.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          if (status >= '500') failures.push(`${JSON.stringify(one)} -> ${answer.slice(0, 300)}`)
        }
      })
    )
    if (child.hasExited) break
  }
  t.notOk(child.hasExited, 'the process lives')
  t.strictSame(failures.slice(0, 3), [], `seed ${SEED}`)
  t.ok([...statuses].length >= 6, `it was understood and refused in many ways`)
  // What is left is this test's own, which keeps connections of its own for later.
  await until(async () => (await child.sockets()).length <= 3, 'all sockets are gone', 60_000)
  t.comment(
    `seed ${SEED}: ${[...statuses]
      .toSorted()
      .map(([status, count]) => `${status} ${count}`)
      .join(', ')}`
  )
})

type Conversation = typeof conversation extends fc.Arbitrary<infer One> ? One : never

/** All that the server says, until it closes or has had its time. */
async function converse(child: Child, { bytes, cut, pieces, ending }: Conversation): Promise<string> {
  const socket = await dial(child, `127.0.6.${1 + (bytes.length % 200)}`)
  let text = ''
  socket.on('data', (data) => {
    text += data.toString('latin1')
  })
  const sent = Buffer.from(bytes, 'latin1').subarray(0, Math.ceil((bytes.length * cut) / 1000))
  const size = Math.max(1, Math.ceil(sent.length / pieces))
  for (let at = 0; at < sent.length; at += size) {
    socket.write(sent.subarray(at, at + size))
    if (pieces > 1) await new Promise((resolve) => setImmediate(resolve))
  }
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  if (ending === 'destroy') socket.destroy()
  else if (ending === 'reset') socket.resetAndDestroy()
  else socket.end()
  const late = new AbortController()
  await Promise.race([closed, pause(SILENCE_MS, null, { signal: late.signal }).catch(() => {})])
  late.abort()
  socket.destroy()
  return text
}
