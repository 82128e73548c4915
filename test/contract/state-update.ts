// Obligations of `state.update`.
import type { Test } from 'tap'
import type { OpOf } from '../../lib/store/store.ts'
import { addConversation, channels, messageText, texts } from './conversation.ts'
import {
  addEndedRun,
  addRun,
  addThread,
  aSettlement,
  checkpointId,
  type Open,
  refuses,
  sharedRules,
  time,
  write
} from './harness.ts'

export function stateContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const anUpdate = (thread_id: string, set: Partial<OpOf<'state.update'>> = {}): OpOf<'state.update'> => ({
    name: 'state.update',
    thread_id,
    base: null,
    checkpoint_id: checkpointId(100),
    now: time(50),
    messages: null,
    channels: {},
    as_node: null,
    title: null,
    ...set
  })

  test('state.update goes on from the newest: named channels are replaced, the others kept', async (t, store) => {
    const thread_id = await addConversation(store)
    const answer = await write(store, anUpdate(thread_id, { channels: { title: '"renamed"', goal: '{"a": 1}' } }))
    if (answer.outcome !== 'written') return void t.fail(answer.outcome)
    t.match(answer.checkpoint, {
      thread_id,
      checkpoint_id: checkpointId(100),
      parent_checkpoint_id: checkpointId(2),
      run_id: null,
      created_at: time(50),
      metadata: { source: 'update', step: 3 }
    })
    t.strictSame(answer.checkpoint.next, [])
    t.match(
      (await store.checkpoints.history(thread_id, { limit: 1 }))[0],
      answer.checkpoint,
      'the answer is what is stored'
    )
    const loaded = await store.checkpoints.load(thread_id, null)
    t.strictSame(texts(loaded), [messageText(0), messageText(1), messageText(3)])
    t.strictSame(channels(loaded), { title: '"renamed"', todos: '[]', goal: '{"a": 1}' })
    t.equal(loaded?.nextBody, 8)
    t.equal(
      channels(await store.checkpoints.load(thread_id, checkpointId(2)))?.title,
      '"second"',
      'the base stays what it was'
    )
  })

  test('state.update with messages replaces them all, in order, also by none', async (t, store) => {
    const thread_id = await addConversation(store)
    const messages = ['{"id":"x"}', messageText(0), '{"id": "y"}']
    await write(store, anUpdate(thread_id, { messages }))
    const loaded = await store.checkpoints.load(thread_id, null)
    t.strictSame([texts(loaded), channels(loaded)], [messages, { title: '"second"', todos: '[]' }])
    await write(store, anUpdate(thread_id, { checkpoint_id: checkpointId(101), messages: [] }))
    t.strictSame(texts(await store.checkpoints.load(thread_id, null)), [])
    t.equal(texts(await store.checkpoints.load(thread_id, checkpointId(2)))?.length, 3)
  })

  test('state.update of an earlier base goes on from there', async (t, store) => {
    const thread_id = await addConversation(store)
    const answer = await write(store, anUpdate(thread_id, { base: checkpointId(1) }))
    t.match(answer, {
      outcome: 'written',
      checkpoint: { parent_checkpoint_id: checkpointId(1), metadata: { step: 2 } }
    })
    const loaded = await store.checkpoints.load(thread_id, null)
    t.strictSame([texts(loaded)?.length, channels(loaded)], [2, { title: '"first"' }])
  })

  test('state.update of a base that is not there answers checkpoint_missing and writes nothing', async (t, store) => {
    const thread_id = await addConversation(store)
    const missing = anUpdate(thread_id, { base: 'missing', title: 'Renamed', channels: { title: '"x"' } })
    t.strictSame(await write(store, missing), { outcome: 'checkpoint_missing' })
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 3)
    t.match(await store.threads.get(thread_id, null), { display_name: null, updated_at: time(0) })
  })

  test('state.update of a state that was read is a conflict, and writes nothing, when there is a newer one', async (t, store) => {
    const thread_id = await addConversation(store)
    const [newest] = await store.checkpoints.history(thread_id, { limit: 1 })
    const update = (n: number) =>
      anUpdate(thread_id, { expected: newest!.checkpoint_id, checkpoint_id: checkpointId(n), channels: { n: `${n}` } })
    const answers = await Promise.all([100, 101].map((n) => write(store, update(n))))
    t.strictSame(answers.map(({ outcome }) => outcome).toSorted(), ['conflict', 'written'])
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 4)
  })

  test('state.update is answered busy while a run is in flight, and writes nothing', async (t, store) => {
    const thread_id = await addConversation(store)
    await addEndedRun(store, thread_id)
    const run = await addRun(store, thread_id)
    const update = anUpdate(thread_id, { title: 'Renamed', messages: [] })
    t.strictSame(await write(store, update), { outcome: 'busy' }, 'pending')
    await write(store, { name: 'run.start', run_id: run.run_id, attempt: 1, thread_id, now: time(3) })
    t.strictSame(await write(store, update), { outcome: 'busy' }, 'running')
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 3)
    t.equal((await store.threads.get(thread_id, null))?.display_name, null)
    await write(store, aSettlement(run))
    t.match(await write(store, update), { outcome: 'written' })
  })

  test('state.update as a node tells so in metadata.writes, and counts on from the step of its base', async (t, store) => {
    const { thread_id } = await addThread(store)
    const first = await write(store, anUpdate(thread_id, { as_node: 'agent', channels: { title: '"x"' } }))
    t.match(first, { outcome: 'written', checkpoint: { metadata: { source: 'update', step: 0 } } })
    const writes = first.outcome === 'written' ? first.checkpoint.metadata.writes : null
    t.ok(typeof writes === 'object' && writes !== null && 'agent' in writes, 'the node is named')
    const second = await write(store, anUpdate(thread_id, { checkpoint_id: checkpointId(101) }))
    t.match(second, { outcome: 'written', checkpoint: { metadata: { source: 'update', step: 1 } } })
    const later = second.outcome === 'written' ? (second.checkpoint.metadata.writes ?? null) : 'none'
    t.equal(later, null, 'without a node there are no writes')
  })

  test('state.update with a title renames the thread at once; without one it keeps its name', async (t, store) => {
    const thread_id = await addConversation(store)
    await write(store, anUpdate(thread_id, { title: 'Ships', now: time(60) }))
    t.match(await store.threads.get(thread_id, null), { display_name: 'Ships', updated_at: time(60) })
    const { threads } = await store.threads.search({ limit: 9, offset: 0 }, 'ann')
    t.equal(threads[0]?.display_name, 'Ships', 'and search shows it')
    await write(store, anUpdate(thread_id, { checkpoint_id: checkpointId(101) }))
    t.equal((await store.threads.get(thread_id, null))?.display_name, 'Ships')
  })

  test('state.update of a thread that does not exist is refused [Store 8]', async (t, store) => {
    await refuses(t, store, anUpdate('missing'), 'refused')
    t.equal(await store.checkpoints.load('missing', null), null)
  })

  test('state.update under an id that is taken is refused, and the thread keeps its name', async (t, store) => {
    const thread_id = await addConversation(store)
    await refuses(t, store, anUpdate(thread_id, { checkpoint_id: checkpointId(1), title: 'Renamed' }), 'refused')
    t.equal((await store.threads.get(thread_id, null))?.display_name, null)
  })
}
