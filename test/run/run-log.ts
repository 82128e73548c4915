// The log of a run: one encoding for all, nothing forgotten before its commit, bounded behind it.
import t from 'tap'
import { Kind, newEpoch } from '../../lib/run/log/frame.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import { framesOf, frameRangesOf } from '../../lib/run/log/segment.ts'
import { aLog, appendState, commit, sliceFrom, stateJson, textFrom } from '../fixtures/run-log.ts'

const ALL = ['messages-tuple', 'values', 'custom', 'updates']

function filled(count: number, windowBytes = 1024): RunLog {
  const log = aLog({ windowBytes })
  for (let i = 0; i < count; i++) log.append(Kind.messages, 'messages', `[${'"x"'.padEnd(100, ' ')}]`)
  return log
}

t.test('a frame leaves memory only after its commit', async (t) => {
  const log = filled(5000)
  t.equal(log.first, 0, 'far beyond the window, and all there')
  commit(log)
  t.ok(log.first > 4000, 'what is stored and behind the window is gone')
  t.equal(log.head, 5000)
  t.equal(log.unstored.bytes, 0)
})

t.test('a state leaves memory with the frame that refers to it, and both count for the window', async (t) => {
  const log = aLog({ windowBytes: 100_000 })
  for (let i = 0; i < 50; i++) {
    log.append(Kind.messages, 'messages', `"step ${i}"`)
    appendState(log, `state ${i}`, 50_000)
    commit(log)
  }
  t.ok(log.first >= log.head - 8, `${log.head - log.first} frames with their states are in memory`)
  t.match(textFrom(log, log.first, ALL), /state 49/)
})

t.test('states that are not stored stay in memory', async (t) => {
  const log = aLog({ windowBytes: 0 })
  for (let i = 0; i < 10; i++) appendState(log, `state ${i}`, 100_000)
  t.equal(log.first, 0)
  t.equal(textFrom(log, 0, ALL).match(/event: values/g)?.length, 10)
})

t.test('what was taken and what is read are the same bytes', async (t) => {
  const log = filled(300)
  log.append(Kind.custom, 'custom', '"ü\u2028😀"')
  const read: Buffer[] = []
  let count = 0
  for (let next = 0; next < log.head; ) {
    const slice = sliceFrom(log, next, ALL)
    read.push(slice.bytes)
    count += slice.count
    next = slice.next
  }
  t.equal(count, 301)
  const stored = log.take().flatMap((segment) => [...framesOf(segment)])
  t.equal(Buffer.concat(stored.map((frame) => frame.bytes)).toString(), Buffer.concat(read).toString())
  t.same(
    stored.map((frame) => frame.n),
    Array.from({ length: 301 }, (_, n) => n)
  )
})

t.test('no segment is larger than a slab, save for one giant frame', async (t) => {
  const log = filled(5000)
  log.append(Kind.messages, 'messages', `"${'y'.repeat(500_000)}"`)
  const sizes = log.take().map((segment) => segment.data.length)
  t.ok(sizes.slice(0, -1).every((size) => size <= 64 * 1024))
  t.ok(sizes.at(-1)! > 500_000)
})

t.test('nothing is taken twice', async (t) => {
  const log = filled(10)
  t.equal(log.take().length, 1)
  t.equal(log.take().length, 0)
  log.append(Kind.messages, 'messages', '1')
  t.same(
    log.take().map(({ first, last }) => [first, last]),
    [[10, 10]]
  )
})

t.test('a filter passes its kinds, always metadata and errors, and renders values where they stand', async (t) => {
  const log = aLog()
  log.append(Kind.metadata, 'metadata', '{}')
  log.append(Kind.messages, 'messages', '1')
  appendState(log, 'checkpoint-1')
  log.append(Kind.messages, 'messages', '2')
  log.append(Kind.error, 'error', '{}')
  const events = (modes: string[]) => [...textFrom(log, 0, modes).matchAll(/^event: (.*)$/gm)].map((found) => found[1])
  t.same(events(['values']), ['metadata', 'values', 'error'])
  t.same(events(['messages-tuple']), ['metadata', 'messages', 'messages', 'error'])
  t.same(events(['messages-tuple', 'values']), ['metadata', 'messages', 'values', 'messages', 'error'])
  t.ok(textFrom(log, 2, ['values']).startsWith(`event: values\ndata: ${stateJson('checkpoint-1')}\nid: 7-2\n\n`))
})

t.test('ranges are what the filter takes, whole; alone are values and what tells of parts', async (t) => {
  const log = aLog()
  log.append(Kind.metadata, 'metadata', '{}')
  log.append(Kind.messages, 'messages', '1')
  appendState(log, 'checkpoint-1')
  log.append(Kind.updates, 'updates', '2')
  log.append(Kind.messages, 'messages', '3')
  log.append(Kind.error, 'error', '{}')
  log.append(Kind.whole, 'whole', '{}')
  log.append(Kind.part, 'part', '4')
  const [segment] = log.take()
  const frames = [...framesOf(segment!)]
  const told = (modes: string[], from = 0) =>
    [...frameRangesOf(segment!, from, filterOf(modes).mask)].map(({ n, last, kind, bytes }) => {
      t.equal(kind, frames[n]!.kind)
      t.same(bytes, Buffer.concat(frames.slice(n, last + 1).map((frame) => frame.bytes)))
      return [n, last]
    })
  t.same(told(['messages-tuple']), [
    [0, 1],
    [4, 5],
    [6, 6]
  ])
  t.same(told(['messages-tuple', 'values', 'updates']), [
    [0, 1],
    [2, 2],
    [3, 5],
    [6, 6]
  ])
  t.same(told(['messages-tuple'], 1), [
    [1, 1],
    [4, 5],
    [6, 6]
  ])
  t.same(told(['messages-tuple'], 7), [], "a part is nobody's")
  t.same(told(['values'], 5), [
    [5, 5],
    [6, 6]
  ])
})

t.test('where one slab gives all of it, a slice is no copy', async (t) => {
  const log = filled(5)
  const modes = ['messages-tuple']
  t.equal(sliceFrom(log, 0, modes).bytes.buffer, sliceFrom(log, 2, modes).bytes.buffer)
})

t.test('epochs are later than all before them, also within a millisecond and when the clock goes back', async (t) => {
  const [first, second, third] = [newEpoch([], 1_000_000), newEpoch([], 1_000_000), newEpoch([], 5)]
  t.ok(second > first && third > second)
})

t.test('the same modes give the same filter; unknown ones are skipped; none left is values', async (t) => {
  t.equal(filterOf(['values', 'custom']), filterOf(['custom', 'values', 'nonsense']))
  t.equal(filterOf(['nonsense']), filterOf(['values']))
  t.equal(filterOf([]), filterOf(['values']))
})
