// The journal: facts become events in the contract's shapes, totals are booked on who asked, what is broken off is made whole.
import t from 'tap'
import type { Caller, AgentRecord } from '../../lib/agent/runtime.ts'
import { cutTrace } from '../../lib/run/log/event-content.ts'
import { Journal } from '../../lib/run/log/journal.ts'
import type {
  AiMessage,
  HumanMessage,
  Json,
  RunEvent,
  ToolCall,
  ToolMessage,
  UsageMetadata
} from '../../lib/base/types.ts'

const fields = { additional_kwargs: {}, response_metadata: {}, name: null }
const human: HumanMessage = { ...fields, type: 'human', id: 'h', content: 'hello there' }
const call: ToolCall = { name: 'clock', args: { zone: 'UTC' }, id: 'c1', type: 'tool_call' }
const ai = (content: string, tool_calls: ToolCall[] = []): AiMessage => ({
  ...fields,
  type: 'ai',
  id: `ai-${content}`,
  content,
  tool_calls,
  invalid_tool_calls: [],
  usage_metadata: null
})
const result = (status: 'success' | 'error'): ToolMessage => ({
  ...fields,
  name: 'clock',
  type: 'tool',
  id: 'r1',
  content: 'noon',
  tool_call_id: 'c1',
  artifact: null,
  status
})
const usage = (input_tokens: number, output_tokens: number): UsageMetadata => ({
  input_tokens,
  output_tokens,
  total_tokens: 0
})
const request = (caller: Caller = 'lead_agent'): AgentRecord => ({
  type: 'llm_request',
  caller,
  model: 'm',
  messages: [{ role: 'user', content: 'hello' }]
})
const response = (
  message: AiMessage,
  of: { caller?: Caller; usage?: UsageMetadata | null; finish?: string } = {}
): AgentRecord => ({
  type: 'llm_response',
  caller: of.caller ?? 'lead_agent',
  model: 'm',
  responseId: 'r',
  message,
  finishReason: of.finish ?? 'stop',
  usage: of.usage ?? null,
  latencyMs: 1
})
const journal = (options: { maxTraceContent?: number; trackTokens?: boolean } = {}) =>
  new Journal({ maxTraceContent: 10240, trackTokens: true, ...options })
const types = (made: Journal) => made.takeEvents().map((event) => event.event_type)

t.test('a full run with one tool call has exactly the order of contract 4.3, k from 0 [Events 10]', async (t) => {
  const made = journal()
  made.begin(human, null)
  for (const record of [
    request(),
    response(ai('', [call])),
    { type: 'tool_start', call },
    { type: 'tool_end', call, message: result('success') },
    request(),
    response(ai('done'))
  ] satisfies AgentRecord[])
    made.record(record)
  made.end('success')
  const events = made.takeEvents()
  t.same(
    events.map((event) => event.event_type),
    [
      'human_message',
      'run_start',
      'llm_request',
      'llm_response',
      'ai_tool_call',
      'tool_start',
      'tool_end',
      'tool_result',
      'llm_request',
      'llm_response',
      'ai_message',
      'run_end'
    ]
  )
  t.same(
    events.map((event) => event.k),
    events.map((_, k) => k)
  )
  t.equal(made.totals.message_count, 1, 'final replies only')
  t.same(
    events.filter((event) => event.event_type.startsWith('llm')).map((event) => event.metadata.llm_call_index),
    [1, 1, 2, 2]
  )
})

t.test('human_message carries the follow-up, and run_start a preview of at most 500 characters', async (t) => {
  const made = journal()
  made.begin({ ...human, content: '😀'.repeat(2000) }, 'run-before')
  const [first, second] = made.takeEvents()
  t.same(first!.metadata, { follow_up_to_run_id: 'run-before' })
  t.equal([...String(second!.metadata.input_preview)].length, 500)
})

