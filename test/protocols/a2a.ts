// Agent2Agent 1.0: what its client sends, recorded, by plain fetch, over both bindings.
import t, { type Test } from 'tap'
import { asked, at, listIn, openSite, PASSWORD, Person, signIn, type Site, textIn, until } from '../fixtures/gateway.ts'
import { openReceiver } from '../fixtures/receiver.ts'
import type { Stream } from '../fixtures/stream.ts'

const TALK = '/demo rate=400 deltas=40 reasoning tool=current_time'
const QUESTION = '/demo rate=0 tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'
const AGENT = '/a2a/lead_agent'
const OFF = { memory: { enabled: false }, title: { enabled: false } }

type Json = Record<string, unknown>

async function open(t: Test, config: Json = {}): Promise<{ site: Site; person: Person }> {
  const site = await openSite(t, { config: { ...OFF, ...config } })
  return { site, person: await signIn(site) }
}

let messages = 0
const message = (text: string, more: Json = {}): Json => ({
  message: { messageId: `m${messages++}`, role: 'ROLE_USER', parts: [{ text }], ...more }
})
const rpc = (method: string, params: Json): Json => ({ jsonrpc: '2.0', id: 1, method, params })
const VERSION = { 'a2a-version': '1.0' }

async function ask(person: Person, method: string, params: Json): Promise<Json> {
  return (await person.post(AGENT, rpc(method, params), { headers: VERSION })).body as Json
}
const stream = (person: Person, method: string, params: Json): Promise<Stream> =>
  person.open('POST', AGENT, { body: rpc(method, params), headers: VERSION })
const resultsIn = ({ frames }: Pick<Stream, 'frames'>): unknown[] =>
  frames.map(({ data }) => at(JSON.parse(data) as unknown, 'result'))

/** The texts of a task, artifact by artifact, as a client puts them together: those of the snapshot, and what follows it. */
function textsIn(results: readonly unknown[]): Map<string, string> {
  const texts = new Map<string, string>()
  const add = (artifact: unknown, append: boolean) => {
    const id = textIn(artifact, 'artifactId')
    const text = listIn(artifact, 'parts')
      .map((part) => at(part, 'text') ?? '')
      .join('')
    if (at(artifact, 'name') === 'answer') texts.set(id, (append ? (texts.get(id) ?? '') : '') + text)
  }
  for (const one of results) {
    for (const artifact of (at(one, 'task', 'artifacts') as unknown[] | undefined) ?? []) add(artifact, false)
    const update = at(one, 'artifactUpdate')
    if (update !== undefined) add(at(update, 'artifact'), at(update, 'append') === true)
  }
  return texts
}

/** The answers of a thread's state, by id. */
async function answersOf(person: Person, thread: string): Promise<Map<string, string>> {
  const { body } = await person.get(`/api/threads/${thread}/state`)
  const all = listIn(body, 'values', 'messages').filter((one) => at(one, 'type') === 'ai' && at(one, 'content') !== '')
  return new Map(all.map((one) => [textIn(one, 'id'), textIn(one, 'content')]))
}

const statesIn = (results: readonly unknown[]): unknown[] =>
  results.flatMap((one) => at(one, 'statusUpdate', 'status', 'state') ?? [])

