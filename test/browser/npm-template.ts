// A template of LangGraph.js as npm has it, made by its own command line and not changed: served, and driven by the SDK's hook in Chromium.
// Its model is reached where its environment says, which is here. It is installed for each run: by `npm run test:long` alone, and where
// there is a registry; the test says so otherwise.
import { execFile, spawn } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { browserTest, visit } from '../fixtures/browser.ts'
import { at, homeOf, listIn, signIn, until } from '../fixtures/gateway.ts'
import { HookPage, serve } from '../fixtures/react-page.ts'
import { IS_LONG } from '../fixtures/size.ts'

/** This file is compiled to <build>/test/browser. */
const PROGRAM = fileURLToPath(new URL('../../bin/colloquy.js', import.meta.url))
const INSTALL_MS = 400_000
const QUIET = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
const MAKER = 'create-agent-chat-app@0.1.6'
const CHOSEN = ['--yes', '--project-name', 'app', '--package-manager', 'npm', '--install-deps', 'false']

const run = promisify(execFile)
const folder = homeOf(t)
const app = join(folder, 'app')

/** @returns null, or why there is no template */
async function install(): Promise<string | null> {
  if (!IS_LONG) return 'the template is installed from npm by npm run test:long'
  try {
    const npm = (cwd: string, ...args: string[]) =>
      run('npm', ['install', ...QUIET, ...args], { cwd, timeout: INSTALL_MS })
    await npm(folder, '--prefix', folder, MAKER)
    const maker = join(folder, 'node_modules', 'create-agent-chat-app', 'index.js')
    await run(process.execPath, [maker, ...CHOSEN, '--framework', 'vite', '--include-agent', 'react'], { cwd: folder })
    // Its agents alone, without the page of its own and the tools that look at its code.
    await npm(app, '--omit=dev', '--legacy-peer-deps', '--workspace=agents')
    return null
  } catch (error) {
    return `the template cannot be installed here: ${String(error).split('\n')[0]}`
  }
}

interface Asked {
  readonly model: string
  readonly tools: readonly { readonly name: string }[]
  readonly messages: readonly {
    readonly content: string | readonly { readonly type: string; readonly text?: string }[]
  }[]
}

/** Anthropic's API, as much of it as is asked for: says what it is told, word by word; of a search, that it has to look. */
async function model(t: Test): Promise<string> {
  const server = createServer(async (req, res) => {
    let body = ''
    for await (const bytes of req) body += String(bytes)
    const { model, tools, messages } = JSON.parse(body) as Asked
    const { content } = messages.at(-1)!
    const text = typeof content === 'string' ? content : content.map((one) => one.text ?? one.type).join()
    const isCall = text.startsWith('search')
    const message = { id: `msg_${messages.length}`, type: 'message', role: 'assistant', model, content: [] }
    const say = (type: string, more: object) =>
      res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`)
    res.setHeader('content-type', 'text/event-stream')
    say('message_start', { message: { ...message, usage: { input_tokens: 3, output_tokens: 0 } } })
    const call = { type: 'tool_use', id: 'toolu_1', name: tools[0]!.name, input: {} }
    say('content_block_start', { index: 0, content_block: isCall ? call : { type: 'text', text: '' } })
    if (isCall)
      say('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: '{"input":"x"}' } })
    else
      for (const word of `heard ${text}`.split(/(?<= )/)) {
        say('content_block_delta', { index: 0, delta: { type: 'text_delta', text: word } })
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    say('content_block_stop', { index: 0 })
    const delta = { stop_reason: isCall ? 'tool_use' : 'end_turn' }
    say('message_delta', { delta, usage: { output_tokens: 4 } })
    say('message_stop', {})
    res.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  // Listening on a port, it has one.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function served(t: Test): Promise<string> {
  const keys = { ANTHROPIC_API_KEY: 'x', TAVILY_API_KEY: 'x', ANTHROPIC_BASE_URL: await model(t) }
  const words = ['serve', '--langgraph', '.', '--home', homeOf(t), '--port', '0']
  const child = spawn(process.execPath, [PROGRAM, ...words], { cwd: app, env: { PATH: process.env.PATH, ...keys } })
  t.teardown(() => child.kill('SIGKILL'))
  let out = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes) => {
      out += String(bytes)
    })
  await until(() => /listening on \S+/.test(out) || child.exitCode !== null, 'the start line', 60_000)
  const url = /listening on (\S+)/.exec(out)?.[1]
  if (!url) throw new Error(out)
  return url
}

async function drive(t: Test): Promise<void> {
  const url = await served(t)
  const person = await signIn({ url })
  const visitor = await visit(t, url, { person })
  visitor.expect(/404/)
  await serve(visitor.page, 'classic')
  const hooked = new HookPage(visitor.page, `${visitor.url}/react?assistant=agent`)
  await hooked.open()
  const first = ['hello', 'heard hello']
  await hooked.do('say', 'hello')
  await hooked.settles(first, 'an answer')
  const long = Array.from({ length: 60 }, (_, n) => `w${n}`).join(' ')
  await hooked.do('say', long)
  await until(async () => ((await hooked.said())[3] ?? '').length > 20, 'it is being said')
  await hooked.reload()
  const second = [...first, long, `heard ${long}`]
  await hooked.settles(second, 'after a reload in the middle: all of it, once')

  await hooked.do('edit', 2, 'other')
  const edited = [...first, 'other', 'heard other']
  await hooked.settles(edited, 'another question in the place of the second')
  await until(async () => (await hooked.branches())[2] === '2/2', 'two branches')
  await hooked.do('turnTo', 2, 0)
  await hooked.settles(second, 'the first branch')
  await hooked.do('turnTo', 2, 1)
  await hooked.settles(edited, 'the second one')

  await hooked.do('sayBefore', 'tools', 'search it')
  const state = `/api/threads/${await hooked.attribute('thread')}/state`
  const next = async () => at((await person.get(state)).body, 'next', 0)
  await until(async () => (await next()) === 'tools', 'it waits before its tool')
  await hooked.reload()
  await until(async () => (await hooked.said()).includes('search it'), 'and still does')
  // In the place of the tool, which would ask the world.
  const messages = [{ type: 'tool', content: 'found', tool_call_id: 'toolu_1' }]
  t.equal((await person.post(state, { values: { messages }, as_node: 'tools' })).status, 200)
  await hooked.reload()
  await until(async () => (await hooked.said()).includes('found'), 'what was found')
  await hooked.do('goOn')
  await until(async () => ((await hooked.said()).at(-1) ?? '').startsWith('heard tool_result'), 'it goes on')
  await until(async () => (await next()) === undefined, 'to the end')
  t.equal(listIn(at((await person.get(state)).body, 'values'), 'messages').length, 8)
  t.equal(await hooked.attribute('error'), '')
}

const reason = await install()
if (reason === null)
  browserTest("a template of LangGraph's from npm is driven unchanged: reload, branches, a breakpoint", drive)
else t.test("a template of LangGraph's from npm is driven unchanged", { skip: reason }, async () => {})
