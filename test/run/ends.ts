// How a run ends: once, with what it has, and with all of it stored before anybody is told.
import fc from 'fast-check'
import t from 'tap'
import { AgentError } from '../../lib/agent/runtime.ts'
import { State, storedJson } from '../../lib/thread/state.ts'
import type { Run } from '../../lib/base/types.ts'
import { aCall, anAnswer, request, response, type Stage } from '../fixtures/agent.ts'
import { Clock } from '../fixtures/clock.ts'
import { begun, isOver, messagesOf, namesTold, Room, toldTo } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const ALL = ['values', 'messages-tuple', 'custom']

t.test('who reloads on `end` finds everything: status, final state and messages', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = new FakeWire()
  let found: Promise<unknown[]> | null = null
  wire.end = () => {
    const { runs, checkpoints, events } = room.gate.inner
    found = Promise.all([
      runs.get(run.run_id, null),
      checkpoints.load(room.threadId, null).then((stored) => storedJson(stored!)),
      events.listMessages(room.threadId, { limit: 10 }, null)
    ])
  }
  const reader = { userId: 'ann', credential: null }
  await room.registry.readers.join(run, { wire, modes: ALL, position: null, reader })
  stage.reply('the answer')
  room.gate.hold()
  stage.finish()
  await loopTurns(10)
  t.notMatch(wire.text, /event: end/, 'not before the commit')
  room.gate.release()
  await until(() => found !== null, 'the end')
  const [row, state, messages] = (await found!) as [Run, string, { event_type: string }[]]
  t.equal(row.status, 'success')
  t.match(state, /the answer/)
  t.same(
    messages.map((one) => one.event_type),
    ['human_message', 'ai_message']
  )
  t.equal(row.last_cursor?.split('-')[1], String(wire.ns.at(-1)), 'the row names the last frame')
})

t.test(
  'when the store does not take the end in time, joiners are reset and not ended; it is stored later',
  async (t) => {
    const room = await Room.open(t, { settleTimeoutMs: 30 })
    const { run, stage } = await begun(room)
    const wire = await room.join(run, ALL)
    await room.committer.drained()
    t.equal(room.committer.stuck, null)
    room.gate.hold()
    stage.finish()
    await until(isOver(wire), 'it is given up')
    t.equal(wire.ending, 'reset')
    t.notMatch(wire.text, /event: end/)
    await until(() => room.committer.stuck !== null, 'new runs are refused')
    room.gate.release()
    t.equal((await room.ended(run)).status, 'success')
    t.equal(room.committer.stuck, null)
    const again = await room.join(run, ALL, { epoch: null, n: wire.ns.at(-1)! })
    await until(isOver(again), 'who comes back')
    t.same(namesTold(again), ['end'], 'gets what is missing')
  }
)

t.test('exactly one terminal status, in 1,000 races of cancel, finish and failure', async (t) => {
  const ends = {
    finish: (stage: Stage) => stage.finish(),
    fail: (stage: Stage) => stage.fail(new AgentError('Broken', 'on purpose')),
    interrupt: () => {},
    rollback: () => {}
  }
  type End = keyof typeof ends
  const expected: Record<End, string> = {
    finish: 'success',
    fail: 'error',
    interrupt: 'interrupted',
    rollback: 'error'
  }
  const room = await Room.open(t)
  const moment = fc.constantFrom('now', 'microtask', 'turn', 'hold', 'release')
  const race = fc.tuple(
    fc.shuffledSubarray(Object.keys(ends) as End[], { minLength: 2 }),
    fc.array(moment, { minLength: 4, maxLength: 4 }),
    fc.boolean()
  )
  const property = fc.asyncProperty(race, async ([order, moments, says]) => {
    const { run, stage } = await begun(room, { thread_id: await room.addThread() })
    const wire = await room.join(run, ALL)
    if (says) stage.say('something')
    let accepted: End | null = null
    for (const [at, end] of order.entries()) {
      if (end === 'interrupt' || end === 'rollback') {
        if (room.registry.ends.cancel(run.run_id, end)) accepted = end
      } else ends[end](stage)
      if (moments[at] === 'microtask') await Promise.resolve()
      else if (moments[at] === 'turn') await loopTurns(1)
      else if (moments[at] === 'hold') room.gate.hold()
      else if (moments[at] === 'release') room.gate.release()
    }
    room.gate.release()
    const row = await room.ended(run)
    await until(isOver(wire), 'the stream ends')
    const settled = room.gate.ops('run.settle').filter(({ run_id }) => run_id === run.run_id)
    const first = order.find((end) => end === 'finish' || end === 'fail')
    // Who was told that it is cancelled finds it cancelled.
    const decided = accepted ?? first
    const isRight = decided !== undefined && row.status === expected[decided]
    return isRight && settled.length === 1 && wire.text.match(/event: end/g)?.length === 1
  })
  await t.resolves(fc.assert(property, { numRuns: 1000 }))
})

