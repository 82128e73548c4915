// The registry: who runs, who waits, who reads, and how all of it ends.
import t from 'tap'
import { StoreUnavailable } from '../../lib/store/store.ts'
import type { Run } from '../../lib/types.ts'
import { Clock } from '../fixtures/clock.ts'
import { ANN, holding, Room, toldTo } from '../fixtures/room.ts'
import { turns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const isOver = (wire: FakeWire) => () => wire.ending !== 'open'
const beats = (wire: FakeWire) => wire.text.match(/^: heartbeat$/gm)?.length ?? 0

async function finish(room: Room, run: Run, words = 'fine'): Promise<Run> {
  const stage = await room.agent.stage(run)
  stage.reply(words, { id: `answer to ${run.run_id}` })
  stage.finish()
  return room.ended(run)
}

// ------------------------------------------------------------------------------------------------------- the lanes

t.test(
  'runs of a thread go one at a time, in the order of their admission, each on what the last one left',
  async (t) => {
    const room = await Room.open(t)
    const runs = await Promise.all(['one', 'two', 'three'].map((text) => room.ask({ text })))
    for (const [at, run] of runs.entries()) {
      await room.agent.stage(run)
      t.same(
        room.agent.started,
        runs.slice(0, at + 1).map(({ run_id }) => run_id)
      )
      await finish(room, run, `answer ${at}`)
    }
    const last = await room.agent.stage(runs[2]!)
    t.same(
      last.input.messages.map(({ content }) => content),
      ['one', 'answer 0', 'two', 'answer 1', 'three']
    )
  }
)

t.test('threads do not wait for each other', async (t) => {
  const room = await Room.open(t)
  const first = await room.ask()
  const second = await room.ask({ thread_id: await room.addThread() })
  await room.agent.stage(first)
  await t.resolves(room.agent.stage(second))
})

t.test('a run that waits can be watched and cancelled, and is never started then', async (t) => {
  const room = await Room.open(t)
  const first = await room.ask()
  const second = await room.ask({ text: 'two' })
  const third = await room.ask({ text: 'three' })
  const wire = await room.join(second)
  t.equal(room.registry.cancel(second.run_id, 'interrupt'), true)
  t.match(await room.ended(second), { status: 'interrupted' })
  await until(isOver(wire), 'its reader is told')
  t.same(
    toldTo(wire).map(({ event }) => event),
    ['metadata', 'end']
  )
  await finish(room, first)
  await finish(room, third)
  t.notOk(room.agent.started.includes(second.run_id))
})

t.test('with strategy interrupt or rollback the runs before are cancelled, once the new one is stored', async (t) => {
  for (const multitask_strategy of ['interrupt', 'rollback'] as const) {
    const room = await Room.open(t)
    const first = await room.ask({ text: 'one' })
    await room.agent.stage(first)
    const waiting = await room.ask({ text: 'two' })
    const next = await room.ask({ text: 'three', multitask_strategy })
    const status = multitask_strategy === 'interrupt' ? 'interrupted' : 'error'
    t.equal((await room.ended(first)).status, status)
    t.equal((await room.ended(waiting)).status, status)
    t.equal((await finish(room, next)).status, 'success')
  }
})

t.test('when storing the new run fails the old ones go on', async (t) => {
  const room = await Room.open(t)
  const first = await room.ask()
  await room.agent.stage(first)
  room.gate.refuses = holding('run.create')
  await t.rejects(room.ask({ multitask_strategy: 'interrupt' }))
  t.equal(room.registry.find(first.run_id)?.phase, 'open')
  t.equal((await finish(room, first)).status, 'success')
})

t.test('a run that has ended cannot be cancelled, and nobody waits for it', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  await finish(room, run)
  t.equal(room.registry.cancel(run.run_id, 'interrupt'), false)
  t.equal(room.registry.cancel('no such run', 'interrupt'), false)
  await t.resolves(room.registry.ended(run.run_id))
  t.equal(room.registry.active, 0)
})

