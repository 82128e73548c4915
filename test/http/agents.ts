// Custom agents, as DeerFlow's pages make them: assistants by a name, which answer in runs that name them. And the models of any runtime.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { asked, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { graphsFolder } from '../fixtures/graphs.ts'
import { type FakeModel, scripted, startModel } from '../fixtures/model.ts'

async function open(t: Test): Promise<{ person: Person; other: Person; model: FakeModel }> {
  const model = await startModel()
  t.teardown(() => model.stop())
  const server = { base_url: model.baseUrl, api_key: 'none' }
  const models = [
    { name: 'main', model: 'main', ...server },
    { name: 'second', model: 'second-at-server', supports_reasoning_effort: true, ...server }
  ]
  const site = await openSite(t, { config: { models, title: { enabled: false }, memory: { enabled: false } } })
  return { person: await signIn(site), other: await signIn(site, 'other'), model }
}

const ask = async (person: Person, context: object, words = scripted({ text: 'ok' }), thread?: string) =>
  person.post(`/api/threads/${thread ?? (await person.thread())}/runs/wait`, asked(words, { context }))

t.test('a custom agent is created, edited and deleted, and is an assistant of its user alone', async (t) => {
  const { person, other } = await open(t)
  t.match((await person.get('/api/features')).body, { agents_api: { enabled: true } })
  t.strictSame((await person.get('/api/agents/check?name=Writer-1')).body, { available: true, name: 'writer-1' })
  const made = await person.post('/api/agents', { name: 'Writer-1', description: 'writes', soul: 'Be brief.' })
  t.equal(made.status, 201, made.text)
  const fresh = {
    ...{ name: 'writer-1', description: 'writes', model: null, tool_groups: null, skills: null },
    ...{ model_settings: null, thinking_enabled: null, reasoning_effort: null, soul: 'Be brief.' }
  }
  t.strictSame(made.body, fresh)
  t.strictSame((await person.get('/api/agents')).body, { agents: [fresh] })
  t.match((await person.get('/api/agents/check?name=WRITER-1')).body, { available: false })
  t.equal((await person.post('/api/agents', { name: 'writer-1' })).status, 409)
  const put = async (body: object) => person.ask('PUT', '/api/agents/WRITER-1', { body })
  t.match((await put({ model: 'second', model_settings: { temperature: 0.5 }, skills: [] })).body, {
    ...{ model: 'second', model_settings: { temperature: 0.5 }, skills: [], soul: 'Be brief.', description: 'writes' }
  })
  t.match((await put({ model_settings: { max_tokens: 10 }, model: null, soul: null })).body, {
    ...{ model: null, model_settings: { temperature: 0.5, max_tokens: 10 }, soul: 'Be brief.' }
  })
  t.match((await put({ model_settings: null, skills: null })).body, { model_settings: null, skills: null })
  const search = await person.post('/api/assistants/search', { name: 'writer-1' })
  t.match(search.body, [{ graph_id: 'lead_agent', context: { instructions: 'Be brief.' }, version: 4 }])
  t.equal((await other.get('/api/agents/writer-1')).status, 404)
  t.strictSame((await other.get('/api/agents')).body, { agents: [] })
  t.equal((await other.post('/api/agents', { name: 'writer-1' })).status, 201, 'a name is free to everybody')
  t.equal((await other.ask('DELETE', '/api/agents/writer-1')).status, 204)
  t.equal((await person.ask('DELETE', '/api/agents/writer-1')).status, 204)
  t.equal((await person.get('/api/agents/writer-1')).status, 404)
  t.equal((await person.ask('DELETE', '/api/agents/writer-1')).status, 404)
})

t.test('an agent that cannot be is refused with a reason', async (t) => {
  const { person } = await open(t)
  const create = async (body: object) => (await person.post('/api/agents', body)).status
  for (const name of ['', 'a b', 'a/b', '../x', 'x'.repeat(65)]) t.equal(await create({ name }), 422, name)
  t.equal((await person.get('/api/agents/check?name=a_b')).status, 422)
  t.equal(await create({ name: 'a', model: 'nobody' }), 422)
  t.equal(await create({ name: 'a', model_settings: { temperature: 3 } }), 422)
  t.equal(await create({ name: 'a', model_settings: { top_p: 1 } }), 422)
  t.equal(await create({ name: 'a', reasoning_effort: 'huge' }), 422)
  t.equal(await create({ name: 'a', soul: 'x'.repeat(40_000) }), 413)
  t.equal((await person.ask('PUT', '/api/agents/none', { body: { soul: 'x' } })).status, 404)
  const races = await Promise.all(['race', 'Race', 'RACE'].map((name) => create({ name })))
  t.strictSame(races.toSorted(), [201, 409, 409], 'of those who create one at the same time one does')
})

t.test('a run that names an agent answers as it: with its instructions, model, settings and name', async (t) => {
  const { person, model } = await open(t)
  const settings = { model_settings: { temperature: 0.25, max_tokens: 64 }, reasoning_effort: 'high' }
  await person.post('/api/agents', { name: 'poet', soul: 'Answer in verse.', model: 'second', ...settings })
  const thread = await person.thread()
  t.equal((await ask(person, { agent_name: 'Poet' }, undefined, thread)).status, 200)
  const request = model.requests.at(-1)
  t.match(request?.body, { model: 'second-at-server', temperature: 0.25, max_tokens: 64, reasoning_effort: 'high' })
  t.match(JSON.stringify(request?.messages), 'Answer in verse.')
  t.match((await person.get(`/api/threads/${thread}`)).body, { metadata: { agent_name: 'poet' } })
  t.match((await person.get(`/api/threads/${thread}/runs`)).body, [{ assistant_id: 'poet' }])
  await ask(person, { agent_name: 'poet', model_name: 'main' })
  t.match(model.requests.at(-1)?.body, { model: 'main' }, "the run's own choice counts")
  t.equal((await ask(person, { agent_name: 'nobody' })).status, 200)
  t.notMatch(JSON.stringify(model.requests.at(-1)?.messages), 'Answer in verse.')
})

