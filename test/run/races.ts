// Races of the run room, moment by moment: between what the store has done and what we know of it, between a cancel and what is
// just being written, between an end that was said and a socket that has not taken it.
import t, { type Test } from 'tap'
import type { Run } from '../../lib/base/types.ts'
import { Clock } from '../fixtures/clock.ts'
import { ANN, type Ask, hasSpace, isOver, Room, toldTo } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const endsIn = (wire: FakeWire) => toldTo(wire).filter(({ event }) => event === 'end').length

async function begun(room: Room, ask: Ask = {}): Promise<Run> {
  const run = await room.ask(ask)
  const stage = await room.agent.stage(run)
  stage.say('said ', `answer to ${run.run_id}`)
  return run
}

async function finish(room: Room, run: Run): Promise<Run> {
  const stage = await room.agent.stage(run)
  stage.finish()
  return room.ended(run)
}

async function saidIn(room: Room): Promise<unknown[]> {
  const stored = await room.gate.inner.checkpoints.load(room.threadId, null)
  return stored!.messageBodies.map(({ json }) => (JSON.parse(json) as { content: unknown }).content)
}

/** The run's terminal status was written once. */
function endedOnce(t: Test, room: Room, run: Run): void {
  t.equal(room.gate.ops('run.settle').filter(({ run_id }) => run_id === run.run_id).length, 1)
}

// ------------------------------------------------------------------------- a row that is there, and an actor that is not

t.test('a run that others see before its creator was answered is found: joined, waited for, cancelled', async (t) => {
  const room = await Room.open(t)
  room.gate.holdAnswers()
  const asking = room.ask()
  const seen = await untilThere(room)
  t.equal(room.registry.find(seen.run_id), undefined)
  const wire = new FakeWire()
  const joined = room.registry.readers.join(seen, { wire, reader: ANN, modes: null, position: null })
  const waited = room.registry.ends.ended(seen.run_id)
  const cancelled = room.registry.admitted(seen.run_id).then(() => room.registry.ends.cancel(seen.run_id, 'interrupt'))
  await loopTurns()
  t.equal(wire.ending, 'open', 'not reset, and not told an end that was made up')
  room.gate.release()
  await asking
  await joined
  t.equal(await cancelled, true)
  await waited
  t.match(await room.ended(seen), { status: 'interrupted' })
  await until(isOver(wire), 'its reader is told')
  t.equal(endsIn(wire), 1)
})

/** The only run of the thread, as soon as the store has it. */
async function untilThere(room: Room): Promise<Run> {
  let run: Run | undefined
  await until(async () => {
    run = (await room.gate.inner.runs.inFlight(room.threadId))[0]
    return run !== undefined
  }, 'the row is there')
  return run!
}

t.test('a run whose admission is refused leaves nobody waiting for it', async (t) => {
  const room = await Room.open(t)
  room.gate.refuses = () => true
  const asking = room.ask()
  await t.rejects(asking)
  await t.resolves(room.registry.admitted('whatever'))
  t.equal(room.registry.sizes().admissions, 0)
})

t.test('between the end in the store and the end that we know of, nothing is decided anew', async (t) => {
  const room = await Room.open(t)
  const run = await begun(room)
  const wire = await room.join(run)
  room.gate.holdAnswers()
  ;(await room.agent.stage(run)).finish()
  await until(async () => (await room.row(run)).status === 'success', 'the end is in the store')
  t.equal(room.registry.ends.cancel(run.run_id, 'rollback'), false)
  const late = await room.join(run)
  const next = room.ask({ text: 'two' })
  await loopTurns()
  t.equal(wire.ending, 'open')
  t.equal(late.ending, 'open')
  room.gate.release()
  await until(isOver(late), 'who came meanwhile is told')
  await until(isOver(wire), 'and who was there')
  t.same(toldTo(late), toldTo(wire))
  t.equal(endsIn(late), 1)
  t.match(await finish(room, await next), { status: 'success' })
  endedOnce(t, room, run)
})

