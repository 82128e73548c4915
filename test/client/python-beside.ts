// Graphs in Python beside LangGraph's own server for them: the same conversations have the same frames, states, histories and metadata of
// tokens, key by key. What is another each time, and what is a server's own, is masked by the script, in a list.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import { textIn } from '../fixtures/gateway.ts'
import { LANGGRAPH_DEV, startLangGraphDev } from '../fixtures/langgraph-dev.ts'
import { pythonWith } from '../fixtures/python.ts'
import { PYTHON, PYTHON_MISSING, pythonFolder, pythonSite, WHOLE } from '../fixtures/python-graphs.ts'
import { IS_LONG } from '../fixtures/size.ts'

/** The script lies beside the build this file was compiled into. */
const SCRIPT = fileURLToPath(new URL('../../../test/client/python/beside.py', import.meta.url))
const run = promisify(execFile)

const FOO = { messages: [{ role: 'user', content: 'foo', id: 'foo' }] }
const BAR = { messages: [{ role: 'user', content: 'bar', id: 'bar' }] }
const ASKING = { configurable: { ask: 'know' } }
const CONVERSATIONS = {
  'two turns': { graph: 'agent', turns: [{ input: FOO }, { input: BAR, metadata: { mine: 'x' } }] },
  'a question': {
    graph: 'agent',
    turns: [
      { input: FOO, config: ASKING },
      { command: { resume: 'yes' }, config: ASKING }
    ]
  },
  'a breakpoint': { graph: 'agent', turns: [{ input: FOO, interrupt_before: ['tool'] }, { input: null }] },
  'a branch': { graph: 'agent', turns: [{ input: FOO }, { input: BAR, checkpoint: 4 }] },
  tools: { graph: 'tools', turns: [{ input: FOO }, { input: BAR }] },
  'a question below': {
    graph: 'nested',
    subgraphs: true,
    turns: [
      { input: { messages: [] }, config: ASKING },
      { command: { resume: 'rain' }, config: ASKING }
    ]
  },
  'two graphs deep': { graph: 'deep', subgraphs: true, turns: [{ input: { messages: [] } }] },
  'a graph below, unseen': { graph: 'nested', turns: [{ input: { messages: [] } }] },
  'side by side': { graph: 'fan', turns: [{ input: { steps: [] } }] },
  commands: {
    graph: 'going',
    turns: [{ input: { steps: [] } }, { command: { goto: 'there' } }, { command: { update: { steps: ['u'] } } }]
  },
  'a factory': { graph: 'factory', turns: [{ input: { steps: [] }, config: { configurable: { word: 'w' } } }] },
  context: { graph: 'typed', turns: [{ input: { question: 'q' }, context: { tone: 'calm' } }] },
  'a context with more than its schema': {
    graph: 'typed',
    turns: [{ input: { question: 'q' }, context: { tone: 'calm', more: 'of it' } }]
  },
  'a context of a factory': { graph: 'factory', turns: [{ input: { steps: [] }, context: { word: 'w' } }] },
  tagged: {
    graph: 'steps',
    turns: [{ input: { steps: [] }, config: { recursion_limit: 50, tags: ['t'], configurable: { count: 2 } } }]
  },
  events: { graph: 'agent', modes: ['events'], turns: [{ input: FOO }] }
}

const server = IS_LONG && !PYTHON_MISSING ? await pythonWith(...LANGGRAPH_DEV) : { reason: 'long' }
const skip = 'reason' in server ? PYTHON_MISSING || (IS_LONG ? server.reason : 'in npm run test:long') : false

t.test('sixteen conversations are told as by its own server, key by key', { skip, timeout: 300_000 }, async (t) => {
  if ('reason' in server) return
  const folder = pythonFolder(t, WHOLE)
  const { person } = await pythonSite(t, folder, { title: { enabled: false } })
  const { body } = await person.post('/api/v1/auth/tokens', { name: 'python', scopes: PERMISSIONS })
  const theirs = await startLangGraphDev(join(server.bin, 'python'), folder)
  t.teardown(theirs.stop)
  const talk = async (url: string, key: string) => {
    const args = [SCRIPT, url, key, JSON.stringify(CONVERSATIONS)]
    const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH }, maxBuffer: 1 << 28 })
    return JSON.parse(stdout) as Record<string, object>
  }
  const [ours, wanted] = [await talk(person.url, textIn(body, 'token')), await talk(theirs.url, 'none')]
  for (const name of Object.keys(CONVERSATIONS)) t.strictSame(ours[name], wanted[name], name)
})
