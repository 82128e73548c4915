// Joining by a snapshot: one frame with how the run stands, and then only what follows it.
import t from 'tap'
import { readPosition } from '../../lib/run/log/frame.ts'
import { storedSnapshot } from '../../lib/run/log/rebuild-partial.ts'
import type { Run } from '../../lib/base/types.ts'
import { aCall } from '../fixtures/agent.ts'
import { ANN, Room, type Told, toldTo } from '../fixtures/room.ts'
import { loopTurns, until } from '../fixtures/until.ts'
import { FakeWire } from '../fixtures/wire.ts'

const ALL = ['values', 'messages-tuple', 'custom']

async function snapshot(room: Room, run: Run, modes = ALL, last?: string): Promise<FakeWire> {
  const wire = new FakeWire()
  await room.registry.readers.join(run, { wire, reader: ANN, modes, position: readPosition(last), isSnapshot: true })
  return wire
}

interface Shown {
  readonly run_id: string
  readonly values: { readonly messages?: { readonly content: string }[] } | null
  readonly partial: { readonly content: string; readonly id: string }[]
}

/** What a snapshot frame holds: this service wrote it. */
const shown = ({ data }: Told) => JSON.parse(data) as Shown
const said = (all: readonly Told[]) =>
  all
    .filter(({ event }) => event === 'messages')
    .map(({ data }) => (JSON.parse(data) as [{ content: string }])[0].content)
const words = (one: Shown) => one.values?.messages?.map(({ content }) => content)

t.test('one frame says how the run stands, and only what follows it comes after', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 100; i++) stage.say(`${i} `)
  const wire = await snapshot(room, run)
  const [first, ...none] = toldTo(wire)
  t.equal(first!.event, 'snapshot')
  t.same(none, [])
  // Metadata, the values of the input, a hundred deltas.
  t.equal(first!.n, 101)
  const { run_id, partial } = shown(first!)
  t.equal(run_id, run.run_id)
  t.same(words(shown(first!)), ['question'])
  t.match(partial, [{ type: 'AIMessageChunk', id: 'answer' }])
  t.equal(partial[0]!.content, Array.from({ length: 100 }, (_, i) => `${i} `).join(''))
  stage.say('more')
  await until(() => toldTo(wire).length > 1, 'what follows')
  t.same(said(toldTo(wire)), ['more'])
  stage.finish()
  await room.ended(run)
  t.equal(toldTo(wire).at(-1)!.event, 'end')
})

t.test('what is stored while a snapshot is made of the stored log comes after it', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  const { store } = room.gate
  const { frames } = store
  const isStored = (n: number) => until(async () => ((await frames.bounds(run.key))?.last ?? -1) >= n, `${n} is stored`)
  stage.say('before ')
  // Metadata, the values of the input, what was said.
  await isStored(2)
  const read = room.gate.holdReads()
  const making = storedSnapshot({ ...store, states: room.states }, run)
  // Its bounds are known, and its frames wait to be read.
  await loopTurns()
  stage.say('meanwhile')
  await isStored(3)
  read()
  const made = await making
  t.equal(made!.next, 3)
  t.strictSame(
    made!.partial.map(({ content }) => content),
    ['before ']
  )
})

t.test('thoughts and pieces of calls are in it, and messages that are whole but in no checkpoint yet', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  stage.think('hm')
  stage.callPiece({ index: 0, id: 'c0', name: 'look', args: '{"a"' })
  const [first] = toldTo(await snapshot(room, run))
  t.match(shown(first!).partial, [
    {
      content: '',
      additional_kwargs: { reasoning_content: 'hm' },
      tool_call_chunks: [{ index: 0, id: 'c0', name: 'look', args: '{"a"' }]
    }
  ])
  stage.reply('I look', { tool_calls: [aCall('c0')] })
  stage.sink.record({ type: 'tool_start', call: aCall('c0') })
  stage.use(aCall('c0'), 'found')
  const [second] = toldTo(await snapshot(room, run))
  t.same(shown(second!).partial, [])
  t.same(words(shown(second!)), ['question', 'I look', 'found'])
})

