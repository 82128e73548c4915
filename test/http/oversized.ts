// One giant tool result or delta must not break delivery [needs N39]: cut on the wire, whole wherever it is asked for.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import t, { type Test } from 'tap'
import { createAgent } from '../../lib/agent/lead.ts'
import { demoModels } from '../../lib/agent/demo.ts'
import { startChild } from '../fixtures/child.ts'
import { at, homeOf, listIn, openSite, type Person, signIn, textIn } from '../fixtures/gateway.ts'
import { scripted, startModel } from '../fixtures/model.ts'
import type { Frame } from '../fixtures/stream.ts'

const MB = 1_000_000
const WIRE_MAX = 1024 * 1024
const MODES = ['messages-tuple']

/** The frames of a run that were cut, with what their marks say. */
function cutIn(frames: readonly Frame[]): { data: string; bytes: number; url: string }[] {
  return frames
    .filter(({ event, data }) => event === 'messages' && data.includes('content_truncated'))
    .map(({ data }) => {
      const value: unknown = JSON.parse(data)
      return { data, bytes: Number(at(value, 1, 'original_byte_length')), url: textIn(value, 1, 'content_url') }
    })
}

async function ranged(person: Person, url: string, range: string, more: Record<string, string> = {}) {
  return person.get(url, { headers: { range, ...more } })
}

/** The whole of what was cut is there by this address, in one piece and in ranges. */
async function isThere(t: Test, person: Person, { url, bytes }: { url: string; bytes: number }): Promise<string> {
  const whole = await person.get(url)
  t.equal(whole.status, 200)
  t.equal(whole.headers.get('content-type'), 'application/json')
  t.equal(whole.headers.get('accept-ranges'), 'bytes')
  t.equal(Number(whole.headers.get('content-length')), bytes)
  t.equal(Buffer.byteLength(whole.text), bytes)
  const all = Buffer.from(whole.text)
  for (const [range, start, end] of [
    ['bytes=0-99', 0, 99],
    ['bytes=1000000-1999999', 1_000_000, 1_999_999],
    [`bytes=${bytes - 10}-`, bytes - 10, bytes - 1],
    ['bytes=-10', bytes - 10, bytes - 1]
  ] as const) {
    const part = await ranged(person, url, range)
    t.equal(part.status, 206, range)
    t.equal(part.headers.get('content-range'), `bytes ${start}-${end}/${bytes}`)
    t.ok(Buffer.from(part.text).equals(all.subarray(start, end + 1)), range)
  }
  const outside = await ranged(person, url, `bytes=${bytes}-`)
  t.equal(outside.status, 416)
  t.equal(outside.headers.get('content-range'), `bytes */${bytes}`)
  const other = await ranged(person, url, 'bytes=0-1', { 'if-range': '"another"' })
  t.equal(other.status, 200, 'a part of another is no part of this')
  const tag = whole.headers.get('etag')!
  t.equal((await ranged(person, url, 'bytes=0-1', { 'if-range': tag })).status, 206)
  const head = await person.ask('HEAD', url)
  t.equal(Number(head.headers.get('content-length')), bytes)
  return whole.text
}

const isResult = (event: unknown) => at(event, 'event_type') === 'tool_result'

