// The boundary of a run's errors: whatever an agent hands over, and whoever ends the run then, it reaches one terminal row, its
// readers are told, and the next run of its thread goes on [design 4, rule 11].
import t from 'tap'
import { isInFlight } from '../../lib/base/types.ts'
import { type Stage, aCall, anAnswer, aResult, response } from '../fixtures/agent.ts'
import { begun, finish, isOver, Room } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'

/** An object whose member can be read that often before it throws. */
function trap<T extends object>(value: T, member: keyof T, reads = 0): T {
  let left = reads
  const kept = value[member]
  return Object.defineProperty({ ...value }, member, {
    enumerable: true,
    get() {
      if (left-- <= 0) throw new Error('not today')
      return kept
    }
  })
}

const circle: Record<string, unknown> = {}
circle.self = circle
const call = aCall('call')
// What no TypeScript would let through, and an agent in JavaScript says all the same.
const wrong = (value: unknown) => value as never

const MISDEEDS: Record<string, (stage: Stage) => unknown> = {
  'an answer whose content is null': ({ sink }) => sink.record(response({ ...anAnswer('x'), content: wrong(null) })),
  'an answer without an id': ({ sink }) => sink.record(response({ ...anAnswer('x'), id: wrong(undefined) })),
  'an answer that is none': ({ sink }) => sink.record(response(wrong(null))),
  'calls that are no list': ({ sink }) => sink.record(response({ ...anAnswer('x'), tool_calls: wrong({}) })),
  'a result without a message': ({ sink }) => sink.record({ type: 'tool_end', call, message: wrong(undefined) }),
  'a result whose content is null': ({ sink }) =>
    sink.record({ type: 'tool_end', call, message: { ...aResult(call, 'x'), content: wrong(null) } }),
  'messages that are a text': ({ sink }) => sink.record({ type: 'messages', messages: wrong('hello') }),
  'a text that is a number': ({ sink }) => sink.emit({ type: 'delta', messageId: 'a', model: 'm', text: wrong(7) }),
  'a delta that is null': ({ sink }) => sink.emit(wrong(null)),
  'a big number as data': ({ sink }) => sink.emit({ type: 'custom', data: wrong(7n) }),
  'a circle as a channel': ({ sink }) => sink.record({ type: 'update', channels: wrong(circle) }),
  'a function as a channel': ({ sink }) => sink.record({ type: 'update', channels: wrong({ f: () => 1 }) }),
  'a kind that there is not': ({ sink }) => sink.record(wrong({ type: 'surprise' }))
}
for (const reads of [0, 1, 2, 3, 4, 5, 6, 8]) {
  MISDEEDS[`a call whose name throws when it is read ${reads + 1} times`] = ({ sink }) =>
    sink.record({ type: 'tool_start', call: trap(call, 'name', reads) })
  MISDEEDS[`a content that throws when it is read ${reads + 1} times`] = ({ sink }) =>
    sink.record(response(trap(anAnswer('x'), 'content', reads)))
  MISDEEDS[`arguments that throw when they are read ${reads + 1} times`] = ({ sink }) =>
    sink.record(response(anAnswer('x', { tool_calls: [trap(call, 'args', reads)] })))
  MISDEEDS[`a title that throws when it is read ${reads + 1} times`] = ({ sink }) =>
    sink.record({ type: 'update', channels: trap({ title: 'x' }, 'title', reads) })
}

/** Who ends the run then. */
const ENDS: Readonly<Record<string, (room: Room, stage: Stage, error: unknown) => unknown>> = {
  'its agent, which passes it on': (_, stage, error) => (error ? stage.fail(error) : stage.finish()),
  'its agent, as if nothing were': (_, stage) => stage.finish(),
  'a cancel': (room, { input }) => room.registry.ends.cancel(input.runId, 'interrupt'),
  'a rollback': (room, { input }) => room.registry.ends.cancel(input.runId, 'rollback'),
  'a stop': (room) => room.registry.stop(0)
}

t.before(() => {
  process.on('unhandledRejection', (error) => t.fail(`nobody has caught ${error}`))
})

for (const [misdeed, commit] of Object.entries(MISDEEDS)) {
  t.test(`a run whose agent hands over ${misdeed} ends once, whoever ends it`, async (t) => {
    for (const [who, end] of Object.entries(ENDS)) {
      const room = await Room.open(t, { title: { enabled: true, max_words: 6, max_chars: 60 } })
      const { run, stage } = await begun(room)
      const wire = await room.join(run)
      stage.say('half an answer')
      let thrown: unknown = null
      try {
        commit(stage)
      } catch (error) {
        thrown = error
      }
      await end(room, stage, thrown)
      const row = await room.ended(run)
      t.notOk(isInFlight(row), who)
      t.equal(room.gate.ops('run.settle').filter(({ run_id }) => run_id === run.run_id).length > 0, true)
      await until(isOver(wire), 'its reader is told')
      if (who === 'a stop') continue
      t.match(await finish(room, await room.ask({ text: 'next' })), { status: 'success' }, `${who}: the thread goes on`)
    }
  })
}

t.test('a run that cannot be closed ends when its time is over', async (t) => {
  const room = await Room.open(t, { timeoutMs: 500 })
  const { run, stage } = await begun(room)
  t.throws(() => MISDEEDS['an answer whose content is null']!(stage))
  t.match(await room.ended(run), { status: 'timeout' })
})

t.test('what is wrong with what an agent hands over is its error, in a sentence that names the field', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  try {
    MISDEEDS['an answer whose content is null']!(stage)
  } catch (error) {
    stage.fail(error)
  }
  const row = await room.ended(run)
  t.match(row, { status: 'error', error: /llm_response.*`message.content` must be a text/ })
})

t.test('a reader whose socket throws is broken off, the others are told everything', async (t) => {
  const room = await Room.open(t)
  const { run, stage } = await begun(room)
  const broken = await room.join(run)
  broken.write = () => {
    throw new Error('a socket of mine')
  }
  const wire = await room.join(run)
  stage.reply('fine')
  stage.finish()
  await room.ended(run)
  await until(isOver(wire), 'the other one is told')
  t.equal(wire.ending, 'ended')
  t.equal(broken.ending, 'reset')
})
