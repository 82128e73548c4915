// Mode `messages`: whole messages as far as they have come, made of the deltas in the log while they are delivered.
import { AIMessageChunk } from '@langchain/core/messages'
import t from 'tap'
import type { Delta } from '../../lib/agent/runtime.ts'
import { Accumulator } from '../../lib/run/delivery/accumulator.ts'
import { asChunk, begun, fold } from '../../lib/conversation/chunk.ts'
import { DeltaEncoder, lastChunkJson, wholeJson } from '../../lib/conversation/wire.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import type { RawFrame } from '../../lib/run/log/segment.ts'
import { cursorText, frameText, Kind } from '../../lib/run/log/frame.ts'
import { aCall, anAnswer, aResult } from '../fixtures/agent.ts'
import { type Told, toldIn } from '../fixtures/room.ts'
import { aLog, appendState } from '../fixtures/run-log.ts'

const texts = new DeltaEncoder()

type Fragment = Pick<Delta, 'text' | 'reasoning' | 'toolCall'>

const newLog = () => aLog({ windowBytes: 1_000_000 })
const say = (log: RunLog, id: string, piece: Fragment) => log.append(Kind.messages, 'messages', texts.json(id, piece))
const complete = (log: RunLog, id: string) => log.append(Kind.messages, 'messages', lastChunkJson(anAnswer('', { id })))

/** What a reader of every mode is shown of a frame that holds no delta. */
function shown({ kind, bytes, epoch, n }: RawFrame): Buffer | null {
  if (kind === Kind.messages) return null
  return kind === Kind.values ? Buffer.from(frameText('values', '{"state":1}', cursorText(epoch, n))) : bytes
}

