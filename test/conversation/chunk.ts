// The one fold: however a message is cut into chunks, it becomes the same message; and what is kept of its calls.
import { AIMessageChunk } from '@langchain/core/messages'
import fc from 'fast-check'
import t from 'tap'
import { brokenOff, finishCalls, growingCalls, parseArgs } from '../../lib/conversation/calls.ts'
import {
  addUsage,
  asChunk,
  begun,
  callTextsOf,
  type Chunk,
  contentOf,
  ended,
  excessOf,
  fold,
  type GrowingMessage,
  emptyText,
  readChunk
} from '../../lib/conversation/chunk.ts'
import type { Json, JsonObject } from '../../lib/base/types.ts'
import { SEED } from '../fixtures/size.ts'

const folded = (...chunks: Chunk[]): GrowingMessage => chunks.reduce(fold, begun('m'))
const read = (...pieces: JsonObject[]): GrowingMessage => folded(...pieces.map(readChunk))
const callChunk = (index: Json, args: string, id: string | null = null, name: string | null = null) => ({
  index,
  args,
  id,
  name
})
const check = <Ts>(property: fc.IProperty<Ts>) => fc.assert(property, { seed: SEED })
/** A text cut at these places. */
const cut = (text: string, cuts: readonly number[]): string[] => {
  const at = [...new Set([0, ...cuts.map((one) => one % (text.length + 1)), text.length])].sort((a, b) => a - b)
  return at.slice(1).map((end, i) => text.slice(at[i], end))
}
const anyCuts = fc.array(fc.nat(500), { maxLength: 60 })
const anyText = fc.string({ unit: 'grapheme', maxLength: 200 })

t.test(
  'however text, reasoning and arguments are cut, even in the middle of characters, they come out whole',
  async (t) => {
    const property = fc.property(anyText, anyText, anyText, anyCuts, (text, reasoning, args, cuts) => {
      const message = folded(
        ...cut(text, cuts).map((piece) => ({ text: piece })),
        ...cut(reasoning, cuts).map((piece) => ({ reasoning: piece })),
        ...cut(args, cuts).map((piece) => ({ calls: [callChunk(0, piece, 'c', 'look')] }))
      )
      t.equal(String(message.text), text.toWellFormed())
      t.equal(message.text.length, text.length)
      t.equal(String(message.reasoning), reasoning.toWellFormed())
      t.same(callTextsOf(message), args === '' ? [] : [{ id: 'c', name: 'look', args: args.toWellFormed() }])
    })
    check(property)
  }
)

t.test('what each piece adds is whole characters, and all of them together are the text', async (t) => {
  check(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), anyCuts, (text, cuts) => {
      let growing = emptyText
      let shown = ''
      for (const piece of cut(text, cuts)) {
        growing = growing.with(piece)
        t.ok(growing.added.isWellFormed())
        shown += growing.added
        t.equal(String(growing), shown, 'whenever it is read')
      }
      const last = growing.ended()
      t.equal(last === growing ? shown : shown + last.added, text.toWellFormed())
    })
  )
})

t.test('a message is immutable: two that grow from the same beginning know nothing of each other', async (t) => {
  const steps = fc.array(fc.record({ from: fc.nat(40), text: fc.string({ maxLength: 3 }) }), { maxLength: 60 })
  check(
    fc.property(steps, (all) => {
      const grown = [{ message: begun('m'), text: '' }]
      for (const { from, text } of all) {
        const base = grown[from % grown.length]!
        grown.push({ message: fold(base.message, { text }), text: base.text + text })
      }
      for (const { message, text } of grown) t.equal(String(message.text), text)
    })
  )
})

t.test('everything so far as one chunk, and the chunks that follow, are the same message', async (t) => {
  const chunk = fc.oneof(
    fc.record({ content: fc.string() }),
    fc.record({ content: fc.constant(''), additional_kwargs: fc.record({ reasoning_content: fc.string() }) }),
    fc.record({
      content: fc.constant(''),
      tool_call_chunks: fc.array(
        fc.record({
          index: fc.nat(3),
          args: fc.string(),
          id: fc.option(fc.constantFrom('a', 'b')),
          name: fc.option(fc.constantFrom('look', 'find'))
        }),
        { maxLength: 2 }
      )
    })
  )
  const shown = (message: GrowingMessage): unknown => [
    contentOf(message),
    String(message.reasoning),
    callTextsOf(message),
    brokenOff(message, 'model', 'error')
  ]
  check(
    fc.property(fc.array(chunk, { maxLength: 12 }), fc.nat(12), (chunks, at) => {
      const pieces = chunks as JsonObject[]
      const before = asChunk(read(...pieces.slice(0, at)))
      t.same(shown(read(before, ...pieces.slice(at))), shown(read(...pieces)))
    })
  )
})

