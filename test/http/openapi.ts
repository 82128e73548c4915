// The description of the API is made of the table that serves it, and says of each route what it is and what it answers.
import t from 'tap'
import { loadConfig } from '../../lib/config.ts'
import type { AuthServices } from '../../lib/routes/auth.ts'
import { routes } from '../../lib/routes/index.ts'
import { documentOf } from '../../lib/routes/openapi.ts'
import { EVENTS, WORDS } from '../../lib/routes/openapi-words.ts'
import type { Services } from '../../lib/routes/services.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { at, listIn, openSite, signIn } from '../fixtures/gateway.ts'

const config = loadConfig({ home: '/nowhere', env: {}, cwd: '/nowhere' })
// No handler is called: of all services only the configuration is looked at while the table is made.
const parts = { config } as unknown as Services & AuthServices
const table = routes(parts, parts)
const document = documentOf(table)
const operation = (name: string) => at(document, 'paths', name.split(' ')[1]!, name.split(' ')[0]!.toLowerCase())

t.test('every route has words, and words of a route that is gone are gone too', async (t) => {
  const names = table.map(({ method, path }) => `${method} ${path}`)
  t.same(Object.keys(WORDS).toSorted(), names.toSorted())
  for (const name of names) t.match(at(operation(name), 'summary'), /\w/, name)
})

t.test('every parameter of a path and of a query is described', async (t) => {
  for (const { method, path, query } of table) {
    const name = `${method} ${path}`
    const parameters = (at(operation(name), 'parameters') ?? []) as unknown[]
    const named = (where: string) => parameters.filter((one) => at(one, 'in') === where).map((one) => at(one, 'name'))
    t.same(
      named('path'),
      [...path.matchAll(/\{(\w+)\}/g)].map(([, one]) => one),
      name
    )
    if (query !== null) t.ok(named('query').length > 0, `${name} has a query`)
  }
})

t.test('every status that a route is expected to answer is described', async (t) => {
  for (const [name, { status = 200, reach }] of Object.entries(EXPECTED)) {
    const statuses = Object.keys((at(operation(name), 'responses') ?? {}) as object)
    t.ok(statuses.includes(String(status)), `${name}: ${status} of ${statuses}`)
    if (reach !== 'public') t.ok(statuses.includes('401'), `${name}: 401`)
  }
})

t.test('references lead somewhere, names of operations are unique, schemas are ones', async (t) => {
  const text = JSON.stringify(document)
  for (const [, name] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g))
    t.ok(at(document, 'components', 'schemas', name!), `${name}`)
  const schemas = Object.keys(at(document, 'components', 'schemas') as object)
  for (const name of schemas) t.match(name, /^[A-Za-z0-9._-]+$/, name)
  const ids = [...text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id)
  t.equal(new Set(ids).size, ids.length)
  const run = at(
    operation('POST /api/threads/{thread_id}/runs'),
    'requestBody',
    'content',
    'application/json',
    'schema'
  )
  t.ok(at(run, 'properties', 'multitask_strategy'))
  const list = at(operation('GET /api/threads/{thread_id}/runs'), 'parameters') as unknown[]
  t.ok(list.some((one) => at(one, 'name') === 'offset'))
})

t.test('every event that a run sends in all modes is described', async (t) => {
  const person = await signIn(await openSite(t))
  const threadId = await person.thread()
  const modes = ['messages-tuple', 'messages', 'values', 'updates', 'custom', 'tasks', 'checkpoints', 'debug']
  for (const words of ['/demo deltas=2 rate=0 error', '/demo rate=0 tool=current_time']) {
    for (const mode of modes) {
      const stream = await person.stream(threadId, words, { stream_mode: [mode] })
      for (const { event } of await stream.whole()) t.ok(event in EVENTS, `${event} in mode ${mode}`)
    }
  }
})

t.test('it is served, to everybody', async (t) => {
  const { url } = await openSite(t)
  const response = await fetch(`${url}/openapi.json`)
  const body: unknown = await response.json()
  t.equal(at(body, 'openapi'), '3.1.0')
  t.ok(listIn(at(body, 'paths', '/api/threads/{thread_id}/runs/stream', 'post', 'tags')).length > 0)
})
