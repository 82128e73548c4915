// Images: a model that takes them sees what it asks to view, behind the results of that turn; the state and the traces never
// hold their bytes.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { createAgent } from '../../lib/agent/lead.ts'
import { imagesMiddleware, uploadsMiddleware } from '../../lib/agent/middleware/uploads.ts'
import { chatModels } from '../../lib/agent/http/chat-model.ts'
import type { AgentInput } from '../../lib/agent/runtime.ts'
import { RunPictures, pictureBudget, SHOWN_BYTES, SHOWN_MAX } from '../../lib/agent/pictures.ts'
import type { Tool } from '../../lib/agent/tool.ts'
import { builtInTools } from '../../lib/agent/tools.ts'
import { Paths } from '../../lib/files/paths.ts'
import { Workspace } from '../../lib/files/workspace.ts'
import type { JsonObject } from '../../lib/base/types.ts'
import { aHuman, inputOf } from '../fixtures/agent-input.ts'
import { type Script, scripted, startModel } from '../fixtures/model.ts'
import { RecordingSink } from '../fixtures/sink.ts'

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64'
)
const JPEG = Buffer.from('ffd8ffe000104a464946', 'hex')
const GIF = Buffer.from('GIF89a\x01\0\x01\0', 'latin1')
const WEBP = Buffer.from('RIFF\x04\0\0\0WEBPVP8 ', 'latin1')
const UPLOADS = '/mnt/user-data/uploads'

async function open(
  t: Test,
  { takesImages = true, tools = [] }: { takesImages?: boolean; tools?: readonly Tool[] } = {}
) {
  const server = await startModel()
  t.teardown(() => server.stop())
  const paths = new Paths(t.testdir())
  const workspace = new Workspace(paths)
  const config = { name: 'main', model: 'm', base_url: server.baseUrl, api_key: '', max_retries: 0 }
  const agent = createAgent({
    models: chatModels([{ ...config, supports_vision: takesImages }]),
    tools: [...builtInTools({ files: workspace }), ...tools],
    middlewares: [uploadsMiddleware(workspace, 'default'), imagesMiddleware(workspace, 'default')]
  })
  const realPath = (name: string) => join(paths.uploads('thread-1', 'user-1'), name)
  return {
    server,
    realPath,
    async put(name: string, bytes: Buffer | string) {
      await mkdir(dirname(realPath(name)), { recursive: true })
      await writeFile(realPath(name), bytes)
    },
    async run(script: Script, more: Partial<AgentInput> = {}) {
      const sink = new RecordingSink()
      const input = inputOf([aHuman(scripted({ strict: true, ...script }))], more)
      await agent.start(input, sink, new AbortController().signal)
      return sink
    }
  }
}

const view = (name: string) => ({ name: 'view_image', args: JSON.stringify({ path: `${UPLOADS}/${name}` }) })
const data = (type: string, bytes: Buffer) => ({
  type: 'image_url',
  image_url: { url: `data:${type};base64,${bytes.toString('base64')}` }
})
const named = (name: string) => ({ type: 'text', text: `${UPLOADS}/${name}:` })
const rolesOf = (messages: readonly JsonObject[]) => messages.map(({ role }) => role)
const toolsOf = (body: JsonObject) => JSON.stringify(body.tools)

t.test('an image that was viewed stands behind all results of its turn, in every later call of the run', async (t) => {
  const { put, run, server } = await open(t)
  await put('a.png', PNG)
  const listing = { name: 'list_files', args: '{}' }
  await run({ calls: [[view('a.png'), listing], [listing]], text: 'a dot' })
  const [first, second, third] = server.requests
  t.match(toolsOf(first!.body), /view_image/)
  t.match(first!.messages[0], { content: /Look at those that are images with view_image/ })
  t.same(rolesOf(first!.messages), ['system', 'user'])
  t.same(rolesOf(second!.messages), ['system', 'user', 'assistant', 'tool', 'tool', 'user'])
  t.same(second!.messages.at(-1), { role: 'user', content: [named('a.png'), data('image/png', PNG)] })
  t.same(rolesOf(third!.messages), ['system', 'user', 'assistant', 'tool', 'tool', 'user', 'assistant', 'tool'])
  t.same(third!.messages[5], second!.messages.at(-1))
})

