import t from 'tap'
import { DemoModel, demoModels, demoWord } from '../../lib/agent/demo.ts'
import { createAgent } from '../../lib/agent/lead.ts'
import { builtInTools } from '../../lib/agent/tools.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Workspace } from '../../lib/files/workspace.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { aHuman, inputOf as agentInput } from '../fixtures/agent-input.ts'
import { RecordingSink } from '../fixtures/sink.ts'

// Answers in plain words take seconds each, in which nothing is done: they are waited for together.
t.jobs = 8

const inputOf = (said: string) => agentInput([aHuman(said)])

const agent = createAgent({
  tools: builtInTools({ files: new Workspace(new Paths(t.testdir())), clock: () => 0 }),
  models: demoModels()
})

async function run(said: string): Promise<{ sink: RecordingSink; failure: unknown }> {
  const sink = new RecordingSink()
  const failure = await agent.start(inputOf(said), sink, new AbortController().signal).then(
    () => null,
    (error: unknown) => error
  )
  return { sink, failure }
}

/** Waits until `ms` have passed on the event loop: for what must not happen meanwhile. */
const pass = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('the demo is a model like any other', async (t) => {
  t.match(agent.models(), [{ name: 'demo', model: 'demo' }])
  const { sink, failure } = await run('/demo deltas=3 rate=0')
  t.equal(failure, null)
  t.same(sink.kinds, ['llm_request', 'delta', 'llm_response', 'step'])
  t.match(sink.all('llm_response')[0], {
    model: 'demo',
    finishReason: 'stop',
    message: { content: sink.text, response_metadata: { model_name: 'demo' } }
  })
  t.ok(sink.all('llm_response')[0]?.usage)
})

t.test('it answers a person in words, quotes them, and says the same every time', { timeout: 60_000 }, async (t) => {
  const [{ sink: first }, { sink: second }] = await Promise.all([run('Who are you?'), run('Who are you?')])
  t.match(first.text, /"Who are you\?"/)
  t.equal(first.text, second.text)
  t.ok(first.all('delta').length > 20, 'in many deltas')
})

t.test('as many deltas of as many bytes as asked for, whose text anybody can compute', async (t) => {
  t.equal(demoWord(0), 'w0000 ')
  t.equal(demoWord(12, 10), 'w00000012 ')
  const { sink } = await run('please\n/demo deltas=2000 rate=0 size=9')
  const words = sink.all('delta').map(({ text }) => text)
  t.same(
    words,
    Array.from({ length: 2000 }, (_, n) => demoWord(n, 9))
  )
  t.ok(words.every((word) => word?.length === 9))
})

t.test('flat out it lets others work: the event loop turns, and a log without space is waited for', async (t) => {
  const sink = new RecordingSink()
  let turns = 0
  const count = () => {
    turns++
    immediate = setImmediate(count)
  }
  let immediate = setImmediate(count)
  const work = agent.start(inputOf('/demo deltas=20000 rate=0'), sink, new AbortController().signal)
  await sink.until(({ told }) => told.length > 1000)
  t.ok(turns > 10)
  sink.full = true
  await sink.until(({ waits }) => waits === 1)
  const told = sink.told.length
  await pass(30)
  t.equal(sink.told.length, told)
  sink.makeSpace()
  await work
  clearImmediate(immediate)
  t.equal(sink.all('delta').length, 20_000)
})

t.test('a rate is kept: never faster', async (t) => {
  const begun = performance.now()
  await run('/demo deltas=30 rate=100')
  t.ok(performance.now() - begun >= 280)
})

t.test(
  'a tool is called when asked for, with its arguments, and its result is the answer',
  { timeout: 60_000 },
  async (t) => {
    const time = await run('/demo tool=current_time rate=0')
    t.same(time.sink.kinds, [
      ...['llm_request', 'delta', 'llm_response', 'step', 'tool_start', 'tool_end', 'step'],
      ...['llm_request', 'delta', 'llm_response', 'step']
    ])
    t.match(time.sink.all('llm_response').at(-1)?.message.content, /answered: 1970-01-01T00:00:00.000Z$/)
    const file = await run('/demo tool=write_file rate=0 args={"path":"a b.txt","content":"x"}')
    t.same(file.sink.all('update')[0]?.channels, { artifacts: ['/mnt/user-data/outputs/a b.txt'] })
    const none = await run('/demo tool=none rate=0')
    t.match(none.sink.all('tool_end')[0]?.message, { status: 'error' })
    t.equal(none.failure, null)
  }
)

t.test('reasoning comes before the answer', async (t) => {
  const { sink } = await run('/demo reasoning deltas=2 rate=0')
  const deltas = sink.all('delta')
  t.ok(deltas[0]?.reasoning)
  t.same(
    deltas.slice(-2).map(({ text }) => text),
    ['w0000 ', 'w0001 ']
  )
  t.ok(sink.all('llm_response')[0]?.message.additional_kwargs.reasoning_content)
})

