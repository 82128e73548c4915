// LangGraph's Python client, the newest that can be had, works against ours as it is, through a proxy that cuts. It is installed into a
// virtual environment of its own; where there is no Python, or no registry, the test says so.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { demoWord } from '../../lib/agent/demo.ts'
import { asked, at, listIn, openSite, type Person, signIn } from '../fixtures/gateway.ts'
import { type CuttingProxy, openProxy } from '../fixtures/proxy.ts'
import { pythonWithGraphs } from '../fixtures/python.ts'

/** The script lies beside the build this file was compiled into. */
const SCRIPT = fileURLToPath(new URL('../../../test/client/python/client.py', import.meta.url))
const run = promisify(execFile)

const client = await pythonWithGraphs()
const options = { skip: 'reason' in client && client.reason, timeout: 120_000 }
const python = 'bin' in client ? join(client.bin, 'python') : ''

/**
 * Before 0.4.10 the client asks for the rest of a cut wait with the length of the request that was cut, and no body: its own HTTP library
 * refuses to send that. No answer of a server can mend it; what can be had nevertheless is tested instead.
 */
const TAKES_UP_SINCE = [0, 4, 10]
const version = python === '' ? '' : (await run(python, [SCRIPT, 'version'])).stdout.trim()
const takesUp = isSince(version.split('.').map(Number), TAKES_UP_SINCE)
const takingUp = { ...options, skip: options.skip || (!takesUp && `langgraph-sdk ${version} cannot take up a wait`) }
const failing = { ...options, skip: options.skip || (takesUp && `langgraph-sdk ${version} takes up a wait`) }

function isSince(found: readonly number[], least: readonly number[]): boolean {
  const at = least.findIndex((part, n) => found[n] !== part)
  return at < 0 || found[at]! > least[at]!
}

interface Scene {
  readonly person: Person
  readonly proxy: CuttingProxy
  /** Runs a scenario of the script through the proxy. */
  play(scenario: string, given: object): Promise<unknown>
}

async function open(t: Test): Promise<Scene> {
  const person = await signIn(await openSite(t, { config: { title: { enabled: false } } }))
  const proxy = await openProxy(t, person.url)
  const play = async (scenario: string, given: object): Promise<unknown> => {
    const args = [SCRIPT, scenario, `${proxy.url}/api`, JSON.stringify(person.headers()), JSON.stringify(given)]
    // Nothing of ours: a key that the developer has set would be sent along.
    const { stdout } = await run(python, args, { env: { PATH: process.env.PATH } })
    return JSON.parse(stdout)
  }
  return { person, proxy, play }
}

const demoText = (deltas: number) => Array.from({ length: deltas }, (_, n) => demoWord(n)).join('')

t.test('[Python] a stream that is reset three times arrives whole, and nothing of it twice', options, async (t) => {
  const { person, proxy, play } = await open(t)
  proxy.cutAfter(5_000, 9_000, 7_000)
  const told = await play('stream', { thread: await person.thread(), ...asked('/demo deltas=400 rate=200') })
  t.equal(proxy.cutsLeft, 0, 'all three have happened')
  t.strictSame(told, { text: demoText(400), events: ['metadata', 'messages'] })
})

t.test('[Python] a join that is reset goes on with its own filter', options, async (t) => {
  const { person, proxy, play } = await open(t)
  const thread = await person.thread()
  const path = await person.run(thread, '/demo deltas=400 rate=200', { stream_mode: ['values'] })
  proxy.cutAfter(5_000, 9_000)
  const told = await play('join_stream', { thread, run: path.split('/').at(-1) })
  t.equal(proxy.cutsLeft, 0, 'both have happened')
  t.strictSame(told, { text: demoText(400), events: ['metadata', 'messages'] })
})

t.test('[Python] a wait that is cut is taken up, and is the one answer', takingUp, async (t) => {
  const { person, proxy, play } = await open(t)
  const thread = await person.thread()
  // In the middle of the answer: a head, of which there is less, must have come.
  proxy.cutAfter(1_000)
  const values = await play('wait', { thread, ...asked('/demo deltas=400 rate=0') })
  t.equal(proxy.cutsLeft, 0, 'it has happened')
  t.match(listIn(values, 'messages'), [{ type: 'human' }, { type: 'ai', content: demoText(400) }])
  t.equal(listIn((await person.get(`/api/threads/${thread}/runs`)).body).length, 1, 'no second run was made')
})

t.test('[Python] a wait without a thread that is cut at its end is answered all the same', takingUp, async (t) => {
  const { person, proxy, play } = await open(t)
  // The run is over: its answer is cut.
  proxy.cutAfter(1_000)
  const values = await play('wait', { thread: null, ...asked('/demo deltas=400 rate=0') })
  t.equal(proxy.cutsLeft, 0, 'it has happened')
  t.match(listIn(values, 'messages'), [{ type: 'human' }, { type: 'ai', content: demoText(400) }])
  t.strictSame((await person.post('/api/threads/search')).body, [], 'its thread is in no list')
})

t.test(
  '[Python] a wait that an older client cannot take up has made one run, whose answer can be joined',
  failing,
  async (t) => {
    const { person, proxy, play } = await open(t)
    const thread = await person.thread()
    proxy.cutAfter(1_000)
    const told = await play('wait_and_join', { thread, ...asked('/demo deltas=400 rate=0') })
    t.equal(proxy.cutsLeft, 0, 'it has happened')
    t.match(told, { error: 'LocalProtocolError', runs: 1 })
    t.match(listIn(told, 'values', 'messages'), [{ type: 'human' }, { type: 'ai', content: demoText(400) }])
  }
)

t.test('[Python] the client without asyncio streams and lists', options, async (t) => {
  const { play } = await open(t)
  const told = await play('sync', asked('/demo deltas=20 rate=0'))
  t.strictSame(told, { text: demoText(20), events: ['metadata', 'messages'], runs: 1 })
})

t.test('[Python] half a surrogate pair makes no state, history or list unreadable', options, async (t) => {
  const { person, play } = await open(t)
  const thread = await person.thread()
  const half = '\ud83d'
  await person.ask('PATCH', `/api/threads/${thread}`, { body: { metadata: { half } } })
  await person.post(`/api/threads/${thread}/state`, {
    values: { title: half, messages: [{ role: 'user', content: `a${half}` }] }
  })
  const told = await play('read', { thread })
  t.equal(at(told, 'state', 'values', 'messages', 0, 'content'), 'a\ufffd')
  t.ok(listIn(told, 'threads').includes(thread))
})

t.test('[Python] RemoteGraph reads tasks, state and history, and runs', options, async (t) => {
  const { person, play } = await open(t)
  const thread = await person.thread()
  const question = JSON.stringify({ question: 'Tea or coffee?' })
  await person.post(`/api/threads/${thread}/runs/wait`, asked(`/demo tool=ask_user rate=0 args=${question}`))
  const told = await play('remote_graph', { thread, ...asked('/demo deltas=2 rate=0') })
  t.match(told, { next: ['tools'], tasks: [{ name: 'tools', interrupts: [{ question: 'Tea or coffee?' }] }] })
  t.strictSame(listIn(told, 'history').slice(-2), [1, 0], 'each entry has its messages')
  t.equal(listIn(told, 'messages').at(-1), demoText(2))
})
