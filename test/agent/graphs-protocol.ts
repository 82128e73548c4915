// What graphs tell, in protocol v2: messages once, states with their checkpoints, subgraphs, questions, failures.
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../lib/base/types.ts'
import { at, listIn, type Person, until } from '../fixtures/gateway.ts'
import { graphSite, HOOKED, type Version, VERSIONS } from '../fixtures/graphs.ts'
import { type HeardEvent, openProtocol, textIn } from '../fixtures/protocol.ts'
import { PYTHON_MISSING, pythonFolder, pythonSite, WHOLE } from '../fixtures/python-graphs.ts'
import { IS_LONG } from '../fixtures/size.ts'

const foo = { messages: [{ type: 'human', content: 'foo' }] }
const of = (events: readonly HeardEvent[], method: string) => events.filter((event) => event.method === method)
const names = ({ params }: HeardEvent) => params.namespace.map((segment) => segment.split(':')[0]).join('/')

for (const version of Object.keys(VERSIONS) as Version[])
  t.test(`LangGraph ${version}`, async (t) => {
    const { person } = await graphSite(t, { version })
    await told(t, person, (await graphSite(t, { version, graphs: HOOKED })).person)
  })

// The same of the same graphs in Python.
if (IS_LONG)
  t.test('LangGraph for Python', { skip: PYTHON_MISSING }, async (t) => {
    const { person } = await pythonSite(t, pythonFolder(t, WHOLE))
    const hooked = { delegating: './hooks.py:delegating', picturing: './hooks.py:picturing' }
    await told(t, person, (await pythonSite(t, pythonFolder(t, hooked))).person)
  })

