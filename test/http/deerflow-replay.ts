// Regenerate, edit and stop as DeerFlow's page sends them: prepare, then a run that streams from the checkpoint that was named.
import t, { type Test } from 'tap'
import { at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'
import type { Frame } from '../fixtures/stream.ts'

interface Chat {
  readonly person: Person
  readonly model: FakeModel
  readonly path: string
  /** Sends as the page does; the frames of its stream. */
  send(input: object, more?: object): Promise<readonly Frame[]>
  messages(): Promise<readonly unknown[]>
  /** Types and words of the feed. */
  feed(): Promise<string[]>
}

/** Beside input, checkpoint and metadata. */
const SENT = {
  assistant_id: 'lead_agent',
  config: { recursion_limit: 1000 },
  context: { model_name: 'main', mode: 'pro', thinking_enabled: false, is_plan_mode: false, subagent_enabled: false },
  stream_mode: ['values', 'messages-tuple', 'custom'],
  stream_subgraphs: true,
  on_disconnect: 'continue',
  multitask_strategy: 'reject'
}

async function open(t: Test): Promise<Chat> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none' }]
  const person = await signIn(
    await openSite(t, { config: { models, title: { enabled: false }, memory: { enabled: false } } })
  )
  const thread = await person.thread()
  const path = `/api/threads/${thread}`
  const send = async (input: object, more: object = {}) => {
    const context = { ...SENT.context, thread_id: thread }
    const stream = await person.open('POST', `${path}/runs/stream`, { body: { ...SENT, input, context, ...more } })
    t.equal(stream.status, 200)
    t.match(stream.runPath, `${path}/runs/`)
    await stream.ended
    return stream.frames
  }
  const messages = async () => listIn((await person.get(`${path}/state`)).body, 'values', 'messages')
  const feed = async () => {
    const { data } = (await person.get(`${path}/messages/page?limit=50`)).body as { data: readonly unknown[] }
    return data.map((row) => `${String(at(row, 'content', 'type'))}: ${wordsOf(at(row, 'content'))}`)
  }
  return { person, model, path, send, messages, feed }
}

function wordsOf(message: unknown): string {
  const content = at(message, 'content')
  return typeof content === 'string' ? content : String(at(content, 0, 'text'))
}

function asked(script: Parameters<typeof scripted>[0]): object {
  const content = [{ type: 'text', text: scripted(script) }]
  return { messages: [{ type: 'human', content, additional_kwargs: {} }] }
}

/** Prepares the edit of the latest question. */
async function editTo({ person, path, messages }: Chat, script: Parameters<typeof scripted>[0]) {
  const human = (await messages()).findLast((one) => at(one, 'type') === 'human')
  const body = { human_message_id: textIn(human, 'id'), replacement_text: scripted(script) }
  const answer = await person.post(`${path}/runs/edit-regenerate/prepare`, body)
  t.equal(answer.status, 200, answer.text)
  const { input, checkpoint, metadata } = answer.body as Record<'input' | 'checkpoint' | 'metadata', object>
  return { answer: answer.body, input, more: { checkpoint, metadata } }
}

const FAILING = { status: 400, body: '{"error":{"message":"no"}}' }

t.test(
  'an edit that fails gives its thread back as it was: in the stream, the state, the feed and the next run',
  async (t) => {
    const chat = await open(t)
    await chat.send(asked({ text: 'one' }))
    await chat.send(asked({ text: 'two' }))
    const before = await chat.messages()
    const feed = await chat.feed()
    t.equal(feed.length, 4)
    const { input, more, answer } = await editTo(chat, FAILING)
    t.strictSame(
      at(answer, 'source_message_ids'),
      before.slice(2).map((one) => at(one, 'id'))
    )
    const frames = await chat.send(input, more)
    const shown = frames.filter(({ event }) => event === 'values')
    t.strictSame(
      listIn(JSON.parse(shown.at(-1)!.data), 'messages').map((one) => at(one, 'id')),
      before.map((one) => at(one, 'id'))
    )
    t.ok(
      frames.some(({ event }) => event === 'error'),
      'and says that it failed'
    )
    t.strictSame(await chat.messages(), before)
    t.strictSame(await chat.feed(), feed)
    await chat.send(asked({ text: 'three' }))
    t.strictSame(
      (await chat.messages()).map(wordsOf).filter((words) => words.length < 6),
      ['one', 'two', 'three']
    )
  }
)

