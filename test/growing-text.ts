// A text that grows by small pieces: the same text as all of them together, whenever it is read.
import t from 'tap'
import { GrowingText } from '../lib/growing-text.ts'

t.test('it is what was added, however often it is read meanwhile', async (t) => {
  const text = new GrowingText()
  t.ok(text.isEmpty)
  let expected = ''
  for (let i = 0; i < 100; i++) {
    const piece = i % 7 === 0 ? '' : `😀${i} `
    text.add(piece)
    expected += piece
    if (i % 10 === 0) t.equal(String(text), expected)
  }
  t.equal(`${text}`, expected)
  t.notOk(text.isEmpty)
})

t.test('nothing but empty pieces is no text', async (t) => {
  const text = new GrowingText()
  text.add('')
  t.ok(text.isEmpty)
  t.equal(String(text), '')
})
