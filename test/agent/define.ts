// defineAgent: the short way to an agent.
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type AgentWork, defineAgent } from '../../lib/index.ts'
import { aHuman, inputOf } from '../fixtures/agent-input.ts'
import { aCall, aResult } from '../fixtures/agent.ts'
import { asked, at, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { RecordingSink } from '../fixtures/sink.ts'

async function run(work: unknown, signal = new AbortController().signal): Promise<RecordingSink> {
  const sink = new RecordingSink()
  // Tests also bring what the type refuses.
  await defineAgent(work as AgentWork, { name: 'mine' }).start(inputOf([aHuman('hello')]), sink, signal)
  return sink
}

t.test('the texts that it yields are one answer, which joins the conversation', async (t) => {
  const sink = await run(async function* () {
    yield { reasoning: 'hm' }
    yield 'hi '
    yield 'there'
  })
  t.same(sink.kinds, ['delta', 'llm_response', 'step'])
  t.match(sink.all('llm_response')[0], {
    model: 'mine',
    message: { content: 'hi there', additional_kwargs: { reasoning_content: 'hm' } }
  })
  const [id] = new Set(sink.all('delta').map(({ messageId }) => messageId))
  t.equal(id, sink.all('llm_response')[0]?.message.id)
})

t.test('records between the texts go where they are yielded, and make two answers of one', async (t) => {
  const sink = await run(function* () {
    yield 'one'
    yield { type: 'custom', data: 1 }
    yield { type: 'tool_start', call: aCall('c1') }
    yield { type: 'tool_end', call: aCall('c1'), message: aResult(aCall('c1'), 'done') }
    yield 'two'
  })
  t.same(sink.kinds, [
    ...['delta', 'custom', 'llm_response', 'step', 'tool_start', 'tool_end'],
    ...['delta', 'llm_response', 'step']
  ])
  t.same(
    sink.all('llm_response').map(({ message }) => message.content),
    ['one', 'two']
  )
})

t.test('what it throws is the failure of its run, and what it may not yield is named', async (t) => {
  await t.rejects(
    run(async function* () {
      yield 'a'
      throw new Error('no more')
    }),
    { message: 'no more' }
  )
  for (const [wrong, named] of [
    [5, '5'],
    [null, 'null'],
    [undefined, 'undefined']
  ])
    await t.rejects(
      run(async function* () {
        yield wrong
      }),
      { kind: 'InvalidAgentOutput', message: `The agent yielded ${named}: it may yield texts` }
    )
  await t.rejects(
    run(async () => 'hi'),
    { kind: 'InvalidAgentOutput', message: /must be a generator/ }
  )
})

t.test('a log without space makes it wait, and a cancel ends it also when it does not listen', async (t) => {
  const abort = new AbortController()
  let isReturned = false
  const sink = new RecordingSink()
  sink.full = true
  const agent = defineAgent(async function* () {
    try {
      yield 'a'
      yield 'b'
      await sleep(3_600_000, undefined, { ref: false })
    } finally {
      isReturned = true
    }
  })
  const work = agent.start(inputOf([]), sink, abort.signal)
  await sink.until(({ waits }) => waits === 1)
  t.equal(sink.text, 'a', 'the second waits')
  sink.makeSpace()
  await sink.until(({ text }) => text === 'ab')
  abort.abort()
  await work
  t.notOk(isReturned, 'it still sleeps, and nobody waits for it')
  t.same(sink.kinds, ['delta'])
})

t.test('in a gateway of one’s own', async (t) => {
  const agent = defineAgent(async function* ({ messages }) {
    yield `You said ${messages.length} thing`
  })
  const person = await signIn(await openSite(t, { agent }))
  const thread = textIn((await person.post('/api/threads', {})).body, 'thread_id')
  const { body } = await person.post(`/api/threads/${thread}/runs/wait`, asked('hello'))
  t.match(at(body, 'messages', 1), { content: 'You said 1 thing' })
})
