import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Tool, ToolContext } from '../../lib/agent/tool.ts'
import { builtInTools, VIRTUAL_OUTPUTS } from '../../lib/agent/tools.ts'
import { Paths, VIRTUAL_ROOT } from '../../lib/files/paths.ts'
import type { JsonObject } from '../../lib/types.ts'

const context: ToolContext = {
  signal: new AbortController().signal,
  userId: 'user-1',
  threadId: 'thread-1',
  runId: 'run-1',
  channels: {}
}

const named = (tools: readonly Tool[], name: string): Tool => {
  const tool = tools.find((one) => one.name === name)
  if (!tool) throw new Error(`no tool ${name}`)
  return tool
}

t.test('the outputs that tools speak of are those that files know', async (t) => {
  t.equal(VIRTUAL_OUTPUTS, `${VIRTUAL_ROOT}/outputs`)
})

t.test('every tool describes itself in a way that model servers take', async (t) => {
  for (const tool of builtInTools({ files: new Paths(t.testdir()) })) {
    t.match(tool.name, /^[A-Za-z0-9_-]{1,64}$/)
    t.ok(tool.description)
    t.equal(tool.parameters.type, 'object')
  }
})

t.test('current_time tells the time of the clock in UTC', async (t) => {
  const tools = builtInTools({ files: new Paths(t.testdir()), clock: () => 0 })
  t.equal(await named(tools, 'current_time').run({}, context), '1970-01-01T00:00:00.000Z')
})

t.test('write_file writes below the outputs of the user and adds the file to the artifacts once', async (t) => {
  const paths = new Paths(t.testdir())
  const tool = named(builtInTools({ files: paths }), 'write_file')
  const before = { ...context, channels: { artifacts: ['/mnt/user-data/outputs/old.txt'] } }
  const first = await tool.run({ path: 'notes/a.md', content: 'ä😀' }, before)
  const path = '/mnt/user-data/outputs/notes/a.md'
  t.match(first, { content: `Wrote ${path}`, channels: { artifacts: ['/mnt/user-data/outputs/old.txt', path] } })
  t.equal(await readFile(await paths.locate(path, 'thread-1', 'user-1'), 'utf8'), 'ä😀')
  const again = await tool.run({ path, content: 'new' }, { ...context, channels: { artifacts: [path] } })
  t.match(again, { channels: { artifacts: [path] } })
})

t.test('write_file of a shared thread writes for the default user', async (t) => {
  const paths = new Paths(t.testdir())
  await named(builtInTools({ files: paths }), 'write_file').run(
    { path: 'a', content: 'a' },
    { ...context, userId: null }
  )
  t.ok(await paths.locate('/mnt/user-data/outputs/a', 'thread-1', 'default'))
})

t.test('write_file refuses what leads out and arguments that are none, and tells no real path', async (t) => {
  const paths = new Paths(t.testdir())
  const tool = named(builtInTools({ files: paths }), 'write_file')
  const wrong: JsonObject[] = [
    { path: '../../x', content: '' },
    { path: '/etc/x', content: '' },
    { path: 'a\0', content: '' },
    { path: 'a' },
    { content: 'a' },
    { path: 1, content: 'a' }
  ]
  for (const args of wrong) {
    const attempt = tool.run(args, context)
    await t.rejects(attempt, JSON.stringify(args))
    await attempt.catch((error: Error) => t.notMatch(error.message, paths.home))
  }
})
