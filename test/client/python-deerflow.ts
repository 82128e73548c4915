// DeerFlow's own agent, unmodified, run directly, beside the same agent under LangGraph's own server: the same conversations have the same
// frames, states, histories and metadata of tokens, key by key. What is masked, test/client/python/beside.py says in a list.
// Run by `npm run test:deer`, which installs some three hundred packages.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { PERMISSIONS } from '../../lib/base/accounts.ts'
import {
  asked,
  call,
  DEERFLOW_MISSING,
  DEERFLOW_PYTHON,
  deerFlowFolder,
  nameDefault,
  startDeerFlowModel
} from '../fixtures/deerflow-agent.ts'
import { upload } from '../fixtures/form.ts'
import { at, homeOf, listIn, openSite, type Person, type Site, signIn, textIn } from '../fixtures/gateway.ts'
import { startLangGraphDev } from '../fixtures/langgraph-dev.ts'
import { type FakeModel, scripted } from '../fixtures/model.ts'

/** The script lies beside the build this file was compiled into. */
const SCRIPT = fileURLToPath(new URL('../../../test/client/python/beside.py', import.meta.url))
const run = promisify(execFile)
const skip = DEERFLOW_MISSING
const timeout = 900_000

const WORKSPACE = '/mnt/user-data/workspace'
const OUTPUTS = '/mnt/user-data/outputs'
const UPLOADS = '/mnt/user-data/uploads'
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** Beside the thread, which the script knows. */
const CONTEXT = { model_name: 'main', thinking_enabled: false, is_plan_mode: false, subagent_enabled: false }
const config = { recursion_limit: 1000 }
const turn = (input: object, context: object = {}, more: object = {}) => ({
  ...{ input, config, context: { ...CONTEXT, ...context } },
  ...more
})
const write = (path: string, content = 'one\ntwo\n') => call('write_file', { description: 'Write', path, content })
const read = (path: string) => call('read_file', { description: 'Read', path })
const todos = (...states: string[]) =>
  call('write_todos', { todos: states.map((status, i) => ({ content: `Step ${i}`, status })) })
const task = (words: string) => {
  // Without usage: outside its own gateway this DeerFlow fails to report that of a subagent.
  const prompt = scripted({ text: words })
  return call('task', { description: words, prompt, subagent_type: 'general-purpose' })
}
const files = (filename: string, size: number) => ({
  additional_kwargs: { files: [{ filename, size, path: `${UPLOADS}/${filename}`, status: 'uploaded' }] }
})

const CONVERSATIONS = {
  'an answer, and a title': { turns: [turn(asked('q', { text: 'Good day to you.', reasoning: 'Politely.' }))] },
  tools: {
    turns: [
      turn(
        asked('q', {
          calls: [
            [write(`${WORKSPACE}/a.txt`)],
            [read(`${WORKSPACE}/a.txt`), call('ls', { description: 'Look', path: WORKSPACE })]
          ],
          preamble: 'I write it.',
          text: 'Done.'
        })
      )
    ]
  },
  'a plan, in plan mode, one that is left open too': {
    turns: [
      turn(
        asked('q', {
          calls: [
            [todos('in_progress', 'pending')],
            [todos('completed', 'in_progress')],
            [todos('completed', 'completed')]
          ],
          text: 'All done.'
        }),
        { is_plan_mode: true }
      ),
      turn(asked('p', { calls: [[todos('in_progress', 'pending')]], text: 'Later.' }), { is_plan_mode: true })
    ]
  },
  'subagents side by side': {
    unordered: true,
    turns: [
      turn(asked('q', { calls: [[task('first'), task('second')]], text: 'Both are back.' }), { subagent_enabled: true })
    ]
  },
  'a clarification, and its answer': {
    turns: [
      turn(
        asked('q', {
          calls: [
            [
              call('ask_clarification', {
                question: 'Which one?',
                clarification_type: 'approach_choice',
                options: ['this', 'that']
              })
            ]
          ]
        })
      ),
      turn(asked('a', { text: 'That, then.' }))
    ]
  },
  'an upload': {
    uploads: { 'notes.md': Buffer.from('# A heading\n\nwords\n').toString('base64') },
    turns: [turn(asked('q', { calls: [[read(`${UPLOADS}/notes.md`)]], text: 'Read.' }, files('notes.md', 19)))]
  },
  'an image that is looked at': {
    uploads: { 'dot.png': PIXEL },
    turns: [
      turn(
        asked(
          'q',
          { calls: [[call('view_image', { image_path: `${UPLOADS}/dot.png` })]], text: 'A dot.' },
          files('dot.png', 68)
        ),
        { model_name: 'seeing' }
      )
    ]
  },
  'an artifact': {
    turns: [
      turn(
        asked('q', {
          calls: [[write(`${OUTPUTS}/report.md`)], [call('present_files', { filepaths: [`${OUTPUTS}/report.md`] })]],
          text: 'There it is.'
        })
      )
    ]
  },
  'tools that fail': {
    turns: [
      turn(
        asked('q', {
          calls: [
            [read(`${WORKSPACE}/nowhere`)],
            [call('read_file', { nothing: true })],
            [call('no_such_tool', {})],
            [write('/etc/hosts')],
            [{ name: 'read_file', args: '{"broken', id: 'call_broken' }]
          ],
          text: 'Sorry.'
        })
      )
    ]
  },
  'a model that fails, once and for good': {
    turns: [
      turn(asked('q', { status: 503, failures: 1, text: 'At last.' })),
      turn(asked('r', { status: 400, body: '{"error":{"message":"no"}}' }))
    ]
  },
  'a second turn, and another in its place': {
    turns: [
      turn(asked('q', { text: 'One.' })),
      turn(asked('r', { text: 'Two.' })),
      turn(asked('r', { text: 'Two again.' }), {}, { checkpoint: 9 })
    ]
  },
  'a breakpoint before the tools': {
    turns: [
      turn(asked('q', { calls: [[write(`${WORKSPACE}/a.txt`)]], text: 'Done.' }), {}, { interrupt_before: ['tools'] }),
      turn({ messages: [] }, {}, { input: null })
    ]
  },
  'a summary of a long conversation': {
    turns: ['a', 'b', 'c', 'd', 'e', 'f'].map((id) =>
      turn(asked(id, { calls: [[read(`${WORKSPACE}/${id}`)]], text: id }))
    )
  },
  'settings in configurable, without a context': {
    subgraphs: true,
    turns: [
      {
        input: asked('q', { calls: [[todos('completed')]], text: 'Planned.' }),
        config: { ...config, configurable: { ...CONTEXT, is_plan_mode: true } }
      }
    ]
  }
}

