// Many threads in one stream: every frame of every run once and in order, whatever is cut, over both transports.
import fc from 'fast-check'
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { asked, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import type { Frame, Stream } from '../fixtures/stream.ts'

/** A client of the stream that keeps its place. */
class Live {
  readonly byRun = new Map<string, Frame[]>()
  readonly news: Frame[] = []
  #place: string | null = null
  readonly #open = new Map<string, string>()

  get cursor(): string {
    return [...(this.#place === null ? [] : [this.#place]), ...this.#open.values()].join(',')
  }

  take(frame: Frame): void {
    const { event, data, id } = frame
    if (event === 'begun') for (const { run_id } of JSON.parse(data).runs) this.#begin(run_id)
    if (id?.startsWith('@')) this.#place = id
    if (!id?.includes(':')) return void this.news.push(frame)
    const [runId = ''] = id.split(':')
    this.#begin(runId)
    this.byRun.set(runId, [...(this.byRun.get(runId) ?? []), frame])
    if (data.includes('"run_done"')) this.#open.delete(runId)
    else this.#open.set(runId, id)
  }

  #begin(runId: string): void {
    if (!this.byRun.has(runId)) this.byRun.set(runId, [])
    if (!this.#open.has(runId)) this.#open.set(runId, runId)
  }

  hasEnded(runId: string): boolean {
    return this.byRun.get(runId)?.at(-1)?.data.includes('"run_done"') ?? false
  }
}

const MODES = 'stream_mode=messages-tuple'

function openLive(person: Person, live: Live, threads = '*', cursor = live.cursor): Promise<Stream> {
  return person.open('GET', `/api/stream?threads=${threads}&${MODES}&cursor=${encodeURIComponent(cursor)}`)
}

/** Frames of a run as its own stream has them: event, data and position. */
async function whole(person: Person, path: string): Promise<unknown[]> {
  const frames = await (await person.join(path, null, ['messages-tuple'])).whole()
  return frames.filter(({ event }) => event !== 'end').map(({ event, data, id }) => [event, data, id])
}

function toldOf(live: Live, runId: string): unknown[] {
  const frames = live.byRun.get(runId) ?? []
  return frames.slice(0, -1).map(({ event, data, id }) => [event, data, id?.slice(runId.length + 1)])
}

const idOf = (path: string) => path.split('/').at(-1)!

async function open(t: Test): Promise<Person> {
  return signIn(await openSite(t, { config: { streams: { heartbeat_ms: 200 } } }))
}

t.test(
  'readers of all threads that cut anywhere and come back see each frame of each run once, in order',
  async (t) => {
    const person = await open(t)
    const threads = await Promise.all([1, 2, 3].map(() => person.thread()))
    const step = fc.record({
      /** Frames until the cut. */
      frames: fc.integer({ min: 1, max: 60 }),
      /** Runs that begin while it is away, and how long each is. */
      begins: fc.array(fc.record({ thread: fc.nat({ max: 2 }), deltas: fc.nat({ max: 40 }) }), { maxLength: 2 })
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 6 }), async (steps) => {
        const live = new Live()
        const paths: string[] = []
        const start = async (thread: number, deltas: number) => {
          const more = { multitask_strategy: 'enqueue' }
          paths.push(await person.run(threads[thread]!, `/demo deltas=${deltas} rate=400`, more))
        }
        let stream = await openLive(person, live)
        // Its place is known before anything begins.
        await stream.untilFrames(1)
        await start(0, 30)
        for (const { frames, begins } of steps) {
          const isOver = (path: string) => live.hasEnded(idOf(path)) || hasEndedIn(stream, idOf(path))
          await until(() => stream.frames.length >= frames || paths.every(isOver), 'frames')
          const seen = stream.frames.slice(0, frames)
          for (const frame of seen) live.take(frame)
          stream.leave()
          for (const { thread, deltas } of begins) await start(thread, deltas)
          stream = await openLive(person, live)
        }
        let taken = 0
        const takeAll = () => {
          while (taken < stream.frames.length) live.take(stream.frames[taken++]!)
          return paths.every((path) => live.hasEnded(idOf(path)))
        }
        await until(takeAll, 'the ends of all runs')
        stream.leave()
        for (const path of paths) t.same(toldOf(live, idOf(path)), await whole(person, path))
      }),
      { numRuns: 5 }
    )
  }
)

function hasEndedIn({ frames }: Stream, runId: string): boolean {
  return frames.some(({ id, data }) => id?.startsWith(`${runId}:`) && data.includes('"run_done"'))
}

t.test('named threads are read from their position, others are only news', async (t) => {
  const person = await open(t)
  const [mine, other] = [await person.thread(), await person.thread()]
  const live = new Live()
  const stream = await openLive(person, live, mine)
  await stream.untilFrames(1)
  const path = await person.run(mine, '/demo deltas=20 rate=0')
  await person.post(`/api/threads/${other}/runs/wait`, asked('/demo deltas=3 rate=0'))
  await person.post(`/api/threads/${other}/state`, { values: { title: 'Another name' } })
  await until(() => hasEndedIn(stream, idOf(path)), 'the end')
  const isNews = ({ event, data }: Frame) => event === 'thread' && data.includes(other)
  await until(() => stream.frames.some(isNews), 'news of the other')
  for (const frame of stream.frames) live.take(frame)
  t.same([...live.byRun.keys()], [idOf(path)])
  t.same(toldOf(live, idOf(path)), await whole(person, path))
  const count = stream.frames.filter(isNews).length
  await person.ask('DELETE', `/api/threads/${other}`)
  await until(() => stream.frames.filter(isNews).length > count, 'news of its removal')
  stream.leave()
})

t.test('a WebSocket has the same events, and heartbeats that a page can see', async (t) => {
  const person = await open(t)
  const thread = await person.thread()
  const socket = new WebSocket(`${person.url.replace('http', 'ws')}/api/stream?threads=${thread}&${MODES}`, {
    headers: person.headers()
  })
  let text = ''
  socket.on('message', (data) => {
    text += String(data)
  })
  await until(() => text.includes('event: open'), 'its begin')
  const path = await person.run(thread, '/demo deltas=10 rate=0')
  await until(() => text.includes('run_done') && text.includes(': heartbeat\n'), 'the end of the run')
  for (const [event, data, id] of (await whole(person, path)) as string[][])
    t.ok(text.includes(`event: ${event}\ndata: ${data}\nid: ${idOf(path)}:${id}\n\n`))
  const closed = new Promise((resolve) => socket.on('close', resolve))
  await person.post('/api/v1/auth/logout')
  t.equal(await closed, 4401, 'signed out')
})

t.test(
  'threads of others are 404, too many and cursors that are too long 422, and a place that is too old a resync',
  async (t) => {
    const site = await openSite(t)
    const [person, other] = [await signIn(site), await signIn(site, 'other')]
    const foreign = await other.thread()
    t.equal((await person.get(`/api/stream?threads=${foreign}`)).status, 404)
    const threads = Array.from({ length: 65 }, (_, i) => `t${i}`).join()
    t.match(await person.get(`/api/stream?threads=${threads}`), { status: 422, text: /at most 64 items/ })
    t.match(await person.get(`/api/stream?cursor=${'a'.repeat(4097)}`), {
      status: 422,
      text: /at most 4096 characters/
    })
    const own = await person.thread()
    for (const cursor of [
      'nobody',
      '@-1',
      `@${'9'.repeat(16)}`,
      ':0-1',
      `${'x'.repeat(65)}`,
      '@0,é',
      `${randomUUID()}:0-1`
    ])
      for (const wanted of ['*', own]) {
        const lost = await person.open('GET', `/api/stream?threads=${wanted}&cursor=${encodeURIComponent(cursor)}`)
        await lost.until(({ frames }) => frames.some(({ event }) => event === 'resync'))
        lost.leave()
      }
    const path = await other.run(foreign, '/demo deltas=2 rate=0')
    await (await other.join(path)).whole()
    const stream = await person.open('GET', `/api/stream?cursor=${encodeURIComponent(`@999999,${idOf(path)}`)}`)
    await stream.until(({ frames }) => frames.some(({ event }) => event === 'resync'))
    await person.run(await person.thread(), '/demo deltas=2 rate=0')
    await until(() => stream.frames.some(({ data }) => data.includes('run_done')), 'a run of one’s own')
    t.notOk(
      stream.frames.some(({ id, data }) => `${id} ${data}`.includes(idOf(path))),
      'nothing of another’s run'
    )
    t.match(textIn({ a: stream.frames.find(({ event }) => event === 'open')!.data }, 'a'), /heartbeat_ms/)
    stream.leave()
  }
)

t.test('a cursor in 64 threads is given by its id, and continues each run once and in order', async (t) => {
  const site = await openSite(t, { config: { runs: { active_per_user: 0 } } })
  const [person, other] = [await signIn(site), await signIn(site, 'other')]
  const threads = await Promise.all(Array.from({ length: 64 }, () => person.thread()))
  const live = new Live()
  const first = await openLive(person, live)
  await first.untilFrames(1)
  const say = (text: string) =>
    Promise.all(threads.map((id) => person.run(id, text, { multitask_strategy: 'enqueue' })))
  const paths = await say('/demo deltas=40 rate=10')
  const seen = () => new Set(first.frames.flatMap(({ id }) => (id?.includes(':') ? [id.split(':')[0]] : []))).size
  await until(() => seen() === 64, 'a frame of each')
  const queued = await say('/demo deltas=2 rate=0')
  await until(
    () => queued.every((path) => first.frames.some(({ data }) => data.includes(idOf(path)))),
    'all have begun'
  )
  for (const frame of first.frames) live.take(frame)
  first.leave()
  t.ok(live.cursor.length > 4096, 'too long for an address')
  t.equal((await person.get(`/api/stream?cursor=${encodeURIComponent(live.cursor)}`)).status, 422)

  const kept = await person.post('/api/stream/cursors', { cursor: live.cursor })
  t.equal(kept.status, 201)
  const id = textIn(kept.body, 'id')
  const stream = await openLive(person, live, '*', id)
  const all = [...paths, ...queued]
  await until(() => all.every((path) => hasEndedIn(stream, idOf(path)) || live.hasEnded(idOf(path))), 'all ends')
  for (const frame of stream.frames) live.take(frame)
  stream.leave()
  t.notOk(stream.frames.some(({ event }) => event === 'resync'))
  for (const path of all) t.same(toldOf(live, idOf(path)), await whole(person, path))

  const theirs = await openLive(other, live, '*', id)
  await until(() => theirs.frames.some(({ event }) => event === 'resync'), 'nothing of another’s cursor')
  theirs.leave()
  for (let n = 0; n < 8; n++) await person.post('/api/stream/cursors', { cursor: `@${n}` })
  await person.post(`/api/threads/${threads[0]}/runs/wait`, asked('/demo deltas=1 rate=0'))
  for (const asks of ['*', threads.slice(0, 2).join()]) {
    const late = await openLive(person, live, asks, id)
    await until(() => late.frames.some(({ event }) => event === 'resync'), 'an id that is kept no more')
    const [told] = late.frames.filter(({ event }) => event === 'resync')
    // Of all: what has begun since.
    const named = asks === '*' ? threads.slice(0, 1) : threads.slice(0, 2)
    t.same(new Set(JSON.parse(told!.data).threads), new Set(named), 'the threads to reload')
    late.leave()
  }
  t.equal((await person.post('/api/stream/cursors', { cursor: 'a'.repeat(60 * 1024 + 1) })).status, 422)
})
