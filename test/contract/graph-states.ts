// Obligations of GraphStateReads and the ops of graphs.
import type { Test } from 'tap'
import type { Run } from '../../lib/base/types.ts'
import { partName, runNamespace } from '../../lib/conversation/state.ts'
import type { GraphCheckpointWrite, Op, OpOf, Store, StoredGraphCheckpoint } from '../../lib/store/store.ts'
import {
  addRun,
  addThread,
  apply,
  aSettlement,
  checkpointId,
  durableRules,
  HOSTILE_TEXTS,
  type Open,
  refuses,
  sharedRules,
  startRun,
  time,
  write
} from './harness.ts'

function aGraphCheckpoint(thread_id: string, set: Partial<GraphCheckpointWrite> = {}): GraphCheckpointWrite {
  return {
    thread_id,
    ns: '',
    checkpoint_id: checkpointId(1),
    parent_id: null,
    run_id: 'run',
    checkpoint: '{"v":4}',
    metadata: '{"source":"loop","step":0}',
    names: ['messages 1'],
    values: [{ name: 'messages 1', type: 'json', data: '["a"]' }],
    ...set
  }
}

const put = (store: Store, checkpoint: GraphCheckpointWrite) => write(store, { name: 'graph.put', ...checkpoint })
const placeOf = (thread_id: string, id: number, run_id: string | null) => ({
  thread_id,
  ns: '',
  checkpoint_id: checkpointId(id),
  run_id
})
const taskWrite = { task_id: 'task', task_path: '', idx: 0, channel: 'messages', type: 'json', data: '"b"' }

const bodiesOf = (text: string) =>
  [0, 1, 2].map((no) => ({ name: partName('', no), type: 'json', data: JSON.stringify(text + no) }))
const keepBodies = (store: Store, { thread_id, key }: Run, text: string) =>
  write(store, { name: 'run.bodies', thread_id, run_key: key, bodies: bodiesOf(text) })

async function addGraph(store: Store): Promise<string> {
  const { thread_id } = await addThread(store)
  await put(store, aGraphCheckpoint(thread_id))
  const second = {
    checkpoint_id: checkpointId(2),
    parent_id: checkpointId(1),
    names: ['messages 1', 'title 1'],
    values: [{ name: 'title 1', type: 'json', data: '"T"' }]
  }
  await put(store, aGraphCheckpoint(thread_id, second))
  return thread_id
}