/** @param hooked signed in where the graphs of `hooks` are */
async function told(t: Test, person: Person, hooked: Person): Promise<void> {
  /** All that a run of the graph tells, and the blocks of its messages. */
  const spoken = async (assistant_id: string) => {
    const thread = randomUUID()
    const client = await openProtocol(hooked, thread)
    await client.subscribe()
    await client.start(foo, { assistant_id })
    await client.untilEnds(1)
    client.close()
    const data = of(client.events, 'messages').map(({ params }) => params.data)
    const kind = (name: string) => data.filter(({ event }) => event === `content-block-${name}`)
    const blocks = kind('finish').map(({ content }) => content as JsonObject)
    return { thread, events: client.events, blocks, isEven: kind('start').length === blocks.length }
  }

  await t.test('a state is that of the namespace that is asked for', async (t) => {
    const { thread } = await spoken('askingBelow')
    const { body } = await hooked.get(`/api/threads/${thread}/state?subgraphs=true`)
    const namespace = String(at(body, 'tasks', 0, 'state', 'checkpoint', 'checkpoint_ns'))
    t.match(namespace, /^child:/)
    const client = await openProtocol(hooked, thread)
    const own = await client.command('state.get', { namespace: [namespace] })
    t.match(own, { type: 'success', result: { checkpoint: { ns: namespace } } })
    t.match(await client.command('state.get', { namespace: [] }), { result: { checkpoint: { ns: '' } } })
    t.match(await client.command('state.get', { namespace: ['none:1'] }), { error: 'no_such_namespace' })
    client.close()
  })

  await t.test('each message once, in the namespace of its task; states behind their checkpoints', async (t) => {
    const thread = randomUUID()
    const client = await openProtocol(person, thread)
    await client.subscribe()
    await client.start(foo, { assistant_id: 'agent' })
    await client.untilEnds(1)
    const { events } = client
    t.equal(textIn(events), 'beginend')
    const messages = of(events, 'messages')
    const kinds = messages.map(({ params }) => params.data.event)
    t.equal(kinds.filter((kind) => kind === 'message-start').length, 2)
    t.equal(kinds.filter((kind) => kind === 'message-finish').length, 2)
    t.ok(messages.every((event) => names(event) === 'agent' && event.params.node === 'agent'))
    const points = events.flatMap((event, i) =>
      event.method === 'checkpoints' ? [[event, events[i + 1]!] as const] : []
    )
    t.strictSame(
      points.map(([{ params }]) => params.data.step),
      [0, 1, 2, 3]
    )
    t.ok(points.every(([, next]) => next.method === 'values'))
    t.equal(of(events, 'values').length, points.length)
    const { body } = await person.get(`/api/threads/${thread}/state`)
    t.equal(at(body, 'checkpoint', 'checkpoint_id'), points.at(-1)![0].params.data.id)
    t.strictSame(points.at(-1)![1].params.data.messages, at(body, 'values', 'messages'))
    const lifecycle = of(events, 'lifecycle').map((event) => `${names(event)} ${event.params.data.event}`)
    // What a tool answers is nothing that is said.
    const tasks = ['agent', 'agent'].flatMap((name) => [`${name} started`, `${name} completed`])
    t.strictSame(lifecycle, [' running', ...tasks, ' completed'])
    const isDone = ({ method, params: { data } }: HeardEvent) => method === 'tasks' && 'result' in data
    for (const [i, event] of events.entries())
      if (event.params.data.event === 'message-finish') {
        const after = events.slice(i).filter((one) => isDone(one) || one.params.data.event === 'completed')
        t.match(after[0], { method: 'tasks', params: { data: { name: 'agent' } } }, 'it finishes before its task')
        t.match(events[i + 1], { method: 'updates', params: { node: 'agent' } }, 'and before it is given')
        t.equal(event.params.data.reason, 'stop')
      }
    t.strictSame(
      of(events, 'updates').map(({ params }) => [params.node, Object.keys(params.data)]),
      [
        ['agent', ['messages', 'sharedState']],
        ['tool', ['messages']],
        ['agent', ['messages', 'sharedState']]
      ]
    )
    const late = await openProtocol(person, thread)
    await late.subscribe()
    await late.untilEnds(1)
    t.strictSame(late.events, events)
    late.close()
    client.close()
  })

  await t.test(
    'a graph inside of the graph begins, tells and ends below it, and so does each task that speaks',
    async (t) => {
      const client = await openProtocol(person, randomUUID())
      await client.subscribe()
      await client.start(foo, { assistant_id: 'nested' })
      await client.untilEnds(1)
      const lifecycle = of(client.events, 'lifecycle').map((event) => `${names(event)} ${event.params.data.event}`)
      const speaking = ['weather_graph/weather_node started', 'weather_graph/weather_node completed']
      t.strictSame(lifecycle, [
        ' running',
        'weather_graph started',
        ...speaking,
        'weather_graph completed',
        ' completed'
      ])
      t.ok(of(client.events, 'values').some((event) => names(event) === 'weather_graph'))
      const { result } = await client.command('agent.getTree', {})
      const below = (namespace: string[]): JsonObject[] => {
        const all = of(client.events, 'lifecycle').filter(({ params }) => params.data.event === 'started')
        return all
          .map(({ params }) => params.namespace)
          .filter((one) => one.length === namespace.length + 1 && namespace.every((part, i) => part === one[i]))
          .map((one) => node(one, one.at(-1)!.split(':')[0]!))
      }
      const node = (namespace: string[], graph_name: string): JsonObject => {
        const children = below(namespace)
        return { namespace, status: 'completed', graph_name, ...(children.length > 0 && { children }) }
      }
      t.strictSame(at(result, 'tree'), node([], 'nested'), 'its tree is what was told of it')
      const shallow = await openProtocol(person, randomUUID())
      await shallow.subscribe(['values', 'lifecycle'], { namespaces: [[]], depth: 0 })
      await shallow.start(foo, { assistant_id: 'nested' })
      await shallow.untilEnds(1)
      t.ok(shallow.events.every(({ params }) => params.namespace.length === 0))
      shallow.close()
      client.close()
    }
  )

  await t.test('whoever hears only some channels hears of them what whoever hears all hears', async (t) => {
    for (const assistant_id of ['agent', 'nested', 'deep', 'tools']) {
      const thread = randomUUID()
      const client = await openProtocol(person, thread)
      await client.subscribe()
      await client.start(foo, { assistant_id })
      await client.untilEnds(1)
      const whole = client.events
      client.close()
      for (const channels of [
        ['lifecycle'],
        ['updates', 'lifecycle'],
        ['values', 'lifecycle'],
        ['messages', 'tasks']
      ]) {
        const some = await openProtocol(person, thread)
        await some.subscribe(channels)
        const expected = whole.filter(({ method }) => channels.includes(method))
        await until(() => some.events.length >= expected.length, channels.join())
        t.strictSame(some.events, expected, `${assistant_id} ${channels}`)
        some.close()
      }
    }
  })

  await t.test('what fails deep down fails all that it is in', async (t) => {
    const client = await openProtocol(person, randomUUID())
    await client.subscribe(['lifecycle'])
    await client.start(foo, { assistant_id: 'deep', config: { configurable: { fails: true } } })
    await client.untilEnds(1)
    const lifecycle = client.events.map((event) => `${names(event)} ${event.params.data.event}`)
    t.strictSame(lifecycle.slice(-3), ['middle/weather_graph completed', 'middle failed', ' failed'])
    client.close()
  })

  await t.test('tools and what they tell; a message finishes with what it has cost', async (t) => {
    const toldOf = async (content: string) => {
      const client = await openProtocol(person, randomUUID())
      await client.subscribe(['tools', 'messages', 'lifecycle'])
      await client.start({ messages: [{ type: 'human', content }] }, { assistant_id: 'tools' })
      await client.untilEnds(1)
      client.close()
      return client.events
    }
    const events = await toldOf('look')
    const data = of(events, 'tools').map(({ params }) => params.data)
    t.match(
      data.filter(({ tool_call_id }) => tool_call_id === 'call_1'),
      [
        { event: 'tool-started', tool_name: 'look', input: '{"city":"Rome"}' },
        { event: 'tool-output-delta', delta: '{"looking":"Rome"}' },
        { event: 'tool-output-delta', delta: 'found' },
        { event: 'tool-finished', output: { content: 'Rome is sunny' } }
      ]
    )
    t.ok(of(events, 'tools').every((event) => names(event) === 'tools'))
    const tasks = of(events, 'lifecycle').map((event) => `${names(event)} ${event.params.data.event}`)
    t.strictSame(
      tasks.filter((told) => told.startsWith('tools ')),
      ['tools started', 'tools completed']
    )
    const kinds = of(events, 'messages').map(({ params }) => params.data)
    t.match(
      kinds.filter(({ event }) => event === 'content-block-finish').map(({ content }) => content),
      [
        { type: 'text', text: 'well ' },
        { type: 'tool_call', name: 'look', args: { city: 'Rome' } },
        { type: 'tool_call', name: 'double', args: { n: 2 } },
        { type: 'text', text: 'well done' }
      ]
    )
    t.match(
      kinds.filter(({ event }) => event === 'message-finish').map(({ usage }) => usage),
      [{ total_tokens: 12 }, { total_tokens: 8 }]
    )
    const failed = of(await toldOf('fail'), 'tools').map(({ params }) => params.data)
    t.match(failed.at(-1), { event: 'tool-error', tool_call_id: 'call_1', message: 'no such tool' })
  })

  await t.test(
    'pictures are blocks of their message in the words of the protocol; states keep their own',
    async (t) => {
      const { blocks, isEven, events } = await spoken('picturing')
      const picture = { type: 'image', mimeType: 'image/png', data: 'aGVsbG8=' }
      t.strictSame(blocks, [
        { type: 'text', text: 'look here' },
        { ...picture, mime_type: 'image/png' },
        { type: 'image', url: 'https://example.com/a.png' }
      ])
      t.ok(isEven, 'each begins and finishes')
      const state = of(events, 'values').at(-1)!.params.data
      const [, given, linked] = at(listIn(state, 'messages').at(-1), 'content') as JsonObject[]
      t.match(given, picture)
      t.match(linked, { type: 'image_url', image_url: { url: 'https://example.com/a.png' } })
    }
  )

  await t.test(
    'helpers that speak at once: each of their tasks begins and ends once, each message is whole',
    async (t) => {
      const { thread, events, blocks } = await spoken('delegating')
      const told = of(events, 'lifecycle').map(({ params }) => `${params.namespace.join('/')} ${params.data.event}`)
      t.equal(new Set(told).size, told.length, 'nothing begins or ends twice')
      const said = blocks.flatMap(({ type, text }) => (type === 'text' ? [String(text)] : []))
      const topics = [1, 2, 3, 4, 5].map((n) => `done: topic ${n}`)
      t.strictSame(said.sort(), ['all have worked', ...topics])
      const starts = of(events, 'messages').filter(({ params }) => params.data.event === 'message-start')
      t.equal(starts.length, 7)
      const begun = of(events, 'tools').filter(({ params }) => params.data.event === 'tool-started')
      t.equal(new Set(begun.map(({ params }) => params.namespace.join('/'))).size, 5, 'each call is its own task’s')
      const some = await openProtocol(hooked, thread)
      await some.subscribe(['lifecycle', 'updates'])
      await some.untilEnds(1)
      t.strictSame(
        some.events,
        [...of(events, 'lifecycle'), ...of(events, 'updates')].sort((a, b) => a.seq - b.seq)
      )
      some.close()
    }
  )

  await t.test('a question is told once; an input while it waits is its answer', async (t) => {
    const thread = randomUUID()
    const client = await openProtocol(person, thread)
    await client.subscribe()
    const config = { configurable: { ask: 'interrupt' } }
    await client.start(foo, { assistant_id: 'agent', config })
    await client.untilEnds(1)
    t.equal(client.ends[0]!.params.data.event, 'interrupted')
    const asked = of(client.events, 'input.requested')
    t.match(
      asked.map(({ params }) => params.data),
      [{ payload: 'i want to interrupt' }]
    )
    const id = String(asked[0]?.params.data.interrupt_id)
    await client.command('input.respond', { namespace: [], interrupt_id: id, response: 'yes', config })
    await client.untilEnds(2)
    t.equal(client.ends[1]!.params.data.event, 'completed')
    const { body } = await person.get(`/api/threads/${thread}/state`)
    t.equal(at(body, 'values', 'asked'), 'yes')
    t.equal(listIn(body, 'values', 'messages').length, 4)
    client.close()
  })

  await t.test('a node that throws fails the run, and says what it said', async (t) => {
    const client = await openProtocol(person, randomUUID())
    await client.subscribe(['lifecycle'])
    await client.start(foo, { assistant_id: 'error' })
    await client.untilEnds(1)
    t.match(client.ends[0]!.params.data as JsonObject, { event: 'failed', error: 'Boo!' })
    await until(() => client.events.length === 2, 'nothing else')
    client.close()
  })
}
