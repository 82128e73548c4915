// The buttons of DeerFlow's frontend: regenerate, edit, branch, goal, compact, polish, saving an artifact, and how full a conversation is.
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { upload } from '../fixtures/form.ts'
import { asked, at, listIn, openSite, type Person, type Site, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'

interface Scene {
  readonly site: Site
  readonly model: FakeModel
  readonly person: Person
  readonly thread: string
  readonly path: string
  say(text: string, more?: object): Promise<void>
}

async function open(t: Test, more: object = {}): Promise<Scene> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none', context_window: 1000 }]
  const config = { models, title: { enabled: false }, memory: { enabled: false }, ...more }
  const site = await openSite(t, { config })
  const person = await signIn(site)
  const thread = await person.thread()
  const path = `/api/threads/${thread}`
  const say = async (text: string, more: object = {}) => {
    const { status } = await person.post(`${path}/runs/wait`, { ...asked(scripted({ text }), {}), ...more })
    t.equal(status, 200)
  }
  return { site, model, person, thread, path, say }
}

async function messagesOf({ person }: Scene, path: string): Promise<readonly unknown[]> {
  return listIn((await person.get(`${path}/state`)).body, 'values', 'messages')
}

async function idOf(scene: Scene, index: number): Promise<string> {
  return textIn((await messagesOf(scene, scene.path)).at(index), 'id')
}

async function wordsOf(scene: Scene, path = scene.path): Promise<unknown[]> {
  return (await messagesOf(scene, path)).filter((one) => at(one, 'type') === 'ai').map((one) => at(one, 'content'))
}

/** The answers in the feed of a thread. */
async function feedOf({ person, path }: Scene, limit = 50): Promise<unknown[]> {
  const rows = listIn((await person.get(`${path}/messages/page?limit=${limit}`)).body, 'data')
  return rows.filter((row) => at(row, 'event_type') === 'ai_message').map((row) => at(row, 'content', 'content'))
}

t.test('an answer regenerated replaces the old one in the state and in the feed; the log keeps both', async (t) => {
  const scene = await open(t)
  const { person, path, say } = scene
  await say('one')
  await say('two')
  const answer = await person.post(`${path}/runs/regenerate/prepare`, { message_id: await idOf(scene, -1) })
  t.equal(answer.status, 200, answer.text)
  const { input, checkpoint, metadata, target_run_id } = answer.body as Record<string, unknown>
  t.match(metadata, { regenerate_from_run_id: target_run_id })
  t.equal(textIn(input, 'messages', 0, 'id'), await idOf(scene, -2), 'the same question')
  const replayed = await person.post(`${path}/runs/wait`, { input, checkpoint, metadata, assistant_id: 'lead_agent' })
  t.equal(replayed.status, 200, replayed.text)
  t.strictSame(await wordsOf(scene), ['one', 'two'])
  t.strictSame(await feedOf(scene), ['one', 'two'])
  t.strictSame(await feedOf(scene, 1), ['two'], 'a page is as long as it was asked for')
  t.equal(listIn((await person.get(`${path}/runs`)).body).length, 3)
  const events = listIn((await person.get(`${path}/messages`)).body)
  t.equal(events.filter((row) => at(row, 'event_type') === 'ai_message').length, 3)
})

t.test('only the latest answer can be regenerated', async (t) => {
  const scene = await open(t)
  const { person, path, say } = scene
  const prepare = async (message_id: string) =>
    (await person.post(`${path}/runs/regenerate/prepare`, { message_id })).status
  await say('one')
  const first = await idOf(scene, -1)
  await say('two')
  t.equal(await prepare('nobody'), 404)
  t.equal(await prepare(first), 409)
  t.equal(await prepare(await idOf(scene, -2)), 409, 'a question')
  t.equal(await prepare(''), 422)
  const other = await signIn(scene.site, 'other')
  t.equal((await other.post(`${path}/runs/regenerate/prepare`, { message_id: first })).status, 404)
})

