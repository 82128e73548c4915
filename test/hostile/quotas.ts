// Quotas that hold: connections of an address, model calls beside runs, steps of a run, files of a user, runs of a user.
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import t from 'tap'
import type { Agent } from '../../lib/agent/runtime.ts'
import { formOf, FORM_TYPE, upload } from '../fixtures/form.ts'
import { asked, at, listIn, openSite, Person, signIn, textIn } from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import { answerOn, besieged, dial, WHOLE, withstands } from '../fixtures/siege.ts'
import { until } from '../fixtures/until.ts'

t.test('[18.A.4] an address has so many connections; others get in, and one that is closed makes place', async (t) => {
  const most = WHOLE ? 500 : 50
  const child = await besieged(t, { server: { connections_per_address: most } })
  const from = '127.0.2.1'
  await withstands(t, child, `${most * 2} connections of one address`, async () => {
    // One that is refused may be reset before it knows that it was connected.
    const sockets = await Promise.all(Array.from({ length: most * 2 }, () => dial(child, from).catch(() => null)))
    const open = () => sockets.filter((socket) => socket && !socket.destroyed).length
    await until(() => open() === most, `${most} stay`)
    await until(() => child.log.includes('connections_per_address'), 'the log says so')
    for (const socket of sockets) socket?.destroy()
    await until(async () => (await child.sockets()).length <= 2, 'they are gone')
    const again = await dial(child, from)
    again.write('GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    t.match(await answerOn(again), /healthy/)
  })
})

t.test('[18.A.4] suggestions are made one at a time for each user, and need the right to start runs', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const thread = await person.thread()
  const path = `/api/threads/${thread}/suggestions`
  // It takes half a second: whoever has a turn keeps it while the others are asked.
  const body = { messages: [{ role: 'user', content: '/demo deltas=10 rate=20' }] }
  const reader = await programOf(person, 'threads:read', 'runs:read')
  t.match(await reader.ask('POST', path, { body }), { status: 403, body: { detail: 'Permission denied: runs:create' } })
  const answers = await Promise.all(Array.from({ length: 8 }, () => person.post(path, body)))
  const statuses = answers.map(({ status }) => status)
  t.equal(statuses.filter((status) => status === 429).length, 3, 'one is made and four wait')
  t.ok(answers.filter(({ status }) => status === 429).every(({ headers }) => headers.get('retry-after') === '5'))
})

t.test('[18.A.4] recursion_limit of the configuration is the most that a caller gets', async (t) => {
  const limits: number[] = []
  const agent: Agent = {
    models: () => [],
    start: async (input: Parameters<Agent['start']>[0]) => {
      limits.push(input.recursionLimit)
    }
  } as unknown as Agent
  const site = await openSite(t, { config: { runs: { recursion_limit: 20 } }, agent })
  const person = await signIn(site)
  const thread = await person.thread()
  for (const recursion_limit of [5, 20, 21, 10_000, 0, undefined])
    await person.post(`/api/threads/${thread}/runs/wait`, asked('go', { config: { recursion_limit } }))
  t.strictSame(limits, [5, 20, 20, 20, 20, 20])
})

t.test('[18.A.4] uploads of a user have a quota over all threads and requests; deleting makes place', async (t) => {
  const site = await openSite(t, { config: { uploads: { user_bytes: 100_000 } } })
  const [person, other] = [await signIn(site, 'ann'), await signIn(site, 'bob')]
  const [one, two] = [await person.thread(), await person.thread()]
  const put = (who: Person, thread: string, name: string, bytes: number) =>
    upload(who, thread, [[name, Buffer.alloc(bytes)]])
  t.equal((await put(person, one, 'a.bin', 60_000)).status, 200)
  const refused = await put(person, two, 'b.bin', 60_000)
  t.match(refused, { status: 413, body: { detail: /at most|more than 100000 bytes/ } })
  t.strictSame(listIn((await person.get(`/api/threads/${two}/uploads/list`)).body, 'files'), [], 'nothing of it stays')
  t.equal((await put(other, await other.thread(), 'b.bin', 60_000)).status, 200)
  const all = await Promise.all(Array.from({ length: 6 }, (_, n) => put(person, two, `c${n}.bin`, 30_000)))
  t.ok(all.filter(({ status }) => status === 200).length <= 1, 'requests at one time count together')
  t.equal((await person.ask('DELETE', `/api/threads/${one}/uploads/a.bin`)).status, 200)
  t.equal((await put(person, two, 'd.bin', 60_000)).status, 200)
})

t.test('[18.B.7] an upload is asked again before it gets a name: its session, its thread', async (t) => {
  const site = await openSite(t)
  const ways: Record<string, (person: Person, thread: string) => Promise<unknown>> = {
    'its session has ended': (person) => person.post('/api/v1/auth/logout'),
    'its thread is deleted': (person, thread) => person.ask('DELETE', `/api/threads/${thread}`)
  }
  for (const [what, end] of Object.entries(ways)) {
    const person = await signIn(site)
    const thread = await person.thread()
    const body = formOf([['late.txt', 'x'.repeat(50_000)]])
    const slow = new Person(site.url, person.cookies)
    const headers = Object.entries(slow.headers()).map(([name, value]) => `${name}: ${value}\r\n`)
    const { port } = new URL(site.url)
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write(
      `POST /api/threads/${thread}/uploads HTTP/1.1\r\nHost: x\r\n${headers.join('')}Content-Type: ${FORM_TYPE}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`
    )
    socket.write(body.subarray(0, 40_000))
    // It is being received when the other request ends what it stands on.
    await until(async () => (await person.get(`/api/threads/${thread}`)).status === 200, 'the server goes on')
    await end(person, thread)
    socket.write(body.subarray(40_000))
    t.match(await answerOn(socket), /^HTTP\/1\.1 40[14] /, what)
  }
  t.notOk(
    readdirSync(site.home, { recursive: true }).some((name) => String(name).endsWith('late.txt')),
    'no file stays'
  )
})

t.test('[18.A.4] runs of one user have a number by default; the next is 429, and others start theirs', async (t) => {
  const site = await openSite(t)
  const [person, other] = [await signIn(site), await signIn(site)]
  const most = 100
  const start = async (who: Person) =>
    who.post(`/api/threads/${await who.thread()}/runs`, asked('/demo deltas=9999 rate=1'))
  const answers = []
  for (let n = 0; n < most + 5; n++) answers.push(await start(person))
  t.equal(answers.filter(({ status }) => status === 200).length, most)
  t.equal(answers.at(-1)?.status, 429)
  t.ok(textIn(at(answers.at(-1), 'body'), 'detail'))
  t.equal((await start(other)).status, 200)
})
