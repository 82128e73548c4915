// Every position a reader may come with, at a run in every state, in the process that made it and in one after a crash, with every
// filter: the stream says what follows that position, then `end`, and lets its socket go. Nothing hangs.
import { connect } from 'node:net'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, homeOf, type Options, type Person, signIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import type { Frame, Stream } from '../fixtures/stream.ts'

/** The promises are 2 s for an end and 5 s for a socket; asserted is ten times as much, and the times are told. */
const ENDED_MS = 20_000
const SOCKETS_MS = 50_000

const ALL = ['values', 'messages-tuple', 'updates', 'custom', 'tasks', 'checkpoints', 'debug']
/** Modes, and whether the log can be compared: how often an accumulated message is told depends on the moment. */
const FILTERS: readonly { readonly modes: readonly string[]; readonly isExact: boolean }[] = [
  { modes: ['values'], isExact: true },
  { modes: ['messages-tuple'], isExact: true },
  { modes: ALL, isExact: true },
  { modes: ['messages'], isExact: false }
]

/** Of three runs in a row, after a crash in the middle of the first. */
const AFTER_CRASH = ['error by the crash', 'running', 'pending']
const HELD = { deltas: 9, gateAfter: 4 }

/** A run that is asked for, and how it stands when it is. */
interface Subject {
  readonly standing: string
  readonly path: string
  readonly person: Person
  /** What its readers have seen of it, also before a crash. */
  readonly seen: readonly Frame[]
}

interface Place {
  readonly name: string
  /** As the reader says it; null: not at all. */
  readonly last: string | null
  /** n of the first frame it is to get. */
  readonly from: number
}

interface Site {
  readonly person: Person
  readonly home: string
  readonly config: Options
  child: Child
}

async function openSite(t: Test, model: FakeModel, runs: Options): Promise<Site> {
  const home = homeOf(t)
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const config = { models, runs, title: { enabled: false }, memory: { enabled: false } }
  const child = await startChild(t, { home, config })
  return { home, config, child, person: await signIn(child) }
}

async function crashAll(t: Test, sites: readonly Site[]): Promise<void> {
  await Promise.all(sites.map(({ child }) => child.kill()))
  for (const site of sites) {
    site.child = await startChild(t, site)
    site.person.url = site.child.url
  }
}

const epochOf = (id: string): number => Number(id.split('-')[0])
const numberOf = (id: string): number => Number(id.split('-')[1])
const lines = (frames: readonly Frame[]): string[] => frames.map(({ event, id, data }) => `${event} ${id} ${data}`)
const idsOf = (frames: readonly Frame[]): string[] => frames.flatMap(({ id }) => id ?? [])

// ------------------------------------------------------------------------------------------------------ subjects

async function said(person: Person, script: Script, thread?: string, durability = 'async'): Promise<Stream> {
  const more = { stream_mode: ALL, multitask_strategy: 'enqueue', durability }
  return person.stream(thread ?? (await person.thread()), scripted(script), more)
}

/** A run as its reader has seen it so far: it goes on reading. */
const subject = (standing: string, person: Person, stream: Stream, path = stream.runPath): Subject => {
  return { standing, path, person, seen: stream.frames }
}

const isTalking = ({ frames }: Stream): boolean => frames.filter(({ event }) => event === 'messages').length >= 2

/** Runs of one thread: the first has begun to talk, the others wait for it. */
async function queueOf(person: Person, scripts: readonly Script[], durability?: string): Promise<Stream[]> {
  const thread = await person.thread()
  const streams: Stream[] = []
  for (const script of scripts) {
    const stream = await said(person, script, thread, durability)
    await stream.until(streams.length ? ({ frames }) => frames.length > 0 : isTalking)
    streams.push(stream)
  }
  return streams
}

async function endedOnes(person: Person): Promise<Subject[]> {
  const success = await said(person, { text: 'all is well', calls: [[{ name: 'current_time', args: '{}' }]] })
  const error = await said(person, { deltas: 9, cutAfter: 4 })
  const interrupted = (await queueOf(person, [{ ...HELD, gate: 'never' }]))[0]!
  await person.post(`${interrupted.runPath}/cancel?wait=true`)
  await Promise.all([success.whole(), error.whole(), interrupted.whole()])
  return [
    subject('success', person, success),
    subject('error', person, error),
    subject('interrupted', person, interrupted)
  ]
}

// ----------------------------------------------------------------------------------------------------- positions

