// The promise of the whole project: who loses the connection and comes back by the last id gets the rest, every byte of it, and
// nothing twice; while the run goes on, after its end, after a restart of the gateway.
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { demoWord } from '../../lib/agent/demo.ts'
import { type Child, startChild } from '../fixtures/child.ts'
import { homeOf, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { sized } from '../fixtures/size.ts'
import { type Frame, type Stream, textOf } from '../fixtures/stream.ts'

const DELTAS = 20_000
const READERS = sized(16, 50)
const CUTS = 20
const WORDS = `/demo deltas=${DELTAS} rate=0`
/** Every frame of a run. */
const MODES = ['values', 'messages-tuple', 'custom']
/** It is a gigabyte through two cores, which others may use as well. */
const TIMES = { timeout: 150_000 }
const BEAT = Buffer.from(': heartbeat\n')
const FRAME_END = Buffer.from('\n\n')

/** What a reader has of a run, however many connections it took. */
interface Reading {
  readonly sha: string
  readonly bytes: number
  readonly cuts: number
}

/**
 * Reads a run to its end. It leaves in mid-stream after the frames with these numbers: whatever came after such a frame is thrown
 * away, as if it had been under way when the connection broke, and the next connection names that frame.
 */
class Reader {
  readonly #person: Person
  readonly #path: string
  readonly #cuts: readonly number[]
  readonly #hash = createHash('sha256')
  #bytes = 0
  #done = 0
  #last: string | null
  #rest: Buffer = Buffer.alloc(0)

  /** `cuts`: in ascending order. `last`: the id it comes with. */
  constructor(person: Person, path: string, cuts: readonly number[] = [], last: string | null = null) {
    this.#person = person
    this.#path = path
    this.#cuts = cuts
    this.#last = last
  }

  async read(first?: Stream): Promise<Reading> {
    let stream = first ?? (await this.#join())
    for (;;) {
      const ending = await this.#readOne(stream)
      if (ending === 'whole') break
      if (ending !== 'left') throw new Error(`the stream was ${ending} after ${this.#last}`)
      stream = await this.#join()
    }
    return { sha: this.#hash.digest('hex'), bytes: this.#bytes, cuts: this.#done }
  }

  #join(): Promise<Stream> {
    return this.#person.join(this.#path, this.#last, MODES)
  }

  #readOne(stream: Stream): ReturnType<() => Stream['ended']> {
    if (stream.status !== 200) throw new Error(`a join after ${this.#last} was answered ${stream.status}`)
    this.#rest = Buffer.alloc(0)
    stream.tap((bytes) => this.#take(stream, bytes))
    return stream.ended
  }

  #take(stream: Stream, bytes: Buffer): void {
    const all = withoutBeats(this.#rest.length ? Buffer.concat([this.#rest, bytes]) : bytes)
    const at = this.#cutIn(all)
    if (at > 0) {
      this.#keep(all.subarray(0, at))
      this.#done++
      stream.leave()
      return
    }
    const end = all.lastIndexOf(FRAME_END)
    if (end < 0) {
      this.#rest = all
      return
    }
    this.#keep(all.subarray(0, end + FRAME_END.length))
    this.#rest = all.subarray(end + FRAME_END.length)
  }

  /** Where the frame of the next cut ends among these bytes; 0: it is not there. */
  #cutIn(bytes: Buffer): number {
    const cut = this.#cuts[this.#done]
    if (cut === undefined) return 0
    const mark = Buffer.from(`-${cut}\n\n`)
    const at = bytes.indexOf(mark)
    return at < 0 ? 0 : at + mark.length
  }

  #keep(bytes: Buffer): void {
    this.#hash.update(bytes)
    this.#bytes += bytes.length
    const at = bytes.lastIndexOf('\nid: ')
    if (at >= 0) this.#last = bytes.toString('latin1', at + 5, bytes.indexOf('\n', at + 5))
  }
}

