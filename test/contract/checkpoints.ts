// Obligations of CheckpointReads and of checkpoint.put.
import type { Test } from 'tap'
import type { Body, CheckpointWrite, GraphCheckpointWrite, Group, HistoryPage } from '../../lib/store/store.ts'
import { addConversation, channels, messageText, put, texts } from './conversation.ts'
import {
  aCheckpoint,
  addRun,
  addThread,
  apply,
  checkpointId,
  durableRules,
  HOSTILE_KEYS,
  HOSTILE_TEXTS,
  member,
  type Open,
  refuses,
  sharedRules,
  someBodies,
  time,
  write
} from './harness.ts'
import { stateContract } from './state-update.ts'

function aGraphCheckpoint(thread_id: string, checkpoint_id: string, value: Body): GraphCheckpointWrite {
  const head = { thread_id, ns: '', checkpoint_id, parent_id: null, run_id: null, checkpoint: '{}', metadata: '{}' }
  return { ...head, names: [value.name], values: [value] }
}

export function checkpointStoreContract(t: Test, open: Open): void {
  readsContract(t, open)
  writesContract(t, open)
  stateContract(t, open)
}

function readsContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  test('a checkpoint is read back field for field, with the bodies it consists of', async (t, store) => {
    const { thread_id } = await addThread(store)
    const written = aCheckpoint(thread_id, {
      checkpoint_id: checkpointId(1),
      parent_checkpoint_id: checkpointId(0),
      run_id: 'run',
      created_at: time(4),
      metadata: { source: 'loop', step: 1, writes: { agent: [1] }, parents: {} },
      next: ['agent', 'tools'],
      messages: [[0, 2]],
      channels: { title: 3, thread_data: 4 },
      bodies: [...someBodies([0, 2], messageText), { no: 3, json: '"T"' }, { no: 4, json: '{"a": 1}' }]
    })
    t.equal(await put(store, written), null)
    const { bodies: _, ...head } = written
    const loaded = await store.checkpoints.load(thread_id, checkpointId(1))
    const byName = loaded?.channelBodies.toSorted((left, right) => left.no - right.no)
    t.strictSame(
      { ...loaded, channelBodies: byName },
      {
        ...head,
        messageBodies: someBodies([0, 2], messageText),
        channelBodies: [
          { name: 'title', no: 3, json: '"T"' },
          { name: 'thread_data', no: 4, json: '{"a": 1}' }
        ],
        nextBody: 5
      }
    )
    t.strictSame(await store.checkpoints.history(thread_id, { limit: 1 }), [
      { ...head, messageBodies: [], channelBodies: [], nextBody: 5 }
    ])
  })

  test('a later checkpoint shares the bodies of an earlier one, and the earlier one stays what it was', async (t, store) => {
    const thread_id = await addConversation(store)
    const one = await store.checkpoints.load(thread_id, checkpointId(1))
    const two = await store.checkpoints.load(thread_id, checkpointId(2))
    t.strictSame([texts(one), channels(one)], [[messageText(0), messageText(1)], { title: '"first"' }])
    t.strictSame(texts(two), [messageText(0), messageText(1), messageText(3)])
    t.strictSame(channels(two), { title: '"second"', todos: '[]' })
  })

  test('messages come in the order of the ranges, which may leave out and turn round', async (t, store) => {
    const { thread_id } = await addThread(store)
    const bodies = someBodies([0, 9], messageText)
    await put(
      store,
      aCheckpoint(thread_id, {
        checkpoint_id: checkpointId(1),
        messages: [
          [8, 9],
          [4, 4],
          [0, 2]
        ],
        bodies
      })
    )
    const loaded = await store.checkpoints.load(thread_id, null)
    t.strictSame(
      loaded?.messageBodies.map(({ no }) => no),
      [8, 9, 4, 0, 1, 2]
    )
    t.strictSame(texts(loaded), [8, 9, 4, 0, 1, 2].map(messageText))
  })

  test('messages that were replaced are gone from the new checkpoint and kept in the old one', async (t, store) => {
    const thread_id = await addConversation(store)
    const bodies = [{ no: 6, json: '{"id":"m1","content":"edited"}' }]
    await put(
      store,
      aCheckpoint(thread_id, {
        checkpoint_id: checkpointId(3),
        messages: [
          [0, 0],
          [6, 6]
        ],
        bodies
      })
    )
    t.strictSame(texts(await store.checkpoints.load(thread_id, null)), [
      messageText(0),
      '{"id":"m1","content":"edited"}'
    ])
    t.equal(texts(await store.checkpoints.load(thread_id, checkpointId(2)))?.length, 3)
  })

  test('load gives the newest without an id, and null for one that is not there', async (t, store) => {
    const thread_id = await addConversation(store)
    const other = await addThread(store)
    t.equal((await store.checkpoints.load(thread_id, null))?.checkpoint_id, checkpointId(2))
    t.equal(await store.checkpoints.load(thread_id, 'missing'), null)
    t.equal(await store.checkpoints.load(thread_id, ''), null)
    t.equal(await store.checkpoints.load('missing', null), null)
    t.equal(await store.checkpoints.load(other.thread_id, checkpointId(2)), null, "not one of another thread's")
  })

  test('load with channels reads only those, and messages is one of them', async (t, store) => {
    const thread_id = await addConversation(store)
    const load = (channels: string[]) => store.checkpoints.load(thread_id, null, channels)
    const titleOnly = await load(['title'])
    t.strictSame([texts(titleOnly), channels(titleOnly)], [[], { title: '"second"' }])
    const messagesOnly = await load(['messages'])
    t.strictSame([texts(messagesOnly)?.length, channels(messagesOnly)], [3, {}])
    const both = await load(['messages', 'todos', 'unknown'])
    t.strictSame([texts(both)?.length, channels(both)], [3, { todos: '[]' }])
    const none = await load([])
    t.strictSame([texts(none), channels(none)], [[], {}])
    t.strictSame([none?.checkpoint_id, none?.nextBody], [checkpointId(2), 6], 'the rest is there all the same')
  })

  test('nextBody is the first number of the thread that is not taken, whichever checkpoint is loaded', async (t, store) => {
    const thread_id = await addConversation(store)
    const other = await addThread(store)
    for (const id of [checkpointId(0), checkpointId(1), null]) {
      t.equal((await store.checkpoints.load(thread_id, id))?.nextBody, 6)
    }
    t.equal((await store.checkpoints.load(other.thread_id, null))?.nextBody, 0, 'of its thread')
  })

  test('history gives the newest first, at most limit, and with before the strictly older ones', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    await put(store, aCheckpoint(other.thread_id, { checkpoint_id: checkpointId(50) }))
    for (let n = 1; n < 12; n++) await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(n) }))
    const list = async (page: { limit: number; before?: string }) =>
      (await store.checkpoints.history(thread_id, page)).map(({ checkpoint_id }) => checkpoint_id)
    t.strictSame(await list({ limit: 3 }), [11, 10, 9].map(checkpointId))
    t.strictSame(await list({ limit: 3, before: checkpointId(9) }), [8, 7, 6].map(checkpointId))
    t.strictSame(await list({ limit: 100, before: checkpointId(2) }), [1, 0].map(checkpointId))
    t.strictSame(await list({ limit: 100, before: checkpointId(0) }), [])
    t.strictSame(await store.checkpoints.history('missing', { limit: 3 }), [])
  })

  test('what is newest is what was written last, however its clock stood: ids that go backwards lose no turn [Store 11]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    // Made by processes whose clocks are apart, or by one whose clock was set back: each goes on from the one before.
    const order = [50, 9, 70, 8, 7, 60]
    for (const [at, n] of order.entries())
      await put(
        store,
        aCheckpoint(thread_id, {
          checkpoint_id: checkpointId(n),
          parent_checkpoint_id: checkpointId(order[at - 1] ?? 0),
          messages: [[0, at]],
          bodies: [{ no: at, json: messageText(at) }]
        })
      )
    await put(store, aCheckpoint(other.thread_id, { checkpoint_id: checkpointId(99) }))
    const newest = await store.checkpoints.load(thread_id, null)
    t.strictSame([newest?.checkpoint_id, texts(newest)], [checkpointId(60), order.map((_, at) => messageText(at))])
    const list = async (page: HistoryPage) =>
      (await store.checkpoints.history(thread_id, page)).map(({ checkpoint_id }) => checkpoint_id)
    const all = [...order.toReversed(), 0].map(checkpointId)
    t.strictSame(await list({ limit: 100 }), all)
    const [first] = await store.checkpoints.history(thread_id, { limit: 3, channels: ['messages'] })
    t.equal(first?.messageBodies.length, order.length, 'the newest of a page has its messages')
    for (const [at, before] of all.entries())
      t.strictSame(await list({ limit: 3, before }), all.slice(at + 1, at + 4), 'older is what was written before')
    t.strictSame(await list({ limit: 3, before: 'missing' }), [], 'nothing is older than what is not there')
    for (const id of all) t.equal((await store.checkpoints.load(thread_id, id))?.checkpoint_id, id)
  })

  durableRules(t, open)('the order of checkpoints survives a restart [Store 11]', async (t, store, reopen) => {
    const { thread_id } = await addThread(store)
    for (const n of [5, 3, 4]) await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(n) }))
    const again = await reopen()
    await put(again, aCheckpoint(thread_id, { checkpoint_id: checkpointId(1) }))
    const heads = await again.checkpoints.history(thread_id, { limit: 9 })
    t.strictSame(
      heads.map(({ checkpoint_id }) => checkpoint_id),
      [1, 4, 3, 5, 0].map(checkpointId)
    )
    t.equal((await again.checkpoints.load(thread_id, null))?.checkpoint_id, checkpointId(1))
  })

  test('history gives each checkpoint the channels that are asked for, and the first one its messages', async (t, store) => {
    const thread_id = await addConversation(store)
    const history = async (page: Partial<HistoryPage>) =>
      (await store.checkpoints.history(thread_id, { limit: 10, ...page })).map((one) => [texts(one), channels(one)])
    const all = [0, 1, 3].map(messageText)
    t.strictSame(await history({ channels: ['messages', 'title', 'missing'] }), [
      [all, { title: '"second"' }],
      [[], { title: '"first"' }],
      [[], {}]
    ])
    t.strictSame(
      await history({ channels: null }),
      [
        [all, { title: '"second"', todos: '[]' }],
        [[], { title: '"first"' }],
        [[], {}]
      ],
      'null is all of them'
    )
    t.strictSame(await history({ channels: ['messages'], before: checkpointId(2), limit: 1 }), [[all.slice(0, 2), {}]])
    t.strictSame(await history({ channels: ['todos'], limit: 2 }), [
      [[], { todos: '[]' }],
      [[], {}]
    ])
    t.strictSame(await history({ limit: 1 }), [[[], {}]], 'without channels there are none')
    for (const one of await store.checkpoints.history(thread_id, { limit: 10 })) t.equal(one.nextBody, 6)
  })

  test('channels are found whatever their names are', async (t, store) => {
    const { thread_id } = await addThread(store)
    const bodies = HOSTILE_KEYS.map((name, no) => ({ no, json: JSON.stringify(name) }))
    const named = Object.fromEntries(HOSTILE_KEYS.map((name, no) => [name, no]))
    await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(1), channels: named, bodies }))
    for (const name of HOSTILE_KEYS) {
      const [found] = await store.checkpoints.history(thread_id, { limit: 1, channels: [name] })
      t.strictSame(
        found?.channelBodies.map(({ name, json }) => [name, json]),
        [[name, JSON.stringify(name)]]
      )
    }
  })

  test('bodies come back to the letter, and names of channels whatever they are [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const json = [
      ...Object.values(HOSTILE_TEXTS).map((text) => JSON.stringify({ text })),
      ' { "spaces" : [ 1 ,2 ] } ',
      '1.0',
      '{"same":1,"same":2}'
    ]
    const bodies = json.map((text, no) => ({ no, json: text }))
    const names = HOSTILE_KEYS.map((name) => [name, 0] as const)
    const set = {
      checkpoint_id: checkpointId(1),
      messages: [[0, json.length - 1]],
      channels: Object.fromEntries(names),
      bodies
    } as const
    await put(store, aCheckpoint(thread_id, set))
    const loaded = await store.checkpoints.load(thread_id, null)
    t.ok(loaded?.messageBodies.every((body, at) => body.json === json[at]))
    t.equal(loaded?.messageBodies.length, json.length)
    t.strictSame(loaded?.channelBodies.map(({ name }) => name).toSorted(), HOSTILE_KEYS.toSorted())
  })

  test('metadata comes back as equal JSON [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const objects = [{ ...HOSTILE_TEXTS }, ...HOSTILE_KEYS.map((key) => member(key, [key]))]
    for (const [n, metadata] of objects.entries())
      await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(n + 1), metadata }))
    const heads = await store.checkpoints.history(thread_id, { limit: objects.length })
    for (const [at, head] of heads.toReversed().entries()) {
      t.ok(JSON.stringify(head.metadata) === JSON.stringify(objects[at]), Object.keys(objects[at]!).join())
    }
  })
}

function writesContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const durable = durableRules(t, open)
  test('a checkpoint is never rewritten: a second one under its id is refused', async (t, store) => {
    const thread_id = await addConversation(store)
    const before = await store.checkpoints.load(thread_id, checkpointId(1))
    const again = aCheckpoint(thread_id, { checkpoint_id: checkpointId(1), bodies: [{ no: 6, json: '"late"' }] })
    await refuses(t, store, { name: 'checkpoint.put', ...again }, 'refused')
    t.strictSame(await store.checkpoints.load(thread_id, checkpointId(1)), before, 'its bodies are not there either')
  })

  test('a body is never rewritten: a second one under its number is refused', async (t, store) => {
    const thread_id = await addConversation(store)
    const again = aCheckpoint(thread_id, {
      checkpoint_id: checkpointId(3),
      bodies: [
        { no: 6, json: '"a"' },
        { no: 1, json: '"b"' }
      ]
    })
    await refuses(t, store, { name: 'checkpoint.put', ...again }, 'refused')
    t.match(await store.checkpoints.load(thread_id, null), { checkpoint_id: checkpointId(2), nextBody: 6 })
  })

  test('body numbers and checkpoint ids are those of their thread', async (t, store) => {
    const one = await addConversation(store)
    const two = await addConversation(store)
    await put(
      store,
      aCheckpoint(one, { checkpoint_id: checkpointId(3), messages: [[6, 6]], bodies: [{ no: 6, json: '"one"' }] })
    )
    await put(
      store,
      aCheckpoint(two, { checkpoint_id: checkpointId(3), messages: [[6, 6]], bodies: [{ no: 6, json: '"two"' }] })
    )
    t.strictSame(texts(await store.checkpoints.load(one, null)), ['"one"'])
    t.strictSame(texts(await store.checkpoints.load(two, null)), ['"two"'])
  })

  test('nothing is put into a thread that does not exist [Store 8]', async (t, store) => {
    const thread_id = await addConversation(store)
    await write(store, { name: 'thread.remove', thread_id, user: null })
    await refuses(
      t,
      store,
      { name: 'checkpoint.put', ...aCheckpoint(thread_id, { checkpoint_id: checkpointId(9) }) },
      'put'
    )
    t.strictSame(await store.checkpoints.history(thread_id, { limit: 9 }), [])
    t.equal(await store.threads.ownerOf(thread_id), undefined)
  })

  test('a copy has all states of a thread in their order, and goes on by itself', async (t, store) => {
    const from = await addConversation(store)
    const { thread_id } = await addThread(store)
    await write(store, { name: 'state.copy', from, thread_id })
    const page = { limit: 9, channels: null }
    const rowOf = ({ thread_id: _, ...rest }: { thread_id: string }) => rest
    const copied = (await store.checkpoints.history(thread_id, page)).map(rowOf)
    t.strictSame(copied, (await store.checkpoints.history(from, page)).map(rowOf), 'and nothing that it began with')
    await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(8), bodies: [{ no: 6, json: '"more"' }] }))
    t.equal((await store.checkpoints.load(from, null))?.checkpoint_id, checkpointId(2))
  })

  test('a copy made while its thread is written has what was written before it, and whole [Store 2]', async (t, store) => {
    const from = await addConversation(store)
    const { thread_id } = await addThread(store)
    /** Writes a state of each kind; each has one text. */
    const written = (step: number): Group['ops'] => {
      const head = { checkpoint_id: checkpointId(step), channels: { title: step } }
      const value = { name: `title ${step}`, type: 'json', data: `"${step}"` }
      return [
        { name: 'checkpoint.put', ...aCheckpoint(from, { ...head, bodies: [{ no: step, json: `"${step}"` }] }) },
        { name: 'graph.put', ...aGraphCheckpoint(from, checkpointId(step), value) }
      ]
    }
    const steps = (first: number) => Array.from({ length: 20 }, (_, at) => written(first + at))
    const outcomes = await apply(store, ...steps(10), [{ name: 'state.copy', from, thread_id }], ...steps(30))
    t.ok(outcomes.every(({ ok }) => ok))
    t.strictSame(channels(await store.checkpoints.load(thread_id, null)), { title: '"29"' })
    t.equal((await store.checkpoints.history(thread_id, { limit: 99, channels: null })).length, 23)
    const graphs = await store.graphStates.list(thread_id, { ns: '', limit: 99 })
    t.strictSame(
      graphs.map(({ values }) => values[0]?.data),
      Array.from({ length: 20 }, (_, at) => `"${29 - at}"`)
    )
  })

  test('a thread that is pruned has its newest state as it was, and goes on from there', async (t, store) => {
    const thread_id = await addConversation(store)
    const before = await store.checkpoints.load(thread_id, null)
    t.equal(await write(store, { name: 'state.prune', thread_id }), true)
    t.strictSame(await store.checkpoints.load(thread_id, null), before)
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 1)
    await put(store, aCheckpoint(thread_id, { checkpoint_id: checkpointId(8), bodies: [{ no: 90, json: '"more"' }] }))
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 2)
    await addRun(store, thread_id)
    t.equal(await write(store, { name: 'state.prune', thread_id }), false, 'not while a run is in flight')
    await refuses(t, store, { name: 'state.prune', thread_id: 'nowhere' }, 'of a thread that is not there')
  })

  test('a state that is read while its thread is pruned is whole, or gone', async (t, store) => {
    const { thread_id } = await addThread(store)
    let isOver = false
    const changing = (async () => {
      for (let no = 1; no <= 30; no++) {
        const channels = { title: no * 2 + 1 }
        const head: Partial<CheckpointWrite> = {
          checkpoint_id: checkpointId(no),
          messages: [[no * 2, no * 2]],
          channels
        }
        const bodies = [0, 1].map((at) => ({ no: no * 2 + at, json: `{"id":"${no}"}` }))
        await put(store, aCheckpoint(thread_id, { ...head, bodies }))
        await write(store, { name: 'state.prune', thread_id })
      }
      isOver = true
    })()
    const reading = async () => {
      while (!isOver) {
        await store.checkpoints.load(thread_id, null)
        await store.checkpoints.history(thread_id, { limit: 9, channels: null })
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await t.resolves(Promise.all([changing, reading(), reading(), reading()]))
    t.strictSame(texts(await store.checkpoints.load(thread_id, null)), ['{"id":"30"}'])
  })

  durable('checkpoints and their bodies survive a restart', async (t, store, reopen) => {
    const thread_id = await addConversation(store)
    const before = [
      await store.checkpoints.load(thread_id, null),
      await store.checkpoints.load(thread_id, checkpointId(1))
    ]
    const again = await reopen()
    t.strictSame(
      [await again.checkpoints.load(thread_id, null), await again.checkpoints.load(thread_id, checkpointId(1))],
      before
    )
  })
}
