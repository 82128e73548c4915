// LangGraph's clients keep items in the store as they do on a server of LangGraph's own, each user his own.
import t from 'tap'
import { at, openSite, signIn } from '../fixtures/gateway.ts'
import { probes, sdkOf } from '../fixtures/sdk.ts'

const probe = probes(t)

probe('items are put, got, searched, listed and deleted', async (t, { client: { store }, person, version }) => {
  t.equal(await store.getItem(['u', 'ada'], 'none'), null)
  await store.putItem(['u', 'ada'], 'likes', { drink: 'tea', cups: 3 })
  await store.putItem(['u', 'ada', 'old'], 'likes', { drink: 'coffee', cups: 1 })
  await store.putItem(['u', 'adam'], 'likes', { drink: 'tea', cups: 1 })
  const found = await store.getItem(['u', 'ada'], 'likes')
  t.match(found, { namespace: ['u', 'ada'], key: 'likes', value: { drink: 'tea', cups: 3 } })
  t.match(found?.createdAt, /^\d{4}-\d\d-\d\dT/)
  const keys = async (options: object) =>
    (await store.searchItems(['u', 'ada'], options)).items.map(({ namespace }) => namespace.join('.'))
  t.same(await keys({}), ['u.ada.old', 'u.ada'])
  t.same(await keys({ filter: { drink: 'tea' } }), ['u.ada'])
  t.same(await keys({ filter: { cups: { $gte: 1 } }, limit: 1, offset: 1 }), ['u.ada'])
  t.same((await store.searchItems([], { query: 'anything' })).items.length, 3)
  t.same((await store.listNamespaces({ prefix: ['u'], maxDepth: 2 })).namespaces, [
    ['u', 'ada'],
    ['u', 'adam']
  ])
  await store.deleteItem(['u', 'ada'], 'likes')
  t.equal(await store.getItem(['u', 'ada'], 'likes'), null)
  const { store: other } = await sdkOf(await signIn(person), version)
  t.equal(await other.getItem(['u', 'adam'], 'likes'), null)
  t.same((await other.searchItems([])).items, [])
  await other.deleteItem(['u', 'adam'], 'likes')
  t.ok(await store.getItem(['u', 'adam'], 'likes'), 'nobody deletes what is somebody else’s')
})

t.test('an item with a ttl is gone when that is over', async (t) => {
  const { store } = await sdkOf(await signIn(await openSite(t)), '1.12.4')
  await store.putItem(['a'], 'stays', { n: 1 }, { ttl: 60 })
  await store.putItem(['a'], 'goes', { n: 1 }, { ttl: 0.0001 })
  t.ok(await store.getItem(['a'], 'stays'))
  while (await store.getItem(['a'], 'goes')) await new Promise((resolve) => setTimeout(resolve, 5))
  t.same((await store.searchItems(['a'])).items.length, 1)
})

t.test('what is no address, no value or too much is refused with its reason, and keeps nothing', async (t) => {
  const person = await signIn(
    await openSite(t, { config: { items: { per_user: 2, user_bytes: 300, item_bytes: 200 } } })
  )
  const put = (body: object) =>
    person.ask('PUT', '/api/store/items', { body: { namespace: ['a'], key: 'k', value: {}, ...body } })
  const refused: [object, number, RegExp][] = [
    [{ namespace: [] }, 400, /Namespace is required/],
    [{ namespace: ['a.b'] }, 422, /cannot be empty or contain periods/],
    [{ namespace: [''] }, 422, /cannot be empty/],
    [{ namespace: Array.from({ length: 60 }, () => 'longer') }, 422, /more than 255 characters/],
    [{ namespace: Array.from({ length: 65 }, () => 'a') }, 422, /too_long/],
    [{ namespace: 'a' }, 422, /list_type/],
    [{ namespace: [1] }, 422, /string_type/],
    [{ key: 'k'.repeat(256) }, 422, /string_too_long/],
    [{ value: [] }, 422, /dict_type/],
    [{ ttl: -1 }, 422, /greater_than/],
    [{ value: { text: 'x'.repeat(200) } }, 413, /more than 200 bytes/]
  ]
  for (const [body, status, text] of refused) {
    const answer = await put(body)
    t.equal(answer.status, status, answer.text)
    t.match(answer.text, text)
  }
  t.same(at((await person.post('/api/store/items/search')).body, 'items'), [])
  t.equal((await put({ value: { text: 'x'.repeat(150) } })).status, 204)
  t.equal((await put({ key: 'l', value: { text: 'x'.repeat(150) } })).status, 409, 'too many bytes')
  t.equal((await put({ key: 'l' })).status, 204)
  t.equal((await put({ key: 'm' })).status, 409, 'too many items')
  t.equal((await person.get('/api/store/items?namespace=a..b&key=k')).text, 'null')
  t.equal((await person.get('/api/store/items?namespace=a')).status, 422)
  t.equal((await person.post('/api/store/items/search', { limit: 100_000 })).status, 422)
  t.equal((await person.post('/api/store/namespaces', { max_depth: 0 })).status, 422)
})

t.test('a server says that it is there, and what it is, wherever its clients look', async (t) => {
  const { url } = await openSite(t)
  for (const prefix of ['', '/api', '/api/langgraph']) {
    t.same(await (await fetch(`${url}${prefix}/ok`)).json(), { ok: true })
    t.match(await (await fetch(`${url}${prefix}/info`)).json(), {
      version: /^\d/,
      flags: { assistants: true, crons: true }
    })
    t.match(await (await fetch(`${url}${prefix}/openapi.json`)).json(), { openapi: '3.1.0' })
  }
})
