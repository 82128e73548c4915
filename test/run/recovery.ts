// Recovery: what the next process makes of runs that one has left behind, when the store does not answer every read.
import { BuiltStates } from '../../lib/run/built-state.ts'
import t, { type Test } from 'tap'
import { Committer } from '../../lib/run/commit/committer.ts'
import { type RecoveryParts, recover } from '../../lib/run/lifecycle/recovery.ts'
import { Registry } from '../../lib/run/lifecycle/registry.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { type Store, StoreUnavailable } from '../../lib/store/store.ts'
import { type Run, timestamp } from '../../lib/base/types.ts'
import { ScriptedAgent } from '../fixtures/agent.ts'
import { begun, OPTIONS, Room, toldTo } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const silent = { error: () => {} }
const NOTHING = { position: null, modes: ['messages-tuple'], reader: { userId: 'ann', credential: null } }

/** The reads that a recovery makes. */
const READS = ['events.listEvents', 'events.lastK', 'checkpoints.load', 'frames.read', 'frames.bounds'] as const
type Read = (typeof READS)[number]

/** The store, with one of its reads failing as long as `error` answers one. */
function failing(store: Store, read: Read, error: (args: readonly unknown[]) => Error | null): Store {
  const [noun, method] = read.split('.') as ['events', 'listEvents']
  const inner = store[noun]
  const failed = async (...args: Parameters<(typeof inner)['listEvents']>) => {
    const trouble = error(args)
    if (trouble) throw trouble
    return inner[method](...args)
  }
  return { ...store, [noun]: { ...inner, [method]: failed } }
}

/** A room whose process is gone: nothing that it does is written any more. */
async function leftBehind(t: Test): Promise<{ room: Room; run: Run; waiting: Run; store: Store }> {
  const store = openMemoryStore()
  const room = await Room.open(t, {}, store)
  const { run, stage } = await begun(room)
  stage.say('half an ')
  const inner = [{ content: 'of a subgraph', type: 'AIMessageChunk', id: 'inner' }, {}]
  stage.sink.emit({ type: 'frame', mode: 'messages', event: 'messages|sub:1', json: JSON.stringify(inner) })
  stage.say('answer')
  stage.callPiece({ index: 0, id: 'call', name: 'look', args: '{"at":"it"}' })
  const waiting = await room.ask({ text: 'next' })
  await room.committer.drained()
  room.gate.hold()
  return { room, run, waiting, store }
}

/** The next process on that store. */
async function takeOver(
  t: Test,
  store: Store,
  more: Pick<RecoveryParts, 'isOver' | 'goesOn'> = {}
): Promise<{ registry: Registry; agent: ScriptedAgent; logged: string[] }> {
  const agent = new ScriptedAgent()
  const committer = new Committer((groups) => store.apply(groups), { flushMs: 1 })
  const logged: string[] = []
  const write = (_: object, text: string) => void logged.push(text)
  const log = { warn: write, error: write }
  const states = new BuiltStates(store, OPTIONS)
  const registry = new Registry({ store, states, committer, agent, options: OPTIONS, log })
  t.teardown(async () => {
    await registry.stop(0)
    committer.stop()
  })
  await recover(await store.runs.unfinished(null), {
    store,
    states,
    writer: committer,
    registry,
    options: OPTIONS,
    log,
    ...more
  })
  return { registry, agent, logged }
}

for (const read of READS) {
  for (const error of [new StoreUnavailable('GONE', 'the database is gone'), new Error('EIO: i/o error, read')]) {
    t.test(`a ${read} that fails for a moment (${error.name}) takes nothing of a partial answer`, async (t) => {
      const { room, run, waiting, store } = await leftBehind(t)
      let failures = 2
      const { registry, agent, logged } = await takeOver(
        t,
        failing(store, read, () => (failures-- > 0 ? error : null))
      )
      t.ok(failures < 0, 'it was read, and again')
      t.match(await room.row(run), { status: 'error', stop_reason: 'server_restart' })
      t.equal((await room.row(run)).attempts, 2, 'its end, which has frames of its own, is counted')
      const wire = new FakeWire()
      await registry.readers.join(await room.row(run), { ...NOTHING, wire })
      await until(() => wire.ending === 'ended', 'its readers are told')
      const told = toldTo(wire)
      t.same(
        told.slice(-2).map(({ event }) => event),
        ['error', 'end']
      )
      t.match(JSON.stringify(told), /Interrupted/, 'its call is answered')
      const { input } = await agent.stage(waiting)
      t.same(
        input.messages.map(({ type, content }) => `${type}: ${content}`),
        ['human: question', 'ai: half an answer', 'tool: Interrupted', 'human: next']
      )
      t.same(logged, [])
    })
  }
}

