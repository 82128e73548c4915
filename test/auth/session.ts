// Sessions: a token becomes its user, until it is logged out, revoked or expired.
import t from 'tap'
import { Sessions } from '../../lib/auth/session.ts'
import { digestOf, openTokens } from '../../lib/auth/token.ts'
import { requireUser } from '../../lib/http/guards.ts'
import { route } from '../../lib/http/route.ts'
import { openMemoryStore } from '../../lib/store/memory/open.ts'
import type { UserReads } from '../../lib/store/store.ts'
import { aUser, write } from '../contract/harness.ts'
import { onEachBackend } from '../fixtures/backends.ts'
import { Browser, openHouse, refusal } from '../fixtures/house.ts'

onEachBackend(t, '[Auth 3] a token is its user, with the row as it is now', async (t, backend) => {
  const { store, sessions, tokens } = await openHouse(t, { backend })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const token = await tokens.issue(user)
  t.strictSame(await sessions.authenticate(token), user)
  await write(store, { name: 'user.update', id: user.id, set: { email: 'new@example.com' } })
  t.match(await sessions.authenticate(token), { email: 'new@example.com' })
  await write(store, { name: 'user.update', id: user.id, set: { token_version: user.token_version + 1 } })
  await t.rejects(sessions.authenticate(token), { code: 'token_revoked', status: 401 })
})

onEachBackend(t, '[Auth 3] failures of a token have codes of their own and one message', async (t, backend) => {
  const { sessions, tokens } = await openHouse(t, { backend })
  const expired = await (await openTokens({ home: '/nowhere', secret: 'x', expiryDays: -1 })).issue({
    id: 'u',
    token_version: 0
  })
  const elsewhere = new Sessions({
    users: openMemoryStore().users,
    tokens: await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
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
    t.match(await sessions.authenticate(other), { id: user.id })
    t.strictSame(revoked, [{ credential: digestOf(one) }])
    await sessions.logout('junk')
    t.equal(revoked.length, 1, 'what is no token ends nothing')
  }
)

t.test('a logout while its token is being looked up is not missed', async (t) => {
  const store = openMemoryStore()
  const tokens = await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const token = await tokens.issue(user)
  const users: UserReads = {
    ...store.users,
    async byId(id) {
      await sessions.logout(token)
      return store.users.byId(id)
    }
  }
  const sessions = new Sessions({ users, tokens })
  await t.rejects(sessions.authenticate(token), { code: 'token_revoked' })
})

t.test('as many logged-out tokens as there is space for are remembered, the newest ones', async (t) => {
  const store = openMemoryStore()
  const tokens = await openTokens({ home: '/nowhere', secret: 'x', expiryDays: 7 })
  const user = aUser()
  await write(store, { name: 'user.create', user })
  const sessions = new Sessions({ users: store.users, tokens, deniedMax: 2 })
  const issued = await Promise.all([1, 2, 3].map(() => tokens.issue(user)))
  for (const token of issued) await sessions.logout(token)
  const [oldest, ...newest] = issued
  for (const token of newest) await t.rejects(sessions.authenticate(token), { code: 'token_revoked' })
  t.match(await sessions.authenticate(oldest ?? ''), { id: user.id })
})

onEachBackend(
  t,
  '[Auth 5] requireUser is 401 by itself on a route that forgot to ask for a session, whatever cookie comes along',
  async (t, backend) => {
    const careless = route({
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
