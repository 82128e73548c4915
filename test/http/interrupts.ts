// A run that has to ask its user: it ends, the question stands in stream, state, history and thread, and the answer goes on with it.
import t, { type Test } from 'tap'
import { defineAgent, type Yielded } from '../../lib/agent/define.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type ScriptedCall, scripted, startModel } from '../fixtures/model.ts'

const QUESTION = { question: 'Which colour?', options: ['red', 'blue'] }
const asking: ScriptedCall = { name: 'ask_user', args: JSON.stringify(QUESTION), id: 'call_colour' }

/** The question as it is seen by front ends that know no interrupts: they look for a tool message of this name. */
const ASKED = {
  type: 'tool',
  name: 'ask_clarification',
  tool_call_id: 'call_colour',
  status: 'success',
  content: 'Which colour?\n\n  1. red\n  2. blue',
  artifact: {
    human_input: {
      version: 1,
      kind: 'human_input_request',
      source: 'ask_clarification',
      request_id: String,
      tool_call_id: 'call_colour',
      clarification_type: 'missing_info',
      question: 'Which colour?',
      input_mode: 'choice_with_other',
      options: [
        { id: 'option-1', label: 'red', value: 'red' },
        { id: 'option-2', label: 'blue', value: 'blue' }
      ]
    }
  }
}

const ONE_QUESTION: Yielded = { type: 'interrupt', interrupt: { id: 'q1', value: 'Which colour?' } }

interface Scene {
  readonly model: FakeModel
  readonly person: Person
  readonly thread: string
}

async function open(t: Test, title: object = { enabled: false }, runs: object = {}): Promise<Scene> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'fake', model: 'fake', base_url: model.baseUrl, api_key: 'none' }]
  const off = { enabled: false }
  const site = await openSite(t, { config: { models, memory: off, title, summarization: off, runs } })
  const person = await signIn(site)
  return { model, person, thread: await person.thread() }
}

/** Says something to which the model answers with these calls, and with `done` when all have their results. */
async function ask({ person, thread }: Scene, ...calls: readonly ScriptedCall[]) {
  const said = scripted({ calls: [calls], text: 'done', strict: true })
  return person.post(`/api/threads/${thread}/runs/wait`, asked(said))
}

const answer = ({ person, thread }: Scene, resume: unknown, more: object = {}) =>
  person.post(`/api/threads/${thread}/runs/wait`, { command: { resume }, ...more })
const stateOf = async ({ person, thread }: Scene) => (await person.get(`/api/threads/${thread}/state`)).body
const rowsOf = async ({ person, thread }: Scene) => listIn((await person.get(`/api/threads/${thread}/runs`)).body)

/** The messages of the thread as events, oldest first. */
async function page({ person, thread }: Scene): Promise<{ type: string; id: unknown; content: unknown }[]> {
  const { body } = await person.get(`/api/threads/${thread}/messages/page`)
  return listIn(body, 'data').map((row) => ({
    type: textIn(row, 'event_type'),
    id: at(row, 'content', 'id'),
    content: at(row, 'content', 'content')
  }))
}

/** What the model was shown last as results, by call. */
function resultsIn(model: FakeModel): Record<string, unknown> {
  const shown = model.requests.at(-1)!.messages.filter(({ role }) => role === 'tool')
  return Object.fromEntries(shown.map(({ tool_call_id, content }) => [String(tool_call_id), content]))
}

t.test('a question ends the run, and stands where clients look for it', async (t) => {
  const scene = await open(t)
  const { person, thread } = scene
  const { body } = await ask(scene, asking)
  const interrupts = [{ id: 'call_colour', value: QUESTION }]
  t.strictSame(at(body, '__interrupt__'), interrupts, 'in the values')
  t.match(await rowsOf(scene), [{ status: 'interrupted', error: null }])
  const state = await stateOf(scene)
  t.match(state, { next: ['tools'], tasks: [{ name: 'tools', interrupts, error: null }] })
  t.notOk(JSON.stringify(at(state, 'values')).includes('__interrupt__'), 'the channel is no value')
  t.match(listIn(at(state, 'values'), 'messages'), [
    { type: 'human' },
    { type: 'ai', tool_calls: [{ id: 'call_colour' }] },
    ASKED
  ])
  const row = (await person.get(`/api/threads/${thread}`)).body
  t.match(row, { status: 'interrupted' })
  t.strictSame(Object.values(at(row, 'interrupts') as object), [interrupts])
  const history = listIn((await person.post(`/api/threads/${thread}/history`, {})).body)
  t.match(history[0], { tasks: [{ interrupts }] })
  t.match(
    history.slice(1).flatMap((one) => listIn(one, 'tasks').flatMap((task) => listIn(task, 'interrupts'))),
    []
  )
})

t.test('a title that is given at the end of the run takes nothing of the question away', async (t) => {
  const scene = await open(t, { enabled: true })
  await ask(scene, asking)
  t.match(await stateOf(scene), {
    values: { title: String },
    next: ['tools'],
    tasks: [{ name: 'tools', interrupts: [{ id: 'call_colour' }] }]
  })
  t.match(listIn((await answer(scene, 'blue')).body, 'messages').at(-1), { content: 'done' })
})