t.test('a question edited is asked anew; while the new turn fails, the old one stands', async (t) => {
  const scene = await open(t)
  const { person, path, say } = scene
  await say('one')
  await say('two')
  const prepare = (replacement_text: string, human_message_id: string) =>
    person.post(`${path}/runs/edit-regenerate/prepare`, { replacement_text, human_message_id })
  const question = await idOf(scene, -2)
  const edit = async (script: Parameters<typeof scripted>[0]) => {
    const answer = await prepare(scripted(script), question)
    t.equal(answer.status, 200, answer.text)
    const { input, checkpoint, metadata } = answer.body as Record<string, unknown>
    t.match(answer.body, { replacement_human_message_id: textIn(input, 'messages', 0, 'id') })
    t.equal(listIn(answer.body, 'source_message_ids').length, 2)
    await person.post(`${path}/runs/wait`, { input, checkpoint, metadata, assistant_id: 'lead_agent' })
  }
  await edit({ status: 400, body: '{"error":{"message":"no"}}' })
  t.strictSame(await feedOf(scene), ['one', 'two'], 'the edit that failed is hidden')
  t.equal((await prepare('  ', question)).status, 409)
  const scene2 = await open(t)
  await scene2.say('one')
  const words = await idOf(scene2, -2)
  const again = await scene2.person.post(`${scene2.path}/runs/edit-regenerate/prepare`, {
    replacement_text: scripted({ text: 'better' }),
    human_message_id: words
  })
  const { input, checkpoint, metadata } = again.body as Record<string, unknown>
  await scene2.person.post(`${scene2.path}/runs/wait`, { input, checkpoint, metadata, assistant_id: 'lead_agent' })
  t.strictSame(await wordsOf(scene2), ['better'])
  t.strictSame(await feedOf(scene2), ['better'])
})

t.test('a branch goes on after a turn, with the files if that is the last one', async (t) => {
  const scene = await open(t)
  const { person, path, say, site, thread } = scene
  const me = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const folder = (id: string) => join(site.home, 'users', me, 'threads', id, 'user-data', 'outputs')
  mkdirSync(folder(thread), { recursive: true })
  writeFileSync(join(folder(thread), 'a.txt'), 'a file')
  await say('one')
  const first = await idOf(scene, -1)
  await say('two')
  const branch = async (message_id: string) => {
    const answer = await person.post(`${path}/branches`, { message_id, message_ids: [message_id] })
    t.equal(answer.status, 200, answer.text)
    return answer.body
  }
  const early = await branch(first)
  t.match(early, { parent_thread_id: thread, workspace_clone_mode: 'skipped_historical_turn' })
  const earlyPath = `/api/threads/${textIn(early, 'thread_id')}`
  t.strictSame(await wordsOf(scene, earlyPath), ['one'])
  await person.post(`${earlyPath}/runs/wait`, asked(scripted({ text: 'three' })))
  t.strictSame(await wordsOf(scene, earlyPath), ['one', 'three'])
  t.strictSame(await wordsOf(scene), ['one', 'two'], 'the parent is as it was')
  const late = await branch(await idOf(scene, -1))
  t.match(late, { workspace_clone_mode: 'current_thread_best_effort' })
  t.equal(readFileSync(join(folder(textIn(late, 'thread_id')), 'a.txt'), 'utf8'), 'a file')
  t.match((await person.get(`/api/threads/${textIn(late, 'thread_id')}`)).body, { metadata: { deerflow_branch: true } })
  t.equal((await person.post(`${path}/branches`, { message_id: 'nobody' })).status, 409)
  const other = await signIn(site, 'other')
  t.equal((await other.post(`${path}/branches`, { message_id: first })).status, 404)
})

t.test('a goal is a channel of the thread, and the model is reminded of it until it is cleared', async (t) => {
  const scene = await open(t)
  const { person, model } = scene
  const path = '/api/threads/a-chat-not-saved-yet'
  t.strictSame((await person.get(`${path}/goal`)).body, { goal: null })
  t.equal((await person.ask('PUT', `${path}/goal`, { body: { objective: ' \n ' } })).status, 422)
  const put = await person.ask('PUT', `${path}/goal`, { body: { objective: 'Write  the\nreport' } })
  t.match(put.body, { goal: { objective: 'Write the report', status: 'active', max_continuations: 8 } })
  t.match((await person.get(`${path}/state`)).body, { values: { goal: { objective: 'Write the report' } } })
  const prompt = async () => {
    await person.post(`${path}/runs/wait`, asked(scripted({ text: 'ok' })))
    return JSON.stringify(model.requests.at(-1)?.messages)
  }
  t.match(await prompt(), 'Write the report')
  t.strictSame((await person.ask('DELETE', `${path}/goal`)).body, { goal: null })
  t.notMatch(await prompt(), 'Write the report')
})

