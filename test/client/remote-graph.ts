// RemoteGraph: a graph of this server used by another one, as if it were its own.
import { RemoteGraph } from '@langchain/langgraph/remote'
import { Annotation, Command, MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import t, { type Test } from 'tap'
import { at, listIn } from '../fixtures/gateway.ts'
import { type GraphSite, graphSite } from '../fixtures/graphs.ts'

const FOO = { messages: [{ type: 'human', content: 'foo', id: 'foo' }] }
const ALL = ['foo', 'begin', 'tool_call__begin', 'end']
const contents = (values: unknown): unknown[] => listIn(values, 'messages').map((one) => at(one, 'content'))

function remote({ site, person }: GraphSite, graphId = 'agent'): RemoteGraph {
  return new RemoteGraph({ graphId, url: `${site.url}/api`, headers: person.headers() })
}

async function onThread({ client }: GraphSite, more: object = {}) {
  return { configurable: { thread_id: (await client.threads.create()).thread_id, ...more } }
}

t.test('a graph is invoked and streamed from afar, and its state read and written', async (t) => {
  const site = await graphSite(t)
  const graph = remote(site)
  t.strictSame(contents(await graph.invoke(FOO)), ALL, 'without a thread')
  const config = await onThread(site)
  const steps: string[] = []
  for await (const update of await graph.stream(FOO, { ...config, streamMode: 'updates' }))
    steps.push(...Object.keys(update))
  t.strictSame(steps, ['agent', 'tool', 'agent'])
  const modes = new Set<unknown>()
  for await (const piece of await graph.stream(FOO, { ...(await onThread(site)), streamMode: ['values', 'messages'] }))
    modes.add(at(piece, 0))
  t.strictSame([...modes].sort(), ['messages', 'values'])
  const state = await graph.getState(config)
  t.strictSame(contents(state.values), ALL)
  t.strictSame(state.next, [])
  const next = await graph.updateState(config, { messages: [{ type: 'human', content: 'more', id: 'more' }] }, 'tool')
  t.ok(at(next, 'configurable', 'checkpoint_id'))
  t.strictSame((await graph.getState(config)).next, ['agent'])
  let entries = 0
  for await (const _entry of graph.getStateHistory(config)) entries++
  t.equal(entries, 6)
  const { nodes } = await graph.getGraphAsync()
  t.ok(Object.keys(nodes).includes('tool'))
})

t.test('a question comes from afar, and its answer goes there', async (t) => {
  const site = await graphSite(t)
  const graph = remote(site)
  const config = await onThread(site, { ask: 'know' })
  await t.rejects(graph.invoke(FOO, config), { name: 'GraphInterrupt' })
  const [task] = (await graph.getState(config)).tasks
  t.equal(task?.interrupts[0]?.value, 'i want to know')
  t.strictSame(contents(await graph.invoke(new Command({ resume: 'yes' }), config)), ALL)
})

t.test('a graph from afar is a node of a local one: its steps are told, and its words go on there', async (t) => {
  const site = await graphSite(t)
  const local = new StateGraph(Annotation.Root({ ...MessagesAnnotation.spec }))
    .addNode('far', remote(site))
    .addEdge('__start__', 'far')
    .addEdge('far', '__end__')
    .compile({ checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: crypto.randomUUID() } }
  const spaces = new Set<string>()
  for await (const [space] of await local.stream(FOO, { ...config, streamMode: 'updates', subgraphs: true }))
    spaces.add(String(space).split(':')[0] ?? '')
  t.strictSame([...spaces].sort(), ['', 'far'])
  t.strictSame(contents((await local.getState(config)).values), ALL)
})

t.test('what fails afar fails here', async (t: Test) => {
  const site = await graphSite(t)
  await t.rejects(remote(site, 'error').invoke(FOO), /Boo!|CustomError/)
  await t.rejects(remote(site, 'nobody').invoke(FOO))
})