t.test('streams have the question in values and updates', async (t) => {
  const scene = await open(t)
  const said = scripted({ calls: [[asking]] })
  const stream = await scene.person.stream(scene.thread, said, { stream_mode: ['values', 'updates'] })
  const frames = await stream.whole()
  const last = frames.findLast(({ event }) => event === 'values')!
  t.match(JSON.parse(last.data), { __interrupt__: [{ id: 'call_colour', value: QUESTION }] })
  const updates = frames.filter(({ event }) => event === 'updates').map(({ data }): unknown => JSON.parse(data))
  t.match(
    updates.find((one) => at(one, '__interrupt__')),
    { __interrupt__: [{ id: 'call_colour' }] }
  )
  const replayed = await (await scene.person.join(stream.runPath, null, ['values', 'updates'])).whole()
  t.same(replayed, frames, 'and whoever comes later gets the same')
})

t.test('the answer becomes the result of the call, and the run after it goes on from there', async (t) => {
  const scene = await open(t)
  await ask(scene, asking)
  const { body } = await answer(scene, 'blue')
  t.equal(at(body, '__interrupt__'), undefined)
  t.match(listIn(body, 'messages'), [
    { type: 'human' },
    { type: 'ai' },
    { type: 'tool', tool_call_id: 'call_colour', content: 'blue', status: 'success' },
    { type: 'ai', content: 'done' }
  ])
  t.match(await rowsOf(scene), [{ status: 'success' }, { status: 'interrupted' }])
  t.match(await stateOf(scene), { next: [], tasks: [] })
  t.match((await scene.person.get(`/api/threads/${scene.thread}`)).body, { status: 'idle', interrupts: {} })
  t.match(await ask(scene), { status: 200 }, 'and the thread goes on as ever')
})

t.test('the answer takes the place of the question: it has its id, wherever messages are seen', async (t) => {
  const scene = await open(t)
  const asked = listIn((await ask(scene, asking)).body, 'messages').at(-1)
  t.equal(at(asked, 'artifact', 'human_input', 'request_id'), at(asked, 'id'))
  const answered = listIn((await answer(scene, 'blue')).body, 'messages')
  t.equal(at(answered[2], 'id'), at(asked, 'id'))
  const results = (await page(scene)).filter(({ type }) => type === 'tool_result')
  t.match(results, [
    { id: at(asked, 'id'), content: ASKED.content },
    { id: at(asked, 'id'), content: 'blue' }
  ])
})

t.test(
  'a reply that is typed as a message answers: the question stays, nothing is interrupted, and the model sees both',
  async (t) => {
    const scene = await open(t)
    await ask(scene, asking)
    const { body } = await scene.person.post(`/api/threads/${scene.thread}/runs/wait`, asked('blue, please'))
    t.match(listIn(body, 'messages'), [
      { type: 'human' },
      { type: 'ai' },
      ASKED,
      { type: 'human', content: 'blue, please' },
      { type: 'ai' }
    ])
    t.equal(at(body, '__interrupt__'), undefined)
    t.match(await stateOf(scene), { next: [], tasks: [] })
    t.strictSame(
      scene.model.requests.at(-1)!.messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'user']
    )
    t.strictSame(resultsIn(scene.model), { call_colour: ASKED.content })
    t.strictSame(
      (await page(scene)).map(({ id }) => id),
      listIn(body, 'messages').map((one) => at(one, 'id')),
      'and a page of messages has the order of the state'
    )
    t.notOk(JSON.stringify(await page(scene)).includes('Interrupted'))
  }
)

t.test(
  'with runs.reply_answers off a question that is not answered is interrupted, in the place of the question',
  async (t) => {
    const scene = await open(t, { enabled: false }, { reply_answers: false })
    const question = listIn((await ask(scene, asking)).body, 'messages').at(-1)
    const { body } = await ask(scene)
    t.match(listIn(body, 'messages').slice(2), [
      { id: at(question, 'id'), tool_call_id: 'call_colour', status: 'error', content: 'Interrupted' },
      { type: 'human' },
      { type: 'ai', content: 'done' }
    ])
    const ids = (await page(scene)).map(({ id }) => id)
    t.strictSame(
      [...new Set(ids)],
      listIn(body, 'messages').map((one) => at(one, 'id')),
      'in the order of the state'
    )
    t.match(await answer(scene, 'blue'), { body: { status: 'error' } }, 'and cannot be answered any more')
    t.match((await rowsOf(scene))[0], { status: 'error', error: /No question waits/ })
  }
)

