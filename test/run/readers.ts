// The readers of a registry: how many, how fast, from where on, and what keeps their connections awake.
import t, { type Test } from 'tap'
import type { Run } from '../../lib/base/types.ts'
import { Clock } from '../fixtures/clock.ts'
import { ANN, finish, hasSpace, isOver, Room, toldTo } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const beats = (wire: FakeWire) => wire.text.match(/^: heartbeat$/gm)?.length ?? 0

t.test('open streams are counted by user, and a place is free again when its reader has gone', async (t) => {
  const room = await Room.open(t, { streams: { each: 2, all: 3 } })
  const run = await room.ask()
  const wires = [await room.join(run), await room.join(run)]
  t.equal(hasSpace(room.registry, 'ann'), false)
  t.equal(hasSpace(room.registry, 'ben'), true)
  const ben = new FakeWire()
  const reader = { userId: 'ben', credential: null }
  await room.registry.readers.join(run, { wire: ben, reader, modes: null, position: null })
  t.equal(hasSpace(room.registry, 'ben'), false, 'the total counts as well')
  wires[0]!.leave()
  t.equal(hasSpace(room.registry, 'ann'), true)
  room.registry.streams.reset(({ userId }) => userId === 'ben')
  t.equal(room.registry.streams.quota.held, 1)
  await finish(room, run)
  await until(isOver(wires[1]!), 'the last one is told')
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('a reader that catches up is given 128 KB at a time, and nothing more while its socket is full', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 40; i++) stage.say('x'.repeat(32 * 1024), `answer to ${run.run_id}`)
  await finish(room, run)
  const wire = new FakeWire()
  wire.isFull = true
  await room.registry.readers.join(run, { wire, reader: ANN, modes: ['messages-tuple'], position: null })
  const given = () => wire.written.reduce((sum, { length }) => sum + length, 0)
  await until(() => given() > 0, 'it is given something')
  await loopTurns()
  t.ok(given() <= 128 * 1024, 'one write')
  for (let before = given(); wire.ending === 'open'; before = given()) {
    wire.drain()
    // Read in a later turn, and given then.
    wire.isFull = true
    await until(() => given() > before || wire.ending !== 'open', 'it is given more')
    await loopTurns()
    t.ok(given() - before <= 128 * 1024 || wire.ending !== 'open')
  }
  t.equal(wire.ns.length, 42)
})

/** How often frames are read from now on. */
function countReads(room: Room): () => number {
  const { frames } = room.gate.store
  const { read: before } = frames
  let reads = 0
  const read: typeof before = (...args) => {
    reads++
    return before(...args)
  }
  Object.assign(frames, { read })
  return () => reads
}

/** Each takes one write a turn, until all have everything: the same. */
async function drainAll(t: Test, wires: readonly FakeWire[]): Promise<void> {
  while (wires.some(({ ending }) => ending === 'open')) {
    for (const wire of wires) {
      wire.drain()
      wire.isFull = true
    }
    await loopTurns()
  }
  const [first, ...others] = wires
  t.ok(first!.ns.length >= 40)
  for (const wire of others) t.same(wire.ns, first!.ns)
}

for (const [who, comesLate] of [
  ['a crowd that a fast run leaves behind', false],
  ['a crowd that comes to a run which has ended', true]
] as const)
  t.test(`${who} asks the store as often as one reader would`, async (t) => {
    const room = await Room.open(t)
    const reads = countReads(room)
    const run = await room.ask()
    const stage = await room.agent.stage(run)
    const wires: FakeWire[] = []
    const come = async () => {
      for (let i = 0; i < 50; i++) {
        const wire = new FakeWire()
        wire.isFull = true
        await room.registry.readers.join(run, { wire, reader: ANN, modes: ['messages-tuple'], position: null })
        wires.push(wire)
      }
    }
    if (!comesLate) await come()
    for (let i = 0; i < 40; i++) stage.say('x'.repeat(32 * 1024), `answer to ${run.run_id}`)
    await finish(room, run)
    if (comesLate) await come()
    await drainAll(t, wires)
    t.ok(reads() >= 5 && reads() <= 10, `${reads()} reads`)
  })