t.test('the card is public, its address follows Host, and an operator closes it', async (t) => {
  const { site } = await open(t)
  const card = (await (await fetch(`${site.url}/.well-known/agent-card.json`)).json()) as Json
  t.match(card, {
    name: 'lead_agent',
    supportedInterfaces: [
      { url: `${site.url}/a2a/lead_agent`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { protocolBinding: 'HTTP+JSON' }
    ],
    capabilities: { streaming: true }
  })
  t.strictSame(await (await fetch(`${site.url}${AGENT}/.well-known/agent-card.json`)).json(), card)
  t.equal((await fetch(`${site.url}/a2a/nobody/.well-known/agent-card.json`)).status, 404)
  const closed = await open(t, { a2a: { public_card: false } })
  t.equal((await fetch(`${closed.site.url}/.well-known/agent-card.json`)).status, 404)
})

t.test('a message becomes a task; its stream and the task are the state; its context goes on', async (t) => {
  const { person } = await open(t)
  const told = await stream(person, 'SendStreamingMessage', message(TALK))
  await told.whole()
  const results = resultsIn(told)
  const id = textIn(results[0], 'task', 'id')
  const contextId = textIn(results[0], 'task', 'contextId')
  t.equal(statesIn(results).at(-1), 'TASK_STATE_COMPLETED')
  const answers = await answersOf(person, contextId)
  t.strictSame(textsIn(results), answers)
  const task = at(await ask(person, 'GetTask', { id }), 'result')
  t.match(task, {
    id,
    contextId,
    status: { state: 'TASK_STATE_COMPLETED' },
    history: [{ role: 'ROLE_USER', parts: [{ text: TALK }] }]
  })
  t.strictSame(textsIn([{ task }]), answers)
  const names = listIn(task, 'artifacts').map((one) => at(one, 'name'))
  for (const name of ['answer', 'reasoning', 'tool_call', 'tool_result']) t.ok(names.includes(name), name)

  const again = await ask(person, 'SendMessage', message('hello', { contextId }))
  t.match(again, { result: { task: { contextId, status: { state: 'TASK_STATE_COMPLETED' } } } })
  const list = at(await ask(person, 'ListTasks', { contextId }), 'result')
  t.match(list, { totalSize: 2, nextPageToken: '', tasks: [{ id: textIn(again, 'result', 'task', 'id') }, { id }] })
  t.match(await ask(person, 'ListTasks', { contextId, pageSize: 1 }), {
    result: { nextPageToken: '1', tasks: [{}], pageSize: 1 }
  })
  t.match(await ask(person, 'SubscribeToTask', { id }), {
    error: { code: -32004, data: [{ reason: 'UNSUPPORTED_OPERATION' }] }
  })
  t.match(await ask(person, 'CancelTask', { id }), { error: { code: -32002 } })
})

t.test('who subscribes gets the task as it stands and exactly what follows, however often he is cut', async (t) => {
  const { person } = await open(t)
  const first = await stream(
    person,
    'SendStreamingMessage',
    message('/demo rate=100 deltas=300 reasoning tool=current_time')
  )
  await first.untilFrames(4)
  const id = textIn(resultsIn(first)[0], 'task', 'id')
  const thread = textIn(resultsIn(first)[0], 'task', 'contextId')
  first.leave()
  for (let cut = 0; cut < 5; cut++) {
    const again = await stream(person, 'SubscribeToTask', { id })
    await again.untilFrames(3 + cut)
    again.leave()
  }
  const last = await stream(person, 'SubscribeToTask', { id })
  await last.whole()
  t.strictSame(textsIn(resultsIn(last)), await answersOf(person, thread))
  t.match(resultsIn(last).at(-1), { statusUpdate: { taskId: id, status: { state: 'TASK_STATE_COMPLETED' } } })
})

t.test('a question is INPUT_REQUIRED, and a message with the same taskId goes on with the task', async (t) => {
  const { person } = await open(t)
  const asking = await ask(person, 'SendMessage', message(QUESTION, { contextId: 'my own name' }))
  t.match(asking, {
    result: {
      task: {
        contextId: 'my own name',
        status: { state: 'TASK_STATE_INPUT_REQUIRED', message: { parts: [{ text: 'Which colour?' }] } }
      }
    }
  })
  const taskId = textIn(asking, 'result', 'task', 'id')
  const answer = await stream(person, 'SendStreamingMessage', message('Blue', { taskId, contextId: 'my own name' }))
  await answer.whole()
  t.match(resultsIn(answer)[0], { task: { id: taskId, contextId: 'my own name' } })
  t.match(resultsIn(answer).at(-1), {
    statusUpdate: { taskId, contextId: 'my own name', status: { state: 'TASK_STATE_COMPLETED' } }
  })
  t.match(await ask(person, 'GetTask', { id: taskId }), { result: { status: { state: 'TASK_STATE_COMPLETED' } } })
  t.match(await ask(person, 'ListTasks', { contextId: 'my own name' }), {
    result: { totalSize: 1, tasks: [{ id: taskId }] }
  })
  t.match(await ask(person, 'SendMessage', message('again', { taskId })), { error: { code: -32004 } })
  const next = await ask(person, 'SendMessage', message('hello', { contextId: 'my own name' }))
  t.match(next, { result: { task: { contextId: 'my own name' } } })
  t.equal(at(next, 'result', 'task', 'metadata', 'thread_id'), at(asking, 'result', 'task', 'metadata', 'thread_id'))
})

t.test('a message to a task at work is given to the agent, and is no task of its own', async (t) => {
  const { person } = await open(t)
  const configuration = { returnImmediately: true }
  const begun = await ask(person, 'SendMessage', { ...message('/demo rate=30 deltas=60'), configuration })
  const taskId = textIn(begun, 'result', 'task', 'id')
  // Before its first call of the model it would get both messages at once.
  const isAnswering = async () =>
    JSON.stringify(at(await ask(person, 'GetTask', { id: taskId }), 'result', 'artifacts') ?? []).includes('"text"')
  await until(isAnswering, 'it answers')
  const steered = await ask(person, 'SendMessage', message('In French, please', { taskId }))
  t.match(steered, { result: { task: { id: taskId, status: { state: 'TASK_STATE_COMPLETED' } } } })
  const { body } = await person.get(`/api/threads/${textIn(begun, 'result', 'task', 'contextId')}/state`)
  const types = listIn(body, 'values', 'messages').map((one) => at(one, 'type'))
  t.strictSame(types, ['human', 'ai', 'human', 'ai'])
})

t.test('the end of a task, and its question, are posted where its message has said', async (t) => {
  const receiver = await openReceiver(t)
  const { person } = await open(t, { webhooks: { allowed_networks: ['127.0.0.0/8'] } })
  const taskPushNotificationConfig = {
    url: receiver.url,
    token: 'secret',
    authentication: { scheme: 'Bearer', credentials: 'x' }
  }
  const asking = await ask(person, 'SendMessage', {
    ...message(QUESTION),
    configuration: { taskPushNotificationConfig }
  })
  const taskId = textIn(asking, 'result', 'task', 'id')
  await ask(person, 'SendMessage', message('Blue', { taskId }))
  await until(() => receiver.bodies.length === 2, 'both notifications')
  t.match(receiver.heads[0], { 'x-a2a-notification-token': 'secret', authorization: 'Bearer x' })
  const states = receiver.bodies.map((body) => at(JSON.parse(body), 'task', 'status', 'state'))
  t.strictSame(states.sort(), ['TASK_STATE_COMPLETED', 'TASK_STATE_INPUT_REQUIRED'])
  for (const body of receiver.bodies) t.equal(at(JSON.parse(body), 'task', 'id'), taskId)
  t.match(await ask(person, 'ListTaskPushNotificationConfigs', { taskId }), {
    result: { configs: [{ id: 'default', url: receiver.url }] }
  })
  const odd = { url: 'file:///etc/passwd' }
  const refused = await ask(person, 'SendMessage', {
    ...message('x'),
    configuration: { taskPushNotificationConfig: odd }
  })
  t.match(refused, { error: { code: -32602 } })
})

t.test(
  'an address is told of a task that is at work already, of any protocol, and of each of its ends once',
  async (t) => {
    const [first, second] = [await openReceiver(t), await openReceiver(t)]
    const { site, person } = await open(t, { webhooks: { allowed_networks: ['127.0.0.0/8'] } })
    const row = await person.run(await person.thread(), '/demo rate=50 deltas=100000')
    const taskId = row.split('/').at(-1)!
    const set = (more: Json) => ask(person, 'CreateTaskPushNotificationConfig', { taskId, ...more })
    t.match(await set({ url: second.url }), { result: { taskId, id: 'default', url: second.url } })
    t.match(await set({ url: first.url, token: 'secret' }), { result: { id: 'default', token: 'secret' } }, 'replaced')
    t.match(await set({ url: second.url, id: 'other' }), { result: { id: 'other' } })
    const configs = async () =>
      listIn(await ask(person, 'ListTaskPushNotificationConfigs', { taskId }), 'result', 'configs')
    t.strictSame((await configs()).map((one) => at(one, 'id')).sort(), ['default', 'other'])
    t.match(await ask(person, 'GetTaskPushNotificationConfig', { taskId, id: 'other' }), {
      result: { url: second.url }
    })
    t.match(await ask(person, 'DeleteTaskPushNotificationConfig', { taskId, id: 'other' }), { result: {} })
    t.match(await ask(person, 'DeleteTaskPushNotificationConfig', { taskId, id: 'other' }), { error: { code: -32001 } })
    const stranger = await signIn(site)
    for (const [method, more] of [
      ['CreateTaskPushNotificationConfig', { url: second.url }],
      ['GetTaskPushNotificationConfig', { id: 'default' }],
      ['ListTaskPushNotificationConfigs', {}],
      ['DeleteTaskPushNotificationConfig', { id: 'default' }]
    ] as const)
      t.match(await ask(stranger, method, { taskId, ...more }), { error: { code: -32001 } }, method)
    for (const wrong of [{}, { url: 'file:///etc/passwd' }, { url: first.url, id: 'a/b' }, { url: 'http://' }])
      t.match(await set(wrong), { error: { code: -32602 } })
    for (let more = 0; more < 7; more++) await set({ url: second.url, id: `m${more}` })
    t.match(await set({ url: second.url, id: 'one too many' }), { error: { code: -32602 } })
    for (let more = 0; more < 7; more++)
      await ask(person, 'DeleteTaskPushNotificationConfig', { taskId, id: `m${more}` })
    await person.post(`${row}/cancel?wait=true`)
    await until(() => first.bodies.length === 1, 'its end')
    t.match(first.heads[0], { 'x-a2a-notification-token': 'secret' })
    t.match(JSON.parse(first.bodies[0]!), { task: { id: taskId, status: { state: 'TASK_STATE_CANCELED' } } })
    t.strictSame(second.bodies, [])
  }
)

t.test(
  'what is set later takes the place of what came with the message, and is told of a task that has ended',
  async (t) => {
    const [inline, later] = [await openReceiver(t), await openReceiver(t)]
    const { person } = await open(t, { webhooks: { allowed_networks: ['127.0.0.0/8'] } })
    const begin = async (words: string) => {
      const configuration = { returnImmediately: true, taskPushNotificationConfig: { url: inline.url } }
      return textIn(await ask(person, 'SendMessage', { ...message(words), configuration }), 'result', 'task', 'id')
    }
    const deleted = await begin('/demo rate=20 deltas=20')
    const path = `${AGENT}/tasks/${deleted}/pushNotificationConfigs`
    t.equal((await person.ask('DELETE', `${path}/default`)).status, 204)
    t.match(await person.get(path), { status: 200, body: { configs: [] } })
    t.equal((await person.get(`${path}/default`)).status, 404)
    const asking = await begin(QUESTION)
    const state = async (id: string) => at(await ask(person, 'GetTask', { id }), 'result', 'status', 'state')
    await until(async () => (await state(asking)) === 'TASK_STATE_INPUT_REQUIRED', 'it asks')
    await until(() => inline.bodies.length === 1, 'its question is told')
    const other = `${AGENT}/tasks/${asking}/pushNotificationConfigs`
    t.match(await person.post(other, { url: later.url, id: 'default' }), { status: 201, body: { taskId: asking } })
    await until(() => later.bodies.length === 1, 'the question is told at once')
    t.match(JSON.parse(later.bodies[0]!), { task: { id: asking, status: { state: 'TASK_STATE_INPUT_REQUIRED' } } })
    await until(async () => (await state(deleted)) === 'TASK_STATE_COMPLETED', 'the other one has ended')
    t.equal(inline.bodies.length, 1, 'nothing of what was deleted')
  }
)

t.test('where webhooks may not go no push goes: it stays with its operator, as theirs do', async (t) => {
  const receiver = await openReceiver(t)
  const { site } = await open(t, { webhooks: { attempts: 1 } })
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const configuration = { taskPushNotificationConfig: { url: receiver.url } }
  const withMessage = await ask(admin, 'SendMessage', { ...message('/demo rate=0 deltas=1'), configuration })
  t.match(withMessage, { result: { task: { status: { state: 'TASK_STATE_COMPLETED' } } } })
  const other = await ask(admin, 'SendMessage', message('/demo rate=0 deltas=1'))
  const taskId = textIn(other, 'result', 'task', 'id')
  t.match(await ask(admin, 'CreateTaskPushNotificationConfig', { taskId, url: receiver.url }), { result: { taskId } })
  const dead = async () => listIn((await admin.get('/api/v1/admin/jobs?dead=true')).body, 'jobs')
  await until(async () => (await dead()).length === 2, 'both are given up')
  t.strictSame(receiver.bodies, [])
})

t.test('the same methods over HTTP+JSON', async (t) => {
  const { person } = await open(t)
  const told = await person.open('POST', `${AGENT}/message:stream`, { body: message('/demo rate=30 deltas=9000') })
  await told.untilFrames(3)
  const id = textIn(JSON.parse(told.frames[0]!.data), 'task', 'id')
  t.match((await person.get(`${AGENT}/tasks/${id}`)).body, { id, status: { state: 'TASK_STATE_WORKING' } })
  const joined = await person.open('POST', `${AGENT}/tasks/${id}:subscribe`, {})
  await joined.untilFrames(2)
  t.match((await person.post(`${AGENT}/tasks/${id}:cancel`)).body, { id, status: { state: 'TASK_STATE_CANCELED' } })
  await Promise.all([told.whole(), joined.whole()])
  t.match(JSON.parse(joined.frames.at(-1)!.data), { statusUpdate: { status: { state: 'TASK_STATE_CANCELED' } } })
  t.match((await person.get(`${AGENT}/tasks?pageSize=5`)).body, { tasks: [{ id }], totalSize: 1 })
  t.match((await person.post(`${AGENT}/message:send`, message('hello'))).body, {
    task: { status: { state: 'TASK_STATE_COMPLETED' } }
  })
  t.match(await person.get(`${AGENT}/tasks/none`), {
    status: 404,
    body: { error: { code: 404, status: 'NOT_FOUND', details: [{ reason: 'TASK_NOT_FOUND' }] } }
  })
})

t.test('what is wrong is refused in the words of the protocol, and tasks of others are not there', async (t) => {
  const { site, person } = await open(t)
  const refused = (code: number) => ({ error: { code, message: /./ } })
  t.match(
    (await person.post(AGENT, rpc('GetTask', { id: 'x' }), { headers: { 'a2a-version': '0.3' } })).body,
    refused(-32009)
  )
  t.match(await ask(person, 'message/send', {}), refused(-32601))
  for (const params of [
    {},
    { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'x' }] } },
    { message: { messageId: 'm', role: 'ROLE_USER', parts: [] } },
    { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ nothing: 1 }] } },
    { message: { role: 'ROLE_USER', parts: [{ text: 'x' }] } }
  ])
    t.match(await ask(person, 'SendMessage', params), refused(-32602), JSON.stringify(params))
  t.match(
    await ask(person, 'SendMessage', {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ raw: 'AAAA', mediaType: 'video/mp4' }] }
    }),
    refused(-32005)
  )
  t.match(
    await ask(person, 'CreateTaskPushNotificationConfig', { taskId: 'x', url: 'http://127.0.0.1/' }),
    refused(-32001)
  )
  t.match(await person.post('/a2a/nobody', rpc('GetTask', { id: 'x' })), { status: 404, body: refused(-32000) })
  t.match(await person.post(AGENT, '{'), { status: 400, body: refused(-32700) })
  t.match(await ask(person, 'ListTasks', { status: 'DONE' }), refused(-32602))
  t.match(await ask(person, 'ListTasks', { status: 'TASK_STATE_REJECTED' }), { result: { tasks: [] } })
  for (const query of ['pageSize=many', 'pageSize=-1', 'pageToken=x', 'historyLength=x', 'statusTimestampAfter=soon'])
    t.match(await person.get(`${AGENT}/tasks?${query}`), { status: 400, body: refused(400) }, query)
  t.match(await person.get(`${AGENT}/tasks?status=DONE`), { status: 400, body: refused(400) })
  for (const [method, path, status, code] of [
    ['GET', AGENT, 405, -32000],
    ['POST', '/a2a', 404, -32000],
    ['PUT', `${AGENT}/tasks`, 405, 405],
    ['GET', `${AGENT}/message:send`, 405, 405],
    ['POST', `${AGENT}/message:other`, 404, 404],
    ['GET', `${AGENT}/extendedAgentCard`, 404, 404],
    ['PUT', `${AGENT}/.well-known/agent-card.json`, 405, 405]
  ] as const)
    t.match(
      await person.ask(method, path),
      { status, body: refused(code) },
      `${method} ${path}: in the form of its binding`
    )
  const anybody = { 'content-type': 'application/json', authorization: 'Bearer clq_nobody' }
  for (const [path, code] of [
    [AGENT, -32000],
    [`${AGENT}/message:send`, 401]
  ] as const) {
    const response = await fetch(site.url + path, { method: 'POST', headers: anybody, body: '{}' })
    t.match({ status: response.status, body: await response.json() }, { status: 401, body: refused(code) })
  }
  const stranger = await signIn(site)
  const thread = await stranger.thread()
  const theirs = textIn((await stranger.post(`/api/threads/${thread}/runs`, asked('hello'))).body, 'run_id')
  for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask']) {
    const [foreign, none] = await Promise.all([theirs, 'x'].map((id) => ask(person, method, { id })))
    t.match(foreign, refused(-32001))
    t.match(none, refused(-32001))
  }
  t.match(await ask(person, 'ListTasks', { contextId: thread }), { result: { tasks: [], totalSize: 0 } })
  const own = await ask(person, 'SendMessage', message('hello', { contextId: thread }))
  t.not(at(own, 'result', 'task', 'metadata', 'thread_id'), thread, 'an id of somebody else is a name like any other')
})

