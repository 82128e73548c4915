// Runs of the built-in agent that go on after their process was killed: in mid-text, in thoughts, in a call, in a tool, behind a result, in a
// question. Each of them stands where it is to be cut, all are cut at once, and the next process, or another one, goes on with all of them.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { JsonObject, Run } from '../../lib/base/types.ts'
import { endingParts, NO_PARTS, type Part, partsIn } from '../../lib/protocols/parts.ts'
import { Kind } from '../../lib/run/log/frame.ts'
import { type Child, startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, type Options, PASSWORD, Person, signIn, textIn, until } from '../fixtures/gateway.ts'
import { textsIn } from '../fixtures/graph-journey.ts'
import { ToolServer } from '../fixtures/hanging-tool.ts'
import { type FakeModel, type Script, scripted, startModel } from '../fixtures/model.ts'
import { startPair } from '../fixtures/pair.ts'
import type { Frame, Stream } from '../fixtures/stream.ts'

t.jobs = 2

const MODES = ['messages-tuple', 'values']
const WORDS = Array.from({ length: 80 }, (_, n) => `w${n}`).join(' ')
/** What a model says again of the half that it continues. */
const AGAIN = 20
const QUICK = { name: 'current_time', args: '{}' }
const WRITE = { name: 'write_file', args: JSON.stringify({ path: 'a.txt', content: 'x'.repeat(200) }) }
const ASK = { name: 'ask_user', args: '{"question":"Which colour?"}' }
const [CHANGE, LOOK, SET] = ['change', 'look', 'set'].map((name) => ({ name: `tools_${name}`, args: '{}' }))
const tool = (name: string, annotations: object) => ({
  name,
  annotations,
  inputSchema: { type: 'object', properties: {} }
})
const TOOLS = [tool('change', {}), tool('look', { readOnlyHint: true }), tool('set', { idempotentHint: true })]
const USAGE = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const GATE = { gate: 'after the cut' }

/** Where each run is when its process is killed. */
const PLACES = {
  text: { text: WORDS, ...GATE, gateAfter: 40 },
  'text behind a result': { calls: [[QUICK]], text: WORDS, usage: [USAGE], ...GATE, gateAfter: 40 },
  thoughts: { reasoning: WORDS, text: WORDS, ...GATE, gateAfter: 10 },
  'text behind thoughts': { reasoning: 'well, well', text: WORDS, ...GATE, gateAfter: 40 },
  call: { calls: [[WRITE]], text: WORDS, ...GATE, gateAfter: 20 },
  'call behind text': { preamble: 'I write that down now.', calls: [[WRITE]], text: WORDS, ...GATE, gateAfter: 20 },
  'tool that changes': { calls: [[QUICK, CHANGE!, LOOK!]], text: WORDS },
  'tool that looks': { calls: [[QUICK, LOOK!]], text: WORDS },
  'tool that sets': { calls: [[WRITE, SET!, CHANGE!]], text: WORDS },
  question: { calls: [[ASK, CHANGE!]], text: WORDS },
  // While its model answers it is given a message, which the next answer is about.
  'text behind a message': { text: 'first', gate: 'the message is there' }
} satisfies Record<string, Script>
type Place = keyof typeof PLACES
/** That of a run which is never finished. */
const STUCK = { text: `stuck ${WORDS}`, gate: 'never', gateAfter: 5 }

interface Underway {
  readonly place: Place
  readonly thread: string
  readonly path: string
  readonly reader: Stream
}

/** A model that continues an answer, from a little before where it was cut. */
function continuing(model: FakeModel): void {
  model.aside = (messages) => {
    const last = messages.at(-1)
    if (last?.role !== 'user' || !String(last.content).startsWith('Your last answer was cut off')) return null
    const half = String(messages.at(-2)?.content)
    const preamble = PLACES['call behind text'].preamble
    if (half.startsWith('stuck')) return { ...STUCK, text: STUCK.text.slice(half.length) }
    if (preamble.startsWith(half)) return { preamble: preamble.slice(half.length - AGAIN), calls: [[WRITE]] }
    return { text: WORDS.slice(half.length - AGAIN), usage: [USAGE] }
  }
}

