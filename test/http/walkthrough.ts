// What the README promises in its first minutes: sign in, talk, lose the connection, come back, read what is kept.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startChild } from '../fixtures/child.ts'
import { at, listIn, type Options, PASSWORD, Person, openSite, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import { type Frame, textOf } from '../fixtures/stream.ts'

/** Compiled to <build>/test/http. */
const README = new URL('../../../README.md', import.meta.url)

async function walk(t: Test, config: Options | undefined, words: string): Promise<string> {
  const site = await openSite(t, { config: config ?? {} })
  const ada = new Person(site.url)
  const account = await ada.post('/api/v1/auth/initialize', { email: 'ada@example.com', password: PASSWORD })
  t.equal(account.status, 201)
  t.match(account.body, { email: 'ada@example.com', system_role: 'admin' })
  const threadId = await ada.thread()

  const first = await ada.stream(threadId, words, { stream_mode: ['messages-tuple', 'values'] })
  t.equal(first.status, 200)
  t.equal(first.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.equal(first.headers.get('location'), first.runPath.replace(/^\/api/, '').concat('/stream'))
  await first.untilFrames(6)
  first.leave()

  const seen: Frame[] = [...first.frames]
  const second = await ada.join(first.runPath, first.lastId)
  seen.push(...(await second.whole()))
  t.equal(seen[0]?.event, 'metadata')
  t.equal(seen.at(-1)?.event, 'end')
  t.equal(seen.filter(({ event }) => event === 'end').length, 1)
  const whole = await (await ada.join(first.runPath)).whole()
  t.same(seen, whole, 'the two halves are the whole, with nothing twice')

  const state = await ada.get(`/api/threads/${threadId}/state`)
  t.equal(state.status, 200)
  const [question, answer] = listIn(state.body, 'values', 'messages')
  t.match(question, { type: 'human', content: words })
  t.match(answer, { type: 'ai', content: textOf(whole) })
  const history = listIn((await ada.post(`/api/threads/${threadId}/history`, { limit: 3 })).body)
  t.equal(history.length, 3)
  t.equal(at(history[0], 'checkpoint', 'checkpoint_id'), at(state.body, 'checkpoint', 'checkpoint_id'))
  const run = await ada.get(first.runPath)
  t.match(run.body, { status: 'success', thread_id: threadId })
  const events = listIn((await ada.get(`${first.runPath}/events`)).body)
  t.ok(events.some((event) => at(event, 'event_type') === 'human_message'))
  t.ok(events.some((event) => at(event, 'event_type') === 'ai_message'))
  return textIn(answer, 'content')
}

t.test('with the demo model: who drops in mid-answer and comes back misses nothing', async (t) => {
  const answer = await walk(t, undefined, 'Hello, who are you? /demo deltas=60 rate=60')
  t.match(answer, /^w0000 .*w0059 $/)
})

t.test('with a chat-completions server: who drops in mid-answer and comes back misses nothing', async (t) => {
  const model = await startModel()
  t.teardown(() => model.stop())
  const config = { models: [{ name: 'main', base_url: model.baseUrl, api_key: 'k', model: 'fixture' }] }
  const text = 'Grüße aus dem Prüfstand: 🙂 and so on, until there are enough words to lose a connection in.'
  const answer = await walk(t, config, scripted({ text, rate: 60 }, 'Hello? '))
  t.equal(answer, text)
})

const block = /<!-- walkthrough -->\s*```sh\n([\s\S]*?)```/.exec(readFileSync(README, 'utf8'))?.[1]

t.test(
  'the shell block of the README runs as it stands',
  { skip: block === undefined && 'README.md has no block after <!-- walkthrough -->' },
  async (t) => {
    const { url, home } = await startChild(t)
    // Rejects when the block exits with anything but 0.
    const { stdout } = await promisify(execFile)('bash', ['-c', block ?? ''], {
      env: { PATH: process.env.PATH, COLLOQUY: url, TMPDIR: home },
      maxBuffer: 64 * 1024 * 1024
    })
    t.match(stdout, 'event: end')
    t.equal(stdout.match(/^event: end$/gm)?.length, 1)
  }
)
