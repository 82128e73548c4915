// What an agent hands over is checked once: its author gets a sentence that names the field.
import fc from 'fast-check'
import t from 'tap'
import { checkedModels, checkPart, checkRecord, isSoundDelta } from '../../lib/agent/check.ts'
import { aCall, anAnswer, aResult, request, response, usageOf } from '../fixtures/agent.ts'

const delta = { type: 'delta', messageId: 'm1', model: 'x', text: 'hi' }
const answer = anAnswer('hi')
const circle: Record<string, unknown> = {}
circle.self = circle

t.test('a part of a stream that is not right is refused with the name of its field', async (t) => {
  const cases: readonly (readonly [part: unknown, sentence: RegExp])[] = [
    [{ ...delta, messageId: undefined }, /emitted a "delta" .*`messageId` is missing$/],
    [{ type: 'delta', model: 'x', text: 'hi' }, /`messageId` is missing$/],
    [{ ...delta, messageId: '' }, /`messageId` must not be empty/],
    [{ ...delta, text: null }, /`text` must be a text, and is null/],
    [{ ...delta, text: 5 }, /`text` must be a text, and is 5/],
    [{ ...delta, toolCall: { index: -1, args: '' } }, /`toolCall.index` must be a whole number from 0, and is -1/],
    [{ ...delta, toolCall: { index: 0 } }, /`toolCall.args` is missing/],
    [{ ...delta, usage: { input_tokens: Number.NaN } }, /`usage.input_tokens` must be a whole number/],
    [{ ...delta, metadata: circle }, /`metadata` must be JSON, .* in a circle/],
    [{ ...delta, metadata: { n: 1n } }, /`metadata` must be JSON, and it.n is a bigint/],
    [{ ...delta, metadata: 'agent' }, /`metadata` must be an object, and is "agent"/],
    [{ type: 'custom' }, /`data` is missing$/],
    [{ type: 'custom', data: undefined }, /`data`/],
    [{ type: 'custom', data: { when: new Date(0) } }, /`data` must be JSON, and it.when is a Date/],
    [{ type: 'custom', data: [1n] }, /it\[0\] is a bigint/],
    [{ type: 'custom', data: circle }, /nested too deep, or in a circle/],
    [{ type: 'custom', data: { n: Number.POSITIVE_INFINITY } }, /it.n is Infinity/],
    [{ type: 'text', text: 'hi' }, /type is delta or custom, and is "text"/],
    ['hi', /emitted something that must be an object.*is "hi"/],
    [null, /and is null/]
  ]
  for (const [part, sentence] of cases)
    t.throws(() => checkPart(part), { kind: 'InvalidAgentOutput', message: sentence }, String(sentence))
})

t.test('a record that is not right is refused with the name of its field', async (t) => {
  const tool = { type: 'tool_end', call: aCall('c1'), message: aResult(aCall('c1'), 'done') }
  const cases: readonly (readonly [record: unknown, sentence: RegExp])[] = [
    [{ ...response(answer), message: { ...answer, content: null } }, /`message.content` must be a text or a list/],
    [{ ...response(answer), message: { ...answer, id: undefined } }, /`message.id` is missing/],
    [{ ...response(answer), message: { ...answer, tool_calls: undefined } }, /`message.tool_calls` is missing/],
    [{ ...response(answer), caller: 'somebody' }, /`caller` must be lead_agent, .* and is "somebody"/],
    [{ ...response(answer), latencyMs: Number.NaN }, /`latencyMs`/],
    [{ ...response(answer), shown: { metadata: circle } }, /`shown` must be "frames" or an object with metadata/],
    [{ ...tool, shown: 'nothing' }, /`shown` must be "frames" or an object with metadata, and is "nothing"/],
    [{ type: 'step', node: 'agent', hasUpdates: 1 }, /`hasUpdates` must be true or false, and is 1/],
    [{ ...request(), messages: null }, /`messages` must be a list, and is null/],
    [{ type: 'tool_start', call: { ...aCall('c1'), args: 'x' } }, /`call.args` must be an object, and is "x"/],
    [{ ...tool, message: { ...tool.message, status: 'ok' } }, /`message.status` must be "success" or "error"/],
    [{ type: 'messages', messages: [{ type: 'robot', id: 'a' }] }, /`messages.0.type` must be a message/],
    [{ type: 'update', channels: { at: new Map() } }, /`channels` must be JSON, and it.at is a Map/],
    [{ type: 'update', channels: { run: () => 1 } }, /it.run is a function/],
    [{ type: 'interrupt', interrupt: { id: 'q' } }, /`interrupt.value` is missing/],
    [{ type: 'step' }, /`node` is missing/],
    [{ type: 'done' }, /names a record: .* and is "done"/]
  ]
  for (const [record, sentence] of cases)
    t.throws(() => checkRecord(record), { kind: 'InvalidAgentOutput', message: sentence }, String(sentence))
})

t.test('what is right passes, with members that are undefined and members nobody knows', async (t) => {
  checkPart({ ...delta, reasoning: undefined, extra: Symbol('mine') })
  checkPart({ ...delta, usage: usageOf(1, 2) })
  checkPart({ ...delta, metadata: { langgraph_node: 'agent' } })
  checkRecord({ ...response(answer), shown: 'frames' })
  checkRecord({ ...response(answer), shown: { metadata: { langgraph_node: 'agent' } } })
  checkPart({ type: 'custom', data: { a: undefined, b: [null, 'x', 1.5] } })
  checkRecord(request('middleware:title'))
  checkRecord(response(answer, { usage: usageOf(1, 2), caller: 'subagent:x' }))
  checkRecord({ type: 'messages', messages: [{ type: 'remove', id: 'a' }, answer] })
  checkRecord({ type: 'interrupt', interrupt: { id: 'q', value: null } })
  checkRecord({ type: 'step', node: 'agent', next: ['tools'] })
  t.pass('none of them is refused')
})

t.test('a getter that throws is heard where the value is handed over', async (t) => {
  const trap = {
    type: 'custom',
    get data() {
      throw new Error('not today')
    }
  }
  t.throws(() => checkPart(trap), { message: 'not today' })
})

t.test('the fast way past the check lets nothing through that the schema refuses', async () => {
  const odd = fc.oneof(fc.string(), fc.integer(), fc.constant(undefined), fc.constant(null), fc.boolean())
  const part = fc.record({
    type: fc.oneof(fc.constant('delta'), odd),
    messageId: odd,
    model: odd,
    text: odd,
    reasoning: odd,
    metadata: fc.oneof(odd, fc.constant({ a: 1 }), fc.constant({ a: 1n })),
    toolCall: fc.oneof(odd, fc.record({ index: odd, id: odd, name: odd, args: odd }))
  })
  const passes = (value: unknown): boolean => {
    try {
      // A usage of its own sends it the long way.
      checkPart({ ...(value as object), usage: usageOf(0, 0) })
      return true
    } catch {
      return false
    }
  }
  fc.assert(
    fc.property(part, (value) => isSoundDelta(value) === (passes(value) && value.type === 'delta')),
    { numRuns: 2000 }
  )
})

t.test('models that an agent lists are completed, and those that are none are refused', async (t) => {
  t.same(checkedModels([{ name: 'own' }]), [
    {
      name: 'own',
      model: 'module',
      display_name: null,
      description: null,
      supports_thinking: false,
      supports_reasoning_effort: false
    }
  ])
  t.throws(() => checkedModels('own'), { message: /models\(\) must be a list of models, and is "own"/ })
  t.throws(() => checkedModels([{}]), { message: /`0.name` is missing/ })
})