const modelsOf = (model: FakeModel) => [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }]
const BESIDES = { title: { enabled: false }, memory: { enabled: false } }

/** Signs the administrator in, who names the tool server. */
async function administrator(child: Child, tools: ToolServer): Promise<Person> {
  const person = new Person(child.url)
  await person.post('/api/v1/auth/initialize', { email: 'admin@example.com', password: PASSWORD })
  await nameTools(person, tools)
  return person
}

async function nameTools(person: Person, tools: ToolServer): Promise<void> {
  await person.ask('PUT', '/api/mcp/config', { body: { mcp_servers: { tools: { type: 'http', url: tools.url } } } })
  const state = async () => at((await person.get('/api/mcp/config')).body, 'mcp_servers', 'tools', 'status', 'state')
  await until(async () => (await state()) === 'ready', 'the tool server')
}

async function begin(person: Person, place: Place, model: FakeModel, turn = 1): Promise<Underway> {
  const thread = await person.thread()
  const gate = 'gate' in PLACES[place] && { gate: `${PLACES[place].gate}${turn > 1 ? ` ${turn}` : ''}` }
  const script = scripted({ ...PLACES[place], ...gate, strict: true })
  const reader = await person.stream(thread, script, { stream_mode: MODES })
  const isBegun = place !== 'text behind a message' || !gate || (await isGiven(person, reader.runPath, model, gate))
  // The answer was over before the message came.
  if (!isBegun) return begin(person, place, model, turn + 1)
  return { place, thread, path: reader.runPath, reader }
}

/** Whether the run has taken the message while its model answered. */
async function isGiven(
  person: Person,
  path: string,
  model: FakeModel,
  { gate }: { readonly gate: string }
): Promise<boolean> {
  const content = scripted({ ...PLACES.text, strict: true })
  const isAsked = () => model.requests.some(({ messages }) => JSON.stringify(messages).includes(gate))
  await until(isAsked, 'its model answers')
  const given = person.post(`${path}/input`, { messages: [{ role: 'user', content }] })
  await person.post(`${path}/input`, { messages: [{ role: 'assistant', content: 'no' }] })
  model.release(gate)
  return (await given).status === 204
}

/** A run at each place, and its reader has all that is stored. */
async function beginAll(person: Person, tools: ToolServer, model: FakeModel): Promise<Underway[]> {
  const places = Object.keys(PLACES) as Place[]
  const all = await Promise.all(places.map((place) => begin(person, place, model)))
  const isThere = ({ place, reader }: Underway) => {
    const said = [...textsIn(reader.frames).values()].join('')
    if (place.startsWith('tool') || place === 'question') return true
    const words = place === 'text behind thoughts' ? 100 : 140
    if (place.startsWith('text')) return said.length >= words
    if (place === 'thoughts') return reader.frames.length >= 9
    return JSON.stringify(reader.frames).includes('xxxx')
  }
  await Promise.all(all.map((one) => one.reader.until(() => isThere(one))))
  await until(() => tools.hanging === 4, 'four tools are at work')
  return all
}

/** The answers that another protocol makes of the frames: their texts, and ids of their calls. What was made anew is not among them. */
function spoken(frames: readonly Frame[], run: Run): [string, string[]][] {
  const texts = new Map<string, string>()
  const calls = new Map<string, string[]>()
  const cut = new Set<string>()
  let state = NO_PARTS
  const take = (part: Part) => {
    if (part.type === 'message') texts.set(part.message, '')
    if (part.type === 'delta' && part.kind === 'text')
      texts.set(part.message, (texts.get(part.message) ?? '') + part.text)
    if (part.type === 'called' && part.error === null)
      calls.set(part.message, [...(calls.get(part.message) ?? []), part.id])
    if (part.type === 'done' && part.reason === null) cut.add(part.message)
  }
  for (const [n, { event, data }] of frames.entries()) {
    const kind = { metadata: Kind.metadata, values: Kind.values, messages: Kind.messages }[event]
    if (kind === undefined) continue
    const bytes = Buffer.from(kind === Kind.values ? '' : `event: ${event}\ndata: ${data}\n\n`)
    const step = partsIn(run, state, { n, epoch: 1, kind, bytes }, null)
    state = step.state
    step.parts.forEach(take)
  }
  endingParts(run, state).forEach(take)
  const ids = [...texts.keys()].filter((id) => !cut.has(id))
  return ids.map((id) => [texts.get(id) ?? '', calls.get(id) ?? []])
}

