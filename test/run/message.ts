// Messages on their way: deltas as the data of frames, the message that they become, and what of it can be kept when it is broken off
// [design 4, rule 6].
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import type { Delta } from '../../lib/agent/runtime.ts'
import { brokenOff, parseArgs } from '../../lib/conversation/calls.ts'
import { begun, type Chunk, fold, type GrowingMessage } from '../../lib/conversation/chunk.ts'
import { DeltaEncoder } from '../../lib/conversation/wire.ts'
import { LiveMessages } from '../../lib/run/log/message.ts'
import type { AiMessage, JsonObject } from '../../lib/base/types.ts'
import { Room, toldTo } from '../fixtures/room.ts'
import { until } from '../fixtures/until.ts'

type Fragment = Pick<Delta, 'text' | 'reasoning' | 'toolCall'>

const chunkOf = ({ toolCall, ...said }: Fragment): Chunk => (toolCall ? { ...said, calls: [toolCall] } : said)
const built = (...pieces: Fragment[]): GrowingMessage =>
  pieces.reduce((message, piece) => fold(message, chunkOf(piece)), begun('m1'))
const broken = (message: GrowingMessage, reason: string): AiMessage | null => brokenOff(message, 'scripted', reason)
const piece = (index: number, args: string, id?: string, name?: string): Fragment => ({
  toolCall: { index, args, ...(id !== undefined && { id }), ...(name !== undefined && { name }) }
})

t.test('where nothing was said there is nothing to keep', async (t) => {
  t.equal(broken(built(), 'interrupted'), null)
  t.equal(broken(built({ text: '' }, { reasoning: '' }), 'interrupted'), null)
})

t.test('text and reasoning are kept as far as they came, with the id they were shown under', async (t) => {
  t.same(
    broken(built({ reasoning: 'hm ' }, { reasoning: 'well' }, { text: 'half an ' }, { text: 'ans' }), 'interrupted'),
    {
      content: 'half an ans',
      additional_kwargs: { reasoning_content: 'hm well' },
      response_metadata: { finish_reason: 'interrupted', model_name: 'scripted' },
      type: 'ai',
      name: null,
      id: 'm1',
      tool_calls: [],
      invalid_tool_calls: [],
      usage_metadata: null
    }
  )
})

t.test('a call is whole when its arguments are an object, and has a name and an id', async (t) => {
  const message = broken(built(piece(0, '{"a":', 'c1', 'look'), piece(0, '1}')), 'error')
  t.same(message?.tool_calls, [{ name: 'look', args: { a: 1 }, id: 'c1', type: 'tool_call' }])
  t.same(message?.invalid_tool_calls, [])
})

t.test('everything else of a call is kept as an invalid one, with its text', async (t) => {
  const fragments: Fragment[][] = [
    [piece(0, '', 'c1', 'look')],
    [piece(0, '{"a":', 'c1', 'look')],
    [piece(0, '[1]', 'c1', 'look')],
    [piece(0, 'null', 'c1', 'look')],
    [piece(0, '"text"', 'c1', 'look')],
    [piece(0, '{}', undefined, 'look')],
    [piece(0, '{}', 'c1')]
  ]
  for (const pieces of fragments) {
    const message = broken(built(...pieces), 'error')!
    t.same(message.tool_calls, [], JSON.stringify(pieces))
    t.match(message.invalid_tool_calls, [{ error: 'Interrupted', type: 'invalid_tool_call' }])
    t.equal(message.invalid_tool_calls[0]!.args, pieces.map((one) => one.toolCall!.args).join(''))
  }
})

t.test('calls that arrive interleaved are put together by their index', async (t) => {
  const message = broken(
    built(piece(0, '{"n"', 'c0', 'look'), piece(1, '{"m"', 'c1', 'find'), piece(0, ':0}'), piece(1, ':1}')),
    'error'
  )
  t.same(
    message?.tool_calls.map(({ id, name, args }) => ({ id, name, args })),
    [
      { id: 'c0', name: 'look', args: { n: 0 } },
      { id: 'c1', name: 'find', args: { m: 1 } }
    ]
  )
})