function placesOf({ seen }: Subject, other: Subject): Place[] {
  const ids = idsOf(seen)
  const [first, middle, last] = [ids[0]!, ids[Math.floor((ids.length - 1) / 2)]!, ids.at(-1)!]
  const foreign = idsOf(other.seen).at(-1)!
  const epoch = epochOf(last)
  const isSecond = epochOf(first) !== epoch
  const older = isSecond ? epochOf(first) : epoch - 1
  const firstOfSecond = numberOf(ids.find((id) => epochOf(id) === epoch)!)
  return [
    { name: 'no position', last: null, from: 0 },
    { name: '-1', last: '-1', from: 0 },
    { name: '0', last: '0', from: 0 },
    { name: 'the middle', last: middle, from: numberOf(middle) + 1 },
    { name: 'the last', last, from: numberOf(last) + 1 },
    { name: 'garbage', last: 'garbage 17', from: 0 },
    { name: "another run's", last: foreign, from: 0 },
    { name: 'one that never was', last: `${epoch}-999999`, from: 0 },
    // What was seen beyond what a crash has left: what follows is what came after the crash.
    { name: 'an older epoch', last: `${older}-999999`, from: isSecond ? firstOfSecond : 0 }
  ]
}

/** The ways to name a position are one as good as the other: each is taken in turn. */
let turn = 0
function join({ person, path }: Subject, { last }: Place, modes: readonly string[]): Promise<Stream> {
  const way = turn++ % 3
  const query = new URLSearchParams(modes.map((mode): [string, string] => ['stream_mode', mode]))
  if (way === 0 && last !== null) query.set('last_event_id', last)
  const headers: Record<string, string> = way === 0 || last === null ? {} : { 'last-event-id': last }
  return person.open('GET', `${path}/${way === 2 ? 'join' : 'stream'}?${query}`, { headers })
}

interface Joined {
  readonly subject: Subject
  readonly place: Place
  readonly filter: (typeof FILTERS)[number]
  readonly stream: Stream
  /** When it had its end, by the clock of the process. */
  readonly endedAt: Promise<number>
}

/** All positions with all filters; of `other` is the position of another run. */
async function joinAll(subjects: readonly Subject[], other: Subject): Promise<Joined[]> {
  const wanted = subjects.flatMap((subject) =>
    placesOf(subject, other).flatMap((place) => FILTERS.map((filter) => ({ subject, place, filter })))
  )
  return Promise.all(
    wanted.map(async (one) => {
      const stream = await join(one.subject, one.place, one.filter.modes)
      return { ...one, stream, endedAt: stream.ended.then(() => performance.now()) }
    })
  )
}

// ------------------------------------------------------------------------------------------------ what must hold

/** Everything of these ended runs is what follows the position, then the end. Answers the ms of the slowest. */
async function check(t: Test, all: readonly Joined[], terminalAt: number): Promise<number> {
  const endedAt = Math.max(...(await Promise.all(all.map((one) => one.endedAt))))
  for (const subject of new Set(all.map((one) => one.subject))) {
    const own = all.filter((one) => one.subject === subject)
    t.same(await Promise.all(own.map(({ stream }) => stream.ended)), Array(own.length).fill('whole'), subject.standing)
    for (const filter of FILTERS) {
      const whole = await (await subject.person.join(subject.path, null, filter.modes)).whole()
      for (const { place, stream } of own.filter((one) => one.filter === filter)) {
        const name = `${subject.standing}, ${place.name}, ${filter.modes.length > 1 ? 'all modes' : filter.modes[0]}`
        t.match(stream.frames.at(-1), { event: 'end' }, name)
        const wanted = whole.filter(({ id }) => id === null || numberOf(id) >= place.from)
        if (filter.isExact) t.same(lines(stream.frames), lines(wanted), `${name}: what follows it, and nothing else`)
      }
    }
  }
  return endedAt - terminalAt
}

async function statusesOf(subjects: readonly Subject[]): Promise<unknown[]> {
  return Promise.all(subjects.map(async ({ person, path }) => at((await person.get(path)).body, 'status')))
}

/** A reader that wants one answer and never closes its side of the connection: the ms until the server does. */
async function lazily({ person, path }: Subject): Promise<number> {
  const { hostname, port, host } = new URL(person.url)
  const since = performance.now()
  const socket = connect(Number(port), hostname)
  const { cookie = '' } = person.headers()
  socket.write(`GET ${path}/stream HTTP/1.1\r\nhost: ${host}\r\ncookie: ${cookie}\r\nconnection: close\r\n\r\n`)
  socket.resume()
  await once(socket, 'end')
  return performance.now() - since
}