t.test('active runs are counted from the moment they are asked for; the same key again is no other run', async (t) => {
  const room = await Room.open(t, { activePerUser: 1 })
  const { registry } = room
  const hasSpace = (userId: string, key: string | null = null) => {
    const release = registry.quota.reserve(userId, key)
    release?.()
    return release !== null
  }
  const release = registry.quota.reserve('ann', 'key')
  const isCounted = () =>
    t.same([hasSpace('ann'), hasSpace('ann', 'other'), hasSpace('ann', 'key')], [false, false, true])
  isCounted()
  t.equal(hasSpace('ben', 'key'), true)
  const run = await room.ask({ idempotency_key: 'key', idempotency_hash: 'hash' })
  release?.()
  isCounted()
  await finish(room, run)
  t.equal(hasSpace('ann'), true)
})

// ------------------------------------------------------------------------------------- a commit that is in flight

for (const strategy of ['interrupt', 'rollback'] as const) {
  t.test(
    `${strategy} while the records of the run before are being written: each is ended once, in order`,
    async (t) => {
      const room = await Room.open(t)
      const done = await finish(room, await begun(room, { text: 'zero' }))
      const running = await begun(room, { text: 'one' })
      const waiting = await room.ask({ text: 'two' })
      room.gate.hold()
      ;(await room.agent.stage(running)).say('more ', `answer to ${running.run_id}`)
      const drained = room.committer.drained()
      const asking = room.ask({ text: 'three', multitask_strategy: strategy })
      await loopTurns()
      room.gate.release()
      const next = await asking
      await drained
      const status = strategy === 'interrupt' ? 'interrupted' : 'error'
      t.match(await room.ended(running), { status })
      t.match(await room.ended(waiting), { status })
      t.match(await finish(room, next), { status: 'success' })
      t.match(await room.row(done), { status: 'success' }, 'what had ended is left alone')
      for (const run of [done, running, waiting, next]) endedOnce(t, room, run)
      t.same(room.agent.started, [done.run_id, running.run_id, next.run_id])
      const before = ['zero', 'said ']
      const kept = strategy === 'interrupt' ? ['one', 'said more '] : []
      // The last one said nothing: its stage was told to finish.
      t.same(await saidIn(room), [...before, ...kept, 'three'])
    }
  )

  t.test(`${strategy} while the end of the run before is being written: that one keeps its end`, async (t) => {
    const room = await Room.open(t)
    const running = await begun(room, { text: 'one' })
    room.gate.hold()
    ;(await room.agent.stage(running)).finish()
    await loopTurns()
    const asking = room.ask({ text: 'two', multitask_strategy: strategy })
    await loopTurns()
    room.gate.release()
    const next = await asking
    t.match(await room.ended(running), { status: 'success' })
    t.match(await finish(room, next), { status: 'success' })
    endedOnce(t, room, running)
    t.same(await saidIn(room), ['one', 'said ', 'two'])
  })
}

t.test('of three that interrupt each other at once the last one runs, and every one ends once', async (t) => {
  const room = await Room.open(t)
  const first = await begun(room, { text: 'zero' })
  room.gate.hold()
  const asking = ['one', 'two', 'three'].map((text) => room.ask({ text, multitask_strategy: 'interrupt' }))
  await loopTurns()
  room.gate.release()
  const runs = await Promise.all(asking)
  const last = runs.reduce((a, b) => (a.ordinal > b.ordinal ? a : b))
  for (const run of [first, ...runs].filter(({ run_id }) => run_id !== last.run_id))
    t.match(await room.ended(run), { status: 'interrupted' })
  t.match(await finish(room, last), { status: 'success' })
  for (const run of [first, ...runs]) endedOnce(t, room, run)
})

t.test('twenty runs asked for at once go one at a time, in the order of their admission', async (t) => {
  const room = await Room.open(t)
  room.gate.hold()
  const asking = Array.from({ length: 20 }, (_, n) => room.ask({ text: `question ${n}` }))
  await loopTurns()
  room.gate.release()
  const runs = (await Promise.all(asking)).sort((a, b) => a.ordinal - b.ordinal)
  for (const run of runs) {
    await room.agent.stage(run)
    const status = await Promise.all(runs.map(async (one) => (await room.row(one)).status))
    t.ok(status.filter((one) => one === 'running').length <= 1)
    await finish(room, run)
  }
  t.same(
    room.agent.started,
    runs.map(({ run_id }) => run_id)
  )
})

// ----------------------------------------------------------------------- an end that was said, and not taken yet