t.test(
  'a trace is cut by bytes at the end of a character, and says so; messages are never cut [Events 4]',
  async (t) => {
    for (const max of [10, 11, 12, 13, 14]) {
      const { content, metadata } = cutTrace('ä€😀'.repeat(100), { a: 1 }, max)
      const bytes = Buffer.byteLength(String(content))
      t.ok(bytes <= max && bytes > max - 4, `${bytes} of ${max}`)
      t.notMatch(content, /\ufffd/)
      t.same(metadata, { a: 1, content_truncated: true, original_byte_length: 900 })
    }
    t.same(cutTrace({ a: 'x' }, {}, 100), { content: { a: 'x' }, metadata: {} }, 'below the limit an object stays one')
    t.equal(cutTrace('x'.repeat(100_000), {}, 0).metadata.content_truncated, undefined, '0 is no limit')
    const made = journal({ maxTraceContent: 50 })
    made.begin({ ...human, content: 'y'.repeat(5000) }, null)
    t.equal((made.takeEvents()[0]!.content as { content: string }).content.length, 5000)
  }
)

t.test(
  'tokens are booked on who asked; a total that is missing is the sum; calls without tokens are not counted',
  async (t) => {
    const made = journal()
    made.record(request())
    made.record(response(ai('a'), { usage: usage(10, 5) }))
    made.record(response(ai('b'), { usage: usage(1, 1), caller: 'middleware:title' }))
    made.record(response(ai('c'), { usage: usage(2, 2), caller: 'subagent:x' }))
    made.record(response(ai('d'), { usage: usage(0, 0) }))
    const { message_count, ...totals } = made.totals
    t.same(totals, {
      total_input_tokens: 13,
      total_output_tokens: 8,
      total_tokens: 21,
      llm_call_count: 3,
      lead_agent_tokens: 15,
      subagent_tokens: 4,
      middleware_tokens: 2
    })
  }
)

t.test('with track_token_usage off all totals are zero', async (t) => {
  const made = journal({ trackTokens: false })
  made.record(response(ai('a'), { usage: usage(10, 5) }))
  t.equal(made.totals.total_tokens + made.totals.llm_call_count, 0)
})

t.test('the reply of a middleware or a subagent leaves no ai_message [Events 3]', async (t) => {
  const made = journal()
  made.record(response(ai('a title'), { caller: 'middleware:title' }))
  made.record(response(ai('found'), { caller: 'subagent:search' }))
  t.same(types(made), ['llm_response', 'llm_response'])
})

t.test('a failed tool leaves tool_error and a tool_result with status error', async (t) => {
  const made = journal()
  made.record({ type: 'tool_start', call })
  made.record({ type: 'tool_end', call, message: result('error') })
  t.same(types(made), ['tool_start', 'tool_error', 'tool_result'])
})

t.test('names of custom and middleware events are cut to their column', async (t) => {
  const made = journal()
  made.custom('n'.repeat(100), [1])
  made.record({ type: 'middleware', tag: 't'.repeat(100), content: {}, metadata: {} })
  t.ok(made.takeEvents().every((event) => event.event_type.length <= 32))
})

t.test('what is broken off in text is kept, with a finish reason that marks it', async (t) => {
  const made = journal()
  made.messages.add({ type: 'delta', messageId: 'm1', model: 'm', text: 'half ' })
  made.messages.add({ type: 'delta', messageId: 'm1', model: 'm', text: 'an answer', reasoning: 'hm' })
  const [message] = made.breakOff('interrupted')
  t.match(message, {
    id: 'm1',
    content: 'half an answer',
    additional_kwargs: { reasoning_content: 'hm' },
    response_metadata: { finish_reason: 'interrupted' }
  })
  t.same(
    made.takeEvents().map((event) => [event.event_type, event.metadata.finish_reason]),
    [['ai_message', 'interrupted']]
  )
  t.same(made.breakOff('interrupted'), [], 'once')
})

t.test(
  'what is broken off in the arguments of a call is an invalid call; a whole call without a result gets one [design 4, rule 6]',
  async (t) => {
    const made = journal()
    const piece = (index: number, id: string | undefined, args: string) =>
      made.messages.add({
        type: 'delta',
        messageId: 'm1',
        model: 'm',
        toolCall: { index, args, ...(id && { id, name: 'clock' }) }
      })
    piece(0, 'whole', '{"zone":')
    piece(0, undefined, '"UTC"}')
    piece(1, 'half', '{"zone":"U')
    const [message, interrupted] = made.breakOff('error')
    t.match(message, {
      tool_calls: [{ id: 'whole', args: { zone: 'UTC' } }],
      invalid_tool_calls: [{ id: 'half', args: '{"zone":"U' }]
    })
    t.match(interrupted, { type: 'tool', tool_call_id: 'whole', status: 'error', content: 'Interrupted' })
    t.same(types(made), ['ai_tool_call', 'tool_error', 'tool_result'])
  }
)

