// Deltas as the data of frames.
import t from 'tap'
import type { Delta } from '../../lib/agent/runtime.ts'
import { DeltaTexts } from '../../lib/run/log/chunk.ts'

const delta = (messageId: string, piece: Partial<Delta>): Delta => ({ type: 'delta', messageId, model: 'm', ...piece })
const METADATA = { langgraph_node: 'agent' }

t.test('a delta is a chunk of its message, whatever message the one before was of', async (t) => {
  const texts = new DeltaTexts()
  const told = ['', 'one', 'an "other"', 'one'].map((id, i) => JSON.parse(texts.json(delta(id, { text: `${i}\n` }))))
  t.same(told, [
    [{ content: '0\n', type: 'AIMessageChunk', id: '' }, METADATA],
    [{ content: '1\n', type: 'AIMessageChunk', id: 'one' }, METADATA],
    [{ content: '2\n', type: 'AIMessageChunk', id: 'an "other"' }, METADATA],
    [{ content: '3\n', type: 'AIMessageChunk', id: 'one' }, METADATA]
  ])
})

t.test('nothing of a delta that says more than one thing is left out', async (t) => {
  const toolCall = { index: 0, id: 'call_1', name: 'search', args: '{"q' }
  const [chunk] = JSON.parse(new DeltaTexts().json(delta('one', { text: 'a', reasoning: 'b', toolCall })))
  t.same(chunk, {
    content: 'a',
    additional_kwargs: { reasoning_content: 'b' },
    tool_call_chunks: [{ name: 'search', args: '{"q', id: 'call_1', index: 0, type: 'tool_call_chunk' }],
    type: 'AIMessageChunk',
    id: 'one'
  })
})
