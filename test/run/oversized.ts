// Frames that are too large for the wire: cut there, whole in the log.
import t from 'tap'
import { cutText, shortWhole, wholeJson } from '../../lib/conversation/wire.ts'
import { findWhole, madeWhole, wholeBytes } from '../../lib/run/log/oversized-reader.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import type { RawFrame } from '../../lib/run/log/segment.ts'
import { dataOf, Kind } from '../../lib/run/log/frame.ts'
import type { JsonObject, Message } from '../../lib/base/types.ts'
import { aCall, anAnswer, aResult } from '../fixtures/agent.ts'
import { Room, type Told, toldIn, toldTo } from '../fixtures/room.ts'
import { aLog, textFrom } from '../fixtures/run-log.ts'
import { until } from '../fixtures/until.ts'

const MAX = 4096
const ALL = ['values', 'messages-tuple', 'custom']
const newLog = () => aLog({ windowBytes: 10_000_000, eventBytes: MAX })
const urlOf = (n: number) => `/api/threads/thread/runs/run/frames/${n}`

/** What a joiner of everything gets of a log. */
function told(log: RunLog): Told[] {
  return toldIn(textFrom(log, 0, ALL))
}

interface Tuple {
  readonly 0: { readonly content: string }
  readonly 1: JsonObject
}

t.test('a text is cut at a number of bytes of JSON, and inside no character', async (t) => {
  const bytes = (text: string) => Buffer.byteLength(JSON.stringify(text))
  for (const piece of ['a', 'ä', '€', '😀', '"', '\u0000', '\ud800', 'a😀']) {
    const text = piece.repeat(3000)
    for (const max of [64, 100, 101, 102, 103, 1000, 4001]) {
      const short = cutText(text, max)
      t.ok(bytes(short) <= max, `${JSON.stringify(piece)} in ${max}`)
      t.ok(text.startsWith(short))
      t.ok(short.length > 0)
      if (piece.isWellFormed()) t.ok(short.isWellFormed(), 'no half characters')
    }
  }
  t.equal(cutText('short', 100), 'short')
})

t.test('a giant result is cut on the wire, marked, and whole behind it', async (t) => {
  const log = newLog()
  const text = 'ä"😀'.repeat(50_000)
  const result = aResult(aCall('c0'), text)
  const json = wholeJson(result)
  log.append(Kind.custom, 'custom', '"before"')
  log.append(Kind.messages, 'messages', json, shortWhole(result))
  log.append(Kind.custom, 'custom', '"after"')
  const all = told(log)
  t.equal(all.length, 3, 'its parts are not shown')
  const [, giant] = all
  t.ok(Buffer.byteLength(giant!.data) < MAX)
  const [short, metadata] = JSON.parse(giant!.data) as Tuple & [JsonObject, JsonObject]
  t.ok(text.startsWith(short.content as string))
  t.ok((short.content as string).length > 200)
  t.match(short, { type: 'tool', id: result.id, tool_call_id: 'c0' })
  t.same(metadata, {
    langgraph_node: 'tools',
    content_truncated: true,
    original_byte_length: Buffer.byteLength(json),
    content_url: urlOf(1)
  })
  t.equal(all[2]!.n, log.head - 1)
  const whole: string[] = []
  for await (const frame of madeWhole(framesIn(log))) whole.push(dataOf(frame.bytes))
  t.same(whole, ['"before"', json, '"after"'])
})

async function* framesIn(log: RunLog): AsyncGenerator<RawFrame> {
  yield* log.frames(0)
}

