import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Tool, ToolContext } from '../../lib/agent/tool.ts'
import { builtInTools, VIRTUAL_OUTPUTS } from '../../lib/agent/tools.ts'
import { Paths, VIRTUAL_ROOT } from '../../lib/files/paths.ts'
import { Workspace } from '../../lib/files/workspace.ts'
import { type JsonObject, textOf } from '../../lib/base/types.ts'

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
  for (const tool of builtInTools({ files: new Workspace(new Paths(t.testdir())) })) {
    t.match(tool.name, /^[A-Za-z0-9_-]{1,64}$/)
    t.ok(tool.description)
    t.equal(tool.parameters.type, 'object')
  }
})

t.test('current_time tells the time of the clock in UTC', async (t) => {
  const tools = builtInTools({ files: new Workspace(new Paths(t.testdir())), clock: () => 0 })
  t.equal(await named(tools, 'current_time').run({}, context), '1970-01-01T00:00:00.000Z')
})

t.test('write_file writes below the outputs of the user and adds the file to the artifacts once', async (t) => {
  const paths = new Paths(t.testdir())
  const tool = named(builtInTools({ files: new Workspace(paths) }), 'write_file')
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
  await named(builtInTools({ files: new Workspace(paths) }), 'write_file').run(
    { path: 'a', content: 'a' },
    { ...context, userId: null }
  )
  t.ok(await paths.locate('/mnt/user-data/outputs/a', 'thread-1', 'default'))
})

t.test('write_file refuses what leads out and arguments that are none, and tells no real path', async (t) => {
  const paths = new Paths(t.testdir())
  const tool = named(builtInTools({ files: new Workspace(paths) }), 'write_file')
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

const contentOf = (answer: Awaited<ReturnType<Tool['run']>>): string =>
  typeof answer === 'string' ? answer : textOf(answer.content)

t.test('files are listed, read in pieces, and searched, whoever put them there', async (t) => {
  const paths = new Paths(t.testdir())
  const tools = builtInTools({ files: new Workspace(paths) })
  const run = async (name: string, args: JsonObject) => contentOf(await named(tools, name).run(args, context))
  t.equal(await run('list_files', {}), 'There are no files.')
  await paths.makeUploads('thread-1', 'user-1')
  await writeFile(join(paths.uploads('thread-1', 'user-1'), 'data.csv'), 'Name,Age\nAda,36\n')
  await run('write_file', { path: '/mnt/user-data/workspace/draft.md', content: 'one\ntwo ADA\nthree' })
  t.equal(
    await run('list_files', {}),
    '/mnt/user-data/uploads/data.csv (16 bytes)\n/mnt/user-data/workspace/draft.md (17 bytes)'
  )
  t.equal(await run('list_files', { path: '/mnt/user-data/uploads/' }), '/mnt/user-data/uploads/data.csv (16 bytes)')
  t.equal(await run('read_file', { path: '/mnt/user-data/workspace/draft.md', line: 2 }), 'two ADA\nthree')
  t.equal(
    await run('search_files', { query: 'ada' }),
    '/mnt/user-data/uploads/data.csv:2: Ada,36\n/mnt/user-data/workspace/draft.md:2: two ADA'
  )
  t.equal(await run('search_files', { query: 'nobody' }), 'Nothing was found.')
  await run('write_file', { path: 'long.txt', content: 'x'.repeat(1000).concat('\n').repeat(100) })
  t.match(await run('read_file', { path: '/mnt/user-data/outputs/long.txt' }), /Read it with line 66/)
})

t.test('a draft in the workspace is no artifact; a file that is presented is one', async (t) => {
  const tools = builtInTools({ files: new Workspace(new Paths(t.testdir())) })
  const path = '/mnt/user-data/workspace/draft.md'
  t.equal(typeof (await named(tools, 'write_file').run({ path, content: 'x' }, context)), 'string')
  const present = (filepaths: unknown) => named(tools, 'present_files').run({ filepaths } as JsonObject, context)
  t.match(await present([path, path]), { channels: { artifacts: [path] } })
  for (const wrong of [['/mnt/user-data/none'], [path, '/mnt/user-data/workspace'], [], path, undefined])
    await t.rejects(present(wrong))
})

t.test('no tool reads over a link, out of the thread, or what is no text', async (t) => {
  const paths = new Paths(t.testdir({ secret: 'hush' }))
  const tools = builtInTools({ files: new Workspace(paths) })
  await named(tools, 'write_file').run({ path: 'a.txt', content: 'open' }, context)
  const outputs = join(paths.userData('thread-1', 'user-1'), 'outputs')
  await symlink(join(paths.home, 'secret'), join(outputs, 'link'))
  await symlink(paths.home, join(outputs, 'folder'))
  await writeFile(join(outputs, 'binary'), 'hush\0')
  t.equal(
    contentOf(await named(tools, 'list_files').run({}, context)),
    '/mnt/user-data/outputs/a.txt (4 bytes)\n/mnt/user-data/outputs/binary (5 bytes)'
  )
  t.equal(contentOf(await named(tools, 'search_files').run({ query: 'hush' }, context)), 'Nothing was found.')
  const bad = [
    '/mnt/user-data/outputs/link',
    '/mnt/user-data/outputs/folder/secret',
    '/mnt/user-data/../x',
    '/etc/passwd',
    'a.txt'
  ]
  for (const path of [...bad, '/mnt/user-data/outputs/binary', '/mnt/user-data/outputs'])
    await t.rejects(named(tools, 'read_file').run({ path }, context), path)
  const wrong: JsonObject[] = [{}, { path: 5 }, { path: '/mnt/user-data/outputs/a.txt', line: 0 }]
  for (const args of wrong) await t.rejects(named(tools, 'read_file').run(args, context))
})
