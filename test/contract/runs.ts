// Obligations of RunReads, and of the ops that start and end a run.
import type { Test } from 'tap'
import { type JsonObject, NO_TOTALS, type Run, type RunStatus } from '../../lib/base/types.ts'
import { admissionContract } from './admission.ts'
import { appendFrames, aSegment } from './frames.ts'
import {
  addEndedRun,
  addEvents,
  addRun,
  addThread,
  anEvent,
  aRun,
  aSettlement,
  createRun,
  durableRules,
  type Open,
  refuses,
  rules,
  sharedRules,
  startRun,
  TERMINAL,
  time,
  userArgument,
  write
} from './harness.ts'

function idsOf(runs: readonly Run[]): string[] {
  return runs.map(({ run_id }) => run_id)
}

export function runStoreContract(t: Test, open: Open): void {
  readsContract(t, open)
  admissionContract(t, open)
  lifeContract(t, open)
}

function readsContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const onEmpty = rules(t, open)
  test('a run is read back field for field, with the key and ordinal that the store gave', async (t, store) => {
    const { thread_id } = await addThread(store)
    const asked = aRun(thread_id, {
      model_name: 'main',
      multitask_strategy: 'interrupt',
      metadata: { tags: ['a'] },
      kwargs: { config: { deep: [null, 1.5] } },
      follow_up_to_run_id: 'earlier',
      first_human_message: 'hello',
      idempotency_key: 'key',
      idempotency_hash: 'hash',
      created_at: time(2),
      updated_at: time(3)
    })
    const answer = await createRun(store, asked)
    if (answer.outcome !== 'created') return void t.fail(answer.outcome)
    const { outcome, run, inFlight } = answer
    t.strictSame({ outcome, inFlight }, { outcome: 'created', inFlight: [] })
    t.strictSame(run, { ...asked, ordinal: 1, attempts: 1, key: run.key })
    t.ok(Number.isSafeInteger(answer.run.key))
    t.strictSame(await store.runs.get(asked.run_id, 'ann'), answer.run)
    t.equal(await store.runs.get('missing', 'ann'), null)
  })

  test('keys of runs are unique in the store, ordinals count from 1 in each thread', async (t, store) => {
    const one = await addThread(store)
    const two = await addThread(store)
    const runs: Run[] = []
    for (const thread of [one, two, one, one, two]) runs.push(await addRun(store, thread.thread_id))
    t.strictSame(
      runs.map(({ ordinal }) => ordinal),
      [1, 1, 2, 3, 2]
    )
    t.equal(new Set(runs.map(({ key }) => key)).size, runs.length)
  })

  test('runs are listed newest first, also with equal timestamps, by pages and by status', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    await addRun(store, other.thread_id)
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift((await addRun(store, thread_id)).run_id)
    await write(store, aSettlement({ run_id: ids[3]!, thread_id }))
    const list = async (page: { limit: number; offset: number; status?: RunStatus; kwargsBytes?: number }) =>
      idsOf(await store.runs.list(thread_id, page, 'ann'))
    t.strictSame(await list({ limit: 10, offset: 0 }), ids)
    t.strictSame(await list({ limit: 2, offset: 0 }), ids.slice(0, 2))
    t.strictSame(await list({ limit: 2, offset: 3 }), ids.slice(3))
    t.strictSame(await list({ limit: 2, offset: 5 }), [])
    t.strictSame(await list({ limit: 10, offset: 0, status: 'success' }), [ids[3]])
    t.strictSame(await list({ limit: 2, offset: 2, status: 'pending' }), [ids[2], ids[4]])
    t.strictSame(await list({ limit: 2, offset: 2, status: 'pending', kwargsBytes: 1 }), [ids[2], ids[4]])
    const [first] = await store.runs.list(thread_id, { limit: 3, offset: 1, kwargsBytes: 1 }, 'ann')
    t.strictSame(first, await store.runs.get(ids[1]!, 'ann'), 'the first is shown whole')
    t.strictSame(await store.runs.list('missing', { limit: 10, offset: 0 }, 'ann'), [])
  })

  test('a list may be of the runs whose metadata has a key, whatever its value', async (t, store) => {
    const { thread_id } = await addThread(store)
    const ids: string[] = []
    const all: JsonObject[] = [{}, { from_run: 'a' }, { 'from-run': 'b' }, { other: '"from_run":' }, { from_run: null }]
    for (const metadata of all) ids.unshift((await addRun(store, thread_id, { metadata })).run_id)
    const list = async (metadataKey: string, more = {}) =>
      idsOf(await store.runs.list(thread_id, { limit: 10, offset: 0, metadataKey, ...more }, 'ann'))
    t.strictSame(await list('from_run'), [ids[0], ids[3]])
    t.strictSame(await list('from_run', { offset: 1, kwargsBytes: 0 }), [ids[3]])
    t.strictSame(await list('from_run', { status: 'success' }), [])
    t.strictSame(await list('%'), [])
  })

  test('after gives the next run of the thread that its reader may see, whatever has become of it', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const other = await addThread(store)
    const first = await addEndedRun(store, thread_id)
    await addRun(store, other.thread_id)
    const foreign = await addRun(store, thread_id, { user_id: 'bob' })
    const third = await addRun(store, thread_id)
    const following = async (ordinal: number, user: string | null) =>
      (await store.runs.after(thread_id, ordinal, user))?.run_id
    t.strictSame(await store.runs.after(thread_id, 0, 'ann'), await store.runs.get(first.run_id, 'ann'))
    t.equal(await following(first.ordinal, null), foreign.run_id)
    t.equal(await following(first.ordinal, 'ann'), third.run_id)
    t.equal(await following(third.ordinal, 'ann'), undefined)
    t.equal(await store.runs.after('missing', 0, 'ann'), null)
  })

  test('a run that is to start later gets its place in the thread when it starts', async (t, store) => {
    const { thread_id } = await addThread(store)
    const later = aRun(thread_id)
    const admission = await write(store, { name: 'run.create', run: later, autoFollowUp: false, isLater: true })
    t.match(admission, { outcome: 'created', run: { run_id: later.run_id } })
    const soon = await addRun(store, thread_id)
    t.equal(soon.ordinal, 2)
    t.equal((await store.runs.after(thread_id, soon.ordinal, 'ann')) ?? 'nothing', 'nothing', 'it has none yet')
    t.strictSame(
      (await store.runs.inFlight(thread_id)).map(({ run_id }) => run_id),
      [soon.run_id, later.run_id]
    )
    const start = {
      name: 'run.start',
      run_id: later.run_id,
      attempt: 1,
      thread_id,
      now: time(6),
      isLater: true
    } as const
    t.equal(await write(store, start), true)
    t.match(await store.runs.after(thread_id, soon.ordinal, 'ann'), { run_id: later.run_id, ordinal: 3 })
    t.equal(await write(store, start), false, 'once')
    t.equal((await store.runs.get(later.run_id, 'ann'))?.ordinal, 3)
    t.equal((await addRun(store, thread_id)).ordinal, 4)
  })

  test('inFlight gives the pending and running runs of the thread, oldest first', async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    await addEndedRun(store, thread_id)
    const first = await addRun(store, thread_id)
    await addRun(store, other.thread_id)
    const second = await addRun(store, thread_id)
    await startRun(store, second)
    t.strictSame(await store.runs.inFlight(thread_id), [first, await store.runs.get(second.run_id, null)])
    t.strictSame(await store.runs.inFlight('missing'), [])
  })

  onEmpty('begun gives the newest runs behind a key, oldest first, and the greatest key of all', async (t, store) => {
    const one = await addThread(store, { user_id: 'ann' })
    const two = await addThread(store, { user_id: 'bob' })
    const first = await addEndedRun(store, one.thread_id)
    const second = await addRun(store, one.thread_id)
    const theirs = await addRun(store, two.thread_id, { user_id: 'bob' })
    const keyOf = async (run: Run) => (await store.runs.get(run.run_id, null))!.key
    const all = await store.runs.begun(0, 10, null)
    t.strictSame(idsOf(all.runs), idsOf([first, second, theirs]))
    t.equal(all.newest, await keyOf(theirs))
    t.strictSame(idsOf((await store.runs.begun(0, 2, null)).runs), idsOf([second, theirs]))
    t.strictSame(idsOf((await store.runs.begun(await keyOf(first), 10, 'bob')).runs), idsOf([theirs]))
    t.strictSame((await store.runs.begun(all.newest, 10, null)).runs, [])
  })

  onEmpty(
    'unfinished gives every run that is not terminal, of all threads and users, oldest first',
    async (t, store) => {
      t.strictSame(await store.runs.unfinished(null), [])
      const one = await addThread(store, { user_id: 'ann' })
      const two = await addThread(store, { user_id: 'bob' })
      const first = await addRun(store, two.thread_id, { user_id: 'bob' })
      await addEndedRun(store, one.thread_id)
      const second = await addRun(store, one.thread_id)
      const third = await addRun(store, two.thread_id, { user_id: null })
      await startRun(store, first)
      t.strictSame(idsOf(await store.runs.unfinished(null)), idsOf([first, second, third]))
      await write(store, aSettlement(first))
      t.strictSame(idsOf(await store.runs.unfinished(null)), idsOf([second, third]))
      t.strictSame(
        idsOf(await store.runs.unfinished('bob')),
        idsOf([third]),
        "a user asks for what is theirs, or nobody's"
      )
      t.strictSame(idsOf(await store.runs.unfinished(second.user_id)), idsOf([second, third]))
    }
  )

  test('a run that has ended is removed with its frames and feedback; what it said stays, and its place too', async (t, store) => {
    const { thread_id } = await addThread(store)
    const first = await addEndedRun(store, thread_id)
    const second = await addRun(store, thread_id)
    await addEvents(store, second, [anEvent(0)])
    await appendFrames(store, second, aSegment(1, 0, 2))
    const remove = (run_id: string, thread = thread_id) =>
      write(store, { name: 'run.remove', thread_id: thread, run_id, user: 'ann' })
    t.equal(await remove(second.run_id), false, 'it has not ended')
    await write(store, aSettlement(second))
    t.equal(await remove(second.run_id, 'other'), false, 'it is of another thread')
    t.equal(await remove(second.run_id), true)
    t.equal(await remove(second.run_id), false)
    t.equal(await store.runs.get(second.run_id, null), null)
    t.strictSame(idsOf(await store.runs.list(thread_id, { limit: 9, offset: 0 }, 'ann')), idsOf([first]))
    t.equal(await store.frames.bounds(second.key), null)
    t.equal((await store.events.listMessages(thread_id, { limit: 9 }, 'ann')).length, 1)
    const third = await addRun(store, thread_id)
    t.equal(third.ordinal, 3)
  })

  test("tokens sums the thread's finished runs, however they ended, by model and by caller", async (t, store) => {
    const { thread_id } = await addThread(store)
    const other = await addThread(store)
    const nothing = {
      total_tokens: 0,
      total_input_tokens: 0,
      total_output_tokens: 0,
      total_runs: 0,
      by_model: {},
      by_caller: { lead_agent: 0, subagent: 0, middleware: 0 }
    }
    t.strictSame(await store.runs.tokens(thread_id, 'ann'), nothing)
    const totals = {
      total_input_tokens: 100,
      total_output_tokens: 20,
      total_tokens: 120,
      llm_call_count: 3,
      lead_agent_tokens: 100,
      subagent_tokens: 15,
      middleware_tokens: 5,
      message_count: 1
    }
    await addEndedRun(store, thread_id, { ...totals, model_name: 'main' })
    await addEndedRun(store, thread_id, { ...totals, model_name: 'main', status: 'error' })
    await addEndedRun(store, thread_id, { ...totals, model_name: null })
    await addEndedRun(store, thread_id, { ...totals, status: 'interrupted' })
    await addEndedRun(store, thread_id, { ...totals, status: 'timeout' })
    await addEndedRun(store, other.thread_id, totals)
    await addRun(store, thread_id)
    t.strictSame(await store.runs.tokens(thread_id, 'ann'), {
      total_tokens: 600,
      total_input_tokens: 500,
      total_output_tokens: 100,
      total_runs: 5,
      by_model: { main: { tokens: 240, runs: 2 }, unknown: { tokens: 360, runs: 3 } },
      by_caller: { lead_agent: 500, subagent: 75, middleware: 25 }
    })
    t.strictSame(await store.runs.tokens('missing', 'ann'), nothing)
  })

  test('reads of runs are of one user, or of everybody for null [Store 1]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const { run_id } = await addEndedRun(store, thread_id)
    const users = { mine: 'ann', other: 'bob' }
    await userArgument(t, 'runs.get', {
      ...users,
      read: async (user) => ((await store.runs.get(run_id, user)) ? 1 : 0)
    })
    const page = { limit: 10, offset: 0 }
    await userArgument(t, 'runs.list', {
      ...users,
      read: async (user) => (await store.runs.list(thread_id, page, user)).length
    })
    await userArgument(t, 'runs.tokens', {
      ...users,
      read: async (user) => (await store.runs.tokens(thread_id, user)).total_runs
    })
  })

  test('a run without an owner is visible to everybody', async (t, store) => {
    const { thread_id } = await addThread(store, { user_id: null })
    const shared = await addRun(store, thread_id, { user_id: null })
    const bobs = await addRun(store, thread_id, { user_id: 'bob' })
    t.equal((await store.runs.get(shared.run_id, 'ann'))?.run_id, shared.run_id)
    t.strictSame(idsOf(await store.runs.list(thread_id, { limit: 10, offset: 0 }, 'ann')), [shared.run_id])
    t.equal(await store.runs.get(bobs.run_id, 'ann'), null)
    t.strictSame(
      idsOf(await store.runs.list(thread_id, { limit: 1, offset: 1 }, 'bob')),
      [shared.run_id],
      'pages count what is seen'
    )
  })
}

