// Conversations in chat-completions form, there and back.
import fc from 'fast-check'
import t from 'tap'
import { toChat, toMessage } from '../../lib/agent/chat.ts'
import type { Completion } from '../../lib/agent/model.ts'
import { SHOWN_BYTES, SHOWN_MAX } from '../../lib/agent/pictures.ts'
import {
  type AiMessage,
  type HumanMessage,
  isObject,
  type Json,
  type JsonObject,
  type Message,
  type ToolMessage
} from '../../lib/base/types.ts'
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
const tool = (tool_call_id: string, content: ToolMessage['content'] = 'done'): ToolMessage => ({
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

const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=' } }
const NOTES = { type: 'file', file: { filename: 'notes.txt', file_data: 'data:text/plain;base64,dGVh' } }

t.test('what a result has besides texts is shown behind all results of its answer', async (t) => {
  const words = { type: 'text', text: 'Here' }
  const shown = toChat([
    human('go'),
    ai('', ['c1', 'c2', 'c3']),
    tool('c1', [words, PICTURE]),
    tool('c2', [words, 'and there', { type: 'odd', of: 1 }]),
    tool('c3', [NOTES]),
    human('and now?')
  ])
  t.same(shown.slice(2), [
    { role: 'tool', tool_call_id: 'c1', content: 'Here\n[shown to you below]' },
    { role: 'tool', tool_call_id: 'c2', content: 'Here\nand there\n{"type":"odd","of":1}' },
    { role: 'tool', tool_call_id: 'c3', content: '[shown to you below]' },
    { role: 'user', content: [{ type: 'text', text: 'tool:' }, PICTURE, { type: 'text', text: 'tool:' }, NOTES] },
    { role: 'user', content: 'and now?' }
  ])
})

t.test('a model that takes no images is shown none that a tool of the server has made', async (t) => {
  const chatOf = (message: ToolMessage) => toChat([ai('', ['c1']), message], new Map(), false).slice(1)
  const told = [{ role: 'tool', tool_call_id: 'c1', content: '[an image, which is not shown to you]' }]
  t.same(chatOf(tool('c1', [PICTURE])), told)
  const ofClient = chatOf({ ...tool('c1', [PICTURE]), artifact: { client_tool: true } })
  t.same(ofClient[1]?.content, [{ type: 'text', text: 'tool:' }, PICTURE], 'a client knows its model')
})

t.test('of images that tools of the server have made, a call has the newest, within its limits', async (t) => {
  const call = (at: number, content: Json[]) => [ai('', [`c${at}`]), tool(`c${at}`, content)]
  const image = (bytes: number) => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${'A'.repeat((bytes * 4) / 3)}` }
  })
  const shownOf = (messages: Message[], viewed: Json[] = []) =>
    toChat(messages, new Map([['m', viewed]])).map(({ role, content }) =>
      role === 'user' && Array.isArray(content) ? content.filter((block) => isObject(block) && block.image_url) : []
    )
  const many = Array.from({ length: SHOWN_MAX + 2 }, (_, at) => call(at, [image(3)])).flat()
  t.same(shownOf(many).flat().length, SHOWN_MAX)
  t.same(shownOf(many.slice(0, 4)).flat().length, 2, 'fewer are all shown')
  const large = [0, 1, 2, 3].flatMap((at) => call(at, [image(SHOWN_BYTES / 4 + 3 * at)]))
  t.same(
    shownOf(large).filter((images) => images.length > 0),
    large.flatMap(({ type, content }) => (type === 'tool' ? [content] : [])).slice(1),
    'the oldest is left out'
  )
  const viewed = [...many.slice(0, 1), { ...tool('c0', [image(3)]), id: 'm' }]
  t.same(shownOf(viewed, Array(SHOWN_MAX).fill(PICTURE)).flat().length, SHOWN_MAX, 'with those it asked to view')
  const ofClient = many.map((one) => (one.type === 'tool' ? { ...one, artifact: { client_tool: true } } : one))
  t.same(shownOf(ofClient).flat().length, SHOWN_MAX + 2, 'a client’s are its own')
})

t.test('media in other forms come in that of chat completions', async (t) => {
  const forms: JsonObject[] = [
    { type: 'image', base64: 'aGk=', mime_type: 'image/png' },
    { type: 'image', source_type: 'base64', data: 'aGk=', mime_type: 'image/png' },
    { type: 'image', mimeType: 'image/png', data: 'aGk=' },
    { type: 'image', url: PICTURE.image_url.url },
    { type: 'image_url', image_url: PICTURE.image_url.url },
    PICTURE
  ]
  t.same(toChat([human(forms)])[0]?.content, Array(forms.length).fill(PICTURE))
  t.same(toChat([ai('', ['c1']), tool('c1', forms)]).at(-1)?.content, [
    { type: 'text', text: 'tool:' },
    ...Array(forms.length).fill(PICTURE)
  ])
  const others: JsonObject[] = [
    { type: 'audio', data: 'aGk=', mime_type: 'audio/mpeg' },
    { type: 'file', base64: 'dGVh', mime_type: 'text/plain', filename: 'notes.txt' },
    { type: 'video', url: 'https://example.com/a.mp4' }
  ]
  t.same(toChat([human(others)])[0]?.content, [
    { type: 'input_audio', input_audio: { data: 'aGk=', format: 'mp3' } },
    NOTES,
    others[2]
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
    id.map((one) => tool(one)),
    id.map((one) => tool(one, [PICTURE]))
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
