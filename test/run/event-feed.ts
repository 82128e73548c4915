// What protocol v2 makes of a run's log is made once, for readers of one moment and for those a little behind.
import t from 'tap'
import { sseEncoding, webSocketEncoding } from '../../lib/protocols/langgraph/encoding.ts'
import { type Encoding, EventFeed } from '../../lib/protocols/langgraph/feed.ts'
import { eventFilter } from '../../lib/protocols/langgraph/subscription.ts'
import { Kind } from '../../lib/run/log/filter.ts'
import type { RunLog } from '../../lib/run/log/run-log.ts'
import { aLog } from '../fixtures/run-log.ts'

const filter = eventFilter([{ channels: ['messages'] }])
const selection = { filter, takes: () => true, key: filter }
const feed = (log: RunLog, encoding: Encoding = sseEncoding) => new EventFeed(log.run, log, encoding, () => selection)

function say(log: RunLog, text: string): void {
  log.append(Kind.messages, 'messages', JSON.stringify([{ type: 'AIMessageChunk', id: 'm1', content: text }, {}]))
}

/** All that a feed has now, piece by piece. */
function piecesOf(reader: EventFeed): Buffer[] {
  const pieces: Buffer[] = []
  for (let fed = reader.next(null); typeof fed !== 'string'; fed = reader.next(null)) pieces.push(fed.bytes)
  return pieces
}

t.test('a reader who is behind is given the bytes that were made for those before it', (t) => {
  const log = aLog({ windowBytes: 1 << 20 })
  const fast = feed(log)
  const made: Buffer[] = []
  for (let turn = 0; turn < 20; turn++) {
    say(log, `word ${turn} `)
    say(log, 'and more ')
    made.push(...piecesOf(fast))
  }
  const late = piecesOf(feed(log))
  t.equal(made.length, 20)
  t.equal(late.length, 20)
  t.ok(late.every((bytes, i) => bytes === made[i]))
  const text = Buffer.concat(late).toString()
  for (let turn = 0; turn < 20; turn++) t.equal(text.split(`word ${turn} `).length, 2, `word ${turn} comes once`)
  t.equal(piecesOf(feed(log, webSocketEncoding)).length, 20, 'another transport translates nothing anew')
  t.end()
})

t.test('of what was made the oldest goes, and who comes to it then reads the same', (t) => {
  const log = aLog({ windowBytes: 1 << 26 })
  const fast = feed(log)
  const made: Buffer[] = []
  for (let turn = 0; turn < 12; turn++) {
    say(log, `${turn}${'x'.repeat(1 << 20)}`)
    made.push(...piecesOf(fast))
  }
  const late = piecesOf(feed(log))
  t.not(late[0], made[0], 'made anew')
  t.ok(Buffer.concat(late).equals(Buffer.concat(made)))
  t.end()
})
