// What runs have taken, as everybody is shown it: administrators all of it, users their own, as JSON and as CSV.
import t, { type Test } from 'tap'
import { systemAssistantId } from '../../lib/thread/assistants.ts'
import { command } from '../fixtures/child.ts'
import { at, listIn, openSite, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { graphSite } from '../fixtures/graphs.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { starts } from '../fixtures/starts.ts'

const AUTH = '/api/v1/auth'
const ADMIN = '/api/v1/admin/usage'
const TODAY = new Date().toISOString().slice(0, 10)

const usage = (prompt: number, answer: number, cached = 0) => ({
  prompt_tokens: prompt,
  completion_tokens: answer,
  total_tokens: prompt + answer,
  prompt_tokens_details: { cached_tokens: cached }
})

async function priced(t: Test) {
  const model = await startModel()
  t.teardown(() => model.stop())
  const one = (name: string, price: object | null) => ({
    name,
    model: `${name}-x`,
    base_url: model.baseUrl,
    api_key: 'k',
    price
  })
  const models = [one('big', { input: 2, output: 10, cached_input: 0.5 }), one('free', null)]
  const quiet = { title: { enabled: false }, memory: { enabled: false } }
  const site = await openSite(t, { config: { models, ...quiet, usage: { currency: 'EUR' } } })
  const admin = new Person(site.url)
  await admin.post(`${AUTH}/initialize`, { email: 'boss@example.com', password: PASSWORD })
  return { site, model, admin, ann: await signIn(site, 'ann') }
}

const runOf = (assistant_id: string) => {
  const input = { messages: [{ role: 'user', content: 'hi' }] }
  return { path: '/api/runs/wait', body: { input, assistant_id } }
}

function ask(person: Person, script: Parameters<typeof scripted>[0], model_name = 'big') {
  const input = { messages: [{ role: 'user', content: scripted(script) }] }
  return person.post('/api/runs/wait', { input, context: { model_name }, assistant_id: 'lead_agent' })
}

t.test('runs, tokens and money are added up when a run ends, at the prices of the configuration', async (t) => {
  const { site, admin, ann } = await priced(t)
  await ask(ann, { usage: [usage(1000, 100)] })
  await ask(ann, { usage: [usage(1000, 100, 600)] })
  await ask(ann, { usage: [usage(7, 3)] }, 'free')
  await ask(admin, { usage: [usage(1, 1)] })
  const { body } = await ann.get(`${AUTH}/me`)
  const [id, email] = [textIn(body, 'id'), textIn(body, 'email')]
  const of = { day: TODAY, agent: 'lead_agent' }
  const hers = [
    // 1000 x 2 + 100 x 10, then 400 x 2 + 600 x 0.5 + 100 x 10 millionths.
    { ...of, model: 'big', runs: 2, input_tokens: 2000, output_tokens: 200, total_tokens: 2200, money: 0.0051 },
    { ...of, model: 'free', runs: 1, input_tokens: 7, output_tokens: 3, total_tokens: 10, money: 0 }
  ]
  const own = await ann.get(`${AUTH}/usage`)
  t.match(own.body, { currency: 'EUR', until: TODAY, rows: hers, total: { runs: 3, money: 0.0051, rows: 2 } })
  const all = await admin.get(`${ADMIN}?group_by=user`)
  t.match(at(all.body, 'total'), { rows: 2, runs: 4, total_tokens: 2212 })
  t.match((await admin.get(`${ADMIN}?user_id=${id}&model=big`)).body, { rows: [{ user_id: id, email, runs: 2 }] })
  const csv = await admin.get(`${ADMIN}?group_by=user,model&format=csv&user_id=${id}&limit=1`)
  t.match(csv.headers.get('content-type'), /^text\/csv/)
  t.equal(csv.headers.get('x-pagination-next'), '1')
  const names = 'user_id,email,model,runs,input_tokens,output_tokens,total_tokens,money,currency'
  t.equal(csv.text, `${names}\r\n${id},${email},big,2,2000,200,2200,0.0051,EUR\r\n`)
  t.equal(
    (await command(site.home, 'usage', '--by', 'user,model', '--user', email, '--model', 'big', '--csv')).out,
    csv.text
  )
  t.equal((await ann.get(ADMIN)).status, 403)
  t.equal((await ann.get(`${AUTH}/usage?user_id=${id}`)).status, 200, 'whose it is, nobody chooses')
  const backwards = await admin.get(`${ADMIN}?since=2026-02-02&until=2026-02-01`)
  t.match(backwards, { status: 422, body: { detail: [{ loc: ['query', 'until'] }] } })
  t.match(await command(site.home, 'usage', '--since', '2026-02-02', '--until', '2026-02-01'), { code: 2 })
  for (const bad of ['since=yesterday', 'until=2026-02-30', 'group_by=day,day', 'group_by=,', 'format=xml', 'limit=0'])
    t.equal((await admin.get(`${ADMIN}?${bad}`)).status, 422, bad)
})

t.test(
  'a run counts for the agent that answers, by whichever protocol it comes and whether it names one or not',
  async (t) => {
    const { ann } = await priced(t)
    const graphs = { drawing: 'graph', other: 'graph' }
    const { person } = await graphSite(t, { graphs })
    const own = await person.post('/api/assistants', { graph_id: 'drawing' })
    const { assistant_id } = own.body as { assistant_id: string }
    const cases = [
      { of: ann, all: starts(scripted({ usage: [usage(5, 5)] })), rows: [{ agent: 'lead_agent', total_tokens: 110 }] },
      // By the name of its graph, by whichever id it is called.
      {
        of: person,
        all: [...starts('hi', 'drawing'), runOf(systemAssistantId('drawing'))],
        rows: [{ agent: 'drawing' }]
      },
      {
        of: person,
        all: [runOf(assistant_id)],
        rows: [
          { agent: assistant_id, runs: 1 },
          { agent: 'drawing', runs: 12 }
        ]
      }
    ]
    for (const { of, all, rows } of cases) {
      const byAgent = async () => (await of.get(`${AUTH}/usage?group_by=agent`)).body
      const before = Number(at(await byAgent(), 'total', 'runs'))
      for (const { path, body } of all) t.equal((await of.post(path, body)).status, 200, path)
      await until(async () => at(await byAgent(), 'total', 'runs') === before + all.length, 'all to have ended')
      const found = listIn(await byAgent(), 'rows')
      // The id of an assistant may stand before a name, or behind it.
      const inOrder = (some: readonly unknown[]) =>
        some.toSorted((one, two) => textIn(one, 'agent').localeCompare(textIn(two, 'agent')))
      t.match(inOrder(found), inOrder(rows))
      t.equal(found.length, rows.length)
    }
  }
)

t.test('what a run has taken before it was cut off counts, and it stays when the run is gone', async (t) => {
  const { ann, model } = await priced(t)
  const thread = await ann.thread()
  const input = {
    messages: [{ role: 'user', content: scripted({ usageEarly: usage(50, 1), deltas: 9, hangAfter: 3 }) }]
  }
  const begun = await ann.post(`/api/threads/${thread}/runs`, { input })
  const call = await model.request()
  await until(() => call.deltas >= 3, 'it is in the middle')
  await ann.post(`/api/threads/${thread}/runs/${textIn(begun.body, 'run_id')}/cancel?wait=true`, {})
  const taken = async () => at((await ann.get(`${AUTH}/usage?group_by=model`)).body, 'rows')
  t.match(await taken(), [{ model: 'big', runs: 1, input_tokens: 50 }])
  await ann.ask('DELETE', `/api/threads/${thread}`)
  t.match(await taken(), [{ model: 'big', runs: 1, input_tokens: 50 }])
})

t.test('a run whose model has failed counts for it', async (t) => {
  const { ann } = await priced(t)
  await ask(ann, { status: 400 })
  t.match((await ann.get(`${AUTH}/usage`)).body, { rows: [{ model: 'big', runs: 1, total_tokens: 0 }] })
})
