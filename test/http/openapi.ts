// The description of the API is made of the table that serves it, and what it says of a route, its answers and its events is so.
import { readdirSync, readFileSync } from 'node:fs'
import { validate } from '@readme/openapi-parser'
import t, { type Test } from 'tap'
import type { Agent } from '../../lib/agent/runtime.ts'
import { EVENTS, INNER_EVENT } from '../../lib/routes/openapi-events.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { type Answer, at, listIn, openSite, PASSWORD, Person, signIn } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { document, operation, problemsOf, response, schemaOf, table } from '../fixtures/openapi.ts'
import { ask, nowhere, furnished } from '../fixtures/place.ts'
import type { Frame } from '../fixtures/stream.ts'

const names = table.map(({ method, path }) => `${method} ${path}`)

t.test('it is OpenAPI 3.1, as those who wrote that understand it', async (t) => {
  // The parser resolves references in place.
  const result = await validate(structuredClone(document) as unknown as Parameters<typeof validate>[0])
  t.match(result, { valid: true })
})

t.test('every parameter of a path, a query and a header is described', async (t) => {
  for (const { method, path, query } of table) {
    const name = `${method} ${path}`
    const parameters = listIn(at(operation(name), 'parameters') ?? [])
    const named = (where: string) => parameters.filter((one) => at(one, 'in') === where).map((one) => at(one, 'name'))
    t.same(
      named('path'),
      [...path.matchAll(/\{(\w+)\}/g)].map(([, one]) => one),
      name
    )
    if (query !== null) t.ok(named('query').length > 0, `${name} has a query`)
    for (const one of parameters) t.match(at(one, 'description'), /\w/, `${name}: ${at(one, 'name')}`)
  }
})