/** A run that has ended, and a reader whose socket has not taken the end. */
async function unread(t: Test, room: Room, clock: Clock): Promise<{ run: Run; wire: FakeWire }> {
  const asking = room.ask()
  await clock.pass(100)
  const run = await asking
  const wire = await room.join(run)
  wire.isKept = true
  ;(await room.agent.stage(run)).finish()
  await clock.pass(100)
  t.equal(room.registry.find(run.run_id), undefined, 'the run is let go')
  t.equal(wire.ending, 'ended')
  return { run, wire }
}

t.test('who was told the end counts until its socket has taken it, and is left alone meanwhile', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { heartbeatMs: 1000, stallMs: 30_000, streams: { each: 1, all: 0 } })
  const { wire } = await unread(t, room, clock)
  const { length } = wire.written
  await clock.pass(20_000)
  t.equal(wire.written.length, length, 'no heartbeat after the end')
  t.equal(hasSpace(room.registry, 'ann'), false)
  wire.flush()
  t.equal(wire.ending, 'ended')
  t.equal(hasSpace(room.registry, 'ann'), true)
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('who was told the end and reads none of it is reset like any other that stalls', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { heartbeatMs: 1000, stallMs: 30_000 })
  const { wire } = await unread(t, room, clock)
  await clock.pass(29_000)
  t.equal(wire.ending, 'ended')
  await clock.pass(3000)
  t.equal(wire.ending, 'reset')
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('a revocation reaches who was told the end and has not read it', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t)
  const { wire } = await unread(t, room, clock)
  room.registry.streams.reset(({ userId }) => userId === 'ben')
  t.equal(wire.ending, 'ended')
  room.registry.streams.reset(({ userId }) => userId === 'ann')
  t.equal(wire.ending, 'reset')
  t.equal(room.registry.streams.quota.held, 0)
})

t.test('a stop does not break off what was ended: it is on its way', async (t) => {
  const room = await Room.open(t)
  const [ended, open] = [await begun(room), await begun(room, { thread_id: await room.addThread() })]
  const [told, waits] = [await room.join(ended), await room.join(open)]
  told.isKept = true
  await finish(room, ended)
  await room.registry.stop(0)
  t.equal(told.ending, 'ended')
  t.equal(waits.ending, 'reset')
})

// ----------------------------------------------------------------------------------------- a creator that goes away

/** A run that is cancelled when its creator goes away, and the wires of two requests that have created it, by one key. */
async function created(room: Room, clock: Clock): Promise<{ run: Run; wires: [FakeWire, FakeWire] }> {
  const asking = room.ask({ asks: { on_disconnect: 'cancel' } })
  await clock.pass(100)
  const run = await asking
  return { run, wires: [await room.join(run, null, null, true), await room.join(run, null, null, true)] }
}

t.test('each creator of a run that was asked for twice has the whole grace', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wires } = await created(room, clock)
  const phase = () => room.registry.find(run.run_id)?.phase
  wires[0].leave()
  await clock.pass(2000)
  wires[1].leave()
  await clock.pass(2900)
  t.equal(phase(), 'open', 'the second has been away for less')
  await clock.pass(200)
  t.match(await room.row(run), { status: 'interrupted', stop_reason: 'disconnected' })
})

t.test('the going of the second creator counts, however long the first has been away', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wires } = await created(room, clock)
  wires[0].leave()
  await clock.pass(60_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
  wires[1].leave()
  await clock.pass(3100)
  t.match(await room.row(run), { status: 'interrupted', stop_reason: 'disconnected' })
})

t.test('while the process ends no creator can come back: its going ends nothing that waits', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const asking = Promise.all([room.ask(), room.ask({ asks: { on_disconnect: 'cancel' }, text: 'two' })])
  await clock.pass(100)
  const [, waiting] = await asking
  const wire = await room.join(waiting, null, null, true)
  room.registry.drain()
  wire.leave()
  await clock.pass(60_000)
  t.match(await room.row(waiting), { status: 'pending' })
})

t.test('a creator that goes while the end is being written changes nothing', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 10 })
  const { run, wires } = await created(room, clock)
  room.gate.hold()
  ;(await room.agent.stage(run)).finish()
  await clock.pass(1)
  for (const wire of wires) wire.leave()
  await clock.pass(1000)
  room.gate.release()
  // Its frames are made small a while after its end.
  await clock.pass(1000)
  t.match(await room.row(run), { status: 'success' })
  t.equal(clock.pending, 1, 'the heartbeat alone is set')
})
