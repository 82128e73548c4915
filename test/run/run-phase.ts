// The table of a run's phases: what it must say whatever is added to it, and that an actor does what it says.
import t, { type Test } from 'tap'
import { isFinal, type RunPhase, type RunTransition, TRANSITIONS } from '../../lib/run/lifecycle/run-phase.ts'
import type { RunActor } from '../../lib/run/lifecycle/actor.ts'
import { begun, Room } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'

// Keys of the table.
const PHASES = Object.keys(TRANSITIONS) as RunPhase[]
const HAPPENINGS: readonly RunTransition[] = ['start', 'end', 'leave', 'refusal', 'stored', 'lease-lost']

/** All phases that can come behind this one. */
function reachable(from: RunPhase, seen = new Set<RunPhase>()): Set<RunPhase> {
  for (const next of Object.values(TRANSITIONS[from])) {
    if (seen.has(next)) continue
    seen.add(next)
    reachable(next, seen)
  }
  return seen
}

t.test('no phase comes back: a run is begun once and ends once', async (t) => {
  for (const phase of PHASES) t.notOk(reachable(phase).has(phase), phase)
})

t.test('every phase can be reached, and from each that is not final an end', async (t) => {
  t.same([...reachable('pending'), 'pending'].sort(), [...PHASES].sort())
  for (const phase of PHASES.filter((one) => !isFinal(one))) t.ok([...reachable(phase)].some(isFinal), phase)
})

t.test('an end is decided once; after it only the store and a lost lease have a say', async (t) => {
  for (const phase of PHASES) {
    const isDecided = !['pending', 'open', 'leaving'].includes(phase)
    t.equal(TRANSITIONS[phase].end === undefined, isDecided, phase)
    t.equal(TRANSITIONS[phase].start === undefined, phase !== 'pending', phase)
    t.equal(TRANSITIONS[phase]['lease-lost'] === undefined, isFinal(phase), phase)
  }
})

t.test('nothing is closed that is not stored, and nothing of a final phase changes', async (t) => {
  for (const phase of PHASES)
    for (const [transition, next] of Object.entries(TRANSITIONS[phase]))
      if (next === 'closed' || next === 'closed-with-loss') t.equal(transition, 'stored', phase)
  t.same(PHASES.filter(isFinal), ['closed', 'closed-with-loss', 'abandoned'])
})

// --------------------------------------------------------------------------------------------------- the actor

interface Subject {
  readonly room: Room
  readonly actor: RunActor
}

/** How an actor gets into each phase. */
const INTO: Readonly<Record<RunPhase, (t: Test) => Promise<Subject>>> = {
  async pending(t) {
    const room = await Room.open(t)
    await begun(room)
    const waiting = await room.ask()
    return { room, actor: room.registry.find(waiting.run_id)! }
  },
  async open(t) {
    const room = await Room.open(t)
    const { run } = await begun(room)
    return { room, actor: room.registry.find(run.run_id)! }
  },
  async leaving(t) {
    const subject = await INTO.open(t)
    await subject.room.committer.drained()
    subject.room.gate.hold()
    subject.actor.leave()
    // Nobody goes on with it.
    t.teardown(() => subject.actor.abandon())
    return subject
  },
  async settling(t) {
    const subject = await INTO.open(t)
    await subject.room.committer.drained()
    subject.room.gate.hold()
    subject.actor.cancel('interrupt')
    return subject
  },
  async salvaging(t) {
    const subject = await INTO.open(t)
    await subject.room.committer.drained()
    subject.room.gate.hold()
    subject.actor.onRefused('refused', [])
    return subject
  },
  async closed(t) {
    const subject = await INTO.open(t)
    subject.actor.cancel('interrupt')
    await subject.actor.closed
    return subject
  },
  async 'closed-with-loss'(t) {
    const subject = await INTO.open(t)
    subject.actor.onRefused('refused', [])
    await subject.actor.closed
    return subject
  },
  async abandoned(t) {
    const subject = await INTO.open(t)
    subject.actor.abandon()
    return subject
  }
}

/** What makes each of them happen. */
const HAPPENS: Readonly<Record<RunTransition, (actor: RunActor) => unknown>> = {
  start: (actor) => void actor.start(),
  end: (actor) => actor.cancel('interrupt'),
  leave: (actor) => actor.leave(),
  refusal: (actor) => actor.onRefused('refused', []),
  stored: (actor) => actor.onEnd(),
  'lease-lost': (actor) => actor.abandon()
}

for (const phase of PHASES) {
  t.test(`an actor that is ${phase} does what the table says, and nothing else`, async (t) => {
    for (const transition of HAPPENINGS) {
      await t.test(transition, async (t) => {
        const { room, actor } = await INTO[phase](t)
        t.teardown(() => room.gate.release())
        // Nobody goes on with one that is left.
        if (transition === 'leave') t.teardown(() => actor.abandon())
        t.equal(actor.phase, phase)
        HAPPENS[transition](actor)
        t.equal(actor.phase, TRANSITIONS[phase][transition] ?? phase)
        if (isFinal(actor.phase)) {
          await actor.closed
          t.equal(await actor.settled(), actor.phase !== 'abandoned')
        }
      })
    }
  })
}

t.test('who waits for an end that is not stored in time hears that, and later that it is', async (t) => {
  const room = await Room.open(t, { settleTimeoutMs: 20 })
  const { run } = await begun(room)
  await room.committer.drained()
  const actor = room.registry.find(run.run_id)!
  room.gate.hold()
  actor.cancel('interrupt')
  t.equal(await actor.settled(), false)
  t.equal(await actor.settled(), false, 'and again')
  room.gate.release()
  await until(() => isFinal(actor.phase), 'it is stored')
  t.equal(await actor.settled(), true)
})

t.test(
  'a run that is left can be cancelled until another goes on with it; who waits for its end hears when it is late',
  async (t) => {
    const room = await Room.open(t, { settleTimeoutMs: 20 })
    const { run } = await begun(room)
    await room.committer.drained()
    const actor = room.registry.find(run.run_id)!
    room.gate.hold()
    actor.leave()
    t.equal(await actor.settled(), false)
    t.equal(actor.cancel('interrupt'), true)
    room.gate.release()
    await until(() => isFinal(actor.phase), 'it is stored')
    t.equal(await actor.settled(), true)
    t.match(await room.row(run), { status: 'interrupted' })
    t.match(await room.gate.store.threads.get(run.thread_id, null), { status: 'idle' })
  }
)