/** The server lets go of what these streams came over. */
async function checkSockets(t: Test, sites: readonly Site[], all: readonly Joined[]): Promise<void> {
  const since = performance.now()
  for (const { child, person } of sites) {
    const own = new Set(all.filter(({ subject }) => subject.person === person).map(({ stream }) => stream.port))
    await until(async () => !(await child.sockets()).some((port) => own.has(port)), 'no socket is left', SOCKETS_MS)
  }
  t.comment(`${(performance.now() - since).toFixed()} ms later no socket was left`)
}

async function refusals(t: Test, { person, path }: Subject, other: Subject): Promise<void> {
  const elsewhere = other.path.replace(/[^/]+$/, path.split('/').at(-1)!)
  for (const wrong of [elsewhere, path.replace(/[^/]+$/, 'no-such-run')]) {
    for (const last of [null, '-1', '3', idsOf(other.seen)[0]!]) {
      const stream = await person.join(wrong, last)
      await stream.ended
      t.equal(stream.status, 404, 'no run of that thread')
    }
  }
}

/** `release` lets those go on that are held. */
async function checkAll(
  t: Test,
  sites: readonly Site[],
  over: readonly Subject[],
  held: readonly Subject[],
  release: () => void
): Promise<void> {
  const standings = [...over.map(({ standing }) => standing.split(' ')[0]), 'running', 'pending']
  t.same(await statusesOf([...over, ...held]), standings)
  const since = performance.now()
  const atOnce = await joinAll(over, held[0]!)
  const took = await check(t, atOnce, since)
  const waiting = await joinAll(held, over[0]!)
  const isTold = waiting.some(({ stream }) => stream.frames.some(({ event }) => event === 'end'))
  t.notOk(isTold, 'who joins a run that goes on is told no end')
  const released = performance.now()
  release()
  const after = await check(t, waiting, released)
  t.ok(Math.max(took, after) < ENDED_MS, 'in time')
  t.comment(`${atOnce.length} joins of ended runs had their end ${took.toFixed()} ms after the first was asked for`)
  t.comment(`${waiting.length} joins of others had it ${after.toFixed()} ms after the runs went on`)
  await refusals(t, over[0]!, held[0]!)
  t.ok((await lazily(over[0]!)) < SOCKETS_MS, 'who never closes is closed')
  await checkSockets(t, sites, [...atOnce, ...waiting])
}

const HANGING = { deltas: 9, hangAfter: 4 }

t.test('whatever position a reader has: it gets what follows, then the end', { timeout: 170_000 }, async (root) => {
  const model = await startModel()
  root.teardown(() => model.stop())
  const [site, hurried] = await Promise.all([openSite(root, model, {}), openSite(root, model, { timeout_s: 4 })])
  const sites = [site, hurried]
  const { person } = site
  const late = await said(hurried.person, HANGING)
  const over = await endedOnes(person)
  await late.whole()
  over.push(subject('timeout', hurried.person, late))

  await root.test('in the process that made the runs', async (t) => {
    const [running, pending] = await queueOf(person, [{ ...HELD, gate: 'first' }, { text: 'my turn' }])
    const held = [subject('running', person, running!), subject('pending', person, pending!)]
    await checkAll(t, sites, over, held, () => model.release('first'))
  })

  await root.test('while a run comes to its time limit', async (t) => {
    const [doomed] = await queueOf(hurried.person, [HANGING])
    const all = await joinAll([subject('running until its time is over', hurried.person, doomed!)], over[0]!)
    t.ok((await check(t, all, performance.now())) < ENDED_MS, 'in time')
    await checkSockets(t, sites, all)
  })

  await root.test('in the process after a crash', async (t) => {
    const scripts = [{ ...HELD, gate: 'never' }, { ...HELD, gate: 'second' }, { text: 'my turn' }]
    // What was seen of them before the crash is there after it: each has frames of both sides.
    const queue = await queueOf(person, scripts, 'sync')
    await crashAll(root, sites)
    const again = await Promise.all(queue.map(({ runPath }) => person.join(runPath, null, ALL)))
    const [killed, running, pending] = again
    await Promise.all([killed!.whole(), running!.until(isTalking), pending!.untilFrames(2)])
    const [error, ...held] = again.map((stream, i) => subject(AFTER_CRASH[i]!, person, stream, queue[i]!.runPath))
    await checkAll(t, sites, [...over, error!], held, () => model.release('second'))
  })
})
