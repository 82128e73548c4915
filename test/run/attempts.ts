// Attempts at a run, and who reads them elsewhere: what a process shows must be what the next one can go on from.
import t from 'tap'
import { Kind } from '../../lib/run/log/frame.ts'
import { filterOf } from '../../lib/run/log/filter.ts'
import { RunLog } from '../../lib/run/log/run-log.ts'
import type { LogStore } from '../../lib/run/log/stored-frames.ts'
import { aRun } from '../contract/harness.ts'
import { begun, OPTIONS, Room } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'

const ALL = filterOf(['messages-tuple', 'custom'])

function storeOf({ gate, states }: Room): LogStore {
  return { frames: gate.inner.frames, states }
}

t.test(
  'a run with durability sync is shown on another process as far as it is stored, and no end before the rest',
  async (t) => {
    const room = await Room.open(t)
    const run = await room.ask({ asks: { durability: 'sync' } })
    const replica = await RunLog.replica(await room.row(run), storeOf(room))
    const stage = await room.agent.stage(run)
    stage.say('half an answer')
    await until(async () => {
      await replica.advance()
      return replica.head > 2
    }, 'it is stored')
    t.equal(replica.next(0, ALL), 'behind', 'there is something to load')
    stage.finish()
    const row = await room.ended(run)
    await replica.advance()
    replica.close(row)
    t.equal(replica.next(0, ALL), 'behind')
    t.equal(replica.next(replica.head, ALL), 'end')
  }
)

t.test(
  'of a later attempt nothing is shown before its first frame is stored: no reader has a cursor that nobody knows',
  async (t) => {
    const room = await Room.open(t)
    const { run } = await begun(room)
    const past = { epochs: [{ epoch: 5, first: 0 }], head: 3 }
    const log = RunLog.begin(run, storeOf(room), OPTIONS, past)
    log.append(Kind.metadata, 'metadata', '{}')
    t.equal(log.next(3, ALL), 'tail')
    log.beginUncounted()
    t.equal(log.next(3, ALL), 'tail', 'also when it begins')
    const [segment] = log.take()
    log.commit(segment!.last, segment!.data.length)
    t.not(log.next(3, ALL), 'tail')
    log.append(Kind.custom, 'custom', '1')
    t.not(log.next(4, ALL), 'tail', 'from then on at once')
  }
)

t.test('of a run that waited what it begins with is shown at once, and of its attempt what is stored', async (t) => {
  const room = await Room.open(t)
  // The store gives them; nothing of it is written.
  const run = { ...aRun(room.threadId), key: 1, ordinal: 1, attempts: 0 }
  const log = RunLog.begin(run, storeOf(room), OPTIONS)
  log.append(Kind.metadata, 'metadata', '{}')
  t.not(log.next(0, ALL), 'tail')
  log.beginUncounted()
  log.append(Kind.custom, 'custom', '1')
  t.not(log.next(0, ALL), 'tail', 'what was shown while it waited')
  t.equal(log.next(1, ALL), 'tail', 'nobody would know that this was begun')
  const [segment] = log.take()
  log.commit(segment!.last, segment!.data.length)
  t.not(log.next(1, ALL), 'tail')
})
