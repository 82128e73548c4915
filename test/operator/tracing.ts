// Traces: what comes in as traceparent goes with the run to models, tool servers and webhooks, and spans are recorded where the operator wants.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { SpanLine } from '../fixtures/span-file.ts'
import { startChild } from '../fixtures/child.ts'
import { asked, homeOf, openSite, signIn, until } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { openReceiver } from '../fixtures/receiver.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const HEADERS = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1', 'x-request-id': 'req-of-a-trace' }
const SPANS = new URL('../fixtures/span-file.js', import.meta.url).href
const NETWORKS = { allowed_networks: ['127.0.0.1'] }

t.test('what a request belongs to goes to the model and the webhook of its run; nothing else does', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const receiver = await openReceiver(t)
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const config = { models, title: { enabled: false }, memory: { enabled: false }, webhooks: NETWORKS }
  const person = await signIn(await openSite(t, { config }))
  const runWith = async (headers: Record<string, string>) => {
    const body = asked(scripted({ text: 'hello' }), { webhook: receiver.url })
    const before = receiver.heads.length
    await person.post(`/api/threads/${await person.thread()}/runs/wait`, body, { headers })
    await until(() => receiver.heads.length > before, 'the webhook')
    return [model.requests.at(-1)!.headers, receiver.heads.at(-1)!]
  }
  for (const head of await runWith(HEADERS)) {
    t.equal(head.traceparent, HEADERS.traceparent)
    t.equal(head.tracestate, 'vendor=1')
  }
  for (const wrong of [
    '',
    '00-1-2-01',
    `ff-${TRACE}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-01\u00e9`
  ])
    for (const head of await runWith(wrong === '' ? {} : { traceparent: wrong }))
      t.equal(head.traceparent, undefined, wrong)
  const later = await runWith({ traceparent: `01-${TRACE}-${PARENT}-01-more` })
  t.equal(later[0]?.traceparent, HEADERS.traceparent, 'of a later version what is known of it')
})

t.test('without an SDK nothing is sent along that nobody has given', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
  const quiet = { title: { enabled: false }, memory: { enabled: false } }
  const person = await signIn(await openSite(t, { config: { models, ...quiet, tracing: { spans: true } } }))
  for (const headers of [{}, HEADERS]) {
    await person.post(`/api/threads/${await person.thread()}/runs/wait`, asked(scripted({ text: 'hi' })), { headers })
    t.equal(model.requests.at(-1)?.headers.traceparent, 'traceparent' in headers ? HEADERS.traceparent : undefined)
  }
})

t.test(
  'spans of run, model, tool and commit are below the request\u2019s, and lines of the log have its ids',
  async (t) => {
    const model = await startModel()
    t.teardown(() => model.stop())
    const home = homeOf(t)
    const file = join(home, 'spans.jsonl')
    const models = [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
    const child = await startChild(t, {
      home,
      config: {
        models,
        title: { enabled: false },
        memory: { enabled: false },
        tracing: { spans: true },
        log: { level: 'debug' }
      },
      env: { NODE_OPTIONS: `--import ${SPANS}`, SPANS_FILE: file }
    })
    const person = await signIn(child)
    await person.post(
      `/api/threads/${await person.thread()}/runs/wait`,
      asked(scripted({ calls: [[{ name: 'current_time', args: '{}' }]] })),
      { headers: HEADERS }
    )
    const spans = readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line): SpanLine => JSON.parse(line))
    const named = (name: string) => spans.filter((one) => one.name === name && one.traceId === TRACE)
    const [run] = named('run')
    t.equal(run?.parentId, PARENT)
    const [asking] = named('model')
    t.equal(asking?.parentId, run?.spanId)
    t.match(asking?.attributes, { 'gen_ai.request.model': 'main' })
    t.equal(
      model.requests[0]!.headers.traceparent,
      `00-${TRACE}-${asking?.spanId}-01`,
      'the model is asked within its span'
    )
    t.match(named('tool'), [{ parentId: run?.spanId, attributes: { 'gen_ai.tool.name': 'current_time' } }])
    t.ok(spans.some(({ name }) => name === 'commit'))
    const lines = child.log.split('\n').filter((line) => line.includes('a model has answered'))
    t.match(lines[0], `"request_id":"req-of-a-trace"`)
    t.match(lines[0], `"trace_id":"${TRACE}"`)
  }
)