t.test('deleting a thread cancels all its runs and resolves when their last records are written', async (t) => {
  const room = await Room.open(t)
  const runs = [await room.ask({ text: 'one' }), await room.ask({ text: 'two' })]
  const elsewhere = await room.ask({ thread_id: await room.addThread() })
  await room.agent.stage(runs[0]!)
  await room.registry.cancelThread(room.threadId, 5000)
  for (const run of runs) t.match(await room.row(run), { status: 'interrupted', stop_reason: 'thread_deleted' })
  t.equal(room.registry.find(elsewhere.run_id)?.phase, 'open')
})

t.test('and waits no longer than it was told to', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  await room.agent.stage(run)
  room.gate.hold()
  await t.resolves(room.registry.cancelThread(room.threadId, 20))
})

t.test('active runs of one user are counted, whether they run or wait', async (t) => {
  const room = await Room.open(t, { activePerUser: 2 })
  t.equal(room.registry.hasSpaceForRun('ann'), true)
  const runs = [await room.ask({ text: 'one' }), await room.ask({ text: 'two' })]
  t.equal(room.registry.hasSpaceForRun('ann'), false)
  t.equal(room.registry.hasSpaceForRun('ben'), true)
  await finish(room, runs[0]!)
  t.equal(room.registry.hasSpaceForRun('ann'), true)
})

// ------------------------------------------------------------------------------------------------------- readers

t.test('open streams are counted by user, and a place is free again when its reader has gone', async (t) => {
  const room = await Room.open(t, { streams: { perUser: 2, total: 3 } })
  const run = await room.ask()
  const wires = [await room.join(run), await room.join(run)]
  t.equal(room.registry.hasSpaceForStream('ann'), false)
  t.equal(room.registry.hasSpaceForStream('ben'), true)
  const ben = new FakeWire()
  const reader = { userId: 'ben', credential: null }
  await room.registry.join(run, { wire: ben, reader, modes: null, position: null })
  t.equal(room.registry.hasSpaceForStream('ben'), false, 'the total counts as well')
  wires[0]!.leave()
  t.equal(room.registry.hasSpaceForStream('ann'), true)
  room.registry.resetStreams(({ userId }) => userId === 'ben')
  t.equal(room.registry.streams, 1)
  await finish(room, run)
  await until(isOver(wires[1]!), 'the last one is told')
  t.equal(room.registry.streams, 0)
})

t.test('a reader that catches up is given 128 KB at a time, and nothing more while its socket is full', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 40; i++) stage.say('x'.repeat(32 * 1024), `answer to ${run.run_id}`)
  await finish(room, run)
  const wire = new FakeWire()
  wire.isFull = true
  await room.registry.join(run, { wire, reader: ANN, modes: ['messages-tuple'], position: null })
  await until(() => wire.written.length > 0, 'it is given something')
  await turns()
  t.equal(wire.written.length, 1)
  for (let at = 1; wire.ending === 'open'; at++) {
    wire.drain()
    // Read in a later turn, and given then.
    wire.isFull = true
    await until(() => wire.written.length > at || wire.ending !== 'open', 'it is given more')
    await turns()
    t.ok(wire.written.length <= at + 1 || wire.ending !== 'open')
  }
  t.ok(wire.written.every((bytes) => bytes.length <= 128 * 1024))
  t.ok(wire.written.length >= 10)
  t.equal(wire.ns.length, 42)
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
  t.equal(room.registry.streams, 1)
  wire.drain()
  // What it has not taken is read from the store: a run that is over keeps nothing in memory.
  await until(() => wire.ending === 'ended', 'it gets the end')
  // Metadata, a hundred deltas and the last chunk; n 1 is a values frame.
  t.equal(wire.ns.length, 102)
  t.equal(room.registry.streams, 0)
})

t.test('who reads a run that has ended gives its place back as well', async (t) => {
  const room = await Room.open(t, { streams: { perUser: 1, total: 0 } })
  const run = await room.ask()
  await finish(room, run)
  for (let i = 0; i < 3; i++) {
    const wire = await room.join(run)
    await until(isOver(wire), 'replayed')
    t.equal(room.registry.hasSpaceForStream('ann'), true)
  }
  const go = room.gate.holdReads()
  const wire = await room.join(run)
  t.equal(room.registry.streams, 1)
  wire.leave()
  t.equal(room.registry.streams, 0, 'also when it leaves in the middle')
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
  t.equal(room.registry.streams, 0)
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
  await turns()
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
  t.equal(room.registry.streams, 0)
})

