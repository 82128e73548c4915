// Graphs in threads of their own: what one does to its thread, nobody else feels.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { at, listIn, openSite, signIn, until } from '../fixtures/gateway.ts'
import { type GraphSite, graphSite, graphsFolder, refusesLongStates, SHORT_STATES } from '../fixtures/graphs.ts'

const isolated = { config: { graphs: { isolation: 'worker' } } }

const doing = ({ folder }: Pick<GraphSite, 'folder'>, what: string) => ({
  assistant_id: 'rough',
  input: { steps: [] },
  config: { configurable: { what, folder } }
})

t.test('a graph that computes for long holds up nobody, and the log names it', async (t) => {
  const site = await graphSite(t, isolated)
  const { person, folder } = site
  const thread = await person.thread()
  const run = person.post(`/api/threads/${thread}/runs/wait`, doing(site, 'spin'))
  // This very process serves the site: it would not come to this, or to any answer.
  await until(() => existsSync(join(folder, 'begun')), 'the graph to compute')
  t.equal((await person.get('/health')).status, 200)
  t.equal((await person.get(`/api/threads/${thread}/state`)).status, 200)
  writeFileSync(join(folder, 'go'), '')
  t.strictSame(listIn((await run).body, 'steps'), ['spin'])
  const blocked = () => site.site.logged.find(([, fields]) => 'blocked_ms' in fields)
  await until(() => blocked() !== undefined, 'the log to say so')
  t.strictSame(at(blocked()![1], 'graphs'), ['rough'])
})

t.test('a state that is too long begins no run', async (t) => {
  const site = await graphSite(t, { config: { ...isolated.config, ...SHORT_STATES } })
  await refusesLongStates(t, site, 'agent')
})

t.test(
  'a graph that never yields is ended with its thread when its run is cancelled, and works again after that',
  async (t) => {
    const site = await graphSite(t, isolated)
    const { person, folder } = site
    const thread = await person.thread()
    const path = `/api/threads/${thread}/runs`
    const { headers } = await person.post(path, doing(site, 'spin'))
    await until(() => existsSync(join(folder, 'begun')), 'the graph to compute')
    const run = headers.get('content-location')!
    t.equal((await person.post(`${run}/cancel?wait=1`)).status, 204)
    t.equal(at((await person.get(run)).body, 'status'), 'interrupted')
    t.strictSame(listIn((await person.post(`${path}/wait`, doing(site, 'nothing'))).body, 'steps'), ['nothing'])
  }
)

t.test('a graph that brings its thread down fails its runs, by name, and nothing else', async (t) => {
  const site = await graphSite(t, isolated)
  const { person } = site
  for (const what of ['exit', 'throw']) {
    const { body } = await person.post('/api/runs/wait', doing(site, what))
    t.equal(at(body, '__error__', 'error'), 'GraphThreadLost', what)
    t.match(at(body, '__error__', 'message'), /agent\.mjs is gone/)
    t.strictSame(listIn((await person.post('/api/runs/wait', doing(site, 'nothing'))).body, 'steps'), ['nothing'])
  }
  t.equal((await person.get('/readyz')).status, 200)
})

t.test('a file that could not be loaded again, when its thread was gone, is loaded when it can be', async (t) => {
  const site = await graphSite(t, isolated)
  const { person, folder } = site
  const file = join(folder, 'agent.mjs')
  const whole = readFileSync(file, 'utf8')
  const thread = await person.thread()
  const path = `/api/threads/${thread}/runs/wait`
  t.strictSame(listIn((await person.post(path, doing(site, 'nothing'))).body, 'steps'), ['nothing'])
  await person.post('/api/runs/wait', doing(site, 'exit'))
  // As one that asks its database while it is loaded.
  writeFileSync(file, 'throw new Error("no database")')
  for (let again = 0; again < 2; again++)
    t.match((await person.post(path, doing(site, 'nothing'))).body, { __error__: { error: 'InternalError' } })
  t.ok(site.site.logged.some(([, fields]) => /no database/.test(JSON.stringify(at(fields, 'err', 'message') ?? ''))))
  writeFileSync(file, whole)
  t.strictSame(listIn((await person.post(path, doing(site, 'nothing'))).body, 'steps'), ['nothing', 'nothing'])
})

t.test(
  'graphs of several files, TypeScript among them, have a thread each; one that cannot be loaded is named',
  async (t) => {
    const folder = graphsFolder(t, 'newest', { agent: 'graph' }, { auth: { path: './rules.ts' } })
    writeFileSync(
      join(folder, 'typed.ts'),
      `import { factory } from './agent.mjs'
     enum Word { One = 'typed' }
     const word: string = Word.One
     export const typed = (): unknown => factory({ configurable: { word } })`
    )
    writeFileSync(
      join(folder, 'rules.ts'),
      `import { Auth } from '@langchain/langgraph-sdk/auth'
     export default new Auth().on('threads:create_run', ({ value }: any): boolean => value.assistant_id !== 'agent')`
    )
    const graphs = { typed: './typed.ts:typed', agent: './agent.mjs:graph' }
    writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ graphs, auth: { path: './rules.ts' } }))
    const config = { agent: { runtime: 'graphs', config: folder }, ...isolated.config }
    const person = await signIn(await openSite(t, { config }))
    const typed = await person.post('/api/runs/wait', { assistant_id: 'typed', input: { steps: [] } })
    t.strictSame(listIn(typed.body, 'steps'), ['word typed'])
    t.equal((await person.post('/api/runs/wait', { assistant_id: 'agent', input: {} })).status, 403)
    const found = listIn((await person.post('/api/assistants/search')).body)
    t.strictSame(found.map((one) => at(one, 'graph_id')).sort(), ['agent', 'typed'])

    renameSync(join(folder, 'typed.ts'), join(folder, 'broken.ts'))
    writeFileSync(join(folder, 'typed.ts'), '\nthrow new Error("no key")')
    await t.rejects(openSite(t, { config }), { message: /typed\.ts:2 cannot be loaded: no key/ })
    rmSync(join(folder, 'typed.ts'))
    await t.rejects(openSite(t, { config }), { message: /There is no file \S+typed\.ts for graph typed/ })
  }
)
