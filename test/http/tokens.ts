// Tokens: what a run has cost is the same whoever adds it up, however the run has ended.
import t, { type Test } from 'tap'
import { startChild } from '../fixtures/child.ts'
import { asked, at, homeOf, listIn, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'

const usage = (prompt_tokens: number, completion_tokens: number) => [{ prompt_tokens, completion_tokens }]
const CALL = [{ name: 'current_time', args: '{}' }]

async function open(t: Test, model: FakeModel, home: string) {
  const models = [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none' }]
  // A title is asked for after the first answer: a call of a middleware, whose tokens count as such.
  const config = { models, memory: { enabled: false }, title: { enabled: true, model_name: 'main' } }
  return startChild(t, { home, config })
}

const sum = (numbers: readonly unknown[]) => numbers.reduce<number>((total, one) => total + Number(one), 0)

/** Adds up in every way there is; answers the total. */
async function addedUp(t: Test, person: Person, thread: string): Promise<number> {
  const rows = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
  const { body } = await person.get(`/api/threads/${thread}/token-usage`)
  const total = Number(at(body, 'total_tokens'))
  const members = (name: string) => Object.values(at(body, name) as object)
  t.equal(sum(rows.map((row) => at(row, 'total_tokens'))), total, 'the runs')
  t.equal(sum(members('by_model').map((one) => at(one, 'tokens'))), total, 'the models')
  t.equal(sum(members('by_caller')), total, 'the callers')
  t.strictSame(Object.keys(at(body, 'by_model') as object), ['main'], 'a call that was broken off is of its model too')
  t.equal(Number(at(body, 'total_input_tokens')) + Number(at(body, 'total_output_tokens')), total, 'in and out')
  t.equal(at(body, 'total_runs'), rows.length)
  t.equal(await ofEvents(person, thread, rows), total, 'the answers among the events, and what was broken off')
  return total
}

/** What the events say: usage of every answer, and that of a message which was broken off. */
async function ofEvents(person: Person, thread: string, rows: readonly unknown[]): Promise<number> {
  let total = 0
  for (const row of rows) {
    const path = `/api/threads/${thread}/runs/${textIn(row, 'run_id')}/events?limit=1000`
    for (const event of listIn((await person.get(path)).body)) {
      const isBroken =
        at(event, 'event_type') === 'ai_message' && at(event, 'metadata', 'finish_reason') === 'interrupted'
      if (at(event, 'event_type') === 'llm_response')
        total += Number(at(event, 'metadata', 'usage', 'total_tokens') ?? 0)
      if (isBroken) total += Number(at(event, 'content', 'usage_metadata', 'total_tokens') ?? 0)
    }
  }
  return total
}

t.test('sums by caller, by model, by run and by thread are one, for success, error, cancel and restart', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const home = homeOf(t)
  let site = await open(t, model, home)
  const person = await signIn(site)
  const thread = await person.thread()
  const wait = (script: Script) => person.post(`/api/threads/${thread}/runs/wait`, asked(scripted(script)))

  await wait({ calls: [CALL], text: 'done', usage: usage(100, 10) })
  // Two turns, and the title.
  t.equal(await addedUp(t, person, thread), 330)
  t.match((await person.get(`/api/threads/${thread}/token-usage`)).body, {
    by_model: { main: { tokens: 330, runs: 1 } },
    by_caller: { lead_agent: 220, middleware: 110 }
  })

  // Its second call fails.
  await wait({ calls: [CALL], usage: usage(10, 1), cutTurn: 1, cutAfter: 1 })
  const before = await addedUp(t, person, thread)
  t.equal(before, 341)

  await wait({ status: 400 })
  t.match((await person.get(`/api/threads/${thread}/runs`)).body, [
    { status: 'error', total_tokens: 0 },
    { status: 'error' },
    {}
  ])
  t.equal(await addedUp(t, person, thread), before)

  const asks = model.requests.length
  const cancelled = await person.run(
    thread,
    scripted({ calls: [CALL], deltas: 10_000, rate: 100, usage: usage(50, 5), usageEarly: usage(40, 4)[0]! })
  )
  await until(() => (model.requests[asks + 1]?.deltas ?? 0) > 3, 'the second answer has begun')
  await person.post(`${cancelled}/cancel?wait=true`)
  // The first answer whole, of the second what its server had told.
  t.match((await person.get(cancelled)).body, { status: 'interrupted', total_tokens: 55 + 44 })
  t.equal(await addedUp(t, person, thread), before + 99)

  const first = model.requests.length
  const cut = await person.run(thread, scripted({ deltas: 10_000, rate: 100, usageEarly: usage(3, 0)[0]! }))
  await until(() => (model.requests[first]?.deltas ?? 0) > 3, 'its only answer has begun')
  await person.post(`${cut}/cancel?wait=true`)
  t.equal(await addedUp(t, person, thread), before + 99 + 3)

  const later = model.requests.length
  const killed = await person.run(thread, scripted({ calls: [CALL], deltas: 10_000, rate: 100, usage: usage(70, 7) }))
  await until(() => (model.requests[later + 1]?.deltas ?? 0) > 100, 'its second answer has begun, its first is stored')
  await site.kill()
  site = await open(t, model, home)
  person.url = site.url
  t.match((await person.get(killed)).body, { status: 'error', total_tokens: 77 })
  t.equal(await addedUp(t, person, thread), before + 99 + 3 + 77)
})