t.test('a run that waits shows the state of its thread, and then its own frames', async (t) => {
  const room = await Room.open(t)
  const first = await room.ask({ text: 'one' })
  const stage = await room.agent.stage(first)
  const second = await room.ask({ text: 'two', multitask_strategy: 'enqueue' })
  const wire = await snapshot(room, second)
  t.same(words(shown(toldTo(wire)[0]!)), ['one'])
  t.equal(toldTo(wire)[0]!.n, 0)
  stage.finish()
  await room.ended(first)
  const next = await room.agent.stage(second)
  next.finish()
  await room.ended(second)
  t.same(
    toldTo(wire).map(({ event, n }) => [event, n]),
    [
      ['snapshot', 0],
      ['values', 1],
      ['end', null]
    ]
  )
})

t.test('a run that was cancelled before its turn has left no state', async (t) => {
  const room = await Room.open(t)
  await room.ask({ text: 'one' })
  const second = await room.ask({ text: 'two', multitask_strategy: 'enqueue' })
  room.registry.ends.cancel(second.run_id, 'interrupt')
  await room.ended(second)
  const all = toldTo(await snapshot(room, await room.row(second)))
  t.same(
    all.map(({ event }) => event),
    ['snapshot', 'end']
  )
  t.match(shown(all[0]!), { values: null, partial: [] })
})

t.test('an ended run shows the state that it has left, at its last position, and ends', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  stage.say('fine')
  stage.reply('fine')
  stage.finish()
  const row = await room.ended(run)
  const later = await room.ask({ text: 'later' })
  await room.agent.stage(later)
  const wire = await snapshot(room, row)
  const all = toldTo(wire)
  t.same(
    all.map(({ event }) => event),
    ['snapshot', 'end']
  )
  t.match(wire.text, `id: ${row.last_cursor}\n`)
  t.same(words(shown(all[0]!)), ['question', 'fine'], 'and not what the thread has become since')
})

t.test('who names a frame goes on after it; who names nothing that there is begins with a snapshot', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 10; i++) stage.say(`${i} `)
  const seen = await room.join(run, ALL)
  const id = /id: (\d+-5)\n/.exec(seen.text)![1]!
  t.same((await snapshot(room, run, ALL, id)).ns, [6, 7, 8, 9, 10, 11])
  for (const last of ['-1', '0', 'garbage', '1-99999'])
    t.equal(toldTo(await snapshot(room, run, ALL, last))[0]!.event, 'snapshot', last)
})

t.test('what is behind memory is neither needed nor read', async (t) => {
  const room = await Room.open(t, { windowBytes: 1000 })
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 500; i++) stage.say(`${i} `)
  await until(() => room.registry.find(run.run_id)!.log.first > 400, 'frames leave memory')
  const go = room.gate.holdReads()
  const wire = await snapshot(room, run)
  t.equal(
    shown(toldTo(wire)[0]!).partial[0]!.content.length,
    Array.from({ length: 500 }, (_, i) => `${i} `).join('').length
  )
  go()
})

t.test('with durability sync it goes out when all that it shows is stored', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask({ asks: { durability: 'sync' } })
  const stage = await room.agent.stage(run)
  await until(() => room.registry.find(run.run_id)!.log.head >= 2, 'the beginning is stored')
  room.gate.hold()
  stage.say('not stored')
  const wire = await snapshot(room, run)
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(wire.text, '')
  room.gate.release()
  await until(() => wire.text !== '', 'it is shown')
  t.equal(shown(toldTo(wire)[0]!).partial[0]!.content, 'not stored')
})

