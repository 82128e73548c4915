// DeerFlow's newest page from the first visit to the deletion of a chat, step by step, by the requests that it sends; and its buttons
// beside regenerate and edit, which have suites of their own (deerflow-replay, deerflow). The steps:
//  1 set up, and who is signed in       5 a file goes with the question   9 all that is behind is read back  13 the chat is renamed and found
//  2 features                           6 the question is asked, streamed 10 what to ask next                14 the chat is deleted, files too
//  3 models                             7 reloaded in the middle          11 the answer is rated
//  4 the list of chats                  8 gone on to the end              12 an artifact is opened
import { createHash } from 'node:crypto'
import t from 'tap'
import { openChat, typed, wordsOf } from '../fixtures/deerflow-page.ts'
import { upload } from '../fixtures/form.ts'
import { at, listIn, openSite, PASSWORD, Person, textIn, until } from '../fixtures/gateway.ts'
import { scripted } from '../fixtures/model.ts'

const sha = (text: string) => createHash('sha256').update(text).digest('hex')

t.test('a first visit: set up, session, features and models, and a list of chats that is empty', async (t) => {
  const person = new Person((await openSite(t)).url)
  t.match((await person.get('/api/v1/auth/setup-status')).body, { needs_setup: true })
  t.equal((await person.get('/api/v1/auth/me')).status, 401)
  const account = { email: 'first@example.com', password: PASSWORD }
  t.equal((await person.post('/api/v1/auth/initialize', account)).status, 201)
  t.match((await person.get('/api/v1/auth/me')).body, { email: account.email })
  t.match((await person.get('/api/features')).body, { agents_api: { enabled: true }, mcp_tasks: { enabled: false } })
  t.match((await person.get('/api/models')).body, { models: Array, token_usage: { enabled: Boolean } })
  const search = { limit: 50, offset: 0, sort_by: 'updated_at', sort_order: 'desc', select: ['thread_id', 'values'] }
  t.strictSame((await person.post('/api/threads/search', search)).body, [])
  t.equal((await person.post('/api/threads', {}, { csrf: false })).status, 403, 'without the header of its cookie')
})

t.test('a chat in its steps: asked, reloaded in the middle, read back, rated, renamed and deleted', async (t) => {
  const { person, model, path } = await openChat(t)
  const thread = path.split('/').at(-1)!
  const body = { assistant_id: 'lead_agent', input: typed({ deltas: 20, gate: 'reload', gateAfter: 10 }) }
  const first = await person.open('POST', `${path}/runs/stream`, {
    body: { ...body, stream_mode: ['values', 'messages-tuple'], on_disconnect: 'continue' }
  })
  await first.until(({ frames }) => frames.filter(({ event }) => event === 'messages').length >= 5)
  const runPath = first.runPath
  const last = first.lastId
  first.leave()
  const again = await person.join(runPath, last)
  model.release('reload')
  t.equal(await again.ended, 'whole')
  const whole = Array.from({ length: 20 }, (_, n) => `d${n} `)
    .join('')
    .trim()
  const page = (await person.get(`${path}/messages/page?limit=50`)).body
  t.match(page, { has_more: false, next_before_seq: null })
  const rows = listIn(page, 'data')
  t.strictSame(
    rows.map((row) => at(row, 'content', 'type')),
    ['human', 'ai']
  )
  t.equal(wordsOf(at(rows[1], 'content')).trim(), whole)
  t.ok(Number(at(rows[1], 'content', 'additional_kwargs', 'turn_duration')) >= 1)
  t.match((await person.post(`${path}/history`, { limit: 10 })).body, [{ values: { messages: [{}, {}] } }])
  t.match((await person.get(`${path}/runs`)).body, [{ status: 'success' }])
  model.aside = () => ({ text: '["And then?"]' })
  const said = [
    { role: 'user', content: 'q' },
    { role: 'assistant', content: whole }
  ]
  t.match((await person.post(`${path}/suggestions`, { messages: said, n: 3 })).body, { suggestions: Array })
  model.aside = () => null
  t.equal((await person.ask('PUT', `${runPath}/feedback`, { body: { rating: 1 } })).status, 200)
  const rated = listIn((await person.get(`${path}/messages/page`)).body, 'data').at(-1)
  t.match(rated, { feedback: { rating: 1 } })
  t.equal((await person.post(`${path}/state`, { values: { title: 'Renamed' } })).status, 200)
  const found = async () => listIn((await person.post('/api/threads/search', { limit: 50 })).body)
  t.strictSame(
    (await found()).map((one) => at(one, 'values', 'title')),
    ['Renamed']
  )
  t.equal((await person.ask('DELETE', `/api/threads/${thread}`)).status, 200)
  t.strictSame(await found(), [])
  t.equal((await person.get(`${path}/state`)).status, 404)
})

