// What a client is told that asked for something impossible: one shape for each kind of refusal, and never a 5xx for a bad request.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { asked, at, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'

const AUTH = '/api/v1/auth'

t.test('a request that is not acceptable is 422 and says where', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const cases: [string, string, unknown, string, (string | number)[]][] = [
    ['POST', `${AUTH}/register`, { email: 'a@example.com' }, 'missing', ['body', 'password']],
    [
      'POST',
      `${AUTH}/register`,
      { email: 'a@example.com', password: 'short' },
      'string_too_short',
      ['body', 'password']
    ],
    ['POST', `${AUTH}/register`, { email: 'a@example.com', password: 'password' }, 'value_error', ['body', 'password']],
    ['POST', `${AUTH}/register`, { email: 'none', password: PASSWORD }, 'value_error', ['body', 'email']],
    ['POST', '/api/threads', { metadata: 'text' }, 'dict_type', ['body', 'metadata']],
    ['POST', '/api/threads', { thread_id: 'a b' }, 'string_pattern_mismatch', ['body', 'thread_id']],
    ['POST', '/api/threads/search', { limit: 0 }, 'greater_than_equal', ['body', 'limit']],
    ['POST', `/api/threads/${thread}/runs`, { on_disconnect: 'maybe' }, 'literal_error', ['body', 'on_disconnect']],
    ['POST', `/api/threads/${thread}/runs`, { input: [] }, 'dict_type', ['body', 'input']],
    ['GET', `/api/threads/${thread}/runs?limit=many`, undefined, 'int_parsing', ['query', 'limit']],
    ['GET', `/api/threads/${thread}/messages?before_seq=0`, undefined, 'greater_than_equal', ['query', 'before_seq']],
    ['GET', '/api/threads/a%20b', undefined, 'string_pattern_mismatch', ['path', 'thread_id']],
    [
      'POST',
      '/api/runs',
      { config: { configurable: { thread_id: 'a b' } } },
      'string_pattern_mismatch',
      ['body', 'config', 'configurable', 'thread_id']
    ]
  ]
  for (const [method, path, body, type, loc] of cases) {
    const answer = await person.ask(method, path, body === undefined ? {} : { body })
    t.equal(answer.status, 422, `${method} ${path} ${JSON.stringify(body)}`)
    const [issue] = listIn(answer.body, 'detail')
    t.match(issue, { type, loc, msg: String })
    t.notMatch(textIn(issue, 'msg'), /''|\{[a-z]|undefined/, 'it names the limit')
    t.notMatch(answer.text, PASSWORD, 'a password is never repeated')
  }
  t.match(at((await person.ask('POST', '/api/threads', { body: '{"metadata": ' })).body, 'detail', 0), {
    type: 'json_invalid',
    loc: Array
  })
})

t.test('a schedule that cannot be is refused in words of its writer, wherever it is given', async (t) => {
  const person = await signIn(await openSite(t))
  const cases: [schedule: string, timezone: string, why: RegExp][] = [
    ['* * * * *', 'Mars/Base', /there is no timezone Mars\/Base$/],
    ['* * * * * *', 'UTC', /five fields: minute, hour/],
    ['', 'UTC', /five fields: minute, hour/],
    ['61 * * * *', 'UTC', /: Invalid value for minute: 61$/]
  ]
  const task = { title: 'a', prompt: 'b', schedule_type: 'cron' }
  for (const [schedule, timezone, why] of cases)
    for (const [path, body] of [
      ['/api/runs/crons', { schedule, timezone }],
      [`/api/threads/${await person.thread()}/runs/crons`, { schedule, timezone }],
      ['/api/scheduled-tasks', { ...task, timezone, schedule_spec: { cron: schedule } }]
    ] as const) {
      const { status, body: refused, text } = await person.post(path, body)
      const said = at(refused, 'message') ?? at(refused, 'detail')
      t.ok(
        status === 422 && why.test(String(said)) && !text.includes('Cron'),
        `${path} ${schedule} ${timezone}: ${text}`
      )
    }
})

