// One conversation through all that stands beside the agent: upload -> tools -> artifact -> title -> summary -> memory -> the next
// run. Every event, every total and every file is what the contract says.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { JsonObject } from '../../lib/base/types.ts'
import { type Backend, databaseSection, onEachBackend } from '../fixtures/backends.ts'
import { asked, at, listIn, openSite, type Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'

const NOTES = 'Revenue grew by 12 percent.\n'
const REPORT = '# Report\n\nRevenue: +12 %\n'
const OUTPUT = '/mnt/user-data/outputs/report.md'
const USAGE = [{ prompt_tokens: 100, completion_tokens: 10 }]

const calls: Script['calls'] = [
  [{ name: 'read_file', args: '{"path":"/mnt/user-data/uploads/notes.txt"}', id: 'call_read' }],
  [{ name: 'write_file', args: JSON.stringify({ path: OUTPUT, content: REPORT }), id: 'call_write' }],
  [{ name: 'present_files', args: JSON.stringify({ filepaths: [OUTPUT] }), id: 'call_present' }]
]

/** What the middlewares are answered, by a word of their question. */
const ASIDE: readonly (readonly [RegExp, Script])[] = [
  [
    /^Give this conversation a title/,
    { text: 'The revenue report', usage: [{ prompt_tokens: 20, completion_tokens: 2 }] }
  ],
  [
    /Summarise the conversation/,
    { text: 'A report was written.', usage: [{ prompt_tokens: 30, completion_tokens: 3 }] }
  ],
  [
    /You keep the memory of an assistant/,
    { text: '{"newFacts":[{"content":"Cares about revenue","category":"preference","confidence":0.9}]}' }
  ]
]

function sideCall(messages: readonly JsonObject[]): Script | null {
  const said = String(messages[0]?.content ?? '')
  return ASIDE.find(([question]) => question.test(said))?.[1] ?? null
}

/** `event_type` and `category` of a run's events, in order. */
const typesOf = (events: readonly unknown[]) => events.map((one) => `${at(one, 'event_type')}/${at(one, 'category')}`)

const TURN = ['llm_request/trace', 'llm_response/trace', 'ai_tool_call/message']
const TOOL = ['tool_start/trace', 'tool_end/trace', 'tool_result/message']
const ANSWER = ['llm_request/trace', 'llm_response/trace', 'ai_message/message']
const ASKED = ['llm_request/trace', 'llm_response/trace']
const BEGIN = ['human_message/message', 'run_start/lifecycle']
const END = ['run_end/lifecycle']

interface Scene {
  readonly model: FakeModel
  readonly person: Person
  readonly home: string
  readonly thread: string
}

async function open(t: Test, backend: Backend): Promise<Scene> {
  const model = await startModel()
  model.aside = sideCall
  t.teardown(() => model.stop())
  const config = {
    database: await databaseSection(t, backend),
    models: [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none' }],
    summarization: { enabled: true, trigger_messages: 8, trigger_tokens: 0, keep_messages: 2 },
    memory: { debounce_seconds: 1 }
  }
  const site = await openSite(t, { config })
  const person = await signIn(site)
  return { model, person, home: site.home, thread: await person.thread() }
}

async function eventsOf({ person, thread }: Scene, run: unknown): Promise<readonly unknown[]> {
  return listIn((await person.get(`/api/threads/${thread}/runs/${textIn(run, 'run_id')}/events?limit=1000`)).body)
}

async function upload({ person, thread }: Scene): Promise<void> {
  const body = `--b\r\ncontent-disposition: form-data; name="files"; filename="notes.txt"\r\n\r\n${NOTES}\r\n--b--\r\n`
  const headers = { 'content-type': 'multipart/form-data; boundary=b' }
  t.equal((await person.ask('POST', `/api/threads/${thread}/uploads`, { body, headers })).status, 200)
}

async function say({ person, thread }: Scene, script: Script, words = ''): Promise<unknown> {
  return (await person.post(`/api/threads/${thread}/runs/wait`, asked(scripted(script, words)))).body
}

onEachBackend(
  t,
  'one conversation: upload, tools, artifact, title, summary, memory, the next run',
  async (t, backend) => {
    const scene = await open(t, backend)
    const { person, thread, model } = scene
    await upload(scene)

    const values = await say(
      scene,
      { calls, text: 'The report is done.', usage: USAGE, strict: true },
      'Write the report. '
    )
    t.strictSame(at(values, 'artifacts'), [OUTPUT])
    t.equal(at(values, 'title'), 'The revenue report')
    const [first] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    const [heard] = model.requests
    t.match(JSON.stringify(heard?.messages[0]), /notes\.txt \(\d+ bytes\)/, 'the model is told of the upload')
    t.match(JSON.stringify(model.requests[1]?.messages.at(-1)), /Revenue grew by 12 percent/, 'and reads it')

    const events = await eventsOf(scene, first)
    t.strictSame(typesOf(events), [
      ...BEGIN,
      ...[...TURN, ...TOOL],
      ...[...TURN, ...TOOL],
      ...[...TURN, ...TOOL],
      ...ANSWER,
      ...[...ASKED, 'middleware:title/middleware', 'middleware:workspace/middleware'],
      ...END
    ])
    const seqs = events.map((one) => Number(at(one, 'seq')))
    t.strictSame(
      seqs,
      seqs.map((_, index) => seqs[0]! + index),
      'seq is dense'
    )
    const ofType = (type: string) => events.filter((one) => at(one, 'event_type') === type)
    for (const [index, id] of ['call_read', 'call_write', 'call_present'].entries()) {
      t.match(ofType('ai_tool_call')[index], {
        content: { tool_calls: [{ id }] },
        metadata: { finish_reason: 'tool_calls' }
      })
      t.match(ofType('tool_start')[index], { metadata: { tool_call_id: id } })
      t.match(ofType('tool_end')[index], { metadata: { tool_call_id: id, status: 'success' } })
      t.match(ofType('tool_result')[index], {
        content: { tool_call_id: id, status: 'success' },
        metadata: { status: 'success' }
      })
    }
    t.match(ofType('ai_message'), [
      { content: { content: 'The report is done.' }, metadata: { finish_reason: 'stop' } }
    ])
    t.strictSame(
      ofType('llm_request').map((one) => at(one, 'metadata', 'caller')),
      [...Array(4).fill('lead_agent'), 'middleware:title']
    )
    t.strictSame(
      ofType('llm_request').map((one) => at(one, 'metadata', 'llm_call_index')),
      [1, 2, 3, 4, 5]
    )
    t.match(ofType('middleware:title'), [{ content: { changes: { title: 'The revenue report' } } }])
    t.match((await person.get(`/api/threads/${thread}`)).body, { values: { title: 'The revenue report' } })
    t.match(first, {
      status: 'success',
      total_tokens: 462,
      lead_agent_tokens: 440,
      middleware_tokens: 22,
      llm_call_count: 5,
      message_count: 1
    })

    const artifact = await person.get(`/api/threads/${thread}/artifacts${OUTPUT}`)
    t.equal(artifact.text, REPORT)
    const me = textIn((await person.get('/api/v1/auth/me')).body, 'id')
    const folder = join(scene.home, 'users', me, 'threads', thread, 'user-data')
    t.equal(readFileSync(join(folder, 'outputs', 'report.md'), 'utf8'), REPORT)
    t.equal(readFileSync(join(folder, 'uploads', 'notes.txt'), 'utf8'), NOTES)

    await until(
      async () => listIn((await person.get('/api/memory')).body, 'facts').length > 0,
      'the memory has learned'
    )
    t.match((await person.get('/api/memory')).body, { facts: [{ content: 'Cares about revenue' }] })

    const asks = model.requests.length
    await say(scene, { text: 'You are welcome.', usage: USAGE, strict: true }, 'Thank you. ')
    const [second] = listIn((await person.get(`/api/threads/${thread}/runs`)).body)
    t.equal(at(second, 'follow_up_to_run_id'), at(first, 'run_id'))
    t.strictSame(typesOf(await eventsOf(scene, second)), [
      ...BEGIN,
      'middleware:memory/middleware',
      ...[...ASKED, 'summary/message', 'summarization/trace', 'middleware:summarize/middleware'],
      ...ANSWER,
      ...END
    ])
    const later = await eventsOf(scene, second)
    const summary = later.find((one) => at(one, 'event_type') === 'summarization')
    const replaced = listIn(at(summary, 'metadata'), 'replaced_message_ids')
    t.match(summary, { content: 'A report was written.', metadata: { replaced_count: replaced.length } })
    const ids = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages').map((one) =>
      at(one, 'id')
    )
    t.strictSame(ids.slice(0, replaced.length), replaced, 'of messages that are there')
    t.match(later[0], { metadata: { follow_up_to_run_id: at(first, 'run_id') } })
    const prompts = model.requests.slice(asks).map(({ messages }) => JSON.stringify(messages))
    t.match(prompts.at(-1), /Cares about revenue/)
    t.match(prompts.at(-1), /A report was written/)
    t.notMatch(prompts.at(-1), /call_read/, 'what the summary covers is not said again')
    t.match((await person.get(`/api/threads/${thread}/token-usage`)).body, {
      total_tokens: 462 + 143,
      total_runs: 2,
      by_model: { main: { tokens: 605, runs: 2 } },
      by_caller: { lead_agent: 550, middleware: 55, subagent: 0 }
    })
  }
)