t.test(
  'calls are told apart by their index, else by their id; a piece without either goes on with the last',
  async (t) => {
    const calls = (...chunks: ReturnType<typeof callChunk>[]) =>
      callTextsOf(folded({ calls: chunks })).map(({ id, name, args }) => `${id} ${name} ${args}`)
    t.same(calls(callChunk(0, '{', 'a', 'x'), callChunk(1, '[', 'b', 'y'), callChunk(0, '}'), callChunk(1, ']')), [
      'a x {}',
      'b y []'
    ])
    t.same(calls(callChunk(null, '{}', 'a', 'x'), callChunk(null, '{}', 'b', 'y')), ['a x {}', 'b y {}'])
    t.same(calls(callChunk(null, '{', 'a', 'x'), callChunk(null, '}')), ['a x {}'])
    t.same(calls(callChunk(0, '', 'a', 'x'), callChunk(0, '', 'b', 'y')), ['b x '], 'the last id, the first name')
  }
)

t.test('a text beside a list of blocks is a block of it', async (t) => {
  const image = { type: 'image_url', image_url: 'x' }
  const text = (said: string) => ({ type: 'text', text: said })
  t.same(contentOf(read({ content: 'a' }, { content: [image] }, { content: 'b' })), [text('a'), image, text('b')])
  t.same(contentOf(read({ content: [] }, { content: '' })), [])
  t.equal(contentOf(read({ content: '' }, { content: 'a' }, { content: [] })), 'a')
})

t.test('blocks that models number grow as LangChain joins them', async (t) => {
  const text = (index: number, said: string) => ({ index, type: 'text', text: said })
  const answers: Record<string, Json[][]> = {
    'a text, word by word': [[text(0, '')], [text(0, 'He')], [text(0, 'llo')], [text(0, '')]],
    'thoughts, a signature, and an answer with its sources': [
      [{ index: 0, type: 'thinking', thinking: '' }],
      [{ index: 0, type: 'thinking', thinking: 'Hm' }],
      [{ index: 0, type: 'thinking', thinking: '.' }],
      [{ index: 0, type: 'thinking', signature: 'x1' }],
      [text(1, 'Yes'), text(1, '!')],
      [{ index: 1, type: 'text', citations: [{ cited: 'a' }] }],
      [{ index: 1, type: 'text', citations: [{ cited: 'b' }] }]
    ],
    'two calls': [
      [{ index: 0, type: 'tool_use', id: 'a', name: 'x', input: '' }],
      [{ index: 0, type: 'input_json_delta', input: '{"q"' }],
      [{ index: 0, type: 'input_json_delta', input: ':1}' }],
      [{ index: 1, type: 'tool_use', id: 'b', name: 'y', input: '' }]
    ],
    'blocks with ids, of others the numbers are words': [
      [{ id: 'r', type: 'reasoning', reasoning: 'a' }],
      [{ id: 'r', type: 'reasoning', reasoning: 'b' }],
      [{ id: 's', type: 'reasoning', reasoning: 'c' }],
      [{ index: 'lc_0', type: 'text', text: 'd' }],
      [{ index: 'lc_0', type: 'text', text: 'e', seen: 1 }],
      [{ index: 'lc_0', type: 'text', seen: 2 }]
    ],
    'blocks of no number': [[{ type: 'text', text: 'a' }], [{ type: 'text', text: '' }], [{ type: 'text', text: 'b' }]]
  }
  for (const [name, contents] of Object.entries(answers)) {
    // They are the fields of LangChain's blocks.
    const chunks = contents.map((content) => new AIMessageChunk({ content: content as never[] }))
    const whole = chunks.reduce((sum, chunk) => sum.concat(chunk))
    t.same(contentOf(read(...contents.map((content) => ({ content })))), whole.content, name)
  }
  const many = Array.from({ length: 2000 }, () => ({ content: [text(0, 'word ')] }))
  t.equal(contentOf(read(...many)).length, 1, 'a long answer is one block, and not one a piece')
})