t.test('compacting replaces old messages for the model; what is shown stays', async (t) => {
  const scene = await open(t, { summarization: { enabled: true, keep_messages: 2, trigger_messages: 0 } })
  const { person, path, say, model } = scene
  await say('one')
  t.match((await person.post(`${path}/compact`, {})).body, { compacted: false, reason: 'not_enough_messages' })
  await say('two')
  await say('three')
  model.aside = () => ({ text: 'They counted.' })
  const answer = await person.post(`${path}/compact`, {})
  t.match(answer.body, { compacted: true, removed_message_count: 4, preserved_message_count: 2, summary_updated: true })
  model.aside = () => null
  t.strictSame(await wordsOf(scene), ['one', 'two', 'three'])
  await say('four')
  const prompt = JSON.stringify(model.requests.at(-1)?.messages)
  t.match(prompt, 'They counted.')
  t.notMatch(prompt, '"one"')
  const off = await open(t)
  await off.say('one')
  t.equal((await off.person.post(`${off.path}/compact`, {})).status, 409)
})

t.test('a thread with a run in flight is not compacted, and no model is asked in vain', async (t) => {
  const scene = await open(t, { summarization: { enabled: true, keep_messages: 2, trigger_messages: 0 } })
  const { person, thread, path, say, model } = scene
  for (const text of ['one', 'two', 'three']) await say(text)
  await person.run(thread, scripted({ text: 'slow', hangAfter: 0 }))
  await model.request(3)
  t.match(await person.post(`${path}/compact`, {}), { status: 409, body: { detail: /work in flight/ } })
  t.equal(model.requests.length, 4)
})

t.test('a draft is polished by a model call that leaves nothing behind', async (t) => {
  const { person } = await open(t, { input_polish: { max_chars: 500 } })
  const polish = async (text: string) => person.post('/api/input-polish', { text })
  t.match((await polish(scripted({ text: 'Good day.' }))).body, { rewritten_text: 'Good day.', changed: true })
  t.equal((await polish('   ')).status, 400)
  t.equal((await polish('x'.repeat(501))).status, 400)
  t.equal((await polish(scripted({ status: 400 }))).status, 503)
  const off = await open(t, { input_polish: { enabled: false } })
  t.equal((await off.person.post('/api/input-polish', { text: 'x' })).status, 404)
})

t.test(
  'model calls outside runs take turns: one at a time for a user, a few wait, the next is told when to come again',
  async (t) => {
    const { person, site, model, say, path } = await open(t, { summarization: { enabled: true, keep_messages: 1 } })
    await say('one')
    await say('two')
    const draft = scripted({ text: 'Late.', gate: 'turns', gateAfter: 0 })
    const statuses: number[] = []
    const polish = async () => statuses.push((await person.post('/api/input-polish', { text: draft })).status)
    const all = Array.from({ length: 8 }, polish)
    await until(() => statuses.length === 3, 'one is asked, four wait, and three are refused')
    t.strictSame(statuses, [429, 429, 429])
    const body = { messages: [{ role: 'user', content: 'Hello' }] }
    for (const [route, sent] of Object.entries({
      '/api/input-polish': { text: 'Hello' },
      [`${path}/suggestions`]: body,
      [`${path}/compact`]: {}
    })) {
      const refused = await person.post(route, sent)
      t.match(refused, { status: 429, body: { detail: /being asked for you already/ } }, route)
      t.ok(refused.headers.has('retry-after'), 'and when')
    }
    const other = await signIn(site)
    t.equal(
      (await other.post('/api/input-polish', { text: scripted({ text: 'At once.' }) })).status,
      200,
      'nobody else waits'
    )
    model.release('turns')
    await Promise.all(all)
    t.strictSame(statuses.slice(3), [200, 200, 200, 200, 200])
  }
)

t.test('the files of a branch count as those of its thread: more than somebody may have are not copied', async (t) => {
  const scene = await open(t, { uploads: { user_bytes: 2500 } })
  const { person, thread, path, say } = scene
  t.equal((await upload(person, thread, [['a.txt', 'x'.repeat(1000)]])).status, 200)
  await say('one')
  const branch = async () => (await person.post(`${path}/branches`, { message_id: await idOf(scene, -1) })).body
  const filesOf = async (id: string) => at((await person.get(`/api/threads/${id}/uploads/list`)).body, 'count')
  const first = await branch()
  t.match(first, { workspace_clone_mode: 'current_thread_best_effort' })
  t.equal(await filesOf(textIn(first, 'thread_id')), 1)
  const second = await branch()
  t.match(second, { workspace_clone_mode: 'failed' }, 'it is a branch all the same')
  t.equal(await filesOf(textIn(second, 'thread_id')), 0)
  t.equal(await filesOf(thread), 1)
})

