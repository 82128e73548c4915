// Regenerate, edit and stop as DeerFlow's page sends them: prepare, then a run that streams from the checkpoint that was named.
import t from 'tap'
import { type Chat, openChat, typed, wordsOf } from '../fixtures/deerflow-page.ts'
import { at, listIn, textIn, until } from '../fixtures/gateway.ts'
import { scripted } from '../fixtures/model.ts'

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
    const chat = await openChat(t)
    await chat.send(typed({ text: 'one' }))
    await chat.send(typed({ text: 'two' }))
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
    await chat.send(typed({ text: 'three' }))
    t.strictSame(
      (await chat.messages()).map(wordsOf).filter((words) => words.length < 6),
      ['one', 'two', 'three']
    )
  }
)

t.test('an edit that its user stops gives it back too, and can be tried again', async (t) => {
  const chat = await openChat(t)
  const { person, path } = chat
  await chat.send(typed({ text: 'one' }))
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
  const chat = await openChat(t)
  const { person, path } = chat
  await chat.send(typed({ text: 'one', status: 400, failures: 0 }))
  const answerId = textIn((await chat.messages()).at(-1), 'id')
  const answer = await person.post(`${path}/runs/regenerate/prepare`, { message_id: answerId })
  const { checkpoint, metadata } = answer.body as Record<string, object>
  await chat.send(typed(FAILING), { checkpoint, metadata })
  t.equal((await chat.messages()).length, 1)
  t.equal((await chat.feed()).filter((row) => row === 'ai: one').length, 1, 'while the old answer stays in the feed')
})

t.test('a goal that was set or cleared since stays so when an answer is regenerated, and in a branch', async (t) => {
  const chat = await openChat(t)
  const { person, path } = chat
  await chat.send(typed({ text: 'before' }))
  const goalOf = async (thread: string) => at((await person.get(`${thread}/goal`)).body, 'goal', 'objective')
  const latest = async () => textIn((await chat.messages()).at(-1), 'id')
  const again = async () => {
    const { body } = await person.post(`${path}/runs/regenerate/prepare`, { message_id: await latest() })
    const { input, checkpoint, metadata } = body as Record<'input' | 'checkpoint' | 'metadata', object>
    await chat.send(input, { checkpoint, metadata })
  }
  const branched = async () => {
    const first = textIn((await chat.messages())[1], 'id')
    const { body } = await person.post(`${path}/branches`, { message_id: first, message_ids: [first] })
    return `/api/threads/${textIn(body, 'thread_id')}`
  }
  await chat.send(typed({ text: 'one' }))
  await person.ask('PUT', `${path}/goal`, { body: { objective: 'Report' } })
  await again()
  t.equal(await goalOf(path), 'Report', 'set since')
  t.equal(await goalOf(await branched()), 'Report')
  await chat.send(typed({ text: 'two' }))
  await person.ask('DELETE', `${path}/goal`)
  await again()
  t.equal(await goalOf(path), undefined, 'cleared since')
  t.equal(await goalOf(await branched()), undefined)
  const { input, more } = await editTo(chat, { text: 'three' })
  await chat.send(input, more)
  t.equal(await goalOf(path), undefined, 'an edit brings none back')
})

t.test('no question is edited while a goal is set', async (t) => {
  const chat = await openChat(t)
  const { person, path } = chat
  await chat.send(typed({ text: 'one' }))
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
    const chat = await openChat(t)
    const { person, path } = chat
    await chat.send(typed({ text: 'one' }))
    const sent = chat.send(typed({ text: 'never', hangAfter: 0 }))
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
