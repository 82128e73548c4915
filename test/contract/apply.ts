// Obligations of `apply`: groups, their atomicity, their isolation from each other, and what a caller may change.
import fc from 'fast-check'
import type { Test } from 'tap'
import { type Op, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import type { Feedback, JsonObject, Run } from '../../lib/base/types.ts'
import {
  aCheckpoint,
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  apply,
  aRun,
  aSettlement,
  aThread,
  aUser,
  checkpointId,
  type Open,
  rules,
  skipped,
  someEvents,
  time,
  write,
  messageCount
} from './harness.ts'
import { textContract } from './texts.ts'

/** An op that is refused wherever it stands. */
const REFUSED: Op = {
  name: 'events.append',
  thread_id: 'missing',
  run_id: 'missing',
  user_id: null,
  events: [anEvent(0)]
}

/** One of every op that leaves something behind, on a thread with a pending run, in an order in which they work. */
function everyWrite({ thread_id, run_id, key }: Run, other: Run, hasFeedback: boolean): Op[] {
  const created = aThread({ thread_id: 'created' })
  const bodies = [{ no: 0, json: '"x"' }]
  const segment = { epoch: 1, first: 0, last: 0, index: Uint8Array.of(1, 1, 0, 0, 0), data: Uint8Array.of(7) }
  return [
    { name: 'user.create', user: aUser({ id: 'created', email: 'created@example.com' }) },
    { name: 'user.initialize', user: aUser({ id: 'admin', email: 'admin@example.com', system_role: 'admin' }) },
    { name: 'user.update', id: 'there', set: { email: 'changed@example.com', token_version: 9 } },
    { name: 'thread.create', thread: created, checkpoint: aCheckpoint('created') },
    { name: 'thread.patch', thread_id, metadata: { changed: true }, user: null, now: time(30) },
    {
      name: 'run.create',
      run: aRun(thread_id, { run_id: 'created', idempotency_key: 'key', idempotency_hash: 'hash' }),
      autoFollowUp: true
    },
    { name: 'run.start', run_id, attempt: 1, thread_id, now: time(31) },
    { name: 'events.append', thread_id, run_id, user_id: 'ann', events: someEvents(0, 2) },
    { name: 'frames.append', run_key: key, thread_id, segment },
    {
      name: 'checkpoint.put',
      ...aCheckpoint(thread_id, { checkpoint_id: checkpointId(1), messages: [[0, 0]], bodies })
    },
    aSettlement({ run_id, thread_id }, { title: 'Changed', last_cursor: '1-0', now: time(32) }),
    aSettlement({ run_id: 'created', thread_id }, { now: time(33) }),
    {
      name: 'state.update',
      thread_id,
      base: null,
      checkpoint_id: checkpointId(2),
      now: time(34),
      messages: ['"y"'],
      channels: { title: '"z"' },
      as_node: 'agent',
      title: 'Changed again'
    },
    ...(hasFeedback ? feedbackWrites(run_id, thread_id, other) : []),
    { name: 'thread.remove', thread_id: other.thread_id, user: null }
  ]
}

function someFeedback(run_id: string, thread_id: string, feedback_id: string): Feedback {
  return {
    feedback_id,
    run_id,
    thread_id,
    user_id: 'ann',
    message_id: null,
    rating: 1,
    comment: null,
    created_at: time(1)
  }
}

/** Feedback that is new, changed, removed and removed by its id. */
function feedbackWrites(runId: string, threadId: string, other: Run): Op[] {
  const theirs = { thread_id: other.thread_id, run_id: other.run_id, user: null }
  return [
    { name: 'feedback.upsert', feedback: someFeedback(runId, threadId, 'new') },
    { name: 'feedback.upsert', feedback: { ...someFeedback(other.run_id, other.thread_id, 'ignored'), rating: -1 } },
    { name: 'feedback.removeById', feedback_id: 'there', ...theirs },
    { name: 'feedback.upsert', feedback: someFeedback(other.run_id, other.thread_id, 'newer') },
    { name: 'feedback.remove', ...theirs }
  ]
}

/** Everything that `everyWrite` could have changed, by the reads. */
async function picture(store: Store, run: Run, other: Run): Promise<unknown> {
  const users = ['created', 'admin', 'there'].map((id) => store.users.byId(id))
  const emails = ['created', 'admin', 'changed', 'there'].map((name) => store.users.byEmail(`${name}@example.com`))
  const ofThread = (threadId: string, runId: string, key: number) => [
    store.threads.get(threadId, null),
    store.threads.ownerOf(threadId),
    store.runs.list(threadId, { limit: 10, offset: 0 }, null),
    store.runs.inFlight(threadId),
    store.runs.tokens(threadId, null),
    store.events.listMessages(threadId, { limit: 10 }, null),
    store.events.listEvents(threadId, runId, { limit: 10 }, null),
    store.events.runsOfMessages(threadId, ['message-0', 'message-1'], null).then((found) => [...found]),
    store.frames
      .read(key, 0, 1e6)
      .then((segments) => segments.map(({ data, ...rest }) => [rest.first, rest.last, [...data]])),
    store.frames.bounds(key),
    store.checkpoints.load(threadId, null),
    store.checkpoints.history(threadId, { limit: 10 }),
    store.feedback?.list(threadId, runId, null),
    store.feedback?.stats(threadId, runId)
  ]
  return Promise.all([
    ...users,
    ...emails,
    store.users.admin(),
    store.threads.search({ limit: 10, offset: 0 }, null),
    store.threads.search({ limit: 10, offset: 0 }, 'ann'),
    store.runs.get('created', null),
    store.runs.unfinished(null),
    ...ofThread(run.thread_id, run.run_id, run.key),
    ...ofThread(other.thread_id, other.run_id, other.key),
    ...ofThread('created', 'created', 0)
  ])
}

/** A thread with a pending run, and another with everything a thread can have. */
async function furnish(store: Store): Promise<{ run: Run; other: Run }> {
  await write(store, { name: 'user.create', user: aUser({ id: 'there', email: 'there@example.com' }) })
  const thread = await addThread(store, { metadata: { kept: 1 } })
  await addEndedRun(store, thread.thread_id)
  const run = await addRun(store, thread.thread_id)
  const full = await addThread(store)
  const other = await addRun(store, full.thread_id, { idempotency_key: 'other', idempotency_hash: 'hash' })
  await addEvents(store, other, someEvents(0, 2))
  const segment = { epoch: 1, first: 0, last: 0, index: Uint8Array.of(1, 1, 0, 0, 0), data: Uint8Array.of(7) }
  await write(store, { name: 'frames.append', run_key: other.key, thread_id: full.thread_id, segment })
  const bodies = [{ no: 0, json: '"x"' }]
  await write(store, {
    name: 'checkpoint.put',
    ...aCheckpoint(full.thread_id, { checkpoint_id: checkpointId(1), messages: [[0, 0]], bodies })
  })
  if (store.feedback)
    await write(store, { name: 'feedback.upsert', feedback: someFeedback(other.run_id, full.thread_id, 'there') })
  return { run, other }
}

export function applyContract(t: Test, open: Open): void {
  const test = rules(t, open)
  test('a batch is answered with one outcome a group, in order, and a group with one result an op', async (t, store) => {
    const { thread_id } = await addThread(store)
    const patch = (n: number) =>
      ({ name: 'thread.patch', thread_id, metadata: { n }, user: null, now: time(n) }) as const
    const outcomes = await apply(store, [patch(1), REFUSED], [patch(2), patch(3)], [], [REFUSED], [patch(4)])
    t.strictSame(
      outcomes.map(({ ok }) => ok),
      [false, true, true, false, true]
    )
    const results = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.results] : []))
    const ns = results.map((list) => list.map((result) => (result as { metadata: { n: number } }).metadata.n))
    t.strictSame(ns, [[2, 3], [], [4]])
    t.match(outcomes[0], { message: /./ }, 'a refusal says why')
    t.strictSame(await store.apply([]), [])
  })

  test('ops of a group see what the ones before them wrote', async (t, store) => {
    const thread = aThread()
    const { thread_id } = thread
    const run = aRun(thread_id)
    const [outcome] = await apply(store, [
      { name: 'thread.create', thread, checkpoint: aCheckpoint(thread_id) },
      { name: 'run.create', run, autoFollowUp: true },
      { name: 'events.append', thread_id, run_id: run.run_id, user_id: 'ann', events: someEvents(0, 2) },
      { name: 'run.start', run_id: run.run_id, attempt: 1, thread_id, now: time(3) },
      { name: 'events.append', thread_id, run_id: run.run_id, user_id: 'ann', events: someEvents(2, 1) },
      aSettlement({ run_id: run.run_id, thread_id }),
      { name: 'run.create', run: aRun(thread_id), autoFollowUp: true }
    ])
    t.match(outcome, {
      ok: true,
      results: [
        { created: true },
        { outcome: 'created' },
        1,
        true,
        3,
        true,
        { run: { follow_up_to_run_id: run.run_id } }
      ]
    })
  })

  test('one op that is refused takes its whole group back, whatever the others are [Store 2]', async (t, store) => {
    const { run, other } = await furnish(store)
    const before = await picture(store, run, other)
    const ops = everyWrite(run, other, store.feedback !== null)
    for (let kept = 1; kept <= ops.length; kept++) {
      const [outcome] = await apply(store, [...ops.slice(0, kept), REFUSED])
      t.equal(outcome?.ok, false)
      t.strictSame(await picture(store, run, other), before, `${ops[kept - 1]?.name} is taken back`)
    }
    const [outcome] = await apply(store, ops)
    t.match(outcome, { ok: true }, 'the same group without it is kept')
    t.strictNotSame(await picture(store, run, other), before)
  })

  test('a removal that is taken back leaves the removed as it was: seq, ordinals, bodies and keys go on', async (t, store) => {
    const { run, other } = await furnish(store)
    const remove = { name: 'thread.remove', thread_id: other.thread_id, user: null } as const
    const again = {
      name: 'thread.create',
      thread: aThread({ thread_id: other.thread_id }),
      checkpoint: aCheckpoint(other.thread_id)
    } as const
    await apply(store, [remove, again, REFUSED])
    t.equal(await addEvents(store, other, someEvents(2, 1)), 3)
    t.equal((await addRun(store, other.thread_id)).ordinal, 2)
    t.equal((await store.checkpoints.load(other.thread_id, null))?.nextBody, 1)
    const repeated = aRun(run.thread_id, { idempotency_key: 'other', idempotency_hash: 'hash' })
    t.match(await write(store, { name: 'run.create', run: repeated, autoFollowUp: false }), {
      outcome: 'repeated',
      run: { run_id: other.run_id }
    })
  })

  test('an end that is taken back leaves the run where it stood in flight [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const runs = [await addRun(store, thread_id), await addRun(store, thread_id), await addRun(store, thread_id)]
    await apply(store, [aSettlement(runs[1]!), aSettlement(runs[0]!), REFUSED])
    t.strictSame(await store.runs.inFlight(thread_id), runs)
    t.strictSame(await store.runs.unfinished(null), runs)
  })

  test('a group that is refused fails alone: those before and behind it are kept [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    const append = (k: number): Op => ({
      name: 'events.append',
      thread_id,
      run_id: run.run_id,
      user_id: 'ann',
      events: [anEvent(k)]
    })
    const group = fc.record({ size: fc.integer({ min: 1, max: 3 }), refusedAt: fc.option(fc.nat(3), { freq: 2 }) })
    let k = 0
    let expected = 0
    await fc.assert(
      fc.asyncProperty(fc.array(group, { maxLength: 8 }), async (groups) => {
        const batch = groups.map(({ size, refusedAt }) => {
          const ops = Array.from({ length: size }, () => append(k++))
          return refusedAt === null ? ops : ops.toSpliced(Math.min(refusedAt, size), 0, REFUSED)
        })
        const outcomes = await apply(store, ...batch)
        t.strictSame(
          outcomes.map(({ ok }) => ok),
          groups.map(({ refusedAt }) => refusedAt === null)
        )
        for (const { size, refusedAt } of groups) if (refusedAt === null) expected += size
        const seqs = (await store.events.listEvents(thread_id, run.run_id, { limit: 1e6 }, null)).map(({ seq }) => seq)
        t.strictSame(
          seqs,
          Array.from({ length: expected }, (_, at) => at + 1)
        )
      }),
      { numRuns: 20 }
    )
  })

  test('who reads after apply has answered sees what it wrote [Store 4]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    for (let n = 1; n <= 50; n++) {
      await addEvents(store, run, [anEvent(n)])
      if ((await messageCount(store, thread_id, null)) !== n) return void t.fail(`read ${n} saw less`)
    }
    t.equal(await messageCount(store, thread_id, null), 50)
  })

  test('readers see a group whole or not at all, while it is written too [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    let isWriting = true
    const writing = (async () => {
      for (let n = 0; n < 30; n++) {
        const append = (k: number): Op => ({
          name: 'events.append',
          thread_id,
          run_id: run.run_id,
          user_id: null,
          events: [anEvent(k)]
        })
        await apply(store, [append(3 * n), append(3 * n + 1), append(3 * n + 2)])
      }
      isWriting = false
    })()
    const seen = new Set<number>()
    while (isWriting) {
      seen.add((await messageCount(store, thread_id, null)) % 3)
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    await writing
    t.strictSame([...seen], [0])
  })

  t.test(
    'apply rejects only when nothing was written, and the same groups may be handed over again [Store 3]',
    async (t) => {
      const opened = await open()
      t.teardown(() => opened.close())
      if (!opened.jam) return skipped(t, 'nothing can get in the way of this store')
      const { store } = opened
      const { thread_id } = await addThread(store)
      const run = await addRun(store, thread_id)
      const append = {
        name: 'events.append',
        thread_id,
        run_id: run.run_id,
        user_id: 'ann',
        events: someEvents(0, 3)
      } as const
      const groups = [{ ops: [append] }, { ops: [aSettlement(run)] }]
      const free = await opened.jam()
      const error: unknown = await store.apply(groups).catch((error: unknown) => error)
      t.ok(error instanceof StoreUnavailable, `what is about no group is the moment's, and says so: ${error}`)
      await free()
      t.equal((await store.runs.get(run.run_id, null))?.status, 'pending')
      t.equal(await messageCount(store, thread_id, null), 0)
      t.strictSame(await store.apply(groups), [
        { ok: true, results: [1] },
        { ok: true, results: [true] }
      ])
    }
  )

  test('a group that cannot be written at all is found, and keeps no other from being written [Store 3]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const patch = (metadata: unknown) =>
      // What no store can keep, and no type lets through.
      ({ name: 'thread.patch', thread_id, metadata: metadata as JsonObject, user: null, now: time(2) }) as const
    const bad = {
      get unreadable(): never {
        throw new Error('it cannot be read')
      }
    }
    for (const n of [1, 2]) {
      const groups = [{ ops: [patch({ good: n })] }, { ops: [patch(bad)] }]
      const outcome = await store.apply(groups).catch((error: unknown) => error)
      t.notOk(outcome instanceof StoreUnavailable, 'it is not for the moment: nobody tries it again for ever')
      if (!Array.isArray(outcome)) {
        t.not((await store.threads.get(thread_id, null))?.metadata.good, n, 'it rejected, so nothing was written')
        t.match(await store.apply(groups.slice(0, 1)), [{ ok: true }])
        t.notOk((await store.apply(groups.slice(1)).catch((error: unknown) => error)) instanceof StoreUnavailable)
      } else t.match(outcome, [{ ok: true }, { ok: false, message: String }])
      t.equal((await store.threads.get(thread_id, null))?.metadata.good, n)
    }
  })

  test('groups are applied in their order, whatever threads they are of [Store 2]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    const create = {
      name: 'thread.create',
      thread: aThread({ thread_id }),
      checkpoint: aCheckpoint(thread_id)
    } as const
    const remove = { name: 'thread.remove', thread_id, user: null } as const
    const key = { idempotency_key: 'the same', idempotency_hash: 'hash' }
    const run = (threadId: string) => ({ name: 'run.create', run: aRun(threadId, key), autoFollowUp: false }) as const
    const patch = (n: number) =>
      ({ name: 'thread.patch', thread_id, metadata: { n, [n]: n }, user: null, now: time(n) }) as const
    const ours = aRun(thread_id)
    const events = {
      name: 'events.append',
      thread_id,
      run_id: ours.run_id,
      user_id: null,
      events: someEvents(0, 2)
    } as const
    const outcomes = await apply(
      store,
      [remove],
      [create],
      [patch(1)],
      [{ name: 'run.create', run: ours, autoFollowUp: false }],
      [run(other.thread_id)],
      [events],
      [run(thread_id)],
      [patch(2)]
    )
    t.match(outcomes, [
      { ok: true, results: [true] },
      { ok: true, results: [{ created: true }] },
      { ok: true, results: [{ metadata: { n: 1 } }] },
      { ok: true, results: [{ outcome: 'created', run: { ordinal: 1 } }] },
      { ok: true, results: [{ outcome: 'created' }] },
      { ok: true, results: [1] },
      { ok: true, results: [{ outcome: 'repeated', run: { thread_id: other.thread_id } }] },
      { ok: true, results: [{ metadata: { n: 2, 1: 1, 2: 2 } }] }
    ])
    t.strictSame((await store.threads.get(thread_id, null))?.metadata, { 1: 1, 2: 2, n: 2 })
  })

  test('what a caller changes after it gave or got it does not change what is stored', async (t, store) => {
    const user = { ...aUser() }
    const thread = aThread({ metadata: { list: [1], object: { a: 1 } } })
    const checkpoint = aCheckpoint(thread.thread_id, { metadata: { list: [1] } })
    const run = aRun(thread.thread_id, { metadata: { list: [1] }, kwargs: { list: [1] } })
    const event = anEvent(0, { content: { list: [1] }, metadata: { list: [1] } })
    const [userId, threadId, runId] = [user.id, thread.thread_id, run.run_id]
    const append = { thread_id: threadId, run_id: runId, user_id: 'ann', events: [event] }
    const [outcome] = await apply(store, [
      { name: 'user.create', user },
      { name: 'thread.create', thread, checkpoint },
      { name: 'run.create', run, autoFollowUp: false },
      { name: 'events.append', ...append }
    ])
    const read = async () => [
      await store.users.byId(userId),
      await store.threads.get(threadId, 'ann'),
      await store.threads.search({ limit: 9, offset: 0 }, 'ann'),
      await store.checkpoints.history(threadId, { limit: 9 }),
      await store.checkpoints.load(threadId, null),
      await store.runs.get(runId, 'ann'),
      await store.runs.list(threadId, { limit: 9, offset: 0 }, 'ann'),
      await store.runs.inFlight(threadId),
      await store.runs.unfinished(null),
      await store.events.listMessages(threadId, { limit: 9 }, 'ann'),
      await store.events.listEvents(threadId, runId, { limit: 9 }, 'ann')
    ]
    const before = JSON.stringify(await read())
    t.match(before, /"list":\[1\]/)
    for (const given of [user, thread, checkpoint, run, event, outcome]) spoil(given)
    t.equal(JSON.stringify(await read()), before, 'given')
    for (const got of await read()) spoil(got)
    t.equal(JSON.stringify(await read()), before, 'got')
  })

  textContract(t, open)
}

/** Changes every member of what it is given, as deep as it goes, where that is allowed. */
function spoil(value: unknown): void {
  if (value === null || typeof value !== 'object' || Object.isFrozen(value)) return
  for (const member of Object.values(value)) spoil(member)
  for (const key of Object.keys(value)) Reflect.set(value, key, 'spoiled')
  Reflect.set(value, 'added', true)
}