/**
 * LangGraph's server reads a state with a graph that is made without the settings of the run, and leaves out what has no node there: what
 * of a checkpoint was next is empty, where a node that only a plan, subagents or images need would be.
 */
const UNREAD_THERE = /^\.history\.\d+\.(next|tasks)\.0: .*(Todo|SubagentLimit|ViewImage)Middleware\.[a-z_]+".*, absent$/

/** Where two differ, `a.b.0: ours, theirs`: of megabytes, a comparison of texts takes hours. */
function differences(ours: unknown, theirs: unknown, at = ''): string[] {
  if (typeof ours !== 'object' || typeof theirs !== 'object' || ours === null || theirs === null)
    return Object.is(ours, theirs) ? [] : [`${at}: ${shortly(ours)}, ${shortly(theirs)}`]
  const [mine, other] = [ours as Record<string, unknown>, theirs as Record<string, unknown>]
  const keys = new Set([...Object.keys(mine), ...Object.keys(other)])
  return [...keys].flatMap((key) => differences(mine[key], other[key], `${at}.${key}`))
}

const shortly = (value: unknown) => (JSON.stringify(value) ?? 'absent').slice(0, 100)

interface Scene {
  readonly site: Site
  readonly model: FakeModel
  readonly person: Person
  /** DeerFlow's home is ours. */
  readonly home: string
}

async function openDeerFlow(t: Test): Promise<Scene> {
  const model = await startDeerFlowModel(t)
  const home = homeOf(t)
  const folder = deerFlowFolder(t, model, home)
  const agent = { runtime: 'graphs', config: folder, python: DEERFLOW_PYTHON }
  const models = [{ name: 'main', model: 'main', base_url: model.baseUrl, api_key: 'none' }]
  const site = await openSite(t, { home, config: { agent, models, title: { enabled: false } } })
  const person = await signIn(site)
  nameDefault(home, textIn((await person.get('/api/v1/auth/me')).body, 'id'))
  return { site, model, person, home }
}