export function graphStateContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const durable = durableRules(t, open)

  test("a graph's checkpoint is read back field for field, with values of earlier ones", async (t, store) => {
    const thread_id = await addGraph(store)
    const { values: _, ...head } = aGraphCheckpoint(thread_id, {
      checkpoint_id: checkpointId(2),
      parent_id: checkpointId(1),
      names: ['messages 1', 'title 1']
    })
    const values = [
      { name: 'messages 1', type: 'json', data: '["a"]' },
      { name: 'title 1', type: 'json', data: '"T"' }
    ]
    t.strictSame(await store.graphStates.load(thread_id, '', null), { ...head, values, writes: [] })
    t.match(await store.graphStates.load(thread_id, '', checkpointId(1)), { values: values.slice(0, 1) })
    t.equal(await store.graphStates.load(thread_id, '', checkpointId(7)), null)
    t.equal(await store.graphStates.load(thread_id, 'inner', null), null)
  })

  test('any text comes back as it was given [Store 9]', async (t, store) => {
    const { thread_id } = await addThread(store)
    let no = 0
    for (const [what, text] of Object.entries(HOSTILE_TEXTS)) {
      const data = JSON.stringify(text)
      const values = [{ name: `x ${++no}`, type: 'json', data }]
      const given = { checkpoint_id: checkpointId(no), names: [`x ${no}`], values, metadata: JSON.stringify({ text }) }
      await put(store, aGraphCheckpoint(thread_id, given))
      const stored = await store.graphStates.load(thread_id, '', null)
      t.strictSame([stored?.values, stored?.metadata], [values, given.metadata], what)
    }
  })

  test('the newest is the one that was written last, in its namespace [Store 11]', async (t, store) => {
    const { thread_id } = await addThread(store)
    for (const [ns, id] of [
      ['', 5],
      ['', 3],
      ['inner:1', 9]
    ] as const)
      await put(store, aGraphCheckpoint(thread_id, { ns, checkpoint_id: checkpointId(id) }))
    t.equal((await store.graphStates.load(thread_id, '', null))?.checkpoint_id, checkpointId(3))
    const idsOf = async (page: object) =>
      (await store.graphStates.list(thread_id, { ns: null, limit: 9, ...page })).map((one) => one.checkpoint_id)
    t.strictSame(await idsOf({}), [9, 3, 5].map(checkpointId))
    t.strictSame(await idsOf({ ns: '' }), [3, 5].map(checkpointId))
    t.strictSame(await idsOf({ ns: '', limit: 1 }), [checkpointId(3)])
    t.strictSame(await idsOf({ ns: '', before: checkpointId(3) }), [checkpointId(5)])
    t.strictSame(await idsOf({ before: checkpointId(7) }), [], 'nothing is before what is not there')
  })

  test('what tasks have written stands with their checkpoint, once for each place', async (t, store) => {
    const thread_id = await addGraph(store)
    const place = { thread_id, ns: '', checkpoint_id: checkpointId(2), run_id: 'run' }
    const writesOf = async (id: number) => (await store.graphStates.load(thread_id, '', checkpointId(id)))?.writes
    await write(store, { name: 'graph.write', ...place, writes: [taskWrite, { ...taskWrite, idx: -3 }] })
    const again = [0, -3].map((idx) => ({ ...taskWrite, idx, data: '"c"' }))
    const elsewhere = { ...taskWrite, task_id: 'a', task_path: 'z' }
    await write(store, { name: 'graph.write', ...place, writes: [...again, elsewhere] })
    t.strictSame(
      await writesOf(2),
      [{ ...taskWrite, idx: -3, data: '"c"' }, taskWrite, elsewhere],
      'the first of a place, the last of a kind; in the order of their paths'
    )
    t.strictSame(await writesOf(1), [])
  })

  test('a run that is rolled back leaves nothing: checkpoints, values, pending writes at any checkpoint', async (t, store) => {
    const thread_id = await addGraph(store)
    const asked = { ...taskWrite, idx: -3, channel: '__interrupt__', data: '"first"' }
    const page = { ns: null, limit: 9 }
    await write(store, { name: 'graph.write', ...placeOf(thread_id, 2, 'run'), writes: [asked, taskWrite] })
    await write(store, {
      name: 'graph.write',
      ...placeOf(thread_id, 2, null),
      writes: [{ ...asked, idx: -4, data: '"mine"' }]
    })
    const before = await store.graphStates.list(thread_id, page)
    const answer = { ...asked, idx: -4, channel: '__resume__', data: '"yes"' }
    const theirs = [answer, { ...asked, data: '"second"' }, { ...taskWrite, data: '"later"' }, { ...taskWrite, idx: 1 }]
    await write(store, { name: 'graph.write', ...placeOf(thread_id, 2, 'other'), writes: theirs })
    t.strictSame(
      (await store.graphStates.load(thread_id, '', null))?.writes.map(({ idx, data }) => [idx, data]),
      [
        [-4, '"yes"'],
        [-3, '"second"'],
        [0, '"b"'],
        [1, '"b"']
      ],
      'until then they count'
    )
    const third = {
      run_id: 'other',
      checkpoint_id: checkpointId(3),
      parent_id: checkpointId(2),
      names: ['messages 1', 'title 2']
    }
    const own = { name: 'title 2', type: 'json', data: '"taken back"' }
    await put(store, aGraphCheckpoint(thread_id, { ...third, values: [own] }))
    await put(store, aGraphCheckpoint(thread_id, { ...third, ns: 'inner:1', values: [own], names: ['title 2'] }))
    await write(store, { name: 'graph.write', ...placeOf(thread_id, 3, 'other'), writes: [taskWrite] })
    await write(store, { name: 'graph.removeRun', thread_id, run_id: 'other' })
    t.strictSame(await store.graphStates.list(thread_id, page), before, 'what it stood before is there again')
    await put(
      store,
      aGraphCheckpoint(thread_id, { checkpoint_id: checkpointId(4), names: ['title 2', 'title 1'], values: [] })
    )
    const values = (await store.graphStates.load(thread_id, '', null))?.values
    t.strictSame(values, [{ name: 'title 1', type: 'json', data: '"T"' }], 'its values are deleted, and no others')
    await put(
      store,
      aGraphCheckpoint(thread_id, { ns: 'inner:1', checkpoint_id: checkpointId(4), names: ['title 2'], values: [] })
    )
    t.strictSame((await store.graphStates.load(thread_id, 'inner:1', null))?.values, [], 'in every namespace')
  })

  const anUpdate = (thread_id: string, id: number, set: Partial<OpOf<'graph.update'>> = {}): OpOf<'graph.update'> => ({
    name: 'graph.update',
    thread_id,
    writes: [
      { name: 'graph.put', ...aGraphCheckpoint(thread_id, { run_id: null, checkpoint_id: checkpointId(id) }) },
      { name: 'graph.write', ...placeOf(thread_id, id, null), writes: [taskWrite] }
    ],
    status: 'idle',
    title: null,
    now: time(9),
    ...set
  })

  test('a state that is written without a run says how its thread stands; not while a run is in flight', async (t, store) => {
    const thread_id = await addGraph(store)
    t.equal(await write(store, anUpdate(thread_id, 3, { status: 'interrupted', title: 'T' })), 'written')
    t.match(await store.threads.get(thread_id, null), { status: 'interrupted', display_name: 'T', updated_at: time(9) })
    t.match(await store.graphStates.load(thread_id, '', null), { checkpoint_id: checkpointId(3), writes: [taskWrite] })
    t.equal(await write(store, anUpdate(thread_id, 4)), 'written')
    t.match(await store.threads.get(thread_id, null), { status: 'idle', display_name: 'T' })
    const expected = await store.graphStates.version(thread_id)
    const run = await addRun(store, thread_id)
    const before = await store.graphStates.list(thread_id, { ns: null, limit: 9 })
    for (const set of [{}, { expected }, { expected: 'other' }])
      t.equal(await write(store, anUpdate(thread_id, 5, { ...set, title: 'X' })), 'busy')
    await startRun(store, run)
    t.equal(await write(store, anUpdate(thread_id, 5, { title: 'X' })), 'busy')
    t.strictSame(await store.graphStates.list(thread_id, { ns: null, limit: 9 }), before, 'and nothing is written')
    t.match(await store.threads.get(thread_id, null), { display_name: 'T' })
  })

  test('a state changes only from the version it was made of [Store 12]', async (t, store) => {
    const { thread_id } = await addThread(store)
    t.equal(await store.graphStates.version(thread_id), null)
    t.equal(await write(store, anUpdate(thread_id, 1, { expected: 'other' })), 'conflict', 'of none there is')
    t.equal(await write(store, anUpdate(thread_id, 1, { expected: null })), 'written')
    const first = await store.graphStates.version(thread_id)
    t.equal(
      await write(store, anUpdate(thread_id, 2, { expected: null })),
      'conflict',
      'there was none, and there is one now'
    )
    t.equal(await write(store, anUpdate(thread_id, 2, { expected: first })), 'written')
    t.equal(
      await write(store, anUpdate(thread_id, 3, { expected: first, title: 'X', status: 'interrupted' })),
      'conflict'
    )
    t.match(
      await store.threads.get(thread_id, null),
      { status: 'idle', display_name: null },
      'nothing of it is written'
    )
    t.equal((await store.graphStates.list(thread_id, { ns: null, limit: 9 })).length, 2)
    t.equal(await write(store, anUpdate(thread_id, 3)), 'written', 'a fork expects nothing')
    const seen: unknown[] = [await store.graphStates.version(thread_id)]
    const changes: Op[] = [
      { name: 'graph.put', ...aGraphCheckpoint(thread_id, { ns: 'inner:1', checkpoint_id: checkpointId(2) }) },
      { name: 'graph.put', ...aGraphCheckpoint(thread_id, { checkpoint_id: checkpointId(4), run_id: 'later' }) },
      { name: 'graph.removeRun', thread_id, run_id: 'later' },
      { name: 'graph.put', ...aGraphCheckpoint(thread_id, { checkpoint_id: checkpointId(5) }) }
    ]
    for (const change of changes) {
      t.ok((await apply(store, [change]))[0]?.ok)
      seen.push(await store.graphStates.version(thread_id))
    }
    t.equal(seen[1], seen[3], 'what is taken back leaves the version before it')
    t.equal(
      new Set(seen).size,
      4,
      'whatever is written changes it, in any namespace, also in the place of what was taken back'
    )
  })

  test('of updates made of the same version at once exactly one is written [Store 2, 12]', async (t, store) => {
    const thread_id = await addGraph(store)
    const expected = await store.graphStates.version(thread_id)
    const groups = Array.from({ length: 10 }, (_, at) => [anUpdate(thread_id, 10 + at, { expected })])
    const outcomes = await apply(store, ...groups)
    t.strictSame(
      outcomes.map((outcome) => outcome.ok && outcome.results[0]),
      ['written', ...Array.from({ length: 9 }, () => 'conflict')]
    )
    t.equal((await store.graphStates.list(thread_id, { ns: '', limit: 99 })).length, 3)
  })

  test('what is read is of one moment: a head never comes without what it names [Store 12]', async (t, store) => {
    const thread_id = await addGraph(store)
    let isOver = false
    const changing = (async () => {
      for (let id = 10; id < 34; id++) {
        const names = Array.from({ length: 20 }, (_, at) => `x${at} ${id}`)
        const values = names.map((name) => ({ name, type: 'json', data: '"some text"' }))
        const one = { run_id: 'later', checkpoint_id: checkpointId(id), parent_id: checkpointId(2), names, values }
        await put(store, aGraphCheckpoint(thread_id, one))
        await write(store, { name: 'graph.write', ...placeOf(thread_id, id, 'later'), writes: [taskWrite] })
        // In turns: the run is rolled back, or the next one makes the thread's earlier states go.
        if (id % 2) await write(store, { name: 'graph.removeRun', thread_id, run_id: 'later' })
        else await write(store, { name: 'state.prune', thread_id })
      }
      isOver = true
    })()
    let torn = 0
    const isTorn = (one: StoredGraphCheckpoint | null) => one !== null && one.values.length < one.names.length
    const reading = async () => {
      while (!isOver) {
        if (isTorn(await store.graphStates.load(thread_id, '', null))) torn++
        torn += (await store.graphStates.list(thread_id, { ns: null, limit: 9 })).filter(isTorn).length
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await Promise.all([changing, reading(), reading(), reading()])
    t.equal(torn, 0)
  })

  test('what the newest state is rebuilt from is not pruned', async (t, store) => {
    const { thread_id } = await addThread(store)
    const counters = '{"counters_since_delta_snapshot":{"items":[2,3]}}'
    for (let id = 1; id <= 6; id++) {
      // Of the list `items` only the second has a value; LangGraph counts what was written since.
      const names = [`sum ${id}`, ...(id === 2 ? ['items 2'] : [])]
      await put(
        store,
        aGraphCheckpoint(thread_id, {
          checkpoint_id: checkpointId(id),
          parent_id: id === 1 ? null : checkpointId(id - 1),
          metadata: id > 2 ? counters : '{}',
          names,
          values: names.map((name) => ({ name, type: 'json', data: '[]' }))
        })
      )
      await write(store, { name: 'graph.write', ...placeOf(thread_id, id, 'run'), writes: [taskWrite] })
    }
    const other = { checkpoint_id: checkpointId(9), parent_id: checkpointId(3), names: [], values: [] }
    await put(store, aGraphCheckpoint(thread_id, { ...other, ns: 'inner:1', metadata: counters }))
    const page = { ns: '', limit: 9 }
    const before = await store.graphStates.list(thread_id, page)
    t.equal(await write(store, { name: 'state.prune', thread_id }), true)
    t.strictSame(
      await store.graphStates.list(thread_id, page),
      before.slice(0, 5),
      'back to the last value of the list'
    )
    t.equal((await store.graphStates.list(thread_id, { ns: null, limit: 9 })).length, 6)
  })

  test('a copy of a thread has its graphs, and goes with it alone', async (t, store) => {
    const from = await addGraph(store)
    await write(store, {
      name: 'graph.write',
      thread_id: from,
      ns: '',
      checkpoint_id: checkpointId(2),
      run_id: 'run',
      writes: [taskWrite]
    })
    const { thread_id } = await addThread(store)
    await write(store, { name: 'state.copy', from, thread_id })
    const page = { ns: null, limit: 9 }
    const before = await store.graphStates.list(from, page)
    const copied = await store.graphStates.list(thread_id, page)
    t.strictSame(
      copied,
      before.map((one) => ({ ...one, thread_id }))
    )
    await write(store, { name: 'thread.remove', thread_id: from, user: null })
    t.strictSame(await store.graphStates.list(from, page), [])
    t.strictSame(await store.graphStates.list(thread_id, page), copied)
  })

  test('a thread that is pruned has the newest state of each of its graphs, and nothing that stood in others', async (t, store) => {
    const thread_id = await addGraph(store)
    await put(store, aGraphCheckpoint(thread_id, { ns: 'inner:1' }))
    const third = {
      checkpoint_id: checkpointId(3),
      parent_id: checkpointId(2),
      names: ['messages 2', 'title 1'],
      values: [{ name: 'messages 2', type: 'json', data: '["b"]' }]
    }
    await put(store, aGraphCheckpoint(thread_id, third))
    for (const id of [2, 3])
      await write(store, {
        name: 'graph.write',
        thread_id,
        ns: '',
        checkpoint_id: checkpointId(id),
        run_id: 'run',
        writes: [taskWrite]
      })
    const page = { ns: null, limit: 9 }
    const before = await store.graphStates.list(thread_id, page)
    t.equal(await write(store, { name: 'state.prune', thread_id }), true)
    t.strictSame(
      await store.graphStates.list(thread_id, page),
      before.filter(({ ns, checkpoint_id }) => ns !== '' || checkpoint_id === checkpointId(3))
    )
    // What is named anew stands for itself: nothing of the old is left behind.
    const again = { checkpoint_id: checkpointId(4), names: ['messages 1'], values: [] }
    await put(store, aGraphCheckpoint(thread_id, again))
    t.strictSame((await store.graphStates.load(thread_id, '', null))?.values, [])
    await addRun(store, thread_id)
    t.equal(await write(store, { name: 'state.prune', thread_id }), false, 'not while a run is in flight')
    t.equal((await store.graphStates.list(thread_id, page)).length, 3)
  })

  const parts = (from: number, to: number, channel = 'messages') =>
    Array.from({ length: to - from + 1 }, (_, at) => ({
      name: `${channel}#${String(from + at).padStart(10, '0')}`,
      type: 'json',
      data: `"${channel} ${from + at}"`
    }))
  /** Three checkpoints of a list that grows, and one that leaves it for another part. */
  async function addList(store: Store, thread_id: string, ns = ''): Promise<void> {
    for (const [id, ranges, values] of [
      [1, [[0, 2]], parts(0, 2)],
      [2, [[0, 3]], parts(3, 3)],
      [3, [[0, 11]], parts(4, 11)],
      [
        4,
        [
          [12, 12],
          [1, 3]
        ],
        parts(12, 12)
      ]
    ] as const)
      await put(
        store,
        aGraphCheckpoint(thread_id, {
          ns,
          run_id: `run ${id}`,
          checkpoint_id: checkpointId(id),
          names: [{ name: `messages ${id}`, parts: ranges }],
          values
        })
      )
  }
  const partsOf = (one: StoredGraphCheckpoint | null | undefined) =>
    one?.values.map(({ data }) => JSON.parse(data) as unknown)
  const named = (...numbers: number[]) => numbers.map((no) => `messages ${no}`)

  test('a list in parts is read back in its order, with parts of earlier checkpoints, by its head and in pages', async (t, store) => {
    const { thread_id } = await addThread(store)
    await addList(store, thread_id)
    await put(store, aGraphCheckpoint(thread_id, { ns: 'inner:1', values: parts(0, 1, 'other') }))
    const expected = [
      named(12, 1, 2, 3),
      named(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
      named(0, 1, 2, 3),
      named(0, 1, 2)
    ]
    t.strictSame((await store.graphStates.list(thread_id, { ns: '', limit: 9 })).map(partsOf), expected)
    for (const id of [1, 2, 3, 4])
      t.strictSame(partsOf(await store.graphStates.load(thread_id, '', checkpointId(id))), expected[4 - id])
    t.strictSame((await store.graphStates.load(thread_id, '', null))?.names, [
      {
        name: 'messages 4',
        parts: [
          [12, 12],
          [1, 3]
        ]
      }
    ])
  })

  test('new parts of a list have numbers above all that are stored in their namespace', async (t, store) => {
    const { thread_id } = await addThread(store)
    t.equal(await store.graphStates.nextPart(thread_id, '', 'messages'), 0)
    await addList(store, thread_id)
    t.equal(await store.graphStates.nextPart(thread_id, '', 'messages'), 13)
    t.equal(await store.graphStates.nextPart(thread_id, 'inner:1', 'messages'), 0)
    // Names that look alike.
    const values = ['message#0000000099', 'messages#0000000099 1', 'messages# 2', 'messages#x'].map((name) => ({
      name,
      type: 'json',
      data: '0'
    }))
    await put(store, aGraphCheckpoint(thread_id, { checkpoint_id: checkpointId(5), names: [], values }))
    t.equal(await store.graphStates.nextPart(thread_id, '', 'messages'), 13)
    t.equal(await store.graphStates.nextPart(thread_id, '', 'message'), 100)
  })

  test('parts go with the last checkpoint that names them: with a run that is rolled back, and by pruning', async (t, store) => {
    const { thread_id } = await addThread(store)
    await addList(store, thread_id)
    await addList(store, thread_id, 'inner:1')
    const everything = {
      checkpoint_id: checkpointId(9),
      names: [{ name: 'messages 9', parts: [[0, 12]] }],
      values: []
    } as const
    const left = async () => {
      await put(store, aGraphCheckpoint(thread_id, { ...everything, run_id: 'look' }))
      const found = partsOf(await store.graphStates.load(thread_id, '', checkpointId(9)))
      await write(store, { name: 'graph.removeRun', thread_id, run_id: 'look' })
      return found
    }
    t.strictSame(await left(), named(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
    await write(store, { name: 'graph.removeRun', thread_id, run_id: 'run 3' })
    t.strictSame(await left(), named(0, 1, 2, 3, 12))
    t.strictSame(partsOf(await store.graphStates.load(thread_id, '', null)), named(12, 1, 2, 3), 'others are whole')
    t.equal(await write(store, { name: 'state.prune', thread_id }), true)
    t.strictSame(await left(), named(1, 2, 3, 12))
    t.strictSame(partsOf(await store.graphStates.load(thread_id, 'inner:1', null)), named(12, 1, 2, 3))
  })

  test('of two forks that number parts alike the later one is a conflict', async (t, store) => {
    const { thread_id } = await addThread(store)
    await addList(store, thread_id)
    const names = [
      {
        name: 'messages 5',
        parts: [
          [0, 3],
          [13, 13]
        ]
      }
    ] as const
    const fork = aGraphCheckpoint(thread_id, {
      run_id: null,
      checkpoint_id: checkpointId(5),
      names,
      values: parts(13, 13)
    })
    const writes = [{ name: 'graph.put', ...fork }] as const
    t.equal(await write(store, anUpdate(thread_id, 5, { writes })), 'written')
    const before = await store.graphStates.list(thread_id, { ns: null, limit: 9 })
    const other = { ...fork, checkpoint_id: checkpointId(6), values: [{ ...parts(13, 13)[0]!, data: '"other"' }] }
    t.equal(await write(store, anUpdate(thread_id, 6, { writes: [{ name: 'graph.put', ...other }] })), 'conflict')
    t.strictSame(await store.graphStates.list(thread_id, { ns: null, limit: 9 }), before, 'and nothing is written')
  })

  test('bodies of a run itself are read by name, beside those of checkpoints, and are copied with no thread', async (t, store) => {
    const thread_id = await addGraph(store)
    const [run, other] = [await addRun(store, thread_id), await addRun(store, (await addThread(store)).thread_id)]
    await keepBodies(store, run, 'x')
    await keepBodies(store, other, 'y')
    const all = [{ name: ' ', parts: [[0, 4]] }] as const
    const dataOf = async (of: Run, from: Run = of) =>
      (await store.graphStates.bodies(of.thread_id, runNamespace(from.key), all)).map(({ data }) => data).sort()
    t.strictSame(await dataOf(run), ['"x0"', '"x1"', '"x2"'])
    t.strictSame(await dataOf(run, other), [], 'each run has its own')
    const some = [{ name: ' ', parts: [[1, 1]] }] as const
    t.strictSame(await store.graphStates.bodies(thread_id, runNamespace(run.key), some), [bodiesOf('x')[1]])
    t.strictSame(
      await store.graphStates.bodies(thread_id, '', ['messages 1', 'none 1']),
      [{ name: 'messages 1', type: 'json', data: '["a"]' }],
      'a checkpoint names them so too'
    )
    await write(store, { name: 'state.prune', thread_id })
    t.strictSame(await dataOf(run), ['"x0"', '"x1"', '"x2"'], 'they are of no checkpoint')
    const copy = (await addThread(store)).thread_id
    await write(store, { name: 'state.copy', from: thread_id, thread_id: copy })
    t.strictSame(await store.graphStates.bodies(copy, runNamespace(run.key), all), [])
    t.equal((await store.graphStates.load(copy, '', null))?.values.length, 2)
  })

  test('bodies of a run itself go with its frames: with the run, by the sweep, with a rollback', async (t, store) => {
    const { thread_id } = await addThread(store)
    const runs: Run[] = []
    for (let no = 0; no < 4; no++) {
      const run = await addRun(store, thread_id)
      await startRun(store, run)
      await keepBodies(store, run, `r${no}`)
      if (no < 3) await write(store, aSettlement(run, { now: time(no) }))
      runs.push(run)
    }
    const all = [{ name: ' ', parts: [[0, 2]] }] as const
    const left = async () => {
      const found: number[] = []
      for (const [no, { key }] of runs.entries())
        if ((await store.graphStates.bodies(thread_id, runNamespace(key), all)).length > 0) found.push(no)
      return found
    }
    t.strictSame(await left(), [0, 1, 2, 3])
    await write(store, { name: 'run.remove', run_id: runs[1]!.run_id, thread_id, user: null })
    t.strictSame(await left(), [0, 2, 3])
    await write(store, { name: 'frames.sweep', before: time(1), after: 0, limit: 100 })
    t.strictSame(await left(), [2, 3], 'of those that ended before')
    await write(store, { name: 'graph.removeRun', thread_id, run_id: runs[3]!.run_id })
    t.strictSame(await left(), [2])
    await write(store, { name: 'thread.remove', thread_id, user: null })
    t.strictSame(await left(), [])
  })

  test('nothing is written for a thread that does not exist [Store 8]', async (t, store) => {
    const thread_id = await addGraph(store)
    await write(store, { name: 'thread.remove', thread_id, user: null })
    await refuses(t, store, { name: 'graph.put', ...aGraphCheckpoint(thread_id) }, 'put')
    await refuses(t, store, { name: 'run.bodies', thread_id, run_key: 1, bodies: bodiesOf('x') }, 'bodies')
    const place = { thread_id, ns: '', checkpoint_id: checkpointId(1), run_id: null }
    await refuses(t, store, { name: 'graph.write', ...place, writes: [taskWrite] }, 'write')
    t.equal(await store.graphStates.load(thread_id, '', null), null)
  })

  durable('checkpoints of graphs survive a restart', async (t, store, reopen) => {
    const thread_id = await addGraph(store)
    const before = await store.graphStates.list(thread_id, { ns: null, limit: 9 })
    t.strictSame(await (await reopen()).graphStates.list(thread_id, { ns: null, limit: 9 }), before)
  })
}
