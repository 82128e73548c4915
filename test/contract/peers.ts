// Obligations of a store with peers: whose runs are whose, and that nobody writes for another [Store 10].
import type { Test } from 'tap'
import {
  type Group,
  LeaseLost,
  type Outcome,
  type PeerListener,
  type PeerMessage,
  type Store
} from '../../lib/store/store.ts'
import type { Run } from '../../lib/base/types.ts'
import {
  addEvents,
  addThread,
  aRun,
  aSettlement,
  checkpointId,
  createRun,
  eventsOf,
  type Open,
  skipped,
  someEvents,
  startRun,
  time,
  write
} from './harness.ts'

interface Process {
  readonly store: Store
  readonly id: string
  readonly heard: [PeerMessage, string][]
  /** How often it lost its lease. */
  readonly losses: string[]
}

const IDENTITY = { secret: 'one', events: 'db' }

/** A process that has joined. `before`: one that is known to be dead. */
async function join(store: Store, before: string | null = null, identity = IDENTITY): Promise<Process> {
  const [heard, losses]: [[PeerMessage, string][], string[]] = [[], []]
  const listener: PeerListener = {
    onMessage: (message, from) => void heard.push([message, from]),
    onGap: () => {},
    onLeaseLost: () => void losses.push(store.peers!.id)
  }
  await store.peers!.start(listener, identity, before)
  return { store, id: store.peers!.id, heard, losses }
}

async function admitted({ store }: Process, threadId: string): Promise<{ run: Run; owner: string | undefined }> {
  const answer = await createRun(store, aRun(threadId))
  if (answer.outcome !== 'created') throw new Error(`the run was not created: ${answer.outcome}`)
  return { run: answer.run, owner: answer.owner }
}

function inTheNameOf(owner: string, { thread_id, run_id }: Run, from: number): Group {
  return { owner, ops: [{ name: 'events.append', thread_id, run_id, user_id: null, events: someEvents(from, 1) }] }
}

