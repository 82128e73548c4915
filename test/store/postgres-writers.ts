// Many writers on one PostgreSQL database, from one process and from two: seqs are given once, in order, and nobody waits for ever.
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../../lib/store/postgres/open.ts'
import { PgConnection } from '../../lib/store/postgres/pg-connection.ts'
import { decodeText, encodeText, texts } from '../../lib/store/postgres/db.ts'
import { type Op, type Store, StoreUnavailable } from '../../lib/store/store.ts'
import type { Run, Thread } from '../../lib/base/types.ts'
import {
  addRun,
  addThread,
  anEvent,
  apply,
  aCheckpoint,
  aRun,
  aSettlement,
  aThread,
  aUser,
  someEvents,
  time,
  write,
  messageCount
} from '../contract/harness.ts'
import { migratedDatabase, onServer } from '../fixtures/postgres.ts'
import { until } from '../fixtures/until.ts'

const WRITERS = 64
const EVENTS = 200
const AT_ONCE = 20

/** Again while the moment is to blame, as the committer does. */
async function insisting<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}

/** Two stores on a database of their own, as two processes have them. */
async function twoProcesses(t: Test): Promise<[Store, Store]> {
  const database = await migratedDatabase()
  const stores: [Store, Store] = [await openPostgresStore(database.url), await openPostgresStore(database.url)]
  t.teardown(async () => {
    for (const store of stores) await store.close()
    await database.remove()
  })
  return stores
}

function append({ thread_id, run_id }: Run, from: number, n: number): Op {
  return { name: 'events.append', thread_id, run_id, user_id: 'ann', events: someEvents(from, n) }
}

t.test(
  `${WRITERS} writers of two processes, ${EVENTS} events each, on one thread: seqs dense and unique [Store 5]`,
  async (t) => {
    const stores = await twoProcesses(t)
    const { thread_id } = await addThread(stores[0])
    const runs: Run[] = []
    for (let n = 0; n < WRITERS; n++) runs.push(await addRun(stores[0], thread_id))
    const writers = runs.map(async (run, n) => {
      const store = stores[n % 2]!
      for (let from = 0; from < EVENTS; from += AT_ONCE)
        await insisting(() => write(store, { ...append(run, from, AT_ONCE) } as Extract<Op, { name: 'events.append' }>))
    })
    await Promise.all(writers)
    for (const store of stores) {
      const all = await store.events.listMessages(thread_id, { limit: 1e6, after: 0 }, null)
      t.strictSame(
        all.map(({ seq }) => seq),
        Array.from({ length: WRITERS * EVENTS }, (_, at) => at + 1)
      )
      for (const run of runs) {
        const own = await store.events.listEvents(thread_id, run.run_id, { limit: 1e6 }, null)
        const ids = own.map(({ content }) => (content as { id: string }).id)
        t.strictSame(
          ids,
          Array.from({ length: EVENTS }, (_, k) => `message-${k}`),
          'in the order of their run'
        )
      }
    }
  }
)

t.test(
  'two processes that write to the same threads in one batch, in any order, do not lock each other out',
  async (t) => {
    const stores = await twoProcesses(t)
    const runs: Run[] = []
    for (let n = 0; n < 10; n++) runs.push(await addRun(stores[0], (await addThread(stores[0])).thread_id))
    let deadlocks = 0
    await Promise.all(
      stores.map(async (store, at) => {
        for (let k = 0; k < 40; k++) {
          const order = at === 0 ? runs : runs.toReversed()
          const groups = order.map((run): Op[] => [
            { name: 'thread.patch', thread_id: run.thread_id, metadata: { at, k }, user: null, now: time(k) },
            {
              name: 'events.append',
              thread_id: run.thread_id,
              run_id: `${run.run_id}-${at}`,
              user_id: null,
              events: [anEvent(k)]
            }
          ])
          await insisting(() =>
            apply(store, ...groups).catch((error: unknown) => {
              if (error instanceof StoreUnavailable && error.code === '40P01') deadlocks++
              throw error
            })
          )
        }
      })
    )
    t.equal(deadlocks, 0)
    for (const run of runs) t.equal(await messageCount(stores[0], run.thread_id, null), 80)
  }
)

