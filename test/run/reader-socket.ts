// A large piece goes to a socket in parts, what a full socket has not taken waits for its drain, and it ends, stalls and is gone once.
import t from 'tap'
import { ReaderSocket } from '../../lib/run/delivery/reader-socket.ts'

/** A socket that takes so many writes, and then one for each drain. */
function aSocket(space: number, heardAt?: () => number) {
  const written: Buffer[] = []
  const told: string[] = []
  let drain = () => {}
  let close = () => {}
  const writer = {
    write: (bytes: Uint8Array) => written.push(Buffer.from(bytes)) < space,
    end: (bytes: Uint8Array) => void told.push(`end ${String(bytes)}`),
    reset: (why?: string) => void told.push(`reset ${why}`),
    onDrain: (listener: () => void) => {
      drain = listener
    },
    onClose: (listener: () => void) => {
      close = listener
    }
  }
  const owner = { drained: () => void told.push('drained'), left: (why: string) => void told.push(why) }
  const socket = new ReaderSocket(writer, owner, { heartbeat: Buffer.from('beat'), ...(heardAt && { heardAt }) })
  return { written, told, socket, drain: () => drain(), close: () => close() }
}

const large = Buffer.alloc(200_000, 'abcdefg')

t.test('every drain lets the next part go out, until all of it is written, once and in order', async (t) => {
  const { written, socket, drain } = aSocket(1)
  socket.send(large)
  for (let drains = 0; !socket.isAtBorder; drains++) {
    t.ok(socket.isFull)
    t.equal(written.length, drains + 1)
    drain()
  }
  t.same(Buffer.concat(written), large)
  t.ok(written.every(({ length }) => length <= 65_536))
})

t.test('small pieces go out whole, an empty one not at all', async (t) => {
  const { written, socket } = aSocket(3)
  for (const text of ['one', '', 'two']) socket.send(Buffer.from(text))
  t.same(written.map(String), ['one', 'two'])
  t.notOk(socket.isFull)
  socket.send(Buffer.from('three'))
  t.ok(socket.isFull && socket.isAtBorder)
})

t.test('nothing more is written to a reader that has left, and it is told once that it has', async (t) => {
  const { written, told, socket, drain, close } = aSocket(1)
  socket.send(large)
  close()
  drain()
  socket.beat(0)
  socket.reset()
  t.equal(written.length, 1)
  t.strictSame(told, ['left'])
})

t.test('an end comes behind what was sent, also where the socket is full', async (t) => {
  const { told, socket, drain, close } = aSocket(1)
  socket.send(large)
  socket.end(Buffer.from('last'))
  t.strictSame(told, [])
  for (let drains = 0; drains < 3; drains++) drain()
  t.strictSame(told, [], 'its last part has filled the socket')
  drain()
  drain()
  t.strictSame(told, ['end last'], 'once')
  close()
  t.strictSame(told, ['end last', 'ended'])
})

t.test('who takes nothing is reset after a while, whether it reads or is at its end', async (t) => {
  for (const isEnding of [false, true]) {
    const { written, told, socket } = aSocket(isEnding ? 9 : 1)
    if (isEnding) socket.end(Buffer.from('last'))
    else socket.send(Buffer.from('one'))
    const before = [...told]
    socket.beat(60_000)
    socket.beat(0)
    t.strictSame(told, before)
    await new Promise((resolve) => setTimeout(resolve, 5))
    socket.beat(1)
    t.strictSame(told.slice(before.length), ['reset', 'reset stalled'])
    t.notOk(written.some((bytes) => String(bytes) === 'beat'))
  }
})

t.test('who answers no heartbeat is reset, where answers are expected', async (t) => {
  let heardAt = performance.now()
  const { written, told, socket } = aSocket(99, () => heardAt)
  await new Promise((resolve) => setTimeout(resolve, 5))
  for (let beats = 0; beats < 3; beats++) socket.beat(1)
  heardAt = performance.now()
  for (let beats = 0; beats < 3; beats++) socket.beat(60_000)
  t.strictSame(told, [])
  t.equal(written.length, 6)
  await new Promise((resolve) => setTimeout(resolve, 5))
  socket.beat(1)
  t.strictSame(told, ['reset', 'reset stalled'])
})