t.test('it fails when asked to, after what else was asked for', async (t) => {
  const { sink, failure } = await run('/demo error deltas=3 rate=0')
  t.match(failure, { kind: 'DemoFailure' })
  t.equal(sink.all('delta').length, 3)
  t.same(sink.kinds, ['llm_request', 'delta', 'llm_error'])
})

t.test('it is silent when asked to, and an abort ends the silence', async (t) => {
  const sink = new RecordingSink()
  const abort = new AbortController()
  const work = agent.start(inputOf('/demo pause=2:60000 deltas=5 rate=0'), sink, abort.signal)
  await sink.until((one) => one.all('delta').length === 2)
  await pass(30)
  t.equal(sink.all('delta').length, 2)
  abort.abort()
  await work
  t.same(sink.kinds, ['llm_request', 'delta'])
})

t.test('what is asked for has its bounds, and what is no number is not obeyed', async (t) => {
  const { sink } = await run('/demo deltas=2 size=99999999 rate=0 pause=soon')
  t.equal(sink.all('delta')[0]?.text?.length, 65_536)
  const { sink: other } = await run('/demo deltas=1 size=0 rate=0')
  t.equal(other.text, 'w0 ')
})

t.test(
  'plain words show what the page can show: reasoning, two tools, a table, code',
  { timeout: 60_000 },
  async (t) => {
    const { sink, failure } = await run('Please show me everything.')
    t.equal(failure, null)
    t.same(sink.kinds, [
      ...[
        'llm_request',
        'delta',
        'llm_response',
        'step',
        'tool_start',
        'tool_end',
        'tool_start',
        'tool_end',
        'update',
        'step'
      ],
      ...['llm_request', 'delta', 'llm_response', 'step']
    ])
    const [first, last] = sink.all('llm_response').map(({ message }) => message)
    t.ok(first?.additional_kwargs.reasoning_content)
    t.same(
      first?.tool_calls.map(({ name }) => name),
      ['current_time', 'write_file']
    )
    t.match(last?.content, /answered: 1970.*Wrote \/mnt\/user-data\/outputs\/report.md.*\n\|---\|.*```js/s)
  }
)

t.test('asked to ask, it waits for its user, and takes up the answer', { timeout: 60_000 }, async (t) => {
  const { sink } = await run('Ask me something')
  const [asked] = sink.all('interrupt')
  t.match(asked?.interrupt.value, { question: 'Tea or coffee?', options: ['Tea', 'Coffee'] })
  const call = sink.all('llm_response')[0]!.message
  const input = agentInput([aHuman('Ask me something'), call], {
    interrupts: [asked!.interrupt],
    openCalls: call.tool_calls,
    resume: { value: 'Tea' }
  })
  const next = new RecordingSink()
  await agent.start(input, next, new AbortController().signal)
  t.match(next.all('llm_response').at(-1)?.message.content, /Your answer: Tea$/)
})

t.test('plain words fail, and tell at length; words inside of others are none', { timeout: 60_000 }, async (t) => {
  const [failing, long, other] = await Promise.all([
    run('You may fail now'),
    run('a long answer /demo is no command here'),
    run('the tablecloth is codependent')
  ])
  t.match(failing.failure, { kind: 'DemoFailure' })
  t.ok(long.sink.all('delta').length > 0)
  t.match(other.sink.text, /the demo model that Colloquy brings along/)
})

t.test('what is said is read in time that grows with its length and no faster', { timeout: 60_000 }, async (t) => {
  const length = 2_000_000
  const hostile = [
    `/demo rate=0 deltas=1 ${'args='.repeat(length / 5)}\r`,
    `${'/demo'.repeat(length / 5)}`,
    `/demo rate=0 deltas=1 ${' '.repeat(length)}x`,
    `/demo rate=0 deltas=1 ${'deltas='.repeat(length / 7)}`,
    `/demo tool=current_time rate=0 args={"x":"${' '.repeat(length)}"}`
  ]
  const model = new DemoModel()
  for (const said of hostile) {
    const begun = performance.now()
    const abort = new AbortController()
    const messages: JsonObject[] = [
      { role: 'user', content: said },
      { role: 'tool', tool_call_id: 'x', content: ' '.repeat(length) }
    ]
    // The first delta is enough: all has been read by then.
    const asked = model.complete({ messages, messageId: 'm', signal: abort.signal }, () => {
      abort.abort()
      return true
    })
    await asked.catch(() => {})
    t.ok(performance.now() - begun < 5_000, `${said.slice(0, 30)}...`)
  }
})
