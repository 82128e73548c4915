// Obligations of ApiTokenReads and the ops of API tokens.
import { createHash, randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import type { ApiToken } from '../../lib/base/accounts.ts'
import { addThread, aUser, durableRules, type Open, refuses, rules, time, userArgument, write } from './harness.ts'

const MAX = 100

export function anApiToken(set: Partial<ApiToken> = {}): ApiToken {
  const token_id = set.token_id ?? randomUUID()
  return {
    token_id,
    user_id: 'ann',
    name: 'nightly script',
    digest: createHash('sha256').update(token_id).digest('hex'),
    scopes: ['runs:create', 'threads:read'],
    created_at: time(0),
    expires_at: null,
    last_used_at: null,
    ...set
  }
}

export function apiTokenStoreContract(t: Test, open: Open): void {
  const test = rules(t, open)
  const durable = durableRules(t, open)

  test('an API token is found by its digest with its user, field for field', async (t, store) => {
    const user = aUser()
    const token = anApiToken({ user_id: user.id, expires_at: time(9), last_used_at: time(3), scopes: [] })
    await write(store, { name: 'user.create', user })
    t.equal(await write(store, { name: 'apiToken.create', token, max: MAX }), 'created')
    t.strictSame(await store.apiTokens.byDigest(token.digest), { token, user })
    t.equal(await store.apiTokens.byDigest('0'.repeat(64)), null)
    t.equal(await store.apiTokens.byDigest("' OR 1=1 --"), null)
  })

  test('the API token of an account that is gone is found, with no user', async (t, store) => {
    const token = anApiToken({ user_id: 'gone' })
    await write(store, { name: 'apiToken.create', token, max: MAX })
    t.strictSame(await store.apiTokens.byDigest(token.digest), { token, user: null })
  })

  test('API tokens are listed newest first, each user his own [Auth 7]', async (t, store) => {
    const tokens = [3, 1, 2].map((second) => anApiToken({ created_at: time(second) }))
    for (const token of tokens) await write(store, { name: 'apiToken.create', token, max: MAX })
    const [newest, oldest, middle] = tokens
    t.strictSame(await store.apiTokens.list('ann'), [newest, middle, oldest])
    await write(store, { name: 'apiToken.remove', token_id: newest!.token_id, user: 'ann' })
    await write(store, { name: 'apiToken.remove', token_id: middle!.token_id, user: 'ann' })
    await userArgument(t, 'apiTokens.list', {
      mine: 'ann',
      other: 'ben',
      read: async (user) => (await store.apiTokens.list(user)).length
    })
  })

  test('an API token is removed by its user or by the system, and answered', async (t, store) => {
    const token = anApiToken()
    await write(store, { name: 'apiToken.create', token, max: MAX })
    t.equal(await write(store, { name: 'apiToken.remove', token_id: token.token_id, user: 'ben' }), null)
    t.strictSame(await write(store, { name: 'apiToken.remove', token_id: token.token_id, user: 'ann' }), token)
    t.equal(await write(store, { name: 'apiToken.remove', token_id: token.token_id, user: 'ann' }), null)
    t.equal(await store.apiTokens.byDigest(token.digest), null)
    await write(store, { name: 'apiToken.create', token, max: MAX })
    t.strictSame(await write(store, { name: 'apiToken.remove', token_id: token.token_id, user: null }), token)
  })

  test('an account has at most as many API tokens as it may; those of others do not count', async (t, store) => {
    const create = (user_id: string) =>
      write(store, { name: 'apiToken.create', token: anApiToken({ user_id }), max: 2 })
    t.strictSame(
      [await create('ann'), await create('ann'), await create('ann'), await create('ben')],
      ['created', 'created', 'too_many', 'created']
    )
    t.equal((await store.apiTokens.list('ann')).length, 2)
  })

  test('links to a thread count by themselves, and go with their thread and no other', async (t, store) => {
    const create = (thread_id: string) => {
      const token = anApiToken({ scopes: ['thread:read'], thread_id, expires_at: time(9) })
      return write(store, { name: 'apiToken.create', token, max: 2 })
    }
    for (const thread_id of ['one', 'two']) await addThread(store, { thread_id, user_id: 'ann' })
    await write(store, { name: 'apiToken.create', token: anApiToken(), max: 1 })
    t.strictSame(
      [await create('one'), await create('one'), await create('one'), await create('two')],
      ['created', 'created', 'too_many', 'created']
    )
    await write(store, { name: 'thread.remove', thread_id: 'one', user: 'ann' })
    const kept = await store.apiTokens.list('ann')
    t.strictSame(kept.map(({ thread_id = null }) => thread_id).toSorted(), ['two', null].toSorted())
  })

  test('an API token has its id and digest for itself', async (t, store) => {
    const token = anApiToken()
    await write(store, { name: 'apiToken.create', token, max: MAX })
    const { token_id, digest } = anApiToken()
    await refuses(t, store, { name: 'apiToken.create', token: { ...token, token_id }, max: MAX }, 'the same digest')
    await refuses(t, store, { name: 'apiToken.create', token: { ...token, digest }, max: MAX }, 'the same id')
    t.strictSame(await store.apiTokens.list('ann'), [token])
  })

  test('the last use of an API token only moves forward', async (t, store) => {
    const token = anApiToken()
    const used = async () => (await store.apiTokens.byDigest(token.digest))?.token.last_used_at
    await write(store, { name: 'apiToken.create', token, max: MAX })
    await write(store, { name: 'apiToken.use', token_id: token.token_id, at: time(5) })
    t.equal(await used(), time(5))
    await write(store, { name: 'apiToken.use', token_id: token.token_id, at: time(4) })
    t.equal(await used(), time(5))
    await write(store, { name: 'apiToken.use', token_id: 'gone', at: time(6) })
    t.equal((await store.apiTokens.list(null)).length, 1)
  })

  durable('API tokens survive a restart', async (t, store, reopen) => {
    const token = anApiToken({ expires_at: time(9) })
    await write(store, { name: 'apiToken.create', token, max: MAX })
    t.strictSame(await (await reopen()).apiTokens.list('ann'), [token])
  })
}
