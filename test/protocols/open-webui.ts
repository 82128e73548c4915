// Open WebUI, unmodified, with the gateway as its model: a chat, a call of one of its own tools, and a stop, by what its page asks of its server.
// `npm run test:long`.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { freePort } from '../fixtures/free-port.ts'
import {
  at,
  homeOf,
  listIn,
  openSite,
  PASSWORD,
  Person,
  type Site,
  signIn,
  textIn,
  until
} from '../fixtures/gateway.ts'
import { programOf } from '../fixtures/program.ts'
import { pythonWithOpenWebUi } from '../fixtures/python.ts'
import { IS_LONG } from '../fixtures/size.ts'

/** It imports half a Python library, and makes its database. */
const START_MS = 300_000
const MODEL = 'lead_agent'
const TOOL = `
class Tools:
    async def favourite_colour(self, person: str) -> str:
        """
        The favourite colour of a person.
        :param person: who
        """
        return f"{person} likes teal"
`
const skip = !IS_LONG && 'real clients of other protocols are run by npm run test:long'
const words = (deltas: number) => Array.from({ length: deltas }, (_, n) => `w${String(n).padStart(4, '0')}`).join(' ')

/** Its server, with nothing that asks models or networks by itself. */
async function started(t: Test, site: Site, bin: string): Promise<string> {
  const { token } = await programOf(await signIn(site), ...PERMISSIONS)
  const [home, port] = [homeOf(t), await freePort()]
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    DATA_DIR: join(home, 'data'),
    OPENAI_API_BASE_URL: `${site.url}/v1`,
    OPENAI_API_KEY: token,
    WEBUI_SECRET_KEY: randomUUID(),
    ENABLE_OLLAMA_API: 'false',
    USE_SLIM_DOCKER: 'true',
    OFFLINE_MODE: 'true',
    ANONYMIZED_TELEMETRY: 'false',
    RAG_EMBEDDING_ENGINE: 'openai',
    ENABLE_TITLE_GENERATION: 'false',
    ENABLE_TAGS_GENERATION: 'false',
    ENABLE_FOLLOW_UP_GENERATION: 'false'
  }
  const program = ['-c', 'from open_webui import app; app()', 'serve', '--host', '127.0.0.1', '--port', String(port)]
  const server = spawn(join(bin, 'python'), program, { cwd: home, env, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  server.stderr.on('data', (bytes) => {
    errors = (errors + String(bytes)).slice(-2000)
  })
  t.teardown(async () => {
    if (server.exitCode !== null) return
    server.kill('SIGKILL')
    await once(server, 'exit')
  })
  const url = `http://127.0.0.1:${port}`
  const isThere = () =>
    fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false
    )
  await until(async () => server.exitCode !== null || (await isThere()), 'Open WebUI listens', START_MS)
  if (server.exitCode !== null) throw new Error(`Open WebUI did not start: ${errors}`)
  return url
}

/** Its user, and the chats that they have. */
class Chatting {
  readonly #url: string
  readonly #token: string

  constructor(url: string, token: string) {
    this.#url = url
    this.#token = token
  }

  async ask(method: string, path: string, body?: object): Promise<unknown> {
    const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' }
    const answer = await fetch(`${this.#url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }

  /** Begins a chat as its page does. Resolves with its id and how its answer stands. */
  async say(content: string, more: object = {}): Promise<{ chat: string; answer(): Promise<unknown> }> {
    const [user, id] = [randomUUID(), randomUUID()]
    const user_message = { id: user, parentId: null, childrenIds: [id], role: 'user', content, models: [MODEL] }
    const messages = [{ role: 'user', content }]
    const chatting = { id, parent_id: null, user_message, session_id: randomUUID(), background_tasks: {} }
    const body = { model: MODEL, stream: true, messages, ...chatting, ...more }
    const chat = textIn(await this.ask('POST', '/api/chat/completions', body), 'chat_id')
    const answer = async () => at(await this.ask('GET', `/api/v1/chats/${chat}`), 'chat', 'history', 'messages', id)
    return { chat, answer }
  }
}

t.test('Open WebUI has a chat, a call of its own tool, and a stop that reaches the run', { skip }, async (t) => {
  const python = await pythonWithOpenWebUi()
  if ('reason' in python) return t.comment(python.reason)
  const off = { enabled: false }
  const site = await openSite(t, { config: { memory: off, title: off, runs: { disconnect_grace_ms: 0 } } })
  const url = await started(t, site, python.bin)
  const account = { name: 'Ada', email: 'ada@example.com', password: PASSWORD }
  const { body } = await new Person(url).post('/api/v1/auths/signup', account)
  const chatting = new Chatting(url, textIn(body, 'token'))
  const models = listIn(await chatting.ask('GET', '/api/models'), 'data').map((one) => at(one, 'id'))
  t.ok(models.includes(MODEL), 'it lists the assistants')

  const isDone = async (answer: () => Promise<unknown>) => at(await answer(), 'done') === true
  const first = await chatting.say('/demo deltas=20 rate=0')
  await until(() => isDone(first.answer), 'an answer')
  t.equal(textIn(await first.answer(), 'content').trim(), words(20))

  const tool = { id: 'colours', name: 'Colours', content: TOOL, meta: { description: 'Colours of people' } }
  await chatting.ask('POST', '/api/v1/tools/create', tool)
  const calling = '/demo deltas=8 rate=0 tool=favourite_colour args={"person":"Ada"}'
  const called = await chatting.say(calling, { tool_ids: ['colours'] })
  await until(() => isDone(called.answer), 'an answer behind its tool')
  const answer = await called.answer()
  t.match(listIn(answer, 'output'), [
    { type: 'function_call', name: 'favourite_colour', arguments: '{"person":"Ada"}' },
    { type: 'function_call_output', output: [{ text: 'Ada likes teal' }] },
    { type: 'message' }
  ])
  t.equal(textIn(answer, 'content').trim(), words(8))
  await until(() => site.sizes().runs === 0, 'nothing runs')

  const long = await chatting.say('/demo deltas=5000 rate=20')
  await until(async () => String(at(await long.answer(), 'content') ?? '').length > 20, 'it is being said')
  t.equal(site.sizes().runs, 1)
  await chatting.ask('POST', `/api/tasks/chat/${long.chat}/stop`, {})
  await until(() => site.sizes().runs === 0, 'the run is stopped')
  const said = textIn(await long.answer(), 'content').trim()
  t.equal(said, words(5000).slice(0, said.length), 'what was said stays')
})