function saidIn(messages: readonly JsonObject[]): [string, string[]][] {
  return messages.flatMap(({ type, content, tool_calls }): [string, string[]][] =>
    type === 'ai' ? [[String(content), (tool_calls as JsonObject[]).map(({ id }) => String(id))]] : []
  )
}

const lines = (frames: readonly Frame[]) => frames.map(({ event, id, data }) => `${event} ${id} ${data}`)
const typeOf = (event: unknown) => String(at(event, 'event_type'))

/** What every run has in common, wherever it was cut. */
async function check(t: Test, person: Person, { place, thread, path, reader }: Underway): Promise<JsonObject[]> {
  const had = [...reader.frames]
  const rest = await (await person.join(path, reader.lastId, MODES)).whole()
  const all = await (await person.join(path, null, MODES)).whole()
  t.strictSame(lines([...had, ...rest]), lines(all), `${place}: who comes back has every frame once`)
  const attempts = all.filter(({ event }) => event === 'metadata').map(({ data }) => at(JSON.parse(data), 'attempt'))
  t.strictSame(attempts, [1, 2], `${place}: in the same run`)
  const state = (await person.get(`/api/threads/${thread}/state`)).body
  const messages = listIn(state, 'values', 'messages') as JsonObject[]
  const texts = textsIn(all)
  for (const { type, id, content } of messages)
    if (type === 'ai') t.equal(texts.get(String(id)) ?? '', content, `${place}: deltas add up to the message`)
  t.strictSame(spoken(all, (await person.get(path)).body as Run), saidIn(messages), `${place}: other protocols too`)
  const last = all.findLast(({ event }) => event === 'values')
  t.strictSame(at(JSON.parse(last!.data), 'messages'), messages, `${place}: readers see the state`)
  const events = listIn((await person.get(`${path}/events?limit=1000`)).body)
  const said = events.filter((one) => at(one, 'category') === 'message').map((one) => at(one, 'content'))
  t.strictSame(said, messages, `${place}: each message is an event, once`)
  t.strictSame(
    events.map(typeOf).filter((type) => /^run_/.test(type)),
    ['run_start', 'run_restart', 'run_end']
  )
  const results = messages.filter(({ type }) => type === 'tool').map((one) => one.tool_call_id)
  t.equal(new Set(results).size, results.length, `${place}: a call has one result`)
  for (const one of messages) t.strictSame(one.invalid_tool_calls ?? [], [], `${place}: nothing half is left`)
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1)
  return messages
}

