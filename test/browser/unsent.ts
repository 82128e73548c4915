// Messages that no server has taken, without a browser: their files are uploaded once, and no conversation holds up another.
import { File } from 'node:buffer'
import t, { type Test } from 'tap'
import { Clock } from '../fixtures/clock.ts'
import { becomePage, pageModule } from '../fixtures/page-module.ts'

interface Unsent {
  readonly key: string
  readonly message: object
  readonly body: object | null
  readonly isFollowed: boolean
  readonly names?: readonly string[]
  readonly refusal?: string
}

interface Recalled {
  readonly text: string
  readonly extras: readonly { filename: string }[]
  readonly unloaded: readonly File[]
}

type Answer = () => Response | Promise<Response>

/** What the server answers to what, by the request's first words; what is asked of it. */
const server = { answers: {} as Record<string, Answer>, asked: [] as string[], bodies: [] as unknown[] }

async function answer(url: string, { method, body }: { method: string; body?: unknown }): Promise<Response> {
  const request = `${method} ${url.replace(/^.*\/api\/(threads\/)?/, '')}`
  server.asked.push(request)
  if (typeof body === 'string') server.bodies.push(JSON.parse(body))
  const given = Object.entries(server.answers).find(([begin]) => request.startsWith(begin))?.[1]
  if (given) return given()
  if (/^POST .*\/uploads$/.test(request)) return Response.json({ files: [{ filename: 'notes.txt', size: 3 }] })
  return Response.json(method === 'GET' ? [] : {})
}

const failing =
  (status: number, headers: Record<string, string> = {}) =>
  () =>
    Response.json({ detail: 'not now' }, { status, headers })
const rejecting = (error: Error) => () => Promise.reject(error)

/** An upload with its progress, which fetch does not tell. */
class Upload {
  readonly upload = {}
  status = 0
  responseText = ''
  #headers = new Headers()
  onload: (() => void) | null = null
  open(): void {}
  setRequestHeader(): void {}
  getResponseHeader(name: string): string | null {
    return this.#headers.get(name)
  }
  async send(body: FormData): Promise<void> {
    const response = await answer('/api/threads/up/uploads', { method: 'POST', body })
    this.status = response.status
    this.#headers = response.headers
    this.responseText = await response.text()
    this.onload?.()
  }
}

becomePage({ fetch: answer, BroadcastChannel: EventTarget, XMLHttpRequest: Upload })
const { deviceText, openDevice, readKept, writeKept } = await pageModule<{
  deviceText(name: string): string | null
  openDevice(user: object): void
  readKept(store: string, key: string): Promise<unknown>
  writeKept(store: string, key: string, value: unknown): Promise<void>
}>('device')
const { deliver, forgetUnsent, putUnsent, unsentIn } = await pageModule<{
  deliver(): Promise<void>
  forgetUnsent(): void
  putUnsent(threadId: string, one: Unsent): void
  unsentIn(threadId: string): readonly Unsent[]
}>('unsent')
const { Outbox } = await pageModule<{
  Outbox: new (
    target: object
  ) => {
    recall(one: Unsent): Promise<void>
    sendBeside(text: string, extras: readonly object[], choice: object, isForNow: boolean): Promise<void>
  }
}>('outbox')
const { Queue } = await pageModule<{
  Queue: new (
    path: string,
    active: object
  ) => {
    readonly recalled: { readonly value: Recalled | null }
    readonly runs: { value: readonly object[] }
    edit(run: object): Promise<void>
  }
}>('queue')
const { RunConnection } = await pageModule<{
  RunConnection: new () => { stop(path: string, stream: object, isOver: () => boolean): Promise<void> }
}>('connecting')
openDevice({ id: 'ada' })

t.beforeEach(() => {
  forgetUnsent()
  Object.assign(server, { answers: {}, asked: [], bodies: [] })
})

async function hold(threadId: string, ...files: File[]): Promise<Unsent> {
  const key = `key of ${threadId}`
  if (files.length > 0) await writeKept('files', key, files)
  const message = { type: 'human', id: threadId, content: 'read it' }
  putUnsent(threadId, { key, message, body: null, isFollowed: false, names: files.map(({ name }) => name) })
  return unsentIn(threadId)[0]!
}

