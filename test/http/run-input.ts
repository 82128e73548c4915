// Messages for an agent at work, and answers that go on from their half.
import t from 'tap'
import { createAgent } from '../../lib/agent/lead.ts'
import { type Model, type ModelRequest, Models, type OnDelta } from '../../lib/agent/model.ts'
import type { ModelInfo } from '../../lib/agent/runtime.ts'
import { at, listIn, openSite, signIn, textIn, until } from '../fixtures/gateway.ts'
import { ScriptedAgent } from '../fixtures/agent.ts'

type Act = (request: ModelRequest, say: (text: string) => void, nth: number) => Promise<void> | void

/** A model of one's own: each call acts as it is told to. */
class ActingModel implements Model {
  readonly info: ModelInfo
  readonly requests: ModelRequest[] = []
  readonly #act: Act

  constructor(act: Act, continuation: ModelInfo['continuation'] = 'ask') {
    this.#act = act
    const names = { name: 'acting', model: 'acting', display_name: null, description: null }
    this.info = { ...names, supports_thinking: false, supports_reasoning_effort: false, continuation }
  }

  async complete(request: ModelRequest, onDelta: OnDelta) {
    this.requests.push(request)
    let text = ''
    await this.#act(
      request,
      (piece) => {
        text += piece
        onDelta({ type: 'delta', messageId: request.messageId, model: 'acting', text: piece })
      },
      this.requests.length
    )
    return { responseId: 'r', text, reasoning: '', calls: [], finishReason: 'stop', usage: null }
  }
}

const agentOf = (model: Model) => createAgent({ models: new Models([model]), tools: [] })
const said = (request: ModelRequest | undefined) => request?.messages.map(({ role, content }) => `${role}: ${content}`)
const ask = (content: string) => ({ input: { messages: [{ role: 'user', content }] } })

t.test('a message for the agent at work is taken before its next model call, and joins the conversation', async (t) => {
  let go = () => {}
  const model = new ActingModel(async (_, say, nth) => {
    if (nth === 1) await new Promise<void>((resolve) => (go = resolve))
    say(`answer ${nth}`)
  })
  const site = await openSite(t, { agent: agentOf(model) })
  const person = await signIn(site)
  const threadId = await person.thread()
  const path = `/api/threads/${threadId}/runs`
  const run = textIn((await person.post(path, ask('go'))).body, 'run_id')
  await until(() => model.requests.length === 1, 'the first call')
  const message = { role: 'user', id: 'steer', content: 'in French' }
  const giving = person.post(`${path}/${run}/input`, { messages: [message] })
  const wrong = await person.post(`${path}/${run}/input`, { messages: [{ role: 'assistant', content: 'no' }] })
  t.equal(wrong.status, 422)
  go()
  t.equal((await giving).status, 204)
  await until(async () => at((await person.get(`${path}/${run}`)).body, 'status') === 'success', 'the end')
  t.same(said(model.requests[1]), ['user: go', 'assistant: answer 1', 'user: in French'])
  const state = (await person.get(`/api/threads/${threadId}/state`)).body
  const messages = listIn(state, 'values', 'messages').map((one) => textIn(one, 'content'))
  t.same(messages, ['go', 'answer 1', 'in French', 'answer 2'])
  const late = await person.post(`${path}/${run}/input`, { messages: [message] })
  t.equal(late.status, 409, 'a run that is over takes none')
})

t.test('what the agent has not taken when its run ends is refused: it is still its sender’s', async (t) => {
  const model = new ActingModel(
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  )
  const site = await openSite(t, { agent: agentOf(model) })
  const person = await signIn(site)
  const path = `/api/threads/${await person.thread()}/runs`
  const run = textIn((await person.post(path, ask('go'))).body, 'run_id')
  await until(() => model.requests.length === 1, 'the call')
  const giving = person.post(`${path}/${run}/input`, { messages: [{ role: 'user', content: 'wait' }] })
  await person.post(`${path}/${run}/cancel?wait=true`)
  t.equal((await giving).status, 409)
  const stranger = await signIn(site)
  t.equal((await stranger.post(`${path}/${run}/input`, { messages: [{ role: 'user', content: 'x' }] })).status, 404)
})

t.test('an agent that takes no input answers 409', async (t) => {
  const agent = new ScriptedAgent()
  const site = await openSite(t, { agent })
  const person = await signIn(site)
  const path = `/api/threads/${await person.thread()}/runs`
  const run = textIn((await person.post(path, ask('go'))).body, 'run_id')
  await until(() => agent.started.length === 1, 'the run')
  t.equal((await person.post(`${path}/${run}/input`, { messages: [{ role: 'user', content: 'x' }] })).status, 409)
})

for (const how of ['ask', 'prefix'] as const)
  t.test(`a stopped answer goes on as the same message, by ${how}; what is said again is left out`, async (t) => {
    const model = new ActingModel(async ({ signal }, say, nth) => {
      if (nth > 1) return say('the quick brown fox jumps over the lazy dog.')
      say('Once upon a time the quick brown fox ')
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }, how)
    const site = await openSite(t, { agent: agentOf(model) })
    const person = await signIn(site)
    const threadId = await person.thread()
    const path = `/api/threads/${threadId}/runs`
    const messagesOf = async () =>
      listIn((await person.get(`/api/threads/${threadId}/state`)).body, 'values', 'messages')
    const run = textIn((await person.post(path, ask('a story'))).body, 'run_id')
    await until(() => model.requests.length === 1, 'the call')
    await person.post(`${path}/${run}/cancel?wait=true`)
    const half = (await messagesOf()).at(-1)
    t.equal(textIn(half, 'content'), 'Once upon a time the quick brown fox ')
    const refused = await person.post(path, { ...ask('more'), continue_from: { run_id: run } })
    t.equal(refused.status, 422)
    const continue_from = { run_id: run }
    const elsewhere = await person.thread()
    for (const [where, body] of [
      [path, { continue_from: { run_id: 'nobody' } }],
      [`/api/threads/${elsewhere}/runs`, { continue_from }],
      ['/api/runs', { continue_from }],
      ['/api/runs', { continue_from, config: { configurable: { thread_id: elsewhere } } }],
      ['/api/runs/batch', [{ continue_from }]]
    ] as const)
      t.equal((await person.post(where, body)).status, 404, `${where}: of another thread, or of none`)
    const going = await person.post(`${path}/stream`, {
      continue_from: { run_id: run },
      stream_mode: ['messages-tuple']
    })
    t.match(going.text, /Once upon a time the quick brown fox /, 'the first frame has the half')
    const messages = await messagesOf()
    t.equal(messages.length, 2)
    t.equal(textIn(messages[1], 'id'), textIn(half, 'id'))
    t.equal(textIn(messages[1], 'content'), 'Once upon a time the quick brown fox jumps over the lazy dog.')
    const roles = model.requests[1]?.messages.map(({ role }) => role)
    t.same(roles, how === 'ask' ? ['user', 'assistant', 'user'] : ['user', 'assistant'])
  })

t.test('a model that cannot continue says so before anything is stored', async (t) => {
  const site = await openSite(t, { agent: agentOf(new ActingModel((_, say) => say('done'), 'none')) })
  const person = await signIn(site)
  const path = `/api/threads/${await person.thread()}/runs`
  const run = textIn((await person.post(`${path}`, ask('go'))).body, 'run_id')
  await until(async () => at((await person.get(`${path}/${run}`)).body, 'status') === 'success', 'the end')
  t.equal((await person.post(path, { continue_from: { run_id: run } })).status, 409)
  t.equal(listIn((await person.get(path)).body).length, 1)
})
