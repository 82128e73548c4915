// DeerFlow's own agent, unmodified, run directly, beside the same agent under LangGraph's own server: the same conversations have the same
// frames, states, histories and metadata of tokens, key by key. What is masked, test/client/python/beside.py says in a list.
// Run by `npm run test:deer`, which installs some three hundred packages.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
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
import { at, homeOf, listIn, openSite, type Person, type Site, signIn, textIn, until } from '../fixtures/gateway.ts'
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
    const { person, home, site } = await openDeerFlow(t)
    t.ok(
      site.logged.some(
        ([level, fields]) => level === 'warn' && JSON.stringify(fields).includes('checkpointer: states are kept')
      ),
      'its checkpointer is ignored with a line'
    )
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

t.test(
  'its page’s buttons do with it what they do with the built-in agent: regenerate, edit, branch, polish and the others',
  { skip, timeout },
  async (t) => {
    const { person, model, home } = await openDeerFlow(t)
    const thread = await person.thread()
    const path = `/api/threads/${thread}`
    const messages = async (of = path) => listIn((await person.get(`${of}/state`)).body, 'values', 'messages')
    const said = async (type: string, of = path) => (await messages(of)).filter((one) => at(one, 'type') === type)
    const words = async (of = path) => (await said('ai', of)).map((one) => at(one, 'content'))
    const feed = async () => {
      const rows = listIn((await person.get(`${path}/messages/page?limit=200`)).body, 'data')
      return rows.filter((row) => at(row, 'event_type') === 'ai_message').map((row) => at(row, 'content', 'content'))
    }
    const say = async (input: unknown, more: object = {}, of = path) => {
      const context = { ...CONTEXT, thread_id: of.split('/').at(-1) }
      const body = { assistant_id: 'lead_agent', input, config, context, on_disconnect: 'continue', ...more }
      const stream = await person.open('POST', `${of}/runs/stream`, { body: { stream_mode: ['values'], ...body } })
      t.equal(await stream.ended, 'whole')
      return stream
    }
    const replay = async (prepared: { readonly status: number; readonly body: unknown; readonly text: string }) => {
      t.equal(prepared.status, 200, prepared.text)
      const { input, checkpoint, metadata } = prepared.body as Record<string, unknown>
      return say(input, { checkpoint, metadata })
    }

    await say(asked('q', { text: 'One.' }))
    await say(asked('r', { text: 'Two.' }))
    const answer = textIn((await said('ai')).at(-1), 'id')
    await replay(await person.post(`${path}/runs/regenerate/prepare`, { message_id: answer }))
    t.strictSame(
      [await words(), await feed()],
      [
        ['One.', 'Two.'],
        ['One.', 'Two.']
      ],
      'regenerated: once'
    )
    t.not(textIn((await said('ai')).at(-1), 'id'), answer, 'and another one')
    t.equal(listIn((await person.get(`${path}/runs`)).body).length, 3)

    const question = textIn((await said('human')).at(-1), 'id')
    const replacement_text = scripted({ text: 'Better.' })
    await replay(
      await person.post(`${path}/runs/edit-regenerate/prepare`, { human_message_id: question, replacement_text })
    )
    t.strictSame(
      [await words(), await feed()],
      [
        ['One.', 'Better.'],
        ['One.', 'Better.']
      ],
      'edited'
    )

    const write_ = call('write_file', { description: 'Write', path: `${OUTPUTS}/report.md`, content: 'old' })
    const present = call('present_files', { filepaths: [`${OUTPUTS}/report.md`] })
    const writing = await say(asked('s', { calls: [[write_], [present]], text: 'There.' }))
    const changes = await person.get(`${writing.runPath}/workspace-changes`)
    t.match(changes.body, { available: true, summary: { created: 1 }, files: [{ path: `${OUTPUTS}/report.md` }] })
    const file = `${path}/artifacts${OUTPUTS}/report.md`
    const sha = (text: string) => createHash('sha256').update(text).digest('hex')
    const save = (content: string, read: string) =>
      person.ask('PUT', file, { body: { content, expected_sha256: sha(read) } })
    t.match((await save('new', 'old')).body, { sha256: sha('new') }, 'saved')
    t.equal((await save('newer', 'old')).status, 412)
    await say(asked('t', { calls: [[read(`${OUTPUTS}/report.md`)]], text: 'Read.' }))
    t.match((await said('tool')).at(-1), { content: /new/ }, 'and the agent sees it')

    const usage = (await person.get(`${path}/token-usage?include_active=false`)).body
    t.match(usage, { context_usage: { token_count: Number } }, 'the context bar')
    t.match((await person.post('/api/input-polish', { text: scripted({ text: 'Polished.' }) })).body, {
      rewritten_text: 'Polished.'
    })

    const last = textIn((await said('ai')).at(-1), 'id')
    const branch = await person.post(`${path}/branches`, { message_id: last, message_ids: [last] })
    t.match(branch.body, { parent_thread_id: thread, workspace_clone_mode: 'current_thread_best_effort' }, branch.text)
    const there = `/api/threads/${textIn(branch.body, 'thread_id')}`
    await say(asked('u', { calls: [[read(`${OUTPUTS}/report.md`)]], text: 'Here too.' }), {}, there)
    t.match((await said('tool', there)).at(-1), { content: /new/ }, 'a branch has the files')
    t.equal((await words(there)).at(-1), 'Here too.')
    t.equal((await words()).at(-1), 'Read.', 'and its parent is as it was')

    const goal = await person.ask('PUT', `${path}/goal`, { body: { objective: 'Report' } })
    t.match(goal.body, { goal: { objective: 'Report' } }, goal.text)
    t.match((await person.get(`${path}/goal`)).body, { goal: { objective: 'Report' } })
    const edited = { human_message_id: textIn((await said('human')).at(-1), 'id'), replacement_text: 'other' }
    t.equal((await person.post(`${path}/runs/edit-regenerate/prepare`, edited)).status, 409, 'nothing is edited then')
    t.strictSame((await person.ask('DELETE', `${path}/goal`)).body, { goal: null })
    t.strictSame((await person.get(`${path}/goal`)).body, { goal: null })
    t.equal((await person.post(`${path}/compact`, {})).status, 409, 'it summarises by itself')

    const prompt = scripted({ text: 'Scheduled.' })
    const task = {
      title: 'Daily',
      prompt,
      schedule_type: 'cron',
      schedule_spec: { cron: '0 9 * * *' },
      timezone: 'UTC'
    }
    const made = await person.post('/api/scheduled-tasks', task)
    t.equal(made.status, 200, made.text)
    const tasks = `/api/scheduled-tasks/${textIn(made.body, 'id')}`
    t.match((await person.post(`${tasks}/trigger`)).body, { triggered: true })
    await until(async () => at((await person.get(tasks)).body, 'status') === 'enabled', 'its run ends')
    const [run] = listIn((await person.get(`${tasks}/runs`)).body)
    t.match(run, { status: 'success', error: null })
    t.equal((await words(`/api/threads/${textIn(run, 'thread_id')}`)).at(-1), 'Scheduled.')
    t.match((await person.ask('DELETE', tasks)).body, { deleted: true })

    t.equal((await person.post('/api/agents', { name: 'poet', soul: 'Answer in verse.' })).status, 201)
    const asPoet = async (id: string) => {
      await say(asked(id, { text: 'ok' }), { context: { ...CONTEXT, thread_id: thread, agent_name: 'poet' } })
      return JSON.stringify(model.requests.at(-1)?.messages)
    }
    t.match(await asPoet('w'), 'Answer in verse.', 'an agent is passed to it')
    t.equal((await person.ask('PUT', '/api/agents/poet', { body: { soul: 'Answer in prose.' } })).status, 200)
    t.match(await asPoet('x'), 'Answer in prose.')
    t.equal((await person.ask('DELETE', '/api/agents/poet')).status, 204)
    t.notOk(existsSync(join(home, 'users', 'default', 'agents', 'poet', 'config.yaml')), 'and is gone with it')

    const setup = call('setup_agent', { soul: 'You count.', description: 'counts' })
    const made_ = { ...CONTEXT, thread_id: thread, agent_name: 'counter', is_bootstrap: true }
    t.match((await person.get('/api/agents/check?name=counter')).body, { available: true })
    await say(asked('y', { calls: [[setup]], text: 'Made.' }), { context: made_ })
    const counter = { name: 'counter', description: 'counts', soul: 'You count.' }
    t.match(
      (await person.get('/api/agents/counter')).body,
      counter,
      'one that it makes in a conversation is an agent too'
    )
    t.match((await person.get('/api/agents')).body, { agents: [counter] })
    t.match((await person.get('/api/agents/check?name=counter')).body, { available: false })
  }
)
