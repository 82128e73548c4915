// One path, however it is spelled: what a project says of a route (middlewares and routes of its own, parts that are off, rules about who
// may do what) holds for every spelling of every row of the API table.
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { segmentsOf, spellingsOf, targetOf } from '../../lib/http/request.ts'
import { EXPECTED } from '../fixtures/expected.ts'
import { at, openSite, type Person, type Site, signIn } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { table } from '../fixtures/openapi.ts'
import { nowhere } from '../fixtures/place.ts'
import { IS_LONG } from '../fixtures/size.ts'

const ROWS = Object.keys(EXPECTED)
/** Parts of LangGraph's API, which a project can turn off, and about which its rules are asked. */
const PARTS = ['threads', 'runs', 'assistants', 'store']
const PLACE = nowhere()

interface Answer {
  readonly status: number
  readonly text: string
}

/** Sends a request whose target nobody touches on its way. */
function sender(t: Test, { url }: Site, person: Person) {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  t.teardown(() => agent.destroy())
  const { hostname, port } = new URL(url)
  return (method: string, path: string, headers: Record<string, string> = {}, body?: unknown): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body)
      const own = { ...person.headers(), 'content-type': 'application/json', ...headers }
      const length = { 'content-length': Buffer.byteLength(text) }
      const req = request({ hostname, port, method, path, agent, headers: { ...own, ...(text && length) } }, (res) => {
        const parts: Buffer[] = []
        res.on('data', (part: Buffer) => parts.push(part))
        const isOpen = res.headers['content-type']?.startsWith('text/event-stream')
        if (isOpen) resolve({ status: res.statusCode ?? 0, text: '' })
        if (isOpen) return void res.destroy()
        res.on('end', () => resolve({ status: res.statusCode ?? 0, text: Buffer.concat(parts).toString() }))
      })
      req.on('upgrade', (_res, socket) => {
        socket.destroy()
        resolve({ status: 101, text: '' })
      })
      req.on('error', reject)
      req.end(text)
    })
}

const filled = (path: string) => path.replace(/\{(\w+)\}/g, (_, name: string) => PLACE[name] ?? 'x')
const escaped = (letter: string) => `%${letter.charCodeAt(0).toString(16)}`

/** The ways to write a path of the table that mean the same. Written down here, and not taken from what is tested. */
function waysTo(path: string): string[] {
  const [first, second] = path.slice(1).split('/')
  const below = path.replace(/^\/api/, '')
  const isLangGraphs = first === 'api' && [...PARTS, 'ui'].includes(second!)
  const isOfServer = ['/ok', '/info', '/openapi.json'].includes(path)
  const prefixed =
    first === 'api' || isOfServer
      ? [`/api${below}`, `/api/langgraph${below}`, ...(isLangGraphs || isOfServer ? [below] : [])]
      : [path]
  if (path === '/') return ['/', '/.', '/x/..']
  return prefixed.flatMap((one) => [
    one,
    `${one}/`,
    one.replace(/\/[a-z]/g, (start) => `/${escaped(start[1]!)}`),
    one.replace(/[a-z]+$/, (last) => [...last].map(escaped).join('').toUpperCase()),
    one.replace(/[a-z](?=[^a-z]*$)/, escaped),
    `/./x/..${one}`,
    `/..${one.replace(/\/(?=[^/]*$)/, '/x/.././')}`,
    `http://elsewhere.example${one}`
  ])
}

/** A row's path as a project declares it. */
const pattern = (path: string) => path.replace('{path}', ':path{.+}').replace(/\{(\w+)\}/g, ':$1')

/** A site whose project has this module as http.app, and these settings. */
async function projectSite(t: Test, source: string, settings: object = {}) {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { app: './rules.mjs:app' }, ...settings })
  writeFileSync(join(folder, 'rules.mjs'), source)
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder }, streams: { per_user: 0 } } })
  return { site, person: await signIn(site) }
}

const WEB_SOCKET = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': Buffer.alloc(16).toString('base64')
}

/** In which form a project declares what it says of our routes: LangGraph's, ours, that of old proxies. */
const FORMS: readonly ((path: string) => string)[] = [
  (path) => waysTo(path).at(path === '/' ? 0 : -8)!,
  (path) => path,
  (path) => (path.startsWith('/api/') ? path.replace('/api', '/api/langgraph') : path)
]

for (const shift of FORMS.keys()) {
  if (shift > 0 && !IS_LONG) continue
  t.test("a project's middlewares and routes, declared in any form, are met in every spelling", async (t) => {
    // For half of the rows a middleware, for the other half a route; never a route where people sign in: it would want a user.
    const declared = ROWS.map((row, i) => {
      const [method, path = ''] = row.split(' ')
      return [
        method,
        pattern(FORMS[(i + shift) % FORMS.length]!(path)),
        i % 2 === 0 || path.startsWith('/api/v1/auth'),
        row
      ]
    })
    const { site, person } = await projectSite(
      t,
      `import { Hono } from 'hono'
       export const app = new Hono()
       for (const [method, path, isAround, name] of ${JSON.stringify(declared)}) {
         const refuse = (c, next) => (c.req.header('x-row') === name ? c.text(name, 418) : next())
         if (isAround) app.use(path, refuse)
         else app.on(method, path, refuse)
       }`
    )
    const send = sender(t, site, person)
    const missed = async (row: string, way: string, more: Record<string, string> = {}) => {
      const { status, text } = await send(row.split(' ')[0]!, way, { 'x-row': row, ...more })
      return status === 418 && text === row ? [] : [`${row} as ${way}: ${status} ${text.slice(0, 200)}`]
    }
    for (const row of ROWS) {
      const found = await Promise.all(waysTo(filled(row.split(' ')[1]!)).map((way) => missed(row, way)))
      t.strictSame(found.flat(), [])
    }
    const events = 'GET /api/threads/{thread_id}/stream/events'
    for (const way of waysTo(filled(events.slice(4)))) t.strictSame(await missed(events, way, WEB_SOCKET), [])
  })
}