t.test('a cancelled run keeps what it has said, and the next one is told of it', async (t) => {
  const room = await Room.open(t)
  const first = await begun(room, { text: 'one' })
  first.stage.say('half an ')
  first.stage.say('answer')
  room.registry.ends.cancel(first.run.run_id, 'interrupt')
  t.match(await room.ended(first.run), { status: 'interrupted', error: null, last_ai_message: 'half an answer' })
  t.equal((await room.gate.inner.threads.get(room.threadId, null))?.status, 'idle')
  const second = await begun(room, { text: 'two' })
  t.same(
    second.stage.input.messages.map(({ content }) => content),
    ['one', 'half an answer', 'two']
  )
})

t.test('calls that are broken off are answered, fragments of calls are marked [design 4, rule 6]', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  stage.callPiece({ index: 0, id: 'whole', name: 'look', args: '{"a":1}' })
  stage.callPiece({ index: 1, id: 'half', name: 'look', args: '{"a"' })
  const wire = await room.join(run, ALL)
  room.registry.ends.cancel(run.run_id, 'interrupt')
  await room.ended(run)
  const stored = await room.gate.inner.checkpoints.load(room.threadId, null)
  const [, said, answered] = State.fromStored(stored!).messages()
  t.match(said, { type: 'ai', tool_calls: [{ id: 'whole' }], invalid_tool_calls: [{ id: 'half' }] })
  t.match(answered, { type: 'tool', tool_call_id: 'whole', status: 'error', content: 'Interrupted' })
  t.match(wire.text, /Interrupted/, 'and joiners see it too')
})

t.test('a rollback leaves the state as it was before the run, and the run as an error', async (t) => {
  const room = await Room.open(t)
  const first = await begun(room, { text: 'one' })
  first.stage.reply('kept', { id: 'kept' })
  first.stage.finish()
  await room.ended(first.run)
  const second = await begun(room, { text: 'two' })
  second.stage.reply('forgotten', { id: 'forgotten' })
  second.stage.say('and this', 'more')
  room.registry.ends.cancel(second.run.run_id, 'rollback')
  t.match(await room.ended(second.run), { status: 'error', error: 'Rolled back by user' })
  t.same(await messagesOf(room), ['human: one', 'ai: kept'])
  const third = await begun(room, { text: 'three' })
  third.stage.reply('later', { id: 'later' })
  third.stage.finish()
  t.equal((await room.ended(third.run)).status, 'success', 'and numbers of bodies do not collide')
})

t.test(
  'an agent that fails with words for people: they are in the frame and the row; others are in the log',
  async (t) => {
    const room = await Room.open(t)
    const clear = await begun(room, { text: 'one' })
    const wire = await room.join(clear.run, ALL)
    clear.stage.fail(new AgentError('ModelUnavailable', 'The model does not answer', 'model_down'))
    t.match(await room.ended(clear.run), {
      status: 'error',
      error: 'The model does not answer',
      stop_reason: 'model_down'
    })
    await until(isOver(wire), 'the stream ends')
    const told = toldTo(wire).find(({ event }) => event === 'error')!
    t.same(JSON.parse(told.data), {
      error: 'ModelUnavailable',
      name: 'ModelUnavailable',
      message: 'The model does not answer'
    })
    t.same(room.logged, ['a run has failed'], 'one line')
    const obscure = await begun(room, { text: 'two' })
    obscure.stage.fail(new Error('password=hunter2'))
    t.notMatch(JSON.stringify(await room.ended(obscure.run)), /hunter2/)
    t.same(room.logged, ['a run has failed', 'a run has failed'])
  }
)