async function checkAll(t: Test, person: Person, all: readonly Underway[], tools: ToolServer): Promise<void> {
  const found = new Map<Place, JsonObject[]>()
  for (const one of all) found.set(one.place, await check(t, person, one))
  const typesAt = (place: Place) => found.get(place)!.map(({ type }) => type)
  const resultsAt = (place: Place) =>
    found.get(place)!.flatMap(({ type, name, content }) => (type === 'tool' ? [`${name}: ${content}`] : []))
  for (const [place, messages] of found)
    if (place !== 'question') t.equal(messages.at(-1)!.content, WORDS, `${place}: the answer is whole`)
  for (const place of ['text', 'thoughts', 'text behind thoughts'] as const)
    t.strictSame(typesAt(place), ['human', 'ai'], place)
  t.match(found.get('thoughts')!.at(-1), { additional_kwargs: { reasoning_content: WORDS } }, 'thoughts are made anew')
  t.match(found.get('text behind thoughts')!.at(-1), { additional_kwargs: { reasoning_content: 'well, well' } })
  for (const place of ['text behind a result', 'call', 'call behind text'] as const)
    t.strictSame(typesAt(place), ['human', 'ai', 'tool', 'ai'], place)
  t.strictSame(typesAt('text behind a message'), ['human', 'ai', 'human', 'ai'], 'what was taken is there once')
  const counted = all.find(({ place }) => place === 'text behind a result')!
  t.match((await person.get(counted.path)).body, { total_tokens: 10 }, 'what all attempts have used is counted')
  t.equal(found.get('call behind text')![1]!.content, PLACES['call behind text'].preamble)
  t.match(resultsAt('tool that changes'), [/^current_time: 2/, 'tools_change: Interrupted', 'tools_look: done'])
  t.match(resultsAt('tool that looks'), [/^current_time: 2/, 'tools_look: done'])
  t.match(resultsAt('tool that sets'), [/^write_file: Wrote/, 'tools_set: done', 'tools_change: done'])
  t.match(resultsAt('question'), [/^ask_clarification: Which colour/, 'tools_change: Interrupted'])
  t.strictSame(tools.calls.toSorted(), ['change', 'change', 'change', 'look', 'look', 'look', 'set', 'set'])
  const kept = all.find(({ place }) => place === 'tool that sets')!
  const state = (await person.get(`/api/threads/${kept.thread}/state`)).body
  t.strictSame(
    at(state, 'values', 'artifacts'),
    ['/mnt/user-data/outputs/a.txt'],
    'a result is kept with what it changed'
  )
  await checkQuestion(t, person, all.find(({ place }) => place === 'question')!)
}

async function checkQuestion(t: Test, person: Person, { thread, path }: Underway): Promise<void> {
  t.match((await person.get(path)).body, { status: 'interrupted', stop_reason: 'asked_user' })
  const { body } = await person.post(`/api/threads/${thread}/runs/wait`, { command: { resume: 'blue' } })
  const messages = listIn(body, 'messages')
  t.match(messages[2], { content: 'blue' }, 'the question is still open, and is answered')
  t.equal(textIn(messages.at(-1), 'content'), WORDS)
}

t.test(
  'on_restart resume: killed at eleven places, each run goes on in the next process, and one that never ends three times',
  { timeout: 170_000 },
  async (t) => {
    const [home, model, tools] = [homeOf(t), await startModel(), await ToolServer.start(t, TOOLS)]
    t.teardown(() => model.stop())
    continuing(model)
    const config: Options = {
      ...{ models: modelsOf(model), ...BESIDES },
      ...{ runs: { on_restart: 'resume' }, server: { shutdown_grace_ms: 300 } }
    }
    const next = () => startChild(t, { home, config })
    const first = await next()
    const person = await administrator(first, tools)
    const thread = await person.thread()
    const stuck = await person.stream(thread, scripted(STUCK), { stream_mode: MODES })
    const all = await beginAll(person, tools, model)
    await stuck.until(({ frames }) => textsIn(frames).size === 1)
    await first.kill()
    await Promise.all(all.map(({ reader }) => reader.ended))
    model.release(GATE.gate)
    tools.release()
    const second = await next()
    person.url = second.url
    await checkAll(t, person, all, tools)
    const said = () => partialOf(person, stuck.runPath)
    await until(async () => (await said()).length >= 24, 'the second attempt says more')
    t.match(await second.stop(), { code: 0 }, 'a stop leaves it to the next process')
    const third = await next()
    person.url = third.url
    await until(async () => (await said()).length >= 40, 'the third attempt says more')
    t.ok(STUCK.text.startsWith(await said()), 'a snapshot has all of it')
    await third.kill()
    person.url = (await next()).url
    t.match((await person.get(stuck.runPath)).body, {
      status: 'error',
      stop_reason: 'server_restart',
      error: /begun 3 times/
    })
    const messages = listIn((await person.get(`/api/threads/${thread}/state`)).body, 'values', 'messages')
    t.equal(messages.length, 2)
    const frames = await (await person.join(stuck.runPath, null, MODES)).whole()
    const kept = [...textsIn(frames).values()]
    t.strictSame(kept, [at(messages[1], 'content')], 'what the attempts have said is one message, and is kept')
  }
)