t.test('a goal and a branch make no more threads than somebody may have', async (t) => {
  const { person, path, say } = await open(t, { threads: { per_user: 2 } })
  await say('one')
  const [, answer] = listIn((await person.get(`${path}/state`)).body, 'values', 'messages')
  const goal = () => person.ask('PUT', `/api/threads/${randomUUID()}/goal`, { body: { objective: 'Ship it' } })
  t.equal((await goal()).status, 200)
  const full = { status: 409, body: { detail: /You have 2 threads.*threads\.per_user/ } }
  t.match(await goal(), full)
  t.match(await person.post(`${path}/branches`, { message_id: at(answer, 'id') }), full)
})

t.test('an edited artifact is saved if nobody has changed it meanwhile', async (t) => {
  const scene = await open(t)
  const { person, path, site, thread } = scene
  const me = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const folder = join(site.home, 'users', me, 'threads', thread, 'user-data', 'outputs')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'a.md'), 'old')
  writeFileSync(join(folder, 'b.bin'), Buffer.from([0, 255]))
  const sha = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
  const save = (name: string, content: string, expected_sha256: string) =>
    person.ask('PUT', `${path}/artifacts/mnt/user-data/${name}`, { body: { content, expected_sha256 } })
  const saved = await save('outputs/a.md', 'new', sha('old'))
  t.match(saved.body, { path: '/mnt/user-data/outputs/a.md', sha256: sha('new'), size: 3 })
  t.equal(readFileSync(join(folder, 'a.md'), 'utf8'), 'new')
  t.equal((await save('outputs/a.md', 'newer', sha('old'))).status, 412)
  const editors = await Promise.all(['b', 'c', 'd', 'e'].map((content) => save('outputs/a.md', content, sha('new'))))
  const statuses = editors.map(({ status }) => status).toSorted()
  t.strictSame(statuses, [200, 412, 412, 412], 'of those who have read the same, one saves it')
  t.equal((await save('outputs/a.md', 'new', sha(readFileSync(join(folder, 'a.md'))))).status, 200)
  t.equal((await save('outputs/none.md', 'x', sha('x'))).status, 404)
  t.equal((await save('outputs/b.bin', 'x', sha(Buffer.from([0, 255])))).status, 415)
  t.equal((await save('outputs/a.md', 'x'.repeat(2 * 1024 * 1024 + 1), sha('new'))).status, 413)
  t.equal((await save('outputs/a.md', 'x', 'no digest')).status, 422)
  t.equal((await save('uploads/a.md', 'x', sha('x'))).status, 400, 'outside of the outputs, whatever is there')
  symlinkSync(join(folder, 'a.md'), join(folder, 'link.md'))
  t.equal((await save('outputs/link.md', 'x', sha('new'))).status, 415, 'a link is no file that is edited')
  await person.run(thread, scripted({ text: 'slow', hangAfter: 0 }))
  t.equal((await save('outputs/a.md', 'x', sha('new'))).status, 409, 'a run is in flight')
})

t.test(
  'what a run has changed among the files is told for each run, without the differences until they are wanted',
  async (t) => {
    const { person, path, say } = await open(t)
    const write = (content: string) => [{ name: 'write_file', args: JSON.stringify({ path: 'report.md', content }) }]
    const changesOf = async (index: number, query = '') => {
      const runs = listIn((await person.get(`${path}/runs`)).body).toReversed()
      return (await person.get(`${path}/runs/${textIn(runs[index], 'run_id')}/workspace-changes${query}`)).body
    }
    await say('nothing is written')
    await person.post(`${path}/runs/wait`, asked(scripted({ calls: [write('one\ntwo\n')], text: 'done' })))
    await person.post(`${path}/runs/wait`, asked(scripted({ calls: [write('one\n2\n')], text: 'done' })))
    t.match(await changesOf(0), { available: false, files: [], summary: { created: 0, truncated: false }, limits: {} })
    const made = await changesOf(1, '?include_files=true&include_diff=false')
    t.match(made, { available: true, version: 1, summary: { created: 1, modified: 0, additions: 2 } })
    t.match(at(made, 'files', 0), {
      path: '/mnt/user-data/outputs/report.md',
      root: 'outputs',
      status: 'created',
      diff: ''
    })
    const changed = await changesOf(2)
    t.match(changed, { summary: { modified: 1, additions: 1, deletions: 1 }, limits: { max_files: 200 } })
    t.match(at(changed, 'files', 0), { status: 'modified', diff: /-two\n\+2/ })
    t.match(await changesOf(2, '?include_files=false'), { available: true, files: [] })
    const messages = listIn((await person.get(`${path}/messages/page`)).body, 'data')
    t.notOk(
      messages.some((row) => String(at(row, 'event_type')).startsWith('middleware')),
      'it is no message'
    )
  }
)

