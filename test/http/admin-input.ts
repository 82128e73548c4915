// What routes of administration are asked: no field that they do not know is passed over, and no value outside of a known set.
import t from 'tap'
import { EXPECTED } from '../fixtures/expected.ts'
import { at, listIn, openSite, PASSWORD, Person, signIn, textIn } from '../fixtures/gateway.ts'
import { operation, table } from '../fixtures/openapi.ts'
import { ask, nowhere } from '../fixtures/place.ts'

const OURS = /^\/api\/v1\/(admin\/|auth\/invitations)/
const names = table.filter(({ path }) => OURS.test(path)).map(({ method, path }) => `${method} ${path}`)
const withBody = names.filter((name) => at(operation(name), 'requestBody') !== undefined)
/** Parameters of the query that take one of some words. */
const choices = names.flatMap((name) => {
  const parameters = at(operation(name), 'parameters')
  const listed = Array.isArray(parameters) ? listIn(parameters) : []
  return listed
    .filter((one) => at(one, 'in') === 'query' && JSON.stringify(one).includes('"enum"'))
    .map((one) => [name, textIn(one, 'name')] as const)
})

t.test(
  'a field that a route of administration does not know is refused by its name, and so is a value outside of a known set',
  async (t) => {
    const site = await openSite(t, { config: { sharing: 'public' } })
    const admin = new Person(site.url)
    await admin.post('/api/v1/auth/initialize', { email: 'boss@example.com', password: PASSWORD })
    t.ok(withBody.length >= 6 && choices.length >= 3, `${withBody.length} bodies, ${choices.length} choices`)
    for (const name of withBody) {
      const [method = '', path = ''] = name.split(' ')
      const place = nowhere()
      const target = path.replaceAll(/\{(\w+)\}/g, (_, part: string) => place[part] ?? '')
      const body = { ...(EXPECTED[name]?.body as object | undefined), disbaled: true }
      const answer = await admin.ask(method, target, { body })
      t.match(answer, { status: 422 }, name)
      const named = listIn(answer.body, 'detail').map((one) => JSON.stringify([at(one, 'type'), at(one, 'loc')]))
      t.strictSame(named, ['["extra_forbidden",["body","disbaled"]]'], `${name}: that, and no wish of another form`)
      t.match(await admin.ask(method, target, { body: [1] }), { status: 422 }, `${name}: a list`)
    }
    // Of bodies that have several forms.
    for (const [path, body, wanted] of [
      ['users', { email: 'ann@example.com', system_role: 'root' }, [['system_role']]],
      ['users', { name: 'page', system_role: 'user' }, [['system_role']]],
      ['users', {}, [['email'], ['name']]],
      ['holds', { user_id: 'ann' }, [['reason']]],
      ['holds', { thread_id: 'a', reason: '' }, [['reason']]]
    ] as const) {
      const { status, body: refused } = await admin.post(`/api/v1/admin/${path}`, body)
      const named = listIn(refused, 'detail').map((one) => listIn(one, 'loc').slice(1))
      t.strictSame([status, named], [422, wanted], `${path} ${JSON.stringify(body)}`)
    }
    for (const [name, choice] of choices) {
      const [method = '', path = ''] = name.split(' ')
      const answer = await admin.ask(method, `${path}?${choice}=zzz`)
      t.match(answer, { status: 422, body: { detail: [{ loc: ['query', choice] }] } }, `${name}: ${choice}`)
    }
    for (const name of names.filter((one) => one.startsWith('GET ')))
      t.ok((await ask(admin, name, nowhere())).status < 500, name)
  }
)

t.test('who may not administer is refused before anything of the request is read', async (t) => {
  const person = await signIn(await openSite(t))
  const ofAdmins = table.filter(({ admin }) => admin)
  t.ok(ofAdmins.length > 30, `${ofAdmins.length} routes`)
  for (const { method, path } of ofAdmins) {
    const place = nowhere()
    const target = path.replaceAll(/\{(\w+)\}/g, (_, part: string) => place[part] ?? 'none')
    const answer = await person.ask(method, `${target}?limit=zzz`, method === 'GET' ? {} : { body: [1] })
    t.match(answer, { status: 403, body: { detail: 'Permission denied: admin' } }, `${method} ${path}`)
  }
})
