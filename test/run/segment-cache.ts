// What joiners that are behind share of the store: one read for all, bounded, and never in the way of another try.
import t from 'tap'
import { SegmentCache } from '../../lib/run/log/stored-frames.ts'
import type { Segment } from '../../lib/store/store.ts'

const SEGMENT_BYTES = 64 * 1024

/** Ten frames a segment. */
const segment = (i: number): Segment => ({
  epoch: 1,
  first: i * 10,
  last: i * 10 + 9,
  index: Buffer.alloc(0),
  data: Buffer.alloc(SEGMENT_BYTES)
})

const four = (from: number) => [0, 1, 2, 3].map((i) => segment(Math.floor(from / 10) + i))

/** A store that counts how often it is asked. */
function store() {
  const asked: number[] = []
  const read = (from: number) => async () => {
    asked.push(from)
    return four(from)
  }
  return { asked, read }
}

const firsts = (segments: readonly Segment[]) => segments.map(({ first }) => first)

t.test('who stands within what was read gets it from there on, without the store', async (t) => {
  const { asked, read } = store()
  const reads = new SegmentCache()
  t.same(firsts(await reads.get(0, read(0))), [0, 10, 20, 30])
  t.same(firsts(await reads.get(25, read(25))), [20, 30], 'from the segment that has the frame')
  t.same(firsts(await reads.get(40, read(40))), [40, 50, 60, 70])
  t.same(firsts(await reads.get(5, read(5))), [0, 10, 20, 30, 40, 50, 60, 70], 'neighbours of two reads')
  t.same(asked, [0, 40])
})

t.test("a read under way is everybody's who begins there", async (t) => {
  const { asked, read } = store()
  const reads = new SegmentCache()
  const answers = await Promise.all([reads.get(3, read(3)), reads.get(3, read(3)), reads.get(4, read(4))])
  t.same(asked, [3, 4])
  t.equal(answers[0], answers[1])
})

t.test('no more than two reads are kept of a run, the newest', async (t) => {
  const { asked, read } = store()
  const reads = new SegmentCache()
  for (const from of [0, 40, 80]) await reads.get(from, read(from))
  await reads.get(80, read(80))
  await reads.get(40, read(40))
  t.same(asked, [0, 40, 80])
  await reads.get(0, read(0))
  t.same(asked, [0, 40, 80, 0])
})

t.test('a store that fails is asked again, and nothing is there after a clear', async (t) => {
  const { asked, read } = store()
  const reads = new SegmentCache()
  await t.rejects(
    reads.get(0, () => Promise.reject(new Error('busy'))),
    /busy/
  )
  await reads.get(0, read(0))
  reads.clear()
  await reads.get(0, read(0))
  t.same(asked, [0, 0])
})
