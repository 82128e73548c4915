// Stalls: readers that have stopped reading cost a bounded piece of memory each, delay nobody, and lose nothing.
import { createHash, type Hash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../fixtures/child.ts'
import { type Person, signIn } from '../fixtures/gateway.ts'
import type { Stream } from '../fixtures/stream.ts'
import { turns } from '../fixtures/until.ts'

const STALLED = Number(process.env.STALLED ?? 30)
const MB_OF_RUN = Number(process.env.STALL_MB ?? 12)
const DELTA_BYTES = 4096
/** Deltas a second: four megabytes, unless somebody has more time. */
const RATE = Number(process.env.STALL_RATE ?? 1000)
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
class Watch {
  readonly gaps: number[] = []
  readonly stream: Stream
  readonly #hash: Hash = createHash('sha1')
  #last: number | null = null

  constructor(stream: Stream) {
    this.stream = stream
    stream.tap((bytes) => {
      this.#hash.update(bytes)
      const now = performance.now()
      if (this.#last !== null) this.gaps.push(now - this.#last)
      this.#last = now
    })
  }

  async digest(): Promise<string> {
    const ending = await this.stream.ended
    if (ending !== 'whole') throw new Error(`the stream was not ended but ${ending}`)
    return this.#hash.digest('hex')
  }
}

/** Of all gaps between arrivals of these readers, in ms. */
function p99Of(watches: readonly Watch[]): number {
  const gaps = watches.flatMap(({ gaps }) => gaps).sort((a, b) => a - b)
  return gaps[Math.floor(gaps.length * 0.99)]!
}

interface Round {
  readonly p99: number
  /** The most that the resident memory was while the run went on. */
  readonly rssMax: number
  /** What is in use when the run is over and those who stalled have not read. */
  readonly held: number
  readonly digest: string
  readonly stalled: readonly Watch[]
}

/** One run with fast readers, and with so many that read its beginning and then nothing more. */
async function round(t: Test, child: Child, person: Person, stalls: number): Promise<Round> {
  child.measure()
  const first = await person.stream(await person.thread(), WORDS, { stream_mode: MODES })
  const stalled = await Promise.all(Array.from({ length: stalls }, () => stalling(person, first.runPath)))
  const fast = [new Watch(first)]
  while (fast.length < FAST) fast.push(new Watch(await person.join(first.runPath, null, MODES)))
  const digests = await Promise.all(fast.map((watch) => watch.digest()))
  t.equal(new Set(digests).size, 1, 'all fast readers got the same')
  const { since: rssMax } = await child.memory()
  return { p99: p99Of(fast), rssMax, held: await child.held(), digest: digests[0]!, stalled }
}

async function stalling(person: Person, path: string): Promise<Watch> {
  const watch = new Watch(await person.join(path, null, MODES))
  // Its first bytes flow in a turn of their own.
  await turns()
  watch.stream.stall()
  return watch
}

/** They read again. Answers what they got. */
async function allRead(stalled: readonly Watch[]): Promise<Set<string>> {
  for (const { stream } of stalled) stream.resume()
  return new Set(await Promise.all(stalled.map((watch) => watch.digest())))
}

t.test(`${STALLED} stalled readers of a run of ${MB_OF_RUN} MB`, async (t) => {
  const child = await startChild(t, { config: { streams: STREAMS } })
  const person = await signIn(child)
  // The first warms up: compiled code, and a heap that has the size which it needs under this load.
  await allRead((await round(t, child, person, STALLED)).stalled)
  const without = await round(t, child, person, 0)
  const withThem = await round(t, child, person, STALLED)
  const allowed = STALLED * PER_STALLED + WINDOW + PENDING

  await t.test('keep no more than a write each, the window and what is pending', async (t) => {
    const held = withThem.held - without.held
    t.comment(`in use: ${mb(without.held)} without them, ${mb(held)} more with them, ${mb(allowed)} allowed`)
    t.ok(held <= allowed)
    const grown = withThem.rssMax - without.rssMax
    t.comment(`RSS: at most ${mb(without.rssMax)} without them, ${mb(grown)} more with them`)
    t.ok(grown <= allowed + SLACK)
  })

  await t.test('do not delay those who read', async (t) => {
    const [before, after] = [without.p99, withThem.p99]
    t.comment(
      `p99 between frames: ${before.toFixed(1)} ms, ${after.toFixed(1)} ms with them: ${(after / before).toFixed(2)}x`
    )
    t.ok(after < Math.max(10 * before, 100))
  })

  await t.test('get everything once they read', async (t) => {
    t.notOk(
      withThem.stalled.some(({ stream }) => stream.isOver),
      'none was given up, none had it all'
    )
    t.same(await allRead(withThem.stalled), new Set([withThem.digest]))
  })
})

function mb(bytes: number): string {
  return `${(bytes / MB).toFixed(1)} MB`
}