t.test('a call that was under way in its tool gets its result as well', async (t) => {
  const made = journal()
  made.record(response(ai('', [call])))
  made.record({ type: 'tool_start', call })
  t.match(made.breakOff('interrupted'), [{ tool_call_id: 'c1', status: 'error' }])
  t.equal(made.hasOpenCalls, false)
})

t.test('a journal is taken up from its events: numbering, totals and open calls go on', async (t) => {
  const before = journal()
  before.begin(human, null)
  before.record(request())
  before.record(response(ai('', [call]), { usage: usage(3, 4) }))
  const events = before
    .takeEvents()
    .map((event, index): RunEvent => ({ ...event, seq: index + 1, thread_id: 't', run_id: 'r', user_id: null }))
  const after = Journal.resumed({ maxTraceContent: 0, trackTokens: true }, events)
  t.equal(after.totals.total_tokens, 7)
  t.match(after.breakOff('error'), [{ tool_call_id: 'c1' }])
  t.equal(after.takeEvents()[0]!.k, events.length)
  t.equal(after.modelName, 'm')
})

t.test('a final reply of content blocks is an ai_message, counted as one of text is', async (t) => {
  const made = journal()
  const blocks: Json[] = [
    { type: 'text', text: 'It is ' },
    { type: 'image_url', image_url: { url: 'x' } },
    { type: 'text', text: 'noon' }
  ]
  made.record(request())
  made.record(response({ ...ai(''), content: blocks }))
  t.match(made.takeEvents().at(-1), {
    event_type: 'ai_message',
    content: { content: blocks },
    metadata: { finish_reason: 'stop' }
  })
  t.strictSame([made.totals.message_count, made.lastAiMessage], [1, 'It is noon'])
  made.record(response({ ...ai(''), content: [] }))
  t.strictSame([types(made), made.totals.message_count], [['llm_response'], 1], 'nothing that was said is nothing')
})

t.test('calls that overlap are paired with their own answers and failures', async (t) => {
  const made = journal()
  const asking = (messageId: string, caller: Caller = 'lead_agent'): AgentRecord =>
    ({ ...request(caller), messageId }) as AgentRecord
  made.record(asking('one'))
  made.record(asking('two', 'subagent:x'))
  made.record(asking('three'))
  made.record(request('middleware:title'))
  made.record(response({ ...ai('b'), id: 'two' }, { caller: 'subagent:x' }))
  made.record({ type: 'llm_error', caller: 'lead_agent', error: 'gone', messageId: 'one' })
  made.record(response({ ...ai('t'), id: 'title' }, { caller: 'middleware:title' }))
  made.record(response({ ...ai('c'), id: 'three' }))
  const traces = made.takeEvents().filter(({ event_type }) => event_type.startsWith('llm'))
  t.strictSame(
    traces.map(({ event_type, metadata }) => [event_type, metadata.llm_call_index]),
    [
      ['llm_request', 1],
      ['llm_request', 2],
      ['llm_request', 3],
      ['llm_request', 4],
      ['llm_response', 2],
      ['llm_error', 1],
      ['llm_response', 4],
      ['llm_response', 3]
    ]
  )
})

t.test('an answer that was broken off is counted, and says by its reason that it was', async (t) => {
  for (const reason of ['interrupted', 'error', 'timeout']) {
    const made = journal()
    made.messages.add({ type: 'delta', messageId: 'm', model: 'm', text: 'half' })
    made.breakOff(reason)
    t.match(made.takeEvents().at(-1), { event_type: 'ai_message', metadata: { finish_reason: reason } })
    t.equal(made.totals.message_count, 1, reason)
  }
})

t.test('a caller of no known kind is the lead agent, not a middleware', async (t) => {
  const made = journal()
  // An agent in JavaScript may say anything.
  made.record(response(ai('a'), { usage: usage(1, 1), caller: 'somebody' as Caller }))
  t.match(made.totals, { lead_agent_tokens: 2, middleware_tokens: 0 })
})