t.test('an agent is made in a conversation about it', async (t) => {
  const { person, model } = await open(t)
  const args = { soul: 'You count.', description: 'counts' }
  const words = scripted({ calls: [[{ name: 'setup_agent', args: JSON.stringify(args) }]] })
  t.equal((await ask(person, { agent_name: 'Counter', is_bootstrap: true }, words)).status, 200)
  t.match((await person.get('/api/agents/counter')).body, { name: 'counter', ...args })
  const offered = () => JSON.stringify(model.requests.at(-1)?.body.tools)
  t.match(offered(), 'setup_agent')
  await ask(person, { agent_name: 'counter' })
  t.notMatch(offered(), 'setup_agent', 'nowhere else')
})

t.test('with graphs an agent has files as well, and whoever makes files has made an agent', async (t) => {
  const agent = { runtime: 'graphs', config: graphsFolder(t, 'newest', { lead_agent: 'told' }) }
  const site = await openSite(t, { config: { agent } })
  const person = await signIn(site)
  const me = textIn((await person.get('/api/v1/auth/me')).body, 'id')
  const file = (name: string, of: string) => join(site.home, 'users', me, 'agents', name, of)
  const named = async () => listIn((await person.get('/api/agents')).body, 'agents').map((one) => textIn(one, 'name'))
  await person.post('/api/agents', { name: 'Poet', soul: 'Answer in verse.', skills: ['rhymes'] })
  t.match(parse(readFileSync(file('poet', 'config.yaml'), 'utf8')), { name: 'poet', skills: ['rhymes'], model: null })
  await person.ask('PUT', '/api/agents/poet', { body: { soul: 'Answer in prose.' } })
  t.equal(readFileSync(file('poet', 'SOUL.md'), 'utf8'), 'Answer in prose.')

  const folders = {
    counter: 'description: counts\nskills: [sums]\n',
    broken: 'a: [',
    long: `description: ${'x'.repeat(9000)}`,
    deep: `description: deep\nskills: ${'['.repeat(40)}${']'.repeat(40)}`,
    expanding: 'a: &a [x]\ndescription: x\nskills: *a',
    large: `a: ${'x'.repeat(70_000)}`
  }
  for (const [name, text] of Object.entries({ ...folders, 'a b': 'name: a b' })) {
    mkdirSync(file(name, '.'), { recursive: true })
    writeFileSync(file(name, 'config.yaml'), text)
  }
  mkdirSync(file('empty', '.'))
  writeFileSync(file('counter', 'SOUL.md'), 'You count.')
  t.strictSame(await named(), ['counter', 'poet'])
  const counter = { description: 'counts', skills: ['sums'], soul: 'You count.' }
  t.match((await person.get('/api/agents/counter')).body, counter)
  const [found] = listIn((await person.post('/api/assistants/search', { name: 'counter' })).body)
  t.equal((await person.ask('DELETE', `/api/assistants/${textIn(found, 'assistant_id')}`)).status, 200)
  t.strictSame(await named(), ['poet'], 'what was deleted as an assistant stays deleted')
  await person.ask('DELETE', '/api/agents/poet')
  t.notOk(existsSync(file('poet', 'config.yaml')))
  t.strictSame(await named(), [])
})

t.test('the configured models are listed whatever agent runs, and a run may name them', async (t) => {
  const file = join(t.testdir(), 'agent.mjs')
  writeFileSync(file, 'export default async function* (input) { yield String(input.modelName) }\n')
  const models = [{ name: 'main', model: 'main', base_url: 'http://127.0.0.1:9', api_key: 'none' }]
  const site = await openSite(t, { config: { models, agent: { runtime: 'module', path: file } } })
  const person = await signIn(site)
  const listed = listIn((await person.get('/api/models')).body, 'models')
  t.strictSame(
    listed.map((one) => textIn(one, 'name')),
    ['main']
  )
  t.equal((await person.get('/api/models/main')).status, 200)
  t.match((await ask(person, { model_name: 'main' })).text, 'main')
  t.equal((await ask(person, { model_name: 'nobody' })).status, 400)
})

t.test('context never overrides the config, and of that its own context counts most [contract 9.46]', async (t) => {
  const { person, model } = await open(t)
  const [main, second] = [{ model_name: 'main' }, { model_name: 'second' }]
  const rows = [
    [{ context: second }, 'second-at-server'],
    [{ context: second, config: { configurable: main } }, 'main'],
    [{ context: { model_name: 'nobody' }, config: { configurable: second } }, 'second-at-server'],
    [{ context: main, config: { configurable: main, context: second } }, 'second-at-server'],
    [{ context: null, config: { configurable: second, context: null } }, 'second-at-server']
  ] as const
  for (const [more, answers] of rows) {
    const made = await person.post('/api/runs/wait', asked(scripted({ text: 'ok' }), more))
    t.equal(made.status, 200)
    t.equal(model.requests.at(-1)?.body.model, answers, JSON.stringify(more))
  }
})
