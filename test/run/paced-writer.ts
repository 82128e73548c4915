// A large piece goes to a socket in parts, and what a full socket has not taken waits for its drain.
import t from 'tap'
import { PacedWriter } from '../../lib/run/delivery/paced-writer.ts'

/** A socket that takes so many writes, and then one for each drain. */
function aSocket(space: number) {
  const written: Buffer[] = []
  const nothing = () => {}
  const writer = {
    write: (bytes: Uint8Array) => written.push(Buffer.from(bytes)) < space,
    end: nothing,
    reset: nothing,
    onDrain: nothing,
    onClose: nothing
  }
  return { written, paced: new PacedWriter(writer) }
}

const large = Buffer.alloc(200_000, 'abcdefg')

t.test('every drain lets the next part go out, until all of it is written, once and in order', async (t) => {
  const { written, paced } = aSocket(1)
  paced.send(large)
  for (let drains = 0; !paced.isAtBorder; drains++) {
    t.ok(paced.isFull)
    t.equal(written.length, drains + 1)
    paced.drained()
  }
  t.same(Buffer.concat(written), large)
  t.ok(written.every(({ length }) => length <= 65_536))
})

t.test('small pieces go out whole, an empty one not at all', async (t) => {
  const { written, paced } = aSocket(3)
  for (const text of ['one', '', 'two']) paced.send(Buffer.from(text))
  t.same(written.map(String), ['one', 'two'])
  t.notOk(paced.isFull)
  paced.send(Buffer.from('three'))
  t.ok(paced.isFull && paced.isAtBorder)
})

t.test('nothing more is written to a reader that has left', async (t) => {
  const { written, paced } = aSocket(1)
  paced.send(large)
  paced.drop()
  paced.drained()
  t.equal(written.length, 1)
})
