// What a run leaves behind: the durable events in their order, and one identity for a message wherever it is seen.
import t from 'tap'
import type { Agent } from '../../lib/agent/runtime.ts'
import type { Json } from '../../lib/base/types.ts'
import { anAnswer, request, response } from '../fixtures/agent.ts'
import { databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import type { Frame } from '../fixtures/stream.ts'

const ORDER = [
  'human_message',
  'run_start',
  'llm_request',
  'llm_response',
  'ai_tool_call',
  'tool_start',
  'tool_end',
  'tool_result',
  'llm_request',
  'llm_response',
  'ai_message',
  'run_end'
]

const WORDS = scripted({ calls: [[{ name: 'current_time', args: '{}' }]], text: 'all done' })

/** Ids of the messages that a stream told, in the order of their first frame. */
function idsOf(frames: readonly Frame[]): string[] {
  const ids = frames.filter(({ event }) => event === 'messages').map(({ data }) => textIn(JSON.parse(data), 0, 'id'))
  return [...new Set(ids)]
}

t.test('one run with one tool call', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', provider: 'openai', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const site = await openSite(t, { config: { models, title: { enabled: false } } })
  const person = await signIn(site)
  const thread = await person.thread()
  const stream = await person.stream(thread, WORDS, { stream_mode: ['messages-tuple', 'values'] })
  t.equal(await stream.ended, 'whole')
  const events = listIn((await person.get(`${stream.runPath}/events`)).body)

  t.test('leaves exactly these events in this order, seq from 1 without a hole [contract 4.3]', async (t) => {
    t.same(
      events.map((event) => at(event, 'event_type')),
      ORDER
    )
    t.same(
      events.map((event) => at(event, 'seq')),
      ORDER.map((_, index) => index + 1)
    )
  })

  t.test('event_types picks types: separated by commas, repeated, or as a JSON list', async (t) => {
    const spellings = [
      'event_types=ai_message,run_end',
      'event_types=ai_message,%20run_end,',
      'event_types=ai_message&event_types=run_end',
      `event_types=${encodeURIComponent('["ai_message","run_end"]')}`
    ]
    for (const query of spellings)
      t.match(
        listIn((await person.get(`${stream.runPath}/events?${query}`)).body),
        [{ event_type: 'ai_message' }, { event_type: 'run_end' }],
        query
      )
    t.same((await person.get(`${stream.runPath}/events?event_types=none`)).body, [])
    t.equal(listIn((await person.get(`${stream.runPath}/events?event_types=`)).body).length, ORDER.length)
  })

  t.test('its tool call and result are tied by the id of the call [Events 2]', async (t) => {
    const call = textIn(events[4], 'content', 'tool_calls', 0, 'id')
    t.equal(at(events[5], 'metadata', 'tool_call_id'), call)
    t.equal(at(events[7], 'content', 'tool_call_id'), call)
  })

  t.test('a message has the same id in frames, state, history and events', async (t) => {
    const state = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages').map((one) =>
      at(one, 'id')
    )
    const history = listIn((await person.post(`/api/threads/${thread}/history`)).body, 0, 'values', 'messages').map(
      (one) => at(one, 'id')
    )
    const logged = events
      .filter((event) => at(event, 'category') === 'message')
      .map((event) => at(event, 'content', 'id'))
    t.equal(state.length, 4)
    t.same(history, state)
    t.same(logged, state)
    t.same(idsOf(stream.frames), state.slice(1), 'the human message is the input, not a frame of its own')
    const values = stream.frames.findLast(({ event }) => event === 'values')
    t.same(
      listIn(JSON.parse(values?.data ?? '{}'), 'messages').map((one) => at(one, 'id')),
      state
    )
  })

  t.test('the next run goes on with seq where this one ended', async (t) => {
    const next = await person.post(`/api/threads/${thread}/runs/wait`, asked(scripted({ text: 'more' })))
    const run = textIn((await person.get(`/api/threads/${thread}/runs`)).body, 0, 'run_id')
    t.equal(next.status, 200)
    const more = listIn((await person.get(`/api/threads/${thread}/runs/${run}/events`)).body)
    t.equal(at(more[0], 'seq'), ORDER.length + 1)
  })
})

onEachBackend(
  t,
  'a final reply of content blocks is a message, with its run and feedback, and counts',
  async (t, backend) => {
    const blocks: Json[] = [
      { type: 'text', text: 'It is ' },
      { type: 'image_url', image_url: { url: 'x' } },
      { type: 'text', text: 'noon' }
    ]
    const agent: Agent = {
      async start(_, sink) {
        sink.record(request())
        sink.record(response({ ...anAnswer(''), content: blocks }))
        sink.record({ type: 'step', node: 'agent' })
      }
    }
    const site = await openSite(t, { agent, config: { database: await databaseSection(t, backend) } })
    const person = await signIn(site)
    const path = `/api/threads/${await person.thread()}`
    t.equal((await person.post(`${path}/runs/wait`, asked('what time is it'))).status, 200)
    const [run] = listIn((await person.get(`${path}/runs`)).body)
    const run_id = textIn(run, 'run_id')
    t.match(run, { status: 'success', message_count: 1 })
    const rated = await person.ask('PUT', `${path}/runs/${run_id}/feedback`, { body: { rating: 1, comment: 'right' } })
    t.equal(rated.status, backend === 'memory' ? 503 : 200)
    const feedback = backend === 'memory' ? null : { rating: 1, comment: 'right' }
    const said = listIn((await person.get(`${path}/messages`)).body)
    t.match(said, [
      { event_type: 'human_message' },
      { event_type: 'ai_message', run_id, content: { type: 'ai', content: blocks }, feedback }
    ])
    t.equal(said.length, 2)
  }
)