t.test('how full a conversation is stands beside its usage', async (t) => {
  const scene = await open(t)
  await scene.say('word '.repeat(200))
  const { body } = await scene.person.get(`${scene.path}/token-usage?include_active=false`)
  t.match(body, { total_runs: 1, context_usage: { max_context_tokens: 1000 } })
  const percentage = Number(at(body, 'context_usage', 'percentage'))
  t.ok(percentage > 20 && percentage < 80, `${percentage} %`)
})

const TASK = { title: 'Report', prompt: scripted({ text: 'done' }), timezone: 'Europe/Berlin' }

t.test('a task is scheduled once or again and again, paused, changed, run now and deleted', async (t) => {
  const { person, thread } = await open(t)
  const tasks = '/api/scheduled-tasks'
  const weekly = { ...TASK, schedule_type: 'cron', schedule_spec: { cron: '0 9 * * 1' } }
  const made = await person.post(tasks, weekly)
  t.match(
    made.body,
    { title: 'Report', status: 'enabled', run_count: 0, context_mode: 'fresh_thread_per_run' },
    made.text
  )
  const path = `${tasks}/${textIn(made.body, 'id')}`
  t.match((await person.post(`${path}/pause`)).body, { status: 'paused', next_run_at: null })
  t.match((await person.post(`${path}/resume`)).body, { status: 'enabled', next_run_at: String })
  const moved = await person.ask('PATCH', path, { body: { title: 'Weekly', schedule_spec: { cron: '0 10 * * 1' } } })
  t.match(moved.body, { title: 'Weekly', prompt: TASK.prompt, schedule_spec: { cron: '0 10 * * 1' } })
  t.match((await person.post(`${path}/trigger`)).body, { triggered: true })
  await until(async () => at((await person.get(path)).body, 'run_count') === 1, 'its run is there')
  await until(async () => at((await person.get(path)).body, 'status') === 'enabled', 'its run has ended')
  const [run] = listIn((await person.get(`${path}/runs`)).body)
  t.match(run, { trigger: 'manual', status: 'success', error: null })
  const state = await person.get(`/api/threads/${textIn(run, 'thread_id')}/state`)
  t.equal(at(listIn(state.body, 'values', 'messages').at(-1), 'content'), 'done')
  const reuse = { ...weekly, context_mode: 'reuse_thread' }
  t.equal((await person.post(tasks, reuse)).status, 422, 'a thread is missing')
  t.equal((await person.post(tasks, { ...reuse, thread_id: 'nobody' })).status, 404)
  t.equal((await person.post(tasks, { ...reuse, thread_id: thread })).status, 200)
  t.equal(listIn((await person.get(`/api/threads/${thread}/scheduled-tasks`)).body).length, 1)
  t.equal(listIn((await person.get(tasks)).body).length, 2)
  t.match((await person.ask('DELETE', path)).body, { deleted: true })
  t.equal((await person.get(path)).status, 404)
  t.equal(listIn((await person.get(tasks)).body).length, 1)
})

t.test('what a user says in the thread of a task, and a copy of it, are no runs of the task', async (t) => {
  const { person } = await open(t)
  const weekly = { ...TASK, schedule_type: 'cron', schedule_spec: { cron: '0 9 * * 1' } }
  const path = `/api/scheduled-tasks/${textIn((await person.post('/api/scheduled-tasks', weekly)).body, 'id')}`
  await person.post(`${path}/trigger`)
  const task = async () => (await person.get(path)).body
  await until(async () => at(await task(), 'run_count') === 1, 'its run is there')
  await until(async () => at(await task(), 'status') === 'enabled', 'its run has ended')
  const [run] = listIn((await person.get(`${path}/runs`)).body)
  const [thread, last_run_id] = [textIn(run, 'thread_id'), textIn(run, 'run_id')]
  const going = await person.stream(thread, scripted({ deltas: 1000, rate: 20 }))
  t.match(await task(), { status: 'enabled', last_run_id, run_count: 1 })
  t.equal((await person.post(`${path}/pause`)).status, 200)
  await person.post(`${going.runPath}/cancel?wait=true`)
  t.same(listIn((await person.get(`${path}/runs`)).body), [run])
  t.equal((await person.post(`/api/threads/${thread}/copy`)).status, 200)
  t.match(await task(), { last_run_id, run_count: 1 })
})