t.test('an edit that its user stops gives it back too, and can be tried again', async (t) => {
  const chat = await open(t)
  const { person, path } = chat
  await chat.send(asked({ text: 'one' }))
  const before = await chat.messages()
  const { input, more } = await editTo(chat, { text: 'never to be whole', hangAfter: 1 })
  const sent = chat.send(input, more)
  await until(async () => listIn((await person.get(`${path}/runs`)).body).length === 2, 'it runs')
  const run = textIn(listIn((await person.get(`${path}/runs`)).body)[0], 'run_id')
  await person.post(`${path}/runs/${run}/cancel?wait=true&action=interrupt`, {})
  await sent
  t.strictSame(await chat.messages(), before)
  const again = await editTo(chat, { text: 'better' })
  await chat.send(again.input, again.more)
  t.strictSame(
    (await chat.feed()).filter((row) => row.startsWith('ai')),
    ['ai: better']
  )
  t.strictSame(at((await chat.messages())[0], 'id'), textIn(again.answer, 'replacement_human_message_id'))
})

t.test('an answer regenerated that fails leaves the failure: only edits are taken back', async (t) => {
  const chat = await open(t)
  const { person, path } = chat
  await chat.send(asked({ text: 'one', status: 400, failures: 0 }))
  const answerId = textIn((await chat.messages()).at(-1), 'id')
  const answer = await person.post(`${path}/runs/regenerate/prepare`, { message_id: answerId })
  const { checkpoint, metadata } = answer.body as Record<string, object>
  await chat.send(asked(FAILING), { checkpoint, metadata })
  t.equal((await chat.messages()).length, 1)
  t.equal((await chat.feed()).filter((row) => row === 'ai: one').length, 1, 'while the old answer stays in the feed')
})

t.test('no question is edited while a goal is set', async (t) => {
  const chat = await open(t)
  const { person, path } = chat
  await chat.send(asked({ text: 'one' }))
  const human_message_id = textIn((await chat.messages())[0], 'id')
  const prepare = async () =>
    (await person.post(`${path}/runs/edit-regenerate/prepare`, { human_message_id, replacement_text: 'new' })).status
  await person.ask('PUT', `${path}/goal`, { body: { objective: 'Report' } })
  t.equal(await prepare(), 409)
  await person.ask('DELETE', `${path}/goal`)
  t.equal(await prepare(), 200)
})

t.test(
  'a run stopped before a word of its answer was stored can be regenerated by the id that the page has',
  async (t) => {
    const chat = await open(t)
    const { person, path } = chat
    await chat.send(asked({ text: 'one' }))
    const sent = chat.send(asked({ text: 'never', hangAfter: 0 }))
    await until(async () => listIn((await person.get(`${path}/runs`)).body).length === 2, 'it runs')
    const prepare = (message_id: string) => person.post(`${path}/runs/regenerate/prepare`, { message_id })
    t.equal((await prepare('only-streamed')).status, 404, 'not while it runs')
    const run = textIn(listIn((await person.get(`${path}/runs`)).body)[0], 'run_id')
    await person.post(`${path}/runs/${run}/cancel?wait=true&action=interrupt`, {})
    await sent
    const prepared = await prepare('only-streamed')
    t.equal(prepared.status, 200, prepared.text)
    t.match(prepared.body, { target_run_id: run, metadata: { regenerate_from_run_id: run } })
    t.equal(textIn(prepared.body, 'input', 'messages', 0, 'id'), textIn((await chat.messages())[2], 'id'))
  }
)