t.test('what a project allows is decided alike for every spelling, for each thing that is done', async (t) => {
  const settings = { auth: { path: './auth.mjs' } }
  const source = `import { Hono } from 'hono'\nexport const app = new Hono()`
  const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { app: './rules.mjs:app' }, ...settings })
  writeFileSync(join(folder, 'rules.mjs'), source)
  writeFileSync(
    join(folder, 'auth.mjs'),
    `import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'
     export default new Auth().on('*', ({ event, resource, action }) => {
       throw new HTTPException(403, { message: 'asked: ' + resource + ':' + action })
     })`
  )
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  const send = sender(t, site, await signIn(site))
  const decided = new Set<string>()
  for (const row of ROWS) {
    const [method = '', path = ''] = row.split(' ')
    const { part } = table.find((one) => one.method === method && one.path === path)!
    const { query = '', body, headers = {} } = EXPECTED[row]!
    if (!PARTS.includes(part)) continue
    const [first, ...others] = await Promise.all(
      waysTo(filled(path)).map((way) => send(method, way + query, headers, body))
    )
    t.strictSame(others.map(bare), others.fill(first!).map(bare), row)
    decided.add(`${row} ${first!.status} ${at(JSON.parse(first!.text || 'null'), 'detail')}`)
  }
  const asked = [...decided].filter((one) => one.includes('asked: '))
  t.ok(asked.length > 40, `rules were asked before ${asked.length} routes`)
})

/** Of a 404 only that it is one: LangGraph's clients at the root are told so as a bare sentence. */
const bare = ({ status, text }: Answer) => [status, status === 404 ? null : text]

t.test('a part that a project turns off is off in every spelling, and nothing that is left starts a run', async (t) => {
  const off = Object.fromEntries(PARTS.map((part) => [`disable_${part}`, true]))
  const http = { ...off, disable_meta: true }
  const site = await openSite(t, {
    config: { agent: { runtime: 'graphs', config: graphsFolder(t, 'newest', { agent: 'graph' }, { http }) } }
  })
  const send = sender(t, site, await signIn(site))
  for (const row of ROWS) {
    const [method = '', path = ''] = row.split(' ')
    const { part } = table.find((one) => one.method === method && one.path === path)!
    if (![...PARTS, 'ok', 'info'].includes(part)) continue
    const answers = await Promise.all(waysTo(filled(path)).map((way) => send(method, way)))
    t.ok(
      answers.every(({ status }) => status === 404),
      row
    )
  }
})

t.test('with runs turned off neither a command nor a WebSocket starts one', async (t) => {
  const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { http: { disable_runs: true } })
  const site = await openSite(t, { config: { agent: { runtime: 'graphs', config: folder } } })
  const person = await signIn(site)
  const send = sender(t, site, person)
  const thread = await person.thread()
  const command = { id: 1, method: 'run.start', params: { assistant_id: 'agent', input: {} } }
  for (const way of waysTo(`/api/threads/${thread}/commands`))
    t.equal((await send('POST', way, {}, command)).status, 404)
  for (const way of waysTo(`/api/threads/${thread}/stream/events`)) {
    t.equal((await send('GET', way, WEB_SOCKET)).status, 404)
    t.equal((await send('POST', way, {}, { channels: ['lifecycle'] })).status, 404)
  }
  // A body for each route that is left, with all that starts a run in it.
  const body = { id: 1, method: 'run.start', assistant_id: 'agent', input: {}, params: command.params }
  for (const { method, path } of table)
    if (path.includes('{thread_id}') && method === 'POST')
      await send(method, filled(path).replace(PLACE.thread_id!, thread), {}, body)
  t.match((await person.get(`/api/threads/${thread}`)).body, { status: 'idle' })
  t.notOk((await person.get(`/api/threads/${thread}/state`)).text.includes('run_id'))
})

t.test('a path has one form: decoded, without dots, and its spellings lead back to it', async (t) => {
  const id = randomUUID()
  t.strictSame(segmentsOf(`/%74hreads/${id}/./x/../state/`), ['api', 'threads', id, 'state'])
  t.strictSame(spellingsOf('/api/info'), ['/info', '/api/info', '/api/langgraph/info'])
  t.strictSame(spellingsOf('/a%2fb/@c:d%20e/%25'), ['/a%2Fb/@c:d%20e/%25'])
  for (const broken of ['/%', '/%ff', '/a%00b', '/\0']) t.equal(segmentsOf(broken), null)
  // Whoever escapes one means a name: taken as dots it would make `DELETE uploads/%2e%2e` that of the thread.
  for (const name of ['%2e%2e', '.%2e', '%2E.', '%2e']) t.equal(segmentsOf(`/api/threads/${id}/uploads/${name}`), null)
  t.strictSame(segmentsOf('/../../../etc'), ['etc'])
  for (const path of new Set(ROWS.map((row) => filled(row.split(' ')[1]!)))) {
    const back = waysTo(path)
      .flatMap((way) => spellingsOf(targetOf({ url: way }).path))
      .map(segmentsOf)
    t.strictSame(
      back,
      back.map(() => segmentsOf(path)),
      path
    )
  }
})