/** What a reader is told of the frames `from` up to the head, in one flush. */
function told(accumulator: Accumulator, log: RunLog, from = 0): Told[] {
  for (const frame of log.frames(from)) accumulator.take(frame, shown(frame), frame.kind !== Kind.messages)
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

t.test('a delta that says several things at once says all of them', async (t) => {
  const log = newLog()
  say(log, 'a', { text: 'now', reasoning: 'hm', toolCall: { index: 0, id: 'c0', name: 'look', args: '{' } })
  say(log, 'a', { text: ' then', reasoning: 'm', toolCall: { index: 0, args: '}' } })
  const all = told(new Accumulator(0), log)
  t.match(JSON.parse(all.at(-1)!.data), [
    {
      content: 'now then',
      additional_kwargs: { reasoning_content: 'hmm' },
      tool_calls: [{ name: 'look', id: 'c0', args: {} }]
    }
  ])
})

t.test(
  'a call shows what of its arguments has come, as LangChain reads it, wherever they are broken off',
  async (t) => {
    const args = JSON.stringify({
      text: 'a "b" \\ {,[:',
      list: [1, 'two', { three: [] }],
      deep: { x: { y: '\\u00e9\\' } },
      n: 42
    })
    for (let length = 1; length < args.length; length++) {
      const piece = args.slice(0, length)
      // Of half an escape it shows the backslash.
      if (/(?<!\\)(\\\\)*\\$/.test(piece)) continue
      const log = newLog()
      say(log, 'a', { toolCall: { index: 0, id: 'c0', name: 'look', args: piece } })
      const [, partial] = told(new Accumulator(0), log)
      const fragment = { index: 0, id: 'c0', name: 'look', args: piece, type: 'tool_call_chunk' as const }
      const { tool_calls } = new AIMessageChunk({ content: '', tool_call_chunks: [fragment] })
      t.match(JSON.parse(partial!.data), [{ tool_calls }], piece)
      t.equal(tool_calls?.length, 1, piece)
    }
  }
)

t.test('a complete message is the one that is in the state, with its calls', async (t) => {
  const message = anAnswer('I look', { id: 'a', tool_calls: [aCall('c0', 'look', { at: 'it' }), aCall('c1', 'time')] })
  const log = newLog()
  say(log, 'a', { text: 'I look' })
  say(log, 'a', { toolCall: { index: 0, id: 'c0', name: 'look', args: '' } })
  say(log, 'a', { toolCall: { index: 0, args: '{"at":' } })
  const accumulator = new Accumulator(0)
  const [, partial] = told(accumulator, log)
  t.match(JSON.parse(partial!.data), [
    { type: 'ai', tool_calls: [aCall('c0', 'look', {})], tool_call_chunks: [{ args: '{"at":' }] }
  ])
  const from = log.head
  say(log, 'a', { toolCall: { index: 0, args: '"it"}' } })
  say(log, 'a', { toolCall: { index: 1, id: 'c1', name: 'time', args: '' } })
  t.match(JSON.parse(told(accumulator, log, from).at(-1)!.data), [
    { tool_calls: [aCall('c0', 'look', { at: 'it' }), aCall('c1', 'time')] }
  ])
  log.append(Kind.messages, 'messages', lastChunkJson(message))
  const [complete] = told(accumulator, log, log.head - 1)
  t.equal(complete!.event, 'messages/complete')
  t.same(JSON.parse(complete!.data), [message])
})

t.test('a message that was broken off has its fragments as invalid calls', async (t) => {
  const log = newLog()
  say(log, 'a', { toolCall: { index: 0, id: 'c0', name: 'look', args: '{"at":"i' } })
  say(log, 'a', { toolCall: { index: 1, id: 'c1', name: 'time', args: '' } })
  const broken = { ...anAnswer('', { id: 'a' }), response_metadata: { finish_reason: 'interrupted' } }
  log.append(Kind.messages, 'messages', lastChunkJson(broken))
  t.match(JSON.parse(told(new Accumulator(0), log).at(-1)!.data), [
    {
      tool_calls: [],
      invalid_tool_calls: [
        { name: 'look', id: 'c0', args: '{"at":"i' },
        { name: 'time', id: 'c1', args: '' }
      ]
    }
  ])
})

t.test("what the pieces of a graph's message count is added up, as LangChain adds its chunks", async (t) => {
  const log = newLog()
  const pieces = [
    { content: 'a', usage_metadata: { input_tokens: 3, output_tokens: 0, total_tokens: 3 } },
    { content: 'b' },
    {
      content: 'c',
      usage_metadata: { input_tokens: 0, output_tokens: 4, total_tokens: 4, output_token_details: { reasoning: 2 } }
    }
  ].map((piece) => new AIMessageChunk({ id: 'x', ...piece }))
  for (const { content, usage_metadata = undefined } of pieces) {
    const piece = {
      type: 'AIMessageChunk',
      id: 'x',
      content,
      tool_call_chunks: [],
      ...(usage_metadata && { usage_metadata })
    }
    log.append(Kind.messages, 'messages', JSON.stringify([piece, { checkpoint_ns: 'model:1' }]))
  }
  const partials = told(new Accumulator(0), log).filter(({ event }) => event === 'messages/partial')
  let whole: AIMessageChunk | undefined
  const wanted = pieces.map((piece) => {
    whole = whole ? whole.concat(piece) : piece
    return whole.usage_metadata
  })
  t.same(
    partials.map(({ data }) => (JSON.parse(data) as [{ usage_metadata?: object }])[0].usage_metadata),
    wanted
  )
})

t.test('messages that are written at the same time grow each by themselves', async (t) => {
  const log = newLog()
  const accumulator = new Accumulator(0)
  say(log, 'a', { text: 'one ' })
  say(log, 'b', { text: 'uno ' })
  say(log, 'a', { text: 'two' })
  t.same(
    told(accumulator, log).map(({ event, n }) => [event, n]),
    [
      ['messages/metadata', null],
      ['messages/metadata', null],
      ['messages/partial', 1],
      ['messages/partial', 2]
    ],
    'one partial each, in the order of what is newest in them'
  )
  say(log, 'b', { text: 'dos' })
  complete(log, 'a')
  complete(log, 'b')
  t.same(contents(told(accumulator, log, 3)), [
    'messages/partial: uno dos',
    'messages/complete: one two',
    'messages/complete: uno dos'
  ])
})

t.test('what was begun before is continued', async (t) => {
  const log = newLog()
  log.append(Kind.custom, 'custom', '1')
  say(log, 'a', { text: 'the rest' })
  const before = asChunk(fold(begun('a'), { text: 'The beginning and ' }))
  t.same(contents(told(new Accumulator(1, [before]), log, 1)), ['messages/partial: The beginning and the rest'])
})

t.test('other frames stand where they stood, and a partial goes out before them', async (t) => {
  const log = newLog()
  log.append(Kind.metadata, 'metadata', '{}')
  say(log, 'a', { text: 'x' })
  log.append(Kind.custom, 'custom', '1')
  say(log, 'a', { text: 'y' })
  appendState(log, 'checkpoint')
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