t.test(
  'two processes that put words of one user into the index at once lose none, and neither is refused',
  async (t) => {
    const stores = await twoProcesses(t)
    const threads: string[] = []
    for (let n = 0; n < 24; n++) threads.push((await addThread(stores[0])).thread_id)
    /** Texts of each thread. */
    const written = new Map<string, number>()
    await Promise.all(
      stores.map(async (store, at) => {
        for (let k = 0; k < 30; k++) {
          // Each its own threads, whose blocks lie side by side; a title changes a block that may be on a full shelf.
          const ids = threads.filter((_, n) => n % 2 === at)
          for (const thread_id of ids) {
            const words = Array.from({ length: 150 }, (_, n) => `w${k}x${n}of${thread_id}`)
            const title = { seq: 0, at: time(k), words: [`title${k}`] }
            const text = { seq: k + 1, at: time(k), words: ['all', ...words] }
            const texts = [title, text]
            await insisting(() => write(store, { name: 'search.put', thread_id, texts, done: null }))
            written.set(thread_id, (written.get(thread_id) ?? 0) + 1)
          }
          if (k % 5 !== 4) continue
          // What is taken away thins out shelves, whose blocks are then put together.
          const [gone] = ids
          threads.splice(threads.indexOf(gone!), 1, (await addThread(store)).thread_id)
          await insisting(() => write(store, { name: 'thread.remove', thread_id: gone!, user: null }))
        }
      })
    )
    const { total, more } = await stores[1].search!.find(
      { words: ['all'], prefix: null, limit: 1000, offset: 0 },
      'ann'
    )
    const all = threads.reduce((sum, id) => sum + (written.get(id) ?? 0), 0)
    t.strictSame([total, more], [all, false])
  }
)

/** Refused wherever it stands. */
const REFUSED = { name: 'events.append', thread_id: 'missing', run_id: 'missing', user_id: null } as const

t.test(
  'two processes that create the same threads in one batch, in any order, do not lock each other out',
  async (t) => {
    const stores = await twoProcesses(t)
    let deadlocks = 0
    for (let round = 0; round < 30; round++) {
      const threads = Array.from({ length: 5 }, () => aThread())
      // Of every second batch one group is refused, so that the others are written one by one.
      const refused: Op[][] = round % 2 ? [[{ ...REFUSED, events: [anEvent(0)] }]] : []
      const creations = (order: readonly Thread[]) => [
        ...order.map((thread): Op[] => [{ name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id) }]),
        ...refused
      ]
      const create = (store: Store, order: readonly Thread[]) =>
        insisting(() =>
          apply(store, ...creations(order)).catch((error: unknown) => {
            if (error instanceof StoreUnavailable && error.code === '40P01') deadlocks++
            throw error
          })
        )
      const outcomes = await Promise.all([create(stores[0], threads), create(stores[1], threads.toReversed())])
      for (const list of outcomes) t.ok(list.slice(0, threads.length).every(({ ok }) => ok))
    }
    t.equal(deadlocks, 0)
  }
)

t.test(
  'two processes that are asked again and again for one thread of a user who may have so many do not lock each other out',
  async (t) => {
    const stores = await twoProcesses(t)
    const user = aUser()
    await write(stores[0], { name: 'user.create', user })
    let deadlocks = 0
    for (let round = 0; round < 12; round++) {
      const thread = aThread({ user_id: user.id })
      const create = { name: 'thread.create', thread, checkpoint: aCheckpoint(thread.thread_id), max: 1000 } as const
      const ask = (store: Store) =>
        insisting(() =>
          write(store, create).catch((error: unknown) => {
            if (error instanceof StoreUnavailable && error.code === '40P01') deadlocks++
            throw error
          })
        )
      const made = await Promise.all(stores.flatMap((store) => [ask(store), ask(store), ask(store), ask(store)]))
      t.equal(made.filter((one) => one !== 'too_many' && one?.created).length, 1)
    }
    t.equal(deadlocks, 0)
  }
)

