// Graphs in this process on LangGraph's own machinery: what LangGraph's development server answers, ours does. The names of the tests
// are the lines of the list of gaps.
import t, { type Test } from 'tap'
import { at, listIn } from '../fixtures/gateway.ts'
import { all, type GraphSite, graphSite, VERSIONS, type Version } from '../fixtures/graphs.ts'

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']

const contents = (state: unknown) => listIn(state, 'messages').map((one) => at(one, 'content'))

for (const version of Object.keys(VERSIONS) as Version[])
  t.test(`LangGraph ${version}`, async (t) => {
    const site = await graphSite(t, { version })
    await statesOf(t, site)
  })

async function statesOf(t: Test, { client }: GraphSite): Promise<void> {
  await t.test('a run ends with its values', async (t) => {
    const { thread_id } = await client.threads.create()
    const values = await client.runs.wait(thread_id, 'agent', { input: FOO })
    t.strictSame(contents(values), ALL)
    t.strictSame(contents((await client.threads.getState(thread_id)).values), ALL)
  })

  await t.test('history: newest first, one checkpoint a superstep, each with its messages and next', async (t) => {
    const { thread_id } = await client.threads.create()
    await client.runs.wait(thread_id, 'agent', { input: FOO })
    const history = await client.threads.getHistory(thread_id)
    t.strictSame(
      history.map(({ next }) => next),
      [[], ['agent'], ['tool'], ['agent'], ['__start__']]
    )
    t.strictSame(
      history.map(({ values }) => contents(values).length),
      [4, 3, 2, 1, 0]
    )
  })

  await t.test('history: of a thread without runs is empty', async (t) => {
    const { thread_id } = await client.threads.create()
    t.strictSame(await client.threads.getHistory(thread_id), [])
    t.match(await client.threads.getState(thread_id), { values: {}, next: [], tasks: [], checkpoint: null })
  })

  await t.test('stream modes', async (t) => {
    const { thread_id } = await client.threads.create()
    const streamMode = ['values', 'updates', 'messages-tuple', 'custom', 'tasks', 'checkpoints', 'debug'] as const
    const chunks = await all(client.runs.stream(thread_id, 'agent', { input: FOO, streamMode: [...streamMode] }))
    t.ok(chunks.length)
  })
}