t.test('several questions are answered together, and what was called beside them is done once', async (t) => {
  const scene = await open(t)
  const size = { name: 'ask_user', args: '{"question":"Which size?"}', id: 'call_size' }
  const { body } = await ask(scene, asking, { name: 'current_time', args: '{}', id: 'call_time' }, size)
  t.match(at(body, '__interrupt__'), [{ id: 'call_colour' }, { id: 'call_size' }])
  await answer(scene, { call_colour: 'red', call_size: { width: 3 } })
  t.match(resultsIn(scene.model), { call_colour: 'red', call_size: '{"width":3}', call_time: /^20/ })
  const results = listIn(at(await stateOf(scene), 'values'), 'messages').filter((one) => at(one, 'type') === 'tool')
  t.equal(results.length, 3)
})

t.test('a resumed run that is cancelled leaves a thread that goes on', async (t) => {
  const scene = await open(t)
  const { person, thread, model } = scene
  const said = scripted({ calls: [[asking]], strict: true, deltas: 10_000, rate: 100 })
  await person.post(`/api/threads/${thread}/runs/wait`, asked(said))
  const begun = await person.post(`/api/threads/${thread}/runs`, { command: { resume: 'blue' } })
  const run = `/api/threads/${thread}/runs/${textIn(begun.body, 'run_id')}`
  await until(() => model.requests.length === 2, 'the model is asked again')
  await person.post(`${run}/cancel?wait=true`)
  t.match(await ask(scene), { status: 200, body: { messages: [] } })
  t.match((await rowsOf(scene))[0], { status: 'success' })
})

t.test('what would change the course of a run and is not supported is refused: 422', async (t) => {
  const { person, thread } = await open(t)
  for (const body of [
    { command: { goto: 'tools' } },
    { command: { update: { title: 'x' } } },
    { ...asked('x'), command: { resume: 'blue' } },
    { ...asked('x'), interrupt_before: ['agent'] },
    { ...asked('x'), interrupt_after: '*' }
  ]) {
    t.equal((await person.post(`/api/threads/${thread}/runs`, body)).status, 422, JSON.stringify(body))
  }
  const harmless = { ...asked('x'), interrupt_before: [], interrupt_after: null, command: { resume: null, goto: [] } }
  const made = await person.post(`/api/threads/${thread}/runs`, harmless)
  t.equal(made.status, 200)
  t.equal((await person.get(`/api/threads/${thread}/runs/${textIn(made.body, 'run_id')}`)).status, 200)
})

/** Agents that ask and end, each in its own form; resumed, each says what it was answered. */
const ASKERS: Readonly<Record<string, readonly Yielded[]>> = {
  'behind a text': ['I need to know. ', ONE_QUESTION],
  'with nothing before it': [ONE_QUESTION],
  'before a text': [ONE_QUESTION, 'So tell me.'],
  'behind a step of its own': ['I need to know. ', { type: 'step', node: 'agent' }, ONE_QUESTION],
  'behind a channel': [{ type: 'update', channels: { draft: 'red?' } }, ONE_QUESTION],
  'before a channel': [ONE_QUESTION, { type: 'update', channels: { draft: 'red?' } }],
  'beside another one': [ONE_QUESTION, { type: 'interrupt', interrupt: { id: 'q2', value: 'Which size?' } }]
}

for (const title of [{ enabled: false }, { enabled: true, model_name: null }])
  t.test(
    `a question that an agent asks at its end stands everywhere, whatever is said around it (title ${title.enabled})`,
    async (t) => {
      const script = new Map<string, readonly Yielded[]>()
      const agent = defineAgent(async function* ({ threadId, resume }) {
        if (resume === null) yield* script.get(threadId)!
        else yield `You said ${JSON.stringify(resume.value)}.`
      })
      const site = await openSite(t, { agent, config: { memory: { enabled: false }, title } })
      const person = await signIn(site)
      for (const [form, yielded] of Object.entries(ASKERS)) {
        const thread = await person.thread()
        script.set(thread, yielded)
        const path = `/api/threads/${thread}`
        const { body: values } = await person.post(`${path}/runs/wait`, asked('hello'))
        t.match(at(values, '__interrupt__'), [{ id: 'q1', value: 'Which colour?' }], `${form}: among the final values`)
        const { body: state } = await person.get(`${path}/state`)
        const { body: history } = await person.post(`${path}/history`, {})
        for (const [where, one] of [
          ['state', state],
          ['history', listIn(history)[0]]
        ])
          t.match(
            at(listIn(one, 'tasks')[0], 'interrupts'),
            [{ id: 'q1', value: 'Which colour?' }],
            `${form}: in the ${where}`
          )
        const { body: shown } = await person.get(path)
        t.match(shown, { status: 'interrupted' }, form)
        t.match(Object.values(at(shown, 'interrupts') as object), [[{ id: 'q1' }]], `${form}: on the thread`)
        const said = listIn(state, 'values', 'messages').map((one) => at(one, 'content'))
        const texts = yielded.filter((one) => typeof one === 'string')
        t.strictSame(said, ['hello', ...texts], `${form}: once each`)
        const { body: after } = await person.post(`${path}/runs/wait`, { command: { resume: 'red' } })
        t.equal(at(listIn(after, 'messages').at(-1), 'content'), 'You said "red".', `${form}: it can be answered`)
        t.notOk(at(after, '__interrupt__'), `${form}: and is answered then`)
      }
    }
  )
