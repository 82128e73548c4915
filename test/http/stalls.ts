// Stalls: readers that have stopped reading cost a bounded piece of memory each, delay nobody, and lose nothing.
import { createHash, type Hash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { type Person, signIn } from '../fixtures/gateway.ts'
import type { Stream } from '../fixtures/stream.ts'
import { loopTurns } from '../fixtures/until.ts'

const STALLED = Number(process.env.STALLED ?? 30)
const MB_OF_RUN = Number(process.env.STALL_MB ?? 12)
const DELTA_BYTES = 4096
/** Deltas a second: four megabytes, unless somebody has more time. */
const RATE = Number(process.env.STALL_RATE ?? 1000)
/** Rounds of each kind: memory and delays are compared by their medians. */
const ROUNDS = Number(process.env.STALL_ROUNDS ?? 1)
const FAST = 3
const KB = 1024
const MB = 1024 * KB
const WINDOW = 256 * KB
const PENDING = 4 * MB
/** What one stalled reader may keep: one write. */
const PER_STALLED = 128 * KB
/** By how much resident memory is larger in one run than in the next of the same kind: garbage, and pages that are not given back. */
const SLACK = 64 * MB
/** The pause is for those who stall: they are there from the beginning. */
const WORDS = `/demo deltas=${(MB_OF_RUN * MB) / DELTA_BYTES} size=${DELTA_BYTES} rate=${RATE} pause=${STALLED * 40}:10`
const MODES = ['messages-tuple']
/** No heartbeats in between, so that all readers get the same bytes; and nobody is reset for its stall. */
const STREAMS = { heartbeat_ms: 600_000, stall_ms: 0, window_bytes: WINDOW, pending_bytes: PENDING }

/** Reads all of a stream and keeps nothing of it: when something came, and the digest of everything. */
class StreamWatch {
  /** Between arrivals, in ms; in the second half of the bytes. */
  readonly gaps: number[] = []
  readonly lateGaps: number[] = []
  readonly stream: Stream
  readonly #hash: Hash = createHash('sha1')
  #last: number | null = null
  #bytes = 0

  constructor(stream: Stream) {
    this.stream = stream
    stream.tap((bytes) => {
      this.#hash.update(bytes)
      this.#bytes += bytes.length
      const now = performance.now()
      const gap = now - (this.#last ?? now)
      this.gaps.push(gap)
      if (this.#bytes > (MB_OF_RUN * MB) / 2) this.lateGaps.push(gap)
      this.#last = now
    })
  }

  async digest(): Promise<string> {
    const ending = await this.stream.ended
    if (ending !== 'whole') throw new Error(`the stream was not ended but ${ending}`)
    return this.#hash.digest('hex')
  }
}

function p99Of(gaps: readonly number[]): number {
  return gaps.toSorted((a, b) => a - b)[Math.floor(gaps.length * 0.99)]!
}

interface Round {
  /** 99th percentile of the gaps between arrivals of the fast readers, in ms. */
  readonly p99: number
  /** The same of the second half: until then the system's buffers take what is sent to those who do not read, as from any reader. */
  readonly lateP99: number
  /** The most that the resident memory was while the run went on. */
  readonly rssMax: number
  /** What is in use when the run is over and those who stalled have not read. */
  readonly held: number
  readonly digest: string
  readonly stalled: readonly StreamWatch[]
}

/** One run with fast readers, and with so many that read its beginning and then nothing more. */
async function round(t: Test, child: Child, person: Person, stalls: number): Promise<Round> {
  child.measure()
  const first = await person.stream(await person.thread(), WORDS, { stream_mode: MODES })
  const stalled = await Promise.all(Array.from({ length: stalls }, () => stalling(person, first.runPath)))
  const fast = [new StreamWatch(first)]
  while (fast.length < FAST) fast.push(new StreamWatch(await person.join(first.runPath, null, MODES)))
  const digests = await Promise.all(fast.map((watch) => watch.digest()))
  t.equal(new Set(digests).size, 1, 'all fast readers got the same')
  const { since: rssMax } = await child.memory()
  const p99 = p99Of(fast.flatMap(({ gaps }) => gaps))
  const lateP99 = p99Of(fast.flatMap(({ lateGaps }) => lateGaps))
  return { p99, lateP99, rssMax, held: await child.held(), digest: digests[0]!, stalled }
}

async function stalling(person: Person, path: string): Promise<StreamWatch> {
  const watch = new StreamWatch(await person.join(path, null, MODES))
  // Its first bytes flow in a turn of their own.
  await loopTurns()
  watch.stream.stall()
  return watch
}

/** They read again. Answers what they got. */
async function allRead(stalled: readonly StreamWatch[]): Promise<Set<string>> {
  for (const { stream } of stalled) stream.resume()
  return new Set(await Promise.all(stalled.map((watch) => watch.digest())))
}

t.test(`${STALLED} stalled readers of a run of ${MB_OF_RUN} MB`, async (t) => {
  const child = await startChild(t, { config: { streams: STREAMS } })
  const person = await signIn(child)
  // The first warms up: compiled code, and a heap that has the size which it needs under this load.
  await allRead((await round(t, child, person, STALLED)).stalled)
  const without: Round[] = []
  const withThem: Round[] = []
  while (withThem.length < ROUNDS) {
    for (const { stalled } of withThem.slice(-1)) await allRead(stalled)
    without.push(await round(t, child, person, 0))
    withThem.push(await round(t, child, person, STALLED))
  }
  const allowed = STALLED * PER_STALLED + WINDOW + PENDING
  const both = (figure: Figure): [number, number] => [medianOf(without, figure), medianOf(withThem, figure)]

  await t.test('keep no more than a write each, the window and what is pending', async (t) => {
    const [heldWithout, held] = both('held')
    t.comment(
      `in use: ${mb(heldWithout)} without them, ${mb(held - heldWithout)} more with them, ${mb(allowed)} allowed`
    )
    t.ok(held - heldWithout <= allowed)
    const [rssWithout, rss] = both('rssMax')
    t.comment(`RSS: at most ${mb(rssWithout)} without them, ${mb(rss - rssWithout)} more with them`)
    t.ok(rss - rssWithout <= allowed + SLACK)
  })

  await t.test('do not delay those who read', async (t) => {
    const [p99Without, p99] = both('p99')
    t.comment(`p99 between frames: ${compared(p99Without, p99)}`)
    t.comment(`once their buffers are full: ${compared(...both('lateP99'))}`)
    t.ok(p99 < Math.max(10 * p99Without, 100))
  })

  await t.test('get everything once they read', async (t) => {
    const { stalled, digest } = withThem.at(-1)!
    t.notOk(
      stalled.some(({ stream }) => stream.isOver),
      'none was given up, none had it all'
    )
    t.same(await allRead(stalled), new Set([digest]))
  })
})

type Figure = 'p99' | 'lateP99' | 'rssMax' | 'held'

function medianOf(rounds: readonly Round[], figure: Figure): number {
  const sorted = rounds.map((round) => round[figure]).toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}

function compared(before: number, after: number): string {
  return `${before.toFixed(1)} ms, ${after.toFixed(1)} ms with them: ${(after / before).toFixed(2)}x`
}

function mb(bytes: number): string {
  return `${(bytes / MB).toFixed(1)} MB`
}