t.test('no arguments at all are an empty object once the model has said that it is done', async (t) => {
  t.same(parseArgs(''), {})
  t.same(parseArgs(' {"a":1} '), { a: 1 })
  for (const text of ['{', '[]', 'null', '1', '"a"', 'undefined']) t.equal(parseArgs(text), null, text)
})

t.test('however a call is cut into pieces, and wherever it is broken off, it is one or the other kind', async (t) => {
  const property = fc.property(
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
    fc.array(fc.nat(60), { maxLength: 6 }),
    fc.nat(80),
    (args, cuts, end) => {
      const text = JSON.stringify(args)
      const told = text.slice(0, end)
      let partial = built(piece(0, '', 'c1', 'look'))
      const at = [...new Set([0, ...cuts.filter((cut) => cut < told.length), told.length])].sort((a, b) => a - b)
      for (let i = 1; i < at.length; i++) partial = fold(partial, chunkOf(piece(0, told.slice(at[i - 1], at[i]))))
      const message = broken(partial, 'error')!
      if (told === text) return message.tool_calls.length === 1 && message.invalid_tool_calls.length === 0
      return message.tool_calls.length === 0 && message.invalid_tool_calls[0]?.args === told
    }
  )
  t.doesNotThrow(() => fc.assert(property))
})

const delta = (messageId: string, piece: Partial<Delta>): Delta => ({ type: 'delta', messageId, model: 'm', ...piece })
const METADATA = { langgraph_node: 'agent' }

t.test('a delta is a chunk of its message, whatever message the one before was of', async (t) => {
  const texts = new DeltaEncoder()
  const told = ['', 'one', 'an "other"', 'one'].map((id, i) => JSON.parse(texts.json(id, { text: `${i}\n` })))
  t.same(told, [
    [{ content: '0\n', type: 'AIMessageChunk', id: '' }, METADATA],
    [{ content: '1\n', type: 'AIMessageChunk', id: 'one' }, METADATA],
    [{ content: '2\n', type: 'AIMessageChunk', id: 'an "other"' }, METADATA],
    [{ content: '3\n', type: 'AIMessageChunk', id: 'one' }, METADATA]
  ])
})

t.test('nothing of a delta that says more than one thing is left out', async (t) => {
  const toolCall = { index: 0, id: 'call_1', name: 'search', args: '{"q' }
  const [chunk] = JSON.parse(new DeltaEncoder().json('one', { text: 'a', reasoning: 'b', toolCall }))
  t.same(chunk, {
    content: 'a',
    additional_kwargs: { reasoning_content: 'b' },
    tool_call_chunks: [{ name: 'search', args: '{"q', id: 'call_1', index: 0, type: 'tool_call_chunk' }],
    type: 'AIMessageChunk',
    id: 'one'
  })
})

/** What the frames of some deltas say, put together. */
function said(frames: readonly string[]): { text: string; reasoning: string; calls: JsonObject[] } {
  const chunks = frames.map((json) => (JSON.parse(json) as [JsonObject])[0])
  const of = (chunk: JsonObject, key: string): string =>
    String((chunk.additional_kwargs as JsonObject | undefined)?.[key] ?? '')
  return {
    text: chunks.map(({ content }) => String(content)).join(''),
    reasoning: chunks.map((chunk) => of(chunk, 'reasoning_content')).join(''),
    calls: chunks.flatMap(({ tool_call_chunks }) => (tool_call_chunks ?? []) as JsonObject[])
  }
}

/** The frames that show a delta: one, or none. */
function shownBy(messages: LiveMessages, given: Delta): string[] {
  const shown = messages.add(given)
  return shown === null ? [] : [messages.encode(given.messageId, shown)]
}