function lifeContract(t: Test, open: Open): void {
  const test = sharedRules(t, open)
  const durable = durableRules(t, open)
  test('run.start makes a pending run running, and its thread with it', async (t, store) => {
    const thread = await addThread(store)
    const run = await addRun(store, thread.thread_id)
    t.equal(await startRun(store, run, time(5)), true)
    t.strictSame(await store.runs.get(run.run_id, null), { ...run, status: 'running', updated_at: time(5) })
    const running = { ...thread, status: 'running', updated_at: time(5) }
    t.strictSame(await store.threads.get(thread.thread_id, null), running)
    t.equal(await startRun(store, run, time(6)), false, 'a second start is none')
    t.strictSame(await store.threads.get(thread.thread_id, null), running)
  })

  test('run.start of a run that is terminal or missing answers false and touches nothing', async (t, store) => {
    const thread = await addThread(store)
    for (const status of TERMINAL) {
      const run = await addEndedRun(store, thread.thread_id, { status, thread_status: 'idle' })
      t.equal(await startRun(store, run, time(50)), false, status)
      t.equal((await store.runs.get(run.run_id, null))?.status, status)
    }
    const missing = {
      name: 'run.start',
      run_id: 'missing',
      attempt: 1,
      thread_id: thread.thread_id,
      now: time(50)
    } as const
    t.equal(await write(store, missing), false)
    t.match(await store.threads.get(thread.thread_id, null), { status: 'idle', updated_at: time(9) })
  })

  test('the attempts at a run are counted: the first by its creation when it starts at once', async (t, store) => {
    const { thread_id } = await addThread(store)
    const attemptsOf = async ({ run_id }: Run) => (await store.runs.get(run_id, null))?.attempts
    const [first, second] = [await addRun(store, thread_id), await addRun(store, thread_id)]
    t.same([first.attempts, second.attempts], [1, 0], 'the second waits')
    t.same([await attemptsOf(first), await attemptsOf(second)], [1, 0])
    const delayed = aRun((await addThread(store)).thread_id)
    const admission = await write(store, { name: 'run.create', run: delayed, autoFollowUp: false, isLater: true })
    t.match(admission, { run: { attempts: 0 } }, 'it starts later')
    const attempt = (run: Run, attempt: number) =>
      write(store, { name: 'run.start', run_id: run.run_id, attempt, thread_id, now: time(5) })
    t.equal(await attempt(first, 1), true)
    t.equal(await attempt(first, 1), false, 'it is at this attempt already')
    t.equal(await attempt(first, 2), true, 'its process is gone, and the next one goes on')
    t.equal(await attemptsOf(first), 2)
    t.equal((await store.runs.get(first.run_id, null))?.status, 'running')
    await write(store, aSettlement(first))
    t.equal(await attempt(first, 3), false)
    t.equal(await attempt(second, 1), true)
    t.equal(await attemptsOf(second), 1)
  })

  test('a thread has one running run: run.start beside it is refused [Store 6]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const first = await addRun(store, thread_id)
    const second = await addRun(store, thread_id)
    await startRun(store, first)
    await refuses(
      t,
      store,
      { name: 'run.start', run_id: second.run_id, attempt: 1, thread_id, now: time(6) },
      'refused'
    )
    t.equal((await store.runs.get(second.run_id, null))?.status, 'pending')
    const other = await addThread(store)
    t.equal(await startRun(store, await addRun(store, other.thread_id)), true, 'other threads do not count')
    await write(store, aSettlement(first))
    t.equal(await startRun(store, second), true, 'the next one starts when the first has ended')
  })

  test('in one group a run may end and the next one start', async (t, store) => {
    const { thread_id } = await addThread(store)
    const first = await addRun(store, thread_id)
    const second = await addRun(store, thread_id)
    await startRun(store, first)
    const ops = [
      aSettlement(first),
      { name: 'run.start', run_id: second.run_id, attempt: 1, thread_id, now: time(10) }
    ] as const
    t.strictSame(await store.apply([{ ops }]), [{ ok: true, results: [true, true] }])
    t.equal((await store.threads.get(thread_id, null))?.status, 'running')
  })

  for (const status of TERMINAL) {
    test(`run.settle ends a run as ${status}, with its totals, its thread and its title`, async (t, store) => {
      const thread = await addThread(store)
      const run = await addRun(store, thread.thread_id)
      await startRun(store, run)
      const told = {
        status,
        error: status === 'error' ? 'It broke' : null,
        stop_reason: 'because',
        model_name: 'main',
        last_cursor: '17-42',
        final_checkpoint_id: 'checkpoint',
        first_human_message: 'hello',
        last_ai_message: 'there',
        total_input_tokens: 1,
        total_output_tokens: 2,
        total_tokens: 3,
        llm_call_count: 4,
        lead_agent_tokens: 5,
        subagent_tokens: 6,
        middleware_tokens: 7,
        message_count: 8
      }
      const thread_status = status === 'success' ? 'idle' : 'error'
      t.equal(await write(store, aSettlement(run, { ...told, thread_status, title: 'Ships', now: time(20) })), true)
      t.strictSame(await store.runs.get(run.run_id, null), { ...run, ...told, updated_at: time(20) })
      t.strictSame(await store.threads.get(thread.thread_id, null), {
        ...thread,
        status: thread_status,
        display_name: 'Ships',
        updated_at: time(20)
      })
    })

    test(`${status} is never overwritten: a second end answers false, touches nothing [Store 7]`, async (t, store) => {
      const { thread_id } = await addThread(store)
      const run = await addEndedRun(store, thread_id, { status, thread_status: 'idle', error: 'first' })
      const before = [await store.runs.get(run.run_id, null), await store.threads.get(thread_id, null)]
      for (const second of TERMINAL) {
        const settlement = {
          status: second,
          thread_status: 'error',
          title: 'Late',
          error: 'late',
          now: time(30)
        } as const
        t.equal(await write(store, aSettlement(run, settlement)), false)
      }
      t.strictSame([await store.runs.get(run.run_id, null), await store.threads.get(thread_id, null)], before)
    })
  }

  test('run.settle ends a run that never started, and answers false for one that is not there', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    t.equal(await write(store, aSettlement(run, { status: 'interrupted' })), true)
    t.equal((await store.runs.get(run.run_id, null))?.status, 'interrupted')
    t.equal(await write(store, aSettlement({ run_id: 'missing', thread_id })), false)
  })

  test('run.settle without a thread status leaves the one of the run that is running', async (t, store) => {
    const { thread_id } = await addThread(store)
    const running = await addRun(store, thread_id)
    const waiting = await addRun(store, thread_id)
    await startRun(store, running)
    t.equal(await write(store, aSettlement(waiting, { status: 'interrupted', thread_status: null })), true)
    t.equal((await store.runs.get(waiting.run_id, null))?.status, 'interrupted')
    t.equal((await store.threads.get(thread_id, null))?.status, 'running')
  })

  test('run.settle without a title, or with an empty one, keeps the display name', async (t, store) => {
    const { thread_id } = await addThread(store, { display_name: 'Ships' })
    for (const title of [null, '']) {
      await addEndedRun(store, thread_id, { title })
      t.equal((await store.threads.get(thread_id, null))?.display_name, 'Ships', JSON.stringify(title))
    }
  })

  test('run.settle with null for a message keeps the text that is there', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id, { first_human_message: 'hello', last_ai_message: 'so far' })
    await write(store, aSettlement(run, { first_human_message: null, last_ai_message: null }))
    t.match(await store.runs.get(run.run_id, null), { first_human_message: 'hello', last_ai_message: 'so far' })
  })

  test('nothing is started or settled for a thread that does not exist [Store 8]', async (t, store) => {
    const { thread_id } = await addThread(store)
    const run = await addRun(store, thread_id)
    await write(store, { name: 'thread.remove', thread_id, user: null })
    await refuses(
      t,
      store,
      { name: 'run.start', run_id: run.run_id, attempt: 1, thread_id, now: time(5) },
      'run.start is refused'
    )
    await refuses(t, store, aSettlement(run), 'run.settle is refused')
    t.equal(await store.runs.get(run.run_id, null), null)
    t.equal(await store.threads.ownerOf(thread_id), undefined)
  })

  durable('runs, their order, their keys and what waits survive a restart', async (t, store, reopen) => {
    const { thread_id } = await addThread(store)
    const key = { idempotency_key: 'key', idempotency_hash: 'hash' }
    const ended = await addEndedRun(store, thread_id, { ...NO_TOTALS, total_tokens: 5, last_cursor: '1-9' })
    const running = await addRun(store, thread_id, key)
    await startRun(store, running)
    const waiting = await addRun(store, thread_id)
    const before = await store.runs.list(thread_id, { limit: 10, offset: 0 }, 'ann')
    const again = await reopen()
    t.strictSame(await again.runs.list(thread_id, { limit: 10, offset: 0 }, 'ann'), before)
    t.strictSame(idsOf(await again.runs.unfinished(null)), idsOf([running, waiting]))
    t.match(await createRun(again, aRun(thread_id, key)), { outcome: 'repeated', run: { run_id: running.run_id } })
    const next = await addRun(again, thread_id, {}, true)
    t.strictSame([next.ordinal, next.follow_up_to_run_id], [4, ended.run_id])
    t.ok(next.key > waiting.key, 'keys go on')
  })
}
