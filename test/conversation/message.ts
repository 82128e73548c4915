// The one reader of messages: what is right is read alike from clients and from graphs; what is not, a client is told and a graph is not.
import fc from 'fast-check'
import t from 'tap'
import { checkedMessage, MessageInvalid, readMessage } from '../../lib/conversation/message.ts'
import type { Json } from '../../lib/base/types.ts'
import { SEED } from '../fixtures/size.ts'

const spare = () => 'spare'
const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const call = fc.record({ name: text, args: fc.dictionary(text, text, { maxKeys: 2 }), id: text })
const usage = fc.record({
  input_tokens: fc.nat(),
  output_tokens: fc.nat(),
  input_token_details: fc.record({ cache_read: fc.nat() }),
  output_token_details: fc.record({ reasoning: fc.nat() })
})
const right = fc.record(
  {
    type: fc.constantFrom(
      'human',
      'ai',
      'system',
      'tool',
      'assistant',
      'user',
      'developer',
      'HumanMessage',
      'AIMessageChunk'
    ),
    content: fc.oneof(text, fc.array(fc.record({ type: fc.constant('text'), text }), { maxLength: 3 })),
    tool_call_id: text,
    id: text,
    name: text,
    additional_kwargs: fc.dictionary(text, text, { maxKeys: 2 }),
    response_metadata: fc.dictionary(text, text, { maxKeys: 2 }),
    tool_calls: fc.array(call, { maxLength: 2 }),
    invalid_tool_calls: fc.array(call, { maxLength: 2 }),
    usage_metadata: usage,
    artifact: fc.json().map((json) => JSON.parse(json) as Json),
    status: fc.constantFrom('error', 'success')
  },
  { requiredKeys: ['type', 'content', 'tool_call_id'] }
)

t.test(
  'a message that is right is the same from a client and from a graph, and read once more it stays as it is',
  async () => {
    fc.assert(
      fc.property(right, (given) => {
        // Only JSON is in it.
        const message = readMessage(given as Json, spare)
        const [checked, again] = [checkedMessage(given as Json, spare), readMessage(message as unknown as Json, spare)]
        return JSON.stringify(message) === JSON.stringify(checked) && JSON.stringify(again) === JSON.stringify(message)
      }),
      { seed: SEED }
    )
  }
)

t.test(
  'what a client sends wrong is refused with a sentence, and of what a graph says all is read that can be',
  async (t) => {
    const read = {
      type: 'ai',
      content: '',
      tool_calls: [{ name: '', args: {}, id: '', type: 'tool_call' }],
      id: 'spare'
    }
    for (const [given, why, kept] of [
      [{ type: 'ai', content: 5 }, /content must be a text or a list of blocks/, { type: 'ai', content: '' }],
      [{ type: 'ai', content: '', tool_calls: [{}] }, /each of tool_calls needs name, args and id/, read],
      [{ type: 'tool', content: '' }, /a tool message needs tool_call_id/, { type: 'tool', tool_call_id: '' }],
      [{ type: 'nonsense', content: '' }, /unknown role or type "nonsense"/, null],
      [{ type: 'remove' }, /remove needs an id/, null],
      [7, /a message is an object or a text/, null]
    ] as const) {
      t.throws(() => checkedMessage(given as Json, spare), new MessageInvalid(why.source), why.source)
      t.match(readMessage(given as Json, spare), kept)
    }
  }
)

t.test('the usage of a message has its details, whoever sends it', async (t) => {
  const usage_metadata = { input_tokens: 5, output_tokens: 2, input_token_details: { cache_read: 3 } }
  t.match(checkedMessage({ type: 'ai', content: '', usage_metadata }, spare), {
    usage_metadata: { ...usage_metadata, total_tokens: 7 }
  })
})