/** Heartbeats are no part of the log. No line of a frame begins with a colon. */
function withoutBeats(bytes: Buffer): Buffer {
  let left = bytes
  for (let at = left.indexOf(BEAT); at >= 0; at = left.indexOf(BEAT, at)) {
    if (at > 0 && left[at - 1] !== 0x0a) at += BEAT.length
    else left = Buffer.concat([left.subarray(0, at), left.subarray(at + BEAT.length)])
  }
  return left
}

/** Distinct numbers of frames in ascending order, another list for each seed, the same in every run of the test. */
function cutsOf(seed: number): number[] {
  const cuts = new Set<number>()
  for (let state = seed + 1; cuts.size < CUTS; ) {
    state = (state * 48_271) % 2_147_483_647
    cuts.add(state % DELTAS)
  }
  return [...cuts].sort((a, b) => a - b)
}

async function readAll(person: Person, path: string): Promise<Reading[]> {
  const readers = Array.from({ length: READERS }, (_, seed) => new Reader(person, path, cutsOf(seed)))
  return Promise.all(readers.map((reader) => reader.read()))
}

function allAre(t: Test, readings: readonly Reading[], sha: string, when: string): void {
  const same = readings.filter((reading) => reading.sha === sha)
  t.equal(same.length, READERS, `${when}: every reader has the bytes of the one who was never cut`)
  const cuts = readings.map((reading) => reading.cuts)
  t.same(cuts, Array(READERS).fill(CUTS), `${when}: every reader was cut ${CUTS} times`)
}

/** The person's session is valid at the child that was started after this one. */
async function restarted(t: Test, child: Child, person: Person): Promise<Child> {
  t.match(await child.stop(), { code: 0 })
  const next = await startChild(t, { home: child.home })
  person.url = next.url
  return next
}

t.test(`${READERS} readers, each cut ${CUTS} times, have what one has who was never cut`, TIMES, async (t) => {
  const child = await startChild(t, { home: homeOf(t) })
  const person = await signIn(child)
  const threadId = await person.thread()
  const live = await person.stream(threadId, WORDS, { stream_mode: MODES })
  const path = live.runPath
  const [whole, ...readings] = await Promise.all([
    new Reader(person, path).read(live),
    ...Array.from({ length: READERS }, (_, seed) => new Reader(person, path, cutsOf(seed)).read())
  ])
  const { sha } = whole!
  allAre(t, readings, sha, 'while the run goes on')
  allAre(t, await readAll(person, path), sha, 'after its end')

  // What position 5 leaves of the whole, by a reader that keeps frames.
  const kept = await person.join(path, null, MODES)
  const frames = await kept.whole()
  t.equal(textOf(frames), Array.from({ length: DELTAS }, (_, n) => demoWord(n)).join(''))
  // A heartbeat falls into it where it is read at the fifteenth second of the process.
  const bytes = withoutBeats(kept.bytes)
  t.equal(createHash('sha256').update(bytes).digest('hex'), sha)
  const fifth = frames[5]!.id!
  const after = bytes.subarray(bytes.indexOf(`id: ${fifth}\n\n`) + `id: ${fifth}\n\n`.length)
  const shaAfter = createHash('sha256').update(after).digest('hex')
  t.equal((await new Reader(person, path, [], fifth).read()).sha, shaAfter, 'from position 5 on')

  await restarted(t, child, person)
  allAre(t, await readAll(person, path), sha, 'after a restart')
  t.equal((await new Reader(person, path, [], fifth).read()).sha, shaAfter, 'from position 5 on, after a restart')
  const end = await (await person.join(path, frames.at(-2)!.id, MODES)).whole()
  t.same(end, [{ event: 'end', data: 'null', id: null }], 'after the last frame there is the end alone')
})