/** What a run at work has said, as a snapshot shows it. */
async function partialOf(person: Person, path: string): Promise<string> {
  const reader = await person.open('GET', `${path}/stream?mode=snapshot`)
  await reader.untilFrames(1)
  reader.leave()
  return String(at(JSON.parse(reader.frames[0]!.data), 'partial', 0, 'content') ?? '')
}

const MODULE = `
  export const canResume = true
  const hang = () => new Promise(() => {})
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 }
  const ai = { type: 'ai', content: 'aside', name: null, additional_kwargs: {}, response_metadata: {},
    tool_calls: [], invalid_tool_calls: [], usage_metadata: usage }
  const about = { caller: 'subagent:aid', model: 'm' }
  const asks = (messageId) => ({ type: 'llm_request', ...about, messages: [], messageId })
  const answers = (id) =>
    ({ type: 'llm_response', ...about, responseId: id, message: { ...ai, id }, finishReason: 'stop', usage, latencyMs: 0 })
  export default async function* ({ messages, attempt, earlier }) {
    const isAside = messages[0].content === 'aside'
    if (attempt === 1) yield 'half '
    if (attempt === 1 && isAside) {
      yield asks('aside 1')
      yield answers('aside 1')
      yield asks('aside 2')
      yield { type: 'delta', messageId: 'aside 2', model: 'm', text: 'half of an aside' }
    }
    if (attempt === 1) await hang()
    if (isAside) yield asks('aside 3')
    if (isAside) yield answers('aside 3')
    yield earlier.half ? 'whole' : 'and whole'
  }`

t.test('on_restart resume: an agent of your own that says it can goes on, and its sub-agents begin anew', async (t) => {
  const home = homeOf(t)
  writeFileSync(join(home, 'agent.mjs'), MODULE)
  const config: Options = {
    ...BESIDES,
    agent: { runtime: 'module', path: './agent.mjs' },
    runs: { on_restart: 'resume' }
  }
  const first = await startChild(t, { home, config })
  const person = await signIn(first)
  const threads = await Promise.all([person.thread(), person.thread()])
  const [plain, aside] = await Promise.all([
    person.stream(threads[0]!, 'plain', { stream_mode: MODES }),
    person.stream(threads[1]!, 'aside', { stream_mode: MODES })
  ])
  await plain!.until(({ frames }) => textsIn(frames).size === 1)
  await aside!.until(({ frames }) => textsIn(frames).has('aside 2'))
  await first.kill()
  person.url = (await startChild(t, { home, config })).url
  const contents = async (stream: Stream) => {
    await (await person.join(stream.runPath, stream.lastId, MODES)).whole()
    const path = stream.runPath.replace(/\/runs\/.*/, '/state')
    return listIn((await person.get(path)).body, 'values', 'messages').map((one) => at(one, 'content'))
  }
  t.strictSame(await contents(plain!), ['plain', 'half whole'], 'what it yields makes the half longer')
  t.strictSame(await contents(aside!), ['aside', 'half ', 'and whole'], 'half an aside is nothing that is kept')
  t.match((await person.get(aside!.runPath)).body, { status: 'success', subagent_tokens: 6 })
})

t.test('on_restart resume: another process goes on with what one had that is dead', { timeout: 170_000 }, async (t) => {
  const tools = await ToolServer.start(t, TOOLS)
  const { a, b, model } = await startPair(t, { config: { runs: { lease_ms: 2000, on_restart: 'resume' } } })
  continuing(model)
  const onA = await administrator(a, tools)
  const onB = new Person(b.url, onA.cookies)
  await nameTools(onB, tools)
  const all = await beginAll(onA, tools, model)
  model.release(GATE.gate)
  tools.release()
  await a.kill()
  await Promise.all(all.map(({ reader }) => reader.ended))
  const isOver = async ({ path }: Underway) => !/running|pending/.test(textIn((await onB.get(path)).body, 'status'))
  await until(async () => (await Promise.all(all.map(isOver))).every(Boolean), 'all are over', 60_000, 200)
  await checkAll(t, onB, all, tools)
})
