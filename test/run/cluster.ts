// The cluster: what becomes of who reads here a run that was admitted behind those of a process that is gone.
import t, { type Test } from 'tap'
import { Cluster } from '../../lib/run/cluster/cluster.ts'
import { BuiltStates } from '../../lib/run/built-state.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { Peers, Store } from '../../lib/store/store.ts'
import { isInFlight, type Run } from '../../lib/base/types.ts'
import { addRun, aSettlement, startRun, write } from '../contract/harness.ts'
import { ANN, isOver, namesTold, OPTIONS, Room } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

/** Who is not let go at once waits for ten seconds. */
const AT_ONCE_MS = 5000
const ME = 'this process'

/** A store of several processes, of which only this one is left: it owns all runs in flight. */
function shared(store: Store, claim: () => Promise<Run[]>): Store {
  const peers: Peers = {
    id: ME,
    leaseMs: 60_000,
    start: async () => [],
    renew: async () => {},
    claim,
    others: async () => [],
    async runLocations(runIds) {
      const runs = await Promise.all(runIds.map((id) => store.runs.get(id, null)))
      return runs
        .filter((run) => run !== null)
        .map(({ run_id, status }) => ({ run_id, status, owner: isInFlight({ status }) ? ME : null, last: null }))
    },
    tell: () => {}
  }
  return {
    ...store,
    peers,
    async apply(groups) {
      const outcomes = await store.apply(groups)
      const owned = (result: unknown) =>
        typeof result === 'object' && result !== null && 'outcome' in result ? { ...result, owner: ME } : result
      return outcomes.map((outcome) => (outcome.ok ? { ...outcome, results: outcome.results.map(owned) } : outcome))
    }
  }
}

interface Scene {
  readonly inner: Store
  /** Admitted here behind a run whose process is gone. */
  readonly behind: Run
}

/** How a reader of such a run is let go when `meanwhile` has happened before the takeover. `damage`: a store over the one that there is. */
async function readBehind(
  t: Test,
  meanwhile: (scene: Scene) => Promise<unknown>,
  damage: (inner: Store) => Partial<Store> = () => ({})
): Promise<{ readonly wire: FakeWire; readonly row: Run | null }> {
  const inner = openMemoryStore()
  let scene: Promise<Scene> | null = null
  const claim = async () => {
    const found = await inner.runs.unfinished(null)
    if (scene === null) return []
    await meanwhile(await scene)
    return found
  }
  const room = await Room.open(t, {}, shared({ ...inner, ...damage(inner) }, claim))
  const { store } = room.gate
  const cluster = new Cluster({
    store,
    peers: store.peers!,
    writer: room.committer,
    registry: room.registry,
    states: new BuiltStates(store, OPTIONS),
    options: OPTIONS,
    log: { warn: () => {}, error: () => {} },
    onRevoked: () => {},
    onConfiguration: () => {},
    onRemoved: async () => {},
    identity: { secret: '', events: 'db' },
    sharesFiles: false,
    onNewId: () => {}
  })
  t.teardown(() => cluster.stop())
  await cluster.join(null)
  await cluster.serve()
  await startRun(inner, await addRun(inner, room.threadId))
  let isRead = (_: Scene) => {}
  scene = new Promise((resolve) => {
    isRead = resolve
  })
  const behind = await room.ask({ text: 'behind', multitask_strategy: 'enqueue' })
  const wire = new FakeWire()
  const joined = room.registry.readers.join(behind, { wire, modes: null, position: null, reader: ANN })
  isRead({ inner, behind })
  await until(isOver(wire), 'its reader is let go', AT_ONCE_MS)
  await joined
  return { wire, row: await inner.runs.get(behind.run_id, null) }
}

t.test(
  'who reads a run behind one that is taken over is told its end at once when it was ended meanwhile',
  async (t) => {
    const { wire } = await readBehind(t, ({ inner, behind }) =>
      write(inner, aSettlement(behind, { status: 'interrupted', stop_reason: 'elsewhere' }))
    )
    t.equal(wire.ending, 'ended')
    t.strictSame(namesTold(wire), ['end'])
  }
)

t.test('and is reset at once when its thread was deleted meanwhile', async (t) => {
  const { wire, row } = await readBehind(t, ({ inner, behind }) =>
    write(inner, { name: 'thread.remove', thread_id: behind.thread_id, user: null })
  )
  t.equal(row, null)
  t.equal(wire.ending, 'reset')
})

t.test('and is told its end at once when it cannot be queued', async (t) => {
  let broken: Run | null = null
  const damage = ({ frames, runs }: Store): Partial<Store> => ({
    frames: {
      ...frames,
      async bounds(key) {
        const isBroken = key === broken?.key && (await runs.get(broken.run_id, null))?.status === 'pending'
        if (isBroken) throw new Error('checksum mismatch')
        return frames.bounds(key)
      }
    }
  })
  const { wire, row } = await readBehind(
    t,
    async ({ behind }) => {
      broken = behind
    },
    damage
  )
  t.match(row, { status: 'error', stop_reason: 'server_restart' })
  t.equal(wire.ending, 'ended')
})