t.test('a file goes with a question: kept, told to the agent, read, listed, shown again, and deleted', async (t) => {
  const { person, model, path, send, messages } = await openChat(t)
  const thread = path.split('/').at(-1)!
  const { body } = await upload(person, thread, [['notes.md', '# A heading\n\nwords\n']])
  const virtual_path = '/mnt/user-data/uploads/notes.md'
  const artifact_url = `${path}/artifacts${virtual_path}`
  t.match(body, { success: true, files: [{ filename: 'notes.md', size: 19, virtual_path, artifact_url }] })
  const file = { filename: 'notes.md', size: 19, path: virtual_path, status: 'uploaded' }
  const read = { name: 'read_file', args: JSON.stringify({ path: virtual_path }) }
  const script = scripted({ calls: [[read]], text: 'Read.' })
  const question = { type: 'human', content: [{ type: 'text', text: script }], additional_kwargs: { files: [file] } }
  await send({ messages: [question] })
  t.match(JSON.stringify(model.requests[0]?.messages), 'notes.md', 'the agent is told')
  t.match(JSON.stringify(model.requests[1]?.messages.at(-1)), 'A heading', 'and reads it')
  t.match((await messages())[0], { additional_kwargs: { files: [file] } }, 'the page shows it beside the question')
  const rows = listIn((await person.get(`${path}/messages/page?limit=50`)).body, 'data')
  t.match(at(rows[0], 'content'), { additional_kwargs: { files: [{ filename: 'notes.md' }] } }, 'also after a reload')
  t.equal((await person.get(artifact_url)).text, '# A heading\n\nwords\n', 'it opens')
  t.match((await person.get(`${path}/uploads/list`)).body, { files: [{ filename: 'notes.md' }], count: 1 })
  t.equal((await person.ask('DELETE', `${path}/uploads/notes.md`)).status, 200)
  t.match((await person.get(`${path}/uploads/list`)).body, { files: [], count: 0 })
  t.equal((await person.get(artifact_url)).status, 404)
})

t.test('an artifact is opened, edited, lost to another editor, and not saved while a run goes on', async (t) => {
  const { person, path, send } = await openChat(t)
  const call = { name: 'write_file', args: JSON.stringify({ path: 'notes.md', content: 'one\n' }) }
  await send(typed({ calls: [[call]], text: 'written' }))
  const file = `${path}/artifacts/mnt/user-data/outputs/notes.md`
  const preview = await person.get(`${file}?download=false`, { headers: { range: 'bytes=0-1048575' } })
  t.match([preview.status, preview.text], [206, 'one\n'])
  t.equal(preview.headers.get('content-range'), 'bytes 0-3/4')
  const save = (content: string, read: string) =>
    person.ask('PUT', file, { body: { content, expected_sha256: sha(read) } })
  t.match((await save('two\n', 'one\n')).body, { sha256: sha('two\n'), size: 4 })
  t.equal((await save('three\n', 'one\n')).status, 412)
  t.equal((await person.get(file)).text, 'two\n', 'and the other one stays')
  const run = await person.run(path.split('/').at(-1)!, scripted({ hangAfter: 0 }))
  t.equal((await save('three\n', 'two\n')).status, 409)
  await person.post(`${run}/cancel?wait=true&action=interrupt`)
  t.equal((await save('three\n', 'two\n')).status, 200)
})