export function peerContract(t: Test, open: Open): void {
  const test = (
    name: string,
    work: (t: Test, one: Store, other: Store, third: () => Promise<Store>) => Promise<void>
  ) =>
    t.test(`${name} [Store 10]`, async (t) => {
      const opened = await open()
      t.teardown(() => opened.close())
      const { store, beside } = opened
      if (!store.peers || !beside) return skipped(t, 'this store has one process')
      const others: Store[] = []
      t.teardown(() => Promise.all(others.map((other) => other.close())))
      const another = async () => {
        others.push(await beside.call(opened))
        return others.at(-1)!
      }
      await work(t, store, await another(), another)
    })

  test('all runs in flight of a thread belong to one process, whoever admits them', async (t, a, b) => {
    const [one, other] = [await join(a), await join(b)]
    t.not(one.id, other.id)
    const { thread_id } = await addThread(a)
    const mine = await admitted(one, thread_id)
    const behind = await admitted(other, thread_id)
    t.strictSame([mine.owner, behind.owner], [one.id, one.id])
    const elsewhere = await admitted(other, (await addThread(b)).thread_id)
    t.equal(elsewhere.owner, other.id)
    t.strictSame(
      (await a.peers!.claim()).map(({ run_id }) => run_id),
      [mine.run.run_id, behind.run.run_id],
      'oldest first'
    )
    t.strictSame(
      (await b.peers!.claim()).map(({ run_id }) => run_id),
      [elsewhere.run.run_id],
      'nobody takes from the living'
    )
    t.strictSame(await a.peers!.others(), [other.id])
    await startRun(a, mine.run)
    const standings = await b.peers!.runLocations([mine.run.run_id, 'missing'])
    t.match(standings, [{ run_id: mine.run.run_id, status: 'running', owner: one.id, last: null }])
    t.equal(standings.length, 1)
    for (const { run } of [mine, behind]) await write(a, aSettlement(run))
    t.equal((await admitted(other, thread_id)).owner, other.id, 'a thread without runs in flight is nobody\u2019s')
  })

  test('what is written in the name of a process is written as long as it has its lease', async (t, a, b, third) => {
    const [one, other] = [await join(a), await join(b)]
    const { run } = await admitted(one, (await addThread(a)).thread_id)
    const ours = await admitted(other, (await addThread(b)).thread_id)
    t.match(await a.apply([inTheNameOf(one.id, run, 0)]), [{ ok: true, results: [1] }])
    const next = await join(await third(), one.id)
    const error: unknown = await a.apply([inTheNameOf(one.id, run, 1)]).catch((error: unknown) => error)
    t.ok(error instanceof LeaseLost, `one whose lease is over: ${error}`)
    t.equal(one.losses.length, 1, 'it is told')
    t.not(a.peers!.id, one.id, 'and is another from then on')
    t.strictSame((await eventsOf(b, run)).length, 1)
    t.equal(await addEvents(a, run, someEvents(1, 1)), 2, 'what names nobody is written')
    t.strictSame(
      (await next.store.peers!.claim()).map(({ run_id }) => run_id),
      [run.run_id],
      'its runs are to be had'
    )
    t.strictSame(
      (await b.peers!.claim()).map(({ run_id }) => run_id),
      [ours.run.run_id]
    )
    t.match(await next.store.apply([inTheNameOf(next.id, run, 2)]), [{ ok: true, results: [3] }])
    const late = await b.apply([inTheNameOf(one.id, run, 3)]).catch((error: unknown) => error)
    t.ok(
      late instanceof LeaseLost || (late as Outcome[])[0]?.ok === false,
      'nobody writes for a process that is no more'
    )
    t.equal((await eventsOf(b, run)).length, 3)
  })

  test('what processes write to a state at once is all in it, and a copy is a state that it had', async (t, a, b) => {
    const stores = [a, b] as const
    for (const store of stores) await join(store)
    const { thread_id: from } = await addThread(a)
    const now = time(5)
    const about = { now, title: null } as const
    const update = async (n: number) => {
      const change = { messages: null, channels: { [`c${n}`]: `${n}` }, as_node: null }
      const place = { thread_id: from, base: null, checkpoint_id: checkpointId(n + 1) }
      await write(stores[n % 2]!, { name: 'state.update', ...place, ...change, ...about })
      const head = { thread_id: from, ns: '', checkpoint_id: checkpointId(n + 1), parent_id: null, run_id: null }
      const values = [{ name: `c ${n}`, type: 'json', data: `${n}` }]
      const put = { ...head, checkpoint: '{}', metadata: '{}', names: [`c ${n}`], values }
      const writes = [{ name: 'graph.put', ...put }] as const
      await write(stores[n % 2]!, { name: 'graph.update', thread_id: from, writes, status: 'idle', ...about })
    }
    const copy = async (n: number) => {
      const { thread_id } = await addThread(stores[n % 2]!)
      await write(stores[n % 2]!, { name: 'state.copy', from, thread_id })
      return thread_id
    }
    const work = Array.from({ length: 20 }, (_, n) => [update(n), copy(n)] as const)
    await Promise.all(work.flat())
    const copies = await Promise.all(work.map(([, copied]) => copied))
    for (const id of [...copies, from]) {
      const history = await a.checkpoints.history(id, { limit: 99, channels: null })
      const counts = history.map(({ channelBodies }) => channelBodies.length)
      t.strictSame(counts, [...counts.keys()].reverse(), 'each state has what the one before it had, and one more')
      for (const { names, values } of await b.graphStates.list(id, { ns: '', limit: 99 }))
        t.equal(values.length, names.length, 'with what it names')
      if (id !== from) continue
      t.equal(counts[0], 20)
      const parents = history.map(({ parent_checkpoint_id }) => parent_checkpoint_id)
      t.strictSame(
        parents.slice(0, -1),
        history.slice(1).map(({ checkpoint_id }) => checkpoint_id),
        'in one line'
      )
    }
  })

  test('of updates that processes make of the same version one is written [Store 12]', async (t, a, b) => {
    for (const store of [a, b]) await join(store)
    const { thread_id } = await addThread(a)
    for (let round = 0; round < 5; round++) {
      const expected = await b.graphStates.version(thread_id)
      const outcomes = await Promise.all(
        [a, b].map((store, at) => {
          const head = { thread_id, ns: '', checkpoint_id: `${round} ${at}`, parent_id: null, run_id: null }
          const put = { ...head, checkpoint: '{}', metadata: '{}', names: [], values: [] }
          const writes = [{ name: 'graph.put', ...put }] as const
          return write(store, {
            name: 'graph.update',
            thread_id,
            expected,
            writes,
            status: 'idle',
            title: null,
            now: time(5)
          })
        })
      )
      t.strictSame(outcomes.toSorted(), ['conflict', 'written'])
    }
    t.equal((await a.graphStates.list(thread_id, { ns: '', limit: 9 })).length, 5)
  })

  test('processes tell each other, and who they are', async (t, a, b, third) => {
    const [one, other] = [await join(a), await join(b, null, { secret: 'two', events: 'db' })]
    const found = await (await third()).peers!.start(
      { onMessage: () => {}, onGap: () => {}, onLeaseLost: () => {} },
      IDENTITY,
      null
    )
    t.strictSame(found.map(({ secret }) => secret).toSorted(), ['one', 'two'])
    a.peers!.tell(other.id, { kind: 'arrived', runs: ['r'] })
    b.peers!.tell(null, { kind: 'removed', thread: 't', user: null })
    const isHeard = () => one.heard.length > 0 && other.heard.length > 0
    while (!isHeard()) await new Promise((resolve) => setTimeout(resolve, 5))
    t.strictSame(other.heard, [[{ kind: 'arrived', runs: ['r'] }, one.id]])
    t.strictSame(one.heard, [[{ kind: 'removed', thread: 't', user: null }, other.id]])
  })
}
