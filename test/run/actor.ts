// The run actor between a scripted agent and a store that does as it is told: what joiners see, what is stored, how a run ends.
import fc from 'fast-check'
import t from 'tap'
import { AgentError } from '../../lib/agent/runtime.ts'
import { StoreUnavailable } from '../../lib/store/store.ts'
import { State, storedJson } from '../../lib/thread/state.ts'
import type { JsonObject, Run } from '../../lib/types.ts'
import { aCall, anAnswer, request, response, type Stage } from '../fixtures/agent.ts'
import { Clock } from '../fixtures/clock.ts'
import { type Ask, holding, Room, toldTo } from '../fixtures/room.ts'
import { turns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const ALL = ['values', 'messages-tuple', 'custom']
const events = (wire: FakeWire) => toldTo(wire).map(({ event }) => event)
const isOver = (wire: FakeWire) => () => wire.ending !== 'open'

/** A run whose stage is set. */
async function begun(room: Room, ask: Ask = {}): Promise<{ run: Run; stage: Stage }> {
  const run = await room.ask(ask)
  return { run, stage: await room.agent.stage(run) }
}

async function messagesOf(room: Room): Promise<string[]> {
  const stored = await room.gate.inner.checkpoints.load(room.threadId, null)
  return State.fromStored(stored!)
    .messages()
    .map((message) => `${message.type}: ${String(message.content)}`)
}

// --------------------------------------------------------------------------------------------------- what is seen

t.test('a run is metadata, its values, its deltas, and the end', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  stage.say('Hello ')
  stage.say('world')
  stage.reply('Hello world')
  stage.finish()
  await until(isOver(wire), 'the run ends')
  t.same(events(wire), ['metadata', 'values', 'messages', 'messages', 'messages', 'values', 'end'])
  t.same(wire.ns, [0, 1, 2, 3, 4, 5], 'and every frame but the last has a number')
  t.equal(wire.ending, 'ended')
  t.match(await room.row(run), { status: 'success', last_ai_message: 'Hello world' })
})

t.test('joiners with one filter at the tail share one Buffer', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wires = [await room.join(run, ALL), await room.join(run, ALL), await room.join(run, [...ALL].reverse())]
  const before = wires.map((wire) => wire.written.length)
  stage.say('one for all')
  stage.custom({ same: true })
  await until(() => wires.every((wire, at) => wire.written.length > before[at]!), 'delivered')
  t.equal(wires[0]!.written.at(-1), wires[1]!.written.at(-1))
  t.equal(wires[0]!.written.at(-1), wires[2]!.written.at(-1))
})

t.test('a run is logged token by token also when its creator wanted values only', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room, { asks: { stream_mode: ['values'] } })
  stage.say('late readers see this')
  const wire = await room.join(run, ['messages-tuple'])
  t.match(wire.text, /late readers see this/)
})

t.test('updates, tasks, checkpoints and debug are logged when the creator asked for them, and only then', async (t) => {
  const room = await Room.open(t)
  const extras = ['updates', 'tasks', 'checkpoints', 'debug']
  for (const stream_mode of [['values'], extras]) {
    const { run, stage } = await begun(room, { asks: { stream_mode } })
    stage.reply('x')
    stage.finish()
    await room.ended(run)
    const wire = await room.join(run, extras)
    await until(isOver(wire), 'replayed')
    const found = extras.filter((mode) => events(wire).includes(mode))
    t.same(found, stream_mode === extras ? extras : [])
  }
})

