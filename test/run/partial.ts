// The message that is being built, and what of it can be kept when it is broken off [design 4, rule 6].
import fc from 'fast-check'
import t from 'tap'
import type { Delta } from '../../lib/agent/runtime.ts'
import { parseArgs, PartialMessage } from '../../lib/run/log/partial.ts'

type Piece = Pick<Delta, 'text' | 'reasoning' | 'toolCall'>

function built(...pieces: Piece[]): PartialMessage {
  const partial = new PartialMessage('m1', 'scripted')
  for (const piece of pieces) partial.fold({ type: 'delta', messageId: 'm1', model: 'scripted', ...piece })
  return partial
}
const piece = (index: number, args: string, id?: string, name?: string): Piece => ({
  toolCall: { index, args, ...(id !== undefined && { id }), ...(name !== undefined && { name }) }
})

t.test('where nothing was said there is nothing to keep', async (t) => {
  t.equal(built().broken('interrupted'), null)
  t.equal(built({ text: '' }, { reasoning: '' }).broken('interrupted'), null)
})

t.test('text and reasoning are kept as far as they came, with the id they were shown under', async (t) => {
  t.same(
    built({ reasoning: 'hm ' }, { reasoning: 'well' }, { text: 'half an ' }, { text: 'ans' }).broken('interrupted'),
    {
      content: 'half an ans',
      additional_kwargs: { reasoning_content: 'hm well' },
      response_metadata: { finish_reason: 'interrupted', model_name: 'scripted' },
      type: 'ai',
      name: null,
      id: 'm1',
      tool_calls: [],
      invalid_tool_calls: [],
      usage_metadata: null
    }
  )
})

t.test('a call is whole when its arguments are an object, and has a name and an id', async (t) => {
  const message = built(piece(0, '{"a":', 'c1', 'look'), piece(0, '1}')).broken('error')
  t.same(message?.tool_calls, [{ name: 'look', args: { a: 1 }, id: 'c1', type: 'tool_call' }])
  t.same(message?.invalid_tool_calls, [])
})

t.test('everything else of a call is kept as an invalid one, with its text', async (t) => {
  const fragments: Piece[][] = [
    [piece(0, '', 'c1', 'look')],
    [piece(0, '{"a":', 'c1', 'look')],
    [piece(0, '[1]', 'c1', 'look')],
    [piece(0, 'null', 'c1', 'look')],
    [piece(0, '"text"', 'c1', 'look')],
    [piece(0, '{}', undefined, 'look')],
    [piece(0, '{}', 'c1')]
  ]
  for (const pieces of fragments) {
    const message = built(...pieces).broken('error')!
    t.same(message.tool_calls, [], JSON.stringify(pieces))
    t.match(message.invalid_tool_calls, [{ error: 'Interrupted', type: 'invalid_tool_call' }])
    t.equal(message.invalid_tool_calls[0]!.args, pieces.map((one) => one.toolCall!.args).join(''))
  }
})

t.test('calls that arrive interleaved are put together by their index', async (t) => {
  const message = built(
    piece(0, '{"n"', 'c0', 'look'),
    piece(1, '{"m"', 'c1', 'find'),
    piece(0, ':0}'),
    piece(1, ':1}')
  ).broken('error')
  t.same(
    message?.tool_calls.map(({ id, name, args }) => ({ id, name, args })),
    [
      { id: 'c0', name: 'look', args: { n: 0 } },
      { id: 'c1', name: 'find', args: { m: 1 } }
    ]
  )
})

t.test('no arguments at all are an empty object once the model has said that it is done', async (t) => {
  t.same(parseArgs(''), {})
  t.same(parseArgs(' {"a":1} '), { a: 1 })
  for (const text of ['{', '[]', 'null', '1', '"a"', 'undefined']) t.equal(parseArgs(text), null, text)
})

t.test('however a call is cut into pieces, and wherever it is broken off, it is one or the other kind', async (t) => {
  const property = fc.property(
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }),
    fc.array(fc.nat(60), { maxLength: 6 }),
    fc.nat(80),
    (args, cuts, end) => {
      const text = JSON.stringify(args)
      const told = text.slice(0, end)
      const partial = built(piece(0, '', 'c1', 'look'))
      const at = [...new Set([0, ...cuts.filter((cut) => cut < told.length), told.length])].sort((a, b) => a - b)
      for (let i = 1; i < at.length; i++)
        partial.fold({ type: 'delta', messageId: 'm1', model: 'm', ...piece(0, told.slice(at[i - 1], at[i])) })
      const message = partial.broken('error')!
      if (told === text) return message.tool_calls.length === 1 && message.invalid_tool_calls.length === 0
      return message.tool_calls.length === 0 && message.invalid_tool_calls[0]?.args === told
    }
  )
  t.doesNotThrow(() => fc.assert(property))
})