t.test('a cron whose metadata says that it is a task, and nothing that a task is, is none', async (t) => {
  const { person } = await open(t)
  const whole = { title: 'x', prompt: 'y', schedule_type: 'cron', schedule_spec: {}, context_mode: 'z' }
  for (const scheduled_task of [{}, [], 'task', { ...whole, title: 1 }, { ...whole, schedule_spec: null }]) {
    const { body } = await person.post('/api/runs/crons', { schedule: '0 0 1 1 *', metadata: { scheduled_task } })
    const path = `/api/scheduled-tasks/${textIn(body, 'cron_id')}`
    t.equal((await person.get(path)).status, 404)
    t.equal((await person.ask('PATCH', path, { body: { timezone: 'UTC' } })).status, 404)
  }
  t.same((await person.get('/api/scheduled-tasks')).body, [])
})

t.test('a task that runs once is due in its own time zone, and never again', async (t) => {
  const { person } = await open(t)
  const once = (run_at: string, timezone = 'Europe/Berlin') =>
    person.post('/api/scheduled-tasks', { ...TASK, timezone, schedule_type: 'once', schedule_spec: { run_at } })
  const year = new Date().getUTCFullYear() + 1
  const summer = await once(`${year}-07-01T12:00:00`)
  t.match(summer.body, { next_run_at: `${year}-07-01T10:00:00.000+00:00`, status: 'enabled' }, summer.text)
  const winter = await once(`${year}-01-01T12:00:00`)
  t.match(winter.body, { next_run_at: `${year}-01-01T11:00:00.000+00:00` })
  t.match((await once(`${year}-01-01T12:00:00Z`)).body, { next_run_at: `${year}-01-01T12:00:00.000+00:00` })
  const exact = await once(`${year}-01-01T12:00:42.500Z`)
  t.match(exact.body, { next_run_at: `${year}-01-01T12:00:42.500+00:00` }, 'not sooner than asked')
  const far = await once(`${year + 3}-03-01T12:00:00`)
  t.match(far.body, { next_run_at: `${year + 3}-03-01T11:00:00.000+00:00` }, 'not on that day of the years before')
  const changes = [
    ['2030-03-10T03:30:00', 'America/New_York', '2030-03-10T07:30:00.000+00:00'],
    ['2030-03-31T01:30:00', 'Europe/Berlin', '2030-03-31T00:30:00.000+00:00'],
    ['2030-11-03T03:30:00', 'America/New_York', '2030-11-03T08:30:00.000+00:00']
  ] as const
  for (const [time, zone, next_run_at] of changes)
    t.match((await once(time, zone)).body, { next_run_at }, `the clock changes on this day in ${zone}`)
  // The clock of Berlin has this hour twice.
  const twice = await once('2030-10-27T01:30:00Z')
  t.match(twice.body, { next_run_at: '2030-10-27T01:30:00.000+00:00' }, 'the second one, which is meant')
  const task = `/api/scheduled-tasks/${textIn(twice.body, 'id')}`
  t.match((await person.post(`${task}/pause`)).body, { status: 'paused', next_run_at: null })
  t.match((await person.post(`${task}/resume`)).body, { next_run_at: '2030-10-27T01:30:00.000+00:00' })
  const cron = { schedule: '2030-10-27T01:30:00Z', assistant_id: 'lead_agent' }
  t.equal((await person.post('/api/runs/crons', cron)).status, 422, 'a cron of LangGraph has five fields')
  t.equal((await once('2020-01-01T12:00:00Z')).status, 422)
  t.equal((await once('soon')).status, 422)
  t.equal((await once(`${year}-07-01T12:00:00`, 'Nowhere/Land')).status, 422)
  const other = { ...TASK, schedule_type: 'cron', schedule_spec: { cron: 'never' } }
  t.equal((await person.post('/api/scheduled-tasks', other)).status, 422)
})