/** Reads of frames that keep the loop busy, as SQLite's do: in which turn of the loop, and of which run, each was made. */
function busyReads(t: Test, room: Room, busyMs: number): { readonly turn: number; readonly run: number }[] {
  const { frames } = room.gate.store
  const { read: before } = frames
  const made: { turn: number; run: number }[] = []
  let turn = 0
  let isOver = false
  const next = () => {
    turn++
    if (!isOver) setImmediate(next)
  }
  next()
  t.teardown(() => {
    isOver = true
  })
  const read: typeof before = async (run, from) => {
    made.push({ turn, run })
    for (const end = performance.now() + busyMs; performance.now() < end; );
    return before(run, from, 1024)
  }
  Object.assign(frames, { read })
  return made
}

t.test('a long replay leaves the loop to others between its reads, and other replays get their turn', async (t) => {
  const room = await Room.open(t)
  const runs: Run[] = []
  for (const count of [60, 10]) {
    const run = await room.ask()
    const stage = await room.agent.stage(run)
    for (let i = 0; i < count; i++) {
      stage.say('x'.repeat(2000), `answer to ${run.run_id}`)
      await room.committer.drained()
    }
    runs.push(await finish(room, run))
  }
  const made = busyReads(t, room, 5)
  const wires = [await room.join(runs[0]!, ['messages-tuple']), await room.join(runs[1]!, ['messages-tuple'])]
  for (const wire of wires) await until(isOver(wire), 'replayed')
  t.ok(made.length > 40, `${made.length} reads`)
  const byTurn = new Map<number, number>()
  for (const { turn } of made) byTurn.set(turn, (byTurn.get(turn) ?? 0) + 1)
  t.equal(Math.max(...byTurn.values()), 1, 'one that takes long is alone in its turn')
  const lastOfShort = made.findLastIndex(({ run }) => run === runs[1]!.key)
  const ofShort = made.filter(({ run }) => run === runs[1]!.key).length
  t.ok(lastOfShort < ofShort * 2 + 4, `the short one is done after ${lastOfShort} reads, ${ofShort} of them its own`)
})

t.test('a reader that is behind when the run ends goes on, keeps its place, and gets the end', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  const wire = await room.join(run, ['messages-tuple'])
  wire.isFull = true
  for (let i = 0; i < 100; i++) stage.say(`${i} `, `answer to ${run.run_id}`)
  await until(() => wire.written.length > 1, 'it is full')
  await finish(room, run)
  t.equal(wire.ending, 'open')
  t.equal(room.registry.streams.quota.held, 1)
  wire.drain()
  // What it has not taken is read from the store: a run that is over keeps nothing in memory.
  await until(() => wire.ending === 'ended', 'it gets the end')
  // Metadata, a hundred deltas and the last chunk; n 1 is a values frame.
  t.equal(wire.ns.length, 102)
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('who reads a run that has ended gives its place back as well', async (t) => {
  const room = await Room.open(t, { streams: { each: 1, all: 0 } })
  const run = await room.ask()
  await finish(room, run)
  for (let i = 0; i < 3; i++) {
    const wire = await room.join(run)
    await until(isOver(wire), 'replayed')
    t.equal(hasSpace(room.registry, 'ann'), true)
  }
  const go = room.gate.holdReads()
  const wire = await room.join(run)
  t.equal(room.registry.streams.quota.held, 1)
  wire.leave()
  t.equal(room.registry.streams.quota.held, 0, 'also when it leaves in the middle')
  go()
})

t.test('frames that were refused are a gap that is told, and not passed over in silence', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  stage.say('kept')
  await room.committer.drained()
  room.gate.refuses = ({ ops }) =>
    ops.some((op) => op.name === 'frames.append' && Buffer.from(op.segment.data).includes('lost'))
  stage.say('lost')
  t.equal((await room.ended(run)).status, 'error')
  const wire = await room.join(run, ['messages-tuple'])
  await until(isOver(wire), 'replayed')
  t.same(
    toldTo(wire).map(({ event }) => event),
    ['metadata', 'messages', 'gap', 'error', 'end']
  )
})