t.test('a goal, a compaction and a schedule wait for the run at work, and are seen by the page', async (t) => {
  const summarization = { enabled: true, keep_messages: 2, trigger_messages: 0 }
  const { person, model, path, send } = await openChat(t, { summarization })
  const goal = { body: { objective: 'Report' } }
  for (const text of ['one', 'two', 'three']) await send(typed({ text }))
  t.match((await person.ask('PUT', `${path}/goal`, goal)).body, { goal: { status: 'active', continuation_count: 0 } })
  t.match((await person.get(`${path}/goal`)).body, { goal: { objective: 'Report' } })
  const frames = await send(typed({ text: 'four' }))
  const values = JSON.parse(frames.findLast(({ event }) => event === 'values')!.data) as unknown
  t.match(values, { goal: { objective: 'Report' } }, 'a channel of the streamed state')
  const before = (await person.get(`${path}/token-usage?include_active=false`)).body
  t.match(before, { context_usage: { max_context_tokens: 1000, percentage: Number } })
  model.aside = () => ({ text: 'They counted.' })
  const compacted = await person.post(`${path}/compact`, { force: true })
  t.match(compacted.body, { compacted: true, summary_updated: true, checkpoint_id: String }, compacted.text)
  model.aside = () => null
  t.equal(listIn((await person.get(`${path}/messages/page`)).body, 'data').length, 8, 'all messages are shown')
  const run = await person.run(path.split('/').at(-1)!, scripted({ hangAfter: 0 }))
  await until(async () => at((await person.get(run)).body, 'status') === 'running', 'it runs')
  for (const method of ['PUT', 'DELETE'] as const)
    t.equal((await person.ask(method, `${path}/goal`, method === 'PUT' ? goal : {})).status, 409, method)
  t.equal((await person.post(`${path}/compact`, { force: true })).status, 409)
  await person.post(`${run}/cancel?wait=true&action=interrupt`)
  t.strictSame((await person.ask('DELETE', `${path}/goal`)).body, { goal: null })
  const task = { title: 'Daily', prompt: 'Report', schedule_type: 'cron', schedule_spec: { cron: '0 9 * * *' } }
  const thread_id = path.split('/').at(-1)!
  const given = { ...task, timezone: 'UTC', context_mode: 'reuse_thread', thread_id }
  const made = await person.post('/api/scheduled-tasks', given)
  t.equal(made.status, 200, made.text)
  t.match((await person.get(`${path}/scheduled-tasks`)).body, [{ id: textIn(made.body, 'id'), thread_id }])
})

t.test('an agent is set by the dialog alone, and chats of it are as its settings say', async (t) => {
  const { person, model, send } = await openChat(t)
  t.match((await person.get('/api/agents/check?name=Poet')).body, { available: true, name: 'poet' })
  t.equal((await person.post('/api/agents', { name: 'Poet', soul: 'Answer in verse.' })).status, 201)
  const settings = { model: 'main', model_settings: { temperature: 0.5, max_tokens: 64 } }
  const dialog = { ...settings, thinking_enabled: null, reasoning_effort: null }
  t.match((await person.ask('PUT', '/api/agents/poet', { body: dialog })).body, {
    ...settings,
    soul: 'Answer in verse.'
  })
  await send(typed({ text: 'ok' }), { context: { agent_name: 'poet', model_name: 'main' } })
  t.match(model.requests.at(-1)?.body, { temperature: 0.5, max_tokens: 64 })
  t.match(JSON.stringify(model.requests.at(-1)?.messages), 'Answer in verse.')
  t.equal((await person.ask('DELETE', '/api/agents/poet')).status, 204)
  await send(typed({ text: 'ok' }), { context: { agent_name: 'poet', model_name: 'main' } })
  t.notMatch(JSON.stringify(model.requests.at(-1)?.messages), 'Answer in verse.')
})