t.test('mode messages: what follows is whole, without the log being read from its beginning', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 100; i++) stage.say(`${i} `)
  const wire = await snapshot(room, run, ['messages'])
  stage.say('and more')
  await until(() => toldTo(wire).length > 2, 'what follows')
  const partial = toldTo(wire).at(-1)!
  t.equal(partial.event, 'messages/partial')
  t.match((JSON.parse(partial.data) as { content: string }[])[0]!.content, /^0 1 2 .*98 99 and more$/)
})

t.test(
  'wherever it is joined, snapshot and deltas meet without a gap or a repeat; it costs the text once',
  async (t) => {
    const room = await Room.open(t, { windowBytes: 4000 })
    const run = await room.ask()
    const stage = await room.agent.stage(run)
    const wires: { wire: FakeWire; at: number }[] = []
    let text = ''
    for (let i = 0; i < 20_000; i++) {
      const piece = `${i} `
      text += piece
      if (!stage.say(piece)) await stage.sink.space()
      // Another moment each time, some of them in turns in which much else happens.
      if ((i * 7919) % 97 === 0) wires.push({ wire: await snapshot(room, run, ['messages-tuple']), at: text.length })
      if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const late = await snapshot(room, run, ['messages-tuple'])
    stage.reply(text)
    stage.finish()
    await room.ended(run)
    t.ok(wires.length > 200)
    await until(() => wires.every(({ wire }) => wire.ending === 'ended'), 'all have the end')
    const wrong = wires.filter(({ wire }) => {
      const all = toldTo(wire)
      return (shown(all[0]!).partial[0]?.content ?? '') + said(all).join('') !== text
    })
    t.same(wrong, [])
    t.ok(late.text.length < text.length * 1.2, `${late.text.length} bytes for a text of ${text.length}`)
  }
)

t.test(
  'a snapshot that had to wait is followed by every frame behind it, also by those that left memory meanwhile',
  async (t) => {
    const room = await Room.open(t, { windowBytes: 1000, pendingBytes: 0 })
    const run = await room.ask({ asks: { durability: 'sync' } })
    const stage = await room.agent.stage(run)
    await room.committer.drained()
    room.gate.hold()
    stage.say('before')
    const wire = await snapshot(room, run)
    t.equal(wire.text, '', 'nothing is shown that is not stored')
    for (let i = 0; i < 500; i++) stage.say(`word ${i} `)
    room.gate.release()
    await room.committer.drained()
    stage.finish()
    const row = await room.ended(run)
    await until(() => wire.ending === 'ended', 'all is told')
    const [first, ...others] = toldTo(wire)
    t.equal(first!.event, 'snapshot')
    t.same(shown(first!).partial[0]!.content, 'before')
    const last = Number(row.last_cursor!.split('-')[1])
    t.same(
      others.slice(0, -1).map(({ n }) => n),
      Array.from({ length: last - first!.n! }, (_, i) => first!.n! + 1 + i)
    )
  }
)

t.test('a snapshot that is made of a long stored log leaves the loop to others between its reads', async (t) => {
  const room = await Room.open(t)
  const run = await room.ask()
  const stage = await room.agent.stage(run)
  for (let i = 0; i < 20; i++) {
    stage.say(`${i} `)
    await room.committer.drained()
  }
  const { frames } = room.gate.inner
  let turn = 0
  const timer = setInterval(() => {
    turn++
  }, 1)
  t.teardown(() => clearInterval(timer))
  const readIn: number[] = []
  const read: typeof frames.read = async (key, from) => {
    readIn.push(turn)
    for (const end = performance.now() + 5; performance.now() < end; );
    return frames.read(key, from, 1)
  }
  const made = await storedSnapshot({ ...room.gate.store, frames: { ...frames, read }, states: room.states }, run)
  t.match(made!.partial, [{ content: Array.from({ length: 20 }, (_, i) => `${i} `).join('') }])
  // The beginning of the run may lie in the first segment, or have one of its own.
  t.ok(readIn.length >= 20, `${readIn.length} reads`)
  t.equal(new Set(readIn).size, readIn.length, 'timers go on between them')
})