t.test('members of a query and headers that handlers read by themselves are described', async (t) => {
  const folder = new URL('../../../lib/routes/', import.meta.url)
  const source = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'))
  const read = (pattern: RegExp) => source.flatMap((text) => [...text.matchAll(pattern)].map(([, name]) => name!))
  const described = JSON.stringify(document).toLowerCase()
  const found = [...read(/listIn\(call, '([\w-]+)'/g), ...read(/searchParams\(call\)\.get(?:All)?\('([\w-]+)'/g)]
  t.ok(found.includes('stream_mode') && found.includes('mode'), `${found}`)
  for (const name of found) t.ok(described.includes(`"name":"${name}","in":"query"`), name)
  for (const name of read(/req\.headers\['([\w-]+)'\]/g))
    t.ok(described.includes(`"name":"${name}","in":"header"`), name)
})

t.test('references lead somewhere, names of operations are unique, schemas are ones', async (t) => {
  const text = JSON.stringify(document)
  for (const [, kind, name] of text.matchAll(/"#\/components\/(\w+)\/([^"]+)"/g))
    t.ok(at(document, 'components', kind!, name!), `${kind} ${name}`)
  const schemas = Object.keys(at(document, 'components', 'schemas') as object)
  for (const name of schemas) t.match(name, /^[A-Za-z0-9._-]+$/, name)
  const ids = [...text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id)
  t.equal(new Set(ids).size, ids.length)
  t.ok(at(document, 'components', 'schemas', 'RunRequest', 'properties', 'multitask_strategy'))
  const list = listIn(at(operation('GET /api/threads/{thread_id}/runs'), 'parameters'))
  t.match(
    list.find((one) => at(one, 'name') === 'limit'),
    { schema: { type: 'integer', minimum: 1, default: 100 } }
  )
})

t.test('no answer of JSON is described as just any object', async (t) => {
  for (const name of names)
    for (const status of Object.keys(at(operation(name), 'responses') as object)) {
      const schema = schemaOf(name, Number(status), 'application/json')
      // A frame, and a part of anything, are what they are.
      const isOfAFrame = name.includes('/frames/') || status === '206'
      if (schema !== null && !isOfAFrame)
        t.ok(
          at(schema, '$ref') ??
            at(schema, 'properties') ??
            at(schema, 'items') ??
            at(schema, 'required') ??
            // With `select`, some members of the one that is named first.
            at(schema, 'anyOf', 0, '$ref') ??
            at(schema, 'additionalProperties', 'type') ??
            at(schema, 'additionalProperties', '$ref') ??
            at(schema, 'format') ??
            (at(schema, 'type') === 'integer' || null),
          `${name} ${status}: ${JSON.stringify(schema)}`
        )
    }
})

// ---------------------------------------------------------------------------------------------------- answers

/** Whatever it answers is described: the status, the form, and each member of it. */
function described(t: Test, name: string, { status, headers, text, body }: Answer): void {
  const told = response(name, status)
  if (!t.ok(told, `${name}: ${status} is described; it was ${text.slice(0, 200)}`)) return
  const type = headers.get('content-type')
  if (text === '' || type?.startsWith('text/event-stream')) return
  const schema = schemaOf(name, status, type)
  if (!t.ok(schema, `${name}: ${status} as ${type}`)) return
  if (type?.startsWith('application/json'))
    t.same(problemsOf(schema, body), [], `${name} ${status}: ${text.slice(0, 300)}`)
}

t.test('what a route answers to who may, to nobody, and to nonsense is what is described', async (t) => {
  const site = await openSite(t)
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const other = await signIn(site, 'other')
  let there = await furnished(admin, 'sqlite')
  for (const [name, { status = 200, reach }] of Object.entries(EXPECTED)) {
    t.ok(response(name, status), `${name}: ${status}`)
    if (reach !== 'public') t.ok(response(name, 401), `${name}: 401`)
    // It ends the session.
    if (!name.endsWith('/logout')) described(t, name, await ask(admin, name, there))
    described(t, name, await ask(other, name, there))
    described(t, name, await ask(new Person(site.url), name, nowhere()))
    const [method = '', path = ''] = name.split(' ')
    if (method === 'GET' || name.endsWith('/logout')) continue
    const filled = path.replace(/\{(\w+)\}/g, (_, part: string) => there[part] ?? '')
    for (const body of ['[]', '{', '{"limit":-1,"metadata":7,"rating":"x"}'])
      described(t, name, await other.ask(method, filled, { body }))
    if (method === 'DELETE') there = await furnished(admin, 'sqlite')
  }
})

t.test(
  'an answer with everything in it is described: tools, a question, files, a skill, a tool server, facts',
  async (t) => {
    const site = await openSite(t)
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
    const threadId = await admin.thread()
    const asks = async (method: string, route: string, body?: unknown, more: Record<string, string> = {}) => {
      const path = route.replace('{thread_id}', threadId).replace(/\{(\w+)\}/g, (_, part: string) => more[part] ?? '')
      const answer = await admin.ask(method, path, { ...(body !== undefined && { body }) })
      described(t, `${method} ${route}`, answer)
      return answer
    }
    const T = '/api/threads/{thread_id}'
    for (const words of [
      '/demo rate=0 reasoning tool=current_time',
      '/demo rate=0 deltas=1 error',
      'Ask me a question'
    ])
      await admin.post(`/api/threads/${threadId}/runs/wait`, {
        input: { messages: [{ role: 'user', content: words }] }
      })
    await asks('GET', T)
    await asks('GET', `${T}/state`)
    await asks('POST', `${T}/history`, { limit: 100 })
    const runs = listIn((await asks('GET', `${T}/runs`)).body)
    t.equal(runs.length, 3)
    for (const run of runs) {
      const run_id = String(at(run, 'run_id'))
      for (const what of ['', '/messages', '/events', '/join'])
        await asks('GET', `${T}/runs/{run_id}${what}`, undefined, { run_id })
    }
    await asks('GET', `${T}/messages`)
    await asks('GET', `${T}/messages/page`)
    await asks('GET', `${T}/token-usage`)
    await asks('POST', '/api/threads/search', { metadata: {} })
    await asks('POST', '/api/memory/facts', { content: 'likes tea' })
    await asks('GET', '/api/memory/status')
    const server = { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { 'X-Key': 'secret' }, enabled: false }
    await asks('PUT', '/api/mcp/config', { mcp_servers: { one: server } })
    await asks('GET', '/api/mcp/config')
    await asks('PATCH', '/api/mcp/config', { server_name: 'one', enabled: false })
  }
)

// ----------------------------------------------------------------------------------------------------- events

/** Names and types of everything in a value, lists by their first item and extras left out: two that look alike have the same. */
function lookOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.length > 0 ? lookOf(value[0]) : ''}]`
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value
  const members = Object.entries(value).map(
    ([key, one]) => `${/^[0-9a-f-]{36}$/.test(key) ? 'id' : key}:${key === 'additional_kwargs' ? '' : lookOf(one)}`
  )
  return `{${members.toSorted().join()}}`
}

t.test('every event that comes is described, and the example of each is one that came', async (t) => {
  const came = new Map<string, Set<string>>()
  const take = ({ event, data, id }: Frame) => {
    const told = EVENTS[event]
    if (!t.ok(told, `${event} is described`)) return
    const body: unknown = JSON.parse(data)
    t.same(problemsOf(told!.data, body), [], `${event}: ${data.slice(0, 300)}`)
    if (told!.isWithoutId) t.equal(id, null, `${event} has no id`)
    came.set(event, (came.get(event) ?? new Set()).add(lookOf(body)))
  }
  const modes = ['messages-tuple', 'values', 'updates', 'custom', 'tasks', 'checkpoints', 'debug']
  const person = await signIn(await openSite(t))
  const fast = ['/demo deltas=8 rate=50', '/demo deltas=2 rate=0 error', '/demo rate=0 reasoning tool=current_time']
  for (const words of [...fast, 'Ask me a question'])
    for (const stream_mode of [modes, ['messages']]) {
      const said = await person.stream(await person.thread(), words, { stream_mode })
      for (const frame of await said.whole()) take(frame)
    }
  const threadId = await person.thread()
  const ended = await person.stream(threadId, '/demo deltas=2 rate=0', { stream_mode: ['values'] })
  await ended.whole()
  const shown = await person.open('GET', `${ended.runPath}/stream?mode=snapshot`)
  for (const frame of await shown.whole()) take(frame)

  // Many threads in one stream, from a place that never was.
  const many = await person.open('GET', '/api/stream?cursor=%40999999')
  await many.until(({ frames }) => frames.some(({ event }) => event === 'resync'))
  await person.run(threadId, '/demo deltas=2 rate=0')
  await many.until(({ frames }) => frames.some(({ data }) => data.includes('run_done')))
  for (const frame of many.frames) take(frame)
  many.leave()

  // What no demo says: an agent that speaks aside.
  const agent: Agent = {
    start: async (_input, sink) => void sink.emit({ type: 'custom', data: { percent: 50 } }),
    models: () => []
  }
  const aside = await signIn(await openSite(t, { agent }))
  for (const frame of await (await aside.stream(await aside.thread(), 'Hello', { stream_mode: ['custom'] })).whole())
    take(frame)

  // What graphs say besides, graphs inside of them included, and where feedback goes.
  const { person: grapher } = await graphSite(t)
  const told = async (assistant_id: string, stream_mode: string[]) => {
    const body = { assistant_id, stream_mode, stream_subgraphs: true, feedback_keys: ['helpful'] }
    return (await grapher.stream(await grapher.thread(), 'look', body)).whole()
  }
  const isInner = ({ event }: Frame) => event.includes('|')
  const spoken = [...(await told('tools', ['tools', 'events'])), ...(await told('nested', ['updates']))]
  for (const frame of spoken) if (!isInner(frame)) take(frame)
  const inner = spoken.filter(isInner)
  t.ok(inner.length > 0, 'a graph inside of a graph speaks')
  for (const frame of inner) t.same(problemsOf(INNER_EVENT, frame), [], frame.event)

  // gap comes when a store has let frames go: test/run/readers.ts makes one.
  const { gap: _, ...others } = EVENTS
  for (const [event, { example, data }] of Object.entries(others)) {
    t.same(problemsOf(data, example), [], `the example of ${event}`)
    t.ok(
      came.get(event)?.has(lookOf(example)),
      `${event} looks like ${lookOf(example)} and not ${[...(came.get(event) ?? [])].join(' or ')}`
    )
  }
})

t.test('every kind of frame that a reader may meet is described', (t) => {
  // Of these a reader sees nothing, or another event's name; extensions go to readers of protocol v2 alone,
  // and messages that have joined the conversation to those of other protocols.
  const hidden: ReadonlySet<string> = new Set(['whole', 'part', 'envelope', 'state', 'extension', 'joined', 'offset'])
  for (const kind of Object.keys(Kind).filter((kind) => !hidden.has(kind))) t.ok(EVENTS[kind], kind)
  t.end()
})

t.test('it is served, to everybody', async (t) => {
  const { url } = await openSite(t)
  const response = await fetch(`${url}/openapi.json`)
  const body: unknown = await response.json()
  t.equal(at(body, 'openapi'), '3.1.0')
  t.ok(listIn(at(body, 'paths', '/api/threads/{thread_id}/runs/stream', 'post', 'tags')).length > 0)
})