t.test('a run whose records are damaged is ended by itself, the others are recovered', async (t) => {
  const { room, run, waiting, store } = await leftBehind(t)
  const broken = failing(store, 'frames.read', ([key]) => (key === run.key ? new Error('checksum mismatch') : null))
  const { agent, logged } = await takeOver(t, broken)
  t.match(await room.row(run), { status: 'error', stop_reason: 'server_restart' })
  t.match(logged, ['the answer of a run could not be recovered'])
  await t.resolves(agent.stage(waiting))
})

t.test('a run that waited and cannot be read is ended, and the start goes on', async (t) => {
  const { room, run, waiting, store } = await leftBehind(t)
  const third = await (async () => {
    const asking = room.ask({ text: 'third' })
    room.gate.release()
    return asking
  })()
  await room.committer.drained()
  room.gate.hold()
  const broken = failing(store, 'frames.bounds', ([key]) => (key === waiting.key ? new Error('checksum') : null))
  const { agent } = await takeOver(t, broken)
  t.match(await room.row(run), { status: 'error' })
  t.match(await room.row(waiting), { status: 'error', stop_reason: 'server_restart' })
  await t.resolves(agent.stage(third))
})

t.test('a run whose turn comes while the store does not answer begins when it does', async (t) => {
  const store = openMemoryStore()
  let trouble: Error | null = null
  const room = await Room.open(
    t,
    {},
    failing(store, 'checkpoints.load', () => trouble)
  )
  const { run, stage } = await begun(room)
  const waiting = await room.ask({ text: 'next' })
  trouble = new StoreUnavailable('GONE', 'the database is gone')
  stage.finish()
  t.match(await room.ended(run), { status: 'success' })
  const third = await room.ask({ text: 'third' })
  t.equal(room.registry.ends.cancel(waiting.run_id, 'interrupt'), true, 'it can be cancelled meanwhile')
  t.match(await room.ended(waiting), { status: 'interrupted' })
  trouble = null
  const next = await room.agent.stage(third)
  next.finish()
  t.match(await room.ended(third), { status: 'success' })
})

t.test('runs whose lease is lost while they are read are left to the process that has it', async (t) => {
  const { room, run, waiting, store } = await leftBehind(t)
  let isLost = false
  const losing = failing(store, 'frames.bounds', () => {
    isLost = true
    return null
  })
  const { registry } = await takeOver(t, losing, { isOver: () => isLost })
  t.equal(isLost, true)
  t.equal(registry.active, 0)
  t.match(await room.row(run), { status: 'running' })
  t.match(await room.row(waiting), { status: 'pending' })
  const pending = (await store.runs.unfinished(null)).filter(({ status }) => status === 'pending')
  isLost = false
  await recover(pending, {
    store: losing,
    states: new BuiltStates(losing, OPTIONS),
    writer: room.committer,
    registry,
    options: OPTIONS,
    log: silent,
    isOver: () => isLost
  })
  t.equal(registry.active, 0, 'one that waited is not begun by two')
})

t.test('a queued run that was begun three times is ended, one that was begun twice is begun again', async (t) => {
  for (const [attempts, status] of [
    [2, 'running'],
    [3, 'error']
  ] as const) {
    const { room, waiting, store } = await leftBehind(t)
    const unfinished = async () =>
      (await store.runs.unfinished(null)).map((row) => (row.run_id === waiting.run_id ? { ...row, attempts } : row))
    const { agent } = await takeOver(t, { ...store, runs: { ...store.runs, unfinished } })
    if (status === 'running') await agent.stage(waiting)
    t.equal(agent.started.length, status === 'running' ? 1 : 0)
    const stored = { status, ...(status === 'running' && { attempts: 3 }) }
    t.match(await room.row(waiting), stored, 'stored before the agent is called')
  }
})

t.test('a delayed run with interrupt ends no run that was admitted after it', async (t) => {
  const store = openMemoryStore()
  const room = await Room.open(t, {}, store)
  const created_at = timestamp(Date.now() + 3_600_000)
  const later = await room.ask({ created_at, asks: { after_seconds: 3600 }, multitask_strategy: 'interrupt' })
  const { run } = await begun(room, { text: 'now' })
  await room.committer.drained()
  room.gate.hold()
  const { registry, agent } = await takeOver(t, store, { goesOn: true })
  await agent.stage(run)
  t.equal(registry.find(later.run_id)?.phase, 'pending', 'it still waits for its time')
  t.equal(registry.find(run.run_id)?.phase, 'open')
  registry.ends.cancel(later.run_id, 'interrupt')
  registry.ends.cancel(run.run_id, 'interrupt')
})