t.test('what is not there is 404, what cannot be now is 409, both as a text', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const none = randomUUID()
  const refused = async (status: number, detail: string | RegExp, method: string, path: string, body?: object) => {
    const answer = await person.ask(method, path, body ? { body } : {})
    t.equal(answer.status, status, `${method} ${path}`)
    t.match(textIn(answer.body, 'detail'), detail)
  }
  await refused(404, `Thread ${none} not found`, 'GET', `/api/threads/${none}`)
  await refused(404, `Run ${none} not found`, 'GET', `/api/threads/${thread}/runs/${none}`)
  await refused(404, 'Checkpoint', 'GET', `/api/threads/${thread}/state/${none}`)
  await refused(404, 'Checkpoint', 'POST', `/api/threads/${thread}/runs`, asked('x', { checkpoint_id: none }))
  await refused(404, 'Not Found', 'GET', '/api/nothing')
  await refused(405, 'Method Not Allowed', 'PUT', `/api/threads/${thread}`)
  await refused(400, /^Invalid message at/, 'POST', `/api/threads/${thread}/runs`, {
    input: { messages: [{ role: 'nobody', content: 'x' }] }
  })

  const path = await person.run(thread, '/demo deltas=9999 rate=30')
  await until(async () => at((await person.get(path)).body, 'status') === 'running', 'the run starts')
  await refused(409, `Thread ${thread} already has an active run`, 'POST', `/api/threads/${thread}/runs`, asked('y'))
  await refused(409, 'work in flight', 'POST', `/api/threads/${thread}/state`, { values: { title: 'x' } })
  t.equal((await person.post(`${path}/cancel?wait=true`)).status, 204)
  t.equal((await person.post(`${path}/cancel`)).status, 202, 'a second cancel of what was cancelled is fine')
  const done = await person.run(thread, '/demo deltas=1 rate=0')
  await (await person.join(done)).whole()
  await refused(409, 'is not cancellable (status: success)', 'POST', `${done}/cancel`)
})

t.test('failures of a session are one text, with a code for programs', async (t) => {
  const site = await openSite(t)
  const person = await signIn(site)
  const token = person.cookies.get('access_token') ?? ''
  const [head, payload, signature] = token.split('.')
  for (const bad of ['x', `${head}.${payload}.`, `${head}.${payload}.${signature?.toUpperCase()}`, `${token}x`]) {
    const forger = new Person(site.url, new Map([['access_token', bad]]))
    t.match((await forger.get(`${AUTH}/me`)).body, { detail: { code: 'token_invalid', message: 'Invalid token' } })
  }
  t.match((await new Person(site.url).get(`${AUTH}/me`)).body, { detail: { code: 'not_authenticated' } })
})

t.test('what goes wrong after a run is created is said on its stream, which ends', async (t) => {
  const person = await signIn(await openSite(t))
  const stream = await person.stream(await person.thread(), '/demo deltas=3 rate=0 error')
  t.equal(stream.status, 200)
  const frames = await stream.whole()
  t.same(
    frames.slice(-2).map(({ event }) => event),
    ['error', 'end']
  )
  t.match(JSON.parse(frames.at(-2)!.data), { error: 'DemoFailure', message: String })
  t.match((await person.get(stream.runPath)).body, { status: 'error', error: String })
})

t.test('one Idempotency-Key is one run: repeated it is joined, with another request refused', async (t) => {
  const person = await signIn(await openSite(t))
  const thread = await person.thread()
  const asking = (words: string) => ({ body: asked(words), headers: { 'idempotency-key': 'key-1' } })
  const path = `/api/threads/${thread}/runs/stream`
  const first = await person.open('POST', path, asking('/demo deltas=3 rate=0'))
  const frames = await first.whole()
  const again = await person.open('POST', path, asking('/demo deltas=3 rate=0'))
  t.equal(again.runPath, first.runPath)
  t.same(await again.whole(), frames)
  const other = await person.ask('POST', path, asking('something else'))
  t.equal(other.status, 409)
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1)
})
