// Obligations of ThreadReads and the thread ops.
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { Test } from 'tap'
import type { Owner } from '../../lib/base/scope.ts'
import type { Store } from '../../lib/store/store.ts'
import type { JsonObject, Run, Thread } from '../../lib/base/types.ts'
import {
  aCheckpoint,
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  aRun,
  aSettlement,
  aThread,
  checkpointId,
  durableRules,
  idsOf,
  type Open,
  rules,
  someBodies,
  someEvents,
  time,
  userArgument,
  write,
  messageCount
} from './harness.ts'

function create(store: Store, set: Partial<Thread>) {
  const thread = aThread(set)
  return write(store, { name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id) })
}

/** A conversation that a store may not want to remove in one go: whose is it, and what is left of it? */
async function addLongThread(store: Store, n: number): Promise<Run> {
  const { thread_id } = await addThread(store)
  const run = await addRun(store, thread_id, { idempotency_key: 'once', idempotency_hash: 'hash' })
  const index = Uint8Array.of(1, 1, 0, 0, 0)
  const frames = Array.from({ length: n / 4 }, (_, at) => ({
    name: 'frames.append' as const,
    run_key: run.key,
    thread_id,
    segment: { epoch: 1, first: at, last: at, index, data: Uint8Array.of(7) }
  }))
  await store.apply([{ ops: frames }])
  await addEvents(store, run, someEvents(0, n))
  const bodies = someBodies([0, n - 1], (no) => `"${no}"`)
  const checkpoint = aCheckpoint(thread_id, { checkpoint_id: checkpointId(1), messages: [[0, n - 1]], bodies })
  await write(store, { name: 'checkpoint.put', ...checkpoint })
  await write(store, aSettlement(run))
  if (!store.feedback) return run
  await write(store, {
    name: 'feedback.upsert',
    feedback: {
      feedback_id: randomUUID(),
      thread_id,
      run_id: run.run_id,
      user_id: 'ann',
      message_id: null,
      rating: 1,
      comment: null,
      created_at: time(1)
    }
  })
  return run
}

/** All that can be read of a thread and its run. */
async function seenOf(store: Store, { thread_id, run_id, key }: Run): Promise<unknown[]> {
  const { events, checkpoints, runs, frames, feedback } = store
  const lists = [
    await store.threads.get(thread_id, null),
    await runs.get(run_id, null),
    await runs.list(thread_id, { limit: 9, offset: 0 }, null),
    await runs.inFlight(thread_id),
    (await runs.tokens(thread_id, null)).total_runs || null,
    await events.listMessages(thread_id, { limit: 9 }, null),
    await events.listMessagesByRun(thread_id, run_id, { limit: 9 }, null),
    await events.listEvents(thread_id, run_id, { limit: 9 }, null),
    await events.listEvents(thread_id, run_id, { limit: 9, types: ['ai_message'] }, null),
    [...(await events.runsOfMessages(thread_id, ['message-0', 'message-1'], null))],
    await events.nextSeq(thread_id),
    await checkpoints.load(thread_id, null),
    await checkpoints.load(thread_id, checkpointId(1)),
    await checkpoints.history(thread_id, { limit: 9 }),
    await frames.read(key, 0, 1000),
    await frames.bounds(key),
    (await feedback?.list(thread_id, run_id, null)) ?? [],
    (await feedback?.stats(thread_id, run_id))?.total || null
  ]
  return lists.filter((one) => one !== null && !(Array.isArray(one) && one.length === 0))
}

