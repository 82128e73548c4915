// Answers that nobody reads, and answers that are asked for because they are large: both have a bound.
import { Buffer } from 'node:buffer'
import t from 'tap'
import { upload } from '../fixtures/form.ts'
import { asked, at, listIn, signIn, textIn } from '../fixtures/gateway.ts'
import { answerOn, besieged, dial, WHOLE, withstands } from '../fixtures/siege.ts'
import { until } from '../fixtures/until.ts'
import { zipOf } from '../fixtures/zip.ts'

const MB = 1024 * 1024

t.test('[18.A.3] members of archives that nobody reads stay packed, and are closed after stall_ms', async (t) => {
  const child = await besieged(t, { streams: { stall_ms: 500 } })
  const person = await signIn(child)
  const thread = await person.thread()
  const zip = zipOf([{ name: 'zeros', data: Buffer.alloc(16 * MB) }])
  await upload(person, thread, [
    ['a.skill', zip],
    ['plain.bin', Buffer.alloc(16 * MB)]
  ])
  const paths = ['a.skill/zeros', 'plain.bin'].map(
    (name) => `/api/threads/${thread}/artifacts/mnt/user-data/uploads/${name}`
  )
  const many = WHOLE ? 200 : 40
  for (const path of paths) {
    t.equal((await person.get(path)).text.length, 16 * MB, `${path.slice(-9)} is there`)
    await withstands(t, child, `${many} unread answers of ${path.slice(-14)}`, async () => {
      const sockets = await Promise.all(Array.from({ length: many }, () => dial(child)))
      const cookie = person.headers().cookie
      for (const socket of sockets) {
        socket.pause()
        // Close: of two hundred some are refused, and their connections would be kept for the next request.
        socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: ${cookie}\r\n\r\n`)
      }
      // They keep their connections open, and read nothing.
      await until(async () => (await child.sockets()).length <= 8, 'the server lets go of them', 60_000)
      for (const socket of sockets) socket.destroy()
    })
  }
})

t.test('[18.A.3] a page of messages has a bound in bytes, and the next one goes on behind it', async (t) => {
  const child = await besieged(t)
  const person = await signIn(child)
  const thread = await person.thread()
  const runs = WHOLE ? 100 : 8
  for (let n = 0; n < runs; n++) {
    const content = `/demo deltas=1 rate=0\n${'x'.repeat(1.5 * MB)}`
    await person.post(`/api/threads/${thread}/runs/wait`, { input: { messages: [{ role: 'user', content }] } })
  }
  const seqs = (body: unknown) =>
    (Array.isArray(body) ? body : listIn(body, 'data')).map((row) => Number(at(row, 'seq')))
  await withstands(
    t,
    child,
    `a page of ${runs} messages of 1.5 MB`,
    async () => {
      const first = await person.get(`/api/threads/${thread}/messages?limit=200`)
      t.ok(first.text.length < 12 * MB, `${(first.text.length / MB).toFixed(1)} MB`)
      t.ok(seqs(first.body).length > 0)
    },
    { growthMb: 160 }
  )
  const seen: number[] = []
  let before = ''
  for (let more = true; more; ) {
    const { body } = await person.get(`/api/threads/${thread}/messages/page?limit=200${before}`)
    seen.unshift(...seqs(body))
    more = at(body, 'has_more') === true
    before = `&before_seq=${String(at(body, 'next_before_seq'))}`
  }
  t.equal(seen.length, runs * 2, 'nothing is left out')
  t.strictSame(
    seen,
    seen.toSorted((a, b) => a - b)
  )
})

t.test('a request that is answered and not read holds nobody up', async (t) => {
  const child = await besieged(t)
  const sockets = await Promise.all(Array.from({ length: 50 }, () => dial(child)))
  await withstands(t, child, '50 pipelines of 200 requests that nobody reads', async () => {
    for (const socket of sockets) {
      socket.pause()
      socket.write('GET /health HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(200))
    }
    await Promise.all(sockets.map((socket) => answerOn(socket, 200)))
  })
})

t.test(
  '[18.A.3] long answers that are asked for at once have turns of their own, and no more lie unread than a bound',
  async (t) => {
    const child = await besieged(t)
    const person = await signIn(child)
    const thread = await person.thread()
    for (let n = 0; n < 6; n++) {
      const content = '/demo deltas=1 rate=0\n'.padEnd(1.5 * MB, 'x')
      await person.post(`/api/threads/${thread}/runs/wait`, { input: { messages: [{ role: 'user', content }] } })
    }
    const headers = Object.entries(person.headers()).map(([name, value]) => `${name}: ${value}\r\n`)
    const asked = ['GET messages?limit=200', 'GET state', 'POST history']
    for (const [method = '', path] of asked.map((one) => one.split(' '))) {
      const line = `${method} /api/threads/${thread}/${path} HTTP/1.1\r\n`
      await withstands(
        t,
        child,
        `60 times ${method} ${path}`,
        async () => {
          // They are connected already: what they ask for comes in very few turns of the loop.
          const sockets = await Promise.all(Array.from({ length: 60 }, () => dial(child)))
          for (const socket of sockets) {
            socket.pause()
            socket.write(`${line}Host: x\r\n${headers.join('')}Content-Length: 2\r\nConnection: close\r\n\r\n{}`)
          }
          await Promise.all(sockets.map((socket) => answerOn(socket, 4_000)))
        },
        { growthMb: 192 }
      )
    }
  }
)

t.test(
  '[18.A.3] long conversations that go on at once wait for each other, and one that is too long ends',
  async (t) => {
    const child = await besieged(t, {}, { env: { NODE_OPTIONS: '--max-old-space-size=256' } })
    const person = await signIn(child)
    const thread = await person.thread()
    const say = (id: string, text = '/demo deltas=1 rate=0\n'.padEnd(1.9 * MB, 'x')) =>
      person.post(`/api/threads/${id}/runs/wait`, asked(text))
    for (let n = 0; n < 8; n++) await say(thread)
    const copies: string[] = []
    for (let n = 0; n < 6; n++)
      copies.push(textIn((await person.post(`/api/threads/${thread}/copy`)).body, 'thread_id'))
    const answers = await Promise.all(copies.map((id) => say(id, '/demo deltas=25 rate=50')))
    const isTooLong = ({ text }: { readonly text: string }) => text.includes('ConversationTooLong')
    t.ok(answers.every((answer) => answer.status === 200 && !isTooLong(answer)))
    let runs = 8
    while (!isTooLong(await say(thread)) && runs < 40) runs++
    t.ok(runs < 14, `too long after ${runs} runs of 1.9 MB`)
    t.equal((await person.get('/health')).status, 200)
  }
)