t.test('a tool result of 50 MB: small on the wire, whole in state, events and by its address', async (t) => {
  const giant = 'a line of output, und ein Ümlaut\n'.repeat(2 * MB).slice(0, 50 * MB)
  const tool = { name: 'giant', description: '', parameters: {}, run: async () => giant }
  // The demo model repeats what the tool has said: a giant delta as well.
  const agent = createAgent({ models: demoModels(), tools: [tool] })
  const site = await openSite(t, { agent })
  const person = await signIn(site)
  const delay = monitorEventLoopDelay({ resolution: 5 })
  const thread = await person.thread()
  const other = await person.thread()
  delay.enable()
  const ticking = await person.stream(other, '/demo deltas=200 rate=50', { stream_mode: MODES })
  const stream = await person.stream(thread, '/demo tool=giant rate=0 deltas=3', { stream_mode: MODES })
  await Promise.all([stream.whole(), ticking.whole()])
  delay.disable()
  t.comment(`loop delay: max ${(delay.max / 1e6).toFixed()} ms, p99 ${(delay.percentile(99) / 1e6).toFixed()} ms`)
  const frames = stream.frames
  const large = frames.filter(({ data }) => Buffer.byteLength(data) > WIRE_MAX)
  t.same(large, [], 'no frame is larger than it may be')
  const [cut, ...none] = cutIn(frames)
  t.same(none, [])
  t.ok(cut!.data.length > WIRE_MAX / 4, 'it shows what it may')
  const whole = await isThere(t, person, cut!)
  t.ok(textIn(JSON.parse(whole), 0, 'content') === giant, 'all of it')
  const runPath = stream.runPath
  const found: unknown[] = []
  // A page is bounded in bytes, and this message is more than one: it has a page of its own.
  for (let before = ''; !found.some(isResult); ) {
    const page = listIn((await person.get(`${runPath}/messages?${before}`)).body, 'data')
    if (page.length === 0) break
    found.push(...page)
    before = `before_seq=${at(page[0], 'seq')}`
  }
  const result = found.find(isResult)
  t.ok(textIn(result, 'content', 'content') === giant, 'the event is whole')

  const values = await person.join(runPath, frames.at(-2)!.id, ['values'])
  const bytes: Buffer[] = []
  values.tap((piece) => bytes.push(piece))
  await values.ended
  t.ok(Buffer.concat(bytes).includes(JSON.stringify(giant)), 'a values frame is never cut')
  const joined = await person.join(runPath, null, MODES)
  await joined.whole()
  t.same(
    joined.frames.map(({ id }) => id),
    frames.map(({ id }) => id),
    'the same for who joins later'
  )
  t.ok(joined.frames.find(({ data }) => data.includes('content_truncated'))!.data === cut!.data)

  const stranger = await signIn(site)
  const [refused, missing] = [await stranger.get(cut!.url), await stranger.get(runPath)]
  t.equal(refused.status, 404)
  t.same(refused.body, missing.body, 'for a stranger it is not there, as the run is not')
  t.equal((await person.get(cut!.url.replace(/\d+$/, '0'))).status, 404, 'a frame that was not cut')
  for (const n of ['x', '-1', '99999999999999999999'])
    t.equal((await person.get(cut!.url.replace(/\d+$/, n))).status, 404)
})

t.test(
  'a delta of 20 MB: all of it in frames of the size that is allowed, live and after a crash, and in the partial answer',
  async (t) => {
    const model = await startModel()
    t.teardown(() => model.stop())
    const config = { models: [{ name: 'fixture', model: 'fixture', base_url: model.baseUrl }] }
    const child = await startChild(t, { home: homeOf(t), config })
    const person = await signIn(child)
    const script = scripted({ deltas: 2, pad: 20 * MB, gate: 'more', gateAfter: 2 })
    const stream = await person.stream(await person.thread(), script, { stream_mode: MODES })
    await stream.until(({ frames }) => textOf(frames).length >= 20 * MB)
    const text = textOf(stream.frames)
    t.ok(stream.frames.every(({ data }) => Buffer.byteLength(data) <= WIRE_MAX))
    t.same(cutIn(stream.frames), [])
    await child.kill()
    const next = await startChild(t, { home: child.home, config })
    person.url = next.url
    const later = await person.join(stream.runPath, null, MODES)
    await later.whole()
    t.ok(textOf(later.frames) === text, 'the same after a crash')
    const state = await person.get(`/api/threads/${stream.runPath.split('/')[3]}/state`)
    t.ok(textIn(state.body, 'values', 'messages', 1, 'content') === text, 'the partial answer holds it whole')
  }
)

/** What the deltas among some frames say, put together. */
function textOf(frames: readonly Frame[]): string {
  const chunks = frames.filter(({ event }) => event === 'messages').map(({ data }): unknown => JSON.parse(data))
  return chunks.map((chunk) => (at(chunk, 0, 'type') === 'AIMessageChunk' ? textIn(chunk, 0, 'content') : '')).join('')
}