t.test('conversations with it are told as by its own server, key by key', { skip, timeout }, async (t) => {
  const { person, home } = await openDeerFlow(t)
  const { body } = await person.post('/api/v1/auth/tokens', { name: 'python', scopes: PERMISSIONS })
  const theirHome = homeOf(t)
  // Each has a model of its own: one that fails once does so for both.
  const theirFolder = deerFlowFolder(t, await startDeerFlowModel(t), theirHome, { checkpointer: false })
  const theirs = await startLangGraphDev(DEERFLOW_PYTHON, theirFolder)
  t.teardown(theirs.stop)
  const conversations = Object.fromEntries(
    Object.entries(CONVERSATIONS).map(([name, one]) => [name, { graph: 'lead_agent', ...one }])
  )
  const talk = async (url: string, key: string, home: string) => {
    const args = [SCRIPT, url, key, JSON.stringify(conversations), home]
    const { stdout } = await run(DEERFLOW_PYTHON, args, { env: { PATH: process.env.PATH }, maxBuffer: 1 << 28 })
    return JSON.parse(stdout) as Record<string, object>
  }
  const [ours, wanted] = [
    await talk(person.url, textIn(body, 'token'), home),
    await talk(theirs.url, 'none', theirHome)
  ]
  for (const name of Object.keys(CONVERSATIONS))
    t.strictSame(
      differences(ours[name], wanted[name]).filter((one) => !UNREAD_THERE.test(one)),
      [],
      name
    )
})

t.test(
  'its page has of it what DeerFlow has: models, files, plan, subagents, questions and titles',
  { skip, timeout },
  async (t) => {
    const { person, home } = await openDeerFlow(t)
    t.match((await person.get('/api/models')).body, { models: [{ name: 'main' }] }, 'those of our own configuration')
    t.match((await person.get('/api/features')).body, { agents_api: { enabled: true } })
    const thread = await person.thread()
    const path = `/api/threads/${thread}`
    const values = async () => at((await person.get(`${path}/state`)).body, 'values')
    const said = (type: string) => listIn(found, 'messages').filter((one) => at(one, 'type') === type)
    const say = async (input: object, context: object = {}) => {
      const body = {
        ...{ assistant_id: 'lead_agent', input, config, on_disconnect: 'continue', stream_subgraphs: true },
        stream_mode: ['values', 'messages-tuple', 'custom'],
        context: { ...CONTEXT, thread_id: thread, ...context }
      }
      const stream = await person.open('POST', `${path}/runs/stream`, { body })
      t.equal(await stream.ended, 'whole')
      found = await values()
      return stream.frames
    }
    let found: unknown = null

    const uploaded = await upload(person, thread, [['notes.md', '# A heading\n\nwords\n']])
    t.match(uploaded.body, { files: [{ filename: 'notes.md', virtual_path: `${UPLOADS}/notes.md` }] })
    await say(asked('q', { calls: [[read(`${UPLOADS}/notes.md`)]], text: 'Read.' }, files('notes.md', 19)))
    t.match(JSON.stringify(said('human')), /<uploaded_files>.*notes\.md/, 'it is told of an upload')
    t.match(said('tool'), [{ content: /words/ }], 'and reads it')
    t.match(found, { title: 'A title', uploaded_files: [{ filename: 'notes.md' }] })
    const search = await person.post('/api/threads/search', { limit: 10 })
    t.match(search.body, [{ values: { title: 'A title' } }], 'the title stands in the list of chats')

    const present = call('present_files', { filepaths: [`${OUTPUTS}/report.md`] })
    await say(asked('r', { calls: [[write(`${OUTPUTS}/report.md`, 'a report')], [present]], text: 'There.' }))
    t.match(found, { artifacts: [`${OUTPUTS}/report.md`] })
    t.equal((await person.get(`${path}/artifacts${OUTPUTS}/report.md`)).text, 'a report', 'an artifact is served')
    t.ok(existsSync(join(home, 'users', 'default', 'threads', thread)), 'in our home')

    await say(asked('s', { calls: [[todos('completed', 'completed')]], text: 'Planned.' }), { is_plan_mode: true })
    t.match(found, { todos: [{ content: 'Step 0', status: 'completed' }, {}] })

    const frames = await say(asked('u', { calls: [[task('aside')]], text: 'It is back.' }), { subagent_enabled: true })
    const told = frames.filter(({ event }) => event === 'custom').map(({ data }) => at(JSON.parse(data), 'type'))
    t.strictSame(told, ['task_started', 'task_running', 'task_completed'])
    t.match(said('tool').at(-1), { content: /aside/ })

    const question = { question: 'Which one?', clarification_type: 'missing_info' }
    await say(asked('v', { calls: [[call('ask_clarification', question)]] }))
    t.match(said('tool').at(-1), { name: 'ask_clarification', content: /Which one\?/ })
    await say(asked('w', { text: 'That, then.' }))
    t.match(said('ai').at(-1), { content: 'That, then.' })
    const page = (await person.get(`${path}/messages/page?limit=200`)).body
    t.equal(listIn(page, 'data').length > 12, true, 'and the feed has it all')
  }
)
