// The fields of OpenAI's requests: those that are accepted and change nothing, and those that are refused, as the room lists them and the
// README says; and what reaches the model of those that are honoured.
import { readFileSync } from 'node:fs'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { COMPLETION_FIELDS, RESPONSE_FIELDS } from '../../lib/protocols/openai/fields.ts'
import { at, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { programOf } from '../fixtures/program.ts'

type Json = Record<string, unknown>

const README = new URL('../../../lib/protocols/README.md', import.meta.url)
const HELLO = '/demo rate=0 deltas=3'
const off = { enabled: false }
const messages = [{ role: 'user', content: HELLO }]
const REQUESTS = {
  '/v1/responses': { fields: RESPONSE_FIELDS, body: { model: 'lead_agent', input: HELLO } },
  '/v1/chat/completions': { fields: COMPLETION_FIELDS, body: { model: 'lead_agent', messages } }
} as const

/** As clients send them. */
const VALUES: Json = {
  temperature: 0.7,
  top_p: 0.9,
  top_logprobs: 0,
  parallel_tool_calls: true,
  service_tier: 'auto',
  prompt_cache_key: 'k',
  prompt_cache_retention: '24h',
  safety_identifier: 's',
  user: 'u',
  verbosity: 'low',
  include: ['reasoning.encrypted_content'],
  truncation: 'auto',
  reasoning: { effort: 'low', summary: 'auto' },
  max_output_tokens: 1000,
  max_tool_calls: 5,
  stream_options: { include_obfuscation: false },
  context_management: [{ type: 'compaction', compact_threshold: 1000 }],
  max_tokens: 1000,
  max_completion_tokens: 1000,
  frequency_penalty: 0,
  presence_penalty: 0,
  reasoning_effort: 'low',
  seed: 1,
  store: true,
  prediction: { type: 'content', content: 'x' }
}
/** Of those that are refused only with some values. */
const WRONG: Json = { store: false, n: 2, logprobs: true, modalities: ['audio'] }

const namesIn = (cell: string): string[] => [...cell.matchAll(/`(\w+)(?:: true)?`/g)].map(([, name]) => name!)

const site = await openSite(t, { config: { memory: off, title: off } })
const person = await programOf(await signIn(site), ...PERMISSIONS)

t.test('the README lists what the room accepts', async (t) => {
  const [, row = ''] = /^\| accepted, and without effect \|(.*)\|$/m.exec(readFileSync(README, 'utf8')) ?? []
  const [ofResponses = '', ofCompletions = ''] = row.split('|')
  const listed = namesIn(ofResponses)
  t.strictSame(listed.toSorted(), [...RESPONSE_FIELDS.ignored, 'store'].toSorted())
  t.match(ofCompletions, 'the first ten')
  t.strictSame(
    [...listed.slice(0, 10), ...namesIn(ofCompletions)].toSorted(),
    [...COMPLETION_FIELDS.ignored].toSorted()
  )
})

for (const [path, { fields, body }] of Object.entries(REQUESTS)) {
  t.test(`${path}: each field that is accepted is, as clients send it`, async (t) => {
    for (const name of fields.ignored) {
      t.ok(name in VALUES, name)
      const answer = await person.post(path, { ...body, [name]: VALUES[name] })
      t.equal(answer.status, 200, `${name}: ${answer.text.slice(0, 200)}`)
    }
    const given = Object.fromEntries(fields.ignored.map((name) => [name, VALUES[name]]))
    t.equal((await person.post(path, { ...body, ...given })).status, 200, 'and all together')
  })

  t.test(`${path}: each field that is refused is named`, async (t) => {
    for (const [name, { unless }] of Object.entries(fields.refused)) {
      const refused = await person.post(path, { ...body, [name]: WRONG[name] ?? { x: 1 } })
      t.match(refused, { status: 400, body: { error: { param: name, type: 'invalid_request_error' } } }, name)
      for (const value of unless) t.equal((await person.post(path, { ...body, [name]: value })).status, 200, name)
    }
  })
}

const WEATHER = { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } }
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false
}
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='

t.test('tools, instructions, the form of an answer, images and files reach the model', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [
    {
      name: 'fake',
      model: 'fake',
      base_url: model.baseUrl,
      api_key: 'none',
      supports_vision: true
    }
  ]
  const site = await openSite(t, { config: { models, memory: off, title: off, summarization: off } })
  const owner = await signIn(site)
  const program: Person = await programOf(owner, ...PERMISSIONS)
  const text = scripted({ text: 'fine' })
  const asked = async (path: string, body: Json) => {
    const answer = await program.post(path, body)
    t.equal(answer.status, 200, answer.text)
    return model.requests.at(-1)!.body
  }
  const instructions = 'Answer in verse.'
  const ofResponses = await asked('/v1/responses', {
    instructions,
    tools: [{ type: 'function', ...WEATHER }],
    text: { format: { type: 'json_schema', name: 'place', schema: SCHEMA, strict: true } },
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_image', image_url: PIXEL },
          { type: 'input_text', text }
        ]
      }
    ]
  })
  const ofCompletions = await asked('/v1/chat/completions', {
    model: 'lead_agent',
    tools: [{ type: 'function', function: WEATHER }],
    response_format: { type: 'json_schema', json_schema: { name: 'place', schema: SCHEMA, strict: true } },
    messages: [
      { role: 'system', content: instructions },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: PIXEL } },
          { type: 'text', text }
        ]
      }
    ]
  })
  for (const body of [ofResponses, ofCompletions]) {
    t.match(body.response_format, { type: 'json_schema', json_schema: { name: 'place', schema: SCHEMA, strict: true } })
    const tools = (body.tools as Json[]).map((tool) => at(tool, 'function', 'name'))
    t.ok(tools.includes('get_weather'), 'beside its own')
    const said = JSON.stringify(body.messages)
    t.match(said, instructions)
    t.match(said, PIXEL)
  }

  const conversation = textIn((await program.post('/v1/conversations')).body, 'id')
  const thread = conversation.replace(/^conv_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  const form = new FormData()
  form.append('files', new Blob(['tea']), 'notes.txt')
  const uploaded = await fetch(`${site.url}/api/threads/${thread}/uploads`, {
    method: 'POST',
    headers: owner.headers(),
    body: form
  })
  t.equal(uploaded.status, 200)
  const file = (more: Json) => ({
    conversation,
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_file', ...more },
          { type: 'input_text', text }
        ]
      }
    ]
  })
  t.match(JSON.stringify((await asked('/v1/responses', file({ file_id: 'notes.txt' }))).messages), 'uploads/notes.txt')
  t.match(await program.post('/v1/responses', file({ file_id: 'none.txt' })), {
    status: 400,
    body: { error: { param: 'input[0].content[0].file_id' } }
  })
  const file_data = `data:text/plain;base64,${Buffer.from('coffee').toString('base64')}`
  const byData = await asked('/v1/responses', file({ filename: 'more.txt', file_data }))
  t.match(JSON.stringify(byData.messages), 'more.txt')
})
