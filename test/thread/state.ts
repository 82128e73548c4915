// The state of a thread: texts kept once, numbers never given twice, the same bytes wherever it is rendered.
import { randomUUID } from 'node:crypto'
import t from 'tap'
import type { StoredCheckpoint } from '../../lib/store/store.ts'
import { checkpointId } from '../../lib/thread/thread.ts'
import { MessageInvalid, readMessages as readAll } from '../../lib/conversation/message.ts'
import { idOfText, State, storedJson } from '../../lib/thread/state.ts'
import { inRanges } from '../../lib/conversation/state.ts'
import { displayName, titleOf } from '../../lib/thread/title.ts'
import type { Json, Message } from '../../lib/base/types.ts'

const readMessages = (given: Json) => readAll(given, randomUUID)
const say = (id: string, content = id) => readMessages([{ role: 'user', content, id }])
const head = {
  thread_id: 't',
  checkpoint_id: 'c',
  parent_checkpoint_id: null,
  run_id: null,
  created_at: 'now',
  metadata: {},
  next: []
}

/** What a store gives back of a state. */
function stored(state: State): StoredCheckpoint {
  const { checkpoint } = state.toCheckpoint(head)
  const texts = new Map(checkpoint.bodies.map(({ no, json }) => [no, json]))
  const numbers = checkpoint.messages.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, i) => from + i))
  return {
    ...checkpoint,
    messageBodies: numbers.map((no) => ({ no, json: texts.get(no)! })),
    channelBodies: Object.entries(checkpoint.channels).map(([name, no]) => ({ name, no, json: texts.get(no)! })),
    nextBody: Math.max(-1, ...texts.keys()) + 1
  }
}

t.test('the id of a stored message is its own, whatever else in it is called so', async (t) => {
  const call = { id: 'call', name: 'n', args: { id: 'arg' }, type: 'tool_call' }
  const messages = [
    { type: 'human', content: 'a', id: 'm' },
    { id: 'm', content: [{ type: 'text', text: '"id":"other"', id: 7 }] },
    { content: [{ id: 7 }, { id: 'block' }], tool_calls: [call], id: 'm' },
    { content: '\\"id":"other"', 'strange"id': 'x', id: 'm' },
    { content: '{"id":"other"}', id: 'm' }
  ]
  for (const message of messages) t.equal(idOfText(JSON.stringify(message)), 'm', JSON.stringify(message))
  for (const id of ['', 'say "id":', 'back\\slash', 'ü\u2028', '\ud800', '\0'])
    t.ok(idOfText(JSON.stringify({ id, content: '' })) === id)
  t.equal(idOfText('{ "content": "", "id" : "spaced" }'), 'spaced')
})

t.test('numbers in a row are one range: a thread that only grows costs the same at every length', async (t) => {
  t.same(inRanges([]), [])
  t.same(inRanges([0, 1, 2, 7, 8, 3]), [
    [0, 2],
    [7, 8],
    [3, 3]
  ])
  const long = State.empty.withMessages(Array.from({ length: 1000 }, (_, i) => say(`m${i}`)).flat())
  t.same(long.toCheckpoint(head).checkpoint.messages, [[0, 999]])
})

t.test(
  'a message with a known id takes the place of the old one; remove takes it out; __remove_all__ clears',
  async (t) => {
    const ids = (state: State) => state.messages().map((message) => `${message.id}:${message.content}`)
    const two = State.empty.withMessages([...say('a'), ...say('b')])
    t.same(ids(two.withMessages(say('a', 'new'))), ['a:new', 'b:b'])
    t.same(ids(two.withMessages([{ type: 'remove', id: 'a' }])), ['b:b'])
    t.same(ids(two.withMessages([{ type: 'remove', id: '__remove_all__' }, ...say('c')])), ['c:c'])
  }
)

