// Bodies that are announced, begun and never finished: what they hold is bounded, whoever sends them, and honest people get in.
import t from 'tap'
import { startChild } from '../fixtures/child.ts'
import { Person, signIn } from '../fixtures/gateway.ts'
import { answerOn, besieged, dial, WHOLE, withstands } from '../fixtures/siege.ts'

const LOGIN = '/api/v1/auth/login/local'
const MANY = WHOLE ? 300 : 60

t.test('[18.A.1] half-sent sign-ins cost neither memory nor the sign-ins of others', async (t) => {
  const child = await besieged(t)
  const head = (length: string) => `POST ${LOGIN} HTTP/1.1\r\nHost: x\r\n${length}\r\n\r\n`
  const piece = Buffer.alloc(256 * 1024, 0x61)
  const attack = async () => {
    const sockets = await Promise.all(Array.from({ length: MANY }, (_, i) => dial(child, `127.0.1.${1 + (i % 200)}`)))
    for (const [i, socket] of sockets.entries()) {
      socket.write(head(i % 2 ? 'Content-Length: 16777216' : 'Transfer-Encoding: chunked'))
      // As much as a client can send before anybody answers.
      for (let n = 0; n < 16; n++) socket.write(i % 2 ? piece : Buffer.concat([Buffer.from('40000\r\n'), piece, CRLF]))
    }
    const person = new Person(child.url)
    t.equal((await person.post(LOGIN, { email: 'nobody@example.com', password: 'x' })).status, 401)
    const said = await Promise.all(sockets.map((socket) => answerOn(socket)))
    for (const text of said) t.match(text, /^(HTTP\/1\.1 413 |$)/)
  }
  await withstands(t, child, `${MANY} sign-ins of 16 MB`, attack, { growthMb: 128 })
})
const CRLF = Buffer.from('\r\n')

t.test('[18.A.1] half-sent runs of one user cost what one user may hold, and other users start theirs', async (t) => {
  const child = await besieged(t)
  const [evil, good] = [await signIn(child, 'evil'), await signIn(child, 'good')]
  const thread = await good.thread()
  const cookie = Object.entries(evil.headers()).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `POST /api/runs HTTP/1.1\r\nHost: x\r\n${cookie.join('')}Content-Length: 2000000\r\n\r\n`
  const attack = async () => {
    const sockets = await Promise.all(Array.from({ length: MANY }, () => dial(child)))
    for (const socket of sockets) socket.write(head + 'x'.repeat(1_900_000))
    const said = Promise.all(sockets.map((socket) => answerOn(socket, 2_000)))
    t.equal((await good.post(`/api/threads/${thread}/runs`, { input: {}, multitask_strategy: 'enqueue' })).status, 200)
    t.ok(
      (await said).some((text) => text.startsWith('HTTP/1.1 429 ')),
      'what is too much is refused'
    )
  }
  await withstands(t, child, `${MANY} runs of 2 MB`, attack, { growthMb: 160 })
})

t.test(
  'with the least memory that is named, sixty large bodies at once are answered and the process lives',
  async (t) => {
    const env = { NODE_OPTIONS: '--max-old-space-size=64' }
    const child = await startChild(t, { env, config: { log_level: 'silent' } })
    const person = await signIn(child)
    const threads = await Promise.all(Array.from({ length: 60 }, () => person.thread()))
    const said = (content: unknown) => ({ input: { messages: [{ role: 'user', content }] } })
    const long = 'x'.repeat(900_000)
    const many = { input: { messages: Array.from({ length: 9_000 }, () => ({ role: 'user', content: '' })) } }
    const kinds: Record<string, (n: number) => Promise<{ readonly status: number }>> = {
      'a run waited for': () => person.post('/api/runs/wait', said(`/demo deltas=1 rate=0\n${long}`)),
      'nine thousand messages': () => person.post('/api/runs/wait', many),
      'a run in the background': (n) =>
        person.post(`/api/threads/${threads[n]}/runs`, said(`/demo deltas=1 rate=0\n${long}`)),
      'an update of a state': (n) => person.post(`/api/threads/${threads[n]}/state`, { values: { title: 'a', long } })
    }
    for (const [what, ask] of Object.entries(kinds)) {
      const answers = await Promise.all(threads.map((_, n) => ask(n)))
      t.ok(
        answers.some(({ status }) => status === 200),
        `${what}: some are answered`
      )
      t.ok(
        answers.every(({ status }) => status === 200 || status === 429),
        `${what}: the others may try again`
      )
      t.notOk(child.hasExited, `${what}: the process lives`)
    }
  }
)

t.test('a process with less memory than it needs says at start how much that is', async (t) => {
  const less = await startChild(t, { env: { NODE_OPTIONS: '--max-old-space-size=48' } })
  t.match(less.log, /needs 112: raise --max-old-space-size/)
  const enough = await startChild(t, { env: { NODE_OPTIONS: '--max-old-space-size=64' } })
  t.notMatch(enough.log, /max-old-space-size/)
})