export function threadStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)
  test('the own threads of a user are found by nobody else’s, also one that is made for one run', async (t, store) => {
    const [mine, other] = [await addThread(store), await addThread(store)]
    await addThread(store, { user_id: 'ben' })
    await addThread(store, { user_id: null })
    const { thread_id } = await addThread(store, {}, { isTemporary: true })
    const all = [mine.thread_id, other.thread_id, thread_id].toSorted()
    t.strictSame((await store.threads.idsOf('ann', 9)).toSorted(), all)
    t.equal((await store.threads.idsOf('ann', 2)).length, 2)
    t.strictSame(await store.threads.idsOf('nobody', 9), [])
  })

  test('a long thread is gone when its removal is answered, its keys and its id are free, and what comes next is whole [Store 4]', async (t, store) => {
    const run = await addLongThread(store, 2500)
    const { thread_id } = run
    t.ok((await seenOf(store, run)).length >= 12, 'it was there')
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: 'ann' }), true)
    t.strictSame(await seenOf(store, run), [])
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: null }), false)
    const other = await addThread(store)
    const again = aRun(other.thread_id, { idempotency_key: 'once', idempotency_hash: 'other' })
    t.match(await write(store, { name: 'run.create', run: again, autoFollowUp: false }), { outcome: 'created' })

    const anew = await create(store, { thread_id, user_id: 'bob' })
    t.match(anew, { created: true })
    const next = await addRun(store, thread_id)
    t.equal(next.ordinal, 1)
    t.equal(await addEvents(store, next, someEvents(0, 5)), 1)
    t.equal((await store.checkpoints.history(thread_id, { limit: 9 })).length, 1)
    // Whatever is removed beside it in the meantime.
    for (let n = 0; n < 20; n++) await write(store, { name: 'store.ping' })
    t.equal((await store.events.listMessages(thread_id, { limit: 99 }, null)).length, 5)
    t.equal(await store.runs.get(run.run_id, null), null)
  })

  durable('what a long thread has left is not there after a restart either', async (t, store, reopen) => {
    const run = await addLongThread(store, 2500)
    await write(store, { name: 'thread.remove', thread_id: run.thread_id, user: null })
    t.strictSame(await seenOf(await reopen(), run), [])
  })

  test('a name is as long as it may be, whatever its characters, and so is all that a client names [Store 9]', async (t, store) => {
    for (const unit of ['\u0000', '\u001a', '\u{1f6a2}', 'é']) {
      const [name, id] = [unit.repeat(256), unit.repeat(128)]
      const thread = await addThread(store, { display_name: name, assistant_id: id })
      t.equal((await store.threads.get(thread.thread_id, null))?.display_name, name)
      const run = await addRun(store, thread.thread_id, { assistant_id: id, idempotency_key: unit.repeat(255) })
      t.match(await store.runs.get(run.run_id, null), { assistant_id: id, idempotency_key: unit.repeat(255) })
      await write(store, aSettlement(run, { model_name: `${unit}${'m'.repeat(500)}`, title: name }))
      t.equal((await store.runs.get(run.run_id, null))?.model_name, `${unit}${'m'.repeat(500)}`)
      t.equal((await store.threads.get(thread.thread_id, null))?.display_name, name)
    }
  })

  test('a thread is read back field for field', async (t, store) => {
    const thread = aThread({
      display_name: 'Ships',
      metadata: { a: [1, { b: null }] },
      created_at: time(1),
      updated_at: time(2)
    })
    const answer = await write(store, { name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id) })
    t.strictSame(answer, { thread, created: true })
    t.strictSame(await store.threads.get(thread.thread_id, 'ann'), thread)
    t.equal(await store.threads.get('missing', 'ann'), null)
  })

  test('a new thread has its first, empty checkpoint', async (t, store) => {
    const { thread_id } = await addThread(store)
    t.strictSame(await store.checkpoints.load(thread_id, null), {
      thread_id,
      checkpoint_id: checkpointId(0),
      parent_checkpoint_id: null,
      run_id: null,
      created_at: time(0),
      metadata: { source: 'input', step: -1, writes: null, parents: {} },
      next: [],
      messages: [],
      channels: {},
      messageBodies: [],
      channelBodies: [],
      nextBody: 0
    })
  })

  test('creating a thread that one may see answers the one that is there, unchanged', async (t, store) => {
    for (const owner of ['ann', null]) {
      const before = await addThread(store, { user_id: owner, metadata: { kept: true } })
      const again = { thread_id: before.thread_id, user_id: 'ann', metadata: { other: 1 }, updated_at: time(5) }
      t.strictSame(await create(store, again), { thread: before, created: false })
      t.strictSame(await store.threads.get(before.thread_id, 'ann'), before)
      t.equal(
        (await store.checkpoints.history(before.thread_id, { limit: 10 })).length,
        1,
        'no second first checkpoint'
      )
    }
  })

  test("creating a thread under somebody else's id answers null and shows nothing of it", async (t, store) => {
    const before = await addThread(store, { user_id: 'bob' })
    t.equal(await create(store, { thread_id: before.thread_id, user_id: 'ann' }), null)
    t.strictSame(await store.threads.get(before.thread_id, 'bob'), before)
  })

  test('of two creations of one id in one batch the first creates and the second is answered the same', async (t, store) => {
    const thread = aThread()
    const op = { name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id) } as const
    const outcomes = await store.apply([{ ops: [op] }, { ops: [op] }])
    t.strictSame(outcomes, [
      { ok: true, results: [{ thread, created: true }] },
      { ok: true, results: [{ thread, created: false }] }
    ])
  })

  test('ownerOf tells whose thread it is, whoever asks: a user, nobody, or no such thread [Auth 6]', async (t, store) => {
    const mine = await addThread(store, { user_id: 'ann' })
    const shared = await addThread(store, { user_id: null })
    t.equal(await store.threads.ownerOf(mine.thread_id), 'ann')
    t.equal(await store.threads.ownerOf(shared.thread_id), null)
    t.equal(await store.threads.ownerOf('missing'), undefined)
  })

  test('reads of threads are of one user, or of everybody for null [Store 1]', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: 'ann' })
    const get = async (user: Owner) => ((await store.threads.get(thread_id, user)) ? 1 : 0)
    const search = async (user: Owner) => {
      const { threads, total } = await store.threads.search({ limit: 10, offset: 0 }, user)
      t.equal(threads.length, total)
      return total
    }
    await userArgument(t, 'threads.get', { mine: 'ann', other: 'bob', read: get })
    await userArgument(t, 'threads.search', { mine: 'ann', other: 'bob', read: search })
  })

  test('a thread without an owner is visible to everybody and may be changed by everybody [Auth 6]', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    await addThread(store, { user_id: 'bob' })
    t.equal((await store.threads.get(thread_id, 'ann'))?.thread_id, thread_id)
    t.strictSame(await idsOf(store, {}, 'ann'), [thread_id])
    const patch = { name: 'thread.patch', thread_id, metadata: { seen: true }, user: 'ann', now: time(1) } as const
    t.strictSame((await write(store, patch))?.metadata, { seen: true })
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: 'ann' }), true)
  })

  test('a thread of somebody else can be neither read, nor changed, nor removed', async (t, store) => {
    const thread = await addThread(store, { user_id: 'bob', metadata: { secret: 1 } })
    const { thread_id } = thread
    t.equal(await store.threads.get(thread_id, 'ann'), null)
    t.strictSame(await idsOf(store, { metadata: { secret: 1 } }, 'ann'), [])
    t.strictSame(await idsOf(store, { ids: [thread_id] }, 'ann'), [])
    const patch = { name: 'thread.patch', thread_id, metadata: { secret: 2 }, user: 'ann', now: time(1) } as const
    t.equal(await write(store, patch), null)
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: 'ann' }), false)
    t.strictSame(await store.threads.get(thread_id, 'bob'), thread)
  })

  test('a patch merges top-level keys, keeps null as a value, and touches updated_at', async (t, store) => {
    const thread = await addThread(store, { metadata: { kept: { deep: 1 }, changed: { old: 1 } } })
    const { thread_id } = thread
    const metadata = { changed: { new: 1 }, added: null }
    const answer = await write(store, { name: 'thread.patch', thread_id, metadata, user: 'ann', now: time(7) })
    const expected = { kept: { deep: 1 }, changed: { new: 1 }, added: null }
    t.strictSame(answer, { ...thread, metadata: expected, updated_at: time(7) })
    t.strictSame(await store.threads.get(thread_id, 'ann'), answer)
  })

  test('a patch with null for the user changes any thread, and a patch of no thread answers null', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: 'bob' })
    const patch = { name: 'thread.patch', metadata: { a: 1 }, user: null, now: time(1) } as const
    t.strictSame((await write(store, { ...patch, thread_id }))?.metadata, { a: 1 })
    t.equal(await write(store, { ...patch, thread_id: 'missing' }), null)
    t.equal(await store.threads.get('missing', null), null)
  })

  test('a search gives the newest updated_at first, and counts all matches', async (t, store) => {
    for (const [id, at] of [
      ['a', 1],
      ['b', 3],
      ['c', 2]
    ] as const)
      await addThread(store, { thread_id: id, updated_at: time(at) })
    t.strictSame(await idsOf(store, {}), ['b', 'c', 'a'])
    const page = await store.threads.search({ limit: 1, offset: 1 }, 'ann')
    t.strictSame([page.threads.map(({ thread_id }) => thread_id), page.total], [['c'], 3])
    const beyond = await store.threads.search({ limit: 10, offset: 3 }, 'ann')
    t.strictSame(beyond, { threads: [], total: 3 })
  })

  test('a search sorts by the column and in the direction that is asked for', async (t, store) => {
    await addThread(store, { thread_id: 'a', created_at: time(2), updated_at: time(3), status: 'running' })
    await addThread(store, { thread_id: 'b', created_at: time(1), updated_at: time(2), status: 'error' })
    await addThread(store, { thread_id: 'c', created_at: time(3), updated_at: time(1), status: 'idle' })
    t.strictSame(await idsOf(store, { sortBy: 'thread_id', sortOrder: 'asc' }), ['a', 'b', 'c'])
    t.strictSame(await idsOf(store, { sortBy: 'created_at', sortOrder: 'asc' }), ['b', 'a', 'c'])
    t.strictSame(await idsOf(store, { sortBy: 'created_at', sortOrder: 'desc' }), ['c', 'a', 'b'])
    t.strictSame(await idsOf(store, { sortBy: 'updated_at', sortOrder: 'asc' }), ['c', 'b', 'a'])
    t.strictSame(await idsOf(store, { sortBy: 'status', sortOrder: 'asc' }), ['b', 'c', 'a'])
    t.strictSame(await idsOf(store, { sortOrder: 'asc' }), ['c', 'b', 'a'], 'updated_at is the column without one')
    t.strictSame(await idsOf(store, { sortBy: 'thread_id' }), ['c', 'b', 'a'], 'downwards is the direction without one')
  })

  test('a search by status and by ids gives what matches all of it', async (t, store) => {
    const idle = await addThread(store, {})
    const failed = await addThread(store, { status: 'error' })
    t.strictSame(await idsOf(store, { status: 'error' }), [failed.thread_id])
    t.strictSame(await idsOf(store, { ids: [idle.thread_id, 'missing', idle.thread_id] }), [idle.thread_id])
    t.strictSame(await idsOf(store, { ids: [] }), [], 'no ids are none, not all')
    t.strictSame(await idsOf(store, { ids: [idle.thread_id], status: 'error' }), [])
  })

  test('pages of a search, one after the other, give each thread once, also when all are equally new', async (t, store) => {
    for (let n = 0; n < 23; n++) await addThread(store, { user_id: n % 3 ? 'ann' : null, updated_at: time(n % 2) })
    await addThread(store, { user_id: 'bob' })
    const sortBy = fc.constantFrom('thread_id', 'created_at', 'updated_at', 'status', undefined)
    const order = fc.constantFrom('asc', 'desc', undefined)
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 30 }), sortBy, order, async (limit, sortBy, sortOrder) => {
        const order = { ...(sortBy && { sortBy }), ...(sortOrder && { sortOrder }) }
        const walked: string[] = []
        for (let offset = 0; offset < 23; offset += limit)
          walked.push(...(await idsOf(store, { ...order, limit, offset }, 'ann')))
        t.strictSame(walked, await idsOf(store, order, 'ann'))
        t.equal(new Set(walked).size, 23)
      }),
      { numRuns: 30 }
    )
  })

  test('removing a thread leaves nothing of it, in any table', async (t, store) => {
    const { thread_id } = await addThread(store)
    const kept = await addThread(store)
    const keyed = { idempotency_key: 'key', idempotency_hash: 'hash' }
    const run = await addRun(store, thread_id, { run_id: 'run', ...keyed })
    const keptRun = await addRun(store, kept.thread_id)
    for (const one of [run, keptRun]) {
      await addEvents(store, one, [anEvent(0)])
      const segment = { epoch: 1, first: 0, last: 0, index: Uint8Array.of(1, 1, 0, 0, 0), data: Uint8Array.of(7) }
      await write(store, { name: 'frames.append', run_key: one.key, thread_id: one.thread_id, segment })
      const bodies = [{ no: 0, json: '"x"' }]
      const checkpoint = aCheckpoint(one.thread_id, { checkpoint_id: checkpointId(1), messages: [[0, 0]], bodies })
      await write(store, { name: 'checkpoint.put', ...checkpoint })
      if (store.feedback) await addFeedback(store, one)
    }

    t.equal(await write(store, { name: 'thread.remove', thread_id, user: 'ann' }), true)
    t.strictSame(await seen(store, thread_id, run.run_id, run.key), NOTHING)
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: 'ann' }), false, 'a second removal finds none')
    t.strictNotSame(await seen(store, kept.thread_id, keptRun.run_id, keptRun.key), NOTHING, 'other threads are kept')
    t.match(await seen(store, kept.thread_id, keptRun.run_id, keptRun.key), {
      runs: 1,
      events: 1,
      states: 2,
      thread: true
    })

    await create(store, { thread_id })
    t.match(await seen(store, thread_id, run.run_id, run.key), {
      ...NOTHING,
      thread: true,
      found: 1,
      owned: true,
      states: 1
    })
    t.equal((await store.checkpoints.load(thread_id, null))?.nextBody, 0)
    const again = await addRun(store, thread_id, { run_id: 'run', ...keyed })
    t.equal(again.ordinal, 1, 'ordinals begin again, the run id and its idempotency key are free')
    t.notOk([run.key, keptRun.key].includes(again.key), 'a key is never given twice')
    t.equal(await addEvents(store, again, [anEvent(0)]), 1, 'seq begins again')
  })

  test('removing a thread with null for the user removes any', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: 'bob' })
    t.equal(await write(store, { name: 'thread.remove', thread_id, user: null }), true)
    t.equal(await store.threads.ownerOf(thread_id), undefined)
  })

  test('a run on a thread that was removed is answered thread_missing [Store 8]', async (t, store) => {
    const { thread_id } = await addThread(store)
    await write(store, { name: 'thread.remove', thread_id, user: 'ann' })
    const answer = await write(store, { name: 'run.create', run: aRun(thread_id), autoFollowUp: true })
    t.strictSame(answer, { outcome: 'thread_missing' })
  })

  durable('threads and their order survive a restart', async (t, store, reopen) => {
    const thread = await addThread(store, { metadata: { a: '\u2028', b: [null] }, updated_at: time(2) })
    await addThread(store, { updated_at: time(1) })
    await addEndedRun(store, thread.thread_id, { title: 'Ships', now: time(3) })
    const before = await store.threads.search({ limit: 10, offset: 0 }, 'ann')
    const again = await reopen()
    t.strictSame(await again.threads.search({ limit: 10, offset: 0 }, 'ann'), before)
    t.equal(before.threads[0]?.display_name, 'Ships')
  })
}