t.test('usage is added up, detail by detail, once', async (t) => {
  const one = { input_tokens: 3, output_tokens: 1, output_token_details: { reasoning: 1 } }
  t.same(addUsage(one, { input_tokens: 0, output_tokens: 4, output_token_details: { reasoning: 2, audio: 1 } }), {
    input_tokens: 3,
    output_tokens: 5,
    output_token_details: { reasoning: 3, audio: 1 }
  })
  t.same(read({ usage_metadata: one }, { content: 'a' }, { usage_metadata: one }).fields.usage_metadata, {
    input_tokens: 6,
    output_tokens: 2,
    output_token_details: { reasoning: 2 }
  })
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 }
  t.same(folded({ usage: { ...usage, total_tokens: 9 } }, { usage }).usage, usage, 'of the message so far: not added')
})

// The text is what the model wrote, and JSON.parse takes it; no JSON can hold what it gives.
const BEYOND = [
  '{"n":1e400}',
  '{"n":[-1e999]}',
  '{"s":"\\ud83d"}',
  '{"\\ude00":1}',
  `{"a":${'['.repeat(600)}${']'.repeat(600)}}`
]

t.test('arguments that no JSON can hold are kept as the model wrote them, as an invalid call', async (t) => {
  for (const args of BEYOND) {
    t.equal(parseArgs(args), null, args.slice(0, 20))
    const { tool_calls, invalid_tool_calls } = finishCalls([{ id: 'c', name: 'look', args }], true)
    t.same(tool_calls, [])
    t.match(invalid_tool_calls, [{ id: 'c', name: 'look', args, type: 'invalid_tool_call' }])
  }
  t.same(parseArgs('{"s":"\\ud83d\\ude00 \\\\ud83d"}'), { s: '😀 \\ud83d' }, 'a pair, and a backslash')
})

t.test('arguments that are shown while they grow are an object at every place', async (t) => {
  check(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 })), fc.nat(), (args, at) => {
      const text = JSON.stringify(args)
      const message = folded({ calls: [callChunk(0, text.slice(0, 1 + (at % text.length)), 'c', 'look')] })
      t.equal(growingCalls(message).length, 1, text)
    })
  )
})

t.test('long arguments are shown while they grow as soon as short ones, whatever they end with', async (t) => {
  const grown = (args: string) => growingCalls(folded({ calls: [callChunk(0, args, 'c', 'write')] }))[0]?.args
  const long = 'a'.repeat(500_000)
  for (const [end, more] of [
    ['"', {}],
    ['", "pa', {}],
    ['", "path"', {}],
    ['", "path": ', {}],
    ['", "path": tr', {}],
    ['", "path": [1, 2', { path: [1, 2] }],
    ['", "path": [1, -', { path: [1] }]
  ] as const)
    t.strictSame(grown(`{"content": "${long}${end}`), { content: long, ...more }, end)
  for (const noise of [`{"a": ${long}!`, `{"a": ${' '.repeat(500_000)}!`, `{"a": ${'[]'.repeat(250_000)}!`])
    t.equal(grown(noise), undefined, 'what is no JSON is none')
})

t.test('what there is too much of is said', async (t) => {
  const limits = { characters: 10, calls: 2 }
  t.equal(excessOf(folded({ text: 'x'.repeat(10) }), limits), null)
  t.match(excessOf(folded({ text: 'x'.repeat(5) }, { reasoning: 'x'.repeat(6) }), limits), /more than 10 characters/)
  t.match(excessOf(folded({ calls: [callChunk(0, 'x'.repeat(11))] }), limits), /more than 10 characters/)
  t.match(excessOf(folded({ calls: [0, 1, 2].map((index) => callChunk(index, '')) }), limits), /more than 2 tool calls/)
})

t.test('a half character at the end of a message is U+FFFD', async (t) => {
  const message = folded({ text: 'a\ud83d' })
  t.equal(String(message.text), 'a')
  t.equal(String(ended(message).text), 'a\ufffd')
})