t.test('only what is new is written, and no number is given twice, not even after a rollback', async (t) => {
  const first = State.empty.withMessages(say('a')).toCheckpoint(head)
  t.same(
    first.checkpoint.bodies.map(({ no }) => no),
    [0]
  )
  const second = first.saved.withMessages(say('b')).withChannels({ title: 'T' }).toCheckpoint(head)
  t.same(
    second.checkpoint.bodies.map(({ no }) => no),
    [1, 2]
  )
  const back = first.saved.following(second.saved).withMessages(say('c')).toCheckpoint(head)
  t.same(
    back.checkpoint.bodies.map(({ no }) => no),
    [3]
  )
  t.same(back.checkpoint.messages, [
    [0, 0],
    [3, 3]
  ])
})

t.test('a state is the same bytes in memory and from the store, whatever the characters', async (t) => {
  const text = 'a\u0000b \u2028 "quoted" 😀'
  const state = State.empty.withMessages(say('a', text)).withChannels({ title: text, todos: [{ x: null }] })
  t.equal(storedJson(stored(state)), state.json())
  t.equal((JSON.parse(state.json()) as { title: string }).title, text)
  t.equal(State.fromStored(stored(state)).json(), state.json())
})

t.test('channels of the runtime are never shown', async (t) => {
  const state = State.empty.withChannels({ __pregel_tasks: [1], title: 'x' })
  t.equal(state.json(), '{"title":"x"}')
  t.equal(storedJson(stored(state)), '{"title":"x"}')
})

t.test('checkpoint ids sort by time as texts, also within a millisecond and when the clock goes back', async (t) => {
  const ids = [
    ...Array.from({ length: 5000 }, () => checkpointId(null, 1_800_000_000_000)),
    checkpointId(null, 1_700_000_000_000),
    checkpointId(null, 1_900_000_000_000)
  ]
  t.same([...ids].sort(), ids)
  t.equal(new Set(ids).size, ids.length)
  t.match(ids[0], /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

t.test('a checkpoint id is greater than its parent, whatever clock that was made by', async (t) => {
  const ahead = checkpointId(null, Date.now() + 86_400_000)
  const parent = `${ahead.slice(0, 15)}fff-8000-000000000000`
  const child = checkpointId(parent)
  t.ok(child > parent, `${child} follows ${parent}`)
  t.ok(checkpointId(child) > child)
  t.ok(checkpointId('1f0-strange') > child, 'what is none of ours is not looked at')
})

t.test('roles become types, bare texts are human, missing ids are given', async (t) => {
  const read = readMessages([
    'hi',
    { role: 'assistant', content: 'a' },
    { role: 'developer', content: 's' },
    { content: [{ type: 'text', text: 'b' }] }
  ])
  t.same(
    read.map((message) => message.type),
    ['human', 'ai', 'system', 'human']
  )
  t.ok(read.every((message) => message.id.length > 10))
})

t.test('what is no message is refused with its index', async (t) => {
  const all: Json[] = [
    42,
    null,
    [],
    { role: 'nonsense', content: 'x' },
    { role: 'user' },
    { role: 'user', content: { a: 1 } },
    { role: 'tool', content: 'x' },
    { type: 'remove' }
  ]
  for (const bad of all) {
    try {
      readMessages(['fine', bad])
      t.fail(JSON.stringify(bad))
    } catch (error) {
      t.type(error, MessageInvalid)
      t.equal(error instanceof MessageInvalid && error.index, 1)
    }
  }
})

t.test('a title is the first words of the first human message, within its bounds', async (t) => {
  const options = { enabled: true, max_words: 3, max_chars: 12 }
  const messages = (content: string) =>
    readMessages([
      { role: 'system', content: 's' },
      { role: 'user', content }
    ]) as Message[]
  t.equal(titleOf(messages('  tell me about otters  '), options), 'tell me abou')
  t.equal(titleOf(messages('😀😀😀😀😀😀😀😀😀😀😀😀😀😀'), options), '😀'.repeat(12))
  t.equal(titleOf(messages('   '), options), null)
  t.equal(titleOf([], options), null)
  t.equal(displayName(''), null)
  t.equal(displayName(7), null)
  t.equal([...displayName('ü'.repeat(1000))!].length, 256)
})