t.test('the kind of an image is what its bytes say, and all four kinds are taken', async (t) => {
  const { put, run, server } = await open(t)
  const kinds: [string, Buffer, string][] = [
    ['really-png.jpg', PNG, 'image/png'],
    ['b.bin', JPEG, 'image/jpeg'],
    ['c', GIF, 'image/gif'],
    ['d.webp', WEBP, 'image/webp']
  ]
  for (const [name, bytes] of kinds) await put(name, bytes)
  await run({ calls: [kinds.map(([name]) => view(name))] })
  const shown = kinds.flatMap(([name, bytes, type]) => [named(name), data(type, bytes)])
  t.same(server.requests[1]!.messages.at(-1)!.content, shown)
})

t.test('no trace, message or channel holds the bytes; the state tells which images were viewed', async (t) => {
  const { put, run } = await open(t)
  await put('a.png', PNG)
  await put('b.gif', GIF)
  const sink = await run(
    { calls: [[view('a.png')], [view('b.gif')]] },
    { channels: { viewed_images: { '/mnt/user-data/outputs/old.png': { mime_type: 'image/png' } } } }
  )
  t.same(sink.all('update').at(-1)?.channels, {
    viewed_images: {
      '/mnt/user-data/outputs/old.png': { mime_type: 'image/png' },
      [`${UPLOADS}/a.png`]: { mime_type: 'image/png' },
      [`${UPLOADS}/b.gif`]: { mime_type: 'image/gif' }
    }
  })
  const told = JSON.stringify(sink.told)
  t.notMatch(told, PNG.toString('base64').slice(0, 20))
  t.notMatch(told, GIF.toString('base64').slice(0, 8))
  t.match(told, `data:image/png;base64,[${PNG.toString('base64').length} characters]`)
})

t.test('what a user inlines reaches the model whole and the trace as a mark', async (t) => {
  const { run, server } = await open(t)
  const content = [{ type: 'text', text: `${scripted({ text: 'seen' })}\n` }, data('image/png', PNG), 'odd', null]
  const sink = await run({}, { messages: [aHuman(content)] })
  t.same(server.requests[0]!.messages.at(-1)!.content, content)
  t.match(JSON.stringify(sink.all('llm_request')), 'data:image/png;base64,[')
  t.notMatch(JSON.stringify(sink.all('llm_request')), PNG.toString('base64'))
})

t.test('a model that takes no images is not offered the tool, nor told of it, nor shown anything', async (t) => {
  const { put, run, server } = await open(t, { takesImages: false })
  await put('a.png', PNG)
  const sink = await run({ calls: [[view('a.png')]] })
  t.notMatch(toolsOf(server.requests[0]!.body), /view_image/)
  t.notMatch(server.requests[0]!.messages[0]!.content, /view_image/)
  t.match(sink.all('tool_end')[0]?.message, { status: 'error', content: /There is no tool "view_image"/ })
  t.same(rolesOf(server.requests[1]!.messages), ['system', 'user', 'assistant', 'tool'])
})

t.test('what is no image, too large, missing or outside is a failed tool, and nothing is shown', async (t) => {
  const { put, run, server } = await open(t)
  await put('page.png', '<svg xmlns="http://www.w3.org/2000/svg"/>')
  await put('huge.png', Buffer.concat([PNG, Buffer.alloc(5 << 20)]))
  await put('empty.png', '')
  const wrong = ['page.png', 'huge.png', 'empty.png', 'none.png', '../../../../etc/passwd', '']
  const sink = await run({ calls: [wrong.map(view)] })
  for (const { message } of sink.all('tool_end')) t.equal(message.status, 'error', String(message.content))
  t.match(sink.all('tool_end')[1]?.message.content, /at most 5 MB/)
  t.equal(server.requests[1]!.messages.at(-1)!.role, 'tool')
})

t.test('an image is shown once, and never over the bound of one question', async (t) => {
  const { put, run, server } = await open(t)
  const large = Buffer.concat([PNG, Buffer.alloc((5 << 20) - PNG.length)])
  for (const name of ['1.png', '2.png', '3.png']) await put(name, large)
  const calls = ['1.png', '2.png', '3.png', '2.png'].map((name) => [view(name)])
  await run({ calls, size: 1000 })
  const shown = JSON.stringify(server.requests[4]!.messages)
  t.equal(shown.split('data:image/png').length - 1, 2, 'the newest two fit')
  t.match(shown, '1.png is not shown any more')
})

