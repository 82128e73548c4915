// Runs of another process: a log that is all store. Whatever is known when, a reader goes on where it stood.
import t from 'tap'
import { RunReplica } from '../../lib/run/cluster/run-replica.ts'
import { Joiner } from '../../lib/run/delivery/joiner.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import type { Snapshot } from '../../lib/run/log/snapshot.ts'
import { type Position, Kind } from '../../lib/run/log/frame.ts'
import type { Run } from '../../lib/base/types.ts'
import { aLog, appendState, aStoredRun, commit, HandStore } from '../fixtures/run-log.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const nobody = { userId: null, credential: null }

/** A run elsewhere: what its process stores, and how its row stands. */
class OtherRun {
  readonly store = new HandStore()
  row: Run = aStoredRun({ status: 'running' })
  readonly troubles: unknown[] = []

  /** The owner stores frames of an attempt: metadata and deltas, behind what is stored. */
  stores(epoch: number, count: number, from = 0): RunLog {
    const log = aLog({ epoch, head: from, windowBytes: 1_000_000, store: this.store })
    for (let i = 0; i < count; i++) log.append(Kind.messages, 'messages', `"${'x'.repeat(100)}"`)
    this.store.stored.push(...commit(log))
    return log
  }

  open(): Promise<RunReplica> {
    const runs = { get: async () => this.row } as unknown as Parameters<typeof RunReplica.open>[1]['store']['runs']
    const deps = { onIdle: () => {}, onTrouble: (error: unknown) => void this.troubles.push(error) }
    return RunReplica.open(this.row, { ...deps, store: { ...this.store, runs } })
  }
}

function join({ log }: RunReplica, start: Position | Snapshot, modes = ['messages-tuple']): FakeWire {
  const wire = new FakeWire()
  const onTrouble = (error: unknown) => {
    throw error
  }
  new Joiner({ wire, reader: nobody }, log, filterOf(modes), start, { onLeave: () => {}, onTrouble }).pump()
  return wire
}

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i)

t.test(
  "a reader that comes back while the run's new status is known, and its frames are not, waits for its place",
  async (t) => {
    const run = new OtherRun()
    run.row = aStoredRun({ status: 'pending' })
    const replica = await run.open()
    run.row = { ...run.row, status: 'running' }
    run.stores(100, 30)
    run.store.reads = []
    const refreshed = replica.refresh(true)
    await until(() => run.store.reads!.length > 0, 'the frames are being read')
    const wire = join(replica, { epoch: 100, n: 9 })
    await loopTurns()
    t.same(wire.ns, [])
    const { reads } = run.store
    run.store.reads = null
    for (const go of reads) go()
    await refreshed
    t.same(wire.ns, upTo(10, 30), 'and is not given everything again')
  }
)

t.test('an attempt that nothing is stored of is waited for, also in a run that has begun', async (t) => {
  const run = new OtherRun()
  run.stores(100, 10)
  const replica = await run.open()
  const [later, never] = [join(replica, { epoch: 200, n: 14 }), join(replica, { epoch: 50, n: 3 })]
  await until(() => never.ns.length === 10, 'one that never was is the beginning at once')
  t.same(later.ns, [])
  run.stores(200, 10, 10)
  await replica.refresh(false)
  t.same(later.ns, upTo(15, 20))
  run.row = { ...run.row, status: 'success', last_cursor: '200-19' }
  const garbage = join(replica, { epoch: 999, n: 14 })
  t.same(garbage.ns, [])
  await replica.refresh(true)
  await until(() => garbage.ending === 'ended', 'what turns out never to come is the beginning')
  t.same(garbage.ns, upTo(0, 20))
  t.equal(later.ending, 'ended')
})

t.test('a snapshot ahead of what is known here is followed by every frame behind it', async (t) => {
  const run = new OtherRun()
  run.stores(100, 5)
  const replica = await run.open()
  const bytes = Buffer.from('event: snapshot\ndata: {}\nid: 100-9\n\n')
  const wires = Array.from({ length: 5 }, () => join(replica, { bytes, next: 10, partial: [] }))
  wires[4]!.isFull = true
  t.same(wires[0]!.text, '')
  run.store.segmentsARead = 3
  for (let at = 5; at < 3000; at += 100) run.stores(100, 100, at)
  await replica.refresh(false)
  wires[4]!.drain()
  for (const wire of wires) {
    await until(() => wire.ns.length === 2996, 'all of it')
    t.same(wire.ns, upTo(9, 3005))
  }
})

t.test(
  'readers at the head share one read, their states included; one that has seen all is given nothing twice',
  async (t) => {
    const run = new OtherRun()
    run.stores(100, 5)
    const replica = await run.open()
    const wires = Array.from({ length: 20 }, () => join(replica, { epoch: 100, n: 4 }, ['messages-tuple', 'values']))
    const before = { ...run.store.asked }
    const log = run.stores(100, 3, 5)
    appendState(log, 'state')
    run.store.stored.push(...commit(log))
    run.store.segmentsARead = 10
    await replica.refresh(false)
    for (const wire of wires) t.same(wire.ns, upTo(5, 9))
    t.equal(run.store.asked.frames - before.frames, 2, 'one that brings frames, and one that brings none')
    t.equal(run.store.asked.states - before.states, 1)
    t.same(run.troubles, [])
  }
)

t.test(
  'a reader of a first attempt that was lost, by a clock ahead, has the next one from its beginning at the next look',
  async (t) => {
    const run = new OtherRun()
    run.stores(100, 30)
    const replica = await run.open()
    const wire = join(replica, { epoch: 60_100, n: 4 })
    await loopTurns()
    t.strictSame(wire.ns, [], 'it may be one that is stored by now')
    await replica.refresh(false)
    await until(() => wire.ns.length === 30, 'it is given all')
    t.strictSame(wire.ns, upTo(0, 30))
    run.stores(100, 5, 30)
    await replica.refresh(false)
    await until(() => wire.ns.length === 35, 'and what follows')
  }
)
