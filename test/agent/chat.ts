// Conversations in chat-completions form, there and back.
import fc from 'fast-check'
import t from 'tap'
import { toChat, toMessage } from '../../lib/agent/chat.ts'
import type { Completion } from '../../lib/agent/model.ts'
import type { AiMessage, HumanMessage, JsonObject, Message, ToolMessage } from '../../lib/base/types.ts'
import { complaintAbout } from '../fixtures/model.ts'

const fields = { additional_kwargs: {}, response_metadata: {}, name: null }
const human = (content: HumanMessage['content']): HumanMessage => ({ type: 'human', id: 'h', content, ...fields })
const ai = (content: string, calls: readonly string[] = []): AiMessage => ({
  type: 'ai',
  id: 'a',
  content,
  ...fields,
  tool_calls: calls.map((id) => ({ name: 'tool', args: { x: 1 }, id, type: 'tool_call' })),
  invalid_tool_calls: [],
  usage_metadata: null
})
const tool = (tool_call_id: string, content = 'done'): ToolMessage => ({
  type: 'tool',
  id: 't',
  content,
  ...fields,
  tool_call_id,
  artifact: null,
  status: 'success'
})

t.test('[contract 4.2] a conversation in chat-completions form', async (t) => {
  const blocks = [{ type: 'text', text: 'look' }]
  const messages: Message[] = [
    { ...human('be brief'), type: 'system' },
    human(blocks),
    ai('', ['c1']),
    tool('c1'),
    ai('so')
  ]
  t.same(toChat(messages), [
    { role: 'system', content: 'be brief' },
    { role: 'user', content: blocks },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'tool', arguments: '{"x":1}' } }]
    },
    { role: 'tool', tool_call_id: 'c1', content: 'done' },
    { role: 'assistant', content: 'so' }
  ])
})

t.test('a call without a result is sent with one, so that one interrupted run does not spoil the thread', async (t) => {
  const chat = toChat([human('go'), ai('', ['c1', 'c2']), tool('c2'), human('and now?')])
  t.same(chat.slice(2), [
    { role: 'tool', tool_call_id: 'c1', content: 'Interrupted' },
    { role: 'tool', tool_call_id: 'c2', content: 'done' },
    { role: 'user', content: 'and now?' }
  ])
})

t.test('results of no call, empty answers and invalid calls are not sent', async (t) => {
  const invalid: AiMessage = {
    ...ai(''),
    invalid_tool_calls: [{ name: 'x', args: '{', id: 'i', error: null, type: 'invalid_tool_call' }]
  }
  t.same(toChat([human('a'), tool('lost'), ai(''), invalid, human('b')]), [
    { role: 'user', content: 'a' },
    { role: 'user', content: 'b' }
  ])
})

t.test('no conversation whatever is refused by a strict server for its calls', async (t) => {
  const id = fc.constantFrom('c1', 'c2', 'c3')
  const message: fc.Arbitrary<Message> = fc.oneof(
    fc.string().map(human),
    fc.tuple(fc.constantFrom('', 'text'), fc.uniqueArray(id)).map(([content, calls]) => ai(content, calls)),
    id.map((one) => tool(one))
  )
  fc.assert(fc.property(fc.array(message, { maxLength: 12 }), (messages) => complaintAbout(toChat(messages)) === null))
  t.pass()
})

const completion = (more: Partial<Completion>): Completion => ({
  responseId: 'r',
  text: '',
  reasoning: '',
  calls: [],
  finishReason: null,
  usage: null,
  ...more
})

t.test('a message has the calls that can be carried out, and apart from them those that cannot', async (t) => {
  const args = ['{"a":1}', '', '{"a":', '[1]', 'null']
  const calls = [...args.map((text, i) => ({ id: `c${i}`, name: 'x', args: text })), { id: 'c5', name: '', args: '{}' }]
  const message = toMessage(completion({ calls, reasoning: 'hm' }), 'id', 'main')
  t.same(
    message.tool_calls.map((call): [string, JsonObject] => [call.id, call.args]),
    [
      ['c0', { a: 1 }],
      ['c1', {}]
    ]
  )
  t.same(
    message.invalid_tool_calls.map((call) => [call.id, call.args]),
    [
      ['c2', '{"a":'],
      ['c3', '[1]'],
      ['c4', 'null'],
      ['c5', '{}']
    ]
  )
  t.match(message, {
    id: 'id',
    type: 'ai',
    response_metadata: { finish_reason: 'tool_calls', model_name: 'main' },
    additional_kwargs: { reasoning_content: 'hm' }
  })
})

t.test(
  "[contract 4.2] the finish reason is tool_calls when there are any, else the provider's, else stop",
  async (t) => {
    const reason = (more: Partial<Completion>) =>
      toMessage(completion(more), 'id', 'main').response_metadata.finish_reason
    t.equal(reason({ calls: [{ id: 'c', name: 'x', args: '{}' }], finishReason: 'stop' }), 'tool_calls')
    t.equal(reason({ finishReason: 'length' }), 'length')
    t.equal(reason({ finishReason: 'tool_calls' }), 'stop')
    t.equal(reason({}), 'stop')
  }
)