/** What comes back into the composer; null: nothing. */
async function recalled(threadId: string, one: Unsent): Promise<Recalled | null> {
  const queue = new Queue('', {})
  await new Outbox({ threadId, queue }).recall(one)
  return queue.recalled.value
}

const notes = () => new File(['abc'], 'notes.txt')
const uploads = () => server.asked.filter((request) => request.endsWith('/uploads')).length

/** Its files are there once: uploaded, or not yet. */
function isOnce(t: Test, found: Recalled | null, where: 'extras' | 'unloaded'): void {
  t.equal(found?.text, 'read it')
  const names = {
    extras: found?.extras.map(({ filename }) => filename),
    unloaded: found?.unloaded.map(({ name }) => name)
  }
  t.same(names, { extras: [], unloaded: [], [where]: ['notes.txt'] })
}

t.test('a file that was uploaded is in its message once when that is changed before it is sent', async (t) => {
  server.answers['POST one/runs'] = failing(500)
  const first = await hold('one', notes())
  await deliver()
  await deliver()
  t.equal(uploads(), 1)
  t.equal(await readKept('files', first.key), null)
  // Also by a view that has not seen it yet.
  isOnce(t, await recalled('one', first), 'extras')
  t.same(unsentIn('one'), [])
})

t.test('a file is uploaded once, whatever fails behind it, and sent with its message', async (t) => {
  server.answers['GET one/runs'] = failing(500)
  await hold('one', notes())
  await deliver()
  await deliver()
  t.equal(uploads(), 1)
  delete server.answers['GET one/runs']
  await deliver()
  t.equal(uploads(), 1)
  t.match(server.bodies, [{ input: { messages: [{ additional_kwargs: { files: [{ filename: 'notes.txt' }] } }] } }])
  t.same(unsentIn('one'), [])
})

t.test('a file that is not uploaded comes back by itself, also while it is being uploaded', async (t) => {
  server.answers['POST one/uploads'] = failing(413)
  await hold('one', notes())
  await deliver()
  t.equal(unsentIn('one')[0]?.refusal, 'not now')
  isOnce(t, await recalled('one', unsentIn('one')[0]!), 'unloaded')
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  server.answers['POST one/uploads'] = () => gate.then(() => Response.json({ files: [{ filename: 'notes.txt' }] }))
  const again = await hold('one', notes())
  const delivering = deliver()
  isOnce(t, await recalled('one', again), 'unloaded')
  go()
  await delivering
  t.notOk(server.asked.includes('POST one/runs'), 'what was taken back is not sent')
})

t.test('a message that was sent meanwhile does not come back', async (t) => {
  const one = await hold('one')
  await deliver()
  t.equal(await recalled('one', one), null)
})

for (const [what, begin, given] of [
  ['whose runs fail', 'POST one/runs', failing(500)],
  ['whose uploads fail', 'POST one/uploads', failing(503)],
  ['whose uploads last too long', 'POST one/uploads', rejecting(new DOMException('too long', 'TimeoutError'))]
] as const)
  t.test(`a conversation ${what} holds up no other`, async (t) => {
    server.answers[begin] = given
    await hold('one', notes())
    await hold('two')
    await deliver()
    t.match(unsentIn('one'), [{ refusal: undefined }])
    t.same(unsentIn('two'), [])
    t.ok(server.asked.includes('POST two/runs'))
  })

t.test('where the network is lost, no other is tried', async (t) => {
  server.answers['GET one/runs'] = rejecting(new TypeError('fetch failed'))
  await hold('one')
  await hold('two')
  await deliver()
  t.same(server.asked, ['GET one/runs?limit=1'])
  t.equal(unsentIn('two').length, 1)
})

t.test('a server that asks for a while has it, and one that asks for a month has refused', async (t) => {
  const clock = Clock.stopFor(t)
  server.answers['POST busy/runs'] = failing(503, { 'retry-after': '30' })
  server.answers['POST two/runs'] = failing(429, { 'retry-after': '2300000' })
  await hold('busy')
  await hold('two')
  const starts = () => server.asked.filter((request) => request === 'POST busy/runs').length
  await deliver()
  t.match(unsentIn('two'), [{ refusal: /not now/ }], 'its sender decides')
  await clock.pass(29_000)
  await deliver()
  t.equal(starts(), 1)
  await clock.pass(2000)
  await deliver()
  t.equal(starts(), 2)
  t.match(unsentIn('busy'), [{ refusal: undefined }])
})

