// Positions: where a reader goes on that comes back with an id.
import t from 'tap'
import { cursorText, frameText, type LogBounds, nextAfter, nextStored, readPosition } from '../../lib/run/log/frame.ts'

/** A run that was begun twice: n 0 to 9 under epoch 100, from 10 on under epoch 200, ten frames so far. */
const BOUNDS: LogBounds = {
  epochs: [
    { epoch: 100, first: 0 },
    { epoch: 200, first: 10 }
  ],
  head: 20
}
const next = (text: string | undefined) => nextAfter(readPosition(text), BOUNDS)

t.test('no position, -1, 0 and garbage are the beginning [design 5]', async (t) => {
  for (const text of [undefined, '-1', '0', '', 'garbage', '1-2-3', '1e5', 'x'.repeat(3000), '99999999999999999999'])
    t.equal(next(text), 0, String(text))
})
t.test('a cursor goes on after its frame', async (t) => {
  t.equal(next('100-3'), 4)
  t.equal(next('200-12'), 13)
})
t.test('the last id leaves nothing but the end', async (t) => t.equal(next('200-19'), 20))
t.test('a bare number is that n, whatever the epoch', async (t) => {
  t.equal(next('7'), 8)
  t.equal(next('19'), 20)
})
t.test('a cursor of an earlier epoch beyond what survived goes on with the first frame of the next one', async (t) => {
  t.equal(next('100-9'), 10)
  t.equal(next('100-14'), 10)
  t.equal(next('100-500'), 10)
})
t.test('an id of another run, or one that never was, is the beginning', async (t) => {
  t.equal(next('300-5'), 0)
  t.equal(next('200-500'), 0)
  t.equal(next('200-5'), 0, 'of this epoch, but before it began')
  t.equal(next('500'), 0)
})
t.test('a frame is event, data and id in this order, on lines of their own', async (t) => {
  t.equal(frameText('custom', '{"a":1}', cursorText(5, 6)), 'event: custom\ndata: {"a":1}\nid: 5-6\n\n')
})

t.test(
  'of a run of another process only what is stored is known: a position that may have gone out there waits',
  async (t) => {
    const stored = (text: string | undefined, bounds = BOUNDS) => nextStored(readPosition(text), bounds)
    for (const text of [undefined, '-1', '100-3', '100-500', '200-12', '200-19', '7', '19'])
      t.equal(stored(text), next(text), `${text} is stored`)
    t.equal(stored('200-20'), null)
    t.equal(stored('20'), null)
    t.equal(stored('300-5'), null, 'of an attempt of which nothing may be stored yet')
    const isRead = (text: string, bounds = BOUNDS) => nextStored(readPosition(text), bounds, true)
    t.equal(isRead('300-5'), 0, 'it is lost when the store, asked again, does not know it')
    t.equal(isRead('200-20'), null, 'a frame that may come')
    t.equal(isRead('100-5', { epochs: [], head: 0 }), null, 'a first attempt of which nothing may be stored yet')
    t.equal(stored('100-5', { epochs: [], head: 0 }), null)
    t.equal(stored('150-5'), 0, 'epochs only grow: this one never was')
    t.equal(stored('200-5'), 0, 'of this epoch, but before it began')
  }
)
