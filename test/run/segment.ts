// Segments as stored: when their frames were handed over, beside what readers get of them.
import t from 'tap'
import { filterOf } from '../../lib/run/log/filter.ts'
import { frameText, Kind } from '../../lib/run/log/frame.ts'
import { frameRangesOf, framesOf, INDEX_BYTES, TIME_ENTRY, timesOf } from '../../lib/run/log/segment.ts'
import { Slabs } from '../../lib/run/log/slabs.ts'
import type { Segment } from '../../lib/store/store.ts'

const text = (n: number) => frameText('custom', String(n), `5-${n}`)
const EPOCH = Date.now() - 60_000

/** Frames 0 to 4 as they are taken: two, then three. */
function taken(): Segment[] {
  const slabs = new Slabs(EPOCH, '5-')
  const segments: Segment[] = []
  for (let n = 0; n < 5; n++) {
    slabs.addText(n, n === 3 ? Kind.messages : Kind.custom, text(n))
    if (n === 1) segments.push(...slabs.segmentsFrom(0))
  }
  return [...segments, ...slabs.segmentsFrom(2)]
}

/** As compaction puts segments together. */
function together(segments: readonly Segment[]): Segment {
  const [first, last] = [segments[0]!, segments.at(-1)!]
  const index = Buffer.concat(segments.map((one) => one.index))
  return { ...first, last: last.last, index, data: Buffer.concat(segments.map((one) => one.data)) }
}

/** As an earlier version has stored it. */
function withoutTimes(segment: Segment): Segment {
  const entries = Array.from({ length: segment.index.length / INDEX_BYTES }, (_, i) =>
    segment.index.subarray(i * INDEX_BYTES, (i + 1) * INDEX_BYTES)
  )
  return { ...segment, index: Buffer.concat(entries.filter(([kind]) => kind !== TIME_ENTRY)) }
}

const shown = (segment: Segment) => [...framesOf(segment)].map(({ n, kind, bytes }) => [n, kind, bytes.toString()])
const ALL = [0, 1, 2, 3, 4].map((n) => [n, n === 3 ? Kind.messages : Kind.custom, text(n)])

t.test('a segment says when its frames were handed over, a block of several says it of each', async (t) => {
  const segments = taken()
  t.same(
    segments.map((one) => [...timesOf(one)].map(({ n }) => n)),
    [[0], [2]]
  )
  const times = [...timesOf(together(segments))]
  t.same(
    times.map(({ n }) => n),
    [0, 2]
  )
  for (const { at } of times) t.ok(Math.abs(at - Date.now()) < 10_000)
})

t.test('times are no frames: readers get the same with and without them, from wherever they begin', async (t) => {
  const block = together(taken())
  for (const segment of [block, withoutTimes(block)]) {
    t.same(shown(segment), ALL)
    for (let from = 0; from < 5; from++) {
      const ranges = [...frameRangesOf(segment, from, filterOf(['custom']).mask)]
      const expected = [0, 1, 2, 4].filter((n) => n >= from).map(text)
      t.equal(ranges.map(({ bytes }) => bytes.toString()).join(''), expected.join(''))
    }
  }
})

t.test('a segment of an earlier version has no times', async (t) => {
  t.same([...timesOf(withoutTimes(together(taken())))], [])
})

t.test('a time that does not fit, by a clock that was moved, is the nearest that does', async (t) => {
  const slabs = new Slabs(Date.now() + 3_600_000, '5-')
  slabs.addText(0, Kind.custom, text(0))
  const [segment] = slabs.segmentsFrom(0)
  t.same([...timesOf(segment!)], [{ n: 0, at: segment!.epoch }])
})