t.test('a message whose files the device has lost is not sent without them', async (t) => {
  const one = await hold('one', notes())
  await writeKept('files', one.key, null)
  await deliver()
  t.match(unsentIn('one'), [{ refusal: /not on this device/ }])
  t.notOk(server.asked.includes('POST one/runs'))
})

// A proxy answers for a server that is away: what it says is no refusal.
const AWAY = [502, 503, 504]

t.test('a message beside a run waits while the server is away, whoever says that it is', async (t) => {
  for (const status of AWAY)
    for (const isForNow of [false, true]) {
      forgetUnsent()
      server.answers.POST = failing(status)
      const active = { value: 'run' }
      const queue = new Queue('/api/threads/one/runs', active)
      const outbox = new Outbox({ threadId: 'one', queue, active })
      await outbox.sendBeside('and this', [], {}, isForNow)
      t.match(unsentIn('one'), [{ message: { content: 'and this' }, refusal: undefined, isFollowed: false }])
    }
})

t.test('a waiting message that the server has not removed is not in the composer too', async (t) => {
  const run = {
    run_id: 'later',
    status: 'pending',
    kwargs: { input: { messages: [{ type: 'human', content: 'later' }] } }
  }
  const active = { run_id: 'now', status: 'running' }
  const edited = async (runs: readonly object[]) => {
    server.answers = { 'DELETE one/runs/later': failing(502), 'GET one/runs': () => Response.json(runs) }
    const queue = new Queue('/api/threads/one/runs', { value: 'now' })
    queue.runs.value = [run]
    await queue.edit(run)
    return queue.recalled.value?.text
  }
  t.equal(await edited([run, active]), undefined)
  t.equal(await edited([active]), 'later')
})

t.test('a stop is sent again while the server is away, whoever says that it is', async (t) => {
  const clock = Clock.stopFor(t)
  const left = [...AWAY]
  server.answers.POST = () => Response.json({}, { status: left.shift() ?? 202 })
  const stopping = new RunConnection().stop('one/runs', { started: Promise.resolve({ run_id: 'run' }) }, () => false)
  await clock.pass(5000)
  await stopping
  t.equal(server.asked.length, AWAY.length + 1)
})

t.test('behind a sign-out that has not reached the server, what is written is kept', async (t) => {
  const session = await pageModule<{ begin(): Promise<void>; signOut(): Promise<void> }>('session')
  const { document } = globalThis as unknown as { document: { cookie: string } }
  document.cookie = 'csrf_token=x'
  t.teardown(() => {
    document.cookie = ''
  })
  server.answers['GET v1/auth/me'] = () => Response.json({ id: 'ada', email: 'ada@example.com' })
  await session.begin()
  server.answers['POST v1/auth/logout'] = rejecting(new TypeError('fetch failed'))
  await session.signOut()
  await hold('one', notes())
  t.match(deviceText('unsent'), /read it/)
  t.match(await readKept('files', 'key of one'), [{ name: 'notes.txt' }])
})

t.test('a file that the server does not take now waits with its message, as long as it is asked to', async (t) => {
  const clock = Clock.stopFor(t)
  // It looks for itself from then on.
  const { Uploads } = await pageModule<{
    Uploads: {
      of(threadId: string): { list: { value: readonly object[] }; unloaded: readonly File[]; add(files: File[]): void }
    }
  }>('uploads')
  const uploads = Uploads.of('up')
  const answers = [failing(503, { 'retry-after': '30' }), ...AWAY.map((status) => failing(status))]
  server.answers.POST = () => answers.shift()?.() ?? Response.json({ files: [{ filename: 'notes.txt', size: 3 }] })
  uploads.add([notes()])
  await clock.pass(28_000)
  t.match(uploads.list.value, [{ name: 'notes.txt', isWaiting: true, done: null }])
  t.match(uploads.unloaded, [{ name: 'notes.txt' }])
  t.equal(server.asked.length, 1)
  await clock.pass(30_000)
  t.match(uploads.list.value, [{ name: 'notes.txt', done: { filename: 'notes.txt' } }])
  t.equal(server.asked.length, AWAY.length + 2)
})