t.test('a run reads the same from memory, and from the store, whatever was done to it meanwhile', async (t) => {
  const doing = fc.oneof(
    fc.record({ do: fc.constant('say' as const), text: fc.string({ unit: 'binary', maxLength: 300 }) }),
    fc.record({ do: fc.constantFrom('reply' as const, 'hold' as const, 'release' as const, 'turn' as const) }),
    fc.record({ do: fc.constant('custom' as const), data: fc.jsonValue({ maxDepth: 2 }) }),
    fc.record({ do: fc.constant('update' as const), data: fc.jsonValue({ maxDepth: 2 }) }),
    fc.record({ do: fc.constant('stall' as const) }),
    fc.record({ do: fc.constant('drain' as const) })
  )
  const ending = fc.constantFrom('finish' as const, 'fail' as const, 'interrupt' as const, 'rollback' as const)
  const room = await Room.open(t, { windowBytes: 3000, pendingBytes: 0 })
  let count = 0
  const property = fc.asyncProperty(fc.array(doing, { maxLength: 40 }), ending, async (steps, how) => {
    const { run, stage } = await begun(room, { thread_id: await room.addThread(), text: String(count++) })
    const live = await room.join(run, ALL)
    for (const step of steps) {
      if (step.do === 'say') stage.say(step.text, `m${count}`)
      else if (step.do === 'reply') stage.reply(`reply ${count}`, { id: `m${count++}` })
      // What fast-check makes of jsonValue is JSON.
      else if (step.do === 'custom') stage.custom(step.data as JsonObject)
      else if (step.do === 'update') {
        stage.sink.record({ type: 'update', channels: { todos: step.data as JsonObject } })
        stage.sink.record({ type: 'step', node: 'agent' })
      } else if (step.do === 'hold') room.gate.hold()
      else if (step.do === 'release') room.gate.release()
      else if (step.do === 'stall') live.isFull = true
      else if (step.do === 'drain') live.drain()
      else await turns(2)
    }
    if (how === 'finish') stage.finish()
    else if (how === 'fail') stage.fail(new AgentError('Broken', 'on purpose'))
    else room.registry.cancel(run.run_id, how)
    room.gate.release()
    live.drain()
    await room.ended(run)
    live.drain()
    const replayed = await room.join(run, ALL)
    await until(() => live.ending !== 'open' && replayed.ending !== 'open', 'both end')
    return live.ending === 'ended' && replayed.ending === 'ended' && live.text === replayed.text
  })
  await t.resolves(fc.assert(property, { numRuns: 150 }))
})

t.test('with durability sync nothing is shown that is not stored', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room, { asks: { durability: 'sync' } })
  const wire = await room.join(run, ALL)
  await until(() => wire.ns.length === 2, 'what is stored is shown')
  await room.committer.drained()
  room.gate.hold()
  stage.say('wait for it')
  await until(() => room.gate.groups.at(-1)!.ops[0]!.name === 'frames.append', 'it is under way to the store')
  await turns(10)
  t.notMatch(wire.text, /wait for it/)
  room.gate.release()
  await until(() => wire.text.includes('wait for it'), 'shown after the commit')
})

// ------------------------------------------------------------------------------------------------ what is stored

t.test('emit answers false while too much is not stored; space() resolves after the commit', async (t) => {
  const room = await Room.open(t, { pendingBytes: 2000 })
  const { stage } = await begun(room)
  await room.committer.drained()
  room.gate.hold()
  t.equal(stage.say('little'), true)
  t.equal(stage.say('x'.repeat(3000)), false)
  t.equal(stage.say('what comes all the same is kept'), false)
  let hasSpace = false
  const space = stage.sink.space().then(() => {
    hasSpace = true
  })
  await turns(10)
  t.equal(hasSpace, false)
  room.gate.release()
  await space
  t.equal(stage.say('little'), true)
  await t.resolves(stage.sink.space(), 'and at once where there is space')
})

t.test('who waits for space is told when the run is over, stored or not', async (t) => {
  const room = await Room.open(t, { pendingBytes: 1000 })
  const { run, stage } = await begun(room)
  await room.committer.drained()
  room.gate.hold()
  stage.say('x'.repeat(2000))
  const space = stage.sink.space()
  t.equal(room.registry.cancel(run.run_id, 'interrupt'), true)
  await space
  t.equal(stage.say('too late'), false)
  t.equal(stage.reply('too late'), false)
  room.gate.release()
  await room.ended(run)
  t.notMatch((await messagesOf(room)).join(), /too late/)
})

t.test('a store that is locked for a while loses nothing, and nobody notices but the clock', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  room.gate.trouble = new StoreUnavailable('SQLITE_BUSY', 'locked')
  stage.say('said while locked')
  stage.reply('said while locked')
  stage.finish()
  await until(() => room.committer.waitingMs > 60, 'it was tried more than once')
  t.match(wire.text, /said while locked/)
  t.equal(wire.ending, 'open')
  room.gate.trouble = null
  t.equal((await room.ended(run)).status, 'success')
  t.equal(wire.ending, 'ended')
})