t.test('an agent that goes on after the end is not heard', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  room.registry.ends.cancel(run.run_id, 'interrupt')
  for (let i = 0; i < 10; i++) t.equal(stage.say('too late'), false)
  t.equal(stage.sink.record(request()), false)
  t.equal(stage.sink.record(response(anAnswer('too late'))), false)
  await room.ended(run)
  t.notMatch(wire.text, /too late/)
  const all = await room.gate.inner.events.listEvents(room.threadId, run.run_id, { limit: 100 }, null)
  t.same(
    all.map(({ event_type }) => event_type),
    ['human_message', 'run_start', 'run_end']
  )
})

t.test('what a run records is stored in the order of contract 4.3', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const call = aCall('c1', 'clock', { zone: 'UTC' })
  stage.reply('', { id: 'calls', tool_calls: [call] })
  await loopTurns(5)
  stage.use(call, 'noon')
  await loopTurns(5)
  stage.reply('It is noon.', { id: 'says' })
  stage.finish()
  t.match(await room.ended(run), { message_count: 1, last_ai_message: 'It is noon.', first_human_message: 'question' })
  const all = await room.gate.inner.events.listEvents(room.threadId, run.run_id, { limit: 100 }, null)
  t.same(
    all.map(({ event_type }) => event_type),
    'human_message run_start llm_request llm_response ai_tool_call tool_start tool_end tool_result llm_request llm_response ai_message run_end'.split(
      ' '
    )
  )
})

// --------------------------------------------------------------------------------------------------- by the clock

t.test('a run that takes too long ends as timeout, with what it has', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { timeoutMs: 60_000 })
  const asked = room.ask()
  await clock.pass(100)
  const run = await asked
  const stage = await room.agent.stage(run)
  stage.say('half')
  await clock.pass(59_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
  await clock.pass(1000)
  t.match(await room.row(run), { status: 'timeout', stop_reason: 'timeout', last_ai_message: 'half' })
  t.equal(stage.signal.aborted, true)
})

/** A run that is cancelled when its creator goes away, and the wire of that creator. */
async function left(room: Room, clock: Clock): Promise<{ run: Run; wire: FakeWire }> {
  const asked = room.ask({ asks: { on_disconnect: 'cancel' }, thread_id: await room.addThread() })
  await clock.pass(100)
  const run = await asked
  return { run, wire: await room.join(run, null, null, true) }
}

t.test('with on_disconnect cancel the run ends when its creator has been away for the grace', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  wire.leave()
  await clock.pass(2900)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
  await clock.pass(200)
  t.match(await room.row(run), { status: 'interrupted', stop_reason: 'disconnected' })
})

t.test('a creating request that is sent again renews the grace: it counts from when the last one left', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire: first } = await left(room, clock)
  let wire = first
  for (let cut = 0; cut < 3; cut++) {
    wire.leave()
    await clock.pass(2000)
    wire = await room.join(run, null, null, true)
  }
  t.equal(room.registry.find(run.run_id)?.phase, 'open', 'it has always come back in time')
  await clock.pass(10_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open', 'and is there')
  wire.leave()
  await clock.pass(2900)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
  await clock.pass(200)
  t.match(await room.row(run), { status: 'interrupted', stop_reason: 'disconnected' }, 'then it has left for good')
})

t.test('who watches then keeps it, its creator too; and the right to end it passes to nobody [design 5]', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  wire.leave()
  const joined = await room.join(run)
  await clock.pass(10_000)
  joined.leave()
  await clock.pass(10_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
})

t.test('who waits for its end watches it as well, until he goes [design 5]', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  wire.leave()
  const away = new AbortController()
  const waited = room.registry.ends.settled(run.run_id, away.signal)
  await clock.pass(10_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
  room.registry.ends.creatorLeft(run.run_id)
  away.abort()
  t.equal(await waited, false, 'nobody is told any more')
  await clock.pass(3100)
  t.match(await room.row(run), { status: 'interrupted', stop_reason: 'disconnected' })
})

t.test('what we break off is no disconnect of the client [design 4, rule 4]', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  room.registry.streams.reset(() => true)
  t.equal(wire.ending, 'reset')
  await clock.pass(60_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
})
