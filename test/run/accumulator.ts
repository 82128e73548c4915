// Mode `messages`: whole messages as far as they have come, made of the deltas in the log while they are delivered.
import t from 'tap'
import type { Delta } from '../../lib/agent/runtime.ts'
import { Accumulator } from '../../lib/run/accumulator.ts'
import { deltaJson, lastChunkJson, wholeJson } from '../../lib/run/chunk.ts'
import { Kind } from '../../lib/run/filter.ts'
import { FrameLog, type RawFrame } from '../../lib/run/frames.ts'
import { frameText } from '../../lib/run/sse.ts'
import { aCall, anAnswer, aResult } from '../fixtures/agent.ts'
import { type Told, toldIn } from '../fixtures/room.ts'

type Piece = Pick<Delta, 'text' | 'reasoning' | 'toolCall'>

const newLog = () => new FrameLog(7, 1_000_000)
const say = (log: FrameLog, id: string, piece: Piece) =>
  log.append(Kind.messages, 'messages', deltaJson({ type: 'delta', messageId: id, model: 'scripted', ...piece }))
const complete = (log: FrameLog, id: string) =>
  log.append(Kind.messages, 'messages', lastChunkJson(anAnswer('', { id })))

/** What a reader of every mode is shown of a frame that holds no delta. */
function shown({ kind, bytes, epoch, n }: RawFrame): Buffer | null {
  if (kind === Kind.messages) return null
  return kind === Kind.values ? Buffer.from(frameText('values', '{"state":1}', epoch, n)) : bytes
}

/** What a reader is told of the frames `from` up to the head, in one flush. */
function told(accumulator: Accumulator, log: FrameLog, from = 0): Told[] {
  for (const frame of log.frames(from)) accumulator.take(frame, shown(frame))
  return toldIn(accumulator.flush().toString())
}
const contents = (all: readonly Told[]) =>
  all
    .filter(({ event }) => event === 'messages/partial' || event === 'messages/complete')
    .map(({ event, data }) => `${event}: ${(JSON.parse(data) as [{ content: string }])[0].content}`)

t.test('a message is introduced once, shown as far as it has come, and then complete', async (t) => {
  const log = newLog()
  const accumulator = new Accumulator(0)
  say(log, 'a', { text: 'Hello ' })
  t.same(
    told(accumulator, log).map(({ event }) => event),
    ['messages/metadata', 'messages/partial']
  )
  say(log, 'a', { text: 'wor' })
  t.same(contents(told(accumulator, log, 1)), ['messages/partial: Hello wor'])
  say(log, 'a', { text: 'ld' })
  complete(log, 'a')
  const last = told(accumulator, log, 2)
  t.same(contents(last), ['messages/complete: Hello world'])
  t.match(JSON.parse(last[0]!.data), [{ type: 'ai', id: 'a' }], 'a message, and no chunk any more')
  t.notMatch(last[0]!.data, /chunk_position/)
})

t.test('what came since the last flush is one partial, at the position of its last delta', async (t) => {
  const log = newLog()
  for (let i = 0; i < 100; i++) say(log, 'a', { text: `${i} ` })
  const partials = told(new Accumulator(0), log).filter(({ event }) => event === 'messages/partial')
  t.equal(partials.length, 1)
  t.equal(partials[0]!.n, 99)
})

t.test('where nothing came nothing is said', async (t) => {
  const log = newLog()
  const accumulator = new Accumulator(0)
  say(log, 'a', { text: 'x' })
  told(accumulator, log)
  t.equal(accumulator.flush().length, 0)
})

t.test('a reader that comes in the middle gets whole messages, and nothing that it has seen', async (t) => {
  const log = newLog()
  say(log, 'a', { text: 'seen ' })
  say(log, 'a', { text: 'before ' })
  say(log, 'a', { text: 'and after' })
  const all = told(new Accumulator(2), log)
  t.same(
    all.map(({ event, n }) => [event, n]),
    [['messages/partial', 2]],
    'it was introduced before'
  )
  t.same(contents(all), ['messages/partial: seen before and after'])
})

t.test('pieces of a call grow where they belong', async (t) => {
  const log = newLog()
  say(log, 'a', { toolCall: { index: 0, id: 'c0', name: 'look', args: '{"a"' } })
  say(log, 'a', { toolCall: { index: 1, id: 'c1', name: 'find', args: '{}' } })
  say(log, 'a', { toolCall: { index: 0, args: ':1}' } })
  const all = told(new Accumulator(0), log)
  t.match(JSON.parse(all.at(-1)!.data), [
    {
      tool_call_chunks: [
        { index: 0, id: 'c0', name: 'look', args: '{"a":1}' },
        { index: 1, id: 'c1', name: 'find', args: '{}' }
      ]
    }
  ])
})

t.test('a message that came whole is complete at once', async (t) => {
  const log = newLog()
  log.append(Kind.messages, 'messages', wholeJson(aResult(aCall('c0'), 'found it')))
  const all = told(new Accumulator(0), log)
  t.same(
    all.map(({ event }) => event),
    ['messages/metadata', 'messages/complete']
  )
  t.match(JSON.parse(all[1]!.data), [{ type: 'tool', content: 'found it', tool_call_id: 'c0' }])
})

t.test('other frames stand where they stood, and a partial goes out before them', async (t) => {
  const log = newLog()
  log.append(Kind.metadata, 'metadata', '{}')
  say(log, 'a', { text: 'x' })
  log.append(Kind.custom, 'custom', '1')
  say(log, 'a', { text: 'y' })
  log.appendValues('checkpoint')
  log.append(Kind.error, 'error', '{}')
  const all = told(new Accumulator(0), log)
  t.same(
    all.map(({ event, n }) => `${event} ${n}`),
    [
      'metadata 0',
      'messages/metadata null',
      'messages/partial 1',
      'custom 2',
      'messages/partial 3',
      'values 4',
      'error 5'
    ]
  )
  t.equal(all[5]!.data, '{"state":1}')
})

t.test('an introduction has no position: who is cut after it comes back for its message', async (t) => {
  const log = newLog()
  log.append(Kind.messages, 'messages', wholeJson(aResult(aCall('c0'), 'found it')))
  t.same(
    told(new Accumulator(0), log).map(({ event, n }) => [event, n]),
    [
      ['messages/metadata', null],
      ['messages/complete', 0]
    ]
  )
})

t.test('positions never go back', async (t) => {
  const log = newLog()
  for (let i = 0; i < 50; i++) {
    say(log, `m${i % 7}`, { text: String(i) })
    if (i % 5 === 0) log.append(Kind.custom, 'custom', String(i))
    if (i % 7 === 0) complete(log, `m${i % 7}`)
  }
  const ns = told(new Accumulator(0), log).flatMap(({ n }) => n ?? [])
  t.same(
    ns,
    [...ns].sort((a, b) => a - b)
  )
})