t.test('a refused group fails its run alone: the others of the batch have not noticed', async (t) => {
  const room = await Room.open(t)
  const bad = await begun(room)
  const good = await begun(room, { thread_id: await room.addThread() })
  const [badWire, goodWire] = [await room.join(bad.run, ALL), await room.join(good.run, ALL)]
  await room.committer.drained()
  room.gate.refuses = holding('events.append', bad.run.run_id)
  for (const { stage } of [bad, good]) stage.reply('the same')
  await room.ended(bad.run)
  good.stage.finish()
  await room.ended(good.run)
  await until(() => isOver(badWire)() && isOver(goodWire)(), 'both end')
  t.match(await room.row(bad.run), { status: 'error', stop_reason: 'storage_refused' })
  t.same(events(badWire).slice(-2), ['error', 'end'])
  t.equal(badWire.ending, 'ended')
  t.match(await room.row(good.run), { status: 'success', error: null })
  t.notMatch(events(goodWire).join(), /error/)
  t.match(room.logged.join(), /refuses the records/, 'what was refused is in the log file')
  t.equal(bad.stage.signal.aborted, true, 'and its agent is told to stop')
})

t.test('a run whose thread is deleted under it ends, and brings nothing back', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  await room.committer.drained()
  await room.gate.inner.apply([{ ops: [{ name: 'thread.remove', thread_id: room.threadId, user: null }] }])
  stage.reply('too late')
  await until(isOver(wire), 'the stream ends')
  await until(() => room.registry.active === 0, 'the registry forgets it')
  t.equal(await room.gate.inner.runs.get(run.run_id, null), null)
  t.equal(await room.gate.inner.threads.get(room.threadId, null), null)
})

// --------------------------------------------------------------------------------------------------- how it ends

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
  await room.registry.join(run, { wire, modes: ALL, position: null, reader })
  stage.reply('the answer')
  room.gate.hold()
  stage.finish()
  await turns(10)
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
    t.equal(room.registry.refusal, null)
    room.gate.hold()
    stage.finish()
    await until(isOver(wire), 'it is given up')
    t.equal(wire.ending, 'reset')
    t.notMatch(wire.text, /event: end/)
    await until(() => room.registry.refusal === 'store_stuck', 'new runs are refused')
    room.gate.release()
    t.equal((await room.ended(run)).status, 'success')
    t.equal(room.registry.refusal, null)
    const again = await room.join(run, ALL, { epoch: null, n: wire.ns.at(-1)! })
    await until(isOver(again), 'who comes back')
    t.same(events(again), ['end'], 'gets what is missing')
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
        if (room.registry.cancel(run.run_id, end)) accepted = end
      } else ends[end](stage)
      if (moments[at] === 'microtask') await Promise.resolve()
      else if (moments[at] === 'turn') await turns(1)
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
  room.registry.cancel(first.run.run_id, 'interrupt')
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
  room.registry.cancel(run.run_id, 'interrupt')
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
  room.registry.cancel(second.run.run_id, 'rollback')
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
    t.equal(room.logged.length, 0)
    const obscure = await begun(room, { text: 'two' })
    obscure.stage.fail(new Error('password=hunter2'))
    t.notMatch(JSON.stringify(await room.ended(obscure.run)), /hunter2/)
    t.match(room.logged, ['a run has failed'])
  }
)

t.test('an agent that goes on after the end is not heard', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  room.registry.cancel(run.run_id, 'interrupt')
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
  await turns(5)
  stage.use(call, 'noon')
  await turns(5)
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

t.test('whoever watches then keeps it alive; and the going of others never ends it', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  wire.leave()
  const other = await room.join(run)
  await clock.pass(10_000)
  other.leave()
  await clock.pass(10_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
})

t.test('what we break off is no disconnect of the client [design 4, rule 4]', async (t) => {
  const clock = Clock.stopFor(t)
  const room = await Room.open(t, { disconnectGraceMs: 3000 })
  const { run, wire } = await left(room, clock)
  room.registry.resetStreams(() => true)
  t.equal(wire.ending, 'reset')
  await clock.pass(60_000)
  t.equal(room.registry.find(run.run_id)?.phase, 'open')
})