t.test('an image is shown until the user speaks again, or it is gone', async (t) => {
  const { put, run, server, realPath } = await open(t)
  await put('a.png', PNG)
  const sink = await run({ calls: [[view('a.png')]] })
  const question = aHuman(scripted({ calls: [[view('a.png')]], text: 'done' }))
  const asked = sink.all('llm_response')[0]!.message
  const result = sink.all('tool_end')[0]!.message
  const said = async (messages: AgentInput['messages']) => {
    await run({}, { messages })
    return JSON.stringify(server.requests.at(-1)!.messages)
  }
  t.match(await said([question, asked, result]), 'data:image/png', 'also in the next run, which goes on from there')
  t.notMatch(await said([question, asked, result, aHuman(scripted({ text: 'bye' }), 'h2')]), 'data:image')
  await rm(realPath('a.png'))
  t.match(await said([question, asked, result]), 'a.png is not shown any more')
})

// ------------------------------------------------------------------------------------------------ made by tools

const gifs = { content: 'drawn', pictures: [{ mimeType: 'image/gif', bytes: GIF }] }
const drawing: Tool = { name: 'draw', description: '', parameters: { type: 'object' }, run: async () => gifs }
const draw = { name: 'draw', args: '{}' }

t.test('an image that a tool has made stands behind all results of its turn, while its run goes on', async (t) => {
  const { put, run, server } = await open(t, { tools: [drawing] })
  await put('a.png', PNG)
  const sink = await run({ calls: [[draw, view('a.png')], [{ name: 'list_files', args: '{}' }]], text: 'a dot' })
  const [, second, third] = server.requests
  t.same(rolesOf(second!.messages), ['system', 'user', 'assistant', 'tool', 'tool', 'user'])
  const shown = [
    { type: 'text', text: 'An image of draw:' },
    data('image/gif', GIF),
    named('a.png'),
    data('image/png', PNG)
  ]
  t.same(second!.messages.at(-1), { role: 'user', content: shown })
  t.same(third!.messages[5], second!.messages.at(-1))
  t.match(sink.all('tool_end')[0]?.message, { content: 'drawn', status: 'success' })
  t.notMatch(JSON.stringify(sink.told), GIF.toString('base64').slice(0, 8), 'no record has its bytes')
})

t.test('a model that takes no images is shown none that a tool has made', async (t) => {
  const { run, server } = await open(t, { tools: [drawing], takesImages: false })
  await run({ calls: [[draw]] })
  t.same(rolesOf(server.requests[1]!.messages), ['user', 'assistant', 'tool'])
})

t.test('of many images, or large ones, a run keeps the newest, and all together what they may take', (t) => {
  const budget = pictureBudget()
  const pictures = new RunPictures(budget.share('ann'))
  const sized = (bytes: number) => ({ mimeType: 'image/png', bytes: Buffer.alloc(bytes) })
  for (let i = 0; i <= SHOWN_MAX; i++) pictures.add(`${i}`, [sized(1)])
  t.equal(pictures.of('0').length, 0)
  t.equal(pictures.of('1').length, 1)
  t.equal(budget.held, SHOWN_MAX)
  pictures.add('too large', [sized(SHOWN_BYTES + 1)])
  t.equal(budget.held, SHOWN_MAX, 'one that no call takes is left out')
  pictures.add('large', [sized(SHOWN_BYTES - 1), sized(1)])
  t.equal(pictures.of('large').length, 2)
  pictures.add('last', [sized(2)])
  t.equal(pictures.of('large').length, 1, 'the oldest goes')

  const others = Array.from({ length: budget.each / SHOWN_BYTES + 1 }, () => new RunPictures(budget.share('ann')))
  for (const one of others) one.add('r', [sized(SHOWN_BYTES)])
  t.ok(budget.held <= budget.each, 'a user has a part of what all may take')
  t.equal(others.at(-1)!.of('r').length, 0)
  for (const one of [pictures, ...others]) one.release()
  t.equal(budget.held, 0)
  t.end()
})