// --------------------------------------------------------------------------------------------------- the way out

t.test('a credential that is revoked ends its streams, wherever they read, and no others', async (t) => {
  const room = await Room.open(t)
  const live = await room.ask()
  const stage = await room.agent.stage(live)
  const other = new FakeWire()
  const reader = { ...ANN, credential: 'another' }
  await room.registry.join(live, { wire: other, reader, modes: null, position: null })
  const behind = await room.join(live)
  behind.isFull = true
  stage.reply('x')
  await until(() => behind.written.length > 1, 'it is full')
  const open = await room.join(live)
  room.registry.resetStreams(({ credential }) => credential === ANN.credential)
  t.same([open.ending, behind.ending, other.ending], ['reset', 'reset', 'open'])
})

t.test('who stands behind a run that has ended is found by a revocation as well', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const wire = await room.join(run)
  wire.isFull = true
  await finish(room, run)
  t.equal(wire.ending, 'open')
  room.registry.resetStreams(() => true)
  t.equal(wire.ending, 'reset')
})

t.test('a stop lets runs finish, then ends them as interrupted with what they have; readers are reset', async (t) => {
  const room = await Room.open(t)
  const [quick, slow] = [await room.ask(), await room.ask({ thread_id: await room.addThread() })]
  const [quickStage, slowStage] = [await room.agent.stage(quick), await room.agent.stage(slow)]
  const wire = await room.join(slow)
  slowStage.say('half an answer')
  const stopped = room.registry.stop(200, 0, () => {})
  t.equal(room.registry.refusal, 'stopping')
  quickStage.finish()
  await stopped
  t.match(await room.row(quick), { status: 'success' })
  t.match(await room.row(slow), {
    status: 'interrupted',
    stop_reason: 'shutdown',
    last_ai_message: 'half an answer'
  })
  t.equal(wire.ending, 'reset', 'never ended: that would look like success')
  t.notMatch(wire.text, /event: end/)
})

t.test('runs that wait when the process stops stay pending, and start in order in the next one', async (t) => {
  const room = await Room.open(t)
  const runs = [await room.ask({ text: 'one' }), await room.ask({ text: 'two' }), await room.ask({ text: 'three' })]
  await room.agent.stage(runs[0]!)
  const wire = await room.join(runs[1]!)
  await room.registry.stop(0, 0, () => {})
  await room.committer.drained()
  t.equal(wire.ending, 'reset')
  t.same(await Promise.all(runs.map(async (run) => (await room.row(run)).status)), [
    'interrupted',
    'pending',
    'pending'
  ])
  const next = await Room.open(t, {}, room.gate.inner)
  for (const run of runs.slice(1)) {
    const bounds = await room.gate.inner.frames.bounds(run.key)
    next.registry.resume(run, { epochs: bounds!.epochs, head: bounds!.last + 1 })
  }
  const again = await next.join(runs[1]!, ['values'])
  for (const run of runs.slice(1)) t.equal((await finish(next, run)).status, 'success')
  t.same(next.agent.started, [runs[1]!.run_id, runs[2]!.run_id])
  await until(isOver(again), 'its reader is told')
  t.same(
    toldTo(again).map(({ event }) => event),
    ['metadata', 'metadata', 'values', 'values', 'end'],
    'a second attempt under an epoch of its own'
  )
  t.same(again.ns, [0, 1, 2, 4], 'whose numbers go on')
})

t.test('a store that takes nothing for too long refuses new runs, until it does again', async (t) => {
  const room = await Room.open(t, { settleTimeoutMs: 20 })
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  room.gate.trouble = new StoreUnavailable('SQLITE_FULL', 'disk full')
  stage.say('x')
  await until(() => room.registry.refusal === 'store_stuck', 'refused')
  room.gate.trouble = null
  await until(() => room.registry.refusal === null, 'welcome')
  await turns()
  t.equal((await finish(room, run)).status, 'success')
})
