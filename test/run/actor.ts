// The run actor between a scripted agent and a store that does as it is told: what joiners see, and what is stored.
import fc from 'fast-check'
import t from 'tap'
import { AgentError } from '../../lib/agent/runtime.ts'
import { StoreUnavailable } from '../../lib/store/store.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { begun, holding, isOver, messagesOf, namesTold, Room } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'

const ALL = ['values', 'messages-tuple', 'custom']

// --------------------------------------------------------------------------------------------------- what is seen

t.test('a run is metadata, its values, its deltas, and the end [Events 9]', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const wire = await room.join(run, ALL)
  stage.say('Hello ')
  stage.say('world')
  stage.reply('Hello world')
  stage.finish()
  await until(isOver(wire), 'the run ends')
  t.same(namesTold(wire), ['metadata', 'values', 'messages', 'messages', 'messages', 'values', 'end'])
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
    const found = extras.filter((mode) => namesTold(wire).includes(mode))
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
      else await loopTurns(2)
    }
    if (how === 'finish') stage.finish()
    else if (how === 'fail') stage.fail(new AgentError('Broken', 'on purpose'))
    else room.registry.ends.cancel(run.run_id, how)
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
  await loopTurns(10)
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
  await loopTurns(10)
  t.equal(hasSpace, false)
  room.gate.release()
  await space
  t.equal(stage.say('little'), true)
  await t.resolves(stage.sink.space(), 'and at once where there is space')
})

t.test(
  'what all runs together have waiting is bounded too: each pauses, and goes on when the others are stored',
  async (t) => {
    const room = await Room.open(t, { pendingBytes: 100_000, pendingTotalBytes: 5000 })
    const { stage: one } = await begun(room)
    const { stage: other } = await begun(room, { thread_id: await room.addThread(), text: 'other' })
    await room.committer.drained()
    room.gate.hold()
    t.equal(one.say('x'.repeat(2000)), true)
    t.equal(other.say('x'.repeat(2000)), true)
    t.equal(one.say('x'.repeat(2000)), false, 'the third is too much')
    t.equal(other.say('little'), false, 'whoever says more')
    const spaces = Promise.all([one.sink.space(), other.sink.space()])
    room.gate.release()
    await spaces
    t.equal(other.say('little'), true)
    for (const stage of [one, other]) stage.finish()
    await until(() => room.registry.active === 0, 'both end')
    t.equal(room.registry.sizes().pendingBytes, 0, 'and nothing of them is counted any more')
  }
)

t.test('who waits for space is told when the run is over, stored or not', async (t) => {
  const room = await Room.open(t, { pendingBytes: 1000 })
  const { run, stage } = await begun(room)
  await room.committer.drained()
  room.gate.hold()
  stage.say('x'.repeat(2000))
  const space = stage.sink.space()
  t.equal(room.registry.ends.cancel(run.run_id, 'interrupt'), true)
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
  t.same(namesTold(badWire).slice(-2), ['error', 'end'])
  t.equal(badWire.ending, 'ended')
  t.match(await room.row(good.run), { status: 'success', error: null })
  t.notMatch(namesTold(goodWire).join(), /error/)
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
  t.notMatch(room.logged.join(), /refuses|too late/, 'what was deleted is not in the log file either')
})
