// Messages that no server has taken, without a browser: their files are uploaded once, and no conversation holds up another.
import { File } from 'node:buffer'
import t, { type Test } from 'tap'
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
  const request = `${method} ${url.slice(url.indexOf('/api/threads/') + '/api/threads/'.length)}`
  server.asked.push(request)
  if (typeof body === 'string') server.bodies.push(JSON.parse(body))
  const given = Object.entries(server.answers).find(([begin]) => request.startsWith(begin))?.[1]
  if (given) return given()
  if (/^POST .*\/uploads$/.test(request)) return Response.json({ files: [{ filename: 'notes.txt', size: 3 }] })
  return Response.json(method === 'GET' ? [] : {})
}

const failing = (status: number) => () => Response.json({ detail: 'not now' }, { status })
const rejecting = (error: Error) => () => Promise.reject(error)

becomePage({ fetch: answer })
const { openDevice, readKept, writeKept } = await pageModule<{
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
  Outbox: new (target: object) => { recall(one: Unsent): Promise<void> }
}>('outbox')
const { Queue } = await pageModule<{
  Queue: new (path: string, active: object) => { readonly recalled: { readonly value: Recalled | null } }
}>('queue')
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