t.test(
  'of runs that two processes admit at once one is created where one may be, and none twice under a key [Store 6]',
  async (t) => {
    const stores = await twoProcesses(t)
    const create = (store: Store, run: ReturnType<typeof aRun>) =>
      insisting(() => write(store, { name: 'run.create', run, autoFollowUp: false }))
    for (let n = 0; n < 20; n++) {
      const { thread_id } = await addThread(stores[0])
      const other = await addThread(stores[0])
      const rejecting = () => aRun(thread_id, { multitask_strategy: 'reject' })
      const answers = await Promise.all(stores.map((store) => create(store, rejecting())))
      t.strictSame(answers.map(({ outcome }) => outcome).toSorted(), ['busy', 'created'])
      const keyed = (id: string) => aRun(id, { idempotency_key: `key ${n}`, idempotency_hash: 'hash' })
      const [one, two] = await Promise.all([
        create(stores[0], keyed(thread_id)),
        create(stores[1], keyed(other.thread_id))
      ])
      t.strictSame([one.outcome, two.outcome].toSorted(), ['created', 'repeated'])
      t.match(one, { run: { run_id: 'run' in two ? two.run.run_id : '' } }, 'the same run')
    }
    const admins = stores.map((store) =>
      insisting(() => write(store, { name: 'user.initialize', user: aUser({ system_role: 'admin' }) }))
    )
    t.strictSame((await Promise.all(admins)).toSorted(), ['created', 'initialized'])
  }
)

t.test('a thread that one process removes takes nothing of another any more [Store 8]', async (t) => {
  const [here, there] = await twoProcesses(t)
  for (let n = 0; n < 10; n++) {
    const { thread_id } = await addThread(here)
    const run = await addRun(here, thread_id)
    let refusals = 0
    const writing = (async () => {
      for (let k = 0; refusals < 3; k++) {
        const segment = { epoch: 1, first: k, last: k, index: Uint8Array.of(1, 1, 0, 0, 0), data: Uint8Array.of(7) }
        const frames: Op = { name: 'frames.append', run_key: run.key, thread_id, segment }
        const [outcome] = await insisting(() => apply(here, [frames, append(run, k, 1)]))
        if (!outcome?.ok) refusals++
      }
    })()
    await new Promise((resolve) => setTimeout(resolve, 20))
    t.equal(await insisting(() => write(there, { name: 'thread.remove', thread_id, user: null })), true)
    await writing
    t.strictSame(await there.events.listEvents(thread_id, run.run_id, { limit: 10 }, null), [])
    t.equal(await there.frames.bounds(run.key), null)
    t.equal(await there.threads.ownerOf(thread_id), undefined)
  }
})

t.test('a batch of everything at once answers each group, whatever stands beside it', async (t) => {
  const database = await migratedDatabase()
  const store = await openPostgresStore(database.url)
  t.teardown(async () => {
    await store.close()
    await database.remove()
  })
  const known = await Promise.all(Array.from({ length: 30 }, () => addThread(store)))
  const runs = await Promise.all(known.map(({ thread_id }) => addRun(store, thread_id)))
  const groups: Op[][] = runs.flatMap((run, n) => {
    const thread = aThread()
    const checkpoint = { thread_id: thread.thread_id, checkpoint_id: 'c', parent_checkpoint_id: null, run_id: null }
    const rest = { created_at: time(0), metadata: {}, next: [], messages: [], channels: {}, bodies: [] }
    return [
      [{ name: 'thread.create', thread, checkpoint: { ...checkpoint, ...rest } }],
      [append(run, 0, 3), aSettlement(run)],
      [{ name: 'user.create', user: aUser({ email: `user-${n % 10}@example.com` }) }],
      [{ name: 'run.create', run: aRun(run.thread_id), autoFollowUp: true }]
    ]
  })
  const outcomes = await apply(store, ...groups)
  t.equal(outcomes.length, groups.length)
  t.ok(outcomes.every(({ ok }) => ok))
  const followUps = outcomes.flatMap((outcome, at) => (at % 4 === 3 && outcome.ok ? [outcome.results[0]] : []))
  t.match(
    followUps,
    runs.map(({ run_id }) => ({ outcome: 'created', run: { follow_up_to_run_id: run_id, ordinal: 2 } }))
  )
  const users = outcomes.flatMap((outcome, at) => (at % 4 === 2 && outcome.ok ? [outcome.results[0]] : []))
  t.equal(users.filter((answer) => answer === 'created').length, 10)
})

