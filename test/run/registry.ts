// The registry: who runs, who waits, and how all of it ends.
import t from 'tap'
import { LeftBehind } from '../../lib/run/lifecycle/run-queues.ts'
import { StoreUnavailable } from '../../lib/store/store.ts'
import { ANN, finish, holding, isOver, Room, toldTo } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

// ------------------------------------------------------------------------------------------------------- the queues of runs

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
  t.equal(room.registry.ends.cancel(second.run_id, 'interrupt'), true)
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
  t.equal(room.registry.ends.cancel(run.run_id, 'interrupt'), false)
  t.equal(room.registry.ends.cancel('no such run', 'interrupt'), false)
  await t.resolves(room.registry.ends.ended(run.run_id))
  t.equal(room.registry.active, 0)
})

t.test('deleting a thread cancels all its runs and resolves when their last records are written', async (t) => {
  const room = await Room.open(t)
  const runs = [await room.ask({ text: 'one' }), await room.ask({ text: 'two' })]
  const elsewhere = await room.ask({ thread_id: await room.addThread() })
  await room.agent.stage(runs[0]!)
  await room.registry.ends.cancelThread(room.threadId, 5000)
  for (const run of runs) t.match(await room.row(run), { status: 'interrupted', stop_reason: 'thread_deleted' })
  t.equal(room.registry.find(elsewhere.run_id)?.phase, 'open')
})

t.test('and waits no longer than it was told to', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  await room.agent.stage(run)
  room.gate.hold()
  await t.resolves(room.registry.ends.cancelThread(room.threadId, 20))
})

t.test('readers of a run that is left behind wait until it is queued here, or never will be', async (t) => {
  const runs = new LeftBehind()
  const told: string[] = []
  for (const id of ['queued', "somebody else's"]) {
    runs.add(id)
    void runs.queued(id).then(() => told.push(id))
  }
  await runs.queued('not left behind')
  t.same([runs.has('queued'), runs.has('not left behind')], [true, false])
  await loopTurns(3)
  t.same(told, [])
  runs.release('queued')
  await loopTurns(3)
  t.same(told, ['queued'])
  runs.releaseAll()
  await loopTurns(3)
  t.same(told, ['queued', "somebody else's"])
  t.equal(runs.size, 0)
})

t.test('active runs of one user are counted, whether they run or wait', async (t) => {
  const room = await Room.open(t, { activePerUser: 2 })
  const hasSpace = (userId: string) => {
    const release = room.registry.quota.reserve(userId)
    release?.()
    return release !== null
  }
  t.equal(hasSpace('ann'), true)
  const runs = [await room.ask({ text: 'one' }), await room.ask({ text: 'two' })]
  t.equal(hasSpace('ann'), false)
  t.equal(hasSpace('ben'), true)
  await finish(room, runs[0]!)
  t.equal(hasSpace('ann'), true)
})

// --------------------------------------------------------------------------------------------------- the way out

t.test('a credential that is revoked ends its streams, wherever they read, and no others', async (t) => {
  const room = await Room.open(t)
  const live = await room.ask()
  const stage = await room.agent.stage(live)
  const other = new FakeWire()
  const reader = { ...ANN, credential: 'another' }
  await room.registry.readers.join(live, { wire: other, reader, modes: null, position: null })
  const behind = await room.join(live)
  behind.isFull = true
  stage.reply('x')
  await until(() => behind.written.length > 1, 'it is full')
  const open = await room.join(live)
  room.registry.streams.reset(({ credential }) => credential === ANN.credential)
  t.same([open.ending, behind.ending, other.ending], ['reset', 'reset', 'open'])
})

t.test('who stands behind a run that has ended is found by a revocation as well', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const wire = await room.join(run)
  wire.isFull = true
  await finish(room, run)
  t.equal(wire.ending, 'open')
  room.registry.streams.reset(() => true)
  t.equal(wire.ending, 'reset')
})

t.test('a stop lets runs finish, then ends them as interrupted with what they have; readers are reset', async (t) => {
  const room = await Room.open(t)
  const [quick, slow] = [await room.ask(), await room.ask({ thread_id: await room.addThread() })]
  const [quickStage, slowStage] = [await room.agent.stage(quick), await room.agent.stage(slow)]
  const wire = await room.join(slow)
  slowStage.say('half an answer')
  const stopped = room.registry.stop(200, () => {})
  t.equal(room.registry.isStopping, true)
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
  await room.registry.stop(0, () => {})
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
  await until(() => room.committer.stuck !== null, 'refused')
  room.gate.trouble = null
  await until(() => room.committer.stuck === null, 'welcome')
  await loopTurns()
  t.equal((await finish(room, run)).status, 'success')
})

t.test(
  'in a shared thread a strategy ends the runs that its user could cancel, and waits for those of others',
  async (t) => {
    for (const multitask_strategy of ['interrupt', 'rollback'] as const) {
      const room = await Room.open(t)
      const anns = await room.ask({ text: 'one' })
      await room.agent.stage(anns)
      const nobodys = await room.ask({ text: 'two', user_id: null })
      const bobs = await room.ask({ text: 'three', user_id: 'bob', multitask_strategy })
      t.not((await room.ended(nobodys)).status, 'pending', 'one that nobody owns is everybody’s')
      t.equal(room.registry.find(anns.run_id)?.phase, 'open', 'not theirs, not touched')
      t.match(await finish(room, anns), { status: 'success' })
      t.match(await finish(room, bobs), { status: 'success' })
    }
  }
)

t.test(
  'an agent waits when what it has said is unstored for too long, however little that is, and goes on when it is stored',
  async (t) => {
    const room = await Room.open(t, { unstoredMs: 50 })
    const run = await room.ask()
    const stage = await room.agent.stage(run)
    await room.committer.drained()
    t.equal(room.committer.unstoredMs, 0)
    room.gate.hold()
    t.equal(stage.say('one'), true)
    await until(() => !stage.say('.'), 'it is told to wait')
    t.ok(room.committer.unstoredMs > 50)
    let isWaiting = true
    const waiting = stage.sink.space().then(() => {
      isWaiting = false
    })
    await loopTurns()
    t.equal(isWaiting, true)
    room.gate.release()
    await waiting
    await room.committer.drained()
    t.equal(room.committer.unstoredMs, 0)
    t.equal(stage.say('on'), true)
    stage.finish()
    t.match(await room.ended(run), { status: 'success' })
  }
)