t.test('whatever makes a message giant: it stays below the size, and keeps what tells which one it is', async (t) => {
  const long = 'x'.repeat(20_000)
  const call = aCall('c0')
  const messages: Message[] = [
    aResult(call, long),
    {
      ...aResult(call, ''),
      content: [
        { type: 'text', text: long },
        { type: 'text', text: 'short' }
      ]
    },
    { ...aResult(call, 'fine'), artifact: Array.from({ length: 9000 }, (_, i) => i) },
    { ...aResult(call, 'fine'), artifact: Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`key-${i}`, i])) },
    { ...aResult(call, '\u0000'.repeat(20_000)), name: long },
    { ...anAnswer(long), additional_kwargs: { reasoning_content: long } }
  ]
  for (const message of messages) {
    const log = newLog()
    log.append(Kind.messages, 'messages', wholeJson(message), shortWhole(message))
    const [frame] = told(log)
    t.ok(Buffer.byteLength(frame!.data) < MAX)
    const [short, metadata] = JSON.parse(frame!.data) as Tuple & [JsonObject, JsonObject]
    t.match(short, { id: message.id, type: message.type })
    if (message.type === 'tool') t.match(short, { tool_call_id: 'c0', status: 'success' })
    t.match(metadata, { content_truncated: true, content_url: urlOf(0) })
  }
})

t.test('other data is cut to its beginning, as a text', async (t) => {
  const log = newLog()
  const json = JSON.stringify({ list: Array.from({ length: 9000 }, (_, i) => i) })
  log.append(Kind.custom, 'custom', json)
  const data = JSON.parse(told(log)[0]!.data) as JsonObject
  t.match(data, { content_truncated: true, original_byte_length: json.length, content_url: urlOf(0) })
  t.ok(json.startsWith(data.content as string))
})

t.test('a frame that just fits is not cut; a reference to a state never is', async (t) => {
  const log = newLog()
  log.append(Kind.custom, 'custom', JSON.stringify('x'.repeat(MAX - 200)))
  log.append(Kind.custom, 'custom', JSON.stringify('x'.repeat(MAX)))
  log.appendValues('checkpoint', { json: () => `"${'x'.repeat(100_000)}"` }, 100_000)
  const all = told(log)
  t.notMatch(all[0]!.data, /content_truncated/)
  t.match(all[1]!.data, /content_truncated/)
  t.equal(all[2]!.data.length, 100_002)
})

t.test('a frame larger than what may wait for the store gets through, and the agent goes on', async (t) => {
  const room = await Room.open(t, { eventBytes: MAX, pendingBytes: 50_000, windowBytes: 10_000 })
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  const wire = await room.join(run, ALL)
  const text = 'giant '.repeat(50_000)
  t.equal(stage.custom(text), false, 'no space for more')
  await stage.sink.space()
  t.ok(stage.say('and more'))
  stage.reply(`${text}and more`)
  stage.finish()
  const row = await room.ended(run)
  t.equal(row.status, 'success')
  await until(() => wire.ending === 'ended', 'it is told everything')
  const live = toldTo(wire)
  t.match(live.find(({ event }) => event === 'custom')!.data, /content_truncated/)
  t.ok(live.at(-2)!.data.includes(text), 'a values frame is whole')
  const later = await room.join(row, ALL)
  await until(() => later.ending === 'ended', 'the log is read')
  t.same(toldTo(later), live, 'the same from the store')
})

t.test('the whole is read from memory and from the store, in any range', async (t) => {
  const room = await Room.open(t, { eventBytes: MAX })
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  const text = 'ä'.repeat(200_000)
  stage.custom(text)
  const json = Buffer.from(JSON.stringify(text))
  const read = async (start: number, end: number) => {
    const log = await room.registry.readers.logOf(await room.row(run))
    const whole = await findWhole(log, 2)
    t.equal(whole!.bytes, json.length)
    const pieces: Buffer[] = []
    for await (const piece of wholeBytes(log, 2, whole!, start, end)) pieces.push(piece)
    return Buffer.concat(pieces)
  }
  const ranges = [
    [0, json.length - 1],
    [0, 0],
    [65_535, 65_536],
    [65_536, 131_071],
    [100_000, 300_000],
    [json.length - 5, json.length - 1]
  ] as const
  const allAre = async (when: string) => {
    for (const [start, end] of ranges)
      t.ok((await read(start, end)).equals(json.subarray(start, end + 1)), `${when} ${start}-${end}`)
    const log = await room.registry.readers.logOf(await room.row(run))
    for (const n of [0, 1, 3, 4, 99]) t.equal(await findWhole(log, n), null, `frame ${n} was not cut`)
  }
  await allAre('in memory')
  stage.reply(text)
  stage.finish()
  await room.ended(run)
  await allAre('in the store')
})