function addFeedback(store: Store, run: { run_id: string; thread_id: string }) {
  const feedback = {
    feedback_id: `feedback of ${run.run_id}`,
    run_id: run.run_id,
    thread_id: run.thread_id,
    user_id: 'ann',
    message_id: null,
    rating: 1,
    comment: null,
    created_at: time(0)
  } as const
  return write(store, { name: 'feedback.upsert', feedback })
}

const NOTHING: JsonObject = {
  thread: false,
  found: 0,
  owned: false,
  run: false,
  runs: 0,
  inFlight: 0,
  unfinished: false,
  tokens: 0,
  messages: 0,
  runMessages: 0,
  events: 0,
  count: 0,
  authors: 0,
  segments: 0,
  bounds: false,
  state: false,
  states: 0,
  feedback: 0,
  stats: 0,
  feedbackByRun: 0
}

/** How much of a thread and its run there is, by every read. */
async function seen(store: Store, threadId: string, runId: string, runKey: number): Promise<JsonObject> {
  const unfinished = await store.runs.unfinished(null)
  return {
    thread: (await store.threads.get(threadId, null)) !== null,
    found: (await idsOf(store, { ids: [threadId] })).length,
    owned: (await store.threads.ownerOf(threadId)) !== undefined,
    run: (await store.runs.get(runId, null)) !== null,
    runs: (await store.runs.list(threadId, { limit: 10, offset: 0 }, null)).length,
    inFlight: (await store.runs.inFlight(threadId)).length,
    unfinished: unfinished.some((run) => run.thread_id === threadId),
    tokens: (await store.runs.tokens(threadId, null)).total_runs,
    messages: (await store.events.listMessages(threadId, { limit: 10 }, null)).length,
    runMessages: (await store.events.listMessagesByRun(threadId, runId, { limit: 10 }, null)).length,
    events: (await store.events.listEvents(threadId, runId, { limit: 10 }, null)).length,
    count: await messageCount(store, threadId, null),
    authors: (await store.events.runsOfMessages(threadId, ['message-0'], null)).size,
    segments: (await store.frames.read(runKey, 0, 1000)).length,
    bounds: (await store.frames.bounds(runKey)) !== null,
    state: (await store.checkpoints.load(threadId, checkpointId(1))) !== null,
    states: (await store.checkpoints.history(threadId, { limit: 10 })).length,
    feedback: (await store.feedback?.list(threadId, runId, null))?.length ?? 0,
    stats: (await store.feedback?.stats(threadId, runId))?.total ?? 0,
    feedbackByRun: (await store.feedback?.byRuns(threadId, [runId], null))?.size ?? 0
  }
}
