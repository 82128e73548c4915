// The messages of a WebSocket that wait: counted, answered no faster than the answers are read, and none behind a close.
import t from 'tap'
import { BYTE_WEIGHT, Budget } from '../../lib/base/budget.ts'
import { MessageQueue } from '../../lib/http/message-queue.ts'
import type { TextSocket } from '../../lib/http/web-socket.ts'

/** A socket without a network, and a queue of at most `bytes` characters whose answers are what came. */
function handQueue(bytes: number) {
  const hand = { written: 0, closed: 0, takesMore: true, read: (_: string) => {}, ping: (_: Buffer) => {} }
  const socket: Partial<TextSocket> = {
    write: () => {
      hand.written++
      return hand.takesMore
    },
    close: (code) => {
      hand.closed = code
    },
    onClose: () => {},
    onText: (listener) => {
      hand.read = listener
    },
    onPing: (listener) => {
      hand.ping = listener
    },
    pause: () => {},
    resume: () => {}
  }
  const answered: string[] = []
  const share = new Budget({ each: bytes * BYTE_WEIGHT, all: 0 }).share('ann')
  const queue = new MessageQueue({
    socket: socket as TextSocket,
    share,
    stream: { isAtBorder: true },
    answer: (text) => {
      answered.push(text)
      if (text === 'close') queue.close(1008, 'no message')
      else queue.send({})
    }
  })
  queue.open()
  return { hand, queue, answered, share }
}

const turn = () => new Promise(setImmediate)

t.test('messages count until they are answered', async (t) => {
  const { hand, answered, share } = handQueue(10)
  hand.takesMore = false
  for (const text of ['one', 'two', 'three']) hand.read(text)
  await turn()
  t.strictSame([answered, hand.closed], [['one'], 1013], 'nobody reads the first answer, and there is no room for all')
  const more = handQueue(10)
  for (const text of ['one', 'two', 'six']) more.hand.read(text)
  await turn()
  t.strictSame([more.answered.length, more.share.held, more.hand.closed], [3, 0, 0])
  t.ok(share.held > 0, 'it is released with the connection')
})

t.test('who reads nothing gets no further answer, and the last pong alone', async (t) => {
  const { hand, queue, answered } = handQueue(1000)
  hand.takesMore = false
  for (let n = 0; n < 50; n++) {
    hand.read('one')
    hand.ping(Buffer.from('pong'))
  }
  await turn()
  t.strictSame([answered.length, hand.written], [1, 1])
  hand.takesMore = true
  queue.flush()
  await turn()
  t.strictSame([answered.length, hand.written], [50, 51], 'one pong for all')
})

t.test('behind a close nothing is answered', async (t) => {
  const { hand, answered } = handQueue(1000)
  hand.takesMore = false
  for (const text of ['one', 'close', 'late']) hand.read(text)
  t.strictSame(answered, ['one'])
  const other = handQueue(1000)
  for (const text of ['close', 'late']) other.hand.read(text)
  await turn()
  t.strictSame([other.answered, other.hand.closed], [['close'], 1008])
})
