// [Auth 2] on the real table of routes: who changes something repeats the csrf_token, and is asked for it before for anything else.
import t from 'tap'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, openSite, PASSWORD, Person, signIn } from '../fixtures/gateway.ts'

const AUTH = '/api/v1/auth'
const CHANGING = [
  ['POST', '/api/threads'],
  ['POST', '/api/threads/search'],
  ['PATCH', '/api/threads/some'],
  ['DELETE', '/api/threads/some'],
  ['POST', '/api/threads/some/state'],
  ['POST', '/api/threads/some/history'],
  ['POST', '/api/threads/some/runs'],
  ['POST', '/api/threads/some/runs/stream'],
  ['POST', '/api/threads/some/runs/wait'],
  ['POST', '/api/threads/some/runs/other/cancel'],
  ['POST', '/api/threads/some/runs/other/stream'],
  ['PUT', '/api/threads/some/runs/other/feedback'],
  ['DELETE', '/api/threads/some/runs/other/feedback'],
  ['POST', '/api/runs/stream'],
  ['POST', `${AUTH}/change-password`],
  ['POST', '/api/no/such/route']
] as const

onEachBackend(
  t,
  '[Auth 2] without the pair every change is 403 before 401; with it, 401 without a session',
  async (t, backend) => {
    const nobody = new Person((await openSite(t, { config: { database: await databaseSection(t, backend) } })).url)
    const pair = new Person(nobody.url, new Map([['csrf_token', 'of-my-own-making']]))
    for (const [method, path] of CHANGING) {
      const answer = await nobody.ask(method, path, { body: { any: 'thing' } })
      t.equal(answer.status, 403, `${method} ${path}`)
      t.match(answer.body, { detail: 'CSRF token missing. Include X-CSRF-Token header.' })
      t.match(await pair.ask(method, path, { body: {} }), {
        status: 401,
        body: { detail: { code: 'not_authenticated' } }
      })
    }
  }
)

onEachBackend(
  t,
  '[Auth 2] a session alone changes nothing: the header must be there, and equal',
  async (t, backend) => {
    const person = await signIn(await openSite(t, { config: { database: await databaseSection(t, backend) } }))
    const threadId = await person.thread()
    for (const csrf of [false, '', 'guess', `${person.cookies.get('csrf_token')}x`]) {
      for (const path of [`/api/threads/${threadId}/runs`, `/api/threads/${threadId}/runs/stream`])
        t.equal((await person.post(path, asked('x'), { csrf })).status, 403, `${path} with ${csrf}`)
      t.equal((await person.ask('DELETE', `/api/threads/${threadId}`, { csrf })).status, 403)
    }
    t.same((await person.get(`/api/threads/${threadId}/runs`, { csrf: false })).body, [], 'reading needs none')
  }
)

t.test('signing in, up and out is exempt and leaves a new csrf_token, even when it is refused', async (t) => {
  const person = new Person((await openSite(t)).url)
  const wrong = await person.post(
    `${AUTH}/login/local`,
    { email: 'nobody@example.com', password: 'x' },
    { csrf: false }
  )
  t.match(wrong, { status: 401, body: { detail: { code: 'invalid_credentials' } } })
  const [first] = [person.cookies.get('csrf_token')]
  t.match(first, /^[\w-]{86}$/)
  const email = `csrf-${Date.now()}@example.com`
  t.equal((await person.post(`${AUTH}/register`, { email, password: PASSWORD }, { csrf: false })).status, 201)
  t.not(person.cookies.get('csrf_token'), first)
  t.equal((await person.post(`${AUTH}/logout`, {}, { csrf: false })).status, 200)
  t.same([...person.cookies.keys()], [])
})

t.test('a page of another site cannot sign a visitor in', async (t) => {
  const site = await openSite(t)
  const person = new Person(site.url)
  const body = { email: `page-${Date.now()}@example.com`, password: PASSWORD }
  const foreign = await person.post(`${AUTH}/register`, body, { headers: { origin: 'https://evil.example' } })
  t.match(foreign, { status: 403, body: { detail: 'Cross-site auth request denied.' } })
  t.notOk(person.cookies.has('access_token'))
  t.equal((await person.post(`${AUTH}/register`, body, { headers: { origin: site.url } })).status, 201)
})
