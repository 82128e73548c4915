// Tokens that act for others: what is refused to a new request ends an open stream too.
import t from 'tap'
import { aUser, write } from '../contract/harness.ts'
import { openBackend } from '../fixtures/backends.ts'
import { apiTokensOf } from '../fixtures/house.ts'

t.test('a stream is that of whoever its token may still act for', async (t) => {
  const store = await openBackend(t, 'sqlite')
  const [boss, ann] = [aUser({ email: 'boss@example.com', system_role: 'admin' }), aUser({ email: 'ann@example.com' })]
  for (const user of [boss, ann]) await write(store, { name: 'user.create', user })
  const tokens = apiTokensOf(store)
  const wanted = { user_id: boss.id, name: 'robot', scopes: ['act:users', 'threads:read'] as const, lifetimeMs: null }
  const { text } = await tokens.create({ ...wanted, scopes: [...wanted.scopes] })
  const { grant } = await tokens.authenticate({ text, onBehalfOf: ann.id })
  t.equal(await tokens.isValid(grant), true)
  const change = (id: string, set: object) => write(store, { name: 'user.update', id, set })
  for (const [id, taken, given] of [
    [boss.id, { system_role: 'user' }, { system_role: 'admin' }],
    [ann.id, { system_role: 'admin' }, { system_role: 'user' }]
  ] as const) {
    await change(id, taken)
    t.equal(await tokens.isValid(grant), false, JSON.stringify(taken))
    await t.rejects(tokens.authenticate({ text, onBehalfOf: ann.id }))
    await change(id, given)
    t.equal(await tokens.isValid(grant), true, JSON.stringify(given))
  }
})
