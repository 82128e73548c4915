// The states that runs leave: the next one goes on from memory, and never from something that is not the newest any more.
import t from 'tap'
import { StateCache } from '../../lib/run/state-cache.ts'
import { savedState, State } from '../../lib/thread/state.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { checkpointId, newThread } from '../../lib/thread/thread.ts'
import { type HumanMessage, timestamp } from '../../lib/base/types.ts'
import { write } from '../contract/harness.ts'
import { finish, messagesOf, Room } from '../fixtures/room.ts'

/** How often bodies are read. */
function counted(room: Room): { loads: number } {
  const { checkpoints } = room.gate.inner
  const count = { loads: 0 }
  const load: typeof checkpoints.load = (thread, id, channels) => {
    if (channels === undefined) count.loads++
    return checkpoints.load(thread, id, channels)
  }
  Object.assign(room.gate.store, { checkpoints: { ...checkpoints, load } })
  return count
}

const human = (content: string): HumanMessage => ({
  type: 'human',
  id: `id of ${content}`,
  content,
  name: null,
  additional_kwargs: {},
  response_metadata: {}
})

t.test('the next run of a thread goes on from what the last one left, without reading it', async (t) => {
  const room = await Room.open(t)
  const count = counted(room)
  await finish(room, await room.ask({ text: 'one' }))
  const before = count.loads
  await finish(room, await room.ask({ text: 'two' }))
  await finish(room, await room.ask({ text: 'three' }))
  t.equal(count.loads, before)
  const texts = await messagesOf(room)
  t.same(texts, ['human: one', 'ai: fine', 'human: two', 'ai: fine', 'human: three', 'ai: fine'])
})

t.test('what a user has written into the state meanwhile is in it', async (t) => {
  const room = await Room.open(t)
  await finish(room, await room.ask({ text: 'one' }))
  const stored = await room.gate.inner.checkpoints.load(room.threadId, null)
  const { checkpoint } = State.fromStored(stored!)
    .withMessages([human('written')])
    .toCheckpoint({
      thread_id: room.threadId,
      checkpoint_id: checkpointId(),
      parent_checkpoint_id: stored!.checkpoint_id,
      run_id: null,
      created_at: timestamp(),
      metadata: { step: 7 },
      next: []
    })
  await write(room.gate.inner, { name: 'checkpoint.put', ...checkpoint })
  await finish(room, await room.ask({ text: 'two' }))
  t.same(await messagesOf(room), ['human: one', 'ai: fine', 'human: written', 'human: two', 'ai: fine'])
})

t.test('a run that was undone leaves the state of before, and the next one goes on from that', async (t) => {
  const room = await Room.open(t)
  await finish(room, await room.ask({ text: 'one' }))
  const undone = await room.ask({ text: 'two' })
  const stage = await room.agent.stage(undone)
  stage.say('not to be')
  room.registry.ends.cancel(undone.run_id, 'rollback')
  stage.finish()
  await room.ended(undone)
  await finish(room, await room.ask({ text: 'three' }))
  t.same(await messagesOf(room), ['human: one', 'ai: fine', 'human: three', 'ai: fine'])
})

t.test('a checkpoint by a clock that is behind does not pass unseen', async (t) => {
  const store = openMemoryStore()
  const states = new StateCache(store)
  const given = { thread_id: crypto.randomUUID(), user_id: 'ann', assistant_id: null, metadata: {} }
  await write(store, { name: 'thread.create', ...newThread(given, timestamp()) })
  const put = async (state: State, id: string) => {
    const head = { thread_id: given.thread_id, parent_checkpoint_id: null, run_id: null, created_at: timestamp() }
    const { checkpoint, saved } = state.toCheckpoint({ ...head, checkpoint_id: id, metadata: { step: 1 }, next: [] })
    await write(store, { name: 'checkpoint.put', ...checkpoint })
    return saved
  }
  const [early, late] = [checkpointId(), checkpointId()]
  const first = (await states.newest(given.thread_id))!.state
  const left = await put(first.withMessages([human('one')]), late)
  states.left(given.thread_id, { state: left, checkpointId: late, step: 1, next: [] })
  t.equal((await states.newest(given.thread_id))!.state, left, 'from memory')
  await put(left.withMessages([human('by another process')]), early)
  const read = (await states.newest(given.thread_id))!
  t.not(read.state, left)
  t.equal(read.checkpointId, early, 'the newest is what was written last, whatever its id')
  t.equal(read.state.nextBody, left.nextBody + 1, 'no number is given twice')
})

t.test('no more is kept than there is space for, and who was left last stays', async (t) => {
  const store = openMemoryStore()
  const states = new StateCache(store, 10_000)
  const state = State.empty.withMessages([human('x'.repeat(2000))])
  for (const thread of ['a', 'b', 'c', 'd']) states.left(thread, { state, checkpointId: 'c', step: 0, next: [] })
  t.ok(states.bytes > 7000 && states.bytes <= 10_000, `${states.bytes} bytes`)
  const before = states.bytes
  states.forget('a')
  t.equal(states.bytes, before, 'the first one is not there any more')
  states.left('e', {
    state: State.empty.withMessages([human('x'.repeat(20_000))]),
    checkpointId: 'c',
    step: 0,
    next: []
  })
  t.equal(states.bytes, before, 'one that is larger than all the space is not kept')
  states.forget('d')
  t.ok(states.bytes < before, 'the last one was')
  for (const thread of ['b', 'c', 'e']) states.forget(thread)
  t.equal(states.bytes, 0)
  t.equal(await states.newest('nowhere'), null)
})

t.test('a stored state tells its step, or that it has none', async (t) => {
  const head = { messages: [], channels: {}, messageBodies: [], channelBodies: [], nextBody: 3, next: [] }
  const stored = {
    ...head,
    thread_id: 't',
    checkpoint_id: 'c',
    parent_checkpoint_id: null,
    run_id: null,
    created_at: ''
  }
  t.match(savedState({ ...stored, metadata: { step: 4 } }), { checkpointId: 'c', step: 4 })
  t.match(savedState({ ...stored, metadata: {} }), { step: -1 })
})
