// Crossing: a run of the built-in agent that was begun in any protocol is joined in any other, in mid-run and after its end. All of them
// are told the same.
import t from 'tap'
import { partsOfMessages } from '../../lib/protocols/parts.ts'
import { crossAll } from '../fixtures/crossings.ts'

const TALK = 'reasoning tool=write_file args={"path":"a.txt","content":"hi 𝕏"}'
/** What is said before the arguments of its call come: its reasoning, and the call's name. */
const SAID = 21
const QUESTION = 'tool=ask_user args={"question":"Which colour?","options":["Green","Blue"]}'

await crossAll(t, [
  { status: 'completed', words: (ms) => `/demo rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'failed', words: (ms) => `/demo error rate=100 pause=10:${ms} deltas=60 ${TALK}` },
  { status: 'cancelled', words: () => '/demo rate=100 deltas=100000 reasoning', cancelAt: 'w0010 ' },
  {
    status: 'cancelled',
    how: ' within a call',
    words: () => `/demo rate=100 pause=${SAID}:600000 ${TALK}`,
    cancelAt: 'write_file'
  },
  { status: 'asked', words: (ms) => `/demo rate=100 pause=10:${ms} deltas=60 reasoning ${QUESTION}` }
])

t.test('a lone half of a character is told as the one that stands for it, wherever it is', async (t) => {
  const parts = partsOfMessages([{ type: 'ai', id: 'm', content: 'a\ud800b\udc00c\ud83d' }])
  t.equal(parts.map((part) => (part.type === 'delta' ? part.text : '')).join(''), 'a\ufffdb\ufffdc\ufffd')
})