t.test('tasks are listed by their last change, and those that have changed since then', async (t) => {
  const { person } = await open(t)
  const asking = textIn(await ask(person, 'SendMessage', message(QUESTION)), 'result', 'task', 'id')
  const other = textIn(await ask(person, 'SendMessage', message('hello')), 'result', 'task', 'id')
  const list = async (more: Json = {}) => listIn(await ask(person, 'ListTasks', more), 'result', 'tasks')
  const idsIn = (tasks: readonly unknown[]) => tasks.map((one) => at(one, 'id'))
  t.strictSame(idsIn(await list()), [other, asking])
  await ask(person, 'SendMessage', message('Blue', { taskId: asking }))
  const tasks = await list()
  t.strictSame(idsIn(tasks), [asking, other])
  const statusTimestampAfter = textIn(tasks[0], 'status', 'timestamp')
  t.strictSame(idsIn(await list({ statusTimestampAfter })), [asking])
  t.strictSame(idsIn(await list({ statusTimestampAfter: '2999-01-01T00:00:00Z' })), [])
})

t.test('a run that takes its thread with it is in no list, and found by its id', async (t) => {
  const { person } = await open(t)
  const { body } = await person.post('/api/runs', { ...asked('hello'), on_completion: 'delete' })
  t.strictSame(listIn(await ask(person, 'ListTasks', {}), 'result', 'tasks'), [])
  const id = textIn(body, 'run_id')
  t.equal(textIn(await ask(person, 'GetTask', { id }), 'result', 'id'), id)
})

t.test('a run whose client has a task_id of its own in its metadata is a task like any other', async (t) => {
  const { person } = await open(t)
  const body = { ...asked(QUESTION), metadata: { task_id: 'T-1' } }
  const thread = await person.thread()
  await person.post(`/api/threads/${thread}/runs/wait`, body)
  const [task] = listIn(await ask(person, 'ListTasks', {}), 'result', 'tasks')
  t.match(task, { contextId: thread, status: { state: 'TASK_STATE_INPUT_REQUIRED' } })
  const accept = { accept: 'application/json, text/event-stream' }
  const result = { action: 'accept', content: { answer: 'Blue' } }
  const answer = { jsonrpc: '2.0', id: `question-${textIn(task, 'id')}`, result }
  t.equal((await person.post('/mcp', answer, { headers: accept })).status, 202, 'its question is answered by MCP')
  const of = { id: textIn(task, 'id') }
  await until(
    async () => /COMPLETED/.test(textIn(await ask(person, 'GetTask', of), 'result', 'status', 'state')),
    'it has gone on'
  )
  t.equal(listIn(await ask(person, 'ListTasks', {}), 'result', 'tasks').length, 1, 'under its id')
})