t.test('a giant delta is said in frames of the size that is allowed, and nothing of it is left out', async (t) => {
  for (const bit of ['a', '"', 'ä😀', '\u0000', '\n€']) {
    const long = bit.repeat(30_000)
    const toolCall = { index: 3, id: 'call_1', name: 'search', args: long }
    for (const given of [
      { text: long },
      { reasoning: long },
      { toolCall },
      { text: long, reasoning: long, toolCall }
    ]) {
      const messages = new LiveMessages()
      const metadata = { langgraph_node: 'writer', note: 'x'.repeat(500) }
      const frames = messages.split('one', messages.add(delta('one', { ...given, metadata }))!, 4096)
      t.ok(frames.every((json) => isDeepStrictEqual((JSON.parse(json) as unknown[])[1], metadata)))
      t.ok(
        frames.every((json) => Buffer.byteLength(json) < 4096),
        'below the size'
      )
      t.ok(frames.length < (Buffer.byteLength(JSON.stringify(given)) / 4096) * 2, 'and not in crumbs')
      const { text, reasoning, calls } = said(frames)
      t.equal(text, given.text ?? '')
      t.equal(reasoning, given.reasoning ?? '')
      t.equal(calls.map(({ args }) => args).join(''), given.toolCall?.args ?? '')
      t.ok(calls.every(({ index }) => index === 3))
      t.same(
        calls.flatMap(({ id, name }) => (id === null && name === null ? [] : [[id, name]])),
        given.toolCall ? [['call_1', 'search']] : [],
        'named once'
      )
    }
  }
})

t.test('a character that a model cuts in two is shown when both its halves are there', async (t) => {
  const messages = new LiveMessages()
  const say = (given: Partial<Delta>) => shownBy(messages, delta('one', given))
  t.same(said(say({ text: 'a\ud83d' })).text, 'a')
  t.same(said(say({ text: '\ude00b' })).text, '😀b')
  t.same(say({ text: '\ud83d' }), [], 'nothing to show yet')
  t.same(said(say({ text: '\ude00' })).text, '😀')
  t.same(said(say({ reasoning: 'c\ud83d' })).reasoning, 'c')
  t.same(said(say({ text: 'd' })).text, 'd', 'each text waits for its own half')
  t.same(said(say({ reasoning: '\ude00' })).reasoning, '😀')
  say({ toolCall: { index: 0, id: 'c', name: 'look', args: '{"a":"\ud83d' } })
  t.same(said(say({ toolCall: { index: 0, args: '\ude00"}' } })).calls[0]!.args, '😀"}')
  t.match(messages.chunks(), [{ content: 'a😀b😀d', tool_call_chunks: [{ args: '{"a":"😀"}' }] }])
})

t.test('a half that stays alone is no text: U+FFFD, in the middle and at the end', async (t) => {
  const messages = new LiveMessages()
  t.same(said(shownBy(messages, delta('one', { text: 'a\ud83db\ude00c' }))).text, 'a\ufffdb\ufffdc')
  const metadata = { langgraph_node: 'writer' }
  messages.add(delta('one', { text: 'end\ud83d', metadata }))
  t.match(messages.complete('one'), { text: '\ufffd', reasoning: undefined, metadata })
  t.equal(messages.complete('one'), null, 'once')
})

t.test('a stream of a giant delta has all of it, as deltas and as whole messages [needs N39]', async (t) => {
  const room = await Room.open(t, { eventBytes: 4096, pendingBytes: 0 })
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  const live = await room.join(run, ['messages-tuple'])
  const whole = await room.join(run, ['messages'])
  const text = 'giant "delta" 😀 '.repeat(5000)
  stage.say(text)
  stage.callPiece({ index: 0, id: 'c0', name: 'look', args: JSON.stringify({ text }) })
  await until(() => toldTo(live).length > 40, 'it is told')
  stage.reply(text)
  stage.finish()
  const row = await room.ended(run)
  const later = await room.join(row, ['messages-tuple'])
  for (const wire of [live, whole, later]) await until(() => wire.ending === 'ended', 'all is told')
  for (const wire of [live, later]) {
    const all = toldTo(wire).filter(({ event }) => event === 'messages')
    t.ok(all.every(({ data }) => Buffer.byteLength(data) <= 4096))
    t.notMatch(wire.text, /content_truncated/)
    const { text: shown, calls } = said(all.map(({ data }) => data))
    t.ok(shown === text, 'all of the text')
    t.ok(calls.map(({ args }) => args).join('') === JSON.stringify({ text }), 'all of the arguments')
  }
  const complete = toldTo(whole).findLast(({ event }) => event === 'messages/complete')
  t.match(JSON.parse(complete!.data), [{ content: text, tool_calls: [{ name: 'look', args: { text } }] }])
})
