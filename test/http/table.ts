// The API table itself, walked: every route with everybody who could knock, against what is expected of it in expected.ts.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { openTokens } from '../../lib/auth/session.ts'
import { PERMISSIONS, type Permission } from '../../lib/base/accounts.ts'
import { BACKENDS, type Backend, type DatabaseSection, databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { EXPECTED, type Expected } from '../fixtures/expected.ts'
import { forget } from '../fixtures/forget.ts'
import { type Answer, listIn, openSite, PASSWORD, Person, type Site, signIn, textIn } from '../fixtures/gateway.ts'
import { type Program, programOf } from '../fixtures/program.ts'
import { FOREIGN, table } from '../fixtures/openapi.ts'
import { ask, bare, furnished, nowhere, places, SECRET, statusOf } from '../fixtures/place.ts'

const JWT_SECRET = 'a-secret-of-the-tests-a-secret-of-the-tests'
const CHANGING = ['POST', 'PUT', 'PATCH', 'DELETE']

/** Names of all routes, as the gateway would serve them. */
const tableNames = (): string[] => table.map(({ method, path }) => `${method} ${path}`)

/** What is refused, in the form of the contract, or of the route's protocol with the same status. */
function refused(
  t: Test,
  answer: Answer,
  expected: { readonly status: number; readonly body: object },
  name: string
): void {
  if (!FOREIGN.has(name)) return void t.match(answer, expected, name)
  t.equal(answer.status, expected.status, `${name}: ${answer.text.slice(0, 200)}`)
  t.notOk(answer.text.includes('"detail"'), `${name}: in the form of its protocol`)
}

interface Walk {
  readonly t: Test
  readonly site: Site
  readonly backend: Backend
  readonly database: DatabaseSection
  readonly owner: Person
}

/** One who knocks: told where, it answers how to check what a route gives it. */
type Column = (walk: Walk) => Promise<(name: string, expected: Expected) => Promise<void>>

/** Everybody who could knock, with what each of them is owed: one entry, one column of the matrix. */
const COLUMNS: Readonly<Record<string, Column>> = {
  async 'the owner'({ t, backend, owner }) {
    const placeOf = places(owner, backend)
    return async (name, expected) => {
      if (expected.reach === 'admin' || expected.reach === 'public') return
      const answer = await ask(owner, name, await placeOf(name))
      t.equal(answer.status, statusOf(expected, backend), `${name}: ${answer.text.slice(0, 200)}`)
    }
  },

  async 'an administrator'({ t, site, backend }) {
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
    return async (name, expected) => {
      if (expected.reach !== 'admin') return
      t.equal((await ask(admin, name, nowhere())).status, statusOf(expected, backend), name)
    }
  },

  async 'an auditor, who reads what administrators read and changes nothing'({ t, site, backend }) {
    const { auditor } = await staff(site)
    return async (name, expected) => {
      if (expected.reach !== 'admin') return
      const isReading = name.startsWith('GET /api/v1/admin/')
      const refused = { status: 403, body: { detail: 'Permission denied: admin' } }
      t.match(await ask(auditor, name, nowhere()), isReading ? { status: statusOf(expected, backend) } : refused, name)
    }
  },

  async 'a service account, by the scopes of its token'({ t, site, backend }) {
    const { admin } = await staff(site)
    const { body } = await admin.post('/api/v1/admin/users', { name: 'robot' })
    const path = `/api/v1/admin/users/${textIn(body, 'id')}/tokens`
    const tokenOf = async (...scopes: Permission[]) => textIn((await admin.post(path, { scopes })).body, 'token')
    const [reading, changing] = [await tokenOf('admin:read'), await tokenOf('admin:users')]
    const bare = new Person(site.url)
    return async (name, expected) => {
      if (expected.reach !== 'admin') return
      for (const [own, token] of [
        ['admin:read', reading],
        ['admin:users', changing]
      ]) {
        const answer = await ask(bare, name, nowhere(), { authorization: `Bearer ${token}` })
        t.equal(answer.status, own === expected.scope ? statusOf(expected, backend) : 403, `${name} with ${own}`)
      }
    }
  },

  async 'another user'({ t, site, backend, owner }) {
    const other = await signIn(site, 'other')
    const there = await furnished(owner, backend)
    const email = textIn((await owner.get('/api/v1/auth/me')).body, 'email')
    return async (name, expected) => {
      // To everybody the same: asked by nobody below. And one of them ends the session.
      if (expected.reach === 'public') return
      const unknown = nowhere()
      const foreign = await ask(other, name, there)
      const missing = await ask(other, name, unknown)
      t.notOk(
        [SECRET, email].some((text) => foreign.text.includes(text)),
        `${name} shows what belongs to somebody else`
      )
      const isUnavailable = backend === 'memory' && expected.statusInMemory === 503
      t.ok(missing.status < 500 || isUnavailable, `${name} for ids that never were: ${missing.status}`)
      switch (expected.reach) {
        case 'everyone':
        case 'self':
          return void t.equal(foreign.status, expected.status ?? 200, name)
        case 'admin':
          return void t.match(foreign, { status: 403, body: { detail: 'Permission denied: admin' } }, name)
        case 'thread':
          t.equal(foreign.status, 404, name)
          // A thread without a record may be read [Auth 6]; where there is nothing to read it must not look different.
          return void (missing.status === 404 && t.strictSame(bare(missing, unknown), bare(foreign, there), name))
        case 'record':
        case 'thing':
          if (!isUnavailable) t.equal(foreign.status, 404, name)
          t.strictSame(bare(missing, unknown), bare(foreign, there), `${name}: foreign and missing are the same`)
      }
    }
  },

  async nobody({ t, site }) {
    const nobody = new Person(site.url)
    return async (name, expected) => {
      const isChanging = CHANGING.includes(name.split(' ')[0] ?? '')
      nobody.cookies.clear()
      const answer = await ask(nobody, name, nowhere())
      if (expected.reach === 'public') return void t.equal(answer.status, expected.status, name)
      if (!isChanging) return refused(t, answer, UNKNOWN, name)
      // Who has only to show a key learns that it is missing.
      if (FOREIGN.has(name)) return refused(t, answer, UNKNOWN, name)
      // Before anything else.
      refused(t, answer, { status: 403, body: { detail: /^CSRF token missing/ } }, name)
      nobody.cookies.set('csrf_token', 'of-my-own-making')
      refused(t, await ask(nobody, name, nowhere()), UNKNOWN, name)
    }
  },

  async 'a revoked or wrong token, without a cookie'({ t, owner }) {
    const revoked = await programOf(owner, ...PERMISSIONS)
    for (const one of listIn((await owner.get('/api/v1/auth/tokens')).body, 'tokens'))
      await owner.ask('DELETE', `/api/v1/auth/tokens/${textIn(one, 'token_id')}`)
    const bare = new Person(owner.url)
    const wrong = `${revoked.token.slice(0, -2)}xx`
    const shown = [revoked.token, wrong].flatMap((token): Record<string, string>[] => [
      { authorization: `Bearer ${token}` },
      { 'x-api-key': token }
    ])
    const invalid = { status: 401, body: { detail: { code: 'token_invalid', message: 'Invalid token' } } }
    return async (name, { reach }) => {
      if (reach === 'public') return
      for (const headers of shown) {
        bare.cookies.clear()
        refused(t, await ask(bare, name, nowhere(), headers), invalid, name)
      }
    }
  },

  async 'whoever has a link to the thread'({ t, site, backend, owner }) {
    const [there, elsewhere] = [await furnished(owner, backend), await furnished(owner, backend)]
    const linkTo = async (files: boolean) => {
      const { body } = await owner.post(`/api/threads/${there.thread_id}/links`, { files })
      return { 'x-share-link': textIn(body, 'link') }
    }
    const [withoutFiles, withFiles] = [await linkTo(false), await linkTo(true)]
    const reader = new Person(site.url)
    let asked = 0
    return async (name, expected) => {
      if (expected.reach === 'public') return
      // From many addresses: one of them has so many requests by links.
      const from = { 'x-real-ip': `10.0.0.${++asked % 16}` }
      for (const secret of [withoutFiles, withFiles]) {
        const link = { ...secret, ...from }
        reader.cookies.clear()
        const answer = await ask(reader, name, there, link)
        const isOpen = expected.link === 'thread' || (expected.link === 'files' && secret === withFiles)
        t.equal(answer.status, isOpen ? statusOf(expected, backend) : 403, `${name}: ${answer.text.slice(0, 200)}`)
        if (!isOpen) t.notOk(answer.text.includes(SECRET), name)
        if (!expected.link) continue
        t.equal(answer.headers.get('x-robots-tag'), 'noindex, nofollow', name)
        const other = await ask(reader, name, elsewhere, link)
        t.equal(other.status, isOpen ? 404 : 403, `${name} of another thread of the same user`)
      }
    }
  },

  async 'a token without the scope'({ t, backend, owner }) {
    const there = await furnished(owner, backend)
    const all = await programOf(owner, ...PERMISSIONS)
    const others = await programs(owner, (scope) => PERMISSIONS.filter((one) => one !== scope))
    return async (name, { reach, scope }) => {
      // Nothing is asked there that a credential could answer.
      if (reach === 'public' || scope === 'any') return
      const answer = await ask(others.get(scope) ?? all, name, there)
      const detail = scope === null ? 'API tokens are not accepted here' : `Permission denied: ${scope}`
      refused(t, answer, { status: 403, body: { detail } }, name)
      t.notOk(answer.text.includes(SECRET))
    }
  },

  async 'a token with that scope alone'({ t, backend, owner }) {
    const only = await programs(owner, (scope) => [scope])
    only.set('any', await programOf(owner))
    const placeOf = places(owner, backend)
    return async (name, expected) => {
      const { scope, besides, reach } = expected
      const program = scope && scope !== 'any' && besides ? await programOf(owner, scope, besides) : only.get(scope)
      if (!program || reach === 'public') return
      const answer = await ask(program, name, await placeOf(name))
      // The scope alone makes nobody an administrator.
      if (reach === 'admin')
        return void t.match(answer, { status: 403, body: { detail: 'Permission denied: admin' } }, name)
      t.equal(answer.status, statusOf(expected, backend), `${name}: ${answer.text.slice(0, 200)}`)
    }
  },

  async 'a deleted user'({ t, site, backend, database }) {
    const ghost = await signIn(site, 'ghost')
    const there = await furnished(ghost, backend)
    if (!(await forget(site, ghost, database))) await never(ghost)
    return async (name, expected) => {
      if (expected.reach === 'public') return
      const answer = await ask(ghost, name, there)
      refused(t, answer, { status: 401, body: { detail: { code: 'user_not_found' } } }, name)
      t.notOk(answer.text.includes(SECRET))
    }
  }
}

/** The administrator, and an auditor. */
async function staff(site: Site): Promise<{ admin: Person; auditor: Person }> {
  const admin = new Person(site.url)
  await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
  const account = { email: 'eyes@example.com', password: PASSWORD, system_role: 'auditor' }
  await admin.post('/api/v1/admin/users', account)
  const auditor = new Person(site.url)
  await auditor.post('/api/v1/auth/login/local', { username: account.email, password: PASSWORD })
  return { admin, auditor }
}

/** For every scope the program with the scopes that `scopesOf` makes of it. */
async function programs(person: Person, scopesOf: (scope: Permission) => readonly Permission[]) {
  const made = new Map<Expected['scope'], Program>()
  for (const scope of PERMISSIONS) made.set(scope, await programOf(person, ...scopesOf(scope)))
  return made
}

const UNKNOWN = { status: 401, body: { detail: { code: 'not_authenticated' } } }

/** Nobody can reach into the memory of a process: an account that never was is as gone. */
async function never(person: Person): Promise<void> {
  const tokens = await openTokens({ home: '/nowhere', secret: JWT_SECRET, expiryDays: 1 })
  person.cookies.set('access_token', await tokens.issue({ id: randomUUID(), token_version: 0 }))
}

t.test('every route of the table has an expectation, and every expectation a route', async (t) => {
  t.strictSame(Object.keys(EXPECTED).toSorted(), tableNames().toSorted())
})

/** The memory store is SQLite without a file: it is walked by those to whom a route says that it is not there. */
const IN_MEMORY = ['the owner', 'another user']

for (const [who, column] of Object.entries(COLUMNS)) {
  onEachBackend(
    t,
    `[Auth 6] [Errors] every route of the table gives ${who} what is expected, and no more`,
    async (t, backend) => {
      const database = await databaseSection(t, backend)
      const server = { trusted_proxies: ['127.0.0.1'] }
      const config = { database, server, auth: { jwt_secret: JWT_SECRET }, sharing: 'public' }
      const site = await openSite(t, { config })
      const check = await column({ t, site, backend, database, owner: await signIn(site, 'owner') })
      for (const [name, expected] of Object.entries(EXPECTED)) await check(name, expected)
    },
    IN_MEMORY.includes(who) ? BACKENDS : BACKENDS.filter((backend) => backend !== 'memory')
  )
}

t.test(
  'no answer in JSON may be kept for another or taken for something else, from any route, to anybody',
  async (t) => {
    const site = await openSite(t, { config: {} })
    const [owner, nobody] = [await signIn(site, 'owner'), new Person(site.url)]
    const placeOf = places(owner, 'sqlite')
    for (const [name, { reach }] of Object.entries(EXPECTED)) {
      // Leaving and new passwords would end what the others are asked with.
      const answers = [await ask(nobody, name, nowhere())]
      if (reach !== 'public' && !name.includes('/auth/')) answers.push(await ask(owner, name, await placeOf(name)))
      for (const { status, headers } of answers) {
        if (!headers.get('content-type')?.startsWith('application/json')) continue
        t.equal(headers.get('x-content-type-options'), 'nosniff', `${name}: ${status}`)
        const cache = headers.get('cache-control') ?? ''
        // The reference, and what a public card says, are everybody's.
        const isPublic = (name === 'GET /openapi.json' || name.endsWith('/agent-card.json')) && status === 200
        const mayBeKept = isPublic ? /^public, / : /^private, no-store/
        t.match(cache, headers.has('etag') ? /^private, no-cache/ : mayBeKept, `${name}: ${status}`)
      }
    }
  }
)

t.test('a page may delete what it has uploaded to a thread that it has not created yet', async (t) => {
  const site = await openSite(t, { config: {} })
  const [person, other] = [await signIn(site), await signIn(site)]
  const path = `/api/threads/${randomUUID()}/uploads`
  const { body, headers } = EXPECTED['POST /api/threads/{thread_id}/uploads']!
  t.equal((await person.ask('POST', path, { body, headers: headers! })).status, 200)
  t.equal((await other.ask('DELETE', `${path}/new.txt`)).status, 404)
  t.equal((await person.ask('DELETE', `${path}/new.txt`)).status, 200)
  t.strictSame(listIn((await person.get(`${path}/list`)).body, 'files'), [])
  t.equal((await person.ask('DELETE', `${path}/new.txt`)).status, 404)
})

t.test('what Accept names with a weight of 0 is refused, by LangGraph’s clients and for the page', async (t) => {
  const site = await openSite(t, { config: {} })
  const person = await signIn(site)
  const missing = (accept: string) => person.get(`/threads/${randomUUID()}`, { headers: { accept } })
  t.match((await missing('application/json')).body, { detail: String })
  t.match((await missing('text/plain, application/json;q=0')).headers.get('content-type'), 'text/plain')
  const home = async (accept: string) => (await person.get('/', { headers: { accept } })).headers.get('content-type')
  t.match(await home('application/json'), 'application/json')
  t.match(await home('application/json;q=0, */*'), 'text/html')
  t.match(await home('text/html;q=0, application/json'), 'application/json')
})