t.test('a run that is gone resets its wire', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  await finish(room, run)
  await room.gate.inner.apply([{ ops: [{ name: 'thread.remove', thread_id: room.threadId, user: null }] }])
  const wire = await room.join(run)
  t.equal(wire.ending, 'reset')
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('a finished run answers every position: all of it, the rest, or the end alone [design 5]', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask({ asks: { stream_mode: ['messages-tuple', 'values'] } })
  const row = await finish(room, run)
  const [epoch, last] = row.last_cursor!.split('-').map(Number) as [number, number]
  const nsAfter = async (position: Parameters<Room['join']>[2]) => {
    const wire = await room.join(run, null, position)
    await until(isOver(wire), 'replayed')
    t.match(wire.text, /event: end\ndata: null\n\n$/)
    return wire.ns
  }
  const all = await nsAfter(null)
  t.equal(all.at(-1), last)
  t.same(await nsAfter({ epoch, n: 0 }), all.slice(1))
  t.same(await nsAfter({ epoch: null, n: 1 }), all.slice(2))
  t.same(await nsAfter({ epoch, n: last }), [])
  t.same(await nsAfter({ epoch, n: last + 1 }), all, 'an id that never was')
  t.same(await nsAfter({ epoch: epoch - 1, n: 0 }), all, 'the id of another run')
})

t.test('frames that are no longer kept: one gap, the final state of that run, the end [contract 3.9]', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask({ text: 'one' })
  const row = await finish(room, run, 'of the first')
  await finish(room, await room.ask({ text: 'two' }), 'of the second')
  await room.gate.inner.apply([{ ops: [{ name: 'frames.sweep', before: '9999', after: 0, limit: 1000 }] }])
  const wire = await room.join(run)
  await until(isOver(wire), 'replayed')
  const [gap, values, end] = toldTo(wire)
  t.match(JSON.parse(gap!.data), { code: 'stream_replay_gap', latest_available_event_id: row.last_cursor })
  t.match(values, { event: 'values', data: /of the first/, n: null })
  t.notMatch(values!.data, /of the second/)
  t.equal(end!.event, 'end')
  const [epoch, n] = row.last_cursor!.split('-').map(Number) as [number, number]
  const again = await room.join(run, null, { epoch, n })
  await until(isOver(again), 'replayed')
  t.same(
    toldTo(again).map(({ event }) => event),
    ['end'],
    'who has the last frame has everything'
  )
})

// ---------------------------------------------------------------------------------------------------- heartbeats

t.test('heartbeats go to every open stream: of a run that goes, that waits, that has ended', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { heartbeatMs: 5000 })
  const asked = Promise.all(['one', 'two', 'three'].map((text) => room.ask({ text })))
  await clock.pass(100)
  const [ended, going, waiting] = (await asked) as [Run, Run, Run]
  await finish(room, ended)
  await room.agent.stage(going)
  const go = room.gate.holdReads()
  const wires = [await room.join(ended), await room.join(going), await room.join(waiting)]
  await clock.pass(10_000)
  t.same(wires.map(beats), [2, 2, 2])
  go()
  await loopTurns()
  t.equal(wires[0]!.ending, 'ended')
})

t.test('a full wire gets no heartbeat: it has a sign of life to read already', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { heartbeatMs: 5000 })
  const asked = room.ask()
  await clock.pass(100)
  const run = await asked
  const stage = await room.agent.stage(run)
  const wire = await room.join(run, ['messages-tuple'])
  wire.isFull = true
  stage.say('x')
  await clock.pass(100)
  const { length } = wire.written
  await clock.pass(60_000)
  t.equal(wire.written.length, length)
  wire.drain()
  await clock.pass(5000)
  t.equal(beats(wire), 1)
})

t.test('a reader of an ended run whose socket stays full is reset like any other', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { heartbeatMs: 1000, stallMs: 30_000 })
  const asked = room.ask()
  await clock.pass(100)
  const run = await asked
  const stage = await room.agent.stage(run)
  const wire = await room.join(run)
  wire.isFull = true
  stage.reply('x')
  stage.finish()
  await clock.pass(29_000)
  t.equal(room.registry.find(run.run_id), undefined)
  t.equal(wire.ending, 'open')
  await clock.pass(3000)
  t.equal(wire.ending, 'reset')
  t.equal(room.registry.streams.quota.held, 0)
})