t.test('a run created in the background for values only shows a later joiner every delta', async (t) => {
  const child = await startChild(t)
  const person = await signIn(child)
  const path = await person.run(await person.thread(), '/demo deltas=3000 rate=0', { stream_mode: ['values'] })
  const text = Array.from({ length: 3000 }, (_, n) => demoWord(n)).join('')
  const during = await (await person.join(path, null, ['messages-tuple'])).whole()
  t.equal(textOf(during), text)
  const ended = async () => JSON.stringify((await person.get(path)).body).includes('"success"')
  await until(ended, 'the end of the run')
  t.same(await (await person.join(path, null, ['messages-tuple'])).whole(), during)
  const own = await (await person.join(path)).whole()
  t.same([...new Set(own.map(({ event }) => event))], ['metadata', 'values', 'end'])
})

t.test('a reader that stalls is caught up from the log and loses nothing', async (t) => {
  const child = await startChild(t)
  const person = await signIn(child)
  // More than the buffers of both kernels hold.
  const words = `/demo deltas=${DELTAS} size=1000 rate=0`
  const stalled = await person.stream(await person.thread(), words, { stream_mode: ['messages-tuple'] })
  await stalled.untilFrames(10)
  stalled.stall()
  const whole = await (await person.join(stalled.runPath, null, ['messages-tuple'])).whole()
  stalled.resume()
  // Not t.same: it takes ten seconds for so many.
  t.ok(isDeepStrictEqual(await stalled.whole(), whole))
})

t.test('positions that never were begin at the beginning; none of them hangs', async (t) => {
  const person = await signIn(await startChild(t))
  const stream = await person.stream(await person.thread(), '/demo deltas=20 rate=0', { stream_mode: MODES })
  const whole = await stream.whole()
  const [epoch] = whole[0]!.id!.split('-')
  for (const last of ['-1', '0', 'garbage', `${epoch}-999`, '1-3', `${epoch}-`, '9'.repeat(40)]) {
    const again = await (await person.join(stream.runPath, last)).whole()
    t.same(again, whole, last)
  }
  t.same(await (await person.join(stream.runPath, '7')).whole(), whole.slice(8), 'a bare number is that n')
})

t.test('mode messages: wherever a reader is cut, every message arrives complete, and once', async (t) => {
  const person = await signIn(await startChild(t))
  const words = '/demo tool=current_time rate=200 deltas=5 args={}'
  const whole = await (await person.stream(await person.thread(), words, { stream_mode: ['messages'] })).whole()
  const path = listIn((await person.post('/api/threads/search')).body)
  const threadId = textIn(path[0], 'thread_id')
  const run = textIn((await person.get(`/api/threads/${threadId}/runs`)).body, 0, 'run_id')
  const completed = (frames: readonly Frame[]) =>
    frames.filter(({ event }) => event === 'messages/complete').map(({ data }) => textIn(JSON.parse(data), 0, 'id'))
  t.ok(completed(whole).length >= 3, 'a call, its result, an answer')
  for (const [i, { event }] of whole.slice(0, -1).entries()) {
    const seen = whole.slice(0, i + 1)
    // An id holds until the next one.
    const last = seen.findLast(({ id }) => id !== null)?.id ?? null
    const rest = await (await person.join(`/api/threads/${threadId}/runs/${run}`, last)).whole()
    t.same([...completed(seen), ...completed(rest)], completed(whole), `cut after ${event} ${last}`)
  }
})

t.test('modes that this agent has not are ignored, `events` too; nothing left is values [design 5]', async (t) => {
  const person = await signIn(await startChild(t))
  const thread = await person.thread()
  const rows = [
    [['events'], ['values']],
    [['nonsense', 'events'], ['values']],
    [['events', 'messages-tuple'], ['messages-tuple']],
    [
      ['events', 'custom', 'values'],
      ['custom', 'values']
    ]
  ] as const
  for (const [asked, same] of rows) {
    const stream = await person.stream(thread, '/demo deltas=5 rate=0', { stream_mode: asked })
    const shown = await stream.whole()
    t.ok(shown.length > 2, 'more than its beginning and its end')
    t.same(await (await person.join(stream.runPath)).whole(), shown, 'and by default to who joins')
    for (const modes of [asked, same]) t.same(await (await person.join(stream.runPath, null, modes)).whole(), shown)
  }
})
