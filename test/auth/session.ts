// Sessions: a token becomes its user, until it is logged out, revoked or expired.
import { join } from 'node:path'
import { BARE } from '../fixtures/door.ts'
import t from 'tap'
import { digestOf, openTokens, Sessions } from '../../lib/auth/session.ts'
import { requireUser, route } from '../../lib/http/route.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import { openSqliteStore } from '../../lib/store/sqlite/open.ts'
import { aUser, write } from '../contract/harness.ts'
import { onEachBackend } from '../fixtures/backends.ts'
import { homeOf } from '../fixtures/gateway.ts'
import { Browser, openHouse, refusal, writerOf } from '../fixtures/house.ts'

onEachBackend(t, '[Auth 3] a token is its user, with the row as it is now', async (t, backend) => {
  const { store, sessions, tokens } = await openHouse(t, { backend })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const token = await tokens.issue(user)
  t.match(await sessions.authenticate(token), {
    user,
    grant: { kind: 'session', userId: user.id, digest: digestOf(token), version: user.token_version, permissions: null }
  })
  await write(store, { name: 'user.update', id: user.id, set: { email: 'new@example.com' } })
  t.match(await sessions.authenticate(token), { user: { email: 'new@example.com' } })
  await write(store, { name: 'user.update', id: user.id, set: { token_version: user.token_version + 1 } })
  await t.rejects(sessions.authenticate(token), { code: 'token_revoked', status: 401 })
})

onEachBackend(t, '[Auth 3] failures of a token have codes of their own and one message', async (t, backend) => {
  const { sessions, tokens } = await openHouse(t, { backend })
  const expired = await (await openTokens({ home: '/nowhere', secret: 'x', expiryDays: -1 })).issue({
    id: 'u',
    token_version: 0
  })
  const store = openMemoryStore()
  const elsewhere = new Sessions({
    users: store.users,
    tokens: await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 }),
    writer: writerOf(store),
    onRevoked: () => {},
    log: { warn: () => {} }
  })
  await t.rejects(elsewhere.authenticate(expired), { code: 'token_expired', detail: { message: 'Invalid token' } })
  for (const token of ['junk', '', ' ', expired])
    await t.rejects(sessions.authenticate(token), {
      code: 'token_invalid',
      detail: { code: 'token_invalid', message: 'Invalid token' }
    })
  await t.rejects(sessions.authenticate(await tokens.issue({ id: 'gone', token_version: 0 })), {
    code: 'user_not_found'
  })
})

t.test(
  'a logged-out token is refused, other sessions of the user go on, and whoever listens is told once',
  async (t) => {
    const { store, sessions, tokens, revoked } = await openHouse(t)
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const [one, other] = [await tokens.issue(user), await tokens.issue(user)]
    await sessions.logout(one)
    await t.rejects(sessions.authenticate(one), { code: 'token_revoked' })
    t.match(await sessions.authenticate(other), { user: { id: user.id } })
    t.strictSame(revoked, [{ digest: digestOf(one) }])
    await sessions.logout('junk')
    t.equal(revoked.length, 1, 'what is no token ends nothing')
  }
)

onEachBackend(
  t,
  'a right stands until its session is signed out, its password changed or its user gone',
  async (t, backend) => {
    const { store, sessions, tokens } = await openHouse(t, { backend })
    const user = aUser()
    await write(store, { name: 'user.create', user })
    const [one, other] = [await tokens.issue(user), await tokens.issue(user)]
    const rights = [(await sessions.authenticate(one)).grant, (await sessions.authenticate(other)).grant] as const
    const held = () => Promise.all(rights.map((grant) => sessions.isValid(grant)))
    t.strictSame(await held(), [true, true])
    await sessions.logout(one)
    t.strictSame(await held(), [false, true])
    await write(store, { name: 'user.update', id: user.id, set: { token_version: user.token_version + 1 } })
    t.strictSame(await held(), [false, false])
    t.equal(await sessions.isValid({ ...rights[1], userId: 'nobody' }), false)
  }
)

t.test('a credential that was signed out stays refused after a restart', async (t) => {
  const home = homeOf(t)
  const path = join(home, 'colloquy.db')
  const issued: string[] = []
  for (const life of [1, 2]) {
    const store = await openSqliteStore(path)
    const tokens = await openTokens({ home, secret: null, expiryDays: 7 })
    const sessions = new Sessions({
      users: store.users,
      tokens,
      writer: writerOf(store),
      onRevoked: () => {},
      log: { warn: () => {} }
    })
    if (life === 1) {
      const user = aUser()
      await write(store, { name: 'user.create', user })
      issued.push(await tokens.issue(user), await tokens.issue(user))
      await sessions.logout(issued[0] ?? '')
    }
    await t.rejects(sessions.authenticate(issued[0] ?? ''), { code: 'token_revoked' })
    t.match(await sessions.authenticate(issued[1] ?? ''), { grant: { kind: 'session' } }, 'the other session goes on')
    await store.close()
  }
})

onEachBackend(
  t,
  '[Auth 5] requireUser is 401 by itself on a route that forgot to ask for a session, whatever cookie comes along',
  async (t, backend) => {
    const careless = route({
      ...BARE,
      method: 'GET',
      path: '/careless',
      access: 'public',
      handler: (call) => ({ json: requireUser(call).id })
    })
    const house = await openHouse(t, { backend, routes: [careless] })
    const browser = new Browser(house)
    await browser.register('ann@example.com')
    for (const cookie of [`access_token=${browser.token}`, 'access_token=junk', '']) {
      const answer = await house.door.knock('GET', '/careless', { headers: { cookie } })
      t.match(answer, refusal(401, 'not_authenticated'), cookie.slice(0, 20))
    }
  }
)