t.test('any text is stored as it is or escaped, comes back as it was, and no two become one [Store 9]', async (t) => {
  const unit = fc.oneof(
    fc.integer({ min: 0, max: 0x20 }),
    fc.integer({ min: 0xd7f0, max: 0xe010 }),
    fc.integer({ min: 0, max: 0xffff })
  )
  const text = fc.oneof(
    fc.array(unit, { maxLength: 12 }).map((units) => String.fromCharCode(...units)),
    fc.constantFrom(
      '\u001a',
      '\u001a0000',
      '\u001a001a',
      '\0',
      '\ud83d',
      '\ude00\ud83d',
      '😀',
      'NULL',
      '{}',
      '"',
      '\\',
      ','
    )
  )
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(text, { minLength: 1, maxLength: 20 }), async (list) => {
      const stored = list.map(encodeText)
      t.equal(new Set(stored).size, list.length)
      t.ok(stored.every((one) => one.isWellFormed() && !one.includes('\0')))
      t.strictSame(stored.map(decodeText), list)
    })
  )
  await onServer(async (line) => {
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 20 }), async (list) => {
        const rows = await line.rows<{ text: string }>('SELECT text FROM unnest($1::text[]) AS text', [texts(list)])
        t.strictSame(
          rows.map((row) => row.text),
          list
        )
        const [one] = await line.rows<{ text: string }>('SELECT $1::text AS text', [list[0]!])
        t.equal(one?.text, list[0])
      }),
      { numRuns: 50 }
    )
  })
})

t.test(
  'a thread that another process makes while a run of it is admitted was not there: its row is not held',
  async (t) => {
    const database = await migratedDatabase()
    const store = await openPostgresStore(database.url)
    const patient = new URL(database.url)
    patient.searchParams.set('idle_in_transaction_session_timeout', '0')
    const line = await PgConnection.open(patient.href)
    // A transaction sees the sessions as they were when it first asked.
    const watch = await PgConnection.open(database.url)
    t.teardown(async () => {
      await line.close()
      await watch.close()
      await store.close()
      await database.remove()
    })
    const { thread_id } = await addThread(store)
    await line.rows(`CREATE TEMP TABLE kept AS SELECT * FROM threads_meta WHERE thread_id = '${thread_id}'`)
    await line.rows(`DELETE FROM threads_meta WHERE thread_id = '${thread_id}'`)
    await line.rows('BEGIN')
    await line.rows('LOCK TABLE runs IN ACCESS EXCLUSIVE MODE')
    // It has looked for the thread, and asks for runs now.
    const run = aRun(thread_id, { idempotency_key: 'key', idempotency_hash: 'hash' })
    const admission = write(store, { name: 'run.create', run, autoFollowUp: false })
    const waiting = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%runs%'`
    await until(async () => (await watch.rows(waiting)).length > 0, 'the admission waits')
    await line.rows('INSERT INTO threads_meta SELECT * FROM kept')
    await line.rows('COMMIT')
    t.match(await admission, { outcome: 'thread_missing' })
    t.equal((await addRun(store, thread_id)).ordinal, 1, 'the next one finds it')
  }
)
